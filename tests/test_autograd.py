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
