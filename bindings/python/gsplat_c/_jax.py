"""jax arrays as DLTensor views.

jax arrays are immutable, so the library writes into memory of another framework, numpy on
the CPU, cupy or torch on a GPU, and jax takes that over without a copy where it can.
"""

from __future__ import annotations

from functools import cached_property

from ._arrays import CPU, CUDA, DlpackArrays, numpy_arrays, torch_arrays
from ._errors import argument_error


class JaxArrays(DlpackArrays):
    """jax.Array with data; not the tracers of jax.jit and jax.grad."""

    def __init__(self, jax, value, name):
        if isinstance(value, jax.core.Tracer):
            raise argument_error("INVALID_ARGUMENT", f"{name} is traced by jax, as in jax.jit and "
                                 "jax.grad: use the functions of gsplat_c.jax")
        self.jax = jax

    def pack(self, block, value, name, strided=False, writable=False):
        if writable:
            raise argument_error("INVALID_ARGUMENT", f"{name} is a jax array: those are read-only "
                                 "and cannot be an output")
        if len(value.devices()) > 1:
            raise argument_error("DEVICE", f"{name} is spread over {len(value.devices())} devices")
        value.block_until_ready()  # on the CPU nothing else makes the producer's work wait
        return super().pack(block, value, name, strided)

    def _memory(self, device):
        return numpy_arrays() if device[0] == CPU else self._lender

    @property
    def allocate(self):
        return self._lender.allocate

    def take(self, tensor):
        return self._lender.take(tensor)

    @cached_property
    def _lender(self):
        """The adapter of the framework that lends memory on a GPU."""
        for name in ("cupy", "torch"):
            try:
                module = __import__(name)
            except ImportError:
                continue
            if name == "torch":
                return torch_arrays()
            from ._cupy import CupyArrays

            return CupyArrays(module)
        raise argument_error("DEVICE", "results of jax arrays on a GPU need memory from cupy or "
                                       "torch, and neither is installed")

    def convert(self, value, like):
        """A jax array of what empty() gave; jax's stream waits for the lender's."""
        if self.device(like)[0] == CPU:
            return self.jax.device_put(value, next(iter(like.devices())))
        return self.jax.dlpack.from_dlpack(value)

    def is_double(self, value):
        return value.dtype == "float64"

    def stream(self, device):
        return self._lender.stream(device) if device[0] == CUDA else 0
