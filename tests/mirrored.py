"""A mesh whose ranks all hold what this process holds: programs for ranks without any beside."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import in_flight
from phix.core.rank_ports import WORDS, Port
from phix.parallel.exchange import Group
from phix.parallel.meshes import Mesh

COMM, SECOND, SUM, BYTE = 44, 45, 55, 66  # handles
IN_PLACE = 77  # in the place of an address
_INT = ctypes.c_int32
_ARRAYS = [ctypes.c_void_p] * 2


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
        self.functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *takes)(function)
            for name, (function, takes) in self.answered().items()
        }
        words = {
            "index": 0, "communicator": COMM, "second": SECOND, "sum": SUM, "in_place": IN_PLACE,
            "bytes": BYTE,
            "whereabouts": ctypes.addressof(self.whereabouts), "busy": self.busy.ctypes.data,
        }  # fmt: skip
        for name, function in self.functions.items():
            words[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
        table = [words.get(word, ord(word) if len(word) == 1 else 0) for word in WORDS]
        self.port = Port(np.array(table, np.int64), "i32", self.busy)

    def answered(self) -> dict[str, tuple[Callable[..., int], list[Any]]]:
        """By the name of a function of MPI what stands for it, and the types that it takes."""
        return {"MPI_Allreduce": (self.sum, [*_ARRAYS, _INT, _INT, _INT, _INT])}

    def sum(self, x: int, out: int, count: int, dtype: int, kind: int, comm: int) -> int:
        assert (x, kind, comm) == (IN_PLACE, SUM, COMM)
        assert self.whereabouts.value.startswith(b"\1psum over ")
        self.calls.append(count)
        if not self.answer:
            size = count * np.dtype(chr(dtype)).itemsize
            given = np.frombuffer(ctypes.string_at(out, size), chr(dtype))
            ctypes.memmove(out, (self.size * given).astype(chr(dtype)).tobytes(), size)
        return self.answer


class Begun(Called):
    """Native code begins sums and gathers of any size; all is done when it is waited for. What is
    wrong with the arrays meanwhile, or with the order of calls, is in ``wrong``. ``events`` has
    each begin, end, and call behind one that was begun; ``at_begin`` is called at each begin, and
    what it returns is MPI's answer."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        self.events: list[str] = []
        self.wrong: list[str] = []
        self.under_way: dict[int, tuple[str, int, int, int, bytes, bytes]] = {}
        self.dealt: list[np.ndarray] = []  # what was dealt, and not gathered again
        self.at_begin: Callable[[], int] = lambda: 0

    def answered(self) -> dict[str, tuple[Callable[..., int], list[Any]]]:
        moved = [_ARRAYS[0], _INT, _INT, _ARRAYS[1], _INT, _INT, _INT]
        request = ctypes.POINTER(ctypes.c_int32)
        return {
            "MPI_Iallreduce": (self.begin_sum, [*_ARRAYS, _INT, _INT, _INT, _INT, request]),
            "MPI_Iallgather": (self.begin_gather, [*moved, request]),
            "MPI_Ialltoall": (self.begin_exchange, [*moved, request]),
            "MPI_Allgather": (self.gather, moved),
            "MPI_Wait": (self.wait, [request, ctypes.c_void_p]),
        }

    def overlaps(self, kind: str, count: int) -> bool:
        return kind in ("sum", "gather")

    def begin(self, kind: str, *rest: Any) -> in_flight.Flight:
        raise NotImplementedError("native code begins all")

    def begin_sum(self, x, out, count, dtype, kind, comm, request):  # type: ignore[no-untyped-def]
        size = count * np.dtype(chr(dtype)).itemsize
        self._expect((x, kind) == (IN_PLACE, SUM), "added in place")
        return self._begin(f"sum of {chr(dtype)}", out, size, out, size, comm, request)

    def begin_gather(self, x, count, dtype, out, *rest):  # type: ignore[no-untyped-def]
        size = count * (1 if dtype == BYTE else np.dtype(chr(dtype)).itemsize)
        return self._begin("gather", x, size, out, self.size * size, *rest[2:])

    def begin_exchange(self, x, count, dtype, out, *rest):  # type: ignore[no-untyped-def]
        size = count * self.size
        return self._begin("exchange", x, size, out, size, *rest[2:])

    def _begin(
        self, what: str, x: int, given: int, out: int, made: int, comm: int, request: Any
    ) -> int:
        answer = self.at_begin()
        if answer:
            return answer
        self._expect(comm == COMM and len(self.under_way) < 9, f"{what} begun")
        self._expect(self.busy.tolist() == [threading.get_ident(), len(self.under_way)], "busy")
        number = 1 + max(self.under_way, default=0)
        before, junk = ctypes.string_at(x, given), np.random.default_rng(0).bytes(made)
        ctypes.memmove(out, junk, made)
        self.under_way[number] = what, x, out, made, before, junk
        request[0] = number
        self.events.append(f"begin {what.split()[0]}")
        return 0

    def wait(self, request: Any, status: int) -> int:
        what, x, out, made, before, junk = self.under_way.pop(request[0])
        is_kept = x == out or ctypes.string_at(x, len(before)) == before
        self._expect(is_kept, "written while it was sent")
        self._expect(ctypes.string_at(out, made) == junk, "written while it was received")
        if what == "gather":
            found = before * self.size
        elif what == "exchange":
            self.dealt.append(np.frombuffer(before))
            found = before[: len(before) // self.size] * self.size
        else:
            given = np.frombuffer(before, what[-1])
            found = (self.size * given).astype(given.dtype).tobytes()
        ctypes.memmove(out, found, made)
        self.events.append(f"end {what.split()[0]}")
        return 0

    def gather(self, x, count, dtype, out, to_count, to_dtype, comm):  # type: ignore[no-untyped-def]
        """What comes behind the exchange of a sum of float64: its pieces, added."""
        whole = self.size * self.dealt.pop(0)
        found = np.frombuffer(ctypes.string_at(x, 8 * count))
        self._expect(comm == SECOND and chr(dtype) == "d", "gathered by the second")
        self._expect(np.allclose(found, whole[:count]), "a piece of another sum")
        ctypes.memmove(out, whole.tobytes(), whole.nbytes)
        self.events.append("go on")
        return 0

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


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


def begun(**axes: int) -> Mesh:
    """A mesh of groups whose steps native code begins, and waits for."""
    groups: Any = {name: Begun(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)


def mirrored(**axes: int) -> Mesh:
    """A mesh of such groups."""
    groups: Any = {name: Mirrored(name, size) for name, size in axes.items()}
    return Mesh(axes, groups, 0)
