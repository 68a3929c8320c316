"""Sizes that data tell: eagerly, compiled, with unknown dims and differentiated, against NumPy; and
what is said where a size cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from emulated_gpu import emulated
from phix import ops
from phix.core.errors import ConcretizationError, PhixError, ShapeError
from phix.core.size_checks import SizeCheck
from phix.kernels.cpu.native_program import NativeProgram

pytestmark = pytest.mark.unoptimised

rng = np.random.default_rng(3)
X = rng.normal(size=(3, 4))
MASKS = [X > 0, X > 9, X > -9, X > 1]  # some, none, all, few


def same(found: Any, wanted: Any) -> None:
    """The same numbers in the same shape and dtype; of trees, leaf by leaf."""
    found, wanted = (phix.tree.leaves(v) for v in (found, wanted))
    assert len(found) == len(wanted)
    for f, w in zip(found, map(np.asarray, wanted)):
        assert f.shape == w.shape and f.dtype == w.dtype
        np.testing.assert_allclose(f.numpy(), w, rtol=1e-12, atol=1e-13)


def anywhere(f: Callable[..., Any], *calls: tuple[Any, ...], wanted: Callable[..., Any]) -> None:
    """``f`` eager, compiled, and compiled for unknown dims: one program for all calls."""
    specs = [phix.spec([-1] * np.ndim(a), np.asarray(a).dtype) for a in calls[0]]
    unknown = phix.jit(f, input_spec=specs)
    compiled = phix.jit(f)
    for args in calls:
        expected = wanted(*args)
        for run in (f, compiled, unknown):
            same(run(*map(phix.to_tensor, args)), expected)
    assert unknown.trace_count == 1
    assert compiled.trace_count <= len({tuple(map(np.shape, args)) for args in calls})


def slope(f: Callable[..., Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient of a scalar function by central differences."""
    found = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[k] += sign * step
            ends.append(float(f(moved)))
        found[k] = (ends[0] - ends[1]) / (2 * step)
    return found


def check_gradient(f: Callable[..., Any], x: np.ndarray, *rest: Any, ways: int = 3) -> None:
    """The gradient with respect to ``x``: for unknown dims, then compiled, then eager."""
    value = phix.jit(f)
    expected = slope(lambda v: value(v, *rest).item(), x)
    args = (x, *rest)
    specs = [phix.spec([-1] * np.ndim(a), np.asarray(a).dtype) for a in args]
    unknown = phix.jit(phix.grad(f), input_spec=specs)
    for run in (unknown, phix.jit(phix.grad(f)), phix.grad(f))[:ways]:
        np.testing.assert_allclose(run(*args), expected, rtol=1e-6, atol=1e-7)


# -- masks -----------------------------------------------------------------------------------
def test_nonzero_and_masked_select() -> None:
    calls = [(X, m) for m in MASKS]
    anywhere(lambda x, m: ops.nonzero(m), *calls, wanted=lambda x, m: np.argwhere(m))
    anywhere(ops.masked_select, *calls, wanted=lambda x, m: x[m])
    anywhere(lambda x, m: x[m] * 2.0 + x[m], *calls, wanted=lambda x, m: x[m] * 3)
    anywhere(lambda x, m: x[m], (X[0], X[0] > 0), (X[:, 0], X[:, 0] > 0), (X[0, :0], X[0, :0] > 0),
             wanted=lambda x, m: x[m])  # fmt: skip


Y = rng.normal(size=(2, 3, 4, 3))
PLACES: list[Callable[[Any, Any], Any]] = [
    lambda y, m: y[:, m],
    lambda y, m: y[:, m, 1],
    lambda y, m: y[1, m],
    lambda y, m: y[1, ..., m[0, :3]],
    lambda y, m: y[..., m[:, 0], 0, :],
    lambda y, m: y[None, :, m, 1:],
    lambda y, m: y.at[:, m].set(0.5) if hasattr(y, "at") else np.where(m[..., None], 0.5, y),
]


@pytest.mark.parametrize("f", PLACES)
def test_masks_beside_other_indices(f: Callable[[Any, Any], Any]) -> None:
    run = phix.jit(f)
    for m in MASKS[:3]:
        same(run(Y, m), f(Y, m))
        same(run(Y, m), f(phix.to_tensor(Y), m))
    assert run.trace_count == 1


def test_positions_in_several_blocks() -> None:
    mask = rng.random((2, 20_000)) < np.array([[0.4], [0.001]])
    found = [np.flatnonzero(row) for row in mask]
    for size in (9, 7000, 20_000):
        places = ops.true_positions(mask, size, -1, 1).numpy()
        for row, wanted in zip(places, found):
            count = min(size, len(wanted))
            np.testing.assert_array_equal(row[:count], wanted[:count])
            assert (row[count:] == -1).all()
    same(phix.jit(ops.nonzero)(mask), np.argwhere(mask))


