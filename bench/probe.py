"""A look inside calls on a CUDA device: times of kernels, memory, and what the device can do.

It replaces the package's context by other contexts for that."""

import contextlib
import ctypes
import functools

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gsplat_c import _context
from gsplat_c._abi import CONSTANTS
from gsplat_c._arrays import CUDA
from gsplat_c._call import call as c_call
from gsplat_c._lib import Device, fail, lib
from measure import row_ms

ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t,
                         Device, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, Device,
                        ctypes.c_void_p)


class Allocator(ctypes.Structure):  # gsc_allocator
    _fields_ = [("struct_size", ctypes.c_size_t), ("user", ctypes.c_void_p), ("alloc", ALLOC),
                ("free", FREE)]


_lent = {}  # address: tensor


@ALLOC
def _lend(_user, size, alignment, device, _stream):
    place = _torch_device(device)
    try:
        memory = torch.empty(max(size, 1), dtype=torch.uint8, device=place)
        if memory.data_ptr() % alignment:
            memory = torch.empty(size + alignment, dtype=torch.uint8, device=place)
    except RuntimeError:  # no memory
        return None
    address = -(-memory.data_ptr() // alignment) * alignment
    _lent[address] = memory
    return address


@FREE
def _take_back(_user, data, _size, _device, _stream):
    _lent.pop(data, None)


def _torch_device(device):
    kind = "cuda" if device.device_type == CUDA else "cpu"
    return torch.device(kind, device.device_id)


_allocator = Allocator(ctypes.sizeof(Allocator), None, _lend, _take_back)
_opened = {}


def _handle(device, flags, allocator):
    key = device, flags, allocator
    if key not in _opened:
        handle = ctypes.c_void_p()
        with c_call("gpu bench") as block:
            desc = _context._DESC.pack(block, _context._VERSION, flags, *device, allocator, 0, 0,
                                       0, 0)
            status = lib.gsc_context_create(desc, ctypes.addressof(handle))
            if status:
                fail(status)
        _opened[key] = handle.value
    return _opened[key]


@contextlib.contextmanager
def _in_place(flags=0, allocator=0, device=None):
    device = device or (CUDA, torch.cuda.current_device())
    handle = _handle(device, flags, allocator)
    own = _context.context(device)
    _context._contexts[device] = handle
    try:
        yield
    finally:
        _context._contexts[device] = own


def one_at_a_time():
    """Each kernel starts when the previous one has ended, so its time contains no waiting."""
    return _in_place(flags=CONSTANTS["GSC_CONTEXT_SYNC_CHECK"])


def memory_of_torch(device=None):
    """Lets the library take all its memory from torch, whose peak then includes it."""
    return _in_place(allocator=ctypes.addressof(_allocator), device=device)


def kernels_ms(call, runs=5):
    """{name of a kernel or copy: milliseconds of one call}, the kernels one at a time."""
    found = {}
    with one_at_a_time():
        call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(runs):
                call()
            torch.cuda.synchronize()
    for event in profiler.events() or ():
        if event.device_type == DeviceType.CUDA:
            ms = event.time_range.elapsed_us() / 1000 / runs
            found[event.name] = found.get(event.name, 0.0) + ms
    return found


def machine():
    """Bytes per second of a copy, read and written, and float32 operations per second."""
    source = torch.zeros(1 << 27, device="cuda")
    target = torch.empty_like(source)
    copy_ms = row_ms(functools.partial(target.copy_, source))
    del source, target
    side = 4096
    left, right = (torch.rand(side, side, device="cuda") for _ in range(2))
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    product_ms = row_ms(lambda: left @ right)
    torch.set_float32_matmul_precision(precision)
    return {"copy_bytes_s": 2 * (4 << 27) / copy_ms * 1e3,
            "flop_s": 2 * side**3 / product_ms * 1e3}
