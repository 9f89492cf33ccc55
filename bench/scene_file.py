"""A trained scene and one of its cameras as torch tensors, in the form of a benchmark scene."""

import numpy as np
import torch

from gsplat_c.io import load_cameras, load_ply

SIZES = {"720p": (1280, 720), "1080p": (1920, 1080), "4k": (3840, 2160)}


def read(ply, cameras, index=0, size="1080p", device="cuda"):
    """A dictionary as scene() of a scenes module returns it: parameters after activation."""
    scene = load_ply(ply)
    camera = load_cameras(cameras)[index].fitted(*SIZES[size])

    def tensor(values):
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(device)

    return {"means": tensor(scene.means), "scales": tensor(scene.scales),
            "rotations": tensor(scene.rotations / np.linalg.norm(
                scene.rotations, axis=1, keepdims=True)),
            "opacities": tensor(scene.opacities), "sh": tensor(scene.sh),
            "view": tensor(camera.world_to_camera), "intrinsics": camera.intrinsics,
            "width": camera.width, "height": camera.height, "near_plane": 0.2,
            "background": torch.zeros(3, device=device)}
