"""NumPy's indices: of diagonals and triangles, in several axes and in one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions.numpy_arguments import tensor
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import is_traced
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_equal

Function = Callable[..., Any]


def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors as indices of a grid: each along an axis of its own."""
    found = []
    for number, arg in enumerate(args):
        x = tensor(arg)
        if x.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, found {x.meta}")
        x = ops.nonzero(x)[:, 0] if x.dtype == dt.bool_ else x
        x = x.astype(dt.int64) if dm.is_zero(x.size) else x
        found.append(ops.reshape(x, [-1 if i == number else 1 for i in range(len(args))]))
    return tuple(found)


def diag_indices(n: Any, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array of ``ndim`` axes of size ``n``."""
    return (ops.arange(0, n, 1, dt.int64),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Those of an array."""
    x = tensor(arr)
    refusal = f"diag_indices_from: all axes must be of one size, found {x.meta}"
    if x.ndim < 2:
        raise ShapeError(refusal)
    size = x.shape[0]
    indices = diag_indices(size, x.ndim)
    pairs = [(d, size) for d in x.meta.dims[1:]]
    return tuple([expect_equal(i, refusal, *pairs) for i in indices])


def tril_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Any, Any]:
    """The indices of the lower triangle of an (n, m) matrix, up to the k-th diagonal."""
    rows = ops.tril_indices(n, n if m is None else m, k)
    return rows[0], rows[1]


def triu_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Any, Any]:
    """The indices of the upper triangle of an (n, m) matrix, from the k-th diagonal on."""
    rows = ops.triu_indices(n, n if m is None else m, k)
    return rows[0], rows[1]


def _of_matrix(function: Function, arr: Any, k: int) -> tuple[Any, Any]:
    x = tensor(arr)
    if x.ndim != 2:
        raise ShapeError(f"the indices of a triangle are those of a matrix, found {x.meta}")
    found: tuple[Any, Any] = function(x.shape[0], k, x.shape[1])
    return found


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the lower triangle of a matrix."""
    return _of_matrix(tril_indices, arr, k)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the upper triangle of a matrix."""
    return _of_matrix(triu_indices, arr, k)


def mask_indices(n: int, mask_func: Any, k: Any = 0) -> tuple[Any, Any]:
    """The indices at which ``mask_func(ones, k)`` of an (n, n) matrix is not 0."""
    rows = ops.nonzero(mask_func(ops.full((n, n), 1, dt.int64), k))
    return rows[:, 0], rows[:, 1]


def _dims(name: str, dims: Any, order: str) -> list[Any]:
    if order not in ("C", "F"):
        raise AttributeValueError(f"{name}: order is 'C' or 'F', found {order!r:.80}")
    each = dims if isinstance(dims, (list, tuple)) else (dims,)
    found = [d if isinstance(d, dm.Dim) else operator.index(d) for d in each]
    if any(not isinstance(d, dm.Dim) and d < 0 for d in found):
        raise AttributeValueError(f"{name}: sizes are at least 0, found {dims}")
    return found


def _ints(name: str, value: Any) -> Any:
    x = tensor(value)
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"{name}: indices are ints, found {x.meta}")
    return x.astype(dt.int64)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """The place in the flattened array of indices along its axes, of which the last goes on from
    one place to the next, or with order "F" the first."""
    sizes = _dims("ravel_multi_index", dims, order)
    parts = [_ints("ravel_multi_index", v) for v in multi_index]
    modes = list(mode) if isinstance(mode, (list, tuple)) else [mode] * len(sizes)
    if len(parts) != len(sizes) or len(modes) != len(sizes):
        raise AttributeValueError(
            f"ravel_multi_index: {len(sizes)} axes, found {len(parts)} indices"
        )
    found: Any = 0
    rows = list(zip(parts, sizes, modes))
    for part, size, way in rows if order == "C" else reversed(rows):
        found = found * size + _within(part, size, way)
    return found


def _within(part: Any, size: Any, way: str) -> Any:
    if way == "wrap":
        return ops.remainder(part, size)
    if way not in ("clip", "raise"):
        raise AttributeValueError(f"mode is raise, wrap or clip, found {way!r:.80}")
    if way == "raise" and not is_traced(part) and not isinstance(size, dm.Dim):
        held = part.numpy()
        if held.size and (held.min() < 0 or held.max() >= size):
            raise AttributeValueError(f"an index is out of range for an axis of size {size}")
        return part
    return ops.minimum(ops.maximum(part, 0), size - 1)  # clip takes no size that is unknown


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """The indices along the axes of places in the flattened array, where the last axis goes on from
    one to the next, or with order "F" the first; of places that only a run tells, those below 0
    count from its end, and those outside are the nearest inside."""
    sizes = _dims("unravel_index", shape, order)
    rest = _ints("unravel_index", indices)
    whole: Any = 1
    for size in sizes:
        whole *= size
    if not is_traced(rest) and not isinstance(whole, dm.Dim):
        held = rest.numpy()
        if held.size and (held.min() < 0 or held.max() >= whole):
            raise AttributeValueError(f"unravel_index: an index is out of range for {tuple(sizes)}")
    else:
        from_start = ops.where(rest < 0, rest + whole, rest)
        rest = ops.maximum(ops.where(from_start < whole, from_start, whole - 1), 0)
    found = []
    for size in reversed(sizes) if order == "C" else sizes:
        found.append(ops.remainder(rest, size))
        rest = ops.floor_divide(rest, size)
    return tuple(reversed(found) if order == "C" else found)


NAMES: dict[str, Function] = {
    "ix_": ix_, "diag_indices_from": diag_indices_from, "tril_indices_from": tril_indices_from,
    "triu_indices_from": triu_indices_from, "ravel_multi_index": ravel_multi_index,
    "unravel_index": unravel_index,
}  # fmt: skip
# What is made of sizes alone, so that NumPy never hands it over.
MADE: dict[str, Function] = {
    "diag_indices": diag_indices, "tril_indices": tril_indices, "triu_indices": triu_indices,
    "mask_indices": mask_indices,
}  # fmt: skip
