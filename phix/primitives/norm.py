"""Norms of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import rules
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.reduction import restored
from phix.primitives.widening import as_dtype, widened

Axes = Sequence[int]


# -- p_norm, squared_l2_norm -------------------------------------------------------------------
@rules.normalize("p_norm")
def p_norm_attrs(
    x: MetaTensor, porder: float, axis: int, epsilon: float, keepdim: bool, asvector: bool
) -> Any:
    return porder, 0 if asvector else ax.positive(axis, x.ndim), epsilon, keepdim, asvector


def _norm_axes(x: Any, axis: int, asvector: bool) -> Axes:
    return range(x.ndim) if asvector or not x.ndim else (axis,)


@rules.decompose("p_norm")
def p_norm(x: Any, porder: float, axis: int, epsilon: float, keepdim: bool, asvector: bool) -> Any:
    axes = _norm_axes(x, axis, asvector)
    wide = widened(x)
    size = ops.abs(wide)
    if math.isinf(porder):
        return (ops.max if porder > 0 else ops.min)(ops.abs(x), axes, keepdim)
    if porder == 0:
        size = ops.cast(wide != 0, wide.dtype)
    elif porder == 2:
        size = wide * wide
    elif porder != 1:
        size = ops.pow(size, porder)
    total = ops.sum(size, axes, keepdim=keepdim)
    if porder == 2:
        total = ops.sqrt(total)
    elif porder not in (0, 1):
        total = ops.pow(total, 1 / porder)
    return as_dtype(total, x.dtype)


@rules.decompose("p_norm_grad")
def p_norm_grad(
    x: Any,
    out: Any,
    out_grad: Any,
    porder: float,
    axis: int,
    epsilon: float,
    keepdim: bool,
    asvector: bool,
) -> Any:
    """sign(x) (|x| / out) ** (porder - 1), and 0 where x or out is."""
    axes = _norm_axes(x, axis, asvector)
    norm, grad = (restored(v, x, axes, keepdim) for v in (out, out_grad))
    if porder == 0:
        return ops.full(x.meta.dims, 0, x.dtype)
    if porder == 1:
        return grad * ops.sign(x)
    if math.isinf(porder):
        hits = ops.cast(ops.abs(x) == norm, x.dtype)
        return hits * ops.sign(x) * (grad / ops.sum(hits, axes, keepdim=True))
    ratio = x / ops.where(norm == 0, 1.0, norm)
    if porder == 2:
        return grad * ratio
    at_zero = ratio == 0
    power = ops.pow(ops.where(at_zero, 1.0, ops.abs(ratio)), porder - 1)
    return grad * ops.where(at_zero, 0.0, ops.sign(x) * power)


@rules.decompose("squared_l2_norm")
def squared_l2_norm(x: Any) -> Any:
    wide = widened(x)
    return as_dtype(ops.sum(wide * wide), x.dtype)


@rules.decompose("squared_l2_norm_grad")
def squared_l2_norm_grad(x: Any, out_grad: Any) -> Any:
    return 2 * x * out_grad
