"""The island of the procedural scene: terraces, meadows and trees."""

import math

from scene_kit import (
    SUN,
    display,
    fractal,
    lobe,
    mix,
    noise,
    normalize,
    rng,
    shade,
    smoothstep,
)

GRID, CELL = 250, 0.04  # the height map: GRID x GRID cells around the origin
HALF = GRID * CELL / 2


# ------------------------------------------------------------------- island


def terrace(height):
    """Steps with slightly sloping treads."""
    step = height * 3.1
    base = math.floor(step)
    rise = step - base
    return (base + 0.22 * rise + 0.78 * smoothstep(0.66, 0.98, rise)) / 3.1


def island_height(x, z):
    wobble = fractal(x * 0.55 + 5, z * 0.55 + 9, 3) - 0.5
    distance = math.hypot(x / 1.22, z) / (3.05 + 2.6 * wobble)
    peak = math.exp(-((x - 1.0) ** 2 + (z + 0.6) ** 2) / 1.7)
    second = math.exp(-((x + 1.6) ** 2 + (z + 0.2) ** 2) / 1.3)
    land = 1 - smoothstep(0.35, 1.12, distance)
    height = land * (0.75 + 1.45 * peak + 0.75 * second) + 0.5 * (wobble * land)
    if height > 0.22:
        height = 0.22 + terrace(height - 0.22 + 0.10 * fractal(x * 2.3, z * 2.3, 2))
    return height - 0.16 - 0.7 * smoothstep(0.95, 1.5, distance)


class Terrain:
    """Heights, sunlight and tree tops on a grid."""

    def __init__(self):
        side = range(GRID + 1)
        self.height = [
            [island_height(i * CELL - HALF, j * CELL - HALF) for i in side] for j in side
        ]
        self.blocked = [row[:] for row in self.height]  # with what stands on it
        self.light = None

    @staticmethod
    def lookup(grid, x, z, outside):
        u, v = (x + HALF) / CELL, (z + HALF) / CELL
        if not (0 <= u < GRID and 0 <= v < GRID):
            return outside
        i, j = int(u), int(v)
        u, v = u - i, v - j
        low, high = grid[j], grid[j + 1]
        near = low[i] + (low[i + 1] - low[i]) * u
        return near + (high[i] + (high[i + 1] - high[i]) * u - near) * v

    def at(self, x, z):
        return self.lookup(self.height, x, z, -1.0)

    def normal(self, x, z):
        reach = 0.6 * CELL
        return normalize(
            (
                self.at(x - reach, z) - self.at(x + reach, z),
                2 * reach,
                self.at(x, z - reach) - self.at(x, z + reach),
            )
        )

    def block(self, x, z, radius, top):
        """Something round that casts a shadow."""
        cells = int(radius / CELL) + 1
        ci, cj = int((x + HALF) / CELL), int((z + HALF) / CELL)
        for j in range(max(cj - cells, 0), min(cj + cells, GRID) + 1):
            for i in range(max(ci - cells, 0), min(ci + cells, GRID) + 1):
                away = math.hypot(i * CELL - HALF - x, j * CELL - HALF - z) / radius
                if away < 1:
                    height = self.height[j][i] + (top - self.height[j][i]) * (1 - away**2)
                    self.blocked[j][i] = max(self.blocked[j][i], height)

    def sunlight(self, x, y, z, start=0.08):
        """0 in shadow to 1 in the sun, by walking to it; soft with the distance."""
        light, distance = 1.0, start
        while distance < 9 and light > 0:
            height = y + SUN[1] * distance
            if height > 3.9:
                break
            top = self.lookup(self.blocked, x + SUN[0] * distance, z + SUN[2] * distance, -1.0)
            light = min(light, 0.5 + (height - top) / (0.05 + 0.06 * distance))
            distance += 0.07 + 0.05 * distance
        return max(light, 0.0)

    def bake(self):
        side = range(GRID + 1)
        self.light = [
            [
                self.sunlight(i * CELL - HALF, max(self.height[j][i], 0.0), j * CELL - HALF)
                if self.height[j][i] > -0.7
                else 1.0
                for i in side
            ]
            for j in side
        ]

    def lit(self, x, z):
        return self.lookup(self.light, x, z, 1.0)

    def openness(self, x, y, z):
        """How much sky is free: low at the foot of steps and under trees."""
        hidden = 0.0
        for dx, dz in ((0.13, 0), (-0.13, 0), (0, 0.13), (0, -0.13), (0.3, 0.3), (-0.3, 0.3)):
            hidden += min(max(self.lookup(self.blocked, x + dx, z + dz, -1.0) - y, 0.0), 0.4)
        return max(1 - hidden * 0.55, 0.25)


