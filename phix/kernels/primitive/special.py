"""The error function, its inverse, and the gamma function's logarithm and derivatives."""

from __future__ import annotations

from math import factorial

from phix.core import dtypes as dt
from phix.kernels.primitive.exponential import exp, log
from phix.kernels.primitive.floating import (
    INF,
    NAN,
    at_most,
    format_of,
    horner,
    is_nan,
    power_of_two,
    round_to_integer,
)
from phix.kernels.primitive.registry import body
from phix.kernels.primitive.scalar import (
    Expr,
    call,
    cast,
    const,
    copysign,
    eq,
    fabs,
    floor,
    fma,
    rint,
    select,
    sqrt,
)
from phix.kernels.primitive.trigonometric import sine_and_cosine

# log2(erfc(x)) / x on 0 <= x <= 4, and (2^r - 1) / r on |r| <= 1/2; relative errors of erf with
# them: 4.0e-9 and 1.1e-8
_LOG2_ERFC_SINGLE = (
    -1.6279070377349854, -0.9184476137161255, -0.14827707409858704, 0.02763206698000431,
    0.00023134138609748334, -0.002404955215752125, 0.0009129612008109689,
    -0.00016971264267340302, 1.3353131180338096e-05,
)  # fmt: skip
_EXP2M1_SINGLE = (
    0.6931471824645996, 0.24022649228572845, 0.05550357326865196, 0.009618237614631653,
    0.0013390735257416964, 0.00015403512225020677,
)  # fmt: skip

# erf(x) / x - 1 on 0 <= x <= 1, in x^2; relative error of erf with it: 1.2e-17
_ERF_DOUBLE = (
    0.1283791670955126, -0.376126389031841, 0.11283791670971159, -0.026866170648055073,
    0.005223977653045281, -0.0008548328562729374, 0.00012055387408128521,
    -1.4926915982104464e-05, 1.6481693920519946e-06, -1.65646818283618e-07,
    1.6069266452244157e-08, -1.6700596035814563e-09, 1.4773461113537263e-10,
)  # fmt: skip

# erfc(x) exp(x^2) in t = 1 / (1 + x/2) on 1 <= x <= 6; relative error of 1 - erfc with it: 5.5e-18
_ERFC_DOUBLE = (
    -3.078123842059759e-06, 0.2821875144706893, 0.28082866283441515, 0.2572343964441899,
    0.11891886223017023, 0.3080191958657756, -0.6403428770781588, 1.2561975321990833,
    -1.9914948165764192, 1.9397364622775792, -1.1242328287258132, 0.3646504068211987,
    -0.051700025597733804,
)  # fmt: skip


@body("erf")
def erf(x: Expr) -> Expr:
    magnitude = _erf_single if x.dtype == dt.float32 else _erf_double
    return copysign(magnitude(fabs(x)), x)


def _erf_single(a: Expr) -> Expr:
    """1 - 2^log2(erfc(a)): one range, no division, and nothing cancels where the log is small."""
    a = at_most(a, 4.0)
    log2_erfc = a * horner(a, _LOG2_ERFC_SINGLE)
    bias = format_of(a).bias
    n, biased = round_to_integer(log2_erfc, 1.0, bias)
    r = log2_erfc - n
    power = power_of_two(biased, -bias, like=a)
    return fma(-power, r * horner(r, _EXP2M1_SINGLE), 1.0 - power)


def _erf_double(a: Expr) -> Expr:
    inner = fma(a, horner(a * a, _ERF_DOUBLE), a)
    b = at_most(a, 6.0)
    t = 1.0 / fma(b, 0.5, 1.0)
    return select(a < 1.0, inner, 1.0 - exp(-(b * b)) * horner(t, _ERFC_DOUBLE))


