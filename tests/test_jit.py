"""jit: traces, programs, arguments, what it shows, errors of tracing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import (
    ArgumentError,
    ConcretizationError,
    LeakedTracerError,
    ShapeError,
)
from phix.kernels.cpu.native_program import NativeProgram

pytestmark = pytest.mark.unoptimised


def test_twenty_batch_sizes_make_one_trace_and_one_program():
    calls = []

    def f(x, w):
        calls.append(1)
        return ops.softmax(ops.tanh(ops.matmul(x, w)))

    jitted = phix.jit(f, input_spec=[phix.spec(["n", 6]), phix.spec([6, 3])])
    w = np.random.default_rng(0).normal(size=(6, 3)).astype("f")
    for n in range(1, 21):
        x = np.random.default_rng(n).normal(size=(n, 6)).astype("f")
        e = np.exp(np.tanh(x @ w))
        np.testing.assert_allclose(jitted(x, w), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert len(calls) == jitted.trace_count == 1
    (traced,) = {known.traced for known in jitted._known.values()}
    assert [len(built.programs) for built in traced.compiled.known.values()] == [1]


def test_one_trace_for_each_kind_of_arguments():
    jitted = phix.jit(lambda x: x * 2)
    for x in (np.ones(2, "f"), np.zeros(2, "f"), np.ones(3, "f"), np.ones(3), 1.0, 2.0, 1):
        np.testing.assert_array_equal(jitted(x), np.asarray(x) * 2)
    assert jitted.trace_count == 5


def test_static_arguments_by_place_and_name():
    @phix.jit(static_argnames="power")
    def f(x, power, *, scale=1.0):
        return x**power * scale

    assert f(2.0, 3).item() == f(2.0, power=3).item() == 8.0
    assert f(2.0, 2, scale=10.0).item() == 40.0
    g = phix.jit(lambda x, mode: x + 1 if mode else x, static_argnums=1)
    assert g(1.0, True).item() == 2.0 and g(1.0, False).item() == 1.0
    with pytest.raises(ArgumentError, match="must be hashable"):
        g(1.0, [])
    with pytest.raises(ArgumentError, match="static_argnames names"):
        phix.jit(lambda x: x, static_argnames="y")


def test_trees_in_and_out():
    f = phix.jit(lambda p, xs: {"out": (p["w"] * xs[0], xs[1])})
    out = f({"w": 2.0}, [np.ones(2, "f"), np.float32(3)])
    np.testing.assert_array_equal(out["out"][0], [2, 2])
    assert out["out"][1].item() == 3


def test_strided_arguments():
    x = np.arange(24, dtype="f").reshape(4, 6)
    f = phix.jit(lambda x: ops.sum(x * x, [0]))
    for view in (x, x.T, x[::2], x[:, ::-1], x[1:, 2:4], np.broadcast_to(x[0], (3, 6))):
        np.testing.assert_allclose(f(view), np.sum(view * view, axis=0), rtol=1e-6)


def test_an_input_or_constant_that_is_an_output():
    x, c = np.arange(3, dtype="f"), phix.to_tensor([7.0])
    a, b, d = phix.jit(lambda x: (x, x, c))(x)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, x)
    assert d.item() == 7
    x[:] = 0
    assert a.numpy()[1] == 1  # results do not share the caller's memory


def test_lower_shows_every_step():
    text = str(phix.jit(lambda x: ops.softmax(x)).lower(phix.spec(["n", 4])))
    for part in ("=== graph: traced ===", "softmax(x, axis=1)", "=== graph: decompose ===",
                 "=== loop ir ===", "=== llvm ==="):  # fmt: skip
        assert part in text


def test_a_jitted_function_inside_another():
    inner = phix.jit(lambda x: ops.sin(x) * 2)
    outer = phix.jit(lambda x: inner(x) + inner(x))
    assert outer(np.float64(0.5)).item() == pytest.approx(4 * np.sin(0.5), rel=1e-15)


def test_closing_over_a_tracer_of_a_transformation_around_it():
    def f(x):
        return phix.jit(lambda y: y * x)(x)

    assert phix.grad(f)(3.0).item() == 6.0


def test_methods_can_be_jitted():
    class Model:
        scale = 3.0

        @phix.jit(static_argnums=0)
        def __call__(self, x):
            return x * self.scale

    assert Model()(2.0).item() == 6.0


@pytest.mark.parametrize("dims", [(3, 2), (-1, 2), (6,), (2, 1, 3)])
def test_a_reshaped_tensor_sorted(dims):
    """The sort is a host step: it reads its input in the dims it has there."""
    x = np.random.default_rng(0).normal(size=(2, 6))

    def f(x):
        y = ops.reshape(ops.tanh(ops.matmul(x, np.eye(6))), (x.shape[0], *dims))
        return ops.sort(y, -1), ops.argsort(y, -1, True)[1]

    expected = np.tanh(x).reshape(2, *dims)
    for run in (phix.jit(f), phix.jit(f, input_spec=[phix.spec(["n", 6], "float64")])):
        found, indices = run(x)
        np.testing.assert_allclose(found, np.sort(expected, -1), rtol=1e-12)
        picked = np.take_along_axis(expected, indices.numpy(), -1)
        np.testing.assert_allclose(picked, np.sort(expected, -1)[..., ::-1], rtol=1e-12)
    mapped = phix.jit(phix.vmap(lambda x: ops.sort(ops.reshape(x.at[0].add(1.0), dims), -1)))
    np.testing.assert_allclose(
        mapped(x), np.sort((x + np.eye(6)[0]).reshape(2, *dims), -1), rtol=1e-12
    )


# -- errors of tracing --------------------------------------------------------------------------
def test_a_tracer_in_a_python_if():
    def f(x):
        return x if x > 0 else -x

    with pytest.raises(ConcretizationError) as error:
        phix.jit(f)(1.0)
    message = str(error.value)
    assert "a truth value" in message and "where" in message and "bool[]" in message
    assert f"{__file__}:" in message


@pytest.mark.parametrize("ask", [float, int, lambda x: x.numpy(), lambda x: x.tolist()])
def test_the_value_of_a_tracer(ask):
    with pytest.raises(ConcretizationError, match="traced by make_graph"):
        phix.jit(ask)(1.0)


def test_a_leaked_tracer_is_named_with_the_line_that_made_it():
    kept = []

    def f(x):
        kept.append(ops.sin(x))
        return x

    phix.jit(f)(1.0)
    with pytest.raises(LeakedTracerError, match=rf"make_graph.*{__file__}:\d+"):
        ops.cos(kept[0])
    phix.grad(f)(1.0)
    with pytest.raises(LeakedTracerError, match="vjp"):
        kept[1] + 1.0


def test_shape_errors_name_op_metas_and_line():
    with pytest.raises(ShapeError) as error:
        phix.jit(lambda x: ops.matmul(x, np.ones((5, 2), "f")))(np.ones((3, 4), "f"))
    message = str(error.value)
    assert message.startswith("matmul(x: float32[3, 4], y: float32[5, 2]) (at ")
    assert f"{__file__}:" in message and "transpose one of the inputs" in message


def test_an_unknown_dim_is_a_number_among_tensors():
    spec = phix.spec(["n", 2], "float32")
    mean = phix.jit(lambda x: ops.sum(x) / x.size, input_spec=[spec])
    other = phix.jit(lambda x: (x.shape[0] - x, 1 / ops.add(x.shape[0], 1)), input_spec=[spec])
    slope = phix.jit(phix.grad(lambda x: ops.sum(x * x) / x.shape[0]), input_spec=[spec])
    for n in (1, 3):
        x = np.arange(2.0 * n, dtype="f").reshape(n, 2)
        assert mean(x).item() == x.mean() and mean(x).dtype == np.float32
        np.testing.assert_array_equal(other(x)[0], n - x)
        assert other(x)[1].item() == np.float32(1 / (n + 1))
        np.testing.assert_allclose(slope(x), 2 * x / n, rtol=1e-6)


def test_input_spec_must_fit():
    f = phix.jit(lambda x: x, input_spec=[phix.spec(["n", 3])])
    with pytest.raises(ShapeError, match=r"declared float32\[n, 3\]"):
        f(np.ones((2, 4), "f"))
    with pytest.raises(ArgumentError, match="input_spec declares 1 arguments, found 2"):
        f(np.ones((2, 3), "f"), np.ones(3, "f"))
    trees = {"a": phix.ones([2]), "b": (phix.ones([2]),) * 40}
    with pytest.raises(ArgumentError, match=r"\* for argument 0, which is .*41 tensors") as refused:
        f(trees)
    assert len(str(refused.value)) < 300 and refused.value.__context__ is None


def test_an_argument_without_input_spec_is_as_it_is_given():
    scaled = phix.jit(lambda w, x: w["scale"] * x, input_spec=[None, phix.spec(["n"])])
    for size, traces in ((1, 1), (2, 1), (3, 1)):
        assert scaled({"scale": phix.full([1], 2.0)}, np.ones(size, "f")).tolist() == [2.0] * size
        assert scaled.trace_count == traces
    assert scaled({"scale": phix.full([], 3.0, "float64")}, np.ones(2, "f")).dtype == "float64"
    assert scaled({"scale": phix.full([1], 4.0)}, np.ones(4, "f")).tolist() == [4.0] * 4
    assert scaled.trace_count == 2
    named = phix.jit(lambda x, y: x + y.sum(), input_spec=[phix.spec(["n"])])
    assert [named(np.zeros(2, "f"), y=np.ones(n, "f")).tolist()[0] for n in (1, 3)] == [1.0, 3.0]


def test_buffers_of_a_size_but_not_of_a_shape_are_not_exchanged():
    """Slices of a buffer, and steps in Python, go by its dims."""
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype("f")

    def rows(x):
        return ops.reshape(phix.scan(lambda c, r: (c + r, c + r), x[0] * 0.0, x)[1], [-1])

    for spec in (["n", 3, 5], [4, 3, 5]):
        found = phix.jit(rows, input_spec=[phix.spec(spec)])(x)
        np.testing.assert_allclose(found, np.cumsum(x, 0).reshape(-1), rtol=1e-5)
        found = phix.jit(
            lambda x: ops.unsqueeze(ops.sort(x, 1), [1]), input_spec=[phix.spec(spec)]
        )(x)
        np.testing.assert_array_equal(found, np.sort(x, 1)[:, None])


@pytest.mark.parametrize("size", [3, "n"])
def test_parts_of_a_sum_keep_the_sign_of_zero(size):
    x, rows = np.array([-0.0, -0.0, 1.0]), np.array([[1], [0]])
    specs = [phix.spec([size], "float64"), phix.spec([2, 1], "int64"), phix.spec([2], "float64")]
    f = phix.jit(ops.scatter_nd_add, input_spec=specs)
    for scatter in (f, ops.scatter_nd_add):
        found = np.asarray(scatter(x, rows, np.array([-0.0, -0.0])))
        assert np.signbit(found).tolist() == [True, True, False]


def test_compiling_ahead_of_time_leaves_nothing_to_compile(monkeypatch: Any) -> None:
    def f(x: Any) -> Any:
        return ops.tanh(x * 1.2345) + ops.sum(x)

    x = np.arange(3.0)
    sized = phix.jit(f).lower(x).compile()
    unsized = phix.jit(f).lower(phix.spec(["n"], "float64")).compile()

    def late(self: Any) -> Any:
        raise AssertionError("compiled when it was first called")

    monkeypatch.setattr(NativeProgram, "native_call", late)
    for compiled in (sized, unsized):
        np.testing.assert_allclose(compiled(x), np.tanh(x * 1.2345) + 3.0)


@pytest.mark.parametrize(
    "rows, asked", [(3, r"\[3, floordiv\(n, 3\)\]"), (None, r"\[m, floor.*\]")]
)
def test_a_shape_that_does_not_fit_is_shown_as_it_was_asked_for(rows, asked):
    f = lambda x, y: ops.reshape(x, [rows or y.shape[0], -1])  # noqa: E731
    run = phix.jit(f, input_spec=[phix.spec(["n"]), phix.spec(["m"])])
    found = rf"shape {asked}, here \[3, 3\], does not hold the 10 elements of float32\[10\]"
    with pytest.raises(ShapeError, match=found):
        run(np.zeros(10, np.float32), np.zeros(3, np.float32))
