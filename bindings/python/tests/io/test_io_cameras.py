"""Cameras: cropping and scaling, cameras.json, transforms.json, and samples of every kind."""

import json

import numpy as np
import pytest
from samples import sample

from gsplat_c.io import Camera, load_cameras, save_cameras_json, save_image

ROTATION = np.array([[0.6, 0, 0.8], [0, 1, 0], [-0.8, 0, 0.6]])  # world to camera
POSITION = np.array([1.0, -2, 3])
FLIP = np.diag([1.0, -1, -1, 1])


def make_camera(name="a.png", width=64, height=48, intrinsics=(50.0, 51.0, 30.0, 25.0)):
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = ROTATION, -ROTATION @ POSITION
    return Camera(name, width, height, intrinsics, pose)


def assert_same(camera, other, tolerance=1e-12):
    assert (camera.name, camera.width, camera.height) == (other.name, other.width, other.height)
    np.testing.assert_allclose(camera.intrinsics, other.intrinsics, rtol=1e-12)
    np.testing.assert_allclose(camera.world_to_camera, other.world_to_camera, atol=tolerance)


# ---------------------------------------------------------------------- cameras


def test_pose():
    camera = make_camera()
    np.testing.assert_allclose(camera.position, POSITION, atol=1e-14)
    arguments = camera.arguments(POSITION)
    np.testing.assert_allclose(arguments["view"][:3, :3], ROTATION, rtol=1e-7)
    np.testing.assert_allclose(arguments["view"][:, 3], [0, 0, 0, 1], atol=1e-14)
    assert arguments["view"].dtype == np.float32
    assert camera.arguments()["view"][:3, 3] == pytest.approx(-ROTATION @ POSITION)


def test_crop_and_scale():
    camera = make_camera()
    assert camera.cropped(10, 4, 40, 30).intrinsics == (50, 51, 20, 21)
    half = camera.resized(32, 24)
    assert half.intrinsics == (25, 25.5, 15, 12.5) and (half.width, half.height) == (32, 24)
    fifth = camera.downscaled(5)  # of 60 x 45 pixels
    assert (fifth.width, fifth.height) == (12, 9)
    assert fifth.intrinsics == pytest.approx((10, 10.2, 6, 5))
    wide = camera.fitted(256, 96)
    assert wide.intrinsics == (100, 102, 124, 50) and (wide.width, wide.height) == (256, 96)
    # Each side is rounded by itself, as in images_4 of public data sets.
    large = make_camera(width=4946, height=3286).resized(1237, 822)
    assert large.intrinsics[0] == pytest.approx(50 * 1237 / 4946)
    assert large.intrinsics[3] == pytest.approx(25 * 822 / 3286)
    for size in ((48, 64), (48, 48), (64, 40)):
        with pytest.raises(ValueError, match="{}x{} is another shape than 64x48".format(*size)):
            camera.resized(*size)


@pytest.mark.parametrize("change, message", [
    ({"width": 0}, "'width' is 0, not a whole number from 1"),
    ({"height": 2.5}, "'height' is 2.5"), ({"width": 10**6}, "'width' is 1e"),
    ({"intrinsics": (0, 1, 2, 3)}, "positive focal lengths"),
    ({"intrinsics": (1, 1, np.nan, 3)}, "finite"),
    ({"world_to_camera": np.eye(3)}, "pose"),
    ({"world_to_camera": np.diag([1.0, 1, -1, 1])}, "'rotation' is not a rotation matrix"),
    ({"world_to_camera": np.diag([1.0, 1, 1.1, 1])}, "'rotation' is not a rotation matrix"),
    ({"world_to_camera": np.full((4, 4), np.nan)}, "pose"),
])
def test_what_is_no_camera(change, message):
    values = {"name": "a", "width": 64, "height": 48, "intrinsics": (1, 1, 2, 3),
              "world_to_camera": np.eye(4), **change}
    with pytest.raises(ValueError, match=message):
        Camera(**values)


# ----------------------------------------------------------------- cameras.json