def test_gradients_of_masks() -> None:
    for m in MASKS[:3]:
        check_gradient(lambda x, m: (ops.masked_select(x, m) ** 3.0).sum(), X, m)
        check_gradient(lambda x, m: ops.sin(x[m]).sum() * x[m].sum(), X, m)
    curve = phix.jit(phix.hessian(lambda x: (x[x > 0] ** 3.0).sum()))(X[0])
    np.testing.assert_allclose(curve, np.diag(np.where(X[0] > 0, 6 * X[0], 0)))
    outs, tangents = phix.jit(lambda x: phix.jvp(lambda x: x[x > 0] ** 2.0, (x,), (x,)))(X)
    same((outs, tangents), (X[X > 0] ** 2, 2 * X[X > 0] ** 2))


def test_equal_masks_have_one_size() -> None:
    """Equal calls share a dim; other masks have their own, and runs look whether these agree."""
    graph = phix.make_graph(lambda x, w: x[x > 0] * ops.masked_select(w, x > 0))(X, X)
    assert str(graph).count("dim_value") == 1
    f = phix.jit(lambda x, y: x[x > 0] + y[y > 0])
    same(f(X, X), 2 * X[X > 0])
    with pytest.raises(ShapeError, match=r"add.*test_run_time_sizes"):
        f(X, -X * (X > 1) + X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0] + np.ones(5),
        lambda x: ops.reshape(x[x > 0], [5]),
        lambda x: x[x > 0] @ np.ones(5),
        lambda x: ops.concat([x[x > 0][None], np.ones((1, 5))]),
        lambda x: phix.scan(lambda c, v: (c + (v * x[x > 0] + np.ones(5)).sum(), None), 0.0, x)[0],
        lambda x: phix.scan(lambda c, v: (c + (x[x > v] + np.ones(5)).sum(), None), 0.0, x[:1])[0],
        lambda x: x[x > 0][4],
    ],
)
def test_what_does_not_fit_a_computed_size_raises(f: Callable[[Any], Any]) -> None:
    """Where a size is bound in the middle of a run, the shapes of what follows are looked at."""
    x = np.array([0.0, 1, 1, 1, 1, 0, 0])
    for run in (phix.jit(f), phix.jit(phix.grad(lambda x: f(x).sum()))):
        with pytest.raises(ShapeError, match=r"test_run_time_sizes\.py"):
            run(x)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: ops.crop(x[x > 0.0], [4], [2]), "crop"),
        (lambda x: ops.pad3d(ops.reshape(x[x > 0.0], [1, 1, 1, 1, -1]), [3, 3, 0, 0, 0, 0],
                             "reflect"), "pad3d"),
        (lambda x: phix.cond(x.sum() > 99.0, lambda y: y * 2.0,
                             lambda y: y + ops.crop(y[y > 0.0], [4], [2]).sum(), x), "crop"),
    ],
)  # fmt: skip
def test_what_a_composite_asks_for_is_looked_at(f: Callable[[Any], Any], message: str) -> None:
    """Its primitives would take the nearest elements inside."""
    many, few = np.arange(-3.0, 7.0), np.arange(-7.0, 3.0)
    for run in (f, phix.grad(lambda x: f(x).sum())):
        compiled = phix.jit(run)
        same(compiled(many), np.asarray(run(phix.to_tensor(many))))
        for call in (run, compiled):
            with pytest.raises(PhixError, match=message):
                call(phix.to_tensor(few))
        same(compiled(many), np.asarray(run(phix.to_tensor(many))))


def test_what_does_not_fit_an_unknown_size_inside_a_loop_raises() -> None:
    def total(x: Any) -> Any:
        step = lambda c, _: (c + (x + np.ones(5)).sum(), None)  # noqa: E731
        return phix.scan(step, 0.0, length=2)[0]

    run = phix.jit(total, input_spec=[phix.spec(["n"])])
    assert run(np.ones(5, "f")).item() == 20 and run(np.ones(1, "f")).item() == 20
    with pytest.raises(ShapeError, match=r"add.*test_run_time_sizes\.py"):
        run(np.ones(3, "f"))


