"""The incomplete gamma function: a series next to 0, elsewhere Gauss' rule for its integral.

With t = y exp(v), the integral of t^(a - 1) exp(-t) from y on is y^a exp(-y) times that of
exp(-(y - a) v - y (exp(v) - 1 - v)) over v > 0, and with v < 0 the one below y. The exponent falls
from 0 on, the faster the further, and is cut off where 40 is reached. All is in float64.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.conversion import to_tensor
from phix.core.errors import DifferentiationError
from phix.primitives.broadcasting import unbroadcast
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.widening import as_dtype, in_float32

# How many nodes, and exp of less which number is nothing beside 1: for float64, for fewer digits.
_FINE, _COARSE = (48, 40.0), (20, 21.0)
_NEAR, _SMALL = 2.0, 1.0  # below these the series are used
_TERMS = 24
# of log gamma(1 + a) = -euler a + zeta(2) a^2 / 2 - zeta(3) a^3 / 3 + ..., on 0 <= a <= 1/2
_EULER, _ZETA_TERMS = 0.5772156649015329, 46
# of log gamma(a) far out: 1 / 12 a - 1 / 360 a^3 + 1 / 1260 a^5 - ...
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
_LARGE = 12.0


def _horner(x: Any, coefficients: Any) -> Any:
    total: Any = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _in_halves(x: Any, coefficients: Any) -> Any:
    """The same by even and by odd powers, of which no step waits for the other's: faster where
    there are many."""
    square = x * x
    return _horner(square, coefficients[::2]) + x * _horner(square, coefficients[1::2])


@functools.cache
def _log_gamma_of_one_more() -> list[float]:
    """The coefficients of log gamma(1 + a) over a."""
    k = np.arange(1000.0, 1.0, -1.0)
    end = 1000.5
    found = [-_EULER]
    for n in range(2, _ZETA_TERMS):  # zeta(n), by the midpoint rule from the end on
        zeta = 1 + np.sum(k**-n) + end ** (1 - n) / (n - 1) - n * end ** (-n - 1) / 24
        found.append((-1) ** n * float(zeta) / n)
    return found


def _less_log(mu: Any, one_more: Any) -> Any:
    """mu - log(1 + mu), where that cancels by the series of the logarithm in mu / (2 + mu).

    ``one_more`` is 1 + mu, of which next to mu = -1 the sum would have no digits.
    """
    near = ops.abs(mu) < 0.5
    small = ops.where(near, mu, 0.0)
    s = small / (2 + small)
    square = s * s
    tail = _horner(square, [1 / (2 * k + 3) for k in range(15)])
    large = ops.where(near, 1.0, mu) - ops.log(ops.where(near, 2.0, one_more))
    return ops.where(near, small * s - 2 * s * square * tail, large)


def _exp_rest(w: Any) -> Any:
    """exp(w) - 1 - w."""
    near = ops.abs(w) < 1
    small = ops.where(near, w, 0.0)
    series = _in_halves(small, [1 / math.factorial(k + 2) for k in range(18)])
    return ops.where(near, small * small * series, ops.exp(w) - (1 + w))


def log_prefix(a: Any, y: Any) -> Any:
    """log of y^a exp(-y) / gamma(a), for large a in terms of y / a - 1, in which nothing
    cancels."""
    large = a > _LARGE
    wide = ops.where(large, a, _LARGE)
    inverse = 1 / wide
    stirling = inverse * _horner(inverse * inverse, _STIRLING)
    tall = ops.where(large, y, _LARGE)
    far = -wide * _less_log((tall - wide) / wide, tall / wide) - stirling
    far = far + 0.5 * ops.log(wide / (2 * math.pi))
    few, height = ops.where(large, 1.0, a), ops.where(large, 1.0, y)
    near = few * ops.log(height) - height - ops.lgamma(few)
    return ops.where(large, far, near)


def _prefix(a: Any, y: Any) -> Any:
    return ops.exp(log_prefix(a, y))


@functools.cache
def gauss(n: int) -> tuple[Any, Any]:
    """Gauss' nodes on 0 to 1 and their weights, by Newton's steps for the Legendre polynomial as a
    function of u = 1 - x, in which those next to an end have all their digits."""
    u = 2 * np.sin(0.5 * math.pi * (np.arange(1, (n + 1) // 2 + 1) - 0.25) / (n + 0.5)) ** 2
    for _ in range(5):
        value, change = 1 - u, -u  # P_k and P_k - P_(k - 1)
        for k in range(1, n):
            change = (k * change - (2 * k + 1) * u * value) / (k + 1)
            value = value + change
        slope = n * (u * value - change) / (u * (2 - u))  # by x; P_(n - 1) = value - change
        u = u + value / slope
    weights = 1 / (u * (2 - u) * slope * slope)
    half = n // 2
    nodes = np.concatenate([0.5 * u, 1 - 0.5 * u[:half][::-1]])
    return nodes, np.concatenate([weights, weights[:half][::-1]])


def _reach(a: Any, y: Any, above: Any, cut: float) -> Any:
    """Where the exponent is about ``cut``, or somewhat more: a bound from above, improved."""
    slope = ops.abs(y - a)
    curve = ops.where(above, 2.0, 4 / 3) * cut * y  # of the square alone; a third less below y
    bound = 2 * cut / (slope + ops.sqrt(slope * slope + curve))
    up = ops.log1p((cut + a * ops.where(above, bound, 0.0)) / y)
    down = (cut - y * ops.expm1(-ops.where(above, 0.0, (cut + y) / a))) / a
    outer = ops.where(above, up, down)
    usable = above | (bound < 1)
    return ops.where(usable, ops.minimum(bound, outer), outer)


def integral(a: Any, y: Any, above: Any, rule: tuple[int, float] = _FINE) -> Any:
    """The integral of the module's first lines, above y or below; node by node along a first axis,
    so that all else stays vectors of elements."""
    count, cut = rule
    shape = (-1, *(1,) * len(a.meta.dims))
    nodes, weights = (to_tensor(v.reshape(shape)) for v in gauss(count))
    reach = ops.stop_gradient(_reach(a, y, above, cut))
    # Kept, where each node would compute them anew; below y, v is below 0.
    far, slope, height = ops.optimization_barrier([ops.where(above, reach, -reach), y - a, y])
    v = ops.unsqueeze(far, [0]) * nodes
    exponent = ops.unsqueeze(slope, [0]) * v + ops.unsqueeze(height, [0]) * _exp_rest(v)
    return ops.abs(far) * ops.sum(ops.exp(-exponent) * weights, [0])


def _series(a: Any, y: Any) -> Any:
    """1 + y / (a + 1) (1 + y / (a + 2) (...)), of which y^a exp(-y) / gamma(a + 1) times is the
    probability below y; as one quotient, with a scale at which its parts stay finite."""
    scale = 1 / (a + 0.5 * _TERMS)
    start, step = a * scale, y * scale
    top: Any = 1.0
    bottom: Any = 1.0
    for k in range(_TERMS, 0, -1):
        bottom = bottom * (start + k * scale)
        top = bottom + step * top
    return top / bottom


def next_to_zero(a: Any, y: Any) -> Any:
    """For a <= 1/2 and y < 1: what y^a / gamma(a + 1) lacks to 1, and the rest of its series."""
    power = a * ops.log(y) - a * _horner(a, _log_gamma_of_one_more())
    total: Any = 0.0
    for n in range(16, 0, -1):  # the sum of (-y)^n / (n! (a + n))
        total = -y / n * (1 / (a + n) + total)
    return -ops.expm1(power) - a * ops.exp(power) * total


def _at_edges(a: Any, y: Any, inside: Any) -> Any:
    """1 at y = 0, 0 at infinity and for a = 0; NaN outside, and where both are 0 or infinite."""
    out = ops.where((y == 0) | (a == math.inf), 1.0, inside)
    out = ops.where((y == math.inf) | (a == 0), 0.0, out)
    unknown = ((a == 0) & (y == 0)) | ((a == math.inf) & (y == math.inf))
    unknown = unknown | (a < 0) | (y < 0) | ops.isnan(a) | ops.isnan(y)
    return ops.where(unknown, math.nan, out)


def _parts(a: Any, y: Any, short: Any, rule: tuple[int, float]) -> tuple[Any, Any]:
    """The probability below y and above, by the series where ``short``, else by the integral."""
    above = y >= a
    scale = _prefix(a, y)
    low = scale / a * _series(*(ops.where(short, v, c) for v, c in ((a, 2.0), (y, 1.0))))
    far_a, far_y = ops.where(short, 6.0, a), ops.where(short, 5.0, y)
    found = scale * integral(far_a, far_y, far_y >= far_a, rule)
    low = ops.where(short, low, ops.where(above, 1 - found, found))
    return low, ops.where(above & ~short, found, 1 - low)


def rule_of(dtype: Any) -> tuple[int, float]:
    """Nodes and cut of the integral; float32's last digit takes fewer."""
    return _FINE if dtype == dt.float64 else _COARSE


