"""The generated files of the Rust crates match the header."""

import re
import sys

from support import ROOT, run


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
