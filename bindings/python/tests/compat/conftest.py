"""Every test starts and ends without drop-in modules; devices are all that are there.

The drop-ins are for torch: without it there is nothing to collect here.
"""

import importlib
import os
import sys
from types import SimpleNamespace

import pytest

import gsplat_c
from gsplat_c import compat

try:
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        gpu = torch.cuda.is_available() and gsplat_c.device_count("cuda") > 0
        metafunc.parametrize("device", ["cpu", "cuda"] if gpu else ["cpu"])


@pytest.fixture(autouse=True)
def no_modules(monkeypatch):
    monkeypatch.delenv("GSPLAT_C_COMPAT", raising=False)
    compat.uninstall()
    yield
    compat.uninstall()


@pytest.fixture
def use():
    """use(variant): installs it and returns its modules, as an import statement sees them."""

    def use(variant):
        compat.install(variant)
        return SimpleNamespace(
            dgr=importlib.import_module("diff_gaussian_rasterization"),
            raw=importlib.import_module("diff_gaussian_rasterization._C"),
            knn=importlib.import_module("simple_knn._C"),
            ssim=importlib.import_module("fused_ssim"),
            ssim_raw=importlib.import_module("fused_ssim_cuda"))

    return use
