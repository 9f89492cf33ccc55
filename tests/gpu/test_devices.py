"""Tensors of the wrong device are refused by name before any kernel runs; host cameras,
pinned cameras and managed memory are taken."""

import ctypes

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import to_cuda
from scenes import cases
from steps import Driver, Raw, Steps, message

CASES = dict(cases())
NUMPY = {**CASES["statistics"][0], "background": np.float32([0.1, 0.2, 0.3]),
         "position": np.float32([1, 2, 3])}
SPLIT = {**CASES["split"][0]}
ON_DEVICE = ("pixel_weights", "opacities", "scales", "rotations", "colors")
EITHER = ("view", "intrinsics", "position", "background")


@pytest.mark.parametrize("name", ON_DEVICE)
def test_an_input_on_the_cpu_is_refused(name):
    args = {**to_cuda(NUMPY), name: torch.from_numpy(NUMPY[name])}
    outputs = CASES["statistics"][1]
    with pytest.raises(ValueError, match=f"{name} is on cpu, expected cuda:0") as error:
        gsplat_c.rasterize(outputs=outputs, **args)
    assert error.value.status_name == "GSC_ERROR_DEVICE"
    with pytest.raises(ValueError, match=f"{name} is on cpu, expected cuda:0"):
        gsplat_c.rasterize_forward(outputs=outputs, **args)


@pytest.mark.parametrize("name", ["sh", "sh_dc"])
def test_harmonics_on_the_cpu_are_refused(name):
    args = {**to_cuda(SPLIT), name: torch.from_numpy(SPLIT[name])}
    with pytest.raises(ValueError, match=f"{name} is on cpu, expected cuda:0"):
        gsplat_c.rasterize(**args)


def test_means_on_the_cpu_make_a_call_of_the_cpu():
    args = {**to_cuda(NUMPY), "means": torch.from_numpy(NUMPY["means"])}
    with pytest.raises(ValueError, match="is on cuda:0, expected cpu"):
        gsplat_c.rasterize(**args)


@pytest.mark.parametrize("name", EITHER)
@pytest.mark.parametrize("pinned", [False, True])
def test_a_camera_tensor_may_be_on_the_host(name, pinned):
    args = to_cuda(NUMPY)
    expected = gsplat_c.rasterize(**args).color
    host = torch.from_numpy(NUMPY[name])
    mixed = {**args, name: host.pin_memory() if pinned else host}
    assert torch.equal(gsplat_c.rasterize(**mixed).color, expected)


@pytest.mark.parametrize("name", CASES["statistics"][1])
def test_an_output_on_the_cpu_is_refused(name):
    outputs = CASES["statistics"][1]
    args = to_cuda(NUMPY)
    good = gsplat_c.rasterize(outputs=outputs, **args)
    out = {name: getattr(good, name).cpu()}
    with pytest.raises(ValueError, match=f"outputs.{name} is on cpu, expected cuda:0"):
        gsplat_c.rasterize(outputs=outputs, out=out, **args)


def test_gradients_and_buffers_on_the_cpu_are_refused():
    args = to_cuda({k: v for k, v in NUMPY.items() if k != "pixel_weights"})
    out, saved = gsplat_c.rasterize_forward(**args)
    given = torch.ones_like(out.color)
    with pytest.raises(ValueError, match="grads.color is on cpu, expected cuda:0"):
        gsplat_c.rasterize_backward(saved, wrt=("means",), grad_color=given.cpu(), **args)
    with pytest.raises(ValueError, match="grads.means is on cpu, expected cuda:0"):
        gsplat_c.rasterize_backward(saved, wrt=(), out={"means": args["means"].cpu()},
                                    grad_color=given, **args)
    for name, slot in (("state", "state"), ("intersections", "lists")):
        host = gsplat_c.SavedRaster(saved.state, saved.intersections, saved.info)
        memory = np.empty(getattr(saved, name).numel() + 255, np.uint8)
        start = -memory.ctypes.data % 256
        setattr(host, slot, torch.from_numpy(memory[start:start + getattr(saved, name).numel()]))
        with pytest.raises(ValueError, match=f"{name} is on cpu, expected cuda:0"):
            gsplat_c.rasterize_backward(host, wrt=("means",), grad_color=given, **args)


def test_other_ops_refuse_tensors_of_the_cpu():
    x = torch.rand(1, 3, 20, 20, device="cuda")
    with pytest.raises(ValueError, match="target is on cpu, expected cuda:0"):
        gsplat_c.ssim(x, x.cpu())
    with pytest.raises(ValueError, match="mask is on cpu, expected cuda:0"):
        gsplat_c.image_loss(x, x, mask=torch.ones(20, 20))
    with pytest.raises(ValueError, match="queries is on cpu, expected cuda:0"):
        gsplat_c.knn(x[0, :, 0, :3].contiguous(), queries=torch.rand(2, 3))
    group = {k: torch.rand(5, 3, device="cuda") for k in
             ("parameter", "gradient", "moment1", "moment2")}
    with pytest.raises(ValueError, match="gradient is on cpu, expected cuda:0"):
        gsplat_c.adam_step([{**group, "gradient": torch.rand(5, 3), "lr": 1}])
    with pytest.raises(ValueError, match="visible is on cpu, expected cuda:0"):
        gsplat_c.adam_step([{**group, "lr": 1}], visible=torch.ones(5, dtype=torch.bool))


def raw(tensor, device=(2, 0)):
    return Raw(tensor.data_ptr(), tensor.shape, device=device)


@pytest.mark.parametrize("name", ["opacities", "scales", "rotations", "colors", "view"])
def test_a_tensor_of_another_gpu_is_refused(name):
    args = to_cuda(CASES["colors"][0])
    color = torch.empty(3, args["height"], args["width"], device="cuda")
    steps = Steps({**args, name: raw(args[name], (2, 1))}, {"color": color})
    assert steps.sizes() == "GSC_ERROR_DEVICE"
    assert f"{name} is on cuda:1, expected cuda:0" in message()


def test_there_is_no_such_gpu():
    with pytest.raises(gsplat_c.NoDevice, match="device is cuda:99, expected one of"):
        gsplat_c.limits("cuda:99")


def test_managed_memory_is_taken():
    args = to_cuda(CASES["colors"][0])
    expected = gsplat_c.rasterize(**args).color
    driver, address = Driver(), ctypes.c_uint64()
    means = CASES["colors"][0]["means"]
    driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(means.nbytes),
                             ctypes.c_uint(1))
    ctypes.memmove(address.value, means.ctypes.data, means.nbytes)
    color = torch.empty_like(expected)
    steps = Steps({**args, "means": Raw(address.value, means.shape, device=(13, 0))},
                  {"color": color}, stream=0)
    assert steps.sizes() == "GSC_OK", message()
    state = torch.empty(steps.info["state_bytes"] + 256, dtype=torch.uint8, device="cuda")
    state = state[-state.data_ptr() % 256:][:steps.info["state_bytes"]]
    assert steps.project(state) == "GSC_OK", message()
    lists = torch.empty(steps.info["intersections_bytes"] + 256, dtype=torch.uint8, device="cuda")
    lists = lists[-lists.data_ptr() % 256:][:steps.info["intersections_bytes"]]
    assert steps.render(state, lists) == "GSC_OK", message()
    torch.cuda.synchronize()
    assert torch.equal(color, expected)
    driver.free(address.value)
