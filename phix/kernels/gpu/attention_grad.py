"""The gradients of attention as two kernels, which compute the weights again, tile by tile.

In both, a tile of weights is kept beside one of the gradients to them, in shared memory. The first
kernel has a tile of queries in each block and goes along the keys: the largest score of each row,
the sum of its exponentials and the mean of the gradients are brought up to date on the way, as in
the forward kernel, and what the mean takes off is subtracted at the end. The second has a tile of
keys and goes along the queries, with those numbers of each row at hand. Sums are of float32
(float64 for that), always in the same order.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.attention import ROW_TOPS, Attention
from phix.kernels.gpu.routines import RoutineText
from phix.kernels.scalar.language import Expr

# So many columns of two operands, and rows of what is weighted, are in shared memory at once.
_DEPTH, _ROWS_AT_ONCE = 16, 8

_BEGIN = """
__shared__ $WIDE$ chunk[$CHUNK$];
__shared__ $WIDE$ weights[$ROWS$ * ($ROWS$ + 1)];
__shared__ $WIDE$ weighted[$ROWS$ * ($ROWS$ + 1)];
$WIDE$* const left = chunk;
$WIDE$* const right = chunk + $ROWS$ * ($DEPTH$ + 1);
const $WIDE$ unseen = $INFINITY$;
const int x = threadIdx.x & 15, y = threadIdx.x >> 4;
const long long first = $TILE$ * $ROWS$;
"""

# with w the exponentials, s their sum and g the gradients to the weights: w g / s - (w g / s) w / s
_TO_QUERY = (
    _BEGIN
    + """
const long long end = $END$;
$WIDE$ total[$PER$][$SIZES$], plain[$PER$][$SIZES$], largest[$PER$], sum[$PER$], mean[$PER$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  largest[i] = -unseen;
  sum[i] = mean[i] = 0;
  #pragma unroll
  for (int j = 0; j < $SIZES$; ++j) total[i][j] = plain[i][j] = 0;
}
for (long long start = 0; start < end; start += $ROWS$) {
  $WIDE$ scores[$PER$][$PER$], slopes[$PER$][$PER$];
$SCORES$
$SLOPES$
"""
    + ROW_TOPS
    + """    $WIDE$ added = 0, slope = 0;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      const int place = (y * $PER$ + i) * ($ROWS$ + 1) + x + 16 * j;
      const $WIDE$ weight = scores[i][j] == -unseen ? 0 : $EXP$(scores[i][j] - top);
      const $WIDE$ product = weight * slopes[i][j];
      weights[place] = weight;
      weighted[place] = product;
      added += weight;
      slope += product;
    }
    for (int step = 8; step > 0; step >>= 1) {
      added += __shfl_xor_sync(0xffffffffu, added, step);
      slope += __shfl_xor_sync(0xffffffffu, slope, step);
    }
    sum[i] = sum[i] * shrink + added;
    mean[i] = mean[i] * shrink + slope;
    largest[i] = top;
    #pragma unroll
    for (int j = 0; j < $SIZES$; ++j) {
      total[i][j] *= shrink;
      plain[i][j] *= shrink;
    }
  }
  for (int from = 0; from < $ROWS$; from += $AT_ONCE$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $AT_ONCE$ * $SIZES$ * 16; e += blockDim.x) {
      const int c = e % ($SIZES$ * 16);
      const long long at = start + from + e / ($SIZES$ * 16);
      chunk[e] = c < $SIZE$ && at < $KEYS$ ? $LOAD_KEY$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $AT_ONCE$; ++k) {
      $WIDE$ a[$PER$], b[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i) {
        const int place = (y * $PER$ + i) * ($ROWS$ + 1) + from + k;
        a[i] = weighted[place];
        b[i] = weights[place];
      }
      #pragma unroll
      for (int j = 0; j < $SIZES$; ++j) {
        const $WIDE$ key = chunk[k * $SIZES$ * 16 + x + 16 * j];
        #pragma unroll
        for (int i = 0; i < $PER$; ++i) {
          total[i][j] = fma(a[i], key, total[i][j]);
          plain[i][j] = fma(b[i], key, plain[i][j]);
        }
      }
    }
  }
}
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long row = first + y * $PER$ + i;
  const $WIDE$ share = mean[i] / sum[i];
  if (row < $QUERIES$) {
    if (x == 0) {
      $P4$[row] = largest[i] + $LOG$(sum[i]);
      $P5$[row] = share;
    }
    #pragma unroll
    for (int j = 0; j < $SIZES$; ++j) {
      const int column = x + 16 * j;
      const $WIDE$ value = $KEYS$ > 0 ? $SCALE$ * (total[i][j] - share * plain[i][j]) / sum[i] : 0;
      if (column < $SIZE$) $P6$[row * $SIZE$ + column] = $STORE6$;
    }
  }
}
__syncthreads();
"""
)

_TO_KEY = (
    _BEGIN
    + """
