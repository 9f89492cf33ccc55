"""PNG files with numpy and zlib: every colour type, 1 to 16 bits, interlaced or not."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
# Of a colour type: channels, and the bits that each may have.
_KINDS = {_GREY: (1, (1, 2, 4, 8, 16)), _RGB: (3, (8, 16)), _PALETTE: (1, (1, 2, 4, 8)),
          _GREY_ALPHA: (2, (8, 16)), _RGBA: (4, (8, 16))}
# Passes of an interlaced file: first row, first column, distance of rows, of columns.
_ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
          (1, 0, 2, 1))


def is_png(data):
    return data[:8] == _SIGNATURE


def png_size(data):
    """(width, height) from the first 24 bytes."""
    if len(data) < 24 or data[12:16] != b"IHDR":
        raise ValueError("cut short: the PNG file has no header")
    return struct.unpack(">II", data[16:24])


def read_png(data):
    """[H, W, channels] of a file, uint8 or uint16; 1 channel grey, 2 grey and alpha, 3 RGB, 4 RGBA.

    Fewer than 8 bits and palettes become 8 bits; a transparent colour becomes alpha.
    """
    chunks, compressed = {}, []
    for kind, body in _chunks(data):
        if kind == b"IDAT":
            compressed.append(body)
        else:
            chunks.setdefault(kind, body)
    width, height, depth, kind, *methods, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    channels, depths = _KINDS.get(kind, (0, ()))
    if depth not in depths or methods != [0, 0] or interlaced > 1 or not width or not height:
        raise ValueError(f"a PNG file of {width}x{height} with colour type {kind} and {depth} "
                         "bits, which the format does not have")
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    sizes = [(len(range(top, height, down)), len(range(left, width, across)))
             for top, left, down, across in passes]
    bits = channels * depth
    lengths = [rows * (1 + (columns * bits + 7) // 8) if columns else 0 for rows, columns in sizes]
    raw = _decompress(b"".join(compressed), sum(lengths))
    values = np.empty((height, width, channels), np.uint16 if depth == 16 else np.uint8)
    at = 0
    for (top, left, down, across), (rows, columns), length in zip(passes, sizes, lengths):
        if length:
            packed = np.frombuffer(raw, np.uint8, length, at).reshape(rows, -1)
            part = _unpack(_unfilter(packed, max(bits // 8, 1)), depth, columns * channels)
            values[top::down, left::across] = part.reshape(rows, columns, channels)
        at += length
    return _colors(values, kind, depth, chunks)


def _chunks(data):
    """(kind, body) of each chunk up to the last one."""
    at = 8
    while True:
        if at + 12 > len(data):
            raise ValueError("cut short: the PNG file has no end")
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        check = data[at + 8 + size:at + 12 + size]
        if len(check) < 4 or struct.unpack(">I", check)[0] != zlib.crc32(kind + body):
            raise ValueError(f"damaged: chunk {kind.decode('latin-1')!r} of the PNG file")
        if at == 8 and (kind, size) != (b"IHDR", 13):
            raise ValueError("damaged: the PNG file does not begin with its header")
        if kind == b"IEND":
            return
        yield kind, body
        at += 12 + size


def _decompress(data, size):
    """The first bytes of what zlib packed; nothing is allocated that cannot be in the data."""
    raw = b""
    if size <= 1032 * len(data):  # deflate packs no more bytes into one
        try:
            raw = zlib.decompressobj().decompress(data, size)
        except zlib.error as error:
            raise ValueError(f"damaged: {error}") from None
    if len(raw) < size:
        raise ValueError("cut short: the PNG file has too few pixels")
    return raw


def _unfilter(packed, step):
    """Rows of bytes from filtered rows, whose first byte says how each was filtered.

    step: bytes of a pixel.  Each byte depends on those to the left, above and left of that one, so
    that all of an antidiagonal can be computed at once.
    """
    filters, rows = packed[:, 0], packed[:, 1:]
    if filters.max(initial=0) > 4:
        raise ValueError(f"damaged: a row of the PNG file has filter {filters.max()}")
    height, size = rows.shape
    if not filters.any():
        return rows
    columns = -(-size // step)
    # With a row and a column of zeros in front; int16 holds sums and differences.
    values = np.zeros((height + 1, columns + 1, step), np.int16)
    padded = np.zeros((height, columns * step), np.int16)
    padded[:, :size] = rows
    values[1:, 1:] = padded.reshape(height, columns, step)
    pixels = values.reshape(-1, step)
    masks = {kind: (filters == kind)[:, None] for kind in np.unique(filters)}
    for diagonal in range(height + columns - 1):
        first, last = max(0, diagonal - columns + 1), min(height, diagonal + 1)
        at = (first + 1) * (columns + 1) + diagonal - first + 1
        here, left, up, corner = (
            pixels[start:start + (last - first - 1) * columns + 1:columns]
            for start in (at, at - 1, at - columns - 1, at - columns - 2))
        predicted = np.zeros_like(here)
        for kind, mask in masks.items():
            np.copyto(predicted, _predict(kind, left, up, corner), where=mask[first:last])
        predicted += here
        predicted &= 255
        here[:] = predicted
    return values[1:, 1:].reshape(height, -1)[:, :size].astype(np.uint8)


def _predict(kind, left, up, corner):
    """What a filter expects of bytes, from those before."""
    if kind == 4:  # Paeth's: the nearest of the three to left + up - corner
        across, down = up - corner, left - corner
        both = np.abs(across + down)
        across, down = np.abs(across), np.abs(down)
        return np.where((across <= down) & (across <= both), left,
                        np.where(down <= both, up, corner))
    return (0, left, up, (left + up) >> 1)[kind]


def _unpack(rows, depth, count):
    """[H, count] values of a depth from rows of bytes."""
    if depth == 16:
        return np.ascontiguousarray(rows).view(">u2")
    if depth == 8:
        return rows
    bits = np.unpackbits(rows, axis=1)[:, :count * depth].reshape(len(rows), count, depth)
    return bits @ (1 << np.arange(depth - 1, -1, -1)).astype(np.uint8)


def _colors(values, kind, depth, chunks):
    """Values of a file with its palette and transparency applied."""
    transparent = chunks.get(b"tRNS")
    if kind == _PALETTE:
        palette = np.frombuffer(chunks.get(b"PLTE", b""), np.uint8)
        colors = np.full((len(palette) // 3, 4), 255, np.uint8)
        colors[:, :3] = palette[:3 * len(colors)].reshape(-1, 3)
        if values.max() >= len(colors):
            raise ValueError("damaged: the palette of the PNG file has too few colours")
        if transparent:
            colors[:len(transparent), 3] = np.frombuffer(transparent, np.uint8)[:len(colors)]
        return colors[values[:, :, 0], :4 if transparent else 3]
    alpha = None
    if transparent and kind in (_GREY, _RGB):
        color = np.frombuffer(transparent, ">u2", values.shape[2])
        largest = 65535 if depth == 16 else 255
        alpha = np.where((values == color).all(2, keepdims=True), 0, largest).astype(values.dtype)
    if depth < 8:
        values = values * np.uint8(255 // ((1 << depth) - 1))
    return values if alpha is None else np.concatenate([values, alpha], axis=2)


def write_png(path, pixels):
    """Writes [H, W, channels], uint8 or uint16, 1 to 4 channels as in read_png."""
    height, width, channels = pixels.shape
    kind = {1: _GREY, 2: _GREY_ALPHA, 3: _RGB, 4: _RGBA}[channels]
    depth = 8 * pixels.dtype.itemsize
    packed = np.ascontiguousarray(pixels, ">u2" if depth == 16 else np.uint8)
    packed = packed.view(np.uint8).reshape(height, -1)
    rows = np.zeros((height, 1 + packed.shape[1]), np.uint8)  # filter 0 in front of each row
    rows[:, 1:] = packed
    with open(path, "wb") as file:
        file.write(_SIGNATURE)
        for name, body in ((b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)),
                           (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(body)) + name + body
                       + struct.pack(">I", zlib.crc32(name + body)))
