"""What training code does around the functions: autocast, modules, checkpoints, streams."""

import threading

import pytest

torch = pytest.importorskip("torch")

import gsplat_c.torch as gt  # noqa: E402
from scenes import cloud, smooth_cloud  # noqa: E402
from test_backward import has_backward  # noqa: E402
from test_torch import tensors  # noqa: E402

pytestmark = pytest.mark.skipif(not has_backward(), reason="this library has no raster backward")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


def on(device, args):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in args.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_autocast(device):
    args = on(device, tensors(smooth_cloud()))
    half = args["colors"].to(torch.bfloat16).requires_grad_()
    with pytest.raises(ValueError, match="colors"):
        gt.rasterize(**{**args, "colors": half})
    with torch.autocast(device, dtype=torch.bfloat16):
        color = gt.rasterize(**{**args, "colors": half}).color
        assert gt.rasterize(**{**args, "colors": half.detach()}).color.dtype == torch.float32
        value = gt.ssim(color[None].bfloat16(), color[None].detach().bfloat16() * 0.5)
        loss = gt.image_loss(color[None].bfloat16(), torch.zeros_like(color[None]).bfloat16())
        drawn, _, _ = gt.rasterization(
            args["means"].bfloat16(), args["rotations"], args["scales"], args["opacities"], half,
            args["view"].T[None], torch.eye(3, device=device)[None] * 40, 40, 28)
    assert color.dtype == value.dtype == loss.dtype == drawn.dtype == torch.float32
    expected = args["colors"].bfloat16().float().requires_grad_()
    again = gt.rasterize(**{**args, "colors": expected}).color
    assert torch.equal(color, again)
    color.sum().backward()
    again.sum().backward()
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(half.grad, expected.grad.bfloat16())


def test_modules():
    torch.manual_seed(0)
    image, target = torch.rand(1, 3, 18, 17), torch.rand(1, 3, 18, 17)
    mask = torch.rand(18, 17)
    assert torch.equal(gt.SSIM()(image, target), gt.ssim(image, target))
    assert torch.equal(gt.SSIM(window=7, sigma=1.0, map=True, valid=True)(image, target),
                       gt.ssim(image, target, window=7, sigma=1.0, map=True, valid=True))
    assert torch.equal(gt.ImageLoss()(image, target, mask),
                       gt.image_loss(image, target, mask=mask))
    module = gt.ImageLoss(l1_weight=0.5, l2_weight=0.2, ssim_weight=0.3, window=5)
    assert torch.equal(module(image, target), gt.image_loss(
        image, target, l1_weight=0.5, l2_weight=0.2, ssim_weight=0.3, window=5))
    assert "window=5" in repr(module) and not list(module.parameters())


def test_selective_adam_as_gsplat_steps_it():
    ours, theirs = (torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2))
    visible = torch.tensor([True, False, True, True])
    for parameter in (ours, theirs):
        parameter.grad = torch.ones(4, 2)
    gt.SelectiveAdam([ours], eps=1e-15, betas=(0.9, 0.99)).step(visible)
    gt.SelectiveAdam([theirs], eps=1e-15, betas=(0.9, 0.99)).step(visible=visible)
    assert torch.equal(ours, theirs) and (ours[1] == 1).all() and (ours[0] != 1).all()


def test_checkpointing():
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    grads = []
    for wrap in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False)):
        args = tensors(smooth_cloud())
        means = args["means"].clone().requires_grad_()
        color = wrap(lambda m, args=args: gt.rasterize(**{**args, "means": m}).color, means)
        color.square().sum().backward()
        grads.append(means.grad)
    assert torch.equal(*grads)


def test_outputs_do_not_keep_themselves_alive():
    """A cycle through the graph would hold every frame's memory until the collector runs."""
    import gc
    import weakref

    args = tensors(smooth_cloud())
    args["means"].requires_grad_()
    gc.collect()
    gc.disable()
    try:
        result = gt.rasterize(**args, outputs=("color", "alpha"))
        node = weakref.ref(result.color.grad_fn)
        del result
        assert node() is None
        colors, alphas, meta = gt.rasterization(
            args["means"], args["rotations"], args["scales"], args["opacities"], args["colors"],
            args["view"].T[None], torch.eye(3)[None] * 40, 40, 28, absgrad=True)
        node = weakref.ref(colors.grad_fn)
        del colors, alphas, meta
        assert node() is None
    finally:
        gc.enable()


@needs_cuda
def test_streams():
    """Work goes to the current stream: inputs made late on it are seen, backward follows."""
    args = on("cuda", tensors(cloud(count=5000)))
    expected = args["means"].clone().requires_grad_()
    image = gt.rasterize(**{**args, "means": expected}).color
    image.square().sum().backward()
    busy = torch.randn(4000, 4000, device="cuda")
    torch.cuda.synchronize()
    found = []
    for stream in [torch.cuda.Stream() for _ in range(3)]:
        with torch.cuda.stream(stream):
            late = busy
            for _ in range(10):
                late = late @ busy * 1e-4
            means = (late[0, 0].nan_to_num() * 0 + args["means"]).requires_grad_()
            drawn = gt.rasterize(**{**args, "means": means}).color
            drawn.square().sum().backward()
            found.append((drawn.detach().clone(), means.grad.clone()))
    torch.cuda.synchronize()
    for drawn, grad in found:
        assert torch.equal(drawn, image)
        torch.testing.assert_close(grad, expected.grad, rtol=1e-3, atol=1e-4)


@needs_cuda
def test_threads_with_streams_of_their_own():
    args = on("cuda", tensors(cloud(count=2000)))
    expected = gt.rasterize(**args).color
    torch.cuda.synchronize()
    failures = []

    def work():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(10):
                    means = args["means"].clone().requires_grad_()
                    color = gt.rasterize(**{**args, "means": means}).color
                    color.sum().backward()
                    assert torch.equal(color, expected) and means.grad.any()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
