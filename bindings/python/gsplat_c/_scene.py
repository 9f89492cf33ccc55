"""The rasterizer's arguments: packing gsc_raster_args, and the shapes that follow from it."""

from __future__ import annotations

import math

from ._abi import CONSTANTS
from ._arrays import Names, pack_output, shape_of
from ._call import Descriptor
from ._errors import argument_error

_ARGS, OUTPUTS = Descriptor("gsc_raster_args"), Descriptor("gsc_raster_outputs")
TENSORS = Names(_ARGS.fields[_ARGS.fields.index("view"):])
_SMALLEST = 1.2e-38  # stands for zero where the C struct reads zero as "default"

_ANTIALIAS = CONSTANTS["GSC_RASTER_ANTIALIAS"]
_PREFILTERED = CONSTANTS["GSC_RASTER_PREFILTERED"]
_VIEW_ROW_MAJOR = CONSTANTS["GSC_RASTER_VIEW_ROW_MAJOR"]
_PIXEL_LAST = CONSTANTS["GSC_RASTER_PIXEL_LAST"]
_COMPAT_3DGS = CONSTANTS["GSC_RASTER_COMPAT_3DGS"]
DETERMINISTIC = CONSTANTS["GSC_RASTER_DETERMINISTIC"]
_LOG_SCALES = CONSTANTS["GSC_RASTER_LOG_SCALES"]
_LOGIT_OPACITIES = CONSTANTS["GSC_RASTER_LOGIT_OPACITIES"]


def number(value, zero: float) -> float:
    """A float for a field whose zero means "default": None is that, 0 becomes ``zero``."""
    if value is None:
        return 0.0
    return zero if value == 0 else value


def raster_fields(
    flags=0, /,
    means=None, opacities=None, view=None, width=0, height=0, projection=None, intrinsics=None,
    position=None, background=None, pixel_weights=None, scales=None, rotations=None,
    covariances=None, colors=None, sh=None, sh_dc=None, sh_degree=None, scale_modifier=None,
    tan_fovx=None, tan_fovy=None, near_plane=None, far_plane=None, radius_clip=None, blur=None,
    median_default=None, antialias=False, prefiltered=False, view_row_major=False,
    pixel_last=False, compat_3dgs=False, deterministic=False, log_scales=False,
    logit_opacities=False,
):
    """The fields of a gsc_raster_args in its order: (numbers, those that TENSORS names).

    flags: more of them, which have no argument of their own.
    """
    if antialias:
        flags |= _ANTIALIAS
    if prefiltered:
        flags |= _PREFILTERED
    if view_row_major:
        flags |= _VIEW_ROW_MAJOR
    if pixel_last:
        flags |= _PIXEL_LAST
    if compat_3dgs:
        flags |= _COMPAT_3DGS
    if deterministic:
        flags |= DETERMINISTIC
    if log_scales:
        flags |= _LOG_SCALES
    if logit_opacities:
        flags |= _LOGIT_OPACITIES
    if sh_degree is None:
        sh_degree = 0 if sh is None else _stored_degree(sh, sh_dc)
    return (
        flags, width, height, sh_degree,
        0.0 if scale_modifier is None else number(scale_modifier, _SMALLEST),
        tan_fovx or 0.0,
        tan_fovy or 0.0,
        0.0 if near_plane is None else number(near_plane, _SMALLEST),
        0.0 if far_plane is None or far_plane == math.inf else far_plane,
        radius_clip or 0.0,
        0.0 if blur is None else number(blur, -1.0),
        median_default or 0.0,
    ), (view, projection, intrinsics, position, background, pixel_weights, means, opacities,
        scales, rotations, covariances, colors, sh, sh_dc)


def add_flags(numbers, flags):
    """The same numbers with more flags."""
    return numbers[0] | flags, *numbers[1:]


def pack_fields(block, numbers, tensors):
    """The address of a gsc_raster_args; after begin()."""
    return block.arrays.pack_fields(block, _ARGS, numbers, TENSORS, tensors)


def pack_frame(block, numbers, tensors, outputs):
    """The same, and the address of a gsc_raster_outputs: see Arrays.pack_frame."""
    return block.arrays.pack_frame(block, _ARGS, numbers, TENSORS, tensors, OUTPUTS, outputs)


def _stored_degree(sh, sh_dc):
    """The highest degree whose (degree + 1)^2 coefficients are there."""
    shape = shape_of(sh)
    stored = (0 if sh_dc is None else 1) + (shape[1] if len(shape) > 1 else 0)
    return min(max(math.isqrt(stored) - 1, 0), 4)


# Output: dtype (None: as the means), and its last dimensions.
_PIXEL = {name: None for name in ("color", "alpha", "depth", "inv_depth", "median_depth")}
_GAUSSIAN = {
    "radii": ("int32", ()),
    "means2d": (None, (2,)),
    "depths": (None, ()),
    "conics": (None, (3,)),
    "opacities": (None, ()),
    "touched": ("int32", ()),
    "weight_sum": (None, ()),
    "weight_count": ("int32", ()),
    "weight_blend": (None, ()),
    "weight_distance": (None, ()),
}
OUTPUT_NAMES = (*_PIXEL, *_GAUSSIAN)


class Frame:
    """Sizes of one call's images and lists, as far as the shapes of its inputs tell them."""

    __slots__ = ("view", "means", "colors", "width", "height", "pixel_last")

    def __init__(self, view, means, colors, width, height, pixel_last):
        self.view, self.means, self.colors = view, means, colors
        self.width, self.height, self.pixel_last = width, height, pixel_last

    @classmethod
    def of(cls, args):
        """From keyword arguments of the rasterizer."""
        return cls(args.get("view"), args.get("means"), args.get("colors"), args["width"],
                   args["height"], args.get("pixel_last", False))

    @property
    def lead(self):
        """(C,), or () where the view has no such dimension."""
        shape = getattr(self.view, "shape", None)
        if shape is None:
            shape = _list_shape(self.view)
        return tuple(shape[:1]) if len(shape) == 3 else ()

    @property
    def gaussians(self):
        """N."""
        shape = shape_of(self.means)
        return shape[0] if shape else 0

    def output(self, name):
        """(dtype or None, shape) of one output."""
        lead = self.lead
        if name in _GAUSSIAN:
            dtype, tail = _GAUSSIAN[name]
            return dtype, (*lead, self.gaussians, *tail)
        height, width = self.height, self.width
        if height < 0 or width < 0:  # which is the library's to refuse
            height = width = 0
        if name != "color":
            return None, (*lead, height, width)
        shape = () if self.colors is None else shape_of(self.colors)
        channels = shape[-1] if shape else 3
        if self.pixel_last:
            return None, (*lead, height, width, channels)
        return None, (*lead, channels, height, width)


def _list_shape(value):
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def make_outputs(block, arrays, like, names, out, known, output):
    """Packs the arrays that are asked for, the caller's or new ones.

    Returns ({name: array} in the order asked, {name: address}).
    """
    values, addresses = {}, {}
    if isinstance(names, str):
        names = (names,)
    if out:
        names = (*names, *[name for name in out if name not in names])
    for name in names:
        if name not in known:
            raise argument_error("INVALID_ARGUMENT", f"no {name!r} among {', '.join(known)}")
        given = out.get(name) if out else None
        if given is None:
            dtype, shape = output(name)
            if dtype is None:
                dtype = "float64" if block.double else "float32"
            given = arrays.empty(shape, dtype, like)
        values[name] = given
        addresses[name] = pack_output(block, given, name)
    return values, addresses
