"""Shardings propagated: what plans compute, which steps they have, and what they refuse."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phix
from harness.cases import Call, table_cases
from phix import ops
from phix.core.errors import ArgumentError, GatheredWarning, ShapeError
from phix.core.rules import OPS
from phix.parallel import movement_rules, planning, sharding_rules
from tests import random_shardings, sharding_cases

pytestmark = pytest.mark.unoptimised

X = np.arange(1.0, 49.0).reshape(8, 6) / 10
# Made whole wherever they stand, with a warning.
UNCOVERED = {
    "all_gather", "all_to_all", "all_to_allv", "axis_index", "debug_callback", "io_copy_like",
    "ppermute", "psum", "psum_scatter", "pure_callback", "pvary", "rank_step",
}  # fmt: skip
AXES = {"a": 2, "b": 3}
BY_THE_PLANNER = {"branch", "optimization_barrier", "scan", "while_loop"}
PRIMITIVES = [
    c for c in table_cases()
    if c.op.is_primitive and "elsewhere" not in c.test and "random" not in c.op.traits
]  # fmt: skip


def virtual(**axes: int) -> Any:
    return phix.parallel.mesh(axes, virtual=True)


def sharded(f: Any, in_specs: Any = "data", out_specs: Any = None, **axes: int) -> Any:
    return phix.parallel.shard(f, virtual(**(axes or {"data": 2})), in_specs, out_specs)


# -- what comes out of it --------------------------------------------------------------------------
@pytest.mark.parametrize("number", range(3))
def test_cases_on_virtual_meshes(number):
    """Megatron's two sums a block and direction; the gathered weights and scattered gradients."""
    axes, cases = [
        ({"model": 4 if number else 2}, sharding_cases.on_model()),
        ({"data": 2}, sharding_cases.on_data(virtual(data=2))),
        ({"data": 2, "model": 2}, sharding_cases.on_both()),
    ][number]
    for name, case in cases.items():
        sharding_cases.check(name, case, virtual(**axes), jitted=name == "mlp, gradient")


def test_every_primitive_has_a_rule():
    known = sharding_rules.RULES.keys() | BY_THE_PLANNER | UNCOVERED
    assert movement_rules  # they are registered
    rest = {o.name for o in OPS.values() if o.is_primitive} - known
    assert {n for n in rest if not OPS[n].traits & {"pointwise", "matrices"}} <= set()


@pytest.mark.parametrize("group", range(6))
def test_primitives_divided_at_random(group, seed):
    """A sample of each primitive in the table, by a random plan."""
    rng = np.random.default_rng([seed, group])
    for case in PRIMITIVES[group::6]:
        calls = list(dataclasses.replace(case, seed=seed).calls())
        call = calls[int(rng.integers(len(calls)))]
        outs = results(call)
        specs = tuple(random_shardings.random_spec(rng, a.shape, AXES) for a in arrays_of(call))
        divided(call, specs, [random_shardings.random_spec(rng, w.shape, AXES) for w in outs], rng)


@pytest.mark.parametrize("group", range(4))
def test_a_slice_of_all_divisions(group, seed):
    """Of every primitive one division of one sample, another one for each seed."""
    for number, case in enumerate(PRIMITIVES[group::4]):
        calls = list(dataclasses.replace(case, seed=seed).calls())
        call = calls[(seed + number) % len(calls)]
        ways = list(itertools.product(divisions(arrays_of(call)), divisions(results(call))))
        divided(call, *ways[(seed * 31 + 7 * number) % len(ways)], np.random.default_rng(seed))


@pytest.mark.prove
@pytest.mark.parametrize("case", PRIMITIVES, ids=str)
def test_every_division_of_every_sample(case, seed):
    """Each primitive's samples, their operands and results divided in up to two dims each."""
    for call in dataclasses.replace(case, seed=seed).calls():
        for specs in divisions(arrays_of(call)):
            for outs in divisions(results(call)):
                divided(call, specs, outs, np.random.default_rng(seed))


