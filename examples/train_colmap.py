#!/usr/bin/env python3
"""Trains 3D Gaussians on photographs with a COLMAP reconstruction, on the CPU or a CUDA device.

    train_colmap.py DATA [--out OUT] [--steps N] [--device cuda]

DATA holds a reconstruction with pinhole cameras in sparse/0, and images.  Every eighth image
is kept for evaluation.  OUT gets the scene as point_cloud/iteration_N/point_cloud.ply and the
cameras as cameras.json, where viewers look for them, test images and the curves of training.

The method is that of Kerbl et al., 3D Gaussian Splatting for Real-Time Radiance Field
Rendering (2023), with Adam only for what a view sees.  Loading and saving are in gsplat_c.io;
all of the training is here, meant to be copied and changed.
"""

import argparse
import pathlib
import resource
import sys
from typing import NamedTuple

import numpy as np
import torch

try:
    import gsplat_c.io
    import gsplat_c.torch
except ModuleNotFoundError:  # run from a checkout
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bindings/python"))
    import gsplat_c.io
    import gsplat_c.torch
from report import Progress, side_by_side, write_curves

SH0 = 0.28209479177387814  # the constant spherical harmonic

# Learning rates per step; that of the means in units of the scene's extent, and falling.
RATES = {"means": 1.6e-4, "log_scales": 5e-3, "rotations": 1e-3, "logits": 5e-2,
         "sh_dc": 2.5e-3, "sh": 2.5e-3 / 20}
LAST_MEANS_RATE = 0.01  # of the first

FIRST_OPACITY = 0.1
FAINT = 0.005  # opacity below which a Gaussian is removed
RESET_OPACITY = 0.01  # what no opacity is above after a reset
SMALL = 0.01  # of the extent: up to this size a Gaussian is cloned, above it is split
HUGE = 0.1  # of the extent: above this size it is removed
SPLIT_SHRINK = 1.6  # how much smaller the two parts of a Gaussian are


# ----------------------------------------------------------------- the data set


class Data(NamedTuple):
    train: list  # of View
    test: list
    points: np.ndarray  # [P, 3]
    colors: np.ndarray  # [P, 3] uint8
    extent: float  # radius of the cameras in world units
    origin: np.ndarray  # [3] where (0, 0, 0) of the training is in the world


class View:
    """A photograph and the camera that took it."""

    def __init__(self, camera, path, options, origin, near_plane, device):
        background = [float(options.background == "white")] * 3
        image = gsplat_c.io.load_image(path, background=background)
        try:
            camera = camera.resized(image.shape[2], image.shape[1])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        self.camera = camera.downscaled(options.downscale)
        pixels = np.round(gsplat_c.io.downscale_image(image, options.downscale) * 255)
        # Whole numbers take a quarter of the memory.
        self.target = torch.from_numpy(pixels.astype(np.uint8)).to(device)  # [3, H, W]
        self.arguments = {**self.camera.arguments(origin), "near_plane": near_plane,
                          "background": background}


def load(options, device):
    """The Data of a folder."""
    model = gsplat_c.io.load_colmap(options.data)
    if not model.cameras or len(model.points) < 4:
        raise ValueError(f"{options.data}: a reconstruction of {len(model.cameras)} images and "
                         f"{len(model.points)} points is too little to start from")
    eyes = np.array([camera.position for camera in model.cameras])
    extent = 1.1 * float(np.linalg.norm(eyes - eyes.mean(0), axis=1).max()) or 1.0
    # Far from the origin, as in geographic coordinates, single precision would not do.
    far = np.abs(eyes).max() > 100 * extent
    origin = eyes.mean(0) if far else np.zeros(3)
    views = [View(camera, options.data / options.images / camera.name, options, origin,
                  0.01 * extent, device) for camera in model.cameras]
    every = options.test_every
    test = views[::every] if every else []
    return Data([view for view in views if view not in test], test, model.points - origin,
                model.colors, extent, origin)


# -------------------------------------------------------------------- Gaussians


