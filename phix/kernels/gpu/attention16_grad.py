"""The gradients of attention of 16-bit floats on matrix units, as two kernels.

They are those of :mod:`phix.kernels.gpu.attention_grad`, laid out as the kernel of
:mod:`phix.kernels.gpu.attention16`: rows of two operands stay in registers, tiles of the two others
come by. The first kernel goes along the keys twice, for the softmax and then with it; the second
goes along the queries. Weights and gradients to scores are rounded to the operands' dtype for the
products they go into.
"""

from __future__ import annotations

from typing import ClassVar

from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.attention16 import COPY, MatrixAttention, Tile
from phix.kernels.gpu.attention_grad import KeyGradient, QueryGradient
from phix.kernels.gpu.routines import RoutineText

_BEGIN = """
__shared__ __align__(16) unsigned short shared[$SHARED$];
const float unseen = PHIX_INFINITY_F;
const int lane = threadIdx.x & 31, member = lane & 7, lower = lane >> 3 & 1, upper = lane >> 4;
const int own = (threadIdx.x >> 5) * ($STRIPES$ * 16);
const long long first = $FIRST$, begin = $BEGIN$, end = $END$;
long long next = begin;
unsigned int left[$STRIPES$][$SIZES$ / 16][4], right[$STRIPES$][$WIDTHS$ / 16][4];
int stage = 0;
phix_copy_rows<$ROWS$, $SIZE$, $SIZES$, $SIZE_PITCH$, $THREADS$>(
    shared, $LEFT$ + first * $SIZE$, $COUNT$ - first);
phix_copy_rows<$ROWS$, $WIDTH$, $WIDTHS$, $WIDTH_PITCH$, $THREADS$>(
    shared + $ROWS$ * $SIZE_PITCH$, $RIGHT$ + first * $WIDTH$, $COUNT$ - first);
phix_await_copies();
__syncthreads();
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s) {
  const int row = own + s * 16 + lower * 8 + member;
  #pragma unroll
  for (int k = 0; k < $SIZES$ / 16; ++k)
    phix_load_matrices(left[s][k], shared + row * $SIZE_PITCH$ + k * 16 + upper * 8);
  #pragma unroll
  for (int k = 0; k < $WIDTHS$ / 16; ++k)
    phix_load_matrices(right[s][k], shared + $ROWS$ * $SIZE_PITCH$ + row * $WIDTH_PITCH$ + k * 16 +
                                        upper * 8);
}
__syncthreads();
$COPY$
"""

# Into a variable of that name the products of rows in registers with those of a tile.
_PRODUCT = """
  float $NAME$[$STRIPES$][$AT_ONCE$ / 8][4];
  #pragma unroll
  for (int s = 0; s < $STRIPES$; ++s)
    #pragma unroll
    for (int j = 0; j < $AT_ONCE$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 4; ++i) $NAME$[s][j][i] = 0;
  #pragma unroll
  for (int k = 0; k < $COLUMNS$ / 16; ++k)
    #pragma unroll
    for (int j = 0; j < $AT_ONCE$ / 16; ++j) {
      unsigned int b[4];
      phix_load_matrices(
          b, $TILE_OF$ + (j * 16 + upper * 8 + member) * $PITCH$ + k * 16 + lower * 8);
      #pragma unroll
      for (int s = 0; s < $STRIPES$; ++s) {
        phix_multiply_$KIND$($NAME$[s][2 * j], $ROWS_OF$[s][k], b[0], b[1]);
        phix_multiply_$KIND$($NAME$[s][2 * j + 1], $ROWS_OF$[s][k], b[2], b[3]);
      }
    }
"""

# To sums of that name a tile, weighted.
_WEIGHTED = """
  #pragma unroll
  for (int k = 0; k < $AT_ONCE$ / 16; ++k) {
    unsigned int a[$STRIPES$][4];
    #pragma unroll
    for (int s = 0; s < $STRIPES$; ++s)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *const both = $NAME$[s][2 * k + i / 2] + i % 2 * 2;
        a[s][i] = phix_pair_$KIND$(both[0], both[1]);
      }
    #pragma unroll
    for (int j = 0; j < $COLUMNS$ / 16; ++j) {
      unsigned int b[4];
      phix_load_transposed(
          b, $TILE_OF$ + (k * 16 + lower * 8 + member) * $PITCH$ + j * 16 + upper * 8);
      #pragma unroll
      for (int s = 0; s < $STRIPES$; ++s) {
        phix_multiply_$KIND$($SUMS$[s][2 * j], a[s], b[0], b[1]);
        phix_multiply_$KIND$($SUMS$[s][2 * j + 1], a[s], b[2], b[3]);
      }
    }
  }
"""

