"""Fresnel integrals, Bessel functions, spherical harmonics, Faddeeva's function, beside SciPy."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import scipy.special as theirs

import phix
from phix import ops
from phix.core.errors import AttributeValueError
from phix.scipy import oscillations, special, waves

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(3)
X = np.concatenate([
    np.linspace(-12, 12, 49), 10 ** RNG.uniform(-9, 3, 40),
    [0, np.inf, -np.inf, np.nan, 1.5, 4, -4, 30, 30.01, 1e-3],
])  # fmt: skip


@pytest.mark.parametrize("name", ["fresnel", "sici"])
def test_integrals_of_waves(name: str) -> None:
    with np.errstate(all="ignore"):
        wants = getattr(theirs, name)(X)
    for number, (found, want) in enumerate(zip(getattr(special, name)(X), wants)):
        if name == "sici" and number:
            want = np.where(-np.inf == X, 0, want)  # where SciPy has NaN
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)
    small = np.array([1e-3, 1e-9])
    np.testing.assert_allclose(special.fresnel(small)[0], theirs.fresnel(small)[0], rtol=1e-14)


def test_slopes_of_integrals_of_waves() -> None:
    """The integrands, and their own slopes."""
    x = np.array([0.0, 0.7, 5.3, -2.0])
    half = 0.5 * np.pi * x * x
    first, second = (phix.vmap(phix.grad(lambda v, i=i: special.fresnel(v)[i])) for i in (0, 1))
    np.testing.assert_allclose(first(x), np.sin(half), atol=1e-14)
    np.testing.assert_allclose(second(x), np.cos(half), atol=1e-14)
    curve = phix.vmap(phix.grad(phix.grad(lambda v: special.sici(v)[0])))(x[1:])
    v = x[1:]
    np.testing.assert_allclose(curve, np.cos(v) / v - np.sin(v) / v**2, atol=1e-14)
    slope = phix.grad(lambda v: special.sici(v)[1])(np.float64(2.0)).item()
    np.testing.assert_allclose(slope, np.cos(2.0) / 2, rtol=1e-14)


@pytest.mark.parametrize("v", [0, 1, 12, 40])
def test_bessel_functions(v: int) -> None:
    want = np.stack([theirs.jv(n, X) for n in range(v + 1)])
    want[:, np.isinf(X)] = 0  # where SciPy has NaN
    found = special.bessel_jn(X, v=v)
    np.testing.assert_allclose(found, want, atol=1e-13)
    digits = np.abs(X) < np.arange(v + 1)[:, None]  # before the first zero
    far = np.abs(want) > 1e-280
    np.testing.assert_allclose(found.numpy()[digits & far], want[digits & far], rtol=1e-12)


def test_slopes_of_bessel_functions() -> None:
    def third(z: Any) -> Any:
        return special.bessel_jn(z, v=3)[3]

    z = np.array([0.0, 2.0, 45.0])
    curve = phix.jit(phix.vmap(phix.grad(phix.grad(third))))
    np.testing.assert_allclose(curve(z), theirs.jvp(3, z, 2), atol=1e-13)
    of_zero = phix.grad(lambda z: special.bessel_jn(z, v=0)[0])(np.float64(2.0)).item()
    np.testing.assert_allclose(of_zero, -theirs.j1(2.0), rtol=1e-14)
    assert special.bessel_jn(phix.zeros([0]), v=3).shape == (4, 0)
    with pytest.raises(AttributeValueError, match=r"bessel_jn: v is the highest order"):
        special.bessel_jn(1.0, v=-1)


def test_faddeeva() -> None:
    x = RNG.normal(size=400) * 10 ** RNG.uniform(-5, 2, 400)
    y = RNG.normal(size=400) * 10 ** RNG.uniform(-5, 1, 400)
    x[:50], y[50:100], y[100:150] = 0, 0, 1e-9 * y[100:150]
    x[0], y[0], x[1], y[1], x[2], y[2] = 1e9, 3, 1e200, 1e200, 3e7, -1e-3
    z = x + 1j * np.where(y < -10, -y, y)
    want = theirs.wofz(z)
    found = special.wofz(z)
    assert np.isfinite(want).all() and found.dtype == "complex128"
    assert (np.abs(found.numpy() - want) <= 3e-13 * np.abs(want)).all()
    assert special.wofz(np.float32(1)).dtype == "complex64"
    slope = phix.grad(lambda t: ops.real(special.wofz(ops.complex(t, ops.full_like(t, 0.3)))))
    at = 0.7 + 0.3j
    want = (2j / np.sqrt(np.pi) - 2 * at * theirs.wofz(at)).real
    np.testing.assert_allclose(slope(np.float64(0.7)).item(), want, rtol=1e-13)


# Values by 60 digits of mpmath, on both sides of where the rule changes its nodes.
FADDEEVA = [
    ((0.64 + 1e-09j), complex(0.663915762915973872, 0.553812109633428973)),
    ((0.1279 + 0.05j), complex(0.931475338386560332, 0.130849600705699605)),
    ((0.128 + 0.05j), complex(0.931452811217766282, 0.130949774258466723)),
    ((2 + 1.999j), complex(0.147964598836170436, 0.131246829951724232)),
    ((2 + 2j), complex(0.147952759512015824, 0.131179717084217854)),
    ((-1.3 + 0.4j), complex(0.247908253649495952, -0.381907722890442702)),
    ((0.5 + 6.1j), complex(0.0907219424755305176, 0.00724968974410493699)),
    ((0.5 + 6.2j), complex(0.0893116431693819438, 0.0070272976381135353)),
    ((8 + 0.01j), complex(0.0000903060586837622783, 0.0710879960591972406)),
    ((20 + 3j), complex(0.00415312719818063251, 0.0276195834845868048)),
    ((1.5 - 0.7j), complex(-0.381702254110163736, 0.587868269708534653)),
    ((-0.01 - 4.4j), complex(509617077.128085429, -44962425.7706325647)),
    ((30000000 + 1j), complex(6.26877315053062889e-16, 1.88063194515918658e-8)),
    ((-1000000000 + 3j), complex(1.69256875064326885e-18, -5.64189583547756282e-10)),
]


@pytest.mark.parametrize(("z", "want"), FADDEEVA)
def test_faddeeva_is_right_to_the_last_digits(z: complex, want: complex) -> None:
    for function in (special.wofz, phix.jit(special.wofz)):
        found = function(np.array([z, -z.conjugate()])).numpy()
        assert (np.abs(found - [want, want.conjugate()]) <= 3e-15 * abs(want)).all()


def test_faddeeva_at_its_ends() -> None:
    at = np.array(
        [0, np.inf, complex(0, np.inf), complex(-np.inf, 1), 1e200 + 1e200j, 1e-300 + 1e-300j]
    )
    found = special.wofz(at).numpy()
    np.testing.assert_array_equal(found[:4], [1, 0, 0, 0])
    np.testing.assert_allclose(found[4], (0.5 + 0.5j) / np.sqrt(np.pi) * 1e-200, rtol=1e-15)
    np.testing.assert_allclose(found[5], 1, rtol=1e-15)
    assert np.isnan(special.wofz(np.array([complex(np.nan, 1), complex(1, np.nan)])).numpy()).all()


def _harmonic(n: Any, m: Any, theta: Any, phi: Any) -> Any:
    """By SciPy's Legendre functions, whose arguments are older than its sph_harm_y."""
    size = np.abs(m)
    norm = (2 * n + 1) / (4 * np.pi) * np.exp(theirs.gammaln(n - size + 1.0)
                                              - theirs.gammaln(n + size + 1.0))  # fmt: skip
    found = np.sqrt(norm) * theirs.lpmv(size, n, np.cos(theta)) * np.exp(1j * size * phi)
    return np.where(m < 0, (-1.0) ** size * np.conj(found), found)


