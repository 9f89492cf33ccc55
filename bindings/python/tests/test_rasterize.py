"""Forward rendering from numpy arrays, against analytic images and the slow reference."""


import numpy as np
import pytest

import gsplat_c
import reference
from gsplat_c import _fields, _scene
from gsplat_c._abi import CONSTANTS, STRUCTS
from scenes import cloud, one_splat

PIXELS = ("color", "alpha", "depth", "inv_depth", "median_depth")


def reference_of(args):
    """The reference's images of the first camera of a scene."""
    f = {name: np.asarray(value, np.float64) for name, value in args.items()}
    return reference.render(
        f["means"], reference.covariances_of(f["scales"], f["rotations"]), f["opacities"],
        f["colors"], f["view"].T, f["intrinsics"], int(args["width"]), int(args["height"]),
        f.get("background"))


def test_one_splat_is_a_gaussian():
    result = gsplat_c.rasterize(**one_splat(), outputs=PIXELS)
    x = np.arange(33) + 0.5 - 16.5
    variance = (100 * 0.1 / 2) ** 2 + 0.3
    alpha = 0.8 * np.exp(-(x[None, :] ** 2 + x[:, None] ** 2) / (2 * variance))
    alpha[alpha < 1 / 255] = 0
    assert result.color.shape == (3, 33, 33) and result.color.dtype == np.float32
    for channel, value in enumerate((1, 0.5, 0.25)):
        np.testing.assert_allclose(result.color[channel], value * alpha, atol=1e-6)
    np.testing.assert_allclose(result.alpha, alpha, atol=1e-6)
    np.testing.assert_allclose(result.depth, 2 * alpha, atol=2e-6)
    np.testing.assert_allclose(result.inv_depth, alpha / 2, atol=1e-6)
    np.testing.assert_array_equal(result.median_depth, np.where(alpha >= 0.5, 2, 0))


