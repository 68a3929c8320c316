"""Convolutions and pooling of sparse [n, depth, height, width, channels], or without depth.

The first axes are sparse and the channels dense: values are [nnz, channels]. The rulebook says
which value meets which element of the window, and where the result goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import AttributeValueError, DTypeError, ShapeError, described
from phix.core.given import TEXT, takes
from phix.core.records import dataclass
from phix.sparse.tensors import (
    SparseCooTensor,
    as_sparse,
    as_tensor,
    coalesce,
    counted,
    indices_of,
    keys_of,
    may_be_equal,
    merged,
    sized,
    strides_of,
)


@dataclass(frozen=True)
class _Window:
    """Where a window stands: one number for each of depth, height and width."""

    sizes: tuple[int, ...]
    paddings: tuple[int, ...]
    dilations: tuple[int, ...]
    strides: tuple[int, ...]

    def offsets(self) -> np.ndarray:
        """How far each element of the window is from where its result stands: [axes, elements]."""
        grid = np.indices(self.sizes).reshape(len(self.sizes), -1)
        column = [np.array(n, np.int64)[:, None] for n in (self.dilations, self.paddings)]
        return grid * column[0] - column[1]

    def results(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """How many places it has along each axis."""
        reach = [(k - 1) * d + 1 for k, d in zip(self.sizes, self.dilations)]
        spans = [n + 2 * p - r for n, p, r in zip(dims, self.paddings, reach)]
        return tuple(max(s // step + 1, 0) for s, step in zip(spans, self.strides))


def _numbers(value: Any, name: str, count: int, least: int) -> tuple[int, ...]:
    found = tuple(int(n) for n in np.atleast_1d(np.asarray(value, np.int64)))
    if len(found) != count or min(found) < least:
        raise AttributeValueError(
            f"{name} must be {count} ints from {least}, one for each axis of the window, found "
            f"{described(value)}"
        )
    return found


def _window(sizes: Any, paddings: Any, dilations: Any, strides: Any, count: int) -> _Window:
    return _Window(
        _numbers(sizes, "the sizes of the window", count, 1),
        _numbers(paddings, "paddings", count, 0),
        _numbers(dilations, "dilations", count, 1),
        _numbers(strides, "strides", count, 1),
    )


def _volumes(x: Any) -> SparseCooTensor:
    x = as_sparse(x)
    if not isinstance(x, SparseCooTensor) or x.dense_dim != 1 or x.ndim not in (4, 5):
        raise ShapeError(
            f"x must be a SparseCooTensor [n, depth, height, width, channels], or without depth, "
            f"with values [nnz, channels]; found {type(x).__name__} {x.shape} with values "
            f"{x.values.meta}"
        )
    return coalesce(x)


def _found(keys: Any, wanted: Any) -> Any:
    """For each wanted key which of the keys it is, or their number if it is none of them."""
    count = keys.shape[0]
    different, where = merged(ops.concat([keys, wanted], 0))
    owner = ops.full([different.shape[0]], count, "int64")
    owner = ops.index_put(owner, [where[:count]], counted(keys))
    return ops.gather(owner, where[count:])


def _rules(x: SparseCooTensor, window: _Window, stays: bool) -> tuple[Any, Any, tuple[int, ...]]:
    """The rulebook [3, pairs] - element of the window, value, result - and the results' places."""
    sizes, dims = x.shape[1:-1], (x.shape[0], *x.shape[1:-1])
    out = dims if stays else (x.shape[0], *window.results(sizes))
    strides_of(out)
    low, step = (window.offsets(), np.array(window.strides, np.int64)[:, None, None])
    ahead = x.indices[1:][:, None] - owned_tensor(low[:, :, None])
    at = ops.floor_divide(ahead, owned_tensor(step))
    ends = owned_tensor(np.array(out[1:], np.int64)[:, None, None])
    meets = ops.all((at * owned_tensor(step) == ahead) & (at >= 0) & (at < ends), [0])
    strides = strides_of(out)
    keys = ops.sum(at * owned_tensor(strides[1:, :, None]), [0])
    keys = keys + (x.indices[0] * int(strides[0, 0]))[None]
    if stays:
        found = _found(keys_of(x.indices, dims), ops.reshape(keys, [-1]))
        found = ops.reshape(found, keys.shape)
        meets = meets & (found < x.nnz)
        places = ops.nonzero(meets)
        which, indices = ops.gather_nd(found, places), x.indices
    else:
        places = ops.nonzero(meets)
        different, which = merged(ops.gather_nd(keys, places))
        indices = indices_of(different, out)
    rulebook = ops.concat([ops.transpose(places, [1, 0]), which[None]], 0)
    return rulebook, indices, out


def _met(x: SparseCooTensor, window: _Window, stays: bool, beside: Any) -> tuple[Any, ...]:
    """For each result the values that elements of the window meet, or what stands beside: [results,
    elements, channels]; the places of the results and their dims, the rulebook, and how often each
    element meets one."""
    rulebook, indices, out = _rules(x, window, stays)
    elements, count = math.prod(window.sizes), indices.shape[1]
    table = ops.full([count, elements], x.nnz, "int64")
    table = ops.index_put(table, [rulebook[2], rulebook[0]], rulebook[1])
    row = ops.full([1, x.shape[-1]], beside, x.dtype)
    values = ops.gather(ops.concat([x.values, row], 0), table)
    zeros = ops.zeros([elements], "int32")
    counter = ops.index_add(zeros, rulebook[0], ops.ones_like(rulebook[0], "int32"))
    return values, indices, out, rulebook, counter


