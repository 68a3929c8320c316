"""NumPy's functions that put tensors together, take them apart and arrange their elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions import fixed_sizes
from phix.array_functions.numpy_arguments import (
    cast_as_allowed,
    check_order,
    operand,
    refuse,
    some,
    tensor,
    titled,
)
from phix.array_functions.numpy_arguments import with_dtype as cast
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.axes import axes_of, axis_of
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect, expect_none_of_one
from phix.core.numpy_protocol import NotOfferedError
from phix.core.places import as_place
from phix.core.tensor import TensorBase

Function = Callable[..., Any]


# -- together ------------------------------------------------------------------------------------
def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """The arrays one behind the other along an axis; flattened for axis=None."""
    refuse(out=out)
    parts = [cast_as_allowed(tensor(a), dtype, casting) for a in some(arrays, "concatenate")]
    if axis is None:
        parts, axis = [ops.reshape(p, [-1]) for p in parts], 0
    return ops.concat(parts, axis_of(axis, parts[0].ndim))


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """The arrays along a new axis."""
    refuse(out=out)
    return ops.stack([cast_as_allowed(tensor(a), dtype, casting) for a in arrays], axis)


def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """The arrays one below the other."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """The arrays side by side."""
    parts = [atleast_1d(a) for a in some(tup, "hstack")]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def dstack(tup: Any) -> Any:
    """The arrays along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup: Any) -> Any:
    """Vectors and matrices side by side as columns."""
    parts = [tensor(a) for a in tup]
    return concatenate([ops.reshape(p, (-1, 1)) if p.ndim < 2 else p for p in parts], 1)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """The array with the values behind it, both flattened without an axis."""
    return concatenate([arr, values], axis)


def _at_least(rank: int, place: Callable[[Any], Any]) -> Function:
    def at_least(*arys: Any) -> Any:
        """The arrays with new axes, so that there are enough of them."""
        found = [place(t) if (t := tensor(a)).ndim < rank else t for a in arys]
        return found[0] if len(found) == 1 else tuple(found)

    return at_least


atleast_1d = _at_least(1, lambda x: ops.reshape(x, [1]))
atleast_2d = _at_least(2, lambda x: ops.reshape(x, (1,) * (2 - x.ndim) + tuple(x.shape)))
atleast_3d = _at_least(
    3, lambda x: ops.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])
)