# A tile is there: the next one is asked for, then the scores and the gradients to the weights.
_TILE = """
  phix_await_copies();
  __syncthreads();
  const unsigned short *const one = shared + stage * $HALF$;
  const unsigned short *const other = one + $AT_ONCE$ * $SIZE_PITCH$;
  $AHEAD$
$SCORES$
$SLOPES$
  if (!$IS_PLAIN$ || start + $AT_ONCE$ > $LENGTH$ || ($IS_CAUSAL$ && $IS_ON_DIAGONAL$)) {
    #pragma unroll
    for (int s = 0; s < $STRIPES$; ++s)
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        const long long $FIXED$ = first + own + s * 16 + h * 8 + (lane >> 2);
        const long long limit = $FIXED$ < $COUNT$ ? $LIMIT$ : 0;
        const int from = (int)($FROM$ - start);
        const int to = (int)phix_minimum(limit - start, (long long)$AT_ONCE$);
        #pragma unroll
        for (int j = 0; j < $AT_ONCE$ / 8; ++j)
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int c = j * 8 + (lane & 3) * 2 + i;
            const long long $MOVING$ = start + c;
            float score = -unseen;
            if (c >= from && c < to) {
              score = scores[s][j][2 * h + i] * $TO_BASE_2$;
              $MASK$
            }
            scores[s][j][2 * h + i] = score;
          }
      }
  }
"""

_TO_QUERY = (
    _BEGIN
    + """
float total[$STRIPES$][$SIZES$ / 8][4], level[$STRIPES$][2], sum[$STRIPES$][2], mean[$STRIPES$][2];
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s) {
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    level[s][h] = -unseen;
    sum[s][h] = mean[s][h] = 0;
  }
  #pragma unroll
  for (int j = 0; j < $SIZES$ / 8; ++j)
    #pragma unroll
    for (int i = 0; i < 4; ++i) total[s][j][i] = 0;
}
for (int pass = 0; pass < 2; ++pass) {
for (long long start = begin; start < end; start += $AT_ONCE$) {
"""
    + _TILE
    + """
  if (pass == 0) {
    #pragma unroll
    for (int s = 0; s < $STRIPES$; ++s)
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        float top = level[s][h], added = 0, slope = 0;
        #pragma unroll
        for (int j = 0; j < $AT_ONCE$ / 8; ++j)
          top = fmaxf(top, fmaxf(scores[s][j][2 * h], scores[s][j][2 * h + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float base = top == -unseen ? 0 : top * $FACTOR$;
        const float shrink = phix_exp2(fmaf(level[s][h], $FACTOR$, -base));
        #pragma unroll
        for (int j = 0; j < $AT_ONCE$ / 8; ++j)
          #pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            const float weight = phix_exp2(fmaf(scores[s][j][i], $FACTOR$, -base));
            added += weight;
            slope = fmaf(weight, slopes[s][j][i], slope);
          }
        sum[s][h] = fmaf(sum[s][h], shrink, added);
        mean[s][h] = fmaf(mean[s][h], shrink, slope);
        level[s][h] = top;
      }
    continue;
  }
  #pragma unroll
  for (int s = 0; s < $STRIPES$; ++s)
    #pragma unroll
    for (int j = 0; j < $AT_ONCE$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float weight = phix_exp2(fmaf(scores[s][j][i], $FACTOR$, -level[s][i / 2]));
        scores[s][j][i] = weight * (slopes[s][j][i] - mean[s][i / 2]);
      }
$ADD$
}
if (pass == 0) {
  #pragma unroll
  for (int s = 0; s < $STRIPES$; ++s)
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
      #pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        sum[s][h] += __shfl_xor_sync(0xffffffffu, sum[s][h], step);
        mean[s][h] += __shfl_xor_sync(0xffffffffu, mean[s][h], step);
      }
      level[s][h] = fmaf(level[s][h], $FACTOR$, log2f(sum[s][h]));
      mean[s][h] /= sum[s][h];
    }
}
}
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s)
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    const long long row = first + own + s * 16 + h * 8 + (lane >> 2);
    if (row < $QUERIES$ && (lane & 3) == 0) {
      $P4$[row] = level[s][h] * $LOG_2$;
      $P5$[row] = mean[s][h];
    }
    #pragma unroll
    for (int j = 0; j < $SIZES$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = j * 8 + (lane & 3) * 2 + i;
        const float value = $SCALE$ * total[s][j][2 * h + i];
        if (row < $QUERIES$ && column < $SIZE$) $P6$[row * $SIZE$ + column] = $STORE6$;
      }
  }
phix_await_copies();
__syncthreads();
"""
)

