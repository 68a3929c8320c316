"""Jets: derivatives of high order at a cost quadratic in the order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.api.arguments import check_same_dims, flat_tensors, function_name
from phix.api.flattened import FlattenedDense
from phix.api.gradients import in_dtype
from phix.api.signatures import OfArray, OfTensor, P, R
from phix.api.weak_arguments import taken
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DifferentiationError, ShapeError
from phix.core.given import FUNCTION, LIST, between, named, takes
from phix.core.tensor import TensorBase
from phix.core.transforms import transforms
from phix.core.varying import check_tangent

Series = list[Any]


@takes(function=FUNCTION, primals=LIST, series=LIST)
def jet(function: Callable[..., R], primals: Sequence[Any], series: Sequence[Any]) -> tuple[R, Any]:
    """``function`` along curves: the derivatives of its results from those of its arguments.

    With x(t) a curve through the primals whose derivatives at 0 are the series, it gives f(x(0))
    and the derivatives d^k/dt^k f(x(t)) at 0, k = 1 .. n, as ``jax.experimental.jet`` does:
    derivatives, not divided by k!.

    Args:
        function: of tensors, or trees of them, to tensors or trees of them.
        primals: its arguments; floats or complex.
        series: for each argument the list ``[x', x'', ...]``, all of one length n; for a tree, a
            tree with such a list in place of every leaf. None is a derivative that is zero.

    Returns:
        ``(out, series_out)``: the result, and the tree of it with a list of n tensors in place of
        every leaf. A result that is no float stands still: its derivatives are zeros.

    Raises:
        ArgumentError: series do not fit the primals, or their lengths differ.
        ShapeError: a derivative has other dims than its primal.
        DifferentiationError: a primal is no float, or an op on the way has no derivative.

    >>> import phix
    >>> y, (y1, y2, y3) = phix.jet(phix.ops.exp, (0.0,), ([2.0, 0.0, 0.0],))
    >>> y.item(), y1.item(), y2.item(), y3.item()
    (1.0, 2.0, 4.0, 8.0)
    """
    name = f"jet of {function_name(function)}"
    flat, treedef = taken((tuple(primals), {}), name)
    rows = _rows(tuple(primals), tuple(series), name)
    order = _order(rows, name)
    run = FlattenedDense(function, treedef, f"the result of {function_name(function)}")
    inputs = [_series(x, row, name) for x, row in zip(flat, rows)]
    if not order:
        outs = [[y] for y in run(*flat)]
    else:
        outs = transforms().jet(run, inputs)
    lists = [[_derivative(s, k) for k in range(1, order + 1)] for s in outs]
    return (
        pytrees.unflatten(run.out_tree, [s[0] for s in outs]),
        pytrees.unflatten(run.out_tree, lists),
    )


def _rows(primals: Any, series: Any, name: str) -> list[Any]:
    """The list of derivatives that stands in the place of each leaf of the primals."""
    if len(primals) != len(series):
        raise ArgumentError(
            f"{name}: {len(primals)} primals and {len(series)} series; give each primal its list"
        )
    try:
        parts = pytrees.flatten(primals)[1].flatten_up_to(series)
    except ValueError as error:
        raise ArgumentError(
            f"{name}: series must have the structure of the primals, with a list of derivatives "
            f"in place of each leaf; {error}"
        ) from None
    for part in parts:
        if not isinstance(part, (list, tuple)):
            raise ArgumentError(
                f"{name}: a series is a list of derivatives, found {type(part).__name__}; write "
                "[x1, x2, ...]"
            )
    return parts


def _order(rows: list[Any], name: str) -> int:
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise ArgumentError(
            f"{name}: all series must be of one length, found {lengths}; fill with None for zero"
        )
    return lengths[0] if lengths else 0


def _series(x: TensorBase, derivatives: Sequence[Any], name: str) -> Series:
    """The value and the Taylor coefficients of an argument."""
    if not dt.is_differentiable(x.dtype):
        raise DifferentiationError(
            f"{name}: jet takes derivatives with respect to floats, found {x.meta}; cast the "
            "argument to a float"
        )
    row: Series = [x]
    for k, given in enumerate(derivatives, 1):
        row.append(None if given is None else _coefficient(x, given, k, name))
    return row


def _coefficient(x: TensorBase, given: Any, k: int, name: str) -> Any:
    (d,), _ = flat_tensors((given,), name)
    check_same_dims(f"{name}: derivative {k} of a primal", d.meta, x.meta)
    check_tangent(d.meta, x.meta, name)
    d = in_dtype(d, x.dtype, f"{name}: derivative {k}")
    return d if k == 1 else d / math.factorial(k)


def _derivative(series: Series, k: int) -> Any:
    value, coefficient = series[0], series[k]
    if coefficient is None:
        return ops.full(value.meta.dims, 0, value.dtype)
    return coefficient if k == 1 else coefficient * math.factorial(k)


_MOST_ORDERS = 170  # whose factorials a float64 holds


@takes(function=FUNCTION, order=between(0, _MOST_ORDERS))
def derivative(function: OfTensor[P, R], order: int = 1) -> OfArray[P, R]:
    """A function that gives the derivative of ``function`` of that order, by jets.

    Args:
        function: of one real number (a 0-d float tensor), to tensors or trees of them. Further
            arguments are handed on and held fixed.
        order: 0 gives the function itself.

    Returns:
        A function of the same arguments, giving the derivative with respect to the first, in the
        structure of the result. ``vmap`` it for a batch of points; it may be jitted and
        differentiated.

    Raises:
        ShapeError: the argument is no single number.
        DifferentiationError: the argument is no float.

    >>> import phix
    >>> phix.derivative(lambda x: x**5, order=3)(1.0).item()
    60.0
    >>> points = phix.to_tensor([0.0, 1.0])
    >>> phix.vmap(phix.derivative(lambda x: x**3, order=2))(points).tolist()
    [0.0, 6.0]
    """

    @functools.wraps(function)
    @named("derivative")
    def differentiated(x: Any, *args: Any, **kwargs: Any) -> Any:
        name = f"derivative of {function_name(function)}"
        (x,), _ = flat_tensors((x,), name)
        if x.ndim or not dt.is_float(x.dtype):
            wrong = ShapeError if x.ndim else DifferentiationError
            raise wrong(
                f"{name}: its argument is one real number, found {x.meta}; "
                + ("use phix.vmap for a batch of points" if x.ndim else "cast it to a float")
            )
        steps = [ops.full((), 1, x.dtype), *(None,) * (order - 1)][:order]
        value, found = jet(lambda at: function(at, *args, **kwargs), (x,), (steps,))
        if not order:
            return value
        return pytrees.map(lambda _, row: row[-1], value, found)

    return differentiated
