"""Losses: decompositions, and the backward rules of those that are kept whole."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.dims import Shape
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.positions import numbers_along
from phix.primitives.widening import as_dtype, in_float32, widened

_REDUCTIONS = ("none", "mean", "sum")


def _check_reduction(reduction: str, known: tuple[str, ...]) -> None:
    if reduction not in known:
        raise AttributeValueError(
            f"reduction must be one of {', '.join(known)}, found {reduction!r}"
        )


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


# -- squares and absolutes ---------------------------------------------------------------------
@rules.normalize("mse_loss")
def mse_loss_attrs(input: MetaTensor, label: MetaTensor, reduction: str) -> Any:
    _check_reduction(reduction, _REDUCTIONS)
    return (reduction,)


@rules.decompose("mse_loss")
@in_float32
def mse_loss(input: Any, label: Any, reduction: str) -> Any:
    return _reduced(ops.square(input - label), reduction)


@rules.decompose("huber_loss")
def huber_loss(input: Any, label: Any, delta: float) -> Any:
    residual = label - input
    size = ops.abs(residual)
    square = 0.5 * residual * residual
    return ops.where(size <= delta, square, delta * (size - 0.5 * delta)), residual


@rules.decompose("huber_loss_grad")
@in_float32
def huber_loss_grad(
    input: Any, label: Any, residual: Any, out_grad: Any, residual_grad: Any, delta: float
) -> Any:
    """The residual, cut off at -delta and delta."""
    grad = ops.clip(residual, -delta, delta) * out_grad + residual_grad
    return unbroadcast(-grad, input), unbroadcast(grad, label)


# -- probabilities -----------------------------------------------------------------------------
_LEAST_LOG = -100.0  # log(0) counts as this much, as in Paddle
_LEAST_VARIANCE = 1e-12


@rules.decompose("bce_loss")
@in_float32
def bce_loss(input: Any, label: Any) -> Any:
    log_p, log_q = (_bounded_log(p) for p in (input, 1 - input))
    return -(label * log_p + (1 - label) * log_q)


def _bounded_log(p: Any) -> Any:
    log = ops.log(p)
    return ops.where(log < _LEAST_LOG, _LEAST_LOG, log)


@rules.decompose("bce_loss_grad")
@in_float32
def bce_loss_grad(input: Any, label: Any, out_grad: Any) -> Any:
    variance = (1 - input) * input
    variance = ops.where(variance < _LEAST_VARIANCE, _LEAST_VARIANCE, variance)
    to_input = out_grad * (input - label) / variance
    to_label = out_grad * (_bounded_log(1 - input) - _bounded_log(input))
    return unbroadcast(to_input, input), unbroadcast(to_label, label)


@rules.decompose("sigmoid_cross_entropy_with_logits")
@in_float32
def sigmoid_cross_entropy_with_logits(
    x: Any, label: Any, pos_weight: Any, normalize: bool, ignore_index: int
) -> Any:
    """(1 - label) x - w log(sigmoid(x)), where w is pos_weight, or 1."""
    counts = label != ignore_index
    x = ops.where(counts, x, 0.0)  # so that no derivative is made of what does not count
    positive = ops.logsigmoid(x)
    loss = (1 - label) * x - (positive if pos_weight is None else pos_weight * positive)
    loss = ops.where(counts, loss, 0.0)
    if normalize:
        total = ops.sum(ops.cast(counts, x.dtype))
        loss = loss / ops.maximum(total, 1.0)
    return loss


@rules.decompose("log_loss")
@in_float32
def log_loss(input: Any, label: Any, epsilon: float) -> Any:
    return -label * ops.log(input + epsilon) - (1 - label) * ops.log(1 - input + epsilon)


@rules.normalize("kldiv_loss")
def kldiv_loss_attrs(x: MetaTensor, label: MetaTensor, reduction: str, log_target: bool) -> Any:
    _check_reduction(reduction, (*_REDUCTIONS, "batchmean"))
    if reduction == "batchmean" and not x.ndim:
        raise ShapeError(f"batchmean divides by the first dim, which {x} has not; write mean")
    return reduction, log_target


@rules.decompose("kldiv_loss")
@in_float32
def kldiv_loss(x: Any, label: Any, reduction: str, log_target: bool) -> Any:
    """label (log(label) - x), which is 0 where label is 0."""
    if log_target:
        loss = ops.exp(label) * (label - x)
    else:
        above = label > 0
        loss = ops.where(above, label * (ops.log(ops.where(above, label, 1.0)) - x), 0.0)
    if reduction == "batchmean":
        return ops.sum(loss) / ops.full((), x.meta.dims[0], x.dtype)
    return _reduced(loss, reduction)


# -- cross entropy -----------------------------------------------------------------------------
@rules.normalize("cross_entropy_with_softmax")
def cross_entropy_attrs(input: MetaTensor, label: MetaTensor, soft_label: bool, *attrs: Any) -> Any:
    *flags, axis = attrs
    if not input.ndim:
        raise ShapeError(f"input must have an axis of classes, found {input}")
    axis = ax.positive(axis, input.ndim)
    _check_label(input, label, soft_label, axis)
    return soft_label, *flags, axis


def _check_label(input: MetaTensor, label: MetaTensor, soft_label: bool, axis: int) -> None:
    if soft_label:
        if not dt.is_float(label.dtype):
            raise DTypeError(f"a soft label holds probabilities, found {label}; cast it to a float")
    elif dt.kind(label.dtype) != "int":
        raise DTypeError(f"a label holds class numbers, found {label}; is soft_label meant?")
    wanted = _label_dims(input, label, soft_label, axis)
    if len(wanted) != label.ndim or not all(map(dm.may_equal, wanted, label.dims)):
        raise ShapeError(_label_refusal(input, label, wanted))


def _label_dims(input: MetaTensor, label: MetaTensor, soft_label: bool, axis: int) -> Shape:
    if soft_label:
        return input.dims
    left, right = input.dims[:axis], input.dims[axis + 1 :]
    return (*left, *right) if label.ndim < input.ndim else (*left, 1, *right)


def _label_refusal(input: MetaTensor, label: MetaTensor, wanted: Shape) -> str:
    return f"label of {input} must have shape {dm.shape_text(wanted)}, found {label}"


def _fitting(input: Any, label: Any, soft_label: bool, axis: int) -> Any:
    """The label, with unknown dims that turn out to be those of the input: others would be
    broadcast, or put in another order."""
    wanted = _label_dims(input.meta, label.meta, soft_label, axis)
    return expect_dims(label, _label_refusal(input.meta, label.meta, wanted), wanted)


@rules.indices("cross_entropy_with_softmax")
def cross_entropy_indices(
    input: MetaTensor,
    label: MetaTensor,
    soft_label: bool,
    use_softmax: bool,
    numeric_stable_mode: bool,
    ignore_index: int,
    axis: int,
) -> list[IndexRange]:
    if soft_label or dt.kind(label.dtype) != "int" or axis >= input.ndim:
        return []  # what infers the metas of a call that does not fit says why
    return [IndexRange("label", (input.dims[axis],), "the classes,", False, ignore_index)]


def _class_numbers(input: Any, label: Any, axis: int) -> Any:
    """A hard label as int64, with a 1 for the axis of classes."""
    dims = input.meta.dims
    label = _fitting(input, label, False, axis)
    return ops.reshape(as_int64(label), (*dims[:axis], 1, *dims[axis + 1 :]))


def _in_range(number: Any, input: Any, axis: int) -> Any:
    """The class nearest to a number: one outside is refused only where the call runs at once."""
    return ops.minimum(ops.maximum(number, 0), input.meta.dims[axis] - 1)


@rules.decompose("cross_entropy_with_softmax")
def cross_entropy_with_softmax(
    input: Any,
    label: Any,
    soft_label: bool,
    use_softmax: bool,
    numeric_stable_mode: bool,
    ignore_index: int,
    axis: int,
) -> Any:
    dtype, input = input.dtype, widened(input)
    log_p = ops.log_softmax(input, axis) if use_softmax else ops.log(input)
    softmax = as_dtype(ops.exp(log_p) if use_softmax else input, dtype)
    if soft_label:
        target = as_dtype(_fitting(input, label, True, axis), log_p.dtype)
        least = math.log(_least(log_p.dtype))  # log_p may be -inf
        bounded = ops.where((target == 0) & (log_p < least), least, log_p)
        terms = target * bounded
        return softmax, as_dtype(-ops.sum(terms, [axis], keepdim=True), dtype)
    number = _class_numbers(input, label, axis)
    counts = number != ignore_index
    class_ = _in_range(number, input, axis)
    picked = ops.take_along_axis(log_p, class_, axis)
    return softmax, as_dtype(ops.where(counts, -picked, 0.0), dtype)


@rules.decompose("cross_entropy_with_softmax_grad")
def cross_entropy_with_softmax_grad(
    label: Any,
    softmax: Any,
    softmax_grad: Any,
    loss_grad: Any,
    *attrs: Any,
) -> Any:
    """softmax - label for a label that sums to 1, and what comes back through softmax itself."""
    soft_label, use_softmax, _, ignore_index, axis = attrs
    if loss_grad is None and softmax_grad is None:
        return None, None
    terms, to_label = [], None
    if loss_grad is not None:
        target, total = _target(softmax, label, soft_label, ignore_index, axis)
        if use_softmax:  # of a row that does not count softmax may be nan
            own = softmax * total if soft_label else ops.where(total == 0, 0.0, softmax)
            terms.append((own - target) * loss_grad)
        else:
            terms.append(-ops.where(target == 0, 0.0, target / softmax) * loss_grad)
        if soft_label:
            to_label = as_dtype(_soft_label_grad(softmax) * loss_grad, label.dtype)
    if softmax_grad is not None and not use_softmax:
        terms.append(softmax_grad)
    elif softmax_grad is not None:
        back = softmax * softmax_grad
        terms.append(back - softmax * ops.sum(back, [axis], keepdim=True))
    return sum(terms[1:], start=terms[0]), to_label


def _target(
    softmax: Any, label: Any, soft_label: bool, ignore_index: int, axis: int
) -> tuple[Any, Any]:
    """The probability that the label has for each class, and the sum of these."""
    if soft_label:
        target = as_dtype(_fitting(softmax, label, True, axis), softmax.dtype)
        return target, ops.sum(target, [axis], keepdim=True)
    number = _class_numbers(softmax, label, axis)
    counts = number != ignore_index
    hit = (_in_range(number, softmax, axis) == numbers_along(axis, softmax.meta.dims)) & counts
    return ops.cast(hit, softmax.dtype), ops.cast(counts, softmax.dtype)


def _least(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).tiny)


def _soft_label_grad(softmax: Any) -> Any:
    least = _least(softmax.dtype)
    return -ops.log(ops.where(softmax < least, least, softmax))


@rules.decompose("cross_entropy_with_softmax_bwd_w_downcast")
def cross_entropy_backward_in_bfloat16(label: Any, softmax: Any, loss_grad: Any) -> Any:
    axis = softmax.ndim - 1
    _check_label(softmax.meta, label.meta, False, axis)
    wide = widened(softmax)
    target, total = _target(wide, label, False, _NO_CLASS, axis)
    return ops.cast((wide * total - target) * as_dtype(loss_grad, wide.dtype), dt.bfloat16)


# -- one class each, or any number -----------------------------------------------------------------
_NO_CLASS = -100


@rules.decompose("hinge_loss")
@in_float32
def hinge_loss(logits: Any, labels: Any) -> Any:
    _check_same_dims(logits.meta, labels.meta)
    return ops.relu(1 - (2 * labels - 1) * logits)


def _check_same_dims(logits: MetaTensor, labels: MetaTensor) -> None:
    fits = logits.ndim == labels.ndim and all(map(dm.may_equal, logits.dims, labels.dims))
    if not fits:
        raise ShapeError(f"labels must have the shape of logits {logits}, found {labels}")


@rules.normalize("nll_loss")
def nll_loss_attrs(
    input: MetaTensor, label: MetaTensor, weight: Any, ignore_index: int, reduction: str
) -> Any:
    _check_reduction(reduction, _REDUCTIONS)
    if input.ndim < 2:
        raise ShapeError(f"input must have an axis of classes, [n, classes, ...], found {input}")
    if label.ndim != input.ndim - 1:
        raise ShapeError(f"label of {input} must be [n, ...], without the classes, found {label}")
    _check_label(input, label, False, 1)
    classes = input.dims[1]
    if weight is not None and (weight.ndim != 1 or not dm.may_equal(weight.dims[0], classes)):
        raise ShapeError(f"weight must be [{dm.dim_text(classes)}], one a class, found {weight}")
    return ignore_index, reduction


@rules.indices("nll_loss")
def nll_loss_indices(
    input: MetaTensor, label: MetaTensor, weight: Any, ignore_index: int, reduction: str
) -> list[IndexRange]:
    if input.ndim < 2 or dt.kind(label.dtype) != "int":
        return []
    return [IndexRange("label", (input.dims[1],), "the classes,", False, ignore_index)]


@rules.decompose("nll_loss")
@in_float32
def nll_loss(input: Any, label: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    dims = label.meta.dims
    number = _class_numbers(input, label, 1)
    counts = number != ignore_index
    class_ = _in_range(number, input, 1)
    picked = ops.take_along_axis(input, class_, 1)
    weights = ops.cast(counts, input.dtype)
    if weight is not None:
        seen = ops.reshape(as_dtype(weight, input.dtype), _along_classes(input))
        of_class = ops.take_along_axis(ops.expand(seen, input.meta.dims), class_, 1)
        weights = ops.where(counts, of_class, 0.0)
    losses = ops.where(counts, -picked * weights, 0.0)
    if reduction == "none":
        return ops.reshape(losses, dims), ops.full((), 0, input.dtype)
    loss, total = ops.sum(losses), ops.sum(weights)
    if reduction == "mean":
        loss = loss / ops.where(total == 0, 1.0, total)
    return loss, total


def _along_classes(input: Any) -> dm.Shape:
    return tuple(d if i == 1 else 1 for i, d in enumerate(input.meta.dims))


@rules.decompose("label_smooth")
@in_float32
def label_smooth(label: Any, prior_dist: Any, epsilon: float) -> Any:
    if not label.ndim:
        raise ShapeError(f"label must have an axis of classes, found {label.meta}")
    classes = label.meta.dims[-1]
    if prior_dist is None:
        prior: Any = 1 / ops.full((), classes, label.dtype)
    else:
        if not dm.may_equal(dm.product(prior_dist.meta.dims), classes):
            raise ShapeError(
                f"prior_dist must have {dm.dim_text(classes)} elements, one a class, found "
                f"{prior_dist.meta}"
            )
        prior = ops.reshape(prior_dist, (classes,))
    return (1 - epsilon) * label + epsilon * prior


@rules.normalize("identity_loss")
def identity_loss_attrs(x: MetaTensor, reduction: int) -> Any:
    if reduction not in (0, 1, 2):
        raise AttributeValueError(
            f"reduction must be 0 (sum), 1 (mean) or 2 (none), found {reduction}"
        )
    return (reduction,)


@rules.decompose("identity_loss")
def identity_loss(x: Any, reduction: int) -> Any:
    return _reduced(x, ("sum", "mean", "none")[reduction])
