"""Every gradient of the rasterizer on CUDA against the CPU: which rows are written, added to or
left alone, whatever the arrays' alignment and whichever gradients are wanted."""

import itertools

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import relative
from scenes import camera, gaussians, some

PLAIN = ("means", "opacities", "scales", "rotations", "covariances", "colors", "sh", "sh_dc")


def scene(count=1003, cameras=1, spread=1.5, **options):
    """options: degree, stored, split; channels, own; covariances; position."""
    rng = np.random.default_rng(count)
    count = some(count)
    args = {**gaussians(count, 5, spread=spread, size=0.06), **camera(120, 72, cameras)}
    if "channels" in options:
        shape = (count, options["channels"])
        args["colors"] = rng.random((cameras, *shape) if options.get("own") else shape)
        args["background"] = rng.random(options["channels"])
    else:
        degree = options.get("degree", 3)
        stored = options.get("stored", (degree + 1) ** 2)
        args["sh_degree"] = degree
        args["sh"] = 0.3 * rng.standard_normal((count, stored, 3))
        if options.get("split"):
            args["sh_dc"], args["sh"] = args["sh"][:, :1], args["sh"][:, 1:]
    if options.get("covariances"):
        axes = rng.standard_normal((count, 3, 3)) * 0.05
        full = axes @ axes.transpose(0, 2, 1)
        args["covariances"] = full[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        del args["scales"], args["rotations"]
    if options.get("position"):
        view = args["view"].reshape(-1, 4, 4)
        centre = -np.einsum("cji,cj->ci", view[:, :3, :3], view[:, :3, 3])
        args["position"] = centre[0] if cameras == 1 else centre
    return {k: np.ascontiguousarray(v, np.float32) if isinstance(v, np.ndarray) else v
            for k, v in args.items()}


def on_device(value, offset):
    """A copy that begins `offset` elements off what vectors need."""
    memory = torch.empty(value.size + offset, device="cuda")
    memory[offset:] = torch.from_numpy(value.reshape(-1)).cuda()
    return memory[offset:].reshape(value.shape)


def wanted(args, axes):
    """Shapes of all gradients."""
    count = len(args["means"])
    cameras = args["view"].shape[:-2]
    shapes = {k: args[k].shape for k in PLAIN + ("view", "position", "background") if k in args}
    return {**shapes, "means2d": (*cameras, count, axes), "means2d_abs": (*cameras, count, axes)}


def gradients(args, given, start, add, offset, options):
    """One backward pass into arrays that hold `start`."""
    cuda = offset is not None
    place = (lambda v: on_device(v, offset)) if cuda else np.copy
    args = {k: place(v) if isinstance(v, np.ndarray) and k in PLAIN else v
            for k, v in args.items()}
    if cuda:
        args = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v
                for k, v in args.items()}
        given = {k: torch.from_numpy(v).cuda() for k, v in given.items()}
    saved = gsplat_c.rasterize_forward(outputs=("color",), **args)[1]
    out = {k: place(v) for k, v in start.items()}
    gsplat_c.rasterize_backward(saved, wrt=list(out), out=out, grad_add=add, **given, **args,
                                **options)
    return {k: v.cpu().numpy() if cuda else v for k, v in out.items()}


