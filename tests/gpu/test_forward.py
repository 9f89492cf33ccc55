"""Frames in one call, in memory that torch lends, sized by what earlier frames let expect."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import to_cuda
from gsplat_c import _dlpack, _raster
from gsplat_c._arrays import torch_arrays
from scenes import camera, cases, gaussians, look_at, sh, some
from steps import Steps, message

CASES = dict(cases())
WIDTHS = iter(range(301, 4000))
WRT = ("means", "opacities", "scales", "rotations", "sh")


@pytest.fixture(params=["table", "callbacks"])
def lender(request, monkeypatch):
    """How torch lends memory: by its table of functions, or as before 2.10 by callbacks."""
    arrays = torch_arrays()
    if request.param == "callbacks":
        found = _dlpack.Lender(arrays.bytes)
        monkeypatch.setattr(arrays, "allocate", found.address)
        monkeypatch.setattr(arrays, "take", found.take)
    elif _dlpack.exchange_functions(torch.Tensor)[0] is None:
        pytest.skip("this torch has no such table")


def was_expected(saved):
    """Whether the frame fitted into what was allocated before it was counted."""
    return saved.lists is None


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
def test_the_same_bits(name, lender):
    args, outputs = CASES[name]
    args = to_cuda(args)
    expected, saved = in_steps(args, outputs)
    drawn, drawn_saved = gsplat_c.rasterize_forward(outputs=outputs, **args)
    alone = gsplat_c.rasterize(outputs=outputs, **args)
    assert was_expected(drawn_saved) and drawn_saved.pairs == saved.pairs
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
def test_gradients_of_a_frame_smaller_than_expected(cameras, lender):
    args = scene(cameras=cameras)
    few = copied(args)
    few["opacities"][::2] = 0
    out, saved = in_steps(few, ("color",))
    expected = gradients(saved, few, out.color)
    in_steps(args, ("color",))
    out, saved = gsplat_c.rasterize_forward(**few)
    assert was_expected(saved)
    found = gradients(saved, few, out.color)
    expect_close(found, expected)


@pytest.mark.parametrize("cameras", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("larger", ["visible", "pairs"])
def test_a_frame_larger_than_expected(larger, backward, cameras, lender):
    args = scene(cameras=cameras)
    small = copied(args)
    if larger == "visible":
        small["opacities"][::2] = 0
    else:
        small["scales"] *= 0.1
    in_steps(small, ("color",))
    if backward:
        out, saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)
        assert not was_expected(saved)
    else:
        out = gsplat_c.rasterize(outputs=("color", "radii"), **args)
    expected, expected_saved = in_steps(args, ("color", "radii"))
    assert torch.equal(out.color, expected.color) and torch.equal(out.radii, expected.radii)
    if backward:
        a, b = gradients(saved, args, out.color), gradients(expected_saved, args, out.color)
        assert torch.equal(a.means, b.means) and torch.equal(a.sh, b.sh)
    assert was_expected(gsplat_c.rasterize_forward(**args)[1])  # the next one is


def apart(args, outputs):
    """in_steps() in the context of calls with a stream, of which others expect nothing."""
    return gsplat_c.rasterize_forward(outputs=outputs, max_intersections_bytes=1 << 40, stream=0,
                                      **args)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_from_the_first_frame_on(name, lender):
    args, outputs = CASES[name]
    args = to_cuda(args)
    expected, _ = apart(args, outputs)
    for _ in range(2):  # counted first, then as it was expected
        drawn = gsplat_c.rasterize(outputs=outputs, **args)
        for output in outputs:
            assert torch.equal(getattr(drawn, output), getattr(expected, output)), output


@pytest.mark.parametrize("cameras", [1, 3])
def test_frames_and_gradients(cameras, lender):
    args = scene(cameras=cameras)
    few = copied(args)
    few["opacities"][::2] = 0
    frames = [(few, False), (few, True), (args, False), (args, True), (few, True)]
    for number, (frame, expects) in enumerate(frames):
        expected, saved = apart(frame, ("color",))
        wanted = gradients(saved, frame, expected.color)
        out, saved = gsplat_c.rasterize_forward(**frame)
        assert was_expected(saved) == expects, number
        assert torch.equal(out.color, expected.color), number
        expect_close(gradients(saved, frame, out.color), wanted)


def test_a_stream_of_the_callers_takes_nothing_of_torch(lender):
    args, stream = scene(), torch.cuda.Stream()
    expected = gsplat_c.rasterize(**args)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gsplat_c.rasterize(**args, out={"color": expected.color}, stream=stream.cuda_stream)
    assert torch.cuda.max_memory_allocated() == before
    gsplat_c.rasterize(**args, out={"color": expected.color})
    assert torch.cuda.max_memory_allocated() > before


def test_without_memory_the_error_is_torchs_too(lender):
    args = scene(200000)
    color = gsplat_c.rasterize(**args).color
    expected = color.clone()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
    try:
        for function in (gsplat_c.rasterize_forward, gsplat_c.rasterize):
            for kind in (torch.cuda.OutOfMemoryError, gsplat_c.OutOfMemoryError):
                with pytest.raises(kind, match=f"^{function.__name__}: .* [0-9]+ bytes"):
                    function(**args, out={"color": color})
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.cuda.memory_allocated() == before
    assert torch.equal(gsplat_c.rasterize(**args).color, expected)


def test_a_walk_around(lender):
    args, missed = scene(20000, size=0.03), 0
    for angle in np.linspace(0, 6.28, 60):
        view = look_at((2 * np.sin(angle), -0.3, -2 * np.cos(angle))).astype(np.float32)
        args["view"] = torch.tensor(view, device="cuda")
        out, saved = gsplat_c.rasterize_forward(**args)
        missed += not was_expected(saved)
        assert torch.equal(out.color, in_steps(args, ("color",))[0].color)
    assert missed <= 15


def test_cameras_that_see_much_and_little(lender):
    """Whichever of them does; their sum is less than as many of the largest."""
    args = scene(cameras=3)
    views = args["view"].clone()
    views[1, :3, 3] += torch.tensor([0.0, 0.0, 9.0], device="cuda")  # from afar
    views[2, :3, 3] -= torch.tensor([0.0, 0.0, 99.0], device="cuda")  # it sees nothing
    for turn in range(4):
        args["view"] = views.roll(turn, 0).contiguous()
        expected, saved = in_steps(args, ("color", "radii"))
        out, drawn = gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)
        assert was_expected(drawn)
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
    steps = Steps(scene(), {}, flags=_raster.FORWARD_ONLY)
    assert steps.sizes() == "GSC_OK", message()
    state = torch.empty(steps.info["state_bytes"], dtype=torch.uint8, device="cuda")
    assert steps.project(state) == "GSC_OK", message()
    assert steps.backward(state, state, {}) == "GSC_ERROR_INVALID_ARGUMENT"
    assert "GSC_RASTER_FORWARD_ONLY" in message()
