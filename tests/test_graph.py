"""Graphs: text and back, the checker, running, unknown dims, run-time checks."""

from __future__ import annotations

import numbers
import random
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dims as dm
from phix.core.errors import DTypeError, GraphError, ShapeError, UnknownDimError, UnknownOpError
from phix.kernels.schedule.estimates import estimate


def _mlp(x, w, b):
    return ops.log_softmax(ops.matmul(x, w) + b)


@pytest.fixture
def mlp():
    return phix.make_graph(_mlp)(phix.spec(["n", 8]), phix.spec([8, 3]), phix.spec([3]))


def test_text_of_a_graph(mlp):
    assert str(mlp) == (
        "graph(x: float32[n, 8], w: float32[8, 3], b: float32[3]) {\n"
        "  a: float32[n, 3] = matmul(x, w)\n"
        "  c: float32[n, 3] = add(a, b)\n"
        "  d: float32[n, 3] = log_softmax(c, axis=1)\n"
        "  return d\n"
        "}"
    )


@pytest.mark.parametrize("dim", ["n", -1, 5])
def test_parse_is_the_inverse_of_print(dim):
    def f(x, tree):
        y = ops.reshape(x, [-1, 4]) * 2.0 + tree["c"] + np.arange(4.0, dtype="float32")
        big = ops.sum(y) * ops.sum(phix.to_tensor(np.ones(100, "float32")))
        return ops.cast(ops.max(y, [1]), "float64"), big, ops.full([2], 1 + 2j, "complex64")

    graph = phix.make_graph(f)(phix.spec([dim, 2, 4]), {"c": phix.spec([4])})
    constants = [c.value for c in graph.constants]
    again = phix.parse_graph(str(graph), constants)
    assert str(again) == str(graph)
    phix.check_graph(again)
    x, c = np.arange(40, dtype="f").reshape(5, 2, 4), np.ones(4, "f")
    for a, b in zip(graph(x, c), again(x, c)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("graph(x: float32[2]) { return y }", GraphError, "'y' is not defined above"),
        ("graph(x: float33[2]) { return x }", GraphError, "'float33' is no dtype"),
        ("graph(x: float32[2]) {\n a: float32[2] = sine(x)\n return a }", UnknownOpError, "sin"),
        ("graph(x: float32[2]) {\n a: float32[3] = sin(x)\n return a }", GraphError, "infers"),
        ("graph(x: float32[2], x: float32[2]) { return x }", GraphError, "defined twice"),
        ("graph(x: float32[2]) { return x", GraphError, "expected '}'"),
        ("graph(x: float32[2]) {\n a: float32[2] = sum(x, ax=(0,))\n return a }", GraphError, "ax"),
        (
            "graph(x: float32[2]) { const c: float32[9] = constants[0] return c }",
            GraphError,
            "write phix.parse_graph.text, constants",
        ),
        ("graph(x: float32[wide(n)]) { return x }", GraphError, "'wide' is no function of dims"),
        ("graph(x: float32[max(1)]) { return x }", GraphError, "line 1 .* malformed before"),
        ("graph(x: float32[]) {\n a: float32[] = add(x, 007)\n return a }", GraphError, "line 2"),
        (
            "graph(x: float32[]) {\n a: float32[] = add(x, 1.0:real)\n return a }",
            GraphError,
            "'real'",
        ),
        ("graph() { const c: float32[3] = [1.0, 2.0] return c }", GraphError, "reshape"),
    ],
)
def test_text_that_is_no_graph(text, error, message):
    with pytest.raises(error, match=message):
        phix.parse_graph(text)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("ends=(1,)", "ends=(1e999)"),
        ("ends=(1,)", "ends=(int64,)"),
        ("decrease_axis=(0,)", "decrease_axis=int64"),
        ("decrease_axis=(0,)", f"decrease_axis=({10**20})"),
        ("slice(x", "slice(1e999"),
    ],
)
def test_attributes_of_other_types_are_errors_of_phix(part, other):
    text = str(phix.make_graph(lambda x: x[0])(phix.spec([4, 6])))
    assert part in text
    with pytest.raises(GraphError, match="that it cannot take"):
        phix.parse_graph(text.replace(part, other))


