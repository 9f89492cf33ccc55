"""Reads and writes COLMAP reconstructions, text and binary.

Of a reconstruction, training takes the cameras and the sparse points.  Reading goes through
pycolmap where that is installed, which knows every version of the format; the reader here
takes the three files cameras, images and points3D, .bin or .txt.
"""

import struct
from typing import NamedTuple

import numpy as np

from camera_file import Camera

try:
    import pycolmap
except ImportError:
    pycolmap = None

# Camera models by their number in binary files, with the number of their parameters.
_MODELS = (
    ("SIMPLE_PINHOLE", 3), ("PINHOLE", 4), ("SIMPLE_RADIAL", 4), ("RADIAL", 5), ("OPENCV", 8),
    ("OPENCV_FISHEYE", 8), ("FULL_OPENCV", 12), ("FOV", 5), ("SIMPLE_RADIAL_FISHEYE", 4),
    ("RADIAL_FISHEYE", 5), ("THIN_PRISM_FISHEYE", 12), ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
)
_ONE_FOCAL_LENGTH = ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
_TWO_FOCAL_LENGTHS = ("PINHOLE", "OPENCV", "FULL_OPENCV")


class Model(NamedTuple):
    cameras: list  # of camera_file.Camera, one for each image, sorted by name
    points: np.ndarray  # [P, 3] float64
    colors: np.ndarray  # [P, 3] uint8


def find(data):
    """The folder of a data set's reconstruction."""
    for folder in (data / "sparse" / "0", data / "sparse", data):
        if any((folder / f"cameras.{kind}").exists() for kind in ("bin", "txt")):
            return folder
    raise FileNotFoundError(f"{data}: no cameras.bin or cameras.txt in it, sparse/0 or sparse")


def read(folder, use_pycolmap=pycolmap is not None):
    """Reads the Model in a folder; ValueError if its cameras are not pinhole cameras."""
    if use_pycolmap:
        lenses, images, points = _read_pycolmap(folder)
    elif (folder / "cameras.bin").exists():
        lenses, images, points = _read_binary(folder)
    else:
        lenses, images, points = _read_text(folder)
    cameras = []
    for name, lens, rotation, translation in sorted(images, key=lambda image: image[0]):
        model, width, height, parameters = lenses[lens]
        cameras.append(Camera(name, width, height, _intrinsics(folder, model, parameters),
                              rotation, np.asarray(translation, np.float64)))
    table = np.array(points, np.float64).reshape(-1, 6)
    return Model(cameras, table[:, :3], table[:, 3:].astype(np.uint8))


def _intrinsics(folder, model, parameters):
    focal = 1 if model in _ONE_FOCAL_LENGTH else 2
    distortion = parameters[focal + 2:]
    if model not in _ONE_FOCAL_LENGTH + _TWO_FOCAL_LENGTHS or any(distortion):
        raise ValueError(f"{folder}: has a camera of model {model} with parameters "
                         f"{[float(value) for value in parameters]}, expected a pinhole: "
                         "undistort the images first (colmap image_undistorter)")
    return tuple(float(parameters[index]) for index in (0, focal - 1, focal, focal + 1))


def rotation_matrix(quaternion):
    """[3, 3] of a unit quaternion w x y z."""
    w, x, y, z = np.asarray(quaternion, np.float64) / np.linalg.norm(quaternion)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])


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


# --------------------------------------------------------------------- readers
#
# Each returns {id: (model, width, height, parameters)}, [(name, id, rotation, translation)]
# and [(x, y, z, r, g, b)].


def _read_pycolmap(folder):
    model = pycolmap.Reconstruction(str(folder))
    lenses = {key: (camera.model.name, camera.width, camera.height, list(camera.params))
              for key, camera in model.cameras.items()}
    images = []
    for image in model.images.values():
        pose = image.cam_from_world  # a method since pycolmap 3.12
        pose = pose() if callable(pose) else pose
        images.append((image.name, image.camera_id, np.array(pose.rotation.matrix()),
                       np.array(pose.translation)))
    points = [model.points3D[key] for key in sorted(model.points3D)]
    return lenses, images, [(*point.xyz, *point.color) for point in points]


def _lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\r\n") for line in file if not line.startswith("#")]


