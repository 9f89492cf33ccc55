"""Pictures as arrays: PNG files with numpy alone, others with Pillow."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from ._messages import at
from ._png import is_png, png_size, read_png, write_png


def load_image(path: Any, *, background: Any = None) -> np.ndarray:
    """Reads a picture as float32 [3, H, W] in its own encoding (sRGB), 0 to 1.

    Grey pictures get three equal channels, and 16 bits keep their precision.  Pixels stay as they
    are stored: an orientation in EXIF data is not applied, as COLMAP does not apply it.

    Args:
        path: of the file.
        background: three numbers, what is seen through a picture with alpha.  Without it such
            a picture has four channels, [4, H, W], with colours not multiplied by alpha.

    Raises:
        ValueError: a damaged file, or one that needs Pillow where that is not installed.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    with at(path):
        pixels = read_png(data) if is_png(data) else _read_pillow(path)
    image = pixels.astype(np.float32) / np.float32(np.iinfo(pixels.dtype).max)
    image = image.transpose(2, 0, 1)
    if len(image) < 3:
        image = np.concatenate([image[:1]] * 3 + [image[1:]])
    if background is not None and len(image) == 4:
        behind = np.asarray(background, np.float32).reshape(3, 1, 1)
        image = behind + image[3:] * (image[:3] - behind)
    return np.ascontiguousarray(image)


def save_image(path: Any, image: np.ndarray, *, bits: int = 8) -> None:
    """Writes a picture; .png with numpy alone, other extensions with Pillow.

    Args:
        path: of the file, whose extension says its format.
        image: [H, W] or [1, H, W] grey, [3, H, W] RGB, [4, H, W] RGBA: float, 0 to 1 and clipped
            to that, or uint8 or uint16, written as it is.
        bits: 8 or 16 of a float image; 16 are for .png.

    Raises:
        ValueError: a shape, dtype, value or extension that cannot be written.
    """
    path, image = pathlib.Path(path), np.asarray(image)
    pixels = image[None] if image.ndim == 2 else image
    if pixels.ndim != 3 or len(pixels) not in (1, 3, 4) or not pixels.size:
        raise ValueError(f"save_image: image is {list(image.shape)}, expected [H, W] or "
                         "[1, 3 or 4, H, W]")
    if bits not in (8, 16):
        raise ValueError(f"save_image: bits is {bits}, expected 8 or 16")
    if pixels.dtype.kind == "f":
        if not np.isfinite(pixels).all():
            raise ValueError("save_image: image has values that are not finite")
        largest = (1 << bits) - 1
        pixels = np.round(np.clip(pixels, 0, 1).astype(np.float64) * largest)
        pixels = pixels.astype(np.uint16 if bits == 16 else np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"save_image: image is {pixels.dtype}, expected a float dtype, uint8 or "
                         "uint16")
    pixels = pixels.transpose(1, 2, 0)
    if path.suffix.lower() == ".png":
        write_png(path, pixels)
        return
    if pixels.dtype != np.uint8:
        raise ValueError(f"save_image: 16 bits are for .png, not {path.suffix or 'no extension'}")
    with at(path):
        picture = _pillow().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
        try:
            picture.save(path)
        except OSError as error:
            raise ValueError(str(error)) from None


def downscale_image(image: np.ndarray, factor: int) -> np.ndarray:
    """Averages squares of factor x factor pixels of a float image [C, H, W].

    Columns and rows on the right and at the bottom that fill no square are left out, as
    ``Camera.downscaled`` assumes.  Colours of an RGBA image count by their alpha.

    Raises:
        ValueError: a factor that is not at least 1 or leaves no pixel.
    """
    channels, height, width = image.shape
    if factor < 1 or min(height, width) < factor:
        raise ValueError(f"downscale_image: factor is {factor}, expected 1 to "
                         f"{min(height, width)} for an image of {width}x{height}")
    rows, columns = height // factor, width // factor
    squares = image[:, :rows * factor, :columns * factor]
    squares = squares.reshape(channels, rows, factor, columns, factor)
    if channels != 4:
        return squares.mean((2, 4))
    alpha = squares[3:]
    mean = np.concatenate([squares[:3] * alpha, alpha]).mean((2, 4))
    mean[:3] /= np.where(mean[3:] > 0, mean[3:], 1)
    return mean


def image_size(path):
    """(width, height) of a picture."""
    with at(path):
        with open(path, "rb") as file:
            start = file.read(24)
        if is_png(start):
            return png_size(start)
        with _pillow().open(path) as picture:
            return picture.size


def _pillow():
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("pictures other than PNG need Pillow: pip install pillow") from None
    return Image


def _read_pillow(path):
    """[H, W, channels] uint8 or uint16"""
    try:
        with _pillow().open(path) as picture:
            if picture.mode.startswith("I;16"):
                return np.asarray(picture).astype(np.uint16)[:, :, None]
            if picture.mode in ("I", "F"):
                raise ValueError(f"its pixels are of Pillow's mode {picture.mode}, expected 8 or "
                                 "16 bits")
            alpha = picture.mode.endswith(("A", "a")) or "transparency" in picture.info
            return np.asarray(picture.convert("RGBA" if alpha else "RGB"))
    except OSError as error:  # Pillow's for damaged files
        raise ValueError(str(error)) from None
