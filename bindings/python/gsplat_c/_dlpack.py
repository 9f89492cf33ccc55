"""Reading the views inside DLPack capsules, and numpy's words for them."""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import partial
from types import SimpleNamespace

from ._call import DLTENSOR
from ._errors import argument_error
from ._lib import lib

KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # numpy's letters to DLPack's codes
NATIVE = "<" if sys.byteorder == "little" else ">"

# PYFUNCTYPE keeps the GIL and looks for a Python error.
capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)

read_pointer = ctypes.c_void_p.from_address
OBJECT_BYTES = object.__basicsize__  # of what all Python objects begin with


def pointer_comes_first(capsule, name):
    """Whether read_pointer(id(capsule) + OBJECT_BYTES) is PyCapsule_GetPointer(capsule, name).

    It is a third of the call's time, without its checks.  CPython's capsules have kept the
    pointer in their first field since there are capsules, but never promised to.
    """
    return (sys.implementation.name == "cpython"
            and read_pointer(id(capsule) + OBJECT_BYTES).value == capsule_pointer(capsule, name))


def exchange_functions(kind):
    """Addresses of C functions of a type, from its table of DLPack 1; None for what it has not.

    The first and the fourth behind a header of 16 bytes: managed_tensor_allocator, which the header
    has as gsc_allocate_fn, and dltensor_from_py_object_no_sync, which fills a view that borrows
    the array's shape and strides; it fails with the array's own exception.
    """
    table = getattr(kind, "__dlpack_c_exchange_api__", None)
    if table is None or not capsule_is(table, b"dlpack_exchange_api"):
        return None, None
    address = capsule_pointer(table, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(address).value != 1:
        return None, None
    return read_pointer(address + 16).value, read_pointer(address + 16 + 3 * 8).value


def view_function(address):
    """The same as a function(array, address) of Python."""
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(address)


def views_function(address):
    """gsc_view_objects() of it: function(count, transposed, objects, views, strided)."""
    word, held = ctypes.c_void_p, ctypes.cast(lib.gsc_view_objects, ctypes.c_void_p).value
    function = ctypes.PYFUNCTYPE(ctypes.c_int, word, word, ctypes.c_int32, ctypes.c_uint64, word,
                                 word, word)(held)
    return partial(function, address, id(None))


class Lender:
    """DLPack's managed_tensor_allocator for a framework that has none.

    allocate: function(bytes, device) of a uint8 array and its address, as Arrays.bytes().
    """

    def __init__(self, allocate):
        self._allocate, self._lent = allocate, {}
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._lent.__delitem__)
        lend = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._lend)
        self._callbacks = delete, lend
        self._deleter, self.address = (ctypes.cast(function, ctypes.c_void_p).value
                                       for function in self._callbacks)

    def _lend(self, prototype, made, _user, _set_error):
        try:
            view = list(DLTENSOR.unpack(ctypes.string_at(prototype, DLTENSOR.size)))
            array, view[0] = self._allocate(ctypes.c_int64.from_address(view[7]).value,
                                            (view[1], view[2]))
            # A DLManagedTensorVersioned; the shape is the caller's, who knows it.
            memory = ctypes.create_string_buffer(
                _MANAGED.pack(1, 0, 0, self._deleter, 0) + DLTENSOR.pack(*view))
        except Exception:  # an array of the same size, made without this call, says why
            return -1
        address = ctypes.addressof(memory)
        self._lent[address] = array, memory
        ctypes.c_void_p.from_address(made).value = address
        return 0

    def take(self, tensor):
        """The array of a DLManagedTensorVersioned, an address, which is gone then."""
        return self._lent.pop(tensor)[0]


_MANAGED = struct.Struct("=IIQQQ")  # version, context, deleter, flags; a DLTensor follows
_VERSIONED = b"dltensor_versioned"
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p,
                                 ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))


def capsule_of(tensor):
    """A capsule of a DLManagedTensorVersioned, an address, for somebody to take it out."""
    return _new_capsule(tensor, _VERSIONED, None)


def fields_of(pointer):
    """(address of the data, shape, strides or None, code, bits) of a DLTensor."""
    data, _, _, ndim, code, bits, _, shape, strides, offset = DLTENSOR.unpack(
        ctypes.string_at(pointer, DLTENSOR.size))
    sizes = tuple((ctypes.c_int64 * ndim).from_address(shape)) if ndim else ()
    steps = tuple((ctypes.c_int64 * ndim).from_address(strides)) if ndim and strides else None
    return (data or 0) + offset, sizes, steps, code, bits


def as_numpy(numpy, pointer, owner):
    """A read-only numpy array of a DLTensor on the CPU; owner is what keeps it alive."""
    data, sizes, steps, code, bits = fields_of(pointer)
    letters = {value: letter for letter, value in KINDS.items()}
    if code not in letters:
        raise argument_error("DTYPE", f"an array has DLPack type code {code}")
    size = bits // 8
    strides = None if steps is None else tuple(step * size for step in steps)
    # numpy.from_dlpack is of 1.23.
    return numpy.asarray(SimpleNamespace(owner=owner, __array_interface__={
        "version": 3, "shape": sizes, "typestr": f"{NATIVE}{letters[code]}{size}",
        "data": (data, True), "strides": strides}))


def is_dense(pointer):
    """Whether a DLTensor is row-major without gaps."""
    _, sizes, steps, _, _ = fields_of(pointer)
    if steps is None or 0 in sizes:
        return True
    expected = 1
    for size, step in zip(reversed(sizes), reversed(steps)):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
