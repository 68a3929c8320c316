"""phix.autocast: which ops run in a low dtype, and that all else stays what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import table_cases
from phix import ops
from phix.core.graph import flat, graphs_in
from phix.core.rules import OPS

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(7)
BF16 = 2.0**-8  # the largest relative error of a number rounded to bfloat16


def tensor(*dims: int) -> Any:
    return phix.to_tensor(RNG.standard_normal(dims).astype("float32"))


X, W, V = tensor(5, 8), tensor(8, 8), tensor(8, 3)
B, LABELS = tensor(3), phix.to_tensor(RNG.integers(0, 3, (5, 1)))


def equations(function: Any, *args: Any) -> dict[str, list[tuple[str, str]]]:
    """By op: the dtypes of the first input and output of each equation, bodies included."""
    found: dict[str, list[tuple[str, str]]] = {}

    def walk(graph: Any) -> None:
        for e in graph.equations:
            dtypes = (str(flat(e.inputs)[0].meta.dtype), str(flat(e.outputs)[0].meta.dtype))
            found.setdefault(e.op.name, []).append(dtypes)
            for inner in graphs_in(e.attrs):
                walk(inner)

    graph = phix.make_graph(function)(*args)
    phix.check_graph(graph)
    walk(graph)
    return found


def network(x: Any, w: Any, v: Any, b: Any) -> Any:
    hidden = ops.relu(ops.matmul(x, w)) * 0.5
    return ops.linear(ops.layer_norm(hidden), v, b)


def loss(x: Any, w: Any, v: Any, b: Any) -> Any:
    return ops.mean(ops.cross_entropy_with_softmax(network(x, w, v, b), LABELS)[1])


def close(found: Any, wanted: Any, tolerance: float = 4 * BF16) -> None:
    found, wanted = np.asarray(found.numpy(), "float64"), np.asarray(wanted.numpy(), "float64")
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def test_the_casts_of_a_graph() -> None:
    def f(x: Any, w: Any) -> Any:
        return ops.exp(ops.matmul(ops.relu(ops.matmul(x, w)), w))

    text = str(phix.make_graph(phix.autocast(f))(phix.spec(["n", 8]), phix.spec([8, 8])))
    assert text == (
        "graph(x: float32[n, 8], w: float32[8, 8]) {\n"
        "  a: bfloat16[n, 8] = cast(x, dtype=bfloat16)\n"
        "  b: bfloat16[8, 8] = cast(w, dtype=bfloat16)\n"
        "  c: bfloat16[n, 8] = matmul(a, b)\n"
        "  d: bfloat16[n, 8] = relu(c)\n"
        "  e: bfloat16[n, 8] = matmul(d, b)\n"
        "  f: float32[n, 8] = cast(e, dtype=float32)\n"
        "  g: float32[n, 8] = exp(f)\n"
        "  return g\n"
        "}"
    )


def test_products_are_those_of_rounded_numbers() -> None:
    bfloat16 = phix.bfloat16
    x, w = (t.numpy().astype(bfloat16).astype("float64") for t in (X, W))
    found = phix.autocast(ops.matmul)(X, W)
    assert found.dtype == phix.float32
    np.testing.assert_allclose(found.numpy(), (x @ w).astype(bfloat16).astype("float32"), rtol=BF16)
    assert np.any(found.numpy() != ops.matmul(X, W).numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_composites_stay_float32_inside(dtype: str) -> None:
    found = equations(phix.autocast(loss, dtype), X, W, V, B)
    assert found["matmul"] == found["linear"] == [(dtype, dtype)]
    assert found["relu"] == found["multiply"] == [(dtype, dtype)]
    for name in ("layer_norm", "cross_entropy_with_softmax", "mean"):
        assert found[name] == [("float32", "float32")], name


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 4 * BF16), ("float16", BF16 / 2)])
def test_values_and_gradients(dtype: str, tolerance: float) -> None:
    low = phix.autocast(loss, dtype)
    close(low(X, W, V, B), loss(X, W, V, B), tolerance)
    args = (X, W, V, B)
    for number, arg in enumerate(args):
        found = phix.grad(low, argnums=number)(*args)
        assert found.dtype == phix.float32 and found.shape == arg.shape
        close(found, phix.grad(loss, argnums=number)(*args), 4 * tolerance)


def test_gradients_are_products_in_the_low_dtype() -> None:
    found = equations(phix.grad(phix.autocast(lambda w: ops.sum(ops.matmul(X, w)))), W)
    assert set(found["matmul"]) == {("bfloat16", "bfloat16")}
    inside = equations(phix.autocast(phix.grad(lambda w: ops.sum(ops.matmul(X, w) ** 2))), W)
    assert set(inside["matmul"]) == {("bfloat16", "bfloat16")}
    assert inside["pow"][0] == ("float32", "float32")


def test_it_composes() -> None:
    args = (X, W, V, B)
    wanted = phix.autocast(network)(*args)
    for composed in (phix.jit(phix.autocast(network)), phix.autocast(phix.jit(network))):
        close(composed(*args), wanted, 2 * BF16)
        assert composed(*args).dtype == phix.float32
    one = phix.autocast(lambda x: network(x[None], W, V, B)[0])
    close(phix.vmap(one)(X), wanted, 2 * BF16)
    close(phix.autocast(phix.vmap(lambda x: network(x[None], W, V, B)[0]))(X), wanted, 2 * BF16)
    _, tangent = phix.jvp(phix.autocast(network), args, args)
    close(tangent, phix.jvp(network, args, args)[1], 8 * BF16)
    assert equations(phix.autocast(phix.autocast(network)), *args) == equations(
        phix.autocast(network), *args
    )


def test_trees_and_the_decorator() -> None:
    @phix.autocast
    def f(layer: Any, *, x: Any) -> Any:
        return {"out": ops.matmul(x, layer["w"]), "count": LABELS}

    found = f({"w": W}, x=X)
    assert found["out"].dtype == phix.float32 and found["count"].dtype == LABELS.dtype
    half = phix.autocast(dtype=phix.float16)(ops.matmul)
    assert equations(half, X, W)["matmul"] == [("float16", "float16")]


def test_allow_and_deny() -> None:
    def f(x: Any, w: Any) -> Any:
        return ops.softmax(ops.matmul(x, w))

    def dtypes(**names: Any) -> list[str]:
        found = equations(phix.autocast(f, **names), X, W)
        return [found[name][0][0] for name in ("matmul", "softmax")]

    assert dtypes() == ["bfloat16", "float32"]
    assert dtypes(allow="softmax") == ["bfloat16", "bfloat16"]
    assert dtypes(deny=("matmul",)) == ["float32", "float32"]
    assert "cast" not in equations(phix.autocast(f, deny="matmul"), X, W)


def test_others_run_in_the_widest_dtype_of_their_inputs() -> None:
    def f(x: Any, w: Any, y: Any) -> Any:
        product = ops.matmul(x, w)
        return product + y, product * 2.0, product * 1e-30, product.reshape([-1]), x * 3.0

    found = equations(phix.autocast(f, "float16"), X, W, X)
    assert found["add"] == [("float32", "float32")]
    # 2.0 is a number like any other, 1e-30 is none that float16 has room for, x was never lowered
    low, wide = ("float16", "float16"), ("float32", "float32")
    assert found["multiply"] == [low, wide, wide]
    assert found["reshape"] == [low]
    assert all(out.dtype == phix.float32 for out in phix.autocast(f, "float16")(X, W, X))


def test_other_dtypes_are_left_alone() -> None:
    double = ops.cast(X, "float64")
    assert "cast" not in equations(phix.autocast(ops.matmul), double, ops.cast(W, "float64"))
    whole = ops.cast(X, "int64")
    assert "cast" not in equations(phix.autocast(ops.matmul), whole, ops.cast(W, "int64"))
    # no kernel takes a factorisation of low numbers: what the op does not take, it does not get
    matrix = ops.matmul(W, W, transpose_y=True) + 8.0 * phix.eye(8)
    found = equations(phix.autocast(lambda m: ops.cholesky(ops.matmul(m, m))), matrix)
    assert found["cholesky"] == [("float32", "float32")]


def test_what_the_function_casts_itself_stays() -> None:
    def f(x: Any, w: Any) -> Any:
        product = ops.matmul(x, w)
        low = ops.cast(product, "bfloat16")
        return ops.exp(low) + low, product

    assert equations(phix.autocast(f), X, W)["exp"] == [("bfloat16", "bfloat16")]
    low, wide = phix.autocast(f)(X, W)
    assert (low.dtype, wide.dtype) == (phix.bfloat16, phix.float32)


def test_bodies_of_loops_and_branches() -> None:
    def looped(x: Any, w: Any) -> Any:
        return phix.scan(lambda c, _: (ops.tanh(ops.matmul(c, w)), ops.sum(c)), x, None, length=3)

    found = equations(phix.autocast(looped), X, W)
    assert found["matmul"] == found["tanh"] == [("bfloat16", "bfloat16")]
    assert found["scan"] == found["sum"] == [("float32", "float32")]
    for a, b in zip(phix.autocast(looped)(X, W), looped(X, W)):
        assert a.dtype == phix.float32
        close(a, b, 16 * BF16)
    close(
        phix.grad(lambda w: ops.sum(phix.autocast(looped)(X, w)[0]))(W),
        phix.grad(lambda w: ops.sum(looped(X, w)[0]))(W),
        32 * BF16,
    )

    def branched(p: Any, x: Any, w: Any) -> Any:
        return phix.cond(p, lambda: ops.matmul(x, w), lambda: x * 2.0)

    close(phix.autocast(branched)(True, X, W), ops.matmul(X, W))
    assert equations(phix.autocast(branched), True, X, W)["matmul"] == [("bfloat16", "bfloat16")]


def test_rules_of_the_users_own_see_float32() -> None:
    @phix.custom_vjp
    def f(x: Any) -> Any:
        return ops.matmul(x, x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2.0,))
    found = phix.grad(phix.autocast(lambda x: ops.sum(f(x))))(W)
    np.testing.assert_array_equal(found.numpy(), np.full((8, 8), 2.0, "float32"))


PARTS = 3  # of the table


@pytest.mark.one_in(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("order", [0, 1])
def test_every_op_takes_what_it_is_given(order: int, part: int) -> None:
    """Of each sample of the op table, lowered as far as its op allows, the graph is well-formed."""
    for case in list(table_cases())[part::PARTS]:
        for call in () if "elsewhere" in case.test else case.calls():
            args = [phix.to_tensor(a) for a in call.arrays]
            floats = tuple(i for i, a in enumerate(args) if a.dtype == phix.float32)
            is_partial = "nondifferentiable" in case.op.traits or "grad" in case.test
            if not floats or (order and is_partial):
                continue

            def f(*tensors: Any) -> Any:
                scaled = [t * 1.5 if t.dtype == phix.float32 else t for t in tensors]
                return call.fn(*scaled)  # noqa: B023 - called right here

            def summed(*tensors: Any) -> Any:
                return sum(ops.sum(out) for out in f(*tensors) if out.dtype == phix.float32) + 0.0

            function = phix.grad(summed, argnums=floats) if order else f
            wanted = phix.make_graph(function)(*args)
            graph = phix.make_graph(phix.autocast(function, allow="multiply"))(*args)
            phix.check_graph(graph)
            metas = [[str(out.meta) for out in g.outputs] for g in (wanted, graph)]
            assert metas[0] == metas[1], call


def test_errors() -> None:
    with pytest.raises(phix.errors.UnknownOpError, match=r"no op 'matmull'.*matmul"):
        phix.autocast(network, allow="matmull")
    with pytest.raises(phix.errors.UnknownOpError, match="no op 'sofmax'"):
        phix.autocast(network, deny=["sofmax"])
    with pytest.raises(phix.errors.DTypeError, match="bfloat16 or float16, found float64"):
        phix.autocast(network, "float64")
    with pytest.raises(phix.errors.ArgumentError, match="'exp' is both in allow and in deny"):
        phix.autocast(network, allow="exp", deny=["exp"])
    with pytest.raises(phix.errors.DTypeError, match=r"cholesky takes float32.*not float16"):
        phix.autocast(network, "float16", allow="cholesky")
    with pytest.raises(phix.errors.ArgumentError, match="must be a function"):
        phix.autocast(3)


def test_an_entry_says_one_thing(tmp_path: Any) -> None:
    table = tmp_path / "ops.yaml"
    table.write_text(
        "- op: twofold\n  args: (Tensor x)\n  output: Tensor(out)\n"
        "  infer_meta: {func: UnchangedInferMeta}\n  doc: Both.\n"
        "  traits: [low_precision, full_precision]\n"
    )
    with pytest.raises(phix.errors.OpTableError, match=r"ops.yaml:6.*keep one"):
        phix.load_ops(str(table))
    assert "twofold" not in OPS
    assert "low_precision" in OPS["conv2d"].traits and "full_precision" in OPS["rms_norm"].traits
