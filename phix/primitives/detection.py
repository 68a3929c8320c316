"""Boxes of detectors: codes against priors, clipping, priors, what a grid of predictions says."""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, in_float32

_CODES = ("encode_center_size", "decode_center_size")


def parts_of(boxes: Any) -> list[Any]:
    """The four numbers of boxes [..., 4]."""
    axis = boxes.ndim - 1
    return [ops.squeeze(ops.slice(boxes, [axis], [i], [i + 1]), (axis,)) for i in range(4)]


def check_boxes(rank: int, **tensors: Any) -> None:
    for name, t in tensors.items():
        if t is not None and (t.ndim != rank or not dm.may_equal(t.meta.dims[-1], 4)):
            dims = ", ".join(["boxes", "boxes"][: rank - 1])
            raise ShapeError(f"{name} must be [{dims}, 4], found {t.meta}; reshape it")


# -- box_coder, box_clip ---------------------------------------------------------------------------
@rules.normalize("box_coder")
def box_coder_attrs(
    prior: MetaTensor, var: Any, target: MetaTensor, code_type: str, box_normalized: bool,
    axis: int, variance: Any,
) -> Any:  # fmt: skip
    if code_type not in _CODES:
        raise AttributeValueError(f"code_type must be {' or '.join(_CODES)}, found {code_type!r}")
    if axis not in (0, 1):
        raise AttributeValueError(f"axis must be 0 or 1, found {axis}")
    if len(variance) not in (0, 4):
        raise AttributeValueError(f"variance is four numbers, or none, found {list(variance)}")
    if variance and var is not None:
        raise ArgumentError("variances are given by prior_box_var or by variance, not by both")
    return code_type, box_normalized, axis, variance


@rules.decompose("box_coder")
@in_float32
def box_coder(
    prior_box: Any, prior_box_var: Any, target_box: Any, code_type: str, box_normalized: bool,
    axis: int, variance: Any,
) -> Any:  # fmt: skip
    encodes = code_type == _CODES[0]
    check_boxes(2, prior_box=prior_box, prior_box_var=prior_box_var)
    check_boxes(2 if encodes else 3, target_box=target_box)
    extra = 0.0 if box_normalized else 1.0
    along = 0 if encodes or axis == 0 else 1  # the axis that priors do not lie along
    if not encodes and not dm.may_equal(target_box.meta.dims[1 - along], prior_box.meta.dims[0]):
        raise ShapeError(
            f"target_box has a code for each prior along axis {1 - along}, found "
            f"{target_box.meta} and {prior_box.meta}"
        )

    def against(t: Any) -> Any:
        """A number a prior, against the codes."""
        return ops.unsqueeze(t, (along,))

    left, top, right, bottom = parts_of(prior_box)
    width, height = right - left + extra, bottom - top + extra
    centre = [against(left + width * 0.5), against(top + height * 0.5)]
    size = [against(width), against(height)]
    scales: list[Any] = list(variance) or [1.0] * 4
    if prior_box_var is not None:
        scales = [against(v) for v in parts_of(prior_box_var)]
    if encodes:
        found = _encoded(parts_of(ops.unsqueeze(target_box, (1,))), centre, size, extra)
        return ops.stack([c / s for c, s in zip(found, scales)], -1)
    codes = [c * s for c, s in zip(parts_of(target_box), scales)]
    middle = [c * s + m for c, s, m in zip(codes, size, centre)]
    half = [ops.exp(c) * s * 0.5 for c, s in zip(codes[2:], size)]
    low = [m - h for m, h in zip(middle, half)]
    high = [m + h - extra for m, h in zip(middle, half)]
    return ops.stack([*low, *high], -1)


def _encoded(target: list[Any], centre: list[Any], size: list[Any], extra: float) -> list[Any]:
    left, top, right, bottom = target
    middle = ((left + right) * 0.5, (top + bottom) * 0.5)
    sides = (right - left + extra, bottom - top + extra)
    places = [(m - c) / s for m, c, s in zip(middle, centre, size)]
    return [*places, *(ops.log(ops.abs(w / s)) for w, s in zip(sides, size))]


@rules.decompose("box_clip")
def box_clip(input: Any, im_info: Any) -> Any:
    """Into the image as it was before it was scaled, whose last pixel is at its size less 1."""
    check_info = im_info.ndim == 2 and dm.may_equal(im_info.meta.dims[1], 3)
    if not check_info or input.ndim not in (2, 3) or not dm.may_equal(input.meta.dims[-1], 4):
        raise ShapeError(
            "input is [boxes, 4] or [images, boxes, 4], and im_info [images, 3]: height, width and "
            f"scale, found {input.meta} and {im_info.meta}"
        )
    images = 1 if input.ndim == 2 else input.meta.dims[0]
    if not dm.may_equal(im_info.meta.dims[0], images):
        raise ShapeError(f"there are as many images, found {input.meta} and {im_info.meta}")
    height, width, scale = (
        ops.reshape(ops.slice(im_info, [1], [i], [i + 1]), (images, 1)[3 - input.ndim :])
        for i in range(3)
    )
    last = [ops.round(side / scale) - 1 for side in (width, height)] * 2
    kept = [
        ops.maximum(ops.minimum(part, as_dtype(most, input.dtype)), 0.0)
        for part, most in zip(parts_of(input), last)
    ]
    return ops.stack(kept, -1)


