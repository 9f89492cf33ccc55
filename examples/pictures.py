"""PNG files without a library, and a plot where matplotlib is installed."""

import struct
import zlib

import numpy as np


def write_png(path, image):
    """image: float [3, H, W], 0 to 1, in the colours of the screen."""
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
        file.write(chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)))
        file.write(chunk(b"IEND", b""))


def side_by_side(*images, gap=4):
    """[3, H, W] images in one row, with white between them."""
    space = np.ones((3, images[0].shape[1], gap), np.float32)
    parts = [images[0]]
    for image in images[1:]:
        parts += [space, image]
    return np.concatenate(parts, axis=2)


def write_curves(folder, names, rows):
    """curves.csv, and curves.png if matplotlib is there; returns the paths.

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
