"""The rasterizer step by step, with the caller's buffers and without torch's help: what the
package keeps to itself.  Arrays are torch tensors or Raw memory."""

import ctypes
import math
import os

from gsplat_c import _arrays, _lib
from gsplat_c._abi import CONSTANTS
from gsplat_c._arrays import CUDA, pack_output, principal
from gsplat_c._call import Block, Descriptor, device_word, dtype_word
from gsplat_c._context import context
from gsplat_c._lib import lib
from gsplat_c._scene import raster_fields

_OUTPUTS = Descriptor("gsc_raster_outputs")
_BUFFERS = Descriptor("gsc_raster_buffers")
_INFO = Descriptor("gsc_raster_info")
_GRADS = Descriptor("gsc_raster_grads")

STATUS = {value: name for name, value in CONSTANTS.items()
          if name.startswith(("GSC_OK", "GSC_ERROR_"))}
INFO_FIELDS = _INFO.fields[1:]


class Raw:
    """Memory of any device as an array: an address with a shape, for the packing alone."""

    typecodes = {"float32": (2, 32), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8)}

    def __init__(self, address, shape, dtype="float32", device=(CUDA, 0)):
        self.address, self.shape, self.dtype, self.device = address, tuple(shape), dtype, device
        self.bytes = math.prod(self.shape) * self.typecodes[dtype][1] // 8


class _RawArrays(_arrays.Arrays):
    """Adapter of Raw."""

    def pack(self, block, value, name, strided=False, writable=False):
        return block.tensor(name, value.address, device_word(value.device),
                            dtype_word(*Raw.typecodes[value.dtype]), value.shape)

    def device(self, value):
        return value.device

    def is_double(self, value):
        return False


def register_raw():
    _arrays.adapters[Raw] = _RawArrays()


def message():
    return _lib._last_error().decode()


class Steps:
    """One frame.  Every method returns the status name; `info` is a dict between calls.

    stream None: torch's current stream, at each call."""

    def __init__(self, args, outputs, stream=None, flags=0):
        register_raw()
        self.block = Block(1 << 16)
        self.args, self.outputs, self.stream = args, outputs, stream
        self.arrays = principal(args["means"], "means")
        self.device = self.arrays.device(args["means"])
        self.context = context(self.device)
        self.block.arrays = self.arrays
        self.packed = self.arrays.pack_fields(self.block, *raster_fields("steps", args, flags))
        self.packed_outputs = _OUTPUTS.pack_named(
            self.block, {k: pack_output(self.block, v, k) for k, v in outputs.items()})
        self.info = dict.fromkeys(INFO_FIELDS, 0)

    def _stream(self):
        return self.arrays.stream(self.device) if self.stream is None else self.stream

    def _buffers(self, **buffers):
        return _BUFFERS.pack_named(
            self.block, {k: pack_output(self.block, v, k) for k, v in buffers.items()
                         if v is not None})

    def _run(self, call):
        """call(info) with the block's memory as it was before afterwards."""
        top = self.block.top
        try:
            info = _INFO.pack(self.block, *self.info.values())
            status = call(info)
            self.info = dict(zip(INFO_FIELDS, _INFO.unpack(self.block, info)))
        finally:
            self.block.top = top
        return STATUS[status]

    def sizes(self):
        return self._run(lambda info: lib.gsc_raster_sizes(self.context, self.packed, info))

    def project(self, state, scratch=None, waiting=True):
        return self._run(lambda info: lib.gsc_raster_project(
            self.context, self.packed, self._buffers(state=state, scratch=scratch),
            self.packed_outputs, info if waiting else None, self._stream()))

    def render(self, state, intersections, scratch=None, overflow=None):
        return self._run(lambda info: lib.gsc_raster_blend(
            self.context, self.packed,
            self._buffers(state=state, intersections=intersections, scratch=scratch),
            self.packed_outputs, info,
            None if overflow is None else pack_output(self.block, overflow, "overflow"),
            self._stream()))

    def backward(self, state, intersections, grads, scratch=None):
        """grads: out, and grad_color, .. in."""
        return self._run(lambda info: lib.gsc_raster_backward(
            self.context, self.packed,
            self._buffers(state=state, intersections=intersections, scratch=scratch), info,
            _GRADS.pack_named(self.block, {k.removeprefix("grad_"): pack_output(self.block, v, k)
                                           for k, v in grads.items()}), self._stream()))


class Driver:
    """libcuda for what tests look at; every call must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ.get("GSC_CUDA_LIBRARY") or "libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            result = function(*arguments)
            assert result == 0, f"{name} returned {result}"

        return call

    def current(self):
        """The calling thread's current context, 0 if there is none."""
        found = ctypes.c_void_p()
        self.cuCtxGetCurrent(ctypes.byref(found))
        return found.value or 0

    def set_current(self, handle):
        self.cuCtxSetCurrent(ctypes.c_void_p(handle))

    def new_context(self, device=0):
        """A context of its own, as PyCUDA makes them; it is current afterwards."""
        handle = ctypes.c_void_p()
        self.cuCtxCreate_v2(ctypes.byref(handle), ctypes.c_uint(0), ctypes.c_int(device))
        return handle.value

    def destroy(self, handle):
        self.cuCtxDestroy_v2(ctypes.c_void_p(handle))

    def stream(self):
        """A non-blocking stream."""
        handle = ctypes.c_void_p()
        self.cuStreamCreate(ctypes.byref(handle), ctypes.c_uint(1))
        return handle.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address):
        self.cuMemFree_v2(ctypes.c_uint64(address))

    def upload(self, address, data):
        self.cuMemcpyHtoD_v2(ctypes.c_uint64(address), data.ctypes.data_as(ctypes.c_void_p),
                             ctypes.c_size_t(data.nbytes))

    def download(self, data, address):
        self.cuMemcpyDtoH_v2(data.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address),
                             ctypes.c_size_t(data.nbytes))
