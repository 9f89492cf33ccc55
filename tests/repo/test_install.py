"""`meson install` installs all that a host needs, and the folder can be moved anywhere."""

import ctypes
import json
import os
import re
import shutil

import pytest

from installation import Installation, example, install
from packages import ENVIRONMENT, QUICK, clone
from scenes import gaussian, write_scene
from support import ROOT, run

VERSION = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text()).group(1)
MAJOR = int(VERSION.split(".")[0])


def relative_files(installed):
    return {str(path.relative_to(installed.prefix)) for path in installed.prefix.rglob("*")
            if not path.is_dir()}


def test_files(installed, build_folder):
    libraries = str(installed.libraries.relative_to(installed.prefix))
    expected = {"include/gsplat_c.h", "include/gsplat_c.hpp", "include/gsplat_c/bindings.h",
                "include/gsplat_c/dlpack.h", "share/licenses/gsplat_c/LICENSE"}
    expected |= {f"{libraries}/{name}" for name in (
        "libgsplat_c.so", "libgsplat_c.so.1", f"libgsplat_c.so.{VERSION}",
        "pkgconfig/gsplat_c.pc", "cmake/gsplat_c/gsplat_c-config.cmake",
        "cmake/gsplat_c/gsplat_c-config-version.cmake")}
    if (build_folder / "libgsplat_c.a").exists():
        expected.add(f"{libraries}/libgsplat_c.a")
    if (build_folder / "tools/gsplat-c").exists():
        expected |= {"bin/gsplat-c", "share/man/man1/gsplat-c.1"}
    assert relative_files(installed) == expected


def test_make_install(checkout, tmp_path):
    source, prefix = clone(checkout, tmp_path / "clone"), tmp_path / "prefix"
    options = f"{QUICK['GSPLAT_C_MESON_OPTIONS']} -Dtests=disabled -Dexamples=disabled"
    run("make", "install", f"PREFIX={prefix}", cwd=source,
        env={**ENVIRONMENT, **QUICK, "GSPLAT_C_MESON_OPTIONS": options})
    assert VERSION in run(prefix / "bin/gsplat-c", "info", env=ENVIRONMENT)


def test_pkg_config(installed):
    assert installed.pkg_config("--variable=abi") == ["1"]
    assert installed.pkg_config("--modversion") == [VERSION]
    # Users link with the library only, and with libm, which it needs.
    libraries = [flag for flag in installed.pkg_config("--libs") if flag.startswith("-l")]
    assert libraries == ["-lgsplat_c", "-lm"]
    assert "-pthread" not in installed.pkg_config("--libs")


def test_uninstalled(installed, build_folder, tmp_path):
    """A build folder works like an installation."""
    environment = dict(os.environ, PKG_CONFIG_PATH=str(build_folder / "meson-uninstalled"))
    flags = run("pkg-config", "--cflags", "--libs", "gsplat_c", env=environment).split()
    assert f"-L{build_folder}" in flags
    assert not [flag for flag in flags if str(installed.root) in flag]
    run("cc", "-std=c11", example("three_splats.c"), *flags, "-o", tmp_path / "example")
    environment["LD_LIBRARY_PATH"] = str(build_folder)
    assert run(tmp_path / "example", env=environment).startswith("P3 320 240 255\n")


def test_moved(installed, tmp_path):
    """The command finds its library relative to itself, and needs nothing else from this tree."""
    if not (installed.prefix / "bin/gsplat-c").exists():
        pytest.skip("built without the command")
    moved = tmp_path / "moved"
    shutil.copytree(installed.prefix, moved, symlinks=True)
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    report = run(moved / "bin/gsplat-c", "info", env=environment)
    assert report.split()[:2] == ["version", VERSION]
    if shutil.which("ldd"):
        linked = run("ldd", moved / "bin/gsplat-c", env=environment)
        assert f"libgsplat_c.so.1 => {moved}/" in linked.replace("bin/../", "")


def test_manual_page(installed):
    page = installed.prefix / "share/man/man1/gsplat-c.1"
    if not page.exists():
        pytest.skip("built without the command")
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    text = run("man", "-l", "--warnings", page, env=dict(os.environ, MANPAGER="cat", MANWIDTH="80"))
    text = re.sub(".\b", "", text)
    for word in ("gsplat-c render", "gsplat-c info", "gsplat-c bench"):
        assert word in text


# --------------------------------------------------------------- the static library


@pytest.fixture
def archive(installed):
    if not installed.has("libgsplat_c.a"):
        pytest.skip("built without a static library; -Ddefault_library=both")
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    return installed.libraries / "libgsplat_c.a"


def symbols(path, *options):
    return {line.split()[-1] for line in run("nm", *options, path).splitlines()
            if len(line.split()) in (2, 3)}


