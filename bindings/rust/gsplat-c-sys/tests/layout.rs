//! The bindings are what a C compiler makes of the header: every struct's size, every field's
//! offset and size, every constant.

use gsplat_c_sys::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The size of what a raw pointer points to.
const fn pointee_size<T>(_: *const T) -> usize {
    size_of::<T>()
}

/// A C program that prints `name value` lines, and the values that the bindings have.
#[derive(Default)]
struct Facts {
    program: String,
    ours: BTreeMap<String, i64>,
}

impl Facts {
    fn add(&mut self, name: &str, c: &str, value: i64) {
        self.program += &format!("    printf(\"{name} %lld\\n\", (long long)({c}));\n");
        self.ours.insert(name.into(), value);
    }
}

macro_rules! structs {
    ($($name:ident { $($field:ident,)* })*) => {
        fn structs(facts: &mut Facts) {
            $({
                let name = stringify!($name);
                let place = std::mem::MaybeUninit::<$name>::uninit();
                facts.add(name, &format!("sizeof({name})"), size_of::<$name>() as i64);
                $({
                    let field = stringify!($field);
                    let offset = std::mem::offset_of!($name, $field) as i64;
                    // SAFETY: only the address of the field is formed.
                    let size = pointee_size(unsafe { &raw const (*place.as_ptr()).$field });
                    facts.add(&format!("{name}.{field}"), &format!("offsetof({name}, {field})"), offset);
                    facts.add(&format!("sizeof {name}.{field}"), &format!("sizeof((({name} *)0)->{field})"), size as i64);
                })*
            })*
        }
    };
}

macro_rules! constants {
    ($($name:ident,)*) => {
        fn constants(facts: &mut Facts) {
            $(facts.add(stringify!($name), stringify!($name), i64::from($name));)*
        }
    };
}

include!("header/names.rs");

mod of_dlpack {
    use super::*;
    structs! {
        DLDevice { device_type, device_id, }
        DLDataType { code, bits, lanes, }
        DLTensor { data, device, ndim, dtype, shape, strides, byte_offset, }
    }
    constants! { kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged, kDLInt, kDLUInt, kDLFloat, kDLBool, }

    pub fn add(facts: &mut Facts) {
        structs(facts);
        constants(facts);
    }
}

fn header_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include")
}

/// Compiles and runs the program in a folder that goes again.
fn run_c(program: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("layout.c"), program).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(compiler)
        .current_dir(&folder)
        .args(["-std=c11", "layout.c", "-o", "layout", "-I"])
        .arg(header_folder())
        .status();
    assert!(compiled.expect("no C compiler").success());
    let output = Command::new(folder.join("layout")).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bindings_match_the_header() {
    if !header_folder().exists() {
        return eprintln!("skipped: not in the repository, where the header is");
    }
    let mut facts = Facts::default();
    structs(&mut facts);
    constants(&mut facts);
    of_dlpack::add(&mut facts);
    let printed = run_c(&format!(
        "#include \"gsplat_c.h\"\n#include <stdio.h>\nint main(void) {{\n{}    return 0;\n}}\n",
        facts.program
    ));
    let theirs: BTreeMap<String, i64> = printed
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.into(), value.parse().unwrap()))
        .collect();
    assert!(theirs.len() > 300, "{} facts only", theirs.len());
    let different: Vec<String> = theirs
        .iter()
        .filter(|(name, value)| facts.ours[*name] != **value)
        .map(|(name, value)| format!("{name}: {value}, not {}", facts.ours[name]))
        .collect();
    assert!(different.is_empty(), "the header says {different:#?}");
}

#[test]
fn managed_tensors_are_laid_out_as_dlpack_says() {
    assert_eq!(std::mem::offset_of!(DLManagedTensor, dl_tensor), 0);
    assert_eq!(std::mem::offset_of!(DLManagedTensor, manager_ctx), 48);
    assert_eq!(size_of::<DLManagedTensor>(), 64);
    assert_eq!(std::mem::offset_of!(DLManagedTensorVersioned, manager_ctx), 8);
    assert_eq!(std::mem::offset_of!(DLManagedTensorVersioned, flags), 24);
    assert_eq!(std::mem::offset_of!(DLManagedTensorVersioned, dl_tensor), 32);
    assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
}

#[test]
#[cfg(feature = "link")]
fn the_library_has_the_abi_of_the_bindings() {
    // SAFETY: it takes nothing.
    let found = unsafe { (Api::LINKED.gsplat_c_abi_version)() };
    assert_eq!(found >> 16, GSC_ABI_MAJOR);
    assert!((GSC_ABI_MINOR..).contains(&(found & 0xffff)));
}
