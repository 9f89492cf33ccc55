"""COLMAP reconstructions in both forms."""

import struct

import numpy as np
import pytest

from gsplat_c.io import Camera, Observations, Reconstruction, load_colmap, save_colmap
from gsplat_c.io._colmap import MODELS, rotation_matrix
from gsplat_c.io._colmap_write import quaternion


def rotation(random):
    matrix = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return matrix * np.sign(np.linalg.det(matrix))


@pytest.fixture
def model():
    """Four images by two lenses; the second one shows no point."""
    random = np.random.default_rng(5)
    cameras = []
    for name, width in (("a b.png", 64), ("c.png", 80), ("d/é.jpg", 64), ("z", 64)):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = rotation(random), random.normal(size=3)
        cameras.append(Camera(name, width, 48, (60.5, 61.25, width / 2 + 1, 23.0), pose))
    points = random.normal(size=(5, 3))
    colors = random.integers(0, 256, (5, 3)).astype(np.uint8)
    seen = Observations(np.array([0, 0, 0, 2, 2, 2, 2, 3, 3, 3]),
                        np.array([0, 3, 4, 4, 0, 1, 2, 1, 2, 3]), random.uniform(0, 48, (10, 2)))
    return Reconstruction(cameras, points, colors), seen


def assert_same(model, expected):
    for camera, other in zip(model.cameras, expected.cameras):
        assert (camera.name, camera.width, camera.height) == (other.name, other.width,
                                                              other.height)
        assert camera.intrinsics == other.intrinsics
        np.testing.assert_allclose(camera.rotation, other.rotation, atol=1e-14)
        np.testing.assert_array_equal(camera.translation, other.translation)
    assert len(model.cameras) == len(expected.cameras)
    np.testing.assert_array_equal(model.points, expected.points)
    np.testing.assert_array_equal(model.colors, expected.colors)
    assert model.colors.dtype == np.uint8


@pytest.mark.parametrize("text", [True, False])
def test_round_trip(tmp_path, model, text):
    save_colmap(tmp_path, *model, error=0.5, text=text)
    assert (tmp_path / "images.txt").exists() == text
    assert_same(load_colmap(tmp_path), model[0])


@pytest.mark.parametrize("text", [True, False])
def test_pycolmap(tmp_path, model, text):
    """COLMAP reads what is written, with the tracks that it finds in the file."""
    pycolmap = pytest.importorskip("pycolmap")
    object.__setattr__(model[0].cameras[0], "name", "a.png")  # it ends names at a space
    save_colmap(tmp_path, *model, error=0.5, text=text)
    theirs = pycolmap.Reconstruction(str(tmp_path))
    assert sorted(len(point.track.elements) for point in theirs.points3D.values()) == [2] * 5
    (tmp_path / "again").mkdir()
    (theirs.write_text if text else theirs.write_binary)(str(tmp_path / "again"))
    again = load_colmap(tmp_path / "again")
    # In an order of its own.
    order, expected = (np.lexsort(points.T) for points in (again.points, model[0].points))
    again = again._replace(points=again.points[order], colors=again.colors[order])
    assert_same(again, model[0]._replace(points=model[0].points[expected],
                                         colors=model[0].colors[expected]))


TEXT = {
    "cameras.txt": "# Camera list\n#   CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n"
                   "7 {lens}\n",
    "images.txt": "# Image list\n# Number of images: 2, mean observations per image: 1\n"
                  "9 0 0 0 1 1 2 3 7 second.png\n\n"
                  "3 1 0 0 0 4 5 6 7 first one.png\n10.5 20.5 12 1 2 -1\n",
    "points3D.txt": "# 3D point list\n12 1.5 -2 3e-1 255 128 0 0.25 3 0\n",
}


def write_text(folder, lens="PINHOLE 64 48 50 51 31 25", **changed):
    for name, text in TEXT.items():
        (folder / name).write_text(changed.get(name[:-4], text).format(lens=lens))


