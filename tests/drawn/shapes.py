"""Rows of ops that arrange elements in other shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import ops
from tests.drawn.case import Case, Draw, Run, row, rows


@row
def roll(draw: Draw) -> Case:
    shape = draw.shape()
    axes = draw.axes(len(shape))
    shifts = [draw.below(11) - 5 for _ in axes] or [draw.below(11) - 5]
    return Case(
        lambda x: ops.roll(x, shifts, axes),
        [draw.numbers(*shape)],
        lambda x: np.roll(x, shifts if axes else shifts[0], axes or None),
    )


@row
def flip(draw: Draw) -> Case:
    shape = draw.shape()
    axes = draw.axes(len(shape))
    return Case(
        lambda x: ops.flip(x, axes), [draw.numbers(*shape)], lambda x: np.flip(x, axes)
    )  # fmt: skip


@row
def tile(draw: Draw) -> Case:
    shape = draw.shape(0, 3)
    times = [draw.below(4) for _ in range(draw.below(5))]
    return Case(
        lambda x: ops.tile(x, times), [draw.numbers(*shape)], lambda x: np.tile(x, times)
    )  # fmt: skip


@row
def expand(draw: Draw) -> Case:
    shape = draw.shape()
    thin, keeps = draw.thinned(shape), draw.below(3) == 0
    lead = len(shape) - len(thin)
    wide = [-1 if keeps and k >= lead else n for k, n in enumerate(shape)]
    return Case(lambda x: ops.expand(x, wide), [draw.numbers(*thin)])


@row
def expand_as(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        lambda x, like: ops.expand_as(x, like),
        [draw.numbers(*draw.thinned(shape)), np.zeros(shape, np.int64)],
        lambda x, like: np.broadcast_to(x, like.shape),
    )


@row
def broadcast_tensors(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        lambda *x: ops.broadcast_tensors(list(x)),
        [draw.numbers(*draw.thinned(shape)) for _ in range(1 + draw.below(3))],
    )


@row
def repeat_interleave(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, repeats = draw.axis(len(shape)), draw.below(4)
    return Case(
        lambda x: ops.repeat_interleave(x, repeats, axis),
        [draw.numbers(*shape)],
        lambda x: np.repeat(x, repeats, axis),
    )


@row
def repeat_interleave_with_tensor_index(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    repeats = draw.index((shape[axis],), 4)
    return Case(
        lambda x, r: ops.repeat_interleave_with_tensor_index(x, r, axis),
        [draw.numbers(*shape), repeats],
        lambda x, r: np.repeat(x, r, axis),
        lanes=(0,),
    )


def in_single_slices(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape(1, size=1)
        axis = draw.axis(len(shape))
        return Case(
            lambda x: getattr(ops, name)(x, axis),
            [draw.numbers(*shape)],
            lambda x: np.take(x, 0, axis),
        )

    return draw_case


rows("unbind unstack", in_single_slices)


@row
def split(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, count = draw.axis(len(shape)), 1 + draw.below(3)
    cuts = sorted(draw.up_to(shape[axis] + 1) for _ in range(count - 1))
    sections = [b - a for a, b in zip([0, *cuts], [*cuts, shape[axis]])]
    rest = draw.below(2 * count)
    if rest < count:
        sections[rest] = -1
    return Case(
        lambda x: ops.split(x, sections, axis),
        [draw.numbers(*shape)],
        lambda x: np.split(x, cuts, axis)[0],
    )


@row
def split_with_num(draw: Draw) -> Case:
    shape, num = list(draw.shape(1)), 1 + draw.below(3)
    axis = draw.axis(len(shape))
    shape[axis] = num * draw.one_of(1, 2, 0 if draw.least == 0 else 1)
    return Case(
        lambda x: ops.split_with_num(x, num, axis),
        [draw.numbers(*shape)],
        lambda x: np.split(x, num, axis)[0],
    )


@row
def concat(draw: Draw) -> Case:
    shape = list(draw.shape(1))
    axis, inputs = draw.axis(len(shape)), []
    for _ in range(1 + draw.below(3)):
        shape[axis] = draw.size()
        inputs.append(draw.numbers(*shape))
    return Case(
        lambda *x: ops.concat(list(x), axis), inputs, lambda *x: np.concatenate(x, axis)
    )  # fmt: skip


@row
def stack(draw: Draw) -> Case:
    shape = draw.shape(0, 3)
    axis = draw.axis(len(shape) + 1)
    return Case(
        lambda *x: ops.stack(list(x), axis),
        [draw.numbers(*shape) for _ in range(1 + draw.below(3))],
        lambda *x: np.stack(x, axis),
    )


@row
def diag_embed(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    rank, offset = len(shape) + 1, draw.below(7) - 3
    dim1, dim2 = (int(a) - rank * draw.below(2) for a in draw.rng.permutation(rank)[:2])
    return Case(lambda x: ops.diag_embed(x, offset, dim1, dim2), [draw.numbers(*shape)])


@row
def diag(draw: Draw) -> Case:
    shape, offset = draw.shape(1, 2), draw.below(7) - 3
    padding = draw.one_of(0.0, 0.7)
    return Case(
        lambda x: ops.diag(x, offset, padding),
        [draw.numbers(*shape)],
        None if padding else lambda x: np.diag(x, offset),
    )


@row
def fill_diagonal(draw: Draw) -> Case:
    shape, offset, wrap = draw.shape(2, 2), draw.below(5) - 2, draw.is_true()
    tall = draw.below(3) == 0
    shape = (shape[0] + 5 * tall, shape[1])
    value = draw.one_of(0.0, 0.7)

    def reference(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        np.fill_diagonal(x, value, wrap)
        return x

    return Case(
        lambda x: ops.fill_diagonal(x, value, offset, wrap),
        [draw.numbers(*shape)],
        None if offset else reference,
    )


def triangle(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape, diagonal = draw.shape(2), draw.below(9) - 4
        return Case(
            lambda x: getattr(ops, name)(x, diagonal),
            [draw.numbers(*shape)],
            lambda x: getattr(np, name)(x, diagonal),
        )

    return draw_case


rows("tril triu", triangle)


@row
def transpose(draw: Draw) -> Case:
    shape = draw.shape()
    perm = [int(a) - len(shape) * draw.below(2) for a in draw.rng.permutation(len(shape))]
    return Case(
        lambda x: ops.transpose(x, perm), [draw.numbers(*shape)], lambda x: np.transpose(x, perm)
    )


@row
def reshape(draw: Draw) -> Case:
    shape = draw.shape()
    factors = [n for n in shape if n != 1] or [1]
    cut = draw.below(len(factors) + 1)
    wide = [math.prod(factors[:cut]), *factors[cut:]]
    wide = [*wide, 1] if draw.is_true() else wide
    if 0 not in shape and draw.is_true():
        wide[draw.below(len(wide))] = -1
    return Case(
        lambda x: ops.reshape(x, wide), [draw.numbers(*shape)], lambda x: np.reshape(x, wide)
    )  # fmt: skip


@row
def flatten(draw: Draw) -> Case:
    shape = draw.shape(1)
    first = draw.below(len(shape))
    last = first + draw.below(len(shape) - first)
    first, last = first - len(shape) * draw.below(2), last - len(shape) * draw.below(2)
    return Case(lambda x: ops.flatten(x, first, last), [draw.numbers(*shape)])


@row
def squeeze(draw: Draw) -> Case:
    shape = draw.shape()
    axes = draw.axes(len(shape))
    if axes:
        shape = tuple(1 if k - len(shape) in axes or k in axes else n for k, n in enumerate(shape))
    return Case(
        lambda x: ops.squeeze(x, axes),
        [draw.numbers(*shape)],
        lambda x: np.squeeze(x, axes or None),
    )


@row
def unsqueeze(draw: Draw) -> Case:
    shape = draw.shape(0, 3)
    axes = [draw.axis(len(shape) + k + 1) for k in range(draw.below(3))]
    return Case(lambda x: ops.unsqueeze(x, axes), [draw.numbers(*shape)])


@row
def pad(draw: Draw) -> Case:
    shape = draw.shape()
    paddings = [draw.one_of(0, 1, 2, -1) for _ in range(2 * len(shape))]
    value = draw.one_of(0.0, 0.7)
    return Case(lambda x: ops.pad(x, paddings, value), [draw.numbers(*shape)])


@row
def pad3d(draw: Draw) -> Case:
    shape = draw.shape(5, 5)
    mode = draw.one_of("constant", "reflect", "replicate", "circular")
    layout = draw.one_of("NCDHW", "NDHWC")
    paddings = [draw.one_of(0, 0, 1, 2, 3, -1) for _ in range(6)]
    value = draw.one_of(0.0, 0.7)
    return Case(
        lambda x: ops.pad3d(x, paddings, mode, value, layout),
        [draw.numbers(*(min(n, 3) for n in shape))],
    )


@row
def meshgrid(draw: Draw) -> Case:
    sizes = draw.shape(1, 3)
    return Case(
        lambda *x: ops.meshgrid(list(x)),
        [draw.numbers(n) for n in sizes],
        lambda *x: np.meshgrid(*x, indexing="ij")[0],
    )


def of_columns(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape(2, 2, size=1)
        start = draw.up_to(shape[1]) - shape[1] * draw.below(2)
        left = shape[1] - start % shape[1]
        length = draw.one_of(-1, 1 + draw.up_to(left))
        return Case(
            lambda *x: getattr(ops, name)(list(x), start, length),
            [draw.numbers(*shape) for _ in range(1 + draw.below(3))],
        )

    return draw_case


rows("partial_sum partial_concat", of_columns)


@row
def frame(draw: Draw) -> Case:
    shape, axis = draw.shape(1, 3, size=1), draw.one_of(-1, 0)
    hop = 1 + draw.below(3)
    length = 1 + draw.up_to(shape[axis])
    return Case(lambda x: ops.frame(x, length, hop, axis), [draw.numbers(*shape)])


@row
def overlap_add(draw: Draw) -> Case:
    shape, axis, hop = draw.shape(2, 3), draw.one_of(-1, 0), 1 + draw.below(5)
    return Case(lambda x: ops.overlap_add(x, hop, axis), [draw.numbers(*shape)])


@row
def add_n(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        lambda *x: ops.add_n(list(x)),
        [draw.numbers(*shape) for _ in range(1 + draw.below(3))],
        lambda *x: sum(x),
    )


def of_channels(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        n, c, h, w = draw.shape(4, 4)
        layout, of = draw.one_of("NCHW", "NHWC"), 1 + draw.below(3)
        attrs: dict[str, Any] = {"data_format": layout}
        by = {"channel_shuffle": of, "pixel_shuffle": of * of, "pixel_unshuffle": 1}[name]
        scale = of if name == "pixel_unshuffle" else 1
        dims = [n, c * by, h * scale, w * scale]
        shape = dims if layout == "NCHW" else [n, *dims[2:], dims[1]]
        shape = [min(d, 12) for d in shape]
        return Case(lambda x: getattr(ops, name)(x, of, **attrs), [draw.numbers(*shape)])

    return draw_case


rows("channel_shuffle pixel_shuffle pixel_unshuffle", of_channels)


@row
def temporal_shift(draw: Draw) -> Case:
    n, c, h, w = (min(n, 2 + k) for k, n in enumerate(draw.shape(4, 4)))
    layout, segments = draw.one_of("NCHW", "NHWC"), 1 + draw.below(3)
    ratio = draw.one_of(0.25, 0.4, 0.1, 0.0)
    shape = (n * segments, c, h, w) if layout == "NCHW" else (n * segments, h, w, c)
    return Case(lambda x: ops.temporal_shift(x, segments, ratio, layout), [draw.numbers(*shape)])


@row
def unfold(draw: Draw) -> Case:
    n, c, h, w = (min(n, 4) for n in draw.shape(4, 4))
    kernel, strides, dilations = ([1 + draw.below(3) for _ in range(2)] for _ in range(3))
    paddings = [draw.below(3) for _ in range(draw.one_of(2, 4))]
    n, c = min(n, 2), min(c, 2)
    return Case(
        lambda x: ops.unfold(x, kernel, strides, paddings, dilations), [draw.numbers(n, c, h, w)]
    )


@row
def fold(draw: Draw) -> Case:
    n, c, h, w = draw.shape(4, 4)
    kernel, strides, dilations = ([1 + draw.below(2) for _ in range(2)] for _ in range(3))
    paddings = [draw.below(2) for _ in range(2)]
    windows = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip((h, w), kernel, strides, paddings, dilations)
    ]
    shape = (min(n, 2), min(c, 2) * math.prod(kernel), math.prod(max(k, 0) for k in windows))
    return Case(
        lambda x: ops.fold(x, [h, w], kernel, strides, paddings, dilations), [draw.numbers(*shape)]
    )
