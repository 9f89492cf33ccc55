"""The ways in which known programs import and call the modules, one test for each program.

install() without a name has to be enough for them, except where a test names a variant.
"""

import numpy as np
import pytest
import torch
from frames import HEIGHT, TANFOV, WIDTH, Camera, gaussians

from gsplat_c import compat

P = 24


class Model:
    """What the programs' models give them, as properties of the parameters."""

    def __init__(self, device):
        leaves = gaussians(P, device)
        self.xyz, self.dc, self.rest = leaves["means"], leaves["dc"], leaves["rest"]
        self.opacity, self.scaling = leaves["opacities"], leaves["scales"]
        self.raw_rotation = leaves["rotations"]
        self.max_radii2D = torch.zeros(P, device=device)
        self.accum, self.denominator = (torch.zeros(P, 1, device=device) for _ in range(2))

    @property
    def rotation(self):
        return torch.nn.functional.normalize(self.raw_rotation)

    @property
    def features(self):
        return torch.cat((self.dc, self.rest), dim=1)

    def groups(self):
        return [{"params": [getattr(self, name)], "lr": 1e-3, "name": name}
                for name in ("xyz", "dc", "rest", "opacity", "scaling", "raw_rotation")]

    def add_densification_stats(self, viewspace_points, update_filter):
        self.accum[update_filter] += torch.norm(viewspace_points.grad[update_filter, :2], dim=-1,
                                                keepdim=True)
        self.denominator[update_filter] += 1


def screenspace_points(xyz):
    points = torch.zeros_like(xyz, dtype=xyz.dtype, requires_grad=True, device=xyz.device) + 0
    try:
        points.retain_grad()
    except RuntimeError:
        pass
    return points


def common_settings(camera, device):
    return dict(image_height=int(HEIGHT), image_width=int(WIDTH), tanfovx=TANFOV[0],
                tanfovy=TANFOV[1], bg=torch.tensor([0, 0, 0], dtype=torch.float32, device=device),
                scale_modifier=1.0, viewmatrix=camera.view, projmatrix=camera.full, sh_degree=1,
                campos=camera.center, prefiltered=False)


def test_the_original_of_2023(device):
    compat.install()
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
    from simple_knn._C import distCUDA2

    cloud = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    dist2 = torch.clamp_min(distCUDA2(torch.from_numpy(np.asarray(cloud)).float().to(device)), 1e-7)
    scales = torch.log(torch.sqrt(dist2))[..., None].repeat(1, 3)
    assert scales.shape == (50, 3) and torch.isfinite(scales).all()

    model, camera = Model(device), Camera(device)
    assert not camera.view.is_contiguous()
    points = screenspace_points(model.xyz)
    rasterizer = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
        **common_settings(camera, device), debug=False))
    rendered_image, radii = rasterizer(
        means3D=model.xyz, means2D=points, shs=model.features, colors_precomp=None,
        opacities=model.opacity, scales=model.scaling, rotations=model.rotation,
        cov3D_precomp=None)
    visibility_filter = radii > 0
    (rendered_image - 0.5).abs().mean().backward()
    with torch.no_grad():
        model.max_radii2D[visibility_filter] = torch.max(model.max_radii2D[visibility_filter],
                                                         radii[visibility_filter])
        model.add_densification_stats(points, visibility_filter)
    assert model.max_radii2D.max() >= 3 and model.accum.sum() > 0
    assert model.rest.grad.abs().sum() > 0 and model.raw_rotation.grad.abs().sum() > 0


