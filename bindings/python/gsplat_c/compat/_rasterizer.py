"""The rasterizer as training code calls it: module, function and autograd node."""

from __future__ import annotations

import inspect
import sys
import warnings
from dis import opmap

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from .. import _raster
from .._errors import Error, calling
from .._forward import SavedRaster
from . import _frame
from ._module import LazyModule
from ._settings import variant_of
from ._variants import (
    DENSIFIED,
    OUTPUTS,
    PLAIN,
    POSED,
    SPLIT,
    USER_NAMES,
    VARIANTS,
    raw_arguments,
    unexpected,
    wrong_count,
)

_UNPACK_SEQUENCE = opmap["UNPACK_SEQUENCE"]


def cpu_deep_copy_tuple(input_tuple):
    """The same tuple with every tensor copied to the CPU."""
    return tuple(item.detach().cpu().clone() if isinstance(item, torch.Tensor) else item
                 for item in input_tuple)


class Results(tuple):
    """The results of a variant; unpacking another number of them is an error that explains it."""

    __slots__ = ()
    variant = None

    def __iter__(self):
        caller = sys._getframe(1)
        place = id(caller.f_code), caller.f_lasti
        if place not in _good_places:  # to look at a program's code takes microseconds
            code, at = caller.f_code.co_code, caller.f_lasti
            if code[at] == _UNPACK_SEQUENCE and code[at + 1] != len(self):
                raise ValueError(wrong_count(self.variant, code[at + 1]))
            if len(_good_places) < 1000:
                _good_places.add(place)
        return super().__iter__()


_good_places: set[tuple[int, int]] = set()
_RESULTS = {name: type("Results", (Results,), {"__slots__": (), "variant": variant})
            for name, variant in VARIANTS.items()}


class Run:
    """A frame that is rasterized, before it is in the graph: so the device has work earlier."""

    __slots__ = ("variant", "settings", "names", "results", "frame")

    def __init__(self, caller, variant, settings, names, tensors):
        self.variant, self.settings, self.names = variant, settings, names
        self.results, self.frame = _forward(caller, variant, settings, names, tensors, True)


def make_function(variant):
    """The autograd node of a variant, of all of them for None.

    Its arguments are those of rasterize_gaussians(), its results those of the variant.  Within
    this module a Run of them takes the place of the settings.
    """

    class _RasterizeGaussians(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *arguments):
            *tensors, run = arguments
            if type(run) is not Run:
                names = _input_names(variant or variant_of(run), tensors)
                chosen = variant or _chosen(run, names)
                run = Run("rasterize_gaussians", chosen, run, names, tensors)
            _keep(ctx, run, tensors)
            returns, results = run.variant.returns, run.results
            ctx.mark_non_differentiable(*(results[name] for name in returns
                                          if OUTPUTS[name].integer))
            return tuple(results[name] for name in returns)

        @staticmethod
        @once_differentiable
        def backward(ctx, *grads):
            wanted = [name for name, need in zip(ctx.shapes, ctx.needs_input_grad) if need]
            with calling("rasterize_gaussians", USER_NAMES):
                found = _gradients(ctx, grads, wanted)
            return (*(found.get(name) for name in ctx.shapes), None)

    return _RasterizeGaussians


def _input_names(variant, tensors):
    """Names of the tensors before the settings; also those of callers of a chosen variant."""
    for names in (variant.inputs, PLAIN, SPLIT):
        if len(names) == len(tensors):
            is_densified = names is SPLIT and getattr(tensors[2], "ndim", 3) == 2  # dc has three
            return DENSIFIED if is_densified else names
    raise TypeError(f"rasterize_gaussians: {len(tensors) + 1} arguments, expected "
                    f"{', '.join(variant.inputs)}, raster_settings")


def _chosen(settings, names):
    """The variant that settings and inputs mean."""
    variant = variant_of(settings)
    if names is not DENSIFIED:
        return variant
    if variant.name != "2023":  # whose own fields would be ignored
        raise TypeError(unexpected("GaussianRasterizer", variant, "means2D_densify"))
    return VARIANTS["deformable"]


def _keep(ctx, run, tensors):
    """Keeps what backward needs; only through save_for_backward what may be large."""
    ctx.variant, ctx.settings, ctx.frame = run.variant, run.settings, None
    ctx.shapes = {name: () if tensor is None else tensor.shape
                  for name, tensor in zip(run.names, tensors)}
    ctx.device = tensors[0].device
    ctx.set_materialize_grads(False)
    if run.frame is None:  # no Gaussian, nothing ran
        return
    saved, numbers, packed = run.frame
    ctx.save_for_backward(saved.state, saved.lists, *packed[_frame.SCENE:])
    ctx.frame = saved.info, numbers, packed[:_frame.SCENE]


