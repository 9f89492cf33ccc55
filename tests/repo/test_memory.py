"""The formulas in docs/memory.md give the sizes that the library asks for."""

import ctypes
import importlib.util
import math
import os
import re
from pathlib import Path

import pytest

from support import ROOT

CPU, CUDA = 1, 2


def load_abi():
    path = ROOT / "bindings/python/gsplat_c/_abi.py"
    spec = importlib.util.spec_from_file_location("abi_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ABI = load_abi()


def formulas(title, **values):
    """Runs the block of the page that begins with this comment; its names and values."""
    page = (ROOT / "docs/memory.md").read_text()
    blocks = re.findall(r"^```python\n# (.*?)$(.*?)^```", page, flags=re.S | re.M)
    (code,) = [code for heading, code in blocks if heading.split(":")[0] == title]
    names = {
        "up": lambda a, b: -(-a // b),
        "r": lambda a: -(-a // 256) * 256,
        **values,
    }
    exec(code, names)
    return names


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


ALLOC = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, Device, ctypes.c_void_p
)
FREE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, Device, ctypes.c_void_p
)


class Host:
    """A context whose allocator records its blocks, and calls in that context."""

    def __init__(self, library, device, threads=0):
        self.lib = ctypes.CDLL(str(library))
        self.lib.gsc_last_error.restype = ctypes.c_char_p
        self.device = Device(device, 0)
        self.kept = []
        self.blocks = {}
        self.asked = []
        self.limit = 1 << 40
        self.alloc, self.free = ALLOC(self._alloc), FREE(self._free)
        allocator = self.descriptor(
            "gsc_allocator",
            alloc=ctypes.cast(self.alloc, ctypes.c_void_p).value,
            free=ctypes.cast(self.free, ctypes.c_void_p).value,
        )
        version = ABI.CONSTANTS["GSC_ABI_MAJOR"] << 16 | ABI.CONSTANTS["GSC_ABI_MINOR"]
        self.context = ctypes.c_void_p()
        desc = self.descriptor(
            "gsc_context_desc",
            abi_version=version,
            allocator=ctypes.addressof(allocator),
            cpu_threads=threads,
            **{"device.device_type": device},
        )
        self.check(self.lib.gsc_context_create(desc, ctypes.byref(self.context)))

    def close(self):
        assert self.blocks == {}
        self.lib.gsc_context_free(self.context)

    def _alloc(self, user, size, alignment, device, stream):
        self.asked.append(size)
        if size > self.limit:
            return None
        memory = ctypes.create_string_buffer(size + alignment)
        address = -(-ctypes.addressof(memory) // alignment) * alignment
        self.blocks[address] = memory, size
        return address

    def _free(self, user, data, size, device, stream):
        assert self.blocks.pop(data)[1] == size

    def check(self, status):
        assert status == 0, self.lib.gsc_last_error().decode()

    def descriptor(self, name, **fields):
        size, _, offsets = ABI.STRUCTS[name]
        memory = ctypes.create_string_buffer(size)
        self.kept.append((memory, fields))
        if "struct_size" in offsets:
            fields["struct_size"] = size
        ends = sorted(offsets.values()) + [size]
        for field, value in fields.items():
            at = offsets[field]
            if isinstance(value, Tensor):
                value = ctypes.addressof(value)
            if isinstance(value, float):
                ctypes.c_float.from_buffer(memory, at).value = value
            elif ends[ends.index(at) + 1] - at == 8:
                ctypes.c_uint64.from_buffer(memory, at).value = value
            else:
                ctypes.c_uint32.from_buffer(memory, at).value = value
        return memory

    def read(self, name, memory, field):
        return ctypes.c_uint64.from_buffer(memory, ABI.STRUCTS[name][2][field]).value

    def tensor(self, *shape, data=True, code=2, bits=32):
        """In host memory for any device, since the mock driver uses host memory."""
        count = math.prod(shape)
        dims = (ctypes.c_int64 * len(shape))(*shape)
        memory = ctypes.create_string_buffer(count * bits // 8 + 256) if data else None
        address = (ctypes.addressof(memory) + 255) // 256 * 256 if data else None
        tensor = Tensor(
            address, self.device, len(shape), code, bits, 1, ctypes.addressof(dims), None, 0
        )
        self.kept.append((tensor, dims, memory))
        return tensor

    def raster_args(self, N, C, width, height, channels, flags=0):
        def tensor(*shape):
            return self.tensor(*shape, data=False)

        return self.descriptor(
            "gsc_raster_args",
            flags=flags,
            width=width,
            height=height,
            view=tensor(C, 4, 4),
            intrinsics=tensor(C, 4),
            means=tensor(N, 3),
            opacities=tensor(N),
            scales=tensor(N, 3),
            rotations=tensor(N, 4),
            colors=tensor(N, channels),
        )

    def sizes(self, args, **known):
        info = self.descriptor("gsc_raster_info", **known)
        self.check(self.lib.gsc_raster_sizes(self.context, args, info))
        return lambda field: self.read("gsc_raster_info", info, field)


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def cpu(request, library, monkeypatch):
    """A context of one instruction set, and the bytes of its registers."""
    monkeypatch.setenv("GSC_CPU_ISA", request.param)
    host = Host(library, CPU, threads=3)
    size = ctypes.c_size_t(1 << 16)
    report = ctypes.create_string_buffer(size.value)
    host.check(host.lib.gsc_device_report_json(Device(CPU, 0), report, ctypes.byref(size)))
    if f'"{request.param}"' not in report.value.decode().split('"isa_built"')[0]:
        pytest.skip(f"no {request.param} here")
    yield host, {"baseline": 16, "avx2": 32, "avx512": 64}[request.param]
    host.close()


@pytest.fixture
def cuda(library, monkeypatch):
    """A context on the mock driver, which has host memory only."""
    build = Path(os.environ.get("GSPLAT_C_BUILD", ROOT / "build"))
    driver = build / "tests/gpu_host/libmock_driver.so"
    if not driver.exists():
        pytest.skip("the build has no CUDA backend")
    monkeypatch.setenv("GSC_CUDA_LIBRARY", str(driver))
    host = Host(library, CUDA)
    yield host
    host.close()


# N, C, width, height, channels, then intersections, visible and fullest tile of one camera
FRAMES = [
    (1, 1, 1, 1, 3, 1, 1, 1),
    (1000, 1, 64, 48, 3, 5000, 800, 700),
    (70_001, 2, 641, 361, 1, 1_234_567, 70_001, 5_555),
    (2_000_003, 1, 1920, 1080, 3, 3_456_789, 654_321, 60_000),
    (300_000, 3, 200, 100, 37, 4_000_000, 250_000, 249_999),
]


@pytest.mark.parametrize("frame", FRAMES)
def test_rasterizer_on_the_cpu(cpu, frame):
    host, vector = cpu
    N, C, width, height, channels, pairs, visible, fullest = frame
    page = formulas(
        "CPU", N=N, C=C, width=width, height=height, channels=channels, threads=3, vector=vector,
        pairs=pairs, fullest=fullest,
    )
    info = host.sizes(
        host.raster_args(N, C, width, height, channels),
        intersections=pairs,
        visible=visible,
        intersections_min_bytes=4 * fullest,
    )
    for name in (
        "state_bytes", "intersections_bytes", "forward_scratch_bytes", "backward_scratch_bytes"
    ):
        assert info(name) == page[name], name


@pytest.mark.parametrize("option", [None, "DETERMINISTIC", "FORWARD_ONLY"])
@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("frame", FRAMES)
def test_rasterizer_on_cuda(cuda, frame, compat, option):
    N, C, width, height, channels, pairs, visible, _ = frame
    flags = compat * ABI.CONSTANTS["GSC_RASTER_COMPAT_3DGS"]
    flags |= ABI.CONSTANTS[f"GSC_RASTER_{option}"] if option else 0
    page = formulas(
        "CUDA", N=N, C=C, width=width, height=height, channels=channels, pairs=pairs,
        visible=visible, compat=compat, deterministic=option == "DETERMINISTIC",
        forward_only=option == "FORWARD_ONLY",
    )
    info = cuda.sizes(
        cuda.raster_args(N, C, width, height, channels, flags), intersections=pairs,
        visible=visible,
    )
    for name in (
        "state_bytes", "intersections_bytes", "forward_scratch_bytes", "backward_scratch_bytes"
    ):
        assert info(name) == page[name], name


def knn_bytes(host, N, M, k):
    args = {"points": host.tensor(N, 3, data=False), "k": k}
    if M:
        args["queries"] = host.tensor(M, 3, data=False)
    args["mean2"] = host.tensor(M or N, data=False)
    size = ctypes.c_size_t()
    args = host.descriptor("gsc_knn_args", **args)
    host.check(host.lib.gsc_knn_scratch_bytes(host.context, args, ctypes.byref(size)))
    return size.value


@pytest.mark.parametrize(
    "N, M, k", [(1, 0, 1), (17, 0, 3), (100_003, 0, 3), (4000, 99_999, 49), (1_000_000, 500, 256)]
)
def test_neighbours_on_the_cpu(cpu, N, M, k):
    host, _ = cpu
    page = formulas("CPU neighbours", N=N, M=M, k=k, threads=3)
    assert knn_bytes(host, N, M, k) == page["scratch_bytes"]


def test_neighbours_a_point(cpu, cuda):
    """The rounded figures of the page."""
    million = 1_000_000
    assert 25.8 < knn_bytes(cpu[0], million, 0, 3) / million < 26.2
    assert 25 < knn_bytes(cuda, million, 0, 3) / million < 25.5
    for host in cpu[0], cuda:
        # As many queries as points, then as many again.
        some, more = (knn_bytes(host, million, n * million, 3) / million for n in (1, 2))
        none = knn_bytes(host, million, 0, 3) / million
        assert 7.9 < some - none < 8.1
        assert 23.9 < more - some < 25.5
    processors = 132  # of the mock driver's device
    assert knn_bytes(cuda, million, 0, 10) - knn_bytes(cuda, million, 0, 9) == 4096 * processors


def image_loss(host, height, width, mask=False):
    image, target = host.tensor(1, 3, height, width), host.tensor(1, 3, height, width)
    fields = {"mask": host.tensor(height, width)} if mask else {}
    args = host.descriptor(
        "gsc_image_loss_args", image=image, target=target, loss=host.tensor(1),
        grad_image=host.tensor(1, 3, height, width), l1_weight=0.8, ssim_weight=0.2, **fields,
    )
    host.asked.clear()
    host.check(host.lib.gsc_image_loss(host.context, args, None))
    return sum(host.asked)


def test_image_loss_on_the_cpu(cpu):
    host, _ = cpu
    one, four = image_loss(host, 64, 128), image_loss(host, 128, 256)
    tiles = {1: 256, 4: 512}  # 24 bytes for each of three channels, in multiples of 256
    assert four - one == tiles[4] - tiles[1]
    thread = (one - tiles[1]) / 3
    assert 90_000 < thread < 110_000
    assert 0 < image_loss(host, 128, 256, mask=True) - four < 1000


def test_image_loss_on_cuda(cuda):
    plain = image_loss(cuda, 1080, 1920)
    assert 8_500 < plain < 9_500
    assert 0 < image_loss(cuda, 1080, 1920, mask=True) - plain < 5_000


def test_an_allocator_that_refuses(cpu):
    host, _ = cpu
    wanted = image_loss(host, 64, 128)
    host.limit = wanted - 1
    with pytest.raises(AssertionError, match=f"out of memory, {wanted} bytes were wanted"):
        image_loss(host, 64, 128)
    host.limit = wanted
    assert image_loss(host, 64, 128) == wanted


def test_figures_are_those_of_performance():
    page = (ROOT / "docs/memory.md").read_text()
    table = page[page.index("## Measured") : page.index("Most of the")]
    figures = re.findall(r"(?<![\d.])(?:[\d.]+; )?[\d.]+ (?:MB|bytes)", table)
    assert len(figures) >= 6
    performance = (ROOT / "docs/performance.md").read_text()
    for figure in figures:
        assert figure in performance, figure


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_adam(device, cpu, cuda):
    host = cpu[0] if device == CPU else cuda
    group = {
        name: host.tensor(100, 3) for name in ("parameter", "gradient", "moment1", "moment2")
    }
    groups = host.descriptor("gsc_adam_group", lr=0.1, **group)
    size = ABI.STRUCTS["gsc_adam_group"][0]
    args = host.descriptor(
        "gsc_adam_args", group_count=1, groups=ctypes.addressof(groups), group_stride=size
    )
    host.asked.clear()
    host.check(host.lib.gsc_adam_step(host.context, args, None))
    assert host.asked == ([16] if device == CPU else [])
