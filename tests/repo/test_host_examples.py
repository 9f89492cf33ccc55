"""The C and C++ examples, built against the installed tree by pkg-config alone, or by CMake."""

import json
import re
import shutil
from pathlib import Path

import pytest

from command import COMMAND
from installation import example
from scenes import Png, gaussian, write_cameras, write_scene
from support import ROOT, run

GUITAR = ROOT / "../shared/scenes/guitar.ply"
EYE, TARGET = (4.0, -2.5, -4.5), (0.0, -1.0, 0.0)


@pytest.fixture(scope="module", params=["shared", "static"])
def build(installed, request, tmp_path_factory):
    """Builds an example, with the shared library or the archive."""
    static = request.param == "static"
    if static and not installed.has("libgsplat_c.a"):
        pytest.skip("built without a static library; -Ddefault_library=both")
    folder = tmp_path_factory.mktemp(request.param)

    def build(name, *more):
        program = installed.build(example(name), folder / name.partition(".")[0], *more,
                                  static=static)
        assert ("libgsplat_c" in run("readelf", "-d", program)) != static
        return program

    return build


class Picture:
    """A binary PPM file."""

    def __init__(self, path):
        data = path.read_bytes()
        magic, size = re.match(rb"(P6) (\d+ \d+) 255\n", data).groups()
        self.width, self.height = map(int, size.split())
        self.values = data[-3 * self.width * self.height :]
        assert magic == b"P6" and len(data) == len(self.values) + len(magic + size) + 6

    def pixel(self, x, y):
        at = 3 * (self.width * y + x)
        return tuple(self.values[at : at + 3])


# ------------------------------------------------------------------------- render.c


def camera_at(eye, target):
    """The camera of render.c as a line of cameras.json."""
    def unit(a):
        return [x / sum(y * y for y in a) ** 0.5 for x in a]

    def cross(a, b):
        return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

    forward = unit([t - e for t, e in zip(target, eye)])
    right = unit(cross((0, 1, 0), forward))
    axes = [right, cross(forward, right), forward]
    return {"id": 0, "img_name": "view", "width": 1280, "height": 720, "position": list(eye),
            "rotation": [[axis[row] for axis in axes] for row in range(3)], "fx": 870, "fy": 870}


def check_render(installed, program, scene, folder):
    """The example's picture equals the command's, up to rounding of the camera's matrix."""
    ours, theirs = folder / "view.ppm", folder / "view.png"
    cameras = write_cameras(folder / "cameras.json", camera_at(EYE, TARGET))
    installed.run(program, scene, ours, *EYE, *TARGET)
    run(COMMAND, "render", scene, "--cameras", cameras, "-o", theirs)
    picture, expected = Picture(ours), Png(theirs)
    assert (picture.width, picture.height) == (expected.width, expected.height) == (1280, 720)
    expected = b"".join(expected.rows)
    assert sum(expected) > 500_000  # something is in it
    different = [abs(a - b) for a, b in zip(picture.values, expected) if a != b]
    assert len(different) < len(expected) / 1000 and max(different, default=0) <= 3


def test_render_guitar(installed, build, tmp_path):
    if not GUITAR.exists():
        pytest.skip("the guitar is not there")
    check_render(installed, build("render.c"), GUITAR, tmp_path)


