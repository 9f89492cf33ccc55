"""Names, signatures, results and their types, from a table of what the originals had."""

import copy
import inspect
import pickle

import pytest
import torch
from frames import FIELDS, HEIGHT, SPLIT, VARIANTS, WIDTH, Camera, arguments, gaussians, inputs_of

PLAIN = "means3D means2D opacities shs colors_precomp scales rotations cov3D_precomp"
WITH_DC = "means3D means2D opacities dc shs colors_precomp scales rotations cov3D_precomp"
FORWARD = {**dict.fromkeys(VARIANTS, PLAIN), **dict.fromkeys(SPLIT, WITH_DC),
           "w-pose": PLAIN + " theta rho",
           "deformable": PLAIN.replace("means2D", "means2D means2D_densify")}
HELPER_PLAIN = ("means3D means2D sh colors_precomp opacities scales rotations cov3Ds_precomp "
                "raster_settings")
HELPER_DC = HELPER_PLAIN.replace("means2D sh", "means2D dc sh")
HELPER = {**dict.fromkeys(VARIANTS, HELPER_PLAIN), **dict.fromkeys(SPLIT, HELPER_DC),
          "w-pose": HELPER_PLAIN.replace("raster", "theta rho raster"),
          "deformable": HELPER_PLAIN.replace("means2D", "means2D means2D_densify")}

P = 25
IMAGE, MAP, COUNT = (3, HEIGHT, WIDTH), (1, HEIGHT, WIDTH), (P,)
F, I = torch.float32, torch.int32  # noqa: E741
COMMON = [(IMAGE, F, True), (COUNT, I, False)]
DEPTH = [(MAP, F, True)]
TAIL = [((0,), I), ((0,), F), ((0,), F), ((P, 2), F), (COUNT, F), (COUNT, I)]
NO_WEIGHTS = [((0,), I), *TAIL, ((0,), F), ((0,), I), ((0,), F), ((0,), F)]
WEIGHTS = [((HEIGHT, WIDTH), I), *TAIL, (COUNT, F), (COUNT, I), (COUNT, F), (COUNT, F)]


def typed(rows):
    """Every float result of the originals hangs on the graph, though few have a gradient."""
    return [(shape, dtype, dtype is F) for shape, dtype in rows]


RESULTS = {
    "2023": COMMON, "taming-rasterizer": COMMON, "2024-08": COMMON + DEPTH,
    "2024": COMMON + DEPTH, "2024-accel": COMMON + DEPTH, "w-depth": COMMON + DEPTH,
    "w-pose": COMMON + DEPTH + DEPTH + [(COUNT, I, False)], "depth-alpha": COMMON + DEPTH + DEPTH,
    "taming": COMMON + typed(NO_WEIGHTS), "pixelsplat": COMMON, "mip": COMMON,
    **dict.fromkeys(("depth-constant", "depth-grad", "deformable"), COMMON + DEPTH),
}
ADAM = ("2024-accel", "taming-rasterizer", "taming")


