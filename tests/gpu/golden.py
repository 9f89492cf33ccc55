"""Golden cases, see tests/golden/README.md, as arguments of the Python package."""

import json
import os
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def folder():
    """$GSPLAT_C_GOLDEN, or ../shared/golden where that is, or the cases of the repository."""
    chosen = os.environ.get("GSPLAT_C_GOLDEN")
    beside = ROOT.parent / "shared" / "golden"
    return Path(chosen) if chosen else beside if beside.is_dir() else ROOT / "tests" / "golden"


def files():
    """Every case by name; those of forks may be in a folder golden_forks beside the others."""
    return {path.stem: path for place in (folder(), folder().parent / "golden_forks")
            for path in place.glob("*.json")}


def names(*prefixes):
    return sorted(name for name in files() if name.startswith(prefixes))


class Case:
    """One recording: case["in_means"] is an array or None, case.get("sh_degree") a parameter."""

    def __init__(self, name):
        self.name = name
        path = files()[name]
        self.manifest = json.loads(path.read_text())
        data = path.with_suffix(".bin").read_bytes()
        self.arrays = {
            key: np.frombuffer(data, item["dtype"], int(np.prod(item["shape"])), item["offset"])
            .reshape(item["shape"]).copy()
            for key, item in self.manifest["arrays"].items()}
        self.gsplat = self.get("op") == "gsplat.rasterization"
        self.variant = self.get("variant")

    def get(self, key, otherwise=None):
        value = self.manifest.get(key)
        return otherwise if value is None else value

    def __getitem__(self, key):
        return self.arrays.get(key)


def _present(args):
    return {k: v for k, v in args.items() if v is not None}


def _compat_args(c):
    return _present({
        "compat_3dgs": True, "antialias": bool(c.get("antialiasing")) or c.variant == "MIP",
        "compat_mip": c.variant == "MIP", "blur": c.get("kernel_size"),
        "width": c.get("image_width"), "height": c.get("image_height"),
        "scale_modifier": c.get("scale_modifier", 1.0), "tan_fovx": c.get("tanfovx"),
        "tan_fovy": c.get("tanfovy"), "median_default": 15.0 if c.variant == "WD" else 0.0,
        "view": c["in_viewmatrix"], "projection": c["in_projmatrix"],
        "position": c["in_campos"], "background": c["in_bg"],
        "pixel_weights": c["in_pixel_weights"], "means": c["in_means3D"],
        "opacities": c["in_opacities"], "scales": c["in_scales"],
        "rotations": c["in_rotations"], "covariances": c["in_cov3D_precomp"],
        "colors": c["in_colors_precomp"], "sh": c["in_shs"], "sh_dc": c["in_dc"],
        "sh_degree": int(c.get("sh_degree", 0)) if c["in_shs"] is not None else None})


def _gsplat_args(c):
    matrix = c["in_Ks"]
    colors = c["in_colors"]
    args = {
        "view_row_major": True, "pixel_last": True,
        "antialias": c.get("rasterize_mode") == "antialiased",
        "width": c.get("width"), "height": c.get("height"), "near_plane": c.get("near_plane"),
        "far_plane": c.get("far_plane"), "radius_clip": c.get("radius_clip"),
        "blur": c.get("eps2d"), "view": c["in_viewmats"],
        "intrinsics": np.ascontiguousarray(
            np.stack([matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 0, 2], matrix[:, 1, 2]], 1)),
        "background": c["in_backgrounds"], "means": c["in_means"],
        "opacities": c["in_opacities"], "scales": c["in_scales"], "rotations": c["in_quats"]}
    if colors.ndim == 3:
        args.update(sh=colors, sh_degree=int(c.get("sh_degree", 0)))
    else:
        args["colors"] = colors
    return _present(args)


def arguments(c):
    return _gsplat_args(c) if c.gsplat else _compat_args(c)


def _depth_mode(c):
    return {"RGB+D": "D", "RGB+ED": "ED"}.get(c.get("render_mode"), "")


def _without_camera(array, shape):
    return None if array is None else array.reshape(shape)


