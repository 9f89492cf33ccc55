#!/usr/bin/env python3
"""Trains Gaussians to match given views, on the CPU, using only numpy and gsplat_c.

    fit_views.py [SCENE.ply] [--from-points]

A scene, a 3D Gaussian splatting PLY file or a small procedural one, is rendered from cameras
around it.  Then its Gaussians are disturbed, or replaced by points with nothing but a
position, and gradient descent brings the views back.  Everything that training takes is
below: activations and their chain rule, rasterizer, image loss, Adam.
"""

import argparse
import dataclasses
import pathlib
import sys

import numpy as np

try:
    import gsplat_c.io
except ModuleNotFoundError:  # run from a checkout
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bindings/python"))
    import gsplat_c.io
from report import Progress, side_by_side, write_curves

SH0 = 0.28209479177387814  # the constant spherical harmonic

# Learning rates per step; that of the means in units of the scene's radius, and falling.
RATES = {"means": 0.002, "log_scales": 0.01, "rotations": 0.01, "logits": 0.03, "sh": 0.01}
LAST_MEANS_RATE = 0.05  # of the first


# ----------------------------------------------------------------- parameters
#
# Trained values are unbounded; the rasterizer needs positive scales, opacities from 0 to 1
# and rotations.  activate() maps one to the other, chain_rule() maps gradients back.


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(parameters):
    """The arguments of the rasterizer."""
    rotations = parameters["rotations"]
    return {
        "means": parameters["means"],
        "scales": np.exp(parameters["log_scales"]),
        "rotations": rotations / np.linalg.norm(rotations, axis=1, keepdims=True),
        "opacities": sigmoid(parameters["logits"]),
        "sh": parameters["sh"],
    }


def chain_rule(parameters, active, grads):
    """Gradients with respect to the parameters, from those of the rasterizer's arguments."""
    unit, by_unit = active["rotations"], grads.rotations
    length = np.linalg.norm(parameters["rotations"], axis=1, keepdims=True)
    along = np.sum(unit * by_unit, axis=1, keepdims=True)
    return {
        "means": grads.means,
        "log_scales": grads.scales * active["scales"],
        "rotations": (by_unit - unit * along) / length,
        "logits": grads.opacities * active["opacities"] * (1 - active["opacities"]),
        "sh": grads.sh,
    }


# --------------------------------------------------------- scenes and cameras


def procedural_scene(count, random):
    """A striped torus over a chequered floor, y pointing down."""
    torus = count * 2 // 3
    a, b = random.uniform(0, 2 * np.pi, (2, torus))
    ring = 1 + 0.4 * np.cos(b)
    means = np.stack([ring * np.cos(a), -0.1 + 0.4 * np.sin(b), ring * np.sin(a)], axis=1)
    stripes = 0.5 + 0.5 * np.sin(6 * a[:, None] + 3 * b[:, None] + np.array([0, 2.1, 4.2]))
    floor = random.uniform(-1.8, 1.8, (count - torus, 2))
    squares = np.floor(floor * 2).sum(1) % 2
    means = np.concatenate([means, np.insert(floor, 1, 0.5, axis=1)]).astype(np.float32)
    colors = np.concatenate([stripes, np.where(squares[:, None], [0.9, 0.85, 0.7],
                                               [0.2, 0.25, 0.35])])
    scene = scene_of_points(means, colors, opacity=0.9)
    scene["log_scales"] += random.normal(0, 0.3, means.shape).astype(np.float32)
    return scene


def scene_of_points(means, colors, opacity):
    """Round Gaussians as large as the distance to their neighbours."""
    count = len(means)
    spacing2 = gsplat_c.knn(means, 3, outputs=("mean2",)).mean2
    log_scales = 0.5 * np.log(np.maximum(spacing2, 1e-12))
    return {
        "means": means.copy(),
        "log_scales": np.repeat(log_scales[:, None], 3, axis=1),
        "rotations": np.tile(np.float32([1, 0, 0, 0]), (count, 1)),
        "logits": np.full(count, np.log(opacity / (1 - opacity)), np.float32),
        "sh": ((colors - 0.5) / SH0).astype(np.float32)[:, None],
    }


