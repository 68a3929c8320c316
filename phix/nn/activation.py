"""Activations."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core.arguments import DTypeLike
from phix.core.errors import AttributeValueError
from phix.core.tensor import TensorLike


def relu(x: TensorLike) -> Any:
    """max(x, 0), elementwise; slope 0 at 0.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.relu([-1.0, 0.0, 2.0]).tolist()
    [0.0, 0.0, 2.0]
    """
    return ops.relu(x)


def relu6(x: TensorLike) -> Any:
    """min(max(x, 0), 6), elementwise; slope 0 at 0 and at 6.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.relu6([-1.0, 2.0, 7.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return ops.relu6(x)


def gelu(x: TensorLike, approximate: bool | str = False) -> Any:
    """x * P(Z <= x) for a standard normal Z: x * (1 + erf(x / sqrt(2))) / 2, elementwise.

    Args:
        x: a tensor of any shape, float.
        approximate: True or "tanh" for x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.gelu([-1.0, 0.0, 1.0]).tolist()]
    [-0.1587, 0.0, 0.8413]
    """
    known = {"tanh": True, "none": False}
    if isinstance(approximate, str) and approximate not in known:
        raise AttributeValueError(
            f"gelu: approximate {approximate!r} is not known; write 'tanh', 'none' or a bool"
        )
    return ops.gelu(x, known[approximate] if isinstance(approximate, str) else approximate)


def silu(x: TensorLike) -> Any:
    """x * sigmoid(x) = x / (1 + exp(-x)), elementwise.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.silu([-1.0, 0.0, 1.0]).tolist()]
    [-0.2689, 0.0, 0.7311]
    """
    return ops.silu(x)


def swish(x: TensorLike) -> Any:
    """x * sigmoid(x), elementwise: another name of :func:`silu`.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.swish([-1.0, 0.0, 1.0]).tolist()]
    [-0.2689, 0.0, 0.7311]
    """
    return ops.swish(x)


def swiglu(x: TensorLike, y: TensorLike | None = None) -> Any:
    """silu(x) * y, elementwise; without y, x is cut in half along its last axis to give both.

    Args:
        x: a tensor of any shape, float; without y, of shape [..., 2n] (the result is [..., n]).
        y: a tensor of the shape of x.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.swiglu([1.0, 2.0, 3.0, 4.0]).tolist()]
    [2.1932, 7.0464]
    """
    return ops.swiglu(x, y)


def sigmoid(x: TensorLike) -> Any:
    """1 / (1 + exp(-x)), elementwise, without overflow.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.sigmoid([-1000.0, 0.0, 1000.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return ops.sigmoid(x)


def log_sigmoid(x: TensorLike) -> Any:
    """log(sigmoid(x)) = -log(1 + exp(-x)), elementwise, without overflow.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.log_sigmoid([-1000.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    return ops.logsigmoid(x)


def softplus(x: TensorLike, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta * x)) / beta, elementwise; x itself where beta * x > threshold.

    Args:
        x: a tensor of any shape, float.
        beta: how sharp the bend is.
        threshold: where the straight line begins.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.softplus([-1.0, 0.0, 100.0]).tolist()]
    [0.3133, 0.6931, 100.0]
    """
    return ops.softplus(x, beta, threshold)


def softsign(x: TensorLike) -> Any:
    """x / (1 + abs(x)), elementwise.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.softsign([-1.0, 0.0, 3.0]).tolist()
    [-0.5, 0.0, 0.75]
    """
    return ops.softsign(x)


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Any:
    """x where x > 0, else negative_slope * x, elementwise.

    Args:
        x: a tensor of any shape, float.
        negative_slope: the slope below 0, and at 0.

    >>> import phix
    >>> phix.nn.functional.leaky_relu([-2.0, 3.0], 0.5).tolist()
    [-1.0, 3.0]
    """
    return ops.leaky_relu(x, negative_slope)


def elu(x: TensorLike, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1), elementwise.

    Args:
        x: a tensor of any shape, float.
        alpha: how far below 0 it goes.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.elu([-1.0, 0.0, 2.0]).tolist()]
    [-0.6321, 0.0, 2.0]
    """
    return ops.elu(x, alpha)


def hardswish(x: TensorLike) -> Any:
    """x * min(max(x + 3, 0), 6) / 6, elementwise.

    Args:
        x: a tensor of any shape, float.

    >>> import phix
    >>> phix.nn.functional.hardswish([-4.0, 0.0, 3.0]).tolist()
    [0.0, 0.0, 3.0]
    """
    return ops.hardswish(x)


def hardsigmoid(x: TensorLike, slope: float = 0.1666667, offset: float = 0.5) -> Any:
    """min(max(slope * x + offset, 0), 1), elementwise.

    Args:
        x: a tensor of any shape, float.
        slope, offset: of the line between 0 and 1.

    >>> import phix
    >>> phix.nn.functional.hardsigmoid([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return ops.hardsigmoid(x, slope, offset)


def hardtanh(x: TensorLike, min: float = -1.0, max: float = 1.0) -> Any:
    """x cut off at min and max, elementwise; slope 0 at both and beyond.

    Args:
        x: a tensor of any shape, float.
        min, max: the bounds.

    >>> import phix
    >>> phix.nn.functional.hardtanh([-2.0, 0.5, 2.0]).tolist()
    [-1.0, 0.5, 1.0]
    """
    return ops.hardtanh(x, min, max)


def softmax(x: TensorLike, axis: int = -1, dtype: DTypeLike | None = None) -> Any:
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    Args:
        x: a tensor of any shape, float.
        axis: the axis along which the results add up to 1.
        dtype: a float dtype to cast x to first.

    >>> import phix
    >>> phix.nn.functional.softmax([1000.0, 1000.0]).tolist()
    [0.5, 0.5]
    """
    return ops.softmax(x if dtype is None else ops.cast(x, dtype), axis)


def log_softmax(x: TensorLike, axis: int = -1, dtype: DTypeLike | None = None) -> Any:
    """x - log(sum(exp(x))) along an axis: the logarithm of :func:`softmax`, without overflow.

    Args:
        x: a tensor of any shape, float.
        axis: the axis along which the exponentials of the results add up to 1.
        dtype: a float dtype to cast x to first.

    >>> import phix
    >>> [round(v, 4) for v in phix.nn.functional.log_softmax([1000.0, 1000.0]).tolist()]
    [-0.6931, -0.6931]
    """
    return ops.log_softmax(x if dtype is None else ops.cast(x, dtype), axis)
