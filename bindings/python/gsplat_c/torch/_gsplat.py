"""``rasterization`` as gsplat's users call it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _raster
from .._errors import argument_error, calling
from . import _support
from ._gsplat_tiles import Meta
from ._raster import Run

if _support.HAS_OPS:
    from . import _raster_ops

_MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
_NAMES = {"rotations": "quats", "covariances": "covars", "view": "viewmats", "intrinsics": "Ks",
          "background": "backgrounds", "blur": "eps2d", "sh": "colors"}
_CALLING = calling("rasterization", _NAMES)
_PROJECTED = ("radii", "means2d", "depths", "conics", "opacities")


def rasterization(
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    opacities: Tensor,
    colors: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float = 0.01,
    far_plane: float = 1e10,
    radius_clip: float = 0.0,
    eps2d: float = 0.3,
    sh_degree: int | None = None,
    packed: bool = True,
    tile_size: int | None = None,
    backgrounds: Tensor | None = None,
    render_mode: str = "RGB",
    sparse_grad: bool = False,
    absgrad: bool = False,
    rasterize_mode: str = "classic",
    channel_chunk: int = 32,
    distributed: bool = False,
    camera_model: str = "pinhole",
    segmented: bool = False,
    covars: Tensor | None = None,
    with_ut: bool = False,
    with_eval3d: bool = False,
    return_normals: bool = False,
    global_z_order: bool = True,
    rays: Tensor | None = None,
    radial_coeffs: Tensor | None = None,
    tangential_coeffs: Tensor | None = None,
    thin_prism_coeffs: Tensor | None = None,
    ftheta_coeffs: Any = None,
    lidar_coeffs: Any = None,
    external_distortion_coeffs: Any = None,
    rolling_shutter: Any = None,
    viewmats_rs: Tensor | None = None,
    ut_params: Any = None,
    extra_signals: Tensor | None = None,
    extra_signals_sh_degree: int | None = None,
    renderer_config: Any = None,
    *,
    deterministic: bool = False,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The pinhole 3DGS part of gsplat's ``rasterization``, by our rasterizer.

    ``...`` stands for any batch dimensions, C for cameras, N for Gaussians.  Gradients flow
    to means, quats, scales, covars, opacities, colors, viewmats and backgrounds.

    Args:
        means: [..., N, 3].
        quats: [..., N, 4] w x y z, normalised inside.
        scales: [..., N, 3] standard deviations.
        opacities: [..., N].
        colors: [..., N, D] or [..., C, N, D], D at most 512; with sh_degree coefficients
            [N, K, 3] or [..., N, K, 3]; None in the modes without colour.
        viewmats: [..., C, 4, 4] world to camera.
        Ks: [..., C, 3, 3] intrinsics in pixels, without gradient.
        width, height: of the images, pixels.
        near_plane, far_plane: Gaussians outside are culled.
        radius_clip: Gaussians of at most this radius, pixels, are culled.
        eps2d: added to the diagonal of the 2D covariances, square pixels.
        sh_degree: the degree in use, 0 to 4; None: colors are colours.
        packed: meta lists the visible Gaussians only, [nnz, ...], else all, [..., C, N, ...].
            Without influence on the images or the memory.
        tile_size: of the grid that meta describes; 16 if None.
        backgrounds: [..., C, D].
        render_mode: "RGB", "D", "ED", "RGB+D" or "RGB+ED": colours, accumulated depth,
            depth divided by alpha.
        absgrad: backward also sets ``meta["means2d"].absgrad``.
        rasterize_mode: "classic" or "antialiased".
        covars: [..., N, 3, 3] instead of quats and scales; the upper triangle is read.
        channel_chunk, segmented: without influence.
        deterministic: bitwise reproducible gradients on a GPU, which
            torch.use_deterministic_algorithms(True) turns on, too.
        others: must have their defaults.

    Returns:
        render_colors [..., C, H, W, D], one channel more with depth; render_alphas
        [..., C, H, W, 1]; meta with gsplat's keys.  ``meta["means2d"]`` takes part in the graph
        only to receive its gradient, in pixels: what is computed from its values gives the
        inputs none.  Under torch.compile it receives none either, and packed needs
        ``torch._dynamo.config.capture_dynamic_output_shape_ops``.

    Raises:
        NotImplementedError: for what gsplat has and this library has not.
        ArgumentError: a wrong value, shape, dtype or device, as ``gsplat_c.rasterize``.
    """
    _refuse(
        sparse_grad=sparse_grad, distributed=distributed, with_ut=with_ut, with_eval3d=with_eval3d,
        return_normals=return_normals, global_z_order=not global_z_order, rays=rays,
        radial_coeffs=radial_coeffs, tangential_coeffs=tangential_coeffs,
        thin_prism_coeffs=thin_prism_coeffs, ftheta_coeffs=ftheta_coeffs,
        lidar_coeffs=lidar_coeffs, external_distortion_coeffs=external_distortion_coeffs,
        viewmats_rs=viewmats_rs, ut_params=ut_params, extra_signals=extra_signals,
        extra_signals_sh_degree=extra_signals_sh_degree, renderer_config=renderer_config)
    if camera_model != "pinhole":
        _wrong(f"camera_model is {camera_model!r}, only 'pinhole' is there", "UNSUPPORTED")
    if rolling_shutter is not None and getattr(rolling_shutter, "name", "") != "GLOBAL":
        _wrong(f"rolling_shutter is {rolling_shutter}, only a global shutter is there",
               "UNSUPPORTED")
    if rasterize_mode not in ("classic", "antialiased"):
        _wrong(f"rasterize_mode is {rasterize_mode!r}, expected 'classic' or 'antialiased'")
    if render_mode not in _MODES:
        if render_mode in ("d", "Ed", "RGB-d", "RGB-Ed"):
            _wrong(f"render_mode is {render_mode!r}; of depths only those along the camera's axis "
                   "are there", "UNSUPPORTED")
        _wrong(f"render_mode is {render_mode!r}, expected one of {', '.join(_MODES)}")

    kind = means.device.type
    tensors = {"means": means, "rotations": quats, "scales": scales, "opacities": opacities,
               "colors": colors, "view": viewmats, "background": backgrounds, "covars": covars}
    scene = _Scene(_support.set_of(tensors, kind), _support.full_precision(Ks, kind).detach(),
                   sh_degree, "RGB" in render_mode)
    options = {
        "width": width, "height": height, "near_plane": near_plane, "far_plane": far_plane,
        "radius_clip": radius_clip, "blur": eps2d, "antialias": rasterize_mode == "antialiased",
        "view_row_major": True, "pixel_last": True,
        "deterministic": deterministic or torch.are_deterministic_algorithms_enabled(),
    }
    images, meta = _forward(scene, options, ("color", "alpha", "depth")[:2 + ("D" in render_mode)],
                         packed, absgrad)
    meta.update(_grid(scene, width, height, tile_size))
    meta.batch = scene.batch
    return *_composed(images, render_mode), meta