@pytest.mark.parametrize("lens, intrinsics", [
    ("SIMPLE_PINHOLE 64 48 50 31 25", (50, 50, 31, 25)),
    ("PINHOLE 64 48 50 51 31 25", (50, 51, 31, 25)),
    ("SIMPLE_RADIAL 64 48 50 31 25 1e-9", (50, 50, 31, 25)),
    ("OPENCV 64 48 50 51 31 25 0 0 0 0", (50, 51, 31, 25)),
    ("DIVISION 64 48 50 51 31 25 0", (50, 51, 31, 25)),
])
def test_text_of_colmap(tmp_path, lens, intrinsics):
    write_text(tmp_path, lens)
    model = load_colmap(tmp_path)
    assert [camera.name for camera in model.cameras] == ["first one.png", "second.png"]
    first, second = model.cameras
    assert first.intrinsics == second.intrinsics == intrinsics
    assert (first.width, first.height) == (64, 48)
    np.testing.assert_array_equal(first.rotation, np.eye(3))
    np.testing.assert_array_equal(first.position, [-4, -5, -6])
    np.testing.assert_array_equal(second.rotation, np.diag([-1, -1, 1]))  # half a turn about z
    np.testing.assert_array_equal(second.position, [1, 2, -3])
    np.testing.assert_array_equal(model.points, [[1.5, -2, 0.3]])
    np.testing.assert_array_equal(model.colors, [[255, 128, 0]])


def write_binary(folder, model=4):
    (folder / "cameras.bin").write_bytes(
        struct.pack("<QiiQQ3diiQQ", 2, 4, 0, 64, 48, 50, 31, 25, 2, model, 32, 24)
        + struct.pack("<16d", 40, 16, 12, *[0] * 13)[:8 * MODELS[model % len(MODELS)][1]])
    image = struct.pack("<Qi7di", 2, 1, 1, 0, 0, 0, 4, 5, 6, 2) + b"two.png\0"
    image += struct.pack("<Qddqddq", 2, 1.0, 2.0, -1, 3.0, 4.0, 8)
    image += struct.pack("<i7di", 2, 0, 1, 0, 0, 7, 8, 9, 4) + b"one.png\0" + struct.pack("<Q", 0)
    (folder / "images.bin").write_bytes(image)
    point = struct.pack("<QQ3d3BdQ4i", 2, 8, 1, 2, 3, 10, 20, 30, 0.5, 2, 1, 1, 2, 0)
    point += struct.pack("<Q3d3BdQ", 9, 4, 5, 6, 40, 50, 60, 0.5, 0)
    (folder / "points3D.bin").write_bytes(point)


