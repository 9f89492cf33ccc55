"""SSIM, image loss and Adam on CUDA against the CPU, with every option."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import note_error, relative

# [B, C, H, W], then options.
SSIM_CASES = {
    "usual": ((1, 3, 97, 203), {}),
    "batch": ((2, 3, 64, 64), {}),
    "one_pixel": ((1, 1, 1, 1), {}),
    "one_row": ((1, 2, 1, 300), {}),
    "one_column": ((1, 2, 300, 1), {}),
    "odd": ((1, 4, 37, 53), {}),
    "seven": ((2, 7, 33, 31), {}),
    "valid_one": ((1, 3, 11, 11), {"valid": True}),
    "valid": ((2, 3, 61, 130), {"valid": True}),
    "window1": ((1, 3, 37, 53), {"window": 1}),
    "window3": ((1, 3, 37, 153), {"window": 3}),
    "window7": ((2, 1, 40, 131), {"window": 7}),
    "window7_valid": ((2, 1, 40, 131), {"window": 7, "valid": True}),
    "window13": ((1, 1, 50, 131), {"window": 13, "sigma": 2.0}),
    "window15": ((1, 1, 150, 131), {"window": 15, "sigma": 2.0}),
    "window33": ((1, 2, 70, 150), {"window": 33, "sigma": 5.0}),
    "window33_valid": ((1, 2, 70, 150), {"window": 33, "sigma": 5.0, "valid": True}),
    "sigma": ((1, 3, 40, 60), {"sigma": 0.7}),
    "range": ((1, 3, 40, 60), {"c1": 6.5, "c2": 58.5}),
    "tiles": ((1, 1, 700, 450), {}),
}
LAYOUTS = ("dense", "pixel_last", "every_other", "flipped")


def image(shape, seed):
    """Smooth, with noise, so that SSIM of two of them is neither 0 nor 1."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:shape[2], :shape[3]].astype(np.float32)
    base = 0.5 + 0.3 * np.sin(0.13 * x + 0.07 * y)
    return (base + 0.1 * rng.standard_normal(shape)).astype(np.float32)


def laid_out(array, layout, device="cuda"):
    """The same values in other strides."""
    tensor = torch.from_numpy(array)
    if layout == "pixel_last":
        memory = torch.from_numpy(np.ascontiguousarray(array.transpose(0, 2, 3, 1)))
        return memory.to(device).permute(0, 3, 1, 2)
    if layout == "every_other":
        wide = np.full((*array.shape[:3], 2 * array.shape[3] + 3), 7, array.dtype)
        wide[..., 1:-2:2] = array
        return torch.from_numpy(wide).to(device)[..., 1:-2:2]
    if layout == "flipped":
        memory = torch.from_numpy(np.ascontiguousarray(array.transpose(1, 0, 3, 2)))
        return memory.to(device).permute(1, 0, 3, 2)
    return tensor.to(device)


def pair(shape, seed=1):
    return image(shape, seed), image(shape, seed + 1)


def close(gpu, cpu, tolerance):
    a, b = gpu.cpu().numpy().astype(np.float64), np.asarray(cpu, np.float64)
    assert a.shape == b.shape and np.isfinite(a).all() and np.isfinite(b).all()
    error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30) if b.size else 0.0
    note_error(error, "largest difference")
    assert error < tolerance, error


# ---------------------------------------------------------------------- SSIM


@pytest.mark.parametrize("name", SSIM_CASES)
def test_ssim(name):
    shape, options = SSIM_CASES[name]
    x, y = pair(shape)
    cpu = gsplat_c.ssim(x, y, outputs=("mean", "map"), **options)
    gpu = gsplat_c.ssim(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(),
                        outputs=("mean", "map"), **options)
    close(gpu.map, cpu.map, 2e-5)
    # A map of one pixel is its own mean.
    close(gpu.mean, cpu.mean, 2e-5 if name == "one_pixel" else 1e-6)
    alone = gsplat_c.ssim(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), **options)
    assert np.array_equal(alone.mean.cpu().numpy(), gpu.mean.cpu().numpy())


