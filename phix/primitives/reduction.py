"""Reductions: metas, backward and batching rules."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.dims import Shape
from phix.core.errors import ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.pointwise import conj
from phix.primitives.widening import as_dtype, in_float32, widened


def reduced_dims(x: MetaTensor, axis: Any, keepdim: bool) -> Shape:
    """The dims of a reduction of ``x`` over ``axis``."""
    if keepdim:
        return tuple(1 if i in axis else d for i, d in enumerate(x.dims))
    return tuple(d for i, d in enumerate(x.dims) if i not in axis)


def restored(y: Any, x: Any, axis: Any, keepdim: bool) -> Any:
    """What a reduction of ``x`` left, with the reduced axes back as 1s."""
    return y if keepdim else ops.reshape(y, reduced_dims(x.meta, axis, True))


def shifted(axis: Any) -> tuple[int, ...]:
    """Axes behind a batch dim."""
    return tuple(a + 1 for a in axis)


def check_not_empty(x: MetaTensor, axis: Any) -> None:
    """Raise ShapeError where ``axis`` is known to hold no element to choose from."""
    out = reduced_dims(x, axis, True)
    if any(dm.is_zero(x.dims[a]) for a in axis) and not any(map(dm.is_zero, out)):
        raise ShapeError(
            f"no element of {x} lies along axis {tuple(axis)}, so there is none to choose; "
            "give the axis a size from 1, or handle empty tensors apart"
        )


def count(x: Any, axis: Any) -> Any:
    """How many elements of ``x`` a reduction folds into one, as a 0-d float tensor."""
    size = dm.product(tuple(x.meta.dims[a] for a in axis))
    return ops.full((), size, dt.real_dtype(x.dtype))


def largest(x: Any, axis: Any) -> Any:
    """The maxima of floats over ``axis``, kept as 1s; -inf where a size that the program computes
    leaves nothing to choose from."""
    ends = [(0, int(i in axis and dm.is_computed(d))) for i, d in enumerate(x.meta.dims)]
    if any(behind for _, behind in ends):
        x = ops.pad(x, [n for pair in ends for n in pair], float("-inf"))
    return ops.max(x, axis, True)


# -- attributes --------------------------------------------------------------------------------
@rules.normalize("max")
@rules.normalize("min")
@rules.normalize("amax")
@rules.normalize("amin")
@rules.normalize("any")
@rules.normalize("all")
@rules.normalize("mean")
def axis_attrs(x: MetaTensor, axis: Any, keepdim: bool) -> Any:
    return ax.reduced(axis, x), keepdim


@rules.normalize("sum")
def sum_attrs(x: MetaTensor, axis: Any, dtype: Any, keepdim: bool) -> Any:
    return ax.reduced(axis, x), dtype or dt.summed_dtype(x.dtype), keepdim


@rules.normalize("prod")
@rules.normalize("logsumexp")
def prod_attrs(x: MetaTensor, axis: Any, keepdim: bool, reduce_all: bool) -> Any:
    return ax.reduced(() if reduce_all else axis, x), keepdim, reduce_all


@rules.normalize("var")
@rules.normalize("std")
def var_attrs(x: MetaTensor, axis: Any, keepdim: bool, unbiased: bool, correction: float) -> Any:
    return ax.reduced(axis, x), keepdim, unbiased, correction if unbiased else 0.0


# -- metas -------------------------------------------------------------------------------------
@rules.infer_meta("SumInferMeta")
def sum_meta(x: MetaTensor, axis: Any, dtype: Any, keepdim: bool) -> MetaTensor:
    return MetaTensor(reduced_dims(x, axis, keepdim), dtype)


@rules.infer_meta("ReduceIntArrayAxisInferMetaBase")
def prod_meta(x: MetaTensor, axis: Any, keepdim: bool, reduce_all: bool) -> MetaTensor:
    return MetaTensor(reduced_dims(x, axis, keepdim), dt.summed_dtype(x.dtype))


@rules.infer_meta("ReduceIntArrayAxisInferMeta")
def extreme_meta(x: MetaTensor, axis: Any, keepdim: bool) -> MetaTensor:
    check_not_empty(x, axis)
    return x.with_dims(reduced_dims(x, axis, keepdim))


@rules.infer_meta("ReduceInferMeta")
def truth_meta(x: MetaTensor, axis: Any, keepdim: bool) -> MetaTensor:
    return MetaTensor(reduced_dims(x, axis, keepdim), dt.bool_)


# -- sum ---------------------------------------------------------------------------------------
@rules.decompose("sum_grad")
def sum_grad(x: Any, out_grad: Any, axis: Any, keepdim: bool) -> Any:
    found = as_dtype(out_grad, x.dtype)
    if found.ndim:  # one number has no axes to bring back
        found = restored(found, x, axis, keepdim)
    return ops.expand(found, x.meta.dims)


@rules.batch("sum")
def sum_batch(batched: Any, x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    return as_dtype(x, dtype) if not axis else ops.sum(x, shifted(axis), dtype, keepdim)


# -- prod --------------------------------------------------------------------------------------
@rules.decompose("prod_grad")
def prod_grad(x: Any, out_grad: Any, axis: Any, keepdim: bool, reduce_all: bool) -> Any:
    """For each factor the product of the others, from both sides: no division, so zeros do."""
    order = [*(i for i in range(x.ndim) if i not in axis), *axis]
    back = sorted(range(x.ndim), key=order.__getitem__)
    moved = ops.transpose(x, order)
    dims = moved.meta.dims
    kept = x.ndim - len(axis)
    rows = ops.reshape(moved, (*dims[:kept], dm.product(dims[kept:])))
    others = ops.cumprod(rows, kept, True) * ops.cumprod(rows, kept, True, True)
    others = ops.transpose(ops.reshape(others, dims), back)
    return restored(out_grad, x, axis, keepdim) * conj(others)


@rules.batch("prod")
def prod_batch(batched: Any, x: Any, axis: Any, keepdim: bool, reduce_all: bool) -> Any:
    if not axis:
        return as_dtype(x, dt.summed_dtype(x.dtype))
    return ops.prod(x, shifted(axis), keepdim, False)


# -- max, min ----------------------------------------------------------------------------------
@rules.decompose("max_grad")
@rules.decompose("min_grad")
def extreme_grad(x: Any, out: Any, out_grad: Any, axis: Any, keepdim: bool) -> Any:
    """Split evenly among the elements equal to the extreme one."""
    hits = ops.cast(x == restored(out, x, axis, keepdim), x.dtype)
    shares = restored(out_grad, x, axis, keepdim) / ops.sum(hits, axis, keepdim=True)
    return hits * shares


@rules.batch("max")
def max_batch(batched: Any, x: Any, axis: Any, keepdim: bool) -> Any:
    return x if not axis else ops.max(x, shifted(axis), keepdim)


@rules.batch("min")
def min_batch(batched: Any, x: Any, axis: Any, keepdim: bool) -> Any:
    return x if not axis else ops.min(x, shifted(axis), keepdim)


# -- any, all ----------------------------------------------------------------------------------
@rules.batch("any")
def any_batch(batched: Any, x: Any, axis: Any, keepdim: bool) -> Any:
    return x != 0 if not axis else ops.any(x, shifted(axis), keepdim)


@rules.batch("all")
def all_batch(batched: Any, x: Any, axis: Any, keepdim: bool) -> Any:
    return x != 0 if not axis else ops.all(x, shifted(axis), keepdim)


# -- argmax, argmin ----------------------------------------------------------------------------
@rules.normalize("argmax")
@rules.normalize("argmin")
def argument_attrs(x: MetaTensor, axis: Any, keepdims: bool, flatten: bool, dtype: Any) -> Any:
    """axis None means all elements, as flatten does."""
    flatten = flatten or axis is None
    return 0 if flatten else ax.positive(axis, x.ndim), keepdims, flatten, dtype or dt.int64


@rules.infer_meta("ArgMinMaxInferMeta")
def argument_meta(
    x: MetaTensor, axis: int, keepdims: bool, flatten: bool, dtype: Any
) -> MetaTensor:
    over = range(x.ndim) if flatten or not x.ndim else (axis,)
    check_not_empty(x, over)
    return MetaTensor(reduced_dims(x, over, keepdims), dtype)


def _argument_batch(op: Any, x: Any, axis: int, keepdims: bool, flatten: bool, dtype: Any) -> Any:
    size, *dims = x.meta.dims
    if not dims:
        return ops.full((size,), 0, dtype)
    if not flatten:
        return op(x, axis + 1, keepdims, False, dtype)
    out = op(ops.reshape(x, (size, dm.product(tuple(dims)))), 1, False, False, dtype)
    return ops.reshape(out, (size, *(1 for _ in dims))) if keepdims else out


@rules.batch("argmax")
def argmax_batch(batched: Any, x: Any, *attrs: Any) -> Any:
    return _argument_batch(ops.argmax, x, *attrs)


@rules.batch("argmin")
def argmin_batch(batched: Any, x: Any, *attrs: Any) -> Any:
    return _argument_batch(ops.argmin, x, *attrs)


# -- moments -----------------------------------------------------------------------------------
@rules.decompose("mean")
def mean(x: Any, axis: Any, keepdim: bool) -> Any:
    wide = widened(x)
    return as_dtype(ops.sum(wide, axis, keepdim=keepdim) / count(wide, axis), x.dtype)


@rules.decompose("mean_grad")
@in_float32
def mean_grad(x: Any, out_grad: Any, axis: Any, keepdim: bool) -> Any:
    share = out_grad / count(x, axis)
    return ops.expand(restored(share, x, axis, keepdim), x.meta.dims)


@rules.decompose("mean_all_grad")
@in_float32
def mean_all_grad(x: Any, out_grad: Any) -> Any:
    return ops.expand(out_grad / count(x, range(x.ndim)), x.meta.dims)


def _degrees(x: Any, axis: Any, correction: float) -> Any:
    """The divisor of a variance; 0 where there are no more elements than the correction."""
    return ops.maximum(count(x, axis) - correction, 0.0)


@rules.decompose("var")
def var(x: Any, axis: Any, keepdim: bool, unbiased: bool, correction: float) -> Any:
    wide = widened(x)
    centred = wide - ops.mean(wide, axis, True)
    if dt.is_complex(x.dtype):
        square = ops.square(ops.real(centred)) + ops.square(ops.imag(centred))
    else:
        square = centred * centred
    total = ops.sum(square, axis, keepdim=keepdim)
    return as_dtype(total / _degrees(wide, axis, correction), dt.real_dtype(x.dtype))


@rules.decompose("var_grad")
@in_float32
def var_grad(
    x: Any, out_grad: Any, axis: Any, keepdim: bool, unbiased: bool, correction: float
) -> Any:
    """2 (x - mean) / (n - correction): what goes through the mean sums to 0."""
    share = restored(out_grad, x, axis, keepdim) * (2 / _degrees(x, axis, correction))
    return (x - ops.mean(x, axis, True)) * share


@rules.decompose("std")
@in_float32
def std(x: Any, axis: Any, keepdim: bool, unbiased: bool, correction: float) -> Any:
    return ops.sqrt(ops.var(x, axis, keepdim, unbiased, correction))


# -- logsumexp ---------------------------------------------------------------------------------
@rules.decompose("logsumexp")
@in_float32
def logsumexp(x: Any, axis: Any, keepdim: bool, reduce_all: bool) -> Any:
    """log(sum(exp(x - m))) + m for the largest element m, or for 0 where that is infinite."""
    if any(dm.is_zero(x.meta.dims[a]) for a in axis):
        return ops.full(reduced_dims(x.meta, axis, keepdim), float("-inf"), x.dtype)
    top = _top(x, axis)
    total = ops.log(ops.sum(ops.exp(x - top), axis, keepdim=True)) + top
    return total if keepdim else ops.reshape(total, reduced_dims(x.meta, axis, False))


def _top(x: Any, axis: Any) -> Any:
    return _finite(largest(x, axis))


def _finite(top: Any) -> Any:
    return ops.where(ops.isinf(top), 0.0, top)


@rules.batch("logsumexp")
def logsumexp_batch(batched: Any, x: Any, axis: Any, keepdim: bool, reduce_all: bool) -> Any:
    """Kept whole: what it is made of has no largest element where there turns out to be none."""
    return x if not axis else ops.logsumexp(x, shifted(axis), keepdim, False)


@rules.decompose("logsumexp_grad")
@in_float32
def logsumexp_grad(
    x: Any, out: Any, out_grad: Any, axis: Any, keepdim: bool, reduce_all: bool
) -> Any:
    """exp(x - m) / sum(exp(x - m)), which is 0 where every x is -inf. exp(x - out) would lose the
    digits that out, m + log(...), has no place for. Where there may turn out to be no m, out
    stands for it: of any number the quotient is the same, and out is close to m, however rounded.
    """
    if any(dm.is_zero(x.meta.dims[a]) for a in axis):
        return ops.full(x.meta.dims, 0.0, x.dtype)
    may_be_empty = any(dm.may_equal(x.meta.dims[a], 0) for a in axis)
    top = _finite(restored(out, x, axis, keepdim)) if may_be_empty else _top(x, axis)
    terms = ops.exp(x - ops.stop_gradient(top))
    total = ops.sum(terms, axis, keepdim=True)
    return restored(out_grad, x, axis, keepdim) * (terms / ops.where(total == 0, 1.0, total))


# -- reduce_as ---------------------------------------------------------------------------------
@rules.infer_meta("ReduceAsInferMeta")
def reduce_as_meta(x: MetaTensor, target: MetaTensor) -> MetaTensor:
    missing = x.ndim - target.ndim
    fits = missing >= 0 and all(
        dm.is_one(t) or dm.may_equal(t, d) for t, d in zip(target.dims, x.dims[max(missing, 0) :])
    )
    if not fits:
        raise ShapeError(f"target {target} does not broadcast to {x}, so x does not sum to it")
    return x.with_dims(target.dims)


@rules.decompose("reduce_as_grad")
def reduce_as_grad(x: Any, target: Any, out_grad: Any) -> Any:
    return ops.expand(out_grad, x.meta.dims)


@rules.batch("reduce_as")
def reduce_as_batch(batched: Any, x: Any, target: Any) -> Any:
    """Of target the dims alone count; 1s stand between the batch dim and fewer of them."""
    size = (x if batched[0] else target).meta.dims[0]
    want = target.meta.dims[1:] if batched[1] else target.meta.dims
    if not batched[0]:
        return ops.expand(ops.reduce_as(x, ops.full(want, 0, x.dtype)), (size, *want))
    ones = (1,) * (x.ndim - 1 - len(want))
    like = ops.full((size, *ones, *want), 0, x.dtype)
    return ops.reshape(ops.reduce_as(x, like), (size, *want))
