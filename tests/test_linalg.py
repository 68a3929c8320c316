"""Linear algebra beyond the samples of the op table: sizes, singular matrices, programs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import phix
from phix import ops
from phix.core.errors import ArgumentError, PhixError, ShapeError

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(5)


def regular(*dims: int, dtype: str = "float64") -> np.ndarray:
    """Matrices that a factorisation without exchanges would do badly on."""
    x = RNG.normal(size=dims)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=dims)
    return np.flip(x + 2 * np.eye(*dims[-2:]), -2).astype(dtype)


def near(found, wanted, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


# -- values --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 4, 8, 9, 40])
def test_unrolled_and_library_kernels_agree_with_numpy(n: int, dtype: str) -> None:
    a, b = regular(2, n, n, dtype=dtype), regular(n, n, dtype=dtype)[:, :2]
    single = np.dtype(dtype).itemsize in (4, 8) and dtype != "float64"
    tolerance = 2e-3 if single else 1e-9
    near(phix.linalg.solve(a, b), np.linalg.solve(a, b), tolerance)
    near(phix.linalg.inv(a) @ a, np.broadcast_to(np.eye(n), a.shape), tolerance)
    gram = a @ np.conj(np.swapaxes(a, -1, -2)) / n + np.eye(n, dtype=dtype)
    near(phix.linalg.cholesky(gram), np.linalg.cholesky(gram), tolerance)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 5), (20, 20), (30, 12), (12, 30)])
def test_factors_are_those_of_scipy(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape)
    factors, pivots, info = ops.lu(a)
    for found, wanted in zip(ops.lu_unpack(factors, pivots), scipy.linalg.lu(a)):
        near(found, wanted)
    if shape[0] == shape[1]:
        wanted_factors, wanted_pivots = scipy.linalg.lu_factor(a)
        near(factors, wanted_factors)
        assert (np.asarray(pivots) == wanted_pivots + 1).all()
    assert info.item() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 5), (8, 8), (7, 6), (6, 8)])
def test_matrices_of_a_batch_have_the_factors_that_they_have_alone(
    shape: tuple[int, int], dtype: str
) -> None:
    """Bit for bit, singular ones and such with NaN too: in registers and in loops."""
    if dtype.startswith("c"):
        shape = (min(shape[0], 6), min(shape[1], 6))
    a = regular(9, *shape, dtype=dtype)
    a[1, :, 1] = 0
    a[2, 2, 2] = np.nan
    a[3] = np.round(a[3])  # pivots of one size
    a[4] = 0
    factor = phix.jit(ops.lu)
    together = factor(a)
    for k, one in enumerate(a):
        for found, wanted in zip(factor(one), together):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted)[k])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(9, 9), (32, 32), (33, 33), (20, 11), (11, 20)])
def test_factors_of_a_batch_are_those_of_scipy(shape: tuple[int, int], dtype: str) -> None:
    a = regular(6, *shape, dtype=dtype)
    a[5, :, 0] = 0
    factors, pivots, info = ops.lu(a)
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    for k, one in enumerate(a[:5]):
        for found, wanted in zip(ops.lu_unpack(factors[k], pivots[k]), scipy.linalg.lu(one)):
            near(found, wanted, tolerance)
    assert info.tolist() == [0, 0, 0, 0, 0, 1]
    by_name = phix.vmap(lambda x: ops.lu(x)[0])
    any_number = phix.jit(by_name, input_spec=[phix.spec(["n", *shape], dtype)])
    near(any_number(a), factors, tolerance)


@pytest.mark.parametrize("n", [3, 12])
@pytest.mark.parametrize("trans", ["N", "T", "C", 0, 1, 2])
def test_solve_triangular_is_that_of_scipy(n: int, trans: Any) -> None:
    a, b = regular(n, n, dtype="complex128")[::-1] + 3 * np.eye(n), RNG.normal(size=n)
    for lower in (False, True):
        found = phix.linalg.solve_triangular(a, b, lower=lower, trans=trans)
        near(found, scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans))
    with pytest.raises(ArgumentError, match="trans must be"):
        phix.linalg.solve_triangular(a, b, trans="X")


def test_slogdet_has_names() -> None:
    a = regular(12, 12)
    found, wanted = phix.linalg.slogdet(a), np.linalg.slogdet(a)
    near(found.sign, wanted.sign)
    near(found.logabsdet, wanted.logabsdet)


def test_one_matrix_for_a_batch_of_right_hand_sides() -> None:
    a, b = regular(12, 12), RNG.normal(size=(5, 12, 3))
    near(phix.jit(phix.linalg.solve)(a, b), np.linalg.solve(a, b))
    by_rows = phix.vmap(phix.linalg.solve, in_axes=(None, 0))(a, b[..., 0])
    near(by_rows, np.linalg.solve(a, b[..., :1])[..., 0])


# -- singular matrices -----------------------------------------------------------------------------
@pytest.mark.parametrize("n", [3, 12])
def test_a_singular_matrix_gives_no_numbers(n: int) -> None:
    a = regular(2, n, n)
    a[0, -1] = 2 * a[0, 0]
    a[0, :, 1] = 0
    found = np.asarray(phix.linalg.solve(a, np.ones(n)[:, None]))
    assert not np.isfinite(found[0]).all()
    near(found[1], np.linalg.solve(a[1], np.ones((n, 1))))
    assert ops.lu(a)[2].tolist()[1] == 0 < ops.lu(a)[2].tolist()[0]
    sign, logabsdet = phix.linalg.slogdet(a)
    assert sign.tolist()[0] == 0 and logabsdet.tolist()[0] == -np.inf


@pytest.mark.parametrize("n", [3, 12])
def test_an_indefinite_matrix_has_no_cholesky_factor(n: int) -> None:
    a = np.stack([np.eye(n), np.eye(n)])
    a[0, -1, -1] = -1
    found = np.asarray(phix.linalg.cholesky(a))
    lower = np.tril_indices(n)
    assert np.isnan(found[0][lower]).all()
    assert (found[0][np.triu_indices(n, 1)] == 0).all()
    near(found[1], np.eye(n))


def test_pivots_of_no_factorisation_touch_no_other_memory() -> None:
    order = ops.lu_permutation(np.zeros((9, 9)), np.full(9, 10**6, np.int32))
    assert order.tolist() == list(range(9))


def rows_replaced(x: np.ndarray, *rates: np.ndarray) -> float:
    """A derivative of det along ``rates``: the sum over ways to take one row of each of them."""
    total = 0.0
    for rows in itertools.permutations(range(len(x)), len(rates)):
        replaced = x.copy()
        for row, rate in zip(rows, rates):
            replaced[row] = rate[row]
        total += np.linalg.det(replaced)
    return total


def cofactors(x: np.ndarray) -> np.ndarray:
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([rows_replaced(x, unit) for unit in units]).reshape(x.shape)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_derivatives_of_the_determinant_of_a_singular_matrix(rank: int) -> None:
    x = RNG.normal(size=(5, rank)) @ RNG.normal(size=(rank, 5))
    a, b, c = RNG.normal(size=(3, 5, 5))
    slope = phix.grad(phix.linalg.det)
    curve = phix.grad(lambda x: (slope(x) * a).sum())
    near(slope(x), cofactors(x))
    near((curve(x) * b).sum(), rows_replaced(x, a, b))
    near(phix.jvp(phix.linalg.det, (x,), (a,))[1], rows_replaced(x, a))
    if rank == 3:
        third = phix.grad(lambda x: (curve(x) * b).sum())
        near((third(x) * c).sum(), rows_replaced(x, a, b, c))


def test_determinants_of_zero_in_batches_and_for_unknown_sizes() -> None:
    slope = phix.grad(lambda x: phix.linalg.det(x).sum())
    for n in (3, 4):
        x = np.stack([np.zeros((n, n)), RNG.normal(size=(n, n)), np.diag([*range(1, n), 0.0])])
        wanted = np.stack(list(map(cofactors, x)))
        near(slope(x), wanted)
        near(phix.vmap(phix.grad(phix.linalg.det))(x), wanted)
    scaled = phix.vmap(lambda v: phix.grad(lambda x: v * phix.linalg.det(x))(x[2]))(np.arange(3.0))
    near(scaled, np.arange(3.0)[:, None, None] * wanted[2])
    unknown = phix.jit(slope, input_spec=[phix.spec([-1, -1], "float64")])
    for n in (0, 1, 2, 5):
        x = RNG.normal(size=(n, n))
        x[:, -1:] = 0
        near(unknown(x), cofactors(x))
    z = RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4))
    z[3] = 2j * z[0]
    near(phix.vjp(phix.linalg.det, z)[1](1.0 + 0j)[0], np.conj(cofactors(z)))


def along(f, *directions):
    """The derivative of f along one direction after the other, forward over forward."""
    if not directions:
        return f
    *before, last = directions
    return lambda x: phix.jvp(along(f, *before), (x,), (last,))[1]


@pytest.mark.parametrize("rank", [0, 1])
def test_derivatives_of_every_order_at_a_matrix_of_low_rank(rank: int) -> None:
    """At 0 the fourth is det polarised, the sum over permutations; at rank 1 it is det of five
    rows, of which one is of x."""
    n = 4 + rank
    x = np.outer(np.arange(1.0, n + 1), np.ones(n)) * rank
    a, b, c, d = RNG.integers(-3, 4, (4, n, n)).astype(float)

    def found(x):
        slope = phix.grad(along(phix.linalg.det, a, b, c))(x)
        return (slope * d).sum() if rank else along(phix.linalg.det, a, b, c, d)(x)

    near(phix.jit(found)(x), rows_replaced(x, a, b, c, d))


def test_higher_derivatives_near_singular_matrices_keep_their_digits() -> None:
    """det(x) inverse(x)^T would cancel: by 1 / size^2 in the third derivative."""
    left, right = (np.linalg.qr(RNG.normal(size=(5, 5)))[0] for _ in range(2))
    a, b, c = RNG.normal(size=(3, 5, 5))
    third = phix.jit(along(phix.linalg.det, a, b, c))
    for least in (1e-3, 1e-5, 1e-7, 1e-9):
        for before in (left, np.eye(5)):  # one of the second's rows is small
            x = before * [1.0, 0.9, 0.8, 0.7, least] @ right
            np.testing.assert_allclose(third(x), rows_replaced(x, a, b, c), rtol=1e-7)


def test_fourth_derivatives_of_complex_matrices_in_a_batch_of_unknown_size() -> None:
    directions = RNG.normal(size=(4, 4, 4)) + 1j * RNG.normal(size=(4, 4, 4))
    x = np.stack([0j * directions[0], directions[0] + 3 * np.eye(4)])
    third = along(phix.linalg.det, *directions[:3])
    pulled = phix.jit(
        phix.vmap(lambda x: phix.vjp(third, x)[1](1j)[0]),
        input_spec=[phix.spec([-1, 4, 4], "complex128")],
    )(x)
    wanted = [rows_replaced(each, *directions) for each in x]
    near([np.vdot(each, directions[3]) for each in np.asarray(pulled)], -1j * np.array(wanted))


def test_power_series_of_determinants_of_zero() -> None:
    """det(t a + t^2 b): from t^n on, det(a) + t tr(adj(a) b) ..."""
    a, b = RNG.normal(size=(2, 4, 4))
    zero = np.zeros((4, 4))
    _, found = phix.jet(phix.linalg.det, (zero,), ([a, 2 * b, zero, zero, zero],))
    wanted = [0, 0, 0, 24 * np.linalg.det(a), 120 * rows_replaced(a, b)]
    near(np.stack(found), wanted)


@pytest.mark.parametrize("singular", [[], [0, 7, 19], range(18)])
def test_a_few_singular_matrices_among_many(singular: Sequence[int]) -> None:
    """Their cofactors are computed apart; those of the others are as they are alone."""
    x = np.random.default_rng(1).normal(size=(20, 4, 4)) + 3.0 * np.eye(4)
    x[list(singular), 1] = x[list(singular), 2]
    slope = phix.jit(phix.grad(lambda x: phix.linalg.det(x).sum()))
    near(slope(x), np.stack(list(map(cofactors, x))))


def test_a_determinant_of_rows_of_other_sizes_is_not_taken_for_zero() -> None:
    for scale in (np.diag([1e20, 1, 1, 1, 1]), np.diag([1e60, 1e-60, 1e30, 1e-30, 1.0])):
        for x in (scale, scale @ regular(5, 5) @ scale):
            wanted = np.linalg.det(x) * np.linalg.inv(x).T
            np.testing.assert_allclose(phix.grad(phix.linalg.det)(x), wanted, rtol=1e-9)


@pytest.mark.parametrize("f", [phix.linalg.inv, phix.linalg.det, phix.linalg.cholesky])
def test_square_matrices_are_asked_for(f) -> None:
    with pytest.raises(PhixError, match="square matrices"):
        f(np.ones((3, 4)))


# -- programs --------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [3, 10])
def test_the_backward_pass_factors_the_matrix_no_second_time(n: int) -> None:
    def loss(a, b):
        return phix.linalg.solve(a, b).sum()

    lowered = phix.jit(phix.value_and_grad(loss, argnums=(0, 1))).lower(regular(n, n), np.ones(n))
    assert str(lowered.graph).count(" = lu(") == 1


def test_gradient_of_solve_against_its_closed_form() -> None:
    a, b, g = regular(10, 10), RNG.normal(size=10), RNG.normal(size=10)
    to_a, to_b = phix.grad(lambda a, b: (phix.linalg.solve(a, b) * g).sum(), (0, 1))(a, b)
    w = np.linalg.solve(a.T, g)
    near(to_b, w)
    near(to_a, -np.outer(w, np.linalg.solve(a, b)))


def test_log_determinant_as_a_density_is_differentiated() -> None:
    """The gradient of log det(a) is inv(a)^T, and the Hessian along v, -(inv(a) v inv(a))^T."""
    a = regular(10, 10)
    v = RNG.normal(size=(10, 10))

    def slope(a):
        return phix.grad(lambda m: phix.linalg.slogdet(m).logabsdet)(a)

    inverse = np.linalg.inv(a)
    near(phix.jit(slope)(a), inverse.T, 1e-8)
    near(phix.jvp(slope, (a,), (v,))[1], -(inverse @ v @ inverse).T, 1e-7)


@pytest.mark.parametrize("n", [2, 11])
def test_one_program_for_all_sizes(n: int) -> None:
    spec = phix.spec(["n", "n"], "float64")
    solve = phix.jit(
        lambda a, b: phix.linalg.solve(a, b), input_spec=[spec, phix.spec(["n"], "float64")]
    )
    a, b = regular(n, n), RNG.normal(size=n)
    near(solve(a, b), np.linalg.solve(a, b))


def test_solve_inside_a_loop() -> None:
    """Newton's method for x^3 = c, element by element, with a matrix for the derivative."""
    c = np.array([8.0, 27.0, 1.0])

    def root(c):
        def step(i, x):
            return x - phix.linalg.solve(3 * x * x * np.eye(3), x**3 - c)

        return phix.fori_loop(0, 30, step, ops.full((3,), 2.0, "float64"))

    near(phix.jit(root)(c), np.cbrt(c))
    near(phix.jit(phix.grad(lambda c: root(c).sum()))(c), np.cbrt(c) / (3 * c))


