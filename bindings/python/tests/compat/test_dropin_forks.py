"""Forks beyond the original's arguments: permuted axes, gradient sinks, and look-alikes."""

import pytest
import torch
from frames import Camera, arguments, gaussians, inputs_of

import gsplat_c


def rasterizer(modules, variant="2023", **changes):
    settings = Camera().settings(variant, **changes)
    return modules.dgr.GaussianRasterizer(modules.dgr.GaussianRasterizationSettings(**settings))


def basis(directions):
    """The real spherical harmonics of degree 0 to 3, as the originals write them: [P, 16]."""
    x, y, z = directions.unbind(1)
    return torch.stack([
        0.28209479177387814 + 0 * x,
        -0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x,
        1.0925484305920792 * x * y, -1.0925484305920792 * y * z,
        0.31539156525252005 * (2 * z * z - x * x - y * y), -1.0925484305920792 * x * z,
        0.5462742152960396 * (x * x - y * y),
        -0.5900435899266435 * y * (3 * x * x - y * y), 2.890611442640554 * x * y * z,
        -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
        0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
        -0.4570457994644658 * x * (4 * z * z - x * x - y * y),
        1.445305721320277 * z * (x * x - y * y),
        -0.5900435899266435 * x * (x * x - 3 * y * y)], 1)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_permuted_axes(use, device, degree):
    """z, x, y of the direction in place of x, y, z; coefficients beyond the 16th are not read."""
    leaves, camera = gaussians(device=device, degree=4), Camera(device)
    args = {**arguments(leaves, False)}
    args["shs"] = args["shs"].detach().requires_grad_()
    modules = use("pixelsplat")
    settings = modules.dgr.GaussianRasterizationSettings(
        **camera.settings("pixelsplat", sh_degree=degree))
    color, _ = modules.dgr.GaussianRasterizer(settings)(**args)
    weights = torch.rand_like(color)
    names = ("means3D", "shs", "opacities")
    found = torch.autograd.grad((color * weights).sum(), [args[name] for name in names])

    count = (degree + 1)**2
    directions = torch.nn.functional.normalize(args["means3D"] - camera.center)
    colors = torch.einsum("pk,pkc->pc", basis(directions[:, [2, 0, 1]])[:, :count],
                          args["shs"][:, :count]) + 0.5
    exact, _ = modules.dgr.GaussianRasterizer(settings)(
        **{**args, "shs": None, "colors_precomp": colors.clamp_min(0)})
    wanted = torch.autograd.grad((exact * weights).sum(), [args[name] for name in names])
    torch.testing.assert_close(color, exact, rtol=1e-5, atol=1e-6)
    for got, right in zip(found, wanted):
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-5)

    usual = use("2023").dgr
    other, _ = usual.GaussianRasterizer(settings)(**args)
    assert torch.allclose(color, other) == (degree == 0)


def test_permuted_axes_below_the_module(use):
    modules = use("pixelsplat")
    args, settings = arguments(gaussians(), False), Camera().settings("2023")
    wanted = rasterizer(modules)(**args)[0]
    wanted.sum().backward()
    none = torch.Tensor([])
    raw = modules.raw.rasterize_gaussians(
        settings["bg"], args["means3D"], none, args["opacities"], args["scales"],
        args["rotations"], 1.0, none, settings["viewmatrix"], settings["projmatrix"],
        settings["tanfovx"], settings["tanfovy"], 30, 44, args["shs"], 1, settings["campos"],
        False, False)
    assert torch.equal(raw[1], wanted)


@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("variant", ["deformable", "auto"])
def test_densification_has_a_sink(use, device, variant, by_position):
    """Sums of absolute values over the pixels, at least the signed sums that means2D has."""
    dgr, args = use(variant).dgr, inputs_of(gaussians(device=device), "deformable")
    settings = dgr.GaussianRasterizationSettings(**Camera(device).settings("2023"))
    if by_position:
        order = ("means3D", "means2D", "means2D_densify", "shs", "colors_precomp", "opacities",
                 "scales", "rotations", "cov3D_precomp")
        given = {**args, "colors_precomp": torch.Tensor([]), "cov3D_precomp": torch.Tensor([])}
        color, _, depth = dgr.rasterize_gaussians(*(given[name] for name in order), settings)
    else:
        color, _, depth = dgr.GaussianRasterizer(settings)(**args)
    assert depth.requires_grad
    (color * torch.randn_like(color)).sum().backward()
    signed, absolute = args["means2D"].grad, args["means2D_densify"].grad
    assert (absolute[:, 2] == 0).all() and (absolute >= 0.999 * signed.abs()).all()
    assert (absolute[:, :2] > 1.5 * signed[:, :2].abs()).any()


