"""What optional, intermediate, inplace, view, invoke and kernel of an entry do, as in PHI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import phix_npu
import pytest

import phix
from harness.cases import Case, table_cases
from loaded_ops import Load
from phix import ops
from phix.core import rules
from phix.core.errors import ArgumentError, DonatedTensorError, OpTableError, ShapeError
from phix.core.kernel_keys import key_dtype
from phix.core.op import Op
from phix.table.codegen import python_name

pytestmark = pytest.mark.unoptimised

CASES = [c for c in table_cases() if "elsewhere" not in c.test]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Adds entries to the op table, and takes them away again."""

    def loaded(text: str) -> Any:
        file = tmp_path / "my_ops.yaml"
        file.write_text(text)
        return phix.load_ops(file)

    with phix.scoped_registries():
        yield loaded


def tensor(*dims: int) -> Any:
    return phix.to_tensor(np.random.default_rng(0).normal(size=dims))


def address(x: Any) -> int:
    return int(x.data.__array_interface__["data"][0])


# -- optional --------------------------------------------------------------------------------
OPTIONAL = """
- op: affine
  args: (Tensor x, Tensor bias, float scale=2.0)
  output: Tensor(out), Tensor(twice)
  optional: bias, twice
  backward: affine_grad
- backward_op: affine_grad
  forward: affine (Tensor x, Tensor bias, float scale) -> Tensor(out), Tensor(twice)
  args: (Tensor bias, Tensor out_grad, Tensor twice_grad, float scale)
  output: Tensor(x_grad), Tensor(bias_grad)
  optional: bias, twice_grad, bias_grad
"""


@pytest.fixture
def affine(load: Load) -> Any:
    mine = load(OPTIONAL)

    @rules.decompose("affine")
    def forward(x: Any, bias: Any, scale: float) -> Any:
        return (x * scale, None) if bias is None else (x * scale + bias, bias * 2.0)

    @rules.decompose("affine_grad")
    def backward(bias: Any, out_grad: Any, twice_grad: Any, scale: float) -> Any:
        if bias is None:
            return out_grad * scale, None
        return out_grad * scale, out_grad if twice_grad is None else out_grad + 2.0 * twice_grad

    return mine.affine


@pytest.mark.parametrize("has_bias", [False, True])
def test_an_optional_tensor_may_be_none_and_an_optional_output_absent(affine, has_bias) -> None:
    x, bias = tensor(3), tensor(3) + 1 if has_bias else None
    expected = 2 * x.numpy() + (bias.numpy() if has_bias else 0)

    def loss(x: Any) -> Any:
        out, twice = affine(x, bias)
        assert (twice is None) is not has_bias
        return ops.sum(out * x) + (ops.sum(twice) if has_bias else 0.0)

    for out, twice in (affine(x, bias), affine(x, bias), phix.jit(affine)(x, bias)):
        np.testing.assert_allclose(out, expected)
        assert twice is None if bias is None else np.allclose(twice, 2 * bias.numpy())
    gradient = 4 * x.numpy() + (bias.numpy() if has_bias else 0)
    for grad in (phix.grad(loss), phix.jit(phix.grad(loss)), phix.grad(phix.checkpoint(loss))):
        np.testing.assert_allclose(grad(x), gradient)
    np.testing.assert_allclose(phix.jvp(loss, (x,), (x,))[1], np.sum(gradient * x.numpy()))
    np.testing.assert_allclose(phix.hessian(loss)(x), 4 * np.eye(3))
    np.testing.assert_allclose(phix.vmap(loss)(x[None])[0], loss(x))


def test_an_absent_output_prints_and_parses(affine) -> None:
    graph = phix.make_graph(lambda x: affine(x, None)[0])(tensor(3))
    assert "a: float64[3], none = affine(x, none)" in str(graph)
    again = phix.parse_graph(str(graph))
    assert str(again) == str(graph)
    np.testing.assert_allclose(again(tensor(3))[0], 2 * tensor(3).numpy())


def test_a_tensor_that_is_not_optional_may_not_be_none() -> None:
    with pytest.raises(ArgumentError, match="relu: x is a tensor, found None"):
        ops.relu(None)


