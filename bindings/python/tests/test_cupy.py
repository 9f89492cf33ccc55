"""The adapter of cupy alone, over a stand-in with memory of the host."""

import struct
import types

import numpy as np
import pytest

import gsplat_c
from gsplat_c._call import DLTENSOR, call
from gsplat_c._cupy import CupyArrays


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
    with call("test") as block:
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
    made = arrays.empty((2, 3), "float32", arrays.device(like))
    assert made.device.id == 1 and made.shape == (2, 3) and fake.made == [1]
    assert arrays.device(like) == (2, 1)
    assert arrays.stream((2, 0)) == 100 and arrays.stream((2, 1)) == 101
    assert not arrays.is_double(like)
    assert arrays.is_double(FakeArray(np.zeros(1)))