# -- apart ---------------------------------------------------------------------------------------
def _section_count(sections: Any) -> int:
    count = operator.index(sections)
    if count < 1:
        raise AttributeValueError(f"an array is split in at least 1 part, found {count}")
    return count


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array in parts along an axis, the first ones longer where they cannot be equal."""
    x = tensor(ary)
    at = axis_of(axis, x.ndim)
    if isinstance(indices_or_sections, (Sequence, np.ndarray)):
        return _parts(x, at, [operator.index(i) for i in indices_or_sections])
    count = _section_count(indices_or_sections)
    each, more = divmod(x.meta.dims[at], count)
    return _parts(x, at, [each * k + dm.minimum(more, k) for k in range(1, count)])


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """The array in equal parts along an axis, or cut at the places given."""
    x = tensor(ary)
    if isinstance(indices_or_sections, (Sequence, np.ndarray)):
        return array_split(x, indices_or_sections, axis)
    at, count = axis_of(axis, x.ndim), _section_count(indices_or_sections)
    each, more = divmod(x.meta.dims[at], count)
    refusal = (
        f"split: {dm.dim_text(x.meta.dims[at])} elements do not make {count} equal parts; use "
        "np.array_split"
    )
    return _parts(expect(x, refusal, -more), at, [each * k for k in range(1, count)])


def _parts(x: Any, at: int, ends: list[Any]) -> list[Any]:
    """What lies between these places along an axis."""
    bounds = [slice(*pair) for pair in zip([0, *ends], [*ends, x.shape[at]])]
    return [x[(slice(None),) * at + (b,)] for b in bounds]


def _split_along(name: str, number: int) -> Function:
    def split_along(ary: Any, indices_or_sections: Any) -> list[Any]:
        """The array in equal parts along one axis, or cut at the places given."""
        x, least = tensor(ary), (2, 1, 3)[number]
        if x.ndim < least:
            raise ShapeError(f"{name} takes {least} axes or more, found {x.meta}; write split")
        return split(x, indices_or_sections, 0 if x.ndim == 1 else number)

    return titled(split_along, name, split_along.__doc__ or "")


# -- shapes --------------------------------------------------------------------------------------
def reshape(
    a: Any, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    """The same elements in another shape; a -1 in it is what is left."""
    check_order(order)
    if order == "K":  # NumPy refuses it, too
        raise NotOfferedError(f"order={order!r}")
    wanted = newshape if shape is None else shape
    x = tensor(a)
    wanted = tuple(wanted) if isinstance(wanted, (Sequence, np.ndarray)) else (wanted,)
    if order == "F":
        return transpose(reshape(transpose(x), wanted[::-1]))
    if any(isinstance(d, int) and d == 0 for d in wanted):  # in PHI a 0 copies the dim of x
        return _emptied(x, wanted)
    return ops.reshape(x, wanted)


def _emptied(x: Any, wanted: tuple[Any, ...]) -> Any:
    """x, which must have no elements, in a shape that has a 0."""
    is_known = isinstance(x.size, int)
    if (is_known and x.size) or any(isinstance(d, int) and d < 0 for d in wanted):
        raise ShapeError(f"reshape: {x.meta} has other elements than the shape {list(wanted)}")
    one = ops.full((1,), 0, x.dtype)
    if not is_known:  # where the size is known, one more than it must be 1
        one = ops.reshape(ops.concat([ops.reshape(x, [-1]), one], 0), [1])
    return ops.expand(ops.reshape(one, (1,) * len(wanted)), wanted)


def ravel(a: Any, order: str = "C") -> Any:
    """All elements as a vector."""
    return reshape(a, (-1,), "C" if order == "K" else order)


def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order, by default the opposite one."""
    x = tensor(a)
    return ops.transpose(x, axes_of(axes, x.ndim) if axes is not None else range(x.ndim)[::-1])


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes in each other's place."""
    x = tensor(a)
    order = list(range(x.ndim))
    i, j = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[i], order[j] = j, i
    return ops.transpose(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes put at other places, the rest in their order."""
    x = tensor(a)
    sources, targets = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    if len(sources) != len(targets):
        raise ArgumentError(f"moveaxis: {source} and {destination} are not as many axes")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return ops.transpose(x, order)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes in each other's place."""
    return swapaxes(x, -1, -2)


def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1 at these places of the result."""
    x = tensor(a)
    count = len(axis) if isinstance(axis, Sequence) else 1
    added = axes_of(axis, x.ndim + count)
    old = iter(x.shape)
    dims = [1 if i in added else next(old) for i in range(x.ndim + count)]
    return ops.reshape(x, dims)


def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1: all, or these."""
    x = tensor(a)
    ones = [i for i, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    if axis is None:
        refusal = f"squeeze: an unknown size of {x.meta} is 1; give the axes that go, or stay"
        unknown = [d for d in x.meta.dims if not dm.is_known(d)]
        x = expect_none_of_one(x, refusal, *unknown)
    axes = ones if axis is None else axes_of(axis, x.ndim)
    if any(i not in ones for i in axes):
        raise ShapeError(
            f"squeeze: axis {axis} of {x.meta} has not one element; leave out such axes"
        )
    return ops.squeeze(x, list(axes)) if axes else x


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """The array spread to a shape."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise AttributeValueError(f"broadcast_to: sizes are at least 0, found {wanted}")
    return ops.expand(tensor(array), wanted)


def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """The arrays spread to the shape they have in common."""
    return tuple(ops.broadcast_tensors([tensor(a) for a in args]))


# -- order ---------------------------------------------------------------------------------------
def flip(m: Any, axis: Any = None) -> Any:
    """The elements in opposite order along the axes, all by default."""
    x = tensor(m)
    axes = axes_of(axis, x.ndim)
    return ops.flip(x, list(axes)) if axes else x


def fliplr(m: Any) -> Any:
    """The columns in opposite order."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """The rows in opposite order."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Turned by k right angles in the plane of two axes."""
    x = tensor(m)
    first, second = axes_of(axes, x.ndim)
    for _ in range(k % 4):
        x = flip(swapaxes(x, first, second), first)
    return x


def tile(A: Any, reps: Any) -> Any:
    """The array repeated as a whole along each axis."""
    x = tensor(A)
    times = [operator.index(r) for r in (reps if isinstance(reps, Sequence) else (reps,))]
    times = [1] * (x.ndim - len(times)) + times
    x = ops.reshape(x, (1,) * (len(times) - x.ndim) + tuple(x.shape))
    return ops.tile(x, times)


def repeat(
    a: Any, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None
) -> Any:  # fmt: skip
    """Each element repeated along an axis.

    With ``total_repeat_length``, which is JAX's, the result has as many, also in each lane of
    ``vmap``: the first ones, or the last element behind all. It may be what ``size`` of
    :func:`phix.numpy.nonzero` may be.

    >>> import phix.numpy as np
    >>> np.repeat([1, 2], [2, 1], total_repeat_length=4).tolist()
    [1, 1, 2, 2]
    """
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at = axis_of(axis, x.ndim)
    if total_repeat_length is not None:
        numbers = ops.reshape(tensor(repeats), [-1])
        return fixed_sizes.repeat(x, numbers, at, total_repeat_length)
    if not isinstance(repeats, (int, np.integer)):
        numbers = ops.reshape(tensor(repeats), [-1])
        return ops.repeat_interleave_with_tensor_index(x, numbers, at)
    if repeats < 0:
        raise AttributeValueError(f"repeat: repeats is at least 0, found {repeats}")
    size = x.shape[at]
    wide = ops.expand(ops.unsqueeze(x, [at + 1]), (*x.shape[: at + 1], int(repeats),
                                                  *x.shape[at + 1 :]))  # fmt: skip
    return ops.reshape(wide, (*x.shape[:at], size * int(repeats), *x.shape[at + 1 :]))


# -- parts ---------------------------------------------------------------------------------------
def take(
    a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise", *,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """The elements at the indices along an axis; with mode "fill", which is JAX's, ``fill_value``
    for those that are not there, see ``x.at[i].get``."""
    refuse(out=out)
    if mode not in ("raise", "wrap", "clip", "fill"):
        raise AttributeValueError(f"take: mode is raise, wrap, clip or fill, found {mode!r:.80}")
    x = tensor(a)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at = axis_of(axis, x.ndim)
    number = indices if isinstance(indices, int) else tensor(indices)
    if mode == "fill":
        return x.at[(slice(None),) * at + (number,)].get(mode=mode, fill_value=fill_value)
    if mode != "raise":
        number, size = tensor(number), x.shape[at]
        is_wrapped = mode == "wrap"
        number = (
            ops.remainder(number, size)
            if is_wrapped
            else ops.minimum(ops.maximum(number, 0), size - 1)
        )
    return x[(slice(None),) * at + (number,)]


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Of each vector along an axis the elements at its own indices."""
    x = tensor(arr)
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at, number = axis_of(axis, x.ndim), tensor(indices)
    if dt.kind(number.dtype) != "int":
        raise DTypeError(f"take_along_axis: indices are ints, found {number.meta}; cast them")
    number = ops.where(number < 0, number + x.shape[at], number)
    return ops.take_along_axis(x, number, at)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonal of two axes, as a last one."""
    return ops.diagonal(tensor(a), offset, axis1, axis2)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """The sum of the diagonal of two axes."""
    refuse(out=out)
    x = cast(diagonal(a, offset, axis1, axis2), dtype)
    return cast(ops.sum(x.astype(dt.uint64) if x.dtype in dt.UNSIGNED else x, [-1]), dtype)


def diag(v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a vector as its diagonal."""
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
    """A matrix with all elements as its diagonal."""
    return diag(ops.reshape(tensor(v), [-1]), k)


def _rows(m: Any) -> Any:
    """A vector stands in each row of a square matrix, as NumPy has it."""
    x = tensor(m)
    return ops.expand(x, (x.shape[0], x.shape[0])) if x.ndim == 1 else x


def tril(m: Any, k: int = 0) -> Any:
    """The matrix with 0 above the k-th diagonal."""
    return ops.tril(_rows(m), k)


def triu(m: Any, k: int = 0) -> Any:
    """The matrix with 0 below the k-th diagonal."""
    return ops.triu(_rows(m), k)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """The coordinates of the points of a grid."""
    axes = [ops.reshape(tensor(x), [-1]) for x in xi]
    if indexing not in ("xy", "ij"):
        raise AttributeValueError(f"meshgrid: indexing is 'xy' or 'ij', found {indexing!r:.80}")
    if sparse or not axes:
        place = list(range(len(axes)))
        if indexing == "xy":
            place[:2] = place[:2][::-1]  # one vector alone keeps its place
        return tuple(ops.reshape(x, [-1 if i == place[k] else 1 for i in range(len(axes))])
                     for k, x in enumerate(axes))  # fmt: skip
    if len(axes) < 2 or indexing == "ij":
        return tuple(ops.meshgrid(axes))
    found = ops.meshgrid([axes[1], axes[0], *axes[2:]])
    return (found[1], found[0], *found[2:])


# -- made in the shape of another ----------------------------------------------------------------
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    """An array of one value with the shape and dtype of another."""
    check_order(order)
    x = tensor(a)
    wanted = x.dtype if dtype is None else dt.as_dtype(dtype)
    dims = x.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    value = operand(fill_value)
    if isinstance(value, (TensorBase, np.ndarray, np.generic)):
        found = ops.expand(tensor(value).astype(wanted), dims)
    else:
        found = ops.full(dims, value, wanted)
    place = as_place(device)
    return found if place is None else found.to(place)


def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Zeros with the shape and dtype of another array."""
    return full_like(a, 0, dtype, order, subok, shape, device=device)


def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Ones with the shape and dtype of another array."""
    return full_like(a, 1, dtype, order, subok, shape, device=device)


def empty_like(
    prototype: Any, /, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
    *, device: Any = None,
) -> Any:  # fmt: skip
    """An array with the shape and dtype of another, whose values do not matter; they are 0."""
    return full_like(prototype, 0, dtype, order, subok, shape, device=device)


NAMES: dict[str, Function] = {
    "concatenate": concatenate, "concat": concatenate, "stack": stack, "vstack": vstack,
    "hstack": hstack, "dstack": dstack, "column_stack": column_stack, "append": append,
    "atleast_1d": atleast_1d, "atleast_2d": atleast_2d, "atleast_3d": atleast_3d,
    "array_split": array_split, "split": split,
    "hsplit": _split_along("hsplit", 1), "vsplit": _split_along("vsplit", 0),
    "dsplit": _split_along("dsplit", 2),
    "reshape": reshape, "ravel": ravel, "transpose": transpose, "permute_dims": transpose,
    "swapaxes": swapaxes, "moveaxis": moveaxis, "matrix_transpose": matrix_transpose,
    "expand_dims": expand_dims, "squeeze": squeeze, "broadcast_to": broadcast_to,
    "broadcast_arrays": broadcast_arrays,
    "flip": flip, "fliplr": fliplr, "flipud": flipud,
    "rot90": rot90, "tile": tile,
    "repeat": repeat, "take": take, "take_along_axis": take_along_axis,
    "diagonal": diagonal, "trace": trace, "diag": diag, "diagflat": diagflat,
    "tril": tril, "triu": triu, "meshgrid": meshgrid, "full_like": full_like,
    "zeros_like": zeros_like, "empty_like": empty_like, "ones_like": ones_like,
}  # fmt: skip
