"""distCUDA2: mean squared distance to the three nearest other points."""

from __future__ import annotations

import torch

from .. import _ops
from .._errors import calling
from ._frame import check_float

_NEIGHBORS = 3
_UNFILLED = torch.finfo(torch.float32).max  # the distance that stands for a missing neighbour


@torch.no_grad()
def distCUDA2(points):
    """points [P, 3] float32 -> float32 [P], mean of the squared distances to 3 others.

    A duplicate is a neighbour at distance 0.  With three points the missing neighbour
    counts as the largest float, with fewer the result is infinite.
    """
    with calling("distCUDA2"):
        check_float("points", points)
        mean = _ops.knn(points, _NEIGHBORS, outputs=("mean2",)).mean2
    missing = _NEIGHBORS + 1 - points.shape[0]
    if missing > 0:
        mean.fill_(_UNFILLED / _NEIGHBORS if missing == 1 else float("inf"))
    return mean
