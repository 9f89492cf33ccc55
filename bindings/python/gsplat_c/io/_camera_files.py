"""Cameras as JSON: cameras.json of 3DGS, transforms.json of nerfstudio, instant-ngp and NeRF."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._camera import NEGLIGIBLE, UNDISTORT, Camera, make_pose
from ._colmap import load_colmap
from ._image import image_size
from ._messages import at, warn

_PERSPECTIVE = ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "PERSPECTIVE")
# Numbers, or lists of them, without which a lens or a shutter is that of a pinhole camera.
_DISTORTION = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2", "s1", "s2", "s3", "s4", "skew",
               "distortion", "distortion_params", "distortion_coefficients", "dist_coeffs",
               "radial_distortion", "tangential_distortion", "rolling_shutter", "is_fisheye")
# From the axes of OpenGL (y up, z backward) to ours.
_FLIP = np.diag([1.0, -1, -1])


def load_cameras(path: Any, *, dataparser: Any = None) -> list[Camera]:
    """Reads cameras: cameras.json, transforms.json, or a folder with a COLMAP reconstruction.

    What a JSON file is depends on its content.  cameras.json keeps its order; frames of
    transforms.json and images of COLMAP are sorted by name.  Image paths without an extension
    get that of the file beside them, else .png.

    Args:
        path: of the file or folder.
        dataparser: dataparser_transforms.json of a nerfstudio training, which moves the cameras
            of transforms.json to where nerfstudio exports the scene.

    Raises:
        ValueError: a lens that is no pinhole, a key that is missing or wrong.
    """
    path = pathlib.Path(path)
    if path.is_dir() and dataparser is None:
        return load_colmap(path).cameras
    root = _read_json(path)
    with at(path):
        if isinstance(root, dict) and isinstance(root.get("frames"), list):
            cameras = _read_transforms(path, root, dataparser)
            if root.get("orientation_override") not in (None, "none"):
                warn(path, "orientation_override is not applied: poses are used as they are")
        elif dataparser is not None:
            raise ValueError("is no transforms.json, to which a dataparser belongs")
        elif isinstance(root, list):
            cameras = _read_list(root)
            if (path.parent / "exposure.json").exists():
                warn(path, "exposure.json beside it is not applied: the pictures of the training "
                           "may be brighter or darker")
        else:
            raise ValueError("is neither a list of cameras nor an object with 'frames'")
        if not cameras:
            raise ValueError("holds no camera")
    return cameras


def save_cameras_json(path: Any, cameras: Iterable[Camera]) -> None:
    """Writes a cameras.json file as 3DGS does, and the principal points as cx, cy."""
    entries = []
    for index, camera in enumerate(cameras):
        fx, fy, cx, cy = map(float, camera.intrinsics)
        entries.append({"id": index, "img_name": camera.name, "width": camera.width,
                        "height": camera.height, "position": camera.position.tolist(),
                        "rotation": camera.rotation.T.tolist(), "fy": fy, "fx": fx, "cx": cx,
                        "cy": cy})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)


def _read_json(path):
    with at(path), open(path, encoding="utf-8") as file:
        try:
            return json.load(file, parse_int=float)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {error.lineno}, near column {error.colno}: not valid "
                             "JSON") from None
        except RecursionError:
            raise ValueError("not valid JSON: nested too deeply") from None


# --------------------------------------------------------------------- entries


def _number(entry, key, default=None):
    value = entry.get(key, default)
    if value is None:
        raise ValueError(f"{key!r} is missing")
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"{key!r} is not a number")
    return value


def _matrix(entry, key, *shapes):
    """The array of a key, which must be there in one of the shapes."""
    try:
        matrix = np.array(entry[key], np.float64)
    except (KeyError, TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape not in shapes or not np.isfinite(matrix).all():
        raise ValueError(f"{key!r} is missing or not {'x'.join(map(str, shapes[0]))} numbers")
    return matrix


def _check_lens(entry):
    """An error for a camera that is no pinhole."""
    for key in ("camera_model", "model"):
        model = entry.get(key)
        if isinstance(model, str) and model.upper() not in _PERSPECTIVE:
            raise ValueError(f"{key!r} is {model}, {UNDISTORT}")
    for key in _DISTORTION:
        value = entry.get(key)
        try:
            bent = np.abs(np.array(0 if value is None else value, np.float64)).max(initial=0)
        except (TypeError, ValueError):
            bent = math.inf
        if not bent <= NEGLIGIBLE:
            raise ValueError(f"{key!r} is {value}, {UNDISTORT}")


def _intrinsics(entry, focal_lengths, width, height):
    return (*focal_lengths, _number(entry, "cx", width / 2), _number(entry, "cy", height / 2))


def _read_list(entries):
    """The cameras of cameras.json."""
    cameras = []
    for index, entry in enumerate(entries):
        with at(f"camera {index}"):
            cameras.append(_read_camera(index, entry))
    return cameras


def _read_camera(index, entry):
    if not isinstance(entry, dict):
        raise ValueError("is not an object")
    _check_lens(entry)
    width, height = _number(entry, "width"), _number(entry, "height")
    focal = _number(entry, "fx"), _number(entry, "fy")
    # The columns of its rotation are the camera's axes.
    rotation = _matrix(entry, "rotation", (3, 3)).T
    pose = make_pose(rotation, -rotation @ _matrix(entry, "position", (3,)))
    name = entry.get("img_name")
    if not isinstance(name, str) or not name:
        name = f"{index:05}"
    return Camera(name, width, height, _intrinsics(entry, focal, width, height), pose)


# ------------------------------------------------------------- transforms.json


def _read_transforms(path, root, dataparser):
    move, scale = np.eye(4), 1.0
    if dataparser is not None:
        move, scale = _read_dataparser(dataparser, root)
    shared = {key: value for key, value in root.items() if key != "frames"}
    cameras = []
    for index, frame in enumerate(root["frames"]):
        with at(f"frame {index}"):
            if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
                raise ValueError("'file_path' is missing or not a text")
            cameras.append(_read_frame(path.parent, {**shared, **frame}, move, scale))
    return sorted(cameras, key=lambda camera: camera.name)


def _read_frame(folder, frame, move, scale):
    _check_lens(frame)
    name = _picture_name(folder, frame["file_path"])
    if "w" in frame or "h" in frame:
        width, height = _number(frame, "w"), _number(frame, "h")
    else:
        try:
            width, height = image_size(folder / name)
        except FileNotFoundError:
            raise ValueError(f"'w' and 'h' are missing, and there is no {folder / name} to take "
                             "them from") from None
    if "fl_x" in frame:
        fx = _number(frame, "fl_x")
        fy = _number(frame, "fl_y", fx)
    else:
        fx = fy = width / 2 / math.tan(_number(frame, "camera_angle_x") / 2)
        if "camera_angle_y" in frame:
            fy = height / 2 / math.tan(_number(frame, "camera_angle_y") / 2)
    matrix = _matrix(frame, "transform_matrix", (4, 4), (3, 4))
    rotation = (move[:3, :3] @ matrix[:3, :3] @ _FLIP).T
    position = scale * (move[:3, :3] @ matrix[:3, 3] + move[:3, 3])
    return Camera(name, width, height, _intrinsics(frame, (fx, fy), width, height),
                  make_pose(rotation, -rotation @ position), frame.get("mask_path"))


def _picture_name(folder, name):
    """The path of a frame's picture, with an extension."""
    name = pathlib.PurePosixPath(name)
    if not name.suffix and not (folder / name).is_file():
        beside = sorted((folder / name.parent).glob(f"{name.name}.*"))
        name = name.with_suffix(beside[0].suffix if beside else ".png")
    return str(name)


def _read_dataparser(path, root):
    """([4, 4], scale) from the poses of transforms.json to those of nerfstudio's exports."""
    entry = _read_json(path)
    with at(path):
        if not isinstance(entry, dict):
            raise ValueError("is not an object")
        move = np.vstack([_matrix(entry, "transform", (3, 4), (4, 4))[:3], [0, 0, 0, 1]])
        scale = _number(entry, "scale")
    # That transform begins with the one which transforms.json says was applied.
    if "applied_transform" in root:
        applied = _matrix(root, "applied_transform", (3, 4), (4, 4))[:3]
        move = move @ np.linalg.inv(np.vstack([applied, [0, 0, 0, 1]]))
    return move, scale / _number(root, "applied_scale", 1.0)
