"""The example that renders a data set: its images, cameras and sparse points belong together."""

import dataclasses

import numpy as np
import pytest

import fit_views
import make_dataset
from gsplat_c.io import (
    Scene,
    load_colmap,
    load_image,
    save_cameras_json,
    save_ply,
)


def assert_same(camera, other):
    assert (camera.name, camera.width, camera.height) == (other.name, other.width, other.height)
    np.testing.assert_allclose(camera.intrinsics, other.intrinsics, rtol=1e-12)
    np.testing.assert_allclose(camera.world_to_camera, other.world_to_camera, atol=1e-12)


@pytest.fixture
def scene():
    return Scene(**fit_views.procedural_scene(800, np.random.default_rng(1)))


SMALL = ["--size", "64x48", "--gaussians", "800"]


def test_dataset(tmp_path, scene, capsys):
    made = make_dataset.main([str(tmp_path), *SMALL, "--views", "6", "--seed", "1"])
    assert f"6 images of 64x48 and {len(made.points)} points" in capsys.readouterr().out
    model = load_colmap(tmp_path)
    for camera, other in zip(model.cameras, made.cameras):
        assert_same(camera, other)
    np.testing.assert_array_equal(model.points, made.points)
    np.testing.assert_array_equal(model.colors, made.colors)
    assert len(model.points) > 50

    # The images are those of the scene, and the points lie where it is.
    distances = np.linalg.norm(scene.means[:, None] - model.points, axis=2).min(0)
    assert 0 < np.median(distances) < 0.1
    for camera in model.cameras:
        picture = load_image(tmp_path / "images" / camera.name)
        shown = make_dataset.photograph(scene, camera)[0].clip(0, 1)
        assert np.abs(picture - shown).max() < 0.51 / 255


def test_observations(scene):
    """Points are seen where they are, in their colours, and not through others."""
    cameras = make_dataset.around_scene(8, scene.means, 64, 48)
    points = scene.means.astype(np.float64)
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
    save_ply(tmp_path / "scene.ply", scene)
    given = [dataclasses.replace(camera, intrinsics=(*camera.intrinsics[:2], 30, 25))
             for camera in make_dataset.around_scene(3, scene.means, 64, 48)]
    save_cameras_json(tmp_path / "cameras.json", given)
    files = ["--scene", str(tmp_path / "scene.ply"), "--cameras", str(tmp_path / "cameras.json")]
    same = make_dataset.main([str(tmp_path / "same"), *files]).cameras
    for camera, other in zip(same, given):
        assert_same(camera, other)

    resized = make_dataset.main([str(tmp_path / "resized"), *files, "--size", "160x96",
                                 "--zoom", "1.5", "--text"]).cameras
    focal = given[0].intrinsics[0]
    assert resized[0].intrinsics == pytest.approx((focal * 3, focal * 3, 76, 50))
    assert (tmp_path / "resized/sparse/0/points3D.txt").exists()

    # More cameras look at the same place from as far.
    more = make_dataset.main([str(tmp_path / "more"), *files, "--views", "9"]).cameras
    center, radius = fit_views.extent(scene.means)
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
