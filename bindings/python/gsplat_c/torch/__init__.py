"""Functions with gradients for torch; ``import gsplat_c.torch`` brings them.

They take and return torch tensors on one device, on which they use the current
stream.  Gradients are computed for exactly the inputs that require them, and only
once: they cannot be differentiated again.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from . import _ops, _raster
from ._errors import argument_error
from ._result import RasterOutputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Sequence

    from torch import Tensor
    from typing_extensions import Unpack

    from ._types import RasterArgs

__all__ = ["SelectiveAdam", "image_loss", "rasterize", "ssim"]

_SINKS = ("means2d", "means2d_abs")
_INPUTS = ("means", "opacities", "scales", "rotations", "covariances", "colors", "sh", "sh_dc",
           "view", "position", "background")
_SAVED = (*_INPUTS, "projection", "intrinsics")  # what backward reads
_CONSTANT = ("projection", "intrinsics", "pixel_weights")
_DIFFERENTIABLE = ("color", "alpha", "depth", "inv_depth")


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, args, outputs, grad2d_ndc, *tensors):
        named = dict(zip((*_INPUTS, *_SINKS), tensors))
        sinks = {name: named.pop(name) for name in _SINKS}
        args = {**args, **{name: tensor for name, tensor in named.items() if tensor is not None}}
        result, saved = _raster.rasterize_forward(outputs=outputs, **args)

        kept = [args.pop(name, None) for name in _SAVED]
        # Lists of numbers stay in args, for only tensors can be saved.
        for index, name in enumerate(_SAVED):
            if kept[index] is not None and not isinstance(kept[index], torch.Tensor):
                args[name], kept[index] = kept[index], None
        args.pop("pixel_weights", None)
        ctx.save_for_backward(saved.state, saved.intersections, *kept)
        ctx.args, ctx.info, ctx.names = args, saved.info, tuple(result.asdict())
        ctx.sinks = {name: (sink.shape, sink.dtype) for name, sink in sinks.items()
                     if sink is not None}
        ctx.grad2d_ndc = grad2d_ndc
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(value for name, value in result.asdict().items() if name not in _DIFFERENTIABLE))
        return tuple(result)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        names = (*_INPUTS, *_SINKS)
        wrt = [name for name, need in zip(names, ctx.needs_input_grad[3:]) if need]
        upstream = {f"grad_{name}": grad for name, grad in zip(ctx.names, grads)
                    if name in _DIFFERENTIABLE and grad is not None}
        if not wrt or not upstream:
            return (None,) * (3 + len(names))
        state, intersections, *kept = ctx.saved_tensors
        args = {**ctx.args,
                **{name: tensor for name, tensor in zip(_SAVED, kept) if tensor is not None}}
        out = {name: torch.empty(shape, dtype=dtype, device=state.device)
               for name, (shape, dtype) in ctx.sinks.items() if name in wrt}
        result = _raster.rasterize_backward(
            _raster.SavedRaster(state, intersections, ctx.info), wrt=wrt, out=out,
            grad2d_ndc=ctx.grad2d_ndc, **upstream, **args)
        found = result.asdict()
        return (None, None, None, *(found.get(name) for name in names))


def rasterize(
    *,
    outputs: Sequence[str] = ("color",),
    means2d: Tensor | None = None,
    means2d_abs: Tensor | None = None,
    grad2d_ndc: bool = False,
    **args: Unpack[RasterArgs],
) -> RasterOutputs:
    """``gsplat_c.rasterize`` with gradients.

    Differentiable are the outputs color, alpha, depth and inv_depth, by means,
    opacities, scales, rotations, covariances, colors, sh, sh_dc, view, position and
    background, each [shape] as in ``gsplat_c.rasterize``.

    Args:
        outputs: names of the results wanted, see RasterOutputs.
        means2d: float32 [C, N, 2] or [C, N, 3] that requires grad; its values are not
            read, its gradient becomes the derivative by the projected centres (third
            is 0), in pixels.
        means2d_abs: the same for the sum over the pixels of absolute derivatives.
        grad2d_ndc: both in units of half the image instead.
        args: as in ``gsplat_c.rasterize``.

    Returns:
        RasterOutputs: what was asked for, by name or by unpacking.

    Raises:
        ArgumentError: as ``gsplat_c.rasterize``; also for projection, intrinsics or
            pixel_weights that require grad, which have none.
    """
    if isinstance(outputs, str):
        outputs = (outputs,)
    tensors = [args.get(name) for name in _INPUTS]
    tensors += [means2d, means2d_abs]
    if not torch.is_grad_enabled() or not any(_needs_grad(value) for value in tensors):
        return _raster.rasterize(outputs=outputs, **args)
    for name in _CONSTANT:
        if _needs_grad(args.get(name)):
            raise argument_error("INVALID_ARGUMENT", f"rasterize: {name} requires grad, but has no "
                                                     "gradient: detach() it")
    plain = dict(args)
    for index, name in enumerate(_INPUTS):
        if isinstance(tensors[index], torch.Tensor):
            del plain[name]
        else:
            tensors[index] = None
    values = _Rasterize.apply(plain, tuple(outputs), grad2d_ndc, *tensors)
    return RasterOutputs(dict(zip(outputs, values)))


def _needs_grad(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


class _Ssim(torch.autograd.Function):
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
    window: int | None = None,
    sigma: float | None = None,
    c1: float | None = None,
    c2: float | None = None,
    valid: bool = False,
    map: bool = False,
) -> Tensor:
    """Structural similarity with gradients by both images; arguments as ``gsplat_c.ssim``.

    Returns:
        The mean [], or with ``map`` the map [B, C, H, W].
    """
    options = {"window": window, "sigma": sigma, "c1": c1, "c2": c2, "valid": valid}
    return _Ssim.apply(image, target, "map" if map else "mean", options)


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
    l1_weight: float = 0.8,
    l2_weight: float = 0.0,
    ssim_weight: float = 0.2,
    window: int | None = None,
    sigma: float | None = None,
    c1: float | None = None,
    c2: float | None = None,
    valid: bool = False,
    return_parts: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``gsplat_c.image_loss`` with the gradient by image, made together with the value.

    Returns:
        The loss []; with ``return_parts`` also [3]: mean absolute difference, mean
        squared difference and mean SSIM, without gradient.
    Raises:
        ArgumentError: as ``gsplat_c.image_loss``; also if target or mask requires grad.
    """
    for name, value in (("target", target), ("mask", mask)):
        if _needs_grad(value) and torch.is_grad_enabled():
            raise argument_error("INVALID_ARGUMENT", f"image_loss: {name} requires grad, but has "
                                                     "no gradient: detach() it")
    options = {"mask": mask, "l1_weight": l1_weight, "l2_weight": l2_weight,
               "ssim_weight": ssim_weight, "window": window, "sigma": sigma, "c1": c1, "c2": c2,
               "valid": valid}
    loss, parts = _ImageLoss.apply(image, target, options)
    return (loss, parts) if return_parts else loss


