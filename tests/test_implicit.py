"""Solutions with the derivatives of their equations: custom_linear_solve, custom_root, and the
solvers of phix.scipy.sparse.linalg, beside direct solution and NumPy's."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import phix
from phix import ops
from phix.api import implicit
from phix.core.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from phix.scipy.sparse import linalg

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(11)
N = 6
_ROOT = RNG.standard_normal((N, N))
GENERAL = _ROOT + 4.0 * np.eye(N)
POSITIVE = _ROOT @ _ROOT.T / N + np.eye(N)
B = RNG.standard_normal(N)
METHODS = {"cg": POSITIVE, "bicgstab": GENERAL, "gmres": GENERAL}
each_method = pytest.mark.parametrize("method", METHODS)


def dense_solve(matvec: Callable[[Any], Any], b: Any) -> Any:
    """By the matrix that ``matvec`` is."""
    return ops.solve(phix.vmap(matvec, out_axes=1)(phix.eye(b.shape[0], dtype=b.dtype)), b)


def through(A: Any, b: Any) -> Any:
    return ops.sin(phix.custom_linear_solve(lambda x: A @ x, b, dense_solve, dense_solve)).sum()


def direct(A: Any, b: Any) -> Any:
    return ops.sin(ops.solve(A, b)).sum()


def tight(method: str) -> Callable[..., Any]:
    return lambda A, b, **options: getattr(linalg, method)(A, b, tol=1e-13, **options)


STACKS: dict[str, Callable[[Callable[..., Any], int], Callable[..., Any]]] = {
    "grad": phix.grad,
    "forward": phix.jacfwd,
    "hessian": phix.hessian,
    "reverse twice": lambda f, n: phix.jacrev(phix.jacrev(f, n), n),
    "forward twice": lambda f, n: phix.jacfwd(phix.jacfwd(f, n), n),
    "compiled": lambda f, n: phix.jit(phix.hessian(f, n)),
    "lanes": lambda f, n: lambda A, b: phix.vmap(phix.grad(f, n), (None, 0))(
        A, ops.stack([b, 2.0 * b])
    ),
}  # fmt: skip


# -- the two --------------------------------------------------------------------------------------
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("argument", [0, 1])
def test_a_linear_solve_has_the_derivatives_of_a_direct_one(stack: str, argument: int) -> None:
    A, b = phix.to_tensor(GENERAL[:3, :3]), phix.to_tensor(B[:3])
    made = STACKS[stack]
    found = made(through, argument)(A, b)
    np.testing.assert_allclose(found, made(direct, argument)(A, b), 1e-11, 1e-12)


@pytest.mark.parametrize("argument", [0, 1])
def test_gradients_of_complex_systems(argument: int) -> None:
    A = phix.to_tensor(GENERAL[:3, :3]) + 1j * phix.to_tensor(_ROOT[3:, 3:])
    b = phix.to_tensor(B[:3]) * (1.0 + 2.0j)
    own, wanted = (
        phix.grad(lambda A, b, f=f: ops.abs(f(A, b)), argument)(A, b) for f in (through, direct)
    )
    np.testing.assert_allclose(own, wanted, 1e-11, 1e-12)


def newton(f: Callable[[Any], Any], x: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        return x - ops.solve(phix.jacfwd(f)(x), f(x))

    return phix.fori_loop(0, 12, step, x)


def test_a_root_has_the_derivatives_of_its_equation() -> None:
    """Of x + exp(x) a = b, one at a time, beside the closed form by Lambert's equation."""

    def root(a: Any, b: Any) -> Any:
        return phix.custom_root(
            lambda x: x + a * ops.exp(x) - b, ops.zeros_like(b), newton, dense_solve
        )

    a, b = phix.to_tensor([0.5, 2.0, 1.0], "float64"), phix.to_tensor([1.0, 0.3, -2.0], "float64")
    x = root(a, b).numpy()
    np.testing.assert_allclose(x + a.numpy() * np.exp(x), b.numpy(), atol=1e-13)
    slope = 1.0 / (1.0 + a.numpy() * np.exp(x))  # dx / db
    second = -a.numpy() * np.exp(x) * slope**3
    for wrap in (lambda f: f, phix.jit):
        total = lambda a, b: root(a, b).sum()  # noqa: E731
        np.testing.assert_allclose(wrap(phix.grad(total, 1))(a, b), slope, 1e-12)
        np.testing.assert_allclose(wrap(phix.grad(total))(a, b), -np.exp(x) * slope, 1e-12)
        for nest in (phix.hessian, lambda f, n: phix.jacfwd(phix.jacfwd(f, n), n)):
            np.testing.assert_allclose(wrap(nest(total, 1))(a, b), np.diag(second), 1e-11, 1e-12)


