//! Finds the library to link: in the folder named by `GSPLAT_C_LIB_DIR`, or with pkg-config.
//! Does nothing without the feature `link`.

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
        link(&format!("-L{folder} -lgsplat_c"));
        return;
    }
    match pkg_config() {
        Ok(flags) => link(&flags),
        Err(reason) => println!(
            "cargo::error=libgsplat_c was not found: {reason}. Install it, name its folder by \
             GSPLAT_C_LIB_DIR, or build with the feature dlopen instead of link."
        ),
    }
}

/// The linker flags from pkg-config, for a library with the bindings' major version and at least
/// their minor.
fn pkg_config() -> Result<String, String> {
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
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Translates linker flags for cargo; `DEP_GSPLAT_C_LIB_DIR` passes the folder to dependents.
fn link(flags: &str) {
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
            println!("cargo::metadata=lib_dir={folder}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={name}");
        }
    }
}