def test_cameras_json(tmp_path):
    cameras = [make_camera(), make_camera("b", 80, 60, (70.5, 71, 40, 30))]
    path = tmp_path / "any.json"
    save_cameras_json(path, cameras)
    for camera, other in zip(load_cameras(path), cameras):
        assert_same(camera, other)
    entries = json.loads(path.read_text())
    assert entries[0]["cx"] == 30 and entries[0]["position"] == pytest.approx(POSITION)
    np.testing.assert_allclose(np.array(entries[0]["rotation"])[:, 2], ROTATION[2])
    # As 3DGS writes them: the principal point is the centre.
    for entry in entries:
        del entry["cx"], entry["cy"], entry["img_name"]
    path.write_text(json.dumps(entries))
    first, second = load_cameras(path)
    assert first.intrinsics == (50, 51, 32, 24) and (first.name, second.name) == ("00000", "00001")


ENTRY = {"img_name": "a", "width": 64, "height": 48, "position": [0, 0, 0],
         "rotation": np.eye(3).tolist(), "fx": 50, "fy": 50}


@pytest.mark.parametrize("change, message", [
    ({"k1": 0.1}, "'k1' is 0.1, expected a pinhole camera: undistort"),
    ({"distortion": [0, 0, 0.01]}, "'distortion' is"), ({"distortion": "radial"}, "'distortion'"),
    ({"p2": float("nan")}, "'p2'"), ({"skew": 1}, "'skew'"),
    ({"camera_model": "OPENCV_FISHEYE"}, "'camera_model' is OPENCV_FISHEYE, expected a pinhole"),
    ({"model": "equirectangular"}, "'model' is equirectangular"),
    ({"fx": None}, "'fx' is missing"), ({"fy": "50"}, "'fy' is not a number"),
    ({"cx": float("inf")}, "'cx' is not a number"), ({"fy": True}, "'fy' is not a number"),
    ({"width": 3.5}, "'width' is 3.5"), ({"position": [1, 2]}, "'position' is missing or not 3"),
    ({"rotation": [[1, 2], [3]]}, "'rotation' is missing or not 3x3 numbers"),
    ({"rotation": np.diag([1, 1, -1]).tolist()}, "is not a rotation matrix"),
])
def test_what_is_no_entry(tmp_path, change, message):
    path = tmp_path / "cameras.json"
    path.write_text(json.dumps([ENTRY, {**ENTRY, **change}]))
    with pytest.raises(ValueError, match=f"cameras.json: camera 1: .*{message}"):
        load_cameras(path)
    path.write_text(json.dumps([{**ENTRY, "k1": 0, "k2": 1e-9, "model": "opencv", "near": 1,
                                 "distortion": None, "dist_coeffs": [0, 0]}]))
    assert len(load_cameras(path)) == 1


@pytest.mark.parametrize("text, message", [
    ("[", "line 1, near column 2: not valid JSON"), ("[\n{,}]", "line 2, near column 2"),
    ("[]", "holds no camera"), ("{}", "is neither a list of cameras"),
    ("null", "is neither a list"),
    ("[3]", "camera 0: is not an object"), ("[" * 100000, "not valid JSON"),
    ('{"frames": [{}]}', "frame 0: 'file_path' is missing"), ('{"frames": []}', "holds no camera"),
    ('[{"width": 1' + "0" * 400 + "}]", "camera 0: 'width' is not a number"),
])
def test_what_is_no_file(tmp_path, text, message):
    (tmp_path / "cameras.json").write_text(text)
    with pytest.raises(ValueError, match=f"cameras.json: {message}"):
        load_cameras(tmp_path / "cameras.json")


# -------------------------------------------------------------- transforms.json


def transforms(tmp_path, frames=(), **shared):
    """Writes transforms.json with make_camera's pose in every frame."""
    matrix = np.linalg.inv(make_camera().world_to_camera) @ FLIP
    root = {**shared, "frames": [{"transform_matrix": matrix.tolist(), **frame}
                                 for frame in frames]}
    (tmp_path / "transforms.json").write_text(json.dumps(root))
    return tmp_path / "transforms.json"


