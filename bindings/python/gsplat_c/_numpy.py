"""numpy arrays as DLTensor views."""

from __future__ import annotations

from ._arrays import CPU, CPU_WORD, NumpyLikeArrays, must_be_dense, must_be_writable
from ._call import dtype_word
from ._dlpack import (
    KINDS,
    NATIVE,
    OBJECT_BYTES,
    capsule_pointer,
    pointer_comes_first,
    read_pointer,
)
from ._errors import argument_error


class NumpyArrays(NumpyLikeArrays):
    """numpy.ndarray, by its own DLPack capsule."""

    def __init__(self, numpy):
        self.numpy = numpy
        self.dtypes = {name: numpy.dtype(name)
                       for name in ("float32", "float64", "int32", "int64", "uint8", "bool")}
        example = numpy.empty(1)
        self._reads_capsules = hasattr(example, "__dlpack__") and pointer_comes_first(
            example.__dlpack__(), b"dltensor")

    def pack(self, block, array, name, strided=False, writable=False):
        if not strided and not array.flags.c_contiguous:
            if writable:
                raise must_be_dense(name)
            array = self.numpy.ascontiguousarray(array)
        try:
            capsule = array.__dlpack__()
        except Exception:  # read-only, an old numpy, or a dtype that DLPack lacks
            return self._pack_interface(block, array, name, writable)
        # Its destructor releases the array: keeping the capsule borrows the memory.
        block.keep.append(capsule)
        if self._reads_capsules:
            return read_pointer(id(capsule) + OBJECT_BYTES).value
        return capsule_pointer(capsule, b"dltensor")

    def _pack_interface(self, block, array, name, writable):
        interface = array.__array_interface__
        order, kind, size = interface["typestr"][0], interface["typestr"][1], array.itemsize
        if kind not in KINDS or order not in ("|", NATIVE) or size > 16:
            raise argument_error("DTYPE", f"{name} has dtype {array.dtype}, expected native "
                                          "numbers")
        data, read_only = interface["data"]
        if writable and read_only:
            raise must_be_writable(name)
        strides = interface["strides"]
        if strides is not None:
            if any(stride % size for stride in strides):
                array = self.numpy.ascontiguousarray(array)
                return self._pack_interface(block, array, name, writable)
            strides = [stride // size for stride in strides]
        block.keep.append(array)
        return block.tensor(name, data, CPU_WORD, dtype_word(KINDS[kind], size * 8), array.shape,
                            strides)

    def empty(self, shape, dtype, device=None):
        return self.numpy.empty(shape, self.dtypes[dtype])

    def address(self, array):
        return array.ctypes.data

    def device(self, array):
        return CPU, 0

    def stream(self, device):
        return 0
