"""Rules of primitives that move elements: see ``sharding_rules``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.api.batching import axis_index
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.parallel.forms import nothing
from phix.parallel.sharding_rules import (
    Cut,
    Labels,
    RuleCall,
    ShardingRule,
    aligned,
    dropped,
    each,
    rule,
    together,
)


def same(one: Any, other: Any) -> bool:
    """Whether two dims are known, and equal."""
    return isinstance(one, int) and isinstance(other, int) and one == other


def _pieces(dims: Sequence[Any], labels: Labels, cut: Cut) -> tuple[int, ...]:
    """The dims of a part."""
    return tuple(d // cut[x][1] if x in cut else d for d, x in zip(dims, labels))


@rule("transpose")
def transpose(call: RuleCall) -> ShardingRule:
    perm = tuple(call.attr("perm"))
    return ShardingRule((tuple(range(len(perm))),), (perm,), linear=each(0))


@rule("reshape")
def reshape(call: RuleCall) -> ShardingRule:
    """Of dims that become others together, the first is divided where the first of those is."""
    before, after = call.metas[0].dims, call.outs[0].dims
    labels: list[Any] = [None] * len(before)
    outs: list[Any] = [None] * len(after)
    for number, (i, j) in enumerate(_leads(before, after)):
        labels[i] = outs[j] = number

    def attrs(given: tuple[Any, ...], cut: Cut) -> tuple[Any, ...]:
        return call.with_attr(given, "shape", _pieces(after, tuple(outs), cut))

    return ShardingRule((tuple(labels),), (tuple(outs),), linear=each(0), attrs=attrs)


def _leads(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    """The first dims, other than 1, of the groups of dims that hold the same elements."""
    if not all(isinstance(d, int) for d in (*before, *after)):
        alike = itertools.takewhile(lambda p: same(*p), zip(before, after))
        return [(k, k) for k, _ in enumerate(alike)]
    xs = [(k, d) for k, d in enumerate(before) if d != 1]
    ys = [(k, d) for k, d in enumerate(after) if d != 1]
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(xs) and j < len(ys):
        found.append((xs[i][0], ys[j][0]))
        left, right = xs[i][1], ys[j][1]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(xs):
                left, i = left * xs[i][1], i + 1
            elif right < left and j < len(ys):
                right, j = right * ys[j][1], j + 1
            else:  # of no elements
                return []
    return found


@rule("expand")
def expand(call: RuleCall) -> ShardingRule:
    out = call.outs[0]
    labels = tuple(range(out.ndim))

    def attrs(given: tuple[Any, ...], cut: Cut) -> tuple[Any, ...]:
        return call.with_attr(given, "shape", _pieces(out.dims, labels, cut))

    return ShardingRule((aligned(call.metas[0], out),), (labels,), linear=each(0), attrs=attrs)


@rule("concat")
def concat(call: RuleCall) -> ShardingRule:
    rank = call.outs[0].ndim
    labels = dropped(range(rank), [call.attr("axis") % rank] if rank else [])
    count = len(call.metas)
    return ShardingRule((labels,) * count, (labels,), linear=together(*range(count)))


# -- slices ----------------------------------------------------------------------------------------
def _slice(call: RuleCall) -> tuple[Labels, Any]:
    """Labels of the operand's dims, of which those that are cut short are whole; and the
    attributes of a part's call."""
    dims, axes = call.metas[0].dims, call.attr("axes")
    starts, ends = call.attr("starts"), call.attr("ends")
    has_steps = "strides" in call.op.attr_names and call.attr("strides")
    steps = call.attr("strides") if has_steps else (1,) * len(axes)
    short = [
        a for a, start, end, step in zip(axes, starts, ends, steps)
        if not (same(start, 0) and same(end, dims[a]) and same(step, 1))
    ]  # fmt: skip
    labels = dropped(range(len(dims)), short)

    def attrs(given: tuple[Any, ...], cut: Cut) -> tuple[Any, ...]:
        found = tuple(dims[a] // cut[a][1] if a in cut else end for a, end in zip(axes, ends))
        return call.with_attr(given, "ends", found)

    return labels, attrs


@rule("slice", "strided_slice")
def cut_out(call: RuleCall) -> ShardingRule:
    labels, attrs = _slice(call)
    gone = call.attr("decrease_axis") if call.op.name == "slice" else ()
    labels = dropped(labels, gone)
    out = tuple(x for k, x in enumerate(labels) if k not in gone)
    return ShardingRule((labels,), (out,), linear=each(0), attrs=attrs)


@rule("slice_put")
def slice_put(call: RuleCall) -> ShardingRule:
    labels, attrs = _slice(call)
    x, value = call.metas
    behind = x.ndim - value.ndim  # a dim cut short has no label, one of 1 stands for all
    pairs = zip(value.dims, x.dims[behind:], labels[behind:])
    of_value = tuple(label if same(d, wide) else None for d, wide, label in pairs)
    return ShardingRule((labels, of_value), (labels,), linear=together(0, 1), attrs=attrs)


@rule("diagonal")
def diagonal(call: RuleCall) -> ShardingRule:
    rank = call.metas[0].ndim
    gone = [call.attr("axis1") % rank, call.attr("axis2") % rank]
    rest = tuple(k for k in range(rank) if k not in gone)
    return ShardingRule((dropped(range(rank), gone),), ((*rest, None),), linear=each(0))


# -- indices ---------------------------------------------------------------------------------------
def _own(index: Any, size: int, axis_name: str, count: int) -> tuple[Any, Any]:
    """Which indices into a dim of ``size`` point into this part's piece, and where in it; 0 of the
    others. What is beyond the ends stays so, and is what the op makes of it."""
    here, piece = axis_index(axis_name), size // count
    index = ops.cast(index, dt.int64)
    index = ops.where(index < 0, index + size, index)
    first = here * piece
    is_first, is_last = here == 0, here == count - 1
    above = ops.logical_or(index >= first, is_first)
    below = ops.logical_or(index < first + piece, is_last)
    mine = ops.logical_and(above, below)
    found = ops.where(index < 0, index - size, index - first)
    return mine, ops.where(mine, found, ops.full((), 0, dt.int64))


@rule("gather")
def gather(call: RuleCall) -> ShardingRule:
    x, index = call.metas
    axis = call.attr("axis")
    of_x = tuple("at" if k == axis else ("x", k) for k in range(x.ndim))
    of_index = tuple(("i", k) for k in range(index.ndim))
    out = (*of_x[:axis], *of_index, *of_x[axis + 1 :])

    def local(cut: Cut, values: Any, attrs: Any) -> Any:
        mine, index = _own(values[1], x.dims[axis], *cut["at"])
        rows = ops.gather(values[0], index, axis)
        dims = (*mine.meta.dims, *(1,) * (x.ndim - axis - 1))
        return ops.where(ops.reshape(mine, dims), rows, nothing(rows.dtype))

    return ShardingRule(
        (of_x, of_index), (out,), linear=each(0), local=local, looked_up=frozenset({"at"})
    )


@rule("gather_nd")
def gather_nd(call: RuleCall) -> ShardingRule:
    x, index = call.metas
    depth = index.dims[-1]
    of_x = tuple(None if k < depth else ("x", k) for k in range(x.ndim))
    of_index = (*(("i", k) for k in range(index.ndim - 1)), None)
    out = (*of_index[:-1], *of_x[depth:])
    return ShardingRule((of_x, of_index), (out,), linear=each(0))


@rule("scatter_nd_add")
def scatter_nd_add(call: RuleCall) -> ShardingRule:
    x, index, _ = call.metas
    depth = index.dims[-1]
    of_x = tuple(None if k < depth else ("x", k) for k in range(x.ndim))
    batch = tuple(("i", k) for k in range(index.ndim - 1))
    return ShardingRule(
        (of_x, (*batch, None), (*batch, *of_x[depth:])),
        (of_x,),
        sums=frozenset(batch),
        carried=frozenset({0}),
        linear=together(0, 2),
    )


@rule("index_put")
def index_put(call: RuleCall) -> ShardingRule:
    x, *indices, value = call.metas
    axes, adds = call.attr("axes"), call.attr("accumulate")
    rank = max((i.ndim for i in indices), default=0)
    dims = [1] * rank
    for i in indices:
        for k, d in enumerate(i.dims, rank - i.ndim):
            dims[k] = d if dm.is_one(dims[k]) else dims[k]
    rest = [k for k in range(x.ndim) if k not in axes]
    batch = MetaTensor(tuple(dims), dt.int64)
    shape = MetaTensor((*dims, *(x.dims[k] for k in rest)), x.dtype)
    names = (*((("i", k) if adds else None) for k in range(rank)), *(("x", k) for k in rest))

    def named(meta: MetaTensor, like: MetaTensor) -> Labels:
        return tuple(None if k is None else names[k] for k in aligned(meta, like))

    is_one = adds and len(axes) == 1 and not value.ndim < shape.ndim
    of_x = tuple(("x", k) if k in rest else "at" if is_one else None for k in range(x.ndim))

    def local(cut: Cut, values: Any, attrs: Any) -> Any:
        mine, index = _own(values[1], x.dims[axes[0]], *cut["at"])
        mask = ops.reshape(mine, (*mine.meta.dims, *(1,) * len(rest)))
        added = ops.where(mask, values[2], nothing(values[2].dtype))
        return ops.index_put(values[0], [index], added, *attrs)

    return ShardingRule(
        (of_x, *(named(i, batch) for i in indices), named(value, shape)),
        (of_x,),
        sums=frozenset(n for n in names[:rank] if n is not None),
        carried=frozenset({0}),
        linear=together(0, len(call.metas) - 1) if adds else (),
        local=local,
        looked_up=frozenset({"at"}) if is_one else frozenset(),
    )


@rule("take_along_axis")
def take_along_axis(call: RuleCall) -> ShardingRule:
    arr, indices = call.metas
    axis, out = call.attr("axis"), call.outs[0]
    here = lambda labels, name: (*labels[:axis], name, *labels[axis + 1 :])  # noqa: E731
    of_arr, of_index = aligned(arr, out), aligned(indices, out)

    def local(cut: Cut, values: Any, attrs: Any) -> Any:
        mine, index = _own(values[1], arr.dims[axis], *cut["at"])
        found = ops.take_along_axis(values[0], index, *attrs)
        return ops.where(mine, found, nothing(found.dtype))

    return ShardingRule(
        (here(of_arr, "at"), here(of_index, axis)),
        (tuple(range(out.ndim)),),
        linear=each(0),
        local=local,
        looked_up=frozenset({"at"}),
    )


@rule("put_along_axis")
def put_along_axis(call: RuleCall) -> ShardingRule:
    arr, indices, values = call.metas
    axis = call.attr("axis")
    adds = call.attr("reduce") == "add" and call.attr("include_self")
    alike = [k for k in range(arr.ndim) if k != axis and same(arr.dims[k], indices.dims[k])]
    of_arr: Labels = tuple(k if k in alike else None for k in range(arr.ndim))
    of_index = tuple("a" if k == axis and adds else of_arr[k] for k in range(arr.ndim))
    of_values = tuple(None if k is None else of_index[k] for k in aligned(values, indices))
    is_one = adds and values.ndim == indices.ndim
    if is_one:
        of_arr = tuple("at" if k == axis else x for k, x in enumerate(of_arr))

    def local(cut: Cut, given: Any, attrs: Any) -> Any:
        mine, index = _own(given[1], arr.dims[axis], *cut["at"])
        added = ops.where(mine, given[2], nothing(given[2].dtype))
        return ops.put_along_axis(given[0], index, added, *attrs)

    return ShardingRule(
        (of_arr, of_index, of_values),
        (of_arr,),
        sums=frozenset({"a"}) if adds else frozenset(),
        carried=frozenset({0}),
        linear=together(0, 2) if adds else (),
        local=local,
        looked_up=frozenset({"at"}) if is_one else frozenset(),
    )
