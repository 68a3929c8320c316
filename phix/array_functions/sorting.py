"""NumPy's functions about order: sorting, parts of it, and places in what is sorted."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions.lexicographic import in_order
from phix.array_functions.numpy_arguments import given, refuse, tensor
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import beneath, is_traced
from phix.core.axes import axis_of
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import expect, expect_dims

Function = Callable[..., Any]


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    x = tensor(a)
    if axis is None:
        return ops.reshape(x, [-1]), 0
    return x, axis_of(axis, x.ndim)


_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _unordered(a: Any, axis: Any, order: Any, kind: Any = None) -> tuple[Any, int]:
    """What is to be sorted, stable in every kind; of fields, which ``order`` would name, there are
    none."""
    refuse(order=order)
    if kind not in _KINDS:
        raise AttributeValueError(f"kind is one of {', '.join(_KINDS[1:])}, found {kind!r:.80}")
    return _along(a, axis)


def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The elements along an axis in order, NaN as the largest; of complex numbers the real parts
    first."""
    x, at = _unordered(a, axis, order, kind)
    if dt.is_complex(x.dtype):
        return ops.take_along_axis(x, argsort(x, at, descending=descending), at)
    return ops.sort(x, at, bool(descending))


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
    descending: bool = False,
) -> Any:  # fmt: skip
    """The places of the elements in order; equal ones keep theirs."""
    x, at = _unordered(a, axis, order, kind)
    if dt.is_complex(x.dtype):
        return in_order(x, at, bool(descending))
    return ops.argsort(x, at, bool(descending), True)[1]


def sort_complex(a: Any) -> Any:
    """The elements along the last axis as complex numbers, sorted by real, then imaginary part."""
    x = tensor(a)
    return sort(x.astype(dt.complex_dtype(x.dtype)))


def partition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The elements such that the kth is the one that sorting puts there: all of them sorted."""
    return sort(_with_kth(a, kth, axis), axis, order=order)


def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """The places of the elements of :func:`partition`."""
    return argsort(_with_kth(a, kth, axis), axis, order=order)


def _with_kth(a: Any, kth: Any, axis: Any) -> Any:
    """``a``, which has a kth element along the axis."""
    x, at = _along(a, axis)
    size, found = x.shape[at], tensor(a)
    for number in kth if isinstance(kth, (list, tuple)) else (kth,):
        place = operator.index(number)
        refusal = f"kth {number} is out of range for {dm.dim_text(size)} elements"
        if isinstance(size, int) and not -size <= place < size:
            raise AttributeValueError(refusal)
        found = expect(found, refusal, size + place, size - 1 - place)
    return found


def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The places in the order of the last key, where equal of the one before, and so on."""
    rows = [tensor(k) for k in keys]
    if not rows:
        raise AttributeValueError("lexsort: at least one key must be given")
    if not rows[0].ndim:
        return ops.full((), 0, dt.int64)
    at = axis_of(axis, rows[0].ndim)
    found = argsort(rows[0], at)
    for row in rows[1:]:
        refusal = f"lexsort: keys have one shape, found {rows[0].meta} and {row.meta}"
        row = expect_dims(row, refusal, rows[0].meta.dims)
        found = ops.take_along_axis(found, argsort(ops.take_along_axis(row, found, at), at), at)
    return found