def _gradients(ctx, grads, wanted):
    """Gradients by input name of a node's saved frame."""
    if ctx.frame is None:
        return {name: torch.zeros(ctx.shapes[name], device=ctx.device) for name in wanted}
    state, lists, *scene = ctx.saved_tensors
    info, numbers, camera = ctx.frame
    upstream = {OUTPUTS[name].source: grad for name, grad in zip(ctx.variant.returns, grads)
                if OUTPUTS[name].differentiable}
    frame = _frame.Frame(SavedRaster(state, lists, info), numbers, (*camera, *scene))
    try:
        found = _frame.backward(ctx.variant, frame, upstream, ctx.shapes, wanted)
        _synchronize(ctx.settings, ctx.device)
        return found
    except Exception:
        if _writes_snapshot(ctx.variant, ctx.settings):
            given = [tensor for tensor in map(frame.input, ctx.shapes) if tensor is not None]
            _snapshot("snapshot_bw.dump",
                      (*grads, *given, *_field_values(ctx.variant, ctx.settings).values()))
        raise


def _forward(caller, variant, settings, names, tensors, save):
    """_frame.forward() for a function that the user called."""
    try:
        results = _frame.forward(variant, settings, names, tensors, save)
        _synchronize(settings, tensors[0].device)
        return results
    except Exception as error:
        if isinstance(error, Error):
            error.name_function(caller, USER_NAMES)
        if _writes_snapshot(variant, settings):
            values = {**dict(zip(names, tensors)), **_field_values(variant, settings)}
            _snapshot("snapshot_fw.dump",
                      [values.get(name) for name in raw_arguments(variant)])
        raise


def _synchronize(settings, device):
    """With debug an error of a kernel shows in the call that launched it."""
    if getattr(settings, "debug", False) and device.type == "cuda":
        torch.cuda.synchronize(device)


def _writes_snapshot(variant, settings):
    return variant.writes_snapshots and getattr(settings, "debug", False)


def _field_values(variant, settings):
    return {name: getattr(settings, name, None) for name in variant.fields}


def _snapshot(path, arguments):
    torch.save(cpu_deep_copy_tuple(arguments), path)
    warnings.warn(f"diff_gaussian_rasterization: failed; its arguments are in {path}",
                  RuntimeWarning, stacklevel=2)


def _is_recorded(tensors):
    if torch.is_grad_enabled():
        for tensor in tensors:
            if getattr(tensor, "requires_grad", False):
                return True
    return forward_ad._current_level >= 0  # a node of the graph refuses tangents


def _rasterize(caller, function, variant, settings, names, tensors):
    """The results of a variant, through the autograd node only where gradients are wanted.

    caller: the function that the user called.
    """
    if _is_recorded(tensors):
        run = Run(caller, variant, settings, names, tensors)
        return _RESULTS[variant.name](function.apply(*tensors, run))
    results, _ = _forward(caller, variant, settings, names, tensors, False)
    return _RESULTS[variant.name]([results[name] for name in variant.returns])


def make_rasterize_gaussians(variant, function):
    """rasterize_gaussians(*inputs, raster_settings) of a variant, of all of them for None."""

    def rasterize_gaussians(*args, **kwargs):
        if variant:
            chosen, names = variant, variant.inputs
        else:
            settings = kwargs["raster_settings"] if "raster_settings" in kwargs else args[-1]
            names = (DENSIFIED if "means2D_densify" in kwargs else SPLIT if "dc" in kwargs else
                     _input_names(variant_of(settings), (*args, *kwargs.values())[:-1]))
            chosen = _chosen(settings, names)
        *tensors, settings = _signature(names).bind(*args, **kwargs).args
        return _rasterize("rasterize_gaussians", function, chosen, settings, names, tensors)

    if variant:
        rasterize_gaussians.__signature__ = _signature(variant.inputs)
    return rasterize_gaussians


def _signature(names):
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in (*names,
                                                                         "raster_settings")])


class _Rasterizer(LazyModule):
    """Rasterizes Gaussians as the camera of its settings sees them.

    forward takes means3D [P, 3], means2D [P, 3] (not read; its gradient is that of the
    projected centres, in units of half the image), opacities [P, 1], and one of shs
    [P, M, 3] or colors_precomp [P, 3], and one of scales [P, 3] with rotations [P, 4]
    (w x y z, not normalised) or cov3D_precomp [P, 6]: float32, on one device.
    """

    variant = None
    _function = None

    def __init__(self, raster_settings):
        super().__init__()
        self.__dict__["raster_settings"] = raster_settings

    def markVisible(self, positions):
        """positions [P, 3] -> bool [P], whether they lie beyond the near plane (z > 0.2)."""
        return mark_visible(positions, self.raster_settings.viewmatrix)

    def visible_filter(self, means3D, scales=None, rotations=None, cov3D_precomp=None):
        """The radii that forward would return, int32 [P], without an image."""
        variant = self.variant or variant_of(self.raster_settings)
        with torch.no_grad(), calling("visible_filter", USER_NAMES):
            return _frame.radii(variant, self.raster_settings, means3D, scales, rotations,
                                cov3D_precomp)

    def explain(self, kwargs):
        variant = self.variant or variant_of(self.raster_settings)
        taken = inspect.signature(_BASES[variant.inputs].forward).parameters
        for name in kwargs:
            if name not in taken:
                raise TypeError(unexpected("GaussianRasterizer", variant, name)) from None

    def _call(self, names, tensors):
        settings = self.raster_settings
        return _rasterize("GaussianRasterizer", self._function,
                          self.variant or _chosen(settings, names), settings, names, tensors)