@pytest.mark.parametrize("variant", VARIANTS)
def test_names(use, variant):
    modules = use(variant)
    dgr, raw = modules.dgr, modules.raw
    for name in ("GaussianRasterizationSettings", "GaussianRasterizer", "rasterize_gaussians",
                 "_RasterizeGaussians"):
        assert getattr(dgr, name).__module__ == "diff_gaussian_rasterization"
        assert getattr(dgr, name).__qualname__ == name
    assert issubclass(dgr.GaussianRasterizer, torch.nn.Module)
    assert issubclass(dgr._RasterizeGaussians, torch.autograd.Function)
    assert hasattr(dgr, "cpu_deep_copy_tuple") == (variant != "w-depth")
    # Callers conclude from this name that dc= works.
    assert hasattr(dgr, "SparseGaussianAdam") == (variant in ADAM)
    assert hasattr(raw, "adamUpdate") == (variant in ADAM)
    assert hasattr(raw, "fusedssim") == (variant in ("2024-accel", "taming-rasterizer"))
    assert hasattr(raw, "fusedssim_backward") == hasattr(raw, "fusedssim")
    for name in ("rasterize_gaussians", "rasterize_gaussians_backward", "mark_visible"):
        assert callable(getattr(raw, name))
    assert dgr._C is raw
    assert callable(modules.knn.distCUDA2)
    for name in ("fused_ssim", "fused_ssim3d", "FusedSSIMMap"):
        assert callable(getattr(modules.ssim, name))
    assert modules.ssim.allowed_padding == ["same", "valid"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_signatures(use, variant):
    dgr = use(variant).dgr
    settings = dgr.GaussianRasterizationSettings
    assert settings._fields == tuple(FIELDS[variant].split())
    assert list(settings.__annotations__) == FIELDS[variant].split()
    assert settings._field_defaults == {} and issubclass(settings, tuple)
    assert list(inspect.signature(settings).parameters) == FIELDS[variant].split()

    parameters = list(inspect.signature(dgr.GaussianRasterizer.forward).parameters.values())[1:]
    assert [p.name for p in parameters] == FORWARD[variant].split()
    required = 4 if variant == "deformable" else 3
    assert [p.default for p in parameters] == \
        [inspect.Parameter.empty] * required + [None] * (len(parameters) - required)
    assert list(inspect.signature(dgr.rasterize_gaussians).parameters) == HELPER[variant].split()
    assert list(inspect.signature(dgr.GaussianRasterizer).parameters) == ["raster_settings"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_results(use, device, variant):
    dgr = use(variant).dgr
    settings = dgr.GaussianRasterizationSettings(**Camera(device).settings(variant))
    rasterizer = dgr.GaussianRasterizer(raster_settings=settings)
    assert rasterizer.raster_settings is settings
    results = rasterizer(**inputs_of(gaussians(P, device), variant))
    assert isinstance(results, tuple)
    found = [(tuple(r.shape), r.dtype, r.requires_grad) for r in results]
    assert found == RESULTS[variant]
    assert all(r.device.type == device for r in results)


def test_results_with_weights(use, device):
    dgr = use("taming").dgr
    weights = torch.rand(HEIGHT, WIDTH, device=device)
    camera = Camera(device)
    settings = dgr.GaussianRasterizationSettings(**camera.settings("taming",
                                                                   pixel_weights=weights))
    results = dgr.GaussianRasterizer(settings)(**arguments(gaussians(P, device), True))
    assert [(tuple(r.shape), r.dtype) for r in results[2:]] == WEIGHTS
    plain = dgr.GaussianRasterizationSettings(**camera.settings("taming"))
    without = dgr.GaussianRasterizer(plain)(**arguments(gaussians(P, device), True))
    torch.testing.assert_close(results[0], without[0], rtol=1e-5, atol=1e-6)
    assert (results[2] == 0).all() and results[9].sum() > 0 and results[10].sum() > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_helper_draws_the_same(use, device, variant):
    dgr = use(variant).dgr
    settings = dgr.GaussianRasterizationSettings(**Camera(device).settings(variant))
    args = inputs_of(gaussians(P, device), variant)
    wanted = dgr.GaussianRasterizer(settings)(**args)
    absent = torch.Tensor([])  # what the original's Python layer passes for None
    named = {"sh": args["shs"], "cov3Ds_precomp": absent, "colors_precomp": absent,
             "raster_settings": settings, "theta": absent, "rho": absent, **args}
    named.update(cov3Ds_precomp=absent, colors_precomp=absent)
    order = HELPER[variant].split()
    for got in (dgr.rasterize_gaussians(*(named[name] for name in order)),
                dgr.rasterize_gaussians(**{name: named[name] for name in order}),
                dgr._RasterizeGaussians.apply(*(named[name] for name in order))):
        assert len(got) == len(wanted) and all(map(torch.equal, got, wanted))


@pytest.mark.parametrize("variant", VARIANTS)
def test_settings_survive_copies(use, variant):
    dgr = use(variant).dgr
    settings = dgr.GaussianRasterizationSettings(**Camera().settings(variant))
    for again in (copy.deepcopy(settings), copy.copy(settings),
                  pickle.loads(pickle.dumps(settings)), settings._replace(sh_degree=1)):
        assert type(again) is type(settings)
        for one, other in zip(settings, again):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert settings._replace(image_width=7).image_width == 7
    assert settings._asdict()["image_height"] == HEIGHT


@pytest.mark.parametrize("variant", ["2023", "2024", "taming", "w-depth", "w-pose", "mip"])
def test_settings_choose(use, variant):
    """Without a name the fields that a caller gives decide."""
    dgr = use(None).dgr
    assert hasattr(dgr, "SparseGaussianAdam")
    keywords = Camera().settings(variant)
    settings = dgr.GaussianRasterizationSettings(**keywords)
    assert isinstance(settings, dgr.GaussianRasterizationSettings)
    assert settings._fields == tuple(FIELDS[variant].split())
    by_position = dgr.GaussianRasterizationSettings(*keywords.values())
    assert type(by_position) is type(settings)
    assert type(pickle.loads(pickle.dumps(settings))) is type(settings)

    leaves = gaussians(P)
    wanted = RESULTS[variant]
    results = dgr.GaussianRasterizer(settings)(**inputs_of(leaves, variant))
    assert [(tuple(r.shape), r.dtype, r.requires_grad) for r in results] == wanted
    if variant == "w-pose":
        with pytest.raises(TypeError, match="dc"):
            dgr.GaussianRasterizer(settings)(**arguments(leaves, True))
        return
    split = dgr.GaussianRasterizer(settings)(**arguments(leaves, True))
    torch.testing.assert_close(split[0], results[0])
    assert len(split) == len(wanted)


def test_settings_show_the_fields_of_all(use):
    """Programs look whether a field is there before they pass it."""
    settings = use("auto").dgr.GaussianRasterizationSettings
    wanted = {name for fields in FIELDS.values() for name in fields.split()}
    assert set(settings._fields) == set(inspect.signature(settings).parameters) == wanted


def test_older_generations_may_leave_fields_out(use):
    dgr = use(None).dgr
    keywords = Camera().settings("2024")
    del keywords["debug"]
    assert dgr.GaussianRasterizationSettings(**keywords).debug is False
    with pytest.raises(TypeError):
        dgr.GaussianRasterizationSettings(**keywords, surprise=1)
    with pytest.raises(TypeError):
        dgr.GaussianRasterizationSettings(**{**keywords, "pixel_weights": None})
    del keywords["bg"]
    with pytest.raises(TypeError, match="bg"):
        dgr.GaussianRasterizationSettings(**keywords)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_named_variant_wants_its_own_fields(use, variant):
    settings = use(variant).dgr.GaussianRasterizationSettings
    keywords = Camera().settings(variant)
    with pytest.raises(TypeError, match="surprise"):
        settings(**keywords, surprise=1)
    keywords.pop(FIELDS[variant].split()[-1])
    with pytest.raises(TypeError):
        settings(**keywords)


def test_antialiasing_is_fixed_or_chosen(use):
    camera, args = Camera(), arguments(gaussians(P), False)

    def color(variant, **changes):
        dgr = use(variant).dgr
        settings = dgr.GaussianRasterizationSettings(**camera.settings(variant, **changes))
        return dgr.GaussianRasterizer(settings)(**args)[0]

    plain, smooth = color("2023"), color("2024-08")
    assert not torch.allclose(plain, smooth)
    assert torch.equal(color("2024", antialiasing=True), smooth)
    assert torch.equal(color("2024", antialiasing=False), plain)
