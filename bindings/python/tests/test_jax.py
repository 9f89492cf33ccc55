"""jax arrays in and out, and gradients through jax's transformations."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import gsplat_c  # noqa: E402
import gsplat_c.jax as gj  # noqa: E402
from scenes import arrays_of, cloud, smooth_cloud  # noqa: E402
from test_backward import has_backward  # noqa: E402

jnp = jax.numpy
needs_backward = pytest.mark.skipif(not has_backward(),
                                    reason="this library has no raster backward")

OUTPUTS = ("alpha", "color", "radii", "depth", "inv_depth")
NAMES = ("means", "opacities", "scales", "rotations", "colors", "view", "background")


@pytest.fixture(autouse=True)
def on_the_cpu():
    """Beside NumPy's arrays, also where jax would rather use a GPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def arrays(args):
    return arrays_of(args, jnp.asarray)


def split(args, names=NAMES):
    """(differentiated arrays, the rest)"""
    return ({name: jnp.asarray(args[name]) for name in names},
            {name: value for name, value in args.items() if name not in names})


def test_arrays_in_and_out():
    args = cloud(pixel_weights=np.ones((28, 40), np.float32))
    names = gsplat_c._raster.OUTPUT_NAMES
    expected = gsplat_c.rasterize(**args, outputs=names)
    result = gsplat_c.rasterize(**arrays(args), outputs=names)
    for name in names:
        assert isinstance(getattr(result, name), jax.Array)
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    assert isinstance(gsplat_c.knn(jnp.asarray(args["means"])).indices, jax.Array)
    visible = gsplat_c.mark_visible(means=jnp.asarray(args["means"]), view=args["view"])
    assert visible.dtype == bool and isinstance(visible, jax.Array)
    mine = np.zeros((3, 28, 40), np.float32)
    assert gsplat_c.rasterize(**arrays(args), out={"color": mine}).color is mine
    np.testing.assert_array_equal(mine, expected.color)


def test_inputs_that_are_still_being_computed():
    args = cloud()
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda i, y: jnp.sin(y @ y.T @ y) + x, x))
    means = slow(jnp.ones((40, 3))) * 0 + args["means"]
    np.testing.assert_array_equal(gsplat_c.rasterize(**{**args, "means": means}).color,
                                  gsplat_c.rasterize(**args).color)


def test_errors():
    args = arrays(cloud())
    with pytest.raises(gsplat_c.ArgumentError, match="color is a jax array: those are read-only"):
        gsplat_c.rasterize(**args, out={"color": jnp.zeros((3, 28, 40))})
    with pytest.raises(gsplat_c.ArgumentError, match="scales is traced by jax.*gsplat_c.jax"):
        jax.jit(lambda s: gsplat_c.rasterize(**{**args, "scales": s}).color)(args["scales"])
    with pytest.raises(gsplat_c.ArgumentError, match=r"\bmeans\b.*float16"):
        gj.rasterize(**{**args, "means": args["means"].astype(jnp.float16)})
    with pytest.raises(TypeError, match="positions"):
        gj.rasterize(**args, positions=None)


def test_in_jit_and_vmap():
    args = cloud()
    variables, rest = split(args)

    @jax.jit
    def draw(variables):
        return gj.rasterize(**variables, **rest, outputs=("color", "radii"))

    result = draw(variables)
    expected = gsplat_c.rasterize(**args, outputs=("color", "radii"))
    np.testing.assert_array_equal(result.color, expected.color)
    np.testing.assert_array_equal(result.radii, expected.radii)

    many = jnp.stack([variables["colors"], variables["colors"] * 0.5])
    colors = jax.vmap(lambda c: gj.rasterize(**{**args, "colors": c}).color)(many)
    for image, color in zip(colors, many):
        np.testing.assert_array_equal(
            image, gsplat_c.rasterize(**{**args, "colors": np.asarray(color)}).color)


