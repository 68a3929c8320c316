"""What a loop program costs: operations and traffic with memory, counted from the loop IR.

An expression is counted once in each turn of the innermost loop that it depends on. Counts are
ints or, where sizes are unknown, dims.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.analysis import CostAnalysis
from phix.core.dims import DimLike
from phix.core.records import dataclass, field
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import RANK_STEP
from phix.kernels.loops.nodes import Buffer, Kernel, LibraryCall, LoopProgram, Step
from phix.kernels.report.routine_costs import HOST_STEPS, ROUTINES, Sizes, fft
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import Expr

# Operations of one scalar function; those not named take none.
_FLOPS = {"add": 1, "sub": 1, "mul": 1, "div": 1, "fma": 2, "maximum": 1, "minimum": 1,
          "sqrt": 1, "floor": 1, "ceil": 1, "trunc": 1, "rint": 1}  # fmt: skip


def count(operations: LoopProgram, traffic: LoopProgram, sizes: Sizes) -> CostAnalysis:
    """The cost of a program where unknown dims have these ``sizes``; others stay in the counts.

    ``operations`` is the program with each transcendental function as one call, ``traffic`` the
    program as it runs.
    """
    work, moved = _Counter(operations, sizes), _Counter(traffic, sizes)
    work.steps(operations.steps, 1)
    moved.steps(traffic.steps, 1)
    uncounted = tuple(dict.fromkeys([*work.uncounted, *moved.uncounted]))
    return CostAnalysis(
        work.flops, work.transcendentals, moved.bytes_read, moved.bytes_written, uncounted
    )


@dataclass(frozen=True)
class StepCost:
    """What one run of a step costs, on average over the runs in one of the program; see
    :class:`phix.core.analysis.CostAnalysis`. None where that cannot be told."""

    flops: float | None = None
    transcendentals: float | None = None
    bytes_accessed: float | None = None


@dataclass(frozen=True)
class StepCounts:
    """The counts of one run of each step: operations and calls, and bytes."""

    flops: dict[Step, tuple[float | None, float | None]]
    bytes: dict[Step, float | None]


def by_step(operations: LoopProgram, traffic: LoopProgram, sizes: Sizes) -> StepCounts:
    """What each kernel and host step of the programs costs: see :func:`count`."""
    work, moved = _StepCounter(operations, sizes), _StepCounter(traffic, sizes)
    work.steps(operations.steps, 1)
    moved.steps(traffic.steps, 1)
    flops = {step: (f, c) for step in work.found for f, c, _, _ in [work.a_run(step)]}
    sums = {}
    for step in moved.found:
        _, _, read, written = moved.a_run(step)
        sums[step] = None if read is None or written is None else read + written
    return StepCounts(flops, sums)


# -- sizes -------------------------------------------------------------------------------------
class _Unknown(Exception):
    """The value of an expression is not known before the program runs."""


def _select(condition: Any, x: DimLike, y: DimLike) -> DimLike:
    """The builder's dims select by ``a == 1`` alone: a dim that broadcasts."""
    if isinstance(condition, tuple):
        a, _ = condition
        found = dm.broadcast(a, x) if dm.same(a, y) else None
        if found is None:
            raise _Unknown
        return found
    return x if condition else y


def _equal(a: DimLike, b: DimLike) -> Any:
    return a == b if isinstance(a, int) and isinstance(b, int) else (a, b)


_DIMS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "quotient": dm.floordiv,
    "rest": lambda a, b: dm.apply("mod", a, b),
    "maximum": dm.maximum,
    "minimum": dm.minimum,
    "cast": lambda a: a,
    "eq": _equal,
    "select": _select,
}


def value(expr: Expr, sizes: Mapping[str, DimLike]) -> Any:
    """The value of an expression of sizes; _Unknown where it has none yet."""
    if expr.fn == "const":
        return expr.data
    if expr.fn == "var" and expr.data in sizes:
        return sizes[expr.data]
    if expr.fn not in _DIMS:
        raise _Unknown
    return _DIMS[expr.fn](*(value(a, sizes) for a in expr.args))


