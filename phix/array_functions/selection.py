"""NumPy's functions whose results have a size that the data tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.array_functions import fixed_sizes
from phix.array_functions.numpy_arguments import refuse, tensor
from phix.core.axes import axis_of
from phix.core.errors import ShapeError
from phix.core.expectations import expect

Function = Callable[..., Any]


def nonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The indices of the elements that are not 0, one vector an axis.

    With ``size``, which is JAX's, there are as many indices, also in each lane of ``vmap``: those
    of the first elements that are not 0, and behind them ``fill_value``, or 0.

    Args:
        a: array of an axis or more.
        size: int from 0 that is known before the program runs, or a size of a tensor.
        fill_value: a number, or a tuple of one for each axis.

    Returns:
        A tuple of int64 [size], one for each axis; of a wider dtype where the fill has one.

    Raises:
        ArgumentError: the size is no int, or traced.
        AttributeValueError: the size is negative; there are more or fewer fills than axes.
        ShapeError: a single value, or a fill that is none.

    >>> import phix.numpy as np
    >>> [v.tolist() for v in np.nonzero([0, 5, 0, 7], size=3, fill_value=-1)]
    [[1, 3, -1]]
    """
    x = tensor(a)
    if size is not None:
        return fixed_sizes.nonzero("nonzero", x, size, fill_value)
    rows = ops.nonzero(x)
    return tuple(rows[:, axis] for axis in range(x.ndim))


def argwhere(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """Those as the rows of a matrix, [size, a.ndim] with ``size``.

    >>> import phix.numpy as np
    >>> np.argwhere([[0, 5], [7, 0]], size=3).tolist()
    [[0, 1], [1, 0], [0, 0]]
    """
    if size is not None:
        return fixed_sizes.argwhere(tensor(a), size, fill_value)
    x = tensor(a)
    return ops.nonzero(x) if x.ndim else ops.nonzero(ops.reshape(x, [1]))[:, :0]


def flatnonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The places of the elements that are not 0 in the flattened array; see :func:`nonzero`.

    >>> import phix.numpy as np
    >>> np.flatnonzero([[0, 5], [7, 0]], size=3).tolist()
    [1, 2, 0]
    """
    flat = ops.reshape(tensor(a), [-1])
    if size is not None:
        return fixed_sizes.nonzero("flatnonzero", flat, size, fill_value)[0]
    return ops.nonzero(flat)[:, 0]


def compress(
    condition: Any, a: Any, axis: Any = None, out: Any = None, *, size: Any = None,
    fill_value: Any = 0,
) -> Any:  # fmt: skip
    """The parts along an axis that are chosen.

    With ``size``, as in :func:`nonzero`, the first so many of them, and parts of ``fill_value``
    behind them; a size greater than the axis is an AttributeValueError then, and what one of
    condition and axis has more of than the other is left out.

    >>> import phix.numpy as np
    >>> np.compress([True, False, True], [1, 2, 3], size=3).tolist()
    [1, 3, 0]
    """
    refuse(out=out)
    return _compressed("compress", tensor(condition), tensor(a), axis, size, fill_value)


def _compressed(name: str, chosen: Any, x: Any, axis: Any, size: Any, fill: Any) -> Any:
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    at = axis_of(axis, x.ndim)
    if chosen.ndim != 1:
        raise ShapeError(f"{name}: condition must have one axis, found {chosen.meta}")
    if size is not None:
        return fixed_sizes.compress(name, chosen, x, at, size, fill)
    refusal = f"{name}: condition {chosen.meta} is longer than axis {at} of {x.meta}"
    chosen = expect(chosen, refusal, x.meta.dims[at] - chosen.meta.dims[0])
    return ops.gather(x, flatnonzero(chosen), at)


def extract(condition: Any, arr: Any, *, size: Any = None, fill_value: Any = 0) -> Any:
    """The elements at which the condition holds; ``size`` and ``fill_value`` as in
    :func:`compress`.

    >>> import phix.numpy as np
    >>> np.extract([[False, True], [True, True]], [[1, 2], [3, 4]], size=2).tolist()
    [2, 3]
    """
    chosen = ops.reshape(tensor(condition), [-1])
    return _compressed("extract", chosen, tensor(arr), None, size, fill_value)


def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: Any = None) -> Any:
    """How often each int from 0 on is there; with weights their sums.

    With ``length``, which is JAX's, there are as many counts, also in each lane of ``vmap``, and
    ``minlength`` says nothing: negative ints count as 0 then, those from ``length`` on not at all,
    and sums have the dtype of the weights. It may be what ``size`` of :func:`nonzero` may be.

    >>> import phix.numpy as np
    >>> np.bincount([0, 2, 2, 9], length=4).tolist()
    [1, 0, 2, 0]
    """
    x, weights = tensor(x), None if weights is None else tensor(weights)
    if length is not None:
        return fixed_sizes.bincount(x, weights, length)
    return ops.bincount(x, weights, minlength)


NAMES: dict[str, Function] = {
    "nonzero": nonzero, "argwhere": argwhere, "flatnonzero": flatnonzero,
    "compress": compress, "extract": extract, "bincount": bincount,
}  # fmt: skip
