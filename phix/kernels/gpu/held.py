"""Rows that the threads of a block keep in registers: read once, however often they are used.

Where an item goes along rows of one known length several times, as a softmax does, its loops give
each thread the same elements each time. So a thread keeps what it has read or written in arrays,
whose loops are unrolled; a row that nothing else touches needs no memory at all:

    take(r0, x + row)              for u, k: m = max(m, r0[u][k])
    m = max of the block           for u, k: r1[u][k] = exp(r0[u][k] - m); s = s + r1[u][k]
    s = sum of the block           for u, k: r2[u][k] = r1[u][k] / s
    put(r2, out + row)

A thread has packs of neighbouring elements: thread t those number t, t + threads, ...
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from phix.core.records import dataclass
from phix.kernels.gpu import mapping
from phix.kernels.gpu.mapping import Nest, Spread
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Store
from phix.kernels.scalar.language import Expr

# A buffer, and what is added to the index of a row to find an element; None for nothing.
Row = tuple[Buffer, Expr | None]

# Packs of a row that a thread has at most, where threads are as many as _USUAL and as _MOST.
_PACKS, _USUAL, _MOST, _WARP = 8, 256, 512, 32
_FEW_PACKS = 4
# Bytes of the rows of one kernel in the registers of a thread, and expressions written out.
_MOST_BYTES, _MOST_TEXT = 256, 2048

TEXT = r"""
// A row, a thread's packs of it: those number threadIdx.x, threadIdx.x + threads, ...
template <typename T, int W, int N>
PHIX_DEVICE void phix_take(phix_pack<T, W> (&row)[N], const T* at, int packs, int threads) {
  const bool aligned = (unsigned long long)at % sizeof(phix_pack<T, W>) == 0;
  #pragma unroll
  for (int u = 0; u < N; ++u) {
    const int g = u * threads + threadIdx.x;
    if (g >= packs) break;
    if (aligned) {
      row[u] = ((const phix_pack<T, W>*)at)[g];
    } else {
      #pragma unroll
      for (int k = 0; k < W; ++k) row[u].at[k] = at[g * W + k];
    }
  }
}
template <typename T, int W, int N>
PHIX_DEVICE void phix_put(const phix_pack<T, W> (&row)[N], T* at, int packs, int threads) {
  const bool aligned = (unsigned long long)at % sizeof(phix_pack<T, W>) == 0;
  #pragma unroll
  for (int u = 0; u < N; ++u) {
    const int g = u * threads + threadIdx.x;
    if (g >= packs) break;
    if (aligned) {
      ((phix_pack<T, W>*)at)[g] = row[u];
    } else {
      #pragma unroll
      for (int k = 0; k < W; ++k) at[g * W + k] = row[u].at[k];
    }
  }
}
"""


@dataclass(eq=False)
class Rows:
    """The loops of an item along rows of one length, ``spreads``, and the rows that are kept."""

    length: int
    width: int  # elements of a pack
    spreads: dict[For, Spread]
    kept: set[Row]

    @cached_property
    def packs(self) -> int:
        return self.length // self.width

    @cached_property
    def threads(self) -> int:
        """Those of a block: a power of two, of which each has few packs."""
        most = _USUAL if self.packs <= _USUAL * _FEW_PACKS else _MOST
        threads = _WARP
        while threads < min(self.packs, most):
            threads *= 2
        return threads

    @property
    def of_thread(self) -> int:
        """The packs of a thread, at most."""
        return -(-self.packs // self.threads)

    @property
    def buffers(self) -> set[Buffer]:
        """Those with kept rows: a kernel's own of them have no memory."""
        return {buffer for buffer, _ in self.kept}


def rows_of(items: Nest) -> Rows | None:
    """The rows of an item, if some are used more than once and all find room."""
    spreads = {loop: s for loop in items.body if isinstance(loop, For) and (s := _along(loop))}
    lengths = {s.loops[0].extent.data for s in spreads.values()}
    if len(lengths) != 1:
        return None
    (length,) = lengths
    width = min(map(mapping.pack_width, spreads.values()))
    while length % width:
        width //= 2
    found = Rows(length, width, spreads, set())
    used = Counter(row for spread in spreads.values() for row in rows_in(spread))
    found.kept = {row for row, times in used.items() if times > 1 and _is_kept(row, items, found)}
    size = found.of_thread * width * sum(buffer.dtype.itemsize for buffer, _ in used)
    text = found.of_thread * width * max(len(ir.expressions(s.body)) for s in spreads.values())
    fits = found.of_thread <= _PACKS and size <= _MOST_BYTES and text <= _MOST_TEXT
    return found if found.kept and fits else None


def _along(loop: For) -> Spread | None:
    """The loop as a spread along rows of known length, if all it does is plain."""
    spread = mapping.spread_of(loop)
    if spread is None or len(spread.loops) != 1 or loop.extent.fn != "const":
        return None
    is_plain = all(isinstance(s, (Store, Declare, Assign)) for s in spread.body)
    return spread if is_plain and loop.extent.data and mapping.pack_width(spread) > 1 else None


def accesses(spread: Spread) -> list[tuple[Buffer, Expr]]:
    """What a spread reads and writes along its rows: the buffer, and where."""
    index = spread.loops[0].index
    return [(b, at) for b, at in _all_accesses(spread) if index in set(mapping.variables(at))]


def row_at(buffer: Buffer, at: Expr, spread: Spread) -> Row:
    """The row that an access goes along."""
    return buffer, mapping.without(at, spread.loops[0].index)


def rows_in(spread: Spread) -> set[Row]:
    """The rows of a spread's accesses."""
    return {row_at(buffer, at, spread) for buffer, at in accesses(spread)}


def _all_accesses(spread: Spread) -> list[tuple[Buffer, Expr]]:
    loads = [e for e in ir.expressions(spread.body) if e.fn == "load" and e.args]
    stores = [s for s in spread.body if isinstance(s, Store)]
    return [*((e.data, e.args[0]) for e in loads), *((s.buffer, s.indices[0]) for s in stores)]


def _is_kept(row: Row, items: Nest, rows: Rows) -> bool:
    """Whether a row is the same row in all loops, and its elements change by their thread alone."""
    (buffer, rest), body = row, items.body
    if rest is not None and not _is_fixed(rest, body):
        return False
    owner = ir.owner(buffer)
    if any(b is not buffer and ir.owner(b) is owner for b in ir.reads(body) | ir.writes(body)):
        return False
    if buffer not in ir.writes(body):
        return True
    others = [s for s in body if s not in rows.spreads]
    if buffer in ir.reads(others) | ir.writes(others):
        return False
    spreads = rows.spreads.values()
    every = sum(b is buffer for s in spreads for b, _ in _all_accesses(s))
    return every == sum(
        b is buffer and row_at(b, at, s) == row for s in spreads for b, at in accesses(s)
    )


def _is_fixed(rest: Expr, body: list[ir.Statement]) -> bool:
    """Whether an expression has one value in all of an item."""
    inside = ir.expressions([Declare(rest, rest)])
    changed = {t for s in ir.walk(body) if isinstance(s, Assign) for t in s.targets}
    declared = {s.target for s in ir.walk(body) if isinstance(s, Declare)}
    return not any(e.fn == "load" or e in changed | declared for e in inside)