@pytest.mark.parametrize("degree", [1, 3])
def test_render_degrees(installed, build, tmp_path, degree):
    """Direction-dependent colours, in the order in which training stores them."""
    rest = 3 * ((degree + 1) ** 2 - 1)
    fields = "x y z nx ny nz f_dc_0 f_dc_1 f_dc_2".split() + [f"f_rest_{i}" for i in range(rest)]
    fields += "opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3".split()
    rows = []
    for n in range(12):
        row = gaussian((n % 4 - 1.5, n // 4 - 2, n * 0.1), (0.3 + 0.05 * n, 0.5, 0.9 - 0.05 * n),
                       opacity=0.5 + 0.04 * n, scale=0.2 + 0.02 * n)
        values = [0.3 * ((7 * n + 3 * i) % 11 - 5) / 5 for i in range(rest)]
        rows.append(row[:9] + values + row[9:])
    scene = write_scene(tmp_path / "scene.ply", rows, fields)
    check_render(installed, build("render.c"), scene, tmp_path)


def test_render_finds_the_scene(installed, build, tmp_path):
    rows = [gaussian((10, -5, 7), (1, 0, 0), scale=0.3), gaussian((12, -5, 9), (0, 1, 0))]
    scene = write_scene(tmp_path / "scene.ply", rows)
    said = installed.run(build("render.c"), scene, tmp_path / "view.ppm")
    assert said == f"{tmp_path}/view.ppm: 2 Gaussians\n"
    values = Picture(tmp_path / "view.ppm").values
    assert max(values[0::3]) > 100 and max(values[1::3]) > 100 and max(values[2::3]) == 0


@pytest.mark.parametrize("damage, complaint", [
    (lambda data: data[:-1], "cut short"),
    (lambda data: data.replace(b"binary_little", b"ascii"), "expected binary_little_endian"),
    (lambda data: data.replace(b"rot_3", b"rot_4"), "no property rot_3"),
    (lambda data: data.replace(b"float x", b"float w").replace(b"float nx", b"float x"),
     "unusual order"),
    (lambda data: data.replace(b"opacity", b"opacitx"), "no property opacity"),
    (lambda data: data.replace(b"float nx", b"uchar nx"), "expected float properties"),
    (lambda data: data.replace(b"vertex 2", b"vertex -2"), "expected vertices"),
    (lambda data: b"", "no PLY file"),
    (lambda data: data[:60], "the header has no end"),
])
def test_render_refuses(installed, build, tmp_path, damage, complaint):
    scene = write_scene(tmp_path / "scene.ply", [gaussian(), gaussian()])
    scene.write_bytes(damage(scene.read_bytes()))
    program = build("render.c")
    with pytest.raises(AssertionError, match=complaint):
        installed.run(program, scene, tmp_path / "view.ppm")
    assert not (tmp_path / "view.ppm").exists()


# --------------------------------------------------------------------------- others


def test_three_splats(installed, build):
    magic, width, height, top, *values = installed.run(build("three_splats.c")).split()
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


def test_train_step(installed, build):
    steps = re.findall(r"step +(\d+)  loss (\d+\.\d+)\n", installed.run(build("train_step.c")))
    assert [int(step) for step, _ in steps] == [1, *range(25, 151, 25)]
    losses = [float(loss) for _, loss in steps]
    assert losses[0] > 0.1 and losses[-1] < 0.1 * losses[0]


def test_neighbours(installed, build):
    said = installed.run(build("neighbours.cpp"))
    # Mean distance at a density of n: gamma(4/3) (4/3 pi n)^(-1/3), more at the border.
    assert 0.0204 < float(re.search(r"at (\d\.\d+)", said).group(1)) < 0.0210


def cuda_runtime(build_folder):
    """Folder of the CUDA Runtime that the build uses."""
    options = json.loads((build_folder / "meson-info/intro-buildoptions.json").read_text())
    (given,) = (option["value"] for option in options if option["name"] == "cudart")
    found = [Path(given)] if given else []
    found += sorted((ROOT / ".venv/lib").glob("python3*/site-packages/nvidia/cuda_runtime"))
    if not found:
        pytest.skip("no CUDA Runtime")
    return found[0]


def test_render_cuda_without_a_driver(installed, build, build_folder, tmp_path):
    runtime = cuda_runtime(build_folder)
    archive = next(path for folder in ("lib", "lib64")
                   if (path := runtime / folder / "libcudart_static.a").exists())
    headers = ["-isystem", runtime / "include"]
    if not (runtime / "include/crt/host_defines.h").exists():
        headers += ["-isystem", ROOT / "tools/cuda"]
    program = build("render_cuda.c", *headers, archive, "-ldl", "-lrt", "-lpthread")
    environment = dict(installed.environment, GSC_CUDA_LIBRARY=str(tmp_path / "none.so"))
    with pytest.raises(AssertionError, match="context_create: no CUDA driver: .*none.so"):
        run(program, tmp_path / "knot.ppm", env=environment)
    assert not (tmp_path / "knot.ppm").exists()


# --------------------------------------------------------------------- plugin_host.c


@pytest.fixture(scope="module")
def plugin_host(installed, tmp_path_factory):
    """Built with the compiler flags only: it does not link the library."""
    program = tmp_path_factory.mktemp("plugin") / "plugin_host"
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", example("plugin_host.c"),
        *installed.pkg_config("--cflags"), "-o", program)
    assert "libgsplat_c" not in run("readelf", "-d", program)
    return program


def corner_and_middle(path):
    picture = Picture(path)
    return picture.pixel(0, 0), picture.pixel(110, 120)


def test_plugin_host_uses_the_library(installed, plugin_host, tmp_path):
    said = installed.run(plugin_host, tmp_path / "a.ppm")
    assert re.fullmatch(r"drawn by gsplat_c \d+\.\d+\.\d+\n", said)
    corner, red = corner_and_middle(tmp_path / "a.ppm")
    assert corner == (0, 0, 0) and red[0] > red[1] + 50 and 0 < red[0] < 0.9 * 255 - 10
    # By its path too, where the loader would not find it.
    library = installed.libraries / "libgsplat_c.so.1"
    assert said == run(plugin_host, tmp_path / "b.ppm", library)
    assert (tmp_path / "a.ppm").read_bytes() == (tmp_path / "b.ppm").read_bytes()


@pytest.mark.parametrize("library", ["none.so", "other.so", "newer.so", "older.so", "half.so"])
def test_plugin_host_does_without(installed, plugin_host, tmp_path, library):
    """No library, another library, another or no major version, and one that lacks functions."""
    sources = {
        "other.so": "int x;",
        "newer.so": "unsigned gsplat_c_abi_version(void) { return 2u << 16; }",
        "older.so": "unsigned gsplat_c_abi_version(void) { return 7; }",
        "half.so": "#include <gsplat_c.h>\n"
                   "uint32_t gsplat_c_abi_version(void) { return GSC_ABI_VERSION; }\n"
                   "const char *gsc_version(void) { return 0; }\n",
    }
    if library in sources:
        run("cc", "-shared", "-fPIC", *installed.pkg_config("--cflags"), "-x", "c", "-", "-o",
            tmp_path / library, input=sources[library])
    said = run(plugin_host, tmp_path / "a.ppm", tmp_path / library)
    assert said == "drawn without gsplat_c\n"
    corner, red = corner_and_middle(tmp_path / "a.ppm")
    assert corner == (0, 0, 0) and red == (230, 51, 26)


# ---------------------------------------------------------------------------- CMake


def test_cmake_builds_all(installed, tmp_path):
    for tool in ("cmake", "c++"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    run("cmake", "-S", ROOT / "examples", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed.prefix}")
    run("cmake", "--build", tmp_path, "--parallel", "2")
    scene = write_scene(tmp_path / "scene.ply", [gaussian((0, 0, 0)), gaussian((1, 0, 0))])
    assert "2 Gaussians" in run(tmp_path / "render", scene, tmp_path / "view.ppm")
    assert "step 150" in run(tmp_path / "train_step")
    assert run(tmp_path / "three_splats").startswith("P3")
    assert "20000 points" in run(tmp_path / "neighbours")
    assert "drawn" in run(tmp_path / "plugin_host", tmp_path / "splats.ppm")
