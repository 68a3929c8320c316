"""Linear layers, embeddings, dropout."""

from __future__ import annotations

from collections.abc import Sequence

from phix import ops
from phix.core import dims as dm
from phix.core.axes import axes_of
from phix.core.errors import ArgumentError
from phix.core.expectations import expect
from phix.core.given import sizes, takes
from phix.core.tensor import Tensor, TensorLike
from phix.nn.activations import as_tensor, is_zero


@takes()
def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x @ weight + bias.

    Args:
        x: [..., in].
        weight: [in, out].
        bias: [out], or None.

    Raises:
        ShapeError: the dims do not meet.

    >>> import phix
    >>> phix.nn.functional.linear([[1.0, 2.0]], [[1.0], [1.0]], [0.5]).tolist()
    [[3.5]]
    """
    return ops.linear(x, weight, bias)


@takes()
def embedding(
    x: TensorLike, weight: TensorLike, padding_idx: int | None = None, sparse: bool = False
) -> Tensor:
    """The rows of ``weight`` that the ints in ``x`` number.

    Args:
        x: an int tensor.
        weight: [rows, size].
        padding_idx: a row that gives zeros and gets no gradient; negative: from the end.
        sparse: whether the gradient of weight is a ``phix.selected_rows.SelectedRows``: the rows
            that were read. Ops on the way back, and other gradients of the same table, take it as
            a dense tensor, and so do transformations inside the one that differentiates.

    Returns:
        [*x.shape, size].

    Raises:
        DTypeError: x does not hold ints.
        ArgumentError: padding_idx is outside the rows.

    >>> import phix
    >>> phix.nn.functional.embedding([1, 0], [[1.0, 2.0], [3.0, 4.0]], padding_idx=0).tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """
    if padding_idx is None:
        return ops.embedding(x, weight, -1, sparse)
    table, padding_idx = as_tensor(weight), sizes(padding_idx, "embedding: padding_idx")[0]
    rows = table.shape[0]
    refusal = f"embedding: padding_idx {padding_idx} is outside the {dm.dim_text(rows)} rows"
    if dm.is_known(rows) and not -rows <= padding_idx < rows:
        raise ArgumentError(refusal)
    table = expect(table, refusal, rows - 1 - padding_idx)
    padding_idx = padding_idx if padding_idx >= 0 else int(padding_idx + rows)
    return ops.embedding(x, table, padding_idx, sparse)


@takes()
def one_hot(x: TensorLike, num_classes: int = -1) -> Tensor:
    """float32 with a new last axis: 1 at the class that x numbers, else 0.

    Args:
        x: an int tensor.
        num_classes: the size of the new axis; -1: the largest number in x, and one more, for which
            the values of x must be known (not inside jit).

    >>> import phix
    >>> phix.nn.functional.one_hot([1, 0], 3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if dm.is_known(num_classes) and num_classes == -1:
        num_classes = int(ops.max(x)) + 1
    return ops.one_hot(x, num_classes)


@takes()
def dropout(
    x: TensorLike,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    key: TensorLike | None = None,
) -> Tensor:
    """x with each element 0 with probability p.

    Args:
        x: a tensor.
        p: the probability.
        axis: axes along which elements are drawn one by one; along the others they go together.
            None: every element by itself.
        training: False for inference, in which nothing is dropped.
        mode: "upscale_in_train" divides what is kept by 1 - p; "downscale_in_infer" multiplies by
            1 - p in inference.
        key: the key of the draw (see phix.random.key), needed in training: there is no hidden
            random state.

    Raises:
        ArgumentError: no key in training, or an axis that x has not.
        AttributeValueError: p is no probability, or the mode is another.

    >>> import phix
    >>> key = phix.random.key(0)
    >>> phix.nn.functional.dropout(phix.ones([4]), 1.0, key=key).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    if training and not is_zero(p) and key is None:
        raise ArgumentError(
            "dropout: training needs a key, since there is no hidden random state; write "
            "dropout(x, p, key=phix.random.key(seed)), or training=False"
        )
    whole = as_tensor(x)
    if not training or is_zero(p):
        return ops.dropout(whole, None, p, True, mode)
    if axis is None:
        return ops.dropout(whole, key, p, False, mode)
    axes = axes_of(sizes(axis, "dropout: axis"), whole.ndim)
    dims = [d if i in axes else 1 for i, d in enumerate(whole.shape)]
    kept = ops.dropout(ops.full(dims, 1, whole.dtype), key, p, False, mode)
    return ops.where(kept == 0, 0.0, whole * kept)  # 0 too where x is not finite
