"""Gradients of the rasterizer from numpy, against differences of its own images."""

import numpy as np
import pytest

import gsplat_c
from scenes import one_splat, smooth_cloud

OUTPUTS = ("color", "alpha", "depth", "inv_depth")


def has_backward():
    args = one_splat()
    _, saved = gsplat_c.rasterize_forward(**args)
    try:
        gsplat_c.rasterize_backward(saved, wrt=("means",), **args,
                                    grad_color=np.zeros((3, 33, 33), np.float32))
    except gsplat_c.UnsupportedError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_backward(), reason="this library has no raster backward")


def upstream(result, seed=5):
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=value.shape).astype(np.float32)
            for name, value in result.asdict().items()}


def loss(args, weights):
    result = gsplat_c.rasterize(**args, outputs=OUTPUTS)
    return sum(np.sum(np.float64(weights[name]) * getattr(result, name)) for name in OUTPUTS)


def directional(args, weights, name, direction, step):
    values = []
    for sign in (1, -1):
        moved = (args[name] + sign * step * direction).astype(np.float32)
        values.append(loss({**args, name: moved}, weights))
    return (values[0] - values[1]) / (2 * step)


def check(args, names, step=2e-3):
    result, saved = gsplat_c.rasterize_forward(**args, outputs=OUTPUTS)
    weights = upstream(result)
    grads = gsplat_c.rasterize_backward(
        saved, wrt=names, **{f"grad_{name}": value for name, value in weights.items()}, **args)
    for name in names:
        found = getattr(grads, name)
        assert found.shape == np.shape(args[name]) and found.dtype == np.float32
        # Along the gradient and along random directions; float32 images bound the accuracy.
        generator = np.random.default_rng(3)
        size = np.linalg.norm(found)
        assert size > 0, name
        directions = [found / size] + [generator.normal(size=found.shape) for _ in range(3)]
        for direction in directions:
            direction = direction / np.linalg.norm(direction)
            if name == "view":
                direction[..., 3] = 0  # the matrix's last row, column-major
            expected = directional(args, weights, name, direction, step)
            assert abs(np.sum(found * direction) - expected) < 0.01 * size, name


def test_gradients_by_scales_and_rotations():
    check(smooth_cloud(), ("means", "opacities", "scales", "rotations", "colors", "background",
                           "view"))


def test_gradients_by_covariances():
    args = smooth_cloud()
    scales = args.pop("scales").astype(float)
    del args["rotations"]
    args["covariances"] = np.stack([s * s * [1, 0, 0, 1, 0, 1] if np.ndim(s) == 0 else
                                    np.array([s[0]**2, 0, 0, s[1]**2, 0, s[2]**2])
                                    for s in scales]).astype(np.float32)
    check(args, ("covariances", "means"))


@pytest.mark.parametrize("split", [False, True])
def test_gradients_by_spherical_harmonics(split):
    args = smooth_cloud()
    del args["colors"]
    sh = np.random.default_rng(1).normal(0, 0.1, (6, 9, 3)).astype(np.float32)
    args["position"] = np.array([0.3, 0.1, -3], np.float32)
    names = ("sh", "sh_dc", "position", "means") if split else ("sh", "position")
    args.update({"sh_dc": sh[:, :1].copy(), "sh": sh[:, 1:].copy()} if split else {"sh": sh})
    check(args, names)


def test_a_transposed_view_has_the_same_gradient():
    args = smooth_cloud()
    result, saved = gsplat_c.rasterize_forward(**args)
    grads = [gsplat_c.rasterize_backward(saved, wrt=("view",), grad_color=result.color,
                                         **{**args, "view": view}).view
             for view in (args["view"], np.ascontiguousarray(args["view"].T).T)]
    assert np.any(grads[0])
    np.testing.assert_array_equal(*grads)


def test_a_position_is_read_where_it_lies():
    args = smooth_cloud()
    del args["colors"]
    sh = np.random.default_rng(1).normal(0, 0.3, (6, 9, 3)).astype(np.float32)
    positions = np.array([[0.3, 0.1, -3], [-2, 0.5, 1]], np.float32)
    apart = np.full((2, 4, 4), np.nan, np.float32)
    apart[:, :3, 1] = positions
    for cameras in (slice(0, 1), slice(0, 2), 1):
        same = {**args, "sh": sh, "view": np.stack([args["view"]] * 2)[cameras],
                "intrinsics": np.stack([args["intrinsics"]] * 2)[cameras]}
        found = []
        for position in (positions[cameras], apart[:, :3, 1][cameras]):
            result, saved = gsplat_c.rasterize_forward(**same, position=position)
            grads = gsplat_c.rasterize_backward(saved, wrt=("sh", "position"),
                                                grad_color=result.color, **same, position=position)
            found.append((result.color, grads.sh, grads.position))
        assert not position.flags.c_contiguous and np.all(np.any(found[0][2], axis=-1))
        for dense, strided in zip(*found):
            np.testing.assert_array_equal(dense, strided)


