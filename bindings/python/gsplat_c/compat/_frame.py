"""Forward and backward of one frame on gsplat_c's rasterizer, without autograd."""

from __future__ import annotations

import math
from operator import index, itemgetter

import torch

from .. import _raster
from .._abi import CONSTANTS
from .._arrays import allocate
from .._errors import ArgumentTypeError, argument_error, integer
from .._fields import FIELDS, NUMBERS, SMALLEST, TENSORS
from .._scene import number
from ._variants import LIBRARY_NAMES, OUTPUTS, PLAIN, POSED, SCENE_NAMES, SPLIT

_MAX_DEGREE = 3  # the originals read a higher degree as this one
_FLOAT = torch.float32
_COMPAT_3DGS = CONSTANTS["GSC_RASTER_COMPAT_3DGS"]
_ANTIALIAS, _PREFILTERED = FIELDS["antialias"].flag, FIELDS["prefiltered"].flag

_WIDTH, _HEIGHT, _DEGREE, _SCALE, _TAN_X, _TAN_Y, _MEDIAN = (FIELDS[name].place for name in (
    "width", "height", "sh_degree", "scale_modifier", "tan_fovx", "tan_fovy", "median_default"))
_HARMONICS = ("dc", "sh")
_WEIGHTS = TENSORS.index("pixel_weights")  # cameras come before it, the scene after it
_FIELDS = TENSORS[_WEIGHTS + 1:]  # of the scene, and where they are among the inputs:
_PLACES = {names: {SCENE_NAMES.get(name): place for place, name in enumerate(names)}
           for names in (PLAIN, SPLIT, POSED)}
# Puts a scene in their order; it must end with a None, for what the inputs lack.
_in_order = {names: itemgetter(*(places.get(field, -1) for field in _FIELDS))
             for names, places in _PLACES.items()}


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


def scene_of(names, tensors):
    """The inputs that the image depends on; None for the others and for absent ones."""
    scene, has_colors = [], False
    for name, tensor in zip(names, tensors):
        if tensor is None or name not in SCENE_NAMES or not tensor.numel():
            tensor = None
        else:
            if tensor.dtype is not _FLOAT:
                check_float(name, tensor)
            has_colors = has_colors or name == "colors_precomp"
        scene.append(tensor)
    if has_colors:
        scene = [None if name in _HARMONICS else tensor for name, tensor in zip(names, scene)]
    return scene


def camera_of(variant, settings, has_colors):
    """(numbers, tensors before the weights) as _raster.forward_packed() takes them."""
    numbers = [0] * len(NUMBERS)
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
    if settings.prefiltered:
        flags |= _PREFILTERED
    numbers[0] = flags
    view = _camera(settings, "viewmatrix", (4, 4))
    projection = _camera(settings, "projmatrix", (4, 4))
    background = _camera(settings, "bg", (3,))
    position = None if has_colors else _camera(settings, "campos", (3,))
    return numbers, (view, projection, None, position, background)


_SHAPES = {"3HW": lambda height, width, count: (3, height, width),
           "1HW": lambda height, width, count: (1, height, width),
           "HW": lambda height, width, count: (height, width),
           "P": lambda height, width, count: (count,),
           "P2": lambda height, width, count: (count, 2),
           "0": lambda height, width, count: (0,)}
_plans: dict[tuple[str, bool], list] = {}


def _plan_results(variant, weighs):
    """[(name, output of the library or "", shape by height, width and number, dtype)]"""
    plan = []
    for name in variant.returns:
        source, shape, is_integer, _, is_weighted = OUTPUTS[name]
        if is_weighted and not weighs:
            source, shape = "", "0"
        plan.append((name, source, _SHAPES[shape], torch.int32 if is_integer else _FLOAT))
    return plan


def make_results(variant, height, width, count, device, weighs):
    """New tensors: (every result by name, those that the library makes by its name).

    count: of Gaussians; without any all are zero.  weighs: whether there are pixel weights.
    """
    key = variant.name, weighs
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _plan_results(variant, weighs)
    if height < 0 or width < 0:  # which is the library's to refuse
        height = width = 0
    results, outputs = {}, {}
    for name, source, shape, dtype in plan:
        make = torch.empty if source and count else torch.zeros
        # The sizes one by one: torch takes half as long again to look into a tuple.
        results[name] = result = make(*shape(height, width, count), dtype=dtype, device=device)
        if source:
            outputs[source] = result
    return results, outputs


class Frame:
    """What backward needs of a frame: a SavedRaster and the arguments that it was made with."""

    __slots__ = ("saved", "numbers", "camera", "names", "scene")

    def __init__(self, saved, numbers, camera, names, scene):
        """numbers, camera: of camera_of().  scene: of scene_of(), by names."""
        self.saved, self.numbers, self.camera = saved, numbers, camera
        self.names, self.scene = names, scene

    def tensors(self, weights=None):
        """Those of gsplat_c._raster.forward_packed()."""
        return (*self.camera, weights, *_in_order[self.names]((*self.scene, None)))


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
    scene = scene_of(names, tensors)
    numbers, camera = camera_of(variant, settings,
                                scene[_PLACES[names]["colors"]] is not None)
    results, outputs = allocate("the results", make_results, variant, numbers[_HEIGHT],
                                numbers[_WIDTH], count, means.device, weighs)
    frame = Frame(None, numbers, camera, names, scene)
    if not save:
        numbers[0] |= _raster.FORWARD_ONLY
    frame.saved = _raster.forward_packed(
        "rasterize", numbers, frame.tensors(None if weights is None else weights.detach()), (),
        outputs, recorded=True)[1]
    if "my_radii" in results:  # a variant that returns the radii twice; outputs has the last
        results["radii"] = results["my_radii"].clone()
    return results, frame if save else None


def backward(frame, upstream, shapes, wanted):
    """Gradients by input name, of the inputs ``wanted``.

    Args:
        frame: what forward returned.
        upstream: gradient by the library's output, by name; absent or None: zero.
        shapes: of the inputs, by name.  Those that had no part in the image get zeros.
    """
    scene = dict(zip(frame.names, frame.scene))
    used = {name: LIBRARY_NAMES[name] for name in wanted
            if name == "means2D" or scene.get(name) is not None}
    view, position = (frame.camera[FIELDS[name].place] for name in ("view", "position"))
    wants_pose = "theta" in wanted or "rho" in wanted
    wrt = [*used.values(), *(("view",) if wants_pose else ()),
           *(("position",) if wants_pose and position is not None else ())]
    upstream = {name: value for name, value in upstream.items() if value is not None}
    device, found = scene["means3D"].device, {}
    if upstream and wrt:
        for name, value in upstream.items():
            check_float(f"grad_{name}", value)
        out = {"means2d": torch.empty(shapes["means2D"], device=device)
               } if "means2D" in used else None
        found = _raster.backward_packed(frame.saved, frame.numbers, frame.tensors(), wrt, upstream,
                                        out, _raster.GRAD2D_NDC)
    gradients = {name: found[library_name] for name, library_name in used.items()
                 if library_name in found}
    if "view" in found:
        gradients["theta"], gradients["rho"] = pose_gradients(view, found["view"],
                                                              found.get("position"))
    return {name: gradients[name].reshape(shapes[name]) if name in gradients
            else torch.zeros(shapes[name], device=device) for name in wanted}


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
