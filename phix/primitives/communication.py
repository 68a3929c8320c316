"""Ops that join processes, by Paddle's names: what they are of ops over a mesh's axes.

They are never met as a whole: bind runs what they are made of, where the mesh is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import context, rules
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.primitives.flat import zeros


# -- rings ---------------------------------------------------------------------------------------
def ring(ring_id: Any) -> tuple[str, Any]:
    """The name and size of the axis that a ring is: of those of the mesh around, else of those of
    vmap, the outermost first."""
    bound = [(name, size, tracked) for name, size, tracked in context.bound_axes()][::-1]
    axes = [(n, s) for n, s, tracked in bound if tracked] or [(n, s) for n, s, _ in bound]
    if not axes:
        raise ArgumentError(
            f"ring_id {ring_id} is an axis of a mesh, and there is none around; call the function "
            "by phix.parallel.spmd(f, phix.parallel.mesh({'data': -1}), ...)"
        )
    if not 0 <= ring_id < len(axes):
        raise AttributeValueError(
            f"ring_id is in [0, {len(axes)}), since there are the axes "
            f"{', '.join(n for n, _ in axes)}, found {ring_id}"
        )
    return axes[ring_id]


def _sized(ring_id: Any, nranks: Any, any_number: Any = None) -> tuple[str, Any]:
    """A ring whose size the call states; ``any_number`` stands for whatever it is."""
    name, size = ring(ring_id)
    if nranks != any_number and not dm.may_equal(nranks, size):
        raise AttributeValueError(
            f"nranks is the size of the axis {name!r}, {dm.dim_text(size)}, found {nranks}"
        )
    return name, size


def _check_rank(rank: Any, size: Any, what: str = "rank") -> None:
    if isinstance(size, int) and not 0 <= rank < size:
        raise AttributeValueError(f"{what} is in [0, {size}), found {rank}")


def _parts(x: Any, axis: int, size: Any, name: str) -> Any:
    """Dim ``axis`` as one row a process, in front of what is left of it."""
    if x.ndim == 0:
        raise ShapeError(f"x has a dim that is divided among the processes, found {x.meta}")
    axis %= x.ndim
    dims = x.shape
    if dm.is_known(dims[axis], size) and dims[axis] % size:
        raise ShapeError(
            f"dim {axis} of {x.meta} is divided among the {size} processes of {name!r}; pad it"
        )
    return ops.reshape(x, (*dims[:axis], size, dims[axis] // size, *dims[axis + 1 :]))


def _own(rows: Any, axis: int, name: str) -> Any:
    """The row of this process along an axis."""
    at = ops.reshape(ops.axis_index(name), (1,))
    return ops.squeeze(ops.index_select(rows, at, axis), [axis])


# -- sums and their like -------------------------------------------------------------------------
def _gathered(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, name, size: reduce(ops.all_gather(x, name))


def _mean(x: Any, name: str, size: Any) -> Any:
    if not dt.is_differentiable(x.dtype):
        raise DTypeError(f"the mean (reduce_type 4) is one of floats, found {x.meta}; cast it")
    return ops.psum(x, name) / size


# By reduce_type; the last two are of bools.
_REDUCTIONS: tuple[Callable[..., Any], ...] = (
    lambda x, name, size: ops.psum(x, name),
    _gathered(lambda rows: ops.max(rows, 0)),
    _gathered(lambda rows: ops.min(rows, 0)),
    _gathered(lambda rows: ops.cast(ops.prod(rows, [0]), rows.dtype)),
    _mean,
    _gathered(lambda rows: ops.any(rows, [0])),
    _gathered(lambda rows: ops.all(rows, [0])),
)
_FIRST_OF_BOOLS = 5


@rules.decompose("all_reduce")
def all_reduce(x: Any, ring_id: int, reduce_type: int) -> Any:
    if not 0 <= reduce_type < len(_REDUCTIONS):
        raise AttributeValueError(
            "reduce_type is 0 (sum), 1 (max), 2 (min), 3 (prod), 4 (mean), 5 (any) or 6 (all), "
            f"found {reduce_type}"
        )
    if (x.dtype == dt.bool_) != (reduce_type >= _FIRST_OF_BOOLS):
        raise DTypeError(
            f"bools are brought together by any (reduce_type 5) and all (6), and nothing else is; "
            f"found reduce_type {reduce_type} of {x.meta}"
        )
    name, size = ring(ring_id)
    return _REDUCTIONS[reduce_type](x, name, size)


@rules.decompose("reduce")
def reduce(x: Any, ring_id: int, root_id: int, reduce_type: int) -> Any:
    name, size = ring(ring_id)
    _check_rank(root_id, size, "root_id")
    total = ops.all_reduce(x, ring_id, reduce_type)
    return ops.where(ops.axis_index(name) == root_id, total, x)


@rules.decompose("c_allreduce_sum")
def c_allreduce_sum(x: Any, ring_id: int, use_calc_stream: bool, use_model_parallel: bool) -> Any:
    return ops.all_reduce(x, ring_id)


@rules.decompose("mp_allreduce_sum")
def mp_allreduce_sum(x: Any, ring_id: int) -> Any:
    return ops.all_reduce(x, ring_id)


@rules.decompose("reduce_scatter")
def reduce_scatter(x: Any, ring_id: int, nranks: int) -> Any:
    name, size = _sized(ring_id, nranks, 1)
    return ops.psum_scatter(_parts(x, 0, size, name), name)


@rules.decompose("barrier")
def barrier(x: Any, ring_id: int) -> Any:
    name, _ = ring(ring_id)
    came = ops.psum(ops.axis_index(name), name)
    return ops.optimization_barrier([x, came])[0]


# -- parts ---------------------------------------------------------------------------------------
@rules.decompose("broadcast")
def broadcast(x: Any, ring_id: int, root: int) -> Any:
    name, size = ring(ring_id)
    _check_rank(root, size, "root")
    return ops.all_gather(x, name)[root]


@rules.decompose("c_scatter")
def c_scatter(x: Any, ring_id: int, root: int, nranks: int, use_calc_stream: bool) -> Any:
    name, size = _sized(ring_id, nranks, 0)
    _check_rank(root, size, "root")
    return ops.all_to_all(_parts(x, 0, size, name), name, 0, 0)[root]


@rules.decompose("c_concat")
def c_concat(
    x: Any, rank: int, nranks: int, ring_id: int, use_calc_stream: bool, use_model_parallel: bool
) -> Any:
    name, size = _sized(ring_id, nranks)
    _check_rank(rank, size)
    if x.ndim == 0:
        raise ShapeError(f"x has a dim along which parts are joined, found {x.meta}")
    dims = x.shape
    rows = ops.all_gather(x, name, axis=x.ndim - 1)
    return ops.reshape(rows, (*dims[:-1], size * dims[-1]))


@rules.decompose("c_split")
def c_split(x: Any, rank: int, nranks: int, ring_id: int, use_model_parallel: bool) -> Any:
    name, size = _sized(ring_id, nranks, 1)
    _check_rank(rank, size)
    return _own(_parts(x, -1, size, name), x.ndim - 1, name)


@rules.decompose("partial_allgather")
def partial_allgather(x: Any, nranks: int, rank: int, ring_id: int) -> Any:
    name, size = _sized(ring_id, nranks)
    _check_rank(rank, size)
    own = _own(_parts(ops.reshape(x, (-1,)), 0, size, name), 0, name)
    return ops.reshape(ops.all_gather(own, name), x.shape)


@rules.decompose("sync_comm_stream")
def sync_comm_stream(x: Any, ring_id: int) -> Any:
    return list(x)


# -- tables and classes in parts -----------------------------------------------------------------
@rules.decompose("c_embedding")
def c_embedding(weight: Any, x: Any, start_index: Any, vocab_size: Any) -> Any:
    if weight.ndim != 2:
        raise ShapeError(f"weight is [rows, width], found {weight.meta}")
    if dt.kind(x.dtype) != "int":
        raise DTypeError(f"x has the numbers of rows, ints, found {x.meta}")
    at = ops.cast(x, dt.int64) - start_index
    rows = weight.shape[0]
    is_here = ops.logical_and(at >= 0, at < rows)
    if dm.is_known(rows) and rows == 0:
        return ops.full((*x.shape, weight.shape[1]), 0, weight.dtype)
    found = weight[ops.where(is_here, at, ops.full((), 0, dt.int64))]
    return ops.where(ops.unsqueeze(is_here, [x.ndim]), found, zeros(found.meta))


@rules.decompose("c_softmax_with_cross_entropy")
def c_softmax_with_cross_entropy(
    logits: Any, label: Any, ignore_index: int, ring_id: int, rank: int, nranks: int
) -> Any:
    name, size = _sized(ring_id, nranks, 0)
    _check_rank(rank, size)
    _check_labels(logits, label)
    dtype = logits.dtype
    x = ops.cast(logits, dt.float32) if dtype in (dt.float16, dt.bfloat16) else logits
    last = x.ndim - 1
    largest = ops.stop_gradient(ops.max(x, [last], True))
    x = x - ops.max(ops.all_gather(largest, name), 0)  # of all classes, so that no exp overflows
    shares = ops.exp(x)
    total = ops.psum(ops.sum(shares, [last], None, True), name)
    own = x.shape[last]
    label = label if label.ndim == x.ndim else ops.unsqueeze(label, [last])
    label = ops.cast(label, dt.int64)
    classes = ops.arange(0, own, 1, dt.int64) + ops.axis_index(name) * own
    chosen = ops.where(classes == label, x, zeros(x.meta))
    at_label = ops.psum(ops.sum(chosen, [last], None, True), name)
    loss = ops.log(total) - at_label
    is_class = ops.logical_and(label >= 0, label < size * own)
    loss = ops.where(is_class, loss, ops.full((), float("nan"), loss.dtype))
    loss = ops.where(label == ignore_index, zeros(loss.meta), loss)
    return ops.cast(shares / total, dtype), ops.cast(loss, dtype)


def _check_labels(logits: Any, label: Any) -> None:
    if dt.kind(label.dtype) != "int":
        raise DTypeError(f"label has classes, ints, found {label.meta}")
    rows = logits.meta.dims[:-1]
    found = label.meta.dims
    found = found[:-1] if label.ndim == logits.ndim and dm.is_one(found[-1]) else found
    fits = len(found) == len(rows) and all(map(dm.may_equal, found, rows))
    if logits.ndim == 0 or not fits:
        raise ShapeError(
            f"label has a class for each row of logits, [...] or [..., 1]; found {label.meta} for "
            f"{logits.meta}"
        )
