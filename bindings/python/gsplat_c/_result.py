"""Small result objects: attributes for what was asked, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

TYPE_CHECKING = False  # typing takes a third of the time that importing this package does
if TYPE_CHECKING:
    from typing import Any

    from ._fields import RasterGrads, RasterOutputs


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
