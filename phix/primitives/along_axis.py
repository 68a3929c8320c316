"""Rules of the ops that read and write at indices along one axis."""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.dims import Shape
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import check_computes, check_fits, unbroadcast
from phix.primitives.indexing import check_index, check_mode, to_values
from phix.primitives.pointwise import broadcast_shapes
from phix.primitives.positions import masked, nothing, numbers_along, with_places, within
from phix.primitives.slicing import behind, expanded
from phix.primitives.steps import scanned


# -- take_along_axis ---------------------------------------------------------------------------
@rules.normalize("take_along_axis")
def take_along_axis_attrs(arr: MetaTensor, indices: MetaTensor, axis: int) -> Any:
    if not arr.ndim:
        raise ShapeError(f"{arr} has no axis to take along; reshape it to [1] first")
    return (ax.positive(axis, arr.ndim),)


@rules.infer_meta("TakeAlongAxisInferMeta")
def take_along_axis_meta(arr: MetaTensor, indices: MetaTensor, axis: int) -> MetaTensor:
    check_index(indices, "indices")
    if indices.ndim != arr.ndim:
        raise ShapeError(f"indices must have as many axes as {arr}, found {indices}")
    if dm.is_zero(arr.dims[axis]) and dm.is_known(indices.size) and not dm.is_zero(indices.size):
        raise ShapeError(f"axis {axis} of {arr} is empty, so there is nothing to take there")
    return arr.with_dims(_along(arr, indices, axis))


def _along(arr: MetaTensor, indices: MetaTensor, axis: int) -> Shape:
    """Dims broadcast but along the axis, which has those of the indices."""
    have = tuple(1 if i == axis else d for i, d in enumerate(arr.dims))
    dims = broadcast_shapes(have, indices.dims)
    return (*dims[:axis], indices.dims[axis], *dims[axis + 1 :])


@rules.decompose("take_along_axis_grad")
def take_along_axis_grad(arr: Any, indices: Any, out_grad: Any, axis: int) -> Any:
    wide = out_grad.meta.dims
    size = arr.meta.dims[axis]
    zeros = nothing(out_grad, (*wide[:axis], size, *wide[axis + 1 :]))
    where = ops.expand(indices, wide)
    put = ops.put_along_axis(zeros, where, out_grad, axis, "add", True, "clip")
    return unbroadcast(put, arr)


@rules.batch("take_along_axis")
def take_along_axis_batch(batched: Any, arr: Any, indices: Any, axis: int) -> Any:
    arr, indices = (
        v if b else ops.reshape(v, (1, *v.meta.dims)) for v, b in zip((arr, indices), batched)
    )
    return ops.take_along_axis(arr, indices, axis + 1)


# -- put_along_axis ----------------------------------------------------------------------------
_SPELLINGS = {"sum": "add", "multiply": "mul", "max": "amax", "min": "amin"}
_REDUCTIONS = ("assign", "add", "mul", "amax", "amin", "mean")


@rules.normalize("put_along_axis")
def put_along_axis_attrs(
    arr: MetaTensor,
    indices: MetaTensor,
    values: MetaTensor,
    axis: int,
    reduce: str,
    include_self: bool,
    mode: str,
) -> Any:
    reduce = _SPELLINGS.get(reduce, reduce)
    if reduce not in _REDUCTIONS:
        raise AttributeValueError(
            f"reduce {reduce!r} is not known; write one of {', '.join(_REDUCTIONS)}"
        )
    if not arr.ndim:
        raise ShapeError(f"{arr} has no axis to put along; reshape it to [1] first")
    return ax.positive(axis, arr.ndim), reduce, include_self, check_mode(mode)


