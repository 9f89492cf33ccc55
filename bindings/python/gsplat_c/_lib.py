"""Finds, opens and checks the shared library, and gives its functions their types."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from ._abi import CONSTANTS, FUNCTIONS
from ._errors import make_error

if struct.calcsize("P") != 8:
    raise ImportError("gsplat_c needs a 64-bit Python")

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
if sys.platform == "win32":
    _FILE = "gsplat_c.dll"
elif sys.platform == "darwin":
    _FILE = "libgsplat_c.1.dylib"
else:
    _FILE = "libgsplat_c.so.1"


class Device(ctypes.Structure):
    """DLDevice, for the one function that takes it by value."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


_TYPES = {
    "v": None,
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "D": Device,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
}


def _candidates():
    """Where the library may be, best first: a path, or the name for the system's loader."""
    chosen = os.environ.get("GSPLAT_C_LIBRARY")
    if chosen:
        return [chosen]
    found = [os.path.join(_PACKAGE, _FILE)]
    if not os.path.isfile(found[0]):
        from importlib.resources import files  # slow, and needed by editable installs only

        found.append(str(files(__package__) / _FILE))
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(_PACKAGE)))
    if os.path.isfile(os.path.join(checkout, "include", "gsplat_c.h")):
        found.append(os.path.join(checkout, "build", _FILE))
    return [path for path in found if os.path.isfile(path)] + [_FILE]


def _open():
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            tried.append(f"  {path}: {error}")
    raise ImportError(
        "gsplat_c cannot load its library.  Set GSPLAT_C_LIBRARY to the path of "
        f"{_FILE}.  Tried:\n" + "\n".join(tried)
    )


def _check_version(library, path):
    """Same major, and a minor that has everything this package uses."""
    try:
        version = library.gsplat_c_abi_version
    except AttributeError:
        raise ImportError(f"{path} is not a gsplat_c library") from None
    version.restype, version.argtypes = ctypes.c_uint32, []
    major, minor = version() >> 16, version() & 0xFFFF
    need_major, need_minor = CONSTANTS["GSC_ABI_MAJOR"], CONSTANTS["GSC_ABI_MINOR"]
    if major != need_major or minor < need_minor:
        raise ImportError(
            f"{path} has ABI {major}.{minor}, this package needs {need_major}.{need_minor} "
            f"or a higher minor"
        )


def _load():
    library, path = _open()
    _check_version(library, path)
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} has no function {name}, which its ABI version promises"
                              ) from None
        function.restype = _TYPES[result]
        function.argtypes = [_TYPES[code] for code in arguments]
    return library, path


# ctypes.CDLL loads with RTLD_LOCAL and releases the GIL during calls.
lib, path = _load()

_last_error = lib.gsc_last_error
_last_error_cuda = lib.gsc_last_error_cuda


def fail(status: int):
    """Raises the error that a function of the library just returned in this thread."""
    raise make_error(status, _last_error().decode("utf-8", "replace"), _last_error_cuda())


def check(status: int):
    """Raises it unless the function returned GSC_OK."""
    if status:
        fail(status)
