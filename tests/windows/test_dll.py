"""The dependencies, exports and properties of the DLL and the command."""

import re

import pytest

from header import exported_symbols
from support import ROOT

SYSTEM = {"KERNEL32.dll", "msvcrt.dll"}


def public_names():
    """The symbols that the version script exports."""
    names = set(exported_symbols(ROOT / "src/libgsplat_c.map"))
    assert len(names) > 20
    return sorted(names)


@pytest.fixture(scope="module")
def headers(windows, tool):
    return lambda name: tool("objdump", "-p", windows / name)


def test_exports(headers):
    table = headers("gsplat_c.dll").partition("[Ordinal/Name Pointer] Table")[2]
    assert re.findall(r"^\s*\[ *\d+\] (\S+)$", table, flags=re.M) == public_names()


def test_import_libraries(windows, tool):
    for name in ("gsplat_c.lib", "gsplat_c.dll.a"):
        symbols = tool("nm", "-g", "--defined-only", windows / name)
        assert sorted(re.findall(r" T (\w+)$", symbols, flags=re.M)) == public_names(), name
    definition = (windows / "gsplat_c.def").read_text().split()
    assert definition == ["LIBRARY", "gsplat_c.dll", "EXPORTS", *public_names()]


@pytest.mark.parametrize("name, own", [("gsplat_c.dll", set()),
                                       ("tools/gsplat-c.exe", {"gsplat_c.dll"})])
def test_imports(headers, name, own):
    """Nothing has to be installed: no DLL of the compiler, no C++, no CUDA."""
    assert set(re.findall(r"DLL Name: (\S+)", headers(name))) == SYSTEM | own


def test_hardened(headers):
    """Any address, no code in data, 64 bits."""
    flags = headers("gsplat_c.dll")
    for flag in ("DYNAMIC_BASE", "NX_COMPAT", "HIGH_ENTROPY_VA"):
        assert flag in flags


def test_wide_vectors_need_no_alignment(windows, tool):
    """The stack is aligned to 16 bytes; meson.build explains why that matters."""
    aligned, unaligned = r"vmov(?:ap[sd]|dqa\d*)\s", r"vmov(?:up[sd]|dqu\d*)\s"
    wide_in_memory = r"(?=.*%[yz]mm)(?=.*\()"
    code = tool("objdump", "-d", "--no-show-raw-insn", windows / "gsplat_c.dll")
    assert not re.findall(aligned + wide_in_memory, code)
    assert len(re.findall(unaligned + wide_in_memory, code)) > 100
    assert not re.findall(r"\bv?movnt\w+\s", code)


def test_device_code(windows):
    """The same files as in a build for Linux, byte for byte."""
    images = [*windows.glob("cuda/*.cubin"), *windows.glob("cuda/*.ptx")]
    if not images:
        pytest.skip("built for the CPU only")
    library = (windows / "gsplat_c.dll").read_bytes()
    for image in images:
        assert image.read_bytes() in library, image.name
