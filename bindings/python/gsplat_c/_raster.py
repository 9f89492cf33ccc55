"""The rasterizer: forward at once, or forward with a saved state and backward."""

from __future__ import annotations

from ._abi import CONSTANTS
from ._arrays import CPU, adapter, convert, pack, pack_output, principal, shape_of
from ._call import Call, Descriptor
from ._context import context
from ._errors import argument_error
from ._lib import fail, lib
from ._result import RasterGrads, RasterOutputs
from ._scene import OUTPUT_NAMES, Frame, make_outputs, pack_args

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from typing_extensions import Unpack

    from ._types import Array, CameraArray, Out, RasterArgs

_OUTPUTS = Descriptor("gsc_raster_outputs")
_BUFFERS = Descriptor("gsc_raster_buffers")
_INFO = Descriptor("gsc_raster_info")
_GRADS = Descriptor("gsc_raster_grads")

_forward = lib.gsc_raster_forward
_FORWARD_ONLY = CONSTANTS["GSC_RASTER_FORWARD_ONLY"]
_TOO_SMALL = CONSTANTS["GSC_ERROR_BUFFER_TOO_SMALL"]

_UPSTREAM = ("color", "alpha", "depth", "inv_depth")
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
    args = {
        "means": means, "opacities": opacities, "view": view, "width": width, "height": height,
        "projection": projection, "intrinsics": intrinsics, "position": position,
        "background": background, "pixel_weights": pixel_weights, "scales": scales,
        "rotations": rotations, "covariances": covariances, "colors": colors, "sh": sh,
        "sh_dc": sh_dc, "sh_degree": sh_degree, "scale_modifier": scale_modifier,
        "tan_fovx": tan_fovx, "tan_fovy": tan_fovy, "near_plane": near_plane,
        "far_plane": far_plane, "radius_clip": radius_clip, "blur": blur,
        "median_default": median_default, "antialias": antialias, "prefiltered": prefiltered,
        "view_row_major": view_row_major, "pixel_last": pixel_last, "compat_3dgs": compat_3dgs,
        "deterministic": deterministic,
    }
    with Call("rasterize") as block:
        start = _Start(block, args, outputs, out, stream, _FORWARD_ONLY)
        if start.device[0] == CPU or stream is not None:
            check(_forward(start.context, start.args, start.outputs, None, start.stream))
        else:
            _draw(block, start, None, True)
        return RasterOutputs(convert(start.arrays, start.values, start.like, out))


class _Start:
    """What every forward call begins with: framework, context, packed inputs and outputs."""

    __slots__ = ("arrays", "like", "device", "context", "stream", "args", "values", "outputs")

    def __init__(self, block, args, outputs, out, stream, flags=0):
        like = args["means"]
        self.like = like
        self.arrays = arrays = principal(like, "means")
        self.device = device = arrays.device(like)
        self.context = context(device)
        self.stream = block.stream = arrays.stream(device) if stream is None else stream
        double = arrays.is_double(like)
        self.args = pack_args(block, double, flags, **args)
        if "color" not in outputs and not (out and "color" in out):
            raise argument_error("INVALID_ARGUMENT", "outputs has no 'color', which is required")
        self.values, addresses = make_outputs(
            block, arrays, like, double, outputs, out, OUTPUT_NAMES, Frame(args).output)
        self.outputs = _OUTPUTS.pack_named(block, addresses)


class SavedRaster:
    """What backward needs of a forward call, besides the same inputs.

    Attributes:
        state: uint8 [bytes] in the framework of the means (jax: in the one that lent memory).
        intersections: uint8 [bytes], lists of the Gaussians that each tile draws.
        info: the fields of gsc_raster_info, plain integers.

    The arrays hold no pointers: they may be copied, moved and stored.
    """

    __slots__ = ("state", "intersections", "info")

    def __init__(self, state: Any, intersections: Any, info: tuple[int, ...]):
        self.state = state
        self.intersections = intersections
        self.info = info

    @property
    def pairs(self) -> int:
        """How many pairs of a tile and a Gaussian that reaches it there are."""
        return self.info[_INFO.fields.index("intersections") - 1]


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
    for name in ("means", "view", "width", "height"):
        if name not in args:
            raise TypeError(f"rasterize_forward() needs the keyword argument {name!r}")
    with Call("rasterize_forward") as block:
        start = _Start(block, args, outputs, out, stream)
        arrays, like = start.arrays, start.like
        state, lists, info = _draw(block, start, max_intersections_bytes, stream is None)
        values = convert(arrays, start.values, like, out)
        return RasterOutputs(values), SavedRaster(state, lists, _INFO.unpack(block, info))


def _draw(block, start, limit, lend):
    """Both steps in memory of the caller's framework: (state, intersections, info's address).

    Where earlier frames tell how large this one may be, nothing waits between the steps.
    lend: scratch comes from the framework too, whose current stream it then is."""
    arrays, like = start.arrays, start.like
    info = _INFO.pack(block, *[0] * (len(_INFO.fields) - 1))
    check(lib.gsc_raster_forecast(start.context, start.args, info))
    plan = _plan(block, info)
    state = arrays.bytes(plan["state_bytes"], like)
    state_view = _bytes_view(block, start, state, "state", plan["state_bytes"])
    if plan["visible"] and limit is None:
        buffers, lists, memory = _buffers(block, start, plan, state_view, limit, lend)
        status = lib.gsc_raster_draw(start.context, start.args, buffers, start.outputs, info,
                                     start.stream)
        if status != _TOO_SMALL:
            check(status)
            return state, lists, info
        del lists, memory
    else:
        memory, scratch = _scratch(block, start, plan["forward_scratch_bytes"], lend)
        check(lib.gsc_raster_project(start.context, start.args,
                                     _BUFFERS.pack(block, state_view, 0, scratch),
                                     start.outputs, info, start.stream))
        del memory  # so that what follows can have it
    buffers, lists, memory = _buffers(block, start, _plan(block, info), state_view, limit,
                                      lend)
    check(lib.gsc_raster_render(start.context, start.args, buffers, start.outputs, info, 0,
                                start.stream))
    return state, lists, info


