"""Programs of an earlier or a later minor version run with this library, and
tools/abi_check.py notices what would break them.

Today's interface is frozen into a temporary folder, beside those that abi/ holds, so that the
promise is tested before the first release, too."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from abi_check import asserts
from header import PUBLIC, read
from support import ROOT, run

CLIENTS = ROOT / "tests/abi"
STRICT = "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
SONAME = "libgsplat_c.so.1"


@pytest.fixture(autouse=True)
def tools():
    for tool in ("cc", "nm", "readelf"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture(scope="module")
def baselines(tmp_path_factory):
    """The frozen interfaces, oldest first; the last one is today's or what it should be."""
    folder = tmp_path_factory.mktemp("abi") / "abi"
    shutil.copytree(ROOT / "abi", folder)
    frozen = subprocess.run(["sh", ROOT / "scripts/abi-freeze.sh", folder], capture_output=True,
                            text=True, check=False)
    assert frozen.returncode == 0 or "is frozen already" in frozen.stderr, frozen.stderr
    return sorted(folder.glob("[0-9]*"),
                  key=lambda path: [int(part) for part in path.name.split(".")])


def empty_library(folder, include, version_script, soname=SONAME):
    """A library with these headers' functions, all empty."""
    source, library = folder / "reference.c", folder / "libgsplat_c.so"
    lines = ['#include "gsplat_c.h"']
    for function in read(PUBLIC, include=include).functions:
        given = ", ".join(f"{part.type} {part.name}" for part in function.parts) or "void"
        body = "" if function.type == "void" else " return 0; "
        lines.append(f"{function.type} {function.name}({given}) {{{body}}}\n")
    source.write_text("\n".join(lines))
    run("cc", "-std=c11", "-w", "-shared", "-fPIC", f"-I{include}", source,
        f"-Wl,-soname,{soname}", f"-Wl,--version-script={version_script}", "-o", library)
    return library


# ------------------------------------------------------------------- programs


def build(client, include, linked, folder):
    program = folder / client.stem
    run("cc", *STRICT, f"-I{include}", client, linked, "-lm", "-o", program)
    return program


def run_with(library, program, folder):
    """Runs it with `library`, under any file name, in place of the soname."""
    loaded = folder / "loaded"
    loaded.mkdir()
    (loaded / SONAME).symlink_to(library.resolve())
    environment = {**os.environ, "LD_LIBRARY_PATH": str(loaded)}
    assert run(program, env=environment) == "ok\n"


def test_a_program_of_a_frozen_version_runs(baselines, library, tmp_path):
    """Compiled and linked with that version's headers and symbols: only the library is today's."""
    for base in baselines:
        folder = tmp_path / base.name
        folder.mkdir()
        client = CLIENTS / f"client_{base.name.replace('.', '_')}.c"
        then = empty_library(folder, base / "include", base / "libgsplat_c.map")
        program = build(client, base / "include", then, folder)
        run_with(library, program, folder)


def test_the_program_of_1_0_uses_all_of_1_0(baselines, tmp_path):
    base = baselines[0]
    then = empty_library(tmp_path, base / "include", base / "libgsplat_c.map")
    program = build(CLIENTS / "client_1_0.c", base / "include", then, tmp_path)
    wanted = {line.split()[-1]
              for line in run("nm", "-D", "--undefined-only", program).splitlines()}
    offered = {line.split()[-1].replace("@@", "@")
               for line in run("nm", "-D", "--defined-only", then).splitlines()
               if " A " not in line}
    assert len(offered) >= 28
    assert offered <= wanted
    source = (CLIENTS / "client_1_0.c").read_text() + (CLIENTS / "client_scene.h").read_text()
    structs = re.findall(r"^\} (gsc_\w+);", (base / "include/gsplat_c.h").read_text(), flags=re.M)
    assert [name for name in structs if name not in source] == []


@pytest.mark.parametrize("client", sorted(CLIENTS.glob("client_[0-9]*.c")),
                         ids=lambda path: path.stem)
def test_a_program_compiles_with_todays_headers(client, library, tmp_path):
    program = build(client, ROOT / "include", library, tmp_path)
    run_with(library, program, tmp_path)


