"""The gsplat-c command: its error lines and exit codes, and info, bench and help."""

import json
import os
import re
import subprocess

import pytest

from command import COMMAND, OK, RUNTIME, USAGE, call, cameras, in_folder, scene  # noqa: F401
from scenes import FIELDS, Png, camera, gaussian, header, write_cameras, write_scene
from support import ROOT

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
    """A file of any length at worst fails."""
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


def test_standard_output_full(scene):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == RUNTIME
    assert result.stderr == "gsplat-c: cannot write to standard output: No space left on device\n"


def test_long_header_is_read_in_linear_time(tmp_path):
    """A megabyte of elements; comparing each with all the others took 8 seconds."""
    lines = [f"element {number} 0" for number in range(70000)]
    text = "\n".join(["ply", "format ascii 1.0", *lines, "end_header", ""])
    (tmp_path / "long.ply").write_text(text)
    used = os.times()
    assert call("info", "long.ply", code=RUNTIME) == "long.ply: has no element 'vertex'"
    assert os.times().children_user - used.children_user < 4  # of a CPU, however busy it is


def test_control_characters_are_escaped(scene, tmp_path):
    shown = r"a\x1b[31m\xc2\x9b1mé"
    error = call("info", "a\x1b[31m\x9b1mé", code=RUNTIME)
    assert error.startswith(shown + ": cannot open: ")  # Windows gives another reason
    (tmp_path / "bad.ply").write_bytes("ply\nformat \x9b\x7f\n".encode())
    error = call("info", "bad.ply", code=RUNTIME)
    assert error == r"bad.ply: line 2: unknown format '\xc2\x9b\x7f'"
    write_cameras(tmp_path / "c.json", camera("\x1b\x9b\n"))
    out = call("render", scene, "--cameras", "c.json", "-o", "o.png")
    assert r"\x1b\xc2\x9b\x0a  64x48" in out


def test_outputs_that_are_inputs(scene, cameras, tmp_path):
    before = scene.read_bytes()
    moved = scene.rename(tmp_path / "scene.png")
    for extra in ((), ("-o", "scene.png"), ("-o", "./scene.png")):
        error = call("render", moved, *extra, code=USAGE)
        assert error.endswith("scene.png: is the scene and would be replaced by a picture")
    cameras = cameras.rename(tmp_path / "cameras.png")
    error = call("render", moved, "--cameras", cameras, "-o", "cameras.png", code=USAGE)
    assert error == "cameras.png: is the file of cameras and would be replaced by a picture"
    assert moved.read_bytes() == before


def test_one_name_for_two_pictures(scene, tmp_path):
    write_cameras(tmp_path / "c.json", camera("a"), camera("a-depth"))
    common = ("render", scene, "--cameras", "c.json", "--camera", "all", "-o", "d/")
    error = call(*common, "--depth", code=USAGE)
    assert error == "d/a-depth.png: would be written twice, for two cameras"
    call(*common)
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == ["a-depth.png", "a.png"]


def test_standard_output_is_a_picture(scene, tmp_path):
    result = subprocess.run(
        [COMMAND, "render", scene, "--size", "40x30", "-o", "-"], capture_output=True, check=False
    )
    assert result.returncode == OK
    (tmp_path / "o.png").write_bytes(result.stdout)
    picture = Png(tmp_path / "o.png")
    assert (picture.width, picture.height) == (40, 30)
    assert re.search(rb"2 Gaussians .*\nview  40x30  [\d.]+ ms  -\r?\n", result.stderr)


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
        (["render", "a.ply", "-o", "b.jpg"], "--output b.jpg: pictures are .png, not .jpg"),
        (["render", "a.ply", "-o", "d.1/b.EXR"], "--output d.1/b.EXR: pictures are .png, not .EXR"),
        (["render", "a.ply", "-o", "-", "--depth"], "--output -: standard output takes only one"),
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
    assert facts["positions"]["min"] == [0, 0, 0]
    assert facts["positions"]["max"] == [1, 0, 1]
    assert re.search(r"^gaussians +2$", call("info", scene), flags=re.M)


def test_info_of_nothing(tmp_path):
    write_scene(tmp_path / "none.ply", [])
    facts = json.loads(call("info", "--json", "none.ply"))
    assert facts["gaussians"] == 0 and facts["positions"]["min"] == [None] * 3


def test_info_of_the_library():
    facts = json.loads(call("info", "--json"))
    assert facts["version"] == call("--version").split()[1]
    assert facts["devices"][0]["device"] == "cpu"
    assert call("info").startswith("version ")


def test_bench(scene):
    out = call("bench", scene, "--size", "64x48", "--repeat", "2")
    assert re.search(r"^project +[\d.]+ +[\d.]+ +2 ", out, flags=re.M)
    assert re.search(r"^blend +[\d.]+ +[\d.]+ +2 ", out, flags=re.M)
    report = json.loads(
        call("bench", "--gaussians", 500, "--size", "64x48", "--repeat", "3", "--json")
    )
    assert (report["gaussians"], report["sh_degree"], report["width"]) == (500, 3, 64)
    results = {r["operation"]: r for r in report["results"]}
    assert list(results) == [
        "project", "blend", "forward", "backward", "training", "knn", "ssim", "ssim-backward",
        "image-loss", "adam",
    ]  # fmt: skip
    assert results["forward"]["runs"] == 3
    assert 0 < results["forward"]["min_ms"] <= results["forward"]["median_ms"]
    # Forward holds the picture and the state; training also the gradients, of 59 floats and
    # two for the 2D mean.
    picture = 64 * 48 * 3 * 4
    assert picture < results["forward"]["bytes"] <= results["training"]["bytes"] - 500 * 61 * 4
    assert results["image-loss"]["bytes"] >= picture + 4
    assert results["adam"]["bytes"] < 500 * 59 * 4  # works in place


def test_bench_memory_is_that_of_one_run():
    few, many = (
        json.loads(call("bench", "--gaussians", 500, "--operation", "knn", "--repeat", n, "--json"))
        for n in (1, 9)
    )
    assert few["results"][0]["bytes"] == many["results"][0]["bytes"] > 500 * 4


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
