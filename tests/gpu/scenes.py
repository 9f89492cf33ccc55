"""Random scenes and every kind of call that the rasterizer knows."""

import math
import os

import numpy as np

# A sanitizer that follows every access takes minutes for a scene of thousands.
SCALE = float(os.environ.get("GSPLAT_C_TEST_SCALE", "1"))


def some(count):
    """As many, or the share of them that $GSPLAT_C_TEST_SCALE asks for."""
    return max(1, round(count * SCALE))


def look_at(eye, target=(0, 0, 0)):
    eye, target = np.asarray(eye, float), np.asarray(target, float)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0.0, -1.0, 0.0])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    view = np.eye(4)
    view[:3, :3] = np.stack([right, down, forward])
    view[:3, 3] = -view[:3, :3] @ eye
    return view


def gaussians(count, seed, spread=1.0, size=0.08):
    rng = np.random.default_rng(seed)
    return {
        "means": (rng.standard_normal((count, 3)) * spread).astype(np.float32),
        "scales": np.exp(rng.standard_normal((count, 3)) * 0.8 + math.log(size)).astype(np.float32),
        "rotations": rng.standard_normal((count, 4)).astype(np.float32),
        "opacities": (1 / (1 + np.exp(-2 * rng.standard_normal(count)))).astype(np.float32),
    }


def camera(width, height, count=1, off_centre=False):
    views = [look_at((3 * math.sin(a), -0.5, -3 * math.cos(a))) for a in np.arange(count) * 0.7]
    focal = 0.9 * width
    centre = (0.4 * width, 0.6 * height) if off_centre else (width / 2, height / 2)
    intrinsics = np.tile(np.array([focal, focal * 1.05, *centre]), (count, 1))
    view = np.stack(views).astype(np.float32)
    intrinsics = intrinsics.astype(np.float32)
    if count == 1:
        view, intrinsics = view[0], intrinsics[0]
    return {"view": view, "view_row_major": True, "intrinsics": intrinsics,
            "width": width, "height": height}


def sh(count, degree, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, (degree + 1) ** 2, 3)) * 0.3).astype(np.float32)


def cases():
    """name -> (arguments, outputs)"""
    every_pixel = ("color", "alpha", "depth", "inv_depth", "median_depth")
    per_gaussian = ("radii", "means2d", "depths", "conics", "opacities")
    rng = np.random.default_rng(7)
    n = some(3000)
    for degree in range(5):
        yield f"sh{degree}", ({**gaussians(n, degree), **camera(200, 136),
                               "sh": sh(n, degree, 5), "sh_degree": degree},
                              ("color", "alpha") + per_gaussian)
    n = some(4000)
    basic = {**gaussians(n, 11), **camera(257, 131, off_centre=True)}
    colors = rng.random((n, 3)).astype(np.float32)
    background = np.array([0.2, 0.5, 0.9], np.float32)
    yield "colors", ({**basic, "colors": colors, "background": background}, ("color",))
    yield "depths", ({**basic, "colors": colors}, ("color", "alpha", "depth", "inv_depth"))
    yield "median", ({**basic, "colors": colors, "median_default": 15.0}, every_pixel)
    yield "antialias", ({**basic, "colors": colors, "antialias": True}, ("color", "opacities"))
    yield "compat", ({**basic, "colors": colors, "compat_3dgs": True, "background": background},
                     ("color", "alpha") + per_gaussian)
    yield "pixel_last", ({**basic, "colors": colors, "pixel_last": True}, ("color",))
    for channels in (1, 2, 4, 8, 17, 64):
        yield f"channels{channels}", (
            {**basic, "colors": rng.random((n, channels)).astype(np.float32)}, every_pixel)
    few = some(2500)
    three = {**gaussians(few, 13), **camera(150, 100, 3)}
    yield "cameras", ({**three, "sh": sh(few, 2, 6), "sh_degree": 2}, ("color", "alpha", "radii"))
    yield "camera_colors", (
        {**three, "colors": rng.random((3, few, 3)).astype(np.float32),
         "background": rng.random((3, 3)).astype(np.float32)}, ("color", "depth"))
    covariances = np.einsum("nij,nkj->nik", *[rng.standard_normal((n, 3, 3)) * 0.07] * 2)
    upper = covariances[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]].astype(np.float32)
    shapeless = {k: v for k, v in basic.items() if k not in ("scales", "rotations")}
    yield "covariances", ({**shapeless, "covariances": upper, "colors": colors}, ("color",))
    split = sh(n, 3, 8)
    yield "split", ({**basic, "sh": np.ascontiguousarray(split[:, 1:]),
                     "sh_dc": np.ascontiguousarray(split[:, :1]), "sh_degree": 3}, ("color",))
    many = some(60000)
    yield "large", ({**gaussians(many, 17, size=0.03), **camera(640, 480),
                     "sh": sh(many, 3, 9), "sh_degree": 3}, ("color", "alpha"))
    # So many bins that some lists are long and others are not, whatever the device.
    many, crowd = some(50000), some(30000)
    wide = {**gaussians(many, 23, size=0.02), **camera(1920, 1080)}
    wide["means"][:crowd] = wide["means"][:crowd] * 0.12 + np.float32([0.5, 0.2, 0])
    wide["opacities"][:crowd] *= 0.2
    wide["colors"] = rng.random((many, 3)).astype(np.float32)
    yield "crowd", (wide, ("color",))
    yield "crowd_depths", (wide, ("color", "alpha", "depth", "inv_depth"))
    yield "statistics", ({**basic, "colors": colors,
                          "pixel_weights": rng.random((131, 257)).astype(np.float32)},
                         ("color", "touched", "weight_sum", "weight_count", "weight_blend",
                          "weight_distance"))
    few = some(500)
    for width, height in ((1, 1), (16, 16), (17, 1), (333, 17)):
        yield f"size{width}x{height}", ({**gaussians(few, 19), **camera(width, height),
                                         "sh": sh(few, 1, 3), "sh_degree": 1}, ("color", "alpha"))
