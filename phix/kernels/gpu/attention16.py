"""Attention of 16-bit floats on matrix units; see :mod:`phix.kernels.gpu.attention` for the rest.

A warp has stripes of sixteen queries, in registers, as it has their scores and their results. Tiles
of keys and values are copied into one half of the shared memory while the other half is computed
with. Scores and sums are of float32; the exponentials are rounded to the operands' dtype for the
product with the values.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.attention import Attention
from phix.kernels.gpu.routines import RoutineText

WARP = 32
_LOG2_E = "1.4426950408889634f"


@dataclass(frozen=True)
class Tile:
    """Warps of a block, stripes of sixteen rows in each, and rows to go along at once: queries
    and keys, or the other way round. ``resident``: see :class:`Routine`."""

    warps: int
    stripes: int
    at_once: int
    resident: int = 1

    @property
    def rows(self) -> int:
        return 16 * self.warps * self.stripes


def padded(size: int, to: int = 16) -> int:
    """A number rounded up to a multiple."""
    return -(-size // to) * to


def pitch(columns: int) -> int:
    """How far rows lie apart in shared memory: an odd number of sixteen bytes, so that eight rows
    are in different banks."""
    return padded(columns) + 8


class MatrixAttention(Attention):
    """:class:`Attention` of float16 and bfloat16."""

    # The tile by the columns of the widest operand at most: static shared memory is 48 KiB, and a
    # thread has 255 registers.
    TILES: ClassVar[dict[int, Tile]] = {
        64: Tile(4, 2, 64),
        80: Tile(4, 1, 64),
        128: Tile(4, 1, 32),
        256: Tile(4, 1, 16),
    }

    @cached_property
    def tile(self) -> Tile:
        widest = max(int(n.data) for n in self.numbers[2:4])
        return self.TILES[min(most for most in self.TILES if widest <= most)]

    @property
    def rows(self) -> int:
        return self.tile.rows

    @property
    def threads(self) -> int:  # type: ignore[override]
        return self.tile.warps * WARP

    @property
    def resident(self) -> int:  # type: ignore[override]
        return self.tile.resident

    @cached_property
    def scale(self) -> float:
        """What brings a product to a score to the base of two."""
        return float(self.numbers[6].data) * math.log2(math.e)

    @cached_property
    def is_scaled_late(self) -> bool:
        """Whether scores are scaled in their exponentials alone: their order is that of the
        products, and nothing is added to them."""
        masks = self.pointers[self.mask_operand :]
        added = any(m.buffer.dtype != dt.bool_ for m in masks)
        return not added and 0 < self.scale < math.inf

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        names = self.names_of_matrices(text)
        half, own = int(str(names["HALF"])), self.rows * int(str(names["SIZE_PITCH"]))
        query_place = max(2 * half - own, 0)
        names |= {
            "SHARED": max(2 * half, own), "QUERY_PLACE": query_place,
            "IS_APART": self._bool(query_place >= half),
            "LIMIT": "phix_minimum((long long)$KEYS$, row + 1)" if self.is_causal else "$KEYS$",
            "STORE": ins.stored(self.dtype, "total[s][j][2 * h + i] * inverse"),
            "ONE": "$P1$", "OTHER": "$P2$", "FIRST": self.first_query,
        }  # fmt: skip
        text.lines_of(self.printed(text, _TEXT, names))

    def names_of_matrices(self, text: RoutineText) -> dict[str, object]:
        """What kernels of 16-bit attention have in common."""
        queries, keys, size, width, row_step, column_step, *_ = text.values
        tile, sizes, widths = self.tile, padded(int(size)), padded(int(width))
        is_plain = self.is_scaled_late and len(text.operands) <= self.mask_operand
        return {
            "COPY": COPY,
            "ROWS": tile.rows, "STRIPES": tile.stripes, "AT_ONCE": tile.at_once,
            "THREADS": self.threads, "SIZE": size, "WIDTH": width, "SIZES": sizes,
            "WIDTHS": widths, "SIZE_PITCH": pitch(sizes), "WIDTH_PITCH": pitch(widths),
            "HALF": tile.at_once * (pitch(sizes) + pitch(widths)),
            "IS_CAUSAL": self._bool(self.is_causal), "IS_PLAIN": self._bool(is_plain),
            "MASK": self._mask(text, row_step, column_step), "KIND": self.dtype.name,
            "TO_BASE_2": "1.0f" if self.is_scaled_late else self._constant(self.scale),
            "FACTOR": self._constant(self.scale) if self.is_scaled_late else "1.0f",
            "QUERIES": queries, "KEYS": keys, "TILE": text.tile[0], "LOG2_E": _LOG2_E,
            **{f"P{k}": operand for k, operand in enumerate(text.operands)},
        }  # fmt: skip

    @staticmethod
    def _bool(value: bool) -> str:
        return "true" if value else "false"

    @staticmethod
    def _constant(value: float) -> str:
        return ins.constant(value, dt.float32)

    def _mask(self, text: RoutineText, row_step: str, column_step: str) -> str:
        made = super()._mask(text, row_step, column_step)
        return made if self.is_scaled_late else made.replace("+= ", f"+= {_LOG2_E} * ")


# Tiles of two operands, from row ``next`` on, into a half of the shared memory.
COPY = """{
  unsigned short *const to = shared + stage * $HALF$;
  phix_copy_rows<$AT_ONCE$, $SIZE$, $SIZES$, $SIZE_PITCH$, $THREADS$>(
      to, $ONE$ + next * $SIZE$, end - next);
  phix_copy_rows<$AT_ONCE$, $WIDTH$, $WIDTHS$, $WIDTH_PITCH$, $THREADS$>(
      to + $AT_ONCE$ * $SIZE_PITCH$, $OTHER$ + next * $WIDTH$, end - next);
}"""

_TEXT = """
__shared__ __align__(16) unsigned short shared[$SHARED$];
const float unseen = PHIX_INFINITY_F;
const int lane = threadIdx.x & 31, member = lane & 7, lower = lane >> 3 & 1, upper = lane >> 4;
const int own = (threadIdx.x >> 5) * ($STRIPES$ * 16);
const long long first = $FIRST$;
long long end = $KEYS$, next = 0;
if ($IS_CAUSAL$) end = phix_minimum(phix_minimum(end, (long long)$QUERIES$), first + $ROWS$);
float total[$STRIPES$][$WIDTHS$ / 8][4], largest[$STRIPES$][2], sum[$STRIPES$][2];
unsigned int query[$STRIPES$][$SIZES$ / 16][4];
int stage = 0;
phix_copy_rows<$ROWS$, $SIZE$, $SIZES$, $SIZE_PITCH$, $THREADS$>(
    shared + $QUERY_PLACE$, $P0$ + first * $SIZE$, $QUERIES$ - first);
