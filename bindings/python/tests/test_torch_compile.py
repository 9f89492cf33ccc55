"""torch.compile: whole graphs, operators that pass torch's own checks, the same numbers."""

import shutil

import pytest

torch = pytest.importorskip("torch")

import gsplat_c  # noqa: E402
import gsplat_c.torch as gt  # noqa: E402
from gsplat_c.torch import _support  # noqa: E402
from scenes import smooth_cloud  # noqa: E402
from test_backward import has_backward  # noqa: E402
from test_gsplat import LEAVES, leaves_of, scene  # noqa: E402
from test_torch import tensors  # noqa: E402

if not _support.HAS_OPS:
    pytest.skip(f"torch {torch.__version__} has no torch.library.custom_op",
                allow_module_level=True)
pytestmark = pytest.mark.skipif(not has_backward(), reason="this library has no raster backward")

NAMES = ("means", "opacities", "scales", "rotations", "colors", "view", "background")
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# Dictionaries of a class of one's own, and operators that change lists of tensors.
newer = pytest.mark.skipif(TORCH < (2, 7), reason="too much for the torch.compile of older torch")
BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.skipif(
    shutil.which("g++") is None, reason="inductor needs g++"))]


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def leaves(args, names=NAMES):
    return {**args, **{name: args[name].clone().requires_grad_() for name in names}}


def gradients(function, args, sink):
    args, sink = leaves(args), sink.clone().requires_grad_()
    value, radii = function(args, sink)
    value.backward()
    return value, radii, *(args[name].grad for name in NAMES), sink.grad


def training_loss(args, sink):
    result = gt.rasterize(**args, means2d=sink, means2d_abs=None, grad2d_ndc=True,
                          outputs=("color", "alpha", "radii", "median_depth"))
    return result.color.square().sum() + (result.alpha * 2).sum(), result.radii


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_rasterize_in_one_graph(backend, dynamic):
    args, sink = tensors(smooth_cloud()), torch.zeros(6, 3)
    expected = gradients(training_loss, args, sink)
    compiled = torch.compile(training_loss, fullgraph=True, backend=backend, dynamic=dynamic)
    for found, value in zip(gradients(compiled, args, sink), expected):
        torch.testing.assert_close(found, value, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(TORCH < (2, 9), reason="older torch.compile unpacks no objects")
def test_results_unpack_in_a_graph():
    args = tensors(smooth_cloud())

    def function():
        result = gt.rasterize(**args, outputs=("color", "alpha"))
        color, alpha = result
        assert "alpha" in result and result.asdict()["color"] is color
        return color + alpha

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(), function())


def test_no_gradient_and_lists_of_numbers():
    args = tensors(smooth_cloud())
    args["view"] = args["view"].tolist()
    compiled = torch.compile(lambda: gt.rasterize(**args).color, fullgraph=True,
                             backend="aot_eager")
    assert torch.equal(compiled(), gt.rasterize(**args).color)
    with pytest.raises(Exception, match="positions"):
        torch.compile(lambda: gt.rasterize(**args, positions=None), fullgraph=True,
                      backend="aot_eager")()


@newer
@pytest.mark.parametrize("backend", BACKENDS)
def test_gsplat_in_one_graph(backend):
    args = scene(render_mode="RGB+ED")

    def draw(args):
        colors, alphas, meta = gt.rasterization(**args, packed=False)
        return colors.square().sum() + alphas.sum(), meta["radii"]

    results = []
    for function in (draw, torch.compile(draw, fullgraph=True, backend=backend)):
        mine = leaves_of(args)
        value, radii = function(mine)
        value.backward()
        results.append([value, radii, *(mine[name].grad for name in LEAVES)])
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5)


def test_image_losses_in_one_graph():
    torch.manual_seed(0)
    target, mask = torch.rand(1, 3, 18, 17), torch.rand(18, 17)
    module = gt.SSIM(map=True)

    def loss(image, target):
        total = gt.ssim(image, target) + module(image, target).square().mean()
        value, parts = gt.image_loss(image, target.detach(), mask=mask, return_parts=True)
        return total + 2 * value + gt.ImageLoss(l2_weight=1)(image, target.detach()), parts

    results = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        image, other = (x.clone().requires_grad_() for x in (target.flip(3), target))
        value, parts = function(image, other)
        value.backward()
        results.append((value, parts, image.grad, other.grad))
        assert not parts.requires_grad
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected)


