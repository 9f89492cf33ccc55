"""Spherical harmonics of directions whose axes are permuted: z, x, y in place of x, y, z.

A permutation of the axes is a rotation, so each degree's basis turns into itself:
basis(z, x, y) = TURN basis(x, y, z), up to degree 3.
"""

from __future__ import annotations

from functools import cache

import torch

_3, _6, _10, _15 = 3**0.5 / 2, 6**0.5 / 4, 10**0.5 / 4, 15**0.5 / 4
_ROWS = (  # {column: value}
    {0: 1}, {3: 1}, {1: -1}, {2: -1},
    {7: -1}, {4: -1}, {6: -0.5, 8: -_3}, {5: 1}, {6: _3, 8: -0.5},
    {13: _15, 15: -0.25}, {10: 1}, {13: -0.25, 15: -_15}, {9: _10, 11: _6},
    {12: _6, 14: _10}, {9: _6, 11: -_10}, {12: -_10, 14: _6},
)


@cache
def _turn(device):
    return torch.tensor([[row.get(column, 0.0) for column in range(len(_ROWS))] for row in _ROWS],
                        device=device)


def to_usual(sh):
    """Coefficients [P, M, 3] of the usual axes, of those for permuted ones; M up to 16."""
    sh = sh.detach()[:, :len(_ROWS)]
    count = sh.shape[1]
    return torch.matmul(_turn(sh.device)[:count, :count].t(), sh)


def gradient_to_permuted(gradient, shape):
    """The gradient with respect to the input of to_usual(), whose shape is given."""
    count = gradient.shape[1]
    result = gradient.new_zeros(shape)
    torch.matmul(_turn(gradient.device)[:count, :count], gradient, out=result[:, :count])
    return result
