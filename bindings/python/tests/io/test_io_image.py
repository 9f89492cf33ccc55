"""Pictures: every kind of PNG file, alpha, downscaling, and what is refused."""

import builtins
import struct
import zlib

import numpy as np
import pytest

from gsplat_c.io import downscale_image, load_image, save_image
from gsplat_c.io._png import _ADAM7, read_png

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a colour type


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pack(values, depth):
    """[H, count] values as rows of bytes."""
    if depth == 16:
        return values.astype(">u2").view(np.uint8).reshape(len(values), -1)
    bits = (values[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(len(values), -1), axis=1)


def filtered(rows, step, first):
    """Rows with their filters' types in front, all five in turn, one byte after the other."""
    height, size = rows.shape
    result = np.zeros((height, size + 1), np.uint8)
    for y in range(height):
        result[y, 0] = kind = (first + y) % 5
        for x in range(size):
            left = int(rows[y, x - step]) if x >= step else 0
            up = int(rows[y - 1, x]) if y else 0
            corner = int(rows[y - 1, x - step]) if y and x >= step else 0
            # The nearest of the three to left + up - corner, the first of those as near.
            paeth = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
            predicted = (0, left, up, (left + up) // 2, paeth)[kind]
            result[y, x + 1] = (int(rows[y, x]) - predicted) % 256
    return result


def png(values, kind, depth, interlaced=False, first=0, **more):
    """A file of [H, W, channels] values; more: chunks in front of the data."""
    height, width, channels = values.shape
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    data = b""
    for top, left, down, across in passes:
        part = values[top::down, left::across]
        if part.size:
            rows = pack(part.reshape(len(part), -1), depth)
            data += filtered(rows, max(channels * depth // 8, 1), first).tobytes()
    packed = zlib.compress(data)
    half = len(packed) // 2
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
            + b"".join(chunk(name.encode(), body) for name, body in more.items())
            + chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b""))


def random_values(kind, depth, height=11, width=13, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << depth, (height, width, CHANNELS[kind]))


@pytest.fixture
def load(tmp_path):
    def function(data, **options):
        (tmp_path / "picture.png").write_bytes(data)
        return load_image(tmp_path / "picture.png", **options)

    return function


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("kind, depth", [
    (0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (4, 8), (4, 16), (6, 8), (6, 16)])
def test_every_kind(load, kind, depth, interlaced):
    for first, (height, width) in enumerate([(11, 13), (1, 1), (9, 3), (2, 40), (5, 5)]):
        values = random_values(kind, depth, height, width)
        image = load(png(values, kind, depth, interlaced, first))
        right = values.transpose(2, 0, 1) / ((1 << depth) - 1)
        if kind in (0, 4):
            right = np.concatenate([right[:1]] * 3 + [right[1:]])
        assert image.dtype == np.float32 and image.shape == right.shape
        np.testing.assert_allclose(image, right, atol=1e-7)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_palettes(load, depth):
    values = random_values(3, depth)
    colors = np.random.default_rng(1).integers(0, 256, (1 << depth, 3)).astype(np.uint8)
    image = load(png(values, 3, depth, PLTE=colors.tobytes()))
    np.testing.assert_allclose(image, colors[values[:, :, 0]].transpose(2, 0, 1) / 255, atol=1e-7)
    image = load(png(values, 3, depth, PLTE=colors.tobytes(), tRNS=b"\x40"))
    right = np.where(values[:, :, 0] == 0, 64 / 255, 1)
    np.testing.assert_allclose(image[3], right, atol=1e-7)
    with pytest.raises(ValueError, match="palette of the PNG file has too few colours"):
        load(png(values, 3, depth, PLTE=colors[:1].tobytes()))


@pytest.mark.parametrize("kind, depth", [(0, 2), (0, 8), (0, 16), (2, 8), (2, 16)])
def test_transparent_color(load, kind, depth):
    values = random_values(kind, depth)
    color = values[4, 5]
    image = load(png(values, kind, depth, tRNS=color.astype(">u2").tobytes()))
    np.testing.assert_array_equal(image[3] == 0, (values == color).all(2))
    assert image[3].max() == 1


def test_alpha(load):
    values = random_values(6, 8)
    data = png(values, 6, 8)
    image = load(data)
    np.testing.assert_allclose(image, values.transpose(2, 0, 1) / 255, atol=1e-7)
    behind = np.array([0.2, 0.5, 1])[:, None, None]
    right = image[:3] * image[3] + behind * (1 - image[3])
    np.testing.assert_allclose(load(data, background=[0.2, 0.5, 1]), right, atol=1e-6)
    # A picture without alpha hides what is behind.
    values = random_values(2, 8)
    np.testing.assert_allclose(load(png(values, 2, 8), background=[1, 1, 1]),
                               values.transpose(2, 0, 1) / 255, atol=1e-7)


def test_damaged_files(load):
    data = png(random_values(2, 8), 2, 8)
    for size in range(8, len(data), 7):
        with pytest.raises(ValueError, match="picture.png: (cut short|damaged)"):
            load(data[:size])
    for at in range(8, len(data), 7):  # checksums see every change
        with pytest.raises(ValueError, match="picture.png: (cut short|damaged)"):
            load(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])


@pytest.mark.parametrize("change, message", [
    ((0, 1, 8, 2, 0, 0, 0), "0x1 with colour type 2"), ((1, 1, 3, 0, 0, 0, 0), "3 bits"),
    ((1, 1, 8, 5, 0, 0, 0), "colour type 5"), ((1, 1, 4, 2, 0, 0, 0), "4 bits"),
    ((1, 1, 8, 2, 1, 0, 0), "does not have"), ((1, 1, 8, 2, 0, 0, 2), "does not have"),
    ((2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0), "too few pixels"), ((2, 1, 8, 2, 0, 0, 0), "too few"),
])
def test_wrong_headers(load, change, message):
    data = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *change))
            + chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b""))
    with pytest.raises(ValueError, match=message):
        load(data)
    with pytest.raises(ValueError, match="has filter 9"):
        load(data.replace(data[8:], chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
                          + chunk(b"IDAT", zlib.compress(b"\x09\1\2\3")) + chunk(b"IEND", b"")))


