"""The training example: it gets closer to its views from either start, and writes what it says."""

import struct
import zlib

import numpy as np
import pytest

import fit_views
import gsplat_c
import splat_file

TINY = ["--size", "64x48", "--views", "4", "--gaussians", "300", "--steps", "60", "--show", "2"]


def read_png(path):
    """[H, W, 3] of an 8-bit RGB PNG file that filters no row."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize("start, gain", [([], 6), (["--from-points"], 4)])
def test_psnr_rises(tmp_path, start, gain, capsys):
    first, last = fit_views.main([*TINY, *start, "--out", str(tmp_path)])
    assert last > first + gain
    printed = capsys.readouterr()
    assert f"{first:.2f} dB -> {last:.2f} dB" in printed.out
    assert "60/60" in printed.err

    rows = [line.split(",") for line in (tmp_path / "curves.csv").read_text().splitlines()]
    assert rows[0] == ["step", "loss", "PSNR (dB)"]
    assert float(rows[-1][1]) < float(rows[1][1])
    assert sorted(path.name for path in tmp_path.glob("view_*.png")) == [
        "view_00.png", "view_01.png"]
    # The result is nearer to the target than the start is, in the picture too.
    picture = read_png(tmp_path / "view_00.png").astype(float)
    assert picture.shape == (48, 3 * 64 + 2 * 4, 3)
    target, before, after = picture[:, :64], picture[:, 68:132], picture[:, 136:]
    assert target.std() > 10
    assert np.mean((after - target) ** 2) < 0.5 * np.mean((before - target) ** 2)


@pytest.mark.parametrize("name", ["means", "log_scales", "rotations", "logits", "sh"])
def test_chain_rule(name):
    random = np.random.default_rng(2)
    shapes = {"means": (4, 3), "log_scales": (4, 3), "rotations": (4, 4), "logits": (4,),
              "sh": (4, 4, 3)}
    parameters = {key: random.normal(size=shape) for key, shape in shapes.items()}
    active = fit_views.activate(parameters)
    upstream = {key: random.normal(size=values.shape) for key, values in active.items()}

    def loss():
        moved = fit_views.activate(parameters)
        return sum(np.sum(upstream[key] * moved[key]) for key in upstream)

    grads = gsplat_c.RasterGrads(upstream)
    gradient = fit_views.chain_rule(parameters, active, grads)[name]
    values, step = parameters[name], 1e-6
    for index in np.ndindex(values.shape):
        middle = values[index]
        values[index] = middle + step
        above = loss()
        values[index] = middle - step
        slope = (above - loss()) / (2 * step)
        values[index] = middle
        assert gradient[index] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_result_is_a_scene_to_start_from(tmp_path):
    first, last = fit_views.main([*TINY, "--out", str(tmp_path)])
    scene = tmp_path / "result.ply"
    assert splat_file.read(scene)["means"].shape == (300, 3)
    options = ["--size", "64x48", "--views", "4", "--steps", "1", "--out", str(tmp_path / "again")]
    still, _ = fit_views.main([str(scene), *options, "--noise", "0"])
    assert still > 100  # undisturbed, it looks like itself


def test_same_seed_same_result(tmp_path):
    results = [fit_views.main([*TINY, "--steps", "5", "--seed", "3", "--out", str(tmp_path / name)])
               for name in "ab"]
    assert results[0] == results[1]
    other = fit_views.main([*TINY, "--steps", "5", "--seed", "4", "--out", str(tmp_path / "c")])
    assert other != results[0]


def test_ply_round_trip(tmp_path):
    random = np.random.default_rng(1)
    scene = {"means": (5, 3), "log_scales": (5, 3), "rotations": (5, 4), "logits": (5,),
             "sh": (5, 16, 3)}
    scene = {name: random.normal(size=shape).astype(np.float32) for name, shape in scene.items()}
    splat_file.write(tmp_path / "scene.ply", scene)
    assert b"z\nproperty float nx\nproperty float ny\n" in (tmp_path / "scene.ply").read_bytes()
    back = splat_file.read(tmp_path / "scene.ply")
    assert back.keys() == scene.keys()
    for name, values in scene.items():
        np.testing.assert_array_equal(back[name], values)


def test_ply_of_nothing(tmp_path):
    scene = {"means": (0, 3), "log_scales": (0, 3), "rotations": (0, 4), "logits": (0,),
             "sh": (0, 4, 3)}
    splat_file.write(tmp_path / "scene.ply",
                     {name: np.empty(shape, np.float32) for name, shape in scene.items()})
    back = splat_file.read(tmp_path / "scene.ply")
    assert {name: values.shape for name, values in back.items()} == scene


@pytest.mark.parametrize("text, message", [
    (b"solid", "not a PLY file"),
    (b"ply\nformat ascii 1.0\nelement vertex 0\nend_header\n", "not a binary PLY"),
    (b"ply\nformat binary_little_endian 1.0\nelement vertex 0\nproperty float x\nend_header\n",
     "no property 'y'"),
])
def test_what_is_no_scene(tmp_path, text, message):
    (tmp_path / "scene.ply").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        splat_file.read(tmp_path / "scene.ply")
