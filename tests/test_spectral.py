"""Singular values, eigenvalues and what is made of them, beyond the samples of the op table.

Signs and phases of vectors are a library's affair: what is compared does not depend on them.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import phix
from phix import ops
from phix.core.errors import AttributeValueError, ShapeError
from phix.kernels.lowering import host_steps

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(7)
DTYPES = ["float32", "float64", "complex64", "complex128"]


def normal(*dims: int, dtype: str = "float64") -> np.ndarray:
    x = RNG.normal(size=dims)
    return (x + 1j * RNG.normal(size=dims) if dtype[0] == "c" else x).astype(dtype)


def ct(x: Any) -> np.ndarray:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


def hermitian(x: Any) -> Any:
    return (x + ops.conj(ops.transpose(x, [1, 0]))) / 2


def near(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def check_derivatives(f: Any, x: np.ndarray, tolerance: float = 1e-5) -> None:
    """The gradient of a real function, and the derivative of that, against differences."""
    v, step = normal(*x.shape, dtype=str(x.dtype)), 1e-5
    slope = phix.jit(phix.grad(f))
    found, curve = phix.jvp(phix.grad(f), (x,), (v,))
    near(slope(x), found, 1e-9)
    along = np.real(np.sum(np.conj(np.asarray(found)) * v))
    difference = (f(x + step * v) - f(x - step * v)).item() / (2 * step)
    near(along, difference, tolerance)
    near(phix.jvp(f, (x,), (v,))[1], difference, tolerance)
    ahead, behind = (np.asarray(slope(x + s * v)) for s in (step, -step))
    near(curve, (ahead - behind) / (2 * step), 10 * tolerance)


# -- values --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (4, 4), (0, 3), (3, 0), (0, 2, 2)])
def test_factors_make_the_matrix_again(shape: tuple[int, ...], dtype: str) -> None:
    a = normal(*shape, dtype=dtype)
    tolerance = 1e-5 if dtype in ("float32", "complex64") else 1e-12
    size = min(shape[-2:])
    for mode in ("reduced", "complete"):
        q, r = map(np.asarray, phix.linalg.qr(a, mode))
        near(q @ r, a, tolerance)
        near(ct(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *[q.shape[-1]] * 2)),
             tolerance)  # fmt: skip
        near(np.tril(r, -1), np.zeros_like(r))
    near(np.abs(phix.linalg.qr(a, "r")), np.abs(np.linalg.qr(a, "r")), 10 * tolerance)
    for full in (False, True):
        u, s, vh = map(np.asarray, phix.linalg.svd(a, full))
        near(u[..., :size] * s[..., None, :] @ vh[..., :size, :], a, tolerance)
        assert u.shape[-1] == (shape[-2] if full else size)
        near(ct(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *[u.shape[-1]] * 2)),
             tolerance)  # fmt: skip
    near(phix.linalg.svdvals(a), np.linalg.svd(a, compute_uv=False), tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_are_those_of_numpy(dtype: str) -> None:
    a = normal(2, 5, 5, dtype=dtype)
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-10
    for uplo in ("L", "U"):
        w, v = map(np.asarray, phix.linalg.eigh(a, uplo))
        near(w, np.linalg.eigvalsh(a, uplo), tolerance)
        near(phix.linalg.eigvalsh(a, uplo), w, tolerance)
        one = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
        near(v * w[..., None, :] @ ct(v), one + ct(one) + np.eye(5) * a.real, tolerance)
    w, v = map(np.asarray, phix.linalg.eig(a))
    near(a @ v, v * w[..., None, :], tolerance)
    near(np.sort_complex(phix.linalg.eigvals(a)), np.sort_complex(w), tolerance)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_the_other_triangle_may_hold_anything(uplo: str, size: int) -> None:
    """Of loops, of a LAPACK in the program, and of a library that is called."""
    a = normal(2, size, size)
    is_other = np.tri(size, k=-1, dtype=bool)
    is_other = is_other.T if uplo == "L" else is_other
    spoiled = np.where(is_other, np.resize([np.nan, np.inf], (size, size)), a)
    wanted = np.linalg.eigvalsh(a, uplo)
    near(phix.linalg.eigvalsh(spoiled, uplo), wanted, 1e-10)
    near(phix.linalg.eigh(spoiled[0], uplo)[0], wanted[0], 1e-10)
    out = [np.empty((2, size)), np.empty((2, size, size))]
    host_steps.eigh(np, spoiled, out, uplo, True)
    near(out[0], wanted, 1e-10)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (4, 4)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_factors_of_what_is_not_finite_say_so(shape: tuple[int, int], value: float) -> None:
    """Behind the column in which it stands, wherever that is."""
    a = normal(*shape)
    for place in np.ndindex(*shape):
        spoiled = a.copy()
        spoiled[place] = value
        r = np.asarray(phix.linalg.qr(spoiled)[1])
        rows = np.arange(r.shape[0])[:, None]
        of_it = (np.arange(shape[1]) >= place[1]) & (np.arange(shape[1]) >= rows)
        assert not np.isfinite(r[of_it & (rows >= min(place[1], r.shape[0] - 1))]).any(), place


@pytest.mark.parametrize("f", [phix.linalg.svdvals, phix.linalg.eigvalsh, phix.linalg.eigvals])
def test_a_matrix_with_nan_has_none_and_the_others_theirs(f: Any) -> None:
    a = np.stack([np.eye(3), np.full((3, 3), np.inf), 2 * np.eye(3)])
    a[1, 0, 0] = np.nan
    found = np.asarray(f(a))
    assert np.isnan(found[1]).all()
    near(found[[0, 2]], [[1.0] * 3, [2.0] * 3])


@pytest.mark.parametrize("n", [2, 5])
def test_one_program_for_all_sizes_and_lanes(n: int) -> None:
    def f(a: Any) -> Any:
        u, s, vh = ops.svd(a)
        w, _ = ops.eigh(hermitian(ops.matmul(ops.transpose(a, [1, 0]), a)))
        return ops.matmul(u * s, vh), ops.sqrt(ops.abs(w)), ops.qr(a)[1].abs().sum()

    a = normal(3, n + 1, n)
    compiled = phix.jit(f, input_spec=[phix.spec(["m", "n"], "float64")])
    mapped = phix.jit(phix.vmap(f))(a)
    for i, one in enumerate(a):
        found = compiled(one)
        near(found[0], one)
        near(found[1], np.linalg.svd(one)[1][::-1], 1e-6)
        for x, y in zip(mapped, found):
            near(np.asarray(x)[i], y, 1e-7)


def test_unread_vectors_are_not_computed() -> None:
    def calls(f: Any) -> list[str]:
        """LAPACK's character for what is wanted, of each call."""
        text = phix.jit(f).lower(normal(12, 9)).sections["loop ir"]
        return [chr(int(job)) for job in re.findall(r"gesdd_float64\((\d+),", text)]

    for values in (phix.linalg.svdvals, lambda a: ops.svd(a)[1]):
        assert calls(values) == ["N"]
    assert calls(lambda a: ops.svd(a, True)[0]) == ["A"]
    # the gradient takes the vectors of the one factorisation
    assert calls(phix.value_and_grad(lambda a: phix.linalg.svdvals(a).sum())) == ["S"]


