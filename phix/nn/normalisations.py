"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.annotations import FloatLike
from phix.core.axes import axes_of
from phix.core.dispatch import bind
from phix.core.errors import ArgumentError, ShapeError
from phix.core.expectations import expect_dims, expect_equal
from phix.core.given import INTS, NONE, sizes, takes
from phix.core.rules import OPS
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _ending(name: str, x: Any, normalized_shape: int | Sequence[int]) -> tuple[Any, int]:
    """x, which must end in ``normalized_shape``, and where the axes of that begin."""
    shape = list(sizes(normalized_shape, f"{name}: normalized_shape"))
    begin = x.ndim - len(shape)
    refusal = f"{name}: normalized_shape {shape} is not the end of the shape of {x.meta}"
    if not shape or begin < 0:
        raise ShapeError(refusal)
    return expect_equal(x, refusal, *zip(x.meta.dims[begin:], shape)), begin


def _flat(name: str, what: str, parameter: TensorLike | None, rows: Any, begin: int) -> Any:
    """A parameter as a vector: it has the last axes of ``rows``, in their order, or is one."""
    if parameter is None:
        return None
    found, dims = as_tensor(parameter), rows.meta.dims[begin:]
    if found.ndim == 1:  # the op looks at its size
        return found
    refusal = (
        f"{name}: {what} must be {dm.shape_text(dims)}, as normalized_shape, found {found.meta}"
    )
    return ops.reshape(expect_dims(found, refusal, dims), [-1])