def at_most(a: DimLike, b: DimLike) -> DimLike:
    """The smaller of two products of sizes, none of which is 0."""
    if dm.divide_exact(a, b) is not None:
        return b
    return a if dm.divide_exact(b, a) is not None else dm.minimum(a, b)


# -- counting ----------------------------------------------------------------------------------
@dataclass(eq=False)
class _Block:
    """An open loop: how often its body runs for one turn of those around it."""

    index: Expr | None
    turns: DimLike
    changed: frozenset[Expr] = frozenset()  # scalars that are set in it
    seen: set[Expr] = field(default_factory=set)


class _Counter:
    """Adds up what the steps of a program do."""

    def __init__(self, program: LoopProgram, sizes: Sizes) -> None:
        self.symbols = sizes
        self.sizes: dict[str, DimLike] = {
            name: sizes.get(symbol, dm.Dim({(symbol,): 1}))
            for name, symbol in program.symbols.items()
        }
        self.flops: DimLike = 0
        self.transcendentals: DimLike = 0
        self.bytes_read: DimLike = 0
        self.bytes_written: DimLike = 0
        self.uncounted: list[str] = []
        self.blocks: list[_Block] = []
        self.tiled: set[Expr | None] = set()  # steps whose turns together make what is counted
        self.written: set[Buffer] = set()
        self.levels: dict[Expr, int] = {}  # inside the open loops
        # of one kernel: bytes by buffer
        self.loads: dict[Buffer, DimLike] = {}
        self.stores: dict[Buffer, DimLike] = {}

    # -- steps
    def steps(self, steps: list[Step], times: DimLike) -> None:
        for step in steps:
            if isinstance(step, Kernel):
                self._kernel(step, times)
            elif isinstance(step, ir.HostStep):
                self._host(step, times)
            elif isinstance(step, ir.ForStep):
                self._loop(step, times)
            elif isinstance(step, ir.WhileStep):
                self.uncounted.append("turns of a while loop beyond the first")
                self.steps([*step.test, *step.body], times)
            elif isinstance(step, ir.SwitchStep):
                self._switch(step, times)

    def _loop(self, step: ir.ForStep, times: DimLike) -> None:
        """All turns are like the first but for the last: a loop over blocks may end in a part."""
        turns = self._extent(step.extent)
        name = step.index.data
        if isinstance(turns, int):
            self.sizes[name] = 0
            self.steps(step.body, times * (turns - 1))
            self.sizes[name] = turns - 1
            self.steps(step.body, times)
            del self.sizes[name]
        elif _has_tiles(step):  # which are counted as what they make together
            self.tiled.add(step.index)
            self.steps(step.body, times)
        else:
            self.steps(step.body, times * turns)

    def _switch(self, step: ir.SwitchStep, times: DimLike) -> None:
        """The dearest branch, where that can be told; else the last."""
        self.uncounted.append("branches that are not the dearest")
        before = self._totals()
        ends = []
        for branch in step.branches:
            self._set(before)
            self.steps(branch, times)
            ends.append(self._totals())
        known = all(dm.is_known(*totals) for totals in ends)
        self._set(max(ends) if known else ends[-1])

    def _totals(self) -> tuple[DimLike, ...]:
        return self.flops, self.transcendentals, self.bytes_read, self.bytes_written

    def _set(self, totals: tuple[DimLike, ...]) -> None:
        self.flops, self.transcendentals, self.bytes_read, self.bytes_written = totals

    def _host(self, step: ir.HostStep, times: DimLike) -> None:
        if isinstance(step, ir.StartStep):
            return  # counted where it is waited for
        rule = HOST_STEPS.get(step.name)
        flops = None if rule is None else rule(step, self.symbols)
        if step.name == RANK_STEP:
            self.uncounted.append("operations of steps between ranks")
        elif flops is None:
            self.uncounted.append(f"operations of {step.name}, which Python runs")
        else:
            self.flops += times * flops
        self.bytes_read += times * sum((self._bytes(b) for b in step.inputs), start=0)
        self.bytes_written += times * sum((self._bytes(b) for b in step.outputs), start=0)

    def _bytes(self, buffer: Buffer) -> DimLike:
        return dm.substitute(dm.product(buffer.dims), self.symbols) * buffer.dtype.itemsize

    def _extent(self, extent: Expr) -> DimLike:
        """How many turns; where the run says how many of a part, as many as that has at most."""
        for known in (extent, *(extent.args if extent.fn == "minimum" else ())):
            with contextlib.suppress(_Unknown):
                found: DimLike = value(known, self.sizes)
                return found
        self.uncounted.append("turns of a loop beyond the first, whose number is not known")
        return 1

    # -- kernels
    def _kernel(self, kernel: Kernel, times: DimLike) -> None:
        self.written = ir.writes(kernel.body)
        self.loads, self.stores = {}, {}
        self.blocks, self.levels = [_Block(None, times)], {}
        self._body(kernel.body)
        for moved, attribute in ((self.loads, "bytes_read"), (self.stores, "bytes_written")):
            for buffer, size in moved.items():
                if buffer.kind == "local" or (buffer.kind == "temp" and ir.is_tiny(buffer)):
                    continue  # in registers, on the stack, or in a cache
                most = times * self._bytes(buffer)
                setattr(self, attribute, getattr(self, attribute) + at_most(size, most))

    def _body(self, body: list[ir.Statement]) -> None:
        for s in body:
            for root in ir.roots(s):
                self._expression(root)
            if isinstance(s, ir.For):
                self.blocks.append(_Block(s.index, self._turns(s), _set_in(s.body)))
                self.levels = {}
                self._body(s.body)
                self.blocks.pop()
                self.levels = {}
            elif isinstance(s, (ir.If, ir.While)):
                if isinstance(s, ir.While):
                    self.uncounted.append("turns of a while loop beyond the first")
                self._body(s.body)
            elif isinstance(s, ir.Store):
                size = _element_size(s.buffer)
                self.stores[s.buffer] = self.stores.get(s.buffer, 0) + self._times() * size
            elif isinstance(s, LibraryCall):
                self._library(s)

    def _turns(self, loop: ir.For) -> DimLike:
        """Turns of a loop; those of a pair of loops that walk over tiles are the inner one's."""
        if any(_is_in(loop.index, s.extent) for s in ir.walk(loop.body) if isinstance(s, ir.For)):
            return 1
        return self._extent(self._whole(loop.extent)[0])

    def _whole(self, extent: Expr) -> tuple[Expr, Expr | None]:
        """What the tiles of an open loop make together, and its index, where it is one of them."""
        size, index = _tiled_size(extent) or (extent, None)
        is_open = index in self.tiled or any(b.index is index for b in self.blocks)
        return (size, index) if is_open else (extent, None)

    def _times(self, level: int | None = None, but: Sequence[Expr | None] = ()) -> DimLike:
        """How often what stands at that level runs, loops over some indices ``but`` once."""
        blocks = self.blocks if level is None else self.blocks[: level + 1]
        return dm.product(tuple(b.turns for b in blocks if b.index is None or b.index not in but))

    def _level(self, root: Expr) -> int:
        """The innermost open loop that changes the value."""
        return bottom_up(root, self.levels, self._own_level)

    def _own_level(self, e: Expr, operands: list[int]) -> int:
        if e.fn == "var":
            places = (k for k, b in enumerate(self.blocks) if b.index is e or e in b.changed)
            return max(places, default=0)
        if e.fn == "load" and e.data in self.written:
            return len(self.blocks) - 1
        return max(operands, default=0)

    def _expression(self, root: Expr) -> None:
        stack = [root]
        while stack:
            e = stack.pop()
            if e.fn in ("const", "var") or any(e in b.seen for b in self.blocks):
                continue
            level = self._level(e)
            self.blocks[level].seen.add(e)
            times = self._times(level)
            if e.fn == "load":
                size = times * _element_size(e.data)
                self.loads[e.data] = self.loads.get(e.data, 0) + size
            elif e.fn == "call":
                self.transcendentals += times
            elif dt.is_float(e.dtype):
                self.flops += times * _FLOPS.get(e.fn, 0)
            stack.extend(e.args)

    # -- libraries
    def _library(self, call: LibraryCall) -> None:
        rule = next((r for name, r in ROUTINES.items() if call.name.startswith(name)), None)
        sizes, whole = [], []
        for argument in call.arguments:
            if isinstance(argument, Expr):  # calls on the tiles of a size are one on all of it
                size, index = self._whole(argument)
                sizes.append(self._extent(size))
                whole.append(index)
        pointers = [a.buffer for a in call.arguments if isinstance(a, ir.Pointer)]
        times = self._times(but=whole)
        if rule is None:
            self.uncounted.append(f"operations of {call.name}")
            self._traffic_of(pointers, call, [times * self._bytes(b) for b in pointers])
            return
        flops, elements = rule(*sizes)
        is_complex = dt.is_complex(pointers[-1].dtype) and rule is not fft
        self.flops += times * flops * (4 if is_complex else 1)
        self._traffic_of(pointers, call, [times * n * b.dtype.itemsize
                                     for n, b in zip(elements, pointers)])  # fmt: skip

    def _traffic_of(self, buffers: list[Buffer], call: LibraryCall, sizes: list[DimLike]) -> None:
        for buffer, size in zip(buffers, sizes):
            is_written = buffer in call.writes
            if is_written:
                self.stores[buffer] = self.stores.get(buffer, 0) + size
            if buffer in call.updates or not is_written:
                self.loads[buffer] = self.loads.get(buffer, 0) + size


