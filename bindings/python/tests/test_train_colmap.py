"""The trainer: it finds every parameter, changes the number of Gaussians, writes what it says."""

import importlib.util
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fit_views  # noqa: E402
import make_dataset  # noqa: E402
import pictures  # noqa: E402
import splat_file  # noqa: E402
import train_colmap  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """16 small views of a procedural scene."""
    folder = tmp_path_factory.mktemp("data")
    make_dataset.main([str(folder), "--views", "16", "--size", "64x48", "--gaussians", "1500",
                       "--points", "400"])
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """(curve, folder of the results) of a short training."""
    out = tmp_path_factory.mktemp("out")
    curve = train_colmap.main([str(data), "--out", str(out), "--device", "cpu", "--steps", "400",
                               "--eval-every", "200", "--densify-from", "90",
                               "--densify-until", "210", "--sh-every", "100",
                               "--sh-degree", "1"])
    return curve, out


def test_training(trained):
    curve, out = trained
    assert [row[0] for row in curve] == [200, 400]
    _, count, psnr, ssim, rate, mib = curve[-1]
    assert psnr > 25 and ssim > 0.92  # on views that it was not trained on
    assert 500 < count < 3000
    assert rate > 0 and mib > 10
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*.png") if "test" in str(path))
    assert names == ["test/00000.png", "test/00008.png"]
    picture = pictures.read(out / "test/00008.png").astype(float)
    target, result = picture[:, :, :64], picture[:, :, 68:]
    assert -10 * np.log10(np.mean((target - result) ** 2) / 255 ** 2) > 25


def test_results_are_for_viewers(trained, tmp_path):
    """gsplat-c renders the files that training wrote, and it looks like the test images."""
    _, out = trained
    scene = out / "point_cloud/iteration_400/point_cloud.ply"
    assert splat_file.read(scene)["sh"].shape[1:] == (4, 3)
    cameras = json.loads((out / "cameras.json").read_text())
    assert len(cameras) == 16 and cameras[0]["img_name"] == "00000.png"

    command = os.environ.get("GSPLAT_C_COMMAND", str(ROOT / "build/tools/gsplat-c"))
    if not pathlib.Path(command).exists():
        pytest.skip("the command is not built")
    subprocess.run([command, "render", str(scene), "--cameras", str(out / "cameras.json"),
                    "--camera", "0", "-o", str(tmp_path / "view.png")], check=True)
    rendered = command_tests().Png(tmp_path / "view.png")
    result = pictures.read(out / "test/00000.png")[:, :, 68:].transpose(1, 2, 0).astype(int)
    assert (rendered.width, rendered.height) == (64, 48)
    assert result.std() > 10
    for y in range(48):
        for x in range(64):
            assert np.abs(np.subtract(rendered.pixel(x, y), result[y, x])).max() <= 1, (x, y)


