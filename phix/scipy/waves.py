"""Bessel functions of whole orders, spherical harmonics and Faddeeva's function."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from phix import ops
from phix.api.control_flow import scan, while_loop
from phix.api.custom import custom_jvp
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.errors import AttributeValueError
from phix.core.given import INT, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.primitives.pointwise import broadcast_shapes
from phix.scipy.entropies import floats
from phix.scipy.integrals import FAR, far_slope
from phix.scipy.smoothness import in_float64, smooth

# -- Bessel functions of the first kind -----------------------------------------------------------
_FEW = 30.0  # above it, and above the order, the asymptotic series and the recurrence upwards
_NEAR, _LARGE, _SCALE = 1e-3, 2.0**400, 2.0**-400


def _near_zero(z: Any, v: int) -> Any:
    """(z / 2)^n / n! (1 - u / (n + 1) + u^2 / (2 (n + 1) (n + 2))) with u = (z / 2)^2."""
    n = np.arange(v + 1.0).reshape(-1, *(1,) * z.ndim)
    half = 0.5 * z
    u = half * half
    series = 1 - u / (n + 1) * (1 - u / (2 * (n + 2)))
    steps = ops.where(n == 0, 1.0, half / np.maximum(n, 1.0))
    return ops.cumprod(steps, 0) * series


def _downwards(z: Any, v: int) -> Any:
    """Miller's recurrence for z from 1e-3 to the larger of 30 and v: of numbers that meet
    J_(n - 1) = 2 n / z J_n - J_(n + 1) the largest part is J, and J_0 + 2 J_2 + 2 J_4 ... = 1."""
    most = max(_FEW, float(v))
    top = 2 * (int(most + 15 * most ** (1 / 3) + 20) // 2)

    def step(carry: Any, _: Any) -> Any:
        n, above, here, total, scale = carry
        large = ops.abs(here) > _LARGE
        down = ops.where(large, _SCALE, ops.ones_like(z))
        above, here, total = above * down, here * down, total * down
        scale = scale + ops.cast(large, dt.float64)
        is_even = ops.remainder(n, 2.0) == 0
        total = total + ops.where(is_even, ops.where(n == 0, 1.0, 2.0), 0.0) * here
        return (n - 1, here, 2 * n / z * here - above, total, scale), (here, scale)

    nothing = ops.zeros_like(z)
    begin = (np.float64(top), nothing, ops.full_like(z, 1e-200), nothing, nothing)
    (*_, total, scale), (found, scales) = scan(step, begin, length=top + 1)
    found, scales = (ops.flip(t[top - v :], [0]) for t in (found, scales))
    late = ops.minimum(scale - scales, 4.0)  # 2^-1600 is nothing
    return found * ops.where(late == 0, 1.0, ops.exp(-400 * math.log(2) * late)) / total


def _hankel(order: int, z: Any) -> Any:
    """J_0 or J_1 for z >= 30, by Hankel's asymptotic series."""
    p: Any = 1.0
    q: Any = 0.0
    term: Any = 1.0
    for k in range(1, 26):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8 * k)) / z
        if k % 2:
            q = q + term * (-1) ** (k // 2)
        else:
            p = p + term * (-1) ** (k // 2)
    sine, cosine = ops.sin(z), ops.cos(z)  # of the angle z - (order + 1/2) pi / 2, times sqrt(2)
    over, under = (sine + cosine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    return (p * over - q * under) / ops.sqrt(math.pi * z)


def _upwards(z: Any, v: int) -> Any:
    """J_(n + 1) = 2 n / z J_n - J_(n - 1), which keeps the digits up to n = z."""
    zero, one = _hankel(0, z), _hankel(1, z)
    if v < 2:
        return ops.stack([zero, one][: v + 1], 0)

    def step(carry: Any, _: Any) -> Any:
        n, below, here = carry
        above = 2 * n / z * here - below
        return (n + 1, here, above), above

    _, rest = scan(step, (np.float64(1), zero, one), length=v - 1)
    return ops.concat([ops.stack([zero, one], 0), rest], 0)


def _bessel(z: Any, v: int) -> Any:
    size = ops.abs(z)
    bound = max(_FEW, float(v))
    near, far, known = size < _NEAR, size > bound, size < math.inf
    inner = _near_zero(ops.where(near, size, 0.0), v)
    middle = _downwards(ops.where(near | far | ~known, 1.0, size), v)
    outer = _upwards(ops.where(far & known, size, bound + 1), v)
    found = ops.where(near, inner, ops.where(far, ops.where(known, outer, 0.0), middle))
    n = np.arange(v + 1).reshape(-1, *(1,) * z.ndim)
    found = ops.where((z < 0) & (n % 2 == 1), -found, found)
    return ops.where(ops.isnan(z), math.nan, found)


def _smooth_bessel(v: int) -> Any:
    whole: Any = custom_jvp(lambda z: _bessel(z, v))

    def rule(primals: Any, tangents: Any) -> Any:
        (z,), (dz,) = primals, tangents
        found = _smooth_bessel(v + 1)(z)
        below = ops.concat([-found[1:2], found[:v]], 0) if v else -found[1:2]
        return whole(z), 0.5 * (below - found[1:]) * dz

    whole.defjvp(rule)
    return whole


@takes(v=INT, n_iter=INT)
def bessel_jn(z: TensorLike, *, v: int, n_iter: int = 50) -> Tensor:
    """The Bessel functions J_0(z), ..., J_v(z) of real numbers, along a first axis.

    As ``jax.scipy.special.bessel_jn``. Computed in float64, right to 1e-13 and, below the first
    zero of each, to 12 digits; the derivative (J_(n - 1) - J_(n + 1)) / 2 of any order.

    Args:
        z: real numbers.
        v: the highest order, from 0.
        n_iter: there for JAX's sake; as many steps are done as the digits ask for.

    Raises:
        AttributeValueError: v is negative.

    >>> import phix
    >>> phix.scipy.special.bessel_jn(0.0, v=2).tolist()
    [1.0, 0.0, 0.0]
    """
    if v < 0:
        raise AttributeValueError(f"bessel_jn: v is the highest order, from 0, found {v}")
    return in_float64(_smooth_bessel(v), z)


# -- Faddeeva's function --------------------------------------------------------------------------
_TERMS = 12
_WIDTH = math.sqrt(math.pi / _TERMS)
_MIDDLES = [((k + 0.5) * _WIDTH) ** 2 for k in range(_TERMS)]
_POINTS = [((k + 1) * _WIDTH) ** 2 for k in range(_TERMS)]


def _chosen(chooses: Any, one: float, other: float) -> Any:
    return ops.where(chooses, np.float64(one), np.float64(other))


def _sum_over_nodes(a: Any, b: Any, on_middles: Any) -> tuple[Any, Any]:
    """The sum of exp(-t^2) / (a + i b - t^2) over the nodes t, its real and its imaginary part."""
    top: Any = 0.0
    bottom: Any = 0.0
    for middle, point in zip(_MIDDLES, _POINTS, strict=True):
        away = a - _chosen(on_middles, middle, point)
        bell = _chosen(on_middles, math.exp(-middle), math.exp(-point))
        share = bell / (away * away + b * b)
        top, bottom = top + away * share, bottom + share
    return top, -b * bottom


def _faddeeva_inside(x: Any, y: Any, gauss: Any) -> tuple[Any, Any]:
    """The trapezoidal rule for (i / pi) times the integral of exp(-t^2) / (z - t), with what its
    poles leave, on points or middles, of which those are taken that are far from z: M. Al Azah
    and S. Chandler-Wilde, "Computation of the complex error function using modified trapezoidal
    rules", 2021. For z = x + i y in the first quadrant; ``gauss`` are the parts of exp(-z^2).
    """
    share = x * (1 / _WIDTH)
    share = share - ops.floor(share)
    on_middles = (y >= x) | (share < 0.25) | (share > 0.75)
    real, imaginary = _sum_over_nodes((x - y) * (x + y), 2 * x * y, on_middles)
    factor = 2 * _WIDTH / math.pi
    at_zero = ops.where(on_middles, 0.0, 0.5 / ops.where(on_middles, 1.0, x * x + y * y))
    real, imaginary = y * (at_zero - real) - x * imaginary, x * (at_zero + real) - y * imaginary
    # the poles' part is 2 exp(-z^2) / (1 + e) on middles and 2 exp(-z^2) / (1 - e) on points, with
    # e = exp(-2 i pi z / width), here over and under 1 / |e|
    size, angle = ops.exp(-2 * math.pi / _WIDTH * y), 2 * math.pi * share
    sign = ops.where(on_middles, 1.0, -1.0)
    c, d = size + sign * ops.cos(angle), -sign * ops.sin(angle)
    leaves = y < math.pi / _WIDTH
    part = ops.where(leaves, 2 * size / (c * c + d * d), 0.0)
    u, v = (ops.where(leaves, g, 0.0) for g in gauss)
    return factor * real + part * (u * c + v * d), factor * imaginary + part * (v * c - u * d)


def _faddeeva(z: Any) -> Any:
    x, y = ops.real(z), ops.imag(z)
    right, high = ops.abs(x), ops.abs(y)
    height, angle = ops.exp((high - right) * (high + right)), 2 * right * high
    sine = ops.sin(angle)  # 0 on the axes, where the height may be infinite
    gauss = height * ops.cos(angle), ops.where(sine == 0, -sine, -height * sine)
    far = ops.maximum(right, high) > 1e8
    near = ops.where(far, 1.0, right), ops.where(far, 1.0, high)
    outer = ops.complex(ops.where(far, right, 1.0), ops.where(far, high, 1.0))
    limit = (1j / math.sqrt(math.pi)) / outer
    real, imaginary = (
        ops.where(far, of(limit), part)
        for of, part in zip((ops.real, ops.imag), _faddeeva_inside(*near, gauss), strict=True)
    )
    # w(-conj(z)) = conj(w(z)); below the real line w(z) = 2 exp(-z^2) - w(-z)
    below = y < 0
    real = ops.where(below, 2 * gauss[0] - real, real)
    imaginary = ops.where(below, imaginary - 2 * gauss[1], imaginary)
    return ops.complex(real, ops.where(x < 0, -imaginary, imaginary))


def _faddeeva_slope(z: Any) -> Any:
    """2 i / sqrt(pi) - 2 z w(z); far out, where the two cancel, by the series of that, which below
    the real line is that of -z."""
    is_far = ops.maximum(ops.abs(ops.real(z)), ops.abs(ops.imag(z))) > FAR
    near, far = ops.where(is_far, 0.0, z), ops.where(is_far, z, FAR)
    beside = 2j / math.sqrt(math.pi)
    series = beside * far_slope(far * far)
    under = ops.where(is_far & (ops.imag(z) < 0), z, 0.0)
    series = series - 4 * under * ops.exp(-under * under)
    return ops.where(is_far, series, beside - 2 * near * _smooth_faddeeva(near))


_smooth_faddeeva = smooth(_faddeeva, _faddeeva_slope)


@takes()
def wofz(z: TensorLike) -> Tensor:
    """Faddeeva's function w(z) = exp(-z^2) erfc(-i z), of complex numbers; its derivative is
    2 i / sqrt(pi) - 2 z w(z).

    Computed in complex128, right to 13 digits of its size.

    >>> import phix
    >>> phix.scipy.special.wofz(0.0).tolist()
    (1+0j)
    """
    value = z if isinstance(z, TensorBase) else owned_tensor(z)
    wide = _smooth_faddeeva(ops.cast(value, dt.complex128))
    return ops.cast(wide, dt.complex_dtype(dt.float_of(value.dtype)))


# -- spherical harmonics --------------------------------------------------------------------------
def _legendre(n: Any, m: Any, theta: Any) -> Any:
    """The normalised Legendre functions of cos(theta), for 0 <= m <= n, by the recurrence in n
    that begins with sin(theta)^m."""
    x, sine = ops.cos(theta), ops.sin(theta)

    def step(carry: Any) -> Any:
        k, below, here = carry
        k = k + 1
        # up to m: the function of degree and order k; then those of higher degrees
        rises = -ops.sqrt((2 * k + 1) / (2 * k)) * sine * here
        square, before = k * k - m * m, (k - 1) * (k - 1) - m * m
        inside = k > m
        square = ops.where(inside, square, 1.0)
        factor = ops.sqrt((4 * k * k - 1) / square)
        share = ops.where(inside, before, 0.0) / (4 * (k - 1) * (k - 1) - 1)
        above = factor * (x * here - ops.sqrt(ops.maximum(share, 0.0)) * below)
        goes = k <= n
        found = ops.where(inside, above, rises)
        below = ops.where(goes, ops.where(inside, here, 0.0), below)
        return k, below, ops.where(goes, found, here)

    most = ops.max(n) if n.meta.size != 0 else 0.0
    zero = ops.full((), 0.0, dt.float64)
    first = ops.full_like(theta, math.sqrt(0.25 / math.pi))
    return while_loop(lambda c: c[0] < most, step, (zero, ops.zeros_like(theta), first))[2]


def _of_any_order(n: Any, m: Any, theta: Any) -> Any:
    """The same for all whole m, and 0 for m beyond n."""
    size = ops.abs(m)
    known = (n >= 0) & (size <= n)
    found = _legendre(ops.where(known, n, 0.0), ops.where(known, size, 0.0), theta)
    is_odd = ops.remainder(size, 2.0) == 1
    return ops.where(known, ops.where((m < 0) & is_odd, -found, found), 0.0)


def _legendre_slope(n: Any, m: Any, theta: Any) -> Any:
    up = ops.sqrt(ops.maximum((n - m) * (n + m + 1), 0.0)) * _smooth_legendre(n, m + 1, theta)
    down = ops.sqrt(ops.maximum((n + m) * (n - m + 1), 0.0)) * _smooth_legendre(n, m - 1, theta)
    return 0.5 * (up - down)


def _none(n: Any, m: Any, theta: Any) -> Any:
    return ops.zeros_like(theta)


_smooth_legendre: Any = smooth(_of_any_order, _none, _none, _legendre_slope)


@takes()
def sph_harm_y(n: TensorLike, m: TensorLike, theta: TensorLike, phi: TensorLike) -> Tensor:
    """Spherical harmonics of degree n and order m at the polar angle theta and the azimuth phi.

    sqrt((2 n + 1) / (4 pi) (n - m)! / (n + m)!) P_n^m(cos(theta)) exp(i m phi), with (-1)^m in
    P. Computed in complex128, right to 12 digits of the largest value up to degrees of some
    hundred; 0 where m is beyond n, NaN where n is negative. The derivatives are in the angles.

    Args:
        n, m: whole numbers, in tensors of any dtype.
        theta, phi: real numbers.

    >>> import phix
    >>> round(phix.scipy.special.sph_harm_y(1, 0, 0.0, 0.0).real.item(), 5)
    0.4886
    """
    own = floats(theta, phi)
    wide = [ops.cast(v, dt.float64) for v in (*floats(n, m), *own)]
    dims = functools.reduce(broadcast_shapes, [v.meta.dims for v in wide])
    degree, order, polar, azimuth = (ops.expand(v, dims) for v in wide)
    size = _smooth_legendre(degree, order, polar)
    angle = order * azimuth
    found = ops.complex(size * ops.cos(angle), size * ops.sin(angle))
    known = (degree >= 0) & (degree == ops.floor(degree)) & (order == ops.floor(order))
    return ops.cast(ops.where(known, found, complex(math.nan, math.nan)),
                    dt.complex_dtype(own[0].dtype))  # fmt: skip
