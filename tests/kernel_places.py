"""Places for kernels of tests: the CPU, the example plug-in, and the GPU that the CPU plays.

A kernel is written once, on arrays, and ``opened`` shows it the memory of the place.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import phix_npu

import phix
from emulated_gpu import GpuArray, emulated
from phix.core.places import CPU, default

NAMES = ("cpu", "npu", "gpu")


def array_of(value: Any) -> Any:
    """The memory of storage as an array; whatever else kernels get, as it is."""
    if isinstance(value, tuple):
        return tuple(map(array_of, value))
    if isinstance(value, GpuArray):
        return value.array
    return phix_npu.CARD.open(value) if type(value).__name__ == "Handle" else value


@dataclass(frozen=True)
class Where:
    """A place, and the backend whose kernels its engine takes first."""

    name: str

    @property
    def backend(self) -> str:
        return self.name.upper()

    def tensor(self, value: Any) -> Any:
        return phix.to_tensor(value, place=self.name)

    def opened(self, function: Callable[..., Any]) -> Callable[..., None]:
        """The kernel that ``function`` is of arrays."""

        def kernel(ctx: Any, *args: Any) -> None:
            with np.errstate(all="ignore"):
                function(ctx, *map(array_of, args))

        return kernel

    def register(self, op: str, dtypes: Any = "all", **how: Any) -> Callable[..., Any]:
        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            register = phix.kernels.register_kernel(op, self.backend, dtypes=dtypes, **how)
            register(self.opened(function))
            return function

        return decorator


@contextmanager
def there(name: str) -> Iterator[Where]:
    """The place of that name, while the block runs."""
    with phix.scoped_registries():
        if name == "npu":
            phix_npu.ensure_registered()
        is_elsewhere = default() != CPU  # the run is: new tensors go along with the test
        with (
            emulated() if name == "gpu" else nullcontext(),
            phix.device(name) if is_elsewhere else nullcontext(),
        ):
            yield Where(name)
        gc.collect()
