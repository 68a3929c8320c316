"""Prints the iterations of a nest that threads share: in steps, in packs, in rows of registers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from phix.core import dtypes as dt
from phix.kernels.gpu import held, mapping
from phix.kernels.gpu import instructions as ins
from phix.kernels.gpu.held import Row, Rows
from phix.kernels.gpu.mapping import Nest, Spread
from phix.kernels.gpu.scalars import ScalarPrinter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# Threads of a block at most that shares loops.
MOST_SHARING = 512
# A body of more scalar operations than this is no faster with vector loads.
_LARGEST_PACKED = 200
# So many terms, or packs of them, are added up before they are added to the others.
_GROUP = 16


class IterationPrinter(ScalarPrinter):
    """What teams do in nests of loops; ``rows`` are those that threads keep in registers."""

    def __init__(self, kernel: ir.Kernel, rows: Rows | None) -> None:
        super().__init__(kernel, set() if rows is None else rows.buffers)
        self.rows = rows
        self.own = set(kernel.locals)
        self.arrays: dict[Row, str] = {}  # of the rows that are kept
        self.filled: set[Row] = set()  # those that are in registers already

    def block(self, body: list[ir.Statement]) -> None:
        """Statements in plain C, of one thread."""
        raise NotImplementedError

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
        with self._steps(self._sums(nest, MOST_SHARING), index, first, count, step):
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
        sums = self._sums(nest, MOST_SHARING * width)
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
            if row[0] in ir.writes(spread.body) - (self.own & rows.buffers):
                self.line(f"phix_put({names[row]}, {self._start(access, index)}, {sizes});")
        self.filled |= rows.kept & set(at)
        self.forget(self.changes(spread.body))
