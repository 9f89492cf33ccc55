"""The functions of diff_gaussian_rasterization._C, for callers below the Python layer."""

import pytest
import torch
from frames import HEIGHT, VARIANTS, WIDTH, Camera, arguments, gaussians, inputs_of

FORWARD = """bg means3D colors opacities scales rotations scale_modifier cov3D viewmatrix projmatrix
    tanfovx tanfovy image_height image_width sh sh_degree campos prefiltered debug"""
RETURNS = "count color radii geom binning img"
BACKWARD = """bg means3D radii colors scales rotations scale_modifier cov3D viewmatrix projmatrix
    tanfovx tanfovy by_color sh sh_degree campos geom count binning img debug"""
GRADIENTS = "means2D colors opacities means3D cov3D sh scales rotations"

ORDER = {  # variant: arguments and results of forward, of backward
    "2023": (FORWARD, RETURNS, BACKWARD, GRADIENTS),
    "2024": (FORWARD.replace("debug", "antialiasing debug"), RETURNS + " invdepth",
             BACKWARD.replace("colors", "colors opacities").replace("by_color", "by_color by_depth")
             .replace("debug", "antialiasing debug"), GRADIENTS),
    "2024-accel": (FORWARD.replace(" sh ", " dc sh ").replace("debug", "antialiasing debug"),
                   "count buckets color invdepth radii geom binning img sample",
                   BACKWARD.replace("colors", "colors opacities")
                   .replace(" sh ", " dc sh by_depth ")
                   .replace("debug", "buckets sample antialiasing debug"),
                   GRADIENTS.replace(" sh", " dc sh")),
    "mip": (FORWARD.replace("image_height", "kernel_size subpixel_offset image_height"), RETURNS,
            BACKWARD.replace("by_color", "kernel_size subpixel_offset by_color"), GRADIENTS),
    "depth-constant": (FORWARD, RETURNS.replace("radii", "depth radii"), BACKWARD, GRADIENTS),
    "depth-grad": (FORWARD, RETURNS.replace("radii", "depth radii"),
                   BACKWARD.replace("by_color", "by_color by_depth"), GRADIENTS),
    "deformable": (FORWARD, RETURNS.replace("radii", "depth radii"), BACKWARD,
                   GRADIENTS.replace("means2D", "means2D means2D_densify")),
    "w-depth": (FORWARD.replace(" debug", ""), RETURNS + " depth", BACKWARD.replace(" debug", ""),
                GRADIENTS),
}
GRADIENT_ORDER = ("means2D", "means2D_densify", "colors_precomp", "opacities", "means3D",
                  "cov3Ds_precomp", "dc", "sh", "scales", "rotations", "theta", "rho")
NAMES = {"means2D": "means2D", "means2D_densify": "means2D_densify", "means3D": "means3D",
         "opacities": "opacities",
         "scales": "scales", "rotations": "rotations", "sh": "shs", "dc": "dc"}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("variant", ORDER)
def test_raw_calls(use, device, variant, named):
    """Against the module, by the documented order; also where the arguments decide."""
    modules = use(variant)
    leaves, camera = gaussians(20, device), Camera(device)
    args = inputs_of(leaves, variant)
    settings = modules.dgr.GaussianRasterizationSettings(**camera.settings(variant))
    color, radii, *more = modules.dgr.GaussianRasterizer(settings)(**args)
    weights = torch.rand(3, HEIGHT, WIDTH, device=device)
    loss = (color * weights).sum()
    by_depth = torch.rand(1, HEIGHT, WIDTH, device=device)
    if variant.startswith("2024") or variant == "depth-grad":
        loss = loss + (more[0] * by_depth).sum()
    loss.backward()

    if not named and variant in ("depth-constant", "depth-grad", "deformable"):
        return  # those cannot be told from 2023
    raw = use(variant if named else "auto").raw
    absent = torch.Tensor([])
    values = {**settings._asdict(), "colors": absent, "cov3D": absent,
              "dc": args.get("dc"), "sh": args["shs"], "by_color": weights, "by_depth": by_depth,
              **{name: args[name] for name in ("means3D", "opacities", "scales", "rotations")}}
    forward, returns, backward, gradients = (text.split() for text in ORDER[variant])
    results = raw.rasterize_gaussians(*(values[name] for name in forward))
    assert isinstance(results, tuple) and len(results) == len(returns)
    values.update(zip(returns, results))
    assert torch.equal(values["color"], color) and torch.equal(values["radii"], radii)
    assert isinstance(values["count"], int) and values["count"] > 20
    for name in ("geom", "binning", "img"):
        assert values[name].dtype == torch.uint8
    if more:
        assert torch.equal(values["invdepth" if variant.startswith("2024") else "depth"], more[0])

    found = raw.rasterize_gaussians_backward(*(values[name] for name in backward))
    assert len(found) == len(gradients)
    shapes = {"colors": (20, 3), "cov3D": (20, 6)}
    for name, gradient in zip(gradients, found):
        if name in shapes:
            assert gradient.shape == shapes[name] and (gradient == 0).all()
            continue
        given = args[NAMES[name]]
        wanted = given.grad if given.is_leaf or name == "means2D" else None
        if wanted is not None:
            torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6)
        assert gradient.shape == given.shape and gradient.abs().sum() > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_goes_there_and_back(use, variant):
    """For those whose order is ours too, by the table that the module was made of."""
    from gsplat_c.compat._variants import VARIANTS as table
    from gsplat_c.compat._variants import raw_arguments

    modules, camera, leaves = use(variant), Camera(), gaussians(15)
    args = inputs_of(leaves, variant)
    absent = torch.Tensor([])
    values = {**camera.settings(variant), "colors_precomp": absent, "cov3Ds_precomp": absent,
              "sh": args["shs"], "dc": args.get("dc"),
              **{name: args[name] for name in ("means3D", "opacities", "scales", "rotations")}}
    values.setdefault("pixel_weights", absent)
    entry = table[variant]
    results = modules.raw.rasterize_gaussians(*(values[name] for name in raw_arguments(entry)))
    values.update(zip(entry.raw_returns, results))
    values.update(grad_color=torch.ones(3, HEIGHT, WIDTH), grad_depth=absent, grad_alpha=absent,
                  grad_invdepths=absent)
    found = modules.raw.rasterize_gaussians_backward(*(values[name]
                                                       for name in entry.raw_backward))
    gradients = dict(zip((name for name in GRADIENT_ORDER if name in entry.inputs), found))
    assert len(found) == len(gradients) == len(entry.inputs)
    settings = modules.dgr.GaussianRasterizationSettings(**camera.settings(variant))
    modules.dgr.GaussianRasterizer(settings)(**args)[0].sum().backward()
    for name, leaf in (("means3D", "means"), ("opacities", "opacities"), ("scales", "scales")):
        torch.testing.assert_close(gradients[name], leaves[leaf].grad, rtol=1e-5, atol=1e-6)
    assert len(results) == {"2023": 6, "2024-08": 7, "2024": 7, "2024-accel": 9,
                            "taming-rasterizer": 8, "taming": 19, "w-depth": 7, "w-pose": 9,
                            "depth-alpha": 8, "depth-constant": 7, "depth-grad": 7,
                            "deformable": 7, "pixelsplat": 6, "mip": 6}[variant]


