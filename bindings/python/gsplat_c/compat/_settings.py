"""GaussianRasterizationSettings: a named tuple per variant, and the one that chooses."""

from __future__ import annotations

import inspect
from collections import namedtuple

from ._variants import AUTO, FIELD_DEFAULTS, VARIANTS, by_fields, resolve, unexpected

_MODULE = "diff_gaussian_rasterization"
_TYPES = {"image_height": int, "image_width": int, "tanfovx": float, "tanfovy": float,
          "kernel_size": float, "scale_modifier": float, "sh_degree": int, "prefiltered": bool,
          "debug": bool, "antialiasing": bool}  # all others are tensors


class Settings:
    """Camera and options of a frame; the given fields decide the variant.

    image_height, image_width: pixels.  tanfovx, tanfovy: of half the fields of view.
    bg: [3].  viewmatrix, projmatrix: [4, 4] transposed world-to-camera and world-to-clip,
    any strides.  sh_degree: 0 to 3.  campos: [3].  kernel_size: variance of the filter,
    square pixels, which means variant "mip"; subpixel_offset: [H, W, 2].  antialiasing means
    "2024", pixel_weights "taming", projmatrix_raw "w-pose", no debug "w-depth", else "2023".
    """

    __slots__ = ()
    variant = None
    _fields = tuple(dict.fromkeys(name for variant in VARIANTS.values()
                                  for name in variant.fields))  # that programs look for
    __signature__ = inspect.Signature([
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in _fields])

    def __new__(cls, *args, **kwargs):
        variant = _variant_of_call(args, kwargs)
        given = {*variant.fields[:len(args)], *kwargs}
        for name in variant.fields:
            if name not in given and name in FIELD_DEFAULTS:
                kwargs[name] = FIELD_DEFAULTS[name]
        return settings_class(variant.name)(*args, **kwargs)

    def __reduce__(self):
        # By name of the variant: a pickle outlives a change of the variant installed.
        return _restore, (self.variant.name, tuple(self))


def _variant_of_call(args, kwargs):
    """Keywords say it by themselves; of positional values, number and type do."""
    if len(args) > 5 and getattr(args[5], "ndim", 0) == 3:  # where the others have a number
        return VARIANTS["mip"]
    if len(args) <= 8:
        return by_fields(kwargs)
    fields = set(kwargs)
    if hasattr(args[8], "shape"):  # a matrix where the others have the degree
        fields.add("projmatrix_raw")
    elif len(args) > 11:
        fields.add("debug")
        if len(args) > 12:
            fields.add("antialiasing" if isinstance(args[12], (bool, int)) else "pixel_weights")
    return by_fields(fields)


def _restore(name, values):
    return settings_class(name)(*values)


def _make(variant):
    fields = namedtuple("GaussianRasterizationSettings", variant.fields)

    def __new__(cls, *args, **kwargs):
        try:
            return fields.__new__(cls, *args, **kwargs)
        except TypeError:
            for name in kwargs:
                if name not in variant.fields:
                    raise TypeError(unexpected("GaussianRasterizationSettings", variant, name)
                                    ) from None
            raise

    annotations = {name: _TYPES.get(name, "torch.Tensor") for name in variant.fields}
    return type("GaussianRasterizationSettings", (Settings, fields), {
        "__slots__": (), "_fields": variant.fields, "__new__": __new__, "__module__": _MODULE,
        "__signature__": inspect.signature(fields), "__annotations__": annotations,
        "__doc__": Settings.__doc__, "variant": variant})


_classes = {AUTO: Settings}
Settings.__module__, Settings.__qualname__ = _MODULE, "GaussianRasterizationSettings"
Settings.__name__ = "GaussianRasterizationSettings"


def settings_class(name: str):
    """The class that a variant's module exports."""
    if name not in _classes:
        _classes.setdefault(name, _make(VARIANTS[resolve(name)]))  # one, whichever thread is first
    return _classes[name]


def variant_of(settings):
    """The variant that a settings object of any origin belongs to."""
    found = getattr(settings, "variant", None)
    if found is not None:
        return found
    optional = ("kernel_size", "projmatrix_raw", "pixel_weights", "antialiasing", "debug")
    return by_fields([name for name in optional if hasattr(settings, name)])
