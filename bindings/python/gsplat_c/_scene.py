"""The rasterizer's arguments: packing gsc_raster_args, and the shapes that follow from it."""

from __future__ import annotations

import math

from ._abi import CONSTANTS
from ._arrays import HostNumbers, pack, pack_output, shape_of
from ._call import Descriptor
from ._errors import argument_error

_ARGS = Descriptor("gsc_raster_args")
_SMALLEST = 1.2e-38  # stands for zero where the C struct reads zero as "default"

_ANTIALIAS = CONSTANTS["GSC_RASTER_ANTIALIAS"]
_PREFILTERED = CONSTANTS["GSC_RASTER_PREFILTERED"]
_VIEW_ROW_MAJOR = CONSTANTS["GSC_RASTER_VIEW_ROW_MAJOR"]
_PIXEL_LAST = CONSTANTS["GSC_RASTER_PIXEL_LAST"]
_COMPAT_3DGS = CONSTANTS["GSC_RASTER_COMPAT_3DGS"]
_DETERMINISTIC = CONSTANTS["GSC_RASTER_DETERMINISTIC"]


def number(value, zero: float) -> float:
    """A float for a field whose zero means "default": None is that, 0 becomes ``zero``."""
    if value is None:
        return 0.0
    return zero if value == 0 else value


def pack_args(
    block, double, more_flags=0, *,
    means=None, opacities=None, view=None, width=0, height=0, projection=None, intrinsics=None,
    position=None, background=None, pixel_weights=None, scales=None, rotations=None,
    covariances=None, colors=None, sh=None, sh_dc=None, sh_degree=None, scale_modifier=None,
    tan_fovx=None, tan_fovy=None, near_plane=None, far_plane=None, radius_clip=None, blur=None,
    median_default=None, antialias=False, prefiltered=False, view_row_major=False,
    pixel_last=False, compat_3dgs=False, deterministic=False,
):
    """The address of a gsc_raster_args.  double: lists of numbers become float64."""
    flags = (
        more_flags
        | (_ANTIALIAS if antialias else 0)
        | (_PREFILTERED if prefiltered else 0)
        | (_VIEW_ROW_MAJOR if view_row_major else 0)
        | (_PIXEL_LAST if pixel_last else 0)
        | (_COMPAT_3DGS if compat_3dgs else 0)
        | (_DETERMINISTIC if deterministic else 0)
    )
    if sh_degree is None:
        sh_degree = _stored_degree(sh, sh_dc)
    return _ARGS.pack(
        block, flags, width, height, sh_degree,
        number(scale_modifier, _SMALLEST),
        tan_fovx or 0.0,
        tan_fovy or 0.0,
        number(near_plane, _SMALLEST),
        0.0 if far_plane is None or far_plane == math.inf else far_plane,
        radius_clip or 0.0,
        number(blur, -1.0),
        median_default or 0.0,
        _pack_camera(block, view, "view", double),
        _pack_camera(block, projection, "projection", double),
        _pack_camera(block, intrinsics, "intrinsics", double),
        _pack_camera(block, position, "position", double),
        _pack_camera(block, background, "background", double),
        pack(block, pixel_weights, "pixel_weights"),
        pack(block, means, "means"),
        pack(block, opacities, "opacities"),
        pack(block, scales, "scales"),
        pack(block, rotations, "rotations"),
        pack(block, covariances, "covariances"),
        pack(block, colors, "colors"),
        pack(block, sh, "sh"),
        pack(block, sh_dc, "sh_dc"),
    )


def _pack_camera(block, value, name, double):
    if value is None:
        return 0
    if isinstance(value, (list, tuple)):
        value = HostNumbers(value, name, double)
    return pack(block, value, name)


def _stored_degree(sh, sh_dc):
    """The highest degree whose (degree + 1)^2 coefficients are there."""
    stored = 0 if sh_dc is None else 1
    if sh is not None:
        shape = shape_of(sh)
        stored += shape[1] if len(shape) > 1 else 0
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

    __slots__ = ("lead", "gaussians", "channels", "height", "width", "pixel_last")

    def __init__(self, args):
        view = args.get("view")
        shape = _list_shape(view) if isinstance(view, (list, tuple)) else shape_of(view)
        self.lead = shape[:1] if len(shape) == 3 else ()
        means = shape_of(args.get("means"))
        self.gaussians = means[0] if means else 0
        colors = args.get("colors")
        channels = () if colors is None else shape_of(colors)
        self.channels = channels[-1] if channels else 3
        # A size that is not positive is the library's to refuse.
        self.height, self.width = max(args["height"], 0), max(args["width"], 0)
        self.pixel_last = args.get("pixel_last", False)

    def output(self, name):
        """(dtype or None, shape) of one output."""
        if name in _GAUSSIAN:
            dtype, tail = _GAUSSIAN[name]
            return dtype, self.lead + (self.gaussians,) + tail
        if name != "color":
            return None, self.lead + (self.height, self.width)
        if self.pixel_last:
            return None, self.lead + (self.height, self.width, self.channels)
        return None, self.lead + (self.channels, self.height, self.width)


def _list_shape(value):
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def make_outputs(block, arrays, like, double, names, out, known, output):
    """Packs the arrays that are asked for, the caller's or new ones.

    Returns ({name: array} in the order asked, {name: address}).
    """
    values, addresses = {}, {}
    if isinstance(names, str):
        names = (names,)
    if out:
        names = (*names, *(name for name in out if name not in names))
    for name in names:
        if name not in known:
            raise argument_error("INVALID_ARGUMENT", f"no {name!r} among {', '.join(known)}")
        given = out.get(name) if out else None
        if given is None:
            dtype, shape = output(name)
            if dtype is None:
                dtype = "float64" if double else "float32"
            given = arrays.empty(shape, dtype, like)
        values[name] = given
        addresses[name] = pack_output(block, given, name)
    return values, addresses
