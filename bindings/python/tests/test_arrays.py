"""Layouts, dtypes, producers and errors of the tensor layer."""

import ctypes
import gc
import os
import sys

import numpy as np
import pytest

import gsplat_c
from scenes import arrays_of, cloud, one_splat

LAYOUTS = {
    "fortran order": np.asfortranarray,
    "a slice of a wider array": lambda a: np.concatenate([a, a], -1)[..., :a.shape[-1]],
    "every second row": lambda a: np.repeat(a, 2, 0)[::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "read-only": lambda a: _read_only(a.copy()),
    "read-only slice": lambda a: _read_only(np.repeat(a, 2, 0))[::2],
    "unusual strides of size-1 dimensions": lambda a: np.lib.stride_tricks.as_strided(
        a, a.shape, [s if n > 1 else 12345 * 4 for n, s in zip(a.shape, a.strides)]),
    "misaligned to 16 bytes": lambda a: np.frombuffer(
        bytearray(4) + a.tobytes(), np.float32)[1:].reshape(a.shape),
    "a subclass": lambda a: a.view(type("Mine", (np.ndarray,), {})),
}


def _read_only(array):
    array.flags.writeable = False
    return array


class Producer:
    """A minimal array: __dlpack__ and a shape."""

    def __init__(self, array, old=False, device=None):
        self.array, self.old, self.on = array, old, device
        self.shape = array.shape

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**{} if self.old else options)

    def __dlpack_device__(self):
        return self.on or self.array.__dlpack_device__()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_draws_the_same(layout):
    args = cloud(pixel_weights=np.ones((28, 40), np.float32))
    names = ("color", "depth", "weight_sum")
    expected = gsplat_c.rasterize(**args, outputs=names)
    changed = arrays_of(args, LAYOUTS[layout])
    result = gsplat_c.rasterize(**changed, outputs=names)
    for name in names:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def test_zero_strides():
    args = cloud(count=10)
    constant = {**args, "scales": np.full((10, 3), 0.1, np.float32),
                "opacities": np.full(10, 0.5, np.float32)}
    expected = gsplat_c.rasterize(**constant).color
    constant["scales"] = np.broadcast_to(np.float32(0.1), (10, 3))
    constant["opacities"] = np.broadcast_to(np.float32(0.5), 10)
    np.testing.assert_array_equal(gsplat_c.rasterize(**constant).color, expected)


@pytest.mark.parametrize("old", [True, False])
def test_any_producer(old):
    args = cloud()
    expected = gsplat_c.rasterize(**args).color
    result = gsplat_c.rasterize(**arrays_of(args, lambda a: Producer(a, old))).color
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, expected)
    sliced = arrays_of(args, lambda a: Producer(np.repeat(a, 2, 0)[::2], old))
    np.testing.assert_array_equal(gsplat_c.rasterize(**sliced).color, expected)
    mixed = {**args, "means": Producer(args["means"], old)}
    np.testing.assert_array_equal(gsplat_c.rasterize(**mixed).color, expected)


def test_results_into_a_producer():
    target = np.zeros((3, 28, 40), np.float32)
    gsplat_c.rasterize(**cloud(), out={"color": Producer(target)})
    np.testing.assert_array_equal(target, gsplat_c.rasterize(**cloud()).color)
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1):
        with pytest.raises(ValueError, match="color is read-only"):
            gsplat_c.rasterize(**cloud(), out={"color": Producer(_read_only(target))})


@pytest.mark.parametrize("name", ["means", "opacities", "scales", "rotations", "colors", "view",
                                  "intrinsics", "background"])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.complex64, bool])
def test_wrong_dtype_names_the_array(name, dtype):
    args = cloud()
    args[name] = args[name].astype(dtype)
    with pytest.raises(gsplat_c.ArgumentError, match=rf"\b{name}\b") as caught:
        gsplat_c.rasterize(**args)
    assert caught.value.status_name == "GSC_ERROR_DTYPE"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("bad", [np.zeros(3, ">f4"), np.array([None] * 3),
                                 np.zeros(3, "datetime64[s]"), np.zeros(3, "S4")])
