"""Slices, pads, and joining tensors end to end: metas, backward and batching rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules, slices
from phix.core.attrs import check_number
from phix.core.dims import DimLike
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.expectations import expect_equal
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import check_computes, check_fits, unbroadcast


# -- slice -------------------------------------------------------------------------------------
@rules.normalize("slice")
def slice_attrs(
    input: MetaTensor, axes: Any, starts: Any, ends: Any, infer_flags: Any, decrease_axis: Any
) -> Any:
    """Bounds as ``slices.canonical`` writes them; ``infer_flags`` says nothing here."""
    axes, starts, ends, _ = _bounds(input, axes, starts, ends, (1,) * len(axes))
    return axes, starts, ends, (), tuple(sorted(ax.all_positive(decrease_axis, input.ndim)))


def _bounds(x: MetaTensor, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    """Axes, starts, ends and strides in the one way they are written."""
    if not len(axes) == len(starts) == len(ends) == len(strides):
        raise AttributeValueError(
            f"axes {axes}, starts {starts}, ends {ends} and strides {strides} must be equally long"
        )
    if axes and not x.ndim:
        raise ShapeError(f"{x} has no axes to slice; leave axes empty, or reshape it to [1]")
    axes = ax.all_positive(axes, x.ndim, "axes")
    if 0 in strides:
        raise AttributeValueError("a stride cannot be 0; write 1 to take every element")
    parts = [
        slices.canonical(start, end, stride, x.dims[axis])
        for axis, start, end, stride in zip(axes, starts, ends, strides)
    ]
    return axes, *(zip(*parts) if parts else ((), (), ()))


def _extents(x: MetaTensor, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    """(first position, length) of each sliced axis."""
    return {
        axis: slices.extent(start, end, stride, x.dims[axis])
        for axis, start, end, stride in zip(axes, starts, ends, strides)
    }


@rules.infer_meta("SliceRawInferMeta")
def slice_meta(
    input: MetaTensor, axes: Any, starts: Any, ends: Any, infer_flags: Any, decrease_axis: Any
) -> MetaTensor:
    found = _extents(input, axes, starts, ends, (1,) * len(axes))
    dims = [found[i][1] if i in found else d for i, d in enumerate(input.dims)]
    for axis in decrease_axis:
        if not dm.may_equal(dims[axis], 1):
            raise ShapeError(
                f"decrease_axis drops axis {axis}, of which {dm.dim_text(dims[axis])} elements are "
                "left; only an axis of one element can go (is an index out of range?)"
            )
    return input.with_dims([d for i, d in enumerate(dims) if i not in decrease_axis])


@rules.decompose("slice_grad")
def slice_grad(
    input: Any,
    out_grad: Any,
    axes: Any,
    starts: Any,
    ends: Any,
    infer_flags: Any,
    decrease_axis: Any,
) -> Any:
    found = _extents(input, axes, starts, ends, (1,) * len(axes))
    dims = [found[i][1] if i in found else d for i, d in enumerate(input.meta.dims)]
    whole = ops.reshape(out_grad, dims) if decrease_axis else out_grad
    paddings: list[Any] = []
    for i, (have, want) in enumerate(zip(dims, input.meta.dims)):
        first = found[i][0] if i in found else 0
        paddings += [first, want - have - first]
    return ops.pad(whole, paddings, 0)


@rules.batch("slice")
def slice_batch(batched: Any, input: Any, axes: Any, *bounds: Any) -> Any:
    starts, ends, _, decrease_axis = bounds
    behind = tuple(a + 1 for a in axes)
    return ops.slice(input, behind, starts, ends, (), tuple(a + 1 for a in decrease_axis))


# -- strided_slice -----------------------------------------------------------------------------
@rules.normalize("strided_slice")
def strided_slice_attrs(x: MetaTensor, axes: Any, starts: Any, ends: Any, strides: Any) -> Any:
    return _bounds(x, axes, starts, ends, strides)


@rules.infer_meta("StridedSliceInferMeta")
def strided_slice_meta(
    x: MetaTensor, axes: Any, starts: Any, ends: Any, strides: Any
) -> MetaTensor:
    found = _extents(x, axes, starts, ends, strides)
    return x.with_dims([found[i][1] if i in found else d for i, d in enumerate(x.dims)])


@rules.decompose("strided_slice_grad")
def strided_slice_grad(
    x: Any, out_grad: Any, axes: Any, starts: Any, ends: Any, strides: Any
) -> Any:
    zeros = ops.full(x.meta.dims, 0, out_grad.dtype)
    return ops.slice_put(zeros, out_grad, axes, starts, ends, strides)


@rules.batch("strided_slice")
def strided_slice_batch(
    batched: Any, x: Any, axes: Any, starts: Any, ends: Any, strides: Any
) -> Any:
    return ops.strided_slice(x, tuple(a + 1 for a in axes), starts, ends, strides)


# -- slice_put ---------------------------------------------------------------------------------
@rules.normalize("slice_put")
def slice_put_attrs(
    x: MetaTensor, value: Any, axes: Any, starts: Any, ends: Any, strides: Any, accumulate: bool
) -> Any:
    strides = strides or (1,) * len(axes)
    return *_bounds(x, axes, starts, ends, strides), accumulate


@rules.infer_meta("SlicePutInferMeta")
def slice_put_meta(x: MetaTensor, value: MetaTensor, *attrs: Any) -> MetaTensor:
    *bounds, accumulate = attrs
    dims = strided_slice_meta(x, *bounds).dims
    check_fits(value, dims, "value")
    if accumulate:
        check_computes(x, "accumulate")
    return x


@rules.decompose("slice_put_grad")
def slice_put_grad(x: Any, value: Any, out_grad: Any, *attrs: Any) -> Any:
    *bounds, accumulate = attrs
    zero = ops.full((), 0, out_grad.dtype)
    to_x = out_grad if accumulate else ops.slice_put(out_grad, zero, *bounds)
    return to_x, unbroadcast(ops.strided_slice(out_grad, *bounds), value)


@rules.batch("slice_put")
def slice_put_batch(batched: Any, x: Any, value: Any, axes: Any, *attrs: Any) -> Any:
    of_x, of_value = batched
    size = (x if of_x else value).meta.dims[0]
    x = expanded(x, of_x, size)
    if of_value:
        value = behind(value, x.ndim - value.ndim)
    return ops.slice_put(x, value, tuple(a + 1 for a in axes), *attrs)


def behind(x: Any, count: int) -> Any:
    """``x`` with that many dims of 1 behind its batch dim."""
    dims = x.meta.dims
    return ops.reshape(x, (dims[0], *(1,) * count, *dims[1:])) if count else x


# -- pad ---------------------------------------------------------------------------------------
@rules.normalize("pad")
def pad_attrs(x: MetaTensor, paddings: Any, pad_value: Any) -> Any:
    if len(paddings) != 2 * x.ndim:
        raise AttributeValueError(
            f"paddings {paddings} must have two numbers, before and after, for each of the "
            f"{x.ndim} axes of {x}"
        )
    check_number(pad_value, x.dtype, "pad_value")
    return paddings, pad_value


@rules.infer_meta("PadInferMeta")
def pad_meta(x: MetaTensor, paddings: Any, pad_value: Any) -> MetaTensor:
    dims = [d + p + q for d, p, q in zip(x.dims, paddings[::2], paddings[1::2])]
    for axis, d in enumerate(dims):
        if isinstance(d, int) and d < 0:
            raise ShapeError(f"paddings {paddings} take more from axis {axis} of {x} than it has")
    return x.with_dims(dims)


@rules.operands("pad")
def pad_with_tensor(x: Any, paddings: Any, pad_value: Any) -> Any:
    inside = ops.pad(ops.full(x.meta.dims, True, dt.bool_), paddings, False)
    return ops.where(inside, ops.pad(x, paddings, 0), pad_value.astype(x.dtype))


@rules.decompose("pad_grad")
def pad_grad(x: Any, out_grad: Any, paddings: Any, pad_value: Any) -> Any:
    return ops.pad(out_grad, [-p for p in paddings], 0)


@rules.jvp("pad")
def pad_jvp(primals: Any, tangents: Any, paddings: Any, pad_value: Any) -> Any:
    return ops.pad(primals[0], paddings, pad_value), ops.pad(tangents[0], paddings, 0)


@rules.batch("pad")
def pad_batch(batched: Any, x: Any, paddings: Any, pad_value: Any) -> Any:
    return ops.pad(x, (0, 0, *paddings), pad_value)


# -- concat ------------------------------------------------------------------------------------
@rules.normalize("concat")
def concat_attrs(x: Any, axis: Any) -> Any:
    if not x:
        raise ShapeError("concat needs at least one tensor")
    if not x[0].ndim:
        raise ShapeError("0-d tensors have no axis to be joined along; use stack")
    return (ax.positive(int(axis), x[0].ndim),)


@rules.infer_meta("ConcatInferMeta")
def concat_meta(x: Any, axis: int) -> MetaTensor:
    first, *rest = x
    dims = list(first.dims)
    for other in rest:
        if other.ndim != first.ndim:
            raise ShapeError(f"tensors to join must have one rank, found {first} and {other}")
        for i, d in enumerate(other.dims):
            if i == axis:
                dims[i] = dims[i] + d
            elif not dm.may_equal(dims[i], d):
                raise ShapeError(
                    f"tensors joined along axis {axis} must agree in the other dims, found "
                    f"{first} and {other}"
                )
            elif not dm.is_known(dims[i]):
                dims[i] = d
    return first.with_dims(dims)


@rules.decompose("concat_grad")
def concat_grad(x: Any, out_grad: Any, axis: int) -> Any:
    return pieces(out_grad, [part.meta.dims[axis] for part in x], axis)


def pieces(x: Any, sizes: Any, axis: int) -> tuple[Any, ...]:
    """``x`` cut along ``axis`` into slices of these sizes."""
    found = []
    start: DimLike = 0
    for size in sizes:
        found.append(ops.slice(x, [axis], [start], [start + size]))
        start = start + size
    return tuple(found)


@rules.batch("concat")
def concat_batch(batched: Any, x: Any, axis: int) -> Any:
    (flags,) = batched
    size = next(part.meta.dims[0] for part, flag in zip(x, flags) if flag)
    return ops.concat([expanded(p, b, size) for p, b in zip(x, flags)], axis + 1)


def expanded(x: Any, is_batched: bool, size: DimLike) -> Any:
    """``x`` with a batch dim in front."""
    return x if is_batched else ops.expand(x, (size, *x.meta.dims))


# -- split -------------------------------------------------------------------------------------
@rules.normalize("split")
def split_attrs(x: MetaTensor, sections: Any, axis: Any) -> Any:
    """One section may be -1: what the others leave."""
    axis = ax.positive(int(axis), x.ndim)
    if not x.ndim:
        raise ShapeError("a 0-d tensor has no axis to be split along; reshape it to [1] first")
    free = [i for i, s in enumerate(sections) if isinstance(s, int) and s < 0]
    if len(free) > 1 or any(sections[i] != -1 for i in free):
        raise AttributeValueError(f"sections {sections} can have one -1 and no other negative size")
    if free:
        rest = _left_over(x, [s for s in sections if not isinstance(s, int) or s >= 0], axis)
        sections = tuple(rest if i in free else s for i, s in enumerate(sections))
    return sections, axis


def _left_over(x: MetaTensor, sections: Any, axis: int) -> DimLike:
    left = x.dims[axis]
    for s in sections:
        left = left - s
    return left


@rules.infer_meta("SplitInferMeta")
def split_meta(x: MetaTensor, sections: Any, axis: int) -> Any:
    left = _left_over(x, sections, axis)
    if not dm.may_equal(left, 0) or any(isinstance(s, int) and s < 0 for s in sections):
        raise ShapeError(
            f"sections {sections} must add up to the {dm.dim_text(x.dims[axis])} elements of "
            f"axis {axis} of {x}; write -1 for one of them to take the rest"
        )
    return tuple(x.with_dims((*x.dims[:axis], s, *x.dims[axis + 1 :])) for s in sections)


def fitted(x: Any, dims: Sequence[DimLike]) -> Any:
    """``x``, which must have those dims: where nobody knows before, each run looks.

    An op whose result has a size that its data tell is traced as what it is made of, so that the
    checks of its decomposition see unknown dims alone.
    """
    if dm.same_shape(x.meta.dims, tuple(dims)):
        return x
    both = ops.stack([x, ops.full(dims, 0, x.dtype)], 0)  # of what is stacked all dims agree
    return ops.squeeze(ops.slice(both, [0], [0], [1], (), ()), (0,))


@rules.decompose("split")
def split(x: Any, sections: Any, axis: int) -> Any:
    whole = x.meta.dims[axis]
    if dm.is_computed(whole):  # each run looks whether they add up to it
        x = fitted(x, (*x.meta.dims[:axis], sum(sections), *x.meta.dims[axis + 1 :]))
    return pieces(x, sections, axis)


@rules.decompose("split_grad")
@rules.decompose("split_with_num_grad")
def split_grad(out_grad: Any, axis: int) -> Any:
    return ops.concat(list(out_grad), axis)


@rules.normalize("split_with_num")
def split_with_num_attrs(x: MetaTensor, num: int, axis: Any) -> Any:
    axis = ax.positive(int(axis), x.ndim)
    if not x.ndim or num < 1:
        raise ShapeError(f"{x} cannot be split into {num} parts; write num from 1 on, and a tensor "
                         "with an axis")  # fmt: skip
    size = x.dims[axis]
    if dm.is_known(size) and size % num:
        raise ShapeError(_no_equal_parts(x, num, axis))
    return num, axis


def _no_equal_parts(x: MetaTensor, num: int, axis: int) -> str:
    return f"axis {axis} of {x} does not split into {num} equal parts; use split with sections"


@rules.decompose("split_with_num")
def split_with_num(x: Any, num: int, axis: int) -> Any:
    dims = x.meta.dims
    part = dm.floordiv(dims[axis], num)
    # where another dim is 0, the shape of the whole does not tell whether the parts add up
    x = expect_equal(x, _no_equal_parts(x.meta, num, axis), (num * part, dims[axis]))
    whole = ops.reshape(x, (*dims[:axis], num, part, *dims[axis + 1 :]))
    return tuple(ops.slice(whole, [axis], [i], [i + 1], [], [axis]) for i in range(num))