@pytest.mark.parametrize("separate_sh", [False, True])
def test_the_original_of_2024(device, separate_sh):
    compat.install()
    try:
        from fused_ssim import fused_ssim
    except:  # noqa: E722
        pytest.fail("a program would go without fused_ssim")
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
    try:
        from diff_gaussian_rasterization import SparseGaussianAdam
    except:  # noqa: E722
        pytest.fail("a program would go without SparseGaussianAdam")
    try:
        from diff_gaussian_rasterization._C import fusedssim, fusedssim_backward
        assert callable(fusedssim) and callable(fusedssim_backward)
    except ImportError:
        pytest.fail("a program would go without fusedssim")

    model, camera = Model(device), Camera(device)
    optimizer = SparseGaussianAdam(model.groups(), lr=0.0, eps=1e-15)
    exposure = torch.eye(3, 4, device=device)[None].repeat(2, 1, 1).requires_grad_()
    exposure_optimizer = torch.optim.Adam([exposure])
    before, tmp_radii = model.xyz.detach().clone(), None
    for _ in range(2):
        points = screenspace_points(model.xyz)
        rasterizer = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
            **common_settings(camera, device), debug=False, antialiasing=False))
        scene = dict(means3D=model.xyz, means2D=points, colors_precomp=None,
                     opacities=model.opacity, scales=model.scaling, rotations=model.rotation,
                     cov3D_precomp=None)
        if separate_sh:
            image, radii, depth_image = rasterizer(dc=model.dc, shs=model.rest, **scene)
        else:
            image, radii, depth_image = rasterizer(shs=model.features, **scene)
        image = torch.matmul(image.permute(1, 2, 0), exposure[0][:3, :3]).permute(
            2, 0, 1) + exposure[0][:3, 3, None, None]
        image = image.clamp(0, 1)
        visibility_filter = (radii > 0).nonzero()
        assert visibility_filter.ndim == 2 and visibility_filter.dtype == torch.int64

        truth = torch.full_like(image, 0.4)
        ssim_value = fused_ssim(image.unsqueeze(0), truth.unsqueeze(0))
        loss = 0.8 * (image - truth).abs().mean() + 0.2 * (1.0 - ssim_value)
        mono_invdepth, depth_mask = (torch.full_like(depth_image, value) for value in (0.3, 1.0))
        loss += 0.1 * torch.abs((depth_image - mono_invdepth) * depth_mask).mean()
        loss.backward()
        with torch.no_grad():
            model.max_radii2D[visibility_filter] = torch.max(
                model.max_radii2D[visibility_filter], radii[visibility_filter])
            model.add_densification_stats(points, visibility_filter)
            tmp_radii = torch.cat((radii, radii[:2]))[torch.arange(P + 2, device=device) > 1]
            exposure_optimizer.step()
            exposure_optimizer.zero_grad(set_to_none=True)
            visible = radii > 0
            optimizer.step(visible, radii.shape[0])
            optimizer.zero_grad(set_to_none=True)
    assert tmp_radii.shape == (P,) and model.max_radii2D.max() >= 3 and model.accum.sum() > 0
    moved = (model.xyz.detach() != before).any(dim=1)
    assert torch.equal(moved, visible) and model.xyz.grad is None


