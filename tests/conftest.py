"""What the Python tests share: where the build is, and how to run a tool."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command, **options):
    """Runs a command and returns its standard output; a failure shows all it said."""
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def library():
    """Path of the shared library: $GSPLAT_C_LIBRARY, else that of build/."""
    path = pathlib.Path(os.environ.get("GSPLAT_C_LIBRARY", ROOT / "build/libgsplat_c.so"))
    if not path.exists():
        pytest.fail(f"{path} does not exist; build first, or set GSPLAT_C_LIBRARY")
    return path


@pytest.fixture(params=["gcc", "clang"])
def compiler(request):
    """Each C compiler of the machine in turn."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param
