"""Algebra of reads and writes at computed places: more rows of the table in ``simplifications``.

| name               | pattern                                                          |
|--------------------|------------------------------------------------------------------|
| own_row            | x[arange(n), j], and adding at such places, go along an axis     |
| sum_of_put         | the sum of values put into zeros is the sum of the values        |

An op that goes along an axis says in which row it reads or writes, so that what makes the row
and what reads it can be one loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.rules import Call
from phix.core.tensor import Tensor
from phix.primitives.simplifications import made_by

# Constants longer than this are not looked through.
_LONGEST = 1 << 16


@rules.simplify("sum_of_put", "the sum of values put into zeros is the sum of the values", "sum")
def sum_of_put(op: str, x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    call = rules.origin(x)
    if call is None or x.dtype != dtype or dtype == dt.bool_:
        return None
    if call.op == "pad" and _is_grown_along(call.args, axis):
        return Call("sum", (call.args[0], axis, dtype, keepdim))
    if call.op != "put_along_axis":
        return None
    zeros, indices, values, put_axis, reduce, _, mode = call.args
    if mode != "clip":  # what is out of range is not put
        return None
    filled = made_by(zeros, "full")
    if filled is None or not _is_zero(filled[1]) or reduce != "add" or put_axis not in axis:
        return None
    pairs = enumerate(zip(x.meta.dims, indices.meta.dims))
    if not all(k == put_axis or dm.same(a, b) for k, (a, b) in pairs):
        return None
    return Call("sum", (Call("expand", (values, indices.meta.dims)), axis, dtype, keepdim))


def _is_grown_along(padded: tuple[Any, ...], axis: Any) -> bool:
    """Whether zeros are put before and behind what there is along some of the axes alone."""
    _, paddings, value = padded
    pairs = enumerate(zip(paddings[::2], paddings[1::2]))
    grown = {k: pair for k, pair in pairs if not all(map(dm.is_zero, pair))}
    never_cuts = all(dm.is_never_negative(p) for pair in grown.values() for p in pair)
    return _is_zero(value) and never_cuts and grown.keys() <= set(axis)


def _is_zero(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) and value == 0


@rules.simplify("own_row", "x[arange(n), j] goes along an axis", "gather_nd")
def read_in_own_row(op: str, x: Any, index: Any) -> Any:
    found = _along_axis(x, index)
    if found is None:
        return None
    axis, places = found
    return Call("reshape", (Call("take_along_axis", (x, places, axis)), index.meta.dims[:-1]))


@rules.simplify("own_row", "", "scatter_nd_add")
def add_in_own_row(op: str, x: Any, index: Any, updates: Any, mode: str) -> Any:
    found = _along_axis(x, index)
    if found is None:
        return None
    axis, places = found
    values = Call("reshape", (updates, places.args[1]))
    return Call("put_along_axis", (x, places, values, axis, "add", True, mode))


def _along_axis(x: Any, index: Any) -> tuple[int, Call] | None:
    """The one axis of ``x`` along which places are computed, and these as indices along it.

    The index of each other axis is the number of the row itself.
    """
    args = made_by(index, "stack")
    if args is None or args[1] != index.ndim - 1 or not x.ndim == len(args[0]) == index.ndim:
        return None
    columns, dims = args[0], x.meta.dims
    for axis in range(x.ndim - 1, -1, -1):
        others = [k for k in range(x.ndim) if k != axis]
        if all(_is_own_number(columns[k], n, dims[k]) for n, k in enumerate(others)):
            shape = tuple(1 if k == axis else d for k, d in enumerate(dims))
            return axis, Call("reshape", (columns[axis], shape))
    return None


def _holds(dtype: Any, size: dm.DimLike) -> bool:
    """Whether a dtype has all ints from 0 to ``size``: others wrap around or are rounded."""
    if dt.kind(dtype) != "int" or dtype in dt.STORAGE:
        return False
    return dtype.itemsize == 8 or (isinstance(size, int) and size <= np.iinfo(dtype).max)


def _is_own_number(x: Any, axis: int, size: dm.DimLike) -> bool:
    """Whether ``x[..., i, ...]`` is ``i``, the index of that axis, which has that size."""
    if not dm.same(x.meta.dims[axis], size) or not _holds(x.dtype, size):
        return False
    expanded = made_by(x, "expand")
    if expanded is not None:
        axis -= x.ndim - expanded[0].ndim
        return axis >= 0 and _is_own_number(expanded[0], axis, size)
    viewed = made_by(x, "reshape", "cast")
    if viewed is not None and viewed[0].ndim == 1:
        others = (d for k, d in enumerate(x.meta.dims) if k != axis)
        return all(map(dm.is_one, others)) and _is_own_number(viewed[0], 0, size)
    if x.ndim != 1:
        return False
    if isinstance(x, Tensor):
        return len(x) <= _LONGEST and bool(np.array_equal(x.host, np.arange(len(x))))
    counted = made_by(x, "arange")
    return counted is not None and counted[0] == 0 and counted[2] == 1