def test_several_cameras_sum():
    args = smooth_cloud()
    moved = args["view"].copy()
    moved[3, 1] += 0.2
    views = [args["view"], moved]
    weights, expected = [], 0
    for seed, view in enumerate(views):
        single = {**args, "view": view}
        result, saved = gsplat_c.rasterize_forward(**single)
        weights.append(upstream(result, seed)["color"])
        grads = gsplat_c.rasterize_backward(saved, wrt=("means",), grad_color=weights[-1],
                                            **single)
        expected = expected + grads.means
    both = {**args, "view": np.stack(views), "intrinsics": np.stack([args["intrinsics"]] * 2)}
    _, saved = gsplat_c.rasterize_forward(**both)
    grads = gsplat_c.rasterize_backward(saved, wrt=("means", "means2d", "background"),
                                        grad_color=np.stack(weights), **both)
    np.testing.assert_allclose(grads.means, expected, rtol=1e-4, atol=1e-5)
    assert grads.means2d.shape == (2, 6, 2) and grads.background.shape == (3,)


def test_means2d():
    """Moving the image's centre moves every splat: their gradients sum to that one."""
    args = smooth_cloud()
    result, saved = gsplat_c.rasterize_forward(**args)
    weight = upstream(result)["color"]
    ndc = np.zeros((6, 3), np.float32)
    grads = gsplat_c.rasterize_backward(saved, wrt=("means2d", "means2d_abs"), grad_color=weight,
                                        **args)
    scaled = gsplat_c.rasterize_backward(saved, wrt=(), out={"means2d": ndc}, grad_color=weight,
                                         grad2d_ndc=True, **args)
    assert scaled.means2d is ndc
    np.testing.assert_allclose(ndc[:, :2], grads.means2d * [20, 14], rtol=1e-5)
    assert (ndc[:, 2] == 0).all()
    assert (grads.means2d_abs >= abs(grads.means2d) - 1e-5).all()
    for axis in range(2):
        step = np.zeros(4)
        step[2 + axis] = 1
        expected = directional(args, {**dict.fromkeys(OUTPUTS, 0.0), "color": weight},
                               "intrinsics", step, 1e-2)
        assert abs(grads.means2d[:, axis].sum() - expected) < 0.01 * np.linalg.norm(grads.means2d)


def test_adding_and_bands():
    args = smooth_cloud()
    result, saved = gsplat_c.rasterize_forward(**args)
    weight = upstream(result)["color"]
    once = gsplat_c.rasterize_backward(saved, wrt=("means", "colors"), grad_color=weight, **args)
    out = {"means": np.ones((6, 3), np.float32), "colors": np.ones((6, 3), np.float32)}
    more = gsplat_c.rasterize_backward(saved, wrt=(), out=out, grad_add=True, grad_color=weight,
                                       **args)
    np.testing.assert_allclose(more.means, 1 + once.means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(more.colors, 1 + once.colors, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="grad_add without scales in out"):
        gsplat_c.rasterize_backward(saved, wrt=("scales",), grad_add=True, grad_color=weight,
                                    **args)
    _, saved = gsplat_c.rasterize_forward(**args, max_intersections_bytes=0)
    banded = gsplat_c.rasterize_backward(saved, wrt=("means",), grad_color=weight, **args)
    np.testing.assert_array_equal(banded.means, once.means)


def test_saved_state_may_be_copied_and_must_be_whole():
    args = smooth_cloud()
    result, saved = gsplat_c.rasterize_forward(**args)
    weight = upstream(result)["color"]
    expected = gsplat_c.rasterize_backward(saved, wrt=("means",), grad_color=weight, **args)
    memory = np.zeros(saved.state.size + 1, np.uint8)
    memory[1:] = saved.state
    copied = gsplat_c.SavedRaster(memory[1:], saved.intersections.copy(), saved.info)
    again = gsplat_c.rasterize_backward(copied, wrt=("means",), grad_color=weight, **args)
    np.testing.assert_array_equal(again.means, expected.means)

    info = (saved.info[0] ^ 0x5555, *saved.info[1:])
    with pytest.raises(gsplat_c.Error) as caught:
        gsplat_c.rasterize_backward(gsplat_c.SavedRaster(saved.state, saved.intersections, info),
                                    wrt=("means",), grad_color=weight, **args)
    assert caught.value.status_name == "GSC_ERROR_STATE"
    with pytest.raises(gsplat_c.Error):
        gsplat_c.rasterize_backward(gsplat_c.SavedRaster(saved.state[:16], saved.intersections,
                                                         saved.info),
                                    wrt=("means",), grad_color=weight, **args)


def test_wrong_requests():
    args = smooth_cloud()
    _, saved = gsplat_c.rasterize_forward(**args)
    weight = np.zeros((3, 28, 40), np.float32)
    for options, text in [
        ({"wrt": ("sh",)}, "'sh', which is not an input"),
        ({"wrt": ("radii",)}, "wrt has 'radii', expected any of means, opacities"),
        ({"wrt": ("means",), "grad_color": weight[:2]}, "color"),
        ({"wrt": ("means",), "grad_color": np.float64(weight)}, "color"),
        ({"wrt": (), "out": {"means": np.zeros((5, 3), np.float32)}}, "means"),
        ({"wrt": (), "out": {"view": [[0.0] * 4] * 4}}, "view is list, expected an array"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=text):
            gsplat_c.rasterize_backward(saved, **{"grad_color": weight, **options}, **args)
