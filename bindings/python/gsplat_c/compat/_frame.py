"""Forward and backward of one frame on gsplat_c's rasterizer, without autograd."""

from __future__ import annotations

import math
from operator import index, itemgetter
from typing import Any, NamedTuple

import torch

from .. import _raster
from .._arrays import allocate
from .._errors import ArgumentTypeError, argument_error, integer
from .._fields import FIELDS, NUMBERS, SMALLEST, TENSORS
from .._scene import number
from . import _sh_axes
from ._variants import (
    DENSIFIED,
    LIBRARY_INPUTS,
    LIBRARY_NAMES,
    OUTPUTS,
    PLAIN,
    POSED,
    SCENE_NAMES,
    SINKS,
    SPLIT,
)

_MAX_DEGREE = 3  # the originals read a higher degree as this one
_FLOAT = torch.float32
_COMPAT_3DGS, _COMPAT_MIP = FIELDS["compat_3dgs"].flag, FIELDS["compat_mip"].flag
_ANTIALIAS, _PREFILTERED, _DETERMINISTIC = (
    FIELDS[name].flag for name in ("antialias", "prefiltered", "deterministic"))

_WIDTH, _HEIGHT, _DEGREE, _SCALE, _BLUR, _TAN_X, _TAN_Y, _MEDIAN = (
    FIELDS[name].place for name in ("width", "height", "sh_degree", "scale_modifier", "blur",
                                    "tan_fovx", "tan_fovy", "median_default"))
SCENE = TENSORS.index("pixel_weights") + 1  # the camera and the weights come before, to the last
# Where the fields of the scene are among the inputs; the inputs must end with a None, for others.
_in_order = {names: itemgetter(*(names.index(own) if own in names else -1
                                 for own in map(LIBRARY_INPUTS.get, TENSORS[SCENE:])))
             for names in (PLAIN, SPLIT, POSED, DENSIFIED)}
_COLORS, _SH = FIELDS["colors"].place - SCENE, FIELDS["sh"].place - SCENE


def check_float(name, tensor):
    """Nothing is converted: what is not float32 is refused, as by the originals."""
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentTypeError(f"{name} is {type(tensor).__name__}, expected a torch.Tensor")
    if tensor.dtype is not _FLOAT:
        raise argument_error("DTYPE", f"{name} has dtype {tensor.dtype}, expected scalar type "
                                      "Float (torch.float32)")


def given(tensor):
    """Whether an input is there: None and empty tensors stand for "absent"."""
    return tensor is not None and tensor.numel() > 0


def count_of(means):
    """How many Gaussians there are; without any nothing runs."""
    check_float("means3D", means)
    shape = means.shape
    if len(shape) != 2 or shape[1] != 3:
        raise argument_error("SHAPE", "means3D must have dimensions (num_points, 3), it has "
                                      f"{tuple(shape)}")
    return shape[0]


def _camera(settings, name, shape):
    """A small tensor of the settings, without its gradient."""
    value = getattr(settings, name)
    if getattr(value, "dtype", None) is not _FLOAT:
        check_float(name, value)
    if value.requires_grad:
        value = value.detach()
    if value.shape != shape:
        if value.numel() != math.prod(shape):
            raise argument_error("SHAPE", f"{name} has shape {tuple(value.shape)}, expected "
                                          f"{list(shape)}")
        value = value.reshape(shape)
    return value


def pixel_weights(settings):
    """The weights [H, W] of the settings; None where the variant or the caller has none."""
    weights = getattr(settings, "pixel_weights", None)
    return weights if weights is not None and weights.numel() else None


def scene_of(variant, names, tensors):
    """The inputs that the image depends on, by the fields of the library; None for absent ones."""
    scene = []
    for name, tensor in zip(names, tensors):
        if tensor is None or name not in SCENE_NAMES or not tensor.numel():
            tensor = None
        elif tensor.dtype is not _FLOAT:
            check_float(name, tensor)
        scene.append(tensor)
    scene = _in_order[names]((*scene, None))
    if scene[_COLORS] is not None:  # they take the place of sh and sh_dc, which come last
        return (*scene[:-2], None, None)
    if variant.permutes_sh and scene[_SH] is not None and scene[_SH].ndim == 3:
        return (*scene[:_SH], _sh_axes.to_usual(scene[_SH]), *scene[_SH + 1:])
    return scene


