"""SSIM of volumes, written in torch: the library itself knows images only."""

from __future__ import annotations

import math

import torch

_RADIUS, _SIGMA = 5, 1.5


def _window():
    weights = [math.exp(-(x * x) / (2 * _SIGMA**2)) for x in range(-_RADIUS, _RADIUS + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


_WINDOW = _window()


def _blur(volume):
    """Correlation with the separable window, zeros outside, over the last three axes.

    As a sum of shifted volumes: convolutions of float32 on a GPU may round to TF32, which
    the differences of squares below do not stand.
    """
    for axis in (-1, -2, -3):
        margins = [0] * 6
        margins[-2 * axis - 2:-2 * axis] = _RADIUS, _RADIUS  # the last axis comes first
        padded, length = torch.nn.functional.pad(volume, margins), volume.shape[axis]
        volume = sum(weight * padded.narrow(axis, shift, length)
                     for shift, weight in enumerate(_WINDOW))
    return volume


def ssim_map_3d(C1, C2, img1, img2, padding):
    """The map [B, C, D, H, W] (Wang et al. 2004, eq. 13) of two such volumes.

    "valid": 5 voxels less on each side.  Differentiable by img1.
    """
    if img1.ndim != 5 or img1.shape != img2.shape:
        raise ValueError(f"fused_ssim3d: volumes of shapes {tuple(img1.shape)} and "
                         f"{tuple(img2.shape)}, expected both [B, C, D, H, W]")
    x, y = img1, img2.detach()
    mean_x, mean_y = _blur(x), _blur(y)
    variance_x = _blur(x * x) - mean_x * mean_x
    variance_y = _blur(y * y) - mean_y * mean_y
    covariance = _blur(x * y) - mean_x * mean_y
    numerator = (2 * mean_x * mean_y + C1) * (2 * covariance + C2)
    denominator = (mean_x * mean_x + mean_y * mean_y + C1) * (variance_x + variance_y + C2)
    found = numerator / denominator
    if padding == "valid":
        inside = slice(_RADIUS, -_RADIUS)
        found = found[..., inside, inside, inside]
    return found
