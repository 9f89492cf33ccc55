"""SSIM of volumes, written in torch: the library itself knows images only."""

from __future__ import annotations

import math

import torch

_RADIUS, _SIGMA = 5, 1.5


def _window(like):
    weights = [math.exp(-(x * x) / (2 * _SIGMA**2)) for x in range(-_RADIUS, _RADIUS + 1)]
    total = sum(weights)
    return torch.tensor([w / total for w in weights], dtype=like.dtype, device=like.device)


def _blur(volume, window):
    """Correlation with the separable window, zeros outside; volume [n, 1, D, H, W]."""
    for axis in range(3):
        shape, padding = [1, 1, 1, 1, 1], [0, 0, 0]
        shape[axis + 2], padding[axis] = window.numel(), _RADIUS
        volume = torch.nn.functional.conv3d(volume, window.view(shape), padding=padding)
    return volume


def ssim_map_3d(C1, C2, img1, img2, padding):  # noqa: N803
    """The map [B, C, D, H, W] (Wang et al. 2004, eq. 13) of two such volumes.

    "valid": 5 voxels less on each side.  Differentiable by img1.
    """
    if img1.ndim != 5 or img1.shape != img2.shape:
        raise ValueError(f"fused_ssim3d: volumes of shapes {tuple(img1.shape)} and "
                         f"{tuple(img2.shape)}, expected both [B, C, D, H, W]")
    shape, window = img1.shape, _window(img1)
    x = img1.reshape(-1, 1, *shape[2:])
    y = img2.detach().reshape(-1, 1, *shape[2:])
    mean_x, mean_y = _blur(x, window), _blur(y, window)
    variance_x = _blur(x * x, window) - mean_x * mean_x
    variance_y = _blur(y * y, window) - mean_y * mean_y
    covariance = _blur(x * y, window) - mean_x * mean_y
    numerator = (2 * mean_x * mean_y + C1) * (2 * covariance + C2)
    denominator = (mean_x * mean_x + mean_y * mean_y + C1) * (variance_x + variance_y + C2)
    found = (numerator / denominator).reshape(shape)
    if padding == "valid":
        inside = slice(_RADIUS, -_RADIUS)
        found = found[..., inside, inside, inside]
    return found
