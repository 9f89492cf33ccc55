"""A training step on the GPU is the four calls that it stands for, to the last bit where those
are reproducible, and what the CPU makes of it."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import relative, to_cuda
from scenes import camera, gaussians, sh

PARAMETERS = ("means", "opacities", "scales", "rotations", "covariances", "colors", "sh", "sh_dc")


def stored(scene):
    """The scene as training holds it."""
    opacities = np.clip(scene["opacities"], 1e-6, 1 - 1e-6)
    return {**scene, "scales": np.log(scene["scales"]), "log_scales": True,
            "opacities": np.log(opacities / (1 - opacities)), "logit_opacities": True}


def split(harmonics):
    return {"sh": np.ascontiguousarray(harmonics[:, 1:]),
            "sh_dc": np.ascontiguousarray(harmonics[:, :1])}


def cases():
    """name -> (scene, options of the step)"""
    rng = np.random.default_rng(3)
    scene = {**gaussians(5000, 11), **camera(257, 131, off_centre=True)}
    colors = rng.random((5000, 3)).astype(np.float32)
    covariances = np.einsum("nij,nkj->nik", *[rng.standard_normal((5000, 3, 3)) * 0.07] * 2)
    upper = covariances[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]].astype(np.float32)
    shapeless = {k: v for k, v in scene.items() if k not in ("scales", "rotations")}
    yield "split", {**stored(scene), **split(sh(5000, 3, 1)), "sh_degree": 3}, {}
    yield "whole", {**stored(scene), "sh": sh(5000, 3, 1), "sh_degree": 3}, {"step": 4}
    yield "degree1of3", {**stored(scene), "sh": sh(5000, 3, 1), "sh_degree": 1}, {"step": 1}
    yield "degree4", {**scene, "sh": sh(5000, 4, 1)}, {}
    yield "degree4split", {**scene, **split(sh(5000, 4, 1))}, {"weight_decay": 0.01}
    yield "colors", {**scene, "colors": colors, "pixel_last": True}, {"decoupled": True,
                                                                     "weight_decay": 0.01}
    yield "covariances", {**shapeless, "covariances": upper, "colors": colors}, {}
    yield "all_rows", {**stored(scene), **split(sh(5000, 3, 1))}, {"all_rows": True, "step": 9}
    yield "compat", {**stored(scene), **split(sh(5000, 2, 1)), "compat_3dgs": True,
                     "antialias": True}, {}
    yield "near", {**stored({**gaussians(30000, 3, size=0.01), **camera(96, 64)}),
                   **split(sh(30000, 1, 1))}, {}
    yield "one", {**gaussians(1, 3), **camera(96, 64), **split(sh(1, 3, 1))}, {}
    yield "none", {**gaussians(0, 3), **camera(96, 64), **split(sh(0, 3, 1))}, {}


CASES = {name: rest for name, *rest in cases()}


class Side:
    """Parameters, moments and a target on one device."""

    def __init__(self, scene, options, device):
        self.args = {k: torch.from_numpy(v.copy()).to(device) if isinstance(v, np.ndarray) else v
                     for k, v in scene.items()}
        self.names = [name for name in PARAMETERS if name in scene]
        rng = np.random.default_rng(5)
        # Moments that a step does not turn into the sign of the gradient.
        self.moments = {name: [torch.from_numpy(rng.uniform(*bounds, scene[name].shape)
                                                .astype(np.float32)).to(device)
                               for bounds in ((-1e-3, 1e-3), (1e-6, 1e-5))] for name in self.names}
        shape = (3, scene["height"], scene["width"])
        if scene.get("pixel_last"):
            shape = (*shape[1:], 3)
        self.target = torch.from_numpy(rng.random(shape).astype(np.float32)).to(device)
        self.options = options

    def settings(self, name):
        own = {k: v for k, v in self.options.items() if k in ("step", "weight_decay")}
        return {"moment1": self.moments[name][0], "moment2": self.moments[name][1],
                "lr": 0.001 * (1 + PARAMETERS.index(name)), **own}

    def step(self, **more):
        flags = {k: v for k, v in self.options.items() if k in ("decoupled", "all_rows")}
        return gsplat_c.train_step(target=self.target, grad_scale=300.0, parts=True,
                                   groups={name: self.settings(name) for name in self.names},
                                   **flags, **self.args, **more)

    def four_calls(self):
        outputs, saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **self.args)
        planes = (lambda x: x.permute(2, 0, 1)) if self.args.get("pixel_last") else lambda x: x
        loss = gsplat_c.image_loss(planes(outputs.color)[None], planes(self.target)[None],
                                   grad_scale=300.0, outputs=("loss", "parts", "grad_image"))
        by_color = loss.grad_image[0]
        if self.args.get("pixel_last"):
            by_color = by_color.permute(1, 2, 0).contiguous()
        grads = gsplat_c.rasterize_backward(saved, wrt=(*self.names, "means2d", "means2d_abs"),
                                            grad_color=by_color, **self.args)
        gsplat_c.adam_step(
            [{"parameter": self.args[name], "gradient": getattr(grads, name),
              **self.settings(name)} for name in self.names],
            decoupled=self.options.get("decoupled", False),
            visible=None if self.options.get("all_rows") else outputs.radii)
        return outputs, loss, grads

    def values(self):
        return {**{name: self.args[name] for name in self.names},
                **{f"{name}.moment{m + 1}": self.moments[name][m]
                   for name in self.names for m in (0, 1)}}


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_four_calls(name):
    scene, options = CASES[name]
    scene = {**scene, "deterministic": True}
    one, four = Side(scene, options, "cuda"), Side(scene, options, "cuda")
    outputs, loss, grads = four.four_calls()
    step = one.step(outputs=("color", "radii"), wrt=("means2d", "means2d_abs"))
    assert torch.equal(step.outputs.color, outputs.color)
    assert torch.equal(step.outputs.radii, outputs.radii)
    assert torch.equal(step.grads.means2d, grads.means2d)
    assert torch.equal(step.grads.means2d_abs, grads.means2d_abs)
    assert torch.equal(step.loss, loss.loss) and torch.equal(step.parts, loss.parts)
    for key, value in one.values().items():
        assert torch.equal(value, four.values()[key]), key
    before = Side(scene, options, "cuda").values()
    if len(scene["means"]) > 1:
        stepped = (one.args["means"] != before["means"]).any(1)
        assert stepped.any()
        if options.get("all_rows"):
            assert stepped.sum() > (outputs.radii > 0).sum()
        else:
            assert torch.equal(stepped, outputs.radii > 0)


@pytest.mark.parametrize("name", [name for name in CASES if name != "none"])
def test_as_on_the_cpu(name):
    scene, options = CASES[name]
    gpu, cpu, before = (Side(scene, options, device) for device in ("cuda", "cpu", "cpu"))
    found, wanted = gpu.step(), cpu.step()
    assert relative(found.loss, wanted.loss, f"{name} loss") < 1e-5
    for key, value in cpu.values().items():
        first = before.values()[key]
        assert relative(gpu.values()[key].cpu() - first, value - first, f"{name} {key}") < 1e-3


@pytest.mark.parametrize("compat", [False, True])
def test_stored_values(compat):
    """Images and gradients by logarithms and logits are those by what they stand for."""
    plain = {**gaussians(4000, 7), **camera(200, 136), "sh": sh(4000, 1, 2),
             "compat_3dgs": compat, "deterministic": True}
    plain["opacities"] = np.clip(plain["opacities"], 0, 0.999)
    wrt = ("means", "scales", "opacities", "rotations", "sh")
    images, results = [], []
    for scene in (plain, stored(plain)):
        args = to_cuda(scene)
        outputs, saved = gsplat_c.rasterize_forward(**args)
        by_color = torch.cos(torch.arange(outputs.color.numel(), device="cuda").float())
        images.append(outputs.color)
        results.append(gsplat_c.rasterize_backward(
            saved, wrt=wrt, grad_color=by_color.reshape(outputs.color.shape), **args).asdict())
    assert relative(images[1], images[0], "colour") < 2e-6
    opacities = torch.from_numpy(plain["opacities"]).cuda()
    results[0]["scales"] *= torch.from_numpy(plain["scales"]).cuda()
    results[0]["opacities"] *= opacities * (1 - opacities)
    for name in wrt:
        assert relative(results[1][name], results[0][name], name) < 1e-3


def test_training_lowers_the_loss():
    scene = {**stored({**gaussians(3000, 2, size=0.1), **camera(160, 120)}),
             **split(sh(3000, 1, 1))}
    side = Side(scene, {}, "cuda")
    side.target = gsplat_c.rasterize(**side.args).color
    side.args["opacities"] -= 1.5
    losses = []
    for step in range(1, 41):
        for m1, m2 in side.moments.values():
            if step == 1:
                m1.zero_(), m2.zero_()
        groups = {name: {"moment1": m[0], "moment2": m[1], "step": step,
                         "lr": 0.1 if name == "opacities" else 1e-4}
                  for name, m in side.moments.items()}
        losses.append(gsplat_c.train_step(target=side.target, groups=groups, **side.args).loss)
    losses = [float(loss) for loss in losses]
    assert losses[-1] < losses[0] / 5, losses


def test_other_streams():
    scene, options = CASES["split"]
    scene = {**scene, "deterministic": True}
    one, other = Side(scene, options, "cuda"), Side(scene, options, "cuda")
    one.step()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        other.step()
    torch.cuda.synchronize()
    for key, value in one.values().items():
        assert torch.equal(value, other.values()[key]), key