def divisions(arrays: list[np.ndarray]) -> Iterator[tuple[Any, ...]]:
    """Specs of all of them: each axis divides nothing, or one dim of one of them, or all dims
    of one size at the same place, as an elementwise op's are."""
    places = [(k, d) for k, a in enumerate(arrays) for d in range(a.ndim)]
    for ways in itertools.product(*(_ways(arrays, places, size) for size in AXES.values())):
        if set.isdisjoint(*ways):
            specs = [[None] * a.ndim for a in arrays]
            for name, way in zip(AXES, ways):
                for k, d in way:
                    specs[k][d] = name
            yield tuple(map(tuple, specs))


def _ways(
    arrays: list[np.ndarray], places: list[tuple[int, int]], size: int
) -> list[set[tuple[int, int]]]:
    """The sets of dims that an axis may divide together."""
    fits = [(k, d) for k, d in places if (n := arrays[k].shape[d]) and n % size == 0]
    alike: dict[Any, set[tuple[int, int]]] = defaultdict(set)
    for k, d in fits:
        alike[arrays[k].ndim - d, arrays[k].shape[d]].add((k, d))
    return [set(), *({place} for place in fits), *(w for w in alike.values() if len(w) > 1)]


def arrays_of(call: Call) -> list[np.ndarray]:
    return list(call.at(list(range(len(call.names))))[1])


def results(call: Call) -> list[np.ndarray]:
    fn, arrays = call.at(list(range(len(call.names))))
    return [np.asarray(v) for v in fn(*map(phix.to_tensor, arrays))]


def divided(call: Call, specs: Any, outs: Any, rng: np.random.Generator) -> None:
    """A call in parts, by a random plan, has the results of the call."""
    fn, arrays = call.at(list(range(len(call.names))))
    wanted = results(call)
    with random_shardings.random_plans(rng), warnings.catch_warnings():
        warnings.simplefilter("ignore", GatheredWarning)
        found = sharded(lambda *a: tuple(fn(*a)), specs, tuple(outs), **AXES)(*arrays)
    for one, other in zip(found, wanted, strict=True):
        low = other.dtype.itemsize == 2 and other.dtype.kind not in "iub"
        bound = 0 if other.dtype.kind in "iub" else 2e-2 if low else 2e-5
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            np.asarray(one, complex), np.asarray(other, complex), rtol=bound, atol=bound,
            err_msg=f"{call}, {specs} to {outs}",
        )  # fmt: skip


@pytest.mark.parametrize("group", range(4))
def test_random_programs_with_random_shardings(group, seed):
    first = 100_000 * seed + 3 * group
    outcomes = map(random_shardings.run_draw, range(first, first + 3))
    reports = [o.report() for o in outcomes if o.error]
    assert not reports, "\n\n".join(reports)


def test_a_table_of_which_each_part_has_rows():
    """What points into another part's rows comes from there, negative indices too; gradients go to
    the rows of each part."""
    table, at = sharding_cases.drawn(64, 3), np.array([[-1, 0, 63], [31, 32, -64]])
    lookup = sharded(lambda t, i: ops.gather(t, i), (("data", None), None), data=4)
    assert [c.kind for c in lookup.explain(table, at).collectives] == ["psum"]
    np.testing.assert_array_equal(lookup(table, at), table[at])
    loss = phix.grad(lambda t, i: (t[i] ** 2).sum())
    found = sharded(loss, ("data", None), "data", data=4)(table, at)
    expected = np.zeros_like(table)
    np.add.at(expected, at, 2 * table[at])
    np.testing.assert_allclose(found, expected)
    beyond = np.array([64, -65])  # the nearest row, as in compiled code
    np.testing.assert_array_equal(phix.jit(lookup)(table, beyond), table[[63, 0]])


