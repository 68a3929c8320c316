"""Normalisations as layers; that of batches has a state, which is given and returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from phix import ops
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError
from phix.core.given import at_least, sizes, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.modules.base import module, static
from phix.nn.normalisations import batch_norm, group_norm, layer_norm, rms_norm


@module
class LayerNorm:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axes, those of weight.

    >>> import phix
    >>> phix.nn.LayerNorm.create(2, epsilon=0.0)(phix.to_tensor([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """

    weight: Any
    bias: Any = None
    epsilon: float = static(default=1e-5)

    @staticmethod
    @takes()
    def create(
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: DTypeLike = float,
    ) -> LayerNorm:
        """A layer with weights of 1 and biases of 0, of the sizes of the last axes."""
        shape = sizes(normalized_shape, "LayerNorm: normalized_shape")
        zeros = ops.full(shape, 0.0, dtype) if bias else None
        return LayerNorm(ops.full(shape, 1.0, dtype), zeros, epsilon)

    def __call__(self, x: TensorLike) -> Tensor:
        """A tensor of the shape of x."""
        return layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@module
class RMSNorm:
    """x / sqrt(mean(x ** 2) + epsilon) * weight over the last axes, those of weight.

    >>> import phix
    >>> phix.nn.RMSNorm.create(2, epsilon=0.0)(phix.to_tensor([3.0, 3.0])).tolist()
    [1.0, 1.0]
    """

    weight: Any
    epsilon: float = static(default=1e-5)

    @staticmethod
    @takes()
    def create(
        normalized_shape: int | Sequence[int], epsilon: float = 1e-5, dtype: DTypeLike = float
    ) -> RMSNorm:
        """A layer with weights of 1, of the sizes of the last axes."""
        shape = sizes(normalized_shape, "RMSNorm: normalized_shape")
        return RMSNorm(ops.full(shape, 1.0, dtype), epsilon)

    def __call__(self, x: TensorLike) -> Tensor:
        """A tensor of the shape of x."""
        return rms_norm(x, self.weight.shape, self.weight, self.epsilon)[0]


@module
class GroupNorm:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each group of channels, on axis 1.

    >>> import phix
    >>> layer = phix.nn.GroupNorm.create(1, 2, epsilon=0.0)
    >>> layer(phix.to_tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    weight: Any
    bias: Any
    num_groups: int = static()
    epsilon: float = static(default=1e-5)

    @staticmethod
    @takes(num_groups=at_least(1), num_channels=at_least(1))
    def create(
        num_groups: int, num_channels: int, epsilon: float = 1e-5, dtype: DTypeLike = float
    ) -> GroupNorm:
        """A layer with weights of 1 and biases of 0."""
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: num_groups {num_groups} must divide num_channels {num_channels}"
            )
        ones, zeros = (ops.full([num_channels], v, dtype) for v in (1.0, 0.0))
        return GroupNorm(ones, zeros, num_groups, epsilon)

    def __call__(self, x: TensorLike) -> Tensor:
        """A tensor of the shape of x."""
        return group_norm(x, self.num_groups, self.epsilon, self.weight, self.bias)


class BatchNormState(NamedTuple):
    """The running mean and variance of each channel.

    >>> import phix
    >>> phix.nn.BatchNorm.create(2).init_state().variance.tolist()
    [1.0, 1.0]
    """

    mean: Any
    variance: Any


@module
class BatchNorm:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each channel of [n, c, ...].

    In training mean and variance are those of x, and the running ones of the state become
    momentum * old + (1 - momentum) * theirs (Paddle's momentum; PyTorch's is 1 less it, and its
    running variance is that by n - 1).

    >>> import phix
    >>> layer = phix.nn.BatchNorm.create(1, epsilon=0.0)
    >>> x, state = phix.to_tensor([[1.0], [3.0]]), layer.init_state()
    >>> y, state = layer(x, state, training=True)
    >>> y.tolist(), layer(x, state)[0].shape
    ([[-1.0], [1.0]], (2, 1))
    """

    weight: Any
    bias: Any
    momentum: float = static(default=0.9)
    epsilon: float = static(default=1e-5)

    @staticmethod
    @takes(num_channels=at_least(1))
    def create(
        num_channels: int,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        dtype: DTypeLike = float,
    ) -> BatchNorm:
        """A layer with weights of 1 and biases of 0."""
        ones, zeros = (ops.full([num_channels], v, dtype) for v in (1.0, 0.0))
        return BatchNorm(ones, zeros, momentum, epsilon)

    def init_state(self) -> BatchNormState:
        """Means of 0 and variances of 1, in float32 at least."""
        dtype = "float64" if self.weight.dtype == "float64" else "float32"
        size = self.weight.shape
        return BatchNormState(ops.full(size, 0.0, dtype), ops.full(size, 1.0, dtype))

    def __call__(
        self, x: TensorLike, state: BatchNormState, training: bool = False
    ) -> tuple[Tensor, BatchNormState]:
        """A tensor of the shape of x, and the new state, which is the old one outside training."""
        if not isinstance(state, BatchNormState):
            raise ArgumentError("BatchNorm: state must be a BatchNormState; see init_state()")
        settings = (self.weight, self.bias)
        if not training:
            out = batch_norm(x, *state, *settings, momentum=self.momentum, epsilon=self.epsilon)
            return out, state
        out, mean, variance = batch_norm(
            x, *state, *settings, training=True, momentum=self.momentum, epsilon=self.epsilon
        )
        return out, BatchNormState(mean, variance)
