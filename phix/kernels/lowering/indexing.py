"""Lowerings that read at computed places: gather and its kin."""

from __future__ import annotations

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Element
from phix.kernels.lowering.lower import broadcast_element, broadcast_indices
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

Indices = tuple[Expr, ...]
# Scalar operations that it takes to keep an index from the data inside, and what reading there
# takes beyond reading in order.
_FOUND = 5


def wrapped(b: Builder, index: Element, size: dm.DimLike) -> Expr:
    """An index from the data: negative ones count from the end, and none leaves the array.

    That an index is out of range is for others to report; here it must only stay in memory.
    """
    return _inside(_from_start(b, index, size), b.dim(size))


def located(b: Builder, index: Element, size: dm.DimLike) -> tuple[Expr, Expr]:
    """The same, and whether the index is in range."""
    i, n = _from_start(b, index, size), b.dim(size)
    return _inside(i, n), (i >= 0) & (i < n)


def _from_start(b: Builder, index: Element, size: dm.DimLike) -> Expr:
    assert isinstance(index, Expr)
    if index.dtype == dt.uint64:  # beyond int64 is beyond every array, not before it
        index = sc.binary("minimum", index, sc.const(2**63 - 1, dt.uint64))
    i = sc.cast(index, dt.int64)
    return sc.select(i < 0, i + b.dim(size), i)


def _inside(i: Expr, n: Expr) -> Expr:
    return sc.binary("maximum", sc.binary("minimum", i, n - 1), ZERO)


@lowering("gather", "move", _FOUND)
def gather(b: Builder, x: Value, index: Value, axis: int, *, task: Task) -> Value:
    rank = len(task.out.dims) - len(x.dims) + 1

    def at(idx: Indices) -> Element:
        # an index of dims (n, 1) stands for (n,)
        where = (*idx[axis : axis + rank], *(ZERO for _ in range(len(index.dims) - rank)))
        i = wrapped(b, b.element(index, where), x.dims[axis])
        return b.element(x, (*idx[:axis], i, *idx[axis + rank :]))

    return Value(task.out.dims, x.dtype, at, None, x.cost + _FOUND)


@lowering("gather_nd", "move", _FOUND)
def gather_nd(b: Builder, x: Value, index: Value, *, task: Task) -> Value:
    depth = index.dims[-1]
    assert isinstance(depth, int), "gather_nd needs a known last dim of the index"
    rank = len(index.dims) - 1

    def at(idx: Indices) -> Element:
        own = [
            wrapped(b, b.element(index, (*idx[:rank], b.dim(k))), x.dims[k]) for k in range(depth)
        ]
        return b.element(x, (*own, *idx[rank:]))

    return Value(task.out.dims, x.dtype, at, None, x.cost + _FOUND)


@lowering("take_along_axis", "move", _FOUND)
def take_along_axis(b: Builder, arr: Value, indices: Value, axis: int, *, task: Task) -> Value:
    dims = task.out.dims

    def at(idx: Indices) -> Element:
        i = wrapped(b, broadcast_element(b, indices, dims, idx), arr.dims[axis])
        across = tuple(size if k == axis else d for k, (d, size) in enumerate(zip(arr.dims, dims)))
        own = list(broadcast_indices(b, across, dims, idx))
        own[axis] = i
        return b.element(arr, tuple(own))

    return Value(dims, arr.dtype, at, None, arr.cost + _FOUND)
