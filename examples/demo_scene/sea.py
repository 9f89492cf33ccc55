"""What surrounds the island: the sea, rocks, a boat, the sky and birds."""

import math

from gaussians import SUN, display, shade
from vectors import UP, around, dot, fractal, mix, noise, normalize, plus, rng, scaled, smoothstep

WAVES = ((0.4, 2.3), (1.1, 4.1), (-0.5, 6.7), (2.0, 9.5), (0.8, 15.0), (-1.3, 21.0))
ROCKS = ((-3.9, 2.0, 0.3), (-4.3, 1.5, 0.2), (3.6, 2.3, 0.24), (4.1, 1.8, 0.36), (2.6, 3.0, 0.16))


def sky(direction):
    """Light from a direction of the sky at dusk."""
    x, y, z = direction[0], max(direction[1], 0.0), direction[2]
    toward = max(dot(direction, SUN), 0.0)
    horizon = mix((0.62, 0.36, 0.42), (1.5, 0.74, 0.32), 0.22 + 0.9 * toward**1.2)
    clear = mix(horizon, (0.12, 0.24, 0.55), 1.25 * y**0.6)
    glow = 0.85 * toward**14 + 2.6 * toward**220
    cloud = mix((0.40, 0.29, 0.40), (2.1, 0.95, 0.46), 0.25 + 0.8 * toward**2.5)
    cover = fractal(0.75 * x / (y + 0.16) + 4.0, 1.3 * z / (y + 0.16) + 1.5)
    cover = 0.8 * smoothstep(0.48, 0.72, cover) * smoothstep(0.015, 0.10, y)
    return mix(plus(clear, scaled((1.0, 0.62, 0.26), glow)), cloud, cover)


def reflection(direction, normal):
    """The colour of water seen along a direction: mirrored sky over blue-green."""
    along = dot(direction, normal)
    x, y, z = plus(direction, scaled(normal, -2 * along))
    fresnel = 0.03 + 0.97 * (1 - min(abs(along), 1.0)) ** 5
    return display(mix((0.012, 0.085, 0.11), sky((x, abs(y), z)), fresnel))


def water(position, eye, normal):
    """Color and tint of the sea at a position.

    Three views, from the eye and from a third of a turn to each side, determine a constant
    and a horizontal gradient with respect to the direction.
    """
    x, y, z = normalize(plus(position, scaled(eye, -1)))
    color, tint = [0.0] * 3, [[0.0] * 3 for _ in range(3)]
    for turn in range(3):
        c, s = math.cos(turn * math.tau / 3), math.sin(turn * math.tau / 3)
        view = (c * x - s * z, y, s * x + c * z)
        for k, value in enumerate(reflection(view, normal)):
            color[k] += value / 3
            tint[k][0] += view[0] * value / (1 - y * y) * 2 / 3
            tint[k][2] += view[2] * value / (1 - y * y) * 2 / 3
    return color, tint


def add_water(scene, terrain, eye, x, z, size):
    depth, away = -terrain.at(x, z), math.hypot(x, z)
    if depth < -0.10:
        return
    slope = [0.0, 0.0]
    for angle, number in WAVES:
        c, s = math.cos(angle), math.sin(angle)
        rise = -0.047 * math.cos(number * (c * x + s * z + 1)) * smoothstep(-0.3, 0.5, depth)
        slope = [slope[0] + rise * c, slope[1] + rise * s]
    color, tint = water((x, 0, z), eye, normalize((slope[0], 1, slope[1])))
    sunlit = terrain.sunlight(x, 0.02, z) if away < 6 else 1.0
    shallow = plus(shade((0.05, 0.36, 0.34), UP, sunlit), (-0.35, -0.35, -0.35))
    color = plus(color, scaled(shallow, 0.55 * smoothstep(0.6, 0.05, depth)))
    foam = smoothstep(0.13, 0.0, depth + 0.10 * (fractal(x * 3.1, z * 3.1) - 0.5))
    color = mix(color, shade((0.85, 0.86, 0.88), UP, sunlit), foam)
    tilt = 0.5 * smoothstep(20.0, 8.0, away)  # a far horizon is level
    normal = normalize((tilt * slope[0], 1, tilt * slope[1]))
    scene.disc((x, 0, z), normal, size, color, 0.95, [scaled(t, 1 - foam) for t in tint])


