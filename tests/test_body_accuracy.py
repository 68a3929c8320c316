"""Every pointwise body, compiled, against an independent reference: at most 2 units in the last
place, from subnormal to huge arguments, near what its function is 0 at and where it changes ways.

float32 is compared with float64 of NumPy and SciPy; float64 with the platform's extended float, or
with mpmath where that has none. ``python tests/test_body_accuracy.py`` prints the largest errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

from phix import ops
from phix.kernels.scalar import bodies

REALS = [np.float32, np.float64]
MOST_ULP = 2.0
LONG = np.longdouble
EXTENDED = np.finfo(LONG).nmant > 60
BITS = 160

Reference = Callable[[np.ndarray], np.ndarray]


def _to_long(value: Any) -> np.longdouble:
    high = float(value)
    if not np.isfinite(high) or high == 0:
        return LONG(high)
    return LONG(high) + LONG(float(value - mp.mpf(high)))


def exactly(function: Callable[[Any], Any], bits: int = BITS) -> Reference:
    """An mpmath function of each element; NaN where it has no real value."""

    def computed(x: np.ndarray) -> np.ndarray:
        out = np.full(x.shape, np.nan, LONG)
        with mp.workprec(bits):
            for i, value in enumerate(x):
                try:
                    out[i] = _to_long(function(mp.mpf(float(value))))
                except (ValueError, ZeroDivisionError, TypeError, OverflowError):
                    out[i] = np.nan
        return out

    return computed


def in_long(function: Callable[[np.ndarray], np.ndarray]) -> Reference:
    """A NumPy function in the extended format."""
    return lambda x: function(x.astype(LONG))


def _erf(v: Any) -> Any:
    return mp.erf(v) if abs(v) < 100 else mp.sign(v)


def _erfc(v: Any) -> Any:
    return mp.erfc(v) if abs(v) < 100 else 1 - mp.sign(v)


def _erfcx(v: Any) -> Any:
    if v < 1e4:
        return mp.erfc(v) * mp.exp(v * v)
    return (1 - 1 / (2 * v * v) + 3 / (4 * v**4)) / (v * mp.sqrt(mp.pi))


def _lgamma(v: Any) -> Any:
    if v < 0:
        raise ValueError("beside zeros there it is not held to this")
    return mp.loggamma(v)


def _density(v: Any) -> Any:
    return mp.exp(-v * v / 2) / mp.sqrt(2 * mp.pi) if abs(v) < 100 else mp.mpf(0)


@dataclass(frozen=True)
class Row:
    """Where a body is looked at: an interval for each format, points, and the references.

    ``single`` is the one for float32, if float64 is enough for it; ``slow``: few samples.
    """

    near: tuple[tuple[float, float], tuple[float, float]]
    exact: Reference
    slow: bool = False
    points: tuple[float, ...] = ()
    single: Callable[[np.ndarray], np.ndarray] | None = None


def _numpy(name: str, *near: tuple[float, float], points: tuple[float, ...] = ()) -> Row:
    function = getattr(np, name)
    if EXTENDED:
        return Row(near, in_long(function), points=points)
    other = getattr(mp, {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}.get(
        name, name.replace("arc", "a")))  # fmt: skip
    return Row(near, exactly(other), True, points)


_TRIG = ((-100, 100), (-100, 100))
ROWS: dict[str, Row] = {
    "exp": _numpy("exp", (-110, 95), (-750, 715)),
    "expm1": _numpy("expm1", (-20, 95), (-45, 715)),
    "log": _numpy("log", (0, 4), (0, 4), points=(1,)),
    "log1p": _numpy("log1p", (-1, 4), (-1, 4)),
    "log2": _numpy("log2", (0, 4), (0, 4), points=(1, 2)),
    "log10": _numpy("log10", (0, 4), (0, 4), points=(1, 10)),
    "sqrt": _numpy("sqrt", (0, 10), (0, 10)),
    "rsqrt": Row(((0, 10), (0, 10)), in_long(lambda x: 1 / np.sqrt(x))),
    "reciprocal": Row(((0, 10), (0, 10)), in_long(lambda x: 1 / x)),
    "sinh": _numpy("sinh", (-92, 92), (-715, 715), points=(0.125,)),
    "cosh": _numpy("cosh", (-92, 92), (-715, 715)),
    "tanh": _numpy("tanh", (-12, 12), (-25, 25), points=(0.0625, 0.55)),
    "asinh": _numpy("arcsinh", (-50, 50), (-50, 50)),
    "acosh": _numpy("arccosh", (1, 50), (1, 50), points=(1,)),
    "atanh": _numpy("arctanh", (-1, 1), (-1, 1), points=(0.125, 1)),
    "asin": _numpy("arcsin", (-1, 1), (-1, 1), points=(0.5, 1)),
    "acos": _numpy("arccos", (-1, 1), (-1, 1), points=(-1, 0.5, 1)),
    "atan": _numpy("arctan", (-10, 10), (-10, 10), points=(1,)),
    "sin": Row(_TRIG, exactly(mp.sin, 1300), True),
    "cos": Row(_TRIG, exactly(mp.cos, 1300), True),
    "tan": Row(_TRIG, exactly(mp.tan, 1300), True),
    "erf": Row(((-6, 6), (-7, 7)), exactly(_erf), True, (0.11, 1), sp.erf),
    "erfc": Row(((-6, 11), (-7, 28)), exactly(_erfc), True, (0.5, 1.3), sp.erfc),
    "lgamma": Row(((0, 20), (0, 20)), exactly(_lgamma), True, (1, 2)),
    "erfcx": Row(((-10, 20), (-27, 50)), exactly(_erfcx), True, (0.5, 1), sp.erfcx),
    "ndtr": Row(
        ((-15, 7), (-39, 9)), exactly(lambda v: _erfc(-v / mp.sqrt(2)) / 2), True,
        (-1.8626, -0.77), sp.ndtr,
    ),
    "normal_density": Row(
        ((-15, 15), (-39, 39)), exactly(_density), True,
        (1.1774,), lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    ),
    "erfinv": Row(
        ((-1, 1), (-1, 1)), exactly(lambda v: mp.erfinv(v) if abs(v) < 1 else mp.nan), True,
        (0.0087, 0.9, 1), sp.erfinv,
    ),
}  # fmt: skip

# Bodies with no error at all, or none of their own: tests/test_bodies.py compares these exactly.
EXACT = {
    "abs",
    "add",
    "angle",
    "bitcast",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cast",
    "ceil",
    "complex",
    "conj",
    "copysign",
    "divide",
    "equal",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "greater_equal",
    "greater_than",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "real",
    "remainder",
    "round",
    "scale",
    "sign",
    "subtract",
    "trunc",
    "where",
}
# Of two arguments, or of a parameter: below.
OTHERS = {"atan2", "elementwise_pow", "pow"}
# Near their zeros at negative arguments these lose digits; tests/test_bodies.py has their bounds.
LOOSE = {"digamma", "polygamma"}
# Of whole numbers too: tests/test_special_functions.py has the functions made of them.
WITH_ORDERS = {"scaled_bessel"}


def test_every_body_is_looked_at() -> None:
    groups = [set(ROWS), EXACT, OTHERS, LOOSE, WITH_ORDERS]
    assert set().union(*groups) == set(bodies.names())
    assert sum(map(len, groups)) == len(bodies.names())


def ulp(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|found - exact| in units in the last place of the exact value; inf where kinds differ."""
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(exact), info.tiny).astype(LONG)
        unit = np.ldexp(LONG(1), (np.floor(np.log2(size)) - info.nmant).astype(np.int64))
        error = np.abs(found.astype(LONG) - exact) / unit
        rounded = exact.astype(found.dtype)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(np.isfinite(error), error, np.where(same, 0, np.inf))


