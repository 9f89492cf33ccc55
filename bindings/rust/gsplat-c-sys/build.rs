//! Finds the library to link: in the folder named by `GSPLAT_C_LIB_DIR`, or, with the feature
//! `bundled`, compiled here, or with pkg-config.  Does nothing without the feature `link`.

use std::{env, process::Command};

fn main() {
    for name in ["GSPLAT_C_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let wanted = env::var_os("CARGO_FEATURE_LINK").is_some();
    if !wanted || env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Ok(folder) = env::var("GSPLAT_C_LIB_DIR") {
        search(&folder);
        println!("cargo::rustc-link-lib=gsplat_c");
        return;
    }
    #[cfg(feature = "bundled")]
    let found = bundled::compile().map_err(|reason| format!("libgsplat_c was not built: {reason}"));
    #[cfg(not(feature = "bundled"))]
    let found = pkg_config().map_err(|reason| {
        format!(
            "libgsplat_c was not found: {reason}. Install it, name its folder by \
             GSPLAT_C_LIB_DIR, let the feature bundled compile it, or load it at run time: \
             default-features = false, and with gsplat-c-sys the feature dlopen"
        )
    });
    if let Err(message) = found {
        println!("cargo::error={message}");
    }
}

/// A folder for the linker, which dependents see as `DEP_GSPLAT_C_LIB_DIR`.
fn search(folder: &str) {
    println!("cargo::rustc-link-search=native={folder}");
    println!("cargo::metadata=lib_dir={folder}");
}

/// Links what pkg-config says, for a library with the bindings' major version and at least their
/// minor.
#[cfg_attr(feature = "bundled", allow(dead_code))]
fn pkg_config() -> Result<(), String> {
    let number = |name| env::var(name).unwrap_or_default().parse().unwrap_or(0);
    let (major, minor): (u32, u32) =
        (number("CARGO_PKG_VERSION_MAJOR"), number("CARGO_PKG_VERSION_MINOR"));
    let package = [format!("gsplat_c >= {major}.{minor}"), format!("gsplat_c < {}", major + 1)];
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program)
        .arg("--libs")
        .args(package)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.trim().replace('\n', "; "));
    }
    for flag in words(&String::from_utf8_lossy(&output.stdout)) {
        if let Some(folder) = flag.strip_prefix("-L") {
            search(folder);
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={name}");
        }
    }
    Ok(())
}

/// The words of a shell's line, whose blanks may be escaped by a backslash.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut letters) = (Vec::new(), String::new(), line.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next()),
            letter if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// The library for the CPU, from the sources in the folder `c`, as meson.build compiles them.
#[cfg(feature = "bundled")]
mod bundled {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    pub fn compile() -> Result<(), String> {
        println!("cargo::rerun-if-changed=c");
        let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
        if target("OS") != "linux" {
            return Err(format!("the feature bundled is for Linux, not {}", target("OS")));
        }
        let folder = Path::new("c/src");
        let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
        write_config(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        let list = read(&folder.join("cpu/instruction_sets.txt"))?;
        let (mut names, mut objects) = (String::new(), Vec::new());
        for (name, flags) in instruction_sets(&list, &target("ARCH")) {
            names += &format!("ISA({name}) ");
            // The optimiser may contract to fused multiply-adds, except in project.c.
            for (file, contraction) in [("cpu_isa", "fast"), ("project", "off")] {
                let object = compiler(&out)
                    .flags(["-fno-trapping-math", &format!("-ffp-contract={contraction}")])
                    .flags(flags.split_whitespace())
                    .define("GSC_ISA", name)
                    .file(folder.join(format!("cpu/{file}.c")))
                    .out_dir(out.join(name)) // objects have the names of their sources
                    .try_compile_intermediates()
                    .map_err(|error| error.to_string())?;
                objects.extend(object);
            }
        }
        let sources = read(&folder.join("sources.txt"))?;
        let mut library = compiler(&out);
        library
            .flag("-ffp-contract=off")
            .define("GSC_ISAS", names.trim())
            .files(sources.lines().map(|name| folder.join(name)))
            .files(["os/system_posix.c", "cpu/dispatch.c"].map(|name| folder.join(name)))
            .objects(objects);
        library.try_compile("gsplat_c").map_err(|error| error.to_string())?;
        for name in ["m", "dl", "pthread"] {
            println!("cargo::rustc-link-lib={name}");
        }
        Ok(())
    }

    fn read(path: &Path) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Name and compiler flags of each, from lines of `ARCHITECTURE NAME FLAG..`.
    fn instruction_sets<'l>(list: &'l str, arch: &str) -> Vec<(&'l str, &'l str)> {
        let lines = list.lines().filter_map(|line| line.strip_prefix(arch)?.strip_prefix(' '));
        let found: Vec<_> = lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        if found.is_empty() { vec![("baseline", "")] } else { found }
    }

    /// Optimised in debug builds too: without, nothing is fast enough to be useful.
    fn compiler(out: &Path) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .std("c11")
            .opt_level(3)
            .warnings(false)
            .flags(["-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"])
            // -iquote and not -I: some headers are named as the system's.
            .flags(["-iquote", "c/src"])
            .include("c/include")
            .include(out)
            .define("GSC_BUILDING_LIBRARY", None);
        build
    }

    /// What meson writes.
    fn write_config(out: &Path) -> std::io::Result<()> {
        let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
        let text = format!(
            "#define GSC_VERSION_STRING \"{version}\"\n\
             #define GSC_BUILD_COMPILER __VERSION__\n\
             #define GSC_BUILD_TYPE \"bundled\"\n"
        );
        fs::write(out.join("build_config.h"), text)
    }
}
