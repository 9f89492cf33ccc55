"""Inputs that break others, on CUDA: shapes, types, layouts, bad values, hardly anything."""

import numpy as np
import pytest
import torch

import gsplat_c
from conftest import relative, to_cuda
from gsplat_c import _arrays
from gsplat_c._call import device_word, dtype_word
from scenes import camera, cases, gaussians
from steps import Raw, Steps, message

CASES = dict(cases())
COLORS = CASES["colors"][0]
SH = CASES["sh3"][0]
SPLATS = ("means", "opacities", "scales", "rotations", "colors", "sh")


def rows(args, chosen):
    return {k: np.ascontiguousarray(v[chosen]) if k in SPLATS else v for k, v in args.items()}


def run(args, wrt=("means", "opacities", "scales", "rotations"), outputs=("color", "alpha")):
    """(outputs, gradients of a loss of every output)"""
    args = to_cuda(args)
    out, saved = gsplat_c.rasterize_forward(outputs=outputs, **args)
    given = {f"grad_{k}": torch.ones_like(getattr(out, k)) for k in outputs
             if k in ("color", "alpha", "depth", "inv_depth")}
    return out, gsplat_c.rasterize_backward(saved, wrt=wrt, **given, **args)


@pytest.mark.parametrize("name, shape", [
    ("scales", (4000, 1)), ("scales", (4000, 2)), ("scales", (1, 3)), ("rotations", (4000, 3)),
    ("opacities", (3999,)), ("opacities", (4000, 2)), ("colors", (3999, 3)), ("means", (4000, 2)),
    ("view", (3, 4)), ("intrinsics", (3,)), ("background", (4,))])
def test_wrong_shapes_are_refused(name, shape):
    args = {**to_cuda(COLORS), name: torch.zeros(shape, device="cuda")}
    with pytest.raises(ValueError, match=name if name != "means" else "expected") as error:
        gsplat_c.rasterize(**args)
    assert error.value.status_name == "GSC_ERROR_SHAPE"


def test_too_few_harmonics_for_a_degree_are_refused():
    args = {**to_cuda(SH), "sh": torch.zeros(3000, 9, 3, device="cuda"), "sh_degree": 3}
    with pytest.raises(ValueError, match="sh"):
        gsplat_c.rasterize(**args)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("name", ["scales", "opacities", "colors", "view"])
def test_wrong_types_are_refused(name, dtype):
    args = to_cuda(COLORS)
    with pytest.raises(ValueError, match=f"{name} is .*, expected float32") as error:
        gsplat_c.rasterize(**{**args, name: args[name].to(dtype)})
    assert error.value.status_name == "GSC_ERROR_DTYPE"


def strided(tensor):
    """The same values with gaps."""
    wide = torch.full((*tensor.shape, 2), 7.0, device="cuda")
    wide[..., 0] = tensor
    return wide[..., 0]


def test_inputs_that_are_not_dense_are_copied_by_the_package():
    args = to_cuda(COLORS)
    loose = {k: strided(v) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    assert not loose["means"].is_contiguous()
    assert torch.equal(gsplat_c.rasterize(**loose).color, gsplat_c.rasterize(**args).color)
    for name in ("means", "view"):
        turned = {**args, name: args[name].t().contiguous().t()}
        assert torch.equal(gsplat_c.rasterize(**turned).color, gsplat_c.rasterize(**args).color)


class Strided(Raw):
    """Raw memory that claims strides; registered with an adapter of its own."""

    def __init__(self, tensor):
        super().__init__(tensor.data_ptr(), tensor.shape)
        self.strides = tensor.stride()


class StridedArrays(_arrays.Arrays):
    def pack(self, block, value, name, strided=False, writable=False):
        return block.tensor(name, value.address, device_word(value.device), dtype_word(2, 32),
                            value.shape, value.strides)


@pytest.mark.parametrize("name", ["opacities", "scales", "rotations", "colors", "view"])
def test_inputs_that_are_not_dense_are_refused_by_the_library(name):
    _arrays.adapters[Strided] = StridedArrays()
    args = to_cuda(COLORS)
    loose = strided(args[name])
    color = torch.empty(3, COLORS["height"], COLORS["width"], device="cuda")
    steps = Steps({**args, name: Strided(loose)}, {"color": color})
    assert steps.sizes() == "GSC_ERROR_LAYOUT"
    assert f"{name} has stride" in message()


def test_outputs_that_are_not_dense_are_refused():
    args = to_cuda(COLORS)
    loose = strided(torch.zeros(3, COLORS["height"], COLORS["width"], device="cuda"))
    with pytest.raises(ValueError, match="color is not dense"):
        gsplat_c.rasterize(out={"color": loose}, **args)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["means", "scales", "rotations", "opacities", "sh"])
