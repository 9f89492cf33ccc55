"""What the contracts differ in: one table, no torch.

All came under one import name.  They share the numeric core and differ in the
fields of the settings, the inputs, the results and what else the module exports.
"""

from __future__ import annotations

import os
from typing import NamedTuple

ENVIRONMENT = "GSPLAT_C_COMPAT"
AUTO = "auto"


class Output(NamedTuple):
    """One result: which output of the library it is and how it is shaped."""

    source: str  #: name among gsplat_c.RasterOutputs; "": zeros, nothing is computed
    shape: str  #: one letter per dimension: H, W, P (number of Gaussians) or a digit
    integer: bool = False  #: int32 instead of float32
    differentiable: bool = False  #: its gradient counts; otherwise it is ignored
    weighted: bool = False  #: of shape [0] unless pixel weights are given


OUTPUTS = {
    "color": Output("color", "3HW", differentiable=True),
    "radii": Output("radii", "P", integer=True),
    "invdepths": Output("inv_depth", "1HW", differentiable=True),
    "depth": Output("depth", "1HW", differentiable=True),
    "constant_depth": Output("depth", "1HW"),
    "median_depth": Output("median_depth", "1HW"),
    "alpha": Output("alpha", "1HW", differentiable=True),
    "opacity": Output("alpha", "1HW"),
    "n_touched": Output("touched", "P", integer=True),
    "counts": Output("", "HW", integer=True, weighted=True),
    "lists": Output("", "0", integer=True),
    "listsRender": Output("", "0"),
    "listsDistance": Output("", "0"),
    "centers": Output("means2d", "P2"),
    "depths": Output("depths", "P"),
    "my_radii": Output("radii", "P", integer=True),
    "accum_weights": Output("weight_sum", "P", weighted=True),
    "accum_count": Output("weight_count", "P", integer=True, weighted=True),
    "accum_blend": Output("weight_blend", "P", weighted=True),
    "accum_dist": Output("weight_distance", "P", weighted=True),
}

# Inputs in the order of rasterize_gaussians(), and the library's names for them.
PLAIN = ("means3D", "means2D", "sh", "colors_precomp", "opacities", "scales", "rotations",
         "cov3Ds_precomp")
SPLIT = ("means3D", "means2D", "dc", *PLAIN[2:])
POSED = (*PLAIN, "theta", "rho")
DENSIFIED = ("means3D", "means2D", "means2D_densify", *PLAIN[2:])
LIBRARY_NAMES = {"means3D": "means", "means2D": "means2d", "means2D_densify": "means2d_abs",
                 "dc": "sh_dc", "sh": "sh", "colors_precomp": "colors", "opacities": "opacities",
                 "scales": "scales", "rotations": "rotations", "cov3Ds_precomp": "covariances"}
LIBRARY_INPUTS = {own: name for name, own in LIBRARY_NAMES.items()}
# What a user calls these.
USER_NAMES = {**LIBRARY_INPUTS, "covariances": "cov3D_precomp", "cov3Ds_precomp": "cov3D_precomp",
              "sh": "shs", "view": "viewmatrix", "projection": "projmatrix", "position": "campos",
              "background": "bg", "tan_fovx": "tanfovx", "tan_fovy": "tanfovy",
              "width": "image_width", "height": "image_height", "blur": "kernel_size"}
SINKS = ("means2D", "means2D_densify")  # not read, they receive gradients
SCENE_NAMES = {name: own for name, own in LIBRARY_NAMES.items() if name not in SINKS}

FIELDS = ("image_height", "image_width", "tanfovx", "tanfovy", "bg", "scale_modifier",
          "viewmatrix", "projmatrix", "sh_degree", "campos", "prefiltered")
# Fields that a caller of any generation may leave out when the variant is chosen for him.
FIELD_DEFAULTS = {"debug": False, "antialiasing": False, "pixel_weights": None}


class Variant(NamedTuple):
    """One contract.  The strings are lists of names, in order."""

    name: str
    fields: tuple[str, ...]
    returns: tuple[str, ...]
    inputs: tuple[str, ...] = PLAIN
    always_antialiased: bool = False
    permutes_sh: bool = False  #: z, x, y take the places of x, y, z in the SH basis
    median_default: float = 0.0
    writes_snapshots: bool = False  #: a failure with debug=True leaves a file
    has_copy_helper: bool = True  #: exports cpu_deep_copy_tuple
    has_adam: bool = False  #: exports SparseGaussianAdam and _C.adamUpdate
    has_ssim: bool = False  #: exports _C.fusedssim and _C.fusedssim_backward
    raw_returns: tuple[str, ...] = ()  #: of _C.rasterize_gaussians
    raw_backward: tuple[str, ...] = ()  #: arguments of _C.rasterize_gaussians_backward

    @property
    def is_split(self) -> bool:
        """Whether degree 0 comes as ``dc`` and ``shs`` holds the rest."""
        return "dc" in self.inputs

    @property
    def is_mip(self) -> bool:
        """Whether it has the filter of Mip-Splatting."""
        return "kernel_size" in self.fields


