"""CUDA graphs: a forward and a backward that never wait are captured and replayed with
other inputs; what waits is refused inside a capture."""

import pytest
import torch

import gsplat_c
from conftest import relative, to_cuda
from scenes import cases
from steps import Steps, message

CASES = dict(cases())


def memory(size):
    whole = torch.empty(size + 255, dtype=torch.uint8, device="cuda")
    start = -whole.data_ptr() % 256
    return whole[start:start + size]


class Frame:
    """Everything that a capture needs, allocated before it."""

    def __init__(self, name, room=2.0, wrt=("means", "opacities", "view", "background")):
        args, _ = CASES[name]
        self.args = to_cuda(args)
        out, saved = gsplat_c.rasterize_forward(outputs=("color", "alpha"), **self.args)
        self.pairs = saved.pairs
        self.color, self.alpha = (torch.zeros_like(v) for v in (out.color, out.alpha))
        self.steps = Steps(self.args, {"color": self.color, "alpha": self.alpha})
        self.steps.info["intersections"] = int(saved.pairs * room)
        assert self.steps.sizes() == "GSC_OK"
        info = self.steps.info
        self.state = memory(info["state_bytes"])
        self.lists = memory(info["intersections_bytes"])
        self.scratch = memory(max(info["forward_scratch_bytes"], info["backward_scratch_bytes"]))
        self.overflow = torch.full((), -1, dtype=torch.int64, device="cuda")
        self.given = torch.randn_like(out.color)
        self.grads = {k: torch.zeros_like(self.args[k]) for k in wrt if k in self.args}

    def run(self):
        steps = self.steps
        assert steps.project(self.state, self.scratch, waiting=False) == "GSC_OK", message()
        assert steps.render(self.state, self.lists, self.scratch, self.overflow) == "GSC_OK", \
            message()
        assert steps.backward(self.state, self.lists, {"grad_color": self.given, **self.grads},
                              self.scratch) == "GSC_OK", message()

    def eager(self):
        out, saved = gsplat_c.rasterize_forward(outputs=("color", "alpha"), **self.args)
        grads = gsplat_c.rasterize_backward(saved, wrt=tuple(self.grads), grad_color=self.given,
                                            **self.args)
        return out, grads

    def check(self):
        out, grads = self.eager()
        torch.cuda.synchronize()
        assert int(self.overflow) == 0
        assert torch.equal(self.color, out.color) and torch.equal(self.alpha, out.alpha)
        for name, value in self.grads.items():
            # Sums of atomic adds vary in their order alone.
            assert relative(value, getattr(grads, name), f"d {name}") < 1e-5

    def change(self, seed):
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def noise(tensor, size):
            return size * torch.randn(tensor.shape, device="cuda", generator=generator)

        self.args["means"] += noise(self.args["means"], 0.02)
        self.args["opacities"].clamp_(0.1, 0.9)
        self.args["view"][..., :3, 3] += noise(self.args["view"][..., :3, 3], 0.05)
        if "background" in self.args:
            self.args["background"] += noise(self.args["background"], 0.1)
        self.given += noise(self.given, 1.0)


@pytest.mark.parametrize("name", ["colors", "sh3", "channels4", "camera_colors"])
def test_a_captured_frame_replays_with_changed_inputs(name):
    frame = Frame(name)
    frame.run()
    frame.check()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        frame.run()
    for seed in range(3):
        frame.change(seed)
        graph.replay()
        frame.check()