# -- intermediate ------------------------------------------------------------------------------
def test_an_intermediate_output_is_kept_for_the_backward_alone(load) -> None:
    mine = load("""
- op: tanh_like
  args: (Tensor x)
  output: Tensor(out), Tensor(slope)
  intermediate: slope
  backward: tanh_like_grad
- backward_op: tanh_like_grad
  forward: tanh_like (Tensor x) -> Tensor(out), Tensor(slope)
  args: (Tensor out, Tensor slope, Tensor out_grad)
  output: Tensor(x_grad)
""")
    seen = []

    @rules.decompose("tanh_like")
    def forward(x: Any) -> Any:
        out = ops.tanh(x)
        return out, 1.0 - out * out

    @rules.decompose("tanh_like_grad")
    def backward(out: Any, slope: Any, out_grad: Any) -> Any:
        seen.append(slope)
        return out_grad * slope

    x = tensor(5)
    np.testing.assert_allclose(mine.tanh_like(x), np.tanh(x.numpy()))
    slope = 1 - np.tanh(x.numpy()) ** 2
    np.testing.assert_allclose(phix.grad(lambda x: ops.sum(mine.tanh_like(x)))(x), slope)
    assert len(seen) == 1
    # and second derivatives see that slope depends on x
    np.testing.assert_allclose(
        phix.hessian(lambda x: ops.sum(mine.tanh_like(x)))(x),
        np.diag(-2 * np.tanh(x.numpy()) * slope), atol=1e-12,
    )  # fmt: skip


# -- inplace -----------------------------------------------------------------------------------
PAIRS = [c for c in CASES if c.op.inplace and not c.op.name.endswith("_")]


@pytest.mark.parametrize("case", PAIRS, ids=lambda c: c.op.name)
def test_every_op_that_works_in_place(case: Case) -> None:
    op: Op = case.op
    name = python_name(op.name)
    taken = 0
    for call in case.calls():
        attrs = {python_name(k): v for k, v in call.sample.attrs.items()}
        given = {**call.structure(call.arrays), **attrs}
        expected = phix.tree.leaves(getattr(ops, name)(**given))
        source = op.inplace[0][0]
        x = given[source] = phix.to_tensor(given[source])
        before = address(x)
        found = phix.tree.leaves(getattr(ops, f"{name}_")(**given))
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(f, e)
        taken += before in map(address, found)
        with pytest.raises(
            DonatedTensorError, match=rf"donated to {op.name}_ \(at .*call {op.name}"
        ):
            x.numpy()
    if op.is_pointwise:
        assert taken, "no sample's result has the memory"


def test_memory_that_others_see_is_left_alone() -> None:
    x = tensor(4)
    seen = x.numpy()
    kept = seen.copy()
    y = x.exp_()
    np.testing.assert_array_equal(seen, kept)
    np.testing.assert_allclose(y, np.exp(kept))
    array = np.arange(3.0)
    np.testing.assert_array_equal(ops.scale_(array, 2.0), [0, 2, 4])
    np.testing.assert_array_equal(array, [0, 1, 2])
    z = tensor(4)
    np.testing.assert_allclose(ops.add_(z, z), 2 * tensor(4).numpy())


def test_a_chain_stays_in_its_memory() -> None:
    x = tensor(4, 4)
    values, place = x.numpy().copy(), address(x)
    x = ops.reshape_(x.tanh_().add_(1.0), [16]).multiply_(2.0)
    assert address(x) == place
    np.testing.assert_allclose(x, 2 * (np.tanh(values) + 1).ravel())


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, phix.jit, phix.grad, phix.vmap, phix.checkpoint,
     lambda f: lambda x: phix.jvp(f, (x,), (x,)), lambda f: phix.grad(phix.jit(f))],
    ids=["eager", "jit", "grad", "vmap", "checkpoint", "jvp", "grad of jit"],
)  # fmt: skip
def test_traced_it_computes_the_same_and_the_name_is_as_dead(transform) -> None:
    def good(x: Any) -> Any:
        return ops.sum(ops.exp_(x * 1.0) * 2.0)

    def plain(x: Any) -> Any:
        return ops.sum(ops.exp(x) * 2.0)

    def bad(x: Any) -> Any:
        x = x * 1.0
        return ops.sum(ops.exp_(x) + x)

    x = tensor(2, 3) if transform is phix.vmap else tensor(3)
    for f, e in zip(*(phix.tree.leaves(transform(g)(x)) for g in (good, plain)), strict=True):
        np.testing.assert_allclose(f, e)
    with pytest.raises(DonatedTensorError, match=r"donated to exp_ \(at .*test_schema_semantics"):
        transform(bad)(x)