def ground_albedo(x, y, z, normal):
    speck = rng.random()
    patch = fractal(x * 1.7 + 40, z * 1.7, 3)
    strata = 0.5 + 0.5 * math.sin(y * 34 + 3 * noise(x * 2, z * 2))
    rock = mix((0.20, 0.15, 0.13), (0.42, 0.33, 0.27), 0.65 * strata + 0.35 * speck)
    grass = mix((0.10, 0.20, 0.04), (0.30, 0.34, 0.07), 1.3 * patch - 0.25 + 0.3 * speck)
    sand = mix((0.55, 0.43, 0.28), (0.72, 0.60, 0.42), 0.6 * patch + 0.4 * speck)
    color = mix(rock, grass, smoothstep(0.62, 0.86, normal[1] + 0.10 * (patch - 0.5)))
    beach = smoothstep(0.22, 0.07, y + 0.12 * (patch - 0.5)) * smoothstep(0.45, 0.8, normal[1])
    color = mix(color, sand, beach)
    return mix(color, tuple(0.45 * c for c in color), smoothstep(0.05, -0.02, y))


def make_ground(scene, terrain):
    for j in range(GRID):
        for i in range(GRID):
            if max(terrain.height[j][i : i + 2] + terrain.height[j + 1][i : i + 2]) < -0.12:
                continue
            x0, z0 = i * CELL - HALF, j * CELL - HALF
            slope = terrain.normal(x0 + CELL / 2, z0 + CELL / 2)[1]
            count = 1 if slope > 0.8 else min(int(1.6 / slope), 5)
            for _ in range(count):
                x, z = x0 + rng.random() * CELL, z0 + rng.random() * CELL
                y, normal = terrain.at(x, z), terrain.normal(x, z)
                albedo = ground_albedo(x, y, z, normal)
                light = shade(albedo, normal, terrain.lit(x, z), terrain.openness(x, y, z))
                scene.disc((x, y, z), normal, CELL * 0.72, display(light))


def make_meadow(scene, terrain):
    """Blades of grass, and flowers in patches of one colour."""
    petals = ((0.9, 0.12, 0.10), (0.95, 0.70, 0.10), (0.55, 0.25, 0.85), (0.95, 0.85, 0.80))
    for _ in range(26000):
        x, z = rng.uniform(-4.4, 4.4), rng.uniform(-3.6, 3.6)
        y = terrain.at(x, z)
        if y < 0.16 or terrain.normal(x, z)[1] < 0.9:
            continue
        sunlit, free = terrain.lit(x, z), terrain.openness(x, y, z)
        lean = normalize((rng.gauss(0, 0.35), 1.0, rng.gauss(0, 0.35)))
        tone = mix((0.13, 0.25, 0.04), (0.40, 0.42, 0.10), rng.random())
        light = shade(tone, (0, 1, 0), sunlit, free, 0.4)
        height = rng.uniform(0.012, 0.03)
        glow = lobe(SUN, tuple(0.16 * sunlit * c for c in (0.9, 0.9, 0.2)))
        scene.streak((x, y + height, z), lean, height, 0.006, display(light), 0.85, glow)
        patch = noise(x * 0.9 + 80, z * 0.9)
        if patch > 0.56 and rng.random() < 0.5:
            petal = petals[int(noise(x * 0.5 + 7, z * 0.5 + 3) * 7.9) % 4]
            light = shade(petal, (0, 1, 0), sunlit, free, 0.5)
            scene.disc((x, y + 2.2 * height, z), lean, 0.012, display(light), 0.95)


# -------------------------------------------------------------------- trees


def leaf(scene, position, normal, size, albedo, sunlit, free):
    light = shade(albedo, normal, sunlit, free, 0.35)
    through = lobe(SUN, tuple(0.30 * sunlit * free * c**0.6 for c in albedo))
    tilted = normalize(tuple(c + rng.gauss(0, 0.35) for c in normal))
    scene.disc(position, tilted, size, display(light), 0.9, through, 0.3)


def make_conifer(scene, terrain, x, z, height):
    y = terrain.at(x, z) - 0.02
    sunlit = terrain.sunlight(x, y + 0.6 * height, z, 0.35 * height)
    tint = mix((0.035, 0.10, 0.05), (0.09, 0.17, 0.06), rng.random())
    for step in range(8):
        light = shade((0.16, 0.10, 0.07), (0.6, 0, 0.8), sunlit * 0.5, 0.6)
        scene.streak((x, y + height * 0.05 * step, z), (0, 1, 0), 0.03, 0.016, display(light))
    tiers = 7
    for _ in range(int(620 * height)):
        t = 1 - math.sqrt(rng.random())
        tier = (t * tiers) % 1.0
        radius = height * 0.30 * (1 - t) * (1.12 - 0.45 * tier) + 0.008
        out = radius * math.sqrt(rng.uniform(0.35, 1.0))
        angle = rng.random() * 6.2832
        c, s = math.cos(angle), math.sin(angle)
        normal = normalize((c, 0.55, s))
        position = (x + out * c, y + height * (0.16 + 0.84 * t) - 0.25 * out, z + out * s)
        edge = out / radius
        albedo = mix(tint, tuple(2.1 * a for a in tint), (edge - 0.6) * 1.6 * rng.random())
        leaf(scene, position, normal, 0.020, albedo, sunlit, 0.35 + 0.65 * edge * (1 - 0.5 * tier))


def make_broadleaf(scene, terrain, x, z, height, colors):
    y = terrain.at(x, z) - 0.02
    crown = 0.36 * height
    sunlit = terrain.sunlight(x, y + 0.7 * height, z, 1.4 * crown)
    bark = display(shade((0.17, 0.11, 0.08), (0.6, 0, 0.8), sunlit * 0.4, 0.6))
    for step in range(9):
        bend = 0.03 * math.sin(step * 0.5)
        scene.streak((x + bend, y + 0.06 * height * step, z), (0, 1, 0), 0.035, 0.02, bark)
    puffs = [(0.0, 0.70 * height, 0.0, crown)]
    for k in range(5):
        angle = k * 1.2566 + rng.random()
        away = crown * rng.uniform(0.55, 0.8)
        lift = height * rng.uniform(0.52, 0.72)
        puffs.append((away * math.cos(angle), lift, away * math.sin(angle), crown * 0.62))
    for px, py, pz, radius in puffs:
        for _ in range(int(5200 * radius * radius) + 40):
            normal = normalize((rng.gauss(0, 1), rng.gauss(0.25, 1), rng.gauss(0, 1)))
            out = radius * rng.random() ** 0.22
            position = (
                x + px + out * normal[0],
                y + py + 0.82 * out * normal[1],
                z + pz + out * normal[2],
            )
            above = (position[1] - y) / height
            free = 0.30 + 0.7 * smoothstep(0.35, 0.95, above) * (out / radius)
            albedo = mix(colors[0], colors[1], rng.random())
            leaf(scene, position, normal, 0.024, albedo, sunlit, free)


def plan_trees(terrain):
    """Places on the treads of the terraces, at a distance from each other."""
    trees, tries = [], 0
    while len(trees) < 92 and tries < 6000:
        tries += 1
        x, z = rng.uniform(-4.2, 4.2), rng.uniform(-3.4, 3.2)
        y, size = terrain.at(x, z), rng.uniform(0.32, 0.62)
        if y < 0.24 or terrain.normal(x, z)[1] < 0.88:
            continue
        if math.hypot(x - 1.0, z + 0.6) < 0.62 or math.hypot(x + 0.75, z - 0.75) < 0.55:
            continue  # the lighthouse and the cottage
        if any(math.hypot(x - a, z - b) < 0.34 * (size + s) for a, b, s, _ in trees):
            continue
        grove = noise(x * 0.55 + 31, z * 0.55 + 12) + 0.12 * (y - 0.8)
        trees.append((x, z, size, "conifer" if grove > 0.52 else "broadleaf"))
    for x, z, size, kind in trees:
        radius = 0.26 * size if kind == "conifer" else 0.42 * size
        terrain.block(x, z, radius, terrain.at(x, z) + 0.95 * size)
    return trees


def make_trees(scene, terrain, trees):
    blossom = ((0.85, 0.42, 0.50), (0.95, 0.68, 0.70))
    gold = ((0.75, 0.36, 0.06), (0.90, 0.58, 0.12))
    green = ((0.14, 0.26, 0.05), (0.30, 0.40, 0.10))
    for x, z, size, kind in trees:
        if kind == "conifer":
            make_conifer(scene, terrain, x, z, 1.35 * size)
        else:
            pick = noise(x * 0.8 + 3, z * 0.8 + 50) + rng.uniform(-0.15, 0.15)
            colors = blossom if pick > 0.5 else gold if pick > 0.38 else green
            make_broadleaf(scene, terrain, x, z, size, colors)
