"""What is refused, and how: the originals' exceptions, and ours where they had none."""

import os

import pytest
import torch
from frames import FIELDS, HEIGHT, SPLIT, VARIANTS, WIDTH, Camera, arguments, gaussians, inputs_of


def draw(modules, variant, args, camera=None, **changes):
    camera = camera or Camera()
    settings = modules.dgr.GaussianRasterizationSettings(**camera.settings(variant, **changes))
    return modules.dgr.GaussianRasterizer(settings)(**args)


@pytest.mark.parametrize("variant", VARIANTS)
def test_exactly_one_of_each(use, variant):
    modules = use(variant)
    good = inputs_of(gaussians(5), variant)
    draw(modules, variant, good)
    colors, covariances = torch.rand(5, 3), torch.rand(5, 6)
    for change in ({"shs": None}, {"colors_precomp": colors}):
        with pytest.raises(Exception, match="exactly one of either SHs or precomputed") as found:
            draw(modules, variant, {**good, **change})
        assert type(found.value) is Exception
    for change in ({"scales": None}, {"rotations": None}, {"scales": None, "rotations": None},
                   {"cov3D_precomp": covariances},
                   {"cov3D_precomp": covariances, "scales": None}):
        with pytest.raises(Exception, match="exactly one of either scale/rotation") as found:
            draw(modules, variant, {**good, **change})
        assert type(found.value) is Exception
    with pytest.raises(TypeError, match="opacities"):
        draw(modules, variant, {key: good[key] for key in good if key != "opacities"})
    with pytest.raises(TypeError, match="surprise"):
        draw(modules, variant, {**good, "surprise": 1})


@pytest.mark.parametrize("variant", SPLIT)
def test_rest_without_dc(use, variant):
    args = arguments(gaussians(5), True)
    with pytest.raises(Exception, match="dc"):
        draw(use(variant), variant, {**args, "dc": None})


