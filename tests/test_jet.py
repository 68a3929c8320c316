"""Taylor mode: every op against nested jvp, closed forms, compositions, and the size of graphs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import phix
import proofs
from benchmarks import pinn
from harness import checks
from harness.cases import Case, kind_of, table_cases
from phix import ops
from phix.core.errors import ArgumentError, DifferentiationError, ShapeError
from phix.testing import derivatives as differences

pytestmark = pytest.mark.unoptimised

ORDER = 4
ONE = np.float64(1.0)


def forward(function):
    """The derivative of a function of one number, in forward mode."""
    return lambda x: phix.jvp(function, (x,), (ops.full((), 1, phix.to_tensor(x).dtype),))[1]


def nested(function, order):
    for _ in range(order):
        function = forward(function)
    return function


# -- every op of the table ---------------------------------------------------------------------
CASES = {
    case.op.name: case
    for case in table_cases()
    if case.samples
    and "nondifferentiable" not in case.op.traits
    and any(case.differentiated(call) for call in case.double_calls())
}


def along_curve(fn, point, series):
    """Derivatives of ``fn`` along the curve with these derivatives, by nested jvp."""

    def at(t):
        moved = []
        for start, row in zip(point, series):
            x = start
            for k, d in enumerate(row, 1):
                x = x + d * (t**k / math.factorial(k))
            moved.append(x if x.dtype == start.dtype else x.astype(start.dtype))
        return fn(*moved)

    return [nested(at, k)(np.float64(0.0)) for k in range(ORDER + 1)]


def check_series(fn, point, rng):
    tensors = [phix.to_tensor(x) for x in point]
    series = [differences.random_like(point, rng) for _ in range(ORDER)]
    rows = [[phix.to_tensor(d[i]) for d in series] for i in range(len(point))]
    out, found = phix.jet(fn, tensors, rows)
    wanted = along_curve(fn, tensors, rows)
    for number, value in enumerate(out):
        for k in range(ORDER + 1):
            term = found[number][k - 1] if k else value
            expected = np.asarray(wanted[k][number])
            assert term.shape == expected.shape and term.dtype == expected.dtype
            narrow = 1e-4 if differences.precision(out) else 1e-8
            size = max(1.0, differences.magnitude([expected]))
            np.testing.assert_allclose(
                np.asarray(term), expected, rtol=narrow, atol=narrow * size, err_msg=f"order {k}"
            )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", proofs.thinned(CASES.values(), kind_of, ids=lambda c: c.op.name))
def test_op_against_nested_jvp(case: Case) -> None:
    rng = np.random.default_rng(0)
    calls = list(case.double_calls())
    # an op without a rule of its own: the first sample, and the last, which may be complex
    for call in calls if case.op.jet_rule or len(calls) < 3 else (calls[0], calls[-1]):
        fn, point = checks.differentiable(call)
        if point and fn(*point):
            with checks.about(call):
                check_series(fn, point, rng)


# -- closed forms --------------------------------------------------------------------------------
def _gaussian(x, n):
    """(-1)^n H_n(x) exp(-x^2), H_n the physicists' Hermite polynomial."""
    return (-1) ** n * np.polynomial.hermite.Hermite.basis(n)(x) * math.exp(-x * x)


def _tanh(x, n):
    """Polynomials in t = tanh(x), by t' = 1 - t^2."""
    p = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        p = p.deriv() * np.polynomial.Polynomial([1.0, 0.0, -1.0])
    return p(math.tanh(x))


