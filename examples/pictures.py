"""Pictures: PNG files without a library, others with Pillow; and a plot with matplotlib."""

import struct
import zlib

import numpy as np


def write_png(path, image, level=9):
    """Writes a float image [3, H, W] in sRGB, 0 to 1; level: compression."""
    pixels = np.round(np.clip(image, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # filter type 0 before each row
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows.tobytes(), level)))
        file.write(chunk(b"IEND", b""))


def read(path):
    """Reads a picture as uint8 [3, H, W]; without Pillow only files of write_png()."""
    try:
        from PIL import Image
    except ImportError:
        return read_png(path)
    with Image.open(path) as image:
        return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))


def read_png(path):
    """Reads a file of write_png() as uint8 [3, H, W]."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        at, chunks = 8, {}
        while at < len(data):
            (size,), kind = struct.unpack_from(">I", data, at), data[at + 4:at + 8]
            chunks[kind] = data[at + 8:at + 8 + size]
            at += 12 + size
        width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
        rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8)
        rows = rows.reshape(height, 1 + 3 * width)
        if form == [8, 2, 0, 0, 0] and not rows[:, 0].any():
            pixels = rows[:, 1:].reshape(height, width, 3)
            return np.ascontiguousarray(pixels.transpose(2, 0, 1))
    except (struct.error, zlib.error, KeyError, ValueError):
        pass  # another kind of file
    raise ValueError(f"{path}: this picture cannot be read without Pillow: pip install pillow")


def side_by_side(*images, gap=4):
    """[3, H, W] images in one row, with white between them."""
    space = np.ones((3, images[0].shape[1], gap), np.float32)
    parts = [images[0]]
    for image in images[1:]:
        parts += [space, image]
    return np.concatenate(parts, axis=2)


def write_curves(folder, names, rows):
    """Writes curves.csv, and curves.png if matplotlib is installed; returns the paths.

    names: of the columns, the first is the x axis; rows: one tuple per point.
    """
    paths = [folder / "curves.csv"]
    lines = [",".join(names), *(",".join(f"{value:.6g}" for value in row) for row in rows)]
    paths[0].write_text("\n".join(lines) + "\n")
    try:
        import matplotlib
    except ImportError:
        return paths
    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = list(zip(*rows))
    figure, axes = pyplot.subplots(1, len(names) - 1, figsize=(5 * (len(names) - 1), 3.5))
    for axis, name, values in zip(np.atleast_1d(axes), names[1:], columns[1:]):
        axis.plot(columns[0], values)
        axis.set(xlabel=names[0], title=name)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    paths.append(folder / "curves.png")
    figure.savefig(paths[-1], dpi=110)
    pyplot.close(figure)
    return paths
