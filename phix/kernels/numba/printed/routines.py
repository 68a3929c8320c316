"""Calls of libraries in kernels: products by ``np.dot``, factors of matrices by loops."""

from __future__ import annotations

from typing import Any, Protocol

from phix.core import dtypes as dt
from phix.core.errors import KernelNotFoundError
from phix.kernels.loops import linked
from phix.kernels.loops.nodes import Buffer, LibraryCall, Pointer
from phix.kernels.numba.printed.prelude import Prelude
from phix.kernels.scalar.language import Expr


class Printer(Protocol):
    """What is asked of the printer of a kernel."""

    prelude: Prelude

    def value(self, root: Expr) -> str: ...

    def parameter(self, what: Buffer | str) -> str: ...


def line(p: Printer, call: LibraryCall) -> str:
    """The statement that does what a routine does.

    Raises:
        KernelNotFoundError: the routine is none of them.
    """
    make = _LINES.get(call.name.partition("_")[0])
    if make is None:
        raise KernelNotFoundError(missing(call.name))
    return make(p, *call.arguments)


def missing(name: str) -> str:
    """What is said of a function that cannot be printed."""
    title = linked.find(name).title if linked.is_linked(name) else name
    return f"{title} is no part of printed Numba source: it has code of its own"


def _place(p: Printer, to: Any) -> str:
    return f"{p.parameter(to.buffer)}, {p.value(to.offset)}"


def _name(p: Printer, kind: str, buffer: Buffer) -> str:
    """A helper, of arrays or of those that hold complex numbers as pairs."""
    if dt.is_complex(buffer.dtype):
        return p.prelude.name(f"complex_{kind}", buffer.dtype)
    return p.prelude.name(kind)


def _matrix(p: Printer, at: Pointer, m: Expr, n: Expr, pitch: Expr | None = None) -> str:
    kind, more = ("rows", "") if pitch in (None, n) else ("spread", f", {p.value(pitch)}")
    name = _name(p, kind, at.buffer)
    return f"{name}({_place(p, at)}, {p.value(m)}, {p.value(n)}{more})"


def _gemm(p: Printer, tx: Any, ty: Any, add: Any, *rest: Any) -> str:
    m, n, k, lx, ly, lo, x, y, out = rest
    left = f"{_matrix(p, x, k, m, lx)}.T" if tx.data else _matrix(p, x, m, k, lx)
    right = f"{_matrix(p, y, n, k, ly)}.T" if ty.data else _matrix(p, y, k, n, ly)
    if lo is n and not add.data:
        return f"np.dot({left}, {right}, {_matrix(p, out, m, n)})"
    put = _name(p, "put", out.buffer)
    return f"{put}(np.dot({left}, {right}), {bool(add.data)}, {_place(p, out)}, {p.value(lo)})"


def _trsm(p: Printer, upper: Any, transpose: Any, unit: Any, *rest: Any) -> str:
    n, k, factors, out = rest
    flags = ", ".join(str(bool(f.data)) for f in (upper, transpose, unit))
    matrices = f"{_matrix(p, factors, n, n)}, {_matrix(p, out, n, k)}"
    return f"{p.prelude.name('trsm')}({matrices}, {flags})"


def _potrf(p: Printer, upper: Any, n: Any, a: Any, info: Any) -> str:
    name, flag = p.prelude.name("potrf"), bool(upper.data)
    return f"{name}({_matrix(p, a, n, n)}, {flag}, {_place(p, info)})"


def _getrf(p: Printer, m: Any, n: Any, columns: Any, pivots: Any, info: Any) -> str:
    name = p.prelude.name("getrf")
    return f"{name}({_matrix(p, columns, n, m)}, {_place(p, pivots)}, {_place(p, info)})"


_LINES = {"gemm": _gemm, "trsm": _trsm, "potrf": _potrf, "getrf": _getrf}
