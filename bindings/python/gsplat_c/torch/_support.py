"""What differs between versions of torch, and autocast."""

from __future__ import annotations

from functools import partial

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

#: torch.library.custom_op, of torch 2.4, is what makes an operation opaque to torch.compile.
HAS_OPS = hasattr(torch.library, "custom_op")

if HAS_OPS:
    is_compiling = torch.compiler.is_compiling
else:

    def is_compiling() -> bool:
        """Always false: what torch.compile cannot trace runs outside its graphs."""
        return False


def needs_grad(value) -> bool:
    """Whether a value is a tensor that takes part in a graph."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def may_have_tangents() -> bool:
    """Whether inputs may carry forward-mode derivatives, which a node of the graph refuses."""
    return forward_ad._current_level >= 0


def as_tensor(value, like):
    """A tensor, also of what may be nested lists of numbers."""
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(value, dtype=like.dtype)


def _autocasts(kind):
    """Whether autocast is on for a type of device."""
    if kind not in ("cpu", "cuda"):
        return False
    if HAS_OPS:  # from the same version on there is a function for every type
        return torch.is_autocast_enabled(kind)
    return torch.is_autocast_enabled() if kind == "cuda" else torch.is_autocast_cpu_enabled()


_HALVES = (torch.float16, torch.bfloat16)


def full_precision(value, kind: str):
    """A half-precision tensor as float32 where autocast is on, all else as it is.

    That is what torch.amp.custom_fwd(cast_inputs=torch.float32) does, but in the graph, so
    that it also works under torch.compile.
    """
    if isinstance(value, torch.Tensor) and value.dtype in _HALVES and _autocasts(kind):
        return value.float()
    return value


def set_of(values, kind: str):
    """full_precision() of every value of a dictionary; the dictionary itself if nothing casts."""
    if not _autocasts(kind):
        return values
    return {name: full_precision(value, kind) for name, value in values.items()}


def operator(name, schema, function, shapes, **options):
    """A function as an operator of torch.library, or itself where torch has none."""
    if not HAS_OPS:
        return function
    made = torch.library.custom_op(f"gsplat_c::{name}", function, schema=schema,
                                   **{"mutates_args": (), **options})
    made.register_fake(shapes)
    return made


def differentiable(name, schema, function, shapes, save, gradients, backward=(None, None)):
    """A function with a gradient: a node of torch's graph; under torch.compile an operator.

    Args:
        shapes: what function returns, without values.
        save: function(ctx, inputs, output).
        gradients: function(backward, ctx, *grads) of a gradient for each input.
        backward: what it may call, plain and as an operator.
    """
    plain, compiled = backward

    def forward(ctx, *inputs):
        output = function(*inputs)
        save(ctx, inputs, output)
        return output

    node = type(name, (torch.autograd.Function,), {
        "forward": staticmethod(forward),
        "backward": staticmethod(once_differentiable(partial(gradients, plain)))})
    if not HAS_OPS:
        return node.apply
    made = operator(name, schema, function, shapes)
    made.register_autograd(partial(gradients, compiled), setup_context=save)
    return lambda *inputs: (made if is_compiling() else node.apply)(*inputs)