def _read_text(folder):
    lenses = {}
    for words in map(str.split, _lines(folder / "cameras.txt")):
        if words:
            lenses[int(words[0])] = (words[1], int(words[2]), int(words[3]),
                                     [float(word) for word in words[4:]])
    images = []
    for line in _lines(folder / "images.txt")[::2]:  # the other ones, often empty, are keypoints
        words = line.split(maxsplit=9)
        if words:
            images.append((words[9], int(words[8]),
                           rotation_matrix([float(word) for word in words[1:5]]),
                           [float(word) for word in words[5:8]]))
    points = [[float(word) for word in line.split(maxsplit=7)[1:7]]
              for line in _lines(folder / "points3D.txt") if line]
    return lenses, images, points


class _Bytes:
    """Reads a file's bytes from front to back."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 0

    def take(self, layout):
        layout = "<" + layout
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def skip(self, size, count):
        self.at += size * count

    def word(self):
        end = self.data.index(b"\0", self.at)
        word, self.at = self.data[self.at:end].decode("utf-8"), end + 1
        return word


def _read_binary(folder):
    file, lenses = _Bytes(folder / "cameras.bin"), {}
    for _ in range(*file.take("Q")):
        key, model, width, height = file.take("iiQQ")
        name, parameters = _MODELS[model]
        lenses[key] = (name, width, height, file.take(f"{parameters}d"))
    file, images = _Bytes(folder / "images.bin"), []
    for _ in range(*file.take("Q")):
        _, *pose, lens = file.take("i7di")
        name = file.word()
        file.skip(24, *file.take("Q"))  # keypoints
        images.append((name, lens, rotation_matrix(pose[:4]), pose[4:]))
    file, points = _Bytes(folder / "points3D.bin"), []
    for _ in range(*file.take("Q")):
        _, *point, _, observers = file.take("Q3d3BdQ")
        file.skip(8, observers)
        points.append(point)
    return lenses, images, points


# --------------------------------------------------------------------- writers


class Observations(NamedTuple):
    """Where images show points: one row each, in the order of the images."""

    image: np.ndarray  # [O] index of the camera
    point: np.ndarray  # [O] index of the point
    pixel: np.ndarray  # [O, 2] x y


def write(folder, model, seen, error=0.0, binary=True):
    """Writes a Model with its Observations; error: of the projections, pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    lenses = {}  # cameras that are alike become one
    for camera in model.cameras:
        lenses.setdefault((camera.width, camera.height, *camera.intrinsics), len(lenses) + 1)
    images = []
    first = np.searchsorted(seen.image, np.arange(len(model.cameras) + 1))
    for index, camera in enumerate(model.cameras):
        own = slice(first[index], first[index + 1])
        images.append((index + 1, [*quaternion(camera.rotation), *camera.translation],
                       lenses[(camera.width, camera.height, *camera.intrinsics)], camera.name,
                       np.column_stack([seen.pixel[own], seen.point[own] + 1])))
    keypoint = np.arange(len(seen.image)) - first[seen.image]  # its index within the image
    order = np.argsort(seen.point, kind="stable")
    tracks = np.split(np.stack([seen.image + 1, keypoint], axis=1)[order],
                      np.searchsorted(seen.point[order], np.arange(1, len(model.points))))
    points = [(index + 1, point.tolist(), color.tolist(), error, track)
              for index, (point, color, track) in enumerate(zip(model.points, model.colors,
                                                                tracks))]
    (_write_binary if binary else _write_text)(folder, lenses, images, points)


def _write_text(folder, lenses, images, points):
    def text(values):
        return " ".join(str(value) for value in values)

    with open(folder / "cameras.txt", "w", encoding="utf-8") as file:
        file.write("# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n")
        for (width, height, *intrinsics), key in lenses.items():
            file.write(f"{key} PINHOLE {width} {height} {text(map(float, intrinsics))}\n")
    with open(folder / "images.txt", "w", encoding="utf-8") as file:
        file.write("# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n"
                   "# POINTS2D[] as (X, Y, POINT3D_ID)\n")
        for key, pose, lens, name, keypoints in images:
            file.write(f"{key} {text(map(float, pose))} {lens} {name}\n")
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
            file.write(struct.pack("<iiQQ4d", key, 1, width, height, *intrinsics))
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
