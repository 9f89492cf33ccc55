"""Several threads, and a process that forks."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gsplat_c
from scenes import cloud


def forks(test):
    """Marks a test that forks."""
    warning = "ignore:This process.*multi-threaded:DeprecationWarning"
    test = pytest.mark.filterwarnings(warning)(test)
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")(test)


def test_fresh_threads_draw_the_same_and_keep_their_own_errors():
    scenes = [cloud(seed=seed) for seed in range(8)]
    expected = [gsplat_c.rasterize(**scene).color for scene in scenes]
    failures, barrier = [], threading.Barrier(8)

    def work(index):
        try:
            barrier.wait()
            for _ in range(20):
                color = gsplat_c.rasterize(**scenes[index]).color
                np.testing.assert_array_equal(color, expected[index])
                wrong = {**scenes[index], "colors": np.zeros((index + 1, 3), np.float32)}
                with pytest.raises(ValueError, match=rf"colors.*\b{index + 1}, 3\b"):
                    gsplat_c.rasterize(**wrong)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


COLD = """
import sys, threading
import numpy as np
from scenes import cloud
sys.setswitchinterval(1e-6)
barrier, failures, results, contexts = threading.Barrier(24), [], [], []

def work(index):
    try:
        barrier.wait()
        import gsplat_c
        from gsplat_c import _context
        scene = cloud()
        if index % 2:
            scene["view"] = scene["view"].tolist()
        barrier.wait()
        contexts.append(_context.context((1, 0)))
        results.append(gsplat_c.rasterize(**scene).color)
        state = gsplat_c.rasterize_forward(**scene)[1]
        gsplat_c.rasterize_backward(state, wrt=("means",), grad_color=results[-1], **scene)
        if index % 3 == 0:
            gsplat_c.knn(scene["means"])
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work, args=(index,)) for index in range(24)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
assert all(np.array_equal(color, results[0]) for color in results)
assert len(results) == 24 and len(set(contexts)) == 1
print("all the same")
"""

COLD_DROP_IN = """
import sys, threading
import torch
import gsplat_c.compat
sys.setswitchinterval(1e-6)
barrier, failures, found = threading.Barrier(12), [], []

def work(index):
    try:
        barrier.wait()
        gsplat_c.compat.install("2023")
        import diff_gaussian_rasterization as module
        import diff_gaussian_rasterization._C as raw
        from simple_knn._C import distCUDA2
        distCUDA2(torch.rand(9, 3))
        found.append((module, module.GaussianRasterizer, module.GaussianRasterizationSettings,
                      raw.rasterize_gaussians))
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work, args=(index,)) for index in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
assert len(found) == 12 and len(set(found)) == 1, set(found)
print("all the same")
"""


@pytest.mark.parametrize("code", [COLD, COLD_DROP_IN], ids=["library", "drop-ins"])
def test_many_threads_from_a_cold_start(code):
    if code is COLD_DROP_IN:
        pytest.importorskip("torch")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=False, cwd=os.path.dirname(os.path.abspath(__file__)))
    assert result.stdout.strip() == "all the same", result.stderr


def check_child(child):
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


@forks
def test_a_forked_child_draws_the_same():
    expected = gsplat_c.rasterize(**cloud(count=500)).color
    child = os.fork()
    if child == 0:
        same = np.array_equal(gsplat_c.rasterize(**cloud(count=500)).color, expected)
        os._exit(0 if same else 3)
    check_child(child)


@forks
def test_a_fork_while_another_thread_makes_a_context(monkeypatch):
    monkeypatch.setattr(gsplat_c._context, "_contexts", {})
    held, release = threading.Event(), threading.Event()

    def hold():
        with gsplat_c._context._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if gsplat_c.limits("cpu")["max_channels"] == 512 else 3)
    release.set()
    thread.join()
    check_child(child)
