"""jax arrays as DLTensor views.

jax arrays are immutable, so the library writes into memory of another framework, numpy on
the CPU, cupy or torch on a GPU, and jax takes that over without a copy where it can.
"""

from __future__ import annotations

from ._arrays import CPU, CUDA, DlpackArrays, numpy_arrays, torch_arrays
from ._errors import argument_error


class JaxArrays(DlpackArrays):
    """jax.Array with data; not the tracers of jax.jit and jax.grad."""

    _only: JaxArrays | None = None

    def __init__(self, jax):
        self.jax = jax
        self._lender = None

    @classmethod
    def of(cls, jax, value, name):
        """The one adapter, if value has data."""
        if isinstance(value, jax.core.Tracer):
            raise argument_error("INVALID_ARGUMENT", f"{name} is traced by jax, as in jax.jit and "
                                 "jax.grad: use the functions of gsplat_c.jax")
        if cls._only is None:
            cls._only = cls(jax)
        return cls._only

    def pack(self, block, value, name, strided=False, writable=False):
        if writable:
            raise argument_error("INVALID_ARGUMENT", f"{name} is a jax array: those are read-only "
                                 "and cannot be an output")
        if len(value.devices()) > 1:
            raise argument_error("DEVICE", f"{name} is spread over {len(value.devices())} devices")
        value.block_until_ready()  # on the CPU nothing else makes the producer's work wait
        return super().pack(block, value, name, strided)

    def _memory(self, like):
        """(the adapter that lends memory on like's device, an example array of it)."""
        device = self.device(like)
        if device[0] == CPU:
            return numpy_arrays(), None
        if self._lender is None:
            self._lender = self._find_lender()
        kind, module = self._lender
        if kind == "cupy":
            from ._cupy import CupyArrays

            with module.cuda.Device(device[1]):
                return CupyArrays(module), module.empty(0, "uint8")
        return torch_arrays(), module.empty(0, device=f"cuda:{device[1]}")

    @staticmethod
    def _find_lender():
        for name in ("cupy", "torch"):
            try:
                return name, __import__(name)
            except ImportError:
                pass
        raise argument_error("DEVICE", "results of jax arrays on a GPU need memory from cupy or "
                                       "torch, and neither is installed")

    def empty(self, shape, dtype, like):
        arrays, example = self._memory(like)
        return arrays.empty(shape, dtype, example)

    def bytes(self, size, like):
        arrays, example = self._memory(like)
        return arrays.bytes(size, example)

    def convert(self, value, like):
        """A jax array of what empty() gave; jax's stream waits for the lender's."""
        if self.device(like)[0] == CPU:
            return self.jax.device_put(value, next(iter(like.devices())))
        return self.jax.dlpack.from_dlpack(value)

    def is_double(self, value):
        return value.dtype == "float64"

    def stream(self, device):
        if device[0] != CUDA:
            return 0
        if self._lender is None:
            self._lender = self._find_lender()
        kind, module = self._lender
        if kind == "cupy":
            with module.cuda.Device(device[1]):
                return module.cuda.get_current_stream().ptr
        return torch_arrays().stream(device)
