"""The rasterizer: forward at once, or forward with a saved state and backward."""

from __future__ import annotations

from collections.abc import Sequence

from ._abi import CONSTANTS
from ._arrays import adapter, allocate, convert, pack, shape_of
from ._call import call
from ._context import begin
from ._errors import ArgumentTypeError, argument_error
from ._fields import (
    FIELDS,
    GRAD_NAMES,
    GRADS,
    OUTPUT_NAMES,
    OUTPUTS,
    SINKS,
    TENSORS,
    RasterGrads,
    RasterOutputs,
    documented,
)
from ._forward import BUFFERS, INFO, SavedRaster, forward
from ._lib import check, lib
from ._scene import (
    Frame,
    add_flags,
    array_shape,
    make_outputs,
    raster_fields,
    require,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import Any, Array, CameraArray, Out, RasterArgs, Unpack

_GRAD_ADD = CONSTANTS["GSC_RASTER_GRAD_ADD"]
GRAD2D_NDC = CONSTANTS["GSC_RASTER_GRAD2D_NDC"]
FORWARD_ONLY = CONSTANTS["GSC_RASTER_FORWARD_ONLY"]
_MEANS = FIELDS["means"].place


@documented
def rasterize(
    *,
    outputs: Sequence[str] = ("color",),
    out: Out | None = None,
    stream: int | None = None,
    **args: Unpack[RasterArgs],
) -> RasterOutputs:
    """Rasterizes N 3D Gaussians as C cameras see them.

    Arrays are float32, of any framework that speaks DLPack, all on one device; those
    that are not dense are copied.  The small camera arrays may be on the CPU always,
    or be nested lists of numbers.  Results are arrays of torch, cupy or jax if ``means`` is
    one, else numpy arrays.  Cameras look along +z, with x to the right and y down.  Every
    leading C may be absent when it is 1.  No gradient is recorded: see
    ``gsplat_c.torch.rasterize`` and ``rasterize_forward`` for that.

    Args:
{args}
        outputs: names of the results wanted, see RasterOutputs.
        out: arrays to write into, by name; dense and writable.  They count as asked for.
        stream: a CUDA stream handle; by default the current stream of torch or cupy, for
            others the legacy one.

    Returns:
        RasterOutputs: what was asked for, by name or by unpacking.

    Raises:
        ArgumentError: a wrong value, shape, dtype, layout or device; the message names
            the array, what came and what was expected.
        UnsupportedError, OutOfMemoryError, NoDevice, Error: see those classes.
    """
    return _rasterize("rasterize", False, outputs, out, stream, args)[0]


def _rasterize(function, saves, outputs, out, stream, args, limit=None):
    """(RasterOutputs, SavedRaster if it saves)."""
    require(function, args)
    with call(function) as block:
        begin(block, args["means"], "means", stream)
        packed = block.arrays.pack_fields(
            block, *raster_fields(function, args, 0 if saves else FORWARD_ONLY))
        values, addresses = make_outputs(block, "outputs", outputs, out, OUTPUT_NAMES,
                                         Frame(args).output)
        if "color" not in values:
            raise argument_error("INVALID_ARGUMENT", f"outputs is {outputs!r}, expected 'color' "
                                                     "among them")
        saved = forward(block, packed, OUTPUTS.pack_named(block, addresses), saves, limit)
        return RasterOutputs(convert(block, values, out)), saved


def rasterize_forward(
    *,
    outputs: Sequence[str] = ("color",),
    out: Out | None = None,
    stream: int | None = None,
    max_intersections_bytes: int | None = None,
    **args: Unpack[RasterArgs],
) -> tuple[RasterOutputs, SavedRaster]:
    """``rasterize`` that also returns what ``rasterize_backward`` needs.

    Args:
        max_intersections_bytes: bounds the memory of the tile lists; the image is then
            made in bands of tiles, with the same result.  At least what the fullest
            tile needs is always taken.  By default the whole frame at once.
        outputs, out, stream, args: as in ``rasterize``.

    Returns:
        (RasterOutputs, SavedRaster)
    """
    return _rasterize("rasterize_forward", True, outputs, out, stream, args,
                      max_intersections_bytes)


def forward_packed(numbers, tensors, outputs, saves):
    """rasterize(), or rasterize_forward() if it saves, of torch tensors in the header's order.

    They may require gradients: those are the caller's to record.

    Args:
        numbers, tensors: as raster_fields() returns them.
        outputs: new, dense arrays by name, color among them.
    Returns:
        SavedRaster or None.
    """
    with call("rasterize_forward" if saves else "rasterize") as block:
        begin(block, tensors[_MEANS], "means", None)
        args, results = block.arrays.pack_frame(
            block, numbers if saves else add_flags(numbers, FORWARD_ONLY), tensors, outputs)
        return forward(block, args, results, saves)


def rasterize_backward(
    saved: SavedRaster,
    *,
    wrt: Sequence[str],
    grad_color: Array | None = None,
    grad_alpha: Array | None = None,
    grad_depth: Array | None = None,
    grad_inv_depth: Array | None = None,
    out: Out | None = None,
    grad_add: bool = False,
    grad2d_ndc: bool = False,
    stream: int | None = None,
    **args: Unpack[RasterArgs],
) -> RasterGrads:
    """Derivatives of a loss with respect to the inputs of ``rasterize_forward``.

    Args:
        saved: from ``rasterize_forward``.
        wrt: what to differentiate with respect to, any of means, opacities, scales, rotations,
            covariances, colors, sh, sh_dc, means2d, means2d_abs, view, position,
            background.  Only that is computed.
        grad_color, grad_alpha, grad_depth, grad_inv_depth: derivatives of the loss with
            respect to those outputs, shaped as they are; absent: zero.
        out: arrays to write into, by name; dense and writable.  They count as asked
            for.  means2d and means2d_abs may be [C, N, 2] or [C, N, 3] (third is 0).
        grad_add: add to the arrays in ``out`` instead of overwriting them; then every
            gradient must be in ``out``.
        grad2d_ndc: means2d and means2d_abs in units of half the image, not pixels.
        args: the same values as in ``rasterize_forward``.

    Returns:
        RasterGrads: what was asked for; summed over the cameras.
    """
    require("rasterize_backward", args)
    flags = (_GRAD_ADD if grad_add else 0) | (GRAD2D_NDC if grad2d_ndc else 0)
    upstream = {"color": grad_color, "alpha": grad_alpha, "depth": grad_depth,
                "inv_depth": grad_inv_depth}
    numbers, tensors = raster_fields("rasterize_backward", args)
    return RasterGrads(backward_packed(saved, numbers, tensors, wrt, upstream, out, flags, stream))


def backward_packed(saved, numbers, tensors, wrt, upstream, out=None, flags=0, stream=None):
    """rasterize_backward() of arguments as forward_packed() takes them.

    upstream: gradient by output.  flags: of the gradients.  Returns {name: gradient}.
    """
    with call("rasterize_backward") as block:
        if not isinstance(saved, SavedRaster):
            raise ArgumentTypeError(f"saved is {type(saved).__name__}, expected the SavedRaster of "
                                    "rasterize_forward")
        begin(block, tensors[_MEANS], "means", stream)
        if flags & _GRAD_ADD:
            missing = [name for name in wrt if not out or name not in out]
            if missing:
                raise argument_error("INVALID_ARGUMENT", f"grad_add without {missing[0]} in out")
        packed = block.arrays.pack_fields(block, add_flags(numbers, flags), tensors)
        given = dict(zip(TENSORS, tensors))
        values, addresses = make_outputs(block, "wrt", wrt, out, GRAD_NAMES,
                                         lambda name: (None, grad_shape(given, name)))
        for name, value in upstream.items():
            if value is not None:
                addresses[name] = pack(block, value, f"grad_{name}")
        buffers = BUFFERS.pack(block, _pack_saved(block, saved.state, "state"),
                               _pack_saved(block, saved.intersections, "intersections"), 0)
        check(lib.gsc_raster_backward(block.context, packed, buffers,
                                      INFO.pack(block, *saved.info),
                                      GRADS.pack_named(block, addresses), block.stream))
        return convert(block, values, out)


def _pack_saved(block, memory, name):
    """A view of a saved buffer, moved to where the library wants it if a copy lies elsewhere."""
    if adapter(memory, name).address(memory) % 256:
        size = shape_of(memory)[0]
        moved, _ = allocate(f"{name} of {{}} bytes", block.arrays.bytes, size, block.device)
        block.arrays.copy_into(moved, memory)
        block.keep.append(moved)
        memory = moved
    return pack(block, memory, name)


def grad_shape(args, name):
    """The shape of the gradient with respect to an input; args: the arrays, by name."""
    given = args.get(name)
    if given is not None:
        return array_shape(given)
    lead = Frame(args).lead
    if name in SINKS:
        return (*lead, shape_of(args["means"])[0], 2)
    if name == "position":
        return (*lead, 3)
    raise argument_error("INVALID_ARGUMENT", f"wrt has {name!r}, which is not an input")


def mark_visible(
    *,
    means: Array,
    view: CameraArray,
    near_plane: float | None = None,
    far_plane: float | None = None,
    view_row_major: bool = False,
    out: Array | None = None,
    stream: int | None = None,
) -> Any:
    """Which Gaussians lie between the near and the far plane of each camera.

    Args:
        means: [N, 3].
        view: [C, 4, 4] world to camera, column-major unless view_row_major.
        near_plane, far_plane: as in ``rasterize``; default 0.2 and none.
        out: bool or uint8 [C, N] to write into.

    Returns:
        bool [C, N], or [N] where view is [4, 4].
    """
    with call("mark_visible") as block:
        begin(block, means, "means", stream)
        args = {"means": means, "view": view, "near_plane": near_plane, "far_plane": far_plane,
                "view_row_major": view_row_major}
        packed = block.arrays.pack_fields(block, *raster_fields("mark_visible", args))
        frame = Frame(args)
        values, addresses = make_outputs(block, "out", ("out",), {"out": out},
                                         {"out": ("bool", (*frame.lead, frame.gaussians))})
        check(lib.gsc_mark_visible(block.context, packed, addresses["out"], block.stream))
        return convert(block, values, {"out": out})["out"]
