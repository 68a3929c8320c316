"""Where a slice of an axis begins, and how many elements it takes, as Python counts them.

A bound that is an int counts from the end if it is negative. A bound of an op that is a ``Dim`` is
a position: what turns out below 0 is 0. Both are clipped to the axis. Where users write a ``Dim``
that may be negative, ``as_position`` makes a position of it first; ops that are given such a bound
are not run for sizes at which the two differ: see ``check_positions``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phix.core import dims as dm
from phix.core.dims import Apply, Dim, DimLike, Symbol
from phix.core.errors import ShapeError
from phix.core.op import Op
from phix.core.records import dataclass


def not_negative(v: DimLike) -> bool:
    """Whether ``v`` is known to be 0 or more."""
    if isinstance(v, int):
        return v >= 0
    return all(c >= 0 and all(map(_atom_not_negative, m)) for m, c in v.terms)


def _atom_not_negative(atom: Symbol | Apply) -> bool:
    if isinstance(atom, Symbol) or atom.fn in ("mod", "broadcast"):
        return True
    some = any if atom.fn == "max" else all
    return some(not_negative(a) for a in atom.args)


def at_most(v: DimLike, dim: DimLike) -> bool:
    """Whether ``v`` is known to be ``dim`` or less."""
    if not_negative(dim - v):
        return True
    if isinstance(v, Dim) and len(v.terms) == 1:
        monomial, coefficient = v.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Apply):
            atom = monomial[0]
            if atom.fn in ("min", "max"):
                some = any if atom.fn == "min" else all
                return some(at_most(a, dim) for a in atom.args)
    return isinstance(v, int) and v <= 0 and not_negative(dim)


def from_zero(v: DimLike) -> DimLike:
    """``v``, or 0 where it is below."""
    if not_negative(v):
        return v
    return 0 if at_most(v, 0) else dm.maximum(v, 0)


def smaller(v: DimLike, dim: DimLike) -> DimLike:
    """The smaller of the two; ``v`` itself where that is known."""
    return v if at_most(v, dim) else dm.minimum(v, dim)


def position(v: DimLike, dim: DimLike) -> DimLike:
    """A bound as a position from the front, not yet clipped at the end of the axis."""
    return from_zero(v + dim) if isinstance(v, int) and v < 0 else from_zero(v)


_FAR = 2**62  # beyond every axis, and small enough that programs may add a size to it


def canonical(
    start: DimLike, end: DimLike, stride: int, dim: DimLike
) -> tuple[DimLike, DimLike, int]:
    """Bounds and a stride that mean the same and read the same again.

    Of a known axis the bounds are clipped positions, and the stride does not reach beyond it; a
    backward slice that runs past the first element ends at ``-dim - 1``. Of an unknown one ints
    stay as written, as far as programs can compute with them.
    """
    if not dm.is_known(start, end, dim):
        start, end = (min(max(v, -_FAR), _FAR) if isinstance(v, int) else v for v in (start, end))
        return start, end, min(max(stride, -_FAR), _FAR)
    assert isinstance(dim, int)
    first, last, _ = slice(start, end, stride).indices(dim)
    stride = min(stride, max(dim, 1)) if stride > 0 else max(stride, -max(dim, 1))
    if stride > 0:
        return first, max(first, last), stride
    if first <= last:
        return 0, 0, stride
    return first, last if last >= 0 else -dim - 1, stride


def extent(start: DimLike, end: DimLike, stride: int, dim: DimLike) -> tuple[DimLike, DimLike]:
    """The clipped position of the first element, and the number of elements."""
    if stride > 0:
        first = position(start, dim)
        span = from_zero(smaller(position(end, dim), dim) - first)
        return smaller(first, dim), dm.floordiv(span + (stride - 1), stride)
    first, last = _backward(start, dim), _backward(end, dim)
    span = from_zero(first - last)
    return first, dm.floordiv(span + (-stride - 1), -stride)


def _backward(v: DimLike, dim: DimLike) -> DimLike:
    """A bound of a backward slice: at most the last element, at least one before the first."""
    at = v + dim if isinstance(v, int) and v < 0 else v
    return smaller(from_zero(at + 1), dim) - 1


@dataclass(frozen=True)
class _Bound:
    """A bound of a slice: where it is given, and of which axis."""

    name: str  # of the attribute
    place: int  # in it
    axis: int
    value: DimLike
    dim: DimLike
    before: int  # how far before the first element it can be


def _bounds(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> Iterator[_Bound]:
    if "starts" in op.attr_names:
        found = dict(zip(op.attr_names, attrs))
        for place, axis in enumerate(found["axes"]):
            strides = found.get("strides")
            before = 1 if strides and strides[place] < 0 else 0
            for name in ("starts", "ends"):
                dim = metas[0].dims[axis]
                yield _Bound(name, place, axis, found[name][place], dim, before)


def extents(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> Iterator[DimLike]:
    """How many elements the op's slices have, along each of their axes."""
    if "starts" in op.attr_names:
        found = dict(zip(op.attr_names, attrs))
        strides = found.get("strides") or (1,) * len(found["axes"])
        bounds = zip(found["axes"], found["starts"], found["ends"], strides)
        for axis, start, end, stride in bounds:
            yield extent(start, end, stride, metas[0].dims[axis])[1]


def may_count_from_the_end(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> bool:
    """Whether ``check_positions`` may refuse some sizes."""

    return any(_may_count(b.value, b.dim, b.before) for b in _bounds(op, metas, attrs))


def _may_count(value: DimLike, dim: DimLike, before: int) -> bool:
    """Whether a bound is a ``Dim`` of which some sizes would take other elements from the end."""
    if isinstance(value, int) or not_negative(value):
        return False
    less = dim - value
    if not isinstance(less, int):
        return True
    return any(n - less < 0 < 2 * n - less + before for n in range(max(less, 0)))


def as_position(v: DimLike, dim: DimLike, stride: int) -> DimLike:
    """A bound as users write it, as one that is a position for all sizes, or lies before the first
    element of a backward slice."""
    if not _may_count(v, dim, int(stride < 0)):
        return v
    is_negative, from_end = _sign(-v), v + dim
    before = 0 if stride > 0 else _sign(-from_end) * (dim + 1)
    return from_zero(v) + is_negative * from_zero(from_end) - before


def _sign(v: DimLike) -> DimLike:
    """1 where ``v`` is above 0, else 0."""
    return smaller(from_zero(v), 1)


def check_positions(
    op: Op, metas: tuple[Any, ...], traced: tuple[Any, ...], here: tuple[Any, ...]
) -> None:
    """Look whether the bounds of a slice that were traced as positions are positions.

    Raises:
        ShapeError: one is negative here, and would take other elements from the end.
    """
    if traced is here:
        return
    for b in _bounds(op, metas, here):
        bound = traced[op.attr_names.index(b.name)][b.place]
        is_known = isinstance(b.value, int) and isinstance(b.dim, int)
        if isinstance(bound, Dim) and is_known and b.value < 0 < b.value + b.dim + b.before:
            raise ShapeError(
                f"{op.name}: the bound {dm.dim_text(bound)} of a slice is {b.value} for these "
                f"sizes, which counts from the end of axis {b.axis} of {metas[0]}; it was traced "
                "as a position from the front. Trace with known sizes, or slice from the other "
                "side, as x[k:] and x[:-k] do"
            )
