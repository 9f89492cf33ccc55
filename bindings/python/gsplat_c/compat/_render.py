"""Forward and backward of one frame on gsplat_c's rasterizer, without autograd."""

from __future__ import annotations

from operator import index

import torch

from .. import _raster
from .._errors import argument_error
from ._variants import LIBRARY_NAMES, OUTPUTS, SCENE_NAMES

_MAX_DEGREE = 3  # the originals read a higher degree as this one
_WHERE = "diff_gaussian_rasterization"
_FLOAT = torch.float32


def check_float(where, name, tensor):
    """Nothing is converted: what is not float32 is refused, as by the originals."""
    if getattr(tensor, "dtype", None) is _FLOAT:
        return
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{where}: {name} is {type(tensor).__name__}, expected a torch.Tensor")
    raise argument_error("DTYPE", f"{where}: {name} has dtype {tensor.dtype}, expected scalar type "
                                  "Float (torch.float32)")


def given(tensor):
    """Whether an input is there: None and empty tensors stand for "absent"."""
    return tensor is not None and tensor.numel() > 0


def is_empty(means):
    """Whether there is no Gaussian, so that nothing runs."""
    check_float(_WHERE, "means3D", means)
    if means.ndim != 2 or means.shape[1] != 3:
        raise RuntimeError("means3D must have dimensions (num_points, 3), it has "
                           f"{tuple(means.shape)}")
    return means.shape[0] == 0


def _camera(settings, name, shape):
    """A small tensor of the settings, without its gradient."""
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
    return value


def pixel_weights(settings):
    """The weights [H, W] of the settings; None where the variant or the caller has none."""
    weights = getattr(settings, "pixel_weights", None)
    return weights if weights is not None and weights.numel() else None


def library_args(variant, settings, tensors):
    """What gsplat_c.rasterize takes where autograd does not record: (camera and options, scene).

    tensors: input by name, absent ones too.
    """
    scene = {}
    for name, tensor in tensors.items():
        if tensor is not None and name in SCENE_NAMES and tensor.numel():
            check_float(_WHERE, name, tensor)
            scene[SCENE_NAMES[name]] = tensor
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
    if "colors" in scene:
        scene.pop("sh", None)
        scene.pop("sh_dc", None)
    else:
        args["sh_degree"] = min(index(settings.sh_degree), _MAX_DEGREE)
        args["position"] = _camera(settings, "campos", (3,))
    return args, scene


def _shape(letters, sizes):
    return [sizes[letter] if letter in sizes else int(letter) for letter in letters]


def make_results(variant, height, width, means, weights, zero):
    """New tensors for every result, by name; zero: filled with it, not left to be written."""
    # A size that is not positive is the library's to refuse.
    sizes = {"H": max(height, 0), "W": max(width, 0), "P": means.shape[0]}
    device, results = means.device, {}
    for name in variant.returns:
        output = OUTPUTS[name]
        shape = _shape(output.shape, sizes) if weights is not None or not output.weighted else [0]
        make = torch.empty if shape == [0] or (output.source and not zero) else torch.zeros
        results[name] = make(shape, dtype=torch.int32 if output.integer else _FLOAT, device=device)
    return results


class Drawn:
    """What backward needs of a frame: a SavedRaster, camera and options, the scene."""

    __slots__ = ("saved", "args", "scene")

    def __init__(self, saved, args, scene):
        self.saved, self.args, self.scene = saved, args, scene


def forward(variant, settings, tensors, save):
    """Draws.  Returns (results by name, Drawn or None).

    There is nothing drawn without a Gaussian: all results are then zero, the background does
    not show.
    """
    means, weights = tensors["means3D"], pixel_weights(settings)
    if is_empty(means):
        return make_results(variant, index(settings.image_height), index(settings.image_width),
                            means, weights, True), None
    args, scene = library_args(variant, settings, tensors)
    results = make_results(variant, args["height"], args["width"], means, weights, False)
    out = {OUTPUTS[name].source: tensor for name, tensor in results.items()
           if OUTPUTS[name].source and (weights is not None or not OUTPUTS[name].weighted)}
    given = {**args, **scene}
    if weights is not None:
        given["pixel_weights"] = weights.detach()
    drawn = None
    if save:
        _, saved = _raster.forward(given, (), out)
        drawn = Drawn(saved, args, scene)
    else:
        _raster.rasterize(outputs=(), out=out, **given)
    if "my_radii" in results:  # a variant that returns the radii twice; out has the last
        results["radii"] = results["my_radii"].clone()
    return results, drawn


def backward(drawn, upstream, shapes, wanted):
    """Gradients by input name, of the inputs ``wanted``.

    Args:
        drawn: what forward returned.
        upstream: gradient by the library's output, by name; absent or None: zero.
        shapes: of the inputs, by name.  Those that had no part in the image get zeros.
    """
    args, scene = drawn.args, drawn.scene
    used = {name: LIBRARY_NAMES[name] for name in wanted
            if name == "means2D" or SCENE_NAMES.get(name) in scene}
    wants_pose = "theta" in wanted or "rho" in wanted
    wrt = [*used.values(), *(("view",) if wants_pose else ()),
           *(("position",) if wants_pose and "position" in args else ())]
    upstream = {name: value for name, value in upstream.items() if value is not None}
    device, found = scene["means"].device, {}
    if upstream and wrt:
        for name, value in upstream.items():
            check_float(_WHERE, f"grad_{name}", value)
        out = {"means2d": torch.empty(shapes["means2D"], device=device)
               } if "means2D" in used else None
        found = _raster.backward(drawn.saved, {**args, **scene}, wrt, upstream, out,
                                 grad2d_ndc=True)
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