@pytest.mark.parametrize("name", ["qr", "svd", "eigh", "eig", "schur"])
def test_steps_of_a_library_do_the_same(name: str) -> None:
    """Those of places that call no LAPACK; NumPy stands for CuPy."""
    from phix.kernels.gpu import host_steps as of_cupy
    from phix.kernels.lowering.host_steps import SPECTRAL

    a = normal(2, 3, 3)
    a = a + np.swapaxes(a, -1, -2)
    attrs = {"qr": ("reduced",), "svd": (False,), "eigh": ("L",)}.get(name, ())
    names = {"qr": "mode", "svd": "full_matrices", "eigh": "uplo"}.get(name, "")
    given = {**dict(zip([names], attrs)), "vectors": True}
    wanted = [np.asarray(x) for x in getattr(ops, name)(a)]
    made = [np.empty_like(x) for x in wanted]
    step = of_cupy.find(name, np, given)
    assert (step is None) == (name in ("eig", "schur"))
    (step or (lambda x, *out: SPECTRAL[name](np, x, out, **given)))(a, *made)
    for x, y in zip(made, wanted):
        near(np.abs(x), np.abs(y))
    a[0, 0, 0] = np.nan
    if name != "qr":
        SPECTRAL[name](np, a, made, **given)
        assert all(np.isnan(x[0]).all() and np.isfinite(x[1]).all() for x in made)


