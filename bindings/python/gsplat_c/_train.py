"""A whole training step in one call."""

from __future__ import annotations

from ._abi import CONSTANTS
from ._arrays import Packed, convert, pack, pack_image, pack_output, shape_of
from ._call import Descriptor, call
from ._context import begin
from ._errors import argument_error
from ._lib import check, lib
from ._ops import _LOSS, _VALID, _window
from ._raster import _GRADS, GRAD2D_NDC, GRAD_NAMES, _grad_shape, _need
from ._result import RasterGrads, RasterOutputs, TrainStep
from ._scene import (
    _SMALLEST,
    OUTPUT_NAMES,
    OUTPUTS,
    Frame,
    make_outputs,
    number,
    pack_fields,
    raster_fields,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

    from typing_extensions import Unpack

    from ._types import Array, Out, RasterArgs, TrainGroup

_TRAIN = Descriptor("gsc_train_args")
_GROUP = Descriptor("gsc_train_group")
_PARAMETERS = {name[len("GSC_PARAMETER_"):].lower(): value for name, value in CONSTANTS.items()
               if name.startswith("GSC_PARAMETER_")}
_KEYS = frozenset(name for name in _GROUP.fields if name not in ("parameter", "reserved"))
_DECOUPLED = CONSTANTS["GSC_TRAIN_DECOUPLED"]
_ALL_ROWS = CONSTANTS["GSC_TRAIN_ALL_ROWS"]


def train_step(
    *,
    target: Array,
    groups: Mapping[str, TrainGroup],
    mask: Array | None = None,
    l1_weight: float = 0.8,
    l2_weight: float = 0.0,
    ssim_weight: float = 0.2,
    grad_scale: float = 1.0,
    window: int | None = None,
    sigma: float | None = None,
    c1: float | None = None,
    c2: float | None = None,
    valid: bool = False,
    decoupled: bool = False,
    all_rows: bool = False,
    parts: bool = False,
    outputs: Sequence[str] = (),
    wrt: Sequence[str] = (),
    grad_alpha: Array | None = None,
    grad_depth: Array | None = None,
    grad_inv_depth: Array | None = None,
    grad2d_ndc: bool = False,
    out: Out | None = None,
    out_grads: Out | None = None,
    stream: int | None = None,
    **args: Unpack[RasterArgs],
) -> TrainStep:
    """Forward, image loss, backward and Adam for one camera, in place, in one call.

    What comes out is what ``rasterize_forward``, ``image_loss``, ``rasterize_backward`` and
    ``adam_step(visible=radii > 0)`` give, but the gradients of the scene are never in
    memory.  Rows that the camera sees are stepped in full, with gradient 0 where they have
    none, as coefficients beyond sh_degree.

    Args:
        target: shaped as the colour output, any strides; float32, or uint8 read as
            value / 255.
        groups: by parameter (means, opacities, scales, rotations, covariances, colors of
            3 channels, sh, sh_dc) mappings with moment1 and moment2, shaped as it and zero
            before the first step, and lr; and, where not the default, beta1, beta2,
            epsilon, weight_decay and step, as in ``adam_step``.  Parameters and moments
            must be dense and writable; what has no group stays as it is.
        mask, l1_weight, l2_weight, ssim_weight, grad_scale, window, sigma, c1, c2, valid:
            as in ``image_loss``.
        decoupled: weight decay as in AdamW.
        all_rows: step every row, seen or not, as Adam without ``visible``.
        parts: compute the parts of the loss, too.
        outputs: names of images and lists wanted, see RasterOutputs; of the scene before
            the step.
        wrt: other gradients wanted, see RasterGrads: means2d and means2d_abs, those by the
            camera, or by parameters without a group.
        grad_alpha, grad_depth, grad_inv_depth: derivatives by those outputs that are added
            to the loss's.
        grad2d_ndc: means2d and means2d_abs in units of half the image, not pixels.
        out: arrays to write into: loss, parts, and outputs by name; out_grads: gradients.
        stream: as in ``rasterize``.
        args: the scene and the camera, as in ``rasterize``; log_scales and logit_opacities
            where the parameters are those that are trained.

    Returns:
        TrainStep: loss [], parts [3], outputs, grads.
    """
    _need(args, "train_step")
    with call("train_step") as block:
        like = args["means"]
        arrays, _, handle = begin(block, like, "means", stream)
        written = {name: _pack_parameter(block, args[name], name) for name in groups
                   if name in _PARAMETERS and args.get(name) is not None}
        count, packed_groups = _pack_groups(block, groups)
        raster = pack_fields(block, *raster_fields(GRAD2D_NDC if grad2d_ndc else 0,
                                                   **{**args, **written}))
        losses, loss_out = ["loss", "parts"] if parts else ["loss"], dict(out or {})
        raster_out = {name: loss_out.pop(name) for name in list(loss_out) if name in OUTPUT_NAMES}
        drawn, drawn_at = make_outputs(block, arrays, like, outputs, raster_out, OUTPUT_NAMES,
                                       Frame.of(args).output)
        losses, losses_at = make_outputs(
            block, arrays, like, losses, loss_out, ("loss", "parts"),
            lambda name: (None, () if name == "loss" else (3,)))
        grads, grads_at = make_outputs(block, arrays, like, wrt, out_grads, GRAD_NAMES,
                                       lambda name: (None, _grad_shape(args, name)))
        for name, value in (("alpha", grad_alpha), ("depth", grad_depth),
                            ("inv_depth", grad_inv_depth)):
            if value is not None:
                grads_at[name] = pack(block, value, f"grad_{name}")
        loss = _LOSS.pack(block, _VALID if valid else 0, *_window(window, sigma),
                          number(c1, _SMALLEST), number(c2, _SMALLEST), l1_weight, l2_weight,
                          ssim_weight, number(grad_scale, _SMALLEST), 0, 0,
                          pack_image(block, target, "target"), pack_image(block, mask, "mask"),
                          losses_at["loss"], losses_at.get("parts", 0), 0)
        flags = (_DECOUPLED if decoupled else 0) | (_ALL_ROWS if all_rows else 0)
        packed = _TRAIN.pack(block, flags, count, packed_groups, _GROUP.size, raster, loss,
                             OUTPUTS.pack_named(block, drawn_at),
                             _GRADS.pack_named(block, grads_at), 0, 0)
        check(lib.gsc_train_step(handle, packed, block.stream))
        losses = convert(arrays, losses, like, loss_out)
        return TrainStep(losses["loss"], losses.get("parts"),
                         RasterOutputs(convert(arrays, drawn, like, raster_out)),
                         RasterGrads(convert(arrays, grads, like, out_grads)))


def _pack_parameter(block, value, name):
    return Packed(pack_output(block, value, name), shape_of(value))


def _pack_groups(block, groups):
    """(number, address) of the groups."""
    tensors = []
    for name, group in groups.items():
        if name not in _PARAMETERS:
            raise argument_error("INVALID_ARGUMENT",
                                 f"groups has {name!r}, expected any of {', '.join(_PARAMETERS)}")
        unknown = [key for key in group if key not in _KEYS]
        missing = [key for key in ("moment1", "moment2", "lr") if key not in group]
        if unknown or missing:
            word, keys = ("unknown", unknown) if unknown else ("missing", missing)
            raise argument_error("INVALID_ARGUMENT", f"groups[{name!r}] has {word} {keys[0]!r}")
        tensors.append((pack_output(block, group["moment1"], f"moment1 of {name}"),
                        pack_output(block, group["moment2"], f"moment2 of {name}")))
    # The groups follow each other without a gap: nothing else is packed in between.
    packed = [_GROUP.pack_plain(block, *two, _PARAMETERS[name], group["lr"],
                                number(group.get("beta1"), -1.0), number(group.get("beta2"), -1.0),
                                number(group.get("epsilon"), -1.0),
                                group.get("weight_decay", 0.0), group.get("step", 0), 0)
              for two, (name, group) in zip(tensors, groups.items())]
    return len(packed), packed[0] if packed else 0
