"""A pinhole camera and what cutting and scaling its image make of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_SIDE = 16384
NEGLIGIBLE = 1e-6  # a coefficient of a lens up to which no pixel moves visibly
UNDISTORT = "expected a pinhole camera: undistort with colmap image_undistorter"


@dataclass(frozen=True, eq=False)
class Camera:
    """Looks along its z axis, x to the right and y down; the image's corner is (0, 0).

    Attributes:
        name: of its image.
        width: of the image, pixels.
        height: of the image, pixels.
        intrinsics: fx fy cx cy, pixels.  The first pixel's centre is (0.5, 0.5).
        world_to_camera: [4, 4] float64, row-major: R and t on top of 0 0 0 1.
        mask: path of the image's mask, if the file names one.

    Raises:
        ValueError: a size or focal length that is not positive, or R is no rotation.
    """

    name: str
    width: int
    height: int
    intrinsics: tuple[float, float, float, float]
    world_to_camera: np.ndarray
    mask: str | None = None

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            side = getattr(self, name)
            if not 1 <= side <= LONGEST_SIDE or side != int(side):
                raise ValueError(f"{name!r} is {side:g}, not a whole number from 1 to "
                                 f"{LONGEST_SIDE}")
            object.__setattr__(self, name, int(side))
        if not np.all(np.isfinite(self.intrinsics)) or min(self.intrinsics[:2]) <= 0:
            raise ValueError(f"fx fy cx cy are {[float(value) for value in self.intrinsics]}, "
                             "expected positive focal lengths and finite numbers")
        if self.world_to_camera.shape != (4, 4) or not np.isfinite(self.world_to_camera).all():
            raise ValueError("the pose is not a [4, 4] matrix of finite numbers")
        # Allows for numbers rounded to two or three decimals.
        rotation = self.rotation
        if np.abs(rotation @ rotation.T - np.eye(3)).max() > 0.02 or np.linalg.det(rotation) < 0:
            raise ValueError("'rotation' is not a rotation matrix")

    @property
    def rotation(self) -> np.ndarray:
        """[3, 3] world to camera; its rows are the camera's axes."""
        return self.world_to_camera[:3, :3]

    @property
    def translation(self) -> np.ndarray:
        """[3] world to camera."""
        return self.world_to_camera[:3, 3]

    @property
    def position(self) -> np.ndarray:
        """[3] where the camera is in the world."""
        return -self.rotation.T @ self.translation

    def arguments(self, origin: np.ndarray | None = None) -> dict[str, Any]:
        """Keyword arguments of ``gsplat_c.rasterize``.

        origin: [3] what was subtracted from the scene's positions, in double precision.
        """
        view = self.world_to_camera.copy()
        if origin is not None:
            view[:3, 3] += self.rotation @ origin
        return {"view": view.astype(np.float32), "view_row_major": True,
                "intrinsics": [float(value) for value in self.intrinsics],
                "width": self.width, "height": self.height}

    def cropped(self, left: int, top: int, width: int, height: int) -> Camera:
        """The camera of a part of the image."""
        fx, fy, cx, cy = self.intrinsics
        return replace(self, width=width, height=height, intrinsics=(fx, fy, cx - left, cy - top))

    def resized(self, width: int, height: int) -> Camera:
        """The camera of the image in another resolution.

        Raises:
            ValueError: sides that no common factor gives, as after cropping; each may be rounded.
        """
        x, y = width / self.width, height / self.height
        if abs(x - y) > 1 / self.width + 1 / self.height:
            raise ValueError(f"{width}x{height} is another shape than {self.width}x{self.height}, "
                             "expected the camera's image in any resolution, not cropped or "
                             "turned")
        return self._scaled(x, y, width, height)

    def fitted(self, width: int, height: int) -> Camera:
        """A camera with an image of any size, in which all that this one sees is in the middle."""
        fx, fy, cx, cy = self.intrinsics
        scale = min(width / self.width, height / self.height)
        return replace(self, width=width, height=height, intrinsics=(
            fx * scale, fy * scale, width / 2 + (cx - self.width / 2) * scale,
            height / 2 + (cy - self.height / 2) * scale))

    def downscaled(self, factor: int) -> Camera:
        """The camera of what ``downscale_image`` makes of the image."""
        return self._scaled(1 / factor, 1 / factor, self.width // factor, self.height // factor)

    def _scaled(self, x, y, width, height):
        fx, fy, cx, cy = self.intrinsics
        return replace(self, width=width, height=height,
                       intrinsics=(fx * x, fy * y, cx * x, cy * y))


def make_pose(rotation: Any, translation: Any) -> np.ndarray:
    """[4, 4] of a rotation matrix and a translation."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, translation
    return pose
