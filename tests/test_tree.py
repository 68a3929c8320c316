"""``phix.tree`` beside loops over the leaves, and what it refuses."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np
import pytest

import phix
from phix import tree
from phix.core.errors import ArgumentError, ConcretizationError


@tree.register_dataclass
@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


TREE = {"w": [1, (2, 3)], "b": Pair(4, None), "e": ()}
LEAVES, PATHS = [4, 1, 2, 3], ["b.a", "w.0", "w.1.0", "w.1.1"]


def is_pair(node: Any) -> bool:
    return isinstance(node, (tuple, Pair)) and node != ()


def test_paths_and_leaves_come_together() -> None:
    assert tree.leaves_with_path(TREE) == list(zip(PATHS, LEAVES))
    named, treedef = tree.flatten_with_path(TREE)
    assert named == list(zip(PATHS, LEAVES)) and treedef == tree.structure(TREE)
    assert tree.unflatten(treedef, LEAVES) == TREE
    assert tree.leaves_with_path({}) == []


def test_what_is_a_leaf_may_be_said() -> None:
    found = [Pair(4, None), 1, (2, 3)]
    assert tree.leaves(TREE, is_pair) == tree.flatten(TREE, is_pair)[0] == found
    assert tree.paths(TREE, is_pair) == ["b", "w.0", "w.1"]
    assert tree.leaves_with_path(TREE, is_pair) == list(zip(["b", "w.0", "w.1"], found))
    assert tree.map(str, TREE, is_leaf=is_pair) == {
        "w": ["1", "(2, 3)"], "b": "Pair(a=4, b=None)", "e": ()
    }  # fmt: skip
    assert tree.map(lambda a, b: (a, b), [(1, 2)], [5], is_leaf=is_pair) == [((1, 2), 5)]
    assert tree.map_with_path(lambda p, x: p, [(1, 2), 3], is_leaf=is_pair) == ["0", "1"]
    assert tree.leaves([None, 1], lambda x: x is None) == [None, 1]
    assert tree.reduce(operator.add, [(1,), (2,)], is_leaf=is_pair) == (1, 2)
    assert tree.reduce_associative(operator.add, [(1,), (2,)], is_leaf=is_pair) == (1, 2)
    assert tree.all([(0,), 1], is_pair) and not tree.all([(0,), 1])
    assert tree.structure([(1, 2), 3], is_pair) == tree.structure([1, 2])


def test_leaves_are_combined_from_the_first_to_the_last_or_by_neighbours() -> None:
    assert tree.reduce(operator.sub, TREE) == 4 - 1 - 2 - 3
    assert tree.reduce(operator.sub, TREE, 10) == 10 - sum(LEAVES)
    assert tree.reduce(operator.sub, {}, None) is None
    joined = lambda a, b: f"({a}{b})"  # noqa: E731
    for count, wanted in ((1, "a"), (2, "(ab)"), (3, "((ab)c)"), (6, "(((ab)(cd))(ef))")):
        assert tree.reduce_associative(joined, list("abcdef"[:count])) == wanted
        assert tree.reduce_associative(joined, list("abcdef"[:count]), identity="-") == wanted
    assert tree.reduce_associative(joined, (), identity="-") == "-"
    norm = lambda t: tree.reduce(lambda s, x: s + (x * x).sum(), t, 0.0)  # noqa: E731
    slopes = phix.jit(phix.grad(norm))({"a": np.array([1.0, 2.0]), "b": [np.array(3.0)]})
    assert slopes["a"].tolist() == [2.0, 4.0] and slopes["b"][0].item() == 6.0
    for run, what in (
        (lambda: tree.reduce(operator.add, [None]), "has no leaves; give an initializer"),
        (lambda: tree.reduce_associative(operator.add, ()), "has no leaves; give the identity"),
        (lambda: tree.reduce(1, [2]), "takes a function"),
    ):
        with pytest.raises(ArgumentError, match=what):
            run()


def test_whether_all_leaves_are_true() -> None:
    assert tree.all({}) is True and tree.all([1, {"a": np.True_}]) is True
    assert tree.all([1, phix.to_tensor(False)]) is False
    with pytest.raises(ConcretizationError):
        phix.jit(lambda x: tree.all([x]))(True)


def test_a_prefix_in_the_structure_of_a_tree() -> None:
    full = {"w": [1, (2, 3)], "b": Pair(4, None), "e": ()}
    wanted = {"w": [0, (0, 0)], "b": Pair(5, None), "e": ()}
    assert tree.broadcast({"w": 0, "b": 5, "e": 7}, full) == wanted
    assert tree.broadcast(0, full) == tree.map(lambda _: 0, full)
    assert tree.broadcast({"w": [8, 9], "b": 5, "e": 7}, full)["w"] == [8, (9, 9)]
    for prefix in ({"w": 0}, {"w": [0, 1, 2], "b": 5, "e": 7}, [1, 2]):
        with pytest.raises(ArgumentError, match="is no prefix of the structure"):
            tree.broadcast(prefix, full)


def test_trees_of_trees_are_turned_inside_out() -> None:
    outer, inner = tree.structure({"w": 0, "b": [0]}), tree.structure(Pair(0, (0,)))
    whole = {"w": Pair(1, (2,)), "b": [Pair(3, (4,))]}
    wanted = Pair({"w": 1, "b": [3]}, ({"w": 2, "b": [4]},))
    assert tree.transpose(outer, inner, whole) == wanted
    assert tree.transpose(outer, None, whole) == wanted
    assert tree.transpose(inner, outer, wanted) == whole
    assert tree.transpose(tree.structure([]), inner, []) == Pair([], ([],))
    grads = phix.vmap(phix.grad(lambda p: p["a"] * p["b"]))({"a": np.ones(2), "b": np.arange(2.0)})
    assert grads["a"].tolist() == [0.0, 1.0]
    for given in (
        (outer, inner, {"w": Pair(1, (2,)), "b": []}),
        (outer, inner, {"w": Pair(1, 2), "b": [Pair(3, (4,))]}),
        (tree.structure([]), None, []),
    ):
        with pytest.raises(ArgumentError, match="is no tree of structure"):
            tree.transpose(*given)
    with pytest.raises(ArgumentError, match=r"takes what tree\.structure gives"):
        tree.transpose({"w": 0}, inner, whole)  # type: ignore[arg-type]


def test_what_says_what_is_a_leaf_is_a_function() -> None:
    for run in (tree.flatten, tree.leaves, tree.paths, lambda t, f: tree.broadcast(t, t, f)):
        with pytest.raises(ArgumentError, match="is_leaf must be a function"):
            run([1], 3)  # type: ignore[operator]


def test_endless_trees_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for run in (
        tree.structure, tree.all, tree.leaves_with_path, tree.flatten_with_path,
        lambda t: tree.broadcast(1, t), lambda t: tree.reduce(operator.add, t),
        lambda t: tree.transpose(tree.structure(1), None, t),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="nested too deeply"):
            run(endless)
