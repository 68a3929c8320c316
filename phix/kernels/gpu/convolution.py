"""Convolution as an implicit matrix product: patches are read where they lie, never written down.

Filters, one a row, times patches, one a column. A block has a tile of the product, in registers;
it goes along the taps, with a piece of the filters and of the patches in shared memory. Sums are of
float32 (float64 for that). Where there are few tiles and many taps, as in the gradient to filters,
the taps are parted among blocks, and what comes of the parts is added in their order afterwards.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.scalar.language import Expr

# Filters and patches of a tile, and taps at once in shared memory.
ROWS, COLUMNS, _DEPTH = 64, 128, 16


class Convolution(Routine):
    """``convolution(images, rows, height and width of the result, channels, of the filter, of the
    image, distance of two images, of two results, of two parts, parts, strides, padding above and
    to the left, dilations, &images, &filters, &result)`` of one group."""

    NAMES = (
        "IMAGES", "FILTERS", "OUT_HEIGHT", "OUT_WIDTH", "CHANNELS", "TAPS_DOWN", "TAPS_ACROSS",
        "HEIGHT", "WIDTH", "IMAGE_PITCH", "OUT_PITCH", "PART_PITCH", "PARTS", "STRIDE_DOWN",
        "STRIDE_ACROSS", "ABOVE", "LEFT", "DOWN", "ACROSS",
    )  # fmt: skip

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        images, rows, height, width = self.numbers[:4]
        parts = self.numbers[self.NAMES.index("PARTS")]
        return ((parts, 1), (rows, ROWS), (images * height * width, COLUMNS))

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        wide = "double" if self.dtype == dt.float64 else "float"
        images, filters, out = text.operands
        result = self.pointers[2].buffer.dtype
        names = {
            **dict(zip(self.NAMES, text.values)), "WIDE": wide, "TILE_ROWS": ROWS,
            "TILE_COLUMNS": COLUMNS, "DEPTH": _DEPTH, "PART": text.tile[0],
            "ROW_TILE": text.tile[1], "COLUMN_TILE": text.tile[2],
            "FILTER": ins.loaded(self.dtype, f"{filters}[row * taps + tap]"),
            "PIXEL": ins.loaded(self.dtype, "image[(channel * height + at_y) * width + at_x]"),
            "IMAGE": images, "OUT": out, "STORE": ins.stored(result, "total[i][j]"),
            "MEMORY": ins.memory_type(self.dtype), "RESULT": ins.memory_type(result),
        }  # fmt: skip
        text.lines_of(text.filled_in(_TEXT, names))


# Tiles that keep a card busy, the least taps of a part, and the most parts where taps are unknown.
_ENOUGH_TILES, _PART_TAPS, _MOST_PARTS = 132, 256, 64


def parts(filters: int | None, places: int | None, taps: int | None) -> int:
    """Into how many parts the sums over taps are cut, None being unknown; 1: not at all."""
    if filters is None or places is None or (taps is not None and taps < 2 * _PART_TAPS):
        return 1
    tiles = -(-filters // ROWS) * -(-places // COLUMNS)
    if not 0 < tiles < _ENOUGH_TILES:
        return 1
    wanted = -(-2 * _ENOUGH_TILES // tiles)
    return min(wanted, _MOST_PARTS if taps is None else taps // _PART_TAPS)


_TEXT = """
__shared__ $WIDE$ weights[$DEPTH$ * ($TILE_ROWS$ + 1)];
__shared__ $WIDE$ patches[$DEPTH$ * $TILE_COLUMNS$];
const int x = threadIdx.x & 15, y = threadIdx.x >> 4;
const long long height = $HEIGHT$, width = $WIDTH$, rows = $FILTERS$;
const long long area = $OUT_HEIGHT$ * $OUT_WIDTH$, columns = $IMAGES$ * area;
const long long window = $TAPS_DOWN$ * $TAPS_ACROSS$, taps = $CHANNELS$ * window;
// the taps of this part: whole pieces
const long long pieces = (taps + $DEPTH$ - 1) / $DEPTH$;
const long long length = (pieces + $PARTS$ - 1) / $PARTS$ * $DEPTH$;
const long long begin = $PART$ * length, end = phix_minimum(begin + length, taps);
// the column whose patch this thread reads
const long long own = $COLUMN_TILE$ * $TILE_COLUMNS$ + threadIdx.x % $TILE_COLUMNS$;
const bool is_column = own < columns;
const long long number = is_column ? phix_divide(own, area) : 0;
const long long place = is_column ? own - number * area : 0;
const long long place_y = phix_divide(place, $OUT_WIDTH$);
const long long first_y = place_y * $STRIDE_DOWN$ - $ABOVE$;
const long long first_x = (place - place_y * $OUT_WIDTH$) * $STRIDE_ACROSS$ - $LEFT$;
const $MEMORY$* const image = $IMAGE$ + number * $IMAGE_PITCH$;
$WIDE$ total[$TILE_ROWS$ / 16][$TILE_COLUMNS$ / 16];
#pragma unroll
for (int i = 0; i < $TILE_ROWS$ / 16; ++i)
  #pragma unroll
  for (int j = 0; j < $TILE_COLUMNS$ / 16; ++j) total[i][j] = 0;
