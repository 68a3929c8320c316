"""Jitted functions inside other transformations stay compiled, and are traced once."""

from __future__ import annotations

import time

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, DTypeError
from phix.interpreters import stage

pytestmark = pytest.mark.unoptimised


def _loss(w, x):
    return ops.sum(ops.tanh(x @ w) ** 2)


@pytest.fixture
def data(rng):
    return phix.to_tensor(rng.normal(size=(4, 3))), phix.to_tensor(rng.normal(size=(5, 2, 4)))


@pytest.fixture
def traces(monkeypatch):
    """A list that grows with each trace."""
    made = []
    original = stage.trace

    def counted(*args, **kwargs):
        made.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(stage, "trace", counted)
    return made


COMPOSED = {
    "grad": lambda f: lambda w, xs: phix.grad(f)(w, xs[0]),
    "jvp": lambda f: lambda w, xs: phix.jvp(f, (w, xs[0]), (w, xs[0]))[1],
    "vmap": lambda f: lambda w, xs: phix.vmap(f, in_axes=(None, 0))(w, xs),
    "vmap of grad": lambda f: lambda w, xs: phix.vmap(phix.grad(f), in_axes=(None, 0))(w, xs),
    "grad of vmap": lambda f: phix.grad(
        lambda w, xs: ops.sum(phix.vmap(f, in_axes=(None, 0))(w, xs))
    ),
    "grad of grad": lambda f: (
        lambda w, xs: phix.grad(lambda w: ops.sum(phix.grad(f)(w, xs[0]) ** 2))(w)
    ),
    "jvp of grad": lambda f: (
        lambda w, xs: phix.jvp(lambda w: phix.grad(f)(w, xs[0]), (w,), (w,))[1]
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_agrees_with_the_function_and_is_traced_once(name, data, traces):
    w, xs = data
    f = phix.jit(_loss)
    run = COMPOSED[name](f)
    np.testing.assert_allclose(run(w, xs), COMPOSED[name](_loss)(w, xs), rtol=1e-10)
    traces.clear()
    run(w, xs)
    assert not traces and f.trace_count == 1


def test_under_an_outer_jit_it_is_written_out(data):
    w, xs = data
    inner = phix.jit(_loss)
    graph = phix.make_graph(lambda w, x: inner(w, x) + 1.0)(w, xs[0])
    assert "call" not in {e.op.name for e in graph.equations}
    lowered = phix.jit(phix.grad(inner)).lower(w, xs[0]).graph
    assert not any(e.op.has_graphs for e in lowered.equations)


def test_gradient_of_a_jitted_function_is_dispatched_in_microseconds(data):
    w, xs = data
    gradient = phix.grad(phix.jit(_loss))
    gradient(w, xs[0])
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(100):
            gradient(w, xs[0])
        best = min(best, (time.perf_counter() - start) / 100)
    assert best < 2e-3  # a retrace takes several times that


def test_unknown_dims_serve_every_size():
    f = phix.jit(lambda x: ops.sum(x * 2.0), input_spec=[phix.spec(["n"], "float64")])
    for n in (1, 2, 5):
        np.testing.assert_array_equal(phix.grad(f)(np.ones(n)), np.full(n, 2.0))
        assert phix.jvp(f, (np.ones(n),), (np.ones(n),))[1].item() == 2.0 * n
        np.testing.assert_array_equal(phix.vmap(f)(np.ones((3, n))), np.full(3, 2.0 * n))
    assert f.trace_count == 1


def test_data_dependent_sizes_and_loops():
    steps = phix.jit(lambda x, n: phix.fori_loop(0, n, lambda i, v: v * x, x))
    for n in (1, 3):
        assert phix.grad(steps)(2.0, n).item() == (n + 1) * 2.0**n


def test_closures_constants_statics_and_structure(data):
    w, _ = data
    shift = phix.to_tensor(np.arange(30.0))

    @phix.jit
    def f(p, n):
        return {"same": p, "sum": ops.sum(shift * p["a"]) * n, "twice": (p["a"], p["a"])}

    out, pull = phix.vjp(lambda a: f({"a": a}, 3)["sum"], np.float64(2.0))
    assert out.item() == 2 * 435.0 * 3 and pull(1.0)[0].item() == 435.0 * 3
    assert phix.grad(lambda a: f({"a": a}, 3)["twice"][1])(2.0).item() == 1.0
    assert phix.grad(lambda a: f({"a": a}, 3)["same"]["a"])(2.0).item() == 1.0
    # closing over a tracer: written out
    assert phix.grad(lambda v: phix.jit(lambda x: x * v)(3.0))(2.0).item() == 3.0
    static = phix.jit(lambda x, k: x**k, static_argnums=1)
    assert [phix.grad(static)(2.0, k).item() for k in (2, 3)] == [4.0, 12.0]
    (value, aux), _ = phix.value_and_grad(phix.jit(lambda w: (ops.sum(w), {"w": w})), has_aux=True)(
        w
    )
    assert isinstance(aux["w"], phix.Tensor) and value.item() == pytest.approx(w.numpy().sum())


def test_lower_and_compile(data):
    w, xs = data
    f = phix.jit(lambda w, x, k: _loss(w, x) * k, static_argnums=2)
    compiled = f.lower(w, xs[0], 2).compile()
    assert compiled(w, xs[0]).item() == pytest.approx(2 * _loss(w, xs[0]).item())
    assert compiled(w, xs[1]).item() == pytest.approx(2 * _loss(w, xs[1]).item())
    assert f.trace_count == 1
    assert phix.grad(compiled)(w, xs[0]).shape == (4, 3)
    with pytest.raises(ArgumentError, match="leave static arguments out"):
        compiled(w, xs[0], 2)
    with pytest.raises(DTypeError, match="declared"):
        compiled(w, xs[0].astype("float32"))


def test_donation_takes_argument_numbers():
    with pytest.raises(ArgumentError, match="donate_argnums"):
        phix.jit(lambda w: w, donate_argnums="w")
