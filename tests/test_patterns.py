"""Patterns in graphs, and attention recognised in the ways it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
import phix.nn.functional as F
from harness.references.attention import attention
from phix import ops
from phix.core import patterns
from phix.core.patterns import Finder, Match, call, either, number
from phix.core.rules import OPS
from phix.passes.recognise import recognise, report
from toy_device import Toy, toy

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(3)


def spec(*dims: Any, dtype: str = "float32") -> Any:
    return phix.spec(dims, dtype)


def normal(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype("float32")


# -- the matcher -----------------------------------------------------------------------------
@pytest.fixture
def known() -> Iterator[dict[str, Any]]:
    """The table of patterns, put back afterwards."""
    before = dict(patterns.known())
    names = set(patterns.rewrites.known())
    patterns.known().clear()
    yield patterns.known()
    patterns.known().clear()
    patterns.known().update(before)
    for name in set(patterns.rewrites.known()) - names:
        del patterns.rewrites.known()[name]


def multiply_add() -> patterns.Pattern:
    @patterns.pattern("multiply_add", "x * y + z, of one dtype", gives="addcmul")
    def found(x: Any, y: Any, z: Any) -> Any:
        return call.add(call.multiply(x, y), z)

    return found


def reasons(function: Any, *specs: Any) -> list[str]:
    graph = phix.make_graph(function)(*specs)
    return [line.partition(", in ")[0] for line in report(graph)]


def test_inputs_of_commutative_ops_stand_in_any_order(known: Any) -> None:
    multiply_add()
    x = spec(3)
    for f in (
        lambda x, y, z: x * y + z,
        lambda x, y, z: z + y * x,
        lambda x, y, z: ops.exp(z) + ops.tanh(x) * y,
    ):
        assert reasons(f, x, x, x) == ["multiply_add is there"]
    assert reasons(lambda x, y: ops.sin(x) + y, x, x) == []
    assert "commutative" not in OPS["subtract"].traits


def test_what_is_used_elsewhere_stays(known: Any) -> None:
    multiply_add()

    def f(x: Any, y: Any) -> Any:
        product = x * y
        return product + x, product

    assert reasons(f, spec(3), spec(3)) == [
        "multiply_add is not there: a of multiply is used elsewhere"
    ]


def test_one_name_is_one_value(known: Any) -> None:
    @patterns.pattern("square_plus", "x * x + x", gives="square")
    def found(x: Any) -> Any:
        return call.add(call.multiply(x, x), x)

    assert reasons(lambda x: x * x + x, spec(3)) == ["square_plus is there"]
    (line,) = reasons(lambda x, y: x * y + x, spec(3), spec(3)) or ["none"]
    assert line == "none" or line.startswith("square_plus is not there")


def test_a_dtype_that_is_given_is_none_that_is_not(known: Any) -> None:
    """To NumPy float64 equals None, and a sum in float64 is not one in the dtype of its operand."""

    @patterns.pattern("total", "the sum of exp(x)", gives="logsumexp")
    def total(x: Any) -> Any:
        return call.sum(call.exp(x), axis=patterns.attribute("axis"))

    x = spec(3)
    for dtype in ("float64", "complex64"):
        assert reasons(lambda x, dtype=dtype: ops.sum(ops.exp(x), dtype=dtype), x) == []


def test_attributes_conditions_and_numbers(known: Any) -> None:
    @patterns.pattern("rows", "sum(x * n, -1)", gives="sum")
    def rows(x: Any) -> Any:
        inner = either(call.multiply(x, number("factor")), call.exp(x))
        return call.sum(inner, axis=patterns.attribute("axis"), dtype=patterns.attribute(""))

    @rows.where("the sum is over the last axis")
    def _(m: Match) -> bool:
        return bool(m.axis == (m.x.meta.ndim - 1,))

    x = spec(2, 3)
    assert reasons(lambda x: ops.sum(x * 2.0, -1), x) == ["rows is there"]
    assert reasons(lambda x: ops.sum(ops.exp(x), -1), x) == ["rows is there"]
    assert reasons(lambda x: ops.sum(x * 2.0, 0), x) == [
        "rows is not there: it does not hold that the sum is over the last axis"
    ]
    assert reasons(lambda x: ops.sum(x * 2.0, -1, keepdim=True), x) == [
        "rows is not there: keepdim of sum is True, not False"
    ] or not reasons(lambda x: ops.sum(x * 2.0, -1, keepdim=True), x)
    graph = phix.make_graph(lambda x: ops.sum(x * 2.0, -1))(x)
    match = Finder(graph).find(rows, graph.equations[-1])
    assert isinstance(match, Match)
    assert (match.factor, match.axis, match.x.name, match.nothing) == (2.0, (1,), "x", None)


def test_replacement_goes_into_loops_and_keeps_lines(known: Any) -> None:
    @patterns.pattern("sigmoid", "1 / (1 + exp(-x)) is sigmoid(x)", gives="sigmoid")
    def sigmoid(x: Any) -> Any:
        return call.divide(
            number("one"), call.add(number("one"), call.exp(call.scale(x, scale=-1)))
        )

    @sigmoid.becomes
    def _(m: Match) -> Any:
        return ops.sigmoid(m.x)

    def f(x: Any) -> Any:
        return phix.scan(lambda c, r: (1.0 / (1.0 + ops.exp(-(c + r))), None), x[0], x)[0]

    graph = phix.make_graph(f)(spec(4, 3))
    found = recognise(graph, lambda op: True)
    phix.check_graph(found)
    assert "sigmoid(" in str(found) and "exp(" not in str(found)
    x = normal(4, 3)
    np.testing.assert_allclose(found(x)[0], graph(x)[0], rtol=1e-6)
    assert recognise(graph, lambda op: False) is graph
    (loop,) = [e for e in found.equations if e.op.has_graphs]
    made = [e for e in loop.attrs[0].equations if e.op is OPS["sigmoid"]]
    assert made[0].source is not None and made[0].source.file.endswith("test_patterns.py")


# -- attention ---------------------------------------------------------------------------------
Q, K, V = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 2)
SEEN = RNG.random((5, 6)) > 0.3
SEEN[:, 0] = True
BIAS = normal(5, 6)
TRIANGLE = np.tri(5, 6, dtype=bool)


def swapped(k: Any) -> Any:
    return ops.transpose(k, [0, 1, 3, 2])


def triangle(q: Any, k: Any) -> Any:
    rows, columns = q.shape[-2], k.shape[-2]
    return ops.reshape(phix.arange(rows), [rows, 1]) >= phix.arange(columns)


def soft(s: Any) -> Any:
    return ops.softmax(s, -1)


FORMS: dict[str, tuple[Any, Any, float, bool]] = {
    "plain": (lambda q, k, v: soft(q @ swapped(k)) @ v, None, 1.0, False),
    "transposed": (lambda q, k, v: soft(ops.matmul(q, k, False, True)) @ v, None, 1.0, False),
    "scaled scores": (lambda q, k, v: soft(q @ swapped(k) * 0.5) @ v, None, 0.5, False),
    "factor in front": (lambda q, k, v: soft(0.5 * (q @ swapped(k))) @ v, None, 0.5, False),
    "divided": (lambda q, k, v: soft(q @ swapped(k) / 2.0) @ v, None, 0.5, False),
    "scaled query": (lambda q, k, v: soft((q * 0.5) @ swapped(k)) @ v, None, 0.5, False),
    "scale": (lambda q, k, v: soft(ops.scale(q @ swapped(k), 0.25)) @ v, None, 0.25, False),
    "both": (lambda q, k, v: soft((q / 4.0) @ swapped(k) * 2.0) @ v, None, 0.5, False),
    "mask": (lambda q, k, v: soft(ops.where(SEEN, q @ swapped(k), -np.inf)) @ v, SEEN, 1.0, False),
    "hidden": (
        lambda q, k, v: soft(ops.where(~SEEN, -np.inf, q @ swapped(k) * 0.5)) @ v,
        SEEN, 0.5, False,
    ),
    "large negative": (
        lambda q, k, v: soft(ops.where(SEEN, q @ swapped(k), -1e9)) @ v, SEEN, 1.0, False,
    ),
    "bias": (lambda q, k, v: soft(q @ swapped(k) * 0.5 + BIAS) @ v, BIAS, 0.5, False),
    "bias in front": (lambda q, k, v: soft(BIAS + q @ swapped(k)) @ v, BIAS, 1.0, False),
    "causal": (
        lambda q, k, v: soft(ops.where(triangle(q, k), q @ swapped(k), -np.inf)) @ v,
        None, 1.0, True,
    ),
    "causal, large negative": (
        lambda q, k, v: soft(ops.where(triangle(q, k), q @ swapped(k) / 2.0, -1e30)) @ v,
        None, 0.5, True,
    ),
    "causal with bias": (
        lambda q, k, v: soft(ops.where(triangle(q, k), q @ swapped(k) + BIAS, -np.inf)) @ v,
        BIAS, 1.0, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_attention_in_the_ways_it_is_written(name: str) -> None:
    function, mask, scale, causal = FORMS[name]
    graph = phix.make_graph(function)(*(spec(*a.shape) for a in (Q, K, V)))
    found = recognise(graph, lambda op: True)
    phix.check_graph(found)
    (made,) = [e for e in found.equations if e.op is OPS["attention"]]
    assert (made.attrs[0], made.attrs[1]) == (scale, causal)
    assert "softmax" not in str(found)
    wide = [np.asarray(a, "float64") for a in (Q, K, V)]
    wanted = attention(*wide, mask, scale, causal)
    np.testing.assert_allclose(found(Q, K, V)[0], wanted, rtol=2e-5, atol=1e-6)


# -- with derivatives --------------------------------------------------------------------------
def counted(graph: Any) -> dict[str, int]:
    """How often the ops of interest are in a graph."""
    names = [e.op.name for e in graph.equations]
    return {n: names.count(n) for n in ("attention", "attention_grad", "softmax") if n in names}


def sine(function: Any, wanted: Any = (0, 1, 2)) -> Any:
    """The value of a function of attention, and its gradients."""

    def loss(*args: Any) -> Any:
        return ops.sum(ops.sin(function(*args)))

    return lambda *args: phix.tree.leaves(phix.value_and_grad(loss, wanted)(*args))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("wanted", [(0, 1, 2), (0,), (1,), (2,)], ids=str)
def test_attention_and_its_gradients_in_the_ways_it_is_written(name: str, wanted: Any) -> None:
    function = sine(FORMS[name][0], wanted)
    graph = phix.make_graph(function)(*(spec(*a.shape) for a in (Q, K, V)))
    found = recognise(graph, lambda op: True)
    phix.check_graph(found)
    assert counted(found) == {"attention": 1, "attention_grad": 1}
    assert any(line.startswith("attention is there with its derivative") for line in report(graph))
    for got, want in zip(found(Q, K, V), graph(Q, K, V), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_gradients_of_dims_unknown_and_to_a_bias() -> None:
    function = sine(
        lambda q, k, v, b: soft(ops.matmul(q, k, False, True) * 0.5 + b) @ v, (0, 1, 2, 3)
    )
    specs = [spec("b", "q", 6), spec("b", "k", 6), spec("b", "k", 4), spec("k")]
    graph = phix.make_graph(function)(*specs)
    found = recognise(graph, lambda op: True)
    assert counted(found) == {"attention": 1, "attention_grad": 1}
    given = normal(2, 3, 6), normal(2, 5, 6), normal(2, 5, 4), normal(5)
    for got, want in zip(found(*given), graph(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_several_attentions_and_one_of_a_tensor_with_itself() -> None:
    def layers(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = x + soft(ops.matmul(x, x, False, True) * 0.3) @ (x @ w)
        return x

    x, w = normal(2, 5, 4), normal(4, 4)
    graph = phix.make_graph(sine(layers, (0, 1)))(spec(*x.shape), spec(*w.shape))
    found = recognise(graph, lambda op: True)
    assert counted(found) == {"attention": 3, "attention_grad": 3}
    for got, want in zip(found(x, w), graph(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-4)


def test_gradients_in_low_precision() -> None:
    function = phix.autocast(lambda q, k, v: soft(ops.matmul(q, k, False, True) * 0.5) @ v)
    graph = phix.make_graph(sine(function))(*(spec(*a.shape) for a in (Q, K, V)))
    found = recognise(graph, lambda op: True)
    assert counted(found) == {"attention": 1, "attention_grad": 1}
    for got, want in zip(found(Q, K, V), graph(Q, K, V), strict=True):
        np.testing.assert_allclose(got, want, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: soft(q @ swapped(k)) @ v + ops.sum(soft(q @ swapped(k))),
        lambda q, k, v: ops.sum(soft(q @ swapped(k)) ** 2) * (soft(q @ swapped(k)) @ v),
    ],
)
def test_weights_that_more_than_the_derivative_reads_stay(function: Any) -> None:
    graph = phix.make_graph(sine(function))(*(spec(*a.shape) for a in (Q, K, V)))
    before = str(graph)
    found = recognise(graph, lambda op: True)
    assert "softmax" in counted(found) and "attention_grad" not in counted(found)
    assert not any("is there" in line for line in report(graph))
    assert str(graph) == before
    for got, want in zip(found(Q, K, V), graph(Q, K, V), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (0, None, None, None), (None, 1, 0, None),
                                  (None, None, None, 0)], ids=str)  # fmt: skip
def test_gradients_of_a_batch_against_a_loop(axes: Any) -> None:
    shapes = ((4, 3), (5, 3), (2, 5, 2), (4, 5))
    lanes = 3
    arrays = [
        normal(*s) if a is None else normal(*s[:a], lanes, *s[a:]) for s, a in zip(shapes, axes)
    ]  # fmt: skip

    def gradients(*args: Any) -> Any:
        return phix.grad(lambda *a: ops.sum(ops.sin(ops.attention(*a, 0.5, False))),
                         (0, 1, 2, 3))(*args)  # fmt: skip

    found = phix.vmap(gradients, axes)(*arrays)
    text = str(phix.make_graph(phix.vmap(gradients, axes))(*arrays))
    assert text.count("attention_grad(") == 1 and "softmax" not in text
    for lane in range(lanes):
        one = [x if a is None else np.take(x, lane, a) for x, a in zip(arrays, axes)]
        for f, w in zip(found, gradients(*one), strict=True):
            np.testing.assert_allclose(f[lane], w, rtol=2e-4, atol=1e-6)


def test_a_batch_of_gradients_written_out() -> None:
    gradients = phix.vmap(sine(lambda q, k, v: soft(ops.matmul(q, k, False, True) * 0.5) @ v))
    graph = phix.make_graph(gradients)(*(spec(*a.shape) for a in (Q, K, V)))
    found = recognise(graph, lambda op: True)
    assert counted(found) == {"attention": 1, "attention_grad": 1}
    for got, want in zip(found(Q, K, V), graph(Q, K, V), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def test_without_a_kernel_for_the_gradient_nothing_is_replaced() -> None:
    graph = phix.make_graph(sine(FORMS["plain"][0]))(*(spec(*a.shape) for a in (Q, K, V)))
    assert counted(recognise(graph, lambda op: op.name == "attention")) == {"softmax": 1}


def test_the_library_s_own_attention_is_recognised() -> None:
    q = normal(2, 5, 3, 4)
    for options in ({}, {"is_causal": True}, {"attn_mask": np.tri(5, dtype=bool)}):
        function = lambda q, k, v, options=options: (  # noqa: E731
            F.scaled_dot_product_attention(q, k, v, **options)
        )
        graph = phix.make_graph(function)(*[spec(2, 5, 3, 4)] * 3)
        found = recognise(graph, lambda op: True)
        assert [e.op.name for e in found.equations].count("attention") == 1
        np.testing.assert_allclose(found(q, q, q)[0], graph(q, q, q)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fill", [-1e9, -3e38])
def test_rows_that_are_masked_whole(dtype: str, fill: float) -> None:
    """All keys count alike there, whatever their scores are, which then have no slope."""
    seen = np.array([[True, False, True], [False, False, False], [True, True, True]])
    forms = (
        lambda s: ops.where(seen, s, fill),
        lambda s: ops.where(~seen, fill, s),
        lambda s: ops.where(seen[1:2], s, fill),
        lambda s: ops.where(seen[0], s, fill),
    )
    given = [normal(1, 2, 3, 4).astype(dtype) for _ in range(3)]
    for form in forms:
        f = lambda q, k, v, form=form: soft(form(q @ swapped(k))) @ v  # noqa: E731
        slopes = phix.grad(lambda *x, f=f: ops.sum(ops.sin(f(*x))), argnums=(0, 1, 2))
        for function in (f, slopes):
            graph = phix.make_graph(function)(*[phix.spec([1, 2, 3, 4], dtype)] * 3)
            found = recognise(graph, lambda op: True)
            assert "attention(" in str(found)
            for a, b in zip(found(*given), graph(*given), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_low_precision_around_a_softmax_in_float32() -> None:
    f = phix.autocast(lambda q, k, v: soft(ops.matmul(q, k, False, True) * 0.5) @ v)
    graph = phix.make_graph(f)(*(spec(*a.shape) for a in (Q, K, V)))
    found = recognise(graph, lambda op: True)
    (made,) = [e for e in found.equations if e.op is OPS["attention"]]
    assert {str(a.meta.dtype) for a in made.inputs if a is not None} == {"bfloat16"}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda q, k, v: ops.softmax(q @ swapped(k), 2) @ v, "the softmax is over the keys"),
        (lambda q, k, v: soft(q @ ops.reshape(k, [2, 3, 4, 6])) @ v, "reshape, not of transpose"),
        (lambda q, k, v: soft(ops.where(SEEN, q @ swapped(k), -5.0)) @ v, "a masked score is noth"),
        (
            lambda q, k, v: soft(ops.where(SEEN, q @ swapped(k) + BIAS, -np.inf)) @ v,
            "numbers to add stand beside a causal mask at most",
        ),
        (  # where what is added leaves only keys that are masked, their scores count
            lambda q, k, v: soft(ops.where(triangle(q, k), q @ swapped(k), -1e9) + BIAS) @ v,
            "numbers to add stand beside a mask of -inf alone",
        ),
        (
            lambda q, k, v: soft(q[0, 0] @ k[0, 0].T + normal(7, 5, 6)) @ v[0, 0],
            "the mask has no more axes or rows than the scores",
        ),
    ],
)  # fmt: skip
def test_what_is_no_attention_says_why(function: Any, why: str) -> None:
    graph = phix.make_graph(function)(*(spec(*a.shape) for a in (Q, K, V)))
    assert "attention" not in str(recognise(graph, lambda op: True))
    lines = [line for line in report(graph) if line.startswith("attention is not there")]
    assert any(why in line for line in lines), lines


def test_weights_that_are_wanted_too_are_computed() -> None:
    def f(q: Any, k: Any, v: Any) -> Any:
        weights = soft(q @ swapped(k))
        return weights @ v, weights

    graph = phix.make_graph(f)(*(spec(*a.shape) for a in (Q, K, V)))
    assert "softmax is used elsewhere" in "".join(report(graph))
    assert "attention" not in str(recognise(graph, lambda op: True))


# -- kernels of composites -------------------------------------------------------------------------
@pytest.fixture
def device() -> Iterator[Toy]:
    """A device with a kernel for attention in float32."""
    with toy("toy") as made:
        phix.kernels.register_kernel("attention", "TOY", dtypes="float32")(made.kernel("attention"))
        yield made


def on(*arrays: Any) -> Any:
    return [phix.to_tensor(a, place="toy") for a in arrays]


def test_a_device_runs_its_kernel_for_what_is_recognised(device: Toy) -> None:
    function, mask, scale, causal = FORMS["causal with bias"]
    f = phix.jit(function)
    wide = [np.asarray(a, "float64") for a in (Q, K, V)]
    np.testing.assert_allclose(
        f(*on(Q, K, V)), attention(*wide, mask, scale, causal), rtol=2e-5, atol=1e-6
    )
    given = on(Q, K, V)
    assert device.counted(lambda: f(*given)) == {"attention": 1}
    assert "attention(" in f.lower(*given).as_text("recognise")
    off = phix.jit(function, disable="attention")
    assert device.counted(lambda: off(*given))["attention"] == 0


def test_a_composite_without_a_kernel_in_the_dtype_is_decomposed(device: Toy) -> None:
    function, mask, scale, causal = FORMS["bias"]
    given = on(*(a.astype("float64") for a in (Q, K, V)))
    counts = device.counted(lambda: phix.jit(function)(*given))
    assert (counts["attention"], counts["matmul"]) == (0, 2)
    half = on(*(a.astype("float16") for a in (Q, K, V)))  # in the wider dtype
    counts = device.counted(lambda: phix.jit(lambda q, k, v: ops.attention(q, k, v))(*half))
    assert counts == {"attention": 1, "cast": 4}
    assert mask is BIAS and not causal and scale


def test_gradients_of_attention_on_a_device(device: Toy) -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return ops.sum(ops.attention(q, k, v, None, 0.5, True) ** 2)

    found = phix.jit(phix.grad(loss, argnums=(0, 1, 2)))(*on(Q, K, V))
    wanted = phix.grad(loss, argnums=(0, 1, 2))(*map(phix.to_tensor, (Q, K, V)))
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    eager = ops.attention(*on(Q, K, V), None, 0.5, True)
    np.testing.assert_allclose(eager, ops.attention(Q, K, V, None, 0.5, True), rtol=1e-5, atol=1e-6)
    assert device.counted(lambda: ops.attention(*on(Q, K, V), None, 0.5, True))["attention"] == 1


def test_patterns_speak_of_ops_and_attributes_that_are_there() -> None:
    def calls(node: Any) -> Iterator[Any]:
        yield from (c for part in getattr(node, "forms", ()) for c in calls(part))
        if hasattr(node, "op_name"):
            yield node
            yield from (c for part in node.inputs for c in calls(part))

    found = [c for p in patterns.known().values() for c in calls(p.form)]
    assert {"matmul", "softmax", "where"} <= {c.op_name for c in found}
    for each in found:
        op = OPS[each.op_name]
        assert len(each.inputs) == len(op.inputs) and set(each.attrs) <= set(op.attr_names)
    assert {p.gives for p in patterns.known().values()} <= OPS.keys()
