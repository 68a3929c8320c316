"""Fresnel integrals, sine and cosine integrals: waves around their limits, computed in float64.

Near 0 they are series. Further out they are a limit and f(x) and g(x) times a sine and a cosine,
with f and g, which do not oscillate, by polynomials (M. Abramowitz and I. Stegun, 5.2 and 7.3).
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core.given import takes
from phix.core.tensor import Tensor, TensorLike
from phix.primitives import incomplete_gamma as incomplete
from phix.scipy.smoothness import in_float64, smooth


def _series(x: Any, first: int, start: int, step: float, terms: int) -> Any:
    """The sum over k of (-1)^k u^k / ((2 k + first)! (2 step k + start)) with u = x^2."""
    ratios = [
        (-1) ** k / (math.factorial(2 * k + first) * (2 * step * k + start)) for k in range(terms)
    ]
    return incomplete._horner(x * x, ratios)


# -- Fresnel's ------------------------------------------------------------------------------------
_NEAR_FRESNEL = 1.5
# pi x f(x) for x >= 1.5, in (x^2 - 6.75) / (x^2 + 2.25); error 1e-17
_FRESNEL_F = (
    0.9937644416108655, 0.01563445336187439, -0.013334448449194987, 0.00482996528579673,
    -0.0010599578741881338, 0.0002226327949900796, -7.231423732083182e-05, 1.780981010356184e-05,
    -3.967554359295262e-06, 1.6577726162212543e-06, -3.1065375671341806e-07, 9.370436344002827e-08,
    -5.0748095642097746e-08, -8.267011943855518e-10, -5.602362761734925e-09, 5.882288708864344e-10,
    -4.041987899638841e-11, 5.67511526489899e-10, 5.276778291369326e-10, 1.352908183215814e-10,
    -1.205406126470846e-10, -5.2378980376012645e-11,
)  # fmt: skip
# pi^2 x^3 g(x) there; error 1e-17
_FRESNEL_G = (
    0.970312761568054, 0.07127225207133814, -0.05392096245275674, 0.012345159938757748,
    0.0002754125964545002, -0.00013329083364190718, -0.0001366207004263463, -2.6853680188473185e-05,
    4.246606913256887e-06, 5.367960962692267e-06, 2.4956310776825703e-06, 4.821043827632973e-07,
    -1.2474584836180687e-07, -1.9184779772492146e-07, -1.1027034576182994e-07,
    -4.028371461954803e-08, 1.994106219462104e-10, 9.328264478306592e-09, 8.217601529230514e-10,
    -8.37507655735256e-11, 6.250102866036778e-09, 3.648716130864174e-09, -2.4166988039549827e-09,
    -1.9541140495449593e-09, 2.484756153205704e-10, 2.946128481435078e-10,
)  # fmt: skip


def _fresnel_waves(x: Any) -> tuple[Any, Any]:
    """f and g for x >= 1.5."""
    held = ops.minimum(x, 1e9)
    square, inverse = held * held, 1 / (math.pi * x)
    t = (square - 6.75) / (square + 2.25)
    f = inverse * incomplete._in_halves(t, _FRESNEL_F)
    return f, inverse / (math.pi * square) * incomplete._in_halves(t, _FRESNEL_G)


def _turn(x: Any) -> tuple[Any, Any]:
    """The sine and the cosine of pi x^2 / 2; from 2^53 on x^2 is known to no turn."""
    whole = ops.floor(0.5 * x + 0.5) * 2  # x = whole + rest: x^2 = rest (whole + x), modulo 4
    rest = x - whole
    turns = rest * (x + whole)
    angle = 0.5 * math.pi * (turns - 4 * ops.floor(0.25 * turns))
    return ops.sin(angle), ops.cos(angle)


def _fresnel(is_sine: bool) -> Any:
    def integral(x: Any) -> Any:
        size = ops.abs(x)
        near, known = size < _NEAR_FRESNEL, size < math.inf
        few = ops.where(near, x, 0.0)
        angle = 0.5 * math.pi * few * few
        if is_sine:
            inner = few * angle * _series(angle, 1, 3, 2, 18)
        else:
            inner = few * _series(angle, 0, 1, 2, 18)
        wide = ops.where(near | ~known, 2.0, size)
        f, g = _fresnel_waves(wide)
        sine, cosine = _turn(wide)
        outer = 0.5 - f * cosine - g * sine if is_sine else 0.5 + f * sine - g * cosine
        outer = ops.sign(x) * ops.where(known, outer, 0.5)
        return ops.where(ops.isnan(x), math.nan, ops.where(near, inner, outer))

    return integral


_sine_part = smooth(_fresnel(True), lambda x: _turn(x)[0])
_cosine_part = smooth(_fresnel(False), lambda x: _turn(x)[1])


@takes()
def fresnel(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The integrals of sin(pi t^2 / 2) and of cos(pi t^2 / 2) over 0 < t < x, of real numbers.

    Right to 1e-14; the derivatives are those two functions.

    >>> import phix
    >>> [round(v.item(), 5) for v in phix.scipy.special.fresnel(1.0)]
    [0.43826, 0.77989]
    """
    return in_float64(_sine_part, x), in_float64(_cosine_part, x)


