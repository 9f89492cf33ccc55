"""The rasterizer's arguments and results: one table, from which all else about them follows.

A line of RasterArgs is one argument.  It names a field of the C struct gsc_raster_args, or else
is a switch for the flag GSC_RASTER_<NAME>.  A line of RasterOutputs is a field of
gsc_raster_outputs.  Type checkers read the types; at run time an annotation is the Field.
"""

# Not "from __future__ import annotations": Annotated is evaluated here.

from ._abi import CONSTANTS
from ._call import Descriptor
from ._result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Annotated, Any, Optional, TypedDict, TypeVar

    from ._types import Array, CameraArray

    Function = TypeVar("Function")
else:  # what stands for them, since importing typing takes long

    class Annotated:
        """Annotated[type, Field]: the Field; Optional[type]: nothing."""

        def __class_getitem__(cls, parts):
            return parts[1] if isinstance(parts, tuple) else None

    class TypedDict:
        """A class of annotations."""

        def __init_subclass__(cls, total=True):
            pass

    Optional = Annotated
    Any = Array = CameraArray = None

ARGS, OUTPUTS = Descriptor("gsc_raster_args"), Descriptor("gsc_raster_outputs")
GRADS = Descriptor("gsc_raster_grads")
SMALLEST = 1.2e-38  # stands for zero where the C struct reads zero as "default"


class Field:
    """One argument or output.

    Attributes:
        doc: shape, unit, meaning.
        special: {value: what the C struct has for it}.
        grad: whether there are derivatives with respect to it (outputs: of it).
        strided: the input may be matrices stored transposed ("matrices") or have any strides
            ("any"); others must be dense.
        camera: may also be on the CPU, or nested lists of numbers.
        dtype: of an output, None for that of the means.
        tail: dimensions after [C, N] of an output of Gaussians, None for images.
        is_tensor, place: what it is in the C struct, and where among those.
        flag: that a switch stands for, 0 for all else.
    """

    __slots__ = ("doc", "special", "grad", "strided", "camera", "dtype", "tail", "is_tensor",
                 "place", "flag")

    def __init__(self, doc, special=None, grad=False, strided="", camera=False, dtype=None,
                 tail=None):
        self.doc, self.special, self.grad = doc, special or {}, grad
        self.strided, self.camera, self.dtype, self.tail = strided, camera, dtype, tail
        self.is_tensor, self.place, self.flag = False, -1, 0


class _RequiredArgs(TypedDict):
    means: Annotated[Array, Field("[N, 3] centres in the world.", grad=True)]
    opacities: Annotated[Array, Field("[N] or [N, 1], 0 to 1.", grad=True)]
    view: Annotated[CameraArray, Field(
        "[C, 4, 4] world to camera, column-major (see view_row_major).",
        grad=True, strided="matrices", camera=True)]
    width: Annotated[int, Field("of the images, pixels.")]
    height: Annotated[int, Field("of the images, pixels.")]


class RasterArgs(_RequiredArgs, total=False):
    """The scene and the cameras, as keyword arguments of ``gsplat_c.rasterize``."""

    projection: Annotated[Optional[CameraArray], Field(
        "[C, 4, 4] world to clip, column-major, a pinhole projection times view;\n"
        "needs tan_fovx and tan_fovy.  Or:", strided="matrices", camera=True)]
    intrinsics: Annotated[Optional[CameraArray], Field("[C, 4] fx fy cx cy in pixels.",
                                                       camera=True)]
    position: Annotated[Optional[CameraArray], Field(
        "[C, 3] camera centres for sh; by default taken from view.",
        grad=True, strided="any", camera=True)]
    background: Annotated[Optional[CameraArray], Field(
        "[channels] or [C, channels]; default black.", grad=True, camera=True)]
    pixel_weights: Annotated[Optional[Array], Field("[C, H, W] for the weight_* outputs.")]
    scales: Annotated[Optional[Array], Field(
        "[N, 3] standard deviations in world units, with", grad=True)]
    rotations: Annotated[Optional[Array], Field("[N, 4] quaternions w x y z; or", grad=True)]
    covariances: Annotated[Optional[Array], Field("[N, 6] xx xy xz yy yz zz.", grad=True)]
    colors: Annotated[Optional[Array], Field(
        "[N, channels] or [C, N, channels], 1 to 512 channels, used as they are; or", grad=True)]
    sh: Annotated[Optional[Array], Field(
        "[N, K, 3] spherical harmonics, K at least (sh_degree + 1)^2; with", grad=True)]
    sh_dc: Annotated[Optional[Array], Field(
        "[N, 1, 3] for the first coefficient, sh then holds the K - 1 others or is absent.",
        grad=True)]
    sh_degree: Annotated[Optional[int], Field(
        "0 to 4, the degree in use; default the highest that is stored.")]
    scale_modifier: Annotated[Optional[float], Field("multiplies scales; default 1.",
                                                     {0: SMALLEST})]
    tan_fovx: Annotated[Optional[float], Field(
        "tangent of half the horizontal field of view, for projection.")]
    tan_fovy: Annotated[Optional[float], Field("of half the vertical one.")]
    near_plane: Annotated[Optional[float], Field("Gaussians at z up to this are culled; "
                                                 "default 0.2.", {0: SMALLEST})]
    far_plane: Annotated[Optional[float], Field("Gaussians beyond this z are culled; default none.",
                                                {float("inf"): 0.0})]
    radius_clip: Annotated[Optional[float], Field(
        "Gaussians of at most this radius in pixels are culled; default none.")]
    blur: Annotated[Optional[float], Field(
        "added to the diagonal of the 2D covariances, square pixels; default 0.3.", {0: -1.0})]
    median_default: Annotated[Optional[float], Field(
        "median_depth where the transmittance stays above one half.")]
    antialias: Annotated[bool, Field("scale opacities by what the blur takes from them.")]
    prefiltered: Annotated[bool, Field(
        "the caller has culled; a Gaussian outside near and far is an error.")]
    view_row_major: Annotated[bool, Field(
        "view and projection are stored row by row, as numpy prints them.")]
    pixel_last: Annotated[bool, Field(
        "color is [C, H, W, channels] instead of [C, channels, H, W].")]
    compat_3dgs: Annotated[bool, Field("the numeric conventions of the original 3DGS rasterizer.")]
    compat_mip: Annotated[bool, Field(
        "with compat_3dgs and antialias: the opacity factor of Mip-Splatting's rasterizer.")]
    deterministic: Annotated[bool, Field(
        "bitwise reproducible gradients on a GPU; the CPU's always are.")]
    log_scales: Annotated[bool, Field(
        "scales are logarithms, as training and PLY files store them.")]
    logit_opacities: Annotated[bool, Field(
        "opacities are logits.  Gradients are with respect to what is stored.")]


