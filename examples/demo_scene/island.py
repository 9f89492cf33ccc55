"""The island: terraces, grass and trees, the lighthouse and the cottage."""

import math

from gaussians import SUN, display, shade
from vectors import UP, around, fractal, mix, noise, normalize, plus, rng, scaled, smoothstep

SIDE, CELL = 250, 0.04  # the height map: SIDE x SIDE cells around the origin
HALF = SIDE * CELL / 2
LIGHTHOUSE, COTTAGE = (1.0, -0.6), (-0.75, 0.75)  # x and z
CONIFER = ((0.05, 0.13, 0.05), (0.12, 0.24, 0.08))
BLOSSOM = ((0.85, 0.42, 0.50), (0.95, 0.68, 0.70))
GOLD = ((0.75, 0.36, 0.06), (0.90, 0.58, 0.12))
GREEN = ((0.14, 0.26, 0.05), (0.30, 0.40, 0.10))
RED, WHITE, STONE = (0.62, 0.08, 0.06), (0.82, 0.78, 0.72), (0.35, 0.31, 0.28)


def elevation(x, z):
    """Two peaks cut into terraces, and a beach."""
    wobble = fractal(x * 0.55 + 5, z * 0.55 + 9) - 0.5
    distance = math.hypot(x / 1.22, z) / (3.05 + 2.6 * wobble)
    peaks = 1.45 * math.exp(-((x - 1.0) ** 2 + (z + 0.6) ** 2) / 1.7)
    peaks += 0.75 * math.exp(-((x + 1.6) ** 2 + (z + 0.2) ** 2) / 1.3)
    y = (1 - smoothstep(0.35, 1.12, distance)) * (0.75 + peaks + 0.5 * wobble)
    if y > 0.22:
        step = 3.1 * (y - 0.22 + 0.10 * fractal(x * 2.3, z * 2.3))
        step += 0.78 * (smoothstep(0.66, 0.98, step % 1) - step % 1)
        y = 0.22 + step / 3.1
    return y - 0.16 - 0.7 * smoothstep(0.95, 1.5, distance)


class Terrain:
    """Heights on a grid: of the ground, and with what stands on it and casts shadows."""

    def __init__(self):
        points = [k * CELL - HALF for k in range(SIDE + 1)]
        self.ground = [[elevation(x, z) for x in points] for z in points]
        self.tops = [row[:] for row in self.ground]

    def at(self, x, z, grid=None):
        u, v = (x + HALF) / CELL, (z + HALF) / CELL
        if not (0 <= u < SIDE and 0 <= v < SIDE):
            return -1.0
        i, j = int(u), int(v)
        rows = (grid or self.ground)[j : j + 2]
        near, far = (row[i] + (row[i + 1] - row[i]) * (u - i) for row in rows)
        return near + (far - near) * (v - j)

    def normal(self, x, z):
        d = 0.6 * CELL
        east, south = self.at(x + d, z) - self.at(x - d, z), self.at(x, z + d) - self.at(x, z - d)
        return normalize((-east, 2 * d, -south))

    def block(self, x, z, radius, top):
        """Something round that casts a shadow."""
        reach = int(radius / CELL) + 1
        column, row = int((x + HALF) / CELL), int((z + HALF) / CELL)
        for j in range(row - reach, row + reach):
            for i in range(column - reach, column + reach):
                away = math.hypot(i * CELL - HALF - x, j * CELL - HALF - z) / radius
                height = self.ground[j][i] + top * max(1 - away**2, 0.0)
                self.tops[j][i] = max(self.tops[j][i], height)

    def sunlight(self, x, y, z, start=0.08):
        """0 in shadow to 1 in the sun; shadows get softer with the distance."""
        light, distance = 1.0, start
        while light > 0 and y + SUN[1] * distance < 3.9:
            top = self.at(x + SUN[0] * distance, z + SUN[2] * distance, self.tops)
            light = min(light, 0.5 + (y + SUN[1] * distance - top) / (0.05 + 0.06 * distance))
            distance += 0.07 + 0.05 * distance
        return max(light, 0.0)


