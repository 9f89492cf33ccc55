"""Frames in memory that the library asks the framework for, as on a GPU; here on the CPU."""

import ctypes

import numpy as np
import pytest
import torch
from frames import Camera, arguments, gaussians

import gsplat_c
from gsplat_c import _arrays, _context, _dlpack
from scenes import cloud


class View(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("view", View)]


class Framework:
    """Lends memory of numpy and knows what is out; sizes: of all that was ever asked for."""

    def __init__(self):
        self.out, self.sizes, self.limit = {}, [], None
        self._delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.out.__delitem__)
        self._allocate = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(View), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
            ctypes.c_void_p)(self._lend)
        self.address = ctypes.cast(self._allocate, ctypes.c_void_p).value

    def _lend(self, prototype, made, user, set_error):
        size = ctypes.c_int64.from_address(prototype.contents.shape).value
        self.sizes.append(size)
        if self.limit is not None and len(self.sizes) > self.limit:
            return -1
        memory, shape = np.empty(size + 255, np.uint8), (ctypes.c_int64 * 1)(size)
        view = View.from_buffer_copy(prototype.contents)
        view.data = memory.ctypes.data + -memory.ctypes.data % 256
        view.shape = ctypes.addressof(shape)
        managed = Managed((ctypes.c_uint32 * 2)(1, 1), None,
                          ctypes.cast(self._delete, ctypes.c_void_p), 0, view)
        made[0] = address = ctypes.addressof(managed)
        self.out[address] = managed, memory, shape
        return 0


@pytest.fixture
def lending(monkeypatch):
    """lending(adapter, lender): the CPU's memory is the lender's, as on a GPU."""
    before = set(_context._contexts)
    addresses = []

    def lending(adapter, lender):
        monkeypatch.setattr(adapter, "allocate", lender.address)
        monkeypatch.setattr(_context, "CPU", None)
        addresses.append(lender.address)
        return lender

    yield lending
    for key in set(_context._contexts) - before:
        if key[1] in addresses:
            _context.lib.gsc_context_free(_context._contexts.pop(key))


@pytest.fixture
def framework(lending):
    """torch with memory of a Framework."""
    if _dlpack.exchange_functions(torch.Tensor)[0] is None:
        pytest.skip("this torch takes no memory of others")
    found = lending(_arrays.torch_arrays(), Framework())
    yield found
    assert not found.out


def frame(use, leaves=None):
    """(image, radii, leaves) of a frame; new leaves if there are none."""
    dgr = use("2023").dgr
    leaves = leaves or gaussians(25, "cpu")
    settings = dgr.GaussianRasterizationSettings(**Camera("cpu").settings("2023"))
    color, radii = dgr.GaussianRasterizer(settings)(**arguments(leaves, False))
    return color, radii, leaves


def gradients(color, leaves):
    """Of all leaves, in order."""
    weights = torch.linspace(-1, 1, color.numel()).reshape(color.shape)
    return torch.autograd.grad(color, list(leaves.values()), weights, allow_unused=True)


def expect_equal(found, expected):
    for one, other in zip(found, expected):
        assert (one is None and other is None) or torch.equal(one, other)


def test_a_frame_and_its_gradients(use, framework, monkeypatch):
    color, radii, leaves = frame(use)
    assert len(framework.out) == 2  # state and lists
    found = gradients(color, leaves)
    with monkeypatch.context() as plain:
        plain.setattr(_arrays.torch_arrays(), "allocate", None)
        other, same, leaves = frame(use)
        assert torch.equal(color, other) and torch.equal(radii, same)
        expect_equal(found, gradients(other, leaves))
    del color, other


def test_a_frame_without_gradients(use, framework):
    with torch.no_grad():
        color, _, _ = frame(use)
    assert framework.sizes and not framework.out
    assert torch.equal(color, frame(use)[0])


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_without_memory(use, framework, limit):
    """The error is the library's and torch's; what was lent before it is given back."""
    frame(use)
    assert not framework.out
    framework.limit = len(framework.sizes) + limit
    for kind in (gsplat_c.OutOfMemoryError, torch.cuda.OutOfMemoryError, MemoryError):
        with pytest.raises(kind, match="^GaussianRasterizer: .*out of memory, [0-9]+ bytes"):
            frame(use)
    assert not framework.out
    framework.limit = None
    color, _, leaves = frame(use)
    assert gradients(color, leaves)[0].abs().sum() > 0
    del color


def test_other_errors_are_the_librarys(use, framework):
    leaves = gaussians(25, "cpu")
    leaves["scales"] = torch.ones(24, 3, requires_grad=True)
    with pytest.raises(ValueError, match="scales"):
        frame(use, leaves)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_framework_without_a_table_of_functions(lending, monkeypatch, kind):
    """torch before 2.10 and cupy lend memory by callbacks."""
    adapter = _arrays.numpy_arrays() if kind == "numpy" else _arrays.torch_arrays()
    args = {name: value if kind == "numpy" or not isinstance(value, np.ndarray)
            else torch.from_numpy(value) for name, value in cloud().items()}
    expected, plain = gsplat_c.rasterize_forward(**args)
    wanted = gsplat_c.rasterize_backward(plain, wrt=("means",), grad_color=expected.color, **args)
    sizes, refused = [], []

    def allocate(size, device):
        if refused:
            raise MemoryError("none today")
        sizes.append(size)
        return adapter.bytes(size, device)

    lender = lending(adapter, _dlpack.Lender(allocate))
    monkeypatch.setattr(adapter, "take", lender.take, raising=False)
    found, saved = gsplat_c.rasterize_forward(**args)
    assert sizes and not lender._lent
    assert type(saved.state) is type(saved.intersections) is type(plain.state)
    grads = gsplat_c.rasterize_backward(saved, wrt=("means",), grad_color=expected.color, **args)
    np.testing.assert_array_equal(found.color, expected.color)
    np.testing.assert_array_equal(grads.means, wanted.means)
    np.testing.assert_array_equal(gsplat_c.rasterize(**args).color, expected.color)
    assert not lender._lent
    refused.append(True)
    with pytest.raises(gsplat_c.OutOfMemoryError, match="^rasterize: .* bytes were wanted"):
        gsplat_c.rasterize(**args)
    assert not lender._lent
