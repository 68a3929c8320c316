"""Sizes that data tell: eagerly, compiled, with unknown dims and differentiated, against NumPy; and
what is said where a size cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ConcretizationError, ShapeError

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
    assert compiled.trace_count == len({tuple(map(np.shape, args)) for args in calls})


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


def check_gradient(f: Callable[..., Any], x: np.ndarray, *rest: Any) -> None:
    """The gradient with respect to ``x``, eager, compiled and for unknown dims."""
    expected = slope(lambda v: f(v, *rest).item(), x)
    args = (x, *rest)
    specs = [phix.spec([-1] * np.ndim(a), np.asarray(a).dtype) for a in args]
    for run in (phix.grad(f), phix.jit(phix.grad(f)), phix.jit(phix.grad(f), input_spec=specs)):
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


# -- graphs ----------------------------------------------------------------------------------
def test_graphs_with_sizes_of_their_own() -> None:
    inner = phix.jit(lambda x: x[x > 0] ** 2.0)
    remat = phix.checkpoint(lambda x: x[x > 0] ** 2.0)
    for part in (inner, remat):
        twice = phix.jit(lambda x, part=part: (part(x).sum() + part(-x).sum(), part(-x)))
        same(twice(X), (np.sum(X**2), X[X < 0] ** 2))
        loss = lambda x, part=part: part(x).sum() * part(-x).sum()  # noqa: E731
        check_gradient(loss, X)
    graph = phix.make_graph(lambda x: x[x > 0] + 1.0)(X)
    phix.check_graph(graph)
    assert graph == phix.make_graph(lambda y: y[y > 0] + 1.0)(X)
    again = phix.parse_graph(str(graph))
    assert str(again) == str(graph)
    for run in (graph, again, phix.decompose(graph)(X), phix.jit(again)):
        same(run(X), [X[X > 0] + 1])
    assert str(phix.infer_meta(lambda x: x[x > 0])(X)) == "float64[-1]"