# -- derivatives of what does not depend on signs, phases and bases ------------------------------
G = np.random.default_rng(1).normal(size=(5, 5))


def _squares(x: Any) -> Any:
    return (ops.abs(x) ** 2.0).sum()


def weighted(x: Any) -> Any:
    """A sum of absolute squares with weights that tell elements apart."""
    rows, columns = x.shape
    return (ops.abs(x) ** 2.0 * G[:rows, :columns]).sum()


INVARIANT = {
    "qr": lambda a: weighted(ops.qr(a)[0]) + weighted(ops.qr(a)[1]),
    "qr complete": lambda a: weighted(
        ops.qr(a, "complete")[0][:, 3:]
        @ ops.conj(ops.qr(a, "complete")[0][:, 3:]).transpose([1, 0])
    ),
    "qr r": lambda a: weighted(ops.qr(a, "r")[1]),
    "svd": lambda a: weighted(ops.svd(a)[0]) + weighted(ops.svd(a)[2]) + ops.svd(a)[1][0] ** 2.0,
    "svd product": lambda a: ops.abs(
        (ops.matmul(ops.svd(a)[0] * ops.svd(a)[1] ** 2.0, ops.svd(a)[2]) * G[:5, :3]).sum()
    ),
    "svd full": lambda a: weighted(
        ops.svd(a, True)[0][:, 3:] @ ops.conj(ops.svd(a, True)[0][:, 3:]).transpose([1, 0])
    ),
    "svdvals": lambda a: (ops.svdvals(a) ** 3.0).sum(),
    "eigh": lambda a: weighted(ops.eigh(hermitian(a[:3]))[1]) + ops.eigh(hermitian(a[:3]))[0][1],
    "eigvalsh": lambda a: (ops.eigvalsh(hermitian(a[:3]))[0] ** 3.0).sum(),
    "eig": lambda a: weighted(ops.eig(a[:3])[1]) + ops.abs(ops.eig(a[:3])[0]).sum(),
    "eigvals": lambda a: _squares(ops.eigvals(a[:3])),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", INVARIANT)
def test_derivatives(name: str, dtype: str) -> None:
    x = np.random.default_rng(3).normal(size=(5, 3)) + 2 * np.eye(5, 3)
    if dtype[0] == "c":
        x = x + 1j * np.random.default_rng(4).normal(size=(5, 3))
    check_derivatives(INVARIANT[name], x)
    if name in ("qr", "qr r", "svd", "svdvals"):
        check_derivatives(INVARIANT[name], x.T.copy())


def test_equal_values_have_finite_derivatives() -> None:
    """The nuclear norm has the slope u vh, the polar factor."""
    q = np.linalg.qr(normal(4, 4))[0][:, :3]
    for a in (np.eye(3), 2 * q, np.diag([2.0, 2.0, 1.0])):
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        near(phix.grad(lambda a: phix.linalg.norm(a, "nuc"))(a), u @ vh)
    total = phix.grad(lambda a: ops.eigvalsh(a, "L", True)[0].sum())
    near(total(np.eye(4)), np.eye(4))
    squares = phix.grad(lambda a: (ops.eigvalsh(a, "L", True)[0] ** 2.0).sum())
    a = q @ q.T + np.eye(4)
    near(squares(a), 2 * a)


def root_of_eigh(a: Any) -> Any:
    w, v = ops.eigh(hermitian(a))
    return ops.matmul(v * ops.sqrt(w), ops.transpose(v, [1, 0]))


def root_of_svd(a: Any) -> Any:
    u, s, vh = ops.svd(a)
    return ops.matmul(u * ops.sqrt(s), vh)


def root_of_eig(a: Any) -> Any:
    w, v = ops.eig(a)
    return ops.real(ops.matmul(v * ops.sqrt(w), ops.inverse(v)))


@pytest.mark.parametrize("root", [root_of_eigh, root_of_svd, root_of_eig])
def test_what_equal_values_do_not_determine_is_no_number(root: Any) -> None:
    """The root of a has the slope e / 2 at 1 in every direction e; no factor tells it, so it is
    undetermined."""
    off = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(phix.grad(lambda a: root(a)[0, 1])(np.eye(2))).any()
    assert np.isnan(phix.jvp(root, (np.eye(2),), (off,))[1]).any()
    apart = np.diag([1.0, 4.0])
    near(phix.jvp(root, (apart,), (off,))[1], off / 3)


def test_curvature_at_equal_eigenvalues_is_no_number() -> None:
    """That of the sum of their squares, the square of the Frobenius norm, is there, but unknown."""

    def squares(a: Any) -> Any:
        return (ops.eigvalsh(hermitian(a), "L", True)[0] ** 2.0).sum()

    curvature = phix.hessian(squares)(np.eye(2)).numpy()
    assert np.isnan(curvature[0, 1, 0, 1])
    near(phix.hessian(squares)(np.diag([1.0, 3.0])).numpy()[0, 1], [[0, 1], [1, 0]])


def test_taylor_series_go_through_factors() -> None:
    """Of w(t) for a + t b, against differences; of exp(t a), the powers of a."""
    a, b = normal(3, 3), normal(3, 3)
    zero = phix.to_tensor(np.float64(0.0))

    def values(t: Any) -> Any:
        return ops.eigh(hermitian(a + t * b))[0]

    _, (first, second) = phix.jet(values, (zero,), ([np.float64(1.0), None],))
    h = 1e-4
    ahead, here, behind = (np.asarray(values(np.float64(t))) for t in (h, 0.0, -h))
    near(first, (ahead - behind) / (2 * h), 1e-6)
    near(second, (ahead - 2 * here + behind) / h**2, 1e-5)
    _, series = phix.jet(lambda t: ops.expm(t * a), (zero,), ([np.float64(1.0), None],))
    near(series[0], a)
    near(series[1], a @ a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 5, 5), (4, 4), (1, 1), (0, 3, 3), (2, 0, 0)])
