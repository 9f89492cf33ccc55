"""Arrays of cupy and jax on the GPU, and gradients through torch."""

import os

import numpy as np
import pytest
import torch

import gsplat_c
import gsplat_c.torch
from conftest import relative, to_cuda
from scenes import cases

CASES = dict(cases())
ARGS = CASES["colors"][0]


@pytest.fixture
def cupy():
    found = pytest.importorskip("cupy", reason="cupy is not installed")
    if not found.cuda.is_available():
        pytest.skip("cupy sees no GPU")
    return found


def to_cupy(cupy, args):
    return {k: cupy.asarray(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}


def test_cupy_arrays_in_and_out(cupy):
    args, cpu = to_cupy(cupy, ARGS), gsplat_c.rasterize(outputs=("color", "alpha"), **ARGS)
    out = {"color": cupy.full(cpu.color.shape, np.nan, np.float32),
           "alpha": cupy.full(cpu.alpha.shape, np.nan, np.float32)}
    got = gsplat_c.rasterize(outputs=("color", "alpha"), out=out, **args)
    cupy.cuda.get_current_stream().synchronize()
    assert got.color is out["color"]
    assert relative(out["color"].get(), cpu.color, "cupy color") < 2e-5
    assert relative(out["alpha"].get(), cpu.alpha, "cupy alpha") < 2e-5


def test_cupy_arrays_on_a_non_blocking_stream_behind_slow_work(cupy):
    expected = gsplat_c.rasterize(**ARGS).color
    ready = to_cupy(cupy, ARGS)
    big = cupy.empty(1 << 28, np.float32)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        color = cupy.full(expected.shape, np.nan, np.float32)
        late = cupy.full_like(ready["means"], np.nan)
        big.fill(1)
        late[...] = ready["means"]
        gsplat_c.rasterize(out={"color": color}, stream=stream.ptr, **{**ready, "means": late})
    stream.synchronize()
    assert relative(color.get(), expected, "cupy color") < 2e-5


def test_cupy_arrays_of_the_other_ops(cupy):
    rng = np.random.default_rng(1)
    points = rng.random((1000, 3)).astype(np.float32)
    indices = cupy.zeros((1000, 3), np.int64)
    gsplat_c.knn(cupy.asarray(points), outputs=(), out={"indices": indices})
    x, y = (rng.random((1, 3, 40, 50)).astype(np.float32) for _ in range(2))
    loss = cupy.zeros((), np.float32)
    turned = cupy.asarray(np.ascontiguousarray(y.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    gsplat_c.image_loss(cupy.asarray(x), turned, outputs=(), out={"loss": loss})
    group = {k: cupy.asarray(rng.random((50, 3)).astype(np.float32)) for k in
             ("parameter", "gradient", "moment1", "moment2")}
    host = {k: v.get() for k, v in group.items()}
    gsplat_c.adam_step([{**group, "lr": 0.1, "step": 1}])
    gsplat_c.adam_step([{**host, "lr": 0.1, "step": 1}])
    cupy.cuda.Device().synchronize()
    assert np.array_equal(indices.get(), gsplat_c.knn(points).indices)
    assert abs(float(loss) - float(gsplat_c.image_loss(x, y).loss)) < 1e-6
    assert relative(group["parameter"].get(), host["parameter"], "cupy adam") < 1e-6


def test_cupy_results_on_the_current_stream(cupy):
    expected = gsplat_c.rasterize(outputs=("color", "radii"), **ARGS)
    ready = to_cupy(cupy, ARGS)
    big = cupy.empty(1 << 28, np.float32)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        late = cupy.full_like(ready["means"], np.nan)
        big.fill(1)
        late[...] = ready["means"]
        got = gsplat_c.rasterize(outputs=("color", "radii"), **{**ready, "means": late})
    stream.synchronize()
    assert isinstance(got.color, cupy.ndarray) and got.radii.dtype == np.int32
    assert relative(got.color.get(), expected.color, "cupy color") < 2e-5
    indices = gsplat_c.knn(ready["means"]).indices
    assert isinstance(indices, cupy.ndarray)
    assert np.array_equal(indices.get(), gsplat_c.knn(ARGS["means"]).indices)


def test_cupy_gradients(cupy):
    args, names = to_cupy(cupy, ARGS), ("means", "scales", "colors")
    given = np.random.default_rng(2).normal(size=(3, ARGS["height"], ARGS["width"]))
    given = given.astype(np.float32)
    _, saved = gsplat_c.rasterize_forward(**ARGS)
    expected = gsplat_c.rasterize_backward(saved, wrt=names, grad_color=given, **ARGS)
    _, saved = gsplat_c.rasterize_forward(**args)
    assert isinstance(saved.state, cupy.ndarray)
    got = gsplat_c.rasterize_backward(saved, wrt=names, grad_color=cupy.asarray(given), **args)
    for name in names:
        assert relative(getattr(got, name).get(), getattr(expected, name),
                        f"cupy d {name}") < 1e-3


def test_cupy_arrays_with_gaps(cupy):
    """Inputs are copied; outputs are refused, and so are arrays of another device."""
    args = to_cupy(cupy, ARGS)
    wide = cupy.repeat(args["means"], 2, 0)[::2]
    assert not wide.flags.c_contiguous
    expected = gsplat_c.rasterize(**args).color
    assert (gsplat_c.rasterize(**{**args, "means": wide}).color == expected).all()
    loose = cupy.zeros((3, ARGS["height"], ARGS["width"], 2), np.float32)[..., 0]
    with pytest.raises(ValueError, match="color is not dense"):
        gsplat_c.rasterize(out={"color": loose}, **args)
    with pytest.raises(ValueError, match="scales"):
        gsplat_c.rasterize(**{**args, "scales": ARGS["scales"]})


def test_cupy_and_torch_mixed(cupy):
    args = to_cuda(ARGS)
    expected = gsplat_c.rasterize(**args).color
    mixed = {**args, "scales": cupy.asarray(ARGS["scales"]),
             "colors": cupy.asarray(ARGS["colors"])}
    cupy.cuda.Device().synchronize()
    color = gsplat_c.rasterize(**mixed).color
    assert isinstance(color, torch.Tensor) and torch.equal(color, expected)


@pytest.fixture
def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    found = pytest.importorskip("jax", reason="jax is not installed")
    try:
        found.devices("gpu")
    except RuntimeError:
        pytest.skip("jax sees no GPU")
    return found


def test_jax_arrays_in(jax):
    args = {k: jax.device_put(v, jax.devices("gpu")[0]) if isinstance(v, np.ndarray) else v
            for k, v in ARGS.items()}
    expected = gsplat_c.rasterize(**ARGS).color
    color = torch.full(expected.shape, float("nan"), device="cuda")
    gsplat_c.rasterize(out={"color": color}, **args)
    torch.cuda.synchronize()
    assert relative(color, expected, "jax color") < 2e-5


def test_jax_arrays_out(jax):
    """Made of memory that cupy or torch lends, on a stream that jax waits for."""
    args = {k: jax.device_put(v, jax.devices("gpu")[0]) if isinstance(v, np.ndarray) else v
            for k, v in ARGS.items()}
    expected = gsplat_c.rasterize(outputs=("color", "radii"), **ARGS)
    got = gsplat_c.rasterize(outputs=("color", "radii"), **args)
    assert isinstance(got.color, jax.Array) and got.color.devices() == args["means"].devices()
    assert relative(np.asarray(got.color + 0), expected.color, "jax color") < 2e-5
    assert (np.asarray(got.radii) == expected.radii).all()


def test_a_jax_array_is_no_output(jax):
    """They never change, and say so."""
    args = to_cuda(ARGS)
    color = jax.device_put(np.zeros((3, ARGS["height"], ARGS["width"]), np.float32),
                           jax.devices("gpu")[0])
    with pytest.raises(ValueError, match="read-only"):
        gsplat_c.rasterize(out={"color": color}, **args)


def test_torch_gradients_are_those_of_the_backward_call():
    args = to_cuda(ARGS)
    names = ("means", "scales", "rotations", "opacities", "colors", "background")
    out, saved = gsplat_c.rasterize_forward(**args)
    given = torch.randn_like(out.color)
    expected = gsplat_c.rasterize_backward(saved, wrt=names, grad_color=given, **args)
    leaves = {k: args[k].clone().requires_grad_() for k in names}
    means2d = torch.zeros(1, 4000, 3, device="cuda")[0].requires_grad_()
    color = gsplat_c.torch.rasterize(means2d=means2d, **{**args, **leaves}).color
    assert torch.equal(color, out.color)
    color.backward(given)
    for name in names:
        assert relative(leaves[name].grad, getattr(expected, name), f"torch d {name}") < 1e-5
    assert means2d.grad[:, :2].any() and not means2d.grad[:, 2].any()


def test_torch_backward_on_another_stream_than_forward():
    args = to_cuda(ARGS)
    means = args["means"].clone().requires_grad_()
    color = gsplat_c.torch.rasterize(**{**args, "means": means}).color
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        color.sum().backward()
    torch.cuda.synchronize()
    again = args["means"].clone().requires_grad_()
    gsplat_c.torch.rasterize(**{**args, "means": again}).color.sum().backward()
    assert relative(means.grad, again.grad, "torch d means") < 1e-5


def test_a_training_step_lowers_the_loss():
    args = to_cuda(ARGS)
    target = gsplat_c.rasterize(**{**args, "colors": args["colors"].flip(0)}).color[None]
    colors = args["colors"].clone().requires_grad_()
    adam = gsplat_c.torch.SelectiveAdam([colors], lr=0.02)
    losses = []
    for _ in range(20):
        out = gsplat_c.torch.rasterize(outputs=("color", "radii"), **{**args, "colors": colors})
        loss = gsplat_c.torch.image_loss(out.color[None], target)
        adam.zero_grad()
        loss.backward()
        adam.step(visible=out.radii > 0)
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
