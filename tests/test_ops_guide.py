"""An op of one's own the way Paddle's operator guide has it: an entry, two kernels, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel_places
import phix
from kernel_places import Where
from phix import ops
from phix.core.errors import DifferentiationError, KernelNotFoundError, OpTableError

pytestmark = pytest.mark.unoptimised

# As the guide prints it.
TABLE = """
- op : my_trace
  args : (Tensor x, int offset = 0, int axis1 = 0, int axis2 = 1)
  output : Tensor(out)
  infer_meta :
    func : TraceInferMeta
  kernel :
    func : my_trace
  backward : my_trace_grad

- backward_op : my_trace_grad
  forward : my_trace (Tensor x, int offset, int axis1, int axis2) -> Tensor(out)
  args : (Tensor x, Tensor out_grad, int offset, int axis1, int axis2)
  output : Tensor(x_grad)
  infer_meta :
    func : UnchangedInferMeta
    param : [x]
  kernel :
    func : my_trace_grad
    data_type : x
  no_need_buffer : x
"""
CALLS: list[str] = []


def my_trace(ctx: Any, x: Any, offset: int, axis1: int, axis2: int, out: Any) -> None:
    CALLS.append("my_trace")
    out[...] = np.trace(x, offset, axis1, axis2)


def my_trace_grad(
    ctx: Any, x: Any, out_grad: Any, offset: int, axis1: int, axis2: int, x_grad: Any
) -> None:
    CALLS.append("my_trace_grad")
    assert x.shape == x_grad.shape and x.dtype == x_grad.dtype
    x_grad[...] = 0
    moved = np.moveaxis(x_grad, (axis1, axis2), (-2, -1))
    rows, columns = np.arange(moved.shape[-2]), np.arange(moved.shape[-1])
    moved[..., columns - rows[:, None] == offset] = out_grad[..., None]


@pytest.fixture(params=kernel_places.NAMES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    (tmp_path / "trace.yaml").write_text(TABLE)
    CALLS.clear()
    with phix.scoped_registries(), kernel_places.there(request.param) as found:
        phix.load_ops(tmp_path / "trace.yaml")
        found.register("my_trace", "float")(my_trace)
        found.register("my_trace_grad", "float")(my_trace_grad)
        yield found


def test_the_short_form_of_mappings(tables: Any) -> None:
    short = TABLE.replace(" :\n    func", " : {func").replace("\n    param", ", param")
    short = short.replace("\n    data_type", ", data_type")
    lines = [f"{line}}}" if "{func" in line else line for line in short.splitlines()]
    own = tables("\n".join(lines))
    assert "infer_meta : {func : UnchangedInferMeta, param : [x]}" in "\n".join(lines)
    phix.kernels.register_kernel("my_trace", "CPU")(my_trace)
    phix.kernels.register_kernel("my_trace_grad", "CPU")(my_trace_grad)
    np.testing.assert_array_equal(phix.grad(own.my_trace)(X[0]), np.eye(4, 3))


X = np.random.default_rng(0).standard_normal((3, 4, 3)).astype("f")


def trace_op(x: Any, *attrs: int) -> Any:
    return ops.my_trace(x, *attrs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("attrs", [(), (1,), (-1, 0, 2), (0, -1, 1), (5, 2, 0)])
def test_values_and_gradients(where: Where, attrs: tuple[int, ...]) -> None:
    x, wanted = where.tensor(X), np.trace(X, *attrs)
    weights = np.arange(1.0, 1 + wanted.size, dtype="f").reshape(wanted.shape)
    slope = np.zeros_like(X)
    offset, axis1, axis2 = (*attrs, *(0, 0, 1)[len(attrs) :])
    moved = np.moveaxis(slope, (axis1, axis2), (0, 1))
    for i, j in np.ndindex(moved.shape[:2]):
        if j - i == offset:
            moved[i, j] = weights

    def loss(x: Any) -> Any:
        return (trace_op(x, *attrs) * phix.to_tensor(weights)).sum()

    with phix.device(where.name):
        for make in (lambda f: f, phix.jit):
            np.testing.assert_allclose(make(lambda x: trace_op(x, *attrs))(x), wanted, rtol=1e-6)
            found = make(phix.grad(loss))(x)
            assert found.place.kind == where.name
            np.testing.assert_allclose(found, slope, rtol=1e-6)
        np.testing.assert_allclose(phix.grad(phix.jit(loss))(x), slope, rtol=1e-6)


def test_batches_methods_and_lists(where: Where) -> None:
    x = where.tensor(X)
    wanted = np.stack([np.trace(m) for m in X])
    for make in (lambda f: f, phix.jit):
        np.testing.assert_allclose(make(phix.vmap(trace_op))(x), wanted, rtol=1e-6)
        slopes = make(phix.vmap(phix.grad(trace_op)))(x)
        np.testing.assert_array_equal(slopes, np.broadcast_to(np.eye(4, 3), (3, 4, 3)))
    assert x.my_trace(offset=1).shape == (3,)


def test_dims_that_are_not_known(where: Where) -> None:
    f = phix.jit(lambda x: trace_op(x) * 2.0, input_spec=[phix.spec(["n", "m", 2])])
    g = phix.jit(phix.grad(lambda x: (trace_op(x) ** 2.0).sum()), input_spec=[phix.spec(["n", -1])])
    for n, m in ((3, 3), (5, 2)):
        x = np.random.default_rng(n).standard_normal((n, m, 2)).astype("f")
        np.testing.assert_allclose(f(where.tensor(x)), 2 * np.trace(x), rtol=1e-6)
        y = x[..., 0]
        slope = np.eye(n, m) * 2 * np.trace(y)
        np.testing.assert_allclose(g(where.tensor(y.copy())), slope, rtol=1e-5, atol=1e-6)
    meta = phix.make_graph(trace_op)(phix.spec(["n", "m", 7])).outputs[0].meta
    assert meta == phix.spec([7])


def test_the_kernels_run_and_not_in_another_dtype(where: Where) -> None:
    phix.jit(phix.grad(lambda x: trace_op(x).sum()))(where.tensor(X))
    assert "my_trace_grad" in CALLS
    with pytest.raises(KernelNotFoundError, match=r"'my_trace' for .*int64.*there are: .*float32"):
        trace_op(where.tensor(X.astype("int64")))


def test_wrong_calls_name_the_op_and_the_way_out(where: Where) -> None:
    for run in (trace_op, phix.jit(trace_op)):
        with pytest.raises(phix.errors.ShapeError, match=r"my_trace\(x: float32\[3\]\).*two axes"):
            run(where.tensor(X[0, 0]))
    with pytest.raises(phix.errors.AttributeValueError, match="axis2 7 is out of range for 3 axes"):
        trace_op(where.tensor(X), 0, 0, 7)
    with pytest.raises(phix.errors.AttributeValueError, match="both axis 1"):
        trace_op(where.tensor(X), 0, 1, -2)


def test_a_second_derivative_has_no_kernel(where: Where) -> None:
    x = where.tensor(X)
    with pytest.raises(DifferentiationError, match="'my_trace_grad' has no derivative"):
        phix.grad(lambda x: phix.grad(lambda x: (trace_op(x) ** 2.0).sum())(x).sum())(x)


# -- what is missing ---------------------------------------------------------------------------
@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Any]:
    """Loads a table written as text."""

    def load(text: str) -> Any:
        (tmp_path / "more.yaml").write_text(text)
        return phix.load_ops(tmp_path / "more.yaml")

    with phix.scoped_registries():
        yield load


def test_a_backward_op_without_kernel_or_decomposition(tables: Any) -> None:
    own = tables(TABLE)
    phix.kernels.register_kernel("my_trace", "CPU")(my_trace)
    np.testing.assert_allclose(own.my_trace(X), np.trace(X), rtol=1e-6)
    for make in (lambda f: f, phix.jit):
        with pytest.raises(KernelNotFoundError, match="no kernel of 'my_trace_grad' for"):
            make(phix.grad(lambda x: own.my_trace(x).sum()))(X)


def test_infer_meta_functions_that_are_not_there(tables: Any) -> None:
    own = tables(TABLE.replace("TraceInferMeta", "TraceInferMetas"))
    for call in (own.my_trace, phix.jit(own.my_trace), phix.make_graph(own.my_trace)):
        with pytest.raises(OpTableError, match=r"more.yaml:2: .*'TraceInferMetas'.*TraceInferMeta"):
            call(phix.to_tensor(X))
    bare = tables("- {op: bare, args: (Tensor x), output: Tensor(out), kernel: {func: bare}}")
    phix.kernels.register_kernel("bare", "CPU")(lambda ctx, x, out: None)
    with pytest.raises(OpTableError, match="neither infer_meta nor a decomposition; add `infer"):
        bare.bare(X)


def inferred(tables: Any, func: str, args: str, outputs: str, *values: Any) -> Any:
    """What an op of these args infers by that function."""
    own = tables(
        f"- {{op: own, args: '{args}', output: '{outputs}', infer_meta: {{func: {func}}}}}"
    )
    metas = [phix.spec(*v) if isinstance(v, tuple) else v for v in values]
    graph = phix.make_graph(lambda *xs: own.own(*xs, *[v for v in values if type(v) is not tuple]))(
        *[m for m in metas if isinstance(m, phix.MetaTensor)]
    )
    return [o.meta for o in graph.outputs]


X34, Y34 = (["n", 4], "float32"), ([1, 4], "float16")


@pytest.mark.parametrize(
    "func, args, outputs, values, wanted",
    [
        ("GeneralUnaryGradInferMeta", "(Tensor x)", "Tensor(a)", [X34], [X34]),
        ("GeneralBinaryGradInferMeta", "(Tensor x, Tensor y)", "Tensor(a), Tensor(b)",
         [X34, Y34], [X34, Y34]),
        ("GeneralTernaryGradInferMeta", "(Tensor x, Tensor y, Tensor z)",
         "Tensor(a), Tensor(b), Tensor(c)", [X34, Y34, Y34], [X34, Y34, Y34]),
        ("SoftmaxInferMeta", "(Tensor x, int axis)", "Tensor(a)", [X34, -1], [X34]),
        ("LogsumexpInferMeta", "(Tensor x, int[] axis, bool keepdim=false)", "Tensor(a)",
         [X34, [-1]], [(["n"], "float32")]),
        ("FlattenInferMeta", "(Tensor x, int a = 0, int b = -1)", "Tensor(a)",
         [([2, 3, 4], "int8")], [([24], "int8")]),
        ("OneHotInferMeta", "(Tensor x, int n)", "Tensor(a)", [(["n"], "int64"), 5],
         [(["n", 5], "float32")]),
        ("EmbeddingInferMeta", "(Tensor x, Tensor w)", "Tensor(a)",
         [(["n", 2], "int64"), ([9, 3], "float64")], [(["n", 2, 3], "float64")]),
        ("CreateLikeInferMeta", "(Tensor x)", "Tensor(a)", [X34], [X34]),
        ("RealAndImagGradInferMeta", "(Tensor x)", "Tensor(a)", [X34], [(["n", 4], "complex64")]),
        ("IsfiniteInferMeta", "(Tensor x)", "Tensor(a)", [X34], [(["n", 4], "bool")]),
        ("AddmmInferMeta", "(Tensor i, Tensor x, Tensor y)", "Tensor(a)",
         [([4], "float32"), ([2, 3], "float32"), ([3, 4], "float32")], [([2, 4], "float32")]),
    ],
)  # fmt: skip
def test_infer_meta_functions(
    tables: Any, func: str, args: str, outputs: str, values: Any, wanted: Any
) -> None:
    found = inferred(tables, func, args, outputs, *values)
    assert list(map(str, found)) == [str(phix.spec(*w)) for w in wanted]


def test_an_infer_meta_function_for_other_args(tables: Any) -> None:
    with pytest.raises(OpTableError, match=r"BmmInferMeta takes the args .* of bmm\(Tensor x, T"):
        inferred(tables, "BmmInferMeta", "(Tensor x)", "Tensor(a)", X34)
    with pytest.raises(OpTableError, match="gives the outputs of softmax"):
        tables("- {op: two, args: (Tensor x), output: 'Tensor(a), Tensor(b)', "
               "infer_meta: {func: SoftmaxInferMeta}}").two(X)  # fmt: skip