INF = np.inf
TABLE, ROWS = np.array([[1.0, -2], [3, 4], [5, 6], [7, 8]]), np.array([0, 3, 1])
PARTS = np.array([[1.0, 2], [5, 6], [0, 0], [0, 0]])
SCALE = np.array([INF, 2.0])
BEYOND = np.array([[INF, 1.0], [1, -INF]])
AT_INFINITY = {
    "lookup times inf": (lambda x, at, _: x[at] * INF, TABLE),
    "lookup times a scale": (lambda x, at, scale: x[at] * scale, TABLE),
    "lookup over zero": (lambda x, at, _: x[at] / 0.0, TABLE),
    "sum times inf": (lambda x, *_: x.sum(0) * INF, PARTS),
    "sum times a scale": (lambda x, _, scale: scale * x.sum(0), PARTS),
    "sum over zero": (lambda x, *_: x.sum(0) / 0.0, PARTS),
    "sum scaled": (lambda x, *_: ops.scale(x.sum(0), INF), PARTS),
    "sum of products": (lambda x, *_: x.sum(0) @ BEYOND, PARTS),
    "infinite numbers": (lambda x, *_: x.sum(0) * 2.0, np.where(PARTS == 5, INF, PARTS)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("name", AT_INFINITY)
def test_what_pends_meets_infinities_as_the_whole_does(name):
    """The zeros that a part has are not multiplied by what may be infinite."""
    call, x = AT_INFINITY[name]
    found = sharded(call, ("data", None, None))(x, ROWS, SCALE)
    wanted = x.sum(0) * INF if name == "sum scaled" else call(x, ROWS, SCALE)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_in_half_precision_are_rounded_once(dtype):
    """What a part adds may be beyond the largest number, or between two of them."""
    x = phix.ops.cast(np.array([60000, 60000, -60000, -60000], np.float32), dtype)
    fine = phix.ops.cast(np.array([256, 1, 0.5, 0.5, 0.5, 0.25, 0.125, 0.125], np.float32), dtype)
    for f in (lambda v: v.sum(), lambda v: ops.reduce_as(v, phix.zeros([1], v.dtype))):
        total = sharded(f)
        assert total(x).numpy() == 0
        assert total(fine).numpy() == f(fine).numpy()
        assert [c.kind for c in total.explain(x).collectives] == ["psum"]


def test_what_is_cheap_at_first_and_dear_further_on_is_not_taken():
    """A table divided by columns, whose rows are asked for by parts of a batch: to keep columns
    moves words alone, and all that every layer makes."""

    def loss(table, layers, words):
        x = ops.embedding(words, table)
        for w in layers:
            x = x + ops.tanh(x @ w) @ w
        return (x**2).mean()

    columns = (None, "data")
    mesh = phix.parallel.mesh({"data": 16}, virtual=True)
    step = phix.parallel.shard(
        phix.value_and_grad(loss), mesh, (columns, None, "data"), (None, columns)
    )
    table, layers = phix.spec([8000, 256]), [phix.spec([256, 256])] * 3
    plan = step.explain(table, layers, phix.spec([256, 256], "int64"))
    assert [c.kind for c in plan.collectives] == ["all_gather", "psum", "psum_scatter"]
    assert max(c.bytes for c in plan.collectives) == 8000 * 256 * 4 * 15 / 16


def test_a_call_takes_the_plan_of_the_same_graph(monkeypatch):
    """What the function closes over is as it is in each call."""
    made, plan, factor = [], planning.best_plan, [2.0]
    monkeypatch.setattr(planning, "best_plan", lambda *a: made.append(1) or plan(*a))
    f = sharded(lambda x: factor[0] * x.sum(0), "data")
    for factor[0], count in ((2.0, 1), (2.0, 1), (3.0, 2), (2.0, 2)):
        np.testing.assert_allclose(f(X), factor[0] * X.sum(0))
        assert len(made) == count
    np.testing.assert_allclose(f(X[:4]), 2 * X[:4].sum(0))
    assert len(made) == 3


def test_sums_of_a_loop_are_summed_behind_it():
    """What a body adds up pends until the end: one step between the parts, not one a turn."""
    turns, zero = phix.to_tensor(X[:3, 0]), phix.zeros([6], "float64")
    f = sharded(lambda x: phix.scan(lambda c, w: (c + (w * x).sum(0), None), zero, turns)[0])
    plan = f.explain(X)
    assert [(c.kind, c.times) for c in plan.collectives] == [("psum", 1)], plan
    np.testing.assert_allclose(f(X), X.sum(0) * X[:3, 0].sum())


def test_loops_and_branches():
    def f(x: Any) -> Any:
        grown = phix.while_loop(lambda c: (c**2).sum() < 1e4, lambda c: 1.5 * c, x)
        turned = phix.cond(x.sum() > 3.0, lambda v: v - v.mean(0), lambda v: v, grown)
        return phix.fori_loop(0, 3, lambda i, c: ops.sin(c + i), turned)

    x = phix.to_tensor(X)
    for specs in (("data", "data"), ((None, "data"), None)):
        np.testing.assert_allclose(sharded(f, *((s,) if s else s for s in specs))(X), f(x), 1e-10)
    slope = phix.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(phix.jit(sharded(slope, "data", "data"))(X), slope(x), rtol=1e-9)


def test_sizes_that_depend_on_data():
    f = lambda x: x[ops.nonzero(x > 3.0)[:, 0]].sum(0)  # noqa: E731
    np.testing.assert_allclose(sharded(f)(X), f(phix.to_tensor(X)))


def test_random_numbers_are_those_of_one_process():
    def f(key: Any, x: Any) -> Any:
        noise = phix.random.normal(key, x.shape, "float64")
        return ops.dropout(x + noise, key, 0.5)

    key = phix.random.key(5)
    wanted = f(key, phix.to_tensor(X))
    for axes, spec in (({"data": 2}, "data"), ({"data": 4, "model": 2}, ("data", "model"))):
        found = sharded(f, (None, spec), spec, **axes)
        np.testing.assert_array_equal(found(key, X), wanted)


def test_derivatives_from_outside():
    @phix.custom_vjp
    def odd(x: Any) -> Any:
        return x * x

    odd.defvjp(lambda x: (odd(x), x), lambda x, ct: (100 * ct * x,))
    x = phix.to_tensor(X)
    f = lambda x: (ops.tanh(x) * phix.stop_gradient(x)).sum()  # noqa: E731
    np.testing.assert_allclose(phix.grad(sharded(f))(x), phix.grad(f)(x), rtol=1e-12)
    inside = sharded(phix.grad(lambda x: odd(x).sum()), "data", "data")
    np.testing.assert_allclose(inside(X), 100 * X)
    with pytest.raises(ArgumentError, match="take the derivative inside"):
        phix.grad(phix.jit(sharded(lambda x: odd(x).sum())))(x)


def test_the_plan_is_explained():
    f = sharded(lambda x, w: ops.tanh(x @ w), (None, "data"), None)
    plan = f.explain(phix.spec([8, 64]), phix.spec([64, 4]))
    text = str(plan)
    parts = [
        "x: float32[8, 64] [-, -]",
        "w: float32[64, 4] [data, -]",
        "a: float32[8, 4] [-, -] + pending over data = matmul(x, w)",
        "-> psum over data of a, 128 B",
        "test_sharding.py:",
        "b: float32[8, 4] [-, -] = tanh(a)",
        "1 psum over data: 128 B a part",
    ]
    for part in parts:
        assert part in text, text
    (step,) = plan.collectives
    assert (step.kind, step.axis, step.value, step.op, step.times) == (
        "psum", "data", "a", "tanh", 1,
    )  # fmt: skip
    assert step.source is not None and step.source.file == __file__
    assert "no steps between the parts" in str(sharded(ops.exp, out_specs="data").explain(X))


def test_what_no_rule_covers_is_whole_and_said():
    f = sharded(lambda x: phix.pure_callback(np.sort, phix.spec([8, 6], "float64"), x))
    with pytest.warns(GatheredWarning, match="how pure_callback is divided") as seen:
        np.testing.assert_array_equal(f(X[::-1]), np.sort(X[::-1]))
    assert seen[0].filename == __file__
    assert [e.op.name for e in f.explain(X).uncovered] == ["pure_callback"]


def test_shardings_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"in_shardings says \('data',\) of float64\[7, 6\]"):
        sharded(lambda x: x)(X[:7])
    with pytest.raises(ShapeError, match=r"out_shardings says \('data',\) of float64\[7, 6\]"):
        sharded(lambda x: x[:7], None, "data")(X)
    np.testing.assert_allclose(sharded(lambda x: x[:7].sum(0))(X), X[:7].sum(0))
    with pytest.raises(ArgumentError, match="whose size is not known"):
        sharded(lambda x: x).explain(phix.spec(["n", 6]))
    assert "[-1, 6]" in str(sharded(ops.exp, ((None, "data"),)).explain(phix.spec([-1, 6])))
    with pytest.raises(ArgumentError, match="'model' is no axis"):
        sharded(lambda x: x, "model")(X)
    with pytest.raises(ArgumentError, match="no axis 'data' is bound here"):
        sharded(lambda x: phix.psum(x, "data"))(X)