# -- prior_box -------------------------------------------------------------------------------------
_LEAST_DIFFERENCE = 1e-6


@rules.normalize("prior_box")
def prior_box_attrs(
    input: MetaTensor, image: MetaTensor, min_sizes: Any, max_sizes: Any, ratios: Any,
    variances: Any, *rest: Any,
) -> Any:  # fmt: skip
    if not min_sizes or min(min_sizes) <= 0:
        raise AttributeValueError(f"min_sizes are numbers above 0, found {list(min_sizes)}")
    max_sizes = max_sizes or ()
    for name, numbers_given in (("aspect_ratios", ratios), ("variances", variances)):
        if numbers_given is None:
            raise AttributeValueError(f"{name} is a list of numbers, found None; leave it out")
    if max_sizes and len(max_sizes) != len(min_sizes):
        raise AttributeValueError(
            f"max_sizes go with min_sizes one by one, found {list(max_sizes)} and {list(min_sizes)}"
        )
    if any(high <= low for high, low in zip(max_sizes, min_sizes)):
        raise AttributeValueError(
            f"each of max_sizes is above its min_size, found {list(max_sizes)}, {list(min_sizes)}"
        )
    if len(variances) != 4 or min(variances) <= 0:
        raise AttributeValueError(f"variances are four numbers above 0, found {list(variances)}")
    if any(r <= 0 for r in ratios):
        raise AttributeValueError(f"aspect_ratios are above 0, found {list(ratios)}")
    return min_sizes, max_sizes, ratios, variances, *rest


def _sides(
    min_sizes: Any, max_sizes: Any, ratios: Any, flip: bool, extremes_first: bool
) -> list[tuple[float, float]]:
    """Width and height of each prior."""
    every = [1.0]
    for ratio in ratios:
        if all(abs(ratio - r) >= _LEAST_DIFFERENCE for r in every):
            every += [ratio, 1 / ratio] if flip else [ratio]
    sides: list[tuple[float, float]] = []
    for number, size in enumerate(min_sizes):
        shapes = [(size * math.sqrt(r), size / math.sqrt(r)) for r in every]
        square = [(math.sqrt(size * m),) * 2 for m in max_sizes[number : number + 1]]
        sides += [shapes[0], *square, *shapes[1:]] if extremes_first else [*shapes, *square]
    return sides


@rules.decompose("prior_box")
def prior_box(
    input: Any, image: Any, min_sizes: Any, max_sizes: Any, aspect_ratios: Any, variances: Any,
    flip: bool, clip: bool, step_w: float, step_h: float, offset: float, extremes_first: bool,
) -> Any:  # fmt: skip
    if input.ndim != 4 or image.ndim != 4:
        raise ShapeError(f"input and image have four axes, found {input.meta} and {image.meta}")
    dtype = dt.float64 if input.dtype == dt.float64 else dt.float32
    sides = _sides(min_sizes, max_sizes, aspect_ratios, flip, extremes_first)
    grid = input.meta.dims[2:]
    dims = (*grid, len(sides))
    bounds: dict[str, list[Any]] = {"low": [], "high": []}
    for axis, step in ((1, step_w), (0, step_h)):  # x, then y
        whole = ops.full((), image.meta.dims[2 + axis], dtype)
        apart = step or whole / ops.full((), grid[axis], dtype)
        centre = (as_dtype(numbers(grid[axis]), dtype) + offset) * apart
        half = ops.stack([ops.full((), s[1 - axis] / 2, dtype) for s in sides], 0)
        centre = ops.reshape(centre, [d if i == axis else 1 for i, d in enumerate((*grid, 1))])
        for name, edge in (("low", centre - half), ("high", centre + half)):
            bounds[name].append(ops.expand(edge / whole, dims))
    boxes = ops.stack([*bounds["low"], *bounds["high"]], -1)
    if clip:
        boxes = ops.clip(boxes, 0.0, 1.0)
    spread = ops.stack([ops.full((), v, dtype) for v in variances], 0)
    return tuple(as_dtype(t, input.dtype) for t in (boxes, ops.expand(spread, (*dims, 4))))


# -- what a grid of predictions says ---------------------------------------------------------------
def _checked_anchors(anchors: Any, class_num: int) -> int:
    if not anchors or len(anchors) % 2 or min(anchors) <= 0 or class_num < 1:
        raise AttributeValueError(
            "anchors are widths and heights in turn, above 0, and class_num is 1 or more, found "
            f"{list(anchors)} and {class_num}"
        )
    return len(anchors) // 2


