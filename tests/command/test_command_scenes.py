"""What files say about how they are to be drawn: the command follows it, or refuses by name."""

import json
import math
import struct

import pytest

from command import RUNTIME, call, in_folder, scene  # noqa: F401
from scenes import FIELDS, Png, camera, gaussian, header, write_cameras, write_scene

FAR = 5_000_000


def pixels(path):
    picture = Png(path)
    return [picture.pixel(x, y) for y in range(picture.height) for x in range(picture.width)]


def difference(a, b):
    """The largest difference of two pictures of one size, in 1/255."""
    return max(abs(x - y) for p, q in zip(pixels(a), pixels(b)) for x, y in zip(p, q))


def rows(scale=0.02):
    return [gaussian((0.3 * x, 0.2 * y, 0.1 * x * y), (0.9, 0.5, 0.2), 0.8, scale)
            for x in range(-3, 4) for y in range(-2, 3)]


def draw(name, scene, *options, eye=(0, 0, -3), **changes):
    entry = {**camera("c", eye), **changes}
    write_cameras(scene.parent / "c.json", entry)
    out = call("render", scene, "--cameras", "c.json", "-o", name, *options)
    return scene.parent / name, out.splitlines()[0]


def commented(path, scene, *comments):
    data = scene.read_bytes()
    lines = "".join(f"comment {comment}\n" for comment in comments).encode()
    path.write_bytes(data.replace(b"element vertex", lines + b"element vertex", 1))
    return path


def test_principal_point(tmp_path):
    scene = write_scene(tmp_path / "s.ply", [gaussian()])
    centred, _ = draw("a.png", scene)
    moved, _ = draw("b.png", scene, cx=32 - 22, cy=24 + 10)
    assert Png(centred).pixel(31, 23) == Png(moved).pixel(9, 33) != (0, 0, 0)
    write_cameras(tmp_path / "c.json", {**camera("c"), "cx": "left"})
    error = call("render", scene, "--cameras", "c.json", code=RUNTIME)
    assert error == "c.json: camera 0: 'cx' is not a number"


@pytest.mark.parametrize("key, value", [
    ("k1", 0.05), ("p2", -0.001), ("distortion", [0, 0.1]), ("is_fisheye", True),
    ("camera_model", "OPENCV_FISHEYE"), ("model", "EQUIRECTANGULAR")])
def test_other_lenses_are_refused(tmp_path, key, value):
    scene = write_scene(tmp_path / "s.ply", [gaussian()])
    write_cameras(tmp_path / "c.json", {**camera("c"), key: value})
    error = call("render", scene, "--cameras", "c.json", code=RUNTIME)
    assert error == (f"c.json: camera 0: '{key}' is set, but only pinhole cameras are rendered: "
                     "undistort the pictures first")


def test_no_distortion_is_no_lens(tmp_path):
    scene = write_scene(tmp_path / "s.ply", [gaussian()])
    draw("a.png", scene, k1=0, distortion=[0.0, 0], camera_model="OPENCV", is_fisheye=False)


@pytest.mark.parametrize("comment, antialiased", [
    ("SplatRenderMode: mip", True), ("splatrendermode: MIP", True), ("antialiased 1", True),
    ("SplatRenderMode: default", False), ("antialiased 0", False)])
def test_mode_comments(tmp_path, comment, antialiased):
    plain = write_scene(tmp_path / "s.ply", rows())
    scene = commented(tmp_path / "m.ply", plain, comment)
    wanted, _ = draw("a.png", plain, *["--antialias"] * antialiased)
    got, line = draw("b.png", scene)
    assert difference(got, wanted) == 0
    assert ("  antialiased" in line) == antialiased
    assert json.loads(call("info", "--json", scene))["antialiased"] == antialiased


