"""Lowerings of factorisations: LU and Cholesky.

Small matrices are factored in registers, in straight-line code inside the loop over the batch, by
LU without a batch in loops where the factors are to lie; others by a LAPACK, one call a matrix. A
LAPACK sees a C-ordered matrix as its transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike, Shape
from phix.core.kernel_registry import provides
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, buffer_value, constant
from phix.kernels.loops.nodes import Buffer, Element, LibraryCall, Pointer
from phix.kernels.lowering.contraction import BLAS_DTYPES
from phix.kernels.lowering.reduction import as_dtype, converted
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import swapped
from phix.kernels.scalar import complex_math
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr

for _name in ("lu", "cholesky", "triangular_solve", "lu_solve"):
    provides(_name, "BLAS", BLAS_DTYPES)
# Matrices with dims up to this are unrolled: above, the code grows faster than the time it saves.
SMALL = 8
# An LU in registers: of complex matrices, and of those of no batch, whose code fills no vectors.
SMALL_COMPLEX, TINY = 6, 4
FEW = 4  # so many matrices are no batch

Rows = list[list[Element]]


# -- elements, real or complex ------------------------------------------------------------------
def is_small(*dims: DimLike, limit: int = SMALL) -> bool:
    return all(isinstance(d, int) and d <= limit for d in dims)


def divide(x: Any, y: Any) -> Any:
    return complex_math.divide(x, y) if isinstance(x, Complex) else x / y


def choose(condition: Expr, x: Any, y: Any) -> Any:
    if isinstance(x, Complex):
        parts = zip((x.real, x.imag), (y.real, y.imag))
        return Complex(*(sc.select(condition, a, b) for a, b in parts))
    return sc.select(condition, x, y)


def conjugate(x: Any) -> Any:
    return Complex(x.real, -x.imag) if isinstance(x, Complex) else x


def magnitude(x: Any) -> Expr:
    """What pivots are compared by, as in LAPACK: of a complex number |re| + |im|."""
    return sc.fabs(x.real) + sc.fabs(x.imag) if isinstance(x, Complex) else sc.fabs(x)


def number(value: int, dtype: np.dtype = dt.int64) -> Expr:
    return sc.const(value, dtype)


def matrix_at(
    b: Builder, x: Value, at: tuple[Expr, ...], rows: int, columns: int, dtype: np.dtype
) -> Rows:
    """The elements of one matrix of known size."""
    return [
        [as_dtype(b.element(x, (*at, number(i), number(j))), dtype) for j in range(columns)]
        for i in range(rows)
    ]


def store_matrix(b: Builder, out: Buffer, at: tuple[Expr, ...], rows: Rows) -> None:
    for i, row in enumerate(rows):
        for j, element in enumerate(row):
            b.store(out, (*at, number(i), number(j)), element)


def first_element(b: Builder, at: tuple[Expr, ...], dims: Shape, rank: int = 2) -> Expr:
    """The linear index at which a matrix (or vector: rank 1) of a batch begins."""
    return b.linear((*at, *(ZERO,) * rank), dims)


# -- lu -----------------------------------------------------------------------------------------
def _lu_kind(x: Value, pivot: bool) -> str:
    """Straight-line code takes a compiler a time that grows with the cube of the dims and more,
    which a batch alone is worth: its matrices are lanes of vectors then."""
    *lead, m, n = x.dims
    most = TINY
    if not isinstance(count := dm.product(tuple(lead)), int) or count > FEW:
        most = SMALL_COMPLEX if x.dtype.kind == "c" else SMALL
    if is_small(m, n, limit=most):
        return "registers"
    return "loops" if is_small(m, n) or not pivot else "library"


@lowering("lu", "whole")
def lu(b: Builder, x: Value, pivot: bool, *, task: Task) -> tuple[Value, ...]:
    kind = _lu_kind(x, pivot)

    def write(out: Buffer, pivots: Buffer, infos: Buffer) -> None:
        if kind == "registers":
            _lu_in_registers(b, x, pivot, out, pivots, infos)
        elif kind == "loops":
            _lu_in_loops(b, x, pivot, out, pivots, infos)
        else:
            _lu_by_library(b, x, out, pivots, infos)

    return b.written(task.metas, write)


def _lu_in_registers(
    b: Builder, x: Value, pivot: bool, out: Buffer, pivots: Buffer, infos: Buffer
) -> None:
    *lead, m, n = x.dims
    assert isinstance(m, int) and isinstance(n, int)
    with b.kernel(), b.loops(tuple(lead)) as at:
        rows = matrix_at(b, x, at, m, n, out.dtype)
        info = number(0, dt.int32)
        for k in range(min(m, n)):
            place = _pivot_row(rows, k) if pivot else number(k + 1, dt.int32)
            if pivot:
                _exchange(rows, k, place)
            is_zero = sc.eq(magnitude(rows[k][k]), 0)
            info = sc.select(is_zero & sc.eq(info, 0), number(k + 1, dt.int32), info)
            for i in range(k + 1, m):
                factor = choose(is_zero, rows[i][k], divide(rows[i][k], rows[k][k]))
                rest: Any = [a - factor * c for a, c in zip(rows[i][k + 1 :], rows[k][k + 1 :])]
                rows[i][k:] = [factor, *rest]
            b.store(pivots, (*at, number(k)), place)
        store_matrix(b, out, at, rows)
        b.store(infos, at, info)


def _pivot_row(rows: Rows, k: int) -> Expr:
    """The number, from 1, of the row from k on whose element in column k is the largest."""
    best, place = magnitude(rows[k][k]), number(k + 1, dt.int32)
    for i in range(k + 1, len(rows)):
        size = magnitude(rows[i][k])
        wins = size > best
        best = sc.select(wins, size, best)
        place = sc.select(wins, number(i + 1, dt.int32), place)
    return place


def _exchange(rows: Rows, k: int, place: Expr) -> None:
    """Row k and the one at ``place`` exchanged."""
    old = rows[k]
    for i in range(k + 1, len(rows)):
        is_it = sc.eq(place, i + 1)
        rows[k] = [choose(is_it, a, c) for a, c in zip(rows[i], rows[k])]
        rows[i] = [choose(is_it, c, a) for a, c in zip(rows[i], old)]


def _lu_by_library(b: Builder, x: Value, out: Buffer, pivots: Buffer, infos: Buffer) -> None:
    *lead, m, n = x.dims
    columns = b.temp((*lead, n, m), out.dtype)
    b.fill(columns, swapped(b, converted(b, x, out.dtype)))
    with b.kernel(), b.loops(tuple(lead), "reduction") as at:
        pointers = (
            Pointer(columns, first_element(b, at, columns.dims)),
            Pointer(pivots, first_element(b, at, pivots.dims, 1)),
            Pointer(infos, b.linear(at, infos.dims)),
        )
        writes = (columns, pivots, infos)
        b.emit(
            LibraryCall(f"getrf_{out.dtype}", (b.dim(m), b.dim(n), *pointers), writes, (columns,))
        )
    b.fill(out, swapped(b, buffer_value(columns)))


def _lu_in_loops(
    b: Builder, x: Value, pivot: bool, out: Buffer, pivots: Buffer, infos: Buffer
) -> None:
    """Where the result lies: each row below loses its part in column k, k = 0, 1, ..."""
    *lead, m, n = x.dims
    rows, columns = b.dim(m), b.dim(n)
    b.fill(out, converted(b, x, out.dtype))
    with b.kernel(), b.loops(tuple(lead), "independent") as at:

        def load(i: Expr, j: Expr) -> Any:
            return ir.load(out, (b.linear((*at, i, j), out.dims),))

        (info,) = b.mutable(number(0, dt.int32))
        with b.loop(b.dim(pivots.dims[-1]), "reduction") as k:
            following = sc.cast(k + 1, dt.int32)
            if pivot:
                place = _pivot_in_loops(b, load, k, rows)
                with b.loop(columns) as j:
                    exchange(b, out, (*at, k, j), (*at, sc.cast(place, dt.int64) - 1, j))
            b.store(pivots, (*at, k), place if pivot else following)
            is_zero = sc.eq(magnitude(load(k, k)), 0)
            b.emit(ir.Assign((info,), (sc.select(is_zero & sc.eq(info, 0), following, info),)))
            with b.loop(rows - 1 - k, "reduction") as below:
                i = k + 1 + below
                factor = choose(is_zero, load(i, k), divide(load(i, k), load(k, k)))
                b.store(out, (*at, i, k), factor)
                with b.loop(columns - 1 - k) as beside:
                    j = k + 1 + beside
                    b.store(out, (*at, i, j), load(i, j) - load(i, k) * load(k, j))
        b.store(infos, at, info)


def _pivot_in_loops(b: Builder, load: Callable[..., Any], k: Expr, rows: Expr) -> Expr:
    """See ``_pivot_row``."""
    best, place = b.mutable(magnitude(load(k, k)), sc.cast(k + 1, dt.int32))
    with b.loop(rows - 1 - k, "reduction") as below:
        size = magnitude(load(k + 1 + below, k))
        wins, row = size > best, sc.cast(k + 2 + below, dt.int32)
        b.emit(ir.Assign((best, place), (sc.select(wins, size, best), sc.select(wins, row, place))))
    return place


@lowering("lu_permutation", "whole")
def lu_permutation(b: Builder, x: Value, pivots: Value, *, task: Task) -> Value:
    def write(out: Buffer) -> None:
        *lead, rows = out.dims
        with b.kernel(), b.loops(tuple(lead), "independent") as at:
            with b.loop(b.dim(rows)) as i:
                b.store(out, (*at, i), i)
            with b.loop(b.dim(pivots.dims[-1]), "reduction") as k:
                other = pivot_index(b.element(pivots, (*at, k)), k, b.dim(rows))
                exchange(b, out, (*at, k), (*at, other))

    return b.written(task.metas, write)[0]


def pivot_index(place: Any, k: Expr, rows: Expr) -> Expr:
    """The index of the row that a pivot names; k itself for one that no factorisation gives."""
    found = sc.cast(place, dt.int64) - 1
    return sc.select((found > k) & (found < rows), found, k)


def exchange(b: Builder, out: Buffer, here: tuple[Expr, ...], there: tuple[Expr, ...]) -> None:
    """Two elements of a buffer change places."""
    parts = [ir.load(out, (b.linear(at, out.dims),)) for at in (here, there)]
    scalars = [p for e in parts for p in ((e.real, e.imag) if isinstance(e, Complex) else (e,))]
    kept = b.mutable(*scalars)
    first, second = (Complex(*kept[:2]), Complex(*kept[2:])) if len(kept) > 2 else kept
    b.store(out, here, second)
    b.store(out, there, first)


# -- cholesky -----------------------------------------------------------------------------------
@lowering("cholesky", "whole")
def cholesky(b: Builder, x: Value, upper: bool, *, task: Task) -> Value:
    write = _cholesky_in_registers if is_small(x.dims[-1], x.dims[-2]) else _cholesky_by_library
    return b.written(task.metas, lambda out: write(b, x, upper, out))[0]


def _hermitian(x: Element, mirrored: Element) -> Any:
    """(x + x^H) / 2 from an element and the one across the diagonal."""
    total: Any = x + conjugate(mirrored)
    return total.scaled(0.5) if isinstance(total, Complex) else total * 0.5


def _over(x: Any, y: Expr) -> Any:
    return Complex(x.real / y, x.imag / y) if isinstance(x, Complex) else x / y


def _cholesky_in_registers(b: Builder, x: Value, upper: bool, out: Buffer) -> None:
    *lead, n = x.dims[:-1]
    assert isinstance(n, int)
    zero, nan = constant(0, out.dtype), constant(np.nan, out.dtype)
    with b.kernel(), b.loops(tuple(lead)) as at:
        given = matrix_at(b, x, at, n, n, out.dtype)
        lower: Any = [[zero] * n for _ in range(n)]
        is_positive = sc.const(True, dt.bool_)
        for j in range(n):
            column: Any = [_hermitian(given[i][j], given[j][i]) for i in range(j, n)]
            for k in range(j):
                factor = conjugate(lower[j][k])
                column = [e - lower[i][k] * factor for i, e in enumerate(column, j)]
            square = column[0].real if isinstance(column[0], Complex) else column[0]
            is_positive = is_positive & (square > 0)
            diagonal = sc.sqrt(square)
            lower[j][j] = as_dtype(diagonal, out.dtype)
            for i in range(j + 1, n):
                lower[i][j] = _over(column[i - j], diagonal)
        for i in range(n):
            for j in range(i + 1):
                lower[i][j] = choose(is_positive, lower[i][j], nan)
        if upper:
            lower = [[conjugate(lower[j][i]) for j in range(n)] for i in range(n)]
        store_matrix(b, out, at, lower)


def _cholesky_by_library(b: Builder, x: Value, upper: bool, out: Buffer) -> None:
    """LAPACK factors the lower triangle of the transpose, which is the upper one of the matrix."""
    *lead, n = x.dims[:-1]
    dims = tuple(lead)
    infos = b.temp(dims, dt.int32)
    x = converted(b, x, out.dtype)

    def at(idx: tuple[Expr, ...]) -> Element:
        mirrored = b.element(x, (*idx[:-2], idx[-1], idx[-2]))
        return _hermitian(b.element(x, idx), mirrored)

    b.fill(out, Value(x.dims, x.dtype, at))
    size, flag = b.dim(n), number(upper)
    with b.kernel(), b.loops(dims, "reduction") as idx:
        pointers = (
            Pointer(out, first_element(b, idx, out.dims)),
            Pointer(infos, b.linear(idx, dims)),
        )
        b.emit(LibraryCall(f"potrf_{out.dtype}", (flag, size, *pointers), (out, infos), (out,)))
    with b.kernel(), b.loops((*dims, n, n)) as idx:
        *head, i, j = idx
        failed = sc.ne(ir.load(infos, (b.linear(tuple(head), dims),)), 0)  # type: ignore[arg-type]
        found = ir.load(out, (b.linear(idx, out.dims),))
        found = choose(failed, constant(np.nan, out.dtype), found)
        outside = i > j if upper else j > i
        b.store(out, idx, choose(outside, constant(0, out.dtype), found))