def test_what_a_solver_closes_over_and_the_guess_have_no_derivative() -> None:
    b = phix.to_tensor(B)

    def started(scale: Any) -> Any:
        def solve(matvec: Any, b: Any) -> Any:
            return dense_solve(matvec, b) + 0.0 * scale

        return phix.custom_linear_solve(lambda x: 2.0 * x, b, solve, symmetric=True).sum()

    guess = lambda g: phix.custom_root(  # noqa: E731
        lambda x: x - 3.0, g, lambda f, x: x - f(x), lambda g, y: y
    )
    assert phix.grad(started)(1.5).item() == 0.0 and phix.grad(guess)(1.0).item() == 0.0
    assert phix.jit(phix.grad(started))(1.5).item() == 0.0


def test_trees_auxiliary_values_and_ints_beside() -> None:
    b = {"u": phix.to_tensor(B), "v": (phix.to_tensor(B[:2]),)}
    order = phix.to_tensor([1, 0, 3, 2, 5, 4])

    def f(scale: Any) -> Any:
        def matvec(x: Any) -> Any:
            return {"u": scale * x["u"][order], "v": (x["v"][0] * 3.0,)}

        def solve(matvec: Any, b: Any) -> Any:
            return {"u": b["u"][order] / scale, "v": (b["v"][0] / 3.0,)}, ops.full((), 7, "int32")

        x, aux = phix.custom_linear_solve(matvec, b, solve, symmetric=True, has_aux=True)
        assert aux.dtype == "int32"
        return (x["u"] * np.arange(6.0)).sum() + x["v"][0].sum()

    wanted = -(B[order.numpy()] * np.arange(6.0)).sum() / 4.0
    assert phix.grad(f)(phix.to_tensor(2.0, "float64")).item() == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda b: phix.custom_linear_solve(lambda x: x[:2], b, dense_solve), ShapeError,
         "matvec must give float64"),
        (lambda b: phix.custom_linear_solve(lambda x: x.astype("float32"), b, dense_solve),
         DTypeError, "matvec must give float64"),
        (lambda b: phix.custom_linear_solve(lambda x: (x, x), b, dense_solve), ArgumentError,
         "matvec must give a tree"),
        (lambda b: phix.custom_linear_solve(lambda x: x, b, lambda f, b: b[:1]), ShapeError,
         "solve must give float64"),
        (lambda b: phix.custom_linear_solve(lambda x: x, b, lambda f, b: b, has_aux=True),
         ArgumentError, r"solve must return \(x, aux\)"),
        (lambda b: phix.custom_linear_solve(lambda x: x, b.astype("int64"), dense_solve),
         DTypeError, "solves for floats"),
        (phix.grad(lambda b: phix.custom_linear_solve(lambda x: x, b, lambda f, b: b).sum()),
         DifferentiationError, "give transpose_solve"),
        (lambda b: phix.custom_root(lambda x: x.sum(), b, newton, dense_solve), ShapeError,
         "f must give float64"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run(phix.to_tensor(B))


# -- solvers --------------------------------------------------------------------------------------
@each_method
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_solvers_find_the_solution(method: str, dtype: str) -> None:
    A, b = METHODS[method].astype(dtype), B.astype(dtype)
    if dtype == "complex128":
        A, b = A + 0.2j * (_ROOT - _ROOT.T), b * (1.0 + 2.0j)
    tol, rtol = (1e-6, 2e-5) if dtype == "float32" else (1e-13, 1e-11)
    solve = getattr(linalg, method)
    wanted = np.linalg.solve(A, b)
    diagonal = np.diag(A)
    options = ({}, {"x0": wanted * 0.9}, {"M": lambda v: v / diagonal}, {"M": np.linalg.inv(A)})
    for option in options:
        x, info = solve(A, b, tol=tol, **option)
        assert info.item() == 0 and x.dtype == dtype
        np.testing.assert_allclose(x, wanted, rtol, rtol)
    x, info = phix.vmap(lambda b: solve(A, b, tol=tol))(np.stack([b, 0.0 * b, 3.0 * b]))
    np.testing.assert_allclose(x, [wanted, 0.0 * b, 3.0 * wanted], rtol, rtol)
    assert info.tolist() == [0, 0, 0]


@each_method
@pytest.mark.parametrize("argument", [0, 1])
def test_solvers_have_the_derivatives_of_the_solution(method: str, argument: int) -> None:
    solve, A, b = tight(method), phix.to_tensor(METHODS[method]), phix.to_tensor(B)
    inverse = np.linalg.inv(METHODS[method]) + 0.01 * _ROOT  # of no symmetry
    ways: list[dict[str, Any]] = [{}, {"M": lambda x: x * 0.5}]
    for option in [*ways, {"M": inverse}][: 2 if method == "cg" else 3]:
        f = lambda A, b: ops.sin(solve(A, b, **option)[0]).sum()  # noqa: B023, E731
        wanted = phix.grad(direct, argument)(A, b)
        np.testing.assert_allclose(phix.jit(phix.grad(f, argument))(A, b), wanted, 1e-9, 1e-10)
    f = lambda A, b: ops.sin(solve(A, b)[0]).sum()  # noqa: E731
    second = phix.jit(phix.jvp, static_argnums=0)
    way = (ops.ones_like(A), ops.ones_like(b))
    own = second(phix.grad(f, argument), (A, b), way)[1]
    np.testing.assert_allclose(own, second(phix.grad(direct, argument), (A, b), way)[1], 1e-8, 1e-9)


@each_method
def test_how_it_ended(method: str) -> None:
    solve, A = getattr(linalg, method), METHODS[method]
    assert solve(A, 0.0 * B)[0].tolist() == [0.0] * N and solve(A, 0.0 * B)[1].item() == 0
    if method != "gmres":
        assert solve(A, B, maxiter=2, tol=1e-14)[1].item() == 2
    x, info = solve(0.0 * A, B, maxiter=3)
    assert info.item() == (3 if method == "gmres" else -1) and x.tolist() == [0.0] * N
    x, info = solve(np.full((N, N), np.nan), B)
    assert info.item() == -1 and x.tolist() == [0.0] * N


@each_method
@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 1e-30), ("float32", 1e30), ("float64", 1e-250), ("float64", 1e250)]
    + [("float16", 1.0), ("float16", 2e3), ("bfloat16", 1.0), ("bfloat16", 1e30)],
)
def test_squares_that_the_dtype_does_not_hold(method: str, dtype: str, size: float) -> None:
    A, b = phix.to_tensor(METHODS[method]).astype(dtype), phix.to_tensor(B * size).astype(dtype)
    tol, rtol = {2: (0.02, 0.1), 4: (1e-5, 1e-4), 8: (1e-10, 1e-8)}[np.dtype(dtype).itemsize]
    x, info = getattr(linalg, method)(A, b, tol=tol)
    assert info.item() == 0 and x.dtype == dtype
    wanted = np.linalg.solve(METHODS[method], B)
    np.testing.assert_allclose(x.astype("float64") / size, wanted, rtol, rtol)


