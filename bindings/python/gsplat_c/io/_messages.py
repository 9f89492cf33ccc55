"""What is wrong, and in which file."""

from __future__ import annotations

import warnings
from contextlib import contextmanager


@contextmanager
def at(place):
    """Puts a place, a path or "camera 3", in front of the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def warn(path, text):
    """Warns the caller of a public function that reads or writes a file."""
    warnings.warn(f"{path}: {text}", stacklevel=3)
