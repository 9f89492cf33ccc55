"""The rasterizer's arguments packed, and the shapes of its results."""

from __future__ import annotations

import math

from ._arrays import allocate, pack_output, shape_of
from ._errors import ArgumentTypeError, argument_error
from ._fields import FIELDS, NUMBERS, OUTPUT_FIELDS, REQUIRED, TENSORS

_REQUIRED = frozenset(REQUIRED)
_SH_DEGREE = FIELDS["sh_degree"].place


def number(value, zero: float) -> float:
    """A float for a field whose zero means "default": None is that, 0 becomes ``zero``."""
    if value is None:
        return 0.0
    return zero if value == 0 else value


def require(function, args):
    """An error where keyword arguments of the rasterizer lack one that has no default."""
    if not args.keys() >= _REQUIRED:
        missing = ", ".join(repr(name) for name in REQUIRED if name not in args)
        raise TypeError(f"{function}() needs the keyword arguments {missing}")


def raster_fields(function, args, flags=0):
    """(numbers, tensors) of keyword arguments of a function, in the order of gsc_raster_args.

    flags: those that have no argument.
    """
    numbers, tensors = [0] * len(NUMBERS), [None] * len(TENSORS)
    for name, value in args.items():
        field = FIELDS.get(name)
        if field is None:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        if value is None:
            continue
        if field.is_tensor:
            tensors[field.place] = value
        elif field.flag:
            if value:
                flags |= field.flag
        else:
            numbers[field.place] = _special(field, value) if field.special else value
    numbers[0] = flags
    if args.get("sh_degree") is None and args.get("sh") is not None:
        numbers[_SH_DEGREE] = _stored_degree(args["sh"], args.get("sh_dc"))
    return numbers, tensors


def _special(field, value):
    try:
        return field.special.get(value, value)
    except TypeError:  # no number, which packing will say
        return value


def add_flags(numbers, flags):
    """The same numbers with more flags."""
    return [numbers[0] | flags, *numbers[1:]]


def _stored_degree(sh, sh_dc):
    """The highest degree whose (degree + 1)^2 coefficients are there."""
    shape = shape_of(sh)
    stored = (0 if sh_dc is None else 1) + (shape[1] if len(shape) > 1 else 0)
    return min(max(math.isqrt(stored) - 1, 0), 4)


class Frame:
    """Sizes of one call's images and lists, as far as they follow from its inputs' shapes."""

    __slots__ = ("_args",)

    def __init__(self, args):
        """args: keyword arguments of the rasterizer."""
        self._args = args

    @property
    def lead(self):
        """(C,), or () where the view has no such dimension."""
        shape = array_shape(self._args.get("view"))
        return shape[:1] if len(shape) == 3 else ()

    @property
    def gaussians(self):
        """N."""
        shape = shape_of(self._args.get("means"))
        return shape[0] if shape else 0

    def output(self, name):
        """(dtype or None, shape) of one output."""
        field = OUTPUT_FIELDS[name]
        if field.tail is not None:
            return field.dtype, (*self.lead, self.gaussians, *field.tail)
        height, width = self._args["height"], self._args["width"]
        if height < 0 or width < 0:  # which the library refuses
            height = width = 0
        if name != "color":
            return None, (*self.lead, height, width)
        shape = shape_of(self._args.get("colors"))
        channels = shape[-1] if shape else 3
        if self._args.get("pixel_last"):
            return None, (*self.lead, height, width, channels)
        return None, (*self.lead, channels, height, width)


def array_shape(value):
    """The shape of an array, or of nested lists."""
    if not isinstance(value, (list, tuple)):
        return shape_of(value)
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def make_outputs(block, argument, names, out, known, output=None):
    """Packs the arrays that are asked for, the caller's or new ones.

    argument: the one that has the names.  known: all names.  output: function of one that
    returns (dtype or None, shape); by default known is a dictionary of that.
    Returns ({name: array} in the order asked, {name: address}).
    """
    if out is not None and not hasattr(out, "get"):
        raise ArgumentTypeError(f"out is {type(out).__name__}, expected arrays by name")
    values, addresses = {}, {}
    output = output or known.__getitem__
    if isinstance(names, str):
        names = (names,)
    for name in names:
        if name not in known:
            raise argument_error("INVALID_ARGUMENT", f"{argument} has {name!r}, expected any of "
                                                     f"{', '.join(known)}")
    if out:
        for name in out:
            if name not in known:
                raise argument_error("INVALID_ARGUMENT", f"out has {name!r}, expected any of "
                                                         f"{', '.join(known)}")
        names = (*names, *[name for name in out if name not in names])
    for name in names:
        given = out.get(name) if out else None
        if given is None:
            dtype, shape = output(name)
            if dtype is None:
                dtype = "float64" if block.double else "float32"
            given = allocate(name + " {}", block.arrays.empty, shape, dtype,
                             block.device)
        values[name] = given
        addresses[name] = pack_output(block, given, name)
    return values, addresses
