"""Nearest neighbours, SSIM, image loss and Adam."""

from __future__ import annotations

from collections.abc import Sequence

from ._abi import CONSTANTS
from ._arrays import convert, pack, pack_output, shape_of
from ._call import TENSOR_BYTES, Descriptor, call
from ._context import begin
from ._errors import argument_error, integer
from ._fields import SMALLEST
from ._lib import check, lib
from ._result import ImageLoss, Neighbors, Ssim, SsimGrads
from ._scene import make_outputs, number, pack_outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import AdamGroup, Array, LossArgs, Out, SsimArgs, Unpack

_KNN = Descriptor("gsc_knn_args")
_SSIM = Descriptor("gsc_ssim_args")
_LOSS = Descriptor("gsc_image_loss_args")
_GROUP = Descriptor("gsc_adam_group")
_ADAM = Descriptor("gsc_adam_args")

_VALID = CONSTANTS["GSC_SSIM_VALID"]
_DECOUPLED = CONSTANTS["GSC_ADAM_DECOUPLED"]


def knn(
    points: Array,
    k: int = 3,
    queries: Array | None = None,
    *,
    outputs: Sequence[str] = ("indices", "distances2"),
    index_dtype: str = "int64",
    out: Out | None = None,
    stream: int | None = None,
) -> Neighbors:
    """The exact nearest neighbours, nearest first, equal distances in index order.

    Args:
        points: float32 [N, 3].
        k: 1 to 256.
        queries: float32 [M, 3]; by default the points, each without itself.
        outputs: any of indices, distances2, mean2.
        index_dtype: "int64" or "int32".
        out: arrays to write into, by name; dense and writable.
        stream: as in ``rasterize``.

    Returns:
        Neighbors: indices [M, k], squared distances [M, k], mean of the squared
        distances [M].  Fewer than k others: -1, +inf, and the mean of those there are.
        A row with a non-finite coordinate has no neighbours: -1, +inf and NaN.
    """
    with call("knn") as block:
        if k == 0:
            raise argument_error("INVALID_ARGUMENT", "k is 0, expected 1 to 256")
        begin(block, points, "points", stream)
        rows = shape_of(points if queries is None else queries)[:1]
        width = max(integer(k, "k"), 0)
        shapes = {"indices": (index_dtype, (*rows, width)), "distances2": (None, (*rows, width)),
                  "mean2": (None, rows)}
        if index_dtype not in ("int32", "int64"):
            raise argument_error("DTYPE", f"index_dtype is {index_dtype!r}, expected 'int64' or "
                                          "'int32'")
        values = make_outputs(block, "outputs", outputs, out, shapes)
        address = pack_outputs(block, values)
        args = _KNN.pack(block, 0, k, pack(block, points, "points"),
                         pack(block, queries, "queries"), address.get("indices", 0),
                         address.get("distances2", 0), address.get("mean2", 0), 0)
        check(lib.gsc_knn(block.context, args, block.stream))
        return Neighbors(convert(block, values, out))


SSIM_DEFAULTS = {"window": None, "sigma": None, "c1": None, "c2": None, "valid": False}
LOSS_DEFAULTS = {"l1_weight": 0.8, "l2_weight": 0.0, "ssim_weight": 0.2, **SSIM_DEFAULTS}


def fill(function, options, defaults):
    """The keyword arguments of a function, with defaults for those that are absent."""
    for name in options:
        if name not in defaults:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    return {**defaults, **options}


def _window_fields(options):
    """The fields that the structs of SSIM and of the loss begin with.

    The structs' zeros mean "default", a caller's are wrong.
    """
    window, sigma = options["window"], options["sigma"]
    if window == 0:
        raise argument_error("INVALID_ARGUMENT", "window is 0, expected odd, 1 to 33")
    if sigma == 0:
        raise argument_error("INVALID_ARGUMENT", "sigma is 0, expected more")
    return (_VALID if options["valid"] else 0, window or 0, sigma or 0.0,
            number(options["c1"], SMALLEST), number(options["c2"], SMALLEST))


