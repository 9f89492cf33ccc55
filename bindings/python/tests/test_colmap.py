"""The examples' files: COLMAP reconstructions in both forms, cameras.json, pictures, data sets."""

import struct

import numpy as np
import pytest

import camera_file
import colmap
import fit_views
import make_dataset
import pictures
import splat_file


def rotation(random):
    matrix = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return matrix * np.sign(np.linalg.det(matrix))


@pytest.fixture
def model():
    """Four images by two lenses; the second one shows no point."""
    random = np.random.default_rng(5)
    cameras = [camera_file.Camera(name, width, 48, (60.5, 61.25, width / 2 + 1, 23.0),
                                  rotation(random), random.normal(size=3))
               for name, width in (("a b.png", 64), ("c.png", 80), ("d/é.jpg", 64), ("z", 64))]
    points = random.normal(size=(5, 3))
    colors = random.integers(0, 256, (5, 3)).astype(np.uint8)
    seen = colmap.Observations(np.array([0, 0, 0, 2, 2, 2, 2, 3, 3, 3]),
                               np.array([0, 3, 4, 4, 0, 1, 2, 1, 2, 3]),
                               random.uniform(0, 48, (10, 2)))
    return colmap.Model(cameras, points, colors), seen


def assert_same(model, expected, tolerance=1e-14):
    """tolerance: of the rotations."""
    for camera, other in zip(model.cameras, expected.cameras):
        assert camera[:3] == other[:3]
        np.testing.assert_allclose(camera.intrinsics, other.intrinsics, rtol=1e-15)
        np.testing.assert_allclose(camera.rotation, other.rotation, atol=tolerance)
        np.testing.assert_array_equal(camera.translation, other.translation)
    assert len(model.cameras) == len(expected.cameras)
    np.testing.assert_array_equal(model.points, expected.points)
    np.testing.assert_array_equal(model.colors, expected.colors)
    assert model.colors.dtype == np.uint8


@pytest.mark.parametrize("binary", [True, False])
def test_round_trip(tmp_path, model, binary):
    colmap.write(tmp_path, *model, 0.5, binary)
    assert (tmp_path / "images.txt").exists() != binary
    assert_same(colmap.read(tmp_path, use_pycolmap=False), model[0])


@pytest.mark.parametrize("binary", [True, False])
def test_pycolmap(tmp_path, model, binary):
    pycolmap = pytest.importorskip("pycolmap")
    model[0].cameras[0] = model[0].cameras[0]._replace(name="a.png")  # it ends names at a space
    colmap.write(tmp_path, *model, 0.5, binary)
    assert_same(colmap.read(tmp_path, use_pycolmap=True), model[0])

    # And what pycolmap writes, with the tracks that it found in the file.
    theirs = pycolmap.Reconstruction(str(tmp_path))
    assert sorted(len(point.track.elements) for point in theirs.points3D.values()) == [2] * 5
    (tmp_path / "again").mkdir()
    (theirs.write_binary if binary else theirs.write_text)(str(tmp_path / "again"))
    again = colmap.read(tmp_path / "again", use_pycolmap=False)
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


def write_text(folder, lens):
    for name, text in TEXT.items():
        (folder / name).write_text(text.format(lens=lens))


@pytest.mark.parametrize("lens, intrinsics", [
    ("SIMPLE_PINHOLE 64 48 50 31 25", (50, 50, 31, 25)),
    ("PINHOLE 64 48 50 51 31 25", (50, 51, 31, 25)),
    ("SIMPLE_RADIAL 64 48 50 31 25 0", (50, 50, 31, 25)),
    ("OPENCV 64 48 50 51 31 25 0 0 0 0", (50, 51, 31, 25)),
])
def test_text_of_colmap(tmp_path, lens, intrinsics):
    write_text(tmp_path, lens)
    model = colmap.read(tmp_path, use_pycolmap=False)
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