def test_taming(device):
    compat.install()
    from diff_gaussian_rasterization import (
        GaussianRasterizationSettings,
        GaussianRasterizer,
        SparseGaussianAdam,
    )
    from fused_ssim import fused_ssim as fast_ssim

    model, camera = Model(device), Camera(device)
    groups = model.groups()
    both = SparseGaussianAdam(groups[:1] + groups[1:3], lr=0.0, eps=1e-15)
    split = torch.optim.Adam(groups[3:], lr=0.0), torch.optim.Adam(groups[1:3], lr=0.0)
    assert len(both.param_groups) == 3 and len(split) == 2

    def draw(pixel_weights):
        settings = GaussianRasterizationSettings(**common_settings(camera, device), debug=False,
                                                 pixel_weights=pixel_weights)
        return GaussianRasterizer(raster_settings=settings)(
            means3D=model.xyz, means2D=screenspace_points(model.xyz), dc=model.dc, shs=model.rest,
            colors_precomp=None, opacities=model.opacity, scales=model.scaling,
            rotations=model.rotation, cov3D_precomp=None)

    image, radii, *rest = draw(None)
    assert len(rest) == 11
    loss = 1.0 - fast_ssim(image.unsqueeze(0), torch.zeros_like(image).unsqueeze(0))
    loss.backward()
    both.step(radii > 0, radii.shape[0])

    (image, radii, counts, lists, listsRender, listsDistance, centers, depths, my_radii,
     accum_weights, accum_count, accum_blend, accum_dist) = draw(
         torch.rand(HEIGHT, WIDTH, device=device))
    used = accum_count > 0
    assert not accum_count.isnan().any() and used.any() and not used[radii == 0].any()
    accum_dist[used] = accum_dist[used] / accum_count[used]
    assert (depths[radii > 0] > 0.2).all() and torch.equal(my_radii, radii)
    assert accum_blend[used].min() > 0 and accum_weights[used].min() > 0
    assert centers.shape == (P, 2) and counts.shape == (HEIGHT, WIDTH)
    assert lists.numel() == listsRender.numel() == listsDistance.numel() == 0
    evaluated = fast_ssim(image[None].detach(), torch.zeros_like(image)[None]).mean().double()
    assert evaluated.dtype == torch.float64 and evaluated.ndim == 0


def test_taming_rasterizer(device):
    compat.install("taming-rasterizer")
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
    from diff_gaussian_rasterization._C import fusedssim, fusedssim_backward

    model, camera = Model(device), Camera(device)
    image, radii = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
        **common_settings(camera, device), debug=False))(
            means3D=model.xyz, means2D=screenspace_points(model.xyz), dc=model.dc, shs=model.rest,
            colors_precomp=None, opacities=model.opacity, scales=model.scaling,
            rotations=model.rotation, cov3D_precomp=None)
    target = torch.full_like(image, 0.5)
    similarity = fusedssim(0.01**2, 0.03**2, image.detach(), target)
    gradient = fusedssim_backward(0.01**2, 0.03**2, image.detach(), target,
                                  torch.ones_like(similarity))
    assert similarity.shape == gradient.shape == image.shape and radii.shape == (P,)
    image.backward(gradient)
    assert model.dc.grad.abs().sum() > 0


def test_monogs(device):
    compat.install()
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer

    model, camera = Model(device), Camera(device)
    cam_rot_delta, cam_trans_delta = (
        torch.nn.Parameter(torch.zeros(3, requires_grad=True, device=device)) for _ in range(2))
    rasterizer = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
        **common_settings(camera, device), projmatrix_raw=camera.raw, debug=False))
    rendered_image, radii, depth, opacity, n_touched = rasterizer(
        means3D=model.xyz, means2D=screenspace_points(model.xyz), shs=model.features,
        colors_precomp=None, opacities=model.opacity, scales=model.scaling,
        rotations=model.rotation, cov3D_precomp=None, theta=cam_rot_delta, rho=cam_trans_delta)
    mask = (opacity > 0.5).view(*depth.shape)
    loss = (rendered_image * mask).abs().mean() + (depth * mask).abs().mean()
    loss.backward()
    for delta in (cam_rot_delta, cam_trans_delta):
        assert delta.grad.shape == (3,) and delta.grad.abs().sum() > 0
    assert n_touched.dtype == torch.int32 and not (n_touched[radii == 0] > 0).any()
    assert (n_touched > 0).long().shape == (P,)


