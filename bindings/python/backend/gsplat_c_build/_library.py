"""Builds the shared library by meson, and tells on which systems it will run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig

# For users: neither debugging information nor a symbol table.
OPTIONS = ("-Dbuildtype=release", "-Dc_link_args=-s", "-Dtests=disabled", "-Dtools=disabled")
LEAST_GLIBC = (2, 17)  # the oldest that anybody still installs wheels on
STAMP = "gsplat_c_build.txt"


def missing_tools():
    """Requirements for what the system lacks."""
    found = [("meson>=1.0", _meson_version(_environment()) >= [1, 0]),
             ("ninja", shutil.which("ninja"))]
    return [requirement for requirement, have in found if not have]


def _meson_version(environment):
    if shutil.which("meson") is None:
        return [0]
    done = subprocess.run(["meson", "--version"], env=environment, capture_output=True, text=True,
                          check=False)
    return [int(part) for part in re.findall(r"\d+", done.stdout)[:2]]


def _environment():
    """The one that meson works in.

    While pip builds, PYTHONPATH hides the packages of the environment that pip is in, which
    may be meson's too.
    """
    environment = dict(os.environ)
    if not _meson_version(environment):
        environment.pop("PYTHONPATH", None)
    return environment


def build(root, folder, options):
    """Configures and builds; returns the path of the library.

    A folder that was made here with other options is made anew, since meson would keep what
    is not given again; one that was made by hand is taken as it is.
    """
    environment = _environment()
    stamp, wanted = folder / STAMP, "\n".join(options)
    if stamp.exists() and stamp.read_text() != wanted:
        shutil.rmtree(folder)
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, root, *options], check=True,
                       env=environment)
        stamp.write_text(wanted)
    subprocess.run(["meson", "compile", "-C", folder, "gsplat_c"], check=True,
                   env=environment)
    return folder / "libgsplat_c.so"


def platform_tag(library):
    """manylinux by the highest glibc symbol that the library needs (PEP 600)."""
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    needed = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", library.read_bytes())
    if not platform.startswith("linux_") or not needed:
        return platform
    major, minor = max(LEAST_GLIBC, *((int(major), int(minor)) for major, minor in needed))
    return platform.replace("linux", f"manylinux_{major}_{minor}")