def test_taylor_series_of_a_solution() -> None:
    """(1 - t m) x = b has the series of m^k b."""
    m, b = RNG.normal(size=(10, 10)), RNG.normal(size=10)

    def solution(t):
        return phix.linalg.solve(np.eye(10) - t * m, b)

    zero = phix.to_tensor(np.float64(0.0))
    _, series = phix.jet(solution, (zero,), ([np.float64(1.0), None, None, None],))
    power, factorial = b, 1.0
    for k, found in enumerate(series, 1):
        power, factorial = m @ power, factorial * k
        near(found, factorial * power)
    one_factorisation = phix.make_graph(
        lambda t: phix.jet(solution, (t,), ([np.float64(1.0), None, None, None],))
    )(phix.spec([], "float64"))
    assert str(one_factorisation).count(" = lu(") == 1


def test_a_vector_for_each_matrix_or_matrices_for_all() -> None:
    """The op takes Paddle's reading, NumPy's function that of NumPy 2."""
    a = RNG.normal(size=(2, 3, 2, 2)) + 3 * np.eye(2)
    b = RNG.normal(size=(2, 3, 2))
    wanted = np.linalg.solve(a, b[..., None])[..., 0]
    named = [phix.spec(["m", "k", "n", "n"], "float64"), phix.spec(["m", "k", "n"], "float64")]
    for run in (ops.solve, phix.jit(ops.solve, input_spec=named), phix.vmap(ops.solve)):
        near(run(a, b), wanted)
    near(
        ops.solve(a[:, 0], b[:, 0], True),
        np.linalg.solve(a[:, 0].swapaxes(1, 2), b[:, 0, :, None])[..., 0],
    )
    rates = RNG.normal(size=a.shape), RNG.normal(size=b.shape)
    moved = np.linalg.solve(a, rates[1][..., None] - rates[0] @ wanted[..., None])[..., 0]
    near(phix.jvp(ops.solve, (a, b), rates)[1], moved)
    near(phix.jet(ops.solve, (a, b), ([rates[0]], [rates[1]]))[1][0], moved)
    found = phix.vjp(ops.solve, a, b)[1](rates[1])
    near((found[0] * rates[0]).sum() + (found[1] * rates[1]).sum(), (moved * rates[1]).sum())
    square = a[0, :2]
    near(phix.numpy.linalg.solve(square, b[0, :2]), np.linalg.solve(square, b[0, None, :2]))
    near(phix.linalg.inv(a), np.linalg.inv(a))