def test_foreign_dtypes(bad):
    if sys.byteorder == "big":
        pytest.skip("the other way round")
    with pytest.raises(gsplat_c.ArgumentError, match="rasterize: background has dtype"):
        gsplat_c.rasterize(**cloud(background=bad))


@pytest.mark.parametrize("name, shape", [
    ("means", (40, 4)), ("means", (40,)), ("means", ()), ("opacities", (41,)), ("scales", (40, 4)),
    ("rotations", (40, 3)), ("colors", (39, 3)), ("view", (3, 4)), ("view", (5, 4, 4)),
    ("intrinsics", (3,)), ("background", (4,)), ("covariances", (40, 5)), ("sh", (40, 3)),
    ("sh_dc", (40, 2, 3)), ("pixel_weights", (40, 28)), ("projection", (4,)),
])
def test_wrong_shapes_are_errors_of_the_library(name, shape):
    args = cloud()
    args[name] = np.zeros(shape, np.float32)
    if name in ("covariances",):
        del args["scales"], args["rotations"]
    if name in ("sh", "sh_dc"):
        del args["colors"]
    if name == "projection":
        del args["intrinsics"]
        args.update(tan_fovx=1, tan_fovy=1)
    outputs = ("color", "weight_sum") if name == "pixel_weights" else "color"
    with pytest.raises(ValueError):
        gsplat_c.rasterize(**args, outputs=outputs)


def test_messages_hold_both_shapes():
    args = cloud()
    args["scales"] = np.zeros((40, 4), np.float32)
    with pytest.raises(gsplat_c.ArgumentError, match=r"scales.*40.*4.*40.*3") as caught:
        gsplat_c.rasterize(**args)
    assert caught.value.status_name == "GSC_ERROR_SHAPE"


def test_wrong_outputs():
    args = cloud()
    for array, text in [
        (_read_only(np.zeros((3, 28, 40), np.float32)), "color is read-only"),
        (np.zeros((3, 28, 80), np.float32)[..., ::2], "color is not dense"),
        (np.broadcast_to(np.float32(0), (3, 28, 40)), "color is (not dense|read-only)"),
        (np.zeros((3, 28, 41), np.float32), "color"),
        (np.zeros((3, 28, 40)), "color"),
        ([[1.0]], "color is list, expected an array"),
        (np.float32(3), "color"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=text):
            gsplat_c.rasterize(**args, out={"color": array})
    with pytest.raises(ValueError, match="outputs has 'colour', expected any of color, alpha"):
        gsplat_c.rasterize(**args, outputs=("color", "colour"))
    wanted = gsplat_c.rasterize(**args, outputs=("color", "alpha", "depth"))
    for names in ("alpha", ("alpha",), ("depth", "alpha")):
        found = gsplat_c.rasterize(**args, outputs=names)
        assert "color" not in found and (found.alpha == wanted.alpha).all()


def test_wrong_values():
    args = cloud()
    for change, text in [
        ({"width": 0}, "width"), ({"height": -5}, "height"), ({"width": 2**40}, "width is 1099"),
        ({"width": 1.5}, "width is 1.5"), ({"sh_degree": 2**40}, "sh_degree is 1099"),
        ({"scale_modifier": 1e300}, "scale_modifier is 1e"), ({"blur": "thick"}, "blur is 'thick'"),
        ({"means": [[0, 0, 1]]}, "means is list, expected an array"), ({"means": None}, "means"),
        ({"opacities": None}, "opacities"), ({"colors": None}, "colors"),
        ({"view": [[1, 2], [3]]}, "view has rows of different lengths"),
        ({"view": [["a"]]}, "view"), ({"background": object()}, "background is object"),
        ({"intrinsics": None}, "intrinsics"),
        ({"background": np.zeros((1,) * 9, np.float32)}, "background is .*1, 1, 1, 1"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=text):
            gsplat_c.rasterize(**{**args, **change})
    with pytest.raises(TypeError, match="positions"):
        gsplat_c.rasterize(**args, positions=None)
    with pytest.raises(TypeError, match="positions"):
        gsplat_c.rasterize_forward(**args, positions=None)
    with pytest.raises(TypeError, match="'view'"):
        gsplat_c.rasterize_forward(means=args["means"], width=1, height=1)


def test_mixed_devices_are_refused():
    """A producer that claims to live on a GPU: the library must not read its memory."""
    args = cloud()

    class Elsewhere(Producer):
        def __dlpack__(self, **options):
            assert options.pop("stream", 1) is not None
            capsule = self.array.__dlpack__()
            address = _pointer(capsule)
            ctypes.c_int32.from_address(address + 8).value = 2
            return capsule

    _pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))
    pointer = _pointer
    _pointer = lambda capsule: pointer(capsule, b"dltensor")  # noqa: E731
    args["scales"] = Elsewhere(args["scales"], device=(2, 0))
    with pytest.raises(gsplat_c.ArgumentError, match="scales") as caught:
        gsplat_c.rasterize(**args)
    assert caught.value.status_name == "GSC_ERROR_DEVICE"
    args = cloud()
    args["means"] = Producer(args["means"], device=(12, 0))
    with pytest.raises(gsplat_c.ArgumentError, match="device type 12"):
        gsplat_c.rasterize(**args)