def test_two_splats_blend_front_to_back():
    args = one_splat(
        means=np.array([[0, 0, 3], [0, 0, 2]], np.float32),
        scales=np.full((2, 3), 0.5, np.float32),
        rotations=np.array([[1, 0, 0, 0]] * 2, np.float32),
        opacities=np.array([0.6, 0.5], np.float32),
        colors=np.array([[1, 0, 0], [0, 1, 0]], np.float32),
        background=[0.0, 0.0, 1.0])
    centre = gsplat_c.rasterize(**args).color[:, 16, 16]
    np.testing.assert_allclose(centre, [0.5 * 0.6, 0.5, 0.5 * 0.4], atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_cloud_equals_the_reference(channels):
    args = cloud(channels=channels)
    result = gsplat_c.rasterize(**args, outputs=PIXELS)
    expected = reference_of(args)
    for name in PIXELS:
        np.testing.assert_allclose(getattr(result, name), expected[name], atol=2e-5, err_msg=name)


def test_per_gaussian_outputs():
    args = cloud()
    result = gsplat_c.rasterize(**args, outputs=("color", "radii", "means2d", "depths", "conics",
                                                 "opacities"))
    covariances = reference.covariances_of(np.float64(args["scales"]),
                                           np.float64(args["rotations"]))
    seen = result.radii > 0
    assert seen.sum() > 30 and result.radii.dtype == np.int32
    for i in np.nonzero(seen)[0]:
        centre, covariance, z = reference.splat_2d(np.float64(args["means"][i]), covariances[i],
                                                   np.float64(args["view"].T), args["intrinsics"])
        np.testing.assert_allclose(result.means2d[i], centre, atol=1e-4)
        np.testing.assert_allclose(result.depths[i], z, rtol=1e-5)
        inverse = np.linalg.inv(covariance)
        np.testing.assert_allclose(result.conics[i], inverse[[0, 0, 1], [0, 1, 1]], rtol=1e-3,
                                   atol=1e-5)
    np.testing.assert_array_equal(result.opacities[seen], args["opacities"][seen])


def test_statistics():
    args = one_splat()
    weights = np.random.default_rng(1).uniform(0, 1, (33, 33)).astype(np.float32)
    result = gsplat_c.rasterize(**args, pixel_weights=weights, outputs=(
        "color", "alpha", "touched", "weight_sum", "weight_count", "weight_blend",
        "weight_distance"))
    drawn = result.alpha > 0
    x = np.arange(33) + 0.5 - 16.5
    distance = np.hypot(x[None, :], x[:, None])
    assert result.weight_count.tolist() == [drawn.sum()]
    assert result.touched.tolist() == [(drawn & (1 - result.alpha > 0.5)).sum()]
    np.testing.assert_allclose(result.weight_sum, [weights[drawn].sum()], rtol=1e-5)
    np.testing.assert_allclose(result.weight_blend, [result.alpha.sum()], rtol=1e-5)
    np.testing.assert_allclose(result.weight_distance, [distance[drawn].sum()], rtol=1e-5)


def test_several_cameras_and_pixel_last():
    args = cloud()
    moved = args["view"].copy()
    moved[3, 0] += 0.2
    views = np.stack([args["view"], moved])
    both = {**args, "view": views, "intrinsics": np.stack([args["intrinsics"]] * 2)}
    result = gsplat_c.rasterize(**both, outputs=("color", "alpha", "radii"))
    last = gsplat_c.rasterize(**both, pixel_last=True).color
    assert result.color.shape == (2, 3, 28, 40) and result.radii.shape == (2, 40)
    assert last.shape == (2, 28, 40, 3)
    np.testing.assert_array_equal(last, np.moveaxis(result.color, 1, -1))
    for camera in range(2):
        alone = gsplat_c.rasterize(**{**args, "view": views[camera]}, outputs=("color", "alpha"))
        np.testing.assert_array_equal(alone.color, result.color[camera])
        np.testing.assert_array_equal(alone.alpha, result.alpha[camera])
    assert np.abs(result.color[0] - result.color[1]).max() > 0.01


def test_view_layouts_and_projection_agree():
    args = cloud()
    expected = gsplat_c.rasterize(**args).color
    rows = {**args, "view": np.ascontiguousarray(args["view"].T)}
    np.testing.assert_array_equal(gsplat_c.rasterize(**rows, view_row_major=True).color, expected)
    for transposed in (rows["view"].T, rows["view"][None].transpose(0, 2, 1)):
        seen = gsplat_c.rasterize(**{**args, "view": transposed}).color
        np.testing.assert_array_equal(seen.reshape(expected.shape), expected)
    np.testing.assert_array_equal(
        gsplat_c.rasterize(**{**args, "view": args["view"].tolist(),
                              "intrinsics": args["intrinsics"].tolist(),
                              "background": tuple(args["background"].tolist())}).color, expected)

    fx, fy, width, height = 40.0, 42.0, 40, 28
    centred = {**args, "intrinsics": [fx, fy, width / 2, height / 2]}
    near, far = 0.01, 100.0
    tan_x, tan_y = width / (2 * fx), height / (2 * fy)
    pinhole = np.zeros((4, 4))
    pinhole[0, 0], pinhole[1, 1], pinhole[3, 2] = 1 / tan_x, 1 / tan_y, 1
    pinhole[2, 2], pinhole[2, 3] = far / (far - near), -far * near / (far - near)
    projection = (pinhole @ np.float64(args["view"].T)).T
    del args["intrinsics"]
    np.testing.assert_allclose(
        gsplat_c.rasterize(**args, projection=np.ascontiguousarray(projection, np.float32),
                           tan_fovx=tan_x, tan_fovy=tan_y).color,
        gsplat_c.rasterize(**centred).color, atol=1e-5)


def test_view_in_the_other_order():
    """A view by rows where columns are expected, or the reverse, is an error and not a picture."""
    args = cloud()
    view = np.eye(4, dtype=np.float32)
    view[:3, 3] = [0.1, 0, 4]
    with pytest.raises(ValueError, match="view has a last row of 0.1 0 4 1 in camera 0, expected "
                       "0 0 0 1: is it row-major. Then set GSC_RASTER_VIEW_ROW_MAJOR"):
        gsplat_c.rasterize(**{**args, "view": view})
    with pytest.raises(ValueError, match="is it column-major. Then do not set"):
        gsplat_c.rasterize(**{**args, "view": view.T.copy(), "view_row_major": True})
    gsplat_c.rasterize(**{**args, "view": view, "view_row_major": True})


def test_covariances_replace_scales_and_rotations():
    args = cloud()
    expected = gsplat_c.rasterize(**args).color
    full = reference.covariances_of(np.float64(args.pop("scales")),
                                    np.float64(args.pop("rotations")))
    packed = full[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]].astype(np.float32)
    np.testing.assert_allclose(gsplat_c.rasterize(**args, covariances=packed).color, expected,
                               atol=1e-4)


