"""The rasterizer of 3D Gaussian splatting, on gsplat_c.  See gsplat_c.compat."""

from gsplat_c.compat import provide

provide(__name__)
