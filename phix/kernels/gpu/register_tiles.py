"""Products on the plain units: a thread has a small tile of results in registers.

A block goes through *phases* of *chunks*. While it computes with a chunk in one half of the shared
memory, the next one, of this phase or of the one that follows, is copied into the other half.
Operands lie in shared memory by rows, and threads load sixteen bytes at once.

A warp has four times ``per`` rows of a tile and all of its columns: lane ``l`` rows
``own + 4 * i`` and columns ``x + 8 * j``, where ``x`` is ``l / 2 % 8``. So every two lanes, and
every fourth, load the same, and what eight lanes load is in different banks: rows of operands are
an odd number of sixteen bytes apart.
"""

from __future__ import annotations

from phix.core.records import dataclass

WARP = 32
# Threads of a warp along a row, and how many rows of them it has.
ALONG, DOWN = 8, 4


@dataclass(frozen=True)
class MicroTile:
    """Warps of a block, rows of each thread, columns of a tile, and how much of the inner size of
    a product is in shared memory at once. ``resident``: see :class:`Routine`; a compiler that is
    not told it saves registers where it should not."""

    warps: int
    per: int
    across: int
    depth: int
    resident: int = 2

    @property
    def rows(self) -> int:
        return DOWN * self.warps * self.per

    @property
    def threads(self) -> int:
        return WARP * self.warps

    @property
    def each(self) -> int:
        """Columns of each thread."""
        return self.across // ALONG

    @property
    def unroll(self) -> int:
        """Steps of a product at once: with few results there is little else to do while loads are
        under way, with many there are no registers for it."""
        return max(32 // (self.per * self.each), 1)


@dataclass(frozen=True)
class Phase:
    """Chunks from 0 to ``stop``: ``copy`` brings the one at ``$AT$`` of the tile at ``$START$`` to
    ``$TO$``, ``compute`` uses the one at ``now``, which begins at ``at``. A chunk has ``size``
    elements at most."""

    stop: str
    step: int
    size: int
    copy: str
    compute: str

    def copied(self, to: str, start: str, at: str) -> str:
        """The text that begins to copy a chunk."""
        text = self.copy.replace("$TO$", to).replace("$START$", start)
        return text.replace("$AT$", at).strip("\n")

    def text(self, following: str) -> str:
        """The loop over the chunks, which copies those that follow it with its last."""
        ahead = self.copied("next", "start", f"(at + {self.step})")
        names = {"STOP": self.stop, "STEP": self.step, "AHEAD": ahead, "FOLLOWING": following}
        text = _PHASE
        for name, value in names.items():
            text = text.replace(f"${name}$", str(value))
        return text.replace("$COMPUTE$", self.compute)


_PHASE = """
  #pragma unroll 1
  for (int at = 0; at < $STOP$; at += $STEP$) {
    phix_await_copies();
    __syncthreads();
    const $WIDE$ *const now = chunks + stage * $STAGE$;
    stage ^= 1;
    $WIDE$ *const next = chunks + stage * $STAGE$;
    if (at + $STEP$ < $STOP$) {
    $AHEAD$
    } else {
    $FOLLOWING$
    }
$COMPUTE$
  }
"""


def chain(parts: list[Phase | str], end: str) -> tuple[str, str]:
    """What begins the first copy, and what is done to the tile at ``start``: phases, and text
    between them. The last phase begins to copy for the next tile, if that is before ``end``."""
    phases = [part for part in parts if isinstance(part, Phase)]
    later = phases[0].copied("next", "(start + $ACROSS$)", "0")
    following = [p.copied("next", "start", "0") for p in phases[1:]]
    following.append(f"      if (start + $ACROSS$ < {end}) {{\n{later}\n      }}")
    left = iter(following)
    body = [p if isinstance(p, str) else p.text(next(left)) for p in parts]
    return phases[0].copied("chunks", "start", "0"), "".join(body)


def chunk_rows(columns: int, most: int, across: int, least: int) -> int:
    """Rows of a matrix that are in shared memory at once: a part of a tile's, but ``least`` at
    least, and no more than so many elements where that can be."""
    count = across
    while count > least and count * columns > most:
        count //= 2
    return count


# Results of a product, none yet.
CLEARED = """
  $WIDE$ $NAME$[$PER$][$EACH$];
  #pragma unroll
  for (int i = 0; i < $PER$; ++i)
    #pragma unroll
    for (int j = 0; j < $EACH$; ++j) $NAME$[i][j] = 0;
"""

# To NAME the products of rows of two operands, the second behind the first in the chunk.
ADD_PRODUCT = """
    #pragma unroll $UNROLL$
    for (int c = 0; c < $DEPTH$; c += $VECTOR$) {
      $PACK$ a[$PER$];
      #pragma unroll
      for (int i = 0; i < $PER$; ++i)
        a[i] = *(const $PACK$ *)(now + (own + 4 * i) * $PITCH$ + c);
      #pragma unroll
      for (int j = 0; j < $EACH$; ++j) {
        const $PACK$ b = *(const $PACK$ *)(now + ($ROWS$ + x + 8 * j) * $PITCH$ + c);
        #pragma unroll
        for (int v = 0; v < $VECTOR$; ++v)
          #pragma unroll
          for (int i = 0; i < $PER$; ++i) $NAME$[i][j] = fma(a[i].at[v], b.at[v], $NAME$[i][j]);
      }
    }
"""

# Each sum of a thread is of the columns ``x * VECTOR + u`` and every so many behind it.
_ADD_WEIGHTED = """
    #pragma unroll 2
    for (int k = 0; k < $CHUNK_ROWS$; k += $VECTOR$) {
      $PACK$ $DECLARED$;
      #pragma unroll
      for (int i = 0; i < $PER$; ++i) {
        const int place = (own + 4 * i) * $WEIGHT_PITCH$ + at + k;
        $LOADS$
      }
      #pragma unroll
      for (int v = 0; v < $VECTOR$; ++v)
        #pragma unroll
        for (int g = 0; g < $GROUPS$; ++g) {
          const $PACK$ b =
              *(const $PACK$ *)(now + (k + v) * $COLUMNS$ + (g * 8 + x) * $VECTOR$);
          #pragma unroll
          for (int i = 0; i < $PER$; ++i)
            #pragma unroll
            for (int u = 0; u < $VECTOR$; ++u) {
              $ADDS$
            }
        }
    }
"""


def add_weighted(*pairs: tuple[str, str]) -> str:
    """Sums of that name go on by the chunk's rows, as often as weights of that name say."""
    declared = ", ".join(f"of_{sums}[$PER$]" for sums, _ in pairs)
    loads = [f"of_{sums}[i] = *(const $PACK$ *)({weights} + place);" for sums, weights in pairs]
    adds = [
        f"{sums}[i][g * $VECTOR$ + u] = fma(of_{sums}[i].at[v], b.at[u], "
        f"{sums}[i][g * $VECTOR$ + u]);"
        for sums, _ in pairs
    ]
    names = {"DECLARED": declared, "LOADS": "\n        ".join(loads), "ADDS": " ".join(adds)}
    text = _ADD_WEIGHTED
    for name, value in names.items():
        text = text.replace(f"${name}$", value)
    return text


TEXT = r"""
// Rows of a matrix of SIZE columns into shared memory, by THREADS threads: COLUMNS of them, PITCH
// apart, with zeros behind the last row and column there are. Copies are still to be awaited.
template <int ROWS, int COLUMNS, int SIZE, int PITCH, int THREADS, typename T>
PHIX_DEVICE void phix_copy_tile(T *to, const T *from, long long rows, int columns) {
  constexpr int vector = 16 / sizeof(T), chunks = COLUMNS / vector, step = THREADS / chunks;
  const int count = rows < ROWS ? (int)rows : ROWS;
  if (SIZE % vector == 0 && (unsigned long long)from % 16 == 0) {
    if (THREADS % chunks == 0) {  // a thread stays in its column
      const int own = threadIdx.x / chunks, c = threadIdx.x % chunks * vector;
      to += own * PITCH + c;
      from += own * SIZE + c;
      const int left = c < columns ? count - own : 0;
      #pragma unroll
      for (int r = 0; r < ROWS; r += step)
        if (ROWS % step == 0 || own + r < ROWS)
          phix_copy8((unsigned short *)(to + r * PITCH), (const unsigned short *)(from + r * SIZE),
                     r < left);
      return;
    }
    #pragma unroll
    for (int e = threadIdx.x; e < ROWS * chunks; e += THREADS) {
      const int r = e / chunks, c = e % chunks * vector;
      phix_copy8((unsigned short *)(to + r * PITCH + c),
                 (const unsigned short *)(from + r * SIZE + c), r < count && c < columns);
    }
    return;
  }
  constexpr int words = sizeof(T) / 4, width = COLUMNS * words;
  #pragma unroll 1
  for (int e = threadIdx.x; e < ROWS * width; e += THREADS) {
    const int r = e / width, c = e % width;
    phix_copy1((float *)to + r * (PITCH * words) + c, (const float *)from + r * (SIZE * words) + c,
               r < count && c < columns * words);
  }
}
"""