def test_vectors_or_matrices_that_hang_on_unknown_dims_are_refused() -> None:
    a = np.stack([np.eye(2)] * 3)
    unknown = [phix.spec([-1, 2, 2], "float64"), phix.spec([2, -1], "float64")]
    with pytest.raises(PhixError, match=r"unsqueeze\(y, \[-1\]\)"):
        phix.jit(ops.solve, input_spec=unknown)(a[:2], np.ones((2, 2)))
    matrices = phix.jit(lambda a, b: ops.solve(a, b[None]), input_spec=unknown)
    assert matrices(a, np.ones((2, 5))).shape == (3, 2, 5)
    learnt = phix.jit(ops.solve)
    for count in (3, 2, 4):
        assert learnt(np.stack([np.eye(2)] * count), np.ones((count, 2))).shape == (count, 2)
    with pytest.raises(ShapeError, match=r"write b\[..., None\] for vectors"):
        phix.linalg.solve(a, np.ones((3, 2)))


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, 2, math.inf, -1, -2, -math.inf])
def test_norms_of_unknown_sizes(order: Any) -> None:
    x = regular(5, 5)
    for name in ("norm", "cond"):
        ours, theirs = getattr(phix.numpy.linalg, name), getattr(np.linalg, name)
        found = phix.jit(
            lambda x, f=ours: f(x, order), input_spec=[phix.spec([-1, -1], "float64")]
        )(x)
        near(found, theirs(x, order))


@pytest.mark.parametrize("dims", [(0, 0), (3, 0, 0)])
def test_spectra_of_no_elements_have_gradients(dims: tuple[int, ...]) -> None:
    linalg = phix.numpy.linalg
    for function in (
        linalg.eigvalsh, lambda x: linalg.eigh(x)[1], lambda x: linalg.svd(x)[1]
    ):  # fmt: skip
        total = lambda x, f=function: ops.sum(f(x) ** 2)  # noqa: E731
        for way in (phix.grad(total), phix.jit(phix.grad(total))):
            assert way(np.zeros(dims)).shape == dims
