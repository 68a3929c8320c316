"""A mesh whose ranks all hold what this process holds: programs for ranks without any beside."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import in_flight
from phix.core.rank_ports import WORDS, Port
from phix.parallel.exchange import Group
from phix.parallel.meshes import Mesh


class Mirrored(Group):
    """Sums and gathers of values that are the same on all ranks. ``steps`` are those it has done:
    kind and number of elements."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size, 0, None)
        self.steps: list[tuple[str, int]] = []

    def run(
        self, kind: str, detail: Sequence[int], x: np.ndarray, out: np.ndarray, source: Any = None
    ) -> None:
        self.steps.append((kind, x.size))
        if kind == "sum":
            out[...] = self.size * x
        elif kind == "gather":
            out[...] = np.stack([x] * self.size, detail[0])
        else:
            raise NotImplementedError(kind)


class Called(Mirrored):
    """Native code does the sums, by a function that stands for one of MPI. ``answer`` is what it
    returns, and ``calls`` has the numbers of elements."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self.answer = 0
        self.calls: list[int] = []
        self.whereabouts = ctypes.create_string_buffer(1024)
        handles = [ctypes.c_int32] * 3  # of a dtype, of a sum, of a communicator
        arrays = [ctypes.c_void_p] * 2
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *arrays, ctypes.c_int, *handles)(self.sum)
        words = {
            "index": 0, "communicator": 44, "sum": 55, "bytes": 66,
            "whereabouts": ctypes.addressof(self.whereabouts), "busy": self.busy.ctypes.data,
            "MPI_Allreduce": ctypes.cast(self.function, ctypes.c_void_p).value,
        }  # fmt: skip
        table = [words.get(word, ord(word) if len(word) == 1 else 0) for word in WORDS]
        self.port = Port(np.array(table, np.int64), "i32", self.busy)

    def sum(self, x: int, out: int, count: int, dtype: int, kind: int, comm: int) -> int:
        assert (kind, comm, x != out) == (55, 44, True)
        assert self.whereabouts.value.startswith(b"\1psum over ")
        self.calls.append(count)
        if not self.answer:
            size = count * np.dtype(chr(dtype)).itemsize
            given = np.frombuffer(ctypes.string_at(x, size), chr(dtype))
            ctypes.memmove(out, (self.size * given).astype(chr(dtype)).tobytes(), size)
        return self.answer


class Deferred(Mirrored):
    """Steps of any size are begun, and done when they are waited for. What is wrong with the arrays
    meanwhile is an error. ``events`` has each begin and end, and ``run`` for a step at one go."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self.events: list[str] = []
        self.most = 1000  # how many are begun before Ctrl-C

    def overlaps(self, kind: str, count: int) -> bool:
        return kind in ("sum", "gather")

    def run(self, kind: str, *rest: Any) -> None:
        in_flight.let_go_on()
        self.events.append(f"run {kind}")
        super().run(kind, *rest)

    def begin(self, kind: str, *rest: Any) -> in_flight.Flight:
        if self.events.count("begin sum") == self.most:
            raise KeyboardInterrupt
        self.events.append(f"begin {kind}")
        flight = _Later(self, kind, *rest)
        in_flight.begin(flight)
        return flight


class _Later(in_flight.Flight):
    def __init__(
        self, group: Deferred, kind: str, detail: Any, x: np.ndarray, out: np.ndarray, source: Any
    ) -> None:
        self.given = group, kind, detail, x, out
        self.before, self.junk = x.copy(), np.random.default_rng(0).bytes(out.nbytes)
        out.reshape(-1).view(np.uint8)[...] = np.frombuffer(self.junk, np.uint8)

    def finish(self) -> None:
        group, kind, detail, x, out = self.given
        group.events.append(f"end {kind}")
        assert x.tobytes() == self.before.tobytes(), "written while it was sent"
        assert out.tobytes() == self.junk, "written while it was received"
        Mirrored.run(group, kind, detail, x, out)


def deferred(**axes: int) -> Mesh:
    """A mesh of groups whose steps are done when they are waited for."""
    groups: Any = {name: Deferred(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)


def called(**axes: int) -> Mesh:
    """A mesh of groups whose sums are calls in native code."""
    groups: Any = {name: Called(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)


def mirrored(**axes: int) -> Mesh:
    """A mesh of such groups."""
    groups: Any = {name: Mirrored(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)