for (long long start = begin; start < end; start += $DEPTH$) {
  __syncthreads();
  #pragma unroll
  for (int e = threadIdx.x; e < $DEPTH$ * $TILE_ROWS$; e += 256) {
    const long long row = $ROW_TILE$ * $TILE_ROWS$ + e / $DEPTH$, tap = start + e % $DEPTH$;
    weights[e % $DEPTH$ * ($TILE_ROWS$ + 1) + e / $DEPTH$] = row < rows && tap < end ? $FILTER$ : 0;
  }
  #pragma unroll
  for (int e = threadIdx.x; e < $DEPTH$ * $TILE_COLUMNS$; e += 256) {
    const long long tap = start + e / $TILE_COLUMNS$, channel = phix_divide(tap, window);
    const long long rest_of_tap = tap - channel * window;
    const long long tap_y = phix_divide(rest_of_tap, $TAPS_ACROSS$);
    const long long at_y = first_y + tap_y * $DOWN$;
    const long long at_x = first_x + (rest_of_tap - tap_y * $TAPS_ACROSS$) * $ACROSS$;
    const bool inside = at_y >= 0 && at_y < height && at_x >= 0 && at_x < width;
    patches[e] = is_column && tap < end && inside ? $PIXEL$ : 0;
  }
  __syncthreads();
  #pragma unroll
  for (int k = 0; k < $DEPTH$; ++k) {
    $WIDE$ a[$TILE_ROWS$ / 16], b[$TILE_COLUMNS$ / 16];
    #pragma unroll
    for (int i = 0; i < $TILE_ROWS$ / 16; ++i)
      a[i] = weights[k * ($TILE_ROWS$ + 1) + y * ($TILE_ROWS$ / 16) + i];
    #pragma unroll
    for (int j = 0; j < $TILE_COLUMNS$ / 16; ++j) b[j] = patches[k * $TILE_COLUMNS$ + x + 16 * j];
    #pragma unroll
    for (int i = 0; i < $TILE_ROWS$ / 16; ++i)
      #pragma unroll
      for (int j = 0; j < $TILE_COLUMNS$ / 16; ++j) total[i][j] += a[i] * b[j];
  }
}
$RESULT$* const out = $OUT$ + $PART$ * $PART_PITCH$;
#pragma unroll
for (int j = 0; j < $TILE_COLUMNS$ / 16; ++j) {
  const long long column = $COLUMN_TILE$ * $TILE_COLUMNS$ + x + 16 * j;
  if (column < columns) {
    const long long of = phix_divide(column, area);
    $RESULT$* const plane = out + of * $OUT_PITCH$ + (column - of * area);
    #pragma unroll
    for (int i = 0; i < $TILE_ROWS$ / 16; ++i) {
      const long long row = $ROW_TILE$ * $TILE_ROWS$ + y * ($TILE_ROWS$ / 16) + i;
      if (row < rows) plane[row * area] = $STORE$;
    }
  }
}
"""