def camera_of(variant, settings, scene):
    """(numbers, tensors before the weights) as _raster.forward_packed() takes them."""
    numbers, has_colors = [0] * len(NUMBERS), scene[_COLORS] is not None
    try:
        numbers[_WIDTH] = index(settings.image_width)
        numbers[_HEIGHT] = index(settings.image_height)
        numbers[_DEGREE] = 0 if has_colors else min(index(settings.sh_degree), _MAX_DEGREE)
    except TypeError:
        for name in ("image_width", "image_height", "sh_degree"):
            integer(getattr(settings, name), name)  # says which
        raise
    numbers[_TAN_X], numbers[_TAN_Y] = settings.tanfovx, settings.tanfovy
    numbers[_SCALE] = number(settings.scale_modifier, SMALLEST)
    numbers[_MEDIAN] = variant.median_default
    flags = _COMPAT_3DGS
    if variant.always_antialiased or getattr(settings, "antialiasing", False):
        flags |= _ANTIALIAS
    if variant.is_mip:
        flags |= _ANTIALIAS | _COMPAT_MIP
        numbers[_BLUR] = _kernel_size(settings)
    if settings.prefiltered:
        flags |= _PREFILTERED
    if torch.are_deterministic_algorithms_enabled():
        flags |= _DETERMINISTIC
    numbers[0] = flags
    view = _camera(settings, "viewmatrix", (4, 4))
    projection = _camera(settings, "projmatrix", (4, 4))
    background = _camera(settings, "bg", (3,))
    position = None if has_colors else _camera(settings, "campos", (3,))
    return numbers, (view, projection, None, position, background)


def _kernel_size(settings):
    size = settings.kernel_size
    if not 0 <= size < math.inf:
        raise argument_error("INVALID_ARGUMENT", f"kernel_size is {size!r}, expected 0 or more")
    if _camera(settings, "subpixel_offset", (settings.image_height, settings.image_width, 2)).any():
        raise argument_error("UNSUPPORTED", "subpixel_offset has other values than 0, which is all "
                                            "that there is: turn off ray_jitter")
    return number(size, -1.0)


def make_results(variant, height, width, count, device, weighs):
    """New tensors: (every result by name, those that the library makes by its name).

    count: of Gaussians; without any all are zero.  weighs: whether there are pixel weights.
    """
    if height < 0 or width < 0:  # which is the library's to refuse
        height = width = 0
    sizes = {"H": height, "W": width, "P": count, "0": 0, "1": 1, "2": 2, "3": 3}
    results, outputs = {}, {}
    for name in variant.returns:
        source, shape, is_integer, _, is_weighted = OUTPUTS[name]
        if is_weighted and not weighs:
            source, shape = "", "0"
        make = torch.empty if source and count else torch.zeros
        # The sizes one by one: torch takes half as long again to look into a tuple.
        results[name] = result = make(*[sizes[letter] for letter in shape], device=device,
                                      dtype=torch.int32 if is_integer else _FLOAT)
        if source:
            outputs[source] = result
    return results, outputs


class Frame(NamedTuple):
    """What backward needs of a frame: a SavedRaster and what _raster.forward_packed() took."""

    saved: Any
    numbers: list
    tensors: tuple

    def input(self, name):
        """An input of the scene; None if it is absent or no part of the image."""
        return self.tensors[FIELDS[SCENE_NAMES[name]].place] if name in SCENE_NAMES else None


