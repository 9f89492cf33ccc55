"""The rasterizer: forward at once, or forward with a saved state and backward."""

from __future__ import annotations

from collections.abc import Sequence

from ._abi import CONSTANTS
from ._arrays import adapter, allocate, convert, pack, shape_of
from ._call import call
from ._context import begin
from ._errors import ArgumentTypeError, argument_error
from ._fields import (
    DIFFERENTIABLE,
    FIELDS,
    GRAD_NAMES,
    GRADS,
    OUTPUT_NAMES,
    OUTPUTS,
    RasterGrads,
    RasterOutputs,
    documented,
)
from ._forward import BUFFERS, INFO, SavedRaster, forward, project
from ._lib import check, lib
from ._scene import (
    add_flags,
    grad_of,
    lead_of,
    make_outputs,
    output_of,
    pack_outputs,
    raster_fields,
    scene_fields,
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
    numbers, tensors = scene_fields("rasterize", args, FORWARD_ONLY)
    return RasterOutputs(forward_packed("rasterize", numbers, tensors, outputs, out, stream)[0])


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
    numbers, tensors = scene_fields("rasterize_forward", args)
    values, saved = forward_packed("rasterize_forward", numbers, tensors, outputs, out, stream,
                                   max_intersections_bytes)
    return RasterOutputs(values), saved


def forward_packed(function, numbers, tensors, outputs=(), out=None, stream=None, limit=None,
                   recorded=False):
    """rasterize_forward() of arguments in the header's order, for a function of the user's.

    Args:
        numbers, tensors: as scene_fields() returns them; FORWARD_ONLY: nothing is saved.
        limit: max_intersections_bytes.
        recorded: tensors may require gradients, which the caller records.
    Returns:
        ({name: array}, SavedRaster or None)
    """
    with call(function) as block:
        begin(block, tensors[_MEANS], "means", stream, recorded)
        if recorded and not outputs:  # the drop-ins', who made them all: as fast as it can be
            packed = block.arrays.pack_frame(block, numbers, tensors, out)
            return out, forward(block, *packed, not numbers[0] & FORWARD_ONLY, limit)
        args = block.arrays.pack_fields(block, numbers, tensors)

        def shape(name):
            return output_of(numbers, tensors, name)

        values = made = make_outputs(block, "outputs", outputs, out, OUTPUT_NAMES, shape)
        if "color" not in values:  # which the library always draws
            color = make_outputs(block, "outputs", ("color",), None, OUTPUT_NAMES, shape)
            made = {**values, **color}
        results = block.arrays.pack_named(block, OUTPUTS, made)
        saved = forward(block, args, results, not numbers[0] & FORWARD_ONLY, limit)
        return convert(block, values, out), saved


def project_packed(function, numbers, tensors, outputs):
    """Fills outputs of Gaussians, arrays by name, as forward_packed() would, without an image."""
    with call(function) as block:
        begin(block, tensors[_MEANS], "means", None, True)
        project(block, *block.arrays.pack_frame(block, numbers, tensors, outputs))


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
    flags = (_GRAD_ADD if grad_add else 0) | (GRAD2D_NDC if grad2d_ndc else 0)
    upstream = dict(zip(DIFFERENTIABLE, (grad_color, grad_alpha, grad_depth, grad_inv_depth)))
    numbers, tensors = scene_fields("rasterize_backward", args)
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
        args = block.arrays.pack_fields(block, add_flags(numbers, flags), tensors)
        values = make_outputs(block, "wrt", wrt, out, GRAD_NAMES,
                              lambda name: grad_of(tensors, name))
        grads = block.arrays.pack_named(block, GRADS, values, upstream)
        buffers = BUFFERS.pack(block, _pack_saved(block, saved.state, "state"),
                               _pack_saved(block, saved.intersections, "intersections"), 0)
        check(lib.gsc_raster_backward(block.context, args, buffers, INFO.pack(block, *saved.info),
                                      grads, block.stream))
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
    numbers, tensors = raster_fields("mark_visible", {
        "means": means, "view": view, "near_plane": near_plane, "far_plane": far_plane,
        "view_row_major": view_row_major})
    with call("mark_visible") as block:
        begin(block, means, "means", stream)
        args = block.arrays.pack_fields(block, numbers, tensors)
        shape = (*lead_of(tensors), *shape_of(means)[:1])
        values = make_outputs(block, "out", ("out",), {"out": out}, {"out": ("bool", shape)})
        visible = pack_outputs(block, values)["out"]
        check(lib.gsc_mark_visible(block.context, args, visible, block.stream))
        return convert(block, values, {"out": out})["out"]
