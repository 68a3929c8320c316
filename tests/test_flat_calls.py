"""Calls that come often run through a flat function of their own: the same results and errors."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import phix
from phix import ops
from phix.api.flat_calls import MISS
from phix.core.context import context
from phix.core.errors import DonatedTensorError, LeakedTracerError
from phix.core.places import Place

TIMES = 6  # until a kind of arguments has its flat function, and some more


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return phix.to_tensor(np.arange(np.prod(shape), dtype=dtype).reshape(shape))


def often(jitted: Any, *args: Any) -> Any:
    """The result of a call that has come often, which the flat function gives."""
    for _ in range(TIMES):
        jitted(*args)
    (flat, *_) = jitted._flat
    found = flat(args)
    assert found is not MISS
    return found


class Pair(NamedTuple):
    first: Any
    second: Any


TREES: dict[str, Any] = {
    "one": lambda: (tensor(3),),
    "two": lambda: (tensor(3), tensor(2, 2)),
    "the same twice": lambda: (lambda x: (x, x))(tensor(3)),
    "a dict out of order": lambda: ({"b": tensor(3), "a": tensor(2), 3: tensor(4)},),
    "nested": lambda: ([tensor(2), (tensor(3), {"k": tensor(4)})], {}, (), tensor(1)),
    "a single value": lambda: (tensor(), {"x": tensor(3)}),
    "empty ones": lambda: (tensor(0), [tensor(2, 0)]),
    "dtypes": lambda: (tensor(3, dtype="int32"), tensor(3, dtype="float64")),
    "arrays": lambda: (np.ones(3, "f"), {"x": np.arange(6).reshape(2, 3)}, np.ones((), "f")),
    "arrays and tensors": lambda: (np.ones(3, "f"), [tensor(3), np.ones((2, 3)).T]),
    "an array to be read": lambda: (np.broadcast_to(np.float32(2), (3,)),),
    "a view": lambda: (phix.Tensor(np.arange(12.0).reshape(3, 4).T), tensor(3)),
}


@pytest.mark.parametrize("kind", TREES)
def test_the_result_is_that_of_the_function(kind: str) -> None:
    args = TREES[kind]()

    def function(*args: Any) -> Any:
        leaves = phix.tree.leaves(args)
        return {"z": [x * 2 + 1 for x in leaves], "a": (args, None), 5: leaves[0].sum()}

    got, wanted = often(phix.jit(function), *args), function(*args)
    assert list(got) == list(phix.jit(function)(*args))  # dicts keep their order
    (leaves, tree), (expected, shape) = phix.tree.flatten(got), phix.tree.flatten(wanted)
    assert tree == shape
    for x, y in zip(leaves, expected):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype and x.shape == y.shape and x.key == phix.Tensor(x.data).key


def test_a_result_may_be_of_other_containers() -> None:
    jitted = phix.jit(lambda x: Pair(x + 1, {"s": x * 2}))
    got = often(jitted, tensor(3))
    assert type(got) is Pair
    np.testing.assert_array_equal(got.first, [1, 2, 3])
    np.testing.assert_array_equal(got.second["s"], [0, 2, 4])


def test_arguments_of_other_kinds_are_left_to_the_long_way() -> None:

    def added(tree: Any, y: Any) -> Any:
        return phix.tree.map(lambda v: v + y, tree)

    jitted = phix.jit(added)
    often(jitted, {"a": tensor(3), "b": tensor(3)}, tensor(3))
    (flat,) = jitted._flat
    for tree, y in (
        ({"a": tensor(3), "b": tensor(3)}, tensor(1)),
        ({"a": tensor(3), "b": tensor(3)}, np.ones(3, "f")),
        ({"a": tensor(3), "b": tensor(3, dtype="float64")}, tensor(3)),
        ({"b": tensor(3), "a": tensor(3)}, tensor(3)),
        ({"a": tensor(3), "c": tensor(3)}, tensor(3)),
        ({"a": tensor(3)}, tensor(3)),
        ([tensor(3), tensor(3)], tensor(3)),
        (Pair(tensor(3), tensor(3)), tensor(3)),
        ({"a": tensor(3), "b": None}, tensor(3)),
        ({"a": tensor(3), "b": 2.0}, tensor(3)),
    ):
        assert flat((tree, y)) is MISS
        got, wanted = jitted(tree, y), added(tree, y)
        assert phix.tree.flatten(got)[1] == phix.tree.flatten(wanted)[1]
        for a, b in zip(phix.tree.leaves(got), phix.tree.leaves(wanted)):
            np.testing.assert_array_equal(a, b)
    assert flat(({"a": tensor(3), "b": tensor(3)},)) is MISS
    assert jitted.trace_count == 9  # arrays and the dict in another order are no new kinds


def test_results_that_come_back_as_arguments_are_known() -> None:
    step = phix.jit(lambda state: {"x": state["x"] * 0.5, "n": state["n"] + 1})
    state = {"x": tensor(4), "n": tensor()}
    for _ in range(10):
        state = step(state)
    np.testing.assert_array_equal(state["x"], np.arange(4) / 2**10)
    assert state["n"].item() == 10 and step.trace_count == 1
    assert step._flat[0]((state,)) is not MISS


def test_sizes_that_are_found_while_running() -> None:
    jitted = phix.jit(lambda x, n: ops.full([n], 2.0) * x)
    for _ in range(TIMES):
        for n in (2, 5):
            found = jitted(tensor(1) + 1, phix.to_tensor(n))
            assert found.shape == (n,) and found.key[1] == (n,)
            np.testing.assert_array_equal(found, [2.0] * n)


def test_under_a_transformation_the_long_way_is_taken() -> None:
    jitted = phix.jit(lambda x: (x * x).sum())
    x = tensor(3)
    often(jitted, x)
    np.testing.assert_array_equal(phix.grad(jitted)(x), [0, 2, 4])
    np.testing.assert_array_equal(phix.vmap(jitted)(tensor(2, 3)), [5, 50])
    assert [e.op.name for e in phix.make_graph(jitted)(x).equations] == ["multiply", "sum"]


def test_what_may_not_be_used_is_refused() -> None:
    jitted = phix.jit(lambda x: x + 1)
    often(jitted, tensor(3))
    given = tensor(3)
    phix.jit(lambda x: x * 2, donate_argnums=0)(given)
    with pytest.raises(DonatedTensorError, match="donated"):
        jitted(given)
    kept: list[Any] = []
    phix.make_graph(lambda x: kept.append(x) or x)(tensor(3))
    with pytest.raises(LeakedTracerError):
        jitted(kept[0])


def test_two_kinds_are_kept_and_a_cleared_cache_keeps_none() -> None:
    jitted = phix.jit(lambda x: x + 1)
    for size in (1, 2, 3):
        np.testing.assert_array_equal(often(jitted, tensor(size)), np.arange(size) + 1)
    assert len(jitted._flat) == 2
    np.testing.assert_array_equal(jitted(tensor(1)), [1])
    jitted.cache_clear()
    assert jitted._flat == ()
    np.testing.assert_array_equal(jitted(tensor(3)), [1, 2, 3])


def test_results_of_single_values_follow_the_device() -> None:
    jitted = phix.jit(lambda x: ops.full([2], 3.0) * x)
    often(jitted, tensor())
    (flat,) = jitted._flat
    assert flat((tensor(),)).known_key is None


def test_results_do_not_show_the_arrays_that_were_lent() -> None:
    jitted = phix.jit(lambda x, y: (x, y.reshape(-1), x + y[0], y[:1]))
    x, y = np.ones(3, np.float32), np.ones((2, 3), np.float32)
    results = often(jitted, x, y)
    x[:], y[:] = 5, 7
    for result, wanted in zip(results, ([1] * 3, [1] * 6, [2] * 3, [[1] * 3])):
        np.testing.assert_array_equal(result, wanted)
    for result, wanted in zip(jitted(x, y), ([5] * 3, [7] * 6, [12] * 3, [[7] * 3])):
        np.testing.assert_array_equal(result, wanted)


class Marked(np.ndarray):
    """A class of arrays of its own, to which operators may mean something else."""


def off_by_a_byte(x: np.ndarray) -> np.ndarray:
    room = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    room[...] = x
    return room


OTHER_ARRAYS: dict[str, Any] = {
    "another dtype of that size": lambda x: x.astype("i"),
    "a wider one": lambda x: x.astype("d"),
    "the other byte order": lambda x: x.astype(">f4"),
    "another shape": lambda x: x.reshape(3, 2),
    "fewer axes": lambda x: x.ravel(),
    "more axes": lambda x: x[None],
    "one longer": lambda x: np.vstack([x, x[:1]]),
    "columns first": np.asfortranarray,
    "every second": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "not aligned": off_by_a_byte,
    "a class of its own": lambda x: x.view(Marked),
    "a tensor": phix.to_tensor,
    "lists": lambda x: x.tolist(),
    "a number": lambda x: 2.5,
    "a single value of NumPy": lambda x: np.float32(2),
}


@pytest.mark.parametrize("other", OTHER_ARRAYS)
def test_arrays_of_other_kinds_are_left_to_the_long_way(other: str) -> None:
    like = np.arange(6, dtype="f").reshape(2, 3)
    jitted = phix.jit(lambda x, y: x * 2 + y.sum())
    often(jitted, like, like)
    (flat,) = jitted._flat
    x = OTHER_ARRAYS[other](like)
    assert flat((x, like)) is MISS and flat((like, x)) is MISS
    if other != "lists":
        np.testing.assert_array_equal(jitted(x, like), np.asarray(x, "d") * 2 + 15)


def test_arrays_of_the_same_kind_are_known() -> None:
    like = np.arange(6, dtype="f").reshape(2, 3)
    jitted = phix.jit(lambda x, y: x * 2 + y)
    often(jitted, like, np.zeros((), "f"))
    (flat,) = jitted._flat
    pickled = pickle.loads(pickle.dumps(like * 3))
    assert pickled.dtype is not like.dtype
    for x in (like + 1, pickled, np.dstack([like, like])[..., 0].copy()):
        np.testing.assert_array_equal(flat((x, np.array(1, "f"))), x * 2 + 1)
    to_read = (like + 1).copy()
    to_read.flags.writeable = False
    np.testing.assert_array_equal(flat((to_read, np.array(1, "f"))), to_read * 2 + 1)


def test_arrays_go_where_the_device_says(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted, x = phix.jit(lambda x: x * 2), np.ones(3, np.float32)
    often(jitted, x)
    (flat,) = jitted._flat
    with phix.device("cpu"):
        np.testing.assert_array_equal(flat((x,)), [2, 2, 2])
    monkeypatch.setattr(context, "place", Place("elsewhere", 0))
    assert flat((x,)) is MISS


def test_a_kind_that_comes_often_where_settings_differ_gets_no_function_there() -> None:
    jitted, x = phix.jit(lambda x: x * 2), np.ones(3, np.float32)
    with phix.debug.settings(most_steps=1):
        for _ in range(TIMES):
            jitted(x)
        assert not jitted._flat
    often(jitted, x)
