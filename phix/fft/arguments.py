"""What transforms are given: tensors, sizes, axes and norms, in the form that ops take."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.tensor import TensorBase

Sizes = Sequence[Any]
Axes = Sequence[int]


def one_size(n: Any) -> Sizes | None:
    """The sizes of transforms over one axis."""
    return None if n is None else (n,)


def as_tensor(x: Any) -> Any:
    """What is given, as a tensor."""
    return x if isinstance(x, TensorBase) else owned_tensor(x)


def prepared(
    name: str, x: Any, s: Sizes | None, axes: Axes | None
) -> tuple[Any, tuple[int, ...], tuple[Any, ...]]:
    """The tensor in a dtype that is transformed, the axes from the front, and the sizes of these:
    those asked for, else its own."""
    x = as_tensor(x)
    if s is not None and not np.iterable(s):
        raise ArgumentError(f"{name}: s has one size for each axis, found {s!r}; write ({s},)")
    if not x.ndim:
        raise ShapeError(f"{name}: x must have an axis to transform, found {x.meta}; reshape it")
    over = axes_of(name, x, axes, s)
    if not over:
        raise AttributeValueError(f"{name}: axes is empty; name the axes of {x.meta} to transform")
    wide = dt.is_complex(x.dtype) or x.dtype in (dt.float32, dt.float64)
    x = x if wide else ops.cast(x, dt.default_float())
    own = [x.meta.dims[a] for a in over]
    if s is None:
        return x, over, tuple(own)
    return x, over, tuple(d if n is None else size_of(name, n) for n, d in zip(s, own))


def axes_of(name: str, x: Any, axes: int | Axes | None, s: Sizes | None) -> tuple[int, ...]:
    """The axes from the front, each once."""
    rank = x.ndim
    count = rank if s is None else len(s)
    axes = range(-count, 0) if axes is None else ints_of(name, axes)
    if s is not None and len(axes) != count:
        raise AttributeValueError(
            f"{name}: s {tuple(s)} must have one size for each axis in {tuple(axes)}"
        )
    for axis in axes:
        if not -rank <= axis < rank:
            raise AttributeValueError(
                f"{name}: axis {axis} is out of range for {x.meta}; "
                f"write one of {-rank}..{rank - 1}"
            )
    over = tuple(a % rank for a in axes)
    if len(set(over)) != len(over):
        raise AttributeValueError(f"{name}: axes {tuple(axes)} name an axis twice")
    return over


def ints_of(name: str, axes: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, axes if np.iterable(axes) else (axes,)))
    except TypeError:
        raise ArgumentError(
            f"{name}: an axis is an int, axes are several, found {axes!r}"
        ) from None


def size_of(name: str, n: Any) -> Any:
    """A size that is transformed: an int from 1, or an unknown dim."""
    try:
        size = n if isinstance(n, dm.Dim) else operator.index(n)
    except TypeError:
        raise ArgumentError(f"{name}: a size is an int or an unknown dim, found {n!r}") from None
    if dm.is_known(size) and size < 1:
        raise AttributeValueError(f"{name}: a size of {size} was asked for; write 1 or more")
    return size


def norm_of(name: str, norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise AttributeValueError(
            f"{name}: norm must be None, 'backward', 'ortho' or 'forward', found {norm!r}"
        )
    return norm or "backward"


def fitted(x: Any, axes: tuple[int, ...], sizes: tuple[Any, ...]) -> Any:
    """``x`` cropped at the end, or filled up with zeros, to these sizes along the axes."""
    kept = [slice(None)] * x.ndim
    missing: list[Any] = [0] * (2 * x.ndim)
    for axis, size in zip(axes, sizes):
        have = x.meta.dims[axis]
        common = dm.minimum(have, size)
        if not dm.same(common, have):
            kept[axis] = slice(0, common)
        missing[2 * axis + 1] = size - common
    x = x if kept == [slice(None)] * x.ndim else x[tuple(kept)]
    return x if all(map(dm.is_zero, missing)) else ops.pad(x, missing, 0)