def pack_loss(block, target, mask, grad_scale, options, outputs, image=0):
    """The address of a gsc_image_loss_args.

    outputs: addresses, by name.  image: an address, 0 where another call makes it.
    """
    flags, window, sigma, c1, c2 = _window_fields(options)
    return _LOSS.pack(
        block, flags, window, sigma, c1, c2, options["l1_weight"], options["l2_weight"],
        options["ssim_weight"], number(grad_scale, SMALLEST), 0, image,
        pack(block, target, "target", True), pack(block, mask, "mask", True),
        outputs.get("loss", 0), outputs.get("parts", 0), outputs.get("grad_image", 0))


def _pack_ssim(block, image, target, options, *rest):
    """The address of a gsc_ssim_args; rest: the fields after the two images."""
    return _SSIM.pack(block, *_window_fields(options), 0, pack(block, image, "image", True),
                      pack(block, target, "target", True), *rest)


def map_shape(image, window, valid):
    """The shape of the map that SSIM makes of an image."""
    shape = shape_of(image)
    if not valid or len(shape) not in (3, 4):
        return shape
    inset = integer(window or 11, "window") - 1
    return (*shape[:-2], max(shape[-2] - inset, 0), max(shape[-1] - inset, 0))


def ssim(
    image: Array,
    target: Array,
    *,
    outputs: Sequence[str] = ("mean",),
    out: Out | None = None,
    stream: int | None = None,
    **options: Unpack[SsimArgs],
) -> Ssim:
    """Structural similarity of images, with a Gaussian window and zeros outside the image.

    Args:
        image, target: float32 [B, C, H, W] or [C, H, W], any strides.
        window: odd, 1 to 33 pixels; default 11.
        sigma: of the window, pixels; default 1.5.
        c1, c2: stabilisers; default 0.01^2 and 0.03^2, for values from 0 to 1.
        valid: only the windows that lie inside the image.
        outputs: any of mean, map.
        out: arrays to write into, by name; dense and writable.
        stream: as in ``rasterize``.

    Returns:
        Ssim: mean [], map [B, C, H, W] (valid: [B, C, H - window + 1, W - window + 1]).
    """
    given = fill("ssim", options, SSIM_DEFAULTS)
    with call("ssim") as block:
        begin(block, image, "image", stream)
        shapes = {"mean": (None, ()),
                  "map": (None, map_shape(image, given["window"], given["valid"]))}
        values = make_outputs(block, "outputs", outputs, out, shapes)
        address = pack_outputs(block, values)
        args = _pack_ssim(block, image, target, given, address.get("map", 0),
                          address.get("mean", 0), 0, 0, 0, 0)
        check(lib.gsc_ssim_forward(block.context, args, block.stream))
        return Ssim(convert(block, values, out))


def ssim_backward(
    image: Array,
    target: Array,
    *,
    grad_mean: Array | None = None,
    grad_map: Array | None = None,
    wrt: Sequence[str] = ("image",),
    out: Out | None = None,
    stream: int | None = None,
    **options: Unpack[SsimArgs],
) -> SsimGrads:
    """Derivatives of a loss with respect to the images of ``ssim``.

    Args:
        grad_mean: [] or [1], derivative of the loss with respect to the mean; or
        grad_map: with respect to the map, shaped as it is, any strides.
        wrt: any of image, target.
        out: arrays to write into, by name; dense and writable.
        image, target, window, sigma, c1, c2, valid, stream: as in ``ssim``.

    Returns:
        SsimGrads: image [B, C, H, W], target [B, C, H, W].
    """
    given = fill("ssim_backward", options, SSIM_DEFAULTS)
    with call("ssim_backward") as block:
        begin(block, image, "image", stream)
        shape = None, shape_of(image)
        values = make_outputs(block, "wrt", wrt, out, {"image": shape, "target": shape})
        address = pack_outputs(block, values)
        args = _pack_ssim(block, image, target, given, 0, 0,
                          pack(block, grad_map, "grad_map", True),
                          pack(block, grad_mean, "grad_mean"), address.get("image", 0),
                          address.get("target", 0))
        check(lib.gsc_ssim_backward(block.context, args, block.stream))
        return SsimGrads(convert(block, values, out))


