"""Ops that join the lanes of a named axis; ``vmap(..., axis_name=...)`` answers them.

A rule gets values with the lanes in front. The transpose of a sum over lanes is a sum over lanes:
what is differentiated is the sum of the results of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.context import axis_size, is_tracked
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives.flat import expanded, zeros


# -- names ---------------------------------------------------------------------------------------
def _axis(axis: int, rank: int, what: str) -> int:
    if not -rank <= axis < rank:
        raise AttributeValueError(f"{what} must be in [-{rank}, {rank}), found {axis}")
    return axis % rank


@rules.normalize("psum")
def psum_attrs(x: MetaTensor, axis_name: str) -> Any:
    axis_size(axis_name)
    return (axis_name,)


@rules.normalize("pvary")
def pvary_attrs(x: MetaTensor, axis_name: str) -> Any:
    axis_size(axis_name)
    return (axis_name,)


@rules.normalize("axis_index")
def axis_index_attrs(axis_name: str) -> Any:
    axis_size(axis_name)
    return (axis_name,)


@rules.normalize("all_gather")
def all_gather_attrs(x: MetaTensor, axis_name: str, size: Any, axis: int) -> Any:
    return (axis_name, axis_size(axis_name), _axis(axis, x.ndim + 1, "axis"))


@rules.normalize("psum_scatter")
def psum_scatter_attrs(x: MetaTensor, axis_name: str, size: Any, axis: int) -> Any:
    axis, size = _axis(axis, x.ndim, "axis"), axis_size(axis_name)
    _check_rows(x, axis, size, axis_name)
    return (axis_name, size, axis)


@rules.normalize("all_to_all")
def all_to_all_attrs(x: MetaTensor, axis_name: str, split_axis: int, concat_axis: int) -> Any:
    split = _axis(split_axis, x.ndim, "split_axis")
    _check_rows(x, split, axis_size(axis_name), axis_name)
    return (axis_name, split, _axis(concat_axis, x.ndim, "concat_axis"))


def _check_rows(x: MetaTensor, axis: int, size: Any, axis_name: str) -> None:
    if not dm.may_equal(x.dims[axis], size):
        raise ShapeError(
            f"dim {axis} of {x} must have the size of the axis {axis_name!r}, {dm.dim_text(size)}"
        )


@rules.normalize("ppermute")
def ppermute_attrs(x: MetaTensor, axis_name: str, sources: Any, targets: Any) -> Any:
    size = axis_size(axis_name)
    if len(sources) != len(targets) or len(set(sources)) != len(sources):
        raise AttributeValueError(f"each lane may send once, found sources {sources}")
    if len(set(targets)) != len(targets):
        raise AttributeValueError(f"each lane may receive once, found targets {targets}")
    lanes = [*sources, *targets]
    if isinstance(size, int) and not all(0 <= i < size for i in lanes):
        raise AttributeValueError(
            f"the axis {axis_name!r} has lanes 0 to {size - 1}, found {lanes}"
        )
    return (axis_name, sources, targets)


# -- metas ---------------------------------------------------------------------------------------
@rules.infer_meta("AllGatherInferMeta")
def all_gather_meta(x: MetaTensor, size: Any, axis: int) -> MetaTensor:
    return x.with_dims((*x.dims[:axis], size, *x.dims[axis:]))


@rules.infer_meta("PsumScatterInferMeta")
def psum_scatter_meta(x: MetaTensor, size: Any, axis: int) -> MetaTensor:
    return x.with_dims((*x.dims[:axis], *x.dims[axis + 1 :]))


@rules.infer_meta("AllToAllInferMeta")
def all_to_all_meta(x: MetaTensor, split_axis: int, concat_axis: int) -> MetaTensor:
    dims = list(x.dims)
    dims.insert(concat_axis, dims.pop(split_axis))
    return x.with_dims(dims)


@rules.infer_meta("AxisIndexInferMeta")
def axis_index_meta(axis_name: str) -> MetaTensor:
    return MetaTensor((), dt.int64)


# -- over the axis -------------------------------------------------------------------------------
def with_axis_moved(x: Any, source: int, target: int) -> Any:
    """``x`` with one axis elsewhere, the others in order."""
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return ops.transpose(x, tuple(order))


def _lanes(x: Any, batched: Sequence[bool], size: Any) -> Any:
    return x if batched[0] else expanded(x, size)


@rules.collective("psum")
def psum_lanes(size: Any, batched: Any, x: Any, axis_name: str) -> Any:
    if batched[0]:
        return ops.sum(x, 0, x.dtype), False
    return ops.sum(expanded(x, size), 0, x.dtype), False


@rules.collective("all_gather")
def all_gather_lanes(size: Any, batched: Any, x: Any, axis_name: str, _: Any, axis: int) -> Any:
    return with_axis_moved(_lanes(x, batched, size), 0, axis), False


@rules.collective("psum_scatter")
def psum_scatter_lanes(size: Any, batched: Any, x: Any, axis_name: str, _: Any, axis: int) -> Any:
    total = ops.sum(_lanes(x, batched, size), 0, x.dtype)
    return with_axis_moved(total, axis, 0), True


@rules.collective("ppermute")
def ppermute_lanes(
    size: Any, batched: Any, x: Any, axis_name: str, sources: Any, targets: Any
) -> Any:
    lanes = _lanes(x, batched, size)
    if not sources:
        return zeros(lanes.meta), True
    sent = ops.index_select(lanes, list(sources), 0)
    return zeros(lanes.meta).at[list(targets)].set(sent), True


@rules.collective("all_to_all")
def all_to_all_lanes(
    size: Any, batched: Any, x: Any, axis_name: str, split_axis: int, concat_axis: int
) -> Any:
    rows = with_axis_moved(_lanes(x, batched, size), split_axis + 1, 0)  # receiver, sender, rest
    return with_axis_moved(rows, 1, concat_axis + 1), True


@rules.collective("axis_index")
def axis_index_lanes(size: Any, batched: Any, axis_name: str) -> Any:
    return ops.arange(0, size, 1, dt.int64), True


@rules.collective("pvary")
def pvary_lanes(size: Any, batched: Any, x: Any, axis_name: str) -> Any:
    return _lanes(x, batched, size), True


# -- reverse mode --------------------------------------------------------------------------------
# Of a function on the parts of a mesh, a result that is the same in all of them is one result, and
# a cotangent comes as its value does: summed where that is the same (interpreters.tape). Of a
# function of lanes what is differentiated is the sum of the results of all.
@rules.vjp("psum")
def psum_vjp(active: Any, x: Any, axis_name: str) -> Any:
    varies = is_tracked(axis_name) and axis_name in x.meta.varying

    def pull(ct: Any) -> Any:
        return (ct if varies else ops.psum(ct, axis_name),)

    return ops.psum(x, axis_name), pull


@rules.vjp("all_gather")
def all_gather_vjp(active: Any, x: Any, axis_name: str, size: Any, axis: int) -> Any:
    tracked, varies = is_tracked(axis_name), axis_name in x.meta.varying

    def pull(ct: Any) -> Any:
        if not tracked:
            return (ops.psum_scatter(ct, axis_name, size, axis),)
        if not varies:
            return (ops.sum(ct, axis, ct.dtype),)
        own = ops.reshape(ops.axis_index(axis_name), (1,))
        return (ops.squeeze(ops.index_select(ct, own, axis), [axis]),)

    return ops.all_gather(x, axis_name, size, axis), pull


@rules.vjp("psum_scatter")
def psum_scatter_vjp(active: Any, x: Any, axis_name: str, size: Any, axis: int) -> Any:
    is_one = is_tracked(axis_name) and axis_name not in x.meta.varying  # the x of all parts

    def pull(ct: Any) -> Any:
        rows = ops.all_gather(ct, axis_name, size, axis)
        return (ops.psum(rows, axis_name) if is_one else rows,)

    return ops.psum_scatter(x, axis_name, size, axis), pull


@rules.decompose("pvary_grad")
def pvary_grad(out_grad: Any) -> Any:
    return out_grad


# -- under a batch of another axis ---------------------------------------------------------------
@rules.batch("psum")
def psum_batch(batched: Any, x: Any, axis_name: str) -> Any:
    return ops.psum(x, axis_name)


@rules.batch("pvary")
def pvary_batch(batched: Any, x: Any, axis_name: str) -> Any:
    return ops.pvary(x, axis_name)


@rules.batch("all_gather")
def all_gather_batch(batched: Any, x: Any, axis_name: str, size: Any, axis: int) -> Any:
    return ops.all_gather(x, axis_name, size, axis + 1)


@rules.batch("psum_scatter")
def psum_scatter_batch(batched: Any, x: Any, axis_name: str, size: Any, axis: int) -> Any:
    return ops.psum_scatter(x, axis_name, size, axis + 1)


@rules.batch("ppermute")
def ppermute_batch(batched: Any, x: Any, axis_name: str, sources: Any, targets: Any) -> Any:
    return ops.ppermute(x, axis_name, sources, targets)


@rules.batch("all_to_all")
def all_to_all_batch(batched: Any, x: Any, axis_name: str, split: int, concat: int) -> Any:
    return ops.all_to_all(x, axis_name, split + 1, concat + 1)