class _StepCounter(_Counter):
    """Keeps what each step adds, too."""

    def __init__(self, program: LoopProgram, sizes: Sizes) -> None:
        super().__init__(program, sizes)
        self.found: dict[Step, list[DimLike]] = {}

    def a_run(self, step: Step) -> tuple[float | None, ...]:
        """The counts of one run of a step."""
        *totals, times = self.found[step]
        if not dm.is_known(times):
            return (None,) * len(totals)
        return tuple(int(t) / max(int(times), 1) if dm.is_known(t) else None for t in totals)

    def _kernel(self, kernel: Kernel, times: DimLike) -> None:
        self._note(kernel, times, super()._kernel)

    def _host(self, step: ir.HostStep, times: DimLike) -> None:
        self._note(step, times, super()._host)

    def _note(self, step: Any, times: DimLike, count: Callable[[Any, DimLike], None]) -> None:
        before = self._totals()
        count(step, times)
        added = [a - b for a, b in zip((*self._totals(), times), (*before, 0))]
        known = self.found.get(step, [0] * len(added))
        self.found[step] = [a + b for a, b in zip(known, added)]


def _element_size(buffer: Buffer) -> int:
    """Bytes of one load or store: of a complex buffer, of one part."""
    return buffer.dtype.itemsize // (2 if dt.is_complex(buffer.dtype) else 1)


