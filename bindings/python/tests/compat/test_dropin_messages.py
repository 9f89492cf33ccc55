"""Errors name the function that training code called, and its argument."""

import pytest
import torch
from frames import Camera, arguments, gaussians

import gsplat_c


def rasterizer(modules, **changes):
    settings = modules.dgr.GaussianRasterizationSettings(**Camera().settings("2023", **changes))
    return modules.dgr.GaussianRasterizer(settings)


@pytest.mark.parametrize("changes, message", [
    ({"image_width": 64.0}, "image_width is 64.0, expected an integer"),
    ({"sh_degree": "3"}, "sh_degree is '3', expected an integer"),
    ({"tanfovx": "wide"}, "tanfovx is 'wide'"),
    ({"tanfovy": 0.0}, "tanfovx and tanfovy are 0.6 and 0"),
    ({"bg": [0, 0, 0]}, "bg is list, expected a torch.Tensor"),
    ({"campos": torch.zeros(4)}, "campos has shape"),
])
@pytest.mark.parametrize("grad", [False, True])
def test_settings(use, changes, message, grad):
    with torch.set_grad_enabled(grad):
        inputs = arguments(gaussians(), False)
        with pytest.raises(gsplat_c.ArgumentError, match=f"^GaussianRasterizer: {message}"):
            rasterizer(use("2023"), **changes)(**inputs)


def test_no_memory(use):
    inputs = arguments(gaussians(), False)
    with pytest.raises(gsplat_c.OutOfMemoryError, match="^GaussianRasterizer: no memory for "):
        rasterizer(use("2023"), image_height=1 << 40)(**inputs)


@pytest.mark.parametrize("name, value, message", [
    ("scales", torch.ones(4, 3), "scales is"), ("shs", torch.ones(25, 4, 2), "shs is"),
    ("means3D", torch.ones(25, 3).double(), "means3D has dtype"),
    ("means3D", torch.ones(25, 2), "means3D must have dimensions"),
])
def test_inputs(use, name, value, message):
    inputs = {**arguments(gaussians(), False), name: value}
    with pytest.raises(gsplat_c.ArgumentError, match=f"^GaussianRasterizer: {message}"):
        rasterizer(use("2023"))(**inputs)


def test_functions(use):
    modules = use("2023")
    image, module = torch.zeros(1, 3, 12, 12), rasterizer(modules)
    inputs = arguments(gaussians(), False)
    for call, message in [
        (lambda: modules.dgr.rasterize_gaussians(
            inputs["means3D"], inputs["means2D"], inputs["shs"], torch.empty(0),
            inputs["opacities"], torch.ones(2, 3), inputs["rotations"], torch.empty(0),
            module.raster_settings), "rasterize_gaussians: scales is"),
        (lambda: module.markVisible(torch.zeros(3, 2)), "markVisible: positions is"),
        (lambda: modules.knn.distCUDA2(torch.zeros(3, 2)), "distCUDA2: points is"),
        (lambda: modules.ssim.fused_ssim(image, image[:, :2]), "fused_ssim: img2 is"),
        (lambda: modules.ssim_raw.fusedssim(1e-4, 9e-4, image.double(), image, True),
         "fusedssim: img1 has dtype"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=f"^{message}"):
            call()
