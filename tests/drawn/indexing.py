"""Rows of ops that read and write where indices, masks or bounds say."""

from __future__ import annotations

from typing import Any

import numpy as np

from phix import ops
from tests.drawn.case import Case, Draw, Run, Shape, row, rows


def index_along(draw: Draw, shape: Shape, axis: int, *, negative: bool = True) -> np.ndarray:
    """A vector of places in an axis, or one place."""
    size = (draw.size(),) if draw.below(5) else ()
    return draw.index(size, shape[axis], negative)


@row
def gather(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    axis = draw.axis(len(shape))
    index = index_along(draw, shape, axis, negative=False)
    return Case(
        lambda x, i: ops.gather(x, i, axis),
        [draw.numbers(*shape), index],
        lambda x, i: np.take(x, i, axis),
    )


@row
def index_select(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    axis = draw.axis(len(shape))
    return Case(
        lambda x, i: ops.index_select(x, i, axis),
        [draw.numbers(*shape), draw.index((draw.size(),), shape[axis])],
        lambda x, i: np.take(x, i, axis),
    )


@row
def index_sample(draw: Draw) -> Case:
    shape = draw.shape(2, 2, size=1)
    return Case(
        ops.index_sample,
        [draw.numbers(*shape), draw.index((shape[0], draw.size()), shape[1])],
        lambda x, i: np.take_along_axis(x, i, 1),
    )


@row
def index_select_strided(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    axis = draw.axis(len(shape))
    at = draw.up_to(shape[axis])
    return Case(
        lambda x: ops.index_select_strided(x, at, axis),
        [draw.numbers(*shape)],
        lambda x: np.take(x, at, axis),
    )


def places(draw: Draw, shape: Shape, count: int, lead: Shape, negative: bool) -> np.ndarray:
    """Indices of the first ``count`` axes, on a last axis."""
    parts = [draw.index(lead, n, negative) for n in shape[:count]]
    return np.stack(parts, -1) if parts else np.zeros((*lead, 0), np.int64)


@row
def gather_nd(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    count, lead = draw.below(len(shape) + 1), draw.shape(0, 2)
    return Case(
        ops.gather_nd,
        [draw.numbers(*shape), places(draw, shape, count, lead, False)],
        lambda x, i: x[tuple(np.moveaxis(i, -1, 0))] if count else None or x[(None,) * len(lead)]
        + np.zeros((*lead, *shape)),
    )  # fmt: skip


@row
def scatter_nd_add(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    count, lead = draw.below(len(shape) + 1), draw.shape(0, 2)
    return Case(
        ops.scatter_nd_add,
        [
            draw.numbers(*shape),
            places(draw, shape, count, lead, False),
            draw.numbers(*lead, *shape[count:]),
        ],
    )


@row
def scatter(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    overwrite = draw.is_true()
    count = draw.size(0, shape[0] if overwrite else 4)
    index = draw.values.permutation(shape[0])[:count] if overwrite else None
    index = draw.index((count,), shape[0]) if index is None else index
    return Case(
        lambda x, i, u: ops.scatter(x, i, u, overwrite),
        [draw.numbers(*shape), index, draw.numbers(len(index), *shape[1:])],
    )


@row
def index_add(draw: Draw) -> Case:
    shape = draw.shape(1, size=1)
    axis = draw.axis(len(shape))
    index = draw.index((draw.size(),), shape[axis])
    axis_at = axis % len(shape)
    value = draw.numbers(*shape[:axis_at], len(index), *shape[axis_at + 1 :])
    return Case(
        lambda x, i, v: ops.index_add(x, i, v, axis), [draw.numbers(*shape), index, value]
    )  # fmt: skip


@row
def index_put(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    count, accumulate = 1 + draw.below(len(shape)), draw.is_true()
    lead = draw.shape(1, 2)
    wide = [lead, *(draw.thinned(lead) for _ in range(count - 1))]
    indices = [draw.index(s, n, True) for s, n in zip(wide, shape)]
    value = draw.thinned((*lead, *shape[count:]))
    if not accumulate:  # which of several comes last is not told
        value = ()

    def run(x: Any, v: Any, *i: Any) -> Any:
        return ops.index_put(x, list(i), v, accumulate)

    def reference(x: np.ndarray, v: np.ndarray, *i: np.ndarray) -> np.ndarray:
        x = x.copy()
        if accumulate:
            np.add.at(x, i, np.broadcast_to(v, x[i].shape))
        else:
            x[i] = v
        return x

    return Case(run, [draw.numbers(*shape), draw.numbers(*value), *indices], reference)


@row
def put_along_axis(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axis, include_self = draw.axis(len(shape)), draw.is_true()
    reduce = draw.one_of("assign", "add", "mul", "multiply", "amin", "amax", "mean")
    at = axis % len(shape)
    size = 1 if reduce == "assign" else draw.size()
    index = tuple(size if k == at else n for k, n in enumerate(shape))
    if draw.below(3) == 0:
        index = tuple(n if k == at else min(n, 1) for k, n in enumerate(index))
    value = draw.one_of(index, ())
    return Case(
        lambda x, i, v: ops.put_along_axis(x, i, v, axis, reduce, include_self),
        [draw.numbers(*shape), draw.index(index, shape[at]), 0.93 * draw.numbers(*value)],
    )


@row
def take_along_axis(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axis = draw.axis(len(shape))
    at, size = axis % len(shape), draw.size()
    thin = draw.below(3) == 0
    index = tuple(size if k == at else 1 if thin else n for k, n in enumerate(shape))
    return Case(
        lambda x, i: ops.take_along_axis(x, i, axis),
        [draw.numbers(*shape), draw.index(index, shape[at])],
        lambda x, i: np.take_along_axis(x, i, axis),
    )


# -- bounds ----------------------------------------------------------------------------------------
def bounds(draw: Draw, axes: tuple[int, ...], negative: bool) -> tuple[list[int], ...]:
    """Starts, ends and strides, out of range too."""
    starts = [draw.below(13) - 6 for _ in axes]
    ends = [draw.one_of(9, -9, draw.below(13) - 6) for _ in axes]
    steps = [draw.one_of(1, 1, 2, 3, *((-1, -2, -3) if negative else ())) for _ in axes]
    return starts, ends, steps


def sliced(rank: int, axes: Any, starts: Any, ends: Any, steps: Any) -> tuple[slice, ...]:
    found = [slice(None)] * rank
    for axis, *bound in zip(axes, starts, ends, steps):
        found[axis] = slice(*bound)
    return tuple(found)


@row
def slice_(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes = draw.axes(len(shape))
    starts, ends, _ = bounds(draw, axes, False)
    where = sliced(len(shape), axes, starts, ends, [1] * len(axes))
    return Case(
        lambda x: ops.slice(x, axes, starts, ends), [draw.numbers(*shape)], lambda x: x[where]
    )


@row
def strided_slice(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes = draw.axes(len(shape))
    starts, ends, steps = bounds(draw, axes, True)
    where = sliced(len(shape), axes, starts, ends, steps)
    return Case(
        lambda x: ops.strided_slice(x, axes, starts, ends, steps),
        [draw.numbers(*shape)],
        lambda x: x[where],
    )


@row
def slice_put(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes, accumulate = draw.axes(len(shape)), draw.is_true()
    starts, ends, steps = bounds(draw, axes, True)
    where = sliced(len(shape), axes, starts, ends, steps)
    value = draw.thinned(np.zeros(shape)[where].shape)

    def reference(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[where] = v + accumulate * x[where]
        return x

    return Case(
        lambda x, v: ops.slice_put(x, v, axes, starts, ends, steps, accumulate),
        [draw.numbers(*shape), draw.numbers(*value)],
        reference,
    )


@row
def set_value_with_tensor(draw: Draw) -> Case:
    shape = draw.shape(1)
    axes = draw.axes(len(shape))
    starts, ends, steps = bounds(draw, axes, True)
    gone = [a for a in axes if draw.below(3) == 0]
    for k, axis in enumerate(axes):
        if axis in gone:
            starts[k] = draw.up_to(shape[axis])
            ends[k], steps[k] = starts[k] + 1, 1
    where = sliced(len(shape), axes, starts, ends, steps)
    kept = [k for k in range(len(shape)) if k not in {a % len(shape) for a in gone}]
    seen = np.zeros(shape)[where]
    value = draw.thinned(tuple(seen.shape[k] for k in kept))
    return Case(
        lambda x, v: ops.set_value_with_tensor(x, v, starts, ends, steps, axes, gone, []),
        [draw.numbers(*shape), draw.numbers(*value)],
    )


@row
def crop(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    rest = draw.is_true()
    offsets = [draw.up_to(n + 1) for n in shape]
    sizes = [-1 if rest and draw.is_true() else draw.up_to(n - o + 1)
             for n, o in zip(shape, offsets)]  # fmt: skip
    return Case(lambda x: ops.crop(x, sizes, offsets), [draw.numbers(*shape)])


@row
def view_slice(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    first = draw.up_to(shape[0] + 1)
    last = first + draw.up_to(shape[0] - first + 1)
    return Case(
        lambda x: ops.view_slice(x, first, last), [draw.numbers(*shape)], lambda x: x[first:last]
    )


@row
def as_strided(draw: Draw) -> Case:
    dims, strides = draw.shape(0, 3), None
    strides = tuple(draw.below(4) for _ in dims)
    offset, shape = draw.below(3), draw.shape(1, 3, size=1)
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(dims, strides) if n)
    shape = (max(needed, 1), *shape[1:])
    return Case(
        lambda x: ops.as_strided(x, dims, strides, draw.itemsize() * offset),
        [draw.numbers(*shape)],
        lambda x: np.lib.stride_tricks.as_strided(
            x.reshape(-1)[offset:], dims, [x.itemsize * s for s in strides]
        ),
    )


@row
def set_(draw: Draw) -> Case:
    dims = draw.shape(0, 3)
    strides = tuple(draw.below(4) for _ in dims)
    offset = draw.below(3)
    needed = offset + 1 + sum((n - 1) * s for n, s in zip(dims, strides) if n)
    shape = draw.shape(0, 2)
    return Case(
        lambda x, y: ops.set(x, y, dims, strides, draw.itemsize() * offset),
        [draw.numbers(*shape), draw.numbers(max(needed, 1))],
    )


@row
def tensor_unfold(draw: Draw) -> Case:
    shape = draw.shape(1, 3, size=1)
    axis, step = draw.axis(len(shape)), 1 + draw.below(3)
    size = draw.up_to(shape[axis] + 1)
    return Case(lambda x: ops.tensor_unfold(x, axis, size, step), [draw.numbers(*shape)])


# -- masks -----------------------------------------------------------------------------------------
@row
def masked_fill(draw: Draw) -> Case:
    shape = draw.shape()
    mask = draw.mask(*draw.thinned(shape))
    value = draw.one_of((), draw.thinned(shape))
    return Case(
        ops.masked_fill,
        [draw.numbers(*shape), mask, draw.numbers(*value)],
        lambda x, m, v: np.where(m, v, x),
    )


@row
def masked_select(draw: Draw) -> Case:
    shape = draw.shape()
    mask = draw.mask(*draw.thinned(shape))
    return Case(ops.masked_select, [draw.numbers(*shape), mask],
                lambda x, m: x[np.broadcast_to(m, x.shape)], lanes=())  # fmt: skip


@row
def where(draw: Draw) -> Case:
    shape = draw.shape()
    return Case(
        ops.where,
        [
            draw.mask(*draw.thinned(shape)),
            draw.numbers(*draw.thinned(shape)),
            draw.numbers(*draw.thinned(shape)),
        ],
        np.where,
    )


@row
def multiplex(draw: Draw) -> Case:
    shape = draw.shape(2, 3)
    count = 1 + draw.below(3)
    index = draw.index((shape[0], 1), count).astype(np.int32)
    return Case(
        lambda i, *x: ops.multiplex(list(x), i),
        [index, *(draw.numbers(*shape) for _ in range(count))],
    )


@row
def embedding(draw: Draw) -> Case:
    rows_, width = draw.size(1), draw.size()
    padding = draw.one_of(-1, 0, 1) if rows_ > 1 else draw.one_of(-1, 0)
    index = draw.index(draw.shape(0, 3), rows_)
    return Case(
        lambda i, w: ops.embedding(i, w, padding), [index, draw.numbers(rows_, width)]
    )  # fmt: skip


@row
def bincount(draw: Draw) -> Case:
    count, least = draw.size(1), draw.below(6)
    return Case(
        lambda i, w: ops.bincount(i, w, least),
        [draw.index((count,), 4), draw.numbers(count)],
        lambda i, w: np.bincount(i, w, least),
        lanes=(),
    )


# -- rows joined by segments, and along edges ------------------------------------------------------
@row
def segment_pool(draw: Draw) -> Case:
    shape, kind = draw.shape(1, 3, size=1), draw.one_of("SUM", "MEAN", "MAX", "MIN")
    ids = np.sort(draw.index((shape[0],), 4))
    return Case(lambda x, i: ops.segment_pool(x, i, kind), [draw.numbers(*shape), ids], lanes=(0,))


@row
def send_u_recv(draw: Draw) -> Case:
    shape, edges = draw.shape(1, 3, size=1), draw.size()
    kind, size = draw.one_of("SUM", "MEAN", "MAX", "MIN"), draw.one_of(0, -1, 5)
    return Case(
        lambda x, s, d: ops.send_u_recv(x, s, d, kind, [size]),
        [draw.numbers(*shape), draw.index((edges,), shape[0]), draw.index((edges,), shape[0])],
    )


@row
def send_ue_recv(draw: Draw) -> Case:
    shape, edges = draw.shape(2, 3, size=1), draw.size()
    kind, size = draw.one_of("SUM", "MEAN", "MAX", "MIN"), draw.one_of(0, -1, 5)
    message = draw.one_of("ADD", "MUL")
    x, y = (tuple(1 if draw.below(3) == 0 else n for n in shape[1:]) for _ in range(2))
    return Case(
        lambda x, y, s, d: ops.send_ue_recv(x, y, s, d, message, kind, [size]),
        [
            draw.numbers(shape[0], *x),
            draw.numbers(edges, *y),
            draw.index((edges,), shape[0]),
            draw.index((edges,), shape[0]),
        ],
    )


@row
def send_uv(draw: Draw) -> Case:
    shape, edges, message = draw.shape(2, 3, size=1), draw.size(), draw.one_of("ADD", "MUL")
    x, y = (tuple(1 if draw.below(3) == 0 else n for n in shape[1:]) for _ in range(2))
    return Case(
        lambda x, y, s, d: ops.send_uv(x, y, s, d, message),
        [
            draw.numbers(shape[0], *x),
            draw.numbers(shape[0], *y),
            draw.index((edges,), shape[0]),
            draw.index((edges,), shape[0]),
        ],
    )


def written_diagonal(name: str) -> Run:
    def draw_case(draw: Draw) -> Case:
        shape = draw.shape(2)
        dim1, dim2 = (int(a) for a in draw.rng.permutation(len(shape))[:2])
        dim1, dim2 = dim1 - len(shape) * draw.below(2), dim2 - len(shape) * draw.below(2)
        offset = draw.below(7) - 3
        if name == "fill_diagonal_tensor":
            like = np.diagonal(np.zeros(shape), offset, dim1, dim2).shape
            return Case(
                lambda x, y: ops.fill_diagonal_tensor(x, y, offset, dim1, dim2),
                [draw.numbers(*shape), draw.numbers(*like)],
            )
        by_name = {"diagonal": np.diagonal, "trace": np.trace}[name]
        return Case(
            lambda x: getattr(ops, name)(x, offset, dim1, dim2),
            [draw.numbers(*shape)],
            lambda x: by_name(x, offset, dim1, dim2),
        )

    return draw_case


rows("fill_diagonal_tensor diagonal trace", written_diagonal)
