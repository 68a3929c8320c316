"""vmap with a name, a size or chunks, and what lanes say to each other over a named axis."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import phix
from loaded_ops import loading
from phix import ops
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError

pytestmark = pytest.mark.unoptimised

X = np.arange(1.0, 4.0)


def over_i(f, **options):
    return phix.vmap(f, axis_name="i", **options)


def test_sums_and_extremes():
    both = over_i(lambda x: (phix.psum(x, "i"), phix.pmean(x, "i"),
                             phix.pmax(x, "i"), phix.pmin(x, "i")))(X)  # fmt: skip
    for found, expected in zip(both, (6.0, 2.0, 3.0, 1.0)):
        np.testing.assert_array_equal(found, np.full(3, expected))
    assert over_i(lambda x: phix.psum(x, "i"), out_axes=None)(X).item() == 6.0
    np.testing.assert_array_equal(over_i(lambda x: phix.psum(1, "i"))(X), [3, 3, 3])
    np.testing.assert_array_equal(over_i(lambda x: phix.psum(x > 1, "i"))(X), [2, 2, 2])
    tree = over_i(lambda x: phix.psum({"a": x, "b": 2.0}, "i"))(X)
    assert tree["a"][0].item() == 6.0 and tree["b"][0].item() == 6.0


def test_movement():
    rows = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(over_i(lambda r: phix.all_gather(r, "i"))(rows), [rows] * 3)
    np.testing.assert_array_equal(
        over_i(lambda r: phix.all_gather(r, "i", axis=-1))(rows), [rows.T] * 3
    )
    np.testing.assert_array_equal(over_i(lambda r: phix.psum_scatter(r, "i"))(rows), rows.sum(0))
    np.testing.assert_array_equal(over_i(lambda r: phix.all_to_all(r, "i", 0, 0))(rows), rows.T)
    shifted = over_i(lambda x: phix.ppermute(x, "i", [(0, 1), (1, 2)]))(X)
    np.testing.assert_array_equal(shifted, [0, 1, 2])
    np.testing.assert_array_equal(over_i(lambda x: phix.axis_index("i") + x)(X), X + [0, 1, 2])
    blocks = np.arange(24.0).reshape(2, 4, 3)
    tiled = over_i(lambda b: phix.all_to_all(b, "i", 0, 1, tiled=True))(blocks)
    np.testing.assert_array_equal(tiled[1], np.concatenate(blocks[:, 2:], axis=1))
    gathered = over_i(lambda b: phix.all_gather(b, "i", axis=1, tiled=True))(blocks)
    np.testing.assert_array_equal(gathered[0], np.concatenate(blocks, axis=1))
    scattered = over_i(lambda b: phix.psum_scatter(b, "i", tiled=True))(blocks)
    np.testing.assert_array_equal(scattered[1], blocks.sum(0)[2:])
    columns = over_i(lambda b: phix.psum_scatter(b, "i", scatter_dimension=-2, tiled=True))(blocks)
    np.testing.assert_array_equal(columns, scattered)
    scatter = over_i(lambda b: phix.psum_scatter(b, "i", scatter_dimension=1))
    np.testing.assert_array_equal(scatter(blocks[:, :, :2])[1], blocks.sum(0)[:, 1])


def test_nested_names():
    m = np.arange(6.0).reshape(2, 3)

    def f(x):
        return phix.psum(x, "i") + 10 * phix.psum(x, "j") + 100 * phix.psum(x, ("i", "j"))

    nested = phix.vmap(phix.vmap(f, axis_name="j"), axis_name="i")
    expected = m.sum(0) + 10 * m.sum(1, keepdims=True) + 100 * m.sum()
    for run in (nested, phix.jit(nested), phix.vmap(phix.jit(phix.vmap(f, axis_name="j")),
                                                    axis_name="i")):  # fmt: skip
        np.testing.assert_array_equal(run(m), expected)
    gather = phix.vmap(
        phix.vmap(lambda x: phix.all_gather(x, "i"), axis_name="j"), axis_name="i", out_axes=None
    )
    np.testing.assert_array_equal(gather(m), m.T)


LINEAR = {
    "psum": lambda x: phix.psum(x, "i"),
    "pmean": lambda x: phix.pmean(x, "i"),
    "all_gather": lambda x: phix.all_gather(x, "i", axis=1),
    "psum_scatter": lambda x: phix.psum_scatter(x, "i"),
    "all_to_all": lambda x: phix.all_to_all(x, "i", 0, 1),
    "ppermute": lambda x: phix.ppermute(x, "i", [(0, 1), (1, 0)]),
}


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_inside_and_outside(name, rng):
    f = LINEAR[name]
    x, t = rng.normal(size=(2, 2, 2, 3))
    out, pull = phix.vjp(over_i(f), x)
    ct = rng.normal(size=out.shape)
    transposed = pull(ct)[0].numpy()
    tangent = phix.jvp(over_i(f), (x,), (t,))[1].numpy()
    assert np.sum(transposed * t) == pytest.approx(np.sum(ct * tangent), rel=1e-12)
    inside = over_i(lambda x, c: phix.vjp(f, x)[1](c)[0])(x, ct)
    np.testing.assert_allclose(inside, transposed, rtol=1e-12)
    forward = over_i(lambda x, t: phix.jvp(f, (x,), (t,))[1])(x, t)
    np.testing.assert_allclose(forward, tangent, rtol=1e-12)


def test_gradients_of_sums_and_extremes():
    np.testing.assert_allclose(over_i(phix.grad(lambda x: phix.psum(x * x, "i")))(X), 6 * X)
    total = lambda x: ops.sum(over_i(lambda x: phix.psum(x * x, "i"))(x))  # noqa: E731
    np.testing.assert_allclose(phix.grad(total)(X), 6 * X)
    largest = over_i(phix.grad(lambda x: phix.pmax(x * x, "i")))
    np.testing.assert_allclose(largest(X), [0, 0, 18.0])
    weight = lambda w: ops.sum(over_i(lambda x: phix.pmean(w * x, "i"))(X))  # noqa: E731
    assert phix.grad(weight)(1.0).item() == 6.0


def test_inside_jit_scan_and_checkpoint():
    f = phix.jit(lambda x: phix.psum(x, "i") * 2.0)
    np.testing.assert_array_equal(over_i(f)(X), np.full(3, 12.0))
    np.testing.assert_array_equal(phix.jit(over_i(f))(X), np.full(3, 12.0))
    with pytest.raises(ArgumentError, match="no axis 'i'"):
        f(X)  # the trace made under vmap is not taken
    stepped = lambda x: phix.scan(lambda c, _: (c * phix.psum(x, "i"), None), x, length=2)[0]  # noqa: E731
    np.testing.assert_array_equal(over_i(stepped)(X), X * 36)
    np.testing.assert_allclose(over_i(phix.grad(stepped))(X), np.full(3, 36 + 2 * 6 * 6.0))
    alike = lambda x: phix.scan(lambda c, _: (c + phix.psum(1.0, "i"), None), 0.0, length=2)[0]  # noqa: E731
    np.testing.assert_array_equal(over_i(alike)(X), [6.0, 6.0, 6.0])
    again = over_i(phix.grad(phix.checkpoint(lambda x: phix.psum(ops.sin(x), "i"))))
    np.testing.assert_allclose(again(X), 3 * np.cos(X))


def test_inside_a_custom_rule():
    @phix.custom_vjp
    def f(x):
        return phix.psum(x, "i")

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (10.0 * phix.psum(ct, "i"),))
    total = lambda x: ops.sum(over_i(f)(x))  # noqa: E731
    for run in (phix.grad(total), over_i(phix.grad(f)), phix.jit(phix.grad(total))):
        np.testing.assert_array_equal(run(X), np.full(3, 30.0))


def test_unbound_names_and_wrong_arguments():
    with pytest.raises(ArgumentError, match=r"no axis 'i' is bound here \(bound: none\)"):
        phix.psum(1.0, "i")
    with pytest.raises(ArgumentError, match="bound: 'i'"):
        over_i(lambda x: phix.psum(x, "k"))(X)
    with pytest.raises(AttributeValueError, match="receive once"):
        over_i(lambda x: phix.ppermute(x, "i", [(0, 1), (2, 1)]))(X)
    with pytest.raises(AttributeValueError, match="lanes 0 to 2"):
        over_i(lambda x: phix.ppermute(x, "i", [(0, 3)]))(X)
    with pytest.raises(ShapeError, match="size of the axis 'i'"):
        over_i(lambda r: phix.psum_scatter(r, "i"))(np.ones((3, 2)))


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("moved", [
    lambda x, axis, tiled: phix.all_gather(x, "i", axis=axis, tiled=tiled),
    lambda x, axis, tiled: phix.psum_scatter(x, "i", scatter_dimension=axis, tiled=tiled),
    lambda x, axis, tiled: phix.all_to_all(x, "i", axis, 0, tiled=tiled),
    lambda x, axis, tiled: phix.all_to_all(x, "i", 0, axis, tiled=tiled),
])  # fmt: skip
def test_axes_that_are_not_there(moved, tiled):
    for rows, axis in ((np.ones((3, 3, 3)), 6), (np.ones((3, 3, 3)), -4), (X, 1)):
        with pytest.raises(AttributeValueError, match=r"dims|must be in"):
            over_i(lambda r, at=axis: moved(r, at, tiled))(rows)


def test_names_in_prefixes_are_those_of_the_tree():
    """By name, in whatever order a mapping has them."""
    tree = OrderedDict(b=X, a=np.ones((3, 2)))
    found = phix.vmap(lambda t: t["a"] * t["b"].sum(), in_axes=({"a": 0, "b": None},))(tree)
    np.testing.assert_array_equal(found, np.full((3, 2), 6.0))
    with pytest.raises(ArgumentError, match=r"\{'a': 0, 'c': None\}.* is no prefix"):
        phix.vmap(lambda t: t["a"], in_axes=({"a": 0, "c": None},))(tree)
    mesh = phix.parallel.mesh({"data": 3}, virtual=True)
    with pytest.raises(ArgumentError, match=r"in_specs.* is no prefix"):
        phix.parallel.spmd(lambda t: phix.psum(t["v"], "data"), mesh, ({"w": "data"},))({"v": X})


# -- sizes and chunks ------------------------------------------------------------------------
def test_axis_size():
    lanes = phix.vmap(lambda: phix.axis_index("i"), axis_size=3, axis_name="i")()
    np.testing.assert_array_equal(lanes, [0, 1, 2])
    np.testing.assert_array_equal(phix.vmap(lambda x: x, in_axes=None, axis_size=2)(1.0), [1, 1])
    with pytest.raises(ArgumentError, match="one size"):
        phix.vmap(lambda x: x, axis_size=4)(X)
    assert over_i(lambda x: x * phix.axis_size("i"))(X)[0].item() == 3.0


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 9])
def test_chunks(chunk):
    y = np.arange(20.0).reshape(4, 5)
    f = lambda a, b: (ops.sum(a) * b["k"], a)  # noqa: E731
    options = {"in_axes": (1, None), "out_axes": (0, 1)}
    chunked = phix.vmap(f, chunk_size=chunk, **options)
    for run in (chunked, phix.jit(chunked)):
        sums, same = run(y, {"k": 2.0})
        np.testing.assert_array_equal(sums, 2 * y.sum(0))
        np.testing.assert_array_equal(same, y)
    gradient = phix.grad(lambda k: ops.sum(chunked(y, {"k": k})[0]))
    assert gradient(np.float64(2.0)).item() == y.sum()


def test_chunks_that_cannot_be():
    with pytest.raises(ArgumentError, match="leave out axis_name or chunk_size"):
        phix.vmap(lambda x: x, axis_name="i", chunk_size=2)
    with pytest.raises(ArgumentError, match="must be an int from 1"):
        phix.vmap(lambda x: x, chunk_size=0)
    needs = "chunk_size needs a mapped argument of a size that is known"
    with pytest.raises(ArgumentError, match=needs):
        phix.jit(phix.vmap(lambda x: x, chunk_size=2)).lower(phix.spec(["n"]))
    with pytest.raises(ArgumentError, match=needs):
        phix.vmap(lambda x: x, in_axes=None, axis_size=4, chunk_size=2)(X)


# -- ops without a batching rule -------------------------------------------------------------------
@pytest.fixture
def no_rules(monkeypatch):
    for name in ("topk", "concat"):
        monkeypatch.setattr(rules.OPS[name], "batch_rule", None)


def test_an_op_without_a_batching_rule_runs_lane_by_lane(no_rules):
    rows = np.array([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
    values, order = phix.vmap(lambda r: ops.topk(r, 2))(rows)
    np.testing.assert_array_equal(values, [[3, 2], [6, 5]])
    np.testing.assert_array_equal(order, [[0, 2], [1, 0]])
    joined = phix.vmap(lambda r: ops.concat([r, X, r[:1]], 0))(rows)
    np.testing.assert_array_equal(joined, [[*r, *X, r[0]] for r in rows])


def test_an_op_without_a_batching_rule_in_batches_of_any_size(no_rules):
    best = phix.vmap(lambda r: ops.topk(r, 2))
    counted = phix.jit(best, input_spec=[phix.spec(["n", 3], "float64")])
    rows = np.array([[3.0, 1.0, 2.0], [5.0, 6.0, 4.0]])
    for f in (best, counted):
        for n in (0, 1, 2):
            values, order = f(rows[:n])
            np.testing.assert_array_equal(values, -np.sort(-rows[:n])[:, :2])
            np.testing.assert_array_equal(order, np.argsort(-rows[:n])[:, :2])
            assert order.dtype == np.int64
    joined = phix.vmap(lambda r: ops.concat([r, X, r[:1]], 0))(rows[:0])
    assert joined.shape == (0, 4 + len(X)) and joined.dtype == np.float64


# -- ops without a rule ------------------------------------------------------------------------
_DRAWN = """
- op: drawn_sum
  args: (Tensor x, Tensor key)
  output: Tensor(out)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  kernel: {data_type: x}
  backward: drawn_sum_grad