_ROWS, _PLACES = phix.spec(["n", 3]), phix.spec(["k"], "int64")


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: x[i],
        lambda x, i: ops.gather_nd(x, i[:, None]),
        lambda x, i: ops.take_along_axis(x, i[:, None], 0),
        lambda x, i: ops.index_sample(ops.transpose(x, [1, 0]), ops.stack([i, i, i])),
        lambda x, i: ops.embedding(i, x),
        lambda x, i: ops.scatter_nd_add(x, i[:, None], ops.full([i.shape[0], 3], 1.0)),
        lambda x, i: ops.put_along_axis(x, ops.stack([i, i, i], 1), ops.ones([i.shape[0], 3]), 0),
    ],
)
def test_nothing_is_read_from_an_empty_axis(read: Callable[[Any, Any], Any]) -> None:
    """How many places there are and how long the axis is are sizes apart: either may be 0."""
    chosen = phix.jit(lambda x, i: read(x, i[i >= 0]), input_spec=[_ROWS, _PLACES])
    whole = phix.jit(read, input_spec=[_ROWS, _PLACES])
    places, none = np.array([0, 0]), np.zeros([0], np.int64)
    for run in (chosen, whole, read):
        with pytest.raises(ShapeError, match="is empty"):
            run(phix.zeros([0, 3]), phix.to_tensor(places))
        assert phix.tree.leaves(run(phix.zeros([0, 3]), phix.to_tensor(none)))[0].size == 0
        assert run(phix.ones([1, 3]), phix.to_tensor(places)).size > 0


def test_nothing_is_read_from_an_empty_axis_in_branches_of_lanes() -> None:
    def f(x: Any, i: Any) -> Any:
        return phix.vmap(lambda k: phix.cond(k == 0, lambda: x[k], lambda: phix.ones([3])))(i)

    run = phix.jit(f, input_spec=[_ROWS, _PLACES])
    assert run(phix.full([1, 3], 2.0), np.array([0, 1])).tolist() == [[2.0] * 3, [1.0] * 3]
    with pytest.raises(ShapeError, match="is empty"):
        run(phix.zeros([0, 3]), np.array([0, 1]))


def test_a_search_in_an_empty_row() -> None:
    f = lambda x, v: ops.searchsorted(x[x > 0], v, False, False)  # noqa: E731
    for row, places in (([-1.0], [0, 0]), ([1.0, 3.0], [1, 2])):
        for run in (f, phix.jit(f)):
            assert run(phix.to_tensor(row), phix.to_tensor([2.0, 4.0])).tolist() == places


def test_places_beyond_the_last_are_a_size_that_is_not_known() -> None:
    spec = [phix.spec([-1], "bool")]
    f = phix.jit(lambda m: ops.true_positions(m, 4, m.shape[0]), input_spec=spec)
    assert f(np.array([True, False, True])).tolist() == [0, 2, 3, 3]
    assert f(np.arange(7) == 4).tolist() == [4, 7, 7, 7]


# -- where a size cannot be had --------------------------------------------------------------
@pytest.mark.parametrize("wrap", [phix.vmap, lambda f: phix.jit(phix.vmap(f)),
                                  lambda f: phix.vmap(phix.jit(f))])  # fmt: skip
def test_a_size_of_each_lane_is_refused(wrap: Any) -> None:
    with pytest.raises(ConcretizationError, match=r"true_positions\(mask, size\)"):
        wrap(lambda x: x[x > 0])(X)
    found = phix.vmap(lambda x: ops.true_positions(x > 0, 2, -1))(X)
    rows = [[*np.flatnonzero(r > 0), -1, -1][:2] for r in X]
    np.testing.assert_array_equal(found, rows)
    # a mask that is the same in every lane is no trouble
    same(wrap(lambda x: x[phix.to_tensor([True, False, True, False])])(X), X[:, [0, 2]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: phix.cond(x[0] > 0, lambda x: x[x > 0], lambda x: x, x),
        lambda x: phix.while_loop(lambda x: x.sum() > 3, lambda x: x[x > 0] * 0.5, x),
        lambda x: phix.scan(lambda c, v: (c, x[x > v]), 0.0, x)[1],
        lambda x: phix.fori_loop(0, 2, lambda i, c: c[c > 0], x),
    ],
)
def test_a_size_does_not_leave_a_loop_or_branch(f: Callable[[Any], Any]) -> None:
    with pytest.raises(ShapeError, match="size that it computes itself"):
        phix.jit(f)(X[0])


