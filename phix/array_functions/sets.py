"""NumPy's functions of arrays as sets. Sizes of results are known when programs run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.array_functions import fixed_sizes
from phix.array_functions.numpy_arguments import tensor
from phix.array_functions.selection import flatnonzero
from phix.array_functions.sorting import isin, sort
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
    axis: Any = None, *, equal_nan: bool = True, sorted: bool = True, size: Any = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """The values in order, and on demand first places, which each element is, and counts. Without
    ``equal_nan`` each NaN is a value of its own.

    With ``size``, which is JAX's, there are as many values: the first ones in order, and behind
    them ``fill_value``, in the dtype of ``ar``, or the least value where that is None. Their places
    are that of the least value then, and they are there 0 times. What each element is may be beyond
    the size. See :func:`phix.numpy.nonzero` for what ``size`` may be.

    Args:
        ar: array; axis: None, for its elements, or the axis of slices that are compared.

    Returns:
        The values, [size] or with ``size`` slices along the axis; first places and counts,
        int64 [size]; which each element is, int64 of the shape of ``ar``, or one a slice.

    Raises:
        AttributeValueError: ``ar`` holds nothing, ``size`` is not 0, and no ``fill_value`` is
            given; or the size is negative.

    >>> import phix.numpy as np
    >>> [v.tolist() for v in np.unique([3, 1, 3], size=4, fill_value=0, return_counts=True)]
    [[1, 3, 0, 0], [1, 2, 0, 0]]
    """
    x, asked = tensor(ar), (bool(return_index), bool(return_inverse), bool(return_counts))
    if size is not None:
        return _found(fixed_sizes.unique("unique", x, asked, axis, equal_nan, size, fill_value))
    if axis is not None and not equal_nan and dt.is_differentiable(x.dtype):
        raise NotOfferedError("equal_nan=False beside axis=")
    if axis is None and (dt.is_complex(x.dtype) or not equal_nan):
        out, index, inverse, counts = (
            v if a else None for v, a in zip(_apart(x, bool(equal_nan)), (True, *asked))
        )
    else:
        axes = [] if axis is None else [axis_of(axis, x.ndim)]
        out, index, inverse, counts = ops.unique(x, *asked, axes)
    if axis is None and inverse is not None:
        inverse = ops.reshape(inverse, x.shape)
    return _found((out, index, inverse, counts))


def _found(parts: tuple[Any, ...]) -> Any:
    """Those that were asked for; one alone without a tuple around it."""
    found = tuple([f for f in parts if f is not None])
    return found if len(found) > 1 else found[0]


def _apart(x: Any, equal_nan: bool = False) -> tuple[Any, Any, Any, Any]:
    """The values of x that differ, in order: each NaN is one of its own, as the standard has it;
    their first places, which one each element is, and how many each is."""
    if not dt.is_differentiable(x.dtype):
        return unique(x, True, True, True)
    flat = ops.reshape(x, [-1])
    size: Any = flat.shape[0]
    order, ordered, is_new = fixed_sizes.sorted_groups(flat, equal_nan)
    if isinstance(size, int) and not size:
        return flat, order, order, order
    starts = flatnonzero(is_new)
    number = ops.cumsum(is_new.astype(dt.int64), 0) - 1
    inverse = ops.put_along_axis(ops.full_like(order, 0), order, number, 0)
    ends = ops.concat([starts, ops.full((1,), size, dt.int64)], 0)[1:]
    return ops.gather(ordered, starts, 0), ops.gather(order, starts, 0), inverse, ends - starts


def _all_of(name: str, x: Any, size: Any, fill: Any) -> tuple[Any, Any, Any, Any]:
    """What :func:`unique_all` gives, to the functions that give some of it."""
    if size is not None:
        return fixed_sizes.unique(name, x, (True, True, True), None, False, size, fill)
    values, indices, inverse, counts = _apart(x)
    return values, indices, ops.reshape(inverse, x.shape), counts


def unique_all(x: Any, *, size: Any = None, fill_value: Any = None) -> UniqueAllResult:
    """The values in order, the first place of each, which one each element is, how many each is.
    NaNs differ from each other. ``size`` and ``fill_value`` are as in :func:`unique`."""
    return UniqueAllResult(*_all_of("unique_all", tensor(x), size, fill_value))


def unique_counts(x: Any, *, size: Any = None, fill_value: Any = None) -> UniqueCountsResult:
    """The values in order, and how many elements have each; see :func:`unique_all`."""
    values, _, _, counts = _all_of("unique_counts", tensor(x), size, fill_value)
    return UniqueCountsResult(values, counts)


def unique_inverse(x: Any, *, size: Any = None, fill_value: Any = None) -> UniqueInverseResult:
    """The values in order, and which of them each element is; see :func:`unique_all`."""
    values, _, inverse, _ = _all_of("unique_inverse", tensor(x), size, fill_value)
    return UniqueInverseResult(values, inverse)


def unique_values(x: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The values in order; see :func:`unique_all`."""
    return _all_of("unique_values", tensor(x), size, fill_value)[0]


