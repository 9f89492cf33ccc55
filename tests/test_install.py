"""What `meson install` puts down is enough for a program that knows pkg-config only."""

import os
import pathlib
import shutil

import pytest

from support import ROOT, run


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    build = pathlib.Path(os.environ.get("GSPLAT_C_BUILD", ROOT / "build"))
    for tool in ("meson", "pkg-config", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if not (build / "build.ninja").exists():
        pytest.skip(f"{build} is not a build folder")
    folder = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
    return folder


def pkg_config(installed, *options):
    description = next(installed.rglob("gsplat_c.pc"))
    environment = dict(
        os.environ,
        PKG_CONFIG_PATH=str(description.parent),
        PKG_CONFIG_SYSROOT_DIR=str(installed),
    )
    return run("pkg-config", *options, "gsplat_c", env=environment).split()


def test_pkg_config(installed):
    assert pkg_config(installed, "--variable=abi") == ["1"]
    version = (ROOT / "meson.build").read_text().split("version: '")[1].split("'")[0]
    assert pkg_config(installed, "--modversion") == [version]
    # Users link with the library alone, not with what it is made of.
    libraries = [flag for flag in pkg_config(installed, "--libs") if flag.startswith("-l")]
    assert libraries == ["-lgsplat_c"]


def test_example_builds_and_renders(installed, tmp_path):
    flags = pkg_config(installed, "--cflags", "--libs")
    source = ROOT / "examples/three_splats.c"
    run("cc", "-std=c11", source, *flags, "-o", tmp_path / "example")
    libraries = next(installed.rglob("libgsplat_c.so")).parent
    picture = run(tmp_path / "example", env=dict(os.environ, LD_LIBRARY_PATH=str(libraries)))
    magic, width, height, top, *values = picture.split()
    assert (magic, width, height, top) == ("P3", "320", "240", "255")
    pixels = list(map(int, values))
    assert len(pixels) == 320 * 240 * 3

    def pixel(x, y):
        return pixels[3 * (320 * y + x) : 3 * (320 * y + x) + 3]

    # The background is white; left of the middle red leads, right of it blue.
    assert pixel(0, 0) == [255, 255, 255]
    red, blue = pixel(110, 120), pixel(210, 120)
    assert red[0] > red[1] + 50 and red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50 and blue[2] > blue[1] + 50
