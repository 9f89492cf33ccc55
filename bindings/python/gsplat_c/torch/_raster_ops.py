"""The rasterizer as operators of torch.library, which torch.compile leaves whole.

They take the tensors that are given and their names, those of SINKS among them, and the numbers
of the C struct.  Forward returns the outputs asked for, then the saved state: two byte buffers and
the plain numbers beside them.  Backward is an operator too.  Eager code does not come here: an
autograd.Function costs a third of this.

The data decide how large those buffers are, and a graph with such sizes needs a setting of the
user's (capture_dynamic_output_shape_ops).  So each is returned as an empty view whose storage is
the whole buffer.  Whoever copies the view, as hooks on saved tensors may, loses that; then
backward sees a storage that is too short and runs forward again.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _raster
from .._fields import DIFFERENTIABLE, FIELDS, SINKS, TENSORS
from .._forward import INFO, SavedRaster
from .._scene import grad_of, output_of, scene_fields
from ._support import as_tensor

_MEANS, _WEIGHTS = FIELDS["means"].place, FIELDS["pixel_weights"].place
_INFO_FIELDS = len(INFO.fields) - 1
_BUFFERS = 2
_NUMBERS_SAVED = 32  # with room, for torch's caches of compiled graphs outlive our versions
# Forward waits for the device, which the capture of a CUDA graph does not allow.
_TAGS: dict[str, Any] = {"tags": (torch.Tag.cudagraph_unsafe,)} if hasattr(
    torch.Tag, "cudagraph_unsafe") else {}


def _handle(memory):
    return memory.as_strided((0,), (1,), 0)


def _whole(handle, size):
    """The buffer of a handle; None if that is a copy."""
    storage = handle.untyped_storage()
    start = -storage.data_ptr() % 256  # where TorchArrays.bytes() lets it begin
    return handle.as_strided((size,), (1,), start) if storage.nbytes() >= start + size else None


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _packed(values, names, flags, width, height, degree, numbers):
    """(numbers, tensors) as of scene_fields(), widths of the tensors of SINKS by name."""
    values = dict(zip(names, values))
    return ([flags, width, height, degree, *numbers], [values.get(name) for name in TENSORS],
            {name: values[name].shape[-1] for name in SINKS if name in values})


def _output(numbers, tensors, name):
    """(shape, dtype) of an output; radii_xy are the radii with a last dimension of 2."""
    dtype, shape = output_of(numbers, tensors, "radii" if name == "radii_xy" else name)
    return ((*shape, 2) if name == "radii_xy" else shape,
            tensors[_MEANS].dtype if dtype is None else torch.int32)


def _forward(*values):
    *values, outputs = values
    numbers, tensors, _ = _packed(*values)
    out = None
    if "radii_xy" in outputs:
        shape, dtype = _output(numbers, tensors, "radii_xy")
        out = {"radii": tensors[_MEANS].new_empty(shape, dtype=dtype)}
        outputs = ["radii" if name == "radii_xy" else name for name in outputs]
    made, saved = _raster.forward_packed("rasterize", numbers, tensors, outputs, out)
    buffers = (saved.state, saved.lists if saved.lists is not None else saved.state[:0].clone())
    info = [*(memory.numel() for memory in buffers), *map(_signed, saved.info)]
    info += [0] * (_NUMBERS_SAVED - len(info))
    return [*made.values(), *map(_handle, buffers), torch.tensor(info, dtype=torch.int64)]


def _forward_shapes(*values):
    *values, outputs = values
    numbers, tensors, _ = _packed(*values)
    made = [_output(numbers, tensors, name) for name in outputs] + [(0, torch.uint8)] * _BUFFERS
    return [*(tensors[_MEANS].new_empty(shape, dtype=dtype) for shape, dtype in made),
            torch.empty(_NUMBERS_SAVED, dtype=torch.int64)]


def _backward(state, intersections, info, upstream, images, wrt, *values):
    made = _backward_shapes(state, intersections, info, upstream, images, wrt, *values)
    numbers, tensors, _ = _packed(*values)
    tensors[_WEIGHTS] = None
    saved = _saved(state, intersections, info.tolist())
    if saved is None:
        _, saved = _raster.forward_packed("rasterize", numbers, tensors, ("color",))
    _raster.backward_packed(saved, numbers, tensors, wrt, dict(zip(images, upstream)),
                            dict(zip(wrt, made)))
    return made


def _saved(state, intersections, numbers):
    """What forward saved; None if it is lost."""
    sizes, info = numbers[:_BUFFERS], numbers[_BUFFERS:_BUFFERS + _INFO_FIELDS]
    buffers = [*map(_whole, (state, intersections), sizes)]
    if any(memory is None for memory in buffers):
        return None
    state, lists = buffers
    return SavedRaster(state, lists if sizes[1] else None,
                       tuple(value & (1 << 64) - 1 for value in info))


def _backward_shapes(state, intersections, info, upstream, images, wrt, *values):
    _, tensors, widths = _packed(*values)
    shapes = [grad_of(tensors, name)[1] for name in wrt]
    return [tensors[_MEANS].new_empty((*shape[:-1], widths.get(name, shape[-1])))
            for name, shape in zip(wrt, shapes)]


_INPUTS = ("Tensor[] tensors, str[] names, int flags, SymInt width, SymInt height, int sh_degree, "
           "float[] numbers")
_op = torch.library.custom_op(
    "gsplat_c::rasterize", _forward, mutates_args=(), **_TAGS,
    schema=f"({_INPUTS}, str[] outputs) -> Tensor[]")
_op.register_fake(_forward_shapes)
_backward_op = torch.library.custom_op(
    "gsplat_c::rasterize_backward", _backward, mutates_args=(),
    schema="(Tensor state, Tensor intersections, Tensor info, Tensor[] upstream, str[] images, "
           f"str[] wrt, {_INPUTS}) -> Tensor[]")
_backward_op.register_fake(_backward_shapes)


def _save(ctx, inputs, output):
    tensors, *ctx.rest, ctx.outputs = inputs
    saved = output[-_BUFFERS - 1:]
    ctx.save_for_backward(*saved, *tensors)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*saved, *(value for name, value in zip(ctx.outputs, output)
                                          if name not in DIFFERENTIABLE))


def _gradients(ctx, grads):
    names = ctx.rest[0]
    wrt = [name for name, need in zip(names, ctx.needs_input_grad[0]) if need]
    upstream = {name: grad for name, grad in zip(ctx.outputs, grads) if grad is not None}
    found = {}
    if wrt and upstream:
        state, intersections, info, *tensors = ctx.saved_tensors
        found = dict(zip(wrt, _backward_op(state, intersections, info, [*upstream.values()],
                                           [*upstream], wrt, tensors, *ctx.rest)))
    return ([found.get(name) for name in names], *[None] * (len(ctx.rest) + 1))


_op.register_autograd(_gradients, setup_context=_save)


def rasterize(outputs, flags, sinks, args):
    """The outputs in order.

    sinks: tensors of SINKS, by name.  args: as of gsplat_c.torch.rasterize, checked by it.
    """
    (flags, width, height, degree, *numbers), tensors = scene_fields("rasterize", args, flags)
    given = {name: as_tensor(value, tensors[_MEANS]) for name, value in zip(TENSORS, tensors)
             if value is not None}
    given.update((name, sink) for name, sink in sinks.items() if sink is not None)
    return _op([*given.values()], [*given], flags, width, height, degree, [*map(float, numbers)],
               [*outputs])[:len(outputs)]
