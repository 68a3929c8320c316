"""Which of overlapping boxes stay, and what their scores become."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.detection import check_boxes, parts_of
from phix.primitives.lengths import as_int, check_dims, check_ints
from phix.primitives.positions import numbers
from phix.primitives.run_time_sizes import chosen, flat
from phix.primitives.slicing import fitted
from phix.primitives.steps import scanned
from phix.primitives.widening import as_dtype, widened


def overlaps(a: Any, b: Any, extra: float = 0.0) -> Any:
    """Intersection over union of boxes [..., 4] that broadcast; 0 where the union is empty.

    ``extra`` is 1 where the last pixel belongs to a box.
    """
    first, second = parts_of(a), parts_of(b)
    both: Any = 1.0
    size: list[Any] = [1.0, 1.0]
    meet: Any = None
    for axis in range(2):
        low, high = axis, axis + 2
        shared = ops.minimum(first[high], second[high]) - ops.maximum(first[low], second[low])
        touch = shared >= 0.0
        meet = touch if meet is None else ops.logical_and(meet, touch)
        both = (shared + extra) * both
        size = [s * (p[high] - p[low] + extra) for s, p in zip(size, (first, second))]
    proper = [
        ops.logical_and(p[2] >= p[0], p[3] >= p[1]) for p in (first, second)
    ]  # what has its sides the wrong way round has no area
    areas = [ops.where(p, s, 0.0) for p, s in zip(proper, size)]
    union = areas[0] + areas[1] - both
    counts = ops.logical_and(meet, union > 0.0)
    return ops.where(counts, both / ops.where(counts, union, 1.0), 0.0)


# -- nms, multiclass_nms3 --------------------------------------------------------------------------
def staying(boxes: Any, counts: Any, threshold: float, eta: float = 1.0, extra: float = 0.0) -> Any:
    """Which boxes [rows, k, 4] stay, the best of a row first, of those that count, bool[rows, k].

    A box stays if none that stays, all of which are before it, overlaps it by more than the
    threshold of its row, which is multiplied with ``eta`` after each box that stays while it is
    above a half.
    """
    rows, count, _ = boxes.meta.dims
    place = ops.reshape(numbers(count), (1, count))

    def step(carry: Any, slices: Any) -> Any:
        (kept, limit), (box, valid, number) = carry, slices
        shared = overlaps(boxes, ops.unsqueeze(box, (1,)), extra)
        hidden = ops.any(ops.logical_and(kept, shared > limit), [1], True)
        stays = ops.logical_and(ops.unsqueeze(valid, (1,)), ops.logical_not(hidden))
        after = [ops.logical_or(kept, ops.logical_and(place == number, stays)), limit]
        if eta < 1:
            after[1] = ops.where(ops.logical_and(stays, limit > 0.5), limit * eta, limit)
        return after, []

    carry = [
        ops.full((rows, count), False, dt.bool_), ops.full((rows, 1), threshold, boxes.dtype)
    ]  # fmt: skip
    slices = [ops.transpose(boxes, (1, 0, 2)), ops.transpose(counts, (1, 0)), numbers(count)]
    (kept, _), _ = scanned(step, carry, slices)
    return kept


@rules.decompose("nms")
def nms(x: Any, threshold: float) -> Any:
    check_boxes(2, x=x)
    x = fitted(widened(x), (x.meta.dims[0], 4))
    every = ops.full((1, x.meta.dims[0]), True, dt.bool_)
    return chosen(staying(ops.unsqueeze(x, (0,)), every, threshold))


@rules.normalize("multiclass_nms3")
def multiclass_nms3_attrs(
    bboxes: MetaTensor, scores: MetaTensor, rois_num: Any, score_threshold: float,
    nms_top_k: int, keep_top_k: int, *rest: Any,
) -> Any:  # fmt: skip
    _check_limits(nms_top_k, keep_top_k)
    return score_threshold, nms_top_k, keep_top_k, *rest


def _by_image(bboxes: Any, scores: Any, rois_num: Any) -> tuple[Any, Any]:
    """Boxes [1, classes, boxes, 4] and scores [images, classes, boxes] of boxes in a row."""
    wide = scores.ndim == 2 and bboxes.ndim == 3
    if not wide or not all(map(dm.may_equal, bboxes.meta.dims, (*scores.meta.dims, 4))):
        raise ShapeError(
            "with rois_num bboxes is [boxes, classes, 4] and scores [boxes, classes], found "
            f"{bboxes.meta} and {scores.meta}"
        )
    owner = image_of("rois_num", rois_num, scores.meta.dims[0])
    images = rois_num.meta.dims[0]
    own = ops.reshape(owner, (1, 1, owner.meta.dims[0])) == ops.reshape(
        numbers(images), (images, 1, 1)
    )
    by_class = ops.unsqueeze(ops.transpose(scores, (1, 0)), (0,))
    boxes = ops.transpose(fitted(bboxes, (*scores.meta.dims, 4)), (1, 0, 2))
    return ops.unsqueeze(boxes, (0,)), ops.where(own, by_class, -math.inf)


@rules.decompose("multiclass_nms3")
def multiclass_nms3(
    bboxes: Any, scores: Any, rois_num: Any, score_threshold: float, nms_top_k: int,
    keep_top_k: int, nms_threshold: float, normalized: bool, nms_eta: float, background_label: int,
) -> Any:  # fmt: skip
    """All classes of all images at once; what stays goes out in order of image and class."""
    dtype, bboxes, scores = bboxes.dtype, widened(bboxes), widened(scores)
    if rois_num is None:
        _check_scores(bboxes, scores)
        images, _, count = scores.meta.dims
        boxes = ops.unsqueeze(fitted(bboxes, (images, count, 4)), (1,))
    else:
        boxes, scores = _by_image(bboxes, scores, rois_num)
    images, classes, count = scores.meta.dims
    label = ops.reshape(numbers(classes), (classes, 1))
    asked = ops.logical_and(scores > score_threshold, label != background_label)
    best, order = best_first(ops.where(asked, scores, -math.inf), nms_top_k)
    each = best.meta.dims[2]
    boxes = ops.expand(boxes, (images, classes, count, 4))
    places = ops.expand(ops.unsqueeze(order, (3,)), (images, classes, each, 4))
    boxes = ops.take_along_axis(boxes, places, 2)
    rows = images * classes
    kept = staying(
        ops.reshape(boxes, (rows, each, 4)), ops.reshape(best > -math.inf, (rows, each)),
        nms_threshold, nms_eta, 0.0 if normalized else 1.0,
    )  # fmt: skip
    kept = _best_of_all(ops.reshape(kept, (images, classes * each)), best, keep_top_k)
    number = ops.reshape(numbers(images), (images, 1, 1)) * as_int(count) + order
    if rois_num is not None:  # of one class the boxes come in their order, not in that of scores
        number = order * as_int(classes) + label
        turn = ops.argsort(order, 2, False, True)[1]
        best, number = (ops.take_along_axis(t, turn, 2) for t in (best, number))
        kept = ops.take_along_axis(ops.reshape(kept, best.meta.dims), turn, 2)
        wide = ops.expand(ops.unsqueeze(turn, (3,)), boxes.meta.dims)
        boxes = ops.take_along_axis(boxes, wide, 2)
    found = chosen(kept)
    kind = ops.remainder(ops.floor_divide(found, as_int(each)), as_int(classes))
    columns = [as_dtype(kind, best.dtype), ops.gather(flat(best), found, 0)]
    places = ops.gather(ops.reshape(boxes, (rows * each, 4)), found, 0)
    out = ops.concat([*(ops.unsqueeze(c, (1,)) for c in columns), places], 1)
    index = ops.unsqueeze(ops.cast(ops.gather(flat(number), found, 0), dt.int32), (1,))
    kept = ops.reshape(kept, (images, classes * each))
    return as_dtype(out, dtype), index, ops.sum(ops.cast(kept, dt.int32), [1], dt.int32, False)


def _best_of_all(kept: Any, scores: Any, limit: int) -> Any:
    """Of what stays of each image [images, boxes], the ``limit`` with the largest scores."""
    if limit < 0:
        return kept
    scores = ops.where(kept, ops.reshape(scores, kept.meta.dims), -math.inf)
    order = ops.argsort(scores, 1, True, True)[1]
    rank = ops.argsort(order, 1, False, True)[1]
    return ops.logical_and(kept, rank < limit)


def image_of(name: str, counts: Any, size: Any) -> Any:
    """The image that each of ``size`` boxes is of, from the number of boxes of each image."""
    check_ints(name, counts)
    check_dims(name, counts, (None,), "[images], a number of boxes for each")
    owner = ops.repeat_interleave_with_tensor_index(numbers(counts.meta.dims[0]), counts, 0)
    if not dm.may_equal(owner.meta.dims[0], size):
        raise ShapeError(f"{name} counts {owner.meta.dims[0]} boxes, there are {size}")
    return fitted(owner, (size,))


# -- matrix_nms ------------------------------------------------------------------------------------
@rules.normalize("matrix_nms")
def matrix_nms_attrs(
    bboxes: MetaTensor, scores: MetaTensor, score_threshold: float, nms_top_k: int,
    keep_top_k: int, *rest: Any,
) -> Any:  # fmt: skip
    _check_limits(nms_top_k, keep_top_k)
    return score_threshold, nms_top_k, keep_top_k, *rest


def _check_limits(nms_top_k: int, keep_top_k: int) -> None:
    for name, limit in (("nms_top_k", nms_top_k), ("keep_top_k", keep_top_k)):
        if limit < -1:
            raise AttributeValueError(f"{name} is a number of boxes, or -1 for all, found {limit}")


def _check_scores(bboxes: Any, scores: Any) -> None:
    check_boxes(3, bboxes=bboxes)
    images, boxes, _ = bboxes.meta.dims
    dims = scores.meta.dims
    fits = scores.ndim == 3 and dm.may_equal(dims[0], images) and dm.may_equal(dims[2], boxes)
    if not fits:
        raise ShapeError(
            "bboxes is [images, boxes, 4] and scores [images, classes, boxes], found "
            f"{bboxes.meta} and {scores.meta}"
        )


def best_first(scores: Any, limit: int) -> tuple[Any, Any]:
    """Scores along the last axis, falling, at most ``limit`` of them, and their places."""
    axis = scores.ndim - 1
    found, order = ops.argsort(scores, axis, True, True)
    if limit < 0:
        return found, order
    return ops.slice(found, [axis], [0], [limit]), ops.slice(order, [axis], [0], [limit])


def _decay(boxes: Any, gaussian: bool, sigma: float, extra: float) -> Any:
    """What the scores of boxes [..., k, 4], the best first, are multiplied with."""
    rank = boxes.ndim
    count = boxes.meta.dims[-2]
    shared = overlaps(ops.unsqueeze(boxes, (rank - 1,)), ops.unsqueeze(boxes, (rank - 2,)), extra)
    better = ops.reshape(numbers(count), (1, count)) < ops.reshape(numbers(count), (count, 1))
    shared = ops.where(better, shared, 0.0)
    if dm.is_known(count) and count == 0:
        return ops.full(boxes.meta.dims[:-1], 1.0, boxes.dtype)
    most = ops.unsqueeze(ops.max(shared, [rank - 1], False), (rank - 2,))
    if gaussian:
        by_each = ops.exp((most * most - shared * shared) * sigma)
    else:
        whole = most >= 1.0  # such a box is one that another hides: it takes nothing from others
        by_each = ops.where(whole, 1.0, (1.0 - shared) / ops.where(whole, 1.0, 1.0 - most))
    return ops.minimum(ops.min(ops.where(better, by_each, 1.0), [rank - 1], False), 1.0)


@rules.decompose("matrix_nms")
def matrix_nms(
    bboxes: Any, scores: Any, score_threshold: float, nms_top_k: int, keep_top_k: int,
    post_threshold: float, use_gaussian: bool, gaussian_sigma: float, background_label: int,
    normalized: bool,
) -> Any:  # fmt: skip
    _check_scores(bboxes, scores)
    images, classes, boxes = scores.meta.dims
    dtype, bboxes, scores = bboxes.dtype, widened(bboxes), widened(scores)
    label = ops.reshape(numbers(classes), (classes, 1))
    asked = ops.logical_and(scores > score_threshold, label != background_label)
    best, order = best_first(ops.where(asked, scores, -math.inf), nms_top_k)
    each = best.meta.dims[2]
    total = classes * each
    order = ops.reshape(order, (images, total))
    # one row of numbers for each box of each class
    places = order + ops.reshape(numbers(images), (images, 1)) * as_int(boxes)
    bboxes = fitted(bboxes, (images, boxes, 4))
    rows = ops.gather(ops.reshape(bboxes, (images * boxes, 4)), flat(places), 0)
    parted = ops.reshape(rows, (images, classes, each, 4))
    factor = _decay(parted, use_gaussian, gaussian_sigma, 0.0 if normalized else 1.0)
    seen = best > -math.inf
    decayed = ops.where(seen, best, 0.0) * factor
    stays = ops.logical_and(seen, decayed > post_threshold)
    decayed = ops.reshape(ops.where(stays, decayed, -math.inf), (images, total))
    best, rank = best_first(decayed, keep_top_k)
    kept = best > -math.inf
    found = rank + ops.reshape(numbers(images), (images, 1)) * as_int(total)
    found = ops.gather(flat(found), chosen(kept), 0)
    best = ops.gather(flat(decayed), found, 0)
    kinds = ops.floor_divide(ops.remainder(found, as_int(total)), as_int(each))
    columns = [ops.unsqueeze(as_dtype(kinds, best.dtype), (1,)), ops.unsqueeze(best, (1,))]
    out = ops.concat([*columns, ops.gather(rows, found, 0)], 1)
    index = ops.unsqueeze(ops.cast(ops.gather(flat(places), found, 0), dt.int32), (1,))
    return as_dtype(out, dtype), index, ops.sum(ops.cast(kept, dt.int32), [1], dt.int32, False)
