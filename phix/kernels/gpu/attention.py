"""Attention as one kernel: a softmax that goes on from tile to tile of the keys.

A block has a tile of queries. For each tile of keys it computes the scores, brings the largest of
each row and the sum of the exponentials up to date, and adds the weighted values to what it has, in
registers; scores never leave the block. Sums are of float32 (float64 for that), always in the same
order. With ``causal``, tiles of keys that no query of the block sees are not touched.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.scalar.language import Expr

# So many columns of queries and keys, and rows of values, are in shared memory at once.
_DEPTH, _VALUE_ROWS = 32, 16
# Threads along a tile's columns; down its rows there are as many, or half where tiles are fewer.
ACROSS, _FEW_TILES = 16, 264
_VECTOR = 16  # bytes that a thread takes from shared memory at once


class Attention(Routine):
    """``attention(queries, keys, size, width, row step and column step of the mask, scale, causal,
    &query, &key, &value, &out[, &mask])``."""

    mask_operand = 4
    own_rows = 0  # which of the numbers counts the rows that tiles are made of

    @property
    def per(self) -> int:
        """The rows and columns of a tile that are one thread's: neighbours, in registers."""
        return _VECTOR // (8 if self.dtype == dt.float64 else 4)

    @cached_property
    def down(self) -> int:
        """Threads down the rows of a tile."""
        sizes = [self.numbers[self.own_rows], *(loop.extent for loop in self.loops)]
        if any(e.fn != "const" for e in sizes):
            return ACROSS
        rows, *lanes = (int(e.data) for e in sizes)
        count = prod(lanes) * -(-rows // (ACROSS * self.per))
        return ACROSS // 2 if count < _FEW_TILES else ACROSS

    @property
    def threads(self) -> int:  # type: ignore[override]
        return ACROSS * self.down

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.down * self.per

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((self.numbers[self.own_rows], self.rows),)

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        _, _, size, width, row_step, column_step, *_ = text.values
        names = self.names_of_tiles(text, _DEPTH) | {
            "VALUE_ROWS": _VALUE_ROWS, "VALUE_PITCH": self.padded(width),
            "COLUMNS": self.padded(width) // ACROSS,
            "CHUNK": self.chunk(_DEPTH, _VALUE_ROWS * self.padded(width)),
            "SCORES": self.product(text, "scores", (0, 1), size),
            "LOAD_V": self._load(text, 2, "(start + from + r)", "c", width),
            "MASK": self._mask(text, row_step, column_step),
            "OUT": text.operands[3],
            "STORE": ins.stored(self.dtype, "total[i][j] / sum[i]"),
        }  # fmt: skip
        text.lines_of(text.filled_in(text.filled_in(_TEXT, names), names))

    def names_of_tiles(self, text: RoutineText, depth: int) -> dict[str, object]:
        """What kernels have in common that go along tiles, with so much of two operands at once."""
        queries, keys, size, width, *_ = text.values
        wide, letter = self._wide, "D" if self._wide == "double" else "F"
        is_causal, along, pad = bool(self.numbers[7].data), self.along, self.per
        begin = f"{text.tile[0]} * {self.rows}"
        if is_causal and self.own_rows == 0:  # the last queries, which see most, are first
            begin = f"(({queries} - 1) / {self.rows} - {text.tile[0]}) * {self.rows}"
        return {
            "WIDE": wide, "PACK": f"phix_pack<{wide}, {self.per}>", "PER": self.per,
            "ROWS": self.rows, "ALONG": along, "ROW_PITCH": self.rows + pad,
            "ALONG_PITCH": along + pad, "DEPTH": depth, "ACROSS": ACROSS,
            "SIZE": size, "WIDTH": width, "QUERIES": queries, "KEYS": keys,
            "FIRST": begin, "INFINITY": f"PHIX_INFINITY_{letter}",
            "EXP": "exp" if wide == "double" else "expf",
            "MAX": "fmax" if wide == "double" else "fmaxf",
            "SCALE": f"({wide}){ins.constant(self.numbers[6].data, dt.float64)}",
            "END": f"phix_minimum((long long){keys}, first + {self.rows})" if is_causal else keys,
            "SEEN": "row >= column" if is_causal else "true",
        }  # fmt: skip

    @property
    def along(self) -> int:
        """Columns of a tile."""
        return ACROSS * self.per

    def padded(self, columns: object) -> int:
        """Columns up to a multiple of those that a row of threads takes at once."""
        return -(-int(str(columns)) // self.along) * self.along

    def chunk(self, depth: int, values: int) -> int:
        """The elements of shared memory for two operands, or for values."""
        return max(depth * (self.rows + self.along + 2 * self.per), values)

    @property
    def _wide(self) -> str:
        """The C++ type of the sums."""
        return "double" if self.dtype == dt.float64 else "float"

    def product(self, text: RoutineText, name: str, which: tuple[int, int], inner: str) -> str:
        """A tile of the products of rows of two operands."""
        ends = {0: "$QUERIES$", 1: "$KEYS$", 2: "$KEYS$", 3: "$QUERIES$"}
        loads = []
        for k, start in zip(which, ("first", "start")):
            load = self._load(text, k, f"({start} + r)", "(depth + c)", inner)
            loads.append(f"{start} + r < {ends[k]} ? {load}")
        return text.filled_in(
            _PRODUCT, {"NAME": name, "INNER": inner, "LEFT": loads[0], "RIGHT": loads[1]}
        )

    def _load(self, text: RoutineText, which: int, row: str, column: str, pitch: str) -> str:
        place = f"{text.operands[which]}[{row} * {pitch} + {column}]"
        return ins.loaded(self.pointers[which].buffer.dtype, place)

    def _mask(self, text: RoutineText, row_step: str, column_step: str) -> str:
        """What becomes of a score that is seen, by the mask."""
        if len(text.operands) <= self.mask_operand:
            return ""
        dtype = self.pointers[self.mask_operand].buffer.dtype
        place = f"{text.operands[self.mask_operand]}[row * {row_step} + column * {column_step}]"
        if dtype == dt.bool_:
            return f"if (!{ins.loaded(dtype, place)}) score = -unseen;"
        return f"score += ({self._wide}){ins.loaded(dtype, place)};"


# left[i] . right[j] of a tile, into a variable of that name. Columns of the operands lie together
# in shared memory; four rows and eight columns that a warp writes are in different banks.
_PRODUCT = """
  #pragma unroll
  for (int i = 0; i < $PER$; ++i)
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) $NAME$[i][j] = 0;
  for (int depth = 0; depth < $INNER$; depth += $DEPTH$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $ROWS$ * $DEPTH$; e += blockDim.x) {
      const int r = e / 8 % 4 + e / (4 * $DEPTH$) * 4, c = e % 8 + e / 32 % ($DEPTH$ / 8) * 8;
      left[c * $ROW_PITCH$ + r] = depth + c < $INNER$ && $LEFT$ : 0;
    }
    for (int e = threadIdx.x; e < $ALONG$ * $DEPTH$; e += blockDim.x) {
      const int r = e / 8 % 4 + e / (4 * $DEPTH$) * 4, c = e % 8 + e / 32 % ($DEPTH$ / 8) * 8;
      right[c * $ALONG_PITCH$ + r] = depth + c < $INNER$ && $RIGHT$ : 0;
    }
    __syncthreads();
    #pragma unroll 8
    for (int c = 0; c < $DEPTH$; ++c) {
      const $PACK$ a = *(const $PACK$*)(left + c * $ROW_PITCH$ + y * $PER$);
      const $PACK$ b = *(const $PACK$*)(right + c * $ALONG_PITCH$ + x * $PER$);
      #pragma unroll
      for (int i = 0; i < $PER$; ++i)
        #pragma unroll
        for (int j = 0; j < $PER$; ++j) $NAME$[i][j] = fma(a.at[i], b.at[j], $NAME$[i][j]);
    }
  }
"""

# The scores of a row as they count, the largest until now, and by how much the sums shrink for it.
ROW_TOPS = """  #pragma unroll
  for (int i = 0; i < $PER$; ++i) {
    const long long row = first + y * $PER$ + i;
    $WIDE$ top = -unseen;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      const long long column = start + x * $PER$ + j;
      $WIDE$ score = -unseen;
      if (row < $QUERIES$ && column < $KEYS$ && $SEEN$) {
        score = scores[i][j] * $SCALE$;
        $MASK$
      }
      scores[i][j] = score;
      top = $MAX$(top, score);
    }
    for (int step = 8; step > 0; step >>= 1)
      top = $MAX$(top, __shfl_xor_sync(0xffffffffu, top, step));
    top = $MAX$(top, largest[i]);
    const $WIDE$ shrink = top == largest[i] ? 1 : $EXP$(largest[i] - top);
"""

_TEXT = (
    """
__shared__ __align__(16) $WIDE$ chunk[$CHUNK$];
__shared__ __align__(16) $WIDE$ weights[$ROWS$ * $ALONG_PITCH$];
$WIDE$* const left = chunk;
$WIDE$* const right = chunk + $DEPTH$ * $ROW_PITCH$;
const $WIDE$ unseen = $INFINITY$;
const int x = threadIdx.x % $ACROSS$, y = threadIdx.x / $ACROSS$;
const long long first = $FIRST$, end = $END$;
$WIDE$ total[$PER$][$COLUMNS$], largest[$PER$], sum[$PER$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  largest[i] = -unseen;
  sum[i] = 0;
  #pragma unroll
  for (int j = 0; j < $COLUMNS$; ++j) total[i][j] = 0;
}
for (long long start = 0; start < end; start += $ALONG$) {
  $WIDE$ scores[$PER$][$PER$];
$SCORES$
"""
    + ROW_TOPS
    + """    $WIDE$ added = 0;
    $PACK$ own;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      own.at[j] = scores[i][j] == -unseen ? 0 : $EXP$(scores[i][j] - top);
      added += own.at[j];
    }
    *($PACK$*)(weights + (y * $PER$ + i) * $ALONG_PITCH$ + x * $PER$) = own;
    for (int step = 8; step > 0; step >>= 1) added += __shfl_xor_sync(0xffffffffu, added, step);
    sum[i] = sum[i] * shrink + added;
    largest[i] = top;
    #pragma unroll
    for (int j = 0; j < $COLUMNS$; ++j) total[i][j] *= shrink;
  }
  for (int from = 0; from < $ALONG$; from += $VALUE_ROWS$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $VALUE_ROWS$ * $VALUE_PITCH$; e += blockDim.x) {
      const int r = e / $VALUE_PITCH$, c = e % $VALUE_PITCH$;
      chunk[e] = c < $WIDTH$ && start + from + r < $KEYS$ ? $LOAD_V$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $VALUE_ROWS$; k += $PER$) {
      $PACK$ a[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i)
        a[i] = *(const $PACK$*)(weights + (y * $PER$ + i) * $ALONG_PITCH$ + from + k);
      #pragma unroll
      for (int n = 0; n < $PER$; ++n)
        #pragma unroll
        for (int j = 0; j < $COLUMNS$; j += $PER$) {
          const $PACK$ value = *(const $PACK$*)(chunk + (k + n) * $VALUE_PITCH$ + j * $ACROSS$
                                                + x * $PER$);
          #pragma unroll
          for (int i = 0; i < $PER$; ++i)
            #pragma unroll
            for (int m = 0; m < $PER$; ++m)
              total[i][j + m] = fma(a[i].at[n], value.at[m], total[i][j + m]);
        }
    }
  }
}
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long row = first + y * $PER$ + i;
  #pragma unroll
  for (int j = 0; j < $COLUMNS$; ++j) {
    const int column = j / $PER$ * $ALONG$ + x * $PER$ + j % $PER$;
    if (row < $QUERIES$ && column < $WIDTH$) $OUT$[row * $WIDTH$ + column] = $STORE$;
  }
}
__syncthreads();
"""
)
