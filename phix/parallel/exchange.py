"""What the ranks of a group do in a step between them: NumPy arrays through MPI.

What is moved goes as bytes, so that every dtype does. Sums are made here, the parts in the order of
the ranks: every rank has the same result, to the bit, and so has the next run.

What a step does is written once, as a generator of the calls of MPI it takes: of the names of
mpi4py's methods, and their arguments. They are made one after the other, or the first is begun, and
the rest is done where the result is needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import in_flight
from phix.core.errors import TensorValueError
from phix.core.rank_ports import ADDED, CROWDED, Port, refused
from phix.core.source import Source
from phix.parallel.failures import WHEREABOUTS
from phix.parallel.on_devices import OnDevices
from phix.parallel.ports import begins_permutes, port_of

# What users call the kinds of steps.
NAMES = {
    "sum": "psum", "gather": "all_gather", "rows": "all_gather", "scatter": "psum_scatter",
    "exchange": "all_to_all", "permute": "ppermute", "index": "axis_index",
    "ragged": "all_to_allv",
}  # fmt: skip
_ALONE = frozenset({"own", "index"})  # kinds that need no other rank

# Up to so many bytes every rank gets all parts of a sum at once; of more each sums a piece.
_SMALL = 1 << 13
# From so many bytes up it is worth the microseconds that a start and a wait cost to have both.
_OVERLAPPED = 1 << 12

Calls = Iterator[tuple[Any, ...]]


class Group(OnDevices):
    """The ranks along one axis of a mesh, of which this process is one.

    ``size`` ranks; this one is number ``index``; ``comm`` is their communicator, None of one rank.
    ``watch``, if any, is told of each step before it begins. With ``overlap`` steps may be waited
    for later, and ``second`` is for what comes behind the first call of such a step: some ranks do
    that before other steps, some after.
    """

    names = NAMES
    overlap = False

    def __init__(
        self, name: str, size: int, index: int, comm: Any, watch: Any = None, second: Any = None
    ) -> None:
        self.name, self.size, self.index = name, size, index
        self.comm, self.watch, self.second = comm, watch, second
        self.busy = np.zeros(2, np.uint64)  # see ``Port``: native code looks there, too

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} ranks>"

    @cached_property
    def port(self) -> Port | None:
        """What native code does the steps by; None where they are steps of the host: on meshes with
        checks, and where MPI is none that it knows how to call."""
        if self.comm is None or self.watch is not None:
            return None
        return port_of(self.comm, self.second, self.index, self.busy)

    def way_of_sum(self, dtype: np.dtype, count: int) -> str:
        """How a sum of so many bytes is made, the same on all ranks: ``at once`` by MPI, of all
        parts on each rank (``whole``), or each rank a piece (``pieces``)."""
        if self.size == 2 and dtype.char in ADDED:  # two terms have no order
            return "at once"
        return "whole" if count <= _SMALL else "pieces"

    def neighbours(self, detail: Sequence[int]) -> tuple[int, int]:
        """The ranks that this one sends to and receives from, of a permutation's sources and then
        its targets; what MPI calls nobody, a negative number, where there is none."""
        half = len(detail) // 2
        pairs = list(zip(detail[:half], detail[half:]))
        target = next((t for s, t in pairs if s == self.index), None)
        source = next((s for s, t in pairs if t == self.index), None)
        nobody = -1 if target is not None and source is not None else _nobody()
        return nobody if target is None else target, nobody if source is None else source

    def shape(self, kind: str, detail: Sequence[int], dims: Sequence[Any]) -> tuple[Any, ...]:
        """The dims of what a step gives."""
        found = list(dims)
        if kind in ("gather", "rows"):
            found.insert(detail[0], self.size)
        elif kind in ("own", "scatter"):
            found.pop(detail[0])
        elif kind == "exchange":
            found.insert(detail[1], found.pop(detail[0]))
        elif kind == "ragged":
            found[0] = detail[0]
        return tuple(found)

    def run(
        self,
        kind: str,
        detail: Sequence[int],
        x: np.ndarray,
        out: np.ndarray,
        source: Source | None = None,
    ) -> None:
        """Do a step: fill ``out`` by what the ranks' ``x`` are. ``source``: the line it is for.
        ``detail``: as in ``shape``; of a ragged step how many rows go to each rank."""
        if kind not in _ALONE:
            in_flight.let_go_on()
        if self.overlaps(kind, x.nbytes):  # other ranks may begin it, and wait later
            self.run_begun(kind, detail, x, out, source)
            return
        if kind in _ALONE:
            _call(self.comm, _STEPS[kind](self, detail, x, out))
            return
        with _alone(self, kind, source):
            WHEREABOUTS.enter(NAMES[kind], self.name, source)
            if self.watch is not None:
                self.watch(self, kind, detail, x)
            with _told(self, kind, source):
                _call(self.comm, _STEPS[kind](self, detail, x, out))
            WHEREABOUTS.leave()

    def run_begun(self, kind: str, *given: Any) -> None:
        """Begin a step, given as to ``run``, and wait for it."""
        in_flight.finish(self.begin(kind, *given))

    def go_on(self, kind: str, *given: Any) -> None:
        """Do what comes behind the first call of a step that was begun; given as to ``run``."""
        _call(self.second, _STEPS[kind](self, *given[:-1]))

    def arriving(
        self, counts: np.ndarray, most: int, rows: int, source: Source | None
    ) -> np.ndarray:
        """How many rows each rank sends here, for what moves them by itself: see ``_ragged``."""
        counts = np.ascontiguousarray(counts, np.int64)
        came = np.empty_like(counts)
        with _told(self, "ragged", source):
            self.comm.Alltoall(counts, came)
            check_rows(counts, came, most, rows)
        return came

    def overlaps(self, kind: str, count: int) -> bool:
        """Whether a step of so many bytes is begun, and may be waited for later: on all ranks or
        none, for MPI does not let one rank begin what another one does at one go."""
        if not self.overlap or kind in _ALONE or self.comm is None or self.watch is not None:
            return False
        return count >= _OVERLAPPED and (kind != "permute" or begins_permutes())

    def begin(self, kind: str, *given: Any) -> in_flight.Flight:
        """Begin a step, given as to ``run``, that ``in_flight.finish`` ends: until then ``x`` must
        stay as it is."""
        flight = _RankFlight(self, kind, *given)
        with in_flight.Undisturbed():
            flight.begin()
            in_flight.begin(flight)
        return flight


class _RankFlight(in_flight.Flight):
    def __init__(
        self, group: Group, kind: str, detail: Any, x: np.ndarray, out: np.ndarray, source: Any
    ) -> None:
        self.group, self.kind, self.source = group, kind, source
        self.calls = _STEPS[kind](group, detail, x, out)
        self.has_more = kind == "sum" and group.way_of_sum(x.dtype, x.nbytes) == "pieces"
        self.request: Any = None

    def begin(self) -> None:
        name, *arguments = next(self.calls)
        with _alone(self.group, self.kind, self.source):
            WHEREABOUTS.enter(NAMES[self.kind], self.group.name, self.source)
            with _told(self.group, self.kind, self.source):
                self.request = getattr(self.group.comm, f"I{name.lower()}")(*arguments)
            self.group.busy[1] += 1
            WHEREABOUTS.leave()

    def finish(self) -> None:
        with _alone(self.group, self.kind, self.source):
            self.group.busy[1] -= 1
            WHEREABOUTS.enter(NAMES[self.kind], self.group.name, self.source)
            with _told(self.group, self.kind, self.source):
                self.request.Wait()
                _call(self.group.second, self.calls)
            WHEREABOUTS.leave()


class _alone:
    """A block in which a thread is in a step of the group; an error where another one is, or has
    begun some. Behind it the group is free again, unless this one has begun some."""

    def __init__(self, group: Group, kind: str, source: Source | None) -> None:
        self.group, self.kind, self.source = group, kind, source

    def __enter__(self) -> None:
        own, busy = threading.get_ident(), self.group.busy
        if busy[0] not in (0, own):
            raise refused(CROWDED, _described(self.group, self.kind, self.source))
        busy[0] = own

    def __exit__(self, *error: Any) -> None:
        if not self.group.busy[1]:
            self.group.busy[0] = 0


def _described(group: Group, kind: str, source: Source | None) -> str:
    at = f" at {source}" if source is not None else ""
    return f"{group.text(kind)}{at}"


class _told:
    """A block in which an error of MPI becomes one that says in which step, and for which line."""

    def __init__(self, group: Group, kind: str, source: Source | None) -> None:
        self.group, self.kind, self.source = group, kind, source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        what = _described(self.group, self.kind, self.source)
        if hasattr(error, "Get_error_code"):
            raise refused(error.Get_error_code(), what) from error
        if isinstance(error, TensorValueError):
            raise TensorValueError(f"{what}: {error}") from None


def _call(comm: Any, calls: Calls) -> None:
    for name, *arguments in calls:
        getattr(comm, name)(*arguments)


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def _typed(x: np.ndarray) -> np.ndarray:
    """What is gathered, as native code names it: a view of the bytes would take longer, too."""
    return x if x.dtype.char in ADDED else _bytes(x)


def _contiguous(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else x.copy()


def _added(rows: np.ndarray) -> np.ndarray:
    """The sum over the first axis, row by row; of half precision in float32, rounded once."""
    is_half = rows.dtype in (dt.float16, dt.bfloat16)
    total = rows[0].astype(np.float32 if is_half else rows.dtype)
    with np.errstate(all="ignore"):  # as in compiled code, what overflows is no complaint
        for row in rows[1:]:
            total += row
        return total.astype(rows.dtype, copy=False)


def _rows(group: Group, x: np.ndarray) -> Generator[Any, None, np.ndarray]:
    """The parts of all ranks, one behind the other."""
    rows = np.empty((group.size, *x.shape), x.dtype)
    yield "Allgather", _typed(_contiguous(x)), _typed(rows)
    return rows


def _sum(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    way = group.way_of_sum(x.dtype, x.nbytes)
    if way == "at once":
        whole = out if out.flags.c_contiguous else np.empty(x.shape, x.dtype)
        whole[...] = x  # by native code they are one already
        yield "Allreduce", _in_place(), whole
    elif way == "whole":
        whole = _added((yield from _rows(group, x)))
    else:
        whole = yield from _sum_by_pieces(group, _contiguous(x), out)
    if whole is not out:
        out[...] = whole


def _sum_by_pieces(
    group: Group, x: np.ndarray, out: np.ndarray
) -> Generator[Any, None, np.ndarray]:
    """Each rank adds a piece, the pieces go to all. What is left over by pieces of one length goes
    to all as it is: MPICH's calls for pieces of many lengths take a hundred times as long."""
    flat, size = x.reshape(-1), group.size
    whole = out if out.flags.c_contiguous else np.empty(x.shape, x.dtype)
    piece = flat.size // size
    even, found = piece * size, whole.reshape(-1)
    pieces = np.empty((size, piece), x.dtype)
    yield "Alltoall", _bytes(flat[:even]), _bytes(pieces)
    yield "Allgather", _typed(_added(pieces)), _typed(found[:even])
    if even < flat.size:
        found[even:] = _added((yield from _rows(group, flat[even:])))
    return whole