def test_sizes_inside_loops_and_branches() -> None:
    def total(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            above = x[x > v]
            return c + (above * above * v).sum(), above.sum()

        c, sums = phix.scan(step, 0.0, x)
        return c + phix.cond(c > 0, lambda s: (s[s > 1] ** 2.0).sum(), lambda s: s.sum(), sums)

    def plain(x: np.ndarray) -> float:
        c, sums = 0.0, []
        for v in x:
            above = x[x > v]
            c += (above * above * v).sum()
            sums.append(above.sum())
        s = np.array(sums)
        return c + ((s[s > 1] ** 2).sum() if c > 0 else s.sum())

    for x in (X.ravel(), np.abs(X.ravel())):
        assert phix.jit(total)(x).item() == pytest.approx(plain(x), rel=1e-12)
        np.testing.assert_allclose(
            phix.jit(phix.grad(total))(x), slope(plain, x), rtol=1e-6, atol=1e-6
        )


def test_what_a_mask_selects_goes_into_each_branch() -> None:
    def signed(x: Any, mask: Any) -> Any:
        return phix.cond(x.sum() > 0, lambda s: s * 2.0, lambda s: -s, x[mask])

    f, mask = phix.jit(signed), np.abs(X[0]) > 0.5
    for x in (np.abs(X[0]), -np.abs(X[0])):
        same(f(x, mask), x[mask] * (2.0 if x.sum() > 0 else -1.0))


# -- graphs ----------------------------------------------------------------------------------
def test_graphs_with_sizes_of_their_own() -> None:
    inner = phix.jit(lambda x: x[x > 0] ** 2.0)
    remat = phix.checkpoint(lambda x: x[x > 0] ** 2.0)
    for part in (inner, remat):
        twice = phix.jit(lambda x, part=part: (part(x).sum() + part(-x).sum(), part(-x)))
        same(twice(X), (np.sum(X**2), X[X < 0] ** 2))
        loss = lambda x, part=part: part(x).sum() * part(-x).sum()  # noqa: E731
        check_gradient(loss, X[0], ways=1)
    graph = phix.make_graph(lambda x: x[x > 0] + 1.0)(X)
    phix.check_graph(graph)
    assert graph == phix.make_graph(lambda y: y[y > 0] + 1.0)(X)
    again = phix.parse_graph(str(graph))
    assert str(again) == str(graph)
    for run in (graph, again, phix.decompose(graph)(X), phix.jit(again)):
        same(run(X), [X[X > 0] + 1])
    assert str(phix.infer_meta(lambda x: x[x > 0])(X)) == "float64[-1]"


# -- other sizes that data tell --------------------------------------------------------------
def test_unique_repeat_and_bincount() -> None:
    ints = [np.array(v, np.int64) for v in ([3, 1, 3, 0], [2, 2, 2, 2], [5, 0, 1, 9])]
    calls = [(k, rng.normal(size=4)) for k in ints]

    def found(k: Any, x: Any) -> Any:
        values, first, inverse, counts = ops.unique(k, True, True, True, [])
        runs, number, times = ops.unique_consecutive(k, True, True, [], "int32")
        copies = ops.repeat_interleave_with_tensor_index(x, k, 0)
        bins = ops.bincount(k, x, 3)
        return values, first, inverse, counts, runs, number, times, copies, bins

    def wanted(k: np.ndarray, x: np.ndarray) -> Any:
        keep = np.r_[True, k[1:] != k[:-1]]
        number = np.cumsum(keep) - 1
        times = np.bincount(number).astype("int32")
        return (*np.unique(k, True, True, True), k[keep], number.astype("int32"), times,
                np.repeat(x, k), np.bincount(k, x, 3))  # fmt: skip

    anywhere(found, *calls, wanted=wanted)
    pair = phix.jit(lambda r: ops.unique(r, True, True, True, [0]))
    for rows in (rng.integers(0, 2, (6, 2)), np.zeros((6, 2), np.int64)):
        same(pair(rows), np.unique(rows, True, True, True, axis=0))
    assert pair.trace_count == 1
    same(ops.unique(np.array([[1.0], [np.nan], [np.nan]]), False, False, True, [0])[::3],
         (np.array([[1.0], [np.nan]]), np.array([1, 2])))  # fmt: skip


def test_gradients_of_unique_and_repeat() -> None:
    x, k = np.array([0.3, -1.2, 0.3, 2.0]), np.array([2, 0, 3, 1])
    grad = phix.jit(phix.grad(lambda x: (ops.unique(x, False, False, False, [])[0] ** 2.0).sum()))
    np.testing.assert_allclose(grad(x), [0.6, -2.4, 0.0, 4.0])  # to the first of equal ones
    check_gradient(
        lambda x, k: (ops.repeat_interleave_with_tensor_index(x, k, 0) ** 3.0).sum(), x, k
    )
    check_gradient(lambda x, k: (ops.bincount(k, x, 0) ** 3.0).sum(), x, k)
    check_gradient(lambda x, n: ops.sin(x[:n]).sum() * x[n::-1].sum(), x, np.int64(2))


def test_bounds_of_slices_and_shapes() -> None:
    n_cases = (-9, -2, 0, 1, 3, 9)

    def parts(x: Any, n: Any) -> Any:
        return x[:n], x[n:, 1], x[::-1][n:3], x[0, n:-1], x[None, n::2]

    calls = [(X, np.int64(n)) for n in n_cases]
    anywhere(lambda x, n: parts(x, n), *calls, wanted=lambda x, n: parts(x, int(n)))
    steps = phix.jit(lambda x, i, j, s: x[i:j:s])
    for i, j in [(0, 9), (-1, 0), (2, -9), (3, 3)]:
        for s in (1, 2, -1, -2):
            same(steps(X[0], i, j, s), X[0, i:j:s])
    shaped = phix.jit(lambda x, s: ops.reshape(x, s))
    for shape in ((2, 6), (12, 1), (3, 4)):
        same(shaped(X, np.array(shape)), X.reshape(shape))
    with pytest.raises(ShapeError, match="does not hold the 12 elements"):
        shaped(X, np.array((5, 2)))
    counted = phix.jit(lambda a, b, c: phix.arange(a, b, c))
    for a, b, c in ((0, 5, 1), (7, -3, -3), (4, 1, 2)):
        same(counted(a, b, c), np.arange(a, b, c))
    assert steps.trace_count == shaped.trace_count == counted.trace_count == 1
    same(
        phix.jit(lambda b: ops.arange(0.0, b, 0.5, "float64"))(np.float64(2.2)),
        np.arange(0.0, 2.2, 0.5),
    )


NUMPY: list[Callable[[Any], Any]] = [
    np.nonzero,
    np.argwhere,
    np.flatnonzero,
    lambda k: np.where(k > 1),
    lambda k: np.extract(k > 1, k),
    lambda k: np.compress(k[:, 0] > 1, k, 0),
    lambda k: np.compress(k[:2, 0] > 1, k, 0),
    lambda k: np.unique(k, True, True, True),
    lambda k: np.unique(k, axis=1),
    lambda k: np.bincount(k[0], minlength=2),
    lambda k: np.repeat(k, k[0], 1),
    lambda k: np.repeat(k, k[0, 0]),
]


def test_numpy_functions_of_tracers() -> None:
    arrays = rng.integers(0, 4, (3, 3, 3))
    for number, f in enumerate(NUMPY):
        run = phix.jit(f)
        for k in arrays:
            for found in (run(k), f(phix.to_tensor(k))) if number < len(NUMPY) - 1 else (run(k),):
                same(found, phix.tree.leaves(f(k)))
        assert run.trace_count == 1


def test_nothing_is_selected_where_a_maximum_is_taken() -> None:
    """What is centred by its largest element may be empty, as it may be eagerly."""

    def f(x: Any) -> Any:
        chosen = x[x > 0.0]
        ends = ops.histogram(chosen, None, 4)
        total = ops.logsumexp(chosen, [0], False, False)
        return ops.softmax(chosen, 0), ops.log_softmax(chosen, 0), total, ends

    run = phix.jit(f)
    for x in (np.array([1.0, -1.0, 2.0, 0.5]), -np.ones(4)):
        same(run(x), phix.tree.leaves(f(phix.to_tensor(x))))
        chosen = x[x > 0.0]
        powers = np.exp(chosen)
        same(run(x)[0], powers / powers.sum())
    assert run.trace_count == 1
    assert run(x)[2].item() == -np.inf


def test_derivatives_of_factors_of_nothing_are_empty() -> None:
    def f(x: Any, m: Any) -> Any:
        return (ops.eigvalsh(x[m][:, m], "L", False)[0] ** 2.0).sum()

    run = phix.jit(phix.grad(f))
    x = np.diag([1.0, 2.0, 3.0])
    for m in (np.array([True, False, True]), np.zeros(3, bool)):
        np.testing.assert_allclose(run(x, m), np.diag(2.0 * np.diag(x) * m), atol=1e-12)
    assert run.trace_count == 1


def test_sections_must_add_up_to_what_is_selected() -> None:
    run = phix.jit(lambda x: ops.split(x[x > 0.0], [1, 3, 2], 0))
    x = np.arange(-2.0, 7.0)
    same(run(x), [x[3:4], x[4:7], x[7:]])
    for other in (x - 1.0, x + 1.0, -np.ones(9)):
        with pytest.raises(ShapeError, match="must agree"):
            run(other)
    assert run.trace_count == 1


# -- whole programs --------------------------------------------------------------------------
def particle_filter(np: Any, repeat: Any, x: Any, seen: Any, n: int) -> Any:
    """Three steps: move, weigh, and as many copies of each particle as its weight tells."""
    cost = 0.0
    for step in range(3):
        x = x * 0.9 + 0.1 * np.sin(3.0 * x)
        w = np.exp(-0.5 * (x - seen[step]) ** 2)
        cost = cost + np.log(np.mean(w))
        edges = np.floor(np.cumsum(w / np.sum(w)) * n + 0.25).astype("int64")
        copies = edges - np.concatenate([edges[:1] * 0, edges[:-1]])
        x = repeat(x, copies)
    return cost, np.mean(x), x


def test_a_particle_filter() -> None:
    def f(x: Any, seen: Any) -> Any:
        return particle_filter(np, np.repeat, phix.to_tensor(x), phix.to_tensor(seen), 8)

    calls = [(rng.normal(size=8), s) for s in rng.normal(size=(2, 3))]
    anywhere(f, *calls, wanted=lambda x, s: particle_filter(np, np.repeat, x, s, 8))
    check_gradient(lambda x, s: f(x, s)[0] * f(x, s)[1], *calls[0], ways=1)


def masked_loss(h: Any, w: Any, mask: Any, target: Any) -> Any:
    """The mean cross-entropy of the tokens that count."""
    logits, classes = h[mask] @ w, target[mask]
    chosen = ops.take_along_axis(ops.log_softmax(logits, 1), classes[:, None], 1)
    count = ops.maximum(ops.sum(mask.astype("float64")), 1.0)
    return -chosen.sum() / count


def test_a_loss_of_masked_tokens() -> None:
    h, w = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5))
    target = rng.integers(0, 5, (2, 3))

    def wanted(h: Any, w: Any, mask: Any, target: Any) -> Any:
        z = h[mask] @ w
        z = z - np.log(np.exp(z).sum(1, keepdims=True))
        return -z[np.arange(len(z)), target[mask]].sum() / max(mask.sum(), 1)

    masks = [rng.random((2, 3)) > 0.5, np.zeros((2, 3), bool), np.ones((2, 3), bool)]
    loss = lambda *a: masked_loss(*map(phix.to_tensor, a))  # noqa: E731
    anywhere(loss, *[(h, w, m, target) for m in masks], wanted=wanted)
    grads = phix.jit(phix.grad(masked_loss, argnums=(0, 1)))
    for m in masks:
        to_h, to_w = grads(h, w, m, target)
        of_h = slope(lambda v, m=m: wanted(v, w, m, target), h)
        of_w = slope(lambda v, m=m: wanted(h, v, m, target), w)
        np.testing.assert_allclose(to_h, of_h, atol=1e-7)
        np.testing.assert_allclose(to_w, of_w, atol=1e-7)
    assert grads.trace_count == 1


