"""Frames drawn without a wait in between, in buffers sized by what earlier frames let expect."""

import numpy as np
import pytest
import torch
from conftest import to_cuda
from scenes import camera, cases, gaussians, look_at, sh, some
from steps import Steps, message

import gsplat_c
from gsplat_c import _draw, _raster
from gsplat_c._arrays import torch_arrays
from gsplat_c._scene import raster_fields

CASES = dict(cases())
WIDTHS = iter(range(301, 4000))
WRT = ("means", "opacities", "scales", "rotations", "sh")


@pytest.fixture
def calls(monkeypatch):
    """The library's functions that drawing has called, one for each step: as with a torch that
    lends no memory, before 2.10."""
    taken = []
    monkeypatch.setattr(torch_arrays(), "allocate", None)

    def counting(name, function):
        def call(*args):
            taken.append(name)
            return function(*args)

        return call

    for name in ("forward", "forecast", "project", "draw", "render"):
        monkeypatch.setattr(_draw, f"_{name}",
                            counting(f"gsc_raster_{name}", getattr(_draw, f"_{name}")))
    return taken


def scene(count=3000, seed=1, size=0.08, cameras=1):
    """A scene with an image size of its own, of which no frame was drawn yet."""
    count = some(count)
    args = {**gaussians(count, seed, size=size), **camera(next(WIDTHS), 136, cameras),
            "sh": sh(count, 2, 5)}
    return to_cuda(args)


def copied(args):
    return {k: v.clone() if torch.is_tensor(v) else v for k, v in args.items()}


def in_steps(args, outputs):
    """The frame without any expectation, in one piece."""
    return gsplat_c.rasterize_forward(outputs=outputs, max_intersections_bytes=1 << 40, **args)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits(name, calls):
    args, outputs = CASES[name]
    args = to_cuda(args)
    expected, saved = in_steps(args, outputs)
    calls.clear()
    drawn, drawn_saved = gsplat_c.rasterize_forward(outputs=outputs, **args)
    alone = gsplat_c.rasterize(outputs=outputs, **args)
    assert calls.count("gsc_raster_project_blend") == 2 and "gsc_raster_blend" not in calls
    assert drawn_saved.pairs == saved.pairs
    for output in outputs:
        assert torch.equal(getattr(drawn, output), getattr(expected, output)), output
        assert torch.equal(getattr(alone, output), getattr(expected, output)), output


def gradients(saved, args, color):
    upstream = torch.linspace(-1, 1, color.numel(), device="cuda").reshape(color.shape)
    return gsplat_c.rasterize_backward(saved, wrt=WRT, grad_color=upstream, deterministic=True,
                                       **args)


def expect_close(found, expected):
    for name in WRT:
        a, b = getattr(found, name), getattr(expected, name)
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6 * float(b.abs().max())), name


@pytest.mark.parametrize("cameras", [1, 3])
def test_gradients_of_a_frame_smaller_than_expected(cameras, calls):
    args = scene(cameras=cameras)
    few = copied(args)
    few["opacities"][::2] = 0
    out, saved = in_steps(few, ("color",))
    expected = gradients(saved, few, out.color)
    in_steps(args, ("color",))
    calls.clear()
    out, saved = gsplat_c.rasterize_forward(**few)
    assert "gsc_raster_project_blend" in calls and "gsc_raster_blend" not in calls
    found = gradients(saved, few, out.color)
    expect_close(found, expected)


@pytest.mark.parametrize("cameras", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("larger", ["visible", "pairs"])
def test_a_frame_larger_than_expected(larger, backward, cameras, calls):
    args = scene(cameras=cameras)
    small = copied(args)
    if larger == "visible":
        small["opacities"][::2] = 0
    else:
        small["scales"] *= 0.1
    in_steps(small, ("color",))
    calls.clear()
    if backward:
        out, saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)
    else:
        out = gsplat_c.rasterize(outputs=("color", "radii"), **args)
    assert calls.count("gsc_raster_project_blend") == calls.count("gsc_raster_blend") == 1
    expected, expected_saved = in_steps(args, ("color", "radii"))
    assert torch.equal(out.color, expected.color) and torch.equal(out.radii, expected.radii)
    if backward:
        a, b = gradients(saved, args, out.color), gradients(expected_saved, args, out.color)
        assert torch.equal(a.means, b.means) and torch.equal(a.sh, b.sh)
    calls.clear()
    gsplat_c.rasterize(**args)
    assert "gsc_raster_blend" not in calls  # the next one is expected


# ------------------------------------------- in one call, in memory that torch lends


def apart(args, outputs):
    """in_steps() in the context of calls with a stream, of which others expect nothing."""
    return gsplat_c.rasterize_forward(outputs=outputs, max_intersections_bytes=1 << 40, stream=0,
                                      **args)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_at_once(name):
    args, outputs = CASES[name]
    args = to_cuda(args)
    expected, _ = apart(args, outputs)
    for _ in range(2):  # counted first, then as it was expected
        drawn = gsplat_c.rasterize(outputs=outputs, **args)
        for output in outputs:
            assert torch.equal(getattr(drawn, output), getattr(expected, output)), output


