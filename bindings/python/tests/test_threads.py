"""Several threads, and a process that forks."""

import os
import threading

import numpy as np
import pytest

import gsplat_c
from scenes import cloud


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_draws_the_same():
    expected = gsplat_c.rasterize(**cloud(count=500)).color
    child = os.fork()
    if child == 0:
        same = np.array_equal(gsplat_c.rasterize(**cloud(count=500)).color, expected)
        os._exit(0 if same else 3)
    import time

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