@needs_backward
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_equal_the_low_level_ones(compiled):
    args = smooth_cloud()
    result, saved = gsplat_c.rasterize_forward(**args, outputs=OUTPUTS)
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=getattr(result, name).shape).astype(np.float32)
               for name in OUTPUTS if name != "radii"}
    expected = gsplat_c.rasterize_backward(
        saved, wrt=(*NAMES, "means2d", "means2d_abs"), **args,
        **{f"grad_{name}": value for name, value in weights.items()})
    variables, rest = split(args)

    def loss(variables, sink, sink_abs):
        result = gj.rasterize(**variables, **rest, outputs=OUTPUTS, means2d=sink,
                              means2d_abs=sink_abs)
        return sum((weights[name] * getattr(result, name)).sum() for name in weights)

    gradient = jax.grad(loss, argnums=(0, 1, 2))
    found, by_sink, by_abs = (jax.jit(gradient) if compiled else gradient)(
        variables, jnp.zeros((6, 3)), jnp.zeros((6, 2)))
    for name in NAMES:
        np.testing.assert_array_equal(found[name], getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(by_sink[:, :2], expected.means2d)
    assert not by_sink[:, 2].any()
    np.testing.assert_array_equal(by_abs, expected.means2d_abs)
    by_ndc = jax.grad(lambda sink: sum(
        (weights[name] * value).sum() for name, value in gj.rasterize(
            **args, outputs=OUTPUTS, means2d=sink, grad2d_ndc=True).asdict().items()
        if name in weights))(jnp.zeros((6, 2)))
    np.testing.assert_allclose(by_ndc, expected.means2d * np.float32([20, 14]), rtol=1e-5,
                               atol=1e-5)


@needs_backward
def test_gradient_for_exactly_what_needs_it(monkeypatch):
    args = smooth_cloud()
    asked = []
    original = gsplat_c._raster.rasterize_backward
    monkeypatch.setattr(
        gsplat_c._raster, "rasterize_backward", lambda saved, wrt, **rest: asked.append(
            (wrt, sorted(name for name in rest if name.startswith("grad_")))) or
        original(saved, wrt=wrt, **rest))

    def loss(opacities):
        result = gj.rasterize(**{**arrays(args), "opacities": opacities},
                              outputs=("color", "alpha"))
        return result.color.sum()

    jax.grad(loss)(jnp.asarray(args["opacities"])).block_until_ready()
    assert asked == [(("opacities",), ["grad_color"])]


@needs_backward
def test_constants_have_no_gradient():
    args = arrays(cloud())
    with pytest.raises(ValueError, match="intrinsics is differentiated, but has no gradient"):
        jax.grad(lambda k: gj.rasterize(**{**args, "intrinsics": k}).color.sum())(
            args["intrinsics"])


@pytest.mark.parametrize("kind", ["mean", "map"])
def test_ssim(kind):
    random = np.random.default_rng(1)
    image, target = random.uniform(size=(2, 1, 3, 18, 17)).astype(np.float32)
    weights = random.normal(size=() if kind == "mean" else image.shape).astype(np.float32)
    value = getattr(gsplat_c.ssim(image, target, outputs=(kind,)), kind)
    expected = gsplat_c.ssim_backward(image, target, wrt=("image", "target"),
                                      **{f"grad_{kind}": weights})

    def loss(image, target):
        return (gj.ssim(image, target, map=kind == "map") * weights).sum()

    np.testing.assert_array_equal(gj.ssim(jnp.asarray(image), target, map=kind == "map"), value)
    found = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(image, target)
    np.testing.assert_allclose(found[0], (value * weights).sum(), rtol=1e-5)
    np.testing.assert_array_equal(found[1][0], expected.image)
    np.testing.assert_array_equal(found[1][1], expected.target)


def test_image_loss():
    random = np.random.default_rng(2)
    image, target = random.uniform(size=(2, 1, 3, 18, 17)).astype(np.float32)
    mask = random.uniform(size=(18, 17)).astype(np.float32)
    expected = gsplat_c.image_loss(image, target, mask=mask, outputs=("loss", "grad_image"))
    value, grad = jax.jit(jax.value_and_grad(
        lambda x: 2 * gj.image_loss(x, target, mask=mask)))(image)
    np.testing.assert_allclose(value, 2 * expected.loss, rtol=1e-6)
    np.testing.assert_allclose(grad, 2 * expected.grad_image, rtol=1e-6)
    np.testing.assert_array_equal(gj.image_loss(jnp.asarray(image), target, mask=mask),
                                  expected.loss)
    with pytest.raises(ValueError, match="target is differentiated"):
        jax.grad(lambda y: gj.image_loss(image, y))(target)


def test_knn():
    points = np.random.default_rng(3).normal(size=(30, 3)).astype(np.float32)
    expected = gsplat_c.knn(points, 2)
    for found in (gj.knn(jnp.asarray(points), 2), jax.jit(lambda p: gj.knn(p, 2))(points)):
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.distances2, expected.distances2)


@needs_backward
def test_fits_a_picture():
    args = smooth_cloud()
    target = gsplat_c.rasterize(**args).color
    _, rest = split(args, ("colors",))

    @jax.jit
    def step(colors):
        def loss(colors):
            return ((gj.rasterize(colors=colors, **rest).color - target) ** 2).mean()
        value, grad = jax.value_and_grad(loss)(colors)
        return colors - 20 * grad, value

    colors, losses = jnp.zeros_like(args["colors"]), []
    for _ in range(20):
        colors, value = step(colors)
        losses.append(float(value))
    assert losses[-1] < losses[0] / 10
