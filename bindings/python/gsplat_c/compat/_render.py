"""Forward and backward of one frame on gsplat_c's rasterizer, without autograd."""

from __future__ import annotations

from operator import index

import torch

from .. import _raster
from .._errors import argument_error
from ._variants import LIBRARY_NAMES, OUTPUTS

_UPSTREAM = {"color": "grad_color", "inv_depth": "grad_inv_depth", "depth": "grad_depth",
             "alpha": "grad_alpha"}
_MAX_DEGREE = 3  # the originals read a higher degree as this one
_WHERE = "diff_gaussian_rasterization"


def check_float(where, name, tensor):
    """Nothing is converted: what is not float32 is refused, as by the originals."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{where}: {name} is {type(tensor).__name__}, expected a torch.Tensor")
    if tensor.dtype is not torch.float32:
        raise argument_error("DTYPE", f"{where}: {name} has dtype {tensor.dtype}, expected scalar "
                                      "type Float (torch.float32)")


def given(tensor):
    """Whether an input is there: None and empty tensors stand for "absent"."""
    return tensor is not None and tensor.numel() > 0


def is_empty(tensors):
    """Whether there is no Gaussian, so that nothing runs.  tensors: input by name."""
    means = tensors["means3D"]
    check_float(_WHERE, "means3D", means)
    if means.ndim != 2 or means.shape[1] != 3:
        raise RuntimeError("means3D must have dimensions (num_points, 3), it has "
                           f"{tuple(means.shape)}")
    return means.shape[0] == 0


def _camera(settings, name, shape):
    """A small tensor of the settings, without its gradient and its strides."""
    value = getattr(settings, name)
    check_float(_WHERE, name, value)
    if value.requires_grad:
        value = value.detach()
    if value.shape != shape:
        size = 1
        for length in shape:
            size *= length
        if value.numel() != size:
            raise argument_error("SHAPE", f"{_WHERE}: {name} has shape {tuple(value.shape)}, "
                                          f"expected {list(shape)}")
        value = value.reshape(shape)
    return value if value.is_contiguous() else value.contiguous()


def pixel_weights(settings):
    """The weights [H, W] of the settings; None where the variant or the caller has none."""
    weights = getattr(settings, "pixel_weights", None)
    return weights if weights is not None and weights.numel() else None


def library_args(variant, settings, tensors):
    """Keyword arguments of gsplat_c.rasterize, to be called where autograd does not record.

    tensors: input by name, absent ones too.
    """
    args = {
        "width": index(settings.image_width), "height": index(settings.image_height),
        "tan_fovx": float(settings.tanfovx), "tan_fovy": float(settings.tanfovy),
        "view": _camera(settings, "viewmatrix", (4, 4)),
        "projection": _camera(settings, "projmatrix", (4, 4)),
        "background": _camera(settings, "bg", (3,)),
        "scale_modifier": float(settings.scale_modifier),
        "antialias": variant.always_antialiased or bool(getattr(settings, "antialiasing", False)),
        "prefiltered": bool(settings.prefiltered),
        "median_default": variant.median_default,
        "compat_3dgs": True,
    }
    for name, tensor in tensors.items():
        library_name = LIBRARY_NAMES.get(name)
        if library_name is not None and name != "means2D" and given(tensor):
            check_float(_WHERE, name, tensor)
            args[library_name] = tensor
    if "colors" in args:
        args.pop("sh", None)
        args.pop("sh_dc", None)
    else:
        args["sh_degree"] = min(index(settings.sh_degree), _MAX_DEGREE)
        args["position"] = _camera(settings, "campos", (3,))
    return args


def _shape(letters, sizes):
    return [sizes[letter] if letter in sizes else int(letter) for letter in letters]


def make_results(variant, settings, tensors, zero):
    """New tensors for every result, by name; zero: filled with it, not left to be written."""
    means = tensors["means3D"]
    # A size that is not positive is the library's to refuse.
    sizes = {"H": max(index(settings.image_height), 0), "W": max(index(settings.image_width), 0),
             "P": means.shape[0]}
    has_weights = pixel_weights(settings) is not None
    results = {}
    for name in variant.returns:
        output = OUTPUTS[name]
        shape = _shape(output.shape, sizes) if has_weights or not output.weighted else [0]
        make = torch.empty if output.source and not zero else torch.zeros
        results[name] = make(shape, dtype=torch.int32 if output.integer else torch.float32,
                             device=means.device)
    return results


def forward(variant, settings, tensors, save):
    """Draws.  Returns (results by name, SavedRaster or None, the library's arguments).

    The last two are None where there is no Gaussian: all results are then zero, the
    background does not show.
    """
    if is_empty(tensors):
        return make_results(variant, settings, tensors, True), None, None
    args = library_args(variant, settings, tensors)
    results = make_results(variant, settings, tensors, False)
    weights = pixel_weights(settings)
    out, copies = {}, {}
    for name, tensor in results.items():
        output = OUTPUTS[name]
        if not output.source or (output.weighted and weights is None):
            continue
        if output.source in out:
            copies[name] = output.source
        else:
            out[output.source] = tensor
    weighted = {} if weights is None else {"pixel_weights": weights.detach()}
    saved = None
    if save:
        _, saved = _raster.rasterize_forward(outputs=(), out=out, **weighted, **args)
    else:
        _raster.rasterize(outputs=(), out=out, **weighted, **args)
    for name, source in copies.items():
        results[name].copy_(out[source])
    return results, saved, args


def backward(saved, args, upstream, shapes, wanted):
    """Gradients by input name, of the inputs ``wanted``.

    Args:
        saved, args: what forward returned.
        upstream: gradient by the library's output, by name; absent or None: zero.
        shapes: of the inputs, by name.  Those that had no part in the image get zeros.
    """
    used = {name: LIBRARY_NAMES[name] for name in wanted
            if name in LIBRARY_NAMES and (name == "means2D" or LIBRARY_NAMES[name] in args)}
    wants_pose = "theta" in wanted or "rho" in wanted
    wrt = [*used.values(), *(("view",) if wants_pose else ()),
           *(("position",) if wants_pose and "position" in args else ())]
    grads = {_UPSTREAM[name]: value for name, value in upstream.items() if value is not None}
    device, found = args["means"].device, {}
    if grads and wrt:
        for name, value in grads.items():
            check_float(_WHERE, name, value)
        out = {"means2d": torch.empty(shapes["means2D"], device=device)
               } if "means2D" in used else None
        found = _raster.rasterize_backward(saved, wrt=wrt, out=out, grad2d_ndc=True, **grads,
                                           **args).asdict()
    gradients = {name: found[library_name] for name, library_name in used.items()
                 if library_name in found}
    if "view" in found:
        gradients["theta"], gradients["rho"] = pose_gradients(args["view"], found["view"],
                                                              found.get("position"))
    return {name: gradients[name].reshape(shapes[name]) if name in gradients
            else torch.zeros(shapes[name], device=device) for name in wanted}


def pose_gradients(view, by_view, by_position):
    """Derivatives (theta [3], rho [3]) by a small motion of the camera.

    The motion is T' = exp(rho, theta) T of the world-to-camera transform T = [R t]:
    a point p of camera space moves by rho + theta x p, and so does every column of T
    (theta x for those of R).  The camera's centre -R^T t moves by -R^T rho.

    Args:
        view: [4, 4] transposed T.  by_view: [4, 4], stored as it is.
        by_position: [3] by the camera's centre, or None.
    """
    theta = torch.cross(view[:, :3], by_view[:, :3], dim=1).sum(0)
    rho = by_view[3, :3]
    if by_position is not None:
        rho = rho - by_position @ view[:3, :3]
    return theta, rho