@takes()
def layer_norm(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    epsilon: FloatLike = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axes.

    Args:
        x: a float tensor.
        normalized_shape: the sizes of those axes.
        weight, bias: tensors of that shape, or None.
        epsilon: added to the variance.

    Raises:
        ShapeError: x does not end in normalized_shape, or weight or bias has another shape.

    >>> import phix
    >>> phix.nn.functional.layer_norm([[1.0, 3.0]], 2, epsilon=0.0).tolist()
    [[-1.0, 1.0]]
    """
    rows, begin = _ending("layer_norm", as_tensor(x), normalized_shape)
    scale, shift = (
        _flat("layer_norm", what, p, rows, begin)
        for what, p in (("weight", weight), ("bias", bias))
    )
    return ops.layer_norm(rows, scale, shift, epsilon, begin)


@takes()
def rms_norm(
    input: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    eps: FloatLike = 1e-5,
) -> tuple[Any, Any]:
    """input / sqrt(mean(input ** 2) + eps) * weight over the last axes.

    Args:
        input: a float tensor.
        normalized_shape: the sizes of those axes.
        weight: a tensor of that shape, or None.
        eps: added to the mean of squares.

    Returns:
        The result, and 1 / sqrt(mean(input ** 2) + eps) in the shape of the axes before.

    Raises:
        ShapeError: input does not end in normalized_shape, or weight has another shape.

    >>> import phix
    >>> out, inverse = phix.nn.functional.rms_norm([[3.0, 3.0]], 2, eps=0.0)
    >>> out.tolist()
    [[1.0, 1.0]]
    """
    rows, begin = _ending("rms_norm", as_tensor(input), normalized_shape)
    tensors = (rows, None, None, _flat("rms_norm", "weight", weight, rows, begin), None)
    out, _, inverse = bind(OPS["rms_norm"], tensors, (eps, begin, -1.0, 0, 0.0, 0.0))
    return out, inverse


@takes(axis=INTS | NONE)
def standardize(
    x: TensorLike,
    axis: int | Sequence[int] | None = -1,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
    epsilon: FloatLike = 1e-5,
    where: TensorLike | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), of the mean and variance over the axes.

    Args:
        x: a float tensor; one of 16 bits is computed in float32.
        axis: an axis, or several; None for all.
        mean, variance: tensors that broadcast to x, in the place of those of x. A variance of x
            is that about ``mean``.
        epsilon: added to the variance.
        where: bools that broadcast to x: of which elements mean and variance are taken.

    Raises:
        AttributeValueError: an axis is out of range.

    >>> import phix
    >>> phix.nn.functional.standardize([1.0, 3.0], epsilon=0.0).tolist()
    [-1.0, 1.0]
    """
    given = as_tensor(x)
    wide = ops.cast(given, dt.accumulator_dtype(given.dtype))
    axes = list(axes_of(axis, wide.ndim))
    chosen = None if where is None else ops.expand(as_tensor(where), wide.shape)
    middle = _mean_of(wide, axes, chosen) if mean is None else _moment(mean, wide)
    away = wide - middle
    squares = away * away
    spread = _mean_of(squares, axes, chosen) if variance is None else _moment(variance, wide)
    return ops.cast(away * ops.rsqrt(spread + epsilon), given.dtype)


def _moment(value: Any, x: Any) -> Any:
    """A mean or variance that is given: a number has the dtype of x, and all its digits."""
    is_plain = isinstance(value, (int, float))
    return ops.full([], value, x.dtype) if is_plain else as_tensor(value)


def _mean_of(x: Any, axes: list[int], chosen: Any) -> Any:
    """The mean over the axes, which stay, of the elements that are chosen, or of all."""
    if not axes:
        return x
    if chosen is None:
        return ops.mean(x, axes, True)
    total = ops.sum(ops.where(chosen, x, 0.0), axes, None, True)
    return total / ops.sum(ops.cast(chosen, x.dtype), axes, None, True)


class _Statistics(TypedDict, total=False):
    momentum: FloatLike
    epsilon: FloatLike
    data_format: str
    use_global_stats: bool | None


@overload
def batch_norm(
    x: TensorLike,
    running_mean: TensorLike,
    running_var: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: Literal[False] = False,
    momentum: FloatLike = 0.9,
    epsilon: FloatLike = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Tensor: ...


@overload
def batch_norm(
    x: TensorLike,
    running_mean: TensorLike,
    running_var: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    training: Literal[True],
    **rest: Unpack[_Statistics],
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def batch_norm(
    x: TensorLike,
    running_mean: TensorLike,
    running_var: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: FloatLike = 0.9,
    epsilon: FloatLike = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Any: ...


@takes()
def batch_norm(
    x: TensorLike,
    running_mean: TensorLike,
    running_var: TensorLike,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: FloatLike = 0.9,
    epsilon: FloatLike = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each channel.

    Args:
        x: [n, c, ...], or [n, ..., c] with data_format "NHWC" (or "NLC", "NDHWC").
        running_mean, running_var: [c]; what is used outside training.
        weight, bias: [c], or None.
        training: whether x is normalised by its own mean and variance.
        momentum: new running value = momentum * old + (1 - momentum) * that of x.
        epsilon: added to the variance.
        data_format: where the channels are.
        use_global_stats: True uses the running values in training too; None: as training says.

    Returns:
        The result; in training ``(result, running_mean, running_var)`` with the new running values,
        since nothing is updated in place.

    >>> import phix
    >>> F = phix.nn.functional
    >>> out, mean, var = F.batch_norm([[1.0], [3.0]], [0.0], [1.0], training=True, epsilon=0.0)
    >>> out.tolist()
    [[-1.0], [1.0]]
    """
    fixed = not training if use_global_stats is None else use_global_stats
    out, mean, variance, _, _ = ops.batch_norm(
        x, running_mean, running_var, weight, bias,
        not training, momentum, epsilon, data_format, fixed, use_global_stats is False,
    )  # fmt: skip
    return (out, mean, variance) if training else out


@takes()
def instance_norm(
    x: TensorLike,
    running_mean: TensorLike | None = None,
    running_var: TensorLike | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    use_input_stats: bool = True,
    momentum: FloatLike = 0.9,
    eps: FloatLike = 1e-5,
    data_format: str = "NCHW",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of each image.

    Args:
        x: [n, c, ...].
        running_mean, running_var: [c]; used in place of those of x if not use_input_stats.
        weight, bias: [c], or None.
        use_input_stats: whether each channel of x is normalised by its own mean and variance.
        momentum: says nothing here: running values are not updated.
        eps: added to the variance.
        data_format: "NCHW" (or "NCL", "NCDHW").

    Raises:
        ArgumentError: channels are not on axis 1, or running values are wanted and not given.

    >>> import phix
    >>> phix.nn.functional.instance_norm([[[1.0, 3.0]]], eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    if not data_format.startswith("NC"):
        raise ArgumentError(f"instance_norm: channels are on axis 1, found {data_format!r}")
    if use_input_stats:
        return ops.instance_norm(x, weight, bias, eps)
    if running_mean is None or running_var is None:
        raise ArgumentError(
            "instance_norm: use_input_stats=False needs running_mean and running_var; pass both"
        )
    return batch_norm(x, running_mean, running_var, weight, bias, epsilon=eps)


@takes()
def group_norm(
    x: TensorLike,
    num_groups: int,
    epsilon: FloatLike = 1e-5,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each group of channels.

    Args:
        x: [n, c, ...], or [n, ..., c] with data_format "NHWC".
        num_groups: how many groups the channels are parted into.
        epsilon: added to the variance.
        weight, bias: [c], or None.
        data_format: where the channels are.

    >>> import phix
    >>> phix.nn.functional.group_norm([[1.0, 3.0]], 1, epsilon=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return ops.group_norm(x, weight, bias, epsilon, num_groups, data_format)


@takes()
def normalize(x: TensorLike, p: FloatLike = 2, axis: int = 1, epsilon: float = 1e-12) -> Tensor:
    """x divided by its p-norm along the axis, or by epsilon where that is larger.

    Args:
        x: a float tensor.
        p: the order of the norm.
        axis: the axis; of a 1-d x it is the only one.
        epsilon: the least divisor.

    >>> import phix
    >>> phix.nn.functional.normalize([[0.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    norm = ops.p_norm(x, p, 0 if as_tensor(x).ndim == 1 else axis, epsilon, True)
    return ops.divide(x, ops.maximum(norm, epsilon))