# ---------------------------------------------------------------------- writing


@pytest.mark.parametrize("shape", [(7, 9), (1, 7, 9), (3, 7, 9), (4, 7, 9)])
@pytest.mark.parametrize("bits", [8, 16])
def test_round_trip(tmp_path, shape, bits):
    image = np.random.default_rng(0).uniform(size=shape).astype(np.float32)
    save_image(tmp_path / "a.PNG", image, bits=bits)
    loaded = load_image(tmp_path / "a.PNG")
    assert np.abs(loaded - image).max() < 0.5001 / ((1 << bits) - 1)
    pixels = read_png((tmp_path / "a.PNG").read_bytes()).transpose(2, 0, 1)
    assert pixels.dtype == (np.uint8 if bits == 8 else np.uint16)
    save_image(tmp_path / "b.png", pixels)  # as they are
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "a.PNG").read_bytes()
    save_image(tmp_path / "c.png", 4 * image - 2)
    np.testing.assert_array_equal(load_image(tmp_path / "c.png") == 1,
                                  np.broadcast_to(image > 0.7495, loaded.shape))


@pytest.mark.parametrize("image, options, message", [
    (np.zeros((2, 3, 4)), {}, r"image is \[2, 3, 4\], expected \[H, W\]"),
    (np.zeros((3, 0, 4)), {}, r"image is \[3, 0, 4\]"), (np.zeros(3), {}, r"image is \[3\]"),
    (np.zeros((3, 4), int), {}, "image is int64, expected a float dtype, uint8 or uint16"),
    (np.full((3, 4), np.nan), {}, "not finite"), (np.zeros((3, 4)), {"bits": 12}, "bits is 12"),
])
def test_what_cannot_be_written(tmp_path, image, options, message):
    with pytest.raises(ValueError, match=f"save_image: .*{message}"):
        save_image(tmp_path / "a.png", image, **options)
    with pytest.raises(ValueError, match="save_image: 16 bits are for .png, not .jpg"):
        save_image(tmp_path / "a.jpg", np.zeros((3, 4, 4)), bits=16)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------- downscaling


