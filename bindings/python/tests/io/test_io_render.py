"""What files say reaches the picture; and what importing the module takes."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from ply_files import columns_of, make_scene, ply_bytes

import gsplat_c
from gsplat_c.io import Camera, downscale_image, load_cameras, load_ply, save_cameras_json, save_ply


def make_camera(width=160, height=120, focal=150.0):
    """Looks at the origin from (2, -1, -5)."""
    position = np.array([2.0, -1, -5])
    forward = -position / np.linalg.norm(position)
    right = np.cross([0, 1, 0], forward)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = right, np.cross(forward, right), forward
    pose[:3, 3] = -pose[:3, :3] @ position
    return Camera("view", width, height, (focal, focal, 0.52 * width, 0.47 * height), pose)


def render(scene, camera, **more):
    return gsplat_c.rasterize(**{**scene.arguments(camera), **more}).color


def psnr(image, right):
    return -10 * np.log10(max(np.mean((image.astype(float) - right) ** 2), 1e-30))


@pytest.mark.parametrize("offset", [0, 5e5, 5e6, 1e8])
def test_far_from_the_origin(tmp_path, offset):
    """A scene and its cameras moved, through files with doubles, look as before."""
    scene, camera = make_scene(300), make_camera()
    right = render(scene, camera)
    assert right.std() > 0.05
    offset = np.array([offset, -0.7 * offset, 0.1 * offset])
    save_ply(tmp_path / "scene.ply", scene.moved(offset))
    pose = camera.world_to_camera.copy()
    pose[:3, 3] -= camera.rotation @ offset
    save_cameras_json(tmp_path / "cameras.json", [dataclasses.replace(camera,
                                                                      world_to_camera=pose)])
    loaded, moved = load_ply(tmp_path / "scene.ply"), load_cameras(tmp_path / "cameras.json")[0]
    found = psnr(render(loaded, moved), right)
    print(f"moved by {offset[0]:g}: {found:.1f} dB")
    assert found > 60
    # Or around an origin of its own, for training.
    local, origin = loaded.centered()
    assert local.means.dtype == np.float32
    image = gsplat_c.rasterize(**{**local.arguments(moved), **moved.arguments(origin)}).color
    assert psnr(image, right) > 60
    np.testing.assert_allclose(local.moved(origin).means, loaded.means, atol=1e-6)


def test_fields_go_into_the_rasterizer():
    scene, camera = make_scene(100), make_camera()
    image = gsplat_c.rasterize(means=scene.means, scales=scene.scales, rotations=scene.rotations,
                               opacities=scene.opacities, sh=scene.sh, **camera.arguments()).color
    np.testing.assert_allclose(image, render(scene, camera), atol=1e-5)


def test_filter_3d(tmp_path):
    """The picture is that of the smoothed Gaussians."""
    scene, camera = make_scene(300), make_camera()
    width = np.exp(np.random.default_rng(3).normal(-2, 1, 300)).astype(np.float32)
    (tmp_path / "scene.ply").write_bytes(ply_bytes({**columns_of(scene), "filter_3D": width}))
    with pytest.warns(UserWarning, match="filter_3D"):
        image = render(load_ply(tmp_path / "scene.ply"), camera)
    squares = np.exp(2 * scene.log_scales.astype(np.float64))
    wider = squares + width[:, None].astype(np.float64) ** 2
    opacities = scene.opacities * np.sqrt(squares.prod(1) / wider.prod(1))
    right = render(scene, camera, log_scales=False, scales=np.sqrt(wider).astype(np.float32),
                   logit_opacities=False, opacities=opacities.astype(np.float32), antialias=True,
                   blur=0.1)
    print(f"ignored: {psnr(render(scene, camera), right):.1f} dB, applied: "
          f"{psnr(image, right):.1f} dB")
    assert psnr(image, right) > 90
    assert psnr(render(scene, camera), right) < 40


@pytest.mark.parametrize("width, height, factor", [(160, 120, 4), (163, 121, 4), (167, 125, 8)])
def test_downscaled_views(width, height, factor):
    """A picture that was made smaller is what its camera sees, also where sides do not divide."""
    scene, camera = make_scene(300), make_camera(width, height)
    smooth = dataclasses.replace(scene, log_scales=np.maximum(scene.log_scales, -1))
    small = downscale_image(render(smooth, camera), factor)
    seen = camera.downscaled(factor)
    assert small.shape[1:] == (seen.height, seen.width)
    # Seen in fine squares, too, so that averages are compared.
    fx, fy, cx, cy = seen.intrinsics
    fine = dataclasses.replace(seen, width=4 * seen.width, height=4 * seen.height,
                               intrinsics=(4 * fx, 4 * fy, 4 * cx, 4 * cy))
    right = downscale_image(render(smooth, fine, blur=0.3 * (4 / factor) ** 2), 4)
    found = psnr(small, right)
    resized = dataclasses.replace(seen, intrinsics=(
        fx * factor * seen.width / width, fy * factor * seen.height / height,
        cx * factor * seen.width / width, cy * factor * seen.height / height))
    print(f"{width}x{height} by {factor}: {found:.1f} dB, as if resized "
          f"{psnr(render(smooth, resized), small):.1f} dB")
    assert found > 40


def test_cropped_view():
    scene, camera = make_scene(300), make_camera()
    part = render(scene, camera.cropped(30, 20, 70, 60))
    # Not all the same: Gaussians far outside the image are projected as if they were nearer.
    assert psnr(part, render(scene, camera)[:, 20:80, 30:100]) > 60


def test_principal_points(tmp_path):
    scene, camera = make_scene(100), make_camera()
    save_cameras_json(tmp_path / "cameras.json", [camera])
    loaded, = load_cameras(tmp_path / "cameras.json")
    assert psnr(render(scene, loaded), render(scene, camera)) > 90


def test_what_is_imported():
    """numpy and the standard library; and nothing of it by the package itself."""
    code = ("import sys, gsplat_c\n"
            "assert 'gsplat_c.io' not in sys.modules and 'json' not in sys.modules\n"
            "for name in ('torch', 'jax', 'cupy', 'PIL', 'pycolmap', 'scipy'):\n"
            "    sys.modules[name] = None\n"
            "import gsplat_c.io\n")
    subprocess.run([sys.executable, "-c", code], check=True)
