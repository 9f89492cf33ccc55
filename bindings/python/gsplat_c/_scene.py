"""The rasterizer's arguments packed, and the shapes of its results."""

from __future__ import annotations

import math

from ._arrays import allocate, pack_output, shape_of
from ._errors import ArgumentTypeError, argument_error
from ._fields import FIELDS, NUMBERS, OUTPUT_FIELDS, REQUIRED, SINKS, TENSORS

_REQUIRED = frozenset(REQUIRED)
_SH_DEGREE, _WIDTH, _HEIGHT, _VIEW, _MEANS, _COLORS = (FIELDS[name].place for name in (
    "sh_degree", "width", "height", "view", "means", "colors"))
_PIXEL_LAST = FIELDS["pixel_last"].flag


def number(value, zero: float) -> float:
    """A float for a field whose zero means "default": None is that, 0 becomes ``zero``."""
    if value is None:
        return 0.0
    return zero if value == 0 else value


def scene_fields(function, args, flags=0):
    """raster_fields() of arguments among which those without a default must be."""
    if not args.keys() >= _REQUIRED:
        missing = ", ".join(repr(name) for name in REQUIRED if name not in args)
        raise TypeError(f"{function}() needs the keyword arguments {missing}")
    return raster_fields(function, args, flags)


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


def lead_of(tensors):
    """(C,), or () where the view has no such dimension."""
    shape = array_shape(tensors[_VIEW])
    return shape[:1] if len(shape) == 3 else ()


def output_of(numbers, tensors, name):
    """(dtype or None, shape) of one output."""
    field, lead = OUTPUT_FIELDS[name], lead_of(tensors)
    if field.tail is not None:
        return field.dtype, (*lead, *shape_of(tensors[_MEANS])[:1], *field.tail)
    height, width = numbers[_HEIGHT], numbers[_WIDTH]
    if height < 0 or width < 0:  # which the library refuses
        height = width = 0
    if name != "color":
        return None, (*lead, height, width)
    channels = (shape_of(tensors[_COLORS]) or (3,))[-1]
    if numbers[0] & _PIXEL_LAST:
        return None, (*lead, height, width, channels)
    return None, (*lead, channels, height, width)


def grad_of(tensors, name):
    """(dtype or None, shape) of the gradient with respect to an input."""
    if name in SINKS:
        return None, (*lead_of(tensors), *shape_of(tensors[_MEANS])[:1], 2)
    given = tensors[FIELDS[name].place]
    if given is not None:
        return None, array_shape(given)
    if name == "position":
        return None, (*lead_of(tensors), 3)
    raise argument_error("INVALID_ARGUMENT", f"wrt has {name!r}, which is not an input")


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
    """The arrays that are asked for, the caller's or new ones: {name: array} in the order asked.

    argument: the one that has the names.  known: all names.  output: function of one that
    returns (dtype or None, shape); by default known is a dictionary of that.
    """
    if out is not None and not hasattr(out, "get"):
        raise ArgumentTypeError(f"out is {type(out).__name__}, expected arrays by name")
    try:
        values = dict.fromkeys((names,) if isinstance(names, str) else names)
    except TypeError:
        raise ArgumentTypeError(f"{argument} is {names!r}, expected names among "
                                f"{', '.join(known)}") from None
    if out:
        values = {**values, **out}
    for name, given in values.items():
        if name not in known:
            source = argument if name in names else "out"
            raise argument_error("INVALID_ARGUMENT", f"{source} has {name!r}, expected any of "
                                                     f"{', '.join(known)}")
        if given is None:
            dtype, shape = output(name) if output else known[name]
            if dtype is None:
                dtype = "float64" if block.double else "float32"
            values[name] = allocate(name + " {}", block.arrays.empty, shape, dtype, block.device)
    return values


def pack_outputs(block, values):
    """{name: address} of arrays that the library writes to."""
    return {name: pack_output(block, array, name) for name, array in values.items()}
