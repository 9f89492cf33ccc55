"""An installed tree, and programs built against it as users do."""

import os
import shutil

import pytest

from support import ROOT, run

STRICT = "-Wall -Wextra -Wpedantic -Wshadow -Werror".split()


class Installation:
    """The tree that `meson install` made below root; the prefix may be any folder in it."""

    def __init__(self, root):
        self.root = root
        (self.header,) = root.rglob("gsplat_c.h")
        self.prefix = self.header.parents[1]
        (description,) = root.rglob("gsplat_c.pc")
        self.libraries = description.parents[1]
        self.environment = dict(
            os.environ,
            PKG_CONFIG_PATH=str(description.parent),
            PKG_CONFIG_SYSROOT_DIR=str(root),
            LD_LIBRARY_PATH=str(self.libraries),
        )

    def has(self, name):
        return (self.libraries / name).exists()

    def pkg_config(self, *options):
        return run("pkg-config", *options, "gsplat_c", env=self.environment).split()

    def build(self, source, program, *more, static=False):
        """Compiles a source file with what pkg-config says and nothing else, or links the
        archive with what it says for static linking."""
        cxx = source.suffix == ".cpp"
        compiler = os.environ.get("CXX", "c++") if cxx else os.environ.get("CC", "cc")
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        flags = self.pkg_config("--cflags", "--libs", *(["--static"] if static else []))
        if static:
            flags = [str(self.libraries / "libgsplat_c.a") if flag == "-lgsplat_c" else flag
                     for flag in flags]
        language = "-std=c++17" if cxx else "-std=c11"
        run(compiler, language, *STRICT, source, *more, *flags, "-o", program)
        return program

    def run(self, *command, **options):
        return run(*command, env=self.environment, **options)


def install(build, folder):
    for tool in ("meson", "pkg-config", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not (build / "build.ninja").exists():
        pytest.skip(f"{build} is not a build folder")
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
    return Installation(folder)


def example(name):
    return ROOT / "examples" / ("cpp" if name.endswith(".cpp") else "c") / name
