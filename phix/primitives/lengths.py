"""Lengths of sequences, and what is checked of sequences and of the tensors that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import DTypeError, ShapeError
from phix.core.value_ranges import Lengths, ValueRange
from phix.primitives.positions import numbers


def check_dims(name: str, x: Any, dims: Sequence[Any], what: str) -> None:
    """Raise unless ``x``, a tensor or meta, has these dims; None stands for any."""
    meta = getattr(x, "meta", x)
    found = meta.dims
    fits = len(found) == len(dims) and all(
        want is None or dm.may_equal(have, want) for have, want in zip(found, dims)
    )
    if not fits:
        raise ShapeError(f"{name} must be {what}, found {meta}; reshape it or pass another")


def check_lengths(name: str, x: Any, size: Any) -> Any:
    """Lengths as one axis of int64: [size] or [size, 1]."""
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"{name} counts steps in ints, found {x.meta}; cast it to int64")
    dims = x.meta.dims
    if x.ndim == 2 and dm.may_equal(dims[1], 1):
        x = ops.reshape(x, (dims[0],))
    check_dims(name, x, (size,), f"[{dm.dim_text(size)}], a length for each sequence")
    return ops.cast(x, dt.int64)


def of_steps(name: str, lengths: Any, x: Any, axis: int) -> list[ValueRange]:
    """The rule for lengths, if they are given, of sequences along this axis of ``x``."""
    return [] if lengths is None else [Lengths(name, x.dims[axis : axis + 1], "steps")]


def check_ints(name: str, x: Any) -> None:
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"{name} holds ints, found {x.meta}; cast it to int64")


def lengths_or_all(name: str, x: Any, count: Any, size: Any) -> Any:
    """Lengths, int64[count]; absent, all are ``size``."""
    if x is not None:
        return check_lengths(name, x, count)
    return ops.full((count,), 0, dt.int64) + as_int(size)


def picked(x: Any, index: Any) -> Any:
    """x[b, index[b]] of x [batch, n]."""
    rows = x.meta.dims[0]
    return ops.reshape(ops.take_along_axis(x, ops.reshape(index, (rows, 1)), 1), (rows,))


def column(x: Any) -> Any:
    """``x`` with an axis of 1 behind its others."""
    return ops.reshape(x, (*x.meta.dims, 1))


def outside(lengths: Any, most: Any) -> Any:
    """Where lengths are none from 0 to ``most``."""
    return (lengths < 0) | (lengths > as_int(most))


def as_int(size: Any) -> Any:
    """A size, known or not, as one int64."""
    return ops.full((), size, dt.int64)


def within(lengths: Any, size: Any) -> Any:
    """bool[size, n], True at (t, i) for t below ``lengths[i]``, ints of one axis."""
    lengths = ops.cast(lengths, dt.int64)
    return ops.reshape(numbers(size), (size, 1)) < ops.reshape(lengths, (1, *lengths.meta.dims))
