"""Sorts of long rows on the card, from the last digit to the first: passes keep equals in order.

A block goes along a *chunk* of a row, tile by tile. A pass over one digit is three kernels: how
often a chunk has each value of the digit, where in the row each chunk puts its first of each, and
the move of keys and places there, put in order in shared memory first, so that neighbours are
written together. Keys are unsigned ints in the order of the elements. What threads share they count
in whole numbers, so results are the same on every run; nothing waits for the host, so programs with
sorts are recorded.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.gpu.routines import Routine, RoutineText
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, HostStep, LibraryCall, LoopProgram, Pointer, Step
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Shorter rows are a library's: a pass is three launches.
LEAST = 1 << 12
# Elements of a thread at once, of keys of four bytes or less and of longer ones.
_ITEMS, _LONG_ITEMS = 16, 8
# Fewer tiles leave most of a card idle: they are made smaller.
_FEW_TILES = 64
_DIGIT, _VALUES, _THREADS = 8, 256, 256
# Chunks of a row, which one block adds up.
_MOST_CHUNKS = 1 << 10
_MOST = 1 << 31  # places are uint32

_UNSIGNED = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64}
_C_TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
# of a float's bits in a key: infinity
_INFINITY = {
    dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F800000, dt.float64: 0x7FF << 52,
}  # fmt: skip


def sort_by_digits(program: LoopProgram, _: Setting) -> None:
    """The pass: host steps that sort long rows of known sizes become kernels."""
    _Sorts(program).block(program.steps)


class _Sorts:
    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.number = max((int(t.name[1:]) for t in program.temps), default=-1) + 1

    def temp(self, count: int, dtype: np.dtype) -> Buffer:
        buffer = Buffer(f"t{self.number}", dtype, (count,), "temp")
        self.number += 1
        self.program.temps.append(buffer)
        return buffer

    def block(self, steps: list[Step]) -> None:
        result: list[Step] = []
        for step in steps:
            for inner in ir.blocks(step):
                self.block(inner)
            is_sort = type(step) is HostStep and step.name in ("sort", "argsort", "topk")
            result += self.kernels(step) if is_sort and _suits(step) else [step]  # type: ignore[arg-type]
        steps[:] = result

    def kernels(self, step: HostStep) -> list[Step]:
        """The passes over the digits of a sort, each of three kernels."""
        (x,), (dims,), (out, *indices) = step.inputs, step.dims, step.outputs
        length = int(dims[-1])
        rows, kept = prod(int(d) for d in dims[:-1]), int(out.dims[-1])
        shape = _Shape(rows, length, kept, x.dtype, step.attrs)
        counts = self.temp(rows * shape.chunks * _VALUES, dt.uint32)
        key_type = _UNSIGNED[x.dtype.itemsize]
        keys = [self.temp(rows * length, key_type) for _ in range(min(shape.passes - 1, 2))]
        places = [self.temp(rows * length, dt.uint32) for _ in keys]
        made: list[Step] = []
        for number in range(shape.passes):
            source = [keys[number % 2 - 1], places[number % 2 - 1]] if number else [x]
            if number < shape.passes - 1:
                target = [keys[number % 2], places[number % 2]]
            else:
                target = [x, out, *indices]
            made += [
                _routine(DigitCounts, shape, number, [source[0], counts], [counts]),
                _routine(DigitStarts, shape, number, [counts], [counts], [counts]),
                _routine(
                    DigitMoves, shape, number, [counts, *source, *target],
                    target if target[0] is not x else target[1:],
                ),
            ]  # fmt: skip
        return made


def _suits(step: HostStep) -> bool:
    (x,), (dims,) = step.inputs, step.dims
    known = all(isinstance(d, int) for d in (*dims, *step.outputs[0].dims))
    if not known or not dims or dt.is_complex(x.dtype) or x.dtype in dt.STORAGE:
        return False
    is_last = step.attrs["axis"] % len(dims) == len(dims) - 1
    return is_last and int(dims[-1]) >= LEAST and prod(int(d) for d in dims) < _MOST


class _Shape:
    """Rows of a sort, and how they part. Of each row ``kept`` elements are wanted; ``bits`` among
    the attributes is how many of them count."""

    def __init__(
        self, rows: int, length: int, kept: int, dtype: np.dtype, attrs: dict[str, Any]
    ) -> None:
        self.rows, self.length, self.kept = rows, length, kept
        self.dtype, self.descending = dtype, bool(attrs["descending"])
        self.passes = max(-(-attrs.get("bits", dtype.itemsize * 8) // _DIGIT), 1)
        self.items = _ITEMS if dtype.itemsize <= 4 else _LONG_ITEMS
        while self.items > 1 and rows * length < self.items * _THREADS * _FEW_TILES:
            self.items //= 2
        tiles = -(-length // (self.items * _THREADS))
        self.per_chunk = -(-tiles // _MOST_CHUNKS)
        self.chunks = -(-tiles // self.per_chunk)


def _routine(
    kind: type[DigitRoutine],
    shape: _Shape,
    number: int,
    operands: list[Buffer],
    writes: list[Buffer],
    updates: Any = (),
) -> Step:
    pointers = tuple(Pointer(b, ir.ZERO) for b in operands)
    call = LibraryCall(f"{kind.name}_{shape.dtype.name}", pointers, tuple(writes), tuple(updates))
    made = kind(call, [], call)
    made.shape, made.number = shape, number
    return made


class DigitRoutine(Routine):
    """One kernel of a pass over the digit ``number``."""

    name: str
    template: str
    threads = _THREADS
    shape: _Shape
    number: int

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return tuple((sc.const(n, dt.int64), 1) for n in (self.shape.rows, self.shape.chunks))

    def print_tile(self, text: RoutineText) -> None:
        """See :class:`Routine`."""
        shape = self.shape
        size = shape.dtype.itemsize
        names = {
            "ROW": text.tile[0], "CHUNK": text.tile[-1], "CHUNKS": shape.chunks,
            "LENGTH": shape.length, "KEPT": shape.kept, "ITEMS": shape.items,
            "THREADS": self.threads, "VALUES": _VALUES, "KEY": _C_TYPES[size],
            "TILE": shape.items * _THREADS, "PER_CHUNK": shape.per_chunk,
            "SHIFT": self.number * _DIGIT, **self.names_in(text),
        }  # fmt: skip
        filled = text.filled_in(self.template, names)
        text.lines_of(text.filled_in(filled, names))

    def names_in(self, text: RoutineText) -> dict[str, object]:
        """What stands in the template beside."""
        return {}

    def key_at(self, operand: str) -> str:
        """The key of the element ``i`` of a row that begins at ``begin``."""
        at = f"((const $KEY$*){operand})[begin + i]"
        return at if self.number else key_of(self.shape.dtype, at, self.shape.descending)


def key_of(dtype: np.dtype, bits: str, descending: bool) -> str:
    """An unsigned int in the order of the elements; NaNs are equal and the largest, zeros are
    equal."""
    size = dtype.itemsize
    sign = f"(($KEY$)1 << {8 * size - 1})"
    if dtype.kind == "b":
        made = f"($KEY$)({bits} != 0)"
    elif dtype.kind == "u":
        made = bits
    elif dtype.kind == "i":
        made = f"($KEY$)({bits} ^ {sign})"
    else:
        made = f"phix_float_key<$KEY$>({bits}, {sign}, ($KEY$){_INFINITY[dtype]:#x}ull)"
    return f"($KEY$)~{made}" if descending else made


class DigitCounts(DigitRoutine):
    """``digitcounts(&keys, &counts)``: how often each chunk has each value."""

    name = "digitcounts"

    def names_in(self, text: RoutineText) -> dict[str, object]:
        return {"KEY_AT": self.key_at(text.operands[0]), "COUNTS": text.operands[1]}

    template = """
