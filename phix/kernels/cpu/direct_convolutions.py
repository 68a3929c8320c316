"""Convolutions whose sizes are known, in machine code that reads the images where they lie.

Patches under the filters hold each element of an image once for every tap, and a product goes
through all of them. Where each row of an image ends in enough zeros, one row lies behind the other
as along one line: with ``pitch`` elements from row to row, what is under tap ``(ky, kx)`` of the
place ``(y, x)`` is ``ky * pitch + kx`` behind the place itself, for all places alike. So a tile of
the result - some filters, and some vectors of places - reads vectors along that line, one for each
tap, and holds its sums in registers. Places at the ends of rows, where a filter would reach from
one row into the next, are computed and not stored.
"""

from __future__ import annotations

from itertools import product

from phix.core.records import dataclass
from phix.kernels.cpu import jit, units
from phix.kernels.cpu.advice import ROLLED
from phix.kernels.cpu.direct_products import told
from phix.kernels.cpu.tiles import KINDS, Text, mangled, spread
from phix.kernels.loops.nodes import LibraryCall, Pointer
from phix.kernels.scalar.language import Expr

_NAME = ".lines."
# Vectors of a tile, side by side.
_MOST_VECTORS = 6
# Cycles of a step beside its multiplications, which wait for each other so long, and those of a
# vector that may lie across two lines of a cache.
_LATENCY, _ACROSS_LINES = 4, 1.5


@dataclass(frozen=True)
class Sizes:
    """One image [channels, height, pitch] by filters [filters, channels, kh, kw], as a call has
    them; steps of 1, and nothing around the image."""

    filters: int
    rows: int
    columns: int
    channels: int
    kh: int
    kw: int
    height: int
    pitch: int

    @property
    def terms(self) -> int:
        """Of a sum, which are the numbers of a filter."""
        return self.channels * self.kh * self.kw

    @property
    def line(self) -> int:
        """From the first place to the last one, and one more."""
        return (self.rows - 1) * self.pitch + self.columns


def name_of(call: LibraryCall) -> str | None:
    """The name of the direct convolution that a call is; None where it is another routine."""
    routine, _, dtype = call.name.rpartition("_")
    if routine != "convolution" or dtype not in KINDS:
        return None
    known = [a.data for a in call.arguments if isinstance(a, Expr) and a.fn == "const"]
    filters, rows, columns, channels, kh, kw, height, pitch = known[1:9]
    sizes = (filters, rows, columns, channels, kh, kw, height, pitch)
    return f"{call.name}{_NAME}{'.'.join(map(str, sizes))}"


def arguments_of(call: LibraryCall) -> tuple[Pointer, ...]:
    """What a direct convolution is passed, of what the call is."""
    return tuple(a for a in call.arguments if isinstance(a, Pointer))


def wrapper(library: str) -> tuple[str, str] | None:
    """LLVM text that defines a direct convolution, and what it declares; None for others."""
    found = told(library, _NAME)
    return found and text(library, found[0], Sizes(*found[1]), *jit.vector_registers())


