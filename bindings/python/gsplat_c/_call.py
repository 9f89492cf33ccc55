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
from ._errors import ArgumentError, argument_error

_BLOCK_BYTES = 16384  # the widest call has 56 tensors of up to MAX_NDIM dimensions, 176 bytes each
MAX_NDIM = 8
TENSOR_BYTES = 48 + 16 * MAX_NDIM  # DLTensor, shape, strides

# data, device type, device id, ndim, code, bits, lanes, shape, strides, byte_offset
_POINTER = struct.Struct("=Q")
DLTENSOR = struct.Struct("=QiiiBBHQQQ")
_DENSE = [struct.Struct(f"=QiiiBBHQQQ{n}q") for n in range(MAX_NDIM + 1)]
_STRIDED = [struct.Struct(f"=QiiiBBHQQQ{2 * n}q") for n in range(MAX_NDIM + 1)]


class Descriptor:
    """Layout of one struct of the C header."""

    __slots__ = ("name", "size", "offsets", "fields", "_struct", "_zero")

    def __init__(self, name: str):
        self.name = name
        self.size, form, self.offsets = STRUCTS[name]
        self.fields = tuple(self.offsets)
        self._struct = struct.Struct(form)
        zero = bytearray(self.size)
        if self.fields[0] == "struct_size":
            struct.pack_into("=Q", zero, 0, self.size)
        self._zero = bytes(zero)

    def pack(self, block: Block, *values) -> int:
        """Writes every field but struct_size, in the header's order; returns the address."""
        offset = block.reserve(self.size)
        try:
            self._struct.pack_into(block.memory, offset, self.size, *values)
        except struct.error as error:
            raise self._bad_value(values, error) from None
        except OverflowError as error:
            raise self._bad_value(values, error) from None
        return block.base + offset

    def pack_plain(self, block: Block, *values) -> int:
        """The same for a struct that has no struct_size."""
        offset = block.reserve(self.size)
        try:
            self._struct.pack_into(block.memory, offset, *values)
        except (struct.error, OverflowError) as error:
            raise self._bad_value(values, error) from None
        return block.base + offset

    def pack_named(self, block: Block, values: dict[str, int]) -> int:
        """Writes pointer fields by name and leaves the others at their default."""
        offset = block.reserve(self.size)
        block.memory[offset:offset + self.size] = self._zero
        for name, value in values.items():
            _POINTER.pack_into(block.memory, offset + self.offsets[name], value)
        return block.base + offset

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
            except (struct.error, OverflowError) as reason:
                return argument_error("INVALID_ARGUMENT", f"{name} is {value!r}: {reason}")
        return argument_error("INVALID_ARGUMENT", str(error))


class Block:
    """Memory that the C library reads during one call, and what must live that long."""

    __slots__ = ("memory", "base", "size", "top", "keep", "stream", "_export")

    def __init__(self, size: int = _BLOCK_BYTES):
        self.memory = bytearray(size)
        self._export = (ctypes.c_char * size).from_buffer(self.memory)
        self.base = ctypes.addressof(self._export)
        self.size = size
        self.top = 0
        self.keep: list = []
        self.stream = 0

    def reserve(self, size: int) -> int:
        """The offset of that many bytes, a multiple of 8."""
        offset = self.top
        self.top = offset + size
        if self.top > self.size:
            raise MemoryError("gsplat_c: a call with too many tensors")
        return offset

    def tensor(self, name, data, device, dtype, shape, strides=None) -> int:
        """Packs a DLTensor; strides in elements, None if dense.  Returns its address."""
        ndim = len(shape)
        if ndim > MAX_NDIM:
            raise argument_error("SHAPE", f"{name} has {ndim} dimensions, at most {MAX_NDIM}")
        offset = self.reserve(48 + 16 * ndim)
        address = self.base + offset
        if strides is None:
            _DENSE[ndim].pack_into(self.memory, offset, data, device[0], device[1], ndim,
                                   dtype[0], dtype[1], 1, address + 48, 0, 0, *shape)
        else:
            _STRIDED[ndim].pack_into(self.memory, offset, data, device[0], device[1], ndim,
                                     dtype[0], dtype[1], 1, address + 48,
                                     address + 48 + 8 * ndim, 0, *shape, *strides)
        return address


class _Free(threading.local):
    def __init__(self):
        self.blocks: list[Block] = []


_free = _Free()


class Call:
    """``with Call("knn") as block``: a block of this thread, empty again afterwards.

    Errors that the binding finds inside get the function's name in front.
    """

    __slots__ = ("_function", "_block", "_extra")

    def __init__(self, function: str = "", extra_bytes: int = 0):
        self._function = function
        self._extra = extra_bytes

    def __enter__(self) -> Block:
        if self._extra:
            self._block = Block(_BLOCK_BYTES + self._extra)
        else:
            try:
                self._block = _free.blocks.pop()
            except IndexError:
                self._block = Block()
        return self._block

    def __exit__(self, kind, error, trace) -> None:
        block = self._block
        if error is not None and self._function and isinstance(error, ArgumentError):
            error.in_function(self._function)
        block.top = 0
        block.keep.clear()
        if not self._extra:
            _free.blocks.append(block)
