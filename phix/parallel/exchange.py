"""What the ranks of a group do in a step between them: NumPy arrays through MPI.

What is moved goes as bytes, so that every dtype does. Sums are made here, the parts in the order of
the ranks: every rank has the same result, to the bit, and so has the next run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt

# Up to so many bytes every rank gets all parts of a sum at once; of more each sums a piece.
_SMALL = 1 << 13


class Group:
    """The ranks along one axis of a mesh, of which this process is one.

    ``size`` ranks; this one is number ``index``; ``comm`` is their communicator, None of one rank.
    ``watch``, if any, is told of each step before it begins.
    """

    def __init__(self, name: str, size: int, index: int, comm: Any, watch: Any = None) -> None:
        self.name, self.size, self.index = name, size, index
        self.comm, self.watch = comm, watch

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} ranks>"

    def shape(self, kind: str, detail: Sequence[int], dims: Sequence[Any]) -> tuple[Any, ...]:
        """The dims of what a step gives."""
        found = list(dims)
        if kind in ("gather", "rows"):
            found.insert(detail[0], self.size)
        elif kind in ("own", "scatter"):
            found.pop(detail[0])
        elif kind == "exchange":
            found.insert(detail[1], found.pop(detail[0]))
        return tuple(found)

    def run(self, kind: str, detail: Sequence[int], x: np.ndarray, out: np.ndarray) -> None:
        """Do a step: fill ``out`` by what the ranks' ``x`` are."""
        if self.watch is not None and kind != "own":
            self.watch(self, kind, detail, x)
        _STEPS[kind](self, detail, x, out)


def _bytes(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


def _contiguous(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else x.copy()


def _added(rows: np.ndarray) -> np.ndarray:
    """The sum over the first axis, row by row; of half precision in float32, rounded once."""
    is_half = rows.dtype in (dt.float16, dt.bfloat16)
    total = rows[0].astype(np.float32 if is_half else rows.dtype)
    for row in rows[1:]:
        total += row
    return total.astype(rows.dtype, copy=False)


def _rows(group: Group, x: np.ndarray) -> np.ndarray:
    """The parts of all ranks, one behind the other."""
    rows = np.empty((group.size, *x.shape), x.dtype)
    group.comm.Allgather(_bytes(_contiguous(x)), _bytes(rows))
    return rows


def _sum(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    if x.nbytes <= _SMALL:
        out[...] = _added(_rows(group, x))
        return
    flat = _contiguous(x).reshape(-1)
    ends = [flat.size * k // group.size for k in range(group.size + 1)]
    width = x.dtype.itemsize
    counts = [(b - a) * width for a, b in itertools.pairwise(ends)]
    starts = [e * width for e in ends[:-1]]
    own = counts[group.index]
    pieces = np.empty((group.size, own // width), x.dtype)
    theirs = ([own] * group.size, [own * k for k in range(group.size)])
    group.comm.Alltoallv([_bytes(flat), (counts, starts)], [_bytes(pieces), theirs])
    total = np.ascontiguousarray(_added(pieces))
    whole = out if out.flags.c_contiguous else np.empty(x.shape, x.dtype)
    group.comm.Allgatherv(_bytes(total), [_bytes(whole), (counts, starts)])
    if whole is not out:
        out[...] = whole


def _gather(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    if detail[0] == 0 and out.flags.c_contiguous:
        group.comm.Allgather(_bytes(_contiguous(x)), _bytes(out))
        return
    out[...] = np.moveaxis(_rows(group, x), 0, detail[0])


def _own(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    out[...] = x.take(group.index, detail[0])


def _dealt(group: Group, x: np.ndarray, axis: int) -> np.ndarray:
    """Row ``index`` along an axis of every rank's x, one behind the other."""
    sent = _contiguous(np.moveaxis(x, axis, 0))
    found = np.empty_like(sent, order="C")
    group.comm.Alltoall(_bytes(sent), _bytes(found))
    return found


def _scatter(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    out[...] = _added(_dealt(group, x, detail[0]))


def _exchange(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    out[...] = np.moveaxis(_dealt(group, x, detail[0]), 0, detail[1])


def _permute(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    half = len(detail) // 2
    pairs = list(zip(detail[:half], detail[half:]))
    target = next((t for s, t in pairs if s == group.index), None)
    source = next((s for s, t in pairs if t == group.index), None)
    nobody = -1 if target is not None and source is not None else _nobody()
    found = np.empty(x.shape, x.dtype)
    group.comm.Sendrecv(
        _bytes(_contiguous(x)),
        nobody if target is None else target,
        recvbuf=_bytes(found),
        source=nobody if source is None else source,
    )
    out[...] = 0 if source is None else found


def _nobody() -> int:
    from mpi4py import MPI

    return int(MPI.PROC_NULL)


def _index(group: Group, detail: Any, x: np.ndarray, out: np.ndarray) -> None:
    out[...] = group.index


_STEPS = {
    "sum": _sum, "gather": _gather, "rows": _gather, "own": _own, "scatter": _scatter,
    "exchange": _exchange, "permute": _permute, "index": _index,
}  # fmt: skip
