"""The rasterizer with gradients: recording what a forward call did in torch's graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _raster
from .._errors import argument_error
from .._fields import (
    CONSTANT,
    DIFFERENTIABLE,
    FIELDS,
    INPUTS,
    SINKS,
    TENSORS,
    RasterOutputs,
    documented,
)
from .._forward import SavedRaster
from .._scene import scene_fields
from . import _support

if _support.HAS_OPS:
    from . import _raster_ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import RasterArgs, Unpack

_NAMES = (*TENSORS, *SINKS)
_MEANS, _WEIGHTS = FIELDS["means"].place, FIELDS["pixel_weights"].place


class Run:
    """A forward call that is done, before it is in the graph."""

    __slots__ = ("numbers", "tensors", "values", "saved")

    def __init__(self, args, outputs, out=None, flags=0):
        """args: as of rasterize_forward; outputs: names; out: given arrays, by name."""
        self.numbers, self.tensors = scene_fields("rasterize", args, flags)
        self.values, self.saved = _raster.forward_packed(
            "rasterize", self.numbers, self.tensors, outputs, out, recorded=True)

    def record(self, sinks):
        """The outputs by name, now with a gradient.  sinks: tensors of SINKS, by name."""
        values = _Rasterize.apply(self, *self.tensors, *(sinks.get(name) for name in SINKS))
        return dict(zip(self.values, values))


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, *tensors):
        sinks, tensors = tensors[len(TENSORS):], list(tensors[:len(TENSORS)])
        tensors[_WEIGHTS] = None  # which backward does not read
        means, saved, values = tensors[_MEANS], run.saved, run.values
        ctx.save_for_backward(saved.state, saved.lists, *[
            value if value is None else _support.as_tensor(value, means) for value in tensors])
        ctx.info, ctx.numbers, ctx.names = saved.info, run.numbers, tuple(values)
        ctx.sinks = {name: (sink.shape, sink.dtype)
                     for name, sink in zip(SINKS, sinks) if sink is not None}
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(
            *(value for name, value in values.items() if name not in DIFFERENTIABLE))
        return tuple(values.values())

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        wrt = [name for name, need in zip(_NAMES, ctx.needs_input_grad[1:]) if need]
        upstream = {name: grad for name, grad in zip(ctx.names, grads) if grad is not None}
        found = {}
        if wrt and upstream:
            state, lists, *tensors = ctx.saved_tensors
            out = {name: torch.empty(shape, dtype=dtype, device=state.device)
                   for name, (shape, dtype) in ctx.sinks.items() if name in wrt}
            found = _raster.backward_packed(SavedRaster(state, lists, ctx.info), ctx.numbers,
                                            tensors, wrt, upstream, out)
        return (None, *map(found.get, _NAMES))


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
        args: as in ``gsplat_c.rasterize``; torch.use_deterministic_algorithms(True) turns
            deterministic on.

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
    if torch.are_deterministic_algorithms_enabled():
        args = {**args, "deterministic": True}
    flags = _raster.GRAD2D_NDC if grad2d_ndc else 0
    if _support.is_compiling():
        values = _raster_ops.rasterize(outputs, flags, sinks, args)
        return RasterOutputs(dict(zip(outputs, values)))
    if not records and not _support.may_have_tangents():
        return _raster.rasterize(outputs=outputs, **args)
    return RasterOutputs(Run(args, outputs, flags=flags).record(sinks))
