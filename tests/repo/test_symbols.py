"""The shared library exports the header's functions, and depends on nothing unusual."""

import re
import shutil

import pytest

from abi_check import exported
from header import BINDINGS, PUBLIC, map_nodes, read
from support import ROOT, run

HIGHEST_GLIBC = (2, 27)
ALLOWED_LIBRARIES = re.compile(r"^(libc|libm|ld-linux-[\w-]+|libpthread|libdl|librt)\.so\.\d+$")


@pytest.fixture(autouse=True)
def tools():
    for tool in ("nm", "readelf"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture(params=["library", "command"])
def binary(request, library):
    path = library if request.param == "library" else library.parent / "tools/gsplat-c"
    if not path.exists():
        pytest.skip(f"{path} does not exist")
    return path


def elf_machine(binary):
    return {62: "x86_64", 183: "aarch64"}[int.from_bytes(binary.read_bytes()[18:20], "little")]


def header_functions():
    names = [function.name for function in read(PUBLIC, BINDINGS).functions]
    text = "".join((ROOT / "include" / name).read_text() for name in (PUBLIC, BINDINGS))
    assert len(names) == len(re.findall(r"^GSC_API ", text, flags=re.M)), "not understood"
    assert len(set(names)) == len(names), "declared twice"
    return set(names)


def test_header_map_and_library_agree(library):
    declared = header_functions()
    nodes = map_nodes(ROOT / "src/libgsplat_c.map")
    listed = set().union(*nodes.values())
    assert sum(len(names) for names in nodes.values()) == len(listed), "in two nodes"
    assert listed == declared
    assert exported(library) == {n: node for node, names in nodes.items() for n in names}


def test_prefixes():
    for name in header_functions():
        assert name.startswith("gsc_") or name == "gsplat_c_abi_version"
        assert not name.startswith("gsc__")


def test_soname_and_needed_libraries(library):
    dynamic = run("readelf", "-d", library)
    assert re.findall(r"SONAME.*\[(.*)\]", dynamic) == ["libgsplat_c.so.1"]
    for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
        assert ALLOWED_LIBRARIES.match(needed), f"the library needs {needed}"
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic)


def test_hardening(binary):
    dynamic = run("readelf", "-d", binary)
    assert "TEXTREL" not in dynamic
    assert re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", dynamic)
    segments = run("readelf", "-lW", binary)
    assert "GNU_RELRO" in segments
    stack = re.search(r"GNU_STACK.*", segments)
    assert stack and " RWE " not in stack.group(0) and " RW " in stack.group(0)
    loaded = re.findall(r"LOAD\s.*", segments)
    assert loaded and not [line for line in loaded if re.search(r" R?WE ", line)]
    imported = set(re.findall(r"\w+", run("nm", "-D", "--undefined-only", binary)))
    assert "__stack_chk_fail" in imported
    assert [name for name in imported if re.fullmatch(r"__\w+_chk", name)], "not fortified"
    # Functions begin with an instruction that marks the target of a branch: endbr64 or paciasp.
    mark = {"x86_64": "f30f1efa", "aarch64": "3f2303d5"}[elf_machine(binary)]
    assert binary.read_bytes().count(bytes.fromhex(mark)) > 100


def test_glibc_floor(binary):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", binary))
    if not versions:
        pytest.skip("not linked with glibc")
    highest = max((int(major), int(minor)) for major, minor in versions)
    assert highest <= HIGHEST_GLIBC
