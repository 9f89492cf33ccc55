"""The trainer: it finds every parameter, changes the number of Gaussians, writes what it says."""

import dataclasses
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fit_views  # noqa: E402
import gsplat_c  # noqa: E402
import make_dataset  # noqa: E402
import train_colmap  # noqa: E402
from gsplat_c.io import (  # noqa: E402
    Observations,
    Reconstruction,
    Scene,
    load_cameras,
    load_colmap,
    load_image,
    load_ply,
    save_colmap,
    save_image,
    save_ply,
)
from gsplat_c.io._colmap import rotation_matrix  # noqa: E402

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
    picture = load_image(out / "test/00008.png")
    target, result = picture[:, :, :64], picture[:, :, 68:]
    assert -10 * np.log10(np.mean((target - result) ** 2)) > 25


def test_results_are_for_viewers(trained, tmp_path):
    """gsplat-c renders the files that training wrote, and it looks like the test images."""
    _, out = trained
    scene = out / "point_cloud/iteration_400/point_cloud.ply"
    assert load_ply(scene).sh.shape[1:] == (4, 3)
    cameras = json.loads((out / "cameras.json").read_text())
    assert len(cameras) == 16 and cameras[0]["img_name"] == "00000.png"

    command = os.environ.get("GSPLAT_C_COMMAND", str(ROOT / "build/tools/gsplat-c"))
    if not pathlib.Path(command).exists():
        pytest.skip("the command is not built")
    subprocess.run([command, "render", str(scene), "--cameras", str(out / "cameras.json"),
                    "--camera", "0", "-o", str(tmp_path / "view.png")], check=True)
    rendered = load_image(tmp_path / "view.png")
    result = load_image(out / "test/00000.png")[:, :, 68:]
    assert rendered.shape == (3, 48, 64) and result.std() > 0.04
    assert np.abs(rendered - result).max() <= 1.01 / 255


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
    save_ply(folder / "scene.ply", Scene(**scene))
    make_dataset.main([str(folder), "--scene", str(folder / "scene.ply"), "--views", "12",
                       "--size", "64x48"])
    options = train_colmap.read_options([str(folder), "--test-every", "0"])
    return scene, train_colmap.load(options, CPU).train


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
    axes = rotation_matrix(rotation)
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


# ------------------------------------------------------------------ photographs


def photographs(folder, size, write, gray=False):
    """Makes a data set of a known scene, write(path, scene, camera) its images; the scene."""
    values = fit_views.procedural_scene(800, np.random.default_rng(2))
    if gray:
        values["sh"][:] = values["sh"].mean(2, keepdims=True)
    scene = Scene(**values)
    save_ply(folder / "scene.ply", scene)
    make_dataset.main([str(folder), "--scene", str(folder / "scene.ply"), "--views", "8",
                       "--size", size])
    for camera in load_colmap(folder).cameras:
        write(folder / "images" / camera.name, scene, camera)
    return scene


def write_color(path, scene, camera, bits=8):
    save_image(path, make_dataset.photograph(scene, camera)[0], bits=bits)


def write_16_bits(path, scene, camera):
    write_color(path, scene, camera, bits=16)


def write_gray(path, scene, camera):
    save_image(path, make_dataset.photograph(scene, camera)[0][0], bits=16)


def write_alpha(path, scene, camera):
    """What is seen of the scene alone; wrong colours where nothing is."""
    color, alpha = gsplat_c.rasterize(**scene.arguments(camera), outputs=("color", "alpha"))
    color = np.where(alpha > 0, color / np.maximum(alpha, 1e-6), 0.3)
    save_image(path, np.concatenate([color, alpha[None]]))


@pytest.mark.parametrize("size, write, options, right", [
    ("64x48", write_color, [], 45), ("64x48", write_16_bits, [], 45),
    ("64x48", write_gray, [], 45), ("64x48", write_alpha, [], 45),
    ("64x48", write_alpha, ["--background", "white"], 45),
    ("129x97", write_16_bits, ["--downscale", "2"], 38),
    ("194x146", write_alpha, ["--downscale", "3", "--background", "white"], 36)])
