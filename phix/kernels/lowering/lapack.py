"""Factorisations with orthonormal factors and eigenvalues by a LAPACK: one call a matrix.

A LAPACK sees a C-ordered matrix as its transpose. It refuses nan and inf, so matrices that hold
such are taken as 0, and their factors become nan in the end; as do those of an algorithm that does
not end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import DimLike, Shape
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Across, Builder, Value, buffer_value, constant
from phix.kernels.loops.nodes import Buffer, Element, LibraryCall, Pointer
from phix.kernels.lowering.factorisation import (
    choose,
    conjugate,
    first_element,
    number,
    swapped,
)
from phix.kernels.lowering.reduction import as_dtype, converted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr

# Columns that LAPACK works on at once, where it has the memory for it.
_BLOCK = 64


Where = Callable[[Expr, Expr], Expr]  # whether an element of a matrix is read, by row and column


class _Calls:
    """Calls of routines for the matrices of one batch, and what they found."""

    def __init__(self, b: Builder, lead: Shape, dtype: np.dtype) -> None:
        self.b, self.lead, self.dtype = b, lead, dtype
        self.real = dt.real_dtype(dtype)
        self.infos = b.temp(lead, dt.int32)

    def room(self, size: DimLike, dtype: np.dtype) -> Buffer:
        """Memory that every call may use."""
        return self.b.temp((size + 1,), dtype)

    def call(
        self, routine: str, numbers: list[Expr], matrices: list[Buffer], rooms: list[Buffer]
    ) -> None:
        """``matrices`` are of the batch, the last of one axis after it where it holds values."""
        b = self.b
        with b.kernel(), b.loops(self.lead, "reduction") as at:
            ranks = [len(m.dims) - len(self.lead) for m in matrices]
            starts = [first_element(b, at, m.dims, r) for m, r in zip(matrices, ranks)]
            pointers = [Pointer(m, start) for m, start in zip(matrices, starts)]
            pointers += [Pointer(room, number(0)) for room in rooms]
            pointers.append(Pointer(self.infos, b.linear(at, self.lead)))
            writes = (*matrices, *rooms, self.infos)
            arguments: tuple[Pointer | Expr, ...] = (*numbers, *pointers)
            b.emit(LibraryCall(f"{routine}_{self.dtype}", arguments, writes, tuple(matrices[:1])))

    def kept_finite(self, x: Value, is_read: Where | None = None) -> tuple[Buffer, Buffer]:
        """A copy of matrices, those that are not finite as 0, and which these are; of elements
        that are not read there is 0."""
        b, dims = self.b, x.dims
        flags, copy = b.temp(self.lead, dt.int32), b.temp(dims, self.dtype)
        given, zero = b.contiguous(converted(b, x, self.dtype)), constant(0, self.dtype)

        def element(idx: tuple[Expr, ...]) -> Element:
            found = ir.load(given, (b.linear(idx, dims),))
            return found if is_read is None else choose(is_read(*idx[-2:]), found, zero)

        with b.kernel(), b.loops(self.lead, "independent") as at:
            (bad,) = b.mutable(number(0, dt.int32))
            with (
                b.loop(b.dim(dims[-2]), "reduction") as i,
                b.loop(b.dim(dims[-1]), "reduction") as j,
            ):
                found = sc.select(_is_finite(element((*at, i, j))), bad, number(1, dt.int32))
                b.emit(ir.Assign((bad,), (found,)))
            b.store(flags, at, bad)

        def at_index(idx: tuple[Expr, ...]) -> Element:
            flag: Any = ir.load(flags, (b.linear(idx[:-2], self.lead),))
            return choose(sc.ne(flag, 0), zero, element(idx))

        b.fill(copy, Value(dims, self.dtype, at_index))
        return copy, flags

    def spoil(self, flags: Buffer, *outputs: Buffer) -> None:
        """Put nan in place of what stands for no factor."""
        b = self.b
        for out in outputs:
            with b.kernel(), b.loops(out.dims) as idx:
                place = (b.linear(idx[: len(self.lead)], self.lead),)
                is_bad: Any = sc.ne(ir.load(flags, place), 0)  # type: ignore[arg-type]
                is_bad = is_bad | sc.ne(ir.load(self.infos, place), 0)  # type: ignore[arg-type]
                found = ir.load(out, (b.linear(idx, out.dims),))
                b.store(out, idx, choose(is_bad, constant(np.nan, out.dtype), found))


def _is_finite(x: Element) -> Any:
    if isinstance(x, Complex):
        return _is_finite(x.real) & _is_finite(x.imag)
    return sc.fabs(x) <= sc.const(np.finfo(x.dtype).max, x.dtype)


# -- qr ------------------------------------------------------------------------------------------
def qr(b: Builder, x: Value, mode: str, vectors: bool, q: Buffer, r: Buffer) -> None:
    """R is the upper triangle of what ``geqrf`` leaves, and Q is made of the rest."""
    *lead, rows, columns = x.dims
    calls, size = _Calls(b, tuple(lead), q.dtype), dm.minimum(rows, columns)
    factors = b.temp((*lead, columns, rows), q.dtype)
    scales = b.temp((*lead, size), q.dtype)
    b.fill(factors, swapped(b, converted(b, x, q.dtype)))
    work = calls.room(_BLOCK * dm.maximum(rows, columns), q.dtype)
    sizes = [b.dim(rows), b.dim(columns), b.dim(work.dims[0])]
    calls.call("geqrf", sizes, [factors, scales], [work])

    def upper(idx: tuple[Expr, ...]) -> Element:
        *at, i, j = idx
        element = ir.load(factors, (b.linear((*at, j, i), factors.dims),))
        return choose(i > j, constant(0, q.dtype), element)

    b.fill(r, Value(r.dims, r.dtype, upper))
    if not vectors or mode == "r":
        return
    wide = q.dims[-1]
    made = factors
    if not dm.same(wide, columns):
        made = b.temp((*lead, wide, rows), q.dtype)
        with b.kernel(), b.loops((*lead, size, rows)) as at:  # the other columns are made anew
            b.store(made, at, ir.load(factors, (b.linear(at, factors.dims),)))
    routine = "ungqr" if dt.is_complex(q.dtype) else "orgqr"
    sizes = [b.dim(rows), b.dim(wide), b.dim(size), b.dim(work.dims[0])]
    calls.call(routine, sizes, [made, scales], [work])
    b.fill(q, swapped(b, buffer_value(made)))


# -- svd -----------------------------------------------------------------------------------------
_NONE, _SOME, _ALL = map(ord, "NSA")


def svd(b: Builder, x: Value, full: bool, vectors: bool, u: Buffer, s: Buffer, vh: Buffer) -> None:
    """Of the transpose, whose right factor lies in memory as the left one of x does."""
    *lead, rows, columns = x.dims
    calls, k = _Calls(b, tuple(lead), u.dtype), dm.minimum(rows, columns)
    copy, flags = calls.kept_finite(x)
    longest = dm.maximum(rows, columns)
    if vectors and full:  # LAPACK leaves them where one side has no elements
        for out in (u, vh):
            b.fill(out, _identity(out))
    work = calls.room(4 * k * k + 7 * k + (1 + 2 * _BLOCK) * longest, u.dtype)
    rooms = [work, calls.room(8 * k, dt.int32)]
    if dt.is_complex(u.dtype):
        rooms.append(calls.room(7 * k * k + 7 * k + 2 * longest * k, calls.real))
    job = _NONE if not vectors else _ALL if full else _SOME
    # without vectors LAPACK looks at none of their memory, so that no matrices of a batch are named
    sizes = [number(job), b.dim(columns), b.dim(rows), b.dim(u.dims[-1]), b.dim(work.dims[0])]
    calls.call("gesdd", sizes, [copy, s, vh, u], rooms)
    calls.spoil(flags, *((u, s, vh) if vectors else (s,)))


def _identity(out: Buffer) -> Value:
    zero, one = constant(0, out.dtype), constant(1, out.dtype)
    return Value(out.dims, out.dtype, lambda idx: choose(sc.eq(idx[-2], idx[-1]), one, zero))


# -- eigh ----------------------------------------------------------------------------------------
def eigh(b: Builder, x: Value, uplo: str, vectors: bool, w: Buffer, v: Buffer) -> None:
    """Of the transpose, the conjugate of a Hermitian matrix, whose vectors are conjugates."""
    *lead, n = x.dims[:-1]
    calls = _Calls(b, tuple(lead), v.dtype)
    copy, flags = calls.kept_finite(x, lambda i, j: j <= i if uplo == "L" else i <= j)
    is_complex = dt.is_complex(v.dtype)
    work = calls.room(1 + (6 + _BLOCK) * n + 2 * n * n, v.dtype)
    whole = calls.room(3 + 5 * n, dt.int32)
    rooms = [work, whole]
    numbers = [number(vectors), number(uplo == "L"), b.dim(n), b.dim(work.dims[0])]
    numbers.append(b.dim(whole.dims[0]))
    if is_complex:
        rooms.append(calls.room(1 + 5 * n + 2 * n * n, calls.real))
        numbers.append(b.dim(rooms[-1].dims[0]))
    calls.call("heevd" if is_complex else "syevd", numbers, [copy, w], rooms)
    if vectors:

        def turned(idx: tuple[Expr, ...]) -> Element:
            *at, i, j = idx
            return conjugate(as_dtype(ir.load(copy, (b.linear((*at, j, i), copy.dims),)), v.dtype))

        result = Value(v.dims, v.dtype, turned)
        result.tiled = Across(len(lead), copy.dims[-1])
        b.fill(v, result)
    calls.spoil(flags, *((w, v) if vectors else (w,)))
