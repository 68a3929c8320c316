"""Lazily evaluated tensors, and the builder that turns them into loop nests.

Nothing is emitted until an element of a value is asked for. A value that stays lazy is fused
into whatever reads it; ``Builder.materialize`` gives one a buffer and a kernel that fills it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.dims import DimLike, Shape
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.dim_expressions import ZERO as ZERO
from phix.kernels.loops.dim_expressions import DimExpressions
from phix.kernels.loops.nodes import Buffer, Element, Kernel
from phix.kernels.loops.target import CPU, Target
from phix.kernels.loops.tiles import TILE, WAYS, Tiles, held
from phix.kernels.loops.value import Across as Across
from phix.kernels.loops.value import Value as Value
from phix.kernels.loops.value import buffer_value as buffer_value
from phix.kernels.loops.value import constant as constant
from phix.kernels.loops.value import rounded, unrounded
from phix.kernels.scalar import expansion
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr

# Up to this many weighted scalar operations a value is computed again rather than stored.
CHEAP = 4
# Above this many it pays to compute a value in vectors, and to read it from memory.
DEAR = 16
# Above this many, a kernel would be slow to compile and run out of registers.
LARGEST_KERNEL = 3000


@dataclass(eq=False)
class _Frame:
    """One open block: the loop around it, its statements, the elements computed in it."""

    index: Expr | None
    extent: Expr | None
    body: list[ir.Statement]
    kind: str = ""
    memo: dict[Any, Element] = field(default_factory=dict)


@dataclass(eq=False)
class _Nest:
    """The kernel being built."""

    frames: list[_Frame]
    level_of: dict[Expr, int] = field(default_factory=dict)


class Builder(DimExpressions):
    """Builds a LoopProgram out of values, in the form that ``target`` runs best."""

    target: Target = CPU

    def __init__(self, symbols: Sequence[dm.Symbol]) -> None:
        self.steps: list[ir.Step] = []
        self.temps: list[Buffer] = []
        super().__init__(symbols)
        self._nest: _Nest | None = None
        self._mutables = 0
        self._free: dict[Expr, frozenset[Expr]] = {}
        self.constants: dict[int, tuple[Buffer, Any]] = {}
        self.size_checks: dict[dm.Symbol, Any] = {}  # of dims that the program binds
        self.depth = 0
        self._numbered: Counter[str] = Counter()

    def observe(self, graph: Graph, values: dict[Any, Value]) -> None:
        """Hear of a graph before it is lowered; builders that keep a record do (``report``)."""

    def applied(self, op_name: str, /, *elements: Element, **attrs: Any) -> Any:
        """The scalar body of a pointwise primitive at these operands."""
        return expansion.applied(op_name, elements, attrs)

    # -- reading ---------------------------------------------------------------------------
    def element(self, value: Value, indices: tuple[Expr, ...]) -> Element:
        """The element of ``value`` at ``indices``."""
        if value.buffer is not None:
            if value.buffer.strided:
                return ir.load(value.buffer, indices)
            return ir.load(value.buffer, (self.linear(indices, value.dims),))
        if value.at is None:
            if value.writer is not None:
                self.materialize(value)
                return self.element(value, indices)
            return self.flat_element(value, self.linear(indices, value.dims))
        return self._compute(value, indices, value.at, indices)

    def flat_element(self, value: Value, i: Expr) -> Element:
        """The element of a flat value at linear index ``i``."""
        if value.buffer is None and value.writer is not None:
            self.materialize(value)
        buffer = value.buffer
        if buffer is not None and not buffer.strided:
            return ir.load(buffer, (i,))
        if buffer is not None or value.flat is None:
            return self.element(value, (i,) if value.dims else ())
        return self._compute(value, (i, "flat"), value.flat, i)

    def _compute(
        self, value: Value, key: tuple[Any, ...], compute: Callable[[Any], Element], at: Any
    ) -> Any:
        indices = key[:1] if key[-1:] == ("flat",) else key
        nest = self._nest
        assert nest is not None
        level, known = self._level(indices), (value, key)
        for frame in nest.frames[: level + 1]:
            if known in frame.memo:
                return frame.memo[known]
        is_slow = value.cost > DEAR and self._is_one_by_one(level)
        if is_slow or (value.cost > CHEAP and self._is_wasteful(indices, level)):
            self.materialize(value)
            if key[-1:] == ("flat",):
                return self.flat_element(value, key[0])
            return self.element(value, key)
        result = rounded(compute(at), value.dtype)
        nest.frames[level].memo[known] = result
        return result

    def _level(self, indices: tuple[Expr, ...]) -> int:
        """The innermost open block that the indices depend on."""
        assert self._nest is not None
        free = [v for e in indices for v in self._free_variables(e)]
        return max(map(self._nest.level_of.__getitem__, free), default=0)

    def _free_variables(self, expr: Expr) -> frozenset[Expr]:
        """The loop indices and mutable scalars of the open kernel that ``expr`` depends on."""
        assert self._nest is not None
        found = self._free.get(expr)
        if found is None:
            if expr.fn == "var":
                found = frozenset((expr,)) if expr in self._nest.level_of else frozenset()
            else:
                found = frozenset().union(*map(self._free_variables, expr.args))
            self._free[expr] = found
        return found

    def _is_wasteful(self, indices: tuple[Expr, ...], level: int) -> bool:
        """Whether the enclosing loops would compute the same element many times."""
        assert self._nest is not None
        used = {v for e in indices for v in self._free_variables(e)}
        mutable = max((self._nest.level_of[v] for v in used if v.data[0] == "a"), default=0)
        return any(
            f.index not in used and not (f.extent is not None and f.extent.data == 1)
            for f in self._nest.frames[mutable + 1 : level + 1]
            if f.index is not None
        )

    def _is_one_by_one(self, level: int) -> bool:
        """Whether what is computed at that level is computed for one element after the other, and
        not in vectors: in a loop of sums around another loop, in which it is the same."""
        assert self._nest is not None
        frames = self._nest.frames
        is_on = self.target.sums_in_memory and rewrites.is_on("vectors_first")
        if frames[level].kind != "reduction" or not is_on:
            return False
        return any(f.index is not None for f in frames[level + 1 :])

    # -- emitting --------------------------------------------------------------------------
    @contextmanager
    def kernel(self) -> Iterator[Kernel]:
        """Open a kernel of its own, put before the one being built, if any."""
        outer, outer_free = self._nest, self._free
        built = Kernel()
        self._nest, self._free = _Nest([_Frame(None, None, built.body)]), {}
        try:
            yield built
        finally:
            self._nest, self._free = outer, outer_free
        if built.body:
            self.steps.append(built)

    @contextmanager
    def nested(self) -> Iterator[list[ir.Step]]:
        """Steps of a block of their own, which the caller puts into a step."""
        outer, self.steps = self.steps, []
        self.depth += 1
        try:
            yield self.steps
        finally:
            self.steps = outer
            self.depth -= 1

    def step_index(self) -> Expr:
        """A new index of a loop around steps."""
        return sc.var(self._next("s"))

    def _next(self, letter: str) -> str:
        self._numbered[letter] += 1
        return f"{letter}{self._numbered[letter] - 1}"

    def row(self, base: Buffer, index: Expr) -> Buffer:
        """The slice ``base[index]``."""
        dims = base.dims[1:]
        strided = base.strided and bool(dims)
        return Buffer(self._next("r"), base.dtype, dims, "slice", strided, base, index)

    def constant_buffer(self, value: Any, dims: Shape, dtype: np.dtype) -> Buffer:
        """The buffer of a tensor the graph closes over."""
        if id(value) not in self.constants:
            name = f"c{len(self.constants)}"
            self.constants[id(value)] = (Buffer(name, dtype, dims, "constant"), value)
        return self.constants[id(value)][0]

    def emit(self, *statements: ir.Statement) -> None:
        assert self._nest is not None
        self._nest.frames[-1].body.extend(statements)

    @contextmanager
    def loop(self, extent: Expr, kind: str = "parallel", is_vector: bool = False) -> Iterator[Expr]:
        """A loop over ``range(extent)``; none at all for an extent known to be 1."""
        nest = self._nest
        assert nest is not None
        if extent.fn == "const" and extent.data == 1:
            yield ZERO
            return
        # named by depth, so that loops of two kernels can become one loop as they are
        index = sc.var(f"i{len(nest.frames) - 1}")
        frame = _Frame(index, extent, [], kind)
        nest.level_of[index] = len(nest.frames)
        nest.frames.append(frame)
        try:
            yield index
        finally:
            nest.frames.pop()
        nest.frames[-1].body.append(ir.For(index, extent, frame.body, kind, is_vector=is_vector))

    @contextmanager
    def block(self, make: Callable[[list[ir.Statement]], ir.Statement]) -> Iterator[None]:
        """A nested block; ``make(body)`` is the If or While statement around it."""
        nest = self._nest
        assert nest is not None
        frame = _Frame(None, None, [])
        nest.frames.append(frame)
        try:
            yield
        finally:
            nest.frames.pop()
        nest.frames[-1].body.append(make(frame.body))

    @contextmanager
    def loops(self, dims: Shape, kind: str = "parallel") -> Iterator[tuple[Expr, ...]]:
        """Nested loops over ``dims``, the last innermost."""
        if not dims:
            yield ()
            return
        with self.loop(self.dim(dims[0]), kind) as first, self.loops(dims[1:], kind) as rest:
            yield (first, *rest)

    @contextmanager
    def hoisted(self, indices: tuple[Expr, ...]) -> Iterator[None]:
        """Emit into the outermost block where ``indices`` are defined."""
        nest = self._nest
        assert nest is not None
        frames = nest.frames
        nest.frames = frames[: self._level(indices) + 1]
        try:
            yield
        finally:
            nest.frames = frames

    def mutable(self, *initial: Expr) -> tuple[Expr, ...]:
        """New mutable scalars."""
        nest = self._nest
        assert nest is not None
        targets = []
        for value in initial:
            target = sc.var(f"a{self._mutables}", value.dtype)
            self._mutables += 1
            nest.level_of[target] = len(nest.frames) - 1
            self.emit(ir.Declare(target, value))
            targets.append(target)
        return tuple(targets)

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], element: Element) -> None:
        """Store at ``indices`` (one an axis) of a contiguous buffer."""
        self.put(buffer, self.linear(indices, buffer.dims), element)

    def put(self, buffer: Buffer, at: Expr, element: Element) -> None:
        """Store at a linear index what may be made of the element that is there.

        Memory rounds, so what is stored need not be.

        The second part of a complex product needs the first part as it was: both are computed
        before either is stored.
        """
        if isinstance(element, Complex) and ir.load_part(buffer, (at,), 0) in element.imag.loads:
            element = Complex(*self.mutable(element.real, element.imag))
        self.emit(*ir.stores(buffer, (at,), unrounded(element, buffer.dtype)))

    # -- materialising ---------------------------------------------------------------------
    def temp(self, dims: Shape, dtype: np.dtype) -> Buffer:
        """A new temporary buffer."""
        buffer = Buffer(f"t{len(self.temps)}", dtype, dims, "temp")
        self.temps.append(buffer)
        return buffer

    def local(self, kernel: Kernel, size: DimLike, dtype: np.dtype) -> Buffer:
        """Memory for ``size`` elements that a kernel has for itself, each thread its own."""
        buffer = Buffer(self._next("l"), dtype, (size,), "local")
        kernel.locals[buffer] = self.dim(size)
        return buffer

    def contiguous(self, value: Value) -> Buffer:
        """A C-contiguous buffer that holds ``value``."""
        if value.buffer is None or value.buffer.strided:
            self.materialize(value)
        assert value.buffer is not None
        return value.buffer

    def host(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Value],
        outputs: tuple[Buffer, ...],
        **attrs: Any,
    ) -> None:
        """A step that Python runs: ``function(*input arrays, *output arrays)``.

        ``attrs`` tell engines what it does that have a way of their own.
        """
        read = tuple(self.contiguous(v) for v in inputs)
        dims = tuple(v.dims for v in inputs)
        self.steps.append(ir.HostStep(name, function, read, outputs, dims, attrs))

    def is_open(self, value: Value) -> bool:
        """Whether to read ``value`` may compute it, or another, whole.

        Steps that do not run each time, or not once, leave that to the steps before them.
        """
        return value.buffer is None and (
            value.waits or value.writer is not None or value.cost > CHEAP
        )

    def settled(self, value: Value) -> Value:
        """``value``, inside a loop computed before what is written next: it may read that."""
        if self.depth and value.buffer is None:
            self.materialize(value)
        return value

    def materialize(self, value: Value) -> None:
        """Give ``value`` a contiguous buffer (its ``target`` if one was set) and fill it."""
        source = value.view_of
        while source is not None and source.view_of is not None and source.buffer is None:
            source = source.view_of
        if source is not None and (source.buffer is None or not source.buffer.strided):
            target = value.target if source.buffer is None and source.writer is not None else None
            if target is not None and dm.same_shape(source.dims, target.dims):
                source.target = source.target or target
            if source.buffer is not None or source.writer is not None:
                value.buffer = self.contiguous(source)
                return
        source = source or value.gathers
        if source is not None and value.target is None and self._is_shared(source):
            value.buffer, value.writer = self.contiguous(source), None
            return
        if value.writer is not None:
            writer, value.writer = value.writer, None
            group = value.group
            buffers = [v.target or self.temp(v.dims, v.dtype) for v in group]
            writer(*buffers)
            for v, b in zip(group, buffers):
                v.buffer, v.writer = b, None
            return
        buffer = value.target or self.temp(value.dims, value.dtype)
        self.fill(buffer, value)
        value.buffer = buffer

    def _is_shared(self, source: Value) -> bool:
        """Whether a view of ``source`` is to be in its memory: others will want it there too.

        Not in what steps inside a loop or a branch write, which those behind may not find.
        """
        return self.depth == 0 and (source.buffer is not None or source.cost > CHEAP)

    def fill(self, buffer: Buffer, value: Value, start: bool = False) -> None:
        """A kernel that computes ``value`` into a contiguous buffer of its size."""
        with self.kernel() as kernel:
            kernel.start, kernel.whole = start, True
            if value.is_flat:
                with self.loop(self.dim(dm.product(value.dims))) as i:
                    self.put(buffer, i, self.flat_element(value, i))
            else:
                with self._tiles(value) as indices:
                    self.put(buffer, self.linear(indices, value.dims), self.element(value, indices))

    @contextmanager
    def _tiles(self, value: Value) -> Iterator[tuple[Expr, ...]]:
        """Loops over the dims of ``value``, in tiles where an operand is read across."""
        is_on = self.target.tiles_in_loops and rewrites.is_on("tiles")
        across, dims = value.tiled if is_on else None, value.dims
        if across is None:
            with self.loops(dims) as indices:
                yield indices
            return
        axis = across.axis
        read, written = (
            held(apart, value.dtype) for apart in (across.apart, dm.product(dims[axis + 1 :]))
        )
        is_clashing = min(read, written) < TILE
        is_short = isinstance(dims[-1], int) and dims[-1] <= (read if is_clashing else 2 * TILE)
        if is_short:  # a row of the result is read by so many lines at most
            with self.loops(dims) as indices:
                yield indices
            return
        rows = Tiles(self, dims[axis], WAYS if is_clashing else TILE, False)
        columns = Tiles(self, dims[-1], 2 * TILE, is_clashing)
        others = dims[:axis] + dims[axis + 1 : -1]
        with (
            self.loops(others) as idx,
            self.loop(rows.count) as row_tile,
            self.loop(columns.count) as column_tile,
            self._tile(rows, row_tile, columns, column_tile, is_clashing) as (row, column),
        ):
            at = list(idx)
            at.insert(axis, row_tile * rows.most + row)
            yield (*at, column_tile * columns.most + column)

    @contextmanager
    def _tile(
        self, rows: Tiles, row_tile: Expr, columns: Tiles, column_tile: Expr, by_columns: bool
    ) -> Iterator[tuple[Expr, Expr]]:
        """Loops over one tile: its rows, or the columns first, which reads each run at once."""
        ranges = [rows.size_of(row_tile), columns.size_of(column_tile)]
        if by_columns:
            with self.loop(ranges[1]) as column, self.loop(ranges[0]) as row:
                yield row, column
        else:
            with self.loop(ranges[0]) as row, self.loop(ranges[1]) as column:
                yield row, column

    # -- values ----------------------------------------------------------------------------
    def constant(self, value: Any, dims: Shape, dtype: np.dtype) -> Value:
        """``value`` everywhere; it may be an unknown dim."""
        if isinstance(value, dm.Dim):
            size = self.number(value, ir.scalar_dtype(dtype))
            pair = Complex(size, sc.const(0.0, size.dtype))
            element: Element = pair if dtype.kind == "c" else size
        else:
            element = constant(value, dtype)
        return Value(dims, dtype, lambda _: element, lambda _: element)

    def written(
        self, metas: Sequence[MetaTensor], writer: Callable[..., None]
    ) -> tuple[Value, ...]:
        """Values computed together by ``writer(*buffers)``, which emits kernels or host steps.

        Without ``metas``, one without elements: to materialize it is the effect of the writer.
        """
        group = tuple(Value(m.dims, m.dtype, cost=LARGEST_KERNEL) for m in metas)
        made = group or (Value((0,), dt.bool_),)
        for value in made:
            value.writer, value.group = writer, group
        return made

    def view(self, x: Value, dims: Shape) -> Value:
        """``x`` with other dims of the same size, in C order."""
        result = Value(dims, x.dtype, cost=x.cost)
        if not x.is_flat:
            squeezed = _squeezed(x, dims)
            if squeezed is not None:
                result.at = lambda idx: self.element(x, squeezed(idx))
                return result
            # reading a strided or permuted array in another shape: gather it first
            gathered = self.written((MetaTensor(x.dims, x.dtype),), lambda b: self.fill(b, x))[0]
            gathered.gathers = x
            return self.view(gathered, dims)
        result.flat = lambda i: self.flat_element(x, i)
        result.view_of = x
        return result


def _squeezed(x: Value, dims: Shape) -> Callable[[tuple[Expr, ...]], tuple[Expr, ...]] | None:
    """The map of indices if ``dims`` are those of ``x`` with ones added or left out."""
    kept_x = [d for d in x.dims if not dm.is_one(d)]
    kept = [d for d in dims if not dm.is_one(d)]
    if not dm.same_shape(tuple(kept_x), tuple(kept)):
        return None
    where = [k for k, d in enumerate(dims) if not dm.is_one(d)]

    def indices(idx: tuple[Expr, ...]) -> tuple[Expr, ...]:
        left = iter(where)
        return tuple(ZERO if dm.is_one(d) else idx[next(left)] for d in x.dims)

    return indices