def tiling(sizes: Sizes, lanes: int, registers: int) -> tuple[int, int]:
    """Filters and vectors of a tile: those that take the fewest cycles, as far as that is known."""

    def cycles(shape: tuple[int, int]) -> float:
        filters, vectors = shape
        every = [filters] * (sizes.filters // filters) + [sizes.filters % filters]
        loads = _ACROSS_LINES * vectors
        steps = sum(max(f * vectors, f / 2 + loads, _LATENCY) for f in every if f)
        return steps * -(-sizes.line // (vectors * lanes))

    shapes = []
    for vectors in range(1, min(_MOST_VECTORS, sizes.line // lanes) + 1):
        # a register for each sum, for a vector of places, and for one number of a filter
        most = (registers - 1 - vectors) // vectors
        if most > 0:
            shapes.append((-(-sizes.filters // -(-sizes.filters // most)), vectors))
    return min(shapes, key=lambda shape: (cycles(shape), shape))


def text(name: str, dtype: str, sizes: Sizes, vector_bytes: int, registers: int) -> tuple[str, str]:
    """The function of a convolution, and the declarations it needs."""
    kind, size = KINDS[dtype]
    t, lanes = Text(kind, size), vector_bytes // size
    filters, vectors = tiling(sizes, lanes, registers)
    rest = sizes.filters % filters
    for first, end, height in (
        (0, sizes.filters - rest, filters),
        (sizes.filters - rest, sizes.filters, rest),
    ):
        if first < end:
            numbers = t.loop(first, end, height, ROLLED)
            with numbers as number, t.loop(0, sizes.line, vectors * lanes, ROLLED) as place:
                start = t.least(place, sizes.line - vectors * lanes)
                _Tile(t, sizes, height, vectors, lanes).make(number, start)
    one, suffix = f"<{lanes} x {kind}>", mangled(kind, lanes)
    declared = [
        "declare i64 @llvm.smin.i64(i64, i64)",
        f"declare {one} @llvm.fmuladd.{suffix}({one}, {one}, {one})",
        f"declare void @llvm.masked.store.{suffix}.p0({one}, ptr, i32, <{lanes} x i1>)",
    ]
    passed = "ptr noalias %x, ptr noalias %filters, ptr noalias %out"
    return t.function(f"@{name}({passed})", attributes=units.WRITTEN_OUT), "\n".join(declared)


@dataclass(frozen=True)
class _Tile:
    """Some filters at some vectors of places."""

    t: Text
    sizes: Sizes
    filters: int
    vectors: int
    lanes: int

    def make(self, number: str, start: str) -> None:
        """The sums of the filters from ``number`` on at the places from ``start`` on."""
        t, sizes = self.t, self.sizes
        weights = t.at("%filters", t.op("mul nsw", number, sizes.terms))
        sums = self._sums(weights, t.at("%x", start))
        to = t.at("%out", t.op("mul nsw", number, sizes.rows * sizes.columns))
        for v in range(self.vectors):
            own = [sums[f, v] for f in range(self.filters)]
            self._store(to, t.op("add nsw", start, v * self.lanes), own)

    def _sums(self, weights: str, places: str) -> dict[tuple[int, int], str]:
        """A loop over the rows of the taps in all channels: what it comes to."""
        t, sizes = self.t, self.sizes
        one, fma = f"<{self.lanes} x {t.kind}>", f"@llvm.fmuladd.{mangled(t.kind, self.lanes)}"
        cells = dict.fromkeys(product(range(self.filters), range(self.vectors)), one)
        with t.sums(cells, sizes.channels * sizes.kh, ROLLED) as (q, now, then):
            plane = t.op("udiv", q, sizes.kh)
            apart = t.op("mul nsw", plane, (sizes.height - sizes.kh) * sizes.pitch)
            row = t.at(places, apart, t.op("mul nsw", q, sizes.pitch))
            factors = t.at(weights, t.op("mul nsw", q, sizes.kw))
            for kx in range(sizes.kw):
                at = [t.at(row, kx + v * self.lanes) for v in range(self.vectors)]
                across = [t.load(place, self.lanes) for place in at]
                for f in range(self.filters):
                    factor = spread(
                        t, t.kind, t.load(t.at(factors, f * sizes.terms + kx)), self.lanes
                    )
                    for v, x in enumerate(across):
                        made = then[f, v] if kx == sizes.kw - 1 else f"{then[f, v]}.{kx}"
                        terms = f"{one} {factor}, {one} {x}, {one} {now[f, v]}"
                        t.put(f"{made} = call {one} {fma}({terms})")
                        now[f, v] = made
        return then

    def _store(self, to: str, place: str, values: list[str]) -> None:
        """One vector of each filter, in as many rows as it reaches into."""
        t, sizes = self.t, self.sizes
        y = t.op("udiv", place, sizes.pitch)
        x = t.op("sub nsw", place, t.op("mul nsw", y, sizes.pitch))
        for row in range((sizes.pitch + self.lanes - 2) // sizes.pitch + 1):
            first = t.op("sub nsw", row * sizes.pitch, x)  # the lane of the row's first place
            end = t.op("add nsw", first, sizes.columns)
            is_there = t.let(f"icmp slt i64 {first}, {self.lanes}")
            with t.where(t.let(f"and i1 {is_there}, {t.let(f'icmp sgt i64 {end}, 0')}")):
                at = t.op("mul nsw", t.op("add nsw", y, row), sizes.columns)
                self._put(to, t.op("sub nsw", at, first), values, (first, end))

    def _put(self, to: str, at: str, values: list[str], lanes: tuple[str, str]) -> None:
        """Store the lanes from one number to another; the first of all may be before the result."""
        t, sizes = self.t, self.sizes
        ints, numbers = f"<{self.lanes} x i64>", ", ".join(f"i64 {n}" for n in range(self.lanes))
        first, end = (spread(t, "i64", n, self.lanes) for n in lanes)
        begun = t.let(f"icmp sge {ints} <{numbers}>, {first}")
        ends = t.let(f"icmp slt {ints} <{numbers}>, {end}")
        mask = t.let(f"and <{self.lanes} x i1> {begun}, {ends}")
        for f, value in enumerate(values):
            offset = t.op("add nsw", at, f * sizes.rows * sizes.columns)
            place = t.let(f"getelementptr {t.kind}, ptr {to}, i64 {offset}")
            known = f"ptr {place}, i32 {t.size}, <{self.lanes} x i1> {mask}"
            one = f"<{self.lanes} x {t.kind}> {value}"
            t.put(f"call void @llvm.masked.store.{mangled(t.kind, self.lanes)}.p0({one}, {known})")
