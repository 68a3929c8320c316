"""Boxes that are proposed where objects may be: made, sorted by size, and joined again."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.value_ranges import Counts, ValueRange
from phix.primitives.box_selection import best_first, image_of, staying
from phix.primitives.detection import check_boxes, parts_of
from phix.primitives.experts import counted
from phix.primitives.lengths import check_dims, check_ints
from phix.primitives.positions import numbers
from phix.primitives.run_time_sizes import chosen, flat
from phix.primitives.slicing import fitted
from phix.primitives.widening import as_dtype, widened

# An exponent above this would make a box of more than 1000 / 16 times its anchor.
_LARGEST = math.log(1000.0 / 16.0)


# -- generate_proposals ----------------------------------------------------------------------------
def _check_maps(scores: Any, deltas: Any, im_shape: Any, anchors: Any, variances: Any) -> None:
    check_dims("scores", scores, (None,) * 4, "[images, anchors, height, width]")
    images, each, *grid = scores.meta.dims
    check_dims("bbox_deltas", deltas, (images, each * 4, *grid), "[images, 4 * anchors, ...]")
    check_dims("im_shape", im_shape, (images, 2), "[images, 2], heights and widths")
    size = dm.product((*grid, each, 4))
    for name, t in (("anchors", anchors), ("variances", variances)):
        if not dm.may_equal(t.meta.size, size):
            raise ShapeError(f"{name} must be [height, width, anchors, 4], found {t.meta}")


def _decoded(anchors: Any, variances: Any, deltas: Any, extra: float) -> list[Any]:
    """The four sides of anchors [..., 4] that are moved and stretched."""
    left, top, right, bottom = parts_of(anchors)
    codes = [v * d for v, d in zip(parts_of(variances), parts_of(deltas))]
    low, high = [], []
    for axis, (start, end) in enumerate(((left, right), (top, bottom))):
        size = end - start + extra
        centre = codes[axis] * size + (start + size * 0.5)
        half = ops.exp(ops.minimum(codes[2 + axis], _LARGEST)) * size * 0.5
        low.append(centre - half)
        high.append(centre + half - extra)
    return [*low, *high]


def _clipped(sides: list[Any], im_shape: Any, least: float, extra: float) -> tuple[Any, Any]:
    """Boxes within their image, and which of them are large enough."""
    images = im_shape.meta.dims[0]
    parts = [ops.reshape(ops.slice(im_shape, [1], [i], [i + 1]), (images, 1)) for i in (1, 0)]
    kept = [ops.maximum(ops.minimum(s, m - extra), 0.0) for s, m in zip(sides, parts * 2)]
    fits: Any = None
    for axis, whole in enumerate(parts):
        size = kept[axis + 2] - kept[axis] + extra
        large = size >= max(least, 1.0)
        if extra:
            large = ops.logical_and(large, kept[axis] + size * 0.5 <= whole)
        fits = large if fits is None else ops.logical_and(fits, large)
    return ops.stack(kept, 2), fits


@rules.decompose("generate_proposals")
def generate_proposals(
    scores: Any, bbox_deltas: Any, im_shape: Any, anchors: Any, variances: Any,
    pre_nms_top_n: int, post_nms_top_n: int, nms_thresh: float, min_size: float, eta: float,
    pixel_offset: bool,
) -> Any:  # fmt: skip
    _check_maps(scores, bbox_deltas, im_shape, anchors, variances)
    images, each, height, width = scores.meta.dims
    total, extra, dtype = each * height * width, float(pixel_offset), scores.dtype
    scores = ops.reshape(ops.transpose(widened(scores), (0, 2, 3, 1)), (images, total))
    deltas = fitted(widened(bbox_deltas), (images, each * 4, height, width))
    deltas = ops.transpose(deltas, (0, 2, 3, 1))
    best, order = best_first(scores, pre_nms_top_n if pre_nms_top_n > 0 else -1)
    count = best.meta.dims[1]
    wide = ops.expand(ops.unsqueeze(order, (2,)), (images, count, 4))
    deltas = ops.take_along_axis(ops.reshape(deltas, (images, total, 4)), wide, 1)
    of_anchors, of_variances = (
        ops.gather(ops.reshape(widened(t), (total, 4)), order, 0) for t in (anchors, variances)
    )
    moved = _decoded(of_anchors, of_variances, deltas, extra)
    im_shape = fitted(widened(im_shape), (images, 2))
    boxes, fits = _clipped(moved, im_shape, min_size, extra)
    kept = fits
    if nms_thresh > 0:
        kept = staying(boxes, fits, nms_thresh, eta, extra)
        if post_nms_top_n > 0:
            turn = ops.cumsum(ops.cast(kept, dt.int64), 1)
            kept = ops.logical_and(kept, turn <= post_nms_top_n)
    none = ops.logical_not(ops.any(fits, [1], True))  # such an image has a box of zeros
    kept, count = ops.concat([kept, none], 1), count + 1
    boxes = ops.concat([boxes, ops.full((images, 1, 4), 0, boxes.dtype)], 1)
    best = ops.concat([best, ops.full((images, 1), 0, best.dtype)], 1)
    found = chosen(kept)
    rows = ops.gather(ops.reshape(boxes, (images * count, 4)), found, 0)
    probs = ops.gather(flat(best), found, 0)
    counts = ops.sum(ops.cast(kept, dt.int32), [1], dt.int32, False)
    return as_dtype(rows, dtype), as_dtype(ops.unsqueeze(probs, (1,)), dtype), counts


# -- collect_fpn_proposals -------------------------------------------------------------------------
@rules.normalize("collect_fpn_proposals")
def collect_attrs(rois: Any, scores: Any, counts: Any, post_nms_topn: int) -> Any:
    if post_nms_topn < 0:
        raise AttributeValueError(f"post_nms_topn is a number of boxes, found {post_nms_topn}")
    return (post_nms_topn,)


@rules.indices("collect_fpn_proposals")
def collect_values(rois: Any, scores: Any, counts: Any, *rest: Any) -> list[ValueRange]:
    return [
        Counts(f"multi_level_rois_num[{level}]", boxes.dims[:1], "boxes")
        for level, (boxes, count) in enumerate(zip(rois, counts or ()))
    ]


@rules.decompose("collect_fpn_proposals")
def collect_fpn_proposals(rois: Any, scores: Any, counts: Any, post_nms_topn: int) -> Any:
    """By score, then, of the best, by image."""
    if not rois or len(rois) != len(scores) or (counts is not None and len(counts) != len(rois)):
        raise ArgumentError(
            f"each level has boxes, scores and numbers, found {len(rois)}, {len(scores)} and "
            f"{len(counts or rois)}"
        )
    images: Any = 1
    if counts is not None:
        check_dims("multi_level_rois_num[0]", counts[0], (None,), "[images]")
        images = counts[0].meta.dims[0]
    columns, owners = [], []
    for level, (boxes, score) in enumerate(zip(rois, scores)):
        check_boxes(2, **{f"multi_level_rois[{level}]": boxes})
        size = boxes.meta.dims[0]
        if not dm.may_equal(score.meta.size, size):
            raise ShapeError(f"each box has a score, found {boxes.meta} and {score.meta}")
        columns.append(ops.reshape(score, (size,)))
        if counts is not None:
            name = f"multi_level_rois_num[{level}]"
            check_dims(name, counts[level], (images,), "[images], as those of all levels")
            check_ints(name, counts[level])
            ends = ops.cumsum(ops.cast(counts[level], dt.int64), 0)
            owners.append(ops.searchsorted(ends, numbers(size), False, True))
    order = best_first(ops.concat(columns, 0), post_nms_topn)[1]
    if counts is None:
        owner = ops.full(order.meta.dims, 0, dt.int64)
    else:
        owner, turn = ops.argsort(ops.gather(ops.concat(owners, 0), order, 0), 0, False, True)
        order = ops.gather(order, turn, 0)
    found = as_dtype(counted(owner, 0, images), dt.int32)
    return ops.gather(ops.concat(rois, 0), order, 0), found


# -- distribute_fpn_proposals ----------------------------------------------------------------------
@rules.normalize("distribute_fpn_proposals")
def distribute_attrs(
    rois: MetaTensor, rois_num: Any, min_level: int, max_level: int, refer_level: int,
    refer_scale: int, pixel_offset: bool,
) -> Any:  # fmt: skip
    if max_level < min_level or refer_scale < 1:
        raise AttributeValueError(
            "levels go from min_level to max_level and refer_scale is above 0, found "
            f"{min_level}, {max_level} and {refer_scale}"
        )
    return min_level, max_level, refer_level, refer_scale, pixel_offset


@rules.decompose("distribute_fpn_proposals")
def distribute_fpn_proposals(
    rois: Any, rois_num: Any, min_level: int, max_level: int, refer_level: int,
    refer_scale: int, pixel_offset: bool,
) -> Any:  # fmt: skip
    check_boxes(2, fpn_rois=rois)
    rois = fitted(rois, (rois.meta.dims[0], 4))
    count, extra = rois.meta.dims[0], float(pixel_offset)
    left, top, right, bottom = parts_of(widened(rois))
    wide, high = right - left, bottom - top
    proper = ops.logical_and(wide >= 0, high >= 0)
    area = ops.where(proper, (wide + extra) * (high + extra), 0.0)
    level = ops.floor(ops.log2(ops.sqrt(area) / refer_scale + 1e-6) + refer_level)
    level = ops.cast(ops.clip(level, min_level, max_level), dt.int64)
    if rois_num is None:
        owner, images = ops.full((count,), 0, dt.int64), 1
    else:
        owner, images = image_of("rois_num", rois_num, count), rois_num.meta.dims[0]
    places = [chosen(level == number) for number in range(min_level, max_level + 1)]
    order = ops.concat(places, 0)
    restore = ops.index_put(ops.full((count,), 0, dt.int64), [order], numbers(order.meta.dims[0]))
    found = [as_dtype(counted(ops.gather(owner, p, 0), 0, images), dt.int32) for p in places]
    restore = ops.unsqueeze(as_dtype(restore, dt.int32), (1,))
    return [ops.gather(rois, p, 0) for p in places], found, restore
