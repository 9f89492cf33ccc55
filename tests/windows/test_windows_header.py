"""The header with the compilers of Windows."""

import shutil

import pytest

from abi_check import asserts
from support import ROOT, run

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
PROGRAM = """
#include "gsplat_c.h"
#include "gsplat_c.h"
uint32_t version(void);
uint32_t version(void) {
    GSC_INIT(gsc_raster_args, args);
    gsc_context_desc desc;
    DLDevice cpu = {kDLCPU, 0};
    gsc_context_desc_init(&desc, cpu);
    return args.struct_size == sizeof args ? gsplat_c_abi_version() : desc.abi_version;
}
"""
# The part of the C library that the header uses, since Microsoft's is unavailable.
STRING_H = """
#include <stddef.h>
#ifdef __cplusplus
extern "C"
#endif
void *memset(void *to, int value, size_t bytes);
"""
COMPILERS = {
    "mingw-w64": ["x86_64-w64-mingw32-gcc"],
    "msvc": ["clang", "--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=19.30",
             "-fms-extensions", "-nostdlibinc"],
}


@pytest.fixture(params=COMPILERS)
def compile_text(request, tmp_path):
    """Checks a source text in a language, with the header on the path."""
    compiler = COMPILERS[request.param]
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    folders = [f"-I{ROOT / 'include'}"]
    if request.param == "msvc":
        (tmp_path / "stubs").mkdir()
        (tmp_path / "stubs/string.h").write_text(STRING_H)
        folders += ["-isystem", tmp_path / "stubs"]

    def check(text, language, *options):
        cxx = language.startswith("c++")
        source = tmp_path / ("program.cc" if cxx else "program.c")
        source.write_text(text)
        run(*compiler, "-x", "c++" if cxx else "c", f"-std={language}", *options, *folders,
            "-fsyntax-only", source)

    return check


@pytest.mark.parametrize("language", ["c11", "c17", "c++11", "c++17"])
@pytest.mark.parametrize("use", [[], ["-DGSC_STATIC"], ["-DGSC_BUILDING_LIBRARY"]])
def test_compiles(compile_text, language, use):
    compile_text(PROGRAM, language, *WARNINGS, *use)


def test_layout(compile_text):
    """Offsets, sizes, types and constants are the same as on every 64-bit system."""
    text = asserts(ROOT / "include")
    assert text.count("_Static_assert") > 100
    compile_text(text, "c11")