class RasterOutputs(Result):
    """What the rasterizer computed: C cameras, N Gaussians, images of H rows and W columns.

    The leading C is absent where the view was given without it.  float32, unless
    noted.  Images come first, then values of each Gaussian (zero where culled), then statistics.

    Attributes:
{outputs}
    """

    color: Annotated[Any, Field(
        "[C, channels, H, W], or [C, H, W, channels] with pixel_last.", grad=True)]
    alpha: Annotated[Any, Field("[C, H, W] sum of alpha T, one minus the final transmittance.",
                                grad=True)]
    depth: Annotated[Any, Field("[C, H, W] sum of z alpha T; divide by alpha for the mean.",
                                grad=True)]
    inv_depth: Annotated[Any, Field("[C, H, W] sum of alpha T / z.", grad=True)]
    median_depth: Annotated[Any, Field(
        "[C, H, W] z of the splat that takes the transmittance across 0.5.")]
    radii: Annotated[Any, Field("int32 [C, N] pixels, rounded up.", dtype="int32", tail=())]
    means2d: Annotated[Any, Field("[C, N, 2] pixels.", tail=(2,))]
    depths: Annotated[Any, Field("[C, N] z in the camera's frame.", tail=())]
    conics: Annotated[Any, Field("[C, N, 3] inverse 2D covariance xx xy yy.", tail=(3,))]
    opacities: Annotated[Any, Field("[C, N] after antialiasing.", tail=())]
    touched: Annotated[Any, Field(
        "int32 [C, N] pixels whose transmittance stays above 0.5 after it.",
        dtype="int32", tail=())]
    weight_sum: Annotated[Any, Field("[C, N] sum of pixel_weights over its blended pixels.",
                                     tail=())]
    weight_count: Annotated[Any, Field("int32 [C, N] number of those pixels.",
                                       dtype="int32", tail=())]
    weight_blend: Annotated[Any, Field("[C, N] sum of alpha T over them.", tail=())]
    weight_distance: Annotated[Any, Field("[C, N] sum of distances to its centre, pixels.",
                                          tail=())]


class RasterGrads(Result):
    """Derivatives of a loss with respect to the rasterizer's inputs, each shaped as its input:
    {inputs}; and means2d [C, N, 2], by the pixel position, and means2d_abs, the same as a sum over
    the pixels of absolute values."""

    @classmethod
    def _fields(cls):
        return GRAD_NAMES


FIELDS: dict[str, Field] = {**_RequiredArgs.__annotations__, **RasterArgs.__annotations__}
OUTPUT_FIELDS: dict[str, Field] = RasterOutputs.__annotations__
REQUIRED = tuple(_RequiredArgs.__annotations__)
TENSORS, NUMBERS = ARGS.names("Q"), ARGS.names("Iif")  # in the struct, the numbers come first
for _names in (TENSORS, NUMBERS):
    for _place, _name in enumerate(_names):
        if _name not in ("flags", "reserved"):
            FIELDS[_name].place, FIELDS[_name].is_tensor = _place, _names is TENSORS
FLAGS = tuple(name for name in FIELDS if name not in ARGS.offsets)
for _name in FLAGS:
    FIELDS[_name].flag = CONSTANTS[f"GSC_RASTER_{_name.upper()}"]

# How each of TENSORS may be stored; those that are stored otherwise are copied.
STRIDED = tuple(FIELDS[name].strided for name in TENSORS)
MATRICES = sum(1 << place for place, strided in enumerate(STRIDED) if strided == "matrices")
INPUTS = tuple(name for name in FIELDS if FIELDS[name].grad)
CONSTANT = tuple(name for name in TENSORS if not FIELDS[name].grad)
SINKS = ("means2d", "means2d_abs")  # they have gradients and are no inputs
OUTPUT_NAMES = tuple(OUTPUT_FIELDS)
DIFFERENTIABLE = tuple(name for name in OUTPUT_NAMES if OUTPUT_FIELDS[name].grad)
GRAD_NAMES = tuple(name for name in GRADS.offsets if name in INPUTS or name in SINKS)


def documented(thing: "Function") -> "Function":
    """Fills {args}, {inputs}, {outputs} and {images} in a docstring."""
    if thing.__doc__:
        thing.__doc__ = thing.__doc__.format(
            args=_listed(FIELDS), outputs=_listed(OUTPUT_FIELDS), inputs=", ".join(INPUTS),
            images=", ".join(DIFFERENTIABLE))
    return thing


def _listed(fields):
    return "\n".join(" " * 8 + f"{name}: {field.doc}".replace("\n", "\n" + " " * 12)
                     for name, field in fields.items())


documented(RasterOutputs)
documented(RasterGrads)