def test_schur_factors(shape: tuple[int, ...], dtype: str) -> None:
    a, tolerance = normal(*shape, dtype=dtype), 1e-5 if dtype in ("float32", "complex64") else 1e-12
    t, z = map(np.asarray, phix.jit(ops.schur)(a))
    near(z @ t @ ct(z), a, tolerance)
    near(ct(z) @ z, np.broadcast_to(np.eye(shape[-1]), shape), tolerance)
    near(np.tril(t, -1 if dtype[0] == "c" else -2), np.zeros(shape))
    near(phix.jit(lambda a: ops.schur(a)[0])(a), t)


# -- what is made of them ------------------------------------------------------------------------
def test_pinv_of_a_matrix_of_less_than_full_rank() -> None:
    a = normal(5, 2) @ normal(2, 4)
    near(phix.linalg.pinv(a), np.linalg.pinv(a), 1e-8)
    symmetric = a[:4] @ a[:4].T
    near(phix.linalg.pinv(symmetric, hermitian=True), np.linalg.pinv(symmetric, 1e-12), 1e-8)
    assert phix.linalg.matrix_rank(a).item() == 2
    assert phix.linalg.matrix_rank(symmetric, hermitian=True).item() == 2
    assert phix.linalg.matrix_rank(np.eye(3), tol=[0.5, 2.0]).tolist() == [3, 0]
    left, right = normal(5, 2), normal(2, 4)

    def f(left: Any) -> Any:  # the rank stays
        return _squares(phix.linalg.pinv(ops.matmul(left, right)))

    check_derivatives(f, left, 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lstsq_is_that_of_numpy(dtype: str) -> None:
    for m, n in ((5, 3), (3, 5), (4, 4)):
        a, b = normal(m, n, dtype=dtype), normal(m, 2, dtype=dtype)
        for found, wanted in zip(phix.linalg.lstsq(a, b), np.linalg.lstsq(a, b, rcond=None)):
            near(found, wanted)
        near(phix.linalg.lstsq(a, b[:, 0]).x, np.linalg.lstsq(a, b[:, 0], rcond=None)[0])
        for driver in ("gels", "gelsy", "gelss"):
            near(ops.lstsq(a, b, 1e-9, driver)[0], np.linalg.pinv(a) @ b)
    deficient = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])
    found = phix.linalg.lstsq(deficient, np.array([1.0, 2.0, 3.0]))
    near(found.x, [0.5, 0.5])
    assert found.rank.item() == 1 and found.residuals.tolist() == [pytest.approx(9.0)]
    sides = normal(5, 2)
    check_derivatives(lambda a: _squares(phix.linalg.lstsq(a, sides).x), normal(5, 3))
    check_derivatives(lambda a: _squares(ops.lstsq(a, sides)[0]), normal(5, 3))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_expm_is_that_of_scipy(dtype: str) -> None:
    a = normal(3, 4, 4, dtype=dtype) * np.array([1e-3, 1.0, 30.0])[:, None, None]
    wanted = scipy.linalg.expm(a)
    for found, w in zip(np.asarray(phix.linalg.expm(a)), wanted):
        near(found / np.abs(w).max(), w / np.abs(w).max(), 1e-10)
    check_derivatives(lambda a: _squares(phix.linalg.expm(a)), a[1] / 2)
    v = normal(4, 4, dtype=dtype)
    near(phix.jvp(ops.expm, (a[1],), (v,))[1], scipy.linalg.expm_frechet(a[1], v)[1], 1e-9)
    assert phix.linalg.expm(np.zeros((0, 0))).shape == (0, 0)
    assert np.isnan(np.asarray(phix.linalg.expm(np.full((2, 2), np.nan)))).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_sqrtm_is_that_of_scipy(dtype: str) -> None:
    a = normal(2, 3, 3, dtype=dtype)
    a = 4 * np.eye(3) + a / np.abs(a).max()  # rows sum up to less than 4: no eigenvalue is below 0
    a[1] = np.diag([1e-8, 1.0, 1e8]) + np.diag([1.0], 2)
    for found, x in zip(np.asarray(phix.linalg.sqrtm(a)), a):
        near(found, scipy.linalg.sqrtm(x), 1e-8)
    if dtype == "float64":
        x, v = a[0], normal(3, 3)
        root = scipy.linalg.sqrtm(x)
        rate = phix.jvp(ops.sqrtm, (x,), (v,))[1]
        near(rate, scipy.linalg.solve_sylvester(root, root, v), 1e-9)
        check_derivatives(lambda a: _squares(phix.linalg.sqrtm(a)), x[:2, :2])


