"""torch.autograd.gradcheck of every function with gradients, for a library of float64.

A program of its own, since the library is chosen when gsplat_c is imported: test_gradcheck.py
runs it.  Prints one line for each case.
"""

import sys

import numpy as np
import torch

import gsplat_c.torch as gt
from scenes import arrays_of, smooth_cloud

OUTPUTS = ("color", "alpha", "depth", "inv_depth")
DRAWN = {"width": 8, "height": 6}


def tensors(**changes):
    """A scene without jumps, 8 x 6 pixels, in float64."""
    args = arrays_of(smooth_cloud(), lambda a: torch.from_numpy(np.float64(a)))
    args["intrinsics"] = args["intrinsics"] / 5
    return {**args, **DRAWN, **changes}


def check(function, *inputs):
    leaves = [value.clone().requires_grad_() for value in inputs]
    return torch.autograd.gradcheck(function, leaves, eps=1e-6, atol=1e-6, rtol=1e-5)


def rasterize(names, args):
    def draw(*values):
        return tuple(gt.rasterize(**{**args, **dict(zip(names, values))}, outputs=OUTPUTS))

    return check(draw, *(args[name] for name in names))


def harmonics():
    random = torch.Generator().manual_seed(1)
    args = tensors(sh=torch.randn(6, 9, 3, generator=random, dtype=torch.float64) * 0.1)
    del args["colors"]
    return rasterize(("means", "sh", "view"), args)


def dc_and_rest():
    args = tensors(sh_dc=torch.ones(6, 1, 3, dtype=torch.float64),
                   sh=torch.full((6, 3, 3), 0.1, dtype=torch.float64),
                   position=torch.tensor([0.5, 0.2, -1], dtype=torch.float64))
    del args["colors"]
    return rasterize(("sh_dc", "sh", "position"), args)


def covariances():
    args = tensors()
    del args["scales"], args["rotations"]
    one = torch.tensor([2, 0.3, 0.2, 2.5, 0.1, 3], dtype=torch.float64)
    args["covariances"] = one.repeat(6, 1)
    return rasterize(("means", "covariances"), args)


def gsplat():
    args = tensors()
    view = args["view"].T.repeat(2, 1, 1)
    fx, fy, cx, cy = args["intrinsics"]
    K = torch.tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]], dtype=torch.float64).repeat(2, 1, 1)

    def draw(*values):
        colors, alphas, _ = gt.rasterization(*values, K, **DRAWN, render_mode="RGB+ED",
                                             rasterize_mode="antialiased")
        return colors, alphas

    return check(draw, args["means"], args["rotations"], args["scales"], args["opacities"],
                 args["colors"], view)


def images(count=2):
    random = torch.Generator().manual_seed(2)
    return [torch.rand(1, 2, 13, 12, generator=random, dtype=torch.float64) for _ in range(count)]


CASES = {
    "geometry": lambda: rasterize(("means", "scales", "rotations", "view"), tensors()),
    "appearance": lambda: rasterize(("opacities", "colors", "background"), tensors()),
    "antialias": lambda: rasterize(("means", "scales", "opacities"), tensors(antialias=True)),
    "harmonics": harmonics,
    "dc_and_rest": dc_and_rest,
    "covariances": covariances,
    "gsplat": gsplat,
    "ssim": lambda: check(lambda x, y: gt.ssim(x, y), *images()),
    "ssim_map": lambda: check(lambda x, y: gt.ssim(x, y, map=True, valid=True), *images()),
    "image_loss": lambda: check(
        lambda x: gt.image_loss(x, images()[1], l2_weight=0.3, mask=images()[1][0, 0]),
        images()[0]),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        try:
            CASES[name]()
            print(name, "passed")
        except Exception as error:
            print(name, "failed:", error)
