"""Loops as training code writes them, one per variant, and its ways of calling."""

import math

import pytest
import torch
from frames import HEIGHT, SPLIT, TANFOV, VARIANTS, WIDTH, Camera, arguments, gaussians, inputs_of

import gsplat_c.torch

STEPS = 20


def l1_and_ssim(modules, image, target, variant):
    """The loss of each generation, by what it imports."""
    if variant in ("2024-accel", "taming-rasterizer"):
        ssim = FastSsim.apply(modules.raw, image, target).mean()
    elif variant == "2023":
        return (image - target).abs().mean()
    else:
        ssim = modules.ssim.fused_ssim(image.unsqueeze(0), target.unsqueeze(0))
    return 0.8 * (image - target).abs().mean() + 0.2 * (1.0 - ssim)


class FastSsim(torch.autograd.Function):
    """How callers wrap the rasterizer's own SSIM."""

    @staticmethod
    def forward(ctx, raw, image, target):
        ctx.raw = raw
        ctx.save_for_backward(image.detach(), target)
        return raw.fusedssim(0.01**2, 0.03**2, image, target)

    @staticmethod
    def backward(ctx, grad):
        image, target = ctx.saved_tensors
        return None, ctx.raw.fusedssim_backward(0.01**2, 0.03**2, image, target, grad), None


def settings_of(modules, variant, camera, **changes):
    return modules.dgr.GaussianRasterizationSettings(**camera.settings(variant, **changes))


def make_optimizer(modules, leaves, variant):
    rates = {"means": 2e-3, "opacities": 1e-2, "dc": 5e-2, "rest": 2e-3, "scales": 2e-3,
             "rotations": 1e-3}
    groups = [{"params": [leaf], "lr": rates[name], "name": name}
              for name, leaf in leaves.items()]
    if variant in SPLIT:
        return modules.dgr.SparseGaussianAdam(groups, lr=0.0, eps=1e-15)
    return torch.optim.Adam(groups, lr=0.0, eps=1e-15)


@pytest.mark.parametrize("variant", VARIANTS)
def test_training(use, device, variant):
    modules = use(variant)
    camera, leaves = Camera(device), gaussians(40, device)
    truth = gaussians(40, device, seed=1)
    weights = torch.rand(HEIGHT, WIDTH, device=device)
    settings = settings_of(modules, variant, camera, pixel_weights=weights)
    with torch.no_grad():
        target = modules.dgr.GaussianRasterizer(settings)(**inputs_of(truth, variant))[0]
        target = target.clamp(0, 1)
    optimizer = make_optimizer(modules, leaves, variant)
    largest = torch.zeros(40, device=device)
    gradient, seen = torch.zeros(40, 1, device=device), torch.zeros(40, 1, device=device)
    losses = []
    for _ in range(STEPS):
        args = inputs_of(leaves, variant)
        image, radii, *more = modules.dgr.GaussianRasterizer(raster_settings=settings)(**args)
        image = image.clamp(0, 1)
        loss = l1_and_ssim(modules, image, target, variant)
        if variant in ("2024-08", "2024", "2024-accel"):
            loss = loss + 1e-3 * (more[0] - 0.3).abs().mean()  # an expanded upstream gradient
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            visible = (radii > 0).nonzero() if variant.startswith("2024") else radii > 0
            largest[visible] = torch.max(largest[visible], radii[visible])
            gradient[visible] += torch.norm(args["means2D"].grad[visible, :2], dim=-1,
                                            keepdim=True)
            seen[visible] += 1
            if variant in SPLIT:
                optimizer.step(radii > 0, radii.shape[0])
            else:
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    assert losses[-1] < 0.75 * losses[0], losses
    average = gradient / seen
    average[average.isnan()] = 0
    assert (average > 0).sum() > 30 and largest.max() > 3
    assert all(torch.isfinite(leaf).all() for leaf in leaves.values())