def test_spherical_harmonics_whole_and_split():
    args = one_splat()
    del args["colors"]
    sh = np.zeros((1, 4, 3), np.float32)
    sh[0, 0], sh[0, 2] = (0.5, 0.2, -0.1), (0.3, -0.2, 0.1)
    # Seen along +z only the constant and the z coefficient count.
    expected = 0.5 + 0.28209479 * sh[0, 0] + 0.48860251 * sh[0, 2]
    whole = gsplat_c.rasterize(**args, sh=sh)
    np.testing.assert_allclose(whole.color[:, 16, 16], 0.8 * expected, atol=1e-6)
    split = gsplat_c.rasterize(**args, sh_dc=sh[:, :1], sh=sh[:, 1:])
    np.testing.assert_array_equal(split.color, whole.color)
    constant = gsplat_c.rasterize(**args, sh=sh, sh_degree=0)
    np.testing.assert_allclose(constant.color[:, 16, 16],
                               0.8 * (0.5 + 0.28209479 * sh[0, 0]), atol=1e-6)
    only_dc = gsplat_c.rasterize(**args, sh_dc=sh[:, :1])
    np.testing.assert_array_equal(only_dc.color, constant.color)


def test_numbers_are_taken_as_they_are():
    """In C zero means "default"; here None does, and zero is zero."""
    near = one_splat(means=np.array([[0, 0, 0.1]], np.float32),
                     scales=np.full((1, 3), 0.005, np.float32))
    assert gsplat_c.rasterize(**near).color.max() == 0
    assert gsplat_c.rasterize(**near, near_plane=0).color.max() > 0.7
    assert gsplat_c.rasterize(**near, near_plane=0.05).color.max() > 0.7
    args = one_splat(outputs=("color", "alpha"))
    variance = (100 * 0.1 / 2) ** 2
    sharp = gsplat_c.rasterize(**args, blur=0).alpha[16, 17]
    np.testing.assert_allclose(sharp, 0.8 * np.exp(-1 / (2 * variance)), rtol=1e-5)
    thick = gsplat_c.rasterize(**args, scale_modifier=2, blur=1.0).alpha[16, 17]
    np.testing.assert_allclose(thick, 0.8 * np.exp(-1 / (2 * (4 * variance + 1))), rtol=1e-5)
    assert gsplat_c.rasterize(**args, far_plane=1.5).color.max() == 0
    assert gsplat_c.rasterize(**args, far_plane=float("inf")).color.max() > 0.7
    assert gsplat_c.rasterize(**args, radius_clip=100).color.max() == 0
    medians = gsplat_c.rasterize(**one_splat(), median_default=7, outputs=("color", "median_depth"))
    assert set(np.unique(medians.median_depth)) == {2, 7}


def test_antialiasing_and_compat_change_the_image():
    args = one_splat(scales=np.full((1, 3), 0.01, np.float32), outputs=("color", "opacities"))
    plain = gsplat_c.rasterize(**args)
    smooth = gsplat_c.rasterize(**args, antialias=True)
    variance = 0.25
    factor = variance / (variance + 0.3)  # sqrt of the determinants' ratio
    np.testing.assert_allclose(smooth.opacities, plain.opacities * factor, rtol=1e-4)
    compat = gsplat_c.rasterize(**one_splat(outputs=("color", "radii")), compat_3dgs=True)
    assert compat.radii[0] == np.ceil(3 * np.sqrt(25.3))


def test_nothing_to_draw():
    args = one_splat(means=np.zeros((0, 3), np.float32), scales=np.zeros((0, 3), np.float32),
                     rotations=np.zeros((0, 4), np.float32), opacities=np.zeros(0, np.float32),
                     colors=np.zeros((0, 3), np.float32), background=[0.25, 0.5, 0.75])
    result = gsplat_c.rasterize(**args, outputs=("color", "radii", "means2d"))
    assert result.radii.shape == (0,) and result.means2d.shape == (0, 2)
    assert (result.color == np.array([0.25, 0.5, 0.75])[:, None, None]).all()


