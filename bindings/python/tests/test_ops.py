"""Nearest neighbours, SSIM, image loss and Adam against the slow formulas."""

import numpy as np
import pytest

import gsplat_c
import reference

random = np.random.default_rng(7)


def images(shape=(2, 3, 21, 26), seed=0):
    generator = np.random.default_rng(seed)
    image = generator.uniform(0, 1, shape).astype(np.float32)
    noise = generator.normal(0, 0.1, shape).astype(np.float32)
    return image, np.clip(image + noise, 0, 1).astype(np.float32)


@pytest.mark.parametrize("k", [1, 3, 17])
@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
def test_knn(k, index_dtype):
    points = random.normal(size=(300, 3)).astype(np.float32)
    result = gsplat_c.knn(points, k, index_dtype=index_dtype,
                          outputs=("indices", "distances2", "mean2"))
    indices, distances = reference.knn(np.float64(points), np.float64(points), k, True)
    assert result.indices.dtype == index_dtype
    np.testing.assert_array_equal(result.indices, indices)
    np.testing.assert_allclose(result.distances2, distances, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(result.mean2, distances.mean(1), rtol=1e-5)


def test_knn_of_queries():
    points = random.normal(size=(200, 3)).astype(np.float32)
    queries = random.normal(size=(50, 3)).astype(np.float32)[:, ::-1]
    indices, distances = gsplat_c.knn(points, queries=queries)
    expected, expected2 = reference.knn(np.float64(points), np.float64(queries), 3, False)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, expected2, rtol=1e-5, atol=1e-7)


def test_knn_of_few_points():
    points = np.array([[0, 0, 0], [1, 0, 0]], np.float32)
    result = gsplat_c.knn(points, outputs=("indices", "distances2", "mean2"))
    assert result.indices.tolist() == [[1, -1, -1], [0, -1, -1]]
    assert result.distances2.tolist() == [[1, np.inf, np.inf]] * 2
    assert result.mean2.tolist() == [1, 1]
    for k in (0, -1, 257):
        with pytest.raises(ValueError, match=rf"\bk\b.*{k}"):
            gsplat_c.knn(points, k)
    with pytest.raises(ValueError, match="index_dtype is 'int8'"):
        gsplat_c.knn(points, index_dtype="int8")


@pytest.mark.parametrize("valid", [False, True])
@pytest.mark.parametrize("size, sigma", [(11, 1.5), (7, 1.0)])
def test_ssim(valid, size, sigma):
    image, target = images()
    expected = reference.ssim_map(np.float64(image), np.float64(target),
                                  reference.gaussian_window(size, sigma), valid=valid)
    result = gsplat_c.ssim(image, target, window=size, sigma=sigma, valid=valid,
                           outputs=("mean", "map"))
    np.testing.assert_allclose(result.map, expected, atol=2e-5)
    np.testing.assert_allclose(result.mean, expected.mean(), atol=1e-6)
    assert result.mean.shape == ()
    if (size, sigma) == (11, 1.5):
        assert gsplat_c.ssim(image, target, valid=valid).mean == result.mean


@pytest.mark.parametrize("valid", [False, True])
def test_single_images(valid):
    """[C, H, W] is one image of a batch of 1."""
    image, target = (array[:1] for array in images())
    mask = image[0, 0] > 0.5
    cases = (
        (gsplat_c.ssim, {"outputs": ("mean", "map")}),
        (gsplat_c.image_loss, {"outputs": ("loss", "grad_image"), "mask": mask}),
        (gsplat_c.ssim_backward, {"wrt": ("image", "target"),
                                  "grad_mean": np.array(1, np.float32)}),
    )
    for function, options in cases:
        batch = function(image, target, valid=valid, **options)
        single = function(image[0], target[0], valid=valid, **options)
        for a, b in zip(batch, single):
            assert b.ndim in (0, 3) and (a.reshape(b.shape) == b).all()


