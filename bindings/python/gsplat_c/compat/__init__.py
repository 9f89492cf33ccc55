"""Drop-in replacements of the CUDA modules that 3D Gaussian splatting training uses.

    import gsplat_c.compat
    gsplat_c.compat.install()          # before the imports of the training code

makes ``diff_gaussian_rasterization``, ``simple_knn._C``, ``fused_ssim`` and
``fused_ssim_cuda`` modules on gsplat_c, for CPU and CUDA tensors of any torch.
Many forks share the first name with different arguments and results.  The settings
that a caller makes tell most of them apart; the others, and whoever wants exactly one,
name it: ``install("depth-alpha")``, or GSPLAT_C_COMPAT=depth-alpha in the environment.
docs/dropin.md lists the variants and every known difference from the originals.
"""

from ._install import install, provide, uninstall
from ._variants import AUTO, VARIANTS

variants = (AUTO, *VARIANTS)

__all__ = ["install", "provide", "uninstall", "variants"]
