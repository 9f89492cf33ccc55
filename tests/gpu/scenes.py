"""Random scenes and every kind of call that the rasterizer knows."""

import math

import numpy as np


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
    for degree in range(5):
        yield f"sh{degree}", ({**gaussians(3000, degree), **camera(200, 136),
                               "sh": sh(3000, degree, 5), "sh_degree": degree},
                              ("color", "alpha") + per_gaussian)
    basic = {**gaussians(4000, 11), **camera(257, 131, off_centre=True)}
    colors = rng.random((4000, 3)).astype(np.float32)
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
            {**basic, "colors": rng.random((4000, channels)).astype(np.float32)}, every_pixel)
    three = {**gaussians(2500, 13), **camera(150, 100, 3)}
    yield "cameras", ({**three, "sh": sh(2500, 2, 6), "sh_degree": 2}, ("color", "alpha", "radii"))
    yield "camera_colors", (
        {**three, "colors": rng.random((3, 2500, 3)).astype(np.float32),
         "background": rng.random((3, 3)).astype(np.float32)}, ("color", "depth"))
    covariances = np.einsum("nij,nkj->nik", *[rng.standard_normal((4000, 3, 3)) * 0.07] * 2)
    upper = covariances[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]].astype(np.float32)
    shapeless = {k: v for k, v in basic.items() if k not in ("scales", "rotations")}
    yield "covariances", ({**shapeless, "covariances": upper, "colors": colors}, ("color",))
    split = sh(4000, 3, 8)
    yield "split", ({**basic, "sh": np.ascontiguousarray(split[:, 1:]),
                     "sh_dc": np.ascontiguousarray(split[:, :1]), "sh_degree": 3}, ("color",))
    yield "large", ({**gaussians(60000, 17, size=0.03), **camera(640, 480),
                     "sh": sh(60000, 3, 9), "sh_degree": 3}, ("color", "alpha"))
    # So many bins that some lists are long and others are not, whatever the device.
    wide = {**gaussians(50000, 23, size=0.02), **camera(1920, 1080)}
    wide["means"][:30000] = wide["means"][:30000] * 0.12 + np.float32([0.5, 0.2, 0])
    wide["opacities"][:30000] *= 0.2
    wide["colors"] = rng.random((50000, 3)).astype(np.float32)
    yield "crowd", (wide, ("color",))
    yield "crowd_depths", (wide, ("color", "alpha", "depth", "inv_depth"))
    yield "statistics", ({**basic, "colors": colors,
                          "pixel_weights": rng.random((131, 257)).astype(np.float32)},
                         ("color", "touched", "weight_sum", "weight_count", "weight_blend",
                          "weight_distance"))
    for width, height in ((1, 1), (16, 16), (17, 1), (333, 17)):
        yield f"size{width}x{height}", ({**gaussians(500, 19), **camera(width, height),
                                         "sh": sh(500, 1, 3), "sh_degree": 1}, ("color", "alpha"))
