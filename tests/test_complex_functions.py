"""Functions of complex numbers at their cuts and edges, and derivatives next to them."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised

NUMPY = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10,
}  # fmt: skip
ENDS = [0.0, -0.0, 0.5, -0.5, 2.0, -2.0, np.inf, -np.inf]


def _points() -> np.ndarray:
    out = np.empty(len(ENDS) ** 2, complex)
    out.real, out.imag = (v.ravel() for v in np.meshgrid(ENDS, ENDS))
    return out


@pytest.mark.parametrize("name", NUMPY)
def test_both_sides_of_a_cut(name: str) -> None:
    """NumPy's values, the signs of zeros included."""
    x = _points()
    with np.errstate(all="ignore"):
        wanted = NUMPY[name](x)
    found = np.asarray(getattr(ops, name)(x))
    for part in ("real", "imag"):
        f, w = getattr(found, part), getattr(wanted, part)
        kept = ~np.isnan(w)
        np.testing.assert_allclose(f[kept], w[kept], rtol=4e-16, atol=1e-300)
        zeros = kept & (w == 0) & ~np.isinf(x.real) & ~np.isinf(x.imag)
        np.testing.assert_array_equal(np.signbit(f[zeros]), np.signbit(w[zeros]), str(x[zeros]))


INF, NAN, PI = np.inf, np.nan, np.pi
# Of a + b i, the sizes of the result's parts, by the array API standard, which repeats C's annex G.
SPECIAL = {
    "exp": [(INF, 0, INF, 0), (-INF, INF, 0, 0), (INF, INF, INF, NAN), (-INF, NAN, 0, 0),
            (INF, NAN, INF, NAN), (NAN, 0, NAN, 0), (NAN, 2, NAN, NAN)],
    "expm1": [(0, 0, 0, 0), (INF, 0, INF, 0), (-INF, 2, 1, 0), (-INF, INF, 1, 0),
              (INF, INF, INF, NAN), (-INF, NAN, 1, 0), (INF, NAN, INF, NAN), (NAN, 0, NAN, 0)],
    "cosh": [(0, 0, 1, 0), (0, INF, NAN, 0), (0, NAN, NAN, 0), (INF, 0, INF, 0),
             (INF, INF, INF, NAN), (INF, NAN, INF, NAN), (NAN, 0, NAN, 0), (NAN, 2, NAN, NAN)],
    "sinh": [(0, 0, 0, 0), (0, INF, 0, NAN), (0, NAN, 0, NAN), (INF, 0, INF, 0),
             (INF, INF, INF, NAN), (INF, NAN, INF, NAN), (NAN, 0, NAN, 0), (NAN, 2, NAN, NAN)],
    "tanh": [(0, 0, 0, 0), (0, INF, 0, NAN), (0, NAN, 0, NAN), (INF, 2, 1, 0), (INF, INF, 1, 0),
             (INF, NAN, 1, 0), (NAN, 0, NAN, 0), (NAN, 2, NAN, NAN), (40, INF, NAN, NAN)],
    "acosh": [(0, 0, 0, PI / 2), (2, INF, INF, PI / 2), (0, NAN, NAN, PI / 2), (-INF, 2, INF, PI),
              (INF, 2, INF, 0), (-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4),
              (INF, NAN, INF, NAN), (NAN, 2, NAN, NAN), (NAN, INF, INF, NAN)],
    "acos": [(0, 0, PI / 2, 0), (0, NAN, PI / 2, NAN), (2, INF, PI / 2, INF), (-INF, 2, PI, INF),
             (INF, 2, 0, INF), (-INF, INF, 3 * PI / 4, INF), (INF, INF, PI / 4, INF),
             (INF, NAN, NAN, INF), (NAN, 2, NAN, NAN), (NAN, INF, NAN, INF)],
    "asinh": [(0, 0, 0, 0), (2, INF, INF, PI / 2), (INF, 2, INF, 0), (INF, INF, INF, PI / 4),
              (INF, NAN, INF, NAN), (NAN, 0, NAN, 0), (NAN, 2, NAN, NAN), (NAN, INF, INF, NAN)],
    "atanh": [(0, 0, 0, 0), (0, NAN, 0, NAN), (1, 0, INF, 0), (2, INF, 0, PI / 2),
              (INF, 2, 0, PI / 2), (INF, INF, 0, PI / 2), (INF, NAN, 0, NAN), (NAN, 2, NAN, NAN),
              (NAN, INF, 0, PI / 2), (NAN, 1e30, NAN, NAN), (1e30, NAN, NAN, NAN)],
    "log": [(-0.0, 0, INF, PI), (0, 0, INF, 0), (2, INF, INF, PI / 2), (-INF, 2, INF, PI),
            (INF, 2, INF, 0), (-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4),
            (INF, NAN, INF, NAN), (NAN, 2, NAN, NAN), (NAN, INF, INF, NAN)],
    "log1p": [(-1, 0, INF, 0), (2, INF, INF, PI / 2), (-INF, 2, INF, PI), (INF, 2, INF, 0),
              (-INF, INF, INF, 3 * PI / 4), (INF, INF, INF, PI / 4), (INF, NAN, INF, NAN),
              (NAN, 2, NAN, NAN), (NAN, INF, INF, NAN)],
    "sqrt": [(0, 0, 0, 0), (2, INF, INF, INF), (-INF, 2, 0, INF), (INF, 2, INF, 0),
             (-INF, NAN, NAN, INF), (INF, NAN, INF, NAN), (NAN, 2, NAN, NAN), (NAN, INF, INF, INF),
             (1e30, 1e-20, 1e15, 5e-36)],
}  # fmt: skip
TURNED = {"sin": "sinh", "tan": "tanh", "asin": "asinh", "atan": "atanh"}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_are_those_of_the_standard(name: str) -> None:
    rows = np.array([*SPECIAL[name], (NAN, NAN, NAN, NAN)])
    if name not in ("log", "log1p", "sqrt", "asinh", "atanh", "acosh", "acos"):
        rows = np.concatenate([rows, [(2, INF, NAN, NAN)]])
    rows = np.concatenate([rows, [(2, NAN, NAN, NAN)]])
    for dtype in ("complex64", "complex128"):
        for sign in (1, -1):
            x = np.empty(len(rows), dtype)
            x.real, x.imag = rows[:, 0], sign * rows[:, 1]
            found = np.asarray(getattr(ops, name)(x))
            sizes = np.abs(np.stack([found.real, found.imag], 1))
            np.testing.assert_allclose(sizes, rows[:, 2:], rtol=1e-6, atol=0, err_msg=str(x))


