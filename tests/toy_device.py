"""A device with as many kernels as a test wants it to have, that counts what runs and is copied."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from phix_npu import kernels as npu

import phix
from phix.core.kernel_registry import common_dtypes
from phix.core.rules import OPS
from phix.kernels import Device

# the primitives of the example device
FUNCTIONS = {name: f for name, f in npu.FUNCTIONS.items() if OPS[name].is_primitive}


class Storage:
    """Memory that NumPy code does not take for its own."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype


class Toy(Device):
    """Counts copies by direction, ``in`` and ``out``, and calls by op."""

    def __init__(self) -> None:
        self.storage = type("Storage", (Storage,), {})
        self.counts: Counter[str] = Counter()

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
        return self.storage(np.empty(shape, dtype))

    def from_host(self, array: np.ndarray, index: int) -> Any:
        self.counts["in"] += 1
        return self.storage(array.copy())

    def to_host(self, storage: Any) -> np.ndarray:
        self.counts["out"] += 1
        return storage.array.copy()

    def counted(self, function: Callable[[], Any]) -> Counter[str]:
        """What is copied and called while ``function`` runs."""
        self.counts.clear()
        function()
        return Counter(self.counts)

    def kernel(self, name: str) -> Callable[..., None]:
        """The kernel of an op: the example device's, on this memory."""
        function, outputs = npu.FUNCTIONS[name], npu.OUTPUTS.get(name, 1)

        def opened(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(opened, value))
            return value.array if isinstance(value, Storage) else value

        def run(ctx: Any, *args: Any) -> None:
            self.counts[name] += 1
            with np.errstate(all="ignore"):
                found = function(*map(opened, args[:-outputs]))
            for out, array in zip(args[-outputs:], found if outputs > 1 else (found,)):
                np.copyto(out.array, array, casting="unsafe")

        return run


@contextmanager
def toy(
    name: str,
    ops: Any = tuple(FUNCTIONS),
    dtypes: Any = "all",
    layouts: Mapping[str, str] = {},
) -> Iterator[Toy]:
    """A device of that name with kernels of these ops, some for one layout alone."""
    device = Toy()
    gc.collect()  # tensors of an earlier one are gone
    with phix.scoped_registries():
        phix.register_backend(name, device)
        for op in ops:
            own = common_dtypes(op, dtypes)
            register = phix.kernels.register_kernel(op, name.upper(), layouts.get(op, "any"), own)
            register(device.kernel(op))
        yield device