def _key(x: Any, dtype: Any) -> Any:
    """Numbers in the order of x that the op takes, for what is compared in ``dtype``."""
    if dtype == dt.uint64:
        held = ops.bitcast(x.astype(dtype), dt.int64)
        return ops.bitwise_xor(held, ops.full((), -(2**63), dt.int64))
    if dtype in (dt.int32, dt.int64, dt.float32, dt.float64):
        return x.astype(dtype)
    return x.astype(dt.float32 if dt.is_float(dtype) else dt.int64)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where in the sorted vector a each element of v belongs: before (left) or behind (right)
    equal ones."""
    if side not in ("left", "right"):
        raise AttributeValueError(f"searchsorted: side is 'left' or 'right', found {side!r:.80}")
    x, values = tensor(a), tensor(v)
    if x.ndim != 1:
        raise ShapeError(f"searchsorted: a is a vector, found {x.meta}")
    if given(sorter):
        x = ops.gather(x, tensor(sorter), 0)
    dtype = dt.promote(x.dtype, values.dtype)
    if dt.is_complex(dtype):
        return _searched_among_complex(x.astype(dtype), values.astype(dtype), side)
    if dtype == dt.int64 and dt.uint64 in (x.dtype, values.dtype):
        return _searched_beside_signed(x, values, side)
    flat = ops.reshape(_key(values, dtype), [-1])
    found = ops.searchsorted(_key(x, dtype), flat, False, side == "right")
    return ops.reshape(found, values.shape)


def _searched_beside_signed(x: Any, values: Any, side: str) -> Any:
    """As :func:`searchsorted`, where one is uint64, the other signed: negative ones are first."""
    first, second = (ops.where(ops.less_than(v, 0), 0, v).astype(dt.uint64) for v in (x, values))
    found = searchsorted(first, second, side)
    negative = ops.sum(ops.less_than(x, 0).astype(dt.int64))
    return ops.where(ops.less_than(values, 0), 0, ops.maximum(found, negative))


def _searched_among_complex(x: Any, values: Any, side: str) -> Any:
    """As :func:`searchsorted`: how many of x are before each value where both are sorted."""
    flat = ops.reshape(values, [-1])
    left, count = side == "left", x.shape[0]
    parts = [flat, x] if left else [x, flat]
    order = in_order(ops.concat(parts, 0), 0, False)
    is_x = order >= flat.shape[0] if left else order < count
    before = ops.put_along_axis(
        ops.full_like(order, 0), order, ops.cumsum(is_x.astype(dt.int64)), 0
    )
    found = before[: flat.shape[0]] if left else before[count:]
    return ops.reshape(found, values.shape)


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Whether each element is one of ``test_elements``; ``invert``: whether it is none."""
    if kind not in (None, "sort", "table"):
        raise AttributeValueError(f"isin: kind is sort or table, found {kind!r:.80}")
    x, among = tensor(element), ops.reshape(tensor(test_elements), [-1])
    size: Any = among.shape[0]
    ordered = sort(among, 0)
    place = ops.reshape(searchsorted(ordered, x), [-1])
    padded = ops.concat([ordered, ops.full((1,), 0, ordered.dtype)], 0)  # there may be none
    found = ops.equal(ops.gather(padded, place, 0), ops.reshape(x, [-1]))
    found = ops.reshape(ops.logical_and(found, ops.less_than(place, size)), x.shape)
    return ops.logical_not(found) if invert else found


def is_rising(edges: Any) -> bool | None:
    """Whether no edge is below the one before it; None where that is not known yet."""
    if is_traced(edges):
        return None
    known = beneath(edges).numpy()
    return not bool((known[1:] < known[:-1]).any())


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The number of the bin of each element; bins go up or down."""
    edges, values = tensor(bins), tensor(x)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins are a vector, found {edges.meta}")
    if is_rising(edges) is False and is_rising(ops.flip(edges, [0])) is False:
        raise AttributeValueError(f"digitize: bins go up or down, found {bins!r:.80}")
    side = "left" if right else "right"
    up = searchsorted(edges, values, side)
    down = edges.shape[0] - searchsorted(ops.flip(edges, [0]), values, side)
    goes_down = ops.any(edges[:1] > edges[-1:])  # not where there is none
    return ops.where(goes_down, down, up)


NAMES: dict[str, Function] = {
    "sort": sort, "argsort": argsort, "sort_complex": sort_complex, "partition": partition,
    "argpartition": argpartition, "lexsort": lexsort, "searchsorted": searchsorted,
    "digitize": digitize,
}  # fmt: skip
