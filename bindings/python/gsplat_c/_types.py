"""Types for annotations; imported by type checkers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, Union

from typing_extensions import Unpack

from ._fields import RasterArgs

__all__ = ["AdamGroup", "Any", "Array", "CameraArray", "LossArgs", "Out", "RasterArgs", "SsimArgs",
           "TrainArgs", "TrainGroup", "Unpack"]


class SupportsDLPack(Protocol):
    """An array of any framework that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


Array = SupportsDLPack
#: A camera's numbers: an array, or plain nested lists of numbers.
CameraArray = Union[SupportsDLPack, Sequence[Any]]
Out = Mapping[str, SupportsDLPack]


class SsimArgs(TypedDict, total=False):
    """Which structural similarity, as keyword arguments of ``gsplat_c.ssim``."""

    window: int | None
    sigma: float | None
    c1: float | None
    c2: float | None
    valid: bool


class LossArgs(SsimArgs, total=False):
    """Which loss, as keyword arguments of ``gsplat_c.image_loss``."""

    l1_weight: float
    l2_weight: float
    ssim_weight: float


class TrainArgs(RasterArgs, LossArgs):
    """The scene, the camera and the loss, as keyword arguments of ``gsplat_c.train_step``."""


class TrainGroup(TypedDict, total=False):
    """One parameter of ``gsplat_c.train_step``; the moments and lr are required."""

    moment1: Array
    moment2: Array
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    step: int


class AdamGroup(TrainGroup, total=False):
    """One group of ``gsplat_c.adam_step``; the tensors and lr are required."""

    parameter: Array
    gradient: Array