def command_tests():
    """What the tests of the command share; this folder has a module of the same name."""
    path = ROOT / "tests/helpers/scenes.py"
    spec = importlib.util.spec_from_file_location("command_scenes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------- parameters


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """(scene, views of it) with Gaussians of all shapes and colours from all sides."""
    folder = tmp_path_factory.mktemp("known")
    random = np.random.default_rng(7)
    scene = fit_views.procedural_scene(400, random)
    scene["log_scales"] += random.normal(0, 0.6, (400, 3)).astype(np.float32)
    scene["rotations"] = random.normal(size=(400, 4)).astype(np.float32)
    scene["rotations"] /= np.linalg.norm(scene["rotations"], axis=1, keepdims=True)
    scene["logits"] = random.normal(0, 1.5, 400).astype(np.float32)
    scene["sh"] = np.concatenate(
        [scene["sh"], random.normal(0, 0.3, (400, 3, 3)).astype(np.float32)], axis=1)
    splat_file.write(folder / "scene.ply", scene)
    make_dataset.main([str(folder), "--scene", str(folder / "scene.ply"), "--views", "12",
                       "--size", "64x48"])
    options = train_colmap.read_options([str(folder), "--test-every", "0"])
    return scene, train_colmap.load(options, CPU)[0]


def as_known(scene, extent=4.0):
    """Gaussians for training with the parameters of a scene."""
    gaussians = train_colmap.Gaussians(scene["means"], np.zeros_like(scene["means"]), 1, extent,
                                       CPU)
    values = {**scene, "sh_dc": scene["sh"][:, :1], "sh": scene["sh"][:, 1:]}
    for name, parameter in gaussians.values.items():
        parameter.data.copy_(torch.tensor(values[name]))
    return gaussians


@pytest.mark.parametrize("name, noise, rate, gain", [
    ("means", 0.05, 0.005, 10), ("log_scales", 0.5, 0.05, 15), ("rotations", 0.3, 0.02, 8),
    ("logits", 1.5, 0.1, 10), ("sh_dc", 0.5, 0.03, 15), ("sh", 0.5, 0.03, 12)])
def test_each_parameter_is_found_again(known, name, noise, rate, gain):
    """With the others right, for these would make up for one wrong gradient."""
    scene, views = known
    gaussians = as_known(scene)
    assert train_colmap.evaluate(gaussians, views, 1)[0] > 45  # but for 8 bits in the images
    torch.manual_seed(1)
    value = gaussians.values[name]
    value.data += noise * torch.randn_like(value)
    disturbed = train_colmap.evaluate(gaussians, views, 1)[0]
    for step in range(150):
        for group in gaussians.optimizer.param_groups:
            group["lr"] = rate * 0.02 ** (step / 150) if group["name"] == name else 0.0
        gaussians.step(views[step * 5 % len(views)], 1)
    found = train_colmap.evaluate(gaussians, views, 1)[0]
    print(f"{name}: {disturbed:.1f} dB -> {found:.1f} dB")
    assert found > disturbed + gain


# ---------------------------------------------------------- number of Gaussians


def five(log_scales):
    """Gaussians in a row along x, with moments of their own."""
    points = np.arange(5)[:, None] * [1.0, 0, 0]
    gaussians = train_colmap.Gaussians(points, np.arange(15).reshape(5, 3), 1, 10.0, CPU)
    gaussians.values["log_scales"].data[:] = torch.tensor(log_scales)[:, None]
    for value in gaussians.values.values():
        value.grad = torch.ones_like(value) * torch.arange(1.0, 6).view(5, *[1] * (value.ndim - 1))
    gaussians.optimizer.step()
    return gaussians


def moment(gaussians, name):
    value = gaussians.values[name]
    return gaussians.optimizer.state[value]["exp_avg"].reshape(len(value), -1)[:, 0]


def assert_whole(gaussians, count):
    """Everything has as many rows, and the optimizer steps the parameters that are drawn."""
    for group in gaussians.optimizer.param_groups:
        parameter, = group["params"]
        assert parameter is gaussians.values[group["name"]] and parameter.requires_grad
        state = gaussians.optimizer.state[parameter]
        assert len(parameter) == count
        assert state["exp_avg"].shape == state["exp_avg_sq"].shape == parameter.shape
    assert len(gaussians.optimizer.state) == len(gaussians.values)
    assert gaussians.gradient_sum.tolist() == gaussians.seen.tolist() == [0] * count


def test_densify():
    small, large = np.log(0.05), np.log(0.5)
    gaussians = five([small, small, large, large, small])
    before = {name: value.detach().clone() for name, value in gaussians.values.items()}
    gaussians.gradient_sum = torch.tensor([6.0, 1, 6, 1, 0])
    gaussians.seen = torch.tensor([2.0, 1, 2, 1, 0])
    gaussians.densify(threshold=2.0, limit=100)
    assert_whole(gaussians, 7)  # 0 twice, 2 in two parts
    source = [0, 1, 3, 4, 0, 2, 2]
    for name in ("rotations", "logits", "sh_dc", "sh"):
        torch.testing.assert_close(gaussians.values[name].detach(), before[name][source])
    torch.testing.assert_close(gaussians.values["means"][:5].detach(), before["means"][source[:5]])
    scales = gaussians.values["log_scales"].detach().exp() / before["log_scales"][source].exp()
    torch.testing.assert_close(scales[:5], torch.ones(5, 3))
    torch.testing.assert_close(scales[5:], torch.full((2, 3), 1 / 1.6))
    torch.testing.assert_close(moment(gaussians, "means") > 0,
                               torch.tensor([True] * 4 + [False] * 3))
    torch.testing.assert_close(moment(gaussians, "sh")[:4], torch.tensor([0.1, 0.2, 0.4, 0.5]))


def test_densify_knows_its_limit():
    gaussians = five([np.log(0.05)] * 5)
    gaussians.gradient_sum, gaussians.seen = torch.tensor([1.0, 5, 2, 4, 3]), torch.ones(5)
    gaussians.densify(threshold=0.5, limit=7)
    assert_whole(gaussians, 7)
    assert gaussians.values["means"][5:, 0].tolist() == pytest.approx(
        gaussians.values["means"][[1, 3], 0].tolist())  # those pulled at most
    gaussians.gradient_sum, gaussians.seen = torch.ones(7), torch.ones(7)
    gaussians.densify(threshold=0.5, limit=7)
    assert_whole(gaussians, 7)


def test_parts_are_drawn_from_the_whole():
    """Their places have its covariance, turned as the rasterizer turns it."""
    gaussians = five([0.0] * 5)
    random = np.random.default_rng(2)
    rotation, scales = random.normal(size=4), np.array([0.1, 0.5, 2.0])
    gaussians.values["rotations"].data[2] = torch.tensor(rotation)
    gaussians.values["log_scales"].data[2] = torch.tensor(np.log(scales))
    torch.manual_seed(0)
    chosen = torch.full((20000,), 2)
    places = (gaussians.halves(chosen)["means"] - gaussians.values["means"][2]).detach().numpy()
    assert places.shape == (40000, 3)
    import colmap

    axes = colmap.rotation_matrix(rotation)
    expected = axes @ np.diag(scales ** 2) @ axes.T
    np.testing.assert_allclose(np.cov(places.T), expected, atol=0.03 * scales.max() ** 2)
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(places.T)), scales ** 2, rtol=0.05)