def test_splatam(device):
    compat.install()
    from diff_gaussian_rasterization import GaussianRasterizationSettings as Camera_
    from diff_gaussian_rasterization import GaussianRasterizer as Renderer

    model, camera = Model(device), Camera(device)
    w2c = camera.pose.unsqueeze(0).transpose(1, 2)
    opengl_proj = camera.lens.unsqueeze(0).transpose(1, 2)
    fields = common_settings(camera, device)
    fields.update(viewmatrix=w2c, projmatrix=w2c.bmm(opengl_proj), sh_degree=0,
                  campos=torch.inverse(camera.pose)[:3, 3])
    cam = Camera_(**fields)
    rendervar = {
        "means3D": model.xyz, "colors_precomp": torch.rand(P, 3, device=device),
        "rotations": model.rotation, "opacities": model.opacity,
        "scales": torch.tile(model.scaling[:, :1], (1, 3)),
        "means2D": torch.zeros_like(model.xyz, requires_grad=True, device=device) + 0}
    rendervar["means2D"].retain_grad()
    im, radius, _, = Renderer(raster_settings=cam)(**rendervar)
    im.sum().backward()
    seen = radius > 0
    assert seen.any() and rendervar["means2D"].grad[seen, :2].abs().sum() > 0


def test_gsplat_calls_the_original(device):
    """Its wrapper loops over cameras and channels in threes, by contract 2023."""
    compat.install()
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer

    model, camera = Model(device), Camera(device)
    colors = torch.rand(P, 5, device=device)
    parts = []
    for start in range(0, colors.shape[-1], 3):
        chunk = colors[..., start:start + 3]
        padding = 3 - chunk.shape[-1]
        if padding:
            chunk = torch.cat([chunk, torch.zeros(P, padding, device=device)], dim=-1)
        means2D = torch.zeros_like(model.xyz, requires_grad=True, device=device)
        rasterizer = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
            **{**common_settings(camera, device), "sh_degree": 0}, debug=False))
        image, radii = rasterizer(means3D=model.xyz, means2D=means2D, shs=None,
                                  colors_precomp=chunk, opacities=model.opacity,
                                  scales=model.scaling, rotations=model.rotation,
                                  cov3D_precomp=None)
        parts.append(image[:3 - padding] if padding else image)
    drawn = torch.cat(parts, dim=0).permute(1, 2, 0)
    assert drawn.shape == (HEIGHT, WIDTH, 5) and (drawn.amax(dim=(0, 1)) > 0).all()


def test_the_original_on_gsplat(device):
    """A port of the original's renderer: the same image but for the numeric conventions."""
    from gsplat_c.torch import rasterization

    compat.install()
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer

    model, camera = Model(device), Camera(device)
    focal = WIDTH / (2 * TANFOV[0]), HEIGHT / (2 * TANFOV[1])
    K = torch.tensor([[focal[0], 0, WIDTH / 2.0], [0, focal[1], HEIGHT / 2.0], [0, 0, 1]],
                     device=device)
    render_colors, render_alphas, info = rasterization(
        means=model.xyz, quats=model.rotation, scales=model.scaling,
        opacities=model.opacity.squeeze(-1), colors=model.features, viewmats=camera.view.T[None],
        Ks=K[None], backgrounds=torch.zeros(1, 3, device=device), width=WIDTH, height=HEIGHT,
        packed=False, sh_degree=1)
    rendered_image = render_colors[0].permute(2, 0, 1)
    info["means2d"].retain_grad()
    rendered_image.sum().backward()
    grads = info["means2d"].grad.clone()[0]
    grads[:, 0] *= WIDTH * 0.5
    grads[:, 1] *= HEIGHT * 0.5

    points = screenspace_points(model.xyz)
    image, radii = GaussianRasterizer(raster_settings=GaussianRasterizationSettings(
        **common_settings(camera, device), debug=False))(
            means3D=model.xyz, means2D=points, shs=model.features, colors_precomp=None,
            opacities=model.opacity, scales=model.scaling, rotations=model.rotation,
            cov3D_precomp=None)
    image.sum().backward()
    assert (image - rendered_image).abs().mean() < 2e-3
    both = (radii > 0) & (info["radii"][0] > 0).all(dim=-1)
    assert both.sum() > P / 2
    error = (grads[both] - points.grad[both, :2]).norm() / points.grad[both, :2].norm()
    assert error < 0.05, error
    assert render_alphas.shape == (1, HEIGHT, WIDTH, 1)