def test_archive_shows_what_the_shared_library_shows(installed, archive):
    dynamic = symbols(installed.libraries / "libgsplat_c.so", "-D", "--defined-only")
    public = {name.partition("@")[0] for name in dynamic if not name.startswith("GSPLAT_C_")}
    assert symbols(archive, "-g", "--defined-only") == public
    # No symbol of its own is undefined.
    assert not [name for name in symbols(archive, "-u") if name.startswith("gs")]


OWN_NAMES = """
#include <gsplat_c.h>
#include <stdio.h>
/* Names that the library has inside, and ones of no type that it could use. */
int gsc__fail_cuda = 1, gsc__parallel_for = 2, gsc__log = 3, gsc__context_alloc = 4;
int gsc__cpu_backend_baseline = 5, gsc__gpu_backend = 6, gsc__kernel_images = 7, worker_main = 8;
int main(void) {
    int32_t count = 0;
    if (gsc_device_count(kDLCPU, NULL) != GSC_ERROR_INVALID_ARGUMENT) return 1;
    if (gsc_device_count(kDLCPU, &count) || count != 1) return 2;
    puts(gsc_last_error());
    return gsc__fail_cuda + gsc__parallel_for + gsc__log == 6 ? 0 : 3;
}
"""


def test_archive_beside_the_same_names(installed, archive, tmp_path):
    source = tmp_path / "own.c"
    source.write_text(OWN_NAMES)
    program = installed.build(source, tmp_path / "own", static=True)
    assert installed.run(program) == "device_count: count is NULL\n"


def test_archive_in_a_shared_library(installed, archive, tmp_path):
    """A plugin that contains the library: position-independent, without text relocations."""
    source = tmp_path / "plugin.c"
    source.write_text("#include <gsplat_c.h>\n"
                      "const char *plugin_version(void) { return gsc_version(); }\n")
    plugin = installed.build(source, tmp_path / "plugin.so", "-shared", "-fPIC",
                             "-Wl,-z,defs", "-Wl,--exclude-libs,ALL", static=True)
    assert "TEXTREL" not in run("readelf", "-d", plugin)
    assert symbols(plugin, "-D", "--defined-only") == {"plugin_version"}


@pytest.fixture(scope="module")
def only_static(tmp_path_factory):
    """An installation of -Ddefault_library=static, quick to build."""
    for tool in ("meson", "ninja", "cc", "objcopy"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    folder = tmp_path_factory.mktemp("static")
    run("meson", "setup", folder / "build", ROOT, "-Ddefault_library=static", "-Dgpu=disabled",
        "-Disa=baseline", "-Doptimization=0", "-Dtools=disabled", "-Dtests=disabled")
    run("ninja", "-C", folder / "build")
    return install(folder / "build", folder / "root")


def test_only_static(only_static, tmp_path):
    assert not only_static.has("libgsplat_c.so") and only_static.has("libgsplat_c.a")
    # Without a shared library, its dependencies are public.
    program = only_static.build(example("three_splats.c"), tmp_path / "example")
    assert only_static.run(program).startswith("P3 320 240 255\n")
    assert "libgsplat_c" not in run("readelf", "-d", program)


# ------------------------------------------------------------------------- CMake

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(host LANGUAGES C)
find_package(gsplat_c {version} REQUIRED CONFIG)
message(STATUS "found ${{gsplat_c_VERSION}} in ${{gsplat_c_DIR}}")
add_executable(host "{source}")
target_link_libraries(host PRIVATE {target})
"""


def cmake(installed, folder, target="gsplat_c::gsplat_c", version="0.9"):
    """Configures a host of this target; returns what CMake said, and its build folder."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(
        version=version, target=target, source=example("three_splats.c")))
    said = run("cmake", "-S", folder, "-B", folder / "build",
               f"-DCMAKE_PREFIX_PATH={installed.prefix}")
    return said, folder / "build"


@pytest.mark.parametrize("target", ["gsplat_c", "gsplat_c_static"])
def test_cmake_package(installed, tmp_path, target):
    if target == "gsplat_c_static" and not installed.has("libgsplat_c.a"):
        pytest.skip("built without a static library; -Ddefault_library=both")
    shutil.copytree(installed.prefix, tmp_path / "moved", symlinks=True)
    moved = Installation(tmp_path / "moved")
    said, build = cmake(moved, tmp_path / "host", f"gsplat_c::{target}")
    assert f"found {VERSION} in {moved.libraries}/cmake/gsplat_c" in said
    run("cmake", "--build", build)
    # CMake has put the library's folder into the program of a build folder.
    assert run(build / "host").startswith("P3 320 240 255\n")
    needs = "libgsplat_c.so.1" in run("readelf", "-d", build / "host")
    assert needs == (target == "gsplat_c")


