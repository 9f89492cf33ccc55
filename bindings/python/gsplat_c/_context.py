"""One context per device for the whole process, and what the library reports about itself."""

from __future__ import annotations

import ctypes
import os
import threading

from ._abi import CONSTANTS
from ._arrays import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, principal
from ._call import Descriptor, call
from ._errors import argument_error, calling, integer
from ._lib import Device, check, fail, lib

_DESC = Descriptor("gsc_context_desc")
_LIMITS = Descriptor("gsc_limits")
_VERSION = CONSTANTS["GSC_ABI_MAJOR"] << 16 | CONSTANTS["GSC_ABI_MINOR"]

_contexts: dict[tuple, int] = {}  # by device and a framework's allocate
_lock = threading.Lock()


def _renew_lock():
    """In a child of fork, whoever held it is not there to let it go."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

# Pinned host memory is read by the CPU; managed memory goes to the GPU.
_HOMES = {CPU: CPU, CUDA: CUDA, CUDA_HOST: CPU, CUDA_MANAGED: CUDA}
_NAMES = {"cpu": CPU, "cuda": CUDA}


def context(device: tuple[int, int]) -> int:
    """The context of a device, made at its first use and kept until the process ends."""
    found = _contexts.get((device, None))
    return found if found is not None else _create(device, None)


def begin(block, value, name, stream, recorded=False):
    """Fills the block by the array that decides about framework and device.

    From then on
        block.arrays    is its adapter, and block.like the array
        block.device    its device, and block.context the library's context there
        block.stream    the stream to use
        block.double    whether numbers are float64
        block.lends     whether the library asks the framework for memory
        block.recorded  whether inputs may require gradients: the caller records those
    """
    arrays = principal(value, name)
    block.arrays, block.like, block.recorded = arrays, value, recorded
    block.device = device = arrays.device(value)
    block.stream = arrays.stream(device) if stream is None else integer(stream, "stream")
    block.double = arrays.is_double(value)
    if block.double and not _takes_double():
        raise argument_error("DTYPE", f"{name} is float64, expected float32")
    # The framework's memory is for the framework's stream, and all frameworks share the CPU's.
    allocate = None
    if stream is None and device[0] != CPU and device[0] != CUDA_HOST:
        allocate = arrays.allocate
    block.lends = allocate is not None
    found = _contexts.get((device, allocate))
    block.context = found if found is not None else _create(device, allocate)


def _takes_double():
    """Whether the loaded library computes in float64, as only one for tests does."""
    return build_info()["real"] == "float64"


def _create(device, allocate):
    if device[0] not in _HOMES:
        raise argument_error("DEVICE", f"arrays on DLPack device type {device[0]}, expected CPU "
                                       "or CUDA")
    kind = _HOMES[device[0]]
    home = (kind, device[1]), allocate
    with _lock:
        if home not in _contexts:
            _contexts[home] = _open(home[0], _threads() if kind == CPU else 0, home[1])
        _contexts[device, allocate] = _contexts[home]
        return _contexts[home]


def _threads():
    """GSPLAT_C_THREADS, 0 if unset: as many as the process may use."""
    text = os.environ.get("GSPLAT_C_THREADS", "0")
    if not text.isdigit():
        raise argument_error("INVALID_ARGUMENT", f"GSPLAT_C_THREADS is {text!r}, expected a number")
    return int(text)


def _open(device, threads, allocate):
    with call() as block:
        desc = _DESC.pack(block, _VERSION, 0, *device, 0, 0, 0, 0, threads)
        handle = ctypes.c_void_p()
        check(lib.gsc_context_create_managed(desc, allocate, ctypes.addressof(handle)))
        return handle.value


def _device(name: str) -> tuple[int, int]:
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind not in _NAMES or not (number or "0").isdigit():
        raise argument_error("DEVICE", f"device is {name!r}, expected 'cpu', 'cuda' or 'cuda:N'")
    return _NAMES[kind], int(number or 0)


def version() -> str:
    """The version of the loaded library, such as "0.9.0"."""
    return lib.gsc_version().decode()


def build_info() -> dict:
    """Compiler, targets and options of the loaded library."""
    import json

    return json.loads(lib.gsc_build_info_json())


def device_count(kind: str = "cuda") -> int:
    """How many usable devices there are; 0 GPUs without a driver is not an error.

    Args:
        kind: "cpu" or "cuda".
    """
    count = ctypes.c_int32()
    check(lib.gsc_device_count(_device(kind)[0], ctypes.addressof(count)))
    return count.value


def device_report(device: str = "cpu") -> dict:
    """What the library reports about a device.

    Args:
        device: "cpu", "cuda" or "cuda:1".
    Raises:
        NoDevice: there is no such device.
    """
    import json

    size = ctypes.c_size_t(4096)
    while True:
        buffer = ctypes.create_string_buffer(size.value)
        status = lib.gsc_device_report_json(Device(*_device(device)), buffer,
                                            ctypes.addressof(size))
        if status == 0:
            return json.loads(buffer.value)
        if status != CONSTANTS["GSC_ERROR_BUFFER_TOO_SMALL"]:
            with calling("device_report"):
                fail(status)


def limits(device: str = "cpu") -> dict[str, int]:
    """The largest sizes that a device's backend takes: max_gaussians, max_pixels, ..."""
    with call("limits") as block:
        address = _LIMITS.pack(block, *[0] * (len(_LIMITS.fields) - 1))
        check(lib.gsc_context_limits(context(_device(device)), address))
        return dict(zip(_LIMITS.fields[1:], _LIMITS.unpack(block, address)))
