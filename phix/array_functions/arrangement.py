"""NumPy's functions that put tensors together, take them apart and arrange their elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import axes_of, axis_of, named, operand, refuse, tensor
from phix.array_functions.numpy_arguments import with_dtype as cast
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


# -- together ------------------------------------------------------------------------------------
def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Any:
    refuse(out=out, casting=casting)
    parts = [tensor(a) for a in arrays]
    if axis is None:
        parts, axis = [ops.reshape(p, [-1]) for p in parts], 0
    return cast(ops.concat(parts, axis_of(axis, parts[0].ndim)), dtype)


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Any:
    refuse(out=out, casting=casting)
    return cast(ops.stack([tensor(a) for a in arrays], axis), dtype)


def vstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    parts = [atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def dstack(tup: Any) -> Any:
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup: Any) -> Any:
    parts = [tensor(a) for a in tup]
    return concatenate([ops.reshape(p, (-1, 1)) if p.ndim < 2 else p for p in parts], 1)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate([arr, values], axis)


def _at_least(rank: int, place: Callable[[Any], Any]) -> Function:
    def at_least(*arys: Any) -> Any:
        found = [place(t) if (t := tensor(a)).ndim < rank else t for a in arys]
        return found[0] if len(found) == 1 else tuple(found)

    return at_least


atleast_1d = _at_least(1, lambda x: ops.reshape(x, [1]))
atleast_2d = _at_least(2, lambda x: ops.reshape(x, (1,) * (2 - x.ndim) + tuple(x.shape)))
atleast_3d = _at_least(
    3, lambda x: ops.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])
)


# -- apart ---------------------------------------------------------------------------------------
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    x = tensor(ary)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    if isinstance(indices_or_sections, (Sequence, np.ndarray)):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        each, more = divmod(size, count)
        ends = [(each + 1) * k if k < more else each * k + more for k in range(1, count)]
    bounds = [slice(*pair) for pair in zip([0, *ends], [*ends, size])]
    return [x[(slice(None),) * at + (b,)] for b in bounds]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    x = tensor(ary)
    if not isinstance(indices_or_sections, (Sequence, np.ndarray)):
        size = x.shape[axis_of(axis, x.ndim)]
        if size % operator.index(indices_or_sections):
            raise ShapeError(
                f"split: {size} elements do not make {indices_or_sections} equal parts; use "
                "np.array_split"
            )
    return array_split(x, indices_or_sections, axis)


def _split_along(number: int) -> Function:
    def split_along(ary: Any, indices_or_sections: Any) -> list[Any]:
        x = tensor(ary)
        return split(x, indices_or_sections, 0 if x.ndim == 1 else number)

    return split_along


# -- shapes --------------------------------------------------------------------------------------
def reshape(
    a: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    if order != "C":
        raise NotOfferedError(f"order={order!r}")
    wanted = newshape if shape is None else shape
    x = tensor(a)
    if isinstance(wanted, int):
        wanted = (wanted,)
    wanted = tuple(wanted)
    if any(isinstance(d, int) and d == 0 for d in wanted):  # in PHI a 0 copies the dim of x
        return ops.expand(ops.full((1,) * len(wanted), 0, x.dtype), wanted)
    return ops.reshape(x, wanted)


def ravel(a: Any, order: str = "C") -> Any:
    return reshape(a, (-1,), order)


def transpose(a: Any, axes: Any = None) -> Any:
    x = tensor(a)
    return ops.transpose(x, axes_of(axes, x.ndim) if axes is not None else range(x.ndim)[::-1])


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    x = tensor(a)
    order = list(range(x.ndim))
    i, j = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[i], order[j] = j, i
    return ops.transpose(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    x = tensor(a)
    sources, targets = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(sources) != len(targets):
        raise ArgumentError(f"moveaxis: {source} and {destination} are not as many axes")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return ops.transpose(x, order)


def matrix_transpose(x: Any, /) -> Any:
    return swapaxes(x, -1, -2)


def expand_dims(a: Any, axis: Any) -> Any:
    x = tensor(a)
    count = len(axis) if isinstance(axis, Sequence) else 1
    added = axes_of(axis, x.ndim + count)
    old = iter(x.shape)
    dims = [1 if i in added else next(old) for i in range(x.ndim + count)]
    return ops.reshape(x, dims)


def squeeze(a: Any, axis: Any = None) -> Any:
    x = tensor(a)
    ones = [i for i, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    axes = ones if axis is None else axes_of(axis, x.ndim)
    if any(i not in ones for i in axes):
        raise ShapeError(f"squeeze: axis {axis} of {x.meta} has not one element")
    return ops.squeeze(x, list(axes)) if axes else x


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return ops.expand(tensor(array), wanted)


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    return tuple(ops.broadcast_tensors([tensor(a) for a in args]))


# -- order ---------------------------------------------------------------------------------------
def flip(m: Any, axis: Any = None) -> Any:
    x = tensor(m)
    axes = axes_of(axis, x.ndim)
    return ops.flip(x, list(axes)) if axes else x


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    x = tensor(m)
    first, second = axes_of(axes, x.ndim)
    for _ in range(k % 4):
        x = flip(swapaxes(x, first, second), first)
    return x


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = tensor(a)
    if axis is None:
        return ops.reshape(ops.roll(ops.reshape(x, [-1]), [shift], [0]), x.shape)
    axes = axes_of(axis, x.ndim)
    shifts = list(shift) if isinstance(shift, Sequence) else [shift] * len(axes)
    return ops.roll(x, shifts, list(axes))


def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    refuse(order=order)
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    return ops.sort(x, axis_of(axis, x.ndim))


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Any:
    refuse(order=order)
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    return ops.argsort(x, axis_of(axis, x.ndim))[1]


def tile(A: Any, reps: Any) -> Any:
    x = tensor(A)
    times = [operator.index(r) for r in (reps if isinstance(reps, Sequence) else (reps,))]
    times = [1] * (x.ndim - len(times)) + times
    x = ops.reshape(x, (1,) * (len(times) - x.ndim) + tuple(x.shape))
    return ops.tile(x, times)


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at = axis_of(axis, x.ndim)
    if not isinstance(repeats, (int, np.integer)):
        numbers = ops.reshape(tensor(repeats), [-1])
        return ops.repeat_interleave_with_tensor_index(x, numbers, at)
    size = x.shape[at]
    wide = ops.expand(ops.unsqueeze(x, [at + 1]), (*x.shape[: at + 1], int(repeats),
                                                  *x.shape[at + 1 :]))  # fmt: skip
    return ops.reshape(wide, (*x.shape[:at], size * int(repeats), *x.shape[at + 1 :]))


def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Any:
    x = tensor(array)
    if mode != "constant" or isinstance(constant_values, (Sequence, dict)):
        raise NotOfferedError(f"mode={mode!r}")
    if isinstance(pad_width, dict):
        raise NotOfferedError("pad_width=")
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).ravel().tolist()
    if min(widths, default=0) < 0:
        raise AttributeValueError(f"pad: a width is negative, found {pad_width}")
    return ops.pad(x, widths, constant_values)


# -- parts ---------------------------------------------------------------------------------------
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    refuse(out=out)
    if mode != "raise":
        raise NotOfferedError(f"mode={mode!r}")
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    number = indices if isinstance(indices, int) else tensor(indices)
    return x[(slice(None),) * axis_of(axis, x.ndim) + (number,)]


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    x = tensor(arr)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at, number = axis_of(axis, x.ndim), tensor(indices)
    number = ops.where(number < 0, number + x.shape[at], number)
    return ops.take_along_axis(x, number, at)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return ops.diagonal(tensor(a), offset, axis1, axis2)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    refuse(out=out)
    return ops.sum(cast(diagonal(a, offset, axis1, axis2), dtype), [-1])


def diag(v: Any, k: int = 0) -> Any:
    x = tensor(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: a vector or a matrix, found {x.meta}")
    size = x.shape[0] + abs(k)
    held = ops.pad(x, [max(k, 0), max(-k, 0)], 0)  # column j of the result holds x[j - k]
    on = ops.arange(0, size, 1, dt.int64) - ops.reshape(ops.arange(0, size, 1, dt.int64), (-1, 1))
    return ops.where(ops.equal(on, k), held, ops.full((), 0, x.dtype))


def diagflat(v: Any, k: int = 0) -> Any:
    return diag(ops.reshape(tensor(v), [-1]), k)


def tril(m: Any, k: int = 0) -> Any:
    return ops.tril(tensor(m), k)


def triu(m: Any, k: int = 0) -> Any:
    return ops.triu(tensor(m), k)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if sparse:
        raise NotOfferedError("sparse=")
    axes = [ops.reshape(tensor(x), [-1]) for x in xi]
    if len(axes) < 2 or indexing == "ij":
        return tuple(ops.meshgrid(axes))
    found = ops.meshgrid([axes[1], axes[0], *axes[2:]])
    return (found[1], found[0], *found[2:])


# -- made in the shape of another ----------------------------------------------------------------
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    refuse(device=device)
    x = tensor(a)
    wanted = x.dtype if dtype is None else dt.as_dtype(dtype)
    dims = x.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    value = operand(fill_value)
    if isinstance(value, (TensorBase, np.ndarray, np.generic)):
        return ops.expand(tensor(value).astype(wanted), dims)
    return ops.full(dims, value, wanted)


def _filled(value: int) -> Function:
    def like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
        device: Any = None,
    ) -> Any:  # fmt: skip
        return full_like(a, value, dtype, order, subok, shape, device=device)

    return like


FUNCTIONS: dict[Any, Function] = named(
    {
        "concatenate": concatenate, "concat": concatenate, "stack": stack, "vstack": vstack,
        "hstack": hstack, "dstack": dstack, "column_stack": column_stack, "append": append,
        "atleast_1d": atleast_1d, "atleast_2d": atleast_2d, "atleast_3d": atleast_3d,
        "array_split": array_split, "split": split,
        "hsplit": _split_along(1), "vsplit": split, "dsplit": lambda ary, n: split(ary, n, 2),
        "reshape": reshape, "ravel": ravel, "transpose": transpose, "permute_dims": transpose,
        "swapaxes": swapaxes, "moveaxis": moveaxis, "matrix_transpose": matrix_transpose,
        "expand_dims": expand_dims, "squeeze": squeeze, "broadcast_to": broadcast_to,
        "broadcast_arrays": broadcast_arrays,
        "flip": flip, "fliplr": lambda m: flip(m, 1), "flipud": lambda m: flip(m, 0),
        "rot90": rot90, "roll": roll, "sort": sort, "argsort": argsort, "tile": tile,
        "repeat": repeat, "pad": pad, "take": take, "take_along_axis": take_along_axis,
        "diagonal": diagonal, "trace": trace, "diag": diag, "diagflat": diagflat,
        "tril": tril, "triu": triu, "meshgrid": meshgrid, "full_like": full_like,
        "zeros_like": _filled(0), "empty_like": _filled(0), "ones_like": _filled(1),
    },
    np,
)  # fmt: skip