# -- sine and cosine integrals --------------------------------------------------------------------
_NEAR_WAVES, _EULER = 4.0, 0.5772156649015329
# x f(x) for x >= 4, in (x - 12) / (x + 4); error 1e-17
_SI_F = (
    0.9870883480756537, 0.03219502084583978, -0.027010568288985248, 0.009188683212642035,
    -0.0016104927409637615, 0.0002111580179605412, -8.055981595766907e-05, 1.8451707302557208e-05,
    -1.310148380307242e-06, 1.5870001761088876e-06, -2.124894208443862e-07, -2.7899795731998087e-08,
    -6.835207984647797e-08, -1.245751629136305e-08, -2.125223027127377e-09, 2.346166631658549e-09,
    1.5513734457996189e-09, 1.4675403658275232e-09, 6.766821189550672e-10, -2.775362220530937e-10,
    -3.275147282249163e-10, -1.18337412524796e-11, 3.387014061002537e-11,
)  # fmt: skip
# x^2 g(x) there; error 1e-17
_SI_G = (
    0.962942082441274, 0.08880838370223824, -0.06664691859499151, 0.01429790210994895,
    0.0012681916208493367, -0.0005089205050428876, -0.00015516323261342542, -2.994616406834748e-05,
    1.5027743544918083e-05, 7.701955441893872e-06, 2.5246819195231673e-06, -9.771995782102415e-08,
    -4.2940749797602585e-07, -2.752951442868783e-07, -9.324623907700891e-08, -7.92368620390413e-09,
    1.749300216737182e-08, 1.3811852477832419e-08, 4.316152537662925e-09, 1.9274915846179727e-09,
    2.726507753418831e-09, -1.8434313992925486e-11, -2.151714260405168e-09, -8.241640743269945e-10,
    3.590600285631842e-10, 1.942707758375618e-10,
)  # fmt: skip


def _integral_waves(x: Any) -> tuple[Any, Any]:
    """f and g for x >= 4."""
    t, inverse = (x - 12) / (x + 4), 1 / x
    f = inverse * incomplete._in_halves(t, _SI_F)
    return f, inverse * inverse * incomplete._in_halves(t, _SI_G)


def _wave_integral(is_sine: bool) -> Any:
    def integral(x: Any) -> Any:
        size = ops.abs(x)
        near, known = size < _NEAR_WAVES, size < math.inf
        few = ops.where(near, size, 1.0)
        if is_sine:
            inner = few * _series(few, 1, 1, 1, 20)
        else:
            inner = ops.log(few) + _EULER - 0.5 * few * few * _series(few, 2, 1, 0.5, 20)
        wide = ops.where(near | ~known, 5.0, size)
        f, g = _integral_waves(wide)
        sine, cosine = ops.sin(wide), ops.cos(wide)
        outer = 0.5 * math.pi - f * cosine - g * sine if is_sine else f * sine - g * cosine
        out = ops.where(near, inner, ops.where(known, outer, 0.5 * math.pi if is_sine else 0.0))
        out = ops.sign(x) * out if is_sine else ops.where(x == 0, -math.inf, out)
        return ops.where(ops.isnan(x), math.nan, out)

    return integral


def _sine_over(x: Any) -> Any:
    """sin(x) / x, near 0 by its series, which has derivatives there."""
    near = ops.abs(x) < 1.5
    far = ops.where(near, 1.0, x)
    return ops.where(near, _series(ops.where(near, x, 0.0), 1, 1, 0.0, 14), ops.sin(far) / far)


_sine_integral = smooth(_wave_integral(True), _sine_over)
_cosine_integral = smooth(_wave_integral(False), lambda x: ops.cos(x) / x)


@takes()
def sici(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The integral of sin(t) / t over 0 < t < x, and the principal value of that of cos(t) / t
    over t < x, less at infinity; of real numbers, the second of -x what it is of x.

    Right to 1e-14, the second next to its zeros to 15 digits behind the point.

    >>> import phix
    >>> [round(v.item(), 5) for v in phix.scipy.special.sici(1.0)]
    [0.94608, 0.3374]
    """
    return in_float64(_sine_integral, x), in_float64(_cosine_integral, x)
