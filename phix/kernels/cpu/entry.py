"""The native entry of a segment: reads arrays where CPython put them, runs the steps in order.

``entry(self, args, nargs)`` has CPython's METH_FASTCALL convention; each argument is an ndarray,
whose data pointer, dims and strides it reads from the object (NumPy's ABI).

What is known by name (a pointer, a size) holds in the block it was computed in and those inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phix.core import dims as dm
from phix.core import passes
from phix.kernels.cpu import blas, jit, pool, product, streaming, threads
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu.llvm import (
    METADATA,
    KernelText,
    Parameter,
    crosses_lanes,
    fills_vectors,
)
from phix.kernels.primitive import loop_ir as ir
from phix.kernels.primitive import scalar as sc
from phix.kernels.primitive import sharing, workspace
from phix.kernels.primitive.loop_ir import Buffer, Kernel, Step

# PyArrayObject: object head, data, nd (padded), dims, strides.
_HEAD = object.__basicsize__
_DATA, _DIMS, _STRIDES = _HEAD, _HEAD + 16, _HEAD + 24
_ALIGNMENT = 64
# A kernel of at most this many iterations is put into the loop around it.
_TINY_TRIPS = 64
_TINY_TEXT = 8000
# What a piece of a shared loop is told, by the names its kernel has for it.
_PIECE = {ir.PIECE_START.data: "%from", ir.PIECE_END.data: "%to"}


@dataclass(frozen=True)
class SymbolSource:
    """A symbol is (size of the buffer's dim - rest) / factor; without an axis, its one value."""

    buffer: Buffer
    axis: int | None = None
    factor: int = 1
    rest: int = 0


class Segment:
    """Steps that run in one native call; ``arguments`` are its arrays, in order."""

    def __init__(
        self,
        steps: list[Step],
        arguments: list[Buffer],
        symbols: dict[str, SymbolSource],
        dim_expr: Callable[[dm.DimLike], sc.Expr],
        symbol_names: dict[dm.Symbol, str],
    ) -> None:
        self.steps, self.arguments, self.symbols = steps, arguments, symbols
        self.dim_expr, self.symbol_names = dim_expr, symbol_names
        self.text = _Entry(self).text()


class _Entry:
    """Prints a segment as one module."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.lines: list[str] = []
        self.stack: list[str] = []
        self.functions: dict[tuple[str, bool], str] = {}
        self.pieces: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.libraries: set[str] = set()
        self.inlined: list[Kernel] = []
        self.scopes: list[dict[Any, str]] = [{}]
        self.label = "entry"
        self.count = 0
        self.depth = 0

    def text(self) -> str:
        segment = self.segment
        for buffer in workspace.on_stack(segment.steps):
            name = f"%t{len(self.stack)}"
            size = max(1, int(dm.product(buffer.dims)) * buffer.dtype.itemsize)
            self.stack.append(f"  {name} = alloca [{size} x i8], align {_ALIGNMENT}")
            self.scopes[0][buffer, _DATA] = name
        self._read_arguments()
        self.block(segment.steps)
        parts = []
        for library in sorted(self.libraries):
            own = streaming.wrapper(library)
            if own is None and passes.is_on("own_products"):
                own = product.wrapper(library)
            text_of, needs = own or blas.wrapper(library)
            parts.append(text_of)
            self.declarations.add(needs)
        parts += [f"define internal void {name}{t}" for (t, _), name in self.functions.items()]
        parts += [f"define internal void {name}.piece{t}" for name, t in self.pieces.items()]
        body = "\n".join([*self.stack, *self.lines])
        parts.append(
            "define ptr @ENTRY(ptr %self, ptr %args, i64 %nargs) #2 {\nentry:\n"
            f"{body}\n  call void @Py_IncRef(ptr %self)\n  ret ptr %self\n}}"
        )
        self.declare("declare void @Py_IncRef(ptr)")
        parts += sorted(self.declarations)
        attributes = jit.function_attributes()
        parts.append(f"attributes #0 = {{ noinline {attributes} }}")
        parts.append("attributes #1 = { nounwind willreturn memory(none) }")
        parts.append(f"attributes #2 = {{ {attributes} }}")
        apart = "noimplicitfloat " if self._stays_scalar() else ""
        parts.append(f"attributes #3 = {{ alwaysinline {apart}{attributes} }}")
        parts += METADATA
        return "\n".join(parts) + "\n"

    def _read_arguments(self) -> None:
        """Read the array objects at the head, not in loops; LLVM drops what is not used."""
        for buffer in self.segment.arguments:
            self.data(buffer)
            if buffer.strided:
                self._strides(buffer)
        for name in self.segment.symbols:
            self.symbol(name)

    # -- names -----------------------------------------------------------------------------
    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %e{self.count} = {text}")
        return f"%e{self.count}"

    def declare(self, text: str) -> None:
        self.declarations.add(text)

    def known(self, key: Any) -> str | None:
        return next((s[key] for s in reversed(self.scopes) if key in s), None)

    def named(self, key: Any, make: Callable[[], str]) -> str:
        """The name known for ``key``, computed here if there is none."""
        found = self.known(key)
        if found is None:
            found = self.scopes[-1][key] = make()
        return found

    def labels(self, *words: str) -> list[str]:
        self.count += 1
        return [f"{word}{self.count}" for word in words]

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    # -- steps -----------------------------------------------------------------------------
    def block(self, steps: list[Step]) -> None:
        """The steps in order, with memory for those of their temps whose sizes are known."""
        release = self.allocate(steps) if len(self.scopes) == 1 else []
        for k, step in enumerate(steps):
            getattr(self, f"_{type(step).__name__.lower()}")(step)
            if isinstance(step, ir.BindStep):
                release += self.allocate(steps[k + 1 :])
        for memory in release:
            self.lines.append(f"  call void @phix_give(ptr {memory})")

    def inner(self, steps: list[Step]) -> None:
        self.scopes.append({})
        self.block(steps)
        self.scopes.pop()

    def _kernel(self, kernel: Kernel) -> None:
        text = KernelText(kernel)
        self.declarations |= text.declarations
        self.libraries |= text.libraries
        if text.takes_memory:
            self._declare_pool()
        is_tiny = len(text.text) < _TINY_TEXT and _trips(kernel.body) <= _TINY_TRIPS
        inlined = self.depth > 0 and is_tiny
        if inlined:
            self.inlined.append(kernel)
        key = (text.text.replace(" #0 {", " #3 {", 1) if inlined else text.text, inlined)
        name = self.functions.setdefault(key, f"@kernel{len(self.functions)}")
        if kernel.shared is not None:
            self._share(kernel.shared, name, text.parameters)
            return
        arguments = ", ".join(map(self._argument, text.parameters))
        self.lines.append(f"  call void {name}({arguments})")

    def _stays_scalar(self) -> bool:
        """Whether LLVM should leave the bodies of small loops as they are, without vectors.

        An iteration waits for the one before: what moves values between lanes makes it wait longer.
        """
        is_crossed = any(map(crosses_lanes, self.inlined))
        return is_crossed and not any(map(fills_vectors, self.inlined))

    def _share(self, shared: ir.Shared, name: str, parameters: list[Parameter]) -> None:
        """Run a kernel on its whole loop here, or in pieces by threads if that pays."""
        extent, work = self.value(shared.extent), self.value(shared.work)
        ends = {ir.PIECE_START.data: "0", ir.PIECE_END.data: extent}
        values = [
            f"i64 {ends[what]}" if kind == "dim" and what in ends else self._argument((kind, what))
            for kind, what in parameters
        ]
        many, alone, end = self.labels("shared", "alone", "end")
        pays = self.let(f"icmp sge i64 {work}, {sharing.LEAST_WORK}")
        self.lines.append(f"  br i1 {pays}, label %{many}, label %{alone}")
        self.start(many)
        self._call_pieces(name, values, parameters, extent, shared.grain)
        self.lines.append(f"  br label %{end}")
        self.start(alone)
        self.lines.append(f"  call void {name}({', '.join(values)})")
        self.lines.append(f"  br label %{end}")
        self.start(end)

    def _call_pieces(
        self, name: str, values: list[str], parameters: list[Parameter], extent: str, grain: int
    ) -> None:
        """Put what the pieces need into a block on the stack, and let threads run them."""
        self.declare(threads.DECLARATION)
        data = f"%d{len(self.stack)}"
        self.stack.append(f"  {data} = alloca [{len(values)} x i64]")
        loads, arguments = [], []
        for k, (value, (kind, what)) in enumerate(zip(values, parameters)):
            if kind == "dim" and what in _PIECE:
                arguments.append(f"i64 {_PIECE[str(what)]}")
                continue
            type_of = value.split(" ", 1)[0]
            at = self.let(f"getelementptr inbounds i64, ptr {data}, i64 {k}")
            self.lines.append(f"  store {value}, ptr {at}")
            loads.append(f"  %a{k} = getelementptr inbounds i64, ptr %data, i64 {k}")
            loads.append(f"  %v{k} = load {type_of}, ptr %a{k}")
            arguments.append(f"{type_of} %v{k}")
        body = "\n".join([*loads, f"  call void {name}({', '.join(arguments)})", "  ret void"])
        self.pieces[name] = f"(ptr %data, i64 %from, i64 %to) #2 {{\n{body}\n}}"
        self.lines.append(
            f"  call void @phix_share(ptr {name}.piece, ptr {data}, i64 {extent}, i64 {grain})"
        )

    def _bindstep(self, step: ir.BindStep) -> None:
        self.scopes[-1]["dim", step.name] = self.let(f"load i64, ptr {self.data(step.source)}")

    def _forstep(self, loop: ir.ForStep) -> None:
        extent = self.value(loop.extent)
        head, body, end = self.labels("loop", "body", "end")
        index = f"%i{self.count}"
        before = self.label
        first = [(a, self.data(a), self.data(b)) for a, b in loop.swaps]
        self.lines.append(f"  br label %{head}")
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        more = self.let(f"icmp slt i64 {index}, {extent}")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{end}")
        pointers = self._swapped_names(loop.swaps, head)
        self.scopes.append({("dim", loop.index.data): index, **pointers})
        self._body(body, loop.body)
        self.scopes.pop()
        self.lines.append(f"  {index}.next = add nuw nsw i64 {index}, 1")
        self.lines.append(f"  br label %{head}")
        phis = [f"  {index} = phi i64 [0, %{before}], [{index}.next, %{self.label}]"]
        self.lines[at] = "\n".join([*phis, *self._phis(loop.swaps, pointers, first, before)])
        self.start(end)
        self._copy_back(first, pointers)

    def _whilestep(self, loop: ir.WhileStep) -> None:
        head, body, end = self.labels("test", "body", "end")
        before = self.label
        first = [(a, self.data(a), self.data(b)) for a, b in loop.swaps]
        self.lines.append(f"  br label %{head}")
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        pointers = self._swapped_names(loop.swaps, head)
        self.depth += 1
        self.scopes.append(dict(pointers))
        self.inner(loop.test)
        flag = self.let(f"load i8, ptr {self.data(loop.flag)}")
        more = self.let(f"icmp ne i8 {flag}, 0")
        self.lines.append(f"  br i1 {more}, label %{body}, label %{end}")
        self._body(body, loop.body)
        self.scopes.pop()
        self.depth -= 1
        self.lines.append(f"  br label %{head}")
        self.lines[at] = "\n".join(self._phis(loop.swaps, pointers, first, before))
        self.start(end)
        self._copy_back(first, pointers)

    def _body(self, label: str, steps: list[Step]) -> None:
        self.start(label)
        self.depth += 1
        self.inner(steps)
        self.depth -= 1

    def _swapped_names(self, swaps: list[tuple[Buffer, Buffer]], head: str) -> dict[Any, str]:
        """The pointers of buffers that exchange their memory, as phis of the block ``head``."""
        names: dict[Any, str] = {}
        for k, (a, b) in enumerate(swaps):
            names[a, _DATA], names[b, _DATA] = f"%{head}.a{k}", f"%{head}.b{k}"
        return names

    def _phis(self, swaps: Any, pointers: dict[Any, str], first: Any, before: str) -> list[str]:
        lines = []
        for (a, b), (_, start_a, start_b) in zip(swaps, first):
            own, other = pointers[a, _DATA], pointers[b, _DATA]
            back = f", %{self.label}]"
            lines.append(f"  {own} = phi ptr [{start_a}, %{before}], [{other}{back}")
            lines.append(f"  {other} = phi ptr [{start_b}, %{before}], [{own}{back}")
        return lines

    def _copy_back(self, first: Any, pointers: dict[Any, str]) -> None:
        """What ended in the other memory of a swapped pair goes where it belongs."""
        for a, start, _ in first:
            now = pointers[a, _DATA]
            copy, done = self.labels("copy", "done")
            moved = self.let(f"icmp ne ptr {now}, {start}")
            size = self._bytes(a)
            self.lines.append(f"  br i1 {moved}, label %{copy}, label %{done}")
            self.start(copy)
            self.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            arguments = f"ptr {start}, ptr {now}, i64 {size}, i1 false"
            self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64({arguments})")
            self.lines.append(f"  br label %{done}")
            self.start(done)

    def _switchstep(self, step: ir.SwitchStep) -> None:
        index = self.let(f"load i64, ptr {self.data(step.index)}")
        (end,) = self.labels("end")
        cases = [f"case{self.count}.{k}" for k in range(len(step.branches))]
        table = " ".join(f"i64 {k}, label %{case}" for k, case in enumerate(cases[:-1]))
        self.lines.append(f"  switch i64 {index}, label %{cases[-1]} [{table}]")
        for case, steps in zip(cases, step.branches):
            self.start(case)
            self.inner(steps)
            self.lines.append(f"  br label %{end}")
        self.start(end)

    # -- arrays and dims -------------------------------------------------------------------
    def _argument(self, parameter: Parameter) -> str:
        kind, what = parameter
        if kind == "dim":
            return f"i64 {self.symbol(str(what))}"
        assert isinstance(what, Buffer)
        return f"ptr {self.data(what) if kind == 'data' else self._strides(what)}"

    def data(self, buffer: Buffer) -> str:
        """The address of a buffer's first element."""
        return self.named((buffer, _DATA), lambda: self._find(buffer))

    def _find(self, buffer: Buffer) -> str:
        base = buffer.base
        if base is None:
            return self._field(buffer, _DATA)
        assert buffer.index is not None
        index = self.value(buffer.index)
        if base.strided:
            step = self.let(f"load i64, ptr {self._strides(base)}")
        else:
            row = dm.product(base.dims[1:]) * base.dtype.itemsize
            step = self.value(self.segment.dim_expr(row))
        offset = self.let(f"mul nsw i64 {index}, {step}")
        return self.let(f"getelementptr inbounds i8, ptr {self.data(base)}, i64 {offset}")

    def _strides(self, buffer: Buffer) -> str:
        if buffer.base is None:
            return self.named((buffer, _STRIDES), lambda: self._field(buffer, _STRIDES))
        return self.let(f"getelementptr inbounds i64, ptr {self._strides(buffer.base)}, i64 1")

    def _field(self, buffer: Buffer, offset: int) -> str:
        """What stands at an offset of an array object."""
        k = self.segment.arguments.index(buffer)
        at = self.let(f"getelementptr inbounds ptr, ptr %args, i64 {k}")
        array = self.let(f"load ptr, ptr {at}")
        at = self.let(f"getelementptr inbounds i8, ptr {array}, i64 {offset}")
        return self.let(f"load ptr, ptr {at}")

    def symbol(self, name: str) -> str:
        """The value of a dim or of the index of a loop."""
        return self.named(("dim", name), lambda: self._read(self.segment.symbols[name]))

    def _read(self, source: SymbolSource) -> str:
        if source.axis is None:
            return self.let(f"load i64, ptr {self.data(source.buffer)}")
        dims = self._field(source.buffer, _DIMS)
        at = self.let(f"getelementptr inbounds i64, ptr {dims}, i64 {source.axis}")
        size = self.let(f"load i64, ptr {at}")
        if source.rest:
            size = self.let(f"sub nsw i64 {size}, {source.rest}")
        return self.let(f"sdiv i64 {size}, {source.factor}") if source.factor != 1 else size

    def value(self, expr: sc.Expr) -> str:
        """The value of an expression of dims and indices."""
        if expr.fn == "const":
            return str(expr.data)
        if expr.fn == "var":
            return self.symbol(expr.data)
        return ins.emit(self, expr, [self.value(a) for a in expr.args], None)

    # -- temps -----------------------------------------------------------------------------
    def allocate(self, steps: list[Step]) -> list[str]:
        """One block of memory for the temps whose sizes are known here; its name, to be given back.

        Temps that are never alive together share a slot.
        """
        slots = workspace.plan_slots(steps, self._is_wanted)
        if not slots:
            return []
        offsets, total = [], "0"
        for slot in slots:
            offsets.append(total)
            total = self._sum(total, self._slot_size(slot))
        self._declare_pool()
        memory = self.let(f"call ptr @phix_take(i64 {total})")
        for slot, offset in zip(slots, offsets):
            at = self.let(f"getelementptr inbounds i8, ptr {memory}, i64 {offset}")
            for buffer in slot:
                self.scopes[-1][buffer, _DATA] = at
        return [memory]

    def _declare_pool(self) -> None:
        for declaration in pool.DECLARATIONS:
            self.declare(declaration)

    def _is_wanted(self, buffer: Buffer) -> bool:
        """Whether a temp has no memory yet, and its size is known."""
        names = (self.segment.symbol_names[s] for d in buffer.dims for s in dm.symbols(d))
        return self.known((buffer, _DATA)) is None and all(
            n in self.segment.symbols or self.known(("dim", n)) is not None for n in names
        )

    def _sum(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return str(int(a) + int(b))
        return b if a == "0" else self.let(f"add nsw i64 {a}, {b}")

    def _slot_size(self, slot: list[Buffer]) -> str:
        """Bytes of the largest buffer of a slot, rounded up to the alignment."""
        sizes: dict[str, None] = {}
        for buffer in slot:
            sizes[self._rounded(self._bytes(buffer))] = None
        known = [int(s) for s in sizes if s.isdigit()]
        names = [s for s in sizes if not s.isdigit()]
        size = str(max(known)) if known else names.pop()
        for name in names:
            self.declare("declare i64 @llvm.smax.i64(i64, i64)")
            size = self.let(f"call i64 @llvm.smax.i64(i64 {size}, i64 {name})")
        return size

    def _rounded(self, size: str) -> str:
        if size.isdigit():
            return str(-(-int(size) // _ALIGNMENT) * _ALIGNMENT)

        def rounded() -> str:
            raised = self.let(f"add nsw i64 {size}, {_ALIGNMENT - 1}")
            return self.let(f"and i64 {raised}, {-_ALIGNMENT}")

        return self.named(("rounded", size), rounded)

    def _bytes(self, buffer: Buffer) -> str:
        size = dm.product(buffer.dims) * buffer.dtype.itemsize
        if isinstance(size, int):
            return str(size)
        return self.named(("bytes", size.key), lambda: self.value(self.segment.dim_expr(size)))


def _trips(body: list[ir.Statement]) -> int:
    """How many iterations of its loops a block makes; very many where that is not known."""
    total = 1
    for s in body:
        if isinstance(s, ir.For):
            extent = s.extent.data if s.extent.fn == "const" else _TINY_TRIPS + 1
            total += extent * _trips(s.body)
        elif isinstance(s, (ir.If, ir.While)):
            total += _trips(s.body)
    return total
