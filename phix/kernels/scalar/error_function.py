"""The error function, what it lacks to 1, its inverse, and the normal distribution."""

from __future__ import annotations

from collections.abc import Sequence

from phix.core import dtypes as dt
from phix.kernels.scalar.exponential import LN2_DOUBLE, LN2_SINGLE, LOG2_E, exp, expm1_reduced, log
from phix.kernels.scalar.floating import (
    INF,
    at_most,
    fast_two_sum,
    format_of,
    horner,
    pick,
    power_of_two,
    round_to_integer,
    two_product,
)
from phix.kernels.scalar.language import Expr, const, copysign, eq, fabs, fma, select, sqrt
from phix.kernels.scalar.registry import body

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
    ratio, low = _sum(a, _LOG2_ERFC_SINGLE)
    log2_erfc = a * ratio
    lost = fma(a, ratio, fma(a, low, -log2_erfc))
    bias = format_of(a).bias
    n, biased = round_to_integer(log2_erfc, 1.0, bias)
    r = log2_erfc - n
    power = power_of_two(biased, -bias, like=a)
    first, *others = _EXP2M1_SINGLE
    grown = fma(r, first, fma(r * r, horner(r, others), lost * first))
    return fma(-power, grown, 1.0 - power)


def _erf_double(a: Expr) -> Expr:
    inner = fma(a, horner(a * a, _ERF_DOUBLE), a)
    b = at_most(a, 6.0)
    t = 1.0 / fma(b, 0.5, 1.0)
    return select(a < 1.0, inner, 1.0 - exp(-(b * b)) * horner(t, _ERFC_DOUBLE))


# erfcx(a) (a + k) on a >= 0, in (a - k) / (a + k); relative errors 4.9e-9 and 1.2e-17. With
# these k, erfcx goes almost as 1 / (a + k), and the first coefficient is almost a number of the
# format, so that what is rounded on the way does little
_ERFCX_SINGLE = (
    0.9383265376091003, -0.43435826897621155, 0.012951170094311237, 0.05236640200018883,
    0.005785453133285046, -0.008404888212680817, -0.00421211076900363, 0.00018988363444805145,
    0.001273573376238346, 0.0006495419074781239, -0.00014044671843294054,
    -0.00026387168327346444, -1.4388015188160352e-05, 4.099440775462426e-05,
)  # fmt: skip
_ERFCX_DOUBLE = (
    0.9495634708939492, -0.4648966260129488, 0.037538513181765626, 0.05211558201047666,
    5.809101189808763e-05, -0.009439754737171655, -0.002932907974506859, 0.001024477035759631,
    0.0011827672522831884, 0.00032616593164246945, -0.00014875723874944606,
    -0.00018381619342968837, -7.156168406474941e-05, 9.917700505963572e-06,
    3.0271239772733178e-05, 1.896295950147104e-05, 3.96576556357508e-06, -3.905286649324678e-06,
    -4.5012657167039e-06, -1.6364667822889457e-06, 6.296900226088713e-08,
    -2.8694016943993317e-07, 1.361433462052211e-07, 1.249796528935823e-06,
    5.979678452751753e-07, -6.905210972740654e-07, -4.981975742705361e-07,
    1.687637907661658e-07, 1.622661222019494e-07, -1.6266079288291125e-08,
    -2.0557058198570892e-08,
)  # fmt: skip


def _scaled(a: Expr, shift: float, coefficients: Sequence[float]) -> tuple[Expr, Expr]:
    """P((a - k) / (a + k)) / (a + k) for a >= 0, as a sum of two numbers; k is ``shift``."""
    width = a + shift
    t = 1.0 / width
    q = fma(t, -2.0 * shift, 1.0)
    first, *others = coefficients
    slope = horner(q, others)
    value = fma(q, slope, first)
    high = t * value
    # what the last sum lost, and how much value is more than high times the exact a + k
    lost = fma(q, slope, first - value)
    lost = lost - high * select(a > shift, shift - (width - a), a - (width - shift))
    return fast_two_sum(high, (fma(-high, width, value) + lost) * t)


def _expm1(square: Expr, rest: Expr, sign: float, bias: int) -> tuple[Expr, Expr]:
    """``(2^(n + bias), p)``: exp(sign (square + rest)) = 2^n (1 + p), for a tiny rest."""
    fmt, (ln2, ln2_low) = format_of(square), pick(square, LN2_SINGLE, LN2_DOUBLE)
    n, biased = round_to_integer(square, sign * LOG2_E, fmt.bias + bias)
    r, low = fast_two_sum(fma(-n, ln2, sign * square), fma(-n, ln2_low, sign * rest))
    return power_of_two(biased, -fmt.bias, like=square), expm1_reduced(r, low)


def _decayed(value: tuple[Expr, Expr], square: Expr, rest: Expr) -> Expr:
    """value exp(-square - rest), for a value in (0, 1]; rounded once for subnormal results."""
    up = pick(square, *_NORMAL_UP)
    power, p = _expm1(square, rest, -1.0, up)
    return (value[0] + fma(value[0], p, value[1])) * power * 2.0**-up


