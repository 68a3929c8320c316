"""Tiles: what one loop reads along memory and another writes along memory, as in a transpose.

Neighbouring threads write neighbouring elements, and what they read lies far apart: each read
takes a line of memory for one element of it. A block that does a square of such iterations first
brings what they read into shared memory, its threads in the order in which that lies.
"""

from __future__ import annotations

from math import prod

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.gpu.mapping import Nest
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import linear_form
from phix.kernels.loops.nodes import Buffer, Declare, For, Store
from phix.kernels.scalar.language import Expr

# Iterations of a tile along either loop; its rows are an element longer, for the banks of memory.
SIDE = 32
# What the tiles of a block may take of its shared memory.
_MOST_BYTES = 24 << 10
_UNIT = ((), 1)


@dataclass(frozen=True, eq=False)
class Tile:
    """``across``: the loop along which ``loads`` lie in memory; ``along``: that of the stores."""

    across: For
    along: For
    loads: tuple[tuple[Buffer, Expr], ...]


def tile_of(items: Nest) -> Tile | None:
    """The tile of a nest of loops; None where its reads are as its writes."""
    if len(items.loops) < 2 or not all(isinstance(s, (Store, Declare)) for s in items.body):
        return None
    *others, along = items.loops
    stores = [s for s in ir.walk(items.body) if isinstance(s, Store)]
    if any(len(s.indices) != 1 or _stride(s.indices[0], along) != _UNIT for s in stores):
        return None
    indices, written = set(items.indices), ir.writes(items.body)
    found: dict[tuple[Buffer, Expr], For] = {}
    for e in ir.expressions(items.body):
        if e.fn != "load" or not _is_plain(e, written):
            continue
        (linear,) = e.args
        form = linear_form(linear)
        if form is None or not set(form[0]) <= indices:
            continue  # it depends on data
        across = [loop for loop in others if _stride(linear, loop) == _UNIT]
        if len(across) == 1 and _stride(linear, along) not in (None, _UNIT):
            found[e.data, linear] = across[0]
    if len(set(found.values())) != 1:
        return None
    loads = sorted(found, key=lambda key: key[0].name)
    taken = sum(SIDE * (SIDE + 1) * buffer.dtype.itemsize for buffer, _ in loads)
    return Tile(next(iter(found.values())), along, tuple(loads)) if taken <= _MOST_BYTES else None


def count(items: Nest, tile: Tile, extents: list[int]) -> int:
    """How many tiles the items are, of loops that go so far."""
    sides = (tile.across, tile.along)
    parts = (-(-e // SIDE) if loop in sides else e for loop, e in zip(items.loops, extents))
    return prod(max(p, 0) for p in parts)


def _is_plain(load: Expr, written: set[Buffer]) -> bool:
    buffer = load.data
    is_plain = not (buffer.strided or dt.is_complex(buffer.dtype) or buffer.kind == "local")
    apart = all(ir.owner(buffer) is not ir.owner(b) for b in written)
    return is_plain and apart and len(load.args) == 1


def _stride(linear: Expr, loop: For) -> object:
    form = linear_form(linear)
    return None if form is None else form[0].get(loop.index)