def coarsened(np: Any, add_at: Any, x: Any, label: Any, edges: Any, weight: Any) -> Any:
    """The graph whose nodes are the labels: sums of features, and of the weights of edges."""
    names, group = np.unique(label, return_inverse=True)
    count = names.shape[0]
    ends = group[edges]
    pairs, which = np.unique(ends[:, 0] * 100 + ends[:, 1], return_inverse=True)
    return names, add_at((count, 2), group, x), pairs, add_at((pairs.shape[0],), which, weight)


def test_a_graph_is_coarsened() -> None:
    def add_at(shape: Any, group: Any, x: Any) -> Any:
        return ops.index_put(ops.full(shape, 0.0, "float64"), [group], x, True)

    def plain(shape: Any, group: Any, x: Any) -> Any:
        out = np.zeros(shape)
        np.add.at(out, group, x)
        return out

    x, weight = rng.normal(size=(6, 2)), rng.normal(size=8)
    edges = rng.integers(0, 6, (8, 2))
    labels = [np.array(v) for v in ([4, 4, 7, 1, 7, 4], [0] * 6, [5, 4, 3, 2, 1, 0])]
    f = lambda *a: coarsened(np, add_at, *map(phix.to_tensor, a))  # noqa: E731
    calls = [(x, k, edges, weight) for k in labels]
    anywhere(f, *calls, wanted=lambda *a: coarsened(np, plain, *a))
    energy = lambda x, *rest: (f(x, *rest)[1] ** 2.0).sum() * (f(x, *rest)[3] ** 2.0).sum()  # noqa: E731
    check_gradient(energy, *calls[0], ways=1)