def test_double_images_and_integers_in_numpy_types():
    args = one_splat(width=np.int64(33), height=np.int32(33), scale_modifier=np.float32(1))
    assert gsplat_c.rasterize(**args).color.shape == (3, 33, 33)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_unconsumed_capsules_do_not_leak():
    points = np.zeros((8, 3), np.float32)
    weights = np.zeros((1 << 16, 3), np.float32)

    def use():
        gsplat_c.knn(points, 2)
        with pytest.raises(ValueError):
            gsplat_c.knn(points, 2, queries=weights[:, :2])  # a copy, then an error

    use()
    references = sys.getrefcount(points), sys.getrefcount(weights)
    for _ in range(100):
        use()
    gc.collect()
    before = resident_bytes()
    for _ in range(10000):
        gsplat_c.knn(points, 2)
    for _ in range(200):
        use()
    gc.collect()
    assert resident_bytes() - before < 4 << 20
    assert (sys.getrefcount(points), sys.getrefcount(weights)) == references


def test_a_call_inside_a_call():
    """A producer that calls the library while its own view is being made."""
    args = cloud()
    expected = gsplat_c.rasterize(**args).color

    class Nested(Producer):
        def __dlpack__(self, **options):
            np.testing.assert_array_equal(gsplat_c.rasterize(**args).color, expected)
            return super().__dlpack__(**options)

    result = gsplat_c.rasterize(**{**args, "scales": Nested(args["scales"])}).color
    np.testing.assert_array_equal(result, expected)


def test_a_failed_call_leaves_nothing_behind():
    args = cloud()
    expected = gsplat_c.rasterize(**args).color

    class Broken(Producer):
        def __dlpack__(self, **options):
            raise RuntimeError("the producer's own trouble")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="own trouble"):
            gsplat_c.rasterize(**{**args, "colors": Broken(args["colors"])})
        np.testing.assert_array_equal(gsplat_c.rasterize(**args).color, expected)


def test_capsules_of_numpy_may_have_another_layout(monkeypatch):
    from gsplat_c import _arrays, _dlpack

    args = cloud()
    expected = gsplat_c.rasterize(**args).color
    assert _dlpack.pointer_comes_first(args["means"].__dlpack__(), b"dltensor")
    monkeypatch.setattr(_arrays.numpy_arrays(), "_reads_capsules", False)
    np.testing.assert_array_equal(gsplat_c.rasterize(**args).color, expected)
    monkeypatch.setattr(_dlpack, "OBJECT_BYTES", _dlpack.OBJECT_BYTES + 8)
    assert not _dlpack.pointer_comes_first(args["means"].__dlpack__(), b"dltensor")
