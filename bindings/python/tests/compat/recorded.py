"""Golden cases: what the originals returned, CASE.json beside CASE.bin."""

import json
import os
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[4]
VARIANTS = {"inria": "2023", "AA": "2024", "ACC": "2024-accel", "taming": "taming",
            "WD": "w-depth", "WP": "w-pose", "ASH": "depth-alpha", "SCAF": "2023",
            "D3": "depth-constant", "D3M": "depth-grad", "DENS": "deformable", "MIP": "mip"}


def files():
    """Every case by name: in GSPLAT_C_GOLDEN, else beside the repository, else in it; for those
    of forks also in the folder golden_forks beside that one."""
    own = ROOT / "tests" / "golden"
    beside = ROOT.parent / "shared" / "golden"
    chosen = Path(os.environ.get("GSPLAT_C_GOLDEN") or (beside if beside.is_dir() else own))
    return {path.stem: path for folder in (chosen, chosen.parent / "golden_forks")
            for path in folder.glob("*.json")}


def names(*prefixes):
    wanted = tuple(f"{prefix}_" for prefix in prefixes)
    return sorted(name for name in files() if name.startswith(wanted))


class Case:
    """Parameters as items, arrays as tensors on a device."""

    def __init__(self, name, device="cpu"):
        path = files()[name]
        manifest = json.loads(path.read_text())
        data = path.with_suffix(".bin").read_bytes()
        arrays = manifest.pop("arrays")
        self.name, self.parameters, self.tensors = name, manifest, {}
        for key, array in arrays.items():
            count = int(np.prod(array["shape"]))
            values = np.frombuffer(data, array["dtype"], count, array["offset"])
            tensor = torch.from_numpy(values.copy()).reshape(array["shape"])
            self.tensors[key] = tensor.to(device)

    def __getitem__(self, key):
        return self.parameters[key] if key in self.parameters else self.tensors[key]

    def get(self, key):
        return self.parameters.get(key, self.tensors.get(key))

    def settings(self, fields):
        """Keyword arguments of the settings with these fields."""
        other = {"bg": "in_bg", "viewmatrix": "in_viewmatrix", "projmatrix": "in_projmatrix",
                 "projmatrix_raw": "in_projmatrix_raw", "campos": "in_campos",
                 "pixel_weights": "in_pixel_weights", "subpixel_offset": "in_subpixel_offset"}
        fixed = {"prefiltered": False, "debug": False}
        return {name: fixed[name] if name in fixed else self.get(other.get(name, name))
                for name in fields}

    def inputs(self):
        """Leaves by argument name of GaussianRasterizer.forward."""
        names = ("means3D", "opacities", "dc", "shs", "colors_precomp", "scales", "rotations",
                 "cov3D_precomp")
        leaves = {name: self.tensors[f"in_{name}"].clone().requires_grad_()
                  for name in names if f"in_{name}" in self.tensors}
        for name in ("means2D", "means2D_densify"):
            if f"grad_{name}" in self.tensors:
                leaves[name] = torch.zeros_like(leaves["means3D"], requires_grad=True)
        for name in ("theta", "rho"):
            if f"grad_{name}" in self.tensors:
                leaves[name] = torch.zeros(3, device=leaves["means3D"].device, requires_grad=True)
        return leaves


def relative(got, wanted, flips=0, flip_size=0.02):
    """L2 norm of the difference over that of ``wanted``.

    The worst ``flips`` pixels (of [.., H, W]) may be off by flip_size of the largest
    value: a splat just at alpha = 1/255 or at the last of the transmittance.
    """
    got, wanted = got.detach().double().cpu(), wanted.detach().double().cpu()
    assert got.shape == wanted.shape and torch.isfinite(got).all()
    squares = (got - wanted) ** 2
    if flips:
        squares = squares.reshape(-1, squares.shape[-2] * squares.shape[-1]).sum(0)
        worst, where = squares.topk(min(flips, squares.numel()))
        squares[where[worst <= (flip_size * wanted.abs().max()) ** 2]] = 0
    norm = wanted.norm().item()
    difference = squares.sum().sqrt().item()
    return difference / norm if norm else difference