def _scaled_erfc(a: Expr) -> tuple[Expr, Expr]:
    return _scaled(a, pick(a, 1.34375, 1.40625), pick(a, _ERFCX_SINGLE, _ERFCX_DOUBLE))


@body("erfc")
def erfc(x: Expr) -> Expr:
    a = at_most(fabs(x), pick(x, 10.5, 27.5))
    tail = _decayed(_scaled_erfc(a), *two_product(a, a))
    return select(x < 0.0, 2.0 - tail, tail)


@body("erfcx")
def erfcx(x: Expr) -> Expr:
    size = fabs(x)
    a = at_most(size, format_of(x).max)  # infinity has no middle to measure from
    high, low = _scaled_erfc(a)
    # 2 exp(x^2) - erfcx(-x), an eighth of it first, which does not overflow on the way
    b = at_most(a, pick(x, 9.44, 26.66))
    power, p = _expm1(*two_product(b, b), 1.0, -2)
    rest, lost = fast_two_sum(power, -0.125 * high)
    left = 8.0 * (rest + fma(power, p, fma(low, -0.125, lost)))
    return select(x < 0.0, left, select(eq(size, INF), 0.0, high + low))


# Float32: with E(a) = 2^(-a^2 / (2 L)), L the first number of LN2_SINGLE, which is almost
# exp(-a^2/2), and t = c / (a + k): ndtr(-a) / (t E(a)) - 1 on 0 <= a <= 14.2, over t - m, in t - m;
# relative error of ndtr with it 5.7e-9. c and m are numbers of the format where that is 0 at m
# within 1e-10; k is short, so that what a + k loses is found exactly. E(r) - 1 + r over r^2
# for exponents r, |r| <= log(2)/2; relative error of E with it 2.8e-9
_NDTR_SHIFT, _NDTR_SCALE, _NDTR_MIDDLE = 1.5, 0.5400020480155945, 0.11456328630447388
_NDTR_SINGLE = (
    2.3272597789764404, -1.3216793537139893, -14.14759349822998, 25.928377151489258,
    99.86930847167969, -545.6005249023438, 299.1222839355469, 6294.61669921875, -28413.126953125,
    55639.1640625, -43843.953125,
)  # fmt: skip
_DECAY_SINGLE = (
    0.4999999403953552, -0.16666513681411743, 0.04166819527745247, -0.008369105868041515,
    0.00138248095754534,
)  # fmt: skip
# Float64: erfcx(a / sqrt(2)) (a + k) / 2 on 0 <= a <= 39 as that of erfcx; relative error 7.2e-18
_NDTR_SHIFT_DOUBLE = 2.0625
_NDTR_DOUBLE = (
    0.6775828311572478, -0.34592172809335753, 0.04142895186141398, 0.03554222895602248,
    -0.0032491018048215847, -0.0068344231101831404, -0.0012471946664446801,
    0.001069442337469946, 0.000744100364716807, 7.825059221010328e-05, -0.00016036509981693064,
    -0.00011293729633909646, -2.0903690632846796e-05, 2.1288116516122827e-05,
    2.097540119838034e-05, 7.770841854929135e-06, -1.3712747737345453e-06,
    -3.6526728364403838e-06, -2.3512028506759166e-06, -6.86579222146228e-07,
    2.609868788420178e-07, 6.272496224750351e-07, 4.970258884904333e-07, 5.545692282888414e-08,
    -2.0392177873697582e-07, -1.229842660387479e-07, 8.386111522654593e-09,
    2.7386993853620746e-08, 6.679071690637369e-09,
)  # fmt: skip
_ONE_OVER_SQRT_2_PI = 0.3989422804014327
# Powers of two are as much larger than the results, which are rounded once where subnormal
_NORMAL_UP = (64, 600)