def test_pose_tracking(use, device):
    """A camera finds its place by the gradients of its small motion."""
    modules, camera = use("w-pose"), Camera(device)
    model = {name: leaf.detach() for name, leaf in gaussians(60, device).items()}
    truth, start = camera.pose.clone(), camera.pose.clone()
    start[:3, 3] += torch.tensor([0.03, -0.02, 0.04], device=device)

    def image(pose, **motion):
        view = pose.t()
        full = view @ camera.raw
        settings = settings_of(modules, "w-pose", camera, viewmatrix=view, projmatrix=full,
                               campos=torch.linalg.inv(view)[3, :3])
        return modules.dgr.GaussianRasterizer(settings)(**arguments(model, False), **motion)[0]

    target = image(truth).detach()
    theta, rho = (torch.nn.Parameter(torch.zeros(3, device=device)) for _ in range(2))
    optimizer = torch.optim.Adam([{"params": [theta], "lr": 1e-3}, {"params": [rho], "lr": 4e-3}])
    pose, first = start, (start - truth).norm()
    for _ in range(40):
        optimizer.zero_grad()
        loss = (image(pose, theta=theta, rho=rho) - target).abs().mean()
        loss.backward()
        with torch.no_grad():
            optimizer.step()
            skew = torch.zeros(4, 4, device=device)
            skew[0, 1], skew[0, 2], skew[1, 2] = -theta[2], theta[1], -theta[0]
            skew = skew - skew.t()
            skew[:3, 3] = rho
            pose = torch.linalg.matrix_exp(skew) @ pose
            theta.zero_()
            rho.zero_()
    assert (pose - truth).norm() < 0.3 * first


