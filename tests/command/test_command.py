"""The gsplat-c command: its pictures, and how it reads and writes files."""

import re
import shutil
import subprocess

import pytest

from command import COMMAND, OK, RUNTIME, USAGE, call, cameras, in_folder, scene  # noqa: F401
from scenes import FIELDS, Png, camera, gaussian, write_cameras, write_scene


def test_one_picture(scene, cameras, tmp_path):
    out = call("render", scene, "--cameras", cameras, "--camera", "middle", "-o", "out.png")
    lines = out.splitlines()
    assert re.fullmatch(r"\S+scene\.ply  2 Gaussians  SH degree 0  read in [\d.]+ ms", lines[0])
    assert re.fullmatch(r"middle  64x48  [\d.]+ ms  out\.png", lines[1])
    assert len(lines) == 2
    picture = Png(tmp_path / "out.png")
    assert (picture.width, picture.height, picture.bits, picture.channels) == (64, 48, 8, 3)
    red, green, blue = picture.pixel(31, 23)
    # The centre is 0.5 pixels from the pixel centre on both axes: alpha is 0.99 exp(-q / 2)
    # with variance (60 * 0.1 / 3)^2 + 0.3.
    alpha = 0.99 * 2.718281828 ** (-0.5 * 0.5 / (2.0**2 + 0.3))
    assert abs(red - 255 * alpha) < 1 and green == 0 and blue == 0
    red, green, blue = picture.pixel(32 + 15, 24)  # 60 * 1 / 4 to the right
    assert green > 240 and red == 0 and blue == 0
    assert picture.pixel(0, 0) == (0, 0, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cameras.json", "out.png", "scene.ply"]


def test_background(scene, tmp_path):
    call("render", scene, "--background", "0.2,0.5,1", "-o", "out.png", "--size", "40x30")
    assert Png(tmp_path / "out.png").pixel(0, 0) == (51, 128, 255)


def test_size(scene, cameras, tmp_path):
    """Twice the size shows the same view, and a wider picture shows more at the sides."""
    common = ("render", scene, "--cameras", cameras, "--camera", "1", "-o", "out.png", "--size")
    call(*common, "128x96")
    assert Png(tmp_path / "out.png").pixel(64 + 30, 48)[1] > 240
    call(*common, "200x48")
    picture = Png(tmp_path / "out.png")
    assert (picture.width, picture.height) == (200, 48)
    assert picture.pixel(100 + 15, 24)[1] > 240


def test_all_cameras(scene, cameras, tmp_path):
    out = call("render", scene, "--cameras", cameras, "--camera", "all", "-o", "new/pictures")
    names = ["a_b.png", "left.png", "middle.png"]
    assert sorted(p.name for p in (tmp_path / "new/pictures").iterdir()) == names
    listed = [line.split()[-1] for line in out.splitlines()[1:]]
    assert listed == [f"new/pictures/{n}" for n in ("left.png", "middle.png", "a_b.png")]
    left = Png(tmp_path / "new/pictures/left.png")
    assert left.pixel(32 + 10, 24)[0] > 200  # 60 * 0.5 / 3


def test_all_cameras_by_prefix(scene, cameras, tmp_path):
    call("render", scene, "--cameras", cameras, "--camera", "all", "-o", "view.png")
    names = {p.name for p in tmp_path.glob("*.png")}
    assert names == {"view-left.png", "view-middle.png", "view-a_b.png"}


def test_default_output(scene, cameras, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = scene.rename(tmp_path / "elsewhere/point.cloud.ply")
    call("render", moved, "--cameras", cameras)
    assert (tmp_path / "point.cloud.png").exists()
    call("render", moved, "--cameras", cameras, "--camera", "all")
    assert (tmp_path / "point.cloud-left.png").exists()


def test_directory_output(scene, cameras, tmp_path):
    call("render", scene, "--cameras", cameras, "-o", "made/")
    assert (tmp_path / "made/left.png").exists()


def test_names_from_outside(scene, tmp_path):
    """Two cameras with one name get two pictures; no name leads out of the directory."""
    names = ("../up", "same", "same.png", "\x1b[31m")
    write_cameras(tmp_path / "c.json", *map(camera, names))
    out = call("render", scene, "--cameras", "c.json", "--camera", "all", "-o", "d")
    pictures = sorted(p.name for p in (tmp_path / "d").iterdir())
    assert pictures == ["_._up-00000.png", "_[31m-00003.png", "same-00001.png", "same-00002.png"]
    assert "\x1b" not in out


def test_depth(scene, cameras, tmp_path):
    out = call(
        "render", scene, "--cameras", cameras, "--camera", "middle", "--depth", "-o", "o.png"
    )
    assert re.search(r"middle  depth 3 to 4  o-depth\.png\n", out)
    picture = Png(tmp_path / "o-depth.png")
    assert (picture.bits, picture.channels) == (16, 1)
    assert abs(float(picture.texts["depth nearest"]) - 3) < 1e-5
    assert abs(float(picture.texts["depth farthest"]) - 4) < 1e-5
    assert max(picture.pixel(x, 24)[0] for x in range(64)) == 65535
    assert picture.pixel(32, 24)[0] > 65000
    assert picture.pixel(32 + 15, 24) == (1,)
    assert picture.pixel(0, 0) == (0,)


def test_quaternions_need_no_unit_length(tmp_path):
    """In both conventions the length of a quaternion does not matter."""
    for name, rotation in (("unit", (0.6, 0, 0, 0.8)), ("long", (3.0, 0, 0, 4.0))):
        row = gaussian(rotation=rotation)
        row[FIELDS.index("scale_0")] += 1
        write_scene(tmp_path / f"{name}.ply", [row])
        for extra in ((), ("--compat",)):
            output = f"{name}{len(extra)}.png"
            call("render", f"{name}.ply", "-o", output, "--size", "64x48", *extra)
    for kind in "01":
        unit, scaled = (Png(tmp_path / f"{n}{kind}.png") for n in ("unit", "long"))
        assert unit.rows == scaled.rows
        assert any(map(any, unit.rows))


def test_sh_degree(tmp_path):
    rest = [f"f_rest_{k}" for k in range(9)]
    row = gaussian(color=(0.5, 0.5, 0.5)) + [0, 0.8, 0, 0, 0, 0, 0, -0.8, 0]  # by z
    write_scene(tmp_path / "s.ply", [row], FIELDS + rest)
    write_cameras(tmp_path / "c.json", camera("c"))
    call("render", "s.ply", "--cameras", "c.json", "-o", "full.png")
    call("render", "s.ply", "--cameras", "c.json", "-o", "flat.png", "--sh-degree", "0")
    red, green, blue = Png(tmp_path / "full.png").pixel(32, 24)
    assert red > green + 80 > blue + 160  # 0.4886 z: added to red, taken from blue
    assert len(set(Png(tmp_path / "flat.png").pixel(32, 24))) == 1
    error = call("render", "s.ply", "-o", "o.png", "--sh-degree", "2", code=USAGE)
    assert error == "--sh-degree 2: the colours of s.ply have degree 1"


@pytest.mark.parametrize("option", ["--antialias", "--compat", "--threads=2", "--repeat=3"])
def test_options_that_draw(scene, cameras, tmp_path, option):
    call("render", scene, "--cameras", cameras, "--camera", "middle", "-o", "o.png", option)
    assert Png(tmp_path / "o.png").pixel(32, 24)[0] > 200


def test_threads_do_not_change_the_picture(scene, cameras, tmp_path):
    for threads in (1, 2, 7):
        name = f"{threads}.png"
        call("render", scene, "--cameras", cameras, "--threads", threads, "-o", name)
    pictures = {(tmp_path / f"{threads}.png").read_bytes() for threads in (1, 2, 7)}
    assert len(pictures) == 1


def test_no_vertices(tmp_path):
    write_scene(tmp_path / "none.ply", [])
    out = call("render", "none.ply", "--background", "1,1,1", "-o", "o.png", "--depth")
    assert "none.ply  0 Gaussians" in out
    picture = Png(tmp_path / "o.png")
    assert all(set(row) == {255} for row in picture.rows)
    assert not any(map(any, Png(tmp_path / "o-depth.png").rows))


def test_non_finite_rows(tmp_path):
    bad = gaussian()
    bad[FIELDS.index("scale_1")] = float("nan")
    write_scene(tmp_path / "nan.ply", [bad, gaussian(color=(0, 0, 1)), bad])
    write_cameras(tmp_path / "c.json", camera("c"))
    out = call("render", "nan.ply", "--cameras", "c.json", "-o", "o.png")
    assert "3 Gaussians  SH degree 0  (2 not finite, not drawn)" in out
    red, green, blue = Png(tmp_path / "o.png").pixel(32, 24)
    assert red == 0 and green == 0 and blue > 200


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("kind", ["good", "cut", "cameras"])
def test_valgrind(scene, cameras, tmp_path, kind):
    expected, arguments = OK, ["render", scene, "--cameras", cameras, "--camera", "all", "-o", "d"]
    if kind == "cut":
        scene.write_bytes(scene.read_bytes()[:-1])
        expected = RUNTIME
    elif kind == "cameras":
        cameras.write_text(cameras.read_text()[:-1])
        expected = RUNTIME
    result = subprocess.run(
        [
            "valgrind",
            "-q",
            "--error-exitcode=9",
            "--leak-check=full",
            COMMAND,
            *arguments,
            "--depth",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == expected, result.stderr