class SelectiveAdam(torch.optim.Optimizer):
    """Adam whose step may leave out rows, as training of 3D Gaussians does for unseen ones.

    Args:
        params: parameters or groups of them, as for torch.optim.Adam; dense, float32.
        lr, betas, eps: as for torch.optim.Adam.
        bias_correction: divide the moments by 1 - beta^step; off, as in 3DGS training.

    The state of a parameter is ``exp_avg``, ``exp_avg_sq`` and ``step``.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        bias_correction: bool = False,
    ):
        if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"SelectiveAdam: lr {lr}, betas {betas}, eps {eps}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "bias_correction": bias_correction})

    @torch.no_grad()
    def step(self, closure=None, *, visible: Tensor | None = None):
        """One step, for every parameter with a gradient.

        Args:
            closure: evaluates the loss again and returns it.
            visible: [N] bool, uint8 or int32; rows with 0 keep parameter and moments.
                Every parameter must then have N rows.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        packed = [self._packed(parameter, group) for group in self.param_groups
                  for parameter in group["params"] if parameter.grad is not None]
        _ops.adam_step(packed, visible=visible)
        return loss

    def _packed(self, parameter, group):
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
            state["exp_avg_sq"] = torch.zeros_like(state["exp_avg"])
        state["step"] += 1
        beta1, beta2 = group["betas"]
        return {"parameter": parameter, "gradient": parameter.grad, "moment1": state["exp_avg"],
                "moment2": state["exp_avg_sq"], "lr": group["lr"], "beta1": beta1, "beta2": beta2,
                "epsilon": group["eps"],
                "step": int(state["step"]) if group["bias_correction"] else 0}
