"""Bounds on updates, and decay of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ShapeError
from phix.core.given import takes
from phix.optim.base import (
    NUMBER,
    RATE,
    GradientTransformationExtraArgs,
    global_norm,
    mapped,
    needed,
    no_steps,
    number,
    one_more,
    pair,
    root,
    square,
    stateless,
    to_dtype,
    wide,
    widest,
)
from phix.optim.schedules import rate_at
from phix.optim.wrapping import masked


@takes(max_delta=NUMBER)
def clip(max_delta: float) -> GradientTransformationExtraArgs:
    """Each element of the updates, kept within -max_delta and max_delta.

    >>> import phix
    >>> phix.optim.clip(1.0).update([phix.full([1], -4.0)], ())[0][0].tolist()
    [-1.0]
    """

    def bounded(u: Any) -> Any:
        most = number(max_delta, u.dtype)
        return to_dtype(ops.minimum(ops.maximum(wide(u), -most), most), u.dtype)

    return stateless("clip", lambda updates, params: mapped(bounded, updates))


@takes(max_norm=NUMBER)
def clip_by_global_norm(max_norm: float) -> GradientTransformationExtraArgs:
    """All updates times max_norm / n, where n, :func:`global_norm`, is not smaller than max_norm.

    >>> import phix
    >>> tx = phix.optim.clip_by_global_norm(1.0)
    >>> tx.update([phix.full([1], 3.0), phix.full([1], 4.0)], ())[0][0].tolist()
    [0.6000000238418579]
    """

    def update(updates: Any, params: Any) -> Any:
        norm = global_norm(updates)
        is_small = norm < number(max_norm, norm.dtype)
        divisor = ops.where(is_small, 1.0, norm)

        def bounded(u: Any) -> Any:
            x = wide(u)
            scaled = x / to_dtype(divisor, x.dtype) * number(max_norm, u.dtype)
            return to_dtype(ops.where(is_small, x, scaled), u.dtype)

        return mapped(bounded, updates)

    return stateless("clip_by_global_norm", update)


@takes(threshold=NUMBER)
def clip_by_block_rms(threshold: float) -> GradientTransformationExtraArgs:
    """Each leaf of the updates divided by max(1, sqrt(mean(u ** 2)) / threshold).

    >>> import phix
    >>> phix.optim.clip_by_block_rms(1.0).update([phix.full([2], 4.0)], ())[0][0].tolist()
    [1.0, 1.0]
    """

    def bounded(u: Any) -> Any:
        size = root(ops.mean(square(wide(u))))
        return to_dtype(wide(u) / ops.maximum(size / number(threshold, u.dtype), 1.0), u.dtype)

    return stateless("clip_by_block_rms", lambda updates, params: mapped(bounded, updates))


def _unit_norm(x: Any, axis: Any) -> Any:
    """The norm of what leads to one unit: of all axes but the last, of vectors of all."""
    squares = square(wide(x))
    if axis is not None:
        return root(ops.sum(squares, axis, keepdim=True))
    most = sum(not dm.is_one(d) for d in x.meta.dims)
    of_all = ops.sum(squares, tuple(range(x.ndim)), keepdim=True)
    if most <= 1:
        return root(of_all)
    if x.ndim > 5:
        raise ShapeError(f"axis is needed for a parameter of {x.ndim} axes, found {x.meta}")
    of_unit = ops.sum(squares, 0 if x.ndim <= 3 else tuple(range(x.ndim - 1)), keepdim=True)
    if sum(dm.is_known(d) and d != 1 for d in x.meta.dims) > 1:
        return root(of_unit)
    # which of unknown sizes are 1, a call tells
    axes = sum((dm.minimum(d - 1, 1) for d in x.meta.dims), start=0)
    return root(ops.where(ops.full((), axes, dt.int64) <= 1, of_all, of_unit))


@takes(clipping=NUMBER, eps=NUMBER)
def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: int | Sequence[int] | None = None
) -> GradientTransformationExtraArgs:
    """Bounds the norm of each unit's update to clipping * max(norm of its parameters, eps).

    (A. Brock et al., "High-performance large-scale image recognition without normalization",
    2021.) update needs the parameters.

    Args:
        clipping: the largest ratio of the norms.
        eps: the least norm of parameters.
        axis: the axes that norms go over; None: the first of matrices, all but the last of kernels
            of convolutions, all of vectors.

    >>> import phix
    >>> tx = phix.optim.adaptive_grad_clip(0.5)
    >>> tx.update([phix.full([1], 4.0)], (), [phix.full([1], 2.0)])[0][0].tolist()
    [1.0]
    """
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else axis

    def bounded(u: Any, p: Any) -> Any:
        own = _unit_norm(u, axes)
        most = number(clipping, u.dtype) * ops.maximum(_unit_norm(p, axes), number(eps, p.dtype))
        clipped = wide(u) * (most / ops.maximum(own, 1e-6))
        return to_dtype(ops.where(own < most, wide(u), clipped), u.dtype)

    return stateless(
        "adaptive_grad_clip", lambda updates, params: mapped(bounded, updates, needed(params))
    )


class WeightDecaySchedule(NamedTuple):
    """How many steps were made."""

    count: Any


@takes(weight_decay=RATE)
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Any:
    """update + weight_decay * parameter, of the parameters that the mask has True for.

    Args:
        weight_decay: a number, or a schedule.
        mask: a tree of bools, or a function that gives one for the parameters; None: all.

    >>> import phix
    >>> tx = phix.optim.add_decayed_weights(0.5)
    >>> tx.update([phix.ones([1])], tx.init([phix.ones([1])]), [phix.ones([1])])[0][0].tolist()
    [1.5]
    """

    def added(rate: Any, updates: Any, params: Any) -> Any:
        def one(u: Any, p: Any) -> Any:
            return to_dtype(wide(u) + number(rate, u.dtype) * wide(p), u.dtype)

        return mapped(one, updates, needed(params))

    def init(params: Any) -> WeightDecaySchedule:
        return WeightDecaySchedule(no_steps())

    def scheduled(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        rate = rate_at(weight_decay, state.count, widest(updates))
        return added(rate, updates, params), WeightDecaySchedule(one_more(state.count))

    if callable(weight_decay):
        tx = pair("add_decayed_weights", init, scheduled)
    else:
        tx = stateless("add_decayed_weights", lambda u, p: added(weight_decay, u, p))
    return tx if mask is None else masked(tx, mask)
