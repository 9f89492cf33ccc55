"""diff_gaussian_rasterization._C: the functions below the Python layer.

Which variant a call means where none is installed follows from the number of its
arguments and from which of them are tensors.
"""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import torch

from .._errors import calling
from .._forward import SavedRaster
from . import _frame
from ._variants import OUTPUTS, USER_NAMES, VARIANTS, raw_arguments

_NUMBERS = {"scale_modifier", "kernel_size", "tanfovx", "tanfovy", "image_height", "image_width",
            "sh_degree", "prefiltered", "antialiasing", "debug", "num_rendered", "num_buckets"}
_GRADIENT_ORDER = ("means2D", "means2D_densify", "colors_precomp", "opacities", "means3D",
                   "cov3Ds_precomp", "dc", "sh", "scales", "rotations", "theta", "rho")
_TAILS = {"means2D": (3,), "means2D_densify": (3,), "colors_precomp": (3,), "opacities": (1,),
          "means3D": (3,), "cov3Ds_precomp": (6,), "scales": (3,), "rotations": (4,)}


def _bind(function, variant, layout, args):
    """(variant, argument by name).  variant None: the first whose layout fits."""
    candidates = (variant,) if variant else VARIANTS.values()
    kinds = tuple(value is None or isinstance(value, torch.Tensor) for value in args)
    for candidate in candidates:
        names = layout(candidate)
        if kinds == tuple(name not in _NUMBERS for name in names):
            return candidate, dict(zip(names, args))
    if variant:
        raise TypeError(f"{function}: {len(args)} arguments, expected {', '.join(names)}")
    raise TypeError(f"{function}: {len(args)} arguments of kinds that no variant takes")


def _split_arguments(variant, values):
    """(settings, tensors by input name)"""
    tensors = {name: values.get(name) for name in variant.inputs}
    fields = {name: value for name, value in values.items() if name not in tensors}
    fields.setdefault("prefiltered", False)
    return SimpleNamespace(**fields), tensors


def _bytes(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def make_rasterize_gaussians(variant):
    """_C.rasterize_gaussians of a variant, of all of them for None."""

    @torch.no_grad()
    def rasterize_gaussians(*args):
        chosen, values = _bind("rasterize_gaussians", variant, raw_arguments, args)
        settings, tensors = _split_arguments(chosen, values)
        results, frame = _frame.forward(chosen, settings, chosen.inputs,
                                         tuple(tensors.values()), True)
        nothing = torch.empty(0, dtype=torch.uint8, device=tensors["means3D"].device)
        results.update(num_rendered=0, num_buckets=0, geom=nothing, binning=nothing, img=nothing,
                       sample=nothing)
        if frame is not None:
            saved = frame.saved
            # The original's backward is not given the opacities; ours reads them.
            geom = torch.cat((saved.state, _bytes(tensors["opacities"])))
            info = torch.frombuffer(bytearray(array("Q", saved.info).tobytes()),
                                    dtype=torch.uint8)
            lists = nothing if saved.lists is None else saved.lists
            results.update(num_rendered=saved.pairs, geom=geom, binning=lists, img=info)
        return tuple(results[name] for name in chosen.raw_returns)

    return rasterize_gaussians


def make_rasterize_gaussians_backward(variant):
    """_C.rasterize_gaussians_backward of a variant, of all of them for None."""

    @torch.no_grad()
    def rasterize_gaussians_backward(*args):
        chosen, values = _bind("rasterize_gaussians_backward", variant,
                               lambda candidate: candidate.raw_backward, args)
        upstream = {name[5:]: values.pop(name) for name in tuple(values)
                    if name.startswith("grad_")}
        values["image_height"], values["image_width"] = upstream["color"].shape[1:]
        settings, tensors = _split_arguments(chosen, values)
        wanted = [name for name in _GRADIENT_ORDER if name in chosen.inputs]
        shapes = _shapes(wanted, tensors)
        if tensors["means3D"].shape[0] == 0:
            return tuple(tensors["means3D"].new_zeros(shapes[name]) for name in wanted)
        saved, tensors["opacities"] = _unpack(values)
        scene = _frame.scene_of(chosen, chosen.inputs, tensors.values())
        numbers, camera = _frame.camera_of(chosen, settings, scene)
        frame = _frame.Frame(saved, numbers, (*camera, None, *scene))
        upstream = {OUTPUTS[name].source: grad for name, grad in upstream.items()
                    if _frame.given(grad)}
        found = _frame.backward(chosen, frame, upstream, shapes, wanted)
        return tuple(found[name] for name in wanted)

    return rasterize_gaussians_backward


@torch.no_grad()
def rasterize_aussians_filter(means3D, scales, rotations, scale_modifier, cov3D_precomp, viewmatrix,
                              projmatrix, tanfovx, tanfovy, image_height, image_width, prefiltered,
                              debug=False):
    """The radii of Gaussians, int32 [P], without an image.  The name is the original's."""
    settings = SimpleNamespace(
        bg=torch.zeros(3), scale_modifier=scale_modifier, viewmatrix=viewmatrix,
        projmatrix=projmatrix, tanfovx=tanfovx, tanfovy=tanfovy, image_height=image_height,
        image_width=image_width, prefiltered=prefiltered)
    with calling("rasterize_aussians_filter", USER_NAMES):
        return _frame.radii(VARIANTS["2023"], settings, means3D, scales, rotations, cov3D_precomp)


def _shapes(wanted, tensors):
    """Of every gradient, of absent inputs too."""
    count = tensors["means3D"].shape[0]
    shapes = {name: (count, *_TAILS[name]) for name in wanted if name in _TAILS}
    shapes["sh"] = tuple(tensors["sh"].shape) if _frame.given(tensors["sh"]) else (count, 0, 3)
    shapes["dc"] = (count, 1, 3)
    shapes["theta"] = shapes["rho"] = (1, 3)
    return shapes


def _unpack(values):
    """(SavedRaster, opacities [P, 1]) from the buffers of rasterize_gaussians."""
    count = values["means3D"].shape[0]
    info = array("Q")
    info.frombytes(bytes(values["img"].cpu().tolist()))
    geom = values["geom"]
    state, rest = geom[:geom.shape[0] - 4 * count], geom[geom.shape[0] - 4 * count:]
    opacities = rest.clone().view(torch.float32).view(count, 1)
    lists = values["binning"] if values["binning"].shape[0] else None  # behind the state
    return SavedRaster(state, lists, tuple(info)), opacities
