"""gsplat's rasterization: recorded cases of gsplat itself, and its options."""

import numpy as np
import pytest

import golden

torch = pytest.importorskip("torch")

import gsplat_c  # noqa: E402
import gsplat_c.torch as gt  # noqa: E402
from test_backward import has_backward  # noqa: E402

pytestmark = pytest.mark.skipif(not has_backward(), reason="this library has no raster backward")

LEAVES = ("means", "quats", "scales", "opacities", "colors", "viewmats")
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def case(name, device="cpu", requires_grad=True):
    """(keyword arguments of rasterization, recorded arrays)"""
    manifest, arrays = golden.load(name)
    arrays = {key: torch.from_numpy(value).to(device) for key, value in arrays.items()}
    args = {key: arrays[f"in_{key}"].clone().requires_grad_(requires_grad) for key in LEAVES}
    args["Ks"], args["backgrounds"] = arrays["in_Ks"], arrays.get("in_backgrounds")
    for key in ("width", "height", "near_plane", "far_plane", "radius_clip", "eps2d", "sh_degree",
                "render_mode", "rasterize_mode"):
        args[key] = manifest[key]
    return args, arrays


def scene(device="cpu", **changes):
    """120 Gaussians before two cameras, colours as they are."""
    args, _ = case("gsplat_tiny3_classic_RGB_D_3ch", device, False)
    random = np.random.default_rng(0)

    def uniform(low, high, *shape):
        return torch.from_numpy(random.uniform(low, high, shape).astype(np.float32)).to(device)

    view = torch.eye(4, device=device).repeat(2, 1, 1)
    view[:, 2, 3] = 3
    view[1, 0, 3] = 0.3
    args.update(means=uniform(-1, 1, 120, 3), quats=uniform(-1, 1, 120, 4),
                scales=uniform(0.02, 0.2, 120, 3), opacities=uniform(0.1, 1, 120),
                colors=uniform(0, 1, 120, 3), sh_degree=None, viewmats=view, width=40, height=28,
                Ks=torch.tensor([[40.0, 0, 20], [0, 42, 14], [0, 0, 1]],
                                device=device).repeat(2, 1, 1), render_mode="RGB")
    args["means"][0, 2] = -9  # behind both cameras
    return {**args, **changes}


def leaves_of(args):
    return {**args, **{name: args[name].clone().requires_grad_() for name in LEAVES}}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", golden.names("gsplat_"))
def test_recorded_cases(name, packed, device):
    args, recorded = case(name, device)
    colors, alphas, meta = gt.rasterization(**args, packed=packed, absgrad=True)
    # The antialiasing factor of needles is a difference that the original loses to float32.
    allowed = 1e-3 if "needles_antialiased" in name else 1e-4
    torch.testing.assert_close(colors, recorded["out_render_colors"], atol=allowed, rtol=allowed)
    torch.testing.assert_close(alphas, recorded["out_render_alphas"], atol=allowed, rtol=allowed)
    visible = (recorded["out_radii"] > 0).all(-1)
    for key in ("radii", "means2d", "depths", "conics"):
        expected, found = recorded[f"out_{key}"][visible], meta[key]
        torch.testing.assert_close(found if packed else found[visible], expected,
                                   atol=1e-3, rtol=1e-3)
    meta["means2d"].retain_grad()
    torch.autograd.backward([colors, alphas], [recorded["in_grad_render_colors"],
                                               recorded["in_grad_render_alphas"]])
    for key in LEAVES:
        expected = recorded[f"grad_{key}"]
        assert (args[key].grad - expected).norm() <= 1e-3 * expected.norm(), key
    grad, absgrad = meta["means2d"].grad, meta["means2d"].absgrad
    assert grad.shape == absgrad.shape == meta["means2d"].shape
    assert (absgrad >= grad.abs() * (1 - 1e-4) - 1e-6).all() and absgrad.sum() > 0


def test_all_kinds_are_recorded():
    assert len(golden.names("gsplat_")) >= 3


