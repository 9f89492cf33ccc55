"""The rasterizer's forward call and the memory that it leaves for backward."""

from __future__ import annotations

import struct

from ._arrays import allocate
from ._call import Descriptor, device_word
from ._errors import integer
from ._lib import check, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BUFFERS = Descriptor("gsc_raster_buffers")
INFO = Descriptor("gsc_raster_info")

_TWO_POINTERS = struct.Struct("=2Q")


class SavedRaster:
    """What backward needs of a forward call, besides the same inputs.

    Attributes:
        state: uint8 [bytes] in the framework of the means (jax: in the one that lent memory).
        lists: the same of the tile lists; None where they follow the state in its array.
        info: the fields of gsc_raster_info, plain integers.

    The arrays hold no pointers: they may be copied, moved and stored.
    """

    __slots__ = ("state", "lists", "info")

    def __init__(self, state: Any, lists: Any, info: tuple[int, ...]):
        self.state = state
        self.lists = lists
        self.info = info

    @property
    def intersections(self) -> Any:
        """uint8 [bytes], lists of the Gaussians that reach each tile."""
        if self.lists is not None:
            return self.lists
        return self.state[align(self.field("state_bytes")):]

    @property
    def pairs(self) -> int:
        """How many intersections of a tile and a Gaussian there are."""
        return self.field("intersections")

    def field(self, name: str) -> int:
        """A field of gsc_raster_info."""
        return self.info[INFO.fields.index(name) - 1]


def align(size: int) -> int:
    """Where the next buffer may begin."""
    return size + -size % 256


def forward(block, args, results, saves, limit=None):
    """Rasterizes; the SavedRaster if it saves, else None.

    limit: bytes of the lists, None for the whole frame's.
    """
    if not saves:
        check(lib.gsc_rasterize(block.context, args, results, 0, block.stream))
        return None
    if not block.lends or limit is not None:
        return _forward_in_steps(block, args, results, limit)
    place = block.reserve(_TWO_POINTERS.size)
    check(lib.gsc_rasterize(block.context, args, results, block.base + place, block.stream))
    return _take_saved(block, place)


def _take_saved(block, place):
    """The SavedRaster of the gsc_raster_saved whose address is at a place in the block."""
    saved, _ = _TWO_POINTERS.unpack_from(block.memory, place)
    info = INFO.default(block)
    check(lib.gsc_raster_saved_take(saved, block.base + place, info))
    state, lists = _TWO_POINTERS.unpack_from(block.memory, place)
    take = block.arrays.take
    return SavedRaster(take(state), take(lists) if lists else None, INFO.unpack(block, info))


def project(block, args, results):
    """Step one: fills the outputs of Gaussians.  (state, its view, info)"""
    info = INFO.default(block)
    check(lib.gsc_raster_sizes(block.context, args, info))
    state, state_view = _allocate(block, "state", INFO.read(block, info, "state_bytes"))
    buffers = BUFFERS.pack(block, state_view, 0, 0)
    check(lib.gsc_raster_project(block.context, args, buffers, results, info, block.stream))
    return state, state_view, info


def _forward_in_steps(block, args, results, limit):
    """The same in memory that is allocated here.

    The library cannot ask the framework for it on the CPU, whose one context all frameworks
    share, nor on a stream of the caller's; and it does not bound the lists.
    """
    state, state_view, info = project(block, args, results)
    size = INFO.read(block, info, "intersections_bytes")
    if limit is not None:
        limit = integer(limit, "max_intersections_bytes")
        size = max(min(size, limit), INFO.read(block, info, "intersections_min_bytes"))
    lists, lists_view = _allocate(block, "intersections", size)
    buffers = BUFFERS.pack(block, state_view, lists_view, 0)
    check(lib.gsc_raster_blend(block.context, args, buffers, results, info, 0, block.stream))
    return SavedRaster(state, lists, INFO.unpack(block, info))


def _allocate(block, name, size):
    """(uint8 array, its view)"""
    memory, address = allocate(f"{name} of {{}} bytes", block.arrays.bytes, size, block.device)
    return memory, block.bytes(address, device_word(block.device), size)