def test_what_has_no_principal_square_root_has_none() -> None:
    none = np.array(
        [[[-1.0, 0], [0, 2]], [[1, 1], [1, 1]], [[0, 0], [0, 0]], [[np.nan, 1], [0, 1]]]
    )
    assert np.isnan(np.asarray(phix.linalg.sqrtm(none))).any((1, 2)).all()
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    near(phix.linalg.sqrtm(turn), (turn + np.eye(2)) / np.sqrt(2))
    assert phix.linalg.sqrtm(np.zeros((0, 0))).shape == (0, 0)


ORDERS: list[Any] = [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_norms_are_those_of_numpy(dtype: str) -> None:
    x, tolerance = normal(2, 3, 4, dtype=dtype), 1e-5
    for order in ORDERS:
        near(phix.linalg.norm(x[0], order), np.linalg.norm(x[0], order), tolerance)
        found = phix.linalg.norm(x, order, (2, 0), True)
        near(found, np.linalg.norm(x, order, (2, 0), True), tolerance)
    for order in (None, 0, 1, 3.5, -1, math.inf, -math.inf):
        near(phix.linalg.norm(x, order, 1), np.linalg.norm(x, order, 1), tolerance)
    near(phix.linalg.norm(x), np.linalg.norm(x), tolerance)
    near(phix.linalg.vector_norm(x, axis=(0, 2), ord=3),
         (np.abs(x) ** 3).sum((0, 2)) ** (1 / 3), tolerance)  # fmt: skip
    near(phix.linalg.matrix_norm(x, ord="nuc", keepdims=True),
         np.linalg.norm(x, "nuc", (1, 2), True), tolerance)  # fmt: skip
    square = x[:, :, :3]
    for order in ORDERS:
        near(phix.linalg.cond(square, order), np.linalg.cond(square, order), 1e-3)
    near(phix.linalg.cond(x), np.linalg.cond(x), 1e-3)
    assert (
        phix.linalg.cond(np.zeros((2, 2))).item()
        == phix.linalg.cond(np.zeros((2, 2)), 1).item()
        == math.inf
    )


def test_wrong_norms_are_refused() -> None:
    for call in (
        lambda: phix.linalg.norm(np.ones((2, 2)), 3),
        lambda: phix.linalg.norm(np.ones(2), "nuc"),
        lambda: phix.linalg.norm(np.ones((2, 2)), axis=2),
        lambda: phix.linalg.norm(np.ones((2, 2)), axis=(0, 0)),
        lambda: phix.linalg.cross(np.ones(3), np.ones(3), 9),
        lambda: phix.linalg.tensordot(np.ones(3), np.ones(3), 2),
    ):
        with pytest.raises(AttributeValueError, match=r"norm|cross|tensordot"):
            call()
    for call in (
        lambda: phix.linalg.norm(np.ones((2, 2, 2)), 1),
        lambda: phix.linalg.matrix_norm(np.ones(2)),
        lambda: phix.linalg.outer(np.ones(2), np.ones((2, 2))),
    ):
        with pytest.raises(ShapeError, match=r"norm|outer"):
            call()


# -- products and norms of Paddle's table --------------------------------------------------------
def test_cross_takes_the_first_axis_of_three() -> None:
    x, y = normal(2, 3, 3), normal(2, 3, 3)
    near(ops.cross(x, y), np.cross(x, y, axis=1))
    near(phix.linalg.cross(x, y[0]), np.cross(x, y[0]))


def test_multi_dot_multiplies_in_the_order_of_least_work() -> None:
    shapes = [(2, 50), (50, 3), (3, 40), (40, 2)]
    arrays = [normal(*s) for s in shapes]
    near(phix.linalg.multi_dot(arrays), np.linalg.multi_dot(arrays))
    graph = str(phix.jit(lambda *a: ops.multi_dot(a)).lower(*arrays).graph)
    assert "float64[50, 40]" not in graph and "float64[2, 3]" in graph


def test_infinite_distances_and_short_slices() -> None:
    x, y = normal(3, 4), normal(3, 4)
    for p in (0.0, 1.0, math.inf, -math.inf):
        near(ops.dist(x, y, p), np.linalg.norm((x - y).ravel(), p))
    near(ops.renorm(x, 2.0, 0, 1e3), x)
    near(ops.norm(np.zeros((2, 3)), 1, 0.0, False), np.zeros((2, 3)))
    near(phix.grad(lambda x: ops.norm(x, 0, 1e-12, False).sum())(np.zeros(3)), np.full(3, 1e6))
