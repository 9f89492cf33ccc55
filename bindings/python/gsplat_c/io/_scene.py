"""A scene of 3D Gaussians as files and training have it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._camera import Camera

TENSORS = ("means", "log_scales", "rotations", "logits", "sh")


@dataclass(frozen=True, eq=False)
class Scene:
    """N Gaussians, before activation.

    Attributes:
        means: [N, 3] centres in the world; float64 if the file has doubles, else float32.
        log_scales: [N, 3] float32, logarithms of the standard deviations.
        rotations: [N, 4] float32, quaternions w x y z of any norm.
        logits: [N] float32, of the opacities.
        sh: [N, K, 3] float32, spherical harmonics of degree 0 to 4: K is 1, 4, 9, 16 or 25.
        antialiased: trained with opacities scaled by what the blur takes from them.
        blur: what training added to the diagonal of the 2D covariances, square pixels.

    ``scene[index]`` selects Gaussians by a mask, a slice or indices.

    Raises:
        ValueError: shapes that do not belong together.
    """

    means: np.ndarray
    log_scales: np.ndarray
    rotations: np.ndarray
    logits: np.ndarray
    sh: np.ndarray
    antialiased: bool = False
    blur: float = 0.3

    def __post_init__(self) -> None:
        count, stored = len(self.means), self.sh.shape[1] if self.sh.ndim > 1 else 1
        if stored not in (1, 4, 9, 16, 25):
            raise ValueError(f"Scene: sh has {stored} coefficients, expected 1, 4, 9, 16 or 25")
        shapes = (count, 3), (count, 3), (count, 4), (count,), (count, stored, 3)
        for name, expected in zip(TENSORS, shapes):
            shape = getattr(self, name).shape
            if shape != expected:
                raise ValueError(f"Scene: {name} is {list(shape)}, expected {list(expected)}")

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, index: Any) -> Scene:
        return replace(self, **{name: getattr(self, name)[index] for name in TENSORS})

    @property
    def scales(self) -> np.ndarray:
        """[N, 3] standard deviations in world units."""
        return np.exp(self.log_scales)

    @property
    def opacities(self) -> np.ndarray:
        """[N], 0 to 1."""
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-self.logits))

    @property
    def invalid(self) -> np.ndarray:
        """[N] bool: a value is not finite, or all four of the quaternion are zero."""
        finite = np.ones(len(self), bool)
        for name in TENSORS:
            values = np.isfinite(getattr(self, name))
            finite &= values.all(tuple(range(1, values.ndim)))
        return ~finite | ~self.rotations.any(1)

    def centered(self) -> tuple[Scene, np.ndarray]:
        """(the scene around its median in float32, [3] float64 where that was).

        Single precision suits a scene near the origin: one with float32 means stays where it is.
        """
        if self.means.dtype == np.float32:
            return self, np.zeros(3)
        origin = np.median(self.means, axis=0)
        return replace(self, means=(self.means - origin).astype(np.float32)), origin

    def moved(self, offset: np.ndarray) -> Scene:
        """The scene displaced by [3], in double precision unless that is zero."""
        if not np.any(offset):
            return self
        return replace(self, means=self.means + np.asarray(offset, np.float64))

    def arguments(self, camera: Camera) -> dict[str, Any]:
        """Keyword arguments of ``gsplat_c.rasterize`` for what a camera sees.

        Double precision lasts until the camera's position is subtracted.
        """
        means, origin = self.means, None
        if means.dtype != np.float32:
            origin = camera.position
            means = (means - origin).astype(np.float32)
        return {
            "means": means, "scales": self.log_scales, "rotations": self.rotations,
            "opacities": self.logits, "sh": self.sh, "log_scales": True, "logit_opacities": True,
            "antialias": self.antialiased, "blur": self.blur, **camera.arguments(origin),
        }