def test_cmake_package_of_a_static_library(only_static, tmp_path):
    _, build = cmake(only_static, tmp_path / "host")
    run("cmake", "--build", build)
    assert run(build / "host").startswith("P3 320 240 255\n")


@pytest.mark.parametrize("version, found", [
    ("", True), (MAJOR, True), (f"{VERSION} EXACT", True), (f"{MAJOR}.0...<{MAJOR + 1}", True),
    (f"{MAJOR + 1}", False), (f"{MAJOR + 1}.0...{MAJOR + 2}", False), (f"{MAJOR}.99", False),
    (f"{MAJOR}.99.1 EXACT", False), (f"{MAJOR}.99...<{MAJOR + 1}", False)])
def test_cmake_version(installed, tmp_path, version, found):
    if found:
        cmake(installed, tmp_path / "host", version=version)
    else:
        reason = r"matches\s+requested\s+version|compatible\s+with\s+requested"
        with pytest.raises(AssertionError, match=reason):
            cmake(installed, tmp_path / "host", version=version)


def test_cmake_package_without_its_library(installed, tmp_path):
    shutil.copytree(installed.prefix, tmp_path / "moved", symlinks=True)
    broken = Installation(tmp_path / "moved")
    (broken.libraries / f"libgsplat_c.so.{VERSION}").unlink()
    reason = r"libgsplat_c\.so\.\d+\.\d+\.\d+\s+does\s+not\s+exist"
    with pytest.raises(AssertionError, match=reason):
        cmake(broken, tmp_path / "host")


# ------------------------------------------------- built as a part of another project

FETCH = """
include(FetchContent)
FetchContent_Declare(gsplat_c SOURCE_DIR "{root}")
FetchContent_MakeAvailable(gsplat_c)
"""
SUBDIRECTORY = 'add_subdirectory("{root}" gsplat_c)'
HOST = """
cmake_minimum_required(VERSION 3.18)
project(host LANGUAGES C)
{library}
add_executable(host "{source}")
target_link_libraries(host PRIVATE gsplat_c::gsplat_c)
"""


@pytest.mark.parametrize("kind, way", [("static", SUBDIRECTORY), ("shared", FETCH)])
def test_cmake_builds_the_library(library, tmp_path, kind, way):
    """The same sources for the same instruction sets as meson, in a project of CMake."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    (tmp_path / "CMakeLists.txt").write_text(
        HOST.format(library=way.format(root=ROOT), source=example("render.c")))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-DCMAKE_BUILD_TYPE=Release",
        f"-DBUILD_SHARED_LIBS={'ON' if kind == 'shared' else 'OFF'}")
    run("cmake", "--build", tmp_path / "build", "--parallel", "2")
    scene = write_scene(tmp_path / "scene.ply", [gaussian(), gaussian((1, 0, 1), (0, 1, 0))])
    run(tmp_path / "build/host", scene, tmp_path / "host.ppm")
    built = list((tmp_path / "build").rglob("libgsplat_c.so.0*"))
    assert len(built) == (kind == "shared")
    for path in built:
        assert symbols(path, "-D", "--defined-only") == symbols(library, "-D", "--defined-only")
        ours, theirs = build_information(library), build_information(path)
        for name in ("version", "abi_major", "abi_minor", "real", "cpu_isas"):
            assert theirs[name] == ours[name]
        assert theirs["gpu_targets"] == []


def build_information(library):
    function = ctypes.CDLL(str(library)).gsc_build_info_json
    function.restype = ctypes.c_char_p
    return json.loads(function())


def test_meson_subproject(tmp_path):
    """Another project gets the library and nothing else."""
    (tmp_path / "subprojects").mkdir()
    (tmp_path / "subprojects/gsplat_c").symlink_to(ROOT)
    shutil.copy(example("three_splats.c"), tmp_path / "host.c")
    (tmp_path / "meson.build").write_text(
        "project('host', 'c')\n"
        "gsplat_c = dependency('gsplat_c', fallback: 'gsplat_c')\n"
        "executable('host', 'host.c', dependencies: gsplat_c)\n")
    environment = {**os.environ, "PKG_CONFIG_LIBDIR": ""}
    run("meson", "setup", tmp_path / "build", tmp_path, "-Dgsplat_c:gpu=disabled",
        "-Dgsplat_c:isa=baseline", "-Doptimization=0", env=environment)
    targets = json.loads(run("meson", "introspect", "--targets", tmp_path / "build"))
    built = {target["name"] for target in targets if target["build_by_default"]}
    assert built == {"host", "gsplat_c"}
    run("ninja", "-C", tmp_path / "build")
    assert run(tmp_path / "build/host").startswith("P3 320 240 255\n")
