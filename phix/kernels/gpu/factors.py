"""Factorisations and triangular systems: a block a matrix, in its place in memory.

Matrices of one batch are done at once. A large matrix alone keeps one block busy and the rest of
the card idle, so those go to cuSOLVER and cuBLAS where CuPy finds them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from math import prod

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.gpu.runtime import FactorCall
from phix.kernels.loops.sizes import integer
from phix.kernels.scalar.language import Expr

# Matrices of more rows are large; those of at most so many are not, if there are as many of them.
_SMALL, _MIDDLE, _MANY = 64, 512, 16
# Right-hand sides that one block solves for.
_COLUMNS = 64


class Factor(Routine):
    """A call of LAPACK's or the BLAS' form: ``(flags, sizes, pointers)``, flags known."""

    routine: str
    flag_count: int
    template: str

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ()

    def is_large(self, numbers: Mapping[str, int]) -> bool:
        """Whether a library is better at it."""
        rows = max(integer(e, numbers) for e in self.matrix_sizes)
        count = prod(integer(loop.extent, numbers) for loop in self.loops)
        return rows > _SMALL and not (rows <= _MIDDLE and count >= _MANY)

    @property
    def matrix_sizes(self) -> list[Expr]:
        """The rows and columns of what is factored."""
        return self.numbers[self.flag_count :]

    @property
    def flags(self) -> list[bool]:
        return [bool(e.data) for e in self.numbers[: self.flag_count]]

    def calls(self, addresses: list[int], numbers: Mapping[str, int]) -> Iterator[FactorCall]:
        """The calls of a library, one a matrix, for buffers at these addresses."""
        sizes = tuple(integer(e, numbers) for e in self.numbers[self.flag_count :])
        names = [loop.index.data for loop in self.loops]
        extents = [range(integer(loop.extent, numbers)) for loop in self.loops]
        for place in itertools.product(*extents):
            known = {**numbers, **dict(zip(names, place))}
            at = (
                address + integer(p.offset, known) * p.buffer.dtype.itemsize
                for address, p in zip(addresses, self.pointers)
            )
            yield FactorCall(self.routine, self.dtype, tuple(self.flags), sizes, tuple(at))

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        real = ins.type_of(dt.real_dtype(self.dtype))
        names = {
            "T": f"phix_complex<{real}>" if dt.is_complex(self.dtype) else real, "REAL": real,
            "SQRT": "sqrtf" if real == "float" else "sqrt", **self.names_in(text),
        }  # fmt: skip
        text.lines_of(text.filled_in(self.template, names))

    def names_in(self, text: RoutineText) -> dict[str, object]:
        """What stands in the template for this call."""
        raise NotImplementedError


class Cholesky(Factor):
    """``potrf(upper, n, &a, &info)``: A = L L^H in the lower triangle, or L^H in the upper one."""

    routine, flag_count = "potrf", 1

    def names_in(self, text: RoutineText) -> dict[str, object]:
        (upper,), (matrix, info) = self.flags, text.operands
        across, down = ("slow", "fast") if upper else ("fast", "slow")
        return {"N": text.values[1], "A": matrix, "INFO": info, "ROW": down, "COLUMN": across,
                "AT": "[j * n + i]" if upper else "[i * n + j]",
                "AT_IK": "[k * n + i]" if upper else "[i * n + k]",
                "AT_JK": "[k * n + j]" if upper else "[j * n + k]"}  # fmt: skip

    template = """
$T$* const a = $A$;
const long long n = $N$;
int info = 0;
for (long long k = 0; k < n; ++k) {
  __syncthreads();
  const $REAL$ square = phix_real(a[k * n + k]);
  if (!(square > 0)) {
    info = (int)(k + 1);
    break;
  }
  const $REAL$ root = $SQRT$(square);
  for (long long i = k + 1 + threadIdx.x; i < n; i += blockDim.x) a$AT_IK$ = a$AT_IK$ / root;
  __syncthreads();
  if (threadIdx.x == 0) a[k * n + k] = $T${root};
  const long long rest = n - k - 1;
  for (long long e = threadIdx.x; e < rest * rest; e += blockDim.x) {
    const long long slow = k + 1 + e / rest, fast = k + 1 + e % rest, i = $ROW$, j = $COLUMN$;
    if (j <= i) a$AT$ = a$AT$ - a$AT_IK$ * phix_conjugate(a$AT_JK$);
  }
}
if (threadIdx.x == 0) *$INFO$ = info;
__syncthreads();
"""


class Lu(Factor):
    """``getrf(m, n, &a, &pivots, &info)`` of a matrix whose columns lie one after the other."""

    routine, flag_count = "getrf", 0

    def names_in(self, text: RoutineText) -> dict[str, object]:
        matrix, pivots, info = text.operands
        rows, columns = text.values
        return {"M": rows, "N": columns, "A": matrix, "PIVOTS": pivots, "INFO": info,
                "THREADS": self.threads}  # fmt: skip

    template = """
