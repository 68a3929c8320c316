"""branch, while_loop, scan and dim_value, through their public faces: values against Python loops,
derivatives against finite differences and each other, batches against loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    ConcretizationError,
    DTypeError,
    ShapeError,
)

pytestmark = pytest.mark.unoptimised

X = np.array([0.3, 0.5, 0.7])
W = np.array(1.3)


def differences(f: Callable[..., Any], x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        out[i] = (float(f(x + step)) - float(f(x - step))) / (2 * eps)
    return out


# -- the functions under test, each with a Python twin -------------------------------------------
def rnn(w: Any, xs: Any = X) -> Any:
    final, ys = phix.scan(lambda c, x: (ops.tanh(c * w + x), c * x), np.float64(0.1), xs)
    return final + ops.sum(ys * ys)


def rnn_twin(w: float) -> float:
    c, total = 0.1, 0.0
    for x in X:
        total += (c * x) ** 2
        c = np.tanh(c * w + x)
    return c + total


def until_ten(x: Any) -> Any:
    return phix.while_loop(
        lambda v: v[0] < 10.0, lambda v: (v[0] * v[0] * W, v[1] + v[0]), (x, 0.0)
    )[1]


def until_ten_twin(x: float) -> float:
    total = 0.0
    while x < 10:
        x, total = x * x * 1.3, total + x
    return total


def either(x: Any) -> Any:
    return phix.cond(x > 0, lambda y: ops.sin(y) * x, lambda y: y * y * W, x * 2)


def either_twin(x: float) -> float:
    return np.sin(2 * x) * x if x > 0 else 4 * x * x * 1.3


def powers(x: Any) -> Any:
    return phix.fori_loop(0, 4, lambda i, v: v * x + i, 1.0)


def powers_twin(x: float) -> float:
    v = 1.0
    for i in range(4):
        v = v * x + i
    return v


def powers_of_n(x: Any) -> Any:
    n = ops.cast(ops.floor(ops.abs(x) * 3.0), "int64")
    return phix.fori_loop(-1, n, lambda i, v: v * x + i, x)


def powers_of_n_twin(x: float) -> float:
    v = x
    for i in range(-1, int(abs(x) * 3)):
        v = v * x + i
    return v


def chosen(x: Any) -> Any:
    which = ops.cast(ops.floor(x), "int64")
    return phix.select_n(which, x * x, ops.sin(x), x)


def chosen_twin(x: float) -> float:
    return (x * x, np.sin(x), x)[min(max(int(np.floor(x)), 0), 2)]


def grown(x: Any, most: float = 5.0) -> Any:
    return phix.while_loop(lambda v: v < most, lambda v: v * v * W + 0.5, x)


def grown_twin(x: float, most: float = 5.0) -> float:
    while x < most:
        x = x * x * 1.3 + 0.5
    return x


def loop_in_a_branch(x: Any) -> Any:
    return phix.cond(x > 0, grown, lambda v: v * v, x) * x


def loop_in_a_branch_twin(x: float) -> float:
    return (grown_twin(x) if x > 0 else x * x) * x


def loop_in_a_scan(x: Any) -> Any:
    def step(c: Any, most: Any) -> Any:
        c = phix.cond(most > 4.0, lambda v: grown(v, most), ops.sin, c)
        return c, c * x

    final, ys = phix.scan(step, x, np.array([4.5, 1.0, 9.0]))
    return final + ops.sum(ys)


def loop_in_a_scan_twin(x: float) -> float:
    c, total = x, 0.0
    for most in (4.5, 1.0, 9.0):
        c = grown_twin(c, most) if most > 4.0 else np.sin(c)
        total += c * x
    return c + total


def loop_in_a_loop(x: Any) -> Any:
    return phix.while_loop(lambda v: v < 40.0, lambda v: grown(v * 0.3 + 1.0) * x, x)


def loop_in_a_loop_twin(x: float) -> float:
    v = x
    while v < 40:
        v = grown_twin(v * 0.3 + 1.0) * x
    return v


CASES = {
    "scan": (rnn, rnn_twin, (1.3, -0.4)),
    "while_loop": (until_ten, until_ten_twin, (1.5, 3.0, 11.0)),
    "branch": (either, either_twin, (0.7, -0.4)),
    "fori_loop": (powers, powers_twin, (1.3, -0.4)),
    "fori_loop of n steps": (powers_of_n, powers_of_n_twin, (1.4, -0.5, 0.1)),
    "while_loop in a branch": (loop_in_a_branch, loop_in_a_branch_twin, (1.2, 1.6, -0.7)),
    "while_loop in a scan": (loop_in_a_scan, loop_in_a_scan_twin, (1.1, 1.4)),
    "while_loop in a while_loop": (loop_in_a_loop, loop_in_a_loop_twin, (2.1, 3.3)),
    "select_n": (chosen, chosen_twin, (-0.7, 0.4, 1.3, 2.5, 7.1)),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrap", [lambda f: f, phix.jit], ids=["eager", "jit"])
def test_values_and_derivatives(name: str, wrap: Any) -> None:
    f, twin, points = CASES[name]
    for x in map(np.asarray, points):
        one = np.ones(())
        np.testing.assert_allclose(wrap(f)(x).numpy(), twin(float(x)), rtol=1e-13)
        first = wrap(phix.grad(f))
        np.testing.assert_allclose(first(x).numpy(), differences(twin, x), rtol=1e-7, atol=1e-8)
        forward = phix.jvp(wrap(f), (x,), (one,))[1]
        np.testing.assert_allclose(forward.numpy(), first(x).numpy(), rtol=1e-12)
        second = wrap(phix.grad(phix.grad(f)))
        np.testing.assert_allclose(second(x).numpy(), differences(first, x), rtol=1e-6, atol=1e-7)
        mixed = phix.jvp(phix.grad(f), (x,), (one,))[1]
        np.testing.assert_allclose(mixed.numpy(), second(x).numpy(), rtol=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrap", [lambda f: f, phix.jit], ids=["eager", "jit"])
def test_vmap_is_a_loop(name: str, wrap: Any) -> None:
    f, _, points = CASES[name]
    xs = np.array(points)
    for g in (f, phix.grad(f)):
        loop = [g(np.asarray(x)).item() for x in points]
        np.testing.assert_allclose(wrap(phix.vmap(g))(xs), loop, rtol=1e-12)
    total = phix.grad(lambda xs: ops.sum(phix.vmap(f)(xs)))
    loop = [phix.grad(f)(np.asarray(x)).item() for x in points]
    np.testing.assert_allclose(wrap(total)(xs), loop, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_graphs_print_parse_and_run(name: str) -> None:
    f, twin, points = CASES[name]
    x = np.asarray(points[0])
    graph = phix.make_graph(phix.value_and_grad(f))(x)
    phix.check_graph(graph)
    again = phix.parse_graph(str(graph))
    assert str(again) == str(graph)
    for run in (graph, again, phix.decompose(graph)(x)):
        value, slope = run(x)
        np.testing.assert_allclose(value.numpy(), twin(float(x)), rtol=1e-13)
        np.testing.assert_allclose(slope.numpy(), differences(twin, x), rtol=1e-7, atol=1e-8)


# -- scan ----------------------------------------------------------------------------------------
def test_scan_reverse_length_trees_and_unroll() -> None:
    xs = {"a": np.arange(6.0), "b": np.arange(12.0).reshape(6, 2)}

    def step(c: Any, x: Any) -> Any:
        return {"sum": c["sum"] + x["a"]}, (c["sum"] * x["a"], x["b"])

    for reverse in (False, True):
        plain = phix.scan(step, {"sum": np.float64(0)}, xs, reverse=reverse)
        unrolled = phix.scan(step, {"sum": np.float64(0)}, xs, reverse=reverse, unroll=3)
        before = np.cumsum(xs["a"]) - xs["a"]
        if reverse:
            before = np.cumsum(xs["a"][::-1])[::-1] - xs["a"]
        for final, (products, b) in (plain, unrolled):
            assert final["sum"].item() == 15
            np.testing.assert_array_equal(products, before * xs["a"])
            np.testing.assert_array_equal(b, xs["b"])
    assert phix.scan(lambda c, _: (c * 2, None), 1, length=10)[0].item() == 1024


TRANSFORMS = {
    "plain": lambda f: f,
    "jit": phix.jit,
    "vmap": lambda f: lambda *a: phix.vmap(f)(*(np.stack([x, 2 * x]) for x in a)),
    "jit of vmap": lambda f: lambda *a: phix.jit(phix.vmap(f))(*(np.stack([x, -x]) for x in a)),
    "grad": lambda f: phix.grad(lambda *a: ops.sum(f(*a)[1]), argnums=(0, 1)),
    "jit of grad": lambda f: phix.jit(
        phix.grad(lambda *a: ops.sum(ops.sin(f(*a)[1]) * f(*a)[0]), argnums=(0, 1))
    ),
    "jvp": lambda f: lambda *a: phix.jvp(f, a, a),
    "jet": lambda f: lambda c, x: phix.jet(lambda c: f(c, x), (c,), ([c, c],)),
    "second": lambda f: (
        lambda *a: phix.jvp(phix.grad(lambda *a: ops.sum(ops.sin(f(*a)[1])), argnums=(0, 1)), a, a)
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [2, 5])
def test_unrolled_scan_is_the_scan(
    transform: str, reverse: bool, unroll: int, rng: np.random.Generator
) -> None:
    """The slices of xs were taken by NumPy: their derivative was 0, and jit and vmap raised."""
    start, xs = rng.standard_normal(3), rng.standard_normal((8, 3))

    def step(c: Any, x: Any) -> Any:
        return c * ops.cos(x) + x, ops.sin(c) * x

    def run(c: Any, x: Any, unroll: int) -> Any:
        return phix.scan(step, c, x, reverse=reverse, unroll=unroll)

    wrap = TRANSFORMS[transform]
    expected = phix.tree.leaves(wrap(lambda c, x: run(c, x, 1))(start, xs))
    found = phix.tree.leaves(wrap(lambda c, x: run(c, x, unroll))(start, xs))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_gradient_of_an_unrolled_scan_agrees_with_differences(rng: np.random.Generator) -> None:
    xs = rng.standard_normal(6)

    def total(xs: Any) -> Any:
        return phix.scan(lambda c, x: (c * x + x, None), np.float64(0.5), xs, unroll=3)[0]

    np.testing.assert_allclose(
        phix.grad(total)(xs), differences(lambda v: total(v).numpy(), xs), rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("unroll", [1, 2, 3, 6])
def test_unrolled_fori_loop_under_transformations(unroll: int) -> None:
    def power(x: Any) -> Any:
        return phix.fori_loop(0, 6, lambda i, v: v * x + i, x, unroll=unroll)

    def twin(x: Any) -> Any:
        v = x
        for i in range(6):
            v = v * x + i
        return v

    def slope(x: Any) -> Any:
        v, dv = x, 1.0
        for i in range(6):
            v, dv = v * x + i, dv * x + v
        return dv

    x = np.array([0.5, 1.5, -0.7])
    for run in (power, phix.jit(power), phix.vmap(power), phix.jit(phix.vmap(power))):
        np.testing.assert_allclose(run(x), twin(x), rtol=1e-13)
    summed = lambda x: ops.sum(power(x))  # noqa: E731
    for run in (phix.grad(summed), phix.jit(phix.grad(summed)), phix.vmap(phix.grad(power))):
        np.testing.assert_allclose(run(x), slope(x), rtol=1e-13)


@pytest.mark.parametrize("unroll", [0, -1, 1.5, True, "all"])
def test_unroll_is_a_count(unroll: Any) -> None:
    with pytest.raises(ArgumentError, match="scan: unroll must be an int from 1"):
        phix.scan(lambda c, x: (c, x), 0.0, np.ones(3), unroll=unroll)
    with pytest.raises(ArgumentError, match="fori_loop: unroll must be an int from 1"):
        phix.fori_loop(0, 3, lambda i, v: v, 0.0, unroll=unroll)


def test_an_unrolled_step_must_give_a_pair() -> None:
    with pytest.raises(ArgumentError, match="must return \\(carry, y\\)"):
        phix.scan(lambda c, x: c, 0.0, np.ones(4), unroll=2)


def test_scan_of_no_steps() -> None:
    final, ys = phix.scan(lambda c, x: (c + x, c), np.float64(2), np.zeros(0))
    assert final.item() == 2 and ys.shape == (0,)
    total = lambda c: phix.scan(lambda c, x: (c * x, c), c, np.zeros(0))[0]  # noqa: E731
    assert phix.grad(total)(np.float64(2)).item() == 1.0


def test_scan_over_an_unknown_length() -> None:
    f = phix.jit(lambda xs: phix.scan(lambda c, x: (c + x * x, c), 0.0, xs),
                 input_spec=[phix.spec(["n"])])  # fmt: skip
    slope = phix.jit(phix.grad(lambda xs: f(xs)[0]), input_spec=[phix.spec(["n"])])
    for n in (0, 1, 5):
        xs = np.arange(n, dtype="f")
        final, ys = f(xs)
        assert final.item() == np.sum(xs * xs)
        np.testing.assert_array_equal(ys, np.cumsum(xs * xs) - xs * xs)
        np.testing.assert_array_equal(slope(xs), 2 * xs)
    assert f.trace_count == 1


def test_an_array_filled_row_by_row() -> None:
    def fill(x: Any, n: int = 50) -> Any:
        def step(i: Any, rows: Any) -> Any:
            return rows.at[i].set(rows[i - 1] * 0.9 + x)

        return phix.fori_loop(1, n, step, ops.full([n], 0.0, "float64"))

    expected = [0.0]
    for _ in range(49):
        expected.append(expected[-1] * 0.9 + 0.5)
    np.testing.assert_allclose(phix.jit(fill)(np.float64(0.5)), expected, rtol=1e-13)
    slope = phix.jit(phix.grad(lambda x: ops.sum(fill(x))))(np.float64(0.5)).item()
    assert slope == pytest.approx(sum(expected) / 0.5, rel=1e-12)


# -- while_loop ----------------------------------------------------------------------------------
def test_trip_count_known_only_at_run_time() -> None:
    f = phix.jit(lambda x, n: phix.fori_loop(0, n, lambda i, v: v * x, 1.0))
    for n in (0, 1, 7):
        assert f(np.float64(1.1), n).item() == pytest.approx(1.1**n, rel=1e-14)
        slope = phix.jit(phix.grad(f))(np.float64(1.1), n).item()
        assert slope == pytest.approx(n * 1.1 ** (n - 1), rel=1e-13)


def test_a_loop_over_an_unknown_dim_is_one_op() -> None:
    spec = phix.spec(["n"], "float64")

    def f(x: Any) -> Any:
        return phix.fori_loop(1, x.shape[0], lambda i, v: v + x[i] * x[i - 1], 0.0)

    graph = phix.make_graph(f)(spec)
    assert [e.op.name for e in graph.equations] == ["full", "fori_loop"]
    assert "length=" in str(graph)
    phix.check_graph(graph)
    assert str(phix.parse_graph(str(graph))) == str(graph)
    slope, curve = (phix.jit(g(f), input_spec=[spec]) for g in (phix.grad, phix.hessian))
    for n in (1, 2, 5):
        x = np.arange(1.0, n + 1)
        value = phix.jit(f, input_spec=[spec])(x).item()
        assert value == np.sum(x[1:] * x[:-1]) == graph(x)[0].item()
        beside = np.r_[x[1:], 0] + np.r_[0, x[:-1]]
        np.testing.assert_array_equal(slope(x), beside if n > 1 else [0.0])
        np.testing.assert_array_equal(curve(x), np.eye(n, k=1) + np.eye(n, k=-1))


def test_staged_graphs_show_fori_loop_and_select_n() -> None:
    cubed = phix.make_graph(lambda x: phix.fori_loop(0, 3, lambda i, v: v * x, 1.0))(1.5)
    (loop,) = cubed.equations
    assert loop.op.name == "fori_loop" and "length=3" in str(cubed)
    graph = phix.make_graph(phix.select_n)(np.array([0, 1]), X[:2], X[1:])
    assert [e.op.name for e in graph.equations] == ["select_n"]
    with pytest.raises(ShapeError, match="the cases must have the same dims"):
        phix.select_n(0, X, X[:2])
    with pytest.raises(ShapeError, match="which must be one value or have the dims"):
        phix.select_n([0, 1], X, X)
    with pytest.raises(DTypeError, match="upper must be one int64"):
        phix.fori_loop(0, np.arange(3), lambda i, v: v, 1.0)


def test_a_side_that_no_lane_takes_does_not_run() -> None:
    """The first branch would never end on these operands."""
    forever = lambda x: phix.while_loop(lambda v: v > 0, lambda v: v + 1.0, x)  # noqa: E731
    choose = lambda x: phix.cond(x > 0, forever, lambda x: -x, x)  # noqa: E731
    f = phix.vmap(choose)
    np.testing.assert_array_equal(f(np.array([-1.0, -2.0])), [1, 2])
    slope = phix.vmap(phix.grad(choose))
    np.testing.assert_array_equal(slope(np.array([-1.0, -2.0])), [-1, -1])


def test_batched_trip_counts() -> None:
    f = phix.vmap(lambda n: phix.fori_loop(0, n, lambda i, v: v + i, 0))
    np.testing.assert_array_equal(f(np.array([0, 1, 5])), [0, 0, 10])


@pytest.mark.parametrize("wrap", [phix.jit, phix.checkpoint, lambda f: f])
def test_lanes_of_a_staged_loop_stop_when_they_are_done(wrap: Any) -> None:
    """The graph of the gradient is made before it is known that its trip count is mapped."""

    def f(x: Any) -> Any:
        def advance(s: Any) -> Any:
            return s[0] + 1, s[1] + ops.sin(s[1]) * 0.5

        return phix.while_loop(lambda s: (s[0] < 4) & (s[1] < 1.3), advance, (0, x))[1]

    xs = np.array([0.3, 0.9, 1.1, 2.0])
    loop = [phix.jvp(f, (x,), (np.ones(()),))[1].item() for x in xs]
    np.testing.assert_allclose(phix.vmap(phix.grad(wrap(f)))(xs), loop, rtol=1e-12)
    np.testing.assert_allclose(phix.vmap(phix.jit(phix.grad(wrap(f))))(xs), loop, rtol=1e-12)


def test_a_size_of_each_lane_is_refused() -> None:
    with pytest.raises(ConcretizationError, match="a size"):
        phix.vmap(lambda n: ops.sum(ops.full([n], 1.0)))(np.array([1, 2]))


def test_nested_loops_and_branches() -> None:
    def f(x: Any) -> Any:
        def row(c: Any, i: Any) -> Any:
            inner = phix.fori_loop(
                0, 3, lambda j, v: phix.cond(i > j, lambda v: v * x, ops.sin, v), c
            )
            return inner, inner

        return ops.sum(phix.scan(row, x, np.arange(4))[1])

    def twin(x: float) -> float:
        c, total = x, 0.0
        for i in range(4):
            for j in range(3):
                c = c * x if i > j else np.sin(c)
            total += c
        return total

    x = np.asarray(0.8)
    for g in (f, phix.jit(f)):
        assert g(x).item() == pytest.approx(twin(0.8), rel=1e-13)
        np.testing.assert_allclose(phix.grad(g)(x).numpy(), differences(twin, x), rtol=1e-7)
    np.testing.assert_allclose(
        phix.vmap(f)(np.array([0.8, 0.2])), [twin(0.8), twin(0.2)], rtol=1e-13
    )


# -- the rest ------------------------------------------------------------------------------------
def test_switch_clamps_and_select_n_chooses() -> None:
    branches = [lambda x: x, lambda x: 2 * x, lambda x: 3 * x]
    for index, factor in [(-5, 1), (0, 1), (1, 2), (2, 3), (9, 3)]:
        assert phix.switch(index, branches, 2.0).item() == 2 * factor
    np.testing.assert_array_equal(
        phix.vmap(lambda i: phix.switch(i, branches, 1.0))(np.arange(3)), [1, 2, 3]
    )
    np.testing.assert_array_equal(
        phix.select_n(np.array([0, 2, 1]), [1, 2, 3], [4, 5, 6], [7, 8, 9]), [1, 8, 6]
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(size: int, reverse: bool) -> None:
    x = np.random.default_rng(size).normal(size=(2, size))
    expected = np.cumprod(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumprod(x, 1)
    found = phix.associative_scan(ops.multiply, x, reverse=reverse, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_an_unknown_size(axis: int, reverse: bool) -> None:
    """Of maps a z + b, whose composition is no sum: with derivatives, lanes and no slices."""

    def composed(first: Any, second: Any) -> Any:
        return first["a"] * second["a"], second["a"] * first["b"] + second["b"]

    def run(a: Any, b: Any) -> Any:
        fn = lambda f, g: dict(zip("ab", composed(f, g)))  # noqa: E731
        found = phix.associative_scan(fn, {"a": a, "b": b}, reverse=reverse, axis=axis)
        return ops.stack([found["a"], found["b"]])

    def slopes(a: Any, b: Any) -> Any:
        return phix.grad(lambda a, b: ops.sum(ops.sin(run(a, b))), (0, 1))(a, b)

    spec = [phix.spec(["n", "m"], "float64")] * 2
    programs = {f: phix.jit(f, input_spec=spec) for f in (run, slopes)}
    for shape in ((5, 3), (3, 1), (1, 4), (0, 2), (8, 9)):
        a, b = np.random.default_rng(5).normal(size=(2, *shape[:: 1 if axis == 0 else -1]))
        for f, program in programs.items():
            for found, wanted in zip(program(a, b), f(a, b)):  # which knows the size
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    lanes = phix.jit(phix.vmap(run), input_spec=[phix.spec([2, "n", "m"], "float64")] * 2)
    a, b = np.random.default_rng(6).normal(size=(2, 2, 3, 4))
    np.testing.assert_allclose(lanes(a, b), [run(*row) for row in zip(a, b)], rtol=1e-12)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 4, 9])
def test_map(batch_size: int | None) -> None:
    x = np.arange(14.0).reshape(7, 2)
    found = phix.map(lambda r: {"sum": ops.sum(r), "twice": r * 2}, x, batch_size=batch_size)
    np.testing.assert_array_equal(found["sum"], x.sum(1))
    np.testing.assert_array_equal(found["twice"], x * 2)


def test_errors() -> None:
    with pytest.raises(DTypeError, match=r"carry 0 goes in as int64\[\] and comes out as float"):
        phix.scan(lambda c, x: (c + x, None), np.int64(0), np.ones(2, "f"))
    with pytest.raises(ShapeError, match="must give back a carry of the dims"):
        phix.while_loop(lambda v: True, lambda v: ops.concat([v, v]), np.ones(2))
    with pytest.raises(ShapeError, match="results of the same metas"):
        phix.cond(True, lambda x: x, lambda x: ops.sum(x), np.ones(2))
    with pytest.raises(DTypeError, match=r"cond: false_fn gives int32\[2\], true_fn float64\[2\]"):
        phix.cond(True, lambda x: x, lambda x: x.astype("int32"), np.ones(2))
    with pytest.raises(
        DTypeError, match=r"switch: branch 0 gives float64\[2\], branch 1 bool\[2\]"
    ):
        phix.switch(0, [lambda x: x, lambda x: x > 0], np.ones(2))
    with pytest.raises(ArgumentError, match="structure"):
        phix.cond(True, lambda x: (x, x), lambda x: x, 1.0)
    with pytest.raises(ShapeError, match="pred must be one value"):
        phix.cond(np.ones(2, bool), lambda x: x, lambda x: x, 1.0)
    with pytest.raises(ArgumentError, match="how many steps"):
        phix.scan(lambda c, _: (c, None), 0)
    with pytest.raises(ShapeError, match="one size"):
        phix.scan(lambda c, x: (c, None), 0, (np.ones(2), np.ones(3)))
    with pytest.raises(DTypeError, match="cond must give one bool"):
        phix.while_loop(lambda v: v, lambda v: v, 1.0)


def test_second_derivative_of_a_checkpointed_while_loop() -> None:
    """The loop that counts the steps of the second pass runs as often as the first pass counted."""

    def doubled(x: Any) -> Any:
        return phix.while_loop(lambda v: v < 1.3, lambda v: v + ops.sin(v) * 0.5, x)

    kept = phix.checkpoint(doubled)
    for second in (lambda f: phix.grad(phix.grad(f)), lambda f: phix.jit(phix.grad(phix.grad(f)))):
        assert np.allclose(second(kept)(X[0]), second(doubled)(X[0]), rtol=1e-12)
    third = phix.grad(phix.grad(phix.grad(kept)))(X[0])
    assert np.allclose(third, phix.grad(phix.grad(phix.grad(doubled)))(X[0]), rtol=1e-12)


def test_a_branch_without_branches_is_refused():
    with pytest.raises(AttributeValueError, match="branches is empty; give at least one graph"):
        ops.branch(phix.to_tensor(0), [phix.to_tensor(1.0)], [])


# -- the kind of the carry -----------------------------------------------------------------------
@pytest.mark.parametrize("init, turn", [(1.0, 1j), (1, 1j), (True, 1j)])
def test_a_real_carry_does_not_become_complex_unasked(init: Any, turn: complex) -> None:
    loops = (
        lambda: phix.while_loop(lambda c: abs(c) < 10, lambda c: 2.0 * turn * c, init),
        lambda: phix.fori_loop(0, 3, lambda i, c: c * turn, init),
        lambda: phix.scan(lambda c, _: (c * turn, None), init, None, length=3),
    )
    for loop in loops:
        with pytest.raises(DTypeError, match=f"the carry begins as the Python number {init}"):
            loop()
    assert phix.fori_loop(0, 3, lambda i, c: c * turn, 1 + 0j).item() == -1j
    assert phix.fori_loop(0, 3, lambda i, c: c * np.complex128(1j), 1 + 0j).dtype == "complex128"


def test_a_carry_does_not_lose_its_fraction() -> None:
    with pytest.raises(DTypeError, match=r"begins as the Python number 1\.5, a float"):
        phix.while_loop(lambda c: c < 9, lambda c: ops.cast(c + 1, "int64"), 1.5)
    assert phix.fori_loop(0, 2, lambda i, c: c * 0.5, 3).item() == 0.75  # a wider kind holds it