def test_a_non_finite_gaussian_spoils_no_other_gradient(field, value):
    bad = {k: v.copy() if k in SPLATS else v for k, v in SH.items()}
    bad[field][17] = value
    out, grads = run(bad, (*SPLATS[:4], "sh"))
    keep = np.arange(3000) != 17
    good_out, good = run(rows(SH, keep), (*SPLATS[:4], "sh"))
    assert torch.equal(out.color, good_out.color)
    for name in (*SPLATS[:4], "sh"):
        value = getattr(grads, name)
        assert torch.isfinite(value).all() and not value[17].any()
        assert relative(value[torch.from_numpy(keep).cuda()], getattr(good, name)) < 1e-5


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_a_non_finite_colour_culls_its_gaussian(channels):
    rng = np.random.default_rng(3)
    args = {**COLORS, "colors": rng.random((4000, channels)).astype(np.float32)}
    args.pop("background")
    bad = {**args, "colors": args["colors"].copy()}
    bad["colors"][5, channels - 1] = np.nan
    a, b = run(bad)[0], run(rows(args, np.arange(4000) != 5))[0]
    assert torch.equal(a.color, b.color)


OPACITIES = (0.0, 1e-8, 0.001086, 0.0039, 1 / 255, np.nextafter(np.float32(1 / 255), 1), 1.0, 1.5,
             -0.1)


@pytest.mark.parametrize("opacity", OPACITIES)
def test_opacities_around_the_least_one(opacity):
    args = {**COLORS, "opacities": np.full(4000, opacity, np.float32)}
    out, grads = run(args)
    cpu = gsplat_c.rasterize(outputs=("color", "alpha"), **args)
    # At the threshold itself whole samples come and go by rounding.
    limit = 2e-3 if abs(opacity - 1 / 255) < 1e-6 else 2e-5
    assert relative(out.color, cpu.color, "" if limit > 1e-3 else "opacities") < limit
    assert torch.isfinite(grads.means).all() and torch.isfinite(grads.opacities).all()
    if opacity < 0.0039:
        assert not out.alpha.any() and not grads.means.any()


def check_background(args):
    out, grads = run(args)
    expected = torch.from_numpy(args["background"]).cuda()[:, None, None]
    assert torch.equal(out.color, expected.expand_as(out.color))
    assert not out.alpha.any()
    for name in SPLATS[:4]:
        value = getattr(grads, name)
        assert value.shape == args[name].shape and not value.any()


SIZES = ((1, 1), (16, 16), (17, 1), (257, 131))
HIDDEN = {
    "behind": lambda a: {"means": a["means"] - np.float32([0, 0, 100])},
    "transparent": lambda a: {"opacities": 0 * a["opacities"]},
    "beside": lambda a: {"means": 0.1 * a["means"] + np.float32([300, 0, 0])},
    "never a number": lambda a: {"means": np.nan * a["means"]},
    "beyond": lambda a: {"far_plane": 0.2001},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", HIDDEN)
def test_nothing_visible_is_the_background(kind, size):
    view = {k: v for k, v in COLORS.items() if k not in ("width", "height", "intrinsics")}
    args = {**view, **{k: v for k, v in camera(*size).items() if k not in ("view",)}}
    check_background({**args, **HIDDEN[kind](args)})


@pytest.mark.parametrize("size", SIZES)
def test_no_gaussians_at_all(size):
    args = rows({**COLORS, **camera(*size)}, slice(0, 0))
    check_background(args)
    sh = rows({**SH, "background": COLORS["background"]}, slice(0, 0))
    out, grads = run(sh, ("sh",))
    assert grads.sh.shape == (0, 16, 3)
    assert gsplat_c.knn(torch.zeros(0, 3, device="cuda")).indices.shape == (0, 3)
    assert gsplat_c.mark_visible(means=torch.zeros(0, 3, device="cuda"),
                                 view=torch.eye(4, device="cuda")).shape == (0,)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 255, 256, 257])
