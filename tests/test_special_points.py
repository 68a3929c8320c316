"""Derivatives of functions of one and two numbers where arguments are 0, ±1, or alike.

There formulas have an end of their own (what is chosen where a divisor or an exponent is 0), and a
choice right for a value may be wrong for its derivatives. Where differences of the function's own
values from the left, from the right and across agree, it is smooth, and each way to a derivative
must give what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops

pytestmark = pytest.mark.unoptimised

special = phix.scipy.special
POINTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
Function = Callable[..., Any]

# Steps of the differences, and how far they and derivatives may be apart, by order.
STEPS = {1: 1e-5, 2: 1e-3, 3: 4e-3}
SMOOTH = {1: 1e-4, 2: 1e-2, 3: 6e-2}
CLOSE = {1: 2e-4, 2: 2e-2, 3: 1e-1}
# Of values at -4 .. 4 steps: from the left, across and from the right, times a power of the step.
DIFFERENCES = {
    1: ([0, 0, 0.5, -2, 1.5, 0, 0, 0, 0], [0, 0, 0, -0.5, 0, 0.5, 0, 0, 0]),
    2: ([0, -1, 4, -5, 2, 0, 0, 0, 0], [0, 0, 0, 1, -2, 1, 0, 0, 0]),
    3: ([1.5, -7, 12, -9, 2.5, 0, 0, 0, 0], [0, 0, -0.5, 1, 0, -1, 0.5, 0, 0]),
}


def _named(module: Any, names: str) -> dict[str, Function]:
    return {name: getattr(module, name) for name in names.split()}


ONE = {
    **_named(pn, "abs arccos arcsin arcsinh arctan arctanh cbrt cos cosh exp exp2 expm1 i0 log "
                 "log10 log1p log2 nan_to_num reciprocal sin sinc sinh sqrt square tan tanh"),
    **_named(special, "dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit factorial gamma "
                      "gammaln i0e i1 i1e log_expit log_ndtr logit ndtr ndtri spence zeta"),
    **_named(ops, "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid "
                  "relu relu6 rsqrt selu silu softplus softshrink softsign stanh swish "
                  "tanh_shrink"),
    "interp": lambda x: pn.interp(x, np.arange(-2.0, 2.5), 3 * np.arange(-2.0, 2.5) + 1),
    "sici": lambda x: special.sici(x)[0],
    "density of gennorm": lambda x: phix.scipy.stats.gennorm.pdf(x, 2.0),
    "log density of gennorm": lambda x: phix.scipy.stats.gennorm.logpdf(x, 4.0),
    "quantile": lambda q: pn.quantile(np.arange(6.0) ** 2, (q + 2.5) / 6),
    "logsumexp": lambda b: special.logsumexp(
        pn.array([0.5, 1.0]), b=pn.stack([b, pn.full_like(b, 3)], 1), axis=1
    ),
    "x ** x": lambda x: x**x,
    "(x + 3) ** x": lambda x: (x + 3) ** x,
    "of a complex power": lambda x: pn.real((x + (3 + 1j)) ** (x + 0j)),
}  # fmt: skip
TWO = {
    **_named(pn, "arctan2 copysign divide float_power fmax fmin fmod hypot logaddexp logaddexp2 "
                 "maximum minimum mod multiply power"),
    **_named(special, "betaln comb gammainc gammaincc kl_div owens_t poch rel_entr xlog1py xlogy"),
    **_named(ops, "bce_loss gamma_density hinge_loss log_loss sigmoid_cross_entropy_with_logits "
                  "swiglu"),
}  # fmt: skip
WEIGHTS = np.arange(1.0, 5.0)
ARRAYS: dict[str, Function] = {
    "prod": pn.prod,
    "cumprod": lambda x: pn.cumprod(x) @ WEIGHTS,
    "logsumexp": lambda x: ops.logsumexp(x, [0]),
    "softmax": lambda x: ops.softmax(x, 0) @ WEIGHTS,
    "log_softmax": lambda x: ops.log_softmax(x, 0) @ WEIGHTS,
    "cummax": lambda x: ops.cummax(x, 0)[0] @ WEIGHTS,
    "sort": lambda x: pn.sort(x) @ WEIGHTS,
    "max": pn.max,
    "var": pn.var,
    "convolve": lambda x: pn.sum(pn.convolve(x, x) ** 2),
    "polyval": lambda x: pn.polyval(x, 0.0) + pn.polyval(x, x[1]),
    "det": lambda x: pn.linalg.det(pn.outer(x, x) + pn.diag(x)),
    "inv": lambda x: pn.sum(pn.linalg.inv(x.reshape(2, 2) @ x.reshape(2, 2).T + pn.eye(2))),
    "matrix_power": lambda x: pn.sum(pn.linalg.matrix_power(x.reshape(2, 2), 3)),
    "expm": lambda x: pn.sum(phix.linalg.expm(x.reshape(2, 2))),
    "trapezoid": lambda x: pn.trapezoid(x**2, x),
    "cross": lambda x: pn.sum(pn.cross(x[:3], x[1:]) ** 2),
    "einsum": lambda x: pn.einsum("i,i,j,j,j->", x, x, x, x, x),
    "interp of values": lambda x: pn.interp(pn.array([0.0, 0.5, 2.0, 3.0]), WEIGHTS - 1, x) @ x,
    "fft": lambda x: pn.sum(pn.real(pn.fft.fft(x) * pn.conj(pn.fft.fft(x)))),
    "sums of parts": lambda x: pn.sum(pn.zeros([3]).at[pn.array([0, 0, 2, 1])].add(x) ** 3),
    "products of parts": lambda x: pn.sum(pn.ones([3]).at[pn.array([0, 0, 2, 1])].multiply(x)),
}
PLACES = {
    "nothing": [0.0] * 4,
    "one 0": [1.0, 0.0, 2.0, 3.0],
    "two": [0.0, 2.0, 0.0, 3.0],
    "alike": [2.0] * 4,
    "both signs": [-1.0, 0.0, 1.0, -2.0],
}


# What two numbers do as t grows: one of them, or both.
LINES: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "x": lambda x, y, t: (x + t, y),
    "y": lambda x, y, t: (x, y + t),
    "up": lambda x, y, t: (x + 1.2 * t, y + 0.7 * t),
    "down": lambda x, y, t: (x + 0.6 * t, y - 1.1 * t),
}
# At the origin, from which they are linear along every line, and no plane.
NO_PLANE = {"copysign", "hypot"}


def differences(f: Function, order: int) -> tuple[np.ndarray, np.ndarray]:
    """The derivative of ``f`` at 0 across, and where it is smooth; one for each element."""
    step = STEPS[order]
    values = np.stack([f(k * step) for k in range(-4, 5)])
    left, across = (np.tensordot(w, values, 1) for w in np.array(DIFFERENCES[order]) / step**order)
    right = np.tensordot(DIFFERENCES[order][0][::-1], values, 1) * (-1 / step) ** order
    apart = np.maximum(abs(left - across), abs(right - across))
    is_finite = np.isfinite(values).all(0)
    return across, is_finite & (apart <= SMOOTH[order] * (1 + abs(across)))


def along(f: Function) -> Function:
    return lambda t: phix.jvp(f, (t,), (pn.ones_like(t),))[1]


def slopes(f: Function) -> Function:
    return phix.grad(lambda t: pn.sum(f(t)))


WAYS: dict[str, tuple[int, Callable[[Function], Function]]] = {
    "backward": (1, slopes),
    "forward": (1, along),
    "series 1": (1, lambda f: lambda t: phix.jet(f, (t,), ([pn.ones_like(t)],))[1][0]),
    "backward, backward": (2, lambda f: slopes(slopes(f))),
    "forward, forward": (2, lambda f: along(along(f))),
    "forward of backward": (2, lambda f: along(slopes(f))),
    "backward of forward": (2, lambda f: slopes(along(f))),
    "backward three times": (3, lambda f: slopes(slopes(slopes(f)))),
    "forward of backward of backward": (3, lambda f: along(slopes(slopes(f)))),
}


def check(f: Function, where: Any) -> None:
    """``f`` of numbers t, one for each of the points, which is at t = 0."""
    size = len(where)
    zeros = np.zeros(size)
    smooth = np.ones(size, bool)
    for order in STEPS:
        wanted, is_smooth = differences(lambda t: f(zeros + t).numpy(), order)
        smooth &= is_smooth
        for name, (of_order, way) in WAYS.items():
            if of_order == order:
                found = way(f)(zeros).numpy()
                is_near = abs(found - wanted) <= CLOSE[order] * (1 + abs(wanted))
                wrong = [(where[k], found[k], wanted[k]) for k in np.flatnonzero(smooth & ~is_near)]
                assert not wrong, f"{name} of order {order}: {wrong}"


@pytest.fixture(autouse=True)
def float64() -> Any:
    with phix.default_dtype("float64"), np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", ONE)
def test_of_one_number(name: str) -> None:
    check(lambda t: ONE[name](pn.array(POINTS) + t), POINTS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TWO)
def test_of_two_numbers(name: str) -> None:
    pairs = [(x, y) for x, y in product(POINTS, POINTS) if x or y or name not in NO_PLANE]
    x, y = pn.array(pairs).T
    for line in LINES.values():
        check(lambda t, line=line: TWO[name](*line(x, y, t)), pairs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ARRAYS)
def test_of_arrays(name: str, rng: np.random.Generator) -> None:
    line = rng.uniform(0.5, 1.5, 4) * np.array([1.0, -1.0, 1.0, 1.0])
    for place, x in PLACES.items():
        check(lambda t, x=x: pn.reshape(ARRAYS[name](pn.array(x) + t * line), (1,)), [place])


@pytest.mark.parametrize("order", [2, 4, 6])
def test_norms_of_even_order_are_smooth_where_an_element_is_0(order: int) -> None:
    """Of (a, t, b) it is (c + t^p)^(1 / p), with c = a^p + b^p."""
    c = 1.5**order + 2.0**order

    def norm(t: Any) -> Any:
        return pn.linalg.norm(pn.stack([pn.full_like(t, 1.5), t, pn.full_like(t, -2.0)]), order)

    wanted = np.zeros(order + 1)
    wanted[order] = math.factorial(order) * c ** (1 / order - 1) / order
    f = norm
    for k in range(1, order + 1):
        f = phix.grad(f)
        np.testing.assert_allclose(f(0.0).item(), wanted[k], rtol=1e-12)
        series = phix.derivative(norm, order=k)(0.0).item()
        np.testing.assert_allclose(series, wanted[k], rtol=1e-12)


@pytest.mark.parametrize("f", [pn.linalg.norm, lambda x: pn.abs(x[0] + 1j * x[1])])
def test_sizes_of_nothing_have_derivatives_0(f: Function) -> None:
    for way in (phix.grad, phix.hessian, lambda f: phix.jacfwd(phix.hessian(f))):
        np.testing.assert_array_equal(np.asarray(way(f)(np.zeros(2))) * 1.0, 0.0)
        np.testing.assert_array_equal(np.asarray(way(lambda x: f(x) ** 2)(np.zeros(2))), 0.0)


def test_differences_know_what_is_smooth() -> None:
    corner = np.array([0.0, 1.0])
    for order in STEPS:
        _, is_smooth = differences(lambda t, n=order: abs(corner + t) ** n, order)
        assert list(is_smooth) == [order == 2, True]
        found, of_exp = differences(lambda t: np.exp(2 * (corner + t)), order)
        assert of_exp.all()
        np.testing.assert_allclose(found, 2**order * np.exp(2 * corner), rtol=1e-3)
