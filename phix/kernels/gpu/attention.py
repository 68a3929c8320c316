"""Attention as one kernel: a softmax that goes on from tile to tile of the keys.

A block has a tile of queries. For each tile of keys it computes the scores, brings the largest of
each row and the sum of the exponentials up to date, and adds the weighted values to what it has, in
registers; scores never leave the block. Sums are of float32 (float64 for that), always in the same
order. With ``causal``, tiles of keys that no query of the block sees are not touched.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.scalar.language import Expr

# So many columns of queries and keys, and rows of values, are in shared memory at once.
_DEPTH, _VALUE_ROWS = 32, 16


class Attention(Routine):
    """``attention(queries, keys, size, width, row step and column step of the mask, scale, causal,
    &query, &key, &value, &out[, &mask])``."""

    mask_operand = 4

    @property
    def rows(self) -> int:
        """Queries, and keys, of a tile: sixteen threads along each have so many in registers."""
        return 32 if self.dtype == dt.float64 else 64

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((self.numbers[0], self.rows),)

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        queries, keys, size, width, row_step, column_step, *_ = text.values
        wide, letter = self._wide, "D" if self._wide == "double" else "F"
        per = self.rows // 16
        columns = -(-int(width) // 16)
        is_causal = bool(self.numbers[7].data)
        names = {
            "WIDE": wide, "ROWS": self.rows, "PER": per, "COLUMNS": columns,
            "DEPTH": _DEPTH, "VALUE_ROWS": _VALUE_ROWS, "SIZE": size, "WIDTH": width,
            "CHUNK": max(2 * self.rows * (_DEPTH + 1), _VALUE_ROWS * columns * 16),
            "QUERIES": queries, "KEYS": keys, "TILE": text.tile[0],
            "EXP": "exp" if wide == "double" else "expf",
            "MAX": "fmax" if wide == "double" else "fmaxf",
            "INFINITY": f"PHIX_INFINITY_{letter}",
            "SCALE": f"({wide}){ins.constant(self.numbers[6].data, dt.float64)}",
            "END": f"phix_minimum((long long){keys}, first + {self.rows})" if is_causal else keys,
            "SEEN": "row >= column" if is_causal else "true",
            "SCORES": self.product(text, "scores", (0, 1), size),
            "LOAD_V": self._load(text, 2, "(start + from + r)", "c", width),
            "MASK": self._mask(text, row_step, column_step),
            "OUT": text.operands[3],
            "STORE": ins.stored(self.dtype, "total[i][j] / sum[i]"),
        }  # fmt: skip
        text.lines_of(text.filled_in(text.filled_in(_TEXT, names), names))

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


# left[i] . right[j] of a tile, into a variable of that name
_PRODUCT = """
  #pragma unroll
  for (int i = 0; i < $PER$; ++i)
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) $NAME$[i][j] = 0;
  for (int depth = 0; depth < $INNER$; depth += $DEPTH$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $ROWS$ * $DEPTH$; e += blockDim.x) {
      const int r = e / $DEPTH$, c = e % $DEPTH$;
      const bool inside = depth + c < $INNER$;
      left[r * ($DEPTH$ + 1) + c] = inside && $LEFT$ : 0;
      right[r * ($DEPTH$ + 1) + c] = inside && $RIGHT$ : 0;
    }
    __syncthreads();
    #pragma unroll 8
    for (int c = 0; c < $DEPTH$; ++c) {
      $WIDE$ a[$PER$], b[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i) a[i] = left[(y * $PER$ + i) * ($DEPTH$ + 1) + c];
      #pragma unroll
      for (int j = 0; j < $PER$; ++j) b[j] = right[(x + 16 * j) * ($DEPTH$ + 1) + c];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i)
        #pragma unroll
        for (int j = 0; j < $PER$; ++j) $NAME$[i][j] = fma(a[i], b[j], $NAME$[i][j]);
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
      const long long column = start + x + 16 * j;
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
__shared__ $WIDE$ chunk[$CHUNK$];
__shared__ $WIDE$ weights[$ROWS$ * ($ROWS$ + 1)];
$WIDE$* const left = chunk;
$WIDE$* const right = chunk + $ROWS$ * ($DEPTH$ + 1);
const $WIDE$ unseen = $INFINITY$;
const int x = threadIdx.x & 15, y = threadIdx.x >> 4;
const long long first = $TILE$ * $ROWS$, end = $END$;
$WIDE$ total[$PER$][$COLUMNS$], largest[$PER$], sum[$PER$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  largest[i] = -unseen;
  sum[i] = 0;
  #pragma unroll
  for (int j = 0; j < $COLUMNS$; ++j) total[i][j] = 0;
}
for (long long start = 0; start < end; start += $ROWS$) {
  $WIDE$ scores[$PER$][$PER$];
$SCORES$
"""
    + ROW_TOPS
    + """    $WIDE$ added = 0;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      const $WIDE$ weight = scores[i][j] == -unseen ? 0 : $EXP$(scores[i][j] - top);
      weights[(y * $PER$ + i) * ($ROWS$ + 1) + x + 16 * j] = weight;
      added += weight;
    }
    for (int step = 8; step > 0; step >>= 1) added += __shfl_xor_sync(0xffffffffu, added, step);
    sum[i] = sum[i] * shrink + added;
    largest[i] = top;
    #pragma unroll
    for (int j = 0; j < $COLUMNS$; ++j) total[i][j] *= shrink;
  }
  for (int from = 0; from < $ROWS$; from += $VALUE_ROWS$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $VALUE_ROWS$ * $COLUMNS$ * 16; e += blockDim.x) {
      const int r = e / ($COLUMNS$ * 16), c = e % ($COLUMNS$ * 16);
      chunk[e] = c < $WIDTH$ && start + from + r < $KEYS$ ? $LOAD_V$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $VALUE_ROWS$; ++k) {
      $WIDE$ a[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i) a[i] = weights[(y * $PER$ + i) * ($ROWS$ + 1) + from + k];
      #pragma unroll
      for (int j = 0; j < $COLUMNS$; ++j) {
        const $WIDE$ value = chunk[k * $COLUMNS$ * 16 + x + 16 * j];
        #pragma unroll
        for (int i = 0; i < $PER$; ++i) total[i][j] = fma(a[i], value, total[i][j]);
      }
    }
  }
}
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long row = first + y * $PER$ + i;
  #pragma unroll
  for (int j = 0; j < $COLUMNS$; ++j) {
    const int column = x + 16 * j;
    if (row < $QUERIES$ && column < $WIDTH$) $OUT$[row * $WIDTH$ + column] = $STORE$;
  }
}
__syncthreads();
"""
)
