"""Reproducible gradients on CUDA: the same bits in every run, and the values of the fast sums."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import relative
from scenes import cases

CASES = dict(cases())
INPUTS = ("means", "opacities", "scales", "rotations", "covariances", "colors", "sh", "sh_dc",
          "view", "background")
UPSTREAM = ("color", "alpha", "depth", "inv_depth")


def gradients(args, given, wrt, deterministic=True, limit=None):
    args = {**args, "deterministic": deterministic}
    saved = gsplat_c.rasterize_forward(outputs=("color",), max_intersections_bytes=limit, **args)[1]
    return gsplat_c.rasterize_backward(saved, wrt=wrt, **given, **args)


def inputs(name, upstream=UPSTREAM):
    """Arguments, gradients of the outputs, what to differentiate by."""
    args = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v
            for k, v in CASES[name][0].items()}
    outputs = tuple(o for o in CASES[name][1] if o in upstream)
    shapes = gsplat_c.rasterize(outputs=outputs, **args)
    generator = torch.Generator(device="cuda").manual_seed(4)
    given = {f"grad_{o}": torch.randn(getattr(shapes, o).shape, device="cuda", generator=generator)
             for o in outputs}
    return args, given, [k for k in INPUTS if k in args] + ["means2d", "means2d_abs"]


def bits(tensor):
    return tensor.contiguous().view(torch.int32)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("name", ["sh3", "colors", "depths", "median", "channels1", "channels4",
                                  "channels17", "cameras", "camera_colors", "split", "large"])
def test_bits(name, absolute):
    args, given, wrt = inputs(name)
    wrt = wrt if absolute else wrt[:-1]
    first, *others = (gradients(args, given, wrt) for _ in range(5))
    fast = gradients(args, given, wrt, deterministic=False)
    for output in wrt:
        for other in others:
            assert torch.equal(bits(getattr(first, output)), bits(getattr(other, output))), output
        error = relative(getattr(first, output), getattr(fast, output), f"{name} d {output}")
        assert error < 1e-5, output


@pytest.mark.parametrize("name", ["sh3", "median", "channels4", "cameras"])
def test_bits_in_bands(name):
    args, given, wrt = inputs(name)
    first, *others = (gradients(args, given, wrt, limit=0) for _ in range(3))
    whole = gradients(args, given, wrt)
    for output in wrt:
        for other in others:
            assert torch.equal(bits(getattr(first, output)), bits(getattr(other, output))), output
        assert relative(getattr(first, output), getattr(whole, output)) < 1e-5, output


@pytest.mark.parametrize("name", ["sh3", "channels4"])
def test_added_to_what_is_there(name):
    args, given, wrt = inputs(name)
    alone = gradients(args, given, wrt)
    start = {k: torch.randn_like(getattr(alone, k)) for k in wrt}
    out = {k: v.clone() for k, v in start.items()}
    args["deterministic"] = True
    saved = gsplat_c.rasterize_forward(outputs=("color",), **args)[1]
    gsplat_c.rasterize_backward(saved, wrt=wrt, out=out, grad_add=True, **given, **args)
    for output in wrt:
        assert relative(out[output], start[output] + getattr(alone, output)) < 1e-6, output


@pytest.mark.parametrize("name", ["sh3", "channels4"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_where_it_is(name, value):
    args, given, wrt = inputs(name, ("color",))
    clean = gradients(args, given, wrt)
    given["grad_color"][0, 60, 100] = value
    first, second = (gradients(args, given, wrt) for _ in range(2))
    fast = gradients(args, given, wrt, deterministic=False)
    for output in wrt:
        a, b = getattr(first, output), getattr(second, output)
        assert torch.equal(bits(a), bits(b))
        assert not torch.isfinite(a).all(), output
        if output in ("view", "background"):
            continue
        expected = ~torch.isfinite(getattr(fast, output))
        assert torch.equal(~torch.isfinite(a), expected), output
        finite = torch.isfinite(a)
        assert finite.any()
        assert relative(a[finite], getattr(clean, output)[finite]) < 0.5, output


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_any_magnitude(scale):
    args, given, wrt = inputs("sh3", ("color",))
    wrt = ["opacities", "sh"]
    expected = gradients(args, given, wrt)
    scaled = gradients(args, {k: v * scale for k, v in given.items()}, wrt)
    for output in wrt:
        error = relative(getattr(scaled, output).double() / scale, getattr(expected, output))
        assert error < 1e-5, output
