"""fused_ssim: SSIM with an 11-pixel window and the gradient for the first image."""

from __future__ import annotations

from functools import wraps

import torch
from torch.autograd.function import once_differentiable

from .. import _ops
from .._errors import calling
from ._frame import check_float
from ._ssim3d import ssim_map_3d

_C1, _C2 = 0.01**2, 0.03**2
_WINDOW = 11

allowed_padding = ["same", "valid"]


def _check_padding(padding):
    assert padding in allowed_padding, f"padding is {padding!r}, expected one of {allowed_padding}"


def _named(function):
    """Decorates a function of two images, img1 and img2: errors name them and it."""

    @wraps(function)
    def named(*args, **kwargs):
        with calling(function.__name__.replace("raster_", ""), {"image": "img1", "target": "img2"}):
            return function(*args, **kwargs)

    return named


def _check(img1, img2):
    check_float("img1", img1)
    check_float("img2", img2)


def _has_no_window(image, padding):
    return padding == "valid" and min(image.shape[-2:]) < _WINDOW


def ssim_map(C1, C2, img1, img2, padding):
    """The map [B, C, H, W] of two images [B, C, H, W]; "valid": 5 pixels less on each side."""
    if _has_no_window(img1, padding):
        size = [max(length - _WINDOW + 1, 0) for length in img1.shape[-2:]]
        return img1.new_empty((*img1.shape[:2], *size))
    return _ops.ssim(img1.detach(), img2.detach(), c1=float(C1), c2=float(C2),
                     valid=padding == "valid", outputs=("map",)).map


def ssim_map_gradient(C1, C2, img1, img2, padding, grad_map):
    """The gradient for img1 from the gradient for the map."""
    if _has_no_window(img1, padding):
        return torch.zeros_like(img1)
    return _ops.ssim_backward(img1.detach(), img2.detach(), grad_map=grad_map.detach(),
                              c1=float(C1), c2=float(C2), valid=padding == "valid").image


class FusedSSIMMap(torch.autograd.Function):
    """The map of two images [B, C, H, W]; with spatial_dims=3 of volumes [B, C, D, H, W]."""

    @staticmethod
    def forward(ctx, C1, C2, img1, img2, padding="same", train=True, spatial_dims=2):
        _check_padding(padding)
        _check(img1, img2)
        ctx.options = C1, C2, padding, spatial_dims
        ctx.save_for_backward(img1, img2)
        make = ssim_map_3d if spatial_dims == 3 else ssim_map
        return make(C1, C2, img1, img2, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_map):
        img1, img2 = ctx.saved_tensors
        C1, C2, padding, spatial_dims = ctx.options
        make = _gradient_3d if spatial_dims == 3 else ssim_map_gradient
        found = make(C1, C2, img1, img2, padding, grad_map)
        return (None, None, found, *(None,) * (len(ctx.needs_input_grad) - 3))


class _Mean(torch.autograd.Function):
    """The mean without the map."""

    @staticmethod
    def forward(ctx, img1, img2, valid):
        ctx.valid = valid
        ctx.save_for_backward(img1, img2)
        return _ops.ssim(img1.detach(), img2.detach(), valid=valid).mean

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mean):
        img1, img2 = ctx.saved_tensors
        found = _ops.ssim_backward(img1.detach(), img2.detach(), grad_mean=grad_mean.detach(),
                                   valid=ctx.valid)
        return found.image, None, None


@_named
def fused_ssim(img1, img2, padding="same", train=True):
    """Mean SSIM of two images [B, C, H, W] in [0, 1], a 0-dim tensor.

    "same" averages all pixels, with zeros outside the image; "valid" only the windows
    inside it.  Only img1 has a gradient, whatever ``train`` says.
    """
    _check_padding(padding)
    _check(img1, img2)
    if _has_no_window(img1, padding):
        return FusedSSIMMap.apply(_C1, _C2, img1, img2, padding, train).mean()
    return _Mean.apply(img1, img2, padding == "valid")


@_named
def fused_ssim3d(img1, img2, padding="same", train=True):
    """The same for volumes [B, C, D, H, W], with a window of 11 x 11 x 11."""
    _check_padding(padding)
    return FusedSSIMMap.apply(_C1, _C2, img1, img2, padding, train, 3).mean()


def _gradient_3d(C1, C2, img1, img2, padding, grad_map):
    with torch.enable_grad():
        image = img1.detach().requires_grad_()
        return torch.autograd.grad(ssim_map_3d(C1, C2, image, img2, padding), image, grad_map)[0]


def _empty_parts(img1):
    """In the place of the partial derivatives that backward does not need: it starts afresh."""
    return tuple(img1.new_empty(0) for _ in range(3))


@_named
def fusedssim(C1, C2, img1, img2, train):
    """-> (map [B, C, H, W], and three tensors for fusedssim_backward)."""
    _check(img1, img2)
    return (ssim_map(C1, C2, img1, img2, "same"), *_empty_parts(img1))


@_named
def fusedssim_backward(C1, C2, img1, img2, dL_dmap, dm_dmu1, dm_dsigma1_sq,
                       dm_dsigma12):
    """-> gradient for img1 [B, C, H, W]."""
    _check(img1, img2)
    return ssim_map_gradient(C1, C2, img1, img2, "same", dL_dmap)


@_named
def fusedssim3d(C1, C2, img1, img2, train):
    """-> (map [B, C, D, H, W], and three tensors for fusedssim_backward3d)."""
    _check(img1, img2)
    return (ssim_map_3d(C1, C2, img1.detach(), img2, "same"), *_empty_parts(img1))


@_named
def fusedssim_backward3d(C1, C2, img1, img2, dL_dmap, dm_dmu1, dm_dsigma1_sq,
                         dm_dsigma12):
    """-> gradient for img1 [B, C, D, H, W]."""
    _check(img1, img2)
    return _gradient_3d(C1, C2, img1, img2, "same", dL_dmap)


@_named
def raster_fusedssim(C1, C2, img1, img2):
    """The rasterizer's own: images [C, H, W] without a batch -> map [C, H, W]."""
    _check(img1, img2)
    return ssim_map(C1, C2, img1[None], img2[None], "same")[0]


@_named
def raster_fusedssim_backward(C1, C2, img1, img2, dL_dmap):
    """-> gradient for img1 [C, H, W]."""
    _check(img1, img2)
    return ssim_map_gradient(C1, C2, img1[None], img2[None], "same", dL_dmap[None])[0]


_HOMES = {"fused_ssim": (fused_ssim, fused_ssim3d, FusedSSIMMap),
          "fused_ssim_cuda": (fusedssim, fusedssim_backward, fusedssim3d, fusedssim_backward3d),
          "diff_gaussian_rasterization._C": (raster_fusedssim, raster_fusedssim_backward)}
for _module, _things in _HOMES.items():
    for _thing in _things:
        _thing.__module__ = _module