def add_sea(scene, terrain, eye):
    """Rings of water around the island, coarser with the distance, and a dark floor."""
    radius = 1.6
    while radius < 62:
        spacing = 0.062 + 0.021 * max(radius - 5.5, 0.0)
        count = int(math.tau * radius / spacing)
        for k in range(count):
            angle = math.tau * (k + rng.random()) / count
            x, _, z = scaled(around(angle), radius + spacing * rng.uniform(-0.5, 0.5))
            add_water(scene, terrain, eye, x, z, 0.8 * spacing)
        radius += spacing
    for k in range(17 * 17):
        position = (1.1 * (k % 17 - 8), -0.75, 1.1 * (k // 17 - 8))
        scene.disc(position, UP, 0.8, display((0.02, 0.10, 0.14)))


def add_rock(scene, x, z, size):
    for _ in range(int(9000 * size)):
        n = normalize((rng.gauss(0, 1), rng.gauss(0.3, 1), rng.gauss(0, 1)))
        out = size * (0.72 + 0.55 * fractal(n[0] * 2.1 + x, n[1] * 2.1 + n[2] * 1.7 + z))
        y = 0.9 * out * n[1] - 0.05
        albedo = mix((0.17, 0.13, 0.12), (0.40, 0.33, 0.28), noise(n[0] * 9, n[1] * 14 + n[2] * 5))
        color = shade(scaled(albedo, smoothstep(-0.07, 0.09, y)), n, 1, 0.7)
        scene.disc((x + out * n[0], y, z + out * n[2]), n, 0.024, color)
        foam = plus((x, 0.012, z), scaled(around(), size * rng.uniform(0.85, 1.2)))
        scene.disc(foam, UP, 0.03, (0.85, 0.85, 0.85), 0.03)


def add_boat(scene, x=-2.55, z=4.1):
    for _ in range(3100):
        s, t, side = rng.uniform(-1, 1), rng.random(), rng.choice((-1, 1))
        width = 0.075 * (1 - abs(s) ** 2.2) * (0.55 + 0.45 * t)
        hull = (x + 0.27 * s * (0.88 + 0.12 * t), 0.10 * t * (1 + 0.35 * s * s), z + side * width)
        normal = normalize((0.35 * s, -0.25, side))
        albedo = (0.62, 0.56, 0.48) if t > 0.82 else (0.34, 0.11, 0.07)
        scene.disc(hull, normal, 0.011, shade(albedo, normal, 1, 0.9, 0.2))
    for k in range(40):
        scene.add((x + 0.03, 0.1 + 0.0155 * k, z), UP, 0.007, 0.012, (0.53, 0.45, 0.38))
    for head, foot, reach in ((0.54, 0.01, -0.27), (0.46, 0.06, 0.21)):  # the sails
        for _ in range(1900):
            up, upper = sorted((rng.random(), rng.random()))
            out = upper - up
            belly = 0.06 * math.sin(math.pi * out) * math.sin(0.9 * math.pi * upper)
            normal = normalize((0.5 * out - 0.15, 0.1, 1.0))
            color = shade((0.92, 0.88, 0.80), normal, 1, 1, 0.7)
            position = (x + foot + reach * out, 0.16 + head * up, z + belly + 0.04 * out)
            scene.disc(position, normal, 0.013, color)


def add_sky(scene):
    """A dome of large Gaussians, finer at the horizon."""
    elevation = -0.06
    while elevation < math.pi / 2:
        spacing = 0.011 + 0.055 * max(elevation, 0.0)
        count = int(math.tau * math.cos(elevation) / spacing) + 1
        for k in range(count):
            rise = math.tan(elevation + spacing * rng.uniform(-0.5, 0.5))
            d = around(math.tau * (k + rng.random()) / count, rise)
            scene.disc(scaled(d, 75), d, 85 * spacing, display(sky(d)))
        elevation += spacing


def add_birds(scene):
    for k in range(9):
        x, z = 0.36 * k - 2.6 + rng.gauss(0, 0.12), rng.gauss(-1.5, 0.3)
        y = 3.19 - 0.11 * abs(k - 3) + rng.gauss(0, 0.05)
        for side in (-1, 1):
            for out, up, lean in ((0.022, 0.009, 0.42), (0.06, 0.015, -0.12)):
                wing = normalize((side, lean, 0.1))
                scene.add((x + side * out, y + up, z), wing, 0.004, 0.013, (0.10, 0.09, 0.12))
