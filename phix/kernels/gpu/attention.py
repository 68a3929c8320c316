"""Attention as one kernel: a softmax that goes on from tile to tile of the keys.

A block has a tile of queries. For each tile of keys it computes the scores, brings the largest of
each row and the sum of the exponentials up to date, and adds the weighted values to what it has, in
registers; scores never leave the block. Sums are of float32 (float64 for that), always in the same
order, which does not depend on how many queries a tile has. With ``causal``, tiles of keys that no
query of the block sees are not touched. How threads share a tile: :mod:`register_tiles
<phix.kernels.gpu.register_tiles>`.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import ClassVar

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.register_tiles import (
    ADD_PRODUCT,
    ALONG,
    CLEARED,
    MicroTile,
    Phase,
    add_weighted,
    chain,
    chunk_rows,
)
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.scalar.language import Expr

# Tiles by the bytes of a sum and by the columns of the widest operand at most, the larger ones
# first. Tiles in one line differ in their rows alone: sums are the same with each.
Tiles = dict[int, dict[int, tuple[MicroTile, ...]]]


class Attention(Routine):
    """``attention(queries, keys, size, width, row step and column step of the mask, scale, causal,
    &query, &key, &value, &out[, &mask])``."""

    mask_operand = 4

    PLAIN_TILES: ClassVar[Tiles] = {
        4: {
            64: (MicroTile(4, 4, 64, 16, 4), MicroTile(4, 2, 64, 16), MicroTile(4, 1, 64, 32)),
            128: (MicroTile(4, 4, 64, 16, 3), MicroTile(4, 2, 64, 16), MicroTile(4, 1, 64, 32)),
            256: (MicroTile(4, 4, 32, 16, 2), MicroTile(4, 2, 32, 16), MicroTile(4, 1, 32, 32)),
        },
        8: {
            128: (MicroTile(4, 2, 32, 8), MicroTile(4, 1, 32, 8)),
            256: (MicroTile(4, 1, 32, 8),),
        },
    }
    # Fewer blocks leave multiprocessors idle: tiles are smaller then.
    FEW_BLOCKS: ClassVar[int] = 2 * 132

    @cached_property
    def micro_tile(self) -> MicroTile:
        """The largest tile of which there are enough, if sizes are known, else the largest."""
        widest = max(int(n.data) for n in self.numbers[2:4])
        by_width = self.PLAIN_TILES[8 if self._wide == "double" else 4]
        tiles = by_width[min(most for most in by_width if widest <= most)]
        sizes = [self.row_count, *(loop.extent for loop in self.loops)]
        if any(size.fn != "const" for size in sizes):
            return tiles[0]
        rows, *lanes = (int(size.data) for size in sizes)
        enough = (t for t in tiles if prod(lanes) * -(-rows // t.rows) >= self.FEW_BLOCKS)
        return next(enough, tiles[-1])

    @property
    def row_count(self) -> Expr:
        """How many rows there are to part into tiles."""
        return self.numbers[0]

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.micro_tile.rows

    @property
    def threads(self) -> int:  # type: ignore[override]
        return self.micro_tile.threads

    @property
    def resident(self) -> int:  # type: ignore[override]
        return self.micro_tile.resident

    @property
    def is_causal(self) -> bool:
        return bool(self.numbers[7].data)

    @property
    def first_query(self) -> str:
        """Where a tile of queries begins: with ``causal`` the last, which sees most, is first."""
        if not self.is_causal:
            return "$TILE$ * $ROWS$"
        return "(($QUERIES$ + $ROWS$ - 1) / $ROWS$ - 1 - $TILE$) * $ROWS$"

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((self.row_count, self.rows),)

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        parts: list[Phase | str] = [
            CLEARED.replace("$NAME$", "scores"),
            self.product(text, "scores", (0, 1), 2),
            WEIGHTS + _SHRINK,
            self.weighted(text, 2, 3, ("total", "weights")),
        ]
        names = self.names_in_text(text, parts, "end") | {
            "SUMS": self.sums(3), "FIRST": self.first_query, "END": self.end_of_keys,
            "STORE": ins.stored(self.dtype, "total[i][j] / sum[i]"),
        }  # fmt: skip
        text.lines_of(self.printed(text, _TEXT, names))

    def printed(self, text: RoutineText, template: str, names: dict[str, object]) -> str:
        """The template, with names in the texts of names too."""
        filled = text.filled_in(template, names)
        while filled != template:
            template, filled = filled, text.filled_in(filled, names)
        return filled

    def names_in_text(
        self, text: RoutineText, parts: list[Phase | str], end: str
    ) -> dict[str, object]:
        """What kernels of attention on the plain units have in common, with ``parts`` for each
        tile that is gone along, up to ``end``."""
        queries, keys, size, width, row_step, column_step, *_ = text.values
        tile, wide, vector = self.micro_tile, self._wide, self.vector
        begin, body = chain(parts, end)
        return {
            "BEGIN_COPIES": begin, "STOP": end, "BEGIN": "0", "TILE_BY_TILE": body,
            "STAGE": max(p.size for p in parts if isinstance(p, Phase)),
            "WIDE": wide, "VECTOR": vector, "PACK": f"phix_pack<{wide}, {vector}>",
            "ROWS": tile.rows, "PER": tile.per, "ACROSS": tile.across, "EACH": tile.each,
            "DEPTH": tile.depth, "UNROLL": tile.unroll, "PITCH": tile.depth + vector,
            "WEIGHT_PITCH": tile.across + vector, "THREADS": tile.threads,
            "SIZE": size, "WIDTH": width, "QUERIES": queries, "KEYS": keys, "TILE": text.tile[0],
            "EXP": "exp" if wide == "double" else "expf",
            "LOG": "log" if wide == "double" else "logf",
            "MAX": "fmax" if wide == "double" else "fmaxf",
            "INFINITY": f"PHIX_INFINITY_{'D' if wide == 'double' else 'F'}",
            "SCALE": f"({wide}){ins.constant(self.numbers[6].data, dt.float64)}",
            "LIMIT": "phix_minimum((long long)$KEYS$, row + 1)" if self.is_causal else "$KEYS$",
            "MASK": self._mask(text, row_step, column_step),
            **{f"P{k}": operand for k, operand in enumerate(text.operands)},
        }  # fmt: skip

    @property
    def _wide(self) -> str:
        """The C++ type of the sums."""
        return "double" if self.dtype == dt.float64 else "float"

    @property
    def vector(self) -> int:
        """How many sums are sixteen bytes."""
        return 2 if self._wide == "double" else 4

    @property
    def end_of_keys(self) -> str:
        """Where keys end for a tile of queries."""
        if not self.is_causal:
            return "$KEYS$"
        return "phix_minimum((long long)$KEYS$, phix_minimum((long long)$QUERIES$, first + $ROWS$))"

    def sums(self, which: int) -> int:
        """How many columns of a size, of those numbers, a thread has sums for."""
        return -(-int(self.numbers[which].data) // (ALONG * self.vector)) * self.vector

    # Where the rows of the operands end.
    ENDS: ClassVar[tuple[str, ...]] = ("$QUERIES$", "end", "end")

    def product(self, text: RoutineText, name: str, which: tuple[int, int], number: int) -> Phase:
        """The phase of the products of the block's rows of an operand, along the inner size of
        that number, with those of another."""
        tile, inner = self.micro_tile, text.values[number]
        pitch = tile.depth + self.vector
        copies = [
            self._copy(text, which[0], number, tile.rows, ("first", "$AT$", "$TO$")),
            self._copy(
                text, which[1], number, tile.across, ("$START$", "$AT$", "$TO$ + $ROWS$ * $PITCH$")
            ),
        ]
        return Phase(
            inner, tile.depth, (tile.rows + tile.across) * pitch, "".join(copies),
            ADD_PRODUCT.replace("$NAME$", name),
        )  # fmt: skip

    def weighted(
        self, text: RoutineText, which: int, number: int, *pairs: tuple[str, str]
    ) -> Phase:
        """The phase in which sums go on by the rows of an operand, as often as weights say."""
        tile = self.micro_tile
        columns = self.sums(number) * ALONG
        most = (tile.rows + tile.across) * (tile.depth + self.vector)
        rows = chunk_rows(columns, most, tile.across, self.vector)
        names = {"CHUNK_ROWS": rows, "COLUMNS": columns, "GROUPS": columns // ALONG // self.vector}
        return Phase(
            str(tile.across), rows, rows * columns,
            self._copy(text, which, number, rows, ("$START$ + $AT$", "0", "$TO$"), columns),
            text.filled_in(add_weighted(*pairs), names),
        )  # fmt: skip

    def _copy(self, text: RoutineText, which: int, number: int, rows: int,
              place: tuple[str, str, str], columns: int = 0) -> str:  # fmt: skip
        """What brings rows of an operand into shared memory: ``place`` is the first row, the first
        column, and to where."""
        row, column, to = place
        dtype, size = self.pointers[which].buffer.dtype, text.values[number]
        element = f"{text.operands[which]}[({row} + r) * {size} + {column} + c]"
        names = {
            "N": rows, "M": columns or self.micro_tile.depth, "INNER": size,
            "APART": columns or "$PITCH$", "HERE": to, "ROW": row, "COLUMN": column,
            "LAST": self.ENDS[which], "OPERAND": text.operands[which],
            "LOAD": ins.loaded(dtype, element),
        }  # fmt: skip
        return text.filled_in(_COPY if dtype.itemsize > 2 else _COPY_WIDENED, names)

    def _mask(self, text: RoutineText, row_step: str, column_step: str) -> str:
        """What becomes of a score that is seen, by the mask."""
        if len(text.operands) <= self.mask_operand:
            return ""
        dtype = self.pointers[self.mask_operand].buffer.dtype
        place = f"{text.operands[self.mask_operand]}[row * {row_step} + column * {column_step}]"
        if dtype == dt.bool_:
            return f"if (!{ins.loaded(dtype, place)}) score = -unseen;"
        return f"score += ({self._wide}){ins.loaded(dtype, place)};"


_COPY = """
      phix_copy_tile<$N$, $M$, $INNER$, $APART$, $THREADS$>(
          $HERE$, $OPERAND$ + ($ROW$) * $INNER$ + $COLUMN$, $LAST$ - ($ROW$),
          $INNER$ - $COLUMN$);"""

_COPY_WIDENED = """
      #pragma unroll 4
      for (int e = threadIdx.x; e < $N$ * $M$; e += $THREADS$) {
        const int r = e / $M$, c = e % $M$;
        const bool is_inside = $ROW$ + r < $LAST$ && $COLUMN$ + c < $INNER$;
        ($HERE$)[r * $APART$ + c] = is_inside ? $LOAD$ : 0;
      }"""

# A block of queries or keys, and where a thread is in it; see register_tiles.py.
BEGIN = """
__shared__ __align__(16) $WIDE$ chunks[2 * $STAGE$];
__shared__ __align__(16) $WIDE$ weights[$ROWS$ * $WEIGHT_PITCH$];
const $WIDE$ unseen = $INFINITY$;
const int lane = threadIdx.x & 31, x = lane >> 1 & 7;
const int own = (threadIdx.x >> 5) * (4 * $PER$) + (lane >> 4) * 2 + (lane & 1);
int stage = 0;
"""

# The scores of a row as they count, the largest until now, by how much the sums shrink for it, and
# the weights.
WEIGHTS = """
  #pragma unroll
  for (int i = 0; i < $PER$; ++i) {
    const long long row = first + own + 4 * i, limit = row < $QUERIES$ ? $LIMIT$ : 0;
    const int seen = (int)phix_minimum(limit - start, (long long)$ACROSS$);
    $WIDE$ top = -unseen;
    #pragma unroll
    for (int j = 0; j < $EACH$; ++j) {
      const long long column = start + x + 8 * j;
      const bool is_seen = x + 8 * j < seen;
      $WIDE$ score = scores[i][j] * $SCALE$;
      if (is_seen) {
        $MASK$
      }
      score = is_seen ? score : -unseen;
      scores[i][j] = score;
      top = $MAX$(top, score);
    }
    #pragma unroll
    for (int step = 2; step < 16; step <<= 1)
      top = $MAX$(top, __shfl_xor_sync(0xffffffffu, top, step));
    top = $MAX$(top, largest[i]);
    const $WIDE$ less = $EXP$(largest[i] - top), shrink = top == largest[i] ? 1 : less;
    $WIDE$ added = 0;
    #pragma unroll
    for (int j = 0; j < $EACH$; ++j) {
      const $WIDE$ power = $EXP$(scores[i][j] - top);
      const $WIDE$ weight = scores[i][j] == -unseen ? 0 : power;
      weights[(own + 4 * i) * $WEIGHT_PITCH$ + x + 8 * j] = weight;
      added += weight;
    }
    #pragma unroll
    for (int step = 2; step < 16; step <<= 1) added += __shfl_xor_sync(0xffffffffu, added, step);
    sum[i] = sum[i] * shrink + added;
    largest[i] = top;
"""

_SHRINK = """    #pragma unroll
    for (int j = 0; j < $SUMS$; ++j) total[i][j] *= shrink;
  }
  __syncwarp();
"""

# Tile by tile, after the sums are none yet.
GO_ALONG = """
long long start = $BEGIN$;
if (start < $STOP$) {
$BEGIN_COPIES$
}
#pragma unroll 1
for (; start < $STOP$; start += $ACROSS$) {
$TILE_BY_TILE$
}
"""

_TEXT = (
    BEGIN
    + """
const long long first = $FIRST$, end = $END$;
$WIDE$ total[$PER$][$SUMS$], largest[$PER$], sum[$PER$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  largest[i] = -unseen;
  sum[i] = 0;
  #pragma unroll
  for (int j = 0; j < $SUMS$; ++j) total[i][j] = 0;
}
"""
    + GO_ALONG
    + """
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long row = first + own + 4 * i;
  #pragma unroll
  for (int j = 0; j < $SUMS$; ++j) {
    const int column = (j / $VECTOR$ * 8 + x) * $VECTOR$ + j % $VECTOR$;
    if (row < $QUERIES$ && column < $WIDTH$) $P3$[row * $WIDTH$ + column] = $STORE$;
  }
}
__syncthreads();
"""
)
