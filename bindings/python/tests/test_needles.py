"""Gradients of splats that are hundreds of times as long as wide, against the float64 build.

Such a gradient changes a lot when its inputs change in their last bit, so that is the measure: no
float32 program can be much closer to the float64 one."""

import numpy as np

import gsplat_c
from oracle import mute, oracle, steady, to_double

OUTPUTS = ("color", "alpha")
WRT = ("means", "scales", "rotations", "opacities", "colors", "view", "means2d")


def needles(seed):
    """One to eight Gaussians, up to 100,000 times as long as wide before the blur."""
    rng = np.random.default_rng(seed)
    count, width, height = rng.integers(1, 9), rng.integers(64, 257), rng.integers(64, 257)
    thin = np.exp(rng.uniform(np.log(1e-5), np.log(1e-2), count))
    scales = np.stack([rng.uniform(0.1, 1, count), thin, thin * rng.uniform(0.5, 2, count)], 1)
    args = {
        "means": np.stack([rng.uniform(-1, 1, count), rng.uniform(-1, 1, count),
                           rng.uniform(2.5, 5, count)], 1),
        "scales": rng.permuted(scales, axis=1),
        "rotations": rng.standard_normal((count, 4)),
        "opacities": rng.uniform(0.1, 0.95, count),
        "colors": rng.random((count, 3)),
        "view": np.eye(4),
        "intrinsics": np.array([0.9 * width, 0.95 * width, 0.5 * width, 0.5 * height])}
    args = {name: np.ascontiguousarray(value, np.float32) for name, value in args.items()}
    return {**args, "view_row_major": True, "width": int(width), "height": int(height),
            "antialias": bool(seed % 2)}


def moved(args, rng):
    """The same inputs, each changed by up to the last bit of float32."""
    return {k: v * (1 + 6e-8 * rng.uniform(-1, 1, v.shape)) if isinstance(v, np.ndarray) else v
            for k, v in args.items()}


def agreeing(a, b):
    """Pixels that blended the same samples."""
    return steady(a.alpha, b.alpha) & (np.abs(a.color - b.color) < 1.5e-5).all(0)


def waves(seed, height, width):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    return np.stack([np.sin(x / rng.uniform(5, 40) + y / rng.uniform(5, 40) + rng.uniform(0, 6))
                     + rng.uniform(-0.5, 0.5) for _ in range(3)]).astype(np.float32)


def difference(a, b):
    """Relative L2 for each gradient."""
    return {name: np.linalg.norm(getattr(a, name) - getattr(b, name))
            / (np.linalg.norm(getattr(b, name)) or 1) for name in WRT}


def test_gradients_are_as_good_as_their_inputs():
    rng = np.random.default_rng(0)
    for seed in range(200):
        args = needles(seed)
        exact_args = to_double(args)
        image, saved = gsplat_c.rasterize_forward(outputs=OUTPUTS, **args)
        runs = [(a, *oracle().rasterize_forward(outputs=OUTPUTS, **a))
                for a in [exact_args] + [moved(exact_args, rng) for _ in range(3)]]
        pixels = np.logical_and.reduce([agreeing(run[1], runs[0][1]) for run in runs]
                                       + [agreeing(image, runs[0][1])])
        grad = waves(seed, args["height"], args["width"])
        given = mute({"grad_color": grad, "grad_alpha": grad[0] / 3}, pixels)
        got = gsplat_c.rasterize_backward(saved, wrt=WRT, **given, **args)
        exact, *others = [oracle().rasterize_backward(saved, wrt=WRT, **to_double(given), **a)
                          for a, _, saved in runs]
        errors = difference(got, exact)
        roundings = [difference(other, exact) for other in others]
        for name in WRT:
            limit = max(1e-5, 12 * max(rounding[name] for rounding in roundings))
            assert errors[name] < limit, (seed, name)
