"""The gradients of attention as two kernels, which compute the weights again, tile by tile.

In both, a tile of weights is kept beside one of the gradients to them, in shared memory. The first
kernel has a tile of queries in each block and goes along the keys: the largest score of each row,
the sum of its exponentials and the mean of the gradients are brought up to date on the way, as in
the forward kernel, and what the mean takes off is subtracted at the end. The second has a tile of
keys and goes along the queries, with those numbers of each row at hand. Sums are of float32
(float64 for that), always in the same order.
"""

from __future__ import annotations

from typing import ClassVar

from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.attention import BEGIN, GO_ALONG, WEIGHTS, Attention, Tiles
from phix.kernels.gpu.register_tiles import CLEARED, MicroTile, Phase
from phix.kernels.gpu.routines import RoutineText
from phix.kernels.scalar.language import Expr

# with w the exponentials, s their sum and g the gradients to the weights: w g / s - (w g / s) w / s
_TO_QUERY = (
    BEGIN
    + """
__shared__ __align__(16) $WIDE$ weighted[$ROWS$ * $WEIGHT_PITCH$];
const long long first = $FIRST$, end = $END$;
$WIDE$ total[$PER$][$SIZE_SUMS$], plain[$PER$][$SIZE_SUMS$];
$WIDE$ largest[$PER$], sum[$PER$], mean[$PER$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  largest[i] = -unseen;
  sum[i] = mean[i] = 0;
  #pragma unroll
  for (int j = 0; j < $SIZE_SUMS$; ++j) total[i][j] = plain[i][j] = 0;
}
"""
    + GO_ALONG
    + """
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long row = first + own + 4 * i;
  const $WIDE$ share = mean[i] / sum[i];
  if (row < $QUERIES$) {
    if (x == 0) {
      $P4$[row] = largest[i] + $LOG$(sum[i]);
      $P5$[row] = share;
    }
    #pragma unroll
    for (int j = 0; j < $SIZE_SUMS$; ++j) {
      const int column = (j / $VECTOR$ * 8 + x) * $VECTOR$ + j % $VECTOR$;
      const $WIDE$ value = $KEYS$ > 0 ? $SCALE$ * (total[i][j] - share * plain[i][j]) / sum[i] : 0;
      if (column < $SIZE$) $P6$[row * $SIZE$ + column] = $STORE6$;
    }
  }
}
__syncthreads();
"""
)

_SHRINK = """    mean[i] *= shrink;
    #pragma unroll
    for (int j = 0; j < $SIZE_SUMS$; ++j) {
      total[i][j] *= shrink;
      plain[i][j] *= shrink;
    }
  }
"""

# A thread has the weights of its own slopes.
_WEIGHTED_SLOPES = """
  #pragma unroll
  for (int i = 0; i < $PER$; ++i) {
    $WIDE$ slope = 0;
    #pragma unroll
    for (int j = 0; j < $EACH$; ++j) {
      const int place = (own + 4 * i) * $WEIGHT_PITCH$ + x + 8 * j;
      const $WIDE$ product = weights[place] * slopes[i][j];
      weighted[place] = product;
      slope += product;
    }
    #pragma unroll
    for (int step = 2; step < 16; step <<= 1) slope += __shfl_xor_sync(0xffffffffu, slope, step);
    mean[i] += slope;
  }
  __syncwarp();
"""

_TO_KEY = (
    BEGIN
    + """
const long long first = $TILE$ * $ROWS$;
$WIDE$ to_key[$PER$][$SIZE_SUMS$], to_value[$PER$][$WIDTH_SUMS$];
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  #pragma unroll
  for (int j = 0; j < $SIZE_SUMS$; ++j) to_key[i][j] = 0;
  #pragma unroll
  for (int j = 0; j < $WIDTH_SUMS$; ++j) to_value[i][j] = 0;
}
"""
    + GO_ALONG
    + """
#pragma unroll
for (int i = 0; i < $PER$; ++i) {
  const long long at = first + own + 4 * i;
  #pragma unroll
  for (int j = 0; j < $SIZE_SUMS$; ++j) {
    const int column = (j / $VECTOR$ * 8 + x) * $VECTOR$ + j % $VECTOR$;
    const $WIDE$ value = $SCALE$ * to_key[i][j];
    if (at < $KEYS$ && column < $SIZE$) $P6$[at * $SIZE$ + column] = $STORE6$;
  }
  #pragma unroll
  for (int j = 0; j < $WIDTH_SUMS$; ++j) {
    const int column = (j / $VECTOR$ * 8 + x) * $VECTOR$ + j % $VECTOR$;
    const $WIDE$ value = to_value[i][j];
    if (at < $KEYS$ && column < $WIDTH$) $P7$[at * $WIDTH$ + column] = $STORE7$;
  }
}
__syncthreads();
"""
)

_WEIGHTS_OF_KEYS = """
  const int rows_left = (int)phix_minimum($QUERIES$ - start, (long long)$ACROSS$);
  const int columns_left = (int)phix_minimum($KEYS$ - first, (long long)$ROWS$);
  const int ahead = (int)phix_minimum(start - first, (long long)$ROWS$);
  #pragma unroll
  for (int j = 0; j < $EACH$; ++j) {
    const int r = x + 8 * j;
    const long long row = start + r;
    const $WIDE$ level = r < rows_left ? $P4$[row] : 0;
    #pragma unroll
    for (int i = 0; i < $PER$; ++i) {
      const int c = own + 4 * i;
      const long long column = first + c;
      const bool is_inside = r < rows_left && c < columns_left, is_seen = is_inside && $SEEN$;
      $WIDE$ score = scores[i][j] * $SCALE$;
      if (is_seen) {
        $MASK$
      }
      const $WIDE$ power = $EXP$((is_seen ? score : -unseen) - level);
      weights[c * $WEIGHT_PITCH$ + r] = is_inside ? power : 0;
    }
  }
  __syncwarp();
"""

