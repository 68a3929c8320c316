"""Work on a batch block by block, so that what is computed on the way stays in a cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.core import dims as dm
from phix.core.dims import DimLike
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import ZERO, Builder, Value
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# How many items a block has if their size is unknown.
_ITEMS = 4


def items_at_once(b: Builder, items: DimLike, bytes_each: DimLike) -> DimLike:
    """How many items make a block; a known number of items is parted evenly."""
    most = _ITEMS
    if isinstance(bytes_each, int):
        most = max(1, b.target.block_bytes // max(1, bytes_each))
    if isinstance(items, int):
        count = -(-items // most)
        return -(-items // max(1, count))
    return most


@contextmanager
def blocks(b: Builder, items: DimLike, per_block: DimLike) -> Iterator[tuple[Expr, Expr]]:
    """Steps for each block: its first item, and how many there are. One block makes no loop."""
    per, every = b.dim(per_block), b.dim(items)
    if dm.same(per_block, items):
        yield ZERO, every
        return
    index = b.step_index()
    with b.nested() as steps:
        first = index * per
        yield first, sc.binary("minimum", every - first, per)
    extent = b.dim(dm.floordiv(items + (per_block - 1), per_block))
    b.steps.append(ir.ForStep(index, extent, steps))


def compute_now(b: Builder, *values: Value) -> None:
    """Compute what the values read now, not in the loop over blocks that comes next."""
    for x in values:
        if b.is_open(x):
            b.materialize(x)
        with b.kernel():
            b.element(x, (ZERO,) * len(x.dims))
