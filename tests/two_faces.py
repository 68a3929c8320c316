"""What programs over small integers of all dtypes are written in: once of phix, once of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import phix
from phix import ops
from phix.core import dtypes

Values = list[Any]
MOST = 61  # what is not an integer stays below that, and so is exact


class Face:
    """What both have in common: rules that keep numbers small, in ops that each has."""

    if TYPE_CHECKING:  # what each has

        def __getattr__(self, name: str) -> Any: ...

    def dtype(self, x: Any) -> Any:
        return np.dtype(x.dtype)

    def tamed(self, x: Any) -> Any:
        """``x``, and its rest where it is no integer."""
        if self.dtype(x).kind == "c":
            rest = self.joined(self.rest(self.real(x)), self.rest(self.imag(x)))
            return self.cast_as_is(rest, self.dtype(x))
        return x if self.dtype(x).kind in "biu" else self.rest(x)

    def cast(self, x: Any, dtype: Any) -> Any:
        has = self.dtype(x)
        if has == dtype:
            return x
        if dtype.kind == "b":
            return self.is_not_nothing(x)
        if has.kind == "c" and dtype.kind != "c":
            x = self.real(x)
        if has.kind not in "b" and (has.kind in "iu") != (dtype.kind in "iu"):
            x = self.rest(x)
        return self.cast_as_is(x, dtype)

    def plus(self, x: Any, y: Any) -> Any:
        return x ^ y if self.dtype(x).kind == "b" else self.tamed(x + y)

    def times(self, x: Any, y: Any) -> Any:
        return x & y if self.dtype(x).kind == "b" else self.tamed(x * y)

    def negative(self, x: Any) -> Any:
        return ~x if self.dtype(x).kind == "b" else -x

    def halved(self, x: Any) -> Any:
        return x if self.dtype(x).kind in "bc" else x // 2

    def total(self, x: Any) -> Any:
        """A small count of what ``x`` holds."""
        return self.sum(self.cast(x, np.dtype("int64")) % 7) % 11

    def is_more(self, x: Any, y: Any) -> Any:
        return self.is_equal(x, y) if self.dtype(x).kind == "c" else x > y

    def is_not_nothing(self, x: Any) -> Any:
        return x != 0

    def places(self, x: Any, size: Any) -> Any:
        """Rows found in ``x``, as many as it has."""
        flat = self.reshape(x, [x.shape[0], -1])[:, 0]
        return self.cast(flat, np.dtype("int64")) % size

    def add(self, x: Any, where: Any, value: Any) -> Any:
        if self.dtype(x).kind == "b":
            return self.put(x, where, value)
        return self.tamed(self.add_as_is(x, where, value))

    def sort(self, x: Any, axis: int) -> Any:
        return x if self.dtype(x).kind in "bc" else self.sort_as_is(x, axis)

    def cummax(self, x: Any, axis: int) -> Any:
        return x if self.dtype(x).kind in "bc" else self.cummax_as_is(x, axis)

    def cumsum(self, x: Any, axis: int) -> Any:
        dtype = self.dtype(x)
        wide = np.dtype("complex128" if dtype.kind == "c" else "int64")
        made = self.tamed(self.cumsum_as_is(self.cast(x, wide), axis))
        return self.cast(made, dtype)

    def largest(self, x: Any) -> Any:
        return x[0] if self.dtype(x).kind in "bc" else self.max(x)

    def sums(self, x: Any, axis: int) -> Any:
        wide = np.dtype("complex128" if self.dtype(x).kind == "c" else "int64")
        made = self.tamed(self.sum_along(self.cast(x, wide), axis))
        return self.cast(self.spread(made, x), self.dtype(x))

    def where_largest(self, x: Any, axis: int) -> Any:
        if self.dtype(x).kind in "bc":
            return x
        return self.cast(self.spread(self.argmax(x, axis), x), self.dtype(x))

    def order(self, x: Any, axis: int) -> Any:
        if self.dtype(x).kind in "bc":
            x = self.cast(x, np.dtype("int16"))
        return self.argsort(x, axis)

    def shifted(self, x: Any, by: int) -> Any:
        by = self.cast(self.number(by), self.dtype(x))
        return (x << by) ^ (x >> by)


class OfPhix(Face):
    """In phix."""

    def number(self, k: int) -> Any:
        return ops.full((), k, "int64")

    def within(self, places: Any, size: Any) -> Any:
        return ops.remainder(places, size)

    def rest(self, x: Any) -> Any:
        return ops.remainder(x, MOST)

    def real(self, x: Any) -> Any:
        return ops.real(x) if self.dtype(x).kind == "c" else x

    def imag(self, x: Any) -> Any:
        return ops.imag(x)

    def joined(self, real: Any, imag: Any) -> Any:
        return ops.complex(real, imag)

    def cast_as_is(self, x: Any, dtype: Any) -> Any:
        return ops.cast(x, dtype)

    def maximum(self, x: Any, y: Any) -> Any:
        return ops.logical_or(x, y) if self.dtype(x).kind in "b" else self._one(ops.maximum, x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return ops.logical_and(x, y) if self.dtype(x).kind in "b" else self._one(ops.minimum, x, y)

    def _one(self, op: Any, x: Any, y: Any) -> Any:
        return x if self.dtype(x).kind == "c" else op(x, y)

    def is_equal(self, x: Any, y: Any) -> Any:
        return x == y

    def where(self, is_so: Any, x: Any, y: Any) -> Any:
        return ops.where(is_so, x, y)

    def sum(self, x: Any) -> Any:
        return ops.sum(x)

    def max(self, x: Any) -> Any:
        return ops.max(x)

    def put(self, x: Any, where: Any, value: Any) -> Any:
        return x.at[where].set(value)

    def add_as_is(self, x: Any, where: Any, value: Any) -> Any:
        return x.at[where].add(value)

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def spread(self, row: Any, like: Any) -> Any:
        return ops.expand(row, like.shape)

    def flip(self, x: Any, axis: int) -> Any:
        return ops.flip(x, [axis])

    def roll(self, x: Any, by: int, axis: int) -> Any:
        return ops.roll(x, (by,), (axis,))

    def concat(self, parts: Values) -> Any:
        return ops.concat(parts, 0)

    def stack(self, parts: Values) -> Any:
        return ops.stack(parts, 0)

    def sort_as_is(self, x: Any, axis: int) -> Any:
        return ops.sort(x, axis)

    def cumsum_as_is(self, x: Any, axis: int) -> Any:
        return ops.cumsum(x, axis)

    def sum_along(self, x: Any, axis: int) -> Any:
        return ops.sum(x, [axis], keepdim=True)

    def argmax(self, x: Any, axis: int) -> Any:
        return ops.argmax(x, axis, keepdims=True)

    def argsort(self, x: Any, axis: int) -> Any:
        return ops.argsort(x, axis, stable=True)[1]

    def along(self, x: Any, places: Any, axis: int) -> Any:
        return ops.take_along_axis(x, places, axis)

    def first(self, count: Any, like: Any) -> Any:
        rows = phix.numpy.arange(like.shape[0]) < count
        return ops.reshape(rows, [-1, *[1] * (like.ndim - 1)])

    def above(self, x: Any, k: int) -> Any:
        return ops.triu(x, k)

    def cut(self, x: Any, axis: int) -> Any:
        return x[(slice(None),) * axis + (0,)]

    def switch(self, which: Any, branches: Values, *values: Any) -> Any:
        return phix.switch(which, branches, *values)

    def cummax_as_is(self, x: Any, axis: int) -> Any:
        return ops.cummax(x, axis)[0]

    def reshape(self, x: Any, shape: Any) -> Any:
        return ops.reshape(x, shape)

    def transpose(self, x: Any) -> Any:
        return ops.transpose(x, list(range(x.ndim))[::-1])

    def scan(self, body: Callable[..., Any], carry: Values, xs: Any, back: bool) -> Any:
        return phix.scan(body, carry, xs, reverse=back)

    def fori(self, turns: Any, body: Callable[..., Any], values: Values) -> Any:
        return phix.fori_loop(0, turns, body, values)

    def while_loop(self, unfinished: Any, body: Any, values: Values) -> Any:
        return phix.while_loop(unfinished, body, values)

    def cond(self, is_so: Any, one: Any, other: Any, *values: Any) -> Any:
        return phix.cond(is_so, one, other, *values)

    def vmap(self, body: Callable[..., Any], axis: int, *values: Any) -> Any:
        return phix.vmap(body, axis, axis)(*values)

    def wrap(self, kind: str, body: Callable[..., Any], *values: Any) -> Any:
        if kind == "checkpoint":
            return phix.checkpoint(body)(*values)
        if kind == "jit":
            return phix.jit(body)(*values)
        f = phix.custom_vjp(body)
        f.defvjp(lambda *v: (body(*v), v), lambda kept, slopes: tuple(slopes))
        return f(*values)


class OfSteps(OfPhix):
    """In phix, loops, branches and lanes those of Python: what derivatives are to be."""

    def scan(self, body: Callable[..., Any], carry: Values, xs: Any, back: bool) -> Any:
        found: Values = [None] * xs.shape[0]
        for i in range(len(found))[:: -1 if back else 1]:
            carry, found[i] = body(carry, xs[i])
        return carry, self.stack(found)

    def fori(self, turns: Any, body: Callable[..., Any], values: Values) -> Any:
        for i in range(int(turns)):
            values = body(self.number(i), values)
        return values

    def while_loop(self, unfinished: Any, body: Any, values: Values) -> Any:
        while bool(unfinished(values)):
            values = body(values)
        return values

    def cond(self, is_so: Any, one: Any, other: Any, *values: Any) -> Any:
        return one(*values) if bool(is_so) else other(*values)

    def switch(self, which: Any, branches: Values, *values: Any) -> Any:
        return branches[int(which)](*values)

    def vmap(self, body: Callable[..., Any], axis: int, *values: Any) -> Any:
        rows = [ops.unbind(v, axis) for v in values]
        made = [body(*row) for row in zip(*rows)]
        return [ops.stack(column, axis) for column in zip(*made)]

    def wrap(self, kind: str, body: Callable[..., Any], *values: Any) -> Any:
        made = body(*values)
        if kind != "custom_vjp":
            return made
        return [  # slopes go by
            x + ops.stop_gradient(new - x) if dtypes.is_differentiable(self.dtype(x)) else new
            for x, new in zip(values, made)
        ]


class OfNumpy(Face):
    """In NumPy, each value made anew, loops those of Python."""

    def number(self, k: int) -> Any:
        return np.asarray(k, "int64")

    def within(self, places: Any, size: Any) -> Any:
        return places % size

    def rest(self, x: Any) -> Any:
        return np.remainder(x, np.asarray(MOST, x.dtype))

    def real(self, x: Any) -> Any:
        return x.real

    def imag(self, x: Any) -> Any:
        return x.imag

    def joined(self, real: Any, imag: Any) -> Any:
        return real + 1j * imag

    def cast_as_is(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)

    def maximum(self, x: Any, y: Any) -> Any:
        return x if self.dtype(x).kind == "c" else np.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return x if self.dtype(x).kind == "c" else np.minimum(x, y)

    def is_equal(self, x: Any, y: Any) -> Any:
        return np.equal(x, y)

    def where(self, is_so: Any, x: Any, y: Any) -> Any:
        return np.where(is_so, x, y)

    def sum(self, x: Any) -> Any:
        return np.sum(x)

    def max(self, x: Any) -> Any:
        return np.max(x)

    def put(self, x: Any, where: Any, value: Any) -> Any:
        out = x.copy()
        out[where] = value.copy()
        return out

    def add_as_is(self, x: Any, where: Any, value: Any) -> Any:
        out = x.copy()
        np.add.at(out, where, value)
        return out

    def take(self, x: Any, places: Any) -> Any:
        return x[places]

    def spread(self, row: Any, like: Any) -> Any:
        return np.broadcast_to(row, like.shape).copy()

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def roll(self, x: Any, by: int, axis: int) -> Any:
        return np.roll(x, by, axis)

    def concat(self, parts: Values) -> Any:
        return np.concatenate(parts)

    def stack(self, parts: Values) -> Any:
        return np.stack(parts)

    def sort_as_is(self, x: Any, axis: int) -> Any:
        return np.sort(x, axis)

    def cumsum_as_is(self, x: Any, axis: int) -> Any:
        return np.cumsum(x, axis)

    def sum_along(self, x: Any, axis: int) -> Any:
        return np.sum(x, axis, keepdims=True)

    def argmax(self, x: Any, axis: int) -> Any:
        return np.argmax(x, axis, keepdims=True)

    def argsort(self, x: Any, axis: int) -> Any:
        return np.argsort(x, axis, kind="stable")

    def along(self, x: Any, places: Any, axis: int) -> Any:
        return np.take_along_axis(x, places, axis)

    def first(self, count: Any, like: Any) -> Any:
        rows = np.arange(like.shape[0]) < count
        return np.reshape(rows, [-1, *[1] * (like.ndim - 1)])

    def above(self, x: Any, k: int) -> Any:
        return np.triu(x, k)

    def cut(self, x: Any, axis: int) -> Any:
        return x[(slice(None),) * axis + (0,)]

    def switch(self, which: Any, branches: Values, *values: Any) -> Any:
        return branches[int(which)](*values)

    def cummax_as_is(self, x: Any, axis: int) -> Any:
        return np.maximum.accumulate(x, axis)

    def reshape(self, x: Any, shape: Any) -> Any:
        return np.reshape(x, shape)

    def transpose(self, x: Any) -> Any:
        return np.transpose(x)

    def scan(self, body: Callable[..., Any], carry: Values, xs: Any, back: bool) -> Any:
        found: Values = [None] * len(xs)
        for i in range(len(xs))[:: -1 if back else 1]:
            carry, found[i] = body(carry, xs[i])
        return carry, np.stack(found)

    def fori(self, turns: Any, body: Callable[..., Any], values: Values) -> Any:
        for i in range(int(turns)):
            values = body(np.asarray(i, "int64"), values)
        return values

    def while_loop(self, unfinished: Any, body: Any, values: Values) -> Any:
        while unfinished(values):
            values = body(values)
        return values

    def cond(self, is_so: Any, one: Any, other: Any, *values: Any) -> Any:
        return one(*values) if is_so else other(*values)

    def vmap(self, body: Callable[..., Any], axis: int, *values: Any) -> Any:
        rows = [np.moveaxis(v, axis, 0) for v in values]
        made = [body(*row) for row in zip(*rows)]
        return [np.stack(column, axis) for column in zip(*made)]

    def wrap(self, kind: str, body: Callable[..., Any], *values: Any) -> Any:
        return body(*values)
