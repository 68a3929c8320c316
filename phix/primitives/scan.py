"""Scans: ops whose element k along an axis depends on the elements before it."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.pointwise import conj
from phix.primitives.widening import in_float32


def neighbour(x: Any, axis: int, step: int) -> Any:
    """Element k holds what stood at k - step; at the edge, what rolled in from the other one."""
    return ops.roll(x, (step,), (axis,)) if x.ndim else x


def at_edge(x: Any, axis: int, last: bool) -> Any:
    """Where the index along ``axis`` is the first, or the last; broadcasts against ``x``."""
    size = x.meta.dims[axis]
    numbers = ops.arange(0, size, 1, dt.int64)
    where = numbers == (ops.full((), size, dt.int64) - 1 if last else 0)
    return ops.reshape(where, (size, *(1 for _ in range(x.ndim - axis - 1))))


def before(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """Element k holds the one before it in the order of the scan, the first of all ``fill``."""
    step = -1 if reverse else 1
    edge = ops.full((), fill, x.dtype)
    if not x.ndim:
        return edge
    return ops.where(at_edge(x, axis, reverse), edge, neighbour(x, axis, step))


# -- cumsum ------------------------------------------------------------------------------------
@rules.normalize("cumsum")
@rules.normalize("logcumsumexp")
def flat_axis_attrs(x: MetaTensor, axis: Any, flatten: bool, exclusive: bool, reverse: bool) -> Any:
    return 0 if flatten else ax.positive(int(axis), x.ndim), flatten, exclusive, reverse


@rules.infer_meta("CumScalarAxisInferMeta")
def cumsum_meta(
    x: MetaTensor, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> MetaTensor:
    return MetaTensor((x.size,) if flatten else x.dims, dt.summed_dtype(x.dtype))


@rules.decompose("cumsum_grad")
def cumsum_grad(
    x: Any, out_grad: Any, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Any:
    """What is summed up to k is asked for from k on: the scan the other way."""
    grad = ops.cumsum(out_grad, axis, False, exclusive, not reverse)
    return ops.reshape(grad, x.meta.dims) if flatten else grad


@rules.batch("cumsum")
def cumsum_batch(
    batched: Any, x: Any, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Any:
    size, *dims = x.meta.dims
    if flatten:
        x = ops.reshape(x, (size, dm.product(tuple(dims))))
        return ops.cumsum(x, 1, False, exclusive, reverse)
    rows = x if dims else ops.reshape(x, (size, 1))
    out = ops.cumsum(rows, axis + 1, False, exclusive, reverse)
    return out if dims else ops.reshape(out, (size,))


# -- cumprod -----------------------------------------------------------------------------------
@rules.normalize("cumprod")
def cumprod_attrs(x: MetaTensor, dim: int, exclusive: bool, reverse: bool) -> Any:
    return ax.positive(dim, x.ndim, "dim"), exclusive, reverse


@rules.infer_meta("UnchangedInferMetaCheckAxis")
def cumprod_meta(x: MetaTensor, dim: int, exclusive: bool, reverse: bool) -> MetaTensor:
    return x.with_dtype(dt.summed_dtype(x.dtype))


@rules.decompose("cumprod_grad")
def cumprod_grad(x: Any, out_grad: Any, dim: int, exclusive: bool, reverse: bool) -> Any:
    """(product before k) * s_k with s_k = g_k + x_{k+1} s_{k+1}; exclusive: g_{k+1} for g_k.

    s_k gathers the cotangents from k on, each times the factors behind k that its product has.
    """
    if not x.ndim:
        return 0.0 * out_grad if exclusive else out_grad
    x = conj(x)
    grad = before(out_grad, dim, not reverse, 0) if exclusive else out_grad
    following = neighbour(x, dim, 1 if reverse else -1)
    gathered = ops.linear_recurrence(following, grad, dim, not reverse)
    return ops.cumprod(x, dim, True, reverse) * gathered


@rules.batch("cumprod")
def cumprod_batch(batched: Any, x: Any, dim: int, exclusive: bool, reverse: bool) -> Any:
    if x.ndim > 1:
        return ops.cumprod(x, dim + 1, exclusive, reverse)
    rows = ops.reshape(x, (*x.meta.dims, 1))
    return ops.reshape(ops.cumprod(rows, 1, exclusive, reverse), x.meta.dims)


# -- linear_recurrence -------------------------------------------------------------------------
@rules.normalize("linear_recurrence")
def recurrence_attrs(a: MetaTensor, x: MetaTensor, axis: int, reverse: bool) -> Any:
    return ax.positive(axis, x.ndim), reverse


@rules.infer_meta("LinearRecurrenceInferMeta")
def recurrence_meta(a: MetaTensor, x: MetaTensor, axis: int, reverse: bool) -> MetaTensor:
    if a.ndim != x.ndim or not all(map(dm.may_equal, a.dims, x.dims)):
        raise ShapeError(f"a and x must have the same dims, found {a} and {x}; expand one of them")
    if not x.ndim:
        raise ShapeError("a recurrence runs along an axis, found 0-d tensors; reshape them to [1]")
    return x


@rules.decompose("linear_recurrence_grad")
def recurrence_grad(a: Any, x: Any, out: Any, out_grad: Any, axis: int, reverse: bool) -> Any:
    """x gets q_k = g_k + a_{k+1} q_{k+1}, and a_k gets q_k out_{k-1}."""
    following = neighbour(conj(a), axis, 1 if reverse else -1)
    to_x = ops.linear_recurrence(following, out_grad, axis, not reverse)
    return to_x * before(conj(out), axis, reverse, 0), to_x


@rules.batch("linear_recurrence")
def recurrence_batch(batched: Any, a: Any, x: Any, axis: int, reverse: bool) -> Any:
    size = (a if batched[0] else x).meta.dims[0]
    a, x = (t if b else ops.expand(t, (size, *t.meta.dims)) for t, b in zip((a, x), batched))
    return ops.linear_recurrence(a, x, axis + 1, reverse)


# -- cummax, cummin ----------------------------------------------------------------------------
@rules.normalize("cummax")
@rules.normalize("cummin")
def running_attrs(x: MetaTensor, axis: int, dtype: Any) -> Any:
    return ax.positive(axis, x.ndim), dtype or dt.int64


@rules.infer_meta("CumWithIndicesInferMeta")
def running_meta(x: MetaTensor, axis: int, dtype: Any) -> tuple[MetaTensor, MetaTensor]:
    return x, x.with_dtype(dtype)


@rules.decompose("cummax_grad")
@rules.decompose("cummin_grad")
def running_grad(x: Any, indices: Any, out_grad: Any, axis: int, dtype: Any) -> Any:
    """Each cotangent to the element that was the extreme one then."""
    if not x.ndim:
        return out_grad
    nothing = ops.full(x.meta.dims, 0, out_grad.dtype)
    return ops.put_along_axis(nothing, indices, out_grad, axis, "add", True)


@rules.batch("cummax")
def cummax_batch(batched: Any, x: Any, axis: int, dtype: Any) -> Any:
    if x.ndim > 1:
        return ops.cummax(x, axis + 1, dtype)
    return x, ops.full(x.meta.dims, 0, dtype)


@rules.batch("cummin")
def cummin_batch(batched: Any, x: Any, axis: int, dtype: Any) -> Any:
    if x.ndim > 1:
        return ops.cummin(x, axis + 1, dtype)
    return x, ops.full(x.meta.dims, 0, dtype)


# -- logcumsumexp ------------------------------------------------------------------------------
@rules.decompose("logcumsumexp")
@in_float32
def logcumsumexp(x: Any, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Any:
    """m + log(s), m the largest so far: s_k = s_{k-1} exp(m_{k-1} - m_k) + exp(x_k - m_k)."""
    if flatten or not x.ndim:
        x, axis, shape = ops.reshape(x, (x.meta.size,)), 0, (x.meta.size,) if flatten else ()
    else:
        shape = x.meta.dims
    if reverse:
        x = ops.flip(x, (axis,))
    top, _, total = _sums_of_exp(x, axis)
    out = top + ops.log(total)
    if exclusive:
        out = before(out, axis, False, float("-inf"))
    return ops.reshape(ops.flip(out, (axis,)) if reverse else out, shape)


def _sums_of_exp(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """m, the largest so far; exp(m_{k-1} - m_k); and s, as ``logcumsumexp`` has them."""
    top = ops.stop_gradient(ops.cummax(x, axis)[0])
    top = ops.where(ops.isinf(top), 0.0, top)
    # a change is none above 0, but where 0 stands for -inf, or at the edge, which nobody reads:
    # infinity there would be nan in what follows, and in derivatives
    change = neighbour(top, axis, 1) - top
    decay = ops.exp(ops.where(change > 0, 0.0, change))
    return top, decay, ops.linear_recurrence(decay, ops.exp(x - top), axis, False)


@rules.decompose("logcumsumexp_grad")
@in_float32
def logcumsumexp_grad(
    x: Any, out: Any, out_grad: Any, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Any:
    """exp(x_k - m_k) / s_k u_k, u_k = g_k + exp(m_k - m_{k+1}) s_k / s_{k+1} u_{k+1}: these are
    exp(x_k - out_k) and exp(out_k - out_{k+1}), none above 1, with the digits that out has no place
    for."""
    shape = x.meta.dims
    if flatten or not x.ndim:
        x, axis = ops.reshape(x, (x.meta.size,)), 0
        out_grad = ops.reshape(out_grad, x.meta.dims)
    if exclusive:
        out_grad = before(out_grad, axis, not reverse, 0)
    if reverse:
        x, out_grad = ops.flip(x, (axis,)), ops.flip(out_grad, (axis,))
    top, decay, total = _sums_of_exp(x, axis)
    divisor = ops.where(total == 0, 1.0, total)
    ratio = total * neighbour(decay / divisor, axis, -1)
    gathered = ops.linear_recurrence(ratio, out_grad, axis, True)
    found = ops.exp(x - top) / divisor * gathered
    return ops.reshape(ops.flip(found, (axis,)) if reverse else found, shape)
