"""A trained scene and one of its cameras as torch tensors, in the form of a benchmark scene."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import splat_file

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080), "4k": (3840, 2160)}


def camera(path, index, width, height):
    """(world to camera [4, 4] row by row, fx fy cx cy) of a cameras.json, at another size:
    everything the camera saw stays in the picture."""
    found = json.loads(Path(path).read_text())[index]
    axes = np.array(found["rotation"])  # columns: the camera's axes in the world
    view = np.eye(4)
    view[:3, :3] = axes.T
    view[:3, 3] = -axes.T @ np.array(found["position"])
    scale = min(width / found["width"], height / found["height"])
    intrinsics = (found["fx"] * scale, found["fy"] * scale, width / 2, height / 2)
    return view.astype(np.float32), intrinsics


def read(ply, cameras, index=0, size="1080p", device="cuda"):
    """A dictionary as scene() of a scenes module returns it: parameters after activation."""
    file = splat_file.read(ply)
    width, height = SIZES[size]
    view, intrinsics = camera(cameras, index, width, height)

    def tensor(values):
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(device)

    return {"means": tensor(file["means"]), "scales": tensor(np.exp(file["log_scales"])),
            "rotations": tensor(file["rotations"] / np.linalg.norm(
                file["rotations"], axis=1, keepdims=True)),
            "opacities": tensor(1 / (1 + np.exp(-file["logits"]))), "sh": tensor(file["sh"]),
            "view": tensor(view), "intrinsics": intrinsics, "width": width, "height": height,
            "near_plane": 0.2, "background": torch.zeros(3, device=device)}
