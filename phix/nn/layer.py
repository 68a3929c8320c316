"""Layers that are no activation, normalisation or convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.tensor import TensorLike
from phix.nn.arguments import as_float, as_numbers, as_tensor


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Any:
    """x @ weight + bias.

    Args:
        x: [..., in].
        weight: [in, out], which is the transpose of what PyTorch takes.
        bias: [out].

    Returns:
        [..., out].

    >>> import phix
    >>> phix.nn.functional.linear([1.0, 2.0], [[1.0, 0.0], [0.0, 3.0]], [0.5, 0.5]).tolist()
    [1.5, 6.5]
    """
    return ops.linear(x, weight, bias)


def embedding(x: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> Any:
    """The rows of weight that x numbers: out[..., :] = weight[x[...], :].

    Args:
        x: row numbers of any shape, int.
        weight: [rows, size], float.
        padding_idx: a row that counts as zeros and gets no gradient; a negative one counts from
            the end.

    Returns:
        [..., size], of the dtype of weight.

    >>> import phix
    >>> phix.nn.functional.embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]], padding_idx=0).tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """
    if padding_idx is None:
        return ops.embedding(x, weight)
    table = as_tensor(weight)
    if table.ndim != 2:
        raise ShapeError(f"embedding: weight must be [rows, size], found {table.meta}; reshape it")
    rows = table.meta.dims[0]
    row = padding_idx + rows if padding_idx < 0 else padding_idx
    if isinstance(row, int) and isinstance(rows, int) and not 0 <= row < rows:
        raise AttributeValueError(
            f"embedding: padding_idx {padding_idx} is none of the {rows} rows of weight; write one "
            f"of {-rows}..{rows - 1}"
        )
    return ops.embedding(x, table, row)


def one_hot(x: TensorLike, num_classes: int = -1) -> Any:
    """1 at the class that x numbers, 0 elsewhere: out[..., k] = (x[...] == k), float32.

    Args:
        x: class numbers of any shape, int; what is no class gives zeros alone.
        num_classes: how many classes there are; -1 takes the largest of x plus 1, which needs its
            values, so not while x is traced.

    Returns:
        [..., num_classes].

    >>> import phix
    >>> phix.nn.functional.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    classes = as_numbers(x, "one_hot", "x")
    if num_classes == -1:
        num_classes = int(ops.max(classes).item()) + 1
    return ops.one_hot(classes, num_classes)


def dropout(
    x: TensorLike,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    key: TensorLike | None = None,
) -> Any:
    """In training each element becomes 0 with probability p, independently of the others.

    Args:
        x: a tensor of any shape, float.
        p: the probability, from 0 to 1.
        axis: the axes along which elements are chosen independently; along the others all of them
            share one choice. None: all axes.
        training: whether to drop anything.
        mode: "upscale_in_train" divides what is kept by 1 - p in training; "downscale_in_infer"
            multiplies by 1 - p otherwise. Either way the expected value does not depend on it.
        key: chooses what is dropped (``phix.random.key``); needed in training, unless p is 0.

    Raises:
        ArgumentError: no key in training.

    >>> import phix
    >>> y = phix.nn.functional.dropout([1.0] * 8, 0.5, key=phix.random.key(0))
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    if training and key is None and p != 0:
        raise ArgumentError(
            "dropout: in training a key chooses what is dropped, since there is no hidden random "
            "state; pass key=phix.random.key(seed), or training=False"
        )
    if not training or p == 0:
        return ops.dropout(x, None, p, True, mode)
    if axis is None:
        return ops.dropout(x, key, p, False, mode)
    x = as_float(x)
    chosen = [axis] if isinstance(axis, int) else list(axis)
    if any(not -x.ndim <= a < x.ndim for a in chosen):
        raise AttributeValueError(f"dropout: axis {axis} is out of range for {x.meta}")
    independent = {a % x.ndim for a in chosen}
    dims = [d if i in independent else 1 for i, d in enumerate(x.meta.dims)]
    return x * ops.dropout(ops.full(dims, 1, x.dtype), key, p, False, mode)
