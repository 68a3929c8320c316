"""Targets of detectors: which box goes with which, and the loss of grids of predictions."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.control_flow import looped
from phix.primitives.detection import parts_of, predictions
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, in_float32

# -- bipartite_match -------------------------------------------------------------------------------
_LEAST_MATCH = 1e-6  # what is nearer to 0 matches nothing


@rules.normalize("bipartite_match")
def bipartite_match_attrs(dist: MetaTensor, match_type: str, dist_threshold: float) -> Any:
    if match_type not in ("bipartite", "per_prediction"):
        raise AttributeValueError(
            f"match_type must be bipartite or per_prediction, found {match_type!r}"
        )
    return match_type, dist_threshold


@rules.decompose("bipartite_match")
def bipartite_match(dist_mat: Any, match_type: str, dist_threshold: float) -> Any:
    """In each step the largest number whose row and column are both free."""
    if dist_mat.ndim != 2:
        raise ShapeError(f"dist_mat must be [rows, columns], found {dist_mat.meta}; use vmap")
    rows, columns = dist_mat.meta.dims
    by_column = ops.transpose(dist_mat, (1, 0))  # of equal ones the first column's comes first
    wide = ops.full((), rows, dt.int64)

    def candidates(matched: Any, taken: Any, by_column: Any) -> Any:
        free = ops.unsqueeze(matched < 0, (1,)) & ~taken & (by_column >= _LEAST_MATCH)
        return ops.where(free, by_column, 0.0)

    def test(left: Any, matched: Any, taken: Any, by_column: Any) -> list[Any]:
        return [left]

    def step(left: Any, matched: Any, taken: Any, by_column: Any) -> list[Any]:
        flat = ops.reshape(candidates(matched, taken, by_column), (rows * columns,))
        at = ops.argmax(flat, 0)
        row, column = ops.remainder(at, wide), ops.floor_divide(at, wide)
        here = numbers(columns) == column
        matched = ops.where(here, row, matched)
        taken = taken | (numbers(rows) == row)
        return [ops.any(candidates(matched, taken, by_column) > 0), matched, taken]

    matched = ops.full((columns,), -1, dt.int64)
    if not (dm.is_zero(rows) or dm.is_zero(columns)):
        taken = ops.full((rows,), False, dt.bool_)
        known = ops.stop_gradient(by_column)
        left = ops.any(candidates(matched, taken, known) > 0)
        matched = looped(test, step, [left, matched, taken], [known])[1]
    if match_type == "per_prediction" and not dm.is_zero(rows):
        enough = (by_column >= dist_threshold) & (by_column >= _LEAST_MATCH)
        best = ops.argmax(ops.where(enough, by_column, float("-inf")), 1)
        matched = ops.where((matched < 0) & ops.any(enough, (1,)), best, matched)
    is_row = ops.unsqueeze(matched, (1,)) == numbers(rows)
    dist = ops.sum(ops.where(is_row, by_column, 0.0), (1,))
    return ops.unsqueeze(as_dtype(matched, dt.int32), (0,)), ops.unsqueeze(dist, (0,))


# -- yolo_loss -------------------------------------------------------------------------------------
_MOST_SMOOTH = 1 / 40


@rules.normalize("yolo_loss")
def yolo_loss_attrs(
    x: MetaTensor, gt_box: MetaTensor, gt_label: MetaTensor, gt_score: Any, anchors: Any,
    anchor_mask: Any, class_num: int, *rest: Any,
) -> Any:  # fmt: skip
    if not anchors or len(anchors) % 2 or min(anchors) <= 0 or class_num < 1:
        raise AttributeValueError(
            "anchors are widths and heights in turn, above 0, and class_num is 1 or more, found "
            f"{list(anchors)} and {class_num}"
        )
    if not anchor_mask or not all(0 <= m < len(anchors) // 2 for m in anchor_mask):
        raise AttributeValueError(
            f"anchor_mask numbers some of {len(anchors) // 2} anchors, found {list(anchor_mask)}"
        )
    return anchors, anchor_mask, class_num, *rest


def _check_targets(x: Any, gt_box: Any, gt_label: Any, gt_score: Any) -> None:
    dims = gt_box.meta.dims
    fits = gt_box.ndim == 3 and dm.may_equal(dims[0], x.meta.dims[0]) and dm.may_equal(dims[2], 4)
    for t in (gt_label, gt_score):
        fits = fits and (t is None or (t.ndim == 2 and all(map(dm.may_equal, t.meta.dims, dims))))
    if not fits:
        found = " and ".join(str(t.meta) for t in (gt_box, gt_label, gt_score) if t is not None)
        raise ShapeError(
            f"gt_box is [images, boxes, 4], labels and scores [images, boxes], for {x.meta}, "
            f"found {found}"
        )
    if dt.kind(gt_label.dtype) != "int":
        raise DTypeError(f"gt_label holds class numbers, found {gt_label.meta}; cast it")


def _cross_entropy(logit: Any, label: Any) -> Any:
    return ops.maximum(logit, 0.0) - logit * label + ops.log1p(ops.exp(-ops.abs(logit)))


def _shared_part(a: list[Any], b: list[Any]) -> Any:
    """Intersection over union of boxes of centre, width and height; 0 where both are empty."""
    sides = []
    for k in range(2):
        high = ops.minimum(a[k] + a[k + 2] * 0.5, b[k] + b[k + 2] * 0.5)
        low = ops.maximum(a[k] - a[k + 2] * 0.5, b[k] - b[k + 2] * 0.5)
        sides.append(ops.maximum(high - low, 0.0))
    inter = sides[0] * sides[1]
    union = a[2] * a[3] + b[2] * b[3] - inter
    return inter / ops.where(union > 0, union, 1.0)


@rules.decompose("yolo_loss")
@in_float32
def yolo_loss(
    x: Any, gt_box: Any, gt_label: Any, gt_score: Any, anchors: Any, anchor_mask: Any,
    class_num: int, ignore_thresh: float, downsample_ratio: int, use_label_smooth: bool,
    scale_x_y: float,
) -> Any:  # fmt: skip
    places = predictions(x, len(anchor_mask), class_num)
    _check_targets(x, gt_box, gt_label, gt_score)
    dtype = x.dtype
    images, _, rows, columns = x.meta.dims
    boxes = [as_dtype(p, dtype) for p in parts_of(ops.stop_gradient(gt_box))]
    count = boxes[0].meta.dims[1]
    there = (boxes[2] > 0) & (boxes[3] > 0)
    score = ops.full((images, count), 1, dtype) if gt_score is None else gt_score
    score = ops.where(there, ops.stop_gradient(as_dtype(score, dtype)), 0.0)
    cells = [ops.full((), n, dtype) for n in (columns, rows)]
    own = [_vector(anchors[k::2], dtype) for k in range(2)]

    best = _best_overlap(places, boxes, there, anchor_mask, own, cells, downsample_ratio, scale_x_y)
    sizes = [o / (c * downsample_ratio) for o, c in zip(own, cells)]
    number = _best_anchor(boxes, sizes)
    match = ops.full((images, count), -1, dt.int64)
    for place, anchor in enumerate(anchor_mask):
        match = ops.where(there & (number == anchor), place, match)
    is_matched = match >= 0

    at = [_cell(b, c, n) for b, c, n in zip(boxes, cells, (columns, rows))]
    image = ops.expand(ops.reshape(numbers(images), (images, 1)), (images, count))
    where = [image, ops.maximum(match, 0), at[1], at[0]]
    loss = _matched_loss(places, where, boxes, at, cells, own, number, downsample_ratio, score,
                         gt_label, (class_num, use_label_smooth))  # fmt: skip
    loss = ops.sum(ops.where(is_matched, loss, 0.0), (1,))

    objects = ops.where(best > ignore_thresh, ops.full((), -1, dtype), 0.0)
    objects = _with_scores(objects, where, is_matched, score)
    surely = _cross_entropy(places[4], 1.0) * objects
    nothing = ops.where(objects > -0.5, _cross_entropy(places[4], 0.0), 0.0)
    confidence = ops.where(objects > 1e-5, surely, nothing)
    return loss + ops.sum(confidence, (1, 2, 3)), objects, as_dtype(match, dt.int32)


def _vector(values: Any, dtype: Any) -> Any:
    return ops.stack([ops.full((), v, dtype) for v in values], 0)


def _best_overlap(
    places: Any, boxes: Any, there: Any, mask: Any, own: Any, cells: Any, ratio: int, scale: float
) -> Any:
    """The largest overlap of each prediction with a box of its image."""
    centre, size = [], []
    for k in range(2):
        at = ops.stop_gradient(places[k])
        dims = at.meta.dims
        grid = as_dtype(numbers(dims[3 - k]), at.dtype)
        grid = ops.reshape(grid, (dims[2], 1)) if k else grid
        offset = ops.sigmoid(at) * scale - 0.5 * (scale - 1)
        centre.append(ops.unsqueeze((grid + offset) / cells[k], (1,)))
        anchor = ops.stack([own[k][m] for m in mask], 0)
        anchor = ops.reshape(anchor, (len(mask), 1, 1)) / (cells[k] * ratio)
        size.append(ops.unsqueeze(ops.exp(ops.stop_gradient(places[2 + k])) * anchor, (1,)))
    targets = [ops.reshape(b, (*b.meta.dims, 1, 1, 1)) for b in boxes]
    shared = _shared_part([*centre, *size], targets)
    shared = ops.where(ops.reshape(there, (*there.meta.dims, 1, 1, 1)), shared, 0.0)
    none = ops.full((), 0, shared.dtype)
    none = ops.expand(none, (shared.meta.dims[0], 1, *shared.meta.dims[2:]))
    return ops.max(ops.concat([shared, none], 1), (1,))


def _best_anchor(boxes: Any, sizes: Any) -> Any:
    """The anchor whose size is most like that of each box."""
    wide = [ops.unsqueeze(b, (2,)) for b in boxes[2:]]
    zero = ops.full((), 0, wide[0].dtype)
    return ops.argmax(_shared_part([zero, zero, *wide], [zero, zero, *sizes]), 2)


def _cell(box: Any, cells: Any, count: dm.DimLike) -> Any:
    """The row or column of the grid that a centre lies in."""
    last = ops.full((), count, dt.int64) - 1
    return ops.maximum(ops.minimum(ops.cast(ops.floor(box * cells), dt.int64), last), 0)


def _matched_loss(
    places: Any, where: Any, boxes: Any, at: Any, cells: Any, own: Any, number: Any, ratio: int,
    score: Any, label: Any, classes: tuple[int, bool],
) -> Any:  # fmt: skip
    """The loss of place, size and class of the prediction that each box goes with."""
    index = ops.stack(where, -1)
    found = [ops.gather_nd(p, index) for p in places[:4]]
    weight = (2 - boxes[2] * boxes[3]) * score
    loss: Any = 0.0
    for k in range(2):
        target = boxes[k] * cells[k] - as_dtype(at[k], boxes[k].dtype)
        anchor = ops.gather(own[k], number, 0)
        sides = ops.where(boxes[k + 2] > 0, boxes[k + 2], 1.0) * cells[k] * ratio / anchor
        far = ops.abs(ops.log(sides) - found[k + 2])
        loss = loss + (_cross_entropy(found[k], target) + far) * weight
    class_num, smooths = classes
    smooth = min(1 / class_num, _MOST_SMOOTH) if smooths else 0.0
    logits = ops.gather_nd(ops.transpose(places[5], (0, 1, 3, 4, 2)), index)
    is_label = ops.unsqueeze(as_dtype(label, dt.int64), (2,)) == numbers(class_num)
    wanted = ops.where(is_label, ops.full((), 1 - smooth, logits.dtype), smooth)
    return loss + ops.sum(_cross_entropy(logits, wanted), (2,)) * score


def _with_scores(objects: Any, where: Any, is_matched: Any, score: Any) -> Any:
    """The scores of matched boxes at their cells; of two at one cell, that of the later box."""
    images, anchors, rows, columns = objects.meta.dims
    size = images * anchors * rows * columns
    flat = where[0]
    for index, dim in zip(where[1:], (anchors, rows, columns)):
        flat = flat * ops.full((), dim, dt.int64) + index
    flat = ops.where(is_matched, flat, ops.full((), size, dt.int64))
    slots = ops.concat([ops.reshape(objects, (size,)), ops.full((1,), 0, objects.dtype)], 0)
    count = flat.meta.size
    put = ops.index_put(slots, [ops.reshape(flat, (count,))], ops.reshape(score, (count,)))
    return ops.reshape(ops.slice(put, [0], [0], [size]), (images, anchors, rows, columns))
