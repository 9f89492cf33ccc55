"""The sea around the island of the procedural scene, its rocks, and the sky."""

import math

from scene_kit import (
    SUN,
    display,
    dot,
    fractal,
    mix,
    noise,
    normalize,
    rng,
    sh_basis,
    shade,
    sky,
    smoothstep,
)

# ---------------------------------------------------------------------- sea


def sea_light(direction, normal):
    """What is seen of water along a direction: mirrored sky over a dim blue-green."""
    along = dot(direction, normal)
    mirrored = tuple(d - 2 * along * n for d, n in zip(direction, normal))
    mirrored = normalize((mirrored[0], abs(mirrored[1]), mirrored[2]))
    fresnel = 0.03 + 0.97 * (1 - min(abs(along), 1.0)) ** 5
    glint = 3.0 * max(dot(mirrored, SUN), 0.0) ** 40
    body = (0.012, 0.085, 0.11)
    light = sky(mirrored)
    return tuple(
        fresnel * (s + glint * g) + (1 - fresnel) * b
        for s, g, b in zip(light, (1.0, 0.62, 0.28), body)
    )


def solve(matrix, columns):
    """Gauss-Jordan elimination of a symmetric positive definite system."""
    size = len(matrix)
    rows = [list(row) + [column[k] for column in columns] for k, row in enumerate(matrix)]
    for k in range(size):
        pivot = rows[k][k]
        rows[k] = [value / pivot for value in rows[k]]
        for other in range(size):
            if other != k:
                factor = rows[other][k]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[k])]
    return [[rows[k][size + c] for k in range(size)] for c in range(len(columns))]


def fit_sea(normal, directions):
    """The SH closest to sea_light over the directions that cameras look along."""
    matrix = [[0.0] * 9 for _ in range(9)]
    columns = [[0.0] * 9 for _ in range(3)]
    for direction, weight, basis in directions:
        seen = display(sea_light(direction, normal))
        for i in range(9):
            scaled = weight * basis[i]
            for j in range(9):
                matrix[i][j] += scaled * basis[j]
            for channel in range(3):
                columns[channel][i] += scaled * (seen[channel] - 0.5)
    for i in range(9):
        matrix[i][i] += 1e-3
    return solve(matrix, columns)


def view_directions():
    """Directions down to the water; those of the first cameras count most."""
    directions = []
    for a in range(28):
        azimuth = 2 * math.pi * a / 28
        for down in (0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.58, 0.8):
            flat = math.sqrt(1 - down * down)
            d = (flat * math.sin(azimuth), -down, -flat * math.cos(azimuth))
            weight = 0.15 + max(-d[2], 0.0) ** 2
            directions.append((d, weight, sh_basis(d[0], -d[1], -d[2])))
    return directions


# Direction (cosine and sine), wave number, steepness and phase.
WAVES = [
    (math.cos(angle), math.sin(angle), number, steepness, phase)
    for angle, number, steepness, phase in (
        (0.4, 2.3, 0.040, 0.3),
        (1.1, 4.1, 0.045, 1.7),
        (-0.5, 6.7, 0.050, 2.9),
        (2.0, 9.5, 0.050, 4.1),
        (0.8, 15.0, 0.050, 5.3),
        (-1.3, 21.0, 0.045, 0.9),
    )
]


def wave_normal(x, z, calm):
    sx = sz = 0.0
    for c, s, k, steepness, phase in WAVES:
        slope = steepness * math.cos(k * (c * x + s * z) + phase)
        sx += slope * c
        sz += slope * s
    return (-sx * calm, 1.0, -sz * calm)


class Reflections:
    """Fits of the sea for a grid of wave slopes."""

    STEP, REACH = 0.055, 3

    def __init__(self):
        directions = view_directions()
        slopes = range(-self.REACH, self.REACH + 1)
        self.fits = {
            (i, j): fit_sea(normalize((i * self.STEP, 1.0, j * self.STEP)), directions)
            for i in slopes
            for j in slopes
        }

    def nearest(self, normal):
        i, j = (
            max(-self.REACH, min(self.REACH, round(slope / self.STEP)))
            for slope in (normal[0], normal[2])
        )
        return self.fits[i, j]


def make_sea(scene, terrain):
    """Rings of water around the island, coarser with the distance."""
    reflections = Reflections()
    radius = 1.6
    while radius < 62:
        spacing = 0.062 if radius < 5.5 else 0.062 + 0.021 * (radius - 5.5)
        count = int(2 * math.pi * radius / spacing)
        for k in range(count):
            angle = 2 * math.pi * (k + rng.random()) / count
            away = radius + spacing * (rng.random() - 0.5)
            x, z = away * math.cos(angle), away * math.sin(angle)
            add_water(scene, terrain, reflections, x, z, spacing)
        radius += spacing
    make_deep(scene)


def make_deep(scene):
    """A dark floor, seen between the Gaussians of the surface."""
    color = display((0.02, 0.10, 0.14))
    for i in range(-8, 9):
        for j in range(-8, 9):
            scene.disc((1.1 * i, -0.75, 1.1 * j), (0, 1, 0), 0.8, color, 0.98, None, 0.02)