- backward_op: drawn_sum_grad
  forward: drawn_sum (Tensor x, Tensor key) -> Tensor(out)
  args: (Tensor x, Tensor key, Tensor out_grad)
  output: Tensor(x_grad)
  infer_meta: {func: UnchangedInferMeta, param: [x]}
  kernel: {data_type: x}
"""


@pytest.mark.parametrize("lanes", [3, 40])
def test_an_op_without_a_rule_is_one_call_a_lane_or_a_loop_of_them(tmp_path, lanes):
    """Few lanes are written out, many are a loop: the same values, derivatives, random numbers, and
    the lanes one after the other."""
    seen = []
    with loading(tmp_path) as load, phix.scoped_registries():
        op = load(_DRAWN).drawn_sum

        @phix.kernels.register_kernel("drawn_sum", "CPU", dtypes="float64")
        def drawn_sum(ctx, x, key, out):
            seen.append(float(x[0]))
            out[...] = np.cumsum(x**2) + key.sum() % 97

        @phix.kernels.register_kernel("drawn_sum_grad", "CPU", dtypes="float64")
        def drawn_sum_grad(ctx, x, key, out_grad, x_grad):
            x_grad[...] = 2 * x * np.cumsum(out_grad[::-1])[::-1]

        def loss(x, key):
            return ops.sum(op(x, key) * phix.random.normal(key, [4], "float64"))

        def mapped(x, keys):
            value, slope = phix.vmap(phix.value_and_grad(loss))(x, keys)
            return value, slope, phix.vmap(op)(x, keys) * x

        x = np.arange(lanes * 4.0).reshape(lanes, 4)
        keys = phix.random.split(phix.random.key(3), lanes)
        found = phix.jit(mapped)(x, keys)
        assert seen == [*x[:, 0]] * (len(seen) // lanes) and seen
        length = len(str(phix.make_graph(phix.vmap(op))(x, keys)).splitlines())
        twice = phix.jit(phix.vmap(phix.vmap(op, (0, None)), (None, 0)))(x[:2], keys)
        each = [(*phix.value_and_grad(loss)(r, k), op(r, k) * r) for r, k in zip(x, keys)]
        for one, wanted in zip(found, zip(*each)):
            np.testing.assert_allclose(one, np.stack([w.numpy() for w in wanted]), rtol=1e-12)
        for one, k in zip(twice, keys):
            np.testing.assert_array_equal(one, [op(r, k) for r in x[:2]])
    assert length < 20


_SAID = """
- {op: said, args: "(Tensor x, int tag)", output: Tensor(out), traits: [side_effect],
   infer_meta: {func: UnchangedInferMeta, param: [x]}}
