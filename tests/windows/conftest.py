"""The build for Windows that `make windows` makes, and what runs its programs."""

import os
import pathlib
import shutil

import pytest

from installation import install
from support import run

TARGET = "x86_64-w64-mingw32"


@pytest.fixture(scope="session")
def windows():
    """The build folder; without one these tests are skipped."""
    folder = os.environ.get("GSPLAT_C_WINDOWS")
    if not folder:
        pytest.skip("GSPLAT_C_WINDOWS names no build for Windows; see make windows")
    return pathlib.Path(folder)


@pytest.fixture(scope="session")
def tool(windows):
    """Runs a mingw-w64 program."""

    def run_tool(name, *arguments):
        if shutil.which(f"{TARGET}-{name}") is None:
            pytest.skip(f"{TARGET}-{name} is not installed")
        return run(f"{TARGET}-{name}", *arguments)

    return run_tool


@pytest.fixture(scope="session")
def installed_windows(windows, tmp_path_factory):
    return install(windows, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def wine():
    """Runs a Windows program that also finds libraries in the given folder."""
    if shutil.which("wine64") is None:
        pytest.skip("wine64 is not installed")

    def run_program(*command, libraries, **options):
        environment = dict(os.environ, WINEPATH=str(libraries))
        return run("wine64", *command, env=environment, **options)

    return run_program
