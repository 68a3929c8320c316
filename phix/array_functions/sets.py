"""NumPy's functions of arrays as sets. Sizes of results are known when programs run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.array_functions.numpy_arguments import tensor
from phix.array_functions.selection import flatnonzero
from phix.array_functions.sorting import argsort, searchsorted, sort
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.numpy_protocol import NotOfferedError

Function = Callable[..., Any]


class UniqueAllResult(NamedTuple):
    """What :func:`unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What :func:`unique_counts` gives."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What :func:`unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: Any = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The values in order, and on demand first places, which each element is, and counts. Without
    ``equal_nan`` each NaN is a value of its own."""
    x = tensor(ar)
    if axis is not None and not equal_nan and dt.is_differentiable(x.dtype):
        raise NotOfferedError("equal_nan=False beside axis=")
    asked = (True, return_index, return_inverse, return_counts)
    if axis is None and (dt.is_complex(x.dtype) or not equal_nan):
        out, index, inverse, counts = (
            v if a else None for v, a in zip(_apart(x, bool(equal_nan)), asked)
        )
    else:
        axes = [] if axis is None else [axis_of(axis, x.ndim)]
        out, index, inverse, counts = ops.unique(x, *asked[1:], axes)
    if axis is None and inverse is not None:
        inverse = ops.reshape(inverse, x.shape)
    found = tuple(f for f in (out, index, inverse, counts) if f is not None)
    return found if len(found) > 1 else out


def _apart(x: Any, equal_nan: bool = False) -> tuple[Any, Any, Any, Any]:
    """The values of x that differ, in order: each NaN is one of its own, as the standard has it;
    their first places, which one each element is, and how many each is."""
    if not dt.is_differentiable(x.dtype):
        return unique(x, True, True, True)
    flat = ops.reshape(x, [-1])
    order = argsort(flat)
    size: Any = flat.shape[0]
    if isinstance(size, int) and not size:
        return flat, order, order, order
    ordered = ops.gather(flat, order, 0)
    before = ops.roll(ordered, [1], [0])
    differs = ops.not_equal(ordered, before)
    if equal_nan:
        differs = ops.logical_and(differs, ops.logical_not(ops.isnan(ordered) & ops.isnan(before)))
    is_new = ops.logical_or(differs, ops.equal(ops.arange(0, size, 1, dt.int64), 0))
    starts = flatnonzero(is_new)
    number = ops.cumsum(is_new.astype(dt.int64), 0) - 1
    inverse = ops.put_along_axis(ops.full_like(order, 0), order, number, 0)
    ends = ops.concat([starts, ops.full((1,), size, dt.int64)], 0)[1:]
    return ops.gather(ordered, starts, 0), ops.gather(order, starts, 0), inverse, ends - starts


def unique_all(x: Any) -> UniqueAllResult:
    """The values in order, the first place of each, which one each element is, how many each is.
    NaNs differ from each other."""
    x = tensor(x)
    values, indices, inverse, counts = _apart(x)
    return UniqueAllResult(values, indices, ops.reshape(inverse, x.shape), counts)


def unique_counts(x: Any) -> UniqueCountsResult:
    """The values in order, and how many elements have each."""
    values, _, _, counts = _apart(tensor(x))
    return UniqueCountsResult(values, counts)


def unique_inverse(x: Any) -> UniqueInverseResult:
    """The values in order, and which of them each element is."""
    x = tensor(x)
    values, _, inverse, _ = _apart(x)
    return UniqueInverseResult(values, ops.reshape(inverse, x.shape))


def unique_values(x: Any) -> Any:
    """The values in order."""
    return _apart(tensor(x))[0]


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Whether each element is one of ``test_elements``; ``invert``: whether it is none."""
    x, among = tensor(element), ops.reshape(tensor(test_elements), [-1])
    size: Any = among.shape[0]
    ordered = sort(among, 0)
    place = ops.reshape(searchsorted(ordered, x), [-1])
    padded = ops.concat([ordered, ops.full((1,), 0, ordered.dtype)], 0)  # there may be none
    found = ops.equal(ops.gather(padded, place, 0), ops.reshape(x, [-1]))
    found = ops.reshape(ops.logical_and(found, ops.less_than(place, size)), x.shape)
    return ops.logical_not(found) if invert else found


def _flat_unique(a: Any) -> Any:
    return unique(ops.reshape(tensor(a), [-1]))


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The values that both have, in order; with ``return_indices`` their first places in both."""
    x, y = (ops.reshape(tensor(a), [-1]) for a in (ar1, ar2))
    if not return_indices:
        (x, y) = (x, y) if assume_unique else (unique(x), unique(y))
        return sort(ops.gather(x, flatnonzero(isin(x, y)), 0))
    (x, first), (y, second) = (unique(v, return_index=True) for v in (x, y))
    in_x, in_y = flatnonzero(isin(x, y)), flatnonzero(isin(y, x))
    return ops.gather(x, in_x, 0), ops.gather(first, in_x, 0), ops.gather(second, in_y, 0)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values of the first that the second has not; in order unless ``assume_unique``."""
    x = ops.reshape(tensor(ar1), [-1])
    x = x if assume_unique else unique(x)
    return ops.gather(x, flatnonzero(isin(x, ar2, invert=True)), 0)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values that one of the two has, in order."""
    x, y = (_flat_unique(a) for a in (ar1, ar2))
    parts = [ops.gather(a, flatnonzero(isin(a, b, invert=True)), 0) for a, b in ((x, y), (y, x))]
    return sort(ops.concat(parts, 0))


def union1d(ar1: Any, ar2: Any) -> Any:
    """The values that one of the two has, or both, in order."""
    return unique(ops.concat([ops.reshape(tensor(a), [-1]) for a in (ar1, ar2)], 0))


NAMES: dict[str, Function] = {
    "unique": unique,
    "unique_all": unique_all, "unique_counts": unique_counts, "unique_inverse": unique_inverse,
    "unique_values": unique_values, "isin": isin, "intersect1d": intersect1d,
    "setdiff1d": setdiff1d, "setxor1d": setxor1d, "union1d": union1d,
}  # fmt: skip
