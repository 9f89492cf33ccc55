"""The lighthouse and the cottage, the boat and the birds of the procedural scene."""

import math

from scene_kit import (
    SUN,
    cross,
    display,
    dot,
    lobe,
    mix,
    noise,
    normalize,
    rng,
    shade,
)

# ---------------------------------------------------------------- buildings


def make_round(scene, center, heights, radii, paint, count, sunlit=1.0):
    """The side of a tower; paint gives albedo and glow by height 0 to 1."""
    x, z = center
    for _ in range(count):
        t = rng.random()
        angle = rng.random() * 6.2832
        radius = radii[0] + (radii[1] - radii[0]) * t
        lean = (radii[0] - radii[1]) / (heights[1] - heights[0])
        normal = normalize((math.cos(angle), lean, math.sin(angle)))
        y = heights[0] + (heights[1] - heights[0]) * t
        albedo, glow = paint(t, angle)
        light = shade(albedo, normal, sunlit, 0.9, 0.1)
        color = display(tuple(a + b for a, b in zip(light, glow)))
        position = (x + radius * math.cos(angle), y, z + radius * math.sin(angle))
        scene.disc(position, normal, 0.017, color)


def make_lighthouse(scene, terrain):
    x, z = 1.0, -0.6
    y = terrain.at(x, z) - 0.05
    none = (0.0, 0.0, 0.0)

    def stripes(t, angle):
        red = int(t * 5) % 2 == 1
        window = abs(angle - 1.35) < 0.16 and abs((t * 5) % 2 - 0.5) < 0.16
        if window:
            return (0.1, 0.08, 0.06), (1.8, 0.95, 0.30)
        return ((0.62, 0.08, 0.06) if red else (0.82, 0.78, 0.72)), none

    def stone(t, angle):
        return mix((0.25, 0.22, 0.20), (0.45, 0.40, 0.36), noise(t * 9, angle * 6)), none

    make_round(scene, (x, z), (y, y + 0.12), (0.27, 0.25), stone, 1800)
    make_round(scene, (x, z), (y + 0.1, y + 1.25), (0.19, 0.125), stripes, 7500)
    make_round(scene, (x, z), (y + 1.25, y + 1.29), (0.18, 0.19), stone, 1100)
    lamp = (2.4, 1.5, 0.6)
    make_round(
        scene,
        (x, z),
        (y + 1.29, y + 1.47),
        (0.09, 0.09),
        lambda t, angle: ((0.1, 0.1, 0.1), none if (angle * 1.2733) % 1 < 0.12 else lamp),
        1500,
    )
    make_round(
        scene,
        (x, z),
        (y + 1.47, y + 1.62),
        (0.125, 0.005),
        lambda t, angle: ((0.55, 0.07, 0.05), none),
        1300,
    )
    scene.ball((x, y + 1.38, z), 0.10, (1.0, 0.86, 0.55), 0.5)
    scene.ball((x, y + 1.38, z), 0.26, (1.0, 0.72, 0.40), 0.12)
    for side in (normalize((-0.9, 0.06, 0.55)), normalize((0.9, 0.06, -0.55))):
        for step in range(1, 46):
            away = 0.11 * step
            center = tuple(c + away * s for c, s in zip((x, y + 1.38, z), side))
            strength = 0.055 * (1 - step / 48) + 0.005
            scene.streak(center, side, 0.11, 0.028 + 0.055 * away, (1.0, 0.80, 0.52), strength)


def make_panel(scene, corner, u, v, spacing, paint):
    """A parallelogram; paint gives linear light by the position 0 to 1 along u and v."""
    normal = normalize(cross(u, v))
    columns = max(int(math.sqrt(dot(u, u)) / spacing), 1)
    rows = max(int(math.sqrt(dot(v, v)) / spacing), 1)
    for i in range(columns):
        for j in range(rows):
            s, t = (i + rng.random()) / columns, (j + rng.random()) / rows
            light = paint(s, t, normal)
            if light:
                position = tuple(c + s * a + t * b for c, a, b in zip(corner, u, v))
                scene.disc(position, normal, spacing * 0.75, display(light))


