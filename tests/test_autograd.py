"""phix.autograd: programs for autograd, against closed forms and autograd itself."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import numpy as onp
import pytest
import scipy.special
import scipy.stats

import phix.autograd
import phix.autograd.numpy as np
import phix.autograd.scipy.special
import phix.autograd.scipy.stats
from phix.autograd import misc
from phix.core.errors import ArgumentError, DifferentiationError, PhixError, UnknownNameError

ag = phix.autograd
pytestmark = pytest.mark.unoptimised
W = onp.random.default_rng(0).normal(size=(3, 3))
X = onp.array([0.1, -0.4, 0.7])


def network(np: Any) -> Any:
    return lambda x: np.sum(np.tanh(np.dot(W, x)) ** 2) + np.log(1 + np.exp(x[0]))


# Name -> what is computed, of a NumPy, the derivatives, and SciPy's stats and special functions.
PROGRAMS: dict[str, Any] = {
    "grad": lambda np, g, st, sp: g.grad(network(np))(X),
    "hessian": lambda np, g, st, sp: g.hessian(network(np))(X),
    "jacobian": lambda np, g, st, sp: g.jacobian(lambda x: np.sin(np.outer(x, x)))(X),
    "elementwise": lambda np, g, st, sp: g.elementwise_grad(
        lambda x: np.where(x > 0, x**2, np.exp(x)))(X),
    "tree": lambda np, g, st, sp: g.grad(
        lambda p: np.sum(p["w"] @ X) + p["b"][1] * p["b"][0])({"w": W, "b": (2.0, 3.0)})["b"],
    "argnum": lambda np, g, st, sp: g.value_and_grad(lambda a, b: a * b**2, 1)(2.0, 3.0),
    "several": lambda np, g, st, sp: g.grad(lambda a, b: a * b**2, (0, 1))(2.0, 3.0),
    "nested": lambda np, g, st, sp: g.grad(g.grad(lambda x: np.sin(x) * x))(1.3),
    "complex": lambda np, g, st, sp: g.grad(lambda z: np.abs(z) ** 2 + np.real(z**3))(1 + 2j),
    "holomorphic": lambda np, g, st, sp: g.holomorphic_grad(lambda z: np.exp(z) * z)(1.0 + 2j),
    "hvp": lambda np, g, st, sp: g.hessian_vector_product(network(np))(X, onp.ones(3)),
    "jvp": lambda np, g, st, sp: g.make_jvp(network(np))(X)(onp.ones(3)),
    "stats": lambda np, g, st, sp: g.grad(lambda m: np.sum(st.norm.logpdf(X, m, 0.5)))(0.2),
    "special": lambda np, g, st, sp: g.grad(lambda x: np.sum(sp.gammaln(x)))(X + 2),
    "array of": lambda np, g, st, sp: g.grad(
        lambda x: np.sum(np.array([x[0], 2.0, x[1] * x[2]]) ** 2))(X),
    "linalg": lambda np, g, st, sp: g.grad(
        lambda x: np.linalg.slogdet(np.eye(3) * 2 + np.outer(x, x))[1])(X),
    "pieces": lambda np, g, st, sp: g.grad(
        lambda x: np.sum(np.concatenate([x, x[::-1]]).reshape((2, 3))[1] * x))(X),
    "branch": lambda np, g, st, sp: g.grad(lambda x: x**2 if x > 0 else -x)(-3.0),
}  # fmt: skip
CLOSED = {
    "argnum": (18.0, 12.0), "several": (9.0, 12.0), "tree": (3.0, 2.0), "branch": -1.0,
    "nested": 2 * onp.cos(1.3) - 1.3 * onp.sin(1.3), "holomorphic": onp.exp(1 + 2j) * (2 + 2j),
    "complex": 2 * (1 - 2j) + 3 * (1 + 2j) ** 2, "special": scipy.special.digamma(X + 2),
    "stats": onp.sum((X - 0.2) / 0.25),
    "array of": [0.2, 2 * X[1] * X[2] ** 2, 2 * X[2] * X[1] ** 2],
    "elementwise": onp.where(X > 0, 2 * X, onp.exp(X)), "pieces": [1.4, -0.8, 0.2],
}  # fmt: skip


def flat(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return onp.concatenate([flat(v) for v in value])
    assert isinstance(value, (onp.ndarray, onp.generic)), type(value)
    return onp.ravel(value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_autograd(name: str) -> None:
    own = phix.autograd.scipy
    found = flat(PROGRAMS[name](np, ag, own.stats, own.special))
    assert found.dtype in ("float64", "complex128")
    if name in CLOSED:
        onp.testing.assert_allclose(found, onp.ravel(CLOSED[name]), rtol=1e-13)
    autograd = pytest.importorskip("autograd")
    theirs = [importlib.import_module(f"autograd.{m}")
              for m in ("numpy", "scipy.stats", "scipy.special")]  # fmt: skip
    want = flat(PROGRAMS[name](theirs[0], autograd, *theirs[1:]))
    onp.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)


def test_what_is_not_differentiated_is_numpy() -> None:
    a = np.zeros(3)
    a[1] = np.array([1, 2.5])[1]
    assert type(a) is onp.ndarray and a.dtype == "float64" and np.pi is onp.pi
    assert type(np.sum(a)) is onp.float64 and np.float32 is onp.float32
    assert np.random.seed is onp.random.seed and np.add.outer(a, a).shape == (3, 3)
    stats = phix.autograd.scipy.stats
    assert stats.norm.logpdf(0.3, 1.0).item() == pytest.approx(scipy.stats.norm.logpdf(0.3, 1.0))


def test_functions_with_derivatives_of_their_own() -> None:
    @ag.primitive
    def product(x: Any, y: Any, scale: Any = 1.0) -> Any:
        return x * y * scale

    ag.defvjp(product, None, lambda ans, x, y, scale=1.0: lambda g: 10.0 * g * x, argnums=(0, 1))
    assert product(2.0, 3.0) == 6.0
    assert ag.grad(product, 1)(2.0, 3.0) == 20.0
    assert ag.grad(lambda x: product(x, 3.0, scale=2.0))(2.0) == 0.0
    kept = ag.checkpoint(lambda x: np.sin(x) ** 2)
    onp.testing.assert_allclose(ag.grad(kept)(0.3), onp.sin(0.6), rtol=1e-14)


def test_primitives_have_cotangents_and_settings_of_autograd() -> None:
    square = ag.primitive(lambda z: z * z)
    ag.defvjp(square, lambda ans, z: lambda g: g * 2 * z)
    c = 0.3 - 0.7j
    found = ag.grad(lambda x: np.real(c * square(x + 2j * x)))(1.5)
    assert found == pytest.approx((c * (1 + 2j) ** 2).real * 3.0, abs=1e-14)
    of_z = ag.grad(lambda z: np.real(c * square(z)))(1 + 2j)
    assert of_z == pytest.approx(2 * c * (1 + 2j))  # df/dx - i df/dy

    @ag.primitive
    def power(x: Any, n: int, how: str = "up", p: Any = None) -> Any:
        assert type(n) is int and how == "up"
        for _ in range(n - 1):
            x = x * (1.0 if p is None else p["a"] + p["n"])
        return x * x

    ag.defvjp(power, lambda ans, x, n, how="up", p=None: lambda g: g * n * x,
              lambda ans, x, n, how="up", p=None: lambda g: g)  # fmt: skip
    assert ag.grad(power)(2.0, 3) == 6.0
    assert ag.grad(lambda x: power(x, 3))(2.0) == 6.0
    ag.defvjp(power, lambda ans, *own: lambda g: {"a": g * 7.0, "n": 0}, argnums=[3])
    assert ag.grad(lambda a: power(2.0, 3, "up", {"a": a, "n": 2}))(1.0) == 7.0
    kept = ag.checkpoint(lambda x, n, scale=1: sum(x**i for i in range(n)) * range(5)[scale])
    assert ag.grad(lambda x: kept(x, 3, scale=2))(2.0) == 10.0
    thirds = ag.grad(lambda x: ag.checkpoint(lambda x, y: x + y * y)(x, 0.1) * x)(0.0)
    assert thirds == pytest.approx(0.01, rel=1e-15)


def test_primitives_without_derivatives_are_refused() -> None:
    product = ag.primitive(lambda x, y, scale=1.0: x * y * scale)
    with pytest.raises(DifferentiationError, match="has no VJP for argument 0"):
        ag.grad(product)(2.0, 3.0)
    ag.defvjp(product, lambda ans, x, y, scale=1.0: lambda g: g * y * scale)
    assert ag.grad(product)(2.0, 3.0) == 3.0
    assert ag.grad(lambda y: ag.grad(product)(2.0, y))(3.0) == 1.0
    with pytest.raises(NotImplementedError, match="has no VJP for argument 1; give one"):
        ag.grad(lambda x: product(x, x))(2.0)
    with pytest.raises(DifferentiationError):
        ag.grad(lambda x: product(x, 2.0, scale=x))(2.0)
    ag.defvjp(product, None, argnums=[1])
    assert ag.grad(lambda x: product(x, x))(2.0) == 2.0


# Of x = 1.0 -> what is computed of masks and ints, and its derivative.
OF_INTS: dict[str, Any] = {
    "where": (lambda x: np.where(x > 0, 0.1, 0.2) * x, 0.1),
    "multiply": (lambda x: np.multiply(0.1, x > 0) * x, 0.1),
    "mean": (lambda x: np.mean(np.stack([x, -x, -x]) > 0) * x, 1 / 3),
    "exp": (lambda x: np.exp(np.sum(x > 0)) * x, onp.exp(1.0)),
    "sqrt": (lambda x: np.sqrt(np.sum(x > 0) + 1) * x, onp.sqrt(2.0)),
    "arctan2": (lambda x: np.arctan2(x > 0, np.sum(x > 0) + 2) * x, onp.arctan2(1, 3)),
    "norm": (lambda x: np.linalg.norm(np.stack([x, x]) > 0) * x, onp.sqrt(2.0)),
    "list": (lambda x: np.sum(np.array([x > 0, 0.1])) * x, 1.1),
    "narrow": (lambda x: np.full_like(x > 0, 2.0, dtype=np.float32) * x, 2.0),
    "dtype": (lambda x: np.full_like(x > 0, 0.1, dtype=float) * x, 0.1),
    "numpy's float": (lambda x: np.float64(0.1) * (x > 0) * x, 0.1),
    "float first": (lambda x: 0.1 * x * (x > 0), 0.1),
    "special": (lambda x: phix.autograd.scipy.special.expit(x > 0) * x, scipy.special.expit(1.0)),
    "operator": (lambda x: 0.1 * (x > 0) * x, 0.1),
    "power": (lambda x: (np.sum(x > 0) + 1) ** 0.5 * x, onp.sqrt(2.0)),
    "method": (lambda x: (np.stack([x, -x, -x]) > 0).mean() * x, 1 / 3),
    "compiled": (phix.jit(lambda x: (x > 0) / 3 * x), 1 / 3),
    "cast": (lambda x: (x > 0).astype(float) * 0.1 * x, 0.1),
}


@pytest.mark.parametrize("name", OF_INTS)
def test_floats_of_masks_and_ints_are_float64(name: str) -> None:
    function, want = OF_INTS[name]
    assert ag.grad(function)(1.0) == pytest.approx(want, rel=1e-15)
    narrow = ag.grad(lambda x: np.multiply(0.1, x) ** 2)(onp.float32(1.0))
    assert narrow.dtype == "float32"


def test_scipy_of_ints_is_float64() -> None:
    special, stats = phix.autograd.scipy.special, phix.autograd.scipy.stats
    ints = onp.arange(3) + 10
    for found, want in [
        (special.gammaln(ints), scipy.special.gammaln(ints)),
        (special.expit(1), scipy.special.expit(1)),
        (special.expit(True), scipy.special.expit(1)),
        (special.logsumexp(ints), scipy.special.logsumexp(ints)),
        (special.logsumexp([[1, 2]], 1), scipy.special.logsumexp([[1, 2]], 1)),
        (special.logsumexp(ints, axis=0, b=ints), scipy.special.logsumexp(ints, axis=0, b=ints)),
        (special.polygamma(1, 2), scipy.special.polygamma(1, 2)),
        (special.multigammaln(5, 2), scipy.special.multigammaln(5, 2)),
        (stats.norm.logpdf(1), scipy.stats.norm.logpdf(1)),
        (stats.norm.logpdf(1, loc=2, scale=3), scipy.stats.norm.logpdf(1, loc=2, scale=3)),
        (stats.poisson.logpmf(ints, 3), scipy.stats.poisson.logpmf(ints, 3)),
        (stats.multinomial.logpmf([1, 2], 3, [0.25, 0.75]),
         scipy.stats.multinomial.logpmf([1, 2], 3, [0.25, 0.75])),
        (stats.dirichlet.pdf([0.3, 0.7], [1, 2]), scipy.stats.dirichlet.pdf([0.3, 0.7], [1, 2])),
        (stats.dirichlet.pdf([0.3, 0.7], alpha=[1, 2]), 1.4),
        (stats.sem(ints), scipy.stats.sem(ints)),
    ]:  # fmt: skip
        assert onp.asarray(found).dtype == "float64"
        onp.testing.assert_allclose(found, want, rtol=1e-12)
    assert stats.mode(ints)[0].dtype == "int64"


def test_derivatives_are_the_callers() -> None:
    slope = ag.grad(lambda x: np.sum(x**2))(X)
    slope *= 2.0
    onp.testing.assert_allclose(slope, 4 * X)
    slope, aux = ag.grad_and_aux(lambda x: (x**2, x**3))(2.0)
    assert (slope, aux) == (4.0, 8.0) and isinstance(aux, onp.generic)
    slope, aux = ag.grad_and_aux(lambda x: (x**2, {"a": [x, "more", 3]}))(2.0)
    assert (slope, aux) == (4.0, {"a": [2.0, "more", 3]})
    assert ag.grad(lambda x: ag.grad_and_aux(lambda y: (x * y**2, y))(x)[0])(3.0) == 12.0
    assert ag.grad(lambda x: ag.grad_and_aux(lambda y: (y**2, y**3))(x)[1])(2.0) == 12.0


def test_optimizers_go_down_from_trees() -> None:
    goal = {"a": onp.array([1.0, 2.0]), "b": [3.0]}
    seen: list[int] = []

    def slope(p: Any, step: int) -> Any:
        return ag.grad(lambda p: np.sum((p["a"] - goal["a"]) ** 2) + (p["b"][0] - 3.0) ** 2)(p)

    start = {"a": onp.zeros(2), "b": [0.0]}
    for name, settings in {"sgd": {}, "adam": {"step_size": 0.3}, "rmsprop": {}}.items():
        descend = getattr(misc.optimizers, name)
        found = descend(slope, start, lambda p, i, g: seen.append(i), num_iters=60, **settings)
        onp.testing.assert_allclose(misc.flatten(found)[0], [1, 2, 3], rtol=0.1)
    assert seen == [*range(60)] * 3


def test_what_is_refused() -> None:
    def assigned(x: Any) -> Any:
        x[0] = 2.0
        return np.sum(x)

    with pytest.raises(PhixError, match=r"\.at\["):
        ag.grad(assigned)(X)
    with pytest.raises(DifferentiationError, match="grad is for functions to one number"):
        ag.grad(np.sin)(X)
    with pytest.raises(DifferentiationError, match="use holomorphic_grad"):
        ag.grad(lambda z: z * z)(1j)
    with pytest.raises(DifferentiationError, match="flatten it"):
        ag.jacobian(lambda p: p[0])([1.0])
    with pytest.raises(ArgumentError, match="argnum must be a place among the 1"):
        ag.grad(np.sin, 1)(1.0)
    with pytest.raises(ArgumentError, match="no argument 'z'; it has x, y"):
        ag.grad_named(lambda x, y: x, "z")
    with pytest.raises(ArgumentError, match=r"what phix\.autograd\.primitive made"):
        ag.defvjp(np.sin, lambda ans, x: lambda g: g)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="real_if_close is NumPy's and takes no tensors"):
        ag.grad(np.real_if_close)(1.0)


def test_the_examples_run() -> None:
    for name in ("differential", "misc.flatten", "misc.optimizers", "scipy.linalg"):
        found = doctest.testmod(importlib.import_module(f"phix.autograd.{name}"))
        assert found.attempted and not found.failed
