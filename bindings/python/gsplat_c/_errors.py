"""Exceptions: one base class with the library's status, and a few that are also built-ins."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index

from ._abi import CONSTANTS

NAMES = {value: name for name, value in CONSTANTS.items() if name.startswith("GSC_ERROR_")}


class Error(RuntimeError):
    """A call failed.

    Attributes:
        status: the ``GSC_ERROR_*`` code of the C library.
        cuda: the CUDA driver's result code behind it, 0 if there is none.
    """

    _status = CONSTANTS["GSC_ERROR_INTERNAL"]

    def __init__(self, message: str, status: int | None = None, cuda: int = 0):
        super().__init__(message)
        self.status = self._status if status is None else status
        self.cuda = cuda
        self._text = message  # without a function's name

    @property
    def status_name(self) -> str:
        """The name of the status, as in the C header."""
        return NAMES.get(self.status, f"status {self.status}")

    def name_function(self, function: str, arguments: Mapping[str, str] | None = None) -> None:
        """Makes the message name the function that the user called.

        arguments: that function's words for those of the library.
        """
        if arguments:
            first, *words = self._text.split(" ")
            words = [arguments.get(word, word) if "_" in word else word for word in words]
            self._text = " ".join([arguments.get(first, first), *words])
        self.args = (f"{function}: {self._text}",)

    def __reduce__(self):
        return type(self), (self.args[0], self.status, self.cuda)


class ArgumentError(Error, ValueError):
    """An argument has a wrong value, shape, dtype, layout or device (status 1 to 5)."""

    _status = CONSTANTS["GSC_ERROR_INVALID_ARGUMENT"]


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is no array, or no number."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not in this build of the library or not on this device (status 7)."""

    _status = CONSTANTS["GSC_ERROR_UNSUPPORTED"]


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory (status 8); the framework's own error, too, if it has one."""

    _status = CONSTANTS["GSC_ERROR_OUT_OF_MEMORY"]

    def catch_as(self, kind: type[Exception] | None) -> None:
        """Lets ``except kind`` catch it, too."""
        if kind is not None and not isinstance(self, kind):
            self.__class__ = type("OutOfMemoryError", (OutOfMemoryError, kind), {})

    def __reduce__(self):
        return OutOfMemoryError, (self.args[0], self.status, self.cuda)


class NoDevice(Error, OSError):
    """No CUDA driver, no such device, or no code for it (status 10 to 12)."""


_CLASSES = {
    **dict.fromkeys((1, 2, 3, 4, 5), ArgumentError),
    7: UnsupportedError,
    8: OutOfMemoryError,
    **dict.fromkeys((10, 11, 12), NoDevice),
}


def make_error(status: int, message: str, cuda: int = 0) -> Error:
    """The exception for a failure of the library, whose message is "FUNCTION: TEXT"."""
    error = _CLASSES.get(status, Error)(message, status, cuda)
    error._text = message.partition(": ")[2] or message
    return error


def argument_error(kind: str, text: str, function: str = "") -> Error:
    """An error that the binding finds itself; kind is "SHAPE", "DTYPE", ...

    function: only where neither a block of call() nor calling() names it.
    """
    status = CONSTANTS[f"GSC_ERROR_{kind}"]
    error = _CLASSES[status](text, status)
    if function:
        error.name_function(function)
    return error


class calling:
    """``with calling("fused_ssim", {"image": "img1"}):`` errors name that function, whose
    arguments have other names than the library's."""

    __slots__ = ("_function", "_arguments")

    def __init__(self, function: str, arguments: Mapping[str, str] | None = None):
        self._function, self._arguments = function, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, Error):
            error.name_function(self._function, self._arguments)


def integer(value, name: str) -> int:
    """The value of an argument that must be one."""
    try:
        return index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} is {value!r}, expected an integer") from None
