"""What loading the library and opening a GPU costs, in a fresh process; and what a process
needs that has neither torch nor a CUDA context."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gsplat_c
from conftest import note
from gsplat_c import _lib

CHILD = r"""
import ctypes, json, os, sys, time
clock = time.perf_counter
times, last = {}, clock()
def lap(name):
    global last
    now = clock()
    times[name], last = 1e3 * (now - last), now
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
lap("cuInit")
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
lap("primary context")
library = ctypes.CDLL(os.environ["GSPLAT_C_LIBRARY"])
lap("load")
import gsplat_c
lap("import gsplat_c")
gsplat_c.limits("cuda:0")
lap("context_create")
from gsplat_c import _context
handle = _context._contexts.pop(((2, 0), None))
library.gsc_context_free(ctypes.c_void_p(handle))
lap("context_free")
gsplat_c.limits("cuda:0")
lap("context_create again")
current = ctypes.c_void_p(1)
assert cuda.cuCtxGetCurrent(ctypes.byref(current)) == 0
print(json.dumps({"times": times, "current": current.value,
                  "modules": [m for m in ("torch", "numpy", "cupy") if m in sys.modules]}))
"""


def test_loading_and_opening():
    package = str(Path(gsplat_c.__file__).parents[1])
    environment = {**os.environ, "GSPLAT_C_LIBRARY": _lib.path,
                   "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["current"] is None and found["modules"] == []
    note(", ".join(f"{name} {value:.1f} ms" for name, value in found["times"].items()))


def test_the_report_of_the_device():
    report = gsplat_c.device_report("cuda:0")
    assert gsplat_c.device_count() >= 1
    limits = gsplat_c.limits("cuda:0")
    assert limits["max_gaussians"] > 1 << 30 and limits["max_pixels"] > 1 << 30
    assert report
