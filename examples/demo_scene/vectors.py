"""Vectors, tuples (x, y, z) with y up, and noise."""

import math
import random

UP = (0.0, 1.0, 0.0)
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
