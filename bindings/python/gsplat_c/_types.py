"""Types for annotations; imported by type checkers only."""

from __future__ import annotations

from typing import Any, Mapping, Protocol, Sequence, TypedDict, Union


class SupportsDLPack(Protocol):
    """An array of any framework that speaks DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


Array = SupportsDLPack
#: A camera's numbers: an array, or plain nested lists of numbers.
CameraArray = Union[SupportsDLPack, Sequence[Any]]
Out = Mapping[str, SupportsDLPack]


class _RequiredArgs(TypedDict):
    means: Array
    opacities: Array
    view: CameraArray
    width: int
    height: int


class RasterArgs(_RequiredArgs, total=False):
    """The scene and the cameras, as keyword arguments of ``gsplat_c.rasterize``."""

    projection: CameraArray | None
    intrinsics: CameraArray | None
    position: CameraArray | None
    background: CameraArray | None
    pixel_weights: Array | None
    scales: Array | None
    rotations: Array | None
    covariances: Array | None
    colors: Array | None
    sh: Array | None
    sh_dc: Array | None
    sh_degree: int | None
    scale_modifier: float | None
    tan_fovx: float | None
    tan_fovy: float | None
    near_plane: float | None
    far_plane: float | None
    radius_clip: float | None
    blur: float | None
    median_default: float | None
    antialias: bool
    prefiltered: bool
    view_row_major: bool
    pixel_last: bool
    compat_3dgs: bool
    deterministic: bool
    log_scales: bool
    logit_opacities: bool


class AdamGroup(TypedDict, total=False):
    """One group of ``gsplat_c.adam_step``; the first four and lr are required."""

    parameter: Array
    gradient: Array
    moment1: Array
    moment2: Array
    lr: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    step: int


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
