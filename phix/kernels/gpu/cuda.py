"""Prints a kernel of the loop IR as the text of one CUDA C++ function.

The statements of an item are printed on one of two levels. On the level of a thread they are
plain C. On the level of a block all threads compute its scalars alike, one of them stores,
and spread loops are shared; barriers stand where a statement touches what others have written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phix.kernels.gpu import held, mapping, scalars, tiles
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.iterations import MOST_SHARING, IterationPrinter
from phix.kernels.gpu.mapping import Spread
from phix.kernels.gpu.scalars import Parameter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.scalar.language import Expr

THREAD, BLOCK, TILE = "thread", "block", "tile"
# Threads of a block at most, by team; those of a tile's block are as many.
MOST_THREADS = {THREAD: 256, BLOCK: MOST_SHARING, TILE: 256}


class KernelText:
    """One kernel for one kind of team: ``text`` stands behind the function's name."""

    def __init__(self, kernel: ir.Kernel, team: str) -> None:
        printer = _Printer(kernel, team)
        printer.kernel()
        self.team = team
        # those of a block, where the text is for so many alone
        self.threads = None if printer.rows is None else printer.rows.threads
        self.parameters: list[Parameter] = list(printer.parameters)
        self.text = scalars.function_text(kernel.body, printer.parameters, printer.lines)

    def source(self, name: str) -> str:
        """The function under a name."""
        bounds = f"__launch_bounds__({self.threads or MOST_THREADS[self.team]})"
        return f'extern "C" __global__ void {bounds} {name}{self.text}\n'


