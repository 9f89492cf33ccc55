"""SparseGaussianAdam: Adam without bias correction that leaves unseen rows alone."""

from __future__ import annotations

import torch

from .. import _ops
from .._errors import argument_error, calling

_BETAS = (0.9, 0.999)  # whatever the group says


def _rows(tensor, count, copies=None):
    """The tensor as [count, ..] and dense; a copy of one that is not goes into copies, too."""
    if tensor.is_contiguous() and tensor.shape[0] == count:
        return tensor
    dense = tensor.detach().contiguous()
    if copies is not None and dense.data_ptr() != tensor.data_ptr():
        copies.append((tensor, dense))
    return dense.view(count, -1)


@torch.no_grad()
def _update(function, groups, visible, count):
    """One step, in place, of the rows that visible (bool [count]) names, for every group.

    groups: of (parameter, gradient, two moments, lr, beta1, beta2, epsilon).
    """
    if visible.dtype is not torch.bool:
        raise argument_error("DTYPE", f"visible has dtype {visible.dtype}, expected torch.bool",
                             function)
    packed, copies = [], []
    for param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, epsilon in groups:
        size = param.numel()
        if visible.numel() != count or (size % count if count else size):
            raise argument_error("SHAPE", f"visible has {visible.numel()} and param {size} "
                                 f"elements, expected {count} and a multiple of that", function)
        if size:
            packed.append({
                "parameter": _rows(param, count, copies), "gradient": _rows(grad, count),
                "moment1": _rows(exp_avg, count, copies),
                "moment2": _rows(exp_avg_sq, count, copies),
                "lr": float(lr), "beta1": beta1, "beta2": beta2, "epsilon": epsilon})
    if packed:
        with calling(function):
            _ops.adam_step(packed, visible=visible.reshape(-1))
    for target, dense in copies:
        target.copy_(dense)


def adam_update(param, grad, exp_avg, exp_avg_sq, visible, lr, b1, b2, eps, N, M):
    """One step, in place, of the rows [N, M] of a parameter that ``visible`` (bool [N]) names."""
    if param.numel() != N * M:
        raise argument_error("SHAPE", f"param has {param.numel()} elements, expected {N} x {M}",
                             "adamUpdate")
    _update("adamUpdate", [(param, grad, exp_avg, exp_avg_sq, lr, b1, b2, eps)], visible, N)


class SparseGaussianAdam(torch.optim.Adam):
    """Adam over groups of one tensor each, with rows per Gaussian.

    The state of a tensor is ``step`` (never counted), ``exp_avg`` and ``exp_avg_sq``.
    """

    def __init__(self, params, lr, eps):
        super().__init__(params=params, lr=lr, eps=eps)

    @torch.no_grad()
    def step(self, visibility, N):
        """Steps the rows that visibility (bool [N]) names; the others keep value and state."""
        groups = []
        for group in self.param_groups:
            assert len(group["params"]) == 1, "more than one tensor in group"
            param = group["params"][0]
            if param.grad is None:
                continue
            state = self.state[param]
            if not state:
                state["step"] = torch.tensor(0.0, dtype=torch.float32)
                state["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
                state["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            groups.append((param, param.grad, state["exp_avg"], state["exp_avg_sq"], group["lr"],
                           *_BETAS, group["eps"]))
        _update("SparseGaussianAdam", groups, visibility, N)