@rules.infer_meta("PutAlongAxisInferMeta")
def put_along_axis_meta(
    arr: MetaTensor, indices: MetaTensor, values: MetaTensor, axis: int, reduce: str, *rest: Any
) -> MetaTensor:
    _, mode = rest
    check_index(indices, "indices")
    _check_room(arr, indices, axis)
    is_empty = mode != "drop" and dm.is_zero(arr.dims[axis])
    if is_empty and dm.is_known(indices.size) and not dm.is_zero(indices.size):
        raise ShapeError(f"axis {axis} of {arr} is empty, so nothing can be put there")
    check_fits(values, indices.dims, "values")
    if reduce != "assign":
        check_computes(arr, f"reduce={reduce!r}")
    return arr


def _check_room(arr: MetaTensor, indices: MetaTensor, axis: int) -> None:
    """Raise unless the indices are of the first rows of ``arr``, all of them or some. One of many
    is refused: elsewhere it stands for each."""
    pairs = [(a, i) for k, (a, i) in enumerate(zip(arr.dims, indices.dims)) if k != axis]
    if indices.ndim != arr.ndim or not all(dm.may_hold(a, i) for a, i in pairs):
        raise ShapeError(
            f"indices must have the dims of {arr} but along axis {axis}, or smaller ones, found "
            f"{indices}; expand it"
        )
    if any(dm.is_one(i) and not dm.may_equal(a, i) for a, i in pairs):
        raise ShapeError(
            f"indices {indices} have 1 where {arr} has more; expand it for every row, or write "
            "x.put_along_axis(..., broadcast=False), which puts into the first row alone"
        )


def _taken(x: Any, indices: Any, axis: int) -> Any:
    """What stands at the places that ``put_along_axis`` writes to."""
    short = [
        k
        for k, (a, i) in enumerate(zip(x.meta.dims, indices.meta.dims))
        if k != axis and not dm.same(a, i)
    ]
    if short:
        ends = [indices.meta.dims[k] for k in short]
        x = ops.slice(x, short, [0] * len(short), ends)
    return ops.take_along_axis(x, indices, axis)


class _Put(NamedTuple):
    """A call of ``put_along_axis`` with values for all indices, and the gradient of its result."""

    arr: Any
    indices: Any
    values: Any
    out: Any
    grad: Any
    axis: int
    include_self: bool
    mode: str

    @property
    def size(self) -> Any:
        return self.arr.meta.dims[self.axis]

    def put(self, into: Any, values: Any, reduce: str, include_self: bool = True) -> Any:
        return ops.put_along_axis(
            into, self.indices, values, self.axis, reduce, include_self, self.mode
        )

    def cleared(self, x: Any) -> Any:
        """``x`` with 0 at the places that are written to."""
        return self.put(x, nothing(x, ()), "assign")

    def taken(self, x: Any) -> Any:
        """What stands at these places, or at the nearest to them."""
        x = with_places(x, (self.axis,)) if self.mode == "drop" else x
        return _taken(x, self.indices, self.axis)

    def filled(self, number: int) -> Any:
        """One number for each element of the array."""
        return ops.full(self.arr.meta.dims, number, self.grad.dtype)


@rules.decompose("put_along_axis_grad")
def put_along_axis_grad(
    arr: Any,
    indices: Any,
    values: Any,
    out: Any,
    out_grad: Any,
    axis: int,
    reduce: str,
    include_self: bool,
    mode: str,
) -> Any:
    wide = ops.expand(values, indices.meta.dims)
    call = _Put(arr, indices, wide, out, out_grad, axis, include_self, mode)
    to_arr, to_each = _PUT_GRADS[reduce](call)
    if reduce != "assign" and not include_self:
        to_arr = call.cleared(to_arr)
    return to_arr, unbroadcast(to_values(to_each, mode, [indices], [call.size]), values)


def _assign_grad(call: _Put) -> Any:
    """All to the last write of each place."""
    turns = numbers_along(call.axis, call.indices.meta.dims)
    last = call.put(ops.full(call.arr.meta.dims, -1, dt.int64), turns, "assign")
    return call.cleared(call.grad), masked(call.taken(last) == turns, call.taken(call.grad))


