"""Messages along the edges of graphs, and what each node makes of those that reach it.

Of messages that are equally large (MAX) or small (MIN), each gets an equal share of the gradient.
"""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.expectations import expect_dims
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.primitives.lengths import as_int
from phix.primitives.positions import nothing, numbers
from phix.primitives.run_time_sizes import chosen
from phix.primitives.slicing import fitted
from phix.primitives.widening import as_dtype

_REDUCTIONS = ("SUM", "MEAN", "MAX", "MIN")
_EXTREMES = {"MAX": "amax", "MIN": "amin"}
_MESSAGES = {"ADD": "add", "MUL": "multiply"}


# -- what rows become that go to one place ---------------------------------------------------------
def _check_reduction(name: str, value: str) -> None:
    if value not in _REDUCTIONS:
        raise AttributeValueError(
            f"{name} must be one of {', '.join(_REDUCTIONS)}, found {value!r}"
        )


def check_index(name: str, index: MetaTensor) -> None:
    if dt.kind(index.dtype) != "int":
        raise DTypeError(f"{name} holds numbers of rows, which are ints, found {index}; cast it")
    if index.ndim != 1:
        raise ShapeError(f"{name} must be a vector, found {index}; reshape it")


def counted(index: Any, rows: dm.DimLike) -> Any:
    """How often each of the row numbers stands in the index, int64[rows]."""
    ones = ops.full(index.meta.dims, 1, dt.int64)
    return ops.index_put(ops.full((rows,), 0, dt.int64), [index], ones, True, (0,))


def gathered(messages: Any, index: Any, rows: dm.DimLike, how: str) -> Any:
    """Row r is the sum, mean, ... of the messages whose index is r; 0 where there are none."""
    if how == "MEAN" and (wide := dt.accumulator_dtype(messages.dtype)) != messages.dtype:
        return gathered(messages.astype(wide), index, rows, how).astype(messages.dtype)
    out = nothing(messages, (rows, *messages.meta.dims[1:]))
    if how in _EXTREMES:
        where = _as_wide(index, messages)
        return ops.put_along_axis(out, where, messages, 0, _EXTREMES[how], False)
    out = ops.index_put(out, [index], messages, True, (0,))
    if how == "SUM":
        return out
    counts = _as_wide(ops.maximum(counted(index, rows), 1), out, expand=False)
    if dt.kind(out.dtype) == "int":
        return ops.trunc(out / counts).astype(out.dtype)
    return out / as_dtype(counts, out.dtype)


def _as_wide(index: Any, like: Any, expand: bool = True) -> Any:
    """A vector against tensors whose first axis it numbers."""
    dims = like.meta.dims
    index = ops.reshape(index, (*index.meta.dims, *(1,) * (len(dims) - 1)))
    return ops.expand(index, dims) if expand else index


# -- messages --------------------------------------------------------------------------------------
def _rows(x: Any, name: str) -> dm.DimLike:
    if not x.ndim:
        raise ShapeError(f"{name} must have a row for each node, found {x.meta}; reshape it")
    return x.meta.dims[0]


def _check_edges(src_index: Any, dst_index: Any) -> None:
    check_index("src_index", src_index.meta)
    check_index("dst_index", dst_index.meta)
    if not dm.may_equal(src_index.meta.dims[0], dst_index.meta.dims[0]):
        raise ShapeError(
            "src_index and dst_index have one number an edge, found "
            f"{src_index.meta} and {dst_index.meta}"
        )


def _out_rows(out_size: Any, x: Any) -> dm.DimLike:
    """The number of rows that is asked for, else that of x."""
    if len(out_size) != 1:
        raise AttributeValueError(f"out_size is one number of rows, found {list(out_size)}")
    size = out_size[0]
    return _rows(x, "x") if dm.is_known(size) and size <= 0 else size


def _row_range(name: str, x: MetaTensor, what: str) -> list[IndexRange]:
    return [IndexRange(name, x.dims[:1], f"the rows of {what},", counts_back=False)]


def _out_range(x: MetaTensor, out_size: Any) -> list[IndexRange]:
    size = out_size[0] if len(out_size) == 1 else 0
    sizes = x.dims[:1] if dm.is_known(size) and size <= 0 else (size,)
    return [IndexRange("dst_index", sizes, "the rows of the result,", counts_back=False)]


