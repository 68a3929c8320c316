"""NumPy's functions that put elements in, leave some out, and choose among arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.arrangement import concatenate
from phix.array_functions.numpy_arguments import cast_as_allowed, operand, refuse, tensor
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import is_traced
from phix.core.axes import axes_of, axis_of
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    ConcretizationError,
    DTypeError,
    ShapeError,
)
from phix.core.expectations import never_empty
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


def _flat_or(a: Any, axis: Any) -> tuple[Any, int]:
    x = tensor(a)
    if axis is None:
        return ops.reshape(x, [-1]), 0
    return x, axis_of(axis, x.ndim)


def _positions(name: str, obj: Any, size: Any) -> np.ndarray:
    """The places that an index names along an axis, which are known."""
    if isinstance(obj, TensorBase):
        if is_traced(obj):
            raise ConcretizationError(
                f"{name}: obj says how large the result is and must be known while tracing, found "
                f"{obj.meta}; move elements with phix.ops.where or x.at[...] instead"
            )
        obj = obj.numpy()
    if not isinstance(size, int):
        raise ShapeError(f"{name}: the axis must have a known size, found {size}")
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    found = np.asarray(obj)
    if found.dtype == bool:
        if found.shape != (size,):
            raise ShapeError(
                f"{name}: a mask over {size} elements has that shape, not {found.shape}"
            )
        return np.flatnonzero(found)
    if found.size and found.dtype.kind not in "iu":
        raise DTypeError(f"{name}: places are ints or a mask of bools, found {obj!r:.80}")
    return found.astype(np.int64)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without the elements at the places ``obj`` along an axis."""
    x, at = _flat_or(arr, axis)
    size = x.shape[at]
    places = _positions("delete", obj, size)
    if np.any((places < -size) | (places >= size)):
        raise AttributeValueError(f"delete: {obj!r:.80} is out of range for {size} elements")
    left = np.delete(np.arange(size), places)
    return ops.index_select(x, left, at)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with ``values`` before the elements at the places ``obj`` along an axis."""
    x, at = _flat_or(arr, axis)
    size = x.shape[at]
    places = _positions("insert", obj, size)
    is_single = not places.ndim
    if np.any((places < -size) | (places > size)):
        raise AttributeValueError(f"insert: {obj!r:.80} is out of range for {size} elements")
    places = np.where(places < 0, places + size, places).reshape(-1)
    added = operand(values)
    added = tensor(added).astype(x.dtype)
    if is_single:
        added = _moved_first(added, x.ndim, at)
    count = places.size
    if count == 1 and added.ndim == x.ndim:
        count = added.shape[at]
        places = np.repeat(places, count)
    dims = [count if i == at else d for i, d in enumerate(x.shape)]
    added = ops.expand(added, dims)
    order = np.argsort(places, kind="stable")
    # where each element of the result comes from, the added ones behind those of x
    ends = places[order] + np.arange(count)
    source = np.empty(size + count, np.int64)
    is_added = np.zeros(size + count, bool)
    is_added[ends] = True
    source[is_added] = size + order
    source[~is_added] = np.arange(size)
    return ops.index_select(ops.concat([x, added], at), source, at)


def _moved_first(added: Any, rank: int, at: int) -> Any:
    """The axes of what is inserted at one place as NumPy has them: its first one becomes ``at``."""
    if added.ndim < rank:
        return ops.unsqueeze(added, [at]) if added.ndim == rank - 1 and rank > 1 else added
    order = [*range(1, at + 1), 0, *range(at + 1, added.ndim)]
    return ops.transpose(added, order) if added.ndim > 1 else added


def resize(a: Any, new_shape: Any) -> Any:
    """The elements over and over in an array of another shape."""
    wanted = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    if any(isinstance(d, int) and d < 0 for d in wanted):
        raise AttributeValueError(f"resize: sizes are at least 0, found {new_shape}")
    x = ops.reshape(tensor(a), [-1])
    count: Any = 1
    for d in wanted:
        count = count * d
    size: Any = dm.maximum(x.meta.dims[0], 1)
    number = ops.remainder(ops.arange(0, count, 1, dt.int64), size)
    return ops.reshape(ops.gather(never_empty(x, 0, [0]), number, 0), wanted)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """What lies between the first (f) and the last (b) elements that are not 0, along the axes."""
    x, ends = tensor(filt), trim.lower()
    if ends not in ("f", "b", "fb", "bf"):
        raise AttributeValueError(f"trim_zeros: trim is made of 'f' and 'b', found {trim!r}")
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x
    held = ops.nonzero(x).numpy()
    if not len(held):
        return x[tuple(slice(0 if i in axes else None) for i in range(x.ndim))]
    first = [int(n) if "f" in ends else None for n in held.min(0)]
    last = [int(n) + 1 if "b" in ends else None for n in held.max(0)]
    return x[tuple(slice(first[i], last[i]) if i in axes else slice(None) for i in range(x.ndim))]


def block(arrays: Any) -> Any:
    """One array of nested lists of arrays: the innermost along the last axis."""
    depth = _depth(arrays)

    def ranks(v: Any) -> int:
        return max(map(ranks, v)) if isinstance(v, list) else int(tensor(v).ndim)

    rank = max(depth, ranks(arrays))

    def joined(v: Any, level: int) -> Any:
        if isinstance(v, list):
            return concatenate([joined(part, level + 1) for part in v], rank - depth + level)
        x = tensor(v)
        return ops.reshape(x, (*(1,) * (rank - x.ndim), *x.shape))

    return joined(arrays, 0)


def _depth(value: Any) -> int:
    if not isinstance(value, list):
        return 0
    if not value:
        raise ArgumentError("block: a list is empty")
    depths = {_depth(v) for v in value}
    if len(depths) > 1:
        raise ArgumentError("block: the lists are not nested equally deep")
    return depths.pop() + 1


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Of each place the element of the array whose number stands in a."""
    refuse(out=out)
    number = tensor(a)
    parts = ops.broadcast_tensors([number, *_together(choices)])
    number, rows = parts[0].astype(dt.int64), ops.stack(list(parts[1:]), 0)
    count = len(parts) - 1
    if mode not in ("raise", "wrap", "clip"):
        raise AttributeValueError(f"choose: mode is raise, wrap or clip, found {mode!r:.80}")
    if mode == "wrap":
        number = ops.remainder(number, count)
    elif mode == "clip" or is_traced(number):
        number = ops.clip(number, 0, count - 1)
    elif number.size and (number.numpy().min() < 0 or number.numpy().max() >= count):
        raise AttributeValueError(f"choose: a has numbers that are none of {count} choices")
    return ops.take_along_axis(rows, ops.unsqueeze(number, [0]), 0)[0]


