"""Gradients against finite differences in float64, by a library that computes in it."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("GSPLAT_C_BUILD", os.path.join(HERE, "..", "..", "..", "build"))
LIBRARY = os.path.join(BUILD, "libgsplat_c_f64.so")
CASES = ("geometry", "appearance", "antialias", "harmonics", "dc_and_rest", "covariances",
         "gsplat", "ssim", "ssim_map", "image_loss")

pytestmark = pytest.mark.skipif(
    not os.path.isfile(LIBRARY), reason=f"{LIBRARY} is not built (meson -Dtests=enabled)")


@pytest.fixture(scope="module")
def report():
    path = os.pathsep.join([os.path.dirname(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "gradcheck_cases.py")], text=True,
        env={**os.environ, "GSPLAT_C_LIBRARY": LIBRARY, "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return done.stdout


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(report, name):
    assert f"{name} passed" in report.splitlines(), report
