"""Gaussians, noise and light: what the parts of the scene share.

Vectors are tuples (x, y, z) with y up; light is linear, colours are what 3DGS stores.
"""

import array
import math
import random
import sys

UP = (0.0, 1.0, 0.0)
SUN = (0.922, 0.386, 0.021)
SH_0, SH_1 = 0.28209479177387814, 0.4886025119029199  # basis functions of degree 0 and 1

rng = random.Random(20)
LATTICE = [rng.random() for _ in range(4096)]


def normalize(v):
    length = math.hypot(*v)
    return (v[0] / length, v[1] / length, v[2] / length)


def scaled(v, factor):
    return (factor * v[0], factor * v[1], factor * v[2])


def plus(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def mix(a, b, t):
    t = min(max(t, 0.0), 1.0)
    return tuple(x + (y - x) * t for x, y in zip(a, b))


def smoothstep(low, high, x):
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3 - 2 * t)


def around(angle=None, rise=0.0):
    """A direction at an angle about the vertical, at a random one by default."""
    angle = rng.uniform(0, math.tau) if angle is None else angle
    return normalize((math.cos(angle), rise, math.sin(angle)))


def noise(x, y):
    """Smooth value noise, 0 to 1."""
    i, j = math.floor(x), math.floor(y)
    u, v = smoothstep(0, 1, x - i), smoothstep(0, 1, y - j)
    low, high = ((57 * row + i) & 4095 for row in (j, j + 1))
    a, b, c, d = LATTICE[low], LATTICE[low - 4095], LATTICE[high], LATTICE[high - 4095]
    return (a + (b - a) * u) * (1 - v) + (c + (d - c) * u) * v


def fractal(x, y):
    """Noise of three scales, 0 to 1."""
    fine = noise(4.1 * x + 34.6, 4.1 * y - 18.2)
    return (4 * noise(x, y) + 2 * noise(2 * x + 17.3, 2 * y - 9.1) + fine) / 7


def display(light):
    return tuple((1 - math.exp(-1.25 * max(c, 0.0))) ** (1 / 2.2) for c in light)


def shade(albedo, normal, sunlit=1.0, open_sky=1.0, wrap=0.0):
    """The colour of a diffuse surface; with wrap, sunlight reaches around it."""
    sun = max((dot(normal, SUN) + wrap) / (1 + wrap), 0.0) * sunlit
    sky = mix((0.15, 0.13, 0.17), (0.30, 0.34, 0.54), 0.5 + 0.5 * normal[1])
    light = plus(scaled((3.3, 2.05, 1.02), sun), scaled(sky, open_sky))
    return display(a * b for a, b in zip(albedo, light))


class Scene:
    """Rows of a 3DGS PLY file of SH degree 1."""

    fields = ["x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"]
    fields += [f"f_rest_{k}" for k in range(9)] + ["opacity"]
    fields += [f"scale_{k}" for k in range(3)] + [f"rot_{k}" for k in range(4)]

    def __init__(self):
        self.rows = array.array("f")

    def add(self, position, axis, across, along, color, opacity=0.95, tint=((0, 0, 0),) * 3):
        """A Gaussian of size `along` a unit axis and `across` it.

        Seen along a direction d, channel k has the value color[k] + dot(tint[k], d).
        Trained scenes have y down: the rows are turned by half a turn about x.
        """
        self.rows.extend((position[0], -position[1], -position[2], 0, 0, 0))
        self.rows.extend((c - 0.5) / SH_0 for c in color)
        for x, y, z in tint:
            self.rows.extend((y / SH_1, -z / SH_1, -x / SH_1))
        self.rows.append(math.log(opacity / (1 - opacity)))
        self.rows.extend((math.log(across), math.log(across), math.log(along)))
        self.rows.extend((axis[1], 1.000001 + axis[2], 0, axis[0]))  # turns z to the axis

    def disc(self, position, normal, size, *look):
        self.add(position, normal, size, 0.1 * size, *look)

    def write(self, path):
        count = len(self.rows) // len(self.fields)
        header = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
        header += [f"property float {name}" for name in self.fields] + ["end_header", ""]
        if sys.byteorder == "big":
            self.rows.byteswap()
        with open(path, "wb") as file:
            file.write("\n".join(header).encode())
            self.rows.tofile(file)
        return count
