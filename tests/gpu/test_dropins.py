"""The tests of the drop-ins on CUDA tensors: those of the Python package that take a device."""

import os
import subprocess
import sys

import pytest

import golden

TESTS = golden.ROOT / "bindings" / "python" / "tests" / "compat"


@pytest.mark.parametrize("file", ["golden", "forks", "raw", "training"])
def test_dropins(file):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", "cuda",
         str(TESTS / f"test_dropin_{file}.py")],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "GSPLAT_C_GOLDEN": str(golden.folder())})
    assert done.returncode == 0, done.stdout + done.stderr
