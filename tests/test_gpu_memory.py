"""The memory of GPUs as the engine asks for it, on objects that have the form of CuPy's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phix.core.errors import DeviceError
from phix.kernels.gpu import device


def test_an_array_is_alone_if_nothing_else_refers_to_its_memory(monkeypatch: Any) -> None:
    """The rule for CuPy's arrays, which refer to blocks of memory, on objects of that form."""

    def array(memory: Any) -> Any:
        return SimpleNamespace(data=SimpleNamespace(mem=memory))

    class Memory:
        pass

    fake = SimpleNamespace(empty=lambda size: array(Memory()))
    monkeypatch.setattr(device, "cupy", lambda: fake)
    device._references_of_memory.cache_clear()
    try:
        one = array(Memory())
        assert device.DEVICE.is_alone(one)
        view = array(one.data.mem)
        assert not device.DEVICE.is_alone(one) and not device.DEVICE.is_alone(view)
        del view
        assert device.DEVICE.is_alone(one)
    finally:
        device._references_of_memory.cache_clear()


class Pool:
    """An allocator with room for some bytes once its pool is emptied."""

    def __init__(self, room: int) -> None:
        self.room, self.log = room, []

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype, index: int) -> Any:
        size = int(np.prod(shape)) * dtype.itemsize
        self.log.append(f"allocate {size} on {index}")
        if "empty" not in self.log or size > self.room:
            raise MemoryError("cudaErrorMemoryAllocation")
        return np.empty(shape, dtype)

    def empty_pool(self) -> None:
        self.log.append("empty")


@pytest.fixture
def runtime(monkeypatch: Any) -> Any:
    made = device.CupyRuntime.__new__(device.CupyRuntime)  # no card is there to be asked
    made.index = 1
    monkeypatch.setattr(device, "DEVICE", Pool(1 << 20))
    return made


def test_where_memory_runs_out_the_pool_is_emptied_and_it_is_tried_again(runtime: Any) -> None:
    assert runtime.empty((256, 256), np.dtype(np.float32)).shape == (256, 256)
    assert device.DEVICE.log == ["allocate 262144 on 1", "empty", "allocate 262144 on 1"]


def test_out_of_memory_says_what_was_asked_and_what_to_do(runtime: Any) -> None:
    with pytest.raises(DeviceError) as info:
        runtime.empty((1024, 1024), np.dtype(np.float64))
    message = str(info.value)
    assert message.startswith(
        "out of memory on gpu:1: asked for 8388608 bytes, also after the pool"
    )
    assert "cudaErrorMemoryAllocation" in message and "phix.checkpoint" in message
    assert device.DEVICE.log.count("empty") == 1
