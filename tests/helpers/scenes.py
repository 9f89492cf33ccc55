"""Small scenes, cameras and a PNG reader for the tests of the command."""

import json
import math
import struct
import zlib

FIELDS = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity"]
FIELDS += ["scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
SH_C0 = 0.28209479177387814


def gaussian(position=(0, 0, 0), color=(1, 0, 0), opacity=0.99, scale=0.1, rotation=(1, 0, 0, 0)):
    """One row of FIELDS, from values after activation."""
    dc = [(c - 0.5) / SH_C0 for c in color]
    logit = math.log(opacity / (1 - opacity))
    return [*position, 0, 0, 0, *dc, logit, *[math.log(scale)] * 3, *rotation]


def header(count, fields=FIELDS, form="binary_little_endian"):
    lines = ["ply", f"format {form} 1.0", f"element vertex {count}"]
    return "\n".join([*lines, *(f"property float {f}" for f in fields), "end_header", ""]).encode()


def write_scene(path, rows, fields=FIELDS):
    data = b"".join(struct.pack(f"<{len(fields)}f", *row) for row in rows)
    path.write_bytes(header(len(rows), fields) + data)
    return path


def camera(name, eye=(0, 0, -3), width=64, height=48, focal=60):
    """Looks along +z, y down, as the world's axes."""
    return {
        "id": 0,
        "img_name": name,
        "width": width,
        "height": height,
        "position": list(eye),
        "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "fx": focal,
        "fy": focal,
    }


def write_cameras(path, *cameras):
    path.write_text(json.dumps(cameras))
    return path


class Png:
    """An 8-bit RGB or 16-bit grey PNG file, decoded; pixel(x, y) is a tuple."""

    def __init__(self, path):
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        at, packed, self.texts = 8, b"", {}
        while at < len(data):
            (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
            body = data[at + 8 : at + 8 + size]
            assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size :][:4])[0]
            at += 12 + size
            if kind == b"IHDR":
                self.width, self.height, self.bits, color = struct.unpack(">IIBB", body[:10])
                self.channels = {0: 1, 2: 3}[color]
            elif kind == b"IDAT":
                packed += body
            elif kind == b"tEXt":
                key, _, value = body.partition(b"\0")
                self.texts[key.decode()] = value.decode()
        assert kind == b"IEND"
        self.unfilter(zlib.decompress(packed))

    def unfilter(self, raw):
        step = self.channels * self.bits // 8
        row_bytes = self.width * step
        assert len(raw) == (row_bytes + 1) * self.height
        self.rows, above = [], bytes(row_bytes)
        for y in range(self.height):
            start = y * (row_bytes + 1)
            kind, line = raw[start], bytearray(raw[start + 1 :][:row_bytes])
            for i in range(row_bytes):
                left = line[i - step] if i >= step else 0
                corner = above[i - step] if i >= step else 0
                line[i] = (line[i] + self.predict(kind, left, above[i], corner)) & 255
            self.rows.append(bytes(line))
            above = line

    @staticmethod
    def predict(kind, left, up, corner):
        if kind < 4:
            return (0, left, up, (left + up) // 2)[kind]
        guess = left + up - corner
        return min((left, up, corner), key=lambda value: abs(guess - value))

    def pixel(self, x, y):
        if self.bits == 16:
            return struct.unpack(">H", self.rows[y][2 * x : 2 * x + 2])
        return tuple(self.rows[y][3 * x : 3 * x + 3])