def samples(dtype: Any, row: Row, rng: np.random.Generator) -> np.ndarray:
    """Any bits, subnormals, small and middle-sized numbers, the interval, and about the points."""
    n, info = 600 if row.slow else 60_000, np.finfo(dtype)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    low, high = row.near[dtype is np.float64]
    sign = rng.choice([-1.0, 1.0], n)
    found = [
        rng.integers(0, 2 ** (8 * word.itemsize) - 1, n, dtype=word).view(dtype),
        (float(info.smallest_subnormal) * rng.integers(1, 2**23, n // 4)).astype(dtype),
        (sign * np.exp(rng.uniform(-40, 8, n))).astype(dtype),
        rng.uniform(low, high, 2 * n).astype(dtype),
        np.array([0.0, -0.0, 1, -1, info.max, info.tiny, np.nextafter(dtype(1), dtype(2))], dtype),
    ]
    for p in row.points:
        away = np.exp(rng.uniform(-37, -1, n // 2)) * sign[: n // 2]
        found += [(p * (1 + away)).astype(dtype), np.array([p, -p], dtype)]
    x = np.concatenate(found)
    return x[np.isfinite(x)]


def hard_angles(dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """The numbers nearest to multiples of pi/2, of every size."""
    found = []
    with mp.workprec(1300):
        for size in np.linspace(0, np.finfo(dtype).maxexp - 2, 150):
            k = mp.floor(mp.mpf(2) ** float(size) * (1 + mp.mpf(float(rng.random()))))
            found.append(float(k * mp.pi / 2))
    x = np.array(found).astype(dtype)
    return np.concatenate([x, -x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])


def errors(name: str, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arguments, what the compiled body finds, and its error in ulp, where there is a value."""
    row, rng = ROWS[name], np.random.default_rng(seed)
    if dtype is np.float32 and row.single is not None:
        wide = Row(row.near, row.exact, False, row.points)
        x = samples(dtype, wide, rng)
        exact = np.asarray(row.single(x.astype(np.float64))).astype(LONG)
    else:
        x = samples(dtype, row, rng)
        if name in ("sin", "cos", "tan"):
            x = np.concatenate([x, hard_angles(dtype, rng)])
        with np.errstate(all="ignore"):
            exact = row.exact(x)
    found = np.asarray(getattr(ops, name)(x))
    kept = ~np.isnan(exact)
    return x[kept], found[kept], ulp(found[kept], exact[kept])


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("name", ROWS)
def test_a_body_is_within_two_units_in_the_last_place(name, dtype, seed) -> None:
    x, found, error = errors(name, dtype, seed)
    worst = error.argmax()
    assert error[worst] <= MOST_ULP, f"{error[worst]} ulp at {x[worst]!r}: {found[worst]!r}"


@pytest.mark.one_in(2)
@pytest.mark.skipif(not EXTENDED, reason="needs an extended float for the references")
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("y", [2, 3, 4, 5, 6, 7, 8, -1, -2, -3, 0.5, -0.5, 1.5, 2.5, -7.0])
def test_powers_to_a_number_known_before(y, dtype, seed) -> None:
    row = Row(((-3, 3), (-3, 3)), in_long(lambda x: x))
    x = samples(dtype, row, np.random.default_rng(seed))
    x = x[x != 0] if y == int(y) else x[x > 0]
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(LONG), LONG(y))
    error = ulp(np.asarray(ops.pow(x, y)), exact)
    assert error.max() <= MOST_ULP, (error.max(), x[error.argmax()])


@pytest.mark.skipif(not EXTENDED, reason="needs an extended float for the references")
@pytest.mark.parametrize("dtype", REALS)
def test_functions_of_two_numbers(dtype, seed) -> None:
    rng = np.random.default_rng(seed)
    row = Row(((-4, 4), (-4, 4)), in_long(lambda x: x))
    x = samples(dtype, row, rng)
    y = rng.permutation(x)
    with np.errstate(all="ignore"):
        angle = np.arctan2(x.astype(LONG), y.astype(LONG))
        base, exponent = np.abs(x), np.clip(y, -300, 300)
        raised = np.power(base.astype(LONG), exponent.astype(LONG))
    assert ulp(np.asarray(ops.atan2(x, y)), angle).max() <= MOST_ULP
    kept = ~np.isnan(raised) & (base > 0)
    found = np.asarray(ops.elementwise_pow(base, exponent))
    assert ulp(found[kept], raised[kept]).max() <= MOST_ULP


@pytest.mark.parametrize("dtype", REALS)
def test_lgamma_of_negative_numbers(dtype, seed) -> None:
    """Beside the zeros what counts is the size of the parts that cancel there."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-9, 0, 400), rng.uniform(-200, 0, 200), -np.arange(9) - 0.5])
    x = np.concatenate([x, -2.4570247382208 - 1e-9 * rng.normal(size=20)]).astype(dtype)
    with mp.workprec(BITS):
        exact = np.array([_to_long(mp.re(mp.loggamma(mp.mpf(float(v))))) for v in x])
    found = np.asarray(ops.lgamma(x))
    near = 1e-15 * np.ones(x.shape)  # the sum of what is rounded at sizes of 1
    error = np.abs(found.astype(LONG) - exact)
    units = ulp(found, exact)
    assert np.all((units <= MOST_ULP) | (error <= near)), x[(units > MOST_ULP) & (error > near)]
    poles = np.array([0.0, -0.0, -1.0, -7.0, -(2.0**60), np.inf, -np.inf], dtype)
    assert np.all(np.asarray(ops.lgamma(poles)) == np.inf)
    assert np.isnan(ops.lgamma(np.array(np.nan, dtype)))


def test_the_normal_distribution_far_out() -> None:
    """ndtr and its logarithm to -37, and the slopes of both, in float64; gelu in float32."""
    import phix

    x = np.linspace(-37, 8, 901)
    np.testing.assert_allclose(ops.ndtr(x), sp.ndtr(x), rtol=1e-12)
    with mp.workprec(BITS):
        exact = [mp.log(mp.erfc(-mp.mpf(v) / mp.sqrt(2)) / 2) for v in x]
        slopes = [mp.exp(-(mp.mpf(v) ** 2) / 2 - e) / mp.sqrt(2 * mp.pi) for v, e in zip(x, exact)]
    for f in (ops.log_ndtr, phix.jit(ops.log_ndtr)):
        np.testing.assert_allclose(f(x), np.array(exact, float), rtol=2e-15)
        slope = phix.grad(lambda x, f=f: ops.sum(f(x)))(x)
        np.testing.assert_allclose(slope, np.array(slopes, float), rtol=1e-12)
    single = np.asarray(ops.log_ndtr(x.astype(np.float32)))
    wide = sp.log_ndtr(x.astype(np.float32).astype(float))
    np.testing.assert_allclose(single, wide, rtol=1e-6)
    t = np.linspace(-13, 6, 2001).astype(np.float32)
    wanted = t.astype(float) * sp.ndtr(t.astype(float))
    assert ulp(np.asarray(ops.gelu(t)), wanted.astype(LONG)).max() <= 3
    density = np.exp(-(t.astype(float) ** 2) / 2) / np.sqrt(2 * np.pi)
    slope = phix.grad(lambda t: ops.sum(ops.gelu(t)))(t)
    expected = sp.ndtr(t.astype(float)) + t * density
    size = sp.ndtr(t.astype(float)) + np.abs(t) * density
    np.testing.assert_array_less(np.abs(np.asarray(slope) - expected), 2e-5 * size)


def main() -> None:
    for name in ROWS:
        for dtype in REALS:
            x, found, error = errors(name, dtype, 0)
            k = error.argmax()
            print(f"{name:10} {np.dtype(dtype).name} {error[k]:.2f} ulp at {x[k]!r}: {found[k]!r}")


if __name__ == "__main__":
    main()