def test_a_single_gaussian_and_few(count):
    args = rows(COLORS, slice(0, count))
    out, grads = run(args)
    cpu, saved = gsplat_c.rasterize_forward(outputs=("color", "alpha"), **args)
    exact = gsplat_c.rasterize_backward(
        saved, wrt=SPLATS[:4], grad_color=np.ones_like(cpu.color),
        grad_alpha=np.ones_like(cpu.alpha), **args)
    assert relative(out.color, cpu.color, f"{count} Gaussians") < 1e-5
    for name in SPLATS[:4]:
        assert relative(getattr(grads, name), getattr(exact, name), f"{count} d {name}") < 1e-4


@pytest.mark.parametrize("z, seen", [(0.1999, False), (0.2, False), (0.2001, True)])
def test_the_near_plane(z, seen):
    args = {"means": np.float32([[0, 0, z]]), "scales": np.full((1, 3), 0.01, np.float32),
            "rotations": np.float32([[1, 0, 0, 0]]), "opacities": np.float32([0.9]),
            "colors": np.float32([[1, 1, 1]]), "view": np.eye(4, dtype=np.float32),
            "intrinsics": np.float32([50, 50, 32, 32]), "width": 64, "height": 64}
    assert bool(run(args)[0].alpha.any()) == seen


def test_a_scaled_scene_is_the_same_image():
    small = {**COLORS, "near_plane": 0.002, "view": COLORS["view"].copy()}
    small["means"], small["scales"] = (np.float32(0.01) * COLORS[k] for k in ("means", "scales"))
    small["view"][:3, 3] *= np.float32(0.01)
    a, b = run(small)[0].color, run(COLORS)[0].color
    assert relative(a, b, "scaled scene") < 2e-5


def test_a_centre_outside_the_image_whose_footprint_is_inside():
    args = {"means": np.float32([[-1.2, 0, 1]]), "scales": np.full((1, 3), 0.4, np.float32),
            "rotations": np.float32([[1, 0, 0, 0]]), "opacities": np.float32([0.9]),
            "colors": np.float32([[1, 1, 1]]), "view": np.eye(4, dtype=np.float32),
            "intrinsics": np.float32([50, 50, 32, 32]), "width": 64, "height": 64}
    out = run(args, outputs=("color", "alpha"))[0]
    assert out.alpha[:, :8].any()
    assert relative(out.color, gsplat_c.rasterize(**args).color) < 1e-5


def test_a_gaussian_at_the_camera_centre_gives_no_nan():
    args = {**rows(SH, slice(0, 50)), "near_plane": 1e-30}
    rotation = args["view"][:3, :3].astype(np.float64)
    args["means"][3] = -rotation.T @ args["view"][:3, 3]
    out, grads = run(args, ("means", "sh", "view"))
    for value in (out.color, grads.means, grads.sh, grads.view):
        assert torch.isfinite(value).all()


def test_equal_depths_blend_in_index_order():
    count = 3000
    args = {**gaussians(count, 5, size=0.2), **camera(96, 64),
            "colors": np.random.default_rng(2).random((count, 3)).astype(np.float32)}
    args["means"] = np.zeros((count, 3), np.float32)
    gpu, cpu = run(args)[0].color, gsplat_c.rasterize(**args).color
    assert relative(gpu, cpu, "equal depths") < 1e-5
    assert torch.equal(gpu, run(args)[0].color)
