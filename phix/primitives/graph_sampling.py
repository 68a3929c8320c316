"""Neighbours of nodes drawn at random, of graphs as columns of sparse matrices.

The neighbours of node n are ``row[colptr[n]], ..., row[colptr[n + 1] - 1]``. Of those of a node the
ones with the largest priorities are taken, and given in their order.
"""

from __future__ import annotations

import math
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.core.index_ranges import IndexRange, as_int64
from phix.core.meta import MetaTensor
from phix.core.value_ranges import Offsets, ValueRange
from phix.primitives import random as rand
from phix.primitives.distributions import check_one_key
from phix.primitives.graph_ops import check_index, numbered
from phix.primitives.lengths import as_int, check_dims
from phix.primitives.positions import numbers
from phix.primitives.run_time_sizes import chosen
from phix.primitives.slicing import fitted
from phix.primitives.widening import as_dtype, widened


# -- what is drawn ---------------------------------------------------------------------------------
def _all_edges(colptr: Any, nodes: Any) -> tuple[Any, Any, Any]:
    """How many neighbours each node has; of each edge the number of its node, and its place."""
    begin = ops.gather(colptr, nodes, 0)
    degree = ops.maximum(ops.gather(colptr, nodes + 1, 0) - begin, as_int(0))
    owner = ops.repeat_interleave_with_tensor_index(numbers(nodes.meta.dims[0]), degree, 0)
    before = ops.cumsum(degree, 0, False, True, False)
    return degree, owner, numbers(owner.meta.dims[0]) + ops.gather(begin - before, owner, 0)


def _best_of_each(degree: Any, owner: Any, priority: Any, size: int) -> Any:
    """Which edges are among the ``size`` of their node with the largest priorities."""
    order = ops.argsort(priority, 0, True, True)[1]
    owner, turn = ops.argsort(ops.gather(owner, order, 0), 0, False, True)
    order = ops.gather(order, turn, 0)
    count = order.meta.dims[0]
    before = ops.cumsum(degree, 0, False, True, False)
    rank = numbers(count) - ops.gather(before, owner, 0)
    return ops.index_put(ops.full((count,), False, dt.bool_), [order], rank < size)


def _ends(row: Any, colptr: Any) -> Any:
    """Where the edges of each node begin, within those that there are."""
    if dm.is_zero(colptr.meta.dims[0]):
        raise ShapeError(f"colptr must be [nodes + 1], found {colptr.meta}")
    ends = as_int64(colptr)
    first = ops.reshape(ops.slice(ends, [0], [0], [1]), (1,))  # fits no colptr that is empty
    return ops.minimum(ops.maximum(ends, ops.maximum(first, 0)), as_int(row.meta.dims[0]))


def _drawn(key: Any, ends: Any, nodes: Any, size: int, weight: Any = None) -> tuple[Any, Any]:
    """Places of edges, and how many each node has; a ``size`` of -1 takes all."""
    degree, owner, edges = _all_edges(ends, nodes)
    if size < 0:
        return edges, degree
    dims = edges.meta.dims
    if weight is None:
        priority = ops.cast(ops.random_bits(key, dims, 32), dt.int64)
    else:  # a weight of 0 is as good as none at all
        weight = ops.gather(weight, edges, 0)
        some = weight > 0
        drawn = ops.log1p(-rand.unit_uniform(key, dims, weight.dtype))
        priority = ops.where(some, drawn / ops.where(some, weight, 1.0), -math.inf)
    kept = chosen(_best_of_each(degree, owner, priority, size))
    return ops.gather(edges, kept, 0), ops.minimum(degree, as_int(size))


def _checked(key: Any, nodes: Any, sizes: Any, **graph: Any) -> None:
    check_one_key(key)
    for name, t in {**graph, "nodes": nodes}.items():
        if t is not None:
            check_index(name, t.meta)
    for size in sizes:
        if size < -1:
            raise AttributeValueError(f"a node has 0 or more samples, or -1 for all, found {size}")


def _numbers_of_edges(row: Any, eids: Any, return_eids: bool) -> Any:
    """The eids, which must be there where they are asked for."""
    if not return_eids:
        return None
    if eids is None:
        raise ArgumentError("return_eids asks for the eids of edges: pass them")
    check_dims("eids", eids, row.meta.dims, "[edges], one for each of row")
    return fitted(eids, row.meta.dims)


def _ranges(row: Any, colptr: Any, name: str) -> list[ValueRange]:
    if colptr.ndim != 1 or row.ndim != 1 or dm.is_zero(colptr.dims[0]):
        return []
    return [
        Offsets("colptr", row.dims, "edges"),
        IndexRange(name, (colptr.dims[0] - 1,), "nodes", counts_back=False),
    ]


