"""Builds the shared library by meson, and tells on which systems it will run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

# For users: neither debugging information nor a symbol table.
OPTIONS = ("-Dbuildtype=release", "-Dc_link_args=-s", "-Dtests=disabled", "-Dtools=disabled")
LEAST_GLIBC = (2, 17)  # the oldest that anybody still installs wheels on
STAMP = "gsplat_c_build.txt"
FILES = ("libgsplat_c.so", "gsplat_c.dll")
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
PE_MACHINES = {0x8664: "amd64", 0xAA64: "arm64"}
CROSS = "--cross-file="


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


def default_folder(root, options):
    """build-wheel, or one of its own for a cross file."""
    cross = [Path(option[len(CROSS):]).stem for option in options if option.startswith(CROSS)]
    return root / "-".join(["build-wheel", *cross])


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
    (library,) = (folder / name for name in FILES if (folder / name).exists())
    return library


def _platform(data):
    """Of the machine that the library is for, which its header names, and not of this one."""
    here = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if data.startswith(b"MZ"):
        header = int.from_bytes(data[0x3C:0x40], "little")
        return f"win_{PE_MACHINES[int.from_bytes(data[header + 4:header + 6], 'little')]}"
    machine = ELF_MACHINES.get(int.from_bytes(data[18:20], "little"))
    if data.startswith(b"\x7fELF") and machine and here.startswith("linux_"):
        return f"linux_{machine}"
    return here


def platform_tag(library):
    """manylinux by the highest glibc symbol that the library needs (PEP 600)."""
    data = library.read_bytes()
    platform = _platform(data)
    needed = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", data)
    if not platform.startswith("linux_") or not needed:
        return platform
    major, minor = max(LEAST_GLIBC, *((int(major), int(minor)) for major, minor in needed))
    return platform.replace("linux", f"manylinux_{major}_{minor}")
