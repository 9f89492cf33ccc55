"""A checkout to build packages in, and the quickest way to build them."""

import importlib.util
import os
import shutil
import sys

import pytest

from support import ROOT, run

# No device code, one instruction set, no optimisation.
QUICK = {"GSPLAT_C_CUDA": "0", "GSPLAT_C_MESON_OPTIONS": "-Disa=baseline -Doptimization=0"}
WITHOUT = (*QUICK, "GSPLAT_C_PLATFORMS", "GSPLAT_C_LIBRARY", "PYTHONPATH", "SOURCE_DATE_EPOCH",
           "CFLAGS", "LDFLAGS")
# This Python comes first in the path, and nothing comes from a package index.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in WITHOUT},
    "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_NO_INDEX": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "GSPLAT_C_SYSTEMS": str(ROOT),
}
# The platforms that scripts/cross.sh has been run for, and the systems that their archives name.
PLATFORMS = {platform: system for platform, system, target in (
    ("arm64", "linux-aarch64", "aarch64-linux-gnu"),
    ("windows", "windows-x86_64", "x86_64-w64-mingw32")) if shutil.which(f"{target}-gcc")
    and (ROOT / f"build-{platform}-root/complete").exists()}


def one(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def git(folder, *arguments):
    run("git", "-C", folder, "-c", "user.name=nobody", "-c", "user.email=nobody@example.com",
        *arguments)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=a state")


def clone(checkout, folder):
    run("git", "clone", "--quiet", checkout, folder)
    return folder


def make_checkout(folder):
    """Commits the files as they are here."""
    for tool in ("git", "meson", "ninja", "cc", "sha256sum"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    for module in ("pip", "build", "mesonpy", "auditwheel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"there is no Python package {module}: see tests/requirements-wheel.txt")
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    # The checkout may belong to another user, as it does in many containers.
    listed = run("git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached",
                 "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    run("git", "init", "--quiet", folder)
    commit(folder)
    return folder