def _together(arrays: Any) -> list[Any]:
    """The arrays in one dtype."""
    parts = [tensor(v) for v in arrays]
    dtype = parts[0].dtype
    for p in parts[1:]:
        dtype = dt.promote(dtype, p.dtype)
    return [p.astype(dtype) for p in parts]


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The element of the first array whose condition holds, else ``default``."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"select: as many conditions as choices, and one at least; found {len(condlist)} and "
            f"{len(choicelist)}"
        )
    found = operand(default)
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        found = ops.where(tensor(condition), operand(choice), found)
    return found


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts along an axis, which is gone in them."""
    array = tensor(x)
    at = axis_of(axis, array.ndim)
    if not dm.is_known(array.shape[at]):
        raise ShapeError(f"unstack: axis {axis} of {array.meta} must have a known size")
    return tuple(array[(slice(None),) * at + (i,)] for i in range(array.shape[at]))


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The array with one axis put before another."""
    x = tensor(a)
    at = axis_of(axis, x.ndim)
    to = operator.index(start)
    to = to + x.ndim if to < 0 else to
    if not 0 <= to <= x.ndim:
        raise AttributeValueError(f"rollaxis: start {start} is out of range for {x.ndim} axes")
    order = [i for i in range(x.ndim) if i != at]
    order.insert(to - (at < to), at)
    return ops.transpose(x, order)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours among all elements, with more in front and behind."""
    x = ops.reshape(tensor(ary), [-1])
    parts = [
        None if v is None else ops.reshape(cast_as_allowed(tensor(v), x.dtype, "same_kind"), [-1])
        for v in (to_begin, to_end)
    ]
    whole = [parts[0], x[1:] - x[:-1], parts[1]]
    return concatenate([p for p in whole if p is not None])


def _conditions(x: Any, condlist: Any) -> Sequence[Any]:
    """What is listed, the rows of an array of more axes than x, or one condition as it is."""
    if isinstance(condlist, (list, tuple)):
        is_one = x.ndim and condlist and isinstance(condlist[0], (bool, int, np.bool_))
        return [condlist] if is_one else condlist
    if np.ndim(condlist) > x.ndim:
        return [condlist[i] for i in range(len(condlist))]
    return [condlist]


def piecewise_of(x: Any, condlist: Any, values: Sequence[Any]) -> Any:
    """Of the last condition that holds the value, 0 where none does; one more is for that."""
    conditions = [tensor(c) != 0 for c in _conditions(x, condlist)]
    found = ops.full_like(x, 0)
    if len(values) == len(conditions) + 1:
        found = ops.expand(tensor(values[-1]).astype(x.dtype), x.shape)
    elif len(values) != len(conditions):
        raise ArgumentError(
            f"piecewise: {len(conditions)} conditions and {len(values)} functions; there are as "
            "many of these, or one more"
        )
    for condition, value in zip(conditions, values):
        found = ops.where(condition, tensor(value).astype(x.dtype), found)
    return found


NAMES: dict[str, Function] = {
    "delete": delete, "insert": insert, "resize": resize, "trim_zeros": trim_zeros,
    "block": block, "choose": choose, "select": select, "unstack": unstack,
    "rollaxis": rollaxis, "ediff1d": ediff1d,
}  # fmt: skip
