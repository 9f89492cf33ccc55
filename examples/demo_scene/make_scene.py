#!/usr/bin/env python3
"""Writes the scene of `make demo`, an island at dusk, as 3DGS training would save it.

    make_scene.py SCENE.ply CAMERAS.json

Sunlight, sky light and shadows are baked into the colours; reflections on the sea and light
through leaves depend on the view.  Needs only Python's standard library; every run writes the
same bytes.
"""

import json
import math
import sys

import island
import sea
from gaussians import Scene
from vectors import normalize, plus, scaled

EYE = (0.3, 2.3, 10.6)  # the first camera, and what it looks at
TARGET = (0.35, 1.05, 0.0)


def camera(index):
    """The first camera turned about the target, in the layout of 3DGS, where y is down."""
    angle = math.atan2(EYE[2] - TARGET[2], EYE[0] - TARGET[0]) + index * math.tau / 8
    distance = math.hypot(EYE[0] - TARGET[0], EYE[2] - TARGET[2])
    eye = (TARGET[0] + distance * math.cos(angle), EYE[1], TARGET[2] + distance * math.sin(angle))
    x, y, z = normalize(plus(TARGET, scaled(eye, -1)))  # forward
    flat = math.hypot(x, z)
    axes = ((-z / flat, 0, x / flat), (x * y / flat, -flat, y * z / flat), (x, y, z))
    return {
        "id": index,
        "img_name": f"{index:05d}",
        "width": 1280,
        "height": 720,
        "position": [eye[0], -eye[1], -eye[2]],
        "rotation": [[axis[0] for axis in axes]] + [[-axis[k] for axis in axes] for k in (1, 2)],
        "fx": 1150.0,
        "fy": 1150.0,
    }


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_scene.py SCENE.ply CAMERAS.json")
    scene, terrain = Scene(), island.Terrain()
    trees = island.plan_trees(terrain)
    for x, z, size in trees:
        terrain.block(x, z, 0.34 * size, 0.95 * size)
    terrain.block(*island.LIGHTHOUSE, 0.22, 1.5)
    terrain.block(*island.COTTAGE, 0.30, 0.42)
    island.add_ground(scene, terrain)
    for tree in trees:
        island.add_tree(scene, terrain, *tree)
    island.add_lighthouse(scene, terrain)
    island.add_cottage(scene, terrain)
    sea.add_sea(scene, terrain, EYE)
    for rock in sea.ROCKS:
        sea.add_rock(scene, *rock)
    sea.add_boat(scene)
    sea.add_sky(scene)
    sea.add_birds(scene)
    count = scene.write(sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump([camera(index) for index in range(8)], file, indent=1)
    print(f"{sys.argv[1]}  {count} Gaussians")


if __name__ == "__main__":
    main()
