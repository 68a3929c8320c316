"""The positions of true elements: block by block, each from where those before end."""

from __future__ import annotations

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.loops.nodes import Buffer
from phix.kernels.lowering.registry import Task, lowering
from phix.kernels.lowering.scan import cumsum
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Elements of a block: their number is summed before, and threads take some of them each.
_BLOCK = 8192


@lowering("true_positions", "whole")
def true_positions(
    b: Builder, mask: Value, size: dm.DimLike, fill: dm.DimLike, lead: int, *, task: Task
) -> Value:
    rows = b.view(mask, (dm.product(mask.dims[:lead]), dm.product(mask.dims[lead:])))
    find = _by_blocks if b.target.sorts_in_loops else _by_turns

    def write(out: Buffer) -> None:
        if rows.buffer is None:  # what is computed twice might be rounded in two ways
            b.materialize(rows)
        find(b, rows, size, fill, out)

    (found,) = b.written((MetaTensor((rows.dims[0], size), dt.int64),), write)
    return b.view(found, task.out.dims)


def _is_true(b: Builder, rows: Value, row: Expr, i: Expr) -> Expr:
    element = b.element(rows, (row, i))
    assert isinstance(element, Expr)
    return element


def _least(x: Expr, y: Expr) -> Expr:
    return sc.binary("minimum", x, y)


def _by_blocks(b: Builder, rows: Value, size: dm.DimLike, fill: dm.DimLike, out: Buffer) -> None:
    """Without a branch for each element: all put themselves where the next true one will stand."""
    count, length = rows.dims
    blocks = dm.floordiv(length + (_BLOCK - 1), _BLOCK)
    starts = b.temp((count, blocks + 1), dt.int64)

    def start(row: Expr, block: Expr) -> Expr:
        found = ir.load(starts, (b.linear((row, block), starts.dims),))
        assert isinstance(found, Expr)
        return found

    def length_of(block: Expr) -> Expr:
        return _least(b.dim(length) - block * _BLOCK, sc.const(_BLOCK, dt.int64))

    with b.kernel(), b.loops((count, blocks)) as (row, block):
        (total,) = b.mutable(ZERO)
        with b.loop(length_of(block), "reduction") as i:
            more = sc.cast(_is_true(b, rows, row, block * _BLOCK + i), dt.int64)
            b.emit(ir.Assign((total,), (total + more,), True))
        b.store(starts, (row, block), total)
    with b.kernel(), b.loops((count,)) as (row,):
        (before,) = b.mutable(ZERO)
        with b.loop(b.dim(blocks), "reduction") as block:
            (own,) = b.mutable(start(row, block))
            b.store(starts, (row, block), before)
            b.emit(ir.Assign((before,), (before + own,)))
        b.store(starts, (row, b.dim(blocks)), before)
        with b.loop(b.dim(size) - _least(before, b.dim(size))) as i:
            b.store(out, (row, _least(before, b.dim(size)) + i), b.dim(fill))
    with b.kernel(), b.loops((count, blocks), "independent") as (row, block):
        (at,) = b.mutable(start(row, block))
        (end,) = b.mutable(_least(start(row, block + 1), b.dim(size)))
        # behind its last true element a block would write where the next one does
        with (
            b.loop(length_of(block), "reduction") as i,
            b.block(lambda body: ir.If(at < end, body)),
        ):
            (place,) = b.mutable(block * _BLOCK + i)
            b.store(out, (row, at), place)
            more = sc.cast(_is_true(b, rows, row, place), dt.int64)
            b.emit(ir.Assign((at,), (at + more,)))


def _by_turns(b: Builder, rows: Value, size: dm.DimLike, fill: dm.DimLike, out: Buffer) -> None:
    """Each element knows its turn, and those that have none go behind all."""
    ints = Value(rows.dims, dt.int64, lambda at: sc.cast(_is_true(b, rows, *at), dt.int64))
    meta = MetaTensor(rows.dims, dt.int64)
    turns = cumsum(b, ints, 1, False, True, False, task=Task((meta,), (True,)))
    b.materialize(turns)
    wide = b.temp((rows.dims[0], size + 1), dt.int64)
    b.fill(wide, b.constant(fill, wide.dims, wide.dtype))
    with b.kernel(), b.loops(rows.dims, "reduction") as (row, i):
        turn = b.element(turns, (row, i))
        assert isinstance(turn, Expr)
        turn = sc.select(_is_true(b, rows, row, i), _least(turn, b.dim(size)), b.dim(size))
        b.store(wide, (row, turn), i)
    with b.kernel(), b.loops(out.dims) as (row, i):
        b.store(out, (row, i), ir.load(wide, (b.linear((row, i), wide.dims),)))