@rules.indices("graph_sample_neighbors")
def neighbors_ranges(key: Any, row: MetaTensor, colptr: MetaTensor, *rest: Any) -> list[ValueRange]:
    return _ranges(row, colptr, "x")


@rules.decompose("graph_sample_neighbors")
def graph_sample_neighbors(
    key: Any, row: Any, colptr: Any, x: Any, eids: Any, perm_buffer: Any, sample_size: int,
    return_eids: bool, flag_perm_buffer: bool,
) -> Any:  # fmt: skip
    _checked(key, x, [sample_size], row=row, colptr=colptr, eids=eids)
    eids = _numbers_of_edges(row, eids, return_eids)
    edges, count = _drawn(key, _ends(row, colptr), as_int64(x), sample_size)
    found = None if eids is None else ops.gather(eids, edges, 0)
    return ops.gather(row, edges, 0), as_dtype(count, dt.int32), found


@rules.indices("weighted_sample_neighbors")
def weighted_ranges(key: Any, row: MetaTensor, colptr: MetaTensor, *rest: Any) -> list[ValueRange]:
    return _ranges(row, colptr, "input_nodes")


@rules.decompose("weighted_sample_neighbors")
def weighted_sample_neighbors(
    key: Any, row: Any, colptr: Any, edge_weight: Any, input_nodes: Any, eids: Any,
    sample_size: int, return_eids: bool,
) -> Any:  # fmt: skip
    """By P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir", 2006."""
    _checked(key, input_nodes, [sample_size], row=row, colptr=colptr, eids=eids)
    if not dt.is_float(edge_weight.dtype):
        raise DTypeError(f"edge_weight must have a float dtype, found {edge_weight.meta}; cast it")
    check_dims("edge_weight", edge_weight, row.meta.dims, "[edges], one for each of row")
    weight = fitted(widened(edge_weight), row.meta.dims)
    eids = _numbers_of_edges(row, eids, return_eids)
    nodes = as_int64(input_nodes)
    edges, count = _drawn(key, _ends(row, colptr), nodes, sample_size, weight)
    found = None if eids is None else ops.gather(eids, edges, 0)
    return ops.gather(row, edges, 0), as_dtype(count, dt.int32), found


# -- graph_khop_sampler ----------------------------------------------------------------------------
def _without(nodes: Any, others: Any) -> Any:
    """The different ones of ``nodes``, sorted, that are none of ``others``."""
    nodes = ops.unique(nodes, False, False, False, ())[0]
    sorted_others = ops.sort(others, 0, False)
    first, last = (ops.searchsorted(sorted_others, nodes, False, right) for right in (False, True))
    return ops.gather(nodes, chosen(first == last), 0)


@rules.indices("graph_khop_sampler")
def khop_ranges(key: Any, row: MetaTensor, colptr: MetaTensor, *rest: Any) -> list[ValueRange]:
    return _ranges(row, colptr, "x")


@rules.decompose("graph_khop_sampler")
def graph_khop_sampler(
    key: Any, row: Any, colptr: Any, x: Any, eids: Any, sample_sizes: Any, return_eids: bool
) -> Any:
    """From the nodes that a step finds for the first time the next one goes on."""
    _checked(key, x, sample_sizes, row=row, colptr=colptr, eids=eids)
    if not sample_sizes:
        raise AttributeValueError("sample_sizes is empty; write a number of samples for each step")
    eids = _numbers_of_edges(row, eids, return_eids)
    dtype, nodes = row.dtype, as_dtype(x, row.dtype)
    at: Any = ops.unique_consecutive(nodes)[0]
    ends: list[list[Any]] = [[], [], [], []]  # nodes that edges go to and come from, counts, places
    for own, size in zip(rand.split_in(key, len(sample_sizes)), sample_sizes):
        edges, count = _drawn(own, _ends(row, colptr), as_int64(at), size)
        for listed, t in zip(ends, (at, ops.gather(row, edges, 0), count, edges)):
            listed.append(t)
        at = _without(ends[1][-1], ops.concat(ends[0], 0))
    to, source, counts, places = (ops.concat(listed, 0) for listed in ends)
    given, total, asked = to.meta.dims[0], source.meta.dims[0], nodes.meta.dims[0]
    number, known = numbered(ops.concat([to, source, nodes], 0), given)
    owner = ops.repeat_interleave_with_tensor_index(numbers(given), counts, 0)
    out = [
        ops.slice(number, [0], [given], [given + total]),
        ops.gather(number, fitted(owner, (total,)), 0),
    ]
    out = [ops.unsqueeze(as_dtype(t, dtype), (1,)) for t in out]
    index = ops.slice(number, [0], [given + total], [given + total + asked])
    found = None if eids is None else ops.gather(eids, places, 0)
    return *out, known, as_dtype(index, dtype), found
