"""Functions of sequences: each is applied to every sequence of the last level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    described,
)
from phix.core.given import takes
from phix.lod.tensors import (
    LoDTensor,
    as_ints,
    as_lod,
    as_tensor,
    checked_levels,
    known,
    lengths_of,
    numbers,
    offsets_of,
    owners,
    spans,
    with_row,
)

_NARROW = (dt.float16, dt.bfloat16)


def _wide(x: Any) -> Any:
    return ops.cast(x, dt.float32) if x.dtype in _NARROW else x


def _as(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.cast(x, dtype)


def _floats(x: LoDTensor) -> Any:
    if not dt.is_float(x.dtype):
        raise DTypeError(f"x must have float values, found {x.values.meta}; cast them")
    return x.values


def _owners(x: LoDTensor) -> Any:
    return owners(x.lod[-1], x.values.meta.dims[0])


def _beside(x: Any, like: Any) -> Any:
    """A vector against tensors whose first axis it is for."""
    return ops.reshape(x, (*x.meta.dims, *(1,) * (like.ndim - 1)))


def _sums(values: Any, where: Any, count: Any) -> Any:
    zeros = ops.full((count, *values.meta.dims[1:]), 0, values.dtype)
    return ops.index_put(zeros, [where], values, True)


def _largest(values: Any, where: Any, count: Any) -> Any:
    """The largest row of each sequence, element by element; -inf for one without rows."""
    least = -np.inf if dt.is_float(values.dtype) else np.iinfo(values.dtype).min
    start = ops.full((count, *values.meta.dims[1:]), least, values.dtype)
    index = ops.expand(_beside(where, values), values.meta.dims)
    return ops.put_along_axis(start, index, values, 0, "amax", True)


def _merged_up(x: LoDTensor, values: Any) -> Any:
    """A row for each sequence of x, as sequences of the levels above, if there are any."""
    return LoDTensor(values, x.lod[:-1]) if x.levels > 1 else values


# -- one row of each sequence --------------------------------------------------------------------
POOLS = ("sum", "average", "sqrt", "max", "min", "last", "first")


@takes()
def sequence_pool(input: Any, pool_type: str, is_test: bool = False, pad_value: Any = 0.0) -> Any:
    """One row of the rows of each sequence.

    Args:
        input: a LoDTensor of floats.
        pool_type: "sum"; "average"; "sqrt", the sum over the root of the length; "max" and "min" of
            each element, whose gradient goes to the first that is so; "first"; "last".
        is_test: says nothing here.
        pad_value: the number for a sequence without rows.

    Returns:
        [sequences, ...]; of several levels a LoDTensor with the levels above.

    >>> import phix
    >>> x = phix.lod.from_list([[1.0, 3.0], [], [5.0]])
    >>> phix.lod.sequence_pool(x, "average", pad_value=-1.0).tolist()
    [2.0, -1.0, 5.0]
    """
    x, how = as_lod(input, "input"), pool_type.lower()
    if how not in POOLS:
        raise AttributeValueError(f"pool_type must be one of {', '.join(POOLS)}, found {how!r}")
    values = _floats(x)
    offsets, total = x.lod[-1], values.meta.dims[0]
    lengths, count = x.lengths, x.lod[-1].meta.dims[0] - 1
    is_empty = lengths == 0
    if how in ("sum", "average", "sqrt"):
        out = _sums(_wide(values), _owners(x), count)
        if how != "sum":
            number = _beside(_as(ops.maximum(lengths, 1), out.dtype), out)
            out = out / (number if how == "average" else ops.sqrt(number))
        out = _as(out, values.dtype)
        pad = ops.full((), pad_value, values.dtype)
        return _merged_up(x, ops.where(_beside(is_empty, out), pad, out))
    padded = with_row(values, pad_value)
    last = ops.full((), total, dt.int64)
    if how in ("first", "last"):
        row = offsets[:-1] if how == "first" else offsets[1:] - 1
        return _merged_up(x, ops.gather(padded, ops.where(is_empty, last, row)))
    rows = _first_extreme(values if how == "max" else -values, _owners(x), count)
    rows = ops.where(_beside(is_empty, values), last, rows)
    return _merged_up(x, ops.take_along_axis(padded, rows, 0))


def _first_extreme(values: Any, where: Any, count: Any) -> Any:
    """The first row of each sequence that has the largest element, for each element; NaN is the
    largest."""
    values = ops.stop_gradient(values)
    is_nan = ops.isnan(values)
    level = ops.where(is_nan, ops.full((), np.inf, values.dtype), values)
    most = ops.gather(_largest(level, where, count), where)
    has_nan = ops.gather(_largest(_as(is_nan, dt.int32), where, count), where) > 0
    is_most = ops.where(has_nan, is_nan, level == most)
    total = values.meta.dims[0]
    backwards = ops.full((), total, dt.int64) - _beside(numbers(total), values)
    found = _largest(ops.where(is_most, backwards, 0), where, count)
    return ops.full((), total, dt.int64) - ops.maximum(found, 0)


@takes()
def sequence_softmax(input: Any) -> LoDTensor:
    """exp(v) / sum of exp(w) over the rows w of the same sequence, element by element.

    >>> import phix
    >>> x = phix.lod.from_list([[1000.0, 1000.0], [3.0]])
    >>> phix.lod.to_list(phix.lod.sequence_softmax(x))
    [[0.5, 0.5], [1.0]]
    """
    x = as_lod(input, "input")
    values, where = _wide(_floats(x)), _owners(x)
    count = x.lod[-1].meta.dims[0] - 1
    most = ops.gather(_largest(ops.stop_gradient(values), where, count), where)
    powers = ops.exp(values - most)
    out = powers / ops.gather(_sums(powers, where, count), where)
    return LoDTensor(_as(out, x.dtype), x.lod)


# -- rows beside each other ----------------------------------------------------------------------
@takes()
def sequence_conv(
    input: Any,
    filter: Any,
    context_length: int,
    context_start: int | None = None,
    padding_data: Any = None,
) -> LoDTensor:
    """The rows around each row of a sequence, side by side, times a filter.

    Args:
        input: a LoDTensor with values [rows, width].
        filter: [context_length * width, out].
        context_length: how many rows count.
        context_start: the first of them, counted from the row itself; by default
            -(context_length // 2).
        padding_data: the rows above and below each sequence, [above + below, width] with
            above = max(0, -context_start) and below = max(0, context_start + context_length - 1);
            by default zeros.

    >>> import phix
    >>> x = phix.lod.from_list([[[1.0], [2.0]], [[3.0]]])
    >>> phix.lod.sequence_conv(x, [[10.0], [1.0]], 2, -1).values.tolist()
    [[1.0], [12.0], [3.0]]
    """
    x, filter = as_lod(input, "input"), as_tensor(filter)
    start = -(context_length // 2) if context_start is None else context_start
    values = x.values
    if context_length < 1:
        raise AttributeValueError(f"context_length must be 1 or more, found {context_length}")
    if values.ndim != 2 or filter.ndim != 2:
        raise ShapeError(
            f"values [rows, width] and filter [n, out] are needed, found {values.meta} "
            f"and {filter.meta}"
        )
    width = values.meta.dims[1]
    if not dm.may_equal(filter.meta.dims[0], context_length * width):
        raise ShapeError(
            f"filter must have context_length * width = {context_length * width} rows, found "
            f"{filter.meta}"
        )
    above, below = max(0, -start), max(0, start + context_length - 1)
    if padding_data is None:
        padding = ops.full((above + below, width), 0, values.dtype)
    else:
        padding = as_tensor(padding_data)
        wanted = (above + below, width)
        if padding.ndim != 2 or not all(map(dm.may_equal, padding.meta.dims, wanted)):
            raise ShapeError(f"padding_data must have shape {wanted}, found {padding.meta}")
    count, where = values.meta.dims[0], _owners(x)
    begin, end = (ops.gather(o, where) for o in (x.lod[-1][:-1], x.lod[-1][1:]))
    table = ops.concat([values, padding], 0)  # rows of padding follow those of the sequences
    first = ops.full((), count, dt.int64) + above
    columns = []
    for step in range(start, start + context_length):
        row = numbers(count) + step
        row = ops.where(
            row < begin, first + row - begin, ops.where(row < end, row, first + row - end)
        )
        columns.append(ops.gather(table, row))
    return LoDTensor(ops.matmul(ops.concat(columns, 1), filter), x.lod)


@takes()
def sequence_enumerate(input: Any, win_size: int, pad_value: int = 0) -> LoDTensor:
    """Each number of a sequence with the win_size - 1 behind it; pad_value behind the last.

    Args:
        input: a LoDTensor with ints [rows] or [rows, 1].
        win_size: how many numbers stand side by side.
        pad_value: the int behind the end of a sequence.

    >>> import phix
    >>> x = phix.lod.from_list([[1, 2, 3], [4]])
    >>> phix.lod.to_list(phix.lod.sequence_enumerate(x, 2))
    [[[1, 2], [2, 3], [3, 0]], [[4, 0]]]
    """
    x = as_lod(input, "input")
    if win_size < 1:
        raise AttributeValueError(f"win_size must be 1 or more, found {win_size}")
    dtype = x.dtype
    values = _as(as_ints(x.values, "input"), dtype)
    count = values.meta.dims[0]
    end = ops.gather(x.lod[-1][1:], _owners(x))
    rows = ops.stack([numbers(count) + j for j in range(win_size)], 1)
    rows = ops.where(rows < end[:, None], rows, ops.full((), count, dt.int64))
    return LoDTensor(ops.gather(with_row(values, pad_value), rows), x.lod)


# -- other sequences of the same rows ------------------------------------------------------------
@takes()
def sequence_reverse(x: Any) -> LoDTensor:
    """The rows of each sequence in the other order.

    >>> import phix
    >>> x = phix.lod.from_list([[1, 2, 3], [4, 5]])
    >>> phix.lod.to_list(phix.lod.sequence_reverse(x))
    [[3, 2, 1], [5, 4]]
    """
    x = as_lod(x)
    where, offsets = _owners(x), x.lod[-1]
    ends = ops.gather(offsets[:-1] + offsets[1:] - 1, where)
    return x.with_values(ops.gather(x.values, ends - numbers(x.values.meta.dims[0])))


@takes()
def sequence_concat(input: Any) -> LoDTensor:
    """Sequence i of the result is those of all inputs, one behind the other.

    Args:
        input: a list of LoDTensors with as many sequences; their last level counts.

    >>> import phix
    >>> a, b = phix.lod.from_list([[1, 2], [3]]), phix.lod.from_list([[4], [5, 6]])
    >>> phix.lod.to_list(phix.lod.sequence_concat([a, b]))
    [[1, 2, 4], [3, 5, 6]]
    """
    if not isinstance(input, (list, tuple)) or not input:
        raise ArgumentError(f"input must be a list of LoDTensors, found {described(input)}")
    inputs = [as_lod(x, "input") for x in input]
    checked_levels(inputs)
    values = ops.concat([x.values for x in inputs], 0)
    base: Any = 0
    begins = []
    for x in inputs:
        begins.append(x.lod[-1][:-1] + ops.full((), base, dt.int64))
        base = base + x.values.meta.dims[0]
    flat = [
        ops.reshape(ops.stack(parts, 1), (-1,)) for parts in (begins, [x.lengths for x in inputs])
    ]
    rows, _ = spans(flat[0], flat[1], values.meta.dims[0])
    lengths = inputs[0].lengths
    for x in inputs[1:]:
        lengths = lengths + x.lengths
    return LoDTensor(ops.gather(values, rows), (*inputs[0].lod[:-1], offsets_of(lengths)))


@takes()
def sequence_slice(input: Any, offset: Any, length: Any) -> LoDTensor:
    """The rows from offset[i] up to offset[i] + length[i] of each sequence i.

    Args:
        input: a LoDTensor.
        offset, length: ints [sequences].

    Raises:
        TensorIndexError: a part is outside of its sequence. (Where they are traced, as much of it
            as is inside.)

    >>> import phix
    >>> x = phix.lod.from_list([[1, 2, 3], [4, 5]])
    >>> phix.lod.to_list(phix.lod.sequence_slice(x, [1, 0], [2, 1]))
    [[2, 3], [4]]
    """
    x = as_lod(input, "input")
    offset, length = as_ints(offset, "offset"), as_ints(length, "length")
    count = x.lod[-1].meta.dims[0] - 1
    for name, t in (("offset", offset), ("length", length)):
        if not dm.may_equal(t.meta.dims[0], count):
            raise ShapeError(f"{name} must have one int a sequence, {count}, found {t.meta}")
    lengths = x.lengths
    _check_parts(known(offset), known(length), known(lengths))
    offset = ops.minimum(ops.maximum(offset, 0), lengths)
    length = ops.minimum(ops.maximum(length, 0), lengths - offset)
    rows, offsets = spans(x.lod[-1][:-1] + offset, length)
    return LoDTensor(ops.gather(x.values, rows), (*x.lod[:-1], offsets))


def _check_parts(at: Any, more: Any, most: Any) -> None:
    """Raise unless the parts of sequences lie in them, if all numbers are known."""
    if at is None or more is None or most is None:
        return
    if ((at < 0) | (more < 0) | (at + more > most)).any():
        raise TensorIndexError(
            f"parts must lie in sequences of lengths {most.tolist()}, found offset "
            f"{at.tolist()} and length {more.tolist()}"
        )


@takes()
def sequence_erase(input: Any, tokens: Sequence[int]) -> LoDTensor:
    """The sequences without the ints in ``tokens``.

    Args:
        input: a LoDTensor with ints [rows] or [rows, 1].
        tokens: the ints that go.

    >>> import phix
    >>> x = phix.lod.from_list([[1, 2, 3], [2]])
    >>> phix.lod.to_list(phix.lod.sequence_erase(x, [2]))
    [[1, 3], []]
    """
    x = as_lod(input, "input")
    values = as_ints(x.values, "input")
    gone = as_ints(np.asarray(tokens, np.int64).reshape(-1), "tokens")
    stays = ops.logical_not(ops.any(values[:, None] == gone[None], [1]))
    count = x.lod[-1].meta.dims[0] - 1
    lengths = _sums(ops.cast(stays, dt.int64), _owners(x), count)
    kept = ops.gather(x.values, ops.nonzero(stays)[:, 0])
    return LoDTensor(kept, (*x.lod[:-1], offsets_of(lengths)))


# -- as often as other sequences say -------------------------------------------------------------
@takes()
def sequence_expand(x: Any, y: Any, ref_level: int = -1) -> Any:
    """Each sequence of x as often as a level of y has of what it counts.

    Args:
        x: a LoDTensor of one level, or a dense tensor, of which each row is a sequence.
        y: a LoDTensor; of its values nothing is read.
        ref_level: which level of y.

    Returns:
        A LoDTensor with a sequence for each time; of a dense x the rows, dense.

    >>> import phix
    >>> y = phix.lod.lod_tensor([0, 0, 0], [2, 1])
    >>> phix.lod.to_list(phix.lod.sequence_expand(phix.lod.from_list([[1, 2], [3]]), y))
    [[1, 2], [1, 2], [3]]
    >>> phix.lod.sequence_expand([1, 2], y).tolist()
    [1, 1, 2]
    """
    y = as_lod(y, "y")
    if not -y.levels <= ref_level < y.levels:
        raise AttributeValueError(f"ref_level {ref_level} is no level of {y.levels}")
    times = lengths_of(y.lod[ref_level])
    if not isinstance(x, LoDTensor):
        x = as_tensor(x)
        _check_count(x.meta.dims[:1], times)
        return ops.repeat_interleave_with_tensor_index(x, times, 0)
    if x.levels != 1:
        raise ArgumentError(f"x must have one level, found {x.levels}")
    lengths = x.lengths
    _check_count(lengths.meta.dims, times)
    which = ops.repeat_interleave_with_tensor_index(numbers(lengths.meta.dims[0]), times, 0)
    rows, offsets = spans(ops.gather(x.lod[0][:-1], which), ops.gather(lengths, which))
    return LoDTensor(ops.gather(x.values, rows), (offsets,))


def _check_count(dims: Any, times: Any) -> None:
    if not dims or not dm.may_equal(dims[0], times.meta.dims[0]):
        raise ShapeError(
            f"x must have a sequence for each of the {times.meta.dims[0]} of y, found {dims}"
        )


@takes()
def sequence_expand_as(x: Any, y: Any) -> LoDTensor:
    """Row i of x for each row of sequence i of y, as the sequences of y.

    Args:
        x: a dense tensor with a row for each sequence of y.
        y: a LoDTensor.

    >>> import phix
    >>> y = phix.lod.lod_tensor([0, 0, 0], [2, 1])
    >>> phix.lod.to_list(phix.lod.sequence_expand_as([7, 8], y))
    [[7, 7], [8]]
    """
    y = as_lod(y, "y")
    x = as_tensor(x.values if isinstance(x, LoDTensor) else x)
    _check_count(x.meta.dims[:1], y.lengths)
    return LoDTensor(ops.gather(x, _owners(y)), y.lod)


@takes()
def im2sequence(
    input: Any,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> LoDTensor:
    """The windows of each image, from left to right and down, as the rows of a sequence.

    Args:
        input: [images, channels, height, width].
        filter_size, stride: of height and width, or one int for both.
        padding: zeros above, left, below and right; of two ints, above and below, left and right.

    Returns:
        A LoDTensor with values [images * windows, channels * window].

    >>> import phix
    >>> x = phix.lod.im2sequence([[[[1.0, 2.0], [3.0, 4.0]]]], [1, 2])
    >>> phix.lod.to_list(x)
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    input = as_tensor(input)
    sides = _ints(padding, 1, 2, 4)
    sides = sides * (4 // len(sides))
    rows = ops.im2sequence(input, None, _pair(filter_size), _pair(stride), sides)
    images = input.meta.dims[0]
    count = ops.maximum(ops.full((), images, dt.int64), 1)
    each = ops.floor_divide(ops.full((), rows.meta.dims[0], dt.int64), count)
    return LoDTensor(rows, (numbers(images + 1) * each,))


def _ints(value: Any, *counts: int) -> list[int]:
    found = [value] if isinstance(value, int) else [int(v) for v in value]
    if len(found) not in counts:
        raise AttributeValueError(f"found {found}; give {' or '.join(map(str, counts))} ints")
    return found


def _pair(value: Any) -> list[int]:
    found = _ints(value, 1, 2)
    return found * (2 // len(found))
