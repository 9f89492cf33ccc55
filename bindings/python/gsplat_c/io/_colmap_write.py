"""Writes COLMAP reconstructions, text and binary."""

from __future__ import annotations

import pathlib
import struct
from typing import Any, NamedTuple

import numpy as np

from ._colmap import MODELS, Reconstruction

_PINHOLE = [name for name, _, _ in MODELS].index("PINHOLE")


class Observations(NamedTuple):
    """Where images show points: one row each, in the order of the images."""

    image: np.ndarray  # [O] index of the camera
    point: np.ndarray  # [O] index of the point
    pixel: np.ndarray  # [O, 2] x y


def save_colmap(folder: Any, model: Reconstruction, seen: Observations, *, error: float = 0.0,
                text: bool = False) -> None:
    """Writes a reconstruction into a folder, which is made if need be.

    Args:
        folder: such as DATA/sparse/0.
        model: its cameras become PINHOLE cameras, one for those that are alike.
        seen: the points' projections.
        error: of the projections, pixels.
        text: write COLMAP's text form, not its binary one.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lenses: dict[tuple[float, ...], int] = {}
    images = []
    first = np.searchsorted(seen.image, np.arange(len(model.cameras) + 1))
    for index, camera in enumerate(model.cameras):
        own = slice(first[index], first[index + 1])
        lens = (camera.width, camera.height, *map(float, camera.intrinsics))
        pose = [*quaternion(camera.rotation).tolist(), *camera.translation.tolist()]
        images.append((index + 1, pose, lenses.setdefault(lens, len(lenses) + 1), camera.name,
                       np.column_stack([seen.pixel[own], seen.point[own] + 1])))
    keypoint = np.arange(len(seen.image)) - first[seen.image]  # its index within the image
    order = np.argsort(seen.point, kind="stable")
    tracks = np.split(np.stack([seen.image + 1, keypoint], axis=1)[order],
                      np.searchsorted(seen.point[order], np.arange(1, len(model.points))))
    points = [(index + 1, point.tolist(), color.tolist(), error, track)
              for index, (point, color, track) in enumerate(zip(model.points, model.colors,
                                                                tracks))]
    (_write_text if text else _write_binary)(folder, lenses, images, points)


def quaternion(rotation):
    """w x y z of a rotation matrix: the eigenvector method of Bar-Itzhack (2000)."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    symmetric = np.array([
        [xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, xx - yy - zz, yx + xy, xz + zx],
        [xz - zx, yx + xy, yy - xx - zz, zy + yz],
        [yx - xy, xz + zx, zy + yz, zz - xx - yy],
    ])
    largest = np.linalg.eigh(symmetric)[1][:, -1]
    return largest if largest[0] >= 0 else -largest


def _write_text(folder, lenses, images, points):
    def text(values):
        return " ".join(str(value) for value in values)

    with open(folder / "cameras.txt", "w", encoding="utf-8") as file:
        file.write("# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n")
        for (width, height, *intrinsics), key in lenses.items():
            file.write(f"{key} PINHOLE {width} {height} {text(intrinsics)}\n")
    with open(folder / "images.txt", "w", encoding="utf-8") as file:
        file.write("# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n"
                   "# POINTS2D[] as (X, Y, POINT3D_ID)\n")
        for key, pose, lens, name, keypoints in images:
            file.write(f"{key} {text(pose)} {lens} {name}\n")
            file.write(" ".join(f"{x} {y} {int(point)}" for x, y, point in keypoints.tolist())
                       + "\n")
    with open(folder / "points3D.txt", "w", encoding="utf-8") as file:
        file.write("# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)\n")
        for key, point, color, error, track in points:
            file.write(f"{key} {text(point)} {text(color)} {error} {text(track.ravel())}\n")


def _write_binary(folder, lenses, images, points):
    with open(folder / "cameras.bin", "wb") as file:
        file.write(struct.pack("<Q", len(lenses)))
        for (width, height, *intrinsics), key in lenses.items():
            file.write(struct.pack("<iiQQ4d", key, _PINHOLE, width, height, *intrinsics))
    with open(folder / "images.bin", "wb") as file:
        file.write(struct.pack("<Q", len(images)))
        for key, pose, lens, name, keypoints in images:
            file.write(struct.pack("<i7di", key, *pose, lens) + name.encode("utf-8") + b"\0")
            rows = np.empty(len(keypoints), [("pixel", "<f8", 2), ("point", "<i8")])
            rows["pixel"], rows["point"] = keypoints[:, :2], keypoints[:, 2]
            file.write(struct.pack("<Q", len(rows)) + rows.tobytes())
    with open(folder / "points3D.bin", "wb") as file:
        file.write(struct.pack("<Q", len(points)))
        for key, point, color, error, track in points:
            file.write(struct.pack("<Q3d3BdQ", key, *point, *color, error, len(track)))
            file.write(track.astype("<i4").tobytes())