@pytest.mark.parametrize("by", ["mean", "map"])
@pytest.mark.parametrize("name", SSIM_CASES)
def test_ssim_gradients(name, by):
    shape, options = SSIM_CASES[name]
    x, y = pair(shape)
    map_shape = gsplat_c.ssim(x, y, outputs=("map",), **options).map.shape
    rng = np.random.default_rng(5)
    given = np.float32(0.7) * np.ones((), np.float32) if by == "mean" else \
        rng.standard_normal(map_shape).astype(np.float32)
    for wrt in (("image",), ("target",), ("image", "target")):
        cpu = gsplat_c.ssim_backward(x, y, wrt=wrt, **{f"grad_{by}": given}, **options)
        gpu = gsplat_c.ssim_backward(
            torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), wrt=wrt,
            **{f"grad_{by}": torch.from_numpy(np.asarray(given)).cuda()}, **options)
        for output in wrt:
            # The variance of a window with one pixel is all cancellation, on both sides.
            tolerance = 2e-4 if name == "one_pixel" else 2e-5
            close(getattr(gpu, output), getattr(cpu, output), tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ssim_layouts(layout):
    x, y = pair((2, 3, 41, 131))
    cpu = gsplat_c.ssim_backward(x, y, grad_map=y, wrt=("image", "target"))
    a, b, c = (laid_out(v, layout) for v in (x, y, y))
    gpu = gsplat_c.ssim_backward(a, b, grad_map=c, wrt=("image", "target"))
    close(gpu.image, cpu.image, 2e-5)
    close(gpu.target, cpu.target, 2e-5)
    close(gsplat_c.ssim(a, b).mean, gsplat_c.ssim(x, y).mean, 1e-6)


def test_ssim_of_bright_flat_images():
    rng = np.random.default_rng(3)
    x, y = (np.float32(0.9) + 0.002 * rng.standard_normal((1, 3, 200, 300)).astype(np.float32)
            for _ in range(2))
    cpu = gsplat_c.ssim_backward(x, y, grad_mean=np.float32(1))
    gpu = gsplat_c.ssim_backward(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(),
                                 grad_mean=torch.from_numpy(np.ones((), np.float32)).cuda())
    close(gpu.image, cpu.image, 1e-4)
    close(gsplat_c.ssim(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()).mean,
          gsplat_c.ssim(x, y).mean, 2e-6)


def test_a_nan_spoils_only_windows_that_see_it():
    x, y = pair((1, 1, 80, 160))
    x[0, 0, 40, 100] = np.nan
    cpu = gsplat_c.ssim(x, y, outputs=("map",)).map
    gpu = gsplat_c.ssim(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(),
                        outputs=("map",)).map.cpu().numpy()
    assert np.array_equal(np.isnan(cpu), np.isnan(gpu))
    cpu = gsplat_c.ssim_backward(x, y, grad_mean=np.float32(1)).image
    one = torch.from_numpy(np.ones((), np.float32)).cuda()
    gpu = gsplat_c.ssim_backward(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(),
                                 grad_mean=one).image.cpu().numpy()
    assert np.array_equal(np.isnan(cpu), np.isnan(gpu))


# ---------------------------------------------------------------------- loss

LOSS_CASES = {
    "usual": {},
    "l1": {"l1_weight": 1.0, "ssim_weight": 0.0},
    "l2": {"l1_weight": 0.0, "l2_weight": 2.0, "ssim_weight": 0.0},
    "ssim": {"l1_weight": 0.0, "ssim_weight": 1.0},
    "all": {"l1_weight": 0.3, "l2_weight": 0.4, "ssim_weight": 0.5, "grad_scale": -3.0},
    "valid": {"valid": True},
    "window7": {"window": 7, "valid": True},
}
MASKS = ("none", "float", "bool", "uint8", "one_for_all", "strided", "empty")


def masked(kind, shape):
    """(on the CPU, on the GPU)"""
    rng = np.random.default_rng(9)
    batch, _, height, width = shape
    if kind == "none":
        return None, None
    values = rng.random((batch, height, width)).astype(np.float32)
    if kind == "bool":
        values = values > 0.4
    if kind == "uint8":
        values = (values * 4).astype(np.uint8)
    if kind == "one_for_all":
        values = values[0].copy()
    if kind == "empty":
        values[:] = 0
    tensor = torch.from_numpy(values).cuda()
    if kind == "strided":
        wide = np.repeat(values, 2, axis=2)
        tensor = torch.from_numpy(wide).cuda()[..., ::2]
    return values, tensor


def check_loss(x, y, mask, options, gpu_x, gpu_y, gpu_mask):
    everything = ("loss", "parts", "grad_image")
    for outputs in (everything, ("loss",), ("grad_image",), ("parts",), ("loss", "grad_image")):
        cpu = gsplat_c.image_loss(x, y, mask=mask, outputs=outputs, **options)
        gpu = gsplat_c.image_loss(gpu_x, gpu_y, mask=gpu_mask, outputs=outputs, **options)
        for output in outputs:
            # The variances of a few pixels are all cancellation, on both sides.
            few = x.shape[2] * x.shape[3] < 10
            tolerance = 2e-5 if output == "grad_image" or few else 2e-6
            close(getattr(gpu, output), getattr(cpu, output), tolerance)


@pytest.mark.parametrize("name", LOSS_CASES)
@pytest.mark.parametrize("mask", MASKS)
def test_image_loss(name, mask):
    shape = (2, 3, 45, 133)
    x, y = pair(shape)
    on_cpu, on_gpu = masked(mask, shape)
    check_loss(x, y, on_cpu, LOSS_CASES[name], torch.from_numpy(x).cuda(),
               torch.from_numpy(y).cuda(), on_gpu)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 3, 37, 53), (1, 3, 40, 256)])