class _Printer(IterationPrinter):
    def __init__(self, kernel: ir.Kernel, team: str) -> None:
        self.items, self.team = mapping.items_of(kernel), team
        super().__init__(kernel, held.rows_of(self.items) if team == BLOCK else None)
        # what the threads of a block have written and read since its last barrier
        self.written: set[Buffer] = set()
        self.read: set[Buffer] = set()

    def kernel(self) -> None:
        """The whole body of the function."""
        if self.team == THREAD:
            width = self._width(self.items)
            first = "(long long)blockIdx.x * blockDim.x + threadIdx.x"
            self._shared(self.items, width, first, "(long long)gridDim.x * blockDim.x")
            return
        if self.team == TILE:
            self._tiles()
            return
        count = self._count(self.items)
        self.open(f"for (long long item = blockIdx.x; item < {count}; item += gridDim.x)")
        self._unravel(self.items, "item")
        self._declare_rows()
        self.team_block(self.items.body)
        if self.shared:  # the next item has it
            self.line("__syncthreads();")
        self.close()

    # -- tiles -------------------------------------------------------------------------------
    def _tiles(self) -> None:
        """Tile after tile: what is read comes into shared memory in the order in which it lies,
        then the block does the iterations in the order in which their results lie."""
        tile = tiles.tile_of(self.items)
        assert tile is not None
        names = [self._shared_tile(buffer) for buffer, _ in tile.loads]
        across, along = self._tile_loops(tile)
        column = f"threadIdx.x % {tiles.SIDE}"
        with self._rows(tile, across=column, along="row", corner=(across, along)):
            for name, (buffer, linear) in zip(names, tile.loads):
                self.line(f"{name}[row][{column}] = {self.place(buffer, (linear,))};")
        self.line("__syncthreads();")
        self.packs |= {key: f"{name}[{column}][row]" for name, key in zip(names, tile.loads)}
        with self._rows(tile, across="row", along=column, corner=(across, along)):
            self.block(self.items.body)
        self.line("__syncthreads();")
        self.close()

    def _shared_tile(self, buffer: Buffer) -> str:
        name, side = self.fresh("b"), tiles.SIDE
        self.line(f"__shared__ {ins.memory_type(buffer.dtype)} {name}[{side}][{side + 1}];")
        return name

    def _tile_loops(self, tile: tiles.Tile) -> tuple[str, str]:
        """Open the loop over tiles, name the other indices, and give the corner of the tile."""
        side, sides = tiles.SIDE, (tile.across, tile.along)
        counts, total = {}, "1"
        for loop in self.items.loops:
            extent = self.index(loop.extent)
            counts[loop] = f"(({extent} + {side - 1}) / {side})" if loop in sides else extent
            total += f" * {counts[loop]}"
        self.open(f"for (long long item = blockIdx.x; item < {total}; item += gridDim.x)")
        self.line("long long rest = item;")
        for loop in reversed(self.items.loops):
            name, quotient = self.fresh("i"), self.fresh("q")
            self.line(f"const long long {quotient} = phix_divide(rest, {counts[loop]});")
            self.line(f"const long long {name} = rest - {quotient} * {counts[loop]};")
            self.line(f"rest = {quotient};")
            self.index_names[loop.index] = name
        return self.index_names[tile.across.index], self.index_names[tile.along.index]

    @contextmanager
    def _rows(
        self, tile: tiles.Tile, across: str, along: str, corner: tuple[str, str]
    ) -> Iterator[None]:
        """A loop over rows of a tile, a warp a row; ``across`` and ``along`` are places in it."""
        rows = MOST_THREADS[TILE] // tiles.SIDE
        self.line("#pragma unroll")
        self.open(f"for (int k = 0; k < {tiles.SIDE // rows}; ++k)")
        self.line(f"const long long row = threadIdx.x / {tiles.SIDE} + k * {rows};")
        checks = []
        for loop, first, place in zip((tile.across, tile.along), corner, (across, along)):
            name = self.fresh("i")
            self.line(f"const long long {name} = {first} * {tiles.SIDE} + {place};")
            self.index_names[loop.index] = name
            checks.append(f"{name} < {self.index(loop.extent)}")
        self.open(f"if ({' && '.join(checks)})")
        yield
        self.close()
        self.close()

    # -- one thread ------------------------------------------------------------------------
    def block(self, body: list[ir.Statement]) -> None:
        for statement in body:
            self.count_uses(statement)
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _for(self, loop: ir.For) -> None:
        extent, changed = self.index(loop.extent), self.changes(loop.body)
        self.forget(changed)
        name, spread = self.fresh("i"), mapping.spread_of(loop)
        with self._steps(self._sums(spread, 2) if spread else [], name, "0", extent, "1"):
            self.index_names[loop.index] = name
            self.block(loop.body)
        self.forget(changed)

    def _if(self, statement: ir.If) -> None:
        self.open(f"if ({self.value(statement.condition)})")
        self.block(statement.body)
        self.close()
        self.forget(self.changes(statement.body))

    def _while(self, statement: ir.While) -> None:
        changed = self.changes(statement.body)
        self.forget(changed)
        self.open("while (true)")
        self.line(f"if (!({self.value(statement.condition)})) break;")
        self.block(statement.body)
        self.close()
        self.forget(changed)

    def _store(self, statement: ir.Store, condition: str = "") -> None:
        value = ins.stored(statement.buffer.dtype, self.value(statement.value))
        place = self.place(statement.buffer, statement.indices)
        self.line(f"{condition}{place} = {value};")
        self.forget({statement.buffer} & self.changing)

    def _declare(self, statement: ir.Declare) -> None:
        value, name = self.value(statement.value), self.fresh("a")
        self.line(f"{ins.type_of(statement.target.dtype)} {name} = {value};")
        self.mutable[statement.target] = name
        self.depends.clear()

    def _assign(self, statement: ir.Assign) -> None:
        values = [self.value(v) for v in statement.values]
        if len(values) > 1:  # all are computed before the first is set
            names = [self.fresh() for _ in values]
            for target, name, value in zip(statement.targets, names, values):
                self.line(f"const {ins.type_of(target.dtype)} {name} = {value};")
            values = names
        for target, value in zip(statement.targets, values):
            self.line(f"{self.mutable[target]} = {value};")
        self.forget(set(statement.targets))

    # -- a block ---------------------------------------------------------------------------
    def team_block(self, body: list[ir.Statement]) -> None:
        for statement in body:
            self.count_uses(statement)
            if isinstance(statement, ir.For):
                self._team_for(statement)
            elif isinstance(statement, (ir.If, ir.While)):
                self._team_branch(statement)
            else:
                self._barrier(ir.reads([statement]), ir.writes([statement]))
                if isinstance(statement, ir.Store):
                    self._store(statement, "if (threadIdx.x == 0) ")
                else:
                    self.block([statement])

    def _barrier(self, reads: set[Buffer], writes: set[Buffer]) -> None:
        """A barrier if the block's threads may not go on to touch these buffers."""
        alone = set() if self.rows is None else self.rows.buffers
        reads, writes = ({ir.owner(b) for b in touched - alone} for touched in (reads, writes))
        if (reads | writes) & self.written or writes & self.read:
            self._synchronise()
        self.read |= reads
        self.written |= writes

    def _synchronise(self) -> None:
        self.line("__syncthreads();")
        self.written, self.read = set(), set()

    def _team_for(self, loop: ir.For) -> None:
        spread = mapping.spread_of(loop)
        if spread is not None:
            self._barrier(ir.reads([loop]), ir.writes([loop]))
            self._spread(spread)
            return
        scan = mapping.scan_of(loop)
        if scan is not None:
            self._barrier(ir.reads([loop]), ir.writes([loop]))
            self._scan(scan)
            return
        writes = ir.writes(loop.body)
        assigned = {t for t in self.changes(loop.body) if isinstance(t, Expr)} & set(self.mutable)
        if mapping.spreads(loop.body) or (writes and assigned):
            self._uniform(loop)
            return
        self._barrier(ir.reads([loop]), writes)
        if writes:
            self.open("if (threadIdx.x == 0)")
        self._for(loop)
        if writes:
            self.close()

    def _uniform(self, loop: ir.For) -> None:
        """A loop that all threads of the block go through together."""
        extent, changed = self.index(loop.extent), self.changes(loop.body)
        self.forget(changed)
        name = self.fresh("i")
        self.open(f"for (long long {name} = 0; {name} < {extent}; ++{name})")
        self.index_names[loop.index] = name
        self._guarded(loop.body, repeats=True)
        self.close()
        self.forget(changed)

    def _team_branch(self, statement: ir.If | ir.While) -> None:
        changed = self.changes(statement.body)
        head = type(statement)(statement.condition, [])
        if isinstance(statement, ir.While):
            self.forget(changed)
            self._barrier(ir.reads([head]), set())
            self.open("while (true)")
            self.line(f"if (!({self.value(statement.condition)})) break;")
        else:
            self._barrier(ir.reads([head]), set())
            self.open(f"if ({self.value(statement.condition)})")
        self._guarded(statement.body, repeats=isinstance(statement, ir.While))
        self.close()
        self.forget(changed)

    def _guarded(self, body: list[ir.Statement], repeats: bool) -> None:
        """A block that may run, or run again: what came before may still be under way after it."""
        before = set(self.written), set(self.read)
        self.team_block(body)
        if repeats and (self.written or ir.writes(body)):
            self._synchronise()
        self.written |= before[0]
        self.read |= before[1]

    def _spread(self, spread: Spread) -> None:
        outer: dict[Expr, str] = {}
        for target, fn in spread.combined.items():
            kind, name = ins.type_of(target.dtype), self.fresh("a")
            identity = mapping.identity(fn, target.dtype)
            self.line(f"{kind} {name} = {ins.constant(identity.data, target.dtype)};")
            outer[target], self.mutable[target] = self.mutable[target], name
        targets: set[Any] = set(spread.combined)
        self.forget(targets)
        if self.rows is not None and spread.loops[0] in self.rows.spreads:
            self._along_rows(spread, self.rows)
        else:
            self._shared(spread, self._width(spread), "(long long)threadIdx.x", "blockDim.x")
        for target, fn in spread.combined.items():
            name, own = outer[target], self.mutable[target]
            total = f"phix_reduce({own}, {mapping.COMBINATIONS[fn]}())"
            self.line(f"{name} = {mapping.COMBINATIONS[fn]}()({name}, {total});")
            self.mutable[target] = name
        self.forget(targets)

    def _scan(self, scan: mapping.Scan) -> None:
        """A scan in steps of one element a thread."""
        (loop,), target = scan.loops, scan.target
        combine, kind = mapping.COMBINATIONS[scan.combined[target]], ins.type_of(target.dtype)
        identity = mapping.identity(scan.combined[target], target.dtype)
        neutral = ins.constant(identity.data, target.dtype)
        extent, carried = self.index(loop.extent), self.mutable[target]
        changed: set[Any] = {target} | self.changes(loop.body)
        self.forget(changed)
        base, index = self.fresh("q"), self.fresh("i")
        lost = self.fresh("a") if combine == "phix_add" and target.dtype.kind == "f" else ""
        if lost:
            self.line(f"{kind} {lost} = 0;")
        self.open(f"for (long long {base} = 0; {base} < {extent}; {base} += blockDim.x)")
        self.line(f"const long long {index} = {base} + threadIdx.x;")
        self.index_names[loop.index] = index
        own, before, total = self.fresh("a"), self.fresh("a"), self.fresh("a")
        self.line(f"{kind} {own} = {neutral}, {before}, {total};")
        self.open(f"if ({index} < {extent})")
        assert scan.step is not None
        first = scan.first
        self.block(first)
        self.count_uses(scan.step)
        self.line(f"{own} = {self.value(scan.element)};")
        self.close()
        self.line(f"{own} = phix_scan({own}, {combine}(), ({kind}){neutral}, {before}, {total});")
        if lost:
            self.line(f"{before} = {before} + {lost};")
            self.line(f"{own} = {own} + {lost};")
        self.open(f"if ({index} < {extent})")
        self.line(f"{before} = {combine}()({carried}, {before});")
        self.line(f"{own} = {combine}()({carried}, {own});")
        self.mutable[target] = before
        for statement in loop.body:
            if statement is scan.step:
                self.mutable[target] = own
                self.forget({target})
            elif statement not in first:
                self.block([statement])
        self.close()
        self.mutable[target] = carried
        carry = f"phix_carry({carried}, {lost}, {total})" if lost else ""
        self.line(f"{carry or f'{carried} = {combine}()({carried}, {total})'};")
        self.close()
        if lost:
            self.line(f"{carried} = {carried} + {lost};")
        self.forget(changed)