def test_visible_filter_is_everywhere(use):
    from gsplat_c.compat import VARIANTS

    leaves = gaussians()
    inputs = (leaves["means"], leaves["scales"], leaves["rotations"])
    for variant in VARIANTS:
        module = rasterizer(use(variant), variant)
        radii = module.visible_filter(*inputs)
        assert torch.equal(radii, module(**inputs_of(leaves, variant))[1])
        assert not radii.requires_grad and (radii > 0).any()
        assert module.visible_filter(*(value[:0] for value in inputs)).shape == (0,)
    with pytest.raises(gsplat_c.ArgumentError, match="^visible_filter: (scales|cov)"):
        module.visible_filter(inputs[0])


@pytest.mark.parametrize("variant, name, message", [
    ("2023", "means2D_densify", "written for deformable: name it"),
    ("2023", "dc", "written for 2024-accel or taming-rasterizer or taming"),
    ("auto", "theta", "written for w-pose"), ("auto", "sh_objs", "no variant takes it"),
    ("2023", "semantic_feature", "no variant takes it, .* docs/dropin.md"),
])
def test_unknown_inputs(use, variant, name, message):
    args = {**arguments(gaussians(), False), name: torch.zeros(25, 3)}
    with pytest.raises(TypeError, match=f"^GaussianRasterizer: got .*'{name}' in variant 2023; "
                                        f".*{message}"):
        rasterizer(use(variant))(**args)


@pytest.mark.parametrize("variant", ["2024", "mip"])
def test_no_settings_are_ignored(use, variant):
    args = inputs_of(gaussians(), "deformable")
    with pytest.raises(TypeError, match=f"'means2D_densify' in variant {variant}; .*deformable"):
        rasterizer(use("auto"), variant)(**args)


@pytest.mark.parametrize("variant, name, message", [
    ("2023", "kernel_size", "written for mip"),
    ("2023", "antialiasing", "written for 2024 or 2024-accel: name it"),
    ("2024", "pixel_weights", "written for taming"), ("auto", "bg_color", "no variant takes it"),
])
def test_unknown_fields(use, variant, name, message):
    with pytest.raises(TypeError, match=f"^GaussianRasterizationSettings: got .*'{name}' in "
                                        f"variant .*{message}"):
        fields = Camera().settings("2024" if variant == "2024" else "2023", **{name: 0})
        use(variant).dgr.GaussianRasterizationSettings(**fields, **{name: 0})


@pytest.mark.parametrize("recorded", [True, False])
def test_another_number_of_results(use, recorded):
    module, args = rasterizer(use("auto")), arguments(gaussians(), False)
    with torch.set_grad_enabled(recorded):
        color, radii = module(**args)
        first, *rest = module(**args)
        assert len(rest) == 1 and list(module(**args))[1].dtype == torch.int32
        with pytest.raises(ValueError, match=r"^GaussianRasterizer: variant 2023 returns 2 results "
                           r"\(color, radii\), the program expects 3; .*2024-08 \(invdepths\).*"
                           r"depth-grad \(depth\).*install\(\) or GSPLAT_C_COMPAT"):
            color, radii, depth = module(**args)
        with pytest.raises(ValueError, match="expects 6; no variant does: see Look-alikes"):
            color, depth, normal, alpha, radii, extra = module(**args)


def test_names_that_are_refused(use):
    with pytest.raises(ValueError, match="'depth', expected another name: .*'depth-grad'"):
        use("depth")
    with pytest.raises(ValueError, match="Scaffold-GS is '2023'"):
        use("scaffold")


def test_kernel_size(use):
    args, camera = arguments(gaussians(), False), Camera()

    def color(variant, **changes):
        settings = camera.settings("mip", **changes)
        dgr = use(variant).dgr
        return dgr.GaussianRasterizer(dgr.GaussianRasterizationSettings(**settings))(**args)[0]

    assert torch.equal(color("auto"), color("mip"))
    assert not torch.allclose(color("mip"), color("mip", kernel_size=0))
    assert torch.equal(color("mip", kernel_size=0), color("mip", kernel_size=0.0))
    for wrong in (-0.1, float("nan"), float("inf")):
        with pytest.raises(gsplat_c.ArgumentError, match="^GaussianRasterizer: kernel_size is "):
            color("mip", kernel_size=wrong)
    with pytest.raises(gsplat_c.ArgumentError, match="subpixel_offset has shape"):
        color("mip", subpixel_offset=torch.zeros(3, 4, 2))
    with pytest.raises(gsplat_c.ArgumentError, match="subpixel_offset has dtype"):
        color("mip", subpixel_offset=torch.zeros(30, 44, 2).double())