def _of_kernel(
    x: Any, kernel: Any, paddings: Any, dilations: Any, strides: Any, subm: Any
) -> tuple[Any, _Window]:
    """A kernel that fits x, and the window that it is."""
    axes = x.ndim - 2
    known = all(isinstance(n, int) and n > 0 for n in kernel.shape[:axes])
    if kernel.ndim != x.ndim or not known or not may_be_equal(kernel.shape[-2], x.shape[-1]):
        raise ShapeError(
            f"kernel must be [...window, {x.shape[-1]}, out channels] with {x.ndim} axes, found "
            f"{kernel.meta}"
        )
    kernel = sized(kernel, (*kernel.shape[:axes], x.shape[-1]))
    if not isinstance(kernel.shape[-1], int):
        raise ShapeError(f"the out channels must be known, found {kernel.meta}")
    sizes = tuple(kernel.shape[:axes])
    window = _window(sizes, paddings, dilations, strides, axes)
    if subm:
        middle = tuple(d * (n // 2) for n, d in zip(sizes, window.dilations))
        window = _Window(sizes, middle, window.dilations, (1,) * axes)
    return kernel, window


@takes(key=TEXT)
def conv3d(
    x: Any,
    kernel: Any,
    paddings: Sequence[int],
    dilations: Sequence[int],
    strides: Sequence[int],
    groups: int,
    subm: bool,
    key: str = "",
) -> tuple[SparseCooTensor, Any, Any]:
    """The convolution of a sparse tensor, at the places that some stored value reaches.

    Args:
        x: [n, depth, height, width, channels], or without depth, with values [nnz, channels].
        kernel: dense [depth, height, width, channels, out channels], or without depth.
        paddings, dilations, strides: one int for each axis of the window.
        groups: 1.
        subm: whether results stand at the places of x alone (a submanifold convolution). Paddings
            are then dilations * (size // 2) and strides 1, whatever is given.
        key: the name under which Paddle keeps the rulebook; it changes nothing here.

    Returns:
        out, a coalesced SparseCooTensor; the rulebook, int64[3, pairs]: which element of the
        window, which value of the coalesced x, which value of out; and the counter, int32: how
        many pairs each element of the window has. It takes memory for the whole window at each
        value of out.

    Raises:
        ShapeError: x or kernel have other axes, or their channels differ.
        AttributeValueError: an attribute has another length, or is out of range.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0], [1], [1]], [[2.0]], [1, 3, 3, 1])
    >>> out, _, _ = phix.sparse.conv3d(
    ...     x, phix.ones([2, 2, 1, 1]), [0, 0], [1, 1], [1, 1], 1, False
    ... )
    >>> out.shape, out.values.tolist()
    ((1, 2, 2, 1), [[2.0], [2.0], [2.0], [2.0]])
    """
    x = _volumes(x)
    kernel, window = _of_kernel(x, as_tensor(kernel), paddings, dilations, strides, subm)
    if groups != 1:
        raise AttributeValueError(f"groups must be 1, found {groups}")
    values, indices, out, rulebook, counter = _met(x, window, bool(subm), 0)
    inner, outer = math.prod(window.sizes) * x.shape[-1], kernel.shape[-1]
    found = ops.reshape(values, [values.shape[0], inner]) @ ops.reshape(kernel, [inner, outer])
    return SparseCooTensor(indices, found, (*out, outer), True), rulebook, counter


@takes(key=TEXT)
def conv3d_implicit_gemm(
    x: Any,
    kernel: Any,
    paddings: Sequence[int],
    dilations: Sequence[int],
    strides: Sequence[int],
    groups: int,
    subm: bool,
    key: str = "",
) -> SparseCooTensor:
    """The first result of ``conv3d``, which has the same arguments.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0], [1], [1]], [[2.0]], [1, 3, 3, 1])
    >>> kernel = phix.ones([3, 3, 1, 1])
    >>> phix.sparse.conv3d_implicit_gemm(x, kernel, [1, 1], [1, 1], [1, 1], 1, True).values.tolist()
    [[2.0]]
    """
    return conv3d(x, kernel, paddings, dilations, strides, groups, subm, key)[0]


@takes()
def maxpool(
    x: Any,
    kernel_sizes: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
    strides: Sequence[int],
) -> tuple[SparseCooTensor, Any, Any]:
    """The largest of the stored values in each window that has one; zeros in it do not count.

    Args:
        x: [n, depth, height, width, channels], or without depth, with values [nnz, channels].
        kernel_sizes, paddings, dilations, strides: one int for each axis of the window.

    Returns:
        out, and the rulebook and counter, as those of ``conv3d``.

    >>> import phix
    >>> x = phix.sparse.sparse_coo_tensor([[0, 0], [0, 1], [0, 1]], [[-2.0], [-3.0]], [1, 2, 4, 1])
    >>> out, _, _ = phix.sparse.maxpool(x, [2, 2], [0, 0], [1, 1], [2, 2])
    >>> out.indices.tolist(), out.values.tolist()
    ([[0], [0], [0]], [[-2.0]])
    """
    x = _volumes(x)
    window = _window(kernel_sizes, paddings, dilations, strides, x.ndim - 2)
    if dt.kind(x.dtype) not in ("int", "float"):
        raise DTypeError(f"x must have ints or floats, found {x.values.meta}")
    least = -math.inf if dt.is_float(x.dtype) else int(np.iinfo(x.dtype).min)
    values, indices, out, rulebook, counter = _met(x, window, False, least)
    found = ops.max(values, [1])
    return SparseCooTensor(indices, found, (*out, x.shape[-1]), True), rulebook, counter
