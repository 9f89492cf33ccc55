"""The float64 build of the library as a second copy of the Python package: the same calls
on float64 numpy arrays."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import gsplat_c
from gsplat_c import _lib

_NAME = "gsplat_c_float64"


def _path():
    chosen = os.environ.get("GSPLAT_C_LIBRARY_F64")
    if chosen:
        return Path(chosen)
    beside = Path(_lib.path).resolve().with_name("libgsplat_c_f64.so")
    if beside.is_file():
        return beside
    pytest.skip("no libgsplat_c_f64.so beside the library: build the tests, or set "
                "GSPLAT_C_LIBRARY_F64")


def oracle():
    """The package on the float64 library; its one context uses all processors."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    before = os.environ.get("GSPLAT_C_LIBRARY")
    package = Path(gsplat_c.__file__).parent
    spec = importlib.util.spec_from_file_location(
        _NAME, package / "__init__.py", submodule_search_locations=[str(package)])
    os.environ["GSPLAT_C_LIBRARY"] = str(_path())
    try:
        module = sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    finally:
        os.environ.pop("GSPLAT_C_LIBRARY", None)
        if before is not None:
            os.environ["GSPLAT_C_LIBRARY"] = before
    return module


def to_double(args):
    """The same values as float64 where they are float32."""
    return {k: v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v
            for k, v in args.items()}


def steady(got, exact):
    """Pixels [..] where both saw the same samples: at a threshold one sample more or less
    changes alpha by far more than rounding does."""
    alpha, wanted = np.asarray(got, np.float64), np.asarray(exact)
    return np.abs(alpha - wanted) < 3e-5


def mute(upstream, pixels, pixel_last=False):
    """The gradients by images without those by pixels that are not `pixels`."""
    out = {}
    for name, value in upstream.items():
        if name == "grad_color":
            mask = pixels[..., None] if pixel_last else np.expand_dims(pixels, -3)
        else:
            mask = pixels
        out[name] = np.ascontiguousarray(value * mask)
    return out