def at_once(args):
    """(image, gradients, whether state and lists are one array) as drop-in modules draw."""
    numbers, tensors = raster_fields(**args)
    lead = args["view"].shape[:-2]
    color = torch.empty(*lead, 3, args["height"], args["width"], device="cuda")
    saved = _raster.draw(numbers, tensors, {"color": color}, True)
    joined = saved.intersections is None
    return color, gradients(saved, args, color), joined


@pytest.mark.parametrize("cameras", [1, 3])
def test_frames_and_gradients_at_once(cameras):
    args = scene(cameras=cameras)
    few = copied(args)
    few["opacities"][::2] = 0
    frames = [(few, False), (few, True), (args, False), (args, True), (few, True)]
    for number, (frame, expects_joined) in enumerate(frames):
        expected, saved = apart(frame, ("color",))
        wanted = gradients(saved, frame, expected.color)
        color, found, joined = at_once(frame)
        assert joined == expects_joined, number
        assert torch.equal(color, expected.color), number
        expect_close(found, wanted)


def test_a_stream_of_the_callers_takes_nothing_of_torch():
    args, stream = scene(), torch.cuda.Stream()
    expected = gsplat_c.rasterize(**args)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gsplat_c.rasterize(**args, out={"color": expected.color}, stream=stream.cuda_stream)
    assert torch.cuda.max_memory_allocated() == before
    gsplat_c.rasterize(**args, out={"color": expected.color})
    assert torch.cuda.max_memory_allocated() > before


def test_without_memory_torch_says_so():
    args = scene(200000)
    color, _, _ = at_once(args)
    expected = color.clone()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        for draw in (at_once, lambda args: gsplat_c.rasterize(**args, out={"color": color})):
            with pytest.raises(torch.cuda.OutOfMemoryError):
                draw(args)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.cuda.memory_allocated() == before
    assert torch.equal(at_once(args)[0], expected)


# ------------------------------------------------------------------------------------


def test_a_walk_around(calls):
    args = scene(20000, size=0.03)
    for angle in np.linspace(0, 6.28, 60):
        view = look_at((2 * np.sin(angle), -0.3, -2 * np.cos(angle))).astype(np.float32)
        args["view"] = torch.tensor(view, device="cuda")
        color = gsplat_c.rasterize(**args).color
        assert torch.equal(color, in_steps(args, ("color",))[0].color)
    missed = calls.count("gsc_raster_blend") - 60  # those of in_steps
    assert missed <= 15


def test_cameras_that_see_much_and_little(calls):
    """Whichever of them does; their sum is less than as many of the largest."""
    args = scene(cameras=3)
    views = args["view"].clone()
    views[1, :3, 3] += torch.tensor([0.0, 0.0, 9.0], device="cuda")  # from afar
    views[2, :3, 3] -= torch.tensor([0.0, 0.0, 99.0], device="cuda")  # it sees nothing
    for turn in range(4):
        args["view"] = views.roll(turn, 0).contiguous()
        expected, saved = in_steps(args, ("color", "radii"))
        calls.clear()
        out, drawn = gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)
        assert "gsc_raster_project_blend" in calls and "gsc_raster_blend" not in calls
        assert torch.equal(out.color, expected.color) and torch.equal(out.radii, expected.radii)
        assert drawn.pairs == saved.pairs
        found, wanted = (gradients(s, args, out.color) for s in (drawn, saved))
        expect_close(found, wanted)


@pytest.mark.parametrize("cameras", [32, 33, 70])
def test_more_cameras_than_one_report_tells_of(cameras):
    args = scene(300, cameras=cameras)
    expected = torch.stack([in_steps({**args, "view": args["view"][c],
                                      "intrinsics": args["intrinsics"][c]}, ("color",))[0].color
                            for c in range(cameras)])
    for _ in range(2):
        assert torch.equal(gsplat_c.rasterize(**args).color, expected)
        assert torch.equal(gsplat_c.rasterize_forward(**args)[0].color, expected)


def requested_bytes():
    """Without what torch's allocator adds to a small request."""
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def test_nothing_is_kept_without_backward():
    args = scene()
    before = requested_bytes()
    out, saved = gsplat_c.rasterize_forward(**args)
    kept = requested_bytes() - before
    del out, saved
    alone = gsplat_c.rasterize(**args)
    left = requested_bytes() - before
    assert alone.color.numel() * 4 == left < kept


def test_one_that_keeps_nothing_has_no_backward():
    steps = Steps(scene(), {}, flags=_raster._FORWARD_ONLY)
    assert steps.sizes() == "GSC_OK", message()
    state = torch.empty(steps.info["state_bytes"], dtype=torch.uint8, device="cuda")
    assert steps.project(state) == "GSC_OK", message()
    assert steps.backward(state, state, {}) == "GSC_ERROR_INVALID_ARGUMENT"
    assert "GSC_RASTER_FORWARD_ONLY" in message()
