"""Rows of reductions, norms, sorts and scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from phix import ops
from tests.drawn.case import Case, Draw, Run, normal_axes, row, rows

REFERENCES: dict[str, Run] = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod,
    "amax": np.max, "amin": np.min, "nansum": np.nansum, "variance": np.var,
    "logsumexp": lambda x, **axes: special.logsumexp(x, **axes) if x.ndim else x,
}  # fmt: skip


def reduction(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis, keepdim = draw.axes(len(shape)), draw.is_true()
        attrs: dict[str, Any] = {"keepdim": keepdim}
        if name in ("prod", "logsumexp"):
            attrs["reduce_all"] = draw.below(4) == 0
        axes = normal_axes(() if attrs.get("reduce_all") else axis, len(shape))
        return Case(
            lambda x: getattr(ops, name)(x, axis, **attrs),
            [draw.numbers(*shape)],
            lambda x: REFERENCES[name](x, axis=axes, keepdims=keepdim),
        )

    return draw_case


rows(" ".join(REFERENCES), reduction)


def deviation(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape(1)
        axis, keepdim, unbiased = draw.axes(len(shape)), draw.is_true(), draw.is_true()
        correction = draw.one_of(1.0, 0.0, 0.5)

        def run(x: Any) -> Any:
            return getattr(ops, name)(x, axis, keepdim, unbiased, correction)

        count = math.prod(shape[k] for k in normal_axes(axis, len(shape)))
        order = 0 if name == "std" and count == 1 else 2  # no slope where all elements are equal
        return Case(run, [draw.numbers(*shape)], order=order)

    return draw_case


rows("std var", deviation)


@row
def frobenius_norm(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, keepdim, whole = draw.axes(len(shape)), draw.is_true(), draw.below(4) == 0
    axes = normal_axes(() if whole else axis, len(shape))
    return Case(
        lambda x: ops.frobenius_norm(x, axis, keepdim, whole),
        [draw.numbers(*shape)],
        lambda x: np.sqrt(np.sum(x * x, axis=axes, keepdims=keepdim)),
    )


@row
def p_norm(draw: Draw) -> Case:
    shape = draw.shape()
    axis, keepdim, whole = draw.axis(max(len(shape), 1)), draw.is_true(), draw.below(4) == 0
    porder = draw.one_of(2.0, 1.0, 0.0, 3.0, 1.5, -1.0, -2.0, float("inf"), -float("inf"))
    return Case(
        lambda x: ops.p_norm(x, porder, axis, 1e-12, keepdim, whole),
        [draw.numbers(*shape)],
        None if whole or not shape or 0 in shape
        else lambda x: np.linalg.norm(x, porder, axis, keepdim),
    )  # fmt: skip


@row
def norm(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    return Case(lambda x: ops.norm(x, axis, 1e-10, False), [draw.numbers(*shape)])


@row
def dist(draw: Draw) -> Case:
    shape = draw.shape()
    p = draw.one_of(2.0, 1.0, 0.0, 3.0, float("inf"), -float("inf"), 0.5)
    other = draw.thinned(shape)
    return Case(lambda x, y: ops.dist(x, y, p), [draw.numbers(*shape), 0.31 * draw.numbers(*other)])


@row
def renorm(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, p = draw.axis(len(shape)), draw.one_of(1.0, 2.0, 3.0, 0.5)
    most = draw.one_of(0.7, 1.9, 100.0)
    return Case(lambda x: ops.renorm(x, p, axis, most), [draw.numbers(*shape)])


@row
def clip_by_norm(draw: Draw) -> Case:
    most = draw.one_of(0.7, 1.9, 100.0)
    return Case(lambda x: ops.clip_by_norm(x, most), [draw.numbers(*draw.shape())])


def by_middle(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis, keepdim, mode = draw.axes(len(shape)), draw.is_true(), draw.one_of("avg", "min")
        axes = normal_axes(axis, len(shape))
        return Case(
            lambda x: getattr(ops, name)(x, axis, keepdim, mode),
            [draw.numbers(*shape)],
            None if mode == "min" else lambda x: np.median(x, axis=axes, keepdims=keepdim),
        )

    return draw_case


rows("median nanmedian", by_middle)


@row
def kthvalue(draw: Draw) -> Case:
    shape = draw.shape()
    axis, keepdim = draw.axis(max(len(shape), 1)), draw.is_true()
    k = 1 + draw.up_to(shape[axis] if shape else 1)
    return Case(lambda x: ops.kthvalue(x, k, axis, keepdim), [draw.numbers(*shape)])


@row
def topk(draw: Draw) -> Case:
    shape = draw.shape()
    axis, largest = draw.axis(max(len(shape), 1)), draw.is_true()
    k = draw.up_to((shape[axis] if shape else 1) + 1)
    return Case(lambda x: ops.topk(x, k, axis, largest), [draw.numbers(*shape)])


@row
def mode(draw: Draw) -> Case:
    shape = draw.shape(0, 3)
    axis, keepdim = draw.axis(max(len(shape), 1)), draw.is_true()
    return Case(lambda x: ops.mode(x, axis, keepdim), [draw.numbers(*shape)])


def in_order(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis, descending = draw.axis(max(len(shape), 1)), draw.is_true()
        return Case(lambda x: getattr(ops, name)(x, axis, descending), [draw.numbers(*shape)])

    return draw_case


rows("sort argsort", in_order)


def extreme_with_place(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        dim, keepdim, whole = draw.axis(max(len(shape), 1)), draw.is_true(), draw.below(4) == 0
        return Case(
            lambda x: getattr(ops, name)(x, dim, keepdim, whole), [draw.numbers(*shape)]
        )  # fmt: skip

    return draw_case


rows("max_with_index min_with_index", extreme_with_place)


def running(name: str, accumulate: Run | None, first: float) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis = draw.axis(max(len(shape), 1))
        attrs: dict[str, Any] = draw.flags("exclusive", "reverse")
        if name != "cumprod":
            attrs["flatten"] = draw.below(4) == 0

        def reference(x: np.ndarray) -> np.ndarray:
            along, x = (0, x.reshape(-1)) if attrs.get("flatten") else (axis, x)
            x = np.moveaxis(x, along, -1)
            x = x[..., ::-1] if attrs["reverse"] else x
            if attrs["exclusive"] and x.shape[-1]:
                x = np.concatenate([np.full_like(x[..., :1], first), x[..., :-1]], -1)
            x = accumulate(x, axis=-1)
            return np.moveaxis(x[..., ::-1] if attrs["reverse"] else x, -1, along)

        return Case(
            lambda x: getattr(ops, name)(x, axis, **attrs),
            [draw.numbers(*shape)],
            reference if shape else None,
        )

    return draw_case


rows("cumsum", lambda name: running(name, np.cumsum, 0.0))
rows("cumprod", lambda name: running(name, np.cumprod, 1.0))
rows("logcumsumexp", lambda name: running(name, np.logaddexp.accumulate, -np.inf))


def running_extreme(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape()
        axis, dtype = draw.axis(max(len(shape), 1)), draw.one_of("int64", "int32")
        return Case(lambda x: getattr(ops, name)(x, axis, dtype), [draw.numbers(*shape)])

    return draw_case


rows("cummax cummin", running_extreme)


@row
def linear_recurrence(draw: Draw) -> Case:
    shape = draw.shape(1)
    axis, reverse = draw.axis(len(shape)), draw.is_true()
    return Case(
        lambda a, x: ops.linear_recurrence(a, x, axis, reverse),
        [draw.numbers(*shape), draw.numbers(*shape)],
    )


@row
def reduce_as(draw: Draw) -> Case:
    shape = draw.shape()
    target = np.zeros(draw.thinned(shape), np.int64)
    return Case(lambda x, like: ops.reduce_as(x, ops.cast(like, "float64")),
                [draw.numbers(*shape), target])  # fmt: skip


@row
def squared_l2_norm(draw: Draw) -> Case:
    return Case(ops.squared_l2_norm, [draw.numbers(*draw.shape())], None)