def refined(np: Any, x: Any) -> Any:
    """A mesh with a point more in each interval across which the function bends."""
    for _ in range(2):  # what the first finds, the second reads
        y = np.tanh(4.0 * x)
        (wide,) = np.nonzero(np.abs(y[1:] - y[:-1]) > 0.3)
        x = np.sort(np.concatenate([x, 0.5 * (x[wide] + x[wide + 1])]))
    return x, np.sum((x[1:] - x[:-1]) * (np.tanh(4.0 * x[1:]) + np.tanh(4.0 * x[:-1]))) * 0.5


def test_a_mesh_is_refined() -> None:
    f = lambda x: refined(np, phix.to_tensor(x))  # noqa: E731
    meshes = [np.linspace(-1, 1.1, 7), np.linspace(2, 3, 7), np.linspace(-0.2, 0.3, 7) * 6]
    anywhere(f, *[(x,) for x in meshes], wanted=lambda x: refined(np, x))
    check_gradient(lambda x: f(x)[1] * f(x)[0].mean(), meshes[0], ways=1)


def test_gradients_of_rows_of_an_embedding_used_once() -> None:
    table, ids = (
        rng.normal(size=(9, 2)),
        [np.array(v) for v in ([3, 1, 3, 8], [2] * 4, [0, 1, 2, 3])],
    )

    def step(table: Any, ids: Any) -> Any:
        """The rows that are used, the gradient of each, and the table after a step of them."""
        used, _, place, _ = ops.unique(ids, False, True, False, [])
        loss = lambda rows: (rows[place] ** 3.0).sum()  # noqa: E731
        slopes = phix.grad(loss)(table[used])
        return used, slopes, table.at[used].add(-0.1 * slopes)

    def wanted(table: np.ndarray, ids: np.ndarray) -> Any:
        dense = np.zeros_like(table)
        np.add.at(dense, ids, 3 * table[ids] ** 2)
        used = np.unique(ids)
        return used, dense[used], table - 0.1 * dense

    anywhere(lambda t, i: step(phix.to_tensor(t), phix.to_tensor(i)), *[(table, i) for i in ids],
             wanted=wanted)  # fmt: skip


