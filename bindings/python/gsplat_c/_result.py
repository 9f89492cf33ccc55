"""Small result objects: attributes for what was asked, and nothing else."""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes a third of the time that importing this package does
if TYPE_CHECKING:
    from typing import Any, Iterator


class Result:
    """Named arrays, in the order in which they were asked for.

    ``result.color`` is one of them; ``color, alpha = result`` unpacks all;
    ``result.asdict()`` and ``"alpha" in result`` do what they say.
    """

    # Not by __dict__, whose methods torch.compile cannot trace.
    def __init__(self, values: dict[str, Any]):
        self._values = values
        for name, value in values.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Called for absent names only.
        if name in type(self)._fields():
            asked = ", ".join(self._values) or "nothing"
            raise AttributeError(f"{name} was not asked for, only {asked}")
        raise AttributeError(f"{type(self).__name__} has no field {name}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def asdict(self) -> dict[str, Any]:
        """A dictionary from name to array."""
        return dict(self._values)

    def __repr__(self) -> str:
        parts = (f"{name}={tuple(value.shape)}" for name, value in self._values.items())
        return f"{type(self).__name__}({', '.join(parts)})"

    @classmethod
    def _fields(cls) -> tuple[str, ...]:
        return tuple(cls.__annotations__)


class RasterOutputs(Result):
    """What the rasterizer drew: C cameras, N Gaussians, images of H rows and W columns.

    The leading C is absent where the view was given without it.  float32, unless
    noted.  Per pixel, then per Gaussian (zero where culled), then statistics.
    """

    color: Any  #: [C, channels, H, W], or [C, H, W, channels] with pixel_last
    alpha: Any  #: [C, H, W] sum of alpha T, one minus the final transmittance
    depth: Any  #: [C, H, W] sum of z alpha T; divide by alpha for the mean
    inv_depth: Any  #: [C, H, W] sum of alpha T / z
    median_depth: Any  #: [C, H, W] z of the splat that takes the transmittance across 0.5
    radii: Any  #: int32 [C, N] pixels, rounded up
    means2d: Any  #: [C, N, 2] pixels
    depths: Any  #: [C, N] z in the camera's frame
    conics: Any  #: [C, N, 3] inverse 2D covariance xx xy yy
    opacities: Any  #: [C, N] after antialiasing
    touched: Any  #: int32 [C, N] pixels whose transmittance stays above 0.5 after it
    weight_sum: Any  #: [C, N] sum of pixel_weights over its blended pixels
    weight_count: Any  #: int32 [C, N] number of those pixels
    weight_blend: Any  #: [C, N] sum of alpha T over them
    weight_distance: Any  #: [C, N] sum of distances to its centre, pixels


class RasterGrads(Result):
    """Derivatives of a loss by the rasterizer's inputs, each shaped as its input."""

    means: Any  #: [N, 3]
    opacities: Any  #: [N] or [N, 1]
    scales: Any  #: [N, 3]
    rotations: Any  #: [N, 4]
    covariances: Any  #: [N, 6]
    colors: Any  #: [N, channels] or [C, N, channels]
    sh: Any  #: [N, K, 3]
    sh_dc: Any  #: [N, 1, 3]
    means2d: Any  #: [C, N, 2] by the pixel position
    means2d_abs: Any  #: [C, N, 2] sum over the pixels of absolute values
    view: Any  #: [C, 4, 4], stored as view is
    position: Any  #: [C, 3]
    background: Any  #: [channels] or [C, channels]


class Neighbors(Result):
    """Nearest neighbours of M points."""

    indices: Any  #: [M, k] int64 or int32, -1 where there is none
    distances2: Any  #: [M, k] squared distances, +inf where there is none
    mean2: Any  #: [M] mean of the squared distances


class Ssim(Result):
    """Structural similarity."""

    mean: Any  #: [] mean of the map
    map: Any  #: [B, C, H, W], or the windows inside the image only


class SsimGrads(Result):
    """Derivatives by the two images of an SSIM."""

    image: Any  #: [B, C, H, W]
    target: Any  #: [B, C, H, W]


class ImageLoss(Result):
    """A mixed image loss."""

    loss: Any  #: []
    parts: Any  #: [3] mean absolute difference, mean squared difference, mean SSIM
    grad_image: Any  #: [B, C, H, W] derivative of the loss by the image


class TrainStep:
    """A training step: what it saw before it changed the parameters.

    Attributes:
        loss: [].
        parts: [3] mean absolute difference, mean squared difference, mean SSIM; or None.
        outputs: RasterOutputs, those asked for.
        grads: RasterGrads, those asked for.
    """

    __slots__ = ("loss", "parts", "outputs", "grads")

    def __init__(self, loss: Any, parts: Any, outputs: RasterOutputs, grads: RasterGrads):
        self.loss = loss
        self.parts = parts
        self.outputs = outputs
        self.grads = grads

    def __repr__(self) -> str:
        return f"TrainStep(loss={self.loss}, outputs={self.outputs}, grads={self.grads})"
