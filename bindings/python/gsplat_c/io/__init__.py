"""Files of scenes, cameras and pictures, with numpy alone.

    import gsplat_c
    import gsplat_c.io as gio

    scene = gio.load_ply("point_cloud.ply")
    camera = gio.load_cameras("cameras.json")[0]
    image = gsplat_c.rasterize(**scene.arguments(camera)).color
    gio.save_image("view.png", image)

A file that cannot be used raises ValueError: the message names the file, what is wrong and how
to go on.  A warning reports what changes the picture and is only approximated, or not applied.
"""

from ._camera import Camera
from ._camera_files import load_cameras, save_cameras_json
from ._colmap import Reconstruction, load_colmap
from ._colmap_write import Observations, save_colmap
from ._gaussians import load_ply, save_ply
from ._image import downscale_image, load_image, save_image
from ._scene import Scene

__all__ = [
    "Camera",
    "Observations",
    "Reconstruction",
    "Scene",
    "downscale_image",
    "load_cameras",
    "load_colmap",
    "load_image",
    "load_ply",
    "save_cameras_json",
    "save_colmap",
    "save_image",
    "save_ply",
]
