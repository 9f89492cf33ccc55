"""Scenes as the PLY files of 3D Gaussian splatting and of its many relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._messages import at, warn
from ._ply import Table, read_table
from ._scene import Scene

SH0 = 0.28209479177387814  # the constant spherical harmonic

_MEANS = ("x", "y", "z")
_SCALES = ("scale_0", "scale_1", "scale_2")
_ROTATIONS = ("rot_0", "rot_1", "rot_2", "rot_3")
_DC = ("f_dc_0", "f_dc_1", "f_dc_2")
_NORMALS = ("nx", "ny", "nz")
_COLORS = (("red", "green", "blue"), ("r", "g", "b"))

# Columns and elements that show that a file holds something else than 3D Gaussians.
_NO_GAUSSIANS = {
    "packed_position": "is a compressed scene: convert it to a standard PLY first, for instance "
                       "with splat-transform",
    "f_anchor_feat_0": "has neural anchors (Scaffold-GS, Octree-GS), not Gaussians",
    "f_offset_0": "has neural anchors (Scaffold-GS, Octree-GS), not Gaussians",
    "codebook_centers": "has code books (GaussianSplats3D), not Gaussians: convert it to a "
                        "standard PLY first",
    "trbf_center": "has moving Gaussians (Spacetime Gaussians), which one image does not show",
}
_FLAT = np.log(1e-6)  # of a disc's third scale, with respect to its smaller one
_FAINTEST = 1e-6  # alpha and 1 - alpha, where a logit is needed


def load_ply(path: Any, *, drop_invalid: bool = False) -> Scene:
    """Reads a scene from a PLY file: text, little- or big-endian, with its columns in any order.

    Double-precision positions remain in double.  Colours may be ``red green blue`` instead of
    spherical harmonics.  ``filter_3D`` of Mip-Splatting is applied to scales and opacities, and
    the comments ``SplatRenderMode`` and ``antialiased`` are followed.

    Args:
        path: of the file.
        drop_invalid: leave out Gaussians that ``Scene.invalid`` marks, instead of warning.

    Raises:
        ValueError: not a PLY file, cut short, or not a scene of 3D Gaussians.
    """
    with at(path):
        scene, notes = _Columns(read_table(path, "vertex")).scene()
    invalid = scene.invalid
    if drop_invalid:
        scene = scene[~invalid]
    elif invalid.any():
        notes.append(f"{np.count_nonzero(invalid)} of {len(scene)} Gaussians have values that are "
                     "not finite, or a quaternion of zeros: load_ply(.., drop_invalid=True) "
                     "leaves them out")
    for note in notes:
        warn(path, note)
    return scene


class _Columns:
    """The columns of a table, by what they mean."""

    def __init__(self, table: Table):
        self.table, self.used = table, set(_NORMALS)
        for name in (*table.columns, *table.elements):
            if name in _NO_GAUSSIANS:
                raise ValueError(_NO_GAUSSIANS[name])

    def column(self, name):
        """One column as it is stored."""
        columns = self.table.columns
        if name not in columns:
            hint = ""
            if "x" in columns and not {"scale_0", "rot_0"} <= columns.keys():
                hint = " (this looks like a point cloud, not a Gaussian scene)"
            raise ValueError(f"element 'vertex' has no property {name!r}{hint}")
        self.used.add(name)
        return columns[name]

    def stack(self, names, kind: Any = np.float32):
        """Columns side by side as an array of their own."""
        with np.errstate(over="ignore"):
            columns = [self.column(name).astype(kind) for name in names]
        return np.stack(columns, axis=-1) if columns else np.empty((self.table.rows, 0), kind)

    def scene(self):
        """(the scene, what its user should know)"""
        columns, notes = self.table.columns, []
        double = any(columns[name].dtype.itemsize == 8 for name in _MEANS if name in columns)
        means = self.stack(_MEANS, np.float64 if double else np.float32)
        if "scale_1" in columns and "scale_2" not in columns:
            notes.append("has two scales (2D Gaussian splatting): its discs become flat 3D "
                         "Gaussians, which look different from the side")
            log_scales = self.stack(_SCALES[:2])
            log_scales = np.insert(log_scales, 2, log_scales.min(1) + _FLAT, axis=1)
        else:
            log_scales = self.stack(_SCALES)
        rotations, logits, sh = self.stack(_ROTATIONS), self.logits(), self.harmonics()
        comments = [comment.lower() for comment in self.table.comments]
        antialiased, blur = _is_antialiased(comments), 0.3
        if "filter_3D" in columns:
            notes.append("filter_3D (Mip-Splatting) is applied to scales and opacities")
            log_scales, logits = _filtered(log_scales, logits, self.column("filter_3D"))
            antialiased, blur = True, 0.1
        elif antialiased and "exported from brush" in comments:
            blur = 0.1
        unused = [name for name in columns if name not in self.used]
        if unused:
            notes.append(f"columns that are not used: {', '.join(unused)}")
        return Scene(means, log_scales, rotations, logits, sh, antialiased, blur), notes

    def harmonics(self):
        """[N, K, 3]"""
        columns = self.table.columns
        names = next((names for names in _COLORS if names[0] in columns), None)
        if names and _DC[0] not in columns:
            dc = np.stack([_fraction(self.column(name)) for name in names], axis=-1)
            dc = ((dc - 0.5) / SH0).astype(np.float32)
        else:
            dc = self.stack(_DC)
            self.used.update(names or ())
        count = sum(name.startswith("f_rest_") for name in columns)
        if count not in (0, 9, 24, 45, 72):
            raise ValueError(f"element 'vertex' has {count} properties f_rest_*; spherical "
                             "harmonics of degree 0 to 4 have 0, 9, 24, 45 or 72")
        # Channel by channel in the file.
        rest = self.stack([f"f_rest_{index}" for index in range(count)])
        rest = rest.reshape(len(dc), 3, count // 3).transpose(0, 2, 1)
        return np.concatenate([dc[:, None], rest], axis=1)

    def logits(self):
        """[N]"""
        if "opacity" in self.table.columns or "alpha" not in self.table.columns:
            self.used.add("alpha")
            return self.stack(["opacity"])[:, 0]
        alpha = np.clip(_fraction(self.column("alpha")), _FAINTEST, 1 - _FAINTEST)
        return np.log(alpha / (1 - alpha)).astype(np.float32)


def _is_antialiased(comments):
    """Whether a scene was trained so; the last comment about it decides."""
    antialiased = False
    for comment in comments:
        name, _, value = comment.replace(":", " ").partition(" ")
        if name == "splatrendermode":
            antialiased = value.strip() == "mip"
        elif name == "antialiased":
            antialiased = value.strip() == "1"
    return antialiased


def _fraction(values):
    """Values of a colour's column in double: integers as parts of their largest."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    return values / np.iinfo(values.dtype).max


