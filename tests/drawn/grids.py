"""Rows of grids, places along lines, grouped heads, experts and other ops of several operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from tests.drawn.case import Case, Draw, Run, row, rows
from tests.drawn.indexing import bounds, sliced


@row
def grid_sample(draw: Draw) -> Case:
    rank, corners = draw.one_of(2, 2, 3), draw.is_true()
    mode, padding = draw.one_of("bilinear", "nearest"), draw.one_of("zeros", "border", "reflection")
    n, c = draw.size(0, 2), draw.size(0, 2)
    image, places = ([draw.size() for _ in range(rank)] for _ in range(2))
    grid = 0.83 * draw.numbers(n, *places[:2], *(1 for _ in places[2:]), rank)
    return Case(
        lambda x, g: ops.grid_sample(x, g, mode, padding, corners),
        [draw.numbers(n, c, *image), grid],
        order=1,
    )


@row
def affine_grid(draw: Draw) -> Case:
    rank, corners = draw.one_of(2, 3), draw.is_true()
    shape = [draw.size(), 1, *(draw.size() for _ in range(rank))]
    return Case(
        lambda x: ops.affine_grid(x, shape, corners), [draw.numbers(shape[0], rank, rank + 1)]
    )  # fmt: skip


@row
def linspace(draw: Draw) -> Case:
    number = 1 + draw.below(4)
    return Case(
        lambda a, b: ops.linspace(a, b, number),
        [draw.numbers(), draw.numbers() + 1.0],
        lambda a, b: np.linspace(a, b, number),
    )


@row
def logspace(draw: Draw) -> Case:
    number = 1 + draw.below(4)
    return Case(
        lambda a, b, base: ops.logspace(a, b, number, base, None),
        [draw.numbers(), draw.numbers() + 1.0, draw.positive()],
        lambda a, b, base: np.logspace(a, b, number, base=base),
    )


@row
def full_with_tensor(draw: Draw) -> Case:
    shape, value = draw.shape(), draw.one_of((), (1,))
    return Case(
        lambda v: ops.full_with_tensor(v, shape, "float64"),
        [draw.numbers(*value)],
        lambda v: np.broadcast_to(v, shape) if shape else v.reshape(()),
    )


@row
def flash_attn(draw: Draw) -> Case:
    batch, q, k, size = draw.size(0, 2), draw.size(), draw.size(), draw.size(1, 3)
    heads, group = draw.size(1, 2), 1 + draw.below(2)
    causal, weights, masked = draw.is_true(), draw.is_true(), draw.below(3) == 0
    whole = (batch, heads * group, q, k)
    mask = [draw.numbers(*(1 if draw.is_true() else n for n in whole))] if masked else []

    def run(q: Any, k: Any, v: Any, *m: Any) -> Any:
        found = ops.flash_attn(q, k, v, None, *(m or (None,)), 0.0, causal, weights, True)
        return found[0], found[1]

    keys = (batch, k, heads, size)
    inputs = [draw.numbers(batch, q, heads * group, size), draw.numbers(*keys),
              draw.numbers(*keys), *mask]  # fmt: skip
    return Case(run, inputs)


@row
def moe_combine(draw: Draw) -> Case:
    rows_, width, tokens, k = draw.size(1), draw.size(), draw.size(), draw.size()
    return Case(
        ops.moe_combine,
        [
            draw.numbers(rows_, width),
            draw.numbers(tokens, k),
            draw.index((tokens, k), rows_).astype(np.int32),
        ],
        lambda x, w, i: np.einsum("tk,tkh->th", w, x[i]),
    )


@row
def batched_gemm(draw: Draw) -> Case:
    sizes = [draw.size() for _ in range(1 + draw.below(3))]
    left, right, n, m = draw.below(3) == 0, draw.is_true(), draw.size(), draw.size()
    right = right and not left
    lhs = draw.numbers(sum(sizes), n)
    wide = (len(sizes), m, n) if right else (len(sizes), n, m)
    rhs = draw.numbers(sum(sizes), m) if left else draw.numbers(*wide)
    return Case(lambda x, y: ops.batched_gemm(x, y, sizes, left, right), [lhs, rhs])


@row
def viterbi_decode(draw: Draw) -> Case:
    batch, time, tags, ends = draw.size(), draw.size(1), draw.size(1), draw.is_true()
    tags += 2 * ends
    return Case(
        lambda x, t, n: ops.viterbi_decode(x, t, n, ends),
        [
            draw.numbers(batch, time, tags),
            0.937 * draw.numbers(tags, tags),
            draw.index((batch,), time) + 1,
        ],
        order=1,
    )


@row
def correlation(draw: Draw) -> Case:
    n, c, h, w = draw.size(0, 2), draw.size(1, 2), draw.size(1), draw.size(1)
    pad, kernel, far = draw.below(4), draw.one_of(1, 1, 3), draw.below(3)
    strides = 1 + draw.below(2), 1 + draw.below(2)
    return Case(
        lambda x, y: ops.correlation(x, y, pad, kernel, far, *strides),
        [draw.numbers(n, c, h, w), draw.numbers(n, c, h, w)],
    )


@row
def im2sequence(draw: Draw) -> Case:
    n, c, h, w = draw.size(0, 2), draw.size(0, 2), draw.size(1), draw.size(1)
    kernels, strides = ([1 + draw.below(3) for _ in range(2)] for _ in range(2))
    paddings = [draw.below(3) for _ in range(4)]
    return Case(
        lambda x: ops.im2sequence(x, None, kernels, strides, paddings), [draw.numbers(n, c, h, w)]
    )


@row
def set_value(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    axes = draw.axes(len(shape))
    starts, ends, steps = bounds(draw, axes, True)
    where = sliced(len(shape), axes, starts, ends, steps)
    value = draw.one_of([1], list(np.zeros(shape)[where].shape))
    numbers = draw.numbers(*value).reshape(-1).tolist()

    def reference(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[where] = np.reshape(numbers, value)
        return x

    return Case(
        lambda x: ops.set_value(x, starts, ends, steps, axes, [], [], value, numbers),
        [draw.numbers(*shape)],
        reference,
    )


def trailing_softmax(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape(4, 4)
        if name == "fused_softmax_mask":
            mask = (shape[0], 1, *shape[2:])
            return Case(ops.fused_softmax_mask, [draw.numbers(*shape), draw.numbers(*mask)])
        shape = (*shape[:3], shape[2])
        return Case(ops.fused_softmax_mask_upper_triangle, [draw.numbers(*shape)])

    return draw_case


rows("fused_softmax_mask fused_softmax_mask_upper_triangle", trailing_softmax)
