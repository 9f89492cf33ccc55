"""The rasterizer: forward at once, or forward with a saved state and backward."""

from __future__ import annotations

from ._abi import CONSTANTS
from ._arrays import adapter, convert, pack, pack_output, shape_of
from ._call import Descriptor, call, device_word
from ._context import begin
from ._draw import (
    BACKWARD_SCRATCH_BYTES,
    BUFFERS,
    INFO,
    Memory,
    SavedRaster,
    draw_once,
    draw_saved,
)
from ._errors import argument_error
from ._lib import check, lib
from ._result import RasterGrads, RasterOutputs
from ._scene import (
    DETERMINISTIC,
    OUTPUT_NAMES,
    OUTPUTS,
    TENSORS,
    Frame,
    add_flags,
    make_outputs,
    pack_fields,
    pack_frame,
    raster_fields,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from typing_extensions import Unpack

    from ._types import Array, CameraArray, Out, RasterArgs

_GRADS = Descriptor("gsc_raster_grads")

_GRAD_ADD = CONSTANTS["GSC_RASTER_GRAD_ADD"]
GRAD2D_NDC = CONSTANTS["GSC_RASTER_GRAD2D_NDC"]
_FORWARD_ONLY = CONSTANTS["GSC_RASTER_FORWARD_ONLY"]

_UPSTREAM = ("color", "alpha", "depth", "inv_depth")
_MEANS = TENSORS.index("means")
GRAD_NAMES = tuple(name for name in _GRADS.fields[1:] if name not in _UPSTREAM)


def rasterize(
    *,
    means: Array,
    opacities: Array,
    view: CameraArray,
    width: int,
    height: int,
    projection: CameraArray | None = None,
    intrinsics: CameraArray | None = None,
    position: CameraArray | None = None,
    background: CameraArray | None = None,
    pixel_weights: Array | None = None,
    scales: Array | None = None,
    rotations: Array | None = None,
    covariances: Array | None = None,
    colors: Array | None = None,
    sh: Array | None = None,
    sh_dc: Array | None = None,
    sh_degree: int | None = None,
    scale_modifier: float | None = None,
    tan_fovx: float | None = None,
    tan_fovy: float | None = None,
    near_plane: float | None = None,
    far_plane: float | None = None,
    radius_clip: float | None = None,
    blur: float | None = None,
    median_default: float | None = None,
    antialias: bool = False,
    prefiltered: bool = False,
    view_row_major: bool = False,
    pixel_last: bool = False,
    compat_3dgs: bool = False,
    deterministic: bool = False,
    log_scales: bool = False,
    logit_opacities: bool = False,
    outputs: Sequence[str] = ("color",),
    out: Out | None = None,
    stream: int | None = None,
) -> RasterOutputs:
    """Draws N 3D Gaussians as C cameras see them.

    Arrays are float32, of any framework that speaks DLPack, all on one device; those
    that are not dense are copied.  The small camera arrays may be on the CPU always,
    or be nested lists of numbers.  Results are arrays of torch, cupy or jax if ``means`` is
    one, else numpy arrays.  Cameras look along +z, with x to the right and y down.  Every
    leading C may be absent when it is 1.  No gradient is recorded: see
    ``gsplat_c.torch.rasterize`` and ``rasterize_forward`` for that.

    Args:
        means: [N, 3] centres in the world.
        opacities: [N] or [N, 1], 0 to 1.
        view: [C, 4, 4] world to camera, column-major (see view_row_major).
        width, height: of the images, pixels.
        projection: [C, 4, 4] world to clip, column-major, a pinhole projection times
            view; needs tan_fovx and tan_fovy.  Or:
        intrinsics: [C, 4] fx fy cx cy in pixels.
        position: [C, 3] camera centres for sh; taken from view if absent.
        background: [channels] or [C, channels]; black if absent.
        pixel_weights: [C, H, W] for the weight_* outputs.
        scales: [N, 3] standard deviations in world units, with
        rotations: [N, 4] quaternions w x y z; or
        covariances: [N, 6] xx xy xz yy yz zz.
        colors: [N, channels] or [C, N, channels], 1 to 512 channels, used as they are; or
        sh: [N, K, 3] spherical harmonics, K at least (sh_degree + 1)^2; with
        sh_dc: [N, 1, 3] for the first coefficient, sh holding the K - 1 others or absent.
        sh_degree: 0 to 4, the degree in use; by default the highest that is stored.
        scale_modifier: multiplies scales; default 1.
        tan_fovx, tan_fovy: tangents of half the fields of view; needed with projection.
        near_plane: Gaussians at z up to this are culled; default 0.2.
        far_plane: Gaussians beyond this z are culled; default none.
        radius_clip: Gaussians of at most this radius in pixels are culled; default none.
        blur: added to the diagonal of the 2D covariances, square pixels; default 0.3.
        median_default: median_depth where the transmittance stays above one half.
        antialias: scale opacities by what the blur takes from them.
        prefiltered: the caller has culled; a Gaussian outside near and far is an error.
        view_row_major: view and projection are stored row by row, as numpy prints them.
        pixel_last: color is [C, H, W, channels] instead of [C, channels, H, W].
        compat_3dgs: the numeric conventions of the original 3DGS rasterizer.
        deterministic: bitwise reproducible gradients on a GPU; the CPU's always are.
        log_scales: scales are logarithms, as training and PLY files store them.
        logit_opacities: opacities are logits; gradients then are by what is stored.
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
    with call("rasterize") as block:
        arrays, device, handle = begin(block, means, "means", stream)
        fields = raster_fields(  # by position, which is faster: in the order of the signature
            _FORWARD_ONLY, means, opacities, view, width, height, projection, intrinsics, position,
            background, pixel_weights, scales, rotations, covariances, colors, sh, sh_dc, sh_degree,
            scale_modifier, tan_fovx, tan_fovy, near_plane, far_plane, radius_clip, blur,
            median_default, antialias, prefiltered, view_row_major, pixel_last, compat_3dgs,
            deterministic, log_scales, logit_opacities)
        args = pack_fields(block, *fields)
        frame = Frame(view, means, colors, width, height, pixel_last)
        values, results = _outputs(block, arrays, means, outputs, out, frame)
        draw_once(block, handle, args, results, values, means, device, stream)
        return RasterOutputs(convert(arrays, values, means, out))


def _outputs(block, arrays, like, outputs, out, frame):
    """({name: array}, address of a gsc_raster_outputs) of the results that are asked for."""
    if "color" not in outputs and not (out and "color" in out):
        raise argument_error("INVALID_ARGUMENT", "outputs has no 'color', which is required")
    values, addresses = make_outputs(block, arrays, like, outputs, out, OUTPUT_NAMES,
                                     frame.output)
    return values, OUTPUTS.pack_named(block, addresses)


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
    _need(args, "rasterize_forward")
    with call("rasterize_forward") as block:
        like = args["means"]
        arrays, device, handle = begin(block, like, "means", stream)
        packed = pack_fields(block, *raster_fields(**args))
        values, results = _outputs(block, arrays, like, outputs, out, Frame.of(args))
        saved = draw_saved(block, handle, packed, results, values, like, device, stream,
                           max_intersections_bytes)
        return RasterOutputs(convert(arrays, values, like, out)), saved


def _need(args, function):
    for name in ("means", "view", "width", "height"):
        if name not in args:
            raise TypeError(f"{function}() needs the keyword argument {name!r}")


def draw(numbers, tensors, outputs, saves):
    """rasterize(), or rasterize_forward() if it saves, of torch tensors in the header's order.

    They may require gradients: those are the caller's to record.

    Args:
        numbers, tensors: as raster_fields() returns them.
        outputs: new, dense arrays by name, color among them.
    Returns:
        SavedRaster or None.
    """
    means = tensors[_MEANS]
    with call("rasterize_forward" if saves else "rasterize") as block:
        arrays, device, handle = begin(block, means, "means", None)
        args, results = pack_frame(
            block, numbers if saves else add_flags(numbers, _FORWARD_ONLY), tensors, outputs)
        if not saves:
            return draw_once(block, handle, args, results, outputs, means, device, None)
        return draw_saved(block, handle, args, results, outputs, means, device, None, joined=True)


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
    """Derivatives of a loss by the inputs of ``rasterize_forward``.

    Args:
        saved: from ``rasterize_forward``.
        wrt: what to differentiate by, any of means, opacities, scales, rotations,
            covariances, colors, sh, sh_dc, means2d, means2d_abs, view, position,
            background.  Only that is computed.
        grad_color, grad_alpha, grad_depth, grad_inv_depth: derivatives of the loss by
            those outputs, shaped as they are; absent: zero.
        out: arrays to write into, by name; dense and writable.  They count as asked
            for.  means2d and means2d_abs may be [C, N, 2] or [C, N, 3] (third is 0).
        grad_add: add to the arrays in ``out`` instead of overwriting them; then every
            gradient must be in ``out``.
        grad2d_ndc: means2d and means2d_abs in units of half the image, not pixels.
        args: the same values as in ``rasterize_forward``.

    Returns:
        RasterGrads: what was asked for; summed over the cameras.
    """
    _need(args, "rasterize_backward")
    flags = (_GRAD_ADD if grad_add else 0) | (GRAD2D_NDC if grad2d_ndc else 0)
    return RasterGrads(backward(
        saved, *raster_fields(**args), wrt, {"color": grad_color, "alpha": grad_alpha,
                                             "depth": grad_depth, "inv_depth": grad_inv_depth},
        out, flags, stream))


def backward(saved, numbers, tensors, wrt, upstream, out=None, flags=0, stream=None):
    """rasterize_backward() of arguments as draw() takes them.

    upstream: gradient by output.  flags: of the gradients.  Returns {name: gradient}.
    """
    with call("rasterize_backward") as block:
        like = tensors[_MEANS]
        arrays, device, handle = begin(block, like, "means", stream)
        if flags & _GRAD_ADD:
            missing = [name for name in wrt if not out or name not in out]
            if missing:
                raise argument_error("INVALID_ARGUMENT", f"grad_add without {missing[0]} in out")
        packed = pack_fields(block, add_flags(numbers, flags), tensors)
        given = dict(zip(TENSORS, tensors))
        values, addresses = make_outputs(block, arrays, like, wrt, out, GRAD_NAMES,
                                         lambda name: (None, _grad_shape(given, name)))
        for name, value in upstream.items():
            if value is not None:
                addresses[name] = pack(block, value, f"grad_{name}")
        grads = _GRADS.pack_named(block, addresses)
        info = INFO.pack(block, *saved.info)
        memory = Memory(block, like, device, lends_scratch=stream is None)
        scratch_bytes = _backward_scratch(block, handle, packed, saved, numbers[0])
        scratch, scratch_view = memory.scratch(scratch_bytes)
        buffers = BUFFERS.pack(block, *_saved_views(block, saved, arrays, like, device),
                               scratch_view)
        check(lib.gsc_raster_backward(handle, packed, buffers, info, grads, block.stream))
        del scratch
        return convert(arrays, values, like, out)


def _backward_scratch(block, handle, packed, saved, flags):
    """Bytes of it.  As forward found, but for an option that may be given to backward alone."""
    info = saved.info
    if flags & DETERMINISTIC:
        sizes = INFO.pack(block, *info)
        check(lib.gsc_raster_sizes(handle, packed, sizes))
        info = INFO.unpack(block, sizes)
    return info[BACKWARD_SCRATCH_BYTES]


def _saved_views(block, saved, arrays, like, device):
    """Views of the state and of the lists."""
    state = _aligned(block, saved.state, "state", arrays, like)
    view = pack(block, state, "state")
    if saved.intersections is not None:
        lists = _aligned(block, saved.intersections, "intersections", arrays, like)
        return view, pack(block, lists, "intersections")
    begin = saved.lists_begin
    return view, block.bytes(arrays.address(state) + begin, device_word(device),
                             max(shape_of(state)[0] - begin, 0))


def _aligned(block, memory, name, arrays, like):
    """A saved buffer as it is, or moved to where the library wants it if a copy lies elsewhere."""
    if adapter(memory, name).address(memory) % 256:
        moved, _ = arrays.bytes(shape_of(memory)[0], like)
        arrays.copy_into(moved, memory)
        block.keep.append(moved)
        memory = moved
    return memory


def _grad_shape(args, name):
    """Of the gradient by an input; args: those that are arrays, by name."""
    if name in ("means2d", "means2d_abs"):
        frame = _lists(args["view"], args["means"])
        return (*frame.lead, frame.gaussians, 2)
    given = args.get(name)
    if given is not None:
        shape = shape_of(given)
        if shape or not isinstance(given, (list, tuple)):
            return shape
        from ._scene import _list_shape

        return _list_shape(given)
    if name == "position":
        return (*_lists(args["view"], args["means"]).lead, 3)
    raise argument_error("INVALID_ARGUMENT", f"wrt has {name!r}, which is not an input")


def _lists(view, means):
    """The Frame of a call without an image."""
    return Frame(view, means, None, 0, 0, False)


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
        arrays, _, handle = begin(block, means, "means", stream)
        packed = pack_fields(block, *raster_fields(
            means=means, view=view, near_plane=near_plane, far_plane=far_plane,
            view_row_major=view_row_major))
        visible = out
        if visible is None:
            frame = _lists(view, means)
            visible = arrays.empty((*frame.lead, frame.gaussians), "bool", means)
        check(lib.gsc_mark_visible(handle, packed, pack_output(block, visible, "out"),
                                   block.stream))
        return convert(arrays, {"out": visible}, means, {"out": out})["out"]