def make_cottage(scene, terrain):
    x, z, w, d, h = -0.75, 0.75, 0.40, 0.28, 0.20
    y = terrain.at(x, z) - 0.04

    def wall(s, t, normal):
        if 0.28 < t < 0.72 and (0.14 < s < 0.32 or 0.68 < s < 0.86):
            return (1.9, 1.0, 0.32)
        door = 0.42 < s < 0.58 and t < 0.7
        return shade((0.25, 0.12, 0.06) if door else (0.80, 0.74, 0.64), normal, 0.9, 0.9)

    def gable(s, t, normal):
        inside = t < 1 - abs(2 * s - 1)
        return shade((0.80, 0.74, 0.64), normal, 0.9, 0.9) if inside else None

    def roof(s, t, normal):
        tile = 0.5 + 0.5 * math.sin(t * 55)
        albedo = mix((0.34, 0.10, 0.06), (0.55, 0.20, 0.11), 0.6 * tile + 0.4 * rng.random())
        return shade(albedo, normal, 1.0, 1.0)

    r = 0.17
    make_panel(scene, (x - w / 2, y, z + d / 2), (w, 0, 0), (0, h, 0), 0.011, wall)
    make_panel(scene, (x + w / 2, y, z - d / 2), (-w, 0, 0), (0, h, 0), 0.011, wall)
    make_panel(scene, (x + w / 2, y, z + d / 2), (0, 0, -d), (0, h, 0), 0.011, wall)
    make_panel(scene, (x - w / 2, y, z - d / 2), (0, 0, d), (0, h, 0), 0.011, wall)
    make_panel(scene, (x + w / 2, y + h, z + d / 2), (0, 0, -d), (0, r, 0), 0.011, gable)
    make_panel(scene, (x - w / 2, y + h, z - d / 2), (0, 0, d), (0, r, 0), 0.011, gable)
    e = 0.04
    u = (w + 2 * e, 0, 0)
    make_panel(
        scene, (x - w / 2 - e, y + h - e, z + d / 2 + e), u, (0, r + e, -d / 2 - e), 0.011, roof
    )
    make_panel(
        scene,
        (x + w / 2 + e, y + h - e, z - d / 2 - e),
        (-u[0], 0, 0),
        (0, r + e, d / 2 + e),
        0.011,
        roof,
    )
    for k in range(14):  # smoke from the chimney
        drift = (x + 0.12 + 0.025 * k, y + h + r + 0.05 + 0.06 * k, z - 0.01 * k)
        scene.ball(drift, 0.025 + 0.009 * k, display((0.50, 0.42, 0.45)), 0.10 - 0.006 * k)
    for k in range(60):
        side = rng.random() * 6.28
        position = (
            x + 0.12 + 0.025 * math.cos(side),
            y + h + 0.05 + 0.17 * k / 60,
            z + 0.025 * math.sin(side),
        )
        scene.ball(position, 0.014, display(shade((0.4, 0.25, 0.2), (0.7, 0.5, 0.5))), 0.95)


def make_boat(scene):
    bx, bz = -2.55, 4.1
    for _ in range(2600):
        s, t = rng.uniform(-1, 1), rng.random()
        side = rng.choice((-1, 1))
        width = 0.075 * (1 - abs(s) ** 2.2) * (0.55 + 0.45 * t)
        p = (bx + 0.27 * s * (0.88 + 0.12 * t), 0.10 * t * (1 + 0.35 * s * s), bz + side * width)
        n = normalize((0.35 * s, -0.25, side))
        albedo = (0.62, 0.56, 0.48) if t > 0.82 else (0.34, 0.11, 0.07)
        scene.disc(p, n, 0.011, display(shade(albedo, n, 1.0, 0.9, 0.2)))
    for _ in range(500):
        s = rng.uniform(-0.9, 0.9)
        w = 0.07 * (1 - abs(s) ** 2.2)
        scene.disc(
            (bx + 0.26 * s, 0.085, bz + rng.uniform(-w, w)),
            (0, 1, 0),
            0.013,
            display(shade((0.45, 0.30, 0.18), (0, 1, 0), 0.8, 0.8)),
        )
    for k in range(40):
        scene.streak(
            (bx + 0.03, 0.1 + 0.62 * k / 40, bz),
            (0, 1, 0),
            0.012,
            0.007,
            display((0.25, 0.17, 0.12)),
        )
    for tip, foot, end in (
        ((bx + 0.02, 0.70, bz), (bx + 0.01, 0.16, bz), (bx - 0.26, 0.17, bz + 0.05)),
        ((bx + 0.05, 0.62, bz), (bx + 0.06, 0.16, bz), (bx + 0.27, 0.14, bz + 0.03)),
    ):
        for _ in range(1900):
            s, t = rng.random(), rng.random()
            if s + t > 1:
                s, t = 1 - s, 1 - t
            p = [a + s * (b - a) + t * (c - a) for a, b, c in zip(tip, foot, end)]
            belly = 0.06 * math.sin(math.pi * t) * math.sin(math.pi * min(s + t, 1) * 0.9)
            p[2] += belly
            n = normalize((-0.15 + 0.5 * t, 0.1, 1.0))
            light = shade((0.92, 0.88, 0.80), n, 0.9, 1.0, 0.6)
            glow = lobe(SUN, (0.22, 0.14, 0.06))
            scene.disc(tuple(p), n, 0.013, display(light), 0.93, glow)


def make_birds(scene):
    for k in range(9):
        x, y, z = (
            -2.6 + 0.36 * k + rng.gauss(0, 0.12),
            2.75 + 0.11 * (4 - abs(k - 3)) + rng.gauss(0, 0.05),
            -1.5 + rng.gauss(0, 0.3),
        )
        for side in (-1, 1):
            d = normalize((side, 0.42, 0.1))
            tip = normalize((side, -0.12, 0.1))
            scene.streak(
                (x + 0.022 * side, y + 0.009, z), d, 0.012, 0.0045, (0.10, 0.09, 0.12), 0.95
            )
            scene.streak(
                (x + 0.06 * side, y + 0.015, z), tip, 0.014, 0.0035, (0.10, 0.09, 0.12), 0.95
            )