def test_last_mode_decides(tmp_path):
    plain = write_scene(tmp_path / "s.ply", rows())
    scene = commented(tmp_path / "m.ply", plain, "antialiased 1", "SplatRenderMode: default")
    assert "antialiased" not in draw("a.png", scene)[1]
    scene = commented(tmp_path / "m.ply", plain, "Exported from Brush", "SplatRenderMode: mip")
    brush, _ = draw("a.png", scene)
    assert difference(brush, draw("b.png", plain, "--antialias")[0]) > 0  # a blur of 0.1


def test_filter_3d(tmp_path):
    """The same picture as of a scene with the filter baked in."""
    width, scale = 0.03, 0.02
    wide = math.hypot(scale, width)
    filtered = [[*row, width] for row in rows(scale)]
    scene = write_scene(tmp_path / "f.ply", filtered, [*FIELDS, "filter_3D"])
    opacity = 0.8 * (scale / wide) ** 3
    baked = [gaussian(row[:3], (0.9, 0.5, 0.2), opacity, wide) for row in rows()]
    plain = write_scene(tmp_path / "s.ply", baked)
    plain = commented(tmp_path / "b.ply", plain, "Exported from Brush", "SplatRenderMode: mip")
    got, line = draw("a.png", scene)
    assert "  antialiased  filter_3D applied" in line
    assert difference(got, draw("b.png", plain)[0]) <= 1
    ignored = write_scene(tmp_path / "i.ply", rows(scale))
    assert difference(got, draw("c.png", ignored)[0]) > 20


def test_discs(tmp_path):
    fields = [name for name in FIELDS if name != "scale_2"]
    flat = [[value for name, value in zip(FIELDS, row) if name != "scale_2"] for row in rows()]
    scene = write_scene(tmp_path / "d.ply", flat, fields)
    got, line = draw("a.png", scene)
    assert "2D discs drawn as flat Gaussians" in line
    thin = [[*row[:12], row[11] + math.log(1e-6), *row[13:]] for row in rows()]
    assert difference(got, draw("b.png", write_scene(tmp_path / "s.ply", thin))[0]) == 0


def test_colours_of_bytes(tmp_path):
    fields = [*FIELDS[:6], "red", "green", "blue", *FIELDS[9:]]
    color = (230, 128, 51)
    text = header(1, fields)
    for name in fields[6:9]:
        text = text.replace(f"float {name}".encode(), f"uchar {name}".encode())
    row = gaussian((0, 0, 0), [c / 255 for c in color], 0.8)
    data = struct.pack("<6f3B8f", *row[:6], *color, *row[9:])
    scene = tmp_path / "c.ply"
    scene.write_bytes(text + data)
    wanted = write_scene(tmp_path / "s.ply", [row])
    assert difference(draw("a.png", scene)[0], draw("b.png", wanted)[0]) == 0


def test_neural_anchors_are_refused(tmp_path):
    scene = write_scene(tmp_path / "a.ply", [[0] * 5], ["x", "y", "z", "f_offset_0", "scale_0"])
    error = call("render", scene, "-o", "a.png", code=RUNTIME)
    assert "neural anchors of Scaffold-GS" in error


def test_double_positions_keep_their_digits(tmp_path):
    """A scene far from the origin, as geographic coordinates are, and its cameras."""
    near, _ = draw("a.png", write_scene(tmp_path / "s.ply", rows()))
    text = header(len(rows()))
    for axis in b"xyz":
        text = text.replace(b"float %c\n" % axis, b"double %c\n" % axis)
    data = b"".join(struct.pack(f"<3d{len(row) - 3}f", *[FAR + v for v in row[:3]], *row[3:])
                    for row in rows())
    scene = tmp_path / "far.ply"
    scene.write_bytes(text + data)
    far, _ = draw("b.png", scene, eye=(FAR, FAR, FAR - 3))
    assert difference(near, far) <= 1
    bounds = json.loads(call("info", "--json", scene))["positions"]
    assert bounds["min"][0] > 0.99 * FAR
    call("render", scene, "-o", "framed.png")
    call("render", tmp_path / "s.ply", "-o", "near.png")
    assert difference(tmp_path / "framed.png", tmp_path / "near.png") <= 2
