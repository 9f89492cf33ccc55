"""Functions below the Python layer of fused_ssim.  See gsplat_c.compat."""

from gsplat_c.compat import provide

provide(__name__)
