"""torch tensors in and out, and the functions with gradients."""

import copy
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gsplat_c  # noqa: E402
import gsplat_c.torch as gt  # noqa: E402
import reference  # noqa: E402
from gsplat_c import _arrays  # noqa: E402
from scenes import arrays_of, cloud, one_splat, smooth_cloud  # noqa: E402
from test_backward import has_backward  # noqa: E402

needs_backward = pytest.mark.skipif(not has_backward(),
                                    reason="this library has no raster backward")


def tensors(args):
    return arrays_of(args, lambda a: torch.from_numpy(a.copy()))


@pytest.fixture(params=["by the table of DLPack", "by methods"])
def either_view(request, monkeypatch):
    """Both ways to see a tensor, the first of which old versions of torch lack."""
    arrays = _arrays.torch_arrays()
    if request.param == "by methods":
        monkeypatch.setattr(arrays, "_view", None)
        monkeypatch.setattr(arrays, "_views", None)
    elif arrays._view is None:
        pytest.skip("this torch has no such table")


def test_forward_equals_numpy(either_view):
    args = cloud(pixel_weights=np.ones((28, 40), np.float32))
    names = gsplat_c._raster.OUTPUT_NAMES
    expected = gsplat_c.rasterize(**args, outputs=names)
    result = gsplat_c.rasterize(**tensors(args), outputs=names)
    for name in names:
        value = getattr(result, name)
        assert isinstance(value, torch.Tensor)
        np.testing.assert_array_equal(value.numpy(), getattr(expected, name))
    color = gsplat_c.rasterize(**tensors(args)).color
    with_lists = {**tensors(args), "view": args["view"].tolist()}
    assert torch.equal(gsplat_c.rasterize(**with_lists).color, color)
    numpy_cameras = {**tensors(args), "view": args["view"], "intrinsics": args["intrinsics"]}
    assert torch.equal(gsplat_c.rasterize(**numpy_cameras).color, color)


@pytest.mark.parametrize("change", [
    lambda t: t.t().contiguous().t() if t.ndim == 2 else t,
    lambda t: torch.cat([t, t], -1)[..., :t.shape[-1]],
    lambda t: torch.repeat_interleave(t, 2, 0)[::2],
    lambda t: torch.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape),
    lambda t: torch.nn.Parameter(t, requires_grad=False),
    lambda t: torch.complex(torch.zeros_like(t), -t).conj().imag,
])
def test_any_layout(change, either_view):
    args = tensors(cloud())
    expected = gsplat_c.rasterize(**args).color
    changed = {name: change(value) if isinstance(value, torch.Tensor) else value
               for name, value in args.items()}
    assert torch.equal(gsplat_c.rasterize(**changed).color, expected)


def test_tensors_without_views_are_described(monkeypatch):
    arrays, args = _arrays.torch_arrays(), tensors(cloud())
    expected = gsplat_c.rasterize(**args).color
    calls = []
    monkeypatch.setattr(arrays, "_views", lambda *_: calls.append(1) or 1)
    assert torch.equal(gsplat_c.rasterize(**args).color, expected) and calls


def test_one_element_that_is_still_to_be_negated(either_view):
    args = tensors(cloud(count=1))
    expected = gsplat_c.rasterize(**args).color
    opacity = torch.complex(torch.zeros(1), -args["opacities"].reshape(1)).conj().imag
    assert opacity.is_neg() and opacity.is_contiguous()
    for shape in ((1,), (1, 1)):
        given = {**args, "opacities": opacity.view(shape)}
        assert torch.equal(gsplat_c.rasterize(**given).color, expected)
    assert expected.abs().sum() > 0


def test_a_strided_position(either_view):
    args = tensors(cloud(count=10))
    args["sh"] = torch.rand(10, 4, 3)
    del args["colors"]
    position = torch.tensor([0.3, 0.1, -3])
    column = torch.full((3, 4), torch.nan)
    column[:, 1] = position
    expected = gsplat_c.rasterize(**args, position=position).color
    assert torch.equal(gsplat_c.rasterize(**args, position=column[:, 1]).color, expected)
    negative = torch._neg_view(-column)[:, 1]
    assert torch.equal(gsplat_c.rasterize(**args, position=negative).color, expected)
    assert not torch.equal(gsplat_c.rasterize(**args).color, expected)


def test_expanded(either_view):
    args = tensors(cloud())
    args["opacities"] = torch.tensor(0.5).expand(40)
    dense = {**args, "opacities": args["opacities"].contiguous()}
    assert torch.equal(gsplat_c.rasterize(**args).color, gsplat_c.rasterize(**dense).color)