@each_method
def test_products_that_half_precision_does_not_hold(method: str) -> None:
    A, b = (METHODS[method] * 300.0).astype("float16"), (B * 3000.0).astype("float16")
    x, info = getattr(linalg, method)(A, b, tol=0.02)
    assert info.item() == 0
    np.testing.assert_allclose(
        x.astype("float64"), np.linalg.solve(A.astype("d"), b.astype("d")), 0.05, 0.1
    )


@each_method
def test_systems_of_no_unknowns(method: str) -> None:
    solve = getattr(linalg, method)
    total = lambda A, b: solve(A, b)[0].sum()  # noqa: E731
    for run in (solve, phix.jit(solve), phix.grad(total, (0, 1))):
        found = run(np.zeros((0, 0)), np.zeros(0))
        assert found[0].size == 0


def test_a_short_restart_comes_to_the_same() -> None:
    x, info = linalg.gmres(GENERAL, B, restart=2, tol=1e-12)
    assert info.item() == 0
    np.testing.assert_allclose(x, np.linalg.solve(GENERAL, B), 1e-10, 1e-10)


def test_a_sparse_matrix_and_sizes_that_are_not_known() -> None:
    """Poisson's equation on a line, beside SciPy; one program for all sizes, with a gradient."""
    rows = scipy.sparse.diags([-1.0, 2.5, -1.0], [-1, 0, 1], (40, 40)).tocsr()
    b = RNG.standard_normal(40)
    x, info = linalg.cg(phix.sparse.from_scipy(rows), b, tol=1e-12)
    assert info.item() == 0
    np.testing.assert_allclose(x, scipy.sparse.linalg.spsolve(rows.tocsc(), b), 1e-10, 1e-11)

    def energy(shift: Any, b: Any) -> Any:
        ring = lambda u: (shift + 2.0) * u - ops.roll(u, 1) - ops.roll(u, -1)  # noqa: E731
        return (linalg.cg(ring, b, tol=1e-13)[0] * b).sum()

    spec = phix.spec(["n"], "float64")
    slope = phix.jit(phix.grad(energy), input_spec=[phix.spec([], "float64"), spec])
    for n in (5, 17, 40):
        ring = 2.3 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)
        wanted = -(np.linalg.solve(ring, b[:n]) ** 2).sum()
        assert slope(0.3, b[:n]).item() == pytest.approx(wanted, rel=1e-9)
    assert slope.trace_count == 1


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: linalg.cg(GENERAL[:4], B), ShapeError, "A must be a square matrix"),
        (lambda: linalg.cg(GENERAL, B, M=B), ShapeError, "M must be a square matrix"),
        (lambda: linalg.cg(GENERAL, B, x0=B[:2]), ShapeError, "x0 must have the dims of b"),
        (lambda: linalg.cg(GENERAL, B, x0=(B, B)), ArgumentError, "x0 must be a tree as b"),
        (lambda: linalg.cg(GENERAL, ()), ArgumentError, "b holds no tensor"),
        (lambda: linalg.cg(lambda x: x, (B, 1j * B)), DTypeError, "real and complex"),
        (lambda: linalg.cg(GENERAL, B, tol=-1.0), ArgumentError, "tol must be a number from 0"),
        (lambda: linalg.gmres(GENERAL, B, restart=0), ArgumentError, "restart must be"),
        (lambda: linalg.gmres(GENERAL, B, maxiter=2.5), ArgumentError, "maxiter must be"),
        (lambda: linalg.cg(GENERAL, B.astype("f"), x0=B + 0j), DTypeError, "digits"),
    ],
)  # fmt: skip
def test_solvers_refuse_what_does_not_fit(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


@pytest.mark.parametrize("module", [implicit, linalg])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