def test_binary_of_colmap(tmp_path):
    write_binary(tmp_path, model=3)
    one, two = load_colmap(tmp_path).cameras
    assert (one.name, one.width, one.intrinsics) == ("one.png", 64, (50, 50, 31, 25))
    assert (two.name, two.width, two.intrinsics) == ("two.png", 32, (40, 40, 16, 12))
    np.testing.assert_array_equal(one.rotation, np.diag([1, -1, -1]))
    np.testing.assert_array_equal(one.translation, [7, 8, 9])
    model = load_colmap(tmp_path)
    np.testing.assert_array_equal(model.points, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(model.colors, [[10, 20, 30], [40, 50, 60]])
    write_text(tmp_path)
    assert len(load_colmap(tmp_path).points) == 2  # binary comes first


@pytest.mark.parametrize("lens", ["SIMPLE_RADIAL 64 48 50 31 25 0.1",
                                  "SIMPLE_RADIAL 64 48 50 31 25 nan",
                                  "OPENCV_FISHEYE 64 48 50 51 31 25 0 0 0 0",
                                  "EQUIRECTANGULAR 64 48 64 48"])
def test_distorted_images_are_refused(tmp_path, lens):
    write_text(tmp_path, lens)
    with pytest.raises(ValueError, match=f"image 'first one.png': its camera 7 is "
                                         f"{lens.split()[0]} .*undistort with colmap"):
        load_colmap(tmp_path)


@pytest.mark.parametrize("changed, message", [
    ({"cameras": "1 PINHOLE 64 48\n"}, "cameras.txt: line 1: has 4 values, expected id model"),
    ({"cameras": "#\n1 PINHOLE 64 48 50 31 25\n"},
     "cameras.txt: line 2: PINHOLE has 3 parameters, expected 4"),
    ({"cameras": "1 THIN 64 48 50\n"}, "cameras.txt: line 1: unknown camera model 'THIN'"),
    ({"cameras": "1 PINHOLE 64 x 50 51 31 25\n"}, "cameras.txt: line 1: invalid literal"),
    ({"cameras": "1 PINHOLE 0 48 50 51 31 25\n", "images": "1 1 0 0 0 0 0 0 1 a\n"},
     "image 'a': 'width' is 0"),
    ({"images": "9 1 0 0 0 1 2 3 a.png\n"}, "images.txt: line 1: has 9 values, expected id qw"),
    ({"images": "9 1 0 0 0 1 2 3 8 a.png\n"}, "image 'a.png': its camera 8 is not among"),
    ({"images": "9 0 0 0 0 1 2 3 7 a.png\n"}, "image 'a.png': its quaternion is zero"),
    ({"images": "9 nan 0 0 0 1 2 3 7 a.png\n"}, "image 'a.png': its quaternion is zero|pose"),
    ({"points3D": "12 1.5 -2 3e-1 255\n"}, "points3D.txt: line 1: has 5 values, expected id x"),
])
def test_broken_text(tmp_path, changed, message):
    write_text(tmp_path, **changed)
    with pytest.raises(ValueError, match=message):
        load_colmap(tmp_path)


@pytest.mark.parametrize("model", [18, 99, -1])
def test_unknown_model(tmp_path, model):
    write_binary(tmp_path, model)
    with pytest.raises(ValueError, match=f"cameras.bin: camera 2: unknown camera model number "
                                         f"{model}$"):
        load_colmap(tmp_path)


def test_cut_short(tmp_path):
    """Every file, at every length, and with counts beyond its bytes."""
    write_binary(tmp_path)
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        for size in range(len(data)):
            path.write_bytes(data[:size])
            with pytest.raises(ValueError, match=f"{path.name}: (cut short|a name does not end)"):
                load_colmap(tmp_path)
        path.write_bytes(b"\xff" * 8 + data[8:])
        with pytest.raises(ValueError, match=f"{path.name}: "):
            load_colmap(tmp_path)
        path.write_bytes(data)
    images = (tmp_path / "images.bin").read_bytes()
    (tmp_path / "images.bin").write_bytes(images.replace(b"two.png", b"t" * 5000))
    with pytest.raises(ValueError, match="a name does not end within 4096 bytes"):
        load_colmap(tmp_path)


def test_where_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="no cameras.bin"):
        load_colmap(tmp_path)
    for folder in (tmp_path, tmp_path / "sparse", tmp_path / "sparse" / "0"):
        folder.mkdir(exist_ok=True)
        write_text(folder, f"SIMPLE_PINHOLE 64 48 {len(folder.parts)} 31 25")
        assert load_colmap(tmp_path).cameras[0].intrinsics[0] == len(folder.parts)


def test_quaternion():
    random = np.random.default_rng(3)
    half_turns = [np.diag([1.0, -1, -1]), np.diag([-1.0, 1, -1]), np.diag([-1.0, -1, 1])]
    for matrix in [np.eye(3), *half_turns, *(rotation(random) for _ in range(50))]:
        back = rotation_matrix(quaternion(matrix))
        np.testing.assert_allclose(back, matrix, atol=1e-14)
    np.testing.assert_allclose(rotation_matrix([0.6, 0, 0.8, 0]),
                               [[-0.28, 0, 0.96], [0, 1, 0], [-0.96, 0, -0.28]], atol=1e-15)
