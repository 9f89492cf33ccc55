"""The rasterizer with gradients: recording what a forward call did in torch's graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _raster
from .._errors import argument_error, calling
from .._fields import (
    CONSTANT,
    DIFFERENTIABLE,
    INPUTS,
    SINKS,
    TENSORS,
    RasterOutputs,
    documented,
)
from .._forward import SavedRaster
from . import _support

if _support.HAS_OPS:
    from . import _raster_ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import RasterArgs, Unpack

_SAVED = tuple(name for name in TENSORS if name != "pixel_weights")  # what backward reads


class Run:
    """A forward call that is done, before it is in the graph."""

    __slots__ = ("args", "grad2d_ndc", "names", "values", "saved")

    def __init__(self, args, outputs, grad2d_ndc=False, out=None):
        """args: as of rasterize_forward; outputs: names; out: given arrays, by name."""
        with calling("rasterize"), torch.no_grad():
            result, self.saved = _raster.rasterize_forward(outputs=outputs, out=out, **args)
        self.args, self.grad2d_ndc = args, grad2d_ndc
        self.values = result.asdict()
        self.names = tuple(self.values)

    def record(self, sinks):
        """The outputs by name, now with a gradient.  sinks: tensors of SINKS, by name."""
        tensors = [self.args.get(name) for name in INPUTS]
        tensors = [value if isinstance(value, torch.Tensor) else None for value in tensors]
        values = _Rasterize.apply(self, *tensors, *(sinks.get(name) for name in SINKS))
        return dict(zip(self.names, values))


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *tensors):
        args = dict(run.args)
        args.update((name, tensor) for name, tensor in zip(INPUTS, tensors) if tensor is not None)
        kept = [args.pop(name, None) for name in _SAVED]
        # Lists of numbers stay in args, for only tensors can be saved.
        for index, name in enumerate(_SAVED):
            if kept[index] is not None and not isinstance(kept[index], torch.Tensor):
                args[name], kept[index] = kept[index], None
        args.pop("pixel_weights", None)
        saved, values = run.saved, run.values
        ctx.save_for_backward(saved.state, saved.lists, *kept)
        ctx.args, ctx.info, ctx.names = args, saved.info, run.names
        ctx.sinks = {name: (sink.shape, sink.dtype)
                     for name, sink in zip(SINKS, tensors[len(INPUTS):]) if sink is not None}
        ctx.grad2d_ndc = run.grad2d_ndc
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(value for name, value in values.items() if name not in DIFFERENTIABLE))
        return tuple(values.values())

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        names = (*INPUTS, *SINKS)
        wrt = [name for name, need in zip(names, ctx.needs_input_grad[1:]) if need]
        upstream = {f"grad_{name}": grad for name, grad in zip(ctx.names, grads)
                    if name in DIFFERENTIABLE and grad is not None}
        if not wrt or not upstream:
            return (None,) * (1 + len(names))
        state, lists, *kept = ctx.saved_tensors
        args = {**ctx.args,
                **{name: tensor for name, tensor in zip(_SAVED, kept) if tensor is not None}}
        out = {name: torch.empty(shape, dtype=dtype, device=state.device)
               for name, (shape, dtype) in ctx.sinks.items() if name in wrt}
        result = _raster.rasterize_backward(
            SavedRaster(state, lists, ctx.info), wrt=wrt, out=out,
            grad2d_ndc=ctx.grad2d_ndc, **upstream, **args)
        found = result.asdict()
        return (None, *(found.get(name) for name in names))


@documented
def rasterize(
    *,
    outputs: Sequence[str] = ("color",),
    means2d: Tensor | None = None,
    means2d_abs: Tensor | None = None,
    grad2d_ndc: bool = False,
    **args: Unpack[RasterArgs],
) -> RasterOutputs:
    """``gsplat_c.rasterize`` with gradients.

    Gradients flow from {images} to {inputs}, all as in ``gsplat_c.rasterize``.  Under autocast,
    tensors of half precision are used as float32.

    Args:
        outputs: names of the results wanted, see RasterOutputs.
        means2d: float32 [C, N, 2] or [C, N, 3] that requires grad; its values are not
            read, its gradient becomes the derivative with respect to the projected centres
            (third is 0), in pixels.
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
    means = args.get("means")
    if isinstance(means, torch.Tensor):
        args = _support.set_of(args, means.device.type)
    sinks = {"means2d": means2d, "means2d_abs": means2d_abs}
    records = torch.is_grad_enabled() and (
        any(_support.needs_grad(args.get(name)) for name in INPUTS)
        or any(_support.needs_grad(sink) for sink in sinks.values()))
    if records:
        for name in CONSTANT:
            if _support.needs_grad(args.get(name)):
                raise argument_error("INVALID_ARGUMENT", f"{name} requires grad, but has no "
                                     "gradient: detach() it", "rasterize")
    if _support.is_compiling():
        values = _raster_ops.rasterize(tuple(outputs), grad2d_ndc, sinks, args)
        return RasterOutputs(dict(zip(outputs, values)))
    if not records:
        return _raster.rasterize(outputs=outputs, **args)
    return RasterOutputs(Run(args, tuple(outputs), grad2d_ndc).record(sinks))