def test_damaged_text_ends_in_errors_of_phix():
    scan = phix.make_graph(lambda x: phix.scan(lambda c, r: (c * r, c + 0.1), 1.0, x[::-1]))
    whole, draw = str(scan(phix.spec(["n"]))), random.Random(7)
    refused = 0
    for _ in range(400):
        text = list(whole)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(text))
            again = whole[(start := draw.randrange(len(whole))) : start + draw.randint(0, 9)]
            text[place : place + draw.randint(0, 6)] = [again, chr(draw.randint(32, 126)), ""][
                draw.randrange(3)
            ]
        try:
            phix.parse_graph("".join(text))
        except phix.errors.PhixError:
            refused += 1
    assert refused > 200


def test_one_graph_runs_at_many_sizes(mlp):
    w, b = np.ones((8, 3), "f"), np.zeros(3, "f")
    for n in (0, 1, 7):
        (out,) = mlp(np.linspace(0, 1, 8 * n, dtype="f").reshape(n, 8), w, b)
        assert out.shape == (n, 3)
        np.testing.assert_allclose(out, np.full((n, 3), -np.log(3)), rtol=1e-6)


def test_arguments_must_fit(mlp):
    w, b = np.ones((8, 3), "f"), np.zeros(3, "f")
    with pytest.raises(ShapeError, match=r"argument 0 is declared float32\[n, 8\].*\[2, 7\]"):
        mlp(np.ones((2, 7), "f"), w, b)
    with pytest.raises(DTypeError, match="cast it to float32"):
        mlp(np.ones((2, 8)), w, b)


