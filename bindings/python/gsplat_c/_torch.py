"""torch tensors as DLTensor views."""

from __future__ import annotations

from operator import attrgetter

from ._arrays import CPU, CUDA, Arrays, by_columns, must_be_dense
from ._call import DLTENSOR, POINTER, device_word, dtype_word
from ._dlpack import Lender, capsule_of, exchange_functions, view_function, views_function
from ._errors import Error, argument_error
from ._fields import ARGS, MATRICES, OUTPUTS, STRIDED, TENSORS

_NO_MEMORY = (RuntimeError, TypeError, BufferError)  # what a tensor without any raises


class TorchArrays(Arrays):
    """torch.Tensor of any version, five times faster than by its __dlpack__: from 2.10 on by the
    table of C functions that its type has for DLPack, before by the methods of a tensor."""

    def __init__(self, torch):
        self.torch = torch
        codes = {
            torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16),
            torch.bfloat16: (4, 16), torch.uint8: (1, 8), torch.int8: (0, 8),
            torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64), torch.bool: (6, 8),
        }
        self._codes = {dtype: dtype_word(*code) for dtype, code in codes.items()}
        self.dtypes = {name: getattr(torch, name)
                       for name in ("float32", "float64", "int32", "int64", "uint8", "bool")}
        cpu = torch.device("cpu")
        self._devices, self._places, self._words = {cpu: (CPU, 0)}, {(CPU, 0): cpu}, {}
        self._records, self._empty, self._uint8 = torch.is_grad_enabled, torch.empty, torch.uint8
        self._requires_grad = attrgetter("requires_grad")
        self._kinds = {type(None), torch.Tensor, torch.nn.Parameter}
        self.memory_error = torch.cuda.OutOfMemoryError
        self.allocate, address = exchange_functions(torch.Tensor)
        if self.allocate is None:
            lender = Lender(self.bytes)
            self.allocate, self.take = lender.address, lender.take
        self._view = address and view_function(address)
        self._views = address and views_function(address)
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def pack(self, block, tensor, name, strided=False, writable=False):
        try:
            if tensor.requires_grad and not block.recorded and self._records():
                raise argument_error("INVALID_ARGUMENT", f"{name} requires grad: use the functions "
                                     "of gsplat_c.torch, torch.no_grad() or detach()")
            strides = None
            if tensor.is_neg() or not tensor.is_contiguous():
                tensor, strides = self._plain(block, tensor, strided, name, writable)
            if self._view is not None:
                address = block.base + block.reserve(DLTENSOR.size)
                self._view(tensor, address)
                return address
            return self._describe(block, tensor, name, strides)
        except _NO_MEMORY as error:
            if isinstance(error, Error):
                raise
            self.device(tensor, name)
            reason = str(error).partition("\n")[0]  # a trace may follow
            raise argument_error("LAYOUT", f"{name} has no plain memory: {reason}") from None

    def _describe(self, block, tensor, name, strides):
        """A view by the methods of a tensor; strides: None where it is dense."""
        dtype = self._codes.get(tensor.dtype)
        if dtype is None:
            raise argument_error("DTYPE", f"{name} has dtype {tensor.dtype}")
        device = self._words.get(tensor.device)
        if device is None:
            device = self._words[tensor.device] = device_word(self.device(tensor, name))
        return block.tensor(name, tensor.data_ptr(), device, dtype, tensor.shape, strides)

    def pack_frame(self, block, numbers, values, outputs=None):
        if self._are_plain(block, (*values, *outputs.values()) if outputs else values):
            args, count = ARGS.pack(block, *numbers, *map(id, values)), len(values)
            objects = block.base + block.top - POINTER.size * count
            if outputs:  # right behind: one call makes views of all
                OUTPUTS.pack_named(block, {name: id(value) for name, value in outputs.items()})
                count += OUTPUTS.size // POINTER.size
            strided = self._view_all(block, objects, count, MATRICES)
            if strided and strided >> len(values):
                strided = None  # an output is not dense
            while strided:
                place = strided.bit_length() - 1
                value = values[place]
                # What is still to be negated is part of a complex tensor, and so among these.
                if value.is_neg() or STRIDED[place] != "any":
                    value = value.detach()
                    block.keep.append(value)  # whose shape the view borrows
                    POINTER.pack_into(block.memory, objects - block.base + POINTER.size * place,
                                      self.pack(block, value, TENSORS[place]))
                strided -= 1 << place
            if strided is not None:
                return args, args + ARGS.size
        return super().pack_frame(block, numbers, values, outputs)

    def pack_named(self, block, descriptor, outputs, upstream=()):
        named = {**outputs, **upstream} if upstream else outputs
        if len(named) > 2 and self._are_plain(block, named.values()):  # few are faster singly
            fields = descriptor.pack_named(block, {
                name: id(value) for name, value in named.items()})
            if self._view_all(block, fields, descriptor.size // POINTER.size) == 0:
                return fields
        return super().pack_named(block, descriptor, outputs, upstream)

    def _are_plain(self, block, values):
        """Whether torch's table may make views of all that is given."""
        if self._views is None or not {*map(type, values)} <= self._kinds:
            return False
        return block.recorded or not self._records() or True not in map(
            self._requires_grad, [value for value in values if value is not None])

    def _view_all(self, block, objects, count, transposed=0):
        """Makes the addresses of objects, at an address, those of their views by torch's table.

        Returns a bit for each that is not dense; None where one has no view.
        """
        views = block.base + block.reserve(count * DLTENSOR.size + POINTER.size)
        strided = views + count * DLTENSOR.size
        try:
            if self._views(count, transposed, objects, views, strided):
                return None
        except _NO_MEMORY:
            return None
        return POINTER.unpack_from(block.memory, strided - block.base)[0]

    @staticmethod
    def _plain(block, tensor, strided, name, writable):
        """(a tensor without the negative bit, its strides or None), a copy if need be."""
        if writable and (tensor.is_neg() or not strided):
            raise must_be_dense(name)
        tensor = tensor.resolve_neg() if strided else tensor.contiguous().resolve_neg()
        block.keep.append(tensor)
        return tensor, None if tensor.is_contiguous() else tensor.stride()

    def is_transposed(self, tensor):
        return not tensor.is_contiguous() and by_columns(tensor.shape, tensor.stride())

    def empty(self, shape, dtype, device):
        if len(shape) == 0:
            return self._empty((), dtype=self.dtypes[dtype], device=self._place(device))
        return self._empty(*shape, dtype=self.dtypes[dtype], device=self._place(device))  # faster

    def bytes(self, size, device):
        place = self._place(device)
        if device[0] == CUDA:  # whose allocator aligns to 512
            memory = self._empty(size, dtype=self._uint8, device=place)
            address = memory.data_ptr()
            if not address % 256:
                return memory, address
        memory = self._empty(size + 255, dtype=self._uint8, device=place)
        address = memory.data_ptr()
        start = -address % 256
        return memory.narrow(0, start, size), address + start  # in less time than a slice

    def _place(self, device):
        """The torch.device of a DLDevice."""
        found = self._places.get(device)
        if found is None:
            found = self._places[device] = self.torch.device("cuda", device[1])
        return found

    def take(self, tensor):
        return self.torch.from_dlpack(capsule_of(tensor))

    def address(self, tensor):
        return tensor.data_ptr()

    def copy_into(self, target, source):
        target.copy_(source)

    def device(self, tensor, name="a tensor"):
        device = tensor.device
        found = self._devices.get(device)
        if found is None:
            if device.type != "cuda":
                raise argument_error("DEVICE", f"{name} is on {device}, expected cpu or cuda")
            found = self._devices[device] = (CUDA, device.index or 0)
        return found

    def is_double(self, tensor):
        return tensor.dtype is self.torch.float64

    def stream(self, device):
        if device[0] != CUDA:
            return 0
        if self._raw_stream is not None:
            return self._raw_stream(device[1])
        return self.torch.cuda.current_stream(device[1]).cuda_stream
