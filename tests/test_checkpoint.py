"""checkpoint: what the pullback holds, and that recomputation survives the compiler's passes."""

from __future__ import annotations

import gc
import types
from collections import Counter

import numpy as np
import pytest

import phix
from phix import checkpoint_policies as policies
from phix import ops
from phix.core.tensor import Tensor

pytestmark = pytest.mark.unoptimised


def held(pullback):
    """How many tensors with dims can be reached from a pullback."""
    seen, todo, count = set(), [pullback], 0
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType)):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            count += value.ndim > 0
        elif isinstance(value, types.FunctionType):
            todo += [c.cell_contents for c in value.__closure__ or ()]
        elif type(value).__name__ != "Graph":
            todo += gc.get_referents(value)
    return count


def deep(x):
    for _ in range(5):
        x = ops.sin(ops.matmul(x, x))
    return ops.sum(x)


@pytest.fixture
def x(rng):
    return rng.normal(size=(3, 3))


def test_fewer_residuals_are_kept(x):
    plain = held(phix.vjp(deep, x)[1])
    kept = {
        name: held(phix.vjp(phix.checkpoint(deep, policy=getattr(policies, name)), x)[1])
        for name in ("nothing_saveable", "dots_saveable", "everything_saveable")
    }
    assert plain == 10
    assert kept == {"nothing_saveable": 1, "dots_saveable": 6, "everything_saveable": 10}


def test_names(x):
    f = lambda x: ops.sum(ops.sin(phix.checkpoint_name(ops.exp(ops.cos(x)), "a")))  # noqa: E731
    for names, count in ((("a", "z"), 2), (("b",), 1)):
        g = phix.checkpoint(f, policy=policies.save_only_these_names(*names))
        assert held(phix.vjp(g, x)[1]) == count
        np.testing.assert_allclose(phix.grad(g)(x), phix.grad(f)(x), rtol=1e-12)
        np.testing.assert_allclose(phix.vmap(phix.grad(g))(x), phix.grad(f)(x), rtol=1e-12)


@pytest.mark.parametrize("policy", ["nothing_saveable", "dots_saveable", "everything_saveable"])
def test_derivatives_are_those_of_the_function(x, policy):
    g = phix.checkpoint(deep, policy=getattr(policies, policy))
    expected = phix.grad(deep)(x)
    for run in (phix.grad(g), phix.jit(phix.grad(g)), phix.grad(phix.jit(g))):
        np.testing.assert_allclose(run(x), expected, rtol=1e-12)
    np.testing.assert_allclose(phix.jvp(g, (x,), (x,))[1], phix.jvp(deep, (x,), (x,))[1])
    squared = lambda f: lambda x: ops.sum(phix.grad(f)(x) ** 2)  # noqa: E731
    second = phix.grad(squared(deep))(x)
    for run in (phix.grad(squared(g)), phix.jit(phix.grad(squared(g)))):
        np.testing.assert_allclose(run(x), second, rtol=1e-9)
    xs = np.stack([x, -x])
    lanes = phix.vmap(phix.grad(deep))(xs)
    np.testing.assert_allclose(phix.vmap(phix.grad(g))(xs), lanes, rtol=1e-12)
    total = phix.grad(lambda xs: ops.sum(phix.vmap(g)(xs)))
    np.testing.assert_allclose(total(xs), lanes, rtol=1e-12)


def _products(f, x):
    graph = phix.jit(phix.value_and_grad(f)).lower(x).graph
    return Counter(e.op.name for e in graph.equations)["matmul"]


def test_recomputation_is_not_undone(x):
    plain = _products(deep, x)
    assert _products(phix.checkpoint(deep), x) == plain + 5
    assert _products(phix.checkpoint(deep, policy=policies.dots_saveable), x) == plain


def test_inside_scan_and_with_static_arguments(x):
    step = lambda c, n: ops.sin(ops.exp(c)) if n else c  # noqa: E731
    g = phix.remat(step, static_argnums=1)
    loop = lambda f: lambda x: ops.sum(phix.scan(lambda c, _: (f(c, True), None), x, length=4)[0])  # noqa: E731
    expected = phix.grad(loop(step))(x)
    np.testing.assert_allclose(phix.grad(loop(g))(x), expected, rtol=1e-12)
    np.testing.assert_allclose(phix.jit(phix.grad(loop(g)))(x), expected, rtol=1e-12)


def test_closing_over_what_is_differentiated(x):
    f = lambda w: ops.sum(phix.checkpoint(lambda x: ops.sin(x * w))(x))  # noqa: E731
    expected = np.sum(np.cos(x * 2.0) * x)
    assert phix.grad(f)(2.0).item() == pytest.approx(expected, rel=1e-5)


def test_barrier():
    x = np.arange(3.0)
    f = lambda a, b: ops.sum(a * b) if True else None  # noqa: E731
    through = lambda a, b: f(*ops.optimization_barrier([a, b]))  # noqa: E731
    np.testing.assert_allclose(phix.grad(through)(x, x + 1), x + 1)
    assert phix.jvp(through, (x, x), (x, x))[1].item() == 2 * np.sum(x * x)
    mapped = phix.vmap(through, in_axes=(0, None))(np.stack([x, x]), x)
    np.testing.assert_allclose(mapped, [5.0, 5.0])


# -- traces ----------------------------------------------------------------------------------
@pytest.mark.parametrize("wrap", ["checkpoint", "custom_jvp", "custom_vjp"])
def test_eager_derivatives_trace_the_function_once(wrap):
    traced = []

    def f(x):
        traced.append(x.shape)
        return ops.sum(ops.sin(x))

    wrapped = getattr(phix, wrap)(f)
    if wrap == "custom_jvp":
        wrapped.defjvp(lambda p, t: (ops.sum(ops.sin(p[0])), ops.sum(t[0] * ops.cos(p[0]))))
    if wrap == "custom_vjp":
        wrapped.defvjp(lambda x: (ops.sum(ops.sin(x)), x), lambda x, ct: (ct * ops.cos(x),))
    slope = phix.grad(wrapped)
    for x in (np.ones(3), np.zeros(3), np.ones(2), np.ones(3)):
        np.testing.assert_allclose(slope(x), np.cos(x), rtol=1e-14)
    assert traced == [(3,), (2,)]


def test_what_a_checkpoint_closes_over_is_read_at_each_call():
    held = {}
    f = phix.checkpoint(lambda x: ops.sum(held["w"] * x))
    for w in (np.ones(2), np.full(2, 5.0)):
        held["w"] = phix.to_tensor(w)
        np.testing.assert_array_equal(phix.grad(f)(np.ones(2)), w)

    def through(w):  # a tracer of the derivative around it
        held["w"] = w
        return ops.sum(phix.grad(f)(np.ones(2)) * w)

    for w in (np.ones(2), np.full(2, 5.0)):
        np.testing.assert_array_equal(phix.grad(through)(w), 2 * w)


def test_static_arguments_of_a_checkpoint_are_told_apart():
    f = phix.checkpoint(lambda x, n: x**n if type(n) is int else x * n, static_argnums=1)
    slope = lambda n: phix.grad(lambda x: f(x, n))(3.0).item()  # noqa: E731
    assert [slope(n) for n in (2, 2.0, 3, 2)] == [6.0, 2.0, 27.0, 6.0]
    settings = [1.0, 2.0]  # not hashable: traced at each call
    g = phix.checkpoint(lambda x, c: x * c[0], static_argnums=1)
    assert phix.grad(lambda x: g(x, settings))(1.0).item() == 1.0
    settings[0] = 4.0
    assert phix.grad(lambda x: g(x, settings))(1.0).item() == 4.0
