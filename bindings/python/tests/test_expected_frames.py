"""Frames drawn in memory that is sized by an expectation, as on a GPU; here on the CPU."""

import ctypes

import numpy as np
import pytest
from scenes import arrays_of, cloud

import gsplat_c
from gsplat_c import _arrays, _draw
from gsplat_c._lib import lib

torch = pytest.importorskip("torch")

NAMES = ("color", "depth", "radii")
WRT = ("means", "scales", "colors")
EXPECTED = {"enough": (40, 10000, ["draw"]), "too little": (1, 1, ["draw", "render"])}


@pytest.fixture(params=EXPECTED)
def steps(request, monkeypatch):
    """(the steps that are taken, those that have to be)."""
    visible, pairs, wanted = EXPECTED[request.param]
    taken = []

    def forecast(context, args, info):
        for name, value in (("visible", visible), ("intersections", pairs)):
            ctypes.c_int64.from_address(info + _draw.INFO.offsets[name]).value = value
        return lib.gsc_raster_sizes(context, args, info)

    def noted(name, function):
        def call(*args):
            taken.append(name)
            return function(*args)

        return call

    monkeypatch.setattr(_draw, "CPU", None)
    monkeypatch.setattr(_arrays.torch_arrays(), "allocate", None)
    monkeypatch.setattr(_draw, "_forecast", forecast)
    for name in ("forward", "project", "draw", "render"):
        monkeypatch.setattr(_draw, f"_{name}", noted(name, getattr(lib, f"gsc_raster_{name}")))
    return taken, wanted


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_nothing_is_kept(steps, convert):
    args = cloud()
    taken, wanted = steps
    result = gsplat_c.rasterize(**arrays_of(args, convert), outputs=NAMES)
    assert taken == wanted
    expected, _ = gsplat_c.rasterize_forward(**args, outputs=NAMES, max_intersections_bytes=1 << 40)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def test_backward(steps):
    args = cloud()
    taken, wanted = steps
    result, saved = gsplat_c.rasterize_forward(**args, outputs=NAMES)
    assert taken == wanted
    expected, other = gsplat_c.rasterize_forward(**args, outputs=NAMES,
                                                 max_intersections_bytes=1 << 40)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    grads, same = (gsplat_c.rasterize_backward(s, wrt=WRT, grad_color=expected.color, **args)
                   for s in (saved, other))
    for name in WRT:
        np.testing.assert_array_equal(getattr(grads, name), getattr(same, name))