class Gaussians:
    """The trained parameters, unbounded as the optimizer needs them, and densification."""

    def __init__(self, points, colors, sh_degree, extent, device):
        """points: [N, 3]; colors: [N, 3] uint8; extent: radius of the cameras in world units."""
        means = torch.tensor(points, dtype=torch.float32, device=device)
        colors = torch.tensor(colors, dtype=torch.float32, device=device) / 255
        # Round, and as large as the distance to the three nearest ones.
        spacing2 = gsplat_c.knn(means, 3, outputs=("mean2",)).mean2
        log_scales = spacing2.clamp((1e-5 * extent) ** 2, (HUGE * extent) ** 2).log() / 2
        count = len(means)
        start = {
            "means": means,
            "log_scales": log_scales[:, None].repeat(1, 3),
            "rotations": torch.tensor([1.0, 0, 0, 0], device=device).repeat(count, 1),
            "logits": torch.full((count,), FIRST_OPACITY, device=device).logit(),
            "sh_dc": ((colors - 0.5) / SH0)[:, None],
        }
        if sh_degree:
            start["sh"] = torch.zeros(count, (sh_degree + 1) ** 2 - 1, 3, device=device)
        self.values = {name: torch.nn.Parameter(value) for name, value in start.items()}
        self.extent = extent
        self.optimizer = gsplat_c.torch.SelectiveAdam(
            [{"params": [value], "name": name, "lr": RATES[name]}
             for name, value in self.values.items()], eps=1e-15)
        self.forget()

    def __len__(self):
        return len(self.values["means"])

    def forget(self):
        """Resets the statistics of densification."""
        means = self.values["means"]
        self.gradient_sum = torch.zeros(len(means), device=means.device)
        self.seen = torch.zeros(len(means), device=means.device)

    def render(self, view, sh_degree, **more):
        """The rasterizer's outputs, from activated parameters."""
        return gsplat_c.torch.rasterize(
            means=self.values["means"], scales=self.values["log_scales"].exp(),
            rotations=self.values["rotations"], opacities=self.values["logits"].sigmoid(),
            sh_dc=self.values["sh_dc"], sh=self.values.get("sh"), sh_degree=sh_degree,
            **view.arguments, **more)

    def step(self, view, sh_degree):
        """Takes one step for a view; returns the loss before it."""
        # Only its gradient matters: that of the projected centres, in units of half the image.
        centers = torch.zeros(len(self), 2, device=self.gradient_sum.device, requires_grad=True)
        drawn = self.render(view, sh_degree, outputs=("color", "radii"), means2d=centers,
                            grad2d_ndc=True)
        loss = gsplat_c.torch.image_loss(drawn.color[None], view.target[None], l1_weight=0.8,
                                         ssim_weight=0.2)
        loss.backward()
        visible = drawn.radii > 0
        self.gradient_sum += centers.grad.norm(dim=1)  # 0 for what is not visible
        self.seen += visible
        self.optimizer.step(visible=visible)
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def set_means_rate(self, progress):
        """Lets the rate fall exponentially; progress: of the training, 0 to 1."""
        self.optimizer.param_groups[0]["lr"] = (
            RATES["means"] * self.extent * LAST_MEANS_RATE ** progress)

    def rebuild(self, kept, added):
        """Keeps rows and appends others, as new parameters.

        The optimizer's moments go with their rows, new ones begin with zero.
        kept: [N] bool; added: {name: [M, ..]}.
        """
        for group in self.optimizer.param_groups:
            name, old = group["name"], group["params"][0]
            new = torch.nn.Parameter(torch.cat([old.detach()[kept], added[name]]))
            state = self.optimizer.state.pop(old, None)
            if state:
                for moment in ("exp_avg", "exp_avg_sq"):
                    state[moment] = torch.cat([state[moment][kept],
                                               torch.zeros_like(added[name])])
                self.optimizer.state[new] = state
            self.values[name] = group["params"][0] = new
        self.forget()

    @torch.no_grad()
    def densify(self, threshold, limit):
        """Clones small and splits large Gaussians where the gradient is large.

        threshold: of the mean length of the gradient by the projected centre; limit: of the
        number of Gaussians.
        """
        pull = self.gradient_sum / self.seen.clamp(min=1)
        room = max(limit - len(self), 0)
        if torch.count_nonzero(pull > threshold) > room:
            threshold = pull.topk(room + 1).values[-1]
        pulled = pull > threshold
        large = self.values["log_scales"].exp().amax(1) > SMALL * self.extent
        clones = {name: value[pulled & ~large] for name, value in self.values.items()}
        parts = self.halves(pulled & large)
        self.rebuild(~(pulled & large),
                     {name: torch.cat([clones[name], parts[name]]) for name in clones})

    def halves(self, chosen):
        """Replaces each chosen Gaussian by two smaller ones at positions drawn from it."""
        parts = {name: value[chosen].repeat_interleave(2, dim=0)
                 for name, value in self.values.items()}
        # In its own axes by its scales, then turned by w, u: v + 2 u x (u x v + w v).
        offset = torch.randn_like(parts["means"]) * parts["log_scales"].exp()
        unit = torch.nn.functional.normalize(parts["rotations"])
        w, u = unit[:, :1], unit[:, 1:]
        turned = torch.linalg.cross(u, torch.linalg.cross(u, offset) + w * offset)
        parts["means"] = parts["means"] + offset + 2 * turned
        parts["log_scales"] = parts["log_scales"] - np.log(SPLIT_SHRINK)
        return parts

    @torch.no_grad()
    def prune(self, huge_too):
        """Removes nearly transparent Gaussians and, with huge_too, oversized ones."""
        drop = self.values["logits"].sigmoid() < FAINT
        if huge_too:
            drop |= self.values["log_scales"].exp().amax(1) > HUGE * self.extent
        self.rebuild(~drop, {name: value[:0] for name, value in self.values.items()})

    @torch.no_grad()
    def reset_opacities(self):
        """Makes all Gaussians nearly transparent; training restores those it needs."""
        logits = self.values["logits"]
        logits.clamp_(max=float(torch.tensor(RESET_OPACITY).logit()))
        state = self.optimizer.state.get(logits)
        if state:
            state["exp_avg"].zero_()
            state["exp_avg_sq"].zero_()

    def scene(self):
        """The scene as it is saved."""
        scene = {name: value.detach().cpu().numpy() for name, value in self.values.items()}
        parts = [scene.pop(name) for name in ("sh_dc", "sh") if name in scene]
        return gsplat_c.io.Scene(**scene, sh=np.concatenate(parts, axis=1))