"""


def test_effects_of_many_lanes_come_in_the_order_of_eager_calls(tmp_path):
    """Those of a loop over the lanes, of loops in the lanes, and of results that nobody reads."""
    seen = []
    with loading(tmp_path) as load, phix.scoped_registries():
        op = load(_SAID).said

        @phix.kernels.register_kernel("said", "CPU", dtypes="float64")
        def said(ctx, x, tag, out):
            seen.append((tag, float(x[0])))
            out[...] = x + 1

        def lane(r):
            op(r * 3, 1)
            after = phix.fori_loop(0, 2, lambda _, c: op(c, 2), op(r, 3))
            return op(after, 4)

        x = np.arange(12.0).reshape(6, 2)
        found, orders = [], []
        for f in (phix.vmap(lane), phix.jit(phix.vmap(lane))):
            seen.clear()
            found.append(f(x))
            orders.append(list(seen))
        assert orders[0] == orders[1] and len(orders[0]) == 5 * len(x)
        assert [n for tag, n in orders[0] if tag == 3] == [*x[:, 0]]
        np.testing.assert_array_equal(found[0], x + 4)
        np.testing.assert_array_equal(found[1], x + 4)


@pytest.mark.unoptimised
def test_filters_and_images_of_unknown_many_lanes(rng):
    images, filters = rng.normal(size=(3, 1, 4, 5, 5)), rng.normal(size=(3, 2, 2, 3, 3))

    def f(x, w):
        return phix.vmap(lambda x, w: ops.conv2d(x, w, groups=2))(x, w)

    run = phix.jit(f, input_spec=[phix.spec([-1] * 5, "float64") for _ in range(2)])
    wanted = [ops.conv2d(x, w, groups=2).numpy() for x, w in zip(images, filters)]
    np.testing.assert_allclose(run(images, filters), wanted, rtol=1e-12)
