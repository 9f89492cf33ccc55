"""Drawing what is packed: the library's steps, and their memory in the caller's framework."""

from __future__ import annotations

import struct

from ._abi import CONSTANTS
from ._arrays import CPU
from ._call import Descriptor, device_word
from ._lib import check, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BUFFERS = Descriptor("gsc_raster_buffers")
INFO = Descriptor("gsc_raster_info")

_forward, _forecast, _draw = lib.gsc_rasterize, lib.gsc_raster_forecast, lib.gsc_raster_project_blend
_project, _render = lib.gsc_raster_project, lib.gsc_raster_blend
_take, _TWO_POINTERS = lib.gsc_raster_saved_take, struct.Struct("=2Q")

_STATISTICS = frozenset(("touched", "weight_sum", "weight_count", "weight_blend",
                         "weight_distance"))
_TOO_SMALL = CONSTANTS["GSC_ERROR_BUFFER_TOO_SMALL"]
_OUT_OF_MEMORY = CONSTANTS["GSC_ERROR_OUT_OF_MEMORY"]
# Where Descriptor.unpack() has a field.
(_STATE_BYTES, _LISTS_BYTES, _LISTS_MIN_BYTES, _SCRATCH_BYTES, BACKWARD_SCRATCH_BYTES, _PAIRS,
 _VISIBLE) = (
    INFO.fields.index(name) - 1 for name in (
        "state_bytes", "intersections_bytes", "intersections_min_bytes", "forward_scratch_bytes",
        "backward_scratch_bytes", "intersections", "visible"))


class SavedRaster:
    """What backward needs of a forward call, besides the same inputs.

    Attributes:
        state: uint8 [bytes] in the framework of the means (jax: in the one that lent memory).
        intersections: uint8 [bytes], lists of the Gaussians that each tile draws; or None where
            they stand behind the state in the same array, from lists_begin on.
        info: the fields of gsc_raster_info, plain integers.

    The arrays hold no pointers: they may be copied, moved and stored.
    """

    __slots__ = ("state", "intersections", "info")

    def __init__(self, state: Any, intersections: Any, info: tuple[int, ...]):
        self.state = state
        self.intersections = intersections
        self.info = info

    @property
    def pairs(self) -> int:
        """How many pairs of a tile and a Gaussian that reaches it there are."""
        return self.info[_PAIRS]

    @property
    def lists_begin(self) -> int:
        """Where in the array of the state lists begin that are there."""
        return _next_buffer(self.info[_STATE_BYTES])


def _next_buffer(end):
    return end + -end % 256


def draw_once(block, handle, args, results, values, like, device, stream):
    """Draws what will have no backward.

    values: the results by name.  stream: the caller's, None for the framework's.
    """
    if device[0] == CPU or stream is not None:
        check(_forward(handle, args, results, 0, block.stream))
    elif not _forward_at_once(block, handle, args, results, 0):
        memory = Memory(block, like, device, True, _image_bytes(values), joined=3)
        _steps(block, handle, args, results, memory, None)


def draw_saved(block, handle, args, results, values, like, device, stream, limit=None,
               joined=False):
    """Draws; the SavedRaster.

    limit: of the bytes of the lists, None for the whole frame's.  joined: state and lists may be
    one array, which spares the time of an allocation before the device has work.
    """
    if joined and device[0] != CPU:
        place = block.reserve(_TWO_POINTERS.size)
        if _forward_at_once(block, handle, args, results, block.base + place):
            return _take_saved(block, place)
    image = 0 if device[0] == CPU else _image_bytes(values)
    memory = Memory(block, like, device, stream is None, image, 2 if joined else 0)
    state, lists, info = _steps(block, handle, args, results, memory, limit)
    return SavedRaster(state, None if lists is state else lists, INFO.unpack(block, info))


def _forward_at_once(block, handle, args, results, saved):
    """Draws in memory that the library asks the framework for; whether it did.

    saved: where to leave a gsc_raster_saved, 0 if none is wanted.  When there is no memory the
    framework is to say so, and what it has.
    """
    if block.arrays.allocate is None:
        return False
    status = _forward(handle, args, results, saved, block.stream)
    if status == _OUT_OF_MEMORY:
        return False
    check(status)
    return True


