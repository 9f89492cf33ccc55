"""Streams: the caller's own one carries everything, and nothing else waits."""

import threading

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import to_cuda
from scenes import cases
from steps import Driver

CASES = dict(cases())


def scene(name="large"):
    return to_cuda(CASES[name][0])


@pytest.fixture(scope="module")
def big():
    return torch.empty(1 << 28, device="cuda")


def delay(big):
    """Half a millisecond and more of work on the current stream."""
    big.fill_(1.0)


def test_work_behind_a_slow_producer_on_a_non_blocking_stream_is_seen(big):
    args = scene()
    expected = gsplat_c.rasterize(**args).color
    grads_of = {k: args[k] for k in ("means", "scales", "opacities", "sh")}
    _, saved = gsplat_c.rasterize_forward(**args)
    given = torch.ones_like(expected)
    expected_grads = gsplat_c.rasterize_backward(saved, wrt=tuple(grads_of), grad_color=given,
                                                 **args)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        late = {k: torch.full_like(v, float("nan")) for k, v in grads_of.items()}
        late_given = torch.full_like(given, float("nan"))
        delay(big)
        for k, v in grads_of.items():
            late[k].copy_(v)
        out, saved = gsplat_c.rasterize_forward(**{**args, **late})
        delay(big)
        late_given.copy_(given)
        grads = gsplat_c.rasterize_backward(saved, wrt=tuple(grads_of), grad_color=late_given,
                                            **{**args, **late})
        torch.cuda.current_stream().synchronize()
        assert torch.equal(out.color, expected)
        for k in grads_of:
            a, b = getattr(grads, k), getattr(expected_grads, k)
            assert (a - b).norm() <= 1e-4 * b.norm()


def test_ops_behind_a_slow_producer_are_seen(big):
    x, y = (torch.rand(1, 3, 200, 300, device="cuda") for _ in range(2))
    points = torch.rand(5000, 3, device="cuda")
    loss, near = gsplat_c.image_loss(x, y).loss, gsplat_c.knn(points).indices
    visible = gsplat_c.mark_visible(means=points, view=torch.eye(4, device="cuda"))
    parameter = [torch.zeros(1000, 3, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        late_x, late_points = torch.full_like(x, 9.0), torch.full_like(points, 9.0)
        late = dict(zip(("parameter", "gradient", "moment1", "moment2"),
                        (torch.full_like(p, 9.0) for p in parameter)))
        delay(big)
        late_x.copy_(x)
        late_points.copy_(points)
        for value in late.values():
            value.zero_()
        late["gradient"].fill_(1.0)
        assert torch.equal(gsplat_c.image_loss(late_x, y).loss, loss)
        assert torch.equal(gsplat_c.knn(late_points).indices, near)
        assert torch.equal(gsplat_c.mark_visible(means=late_points,
                                                 view=torch.eye(4, device="cuda")), visible)
        gsplat_c.adam_step([{**late, "lr": 1.0, "step": 1}])
        assert torch.allclose(late["parameter"], -torch.ones_like(parameter[0]), atol=1e-6)


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_legacy_and_per_thread_streams_by_their_numbers(stream):
    args = scene("colors")
    expected = gsplat_c.rasterize(**args).color
    torch.cuda.synchronize()
    color = torch.full_like(expected, float("nan"))
    torch.cuda.synchronize()
    gsplat_c.rasterize(out={"color": color}, stream=stream, **args)
    torch.cuda.synchronize()
    assert torch.equal(color, expected)


def test_a_handle_of_the_driver_is_a_stream():
    args = scene("colors")
    expected = gsplat_c.rasterize(**args).color
    torch.cuda.synchronize()
    driver = Driver()
    handle = driver.stream()
    color = torch.full_like(expected, float("nan"))
    torch.cuda.synchronize()
    gsplat_c.rasterize(out={"color": color}, stream=handle, **args)
    torch.cuda.ExternalStream(handle).synchronize()
    assert torch.equal(color, expected)


def test_a_busy_other_stream_is_not_waited_for():
    """A call on one stream comes back while another still works for long."""
    points, args = torch.rand(2000, 3, device="cuda"), scene("colors")
    outs = {"mean2": gsplat_c.knn(points, outputs=("mean2",)).mean2}
    color = {"color": gsplat_c.rasterize(**args).color}
    torch.cuda.synchronize()
    busy, done = torch.cuda.Stream(), torch.cuda.Event()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(400_000_000)
        done.record()
    with torch.cuda.stream(torch.cuda.Stream()):
        gsplat_c.knn(points, outputs=(), out=outs)
        gsplat_c.rasterize(out=color, **args)
        torch.cuda.current_stream().synchronize()
    assert not done.query()
    torch.cuda.synchronize()


def test_two_streams_at_once_from_two_threads():
    names = ("large", "cameras", "channels8", "sh3")
    arguments = [scene(name) for name in names]
    expected = [gsplat_c.rasterize(**args).color for args in arguments]
    torch.cuda.synchronize()
    failures, barrier = [], threading.Barrier(len(names))

    def work(args, wanted):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                barrier.wait()
                for _ in range(25):
                    out, saved = gsplat_c.rasterize_forward(**args)
                    grads = gsplat_c.rasterize_backward(
                        saved, wrt=("means",), grad_color=torch.ones_like(out.color), **args)
                    torch.cuda.current_stream().synchronize()
                    assert torch.equal(out.color, wanted)
                    assert torch.isfinite(grads.means).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(arguments, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_many_threads_wait_at_once_with_more_calls_than_slots():
    """Each waiting call takes one of sixteen slots of pinned memory while it waits."""
    args = scene("size16x16")
    expected = gsplat_c.rasterize(**args).color.cpu().numpy()
    failures = []

    def work():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(10):
                    color = gsplat_c.rasterize(**args).color.cpu().numpy()
                    assert np.array_equal(color, expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
