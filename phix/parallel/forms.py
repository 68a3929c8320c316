"""Forms: how the parts of a mesh have a value among them, and what takes one form to another.

Along each axis of the mesh a value is whole (the same on every part), divided (each part has its
piece of one dim) or pending (the sum of what the parts have is the value).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from phix import ops
from phix.api import batching
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.parallel.specs import divided as rows_of

PENDING = "pending"
Where = Any  # of one axis: None (whole), the number of a dim, or PENDING

# What a step between the parts costs besides its bytes, in bytes that could be moved meanwhile.
LATENCY = 16384.0
# What reading or writing a byte of one's own memory costs, in bytes moved between the parts; and
# one multiplication with its addition: of cores at some 30 GFLOP/s, whose parts tell each other
# some 3 GB/s.
TOUCHED = 0.05
MULTIPLIED = 0.2
_UNKNOWN = 32  # stands for a size that is not known, in costs


@dataclass(frozen=True)
class Form:
    """Where each axis of the mesh stands, for those along which the value is not whole."""

    places: tuple[tuple[str, Where], ...] = ()

    @classmethod
    def of(cls, places: Mapping[str, Where]) -> Form:
        return cls(tuple(sorted((a, w) for a, w in places.items() if w is not None)))

    def at(self, axis: str) -> Where:
        return next((w for a, w in self.places if a == axis), None)

    def put(self, axis: str, where: Where) -> Form:
        return Form.of({**dict(self.places), axis: where})

    @property
    def pending(self) -> list[str]:
        return [a for a, w in self.places if w == PENDING]

    def holder(self, dim: int) -> str | None:
        """The axis that divides a dim."""
        return next((a for a, w in self.places if w == dim), None)

    def dims(self, dims: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """The dims of a part of a value with those dims."""
        found = list(dims)
        for axis, where in self.places:
            if where != PENDING:
                found[where] //= sizes[axis]
        return tuple(found)

    def text(self, rank: int) -> str:
        """``[data, -]``, with what is pending behind it."""
        inside = ", ".join(self.holder(k) or "-" for k in range(rank))
        pending = f" + pending over {', '.join(self.pending)}" if self.pending else ""
        return f"[{inside}]{pending}"


WHOLE = Form()


@dataclass(frozen=True)
class Move:
    """One change of a value along one axis.

    ``kind`` is all_gather, psum, psum_scatter or all_to_all, which are steps between the parts,
    or slice (each takes its piece) or one (the first part has the value, the others have zeros).
    ``dim`` is the dim that is joined or summed into pieces, ``to`` the one divided afterwards;
    ``bytes`` is what a part sends.
    """

    kind: str
    axis: str
    dim: int = 0
    to: int = 0
    bytes: float = 0.0

    @property
    def is_step(self) -> bool:
        return self.kind not in ("slice", "one")

    @property
    def cost(self) -> float:
        return self.bytes + LATENCY if self.is_step else self.bytes


def moves(meta: MetaTensor, before: Form, after: Form, sizes: Mapping[str, int]) -> list[Move]:
    """What takes a value from one form to another, in order."""
    found: list[Move] = []
    now = before
    for axis in sizes:  # sums first; then what is divided otherwise, or not at all
        if now.at(axis) == PENDING and after.at(axis) != PENDING:
            to = after.at(axis)
            now = _add(found, meta, now, axis, to if now.holder(to) is None else None, sizes)
    for axis in sizes:
        at, to = now.at(axis), after.at(axis)
        if isinstance(at, int) and at != to:
            is_free = isinstance(to, int) and now.holder(to) is None
            now = _add(found, meta, now, axis, to if is_free else None, sizes)
    for axis in sizes:
        if now.at(axis) != after.at(axis):
            now = _add(found, meta, now, axis, after.at(axis), sizes)
    return found


def _add(
    found: list[Move], meta: MetaTensor, now: Form, axis: str, to: Where, sizes: Mapping[str, int]
) -> Form:
    """One move more; gives the form behind it."""
    n, at = sizes[axis], now.at(axis)
    kept = local_bytes(meta, now, sizes)
    if at is None:
        is_one = to == PENDING
        move = Move("one" if is_one else "slice", axis, 0, 0 if is_one else to, TOUCHED * kept)
    elif at == PENDING and to is None:
        move = Move("psum", axis, bytes=2 * kept * (n - 1) / n)
    elif at == PENDING:
        move = Move("psum_scatter", axis, to, to, kept * (n - 1) / n)
    elif isinstance(to, int):
        move = Move("all_to_all", axis, at, to, kept * (n - 1) / n)
    else:
        move = Move("all_gather", axis, at, bytes=kept * (n - 1))
        to = None  # what is to be pending is whole before
    found.append(move)
    return now.put(axis, to)


def local_bytes(meta: MetaTensor, form: Form, sizes: Mapping[str, int]) -> float:
    """The bytes of a part."""
    return meta.dtype.itemsize * elements(form.dims(meta.dims, sizes))


def elements(dims: Sequence[Any]) -> float:
    """How many elements a value of these dims has, those that are not known guessed."""
    return float(math.prod(d if isinstance(d, int) else _UNKNOWN for d in dims))


def fits(meta: MetaTensor, form: Form, sizes: Mapping[str, int]) -> bool:
    """Whether each dim can be divided as the form says: evenly, and no dim twice."""
    dims = [(w, sizes[a]) for a, w in form.places if w != PENDING]
    if len({w for w, _ in dims}) != len(dims):
        return False
    return all(_divides(n, meta.dims[w]) for w, n in dims)


def _divides(n: int, dim: Any) -> bool:
    return isinstance(dim, int) and dim >= n and dim % n == 0


# -- on the parts ----------------------------------------------------------------------------------
def move(x: Any, step: Move, sizes: Mapping[str, int]) -> Any:
    """A move of a part; within a function on the mesh."""
    axis, n = step.axis, sizes[step.axis]
    if step.kind == "psum":
        return batching.psum(x, axis)
    if step.kind == "all_gather":
        return batching.all_gather(x, axis, axis=step.dim, tiled=True)
    if step.kind == "psum_scatter":
        return batching.psum_scatter(x, axis, scatter_dimension=step.dim, tiled=True)
    if step.kind == "all_to_all":
        return batching.all_to_all(x, axis, step.to, step.dim, tiled=True)
    here = batching.axis_index(axis)
    if step.kind == "one":
        return ops.where(here == 0, x, nothing(x.dtype))
    return ops.gather(rows_of(x, step.to, n, "shard"), here, step.to)


def nothing(dtype: Any) -> Any:
    """What changes no number that it is added to: 0, of floats with the sign that keeps -0."""
    return ops.full((), -0.0 if dt.is_float(dtype) else 0, dtype)


__all__ = [
    "LATENCY", "MULTIPLIED", "PENDING", "TOUCHED", "WHOLE", "Form", "Move", "Where", "elements",
    "fits", "local_bytes", "move", "moves", "nothing",
]  # fmt: skip
