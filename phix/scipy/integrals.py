"""Integrals of exponentials and logarithms: exponential integrals, Dawson's, Owen's, dilogarithms,
and quantiles of the normal distribution. All is computed in float64."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from phix import ops
from phix.api.gradients import jvp
from phix.core import dtypes as dt
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.entropies import floats
from phix.scipy.smoothness import in_float64, smooth

_EULER = 0.5772156649015329


# -- exponential integrals -----------------------------------------------------------------------
def _expn(n: Any, x: Any) -> Any:
    n = ops.stop_gradient(ops.floor(n))
    inside = (n >= 1) & (x > 0) & (x < math.inf)
    far = inside & (x >= 1)
    count, wide = ops.where(far, n, 1.0), ops.where(far, x, 2.0)
    outer = ops.exp(-wide) * _expn_far(count, wide)
    near = inside & (x < 1)
    inner = _expn_near_zero(ops.where(near, n, 1.0), ops.where(near, x, 0.5))
    some = (n == 0) & (x > 0)
    height = ops.where(some, x, 1.0)
    at_zero = ops.where(n > 1, 1 / ops.where(n > 1, n - 1, 1.0), math.inf)
    out = ops.where(some, ops.exp(-height) / height, ops.where(x == 0, at_zero, 0.0))
    out = ops.where(far, outer, ops.where(near, inner, out))
    return ops.where((n < 0) | (x < 0) | ops.isnan(x) | ops.isnan(n), math.nan, out)


_CUT = 40.0  # exp(-_CUT) is nothing beside 1


def _expn_far(n: Any, x: Any) -> Any:
    """Gauss' rule for exp(x) E_n(x), with t = exp(v) the integral of exp(-(x + n - 1) v - x
    (exp(v) - 1 - v)) over v > 0, up to where the exponent is below -40 in any case."""
    slope = x + (n - 1)
    reach = ops.stop_gradient(2 * _CUT / (slope + ops.sqrt(slope * slope + 2 * _CUT * x)))
    nodes, weights = incomplete.gauss(48)
    v = ops.unsqueeze(reach, [-1]) * nodes
    exponent = ops.unsqueeze(slope, [-1]) * v + ops.unsqueeze(x, [-1]) * incomplete._exp_rest(v)
    return reach * ops.sum(ops.exp(-exponent) * weights, [-1])


def _expn_near_zero(n: Any, x: Any) -> Any:
    """(-x)^(n - 1) / (n - 1)! (digamma(n) - log(x)) less the sum of (-x)^m / (m! (m - n + 1))."""
    odd = n - 1 != 2 * ops.floor(0.5 * (n - 1))
    power = ops.exp((n - 1) * ops.log(x) - ops.lgamma(n))
    found = ops.where(odd, -power, power) * (ops.digamma(n) - ops.log(x))
    term: Any = 1.0
    for m in range(20):
        term = term * (-x / m) if m else term
        meets = n == m + 1
        found = found - ops.where(meets, 0.0, term / ops.where(meets, 1.0, m + 1 - n))
    return found


def _expn_slope(n: Any, x: Any) -> Any:
    """-E_(n - 1)(x); that of exp(-x) / x for n = 0."""
    least = n < 1
    height = ops.where(least, x, 1.0)
    of_least = ops.exp(-height) * (1 / height + 1 / (height * height))
    return -ops.where(least, of_least, _smooth_expn(ops.where(least, 1.0, n) - 1, x))


_smooth_expn: Any = smooth(_expn, lambda n, x: ops.zeros_like(x), _expn_slope)


@takes()
def expn(n: TensorLike, x: TensorLike) -> Tensor:
    """The integral of exp(-x t) / t^n over t > 1, for whole n and x from 0 on; its derivative is
    in x.

    >>> import phix
    >>> round(phix.scipy.special.expn(2, 1.0).item(), 5)
    0.1485
    """
    return in_float64(_smooth_expn, n, x)


# (Ei(x) - log(|x| / r)) / (x - r) with r the zero of Ei, on -1/2 <= x <= 6, in x;
# error 6e-18
_EI_NEAR = (
    1.1014081059037335, 0.27223110995569516, 0.05967964478629462, 0.011071160227626829,
    0.0017569947389798324, 0.00024248664503120524, 2.9543475339098484e-05, 3.2182025894703446e-06,
    3.167830437288858e-07, 2.8430136925108266e-08, 2.3445155435545966e-09, 1.782981800514669e-10,
    1.2881158138286647e-11, 7.532727011986676e-13, 7.721807430290562e-14, -2.449998914071968e-15,
    1.0624590881464949e-15, -9.663746921129897e-17, 9.09656294303486e-18, -4.314587423716297e-19,
    1.3049242988786835e-20,
)  # fmt: skip
# x exp(-x) Ei(x) for x >= 6, in (x - 30) / (x + 18); error 8e-18
_EI_ABOVE = (
    1.0358136537708553, -0.06175353496768967, 0.04508699945601426, -0.03361214008610752,
    0.025718612233712662, -0.02035640077405047, 0.016878853407990377, -0.014948988387117978,
    0.014417457694759158, -0.014970849186840527, 0.015357757833720231, -0.012602751454544052,
    0.002947419947920612, 0.01354033799795854, -0.027228793029819325, 0.022129580375148755,
    0.005245750613183503, -0.029565700057274213, 0.018090554110017202, 0.0189524694694594,
    -0.027773521016403176, -0.008232496747112706, 0.029408404218637448, 0.002006416220234978,
    -0.027632865197948418, 0.0004537740720891095, 0.023909213780441956, -0.0008476316920664376,
    -0.018519149463792278, 0.0005111572993172594, 0.012252543366874131, -0.0001676692156366531,
    -0.0065837976394425585, 1.541480244216023e-05, 0.0027179767321819253, 1.1288128979653185e-05,
    -0.0008012394143176556, -4.853990220073804e-06, 0.0001492471624582533, 6.479482496383065e-07,
    -1.3148322262885275e-05,
)  # fmt: skip
# the same for x <= -1/2, in (|x| - 5/2) / (|x| + 3/2); error 8e-18
_EI_BELOW = (
    0.7588145912149602, 0.24936171080377734, -0.023708175700793317, 0.01673767830571008,
    -0.0035093974820223474, 0.002515461733772038, -0.0006746731702757089, 0.000500708677111545,
    -0.00014810244828451368, 0.00011580674109374596, -3.5071019774204176e-05,
    2.9509313610863886e-05, -8.682508963533365e-06, 8.035267249996674e-06, -2.0554274441438286e-06,
    2.5226630894724113e-06, -1.0489956178266988e-06, -3.049412867463417e-08, 1.53254547836353e-06,
    2.4564557196398446e-06, -4.009994402899985e-06, -4.950398027771193e-06, 7.194265164781257e-06,
    8.594909424326807e-06, -9.690550023991903e-06, -1.0957496008738392e-05, 9.617058708736795e-06,
    1.039458008901452e-05, -6.825734760901327e-06, -7.0734521271602525e-06, 3.2915586455752884e-06,
    3.282258932041065e-06, -9.68083308614482e-07, -9.311783759756655e-07, 1.3259364691413115e-07,
    1.2318815559430226e-07,
)  # fmt: skip
_ZERO, _ZERO_REST = 0.3725074107813666, 1.3140183414386028e-17  # r in two parts


def _expi_near_zero(x: Any) -> Any:
    """Ei(x) on -1/2 <= x <= 6; next to its zero, x / r differs from its float64 by what counts."""
    away = (x - _ZERO) - _ZERO_REST
    ratio = ops.abs(x) * (1 / _ZERO)
    missing = away * (1 / _ZERO) - (ratio - 1)
    log = ops.log(ratio) + ops.where(ops.abs(away) < 0.1, missing, 0.0)
    return log + away * incomplete._in_halves(x, _EI_NEAR)


def _expi(x: Any) -> Any:
    below, size = x < 0, ops.minimum(ops.abs(x), 800.0)
    place = (size - ops.where(below, 2.5, 30.0)) / (size + ops.where(below, 1.5, 18.0))
    of_place = incomplete._in_halves(place, _EI_ABOVE)
    of_place = ops.where(below, incomplete._in_halves(place, _EI_BELOW), of_place)
    held = ops.where(below, -size, size)
    huge = held > 700  # where exp(x) may have no float64, but Ei(x) has one
    power = ops.exp(held - ops.where(huge, 8.0, 0.0))
    share = of_place / held
    far = power * ops.where(huge, math.exp(8) * share, share)
    found = ops.where((x >= -0.5) & (x <= 6), _expi_near_zero(x), far)
    return ops.where(ops.isnan(x), math.nan, found)


_smooth_expi = smooth(_expi, lambda x: ops.exp(x) / x)


@takes()
def expi(x: TensorLike) -> Tensor:
    """The integral of exp(t) / t over t < x, its principal value for x > 0.

    >>> import phix
    >>> round(phix.scipy.special.expi(1.0).item(), 5)
    1.89512
    """
    return in_float64(_smooth_expi, x)


def _exp1(x: Any) -> Any:
    return ops.where(x < 0, math.nan, -_expi(-x))


def _exp1_slope(x: Any) -> Any:
    held = x + ops.where(x < 0, math.nan, 0.0)  # NaN, of slopes too
    return -_smooth_expn(ops.zeros_like(held), held)


_smooth_exp1 = smooth(_exp1, _exp1_slope)


@takes()
def exp1(x: TensorLike) -> Tensor:
    """The integral of exp(-t) / t over t > x, for x from 0 on.

    >>> import phix
    >>> round(phix.scipy.special.exp1(1.0).item(), 5)
    0.21938
    """
    return in_float64(_smooth_exp1, x)


# -- the dilogarithm -------------------------------------------------------------------------------
def bernoulli_numbers(n: int) -> list[Fraction]:
    """B_0 = 1, B_1 = -1/2, ..., B_n."""
    found = [Fraction(1)]
    for m in range(1, n + 1):
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(found)), Fraction(0))
        found.append(-total / (m + 1))
    return found


_DILOGARITHM = [float(b / math.factorial(k + 1)) for k, b in enumerate(bernoulli_numbers(24))]


def _spence(x: Any) -> Any:
    """For x from 1/2 to 2 the series of the dilogarithm of 1 - x in u = -log(x)."""
    small, large = x < 0.5, x > 2
    held = ops.where((x > 0) & (x < math.inf), x, 1.0)
    y = ops.where(small, 1 - held, ops.where(large, 1 - 1 / held, held))
    u = -ops.log(y)
    series = u * incomplete._horner(u, _DILOGARITHM)
    logs = ops.log(held)
    found = ops.where(small, math.pi**2 / 6 - logs * ops.log(y) - series, series)
    turned = series - math.pi**2 / 6 - logs * (0.5 * logs + ops.log(y))
    found = ops.where(large, turned, found)
    found = ops.where(x == 0, math.pi**2 / 6, ops.where(x == math.inf, -math.inf, found))
    return ops.where((x < 0) | ops.isnan(x), math.nan, found)


def _spence_slope(x: Any) -> Any:
    """log(x) / (1 - x), in u = log(x) next to 1: u / expm1(u)."""
    u = ops.log(x)
    near = ops.abs(u) < 1
    few = ops.where(near, u, 0.0)
    one_more = incomplete._horner(few, [1 / math.factorial(k + 1) for k in range(20)])
    return ops.where(near, -1 / one_more, u / (1 - ops.where(near, 0.5, x)))


def _spence_curve(x: Any) -> Any:
    """At 0 that of its limit, where two infinities of either sign meet."""
    is_end = x == 0
    return ops.where(is_end, math.inf, _inner_curve(ops.where(is_end, 1.0, x)))


def _inner_curve(x: Any) -> Any:
    return jvp(_spence_slope, (x,), (ops.ones_like(x),))[1]


_smooth_spence = smooth(_spence, smooth(_spence_slope, smooth(_spence_curve)))


@takes()
def spence(x: TensorLike) -> Tensor:
    """The integral of log(t) / (1 - t) from 1 to x, the dilogarithm of 1 - x; NaN for x < 0.

    >>> import phix
    >>> round(phix.scipy.special.spence(0.0).item(), 5)
    1.64493
    """
    return in_float64(_smooth_spence, x)


# -- Dawson's integral, Owen's function ----------------------------------------------------------
# (1 - dawsn(x) / x) / x^2 on |x| <= 1.25, in x^2; error 7e-19
_DAWSON_NEAR = (
    0.6666666666666666, -0.2666666666666666, 0.07619047619047267, -0.016931216931159038,
    0.0030784030779053327, -0.00047360047103441754, 6.314672123123884e-05, -7.429007516325513e-06,
    7.819718152225513e-07, -7.444155791014147e-08, 6.4484635101667435e-09, -5.027475560537632e-10,
    3.267951987699196e-11, -1.3207547320196614e-12,
)  # fmt: skip
# 2 x dawsn(x) on 1.25 <= |x| <= 4, in (x^2 - 8.78125) / 7.21875; error 7e-18
_DAWSON_MIDDLE = (
    1.0719328283350429, -0.07866637972972071, 0.08666907591919051, -0.08856192215392293,
    0.07674929632493026, -0.049861624560930295, 0.014823283474380748, 0.017409389027949248,
    -0.038333135052753695, 0.04552748999408638, -0.04192975705670564, 0.032723890755940524,
    -0.022488731228473603, 0.013903877924340835, -0.007841991068736953, 0.004075309514960024,
    -0.0019661990188875487, 0.0008859939798851107, -0.0003747937553476257, 0.00014953878166811883,
    -5.6406782779107926e-05, 2.009447168452275e-05, -6.8517246133457235e-06, 2.3066689883793505e-06,
    -7.142492302079565e-07, 1.7141304912691462e-07, -4.985193694432963e-08, 2.640063447460044e-08,
    -6.864651567432405e-09,
)  # fmt: skip
# (2 x dawsn(x) - 1) (2 x)^2 on |x| >= 4, in 32 / x^2 - 1; error beside 2 x dawsn(x): 6e-18
_DAWSON_FAR = (
    2.1020125309546875, 0.11138219411795838, 0.010686867965038904, 0.0015821719270088254,
    0.0003397935737963999, 0.00010511631356948158, 4.767021509127623e-05, 2.8378245489499736e-05,
    1.3835859751262386e-05, -4.51825144706677e-06, -1.8763697677859312e-05, -1.3543764078353265e-05,
    8.23838407904649e-06, 1.6887567379228316e-05, -1.9711886485966286e-06, -1.582584122239246e-05,
    2.549947378840936e-08, 1.3457641644483282e-05, -1.1803667351314072e-07, -9.962375299808548e-06,
    5.828336643685647e-07, 5.869330728914321e-06, -6.552638041618083e-07, -2.487358658358285e-06,
    3.8622530365719496e-07, 6.60528720914476e-07, -1.2421095084690227e-07, -8.166448434845804e-08,
    1.7304178565904927e-08,
)  # fmt: skip


def _dawsn(x: Any) -> Any:
    size, square, half = ops.abs(x), x * x, 0.5 / x
    middle = incomplete._in_halves((square - 8.78125) * (1 / 7.21875), _DAWSON_MIDDLE)
    part = half * half
    far = 1 + part * incomplete._in_halves(128 * part - 1, _DAWSON_FAR)
    near = x * (1 - square * incomplete._horner(square, _DAWSON_NEAR))
    outer = half * ops.where(size < 4, middle, far)
    return ops.where(size < 1.25, near, outer)


# From here on 1 - 2 x dawsn(x), of which little would be left, goes by so many terms of a series.
FAR, _FAR_TERMS = 6.0, 30


def far_slope(square: Any) -> Any:
    """1 - 2 x dawsn(x) by its asymptotic series -t (1 + 3 t (1 + 5 t (...))) in t = 1 / (2 x^2)."""
    t = 0.5 / square
    total: Any = 1.0
    for k in range(_FAR_TERMS, 0, -1):
        total = 1 + (2 * k + 1) * t * total
    return -t * total


def _dawsn_slope(x: Any) -> Any:
    is_far = ops.abs(x) > FAR
    near, far = ops.where(is_far, 0.0, x), ops.where(is_far, x, FAR)
    return ops.where(is_far, far_slope(far * far), 1 - 2 * near * _smooth_dawsn(near))


_smooth_dawsn: Any = smooth(_dawsn, _dawsn_slope)


@takes()
def dawsn(x: TensorLike) -> Tensor:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x.

    >>> import phix
    >>> round(phix.scipy.special.dawsn(1.0).item(), 5)
    0.53808
    """
    return in_float64(_smooth_dawsn, x)