@rules.normalize("send_u_recv")
def send_u_recv_attrs(x: Any, src: Any, dst: Any, reduce_op: str, out_size: Any) -> Any:
    _check_reduction("reduce_op", reduce_op)
    return reduce_op, out_size


@rules.indices("send_u_recv")
def send_u_recv_indices(
    x: MetaTensor, src: MetaTensor, dst: MetaTensor, reduce_op: str, out_size: Any
) -> list[IndexRange]:
    return [*_row_range("src_index", x, "x"), *_out_range(x, out_size)] if x.ndim else []


@rules.decompose("send_u_recv")
def send_u_recv(x: Any, src_index: Any, dst_index: Any, reduce_op: str, out_size: Any) -> Any:
    _check_edges(src_index, dst_index)
    rows = _out_rows(out_size, x)
    messages = ops.gather(x, src_index, 0)
    counts = ops.cast(counted(dst_index, rows), dt.int32)
    return gathered(messages, dst_index, rows, reduce_op), counts


def _message(a: Any, b: Any, how: str) -> Any:
    """a and b for each edge; the axes behind the first broadcast."""
    rank = max(a.ndim, b.ndim)

    def aligned(t: Any) -> Any:
        lead, *rest = t.meta.dims
        return t if t.ndim == rank else ops.reshape(t, (lead, *(1,) * (rank - t.ndim), *rest))

    return getattr(ops, _MESSAGES[how])(aligned(a), aligned(b))


def _check_message(how: str) -> None:
    if how not in _MESSAGES:
        raise AttributeValueError(
            f"message_op must be ADD or MUL, found {how!r}; for SUB pass -y, for DIV 1 / y"
        )


@rules.normalize("send_ue_recv")
def send_ue_recv_attrs(
    x: Any, y: Any, src: Any, dst: Any, message_op: str, reduce_op: str, out_size: Any
) -> Any:
    _check_message(message_op)
    _check_reduction("reduce_op", reduce_op)
    return message_op, reduce_op, out_size


@rules.indices("send_ue_recv")
def send_ue_recv_indices(
    x: MetaTensor, y: MetaTensor, src: MetaTensor, dst: MetaTensor, message_op: str,
    reduce_op: str, out_size: Any,
) -> list[IndexRange]:  # fmt: skip
    return [*_row_range("src_index", x, "x"), *_out_range(x, out_size)] if x.ndim else []


@rules.decompose("send_ue_recv")
def send_ue_recv(
    x: Any, y: Any, src_index: Any, dst_index: Any, message_op: str, reduce_op: str, out_size: Any
) -> Any:
    _check_edges(src_index, dst_index)
    rows = _out_rows(out_size, x)
    if not dm.may_equal(_rows(y, "y"), src_index.meta.dims[0]):
        raise ShapeError(f"y has a row for each edge, found {y.meta} and {src_index.meta}")
    messages = _message(ops.gather(x, src_index, 0), y, message_op)
    counts = ops.cast(counted(dst_index, rows), dt.int32)
    return gathered(messages, dst_index, rows, reduce_op), counts


@rules.normalize("send_uv")
def send_uv_attrs(x: Any, y: Any, src: Any, dst: Any, message_op: str) -> Any:
    _check_message(message_op)
    return (message_op,)


@rules.indices("send_uv")
def send_uv_indices(
    x: MetaTensor, y: MetaTensor, src: MetaTensor, dst: MetaTensor, message_op: str
) -> list[IndexRange]:
    if not (x.ndim and y.ndim):
        return []
    return [*_row_range("src_index", x, "x"), *_row_range("dst_index", y, "y")]


@rules.decompose("send_uv")
def send_uv(x: Any, y: Any, src_index: Any, dst_index: Any, message_op: str) -> Any:
    _check_edges(src_index, dst_index)
    for name, t in (("x", x), ("y", y)):
        _rows(t, name)
    return _message(ops.gather(x, src_index, 0), ops.gather(y, dst_index, 0), message_op)