def test_packed_and_dense_tell_the_same():
    results = []
    for packed in (True, False):
        args = leaves_of(scene())
        colors, alphas, meta = gt.rasterization(**args, packed=packed)
        meta["means2d"].retain_grad()
        (colors.square().sum() + alphas.sum()).backward()
        results.append((colors, alphas, args["means"].grad, meta))
    for listed, dense in zip(results[0][:3], results[1][:3]):
        assert torch.equal(listed, dense)
    listed, dense = results[0][3], results[1][3]
    assert set(listed) == set(dense)
    assert dense["gaussian_ids"] is None and 0 not in listed["gaussian_ids"]
    rows = listed["camera_ids"], listed["gaussian_ids"]
    assert len(rows[0]) < 240 and not listed["batch_ids"].any()
    for key in ("radii", "means2d", "depths", "conics", "opacities"):
        assert torch.equal(listed[key], dense[key][rows]), key
    assert torch.equal(listed["means2d"].grad, dense["means2d"].grad[rows])
    assert dense["radii"].dtype == torch.int32 and dense["radii"].shape == (2, 120, 2)
    # The same tiles, whose rows count all Gaussians or the listed ones.
    assert torch.equal(listed["isect_ids"], dense["isect_ids"])
    assert torch.equal(listed["isect_offsets"], dense["isect_offsets"])
    flat = (rows[0] * 120 + rows[1])[listed["flatten_ids"].long()]
    assert torch.equal(flat.int(), dense["flatten_ids"])


def test_tile_lists():
    _, _, meta = gt.rasterization(**scene(), packed=False, tile_size=8)
    assert (meta["tile_width"], meta["tile_height"], meta["tile_size"]) == (5, 4, 8)
    expected = []
    means2d, radii, depths = (meta[key].numpy() for key in ("means2d", "radii", "depths"))
    for camera in range(2):
        for y in range(4):
            for x in range(5):
                for n in np.argsort(depths[camera], kind="stable"):
                    (cx, cy), (rx, ry) = means2d[camera, n], radii[camera, n]
                    if rx and cx - rx < 8 * x + 8 and cx + rx > 8 * x and (
                            cy - ry < 8 * y + 8 and cy + ry > 8 * y):
                        expected.append((camera, 5 * y + x, 120 * camera + n))
    assert meta["flatten_ids"].tolist() == [n for _, _, n in expected]
    starts = [sum((c, t) < (camera, tile) for c, t, _ in expected)
              for camera in range(2) for tile in range(20)]
    assert meta["isect_offsets"].shape == (2, 4, 5)
    assert meta["isect_offsets"].flatten().tolist() == starts
    assert meta["tiles_per_gauss"].sum() == len(expected) == len(meta["isect_ids"])
    assert "isect_ids" in meta
    with pytest.raises(KeyError):
        meta["no such key"]


def test_render_modes():
    args = scene(backgrounds=torch.rand(2, 3))
    color, alpha, _ = gt.rasterization(**args)
    both, _, _ = gt.rasterization(**{**args, "render_mode": "RGB+D"})
    assert color.shape == (2, 28, 40, 3) and both.shape == (2, 28, 40, 4)
    assert torch.equal(both[..., :3], color)
    for colors in (args["colors"], None):
        depth, again, _ = gt.rasterization(**{**args, "render_mode": "D", "colors": colors})
        assert torch.equal(depth, both[..., 3:]) and torch.equal(again, alpha)
    expected, _, _ = gt.rasterization(**{**args, "render_mode": "ED"})
    torch.testing.assert_close(expected, depth / alpha.clamp(min=1e-10))
    mixed, _, _ = gt.rasterization(**{**args, "render_mode": "RGB+ED"})
    assert torch.equal(mixed, torch.cat([color, expected], -1))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("batch", [(2,), (2, 1)])
def test_batches(batch, packed):
    singles = [scene(means=scene()["means"] + 0.1 * i, backgrounds=torch.rand(2, 3))
               for i in range(2)]
    args = dict(singles[0])
    for name in ("means", "quats", "scales", "opacities", "colors", "viewmats", "Ks",
                 "backgrounds"):
        args[name] = torch.stack([single[name] for single in singles]).view(
            *batch, *singles[0][name].shape)
    args = leaves_of(args)
    colors, alphas, meta = gt.rasterization(**args, packed=packed, absgrad=True)
    assert colors.shape == (*batch, 2, 28, 40, 3) and alphas.shape == (*batch, 2, 28, 40, 1)
    assert (meta["n_batches"], meta["n_cameras"]) == (2, 2)
    meta["means2d"].retain_grad()
    colors.square().sum().backward()
    for i, single in enumerate(singles):
        single = leaves_of(single)
        expected, _, one = gt.rasterization(**single, packed=packed)
        one["means2d"].retain_grad()
        expected.square().sum().backward()
        assert torch.equal(colors.view(2, *expected.shape)[i], expected)
        for name in LEAVES:
            grad = args[name].grad
            assert torch.equal(grad.view(2, *single[name].shape)[i], single[name].grad), name
        rows = meta["batch_ids"] == i if packed else slice(None)
        grad = meta["means2d"].grad
        assert torch.equal(grad[rows] if packed else grad.view(2, 2, 120, 2)[i],
                           one["means2d"].grad)
    lead = () if packed else (*batch, 2)
    assert meta["tiles_per_gauss"].shape == (*lead, len(meta["batch_ids"]) if packed else 120)
    assert meta["isect_offsets"].shape == (*batch, 2, 2, 3)


