"""Vectors, noise, light and the PLY file: what the parts of the procedural scene share."""

import array
import math
import random
import sys

REST = 8  # SH coefficients above degree 0
SUN_COLOR = (3.3, 2.05, 1.02)

rng = random.Random(20)


# ------------------------------------------------------------------ vectors


def normalize(v):
    scale = 1 / math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    return (v[0] * scale, v[1] * scale, v[2] * scale)


def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a, b):
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


def mix(a, b, t):
    t = min(max(t, 0.0), 1.0)
    return tuple(x + (y - x) * t for x, y in zip(a, b))


def smoothstep(low, high, x):
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)


SUN = normalize((0.86, 0.36, 0.02))

# -------------------------------------------------------------------- noise

LATTICE = [rng.random() for _ in range(4096)]


def noise(x, y):
    """Smooth value noise, 0 to 1."""
    i, j = math.floor(x), math.floor(y)
    u, v = x - i, y - j
    u, v = u * u * (3 - 2 * u), v * v * (3 - 2 * v)
    row0, row1 = (j * 57) & 4095, ((j + 1) * 57) & 4095
    a, b = LATTICE[(row0 + i) & 4095], LATTICE[(row0 + i + 1) & 4095]
    c, d = LATTICE[(row1 + i) & 4095], LATTICE[(row1 + i + 1) & 4095]
    return (a + (b - a) * u) * (1 - v) + (c + (d - c) * u) * v


def fractal(x, y, octaves=4):
    """Noise of several scales, 0 to 1."""
    total, weight = 0.0, 0.5
    for octave in range(octaves):
        total += weight * noise(x + 17.3 * octave, y - 9.1 * octave)
        x, y, weight = 2.03 * x, 2.03 * y, weight / 2
    return total / (1 - 2 * weight)


# ------------------------------------------------------------- Gaussians out


def sh_basis(x, y, z):
    """The real spherical harmonics up to degree 2 in the order and signs of 3DGS."""
    return (
        0.28209479177387814,
        -0.4886025119029199 * y,
        0.4886025119029199 * z,
        -0.4886025119029199 * x,
        1.0925484305920792 * x * y,
        -1.0925484305920792 * y * z,
        0.31539156525252005 * (2 * z * z - x * x - y * y),
        -1.0925484305920792 * x * z,
        0.5462742152960396 * (x * x - y * y),
    )


def display(light):
    """Linear light to the sRGB-like values that 3DGS stores."""
    return tuple((1 - math.exp(-1.25 * max(c, 0.0))) ** (1 / 2.2) for c in light)


def facing(normal, spin=0.0):
    """The quaternion that turns z to the normal, after a turn about z."""
    x, y, z = normal
    if z < -0.999999:
        return (0.0, 1.0, 0.0, 0.0)
    scale = 1 / math.sqrt(2 + 2 * z)
    w, i, j = (1 + z) * scale, -y * scale, x * scale
    c, s = math.cos(spin / 2), math.sin(spin / 2)
    return (w * c, i * c + j * s, j * c - i * s, w * s)


def lobe(direction, color, weights=(0.25, 0.45, 0.30)):
    """SH of a wide lobe: `color` seen along `direction`, weights of degree 0, 1, 2."""
    basis = sh_basis(direction[0], -direction[1], -direction[2])
    degree_of = (0, 1, 1, 1, 2, 2, 2, 2, 2)
    scale = [weights[d] * 4 * math.pi / (2 * d + 1) for d in range(3)]
    return [[scale[degree_of[k]] * basis[k] * c for k in range(9)] for c in color]


class Scene:
    """Rows of the PLY file."""

    names = (
        ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
        + [f"f_rest_{k}" for k in range(3 * REST)]
        + ["opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"]
    )
    plain = (0.0,) * (3 * REST)

    def __init__(self):
        self.rows = array.array("f")

    def add(self, position, scales, rotation, color, opacity, sh=None):
        """color: sRGB 0 to 1; sh: [3][9] added to it, seen from a direction."""
        x, y, z = position
        dc = [(c - 0.5) / 0.28209479177387814 for c in color]
        rest = self.plain
        if sh:
            dc = [c + part[0] for c, part in zip(dc, sh)]
            rest = sh[0][1:] + sh[1][1:] + sh[2][1:]
        w, i, j, k = rotation
        self.rows.extend((x, -y, -z, 0.0, 0.0, 0.0, dc[0], dc[1], dc[2]))
        self.rows.extend(rest)
        self.rows.extend(
            (
                math.log(opacity / (1 - opacity)),
                math.log(scales[0]),
                math.log(scales[1]),
                math.log(scales[2]),
                -i,
                w,
                -k,
                j,
            )
        )

    def disc(self, position, normal, size, color, opacity=0.95, sh=None, thin=0.12):
        turned = facing(normal, rng.random() * 6.28)
        self.add(position, (size, size * 0.85, size * thin), turned, color, opacity, sh)

    def streak(self, position, direction, length, width, color, opacity=0.9, sh=None):
        self.add(position, (width, width, length), facing(direction), color, opacity, sh)

    def ball(self, position, size, color, opacity=0.9, sh=None):
        self.add(position, (size, size, size), (1.0, 0.0, 0.0, 0.0), color, opacity, sh)

    def write(self, path):
        count = len(self.rows) // len(self.names)
        header = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
        header += [f"property float {name}" for name in self.names] + ["end_header", ""]
        if sys.byteorder == "big":
            self.rows.byteswap()
        with open(path, "wb") as file:
            file.write("\n".join(header).encode())
            self.rows.tofile(file)
        return count


# -------------------------------------------------------------------- light


def sky(direction):
    """Linear light from a direction of the sky: dusk with the sun low."""
    up = max(direction[1], 0.0)
    toward = max(dot(direction, SUN), 0.0)
    horizon = mix((0.62, 0.36, 0.42), (1.5, 0.74, 0.32), 0.22 + 0.9 * toward**1.2)
    color = mix(horizon, (0.12, 0.24, 0.55), up**0.6 * 1.25)
    glow = 0.85 * toward**14 + 2.6 * toward**220
    return (color[0] + glow * 1.0, color[1] + glow * 0.62, color[2] + glow * 0.26)


def shade(albedo, normal, sunlit=1.0, open_sky=1.0, wrap=0.0):
    """Linear light off a diffuse surface."""
    sun = max((dot(normal, SUN) + wrap) / (1 + wrap), 0.0) * sunlit
    up = 0.5 + 0.5 * normal[1]
    ambient = mix((0.15, 0.13, 0.17), (0.30, 0.34, 0.54), up)
    return tuple(a * (s * sun + m * open_sky) for a, s, m in zip(albedo, SUN_COLOR, ambient))
