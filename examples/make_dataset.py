#!/usr/bin/env python3
"""Renders a data set: images and their COLMAP reconstruction, as if photographed.

    make_dataset.py OUT [--scene SCENE.ply] [--cameras cameras.json] [--views N]

The scene is a 3D Gaussian splatting PLY file, or a small procedural one.  It is seen from the
cameras given, or with --views from a band of directions around it, which those cameras, if
there are any, determine.  Sparse points are centres of Gaussians that at least two images
show; they are displaced as if matched half a pixel wrong, and take their colours from the
images.  OUT/images and OUT/sparse/0 are what train_colmap.py reads.
"""

import argparse
import dataclasses
import pathlib
import sys

import numpy as np

try:
    import gsplat_c.io
except ModuleNotFoundError:  # run from a checkout
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bindings/python"))
    import gsplat_c.io
import fit_views
from report import Progress

MATCHING_ERROR = 0.5  # of the sparse points, pixels
DEPTH_TOLERANCE = 0.03  # how far from the visible surface a point that is seen may be


def band(count, target, distance, lowest, highest, width, height, focal):
    """Cameras in all directions between two elevations (radians) that look at the target.

    The directions are Roberts' R2 sequence, so that any run of them is spread evenly.
    """
    cameras = []
    for index in range(count):
        across, up = np.modf((index + 0.5) * np.array([0.7548776662466927, 0.5698402909980532]))[0]
        azimuth = 2 * np.pi * across
        sine = np.sin(lowest) + (np.sin(highest) - np.sin(lowest)) * up
        cosine = np.sqrt(1 - sine * sine)
        eye = target + distance * np.array([cosine * np.sin(azimuth), -sine,
                                            cosine * np.cos(azimuth)])
        cameras.append(gsplat_c.io.Camera(f"{index:05}.png", width, height,
                                          (focal, focal, width / 2, height / 2),
                                          fit_views.look_at(eye, target)))
    return cameras


def around_cameras(count, given):
    """Cameras like the given ones, with y down, around the point they look at."""
    eyes = np.array([camera.position for camera in given])
    axes = np.array([camera.rotation[2] for camera in given])
    across = np.eye(3) - axes[:, :, None] * axes[:, None]  # projections along the optical axes
    target = np.linalg.lstsq(across.sum(0), np.einsum("nij,nj->i", across, eyes), rcond=None)[0]
    away = eyes - target
    distances = np.linalg.norm(away, axis=1)
    elevations = np.arcsin(-away[:, 1] / distances)
    first = given[0]
    # Captures often have one height, which would not show the scene from above.
    return band(count, target, distances.mean(), elevations.min() - 0.15,
                min(elevations.max() + 0.5, 1.4), first.width, first.height, first.intrinsics[1])


def around_scene(count, means, width, height):
    """Cameras around a scene, from its Gaussians alone."""
    center, radius = fit_views.extent(means)
    return band(count, center, 2.8 * radius, 0.1, 1.0, width, height, 0.9 * min(width, height))


def place_cameras(options, scene):
    """The cameras selected by the options."""
    given = gsplat_c.io.load_cameras(options.cameras) if options.cameras else []
    if given and options.views:
        cameras = around_cameras(options.views, given)
    elif given:
        cameras = [dataclasses.replace(camera, name=pathlib.Path(camera.name).stem + ".png")
                   for camera in given]
    else:
        cameras = around_scene(options.views or 48, scene.means, *(options.size or (640, 480)))
    if options.size:
        cameras = [camera.fitted(*options.size) for camera in cameras]
    return [zoomed(camera, options.zoom) for camera in cameras]


def zoomed(camera, factor):
    fx, fy, cx, cy = camera.intrinsics
    return dataclasses.replace(camera, intrinsics=(fx * factor, fy * factor, cx, cy))


def photograph(scene, camera):
    """(image [3, H, W], depth [H, W]) as the camera sees the scene."""
    result = gsplat_c.rasterize(
        **scene.arguments(camera), near_plane=0.01 * fit_views.extent(scene.means)[1],
        outputs=("color", "median_depth"))
    return result.color, result.median_depth


def seen_in(points, camera, image, depth):
    """(index, pixel, colour, depth) of the points that the image shows."""
    inside = points @ camera.rotation.T + camera.translation
    z = inside[:, 2]
    fx, fy, cx, cy = camera.intrinsics
    with np.errstate(divide="ignore", invalid="ignore"):
        pixel = inside[:, :2] / z[:, None] * (fx, fy) + (cx, cy)
        shown = (z > 0) & np.all((pixel >= 0) & (pixel < (camera.width, camera.height)), axis=1)
    shown = np.flatnonzero(shown)
    x, y = np.floor(pixel[shown]).astype(int).T
    near = np.abs(depth[y, x] - z[shown]) < DEPTH_TOLERANCE * z[shown]
    shown, x, y = shown[near], x[near], y[near]
    return shown, pixel[shown], image[:, y, x].T, z[shown]