def _before(names, place, new):
    index = names.index(place)
    return (*names[:index], new, *names[index:])


_DEBUG = (*FIELDS, "debug")
_ANTIALIASED = (*_DEBUG, "antialiasing")
_MIP = _before(_before(_DEBUG, "bg", "kernel_size"), "bg", "subpixel_offset")
_RAW = ("num_rendered", "color", "radii", "geom", "binning", "img")
_RAW_SPLIT = ("num_rendered", "num_buckets", "color", "radii", "geom", "binning", "img", "sample")
_BACK = ("bg", "means3D", "radii", "colors_precomp", "scales", "rotations", "scale_modifier",
         "cov3Ds_precomp", "viewmatrix", "projmatrix", "tanfovx", "tanfovy", "grad_color", "sh",
         "sh_degree", "campos", "geom", "num_rendered", "binning", "img", "debug")
_BACK_INVDEPTH = _before(_before(_BACK, "sh", "grad_invdepths"), "scales", "opacities")
_BACK_SPLIT = _before(_before(_BACK, "sh", "dc"), "debug", "num_buckets")
_BACK_SPLIT = _before(_BACK_SPLIT, "debug", "sample")
_BACK_ACCEL = _before(_before(_before(_BACK_SPLIT, "scales", "opacities"),
                              "sh_degree", "grad_invdepths"), "debug", "antialiasing")
_BACK_DEPTH = _before(_BACK, "sh", "grad_depth")
_BACK_POSE = _before(_BACK_DEPTH, "tanfovx", "projmatrix_raw")
_BACK_MIP = _before(_before(_BACK, "grad_color", "kernel_size"), "grad_color", "subpixel_offset")
_BACK_ALPHA = _before(_BACK_DEPTH, "sh", "grad_alpha")
_TAMING = ("counts", "lists", "listsRender", "listsDistance", "centers", "depths", "my_radii",
           "accum_weights", "accum_count", "accum_blend", "accum_dist")
_INVDEPTH = ("color", "radii", "invdepths")

VARIANTS = {variant.name: variant for variant in (
    Variant("2023", _DEBUG, ("color", "radii"), writes_snapshots=True,
            raw_returns=_RAW, raw_backward=_BACK),
    Variant("2024-08", _DEBUG, _INVDEPTH, always_antialiased=True,
            raw_returns=(*_RAW, "invdepths"), raw_backward=_BACK_INVDEPTH),
    Variant("2024", _ANTIALIASED, _INVDEPTH, raw_returns=(*_RAW, "invdepths"),
            raw_backward=_before(_BACK_INVDEPTH, "debug", "antialiasing")),
    Variant("2024-accel", _ANTIALIASED, _INVDEPTH, SPLIT, writes_snapshots=True, has_adam=True,
            has_ssim=True, raw_returns=_before(_RAW_SPLIT, "radii", "invdepths"),
            raw_backward=_BACK_ACCEL),
    Variant("taming-rasterizer", _DEBUG, ("color", "radii"), SPLIT, writes_snapshots=True,
            has_adam=True, has_ssim=True, raw_returns=_RAW_SPLIT, raw_backward=_BACK_SPLIT),
    Variant("taming", (*_DEBUG, "pixel_weights"), ("color", "radii", *_TAMING), SPLIT,
            writes_snapshots=True, has_adam=True, raw_returns=(*_RAW_SPLIT, *_TAMING),
            raw_backward=_BACK_SPLIT),
    Variant("w-depth", FIELDS, ("color", "radii", "median_depth"), median_default=15.0,
            has_copy_helper=False, raw_returns=(*_RAW, "median_depth"), raw_backward=_BACK[:-1]),
    Variant("w-pose", _before(_DEBUG, "sh_degree", "projmatrix_raw"),
            ("color", "radii", "depth", "opacity", "n_touched"), POSED, writes_snapshots=True,
            raw_returns=(*_RAW, "depth", "opacity", "n_touched"), raw_backward=_BACK_POSE),
    Variant("depth-alpha", _DEBUG, ("color", "radii", "depth", "alpha"), writes_snapshots=True,
            raw_returns=(*_RAW, "depth", "alpha"), raw_backward=_BACK_ALPHA),
    Variant("depth-constant", _DEBUG, ("color", "radii", "constant_depth"), writes_snapshots=True,
            raw_returns=_before(_RAW, "radii", "constant_depth"), raw_backward=_BACK),
    Variant("depth-grad", _DEBUG, ("color", "radii", "depth"), writes_snapshots=True,
            raw_returns=_before(_RAW, "radii", "depth"), raw_backward=_BACK_DEPTH),
    Variant("deformable", _DEBUG, ("color", "radii", "constant_depth"), DENSIFIED,
            writes_snapshots=True, raw_returns=_before(_RAW, "radii", "constant_depth"),
            raw_backward=_BACK),
    Variant("pixelsplat", _DEBUG, ("color", "radii"), permutes_sh=True, writes_snapshots=True,
            raw_returns=_RAW, raw_backward=_BACK),
    Variant("mip", _MIP, ("color", "radii"), writes_snapshots=True, raw_returns=_RAW,
            raw_backward=_BACK_MIP),
)}

