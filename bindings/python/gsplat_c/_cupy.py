"""cupy arrays as DLTensor views."""

from __future__ import annotations

from ._arrays import CUDA, NumpyLikeArrays, must_be_dense
from ._call import device_word, dtype_word
from ._dlpack import KINDS, Lender
from ._errors import argument_error


class CupyArrays(NumpyLikeArrays):
    """cupy.ndarray, by its attributes; on cupy's current stream of the array's device."""

    def __init__(self, cupy):
        self.cupy = cupy
        self._device = cupy.cuda.Device
        self._current_device = cupy.cuda.runtime.getDevice
        self._current_stream = cupy.cuda.get_current_stream
        lender = Lender(self.bytes)
        self.allocate, self.take = lender.address, lender.take

    def pack(self, block, array, name, strided=False, writable=False):
        dtype = array.dtype
        if dtype.kind not in KINDS:
            raise argument_error("DTYPE", f"{name} has dtype {dtype}, expected numbers")
        dense = array.flags.c_contiguous
        if not dense and not strided:
            if writable:
                raise must_be_dense(name)
            with self._device(array.device.id):
                array = self.cupy.ascontiguousarray(array)
            dense = True
        block.keep.append(array)
        size = dtype.itemsize
        strides = None if dense else [stride // size for stride in array.strides]
        return block.tensor(name, array.data.ptr, device_word((CUDA, array.device.id)),
                            dtype_word(KINDS[dtype.kind], size * 8), array.shape, strides)

    def empty(self, shape, dtype, device):
        if device[1] == self._current_device():
            return self.cupy.empty(shape, dtype)
        with self._device(device[1]):
            return self.cupy.empty(shape, dtype)

    def address(self, array):
        return array.data.ptr

    def device(self, array):
        return CUDA, array.device.id

    def stream(self, device):
        if device[1] == self._current_device():
            return self._current_stream().ptr
        with self._device(device[1]):
            return self._current_stream().ptr
