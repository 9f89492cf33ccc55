"""The rasterizer as operators of torch.library, which torch.compile leaves whole.

Every value is an argument of its own, tensors and numbers alike; forward returns the outputs
asked for, then the saved state: two byte buffers and the plain numbers beside them.  Backward is
an operator too.  Eager code does not come here: an autograd.Function costs a third of this.

The data decide how large those buffers are, and a graph with such sizes needs a setting of the
user's (capture_dynamic_output_shape_ops).  So each is returned as an empty view whose storage is
the whole buffer.  Whoever copies the view, as hooks on saved tensors may, loses that; then
backward sees a storage that is too short and runs forward again.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _raster
from .._fields import DIFFERENTIABLE, FIELDS, FLAGS, NUMBERS, REQUIRED, SINKS, TENSORS
from .._forward import INFO, SavedRaster
from .._scene import Frame

# Tensors that must be given come first, in a schema.
_GIVEN = sorted(TENSORS, key=lambda name: name not in REQUIRED)
_REQUIRED = sum(name in REQUIRED for name in _GIVEN)
_TENSORS = (*_GIVEN, *SINKS)
_INTEGERS = ("width", "height", "sh_degree")
_NUMBERS = tuple(name for name in NUMBERS if name not in ("flags", *_INTEGERS))
_FLAGS = (*FLAGS, "grad2d_ndc")
_SCALARS = (*_INTEGERS, *_NUMBERS, *_FLAGS)
_INFO_FIELDS = len(INFO.fields) - 1
_BUFFERS = 2
_NUMBERS_SAVED = 32  # with room, for torch's caches of compiled graphs outlive our versions
# Forward waits for the device, which the capture of a CUDA graph does not allow.
_TAGS: dict[str, Any] = {"tags": (torch.Tag.cudagraph_unsafe,)} if hasattr(
    torch.Tag, "cudagraph_unsafe") else {}

_SCALARS_SCHEMA = ", ".join([
    "SymInt width", "SymInt height", "int? sh_degree", *(f"float? {name}" for name in _NUMBERS),
    *(f"bool {name}" for name in _FLAGS)])


def _schema(first, tensors, last):
    """The text of an operator's schema: the first tensors, optional ones, scalars, names."""
    return (f"({', '.join([*first, *(f'Tensor? {name}' for name in tensors)])}, "
            f"{_SCALARS_SCHEMA}, {last}) -> Tensor[]")


def _arguments(tensors, scalars):
    """Keyword arguments of the plain functions."""
    args = {name: value for name, value in zip(_GIVEN, tensors) if value is not None}
    args.update((name, value) for name, value in zip(_SCALARS, scalars) if value is not None)
    return args, args.pop("grad2d_ndc")


def _handle(memory):
    return memory.as_strided((0,), (1,), 0)


def _whole(handle, size):
    """The buffer of a handle; None if that is a copy."""
    storage = handle.untyped_storage()
    start = -storage.data_ptr() % 256  # where TorchArrays.bytes() lets it begin
    return handle.as_strided((size,), (1,), start) if storage.nbytes() >= start + size else None


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _forward(*values):
    *values, outputs = values
    tensors, scalars = values[:len(_TENSORS)], values[len(_TENSORS):]
    args, _ = _arguments(tensors, scalars)
    out = None
    if "radii_xy" in outputs:
        lead = args["view"].shape[:-2]
        out = {"radii": args["means"].new_empty((*lead, args["means"].shape[0], 2),
                                                dtype=torch.int32)}
        outputs = ["radii" if name == "radii_xy" else name for name in outputs]
    result, saved = _raster.rasterize_forward(outputs=outputs, out=out, **args)
    buffers = (saved.state, saved.lists if saved.lists is not None else saved.state[:0].clone())
    info = [*(memory.numel() for memory in buffers), *map(_signed, saved.info)]
    info += [0] * (_NUMBERS_SAVED - len(info))
    return [*result, *map(_handle, buffers), torch.tensor(info, dtype=torch.int64)]


def _forward_shapes(*values):
    *values, outputs = values
    tensors, scalars = values[:len(_TENSORS)], values[len(_TENSORS):]
    args, _ = _arguments(tensors, scalars)
    frame, means, made = Frame(args), args["means"], []
    for name in outputs:
        if name == "radii_xy":
            dtype, shape = frame.output("radii")
            shape = (*shape, 2)
        else:
            dtype, shape = frame.output(name)
        made.append(means.new_empty(shape, dtype=means.dtype if dtype is None else torch.int32))
    made += [means.new_empty(0, dtype=torch.uint8) for _ in range(_BUFFERS)]
    return [*made, torch.empty(_NUMBERS_SAVED, dtype=torch.int64)]