@pytest.mark.parametrize("height, width, factor", [(12, 18, 3), (13, 20, 3), (5, 5, 5), (4, 6, 1)])
def test_downscaling(height, width, factor):
    image = np.random.default_rng(0).uniform(size=(3, height, width)).astype(np.float32)
    small = downscale_image(image, factor)
    assert small.shape == (3, height // factor, width // factor) and small.dtype == np.float32
    for y in range(height // factor):
        for x in range(width // factor):
            square = image[:, y * factor:(y + 1) * factor, x * factor:(x + 1) * factor]
            np.testing.assert_allclose(small[:, y, x], square.mean((1, 2)), rtol=1e-5)
    for wrong in (0, -1, height + 1):
        with pytest.raises(ValueError, match=f"factor is {wrong}, expected 1 to {height}"):
            downscale_image(image, wrong)


def test_downscaling_with_alpha():
    """Colours that are not seen do not count: composing before and after is the same."""
    image = np.random.default_rng(0).uniform(size=(4, 6, 9)).astype(np.float32)
    image[3, :3, :3] = 0
    behind = np.array([0.2, 0.5, 1])[:, None, None]
    small = downscale_image(image, 3)
    before = downscale_image(behind + image[3:] * (image[:3] - behind), 3)
    np.testing.assert_allclose(behind + small[3:] * (small[:3] - behind), before, atol=1e-6)
    assert np.all(small[:, 0, 0] == 0)


# ----------------------------------------------------------------------- Pillow


def test_without_pillow(tmp_path, monkeypatch):
    def find(name, *args, **options):
        if name == "PIL":
            raise ImportError
        return importer(name, *args, **options)

    importer = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", find)
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(ValueError, match="a.jpg: pictures other than PNG need Pillow: pip"):
        load_image(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match="b.jpg: pictures other than PNG need Pillow: pip"):
        save_image(tmp_path / "b.jpg", np.zeros((3, 4, 4)))
    with pytest.raises(FileNotFoundError):
        load_image(tmp_path / "c.jpg")


def test_png_files_of_pillow(tmp_path):
    """What another writer makes, with filters that it chose; and what it reads of ours."""
    pillow = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    smooth = random.integers(0, 4, (40, 50, 4)).cumsum(0).cumsum(1).astype(np.uint8)
    for mode, pixels in (("L", smooth[:, :, 0]), ("LA", smooth[:, :, :2]),
                         ("RGB", smooth[:, :, :3]), ("RGBA", smooth),
                         ("I;16", smooth[:, :, 0].astype(np.uint16) * 257 + 5)):
        picture = pillow.fromarray(pixels)
        assert picture.mode == mode
        picture.save(tmp_path / "a.png")
        read = read_png((tmp_path / "a.png").read_bytes())
        np.testing.assert_array_equal(read, pixels.reshape(read.shape))
        save_image(tmp_path / "b.png", np.moveaxis(np.atleast_3d(pixels), 2, 0)
                   if mode != "LA" else smooth.transpose(2, 0, 1))
        again = np.asarray(pillow.open(tmp_path / "b.png"))
        np.testing.assert_array_equal(again, smooth if mode == "LA" else pixels)


def test_other_formats(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    image = np.tile(np.linspace(0.1, 0.9, 32, dtype=np.float32), (3, 24, 1))
    save_image(tmp_path / "a.jpg", image)
    assert np.abs(load_image(tmp_path / "a.jpg") - image).max() < 0.02
    grey = (image[0] * 65535).astype(np.uint16)
    pillow.fromarray(grey).save(tmp_path / "a.tiff")
    np.testing.assert_allclose(load_image(tmp_path / "a.tiff")[1], grey / 65535, atol=1e-6)
    rgba = np.concatenate([image, image[:1]])
    save_image(tmp_path / "a.webp", rgba)
    assert load_image(tmp_path / "a.webp").shape == (4, 24, 32)
    assert load_image(tmp_path / "a.webp", background=[0, 0, 0]).shape == (3, 24, 32)
    pillow.fromarray(image[0]).save(tmp_path / "b.tiff")
    with pytest.raises(ValueError, match="b.tiff: its pixels are of Pillow's mode F"):
        load_image(tmp_path / "b.tiff")
    (tmp_path / "c.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:200])
    with pytest.raises(ValueError, match="c.jpg: "):
        load_image(tmp_path / "c.jpg")
    with pytest.raises(ValueError, match="a.xyz: "):
        save_image(tmp_path / "a.xyz", image)
