"""QR, singular values and eigenvalues of small real matrices, side by side in lanes.

What is expected comes from NumPy's LAPACK, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.lowering.factorisation import SMALL

RNG = np.random.default_rng(11)
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}
SHAPES = [(1, 1, 1), (5, 3, 3), (40, 8, 8), (33, 2, 7), (17, 7, 2), (3, 2, 5, 4), (4, 1, 6), (8, 5)]


def normal(*dims: int, dtype: str = "float64") -> np.ndarray:
    return RNG.normal(size=dims).astype(dtype)


def arrays(found: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in found]


def transposed(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def sizes(x: np.ndarray) -> np.ndarray:
    """The largest singular value of each matrix, in front of two axes."""
    return np.linalg.norm(x.astype(np.float64), 2, axis=(-2, -1), keepdims=True)


def is_orthonormal(q: np.ndarray, tolerance: float) -> bool:
    return bool(np.abs(transposed(q) @ q - np.eye(q.shape[-1])).max(initial=0.0) < tolerance)


def check_qr(a: np.ndarray) -> None:
    tolerance = 16 * EPSILON[a.dtype.name]
    for mode in ("reduced", "complete"):
        q, r = arrays(phix.linalg.qr(a, mode))
        assert np.all(np.abs(q.astype(float) @ r - a) <= tolerance * sizes(a))
        assert is_orthonormal(q, tolerance) and not np.tril(r, -1).any()
    signs = np.sign(np.diagonal(np.linalg.qr(a.astype(float)).R, 0, -2, -1))
    assert np.array_equal(np.sign(np.diagonal(r, 0, -2, -1)), signs)
    assert np.array_equal(np.asarray(phix.linalg.qr(a, "r")), arrays(phix.linalg.qr(a))[1])


def check_svd(a: np.ndarray) -> None:
    tolerance, k = 16 * EPSILON[a.dtype.name], min(a.shape[-2:])
    wanted = np.linalg.svd(a.astype(float), compute_uv=False)
    for full in (False, True):
        u, s, vh = arrays(phix.linalg.svd(a, full))
        made = u[..., :k].astype(float) * s[..., None, :] @ vh[..., :k, :]
        assert np.all(np.abs(made - a) <= tolerance * sizes(a))
        assert is_orthonormal(u, tolerance) and is_orthonormal(transposed(vh), tolerance)
        assert np.all(np.abs(s - wanted) <= tolerance * sizes(a)[..., 0])
        assert np.all(np.diff(s) <= 0) and np.all(s >= 0)
    assert np.array_equal(np.asarray(phix.linalg.svdvals(a)), s)


def check_eigh(a: np.ndarray) -> None:
    tolerance = 16 * EPSILON[a.dtype.name]
    wanted = np.linalg.eigvalsh(a.astype(float))
    w, v = arrays(phix.linalg.eigh(a))
    assert np.all(
        np.abs(v.astype(float) * w[..., None, :] @ transposed(v) - a) <= tolerance * sizes(a)
    )
    assert is_orthonormal(v, tolerance) and np.all(np.diff(w) >= 0)
    assert np.all(np.abs(w - wanted) <= tolerance * sizes(a)[..., 0])
    assert np.array_equal(np.asarray(phix.linalg.eigvalsh(a)), w)


@pytest.mark.unoptimised(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_as_exact_as_a_lapack_s(shape: tuple[int, ...], dtype: str) -> None:
    a = normal(*shape, dtype=dtype)
    check_qr(a)
    check_svd(a)
    side = max(shape[-2:])
    square = normal(*shape[:-2], side, side, dtype=dtype)
    check_eigh(square + transposed(square))


def special_matrices(dtype: str) -> dict[str, np.ndarray]:
    """Of 4 x 4, symmetric: what many algorithms stumble over."""
    eye, q = np.eye(4), np.linalg.qr(normal(4, 4)).Q
    tiny, huge = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max) / 8
    found = {
        "zero": 0 * eye,
        "identity": eye,
        "diagonal, not in order": np.diag([2.0, -1.0, 3.0, 0.0]),
        "exchange": eye[::-1].copy(),
        "ones": np.ones((4, 4)),
        "twice the same values": q @ np.diag([1.0, 1.0, 2.0, 2.0]) @ q.T,
        "rank of 1": np.outer(q[0], q[0]),
        "rank of 2": q @ np.diag([0.0, 3.0, 0.0, -3.0]) @ q.T,
        "nearly diagonal": np.diag([1.0, 2.0, 3.0, 4.0]) + 1e-9 * np.ones((4, 4)),
        "of other sizes": q @ np.diag([1e-12, 1.0, 1e-6, 1e3]) @ q.T,
        "huge": huge * (q + q.T) / 4,
        "tiny": 64 * tiny * (q + q.T),
        "subnormal": np.array([[2, 1, 0, 0], [1, -3, 0, 0], [0, 0, 5, 4], [0, 0, 4, 0]]) * tiny / 8,
        "negative zeros": -0.0 * np.ones((4, 4)),
    }  # fmt: skip
    return {name: ((m + m.T) / 2).astype(dtype) for name, m in found.items()}


@pytest.mark.unoptimised(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", special_matrices("float64"))
def test_matrices_that_are_special(name: str, dtype: str) -> None:
    """Beside others; their size is brought to 1 for what is compared, exactly."""
    a = special_matrices(dtype)[name]
    size = float(np.abs(a).max()) or 1.0
    power = 2.0 ** -np.floor(np.log2(size))
    others = normal(3, 4, 4, dtype=dtype) * a.dtype.type(0.25 / power)
    whole = np.stack([*(others + transposed(others)), a])
    tolerance = 16 * EPSILON[dtype] if name != "subnormal" else 0.5
    big = whole.astype(float) * power  # as large as 1, in float64, where all is to be seen
    bound = tolerance * np.maximum(sizes(big), 1.0)
    w, v = arrays(phix.linalg.eigh(whole))
    assert is_orthonormal(v, 16 * EPSILON[dtype])
    assert np.all(
        np.abs(v.astype(float) * (w * power)[..., None, :] @ transposed(v) - big) <= bound
    )
    u, s, vh = arrays(phix.linalg.svd(whole, True))
    assert is_orthonormal(u, 16 * EPSILON[dtype]) and is_orthonormal(vh, 16 * EPSILON[dtype])
    assert np.all(np.abs(u.astype(float) * (s * power)[..., None, :] @ vh - big) <= bound)
    q, r = arrays(phix.linalg.qr(whole))
    assert is_orthonormal(q, 16 * EPSILON[dtype])
    assert np.all(np.abs(q.astype(float) @ (r * power) - big) <= bound)


@pytest.mark.unoptimised(4)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_own_matrix_alone(bad: float) -> None:
    a = normal(6, 3, 3)
    a = a + transposed(a)
    clean = arrays([*phix.linalg.eigh(a), *phix.linalg.svd(a), *phix.linalg.qr(a)])
    a[2, 1, 1] = bad
    found = arrays([*phix.linalg.eigh(a), *phix.linalg.svd(a), *phix.linalg.qr(a)])
    for x, y in zip(found, clean):
        assert np.array_equal(np.delete(x, 2, 0), np.delete(y, 2, 0))
    assert all(np.isnan(x[2]).all() for x in found[:5])
    assert np.isnan(found[5][2]).any()


@pytest.mark.unoptimised(4)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_the_other_triangle_is_not_read(uplo: str) -> None:
    a = normal(5, 6, 6)
    half = np.tril(a) if uplo == "L" else np.triu(a)
    spoiled = np.where(half == 0, np.nan, half)
    w, v = arrays(phix.linalg.eigh(spoiled, uplo))
    whole = half + transposed(half) - np.eye(6) * a
    np.testing.assert_allclose(w, np.linalg.eigvalsh(whole), rtol=0, atol=1e-13)
    np.testing.assert_allclose(v * w[:, None] @ transposed(v), whole, rtol=0, atol=1e-13)


FACTORS = [ops.qr, ops.svd, ops.eigh]


@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_matrix_sees_its_neighbours(factor: Any, dtype: str) -> None:
    """The same bits alone, among few, among many, compiled, mapped, of a batch of unknown size."""
    a = normal(70, 5, 5, dtype=dtype)
    a = a + transposed(a)
    a[::7] *= 1e-3
    a[3] = 0
    whole = arrays(factor(a))
    several = {
        "alone": [np.stack(x) for x in zip(*(arrays(factor(m)) for m in a))],
        "few": [np.concatenate(x) for x in zip(*(arrays(factor(m)) for m in np.split(a, 14)))],
        "compiled": arrays(phix.jit(factor)(a)),
        "mapped": arrays(phix.jit(phix.vmap(factor))(a)),
        "unknown": arrays(phix.jit(factor, input_spec=[phix.spec(["n", 5, 5], dtype)])(a)),
        "unknown size": arrays(phix.jit(factor, input_spec=[phix.spec([-1, -1, -1], dtype)])(a)),
    }
    for way, found in several.items():
        for x, y in zip(found, whole):
            assert x.tobytes() == y.tobytes(), way


@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: f.__name__)
def test_one_program_for_small_and_large_matrices(factor: Any) -> None:
    """Of unknown size: as alone, to the bit, whichever way it goes, and where a size is 0."""
    square = factor is ops.eigh
    spec = phix.spec([-1, "n", "n"] if square else [-1, "m", "n"], "float64")
    run = phix.jit(factor, input_spec=[spec])
    for dims in [(3, 4, 4), (2, 8, 3), (2, 3, 8), (5, 1, 1), (2, 12, 5), (2, 9, 9), (2, 0, 3)]:
        dims = (dims[0], dims[1], dims[1]) if square else dims
        a = normal(*dims)
        a = a + transposed(a) if square else a
        for x, y in zip(arrays(run(a)), arrays(factor(a))):
            assert x.shape == y.shape and x.tobytes() == y.tobytes(), dims


def test_no_matrices_at_all() -> None:
    found = arrays([*ops.qr(np.ones((0, 3, 2))), *ops.svd(np.ones((0, 3, 2))),
                    *ops.eigh(np.ones((0, 2, 2)))])  # fmt: skip
    shapes = [(0, 3, 2), (0, 2, 2), (0, 3, 2), (0, 2), (0, 2, 2), (0, 2), (0, 2, 2)]
    assert [x.shape for x in found] == shapes


@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: f.__name__)
def test_a_lapack_takes_what_is_large_or_complex(factor: Any) -> None:
    def calls(x: np.ndarray, **options: Any) -> bool:
        lowered = phix.jit(factor, **options).lower(x)
        return any(name in lowered.sections["loop ir"] for name in ("geqrf", "gesdd", "evd_"))

    side, large = np.ones((4, SMALL, SMALL)), np.ones((4, SMALL + 1, SMALL + 1))
    assert not calls(side) and not calls(side[0])
    assert calls(large) and calls(side + 0j) and calls(side, disable="matrices_in_lanes")


@pytest.mark.unoptimised(4)
def test_gradients_through_small_factors() -> None:
    """The nearest rotation to a matrix: its derivative is orthogonal to what only stretches."""

    def rotation(a: Any) -> Any:
        u, _, vh = phix.linalg.svd(a)
        return u @ vh

    a = normal(9, 3, 3) + 2 * np.eye(3)
    v, step = normal(9, 3, 3), 1e-6
    slope = np.asarray(phix.jit(lambda a, v: phix.jvp(rotation, (a,), (v,))[1])(a, v))
    wanted = (np.asarray(rotation(a + step * v)) - np.asarray(rotation(a - step * v))) / (2 * step)
    np.testing.assert_allclose(slope, wanted, rtol=0, atol=1e-8)
    turned = transposed(np.asarray(rotation(a))) @ slope
    np.testing.assert_allclose(turned, -transposed(turned), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [4, 2 * SMALL])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("factor", [phix.linalg.qr, phix.linalg.svd, phix.linalg.eigh])
def test_matrices_that_lie_in_more_axes(factor: Any, dtype: str, size: int) -> None:
    """They are read where they lie: no dims of the memory say how far apart two matrices are."""
    x = normal(5, size // 2, 2, 2, size // 2, dtype=dtype)
    function = lambda x: factor(x.reshape(5, size, size))  # noqa: E731
    for found, expected in zip(arrays(phix.jit(function)(x)), arrays(function(x))):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("factor", FACTORS, ids=lambda f: f.__name__)
def test_llvm_says_nothing_of_a_few_matrices(
    factor: Any, count: int, dtype: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")
    a = normal(count, 4, 4, dtype=dtype)
    a = a + transposed(a)
    found = arrays(phix.jit(lambda a: factor(a))(a))
    assert capfd.readouterr().err == ""
    for k, matrix in enumerate(a):
        for x, y in zip(found, arrays(factor(matrix)), strict=True):
            np.testing.assert_array_equal(x[k], y)