def lower(a: Any, y: Any, rule: tuple[int, float]) -> Any:
    """The probability below y; of tensors of float64 and of one shape."""
    inside = (a > 0) & (y > 0) & (a < math.inf) & (y < math.inf)
    short = (y < _NEAR) & ~((y >= a) & (y >= _SMALL))
    # below 1e-20 it is 1, and powers and quotients of what is so small would lose digits
    few, height = ops.where(inside, ops.maximum(a, 1e-20), 6.0), ops.where(inside, y, 5.0)
    edges = 1 - _at_edges(a, y, ops.zeros_like(a))
    return ops.where(inside, _parts(few, height, short & inside, rule)[0], edges)


def upper(a: Any, y: Any, rule: tuple[int, float]) -> Any:
    """The probability above y; of tensors of float64 and of one shape."""
    inside = (a > 0) & (y > 0) & (a < math.inf) & (y < math.inf)
    tiny = inside & (y < _SMALL) & (a <= 0.5)
    other = inside & ~tiny
    short = (y < _NEAR) & ~((y >= a) & (y >= _SMALL)) & other
    outer = next_to_zero(ops.where(tiny, a, 0.25), ops.where(tiny, y, 0.5))
    few, height = ops.where(other, a, 6.0), ops.where(other, y, 5.0)
    found = ops.where(tiny, outer, _parts(few, height, short, rule)[1])
    return _at_edges(a, y, found)