def test_image_loss_of_bytes(layout, shape):
    x, y = pair(shape)
    y = np.clip(y * 255, 0, 255).astype(np.uint8)
    check_loss(x, y, None, LOSS_CASES["all"], laid_out(x, layout), laid_out(y, layout), None)
    check_loss(x, y, None, LOSS_CASES["l1"], laid_out(x, layout), laid_out(y, layout), None)


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (3, 4, 5, 300), (1, 7, 300, 5)])
def test_image_loss_of_odd_sizes(shape):
    x, y = pair(shape)
    check_loss(x, y, None, {}, torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), None)


def test_equal_pixels_have_no_l1_gradient():
    x, _ = pair((1, 3, 40, 60))
    gpu = gsplat_c.image_loss(torch.from_numpy(x).cuda(), torch.from_numpy(x).cuda(),
                              l1_weight=1.0, ssim_weight=0.0, outputs=("loss", "grad_image"))
    assert not gpu.grad_image.cpu().numpy().any() and float(gpu.loss.cpu().numpy()) == 0


def test_losses_are_reproducible():
    x, y = (torch.from_numpy(v).cuda() for v in pair((1, 3, 300, 500)))
    mask = masked("float", (1, 3, 300, 500))[1]
    first = gsplat_c.image_loss(x, y, mask=mask, outputs=("loss", "parts", "grad_image"))
    for _ in range(3):
        again = gsplat_c.image_loss(x, y, mask=mask, outputs=("loss", "parts", "grad_image"))
        for output in ("loss", "parts", "grad_image"):
            assert np.array_equal(getattr(first, output).cpu().numpy(),
                                  getattr(again, output).cpu().numpy())


# ---------------------------------------------------------------------- Adam

ADAM_CASES = {
    "first": {"step": 1},
    "later": {"step": 1000},
    "no_correction": {"step": 0},
    "betas": {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3, "step": 7},
    "no_betas": {"beta1": -1.0, "beta2": -1.0, "epsilon": -1.0, "step": 3},
    "decay": {"weight_decay": 0.1, "step": 2},
}
# Of one call: rows, then the size of one.
ADAM_SHAPES = ((1000, 3), (1000,), (1000, 4), (1000, 1), (1000, 15, 3), (1000, 5), (1000, 48),
               (1000, 1025), (1000, 0))


def adam_groups(shapes, options, seed=2, shift=0):
    """Arrays of groups; with shift they begin one element off what vectors need."""
    rng = np.random.default_rng(seed)
    groups = []
    for i, shape in enumerate(shapes):
        size = int(np.prod(shape))
        arrays = [rng.standard_normal(size + shift).astype(np.float32) for _ in range(4)]
        arrays[3] = np.abs(arrays[3])
        names = ("parameter", "gradient", "moment1", "moment2")
        groups.append({**dict(zip(names, arrays)), "lr": 0.01 * (i + 1), **options})
    return groups


def shaped(groups, shapes, shift, convert):
    names = ("parameter", "gradient", "moment1", "moment2")
    return [{**group, **{n: convert(group[n])[shift:].reshape(shape) for n in names}}
            for group, shape in zip(groups, shapes)]


def check_adam(shapes, options, visible=None, decoupled=False, shift=0):
    cpu_memory = adam_groups(shapes, options, shift=shift)
    before = [group["moment1"].copy() for group in cpu_memory]
    gpu_memory = [{k: torch.from_numpy(v.copy()).cuda() if isinstance(v, np.ndarray) else v
                   for k, v in group.items()} for group in cpu_memory]
    on_gpu = None if visible is None else torch.from_numpy(visible).cuda()
    for _ in range(2):
        gsplat_c.adam_step(shaped(cpu_memory, shapes, shift, lambda a: a), visible=visible,
                           decoupled=decoupled)
        gsplat_c.adam_step(shaped(gpu_memory, shapes, shift, lambda a: a), visible=on_gpu,
                           decoupled=decoupled)
    for shape, cpu, gpu, old in zip(shapes, cpu_memory, gpu_memory, before):
        for name in ("parameter", "moment1", "moment2"):
            close(gpu[name], cpu[name], 1e-6)
        new = gpu["moment1"].cpu().numpy()
        assert np.array_equal(new[:shift], old[:shift])
        if visible is not None and old.size > shift:
            rows = (new != old)[shift:].reshape(shape[0], -1).any(axis=1)
            assert np.array_equal(rows, visible != 0)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("name", ADAM_CASES)
