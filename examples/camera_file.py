"""Pinhole cameras, and the cameras.json files that 3DGS training writes for viewers."""

import json
from typing import NamedTuple

import numpy as np


class Camera(NamedTuple):
    """Looks along its z axis, x to the right and y down; the first pixel's centre is (0.5, 0.5)."""

    name: str  # of its image
    width: int
    height: int
    intrinsics: tuple  # fx fy cx cy, pixels
    rotation: np.ndarray  # [3, 3] world to camera
    translation: np.ndarray  # [3] world to camera

    @property
    def position(self):
        return -self.rotation.T @ self.translation

    @property
    def view(self):
        """[4, 4] world to camera, row-major."""
        view = np.eye(4, dtype=np.float32)
        view[:3, :3], view[:3, 3] = self.rotation, self.translation
        return view

    def resized(self, width, height):
        """The same camera with its image scaled to another size."""
        x, y = width / self.width, height / self.height
        fx, fy, cx, cy = self.intrinsics
        return self._replace(width=width, height=height,
                             intrinsics=(fx * x, fy * y, cx * x, cy * y))


def read(path):
    """The cameras of a cameras.json file, which does not store principal points."""
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)
    cameras = []
    for entry in entries:
        width, height = entry["width"], entry["height"]
        rotation = np.array(entry["rotation"], np.float64).T  # columns are the camera's axes
        cameras.append(Camera(entry["img_name"], width, height,
                              (entry["fx"], entry["fy"], width / 2, height / 2),
                              rotation, -rotation @ np.array(entry["position"], np.float64)))
    return cameras


def write(path, cameras):
    """Writes a cameras.json file for viewers, which assume centred principal points."""
    entries = [{"id": index, "img_name": camera.name, "width": camera.width,
                "height": camera.height, "position": camera.position.tolist(),
                "rotation": camera.rotation.T.tolist(),
                "fy": float(camera.intrinsics[1]), "fx": float(camera.intrinsics[0])}
               for index, camera in enumerate(cameras)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