def test_photographs(tmp_path, size, write, options, right):
    """The scene that they show looks like them, but for 8 bits and averages of pixels."""
    scene = photographs(tmp_path, size, write, gray=write is write_gray)
    data = train_colmap.load(train_colmap.read_options([str(tmp_path), *options]), CPU)
    gaussians = train_colmap.Gaussians(scene.means, np.zeros_like(scene.means), 0, 4.0, CPU)
    for name, value in (("log_scales", scene.log_scales), ("rotations", scene.rotations),
                        ("logits", scene.logits), ("sh_dc", scene.sh)):
        gaussians.values[name].data.copy_(torch.tensor(value))
    psnr = train_colmap.evaluate(gaussians, data.train, 0)[0]
    print(f"{write.__name__} {size} {options}: {psnr:.1f} dB")
    assert tuple(data.train[0].target.shape) == (3, 48, 64)
    assert psnr > right


def test_pictures_of_another_shape(tmp_path):
    photographs(tmp_path, "64x48", write_color)
    save_image(tmp_path / "images/00003.png", np.zeros((3, 48, 60)))
    with pytest.raises(ValueError, match="00003.png: 60x48 is another shape than 64x48"):
        train_colmap.load(train_colmap.read_options([str(tmp_path)]), CPU)


def test_geographic_coordinates(data, tmp_path):
    """Training far from the origin gives the same scene there, in files with its digits."""
    offset, curves = np.array([5e6, -3e5, 2e6]), []
    model = load_colmap(data)
    back = np.eye(4)
    back[:3, 3] = -offset
    moved = [dataclasses.replace(camera, world_to_camera=camera.world_to_camera @ back)
             for camera in model.cameras]
    none = Observations(np.empty(0, int), np.empty(0, int), np.empty((0, 2)))
    save_colmap(tmp_path / "sparse/0",
                Reconstruction(moved, model.points + offset, model.colors), none)
    (tmp_path / "images").symlink_to(data / "images")
    for folder in (data, tmp_path):
        curves.append(train_colmap.main([
            str(folder), "--out", str(tmp_path / folder.name), "--device", "cpu", "--steps", "60",
            "--sh-degree", "0"])[-1])
    assert curves[1][2] == pytest.approx(curves[0][2], abs=0.2)
    far, near = (load_ply(tmp_path / folder.name / "point_cloud/iteration_60/point_cloud.ply")
                 for folder in (tmp_path, data))
    assert near.means.dtype == np.float32
    assert np.median(np.abs(far.means - offset - near.means)) < 0.01
    cameras = load_cameras(tmp_path / tmp_path.name / "cameras.json")
    assert np.abs(cameras[0].position - offset).max() < 10


def test_resets_are_not_judged(data, tmp_path):
    """Evaluation at a step that resets opacities comes first."""
    curve = train_colmap.main([str(data), "--out", str(tmp_path), "--device", "cpu", "--steps",
                               "82", "--eval-every", "40", "--reset-every", "80",
                               "--densify-until", "100", "--sh-degree", "0"])
    first, before, after = (row[2] for row in curve)
    assert before > first
    assert after < before - 3  # two steps later


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
    loaded = train_colmap.load(options, CPU)
    views, test = loaded.train, loaded.test
    assert (len(views), len(test), len(loaded.points)) == (10, 6, 400)
    assert [view.camera.name for view in test] == [f"{3 * i:05}.png" for i in range(6)]
    assert tuple(test[1].target.shape) == (3, 9, 12)
    whole = load_image(data / "images" / "00003.png")[:, :45, :60] * 255
    blocks = whole.reshape(3, 9, 5, 12, 5).mean((2, 4))
    assert np.abs(blocks - test[1].target.numpy()).max() <= 0.51
    eyes = np.array([view.camera.position for view in views + test])
    assert loaded.extent == pytest.approx(1.1 * np.linalg.norm(eyes - eyes.mean(0), axis=1).max())


def test_everything_faint(data, tmp_path):
    """Training that loses all Gaussians ends with an empty scene."""
    options = train_colmap.read_options([str(data), "--steps", "2"])
    loaded = train_colmap.load(options, CPU)
    gaussians = train_colmap.Gaussians(loaded.points, loaded.colors, 1, loaded.extent, CPU)
    gaussians.values["logits"].data[:] = -9
    gaussians.prune(huge_too=False)
    curve = train_colmap.train(gaussians, loaded, options, CPU)
    train_colmap.save(tmp_path, gaussians, loaded, curve)
    assert curve[-1][1] == 0
    assert len(load_ply(tmp_path / "point_cloud/iteration_2/point_cloud.ply")) == 0


@pytest.mark.parametrize("wrong", ["--steps", "--downscale", "--reset-every"])
def test_wrong_options(wrong, capsys):
    with pytest.raises(SystemExit):
        train_colmap.main(["data", wrong, "0"])
    assert f"{wrong} must be at least 1" in capsys.readouterr().err
