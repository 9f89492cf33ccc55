"""The generated files of the Rust crates are what the header gives."""

import sys

from support import ROOT, run


def test_bindings_are_up_to_date():
    run(sys.executable, ROOT / "tools/make_rust_bindings.py", "--check")