# erfinv(x) / x by w = -log(1 - x^2). Float32: in w - 2.5 for w < 5, in sqrt(w) - 3 for w < 17;
# relative errors 6.0e-8 and 1.5e-8
_ERFINV_SINGLE_NEAR = (
    1.5014094114303589, 0.24664027988910675, -0.004177670460194349, -0.0012527692597359419,
    0.00021857912361156195, -4.936282493872568e-06, -3.5241112072981196e-06,
    4.585407680224307e-07, 2.8222386205811745e-08, -8.14417422390079e-09,
)  # fmt: skip
_ERFINV_SINGLE_FAR = (
    2.832976818084717, 1.0016751289367676, 0.00944498274475336, -0.007638342212885618,
    0.005689406767487526, -0.003596310969442129, 0.001478059682995081,
    -5.3856929298490286e-05, -0.0003033125540241599, 0.00011123601871076971,
)  # fmt: skip
# Float64: in w - 3.125 for w < 6.25, in sqrt(w) - 3.25 for
# w < 16, in sqrt(w) - 5 for w < 37; relative errors 1.8e-16, 5.6e-17, 6.4e-17
_ERFINV_DOUBLE_NEAR = (
    1.6536545626831027, 0.24015818242558834, -0.006033670871427555, -0.0007407025341545354,
    0.00018673420802328494, -1.3882523394106866e-05, -1.3654691826120932e-06,
    4.234788167906891e-07, -2.9070384497102224e-08, -4.112660243049087e-09,
    1.0512193285979168e-09, -5.414319254104853e-11, -1.2977265521372001e-11,
    2.6305914938975805e-12, -8.110599026302763e-14, -4.003523159328746e-14,
    6.586228286915383e-15, -3.723138534736871e-17, -1.2935169548986387e-16,
    1.53250324092572e-17, 1.1131893911570529e-18, -3.385794361694511e-19,
    -4.014321169398447e-22, 3.018383280447626e-21,
)  # fmt: skip
_ERFINV_DOUBLE_FAR = (
    3.0838856104922208, 1.0052589676941652, 0.005370914553541465, -0.003751208508227664,
    0.002491442098221232, -0.0016882755350976445, 0.0009532893432851082,
    -0.00035503782163836406, 2.4031430540385835e-05, 6.828719517696154e-05,
    -4.73198246402147e-05, 1.2464613510316558e-05, 2.9281482173114513e-06,
    -3.984431387647267e-06, 1.494621762781817e-06, -2.98785952434337e-08,
    -2.6759027662647766e-07, 1.337392853835952e-07, -7.458533534187105e-10,
    -1.6156694505005724e-08,
)  # fmt: skip
_ERFINV_DOUBLE_TAIL = (
    4.849906401408584, 1.0103004648645444, -0.00013871931835649317, -0.00021503011976368487,
    7.599527731877249e-05, -1.9681771774743726e-05, 4.526060786946111e-06,
    -9.930218035274036e-07, 2.2901084000816538e-07, -6.758357764463827e-08,
    2.9136512554246005e-08, -1.520021614988951e-08, 7.628227373167677e-09,
    -3.532954658834097e-09, 1.5002988820587405e-09, -4.0122710073614564e-10,
    -2.5312815980842237e-11, 3.4118871212261623e-11,
)  # fmt: skip


@body("erfinv")
def erfinv(x: Expr) -> Expr:
    w = -log(fma(-x, x, 1.0))
    root = sqrt(w)
    if x.dtype == dt.float32:
        near, far = horner(w - 2.5, _ERFINV_SINGLE_NEAR), horner(root - 3.0, _ERFINV_SINGLE_FAR)
        ratio = select(w < 5.0, near, far)
    else:
        tail = horner(root - 5.0, _ERFINV_DOUBLE_TAIL)
        far = select(w < 16.0, horner(root - 3.25, _ERFINV_DOUBLE_FAR), tail)
        ratio = select(w < 6.25, horner(w - 3.125, _ERFINV_DOUBLE_NEAR), far)
    return select(eq(fabs(x), 1.0), copysign(const(INF, x.dtype), x), x * ratio)


@body("lgamma")
def lgamma(x: Expr) -> Expr:
    """log|gamma(x)|."""
    return cast(call("lgamma", cast(x, dt.float64)), x.dtype)


# Bernoulli numbers B_2, B_4, ... as (numerator, denominator)
_BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730),
)  # fmt: skip


def _cotangent_of_pi(x: Expr) -> Expr:
    """cot(pi x), exact in its poles; x in float64."""
    fraction = x - rint(x)
    sine, cosine = sine_and_cosine(fraction * 3.141592653589793, bounded=True)
    return cosine / sine