def _check_choices(shs, colors, scales, rotations, covariances):
    if (shs is None) == (colors is None):
        raise Exception("provide exactly one of either SHs or precomputed colors")
    if covariances is None:
        good = scales is not None and rotations is not None
    else:
        good = scales is None and rotations is None
    if not good:
        raise Exception("provide exactly one of either scale/rotation pair or precomputed 3D "
                        "covariance")


class _Plain(_Rasterizer):
    def forward(self, means3D, means2D, opacities, shs=None, colors_precomp=None,
                scales=None, rotations=None, cov3D_precomp=None):
        _check_choices(shs, colors_precomp, scales, rotations, cov3D_precomp)
        return self._call(PLAIN, (means3D, means2D, shs, colors_precomp, opacities, scales,
                                  rotations, cov3D_precomp))


class _Split(_Rasterizer):
    def forward(self, means3D, means2D, opacities, dc=None, shs=None,
                colors_precomp=None, scales=None, rotations=None, cov3D_precomp=None):
        _check_choices(shs, colors_precomp, scales, rotations, cov3D_precomp)
        if shs is not None and dc is None:
            raise Exception("provide dc with shs, which holds the coefficients after the first")
        return self._call(SPLIT, (means3D, means2D, dc, shs, colors_precomp, opacities, scales,
                                  rotations, cov3D_precomp))


class _Posed(_Rasterizer):
    def forward(self, means3D, means2D, opacities, shs=None, colors_precomp=None,
                scales=None, rotations=None, cov3D_precomp=None, theta=None, rho=None):
        _check_choices(shs, colors_precomp, scales, rotations, cov3D_precomp)
        return self._call(POSED, (means3D, means2D, shs, colors_precomp, opacities, scales,
                                  rotations, cov3D_precomp, theta, rho))


class _Densified(_Rasterizer):
    def forward(self, means3D, means2D, means2D_densify, opacities, shs=None, colors_precomp=None,
                scales=None, rotations=None, cov3D_precomp=None):
        _check_choices(shs, colors_precomp, scales, rotations, cov3D_precomp)
        return self._call(DENSIFIED, (means3D, means2D, means2D_densify, shs, colors_precomp,
                                      opacities, scales, rotations, cov3D_precomp))


class _Any(_Rasterizer):
    """The settings decide; dc is a keyword except where they say that it comes by position."""

    def forward(self, means3D, means2D, opacities, *args, **kwargs):
        if "means2D_densify" in kwargs:
            return _Densified.forward(self, means3D, means2D, kwargs.pop("means2D_densify"),
                                      opacities, *args, **kwargs)
        forward = _BASES[variant_of(self.raster_settings).inputs].forward
        if forward is _Plain.forward and "dc" in kwargs:
            if kwargs["dc"] is None:
                del kwargs["dc"]
            else:
                forward = _forward_with_dc
        return forward(self, means3D, means2D, opacities, *args, **kwargs)


def _forward_with_dc(self, means3D, means2D, opacities, shs=None, colors_precomp=None,
                     scales=None, rotations=None, cov3D_precomp=None, *, dc):
    return _Split.forward(self, means3D, means2D, opacities, dc, shs, colors_precomp, scales,
                          rotations, cov3D_precomp)


_BASES = {PLAIN: _Plain, SPLIT: _Split, POSED: _Posed, DENSIFIED: _Densified}


def make_rasterizer(variant, function):
    """The class GaussianRasterizer of a variant, of all of them for None."""
    base = _BASES[variant.inputs] if variant else _Any
    return type("GaussianRasterizer", (base,), {
        "__doc__": _Rasterizer.__doc__, "variant": variant, "_function": function})


@torch.no_grad()
def mark_visible(means3D, viewmatrix, projmatrix=None):
    """means3D [P, 3] -> bool [P], whether they lie beyond the near plane; projmatrix: unused."""
    with calling("markVisible", {**USER_NAMES, "means": "positions"}):
        _frame.check_float("positions", means3D)
        return _raster.mark_visible(means=means3D, view=viewmatrix.reshape(4, 4))