def image_loss(
    image: Array,
    target: Array,
    *,
    mask: Array | None = None,
    grad_scale: float = 1.0,
    outputs: Sequence[str] = ("loss",),
    out: Out | None = None,
    stream: int | None = None,
    **options: Unpack[LossArgs],
) -> ImageLoss:
    """l1 mean|x - y| + l2 mean(x - y)^2 + ssim (1 - mean SSIM), and its gradient, in one pass.

    The default weights are those of 3D Gaussian splatting's training.

    Args:
        image: float32 [B, C, H, W] or [C, H, W], any strides.
        target: the same shape; float32, or uint8 read as value / 255.
        mask: [B, H, W] or [H, W], float32, bool or uint8; weights every mean.
        grad_scale: the derivative of a larger loss with respect to this one.
        window, sigma, c1, c2, valid: as in ``ssim``.
        outputs: any of loss, parts, grad_image.
        out: arrays to write into, by name; dense and writable.
        stream: as in ``rasterize``.

    Returns:
        ImageLoss: loss [], parts [3] (mean|x - y|, mean(x - y)^2, mean SSIM),
        grad_image [B, C, H, W].
    """
    given = fill("image_loss", options, LOSS_DEFAULTS)
    with call("image_loss") as block:
        begin(block, image, "image", stream)
        shapes = {"loss": (None, ()), "parts": (None, (3,)), "grad_image": (None, shape_of(image))}
        values = make_outputs(block, "outputs", outputs, out, shapes)
        address = pack_outputs(block, values)
        args = pack_loss(block, target, mask, grad_scale, given, address,
                         pack(block, image, "image", True))
        check(lib.gsc_image_loss(block.context, args, block.stream))
        return ImageLoss(convert(block, values, out))


def check_group(what, group, required, known):
    """An error where a group of Adam lacks what is required, or has what is unknown."""
    for word, keys in (("unknown", [key for key in group if key not in known]),
                       ("missing", [key for key in required if key not in group])):
        if keys:
            raise argument_error("INVALID_ARGUMENT", f"{what} has {word} {keys[0]!r}")


def group_numbers(group):
    """lr and what follows it in the structs of groups.  Zeros there mean "default"."""
    return (group["lr"], number(group.get("beta1"), -1.0), number(group.get("beta2"), -1.0),
            number(group.get("epsilon"), -1.0), group.get("weight_decay", 0.0),
            group.get("step", 0))


def _mappings(groups) -> list[dict]:
    try:
        return [dict(group) for group in groups]
    except (TypeError, ValueError):
        raise argument_error("INVALID_ARGUMENT", f"groups is {type(groups).__name__}, expected a "
                             "sequence of mappings", "adam_step") from None


_GROUP_TENSORS = ("parameter", "gradient", "moment1", "moment2")


def adam_step(
    groups: Sequence[AdamGroup],
    *,
    visible: Array | None = None,
    decoupled: bool = False,
    stream: int | None = None,
) -> None:
    """One step of Adam, in place, for every group in one call.

    Args:
        groups: mappings with parameter, gradient, moment1, moment2, all of one shape
            [N, ..] and float32, and lr; and, where not the default, beta1 (0.9), beta2
            (0.999), epsilon (1e-8), weight_decay (0) and step (1, 2, .. for bias
            correction, default 0: none).  parameter and the moments must be dense.
        visible: [N] bool, uint8 or int32; rows with 0 keep parameter and moments.
        decoupled: weight decay as in AdamW.
        stream: as in ``rasterize``.
    """
    given = _mappings(groups)
    if not given:
        return
    extra = len(given) * (4 * TENSOR_BYTES + _GROUP.size) if len(given) > 8 else 0
    with call("adam_step", extra) as block:
        for group in given:
            check_group("a group", group, (*_GROUP_TENSORS, "lr"), _GROUP.fields)
        begin(block, given[0]["parameter"], "parameter", stream)
        tensors = [[(pack if name == "gradient" else pack_output)(block, group[name], name)
                    for name in _GROUP_TENSORS] for group in given]
        # The groups follow each other without a gap: nothing else is packed in between.
        packed = [_GROUP.pack(block, *four, *group_numbers(group))
                  for four, group in zip(tensors, given)]
        args = _ADAM.pack(block, _DECOUPLED if decoupled else 0, len(given), packed[0],
                          _GROUP.size, pack(block, visible, "visible"))
        check(lib.gsc_adam_step(block.context, args, block.stream))