def test_buffers_may_move(use):
    """They hold no pointers: copies of them do as well."""
    raw, leaves, camera = use("2023").raw, gaussians(15), Camera()
    args, absent = arguments(leaves, False), torch.Tensor([])
    values = {**camera.settings("2023"), "colors": absent, "cov3D": absent, "sh": args["shs"],
              **args}
    forward, returns, backward, _ = (text.split() for text in ORDER["2023"])
    values.update(zip(returns, raw.rasterize_gaussians(*(values[name] for name in forward))))
    values["by_color"] = torch.ones(3, HEIGHT, WIDTH)
    wanted = raw.rasterize_gaussians_backward(*(values[name] for name in backward))
    for name in ("geom", "binning", "img"):
        values[name] = torch.cat((torch.zeros(3, dtype=torch.uint8), values[name]))[3:]
    got = raw.rasterize_gaussians_backward(*(values[name] for name in backward))
    assert all(map(torch.equal, got, wanted))


def test_no_gaussians(use):
    raw, camera, absent = use("2023").raw, Camera(), torch.Tensor([])
    values = {**camera.settings("2023"), "colors": absent, "cov3D": absent,
              "means3D": torch.zeros(0, 3), "opacities": torch.zeros(0, 1),
              "scales": torch.zeros(0, 3), "rotations": torch.zeros(0, 4),
              "sh": torch.zeros(0, 4, 3), "by_color": torch.ones(3, HEIGHT, WIDTH)}
    forward, returns, backward, _ = (text.split() for text in ORDER["2023"])
    results = raw.rasterize_gaussians(*(values[name] for name in forward))
    assert results[0] == 0 and (results[1] == 0).all()
    values.update(zip(returns, results))
    found = raw.rasterize_gaussians_backward(*(values[name] for name in backward))
    assert [tuple(gradient.shape)[0] for gradient in found] == [0] * 8


def test_wrong_arguments(use):
    named, chosen = use("2023").raw, use("auto").raw
    with pytest.raises(TypeError, match="2 arguments, expected bg, means3D"):
        named.rasterize_gaussians(1, 2)
    with pytest.raises(TypeError, match="no variant takes"):
        chosen.rasterize_gaussians(1, 2)
    with pytest.raises(TypeError, match="rasterize_gaussians_backward: 1 arguments"):
        named.rasterize_gaussians_backward(torch.zeros(3))


@pytest.mark.parametrize("variant", ["2024-accel", "taming-rasterizer"])
def test_ssim_without_a_batch(use, device, variant):
    modules = use(variant)
    image = torch.rand(3, 20, 31, device=device, requires_grad=True)
    target = torch.rand(3, 20, 31, device=device)
    got = modules.raw.fusedssim(0.01**2, 0.03**2, image, target)
    assert got.shape == image.shape and not got.requires_grad
    by_map = torch.rand_like(got)
    found = modules.raw.fusedssim_backward(0.01**2, 0.03**2, image, target, by_map)
    wanted = modules.ssim.FusedSSIMMap.apply(0.01**2, 0.03**2, image[None], target[None])
    wanted.backward(by_map[None])
    assert torch.equal(got, wanted[0]) and torch.equal(found, image.grad)
