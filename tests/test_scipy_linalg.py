"""phix.scipy.linalg, beside scipy.linalg and finite differences."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import phix
from phix import ops
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.scipy import (
    hermitian,
    linalg,
    matrix_equations,
    matrix_systems,
    reflections,
    schur_forms,
    special_matrices,
)

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(5)
ROOT = RNG.standard_normal((5, 5))
COMPLEX_ROOT = ROOT + 1j * RNG.standard_normal((5, 5))
GENERAL = {"float64": ROOT + 3.0 * np.eye(5), "complex128": COMPLEX_ROOT + 3.0 * np.eye(5)}
POSITIVE = {k: a @ a.conj().T / 5 + np.eye(5) for k, a in GENERAL.items()}
B = RNG.standard_normal((5, 3))
each_dtype = pytest.mark.parametrize("dtype", GENERAL)


def near(found: Any, wanted: Any, tol: float = 1e-12) -> None:
    for a, b in zip(phix.tree.leaves(found), phix.tree.leaves(wanted)):
        assert tuple(a.shape) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), b, tol, tol)


# -- systems and factors --------------------------------------------------------------------------
SYSTEMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "solve": lambda m, g, p, b: m.solve(g, b),
    "solve pos": lambda m, g, p, b: m.solve(np.triu(p), b, assume_a="pos"),
    "solve her": lambda m, g, p, b: m.solve(np.tril(p), b, lower=True, assume_a="her"),
    "solve sym": lambda m, g, p, b: m.solve(np.triu(g), b, assume_a="sym"),
    "cholesky": lambda m, g, p, b: (m.cholesky(p), m.cholesky(p, lower=True)),
    "cho_solve": lambda m, g, p, b: (
        m.cho_solve(m.cho_factor(p), b), m.cho_solve(m.cho_factor(p, True, check_finite=False), b)
    ),
    "lu_solve": lambda m, g, p, b: tuple(m.lu_solve(m.lu_factor(g), b, trans=t) for t in range(3)),
    "lu_factor": lambda m, g, p, b: m.lu_factor(g),
    "lu": lambda m, g, p, b: (m.lu(g[:, :3]), m.lu(g[:3], permute_l=True)),
    "lu by rows": lambda m, g, p, b: [
        m.lu(x, permute_l=both, p_indices=True) for x in (g[::-1, :3], g[:3], g)
        for both in (False, True)
    ],
    "solve_triangular": lambda m, g, p, b: tuple(
        m.solve_triangular(g, b, trans=t, lower=low, unit_diagonal=low)
        for t in (0, 1, 2, "N", "T", "C") for low in (False, True)
    ),
    "qr": lambda m, g, p, b: [
        abs(x) for mode in ("full", "economic", "r") for x in m.qr(g[:, :3], mode=mode)
    ],
    "svd": lambda m, g, p, b: m.svd(g, compute_uv=False),
    "polar": lambda m, g, p, b: (m.polar(g[:, :3]), m.polar(g[:3], side="left")),
    "eigh": lambda m, g, p, b: (
        m.eigh(np.tril(p), eigvals_only=True),
        *(m.eigh(np.triu(g), p, lower=False, eigvals_only=True, type=k) for k in (1, 2, 3)),
        m.eigh(g, p, eigvals_only=True, type=3, subset_by_value=(0.0, 4.0)),
        m.eigh(p, eigvals_only=True, subset_by_value=[1.5, np.inf]),
        m.eigh(p, eigvals_only=True, subset_by_value=[-2, -1.0]),
    ),
    "expm_frechet": lambda m, g, p, b: (
        m.expm_frechet(g, p), m.expm_frechet(g, p, compute_expm=False)
    ),
}  # fmt: skip


@each_dtype
@pytest.mark.parametrize("name", SYSTEMS)
def test_values_are_scipys(name: str, dtype: str) -> None:
    function, general, positive = SYSTEMS[name], GENERAL[dtype], POSITIVE[dtype]
    for b in (B, B[:, 0]):
        near(function(linalg, general, positive, b), function(scipy.linalg, general, positive, b))


@each_dtype
def test_the_permutation_of_lu_is_real(dtype: str) -> None:
    p, lower, upper = linalg.lu(GENERAL[dtype][::-1])
    assert (p.dtype, lower.dtype, upper.dtype) == ("float64", dtype, dtype)
    near(p @ lower @ upper, GENERAL[dtype][::-1])


@each_dtype
def test_eigenvectors_solve_the_general_problem(dtype: str) -> None:
    a, b = GENERAL[dtype], POSITIVE[dtype]
    a = a + a.conj().T
    for metric in (None, b):
        w, v = (np.asarray(x) for x in linalg.eigh(a, metric))
        m = np.eye(5) if metric is None else metric
        np.testing.assert_allclose(a @ v, m @ v * w, atol=1e-11)
        np.testing.assert_allclose(v.conj().T @ m @ v, np.eye(5), atol=1e-12)
    for kind, product, norm in ((2, a @ b, b), (3, b @ a, np.linalg.inv(b))):
        w, v = (np.asarray(x) for x in phix.jit(lambda *m, k=kind: linalg.eigh(*m, type=k))(a, b))
        np.testing.assert_allclose(product @ v, v * w, atol=1e-11)
        np.testing.assert_allclose(v.conj().T @ norm @ v, np.eye(5), atol=1e-12)
        some = linalg.eigh(a, b, type=kind, subset_by_value=(w[0] + 1e-3, w[2] + 1e-3))
        near(some, (w[1:3], v[:, 1:3]))
    d, e = np.arange(4.0), np.array([1.0, -2.0, 0.5])
    w, v = (np.asarray(x) for x in linalg.eigh_tridiagonal(d, e))
    np.testing.assert_allclose(v @ np.diag(w) @ v.T, np.diag(d) + np.diag(e, 1) + np.diag(e, -1),
                               atol=1e-13)  # fmt: skip
    near(linalg.eigh_tridiagonal(d, e, eigvals_only=True), w)


def posterior(module: Any, x: Any, y: Any, scale: Any) -> Any:
    """The logarithm of the likelihood of a Gaussian process, up to a constant."""
    k = ops.exp(-0.5 * ((x[:, None] - x[None]) / scale) ** 2) + 0.1 * phix.eye(
        x.shape[0], dtype=x.dtype
    )
    factor = module.cho_factor(k, lower=True)
    return 0.5 * (y * module.cho_solve(factor, y)).sum() + ops.log(ops.diagonal(factor[0])).sum()


def test_a_gaussian_process_has_its_slopes_and_serves_all_sizes() -> None:
    x, y = np.linspace(0.0, 3.0, 8), RNG.standard_normal(8)
    step = 1e-5
    value = lambda s: posterior(linalg, phix.to_tensor(x), phix.to_tensor(y), s)  # noqa: E731
    wanted = (value(0.7 + step).item() - value(0.7 - step).item()) / (2 * step)
    spec = phix.spec(["n"], "float64")
    slope = phix.jit(
        phix.grad(lambda x, y, s: posterior(linalg, x, y, s), 2),
        input_spec=[spec, spec, phix.spec([], "float64")],
    )
    assert slope(x, y, 0.7).item() == pytest.approx(wanted, rel=1e-7)
    for n in (3, 5):
        k = np.exp(-0.5 * (x[:n, None] - x[:n]) ** 2 / 0.49) + 0.1 * np.eye(n)
        dk = (k - 0.1 * np.eye(n)) * (x[:n, None] - x[:n]) ** 2 / 0.7**3
        alpha = np.linalg.solve(k, y[:n])
        exact = 0.5 * np.trace(np.linalg.solve(k, dk)) - 0.5 * alpha @ dk @ alpha
        assert slope(x[:n], y[:n], 0.7).item() == pytest.approx(exact, rel=1e-10)
    assert slope.trace_count == 1


SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: linalg.solve(a, b),
    "pos": lambda a, b: linalg.solve(a @ a.T + 1.0, b, assume_a="pos"),
    "lu_solve": lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, trans=1),
    "lu": lambda a, b: linalg.lu(a)[1] @ b,
    "triangular": lambda a, b: linalg.solve_triangular(a, b, trans="T"),
    "eigh": lambda a, b: linalg.eigh(a + a.T, ops.eye(4, dtype="float64") + 0.1 * a @ a.T)[0],
    "polar": lambda a, b: linalg.polar(a)[0] @ b,
    "frechet": lambda a, b: linalg.expm_frechet(a, a.T, compute_expm=False),
    "toeplitz": lambda a, b: linalg.toeplitz(a[0], a[1]) @ linalg.circulant(a[2]),
    "companion": lambda a, b: linalg.companion(a[0]) @ linalg.leslie(a[1][:3], a[2][:2]),
    "fiedler_companion": lambda a, b: linalg.fiedler_companion(a[0]),
    "hessenberg": lambda a, b: linalg.hessenberg(a, calc_q=True)[1] @ linalg.hessenberg(a + 0.5),
    "qr with pivots": lambda a, b: linalg.qr(a, pivoting=True)[1] @ linalg.qr(a, pivoting=True)[0],
    "block_diag": lambda a, b: linalg.block_diag(a, b).T @ linalg.block_diag(a, b),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_those_of_differences(name: str) -> None:
    a = phix.to_tensor(GENERAL["float64"][:4, :4])
    b, way = phix.to_tensor(B[:4]), phix.to_tensor(RNG.standard_normal((4, 4)))
    f = lambda a: ops.sin(SLOPES[name](a, b)).sum()  # noqa: E731
    step = 1e-5
    wanted = (f(a + step * way).item() - f(a - step * way).item()) / (2 * step)
    assert (phix.jit(phix.grad(f))(a) * way).sum().item() == pytest.approx(wanted, rel=1e-6)
    slope = lambda a: (phix.grad(f)(a) * way).sum()  # noqa: E731
    second = (slope(a + step * way).item() - slope(a - step * way).item()) / (2 * step)
    found = phix.jit(lambda a: phix.jvp(slope, (a,), (way,))[1])(a)
    assert found.item() == pytest.approx(second, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["solve", "cho_solve", "lu_solve", "lu_factor", "qr", "polar"])
def test_batches_are_those_of_their_matrices(name: str) -> None:
    b = np.stack([B, 2.0 * B])
    g = np.stack([GENERAL["float64"], GENERAL["float64"].T])
    p = np.stack([POSITIVE["float64"], 2.0 * POSITIVE["float64"]])
    run: Any = lambda g, p, b: SYSTEMS[name](linalg, g, p, b)  # noqa: E731
    lanes = phix.tree.leaves(phix.jit(phix.vmap(run))(g, p, b))
    alone = [phix.tree.leaves(run(*each)) for each in zip(g, p, b)]
    for k, found in enumerate(lanes):
        near(found, np.stack([np.asarray(one[k]) for one in alone]), 1e-11)


def complex_or_real(*shape: int, is_complex: bool) -> np.ndarray[Any, Any]:
    real = RNG.standard_normal(shape)
    return real + 1j * RNG.standard_normal(shape) if is_complex else real


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 4), (4, 1), (30, 20)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_pivots_are_those_of_lapack(shape: tuple[int, int], is_complex: bool) -> None:
    a = complex_or_real(*shape, is_complex=is_complex) * 1e200  # whose squares are none
    for mode in ("full", "economic", "r"):
        wanted = scipy.linalg.qr(a, mode=mode, pivoting=True)
        for run in (linalg.qr, phix.jit(linalg.qr, static_argnames=("mode", "pivoting"))):
            found = run(a, mode=mode, pivoting=True)
            assert found[-1].dtype == np.int32
            near([f / 1e200 if f.dtype != np.int32 else f for f in found],
                 [w / 1e200 if w.dtype != np.int32 else w for w in wanted])  # fmt: skip


def test_pivots_of_batches_low_ranks_and_nothing() -> None:
    a = np.stack([np.outer([1.0, 2.0, 3.0], [1.0, 5.0, 2.0, 0.0]), RNG.standard_normal((3, 4))])
    pivoted = lambda a: linalg.qr(a, pivoting=True)  # noqa: E731
    for run in (pivoted, phix.vmap(pivoted)):
        q, r, p = run(a)
        near(q @ r, np.take_along_axis(a, p.numpy()[:, None], 2))
        sizes = np.abs(np.diagonal(r.numpy(), axis1=1, axis2=2))
        assert (np.diff(sizes) <= 1e-12).all() and sizes[0, 1] < 1e-12
    assert p.tolist()[0][0] == 1
    assert [f.shape for f in linalg.qr(np.zeros((0, 3)), pivoting=True)] == [(0, 0), (0, 3), (3,)]
    near(linalg.qr(np.zeros((2, 2)), pivoting=True)[1], np.zeros((2, 2)))
    of_any = phix.jit(pivoted, input_spec=[phix.spec(["m", "n"], "float64")])
    for shape in ((3, 2), (2, 6)):
        b = RNG.standard_normal(shape)
        near(of_any(b), scipy.linalg.qr(b, pivoting=True))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 25])
@pytest.mark.parametrize("is_complex", [False, True])
def test_hessenberg_factors_are_those_of_lapack(n: int, is_complex: bool) -> None:
    a = complex_or_real(n, n, is_complex=is_complex)
    for matrix in (a, np.triu(a, -1), np.triu(a), a * 0):
        if n:
            wanted = scipy.linalg.hessenberg(matrix, calc_q=True)
            near(phix.jit(lambda a: linalg.hessenberg(a, True))(matrix), wanted)
        h, q = linalg.hessenberg(np.stack([matrix * 1e170, matrix]), calc_q=True)
        assert h.shape == (2, n, n)
        near(np.conj(np.swapaxes(q, 1, 2)) @ q, np.stack([np.eye(n)] * 2))
        near(q[0] @ (h[0] / 1e170) @ np.conj(q[0].T), matrix)
        near(linalg.hessenberg(matrix), h[1])


def test_a_zero_with_a_sign_is_below_zero_for_hessenberg_factors() -> None:
    a = np.array([[1.0, 2.0, 3.0], [-0.0, 1.0, 2.0], [2.0, 1.0, 1.0]])
    wanted = scipy.linalg.hessenberg(a, calc_q=True)
    assert wanted[0][1, 0] == 2.0
    near(linalg.hessenberg(a, True), wanted)
    near(phix.jit(lambda a: linalg.hessenberg(a, True))(a), wanted)


def test_hessenberg_factors_of_unknown_sizes_and_where_there_are_no_slopes() -> None:
    of_any = phix.jit(lambda a: linalg.hessenberg(a, True),
                      input_spec=[phix.spec(["n", "n"], "float64")])  # fmt: skip
    for n in (1, 2, 3, 7):
        a = RNG.standard_normal((n, n))
        h, q = of_any(a)
        near(q @ h @ q.T, a)
        near(np.tril(h, -2), np.zeros((n, n)))
    a = RNG.standard_normal((4, 4))
    slopes = phix.grad(lambda a: linalg.hessenberg(a).sum())
    assert np.isfinite(slopes(a)).all() and np.isnan(slopes(np.triu(a, -1))).all()


# -- matrices of a few numbers --------------------------------------------------------------------
MATRICES: dict[str, Callable[[Any], Any]] = {
    "toeplitz": lambda m: (
        m.toeplitz([1, 2, 3], [9, 4]), m.toeplitz([1.0, 2.0]), m.toeplitz([1j, 2 + 1j])
    ),
    "hankel": lambda m: (m.hankel([1, 2, 3]), m.hankel([1.5, 2.0], [0.0, 7.0, 8.0])),
    "circulant": lambda m: m.circulant([1.0, 2.0, 3.0, 4.0]),
    "companion": lambda m: (m.companion([2.0, 1.0]), m.companion([2.0, 3.0, 4.0, 1.0])),
    "leslie": lambda m: m.leslie([0.1, 2.0, 1.0, 0.1], [0.2, 0.8, 0.7]),
    "fiedler_companion": lambda m: [
        m.fiedler_companion([2.0, 3.0, 4.0, 1.0, 5.0, 7.0, -2.0][:n]) for n in range(2, 8)
    ],
    "fiedler": lambda m: m.fiedler([1.0, 4.0, 12.0]),
    "block_diag": lambda m: (
        m.block_diag([[1, 2]], [3, 4], 5), m.block_diag([[1.0], [2.0]], [[3.0]])
    ),
    "convolution_matrix": lambda m: [
        m.convolution_matrix(a, n, mode) for mode in ("full", "same", "valid")
        for a in ([1.0, 2.0, 3.0], [4, 5]) for n in (1, 2, 3, 4, 6)
    ],
    "dft": lambda m: [m.dft(n, scale) for n in (1, 4, 5) for scale in (None, "n", "sqrtn")],
    "hadamard": lambda m: [m.hadamard(n) for n in (1, 2, 8)],
    "helmert": lambda m: [m.helmert(n, full) for n in (2, 5) for full in (False, True)],
    "hilbert": lambda m: [m.hilbert(n) for n in (1, 6)],
    "invhilbert": lambda m: [m.invhilbert(n) for n in (1, 6)],
    "pascal": lambda m: [m.pascal(n, k) for n in (1, 5) for k in ("symmetric", "lower", "upper")],
    "invpascal": lambda m: [
        m.invpascal(n, k) for n in (1, 5) for k in ("symmetric", "lower", "upper")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_are_scipys(name: str) -> None:
    near(MATRICES[name](linalg), MATRICES[name](scipy.linalg), 3e-7)
    with phix.default_dtype("float64"):
        near(MATRICES[name](linalg), MATRICES[name](scipy.linalg), 1e-13)


def test_matrices_of_unknown_sizes() -> None:
    spec = phix.spec(["n"], "float64")
    made = phix.jit(
        lambda c: (linalg.toeplitz(c), linalg.circulant(c), linalg.hankel(c), linalg.fiedler(c)),
        input_spec=[spec],
    )
    for n in (1, 2, 7):
        c = RNG.standard_normal(n)
        s: Any = scipy.linalg
        near(made(c), (s.toeplitz(c), s.circulant(c), s.hankel(c), s.fiedler(c)))


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: linalg.cholesky(B), ShapeError, "square"),
        (lambda: linalg.solve(B, B), ShapeError, "square"),
        (lambda: linalg.solve(ROOT, B, assume_a="tri"), ArgumentError, "assume_a must be one of"),
        (lambda: linalg.solve_triangular(ROOT, B, trans=3), ArgumentError, "trans must be"),
        (lambda: linalg.cho_solve(ROOT, B), ArgumentError, "cho_factor"),
        (lambda: linalg.cho_solve((ROOT, 1), B), ArgumentError, "lower a bool"),
        (lambda: linalg.lu_solve(linalg.lu_factor(ROOT), B[:3]), ShapeError, "lu_solve"),
        (lambda: linalg.eigh(ROOT, B), ShapeError, "b must hold square"),
        (lambda: linalg.eigh(ROOT, subset_by_index=(3, 5)), AttributeValueError, "high < 5"),
        (lambda: linalg.eigh(ROOT, subset_by_index=3), ArgumentError, "two ints"),
        (lambda: linalg.eigh(ROOT, type=4), ArgumentError, "type must be an int from 1 to 3"),
        (lambda: linalg.eigh(ROOT, subset_by_value=(2.0, 1.0)), AttributeValueError, "low below"),
        (lambda: linalg.eigh(ROOT, subset_by_value="ab"), ArgumentError, "two numbers"),
        (lambda: linalg.eigh(np.stack([ROOT] * 2), subset_by_value=(1.0, 2.0)), ShapeError,
         "one matrix"),
        (lambda: linalg.eigh(ROOT, subset_by_index=(0, 1), subset_by_value=(1.0, 2.0)),
         ArgumentError, "leave one out"),
        (lambda: linalg.eig(ROOT, ROOT), ArgumentError, r"solve\(b, a\)"),
        (lambda: linalg.eigvals(ROOT, ROOT), ArgumentError, r"eigh\(a, b\)"),
        (lambda: linalg.eig(ROOT, left=True), ArgumentError, "vectors on the left"),
        (lambda: linalg.hessenberg(B), ShapeError, "a must hold square"),
        (lambda: linalg.qr(B[:, 0], pivoting=True), ShapeError, "matrices"),
        (lambda: linalg.fiedler_companion([1.0]), ShapeError, "two coefficients"),
        (lambda: linalg.eigh_tridiagonal(B[:, 0], B[:, 0]), ShapeError, r"e \[n - 1\]"),
        (lambda: linalg.toeplitz(3.0), ShapeError, "c must be a vector"),
        (lambda: linalg.companion([1.0]), ShapeError, "two coefficients"),
        (lambda: linalg.leslie([1.0, 2.0], [1.0, 2.0]), ShapeError, r"s \[n - 1\]"),
        (lambda: linalg.block_diag(np.zeros((1, 1, 1))), ShapeError, "block_diag takes"),
        (lambda: linalg.hadamard(6), ArgumentError, "power of 2"),
        (lambda: linalg.pascal(3, "left"), ArgumentError, "kind must be one of"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


@each_dtype
def test_eigenvalues_of_some_numbers(dtype: str) -> None:
    a, b = POSITIVE[dtype], GENERAL[dtype] @ GENERAL[dtype].conj().T
    for first, last in ((0, 0), (1, 3), (4, 4)):
        chosen = {"subset_by_index": (first, last)}
        for pair in ((a,), (a, b)):
            want = scipy.linalg.eigh(*pair, eigvals_only=True, **chosen)
            near(linalg.eigh(*pair, eigvals_only=True, **chosen), want, 1e-10)
            run = phix.jit(lambda *pair, chosen=chosen: linalg.eigh(*pair, **chosen))
            w, v = run(*pair)
            metric = pair[-1] if len(pair) > 1 else np.eye(5)
            near(w, want, 1e-10)
            near(a @ v.numpy(), metric @ v.numpy() * w.numpy(), 1e-9)


@each_dtype
def test_arguments_of_scipy_that_change_nothing(dtype: str) -> None:
    a = GENERAL[dtype]
    said = {"overwrite_a": True, "check_finite": False}
    for name in ("det", "inv", "svdvals"):
        near(getattr(linalg, name)(a, **said), getattr(scipy.linalg, name)(a))
    values = np.sort_complex(scipy.linalg.eigvals(a))
    found = linalg.eigvals(a, **said), linalg.eig(a, right=False, overwrite_b=True, **said)
    for w in (*found, linalg.eig(a)[0]):
        near(np.sort_complex(w.numpy()), values)


@pytest.mark.parametrize(
    "module",
    [
        hermitian,
        linalg,
        matrix_equations,
        matrix_systems,
        reflections,
        schur_forms,
        special_matrices,
    ],
)
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_slopes_of_eigenvalues_of_a_tridiagonal_matrix() -> None:
    """Of the squares, whose sum is that of the squares of d and twice that of those of e."""
    d, e = np.array([1.0, -0.5, 2.0]), np.array([0.3, -0.7])
    total = lambda d, e: (linalg.eigh_tridiagonal(d, e, eigvals_only=True) ** 2).sum()  # noqa: E731
    for run in (lambda f: f, phix.jit):
        slopes = run(phix.grad(total, (0, 1)))(d, e)
        np.testing.assert_allclose(slopes[0], 2.0 * d, 1e-12, 1e-12)
        np.testing.assert_allclose(slopes[1], 4.0 * e, 1e-12, 1e-12)