# Names that users may try, and what to do instead.
_NOT_COVERED = {
    "depth": "the forks with a third result depth are 'depth-constant' (branch main: no gradient) "
             "and 'depth-grad' (branch depth-mean3D); of branch depth, whose gradient holds z "
             "constant, 'depth-grad' has the same depth with its whole gradient",
    "scaffold": "Scaffold-GS is '2023', with visible_filter",
}


def by_fields(fields) -> Variant:
    """The variant whose settings have these fields.

    2023 stands for all that take the same twelve: the others have to be named.
    """
    if "kernel_size" in fields:
        return VARIANTS["mip"]
    if "projmatrix_raw" in fields:
        return VARIANTS["w-pose"]
    if "pixel_weights" in fields:
        return VARIANTS["taming"]
    if "antialiasing" in fields:
        return VARIANTS["2024"]
    return VARIANTS["2023" if "debug" in fields else "w-depth"]


def raw_arguments(variant: Variant) -> tuple[str, ...]:
    """Arguments of _C.rasterize_gaussians, in order."""
    names = ["bg", "means3D", "colors_precomp", "opacities", "scales", "rotations",
             "scale_modifier", "cov3Ds_precomp", "viewmatrix", "projmatrix", "tanfovx", "tanfovy",
             "image_height", "image_width", "sh", "sh_degree", "campos", "prefiltered"]
    if variant.is_split:
        names.insert(names.index("sh"), "dc")
    if variant.is_mip:
        place = names.index("image_height")
        names[place:place] = ["kernel_size", "subpixel_offset"]
    if "projmatrix_raw" in variant.fields:
        names.insert(names.index("tanfovx"), "projmatrix_raw")
    names += [name for name in ("antialiasing", "debug", "pixel_weights")
              if name in variant.fields]
    return tuple(names)


def resolve(name: str | None) -> str:
    """The name of a variant: the one given, else what the environment says, else "auto".

    Raises:
        ValueError: there is no such variant.
    """
    origin = "variant"
    if name is None:
        name, origin = os.environ.get(ENVIRONMENT) or AUTO, ENVIRONMENT
    if name != AUTO and name not in VARIANTS:
        expected = f"one of {', '.join((AUTO, *VARIANTS))}"
        if name in _NOT_COVERED:
            expected = f"another name: {_NOT_COVERED[name]}"
        raise ValueError(f"gsplat_c.compat: {origin} is {name!r}, expected {expected}")
    return name


_HOW = f"name it in gsplat_c.compat.install() or {ENVIRONMENT}"


def unexpected(function: str, variant: Variant, name: str) -> str:
    """What to say where a program gives a keyword that the variant does not take."""
    owners = [other.name for other in VARIANTS.values() if name in (*other.fields, *other.inputs)]
    advice = (f"the program was written for {' or '.join(owners)}: {_HOW}" if owners else
              "no variant takes it, so the program was written for a fork that gsplat_c.compat "
              "does not cover: see Look-alikes in docs/dropin.md")
    return (f"{function}: got an unexpected keyword argument {name!r} in variant {variant.name}; "
            f"{advice}")


def wrong_count(variant: Variant, count: int) -> str:
    """What to say where a program unpacks another number of results."""
    others = [f"{other.name} ({', '.join(other.returns[2:5])})" for other in VARIANTS.values()
              if len(other.returns) == count]
    advice = (f"choose by the results after color and radii among {', '.join(others)}: {_HOW}"
              if others else "no variant does: see Look-alikes in docs/dropin.md")
    return (f"GaussianRasterizer: variant {variant.name} returns {len(variant.returns)} results "
            f"({', '.join(variant.returns)}), the program expects {count}; {advice}")