def test_a_dead_tracer_tells_its_meta_and_where_it_went() -> None:
    def f(x: Any) -> Any:
        y = ops.relu_(x)
        assert x.shape == (3,) and "donated to relu_ (at" in repr(x)
        return y

    np.testing.assert_array_equal(phix.jit(f)(tensor(3)), np.maximum(tensor(3).numpy(), 0))


def test_an_error_leaves_the_tensor_alive() -> None:
    x = tensor(3)
    with pytest.raises(ShapeError):
        ops.add_(x, tensor(4))
    assert x.shape == (3,) and x.numpy().shape == (3,)


SGD = """
- op: descent_
  args: (Tensor param, Tensor grad, float rate=0.1)
  output: Tensor(param_out)
  inplace: (param -> param_out)
- op: heavy_ball
  args: (Tensor param, Tensor grad, Tensor velocity, float rate=0.1)
  output: Tensor(param_out), Tensor(velocity_out)
  inplace: (param -> param_out), (velocity -> velocity_out)
"""


def test_entries_of_users_work_in_place(load) -> None:
    mine = load(SGD)
    rules.decompose("descent_")(lambda param, grad, rate: param - rate * grad)

    @rules.decompose("heavy_ball")
    def heavy_ball(param: Any, grad: Any, velocity: Any, rate: float) -> Any:
        velocity = 0.9 * velocity + grad
        return param - rate * velocity, velocity

    w, g, v = tensor(4), tensor(4) + 1, tensor(4) * 0
    places, values = (address(w), address(v)), w.numpy().copy()
    assert not hasattr(mine, "descent__")
    w = mine.descent_(w, g)
    w, v = mine.heavy_ball_(w, g, v)
    assert (address(w), address(v)) == places
    np.testing.assert_allclose(w, values - 0.2 * g.numpy())
    np.testing.assert_allclose(v, g.numpy())
    again, _ = mine.heavy_ball(w, g, v)
    assert address(again) != address(w)


def test_the_name_of_the_function_in_place_may_not_be_taken(load) -> None:
    entry = "- {op: %s, args: (Tensor x), output: Tensor(out)%s}\n"
    text = entry % ("twice_", "") + entry % ("twice", ", inplace: (x -> out)")
    with pytest.raises(OpTableError, match=r"my_ops.yaml:2: the name 'twice_' is taken"):
        load(text)
    assert "twice" not in rules.OPS


# -- view --------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [c for c in CASES if c.op.view], ids=lambda c: c.op.name)
def test_every_view_shares_the_memory_of_its_input(case: Case) -> None:
    source = case.op.view[0][0]
    for call in case.calls():
        attrs = {python_name(k): v for k, v in call.sample.attrs.items()}
        given = {**call.structure(call.arrays), **attrs}
        x = given[source] = phix.to_tensor(given[source])
        out = getattr(ops, python_name(case.op.name))(**given)
        assert np.shares_memory(x.data, out.data) or not out.size


def test_a_composite_view_of_a_user_makes_no_copy(load) -> None:
    mine = load("""
- op: as_rows
  args: (Tensor x, int width)
  output: Tensor(out)
  view: (x -> out)
- op: copied_rows
  args: (Tensor x, int width)
  output: Tensor(out)
""")
    for name in ("as_rows", "copied_rows"):
        rules.decompose(name)(lambda x, width: ops.transpose(ops.reshape(x, (-1, width)), (1, 0)))
    x = tensor(6, 2)
    for _ in range(2):
        view, copy = mine.as_rows(x, 3), mine.copied_rows(x, 3)
        np.testing.assert_array_equal(view, x.numpy().reshape(-1, 3).T)
        np.testing.assert_array_equal(copy, view)
        assert np.shares_memory(view.data, x.data) and not np.shares_memory(copy.data, x.data)
    grad = phix.grad(lambda x: ops.sum(mine.as_rows(x, 3) ** 2))(x)
    np.testing.assert_allclose(grad, 2 * x.numpy())
    np.testing.assert_array_equal(phix.jit(lambda x: mine.as_rows(x, 3))(x), copy)


# -- invoke ------------------------------------------------------------------------------------
INVOKE = """
- op: doubled
  args: (Tensor x)
  output: Tensor(out)
  invoke: scale(x, 2.0, 0.0f, true)
- op: zeros_as
  args: (Tensor x, Tensor y)
  output: Tensor(out)
  invoke: full_like(x, 0, y.dtype())
- op: joined
  args: (Tensor[] parts, int axis=0)
  output: Tensor(out)
  invoke: concat(parts, axis)
"""


