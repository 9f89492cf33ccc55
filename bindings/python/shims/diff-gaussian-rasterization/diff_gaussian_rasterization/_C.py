"""Functions below the Python layer of diff_gaussian_rasterization.  See gsplat_c.compat."""

from gsplat_c.compat import provide

provide(__name__)
