"""Small scenes as keyword arguments of gsplat_c.rasterize, in float32 numpy."""

import numpy as np


def one_splat(**changes):
    """A red disk in the middle of a 33 x 33 image, at z = 2."""
    args = {
        "means": np.array([[0, 0, 2]], np.float32),
        "scales": np.full((1, 3), 0.1, np.float32),
        "rotations": np.array([[1, 0, 0, 0]], np.float32),
        "opacities": np.array([0.8], np.float32),
        "colors": np.array([[1, 0.5, 0.25]], np.float32),
        "view": np.eye(4, dtype=np.float32),
        "intrinsics": np.array([100, 100, 16.5, 16.5], np.float32),
        "width": 33,
        "height": 33,
    }
    args.update(changes)
    return args


def cloud(count=40, seed=0, channels=3, **changes):
    """Gaussians of all shapes before a turned camera; 40 x 28 pixels."""
    random = np.random.default_rng(seed)
    angle = 0.3
    view = np.eye(4)
    view[0, 0] = view[2, 2] = np.cos(angle)
    view[0, 2], view[2, 0] = np.sin(angle), -np.sin(angle)
    view[:3, 3] = 0.1, -0.05, 3.0
    args = {
        "means": random.uniform(-0.6, 0.6, (count, 3)),
        "scales": random.uniform(0.03, 0.2, (count, 3)),
        "rotations": random.normal(size=(count, 4)),
        "opacities": random.uniform(0.2, 0.95, count),
        "colors": random.uniform(0, 1, (count, channels)),
        "view": view.T,  # column-major
        "intrinsics": np.array([40, 42, 20.5, 13.0]),
        "background": random.uniform(0, 1, channels),
    }
    args = {name: np.ascontiguousarray(value, np.float32) for name, value in args.items()}
    return {**args, "width": 40, "height": 28, **changes}


def smooth_cloud(**changes):
    """Wide, faint splats that reach every pixel: nothing jumps when a parameter moves."""
    args = cloud(count=6, seed=2)
    args["scales"] = np.float32(1.5) + args["scales"]
    args["opacities"] = args["opacities"] * np.float32(0.3)
    return {**args, **changes}


def arrays_of(args, convert):
    """The same arguments with every array converted."""
    return {name: convert(value) if isinstance(value, np.ndarray) else value
            for name, value in args.items()}
