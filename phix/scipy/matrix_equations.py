"""Linear equations whose unknown is a matrix between two others, by Schur factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.api.control_flow import fori_loop
from phix.api.implicit import custom_linear_solve
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.expectations import expect_dims
from phix.core.given import NONE, one_of, takes
from phix.core.tensor import Tensor, TensorLike
from phix.linalg.arguments import matrices
from phix.primitives.pointwise import broadcast_shapes
from phix.scipy.matrix_systems import adjoint, of_each, square


def _alike(*given: Any) -> list[Any]:
    """Matrices in the dtype that they have together."""
    dtype = given[0].dtype
    for x in given[1:]:
        dtype = dt.promote(dtype, x.dtype)
    return [ops.cast(x, dtype) for x in given]


def _fitting(name: str, q: Any, rows: Any, columns: Any, what: str) -> Any:
    dims = (*q.meta.dims[:-2], rows, columns)
    text = ", ".join(dm.dim_text(d) for d in dims[-2:])
    refusal = f"{name}: q must be [..., {text}] for {what}, found {q.meta}"
    return expect_dims(q, refusal, dims)


def _with_batch(*given: Any) -> list[Any]:
    """Matrices with the same axes in front."""
    front = broadcast_shapes(*[x.meta.dims[:-2] for x in given])
    return [ops.expand(x, (*front, *x.meta.dims[-2:])) for x in given]


def _solved(apply: Callable[..., Any], columns: Callable[..., Any], *given: Any) -> Any:
    """The x with ``apply(a, b, x) = q``, by ``columns`` of a, b and q; with derivatives."""
    a, b, q = _with_batch(*given)
    if any(map(dm.is_zero, q.meta.dims)):
        return q

    def solve(a: Any, b: Any, q: Any) -> Any:
        dtype = dt.complex_dtype(q.dtype)
        found = of_each(columns, *[ops.cast(x, dtype) for x in (a, b, q)])
        return found if dt.is_complex(q.dtype) else ops.real(found)

    return custom_linear_solve(
        lambda x: apply(a, b, x),
        q,
        lambda _, q: solve(a, b, q),
        lambda _, g: solve(adjoint(a), adjoint(b), g),
    )


def _backward(s: Any, f: Any, column: Callable[[Any, Any, Any], Any]) -> Any:
    """The y of an equation with y s^H in it, s an upper triangle, column after column from the last
    one: ``column(s_kk, y s_k, f_k)`` gives y_k, y s_k without its own part."""
    n = s.shape[0]

    def step(i: Any, y: Any) -> Any:
        k = n - 1 - i
        weights = ops.conj(s[k, :])
        return y.at[:, k].set(column(weights[k], ops.matmul(y, weights), f[:, k]))

    return fori_loop(0, n, step, ops.zeros_like(f))


def _product(*factors: Any) -> Any:
    found = factors[0]
    for x in factors[1:]:
        found = ops.matmul(found, x)
    return found


def _upper(a: Any, b: Any) -> Any:
    return ops.triangular_solve(a, ops.unsqueeze(b, [1]), True, False, False)[:, 0]


def _sylvester(a: Any, b: Any, q: Any) -> Any:
    """Of one matrix: a = U R U^H and b^H = V S V^H, so that R Y + Y S^H = U^H q V."""
    (r, u), (s, v) = ops.schur(a), ops.schur(adjoint(b))
    eye = ops.eye(r.shape[0], r.shape[0], r.dtype)

    def column(own: Any, others: Any, f: Any) -> Any:
        return _upper(r + own * eye, f - others)

    y = _backward(s, _product(adjoint(u), q, v), column)
    return _product(u, y, adjoint(v))


def _stein(a: Any, b: Any, q: Any) -> Any:
    """x - a x b = q, as above: Y - R Y S^H = U^H q V."""
    (r, u), (s, v) = ops.schur(a), ops.schur(adjoint(b))
    eye = ops.eye(r.shape[0], r.shape[0], r.dtype)

    def column(own: Any, others: Any, f: Any) -> Any:
        return _upper(eye - own * r, f + ops.matmul(r, others))

    y = _backward(s, _product(adjoint(u), q, v), column)
    return _product(u, y, adjoint(v))


@takes()
def solve_sylvester(a: TensorLike, b: TensorLike, q: TensorLike) -> Tensor:
    """The X with a X + X b = q.

    By Schur factors of a and b, and from the last column to the first (R. Bartels and G. Stewart,
    "Solution of the matrix equation AX + XB = C", 1972). Derivatives of any order are those of the
    equation: for a cotangent G of X, q gets the Y with a^H Y + Y b^H = G.

    Args:
        a: [..., m, m].
        b: [..., n, n].
        q: [..., m, n]. Axes in front broadcast.

    Returns:
        X [..., m, n], of the dtype that all three have together; inf or NaN where an eigenvalue of
        a is the negative of one of b.

    Raises:
        ShapeError: a or b does not hold square matrices, or q is not [..., m, n].

    >>> import phix
    >>> phix.scipy.linalg.solve_sylvester([[1.0]], [[3.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    left, right, sides = _alike(square(a, "a"), square(b, "b"), matrices(q))
    rows, columns = left.meta.dims[-1], right.meta.dims[-1]
    what = f"a {left.meta} and b {right.meta}"
    sides = _fitting("solve_sylvester", sides, rows, columns, what)
    return _solved(lambda a, b, x: _product(a, x) + _product(x, b), _sylvester, left, right, sides)


@takes()
def solve_continuous_lyapunov(a: TensorLike, q: TensorLike) -> Tensor:
    """The X with a X + X a^H = q: see :func:`solve_sylvester`.

    Args:
        a: [..., n, n].
        q: [..., n, n].

    Returns:
        X [..., n, n]; inf or NaN where the conjugate of an eigenvalue of a is the negative of one.

    Raises:
        ShapeError: a or q does not hold square matrices, or q those of another size.

    >>> import phix
    >>> phix.scipy.linalg.solve_continuous_lyapunov([[2.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    matrix, sides = _alike(square(a, "a"), matrices(q))
    n = matrix.meta.dims[-1]
    sides = _fitting("solve_continuous_lyapunov", sides, n, n, f"a {matrix.meta}")
    return _solved(
        lambda a, b, x: _product(a, x) + _product(x, b), _sylvester, matrix, adjoint(matrix), sides
    )


@takes(method=one_of("direct", "bilinear") | NONE)
def solve_discrete_lyapunov(a: TensorLike, q: TensorLike, method: str | None = None) -> Tensor:
    """The X with X - a X a^H = q, by Schur factors of a, as :func:`solve_sylvester` does it.

    Args:
        a: [..., n, n].
        q: [..., n, n].
        method: without effect; both of SciPy's ways have the same X.

    Returns:
        X [..., n, n]; inf or NaN where the conjugate of an eigenvalue of a is 1 over another one.

    Raises:
        ShapeError: a or q does not hold square matrices, or q those of another size.

    >>> import phix
    >>> phix.scipy.linalg.solve_discrete_lyapunov([[0.5]], [[3.0]]).tolist()
    [[4.0]]
    """
    matrix, sides = _alike(square(a, "a"), matrices(q))
    n = matrix.meta.dims[-1]
    sides = _fitting("solve_discrete_lyapunov", sides, n, n, f"a {matrix.meta}")
    return _solved(lambda a, b, x: x - _product(a, x, b), _stein, matrix, adjoint(matrix), sides)