def _bell(a: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """``(a^2/2, power, r, w)``: E(a) is power (1 - r + r w) 2^-64; for float32."""
    square, rest = two_product(a, 0.5 * a)
    bias = format_of(a).bias
    n, biased = round_to_integer(square, -LOG2_E, bias + _NORMAL_UP[0])
    r = fma(n, LN2_SINGLE[0], square) + rest
    return square, power_of_two(biased, -bias, like=a), r, r * horner(r, _DECAY_SINGLE)


def _ndtr_tail_single(a: Expr) -> Expr:
    """ndtr(-a) for a >= 0: t (1 + f) (1 + q) power, rounded at few places but the last product."""
    width = a + _NDTR_SHIFT
    t = _NDTR_SCALE / width
    # c times what t lacks, relatively, as the sum and the quotient are rounded. The tail goes about
    # as t^(2c), that is as (1 + lost)^2: one for each factor
    lost = fma((width - _NDTR_SHIFT) - a, t, fma(-width, t, _NDTR_SCALE))
    _, power, r, w = _bell(a)
    q = fma(r, w, lost) - r
    z = t - _NDTR_MIDDLE
    f = fma(z, horner(z, _NDTR_SINGLE), lost)
    return fma(t, fma(f, q, q) + f, t) * power * 2.0 ** -_NORMAL_UP[0]


def _ndtr_tail_double(a: Expr) -> Expr:
    scaled = _scaled(a, _NDTR_SHIFT_DOUBLE, _NDTR_DOUBLE)
    return _decayed(scaled, *two_product(a, 0.5 * a))


def _normal_argument(x: Expr) -> Expr:
    """|x|, or a number at which the distribution and its density underflow."""
    return at_most(fabs(x), pick(x, 14.8, 38.9))


@body("ndtr")
def ndtr(x: Expr) -> Expr:
    a = _normal_argument(x)
    tail = pick(x, _ndtr_tail_single, _ndtr_tail_double)(a)
    return select(x > 0.0, 1.0 - tail, tail)


@body("normal_density")
def normal_density(x: Expr) -> Expr:
    """Of the parts that ndtr is made of: beside it, it costs little."""
    a = _normal_argument(x)
    factor = _ONE_OVER_SQRT_2_PI * 2.0 ** -pick(x, *_NORMAL_UP)
    if x.dtype == dt.float32:
        square, power, r, w = _bell(a)
        lacking = LN2_SINGLE[1] / LN2_SINGLE[0]  # exp(-a^2/2) is E(a) exp(a^2/2 lacking)
        scale = fma(square, factor * lacking, factor)
        p = fma(r, w, -r)
    else:
        scale = const(factor, x.dtype)
        power, p = _expm1(*two_product(a, 0.5 * a), -1.0, _NORMAL_UP[1])
    return fma(scale, p, scale) * power


# erfinv(x) / x by w = -log(1 - x^2). Float32: in w - 2.625 for w < 5, in sqrt(w) - 3 for w < 17;
# relative errors 3.5e-09 and 1.5e-8
_ERFINV_SINGLE_NEAR = (
    1.5321717262268066, 0.24553893506526947, -0.004626764450222254, -0.0011445211712270975,
    0.00021440583805087954, -7.3758155849645846e-06, -3.018235929630464e-06,
    4.773441446559445e-07, 7.828468540083122e-09, -8.21813372908764e-09, 3.8271941171785784e-10,
)  # fmt: skip
_ERFINV_SINGLE_FAR = (
    2.832976818084717, 1.0016751289367676, 0.00944498274475336, -0.007638342212885618,
    0.005689406767487526, -0.003596310969442129, 0.001478059682995081,
    -5.3856929298490286e-05, -0.0003033125540241599, 0.00011123601871076971,
)  # fmt: skip
# Float64: in w - 3.125 for w < 6.25, in sqrt(w) - 3.25 for
# w < 16, in sqrt(w) - 5 for w < 37; relative errors 1.4e-17, 5.6e-17, 6.4e-17
_ERFINV_DOUBLE_NEAR = (
    1.6536545626831027, 0.2401581824255883, -0.0060336708714271384, -0.0007407025341543489,
    0.00018673420802081567, -1.3882523394853966e-05, -1.3654691774705825e-06,
    4.23478818110495e-07, -2.9070389882829132e-08, -4.112661481622181e-09,
    1.0512226320666336e-09, -5.414250734022019e-11, -1.2978547229008439e-11,
    2.630353731793432e-12, -8.077898665381099e-14, -3.998165810317114e-14,
    6.530644227098593e-15, -4.516763843819219e-17, -1.2312196884579262e-16,
    1.6089868357511337e-17, 6.713544419827361e-19, -3.845714385577755e-19,
    1.755709964257479e-20, 4.5785723402449464e-21, -3.185420980331501e-22,
    -2.2663529971820434e-23,
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
        near, far = _sum(w - 2.625, _ERFINV_SINGLE_NEAR), _sum(root - 3.0, _ERFINV_SINGLE_FAR)
        pairs = [select(w < 5.0, n, f) for n, f in zip(near, far)]
    else:
        lost = fma(-root, root, w) / (root + root)
        tail = _sum(root - 5.0, _ERFINV_DOUBLE_TAIL, lost)
        far = _sum(root - 3.25, _ERFINV_DOUBLE_FAR, lost)
        near = _sum(w - 3.125, _ERFINV_DOUBLE_NEAR)
        outer = [select(w < 16.0, f, t) for f, t in zip(far, tail)]
        pairs = [select(w < 6.25, n, o) for n, o in zip(near, outer)]
    ratio, low = pairs
    size = select(eq(fabs(x), 1.0), const(INF, x.dtype), fma(x, ratio, x * low))
    return copysign(size, x)


def _sum(x: Expr, coefficients: Sequence[float], lost: Expr | None = None) -> tuple[Expr, Expr]:
    """The polynomial of ``horner`` at x + lost as a sum of two numbers; lost is tiny."""
    first, *others = coefficients
    slope = horner(x, others)
    value = fma(x, slope, first)
    low = fma(x, slope, first - value)
    return value, low if lost is None else fma(lost, slope, low)