def forward(variant, settings, names, tensors, save):
    """Rasterizes.  Returns (results by name, Frame or None).

    Without a Gaussian nothing runs: all results are zero, and the background does not show.
    """
    means, weights = tensors[0], pixel_weights(settings)
    count, weighs = count_of(means), weights is not None
    if count == 0:
        return make_results(
            variant, integer(settings.image_height, "image_height"),
            integer(settings.image_width, "image_width"), 0, means.device, weighs)[0], None
    scene = scene_of(variant, names, tensors)
    numbers, camera = camera_of(variant, settings, scene)
    results, outputs = allocate("the results", make_results, variant, numbers[_HEIGHT],
                                numbers[_WIDTH], count, means.device, weighs)
    if not save:
        numbers[0] |= _raster.FORWARD_ONLY
    _, saved = _raster.forward_packed(
        "rasterize", numbers, (*camera, weights.detach() if weighs else None, *scene), (), outputs,
        recorded=True)
    if "my_radii" in results:  # a variant that returns the radii twice; outputs has the last
        results["radii"] = results["my_radii"].clone()
    return results, Frame(saved, numbers, (*camera, None, *scene)) if save else None


def radii(variant, settings, means3D, scales, rotations, covariances):
    """The radii that forward() would find, int32 [P], without an image."""
    count, device = count_of(means3D), means3D.device
    found = torch.zeros(count, dtype=torch.int32, device=device)
    if count:  # opacities and colours have no part in them
        scene = scene_of(variant, PLAIN, (means3D, None, None, means3D, torch.ones(
            count, device=device), scales, rotations, covariances))
        numbers, camera = camera_of(variant, settings, scene)
        _raster.project_packed("visible_filter", numbers, (*camera, None, *scene),
                               {"radii": found})
    return found


def backward(variant, frame, upstream, shapes, wanted):
    """Gradients by input name, of the inputs ``wanted``.

    Args:
        frame: what forward returned.
        upstream: gradient by the library's output, by name; absent or None: zero.
        shapes: of the inputs, by name.  Those that had no part in the image get zeros.
    """
    used = {name: LIBRARY_NAMES[name] for name in wanted
            if name in SINKS or frame.input(name) is not None}
    view, position = (frame.tensors[FIELDS[name].place] for name in ("view", "position"))
    wants_pose = "theta" in wanted or "rho" in wanted
    wrt = [*used.values(), *(("view",) if wants_pose else ()),
           *(("position",) if wants_pose and position is not None else ())]
    upstream = {name: value for name, value in upstream.items() if value is not None}
    device, found = frame.input("means3D").device, {}
    if upstream and wrt:
        for name, value in upstream.items():
            check_float(f"grad_{name}", value)
        out = {LIBRARY_NAMES[name]: torch.empty(shapes[name], device=device)
               for name in SINKS if name in used}
        if variant.is_mip and "means2D" in used:
            wrt.append("means2d_abs")
        found = _raster.backward_packed(frame.saved, frame.numbers, frame.tensors, wrt, upstream,
                                        out, _raster.GRAD2D_NDC)
    gradients = {name: found[own] for name, own in used.items() if own in found}
    if "means2d_abs" in found and variant.is_mip:
        gradients["means2D"][:, 2:] = found["means2d_abs"].sum(1, keepdim=True)
    if variant.permutes_sh and "sh" in gradients:
        gradients["sh"] = _sh_axes.gradient_to_permuted(gradients["sh"], shapes["sh"])
    if "view" in found:
        gradients["theta"], gradients["rho"] = pose_gradients(view, found["view"],
                                                              found.get("position"))
    return {name: _shaped(gradients[name], shapes[name]) if name in gradients
            else torch.zeros(shapes[name], device=device) for name in wanted}


def _shaped(tensor, shape):
    """tensor.reshape(shape), which takes a microsecond even where nothing changes."""
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def pose_gradients(view, grad_view, grad_position):
    """Derivatives (theta [3], rho [3]) with respect to a small motion of the camera.

    The motion is T' = exp(rho, theta) T of the world-to-camera transform T = [R t]:
    a point p of camera space moves by rho + theta x p, and so does every column of T
    (theta x for those of R).  The camera's centre -R^T t moves by -R^T rho.

    Args:
        view: [4, 4] transposed T.  grad_view: [4, 4], stored as it is.
        grad_position: [3] of the camera's centre, or None.
    """
    theta = torch.cross(view[:, :3], grad_view[:, :3], dim=1).sum(0)
    rho = grad_view[3, :3]
    if grad_position is not None:
        rho = rho - grad_position @ view[:3, :3]
    return theta, rho