def test_harmonics_of_a_batch():
    random = torch.Generator().manual_seed(0)
    sh = torch.randn(120, 16, 3, generator=random)
    single = scene(colors=sh, sh_degree=2)
    expected, _, _ = gt.rasterization(**single)
    args = {name: value[None] if isinstance(value, torch.Tensor) else value
            for name, value in single.items()}
    for colors in (sh, sh[None]):
        found, _, _ = gt.rasterization(**{**args, "colors": colors.requires_grad_()})
        assert torch.equal(found[0], expected)
        found.sum().backward()
    assert sh.grad[:, :9].any() and not sh.grad[:, 9:].any()


def test_colors_of_each_camera_and_covariances():
    args = scene()
    expected, _, _ = gt.rasterization(**args)
    found, _, _ = gt.rasterization(**{**args, "colors": args["colors"].repeat(2, 1, 1)})
    assert torch.equal(found, expected)
    w, x, y, z = torch.nn.functional.normalize(args["quats"], dim=-1).unbind(-1)
    rotation = torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1).view(-1, 3, 3)
    half = rotation * args["scales"][:, None]
    covars = (half @ half.transpose(1, 2)).requires_grad_()
    found, _, _ = gt.rasterization(**{**args, "quats": None, "scales": None, "covars": covars})
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    found.square().sum().backward()
    assert covars.grad.triu().any() and not covars.grad.tril(-1).any()


def test_no_gradient_needs_no_graph():
    colors, _, meta = gt.rasterization(**scene())
    assert not colors.requires_grad and not meta["means2d"].requires_grad
    with torch.no_grad():
        colors, _, _ = gt.rasterization(**leaves_of(scene()))
    assert not colors.requires_grad


def test_nothing_visible():
    args = scene()
    args["means"] = leaf = args["means"].clone()
    leaf[:, 2] = -9
    colors, alphas, meta = gt.rasterization(**{**args, "means": leaf.requires_grad_()})
    assert len(meta["gaussian_ids"]) == 0 == len(meta["isect_ids"])
    (colors.sum() + alphas.sum()).backward()
    assert not leaf.grad.any() and not colors.any()


@pytest.mark.parametrize("change", [
    {"sparse_grad": True}, {"distributed": True}, {"camera_model": "fisheye"}, {"with_ut": True},
    {"with_eval3d": True}, {"return_normals": True}, {"global_z_order": False},
    {"rays": torch.zeros(1)}, {"radial_coeffs": torch.zeros(2, 4)}, {"render_mode": "RGB-d"},
    {"extra_signals": torch.zeros(1)}, {"rolling_shutter": "TOP_TO_BOTTOM"},
    {"sh_degree": 0, "colors": torch.zeros(2, 120, 1, 3)},
    {"sh_degree": 0, "colors": torch.zeros(120, 1, 4)},
])
def test_what_is_not_there_says_so(change):
    with pytest.raises(NotImplementedError, match="rasterization: "):
        gt.rasterization(**{**scene(), **change})


def test_wrong_values():
    args = scene()
    for change, text in [
        ({"render_mode": "BGR"}, "render_mode is 'BGR'"),
        ({"rasterize_mode": "fast"}, "rasterize_mode is 'fast'"),
        ({"colors": None}, "colors is None"), ({"means": args["means"][0]}, "means is"),
        ({"means": args["means"][None]}, "expected the batch dimensions"),
        ({"scales": args["scales"][:5]}, "scales"), ({"width": 0}, "width"),
        ({"quats": args["quats"].double()}, "rasterization: quats is"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=text):
            gt.rasterization(**{**args, **change})