def _filtered(log_scales, logits, width):
    """(logarithms of scales, logits) after a smoothing filter of that width, Mip-Splatting's.

    It adds the square of the width to those of the scales, and scales the opacity alpha by c, the
    root of the determinants' ratio.  In logits: c alpha / (1 - c alpha), where
    alpha = 1 / (1 + e^-logit).
    """
    log_scales, logits = log_scales.astype(np.float64), logits.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_width = np.log(np.abs(width.astype(np.float64)))[:, None]
        wider = np.logaddexp(2 * log_scales, 2 * log_width) / 2
        log_c = np.minimum((log_scales - wider).sum(1), 0)
        logits = log_c - np.logaddexp(np.log(-np.expm1(log_c)), -logits)
    return wider.astype(np.float32), logits.astype(np.float32)


def save_ply(path: Any, scene: Scene) -> None:
    """Writes a scene as a binary little-endian PLY file in the layout of 3D Gaussian splatting.

    Positions are doubles if the scene's are.  Quaternions are written with norm 1, infinite
    logits as those of the opacities 1e-6 and 1 - 1e-6.  A comment says whether the scene is
    antialiased; the file does not hold ``blur``.
    """
    count, stored = scene.sh.shape[:2]
    if scene.blur != 0.3:
        warn(path, f"a PLY file does not hold the blur of {scene.blur:g}: load_ply will say 0.3")
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = np.linalg.norm(scene.rotations.astype(np.float64), axis=1, keepdims=True)
        rotations = np.where(norms > 0, scene.rotations / norms, scene.rotations)
    finite = np.where(np.isinf(scene.logits),
                      np.copysign(np.log(1 / _FAINTEST - 1), scene.logits), scene.logits)
    rest = scene.sh[:, 1:].transpose(0, 2, 1).reshape(count, 3 * stored - 3)
    parts = (
        (_MEANS, scene.means), (_NORMALS, np.zeros((count, 3))), (_DC, scene.sh[:, 0]),
        ([f"f_rest_{index}" for index in range(rest.shape[1])], rest),
        (["opacity"], finite[:, None]), (_SCALES, scene.log_scales), (_ROTATIONS, rotations),
    )
    double = scene.means.dtype == np.float64
    kinds = [(name, "<f8" if double and name in _MEANS else "<f4")
             for names, _ in parts for name in names]
    rows = np.empty(count, kinds)
    for names, values in parts:
        for index, name in enumerate(names):
            rows[name] = values[:, index]
    header = ["ply", "format binary_little_endian 1.0",
              *["comment SplatRenderMode: mip"] * scene.antialiased, f"element vertex {count}",
              *(f"property {'double' if kind == '<f8' else 'float'} {name}"
                for name, kind in kinds), "end_header", ""]
    with open(path, "wb") as file:
        file.write("\n".join(header).encode("ascii"))
        file.write(rows.tobytes())
