"""The methods that tensors have under names of ``numpy.ndarray``: NumPy's arguments and defaults.

They are the functions of :data:`phix.array_functions.by_name.TABLE`, so ``x.sum(axis=0)`` is what
``np.sum(x, axis=0)`` is. Two things are added, where NumPy has no other meaning for them: Paddle's
``keepdim`` beside ``keepdims``, and a truth in the second place for it, as in ``x.max(0, True)``.
Nothing works in place: ``sort`` and ``partition`` give a new tensor, and ``out=`` is refused.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from phix import ops
from phix.array_functions import (
    arrangement,
    elementwise,
    products,
    reductions,
    selection,
    sorting,
)
from phix.array_functions.lexicographic import in_order
from phix.array_functions.method_arguments import (
    TRUTHS,
    Shaped,
    check_kth,
    extreme_at,
    extreme_of,
    indices_within,
    keeps,
    line_of,
    lost_freedom,
    no_fields,
    no_order,
    no_out,
    only_where,
    several,
    swap_meant,
    truth_of,
)
from phix.array_functions.numpy_arguments import tensor, with_dtype
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.dispatch import bind
from phix.core.errors import ArgumentError, AttributeValueError
from phix.core.rules import OPS
from phix.core.tensor import Tensor, TensorBase

# Called so often that the way through the function of the op would show.
_SUM, _MEAN, _MAX, _MIN = (OPS[name] for name in ("sum", "mean", "max", "min"))


class ArrayMethods:
    """Given to tensors, in their stub too; ``self`` is one."""

    # -- reductions ----------------------------------------------------------------------------
    def sum(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, *, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The sum along axes, of all elements where there is no axis; ints to 64 bits."""
        keep: Any = keepdims or keepdim
        if (axis is None or axis.__class__ is int) and dtype is out is initial is where is None:
            if self.dtype.kind != "u":
                return bind(_SUM, (self,), (axis, None, keep))
        elif isinstance(dtype, TRUTHS):
            keep, dtype = dtype, None
        no_out("sum", out)
        found: Tensor = reductions.sum(only_where(self, where, 0), axis, dtype, keepdims=keep)
        return found if initial is None else found + initial

    def prod(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, *, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The product along axes, of all elements where there is no axis; ints to 64 bits."""
        keep: Any = keepdims or keepdim
        if isinstance(dtype, TRUTHS):
            keep, dtype = dtype, None
        no_out("prod", out)
        found: Tensor = reductions.prod(only_where(self, where, 1), axis, dtype, keepdims=keep)
        return found if initial is None else found * initial

    def mean(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False,
        where: Any = None, *, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The mean along axes, of all elements where there is no axis; of ints in float32."""
        keep: Any = keepdims or keepdim
        if (axis is None or axis.__class__ is int) and dtype is out is where is None:
            if dt.is_differentiable(self.dtype):
                return bind(_MEAN, (self,), (axis, keep))
        elif isinstance(dtype, TRUTHS):
            keep, dtype = dtype, None
        no_out("mean", out)
        if where is None or where is True:
            return reductions.mean(self, axis, dtype, keepdims=keep)
        chosen = ops.expand(tensor(where), self.shape)
        total = reductions.sum(only_where(self, chosen, 0), axis, dtype, keepdims=keep)
        return total / reductions.sum(chosen, axis, keepdims=keep)

    def var(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: bool = False, *, correction: Any = None, unbiased: bool | None = None,
        keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The mean of squared distances from the mean, over n - ddof; ddof is 0, as in NumPy.

        ``correction`` is ddof under its other name; ``unbiased=True``, Paddle's, is ddof=1.
        """
        no_out("var", out)
        less = lost_freedom(ddof, correction, unbiased)
        return reductions.var(self, axis, dtype, None, less, keepdims or keepdim)

    def std(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: bool = False, *, correction: Any = None, unbiased: bool | None = None,
        keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The root of the variance, over n - ddof; ddof is 0, as in NumPy.

        ``correction`` is ddof under its other name; ``unbiased=True``, Paddle's, is ddof=1.
        """
        no_out("std", out)
        less = lost_freedom(ddof, correction, unbiased)
        return reductions.std(self, axis, dtype, None, less, keepdims or keepdim)

    def max(
        self: Shaped, axis: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, *, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The largest element along axes, of all where there is no axis; NaN where one is."""
        is_plain = (axis is None or axis.__class__ is int) and out is initial is where is None
        if is_plain and not dt.is_complex(self.dtype):
            return bind(_MAX, (self,), (axis, keepdims or keepdim))
        return extreme_of("max", self, axis, out, keepdims or keepdim, initial, where)

    def min(
        self: Shaped, axis: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, *, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """The least element along axes, of all where there is no axis; NaN where one is."""
        is_plain = (axis is None or axis.__class__ is int) and out is initial is where is None
        if is_plain and not dt.is_complex(self.dtype):
            return bind(_MIN, (self,), (axis, keepdims or keepdim))
        return extreme_of("min", self, axis, out, keepdims or keepdim, initial, where)

    def ptp(
        self: Shaped, axis: Any = None, out: Any = None, keepdims: bool = False
    ) -> Tensor:  # fmt: skip
        """The largest element less the least, along axes."""
        no_out("ptp", out)
        return reductions.ptp(self, axis, None, keepdims)

    def argmax(
        self: Shaped, axis: Any = None, out: Any = None, *, keepdims: bool = False,
        keepdim: bool = False, dtype: Any = None,
    ) -> Tensor:  # fmt: skip
        """Where the largest element is: in the flattened tensor where there is no axis."""
        return extreme_at("argmax", self, axis, out, keepdims or keepdim, dtype)

    def argmin(
        self: Shaped, axis: Any = None, out: Any = None, *, keepdims: bool = False,
        keepdim: bool = False, dtype: Any = None,
    ) -> Tensor:  # fmt: skip
        """Where the least element is: in the flattened tensor where there is no axis."""
        return extreme_at("argmin", self, axis, out, keepdims or keepdim, dtype)

    def all(
        self: Shaped, axis: Any = None, out: Any = None, keepdims: bool = False, *,
        where: Any = None, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """Whether all elements along axes are true."""
        keep = keeps("all", out, keepdims or keepdim)
        return reductions.all(only_where(truth_of(self), where, True), axis, keepdims=keep)

    def any(
        self: Shaped, axis: Any = None, out: Any = None, keepdims: bool = False, *,
        where: Any = None, keepdim: bool = False,
    ) -> Tensor:  # fmt: skip
        """Whether some element along axes is true."""
        keep = keeps("any", out, keepdims or keepdim)
        return reductions.any(only_where(truth_of(self), where, False), axis, keepdims=keep)

    def cumsum(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, *,
        exclusive: bool = False, reverse: bool = False,
    ) -> Tensor:  # fmt: skip
        """Running sums along an axis, of the flattened tensor where there is none."""
        no_out("cumsum", out)
        if exclusive or reverse:
            x = self if dtype is None else self.astype(dtype)
            at = 0 if axis is None else axis_of(axis, x.ndim)
            return with_dtype(ops.cumsum(x, at, axis is None, exclusive, reverse), dtype)
        return reductions.cumsum(self, axis, dtype)

    def cumprod(
        self: Shaped, axis: Any = None, dtype: Any = None, out: Any = None, *, dim: Any = None,
        exclusive: bool = False, reverse: bool = False,
    ) -> Tensor:  # fmt: skip
        """Running products along an axis, of the flattened tensor where there is none."""
        no_out("cumprod", out)
        axis = dim if axis is None else axis
        if exclusive or reverse:
            x = self if dtype is None else self.astype(dtype)
            x = ops.reshape(x, [-1]) if axis is None else x
            at = 0 if axis is None else axis_of(axis, x.ndim)
            return with_dtype(ops.cumprod(x, at, exclusive, reverse), dtype)
        return reductions.cumprod(self, axis, dtype)

    # -- arrangement ---------------------------------------------------------------------------
    def reshape(self: Shaped, *shape: Any, order: str = "C", copy: Any = None) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``.

        One dim may be -1. A 0 is a dim of no elements, as in NumPy; phix.ops.reshape copies a dim.
        """
        no_order("reshape", order)
        return arrangement.reshape(self, several("reshape", "shape", shape))

    def flatten(
        self: Shaped, order: Any = "C", stop_axis: int = -1, *, start_axis: int = 0
    ) -> Tensor:  # fmt: skip
        """The elements along one axis; ``x.flatten(1)`` leaves the first axis, as in Paddle."""
        if isinstance(order, int) and not isinstance(order, bool):
            order, start_axis = "C", order
        no_order("flatten", order)
        if start_axis == 0 and stop_axis == -1:
            return ops.reshape(self, [-1])
        return ops.flatten(self, start_axis, stop_axis)

    def ravel(self: Shaped, order: Any = "C") -> Tensor:
        """The elements along one axis."""
        no_order("ravel", order)
        return ops.reshape(self, [-1])

    def transpose(self: Shaped, *axes: Any, perm: Any = None) -> Tensor:
        """The axes in another order, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``; reversed
        without any."""
        axes = axes if perm is None else (perm,)
        if not axes or (len(axes) == 1 and axes[0] is None):
            return ops.transpose(self, tuple(reversed(range(self.ndim))))
        order = several("transpose", "axes", axes)
        try:
            return arrangement.transpose(self, tuple(order))
        except (AttributeValueError, ArgumentError) as error:
            raise swap_meant(error, self, order) from None

    def swapaxes(self: Shaped, axis1: int, axis2: int) -> Tensor:
        """Two axes in each other's place."""
        return arrangement.swapaxes(self, axis1, axis2)

    def squeeze(self: Shaped, axis: Any = None) -> Tensor:
        """Without the axes of one element, or without those named, which must have one."""
        return arrangement.squeeze(self, axis)

    def repeat(
        self: Shaped, repeats: Any, axis: Any = None, *, total_repeat_length: Any = None
    ) -> Tensor:
        """Each element so many times in a row; of the flattened tensor where there is no axis.

        The whole tensor several times is ``x.tile``, which torch calls repeat.
        """
        return arrangement.repeat(self, repeats, axis, total_repeat_length=total_repeat_length)

    def sort(
        self: Shaped, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
        descending: bool = False,
    ) -> Tensor:  # fmt: skip
        """A sorted copy along an axis, of the flattened tensor for None. Not in place."""
        if isinstance(kind, TRUTHS):
            kind, descending = None, kind
        no_fields("sort", order)
        return sorting.sort(self, axis, descending=bool(descending))

    def argsort(
        self: Shaped, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None,
        descending: bool = False,
    ) -> Tensor:  # fmt: skip
        """The indices that sort along an axis; equal elements keep their order if stable."""
        if isinstance(kind, TRUTHS):
            kind, descending = None, kind
        if isinstance(order, TRUTHS):
            order, stable = None, order
        no_fields("argsort", order)
        x, at = line_of(self, axis)
        if dt.is_complex(x.dtype):
            return in_order(x, at, bool(descending))
        keeps_order = bool(stable) or kind in ("stable", "mergesort")
        return ops.argsort(x, at, bool(descending), keeps_order)[1]

    def partition(
        self: Shaped, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None
    ) -> Tensor:  # fmt: skip
        """A copy whose kth element is the one that sorting puts there, with none larger before it
        and none less behind; here all are sorted. Not in place."""
        no_fields("partition", order)
        check_kth(self, kth, axis)
        return ArrayMethods.sort(self, axis)

    def argpartition(
        self: Shaped, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None
    ) -> Tensor:  # fmt: skip
        """The indices that partition, here those that sort."""
        no_fields("argpartition", order)
        check_kth(self, kth, axis)
        return ArrayMethods.argsort(self, axis)

    # -- parts ---------------------------------------------------------------------------------
    def take(
        self: Shaped, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise"
    ) -> Tensor:  # fmt: skip
        """The elements at indices along an axis, of the flattened tensor where there is none."""
        no_out("take", out)
        x, at = line_of(self, axis)
        return arrangement.take(x, indices_within("take", indices, x.shape[at], mode), at)

    def choose(self: Shaped, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
        """Element by element, from the choice whose number this tensor has there."""
        no_out("choose", out)
        parts = [tensor(c) for c in choices]
        chosen = indices_within("choose", self, len(parts), mode)
        number, *parts = ops.broadcast_tensors([chosen, *parts])
        rows = arrangement.stack(parts)
        return ops.squeeze(ops.take_along_axis(rows, ops.unsqueeze(number, [0]), 0), [0])

    def compress(
        self: Shaped, condition: Any, axis: Any = None, out: Any = None, *, size: Any = None,
        fill_value: Any = 0,
    ) -> Tensor:  # fmt: skip
        """The slices along an axis for which the condition holds, ``size`` of them if that is
        given."""
        no_out("compress", out)
        return selection.compress(condition, self, axis, size=size, fill_value=fill_value)

    def nonzero(self: Shaped, *, size: Any = None, fill_value: Any = None) -> tuple[Tensor, ...]:
        """Where elements are not zero: the indices along each axis, ``size`` of them if that is
        given."""
        return selection.nonzero(self, size=size, fill_value=fill_value)

    def diagonal(self: Shaped, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements whose indices along two axes differ by ``offset``, along the last axis."""
        return ops.diagonal(self, offset, axis1, axis2)

    def trace(
        self: Shaped, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
        out: Any = None,
    ) -> Tensor:  # fmt: skip
        """The sum along a diagonal."""
        no_out("trace", out)
        return arrangement.trace(self, offset, axis1, axis2, dtype)

    def searchsorted(
        self: Shaped, v: Any = None, side: str = "left", sorter: Any = None, *, values: Any = None,
        right: bool | None = None, out_int32: bool = False,
    ) -> Tensor:  # fmt: skip
        """Where elements of ``v`` are to be put into this sorted tensor, so that it stays sorted;
        behind equal ones with side="right"."""
        if side not in ("left", "right"):
            raise AttributeValueError(
                f"searchsorted: side is 'left' or 'right', found {side!r}; behind equal elements "
                "is side='right'"
            )
        wanted = values if v is None else v
        if wanted is None:
            raise ArgumentError("searchsorted: v is what to look for, found None; pass it")
        is_right = side == "right" if right is None else bool(right)
        if self.ndim == 1:
            places = sorting.searchsorted(self, wanted, "right" if is_right else "left", sorter)
            return ops.cast(places, dt.int32) if out_int32 else places
        x, found = (self if sorter is None else self[tensor(sorter)]), tensor(wanted)
        dtype = dt.promote(x.dtype, found.dtype)
        return ops.searchsorted(x.astype(dtype), found.astype(dtype), out_int32, is_right)

    # -- elements ------------------------------------------------------------------------------
    def clip(self: Shaped, min: Any = None, max: Any = None, out: Any = None) -> Tensor:
        """The elements, no less than ``min`` and no larger than ``max``."""
        no_out("clip", out)
        bounds = [v for v in (min, max) if v is not None]
        are_numbers = all(type(v) in (int, float) for v in bounds)
        if are_numbers and dt.is_float(self.dtype) and bounds == sorted(bounds):
            return ops.clip(self, min, max)
        return elementwise.clip(self, min, max)

    def round(self: Shaped, decimals: int = 0, out: Any = None) -> Tensor:
        """The elements rounded to so many decimals, halves to even."""
        no_out("round", out)
        return elementwise.round(self, operator.index(decimals))

    def dot(self: Shaped, b: Any = None, out: Any = None, *, y: Any = None) -> Tensor:
        """The product of two vectors, or of matrices as ``@``; over the last axis of this tensor
        and the last but one of the other; ``x * b`` where one is a number."""
        no_out("dot", out)
        if b is None and y is None:
            raise ArgumentError("dot: b is the other factor, found None; write x.dot(b)")
        return products.dot(self, y if b is None else b)

    def conj(self: Shaped) -> Tensor:
        """The complex conjugates; a tensor of real numbers as it is."""
        return ops.conj(self) if dt.is_complex(self.dtype) else self

    def conjugate(self: Shaped) -> Tensor:
        """The complex conjugates; a tensor of real numbers as it is."""
        return ops.conj(self) if dt.is_complex(self.dtype) else self

    @property
    def real(self: Shaped) -> Tensor:
        """The real parts."""
        return elementwise.real(self)

    @property
    def imag(self: Shaped) -> Tensor:
        """The imaginary parts."""
        return elementwise.imag(self)

    @property
    def flat(self: Shaped) -> Tensor:
        """The elements along one axis, to index or to go through."""
        return ops.reshape(self, [-1])

    @property
    def mT(self: Shaped) -> Tensor:
        """The tensor with its last two axes in each other's place."""
        if self.ndim < 2:
            raise AttributeValueError(
                f"mT: a tensor of matrices has two axes or more, found {self.meta}; write x.T"
            )
        return arrangement.swapaxes(self, -1, -2)

    def view(self: Shaped, *dtype: Any) -> Tensor:
        """The same bits as numbers of another dtype; of ints, the elements in that shape."""
        if len(dtype) == 1 and not isinstance(dtype[0], (int, np.integer, tuple, list, TensorBase)):
            return ops.view_dtype(self, dtype[0])
        return arrangement.reshape(self, several("view", "dtype", dtype))

    def copy(self: Shaped, order: str = "C") -> Tensor:
        """The same values in memory of their own."""
        no_order("copy", order)
        return ops.assign(self)

    def tobytes(self: Shaped, order: str = "C") -> bytes:
        """The bytes of the elements, as they lie in memory."""
        found: bytes = self.numpy().tobytes(order)
        return found
