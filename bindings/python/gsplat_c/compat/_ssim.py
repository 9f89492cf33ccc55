"""fused_ssim: SSIM with an 11-pixel window and the gradient for the first image."""

from __future__ import annotations

from functools import wraps

import torch
from torch.autograd.function import once_differentiable

from .. import _ops
from .._errors import argument_error, calling
from ..torch._image import ssim
from ._frame import check_float
from ._ssim3d import ssim_map_3d

_C1, _C2 = 0.01**2, 0.03**2
_WINDOW = 11

allowed_padding = ["same", "valid"]
is_3D_supported = True


def _check_padding(padding):
    assert padding in allowed_padding, f"padding is {padding!r}, expected one of {allowed_padding}"


def _named(function):
    """Decorates a function of two images, img1 and img2: errors name them and it."""

    @wraps(function)
    def named(*args, **kwargs):
        with calling(function.__name__.replace("raster_", ""), {"image": "img1", "target": "img2"}):
            return function(*args, **kwargs)

    return named


def _check(img1, img2, dimensions):
    check_float("img1", img1)
    check_float("img2", img2)
    if img1.ndim != dimensions:
        raise argument_error("SHAPE", f"img1 has {img1.ndim} dimensions, expected {dimensions}")


def _has_no_window(image, padding):
    return padding == "valid" and min(image.shape[-2:]) < _WINDOW


def ssim_map(C1, C2, img1, img2, padding, spatial_dims=2):
    """The map of two images [B, C, H, W] or volumes; "valid": 5 pixels less on each side."""
    if spatial_dims == 3:
        return ssim_map_3d(C1, C2, img1.detach(), img2, padding)
    if _has_no_window(img1, padding):
        size = [max(length - _WINDOW + 1, 0) for length in img1.shape[-2:]]
        return img1.new_empty((*img1.shape[:2], *size))
    return _ops.ssim(img1.detach(), img2.detach(), c1=float(C1), c2=float(C2),
                     valid=padding == "valid", outputs=("map",)).map


def ssim_map_gradient(C1, C2, img1, img2, padding, grad_map, spatial_dims=2):
    """The gradient for img1 from the gradient for the map."""
    if spatial_dims == 3:
        with torch.enable_grad():
            volume = img1.detach().requires_grad_()
            made = ssim_map_3d(C1, C2, volume, img2, padding)
            return torch.autograd.grad(made, volume, grad_map)[0]
    if _has_no_window(img1, padding):
        return torch.zeros_like(img1)
    return _ops.ssim_backward(img1.detach(), img2.detach(), grad_map=grad_map.detach(),
                              c1=float(C1), c2=float(C2), valid=padding == "valid").image


class FusedSSIMMap(torch.autograd.Function):
    """The map of two images [B, C, H, W]; with spatial_dims=3 of volumes [B, C, D, H, W]."""

    @staticmethod
    def forward(ctx, C1, C2, img1, img2, padding="same", train=True, spatial_dims=2):
        _check_padding(padding)
        _check(img1, img2, spatial_dims + 2)
        ctx.options = C1, C2, padding, spatial_dims
        ctx.save_for_backward(img1, img2)
        return ssim_map(C1, C2, img1, img2, padding, spatial_dims)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_map):
        C1, C2, padding, spatial_dims = ctx.options
        found = ssim_map_gradient(C1, C2, *ctx.saved_tensors, padding, grad_map, spatial_dims)
        return (None, None, found, *(None,) * (len(ctx.needs_input_grad) - 3))


@_named
def fused_ssim(img1, img2, padding="same", train=True):
    """Mean SSIM of two images [B, C, H, W] in [0, 1], a 0-dim tensor.

    "same" averages all pixels, with zeros outside the image; "valid" only the windows
    inside it.  Only img1 has a gradient, whatever ``train`` says.
    """
    _check_padding(padding)
    _check(img1, img2, 4)
    if _has_no_window(img1, padding):
        return FusedSSIMMap.apply(_C1, _C2, img1, img2, padding, train).mean()
    return ssim(img1, img2.detach(), valid=padding == "valid")


@_named
def fused_ssim3d(img1, img2, padding="same", train=True):
    """The same for volumes [B, C, D, H, W], with a window of 11 x 11 x 11."""
    _check_padding(padding)
    return FusedSSIMMap.apply(_C1, _C2, img1, img2, padding, train, 3).mean()


def _make_raw(suffix, spatial_dims):
    """The two functions of fused_ssim_cuda for images or for volumes."""

    def fusedssim(C1, C2, img1, img2, train):
        """-> (map shaped as the images, and three tensors for the backward function)."""
        _check(img1, img2, spatial_dims + 2)
        # Backward starts afresh: it does not need the partial derivatives.
        return (ssim_map(C1, C2, img1, img2, "same", spatial_dims),
                *(img1.new_empty(0) for _ in range(3)))

    def fusedssim_backward(C1, C2, img1, img2, dL_dmap, dm_dmu1, dm_dsigma1_sq, dm_dsigma12):
        """-> gradient for img1, shaped as it."""
        _check(img1, img2, spatial_dims + 2)
        return ssim_map_gradient(C1, C2, img1, img2, "same", dL_dmap, spatial_dims)

    for function in (fusedssim, fusedssim_backward):
        function.__name__ = function.__qualname__ = function.__name__ + suffix
    return _named(fusedssim), _named(fusedssim_backward)


fusedssim, fusedssim_backward = _make_raw("", 2)
fusedssim3d, fusedssim_backward3d = _make_raw("3d", 3)


@_named
def raster_fusedssim(C1, C2, img1, img2):
    """The rasterizer's own: images [C, H, W] without a batch -> map [C, H, W]."""
    _check(img1, img2, 3)
    return ssim_map(C1, C2, img1[None], img2[None], "same")[0]


@_named
def raster_fusedssim_backward(C1, C2, img1, img2, dL_dmap):
    """-> gradient for img1 [C, H, W]."""
    _check(img1, img2, 3)
    return ssim_map_gradient(C1, C2, img1[None], img2[None], "same", dL_dmap[None])[0]
