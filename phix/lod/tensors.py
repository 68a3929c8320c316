"""Ragged tensors: rows of values, and offsets that say which rows make a sequence."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    described,
)
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorBase


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LoDTensor:
    """Sequences of different lengths, one behind the other in ``values`` [rows, ...].

    lod is a tuple of int64 offsets, the outermost level first. Sequence i of the last level has the
    rows from lod[-1][i] up to lod[-1][i + 1]; one of a level above has so many sequences of the
    level below. A tree node whose leaves are values and the offsets; made and checked by
    ``lod_tensor``, ``from_list`` and ``sequence_unpad``.

    >>> import phix
    >>> x = phix.lod.from_list([[1.0, 2.0], [], [3.0]])
    >>> x.values.tolist(), x.lod[0].tolist()
    ([1.0, 2.0, 3.0], [0, 2, 2, 3])
    """

    values: Any
    lod: tuple[Any, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def levels(self) -> int:
        """How many levels of offsets there are."""
        return len(self.lod)

    @property
    def lengths(self) -> Any:
        """The lengths of the sequences of the last level, int64[sequences]."""
        return lengths_of(self.lod[-1])

    @takes()
    def with_values(self, values: Any) -> LoDTensor:
        """The same sequences of other rows, such as those that a derivative is taken for.

        >>> import phix
        >>> x = phix.lod.from_list([[1.0, 2.0], [3.0]])
        >>> pooled = lambda v: phix.lod.sequence_pool(x.with_values(v), "sum")
        >>> phix.grad(lambda v: (pooled(v) ** 2).sum())(x.values).tolist()
        [6.0, 6.0, 6.0]
        """
        values = as_tensor(values)
        if not values.ndim or not dm.may_equal(values.meta.dims[0], self.values.meta.dims[0]):
            raise ShapeError(
                f"with_values: the sequences have {self.values.shape[0]} rows, found {values.meta}"
            )
        return LoDTensor(values, self.lod)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ArgumentError("sequences are no array; write x.values, or phix.lod.sequence_pad(x)")

    def __len__(self) -> int:
        """How many sequences the outermost level has, where that is known."""
        return operator.index(self.lod[0].shape[0]) - 1

    def __repr__(self) -> str:
        offsets = "".join(f"\n    {level!r}," for level in self.lod)
        return f"LoDTensor(\n  values={self.values!r},\n  lod=({offsets}\n  ),\n)"


pytrees.register(
    LoDTensor,
    lambda x: ((x.values, *x.lod), None),
    lambda _, parts: LoDTensor(parts[0], tuple(parts[1:])),
)


# -- what is given -------------------------------------------------------------------------------
def as_tensor(x: Any) -> Any:
    if isinstance(x, LoDTensor):
        raise ArgumentError("a dense tensor is needed, found a LoDTensor; write x.values")
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def as_lod(x: Any, name: str = "x") -> LoDTensor:
    """What is given, if it is a LoDTensor."""
    if not isinstance(x, LoDTensor):
        raise ArgumentError(
            f"{name} must be a LoDTensor, found {described(x)}; write phix.lod.lod_tensor(values, "
            "lengths) or phix.lod.sequence_unpad(x, lengths)"
        )
    return x


def as_ints(x: Any, name: str) -> Any:
    """Ints along one axis, int64; [n, 1] is one, too."""
    x = as_tensor(x)
    if dt.kind(x.dtype) != "int" and not (isinstance(x, Tensor) and not x.size):
        raise DTypeError(f"{name} must be ints, found {x.meta}; cast it to int64")
    if x.ndim == 2 and dm.may_equal(x.meta.dims[1], 1):
        x = ops.reshape(x, (x.meta.dims[0],))
    if x.ndim != 1:
        raise ShapeError(f"{name} must have one axis, found {x.meta}; reshape it")
    return x if x.dtype == dt.int64 else ops.cast(x, dt.int64)


def known(x: Any) -> np.ndarray | None:
    """The numbers of a tensor where they are there already."""
    return x.numpy() if isinstance(x, Tensor) else None


# -- offsets -------------------------------------------------------------------------------------
def lengths_of(offsets: Any) -> Any:
    return offsets[1:] - offsets[:-1]


def offsets_of(lengths: Any) -> Any:
    """0, and the sums of the first 1, 2, ... lengths."""
    return ops.concat([ops.zeros([1], dt.int64), ops.cumsum(lengths, 0)], 0)


def numbers(count: Any) -> Any:
    """0, 1, ..., count - 1, int64."""
    return ops.cumsum(ops.ones([count], dt.int64), 0) - 1


def owners(offsets: Any, count: Any) -> Any:
    """Which sequence each of count rows belongs to."""
    return ops.searchsorted(offsets, numbers(count), right=True) - 1


def spans(begins: Any, lengths: Any, total: Any = None) -> tuple[Any, Any]:
    """The numbers begins[i], begins[i] + 1, ... of all spans in turn, and the offsets of these.

    total: how many there are, where that is known without the lengths.
    """
    offsets = offsets_of(lengths)
    if total is None:
        each = numbers(lengths.meta.dims[0])
        which = ops.repeat_interleave_with_tensor_index(each, lengths, 0)
    else:
        which = owners(offsets, total)
    return ops.gather(begins - offsets[:-1], which) + numbers(which.meta.dims[0]), offsets


# -- made of other things ------------------------------------------------------------------------
@takes()
def lod_tensor(values: Any, lengths: Any) -> LoDTensor:
    """Sequences of these lengths, made of the rows of ``values`` in turn.

    Args:
        values: [rows, ...], any dtype.
        lengths: ints [sequences], or a list of such levels, the outermost first: how many
            sequences of the level below each has, and for the last level how many rows.

    Raises:
        ShapeError: the lengths of a level are not for as many as the level below has.
        AttributeValueError: a length is negative. (Lengths that are traced are taken as right.)

    >>> import phix
    >>> x = phix.lod.lod_tensor([1.0, 2.0, 3.0, 4.0], [[2, 1], [1, 2, 1]])
    >>> phix.lod.to_list(x)
    [[[1.0], [2.0, 3.0]], [[4.0]]]
    """
    values = as_tensor(values)
    if not values.ndim:
        raise ShapeError(f"values must have rows, found {values.meta}")
    rows = lengths if isinstance(lengths, (list, tuple)) else [lengths]
    is_nested = bool(rows) and all(hasattr(r, "__len__") and not _is_single(r) for r in rows)
    levels = [as_ints(r, "lengths") for r in (rows if is_nested else [lengths])]
    below = [*(r.meta.dims[0] for r in levels[1:]), values.meta.dims[0]]
    for level, (given, count) in enumerate(zip(levels, below)):
        counts = known(given)
        if counts is None:
            continue
        if (counts < 0).any():
            raise AttributeValueError(f"no length is negative, found {counts.tolist()}")
        if isinstance(count, int) and counts.sum() != count:
            raise ShapeError(
                f"the lengths of level {level} are of {counts.sum()} in all, found {count}"
            )
    return LoDTensor(values, tuple(map(offsets_of, levels)))


def _is_single(x: Any) -> bool:
    return getattr(x, "ndim", 1) == 0


@takes()
def from_list(sequences: Any, levels: int = 1) -> LoDTensor:
    """Sequences out of nested lists, or of lists of arrays or tensors.

    Args:
        sequences: a list of sequences, each a list of rows, an array or a tensor; of more levels a
            list of such lists.
        levels: how deep the lists are nested before the sequences begin.

    >>> import phix
    >>> phix.lod.from_list([[[1, 2], [3, 4]], [[5, 6]]]).values.tolist()
    [[1, 2], [3, 4], [5, 6]]
    >>> phix.lod.from_list([[[1, 2], [3]], [[4]]], levels=2).lod[0].tolist()
    [0, 2, 3]
    """
    if levels < 1:
        raise AttributeValueError(f"levels must be 1 or more, found {levels}")
    counts: list[list[int]] = []
    for level in range(levels):
        if not isinstance(sequences, (list, tuple)):
            raise ArgumentError(f"from_list takes nested lists, found {described(sequences)}")
        counts.append([_length(s) for s in sequences])
        if level < levels - 1:
            sequences = [inner for outer in sequences for inner in outer]
    parts = [as_tensor(s) for s in sequences if _length(s)]
    if not parts:
        parts = [as_tensor(s) for s in sequences[:1]] or [owned_tensor(np.zeros(0, np.float32))]
    values = parts[0] if len(parts) == 1 else ops.concat(parts, 0)
    return lod_tensor(values, [np.array(c, np.int64) for c in counts])


def _length(x: Any) -> int:
    """How many rows, or sequences, something holds."""
    try:
        return x.shape[0] if hasattr(x, "shape") else len(x)
    except (TypeError, IndexError):
        raise ArgumentError(
            f"a sequence is a list, array or tensor, found {described(x)}"
        ) from None


@takes()
def to_list(x: Any) -> list[Any]:
    """The sequences as nested lists of Python numbers.

    Raises:
        ArgumentError: x is traced, and has no numbers yet.

    >>> import phix
    >>> phix.lod.to_list(phix.lod.lod_tensor([1, 2, 3], [1, 0, 2]))
    [[1], [], [2, 3]]
    """
    x = as_lod(x)
    if not all(isinstance(leaf, Tensor) for leaf in (x.values, *x.lod)):
        raise ArgumentError("x is traced and has no numbers yet; call to_list outside of functions")
    found: list[Any] = x.values.tolist()
    for offsets in reversed(x.lod):
        ends = offsets.tolist()
        found = [found[a:b] for a, b in itertools.pairwise(ends)]
    return found


# -- padded --------------------------------------------------------------------------------------
def with_row(values: Any, row: Any) -> Any:
    """The rows, and one behind them that is or holds ``row``."""
    dims = (1, *values.meta.dims[1:])
    last = ops.full(dims, row, values.dtype) if isinstance(row, (int, float)) else None
    if last is None:
        row = as_tensor(row)
        row = row if row.dtype == values.dtype else ops.cast(row, values.dtype)
        if row.ndim == 1 and dm.is_one(row.meta.dims[0]) and values.ndim != 2:
            row = ops.reshape(row, ())
        last = ops.expand(row, dims)
    return ops.concat([values, last], 0)


@takes()
def sequence_pad(x: Any, pad_value: Any = 0.0, maxlen: int | None = None) -> tuple[Tensor, Tensor]:
    """The sequences as rows of one tensor, filled up with pad_value, and their lengths.

    Args:
        x: a LoDTensor; its last level counts.
        pad_value: a number, or a tensor of the dims of a row or of one element.
        maxlen: the size of the second axis; by default that of the longest sequence, computed where
            the program runs. What is longer is cut off where lengths are traced.

    Returns:
        ([sequences, maxlen, ...], int64[sequences]).

    Raises:
        AttributeValueError: maxlen is below a length that is known.

    >>> import phix
    >>> x = phix.lod.from_list([[1.0, 2.0], [3.0]])
    >>> phix.lod.sequence_pad(x, -1.0)[0].tolist()
    [[1.0, 2.0], [3.0, -1.0]]
    """
    x = as_lod(x)
    lengths, total = x.lengths, x.values.meta.dims[0]
    if maxlen is None:
        steps = ops.arange(0, ops.max(_with_zero(lengths)), 1, dt.int64)
    else:
        counts = known(lengths)
        if maxlen < 0 or (counts is not None and counts.size and counts.max() > maxlen):
            raise AttributeValueError(f"maxlen must be at least the longest length, found {maxlen}")
        steps = numbers(maxlen)
        lengths = ops.minimum(lengths, maxlen)
    begins = x.lod[-1][:-1]
    is_row = steps[None] < lengths[:, None]
    rows = ops.where(is_row, begins[:, None] + steps[None], ops.full((), total, dt.int64))
    return ops.gather(with_row(x.values, pad_value), rows), lengths


def _with_zero(lengths: Any) -> Any:
    return ops.concat([ops.zeros([1], dt.int64), lengths], 0)


@takes()
def sequence_unpad(x: Any, length: Any) -> LoDTensor:
    """The first length[i] rows of each x[i], without what fills it up.

    Args:
        x: [sequences, maxlen, ...].
        length: ints [sequences].

    Raises:
        TensorIndexError: a length is negative or above maxlen. (Where it is traced, the nearest
            that is not.)

    >>> import phix
    >>> phix.lod.to_list(phix.lod.sequence_unpad([[1.0, 2.0], [3.0, 0.0]], [2, 1]))
    [[1.0, 2.0], [3.0]]
    """
    x, length = as_tensor(x), as_ints(length, "length")
    if x.ndim < 2 or not dm.may_equal(x.meta.dims[0], length.meta.dims[0]):
        raise ShapeError(
            f"x must be [sequences, maxlen, ...] with a length for each, found {x.meta} and "
            f"{length.meta}"
        )
    count, most = x.meta.dims[:2]
    counts = known(length)
    if counts is not None and isinstance(most, int) and ((counts < 0) | (counts > most)).any():
        raise TensorIndexError(f"lengths must be from 0 to {most}, found {counts.tolist()}")
    widest = ops.full((), most, dt.int64)
    lengths = ops.minimum(ops.maximum(length, 0), widest)
    rows, offsets = spans(numbers(count) * widest, lengths)
    return LoDTensor(ops.gather(ops.reshape(x, (count * most, *x.meta.dims[2:])), rows), (offsets,))


@takes()
def sequence_mask(x: Any, maxlen: Any = None, dtype: Any = "int64") -> Tensor:
    """1 at the steps that a sequence has, 0 behind them: y[..., j] = j < x[...].

    Args:
        x: lengths, or a LoDTensor, whose lengths are taken.
        maxlen: the size of the last axis; by default that of the longest, computed where the
            program runs.
        dtype: of the result.

    >>> import phix
    >>> phix.lod.sequence_mask([1, 3], 3).tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    lengths = x.lengths if isinstance(x, LoDTensor) else as_tensor(x)
    if dt.kind(lengths.dtype) != "int":
        raise DTypeError(f"lengths must be ints, found {lengths.meta}; cast them to int64")
    lengths = lengths if lengths.dtype == dt.int64 else ops.cast(lengths, dt.int64)
    most = ops.max(_with_zero(ops.reshape(lengths, (-1,)))) if maxlen is None else maxlen
    if isinstance(most, int) and most < 0:
        raise AttributeValueError(f"maxlen must be 0 or more, found {most}")
    steps = ops.arange(0, most, 1, dt.int64)
    is_step = steps < ops.reshape(lengths, (*lengths.meta.dims, 1))
    return ops.cast(is_step, dt.as_dtype(dtype))


def checked_levels(inputs: Sequence[LoDTensor]) -> None:
    """Raise unless all have as many sequences in the last level."""
    first = inputs[0].lod[-1].meta.dims[0]
    for x in inputs:
        if not dm.may_equal(x.lod[-1].meta.dims[0], first):
            raise ShapeError(
                f"all must have as many sequences, found {first} and {x.lod[-1].meta.dims[0]} "
                "offsets"
            )