@pytest.mark.parametrize("name", ["means3D", "opacities", "shs", "scales", "rotations"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_nothing_is_converted(use, name, dtype):
    args = arguments(gaussians(5), False)
    with pytest.raises(RuntimeError, match="expected scalar type Float") as found:
        draw(use("2023"), "2023", {**args, name: args[name].to(dtype)})
    assert (name if name != "shs" else "sh") in str(found.value)


@pytest.mark.parametrize("name", ["bg", "viewmatrix", "projmatrix", "campos"])
def test_camera_tensors(use, name):
    args, camera = arguments(gaussians(5), False), Camera()
    value = camera.settings("2023")[name]
    with pytest.raises(RuntimeError, match=f"{name} has dtype torch.float64"):
        draw(use("2023"), "2023", args, **{name: value.double()})
    with pytest.raises(RuntimeError, match=rf"{name} has shape \(2,\)"):
        draw(use("2023"), "2023", args, **{name: torch.zeros(2)})
    with pytest.raises(TypeError, match=name):
        draw(use("2023"), "2023", args, **{name: [0.0, 0.0, 0.0]})


def test_shapes(use):
    modules, args = use("2023"), arguments(gaussians(5), False)
    for wrong in (torch.zeros(5, 4), torch.zeros(15), torch.zeros(1, 5, 3)):
        with pytest.raises(RuntimeError, match=r"dimensions \(num_points, 3\)"):
            draw(modules, "2023", {**args, "means3D": wrong})
    for name, wrong in (("scales", torch.ones(4, 3)), ("rotations", torch.ones(5, 3)),
                        ("opacities", torch.ones(6, 1)), ("shs", torch.ones(5, 3, 3))):
        with pytest.raises(ValueError, match="expected"):
            draw(modules, "2023", {**args, name: wrong})
    with pytest.raises(TypeError):
        draw(modules, "2023", args, image_height=30.0)
    with pytest.raises(ValueError):
        draw(modules, "2023", args, image_height=-3)


def test_devices_do_not_mix(use):
    """Tensors without memory stand for those of another device."""
    modules, args = use("2023"), arguments(gaussians(5), False)
    for name in ("scales", "opacities", "shs", "means3D"):
        with pytest.raises((ValueError, RuntimeError), match="meta"):
            draw(modules, "2023", {**args, name: args[name].detach().to("meta")})
    with pytest.raises((ValueError, RuntimeError), match="meta"):
        draw(modules, "2023", args, viewmatrix=torch.eye(4, device="meta"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_and_cpu_do_not_mix(use):
    modules, args = use("2023"), arguments(gaussians(5, "cuda"), False)
    for name in ("scales", "opacities", "shs"):
        with pytest.raises(ValueError, match="expected"):
            draw(modules, "2023", {**args, name: args[name].detach().cpu()}, Camera("cuda"))
    with pytest.raises(ValueError, match="expected"):
        draw(modules, "2023", arguments(gaussians(5), False), Camera("cuda"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_gaussians(use, device, variant):
    """Nothing runs: the images are zero, not the background."""
    modules, leaves = use(variant), gaussians(0, device)
    weights = torch.ones(HEIGHT, WIDTH, device=device)
    args = inputs_of(leaves, variant)
    results = draw(modules, variant, args, Camera(device), pixel_weights=weights)
    assert all((result == 0).all() for result in results)
    assert results[0].shape == (3, HEIGHT, WIDTH) and results[1].shape == (0,)
    results[0].sum().backward()
    assert leaves["means"].grad.shape == (0, 3) and args["means2D"].grad.shape == (0, 3)
    with torch.no_grad():
        assert (draw(modules, variant, args, Camera(device))[0] == 0).all()


def test_nothing_visible(use, device):
    modules, leaves, camera = use("2024"), gaussians(5, device), Camera(device)
    with torch.no_grad():
        leaves["means"] -= 100 * camera.pose[2, :3]  # behind the camera
    color, radii, invdepth = draw(modules, "2024", arguments(leaves, False), camera)
    assert (radii == 0).all() and (invdepth == 0).all()
    bg = camera.settings("2024")["bg"]
    assert torch.equal(color, bg[:, None, None].expand_as(color))
    color.sum().backward()
    assert all((leaf.grad == 0).all() for leaf in leaves.values())


def test_mark_visible(use, device):
    camera = Camera(device)
    points = torch.randn(200, 3, device=device) * 4
    wanted = (points @ camera.view[:3, :3] + camera.view[3, :3])[:, 2] > 0.2
    for variant in VARIANTS:
        modules = use(variant)
        settings = modules.dgr.GaussianRasterizationSettings(**camera.settings(variant))
        rasterizer = modules.dgr.GaussianRasterizer(settings)
        points.requires_grad_()
        got = rasterizer.markVisible(points)
        assert got.dtype == torch.bool and torch.equal(got, wanted)
        assert torch.equal(rasterizer.markVisible(positions=points.t().contiguous().t()), wanted)
        assert torch.equal(modules.raw.mark_visible(points, camera.view, camera.full), wanted)
        batched = settings._replace(viewmatrix=camera.view[None])
        assert torch.equal(modules.dgr.GaussianRasterizer(batched).markVisible(points), wanted)
        assert rasterizer.markVisible(points[:0]).shape == (0,)
    with pytest.raises(RuntimeError, match="Float"):
        rasterizer.markVisible(points.double())


@pytest.mark.parametrize("variant", VARIANTS)
def test_debug_leaves_a_snapshot(use, tmp_path, monkeypatch, variant):
    if "debug" not in FIELDS[variant].split():
        return
    monkeypatch.chdir(tmp_path)
    modules, args = use(variant), inputs_of(gaussians(5), variant)
    good = draw(modules, variant, args, debug=True)
    assert torch.equal(good[0], draw(modules, variant, args)[0])
    good[0].sum().backward()
    assert os.listdir(tmp_path) == []
    writes = variant not in ("2024", "2024-08")
    wrong = {**args, "scales": torch.ones(4, 3)}
    with pytest.raises(ValueError):
        if writes:
            with pytest.warns(RuntimeWarning, match="snapshot_fw.dump"):
                draw(modules, variant, wrong, debug=True)
        else:
            draw(modules, variant, wrong, debug=True)
    assert os.listdir(tmp_path) == (["snapshot_fw.dump"] if writes else [])
    if writes:
        saved = torch.load(tmp_path / "snapshot_fw.dump", weights_only=False)
        assert torch.equal(saved[1], args["means3D"]) and torch.equal(saved[4], wrong["scales"])


def test_debug_of_a_backward(use, tmp_path, monkeypatch):
    from gsplat_c import _raster

    def fail(*args, **kwargs):
        raise RuntimeError("failed on purpose")

    monkeypatch.chdir(tmp_path)
    args = arguments(gaussians(5), False)
    color = draw(use("2023"), "2023", args, debug=True)[0]
    monkeypatch.setattr(_raster, "backward_packed", fail)
    with pytest.warns(RuntimeWarning, match="snapshot_bw.dump"), \
            pytest.raises(RuntimeError, match="on purpose"):
        color.sum().backward()
    saved = torch.load(tmp_path / "snapshot_bw.dump", weights_only=False)
    assert torch.equal(saved[0], torch.ones_like(color)) and torch.equal(saved[2], args["means3D"])
    assert saved[-1] is True and saved[4].shape == (5, 1)


def test_no_second_derivative(use):
    args = arguments(gaussians(5), False)
    color = draw(use("2023"), "2023", args)[0]
    grad, = torch.autograd.grad((color**2).sum(), args["means3D"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        grad.sum().backward()


def test_changes_in_place_are_noticed(use):
    leaves = gaussians(5)
    color = draw(use("2023"), "2023", arguments(leaves, False))[0]
    with torch.no_grad():
        leaves["scales"] *= 2
    with pytest.raises(RuntimeError, match="inplace operation"):
        color.sum().backward()


def test_prefiltered_points_that_are_culled(use):
    leaves = gaussians(5)
    draw(use("2023"), "2023", arguments(leaves, False), prefiltered=True)
    with torch.no_grad():
        leaves["means"][2, 2] -= 100
    with pytest.raises(ValueError):
        draw(use("2023"), "2023", arguments(leaves, False), prefiltered=True)