def test_errors_name_the_tensor(either_view):
    args = tensors(cloud())
    for name in ("means", "scales", "colors", "view"):
        for dtype in (torch.float64, torch.bfloat16, torch.complex64, torch.int32):
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                gsplat_c.rasterize(**{**args, name: args[name].to(dtype)})
    for wrong, text in [
        (args["scales"].to("meta"), "scales is on meta"),
        (args["scales"].to_sparse(), "scales has no plain memory"),
        (args["scales"].clone().requires_grad_(), "scales requires grad"),
    ]:
        with pytest.raises(gsplat_c.ArgumentError, match=f"rasterize: {text}"):
            gsplat_c.rasterize(**{**args, "scales": wrong})
    with torch.no_grad():
        gsplat_c.rasterize(**{**args, "scales": args["scales"].clone().requires_grad_()})
    with pytest.raises(ValueError, match="color is not dense"):
        gsplat_c.rasterize(**args, out={"color": torch.zeros(3, 28, 80)[..., ::2]})


def test_other_functions_return_tensors(either_view):
    points = torch.randn(50, 3)
    indices, distances = gsplat_c.knn(points)
    assert indices.dtype == torch.int64
    expected = (points[:, None] - points[indices]).square().sum(-1)
    torch.testing.assert_close(distances, expected)
    assert gsplat_c.mark_visible(means=points, view=torch.eye(4)).dtype == torch.bool
    image = torch.rand(1, 3, 20, 20)
    last = image.contiguous(memory_format=torch.channels_last)
    target = image.flip(3)
    torch.testing.assert_close(gsplat_c.ssim(last, target).mean, gsplat_c.ssim(image, target).mean)


def test_no_gradient_needs_no_state():
    args = tensors(cloud())
    result = gt.rasterize(**args, outputs=("color", "radii"))
    assert not result.color.requires_grad
    args["means"].requires_grad_()
    with torch.no_grad():
        assert not gt.rasterize(**args).color.requires_grad


@needs_backward
def test_gradients_equal_the_low_level_ones():
    args = smooth_cloud()
    outputs = ("alpha", "color", "radii", "depth", "inv_depth")
    names = ("means", "opacities", "scales", "rotations", "colors", "view", "background")
    result, saved = gsplat_c.rasterize_forward(**args, outputs=outputs)
    generator = np.random.default_rng(0)
    weights = {name: generator.normal(size=getattr(result, name).shape).astype(np.float32)
               for name in outputs if name != "radii"}
    expected = gsplat_c.rasterize_backward(
        saved, wrt=(*names, "means2d", "means2d_abs"), **args,
        **{f"grad_{name}": value for name, value in weights.items()})

    leaves = {name: torch.from_numpy(args[name].copy()).requires_grad_() for name in names}
    sink, sink_abs = torch.zeros(6, 3, requires_grad=True), torch.zeros(6, 2, requires_grad=True)
    result = gt.rasterize(**{**tensors(args), **leaves}, outputs=outputs, means2d=sink,
                          means2d_abs=sink_abs)
    assert list(result.asdict()) == list(outputs)
    assert result.color.requires_grad and not result.radii.requires_grad
    sum((torch.from_numpy(weights[name]) * getattr(result, name)).sum()
        for name in weights).backward()
    for name in names:
        np.testing.assert_array_equal(leaves[name].grad.numpy(), getattr(expected, name))
    np.testing.assert_array_equal(sink.grad[:, :2].numpy(), expected.means2d)
    assert (sink.grad[:, 2] == 0).all()
    np.testing.assert_array_equal(sink_abs.grad.numpy(), expected.means2d_abs)


@needs_backward
def test_gradient_for_exactly_what_needs_it(monkeypatch):
    args = tensors(smooth_cloud())
    args["opacities"].requires_grad_()
    asked = []
    original = gsplat_c._raster.backward_packed
    monkeypatch.setattr(gsplat_c._raster, "backward_packed",
                        lambda saved, numbers, tensors, wrt, *rest: asked.append(tuple(wrt)) or
                        original(saved, numbers, tensors, wrt, *rest))
    color, alpha = gt.rasterize(**args, outputs=("color", "alpha"))
    color.sum().backward()
    assert asked == [("opacities",)]
    assert args["opacities"].grad is not None and args["means"].grad is None
    assert alpha.requires_grad  # asked for, unused: its upstream gradient is absent


@needs_backward
def test_gradient_through_activations_and_of_expanded_upstream():
    args = tensors(smooth_cloud())
    logits = torch.logit(args["opacities"]).requires_grad_()
    log_scales = args["scales"].log().requires_grad_()
    args.update(opacities=logits.sigmoid(), scales=log_scales.exp())
    image = gt.rasterize(**args).color
    image.mean().backward()  # an upstream gradient of stride 0
    for leaf, name, convert in ((logits, "opacities", torch.sigmoid),
                                (log_scales, "scales", torch.exp)):
        direction = leaf.grad / leaf.grad.norm()
        values = []
        for sign in (1, -1):
            moved = {name: convert(leaf.detach() + sign * 1e-2 * direction)}
            with torch.no_grad():
                values.append(gsplat_c.rasterize(**{**args, **moved}).color.double().mean())
        expected = (values[0] - values[1]) / 2e-2
        torch.testing.assert_close(leaf.grad.norm().double(), expected, rtol=2e-2, atol=1e-6)


