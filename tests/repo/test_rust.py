"""The Rust crates match the header, and their packages build elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

from header import PUBLIC, read
from support import ROOT, run

HEADER = read(PUBLIC)


def test_bindings_are_up_to_date():
    run(sys.executable, ROOT / "tools/make_bindings.py", "--check")


def test_crates_have_the_version_of_the_library():
    # A build against crate 1.N requires library 1.N.
    crates = (ROOT / "bindings/rust/Cargo.toml").read_text()
    library = (ROOT / "meson.build").read_text()
    version = re.compile(r"""^\s*version\s*[=:]\s*["']([\d.]+)["']""", re.M)
    assert version.search(crates).group(1) == version.search(library).group(1)
    for name in ("gsplat-c", "gsplat-c-sys"):
        assert "version.workspace = true" in (ROOT / f"bindings/rust/{name}/Cargo.toml").read_text()


@pytest.fixture(scope="module")
def safe_crate():
    """The words of the safe crate's sources, without comments."""
    sources = (ROOT / "bindings/rust/gsplat-c/src").glob("*.rs")
    text = re.sub(r"//.*", "", "".join(path.read_text() for path in sources))
    return set(re.findall(r"\w+", text))


@pytest.mark.parametrize("struct", HEADER.structs, ids=lambda struct: struct.name)
def test_safe_crate_reaches_every_field(safe_crate, struct):
    fields = {field.name for field in struct.parts} - {"struct_size", "reserved", "layout"}
    assert struct.name in safe_crate
    assert fields <= safe_crate


def test_safe_crate_reaches_every_function_and_constant(safe_crate):
    names = {each.name for each in HEADER.functions + HEADER.constants}
    # Set by the bindings, or the absence of an error.
    assert names - {"GSC_ABI_MAJOR", "GSC_ABI_MINOR", "gsc_status_name"} <= safe_crate


# ------------------------------------------------------------------------------ packages

MANIFEST = """
[package]
name = "host"
version = "0.1.0"
edition = "2024"
[features]
bundled = ["gsplat-c/bundled"]
[dependencies]
gsplat-c = "0.9"
[patch.crates-io]
gsplat-c = {{ path = "{folder}/gsplat-c-{version}" }}
gsplat-c-sys = {{ path = "{folder}/gsplat-c-sys-{version}" }}
[workspace]
"""
PROGRAM = """
use gsplat_c::{Context, Device, Knn, Library};
fn main() -> gsplat_c::Result<()> {
    let mut mean2 = [0.0f32; 3];
    let points = [[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]];
    Knn::new(&points).k(1).mean2(&mut mean2).run(&Context::new(Device::Cpu)?)?;
    assert_eq!(mean2, [1.0, 1.0, 4.0]);
    println!("{}", Library::get()?.build_info());
    Ok(())
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Builds a program outside of the repository on the packages of both crates; returns the build
    information that it prints."""
    crates = ROOT / "bindings/rust"
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    if tuple(map(int, run("cargo", "--version").split()[1].split(".")[:2])) < (1, 90):
        pytest.skip("packages of crates that need each other: cargo 1.90")
    fetched = ["cargo", "fetch", "--quiet", "--offline", "--locked"]
    if subprocess.run(fetched, cwd=crates, capture_output=True, check=False).returncode != 0:
        pytest.skip("the crates that the Rust crates need are not fetched: scripts/rust.sh test")
    folder = tmp_path_factory.mktemp("host")
    run("cargo", "package", "--quiet", "--workspace", "--offline", "--locked", "--allow-dirty",
        "--no-verify", "--target-dir", folder / "target", cwd=crates)
    packages = sorted((folder / "target/package").glob("*.crate"))
    assert len(packages) == 2
    for package in packages:
        with tarfile.open(package) as files:
            assert not [each.name for each in files if each.issym() or "/gpu/" in each.name]
            files.extractall(folder)
        inside = folder / package.stem
        assert (inside / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
        assert (inside / "README.md").read_text() == (crates / "README.md").read_text()
    version = packages[0].stem.rpartition("-")[2]
    (folder / "Cargo.toml").write_text(MANIFEST.format(folder=folder, version=version))
    (folder / "src").mkdir()
    (folder / "src/main.rs").write_text(PROGRAM)

    def host(*options, **environment):
        names = ("GSPLAT_C_LIB_DIR", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR", "RUSTFLAGS")
        clean = {name: value for name, value in os.environ.items() if name not in names}
        return json.loads(run("cargo", "run", "--quiet", "--offline", *options, cwd=folder,
                              env={**clean, **{k: str(v) for k, v in environment.items()}}))

    return host


def built_isas(library):
    text = run(sys.executable, "-c", "import ctypes, sys; f = ctypes.CDLL(sys.argv[1])"
               ".gsc_build_info_json; f.restype = ctypes.c_char_p; print(f().decode())", library)
    return json.loads(text)["cpu_isas"]


def test_bundled_package(host, library):
    """Compiles the library's sources in the package, as meson does."""
    info = host("--features", "bundled", PKG_CONFIG="/nowhere/pkg-config")
    assert info["build_type"] == "bundled" and info["gpu_targets"] == []
    assert info["cpu_isas"] == built_isas(library)


def test_library_in_a_folder_with_a_blank(host, library, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name in ("libgsplat_c.so", "libgsplat_c.so.1"):
        (folder / name).symlink_to(library.resolve())
    info = host(GSPLAT_C_LIB_DIR=folder, LD_LIBRARY_PATH=folder)
    assert info["build_type"] != "bundled"
    (folder / "gsplat_c.pc").write_text(
        f"libdir={str(folder).replace(' ', chr(92) + ' ')}\n"
        "Name: gsplat_c\nDescription: ..\nVersion: 0.9.0\nLibs: -L${libdir} -lgsplat_c\n")
    assert info == host(PKG_CONFIG_PATH=folder, LD_LIBRARY_PATH=folder)


def test_message_without_a_library(host, tmp_path):
    said = r"let the feature bundled compile it, or load it at run time: default-features = false"
    with pytest.raises(AssertionError, match=said):
        host(PKG_CONFIG_LIBDIR=tmp_path, PKG_CONFIG_PATH="")
