"""cupy arrays in and out; the adapter alone where there is no GPU."""

import struct
import types

import numpy as np
import pytest

import gsplat_c
from gsplat_c._call import DLTENSOR, Call
from gsplat_c._cupy import CupyArrays
from scenes import arrays_of, cloud, smooth_cloud
from test_backward import has_backward


def _gpu():
    try:
        import cupy

        return cupy if cupy.cuda.runtime.getDeviceCount() else None
    except Exception:  # not installed, or no driver
        return None


cupy = _gpu()
needs_gpu = pytest.mark.skipif(cupy is None, reason="needs cupy and a GPU")


class FakeArray:
    """The attributes of cupy.ndarray that the adapter reads, over numpy memory."""

    def __init__(self, array, device=1):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape
        self.strides, self.flags = array.strides, array.flags
        self.data = types.SimpleNamespace(ptr=array.ctypes.data)
        self.flags = types.SimpleNamespace(c_contiguous=array.flags.c_contiguous)
        self.device = types.SimpleNamespace(id=device)


@pytest.fixture
def fake():
    current, made = [0], []

    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            current.append(self.number)

        def __exit__(self, *_):
            current.pop()

    cuda = types.SimpleNamespace(
        Device=Device, runtime=types.SimpleNamespace(getDevice=lambda: current[-1]),
        get_current_stream=lambda: types.SimpleNamespace(ptr=100 + current[-1]))

    def empty(shape, dtype):
        made.append(current[-1])
        return FakeArray(np.empty(shape, dtype), current[-1])

    return types.SimpleNamespace(
        cuda=cuda, empty=empty, made=made,
        ascontiguousarray=lambda a: FakeArray(np.ascontiguousarray(a.array), a.device.id))


def unpack(block, address):
    data, kind, device, ndim, code, bits, lanes, shape, strides, _ = DLTENSOR.unpack_from(
        block.memory, address - block.base)
    sizes = struct.unpack_from(f"={ndim}q", block.memory, shape - block.base)
    steps = strides and struct.unpack_from(f"={ndim}q", block.memory, strides - block.base)
    return data, (kind, device), (code, bits), sizes, steps or None


def test_views(fake):
    arrays = CupyArrays(fake)
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    with Call("test") as block:
        dense = FakeArray(base)
        assert unpack(block, arrays.pack(block, dense, "x")) == (
            base.ctypes.data, (2, 1), (2, 32), (4, 6), None)
        sliced = FakeArray(base[:, ::2])
        data, _, _, sizes, steps = unpack(block, arrays.pack(block, sliced, "x", strided=True))
        assert (data, sizes, steps) == (base.ctypes.data, (4, 3), (6, 2))
        data, _, _, sizes, steps = unpack(block, arrays.pack(block, sliced, "x"))
        assert data != base.ctypes.data and steps is None  # a copy, which the call keeps
        assert any(kept.data.ptr == data for kept in block.keep)
        with pytest.raises(gsplat_c.ArgumentError, match="x is not dense"):
            arrays.pack(block, sliced, "x", writable=True)
        with pytest.raises(gsplat_c.ArgumentError, match="x has dtype"):
            arrays.pack(block, FakeArray(np.zeros(2, "datetime64[s]")), "x")
        assert unpack(block, arrays.pack(block, FakeArray(np.zeros(2, bool)), "x"))[2] == (6, 8)


def test_memory_and_streams_of_the_arrays_device(fake):
    arrays, like = CupyArrays(fake), FakeArray(np.zeros(1, np.float32), device=1)
    made = arrays.empty((2, 3), "float32", like)
    assert made.device.id == 1 and made.shape == (2, 3) and fake.made == [1]
    assert arrays.device(like) == (2, 1)
    assert arrays.stream((2, 0)) == 100 and arrays.stream((2, 1)) == 101
    assert not arrays.is_double(like)
    assert arrays.is_double(FakeArray(np.zeros(1)))


@needs_gpu
def test_forward_equals_numpy_and_stays_on_the_gpu():
    args = cloud(pixel_weights=np.ones((28, 40), np.float32))
    expected = gsplat_c.rasterize(**args, outputs=("color", "radii", "depth"))
    result = gsplat_c.rasterize(**arrays_of(args, cupy.asarray),
                                outputs=("color", "radii", "depth"))
    for name in ("color", "radii", "depth"):
        value = getattr(result, name)
        assert isinstance(value, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(value), getattr(expected, name), atol=1e-5)
    sliced = arrays_of(args, lambda a: cupy.repeat(cupy.asarray(a), 2, 0)[::2])
    np.testing.assert_array_equal(gsplat_c.rasterize(**sliced).color, result.color)
    with pytest.raises(gsplat_c.ArgumentError, match="scales"):
        gsplat_c.rasterize(**{**arrays_of(args, cupy.asarray), "scales": args["scales"]})


@needs_gpu
def test_other_functions():
    points = cupy.random.default_rng(0).normal(size=(200, 3)).astype(cupy.float32)
    found = gsplat_c.knn(points)
    expected = gsplat_c.knn(cupy.asnumpy(points))
    np.testing.assert_array_equal(cupy.asnumpy(found.indices), expected.indices)
    image = cupy.random.default_rng(1).random((1, 3, 20, 20), dtype=cupy.float32)
    assert abs(float(gsplat_c.ssim(image, image[..., ::-1]).mean)
               - float(gsplat_c.ssim(cupy.asnumpy(image),
                                     cupy.asnumpy(image[..., ::-1])).mean)) < 1e-5


@needs_gpu
@pytest.mark.skipif(not has_backward(), reason="this library has no raster backward")
def test_gradients():
    args = smooth_cloud()
    grad = np.ones((3, 28, 40), np.float32)
    _, saved = gsplat_c.rasterize_forward(**args)
    expected = gsplat_c.rasterize_backward(saved, wrt=("means", "scales"), grad_color=grad, **args)
    mine = arrays_of(args, cupy.asarray)
    _, saved = gsplat_c.rasterize_forward(**mine)
    assert isinstance(saved.state, cupy.ndarray)
    found = gsplat_c.rasterize_backward(saved, wrt=("means", "scales"),
                                        grad_color=cupy.asarray(grad), **mine)
    for name in ("means", "scales"):
        np.testing.assert_allclose(cupy.asnumpy(getattr(found, name)), getattr(expected, name),
                                   rtol=1e-3, atol=1e-3)


@needs_gpu
def test_current_stream():
    args = arrays_of(cloud(count=5000), cupy.asarray)
    expected = gsplat_c.rasterize(**args).color
    busy = cupy.random.default_rng(0).normal(size=(3000, 3000)).astype(cupy.float32)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        late = busy
        for _ in range(10):
            late = late @ busy * 1e-4
        means = cupy.nan_to_num(late[0, 0]) * 0 + args["means"]
        found = gsplat_c.rasterize(**{**args, "means": means}).color
        stream.synchronize()
    cupy.testing.assert_array_equal(found, expected)