def _add_grad(call: _Put) -> Any:
    return call.grad, call.taken(call.grad)


def _mean_grad(call: _Put) -> Any:
    one = ops.full((), 1, call.grad.dtype)
    share = call.grad / call.put(call.filled(1), one, "add", call.include_self)
    return share, call.taken(share)


def _mul_grad(call: _Put) -> Any:
    """For each factor the product of the others: no division, so zeros do, to any order."""
    conj = ops.conj if dt.is_complex(call.grad.dtype) else lambda x: x
    product = call.put(call.filled(1), call.values, "mul")
    others = _products_of_others(call)
    if call.include_self:
        others = call.taken(call.arr) * others
    return call.grad * conj(product), call.taken(call.grad) * conj(others)


def _products_of_others(call: _Put) -> Any:
    """For each value the product of all others with the same index: in the order of the indices
    of those before it and of those behind."""
    indices, values, axis, size = call.indices, call.values, call.axis, call.size
    place = ops.where(indices < 0, indices + size, indices)
    place = ops.minimum(ops.maximum(place, 0), size - 1)  # as it is written to
    if call.mode != "clip":  # what is not written is apart from all that is
        place = ops.where(within([indices], [size]), place, size)
    place, order = ops.argsort(place, axis, False, True)
    front = [axis, *(k for k in range(values.ndim) if k != axis)]
    back = sorted(range(values.ndim), key=front.__getitem__)
    rows = [ops.transpose(x, front) for x in (place, ops.take_along_axis(values, order, axis))]
    row = rows[1].meta.dims[1:]
    start = [ops.full(row, -1, place.dtype), ops.full(row, 1, values.dtype)]

    def step(carry: Any, slices: Any) -> Any:
        (last, product), (at, value) = carry, slices
        product = ops.where(at == last, product, ops.full((), 1, values.dtype))
        return [at, product * value], [product]

    before, behind = (scanned(step, start, rows, is_back)[1][0] for is_back in (False, True))
    found = ops.transpose(before * behind, back)
    return ops.take_along_axis(found, ops.argsort(order, axis)[1], axis)


def _extreme_grad(call: _Put) -> Any:
    """Split evenly among all that equal the result."""
    own = ops.cast(call.arr == call.out, call.grad.dtype)
    hits = ops.cast(call.values == call.taken(call.out), call.grad.dtype)
    counts = call.put(own, hits, "add", call.include_self)
    share = call.grad / ops.where(counts == 0, call.filled(1), counts)
    return own * share, hits * call.taken(share)


_PUT_GRADS = {
    "assign": _assign_grad,
    "add": _add_grad,
    "mean": _mean_grad,
    "mul": _mul_grad,
    "amax": _extreme_grad,
    "amin": _extreme_grad,
}


@rules.batch("put_along_axis")
def put_along_axis_batch(
    batched: Any,
    arr: Any,
    indices: Any,
    values: Any,
    axis: int,
    reduce: str,
    include_self: bool,
    mode: str,
) -> Any:
    size = next(v.meta.dims[0] for v, b in zip((arr, indices, values), batched) if b)
    arr, indices = (expanded(v, b, size) for v, b in zip((arr, indices), batched))
    if batched[2]:
        values = behind(values, arr.ndim - values.ndim)
    return ops.put_along_axis(arr, indices, values, axis + 1, reduce, include_self, mode)


# -- index_sample: along axis 1 -------------------------------------------------------------------
@rules.infer_meta("IndexSampleInferMeta")
def index_sample_meta(x: MetaTensor, index: MetaTensor) -> MetaTensor:
    if x.ndim != 2:
        raise ShapeError(f"x must have two axes, found {x}; take_along_axis takes any number")
    return take_along_axis_meta(x, index, 1)


@rules.decompose("index_sample")
def index_sample(x: Any, index: Any) -> Any:
    return ops.take_along_axis(x, index, 1)
