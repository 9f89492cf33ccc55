"""The modules themselves: made per variant, put into sys.modules or into files on the path."""

from __future__ import annotations

import glob
import os
import re
import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType

from ._variants import AUTO, VARIANTS, resolve

_MARK = "__gsplat_c__"
_RASTERIZER = "diff_gaussian_rasterization"
NAMES = (_RASTERIZER, f"{_RASTERIZER}._C", "simple_knn", "simple_knn._C", "fused_ssim",
         "fused_ssim_cuda")
_PACKAGES = (_RASTERIZER, "simple_knn", "fused_ssim")
_made: dict[str, dict[str, ModuleType]] = {}


def install(variant: str | None = None) -> str:
    """Makes ``import diff_gaussian_rasterization``, ``simple_knn`` and ``fused_ssim`` ours.

    Call it before they are imported.  A second call with another variant holds for
    imports from then on.

    Args:
        variant: one of gsplat_c.compat.variants; "auto": the settings of a frame decide.
            By default what GSPLAT_C_COMPAT says, else what is installed already, else "auto".

    Returns:
        The variant's name.

    Raises:
        ValueError: there is no such variant.
        ImportError: one of the modules was imported before, and it is not ours.
    """
    name = _chosen(variant)
    for module in NAMES:
        if _is_foreign(sys.modules.get(module)):
            origin = getattr(sys.modules[module], "__file__", None)
            raise ImportError(f"gsplat_c.compat.install: {module} is already imported from "
                              f"{origin}; call install() before that")
    sys.modules.update(modules(name))
    return name


def uninstall() -> None:
    """Takes our modules out of sys.modules; what was imported from them stays usable."""
    for name in NAMES:
        if getattr(sys.modules.get(name), _MARK, False):
            del sys.modules[name]


def _chosen(variant):
    """The name; None keeps what is installed unless the environment says otherwise."""
    name = resolve(variant)
    if variant is None and name == AUTO:
        return getattr(sys.modules.get(_RASTERIZER), "__gsplat_c_variant__", AUTO)
    return name


def _is_foreign(module):
    if module is None or getattr(module, _MARK, False):
        return False
    # A namespace package is a folder, ours or not: what it holds is judged by itself.
    return getattr(module, "__file__", None) is not None or not hasattr(module, "__path__")