@rules.decompose("gammaincc")
def gammaincc(x: Any, y: Any) -> Any:
    dims = broadcast_shapes(x.meta.dims, y.meta.dims)
    a, b = (ops.expand(as_dtype(v, dt.float64), dims) for v in (x, y))
    return as_dtype(upper(a, b, rule_of(x.dtype)), x.dtype)


# -- derivatives -------------------------------------------------------------------------------
def _refuse() -> None:
    raise DifferentiationError(
        "gammaincc has a derivative in y alone, as in Paddle; write gammaincc(stop_gradient(x), y) "
        "if none is meant to go through x"
    )


@rules.vjp("gammaincc")
def gammaincc_vjp(active: Any, x: Any, y: Any) -> Any:
    if active[0]:
        _refuse()

    def pull(out_grad: Any) -> Any:
        return None, unbroadcast(-out_grad * ops.gamma_density(x, y), y)

    return ops.gammaincc(x, y), pull


@rules.jvp("gammaincc")
def gammaincc_jvp(primals: Any, tangents: Any) -> Any:
    if tangents[0] is not None:
        _refuse()
    x, y = primals
    return ops.gammaincc(x, y), -tangents[1] * ops.gamma_density(x, y)


@rules.decompose("gamma_density")
def gamma_density(x: Any, y: Any) -> Any:
    a, b = as_dtype(x, dt.float64), as_dtype(y, dt.float64)
    is_inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    few, height = ops.where(is_inside, a, 1.0), ops.where(is_inside, b, 1.0)
    at_zero = ops.where(a < 1, math.inf, ops.where(a == 1, 1.0, 0.0))
    # y^(a - 1) by itself where y^a, which vanishes sooner, would be divided by y
    is_low = (few > 1) & (height < 1)
    power, over = ops.where(is_low, few - 1, few), ops.where(is_low, few - 1, height)
    out = ops.where(is_inside, _prefix(power, height) / over, 0.0)
    out = ops.where((b == 0) & (a < math.inf), at_zero, out)
    unknown = (a < 0) | (b < 0) | ops.isnan(a) | ops.isnan(b) | ((a == 0) & (b == 0))
    return as_dtype(ops.where(unknown, math.nan, out), x.dtype)


@rules.decompose("gamma_density_grad")
@in_float32
def gamma_density_grad(x: Any, y: Any, out: Any, out_grad: Any) -> Any:
    """p (log y - digamma x) and p (x - 1) / y - p; at y = 0 the first is 0, and p(x - 1, y) - p the
    second."""
    is_none = out == 0
    to_x = ops.where(is_none, 0.0, out * (ops.log(ops.where(is_none, 1.0, y)) - ops.digamma(x)))
    is_end = (y == 0) & (x >= 1)
    at_end = ops.gamma_density(ops.where(is_end & (x > 1), x - 1, 2.0), y)
    beside = ops.where(is_end, at_end, out * ((x - 1) / ops.where(is_end, 1.0, y)))
    return unbroadcast(out_grad * to_x, x), unbroadcast(out_grad * (beside - out), y)
