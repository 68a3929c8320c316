"""Activations."""

from __future__ import annotations

from typing import Any, Literal

from phix import ops
from phix.core.annotations import DTypeLike, FloatLike
from phix.core.conversion import owned_tensor
from phix.core.given import FLAG, one_of, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike


def as_tensor(x: Any) -> Any:
    """``x`` as a tensor; an array is copied."""
    return x if isinstance(x, TensorBase) else owned_tensor(x)


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
