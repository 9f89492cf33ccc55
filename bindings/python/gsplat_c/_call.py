"""The memory of one call: descriptors and tensor views, packed by byte offset.

A ctypes.Structure per tensor costs about a microsecond; packing one record with
struct costs a tenth of it.  So each call fills plain memory, by the offsets in
_abi.py, and passes addresses.  A thread keeps its block for its next call; a call
inside a call (from a producer's __dlpack__, say) takes a block of its own.
"""

from __future__ import annotations

import ctypes
import struct
import threading

from ._abi import STRUCTS
from ._errors import Error, OutOfMemoryError, argument_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLOCK_BYTES = 16384  # the widest call has 76 tensors of up to MAX_NDIM dimensions, 176 bytes each
MAX_NDIM = 8
TENSOR_BYTES = 48 + 16 * MAX_NDIM  # DLTensor, shape, strides

# data, device type, device id, ndim, code, bits, lanes, shape, strides, byte_offset
DLTENSOR = struct.Struct("=QiiiBBHQQQ")
# The same to write: fewer, wider numbers cost less.  Shape and strides follow.
_DENSE = [struct.Struct(f"=6Q{n}q").pack_into for n in range(MAX_NDIM + 1)]
_STRIDED = [struct.Struct(f"=6Q{2 * n}q").pack_into for n in range(MAX_NDIM + 1)]
POINTER = struct.Struct("=Q")
_set_pointer = POINTER.pack_into


# What a field of a struct takes, by its format.
_EXPECTED = {"i": "an integer of 32 bits", "I": "an integer of 32 bits, 0 or more",
             "q": "an integer of 64 bits", "Q": "an integer of 64 bits, 0 or more",
             "f": "a number", "d": "a number"}

_device_words: dict[tuple[int, int], int] = {}


def device_word(device: tuple[int, int]) -> int:
    """A DLDevice (type, id) as one number."""
    word = _device_words.get(device)
    if word is None:
        word = _device_words[device] = POINTER.unpack(struct.pack("=ii", *device))[0]
    return word


def dtype_word(code: int, bits: int, ndim: int = 0) -> int:
    """ndim and the DLDataType after it as one number."""
    return POINTER.unpack(struct.pack("=iBBH", ndim, code, bits, 1 if bits else 0))[0]


_NDIM = [dtype_word(0, 0, ndim) for ndim in range(MAX_NDIM + 1)]
_UINT8 = dtype_word(1, 8)


class Descriptor:
    """Layout of one struct of the C header."""

    __slots__ = ("name", "size", "offsets", "fields", "_struct", "_first", "_zero")

    def __init__(self, name: str):
        self.name = name
        self.size, form, self.offsets = STRUCTS[name]
        self.fields = tuple(self.offsets)
        self._struct = struct.Struct(form)
        self._first = (self.size,) if self.fields[0] == "struct_size" else ()
        self._zero = b"".join(map(POINTER.pack, self._first)).ljust(self.size, b"\0")

    def names(self, codes: str) -> tuple[str, ...]:
        """The fields of these struct formats, but struct_size."""
        formats = self._struct.format.replace("x", "")[1:]
        return tuple(name for name, code in zip(self.fields, formats)
                     if code in codes and name != "struct_size")

    def pack(self, block: Block, *values) -> int:
        """Writes every field but struct_size, in the header's order; returns the address."""
        offset = block.reserve(self.size)
        try:
            self._struct.pack_into(block.memory, offset, *self._first, *values)
        except (struct.error, OverflowError) as error:
            raise self._bad_value(values, error) from None
        return block.base + offset

    def default(self, block: Block) -> int:
        """Leaves every field at its default."""
        offset = block.reserve(self.size)
        block.memory[offset:block.top] = self._zero
        return block.base + offset

    def pack_named(self, block: Block, values: dict[str, int]) -> int:
        """Writes pointer fields by name and leaves the others at their default."""
        address = self.default(block)
        offset, memory, offsets = address - block.base, block.memory, self.offsets
        for name, value in values.items():
            _set_pointer(memory, offset + offsets[name], value)
        return address

    def read(self, block: Block, address: int, name: str) -> int:
        """One pointer-sized field."""
        return POINTER.unpack_from(block.memory, address - block.base + self.offsets[name])[0]

    def unpack(self, block: Block, address: int) -> tuple:
        """The fields but struct_size, in the header's order."""
        return self._struct.unpack_from(block.memory, address - block.base)[1:]

    def _bad_value(self, values, error):
        """Names the field that the packing of the whole struct did not."""
        codes = self._struct.format.replace("x", "")[1:]
        names, codes = self.fields[-len(values):], codes[-len(values):]
        for name, code, value in zip(names, codes, values):
            try:
                struct.pack("=" + code, value)
            except (struct.error, OverflowError):
                return argument_error("INVALID_ARGUMENT",
                                      f"{name} is {value!r}, expected {_EXPECTED[code]}")
        return argument_error("INVALID_ARGUMENT", str(error))