_TO_KEY = (
    """
__shared__ float of_rows[4 * $AT_ONCE$];
"""
    + _BEGIN
    + """
float to_key[$STRIPES$][$SIZES$ / 8][4], to_value[$STRIPES$][$WIDTHS$ / 8][4];
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s) {
  #pragma unroll
  for (int j = 0; j < $SIZES$ / 8; ++j)
    #pragma unroll
    for (int i = 0; i < 4; ++i) to_key[s][j][i] = 0;
  #pragma unroll
  for (int j = 0; j < $WIDTHS$ / 8; ++j)
    #pragma unroll
    for (int i = 0; i < 4; ++i) to_value[s][j][i] = 0;
}
for (long long start = begin; start < end; start += $AT_ONCE$) {
"""
    + _TILE
    + """
  #pragma unroll
  for (int j = 0; j < $AT_ONCE$ / 8; ++j)
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float *const of_row = levels + j * 8 + (lane & 3) * 2 + i;
      const float level = of_row[0] * $LOG2_E$, mean = of_row[$AT_ONCE$];
      #pragma unroll
      for (int s = 0; s < $STRIPES$; ++s)
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
          float &score = scores[s][j][2 * h + i], &slope = slopes[s][j][2 * h + i];
          score = phix_exp2(fmaf(score, $FACTOR$, -level));
          slope = score * (slope - mean);
        }
    }
$ADD_VALUE$
$ADD_KEY$
}
#pragma unroll
for (int s = 0; s < $STRIPES$; ++s)
  #pragma unroll
  for (int h = 0; h < 2; ++h) {
    const long long at = first + own + s * 16 + h * 8 + (lane >> 2);
    #pragma unroll
    for (int j = 0; j < $SIZES$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = j * 8 + (lane & 3) * 2 + i;
        const float value = $SCALE$ * to_key[s][j][2 * h + i];
        if (at < $KEYS$ && column < $SIZE$) $P6$[at * $SIZE$ + column] = $STORE6$;
      }
    #pragma unroll
    for (int j = 0; j < $WIDTHS$ / 8; ++j)
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = j * 8 + (lane & 3) * 2 + i;
        const float value = to_value[s][j][2 * h + i];
        if (at < $KEYS$ && column < $WIDTH$) $P7$[at * $WIDTH$ + column] = $STORE7$;
      }
  }
phix_await_copies();
__syncthreads();
"""
)

# The numbers of the rows of a tile, beside it: levels, then means.
_COPY_ROWS = """
for (int e = threadIdx.x; e < 2 * $AT_ONCE$; e += $THREADS$) {
  const int r = e % $AT_ONCE$;
  const bool is_inside = next + r < end;
  const float *const from = e < $AT_ONCE$ ? $P4$ : $P5$;
  phix_copy1(of_rows + stage * (2 * $AT_ONCE$) + e, is_inside ? from + next + r : from, is_inside);
}"""