def reconstruct(points, cameras, sightings, limit, random):
    """(Reconstruction, Observations) from what seen_in() found for each camera."""
    image = np.repeat(np.arange(len(cameras)), [len(found[0]) for found in sightings])
    point, pixel, color, z = (np.concatenate(parts) for parts in zip(*sightings))
    times = np.bincount(point, minlength=len(points))
    chosen = np.flatnonzero(times >= 2)
    if len(chosen) > limit:
        chosen = np.sort(random.choice(chosen, limit, replace=False))

    def mean(values):
        return np.bincount(point, values, len(points))[chosen] / times[chosen]

    colors = np.stack([mean(channel) for channel in np.clip(color, 0, 1).T], axis=1)
    size = MATCHING_ERROR * mean(z) / np.mean([camera.intrinsics[0] for camera in cameras])
    moved = points[chosen] + random.normal(size=(len(chosen), 3)) * size[:, None]
    number = np.full(len(points), -1)
    number[chosen] = np.arange(len(chosen))
    kept = number[point] >= 0
    model = gsplat_c.io.Reconstruction(cameras, moved, np.round(colors * 255).astype(np.uint8))
    return model, gsplat_c.io.Observations(image[kept], number[point[kept]], pixel[kept])


def read_options(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, help="folder of the data set")
    parser.add_argument("--scene", type=pathlib.Path,
                        help="3DGS PLY file; without one a procedural scene is made")
    parser.add_argument("--cameras", type=pathlib.Path,
                        help="cameras.json, transforms.json or COLMAP folder that belongs to it")
    parser.add_argument("--views", type=int, metavar="N",
                        help="images, from around the scene (default: one for each camera of "
                             "--cameras, else 48)")
    parser.add_argument("--size", metavar="WxH",
                        help="of the images, pixels (default: as the cameras say, else 640x480)")
    parser.add_argument("--zoom", type=float, default=1.0, help="multiplies the focal lengths")
    parser.add_argument("--gaussians", type=int, metavar="N", default=6000,
                        help="of the procedural scene (default: %(default)s)")
    parser.add_argument("--points", type=int, metavar="N", default=20000,
                        help="sparse points at most (default: %(default)s)")
    parser.add_argument("--text", action="store_true",
                        help="COLMAP's text form, not its binary one")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    try:
        options.size = options.size and tuple(map(int, options.size.lower().split("x")))
        positive = min(*(options.size or ()), options.points, options.gaussians, options.zoom) > 0
        if options.size and len(options.size) != 2 or not positive:
            raise ValueError
    except ValueError:
        parser.error("--size is WIDTHxHEIGHT; it and the numbers are at least 1")
    if options.views is not None and options.views < 2:
        parser.error("--views: a reconstruction takes at least 2")
    return options


def main(argv=None):
    """Returns the Reconstruction that it wrote."""
    options = read_options(argv)
    random = np.random.default_rng(options.seed)
    if options.scene:
        scene = gsplat_c.io.load_ply(options.scene, drop_invalid=True)
    else:
        scene = gsplat_c.io.Scene(**fit_views.procedural_scene(options.gaussians, random))
    cameras = place_cameras(options, scene)
    # The centre of a faint Gaussian is not visible.
    points = scene.means[scene.logits > 0].astype(np.float64)

    (options.out / "images").mkdir(parents=True, exist_ok=True)
    progress, sightings = Progress(len(cameras)), []
    for index, camera in enumerate(cameras):
        image, depth = photograph(scene, camera)
        gsplat_c.io.save_image(options.out / "images" / camera.name, image)
        sightings.append(seen_in(points, camera, image, depth))
        progress.show(index + 1, f"{len(sightings[-1][0])} points in view")

    model, seen = reconstruct(points, cameras, sightings, options.points, random)
    gsplat_c.io.save_colmap(options.out / "sparse" / "0", model, seen, error=MATCHING_ERROR,
                            text=options.text)
    print(f"{len(cameras)} images of {cameras[0].width}x{cameras[0].height} and "
          f"{len(model.points)} points, each in {len(seen.point) / max(len(model.points), 1):.1f} "
          f"images, in {options.out}")
    return model


if __name__ == "__main__":
    main()
