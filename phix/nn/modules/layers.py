"""Linear layers, embeddings, dropout, sequences of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from phix import ops, random
from phix.core import dtypes as dt
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, described
from phix.core.given import at_least, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.layers import dropout, embedding, linear
from phix.nn.modules.base import drawn, is_layer, module, static

SIZE = at_least(1)


@module
class Linear:
    """x @ weight + bias.

    weight is [in, out], as Paddle has it (PyTorch's transposed), bias [out] or None.

    >>> import phix
    >>> layer = phix.nn.Linear.create(phix.random.key(0), 3, 2)
    >>> layer
    Linear(weight=float32[3, 2], bias=float32[2])
    >>> layer(phix.ones([4, 3])).shape
    (4, 2)
    """

    weight: Any
    bias: Any = None

    @staticmethod
    @takes(in_features=SIZE, out_features=SIZE)
    def create(
        key: TensorLike,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DTypeLike = float,
    ) -> Linear:
        """A layer with weights uniform between -1 / sqrt(in_features) and its opposite."""
        first, second = random.split(key)
        weight = drawn(first, [in_features, out_features], in_features, dtype)
        return Linear(weight, drawn(second, [out_features], in_features, dtype) if bias else None)

    def __call__(self, x: TensorLike) -> Tensor:
        """[..., in] -> [..., out]."""
        return linear(x, self.weight, self.bias)


@module
class Embedding:
    """The rows of weight, [rows, size], that ints number.

    >>> import phix
    >>> layer = phix.nn.Embedding.create(phix.random.key(0), 10, 4)
    >>> layer(phix.to_tensor([1, 2])).shape
    (2, 4)
    """

    weight: Any
    padding_idx: int | None = static(default=None)

    @staticmethod
    @takes(num_embeddings=SIZE, embedding_dim=SIZE)
    def create(
        key: TensorLike,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: DTypeLike = float,
    ) -> Embedding:
        """A table of standard normal rows; that of padding_idx is 0 and gets no gradient."""
        weight = ops.cast(random.normal(key, [num_embeddings, embedding_dim]), dt.as_dtype(dtype))
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(
                    f"padding_idx {padding_idx} is outside the {num_embeddings} rows"
                )
            weight = weight.at[padding_idx].set(0.0)
        return Embedding(weight, padding_idx)

    def __call__(self, x: TensorLike) -> Tensor:
        """[...] of ints -> [..., size]."""
        return embedding(x, self.weight, self.padding_idx)

    def attend(self, x: TensorLike) -> Tensor:
        """x @ weight.T, the scores of all rows: for outputs that share the table."""
        return ops.matmul(x, self.weight, False, True)


@module
class Dropout:
    """Each element 0 with probability p in training, the others divided by 1 - p.

    >>> import phix
    >>> layer = phix.nn.Dropout(0.5)
    >>> layer(phix.ones([2])).tolist()
    [1.0, 1.0]
    >>> sorted(set(layer(phix.ones([99]), key=phix.random.key(0)).tolist()))
    [0.0, 2.0]
    """

    takes_key: ClassVar[bool] = True

    p: float = static(default=0.5)

    def __call__(self, x: TensorLike, key: TensorLike | None = None) -> Tensor:
        """x, and with a key a draw of it: without one, this is inference."""
        return dropout(x, self.p, training=key is not None, key=key)


@module
class Function:
    """A function as a layer without parameters.

    >>> import phix
    >>> phix.nn.Function(phix.ops.relu)(phix.full([1], -1.0)).tolist()
    [0.0]
    """

    function: Callable[..., Any] = static()

    def __call__(self, x: Any) -> Any:
        """function(x)."""
        return self.function(x)


@module
class Sequential:
    """Layers one after the other.

    >>> import phix
    >>> first, second = phix.random.split(phix.random.key(0))
    >>> net = phix.nn.Sequential.create(
    ...     phix.nn.Linear.create(first, 3, 8), phix.ops.relu, phix.nn.Linear.create(second, 8, 2)
    ... )
    >>> net(phix.ones([4, 3])).shape, phix.nn.parameter_count(net)
    ((4, 2), 50)
    >>> net
    Sequential(
      layers=(
        Linear(weight=float32[3, 8], bias=float32[8]),
        Function(function=relu),
        Linear(weight=float32[8, 2], bias=float32[2]),
      ),
    )
    """

    takes_key: ClassVar[bool] = True

    layers: tuple[Any, ...]

    @staticmethod
    def create(*layers: Any) -> Sequential:
        """The layers, and functions among them, which are static."""
        for layer in layers:
            if not callable(layer):
                raise ArgumentError(
                    f"Sequential.create takes layers and functions, found {described(layer)}"
                )
        return Sequential(tuple(x if is_layer(x) else Function(x) for x in layers))

    def __call__(self, x: Any, key: TensorLike | None = None) -> Any:
        """The result of the last layer; a key is parted among the layers that draw."""
        keys = None if key is None else random.split(key, max(len(self.layers), 1))
        for n, layer in enumerate(self.layers):
            if keys is not None and getattr(layer, "takes_key", False):
                x = layer(x, key=keys[n])
            else:
                x = layer(x)
        return x

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]

    def __len__(self) -> int:
        return len(self.layers)