def widened_headers(folder):
    """Today's headers, with `uint64_t added_later[3]` at the end of every struct of theirs."""
    shutil.copytree(ROOT / "include", folder / "include")
    header = folder / "include/gsplat_c.h"
    text, count = re.subn(r"^\} (gsc_\w+);", r"    uint64_t added_later[3];\n} \1;",
                          header.read_text(), flags=re.M)
    assert count >= 13
    header.write_text(raise_minor(text))
    return folder / "include"


def raise_minor(text):
    text, count = re.subn(r"(#define GSC_ABI_MINOR) (\d+)",
                          lambda found: f"{found[1]} {int(found[2]) + 1}", text)
    assert count == 1
    return text


@pytest.mark.parametrize("name", ["client_1_0", "client_newer"])
def test_a_program_of_a_later_version_runs(name, library, tmp_path):
    """With larger structs: accepted while new fields are zero, otherwise an error."""
    include = widened_headers(tmp_path)
    program = build(CLIENTS / f"{name}.c", include, library, tmp_path)
    run_with(library, program, tmp_path)


# ---------------------------------------------------------------------- layout

SYSTEMS = ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu", "x86_64-windows-msvc",
           "x86_64-windows-gnu", "arm64-apple-macos"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_layout_is_the_same_on_every_64_bit_system(baselines, system, tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    (tmp_path / "string.h").write_text("void *memset(void *, int, __SIZE_TYPE__);\n")
    source = tmp_path / "asserts.c"
    for base in baselines:
        source.write_text(asserts(base / "include"))
        run("clang", f"--target={system}", "-std=c11", "-ffreestanding", "-fsyntax-only",
            "-Wpadded", "-Werror", f"-I{tmp_path}", f"-I{ROOT / 'include'}", source)


# ------------------------------------------------------------------- abi_check


def check(library, include, baselines):
    result = subprocess.run(
        [sys.executable, ROOT / "tools/abi_check.py", library, include, baselines[0].parent],
        capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_library_and_headers_keep_the_promise(baselines, library):
    code, said = check(library, ROOT / "include", baselines)
    assert code == 0, said
    for base in baselines:
        assert f"keeps what {base.name} promises" in said


class Interface:
    """A copy of the newest headers and version script, for a test to change."""

    def __init__(self, baselines, folder):
        self.baselines, self.folder, self.soname = baselines, folder, SONAME
        self.header = (baselines[-1] / "include/gsplat_c.h").read_text()
        self.dlpack = (baselines[-1] / "include/gsplat_c/dlpack.h").read_text()
        self.map = (baselines[-1] / "libgsplat_c.map").read_text()

    def replace(self, pattern, new, where="header"):
        text, count = re.subn(pattern, new, getattr(self, where), flags=re.M)
        assert count == 1, (pattern, count)
        setattr(self, where, text)

    def drop(self, name):
        self.replace(rf"^GSC_API [^;]*\b{name}\([^;]*;", "")
        self.replace(f"    {name};\n", "", "map")

    def add(self, name):
        self.replace("#ifdef __cplusplus\n}\n",
                     f"GSC_API gsc_status {name}(gsc_context *context);\n#ifdef __cplusplus\n}}\n")
        self.map += f"GSPLAT_C_1.99 {{ global: {name}; }} GSPLAT_C_1.0;\n"

    def add_to_closed_node(self):
        self.add("gsc_new")
        self.header = raise_minor(self.header)
        self.map = self.map.split("GSPLAT_C_1.99")[0].replace("global:", "global: gsc_new;", 1)

    def check(self):
        include = self.folder / "include"
        shutil.copytree(self.baselines[-1] / "include", include)
        (include / "gsplat_c.h").write_text(self.header)
        (include / "gsplat_c/dlpack.h").write_text(self.dlpack)
        script = self.folder / "symbols.map"
        script.write_text(self.map)
        library = empty_library(self.folder, include, script, self.soname)
        return check(library, include, self.baselines)


def move_to_another_node(interface):
    interface.replace("    gsc_knn;\n", "", "map")
    interface.map += "GSPLAT_C_1.99 { global: gsc_knn; } GSPLAT_C_1.0;\n"


def another_soname(interface):
    interface.soname = "libgsplat_c.so.2"


def type_in_a_struct_that_grew(interface):
    interface.replace(r"\bint32_t k;", "uint32_t k;")
    interface.replace("} gsc_knn_args;", "    int64_t added_later;\n} gsc_knn_args;")


def swap(pattern, new, where="header"):
    return lambda interface: interface.replace(pattern, new, where)


BREAKS = {
    "a field removed": (swap(r"^ *float radius_clip;.*\n", ""), "radius_clip"),
    "a field inserted": (swap("^(?= *float radius_clip;)", "    float inserted;\n"),
                         "radius_clip"),
    "two fields swapped": (swap(r"tan_fovx;(.*\n.*)tan_fovy;", r"tan_fovy;\1tan_fovx;"),
                           "gsc_raster_args.tan_fovx"),
    "a field's type": (swap(r"\bint32_t sh_degree;", "uint32_t sh_degree;"), "sh_degree"),
    "a field's type, and another field added": (type_in_a_struct_that_grew, "gsc_knn_args.k is"),
    "a field's width": (swap(r"\bsize_t state_bytes;", "uint32_t state_bytes; uint32_t more;"),
                        "state_bytes"),
    "what a field points to": (swap(r"const DLTensor \*radii;", "const float *radii;"), "radii"),
    "a callback's arguments": (swap("size_t bytes, size_t alignment,", "size_t bytes,"), "alloc"),
    "an argument removed": (swap(r"^(GSC_API gsc_status gsc_knn\(.*), void \*stream", r"\1"),
                            "gsc_knn"),
    "an argument's type": (swap(r"device_type, int32_t \*count", "device_type, int64_t *count"),
                           "gsc_device_count"),
    "a result's type": (swap("GSC_API uint32_t gsplat", "GSC_API uint64_t gsplat"), "abi_version"),
    "a function removed": (lambda interface: interface.drop("gsc_mark_visible"),
                           "gsc_mark_visible"),
    "a function in another version": (move_to_another_node, "gsc_knn"),
    "a flag's value": (swap("PIXEL_LAST = 1u << 3", "PIXEL_LAST = 1u << 9"), "PIXEL_LAST is 8"),
    "a status code's value": (swap("GSC_ERROR_LAYOUT = 4", "GSC_ERROR_LAYOUT = 17"),
                              "GSC_ERROR_LAYOUT is 4"),
    "the soname": (another_soname, "SONAME"),
    "a tensor's layout": (swap("int32_t device_id;", "int64_t device_id;", "dlpack"), "DLDevice"),
    "a device's number": (swap("kDLROCM = 10", "kDLROCM = 11", "dlpack"), "kDLROCM"),
    "another major version": (swap("GSC_ABI_MAJOR 1", "GSC_ABI_MAJOR 2"), "major version 2"),
}
FREEZE = {
    "a function added to a frozen version": (lambda interface: interface.add("gsc_new"), "gsc_new"),
    "a function added to a closed node": (Interface.add_to_closed_node, "gsc_new@@GSPLAT_C_1.0"),
    "a field added to a frozen version": (swap("} gsc_limits;", "    int64_t more;\n} gsc_limits;"),
                                          "needs a new minor"),
}


@pytest.mark.parametrize("change", [*BREAKS, *FREEZE])
def test_a_break_is_noticed(baselines, change, tmp_path):
    interface = Interface(baselines, tmp_path)
    edit, named = {**BREAKS, **FREEZE}[change]
    edit(interface)
    if change in BREAKS:
        interface.header = raise_minor(interface.header)  # which allows none of these
    code, said = interface.check()
    assert code == 1, said
    assert named in said


def test_a_later_minor_may_add(baselines, tmp_path):
    interface = Interface(baselines, tmp_path)
    interface.header = raise_minor(interface.header)
    interface.add("gsc_new")
    for struct in ("gsc_raster_args", "gsc_limits", "gsc_adam_group", "gsc_raster_info",
                   "gsc_allocator"):
        interface.replace(f"}} {struct};", f"    int64_t added_later;\n}} {struct};")
    interface.replace("GSC_ADAM_DECOUPLED = 1u << 0", "GSC_ADAM_NEW = 2, GSC_ADAM_DECOUPLED = 1")
    interface.replace("GSC_ERROR_INTERNAL = 16", "GSC_ERROR_INTERNAL = 16, GSC_ERROR_NEW = 17")
    interface.replace("kDLROCM = 10", "kDLLater = 99, kDLROCM = 10", "dlpack")
    code, said = interface.check()
    assert code == 0, said
    for base in baselines:
        assert f"keeps what {base.name} promises" in said
