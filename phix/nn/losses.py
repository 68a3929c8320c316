"""Losses. ``reduction`` is "mean", "sum" or "none" (each element by itself)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.core.expectations import expect, expect_dims, expect_within
from phix.core.given import takes
from phix.core.index_ranges import IndexRange, as_int64, check
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor, is_number, is_zero

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _check(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f'{name}: reduction is "mean", "sum" or "none", found {reduction!r}')


def _alike(name: str, input: Any, label: Any) -> Any:
    """A label for each element, or one for all: a column beside a row, broadcast, would be a
    matrix."""
    x, y = as_tensor(input), as_tensor(label)
    refusal = f"{name}: label has the shape of the input, {x.meta}, found {y.meta}; reshape it"
    return expect_dims(y, refusal, x.meta.dims) if y.ndim else y


def _factors(name: str, what: str, given: Any, loss: Any) -> Any:
    """Factors of the elements of ``loss``, which they broadcast to and do not make larger."""
    found, dims = as_tensor(given), loss.meta.dims
    refusal = f"{name}: {what} broadcasts to {dm.shape_text(dims)}, found {found.meta}; reshape it"
    return expect_within(found, refusal, dims)


def _reduced(name: str, loss: Any, reduction: str, weight: Any = None) -> Any:
    """The mean, the sum or all of a loss that is multiplied by ``weight`` first."""
    _check(name, reduction)
    if weight is not None:
        loss = loss * _factors(name, "weight", weight, loss)
    if reduction == "none":
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def _weighted_mean(loss: Any, weight: Any) -> Any:
    """sum(loss) / sum(weight), and 0 where no weight is left; 16 bits would not hold the sums."""
    total, losses = (ops.sum(x.astype(dt.accumulator_dtype(x.dtype))) for x in (weight, loss))
    return (losses / ops.where(total == 0, 1.0, total)).astype(loss.dtype)


@takes()
def mse_loss(input: TensorLike, label: TensorLike, reduction: str = "mean") -> Tensor:
    """(input - label) ** 2.

    >>> import phix
    >>> phix.nn.functional.mse_loss([1.0, 2.0], [1.0, 4.0]).item()
    2.0
    """
    _check("mse_loss", reduction)
    return ops.mse_loss(input, label, reduction)


def square_error_cost(input: TensorLike, label: TensorLike) -> Tensor:
    """(input - label) ** 2, elementwise.

    >>> import phix
    >>> phix.nn.functional.square_error_cost([1.0, 2.0], [1.0, 4.0]).tolist()
    [0.0, 4.0]
    """
    return ops.mse_loss(input, label, "none")


@takes()
def l1_loss(input: TensorLike, label: TensorLike, reduction: str = "mean") -> Tensor:
    """abs(input - label).

    >>> import phix
    >>> phix.nn.functional.l1_loss([1.0, 2.0], [1.0, 4.0]).item()
    1.0
    """
    return _reduced("l1_loss", ops.abs(ops.subtract(input, label)), reduction)


@takes()
def smooth_l1_loss(
    input: TensorLike,
    label: TensorLike,
    reduction: str = "mean",
    delta: FloatLike = 1.0,
    is_huber: bool = True,
) -> Tensor:
    """The Huber loss: r ** 2 / 2 where r = abs(input - label) is at most delta, then a line.

    Args:
        input, label: tensors.
        reduction: "mean", "sum" or "none".
        delta: where the line begins, delta * (r - delta / 2).
        is_huber: False divides all by delta.

    >>> import phix
    >>> phix.nn.functional.smooth_l1_loss([1.0, 2.0], [1.0, 4.0], "none").tolist()
    [0.0, 1.5]
    """
    if is_number(delta) and not float(delta) > 0:
        raise ArgumentError(f"smooth_l1_loss: delta must be above 0, found {delta}; write l1_loss")
    loss = ops.huber_loss(input, label, delta)
    return _reduced("smooth_l1_loss", loss if is_huber else loss / delta, reduction)


@takes()
def log_loss(input: TensorLike, label: TensorLike, epsilon: FloatLike = 0.0001) -> Tensor:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), elementwise.

    >>> import phix
    >>> phix.nn.functional.log_loss([[0.5]], [[1.0]], 0.5).tolist()
    [[-0.0]]
    """
    return ops.log_loss(input, label, epsilon)


