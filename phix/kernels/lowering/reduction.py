"""Lowerings of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, constant
from phix.kernels.loops.nodes import Buffer, Element
from phix.kernels.lowering.fusion import REDUCTION_COST
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr

Indices = tuple[Expr, ...]


@dataclass(frozen=True)
class Monoid:
    """How a reduction combines elements, and what it starts from."""

    initial: Callable[[np.dtype], Any]
    combine: Callable[[Any, Any], Any]
    reassociate: bool = True


def _lowest(dtype: np.dtype) -> Any:
    if dt.kind(dtype) == "float":
        return -np.inf
    return False if dtype == dt.bool_ else int(np.iinfo(dtype).min)


def _highest(dtype: np.dtype) -> Any:
    if dt.kind(dtype) == "float":
        return np.inf
    return True if dtype == dt.bool_ else int(np.iinfo(dtype).max)


def _extreme(fn: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, x: sc.binary(fn, a, x)


SUM = Monoid(lambda d: 0, lambda a, x: a + x)
PROD = Monoid(lambda d: 1, lambda a, x: a * x)
MAX = Monoid(_lowest, _extreme("maximum"), False)
MIN = Monoid(_highest, _extreme("minimum"), False)
ANY = Monoid(lambda d: False, lambda a, x: a | x, False)
ALL = Monoid(lambda d: True, lambda a, x: a & x, False)


def sum_of(dtype: np.dtype) -> Monoid:
    """What a sum is in ``dtype``: bools are joined by "or"."""
    return ANY if dtype == dt.bool_ else SUM


def as_dtype(element: Element, dtype: np.dtype) -> Element:
    """An element converted to the scalars of ``dtype``."""
    scalar = ir.scalar_dtype(dtype)
    if dt.is_complex(dtype):
        if isinstance(element, Complex):
            return Complex(sc.cast(element.real, scalar), sc.cast(element.imag, scalar))
        return Complex(sc.cast(element, scalar), sc.const(0, scalar))
    if isinstance(element, Complex) and dtype == dt.bool_:
        return sc.ne(element.real, 0) | sc.ne(element.imag, 0)
    assert isinstance(element, Expr)
    return sc.cast(element, scalar)


def parts(element: Element) -> tuple[Expr, ...]:
    return (element.real, element.imag) if isinstance(element, Complex) else (element,)


def whole(scalars: tuple[Expr, ...]) -> Element:
    return Complex(*scalars) if len(scalars) > 1 else scalars[0]


def converted(b: Builder, x: Value, dtype: np.dtype) -> Value:
    """``x`` with its elements converted to ``dtype``."""
    if x.dtype == dtype:
        return x
    result = Value(x.dims, dtype, lambda idx: as_dtype(b.element(x, idx), dtype), None, x.cost)
    if x.is_flat:
        result.flat = lambda i: as_dtype(b.flat_element(x, i), dtype)
    return result


def reduce_value(b: Builder, x: Value, axes: Any, monoid: Monoid, meta: MetaTensor) -> Value:
    """``x`` reduced over ``axes``; the output's meta says whether they stay as 1."""
    rank = len(x.dims)
    axes = tuple(sorted(axes)) or tuple(range(rank))
    kept = tuple(k for k in range(rank) if k not in axes)
    if not axes:
        at0 = lambda idx: as_dtype(b.element(x, idx), meta.dtype)  # noqa: E731
        return Value(meta.dims, meta.dtype, at0, None, x.cost)
    last = max((k for k in range(rank) if not dm.is_one(x.dims[k])), default=-1)
    reduction = _Reduction(b, x, axes, kept, monoid, meta)
    is_one = all(dm.is_one(x.dims[k]) for k in axes)
    if last in axes or last < 0 or is_one or not b.target.sums_in_memory:
        return reduction.in_registers()
    wide = MetaTensor(meta.dims, dt.accumulator_dtype(meta.dtype))
    (stored,) = b.written((wide,), reduction.in_memory)
    return converted(b, stored, meta.dtype)


