"""3D Gaussian splatting: a differentiable rasterizer, neighbours, SSIM, Adam, training steps.

Functions take arrays of any framework that speaks DLPack and return arrays of torch, cupy
or jax to those, numpy arrays to everybody else.  Nothing is compiled and no framework is
imported; ``import gsplat_c.torch`` and ``import gsplat_c.jax`` add functions with gradients.

    import numpy as np, gsplat_c

    image = gsplat_c.rasterize(
        means=np.array([[0, 0, 3]], np.float32), scales=np.full((1, 3), 0.2, np.float32),
        rotations=np.array([[1, 0, 0, 0]], np.float32), opacities=np.array([0.9], np.float32),
        colors=np.array([[1, 0.5, 0]], np.float32), view=np.eye(4, dtype=np.float32),
        intrinsics=[100, 100, 64, 64], width=128, height=128).color  # [3, 128, 128]

The shared library is the one that the environment variable GSPLAT_C_LIBRARY names, else
the one inside this package, else the build directory of the source checkout that this
package lies in, else the system's libgsplat_c.so.1 (Windows: gsplat_c.dll).  GSPLAT_C_THREADS
bounds the threads of CPU work.
"""

from ._context import build_info, device_count, device_report, limits, version
from ._errors import ArgumentError, Error, NoDevice, OutOfMemoryError, UnsupportedError
from ._fields import RasterGrads, RasterOutputs
from ._forward import SavedRaster
from ._ops import adam_step, image_loss, knn, ssim, ssim_backward
from ._raster import mark_visible, rasterize, rasterize_backward, rasterize_forward
from ._result import ImageLoss, Neighbors, Ssim, SsimGrads, TrainStep
from ._train import train_step

__version__ = version()

__all__ = [
    "ArgumentError",
    "Error",
    "ImageLoss",
    "Neighbors",
    "NoDevice",
    "OutOfMemoryError",
    "RasterGrads",
    "RasterOutputs",
    "SavedRaster",
    "Ssim",
    "SsimGrads",
    "TrainStep",
    "UnsupportedError",
    "adam_step",
    "build_info",
    "device_count",
    "device_report",
    "image_loss",
    "knn",
    "limits",
    "mark_visible",
    "rasterize",
    "rasterize_backward",
    "rasterize_forward",
    "ssim",
    "ssim_backward",
    "train_step",
    "version",
]