def _buffers(block, start, plan, state_view, limit, lend):
    """What render needs: the buffers' address, the intersections, and memory to hold on to."""
    size = _list_bytes(plan, limit)
    lists = start.arrays.bytes(size, start.like)
    lists_view = _bytes_view(block, start, lists, "intersections", size)
    memory, scratch = _scratch(block, start, plan["forward_scratch_bytes"], lend)
    return _BUFFERS.pack(block, state_view, lists_view, scratch), lists, memory


def check(status):
    if status:
        fail(status)


def _plan(block, info):
    return dict(zip(_INFO.fields[1:], _INFO.unpack(block, info)))


def _list_bytes(plan, limit):
    whole = plan["intersections_bytes"]
    return whole if limit is None else max(min(whole, limit), plan["intersections_min_bytes"])


def _scratch(block, start, size, lend):
    """Scratch memory from the framework's allocator on a GPU and its view; else NULL, the
    library's own.  Freed while the device still uses it: the allocator goes by streams, too."""
    if start.device[0] == CPU or not size or not lend:
        return None, 0
    memory = start.arrays.bytes(size, start.like)
    return memory, _bytes_view(block, start, memory, "scratch", size)


def _bytes_view(block, start, memory, name, size):
    """The view of what arrays.bytes() made, which needs none of the checks of others' arrays."""
    address = adapter(memory, name).address(memory)
    return block.tensor(name, address, start.device, (1, 8), (size,))


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
    for name in ("means", "view", "width", "height"):
        if name not in args:
            raise TypeError(f"rasterize_backward() needs the keyword argument {name!r}")
    with Call("rasterize_backward") as block:
        like = args["means"]
        arrays = principal(like, "means")
        device = arrays.device(like)
        lend = stream is None
        block.stream = stream = arrays.stream(device) if lend else stream
        double = arrays.is_double(like)
        flags = ((CONSTANTS["GSC_RASTER_GRAD_ADD"] if grad_add else 0)
                 | (CONSTANTS["GSC_RASTER_GRAD2D_NDC"] if grad2d_ndc else 0))
        if grad_add:
            missing = [name for name in wrt if not out or name not in out]
            if missing:
                raise argument_error("INVALID_ARGUMENT", f"grad_add without {missing[0]} in out")
        packed = pack_args(block, double, flags, **args)
        values, addresses = make_outputs(block, arrays, like, double, wrt, out, GRAD_NAMES,
                                         lambda name: (None, _grad_shape(args, name)))
        for name, value in zip(_UPSTREAM, (grad_color, grad_alpha, grad_depth, grad_inv_depth)):
            addresses[name] = pack(block, value, f"grad_{name}")
        grads = _GRADS.pack_named(block, addresses)
        info = _INFO.pack(block, *saved.info)
        memory, scratch = None, 0
        if device[0] != CPU and lend:
            sizes = _INFO.pack(block, *saved.info)
            check(lib.gsc_raster_sizes(context(device), packed, sizes))  # deterministic takes more
            size = _plan(block, sizes)["backward_scratch_bytes"]
            memory = arrays.bytes(size, like)
            scratch = block.tensor("scratch", adapter(memory, "scratch").address(memory), device,
                                   (1, 8), (size,))
        buffers = _BUFFERS.pack(
            block, _saved_buffer(block, saved.state, "state", arrays, like),
            _saved_buffer(block, saved.intersections, "intersections", arrays, like), scratch)
        status = lib.gsc_raster_backward(context(device), packed, buffers, info, grads, stream)
        if status:
            fail(status)
        return RasterGrads(convert(arrays, values, like, out))


def _saved_buffer(block, memory, name, arrays, like):
    """A saved buffer as it is, or moved to where the library wants it if a copy lies elsewhere."""
    if adapter(memory, name).address(memory) % 256:
        moved = arrays.bytes(shape_of(memory)[0], like)
        arrays.copy_into(moved, memory)
        block.keep.append(moved)
        memory = moved
    return pack(block, memory, name)


def _grad_shape(args, name):
    if name in ("means2d", "means2d_abs"):
        frame = Frame(args)
        return (*frame.lead, frame.gaussians, 2)
    given = args.get(name)
    if given is not None:
        shape = shape_of(given)
        if shape or not isinstance(given, (list, tuple)):
            return shape
        from ._scene import _list_shape

        return _list_shape(given)
    if name == "position":
        return (*Frame(args).lead, 3)
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
    with Call("mark_visible") as block:
        arrays = principal(means, "means")
        device = arrays.device(means)
        block.stream = stream = arrays.stream(device) if stream is None else stream
        args = {"means": means, "view": view, "width": 0, "height": 0}
        packed = pack_args(block, arrays.is_double(means), near_plane=near_plane,
                           far_plane=far_plane, view_row_major=view_row_major, **args)
        visible = out
        if visible is None:
            frame = Frame(args)
            visible = arrays.empty((*frame.lead, frame.gaussians), "bool", means)
        status = lib.gsc_mark_visible(context(device), packed, pack_output(block, visible, "out"),
                                      stream)
        if status:
            fail(status)
        return convert(arrays, {"out": visible}, means, {"out": out})["out"]