def _take_saved(block, place):
    """The SavedRaster of the gsc_raster_saved at a place in the block."""
    saved, _ = _TWO_POINTERS.unpack_from(block.memory, place)
    info = INFO.default(block)
    check(_take(saved, block.base + place, info))
    state, lists = _TWO_POINTERS.unpack_from(block.memory, place)
    take = block.arrays.take
    return SavedRaster(take(state), take(lists) if lists else None, INFO.unpack(block, info))


def _image_bytes(values):
    """Of the image whose memory scratch may take, see gsc_raster_buffers; 0 if it may not."""
    shape = values["color"].shape
    if len(shape) < 3 or not _STATISTICS.isdisjoint(values):
        return 0
    return 4 * shape[-1] * shape[-2] * shape[-3]


def _steps(block, handle, args, results, memory, limit):
    """Both steps in the framework's memory: (state, intersections, address of a gsc_raster_info).

    Where the frames before tell how large this one may be, nothing waits between the steps."""
    info, stream = INFO.default(block), block.stream
    check(_forecast(handle, args, info))
    plan = INFO.unpack(block, info)
    state_bytes, scratch_bytes = plan[_STATE_BYTES], plan[_SCRATCH_BYTES]
    if plan[_VISIBLE] and limit is None:
        state, state_view, lists, lists_view, scratch, scratch_view = memory.frame(
            state_bytes, plan[_LISTS_BYTES], scratch_bytes)
        status = _draw(handle, args, BUFFERS.pack(block, state_view, lists_view, scratch_view),
                       results, info, stream)
        if status != _TOO_SMALL:
            check(status)
            return state, lists, info
        del lists  # so that what follows can have it, unless it is the state's array too
    else:
        state, state_view = memory.get(state_bytes)
        scratch, scratch_view = memory.scratch(scratch_bytes)
        check(_project(
            handle, args, BUFFERS.pack(block, state_view, 0, scratch_view), results, info, stream))
    plan = INFO.unpack(block, info)
    needed = plan[_SCRATCH_BYTES]
    if needed > scratch_bytes:
        del scratch
    lists, lists_view = memory.get(_list_bytes(plan, limit))
    if needed > scratch_bytes:
        scratch, scratch_view = memory.scratch(needed)
    check(_render(
        handle, args, BUFFERS.pack(block, state_view, lists_view, scratch_view), results, info, 0,
        stream))
    return state, lists, info


def _list_bytes(plan, limit):
    whole = plan[_LISTS_BYTES]
    return whole if limit is None else max(min(whole, limit), plan[_LISTS_MIN_BYTES])


class Memory:
    """Buffers of one call in the framework's memory, beside the means."""

    __slots__ = ("_block", "_like", "_device", "_lends_scratch", "_image", "_joined")

    def __init__(self, block, like, device, lends_scratch, image=0, joined=0):
        """image: bytes of an image whose memory the library takes for scratch that it is not
        given and that fits there.  joined: how many of frame()'s arrays may be one."""
        self._block, self._like, self._device = block, like, device_word(device)
        self._lends_scratch = lends_scratch and device[0] != CPU
        self._image, self._joined = image, joined

    def get(self, *sizes):
        """[uint8 array, its view] for each size, one after the other."""
        block = self._block
        return block.arrays.buffers(block, self._like, self._device, sizes)

    def frame(self, state, lists, scratch):
        """The same for three sizes, the last of scratch memory; see SavedRaster where joined."""
        if not self._joined:
            return (*self.get(state, lists), *self.scratch(scratch))
        block, device = self._block, self._device
        at_lists = _next_buffer(state)
        end = at_scratch = at_lists + lists
        lent = self._joined > 2 and self._has_scratch(scratch)
        if lent:
            at_scratch = _next_buffer(end)
            end = at_scratch + scratch
        memory, address = block.arrays.bytes(end, self._like)
        return (memory, block.bytes(address, device, state),
                memory, block.bytes(address + at_lists, device, lists),
                *((memory, block.bytes(address + at_scratch, device, scratch)) if lent
                  else self.scratch(scratch)))

    def scratch(self, size):
        """The same for scratch memory; it may be freed while the device still uses it, since the
        framework goes by streams."""
        return self.get(size) if self._has_scratch(size) else (None, 0)

    def _has_scratch(self, size):
        """Not where the library has its own: on the CPU, on a stream that is not the framework's
        current one, and where the image has room for it."""
        return self._lends_scratch and 0 < size and size + 256 > self._image
