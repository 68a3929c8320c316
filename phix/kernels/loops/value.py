"""Lazily evaluated tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from phix.core import dtypes as dt
from phix.core.dims import DimLike, Shape
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import CHOICES, Complex, Expr

At = Callable[[tuple[Expr, ...]], Element]
Flat = Callable[[Expr], Element]


class Across(NamedTuple):
    """An operand that lies across: contiguous along ``axis``, with neighbours along the last axis
    ``apart`` elements from each other."""

    axis: int
    apart: DimLike


class Value:
    """A tensor that is not computed yet: how to get its elements.

    ``at(indices)`` gives one element; ``flat(i)``, where it exists, the element at linear index
    ``i`` without a division. Either may emit statements first. A value with a ``writer`` can only
    be computed whole: the writer emits the steps that fill the buffers of ``group``.
    ``cost`` estimates the scalar operations an element takes.

    ``tiled`` names an axis, not the last, along which an operand is contiguous in memory: loops
    over it and the last axis go in tiles. ``swapped`` is the value of which this one is the
    transpose of the last two axes, ``view_of`` the one whose elements it has in the same order, and
    ``part_of`` the one of which it is a slice, and ``gathers`` the one whose elements its writer
    only puts into memory in order. One that ``waits``
    reads others which may have to be computed whole where it is first read.
    """

    __slots__ = ("at", "buffer", "cost", "dims", "dtype", "flat", "gathers", "group", "part_of",
                 "swapped", "target", "tiled", "view_of", "waits", "writer")  # fmt: skip

    def __init__(
        self,
        dims: Shape,
        dtype: np.dtype,
        at: At | None = None,
        flat: Flat | None = None,
        cost: int = 0,
    ) -> None:
        self.dims, self.dtype, self.at, self.flat, self.cost = dims, dtype, at, flat, cost
        self.buffer: Buffer | None = None
        self.target: Buffer | None = None
        self.tiled: Across | None = None
        self.swapped: Value | None = None
        self.view_of: Value | None = None
        self.part_of: Value | None = None
        self.gathers: Value | None = None
        self.waits = False
        self.writer: Callable[..., None] | None = None
        self.group: tuple[Value, ...] = (self,)

    @property
    def is_flat(self) -> bool:
        """Whether elements can be read by linear index."""
        if self.buffer is not None:
            return not self.buffer.strided or len(self.dims) <= 1
        return self.writer is not None or self.flat is not None or len(self.dims) <= 1


def unread(meta: MetaTensor) -> Value:
    """A value that nothing asks for: it is never written."""
    value = Value(meta.dims, meta.dtype)
    value.writer, value.group = lambda *_: None, (value,)
    return value


def buffer_value(buffer: Buffer) -> Value:
    """The value that a buffer holds."""
    value = Value(buffer.dims, buffer.dtype)
    value.buffer = buffer
    return value


def constant(value: Any, dtype: np.dtype) -> Element:
    """A Python number as an element of ``dtype``, rounded to it."""
    scalar = ir.scalar_dtype(dtype)
    rounded = np.asarray(value).astype(dtype)
    if dtype in dt.STORAGE:
        return sc.bitcast(sc.const(int(rounded.view(dt.uint8)), dt.uint8), dtype)
    if dt.is_complex(dtype):
        parts = (sc.const(float(p), scalar) for p in (rounded.real, rounded.imag))
        return Complex(*parts)
    return sc.const(rounded.astype(scalar).item(), scalar)


# What gives a number of a dtype if its operands are such, all but the condition of a select.
_EXACT = frozenset(
    ("neg", "fabs", "floor", "ceil", "trunc", "rint", "copysign", "maximum", "minimum", *CHOICES)
)
_NARROW = (dt.float16, dt.bfloat16)


def rounded(element: Element, dtype: np.dtype) -> Element:
    """An element of a 16-bit dtype, computed in float32, as that dtype can hold it.

    So a value is the same number whether it has been in memory or not.
    """
    if dtype not in _NARROW or not isinstance(element, Expr) or _fits(element, dtype):
        return element
    return sc.cast(sc.cast(element, dtype), dt.float32)


def unrounded(element: Element, dtype: np.dtype) -> Element:
    """What ``rounded`` has rounded to the dtype, before it did."""
    if isinstance(element, Expr) and dtype in _NARROW and element.fn == "cast":
        (inner,) = element.args
        if inner.fn == "cast" and inner.dtype == dtype and inner.args[0].dtype == element.dtype:
            return inner.args[0]
    return element


def _fits(x: Expr, dtype: np.dtype) -> bool:
    """Whether ``x`` is for certain a number of a 16-bit dtype."""
    if x.fn == "load":
        return bool(x.data.dtype == dtype)
    if x.fn == "cast":
        return x.args[0].dtype in (dtype, dt.bool_)
    if x.fn == "const":
        with np.errstate(over="ignore"):
            held = float(np.asarray(x.data).astype(dtype))
        return held == x.data or x.data != x.data
    operands = x.args[1:] if x.fn in CHOICES else x.args
    return x.fn in _EXACT and all(_fits(a, dtype) for a in operands)