def test_outputs_given_by_the_caller_are_written_in_full():
    expected = gsplat_c.rasterize(**cloud(), outputs=("color", "alpha"))
    color = np.full((3, 28, 40), np.nan, np.float32)
    alpha = np.full((28, 40), np.nan, np.float32)
    result = gsplat_c.rasterize(**cloud(), out={"color": color, "alpha": alpha})
    assert result.color is color and result.alpha is alpha
    np.testing.assert_array_equal(color, expected.color)
    np.testing.assert_array_equal(alpha, expected.alpha)


def test_two_axes_of_radii():
    radii = np.full((1, 2), -1, np.int32)
    args = one_splat(scales=np.array([[0.2, 0.05, 0.1]], np.float32))
    result = gsplat_c.rasterize(**args, out={"radii": radii})
    assert result.radii[0, 0] > 2 * result.radii[0, 1] > 0


def test_result_object():
    result = gsplat_c.rasterize(**one_splat(), outputs=("alpha", "color"))
    alpha, color = result
    assert alpha is result.alpha and color is result.color
    assert list(result.asdict()) == ["alpha", "color"] and "depth" not in result
    assert len(result) == 2 and "color=(3, 33, 33)" in repr(result)
    with pytest.raises(AttributeError, match="depth was not asked for, only alpha, color"):
        result.depth
    with pytest.raises(AttributeError, match="no field colour"):
        result.colour


def test_saved_forward_equals_forward_for_any_memory():
    args = cloud(count=200, seed=3)
    expected = gsplat_c.rasterize(**args, outputs=PIXELS)
    for limit in (None, 0, 4096):
        result, saved = gsplat_c.rasterize_forward(**args, outputs=PIXELS,
                                                   max_intersections_bytes=limit)
        for name in PIXELS:
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
        assert saved.state.dtype == np.uint8 and saved.state.ctypes.data % 256 == 0
        assert saved.pairs >= 200


def test_mark_visible():
    means = np.random.default_rng(0).uniform(-2, 2, (50, 3)).astype(np.float32)
    view = cloud()["view"]
    z = means @ view[:3, 2] + view[3, 2]
    for near, far in ((None, None), (1.0, 3.0)):
        visible = gsplat_c.mark_visible(means=means, view=view, near_plane=near, far_plane=far)
        assert visible.dtype == bool and visible.shape == (50,)
        np.testing.assert_array_equal(visible, (z > (near or 0.2)) & (z <= (far or np.inf)))
    both = gsplat_c.mark_visible(means=means, view=np.stack([view, cloud()["view"]]))
    assert both.shape == (2, 50)
    rows = gsplat_c.mark_visible(means=means, view=np.ascontiguousarray(view.T),
                                 view_row_major=True)
    np.testing.assert_array_equal(rows, both[0])


@pytest.mark.parametrize("name", _fields.FIELDS)
def test_every_argument_reaches_its_field(name):
    """In the struct as the header declares it; a switch sets the flag of its name."""
    field, value = _fields.FIELDS[name], object() if _fields.FIELDS[name].is_tensor else 7
    numbers, tensors = _scene.raster_fields("rasterize", {name: value})
    if field.flag:
        assert CONSTANTS[f"GSC_RASTER_{name.upper()}"] == numbers[0] and not any(tensors)
        return
    struct = [*zip(_fields.NUMBERS, numbers), *zip(_fields.TENSORS, tensors)]
    assert [name for name, _ in struct] == list(STRUCTS["gsc_raster_args"][2])[1:]
    assert [(key, found) for key, found in struct if found] == [(name, value)]


def test_defaults_and_what_stands_for_them():
    cases = {"near_plane": (0, 1.2e-38), "scale_modifier": (0.0, 1.2e-38), "blur": (0, -1.0),
             "far_plane": (float("inf"), 0.0)}
    for name, (value, packed) in cases.items():
        place = _fields.NUMBERS.index(name)
        assert _scene.raster_fields("rasterize", {name: value})[0][place] == packed
        assert _scene.raster_fields("rasterize", {name: None})[0][place] == 0
        assert _scene.raster_fields("rasterize", {name: 0.5})[0][place] == 0.5


def test_every_argument_and_result_is_documented():
    for name in _fields.FIELDS:
        assert f"\n        {name}: " in gsplat_c.rasterize.__doc__
    for name in _fields.OUTPUT_FIELDS:
        assert f"\n        {name}: " in gsplat_c.RasterOutputs.__doc__
    assert tuple(_fields.OUTPUT_FIELDS) == tuple(STRUCTS["gsc_raster_outputs"][2])[1:]