@body("digamma")
def digamma(x: Expr) -> Expr:
    """The derivative of log gamma; NaN at the negative integers, -inf at +0, inf at -0."""
    wide = cast(x, dt.float64)
    reflected = wide < 0.0
    y = select(reflected, 1.0 - wide, wide)
    # psi(y) = psi(y + n) - sum 1/(y + k), the sum as one fraction
    steps = 10
    large = y > float(steps)
    start = select(large, 1.0, y)
    top, bottom = const(1.0, dt.float64), start
    for k in range(1, steps):
        factor = start + float(k)
        top, bottom = fma(top, factor, bottom), bottom * factor
    shifted = select(large, y, y + float(steps))
    inverse = 1.0 / shifted
    square = inverse * inverse
    series = [b / (d * 2.0 * (k + 1)) for k, (b, d) in enumerate(_BERNOULLI[:8])]
    tail = square * horner(square, series)
    result = log(shifted) - (0.5 * inverse + tail)
    result = result - select(large, 0.0, top / bottom)
    # psi(x) = psi(1 - x) - pi cot(pi x)
    pole = eq(wide, floor(wide)) & (wide < 0.0)
    turn = select(reflected, 3.141592653589793 * _cotangent_of_pi(wide), 0.0)
    result = select(pole, NAN, result - turn)
    result = select(eq(wide, 0.0), copysign(const(INF, dt.float64), -wide), result)
    result = select(eq(wide, INF), INF, result)
    return cast(select(eq(wide, -INF), NAN, result), x.dtype)


def _hurwitz_zeta(s: int, x: Expr) -> Expr:
    """sum over k >= 0 of (x + k)^-s for s >= 2 and a float64 x > 0, by Euler and Maclaurin."""
    # the larger s, the later the asymptotic series is good
    steps = 10 + s // 2
    total = const(0.0, dt.float64)
    for k in range(steps):
        total = total + _inverse_power(x + float(k), s)
    a = x + float(steps)
    inverse = 1.0 / a
    square = inverse * inverse
    series = []
    for k, (b, d) in enumerate(_BERNOULLI[:10], 1):
        rising = factorial(s + 2 * k - 2) // factorial(s - 1)
        series.append(b / d * rising / factorial(2 * k))
    rest = fma(0.5, inverse, 1.0 / (s - 1)) + square * horner(square, series)
    return total + rest * _inverse_power(a, s - 1)


def _inverse_power(x: Expr, n: int) -> Expr:
    inverse = 1.0 / x
    result = None
    while n:
        if n & 1:
            result = inverse if result is None else result * inverse
        n >>= 1
        inverse = inverse * inverse
    assert result is not None
    return result


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial in cot, low degree first."""
    p = [0, 1]
    for _ in range(n):  # cot' = -(1 + cot^2)
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            p[k] -= c
            p[k + 2] -= c
    return p


@body("polygamma")
def polygamma(x: Expr, n: int) -> Expr:
    """The n-th derivative of digamma: (-1)^(n+1) n! sum over k of (x + k)^-(n+1)."""
    if n == 0:
        return digamma(x)
    wide = cast(x, dt.float64)
    reflected = wide < 0.0
    y = select(reflected, 1.0 - wide, wide)
    sign = 1.0 if n % 2 else -1.0
    result = sign * factorial(n) * _hurwitz_zeta(n + 1, y)
    # (-1)^n psi_n(1 - x) - psi_n(x) = pi d^n/dx^n cot(pi x)
    cotangent = _cotangent_of_pi(wide)
    turn = horner(cotangent, [float(c) for c in _cotangent_derivative(n)])
    turned = -sign * result - 3.141592653589793 ** (n + 1) * turn
    result = select(reflected, turned, result)
    pole = eq(wide, floor(wide)) & (wide <= 0.0)
    at_pole = INF if n % 2 else NAN
    result = select(pole, at_pole, result)
    if n % 2 == 0:
        result = select(eq(wide, 0.0), copysign(const(INF, dt.float64), -wide), result)
    result = select(eq(wide, INF), 0.0 * sign, result)
    return cast(select(eq(wide, -INF) | is_nan(wide), NAN, result), x.dtype)
