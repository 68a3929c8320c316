"""Attention with several heads, and the cache that decoding goes by."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops, random
from phix.core.annotations import DTypeLike
from phix.core.errors import ArgumentError, ShapeError
from phix.core.given import at_least, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor
from phix.nn.attention import scaled_dot_product_attention
from phix.nn.modules.base import module, static
from phix.nn.modules.layers import Linear


class KVCache(NamedTuple):
    """The keys and values so far, [n, length, heads, size], and how many there are.

    >>> import phix
    >>> layer = phix.nn.MultiHeadAttention.create(phix.random.key(0), 8, 2)
    >>> layer.init_cache(1, 16).key.shape
    (1, 16, 2, 4)
    """

    key: Any
    value: Any
    position: Any


@module
class MultiHeadAttention:
    """softmax(q @ k.T / sqrt(size) + mask) @ v for each head, with linear layers before and after.

    With a cache, what is given follows what the cache holds, and sees it and what is before it.
    Where a compiled step finds no room in it, all that the step gives is NaN.

    >>> import phix
    >>> layer = phix.nn.MultiHeadAttention.create(phix.random.key(0), 8, 2)
    >>> x = phix.random.normal(phix.random.key(1), [1, 3, 8])
    >>> whole = layer(x, is_causal=True)
    >>> cache = layer.init_cache(1, 3)
    >>> for n in range(3):
    ...     y, cache = layer(x[:, n : n + 1], cache=cache)
    >>> bool(phix.ops.allclose(y[:, 0], whole[:, 2], atol=1e-5))
    True
    """

    query: Any
    key: Any
    value: Any
    out: Any
    num_heads: int = static()

    @staticmethod
    @takes(embed_dim=at_least(1), num_heads=at_least(1))
    def create(
        key: TensorLike,
        embed_dim: int,
        num_heads: int,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        dtype: DTypeLike = float,
    ) -> MultiHeadAttention:
        """A layer from embed_dim to embed_dim, each head with its part of it.

        kdim and vdim are the sizes of what keys and values are made of, where it is another.
        """
        if embed_dim % num_heads:
            raise ArgumentError(
                f"MultiHeadAttention: num_heads {num_heads} must divide embed_dim {embed_dim}"
            )
        keys = random.split(key, 4)
        sizes = (embed_dim, kdim or embed_dim, vdim or embed_dim, embed_dim)
        parts = [Linear.create(keys[n], sizes[n], embed_dim, bias, dtype) for n in range(4)]
        return MultiHeadAttention(parts[0], parts[1], parts[2], parts[3], num_heads)

    def _heads(self, x: Any) -> Any:
        n, length, size = x.shape
        return ops.reshape(x, [n, length, self.num_heads, size // self.num_heads])

    @takes()
    def init_cache(self, batch: int, length: int, dtype: DTypeLike | None = None) -> KVCache:
        """An empty cache for sequences of that length."""
        size = self.key.weight.shape[1] // self.num_heads
        shape = [batch, length, self.num_heads, size]
        kind = dtype or self.key.weight.dtype
        empty = ops.full(shape, 0.0, kind)
        return KVCache(empty, ops.full(shape, 0.0, kind), ops.full((), 0, "int32"))

    @takes()
    def __call__(
        self,
        x: TensorLike,
        context: TensorLike | None = None,
        value: TensorLike | None = None,
        *,
        mask: TensorLike | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        dropout_p: float = 0.0,
        dropout_key: TensorLike | None = None,
    ) -> Any:
        """[n, queries, embed_dim], of the shape of x.

        Args:
            x: [n, queries, embed_dim].
            context: what keys are made of, [n, keys, kdim]; None: x.
            value: what values are made of; None: context.
            mask: broadcasts to [n, heads, queries, keys]: bool, True where a key is seen, or
                numbers to add.
            is_causal: query i sees keys up to i alone.
            cache: the keys and values before; then the result is (y, new cache).
            dropout_p, dropout_key: the probability of a weight to be dropped, if there is a key.

        Raises:
            ShapeError: x has not 3 axes, or the cache has no room for it.
        """
        first = as_tensor(x)
        second = first if context is None else as_tensor(context)
        third = second if value is None else as_tensor(value)
        for given in (first, second, third):
            if given.ndim != 3:
                raise ShapeError(
                    "MultiHeadAttention: inputs are [n, length, size], found "
                    f"{given.meta}; x[None] has an axis for the batch"
                )
        q, k, v = (
            self._heads(layer(given))
            for layer, given in ((self.query, first), (self.key, second), (self.value, third))
        )
        if cache is not None:
            q, k, v, mask, cache = _continued(q, k, v, mask, is_causal, cache)
            is_causal = False
        y = scaled_dot_product_attention(
            q, k, v, mask, dropout_p, is_causal, dropout_key is not None, dropout_key=dropout_key
        )
        n, length = first.shape[:2]
        y = self.out(ops.reshape(y, [n, length, self.out.weight.shape[0]]))
        return y if cache is None else (y, cache)


def _continued(
    q: Any, k: Any, v: Any, mask: Any, is_causal: bool, cache: KVCache
) -> tuple[Any, Any, Any, Any, KVCache]:
    """Queries, the keys and values of the cache with the new ones, and which each query sees."""
    if mask is not None or is_causal:
        raise ArgumentError(
            "MultiHeadAttention: with a cache queries see what is before them; leave mask and "
            "is_causal out"
        )
    if not isinstance(cache, KVCache):
        raise ArgumentError("MultiHeadAttention: cache must be a KVCache; see init_cache")
    length, new = cache.key.shape[1], k.shape[1]
    at = as_tensor(cache.position)
    known = _value(at)
    if known is not None and known + int(new) > int(length):
        raise ShapeError(
            f"MultiHeadAttention: the cache has room for {length} positions, {known} of which are "
            f"taken, found {new} more"
        )
    positions = at + ops.arange(0, new, 1, "int32")
    keys, values = (
        old.at[:, positions].set(ops.cast(x, old.dtype))
        for old, x in ((cache.key, k), (cache.value, v))
    )
    seen = ops.arange(0, length, 1, "int32") <= ops.unsqueeze(positions, 1)
    if known is None:  # a program cannot refuse: what it gives must not look like a result
        q = ops.where(at + new <= length, q, ops.full((), float("nan"), q.dtype))
    return (
        q, ops.cast(keys, q.dtype), ops.cast(values, q.dtype), seen,
        KVCache(keys, values, at + new),
    )  # fmt: skip


def _value(x: Any) -> int | None:
    """The value of a tensor that is known, not traced."""
    return int(x.host) if isinstance(x, Tensor) else None
