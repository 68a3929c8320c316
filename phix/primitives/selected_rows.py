"""Ops on selected rows: kernels of entries whose ``kernel`` names the kind ``selected_rows``.

What is not linear takes each row once, so rows that are given several times are added first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.selected_rows import SelectedRows
from phix.core.tensor import TensorBase
from phix.core.tensor_kinds import checked_factor, kind_kernel
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, widened

_COUNTED = {dt.bool_: dt.int32}  # a sum of bools is their "or"


def _wide(x: Any) -> Any:
    return as_dtype(widened(x), _COUNTED.get(x.dtype, widened(x).dtype))


def inside(rows: Any, height: Any) -> Any:
    """Numbers of rows as those from 0 to height - 1 that gather and index_put take them for."""
    last = ops.maximum(ops.full((), height, dt.int64) - 1, 0)
    return ops.minimum(ops.maximum(ops.where(rows < 0, rows + last + 1, rows), 0), last)


# -- each row once -------------------------------------------------------------------------------
def merged(x: SelectedRows) -> SelectedRows:
    """Each row once, in order, with the sum of what is given for it."""
    found: Any = ops.unique(x.rows, False, True, False, [])
    rows, _, where, _ = found
    wide = _wide(x.value)
    sums = ops.index_put(_zeros(rows.shape[0], wide), [where], wide, True)
    return SelectedRows(rows, as_dtype(sums, x.dtype), x.height)


def _zeros(count: Any, value: Any) -> Any:
    return ops.full((count, *value.meta.dims[1:]), 0, value.dtype)


def totals(x: SelectedRows) -> Any:
    """For each of ``x.rows`` the sum of all that is given for that row; no size is computed."""
    count, wide = x.rows.meta.dims[0], _wide(x.value)
    if isinstance(count, int) and count < 2:
        return x.value
    _, order = ops.argsort(x.rows, 0, False, True)
    ordered = ops.gather(x.rows, order)
    before = ops.gather(ordered, ops.maximum(numbers(count) - 1, 0))
    group = ops.cumsum(as_dtype(ordered != before, dt.int64), 0)
    groups = ops.index_put(ops.zeros_like(group), [order], group)
    sums = ops.index_put(_zeros(count, wide), [groups], wide, True)
    return as_dtype(ops.gather(sums, groups), x.dtype)


def _added(dense: Any, x: SelectedRows) -> Any:
    """A dense tensor and selected rows, added in float32 at least."""
    dense = _tensor(dense)
    dims = (x.height, *x.value.meta.dims[1:])
    fits = dense.ndim == x.ndim and all(map(dm.may_equal, dense.meta.dims, dims))
    dtype = dt.promote(dense.dtype, x.dtype)
    wide = _wide(as_dtype(x.value, dtype))
    start = as_dtype(dense, wide.dtype)
    if not fits:  # a tensor that is broadcast
        table = ops.index_put(_zeros(x.height, wide), [x.rows], wide, True)
        return as_dtype(ops.add(start, table), dtype)
    return as_dtype(ops.index_put(start, [x.rows], wide, True), dtype)


def _tensor(x: Any) -> Any:
    return x if isinstance(x, TensorBase) else owned_tensor(x)


# -- sums ----------------------------------------------------------------------------------------
def _check_tables(inputs: Sequence[SelectedRows]) -> None:
    """Raise unless these are rows of tables of one shape."""
    first = inputs[0]
    for x in inputs:
        heights = x.height, first.height
        known = all(isinstance(h, int) for h in heights)
        if (
            (known and heights[0] != heights[1])
            or x.ndim != first.ndim
            or not all(map(dm.may_equal, x.value.meta.dims[1:], first.value.meta.dims[1:]))
        ):
            raise ShapeError(
                f"rows of tables of one shape are needed, found {first.shape} and {x.shape}"
            )


def _joined(inputs: Sequence[SelectedRows]) -> SelectedRows:
    _check_tables(inputs)
    rows = ops.concat([x.rows for x in inputs], 0)
    return SelectedRows(rows, ops.concat([x.value for x in inputs], 0), inputs[0].height)


@kind_kernel("add_n_sr")
def add_n(inputs: Any) -> SelectedRows:
    return _joined(inputs)


@kind_kernel("add_sr")
def add(x: SelectedRows, y: SelectedRows) -> SelectedRows:
    return _joined([x, y])


@kind_kernel("subtract_sr")
def subtract(x: SelectedRows, y: SelectedRows) -> SelectedRows:
    return _joined([x, -y])


kind_kernel("add_dense_sr")(_added)
kind_kernel("add_sr_dense")(lambda x, y: _added(y, x))
kind_kernel("subtract_dense_sr")(lambda x, y: _added(x, -y))
kind_kernel("subtract_sr_dense")(lambda x, y: _added(-_tensor(y), x))


# -- of each value -------------------------------------------------------------------------------
def _factor(x: Any, divides: bool = False) -> Any:
    """One number, 0-d."""
    x = checked_factor(x, divides)
    if not isinstance(x, TensorBase) and not hasattr(x, "shape"):
        return x
    x = _tensor(x)
    if not all(dm.may_equal(d, 1) for d in x.meta.dims):
        raise ShapeError(
            f"selected rows are multiplied and divided by one number, found {x.meta}; write "
            "x.to_dense(), or x.with_value(...)"
        )
    return ops.reshape(x, ()) if x.ndim else x


@kind_kernel("multiply_sr")
def multiply(x: SelectedRows, y: Any) -> SelectedRows:
    return x.with_value(ops.multiply(x.value, _factor(y)))


kind_kernel("multiply_dense_sr")(lambda x, y: multiply(y, x))


@kind_kernel("divide_sr")
def divide(x: SelectedRows, y: Any) -> SelectedRows:
    return x.with_value(ops.divide(x.value, _factor(y, divides=True)))


@kind_kernel("scale_sr")
def scale(x: SelectedRows, scale: Any, bias: Any, bias_after_scale: bool) -> SelectedRows:
    if hasattr(bias, "dtype") or bias != 0:
        raise AttributeValueError(
            f"a bias goes to every row of the table, found {bias} for selected rows; write "
            "x.to_dense() first"
        )
    return x.with_value(ops.scale(x.value, checked_factor(scale)))


@kind_kernel("clip_sr")
def clip(x: SelectedRows, min: Any, max: Any) -> SelectedRows:
    for bound, is_wrong in ((min, lambda b: b > 0), (max, lambda b: b < 0)):
        if isinstance(bound, (int, float)) and is_wrong(bound):
            raise AttributeValueError(
                f"min {min} and max {max} change the rows of zeros; write x.to_dense() first"
            )
        if isinstance(bound, TensorBase):
            raise ArgumentError("the bounds of selected rows must be numbers, found a tensor")
    x = merged(x)
    return x.with_value(ops.clip(x.value, min, max))


@kind_kernel("clip_by_norm_sr")
def clip_by_norm(x: SelectedRows, max_norm: Any) -> SelectedRows:
    x = merged(x)
    return x.with_value(ops.clip_by_norm(x.value, max_norm))


def _on_merged(op: Callable[[Any], Any]) -> Callable[[SelectedRows], SelectedRows]:
    def kernel(x: SelectedRows) -> SelectedRows:
        x = merged(x)
        return x.with_value(op(x.value))

    return kernel


for _op in (ops.sqrt, ops.square, ops.isnan, ops.isinf):
    kind_kernel(f"{_op.__name__}_sr")(_on_merged(_op))
kind_kernel("assign_sr")(lambda x: x)


@kind_kernel("shape_sr")
def shape(input: SelectedRows) -> Any:
    return ops.stack([ops.full((), d, dt.int32) for d in input.shape], 0)


@kind_kernel("sparse_weight_embedding")
def lookup(x: Any, weight: SelectedRows, padding_idx: int, sparse: bool) -> Any:
    return ops.embedding(x, weight.to_dense(), padding_idx)


# -- steps of optimizers -------------------------------------------------------------------------
def _check_grad(param: Any, grad: SelectedRows) -> None:
    param = _tensor(param)
    dims = (grad.height, *grad.value.meta.dims[1:])
    same = param.ndim == len(dims) and all(
        not isinstance(m, (int, dm.Dim)) or dm.may_equal(m, n)
        for m, n in zip(dims, param.meta.dims)
    )
    if not same:
        raise ShapeError(
            f"grad must have rows of a table like param, {param.meta}, found {grad.shape}"
        )


def _by_rows(grad: SelectedRows, state: Sequence[Any], step: Callable[..., Any]) -> list[Any]:
    """A step of the rows in ``grad`` alone: ``step(g, *rows of state)`` gives their new values.

    What comes several times is computed from the same numbers each time, and put there again.
    """
    _check_grad(state[0], grad)
    pieces = [None if x is None else ops.gather(x, grad.rows) for x in state]
    new = step(totals(grad), *pieces)
    return [None if x is None else ops.index_put_(x, [grad.rows], y) for x, y in zip(state, new)]


@kind_kernel("sgd_dense_param_sparse_grad")
def sgd(
    param: Any, learning_rate: Any, grad: SelectedRows, master_param: Any, multi_precision: bool
) -> Any:
    def step(g: Any, p: Any, master: Any) -> Any:
        return ops.sgd_(p, learning_rate, g, master, multi_precision)

    return tuple(_by_rows(grad, (param, master_param), step))


@kind_kernel("adagrad_dense_param_sparse_grad")
def adagrad(
    param: Any, grad: SelectedRows, moment: Any, learning_rate: Any, master_param: Any,
    epsilon: Any, multi_precision: bool,
) -> Any:  # fmt: skip
    def step(g: Any, p: Any, m: Any, master: Any) -> Any:
        return ops.adagrad_(p, g, m, learning_rate, master, epsilon, multi_precision)

    return tuple(_by_rows(grad, (param, moment, master_param), step))


def _adam(op: Callable[..., Any], lazy: int) -> Callable[..., Any]:
    """The kernel of adam_ or adamw_; lazy_mode is the setting of that number behind epsilon."""

    def kernel(
        param: Any, grad: SelectedRows, learning_rate: Any, moment1: Any, moment2: Any,
        moment2_max: Any, beta1_pow: Any, beta2_pow: Any, master_param: Any, skip_update: Any,
        *settings: Any,
    ) -> Any:  # fmt: skip
        if not settings[lazy]:
            _check_grad(param, grad)
            return op(
                param, grad.to_dense(), learning_rate, moment1, moment2, moment2_max, beta1_pow,
                beta2_pow, master_param, skip_update, *settings,
            )  # fmt: skip
        powers: list[Any] = []

        def step(g: Any, p: Any, m1: Any, m2: Any, most: Any, master: Any) -> Any:
            p, m1, m2, most, *after, master = op(
                p, g, learning_rate, m1, m2, most, beta1_pow, beta2_pow, master, skip_update,
                *settings,
            )  # fmt: skip
            powers.extend(after)
            return p, m1, m2, most, master

        state = (param, moment1, moment2, moment2_max, master_param)
        *kept, master = _by_rows(grad, state, step)
        return (*kept, *powers, master)

    return kernel


kind_kernel("adam_dense_param_sparse_grad")(_adam(ops.adam_, 3))
kind_kernel("adamw_dense_param_sparse_grad")(_adam(ops.adamw_, 6))


def _of_table(op: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A step that changes rows without a gradient, too; the gradient is the arg at ``place``."""

    def kernel(*args: Any) -> Any:
        _check_grad(args[0], args[place])
        return op(*args[:place], args[place].to_dense(), *args[place + 1 :])

    return kernel


kind_kernel("momentum_dense_param_sparse_grad")(_of_table(ops.momentum_, 1))
kind_kernel("rmsprop_dense_param_sparse_grad")(_of_table(ops.rmsprop_, 2))
kind_kernel("ftrl_sr")(_of_table(ops.ftrl, 3))
kind_kernel("lamb_sr")(_of_table(ops.lamb_, 1))