def ground_albedo(x, y, z, level):
    speck, patch = rng.random(), fractal(x * 1.7 + 40, z * 1.7)
    strata = 0.5 + 0.5 * math.sin(y * 34 + 3 * noise(x * 2, z * 2))
    rock = mix((0.20, 0.15, 0.13), (0.42, 0.33, 0.27), 0.65 * strata + 0.35 * speck)
    grass = mix((0.10, 0.20, 0.04), (0.30, 0.34, 0.07), 1.3 * patch - 0.25 + 0.3 * speck)
    sand = mix((0.55, 0.43, 0.28), (0.72, 0.60, 0.42), 0.6 * patch + 0.4 * speck)
    color = mix(rock, grass, smoothstep(0.62, 0.86, level + 0.10 * (patch - 0.5)))
    beach = smoothstep(0.22, 0.07, y + 0.12 * (patch - 0.5)) * smoothstep(0.45, 0.8, level)
    return scaled(mix(color, sand, beach), 1 - 0.55 * smoothstep(0.05, -0.02, y))


def add_ground(scene, terrain):
    for cell in range(SIDE * SIDE):
        x, z = (cell % SIDE + 0.5) * CELL - HALF, (cell // SIDE + 0.5) * CELL - HALF
        if terrain.at(x, z) < -0.14:
            continue
        for _ in range(min(int(2 / terrain.normal(x, z)[1]), 5)):  # more on slopes
            a, b = x + rng.uniform(-CELL, CELL) / 2, z + rng.uniform(-CELL, CELL) / 2
            y, normal = terrain.at(a, b), terrain.normal(a, b)
            sunlit = terrain.sunlight(a, max(y, 0.0), b)
            color = shade(ground_albedo(a, y, b, normal[1]), normal, sunlit, 0.8)
            scene.disc((a, y, b), normal, 0.72 * CELL, color)
            if y > 0.16 and normal[1] > 0.9:
                blade = rng.uniform(0.012, 0.03)
                tone = mix((0.13, 0.25, 0.04), (0.40, 0.42, 0.10), rng.random())
                lean = normalize((rng.gauss(0, 0.35), 1.0, rng.gauss(0, 0.35)))
                color = shade(tone, UP, sunlit, 0.8, 0.6)
                scene.add((a, y + blade, b), lean, 0.006, blade, color, 0.85)


def plan_trees(terrain):
    """(x, z, size) of trees on the terraces, apart from each other, the buildings and the path."""
    trees = [(*LIGHTHOUSE, 1.2), (*COTTAGE, 0.9), (-0.68, 1.5, 0.9)]
    for _ in range(6000):
        x, z, size = rng.uniform(-4.2, 4.2), rng.uniform(-3.4, 3.2), rng.uniform(0.32, 0.62)
        level = terrain.at(x, z) > 0.24 and terrain.normal(x, z)[1] > 0.88
        if level and all(math.hypot(x - a, z - b) > 0.37 * (size + c) for a, b, c in trees):
            trees.append((x, z, size))
    return trees[3:]


def add_tree(scene, terrain, x, z, size):
    """A trunk and balls of leaves: a stack of them, or one with five around it."""
    foot = (x, terrain.at(x, z) - 0.02, z)
    if noise(x * 0.55 + 31, z * 0.55 + 12) + 0.12 * (foot[1] - 0.8) > 0.52:
        colors = CONIFER
        balls = [((0, (0.2 + 0.085 * k) * size, 0), (0.42 - 0.03 * k) * size) for k in range(14)]
    else:
        pick = noise(x * 0.8 + 3, z * 0.8 + 50) + rng.uniform(-0.15, 0.15)
        colors = BLOSSOM if pick > 0.5 else GOLD if pick > 0.38 else GREEN
        balls = [((0, 0.7 * size, 0), 0.36 * size)]
        for k in range(5):
            center = scaled(around(1.2566 * k + rng.random(), rng.uniform(1.9, 2.6)), 0.67 * size)
            balls.append((center, 0.22 * size))
    sunlit = terrain.sunlight(x, foot[1] + 0.75 * size, z, 0.5 * size)
    for step in range(9):
        bark = shade((0.17, 0.11, 0.08), (0.6, 0, 0.8), 0.5 * sunlit, 0.6)
        scene.add(plus(foot, (0, 0.06 * size * step, 0)), UP, 0.018, 0.035, bark)
    for center, radius in balls:
        for _ in range(int(5200 * radius * radius)):
            normal = normalize((rng.gauss(0, 1), rng.gauss(0.25, 1), rng.gauss(0, 1)))
            out = rng.random() ** 0.22
            offset = plus(center, scaled(normal, out * radius))
            open_sky = 0.30 + 0.7 * smoothstep(0.35, 0.95, offset[1] / size) * out
            albedo = mix(*colors, rng.random())
            color = shade(albedo, normal, sunlit, open_sky, 0.35)
            through = [scaled(SUN, 0.13 * sunlit * open_sky * c**0.6) for c in albedo]
            tilted = normalize(plus(normal, (rng.gauss(0, 0.35), rng.gauss(0, 0.35), 0)))
            scene.add(plus(foot, offset), tilted, 0.022, 0.007, color, 0.9, through)


def add_lighthouse(scene, terrain):
    x, z = LIGHTHOUSE
    y = terrain.at(x, z)
    # Heights of the lower and the upper edge, their radii, and the colour.
    parts = [(-0.05, 0.07, 0.27, 0.25, STONE), (1.20, 1.24, 0.18, 0.19, STONE)]
    parts += [(1.24, 1.42, 0.09, 0.09, None), (1.42, 1.57, 0.125, 0.005, RED)]
    for k in range(5):
        low, radius = 0.05 + 0.23 * k, 0.19 - 0.013 * k
        parts.append((low, low + 0.23, radius, radius - 0.013, RED if k % 2 else WHITE))
    for low, high, lower, upper, albedo in parts:
        for _ in range(int(40000 * (high - low) * (lower + upper)) + 500):
            t, normal = rng.random(), around(rise=(lower - upper) / (high - low))
            side = scaled(normal, lower + (upper - lower) * t)
            color = shade(albedo, normal, 1, 0.9, 0.1) if albedo else display((2.4, 1.5, 0.6))
            position = (x + side[0], y + low + (high - low) * t, z + side[2])
            scene.disc(position, normal, 0.017, color)
    for beam in (around(2.6, 0.06), around(-0.55, 0.06)):
        for k in range(46):
            center = plus((x, y + 1.33, z), scaled(beam, 0.11 * k))
            width, opacity = 0.028 + 0.006 * k, 0.06 - 0.0012 * k
            scene.add(center, beam, width, 0.11, (1.0, 0.80, 0.52), opacity)


def add_cottage(scene, terrain):
    foot = (COTTAGE[0], terrain.at(*COTTAGE) - 0.04, COTTAGE[1])
    for _ in range(7000):
        s, t, side = rng.uniform(-1, 1), rng.random(), rng.choice((-1, 1))
        wall, end = (0, 0, side), (side, 0, 0)
        door, window = abs(s) < 0.16 and t < 0.7, 0.36 < abs(s) < 0.72 and 0.28 < t < 0.72
        color = shade((0.25, 0.12, 0.06) if door else WHITE, wall, 0.9, 0.9)
        color = display((1.9, 1.0, 0.32)) if window else color
        scene.disc(plus(foot, (0.2 * s, 0.2 * t, 0.14 * side)), wall, 0.009, color)
        gable = plus(foot, (0.2 * side, (0.37 - 0.17 * abs(s)) * t, 0.14 * s))
        scene.disc(gable, end, 0.009, shade(WHITE, end, 0.9, 0.9))
        roof = normalize((0, 0.18, 0.21 * side))
        tile = scaled((0.45, 0.15, 0.09), 0.8 + 0.3 * math.sin(55 * t) + 0.2 * rng.random())
        position = plus(foot, (0.24 * s, 0.37 - 0.21 * t, 0.18 * side * t))
        scene.disc(position, roof, 0.009, shade(tile, roof))