@pytest.mark.parametrize("degree", [0, 1])
def test_pose_gradients_are_derivatives(use, degree):
    """By the chain rule from those by view and position, which know nothing of motions."""
    modules, camera = use("w-pose"), Camera()
    model = {name: leaf.detach() for name, leaf in gaussians(12, seed=3).items()}
    weights = torch.rand(3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(4))
    sinks = {name: torch.zeros(3, requires_grad=True) for name in ("theta", "rho")}
    settings = settings_of(modules, "w-pose", camera, sh_degree=degree)
    color = modules.dgr.GaussianRasterizer(settings)(**arguments(model, False), **sinks)[0]
    (color * weights).sum().backward()

    theta, rho = torch.zeros(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    zero = torch.zeros(())
    skew = torch.stack((torch.stack((zero, -theta[2], theta[1], rho[0])),
                        torch.stack((theta[2], zero, -theta[0], rho[1])),
                        torch.stack((-theta[1], theta[0], zero, rho[2])), torch.zeros(4)))
    pose = torch.linalg.matrix_exp(skew) @ camera.pose
    again = gsplat_c.torch.rasterize(
        means=model["means"], opacities=model["opacities"], scales=model["scales"],
        rotations=model["rotations"], sh=torch.cat((model["dc"], model["rest"]), dim=1),
        sh_degree=degree, view=pose.t(), position=-pose[:3, :3].t() @ pose[:3, 3],
        projection=camera.full, tan_fovx=TANFOV[0], tan_fovy=TANFOV[1], width=WIDTH,
        height=HEIGHT, background=settings.bg, compat_3dgs=True).color
    (again * weights).sum().backward()
    torch.testing.assert_close(sinks["theta"].grad, theta.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sinks["rho"].grad, rho.grad, rtol=1e-4, atol=1e-4)


def test_median_depth_callers(use, device):
    """[1, 4, 4] matrices, a principal point off the centre, settings without debug."""
    modules = use(None)
    camera = Camera(device)
    view = camera.pose.unsqueeze(0).transpose(1, 2)
    lens = camera.lens.clone()
    lens[0, 2] = 0.15
    lens = lens.unsqueeze(0).transpose(1, 2)
    full = view.bmm(lens)
    cam = modules.dgr.GaussianRasterizationSettings(
        image_height=HEIGHT, image_width=WIDTH, tanfovx=TANFOV[0], tanfovy=TANFOV[1],
        bg=torch.tensor([0, 0, 0], dtype=torch.float32, device=device), scale_modifier=1.0,
        viewmatrix=view, projmatrix=full, sh_degree=0, campos=torch.inverse(camera.pose)[:3, 3],
        prefiltered=False)
    leaves = gaussians(20, device)
    rendervar = {
        "means3D": leaves["means"], "colors_precomp": torch.rand(20, 3, device=device),
        "rotations": torch.nn.functional.normalize(leaves["rotations"]),
        "opacities": leaves["opacities"], "scales": leaves["scales"][:, :1].expand(20, 3),
        "means2D": torch.zeros_like(leaves["means"], requires_grad=True) + 0}
    rendervar["means2D"].retain_grad()
    image, radius, depth = modules.dgr.GaussianRasterizer(raster_settings=cam)(**rendervar)
    assert depth.shape == (1, HEIGHT, WIDTH) and depth.max() == 15 and 2 < depth.min() < 4
    image.sum().backward()
    assert leaves["scales"].grad.abs().sum() > 0  # through an expanded tensor
    # The same frame with the matrices written out, dense and without the leading 1.
    plain = cam._replace(viewmatrix=view[0].contiguous(), projmatrix=full[0].contiguous())
    with torch.no_grad():
        again = modules.dgr.GaussianRasterizer(plain)(**rendervar)[0]
        centred = cam._replace(projmatrix=camera.full)
        other = modules.dgr.GaussianRasterizer(centred)(**rendervar)[0]
    assert torch.equal(again, image) and not torch.allclose(other, image)


@pytest.mark.parametrize("variant, place", [("w-depth", 2), ("w-pose", 3), ("taming", 7)])
def test_ignored_gradients_are_zero(use, device, variant, place):
    """Of the median depth, the opacity and the statistics."""
    modules = use(variant)
    leaves = gaussians(10, device)
    settings = settings_of(modules, variant, Camera(device))
    args = inputs_of(leaves, variant)
    results = modules.dgr.GaussianRasterizer(settings)(**args)
    assert (results[place] > 0).any()
    results[place].sum().backward()
    assert (leaves["means"].grad == 0).all() and (args["means2D"].grad == 0).all()


def test_no_grad_draws_the_same(use, device):
    for variant in VARIANTS:
        modules = use(variant)
        leaves = gaussians(10, device)
        rasterizer = modules.dgr.GaussianRasterizer(settings_of(modules, variant, Camera(device)))
        wanted = rasterizer(**inputs_of(leaves, variant))
        args = {name: value.detach() if value is not None else None
                for name, value in inputs_of(leaves, variant).items()}
        with torch.no_grad():
            got = rasterizer(**inputs_of(leaves, variant))
        detached = rasterizer(**args)
        for one, other, third in zip(wanted, got, detached):
            assert torch.equal(one, other) and torch.equal(one, third)
            assert not other.requires_grad and not third.requires_grad


def test_gradients_only_where_wanted(use, device):
    modules = use("2024")
    leaves = gaussians(10, device)
    leaves["rotations"] = leaves["rotations"].detach()
    args = arguments(leaves, False)
    args["means2D"] = torch.zeros(10, 3, device=device)
    settings = settings_of(modules, "2024", Camera(device),
                           bg=torch.ones(3, device=device, requires_grad=True),
                           viewmatrix=Camera(device).view.clone().requires_grad_())
    modules.dgr.GaussianRasterizer(settings)(**args)[0].sum().backward()
    assert settings.bg.grad is None and settings.viewmatrix.grad is None
    assert leaves["means"].grad.abs().sum() > 0 and leaves["rotations"].grad is None


def test_scale_modifier_and_precomputed_inputs(use, device):
    """cov3D_precomp ignores the modifier; colours are used as they are."""
    modules, leaves = use("2023"), gaussians(10, device)
    colors = torch.randn(10, 3, device=device, requires_grad=True)
    covariances = torch.tensor([0.02, 0.001, 0, 0.03, 0.002, 0.01], device=device).repeat(10, 1)
    covariances.requires_grad_()
    args = {"means3D": leaves["means"], "means2D": torch.zeros(10, 3, device=device),
            "opacities": leaves["opacities"], "colors_precomp": colors,
            "cov3D_precomp": covariances}
    images = [modules.dgr.GaussianRasterizer(
        settings_of(modules, "2023", Camera(device), scale_modifier=modifier))(**args)[0]
        for modifier in (1.0, 0.5)]
    assert torch.equal(*images) and images[0].min() < 0
    images[0].sum().backward()
    assert colors.grad.shape == (10, 3) and covariances.grad.shape == (10, 6)


@pytest.mark.parametrize("split", [False, True])
def test_higher_degrees_mean_three(use, split):
    variant = "2024-accel" if split else "2024"
    modules, leaves = use(variant), gaussians(8, degree=3)
    args = arguments(leaves, split)
    images = [modules.dgr.GaussianRasterizer(
        settings_of(modules, variant, Camera(), sh_degree=degree))(**args)[0]
        for degree in (3, 4, 7, 2)]
    assert torch.equal(images[0], images[1]) and torch.equal(images[0], images[2])
    assert not torch.allclose(images[0], images[3])


def test_dc_trains_where_nothing_else_is_stored(use):
    modules, leaves = use("taming"), gaussians(8, degree=0)
    assert leaves["rest"].shape == (8, 0, 3)
    settings = settings_of(modules, "taming", Camera(), sh_degree=0)
    modules.dgr.GaussianRasterizer(settings)(**arguments(leaves, True))[0].sum().backward()
    assert leaves["dc"].grad.abs().sum() > 0 and leaves["rest"].grad.shape == (8, 0, 3)


def test_zero_quaternion_and_large_opacity_are_legal(use):
    modules, leaves = use("2023"), gaussians(6)
    with torch.no_grad():
        leaves["opacities"][0] = 3.0
        leaves["rotations"] *= 1.5  # used raw: the covariance grows
    settings = settings_of(modules, "2023", Camera())
    image, radii = modules.dgr.GaussianRasterizer(settings)(**arguments(leaves, False))
    with torch.no_grad():
        leaves["rotations"] /= 1.5
        smaller = modules.dgr.GaussianRasterizer(settings)(**arguments(leaves, False))[1]
    assert torch.isfinite(image).all() and (radii > smaller).all()
    assert math.isfinite(image.sum().item())


def test_saved_tensors_may_be_packed(use, device):
    modules, leaves = use("2024"), gaussians(10, device)
    settings = settings_of(modules, "2024", Camera(device))
    rasterizer = modules.dgr.GaussianRasterizer(settings)
    rasterizer(**arguments(leaves, False))[0].sum().backward()
    wanted, leaves["means"].grad = leaves["means"].grad, None
    packed = []

    def pack(tensor):
        packed.append(tensor.dtype)
        return torch.cat((tensor.flatten()[:1], tensor.flatten())).cpu(), tensor.shape

    def unpack(kept):
        flat, shape = kept
        return flat.to(device)[1:].view(shape)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        rasterizer(**arguments(leaves, False))[0].sum().backward()
    assert torch.uint8 in packed and torch.float32 in packed
    torch.testing.assert_close(leaves["means"].grad, wanted)


def test_inputs_that_are_not_dense(use, device):
    dgr = use("2023").dgr
    leaves = gaussians(device=device)
    settings = dgr.GaussianRasterizationSettings(**Camera(device).settings("2023"))
    inputs = arguments(leaves, False)
    expected = dgr.GaussianRasterizer(settings)(**inputs)[0]
    by_scales, = torch.autograd.grad(expected.sum(), leaves["scales"])
    wide = torch.repeat_interleave(leaves["scales"].detach(), 2, dim=1).requires_grad_()
    image = dgr.GaussianRasterizer(settings)(**{**inputs, "scales": wide[:, ::2]})[0]
    by_wide, = torch.autograd.grad(image.sum(), wide)
    assert torch.equal(image, expected)
    torch.testing.assert_close(by_wide[:, ::2], by_scales)
    assert not by_wide[:, 1::2].any()


@pytest.mark.parametrize("count", [1, 25])
def test_strides_of_dimensions_of_one_element(use, device, count):
    dgr = use("2023").dgr
    leaves = gaussians(count, device)
    settings = dgr.GaussianRasterizationSettings(**Camera(device).settings("2023", sh_degree=0))
    inputs = {**arguments(leaves, False), "shs": leaves["dc"]}
    odd = {"shs": leaves["dc"].detach().as_strided((count, 1, 3), (3, 7, 1)),
           "opacities": leaves["opacities"].detach().as_strided((count, 1), (1, 5))}
    if count == 1:
        odd["opacities"] = odd["opacities"].as_strided((1, 1), (7, 7))
    for recorded in (True, False):
        with torch.set_grad_enabled(recorded):
            expected = dgr.GaussianRasterizer(settings)(**inputs)[0]
            image = dgr.GaussianRasterizer(settings)(**{**inputs, **odd})[0]
            assert torch.equal(image, expected)


def test_deterministic_algorithms(use, monkeypatch):
    from gsplat_c import _raster
    from gsplat_c._fields import FIELDS

    seen, whole = [], _raster.backward_packed

    def record(saved, numbers, *args):
        seen.append(bool(numbers[0] & FIELDS["deterministic"].flag))
        return whole(saved, numbers, *args)

    monkeypatch.setattr(_raster, "backward_packed", record)
    dgr = use("2023").dgr
    settings = dgr.GaussianRasterizationSettings(**Camera().settings("2023"))
    try:
        for on in (False, True):
            torch.use_deterministic_algorithms(on)
            dgr.GaussianRasterizer(settings)(**arguments(gaussians(), False))[0].sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen == [False, True]


def test_forward_mode_is_refused(use):
    from torch.autograd import forward_ad

    dgr, args = use("2023").dgr, arguments(gaussians(), False)
    settings = dgr.GaussianRasterizationSettings(**Camera().settings("2023"))
    with forward_ad.dual_level(), torch.no_grad():
        args["means3D"] = forward_ad.make_dual(args["means3D"].detach(), torch.ones(25, 3))
        with pytest.raises(NotImplementedError, match="jvp"):
            dgr.GaussianRasterizer(settings)(**args)