def _set_in(body: list[ir.Statement]) -> frozenset[Expr]:
    """The mutable scalars that a block makes or changes."""
    found: set[Expr] = set()
    for s in ir.walk(body):
        if isinstance(s, ir.Declare):
            found.add(s.target)
        elif isinstance(s, ir.Assign):
            found.update(s.targets)
    return frozenset(found)


def _is_in(index: Expr, expr: Expr) -> bool:
    return expr is index or any(_is_in(index, a) for a in expr.args)


def _has_tiles(step: ir.ForStep) -> bool:
    """Whether a loop inside goes over a tile of what the step walks over."""
    kernels = (s for s in ir.walk_steps(step.body) if isinstance(s, Kernel))
    loops = (s for k in kernels for s in ir.walk(k.body) if isinstance(s, ir.For))
    tiled = (_tiled_size(s.extent) for s in loops)
    return any(t is not None and t[1] is step.index for t in tiled)


def _tiled_size(extent: Expr) -> tuple[Expr, Expr] | None:
    """What the tiles ``i`` make together, and ``i``, if the extent is that of one of them.

    That is ``min(size - i * tile, tile)``.
    """
    if extent.fn != "minimum":
        return None
    left, tile = sorted(extent.args, key=lambda e: e.fn == "const")
    if tile.fn != "const" or left.fn != "sub":
        return None
    size, start = left.args
    is_start = start.fn == "mul" and start.args[1] is tile and start.args[0].fn == "var"
    return (size, start.args[0]) if is_start else None
