"""Functions with gradients for jax; ``import gsplat_c.jax`` brings them.

They take and return jax arrays, inside jax.jit, jax.grad and jax.vmap too (one element of a
vmap after the other).  There the work is a pure callback on the host: on the CPU, whatever
device jax computes on.  Called with plain arrays they work where those are, GPUs included.
Derivatives can be taken once, in reverse mode, and only what is asked for is computed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _ops, _raster
from ._fields import (
    CONSTANT,
    DIFFERENTIABLE,
    SINKS,
    TENSORS,
    RasterGrads,
    RasterOutputs,
    documented,
)
from ._result import Neighbors
from ._scene import output_of, scene_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import LossArgs, RasterArgs, SsimArgs, Unpack

__all__ = ["image_loss", "knn", "rasterize", "ssim"]

# Before 0.4.34 one after the other was the only way.
_VMAP = {} if tuple(map(int, jax.__version__.split(".")[:3])) < (0, 4, 34) else {
    "vmap_method": "sequential"}


def _register(kind):
    """Lets a result cross jax.jit: its arrays are leaves, their names are static."""
    jax.tree_util.register_pytree_node(
        kind, lambda result: (tuple(result), tuple(result.asdict())),
        lambda names, values: kind(dict(zip(names, values))))


for _kind in (RasterOutputs, RasterGrads, Neighbors):
    _register(_kind)


def _call(function, shapes, *arrays):
    """function(*numpy arrays) in the host's time; shapes: {name: ShapeDtypeStruct}."""
    return jax.pure_callback(
        lambda *values: function(*jax.tree_util.tree_map(np.asarray, values)), shapes, *arrays,
        **_VMAP)


def _traced(*values):
    return any(isinstance(value, jax.core.Tracer) for value in values)


def _like(value):
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


# A custom_vjp function has its static values first, hashable, then one dictionary of arrays.
# Its forward pass learns which of them are differentiated (symbolic_zeros) and tells backward by
# the keys of a dictionary without leaves.


def _perturbed(primals):
    values = {name: primal.value for name, primal in primals.items()}
    return values, dict.fromkeys(name for name, primal in primals.items() if primal.perturbed)


def _recording(function):
    """The forward pass that keeps the arrays for backward."""

    def forward(static, primals):
        arrays, wrt = _perturbed(primals)
        return function(static, arrays), (arrays, wrt)

    return forward


def _gradients(run, saved, grads):
    """({name: derivative or None},) of what _recording() kept.

    run(values, upstream): returns those with respect to the arrays that are differentiated.
    upstream: derivatives of the outputs that the loss depends on, by name.
    """
    arrays, wrt = saved
    zero = jax.custom_derivatives.SymbolicZero
    upstream = {name: grad for name, grad in grads.items() if not isinstance(grad, zero)}
    if not upstream or not wrt:
        return (dict.fromkeys(arrays),)
    found = _call(run, {name: _like(arrays[name]) for name in wrt}, arrays, upstream)
    return ({name: found.get(name) for name in arrays},)


def _refuse(function, names):
    """An error where inputs without a gradient are differentiated."""
    for name in names:
        raise ValueError(f"{function}: {name} is differentiated, but has no gradient: use "
                         "jax.lax.stop_gradient")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rasterize(static, arrays):
    outputs, options = static
    options = dict(options)
    options.pop("grad2d_ndc", None)
    arrays = {name: value for name, value in arrays.items() if name not in SINKS}
    numbers, tensors = scene_fields("rasterize", {**arrays, **options})
    shapes = {}
    for name in outputs:
        dtype, shape = output_of(numbers, tensors, name)
        shapes[name] = jax.ShapeDtypeStruct(shape, dtype or arrays["means"].dtype)

    def run(values):
        return _raster.rasterize(outputs=outputs, **values, **options).asdict()

    return _call(run, shapes, arrays)


def _rasterize_backward(static, saved, grads):
    """Rasterizes again: the tile lists have no size that jax could know beforehand."""
    names, options = tuple(saved[1]), dict(static[1])
    ndc = options.pop("grad2d_ndc", False)
    _refuse("rasterize", [name for name in names if name in CONSTANT])

    def run(values, upstream):
        out = {name: np.empty(values.pop(name).shape, values["means"].dtype)
               for name in SINKS if name in values}
        _, state = _raster.rasterize_forward(**values, **options)
        return _raster.rasterize_backward(
            state, wrt=names, out={name: out[name] for name in out if name in names},
            grad2d_ndc=ndc, **{f"grad_{name}": grad for name, grad in upstream.items()},
            **values, **options).asdict()

    return _gradients(run, saved, {name: grad for name, grad in grads.items()
                                   if name in DIFFERENTIABLE})


_rasterize.defvjp(_recording(_rasterize), _rasterize_backward, symbolic_zeros=True)


