"""The generated files of the Rust crates match the header."""

import re
import sys

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