def test_adam(name, decoupled):
    check_adam(ADAM_SHAPES, ADAM_CASES[name], decoupled=decoupled)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int32])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_adam_of_visible_rows(dtype, share):
    visible = (np.random.default_rng(4).random(1000) < share).astype(dtype)
    if dtype == np.int32:
        visible *= 256  # not only its lowest byte counts
    check_adam(ADAM_SHAPES, {"step": 0}, visible=visible)


# Of one call: row sizes; and rows, which are more than a block's and not of whole ones.
VISIBLE_CASES = {
    "one_row": (1, (1, 2, 3, 4, 45, 48, 1000, 5000)),
    "less_than_a_warp": (31, (1, 2, 3, 4, 45, 48, 1000, 5000)),
    "few": (257, (1, 2, 3, 4, 45, 48, 1000, 5000)),
    "one_float": (20011, (1,)),
    "many": (70001, (3, 3, 45, 1, 3, 4)),
    "most_of_a_block": (300001, (2, 48)),
    "many_groups": (1001, (3, 1, 4, 45) * 6),
    "wide": (3, (5, 8192, 8193, 40000, 330001, 2)),
}
MASKS = {
    "none": lambda rows: rows < 0,
    "all": lambda rows: rows >= 0,
    "first": lambda rows: rows == 0,
    "last": lambda rows: rows == rows.size - 1,
    "one": lambda rows: rows == rows.size // 3,
    "random": lambda rows: np.random.default_rng(6).random(rows.size) < 0.21,
    "runs": lambda rows: rows // 300 % 3 != 1,
}


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", VISIBLE_CASES)
def test_adam_of_visible_rows_is_adam_of_these_alone(name, mask, shift):
    """To the last bit; and no other row changes, nor what lies before and behind them."""
    rows, sizes = VISIBLE_CASES[name]
    visible = MASKS[mask](np.arange(rows))
    rng = np.random.default_rng(7)
    names = ("parameter", "gradient", "moment1", "moment2")
    options = {"lr": 0.01, "weight_decay": 0.1, "step": 3}
    memory = [{n: rng.random(rows * size + 8, dtype=np.float32) for n in names} for size in sizes]

    def inner(array, size):
        return array[shift:shift + rows * size].reshape(rows, size)

    on_gpu = [{n: torch.from_numpy(a.copy()).cuda() for n, a in group.items()} for group in memory]
    gsplat_c.adam_step([{**{n: inner(a, size) for n, a in group.items()}, **options}
                        for group, size in zip(on_gpu, sizes)],
                       visible=torch.from_numpy(visible).cuda())
    alone = [{n: torch.from_numpy(inner(a, size)[visible]).cuda() for n, a in group.items()}
             for group, size in zip(memory, sizes)]
    gsplat_c.adam_step([{**group, **options} for group in alone])
    for group, stepped, wanted, size in zip(memory, on_gpu, alone, sizes):
        for n in names:
            inner(group[n], size)[visible] = wanted[n].cpu().numpy()
            assert np.array_equal(stepped[n].cpu().numpy(), group[n]), (size, n)


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_adam_without_alignment(shift):
    visible = (np.random.default_rng(4).random(1000) < 0.5).astype(np.uint8)
    check_adam(ADAM_SHAPES[:6], {"step": 5}, shift=shift)
    check_adam(ADAM_SHAPES[:6], {"step": 5}, visible=visible, shift=shift)


def test_adam_of_many_groups_and_of_none():
    check_adam(((50, 3), (50, 7)) * 20, {"step": 1})
    check_adam(((0, 3), (0,)), {"step": 1})
    gsplat_c.adam_step([])


def test_adam_agrees_with_torch():
    torch_adam = getattr(getattr(torch, "optim", None), "Adam", None)
    if torch_adam is None:
        pytest.skip("no torch.optim")
    start = torch.randn(1000, 3, device="cuda")
    theirs, ours = start.clone().requires_grad_(True), start.clone()
    optimiser = torch_adam([theirs], lr=0.01)
    moments = [torch.zeros_like(ours) for _ in range(2)]
    for step in range(1, 6):
        gradient = torch.randn_like(ours)
        theirs.grad = gradient.clone()
        optimiser.step()
        gsplat_c.adam_step([{"parameter": ours, "gradient": gradient, "moment1": moments[0],
                             "moment2": moments[1], "lr": 0.01, "step": step}])
    assert relative(ours, theirs.detach()) < 1e-6