@documented
def rasterize(
    *,
    outputs: Sequence[str] = ("color",),
    means2d: Any = None,
    means2d_abs: Any = None,
    grad2d_ndc: bool = False,
    **args: Unpack[RasterArgs],
) -> RasterOutputs:
    """``gsplat_c.rasterize`` with gradients.

    Gradients flow from {images} to {inputs}, all as in ``gsplat_c.rasterize``.

    Args:
        outputs: names of the results wanted, see RasterOutputs.
        means2d: float32 [C, N, 2] or [C, N, 3], values not read; its derivative is that
            with respect to the projected centres (third is 0), in pixels.
        means2d_abs: the same for the sum over the pixels of absolute derivatives.
        grad2d_ndc: both in units of half the image instead.
        args: as in ``gsplat_c.rasterize``; all but the arrays must be plain numbers.

    Returns:
        RasterOutputs: what was asked for, by name or by unpacking; a pytree.
    """
    outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    options: dict[str, Any] = dict(args)
    arrays = {name: options.pop(name, None) for name in TENSORS}
    arrays = {name: value for name, value in arrays.items() if value is not None}
    sinks = {name: value for name, value in zip(SINKS, (means2d, means2d_abs))
             if value is not None}
    if not _traced(*arrays.values(), *sinks.values()):
        return _raster.rasterize(outputs=outputs, **arrays, **options)
    arrays = {name: jnp.asarray(value) for name, value in {**arrays, **sinks}.items()}
    if grad2d_ndc:
        options["grad2d_ndc"] = True
    return RasterOutputs(_rasterize((outputs, tuple(sorted(options.items()))), arrays))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _ssim(static, arrays):
    kind, options = static
    image = arrays["image"]
    shape = () if kind == "mean" else _ops.map_shape(
        image, dict(options)["window"], dict(options)["valid"])

    def run(values):
        return _ops.ssim(**values, outputs=(kind,), **dict(options)).asdict()

    return _call(run, {kind: jax.ShapeDtypeStruct(shape, image.dtype)}, arrays)


def _ssim_backward(static, saved, grads):
    kind, options = static

    def run(values, upstream):
        return _ops.ssim_backward(**values, wrt=tuple(saved[1]),
                                  **{f"grad_{kind}": upstream[kind]}, **dict(options)).asdict()

    return _gradients(run, saved, grads)


_ssim.defvjp(_recording(_ssim), _ssim_backward, symbolic_zeros=True)


def ssim(
    image: Any,
    target: Any,
    *,
    map: bool = False,
    **options: Unpack[SsimArgs],
) -> Any:
    """Structural similarity with gradients for both images; arguments as ``gsplat_c.ssim``.

    Returns:
        The mean [], or with ``map`` the map [B, C, H, W].
    """
    kind = "map" if map else "mean"
    given = _ops.fill("ssim", options, _ops.SSIM_DEFAULTS)
    if not _traced(image, target):
        return getattr(_ops.ssim(image, target, outputs=(kind,), **given), kind)
    arrays = {"image": jnp.asarray(image), "target": jnp.asarray(target)}
    return _ssim((kind, tuple(given.items())), arrays)[kind]


def _run_loss(static, arrays, outputs):
    image = arrays["image"]
    shapes = {"loss": jax.ShapeDtypeStruct((), image.dtype), "grad_image": _like(image)}

    def run(values):
        return _ops.image_loss(**values, outputs=outputs, **dict(static)).asdict()

    return _call(run, {name: shapes[name] for name in outputs}, arrays)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _image_loss(static, arrays):
    return _run_loss(static, arrays, ("loss",))["loss"]


def _image_loss_forward(static, primals):
    arrays, wrt = _perturbed(primals)
    _refuse("image_loss", [name for name in wrt if name != "image"])
    result = _run_loss(static, arrays, ("loss", "grad_image") if wrt else ("loss",))
    return result["loss"], (result.get("grad_image"), dict.fromkeys(arrays))


def _image_loss_backward(static, saved, grad):
    grad_image, names = saved
    if grad_image is None or isinstance(grad, jax.custom_derivatives.SymbolicZero):
        return (dict(names),)
    return ({**names, "image": grad_image * grad},)


_image_loss.defvjp(_image_loss_forward, _image_loss_backward, symbolic_zeros=True)


def image_loss(
    image: Any,
    target: Any,
    *,
    mask: Any = None,
    **options: Unpack[LossArgs],
) -> Any:
    """``gsplat_c.image_loss`` with the gradient for image, made together with the value.

    Returns:
        The loss [].
    """
    given = _ops.fill("image_loss", options, _ops.LOSS_DEFAULTS)
    if not _traced(image, target, mask):
        return _ops.image_loss(image, target, mask=mask, **given).loss
    arrays = {"image": jnp.asarray(image), "target": jnp.asarray(target)}
    if mask is not None:
        arrays["mask"] = jnp.asarray(mask)
    return _image_loss(tuple(given.items()), arrays)


def knn(points: Any, k: int = 3, queries: Any = None) -> Neighbors:
    """``gsplat_c.knn`` that can be in jax.jit; without gradient.

    Args:
        points: float32 [N, 3].
        k: 1 to 256.
        queries: float32 [M, 3]; by default the points, each without itself.

    Returns:
        Neighbors: indices int32 [M, k], squared distances [M, k].
    """
    if not _traced(points, queries):
        return _ops.knn(points, k, queries, index_dtype="int32")
    arrays = {"points": jax.lax.stop_gradient(points)}
    if queries is not None:
        arrays["queries"] = jax.lax.stop_gradient(queries)
    shape = (arrays.get("queries", arrays["points"]).shape[0], k)
    return Neighbors(_call(
        lambda values: _ops.knn(**values, k=k, index_dtype="int32").asdict(),
        {"indices": jax.ShapeDtypeStruct(shape, np.int32),
         "distances2": jax.ShapeDtypeStruct(shape, np.float32)}, arrays))