class MatrixGradient(MatrixAttention):
    """What the two kernels have in common."""

    template = ""

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        names = self.names_of_matrices(text)
        pitches = int(str(names["SIZE_PITCH"])) + int(str(names["WIDTH_PITCH"]))
        names |= {
            "SCORES": _part(_PRODUCT, "scores", "SIZE", "one", left="left"),
            "SLOPES": _part(_PRODUCT, "slopes", "WIDTH", "other", left="right"),
            "SHARED": max(2 * int(str(names["HALF"])), self.rows * pitches),
            "SCALE": self._constant(float(self.numbers[6].data)), "LOG_2": "0.69314718055994531f",
            **{f"STORE{k}": ins.stored(p.buffer.dtype, "value")
               for k, p in enumerate(self.pointers)},
            **self.parts, **self.places,
        }  # fmt: skip
        text.lines_of(self.printed(text, self.template, names))

    @property
    def parts(self) -> dict[str, str]:
        """Texts that stand in the template."""
        raise NotImplementedError

    @property
    def places(self) -> dict[str, object]:
        """Which operands stay and which come by, from where to where."""
        raise NotImplementedError


def _part(text: str, name: str, columns: str, tile: str, *, left: str = "", sums: str = "") -> str:
    names = {"NAME": name, "COLUMNS": f"${columns}S$", "PITCH": f"${columns}_PITCH$",
             "TILE_OF": tile, "ROWS_OF": left, "SUMS": sums}  # fmt: skip
    return RoutineText.filled_in(text, names)


class MatrixQueryGradient(MatrixGradient, QueryGradient):
    """:class:`QueryGradient` of float16 and bfloat16."""

    TILES: ClassVar[dict[int, Tile]] = {
        64: Tile(4, 1, 32, 3),
        80: Tile(4, 1, 32),
        128: Tile(4, 1, 32),
    }
    template = _TO_QUERY

    @property
    def parts(self) -> dict[str, str]:
        ahead = """
  next = start + $AT_ONCE$;
  const bool is_more = next < end || pass == 0;
  if (next >= end) next = begin;
  stage ^= 1;
  if (is_more) $COPY$"""
        return {
            "AHEAD": ahead.strip(), "ADD": _part(_WEIGHTED, "scores", "SIZE", "one", sums="total")
        }  # fmt: skip

    @property
    def places(self) -> dict[str, object]:
        end = "(long long)$KEYS$"
        if self.is_causal:
            end = f"phix_minimum(phix_minimum({end}, (long long)$QUERIES$), first + $ROWS$)"
        return {
            "LEFT": "$P0$", "RIGHT": "$P3$", "COUNT": "$QUERIES$", "ONE": "$P1$", "OTHER": "$P2$",
            "LENGTH": "$KEYS$", "BEGIN": "0", "END": end, "FIXED": "row", "MOVING": "column",
            "IS_ON_DIAGONAL": "start + $AT_ONCE$ > first + own + 1", "FROM": "begin",
            "FIRST": self.first_query,
            "LIMIT": "phix_minimum((long long)$KEYS$, row + 1)" if self.is_causal else "$KEYS$",
        }  # fmt: skip


class MatrixKeyGradient(MatrixGradient, KeyGradient):
    """:class:`KeyGradient` of float16 and bfloat16."""

    TILES: ClassVar[dict[int, Tile]] = {64: Tile(4, 1, 64), 80: Tile(4, 1, 32), 128: Tile(4, 1, 16)}
    template = _TO_KEY

    @property
    def parts(self) -> dict[str, str]:
        ahead = """
  const float *const levels = of_rows + stage * (2 * $AT_ONCE$);
  next = start + $AT_ONCE$;
  stage ^= 1;
  if (next < end) $COPY$"""
        return {
            "AHEAD": ahead.strip(),
            "COPY": COPY.rstrip("}") + _COPY_ROWS + "}",
            "ADD_VALUE": _part(_WEIGHTED, "scores", "WIDTH", "other", sums="to_value"),
            "ADD_KEY": _part(_WEIGHTED, "slopes", "SIZE", "one", sums="to_key"),
        }  # fmt: skip

    @property
    def places(self) -> dict[str, object]:
        return {
            "LEFT": "$P1$", "RIGHT": "$P2$", "COUNT": "$KEYS$", "ONE": "$P0$", "OTHER": "$P3$",
            "LENGTH": "$QUERIES$", "BEGIN": "first" if self.is_causal else "0",
            "END": "$QUERIES$", "FIXED": "column", "MOVING": "row",
            "IS_ON_DIAGONAL": "start + 1 < first + own + $STRIPES$ * 16", "LIMIT": "$QUERIES$",
            "FROM": "column" if self.is_causal else "begin", "FIRST": "$TILE$ * $ROWS$",
        }  # fmt: skip
