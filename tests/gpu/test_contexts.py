"""CUDA contexts: every call leaves the thread's current context as it found it, whatever
that is: the primary one, none, or one of somebody else."""

import ctypes
import threading

import pytest
import torch

import gsplat_c
from conftest import to_cuda
from scenes import cases
from steps import Driver, Steps, message

CASES = dict(cases())


def memory(size):
    whole = torch.empty(size + 255, dtype=torch.uint8, device="cuda")
    start = -whole.data_ptr() % 256
    return whole[start:start + size]


class Calls:
    """Every operation, with all memory allocated before: torch is not called meanwhile."""

    def __init__(self, stream=0):
        self.args = args = to_cuda(CASES["colors"][0])
        out, saved = gsplat_c.rasterize_forward(outputs=("color", "alpha"), **args)
        self.expected = out.color.clone()
        self.color = {"color": out.color}
        self.steps = Steps(args, self.color, stream=stream)
        self.steps.sizes()
        self.state = memory(self.steps.info["state_bytes"])
        self.lists = memory(saved.intersections.numel())
        self.grads = {"grad_color": torch.ones_like(out.color),
                      "means": torch.empty_like(args["means"])}
        self.points = torch.rand(3000, 3, device="cuda")
        self.near = {"mean2": gsplat_c.knn(self.points, outputs=("mean2",)).mean2}
        self.x, self.y = (torch.rand(1, 3, 60, 80, device="cuda") for _ in range(2))
        self.loss = {"loss": torch.empty((), device="cuda"),
                     "grad_image": torch.empty_like(self.x)}
        self.mean = {"mean": torch.empty((), device="cuda")}
        self.one = torch.ones((), device="cuda")
        self.by_image = {"image": torch.empty_like(self.x)}
        self.group = {k: torch.rand(100, 3, device="cuda")
                      for k in ("parameter", "gradient", "moment1", "moment2")}
        self.visible = torch.empty(4000, dtype=torch.bool, device="cuda")
        self.short = memory(256)
        self.stream = stream
        torch.cuda.synchronize()

    def failing(self):
        assert self.steps.project(self.short) == "GSC_ERROR_BUFFER_TOO_SMALL"

    def each(self):
        """(name, call)"""
        s, stream = self.steps, self.stream
        yield "sizes", lambda: s.sizes()
        yield "project", lambda: s.project(self.state)
        yield "render", lambda: s.render(self.state, self.lists)
        yield "backward", lambda: s.backward(self.state, self.lists, self.grads)
        yield "forward", lambda: gsplat_c.rasterize(out=self.color, stream=stream, **self.args)
        yield "mark_visible", lambda: gsplat_c.mark_visible(
            means=self.args["means"], view=self.args["view"], out=self.visible, stream=stream)
        yield "knn", lambda: gsplat_c.knn(self.points, outputs=(), out=self.near, stream=stream)
        yield "ssim", lambda: gsplat_c.ssim(self.x, self.y, outputs=(), out=self.mean,
                                            stream=stream)
        yield "ssim_backward", lambda: gsplat_c.ssim_backward(
            self.x, self.y, grad_mean=self.one, wrt=(), out=self.by_image, stream=stream)
        yield "image_loss", lambda: gsplat_c.image_loss(self.x, self.y, outputs=(),
                                                        out=self.loss, stream=stream)
        yield "adam_step", lambda: gsplat_c.adam_step([{**self.group, "lr": 0.1}], stream=stream)
        yield "an error", self.failing
        yield "device_count", gsplat_c.device_count
        yield "device_report", lambda: gsplat_c.device_report("cuda")
        yield "limits", lambda: gsplat_c.limits("cuda")

    def check(self, driver):
        before = driver.current()
        for name, call in self.each():
            result = call()
            assert result in (None, "GSC_OK") or not isinstance(result, str), (name, message())
            assert driver.current() == before, name
        return before