def extent(means):
    """(centre, radius) of a scene, ignoring a few distant Gaussians."""
    center = np.median(means, axis=0)
    return center, float(np.quantile(np.linalg.norm(means - center, axis=1), 0.9))


def look_at(eye, target):
    """[4, 4] world to camera, row-major; the world's y points down as the camera's does."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross([0, 1, 0], forward)
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = right, np.cross(forward, right), forward
    view[:3, 3] = -view[:3, :3] @ eye
    return view


def orbit(means, count, width, height, **more):
    """Cameras around the scene at two heights: keyword arguments of the rasterizer, with more."""
    center, radius = extent(means)
    focal = 0.9 * min(width, height)
    cameras = []
    for i in range(count):
        angle, lift = 2 * np.pi * i / count, (0.35, 0.9)[i % 2]
        away = np.array([np.sin(angle), -lift, -np.cos(angle)])
        eye = center + 2.8 * radius * away / np.linalg.norm(away)
        cameras.append({
            "view": look_at(eye, center).astype(np.float32), "view_row_major": True,
            "intrinsics": np.float32([focal, focal, width / 2, height / 2]),
            "width": width, "height": height, "near_plane": 0.01 * radius, **more,
        })
    return cameras


# --------------------------------------------------------------------- starts


def disturb(scene, amount, random):
    """The scene's parameters with noise; positions move by their spacing."""
    spacing = np.sqrt(gsplat_c.knn(scene["means"], 3, outputs=("mean2",)).mean2)[:, None]
    units = {"means": 1.5 * spacing, "log_scales": 0.5, "rotations": 0.3, "logits": 1.0,
             "sh": 0.6}
    return {name: (values + amount * units[name] * random.normal(size=values.shape))
            .astype(np.float32) for name, values in scene.items()}


def grey_points(scene, count, random):
    """Grey points at roughly the scene's positions."""
    count = min(count or len(scene["means"]), len(scene["means"]))
    means = scene["means"][random.choice(len(scene["means"]), count, replace=False)]
    means = means + 0.01 * extent(means)[1] * random.normal(size=means.shape)
    start = scene_of_points(means.astype(np.float32), np.full((count, 3), 0.5), opacity=0.3)
    start["sh"] = np.pad(start["sh"], ((0, 0), (0, scene["sh"].shape[1] - 1), (0, 0)))
    return start


# ------------------------------------------------------------------- training


def render(parameters, camera):
    return gsplat_c.rasterize(**activate(parameters), **camera).color


def psnr(parameters, cameras, targets):
    """Peak signal-to-noise ratio over all pixels of all views, decibels."""
    errors = [np.mean((render(parameters, camera) - target) ** 2)
              for camera, target in zip(cameras, targets)]
    return -10 * np.log10(max(float(np.mean(errors)), 1e-12))


class Trainer:
    """Parameters and the moments of Adam."""

    def __init__(self, parameters, steps):
        self.parameters = parameters
        self.moments = {name: (np.zeros_like(values), np.zeros_like(values))
                        for name, values in parameters.items()}
        self.radius = extent(parameters["means"])[1]
        self.steps, self.step = steps, 0

    def train(self, camera, target):
        """Takes one step for one view; returns the loss before it."""
        active = activate(self.parameters)
        outputs, saved = gsplat_c.rasterize_forward(**active, **camera)
        image = gsplat_c.image_loss(outputs.color[None], target[None], l1_weight=0.8,
                                    ssim_weight=0.2, outputs=("loss", "grad_image"))
        grads = gsplat_c.rasterize_backward(saved, wrt=tuple(active), **active, **camera,
                                            grad_color=image.grad_image[0])
        self.descend(chain_rule(self.parameters, active, grads))
        return float(image.loss)

    def descend(self, gradients):
        progress = self.step / self.steps
        self.step += 1
        rates = dict(RATES, means=RATES["means"] * self.radius * LAST_MEANS_RATE ** progress)
        gsplat_c.adam_step([
            {"parameter": values, "gradient": gradients[name].astype(np.float32, copy=False),
             "moment1": self.moments[name][0], "moment2": self.moments[name][1],
             "lr": rates[name], "epsilon": 1e-15, "step": self.step}
            for name, values in self.parameters.items()])