def _gather(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    if detail[0] == 0 and out.flags.c_contiguous:
        yield "Allgather", _typed(_contiguous(x)), _typed(out)
        return
    out[...] = np.moveaxis((yield from _rows(group, x)), 0, detail[0])


def _own(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    out[...] = x.take(group.index, detail[0])
    yield from ()


def _dealt(group: Group, x: np.ndarray, axis: int) -> Generator[Any, None, np.ndarray]:
    """Row ``index`` along an axis of every rank's x, one behind the other."""
    sent = _contiguous(np.moveaxis(x, axis, 0))
    found = np.empty_like(sent, order="C")
    yield "Alltoall", _bytes(sent), _bytes(found)
    return found


def _scatter(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    out[...] = _added((yield from _dealt(group, x, detail[0])))


def _exchange(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    out[...] = np.moveaxis((yield from _dealt(group, x, detail[0])), 0, detail[1])


def _ragged(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    counts = np.ascontiguousarray(detail, np.int64)
    came = np.empty_like(counts)
    yield "Alltoall", counts, came
    check_rows(counts, came, len(x), len(out))
    total, row = int(came.sum()), math.prod(x.shape[1:]) * x.itemsize
    whole = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    with _rows_of(row) as kind:
        sent = (_bytes(_contiguous(x)), counts, _starts(counts), kind)
        yield "Alltoallv", sent, (_bytes(whole), came, _starts(came), kind)
    whole[total:] = 0
    if whole is not out:
        out[...] = whole


def check_rows(counts: np.ndarray, came: np.ndarray, most: int, rows: int) -> None:
    """Raise TensorValueError unless a ragged step sends of ``most`` rows no more than there are,
    and what comes has room in ``rows``."""
    if counts.min() < 0 or max(counts.max(), counts.sum()) > most:  # a sum may wrap
        raise TensorValueError(
            f"counts {counts.tolist()} of rows to send must be 0 or more, and no more than {most} "
            "together, those of x"
        )
    if came.min() < 0:
        raise TensorValueError(f"the ranks send {came.tolist()} rows here, which must be 0 or more")
    if max(came.max(), came.sum()) > rows:
        raise TensorValueError(
            f"{sum(came.tolist())} rows come, and there is room for {rows}: give the result as "
            "many rows"
        )


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


@contextmanager
def _rows_of(count: int) -> Iterator[Any]:
    """MPI's type for a row of so many bytes: MPI counts in 32 bits, and there are more bytes."""
    from mpi4py import MPI

    kind = MPI.BYTE.Create_contiguous(count).Commit()
    try:
        yield kind
    finally:
        kind.Free()


def _permute(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    target, source = group.neighbours(detail)
    found = np.empty(x.shape, x.dtype)
    yield "Sendrecv", _bytes(_contiguous(x)), target, 0, _bytes(found), source
    out[...] = 0 if source < 0 else found


def _in_place() -> Any:
    from mpi4py import MPI

    return MPI.IN_PLACE


def _nobody() -> int:
    from mpi4py import MPI

    return int(MPI.PROC_NULL)


def _index(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> Calls:
    out[...] = group.index
    yield from ()


_STEPS = {
    "sum": _sum, "gather": _gather, "rows": _gather, "own": _own, "scatter": _scatter,
    "exchange": _exchange, "permute": _permute, "index": _index,
    "ragged": _ragged,
}  # fmt: skip
