"""Arrays of every framework as DLTensor views, and new arrays in the caller's framework.

An adapter knows one framework.  ``adapter(array, name)`` finds it, once per type:
no framework is imported, an array's own is already there.  What adapters do:

    pack        a view in the call's block; returns the address of a DLTensor.  Inputs
                that must be dense and are not are copied.  Outputs are never copied:
                they must be dense and writable.  A view may borrow the array's shape:
                who makes an array for it keeps that in block.keep.
    pack_frame  a gsc_raster_args of numbers and of arrays of any framework, and outputs
    pack_named  a struct of arrays, by name
    empty       a new array on a device
    bytes       a new uint8 array at a multiple of 256, and its address
    device      (DLDeviceType, id) of an array
    is_double   whether it is float64
    stream      the framework's current stream, as DLPack and CUDA number it
    is_transposed  whether an array is of 4 x 4 matrices that are dense but by columns
    allocate    the gsc_allocate_fn with which the library asks for memory on a GPU, or None
    take        the array of a DLManagedTensorVersioned that allocate gave
    memory_error  what the framework raises when there is no memory, None for MemoryError
    is_principal  whether results may be made where its arrays are
    convert     None, or makes the caller's kind of array of what empty() gave

numpy, torch, cupy and jax have files of their own.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ._call import call, device_word, dtype_word
from ._dlpack import as_numpy, capsule_is, capsule_pointer, fields_of, is_dense
from ._errors import ArgumentTypeError, Error, OutOfMemoryError, argument_error
from ._fields import ARGS, FIELDS, OUTPUTS, STRIDED, TENSORS

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
CPU_WORD = device_word((CPU, 0))


def must_be_dense(name):
    return argument_error("LAYOUT", f"{name} is not dense and row-major, as an output must be")


def must_be_writable(name):
    return argument_error("INVALID_ARGUMENT", f"{name} is read-only and cannot be an output")


class Arrays:
    """What adapters have unless they say otherwise."""

    convert = None
    allocate = None
    memory_error: type[Exception] | None = None
    is_principal = True

    def is_transposed(self, array):
        return False

    def pack_fields(self, block, numbers, values):
        """The address of a gsc_raster_args of raster_fields(), which these are."""
        return self.pack_frame(block, numbers, values)[0]

    def pack_frame(self, block, numbers, values, outputs=None):
        """(pack_fields(), the address of a gsc_raster_outputs of arrays by name)"""
        addresses = []
        for name, strided, value in zip(TENSORS, STRIDED, values):
            if value is None:
                addresses.append(0)
                continue
            found = adapters.get(type(value)) or _find(value, name)
            if strided == "matrices":
                strided = found.is_transposed(value)
            addresses.append(found.pack(block, value, name, strided))
        args = ARGS.pack(block, *numbers, *addresses)
        return args, outputs and self.pack_named(block, OUTPUTS, outputs)

    def pack_named(self, block, descriptor, outputs, upstream=()):
        """The address of a struct of outputs and, if any, of the gradients that come in."""
        addresses = {name: pack_output(block, array, name) for name, array in outputs.items()}
        for name in upstream:
            addresses[name] = pack(block, upstream[name], f"grad_{name}")
        return descriptor.pack_named(block, addresses)

    def bytes(self, size, device):
        memory = self.empty((size + 255,), "uint8", device)
        address = self.address(memory)
        start = -address % 256
        return memory[start:start + size], address + start


def by_columns(shape, strides, item=1):
    """Whether these are of 4 x 4 matrices one after the other, each by columns."""
    return (strides[-2:] == (item, 4 * item) and shape[-2:] == (4, 4)
            and (len(shape) == 2 or shape[0] == 1 or strides[0] == 16 * item))


class NumpyLikeArrays(Arrays):
    """Arrays with the attributes of numpy's."""

    def is_transposed(self, array):
        return (not array.flags.c_contiguous
                and by_columns(array.shape, array.strides, array.itemsize))

    def copy_into(self, target, source):
        target[...] = source

    def is_double(self, array):
        return array.dtype.char == "d"


class DlpackArrays(Arrays):
    """Anything else with __dlpack__; results are numpy arrays, so new ones are on the CPU."""

    def pack(self, block, value, name, strided=False, writable=False):
        capsule = self._capsule(block, value)
        block.keep.append(capsule)
        read_only = False
        if capsule_is(capsule, b"dltensor_versioned"):
            pointer = capsule_pointer(capsule, b"dltensor_versioned")
            major = ctypes.c_uint32.from_address(pointer).value
            if major != 1:
                raise argument_error("LAYOUT", f"{name} speaks DLPack {major}, expected 1")
            read_only = bool(ctypes.c_uint64.from_address(pointer + 24).value & 1)
            pointer += 32
        elif capsule_is(capsule, b"dltensor"):
            pointer = capsule_pointer(capsule, b"dltensor")
        else:
            raise _no_array(capsule, f"__dlpack__() of {name}")
        if writable and read_only:
            raise must_be_writable(name)
        if not strided and not is_dense(pointer):
            if writable:
                raise must_be_dense(name)
            if self.device(value)[0] in (CPU, CUDA_HOST):
                arrays = numpy_arrays()
                return arrays.pack(block, as_numpy(arrays.numpy, pointer, capsule), name)
        return pointer

    @staticmethod
    def _capsule(block, value):
        """Asks for the newest struct first; the producer orders its work before our stream."""
        options = {}
        if value.__dlpack_device__()[0] == CUDA:
            options["stream"] = block.stream or 1
        try:
            return value.__dlpack__(max_version=(1, 3), **options)
        except TypeError:
            return value.__dlpack__(**options)

    def empty(self, shape, dtype, device):
        return self._memory(device).empty(shape, dtype, device)

    def bytes(self, size, device):
        return self._memory(device).bytes(size, device)

    def _memory(self, device):
        """The adapter that makes new arrays."""
        if device[0] not in (CPU, CUDA_HOST):
            raise argument_error("DEVICE", "arrays of this framework on a GPU: all results must be "
                                           "given (out=)")
        return numpy_arrays()

    def copy_into(self, target, source):
        with call() as block:
            pointer = self.pack(block, source, "a buffer")
            target[...] = as_numpy(numpy_arrays().numpy, pointer, None)

    def address(self, value):
        with call() as block:
            return fields_of(self.pack(block, value, "a buffer"))[0]

    def device(self, value):
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)

    def is_double(self, value):
        with call() as block:
            pointer = self.pack(block, value, "an array", strided=True)
            return ctypes.string_at(pointer + 20, 2) == b"\x02\x40"

    def stream(self, device):
        return 0