@pytest.mark.parametrize("name", TURNED)
def test_angles_are_turned_hyperbolic_ones(name: str) -> None:
    """f(x) = -i g(i x), the signs of zeros included; cos(x) = cosh(i x)."""
    parts = [0.0, -0.0, 0.5, -2.0, INF, -INF, NAN]
    x = np.array([complex(a, b) for a in parts for b in parts])
    turned = np.array([complex(-v.imag, v.real) for v in x])
    found, other = (
        np.asarray(f) for f in (getattr(ops, name)(x), getattr(ops, TURNED[name])(turned))
    )
    for a, b in ((found.real, other.imag), (found.imag, -other.real)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[a == 0]), np.signbit(b[a == 0]))
    np.testing.assert_array_equal(ops.cos(x).numpy(), ops.cosh(turned).numpy())


SMALL = {"log1p": mpmath.log1p, "expm1": mpmath.expm1}


def test_log1p_beside_its_pole() -> None:
    """log |1 + x| by a hypotenuse, also where |1 + x|^2 is below all numbers."""
    for dtype, sizes in (("complex64", (1e-23, 1e-40, 0.2)), ("complex128", (1e-200, 1e-310, 0.2))):
        x = np.array([complex(a, b) for b in sizes for a in (-1, -1.25, -0.5)], dtype)
        found = np.asarray(ops.log1p(x))
        a, b = x.real.astype(float) + 1, x.imag.astype(float)
        np.testing.assert_allclose(found.real, np.log(np.hypot(a, b)), rtol=np.finfo(dtype).eps * 4)
        np.testing.assert_allclose(found.imag, np.arctan2(b, a), rtol=np.finfo(dtype).eps * 4)


@pytest.mark.parametrize("name", SMALL)
def test_small_beside_one(name: str) -> None:
    """Each part has its digits, where |1 + x| is almost 1 too."""
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-30, 1, (2, 40))) * rng.choice([-1, 1], (2, 40))
    angle = rng.uniform(0.1, 3, 20)
    x = np.concatenate([sizes[0] + 1j * sizes[1], np.cos(angle) - 1 + 1j * np.sin(angle)])
    found = np.asarray(getattr(ops, name)(x))
    with mpmath.workdps(60):
        wanted = [SMALL[name](mpmath.mpc(complex(v))) for v in x]
        real, imag = (np.array([float(getattr(w, p)) for w in wanted]) for p in ("real", "imag"))
    if name == "expm1":  # its real part vanishes on a curve
        np.testing.assert_allclose(found, real + 1j * imag, rtol=1e-15)
    else:
        np.testing.assert_allclose(found.real, real, rtol=1e-14)
    np.testing.assert_allclose(found.imag, imag, rtol=1e-15)


