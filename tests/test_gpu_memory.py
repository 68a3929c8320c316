"""The memory of GPUs as the engine asks for it, on objects that have the form of CuPy's."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import phix
from phix.core import places
from phix.core.errors import DeviceError, OutOfMemoryError
from phix.kernels.gpu import device


def test_an_array_is_alone_if_nothing_else_refers_to_its_memory(monkeypatch: Any) -> None:
    """The rule for CuPy's arrays, which refer to blocks of memory, on objects of that form."""

    def array(memory: Any) -> Any:
        return SimpleNamespace(data=SimpleNamespace(mem=memory))

    class Memory:
        pass

    fake = SimpleNamespace(empty=lambda size: array(Memory()))
    monkeypatch.setattr(device, "cupy", lambda: fake)
    device._references_of_one.cache_clear()
    try:
        one = array(Memory())
        assert device.DEVICE.is_alone(one)
        view = array(one.data.mem)
        assert not device.DEVICE.is_alone(one) and not device.DEVICE.is_alone(view)
        del view
        assert device.DEVICE.is_alone(one)
        reshaped = SimpleNamespace(data=one.data)
        assert not device.DEVICE.is_alone(one) and not device.DEVICE.is_alone(reshaped)
    finally:
        device._references_of_one.cache_clear()


class Pool(places.Device):
    """An allocator with room for some bytes once its pool is emptied."""

    storage = type("Block", (), {})

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
def pool(monkeypatch: Any) -> Pool:
    made = Pool(1 << 20)
    monkeypatch.setitem(places._DEVICES, "gpu", made)
    return made


@pytest.fixture
def runtime(pool: Pool) -> Any:
    made = device.CupyRuntime.__new__(device.CupyRuntime)  # no card is there to be asked
    made.index = 1
    return made


def test_where_memory_runs_out_the_pool_is_emptied_and_it_is_tried_again(
    runtime: Any, pool: Pool
) -> None:
    assert runtime.empty((256, 256), np.dtype(np.float32)).shape == (256, 256)
    assert pool.log == ["allocate 262144 on 1", "empty", "allocate 262144 on 1"]


def test_out_of_memory_says_what_was_asked_and_what_to_do(runtime: Any, pool: Pool) -> None:
    with pytest.raises(OutOfMemoryError) as info:
        runtime.empty((1024, 1024), np.dtype(np.float64))
    message = str(info.value)
    assert message.startswith(
        "out of memory on gpu:1: asked for 8388608 bytes (float64[1024, 1024]), also after the pool"
    )
    assert "cudaErrorMemoryAllocation" in message and "phix.checkpoint" in message
    assert isinstance(info.value, DeviceError) and isinstance(info.value, MemoryError)
    assert pool.log.count("empty") == 1


def test_the_pools_of_all_gpus_are_emptied(monkeypatch: Any) -> None:
    """CuPy's pool is that of the current device, which need not be the one that is full."""
    current, emptied = [0], []

    @contextmanager
    def on(index: int) -> Any:
        before, current[0] = current[0], index
        yield
        current[0] = before

    pool = SimpleNamespace(free_all_blocks=lambda: emptied.append(current[0]))
    runtime = SimpleNamespace(getDeviceCount=lambda: 3)
    fake = SimpleNamespace(
        cuda=SimpleNamespace(Device=on, runtime=runtime), get_default_memory_pool=lambda: pool
    )
    monkeypatch.setattr(device, "cupy", lambda: fake)
    device.DEVICE.empty_pool()
    assert emptied == [0, 1, 2] and current == [0]


class Absent(Pool):
    """A device whose driver is not there, until it is."""

    present = 0

    def count(self) -> int:
        return self.present

    def problem(self) -> str:
        return "no driver"


def test_a_place_that_is_not_there_leaves_other_calls_as_they_were(monkeypatch: Any) -> None:
    found, foreign, heard = dict(places._found), dict(places._FOREIGN), []
    monkeypatch.setattr(places, "_found", found)
    monkeypatch.setattr(places, "_FOREIGN", foreign)
    monkeypatch.setattr(places, "LISTENERS", [lambda: heard.append(True)])
    device = Absent(0)
    monkeypatch.setattr(places, "_DEVICES", dict(places._DEVICES))
    before = places.is_host_alone()
    places.register_device("absent", device)
    for _ in range(2):
        with pytest.raises(DeviceError, match="no place 'absent': no driver; there is cpu"):
            phix.zeros([1]).to("absent")
    assert places.is_host_alone() == before and not heard
    Absent.present = 1
    assert str(places.as_place("absent")) == "absent:0"
    assert not places.is_host_alone() and heard == [True]


def test_the_gpu_that_is_not_there_is_none_in_use() -> None:
    if device.DEVICE.count():
        pytest.skip("a GPU is there")
    text = (
        "import phix; from phix.core import places\n"
        "try: phix.zeros([1]).to('gpu')\n"
        "except phix.errors.DeviceError: print(places.is_host_alone())"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
