"""COLMAP reconstructions, text and binary: the cameras and the sparse points."""

from __future__ import annotations

import pathlib
import struct
from typing import Any, NamedTuple

import numpy as np

from ._camera import NEGLIGIBLE, UNDISTORT, Camera, make_pose
from ._messages import at

# Camera models by their number in binary files: name, number of parameters, and focal lengths
# among them, 0 for those that are no pinhole even without distortion.
MODELS = (
    ("SIMPLE_PINHOLE", 3, 1), ("PINHOLE", 4, 2), ("SIMPLE_RADIAL", 4, 1), ("RADIAL", 5, 1),
    ("OPENCV", 8, 2), ("OPENCV_FISHEYE", 8, 0), ("FULL_OPENCV", 12, 2), ("FOV", 5, 2),
    ("SIMPLE_RADIAL_FISHEYE", 4, 0), ("RADIAL_FISHEYE", 5, 0), ("THIN_PRISM_FISHEYE", 12, 0),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16, 0), ("SIMPLE_DIVISION", 4, 1), ("DIVISION", 5, 2),
    ("SIMPLE_FISHEYE", 3, 0), ("FISHEYE", 4, 0), ("EUCM", 6, 0), ("EQUIRECTANGULAR", 2, 0),
)
_LONGEST_NAME = 4096


class Reconstruction(NamedTuple):
    """Cameras, one for each image, sorted by name; P points with their colours."""

    cameras: list[Camera]
    points: np.ndarray  # [P, 3] float64
    colors: np.ndarray  # [P, 3] uint8


class _Image(NamedTuple):
    name: str
    lens: int
    quaternion: Any  # w x y z, world to camera
    translation: Any


def load_colmap(path: Any) -> Reconstruction:
    """Reads a reconstruction from its folder, or from a data set that has it in sparse/0.

    Binary files come before text.  Poses of rigs are in the images' poses already.

    Raises:
        FileNotFoundError: no reconstruction there.
        ValueError: a camera with distortion or of an unknown model, a file that is cut short.
    """
    folder = _find(pathlib.Path(path))
    binary = (folder / "cameras.bin").exists()
    lenses, images, points = (_read_binary if binary else _read_text)(folder)
    cameras = []
    with at(folder):
        for image in sorted(images, key=lambda image: image.name):
            with at(f"image {image.name!r}"):
                cameras.append(_camera(image, lenses))
    table = np.array(points, np.float64).reshape(-1, 6)
    return Reconstruction(cameras, table[:, :3], table[:, 3:].astype(np.uint8))


def _find(path):
    for folder in (path / "sparse" / "0", path / "sparse", path):
        if any((folder / f"cameras.{kind}").exists() for kind in ("bin", "txt")):
            return folder
    raise FileNotFoundError(f"{path}: no cameras.bin or cameras.txt in it, sparse/0 or sparse")


def _camera(image, lenses):
    if image.lens not in lenses:
        raise ValueError(f"its camera {image.lens} is not among the cameras")
    model, width, height, parameters = lenses[image.lens]
    focal = next(focal for name, _, focal in MODELS if name == model)
    distortion = parameters[focal + 2:]
    if not focal or not all(abs(value) <= NEGLIGIBLE for value in distortion):
        raise ValueError(f"its camera {image.lens} is {model} with parameters "
                         f"{[float(value) for value in parameters]}, {UNDISTORT}")
    intrinsics = tuple(float(parameters[index]) for index in (0, focal - 1, focal, focal + 1))
    if not np.linalg.norm(image.quaternion) > 0:
        raise ValueError("its quaternion is zero")
    return Camera(image.name, width, height, intrinsics,
                  make_pose(rotation_matrix(image.quaternion), image.translation))


def rotation_matrix(quaternion):
    """[3, 3] of a quaternion w x y z of any norm."""
    w, x, y, z = np.asarray(quaternion, np.float64) / np.linalg.norm(quaternion)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])


# Each reader returns {id: (model, width, height, parameters)}, [_Image] and [(x y z r g b)].


# ------------------------------------------------------------------------ text


def _parse(path, parse, layout, every=1):
    """What parse makes of the words of each line of data, or of every second one.

    layout: names of the words that there must be; the last one takes the rest of the line.
    """
    rows, count = [], len(layout.split())
    with at(path), open(path, encoding="utf-8") as file:
        lines = [(number, line.rstrip("\r\n")) for number, line in enumerate(file, 1)
                 if not line.startswith("#")]
        for number, line in lines[::every]:
            words = line.split(maxsplit=count - 1)
            if words:
                with at(f"line {number}"):
                    if len(words) < count:
                        raise ValueError(f"has {len(words)} values, expected {layout}")
                    rows.append(parse(words))
    return rows


def _parse_lens(words):
    key, model, width, height, numbers = words
    parameters = [float(number) for number in numbers.split()]
    expected = next((count for name, count, _ in MODELS if name == model), None)
    if expected is None:
        raise ValueError(f"unknown camera model {model!r}")
    if len(parameters) != expected:
        raise ValueError(f"{model} has {len(parameters)} parameters, expected {expected}")
    return int(key), (model, int(width), int(height), parameters)


def _parse_image(words):
    pose = [float(word) for word in words[1:8]]
    return _Image(words[9], int(words[8]), pose[:4], pose[4:])


def _parse_point(words):
    return [float(word) for word in words[1:7]]


def _read_text(folder):
    lenses = _parse(folder / "cameras.txt", _parse_lens, "id model width height parameters")
    # The lines between, often empty, are keypoints.
    images = _parse(folder / "images.txt", _parse_image, "id qw qx qy qz tx ty tz camera name",
                    every=2)
    points = _parse(folder / "points3D.txt", _parse_point, "id x y z r g b error")
    return dict(lenses), images, points


# ---------------------------------------------------------------------- binary


class _Bytes:
    """Reads a file's bytes from front to back."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 0

    def take(self, layout):
        layout = "<" + layout
        begin = self.at
        self.skip(struct.calcsize(layout), 1)
        return struct.unpack_from(layout, self.data, begin)

    def skip(self, size, count):
        self.at += size * count
        if self.at > len(self.data):
            raise ValueError("cut short: the file ends in the middle of its data")

    def word(self):
        end = self.data.find(b"\0", self.at, self.at + _LONGEST_NAME)
        if end < 0:
            raise ValueError(f"a name does not end within {_LONGEST_NAME} bytes")
        word, self.at = self.data[self.at:end].decode("utf-8"), end + 1
        return word


def _read_binary(folder):
    lenses, images, points = {}, [], []
    with at(folder / "cameras.bin"):
        file = _Bytes(folder / "cameras.bin")
        for _ in range(*file.take("Q")):
            key, model, width, height = file.take("IiQQ")
            if not 0 <= model < len(MODELS):
                raise ValueError(f"camera {key}: unknown camera model number {model}")
            lenses[key] = (MODELS[model][0], width, height, file.take(f"{MODELS[model][1]}d"))
    with at(folder / "images.bin"):
        file = _Bytes(folder / "images.bin")
        for _ in range(*file.take("Q")):
            _, *pose, lens = file.take("I7dI")
            images.append(_Image(file.word(), lens, pose[:4], pose[4:]))
            file.skip(24, *file.take("Q"))  # keypoints
    with at(folder / "points3D.bin"):
        file = _Bytes(folder / "points3D.bin")
        for _ in range(*file.take("Q")):
            _, *point, _, observers = file.take("Q3d3BdQ")
            file.skip(8, observers)
            points.append(point)
    return lenses, images, points
