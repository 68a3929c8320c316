"""Linear algebra: factorisations, linear systems, determinants. A matrix is the last two axes."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError, UnknownDimError
from phix.core.meta import MetaTensor
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.pointwise import broadcast_shapes, conj


# -- shapes and transposes -----------------------------------------------------------------------
def check_square(x: Any, what: str = "x") -> None:
    """Raise ShapeError unless the last two dims may be equal; ``x`` is a tensor or a meta."""
    check_matrix(x, what)
    rows, columns = x.meta.dims[-2:]
    if not dm.may_equal(rows, columns):
        raise ShapeError(f"{what} must hold square matrices, found {x.meta}")


def check_matrix(x: Any, what: str = "x") -> None:
    if x.ndim < 2:
        raise ShapeError(f"{what} must have 2 axes or more, found {x.meta}; reshape it")


def transposed(x: Any) -> Any:
    """The last two axes exchanged."""
    return ops.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def adjoint(x: Any) -> Any:
    return conj(transposed(x))


def identity(size: dm.DimLike, dtype: Any) -> Any:
    return ops.eye(size, size, dtype)


def half_lower(x: Any) -> Any:
    """The lower triangle with half the diagonal: of a Hermitian x = half + half^H, the half."""
    return 0.5 * (ops.tril(x) + ops.tril(x, -1))


def from_right(a: Any, b: Any, upper: bool, transpose: bool, unitriangular: bool = False) -> Any:
    """The z with z op(a) = b, a triangular."""
    found = ops.triangular_solve(a, transposed(b), upper, not transpose, unitriangular)
    return transposed(found)


def _lined_up(batched: Any, tensors: Any, ranks: Any) -> list[Any]:
    """Batched tensors with ones behind their batch dim, so that the axes in front of ``ranks``
    broadcast as they did without it."""
    extra = [t.ndim - b - r for t, b, r in zip(tensors, batched, ranks)]
    found = []
    for t, is_batched, own in zip(tensors, batched, extra):
        missing = max(extra) - own
        if is_batched and missing:
            size, *rest = t.meta.dims
            t = ops.reshape(t, (size, *(1,) * missing, *rest))
        found.append(t)
    return found


def _of_dims(sides: MetaTensor, matrix: MetaTensor, what: str) -> dm.Shape:
    """The dims of the solution of systems with these matrices and right-hand sides."""
    if sides.ndim < 2:
        raise ShapeError(
            f"{what} must hold matrices of right-hand sides, [..., n, k], found {sides}; "
            "give a vector a last axis of 1, or use solve"
        )
    if not dm.may_equal(sides.dims[-2], matrix.dims[-1]):
        raise ShapeError(f"{what} must have as many rows as the matrix, found {sides} and {matrix}")
    lead = broadcast_shapes(sides.dims[:-2], matrix.dims[:-2])
    return (*lead, *sides.dims[-2:])


# -- cholesky ------------------------------------------------------------------------------------
@rules.infer_meta("CholeskyInferMeta")
def cholesky_meta(x: MetaTensor, upper: bool) -> MetaTensor:
    check_square(x)
    return x


@rules.decompose("cholesky_grad")
def cholesky_grad(out: Any, out_grad: Any, upper: bool) -> Any:
    """L^-H (S + S^H) L^-1 / 2 with S the lower half of L^H times the cotangent of L."""
    factor, grad = (adjoint(out), adjoint(out_grad)) if upper else (out, out_grad)
    half = half_lower(ops.matmul(conj(factor), grad, True, False))
    left = ops.triangular_solve(conj(factor), 0.5 * (half + adjoint(half)), False, True, False)
    return from_right(factor, left, False, False)


@rules.batch("cholesky")
def cholesky_batch(batched: Any, x: Any, upper: bool) -> Any:
    return ops.cholesky(x, upper)


@rules.decompose("cholesky_solve")
def cholesky_solve(x: Any, y: Any, upper: bool) -> Any:
    check_square(y, "y")
    if upper:
        return ops.triangular_solve(y, ops.triangular_solve(conj(y), x, True, True), True)
    return ops.triangular_solve(conj(y), ops.triangular_solve(y, x, False), False, True)


# -- triangular_solve ----------------------------------------------------------------------------
@rules.infer_meta("TriangularSolveInferMeta")
def triangular_solve_meta(
    x: MetaTensor, y: MetaTensor, upper: bool, transpose: bool, unitriangular: bool
) -> MetaTensor:
    check_square(x)
    return MetaTensor(_of_dims(y, x, "y"), y.dtype)


def triangle(x: Any, upper: bool, unitriangular: bool) -> Any:
    """The part of x that ``triangular_solve`` depends on."""
    return ops.triu(x, int(unitriangular)) if upper else ops.tril(x, -int(unitriangular))


@rules.decompose("triangular_solve_grad")
def triangular_solve_grad(
    x: Any, y: Any, out: Any, out_grad: Any, upper: bool, transpose: bool, unitriangular: bool
) -> Any:
    """y gets w = op(A)^-H times the cotangent, and op(A) gets -w z^H."""
    to_y = ops.triangular_solve(conj(x), out_grad, upper, not transpose, unitriangular)
    if transpose:
        to_x = -ops.matmul(conj(out), to_y, False, True)
    else:
        to_x = -ops.matmul(to_y, conj(out), False, True)
    return triangle(unbroadcast(to_x, x), upper, unitriangular), unbroadcast(to_y, y)


@rules.jvp("triangular_solve")
def triangular_solve_jvp(
    primals: Any, tangents: Any, upper: bool, transpose: bool, unitriangular: bool
) -> Any:
    """A z = y: A dz = dy - dA z."""
    x, y = primals
    dx, dy = tangents
    out = ops.triangular_solve(x, y, upper, transpose, unitriangular)
    if dx is not None:
        moved = ops.matmul(triangle(dx, upper, unitriangular), out, transpose, False)
        dy = -moved if dy is None else dy - moved
    return out, ops.triangular_solve(x, dy, upper, transpose, unitriangular)


@rules.batch("triangular_solve")
def triangular_solve_batch(batched: Any, x: Any, y: Any, *attrs: bool) -> Any:
    return ops.triangular_solve(*_lined_up(batched, (x, y), (2, 2)), *attrs)


# -- lu ------------------------------------------------------------------------------------------
@rules.infer_meta("LUInferMeta")
def lu_meta(x: MetaTensor, pivot: bool) -> tuple[MetaTensor, MetaTensor, MetaTensor]:
    check_matrix(x)
    *lead, rows, columns = x.dims
    steps = dm.minimum(rows, columns)
    return x, MetaTensor((*lead, steps), dt.int32), MetaTensor(tuple(lead), dt.int32)


@rules.decompose("lu_grad")
def lu_grad(x: Any, out: Any, pivots: Any, out_grad: Any, pivot: bool) -> Any:
    """With A = P [L1; L2] [U1, U2], L1 and U1 square, and cotangents K of L and V of U:

    tall: of L1 U1: L1^-H (low(L1^H K1) + up(V U1^H - L2^H K2)) U1^-H, below: K2 U1^-H;
    wide: of L1 U1: L1^-H (low(L1^H K - V2 U2^H) + up(V1 U1^H)) U1^-H, beside: L1^-H V2;
    low is the triangle below the diagonal, up the one that begins at it; P goes in front.
    """
    rows, columns = x.meta.dims[-2:]
    # of the shapes m >= n (or unknown: then both differences are padding of unknown size)
    size = dm.minimum(rows, columns)
    first, below, beside = _blocks(out, rows, columns, size)
    grad, grad_below, grad_beside = _blocks(out_grad, rows, columns, size)
    to_lower = _unit_lower_product(first, grad)
    to_upper = ops.matmul(ops.triu(grad), ops.triu(conj(first)), False, True)
    if below is not None:
        to_upper = to_upper - ops.matmul(conj(below), grad_below, True, False)
    if beside is not None:
        to_lower = to_lower - ops.matmul(grad_beside, conj(beside), False, True)
    inner = ops.tril(to_lower, -1) + ops.triu(to_upper)
    left = ops.triangular_solve(conj(first), inner, False, True, True)
    found = from_right(conj(first), left, True, True)
    if beside is not None:
        more = ops.triangular_solve(conj(first), grad_beside, False, True, True)
        found = ops.concat([found, more], -1)
    if below is not None:
        under = from_right(conj(first), grad_below, True, True)
        if beside is not None:  # of unknown sizes, of which one is 0
            under = ops.pad(under, [0] * (2 * under.meta.ndim - 1) + [columns - size])
        found = ops.concat([found, under], -2)
    return ops.matmul(permutation_matrix(out, pivots), found) if pivot else found


def _unit_lower_product(factors: Any, grad: Any) -> Any:
    """L^H K for the L with unit diagonal that lies below the diagonal of ``factors``."""
    below = ops.tril(grad, -1)
    return below + ops.matmul(ops.tril(conj(factors), -1), below, True, False)


def _blocks(x: Any, rows: Any, columns: Any, size: Any) -> tuple[Any, Any, Any]:
    """The square part of x, what is below it, and what is beside it; None where it is all."""
    below = None if dm.same(rows, size) else x[..., size:, :]
    beside = None if dm.same(columns, size) else x[..., :, size:]
    if below is None and beside is None:
        return x, None, None
    if dm.is_known(rows, columns):
        return x[..., :size, :size], below, beside
    return x[..., :size, :size], x[..., size:, :size], x[..., :size, size:]


@rules.batch("lu")
def lu_batch(batched: Any, x: Any, pivot: bool) -> Any:
    return ops.lu(x, pivot)


# -- lu_permutation, lu_unpack -------------------------------------------------------------------
@rules.infer_meta("LUPermutationInferMeta")
def lu_permutation_meta(x: MetaTensor, pivots: MetaTensor) -> MetaTensor:
    _check_pivots(x, pivots)
    return MetaTensor((*pivots.dims[:-1], x.dims[-2]), dt.int64)


def _check_pivots(x: Any, pivots: Any, what: str = "x") -> None:
    check_matrix(x, what)
    steps = dm.minimum(*x.meta.dims[-2:])
    if dt.kind(pivots.dtype) != "int" or not pivots.ndim:
        raise ShapeError(
            f"pivots are the ints that lu gives, [..., min(m, n)], found {pivots.meta}"
        )
    if not dm.may_equal(pivots.meta.dims[-1], steps):
        raise ShapeError(
            f"{what} and pivots must be of one factorisation, found {x.meta} and {pivots.meta}"
        )


@rules.batch("lu_permutation")
def lu_permutation_batch(batched: Any, x: Any, pivots: Any) -> Any:
    if not batched[1]:
        pivots = ops.expand(pivots, (x.meta.dims[0], *pivots.meta.dims))
    return ops.lu_permutation(x, pivots)


def permutation_matrix(x: Any, pivots: Any) -> Any:
    """The P of P L U, of the dtype of the factors x."""
    order = ops.lu_permutation(x, pivots)
    *lead, rows = order.meta.dims
    numbers = ops.reshape(ops.arange(0, rows, 1, dt.int64), (rows, 1))
    return ops.cast(ops.reshape(order, (*lead, 1, rows)) == numbers, x.dtype)


@rules.decompose("lu_unpack")
def lu_unpack(x: Any, y: Any, unpack_ludata: bool, unpack_pivots: bool) -> Any:
    _check_pivots(x, y)
    nothing = ops.full((0,), 0, x.dtype)
    pmat = permutation_matrix(x, y) if unpack_pivots else nothing
    if not unpack_ludata:
        return pmat, nothing, nothing
    rows, columns = x.meta.dims[-2:]
    size = dm.minimum(rows, columns)
    lower = ops.tril(x if dm.same(columns, size) else x[..., :, :size], -1)
    upper = ops.triu(x if dm.same(rows, size) else x[..., :size, :])
    return pmat, lower + ops.eye(rows, size, x.dtype), upper


# -- lu_solve ------------------------------------------------------------------------------------
@rules.normalize("lu_solve")
def lu_solve_attrs(b: MetaTensor, lu: MetaTensor, pivots: MetaTensor, trans: str) -> tuple[str]:
    if trans not in ("N", "T", "C"):
        raise AttributeValueError(f"trans must be 'N', 'T' or 'C', found {trans!r}")
    return ("T" if trans == "C" and not dt.is_complex(lu.dtype) else trans,)


@rules.infer_meta("LUSolveInferMeta")
def lu_solve_meta(b: MetaTensor, lu: MetaTensor, pivots: MetaTensor, trans: str) -> MetaTensor:
    check_square(lu, "lu")
    _check_pivots(lu, pivots, "lu")
    lead = broadcast_shapes(lu.dims[:-2], pivots.dims[:-1])
    dims = _of_dims(b, MetaTensor((*lead, *lu.dims[-2:]), lu.dtype), "b")
    return MetaTensor(dims, b.dtype)


@rules.decompose("lu_solve_grad")
def lu_solve_grad(b: Any, lu: Any, pivots: Any, out: Any, out_grad: Any, trans: str) -> Any:
    """b gets w = op(A)^-H times the cotangent, op(A) gets -w z^H; A = P L U hands it on."""
    if trans == "T":
        to_b = conj(ops.lu_solve(conj(out_grad), lu, pivots, "N"))
        to_a = -ops.matmul(conj(out), to_b, False, True)
    elif trans == "C":
        to_b = ops.lu_solve(out_grad, lu, pivots, "N")
        to_a = -ops.matmul(out, conj(to_b), False, True)
    else:
        to_b = ops.lu_solve(out_grad, lu, pivots, "C")
        to_a = -ops.matmul(to_b, conj(out), False, True)
    _, lower, upper = ops.lu_unpack(lu, pivots, True, False)
    permuted = ops.matmul(permutation_matrix(lu, pivots), to_a, True, False)
    to_lower = ops.tril(ops.matmul(permuted, conj(upper), False, True), -1)
    to_upper = ops.triu(ops.matmul(conj(lower), permuted, True, False))
    return unbroadcast(to_b, b), unbroadcast(to_lower + to_upper, lu)


@rules.batch("lu_solve")
def lu_solve_batch(batched: Any, b: Any, lu: Any, pivots: Any, trans: str) -> Any:
    b, lu, pivots = _lined_up(batched, (b, lu, pivots), (2, 2, 1))
    return ops.lu_solve(b, lu, pivots, trans)


# -- solve, inverse ------------------------------------------------------------------------------
def are_vectors(x: Any, y: Any) -> bool:
    """Whether the right-hand sides are vectors, one for all matrices or one for each of them.

    Raises:
        UnknownDimError: that hangs on the values of unknown dims.
    """
    dims, lead = y.meta.dims, x.meta.dims[:-1]
    if len(dims) == 1 or dm.same_shape(dims, lead):
        return True
    if len(dims) != len(lead) or not all(map(dm.may_equal, dims, lead)):
        return False
    if not dm.may_equal(dims[-2], lead[-1]):
        return True  # no matrices with as many rows: a run looks whether there are as many vectors
    raise UnknownDimError(
        f"y {y.meta} may be a vector for each of x {x.meta}, or matrices for all of it: that hangs "
        "on unknown dims; name those alike that are equal, or write ops.unsqueeze(y, [-1]) for "
        "vectors, which come out as columns, and ops.unsqueeze(y, [0]) for matrices"
    )


def as_column(x: Any) -> Any:
    """Vectors as matrices of one column."""
    return ops.reshape(x, (*x.meta.dims, 1))


def _from_column(x: Any) -> Any:
    return ops.reshape(x, x.meta.dims[:-1])


@rules.decompose("solve")
def solve(x: Any, y: Any, transpose: bool) -> Any:
    check_square(x)
    factors, pivots, _ = ops.lu(x)
    return solved(factors, pivots, y, transpose, are_vectors(x, y))


def solved(factors: Any, pivots: Any, y: Any, transpose: bool, is_vector: bool) -> Any:
    """The solution for y, vectors or matrices, from the factors of the matrix."""
    trans = "T" if transpose else "N"
    if not is_vector:
        return ops.lu_solve(y, factors, pivots, trans)
    return _from_column(ops.lu_solve(as_column(y), factors, pivots, trans))


def _outer(a: Any, b: Any, as_vectors: bool) -> Any:
    """a b^T, summed over the columns of matrices."""
    if as_vectors:
        a, b = as_column(a), as_column(b)
    return ops.matmul(a, b, False, True)


@rules.decompose("solve_grad")
def solve_grad(x: Any, y: Any, out: Any, out_grad: Any, transpose: bool) -> Any:
    """y gets w = op(x)^-H times the cotangent, and op(x) gets -w z^H.

    In one program with the forward op, x is factored once: the factorisation is the same.
    """
    is_vector = are_vectors(x, y)
    out_grad = as_column(out_grad) if is_vector else out_grad
    to_y = conj(ops.solve(x, conj(out_grad), not transpose))
    to_y = _from_column(to_y) if is_vector else to_y
    if transpose:
        to_x = -_outer(conj(out), to_y, is_vector)
    else:
        to_x = -_outer(to_y, conj(out), is_vector)
    return unbroadcast(to_x, x), unbroadcast(to_y, y)


@rules.jvp("solve")
def solve_jvp(primals: Any, tangents: Any, transpose: bool) -> Any:
    """x z = y: x dz = dy - dx z."""
    x, y = primals
    dx, dy = tangents
    out = ops.solve(x, y, transpose)
    if dx is None:
        return out, ops.solve(x, dy, transpose)
    is_vector = are_vectors(x, y)
    rate = -ops.matmul(dx, as_column(out) if is_vector else out, transpose, False)
    if dy is not None:
        rate = rate + (as_column(dy) if is_vector else dy)
    found = ops.solve(x, rate, transpose)
    return out, _from_column(found) if is_vector else found


def identity_for(x: Any) -> Any:
    """The identity of as many axes, which is no batch of vectors beside ``x``."""
    n = x.meta.dims[-1]
    return ops.reshape(identity(n, x.dtype), (*(1,) * (x.ndim - 2), n, n))


@rules.decompose("inverse")
def inverse(x: Any) -> Any:
    check_square(x)
    return ops.solve(x, identity_for(x))


@rules.decompose("inverse_grad")
def inverse_grad(out: Any, out_grad: Any) -> Any:
    """-out^H g out^H."""
    return -ops.matmul(ops.matmul(conj(out), out_grad, True, False), conj(out), False, True)


# -- matrix_power --------------------------------------------------------------------------------
@rules.decompose("matrix_power")
def matrix_power(x: Any, n: int) -> Any:
    check_square(x)
    if n == 0:
        return ops.expand(identity(x.meta.dims[-1], x.dtype), x.meta.dims)
    base = ops.inverse(x) if n < 0 else x
    found, left = None, abs(n)
    while left:
        if left & 1:
            found = base if found is None else ops.matmul(found, base)
        left >>= 1
        base = ops.matmul(base, base) if left else base
    return found