# The gradients to the scores, in place of the weights.
_SLOPES_OF_KEYS = """
  #pragma unroll
  for (int j = 0; j < $EACH$; ++j) {
    const int r = x + 8 * j;
    const $WIDE$ mean = r < rows_left ? $P5$[start + r] : 0;
    #pragma unroll
    for (int i = 0; i < $PER$; ++i) {
      const int c = own + 4 * i;
      const $WIDE$ slope = weights[c * $WEIGHT_PITCH$ + r] * (slopes[i][j] - mean);
      weights[c * $WEIGHT_PITCH$ + r] = r < rows_left && c < columns_left ? slope : 0;
    }
  }
  __syncwarp();
"""


class AttentionGradient(Attention):
    """What the two kernels have in common; their operands begin with query, key, value and the
    cotangent, behind the numbers of :class:`Attention`."""

    template = ""
    # Where the tiles that are gone along begin and end.
    begin, end = "0", "end"
    mask_operand = 0

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        kinds = [p.buffer.dtype for p in self.pointers]
        names = self.names_in_text(text, self.phases(text), self.end) | {
            "SIZE_SUMS": self.sums(2), "WIDTH_SUMS": self.sums(3),
            "FIRST": self.first_query, "END": self.end_of_keys,
            "BEGIN": self.begin,
            "SEEN": "r + ahead >= c" if self.is_causal else "true",
            **{f"STORE{k}": ins.stored(kind, "value") for k, kind in enumerate(kinds)},
        }  # fmt: skip
        text.lines_of(self.printed(text, self.template, names))

    def phases(self, text: RoutineText) -> list[Phase | str]:
        """What is done to a tile; see :func:`chain <phix.kernels.gpu.register_tiles.chain>`."""
        raise NotImplementedError


class QueryGradient(AttentionGradient):
    """``querygrad(..., &query, &key, &value, &cotangent, &level, &mean, &to query[, &mask])``: of
    each row its level, the logarithm of the sum of its exponentials, and the mean of the gradients
    to its weights."""

    PLAIN_TILES: ClassVar[Tiles] = {
        4: {
            64: (MicroTile(4, 4, 64, 8, 3), MicroTile(4, 2, 64, 16), MicroTile(4, 1, 64, 32)),
            128: (MicroTile(4, 4, 32, 16, 2), MicroTile(4, 2, 32, 16), MicroTile(4, 1, 32, 32)),
            256: (MicroTile(4, 2, 32, 16, 2), MicroTile(4, 1, 32, 32)),
        },
        8: {
            64: (MicroTile(4, 2, 32, 8), MicroTile(4, 1, 32, 8)),
            256: (MicroTile(4, 1, 32, 8),),
        },
    }
    ENDS = ("$QUERIES$", "end", "end", "$QUERIES$")
    mask_operand = 7
    template = _TO_QUERY

    def phases(self, text: RoutineText) -> list[Phase | str]:
        return [
            CLEARED.replace("$NAME$", "scores"),
            self.product(text, "scores", (0, 1), 2),
            WEIGHTS + _SHRINK + CLEARED.replace("$NAME$", "slopes"),
            self.product(text, "slopes", (3, 2), 3),
            _WEIGHTED_SLOPES,
            self.weighted(text, 1, 2, ("total", "weighted"), ("plain", "weights")),
        ]


class KeyGradient(AttentionGradient):
    """``keygrad(..., &query, &key, &value, &cotangent, &level, &mean, &to key, &to value[,
    &mask])``."""

    PLAIN_TILES: ClassVar[Tiles] = {
        4: {
            64: (MicroTile(4, 4, 64, 16, 3), MicroTile(4, 2, 64, 16), MicroTile(4, 1, 64, 32)),
            128: (MicroTile(4, 4, 32, 16, 2), MicroTile(4, 2, 32, 16), MicroTile(4, 1, 32, 32)),
            256: (MicroTile(4, 2, 32, 16, 2), MicroTile(4, 1, 32, 32)),
        },
        8: {
            64: (MicroTile(4, 2, 32, 8), MicroTile(4, 1, 32, 8)),
            256: (MicroTile(4, 1, 32, 8),),
        },
    }
    ENDS = ("$QUERIES$", "$KEYS$", "$KEYS$", "$QUERIES$")
    mask_operand = 8
    template = _TO_KEY
    end = "$QUERIES$"

    @property
    def row_count(self) -> Expr:
        return self.numbers[1]

    @property
    def begin(self) -> str:  # type: ignore[override]
        return "first" if self.is_causal else "0"

    def phases(self, text: RoutineText) -> list[Phase | str]:
        return [
            CLEARED.replace("$NAME$", "scores"),
            self.product(text, "scores", (1, 0), 2),
            _WEIGHTS_OF_KEYS,
            self.weighted(text, 3, 3, ("to_value", "weights")),
            CLEARED.replace("$NAME$", "slopes"),
            self.product(text, "slopes", (2, 3), 3),
            _SLOPES_OF_KEYS,
            self.weighted(text, 0, 2, ("to_key", "weights")),
        ]
