"""SSIM, the image loss and Adam as operators of torch.library, for torch.compile."""

from __future__ import annotations

import torch

from .. import _ops

_WINDOW = "int? window, float? sigma, float? c1, float? c2, bool valid"


_OPTIONS = tuple(_ops.SSIM_DEFAULTS)  # in the order of _WINDOW


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


def _ssim_backward_shapes(image, target, grad, wrt, *options):
    return [image.new_empty(image.shape) for _ in wrt]


_ssim_op = torch.library.custom_op(
    "gsplat_c::ssim", _ssim, mutates_args=(),
    schema=f"(Tensor image, Tensor target, {_WINDOW}, str kind) -> Tensor")
_ssim_op.register_fake(_ssim_shape)
_ssim_backward_op = torch.library.custom_op(
    "gsplat_c::ssim_backward", _ssim_backward, mutates_args=(),
    schema="(Tensor image, Tensor target, Tensor grad, str[] wrt, "
           f"{_WINDOW}, str kind) -> Tensor[]")
_ssim_backward_op.register_fake(_ssim_backward_shapes)


def _save_ssim(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.options = inputs[2:]


def _ssim_gradients(ctx, grad):
    names = ("image", "target")
    wrt = [name for name, need in zip(names, ctx.needs_input_grad) if need]
    found = dict(zip(wrt, _ssim_backward_op(*ctx.saved_tensors, grad, wrt, *ctx.options)))
    return (*(found.get(name) for name in names), *[None] * len(ctx.options))


_ssim_op.register_autograd(_ssim_gradients, setup_context=_save_ssim)
ssim = _ssim_op


def _loss(image, target, mask, *values):
    *options, with_grad = values
    wanted = ("loss", "parts", "grad_image") if with_grad else ("loss", "parts")
    result = _ops.image_loss(image, target, mask=mask, outputs=wanted,
                             **dict(zip(_ops.LOSS_DEFAULTS, options)))
    return result.loss, result.parts, result.grad_image if with_grad else image.new_empty(0)


def _loss_shapes(image, target, mask, *values):
    return (image.new_empty(()), image.new_empty(3),
            image.new_empty(image.shape if values[-1] else 0))


_loss_op = torch.library.custom_op(
    "gsplat_c::image_loss", _loss, mutates_args=(),
    schema="(Tensor image, Tensor target, Tensor? mask, float l1_weight, float l2_weight, "
           f"float ssim_weight, {_WINDOW}, bool with_grad) -> (Tensor, Tensor, Tensor)")
_loss_op.register_fake(_loss_shapes)


def _save_loss(ctx, inputs, output):
    ctx.save_for_backward(output[2])
    ctx.rest = len(inputs) - 1
    ctx.mark_non_differentiable(*output[1:])


def _loss_gradients(ctx, grad, *_):
    grad_image, = ctx.saved_tensors
    return (grad_image * grad if ctx.needs_input_grad[0] else None, *[None] * ctx.rest)


_loss_op.register_autograd(_loss_gradients, setup_context=_save_loss)


def image_loss(image, target, mask, options):
    """(loss, parts)."""
    with_grad = image.requires_grad and torch.is_grad_enabled()
    weights = [float(options[name]) for name in _ops.LOSS_DEFAULTS if name not in _OPTIONS]
    return _loss_op(image, target, mask, *weights, *(options[name] for name in _OPTIONS),
                    with_grad)[:2]


def _adam(parameters, gradients, moments1, moments2, visible, numbers, steps):
    groups = [
        {"parameter": parameter, "gradient": gradient, "moment1": moment1, "moment2": moment2,
         "lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "step": step}
        for parameter, gradient, moment1, moment2, lr, beta1, beta2, epsilon, step
        in zip(parameters, gradients, moments1, moments2, *(iter(numbers[i::4]) for i in range(4)),
               steps)]
    _ops.adam_step(groups, visible=visible)


_adam_op = torch.library.custom_op(
    "gsplat_c::adam_step", _adam, mutates_args=("parameters", "moments1", "moments2"),
    schema="(Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] moments1, "
           "Tensor(c!)[] moments2, Tensor? visible, float[] numbers, int[] steps) -> ()")
_adam_op.register_fake(lambda *values: None)


def adam_step(groups, visible):
    """``gsplat_c.adam_step`` of groups that have lr, beta1, beta2, epsilon and step."""
    numbers = [float(group[name]) for group in groups
               for name in ("lr", "beta1", "beta2", "epsilon")]
    _adam_op(*([group[name] for group in groups]
               for name in ("parameter", "gradient", "moment1", "moment2")),
             visible, numbers, [int(group["step"]) for group in groups])
