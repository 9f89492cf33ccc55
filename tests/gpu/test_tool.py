"""The gsplat-c command on a CUDA device: the same pictures as on the CPU, and its table.

The command is the file that $GSPLAT_C_TOOL names, built with the CUDA Runtime; without
it these tests are skipped.
"""

import importlib.util
import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

TOOL = os.environ.get("GSPLAT_C_TOOL")
pytestmark = pytest.mark.skipif(not TOOL, reason="GSPLAT_C_TOOL does not name a gsplat-c")


@pytest.fixture(scope="module")
def files():
    """The small scenes and the PNG reader of the command's other tests."""
    path = Path(__file__).resolve().parents[1] / "helpers" / "scenes.py"
    spec = importlib.util.spec_from_file_location("command_scenes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(*arguments, code=0):
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True,
                            check=False, timeout=120)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def scene(files, tmp_path):
    """3000 Gaussians of all sizes in a cube, with colours of degree 1."""
    numbers = random.Random(5)
    rows = []
    for _ in range(3000):
        row = files.gaussian([numbers.uniform(-1, 1) for _ in range(3)],
                             [numbers.random() for _ in range(3)], numbers.uniform(0.1, 0.95),
                             0.02 * 8 ** numbers.random(),
                             [numbers.gauss(0, 1) for _ in range(4)])
        rows.append(row + [numbers.uniform(-0.2, 0.2) for _ in range(9)])
    fields = files.FIELDS + [f"f_rest_{i}" for i in range(9)]
    files.write_cameras(tmp_path / "c.json", files.camera("a", width=320, height=200, focal=220),
                        files.camera("b", (0.5, 0, -2), width=333, height=201, focal=220))
    return files.write_scene(tmp_path / "s.ply", rows, fields)


def pixels(files, path):
    picture = files.Png(path)
    kind = np.dtype(">u2") if picture.bits == 16 else np.uint8
    return np.stack([np.frombuffer(row, kind).astype(int) for row in picture.rows])


@pytest.mark.parametrize("options", [[], ["--compat"], ["--antialias", "--background=1,0.5,0"],
                                     ["--sh-degree=0", "--repeat=3"]], ids=" ".join)
def test_pictures_are_those_of_the_cpu(files, scene, tmp_path, options):
    for device in ("cpu", "cuda"):
        call("render", scene, "--cameras", tmp_path / "c.json", "--camera", "all", "--depth",
             "--device", device, "-o", tmp_path / device, *options)
    for name in ("a", "b"):
        cpu, cuda = (pixels(files, tmp_path / device / f"{name}.png") for device in ("cpu", "cuda"))
        assert cpu.max() > 128 and cpu.shape == cuda.shape
        different = np.abs(cpu - cuda) > 1
        assert different.sum() <= 5, different.sum()
        cpu, cuda = (pixels(files, tmp_path / device / f"{name}-depth.png")
                     for device in ("cpu", "cuda"))
        # Where alpha crosses a half by a rounding error, one of them has a surface.
        both = (cpu > 0) & (cuda > 0)
        assert both.any() and ((cpu > 0) != (cuda > 0)).sum() <= 5
        assert (np.abs(cpu - cuda)[both] > 20).sum() <= 5


def test_bench_table(scene, tmp_path):
    out = call("bench", scene, "--cameras", tmp_path / "c.json", "--device", "cuda:0",
               "--repeat", "3")
    lines = out.splitlines()
    assert lines[1].startswith("cuda:0  ") and len(lines[1]) > len("cuda:0  ")
    assert lines[2].split() == ["operation", "median", "ms", "min", "ms", "runs", "MB"]
    assert len(lines) == 3 + 10


def test_bench_json():
    report = json.loads(call("bench", "--gaussians", 5000, "--device", "cuda", "--size", "640x360",
                             "--repeat", 5, "--json"))
    assert report["device"]["device"] == "cuda:0"
    assert report["device"]["name"] == report["library"]["devices"][1]["name"]
    results = {row["operation"]: row for row in report["results"]}
    assert len(results) == 10
    for row in results.values():
        assert row["runs"] == 5, row
        assert 0 < row["min_ms"] <= row["median_ms"] < 1000, row
    pixels_bytes = 640 * 360 * 3 * 4
    assert results["forward"]["bytes"] > pixels_bytes
    assert results["training"]["bytes"] > results["forward"]["bytes"]
    assert results["image-loss"]["bytes"] >= pixels_bytes


def test_no_such_device(scene):
    error = call("render", scene, "--device", "cuda:99", code=1)
    assert "GSC_ERROR_NO_DEVICE: context_create: device is cuda:99" in error