def test_prune():
    sizes = np.log([0.1, 0.1, 2.0, 0.1, 0.1])
    gaussians = five(sizes)
    gaussians.values["logits"].data = torch.tensor([0.5, 0.006, 0.5, 0.004, 0.9]).logit()
    means = gaussians.values["means"].detach().clone()
    gaussians.prune(huge_too=False)
    assert_whole(gaussians, 4)
    torch.testing.assert_close(gaussians.values["means"].detach(), means[[0, 1, 2, 4]])
    torch.testing.assert_close(moment(gaussians, "logits"), torch.tensor([0.1, 0.2, 0.3, 0.5]))
    gaussians.prune(huge_too=True)
    assert_whole(gaussians, 3)
    torch.testing.assert_close(gaussians.values["means"].detach(), means[[0, 1, 4]])


def test_reset_opacities():
    gaussians = five([0.0] * 5)
    gaussians.values["logits"].data = torch.tensor([0.5, 0.006, 0.9, 0.004, 0.01]).logit()
    gaussians.reset_opacities()
    torch.testing.assert_close(gaussians.values["logits"].sigmoid().detach(),
                               torch.tensor([0.01, 0.006, 0.01, 0.004, 0.01]))
    assert not moment(gaussians, "logits").any()
    assert moment(gaussians, "means").all()


def test_when_the_number_changes():
    options = train_colmap.read_options(["data", "--steps", "8000"])
    assert options.densify_until == 4000
    calls = []

    class Notes:
        def densify(self, threshold, limit):
            assert (threshold, limit) == (0.0002, 3_000_000)
            calls.append(("densify", done))

        def prune(self, huge_too):
            calls.append(("prune", huge_too))

        def reset_opacities(self):
            calls.append(("reset", done))

    for done in range(1, 8001):
        train_colmap.change_number(Notes(), options, done)
    assert [at for what, at in calls if what == "densify"] == list(range(600, 4000, 100))
    assert [at for what, at in calls if what == "reset"] == [3000]
    assert [huge for what, huge in calls if what == "prune"] == [False] * 25 + [True] * 9


