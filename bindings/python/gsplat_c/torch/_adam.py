"""Adam that leaves out what a view did not see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

import torch
from torch import Tensor

from .. import _ops
from .._errors import calling
from . import _support

_TENSORS = ("parameter", "gradient", "moment1", "moment2")
_NUMBERS = ("lr", "beta1", "beta2", "epsilon")


def _step(parameters, gradients, moments1, moments2, visible, numbers, steps):
    rows = zip(parameters, gradients, moments1, moments2, *(numbers[i::4] for i in range(4)), steps)
    _ops.adam_step([dict(zip((*_TENSORS, *_NUMBERS, "step"), row)) for row in rows],
                   visible=visible)


_step_op = _support.operator(
    "adam_step", "(Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] moments1, "
    "Tensor(c!)[] moments2, Tensor? visible, float[] numbers, int[] steps) -> ()", _step,
    lambda *values: None, mutates_args=("parameters", "moments1", "moments2"))


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
    def step(
        self,
        closure: Callable[[], Tensor] | Tensor | None = None,
        *,
        visible: Tensor | None = None,
    ):
        """One step, for every parameter with a gradient.

        Args:
            closure: evaluates the loss again and returns it.  Or visible: gsplat's optimizer
                takes that as its first argument.
            visible: [N] bool, uint8 or int32; rows with 0 keep parameter and moments.
                Every parameter must then have N rows.
        """
        loss = None
        if isinstance(closure, torch.Tensor):
            closure, visible = None, closure
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        packed = [self._packed(parameter, group) for group in self.param_groups
                  for parameter in group["params"] if parameter.grad is not None]
        if not packed:
            return loss
        if _support.is_compiling():
            _step_op(*([group[name] for group in packed] for name in _TENSORS), visible,
                     [float(group[name]) for group in packed for name in _NUMBERS],
                     [group["step"] for group in packed])
        else:
            with calling("SelectiveAdam"):
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