# -- native programs ---------------------------------------------------------------------------
def is_native(f: Callable[..., Any], *args: Any) -> bool:
    """Whether one native call runs everything."""
    graph = phix.decompose(f)(*args)
    return NativeProgram(graph, (True,) * len(args)).stepwise is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0] * 2.0,
        lambda x: (x.sum(), x[x > 0], x * 2.0, ops.nonzero(x > 1)),
        lambda x: x[x > 0].max() + x[x > 0][0],
        lambda x: x[x > 0] * x[x > -9][: (x > 0).sum()],
        lambda x: ops.reshape(x, (x[:2] * 0.0).astype("int64") + np.array([3, 4]))[:, 0],
        lambda x: phix.scan(lambda c, v: (c + x[x >= v].max(), None), 0.0, x)[0],
        lambda x: ops.full([(x > 0).sum()], 1.5),
    ],
)
def test_one_native_call_runs_it_all(f: Callable[[Any], Any]) -> None:
    first = np.array([0.5, -1.0, 2.0, 0.0, 3.0, -2.0, 1.0, 1.0, -3.0, 4.0, 0.0, 1.0])
    assert is_native(f, first)
    run = phix.jit(f)
    for x in (first, np.abs(first) + 1, -first):
        same(run(x), phix.tree.map(np.asarray, f(phix.to_tensor(x))))


def test_sizes_that_fit_are_asked_about_once() -> None:
    """Every size of a loop is looked at, however many there are, and errors end the program."""
    seen: list[tuple[int, ...]] = []
    look = SizeCheck.look

    def watched(self: SizeCheck, env: Any) -> bool:
        seen.append(tuple(env.values()))
        return look(self, env)

    def largest(x: Any, sizes: Any) -> Any:
        return phix.scan(lambda c, n: (c + x[:n].max(), None), 0.0, sizes)[0]

    run, x = phix.jit(largest), np.arange(1.0, 201.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SizeCheck, "look", watched)
        for sizes in (np.arange(1, 201), np.flip(np.arange(1, 201)).copy(), np.full(200, 67)):
            assert run(x, sizes).item() == sizes.sum()
        assert len(seen) == 200
        assert run(x, np.array([200, 64, 200, 64])).item() == 528
        with pytest.raises(ShapeError, match=r"max.*test_run_time_sizes\.py"):
            run(x, np.array([3, 0, 3]))
    assert run(x, np.array([5])).item() == 5


def test_a_negative_size_ends_a_native_program() -> None:
    for f in (
        lambda n: ops.full([n, 2], 1.0),
        lambda n: ops.full([n], 1.0).sum(),
        lambda n: phix.fori_loop(0, 3, lambda i, c: c + ops.full([n - i], 1.0).sum(), 0.0),
        lambda n: np.repeat(phix.ones([2]), ops.stack([n, n])),
    ):
        run = phix.jit(f)
        assert is_native(f, np.int64(3))
        for _ in range(2):
            run(np.int64(4))
            with pytest.raises(ShapeError, match="found -1"):
                run(np.int64(-1))
    counted = phix.jit(lambda n: ops.full([n], 1.0).sum() + ops.full([n - 2**62], 1.0).sum())
    with pytest.raises(ShapeError):
        counted(np.int64(-(2**62)))


def test_calls_of_one_program_do_not_share_what_they_computed() -> None:
    """Memory of results is made for each call, for calls of a callback in the middle as well."""
    f = phix.jit(lambda x: (x[x > 0], x[x < 0] * 2.0))
    found = [f(x) for x in X]
    for (above, below), x in zip(found, X):
        same((above, below), (x[x > 0], x[x < 0] * 2))
    with ThreadPoolExecutor(4) as pool:
        for x, (above, _) in zip([*X] * 50, pool.map(f, [*X] * 50)):
            np.testing.assert_array_equal(above, x[x > 0])


