"""SSIM and the image loss with gradients, as functions and as modules."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _ops
from .._errors import argument_error
from . import _support

if _support.HAS_OPS:
    from . import _image_ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import LossArgs, SsimArgs, Unpack


class Ssim(torch.autograd.Function):
    """The mean or the map of SSIM, which ``kind`` names, in torch's graph."""

    @staticmethod
    def forward(ctx, image, target, kind, options):
        ctx.save_for_backward(image, target)
        ctx.kind, ctx.options = kind, options
        return getattr(_ops.ssim(image, target, outputs=(kind,), **options), kind)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        image, target = ctx.saved_tensors
        wrt = [name for name, need in zip(("image", "target"), ctx.needs_input_grad) if need]
        found = _ops.ssim_backward(image, target, wrt=wrt, **{f"grad_{ctx.kind}": grad},
                                   **ctx.options).asdict()
        return found.get("image"), found.get("target"), None, None


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
    if _support.is_compiling():
        return _image_ops.ssim(image, target, *given.values(), kind)
    return Ssim.apply(image, target, kind, given)


class _ImageLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, image, target, options):
        wanted = ("loss", "parts", "grad_image") if ctx.needs_input_grad[0] else ("loss", "parts")
        result = _ops.image_loss(image, target, outputs=wanted, **options)
        if "grad_image" in result:
            ctx.save_for_backward(result.grad_image)
        ctx.mark_non_differentiable(result.parts)
        return result.loss, result.parts

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        return ctx.saved_tensors[0] * grad, None, None


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
    if _support.is_compiling():
        loss, parts = _image_ops.image_loss(image, target, mask, given)
    else:
        loss, parts = _ImageLoss.apply(image, target, {"mask": mask, **given})
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