def _flat_unique(a: Any) -> Any:
    return unique(ops.reshape(tensor(a), [-1]))


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *,
    size: Any = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The values that both have, in order; with ``return_indices`` their first places in both.

    With ``size``, as in :func:`unique`, behind them is ``fill_value``, or the least of them, 0
    where there is none, and behind the places the sizes of ``ar1`` and ``ar2``.

    >>> import phix.numpy as np
    >>> np.intersect1d([3, 1, 2], [2, 3], size=3, fill_value=-1).tolist()
    [2, 3, -1]
    """
    x, y = (ops.reshape(tensor(a), [-1]) for a in (ar1, ar2))
    if size is not None:
        return fixed_sizes.intersect1d(x, y, bool(return_indices), size, fill_value)
    if not return_indices:
        (x, y) = (x, y) if assume_unique else (unique(x), unique(y))
        return sort(ops.gather(x, flatnonzero(isin(x, y)), 0))
    (x, first), (y, second) = (unique(v, return_index=True) for v in (x, y))
    in_x, in_y = flatnonzero(isin(x, y)), flatnonzero(isin(y, x))
    return ops.gather(x, in_x, 0), ops.gather(first, in_x, 0), ops.gather(second, in_y, 0)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: Any = None, fill_value: Any = None
) -> Any:
    """The values of the first that the second has not; in order unless ``assume_unique``.

    With ``size``, as in :func:`unique`, behind them is ``fill_value``, or 0.

    >>> import phix.numpy as np
    >>> np.setdiff1d([3, 1, 2], [2], size=3).tolist()
    [1, 3, 0]
    """
    x = ops.reshape(tensor(ar1), [-1])
    if size is not None:
        y = ops.reshape(tensor(ar2), [-1])
        return fixed_sizes.setdiff1d(x, y, bool(assume_unique), size, fill_value)
    x = x if assume_unique else unique(x)
    return ops.gather(x, flatnonzero(isin(x, ar2, invert=True)), 0)


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: Any = None, fill_value: Any = None
) -> Any:
    """The values that one of the two has, in order.

    With ``size``, as in :func:`unique`, behind them is ``fill_value``, or the least of them, 0
    where there is none.

    >>> import phix.numpy as np
    >>> np.setxor1d([3, 1, 2], [2, 5], size=4).tolist()
    [1, 3, 5, 1]
    """
    if size is not None:
        x, y = (ops.reshape(tensor(a), [-1]) for a in (ar1, ar2))
        return fixed_sizes.setxor1d(x, y, size, fill_value)
    x, y = (_flat_unique(a) for a in (ar1, ar2))
    parts = [ops.gather(a, flatnonzero(isin(a, b, invert=True)), 0) for a, b in ((x, y), (y, x))]
    return sort(ops.concat(parts, 0))


def union1d(ar1: Any, ar2: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The values that one of the two has, or both, in order. With ``size``, as in :func:`unique`,
    behind them is ``fill_value``, or the least of them.

    >>> import phix.numpy as np
    >>> np.union1d([3, 1], [3, 2], size=4).tolist()
    [1, 2, 3, 1]
    """
    both = ops.concat([ops.reshape(tensor(a), [-1]) for a in (ar1, ar2)], 0)
    if size is None:
        return unique(both)
    return fixed_sizes.unique("union1d", both, (False,) * 3, None, True, size, fill_value)[0]


NAMES: dict[str, Function] = {
    "unique": unique,
    "unique_all": unique_all, "unique_counts": unique_counts, "unique_inverse": unique_inverse,
    "unique_values": unique_values, "isin": isin, "intersect1d": intersect1d,
    "setdiff1d": setdiff1d, "setxor1d": setxor1d, "union1d": union1d,
}  # fmt: skip
