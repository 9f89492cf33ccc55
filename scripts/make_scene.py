#!/usr/bin/env python3
"""Writes a procedural scene, an island at evening, as 3DGS training would save it.

    make_scene.py SCENE.ply CAMERAS.json

The scene is a standard 3D Gaussian splatting PLY file of SH degree 2.  Sunlight, sky light,
shadows and occlusion are baked into the colours; reflections on the sea and light through
leaves depend on the view.  Only the Python standard library is used, and every run writes
the same bytes.

The model is made with y up, and turned so that y points down, as in trained scenes, when it
is written.
"""

import json
import math
import sys

from scene_buildings import make_birds, make_boat, make_cottage, make_lighthouse
from scene_island import Terrain, make_ground, make_meadow, make_trees, plan_trees
from scene_kit import Scene, cross, normalize
from scene_sea import make_rocks, make_sea, make_sky

EYE = (0.3, 2.3, 10.6)  # the first camera, and what it looks at
TARGET = (0.35, 1.05, 0.0)


def camera(index, eye, target):
    """In the layout of 3DGS: the camera's axes are the columns of rotation."""
    forward = normalize(tuple(t - e for t, e in zip(target, eye)))
    right = normalize(cross(forward, (0, 1, 0)))
    down = cross(forward, right)
    axes = [(a[0], -a[1], -a[2]) for a in (right, down, forward)]
    focal = 1150.0
    return {
        "id": index,
        "img_name": f"{index:05d}",
        "width": 1280,
        "height": 720,
        "position": [eye[0], -eye[1], -eye[2]],
        "rotation": [[axis[row] for axis in axes] for row in range(3)],
        "fy": focal,
        "fx": focal,
    }


def make_cameras():
    cameras = []
    distance = math.hypot(EYE[0] - TARGET[0], EYE[2] - TARGET[2])
    for index in range(8):
        angle = index * math.pi / 4
        eye = (
            TARGET[0] + distance * math.sin(angle) + (EYE[0] - TARGET[0]),
            EYE[1],
            TARGET[2] + distance * math.cos(angle),
        )
        cameras.append(camera(index, eye, TARGET))
    return cameras


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_scene.py SCENE.ply CAMERAS.json")
    scene, terrain = Scene(), Terrain()
    trees = plan_trees(terrain)
    terrain.block(1.0, -0.6, 0.22, terrain.at(1.0, -0.6) + 1.5)
    terrain.block(-0.75, 0.75, 0.30, terrain.at(-0.75, 0.75) + 0.42)
    terrain.bake()
    make_ground(scene, terrain)
    make_meadow(scene, terrain)
    make_trees(scene, terrain, trees)
    make_lighthouse(scene, terrain)
    make_cottage(scene, terrain)
    make_sea(scene, terrain)
    make_rocks(scene)
    make_boat(scene)
    make_sky(scene)
    make_birds(scene)
    count = scene.write(sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(make_cameras(), file, indent=1)
    print(f"{sys.argv[1]}  {count} Gaussians")


if __name__ == "__main__":
    main()