class ListArrays(Arrays):
    """Plain nested lists of numbers, for the small tensors of a camera."""

    is_principal = False

    def pack(self, block, value, name, strided=False, writable=False):
        if writable or name not in FIELDS or not FIELDS[name].camera:
            raise _no_array(value, name)
        from array import array

        shape, flat = [], [value]
        while flat and isinstance(flat[0], (list, tuple)):
            length = len(flat[0])
            if any(not isinstance(row, (list, tuple)) or len(row) != length for row in flat):
                raise argument_error("SHAPE", f"{name} has rows of different lengths")
            shape.append(length)
            flat = [item for row in flat for item in row]
        try:
            memory = array("d" if block.double else "f", flat)
        except (TypeError, OverflowError) as error:
            raise argument_error("DTYPE", f"{name} has a value that is no float32: {error}"
                                 ) from None
        block.keep.append(memory)
        return block.tensor(name, memory.buffer_info()[0], CPU_WORD,
                            dtype_word(2, memory.itemsize * 8), shape)


class ConvertedArrays(Arrays):
    """Objects without __dlpack__ that numpy can read in place, such as numpy scalars."""

    is_principal = False

    def pack(self, block, value, name, strided=False, writable=False):
        if writable:
            raise argument_error("INVALID_ARGUMENT", f"{name} is {type(value).__name__}, "
                                 "expected an array")
        adapter = numpy_arrays()
        return adapter.pack(block, adapter.numpy.asarray(value), name, strided)


_dlpack, _converted, _lists = DlpackArrays(), ConvertedArrays(), ListArrays()
adapters = {list: _lists, tuple: _lists}


@cache
def numpy_arrays():
    """The adapter of numpy, imported now if nobody did so before."""
    import numpy

    from ._numpy import NumpyArrays

    return NumpyArrays(numpy)


@cache
def torch_arrays():
    """The adapter of torch, which the caller has imported."""
    from ._torch import TorchArrays

    return TorchArrays(sys.modules["torch"])


def adapter(value, name):
    """The adapter for an array."""
    return adapters.get(type(value)) or _find(value, name)


def _find(value, name):
    # By name and not by module: another thread may be in the middle of importing it.
    if _is_a(value, "torch", "Tensor"):
        found = torch_arrays()
    elif _is_a(value, "numpy", "ndarray"):
        found = numpy_arrays()
    elif _is_a(value, "cupy", "ndarray"):
        from ._cupy import CupyArrays

        found = CupyArrays(sys.modules["cupy"])
    elif _is_a(value, "jax", "Array"):
        from ._jax import JaxArrays

        found = JaxArrays(sys.modules["jax"], value, name)
    elif isinstance(value, type):
        raise _no_array(value, name)
    elif hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        found = _dlpack
    elif hasattr(value, "__array_interface__"):
        found = _converted
    elif isinstance(value, (list, tuple)):
        found = _lists
    else:
        raise _no_array(value, name)
    adapters[type(value)] = found
    return found


def _is_a(value, module, kind):
    kind = getattr(sys.modules.get(module), kind, None)
    return kind is not None and isinstance(value, kind)


def _no_array(value, name):
    return ArgumentTypeError(f"{name} is {type(value).__name__}, expected an array with __dlpack__")


def principal(value, name):
    """The adapter for the array that decides where results go and on which device."""
    found = adapters.get(type(value)) or _find(value, name)
    if not found.is_principal:
        raise _no_array(value, name)
    return found


def pack(block, value, name, strided=False):
    """A DLTensor of an input, dense unless it may be strided; 0, a NULL pointer, for None."""
    return 0 if value is None else adapter(value, name).pack(block, value, name, strided)


def pack_output(block, value, name):
    """A DLTensor of an array that the library writes to."""
    return adapter(value, name).pack(block, value, name, False, True)


def allocate(what, make, *args):
    """make(*args), an array; an error that names it where there is no memory.

    what: its name, formatted with args.
    """
    try:
        return make(*args)
    except Error:
        raise
    except (MemoryError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        what = what.format(*(list(arg) if type(arg) is tuple else arg for arg in args))
        raise OutOfMemoryError(f"no memory for {what}: {reason}") from error


def convert(block, values, out):
    """The results {name: array} in the caller's framework; those in out are the caller's."""
    make = block.arrays.convert
    if make is None:
        return values
    return {name: value if out and out.get(name) is not None else make(value, block.like)
            for name, value in values.items()}


def shape_of(value):
    """The shape as a tuple; () for what has none, which the library then refuses."""
    shape = getattr(value, "shape", ())
    return shape if type(shape) is tuple else tuple(shape)