def test_ssim_stabilisers():
    image, target = images()
    expected = reference.ssim_map(np.float64(image), np.float64(target), c1=0.1, c2=0.3)
    found = gsplat_c.ssim(image, target, c1=0.1, c2=0.3, outputs=("map",)).map
    np.testing.assert_allclose(found, expected, atol=2e-5)
    for wrong in ({"window": 0}, {"window": 4}, {"window": 35}, {"sigma": 0}, {"sigma": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            gsplat_c.ssim(image, target, **wrong)


STRIDED = {
    "pixels last": lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "fortran order": np.asfortranarray,
    "every second column": lambda a: np.repeat(a, 2, 3)[..., ::2],
    "mirrored": lambda a: np.ascontiguousarray(a[:, :, ::-1])[:, :, ::-1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "read-only, pixels last": lambda a: np.frombuffer(
        a.transpose(0, 2, 3, 1).tobytes(), a.dtype).reshape(
            [a.shape[axis] for axis in (0, 2, 3, 1)]).transpose(0, 3, 1, 2),
}


@pytest.mark.parametrize("layout", STRIDED)
def test_images_of_any_strides(layout):
    image, target = images()
    change = STRIDED[layout]
    expected = gsplat_c.ssim(image, target, outputs=("map",)).map
    np.testing.assert_allclose(
        gsplat_c.ssim(change(image), change(target), outputs=("map",)).map, expected, atol=1e-6)
    loss = gsplat_c.image_loss(image, target, outputs=("loss", "grad_image"))
    other = gsplat_c.image_loss(change(image), change(target), outputs=("loss", "grad_image"))
    np.testing.assert_allclose(other.loss, loss.loss, rtol=1e-6)
    np.testing.assert_allclose(other.grad_image, loss.grad_image, atol=1e-8)


@pytest.mark.parametrize("valid", [False, True])
def test_ssim_backward(valid):
    image, target = images((1, 2, 12, 11), 4)
    weights = np.random.default_rng(1).normal(size=reference.ssim_map(
        np.float64(image), np.float64(target), valid=valid).shape)
    x, y = np.float64(image), np.float64(target)
    by_image = reference.numeric_gradient(
        lambda a: (weights * reference.ssim_map(a, y, valid=valid)).sum(), x)
    by_target = reference.numeric_gradient(
        lambda a: (weights * reference.ssim_map(x, a, valid=valid)).sum(), y)
    grads = gsplat_c.ssim_backward(image, target, grad_map=weights.astype(np.float32),
                                   wrt=("image", "target"), valid=valid)
    np.testing.assert_allclose(grads.image, by_image, atol=2e-4 * np.abs(by_image).max())
    np.testing.assert_allclose(grads.target, by_target, atol=2e-4 * np.abs(by_target).max())

    mean = gsplat_c.ssim_backward(image, target, grad_mean=np.float32([2.0]), valid=valid)
    constant = np.full(weights.shape, 2.0 / weights.size, np.float32)
    expected = gsplat_c.ssim_backward(image, target, grad_map=constant, valid=valid)
    np.testing.assert_allclose(mean.image, expected.image, atol=1e-7)
    assert "target" not in mean


def loss_of(x, y, mask, l1, l2, ssim, valid=False):
    def mean(values, weights):
        weights = np.broadcast_to(weights, values.shape)
        return (values * weights).sum() / weights.sum()

    m = np.ones(x.shape[2:]) if mask is None else np.float64(mask)
    m = m[None, None] if m.ndim == 2 else m[:, None]
    windows = m[..., 5:-5, 5:-5] if valid else m
    parts = (mean(abs(x - y), m), mean((x - y) ** 2, m),
             mean(reference.ssim_map(x, y, valid=valid), windows))
    return l1 * parts[0] + l2 * parts[1] + ssim * (1 - parts[2]), parts


@pytest.mark.parametrize("weights", [(0.8, 0.0, 0.2), (0.3, 0.5, 0.2), (1.0, 0.0, 0.0)])
@pytest.mark.parametrize("mask", ["none", "shared float", "bool each"])
def test_image_loss(weights, mask):
    image, target = images((2, 1, 12, 13), 2)
    generator = np.random.default_rng(5)
    mask = {"none": None, "shared float": generator.uniform(0, 1, (12, 13)).astype(np.float32),
            "bool each": generator.uniform(0, 1, (2, 12, 13)) > 0.4}[mask]
    x, y = np.float64(image), np.float64(target)
    l1, l2, ssim = weights
    expected, parts = loss_of(x, y, mask, *weights)
    by_image = reference.numeric_gradient(lambda a: loss_of(a, y, mask, *weights)[0], x, 1e-6)
    result = gsplat_c.image_loss(image, target, mask=mask, l1_weight=l1, l2_weight=l2,
                                 ssim_weight=ssim, outputs=("loss", "parts", "grad_image"))
    np.testing.assert_allclose(result.loss, expected, rtol=1e-5)
    np.testing.assert_allclose(result.parts, parts, rtol=1e-5)
    different = x != y  # at equality |x - y| has no derivative
    np.testing.assert_allclose(result.grad_image[different], by_image[different],
                               atol=1e-4 * np.abs(by_image).max())
    assert result.loss.shape == ()


def test_image_loss_options():
    image, target = images((1, 3, 20, 22))
    base = gsplat_c.image_loss(image, target, outputs=("loss", "grad_image"))
    scaled = gsplat_c.image_loss(image, target, grad_scale=-3.0, outputs=("loss", "grad_image"))
    assert scaled.loss == base.loss
    np.testing.assert_allclose(scaled.grad_image, -3 * base.grad_image, rtol=1e-5, atol=1e-9)
    valid = gsplat_c.image_loss(image, target, valid=True, outputs="loss")
    expected, _ = loss_of(np.float64(image), np.float64(target), None, 0.8, 0, 0.2, True)
    np.testing.assert_allclose(valid.loss, expected, rtol=1e-5)
    bytes_ = np.round(target * 255).astype(np.uint8)
    as_floats = gsplat_c.image_loss(image, (bytes_ / 255).astype(np.float32))
    np.testing.assert_allclose(gsplat_c.image_loss(image, bytes_).loss, as_floats.loss, rtol=1e-5)
    with pytest.raises(ValueError, match="target"):
        gsplat_c.image_loss(image, target[:, :, 1:])
    with pytest.raises(ValueError, match="image"):
        gsplat_c.image_loss(image[0, 0], target[0, 0])


def adam_group(shape, **options):
    generator = np.random.default_rng(len(shape) + shape[0])
    names = ("parameter", "gradient", "moment1", "moment2")
    group = {name: generator.normal(size=shape).astype(np.float32) for name in names}
    group["moment2"] **= 2
    return {**group, "lr": 0.1, **options}


SETTINGS = [
    {}, {"step": 1}, {"step": 7}, {"beta1": 0.0, "beta2": 0.5}, {"epsilon": 0.0},
    {"epsilon": 0.1, "weight_decay": 0.2},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_step(settings, decoupled):
    group = adam_group((9, 3), **settings)
    expected = reference.adam(*(np.float64(group[name]) for name in
                                ("parameter", "gradient", "moment1", "moment2")), 0.1,
                              settings.get("beta1", 0.9), settings.get("beta2", 0.999),
                              settings.get("epsilon", 1e-8), settings.get("weight_decay", 0),
                              settings.get("step", 0), decoupled)
    assert gsplat_c.adam_step([group], decoupled=decoupled) is None
    for name, value in zip(("parameter", "moment1", "moment2"), expected):
        np.testing.assert_allclose(group[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32])
def test_adam_of_visible_rows(dtype):
    visible = (np.arange(9) % 3 == 0).astype(dtype)
    groups = [adam_group((9,)), adam_group((9, 4, 3)), adam_group((9, 1))]
    before = [{name: np.copy(value) for name, value in group.items()} for group in groups]
    whole = [{name: np.copy(value) for name, value in group.items()} for group in groups]
    for group in whole:
        group["lr"] = 0.1
    gsplat_c.adam_step(groups, visible=visible)
    gsplat_c.adam_step(whole)
    seen = visible != 0
    for group, old, new in zip(groups, before, whole):
        for name in ("parameter", "moment1", "moment2"):
            np.testing.assert_array_equal(group[name][~seen], old[name][~seen])
            np.testing.assert_array_equal(group[name][seen], new[name][seen])
            assert (new[name] != old[name]).any()


def test_adam_of_many_groups_and_strided_gradients():
    groups = [adam_group((5, size + 1)) for size in range(60)]
    alone = [{name: np.copy(value) for name, value in group.items()} for group in groups]
    for group in groups:
        group["gradient"] = np.asfortranarray(group["gradient"])
    gsplat_c.adam_step(groups)
    for group, other in zip(groups, alone):
        gsplat_c.adam_step([{**other, "lr": 0.1}])
        np.testing.assert_array_equal(group["parameter"], other["parameter"])
    assert gsplat_c.adam_step([]) is None


def test_adam_refuses():
    good = adam_group((9, 3))
    read_only = good["parameter"].copy()
    read_only.flags.writeable = False
    for change, text in [
        ({"parameter": read_only}, "parameter is read-only"),
        ({"moment1": np.zeros((9, 6), np.float32)[:, ::2]}, "moment1 is not dense"),
        ({"gradient": np.zeros((9, 2), np.float32)}, "gradient"),
        ({"learning_rate": 1}, "a group has unknown 'learning_rate'"),
        ({"lr": None}, "lr is None"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=text):
            gsplat_c.adam_step([{**good, **change}])
    del good["lr"]
    with pytest.raises(ValueError, match="adam_step: a group has missing 'lr'"):
        gsplat_c.adam_step([good])