# -- quantiles of the normal distribution --------------------------------------------------------
# For parts from c to 1 - c, ndtri(1/2 + q) over q, in q^2 / w - 1, w = (1/2 - c)^2 / 2; below c,
# r + ndtri(exp(-r^2 / 2)) in (log(r) - middle) / half. Errors beside ndtri are 1e-9 for float32,
# and 3e-17 for float64
_CENTRAL_SINGLE = (
    2.6934860256577307, 0.21839132055306898, 0.03827277924633762, 0.008350774884216611,
    0.0020237623633287956, 0.0005213308657267566, 0.00013723486843104563, 3.7604401815700214e-05,
    1.3460669509031944e-05, 3.959472686617349e-06,
)  # fmt: skip
_TAIL_SINGLE = (
    0.5000766862929439, -0.326493843547046, 0.08316661974237248, -0.005075698804081525,
    -0.002687171443970355, 0.0007593433693154848, 7.28705086786314e-06, -6.257867382402491e-05,
    1.6276912578130977e-05, 2.907233223993345e-06, -2.066370091266109e-06,
)  # fmt: skip
_CENTRAL_DOUBLE = (
    2.8067362499056405, 0.3853904235201061, 0.11648711641770224, 0.04407212080212752,
    0.01855237574398891, 0.008311261546247008, 0.003878080167834284, 0.001862186720972842,
    0.0009134254900928586, 0.0004554617631623756, 0.00023008801671480514, 0.00011747076240628638,
    6.050414754831389e-05, 3.1413557038257025e-05, 1.641115094625646e-05, 8.549655867646755e-06,
    4.4896610765625e-06, 2.5602622006978306e-06, 1.4053527868778977e-06, 3.927695739296572e-07,
    1.4362452929889728e-07, 5.871024098225608e-07, 3.878251312015312e-07, -3.1507836976481373e-07,
    -2.2448798740588678e-07, 2.558933110539137e-07, 1.6578931565451518e-07, -9.060498046892235e-08,
    -5.728976604828177e-08, 2.0410609848064922e-08, 1.2198129135151888e-08,
)  # fmt: skip
_TAIL_DOUBLE = (
    0.34030141737176156, -0.33755796028036483, 0.14152033967325062, -0.025156161792432175,
    -0.0030929251713463957, 0.0030306158054544353, -0.0007766137017461432, 4.155590666021884e-06,
    0.00010358912538135534, -6.36940080914141e-05, 1.725434700240849e-05, 5.519901052979493e-06,
    -8.041089322675782e-06, 3.1655676357432712e-06, 4.859049575268862e-07, -1.2016400425135284e-06,
    5.366097239348176e-07, 7.68874416705937e-08, -2.2611127881040908e-07, 8.758515062851126e-08,
    4.21302006868075e-08, -4.08885377489366e-08, -2.427877961009282e-09, 8.982728607653103e-09,
    -2.857814163071039e-10, -8.853770979824086e-10,
)  # fmt: skip
_SINGLE = (0.15, _CENTRAL_SINGLE, _TAIL_SINGLE, 1.6687182371093938, 1.0019761774490472)
_DOUBLE = (0.075, _CENTRAL_DOUBLE, _TAIL_DOUBLE, 2.2378097157645236, 1.4180298842712125)


