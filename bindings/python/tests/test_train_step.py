"""A training step is the four calls that it stands for, and what it refuses."""

import numpy as np
import pytest

import gsplat_c
from scenes import cloud

PARAMETERS = ("means", "opacities", "scales", "rotations", "colors")


def stored(**changes):
    """A cloud as training holds it."""
    args = cloud(**changes)
    opacities = args["opacities"]
    return {**args, "scales": np.log(args["scales"]), "log_scales": True,
            "opacities": np.log(opacities / (1 - opacities)), "logit_opacities": True}


def numpy_array(values):
    return np.array(values, np.float32)


def torch_tensor(values):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(np.array(values, np.float32))


@pytest.fixture(params=[numpy_array, torch_tensor])
def array(request):
    return request.param


def with_harmonics():
    """The parameters as 3DGS keeps them."""
    args = stored()
    random = np.random.default_rng(4)
    del args["colors"]
    return {**args, "sh_dc": random.normal(0, 0.5, (40, 1, 3)).astype(np.float32),
            "sh": random.normal(0, 0.1, (40, 15, 3)).astype(np.float32), "sh_degree": 2}


class Side:
    def __init__(self, args, array):
        self.args = {k: array(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
        names = [*PARAMETERS, "sh", "sh_dc"]
        self.names = [name for name in names if name in args]
        random = np.random.default_rng(1)
        self.target = array(random.uniform(0, 1, (3, 28, 40)))
        self.moments = {name: (array(random.uniform(-1e-3, 1e-3, args[name].shape)),
                               array(random.uniform(0, 1e-5, args[name].shape)))
                        for name in self.names}

    def groups(self, **settings):
        return {name: {"moment1": m, "moment2": v, "lr": 0.01, **settings}
                for name, (m, v) in self.moments.items()}

    def four_calls(self, visible=True, decoupled=False, **settings):
        outputs, saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **self.args)
        loss = gsplat_c.image_loss(outputs.color[None], self.target[None],
                                   outputs=("loss", "parts", "grad_image"))
        grads = gsplat_c.rasterize_backward(saved, wrt=(*self.names, "means2d"),
                                            grad_color=loss.grad_image[0], **self.args)
        groups = [{"parameter": self.args[name], "gradient": getattr(grads, name), **group}
                  for name, group in self.groups(**settings).items()]
        gsplat_c.adam_step(groups, visible=outputs.radii if visible else None,
                           decoupled=decoupled)
        return outputs, loss, grads


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("scene", [stored, with_harmonics])
@pytest.mark.parametrize("options", [
    {}, {"step": 3, "weight_decay": 0.01, "decoupled": True},
    {"all_rows": True, "beta1": 0.5, "beta2": 0.0, "epsilon": 1e-6}])
def test_the_same_as_four_calls(scene, options, array):
    args = scene()
    args["means"] = args["means"] * np.float32(3)  # some of it is out of sight
    four, one = Side(args, array), Side(args, array)
    settings = {k: v for k, v in options.items() if k not in ("decoupled", "all_rows")}
    outputs, loss, grads = four.four_calls(visible=not options.get("all_rows"),
                                           decoupled=options.get("decoupled", False), **settings)
    step = gsplat_c.train_step(
        target=one.target, groups=one.groups(**settings), parts=True,
        outputs=("color", "radii"), wrt=("means2d",), **one.args,
        **{k: v for k, v in options.items() if k in ("decoupled", "all_rows")})
    assert type(step.loss) is type(loss.loss)
    assert same(step.loss, loss.loss) and same(step.parts, loss.parts)
    assert same(step.outputs.color, outputs.color) and same(step.outputs.radii, outputs.radii)
    assert same(step.grads.means2d, grads.means2d)
    for name in one.names:
        assert same(one.args[name], four.args[name]), name
        assert same(one.moments[name][0], four.moments[name][0]), name
        assert same(one.moments[name][1], four.moments[name][1]), name
    seen = np.asarray(outputs.radii) > 0
    assert 0 < seen.sum() < 40
    moved = (np.asarray(one.args["means"]) != args["means"]).any(1)
    assert moved.all() if options.get("all_rows") else same(moved, seen)


def test_pixels_last_and_bytes(array):
    """The target has the colour's shape; bytes are read as value / 255."""
    args = {**stored(), "pixel_last": True}
    pixels = np.random.default_rng(2).integers(0, 256, (28, 40, 3)).astype(np.uint8)
    losses = []
    for target in (pixels, pixels.astype(np.float32) / np.float32(255),
                   np.float32(pixels.transpose(2, 0, 1) / 255.0).transpose(1, 2, 0)):
        side = Side(args, array)
        losses.append(float(gsplat_c.train_step(target=target, groups=side.groups(),
                                                **side.args).loss))
    np.testing.assert_allclose(losses[1:], losses[0], rtol=1e-6)
    with pytest.raises(ValueError, match=r"target is \[3, 28, 40\], expected \[1, 28, 40, 3\]"):
        gsplat_c.train_step(target=side.target, groups={}, **side.args)


def test_only_some_parameters(array):
    args = stored()
    side = Side(args, array)
    groups = {name: side.groups()[name] for name in ("colors", "scales")}
    out = array(np.full((40, 3), np.nan))
    step = gsplat_c.train_step(target=side.target, groups=groups, wrt=("means",),
                               out_grads={"means": out}, **side.args)
    assert step.grads.means is out and np.isfinite(np.asarray(out)).all()
    for name in PARAMETERS:
        assert same(side.args[name], args[name]) == (name not in groups), name
    assert step.parts is None and len(step.outputs) == 0


def test_into_arrays_of_the_caller(array):
    side = Side(stored(), array)
    out = {"loss": array(0), "color": array(np.zeros((3, 28, 40)))}
    step = gsplat_c.train_step(target=side.target, groups=side.groups(), out=out, **side.args)
    assert step.loss is out["loss"] and step.outputs.color is out["color"]
    assert float(step.loss) > 0 and float(out["color"].max()) > 0
    assert repr(step).startswith("TrainStep(loss=")


def test_refusals():
    side = Side(stored(), numpy_array)

    def step(groups, **changes):
        return gsplat_c.train_step(target=side.target, groups=groups, **{**side.args, **changes})

    group = side.groups()["means"]
    for groups, message in (({"mean": group}, r"groups has 'mean', expected any of means"),
                            ({"means": {**group, "betas": 1}}, r"\['means'\] has unknown 'betas'"),
                            ({"means": {"lr": 1}}, r"\['means'\] has missing 'moment1'"),
                            ({"sh": group}, r"groups\[0\] is for sh, which is not given"),
                            ({"rotations": group},
                             r"groups\[0\].moment1 is \[40, 3\], expected \[40, 4\]")):
        with pytest.raises(ValueError, match=rf"train_step: .*{message}"):
            step(groups)
    with pytest.raises(ValueError, match="means is read-only"):
        locked = side.args["means"].copy()
        locked.flags.writeable = False
        step({"means": group}, means=locked)
    with pytest.raises(ValueError, match="means is not dense"):
        step({"means": group}, means=np.asfortranarray(side.args["means"]))
    with pytest.raises(gsplat_c.UnsupportedError, match="view has 2 cameras, expected 1"):
        step({}, view=np.stack([side.args["view"]] * 2),
             intrinsics=np.stack([side.args["intrinsics"]] * 2))
    with pytest.raises(TypeError, match="needs the keyword arguments 'opacities', 'view'"):
        gsplat_c.train_step(target=side.target, groups={}, means=side.args["means"])


def test_stored_values(array):
    """Logarithms and logits give the images and gradients of what they stand for."""
    plain, raw = cloud(), stored()
    results = []
    for args in (plain, raw):
        args = {k: array(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
        outputs, saved = gsplat_c.rasterize_forward(**args)
        grads = gsplat_c.rasterize_backward(saved, wrt=("scales", "opacities"),
                                            grad_color=outputs.color, **args)
        results.append((np.asarray(outputs.color), np.asarray(grads.scales),
                        np.asarray(grads.opacities)))
    np.testing.assert_allclose(results[1][0], results[0][0], atol=2e-6)
    np.testing.assert_allclose(results[1][1], results[0][1] * plain["scales"], rtol=2e-3,
                               atol=2e-4)
    slopes = plain["opacities"] * (1 - plain["opacities"])
    np.testing.assert_allclose(results[1][2], results[0][2] * slopes, rtol=2e-3, atol=2e-4)