def test_the_primary_context_stays_current():
    calls, driver = Calls(), Driver()
    assert calls.check(driver) != 0
    torch.cuda.synchronize()
    assert torch.equal(calls.color["color"], calls.expected)


def in_a_thread(work):
    failures = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_a_thread_without_a_context_has_none_afterwards():
    calls, driver = Calls(), Driver()
    calls.color["color"].zero_()
    torch.cuda.synchronize()

    def work():
        assert driver.current() == 0
        assert calls.check(driver) == 0

    in_a_thread(work)
    torch.cuda.synchronize()
    assert torch.equal(calls.color["color"], calls.expected)


def test_a_foreign_context_stays_current():
    """As PyCUDA has one: not the primary context that the tensors are of."""
    calls, driver = Calls(), Driver()
    calls.color["color"].zero_()
    torch.cuda.synchronize()
    primary = driver.current()

    def work():
        foreign = driver.new_context()
        try:
            assert foreign not in (0, primary) and driver.current() == foreign
            assert calls.check(driver) == foreign
            driver.cuCtxSynchronize()
        finally:
            driver.destroy(foreign)

    in_a_thread(work)
    torch.cuda.synchronize()
    assert torch.equal(calls.color["color"], calls.expected)


def test_the_context_stays_with_a_stream_of_its_own():
    driver = Driver()
    handle = driver.stream()
    calls = Calls(handle)
    calls.check(driver)
    torch.cuda.synchronize()
    assert torch.equal(calls.color["color"], calls.expected)


def test_eight_fresh_threads_without_a_cuda_call_of_theirs():
    sets = [Calls() for _ in range(8)]
    driver, failures = Driver(), []
    barrier = threading.Barrier(len(sets))

    def work(calls):
        try:
            barrier.wait()
            assert calls.check(driver) == 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(calls,)) for calls in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    torch.cuda.synchronize()
    for calls in sets:
        assert torch.equal(calls.color["color"], calls.expected)


def test_contexts_come_and_go():
    """Creating and freeing does not touch the current context, nor end the primary one."""
    from gsplat_c._call import Descriptor, call
    from gsplat_c._lib import lib

    calls, driver = Calls(), Driver()
    before = driver.current()
    desc = Descriptor("gsc_context_desc")
    for _ in range(5):
        handle = ctypes.c_void_p()
        with call() as block:
            packed = desc.pack_named(block, {"abi_version": 1 << 16, "device.device_type": 2})
            assert lib.gsc_context_create(packed, ctypes.addressof(handle)) == 0
        assert driver.current() == before
        lib.gsc_context_free(handle)
        assert driver.current() == before
    calls.check(driver)


two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@two
@pytest.mark.parametrize("current", [0, 1])
def test_the_other_gpu_is_used_and_the_current_one_stays(current):
    args, _ = CASES["colors"]
    data = 1 - current
    expected = gsplat_c.rasterize(**to_cuda(args, f"cuda:{current}")).color.cpu()
    driver = Driver()
    with torch.cuda.device(current):
        before = driver.current()
        there = to_cuda(args, f"cuda:{data}")
        out, saved = gsplat_c.rasterize_forward(**there)
        grads = gsplat_c.rasterize_backward(saved, wrt=("means",),
                                            grad_color=torch.ones_like(out.color), **there)
        assert torch.cuda.current_device() == current and driver.current() == before
        assert out.color.device.index == grads.means.device.index == data
        assert torch.equal(out.color.cpu(), expected)


@two
def test_tensors_of_two_gpus_are_refused():
    args = to_cuda(CASES["colors"][0])
    with pytest.raises(ValueError, match="opacities is on cuda:1, expected cuda:0"):
        gsplat_c.rasterize(**{**args, "opacities": args["opacities"].to("cuda:1")})
    with pytest.raises(ValueError, match="view is on cuda:1, expected cuda:0"):
        gsplat_c.rasterize(**{**args, "view": args["view"].to("cuda:1")})
