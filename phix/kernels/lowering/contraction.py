"""Lowerings of contractions: matmul by a BLAS, or by a generated loop where that is better."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import graph as gr
from phix.core import rewrites
from phix.core.graph import Equation
from phix.core.kernel_registry import provides
from phix.core.meta import MetaTensor
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value, buffer_value, constant
from phix.kernels.loops.nodes import Buffer, Element, LibraryCall, Pointer
from phix.kernels.lowering import thin_products
from phix.kernels.lowering.lower import broadcast_indices
from phix.kernels.lowering.reduction import SUM, as_dtype, converted, parts, whole
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.shape import swapped
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

BLAS_DTYPES = (dt.float32, dt.float64, dt.complex64, dt.complex128)
provides("matmul", "BLAS", BLAS_DTYPES)


_NARROW = (dt.float16, dt.bfloat16)
# Rows of a block of a product, and what may take their place where it divides all rows.
_BLOCKS, _EQUAL_BLOCKS = (48, 24), range(12, 65)


def _rows_of_blocks(rows: dm.DimLike) -> list[int]:
    """Rows that blocks may have, the best first: equal ones, in tiles of 12, 8 or 4 rows."""
    equal = [n for n in _EQUAL_BLOCKS if isinstance(rows, int) and rows % n == 0]
    best = sorted(equal, key=lambda n: (n % 12 == 0, n % 8 == 0, n % 4 == 0, n), reverse=True)
    return [*best, *_BLOCKS]


@dataclass(frozen=True)
class Matrix:
    """Rows of a buffer from ``offset`` on, ``pitch`` elements from one to the next."""

    buffer: Buffer
    offset: Expr
    pitch: Expr
    transposed: bool = False


def multiply(
    b: Builder,
    x: Matrix,
    y: Matrix,
    out: Matrix,
    sizes: tuple[Expr, Expr, Expr],
    accumulate: bool = False,
) -> None:
    """Emit ``out = op(x) @ op(y)``, or ``out += ...``; ``sizes`` are rows, columns, inner."""
    flags = (sc.const(f, dt.int64) for f in (x.transposed, y.transposed, accumulate))
    pitches = (m.pitch for m in (x, y, out))
    pointers = (Pointer(m.buffer, m.offset) for m in (x, y, out))
    name = f"gemm_{out.buffer.dtype}"
    kept = (out.buffer,) if accumulate else ()
    b.emit(LibraryCall(name, (*flags, *sizes, *pitches, *pointers), (out.buffer,), kept))


def _has_one_term(equation: Equation) -> bool:
    """Whether each element of a product is one of ``x`` times one of ``y``: see ``_product``."""
    (x, *_), (transpose_x, *_) = gr.flat(equation.inputs), equation.attrs
    dims, dtype = x.meta.dims, gr.flat(equation.outputs)[0].meta.dtype
    inner = dims[-2 if transpose_x and len(dims) > 1 else -1]
    return dm.is_one(inner) and dtype not in _NARROW and rewrites.is_on("dot_products")


@lowering("matmul", "whole", moves=_has_one_term)
def matmul(
    b: Builder, x: Value, y: Value, transpose_x: bool, transpose_y: bool, *, task: Task
) -> Value:
    meta = task.out
    x, transpose_x = _untransposed(x, transpose_x)
    y, transpose_y = _untransposed(y, transpose_y)
    if _has_one_column(x, y, transpose_x, transpose_y):
        row = b.view(y, (*y.dims[: len(x.dims) - 2], 1, x.dims[-2]))
        flat = MetaTensor((*x.dims[:-2], 1, x.dims[-1]), meta.dtype)
        return b.view(_product(b, row, x, False, False, flat), meta.dims)
    if _multiplies_columns(x, y, transpose_y):
        *lead, size = y.dims[:-1] if not transpose_y else (*y.dims[:-2], y.dims[-1])
        rows = b.view(y, (dm.product(tuple(lead)), size))
        flat = MetaTensor((rows.dims[0], x.dims[-1 if transpose_x else -2]), meta.dtype)
        return b.view(_product(b, rows, x, False, not transpose_x, flat), meta.dims)
    return _product(b, x, y, transpose_x, transpose_y, meta)


def _has_one_column(x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> bool:
    """Whether a transposed matrix meets one column: a row meets the matrix as it lies."""
    if not transpose_x or not rewrites.is_on("thin_products"):
        return False
    if len(y.dims) == 1:
        return len(x.dims) == 2
    same = len(x.dims) == len(y.dims) and dm.same_shape(x.dims[:-2], y.dims[:-2])
    return same and dm.is_one(y.dims[-2 if transpose_y else -1])


def _multiplies_columns(x: Value, y: Value, transpose_y: bool) -> bool:
    """Whether one matrix meets many columns, one a matrix of ``y``: they are rows of another."""
    columns = y.dims[-2 if transpose_y else -1] if len(y.dims) > 2 else 0
    return len(x.dims) == 2 and dm.is_one(columns) and rewrites.is_on("joined_columns")


def _product(
    b: Builder, x: Value, y: Value, transpose_x: bool, transpose_y: bool, meta: MetaTensor
) -> Value:
    product = Product(b, x, y, transpose_x, transpose_y, meta)
    is_narrow = meta.dtype in _NARROW  # a loop would sum in the wider dtype
    if dm.is_one(product.k) and not is_narrow and rewrites.is_on("dot_products"):
        return product.of_one_term()
    in_loops = (product.is_small or product.is_dots) and not is_narrow
    computed = dt.float32 if is_narrow else meta.dtype
    sizes = product.sizes(product.rows)
    stays_narrow = is_narrow and b.target.multiplies_narrow(meta.dtype, sizes)
    thin = None if in_loops or stays_narrow else thin_products.writer(product, computed)
    if thin is not None:
        return converted(b, b.written((MetaTensor(meta.dims, computed),), thin)[0], meta.dtype)
    if meta.dtype in b.target.product_dtypes and not in_loops:
        b.target.foresees(f"gemm_{meta.dtype}", product.sizes(product.block or product.rows))
        return b.written((meta,), product.by_library)[0]
    if stays_narrow:
        b.target.foresees(f"gemm_{meta.dtype}", sizes)
        return b.written((meta,), product.by_library)[0]
    if is_narrow:
        wide = MetaTensor(meta.dims, dt.float32)
        (stored,) = b.written((wide,), product.by_library)
        return converted(b, stored, meta.dtype)
    in_rows = b.target.sums_in_memory and not (product.is_small or product.is_dots)
    return b.written((meta,), product.by_rows if in_rows else product.by_loops)[0]


def _untransposed(x: Value, transpose: bool) -> tuple[Value, bool]:
    """The operand under a transpose of its last two axes: the product takes it as a flag."""
    is_on = rewrites.is_on("transposed_operands")
    if not is_on or x.swapped is None or x.buffer is not None or len(x.dims) < 2:
        return x, transpose
    return x.swapped, not transpose


class Product:
    """One matmul with its operands seen as stacks of matrices."""

    def __init__(
        self, b: Builder, x: Value, y: Value, transpose_x: bool, transpose_y: bool, meta: Any
    ) -> None:
        self.b, self.x, self.y, self.meta = b, x, y, meta
        xd = (1, *x.dims) if len(x.dims) == 1 else x.dims
        yd = (*y.dims, 1) if len(y.dims) == 1 else y.dims
        self.xd, self.yd = xd, yd
        self.transpose_x = transpose_x and len(x.dims) > 1
        self.transpose_y = transpose_y and len(y.dims) > 1
        self.m, self.k = (xd[-1], xd[-2]) if self.transpose_x else (xd[-2], xd[-1])
        self.n = yd[-2] if self.transpose_y else yd[-1]
        self.batch = meta.dims[: len(meta.dims) - (len(x.dims) > 1) - (len(y.dims) > 1)]

    def sizes(self, rows: dm.DimLike) -> tuple[int | None, ...]:
        """Rows, columns and terms of a product of so many rows; None where they are not known."""
        return tuple(d if isinstance(d, int) else None for d in (rows, self.n, self.k))

    @property
    def block(self) -> int | None:
        """Rows of the products that are made one after the other, where code of its own is written
        for so many and not for all; None: all at once."""
        rows = self.rows

        def is_direct(some: dm.DimLike) -> bool:
            return self.b.target.is_direct(f"gemm_{self.meta.dtype}", self.sizes(some))

        if self.transpose_x or is_direct(rows):
            return None
        return next(filter(is_direct, _rows_of_blocks(rows)), None)

    @property
    def rows(self) -> dm.DimLike:
        """Rows of a matrix of the batch, with all that meet one right operand together."""
        return self.stacked()[1]

    def stacked(self) -> tuple[dm.Shape, dm.DimLike, dm.Shape]:
        """The batch, the rows of a matrix of it, and the dims of the left operand: all rows that
        meet one right operand are rows of one matrix."""
        if len(self.yd) > 2 or self.transpose_x or not self.batch:
            return self.batch, self.m, self.xd
        rows = dm.product((*self.batch, self.m))
        return (), rows, (rows, self.k)

    @property
    def is_small(self) -> bool:
        sizes = tuple(d if isinstance(d, int) else None for d in (self.m, self.n, self.k))
        return self.b.target.multiplies_in_loops(sizes) and rewrites.is_on("small_products")

    @property
    def is_dots(self) -> bool:
        """Whether each result is a sum along memory: a loop reads once, and at once goes on with
        what it found."""
        columns = dm.is_one(self.n) and not self.transpose_x
        rows = dm.is_one(self.rows) and self.transpose_y
        is_own = self.meta.dtype in self.b.target.own_products
        return (columns or rows) and is_own and rewrites.is_on("dot_products")

    def stack_index(self, dims: dm.Shape, batch: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The batch indices of an operand, broadcast."""
        return broadcast_indices(self.b, dims[:-2], self.batch[: len(batch)], batch)

    def of_one_term(self) -> Value:
        """Computed where it is read: an element is one of ``x`` times one of ``y``."""
        dtype, has_rows, has_columns = self.meta.dtype, len(self.x.dims) > 1, len(self.y.dims) > 1

        def at(idx: tuple[Expr, ...]) -> Element:
            batch, matrix = idx[: len(self.batch)], idx[len(self.batch) :]
            i = matrix[0] if has_rows else ZERO
            j = matrix[-1] if has_columns else ZERO
            term = self._left(batch, i, ZERO, dtype) * self._right(batch, ZERO, j, dtype)
            return SUM.combine(constant(0, dtype), term)

        return Value(self.meta.dims, dtype, at, cost=self.x.cost + self.y.cost + 2)

    def by_library(self, out: Buffer) -> None:
        """One gemm for each matrix of the batch; a shared right operand makes it one gemm."""
        b = self.b
        dtype = out.dtype
        batch, m, xd = self.stacked()
        block = self.block
        if block and self.transpose_y:
            self._put_in_order()
        left, right = (self._operand(v, dtype) for v in (self.x, self.y))
        every, columns, inner = (b.dim(d) for d in (m, self.n, self.k))
        is_own = dtype in (*b.target.own_products, *_NARROW) and rewrites.is_on("own_products")
        kind = "independent" if is_own else "parallel"
        with b.kernel(), b.loops(batch, kind) as indices, self._rows(m, block) as (first, rows):
            x_at = b.linear((*self.stack_index(xd, indices), first, ZERO), xd)
            y_at = b.linear((*self.stack_index(self.yd, indices), ZERO, ZERO), self.yd)
            at = b.linear((*indices, first, ZERO), (*batch, m, self.n))
            multiply(
                b, Matrix(left, x_at, every if self.transpose_x else inner, self.transpose_x),
                Matrix(right, y_at, inner if self.transpose_y else columns, self.transpose_y),
                Matrix(out, at, columns), (rows, columns, inner),
            )  # fmt: skip

    @contextmanager
    def _rows(self, rows: dm.DimLike, block: int | None) -> Iterator[tuple[Expr, Expr]]:
        """A loop over blocks of rows: the first row of one, and how many there are."""
        b, every = self.b, self.b.dim(rows)
        if block is None:
            yield ZERO, every
            return
        some = sc.const(block, dt.int64)
        count = sc.binary("quotient", every + (block - 1), some)
        if isinstance(rows, int):
            count = sc.const(-(-rows // block), dt.int64)
        with b.loop(count, "independent") as number:
            first = number * some
            is_whole = isinstance(rows, int) and rows % block == 0
            yield first, some if is_whole else sc.binary("minimum", every - first, some)

    def _put_in_order(self) -> None:
        """Read the right operand, if it is transposed, as it lies when it is not."""
        turned = swapped(self.b, self.y)  # its buffer may have the dims of what was reshaped
        self.y = self.b.view(buffer_value(self.b.contiguous(turned)), turned.dims)
        self.yd, self.transpose_y = self.y.dims, False

    def _operand(self, v: Value, dtype: Any) -> Buffer:
        """A contiguous buffer of the dtype computed in."""
        return self.b.contiguous(converted(self.b, v, dtype))

    def by_loops(self, out: Buffer) -> None:
        """Loops over batch, row and column around one over the contracted dim."""
        b = self.b
        with b.kernel(), b.loops((*self.batch, self.m, self.n)) as indices:
            *batch, i, j = indices
            targets = b.mutable(*parts(constant(0, out.dtype)))
            with b.loops((self.k,), "reduction") as (k,):
                term = self._left(batch, i, k, out.dtype) * self._right(batch, k, j, out.dtype)
                b.emit(ir.Assign(targets, parts(SUM.combine(whole(targets), term)), True))
            at = b.linear(indices, (*self.batch, self.m, self.n))
            b.emit(*ir.stores(out, (at,), whole(targets)))

    def by_rows(self, out: Buffer) -> None:
        """Rows of the result, to which rows of the right operand are added, as they lie."""
        b, dims = self.b, (*self.batch, self.m, self.n)
        if self.transpose_y:
            self._put_in_order()
        with b.kernel(), b.loops((*self.batch, self.m)) as indices:
            *batch, i = indices
            with b.loops((self.n,)) as (j,):
                at = b.linear((*indices, j), dims)
                b.emit(*ir.stores(out, (at,), constant(0, out.dtype)))
            with b.loops((self.k,), "reduction") as (k,):
                left = self._left(batch, i, k, out.dtype)
                with b.loops((self.n,)) as (j,):
                    at = b.linear((*indices, j), dims)
                    term = left * self._right(batch, k, j, out.dtype)
                    b.put(out, at, SUM.combine(ir.load(out, (at,)), term))

    def _left(self, batch: Any, i: Expr, k: Expr, dtype: Any) -> Any:
        at = (k, i) if self.transpose_x else (i, k)
        return as_dtype(self._read(self.x, self.xd, batch, at), dtype)

    def _right(self, batch: Any, k: Expr, j: Expr, dtype: Any) -> Any:
        at = (j, k) if self.transpose_y else (k, j)
        return as_dtype(self._read(self.y, self.yd, batch, at), dtype)

    def _read(self, v: Value, dims: dm.Shape, batch: Any, matrix: tuple[Expr, Expr]) -> Element:
        index = (*self.stack_index(dims, tuple(batch)), *matrix)
        if len(v.dims) == 1:
            index = (matrix[1],) if v is self.x and dm.is_one(dims[0]) else (matrix[0],)
        return self.b.element(v, index)
