"""A small scene with a camera, as training code holds them."""

import math

import torch

FIELDS = {
    "2023": "image_height image_width tanfovx tanfovy bg scale_modifier viewmatrix projmatrix "
            "sh_degree campos prefiltered debug",
    "w-depth": "image_height image_width tanfovx tanfovy bg scale_modifier viewmatrix projmatrix "
               "sh_degree campos prefiltered",
    "w-pose": "image_height image_width tanfovx tanfovy bg scale_modifier viewmatrix projmatrix "
              "projmatrix_raw sh_degree campos prefiltered debug",
}
FIELDS.update(dict.fromkeys(("2024-08", "taming-rasterizer", "depth-alpha", "depth-constant",
                             "depth-grad", "deformable", "pixelsplat"), FIELDS["2023"]))
FIELDS["mip"] = FIELDS["2023"].replace("bg", "kernel_size subpixel_offset bg")
FIELDS["2024"] = FIELDS["2024-accel"] = FIELDS["2023"] + " antialiasing"
FIELDS["taming"] = FIELDS["2023"] + " pixel_weights"

HEIGHT, WIDTH = 30, 44
TANFOV = (0.6, 0.6 * HEIGHT / WIDTH)


class Camera:
    """Matrices as the original code makes them: transposed views of the usual ones."""

    def __init__(self, device="cpu", angle=0.2):
        pose = torch.eye(4)
        pose[0, 0] = pose[2, 2] = math.cos(angle)
        pose[0, 2], pose[2, 0] = math.sin(angle), -math.sin(angle)
        pose[:3, 3] = torch.tensor([0.1, -0.05, 3.0])
        lens = torch.zeros(4, 4)
        lens[0, 0], lens[1, 1] = 1 / TANFOV[0], 1 / TANFOV[1]
        lens[2, 2], lens[2, 3], lens[3, 2] = 1.0001, -0.010001, 1.0
        self.pose, self.lens = pose.to(device), lens.to(device)
        self.view = self.pose.transpose(0, 1)  # not contiguous
        self.raw = self.lens.transpose(0, 1)
        self.full = self.view.unsqueeze(0).bmm(self.raw.unsqueeze(0)).squeeze(0)
        self.center = self.view.inverse()[3, :3]

    def settings(self, variant, **changes):
        """Keyword arguments for the fields of a variant."""
        device = self.pose.device
        values = {"image_height": HEIGHT, "image_width": WIDTH, "tanfovx": TANFOV[0],
                  "tanfovy": TANFOV[1], "bg": torch.tensor([0.2, 0.4, 0.6], device=device),
                  "scale_modifier": 1.0, "viewmatrix": self.view, "projmatrix": self.full,
                  "projmatrix_raw": self.raw, "sh_degree": 1, "campos": self.center,
                  "prefiltered": False, "debug": False, "antialiasing": False,
                  "pixel_weights": None, "kernel_size": 0.1,
                  "subpixel_offset": torch.zeros(HEIGHT, WIDTH, 2, device=device), **changes}
        return {name: values[name] for name in FIELDS[variant].split()}


def gaussians(count=25, device="cpu", seed=0, degree=1):
    """Leaves by name: means, opacities, dc, rest, scales, rotations."""
    random = torch.Generator().manual_seed(seed)

    def uniform(*shape, low=0.0, high=1.0):
        return low + (high - low) * torch.rand(*shape, generator=random)

    rotations = torch.nn.functional.normalize(torch.randn(count, 4, generator=random))
    leaves = {
        "means": uniform(count, 3, low=-0.7, high=0.7),
        "opacities": uniform(count, 1, low=0.2, high=0.9),
        "dc": uniform(count, 1, 3, low=-1.0),
        "rest": uniform(count, (degree + 1) ** 2 - 1, 3, low=-0.2, high=0.2),
        "scales": uniform(count, 3, low=0.04, high=0.2),
        "rotations": rotations,
    }
    return {name: value.to(device).requires_grad_() for name, value in leaves.items()}


def arguments(leaves, split):
    """Keyword arguments of GaussianRasterizer.forward; split: dc apart from shs."""
    means2d = torch.zeros_like(leaves["means"], requires_grad=True) + 0
    if means2d.requires_grad:  # not under no_grad
        means2d.retain_grad()
    args = {"means3D": leaves["means"], "means2D": means2d, "opacities": leaves["opacities"],
            "scales": leaves["scales"], "rotations": leaves["rotations"],
            "colors_precomp": None, "cov3D_precomp": None}
    if split:
        return {**args, "dc": leaves["dc"], "shs": leaves["rest"]}
    return {**args, "shs": torch.cat((leaves["dc"], leaves["rest"]), dim=1)}


SPLIT = ("2024-accel", "taming-rasterizer", "taming")
VARIANTS = ("2023", "2024-08", "2024", "2024-accel", "taming-rasterizer", "taming", "w-depth",
            "w-pose", "depth-alpha", "depth-constant", "depth-grad", "deformable", "pixelsplat",
            "mip")


def inputs_of(leaves, variant):
    """Keyword arguments of a variant's forward."""
    args = arguments(leaves, variant in SPLIT)
    if variant == "deformable":
        args["means2D_densify"] = torch.zeros_like(leaves["means"], requires_grad=True)
    return args