# --------------------------------------------------------------------- training


@torch.no_grad()
def evaluate(gaussians, views, sh_degree):
    """(PSNR in dB, SSIM), means over the views; NaN without any."""
    scores = []
    for view in views:
        image = gaussians.render(view, sh_degree).color.clamp(0, 1)
        target = view.target / 255
        error = torch.mean((image - target) ** 2).clamp(min=1e-12)
        scores.append(torch.stack([-10 * error.log10(),
                                   gsplat_c.torch.ssim(image[None], target[None])]))
    return tuple(torch.stack(scores).mean(0).tolist()) if scores else (np.nan, np.nan)


def memory(device):
    """Peak memory so far in bytes: of the GPU, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def change_number(gaussians, options, done):
    """Clones, splits, prunes and resets if this step calls for it."""
    if done >= options.densify_until:
        return
    if done > options.densify_from and done % options.densify_every == 0:
        gaussians.densify(options.threshold, options.max_gaussians)
        gaussians.prune(huge_too=done > options.reset_every)
    if done % options.reset_every == 0:
        gaussians.reset_opacities()


def train(gaussians, data, options, device):
    """Returns the curve: rows of step, Gaussians, PSNR, SSIM, steps per second, MiB."""
    curve, order, progress, evaluating = [], [], Progress(options.steps), 0.0
    judged = data.test or data.train
    for step in range(options.steps):
        sh_degree = min(step // options.sh_every, options.sh_degree)
        gaussians.set_means_rate(step / options.steps)
        if not order:  # every view once before any comes again
            order = torch.randperm(len(data.train)).tolist()
        loss = gaussians.step(data.train[order.pop()], sh_degree)
        last = step + 1 == options.steps
        if last or (step + 1) % options.eval_every == 0:
            loss.item()  # waits for the device, so that the time is that of training
            since = progress.seconds()
            rate = (step + 1) / (since - evaluating)
            psnr, ssim = evaluate(gaussians, judged, sh_degree)
            evaluating += progress.seconds() - since
            curve.append((step + 1, len(gaussians), psnr, ssim, rate, memory(device) / 2**20))
        if last or (step + 1) % options.show_every == 0:
            score = f"  PSNR {curve[-1][2]:.2f} dB" if curve else ""
            progress.show(step + 1, f"loss {loss.item():.4f}{score}  {len(gaussians)} Gaussians")
        if not last:  # after the evaluation: opacities that were reset say nothing
            change_number(gaussians, options, step + 1)
    return curve


def save(out, gaussians, data, curve):
    folder = out / "point_cloud" / f"iteration_{curve[-1][0]}"
    folder.mkdir(parents=True, exist_ok=True)
    gsplat_c.io.save_ply(folder / "point_cloud.ply", gaussians.scene().moved(data.origin))
    gsplat_c.io.save_cameras_json(out / "cameras.json",
                                  [view.camera for view in data.test + data.train])
    write_curves(out, ("step", "Gaussians", "PSNR (dB)", "SSIM", "steps per second",
                       "memory (MiB)"), curve)
    for view in data.test[:8]:
        path = (out / "test" / view.camera.name).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            image = gaussians.render(view, None).color.cpu().numpy()
        target = view.target.cpu().numpy() / np.float32(255)
        gsplat_c.io.save_image(path, side_by_side(target, image))


# ---------------------------------------------------------------------- options


def read_options(argv):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="folder of images and reconstruction")
    parser.add_argument("--out", type=pathlib.Path, default="build/train_colmap", help="folder")
    parser.add_argument("--images", default="images", help="folder of the images in DATA")
    parser.add_argument("--downscale", type=int, default=1, help="of the images, whole number")
    parser.add_argument("--background", choices=("black", "white"), default="black",
                        help="of the scene, and seen through images with alpha")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-every", type=int, default=8, metavar="N",
                        help="keep every N-th image for evaluation; 0: none")
    parser.add_argument("--eval-every", type=int, default=1000, metavar="STEPS")
    parser.add_argument("--show-every", type=int, default=20, metavar="STEPS",
                        help="between updates of the progress bar, which wait for the device")
    parser.add_argument("--steps", type=int, default=30000)
    parser.add_argument("--sh-degree", type=int, default=3, choices=range(5))
    parser.add_argument("--sh-every", type=int, default=1000, metavar="STEPS",
                        help="before another degree of spherical harmonics is in use")
    parser.add_argument("--densify-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--densify-from", type=int, default=500, metavar="STEP")
    parser.add_argument("--densify-until", type=int, metavar="STEP", help="half of the steps")
    parser.add_argument("--threshold", type=float, default=0.0002,
                        help="gradient of the projected centre above which to densify")
    parser.add_argument("--max-gaussians", type=int, default=3_000_000, metavar="N")
    parser.add_argument("--reset-every", type=int, default=3000, metavar="STEPS",
                        help="between resets of the opacities")
    options = parser.parse_args(argv)
    if options.densify_until is None:
        options.densify_until = options.steps // 2
    for name in ("steps", "downscale", "sh_every", "densify_every", "reset_every", "eval_every",
                 "show_every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


def main(argv=None):
    """Returns the curve of the training, see train()."""
    options = read_options(argv)
    device = torch.device(options.device)
    torch.manual_seed(options.seed)
    data = load(options, device)
    gaussians = Gaussians(data.points, data.colors, options.sh_degree, data.extent, device)
    psnr, ssim = evaluate(gaussians, data.test or data.train, 0)
    print(f"{len(data.train)} images to train on and {len(data.test)} to test, {len(gaussians)} "
          f"points; PSNR {psnr:.2f} dB, SSIM {ssim:.4f} at the start")

    curve = train(gaussians, data, options, device)
    save(options.out, gaussians, data, curve)
    print("   step  Gaussians  PSNR (dB)    SSIM  steps/s     MiB")
    for step, count, psnr, ssim, rate, mib in curve:
        print(f"{step:7}  {count:9}  {psnr:9.2f}  {ssim:6.4f}  {rate:7.1f}  {mib:6.0f}")
    print(f"scene, cameras, test images (target | result) and curves in {options.out}")
    return curve


if __name__ == "__main__":
    main()