def _slope(f: Any, x: np.ndarray) -> np.ndarray:
    """f', in the convention that cotangents are conj(f') times what comes in."""
    return np.asarray(phix.grad(lambda x: ops.real(f(x)).sum())(x)).conj()


def test_slopes_next_to_branch_points_and_far_out() -> None:
    near, far = 1e-9 + 1e-9j, 1e200 - 2e200j
    np.testing.assert_allclose(
        _slope(ops.asin, np.array([1 + near])), 1 / np.sqrt(-near * (2 + near))
    )
    np.testing.assert_allclose(
        _slope(ops.acosh, np.array([-3 + 1j])), 1 / (np.sqrt(-4 + 1j) * np.sqrt(-2 + 1j))
    )
    np.testing.assert_allclose(_slope(ops.atan, np.array([1j + near])), 1 / (near * (near + 2j)))
    for f in (ops.asin, ops.asinh, ops.acosh):
        assert abs(_slope(f, np.array([far]))[0] * far) == pytest.approx(1, rel=1e-12)


CUTS = {"asin": (2, -2), "acos": (2, -2), "acosh": (-2, 0.5), "atanh": (2,), "log": (-2,)}


@pytest.mark.parametrize("name", [*CUTS, "asinh"])
def test_slopes_on_both_sides_of_a_cut(name: str) -> None:
    f = getattr(ops, name)
    cuts = np.array(CUTS.get(name, (2, -2)), float)
    x, beside = np.empty((2, len(cuts)), complex), np.empty((2, len(cuts)), complex)
    for array, away in ((x, 0.0), (beside, 1e-12)):
        array.real, array.imag = cuts, np.array([[away], [-away]])
        if name == "asinh":  # its cuts are on the other axis
            array.real, array.imag = array.imag.copy(), array.real.copy()
    np.testing.assert_allclose(_slope(f, x), _slope(f, beside), rtol=1e-10, atol=1e-10)


def test_the_sigmoid_neither_overflows_nor_cancels() -> None:
    pole = 1j * np.pi
    x = np.array([800 + 1j, -800 + 1j, -60 + 2j, pole + 1e-8])
    found = np.asarray(ops.sigmoid(x))
    with mpmath.workdps(50):
        wanted = [complex(1 / (1 + mpmath.exp(-mpmath.mpc(complex(v))))) for v in x]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert np.isfinite(_slope(ops.silu, x)).all()


def test_directions_at_the_edges() -> None:
    """NumPy's values; the derivative turns by what lies across x, also where squares overflow."""
    x = np.array([np.inf + 1j, -1 - np.inf * 1j, 5e-324, 1e308 + 1e308j, 0, -0.0])
    x[1] = complex(-1, -np.inf)
    np.testing.assert_allclose(ops.sign(x), np.sign(x), rtol=4e-16)
    assert np.isnan(np.asarray(ops.sign(np.array([complex(np.inf, np.inf)])))).all()
    x = np.array([3 + 4j, 3e200 + 4e200j, 3e-200 + 4e-200j, 0])
    turned = phix.jvp(ops.sign, (x,), (x * (2 + 1j),))[1]
    np.testing.assert_allclose(turned, np.sign(x) * 1j, rtol=1e-15, atol=1e-15)
    moved = phix.jvp(ops.softsign, (x[:1],), (x[:1] * (2 + 1j),))[1]
    np.testing.assert_allclose(moved, x[:1] * (2 / 36 + 1j / 6), rtol=1e-14)


def test_softplus_is_a_principal_logarithm_below_its_threshold() -> None:
    x = np.array([1 + 9j, -50 + 2j, 700 + 9j, 900 - 4j, 30 - 0.5j])
    near = x.imag - 2 * np.pi * np.round(x.imag / (2 * np.pi))
    with np.errstate(over="ignore"):
        wanted = np.where(x.real > 40, x.real + 1j * near, np.log1p(np.exp(x)))
    wanted[1] = np.exp(x[1])  # of which NumPy loses the real part
    np.testing.assert_allclose(ops.softplus(x, 1.0, 1e9), wanted, rtol=1e-14)
    np.testing.assert_allclose(ops.logsigmoid(-x), -wanted, rtol=1e-14)
    np.testing.assert_array_equal(np.asarray(ops.softplus(x))[2:], x[2:])
    np.testing.assert_allclose(
        _slope(lambda x: ops.softplus(x, 2.0, 1e9), x), np.asarray(ops.sigmoid(2 * x)), rtol=1e-14
    )
