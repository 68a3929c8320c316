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

_NODES = 48
_CUT = 40.0  # exp(-_CUT) is nothing beside 1
_NEAR, _SMALL = 2.0, 1.0  # below these the series are used
_TERMS, _MOST_STEPS = 24, 8
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
    series = _horner(small, [1 / math.factorial(k + 2) for k in range(18)])
    large = ops.where(near, 1.0, w)
    return ops.where(near, small * small * series, ops.expm1(large) - large)


def _prefix(a: Any, y: Any) -> Any:
    """y^a exp(-y) / gamma(a), for large a in terms of y / a - 1, in which nothing cancels."""
    large = a > _LARGE
    wide = ops.where(large, a, _LARGE)
    inverse = 1 / wide
    stirling = inverse * _horner(inverse * inverse, _STIRLING)
    tall = ops.where(large, y, _LARGE)
    far = -wide * _less_log((tall - wide) / wide, tall / wide) - stirling
    far = far + 0.5 * ops.log(wide / (2 * math.pi))
    few, height = ops.where(large, 1.0, a), ops.where(large, 1.0, y)
    near = few * ops.log(height) - height - ops.lgamma(few)
    return ops.exp(ops.where(large, far, near))


def _reach(a: Any, y: Any, above: Any) -> Any:
    """Where the exponent is about 40, or somewhat more: bounds from above that improve."""
    slope = ops.abs(y - a)
    curve = ops.where(above, 2.0, 4 / 3) * _CUT * y  # of the square alone; a third less below y
    bound = 2 * _CUT / (slope + ops.sqrt(slope * slope + curve))
    outer = ops.where(above, bound, (_CUT + y) / a)
    for _ in range(_MOST_STEPS):
        up = ops.log1p((_CUT + a * ops.where(above, outer, 0.0)) / y)
        down = (_CUT - y * ops.expm1(-ops.where(above, 0.0, outer))) / a
        outer = ops.where(above, up, down)
    usable = above | (bound < 1)
    return ops.where(usable, ops.minimum(bound, outer), outer)


def _integral(a: Any, y: Any, above: Any) -> Any:
    """The integral of the module's first lines, above y or below."""
    dims = (*a.meta.dims, 1)
    reach = ops.stop_gradient(_reach(a, y, above))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    v = ops.reshape(reach, dims) * to_tensor(0.5 * (nodes + 1))
    side = ops.reshape(above, dims)
    slope, height = ops.reshape(ops.where(above, y - a, a - y), dims), ops.reshape(y, dims)
    exponent = slope * v + height * _exp_rest(ops.where(side, v, -v))
    total = ops.sum(ops.exp(-exponent) * to_tensor(0.5 * weights), [len(dims) - 1])
    return reach * total


def _series(a: Any, y: Any) -> Any:
    """The probability below y: y^a exp(-y) / gamma(a + 1) (1 + y / (a + 1) (1 + y / (a + 2) ..."""
    total: Any = 1.0
    for k in range(_TERMS, 0, -1):
        total = 1 + y / (a + k) * total
    return _prefix(a, y) / a * total


def _next_to_zero(a: Any, y: Any) -> Any:
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


@rules.decompose("gammaincc")
def gammaincc(x: Any, y: Any) -> Any:
    dims = broadcast_shapes(x.meta.dims, y.meta.dims)
    a, b = (ops.expand(as_dtype(v, dt.float64), dims) for v in (x, y))
    is_inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    above = (b >= a) & (b >= _SMALL)
    tiny = (b < _SMALL) & (a <= 0.5)
    short = (b < _NEAR) & ~above & ~tiny

    def safe(region: Any, of_a: float, of_y: float) -> tuple[Any, Any]:
        return ops.where(region & is_inside, a, of_a), ops.where(region & is_inside, b, of_y)

    outer = _next_to_zero(*safe(tiny, 0.25, 0.5))
    inner = 1 - _series(*safe(short, 2.0, 1.0))
    far_a, far_y = safe(~(tiny | short), 6.0, 5.0)
    side = far_y >= far_a
    integral = _prefix(far_a, far_y) * _integral(far_a, far_y, side)
    far = ops.where(side, integral, 1 - integral)
    found = ops.where(tiny, outer, ops.where(short, inner, far))
    return as_dtype(_at_edges(a, b, found), x.dtype)


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
    out = ops.where(is_inside, _prefix(few, height) / height, 0.0)
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