def test_spherical_harmonics() -> None:
    n = RNG.integers(0, 25, 200)
    m = np.trunc(RNG.uniform(-1, 1, 200) * (n + 1)).astype(int)
    theta, phi = RNG.uniform(0, np.pi, 200), RNG.uniform(0, 2 * np.pi, 200)
    found = special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(found, _harmonic(n, m, theta, phi), atol=1e-11)
    angles = np.linspace(0, np.pi, 200)  # the sum over all orders of a degree: (2 n + 1) / (4 pi)
    rows = special.sph_harm_y(300, np.arange(-300, 301)[:, None], angles[None], 0.1)
    total = (np.abs(rows.numpy()) ** 2).sum(0)
    np.testing.assert_allclose(total, 601 / (4 * np.pi), rtol=1e-12)
    assert special.sph_harm_y(2, 3, 0.1, 0.2).item() == 0
    assert np.isnan(special.sph_harm_y([-1.0, 1.5], 0, 0.1, 0.2).numpy()).all()


def test_slopes_of_spherical_harmonics() -> None:
    """Y_3^1 = -sqrt(21 / (64 pi)) sin(t) (5 cos(t)^2 - 1) exp(i p), at the pole too."""
    c = -np.sqrt(21 / (64 * np.pi)) * np.cos(0.4)

    def real(t: Any) -> Any:
        return ops.real(special.sph_harm_y(3, 1, t, 0.4))

    t = np.array([0.0, 0.9, 2.5])
    slope = phix.jit(phix.vmap(phix.grad(real)))(t)
    want = c * (15 * np.cos(t) ** 3 - 11 * np.cos(t))
    np.testing.assert_allclose(slope, want, atol=1e-6)  # the azimuth 0.4 is a float32
    turned = phix.grad(lambda p: ops.imag(special.sph_harm_y(3, 1, np.float64(0.9), p)))
    size = -np.sqrt(21 / (64 * np.pi)) * np.sin(0.9) * (5 * np.cos(0.9) ** 2 - 1)
    np.testing.assert_allclose(turned(np.float64(0.4)).item(), size * np.cos(0.4), rtol=1e-12)


def test_the_examples_run() -> None:
    for module in (oscillations, waves):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed
