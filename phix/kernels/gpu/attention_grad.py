"""The gradients of attention as two kernels, which compute the weights again, tile by tile.

In both, a tile of weights is kept beside one of the gradients to them, in shared memory. The first
kernel has a tile of queries in each block and goes along the keys: the largest score of each row,
the sum of its exponentials and the mean of the gradients are brought up to date on the way, as in
the forward kernel, and what the mean takes off is subtracted at the end. The second has a tile of
keys and goes along the queries, with those numbers of each row at hand. Sums are of float32
(float64 for that), always in the same order.
"""

from __future__ import annotations

from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.attention import ACROSS, ROW_TOPS, Attention
from phix.kernels.gpu.routines import RoutineText

# So many columns of two operands, and rows of what is weighted, are in shared memory at once.
_DEPTH, _ROWS_AT_ONCE = 16, 8

_BEGIN = """
__shared__ __align__(16) $WIDE$ chunk[$CHUNK$];
__shared__ __align__(16) $WIDE$ weights[$ROWS$ * $ALONG_PITCH$];
__shared__ __align__(16) $WIDE$ weighted[$ROWS$ * $ALONG_PITCH$];
$WIDE$* const left = chunk;
$WIDE$* const right = chunk + $DEPTH$ * $ROW_PITCH$;
const $WIDE$ unseen = $INFINITY$;
const int x = threadIdx.x % $ACROSS$, y = threadIdx.x / $ACROSS$;
const long long first = $FIRST$;
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
for (long long start = 0; start < end; start += $ALONG$) {
  $WIDE$ scores[$PER$][$PER$], slopes[$PER$][$PER$];
$SCORES$
$SLOPES$
"""
    + ROW_TOPS
    + """    $WIDE$ added = 0, slope = 0;
    $PACK$ own, sloped;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      own.at[j] = scores[i][j] == -unseen ? 0 : $EXP$(scores[i][j] - top);
      sloped.at[j] = own.at[j] * slopes[i][j];
      added += own.at[j];
      slope += sloped.at[j];
    }
    const int place = (y * $PER$ + i) * $ALONG_PITCH$ + x * $PER$;
    *($PACK$*)(weights + place) = own;
    *($PACK$*)(weighted + place) = sloped;
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
  for (int from = 0; from < $ALONG$; from += $AT_ONCE$) {
    __syncthreads();
    for (int e = threadIdx.x; e < $AT_ONCE$ * $SIZE_PITCH$; e += blockDim.x) {
      const int c = e % $SIZE_PITCH$;
      const long long at = start + from + e / $SIZE_PITCH$;
      chunk[e] = c < $SIZE$ && at < $KEYS$ ? $LOAD_KEY$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $AT_ONCE$; k += $PER$) {
      $PACK$ a[$PER$], b[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i) {
        const int place = (y * $PER$ + i) * $ALONG_PITCH$ + from + k;
        a[i] = *(const $PACK$*)(weighted + place);
        b[i] = *(const $PACK$*)(weights + place);
      }
      #pragma unroll
      for (int n = 0; n < $PER$; ++n)
        #pragma unroll
        for (int j = 0; j < $SIZES$; j += $PER$) {
          const $PACK$ key = *(const $PACK$*)(chunk + (k + n) * $SIZE_PITCH$ + j * $ACROSS$
                                              + x * $PER$);
          #pragma unroll
          for (int i = 0; i < $PER$; ++i)
            #pragma unroll
            for (int m = 0; m < $PER$; ++m) {
              total[i][j + m] = fma(a[i].at[n], key.at[m], total[i][j + m]);
              plain[i][j + m] = fma(b[i].at[n], key.at[m], plain[i][j + m]);
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
      const int column = j / $PER$ * $ALONG$ + x * $PER$ + j % $PER$;
      const $WIDE$ value = $KEYS$ > 0 ? $SCALE$ * (total[i][j] - share * plain[i][j]) / sum[i] : 0;
      if (column < $SIZE$) $P6$[row * $SIZE$ + column] = $STORE6$;
    }
  }
}
__syncthreads();
"""
)

# Rows of an operand, weighted, are added up: those from ``from`` on of a tile.
_WEIGH = """
    __syncthreads();
    for (int e = threadIdx.x; e < $AT_ONCE$ * $PITCH$; e += blockDim.x) {
      const int c = e % $PITCH$;
      const long long at = start + from + e / $PITCH$;
      chunk[e] = c < $LENGTH$ && at < $QUERIES$ ? $LOAD$ : 0;
    }
    __syncthreads();
    for (int k = 0; k < $AT_ONCE$; k += $PER$) {
      $PACK$ a[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i)
        a[i] = *(const $PACK$*)($BY$ + (y * $PER$ + i) * $ALONG_PITCH$ + from + k);
      #pragma unroll
      for (int n = 0; n < $PER$; ++n)
        #pragma unroll
        for (int j = 0; j < $COUNT$; j += $PER$) {
          const $PACK$ row = *(const $PACK$*)(chunk + (k + n) * $PITCH$ + j * $ACROSS$ + x * $PER$);
          #pragma unroll
          for (int i = 0; i < $PER$; ++i)
            #pragma unroll
            for (int m = 0; m < $PER$; ++m)
              $SUM$[i][j + m] = fma(a[i].at[n], row.at[m], $SUM$[i][j + m]);
        }
    }
"""

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
for (long long start = $BEGIN$; start < $QUERIES$; start += $ALONG$) {
  $WIDE$ scores[$PER$][$PER$], slopes[$PER$][$PER$];
$SCORES$
$SLOPES$
  $WIDE$ level[$PER$], mean[$PER$];
  #pragma unroll
  for (int j = 0; j < $PER$; ++j) {
    const long long row = start + x * $PER$ + j;
    level[j] = row < $QUERIES$ ? $P4$[row] : 0;
    mean[j] = row < $QUERIES$ ? $P5$[row] : 0;
  }
  #pragma unroll
  for (int i = 0; i < $PER$; ++i) {
    const long long column = first + y * $PER$ + i;
    $PACK$ own, sloped;
    #pragma unroll
    for (int j = 0; j < $PER$; ++j) {
      const long long row = start + x * $PER$ + j;
      own.at[j] = sloped.at[j] = 0;
      if (row < $QUERIES$ && column < $KEYS$) {
        $WIDE$ score = -unseen;
        if ($SEEN$) {
          score = scores[i][j] * $SCALE$;
          $MASK$
        }
        own.at[j] = $EXP$(score - level[j]);
        sloped.at[j] = own.at[j] * (slopes[i][j] - mean[j]);
      }
    }
    const int place = (y * $PER$ + i) * $ALONG_PITCH$ + x * $PER$;
    *($PACK$*)(weights + place) = own;
    *($PACK$*)(weighted + place) = sloped;
  }
  for (int from = 0; from < $ALONG$; from += $AT_ONCE$) {
$TO_VALUE$
$TO_KEY$
  }
}
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long at = first + y * $PER$ + i;
  #pragma unroll
  for (int j = 0; j < $SIZES$; ++j) {
    const int column = j / $PER$ * $ALONG$ + x * $PER$ + j % $PER$;
    const $WIDE$ value = $SCALE$ * to_key[i][j];
    if (at < $KEYS$ && column < $SIZE$) $P6$[at * $SIZE$ + column] = $STORE6$;
  }
  #pragma unroll
  for (int j = 0; j < $WIDTHS$; ++j) {
    const int column = j / $PER$ * $ALONG$ + x * $PER$ + j % $PER$;
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
        _, _, size, width, row_step, column_step, *_ = text.values
        kinds = [p.buffer.dtype for p in self.pointers]
        pitches = [self.padded(n) for n in (size, width)]
        names = self.names_of_tiles(text, _DEPTH) | {
            "SCORES": self.product(text, "scores", self.SCORES, size),
            "SLOPES": self.product(text, "slopes", self.SLOPES, width),
            "AT_ONCE": _ROWS_AT_ONCE, "SIZE_PITCH": pitches[0],
            "SIZES": pitches[0] // ACROSS, "WIDTHS": pitches[1] // ACROSS,
            "CHUNK": self.chunk(_DEPTH, _ROWS_AT_ONCE * max(pitches)),
            "LOG": "log" if self._wide == "double" else "logf",
            "BEGIN": "first" if bool(self.numbers[7].data) else "0",
            "MASK": self._mask(text, row_step, column_step),
            "LOAD_KEY": self._load(text, 1, "at", "c", size),
            "TO_VALUE": self._weigh(text, "to_value", "weights", 3, width),
            "TO_KEY": self._weigh(text, "to_key", "weighted", 0, size),
            **{f"P{k}": operand for k, operand in enumerate(text.operands)},
            **{f"STORE{k}": ins.stored(kind, "value") for k, kind in enumerate(kinds)},
        }  # fmt: skip
        text.lines_of(text.filled_in(text.filled_in(self.template, names), names))

    def _weigh(self, text: RoutineText, total: str, by: str, which: int, length: str) -> str:
        """The lines that add up rows of an operand to a total."""
        pitch = self.padded(length)
        names = {
            "SUM": total, "BY": by, "LENGTH": length, "PITCH": pitch, "COUNT": pitch // ACROSS,
            "LOAD": self._load(text, which, "at", "c", length),
        }  # fmt: skip
        return text.filled_in(_WEIGH, names)


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
    own_rows = 1
    template = _TO_KEY