__shared__ $REAL$ sizes[$THREADS$];
__shared__ long long places[$THREADS$];
$T$* const a = $A$;
const long long m = $M$, n = $N$;
int info = 0;
for (long long k = 0; k < m && k < n; ++k) {
  __syncthreads();
  $REAL$ best = -1;
  long long at = k;
  for (long long i = k + threadIdx.x; i < m; i += blockDim.x) {
    const $REAL$ size = phix_size(a[k * m + i]);
    if (size > best) {
      best = size;
      at = i;
    }
  }
  sizes[threadIdx.x] = best;
  places[threadIdx.x] = at;
  __syncthreads();
  for (int step = $THREADS$ / 2; step > 0; step >>= 1) {
    if (threadIdx.x < step) {
      const $REAL$ other = sizes[threadIdx.x + step], own = sizes[threadIdx.x];
      const long long there = places[threadIdx.x + step];
      if (other > own || (other == own && there < places[threadIdx.x])) {
        sizes[threadIdx.x] = other;
        places[threadIdx.x] = there;
      }
    }
    __syncthreads();
  }
  at = places[0];
  best = sizes[0];
  if (threadIdx.x == 0) $PIVOTS$[k] = (int)(at + 1);
  if (best == 0) {
    if (info == 0) info = (int)(k + 1);
    continue;
  }
  if (at != k)
    for (long long j = threadIdx.x; j < n; j += blockDim.x) {
      const $T$ kept = a[j * m + k];
      a[j * m + k] = a[j * m + at];
      a[j * m + at] = kept;
    }
  __syncthreads();
  const $T$ pivot = a[k * m + k];
  for (long long i = k + 1 + threadIdx.x; i < m; i += blockDim.x)
    a[k * m + i] = a[k * m + i] / pivot;
  __syncthreads();
  const long long below = m - k - 1, beside = n - k - 1;
  for (long long e = threadIdx.x; e < below * beside; e += blockDim.x) {
    const long long i = k + 1 + e % below, j = k + 1 + e / below;
    a[j * m + i] = a[j * m + i] - a[k * m + i] * a[j * m + k];
  }
}
if (threadIdx.x == 0) *$INFO$ = info;
__syncthreads();
"""


class Triangle(Factor):
    """``trsm(upper, transpose, unitriangular, n, columns, &a, &b)``: b := op(A)^-1 b."""

    routine, flag_count = "trsm", 3

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((self.numbers[4], _COLUMNS),)

    @property
    def matrix_sizes(self) -> list[Expr]:
        return self.numbers[3:4]

    def names_in(self, text: RoutineText) -> dict[str, object]:
        upper, transpose, unit = self.flags
        last_first = upper != transpose
        matrix, right = text.operands
        return {"N": text.values[3], "COLUMNS": text.values[4], "A": matrix, "B": right,
                "TILE": text.tile[0], "TILE_COLUMNS": _COLUMNS,
                "AT": "[i * n + row]" if transpose else "[row * n + i]",
                "I": "n - 1 - step" if last_first else "step",
                "ROW": "r" if last_first else "i + 1 + r",
                "DIVIDES": "false" if unit else "true"}  # fmt: skip

    template = """
const $T$* const a = $A$;
const long long n = $N$, columns = $COLUMNS$, first = $TILE$ * $TILE_COLUMNS$;
const long long width = phix_minimum((long long)$TILE_COLUMNS$, columns - first);
$T$* const b = $B$ + first;
for (long long step = 0; step < n; ++step) {
  const long long i = $I$;
  __syncthreads();
  if ($DIVIDES$) {
    const $T$ diagonal = a[i * n + i];
    for (long long c = threadIdx.x; c < width; c += blockDim.x)
      b[i * columns + c] = b[i * columns + c] / diagonal;
  }
  __syncthreads();
  for (long long e = threadIdx.x; e < (n - 1 - step) * width; e += blockDim.x) {
    const long long r = e / width, c = e - r * width, row = $ROW$;
    b[row * columns + c] = b[row * columns + c] - a$AT$ * b[i * columns + c];
  }
}
__syncthreads();
"""
