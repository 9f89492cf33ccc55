"""A whole training step in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._abi import CONSTANTS
from ._arrays import convert, pack_output
from ._call import Descriptor, call
from ._context import begin
from ._errors import ArgumentTypeError, argument_error
from ._fields import GRAD_NAMES, GRADS, OUTPUT_NAMES, OUTPUTS, RasterGrads, RasterOutputs
from ._lib import check, lib
from ._ops import LOSS_DEFAULTS, check_group, fill, group_numbers, pack_loss
from ._raster import GRAD2D_NDC
from ._result import TrainStep
from ._scene import grad_of, make_outputs, output_of, pack_outputs, scene_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import Array, Out, TrainArgs, TrainGroup, Unpack

_TRAIN = Descriptor("gsc_train_args")
_GROUP = Descriptor("gsc_train_group")
_PARAMETERS = {name[len("GSC_PARAMETER_"):].lower(): value for name, value in CONSTANTS.items()
               if name.startswith("GSC_PARAMETER_")}
_KEYS = tuple(name for name in _GROUP.fields if name not in ("parameter", "reserved"))
_DECOUPLED = CONSTANTS["GSC_TRAIN_DECOUPLED"]
_ALL_ROWS = CONSTANTS["GSC_TRAIN_ALL_ROWS"]


def train_step(
    *,
    target: Array,
    groups: Mapping[str, TrainGroup],
    mask: Array | None = None,
    grad_scale: float = 1.0,
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
    **args: Unpack[TrainArgs],
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
        wrt: other gradients wanted, see RasterGrads: means2d and means2d_abs, or those with
            respect to the camera or to parameters without a group.
        grad_alpha, grad_depth, grad_inv_depth: derivatives with respect to those outputs,
            added to the loss's.
        grad2d_ndc: means2d and means2d_abs in units of half the image, not pixels.
        out: arrays to write into: loss, parts, and outputs by name; out_grads: gradients.
        stream: as in ``rasterize``.
        args: the scene and the camera, as in ``rasterize``; log_scales and logit_opacities
            where the parameters are those that are trained.

    Returns:
        TrainStep: loss [], parts [3], outputs, grads.
    """
    scene: dict = dict(args)
    loss_args = {name: scene.pop(name) for name in LOSS_DEFAULTS if name in scene}
    loss_args = fill("train_step", loss_args, LOSS_DEFAULTS)
    numbers, tensors = scene_fields("train_step", scene, GRAD2D_NDC if grad2d_ndc else 0)
    with call("train_step") as block:
        begin(block, scene["means"], "means", stream)
        count, packed_groups = _pack_groups(block, groups)
        for name in groups:
            if scene.get(name) is not None:
                pack_output(block, scene[name], name)  # checks that it may be written
        raster = block.arrays.pack_fields(block, numbers, tensors)
        loss_out = dict(out or {})
        raster_out = {name: loss_out.pop(name) for name in list(loss_out) if name in OUTPUT_NAMES}
        images = make_outputs(block, "outputs", outputs, raster_out, OUTPUT_NAMES,
                              lambda name: output_of(numbers, tensors, name))
        losses = make_outputs(block, "parts", ("loss", "parts") if parts else ("loss",),
                              loss_out, {"loss": (None, ()), "parts": (None, (3,))})
        grads = make_outputs(block, "wrt", wrt, out_grads, GRAD_NAMES,
                             lambda name: grad_of(tensors, name))
        upstream = {"alpha": grad_alpha, "depth": grad_depth, "inv_depth": grad_inv_depth}
        loss = pack_loss(block, target, mask, grad_scale, loss_args,
                         pack_outputs(block, losses))
        flags = (_DECOUPLED if decoupled else 0) | (_ALL_ROWS if all_rows else 0)
        packed = _TRAIN.pack(block, flags, count, packed_groups, _GROUP.size, raster, loss,
                             block.arrays.pack_named(block, OUTPUTS, images),
                             block.arrays.pack_named(block, GRADS, grads, upstream), 0, 0)
        check(lib.gsc_train_step(block.context, packed, block.stream))
        losses = convert(block, losses, loss_out)
        return TrainStep(losses["loss"], losses.get("parts"),
                         RasterOutputs(convert(block, images, raster_out)),
                         RasterGrads(convert(block, grads, out_grads)))


def _pack_groups(block, groups):
    """(number, address) of the groups."""
    if not hasattr(groups, "items"):
        raise ArgumentTypeError(f"groups is {type(groups).__name__}, expected groups by parameter")
    tensors = []
    for name, group in groups.items():
        if name not in _PARAMETERS:
            raise argument_error("INVALID_ARGUMENT",
                                 f"groups has {name!r}, expected any of {', '.join(_PARAMETERS)}")
        check_group(f"groups[{name!r}]", group, ("moment1", "moment2", "lr"), _KEYS)
        tensors.append((pack_output(block, group["moment1"], f"moment1 of {name}"),
                        pack_output(block, group["moment2"], f"moment2 of {name}")))
    # The groups follow each other without a gap: nothing else is packed in between.
    packed = []
    for two, (name, group) in zip(tensors, groups.items()):
        lr, *numbers = group_numbers(group)
        packed.append(_GROUP.pack(block, *two, _PARAMETERS[name], lr, *numbers, 0))
    return len(packed), packed[0] if packed else 0
