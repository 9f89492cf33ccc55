"""Exceptions: one base class with the library's status, and a few that are also built-ins."""

from __future__ import annotations

from ._abi import CONSTANTS

NAMES = {value: name for name, value in CONSTANTS.items() if name.startswith("GSC_ERROR_")}


class Error(RuntimeError):
    """A call failed.

    Attributes:
        status: the ``GSC_ERROR_*`` code of the C library.
        cuda: the CUDA driver's result code behind it, 0 if there is none.
    """

    def __init__(self, message: str, status: int = CONSTANTS["GSC_ERROR_INTERNAL"], cuda: int = 0):
        super().__init__(message)
        self.status = status
        self.cuda = cuda

    @property
    def status_name(self) -> str:
        """The name of the status, as in the C header."""
        return NAMES.get(self.status, f"status {self.status}")

    def __reduce__(self):
        return type(self), (self.args[0], self.status, self.cuda)


class ArgumentError(Error, ValueError):
    """An argument has a wrong value, shape, dtype, layout or device (status 1 to 5)."""

    def __init__(self, message: str, status: int = CONSTANTS["GSC_ERROR_INVALID_ARGUMENT"],
                 cuda: int = 0):
        super().__init__(message, status, cuda)
        self._function: str | None = None

    def in_function(self, function: str) -> None:
        """Puts the function's name in front of a message of argument_error()."""
        if self._function == "":
            self._function = function
            self.args = (f"{function}: {self.args[0]}",)


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not in this build of the library or not on this device (status 7)."""


class OutOfMemoryError(Error, MemoryError):
    """The library could not get memory (status 8)."""


class NoDevice(Error, OSError):
    """No CUDA driver, no such device, or no code for it (status 10 to 12)."""


_CLASSES = {
    **dict.fromkeys((1, 2, 3, 4, 5), ArgumentError),
    7: UnsupportedError,
    8: OutOfMemoryError,
    **dict.fromkeys((10, 11, 12), NoDevice),
}


def make_error(status: int, message: str, cuda: int = 0) -> Error:
    """The exception for a status of the library."""
    return _CLASSES.get(status, Error)(message, status, cuda)


def argument_error(kind: str, message: str) -> ArgumentError:
    """An error that the binding finds by itself; kind is "SHAPE", "DTYPE", ..."""
    error = ArgumentError(message, CONSTANTS[f"GSC_ERROR_{kind}"])
    error._function = ""
    return error
