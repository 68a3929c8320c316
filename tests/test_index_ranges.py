"""Indices out of range: refused where calls run at once; in programs refused, or reads take the
nearest inside and writes write nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.nn.functional as F
from phix import ops
from phix.core.errors import ArgumentError, TensorIndexError

pytestmark = pytest.mark.unoptimised

X = phix.to_tensor(np.arange(12.0).reshape(3, 4))
ROWS = phix.to_tensor(np.ones((2, 4)))
# A function of an index tensor, an index with one int out of range, and one without: for reads,
# what it is clamped to.
CALLS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "gather": (lambda i: ops.gather(X, i), [0, 7], [0, 2]),
    "gather along axis 1": (lambda i: ops.gather(X, i, 1), [0, -5], [0, 0]),
    "gather_nd": (lambda i: ops.gather_nd(X, i), [[0, 1], [1, 9]], [[0, 1], [1, 3]]),
    "index_select": (lambda i: ops.index_select(X, i, 0), [3, 1], [2, 1]),
    "index_sample": (lambda i: ops.index_sample(X, i), [[0], [4], [1]], [[0], [3], [1]]),
    "take_along_axis": (lambda i: ops.take_along_axis(X, i, 0), [[5, 0, 0, 0]], [[2, 0, 0, 0]]),
    "put_along_axis": (lambda i: ops.put_along_axis(X, i, 1.0, 0), [[5, 0, 0, 0]], [[2, 0, 0, 0]]),
    "index_put": (lambda i: ops.index_put(X, [i], 1.0), [0, 7], [0, 2]),
    "scatter": (lambda i: ops.scatter(X, i, ROWS), [0, -4], [0, 0]),
    "scatter_nd_add": (lambda i: ops.scatter_nd_add(X, i, ROWS), [[0], [3]], [[0], [2]]),
    "x[i]": (lambda i: X[i], [0, 3], [0, 2]),
    "x[:, i]": (lambda i: X[:, i], [0, 4], [0, 3]),
    "x[i, i]": (lambda i: X[i, i], [0, 3], None),
    "x.at[i].set": (lambda i: X.at[i].set(0.0), [0, 3], [0, 2]),
    "x.at[i].add": (lambda i: X.at[i].add(1.0), [0, -4], [0, 0]),
    "x.at[i, :2].add": (lambda i: X.at[i, :2].add(1.0), [0, 3], [0, 2]),
    "x.at[i].multiply": (lambda i: X.at[i].multiply(2.0), [0, 3], [0, 2]),
    "x.at[:, i].max": (lambda i: X.at[:, i].max(5.0), [0, -5], [0, 2]),
    "index_add": (lambda i: ops.index_add(X, i, ROWS), [0, 3], [0, 2]),
    "embedding": (lambda i: ops.embedding(i, X), [0, 3], [0, 2]),
    "F.embedding": (lambda i: F.embedding(i, X, padding_idx=1), [1, 3], [1, 2]),
    "cross_entropy": (lambda i: F.cross_entropy(X, i), [0, 4, -100], [0, 3, -100]),
    "cross_entropy from the end": (lambda i: F.cross_entropy(X, i), [0, -1, 1], [0, 0, 1]),
    "smoothed": (lambda i: F.cross_entropy(X, i, label_smoothing=0.1), [0, 4, -100], [0, 3, -100]),
    "nll_loss": (lambda i: F.nll_loss(X, i), [0, 4, -100], [0, 3, -100]),
    "nll_loss from the end": (lambda i: F.nll_loss(X, i), [0, -1, 1], [0, 0, 1]),
    "one_hot": (lambda i: F.one_hot(i, 3), [0, 3], None),
}


def _written(at: Any, change: Callable[[Any], Any]) -> np.ndarray:
    out = np.array(X)
    out[at] = change(out[at])
    return out


# What is written at the ints that are in range, by NumPy.
WRITES = {
    "put_along_axis": _written((0, slice(1, 4)), lambda old: 1.0),
    "index_put": _written(0, lambda old: 1.0),
    "scatter": _written(0, lambda old: 1.0),
    "scatter_nd_add": _written(0, lambda old: old + 1.0),
    "x.at[i].set": _written(0, lambda old: 0.0),
    "x.at[i].add": _written(0, lambda old: old + 1.0),
    "x.at[i, :2].add": _written((0, slice(2)), lambda old: old + 1.0),
    "x.at[i].multiply": _written(0, lambda old: 2.0 * old),
    "x.at[:, i].max": _written((slice(None), 0), lambda old: np.maximum(old, 5.0)),
    "index_add": _written(0, lambda old: old + 1.0),
}


def index(values: Any) -> Any:
    return phix.to_tensor(values, dtype="int64")


INT_DTYPES = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"]
FROM_THE_FRONT = [
    name for name, (_, _, right) in CALLS.items() if right is not None and np.min(right) >= 0
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", INT_DTYPES)
@pytest.mark.parametrize("name", FROM_THE_FRONT)
def test_ints_of_every_dtype_mean_their_values(name: str, dtype: str) -> None:
    f, _, right = CALLS[name]
    inside = np.array(right)
    beyond = inside.copy()
    beyond.flat[-1] = 99  # stands for the largest of each dtype
    largest = beyond.astype(dtype)
    largest.flat[-1] = np.iinfo(dtype).max
    np.testing.assert_array_equal(f(phix.to_tensor(inside.astype(dtype))), f(index(right)))
    found = phix.jit(f)(largest)
    np.testing.assert_array_equal(found, phix.jit(f)(beyond))
    batch = np.stack([largest, largest])
    np.testing.assert_allclose(phix.jit(phix.vmap(f))(batch), np.stack([found, found]), rtol=1e-12)
    with pytest.raises(TensorIndexError, match=f"holds {np.iinfo(dtype).max}, out of range"):
        f(phix.to_tensor(largest))


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_run_at_once_refuse(name: str) -> None:
    f, wrong, right = CALLS[name]
    for _ in range(2):  # the second one by the plan of the first
        with pytest.raises(TensorIndexError, match="out of range"):
            f(index(wrong))
    if right is not None:
        f(index(right))
        with pytest.raises(IndexError, match="out of range"):
            f(index(wrong))


@pytest.mark.parametrize("name", CALLS)
def test_programs_read_the_nearest_and_write_nothing_unless_they_check(name: str) -> None:
    f, wrong, right = CALLS[name]
    compiled = phix.jit(f)
    if name in WRITES:
        np.testing.assert_array_equal(compiled(index(wrong)), WRITES[name])
    elif right is not None:
        np.testing.assert_array_equal(compiled(index(wrong)), compiled(index(right)))
    with phix.debug.check_indices(), pytest.raises(TensorIndexError, match="out of range"):
        compiled(index(wrong))
    if right is not None:
        with phix.debug.check_indices():
            checked = compiled(index(right))
        np.testing.assert_allclose(checked, compiled(index(right)), rtol=1e-12)
        compiled(index(wrong))  # as before


@pytest.mark.parametrize("name", CALLS)
def test_vmap_and_grad_refuse_as_well(name: str) -> None:
    f, wrong, right = CALLS[name]
    both = index([wrong, wrong if right is None else right])
    with pytest.raises(TensorIndexError, match="out of range"):
        phix.vmap(f)(both)
    with pytest.raises(TensorIndexError, match="out of range"):
        phix.grad(lambda s: ops.sum(f(index(wrong)) * s))(2.0)
    if right is not None:
        wanted = np.stack([f(index(right))] * 2)
        np.testing.assert_allclose(phix.vmap(f)(index([right, right])), wanted)


def test_the_message_says_what_was_found_and_what_may_be() -> None:
    with pytest.raises(
        TensorIndexError,
        match=r"gather\(x: float64\[3, 4\], index: int64\[2\]\) \(at .*index holds 7, out of range "
        r"for axis 0 of size 3; write ints from -3 to 2",
    ):
        ops.gather(X, [0, 7])
    with pytest.raises(TensorIndexError, match="from 0 to 3, or -100, which"):
        F.nll_loss(X, [0, 9, 1])


# -- what is not checked -------------------------------------------------------------------------
def test_a_branch_that_is_not_taken_is_not_checked_where_calls_run_at_once() -> None:
    first = lambda k: phix.cond(k < 3, lambda: X[k], lambda: X[0])  # noqa: E731
    found = phix.vmap(first)(index([1, 9]))
    np.testing.assert_array_equal(found, np.asarray(X)[[1, 0]])
    slope = phix.vmap(phix.grad(lambda s, k: ops.sum(first(k)) * s), in_axes=(None, 0))
    np.testing.assert_array_equal(slope(1.0, index([1, 9])), [22.0, 6.0])


def test_the_gradient_of_a_program_clamps_as_the_program_does() -> None:
    f = phix.jit(lambda x, i: ops.sum(ops.gather(x, i)))
    slope = phix.grad(f)(X, index([0, 7]))
    np.testing.assert_array_equal(slope, [[1.0] * 4, [0.0] * 4, [1.0] * 4])


def test_labels_clamp_alike_in_the_loss_and_its_gradient() -> None:
    slope = phix.jit(phix.grad(F.cross_entropy))
    for wrong, right in (([0, -1, 9], [0, 0, 3]), ([0, -100, 2], [0, -100, 2])):
        np.testing.assert_allclose(slope(X, index(wrong)), slope(X, index(right)))


# -- check_indices -------------------------------------------------------------------------------
LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda i: phix.scan(lambda c, k: (c, X[k]), 0.0, i)[1],
    "fori_loop": lambda i: phix.fori_loop(0, i[-1], lambda k, c: c + ops.sum(X[k]), 0.0),
    "while_loop": lambda i: phix.while_loop(
        lambda c: c[0] < i[-1], lambda c: (c[0] + 1, c[1] + ops.sum(X[c[0]])), (0, 0.0)
    )[1],
    "cond": lambda i: phix.cond(i[-1] > 3, lambda: X[i], lambda: X[i * 0]),
    "vmap": phix.vmap(lambda k: X[k]),
    "checkpoint": phix.checkpoint(lambda i: ops.gather(X, i)),
    "jit inside": phix.jit(lambda i: ops.gather(X, i)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_checks_go_into_loops_branches_and_batches(name: str) -> None:
    f = LOOPS[name]
    for g in (f, phix.jit(f)):
        with phix.debug.check_indices():
            g(index([0, 1, 2]))
            with pytest.raises(TensorIndexError, match="out of range for axis 0 of size 3"):
                g(index([0, 1, 5]))


def test_checks_are_made_of_sizes_known_only_when_run() -> None:
    spec = [phix.spec(["n", 4], "float64"), phix.spec(["m"], "int64")]
    f = phix.jit(lambda x, i: ops.gather(x, i), input_spec=spec)
    with phix.debug.check_indices():
        f(X, index([2]))
        with pytest.raises(TensorIndexError, match="axis 0 of size 2"):
            f(X[:2], index([2]))


def test_derivatives_of_programs_check_too() -> None:
    f = lambda x, i: ops.sum(ops.gather(x, i) ** 2)  # noqa: E731
    for g in (phix.grad(phix.jit(f)), phix.jit(phix.grad(f)), phix.jit(phix.vmap(f, (None, 0)))):
        with phix.debug.check_indices(), pytest.raises(TensorIndexError, match="holds 7"):
            g(X, index([0, 7]))


def test_a_program_is_traced_once_for_each_way() -> None:
    f = phix.jit(lambda i: ops.gather(X, i))
    for _ in range(3):
        f(index([0]))
        with phix.debug.check_indices():
            f(index([0]))
    assert f.trace_count == 2
    assert "inside phix.debug.check_indices(), was outside" in f.why_retraced()


def test_check_indices_is_opened_outside_of_transformations() -> None:
    def f(x: Any) -> Any:
        with phix.debug.check_indices():
            return x * 2.0

    with pytest.raises(ArgumentError, match="open it around"):
        phix.jit(f)(1.0)
    with phix.debug.check_indices(), phix.debug.nans():
        assert phix.jit(lambda x: x * 2.0)(1.0).item() == 2.0
