"""PLY scenes: what public writers put into them, and what is refused."""

import struct
import time
import warnings

import numpy as np
import pytest
from ply_files import assert_same, columns_of, make_scene, ply_bytes
from samples import sample

from gsplat_c.io import Scene, load_ply, save_ply

SH0 = 0.28209479177387814


@pytest.fixture(autouse=True)
def no_warnings():
    """A warning that a test does not expect is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def load(tmp_path):
    """Loads the bytes of a file."""
    def function(data, **options):
        (tmp_path / "scene.ply").write_bytes(data)
        return load_ply(tmp_path / "scene.ply", **options)

    return function


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("degree", range(5))
def test_degrees(load, degree):
    scene = make_scene(degree=degree)
    loaded = load(ply_bytes(columns_of(scene)))
    assert_same(loaded, scene)
    assert loaded.means.dtype == loaded.sh.dtype == np.float32
    assert not loaded.antialiased and loaded.blur == 0.3


@pytest.mark.parametrize("options", [
    {"form": "ascii"}, {"form": "binary_big_endian"}, {"end": "\r\n"}, {"end": "   \n"},
    {"comments": ["Exported from Brush", "Vertical axis: y"]}])
def test_encodings(load, options):
    scene = make_scene()
    columns = columns_of(scene)
    shuffled = {name: columns[name] for name in sorted(columns, key=lambda name: name[::-1])}
    assert_same(load(ply_bytes(shuffled, **options)), scene)


LIST = ["element face 2", "property list uchar int vertex_indices", "property float weight"]


@pytest.mark.parametrize("form, before", [
    ("binary_little_endian", struct.pack("<B3ifBf", 3, 1, 2, 3, 0.5, 0, 0.5)),
    ("binary_big_endian", struct.pack(">B3ifBf", 3, 1, 2, 3, 0.5, 0, 0.5)),
    ("ascii", b"3 1 2 3 0.5\n\n0 0.5\n")])
def test_other_elements(load, form, before):
    scene = make_scene()
    data = ply_bytes(columns_of(scene), form, before=before, declare=["obj_info any", *LIST])
    assert_same(load(data), scene)
    assert_same(load(data + b"\n1 2 3 4 5"), scene)  # of an element behind, or of nothing
    with pytest.raises(ValueError, match="scene.ply: .*(cut short|could not convert)"):
        load(data[:data.index(b"end_header") + 14])


def test_doubles_remain(load):
    scene = make_scene()
    columns = columns_of(scene)
    far = {**columns, "x": columns["x"].astype(np.float64) + 5e6}
    for form in ("binary_little_endian", "ascii"):
        loaded = load(ply_bytes(far, form, types={"x": "f8"}))
        assert loaded.means.dtype == np.float64
        np.testing.assert_array_equal(loaded.means[:, 0], far["x"])
        assert_same(loaded, scene, ("log_scales", "logits"))


@pytest.mark.parametrize("kind, largest", [("u1", 255), ("u2", 65535), ("f4", 1)])
@pytest.mark.parametrize("names", ["red green blue", "r g b"])
def test_plain_colors(load, kind, largest, names):
    scene, colors = make_scene(degree=0), np.random.default_rng(0).uniform(size=(12, 3))
    colors = np.round(colors * largest) if largest > 1 else colors.astype(np.float32)
    columns = {name: values for name, values in columns_of(scene).items() if "f_dc" not in name}
    columns.update(zip(names.split(), colors.T))
    loaded = load(ply_bytes(columns, types=dict.fromkeys(names.split(), kind)))
    np.testing.assert_allclose(0.5 + SH0 * loaded.sh[:, 0], colors / largest, atol=1e-6)
    # Beside spherical harmonics they are only for viewers of points.
    both = {**columns_of(scene), **dict(zip(names.split(), colors.T))}
    assert_same(load(ply_bytes(both)), scene)


def test_plain_alpha(load):
    scene = make_scene(degree=0)
    columns = {name: values for name, values in columns_of(scene).items() if name != "opacity"}
    columns["alpha"] = np.linspace(0, 255, 12).round()
    loaded = load(ply_bytes(columns, types={"alpha": "u1"}))
    np.testing.assert_allclose(loaded.opacities, columns["alpha"] / 255, atol=2e-6)
    assert np.isfinite(loaded.logits).all()


@pytest.mark.parametrize("comments, antialiased, blur", [
    ([], False, 0.3), (["SplatRenderMode: mip"], True, 0.3),
    (["Exported from Brush", "splatrendermode:  MIP"], True, 0.1),
    (["antialiased 1"], True, 0.3), (["antialiased 0"], False, 0.3),
    (["antialiased 1", "SplatRenderMode: default"], False, 0.3),
    (["SplatRenderMode: other"], False, 0.3)])
def test_mode(load, comments, antialiased, blur):
    loaded = load(ply_bytes(columns_of(make_scene()), comments=comments))
    assert (loaded.antialiased, loaded.blur) == (antialiased, blur)


def test_filter_3d(load):
    scene = make_scene(count=40)
    scene.logits[:4] = 20, -20, 90, -90
    width = np.exp(np.random.default_rng(3).normal(-2, 1.5, 40)).astype(np.float32)
    width[5] = 0
    with pytest.warns(UserWarning, match="filter_3D .Mip-Splatting. is applied"):
        loaded = load(ply_bytes({**columns_of(scene), "filter_3D": width}))
    squares = np.exp(2 * scene.log_scales.astype(np.float64))
    wider = squares + np.square(width.astype(np.float64))[:, None]
    np.testing.assert_allclose(loaded.scales ** 2, wider, rtol=1e-5)
    factor = np.sqrt((squares / wider).prod(1))
    np.testing.assert_allclose(loaded.opacities, factor / (1 + np.exp(-scene.logits.astype(float))),
                               rtol=2e-5, atol=1e-30)
    assert loaded.antialiased and loaded.blur == 0.1
    assert_same(loaded, scene, ("means", "rotations", "sh"))


def test_discs(load):
    scene = make_scene()
    columns = {name: values for name, values in columns_of(scene).items() if name != "scale_2"}
    with pytest.warns(UserWarning, match="two scales .2D Gaussian splatting"):
        loaded = load(ply_bytes(columns))
    np.testing.assert_array_equal(loaded.log_scales[:, :2], scene.log_scales[:, :2])
    np.testing.assert_allclose(loaded.scales[:, 2], 1e-6 * loaded.scales[:, :2].min(1), rtol=1e-5)


def test_unused_columns_are_named(load):
    columns = {**columns_of(make_scene()), "beta": np.zeros(12), "label": np.zeros(12)}
    message = "scene.ply: columns that are not used: beta, label"
    with pytest.warns(UserWarning, match=message) as caught:
        load(ply_bytes(columns))
    assert caught[0].filename == __file__  # where the caller is


def test_invalid_rows(load):
    scene = make_scene()
    scene.means[3, 0], scene.log_scales[4, 1], scene.sh[7, 2, 1] = np.nan, np.inf, np.nan
    scene.rotations[5] = 0
    data = ply_bytes(columns_of(scene))
    with pytest.warns(UserWarning, match="4 of 12 Gaussians .*drop_invalid=True"):
        loaded = load(data)
    assert np.flatnonzero(loaded.invalid).tolist() == [3, 4, 5, 7]
    assert_same(load(data, drop_invalid=True), scene[~scene.invalid])


# ---------------------------------------------------------------------- refusal


def header(text):
    return b"ply\nformat binary_little_endian 1.0\n" + text.encode() + b"end_header\n"


@pytest.mark.parametrize("data, message", [
    (b"", "not a PLY file: it does not start with 'ply'$"),
    (b"solid", "not a PLY file"),
    (b"NGSP\4\0\0\0", "this is SPZ: convert it to PLY first"),
    (b"glTF\2\0\0\0", "this is glTF"),
    (b"ply\nformat binary_little_endian 1.0\nelement vertex 0\n", "header has no end_header"),
    (b"ply\n" + b"comment long\n" * 100000, "header has no end_header"),
    (b"ply\nelement vertex 0\nend_header\n", "header has no format line"),
    (b"ply\nformat binary 1.0\nend_header\n", "line 2: unknown format 'binary'"),
    (b"ply\nformat ascii 2.0\nend_header\n", "line 2: unknown format version '2.0'"),
    (header("element vertex -4\n"), "line 3: not a number of rows: '-4'"),
    (header("element vertex\n"), "line 3: expected 'element NAME COUNT'"),
    (header("element vertex 99999999999999999999\n"), "line 3: not a number of rows"),
    (header("property float x\n"), "line 3: no element yet for 'property'"),
    (header("element vertex 0\nproperty vloat x\n"), "line 4: unknown property type 'vloat'"),
    (header("element vertex 0\nproperty float\n"), "line 4: expected 'property TYPE NAME'"),
    (header("element vertex 0\nproperty list float int x\n"), "of a list must be an integer"),
    (header("element vertex 0\nproperty list int int x\n"), "property 'x' is a list"),
    (header("element vertex 0\nelement vertex 0\n"), "element 'vertex' occurs twice"),
    (header("element vertex 0\nproperty int x\nproperty int x\n"), "property 'x' occurs twice"),
    (header("element face 0\n"), "has no element 'vertex'"),
    (header("elements 0\n"), "line 3: unknown header keyword 'elements'"),
    (header("element face 1\nproperty list char int i\nelement vertex 0\n") + b"\xff",
     "list 'i' has length -1"),
    (header("element face 1\nproperty list uchar int i\nelement vertex 0\n") + b"\5\0\0",
     "cut short: the file ends in the middle of its data"),
    (header("element vertex 0\nproperty float x\n"), "no property 'y'"),
])
def test_what_is_no_scene(load, data, message):
    with pytest.raises(ValueError, match=f"scene.ply: .*{message}"):
        load(data)


def test_long_headers(load):
    """Time grows with the length of the header, not with its square; tabs separate words, too."""
    lines = "".join(f"property\tfloat p{index}\n" for index in range(45000))
    start = time.process_time()
    with pytest.raises(ValueError, match="no property 'x'"):
        load(header("element vertex 0\n" + lines))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("without, message", [
    ("rot_3", "no property 'rot_3'$"), ("scale_0", "'scale_0' .this looks like a point cloud"),
    ("opacity", "no property 'opacity'"), ("f_dc_2", "no property 'f_dc_2'"),
    ("f_rest_4", "has 8 properties f_rest_.; spherical harmonics")])
def test_missing_columns(load, without, message):
    columns = columns_of(make_scene())
    del columns[without]
    with pytest.raises(ValueError, match=message):
        load(ply_bytes(columns))
    columns = {name: values for name, values in columns_of(make_scene()).items()
               if not name.startswith("f_rest")}
    columns.update({f"f_rest_{i + (i > 3)}": columns["x"] for i in range(9)})
    with pytest.raises(ValueError, match="no property 'f_rest_4'"):
        load(ply_bytes(columns))


@pytest.mark.parametrize("column, message", [
    ("packed_position", "compressed scene: convert"), ("f_anchor_feat_0", "neural anchors"),
    ("trbf_center", "moving Gaussians")])
def test_other_scenes_are_named(load, column, message):
    with pytest.raises(ValueError, match=message):
        load(ply_bytes({"x": np.zeros(2), column: np.zeros(2)}))
    with pytest.raises(ValueError, match="code books"):
        load(header("element codebook_centers 0\nelement vertex 0\nproperty float x\n"))


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian"])
def test_cut_short(load, form):
    data = ply_bytes(columns_of(make_scene()), form)
    more = data.replace(b"vertex 12", b"vertex 13")
    for wrong in (more, data[:-len(data) // 3], data.replace(b"vertex 12", b"vertex 99999999999")):
        with pytest.raises(ValueError, match="scene.ply: .*(cut short|row)"):
            load(wrong)


def test_text_that_is_no_number(load):
    data = ply_bytes(columns_of(make_scene()), "ascii")
    first = data.index(b"end_header\n") + 11
    with pytest.raises(ValueError, match="scene.ply: could not convert"):
        load(data[:first] + b"x" + data[first:])
    rows = b"\n".join(line + b" 0" for line in data[first:].splitlines())
    with pytest.raises(ValueError, match="has 27 numbers, expected 26"):
        load(data[:first] + rows)


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize("antialiased", [False, True])
def test_round_trip(tmp_path, antialiased):
    scene = make_scene(degree=3)
    scene = Scene(scene.means, scene.log_scales, 3 * scene.rotations, scene.logits, scene.sh,
                  antialiased)
    save_ply(tmp_path / "scene.ply", scene)
    data = (tmp_path / "scene.ply").read_bytes()
    assert b"z\nproperty float nx\nproperty float ny\n" in data
    assert (b"comment SplatRenderMode: mip\n" in data) == antialiased
    loaded = load_ply(tmp_path / "scene.ply")
    assert_same(loaded, scene, ("means", "log_scales", "logits", "sh"))
    np.testing.assert_allclose(loaded.rotations, scene.rotations / 3, rtol=1e-6)
    assert loaded.antialiased == antialiased


def test_writing_what_is_special(tmp_path):
    scene = make_scene()
    scene = Scene(scene.means + 5e6, scene.log_scales, scene.rotations, scene.logits, scene.sh,
                  True, 0.1).moved([0.25, 0, 0])
    scene.logits[:2] = np.inf, -np.inf
    scene.rotations[3] = 0
    with pytest.warns(UserWarning, match="does not hold the blur of 0.1"):
        save_ply(tmp_path / "scene.ply", scene)
    with pytest.warns(UserWarning, match="1 of 12"):
        loaded = load_ply(tmp_path / "scene.ply")
    np.testing.assert_array_equal(loaded.means, scene.means)
    np.testing.assert_allclose(loaded.opacities[:2], [1 - 1e-6, 1e-6], rtol=1e-6, atol=1e-7)


def test_nothing(tmp_path):
    scene = make_scene()[:0]
    save_ply(tmp_path / "scene.ply", scene)
    loaded = load_ply(tmp_path / "scene.ply")
    assert len(loaded) == 0 and loaded.sh.shape == (0, 4, 3)
    assert len(load_ply(tmp_path / "scene.ply", drop_invalid=True)) == 0


def test_shapes_that_do_not_fit():
    scene = make_scene()
    parts = [scene.means, scene.log_scales, scene.rotations, scene.logits, scene.sh]
    with pytest.raises(ValueError, match=r"Scene: rotations is \[12, 3\], expected \[12, 4\]"):
        Scene(*parts[:2], scene.means, *parts[3:])
    with pytest.raises(ValueError, match="sh has 5 coefficients, expected 1, 4, 9, 16 or 25"):
        Scene(*parts[:4], np.zeros((12, 5, 3), np.float32))


# ---------------------------------------------------------------------- samples

SAME = ("ascii big_endian brush_mip crlf_header double_positions padded_count "
        "postshot_antialiased shuffled_columns sh4 extra_elements_after "
        "extra_element_before_list").split()


@pytest.mark.parametrize("name", SAME)
def test_variants(name):
    scene = load_ply(sample(f"ply_variants/{name}.ply"))
    expected = np.load(sample("ply_variants/expect.npy"))
    rest = expected[:, 14:]
    if name == "sh4":
        rest = np.load(sample("ply_variants/expect_sh4_rest.npy"))
    elif "element" in name:
        rest = rest[:, :0]
    values = {"means": expected[:, :3], "rotations": expected[:, 3:7],
              "log_scales": expected[:, 7:10], "logits": expected[:, 10]}
    for key, value in values.items():
        np.testing.assert_array_equal(getattr(scene, key), value, key)
    np.testing.assert_array_equal(scene.sh[:, 0], expected[:, 11:14])
    np.testing.assert_array_equal(scene.sh[:, 1:].transpose(0, 2, 1).reshape(20, -1), rest)
    assert scene.antialiased == (name in ("brush_mip", "postshot_antialiased"))
    assert (scene.means.dtype == np.float64) == (name == "double_positions")


def test_variants_of_the_picture():
    expected = np.load(sample("ply_variants/expect.npy")).astype(np.float64)
    width = np.load(sample("ply_variants/expect_filter3d.npy")).reshape(-1, 1)
    with pytest.warns(UserWarning, match="filter_3D"):
        scene = load_ply(sample("ply_variants/mip_splatting_filter3d.ply"))
    squares = np.exp(2 * expected[:, 7:10])
    np.testing.assert_allclose(scene.scales ** 2, squares + width ** 2, rtol=1e-5)
    factor = np.sqrt(np.prod(squares / (squares + width ** 2), axis=1))
    np.testing.assert_allclose(scene.opacities, factor / (1 + np.exp(-expected[:, 10])), rtol=1e-5)

    scene = load_ply(sample("ply_variants/nerfstudio_rgb.ply"))
    color = np.clip(0.5 + SH0 * expected[:, 11:14], 0, 1)
    assert np.abs(0.5 + SH0 * scene.sh[:, 0] - color).max() <= 1 / 255 + 1e-6
    with pytest.warns(UserWarning, match="two scales"):
        load_ply(sample("ply_variants/twodgs_two_scales.ply"))
    with pytest.warns(UserWarning, match="3 of 20"):
        load_ply(sample("ply_variants/nan_rows.ply"))
    with pytest.raises(ValueError, match="point cloud"):
        load_ply(sample("ply_variants/points_only.ply"))


@pytest.mark.parametrize("name, message", [
    ("ply_count_huge", "cut short"), ("ply_count_negative", "not a number of rows"),
    ("ply_count_too_big", "cut short"), ("ply_duplicate_column", "'nx' occurs twice"),
    ("ply_f_rest_gap", "'f_rest_4'"), ("ply_missing_rot3", "'rot_3'"),
    ("ply_no_end_header", "unknown header keyword|end_header"), ("ply_truncated", "cut short"),
    ("ply_unknown_type", "'vloat'"), ("cply_chunks_do_not_fit", "compressed"),
    ("cply_sh_count_differs", "compressed"), ("cply_truncated", "compressed")])
def test_broken(name, message):
    with pytest.raises(ValueError, match=f"{name}.ply: .*({message})"):
        load_ply(sample(f"broken/{name}.ply"))


def test_broken_of_other_kinds():
    folder = sample("broken")
    assert len(load_ply(folder / "ply_trailing_ok.ply")) == 40
    for path in folder.iterdir():
        if path.suffix != ".ply":
            with pytest.raises(ValueError, match="not a PLY file"):
                load_ply(path)


@pytest.mark.parametrize("degree", range(4))
def test_whole_scenes(degree):
    expected = np.load(sample(f"scenes/scene_sh{degree}.ply.npy"))
    scene = load_ply(sample(f"scenes/scene_sh{degree}.ply"))[expected[:, 0].astype(int)]
    np.testing.assert_array_equal(scene.means, expected[:, 1:4])
    np.testing.assert_array_equal(scene.rotations, expected[:, 4:8])
    np.testing.assert_array_equal(scene.log_scales, expected[:, 8:11])
    np.testing.assert_allclose(scene.opacities, expected[:, 11], atol=2e-6)
    np.testing.assert_array_equal(scene.sh[:, 0], expected[:, 12:15])
    np.testing.assert_array_equal(
        scene.sh[:, 1:].transpose(0, 2, 1).reshape(len(scene), -1), expected[:, 15:])
