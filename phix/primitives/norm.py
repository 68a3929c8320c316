"""Norms of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.primitives import axes as ax
from phix.primitives.positions import to_axis
from phix.primitives.reduction import restored
from phix.primitives.widening import as_dtype, in_float32, widened

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
        size = ops.pow(size if porder % 2 else wide, porder)  # where it can be, smooth at 0
    total = ops.sum(size, axes, keepdim=keepdim)
    if porder == 2:
        total = at_zero(total, ops.sqrt)
    elif porder not in (0, 1):
        total = at_zero(total, lambda t: ops.pow(t, 1 / porder), porder > 0)
    return as_dtype(total, x.dtype)


def at_zero(total: Any, root: Callable[[Any], Any], is_zero: bool = True) -> Any:
    """A root whose slope at 0 is 0, as that of the norm."""
    if not is_zero:
        return root(total)
    nothing = total == 0
    return ops.where(nothing, 0.0, root(ops.where(nothing, 1.0, total)))


@rules.operands("p_norm")
def p_norm_of_tensor(
    x: Any, porder: Any, axis: int, epsilon: Any, keepdim: bool, asvector: bool
) -> Any:
    """In units of the largest element, or of the smallest for negative orders, which may thus be
    infinite. The norm does not depend on that unit, so no derivative goes through it."""
    _, axis, _, keepdim, asvector = p_norm_attrs(x.meta, 2.0, axis, 0.0, keepdim, asvector)
    if not isinstance(porder, TensorBase):
        return ops.p_norm(x, porder, axis, 0.0, keepdim, asvector)
    axes = _norm_axes(x, axis, asvector)
    size = ops.abs(widened(x))
    order = porder.astype(size.dtype)
    least, most = ops.min(size, axes, True), ops.max(size, axes, True)
    unit = ops.stop_gradient(ops.where(order < 0, least, most))
    ratio = size / ops.where(unit == 0, 1.0, unit)
    at_zero = ratio == 0
    power = ops.elementwise_pow(ops.where(at_zero, 1.0, ratio), order)
    total = ops.sum(ops.where(at_zero, 0.0, power), axes, keepdim=True)
    root = ops.elementwise_pow(
        ops.where(total == 0, 1.0, total), 1 / ops.where(order == 0, 1.0, order)
    )
    count = ops.sum(ops.cast(size != 0, size.dtype), axes, keepdim=True)
    norm = ops.where(unit == 0, 0.0, unit * root)
    norm = ops.where(order == 0, count, norm)
    return as_dtype(norm if keepdim else ops.squeeze(norm, axes), x.dtype)


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
    is_none = norm == 0
    ratio = ops.where(is_none, 0.0, x / ops.where(is_none, 1.0, norm))
    if porder == int(porder) and porder > 1:  # smooth in each element
        power = ops.pow(ratio, porder - 1)
        return grad * (ops.sign(ratio) * power if porder % 2 else power)
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


# -- norm, dist, renorm ------------------------------------------------------------------------
@rules.normalize("norm")
def norm_attrs(x: MetaTensor, axis: int, epsilon: float, is_test: bool) -> Any:
    return ax.positive(axis, x.ndim), epsilon, is_test


@rules.decompose("norm")
def norm(x: Any, axis: int, epsilon: float, is_test: bool) -> Any:
    wide = widened(x)
    root = at_zero(ops.sum(wide * wide, [axis], keepdim=True) + epsilon, ops.sqrt)
    out = wide / ops.where(root == 0, 1.0, root)
    return as_dtype(out, x.dtype), as_dtype(root, x.dtype)


@rules.decompose("dist")
def dist(x: Any, y: Any, p: float) -> Any:
    return ops.p_norm(x - y, p, asvector=True)


@rules.normalize("renorm")
def renorm_attrs(x: MetaTensor, p: float, axis: int, max_norm: float) -> Any:
    if not p > 0:
        raise AttributeValueError(f"p must be above 0, found {p}")
    if not max_norm >= 0:
        raise AttributeValueError(f"max_norm must be 0 or above, found {max_norm}")
    return p, ax.positive(axis, x.ndim), max_norm


@rules.decompose("renorm")
def renorm(x: Any, p: float, axis: int, max_norm: float) -> Any:
    dims = x.meta.dims
    others = [a for a in range(x.ndim) if a != axis]
    wide = widened(x)
    slices = ops.transpose(wide, (axis, *others))
    flat = ops.reshape(slices, (dims[axis], dm.product(tuple(dims[a] for a in others))))
    sizes = ops.p_norm(flat, p, 1)
    is_long = sizes > max_norm
    scale = ops.where(is_long, max_norm / ops.where(is_long, sizes, 1.0), 1.0)
    kept = [d if a == axis else 1 for a, d in enumerate(dims)]
    return as_dtype(wide * ops.reshape(scale, kept), x.dtype)


# -- spectral_norm -----------------------------------------------------------------------------
@rules.normalize("spectral_norm")
def spectral_norm_attrs(
    weight: MetaTensor, u: MetaTensor, v: MetaTensor, dim: int, power_iters: int, eps: float
) -> Any:
    if weight.ndim < 2:
        raise ShapeError(f"weight must have 2 axes or more, found {weight}")
    if power_iters < 0:
        raise AttributeValueError(f"power_iters must not be negative, found {power_iters}")
    return ax.positive(dim, weight.ndim, "dim"), power_iters, eps


@rules.decompose("spectral_norm")
@in_float32
def spectral_norm(weight: Any, u: Any, v: Any, dim: int, power_iters: int, eps: float) -> Any:
    dims = weight.meta.dims
    rest = tuple(d for i, d in enumerate(dims) if i != dim)
    rows, columns = dims[dim], dm.product(rest)
    for name, vector, size in (("u", u, rows), ("v", v, columns)):
        if not dm.may_equal(dm.product(vector.meta.dims), size):
            raise ShapeError(f"{name} must have {dm.dim_text(size)} elements, found {vector.meta}")
    matrix = ops.reshape(to_axis(weight, dim, 0), (rows, columns))
    still = ops.stop_gradient(matrix)
    left = ops.stop_gradient(ops.reshape(u, (rows, 1)))
    right = ops.stop_gradient(ops.reshape(v, (columns, 1)))
    for _ in range(power_iters):
        right = _to_length_one(ops.matmul(still, left, True), eps)
        left = _to_length_one(ops.matmul(still, right), eps)
    sigma = ops.sum(left * ops.matmul(matrix, right))
    return weight / sigma


def _to_length_one(x: Any, eps: float) -> Any:
    return x / (ops.p_norm(x, 2.0, 0, 0.0, False, True) + eps)
