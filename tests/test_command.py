"""The gsplat-c command: its pictures, its error lines and its exit codes."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

from conftest import ROOT
from scenes import FIELDS, Png, camera, gaussian, header, write_cameras, write_scene

COMMAND = os.environ.get("GSPLAT_C_COMMAND", str(ROOT / "build/tools/gsplat-c"))
OK, RUNTIME, USAGE = 0, 1, 2


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    if not pathlib.Path(COMMAND).exists():
        pytest.fail(f"{COMMAND} does not exist; build first, or set GSPLAT_C_COMMAND")
    monkeypatch.chdir(tmp_path)


def call(*arguments, code=OK):
    """Runs the command; an error is exactly one line, success says nothing there."""
    result = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == code, result.stderr
    if code == OK:
        assert result.stderr == ""
        return result.stdout
    assert re.fullmatch(r"gsplat-c: [^\n]+\n", result.stderr)
    return result.stderr[len("gsplat-c: ") : -1]


@pytest.fixture
def scene(tmp_path):
    """An opaque red Gaussian before the camera, a green one 2 to the right and behind it."""
    rows = [gaussian(), gaussian((1, 0, 1), (0, 1, 0), scale=0.3)]
    return write_scene(tmp_path / "scene.ply", rows)


@pytest.fixture
def cameras(tmp_path):
    three = [camera("left", (-0.5, 0, -3)), camera("middle"), camera("a/b.JPG", (0.5, 0, -3))]
    return write_cameras(tmp_path / "cameras.json", *three)


# ------------------------------------------------------------------- render


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
    """Twice the size is the same view, and a wider picture shows more at the sides."""
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
    """Two cameras of one name get two pictures; no name leaves the directory."""
    names = ("../up", "same", "same.png", "\x1b[31m")
    write_cameras(tmp_path / "c.json", *map(camera, names))
    out = call("render", scene, "--cameras", "c.json", "--camera", "all", "-o", "d")
    pictures = sorted(p.name for p in (tmp_path / "d").iterdir())
    assert pictures == ["?[31m-00003.png", "_._up-00000.png", "same-00001.png", "same-00002.png"]
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
    """Both conventions draw a scaled quaternion as its direction says."""
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


def test_progress_bar_on_a_terminal(scene, cameras):
    leader, follower = pty.openpty()
    result = subprocess.run(
        [COMMAND, "render", scene, "--cameras", cameras, "--camera", "all", "-o", "d"],
        stdout=subprocess.PIPE,
        stderr=follower,
        check=False,
    )
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert result.returncode == OK
    assert "[" + "." * 32 + "] 0 of 3" in shown and "2 of 3" in shown
    assert shown.endswith("\r") and b"[" not in result.stdout


# ------------------------------------------------------- errors of the files


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "bad.ply: not a PLY file: it does not start with 'ply'"),
        (b"\x89PNG\r\n\x1a\n" * 9, "bad.ply: not a PLY file: it does not start with 'ply'"),
        (b"ply\nformat binary 1.0\n", "bad.ply: line 2: unknown format 'binary'"),
        (b"ply\nformat ascii 1.0\nelement", "bad.ply: line 3: expected 'element NAME COUNT'"),
        (header(1), "bad.ply: cut short: element 'vertex' has 1 rows of at least 68 bytes"),
        (header(10**15) + bytes(680), "bad.ply: cut short: element 'vertex' has 10000000000000"),
        (header(1, FIELDS[:6]) + bytes(24), "bad.ply: element 'vertex' has no property 'scale_0'"),
        (header(1, FIELDS + ["f_rest_0"]) + bytes(72), "bad.ply: element 'vertex' has 1 properti"),
        (header(1, form="ascii") + b"1 2 3" + bytes(99), "bad.ply: line 22: no number for prop"),
    ],
)
def test_broken_scene(tmp_path, data, message):
    (tmp_path / "bad.ply").write_bytes(data)
    for command in ("render", "info", "bench"):
        assert call(command, "bad.ply", code=RUNTIME).startswith(message)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.ply"]


def test_cut_anywhere(tmp_path):
    """No length of a file does more than fail."""
    rows = [gaussian(), gaussian((1, 0, 0))]
    whole = write_scene(tmp_path / "whole.ply", rows).read_bytes()
    for size in range(0, len(whole), 29):
        (tmp_path / "cut.ply").write_bytes(whole[:size])
        assert call("info", "cut.ply", code=RUNTIME).startswith("cut.ply: ")


def test_missing_files(scene):
    for command in ("render", "info", "bench"):
        error = call(command, "no.ply", code=RUNTIME)
        assert error == "no.ply: cannot open: No such file or directory"
        assert call(command, "/", code=RUNTIME) == "/: is a directory"
        assert call(command, "/dev/zero", code=RUNTIME) == "/dev/zero: is not a regular file"
    error = call("render", scene, "--cameras", "no.json", code=RUNTIME)
    assert error == "no.json: cannot open: No such file or directory"


def test_broken_cameras(scene, tmp_path):
    (tmp_path / "c.json").write_text('[{"id": 0,\n "img_name": }]')
    assert call("render", scene, "--cameras", "c.json", code=RUNTIME).startswith("c.json: line 2")
    one = camera("one")
    del one["fx"]
    write_cameras(tmp_path / "c.json", camera("zero"), one)
    error = call("render", scene, "--cameras", "c.json", code=RUNTIME)
    assert error == "c.json: camera 1: 'fx' is missing"


def test_unwritable_output(scene, tmp_path):
    assert call("render", scene, "-o", "no/such/o.png", code=RUNTIME) == (
        "no/such/o.png: cannot write: No such file or directory"
    )
    error = call("render", scene, "-o", "/dev/full", code=RUNTIME)
    assert error == "/dev/full: cannot write: No space left on device"
    (tmp_path / "file").write_text("kept")
    error = call("render", scene, "-o", "file/", code=RUNTIME)
    assert error.startswith("file")
    assert (tmp_path / "file").read_text() == "kept"
    (tmp_path / "o-depth.png").mkdir()
    error = call("render", scene, "-o", "o.png", "--depth", code=RUNTIME)
    assert error == "o-depth.png: is a directory"


def test_failed_write_keeps_the_old_picture(scene, tmp_path):
    """A file size limit cuts the write in the middle."""
    (tmp_path / "o.png").write_bytes(b"old")
    script = (
        f"trap '' XFSZ; ulimit -f 8; exec '{COMMAND}' render '{scene}' -o o.png --size 1500x999"
    )
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == RUNTIME
    assert result.stderr == "gsplat-c: o.png: cannot write: File too large\n"
    assert (tmp_path / "o.png").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.png", "scene.ply"]


def test_link_and_device_outputs(scene, tmp_path):
    (tmp_path / "real.png").write_bytes(b"old")
    (tmp_path / "link.png").symlink_to("real.png")
    call("render", scene, "-o", "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert Png(tmp_path / "real.png").width == 1280
    call("render", scene, "-o", "/dev/null")
    assert not pathlib.Path("/dev/null").is_file()


def test_standard_output_full(scene):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == RUNTIME
    assert result.stderr == "gsplat-c: cannot write to standard output: No space left on device\n"


# ------------------------------------------------- errors of the command line

SIZE = "expected WIDTHxHEIGHT, each from 1 to 16384"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which command? (see 'gsplat-c --help')"),
        (["paint"], "paint: no such command (see 'gsplat-c --help')"),
        (["render"], "render: which scene? (see 'gsplat-c render --help')"),
        (["render", "a.ply", "b.ply"], "b.ply: one scene at a time, after 'a.ply'"),
        (["render", "a.ply", "--sice", "1x1"], "--sice: no such option (see 'gsplat-c render --h"),
        (["info", "-x"], "-x: no such option (see 'gsplat-c info --help')"),
        (["render", "a.ply", "--size"], "--size: needs a value"),
        (["render", "a.ply", "-o"], "-o: needs a value"),
        (["render", "a.ply", "-o", ""], "--output: its value is empty"),
        (["render", "a.ply", "--depth=1"], "--depth=1: --depth takes no value"),
        (["render", "a.ply", "--size", "0x0"], f"--size 0x0: {SIZE}"),
        (["render", "a.ply", "--size", "640"], f"--size 640: {SIZE}"),
        (["render", "a.ply", "--size", "640x-1"], f"--size 640x-1: {SIZE}"),
        (["render", "a.ply", "--size", "640x480x3"], f"--size 640x480x3: {SIZE}"),
        (["render", "a.ply", "--size=1x99999999999"], f"--size 1x99999999999: {SIZE}"),
        (["render", "a.ply", "--background", "255,0,0"], "--background 255,0,0: expected R,G,B,"),
        (["render", "a.ply", "--background", "0,0"], "--background 0,0: expected R,G,B, each"),
        (["render", "a.ply", "--background", "0,0,nan"], "--background 0,0,nan: expected R,G,B"),
        (["render", "a.ply", "--background", "-1,0,0"], "--background -1,0,0: expected R,G,B"),
        (["render", "a.ply", "--sh-degree", "5"], "--sh-degree 5: expected a whole number from 0"),
        (["render", "a.ply", "--threads", "0"], "--threads 0: expected a whole number from 1 to"),
        (["render", "a.ply", "--repeat", "2.5"], "--repeat 2.5: expected a whole number from 1"),
        (["render", "a.ply", "--camera", "3"], "--camera 3: needs --cameras FILE"),
        (["bench", "--operation", "sing"], "--operation sing: no such operation (see 'gsplat-c b"),
        (["bench", "--cameras", "c", "--camera", "all"], "--camera all: one camera at a time is"),
        (["bench", "a.ply", "--gaussians", "9"], "--gaussians 9: is for the random scene, not for"),
    ],
)
def test_usage(tmp_path, arguments, message):
    assert call(*arguments, code=USAGE).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_unknown_camera(scene, cameras):
    for name in ("right", "3", "-1", "1x"):
        error = call("render", scene, "--cameras", cameras, "--camera", name, code=USAGE)
        assert error == f"--camera {name}: not a name in {cameras}, nor a number from 0 to 2"


def test_operand_after_dashes(tmp_path):
    write_scene(tmp_path / "-s.ply", [gaussian()])
    assert "1 Gaussians" in call("render", "-o", "o.png", "--", "-s.ply")


# ------------------------------------------------------ info, bench and help


def test_info(scene):
    facts = json.loads(call("info", "--json", scene))
    assert (facts["gaussians"], facts["not_finite"], facts["sh_degree"]) == (2, 0, 0)
    assert facts["format"] == "binary_little_endian"
    assert facts["positions"]["least"] == [0, 0, 0]
    assert facts["positions"]["greatest"] == [1, 0, 1]
    assert re.search(r"^gaussians +2$", call("info", scene), flags=re.M)


def test_info_of_nothing(tmp_path):
    write_scene(tmp_path / "none.ply", [])
    facts = json.loads(call("info", "--json", "none.ply"))
    assert facts["gaussians"] == 0 and facts["positions"]["least"] == [None] * 3


def test_info_of_the_library():
    facts = json.loads(call("info", "--json"))
    assert facts["version"] == call("--version").split()[1]
    assert facts["devices"][0]["device"] == "cpu"
    assert call("info").startswith("version ")


def test_bench(scene):
    out = call("bench", scene, "--size", "64x48", "--repeat", "2")
    assert re.search(r"^project +[\d.]+ +[\d.]+ +2 ", out, flags=re.M)
    assert re.search(r"^render +[\d.]+ +[\d.]+ +2 ", out, flags=re.M)
    report = json.loads(
        call("bench", "--gaussians", 500, "--size", "64x48", "--repeat", "3", "--json")
    )
    assert (report["gaussians"], report["sh_degree"], report["width"]) == (500, 3, 64)
    results = {r["operation"]: r for r in report["results"]}
    assert list(results) == [
        "project", "render", "forward", "backward", "knn", "ssim", "ssim-backward", "image-loss",
        "adam",
    ]  # fmt: skip
    assert results["forward"]["runs"] == 3
    assert 0 < results["forward"]["least_ms"] <= results["forward"]["median_ms"]


def test_help():
    assert call("--help") == call("-h") == call("help")
    for command in ("render", "info", "bench"):
        assert command in call("--help")
        text = call(command, "--help")
        assert text.startswith(f"usage: gsplat-c {command}")
        assert text == call(command, "-h")
    assert re.fullmatch(r"gsplat-c \d+\.\d+\.\d+\n", call("--version"))


def test_manual_has_every_option():
    manual = (ROOT / "docs/gsplat-c.1").read_text().replace("\\-", "-")
    for command in ("render", "info", "bench"):
        for option in re.findall(r"--[a-z][a-z-]*", call(command, "--help")):
            assert option in manual, f"{command} {option}"


# ----------------------------------------------------------------- valgrind


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