def _compat_outputs(c):
    height, width = c.get("image_height"), c.get("image_width")
    pixels = (height, width)
    depth = _without_camera(c["out_depth"], pixels)
    alpha = c["out_opacity" if c.variant == "WP" else "out_alpha"]
    return _present({
        "color": c["out_color"], "radii": c["out_radii"],
        "inv_depth": _without_camera(c["out_invdepth"], pixels),
        "median_depth": depth if c.variant == "WD" else None,
        "depth": None if c.variant == "WD" else depth, "alpha": _without_camera(alpha, pixels),
        "touched": c["out_n_touched"], "means2d": c["out_centers"], "depths": c["out_depths"],
        "weight_sum": c["out_accum_weights"], "weight_count": c["out_accum_count"],
        "weight_blend": c["out_accum_blend"], "weight_distance": c["out_accum_dist"]})


def _gsplat_outputs(c):
    image, alpha, mode = c["out_render_colors"], c["out_render_alphas"][..., 0], _depth_mode(c)
    channels = image.shape[-1] - (mode != "")
    seen = c["out_radii"][..., :1] > 0
    out = {"color": np.ascontiguousarray(image[..., :channels]), "alpha": alpha,
           "radii": c["out_radii"],
           # Garbage where culled.
           "means2d": np.where(seen, c["out_means2d"], 0),
           "depths": np.where(seen[..., 0], c["out_depths"], 0),
           "conics": np.where(seen, c["out_conics"], 0)}
    if mode:
        out["depth"] = image[..., channels] * (alpha if mode == "ED" else 1)
    return out


def outputs(c):
    """What was recorded, by the names of the package."""
    return _gsplat_outputs(c) if c.gsplat else _compat_outputs(c)


def _gsplat_upstream(c):
    given, mode = c["in_grad_render_colors"], _depth_mode(c)
    channels = given.shape[-1] - (mode != "")
    by_alpha = c["in_grad_render_alphas"][..., 0].astype(np.float64)
    out = {"grad_color": given[..., :channels]}
    if mode:
        by_depth = given[..., channels].astype(np.float64)
    if mode == "ED":  # the recorded depth is depth / alpha
        recorded = _gsplat_outputs(c)
        alpha, depth = (recorded[k].astype(np.float64) for k in ("alpha", "depth"))
        some = alpha > 0
        safe = np.where(some, alpha, 1)
        by_alpha -= np.where(some, by_depth * depth / safe ** 2, 0)
        by_depth = np.where(some, by_depth / safe, 0)
    if mode:
        out["grad_depth"] = by_depth
    return {**out, "grad_alpha": by_alpha}


def upstream(c):
    """Derivatives of the recorded loss, as arguments of rasterize_backward."""
    if c.gsplat:
        given = _gsplat_upstream(c)
    else:
        pixels = (c.get("image_height"), c.get("image_width"))
        given = _present({
            "grad_color": c["in_grad_color"],
            "grad_alpha": _without_camera(c["in_grad_alpha"], pixels),
            # Forks whose depth has no gradient recorded none.
            "grad_depth": _without_camera(c["in_grad_depth"], pixels)
            if c.variant not in ("D3", "DENS") else None,
            "grad_inv_depth": _without_camera(c["in_grad_invdepth"], pixels)})
    return {k: np.ascontiguousarray(v, np.float32) for k, v in given.items()}


def gradients(c):
    """What was recorded, by the names of the package; those of means2d in half images."""
    if c.gsplat:
        by_color = c["grad_colors"]
        return _present({
            "means": c["grad_means"], "opacities": c["grad_opacities"],
            "scales": c["grad_scales"], "rotations": c["grad_quats"],
            "view": c["grad_viewmats"], "sh" if by_color.ndim == 3 else "colors": by_color})
    means2d, absolute = (None if value is None else np.ascontiguousarray(value[:, :2])
                         for value in (c["grad_means2D"], c["grad_means2D_densify"]))
    return _present({
        "means": c["grad_means3D"], "opacities": c["grad_opacities"],
        "scales": c["grad_scales"], "rotations": c["grad_rotations"],
        "covariances": c["grad_cov3D_precomp"], "colors": c["grad_colors_precomp"],
        "sh": c["grad_shs"], "sh_dc": c["grad_dc"],
        "means2d": means2d, "means2d_abs": absolute})
