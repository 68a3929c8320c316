"""Schur factors, functions of matrices and matrix equations of phix.scipy.linalg, beside
scipy.linalg and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import phix
from phix import ops
from phix.core.errors import ArgumentError, ShapeError
from phix.scipy import linalg

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(11)
SIZES = [0, 1, 2, 5, 20]
each_kind = pytest.mark.parametrize("is_complex", [False, True])


def drawn(*shape: int, is_complex: bool = False) -> np.ndarray[Any, Any]:
    real = RNG.standard_normal(shape)
    return real + 1j * RNG.standard_normal(shape) if is_complex else real


def near(found: Any, wanted: Any, tol: float = 1e-11) -> None:
    assert tuple(found.shape) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found), wanted, tol, tol)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


# -- factors --------------------------------------------------------------------------------------
@each_kind
@pytest.mark.parametrize("n", SIZES)
def test_schur_factors_are_scipys(n: int, is_complex: bool) -> None:
    a = drawn(n, n, is_complex=is_complex)
    jitted = phix.jit(linalg.schur, static_argnames=("output",))
    for output in ("real", "complex"):
        wanted = scipy.linalg.schur(a, output) if n else (a, a)
        for run in (linalg.schur, jitted):
            t, z = run(a, output=output)
            near(t, wanted[0])
            near(z, wanted[1])
            near(z @ t @ z.mT.conj(), a)
            assert t.dtype == z.dtype == ("complex128" if is_complex or output[0] == "c" else
                                          "float64")  # fmt: skip
    t, z = phix.jit(linalg.rsf2csf)(*linalg.schur(a))
    near(z @ t @ adjoint(z), a)
    near(np.tril(t, -1), np.zeros((n, n)), 1e-15)
    if n:
        near(t, scipy.linalg.rsf2csf(*scipy.linalg.schur(a))[0])
        near(z, scipy.linalg.rsf2csf(*scipy.linalg.schur(a))[1])


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_batches_lanes_and_what_is_not_finite(dtype: str) -> None:
    a = drawn(3, 2, 4, 4, is_complex=dtype[0] == "c").astype(dtype)
    a[1, 0, 2, 2] = np.nan
    for run in (linalg.schur, phix.vmap(linalg.schur), phix.vmap(linalg.schur, 1, 1),
                phix.jit(phix.vmap(phix.vmap(linalg.schur)))):  # fmt: skip
        t, z = run(a)
        assert t.dtype == z.dtype == dtype
        near(
            z @ t @ adjoint(z), np.where(np.isnan(a).any((-2, -1), keepdims=True), np.nan, a), 1e-5
        )
        assert np.isnan(t[1, 0]).all()


def test_schur_factors_of_unknown_sizes() -> None:
    spec = [phix.spec(["n", "n"], "float64")]
    of_any = phix.jit(
        lambda a: (linalg.schur(a), linalg.rsf2csf(*linalg.schur(a))), input_spec=spec
    )
    for n in (1, 2, 6):
        a = drawn(n, n)
        for t, z in of_any(a):
            near(z @ t @ adjoint(z), a)
    assert of_any.trace_count == 1


def test_a_block_with_real_eigenvalues_is_turned_too() -> None:
    t = np.array([[1.0, 2.0, 5.0], [0.5, -1.0, 3.0], [0.0, 0.0, 4.0]])
    found, z = linalg.rsf2csf(t, np.eye(3))
    near(z @ found @ adjoint(z), t)
    near(np.tril(found, -1), np.zeros((3, 3)))


@pytest.mark.parametrize("kind", ["complex", "real to complex", "real"])
def test_slopes_of_schur_factors_are_those_of_differences(kind: str) -> None:
    """Of what no phases of Z change."""
    a, way = (drawn(4, 4, is_complex=kind == "complex") for _ in range(2))
    if kind == "real":  # with real eigenvalues
        a = np.diag(np.arange(1.0, 5.0)) + 0.1 * a
    output, weights, step = kind.rpartition(" ")[2], drawn(2, 4, 4), 1e-5

    def f(a: Any) -> Any:
        t, z = linalg.schur(a, output)
        sizes = zip(weights, (ops.triu(t), z))  # where numbers are 0 a size has no slope
        return sum((w * ops.square(ops.abs(x))).sum() for w, x in sizes)

    def slope(a: Any) -> Any:
        return ops.real(ops.conj(phix.grad(f)(a)) * way).sum()

    ahead, behind = a + step * way, a - step * way
    wanted = (f(ahead) - f(behind)).item() / (2 * step)
    assert phix.jit(slope)(a).item() == pytest.approx(wanted, rel=1e-5)
    assert phix.jvp(f, (a,), (way,))[1].item() == pytest.approx(wanted, rel=1e-5)
    second = (slope(ahead) - slope(behind)).item() / (2 * step)
    assert phix.jvp(slope, (a,), (way,))[1].item() == pytest.approx(second, rel=1e-4)


def test_where_schur_factors_have_no_slopes_and_in_lanes() -> None:
    def squares(a: Any) -> Any:  # those of a
        return ops.square(ops.abs(linalg.schur(a, "complex")[0])).sum()

    a = drawn(3, 4, 4)
    near(phix.vmap(phix.grad(squares))(a), 2 * a)
    of_any = phix.jit(phix.grad(squares), input_spec=[phix.spec(["n", "n"], "float64")])
    for n in (1, 4):
        near(of_any(a[0, :n, :n]), 2 * a[0, :n, :n])
    first = phix.grad(lambda a: linalg.schur(a)[0].sum())
    assert first(np.zeros((0, 0))).shape == (0, 0)
    assert np.isnan(first(np.array([[0.0, 1.0], [-1.0, 0.0]]))).all()
    assert np.isnan(first(np.eye(3))).all()


# -- equations ------------------------------------------------------------------------------------
def sylvester(a: Any, b: Any, q: Any) -> Any:
    return linalg.solve_sylvester(a, b, q)


def continuous(a: Any, b: Any, q: Any) -> Any:
    return linalg.solve_continuous_lyapunov(a, q @ b)


def discrete(a: Any, b: Any, q: Any) -> Any:
    return linalg.solve_discrete_lyapunov(a, q @ b)


EQUATIONS = {"sylvester": sylvester, "continuous": continuous, "discrete": discrete}
each_equation = pytest.mark.parametrize("name", EQUATIONS)


@each_kind
@pytest.mark.parametrize("n", SIZES)
def test_solutions_are_scipys(n: int, is_complex: bool) -> None:
    a = drawn(n, n, is_complex=is_complex) / 4 + 2.0 * np.eye(n)
    for m in (3, n):
        b, q = (drawn(*dims, is_complex=is_complex) for dims in ((m, m), (n, m)))
        b = b + m * np.eye(m)
        for run in (linalg.solve_sylvester, phix.jit(linalg.solve_sylvester)):
            x = run(a, b, q)
            near(a @ x + x @ b, q)
            assert x.dtype == q.dtype
            if n:
                near(x, scipy.linalg.solve_sylvester(a, b, q))
    x = phix.jit(linalg.solve_continuous_lyapunov)(a, q)
    near(a @ x + x @ adjoint(a), q)
    for method in (None, "direct", "bilinear"):
        x = linalg.solve_discrete_lyapunov(a, q, method=method)
        near(x - a @ x @ adjoint(a), q)
        if n:
            near(x, scipy.linalg.solve_discrete_lyapunov(a, q, method), 1e-9)


def test_axes_in_front_broadcast_and_lanes_are_like_them() -> None:
    a, b, q = drawn(2, 3, 3), drawn(2, 2), drawn(4, 2, 3, 2, is_complex=True)
    for run in (linalg.solve_sylvester,
                phix.jit(phix.vmap(linalg.solve_sylvester, (None, None, 0)))):  # fmt: skip
        x = run(a, b, q)
        near(a @ np.asarray(x) + np.asarray(x) @ b, q)
    x = phix.vmap(linalg.solve_discrete_lyapunov, (0, None))(a, np.eye(3))
    near(np.asarray(x) - a @ np.asarray(x) @ adjoint(a), np.stack([np.eye(3)] * 2), 1e-9)


@each_equation
def test_equations_of_unknown_sizes(name: str) -> None:
    spec = [phix.spec(dims, "float64") for dims in (["n", "n"], ["n", "n"], ["n", "n"])]
    slope = phix.jit(phix.grad(lambda *x: EQUATIONS[name](*x).sum(), (0, 1, 2)), input_spec=spec)
    for n in (1, 4):
        given = [drawn(n, n) / 4 + k * np.eye(n) for k in (2, 1, 0)]
        for found, x in zip(slope(*given), given):
            assert found.shape == x.shape and np.isfinite(found).all()
    assert slope.trace_count == 1


@each_kind
@each_equation
def test_slopes_of_solutions_are_those_of_differences(name: str, is_complex: bool) -> None:
    point = [drawn(3, 3, is_complex=is_complex) / 4 + k * np.eye(3) for k in (2, 1, 0)]
    way = [drawn(3, 3, is_complex=is_complex) for _ in range(3)]
    weights, step = drawn(3, 3), 1e-5
    f = lambda *x: (weights * ops.square(ops.abs(EQUATIONS[name](*x)))).sum()  # noqa: E731
    ahead, behind = ([x + s * v for x, v in zip(point, way)] for s in (step, -step))
    wanted = (f(*ahead) - f(*behind)).item() / (2 * step)

    def slope(*x: Any) -> Any:
        grads = phix.grad(f, (0, 1, 2))(*x)
        return sum(ops.real(ops.conj(g) * v).sum() for g, v in zip(grads, way))

    assert phix.jit(slope)(*point).item() == pytest.approx(wanted, rel=1e-6)
    assert phix.jvp(f, tuple(point), tuple(way))[1].item() == pytest.approx(wanted, rel=1e-6)
    second = (slope(*ahead) - slope(*behind)).item() / (2 * step)
    for found in (phix.jvp(slope, tuple(point), tuple(way))[1],
                  sum((ops.real(ops.conj(g) * v)).sum()
                      for g, v in zip(phix.grad(slope, (0, 1, 2))(*point), way))):  # fmt: skip
        assert found.item() == pytest.approx(second, rel=1e-5)


# -- functions ------------------------------------------------------------------------------------
@each_kind
@pytest.mark.parametrize("n", SIZES)
def test_functions_of_matrices_are_scipys(n: int, is_complex: bool) -> None:
    a = drawn(n, n, is_complex=is_complex)
    for name in ("exp", "sin", "square"):
        run = phix.jit(linalg.funm, static_argnames=("func",))
        found = run(a, func=getattr(ops, name))
        assert found.dtype == "complex128"
        wanted = scipy.linalg.funm(a, getattr(np, name)) if n else a
        scale = np.abs(wanted).max(initial=1.0)
        near(found / scale, wanted / scale, 1e-10)
    near(linalg.funm(a, ops.square), a @ a, 1e-10)
    found, error = linalg.funm(np.stack([a, a.T]), ops.exp, disp=False)
    assert found.shape == (2, n, n) and error.shape == (2,)
    if n:
        wanted = scipy.linalg.funm(a, np.exp, disp=False)[1]
        assert error[0].item() == pytest.approx(wanted, rel=0.2)


def test_equal_eigenvalues_whose_vectors_are_tied_give_no_numbers() -> None:
    jordan = np.array([[1.0, 1.0], [0.0, 1.0]])
    assert np.isnan(np.asarray(linalg.funm(jordan, ops.exp))[0, 1])
    over_another = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    assert np.isnan(np.asarray(linalg.funm(over_another, ops.exp))[0, 2])
    for a in (2.0 * np.eye(3), np.ones((3, 3)), np.diag([1.0, 2.0, 1.0])):
        near(linalg.funm(a, ops.exp), scipy.linalg.expm(a))


def test_slopes_of_functions_are_those_of_differences() -> None:
    a, way, power = drawn(4, 4), drawn(4, 4), np.float64(1.5)
    near(phix.jvp(lambda a: linalg.funm(a, ops.exp), (a,), (way,))[1].real,
         scipy.linalg.expm_frechet(a, way)[1], 1e-9)  # fmt: skip

    def f(a: Any, power: Any) -> Any:
        return ops.real(linalg.funm(a @ a.T + 1.0, lambda w: w**power)).sum()

    a, step = phix.to_tensor(a), 1e-5
    ahead, behind = ((a + s * way, power + s) for s in (step, -step))
    wanted = (f(*ahead) - f(*behind)).item() / (2 * step)

    def slope(a: Any, power: Any) -> Any:
        by_a, by_power = phix.grad(f, (0, 1))(a, power)
        return (by_a * way).sum() + by_power

    assert phix.jit(slope)(a, power).item() == pytest.approx(wanted, rel=1e-6)
    second = (slope(*ahead) - slope(*behind)).item() / (2 * step)
    found = phix.jvp(slope, (a, power), (way, np.float64(1.0)))[1]
    assert found.item() == pytest.approx(second, rel=1e-5)


def test_functions_of_unknown_sizes_and_lanes() -> None:
    of_any = phix.jit(
        lambda a: linalg.funm(a, ops.cos), input_spec=[phix.spec(["n", "n"], "float64")]
    )
    for n in (1, 3):
        a = drawn(n, n)
        near(of_any(a).real, scipy.linalg.cosm(a), 1e-10)
    a = drawn(3, 2, 2)
    near(phix.vmap(lambda a: linalg.funm(a, ops.cos))(a).real,
         np.stack([scipy.linalg.cosm(x) for x in a]), 1e-10)  # fmt: skip


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: linalg.schur(drawn(2, 3)), ShapeError, "a must hold square"),
        (lambda: linalg.schur(drawn(2, 2), "upper"), ArgumentError, "output must be one of"),
        (lambda: linalg.schur(drawn(2, 2), sort="lhp"), ArgumentError, "order of the eigenvalues"),
        (lambda: linalg.rsf2csf(drawn(2, 2), drawn(3, 3)), ShapeError, "must have the same dims"),
        (lambda: linalg.solve_sylvester(drawn(2, 2), drawn(3, 3), drawn(3, 2)),
         ShapeError, r"q must be \[..., 2, 3\] for a"),
        (lambda: linalg.solve_sylvester(drawn(2, 3), drawn(3, 3), drawn(3, 2)), ShapeError,
         "a must hold square"),
        (lambda: linalg.solve_continuous_lyapunov(drawn(2, 2), drawn(2, 3)), ShapeError,
         "q must be"),
        (lambda: linalg.solve_discrete_lyapunov(drawn(2, 2), drawn(2, 2), "dense"), ArgumentError,
         "method must be one of"),
        (lambda: linalg.funm(drawn(2, 3), ops.exp), ShapeError, "A must hold square"),
        (lambda: linalg.funm(drawn(2, 2), lambda w: w.sum()), ShapeError, "a number for each of"),
        (lambda: linalg.funm(drawn(2, 2), "exp"), ArgumentError, "func must be"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()
