"""Gaussians and light: what the parts of the scene are made of.

Light is linear; colours are what 3DGS stores.
"""

import array
import math
import sys

from vectors import dot, mix, plus, scaled

SUN = (0.922, 0.386, 0.021)
SH_0, SH_1 = 0.28209479177387814, 0.4886025119029199  # basis functions of degree 0 and 1


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