def _ndtri(p: Any, fit: Any) -> Any:
    below, central, tail, middle, half = fit
    part, q = ops.minimum(p, 1 - p), p - 0.5
    inner = q * incomplete._in_halves(q * q * (2 / (0.5 - below) ** 2) - 1, central)
    square = -2 * ops.log(ops.where((part > 0) & (part < below), part, 0.01))
    step = (0.5 * ops.log(square) - middle) * (1 / half)
    outer = incomplete._in_halves(step, tail) - ops.sqrt(square)
    outer = ops.where(q > 0, -outer, outer)
    found = ops.where(part < below, outer, inner)
    found = ops.where(p == 0, -math.inf, ops.where(p == 1, math.inf, found))
    return ops.where((p >= 0) & (p <= 1), found, math.nan)


def _quantile_by(fit: Any) -> Any:
    def slope(p: Any) -> Any:
        x = found(p)
        return math.sqrt(2 * math.pi) * ops.exp(0.5 * x * x)

    found: Any = smooth(lambda p: _ndtri(p, fit), slope)
    return found


_in_few_digits, _in_all_digits = _quantile_by(_SINGLE), _quantile_by(_DOUBLE)


@takes()
def ndtri(p: TensorLike) -> Tensor:
    """The inverse of ndtr: x with a part p of the standard normal distribution below it.

    >>> import phix
    >>> phix.scipy.special.ndtri([0.0, 0.5, 1.0]).tolist()
    [-inf, 0.0, inf]
    """
    (own,) = floats(p)
    return in_float64(_in_all_digits if own.dtype == dt.float64 else _in_few_digits, own)