@dataclass(eq=False)
class _Reduction:
    b: Builder
    x: Value
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    monoid: Monoid
    meta: MetaTensor

    def _initial(self) -> Element:
        return constant(self.monoid.initial(self.meta.dtype), self.meta.dtype)

    def _kept_indices(self, indices: Indices) -> Indices:
        """The indices of the kept axes, from those of the output."""
        if len(indices) == len(self.kept):
            return indices
        return tuple(indices[k] for k in self.kept)

    def in_registers(self) -> Value:
        """Accumulate into scalars: for reductions over the last axis."""
        x = self.x
        trailing = self.axes == tuple(range(len(self.kept), len(x.dims)))
        result = Value(self.meta.dims, self.meta.dtype, self._at, None, x.cost + REDUCTION_COST)
        if trailing and x.is_flat:
            result.at, result.flat = None, self._flat
        return result

    def _accumulate(self, key: Indices, dims: dm.Shape, read: Callable[[Indices], Element]) -> Any:
        b = self.b
        with b.hoisted(key):
            targets = b.mutable(*parts(self._initial()))
            with b.loops(dims, "reduction") as indices:
                element = as_dtype(read(indices), self.meta.dtype)
                new = self.monoid.combine(whole(targets), element)
                b.emit(ir.Assign(targets, parts(new), self.monoid.reassociate))
        return whole(targets)

    def _at(self, indices: Indices) -> Element:
        at = dict(zip(self.kept, self._kept_indices(indices)))

        def read(reduced: Indices) -> Element:
            every = {**at, **dict(zip(self.axes, reduced))}
            return self.b.element(self.x, tuple(every[k] for k in range(len(self.x.dims))))

        return self._accumulate(indices, tuple(self.x.dims[k] for k in self.axes), read)

    def _flat(self, i: Expr) -> Element:
        size = dm.product(tuple(self.x.dims[k] for k in self.axes))
        start = i * self.b.dim(size)
        return self._accumulate(
            (i,), (size,), lambda r: self.b.flat_element(self.x, start + (r[0] if r else ZERO))
        )

    def in_memory(self, out: Buffer) -> None:
        """Accumulate into the output, walking the input in memory order."""
        b, x = self.b, self.x
        outer = 0
        while outer in self.kept:
            outer += 1
        inner_dims = tuple(x.dims[k] for k in self.kept if k >= outer)
        strides = dict(zip(self.kept, b.strides(tuple(x.dims[k] for k in self.kept))))
        if outer == 0:  # as two kernels, the second may join the one that computes the input
            first = self.monoid.initial(self.meta.dtype)
            b.fill(out, b.constant(first, out.dims, out.dtype), start=True)
            with b.kernel():
                self._walk(out, 0, (), ZERO, strides)
            return
        with b.kernel(), b.loops(x.dims[:outer]) as head:
            base: Expr = ZERO
            for k, i in enumerate(head):
                base = base + i * strides[k]
            with b.loops((dm.product(inner_dims),)) as (i,):
                b.emit(*ir.stores(out, (base + i,), self._initial()))
            self._walk(out, outer, head, base, strides)

    def _walk(
        self, out: Buffer, axis: int, indices: Indices, position: Expr, strides: dict[int, Expr]
    ) -> None:
        b, x = self.b, self.x
        if axis == len(x.dims):
            element = as_dtype(b.element(x, indices), self.meta.dtype)
            new = self.monoid.combine(ir.load(out, (position,)), element)
            b.put(out, position, new)
            return
        kind = "reduction" if axis in self.axes else "parallel"
        with b.loop(b.dim(x.dims[axis]), kind) as i:
            step = i * strides[axis] if axis in strides else ZERO
            self._walk(out, axis + 1, (*indices, i), position + step, strides)


def _reduction(op_name: str, monoid: Monoid) -> None:
    @lowering(op_name, "reduce")
    def rule(b: Builder, x: Value, axis: Any, *rest: Any, task: Task) -> Value:
        own = sum_of(task.out.dtype) if monoid is SUM else monoid
        return reduce_value(b, x, axis, own, task.out)


for _name, _monoid in (
    ("sum", SUM), ("prod", PROD), ("max", MAX), ("min", MIN), ("any", ANY), ("all", ALL),
):  # fmt: skip
    _reduction(_name, _monoid)
