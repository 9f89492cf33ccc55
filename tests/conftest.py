"""Where the build is, and which compilers there are.  Test modules import from tests/helpers and
tools."""

import os
import pathlib
import shutil
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS / "helpers"), str(TESTS.parent / "tools")]
from installation import install  # noqa: E402
from packages import make_checkout  # noqa: E402
from support import ROOT  # noqa: E402


@pytest.fixture(scope="session")
def library():
    """Path of the shared library: $GSPLAT_C_LIBRARY, or the one in build/."""
    path = pathlib.Path(os.environ.get("GSPLAT_C_LIBRARY", ROOT / "build/libgsplat_c.so"))
    if not path.exists():
        pytest.fail(f"{path} does not exist; build first, or set GSPLAT_C_LIBRARY")
    return path


@pytest.fixture(scope="session")
def build_folder():
    """The build folder: $GSPLAT_C_BUILD, or build/."""
    return pathlib.Path(os.environ.get("GSPLAT_C_BUILD", ROOT / "build"))


@pytest.fixture(scope="session")
def installed(build_folder, tmp_path_factory):
    """An installation of that build."""
    return install(build_folder, tmp_path_factory.mktemp("installed"))


@pytest.fixture(params=["gcc", "clang"])
def compiler(request):
    """Each C compiler of the machine in turn."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A repository of one commit, for tests that build packages."""
    return make_checkout(tmp_path_factory.mktemp("checkout"))