def predictions(x: Any, anchors: int, class_num: int) -> list[Any]:
    """x, y, width, height, confidence and classes of [images, anchors * (5 + classes), h, w]."""
    if x.ndim != 4 or not dm.may_equal(x.meta.dims[1], anchors * (5 + class_num)):
        raise ShapeError(
            f"x must be [images, {anchors * (5 + class_num)}, rows, columns], {anchors} anchors of "
            f"5 + {class_num} numbers, found {x.meta}"
        )
    images, _, rows, columns = x.meta.dims
    parted = ops.reshape(x, (images, anchors, 5 + class_num, rows, columns))
    single = [ops.squeeze(ops.slice(parted, [2], [i], [i + 1]), (2,)) for i in range(5)]
    return [*single, ops.slice(parted, [2], [5], [5 + class_num])]


@rules.normalize("yolo_box")
def yolo_box_attrs(x: MetaTensor, img_size: MetaTensor, anchors: Any, *rest: Any) -> Any:
    class_num, _, downsample_ratio, *_ = rest
    _checked_anchors(anchors, class_num)
    if downsample_ratio < 1:
        raise AttributeValueError(f"downsample_ratio must be 1 or more, found {downsample_ratio}")
    return anchors, *rest


@rules.decompose("yolo_box")
def yolo_box(
    x: Any, img_size: Any, anchors: Any, class_num: int, conf_thresh: float, downsample_ratio: int,
    clip_bbox: bool, scale_x_y: float, iou_aware: bool, iou_aware_factor: float,
) -> Any:  # fmt: skip
    count = len(anchors) // 2
    overlap = None
    if iou_aware:
        if x.ndim != 4 or not dm.may_equal(x.meta.dims[1], count * (6 + class_num)):
            raise ShapeError(
                f"with iou_aware x has {count} overlaps and {count} anchors of 5 + {class_num} "
                f"numbers in axis 1, found {x.meta}"
            )
        overlap = ops.sigmoid(ops.slice(x, [1], [0], [count]))
        x = ops.slice(x, [1], [count], [count * (6 + class_num)])
    places = predictions(x, count, class_num)
    images, _, rows, columns = x.meta.dims
    if img_size.ndim != 2 or not all(map(dm.may_equal, img_size.meta.dims, (images, 2))):
        raise ShapeError(f"img_size must be [images, 2], height and width, found {img_size.meta}")
    sizes = [
        ops.reshape(as_dtype(ops.slice(img_size, [1], [i], [i + 1]), x.dtype), (images, 1, 1, 1))
        for i in range(2)
    ]
    conf = ops.sigmoid(places[4])
    if overlap is not None:
        conf = ops.pow(conf, 1 - iou_aware_factor) * ops.pow(overlap, iou_aware_factor)
    seen = conf >= conf_thresh
    low, high = [], []
    for axis, (cells, whole) in enumerate(((columns, sizes[1]), (rows, sizes[0]))):
        grid = as_dtype(numbers(cells), x.dtype)
        grid = ops.reshape(grid, (cells, 1) if axis else (cells,))
        offset = ops.sigmoid(places[axis]) * scale_x_y - 0.5 * (scale_x_y - 1)
        length = ops.full((), cells, x.dtype)
        centre = (offset + grid) * whole / length
        own = ops.stack([ops.full((1, 1), a, x.dtype) for a in anchors[axis::2]], 0)
        half = ops.exp(places[2 + axis]) * own * whole / (length * downsample_ratio) * 0.5
        first, last = centre - half, centre + half
        if clip_bbox:
            first, last = ops.maximum(first, 0.0), ops.minimum(last, whole - 1)
        low.append(ops.where(seen, first, 0.0))
        high.append(ops.where(seen, last, 0.0))
    boxes = ops.reshape(ops.stack([*low, *high], -1), (images, count * rows * columns, 4))
    scores = ops.where(
        ops.unsqueeze(seen, (2,)), ops.unsqueeze(conf, (2,)) * ops.sigmoid(places[5]), 0.0
    )
    scores = ops.transpose(scores, (0, 1, 3, 4, 2))
    return boxes, ops.reshape(scores, (images, count * rows * columns, class_num))


@rules.decompose("yolo_box_head")
def yolo_box_head(x: Any, anchors: Any, class_num: int) -> Any:
    count = _checked_anchors(anchors, class_num)
    predictions(x, count, class_num)
    images, _, rows, columns = x.meta.dims
    parted = ops.reshape(x, (images, count, 5 + class_num, rows, columns))
    at = ops.reshape(numbers(5 + class_num), (5 + class_num, 1, 1))
    is_size = (at == 2) | (at == 3)
    found = ops.where(is_size, ops.exp(parted), ops.sigmoid(parted))
    return ops.reshape(found, x.meta.dims)
