"""Neighbours, nodes and classes drawn at random: that they are what they should be, as often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised
ROW = np.array([3, 1, 2, 0, 3, 2, 1, 0])
ENDS = np.array([0, 3, 3, 4, 8])
EIDS = np.arange(8) * 10


def keys(count: int) -> Any:
    return phix.random.split(phix.random.key(7), count)


def test_neighbours_are_drawn_without_replacement_and_equally() -> None:
    nodes = np.array([3, 1, 0])

    @phix.jit
    def run(key: Any) -> Any:
        return ops.graph_sample_neighbors(key, ROW, ENDS, nodes, EIDS, None, 2, True, False)

    drawn = [[t.numpy() for t in run(key)] for key in keys(400)]
    times = np.zeros(8)
    for out, count, eids in drawn:
        np.testing.assert_array_equal(count, [2, 0, 2])
        np.testing.assert_array_equal(out, ROW[eids // 10])
        assert len(set(eids[:2])) == 2 and set(eids[:2]) <= {40, 50, 60, 70}
        assert len(set(eids[2:])) == 2 and set(eids[2:]) <= {0, 10, 20}
        times[eids // 10] += 1
    np.testing.assert_allclose(times[4:], 200, atol=50)
    np.testing.assert_allclose(times[:3], 400 * 2 / 3, atol=50)


def test_all_neighbours_come_in_their_order() -> None:
    found = ops.graph_sample_neighbors(
        keys(1)[0], ROW, ENDS, np.array([3, 2]), None, None, -1, False, False
    )
    np.testing.assert_array_equal(found[0], [3, 2, 1, 0, 0])
    np.testing.assert_array_equal(found[1], [4, 1])
    assert found[2] is None


def test_weights_are_chances() -> None:
    weight = np.array([1, 1, 1, 1, 1.0, 3.0, 0.0, 4.0], "f")

    @phix.jit
    def run(key: Any) -> Any:
        return ops.weighted_sample_neighbors(key, ROW, ENDS, weight, np.array([3]), EIDS, 1, True)[
            2
        ]

    times = np.bincount([run(key).item() // 10 for key in keys(800)], minlength=8)
    np.testing.assert_allclose(times[4:] / 100, [1, 3, 0, 4], atol=0.5)


def test_hops_go_on_from_new_nodes() -> None:
    x = np.array([0, 0, 1])

    @phix.jit
    def run(key: Any) -> Any:
        return ops.graph_khop_sampler(key, ROW, ENDS, x, EIDS, [2, 3], True)

    for key in keys(5):
        source, to, nodes, index, eids = (t.numpy() for t in run(key))
        assert len(set(nodes)) == len(nodes)
        np.testing.assert_array_equal(nodes[index], x)
        np.testing.assert_array_equal(nodes[source[:, 0]], ROW[eids // 10])
        owner = np.searchsorted(ENDS, eids // 10, side="right") - 1
        np.testing.assert_array_equal(nodes[to[:, 0]], owner)
        assert sum(owner == 0) == 2
        for node in set(ROW[(eids // 10)[owner == 0]]) - {0, 1}:
            assert sum(owner == node) == min(3, ENDS[node + 1] - ENDS[node])


def test_edges_beyond_the_rows_are_none_in_programs_and_refused_at_once() -> None:
    def counts(ends: Any) -> Any:
        nodes = np.array([0, 3])
        return ops.graph_sample_neighbors(
            keys(1)[0], ROW[:2], ends, nodes, None, None, 5, False, False
        )[1]

    np.testing.assert_array_equal(phix.jit(counts)(ENDS), [2, 0])
    with pytest.raises(phix.errors.TensorValueError, match="there are 2 edges"):
        counts(ENDS)


def test_classes_that_labels_name_come_first() -> None:
    label = np.array([5, 1, 5, 3])

    @phix.jit
    def run(key: Any) -> Any:
        return ops.class_center_sample(key, label, 8, 5)

    times = np.zeros(8)
    for key in keys(300):
        mapped, centers = (t.numpy() for t in run(key))
        np.testing.assert_array_equal(centers[:3], [1, 3, 5])
        np.testing.assert_array_equal(centers[mapped], label)
        assert len(set(centers)) == 5
        times[centers[3:]] += 1
    np.testing.assert_allclose(times[[0, 2, 4, 6, 7]], 120, atol=40)
    assert len(ops.class_center_sample(keys(1)[0], label, 8, 2)[1].numpy()) == 3