def test_host_camera_of_a_capture_stays_as_it_was():
    args, _ = CASES["colors"]
    frame = Frame("colors")
    frame.args = {**frame.args, "view": torch.from_numpy(args["view"].copy()),
                  "background": torch.from_numpy(args["background"].copy())}
    info = frame.steps.info
    frame.steps = Steps(frame.args, {"color": frame.color, "alpha": frame.alpha})
    frame.steps.info = info
    del frame.grads["view"], frame.grads["background"]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        frame.run()
    graph.replay()
    frame.check()
    before = frame.color.clone()
    frame.args["view"].fill_(float("nan"))
    frame.args["background"].fill_(7.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(frame.color, before)


@pytest.mark.parametrize("call", ["project", "forward", "package"])
def test_a_waiting_call_is_refused_inside_a_capture(call):
    frame = Frame("colors")
    frame.run()
    frame.check()
    refused = []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if call == "project":
            refused.append(frame.steps.project(frame.state, frame.scratch))
            text = message()
        else:
            function = gsplat_c.rasterize if call == "forward" else gsplat_c.rasterize_forward
            with pytest.raises(gsplat_c.UnsupportedError) as error:
                function(**frame.args)
            refused.append(error.value.status_name)
            text = str(error.value)
        frame.run()
    assert refused == ["GSC_ERROR_UNSUPPORTED"]
    assert "this call waits for the stream, but the stream is being captured" in text
    # The capture is still good.
    frame.change(1)
    graph.replay()
    frame.check()


def draw(frame, **sizes):
    """Forward without waiting, with buffers of an estimate; returns the overflow."""
    info = dict.fromkeys(frame.steps.info, 0)
    frame.steps.info = {**info, **sizes}
    assert frame.steps.sizes() == "GSC_OK"
    info = frame.steps.info
    lists, scratch = memory(info["intersections_bytes"]), memory(info["forward_scratch_bytes"])
    assert frame.steps.project(frame.state, scratch, waiting=False) == "GSC_OK", message()
    assert frame.steps.render(frame.state, lists, scratch, frame.overflow) == "GSC_OK", message()
    torch.cuda.synchronize()
    return int(frame.overflow)


@pytest.mark.parametrize("name", ["large", "colors", "cameras"])
@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_overflow_tells_how_many_bytes_a_frame_needs(name, share):
    """An estimate that is too small never passes for a frame, and the answer suffices."""
    frame = Frame(name)
    cameras = len(frame.args["view"]) if frame.args["view"].dim() == 3 else 1
    entries = max(64, int(frame.pairs / cameras * share))
    needed = draw(frame, intersections=entries)
    if needed == 0:
        assert torch.equal(frame.color, frame.eager()[0].color)
        return
    assert needed > frame.steps.info["intersections_bytes"]
    assert draw(frame, intersections=frame.pairs, intersections_bytes=needed) == 0
    assert torch.equal(frame.color, frame.eager()[0].color)


def test_overflow_of_an_earlier_camera_is_not_forgotten():
    frame = Frame("cameras")
    frame.args["view"][-1, :3, 3] -= 1e4  # it sees nothing and fits
    assert draw(frame, intersections=64) > frame.steps.info["intersections_bytes"]


def test_ops_are_captured():
    x, y = (torch.rand(1, 3, 97, 83, device="cuda") for _ in range(2))
    points = torch.rand(3000, 3, device="cuda")
    group = {k: torch.rand(1000, 3, device="cuda") for k in
             ("parameter", "gradient", "moment1", "moment2")}
    fresh = {k: v.clone() for k, v in group.items()}
    outs = {"loss": torch.zeros((), device="cuda"), "grad_image": torch.zeros_like(x)}
    rows = {"indices": torch.zeros(3000, 3, dtype=torch.int64, device="cuda")}
    mean = {"mean": torch.zeros((), device="cuda")}

    def run():
        gsplat_c.image_loss(x, y, outputs=(), out=outs)
        gsplat_c.knn(points, 3, outputs=(), out=rows)
        gsplat_c.ssim(x, y, outputs=(), out=mean)
        gsplat_c.adam_step([{**group, "lr": 0.01, "step": 1}])

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    x.copy_(torch.rand_like(x))
    points.copy_(torch.rand_like(points))
    graph.replay()
    torch.cuda.synchronize()
    expected = gsplat_c.image_loss(x, y, outputs=("loss", "grad_image"))
    assert torch.equal(outs["loss"], expected.loss)
    assert torch.equal(outs["grad_image"], expected.grad_image)
    assert torch.equal(rows["indices"], gsplat_c.knn(points, 3).indices)
    assert torch.equal(mean["mean"], gsplat_c.ssim(x, y).mean)
    gsplat_c.adam_step([{**fresh, "lr": 0.01, "step": 1}])
    assert torch.equal(group["parameter"], fresh["parameter"])