def test_binary_of_colmap(tmp_path):
    (tmp_path / "cameras.bin").write_bytes(
        struct.pack("<QiiQQ3diiQQ5d", 2, 4, 0, 64, 48, 50, 31, 25, 2, 3, 32, 24, 40, 16, 12, 0, 0))
    image = struct.pack("<Qi7di", 2, 1, 1, 0, 0, 0, 4, 5, 6, 2) + b"two.png\0"
    image += struct.pack("<Qddqddq", 2, 1.0, 2.0, -1, 3.0, 4.0, 8)
    image += struct.pack("<i7di", 2, 0, 1, 0, 0, 7, 8, 9, 4) + b"one.png\0" + struct.pack("<Q", 0)
    (tmp_path / "images.bin").write_bytes(image)
    point = struct.pack("<QQ3d3BdQ4i", 2, 8, 1, 2, 3, 10, 20, 30, 0.5, 2, 1, 1, 2, 0)
    point += struct.pack("<Q3d3BdQ", 9, 4, 5, 6, 40, 50, 60, 0.5, 0)
    (tmp_path / "points3D.bin").write_bytes(point)
    model = colmap.read(tmp_path, use_pycolmap=False)
    one, two = model.cameras
    assert (one.name, one.width, one.intrinsics) == ("one.png", 64, (50, 50, 31, 25))
    assert (two.name, two.width, two.intrinsics) == ("two.png", 32, (40, 40, 16, 12))
    np.testing.assert_array_equal(one.rotation, np.diag([1, -1, -1]))
    np.testing.assert_array_equal(one.translation, [7, 8, 9])
    np.testing.assert_array_equal(model.points, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(model.colors, [[10, 20, 30], [40, 50, 60]])


@pytest.mark.parametrize("lens", ["SIMPLE_RADIAL 64 48 50 31 25 0.1",
                                  "OPENCV_FISHEYE 64 48 50 51 31 25 0 0 0 0"])
def test_distorted_images_are_refused(tmp_path, lens):
    write_text(tmp_path, lens)
    with pytest.raises(ValueError, match=f"{lens.split()[0]}.*undistort"):
        colmap.read(tmp_path, use_pycolmap=False)


def test_find(tmp_path):
    with pytest.raises(FileNotFoundError, match="no cameras.bin"):
        colmap.find(tmp_path)
    for folder in (tmp_path, tmp_path / "sparse", tmp_path / "sparse" / "0"):
        folder.mkdir(exist_ok=True)
        (folder / "cameras.txt").touch()
        assert colmap.find(tmp_path) == folder


def test_quaternion():
    random = np.random.default_rng(3)
    half_turns = [np.diag([1.0, -1, -1]), np.diag([-1.0, 1, -1]), np.diag([-1.0, -1, 1])]
    for matrix in [np.eye(3), *half_turns, *(rotation(random) for _ in range(50))]:
        back = colmap.rotation_matrix(colmap.quaternion(matrix))
        np.testing.assert_allclose(back, matrix, atol=1e-14)
    np.testing.assert_allclose(colmap.rotation_matrix([0.6, 0, 0.8, 0]),
                               [[-0.28, 0, 0.96], [0, 1, 0], [-0.96, 0, -0.28]], atol=1e-15)


def test_cameras_json(tmp_path, model):
    cameras = [camera._replace(intrinsics=(60.5, 61.25, camera.width / 2, 24))
               for camera in model[0].cameras]
    camera_file.write(tmp_path / "cameras.json", cameras)
    for camera, other in zip(camera_file.read(tmp_path / "cameras.json"), cameras):
        assert camera[:4] == other[:4]
        np.testing.assert_allclose(camera.view, other.view, atol=1e-7)


def test_pictures(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 7)).astype(np.uint8)
    pictures.write_png(tmp_path / "picture.png", image / np.float32(255), level=1)
    np.testing.assert_array_equal(pictures.read_png(tmp_path / "picture.png"), image)
    np.testing.assert_array_equal(pictures.read(tmp_path / "picture.png"), image)
    for wrong in (b"\xff\xd8\xff", b"", (tmp_path / "picture.png").read_bytes()[:40]):
        (tmp_path / "wrong.png").write_bytes(wrong)
        with pytest.raises(ValueError, match="pillow"):
            pictures.read_png(tmp_path / "wrong.png")


# -------------------------------------------------------------------- data sets


@pytest.fixture
def scene():
    return fit_views.procedural_scene(800, np.random.default_rng(1))


SMALL = ["--size", "64x48", "--gaussians", "800"]