def check(args, axes=2, offset=0, only=None, tolerance=2e-4, **options):
    rng = np.random.default_rng(9)
    pixels = (*args["view"].shape[:-2], args["height"], args["width"])
    channels = args["colors"].shape[-1] if "colors" in args else 3
    given = {"grad_color": rng.standard_normal((*pixels[:-2], channels, *pixels[-2:])),
             "grad_alpha": rng.standard_normal(pixels)}
    given = {k: v.astype(np.float32) for k, v in given.items()}
    shapes = wanted(args, axes)
    if only:
        shapes = {k: v for k, v in shapes.items() if k in only}
    for add in (False, True):
        start = {k: rng.standard_normal(v).astype(np.float32) if add
                 else np.full(v, np.nan, np.float32) for k, v in shapes.items()}
        cpu = gradients(args, given, start, add, None, options)
        gpu = gradients(args, given, start, add, offset, options)
        for name in shapes:
            error = relative(gpu[name], cpu[name], f"d {name}")
            assert error < tolerance, (name, add, error)
            if add and name in PLAIN[:6] + ("means2d",):
                width = shapes[name][-1] if len(shapes[name]) > 1 else 1
                same, kept = ((v[name] == start[name]).reshape(-1, width).all(1)
                              for v in (cpu, gpu))
                assert (same != kept).sum() <= 2, name
            if not add:
                nothing = cpu[name] == 0
                assert (gpu[name][nothing] != 0).sum() <= 3, name


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("more", [0, 1, 3, 7, 20])
@pytest.mark.parametrize("split", [False, True])
def test_harmonics(degree, more, split):
    stored = (degree + 1) ** 2 + more
    for offset in (0, 1):
        check(scene(degree=degree, stored=stored, split=split), offset=offset)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("degree", range(4))
def test_sixteen_coefficients(degree, split):
    for count, offset in itertools.product((1000, 1001, 1002, 1003), range(4)):
        check(scene(count, degree=degree, stored=16, split=split), offset=offset)


@pytest.mark.parametrize("count", [1, 3, 63, 64, 65, 255, 256, 257, 511, 513, 5000])
@pytest.mark.parametrize("spread", [0.3, 1.5, 6.0])
def test_counts_and_shares_of_visible(count, spread):
    check(scene(count, spread=spread), axes=3, tolerance=1e-3)


@pytest.mark.parametrize("cameras", [1, 3])
@pytest.mark.parametrize("options", [{"channels": 3}, {"channels": 3, "own": True},
                                     {"channels": 4}, {"channels": 4, "own": True},
                                     {"covariances": True}, {"position": True},
                                     {"split": True, "position": True}])
def test_cameras(cameras, options):
    options = {**options, "own": options.get("own", False) and cameras > 1}
    for axes, offset in itertools.product((2, 3), (0, 1, 2)):
        check(scene(1003, cameras, **options), axes=axes, offset=offset)


@pytest.mark.parametrize("channels", [1, 2, 5, 16, 17, 50])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_channels(channels, deterministic, own):
    """Absolute gradients are not linear in the upstream gradient: groups must not just add up."""
    args = scene(1003, 2 if own else 1, channels=channels, own=own)
    check({**args, "deterministic": deterministic}, offset=own)


@pytest.mark.parametrize("name", ["means", "opacities", "scales", "rotations", "covariances", "sh",
                                  "sh_dc", "means2d", "means2d_abs", "view", "position"])
def test_one_alone(name):
    for cameras in (1, 2):
        check(scene(777, cameras, covariances=name == "covariances", split=name == "sh_dc",
                    position=True), only=(name,))


@pytest.mark.parametrize("change", [{"antialias": True}, {"compat_3dgs": True},
                                    {"scale_modifier": 1.7}])
def test_conventions(change):
    check({**scene(2000), **change})
    check(scene(2000), grad2d_ndc=True)


def test_nothing_visible():
    args = scene(700)
    args["means"][:] = np.float32([0, 0, 100])
    check(args)


def test_camera_gradients_are_reproducible():
    args = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v
            for k, v in scene(20000, position=True).items()}
    saved = gsplat_c.rasterize_forward(outputs=("color",), **args)[1]
    zero = torch.zeros(3, args["height"], args["width"], device="cuda")
    zero[:, 30, 50] = 1  # one pixel: the sums over pixels have one term
    first, *others = (gsplat_c.rasterize_backward(saved, wrt=["view", "position"], grad_color=zero,
                                                  **args) for _ in range(5))
    for other in others:
        assert torch.equal(first.view, other.view)
        assert torch.equal(first.position, other.position)
