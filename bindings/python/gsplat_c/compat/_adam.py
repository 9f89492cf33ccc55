"""SparseGaussianAdam: Adam without bias correction that leaves unseen rows alone."""

from __future__ import annotations

import torch

from .. import _ops
from .._errors import argument_error, calling

_BETAS = (0.9, 0.999)  # whatever the group says


def _row_views(tensor, rows):
    """([rows, ..] dense view or copy, whether it is a copy)."""
    dense = tensor.detach().contiguous()
    return dense.view(rows, -1), dense.data_ptr() != tensor.data_ptr()


def adam_update(param, grad, exp_avg, exp_avg_sq, visible, lr, b1, b2, eps, N, M):
    """One step, in place, of the rows [N, M] of a parameter that ``visible`` (bool [N]) names."""
    if visible.dtype is not torch.bool:
        raise argument_error("DTYPE", f"visible has dtype {visible.dtype}, expected torch.bool",
                             "adamUpdate")
    if visible.numel() != N or param.numel() != N * M:
        raise argument_error("SHAPE", f"visible has {visible.numel()} and param {param.numel()} "
                             f"elements, expected {N} and {N} x {M}", "adamUpdate")
    if not param.numel():
        return
    targets = (param, exp_avg, exp_avg_sq)
    views = [_row_views(tensor, N) for tensor in targets]
    group = {"parameter": views[0][0], "gradient": grad.detach().reshape(N, -1),
             "moment1": views[1][0], "moment2": views[2][0], "lr": float(lr), "beta1": b1,
             "beta2": b2, "epsilon": eps}
    with calling("adamUpdate"):
        _ops.adam_step([group], visible=visible.reshape(-1))
    with torch.no_grad():
        for target, (view, copied) in zip(targets, views):
            if copied:
                target.copy_(view.view(target.shape))


class SparseGaussianAdam(torch.optim.Adam):
    """Adam over groups of one tensor each, with rows per Gaussian.

    The state of a tensor is ``step`` (never counted), ``exp_avg`` and ``exp_avg_sq``.
    """

    def __init__(self, params, lr, eps):
        super().__init__(params=params, lr=lr, eps=eps)

    @torch.no_grad()
    def step(self, visibility, N):
        """Steps the rows that visibility (bool [N]) names; the others keep value and state."""
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
            adam_update(param, param.grad, state["exp_avg"], state["exp_avg_sq"], visibility,
                        group["lr"], *_BETAS, group["eps"], N, param.numel() // N if N else 0)
