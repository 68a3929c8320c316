"""Prints a kernel of the loop IR as the text of one CUDA C++ function.

The statements of an item are printed on one of two levels. On the level of a thread they are
plain C. On the level of a block all threads compute its scalars alike, one of them stores,
and spread loops are shared; barriers stand where a statement touches what others have written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from phix.core import dtypes as dt
from phix.kernels.gpu import held, mapping, scalars, tiles
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.held import Row, Rows
from phix.kernels.gpu.mapping import Nest, Spread
from phix.kernels.gpu.scalars import Parameter, ScalarPrinter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

THREAD, BLOCK, TILE = "thread", "block", "tile"
# Threads of a block at most, by team; those of a tile's block are as many.
MOST_THREADS = {THREAD: 256, BLOCK: 512, TILE: 256}
# A body of more scalar operations than this is no faster with vector loads.
_LARGEST_PACKED = 200
# So many terms, or packs of them, are added up before they are added to the others.
_GROUP = 16


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


class _Printer(ScalarPrinter):
    def __init__(self, kernel: ir.Kernel, team: str) -> None:
        self.items, self.team = mapping.items_of(kernel), team
        self.rows = held.rows_of(self.items) if team == BLOCK else None
        super().__init__(kernel, set() if self.rows is None else self.rows.buffers)
        self.own = set(kernel.locals)
        self.arrays: dict[Row, str] = {}  # of the rows that are kept
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

    # -- sharing iterations ----------------------------------------------------------------
    def _count(self, nest: Nest) -> str:
        """How many iterations a nest has."""
        total: Expr = sc.const(1, dt.int64)
        for extent in nest.extents:
            total = total * extent
        return self.index(total)

    def _unravel(self, nest: Nest, linear: str) -> None:
        """Name the indices of a nest, given their linear index."""
        for k in range(len(nest.loops) - 1, -1, -1):
            loop = nest.loops[k]
            if k == 0:
                self.index_names[loop.index] = linear
                return
            extent, quotient, name = self.index(loop.extent), self.fresh("q"), self.fresh("i")
            divided = f"{linear} / {extent}"
            if loop.extent.fn != "const" or loop.extent.data <= 0:
                divided = f"phix_divide({linear}, {extent})"
            self.line(f"const long long {quotient} = {divided};")
            self.line(f"const long long {name} = {linear} - {quotient} * {extent};")
            self.index_names[loop.index] = name
            linear = quotient

    def _width(self, nest: Nest) -> int:
        """The iterations of a nest that one thread does with vector loads."""
        body = nest.body
        plain = all(isinstance(s, (ir.Store, ir.Declare, ir.Assign)) for s in body)
        if not plain or sum(1 for _ in ir.expressions(body)) > _LARGEST_PACKED:
            return 1
        return mapping.pack_width(nest)

    def _shared(self, nest: Nest, width: int, first: str, step: str) -> None:
        """The iterations of a nest from ``first`` in steps of ``step``, in plain C inside."""
        count = self._count(nest)
        self.forget(self.changes(nest.body))
        if width > 1:
            first = self._packed(nest, width, count, first, step)
        index = self.fresh("i")
        with self._steps(self._sums(nest, MOST_THREADS[BLOCK]), index, first, count, step):
            self._unravel(nest, index)
            self.block(nest.body)
        self.forget(self.changes(nest.body))

    def _sums(self, nest: Nest, threads: int) -> list[Expr]:
        """What each of so many threads may add up of many floats."""
        size = [extent.data for extent in nest.extents if extent.fn == "const"]
        if len(size) == len(nest.extents) and prod(size) <= _GROUP * threads:
            return []
        combined = nest.combined if isinstance(nest, Spread) else {}
        return [t for t, fn in combined.items() if fn == "add" and t.dtype.kind == "f"]

    @contextmanager
    def _steps(
        self, sums: list[Expr], index: str, first: str, end: str, step: str
    ) -> Iterator[None]:
        """A loop; ``sums`` are added up in groups, since a long sum loses last digits of a term."""
        if not sums:
            self.open(f"for (long long {index} = {first}; {index} < {end}; {index} += {step})")
            yield
            self.close()
            return
        start, stop, group = self.fresh("q"), self.fresh("q"), f"{_GROUP} * {step}"
        self.open(f"for (long long {start} = {first}; {start} < {end}; {start} += {group})")
        self.line(
            f"const long long {stop} = "
            f"phix_minimum((long long)({start} + {group}), (long long)({end}));"
        )
        totals = {target: self.mutable[target] for target in sums}
        for target in sums:
            self.mutable[target] = self.fresh("a")
            self.line(f"{ins.type_of(target.dtype)} {self.mutable[target]} = 0;")
        self.forget(set(sums))
        self.open(f"for (long long {index} = {start}; {index} < {stop}; {index} += {step})")
        yield
        self.close()
        for target, total in totals.items():
            self.line(f"{total} = {total} + {self.mutable[target]};")
            self.mutable[target] = total
        self.forget(set(sums))
        self.close()

    def _packed(self, nest: Nest, width: int, count: str, first: str, step: str) -> str:
        """The iterations that fill packs, where all are aligned; the first of what is left."""
        index, packs, is_single = nest.loops[-1].index, self._packs(nest), len(nest.loops) == 1
        starts = {key: self._start(key, index, is_single) for key in packs}
        checks = [
            f"(unsigned long long)({start}) % {width * buffer.dtype.itemsize} == 0"
            for (buffer, _), start in starts.items()
        ]
        aligned, number = self.fresh("m"), self.fresh("g")
        self.line(f"const long long {aligned} = {' && '.join(checks)} ? {count} / {width} : 0;")
        sums = self._sums(nest, MOST_THREADS[BLOCK] * width)
        with self._steps(sums, number, first, aligned, step):
            if not is_single:
                number = self._row_of_packs(nest, width, number)
                starts = {key: self._start(key, index) for key in packs}
            self._pack(nest, width, number, packs, starts)
        self.forget(self.changes(nest.body))
        return f"{aligned} * {width} + {first}"

    def _row_of_packs(self, nest: Nest, width: int, number: str) -> str:
        """Name the indices of the row that a pack is in; the number of the pack in its row."""
        *outer, inner = nest.loops
        row, place, packs = self.fresh("q"), self.fresh("g"), inner.extent.data // width
        self.line(f"const long long {row} = {number} / {packs};")
        self.line(f"const long long {place} = {number} - {row} * {packs};")
        self._unravel(Nest(outer, []), row)
        return place

    def _pack(
        self,
        nest: Nest,
        width: int,
        number: str,
        packs: dict[tuple[Buffer, Expr], bool],
        starts: dict[tuple[Buffer, Expr], str],
    ) -> None:
        """One thread's iterations of a nest that fill packs, of rows that begin at ``starts``."""
        index, stored = nest.loops[-1].index, ir.writes(nest.body)
        for (buffer, linear), is_read in packs.items():
            pack, name = f"phix_pack<{ins.memory_type(buffer.dtype)}, {width}>", self.fresh("r")
            value = f" = ((const {pack}*)({starts[buffer, linear]}))[{number}]" if is_read else ""
            self.line(f"{pack} {name}{value};")
            self.packs[buffer, linear] = f"{name}.at[k]"
        self.line("#pragma unroll")
        self.open(f"for (int k = 0; k < {width}; ++k)")
        name = self.fresh("i")
        self.line(f"const long long {name} = {number} * {width} + k;")
        self.index_names[index] = name
        self.block(nest.body)
        self.close()
        for buffer, linear in packs:
            if buffer in stored:
                pack = f"phix_pack<{ins.memory_type(buffer.dtype)}, {width}>"
                name = self.packs[buffer, linear].removesuffix(".at[k]")
                self.line(f"(({pack}*)({starts[buffer, linear]}))[{number}] = {name};")
        for key in packs:
            del self.packs[key]

    def _packs(self, nest: Nest) -> dict[tuple[Buffer, Expr], bool]:
        """The accesses that go along the index, and whether what memory has there is asked for:
        it is read before it is written, or written under a condition."""
        index = nest.loops[-1].index
        found: dict[tuple[Buffer, Expr], bool] = {}
        filled: set[tuple[Buffer, Expr]] = set()
        for s in nest.body:
            loads = [e for e in ir.expressions([s]) if e.fn == "load" and e.args]
            asked = [(e.data, e.args[0]) for e in loads if index in mapping.variables(e.args[0])]
            stores = [x for x in ir.walk([s]) if isinstance(x, ir.Store)]
            written = [(x.buffer, x.indices[0]) for x in stores]
            if not isinstance(s, ir.Store):
                asked += written
            for key in asked:
                found[key] = found.get(key, False) or key not in filled
            if isinstance(s, ir.Store):
                filled.update(written)
                found = dict.fromkeys(written, False) | found
        return dict(sorted(found.items(), key=lambda item: item[0][0].name))

    def _start(self, key: tuple[Buffer, Expr], index: Expr, is_row: bool = True) -> str:
        """The address of a pack's element for index 0, of its row or of the first row."""
        buffer, linear = key
        base, rest = self.parameter("data", buffer), mapping.without(linear, index)
        return base if rest is None or not is_row else f"{base} + {self.index(rest)}"

    # -- rows in registers ------------------------------------------------------------------
    def _declare_rows(self) -> None:
        if self.rows is not None:
            for row in sorted(self.rows.kept, key=lambda row: row[0].name):
                self.arrays[row] = self._array(row[0], self.rows)
        self.filled: set[Row] = set()

    def _array(self, buffer: Buffer, rows: Rows) -> str:
        name, kind = self.fresh("r"), ins.memory_type(buffer.dtype)
        self.line(f"phix_pack<{kind}, {rows.width}> {name}[{rows.of_thread}];")
        return name

    def _along_rows(self, spread: Spread, rows: Rows) -> None:
        """A thread's iterations of a spread, written out: rows that are not kept come from memory
        and go there as a whole."""
        self.forget(self.changes(spread.body))
        index, sizes = spread.loops[0].index, f"{rows.packs}, {rows.threads}"
        at = {held.row_at(*access, spread): access for access in held.accesses(spread)}
        names = {row: self.arrays.get(row) or self._array(row[0], rows) for row in at}
        packs = self._packs(spread)
        for row, access in at.items():
            if packs[access] and row not in self.filled:
                self.line(f"phix_take({names[row]}, {self._start(access, index)}, {sizes});")
        self.line("#pragma unroll")
        self.open(f"for (int u = 0; u < {rows.of_thread}; ++u)")
        group, name = self.fresh("g"), self.fresh("i")
        self.line(f"const int {group} = u * {rows.threads} + (int)threadIdx.x;")
        if rows.of_thread * rows.threads > rows.packs:
            self.line(f"if ({group} >= {rows.packs}) break;")
        self.line("#pragma unroll")
        self.open(f"for (int k = 0; k < {rows.width}; ++k)")
        self.line(f"const long long {name} = {group} * {rows.width} + k;")
        self.index_names[index] = name
        self.packs |= {access: f"{names[row]}[u].at[k]" for row, access in at.items()}
        self.block(spread.body)
        self.close()
        self.close()
        for row, access in at.items():
            del self.packs[access]
            if row[0] in ir.writes(spread.body) and row not in rows.kept & {
                (b, None) for b in self.own
            }:
                self.line(f"phix_put({names[row]}, {self._start(access, index)}, {sizes});")
        self.filled |= rows.kept & set(at)
        self.forget(self.changes(spread.body))

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
