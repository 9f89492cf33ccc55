"""The training example: it gets closer to its views from either start, and writes what it says."""

import numpy as np
import pytest

import fit_views
import gsplat_c
from gsplat_c.io import load_image, load_ply, save_ply

TINY = ["--size", "64x48", "--views", "4", "--gaussians", "300", "--steps", "60", "--show", "2"]


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
    picture = load_image(tmp_path / "view_00.png")
    assert picture.shape == (3, 48, 3 * 64 + 2 * 4)
    target, before, after = picture[:, :, :64], picture[:, :, 68:132], picture[:, :, 136:]
    assert target.std() > 0.04
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
    assert load_ply(scene).means.shape == (300, 3)
    options = ["--size", "64x48", "--views", "4", "--steps", "1", "--out", str(tmp_path / "again")]
    still, _ = fit_views.main([str(scene), *options, "--noise", "0"])
    assert still > 100  # undisturbed, it looks like itself

    # In coordinates that single precision does not hold, too.
    save_ply(tmp_path / "far.ply", load_ply(scene).moved([5e6, 0, -5e6]))
    still, _ = fit_views.main([str(tmp_path / "far.ply"), *options, "--noise", "0"])
    assert still > 100
    far, near = load_ply(tmp_path / "again/result.ply"), load_ply(scene)
    assert np.abs(far.means - [5e6, 0, -5e6] - near.means).max() < 0.1


def test_same_seed_same_result(tmp_path):
    results = [fit_views.main([*TINY, "--steps", "5", "--seed", "3", "--out", str(tmp_path / name)])
               for name in "ab"]
    assert results[0] == results[1]
    other = fit_views.main([*TINY, "--steps", "5", "--seed", "4", "--out", str(tmp_path / "c")])
    assert other != results[0]