@takes()
def kl_div(
    input: TensorLike, label: TensorLike, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence, label * (log(label) - input), of log-probabilities ``input``.

    Args:
        input: logarithms of probabilities.
        label: probabilities, or their logarithms with log_target.
        reduction: "mean", "sum", "none", or "batchmean": the sum over the first dim.
        log_target: whether label holds logarithms.

    Raises:
        AttributeValueError: another reduction.

    >>> import phix
    >>> phix.nn.functional.kl_div([0.0], [1.0]).item()
    0.0
    """
    return ops.kldiv_loss(input, label, reduction, log_target)


@takes()
def binary_cross_entropy(
    input: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(label * log(input) + (1 - label) * log(1 - input)) of probabilities ``input``.

    Args:
        input: probabilities; a logarithm below -100 counts as -100.
        label: probabilities, of the same shape, or one for all.
        weight: factors of the loss, before it is reduced; they broadcast to its shape.
        reduction: "mean", "sum" or "none".

    >>> import phix
    >>> phix.nn.functional.binary_cross_entropy([0.0], [1.0]).item()
    100.0
    """
    label = _alike("binary_cross_entropy", input, label)
    return _reduced("binary_cross_entropy", ops.bce_loss(input, label), reduction, weight)


@takes()
def binary_cross_entropy_with_logits(
    logit: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(logit), without overflow.

    Args:
        logit: any numbers.
        label: probabilities, of the same shape, or one for all.
        weight: factors of the loss, before it is reduced; they broadcast to its shape.
        reduction: "mean", "sum" or "none".
        pos_weight: factors of the positive part, label * log(sigmoid(logit)); they broadcast to
            its shape.

    >>> import phix
    >>> phix.nn.functional.binary_cross_entropy_with_logits([-1000.0], [1.0]).item()
    1000.0
    """
    target = _alike("binary_cross_entropy_with_logits", logit, label)
    of_all = None
    if pos_weight is not None:
        factors = _factors(
            "binary_cross_entropy_with_logits", "pos_weight", pos_weight, as_tensor(logit)
        )
        of_all = 1 + (factors - 1) * target
    loss = ops.sigmoid_cross_entropy_with_logits(logit, target, of_all)
    return _reduced("binary_cross_entropy_with_logits", loss, reduction, weight)


class _OfClasses(TypedDict, total=False):
    ignore_index: int
    numeric_stable_mode: bool
    axis: int


class _LossAlone(_OfClasses, total=False):
    return_softmax: Literal[False]


@overload
def softmax_with_cross_entropy(
    logits: TensorLike,
    label: TensorLike,
    soft_label: bool = False,
    **rest: Unpack[_LossAlone],
) -> Tensor: ...


@overload
def softmax_with_cross_entropy(
    logits: TensorLike,
    label: TensorLike,
    soft_label: bool = False,
    *,
    return_softmax: Literal[True],
    **rest: Unpack[_OfClasses],
) -> tuple[Tensor, Tensor]: ...


@overload
def softmax_with_cross_entropy(
    logits: TensorLike,
    label: TensorLike,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any: ...


@takes()
def softmax_with_cross_entropy(
    logits: TensorLike,
    label: TensorLike,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of each row, with a 1 for the axis of classes; see cross_entropy.

    Args:
        logits: any numbers.
        label: class numbers, or probabilities with soft_label.
        soft_label: whether label holds probabilities.
        ignore_index: a class number whose loss is 0.
        numeric_stable_mode: says nothing here; it is always stable.
        return_softmax: give (loss, softmax).
        axis: the axis of classes.

    >>> import phix
    >>> phix.nn.functional.softmax_with_cross_entropy([[1000.0, 0.0]], [[1]]).tolist()
    [[1000.0]]
    """
    softmax, loss = ops.cross_entropy_with_softmax(
        logits, label, soft_label, True, numeric_stable_mode, ignore_index, axis
    )
    return (loss, softmax) if return_softmax else loss


@takes()
def cross_entropy(
    input: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(input)) at the label.

    A label that is no class raises a TensorIndexError where the call runs at once; compiled
    programs take the nearest class, or raise under ``phix.debug.check_indices()``.

    Args:
        input: a float tensor with an axis of classes.
        label: class numbers, in the shape of input without that axis or with a 1 for it; with
            soft_label a probability for each class.
        weight: [classes], factors of the loss of each class; a mean is then over the weights.
        ignore_index: a class number that does not count.
        reduction: "mean" (over the labels that count), "sum" or "none" (in the shape of label).
        soft_label: whether label holds probabilities.
        axis: the axis of classes.
        use_softmax: False: input holds probabilities already.
        label_smoothing: this share of each label is spread evenly over all classes.

    Raises:
        ShapeError, DTypeError: label does not fit input.

    >>> import phix
    >>> phix.nn.functional.cross_entropy([[1000.0, 0.0], [0.0, 0.0]], [1, -100]).item()
    1000.0
    """
    _check("cross_entropy", reduction)
    scores, target = as_tensor(input), as_tensor(label)
    _check_classes("cross_entropy", scores, axis)
    if weight is not None:
        weight = _of_classes("cross_entropy", weight, scores, axis)
    if is_number(label_smoothing) and not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"cross_entropy: label_smoothing is a share from 0 to 1, found {label_smoothing}"
        )
    keepdim = target.ndim == scores.ndim or reduction != "none"
    if not soft_label and is_zero(label_smoothing):
        loss = _hard(scores, target, weight, ignore_index, reduction, axis, use_softmax)
        return _without(loss, axis, keepdim)
    counts = None
    if not soft_label:
        number = _without_axis(target, axis) if target.ndim == scores.ndim else target
        number, counts = _class_numbers("cross_entropy", scores, number, ignore_index, axis)
        counts = ops.unsqueeze(counts, [axis])
        target = _targets(scores, number, axis)
    if not is_zero(label_smoothing):
        spread = (label_smoothing / _size(scores, axis)).astype(scores.dtype)
        target = (1 - label_smoothing) * target + spread
    loss = _soft(scores, target, weight, counts, reduction, axis, use_softmax)
    return _without(loss, axis, keepdim)


def _targets(scores: Any, number: Any, axis: int) -> Any:
    """Hard labels as soft ones."""
    refusal = f"cross_entropy: input {scores.meta} must have a class along axis {axis}"
    target = _moved_last_to(ops.one_hot(number, scores.shape[axis]), axis).astype(scores.dtype)
    return expect(target, refusal, scores.meta.dims[axis] - 1)


def _check_classes(name: str, scores: Any, axis: int) -> None:
    if not -scores.ndim <= axis < scores.ndim:
        raise ArgumentError(f"{name}: input {scores.meta} has no axis {axis} of classes")


def _class_numbers(
    name: str, scores: Any, number: Any, ignore_index: int, axis: int
) -> tuple[Any, Any]:
    """Labels that are classes, and which of them count: in compiled programs, where nobody looks,
    a number below the first class is the first, one behind the last the last."""
    classes = scores.shape[axis]
    if dt.kind(number.dtype) != "int":
        raise DTypeError(
            f"{name}: label holds class numbers, which are ints, found {number.meta}; cast it to "
            "int64"
        )
    check(number, IndexRange("label", (classes,), "the classes,", False, ignore_index), name)
    number = as_int64(number)  # which holds ignore_index and the last class
    counts = number != ignore_index
    return ops.minimum(ops.maximum(ops.where(counts, number, 0), 0), classes - 1), counts


def _of_classes(name: str, weight: Any, scores: Any, axis: int) -> Any:
    """A weight for each class."""
    found, classes = as_tensor(weight), scores.meta.dims[axis]
    refusal = (
        f"{name}: weight has a number for each class, [{dm.dim_text(classes)}], found {found.meta}"
    )
    return expect_dims(found, refusal, (classes,))


def _without(loss: Any, axis: int, keepdim: bool) -> Any:
    """``loss`` without the 1 for the axis of classes, unless ``keepdim``."""
    return loss if keepdim else ops.squeeze(loss, [axis])


def _without_axis(target: Any, axis: int) -> Any:
    """Labels that have an axis of 1 in place of that of the classes, without it."""
    size = target.shape[axis]
    if isinstance(size, int) and size != 1:
        raise ShapeError(f"cross_entropy: label has {size} classes on axis {axis}, not one number")
    return ops.squeeze(target, [axis])


def _size(x: Any, axis: int) -> Any:
    return ops.full((), x.shape[axis], dt.accumulator_dtype(x.dtype))


def _moved_last_to(x: Any, axis: int) -> Any:
    order = list(range(x.ndim - 1))
    order.insert(axis % x.ndim, x.ndim - 1)
    return ops.transpose(x, order)


def _hard(
    input: Any, label: Any, weight: Any, ignore_index: int, reduction: str, axis: int, soft: bool
) -> Any:
    _, loss = ops.cross_entropy_with_softmax(input, label, False, soft, True, ignore_index, axis)
    label = label.reshape(loss.shape)
    counts = as_int64(label) != ignore_index
    share = counts.astype(loss.dtype)
    if weight is not None:
        share = share * ops.gather(weight, ops.where(counts, label, 0), 0).astype(loss.dtype)
        loss = loss * share
    if reduction == "mean":
        return _weighted_mean(loss, share)
    return ops.sum(loss) if reduction == "sum" else loss


def _soft(
    input: Any, label: Any, weight: Any, counts: Any, reduction: str, axis: int, use_softmax: bool
) -> Any:
    refusal = (
        f"cross_entropy: a soft label has the shape of input, {input.meta}, found {label.meta}"
    )
    label = expect_dims(label, refusal, input.meta.dims)
    if counts is not None:  # a row that does not count may hold anything
        input = ops.where(counts, input, 0.0)
    _, loss = ops.cross_entropy_with_softmax(input, label, True, use_softmax, True, -100, axis)
    share = ops.full_like(loss, 1)
    if weight is not None:
        dims = [1] * input.ndim
        dims[axis] = -1
        share = ops.sum(label * ops.reshape(weight, dims), [axis], keepdim=True)
    if counts is not None:
        share = ops.where(counts, share, 0.0)
    loss = loss * share
    if reduction == "mean":
        return _weighted_mean(loss, share)
    return ops.sum(loss) if reduction == "sum" else loss


@takes()
def nll_loss(
    input: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input at the label, for logarithms of probabilities ``input``.

    A label that is no class raises a TensorIndexError where the call runs at once; compiled
    programs take the nearest class, or raise under ``phix.debug.check_indices()``.

    Args:
        input: [n, classes, ...].
        label: [n, ...] class numbers.
        weight: [classes], factors of the loss of each class; a mean is then over the weights.
        ignore_index: a class number that does not count.
        reduction: "mean" (over the labels that count), "sum" or "none".

    >>> import phix
    >>> phix.nn.functional.nll_loss([[-1.0, -2.0], [-3.0, -4.0]], [1, 0]).item()
    2.5
    """
    _check("nll_loss", reduction)
    log_p, number = as_tensor(input), as_tensor(label)
    _check_classes("nll_loss", log_p, 1)
    if number.ndim != log_p.ndim - 1:
        raise ShapeError(
            f"nll_loss: label has the shape of input without the axis 1 of classes, found "
            f"{number.meta} for {log_p.meta}"
        )
    safe, counts = _class_numbers("nll_loss", log_p, number, ignore_index, 1)
    picked = ops.squeeze(ops.take_along_axis(log_p, ops.unsqueeze(safe, [1]), 1), [1])
    share = counts.astype(log_p.dtype)
    if weight is not None:
        weight = _of_classes("nll_loss", weight, log_p, 1)
        share = share * ops.gather(weight, safe, 0).astype(log_p.dtype)
    loss = -ops.where(counts, picked, 0.0) * share
    if reduction == "mean":
        return _weighted_mean(loss, share)
    return ops.sum(loss) if reduction == "sum" else loss
