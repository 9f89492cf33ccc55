"""Which modules an import statement finds, and when installing is refused."""

import importlib
import importlib.util
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

from gsplat_c import compat

NAMES = ("diff_gaussian_rasterization", "diff_gaussian_rasterization._C", "simple_knn",
         "simple_knn._C", "fused_ssim", "fused_ssim_cuda")
SHIMS = Path(__file__).resolve().parents[2] / "shims"


def test_variant_names():
    assert compat.variants == ("auto", "2023", "2024-08", "2024", "2024-accel",
                               "taming-rasterizer", "taming", "w-depth", "w-pose", "depth-alpha",
                               "depth-constant", "depth-grad", "deformable", "pixelsplat", "mip")


def test_install():
    assert compat.install() == "auto"
    for name in NAMES:
        module = importlib.import_module(name)
        assert module is sys.modules[name] and module.__gsplat_c__
        assert importlib.util.find_spec(name).name == name
    from diff_gaussian_rasterization import _C, GaussianRasterizer
    from fused_ssim import fused_ssim
    from simple_knn._C import distCUDA2

    assert GaussianRasterizer and _C.mark_visible and fused_ssim and distCUDA2
    compat.uninstall()
    assert not any(name in sys.modules for name in NAMES)
    compat.uninstall()


def test_install_twice():
    compat.install("w-pose")
    first = {name: sys.modules[name] for name in NAMES}
    assert compat.install("w-pose") == compat.install() == "w-pose"
    assert all(sys.modules[name] is module for name, module in first.items())
    assert compat.install("2024") == "2024"
    import diff_gaussian_rasterization as dgr

    assert dgr is not first["diff_gaussian_rasterization"]
    assert "antialiasing" in dgr.GaussianRasterizationSettings._fields
    compat.install("w-pose")
    assert sys.modules["diff_gaussian_rasterization"] is first["diff_gaussian_rasterization"]


def test_wrong_names(monkeypatch):
    with pytest.raises(ValueError, match="variant is 'w_pose', expected one of auto, 2023"):
        compat.install("w_pose")
    monkeypatch.setenv("GSPLAT_C_COMPAT", "newest")
    with pytest.raises(ValueError, match="GSPLAT_C_COMPAT is 'newest', expected one of"):
        compat.install()
    assert not any(name in sys.modules for name in NAMES)
    assert compat.install("2023") == "2023"


def test_environment(monkeypatch):
    monkeypatch.setenv("GSPLAT_C_COMPAT", "depth-alpha")
    assert compat.install() == "depth-alpha"
    assert compat.install("2023") == "2023"  # what is written in the code counts more
    assert compat.install() == "depth-alpha"
    monkeypatch.setenv("GSPLAT_C_COMPAT", "")
    compat.uninstall()
    assert compat.install() == "auto"


@pytest.mark.parametrize("name", ["diff_gaussian_rasterization", "simple_knn._C", "fused_ssim",
                                  "fused_ssim_cuda", "simple_knn"])
def test_the_original_was_imported(monkeypatch, name):
    original = types.ModuleType(name)
    original.__file__ = "/somewhere/original.py"
    monkeypatch.setitem(sys.modules, name, original)
    with pytest.raises(ImportError, match=f"{name} is already imported from /somewhere"):
        compat.install()
    assert sys.modules[name] is original
    assert [other for other in NAMES if other in sys.modules] == [name]
    compat.uninstall()
    assert sys.modules[name] is original


def run(code, **environment):
    """Runs code with the modules of this checkout on the path, if it has them, else installed."""
    path = [str(folder) for folder in SHIMS.glob("*") if folder.is_dir()]
    path.append(str(Path(compat.__file__).parents[2]))
    return subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, timeout=120,
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(path)})


def test_modules_on_the_path():
    code = """
import warnings
warnings.simplefilter("error")
import torch
from diff_gaussian_rasterization import GaussianRasterizationSettings, _C
import diff_gaussian_rasterization as dgr, fused_ssim, fused_ssim_cuda
from simple_knn._C import distCUDA2
import gsplat_c.compat, simple_knn, copy, pickle
print(dgr.__file__, GaussianRasterizationSettings._fields[-1])
assert dgr.__gsplat_c__ and _C.__gsplat_c__ and fused_ssim.__gsplat_c__
assert hasattr(_C, "fusedssim") and fused_ssim_cuda.fusedssim
settings = GaussianRasterizationSettings(*range(13))
assert pickle.loads(pickle.dumps(settings)) == settings == copy.deepcopy(settings)
print(distCUDA2(torch.eye(4, 3)).shape)
assert gsplat_c.compat.install() == "2024-accel"
import diff_gaussian_rasterization as again
assert again.GaussianRasterizer is dgr.GaussianRasterizer
"""
    done = run(code, GSPLAT_C_COMPAT="2024-accel")
    assert done.returncode == 0, done.stderr
    assert "diff_gaussian_rasterization/__init__.py antialiasing" in done.stdout
    assert "torch.Size([4])" in done.stdout


def test_wrong_environment_on_the_path():
    done = run("import diff_gaussian_rasterization", GSPLAT_C_COMPAT="2025")
    assert done.returncode and "GSPLAT_C_COMPAT is '2025'" in done.stderr


def test_torch_is_not_imported_before_it_is_needed():
    code = "import sys, gsplat_c, gsplat_c.compat; print('torch' in sys.modules)"
    assert run(code).stdout.strip() == "False"


def test_rivals_are_named(monkeypatch, tmp_path):
    for folder, file, text in (
            ("fused_ssim-1.0.dist-info", "RECORD", "fused_ssim/__init__.py,sha256=x,1\n"),
            ("gsplat_c_fused_ssim-0.9.dist-info", "RECORD", "fused_ssim/__init__.py,,\n"),
            ("fused.ssim_old-1.egg-info", "top_level.txt", "fused_ssim\n"),
            ("fused_ssim_plots-1.0.dist-info", "RECORD", "plots/fused_ssim.py,,\n"),
            ("simple_knn-1.0.dist-info", "RECORD", "simple_knn/__init__.py,,\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "absent"), ""])
    monkeypatch.setitem(sys.modules, "fused_ssim", types.ModuleType("fused_ssim"))
    with pytest.warns(RuntimeWarning, match="distributions: fused-ssim, fused-ssim-old, "
                                            "gsplat-c-fused-ssim; uninstall"):
        compat.provide("fused_ssim")
    monkeypatch.setitem(sys.modules, "simple_knn._C", types.ModuleType("simple_knn._C"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.provide("simple_knn._C")
    assert sys.modules["simple_knn._C"].distCUDA2(torch.eye(4, 3)).shape == (4,)


def test_other_distributions_are_not_read(monkeypatch):
    """Which would delay every start of a program."""
    import importlib.metadata

    def fail(*args):
        raise AssertionError("reads the metadata of a distribution")

    for name in ("packages_distributions", "distributions"):
        monkeypatch.setattr(importlib.metadata, name, fail, raising=False)
    monkeypatch.setattr(importlib.metadata.PathDistribution, "read_text", fail)
    monkeypatch.setitem(sys.modules, "fused_ssim", types.ModuleType("fused_ssim"))
    compat.provide("fused_ssim")