# -- one program for all sizes ---------------------------------------------------------------
def test_other_sizes_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from phix.kernels.cpu import jit as machine
    from phix.kernels.cpu import native_program

    f = phix.jit(phix.value_and_grad(lambda x: (x[x > 0] ** 2.0).sum()))
    f(X)
    made: list[Any] = []
    monkeypatch.setattr(native_program, "lowered", lambda *a, **k: made.append(a))
    monkeypatch.setattr(machine, "compiled", made.append)
    for shift in (-9.0, -1.0, 0.5, 9.0):
        value, grads = f(X + shift)
        y = X + shift
        assert value.item() == pytest.approx(np.sum(y[y > 0] ** 2))
        np.testing.assert_allclose(grads, np.where(y > 0, 2 * y, 0))
    assert not made and f.trace_count == 1


_SCRIPT = """
import numpy as np, phix
found = phix.jit(lambda x: (x[x > 0] * 2, np.unique(x)))(np.array([3, 1, 0, 3]))
print(*found[0].tolist(), *found[1].tolist(), "hits", phix.cache_info().hits > 0)
"""


def test_another_process_takes_the_code_from_disk(tmp_path: Path) -> None:
    """With the numbers of the results that the program makes memory for."""
    environment = os.environ | {"PHIX_CACHE_DIR": str(tmp_path)}
    environment.pop("PHIX_CACHE", None)
    for hits in ("False", "True"):
        ran = subprocess.run(
            [sys.executable, "-c", _SCRIPT], text=True, capture_output=True, env=environment
        )
        assert ran.stdout.split() == [*"626013", "hits", hits], ran.stderr


def test_on_a_gpu() -> None:
    with emulated():
        x = phix.to_tensor(X, place="gpu")
        rows, run = phix.jit(lambda x: ops.unique(ops.round(x), True, False, False, [0])), phix.jit
        same(run(lambda x: x[x > 0] * 2.0)(x), X[X > 0] * 2)
        same(run(ops.nonzero)(x > 1), np.argwhere(X > 1))
        same(rows(x)[0], np.unique(np.round(X), axis=0))
        with pytest.raises(ShapeError, match="reshape"):
            run(lambda x: ops.reshape(x[x > 0], [12]) + 1.0)(x)


CALLED: dict[str, Callable[[Any], Any]] = {
    "kthvalue": lambda x: ops.kthvalue(x, 9),
    "dot": lambda x: ops.dot(x, np.ones(9)),
    "bmm": lambda x: ops.bmm(x[None, None], np.ones((1, 9, 2))),
    "split": lambda x: ops.split(x, [1, 8], 0),
    "stack": lambda x: ops.stack([x, np.ones(9)]),
    "mode": lambda x: ops.mode(x[x > 100]),
    "layer_norm": lambda x: ops.layer_norm(x[None], np.ones(9), np.ones(9), 1e-5, 1),
    "mse_loss": lambda x: phix.nn.functional.mse_loss(x, np.ones(9)),
    "rms_norm": lambda x: phix.nn.functional.rms_norm(x[None], [9], np.ones(9)),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_refusal_in_the_run_names_the_op_that_was_called(name: str) -> None:
    f = CALLED[name]
    for run in (f, phix.jit(f)):
        with pytest.raises(PhixError, match=rf"^{name}[:(].*\(at .*test_run_time_sizes\.py:\d+\)"):
            phix.jit(lambda x, run=run: run(x[x > 0]))(X.ravel())


def test_a_size_from_outside_is_one_in_graphs_inside_and_behind_them() -> None:
    ones = lambda n: ops.full([n], 1.0).sum()  # noqa: E731

    def in_a_loop(n: Any, x: Any) -> Any:
        total = phix.fori_loop(0, 2, lambda i, s: s + x * ones(n), 0)  # traced twice
        return total, ops.full([n], 2.0).sum()

    def in_branches(n: Any, x: Any) -> Any:
        return phix.cond(n > 0, lambda: x * ones(n), lambda: x), phix.cond(
            n > 5, lambda: x, lambda: x * ones(n + 9)
        )

    for f in (in_a_loop, in_branches):
        compiled = phix.jit(f, input_spec=[phix.spec([], "int64"), None])
        for n in (3, 4):
            found = compiled(phix.to_tensor(n), np.float64(0.5))
            assert [v.item() for v in found] == [
                v.item() for v in f(n, phix.to_tensor(np.float64(0.5)))
            ]
    assert compiled(phix.to_tensor(-1), np.float64(0.5))[0].item() == 0.5  # what is not run