def test_dataset(tmp_path, capsys):
    made = make_dataset.main([str(tmp_path), *SMALL, "--views", "6", "--seed", "1"])
    assert f"6 images of 64x48 and {len(made.points)} points" in capsys.readouterr().out
    model = colmap.read(colmap.find(tmp_path))
    assert_same(model, made, 1e-6)  # the cameras are made in float32
    assert len(model.points) > 50

    # The images are those of the scene, and the points lie where it is.
    scene = fit_views.procedural_scene(800, np.random.default_rng(1))
    distances = np.linalg.norm(scene["means"][:, None] - model.points, axis=2).min(0)
    assert 0 < np.median(distances) < 0.1
    for camera in model.cameras:
        picture = pictures.read(tmp_path / "images" / camera.name)
        shown = make_dataset.photograph(scene, camera)[0].clip(0, 1) * 255
        assert np.abs(picture - shown).max() < 0.51


def test_observations(scene):
    """Points are seen where they are, in their colours, and not through others."""
    cameras = make_dataset.around_scene(8, scene["means"], 64, 48)
    points = scene["means"].astype(np.float64)
    photographs = [make_dataset.photograph(scene, camera) for camera in cameras]
    sightings = [make_dataset.seen_in(points, camera, *photograph)
                 for camera, photograph in zip(cameras, photographs)]
    model, seen = make_dataset.reconstruct(points, cameras, sightings, 60,
                                           np.random.default_rng(0))
    assert model.points.shape == (60, 3)
    assert np.bincount(seen.point).min() >= 2
    assert np.all(np.diff(seen.image) >= 0)
    offsets, colors = [], [[] for _ in model.points]
    for image, point, pixel in zip(*seen):
        camera = cameras[image]
        x, y, z = camera.rotation @ model.points[point] + camera.translation
        fx, fy, cx, cy = camera.intrinsics
        offsets.append(np.subtract(pixel, (fx * x / z + cx, fy * y / z + cy)))
        x, y = pixel.astype(int)
        colors[point].append(photographs[image][0][:, y, x].clip(0, 1) * 255)
    colors = np.array([np.mean(several, axis=0) for several in colors])
    assert np.abs(colors - model.colors).max() < 0.51
    # Across both axes, and a bit less or more as the images differ in their distance.
    assert np.std(offsets) == pytest.approx(make_dataset.MATCHING_ERROR, rel=0.25)

    camera, half = cameras[0], len(points) // 2
    depth = np.full((48, 64), np.median(points @ camera.rotation[2]) + camera.translation[2])
    index = make_dataset.seen_in(points, camera, np.zeros((3, 48, 64)), depth)[0]
    z = points @ camera.rotation[2] + camera.translation[2]
    assert 0 < len(index) < half
    assert np.abs(z[index] / depth[0, 0] - 1).max() < 0.05


def test_given_cameras(tmp_path, scene):
    splat_file.write(tmp_path / "scene.ply", scene)
    given = make_dataset.around_scene(3, scene["means"], 64, 48)
    camera_file.write(tmp_path / "cameras.json", given)
    files = ["--scene", str(tmp_path / "scene.ply"), "--cameras", str(tmp_path / "cameras.json")]
    same = make_dataset.main([str(tmp_path / "same"), *files]).cameras
    for camera, other in zip(same, given):
        assert camera[:4] == other[:4]
        np.testing.assert_allclose(camera.view, other.view, atol=1e-6)

    resized = make_dataset.main([str(tmp_path / "resized"), *files, "--size", "160x96",
                                 "--zoom", "1.5", "--text"]).cameras
    focal = given[0].intrinsics[0]
    assert resized[0].intrinsics == pytest.approx((focal * 3, focal * 3, 80, 48))
    assert (tmp_path / "resized/sparse/0/points3D.txt").exists()

    # More cameras look at the same place from as far.
    more = make_dataset.main([str(tmp_path / "more"), *files, "--views", "9"]).cameras
    center, radius = fit_views.extent(scene["means"])
    assert len({camera.name for camera in more}) == 9
    for camera in more:
        away = camera.position - center
        assert np.linalg.norm(away) == pytest.approx(2.8 * radius, rel=1e-4)
        np.testing.assert_allclose(camera.rotation[2], -away / np.linalg.norm(away), atol=1e-4)
        assert away[1] < 0  # above, y being down


@pytest.mark.parametrize("wrong", [["--size", "64"], ["--size", "0x48"], ["--views", "1"],
                                   ["--points", "0"], ["--zoom", "0"]])
def test_wrong_options(tmp_path, wrong, capsys):
    with pytest.raises(SystemExit):
        make_dataset.main([str(tmp_path), *wrong])
    assert wrong[0] in capsys.readouterr().err or "--size" in wrong
