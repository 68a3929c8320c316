"""Activations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike, FloatLike
from phix.core.axes import axes_of, axis_of
from phix.core.conversion import owned_tensor
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.given import FLAG, INT, INTS, NONE, one_of, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike


def as_tensor(x: Any) -> Any:
    """``x`` as a tensor; an array is copied."""
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def _floating(x: Any) -> Any:
    """``x`` as a tensor of floats: ints become the default float."""
    found = as_tensor(x)
    return found if dt.is_differentiable(found.dtype) else ops.cast(found, dt.default_float())


def is_number(value: Any) -> bool:
    """Whether a value is a number, Python's or NumPy's; what a tensor is may be known later."""
    return not isinstance(value, TensorBase)


def is_zero(number: Any) -> bool:
    """Whether a number is known to be 0."""
    return is_number(number) and number == 0


def relu(x: TensorLike) -> Tensor:
    """max(x, 0), elementwise; the slope at 0 is 0.

    >>> import phix
    >>> phix.nn.functional.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    return ops.relu(x)


def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6), elementwise; the slope at 0 and at 6 is 0.

    >>> import phix
    >>> phix.nn.functional.relu6([-1.0, 2.0, 9.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return ops.relu6(x)


@takes(approximate=FLAG | one_of("tanh", "none"))
def gelu(x: TensorLike, approximate: Literal["tanh", "none"] | bool = False) -> Tensor:
    """x times the cumulative normal distribution at x, elementwise.

    Args:
        x: a float tensor.
        approximate: False or "none": by erf; True or "tanh": by the tanh formula.

    Raises:
        ArgumentError: approximate is something else.

    >>> import phix
    >>> phix.nn.functional.gelu([0.0, 30.0], approximate="tanh").tolist()
    [0.0, 30.0]
    """
    return ops.gelu(x, approximate in (True, "tanh"))


def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x), elementwise.

    >>> import phix
    >>> phix.nn.functional.silu([0.0, 30.0]).tolist()
    [0.0, 30.0]
    """
    return ops.silu(x)


def swish(x: TensorLike) -> Tensor:
    """x * sigmoid(x), elementwise: silu by its other name.

    >>> import phix
    >>> phix.nn.functional.swish([0.0, 30.0]).tolist()
    [0.0, 30.0]
    """
    return ops.swish(x)


@takes()
def swiglu(x: TensorLike, y: TensorLike | None = None) -> Tensor:
    """silu(x) * y, elementwise; without y the halves of x along its last axis take both places.

    >>> import phix
    >>> phix.nn.functional.swiglu([30.0, 2.0]).tolist()
    [60.0]
    """
    return ops.swiglu(x, y)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), elementwise, without overflow.

    >>> import phix
    >>> phix.nn.functional.sigmoid([-1000.0, 0.0]).tolist()
    [0.0, 0.5]
    """
    return ops.sigmoid(x)


@takes()
def log_sigmoid(x: TensorLike) -> Tensor:
    """log(sigmoid(x)), elementwise, without overflow.

    >>> import phix
    >>> phix.nn.functional.log_sigmoid([-1000.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    return ops.logsigmoid(x)


def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> import phix
    >>> phix.nn.functional.tanh([0.0]).tolist()
    [0.0]
    """
    return ops.tanh(x)


@takes()
def softplus(x: TensorLike, beta: FloatLike = 1, threshold: FloatLike = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta, elementwise; x itself where beta * x is above the threshold.

    >>> import phix
    >>> phix.nn.functional.softplus([-1000.0, 1000.0]).tolist()
    [0.0, 1000.0]
    """
    return ops.softplus(x, beta, threshold)


def softsign(x: TensorLike) -> Tensor:
    """x / (1 + abs(x)), elementwise.

    >>> import phix
    >>> phix.nn.functional.softsign([-1.0, 3.0]).tolist()
    [-0.5, 0.75]
    """
    return ops.softsign(x)


@takes()
def leaky_relu(x: TensorLike, negative_slope: FloatLike = 0.01) -> Tensor:
    """x above 0, else negative_slope * x, elementwise.

    >>> import phix
    >>> phix.nn.functional.leaky_relu([-2.0, 2.0], 0.5).tolist()
    [-1.0, 2.0]
    """
    return ops.leaky_relu(x, negative_slope)


@takes()
def elu(x: TensorLike, alpha: FloatLike = 1.0) -> Tensor:
    """x above 0, else alpha * (exp(x) - 1), elementwise.

    >>> import phix
    >>> phix.nn.functional.elu([-1000.0, 2.0]).tolist()
    [-1.0, 2.0]
    """
    return ops.elu(x, alpha)


@takes()
def celu(x: TensorLike, alpha: FloatLike = 1.0) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0), elementwise; its slope is 1 on both sides
    of 0.

    >>> import phix
    >>> phix.nn.functional.celu([-1000.0, 2.0], 0.5).tolist()
    [-0.5, 2.0]
    """
    return ops.celu(x, alpha)


@takes()
def selu(
    x: TensorLike, scale: FloatLike = 1.0507009873554805, alpha: FloatLike = 1.6732632423543772
) -> Tensor:
    """scale * x above 0, else scale * alpha * (exp(x) - 1), elementwise.

    >>> import phix
    >>> phix.nn.functional.selu([-1000.0, 2.0], 1.5, 2.0).tolist()
    [-3.0, 3.0]
    """
    return ops.selu(x, scale, alpha)


def mish(x: TensorLike) -> Tensor:
    """x * tanh(log(1 + exp(x))), elementwise; the logarithm is x itself above 20.

    >>> import phix
    >>> phix.nn.functional.mish([0.0, 1000.0]).tolist()
    [0.0, 1000.0]
    """
    return ops.mish(x, 20.0)


@takes(axis=INT)
def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of x along the axis.

    Args:
        x: a float tensor of an even size along the axis.
        axis: the axis that is halved.

    Raises:
        ShapeError: the size is odd.
        AttributeValueError: axis is out of range.

    >>> import phix
    >>> phix.nn.functional.glu([4.0, 6.0, 0.0, 1000.0]).tolist()
    [2.0, 6.0]
    """
    whole = as_tensor(x)
    at = axis_of(axis, whole.ndim)
    half = dm.divide_exact(whole.meta.dims[at], 2)
    if half is None:
        raise ShapeError(f"glu: axis {axis} of {whole.meta} has no halves; its size must be even")
    a, b = (whole[(slice(None),) * at + (part,)] for part in (slice(half), slice(half, None)))
    return a * ops.sigmoid(b)


@takes()
def squareplus(x: TensorLike, b: FloatLike | TensorLike = 4) -> Tensor:
    """(x + sqrt(x ** 2 + b)) / 2, elementwise: a smooth relu without exponentials.

    It keeps its digits where both cancel, below 0, and does not overflow where x ** 2 does.

    Args:
        x: a float tensor.
        b: above 0, how round the bend at 0 is: a number, or a tensor that broadcasts.

    Raises:
        AttributeValueError: b is a number that is not above 0.

    >>> import phix
    >>> phix.nn.functional.squareplus([-3.0, 0.0, 3.0], 16.0).tolist()
    [1.0, 2.0, 4.0]
    """
    if isinstance(b, (int, float)) and not b > 0:
        raise AttributeValueError(f"squareplus: b is above 0, found {b!r:.80}; of 0 it is relu(x)")
    whole = _floating(x)
    is_endless = ops.isinf(whole)  # what is left of an infinity beside another is no number
    at = ops.where(is_endless, 0.0, whole)
    bend: Any = b if isinstance(b, (int, float)) else as_tensor(b)
    # a scale beside which neither square overflows; the result does not depend on it
    scale = ops.stop_gradient(ops.maximum(ops.abs(at), 1.0))
    size = scale * ops.sqrt(ops.square(at / scale) + bend / scale / scale)
    is_below = at < 0
    away = size * 0.5 + ops.where(is_below, -at, at) * 0.5
    beside = bend / 4 / away  # what it has beside relu(x): second slopes of size alone would cancel
    found = ops.where(is_below, beside, at + beside)
    return ops.where(is_endless, ops.relu(whole), found)


@takes()
def sparse_plus(x: TensorLike) -> Tensor:
    """0 up to -1, (x + 1) ** 2 / 4 from there to 1, and x above, elementwise; its slope is
    :func:`sparse_sigmoid`.

    >>> import phix
    >>> phix.nn.functional.sparse_plus([-2.0, 0.0, 1.0, 3.0]).tolist()
    [0.0, 0.25, 1.0, 3.0]
    """
    at = _floating(x)
    return ops.where(at >= 1.0, at, ops.square(sparse_sigmoid(at)))


@takes()
def sparse_sigmoid(x: TensorLike) -> Tensor:
    """min(max((x + 1) / 2, 0), 1), elementwise, with slope 0 at both bounds.

    >>> import phix
    >>> phix.nn.functional.sparse_sigmoid([-2.0, 0.0, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return ops.hardtanh(_floating(x), -1.0, 1.0) * 0.5 + 0.5


@takes()
def log1mexp(x: TensorLike) -> Tensor:
    """log(1 - exp(-x)), elementwise, right for small and for large x; NaN below 0, -inf at 0.

    Source: M. Mächler, "Accurately Computing log(1 - exp(-|a|))", which changes the formula at
    log(2).

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.log1mexp([1e-20, 0.6931472, 50.0]).tolist()]
    [-46.0517, -0.6931, -0.0]
    """
    at = _floating(x)
    is_small = at < math.log(2)
    small, large = ops.where(is_small, at, 1.0), ops.where(is_small, 1.0, at)
    return ops.where(is_small, ops.log(-ops.expm1(-small)), ops.log1p(-ops.exp(-large)))


@takes(axis=INTS | NONE, keepdims=FLAG)
def logmeanexp(
    x: TensorLike,
    axis: int | Sequence[int] | None = None,
    where: TensorLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """log(mean(exp(x))) over the axes, without overflow: logsumexp(x) - log(n).

    Args:
        x: a float tensor.
        axis: an axis, or several; None for all.
        where: bools that broadcast to x: which elements are meant; of none it is NaN.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AttributeValueError: an axis is out of range.

    >>> import phix
    >>> phix.nn.functional.logmeanexp([1000.0, 1000.0]).item()
    1000.0
    """
    at = _floating(x)
    axes = list(axes_of(axis, at.ndim))
    if where is None:
        count = ops.full([], math.prod(at.shape[k] for k in axes), at.dtype)
    else:
        chosen = ops.expand(as_tensor(where), at.shape)
        at = ops.where(chosen, at, ops.full([], -math.inf, at.dtype))
        held = ops.cast(chosen, at.dtype)
        count = ops.sum(held, axes, None, keepdims) if axes else held
    whole = ops.logsumexp(at, axes, keepdims) if axes else at
    return whole - ops.log(count)


def hardswish(x: TensorLike) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6, elementwise.

    >>> import phix
    >>> phix.nn.functional.hardswish([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.0, 4.0]
    """
    return ops.hardswish(x)


@takes()
def hardsigmoid(x: TensorLike, slope: FloatLike = 0.1666667, offset: FloatLike = 0.5) -> Tensor:
    """min(max(slope * x + offset, 0), 1), elementwise.

    >>> import phix
    >>> phix.nn.functional.hardsigmoid([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return ops.hardsigmoid(x, slope, offset)


@takes()
def hardtanh(x: TensorLike, min: FloatLike = -1.0, max: FloatLike = 1.0) -> Tensor:
    """min(max(x, min), max), elementwise, with slope 0 at both bounds.

    >>> import phix
    >>> phix.nn.functional.hardtanh([-4.0, 0.5, 4.0]).tolist()
    [-1.0, 0.5, 1.0]
    """
    return ops.hardtanh(x, min, max)


@takes()
def softmax(x: TensorLike, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along the axis.

    Args:
        x: a tensor.
        axis: the axis that sums to 1.
        dtype: x is cast to it first; by default it keeps its own.

    >>> import phix
    >>> phix.nn.functional.softmax([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """
    return ops.softmax(x if dtype is None else ops.cast(x, dtype), axis)


@takes()
def log_softmax(x: TensorLike, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """log(softmax(x)) along the axis, without overflow.

    Args:
        x: a tensor.
        axis: the axis whose exponentials sum to 1.
        dtype: x is cast to it first; by default it keeps its own.

    >>> import phix
    >>> phix.nn.functional.log_softmax([0.0, -1000.0]).tolist()
    [0.0, -1000.0]
    """
    return ops.log_softmax(x if dtype is None else ops.cast(x, dtype), axis)