def test_an_entry_may_be_a_call_of_another_op(load) -> None:
    mine = load(INVOKE)
    x = tensor(3)
    np.testing.assert_allclose(mine.doubled(x), 2 * x.numpy())
    np.testing.assert_allclose(phix.grad(lambda x: ops.sum(mine.doubled(x)))(x), [2, 2, 2])
    np.testing.assert_allclose(phix.vmap(mine.doubled)(x), 2 * x.numpy())
    assert "doubled(x)" in str(phix.make_graph(mine.doubled)(x))
    assert mine.zeros_as(x, phix.to_tensor([1])).dtype == np.int64
    np.testing.assert_array_equal(mine.joined([x, x]), np.concatenate([x.numpy()] * 2))
    assert phix.jit(mine.joined)([x, x]).shape == (6,)


def test_a_rule_in_python_comes_before_invoke(load) -> None:
    mine = load(INVOKE)
    rules.decompose("doubled")(lambda x: x * 3.0)
    np.testing.assert_allclose(mine.doubled(tensor(3)), 3 * tensor(3).numpy())


def test_a_function_that_is_no_op_is_left_to_python(load) -> None:
    mine = load("- {op: odd, args: (Tensor x), output: Tensor(out), invoke: odd_impl(x)}")
    rules.decompose("odd")(lambda x: ops.sin(x))
    np.testing.assert_allclose(mine.odd(tensor(3)), np.sin(tensor(3).numpy()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scale(x, 2.0, 0.0, true, 1)", "gives 5 args, but scale("),
        ("scale(by, 2.0)", "gives 'by' for 'x', which is a tensor"),
        ("scale(y)", "gives 'y' for the tensor 'x'; write one of x"),
        ("scale(x, maybe)", "the default 'maybe' is no Scalar"),
        ("pow()", "leaves out 'x', which pow("),
        ("lu(x)", "does not give the outputs out; give the entry those of 'lu'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(load, call: str, message: str) -> None:
    text = f"- {{op: odd, args: '(Tensor x, int by=1)', output: Tensor(out), invoke: '{call}'}}"
    with pytest.raises(OpTableError) as info:
        load(text)
    assert "my_ops.yaml:1: " in str(info.value) and message in str(info.value)


# -- kernel ------------------------------------------------------------------------------------
@pytest.fixture
def npu() -> Iterator[None]:
    with phix.scoped_registries():
        phix_npu.ensure_registered()
        yield


def test_kernel_says_where_and_on_what_a_call_runs(load, npu) -> None:
    mine = load("""
- op: filled
  args: (Tensor x, Tensor y, float value, DataType dtype=DataType::UNDEFINED, Place place={})
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  optional: y
  kernel: {func: filled, param: [x, value], data_type: dtype > y > x, backend: place > x}
""")
    seen = []

    @phix.kernels.register_kernel("filled", "NPU", dtypes=["float32", "float64"])
    def kernel(ctx: Any, *args: Any) -> None:
        _, *attrs, _ = args
        seen.append(attrs)

    op = rules.OPS["filled"]
    x, y = tensor(2), phix.to_tensor([1.0])
    for inputs, attrs, wanted in [
        ((x, y), (1.0, None, None), "float32"),
        ((x, None), (1.0, None, None), "float64"),
        ((x, y), (1.0, np.dtype("int8"), None), "int8"),
    ]:
        assert key_dtype(op, inputs, attrs, None) == np.dtype(wanted)
    there = phix.to_tensor(x, place="npu")
    assert mine.filled(there, y, 3.0).place.kind == "npu"  # y is brought to it
    assert mine.filled(x, None, 3.0, place="npu").place.kind == "npu"
    assert seen == [[3.0], [3.0]]


def test_kernel_names_arguments_and_constants_that_exist(load) -> None:
    text = "- {op: odd, args: (Tensor x), output: Tensor(out), kernel: {func: odd, %s}}"
    for entry in ("data_type: dtype > x", "backend: place", "layout: form", "param: [x, axis]"):
        with pytest.raises(OpTableError, match=r"my_ops\.yaml:1: `kernel` of 'odd' names"):
            load(text % entry)
    load(text % "data_type: FLOAT32, backend: CPU, layout: NCHW")
    assert key_dtype(rules.OPS["odd"], (tensor(2),), (), None) == np.dtype("float32")
