"""Nearest neighbours on CUDA against the CPU, on clouds that break others."""

import numpy as np
import pytest
import torch

import gsplat_c
from scenes import some

LARGEST = np.finfo(np.float32).max


def cloud(name, count, seed=1):
    rng = np.random.default_rng(seed)
    u = rng.random((count, 3))
    if name == "line":
        u = u[:, :1] * (1, 2, -1)
    if name == "axis":
        u[:, 1:] = 0
    if name == "plane":
        u[:, 2] = 0
    if name == "one_place":
        u[:] = (0.1, 0.2, 0.3)
    if name == "seven_places":
        u = np.floor(7 * u) * (1, 0, 0)
    if name == "thousand_places":
        u = np.floor(1000 * u) * (1, 0, 0)
    if name == "lattice":
        u = np.floor(8 * u) - 4
    if name == "two_clusters":
        u[:, 0] += 1e6 * (rng.random(count) < 0.5)
    if name == "two_dense_clusters":
        dense = rng.random((count, 1)) < 0.5
        u = np.where(dense, 1e-4 * (2 * u - 1), 1e9 * (1 + 0.001 * u))
    if name == "far_away":
        u += 1e5
    if name == "mostly_finite":
        chance = rng.random(count)
        u[chance < 0.1, 0] = np.nan
        u[chance > 0.9, 2] = np.inf
        u[chance > 0.95, 2] = -np.inf
    if name == "never_finite":
        u[:, 1] = np.nan
    if name == "huge":
        u = LARGEST * (2 * u - 1)
    if name == "tiny":
        u = 1e-30 * u
    if name == "outlier":
        u = np.exp(40 * u - 20)
    if name == "garden":
        part = rng.random((count, 1))
        u = rng.normal(size=(count, 3))
        far = u / np.linalg.norm(u, axis=1, keepdims=True) * (30 + 200 * rng.random((count, 1)))
        u = np.where(part < 0.15, u * (10, 0.1, 10), u)
        u = np.where(part > 0.95, far, u)
    if name == "crowd":  # all points but one in few cells of the curve
        u[-1:] = 1e9
    if name == "small_crowds":
        u[-1:] = 1e6
        u[:count // 3] = np.floor(4 * u[:count // 3]) + 1e-6 * u[:count // 3, ::-1]
    if name == "crowded_places":
        u[:count // 3] = np.floor(7 * u[:count // 3])
        u[-1:] = 1e7
    if name == "crowds_in_crowds":
        u = (2 * u - 1) * 10.0 ** rng.choice((-14, -7, 0, 7, 14), (count, 1))
    if name == "crowded_corners":  # the last cell of the curve is one of them
        u = np.sign(rng.random((count, 3)) - 0.5) * (1 - 3e-6 * u)
    if name == "crowded_line":
        u = u[:, :1] * (1, -1, 0)
        u[-1:] = 1e12
    return u.astype(np.float32)


CLOUDS = ("cube", "line", "axis", "plane", "one_place", "seven_places", "lattice",
          "two_clusters", "two_dense_clusters", "far_away", "mostly_finite", "never_finite",
          "huge", "tiny", "outlier")
COUNTS = (0, 1, 2, 4, 31, 32, 33, 1023, 1025, 2049)
OUTPUTS = ("indices", "distances2", "mean2")


def distances2(points, queries, indices):
    with np.errstate(all="ignore"):
        difference = points[np.maximum(indices, 0)].astype(np.float64) - queries[:, None]
        return np.where(indices < 0, np.inf, (difference ** 2).sum(-1))


def check(points, k, queries=None, index_dtype="int64"):
    """Distances are those of the CPU to rounding, and where an index differs the two are
    as near to each other as rounding makes them."""
    cpu = gsplat_c.knn(points, k, queries, outputs=OUTPUTS, index_dtype=index_dtype)
    gpu = gsplat_c.knn(torch.from_numpy(points).cuda(), k,
                       None if queries is None else torch.from_numpy(queries).cuda(),
                       outputs=OUTPUTS, index_dtype=index_dtype)
    indices, d2, mean2 = (getattr(gpu, name).cpu().numpy() for name in OUTPUTS)
    assert indices.dtype == cpu.indices.dtype
    assert np.allclose(d2, cpu.distances2, rtol=1e-6, atol=1e-44)
    assert np.allclose(mean2, cpu.mean2, rtol=1e-6, atol=1e-44, equal_nan=True)
    different = indices != cpu.indices
    assert not (different & (d2 == 0)).any()
    assert not (different & ((indices < 0) | (cpu.indices < 0))).any()
    if different.any():
        queries = points if queries is None else queries
        a, b = (distances2(points, queries, i) for i in (indices, cpu.indices))
        assert np.allclose(a[different], b[different], rtol=1e-6)
        assert different.mean() < 1e-3
    ordered = np.sort(indices, axis=1)
    assert not ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", CLOUDS)
def test_points_among_themselves(name, count):
    for i, k in enumerate((1, 3, 8, 9, 64)):
        check(cloud(name, count), k, index_dtype=("int32", "int64")[i % 2])


@pytest.mark.parametrize("rows", [0, 1, 17, 300])
@pytest.mark.parametrize("name", CLOUDS)
def test_queries_apart(name, rows):
    other = CLOUDS[(CLOUDS.index(name) + rows) % len(CLOUDS)]
    for count, k in ((0, 3), (1, 2), (5, 8), (1025, 3), (2049, 5), (1023, 20)):
        check(cloud(name, count), k, cloud(other, rows, seed=2))


@pytest.mark.parametrize("k", [2, 4, 7, 32, 100, 255, 256])
def test_every_k(k):
    check(cloud("cube", 700), k)
    check(cloud("lattice", 700), k, cloud("cube", 100, seed=3))


@pytest.mark.parametrize("name", ["cube", "two_dense_clusters", "outlier", "mostly_finite",
                                  "lattice", "thousand_places"])
def test_large_clouds(name):
    check(cloud(name, some(50000)), 3)
    check(cloud(name, some(50000)), 40, cloud(name, some(7001), seed=4))


@pytest.mark.parametrize("name", ["crowd", "small_crowds", "crowded_places", "crowds_in_crowds",
                                  "crowded_corners", "crowded_line", "garden"])
def test_crowds(name):
    """Points that share a cell of the curve, fewer and more than a block sorts at once."""
    for count in (4096, 5000, some(40000)):
        check(cloud(name, count), 3)
    many = some(20000)
    check(cloud(name, many), 20)
    check(cloud("garden", many), 3, cloud(name, many, seed=5))
    check(cloud(name, many), 8, cloud("garden", some(6000), seed=6))


def seconds(points, k=3):
    points = torch.from_numpy(points).cuda()
    gsplat_c.knn(points[:5000], k)
    times = []
    for _ in range(3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        gsplat_c.knn(points, k, outputs=("mean2",))
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return min(times)


@pytest.mark.parametrize("name", ["one_place", "seven_places", "line", "two_dense_clusters",
                                  "outlier", "garden", "crowd", "small_crowds",
                                  "crowded_places", "crowds_in_crowds", "crowded_line"])
def test_no_cloud_takes_quadratic_time(name):
    """A quarter of a million points that all meet each other take seconds."""
    assert seconds(cloud(name, 250000)) < 20 * seconds(cloud("cube", 250000)) + 0.001


def test_outputs_alone():
    points = cloud("cube", 500)
    everything = gsplat_c.knn(points, 3, outputs=OUTPUTS)
    for name in OUTPUTS:
        alone = gsplat_c.knn(torch.from_numpy(points).cuda(), 3, outputs=(name,))
        assert np.allclose(getattr(alone, name).cpu().numpy(), getattr(everything, name),
                           rtol=1e-6)


@pytest.mark.parametrize("k", [3, 40])
def test_searches_are_reproducible(k):
    points = torch.from_numpy(cloud("outlier", 20000)).cuda()
    first = gsplat_c.knn(points, k, outputs=OUTPUTS)
    for _ in range(3):
        again = gsplat_c.knn(points, k, outputs=OUTPUTS)
        for name in OUTPUTS:
            assert np.array_equal(getattr(first, name).cpu().numpy(),
                                  getattr(again, name).cpu().numpy())