def _backward(*values):
    """values: state, intersections, info, upstream, given tensors, scalars, sink widths, wrt."""
    state, intersections, info, *values = values
    *values, widths, wrt = values
    upstream, tensors = values[:len(DIFFERENTIABLE)], values[len(DIFFERENTIABLE):][:len(_GIVEN)]
    args, ndc = _arguments(tensors, values[len(DIFFERENTIABLE) + len(_GIVEN):])
    args.pop("pixel_weights", None)
    out = {name: args["means"].new_empty((*args["view"].shape[:-2], args["means"].shape[0], width))
           for name, width in zip(SINKS, widths) if name in wrt}
    saved = _saved(state, intersections, info.tolist())
    if saved is None:
        _, saved = _raster.rasterize_forward(**args)
    result = _raster.rasterize_backward(
        saved, wrt=wrt, out=out, grad2d_ndc=ndc,
        **{f"grad_{name}": grad for name, grad in zip(DIFFERENTIABLE, upstream)}, **args)
    return [getattr(result, name) for name in wrt]


def _saved(state, intersections, numbers):
    """What forward saved; None if it is lost."""
    sizes, info = numbers[:_BUFFERS], numbers[_BUFFERS:_BUFFERS + _INFO_FIELDS]
    buffers = [*map(_whole, (state, intersections), sizes)]
    if any(memory is None for memory in buffers):
        return None
    state, lists = buffers
    return SavedRaster(state, lists if sizes[1] else None,
                       tuple(value & (1 << 64) - 1 for value in info))


def _backward_shapes(*values):
    *values, widths, wrt = values
    args = dict(zip(_GIVEN, values[3 + len(DIFFERENTIABLE):]))
    means, view = args["means"], args["view"]
    sinks = {name: (*view.shape[:-2], means.shape[0], width)
             for name, width in zip(SINKS, widths)}
    return [means.new_empty(sinks[name] if name in sinks else args[name].shape) for name in wrt]


_op = torch.library.custom_op(
    "gsplat_c::rasterize", _forward, mutates_args=(), **_TAGS,
    schema=_schema([f"Tensor {name}" for name in _GIVEN[:_REQUIRED]],
                   _TENSORS[_REQUIRED:], "str[] outputs"))
_op.register_fake(_forward_shapes)
_backward_op = torch.library.custom_op(
    "gsplat_c::rasterize_backward", _backward, mutates_args=(),
    schema=_schema(["Tensor state", "Tensor intersections", "Tensor info",
                    *(f"Tensor? grad_{name}" for name in DIFFERENTIABLE),
                    *(f"Tensor {name}" for name in _GIVEN[:_REQUIRED])],
                   _GIVEN[_REQUIRED:], "int[] widths, str[] wrt"))
_backward_op.register_fake(_backward_shapes)


def _save(ctx, inputs, output):
    *values, outputs = inputs
    tensors, ctx.scalars = values[:len(_TENSORS)], values[len(_TENSORS):]
    ctx.outputs = outputs
    ctx.widths = [0 if sink is None else sink.shape[-1] for sink in tensors[len(_GIVEN):]]
    ctx.save_for_backward(*output[-3:], *tensors[:len(_GIVEN)])
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(
        *(value for name, value in zip(outputs, output) if name not in DIFFERENTIABLE),
        *output[-3:])


def _gradients(ctx, grads):
    wrt = [name for name, need in zip(_TENSORS, ctx.needs_input_grad) if need]
    upstream = dict(zip(ctx.outputs, grads))
    upstream = [upstream.get(name) for name in DIFFERENTIABLE]
    nothing = [None] * (len(_SCALARS) + 1)
    if not wrt or all(grad is None for grad in upstream):
        return (*[None] * len(_TENSORS), *nothing)
    state, intersections, info, *tensors = ctx.saved_tensors
    found = dict(zip(wrt, _backward_op(state, intersections, info, *upstream, *tensors,
                                       *ctx.scalars, ctx.widths, wrt)))
    return (*(found.get(name) for name in _TENSORS), *nothing)


_op.register_autograd(_gradients, setup_context=_save)


def rasterize(outputs, grad2d_ndc, sinks, args):
    """The outputs in order; arguments as of gsplat_c.torch.rasterize, checked by it."""
    unknown = [name for name in args if name not in FIELDS]
    if unknown:
        raise TypeError(f"rasterize() got an unexpected keyword argument {unknown[0]!r}")
    means = args["means"]
    tensors = []
    for name in _GIVEN:
        value = args.get(name)
        if value is not None and not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value, dtype=means.dtype)
        tensors.append(value)
    scalars = [args["width"], args["height"], args.get("sh_degree")]
    for name in _NUMBERS:
        value = args.get(name)
        scalars.append(None if value is None else float(value))
    scalars += [bool(args.get(name, False)) for name in _FLAGS[:-1]] + [bool(grad2d_ndc)]
    result = _op(*tensors, sinks["means2d"], sinks["means2d_abs"], *scalars, list(outputs))
    return result[:len(outputs)]
