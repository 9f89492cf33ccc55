"""Programs that are built against the installed library as users do."""

import re
import shutil

import pytest

from installation import example
from support import ROOT, run

PICTURE = "P3 320 240 255\n"
VERSION = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text()).group(1)


def test_files(installed_windows):
    files = {str(path.relative_to(installed_windows.prefix))
             for path in installed_windows.prefix.rglob("*") if path.is_file()}
    assert files == {
        "bin/gsplat_c.dll", "bin/gsplat-c.exe",
        "include/gsplat_c.h", "include/gsplat_c.hpp", "include/gsplat_c/bindings.h",
        "include/gsplat_c/dlpack.h", "share/licenses/gsplat_c/LICENSE",
        "lib/gsplat_c.lib", "lib/gsplat_c.dll.a", "lib/gsplat_c.def",
        "lib/pkgconfig/gsplat_c.pc", "lib/cmake/gsplat_c/gsplat_c-config.cmake",
        "lib/cmake/gsplat_c/gsplat_c-config-version.cmake",
    }


def test_mingw(installed_windows, tool, wine, tmp_path):
    flags = installed_windows.pkg_config("--cflags", "--libs")
    program = tmp_path / "host.exe"
    tool("gcc", "-std=c11", example("three_splats.c"), *flags, "-static", "-o", program)
    assert wine(program, libraries=installed_windows.prefix / "bin").startswith(PICTURE)


def test_opened_at_run_time(installed_windows, tool, wine, tmp_path):
    program = tmp_path / "host.exe"
    tool("gcc", "-std=c11", f"-I{installed_windows.prefix / 'include'}",
         example("plugin_host.c"), "-static", "-o", program)
    said = wine(program, "splats.ppm", libraries=installed_windows.prefix / "bin", cwd=tmp_path)
    assert said == f"drawn by gsplat_c {VERSION}\n"
    assert wine(program, "splats.ppm", libraries="", cwd=tmp_path) == "drawn without gsplat_c\n"


def test_command(installed_windows, wine):
    """The command lies beside its library and needs no other folder."""
    command = installed_windows.prefix / "bin/gsplat-c.exe"
    assert wine(command, "--version", libraries="") == f"gsplat-c {VERSION}\n"


CMAKE = """
cmake_minimum_required(VERSION 3.18)
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
set(CMAKE_EXE_LINKER_FLAGS -static)
project(host LANGUAGES C)
find_package(gsplat_c 0.9 REQUIRED CONFIG)
add_executable(host "{source}")
target_link_libraries(host PRIVATE gsplat_c::gsplat_c)
add_custom_command(TARGET host POST_BUILD COMMAND ${{CMAKE_COMMAND}} -E copy
    $<TARGET_FILE:gsplat_c::gsplat_c> $<TARGET_FILE_DIR:host>)
"""


def test_cmake(installed_windows, tool, wine, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    tool("gcc", "--version")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(source=example("three_splats.c")))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build",
        f"-Dgsplat_c_DIR={installed_windows.libraries / 'cmake/gsplat_c'}")
    run("cmake", "--build", tmp_path / "build")
    assert wine(tmp_path / "build/host.exe", libraries="").startswith(PICTURE)


# Without a C library, since Microsoft's is unavailable.
MSVC_PROGRAM = """
#include "gsplat_c.h"
__declspec(dllimport) void __stdcall ExitProcess(unsigned code);
void start(void);
void start(void) {
    int32_t count = 0;
    if (gsplat_c_abi_version() != GSC_ABI_VERSION) ExitProcess(1);
    if (gsc_device_count(kDLCPU, NULL) != GSC_ERROR_INVALID_ARGUMENT) ExitProcess(2);
    if (gsc_last_error()[0] != 'd') ExitProcess(3);
    if (gsc_device_count(kDLCPU, &count) != GSC_OK || count != 1) ExitProcess(4);
    ExitProcess(0);
}
"""


def test_microsofts_way(installed_windows, wine, tmp_path):
    """Compiled as by MSVC, and linked with gsplat_c.lib by a linker with MSVC's command line."""
    for program in ("clang", "lld-link", "llvm-dlltool"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "string.h").write_text("#include <stddef.h>\nvoid *memset(void *, int, size_t);\n")
    (tmp_path / "host.c").write_text(MSVC_PROGRAM)
    (tmp_path / "kernel32.def").write_text("LIBRARY kernel32.dll\nEXPORTS\n    ExitProcess\n")
    run("llvm-dlltool", "-m", "i386:x86-64", "-d", tmp_path / "kernel32.def",
        "-l", tmp_path / "kernel32.lib")
    run("clang", "--target=x86_64-pc-windows-msvc", "-std=c11", "-fms-extensions", "-nostdlibinc",
        "-isystem", tmp_path, f"-I{installed_windows.prefix / 'include'}", "-c",
        tmp_path / "host.c", "-o", tmp_path / "host.obj")
    run("lld-link", "/subsystem:console", "/entry:start", "/nodefaultlib",
        f"/out:{tmp_path / 'host.exe'}", tmp_path / "host.obj", tmp_path / "kernel32.lib",
        installed_windows.libraries / "gsplat_c.lib")
    wine(tmp_path / "host.exe", libraries=installed_windows.prefix / "bin")