# -- segments --------------------------------------------------------------------------------------
@rules.normalize("segment_pool")
def segment_pool_attrs(x: Any, segment_ids: Any, pooltype: str) -> Any:
    _check_reduction("pooltype", pooltype)
    return (pooltype,)


@rules.decompose("segment_pool")
def segment_pool(x: Any, segment_ids: Any, pooltype: str) -> Any:
    """There are as many segments as the largest number says, so the size depends on the data."""
    check_index("segment_ids", segment_ids.meta)
    refusal = f"each row of x has a segment, found {x.meta} and {segment_ids.meta}"
    ids = as_int64(expect_dims(segment_ids, refusal, (_rows(x, "x"),)))
    none = ops.full((1,), -1, dt.int64)
    size = as_dim(ops.max(ops.concat([ids, none], 0)) + 1, largest=True)
    # what is in no segment is put into one more, behind all others
    index = ops.where(ids >= 0, ids, ops.full((), size, dt.int64))

    def within(rows: Any) -> Any:
        return ops.slice(rows, [0], [0], [size])

    counts = within(counted(index, size + 1))
    out = within(gathered(x, index, size + 1, pooltype))
    return out, as_dtype(ops.reshape(counts, (size, 1)), x.dtype)


# -- reindex_graph ---------------------------------------------------------------------------------
def _first_of_equal(nodes: Any, given: Any) -> tuple[Any, Any]:
    """For each node which of its equals has its number, and which nodes have numbers.

    Those before ``given`` all have one, and the last of equal ones is it; of others the first is.
    """
    total = nodes.meta.dims[0]
    values, order = ops.argsort(nodes, 0, False, True)
    place = numbers(total)
    begins = ops.logical_or(values != ops.roll(values, (1,), (0,)), place == 0)
    group = ops.cumsum(ops.cast(begins, dt.int64), 0, False, False, False) - 1
    is_given = order < given
    none = ops.full((total,), -1, dt.int64)
    last = ops.where(is_given, order, none)
    last = ops.put_along_axis(none, group, last, 0, "amax", True)
    first = ops.put_along_axis(none, group, ops.where(begins, order, none), 0, "amax", True)
    chief = ops.gather(ops.where(last >= 0, last, first), group, 0)
    has_one = ops.logical_or(is_given, chief == order)
    chief = ops.index_put(none, [order], chief)
    return chief, ops.index_put(ops.full((total,), False, dt.bool_), [order], has_one)


def numbered(nodes: Any, given: Any) -> tuple[Any, Any]:
    """The numbers of nodes, of which the first ``given`` have their own, and nodes by number."""
    chief, has_one = _first_of_equal(nodes, ops.full((), given, dt.int64))
    rank = ops.cumsum(ops.cast(has_one, dt.int64), 0, False, False, False) - 1
    number = as_dtype(ops.gather(rank, chief, 0), nodes.dtype)
    return number, ops.gather(nodes, chosen(has_one), 0)


@rules.decompose("reindex_graph")
def reindex_graph(x: Any, neighbors: Any, count: Any, value: Any, index: Any) -> Any:
    for name, t in (("x", x), ("neighbors", neighbors), ("count", count)):
        check_index(name, t.meta)
    given, edges, counts = (t.meta.dims[0] for t in (x, neighbors, count))
    if dm.is_known(given) and dm.is_known(counts) and (counts % given if given else counts):
        raise ShapeError(
            f"count has a number for each of x, or for each and each kind of edges, found "
            f"{count.meta} and {x.meta}"
        )
    number, known = numbered(ops.concat([x, neighbors], 0), given)
    kinds = as_dim(ops.floor_divide(as_int(counts), ops.maximum(as_int(given), as_int(1))))
    count = fitted(count, (given * kinds,))
    owner = ops.repeat_interleave_with_tensor_index(numbers(given * kinds), count, 0)
    if not dm.may_equal(owner.meta.dims[0], edges):
        raise ShapeError(
            f"count counts {owner.meta.dims[0]} edges, found neighbors {neighbors.meta}"
        )
    owner = ops.remainder(fitted(owner, (edges,)), ops.maximum(as_int(given), as_int(1)))
    src = ops.slice(number, [0], [given], [given + edges])
    return src, ops.gather(number, owner, 0), known
