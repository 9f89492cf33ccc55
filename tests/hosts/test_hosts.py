"""Two tests of tests/hosts under valgrind: the library is opened, used and closed without a leak.
`make sanitize` runs all of them with LeakSanitizer."""

import os
import shutil

import pytest

from support import run


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("name, rounds", [("unload", 2), ("threads", 1)])
def test_valgrind(build_folder, library, name, rounds):
    program = build_folder / f"tests/hosts/host_test_{name}"
    if not program.exists():
        pytest.skip("the C tests were not built")
    run("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--keep-debuginfo=yes",
        program, timeout=300, env=dict(
            os.environ, GSC_TEST_LIBRARY=str(library), GSC_TEST_ROUNDS=str(rounds)))