$WIDE$ to_key[$PER$][$SIZES$], to_value[$PER$][$WIDTHS$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  #pragma unroll
  for (int j = 0; j < $SIZES$; ++j) to_key[i][j] = 0;
  #pragma unroll
  for (int j = 0; j < $WIDTHS$; ++j) to_value[i][j] = 0;
}
for (long long start = $BEGIN$; start < $QUERIES$; start += $ROWS$) {
  $WIDE$ scores[$PER$][$PER$], slopes[$PER$][$PER$];
$SCORES$
$SLOPES$
  #pragma unroll
  for (int j = 0; j < $PER$; ++j) {
    const long long row = start + x + 16 * j;
    const $WIDE$ level = row < $QUERIES$ ? $P4$[row] : 0, mean = row < $QUERIES$ ? $P5$[row] : 0;
    #pragma unroll
    for (int i = 0; i < $PER$; ++i) {
      const long long column = first + y * $PER$ + i;
      const int place = (y * $PER$ + i) * ($ROWS$ + 1) + x + 16 * j;
      $WIDE$ weight = 0, slope = 0;
      if (row < $QUERIES$ && column < $KEYS$) {
        $WIDE$ score = -unseen;
        if ($SEEN$) {
          score = scores[i][j] * $SCALE$;
          $MASK$
        }
        weight = $EXP$(score - level);
        slope = weight * (slopes[i][j] - mean);
      }
      weights[place] = weight;
      weighted[place] = slope;
    }
  }
  for (int from = 0; from < $ROWS$; from += $AT_ONCE$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $AT_ONCE$ * $WIDTHS$ * 16; e += blockDim.x) {
      const int c = e % ($WIDTHS$ * 16);
      const long long at = start + from + e / ($WIDTHS$ * 16);
      chunk[e] = c < $WIDTH$ && at < $QUERIES$ ? $LOAD_COTANGENT$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $AT_ONCE$; ++k)
      #pragma unroll
      for (int j = 0; j < $WIDTHS$; ++j) {
        const $WIDE$ cotangent = chunk[k * $WIDTHS$ * 16 + x + 16 * j];
        #pragma unroll
        for (int i = 0; i < $PER$; ++i)
          to_value[i][j] = fma(weights[(y * $PER$ + i) * ($ROWS$ + 1) + from + k], cotangent,
                               to_value[i][j]);
      }
    __syncthreads();
    for (int e = threadIdx.x; e < $AT_ONCE$ * $SIZES$ * 16; e += blockDim.x) {
      const int c = e % ($SIZES$ * 16);
      const long long at = start + from + e / ($SIZES$ * 16);
      chunk[e] = c < $SIZE$ && at < $QUERIES$ ? $LOAD_QUERY$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $AT_ONCE$; ++k)
      #pragma unroll
      for (int j = 0; j < $SIZES$; ++j) {
        const $WIDE$ query = chunk[k * $SIZES$ * 16 + x + 16 * j];
        #pragma unroll
        for (int i = 0; i < $PER$; ++i)
          to_key[i][j] = fma(weighted[(y * $PER$ + i) * ($ROWS$ + 1) + from + k], query,
                             to_key[i][j]);
      }
  }
}
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long at = first + y * $PER$ + i;
  #pragma unroll
  for (int j = 0; j < $SIZES$; ++j) {
    const int column = x + 16 * j;
    const $WIDE$ value = $SCALE$ * to_key[i][j];
    if (at < $KEYS$ && column < $SIZE$) $P6$[at * $SIZE$ + column] = $STORE6$;
  }
  #pragma unroll
  for (int j = 0; j < $WIDTHS$; ++j) {
    const int column = x + 16 * j;
    const $WIDE$ value = to_value[i][j];
    if (at < $KEYS$ && column < $WIDTH$) $P7$[at * $WIDTH$ + column] = $STORE7$;
  }
}
__syncthreads();
"""
)


class AttentionGradient(Attention):
    """What the two kernels have in common; their operands begin with query, key, value and the
    cotangent, behind the numbers of :class:`Attention`."""

    template = ""
    # Which operands the rows and the columns of a tile come from: for the scores, and for the
    # gradients to the weights.
    SCORES, SLOPES = (0, 1), (3, 2)
    mask_operand = 0

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        queries, keys, size, width, row_step, column_step, *_ = text.values
        wide, letter = self._wide, "D" if self._wide == "double" else "F"
        columns = [-(-int(n) // 16) for n in (size, width)]
        is_causal = bool(self.numbers[7].data)
        kinds = [p.buffer.dtype for p in self.pointers]
        names = {
            "SCORES": self.product(text, "scores", self.SCORES, size),
            "SLOPES": self.product(text, "slopes", self.SLOPES, width),
            "WIDE": wide, "ROWS": self.rows, "PER": self.rows // 16, "DEPTH": _DEPTH,
            "AT_ONCE": _ROWS_AT_ONCE, "SIZE": size, "WIDTH": width,
            "SIZES": columns[0], "WIDTHS": columns[1],
            "CHUNK": max(2 * self.rows * (_DEPTH + 1), _ROWS_AT_ONCE * max(columns) * 16),
            "QUERIES": queries, "KEYS": keys, "TILE": text.tile[0],
            "EXP": "exp" if wide == "double" else "expf",
            "LOG": "log" if wide == "double" else "logf",
            "MAX": "fmax" if wide == "double" else "fmaxf",
            "INFINITY": f"PHIX_INFINITY_{letter}",
            "SCALE": f"({wide}){ins.constant(self.numbers[6].data, dt.float64)}",
            "END": f"phix_minimum((long long){keys}, first + {self.rows})" if is_causal else keys,
            "BEGIN": "first" if is_causal else "0",
            "SEEN": "row >= column" if is_causal else "true",
            "MASK": self._mask(text, row_step, column_step),
            "LOAD_QUERY": self._load(text, 0, "at", "c", size),
            "LOAD_KEY": self._load(text, 1, "at", "c", size),
            "LOAD_COTANGENT": self._load(text, 3, "at", "c", width),
            **{f"P{k}": operand for k, operand in enumerate(text.operands)},
            **{f"STORE{k}": ins.stored(kind, "value") for k, kind in enumerate(kinds)},
        }  # fmt: skip
        text.lines_of(text.filled_in(text.filled_in(self.template, names), names))


class QueryGradient(AttentionGradient):
    """``querygrad(..., &query, &key, &value, &cotangent, &level, &mean, &to query[, &mask])``: of
    each row its level, the logarithm of the sum of its exponentials, and the mean of the gradients
    to its weights."""

    mask_operand = 7
    template = _TO_QUERY


class KeyGradient(AttentionGradient):
    """``keygrad(..., &query, &key, &value, &cotangent, &level, &mean, &to key, &to value[,
    &mask])``."""

    SCORES, SLOPES = (1, 0), (2, 3)
    mask_operand = 8
    template = _TO_KEY

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((self.numbers[1], self.rows),)