LENS = {"fl_x": 50, "fl_y": 51, "cx": 30, "cy": 25, "w": 64, "h": 48}


def test_transforms(tmp_path):
    path = transforms(tmp_path, [{"file_path": "z.png"}, {"file_path": "./a.png",
                                                          "mask_path": "masks/a.png"}],
                      camera_model="OPENCV", k1=0, aabb_scale=16, **LENS)
    first, second = load_cameras(path)
    assert_same(first, make_camera("a.png"))
    assert_same(second, make_camera("z.png"))
    assert (first.mask, second.mask) == ("masks/a.png", None)
    # A frame of its own, and one focal length.
    frame = {"file_path": "a.png", "w": 32, "h": 24, "fl_x": 20}
    camera, = load_cameras(transforms(tmp_path, [frame]))
    assert camera.intrinsics == (20, 20, 16, 12)


def test_angles_and_sizes_of_pictures(tmp_path):
    (tmp_path / "train").mkdir()
    save_image(tmp_path / "train" / "r_0.png", np.zeros((3, 24, 40)))
    path = transforms(tmp_path, [{"file_path": "./train/r_0", "rotation": 0.01}],
                      camera_angle_x=2 * np.arctan(0.5))
    camera, = load_cameras(path)
    assert camera.name == "train/r_0.png" and (camera.width, camera.height) == (40, 24)
    assert camera.intrinsics == pytest.approx((40, 40, 20, 12))
    path = transforms(tmp_path, [{"file_path": "./train/r_0"}], camera_angle_x=2 * np.arctan(0.5),
                      camera_angle_y=2 * np.arctan(0.25))
    assert load_cameras(path)[0].intrinsics == pytest.approx((40, 48, 20, 12))
    path = transforms(tmp_path, [{"file_path": "./train/r_1"}], camera_angle_x=1)
    with pytest.raises(ValueError, match="frame 0: 'w' and 'h' are missing, .*r_1.png"):
        load_cameras(path)


def test_frame_of_nerfstudio_exports(tmp_path):
    """A point seen by the camera of transforms.json is seen by the moved one where it is moved to.

    The transform contains the applied one, the scale the applied one's.
    """
    applied = np.array([[0.0, 1, 0, 0.5], [1, 0, 0, 0], [0, 0, -1, 2], [0, 0, 0, 1]])
    turn = np.array([[0.0, 0, 1, 3], [1, 0, 0, -1], [0, 1, 0, 0], [0, 0, 0, 1]])
    path = transforms(tmp_path, [{"file_path": "a.png"}], applied_transform=applied[:3].tolist(),
                      applied_scale=0.5, **LENS)
    parser = tmp_path / "dataparser_transforms.json"
    parser.write_text(json.dumps({"transform": (turn @ applied)[:3].tolist(), "scale": 0.25}))
    camera, = load_cameras(path)
    moved, = load_cameras(path, dataparser=parser)
    point = np.array([0.3, 0.7, 2])
    there = 0.25 / 0.5 * (turn[:3, :3] @ point + turn[:3, 3])
    np.testing.assert_allclose(moved.rotation @ there + moved.translation,
                               0.5 * (camera.rotation @ point + camera.translation), atol=1e-12)
    parser.write_text("{}")
    with pytest.raises(ValueError, match="dataparser_transforms.json: 'transform' is missing"):
        load_cameras(path, dataparser=parser)


@pytest.mark.parametrize("change, message", [
    ({"k3": 0.1}, "'k3' is 0.1, expected a pinhole"), ({"is_fisheye": True}, "'is_fisheye'"),
    ({"camera_model": "EQUIRECTANGULAR"}, "EQUIRECTANGULAR"), ({"fl_x": -1}, "positive focal"),
    ({"rolling_shutter": [0, 0, 0.1, 0]}, "'rolling_shutter'"),
    ({"h": None}, "'h' is missing"), ({"transform_matrix": [1, 2]}, "'transform_matrix'"),
])
def test_what_is_no_frame(tmp_path, change, message):
    path = transforms(tmp_path, [{"file_path": "a.png", **change}], **LENS)
    with pytest.raises(ValueError, match=f"transforms.json: frame 0: .*{message}"):
        load_cameras(path)