__shared__ unsigned int count[$VALUES$];
const long long begin = $ROW$ * $LENGTH$ll;
const long long from = $CHUNK$ * $PER_CHUNK$ll * $TILE$;
const long long end = phix_minimum(from + $PER_CHUNK$ll * $TILE$, $LENGTH$ll);
count[threadIdx.x] = 0;
__syncthreads();
#pragma unroll 8
for (long long i = from + threadIdx.x; i < end; i += $THREADS$)
  atomicAdd(&count[($KEY_AT$ >> $SHIFT$) & 255], 1u);
__syncthreads();
$COUNTS$[($ROW$ * $CHUNKS$ + $CHUNK$) * $VALUES$ + threadIdx.x] = count[threadIdx.x];
__syncthreads();
"""


# Those of ``sum`` of the threads before it, added up, of each 256 threads, which have the same.
_SUMS_BEFORE = """
  unsigned int before = sum;
  #pragma unroll
  for (int step = 1; step < 32; step <<= 1) {
    const unsigned int other = __shfl_up_sync(0xffffffffu, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31 && warp < 8) of_warps[warp] = before;
  __syncthreads();
  before -= sum;
  for (int w = 0; w < (warp & 7); ++w) before += of_warps[w];
"""


class DigitStarts(DigitRoutine):
    """``digitstarts(&counts)``: where each chunk puts its first of each value, in their place."""

    name = "digitstarts"
    threads = 4 * _VALUES

    def tiles(self) -> tuple[tuple[Expr, int], ...]:
        return ((sc.const(self.shape.rows, dt.int64), 1),)

    def names_in(self, text: RoutineText) -> dict[str, object]:
        return {"COUNTS": text.operands[0], "PART": -(-self.shape.chunks // 4)}

    template = (
        """
__shared__ unsigned int parts[4 * $VALUES$], of_warps[8];
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
const int value = threadIdx.x & 255, part = threadIdx.x >> 8;
unsigned int* const counts = $COUNTS$ + $ROW$ * $CHUNKS$ * $VALUES$ll + value;
const int from = part * $PART$, end = phix_minimum(from + $PART$, $CHUNKS$);
unsigned int own = 0;
#pragma unroll 8
for (int c = from; c < end; ++c) own += counts[c * $VALUES$];
parts[threadIdx.x] = own;
__syncthreads();
unsigned int sum = parts[value] + parts[value + 256] + parts[value + 512] + parts[value + 768];
{"""
        + _SUMS_BEFORE
        + """
  for (int p = 0; p < part; ++p) before += parts[value + 256 * p];
  unsigned int next = before;
  #pragma unroll 8
  for (int c = from; c < end; ++c) {
    const unsigned int count = counts[c * $VALUES$];
    counts[c * $VALUES$] = next;
    next += count;
  }
}
__syncthreads();
"""
    )


class DigitMoves(DigitRoutine):
    """``digitmoves(&starts, &keys[, &places], &keys, &places)``, or at the end ``(..., &x, &out[,
    &indices])``."""

    name = "digitmoves"

    def names_in(self, text: RoutineText) -> dict[str, object]:
        starts, keys, *rest = text.operands
        place = "(unsigned int)i"
        if self.number:
            place = f"{rest.pop(0)}[begin + i]"
        if self.number < self.shape.passes - 1:
            move = f"{rest[0]}[to] = key;\n    {rest[1]}[to] = own_places[p];"
        else:
            x, out, *indices = rest
            move = (
                "if (place < $KEPT$) {\n"
                f"      (($KEY$*){out})[$ROW$ * $KEPT$ll + place] = "
                f"((const $KEY$*){x})[begin + own_places[p]];\n"
            )
            if indices:
                move += f"      {indices[0]}[$ROW$ * $KEPT$ll + place] = own_places[p];\n"
            move += "    }"
        return {
            "STARTS": starts, "KEY_AT": self.key_at(keys), "PLACE": place, "MOVE": move,
        }  # fmt: skip

    template = (
        """
__shared__ unsigned int next[$VALUES$], first[$VALUES$], of_warps[8];
__shared__ unsigned int ranks[8 * $VALUES$];
__shared__ $KEY$ own_keys[$TILE$];
__shared__ unsigned int own_places[$TILE$];
const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
const long long begin = $ROW$ * $LENGTH$ll;
next[threadIdx.x] = $STARTS$[($ROW$ * $CHUNKS$ + $CHUNK$) * $VALUES$ + threadIdx.x];
for (int t = 0; t < $PER_CHUNK$; ++t) {
  const long long from = ($CHUNK$ * $PER_CHUNK$ll + t) * $TILE$;
  const int size = (int)phix_maximum(phix_minimum($LENGTH$ll - from, $TILE$ll), 0ll);
  $KEY$ key[$ITEMS$];
  unsigned int place[$ITEMS$], rank[$ITEMS$];
  #pragma unroll
  for (int j = 0; j < $ITEMS$; ++j) {
    const int at = (warp * $ITEMS$ + j) * 32 + lane;
    const long long i = from + at;
    key[j] = 0;
    place[j] = 0;
    if (at < size) {
      key[j] = $KEY_AT$;
      place[j] = $PLACE$;
    }
  }
  #pragma unroll
  for (int w = 0; w < 8; ++w) ranks[w * $VALUES$ + threadIdx.x] = 0;
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < $ITEMS$; ++j) {
    const bool inside = (warp * $ITEMS$ + j) * 32 + lane < size;
    const unsigned int digit = (unsigned int)(key[j] >> $SHIFT$) & 255;
    const unsigned int alike = __match_any_sync(0xffffffffu, inside ? digit : 256u);
    unsigned int* const rank_of = ranks + warp * $VALUES$ + digit;
    if (inside) rank[j] = *rank_of + __popc(alike & ((1u << lane) - 1));
    __syncwarp();
    if (inside && (alike >> lane) == 1) *rank_of += __popc(alike);
    __syncwarp();
  }
  __syncthreads();
  unsigned int sum = 0;
  #pragma unroll
  for (int w = 0; w < 8; ++w) {
    const unsigned int count = ranks[w * $VALUES$ + threadIdx.x];
    ranks[w * $VALUES$ + threadIdx.x] = sum;
    sum += count;
  }
  {"""
        + _SUMS_BEFORE
        + """
    first[threadIdx.x] = before;
  }
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < $ITEMS$; ++j) {
    if ((warp * $ITEMS$ + j) * 32 + lane >= size) continue;
    const unsigned int digit = (unsigned int)(key[j] >> $SHIFT$) & 255;
    const unsigned int p = first[digit] + ranks[warp * $VALUES$ + digit] + rank[j];
    own_keys[p] = key[j];
    own_places[p] = place[j];
  }
  __syncthreads();
  for (int p = threadIdx.x; p < size; p += $THREADS$) {
    const $KEY$ key = own_keys[p];
    const unsigned int digit = (unsigned int)(key >> $SHIFT$) & 255;
    const unsigned int place = next[digit] + ((unsigned int)p - first[digit]);
    const long long to = begin + place;
    $MOVE$
  }
  __syncthreads();
  next[threadIdx.x] += sum;
}
__syncthreads();
"""
    )
