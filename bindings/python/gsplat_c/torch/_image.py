"""SSIM and the image loss with gradients, as functions and as modules."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import _ops
from .._errors import argument_error
from . import _support

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import LossArgs, SsimArgs, Unpack

_WINDOW = "int? window, float? sigma, float? c1, float? c2, bool valid"
_OPTIONS = tuple(_ops.SSIM_DEFAULTS)  # in the order of _WINDOW
_IMAGES = ("image", "target")


def _ssim(image, target, *values):
    *options, kind = values
    result = _ops.ssim(image, target, outputs=(kind,), **dict(zip(_OPTIONS, options)))
    return getattr(result, kind)


def _ssim_shape(image, target, *values):
    *options, kind = values
    options = dict(zip(_OPTIONS, options))
    return image.new_empty(() if kind == "mean" else _ops.map_shape(
        image, options["window"], options["valid"]))


def _ssim_backward(image, target, grad, wrt, *values):
    *options, kind = values
    return list(_ops.ssim_backward(image, target, wrt=wrt, **{f"grad_{kind}": grad},
                                   **dict(zip(_OPTIONS, options))))


def _save_ssim(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.options = inputs[2:]


def _ssim_gradients(backward, ctx, grad):
    wrt = [name for name, need in zip(_IMAGES, ctx.needs_input_grad) if need]
    found = dict(zip(wrt, backward(*ctx.saved_tensors, grad, wrt, *ctx.options)))
    return (*map(found.get, _IMAGES), *[None] * len(ctx.options))


_ssim_backward_op = _support.operator(
    "ssim_backward", "(Tensor image, Tensor target, Tensor grad, str[] wrt, "
    f"{_WINDOW}, str kind) -> Tensor[]", _ssim_backward,
    lambda image, target, grad, wrt, *options: [image.new_empty(image.shape) for _ in wrt])
#: ssim of two images, window, sigma, c1, c2, valid and "mean" or "map"
_ssim_node = _support.differentiable(
    "ssim", f"(Tensor image, Tensor target, {_WINDOW}, str kind) -> Tensor", _ssim, _ssim_shape,
    _save_ssim, _ssim_gradients, (_ssim_backward, _ssim_backward_op))


def ssim(
    image: Tensor,
    target: Tensor,
    *,
    map: bool = False,
    **options: Unpack[SsimArgs],
) -> Tensor:
    """Structural similarity with gradients for both images; arguments as ``gsplat_c.ssim``.

    Returns:
        The mean [], or with ``map`` the map [B, C, H, W].
    """
    kind = "map" if map else "mean"
    image, target = (_support.full_precision(value, image.device.type)
                     for value in (image, target))
    given = _ops.fill("ssim", options, _ops.SSIM_DEFAULTS)
    return _ssim_node(image, target, *given.values(), kind)


def _loss(image, target, mask, *values):
    *options, with_grad = values
    wanted = ("loss", "parts", "grad_image") if with_grad else ("loss", "parts")
    result = _ops.image_loss(image, target, mask=mask, outputs=wanted,
                             **dict(zip(_ops.LOSS_DEFAULTS, options)))
    return result.loss, result.parts, result.grad_image if with_grad else image.new_empty(0)


def _loss_shapes(image, target, mask, *values):
    return (image.new_empty(()), image.new_empty(3),
            image.new_empty(image.shape if values[-1] else 0))


def _save_loss(ctx, inputs, output):
    ctx.save_for_backward(output[2])
    ctx.rest = len(inputs) - 1
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _loss_gradients(backward, ctx, grad, *_):
    needed = grad is not None and ctx.needs_input_grad[0]
    return (ctx.saved_tensors[0] * grad if needed else None, *[None] * ctx.rest)


_loss_node = _support.differentiable(
    "image_loss", "(Tensor image, Tensor target, Tensor? mask, float l1_weight, float l2_weight, "
    f"float ssim_weight, {_WINDOW}, bool with_grad) -> (Tensor, Tensor, Tensor)", _loss,
    _loss_shapes, _save_loss, _loss_gradients)


def image_loss(
    image: Tensor,
    target: Tensor,
    *,
    mask: Tensor | None = None,
    return_parts: bool = False,
    **options: Unpack[LossArgs],
) -> Tensor | tuple[Tensor, Tensor]:
    """``gsplat_c.image_loss`` with the gradient for image, made together with the value.

    Returns:
        The loss []; with ``return_parts`` also [3]: mean absolute difference, mean
        squared difference and mean SSIM, without gradient.
    Raises:
        ArgumentError: as ``gsplat_c.image_loss``; also if target or mask requires grad.
    """
    for name, value in (("target", target), ("mask", mask)):
        if _support.needs_grad(value) and torch.is_grad_enabled():
            raise argument_error("INVALID_ARGUMENT", f"{name} requires grad, but has no gradient: "
                                                     "detach() it", "image_loss")
    image, target, mask = (_support.full_precision(value, image.device.type)
                           for value in (image, target, mask))
    given = _ops.fill("image_loss", options, _ops.LOSS_DEFAULTS)
    with_grad = image.requires_grad and torch.is_grad_enabled()
    loss, parts, _ = _loss_node(image, target, mask, *given.values(), with_grad)
    return (loss, parts) if return_parts else loss


class SSIM(torch.nn.Module):
    """``gsplat_c.torch.ssim`` as a module.

    Args:
        map, options: as in ``gsplat_c.torch.ssim``.
    """

    def __init__(self, map: bool = False, **options: Unpack[SsimArgs]):
        super().__init__()
        self.map = map
        self.options = _ops.fill("SSIM", options, _ops.SSIM_DEFAULTS)

    def forward(self, image: Tensor, target: Tensor) -> Tensor:
        """The mean [] or the map of images [B, C, H, W]."""
        return ssim(image, target, map=self.map, **self.options)

    def extra_repr(self) -> str:
        return _given({**self.options, "map": self.map})


class ImageLoss(torch.nn.Module):
    """``gsplat_c.torch.image_loss`` as a module; by default the loss that trains 3DGS.

    Args:
        options: l1_weight, .. as in ``gsplat_c.torch.image_loss``.
    """

    def __init__(self, **options: Unpack[LossArgs]):
        super().__init__()
        self.options = _ops.fill("ImageLoss", options, _ops.LOSS_DEFAULTS)

    def forward(self, image: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """The loss [] of images [B, C, H, W]; mask: [B, H, W] or [H, W]."""
        loss = image_loss(image, target, mask=mask, **self.options)
        assert isinstance(loss, torch.Tensor)  # without return_parts
        return loss

    def extra_repr(self) -> str:
        return _given(self.options)


def _given(options):
    return ", ".join(f"{name}={value}" for name, value in options.items()
                     if value not in (None, False))