def test_orientation_override(tmp_path):
    path = transforms(tmp_path, [{"file_path": "a.png"}], orientation_override="up", **LENS)
    with pytest.warns(UserWarning, match="orientation_override is not applied") as caught:
        load_cameras(path)
    assert caught[0].filename == __file__  # where the caller is


def test_exposure(tmp_path):
    save_cameras_json(tmp_path / "cameras.json", [make_camera()])
    (tmp_path / "exposure.json").write_text("{}")
    with pytest.warns(UserWarning, match="exposure.json beside it is not applied"):
        load_cameras(tmp_path / "cameras.json")
    with pytest.raises(ValueError, match="cameras.json: is no transforms.json"):
        load_cameras(tmp_path / "cameras.json", dataparser="dataparser_transforms.json")


# ---------------------------------------------------------------------- samples


def expected(name="expect.json"):
    return json.loads(sample(f"cameras/{name}").read_text())


@pytest.mark.parametrize("name, center", [
    ("cameras_3dgs.json", (320, 180)), ("cameras_3dgs_with_cxcy.json", (331.5, 172.25)),
    ("transforms_nerfstudio.json", (331.5, 172.25))])
def test_samples(name, center):
    right = expected()
    cameras = load_cameras(sample(f"cameras/{name}"))
    assert [camera.name.split("/")[-1] for camera in cameras] == right["names"]
    for camera, pose in zip(cameras, right["world_to_camera"]):
        assert camera.intrinsics == (500, 510, *center)
        assert (camera.width, camera.height) == (640, 360)
        np.testing.assert_allclose(camera.world_to_camera, pose, atol=1e-6)


def test_sample_of_nerf(tmp_path):
    (tmp_path / "train").mkdir()
    for index in range(4):
        save_image(tmp_path / f"train/r_{index}.png", np.zeros((360, 640), np.uint8))
    data = sample("cameras/transforms_train_blender.json").read_text()
    (tmp_path / "transforms_train.json").write_text(data)
    for camera, pose in zip(load_cameras(tmp_path / "transforms_train.json"),
                            expected()["world_to_camera"]):
        assert camera.intrinsics == pytest.approx((500, 500, 320, 180))
        np.testing.assert_allclose(camera.world_to_camera, pose, atol=1e-6)


def test_distorted_sample():
    with pytest.raises(ValueError, match="frame 0: 'k1' is 0.05, expected a pinhole"):
        load_cameras(sample("cameras/transforms_nerfstudio_per_frame_distorted.json"))


@pytest.mark.parametrize("form", ["bin", "txt"])
def test_samples_of_colmap(tmp_path, form):
    right = expected("expect_rig.json")["world_to_camera"]
    cameras = load_cameras(sample(f"cameras/colmap_rig_{form}"))
    assert [camera.name for camera in cameras] == sorted(right)
    for camera in cameras:
        np.testing.assert_allclose(camera.world_to_camera, right[camera.name], atol=1e-6)

    with pytest.raises(ValueError, match="'frame_003.png': its camera 5 is SIMPLE_RADIAL with .*"
                                         "-0.02.*undistort with colmap image_undistorter"):
        load_cameras(sample(f"cameras/colmap_{form}"))
    for path in sample(f"cameras/colmap_{form}").iterdir():
        data = path.read_bytes().replace(b"180 -0.02", b"180 1e-12")
        data = data.replace(np.float64(-0.02).tobytes(), np.float64(1e-12).tobytes())
        (tmp_path / path.name).write_bytes(data)
    right = expected()["world_to_camera"]
    names = ["frame_000.png", "frame_002.png", "frame_003.png", "sub dir/frame_001.png"]
    for camera, name, index in zip(load_cameras(tmp_path), names, (0, 2, 3, 1)):
        assert camera.name == name
        np.testing.assert_allclose(camera.world_to_camera, right[index], atol=1e-6)
