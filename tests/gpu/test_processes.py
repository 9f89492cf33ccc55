"""The library as a guest: a host that forks after using a GPU, closes the library, or has two
copies of it, beside torch, whose CUDA library bundles CUB.  Each in a fresh process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gsplat_c
from gsplat_c import _lib

PACKAGE = Path(gsplat_c.__file__).parent
DEVICES = ["cpu", "cuda:0"]

SCENE = r"""
import ctypes, os, sys
import torch
device = sys.argv[1]
generator = torch.Generator().manual_seed(1)
def uniform(low, high, *shape):
    return (torch.rand(shape, generator=generator) * (high - low) + low).to(device)
def free_context(package):
    # Those of the device, that the package keeps for the life of the process.
    contexts, kind = package._context._contexts, 1 if device == "cpu" else 2
    for handle in {contexts.pop(key) for key in list(contexts) if key[0] == (kind, 0)}:
        ctypes.CDLL(package._lib.path).gsc_context_free(ctypes.c_void_p(handle))
n = 3000
scene = dict(
    means=uniform(-1, 1, n, 3) + torch.tensor([0, 0, 4.0], device=device),
    scales=uniform(0.02, 0.1, n, 3), rotations=uniform(-1, 1, n, 4),
    opacities=uniform(0.2, 0.9, n), colors=uniform(0, 1, n, 3), view=torch.eye(4),
    intrinsics=[200, 200, 128, 96], width=256, height=192)
"""

FORK = SCENE + r"""
import gsplat_c
expected = gsplat_c.rasterize(**scene).color.cpu()
on_cpu = {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in scene.items()}
picture = gsplat_c.rasterize(**on_cpu).color
child = os.fork()
if child == 0:
    def attempt():
        if device != "cpu":
            assert gsplat_c.device_count("cuda") == 0
            free_context(gsplat_c)
            try:
                gsplat_c.limits(device)
                return 1
            except gsplat_c.Error as error:
                assert "was forked" in str(error) and error.cuda == 3, error
        return 0 if torch.equal(gsplat_c.rasterize(**on_cpu).color, picture) else 2
    try:
        os._exit(attempt())
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.equal(gsplat_c.rasterize(**scene).color.cpu(), expected)
print("well")
"""

COPIES = SCENE + r"""
import gsplat_c as first
del os.environ["GSPLAT_C_LIBRARY"]
sys.path.insert(0, sys.argv[2])
import gsplat_c_second as second
assert second._lib.path.startswith(sys.argv[2]) and first._lib.path != second._lib.path
def work(package):
    torch.sort(torch.rand(100000, device=device))  # CUB's sort, between ours
    return package.rasterize(**scene).color, package.knn(scene["means"], k=4).distances2
expected = work(first)
for _ in range(3):
    for package in (second, first):
        for got, wanted in zip(work(package), expected):
            assert torch.equal(got, wanted)
free_context(first)
for got, wanted in zip(work(second), expected):
    assert torch.equal(got, wanted)
print("well")
"""

CLOSE = SCENE + r"""
import _ctypes
class Desc(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("abi_version", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("allocator", ctypes.c_void_p),
                ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p),
                ("log_level", ctypes.c_int32), ("cpu_threads", ctypes.c_int32)]
path = os.path.realpath(os.environ["GSPLAT_C_LIBRARY"])
def open_and_close():
    library = ctypes.CDLL(path)
    desc = Desc(struct_size=ctypes.sizeof(Desc), abi_version=1 << 16,
                device_type=1 if device == "cpu" else 2, cpu_threads=3)
    context = ctypes.c_void_p()
    library.gsc_last_error.restype = ctypes.c_char_p
    assert library.gsc_context_create(ctypes.byref(desc), ctypes.byref(context)) == 0, \
        library.gsc_last_error()
    library.gsc_context_free(context)
    _ctypes.dlclose(library._handle)
    assert path not in open("/proc/self/maps").read()
def threads():
    return len(os.listdir("/proc/self/task"))
open_and_close()
free, before = torch.cuda.mem_get_info()[0] if device != "cpu" else 0, threads()
for _ in range(5):
    open_and_close()
assert threads() == before
# What others do on the device moves this too.
assert device == "cpu" or free - torch.cuda.mem_get_info()[0] < 64 << 20
torch.sort(scene["opacities"])
print("well")
"""


def run(code, device, *arguments):
    environment = {**os.environ, "GSPLAT_C_LIBRARY": _lib.path,
                   "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent),
                                                  os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, device,
                           *arguments], env=environment, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0 and done.stdout == "well\n", done.stderr


@pytest.mark.parametrize("device", DEVICES)
def test_fork(device):
    run(FORK, device)


@pytest.mark.parametrize("device", DEVICES)
def test_two_copies_beside_torch(device, tmp_path):
    second = tmp_path / "gsplat_c_second"
    shutil.copytree(PACKAGE, second, ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    shutil.copy(os.path.realpath(_lib.path), second / _lib._FILE)
    run(COPIES, device, str(tmp_path))


@pytest.mark.parametrize("device", DEVICES)
def test_open_and_close(device):
    run(CLOSE, device)