def modules(variant: str) -> dict[str, ModuleType]:
    """The six modules of a variant, by name; the same ones every time."""
    if variant not in _made:
        made = {}
        for name in NAMES:
            module = ModuleType(name, _DOCS.get(name))
            module.__spec__ = ModuleSpec(name, None, origin="gsplat_c.compat",
                                         is_package=name in _PACKAGES)
            if name in _PACKAGES:
                module.__path__ = []
            module.__package__ = name if name in _PACKAGES else name.rpartition(".")[0]
            module.__dict__.update(contents(name, variant))
            made[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(made[parent], child, module)
        _made.setdefault(variant, made)  # one, whichever thread is first
    return _made[variant]


_DOCS = {
    _RASTERIZER: "The rasterizer of 3D Gaussian splatting, on gsplat_c.",
    f"{_RASTERIZER}._C": "Functions below the Python layer of diff_gaussian_rasterization.",
    "simple_knn._C": "Nearest neighbours, on gsplat_c.",
    "fused_ssim": "Structural similarity, on gsplat_c.",
    "fused_ssim_cuda": "Functions below the Python layer of fused_ssim.",
}


# What modules hold that are the same for every variant: a file of this package, and names there.
_CONSTANT = {
    "simple_knn._C": ("_knn", ["distCUDA2"]),
    "fused_ssim": ("_ssim", ["fused_ssim", "fused_ssim3d", "FusedSSIMMap", "allowed_padding",
                             "is_3D_supported"]),
    "fused_ssim_cuda": ("_ssim", ["fusedssim", "fusedssim_backward", "fusedssim3d",
                                  "fusedssim_backward3d"]),
}


def contents(name: str, variant: str) -> dict[str, object]:
    """What a module of a variant holds."""
    values = {}
    if name in _CONSTANT:
        file, names = _CONSTANT[name]
        source = import_module(f".{file}", __package__)
        values = {thing: getattr(source, thing) for thing in names}
    elif name in (_RASTERIZER, f"{_RASTERIZER}._C"):
        values = (_rasterizer if name == _RASTERIZER else _raw)(VARIANTS.get(variant))
    for own, value in values.items():
        if isinstance(value, (type, FunctionType)):
            value.__module__, value.__name__, value.__qualname__ = name, own, own
    return {**values, _MARK: True, "__gsplat_c_variant__": variant}


_rasterizers: dict[str, dict[str, object]] = {}


def _rasterizer(variant):
    from . import _adam, _rasterizer, _settings

    name = variant.name if variant else AUTO
    if name not in _rasterizers:  # a path import asks again: its classes must be the same
        function = _rasterizer.make_function(variant)
        found = {
            "GaussianRasterizationSettings": _settings.settings_class(name),
            "GaussianRasterizer": _rasterizer.make_rasterizer(variant, function),
            "rasterize_gaussians": _rasterizer.make_rasterize_gaussians(variant, function),
            "_RasterizeGaussians": function,
        }
        if not variant or variant.has_copy_helper:
            found["cpu_deep_copy_tuple"] = _rasterizer.cpu_deep_copy_tuple
        if not variant or variant.has_adam:
            found["SparseGaussianAdam"] = _adam.SparseGaussianAdam
        _rasterizers.setdefault(name, found)
    return _rasterizers[name]


def _raw(variant):
    from . import _adam, _rasterizer, _raw, _ssim

    found = {
        "rasterize_gaussians": _raw.make_rasterize_gaussians(variant),
        "rasterize_gaussians_backward": _raw.make_rasterize_gaussians_backward(variant),
        "mark_visible": _rasterizer.mark_visible,
    }
    if not variant or not variant.is_mip:  # whose radii depend on what it has no argument for
        found["rasterize_aussians_filter"] = _raw.rasterize_aussians_filter
    if not variant or variant.has_adam:
        found["adamUpdate"] = _adam.adam_update
    if not variant or variant.has_ssim:
        found["fusedssim"] = _ssim.raster_fusedssim
        found["fusedssim_backward"] = _ssim.raster_fusedssim_backward
    return found


def provide(name: str) -> None:
    """Fills the module ``name`` that is being imported from a file on the path.

    The variant is what GSPLAT_C_COMPAT says, else the settings of each frame decide.
    Warns if a second distribution claims the same name: pip lets the later one
    overwrite the earlier.
    """
    sys.modules[name].__dict__.update(contents(name, resolve(None)))
    top = name.partition(".")[0]
    claims = _distributions_of(top)
    if len(claims) > 1:
        warnings.warn(f"{top} comes with several distributions: {', '.join(claims)}; uninstall "
                      "all of them and install the one that you want", RuntimeWarning, stacklevel=3)


def _distributions_of(top):
    """Names of the installed distributions with a top-level module in them and in their name.

    Whatever reads the list of files of every distribution takes seconds where there are many.
    """
    found = set()
    for folder in sys.path:
        for path in glob.iglob(os.path.join(glob.escape(folder), "*-info")):
            name = os.path.basename(path).partition("-")[0].lower().replace(".", "_")
            if top in name and top in _top_levels(path):
                found.add(name.replace("_", "-"))
    return sorted(found)


def _top_levels(info):
    """The first parts of the paths that a distribution installed; info: its folder of metadata."""
    for file in ("RECORD", "top_level.txt"):
        try:
            with open(os.path.join(info, file), encoding="utf-8") as lines:
                return {re.split("[/,\n]", line)[0] for line in lines}
        except OSError:
            pass
    return ()