def _owens_t(h: Any, a: Any) -> Any:
    """Gauss' rule for 1 / 2 pi times the integral of exp(-h^2 (1 + t^2) / 2) / (1 + t^2) from 0
    to a, for a up to 1; above that T(h, a) is given by T(a h, 1 / a)."""
    height, size = ops.abs(h), ops.abs(a)
    turned = size > 1
    end = ops.where(turned, 1 / ops.where(turned, size, 1.0), size)
    own = ops.where(turned, ops.where(height == 0, 0.0, height * size), height)
    held = ops.minimum(own, 40.0)
    reach = ops.minimum(end, 9 / ops.maximum(held, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t = ops.unsqueeze(reach, [-1]) * (0.5 * (nodes + 1))
    square = 1 + t * t
    waves = ops.exp(-0.5 * ops.unsqueeze(held * held, [-1]) * square) / square
    found = reach * ops.sum(waves * (0.5 * weights), [-1]) / (2 * math.pi)
    below, other = ops.ndtr(-height), ops.ndtr(-own)
    rest = 0.5 * below + 0.5 * other - below * other - found
    found = ops.where(turned, rest, found)
    found = ops.where(a < 0, -found, found)
    return ops.where(ops.isnan(h) | ops.isnan(a), math.nan, found)


def _owens_in_h(h: Any, a: Any) -> Any:
    density = ops.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)
    return -0.5 * density * ops.erf(a * h * math.sqrt(0.5))


def _owens_in_a(h: Any, a: Any) -> Any:
    square = 1 + a * a
    return ops.exp(-0.5 * h * h * square) / (2 * math.pi * square)


_smooth_owens_t = smooth(_owens_t, _owens_in_h, _owens_in_a)


@takes()
def owens_t(h: TensorLike, a: TensorLike) -> Tensor:
    """How likely it is for two standard normal numbers that x > h and 0 < y < a x.

    >>> import phix
    >>> phix.scipy.special.owens_t(0.0, 1.0).item()
    0.125
    """
    return in_float64(_smooth_owens_t, h, a)