if ($IS_APART$) $COPY$
phix_await_copies();
__syncthreads();
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s) {
  const int row = own + s * 16 + lower * 8 + member;
  #pragma unroll
  for (int k = 0; k < $SIZES$ / 16; ++k)
    phix_load_matrices(query[s][k],
                       shared + $QUERY_PLACE$ + row * $SIZE_PITCH$ + k * 16 + upper * 8);
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    largest[s][h] = -unseen;
    sum[s][h] = 0;
  }
  #pragma unroll
  for (int j = 0; j < $WIDTHS$ / 8; ++j)
    #pragma unroll
    for (int i = 0; i < 4; ++i) total[s][j][i] = 0;
}
if (!$IS_APART$) {
  __syncthreads();
  $COPY$
}
for (long long start = 0; start < end; start += $AT_ONCE$) {
  phix_await_copies();
  __syncthreads();
  const unsigned short *const key = shared + stage * $HALF$;
  const unsigned short *const value = key + $AT_ONCE$ * $SIZE_PITCH$;
  stage ^= 1;
  next = start + $AT_ONCE$;
  if (next < end) $COPY$
  float scores[$STRIPES$][$AT_ONCE$ / 8][4];
  #pragma unroll
  for (int s = 0; s < $STRIPES$; ++s)
    #pragma unroll
    for (int j = 0; j < $AT_ONCE$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 4; ++i) scores[s][j][i] = 0;
  #pragma unroll
  for (int k = 0; k < $SIZES$ / 16; ++k)
    #pragma unroll
    for (int j = 0; j < $AT_ONCE$ / 16; ++j) {
      unsigned int b[4];
      phix_load_matrices(
          b, key + (j * 16 + upper * 8 + member) * $SIZE_PITCH$ + k * 16 + lower * 8);
      #pragma unroll
      for (int s = 0; s < $STRIPES$; ++s) {
        phix_multiply_$KIND$(scores[s][2 * j], query[s][k], b[0], b[1]);
        phix_multiply_$KIND$(scores[s][2 * j + 1], query[s][k], b[2], b[3]);
      }
    }
  if (!$IS_PLAIN$ || next > $KEYS$ || ($IS_CAUSAL$ && next > first + own + 1)) {
    #pragma unroll
    for (int s = 0; s < $STRIPES$; ++s)
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        const long long row = first + own + s * 16 + h * 8 + (lane >> 2);
        const long long limit = row < $QUERIES$ ? $LIMIT$ : 0;
        const int seen = (int)phix_minimum(limit - start, (long long)$AT_ONCE$);
        #pragma unroll
        for (int j = 0; j < $AT_ONCE$ / 8; ++j)
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int c = j * 8 + (lane & 3) * 2 + i;
            const long long column = start + c;
            float score = -unseen;
            if (c < seen) {
              score = scores[s][j][2 * h + i] * $TO_BASE_2$;
              $MASK$
            }
            scores[s][j][2 * h + i] = score;
          }
      }
  }
  #pragma unroll
  for (int s = 0; s < $STRIPES$; ++s)
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = largest[s][h], added = 0;
      #pragma unroll
      for (int j = 0; j < $AT_ONCE$ / 8; ++j)
        top = fmaxf(top, fmaxf(scores[s][j][2 * h], scores[s][j][2 * h + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float base = top == -unseen ? 0 : top * $FACTOR$;
      const float shrink = phix_exp2(fmaf(largest[s][h], $FACTOR$, -base));
      #pragma unroll
      for (int j = 0; j < $AT_ONCE$ / 8; ++j)
        #pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          scores[s][j][i] = phix_exp2(fmaf(scores[s][j][i], $FACTOR$, -base));
          added += scores[s][j][i];
        }
      sum[s][h] = fmaf(sum[s][h], shrink, added);
      largest[s][h] = top;
      #pragma unroll
      for (int j = 0; j < $WIDTHS$ / 8; ++j) {
        total[s][j][2 * h] *= shrink;
        total[s][j][2 * h + 1] *= shrink;
      }
    }
  #pragma unroll
  for (int k = 0; k < $AT_ONCE$ / 16; ++k) {
    unsigned int a[$STRIPES$][4];
    #pragma unroll
    for (int s = 0; s < $STRIPES$; ++s)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *const both = scores[s][2 * k + i / 2] + i % 2 * 2;
        a[s][i] = phix_pair_$KIND$(both[0], both[1]);
      }
    #pragma unroll
    for (int j = 0; j < $WIDTHS$ / 16; ++j) {
      unsigned int b[4];
      phix_load_transposed(
          b, value + (k * 16 + lower * 8 + member) * $WIDTH_PITCH$ + j * 16 + upper * 8);
      #pragma unroll
      for (int s = 0; s < $STRIPES$; ++s) {
        phix_multiply_$KIND$(total[s][2 * j], a[s], b[0], b[1]);
        phix_multiply_$KIND$(total[s][2 * j + 1], a[s], b[2], b[3]);
      }
    }
  }
}
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s)
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    float all = sum[s][h];
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    all += __shfl_xor_sync(0xffffffffu, all, 2);
    const float inverse = 1.0f / all;
    const long long row = first + own + s * 16 + h * 8 + (lane >> 2);
    #pragma unroll
    for (int j = 0; j < $WIDTHS$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = j * 8 + (lane & 3) * 2 + i;
        if (row < $QUERIES$ && column < $WIDTH$) $P3$[row * $WIDTH$ + column] = $STORE$;
      }
  }
phix_await_copies();
__syncthreads();
"""