def _refuse(**given):
    for name, value in given.items():
        if value is not None and value is not False:
            _wrong(f"{name} is not there, only its default is", "UNSUPPORTED")


def _wrong(text, kind="INVALID_ARGUMENT"):
    raise argument_error(kind, text, "rasterization")


def _composed(images, mode):
    """(render_colors, render_alphas) of the images [..., C, H, W]."""
    alpha = images["alpha"].unsqueeze(-1)
    if "D" not in mode:
        return images["color"], alpha
    depth = images["depth"].unsqueeze(-1)
    if "ED" in mode:
        depth = depth / alpha.clamp(min=1e-10)
    return (torch.cat([images["color"], depth], -1) if "RGB" in mode else depth), alpha


class _Scene:
    """The inputs as our rasterizer takes them, for each element of the batch."""

    def __init__(self, tensors, Ks, sh_degree, with_color):
        means, view = tensors["means"], tensors["view"]
        if means.dim() < 2 or view.dim() < 3:
            _wrong(f"means is {tuple(means.shape)} and viewmats {tuple(view.shape)}, expected "
                   "[..., N, 3] and [..., C, 4, 4]", "SHAPE")
        self.batch, self.gaussians = means.shape[:-2], means.shape[-2]
        self.cameras = view.shape[-3]
        self.size = self.batch.numel()
        self.sh_degree = sh_degree
        self.like = means
        rows = len(self.batch)
        tensors["intrinsics"] = torch.stack(
            [Ks[..., 0, 0], Ks[..., 1, 1], Ks[..., 0, 2], Ks[..., 1, 2]], -1)
        tensors = {name: value for name, value in tensors.items() if value is not None}
        if "covars" in tensors:
            full = tensors.pop("covars")
            tensors.pop("rotations", None), tensors.pop("scales", None)
            tensors["covariances"] = full[..., [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        if not with_color:
            tensors.pop("background", None)
            tensors["colors"] = means.new_zeros((*means.shape[:-1], 1))
        elif "colors" not in tensors:
            _wrong("colors is None, which only the modes 'D' and 'ED' allow")
        elif sh_degree is not None:
            self._take_sh(tensors, rows)
        self.shared = {"sh": tensors.pop("sh")} if "sh" in tensors and rows else {}
        self.tensors = {name: self._flat(name, value) for name, value in tensors.items()}

    def _take_sh(self, tensors, rows):
        sh = tensors.pop("colors")
        if sh.shape[-1] != 3:
            _wrong(f"colors are spherical harmonics of {sh.shape[-1]} channels, only 3 are there",
                   "UNSUPPORTED")
        if sh.dim() == rows + 4:
            _wrong("colors are spherical harmonics for each camera, only those for all cameras "
                   "are there", "UNSUPPORTED")
        if sh.dim() == rows + 3 and rows:
            tensors["sh_of_each"] = sh
        else:
            tensors["sh"] = sh

    def _flat(self, name, value):
        """[size, ...] of a value [*batch, ...]."""
        if value.shape[:len(self.batch)] != self.batch:
            _wrong(f"{_NAMES.get(name, name)} is {tuple(value.shape)}, expected the batch "
                   f"dimensions {tuple(self.batch)}", "SHAPE")
        return value.reshape(self.size, *value.shape[len(self.batch):])

    def element(self, index):
        """Arguments of gsplat_c.rasterize for one element of the batch."""
        args = {"sh" if name == "sh_of_each" else name: value[index]
                for name, value in self.tensors.items()}
        args.update(self.shared)
        if "sh" in args:
            args["sh_degree"] = self.sh_degree
        return args

    def joined(self, values):
        """[*batch, ...] of one tensor for each element."""
        if not self.batch:
            return values[0]
        return torch.stack(values).view(*self.batch, *values[0].shape)

    def needs_grad(self):
        return _support.may_have_tangents() or torch.is_grad_enabled() and any(
            value.requires_grad for value in (*self.tensors.values(), *self.shared.values()))


def _forward(scene, options, wanted, packed, absgrad):
    """({name: image [..., C, H, W]}, meta without the grid)."""
    outputs = (*wanted, *_PROJECTED)
    records = scene.needs_grad()
    if _support.is_compiling():
        names = tuple("radii_xy" if name == "radii" else name for name in outputs)
        frames = [dict(zip(outputs, _raster_ops.rasterize(
            names, 0, {}, {**scene.element(i), **options}))) for i in range(scene.size)]
    else:
        with _CALLING:
            runs = [_run({**scene.element(i), **options}, outputs, scene, records)
                    for i in range(scene.size)]
        frames = [run.values if records else run for run in runs]
    projected = {name: scene.joined([frame[name] for frame in frames]) for name in _PROJECTED}
    meta, visible = _listed(scene, projected, packed)
    if records and not _support.is_compiling():
        sinks = _sinks(scene, meta, visible, absgrad)
        frames = [run.record({name: sink[i] for name, sink in sinks.items()})
                  for i, run in enumerate(runs)]
    return {name: scene.joined([frame[name] for frame in frames]) for name in wanted}, meta


def _run(args, outputs, scene, records):
    out = {"radii": torch.empty((scene.cameras, scene.gaussians, 2), dtype=torch.int32,
                                device=scene.like.device)}
    if records:
        return Run(args, outputs, out=out)
    return _raster.rasterize(outputs=outputs, out=out, **args).asdict()


def _listed(scene, projected, packed):
    """(meta of the projected Gaussians, where those are among all, or None for all)."""
    if not packed:
        meta = Meta(batch_ids=None, camera_ids=None, gaussian_ids=None, **projected)
        return meta, None
    visible = (projected["radii"] > 0).all(-1).reshape(-1).nonzero().squeeze(1)
    gaussian, image = visible % max(scene.gaussians, 1), visible // max(scene.gaussians, 1)
    tail = len(scene.batch) + 2
    listed = {name: value.reshape(-1, *value.shape[tail:])[visible]
              for name, value in projected.items()}
    return Meta(batch_ids=image // scene.cameras, camera_ids=image % scene.cameras,
                gaussian_ids=gaussian, **listed), visible


def _sinks(scene, meta, visible, absgrad):
    """{sink: [size, C, N, 2]} that lead gradients to meta["means2d"] and its absgrad."""
    means2d = meta["means2d"].detach().requires_grad_()
    meta["means2d"] = means2d
    leaves = {"means2d": means2d}
    if absgrad:
        leaves["means2d_abs"] = absolute = torch.zeros_like(means2d).requires_grad_()

        def keep(grad):
            means2d.absgrad = grad

        absolute.register_hook(keep)
    shape = (scene.size, scene.cameras, scene.gaussians, 2)
    if visible is None:
        return {name: leaf.view(shape) for name, leaf in leaves.items()}
    rows = scene.size * scene.cameras * scene.gaussians
    return {name: leaf.new_zeros((rows, 2)).index_copy(0, visible, leaf).view(shape)
            for name, leaf in leaves.items()}


def _grid(scene, width, height, tile_size):
    size = 16 if tile_size is None else tile_size
    return {"tile_width": -(-width // size), "tile_height": -(-height // size),
            "width": width, "height": height, "tile_size": size, "n_batches": scene.size,
            "n_cameras": scene.cameras}