CLOSED_FORMS = {
    "sin": (ops.sin, lambda x, n: math.sin(x + n * math.pi / 2)),
    "tanh": (ops.tanh, _tanh),
    "gaussian": (lambda x: ops.exp(-x * x), _gaussian),
    "reciprocal": (lambda x: 1 / x, lambda x, n: (-1) ** n * math.factorial(n) * x ** (-n - 1)),
    "log": (ops.log, lambda x, n: (-1) ** (n - 1) * math.factorial(n - 1) * x**-n if n else
            math.log(x)),
    "cube": (lambda x: x**3, lambda x, n: [x**3, 3 * x**2, 6 * x, 6, 0, 0, 0, 0, 0][n]),
    "one": (lambda x: ops.sin(x) ** 2 + ops.cos(x) ** 2, lambda x, n: float(n == 0)),
}  # fmt: skip
WAYS = {
    "eager": lambda f, n: phix.derivative(f, n),
    "jit": lambda f, n: phix.jit(phix.derivative(f, n)),
    "vmap": lambda f, n: lambda x: phix.vmap(phix.derivative(f, n))(np.stack([x + 1, x]))[1],
    "grad of": lambda f, n: phix.grad(phix.derivative(f, n - 1)) if n else f,
    "of grad": lambda f, n: phix.derivative(phix.grad(f), n - 1) if n else f,
    "nested": lambda f, n: phix.derivative(phix.derivative(f, n // 2), n - n // 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_form(name: str, way: str) -> None:
    function, closed = CLOSED_FORMS[name]
    for order in (0, 1, 2, 5, 8):
        found = WAYS[way](function, order)(np.float64(0.7))
        expected = closed(0.7, order)
        np.testing.assert_allclose(found.item(), expected, rtol=1e-10, atol=1e-9)


def test_series_are_derivatives_as_in_jax() -> None:
    value, series = phix.jet(ops.exp, (0.0,), ([1.0, 0.0, 0.0, 0.0],))
    assert value.item() == 1.0
    assert [s.item() for s in series] == pytest.approx([1.0, 1.0, 1.0, 1.0])
    _, (first, second) = phix.jet(lambda x: x * x, (3.0,), ([1.0, 5.0],))
    assert (first.item(), second.item()) == (6.0, 32.0)  # 2 x x', 2 x'^2 + 2 x x''


def test_trees() -> None:
    def f(a, b):
        return {"sum": a["x"] + b[0], "int": ops.cast(b[1], "int64"), "c": a["x"] * b[1]}

    primals = ({"x": 2.0}, (np.float32(3.0), np.float32(4.0)))
    out, series = phix.jet(f, primals, ({"x": [1.0, 0.0]}, ([1.0, 2.0], [None, 1.0])))
    assert {k: v.item() for k, v in out.items()} == {"sum": 5.0, "int": 4, "c": 8.0}
    assert [s.item() for s in series["sum"]] == [2.0, 2.0]
    assert [s.item() for s in series["int"]] == [0, 0]
    assert [s.item() for s in series["c"]] == [4.0, 2.0]
    tree = phix.derivative(lambda x: {"a": x**2, "b": (ops.sin(x), 1.0)}, 2)(0.0)
    assert tree["a"].item() == 2.0 and tree["b"][1].item() == 0.0


def test_further_arguments_stay_fixed() -> None:
    f = phix.derivative(lambda x, w, bias: w * x**2 + bias, 2)
    assert f(1.0, 3.0, bias=1.0).item() == 6.0
    assert phix.grad(f, 1)(1.0, 3.0, bias=1.0).item() == 2.0


# -- edges ---------------------------------------------------------------------------------------
def test_powers_at_zero() -> None:
    for exponent, wanted in {3: [0, 0, 0, 6], 2: [0, 0, 2, 0], 1: [0, 1, 0, 0]}.items():
        found = [phix.derivative(lambda x, e=exponent: x**e, n)(0.0).item() for n in range(4)]
        assert found == wanted
    assert phix.derivative(lambda x: x**2.5, 2)(0.0).item() == 0.0
    by_tensor = lambda x: ops.elementwise_pow(x, phix.to_tensor(2.0))  # noqa: E731
    assert [phix.derivative(by_tensor, n)(0.0).item() for n in range(4)] == [0, 0, 2, 0]


@pytest.mark.parametrize("op", [ops.maximum, ops.minimum, ops.fmax, ops.fmin])
def test_ties_are_shared_as_in_forward_mode(op) -> None:
    def f(x):
        return op(2.0 * x * x, ops.sin(x) * x)

    for order in range(1, 5):
        expected = nested(f, order)(np.float64(0.0)).item()
        if order < 3:  # the tie of the values decides for every coefficient
            assert phix.derivative(f, order)(np.float64(0.0)).item() == pytest.approx(expected)
    extreme = lambda x: ops.max(ops.stack([x, 3.0 * x, x - 1.0]))  # noqa: E731
    assert phix.derivative(extreme, 1)(0.0).item() == forward(extreme)(0.0).item() == 2.0


def test_coefficients_alone_take_the_dims_of_the_result() -> None:
    row, column = np.ones(3), np.ones((2, 1))
    for op, wanted in ((ops.add, 1.0), (ops.subtract, -1.0), (ops.multiply, 1.0)):
        out, series = phix.jet(op, (column, row), ([None], [row]))
        assert out.shape == series[0].shape == (2, 3)
        np.testing.assert_array_equal(series[0], np.full((2, 3), wanted))


def test_unknown_dims() -> None:
    def f(x):
        second = phix.vmap(phix.derivative(lambda t: ops.tanh(t * t), 3))
        return second(x) + phix.jet(lambda v: ops.max(v) * v, (x,), ([x, x],))[1][1]

    compiled = phix.jit(f, input_spec=[phix.spec(["n"], "float64")])
    for size in (1, 4):
        x = np.linspace(0.3, 1.2, size)
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
    assert compiled.trace_count == 1


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ArgumentError, match="one length"):
        phix.jet(ops.add, (1.0, 2.0), ([1.0], [1.0, 2.0]))
    with pytest.raises(ArgumentError, match="2 primals and 1 series"):
        phix.jet(ops.add, (1.0, 2.0), ([1.0],))
    with pytest.raises(ArgumentError, match="list of derivatives"):
        phix.jet(ops.sin, (1.0,), (1.0,))
    with pytest.raises(ArgumentError, match="structure"):
        phix.jet(lambda t: t["a"], ({"a": 1.0},), ({"b": [1.0]},))
    with pytest.raises(ShapeError, match="derivative 2"):
        phix.jet(ops.sin, (1.0,), ([1.0, np.ones(2)],))
    with pytest.raises(DifferentiationError, match="cast"):
        phix.jet(ops.abs, (1,), ([1.0],))
    with pytest.raises(ShapeError, match="vmap"):
        phix.derivative(ops.sin, 2)(np.ones(3))
    with pytest.raises(DifferentiationError, match="cast"):
        phix.derivative(ops.abs, 2)(3)
    with pytest.raises(ArgumentError, match="order"):
        phix.derivative(ops.sin, -1)


def test_without_series_the_function_runs_as_it_is() -> None:
    assert phix.jet(ops.sin, (0.0,), ([],))[1] == []
    assert phix.jet(lambda: phix.to_tensor(2.0), (), ())[0].item() == 2.0


# -- control flow, and stacks of transformations -----------------------------------------------
ROWS = np.array([0.5, 1.2, 0.7])


def _body(x):
    return ops.sin(x * x) * ops.exp(-x)


@phix.custom_jvp
def with_tangent(x):
    """Its tangent is not that of its body: who asks the body is found out."""
    return _body(x)


with_tangent.defjvp(lambda p, t: (with_tangent(p[0]), 3.0 * t[0] * ops.cos(p[0])))


@phix.custom_vjp
def with_pullback(x):
    return _body(x)


with_pullback.defvjp(
    lambda x: (with_pullback(x), x), lambda x, ct: (3.0 * ct * ops.cos(x) * with_pullback(x),)
)


def _matrix(x):
    return ops.cos(x * ROWS.reshape(1, 3) * ROWS.reshape(3, 1)) + 4.0 * np.eye(3)


PROGRAMS = {
    "plain": lambda x: ops.sin(x * x) * ops.exp(-x) + ops.sqrt(x),
    "matmul": lambda x: (ops.tanh(x * ROWS.reshape(1, 3)) @ ops.sin(x + ROWS.reshape(3, 1))).sum(),
    "sorting": lambda x: (ops.sort(ops.sin(ROWS * x * 3.0)) * ROWS).sum(),
    "solve": lambda x: (ops.solve(_matrix(x), ops.sin(x * ROWS)) * ROWS).sum(),
    "factors": lambda x: (
        ops.slogdet_v2(_matrix(x))[1] + ops.inverse(ops.cholesky(_matrix(x)))[2, 0]
    ),
    "scan": lambda x: phix.scan(lambda c, a: (ops.sin(c) * a * x, c * a), x, ROWS)[0],
    "scan of rows": lambda x: phix.scan(
        lambda c, a: (ops.sin(c) * a, c * a), x, phix.to_tensor(ROWS) * x, reverse=True
    )[1].sum(),
    "while": lambda x: phix.while_loop(
        lambda v: v[1] < 3, lambda v: (ops.tanh(v[0] * x) + 1, v[1] + 1), (x, 0)
    )[0],
    "fori": lambda x: phix.fori_loop(0, phix.to_tensor(3), lambda i, v: ops.exp(-v * x), x),
    "cond": lambda x: phix.cond(x > 0, lambda v: ops.sin(v) * x, lambda v: v * 3, x),
    "switch": lambda x: phix.switch(1, [ops.sin, lambda v: ops.exp(v) * v], x),
    "jitted": lambda x: phix.jit(_body)(x) * x,
    "checkpoint": lambda x: phix.checkpoint(_body)(x) * x,
    "custom_jvp": lambda x: with_tangent(x) * x,
    "custom_vjp": lambda x: with_pullback(x) * x,
    "associative scan": lambda x: phix.associative_scan(
        ops.multiply, ops.stack([x, x * x, ops.sin(x)])
    ).sum(),
}
STEPS = {
    "jet": (2, lambda f: phix.derivative(f, 2)),
    "grad": (1, phix.grad),
    "jvp": (1, forward),
    "vmap": (0, lambda f: lambda x: phix.vmap(f)(ops.stack([x, x * 0.5]))[0]),
    "jit": (0, phix.jit),
}
STACKS = [s for s in itertools.permutations(STEPS, 3) if "jet" in s]


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_to_order_four(name: str) -> None:
    for order in range(1, ORDER + 1):
        found = phix.derivative(PROGRAMS[name], order)(np.float64(0.7)).item()
        expected = nested(PROGRAMS[name], order)(np.float64(0.7)).item()
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.prove)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stacks_of_transformations(name: str, part: int) -> None:
    wanted: dict[int, float] = {}
    for number, stack in enumerate(STACKS):
        if (number + len(name)) % 6 != 3 * part:  # a sixth of the stacks for each program
            continue
        function, order = PROGRAMS[name], 0
        for step in stack:
            function, order = STEPS[step][1](function), order + STEPS[step][0]
        if order not in wanted:
            wanted[order] = nested(PROGRAMS[name], order)(np.float64(0.7)).item()
        found = function(np.float64(0.7)).item()
        np.testing.assert_allclose(found, wanted[order], rtol=1e-9, err_msg=" of ".join(stack))


def test_custom_rules_are_honoured() -> None:
    second = phix.derivative(with_tangent, 2)(np.float64(0.7)).item()
    assert second == pytest.approx(-3.0 * math.sin(0.7))
    assert phix.derivative(with_pullback, 1)(np.float64(0.0)).item() == 0.0
    assert phix.derivative(phix.stop_gradient, 1)(1.0).item() == 0.0


# -- the size of graphs --------------------------------------------------------------------------
def network(x, layers):
    h = ops.reshape(x, (1, 1))
    for weight, bias in layers[:-1]:
        h = ops.tanh(h @ weight + bias)
    weight, bias = layers[-1]
    return ops.reshape(h @ weight + bias, ())


def layers_of(*sizes):
    rng = np.random.default_rng(0)
    return [
        (phix.to_tensor(rng.standard_normal((m, n)) / math.sqrt(m)), phix.to_tensor(np.zeros(n)))
        for m, n in itertools.pairwise(sizes)
    ]


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: phix.grad(f, 1)], ids=["u^(n)", "grad"])
def test_graph_grows_quadratically(wrap) -> None:
    layers = layers_of(1, 32, 32, 32, 1)
    orders = np.arange(1, 9)
    counts = [
        len(phix.make_graph(wrap(phix.derivative(network, int(n))))(ONE, layers).equations)
        for n in orders
    ]
    fit = np.polynomial.Polynomial.fit(orders, counts, 2)
    np.testing.assert_allclose(fit(orders), counts, rtol=0.05, atol=8)
    third = np.diff(counts, 3)
    assert np.abs(np.add.accumulate(third)).max() < 0.1 * counts[-1], counts
    assert counts[-1] < 16 * counts[0]


def test_ops_without_a_rule_do_not_grow_exponentially() -> None:
    counts = [
        len(phix.make_graph(phix.derivative(ops.erfinv, n))(np.float64(0.3)).equations)
        for n in (2, 4, 8)
    ]
    assert counts[2] < 10 * counts[1]


def test_the_benchmark_compares_equal_things() -> None:
    pinn.check(2)
    assert pinn.equations("jet", 5) * 2 < pinn.equations("reverse", 5)