class Block:
    """Memory that the C library reads during one call, and what must live that long.

    A context manager: the block is empty again afterwards, and errors get the function's name.

    Attributes:
        keep: what must live until the call ends.
        function: that the user called.
        arrays, like, device, context, stream, double, lends, recorded: see _context.begin().
    """

    __slots__ = ("memory", "base", "size", "top", "keep", "function", "arrays", "like", "device",
                 "context", "stream", "double", "lends", "recorded", "_export")

    def __init__(self, size: int = _BLOCK_BYTES):
        self.memory = bytearray(size)
        self._export = (ctypes.c_char * size).from_buffer(self.memory)
        self.base = ctypes.addressof(self._export)
        self.size = size
        self.top = 0
        self.keep: list = []
        self.function = ""
        self.arrays: Any = None
        self.like = self.device = self.context = None
        self.stream = 0
        self.double = self.lends = self.recorded = False

    def __enter__(self) -> Block:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, Error) and self.function:
            error.name_function(self.function)
            if isinstance(error, OutOfMemoryError):
                error.catch_as(self.arrays.memory_error if self.arrays else None)
        self.top = 0
        self.keep.clear()
        self.like = None
        if self.size == _BLOCK_BYTES:
            _free.blocks.append(self)

    def reserve(self, size: int) -> int:
        """The offset of that many bytes, a multiple of 8."""
        offset = self.top
        self.top = top = offset + size
        if top > self.size:
            raise OutOfMemoryError(f"more tensors than {self.size} bytes describe")
        return offset

    def tensor(self, name, data, device, dtype, shape, strides=None) -> int:
        """Packs a DLTensor; its address.

        device, dtype: of device_word() and dtype_word().  strides: in elements, None if dense.
        """
        ndim = len(shape)
        if ndim > MAX_NDIM:
            raise argument_error("SHAPE", f"{name} has {ndim} dimensions, at most {MAX_NDIM}")
        offset = self.reserve(48 + 16 * ndim)
        address = self.base + offset
        if strides is None:
            _DENSE[ndim](self.memory, offset, data, device, dtype | _NDIM[ndim], address + 48,
                         0, 0, *shape)
        else:
            _STRIDED[ndim](self.memory, offset, data, device, dtype | _NDIM[ndim], address + 48,
                           address + 48 + 8 * ndim, 0, *shape, *strides)
        return address

    def bytes(self, data, device, size) -> int:
        """Packs a DLTensor of uint8 [size]; its address."""
        return self.tensor("", data, device, _UINT8, (size,))


class _Free(threading.local):
    def __init__(self):
        self.blocks: list[Block] = []


_free = _Free()


def call(function: str = "", extra_bytes: int = 0) -> Block:
    """``with call("knn") as block``: a block of this thread, or a larger one for once."""
    if extra_bytes:
        block = Block(_BLOCK_BYTES + extra_bytes)
    else:
        blocks = _free.blocks
        block = blocks.pop() if blocks else Block()
    block.function = function
    return block
