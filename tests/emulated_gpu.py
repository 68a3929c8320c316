"""The place ``gpu`` played by the CPU, so that tensors, eager calls and jit can be tested on it.

Storage is of a class of its own, which NumPy cannot read: host code that reaches for the memory of
a GPU fails here as it would there. Kernels run in the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from cuda_emulator import STREAM, Emulator
from phix.core import kernel_registry, kernel_selection, places
from phix.core.arrays import read_only
from phix.interpreters.eager import EAGER
from phix.kernels.gpu import cudnn, cudnn_attention, device


class GpuArray:
    """Memory of the emulated GPU: what CuPy's arrays have, and the engine asks for."""

    __array__ = None  # np.asarray of it is a mistake

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=int(self.array.ctypes.data))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.array.strides

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def reshape(self, *shape: Any) -> GpuArray:
        return GpuArray(self.array.reshape(*shape))

    def transpose(self, *axes: Any) -> GpuArray:
        return GpuArray(self.array.transpose(*axes))

    def squeeze(self, axis: Any) -> GpuArray:
        return GpuArray(self.array.squeeze(axis))

    def __getitem__(self, index: Any) -> GpuArray:
        return GpuArray(self.array[index])

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise AssertionError("the device takes its own arrays as they are")


class EmulatedDevice(places.Device):
    storage = GpuArray
    dlpack_type = 2

    def from_dlpack(self, array: GpuArray, copy: bool) -> GpuArray:
        make = np.array if copy else np.asarray
        return GpuArray(make(array.array, order="C"))

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> GpuArray:
        return GpuArray(np.empty(shape, dtype))

    def from_host(self, array: np.ndarray, index: int) -> GpuArray:
        return GpuArray(np.array(array, order="C"))

    def to_host(self, storage: GpuArray) -> np.ndarray:
        return storage.array.copy()

    def copy(self, target: GpuArray, source: GpuArray) -> None:
        target.array[...] = source.array

    def stream(self, index: int) -> Any:
        return STREAM

    def read_only(self, storage: GpuArray) -> GpuArray:
        return GpuArray(read_only(storage.array))

    def is_contiguous(self, storage: GpuArray) -> bool:
        return bool(storage.array.flags.c_contiguous)

    def is_alone(self, storage: GpuArray) -> bool:
        array = storage.array
        return array.base is None and sys.getrefcount(array) == _ALONE


def _references(storage: GpuArray) -> int:
    array = storage.array
    return sys.getrefcount(array)


_ALONE = _references(GpuArray(np.empty(1)))


class EmulatedRuntime(Emulator):
    """The emulator, on arrays of the emulated GPU."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return GpuArray(super().empty(shape, dtype))

    def view(self, block: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return GpuArray(super().view(block.array, offset, shape, dtype))

    def upload(self, value: Any) -> Any:
        if isinstance(value, GpuArray):
            return GpuArray(np.ascontiguousarray(value.array).reshape(value.shape))
        return GpuArray(super().upload(value))

    def download(self, array: Any) -> np.ndarray:
        return super().download(array.array)

    def copy(self, target: Any, source: Any) -> None:
        target.array[...] = source if isinstance(source, np.ndarray) else source.array

    def address(self, array: Any) -> int:
        return super().address(array.array)

    def recorded(self, run: Callable[[], None]) -> Callable[[], None] | None:
        return None  # the function would hold the arrays, where a recording has addresses alone

    def host_step(self, name: str, attrs: Mapping[str, Any]) -> Callable[..., Any] | None:
        step = super().host_step(name, attrs)
        return None if step is None else lambda *arrays: step(*(a.array for a in arrays))


@contextmanager
def emulated() -> Iterator[EmulatedRuntime]:
    """Inside the with block there is a place ``gpu``, without what libraries have for it."""
    libraries = (cudnn, cudnn_attention)
    kernels_of = [
        [n for n in library.KERNELS if kernel_selection.keys(n, ["GPUDNN"])]
        for library in libraries
    ]
    for name in [n for names in kernels_of for n in names]:
        kernel_registry.unregister_kernel(name, "GPUDNN")
    runtime, before = EmulatedRuntime(), device.runtime
    module, real = places._MODULES["gpu"], places._DEVICES.get("gpu")
    try:
        places.unregister_device("gpu")
        device.runtime = lambda index=0: runtime  # type: ignore[assignment, misc]
        places.register_device("gpu", EmulatedDevice())
        yield runtime
    finally:
        places.unregister_device("gpu")
        places._MODULES["gpu"] = module
        if real is not None:  # somebody has asked for a GPU before
            places._add("gpu", real)
        device.runtime = before
        for library, names in zip(libraries, kernels_of):
            if names:
                library.register()
        for plans in (EAGER.plans, EAGER.mixed, EAGER.programs):
            plans.clear()