def fit(start, cameras, targets, steps, random):
    """Trains in place; returns the curve: (step, loss, PSNR in dB) at intervals."""
    trainer, progress = Trainer(start, steps), Progress(steps)
    every, order, recent = max(steps // 50, 1), [], []
    curve = []
    for step in range(steps):
        if not order:  # every view once before any comes again
            order = list(random.permutation(len(cameras)))
        view = order.pop()
        recent.append(trainer.train(cameras[view], targets[view]))
        if step == 0 or (step + 1) % every == 0 or step + 1 == steps:
            curve.append((step + 1, float(np.mean(recent)), psnr(start, cameras, targets)))
            recent.clear()
        progress.show(step + 1, f"loss {curve[-1][1]:.4f}  PSNR {curve[-1][2]:.2f} dB")
    return curve


def read_options(argv):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("scene", nargs="?", type=pathlib.Path,
                        help="3DGS PLY file; without one a procedural scene is made")
    parser.add_argument("--from-points", action="store_true",
                        help="start from grey points with sizes from their neighbours' distances")
    parser.add_argument("--gaussians", type=int, metavar="N",
                        help="of the procedural scene (default 6000), and of --from-points")
    parser.add_argument("--views", type=int, default=16, help="cameras around the scene")
    parser.add_argument("--size", default="256x192", metavar="WxH", help="of the views, pixels")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=1.0, help="how far the start is disturbed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=3, help="views to write as PNG files")
    parser.add_argument("--out", type=pathlib.Path, default="build/fit_views", help="folder")
    options = parser.parse_args(argv)
    try:
        options.width, options.height = map(int, options.size.lower().split("x"))
    except ValueError:
        parser.error(f"--size {options.size!r} is not WIDTHxHEIGHT")
    if min(options.width, options.height, options.views, options.steps) < 1:
        parser.error("size, views and steps must be at least 1")
    return options


def main(argv=None):
    """Returns the PSNR before and after in dB."""
    options = read_options(argv)
    random = np.random.default_rng(options.seed)
    if options.scene:
        loaded, origin = gsplat_c.io.load_ply(options.scene, drop_invalid=True).centered()
    else:
        loaded = gsplat_c.io.Scene(**procedural_scene(options.gaussians or 6000, random))
        origin = np.zeros(3)
    scene = {name: getattr(loaded, name) for name in RATES}
    cameras = orbit(loaded.means, options.views, options.width, options.height,
                    antialias=loaded.antialiased, blur=loaded.blur)
    targets = [render(scene, camera) for camera in cameras]

    if options.from_points:
        parameters = grey_points(scene, options.gaussians, random)
    else:
        parameters = disturb(scene, options.noise, random)
    shown = range(min(options.show, len(cameras)))
    before = [render(parameters, cameras[i]) for i in shown]
    first = psnr(parameters, cameras, targets)
    print(f"{len(parameters['means'])} Gaussians, {len(cameras)} views of {options.width}x"
          f"{options.height}, PSNR {first:.2f} dB at the start")

    curve = fit(parameters, cameras, targets, options.steps, random)

    options.out.mkdir(parents=True, exist_ok=True)
    for i in shown:
        picture = side_by_side(targets[i], before[i], render(parameters, cameras[i]))
        gsplat_c.io.save_image(options.out / f"view_{i:02}.png", picture)
    write_curves(options.out, ("step", "loss", "PSNR (dB)"), curve)
    result = dataclasses.replace(loaded, **parameters)
    gsplat_c.io.save_ply(options.out / "result.ply", result.moved(origin))
    last = psnr(parameters, cameras, targets)
    print(f"PSNR {first:.2f} dB -> {last:.2f} dB; target | start | result in "
          f"{options.out}/view_*.png, curves and result.ply beside them")
    return first, last


if __name__ == "__main__":
    main()
