"""Functions with gradients for torch; ``import gsplat_c.torch`` brings them.

They take and return torch tensors on one device, on which they use the current
stream.  Gradients are computed for exactly the inputs that require them, and only
once: they cannot be differentiated again.  Under autocast they compute in float32.
With torch 2.4 or newer they stay whole inside torch.compile.
"""

from ._adam import SelectiveAdam
from ._gsplat import rasterization
from ._image import SSIM, ImageLoss, image_loss, ssim
from ._raster import rasterize

__all__ = ["SSIM", "ImageLoss", "SelectiveAdam", "image_loss", "rasterization", "rasterize",
           "ssim"]
