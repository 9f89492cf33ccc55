"""Frames beyond 2^31 and 2^32 pairs, more than 65,536 bins, 50 million Gaussians."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import relative
from scenes import camera, gaussians


def crowd(count, width=3840, height=2160):
    """Equal splats one behind the other, so wide that each reaches every bin."""
    ones = torch.ones(count, device="cuda")
    depth = torch.linspace(5, 6, count, device="cuda")
    return {"means": torch.stack([0 * ones, 0 * ones, depth], 1),
            "scales": 40 * torch.ones(count, 3, device="cuda"),
            "rotations": torch.tensor([1.0, 0, 0, 0], device="cuda").expand(count, 4).contiguous(),
            "opacities": 0.98 * ones,
            "colors": torch.tensor([1.0, 0.5, 0.25], device="cuda").expand(count, 3).contiguous(),
            "view": np.eye(4, dtype=np.float32),
            "intrinsics": np.float32([2000, 2000, width / 2, height / 2]),
            "width": width, "height": height}


@pytest.mark.parametrize("count", [132_561, 265_122])
def test_pairs_beyond_32_bits(count):
    args = crowd(count)
    few = {k: v[:50] if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    expected = gsplat_c.rasterize(**few).color
    out, saved = gsplat_c.rasterize_forward(max_intersections_bytes=1 << 30, **args)
    assert saved.pairs == count * 120 * 135
    assert torch.equal(out.color, expected)


def test_more_than_65536_bins():
    args = {**gaussians(2000, 3), **camera(8192, 8192),
            "colors": np.random.default_rng(1).random((2000, 3)).astype(np.float32)}
    cuda = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v
            for k, v in args.items()}
    assert relative(gsplat_c.rasterize(**cuda).color, gsplat_c.rasterize(**args).color) < 2e-5


def test_fifty_million_gaussians_under_eight_gigabytes():
    count = 50_000_000
    generator = torch.Generator(device="cuda").manual_seed(1)
    scene = {"means": torch.randn(count, 3, device="cuda", generator=generator) * 3,
             "scales": torch.rand(count, 3, device="cuda", generator=generator) * 0.004 + 0.001,
             "rotations": torch.randn(count, 4, device="cuda", generator=generator),
             "opacities": torch.rand(count, device="cuda", generator=generator),
             "colors": torch.rand(count, 3, device="cuda", generator=generator)}
    view = dict(camera(1920, 1080))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    color = gsplat_c.rasterize_forward(max_intersections_bytes=1 << 30, **scene, **view)[0].color
    peak = torch.cuda.max_memory_allocated() - before
    print(f"50 M Gaussians: {peak / 1e9:.2f} GB beside the inputs")
    assert peak < 8e9
    host = {k: v.cpu().numpy() for k, v in scene.items()}
    assert relative(color, gsplat_c.rasterize(**host, **view).color) < 1e-4