@newer
def test_adam_in_one_graph():
    ours, theirs = (torch.nn.Parameter(torch.ones(5, 2)) for _ in range(2))
    visible = torch.tensor([True, False, True, True, True])
    a = gt.SelectiveAdam([ours], lr=0.1, bias_correction=True)
    b = gt.SelectiveAdam([theirs], lr=0.1, bias_correction=True)
    step = torch.compile(lambda: a.step(visible=visible), backend="aot_eager")
    for k in range(3):
        ours.grad = torch.full((5, 2), k + 1.0)
        theirs.grad = ours.grad.clone()
        step()
        b.step(visible)
    assert torch.equal(ours, theirs) and not torch.equal(ours, torch.ones(5, 2))
    assert torch.equal(a.state[ours]["exp_avg_sq"], b.state[theirs]["exp_avg_sq"])


def _calls(monkeypatch, module, name, function):
    """Arguments of the calls of an operator that function makes."""
    calls, operator = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *values: calls.append(values) or operator(*values))
    function()
    return [torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, call)
            for call in calls]


def _raster_calls(monkeypatch, name):
    from gsplat_c.torch import _raster_ops

    args = leaves(tensors(smooth_cloud()))
    sinks = {"means2d": torch.zeros(6, 3, requires_grad=True), "means2d_abs": None}

    def run():
        color, alpha, *_ = _raster_ops.rasterize(("color", "alpha", "radii_xy", "depth"), 0,
                                                 sinks, args)
        (color.sum() + alpha.sum()).backward()

    return _calls(monkeypatch, _raster_ops, name, run)


def test_rasterize_passes_opcheck(monkeypatch):
    values, = _raster_calls(monkeypatch, "_op")
    torch.library.opcheck(torch.ops.gsplat_c.rasterize.default, values)
    for tensor, name in zip(*values[:2]):
        tensor.requires_grad_(name in ("means", "opacities", "view"))
    torch.library.opcheck(torch.ops.gsplat_c.rasterize.default, values)


def test_rasterize_backward_passes_opcheck(monkeypatch):
    values, = _raster_calls(monkeypatch, "_backward_op")
    torch.library.opcheck(torch.ops.gsplat_c.rasterize_backward.default, values)


def test_the_other_operators_pass_opcheck():
    image, target = torch.rand(1, 3, 18, 17, requires_grad=True), torch.rand(1, 3, 18, 17)
    window = [None, None, None, None, False]
    ops = torch.ops.gsplat_c
    for kind, grad in (("mean", torch.tensor(1.0)), ("map", target)):
        torch.library.opcheck(ops.ssim.default, [image, target, *window, kind])
        torch.library.opcheck(ops.ssim_backward.default,
                              [image.detach(), target, grad, ["image", "target"], *window, kind])
    torch.library.opcheck(ops.image_loss.default, [image, target, None, 0.8, 0.0, 0.2, *window,
                                                   True])
    lists = [[torch.rand(5, 2) for _ in range(2)] for _ in range(4)]
    if TORCH < (2, 7):
        return  # its opcheck does not know operators that change lists of tensors
    torch.library.opcheck(ops.adam_step.default,
                          [*lists, torch.ones(5, dtype=torch.bool), [0.1, 0.9, 0.99, 1e-8] * 2,
                           [0, 1]])


def test_a_copied_state_costs_another_forward_only(monkeypatch):
    """Hooks that copy what is saved lose the buffers behind the operator's handles."""
    from gsplat_c.torch import _raster_ops

    runs = []
    original = gsplat_c._raster.forward_packed
    monkeypatch.setattr(gsplat_c._raster, "forward_packed",
                        lambda *values: runs.append(1) or original(*values))
    results = []
    for pack in (lambda t: t, lambda t: t.clone()):
        args = leaves(tensors(smooth_cloud()))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            color, = _raster_ops.rasterize(("color",), 0, {}, args)
        color.square().sum().backward()
        results.append([args[name].grad for name in NAMES])
    assert len(runs) == 3
    for kept, copied in zip(*results):
        assert torch.equal(kept, copied)


def test_cannot_be_differentiated_twice():
    args = leaves(tensors(smooth_cloud()), ("means",))
    draw = torch.compile(lambda args: gt.rasterize(**args).color, backend="aot_eager",
                         fullgraph=True)
    grad, = torch.autograd.grad(draw(args).square().sum(), args["means"], create_graph=True)
    with pytest.raises(RuntimeError):
        grad.sum().backward()