SIGNED = {
    "a slice to before the first": lambda x: x[::-1],
    "a number less a dim": lambda x: ops.pad(x, [0, 7 - 3 * x.shape[0]], 1.0),
    "a dim less a number": lambda x: ops.pad(x, [2, 4 - x.shape[0]], 1.0),
    "a function of one": lambda x: x[-((1 - x.shape[0]) // 2) : x.shape[0]],
    "negative numbers": lambda x: ops.clip(ops.scale(x, -1.5), -2.0, float("inf")),
}


@pytest.mark.parametrize("name", SIGNED)
def test_the_sign_before_a_dim_is_that_of_its_first_term(name: str) -> None:
    graph = phix.make_graph(SIGNED[name])(phix.spec(["n"], "float64"))
    again = phix.parse_graph(str(graph))
    assert str(again) == str(graph)
    for size in (1, 2, 3):
        x = np.arange(1.0, size + 1)
        np.testing.assert_array_equal(again(x)[0], SIGNED[name](phix.to_tensor(x)))


def test_a_check_left_open_while_tracing_fails_at_run_time_with_the_same_message():
    f = phix.jit(ops.matmul, input_spec=[phix.spec(["n", "k"]), phix.spec([4, 2])])
    np.testing.assert_array_equal(f(np.ones((3, 4), "f"), np.ones((4, 2), "f")), 4.0)
    with pytest.raises(ShapeError) as late:
        f(np.ones((3, 5), "f"), np.ones((4, 2), "f"))
    with pytest.raises(ShapeError) as early:
        phix.make_graph(ops.matmul)(phix.spec([3, 5]), phix.spec([4, 2]))
    tail = "the inner dims must be equal, found 5 and 4"
    assert tail in str(late.value) and tail in str(early.value)
    strip = lambda e: str(e.value).partition(" (at ")[0]  # noqa: E731
    assert strip(late) == strip(early) == "matmul(x: float32[3, 5], y: float32[4, 2])"


def test_constants_are_held_by_reference():
    big = phix.to_tensor(np.ones(1000, "float32"))
    graph = phix.make_graph(lambda x: x + big)(phix.spec([1000]))
    assert graph.constants[0].value is big


def test_equations_know_the_users_line():
    graph = phix.make_graph(lambda x: ops.sin(x))(phix.spec([2]))
    source = graph.equations[0].source
    assert source.file == __file__ and source.line > 1


# -- unknown dims -------------------------------------------------------------------------------
def test_dims_that_are_known_to_be_equal_stay_so():
    n, m = dm.symbol("n"), dm.symbol("m")
    assert dm.same(n * 2 + m - n, m + n)
    assert dm.same((n + 1) * (n - 1), n * n - 1)
    assert dm.same((n * 6) // 3, n * 2) and dm.same((n * m) // m, n)
    assert (n * 4) % 2 == 0 and not dm.is_known(n % 2)
    assert not dm.same(n, m) and dm.may_equal(n, m) and not dm.may_equal(n, n + 1)
    env = {next(iter(dm.symbols(n))): 7}
    assert dm.substitute(dm.maximum(n // 2, 5 - n) + n % 4, env) == 6


def test_a_part_that_a_dim_holds_many_times_is_computed_once(monkeypatch):
    """Each step holds the one before twice: 2**12 ways lead to the first."""
    dim, size = dm.symbol("n"), 7
    (symbol,) = dm.symbols(dim)
    for _ in range(12):
        dim = dm.minimum(dim, 5) + dm.maximum(dim, 3)
        size = min(size, 5) + max(size, 3)
    assert dm.symbols(dim) == {symbol}
    computed = []
    apply = dm.apply
    monkeypatch.setattr(dm, "apply", lambda *given: computed.append(given) or apply(*given))
    assert dm.substitute(dim, {symbol: 7}) == size
    assert estimate(dim) > 256
    assert len(computed) == 2 * 24


def test_an_unknown_dim_prints_as_minus_one_and_has_no_value():
    (dim, named) = phix.spec([-1, "n"]).shape
    assert dim == -1 and named == -1 and str(dim) == "-1" and str(named) == "n"
    for ask in (
        int, bool, float, range, lambda d: d < 3, lambda d: d == 3, lambda d: d * 0.5,
        lambda d: 0.5 * d, lambda d: d - 1.5, lambda d: 1.5 - d, lambda d: d + np.float32(1),
        lambda d: d % 2.0, lambda d: d // 2.0, lambda d: 2.0 // d, lambda d: d / 2,
        np.log, np.sqrt, np.isnan, np.float64, lambda d: np.maximum(d, 2), abs,
        lambda d: np.array([1.5, 2.0]) * d, lambda d: divmod(d, 2.0),
    ):  # fmt: skip
        with pytest.raises(UnknownDimError, match="unknown while tracing"):
            ask(dim)


def test_a_dim_divides_and_meets_ints_of_numpy():
    for f in (
        lambda d: divmod(d, 4), lambda d: divmod(17, d), lambda d: (-7 % d, 17 % d),
        lambda d: (np.int64(3) * d, np.add(d, 2), np.multiply.reduce([d, 2])),
    ):  # fmt: skip
        (dim,) = phix.spec(["n"]).shape
        found = [dm.substitute(v, dict.fromkeys(dm.symbols(v), 7)) for v in f(dim)]
        assert found == list(f(7))
    graph = phix.make_graph(lambda x: np.multiply(x.shape[0], x))(phix.spec(["n"]))
    assert graph([1.0, 2.0])[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_a_dim_is_a_number_beside_a_tensor_of_any_kind(dtype):
    def f(x):
        n = x.shape[0]
        return x / n + n * x - (n - 1), n / x, x**n, ops.where(x == n, n, x)

    x = np.array([1, 2, 3], dtype) * (1 + 2j if dtype[0] == "c" else 1)
    for found, wanted in zip(phix.jit(f, input_spec=[phix.spec(["n"], dtype)])(x), f(x)):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    with pytest.raises(UnknownDimError, match="the exponent of pow"):
        phix.make_graph(lambda x: ops.pow(x, x.shape[0]))(phix.spec(["n"], dtype))


NUMBERS_OF_A_SIZE = {
    "a quotient": lambda n: 1 / n, "half": lambda n: n / 2, "a part": lambda n: (n - 1) / n,
    "a root": lambda n: n**-0.5, "a square": lambda n: n**2,
    "a power of a float": lambda n: 0.9**n, "a factor": lambda n: 0.5 * n * 1.5,
    "a difference": lambda n: 1.5 - n, "what is left": lambda n: (n % 2.5, 7.5 % n),
    "whole parts": lambda n: (n // 2.5, 7.5 // n, divmod(n, 1.5)[1]),
    "of NumPy": lambda n: np.sqrt(n) * np.log(n + 1), "complex": lambda n: abs(n * 1j),
    "NumPy's number": lambda n: n * np.float64(0.5), "many factors": lambda n: (n / 9) ** 20,
    "NumPy's before": lambda n: np.float32(0.5) * n,
    "an array": lambda n: (np.array([1.5, 2.0]) * n).sum(),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("f", NUMBERS_OF_A_SIZE.values(), ids=NUMBERS_OF_A_SIZE)
def test_numbers_of_a_size_are_what_python_computes(f: Any, dtype: str) -> None:
    """Beside tensors, as results, under grad, for sizes that are declared or computed."""

    def every(found):
        return found if isinstance(found, tuple) else (found,)

    def beside(x):
        return [v * x for v in every(f(x.shape[0]))]

    def alone(x):
        return every(f(x.shape[0]))

    x = np.arange(1, 6).astype(dtype)
    for g in (beside, alone):
        program = phix.jit(g, input_spec=[phix.spec([-1], dtype)])
        for size in (5, 1, 3):
            given = phix.to_tensor(x[:size])
            for found, wanted in zip(program(given), g(given)):
                expected = phix.to_tensor(wanted)  # of a number alone
                if isinstance(wanted, phix.Tensor):
                    # an int beside ints is an int64, since it may not fit into fewer bits
                    assert found.dtype in (expected.dtype, np.int64)
                np.testing.assert_allclose(found, expected, rtol=3e-6)
    if dtype != "int32":
        total = lambda x: sum(v.sum() for v in beside(ops.reshape(ops.nonzero(x), [-1]) + x[0]))  # noqa: E731
        mask = phix.to_tensor(x)
        np.testing.assert_allclose(
            phix.jit(phix.grad(total))(mask), phix.grad(total)(mask), rtol=3e-6
        )


OF_NUMPY = {"of NumPy", "NumPy's before", "an array"}


@pytest.mark.parametrize("name", NUMBERS_OF_A_SIZE)
def test_numbers_of_a_size_that_varies_are_in_one_program(name: str) -> None:
    """But for those of NumPy's functions."""
    f = NUMBERS_OF_A_SIZE[name]

    def beside(x):
        found = f(x.shape[0])
        return [v * x for v in (found if type(found) is tuple else (found,))]

    program = phix.jit(beside)
    for size in (5, 3, 7, 4, 9):
        x = phix.to_tensor(np.arange(1, size + 1, dtype="float32"))
        for found, wanted in zip(program(x), beside(x)):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=3e-6)
    assert program.trace_count == (5 if name in OF_NUMPY else 2), program.why_retraced()


def test_what_asks_for_the_class_of_a_size_has_a_program_for_each() -> None:
    """A branch that is right for a number would not be taken for what stands for one."""
    asking = {
        "an int": lambda x: x * (2.0 if isinstance(x.shape[0], int) else 3.0),
        "a float": lambda x: x * (2.0 if isinstance(1 / x.shape[0], (float, int)) else 3.0),
        "numbers": lambda x: x * (2.0 if isinstance(x.shape[0] * 0.5 + 1, numbers.Real) else 3.0),
        "kinds": lambda x: x * (2.0 if issubclass((-x.shape[0] / 3).__class__, float) else 3.0),
    }
    for name, f in asking.items():
        program = phix.jit(f)
        for size in (4, 6, 9):
            assert program(np.ones(size)).tolist() == [2.0] * size, name
        assert "isinstance needs its value" in program.why_retraced()


def test_sizes_with_many_digits_are_numbers_among_floats() -> None:
    """Beyond those of an int64, as Python's ints are."""
    n = 100_000
    spec = [phix.spec([-1, 1], "float64")]
    for f in (
        lambda x, n: x / n**4, lambda x, n: x * (1 / n**4), lambda x, n: x * n**5,
        lambda x, n: x * (n * (n + 1) * (n + 2) * (3 * n - 1)) * 0.5,
        lambda x, n: x / (n * 10**15),
    ):  # fmt: skip
        found = phix.jit(lambda x, f=f: f(x, x.shape[0])[:1, 0], input_spec=spec)(np.ones((n, 1)))
        np.testing.assert_allclose(found, [f(1.0, n)], rtol=1e-14)
    for f in (lambda n: 2**n, lambda n: n**n, lambda n: n**17, lambda n: 2**-n):
        with pytest.raises(UnknownDimError, match="write"):
            phix.make_graph(lambda x, f=f: x * f(x.shape[0]))(*spec)
    small = phix.jit(lambda x: x * 2.0 ** x.shape[0], input_spec=spec)
    assert small(np.ones((70, 1)))[0, 0].item() == 2.0**70


def test_a_size_is_a_result() -> None:
    found = phix.jit(lambda x: (x.shape[0], 2 * x.shape[0]), input_spec=[phix.spec([-1])])
    for size in (3, 0):
        assert [v.item() for v in found(np.ones(size, "f"))] == [size, 2 * size]
    assert phix.jit(lambda x: x.shape[0])(np.ones(3)).item() == 3


def test_a_dim_may_be_used_in_shapes_and_arithmetic():
    def f(x):
        n, k = x.shape
        return ops.reshape(x, [n * k]) * 1.0, ops.full([n + 1], 2.0)

    graph = phix.make_graph(f)(phix.spec(["n", 3]))
    assert [str(a.meta) for a in graph.outputs] == ["float32[3*n]", "float32[n+1]"]
    run = phix.jit(f, input_spec=[phix.spec(["n", 3])])
    for n in (0, 1, 5):
        flat, ones = run(np.ones((n, 3), "f"))
        assert flat.shape == (3 * n,) and ones.shape == (n + 1,)


def test_broadcast_with_an_unknown_dim_that_turns_out_to_be_one():
    f = phix.jit(lambda x, y: x + y, input_spec=[phix.spec(["n"]), phix.spec(["m"])])
    for n, m in [(1, 4), (4, 1), (4, 4), (1, 1)]:
        x, y = np.arange(n, dtype="f"), np.arange(m, dtype="f")
        np.testing.assert_array_equal(f(x, y), x + y)
    with pytest.raises(ShapeError, match="broadcast"):
        f(np.ones(2, "f"), np.ones(3, "f"))


# -- which graphs are equal ------------------------------------------------------------------------
def test_unknown_dims_that_print_alike_make_other_graphs() -> None:
    def added(*metas: Any) -> Any:
        return phix.make_graph(lambda x, y: x + y)(*metas)

    s, t = phix.spec([-1]), phix.spec([-1])
    one, two, again = added(s, s), added(s, t), added(t, t)
    assert str(one) == str(two) == str(again)
    assert one == again and hash(one) == hash(again)
    assert one != two
    named = added(phix.spec(["n"]), phix.spec(["n"]))
    assert named == one and named != two
    x, y = np.ones(3, "f"), np.ones(1, "f")
    np.testing.assert_array_equal(ops.call([x, y], two)[0], [2, 2, 2])
    with pytest.raises(phix.errors.ShapeError):  # and runs no plan of the other's
        ops.call([x, y], one)


def test_names_lines_and_the_order_of_symbols_do_not_tell_graphs_apart() -> None:
    m, n = phix.spec([-1, 3]), phix.spec([-1, 3])
    one = phix.make_graph(lambda x, y: ops.concat([ops.tanh(x), y], 0))(m, n)
    two = phix.make_graph(lambda left, right: ops.concat([ops.tanh(left), right], 0))(n, m)
    assert one == two and hash(one) == hash(two)


def test_graphs_over_other_constants_objects_or_kinds_of_numbers_differ() -> None:
    a, b = phix.to_tensor([1.0, 2.0]), phix.to_tensor([1.0, 2.0])
    x = phix.spec([2])

    def called(function: Any) -> Any:
        return phix.make_graph(lambda x: phix.pure_callback(function, phix.spec([2]), x))(x)

    graphs = [
        *(phix.make_graph(lambda x, c=c: x + c)(x) for c in (a, b, 0.0, -0.0)),
        *(phix.make_graph(lambda x, s=s: ops.scale(x, s))(x) for s in (0.0, -0.0)),
        called(np.sin), called(np.cos),
    ]  # fmt: skip
    assert len(set(graphs)) == len(graphs)
    assert called(np.sin) == called(np.sin)
    nan = [phix.make_graph(lambda x: x + float("nan"))(x) for _ in range(2)]
    assert nan[0] == nan[1]


def test_branches_that_differ_in_an_outer_dim_are_two() -> None:
    """The dims of the graph around stand in the branches alone: nothing else tells them apart."""

    def f(x: Any, y: Any) -> Any:
        def sized(n: Any) -> Any:
            return phix.cond(ops.sum(x) > 0, lambda: ops.full([n], 1.0), lambda: ops.full([n], 2.0))

        return sized(x.shape[0]), sized(y.shape[0])

    g = phix.jit(f, input_spec=[phix.spec([-1]), phix.spec([-1])])
    assert [o.shape for o in g(np.ones(3, "f"), np.ones(5, "f"))] == [(3,), (5,)]


# -- decomposed for a target ---------------------------------------------------------------------
def _ops_of(graph: phix.Graph) -> list[str]:
    return [e.op.name for e in graph.equations]


def test_decompose_keeps_what_is_named() -> None:
    def f(x: phix.Tensor) -> phix.Tensor:
        return ops.silu(ops.softmax(x))

    x = phix.spec([3])
    *parts, last = _ops_of(phix.decompose(f, keep="silu")(x))
    assert last == "silu" and not {"softmax", "sigmoid"} & {*parts}
    assert _ops_of(phix.decompose(f, keep={"softmax", "silu"})(x)) == ["softmax", "silu"]


def test_decompose_to_the_ops_of_a_target() -> None:
    """Composites of the target stay, within graphs inside too, and what is marked is opened."""

    def f(x: phix.Tensor) -> phix.Tensor:
        marked = phix.stop_gradient(ops.silu(x))
        return phix.fori_loop(0, 2, lambda i, v: ops.square(v) + ops.silu(v), marked)

    graph = phix.decompose(f, to=["silu", "multiply", "add", "fori_loop"])(phix.spec([3]))
    assert _ops_of(graph) == ["silu", "fori_loop"]
    (body,) = [e.attrs[0] for e in graph.equations if e.op.name == "fori_loop"]
    assert _ops_of(body) == ["multiply", "silu", "add"]
    x = np.array([0.5, -1.0, 2.0], np.float32)
    np.testing.assert_allclose(graph(x)[0].numpy(), f(phix.to_tensor(x)).numpy(), rtol=1e-6)


def test_what_a_target_lacks_is_listed() -> None:
    def f(x: phix.Tensor) -> phix.Tensor:
        return phix.fori_loop(0, 2, lambda i, v: ops.cumsum(v), ops.tanh(x))

    with pytest.raises(phix.errors.GraphError, match=r"other ops: arange, cumsum, scan, tanh;"):
        phix.decompose(f, to=["multiply"])(phix.spec([3]))
    with pytest.raises(phix.errors.UnknownOpError, match="silly"):
        phix.decompose(f, to=["silly"])
