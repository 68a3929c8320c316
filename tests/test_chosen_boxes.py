"""Boxes chosen among many: what samples of single ops do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from harness.references import detection as references
from phix import ops
from phix.testing import meanings

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(3)


def drawn_boxes(*dims: int) -> np.ndarray:
    """Small boxes in a field of 8 by 8, many of which overlap."""
    low = RNG.uniform(0, 6, (*dims, 2))
    return np.concatenate([low, low + RNG.uniform(0.5, 4, (*dims, 2))], -1)


def assert_same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_classes_of_many_images_in_one_program() -> None:
    attrs = (0.2, 4, 5, 0.55, False, 0.9, 1)
    boxes, scores = drawn_boxes(3, 7), RNG.uniform(0, 1, (3, 3, 7))
    run = meanings.compiled_for_all_sizes(
        lambda b, s: ops.multiclass_nms3(b, s, None, *attrs), [boxes, scores]
    )
    for images, count in ((3, 7), (1, 2), (2, 0)):
        arrays = boxes[:images, :count], scores[:images, :, :count]
        assert_same(run(*arrays), references.kept_by_class(*arrays, None, *attrs))


def test_boxes_in_a_row_keep_their_order() -> None:
    attrs = (0.1, -1, 4, 0.5, True, 1.0, -1)
    boxes, scores, counts = drawn_boxes(9, 2), RNG.uniform(0, 1, (9, 2)), np.array([4, 0, 5])
    found = ops.multiclass_nms3(boxes, scores, counts, *attrs)
    assert_same(found, references.kept_by_class(boxes, scores, counts, *attrs))


@pytest.mark.parametrize("gaussian", [False, True])
def test_decayed_scores_and_their_gradient(gaussian: bool) -> None:
    attrs = (0.1, 5, 6, 0.05, gaussian, 2.0, -1, True)
    boxes, scores = drawn_boxes(2, 6), RNG.uniform(0.2, 1, (2, 2, 6))
    assert_same(
        ops.matrix_nms(boxes, scores, *attrs), references.matrix_kept(boxes, scores, *attrs)
    )

    def total(s: Any) -> Any:
        return (ops.matrix_nms(boxes, s, *attrs)[0][:, 1] ** 2.0).sum()

    found = phix.jit(phix.grad(total))(scores).numpy()
    for at in ((0, 1, 2), (1, 0, 4)):
        step = np.zeros_like(scores)
        step[at] = 1e-6
        slope = (total(scores + step) - total(scores - step)).item() / 2e-6
        np.testing.assert_allclose(found[at], slope, rtol=1e-5, atol=1e-7)


def test_what_is_proposed_goes_through_levels_and_back() -> None:
    scores, deltas = RNG.uniform(0, 1, (2, 3, 2, 2)), RNG.uniform(-0.5, 0.5, (2, 12, 2, 2))
    anchors, sizes = drawn_boxes(2, 2, 3), np.array([[8.0, 9.0], [7.0, 8.0]])
    variances = np.full((2, 2, 3, 4), 0.5)
    attrs = (9, 5, 0.5, 1.5, 0.8, False)
    boxes, probs, counts = ops.generate_proposals(scores, deltas, sizes, anchors, variances, *attrs)
    wanted = references.proposals(scores, deltas, sizes, anchors, variances, *attrs)
    assert_same((boxes, probs, counts), wanted)

    @phix.jit
    def there_and_back(boxes: Any, probs: Any, counts: Any) -> Any:
        rois, numbers, places = ops.distribute_fpn_proposals(boxes, counts, 2, 4, 3, 3, True)
        order = ops.concat([places.squeeze([1])], 0)
        again = ops.gather(ops.concat(rois, 0), order, 0)
        marks = [ops.gather(probs, ops.argsort(order)[1], 0)]
        joined, found = ops.collect_fpn_proposals(
            [ops.concat(rois, 0)], marks, [ops.add_n(numbers)], 100
        )
        return again, numbers, joined, found

    again, numbers, joined, found = there_and_back(boxes, probs, counts)
    np.testing.assert_array_equal(again, boxes)
    np.testing.assert_array_equal(sum(n.numpy() for n in numbers), counts)
    assert joined.shape == boxes.shape and found.numpy().sum() == len(boxes.numpy())