def foam_cover(x, z, depth):
    """At the waterline, and in broken lines before it."""
    shore = smoothstep(0.13, 0.0, depth + 0.10 * (fractal(x * 3.1, z * 3.1, 3) - 0.5))
    ripple = smoothstep(0.82, 0.97, math.sin(depth * 26 + 5 * fractal(x, z, 2)))
    return max(shore, 0.55 * ripple * smoothstep(0.5, 0.15, depth) * noise(x * 7, z * 7))


def add_water(scene, terrain, reflections, x, z, spacing):
    depth = -terrain.at(x, z)
    if depth < -0.10:
        return
    slope = wave_normal(x, z, 1.0 if depth > 0.5 else 0.5)
    sh = reflections.nearest(slope)
    sunlit = terrain.sunlight(x, 0.02, z) if math.hypot(x, z) < 6 else 1.0
    color = [0.42 + 0.08 * sunlit] * 3
    near = smoothstep(0.6, 0.05, depth)
    if near > 0:
        shallow = display(shade((0.05, 0.36, 0.34), (0, 1, 0), sunlit))
        color = [c + 0.55 * near * (s - 0.35) for c, s in zip(color, shallow)]
    foam = foam_cover(x, z, depth)
    if foam > 0.02:
        white = display(shade((0.85, 0.86, 0.88), (0, 1, 0), sunlit))
        sh = [[v * (1 - foam) for v in part] for part in sh]
        color = [c + (w - c) * foam for c, w in zip(color, white)]
    tilt = 0.5 * smoothstep(20.0, 8.0, math.hypot(x, z))  # a far horizon is level
    normal = normalize((tilt * slope[0], 1.0, tilt * slope[2]))
    scene.disc((x, 0.0, z), normal, spacing * 0.80, color, 0.95, sh, 0.06)


ROCKS = (
    (-3.9, 2.0, 0.30),
    (-4.3, 1.5, 0.18),
    (3.6, 2.3, 0.24),
    (4.1, 1.8, 0.36),
    (2.6, 3.0, 0.16),
    (-2.4, 3.3, 0.14),
)


def make_rock(scene, x, z, size):
    for _ in range(int(9000 * size)):
        n = normalize((rng.gauss(0, 1), rng.gauss(0.3, 1), rng.gauss(0, 1)))
        bumps = 0.72 + 0.55 * fractal(n[0] * 2.1 + x, n[1] * 2.1 + n[2] * 1.7 + z, 3)
        out = size * bumps
        p = (x + out * n[0], -0.05 + 0.9 * out * n[1], z + out * n[2])
        if p[1] < -0.06:
            continue
        grain = fractal(p[0] * 9, p[1] * 14 + p[2] * 5, 2)
        wet = 0.45 + 0.55 * smoothstep(0.0, 0.09, p[1])
        albedo = tuple(wet * c for c in mix((0.17, 0.13, 0.12), (0.40, 0.33, 0.28), grain))
        light = shade(albedo, n, 1.0, 0.6 + 0.4 * smoothstep(0, 0.2, p[1]))
        scene.disc(p, n, 0.024, display(light))


def make_rocks(scene):
    white = display((0.9, 0.85, 0.85))
    for x, z, size in ROCKS:
        make_rock(scene, x, z, size)
        for _ in range(int(700 * size)):
            a, r = rng.random() * 6.28, size * rng.uniform(0.85, 1.2)
            position = (x + r * math.cos(a), 0.012, z + r * math.sin(a))
            scene.disc(position, (0, 1, 0), 0.03, white, rng.uniform(0.15, 0.6))


# ---------------------------------------------------------------------- sky


def cloudy_sky(direction):
    up = max(direction[1], 0.0)
    u, v = direction[0] / (up + 0.16), direction[2] / (up + 0.16)
    cover = smoothstep(0.48, 0.72, fractal(u * 0.75 + 4.0, v * 1.3 + 1.5, 5))
    toward = max(dot(direction, SUN), 0.0)
    cloud = mix((0.40, 0.29, 0.40), (2.1, 0.95, 0.46), 0.25 + 0.8 * toward**2.5)
    return mix(sky(direction), cloud, 0.8 * cover * smoothstep(0.015, 0.10, up))


def make_sky(scene):
    """A dome of large Gaussians, finer at the horizon, before a coarse one without gaps."""
    for radius, fine, grow, overlap in ((75.0, 0.011, 0.055, 0.95), (90.0, 0.06, 0.15, 1.2)):
        elevation = -0.06
        while elevation < math.pi / 2:
            spacing = fine + grow * max(elevation, 0.0)
            count = max(int(2 * math.pi * math.cos(elevation) / spacing), 1)
            for k in range(count):
                angle = 2 * math.pi * (k + rng.random()) / count
                up = elevation + spacing * rng.uniform(-0.5, 0.5)
                flat = math.cos(up)
                d = (flat * math.cos(angle), math.sin(up), flat * math.sin(angle))
                position = tuple(radius * c for c in d)
                size = radius * spacing * overlap
                color = display(cloudy_sky(d))
                scene.disc(position, tuple(-c for c in d), size, color, 0.98, None, 0.05)
            elevation += spacing
    center = tuple(72 * c for c in SUN)
    toward = tuple(-c for c in SUN)
    for size, color, opacity in (
        (1.5, (1.0, 0.97, 0.86), 0.98),
        (3.6, (1.0, 0.82, 0.50), 0.40),
        (9.0, (1.0, 0.68, 0.36), 0.22),
    ):
        scene.disc(center, toward, size, color, opacity, None, 0.05)
