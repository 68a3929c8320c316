"""How a kernel is launched for given sizes: by which team, in how many blocks of what size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod

from phix.kernels.gpu import mapping, tiles
from phix.kernels.gpu.cuda import BLOCK, MOST_THREADS, THREAD, TILE, KernelText
from phix.kernels.gpu.mapping import Nest
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Kernel
from phix.kernels.loops.sizes import integer

# The grid strides over what is left above this.
MOST_BLOCKS = 1 << 22
# A row shorter than this is faster done by one thread.
_SHORT_ROW = 16
# So few items do not fill a GPU with a thread each.
_FEW_ITEMS = 1 << 12
_WARP = 32
# Threads of a block that scans: they wait for each other once every so many elements.
_SCANNING = 256


class Launch:
    """One kernel, its texts by team."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.items = mapping.items_of(kernel)
        self.spreads = mapping.spreads(self.items.body)
        self.prefers_threads = mapping.prefers_threads(self.items, self.spreads)
        self.tile = None if self.spreads else tiles.tile_of(self.items)
        self._texts: dict[str, KernelText] = {}

    def text(self, team: str) -> KernelText:
        if team not in self._texts:
            self._texts[team] = KernelText(self.kernel, team)
        return self._texts[team]

    @cached_property
    def names(self) -> set[str]:
        """The dims and indices that the launch depends on."""
        sizes = [*self.items.extents, *(e for s in self.spreads for e in s.extents)]
        inner = {loop.index for loop in ir.walk(self.kernel.body) if isinstance(loop, ir.For)}
        return {v.data for e in sizes for v in mapping.variables(e) if v not in inner}

    @cached_property
    def is_for_blocks(self) -> bool:
        """Whether it is done by blocks whatever the sizes that are not known."""
        if not self.spreads or (self.prefers_threads and self.items.loops):
            return False
        known = [e for s in self.spreads for e in s.extents]
        if any(e.fn != "const" for e in known):
            return False
        return self._longest({}) >= _SHORT_ROW

    def default_team(self) -> str:
        """The team for sizes that are not known."""
        if self.tile is not None:
            return TILE
        return THREAD if self.prefers_threads else BLOCK

    def team(self, numbers: Mapping[str, int]) -> str:
        """The team for these values of dims and indices."""
        if self.tile is not None:
            sides = (self.tile.across.extent, self.tile.along.extent)
            return TILE if min(integer(e, numbers) for e in sides) >= _SHORT_ROW else THREAD
        if not self.spreads:
            return THREAD
        items, longest = self._count(self.items, numbers), self._longest(numbers)
        if self.prefers_threads and self.items.loops:
            return BLOCK if items * _WARP < _FEW_ITEMS and longest >= 8 * _WARP else THREAD
        return THREAD if longest < _SHORT_ROW and items > 1 else BLOCK

    def size(self, team: str, numbers: Mapping[str, int]) -> tuple[int, int]:
        """Blocks, and threads of a block; no blocks for no work."""
        if team == TILE:
            assert self.tile is not None
            extents = [integer(e, numbers) for e in self.items.extents]
            return min(tiles.count(self.items, self.tile, extents), MOST_BLOCKS), MOST_THREADS[TILE]
        items = self._count(self.items, numbers)
        if team == THREAD:
            threads = -(-items // self._width(self.items))
            block = MOST_THREADS[THREAD] if threads > _FEW_ITEMS else 2 * _WARP
            return min(-(-threads // block), MOST_BLOCKS), block
        fixed = self.text(BLOCK).threads
        if fixed is not None:
            return min(items, MOST_BLOCKS), fixed
        widest = max((self._width(s) for s in self.spreads), default=1)
        has_scan = any(isinstance(s, mapping.Scan) for s in self.spreads)
        block, most = _WARP, _SCANNING if has_scan else MOST_THREADS[BLOCK]
        while block < most and block * widest < self._longest(numbers):
            block *= 2
        return min(items, MOST_BLOCKS), block

    def _width(self, nest: Nest) -> int:
        return mapping.pack_width(nest)

    def _count(self, nest: Nest, numbers: Mapping[str, int]) -> int:
        return prod(max(integer(e, numbers), 0) for e in nest.extents)

    def _longest(self, numbers: Mapping[str, int]) -> int:
        """The iterations of the longest spread; those of tiles at the first one."""
        known = {str(v.data): 0 for s in self.spreads for e in s.extents
                 for v in mapping.variables(e)} | dict(numbers)  # fmt: skip
        return max((self._count(s, known) for s in self.spreads), default=1)