def test_growing_helps(data, tmp_path):
    """From few points, clones and parts bring what so few could not."""
    few = make_dataset.main([str(tmp_path), "--views", "16", "--size", "64x48",
                             "--gaussians", "1500", "--points", "100"])
    assert len(few.points) == 100
    common = [str(tmp_path), "--out", str(tmp_path), "--device", "cpu", "--steps", "400",
              "--sh-degree", "0", "--densify-from", "90"]
    fixed = train_colmap.main([*common, "--densify-until", "0"])[-1]
    grown = train_colmap.main([*common, "--densify-until", "210"])[-1]
    print(fixed, grown)
    assert fixed[1] == 100 and grown[1] > 250
    assert grown[2] > fixed[2] + 0.7


# ------------------------------------------------------------- a captured scene

SCENES = pathlib.Path(os.environ.get("GSPLAT_C_SCENES", ROOT.parent / "shared/scenes"))


@pytest.mark.skipif(not (SCENES / "guitar.ply").exists(), reason="guitar.ply is not there")
def test_captured_scene(tmp_path):
    """Views of a guitar that it was not trained on; black around it makes the start good, too."""
    make_dataset.main([str(tmp_path), "--scene", str(SCENES / "guitar.ply"), "--cameras",
                       str(SCENES / "guitar_cameras.json"), "--views", "16", "--size", "120x90",
                       "--zoom", "1.3", "--points", "2000"])
    psnr = {}
    for steps in ("1", "200"):
        psnr[steps] = train_colmap.main([str(tmp_path), "--out", str(tmp_path), "--device", "cpu",
                                         "--steps", steps, "--densify-from", "50",
                                         "--densify-every", "50", "--sh-degree", "0"])[-1][2]
    print(psnr)
    assert psnr["200"] > max(psnr["1"] + 4, 30)


# --------------------------------------------------------------------- the rest


def test_downscaled_views(data):
    options = train_colmap.read_options([str(data), "--downscale", "5", "--test-every", "3"])
    views, test, points, colors, extent = train_colmap.load(options, CPU)
    assert (len(views), len(test), len(points)) == (10, 6, 400)
    assert [view.camera.name for view in test] == [f"{3 * i:05}.png" for i in range(6)]
    assert tuple(test[1].target.shape) == (3, 9, 12)
    whole = pictures.read(data / "images" / "00003.png")[:, :45, :60].astype(float)
    blocks = whole.reshape(3, 9, 5, 12, 5).mean((2, 4))
    assert np.abs(blocks - test[1].target.numpy()).max() <= 0.5
    eyes = np.array([view.camera.position for view in views + test])
    assert extent == pytest.approx(1.1 * np.linalg.norm(eyes - eyes.mean(0), axis=1).max())


def test_everything_faint(data, tmp_path):
    """Training that loses all Gaussians ends with an empty scene."""
    options = train_colmap.read_options([str(data), "--steps", "2"])
    views, test, points, colors, extent = train_colmap.load(options, CPU)
    gaussians = train_colmap.Gaussians(points, colors, 1, extent, CPU)
    gaussians.values["logits"].data[:] = -9
    gaussians.prune(huge_too=False)
    curve = train_colmap.train(gaussians, views, test, options, CPU)
    train_colmap.save(tmp_path, gaussians, views, test, curve)
    assert curve[-1][1] == 0
    scene = splat_file.read(tmp_path / "point_cloud/iteration_2/point_cloud.ply")
    assert len(scene["means"]) == 0


@pytest.mark.parametrize("wrong", ["--steps", "--downscale", "--reset-every"])
def test_wrong_options(wrong, capsys):
    with pytest.raises(SystemExit):
        train_colmap.main(["data", wrong, "0"])
    assert f"{wrong} must be at least 1" in capsys.readouterr().err
