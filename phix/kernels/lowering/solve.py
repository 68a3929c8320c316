"""Lowerings of linear systems with triangular matrices, and with the factors of a matrix.

Small systems are solved in registers, in straight-line code inside the loops over the batch and
the right-hand sides; others by a BLAS, one call a matrix.
"""

from __future__ import annotations

from typing import Any

from phix.core import dims as dm
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder, Value
from phix.kernels.loops.nodes import Buffer, Element, LibraryCall, Pointer
from phix.kernels.lowering.factorisation import (
    choose,
    conjugate,
    divide,
    exchange,
    first_element,
    is_small,
    matrix_at,
    number,
    pivot_index,
)
from phix.kernels.lowering.lower import broadcast_indices
from phix.kernels.lowering.reduction import as_dtype, converted
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr


class _Systems:
    """The systems of one equation: matrices x and right-hand sides y, both a batch."""

    def __init__(self, b: Builder, x: Value, y: Value, out: MetaTensor) -> None:
        self.b, self.x, self.y = b, x, y
        self.dims, self.dtype = out.dims, out.dtype
        self.lead = self.dims[:-2]

    @property
    def is_small(self) -> bool:
        return is_small(self.x.dims[-1], self.x.dims[-2])

    def batch_index(self, dims: dm.Shape, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of an operand in its own batch dims, from those of the result."""
        return broadcast_indices(self.b, dims, self.lead, at)

    def matrix(self, at: tuple[Expr, ...]) -> Any:
        size = self.x.dims[-1]
        assert isinstance(size, int)
        own = self.batch_index(self.x.dims[:-2], at)
        return matrix_at(self.b, self.x, own, size, size, self.dtype)

    def column(self, at: tuple[Expr, ...], k: Expr) -> list[Any]:
        own = self.batch_index(self.y.dims[:-2], at)
        size = self.x.dims[-1]
        assert isinstance(size, int)
        elements = (self.b.element(self.y, (*own, number(i), k)) for i in range(size))
        return [as_dtype(e, self.dtype) for e in elements]

    def fill(self, out: Buffer, conjugated: bool = False) -> None:
        """Put the right-hand sides where the solution will be."""
        b, y, lead = self.b, self.y, len(self.lead)

        def at(idx: tuple[Expr, ...]) -> Element:
            own = self.batch_index(y.dims[:-2], idx[:lead])
            element = as_dtype(b.element(y, (*own, *idx[lead:])), self.dtype)
            return conjugate(element) if conjugated else element

        b.fill(out, Value(self.dims, self.dtype, at, cost=y.cost))

    def call(
        self, out: Buffer, factors: Buffer, at: tuple[Expr, ...], flags: tuple[bool, bool, bool]
    ) -> None:
        """Solve in place with a triangle: ``flags`` are upper, transpose, unitriangular."""
        b = self.b
        own = self.batch_index(self.x.dims[:-2], at)
        pointers = (
            Pointer(factors, first_element(b, own, self.x.dims)),
            Pointer(out, first_element(b, at, out.dims)),
        )
        sizes = (b.dim(self.dims[-2]), b.dim(self.dims[-1]))
        words = tuple(number(f) for f in flags)
        b.emit(LibraryCall(f"trsm_{self.dtype}", (*words, *sizes, *pointers), (out,), (out,)))


def _substituted(rows: Any, y: list[Any], upper: bool, transpose: bool, unit: bool) -> list[Any]:
    """The solution of one small triangular system."""
    size = len(y)
    found: list[Any] = [None] * size
    last_first = upper != transpose
    order = list(range(size))[:: -1 if last_first else 1]
    for done, i in enumerate(order):
        rest = y[i]
        for j in order[:done]:
            rest = rest - (rows[j][i] if transpose else rows[i][j]) * found[j]
        found[i] = rest if unit else divide(rest, rows[i][i])
    return found


# -- triangular_solve ----------------------------------------------------------------------------
@lowering("triangular_solve", "whole")
def triangular_solve(b: Builder, x: Value, y: Value, *flags: bool, task: Task) -> Value:
    systems = _Systems(b, x, y, task.out)

    def in_registers(out: Buffer) -> None:
        with b.kernel(), b.loops(systems.lead) as at:
            rows = systems.matrix(at)
            with b.loop(b.dim(out.dims[-1])) as k:
                _store_column(b, out, at, k, _substituted(rows, systems.column(at, k), *flags))

    def by_library(out: Buffer) -> None:
        factors = b.contiguous(converted(b, x, out.dtype))
        systems.fill(out)
        with b.kernel(), b.loops(systems.lead, "reduction") as at:
            systems.call(out, factors, at, flags)  # type: ignore[arg-type]

    return b.written(task.metas, in_registers if systems.is_small else by_library)[0]


def _store_column(
    b: Builder, out: Buffer, at: tuple[Expr, ...], k: Expr, column: list[Any]
) -> None:
    for i, element in enumerate(column):
        b.store(out, (*at, number(i), k), element)


# -- lu_solve ------------------------------------------------------------------------------------
# The triangles in the order in which they are solved: (upper, transpose, unitriangular).
_FORWARD = ((False, False, True), (True, False, False))
_TRANSPOSED = ((True, True, False), (False, True, True))


@lowering("lu_solve", "whole")
def lu_solve(b: Builder, y: Value, x: Value, pivots: Value, trans: str, *, task: Task) -> Value:
    systems = _Systems(b, x, y, task.out)
    solve = _lu_solve_in_registers if systems.is_small else _lu_solve_by_library
    return b.written(task.metas, lambda out: solve(systems, pivots, trans, out))[0]


def _lu_solve_in_registers(systems: _Systems, pivots: Value, trans: str, out: Buffer) -> None:
    """A = P L U: z = U^-1 L^-1 P^T y, and transposed z = P L^-T U^-T y."""
    b = systems.b
    with b.kernel(), b.loops(systems.lead) as at:
        rows = systems.matrix(at)
        if trans == "C":
            rows = [[conjugate(e) for e in row] for row in rows]
        own = systems.batch_index(pivots.dims[:-1], at)
        places: list[Any] = [b.element(pivots, (*own, number(i))) for i in range(len(rows))]
        with b.loop(b.dim(out.dims[-1])) as k:
            column = systems.column(at, k)
            if trans == "N":
                _exchange(column, places, range(len(rows)))
            for flags in _FORWARD if trans == "N" else _TRANSPOSED:
                column = _substituted(rows, column, *flags)
            if trans != "N":
                _exchange(column, places, reversed(range(len(rows))))
            _store_column(b, out, at, k, column)


def _exchange(column: list[Any], places: list[Any], order: Any) -> None:
    """Elements i and places[i] - 1 >= i exchanged, for each i in order."""
    for i in order:
        old = column[i]
        for j in range(i + 1, len(column)):
            is_it = sc.eq(places[i], j + 1)
            column[i] = choose(is_it, column[j], column[i])
            column[j] = choose(is_it, old, column[j])


def _lu_solve_by_library(systems: _Systems, pivots: Value, trans: str, out: Buffer) -> None:
    b = systems.b
    factors = b.contiguous(converted(b, systems.x, out.dtype))
    places = b.contiguous(pivots)
    systems.fill(out, trans == "C")
    rows, columns = b.dim(out.dims[-2]), b.dim(out.dims[-1])

    def exchange_rows(backward: bool) -> None:
        with b.kernel(), b.loops(systems.lead, "independent") as at:
            own = systems.batch_index(pivots.dims[:-1], at)
            with b.loop(rows, "reduction") as step:
                i = rows - 1 - step if backward else step
                place = ir.load(places, (b.linear((*own, i), pivots.dims),))
                other = pivot_index(place, i, rows)
                with b.loop(columns) as k:
                    exchange(b, out, (*at, i, k), (*at, other, k))

    if trans == "N":
        exchange_rows(False)
    for flags in _FORWARD if trans == "N" else _TRANSPOSED:
        with b.kernel(), b.loops(systems.lead, "reduction") as at:
            systems.call(out, factors, at, flags)
    if trans != "N":
        exchange_rows(True)
    if trans == "C":
        with b.kernel(), b.loop(b.dim(dm.product(out.dims))) as i:
            found = ir.load(out, (i,))
            assert isinstance(found, Complex)
            b.emit(*ir.stores(out, (i,), conjugate(found)))