@needs_backward
def test_once_only_and_saved_tensor_hooks():
    args = tensors(smooth_cloud())
    means = args["means"].requires_grad_()
    image = gt.rasterize(**args).color
    grad, = torch.autograd.grad(image.square().sum(), means, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        image = gt.rasterize(**args).color
    again, = torch.autograd.grad(image.square().sum(), means)
    assert torch.equal(again, grad.detach())


@needs_backward
def test_changed_inputs_are_noticed():
    args = tensors(smooth_cloud())
    args["colors"].requires_grad_()
    image = gt.rasterize(**args).color
    args["scales"] += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        image.sum().backward()


def test_inputs_without_gradient_are_refused():
    args = tensors(one_splat())
    args["means"].requires_grad_()
    args["intrinsics"].requires_grad_()
    with pytest.raises(ValueError, match="intrinsics requires grad, but has no gradient"):
        gt.rasterize(**args)


@needs_backward
def test_threads_have_their_own_graphs():
    failures = []

    def work(seed):
        try:
            args = tensors(smooth_cloud())
            args["colors"] = torch.rand(6, 3, generator=torch.Generator().manual_seed(seed))
            args["means"].requires_grad_()
            grads = [torch.autograd.grad(gt.rasterize(**args).color.square().sum(),
                                         args["means"])[0] for _ in range(10)]
            assert all(torch.equal(grad, grads[0]) for grad in grads)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def reference_ssim(image, target, valid=False):
    window = torch.from_numpy(reference.gaussian_window())
    kernel = (window[:, None] * window)[None, None].expand(image.shape[1], 1, 11, 11)

    def blur(t):
        return torch.nn.functional.conv2d(t, kernel, padding=0 if valid else 5,
                                          groups=t.shape[1])

    mx, my = blur(image), blur(target)
    vx, vy, cov = (blur(a * b) - c for a, b, c in ((image, image, mx * mx),
                                                   (target, target, my * my),
                                                   (image, target, mx * my)))
    c1, c2 = 0.01**2, 0.03**2
    return ((2 * mx * my + c1) * (2 * cov + c2)) / ((mx * mx + my * my + c1) * (vx + vy + c2))


@pytest.mark.parametrize("valid", [False, True])
def test_ssim(valid):
    torch.manual_seed(0)
    image, target = torch.rand(2, 3, 18, 17), torch.rand(2, 3, 18, 17)
    x, y = (t.double().requires_grad_() for t in (image, target))
    a, b = (t.clone().requires_grad_() for t in (image, target))
    expected = reference_ssim(x, y, valid)
    found = gt.ssim(a, b, valid=valid)
    torch.testing.assert_close(found.double(), expected.mean(), rtol=1e-5, atol=1e-6)
    (3 * found).backward()
    (3 * expected.mean()).backward()
    torch.testing.assert_close(a.grad.double(), x.grad, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(b.grad.double(), y.grad, rtol=1e-3, atol=1e-6)

    a.grad = None
    x.grad = None
    weights = torch.randn(expected.shape)
    (gt.ssim(a, target, valid=valid, map=True) * weights).sum().backward()
    (reference_ssim(x, target.double(), valid) * weights).sum().backward()
    torch.testing.assert_close(a.grad.double(), x.grad, rtol=1e-3, atol=1e-3)


def test_image_loss():
    torch.manual_seed(1)
    image, target = torch.rand(1, 3, 18, 17), torch.rand(1, 3, 18, 17)
    a, x = image.clone().requires_grad_(), image.double().requires_grad_()
    loss, parts = gt.image_loss(a, target, return_parts=True)
    y = target.double()
    expected = 0.8 * (x - y).abs().mean() + 0.2 * (1 - reference_ssim(x, y).mean())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(parts[0].double(), (x - y).abs().mean().detach(), rtol=1e-5,
                               atol=0.0)
    assert not parts.requires_grad
    (loss * 2).backward()
    (expected * 2).backward()
    torch.testing.assert_close(a.grad.double(), x.grad, rtol=1e-3, atol=1e-6)
    assert not gt.image_loss(image, target).requires_grad
    with pytest.raises(ValueError, match="target requires grad"):
        gt.image_loss(image, target.clone().requires_grad_())


@pytest.mark.parametrize("bias_correction", [False, True])
def test_selective_adam(bias_correction):
    torch.manual_seed(2)
    values = [torch.randn(6, 3), torch.randn(6, 4, 2)]
    ours = [torch.nn.Parameter(value.clone()) for value in values]
    adam = gt.SelectiveAdam([{"params": [ours[0]], "lr": 0.02}, {"params": [ours[1]]}], lr=0.01,
                            betas=(0.8, 0.95), eps=1e-6, bias_correction=bias_correction)
    expected = [value.double().numpy() for value in values]
    moments = [[np.zeros(value.shape), np.zeros(value.shape)] for value in values]
    visible = torch.tensor([True, False, True, True, False, True])
    for step in range(1, 4):
        for index, parameter in enumerate(ours):
            parameter.grad = torch.randn(parameter.shape)
            seen = visible.numpy()
            new = reference.adam(expected[index][seen], parameter.grad.double().numpy()[seen],
                                 moments[index][0][seen], moments[index][1][seen],
                                 (0.02, 0.01)[index], 0.8, 0.95, 1e-6,
                                 step=step if bias_correction else 0)
            expected[index][seen], moments[index][0][seen], moments[index][1][seen] = new
        adam.step(visible=visible)
    for index, parameter in enumerate(ours):
        np.testing.assert_allclose(parameter.detach().numpy(), expected[index], atol=1e-5)
        np.testing.assert_allclose(adam.state[parameter]["exp_avg"].numpy(), moments[index][0],
                                   atol=1e-6)
    again = gt.SelectiveAdam(ours, bias_correction=bias_correction)
    again.load_state_dict({**copy.deepcopy(adam.state_dict()),
                           "param_groups": again.state_dict()["param_groups"]})
    assert torch.equal(again.state[ours[1]]["exp_avg_sq"], adam.state[ours[1]]["exp_avg_sq"])


def test_selective_adam_as_torch_adam():
    torch.manual_seed(3)
    ours, theirs = (torch.nn.Parameter(torch.ones(5, 2)) for _ in range(2))
    unused = torch.nn.Parameter(torch.ones(3))
    a = gt.SelectiveAdam([ours, unused], lr=0.1, bias_correction=True)
    b = torch.optim.Adam([theirs], lr=0.1)

    def closure():
        loss = (ours - 3).square().sum()
        ours.grad = None
        loss.backward()
        return loss

    for _ in range(5):
        assert a.step(closure=closure) > 0
        b.zero_grad()
        (theirs - 3).square().sum().backward()
        b.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert (unused == 1).all()
    with pytest.raises(ValueError, match="betas"):
        gt.SelectiveAdam([ours], betas=(1.0, 0.9))


def test_forward_mode_is_refused():
    """There are no tangents: without an error the derivative would be silently zero."""
    from torch.autograd import forward_ad

    args = tensors(smooth_cloud())
    with forward_ad.dual_level(), torch.no_grad():
        plain = gt.rasterize(**args).color
        assert forward_ad.unpack_dual(plain).tangent is None
        args["means"] = forward_ad.make_dual(args["means"], torch.ones_like(args["means"]))
        with pytest.raises(NotImplementedError, match="jvp"):
            gt.rasterize(**args)
    with pytest.raises(RuntimeError):
        torch.func.jvp(lambda means: gt.rasterize(**{**args, "means": means}).color,
                       (tensors(smooth_cloud())["means"],), (torch.ones(args["means"].shape),))


@pytest.fixture
def flags_of_forward(monkeypatch):
    """Whether GSC_RASTER_DETERMINISTIC was in the calls of the rasterizer."""
    from gsplat_c import _raster
    from gsplat_c._fields import FIELDS

    seen, whole = [], _raster.forward_packed

    def record(function, numbers, *args, **options):
        seen.append(bool(numbers[0] & FIELDS["deterministic"].flag))
        return whole(function, numbers, *args, **options)

    monkeypatch.setattr(_raster, "forward_packed", record)
    yield seen
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms(flags_of_forward):
    args = tensors(smooth_cloud())
    args["means"].requires_grad_()
    gt.rasterize(**args)
    gt.rasterize(**args, deterministic=True)
    torch.use_deterministic_algorithms(True)
    gt.rasterize(**args)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.no_grad():
        gt.rasterize(**args)
    assert flags_of_forward == [False, True, True, True]


def test_deterministic_gsplat(flags_of_forward):
    args = [torch.zeros(2, 3), torch.ones(2, 4), torch.ones(2, 3), torch.ones(2),
            torch.ones(2, 3, requires_grad=True), torch.eye(4)[None], torch.eye(3)[None], 8, 8]
    gt.rasterization(*args)
    gt.rasterization(*args, deterministic=True)
    torch.use_deterministic_algorithms(True)
    gt.rasterization(*args)
    assert flags_of_forward == [False, True, True]
