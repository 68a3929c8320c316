"""Prints a kernel of the loop IR as the text of one LLVM function.

Names are numbered in the order of use, so kernels that differ in names alone have equal texts
and are compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu import jit, streaming
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form
from phix.kernels.loops.nodes import Buffer, Pointer, Store
from phix.kernels.scalar.language import Expr

# What a kernel is passed: the data of a buffer, its strides in bytes, or the value of a dim.
Parameter = tuple[str, Union[Buffer, str]]

_ALIGNMENT = 64
MOST_ON_STACK = 64 << 10

# What keeps LLVM from unrolling a loop, and the nodes that a module needs for it.
ROLLED = "!llvm.loop !0"
# What keeps it from making vectors of several iterations.
APART = "!llvm.loop !2"
# What makes the last vector of a loop one that is not full.
MASKED = "!llvm.loop !4"
# What makes it work on two vectors at a time.
PAIRED = "!llvm.loop !6"
METADATA = (
    "!0 = distinct !{!0, !1}", '!1 = !{!"llvm.loop.unroll.disable"}',
    "!2 = distinct !{!2, !3}", '!3 = !{!"llvm.loop.vectorize.width", i32 1}',
    "!4 = distinct !{!4, !1, !5}", '!5 = !{!"llvm.loop.vectorize.predicate.enable", i1 true}',
    "!6 = distinct !{!6, !7}", '!7 = !{!"llvm.loop.interleave.count", i32 2}',
    "!8 = !{i32 1}",  # of stores past the caches
)  # fmt: skip
# An innermost loop of so many iterations is a vector or more: written out, LLVM would find its
# vectors across the loop around it, in gathers and scatters. Longer ones it leaves alone.
_LEAST_ROLLED, _MOST_ROLLED = 16, 256
_LONG = 64
# The fewest neighbours that are worth a vector.
_FEWEST = 3
# Loops of so many vectors and more have the rest behind them.
_MOST_MASKED = 6
# So many operations on floats are a chain longer than a CPU looks ahead, and compile soon.
_PAIRED = range(16, 41)


# Flags of the operations of an expression: none.
_NO_FLAGS: Mapping[Expr, str] = MappingProxyType({})


def _terms(value: Expr, start: Expr) -> Mapping[Expr, str]:
    """The flags of ``start + term + ...``, a sum that goes on: what adds its terms, and products
    among these, may be one instruction. No other value does, for it may be computed elsewhere too.
    """
    flags: dict[Expr, str] = {}
    e = value
    while e.fn == "add" and e is not start:
        flags[e] = ins.CONTRACT
        flags.update((a, ins.CONTRACT) for a in e.args if a.fn == "mul")
        left, right = e.args
        e = right if right is start else left
    return flags if e is start else _NO_FLAGS


def _stays_rolled(loop: ir.For) -> bool:
    """Whether unrolling would lose vectors, or cost time to compile that no iteration gives back.

    Accumulators are faster unrolled; loops that store are bound by memory, and vectors enough.
    """
    if loop.extent.fn != "const":
        return False
    is_inner = not any(isinstance(s, (ir.For, ir.While)) for s in ir.walk(loop.body))
    if is_inner and _LEAST_ROLLED <= loop.extent.data <= _MOST_ROLLED:
        return True
    return loop.extent.data > _LONG and loop.kind == "parallel"


def _is_masked(loop: ir.For) -> bool:
    """Whether the last vector should take what is left, where the CPU has masks for that.

    LLVM takes the rest in half a vector and one by one: of 20 elements 4 one by one.
    """
    stores = [s.buffer.dtype.itemsize for s in loop.body if isinstance(s, Store)]
    if not jit.has_masks() or not stores or loop.kind == "reduction" or not _stays_rolled(loop):
        return False
    lanes = 64 // max(stores)
    is_short = lanes < loop.extent.data < _MOST_MASKED * lanes
    return bool(is_short and loop.extent.data % (lanes // 2) > lanes // 8)


def has_masked_stores(kernel: ir.Kernel) -> bool:
    """Whether vectors are stored in part: what is loaded next from the lanes left out, which a
    row written over itself does, waits until the store is in memory."""
    return any(isinstance(s, ir.For) and _is_masked(s) for s in ir.walk(kernel.body))


def _stays_apart(loop: ir.For) -> bool:
    """Whether the vectors are inside an iteration: sums along the rows of a small matrix.

    Vectors across the matrices of a batch would be gathered and scattered.
    """
    inner = loop.body[-1] if loop.body else None
    if not isinstance(inner, ir.For):
        return False
    while isinstance(inner.body[-1], ir.For):
        inner = inner.body[-1]
    extent, last = inner.extent, inner.body[-1]
    if extent.fn != "const" or extent.data < _FEWEST or inner.kind == "reduction":
        return False
    sums = [s for s in inner.body if isinstance(s, ir.For)]
    if not isinstance(last, Store) or len(sums) != 1 or sums[0].extent.fn != "const":
        return False
    form = linear_form(last.indices[0]) if len(last.indices) == 1 else None
    return form is not None and form[0].get(inner.index) == UNIT


def _is_paired(loop: ir.For) -> bool:
    """Whether two vectors at a time keep the CPU busier: while one waits, the other goes on."""
    if loop.extent is not ir.PIECE_END or not all(isinstance(s, Store) for s in loop.body):
        return False
    values: list[ir.Statement] = [
        ir.Declare(s.value, s.value) for s in loop.body if isinstance(s, Store)
    ]
    operations = (e for e in ir.expressions(values) if e.args and e.fn != "load")
    return sum(1 for e in operations if e.dtype.kind == "f") in _PAIRED


def crosses_lanes(kernel: ir.Kernel) -> bool:
    """Whether vectors of what a kernel computes would be put together element by element.

    It has no loop, or reads elements in another order than theirs: a vector turned by one place.
    """
    if not any(isinstance(s, ir.For) for s in ir.walk(kernel.body)):
        return True
    return any(linear_form(e) is None for load in ir.loads(kernel.body) for e in load.args)


def fills_vectors(kernel: ir.Kernel) -> bool:
    """Whether a kernel computes with neighbours, enough for a vector, side by side."""
    if crosses_lanes(kernel):
        return False
    long = [
        s for s in ir.walk(kernel.body)
        if isinstance(s, ir.For) and s.extent.fn == "const" and s.extent.data > _FEWEST
    ]  # fmt: skip
    steps = [s for loop in long for s in loop.body]
    return any(isinstance(s, Store) and s.value.fn != "load" for s in steps) or any(
        isinstance(s, ir.Assign) for s in steps
    )


def _advice(loop: ir.For) -> str:
    """What LLVM is told of a loop, behind its last branch."""
    rules = (
        (_is_masked, MASKED),
        (_stays_rolled, ROLLED),
        (_stays_apart, APART),
        (_is_paired, PAIRED),
    )
    return next((f", {told}" for holds, told in rules if holds(loop)), "")


class KernelText:
    """One kernel as LLVM text: ``parameters`` in order, and ``text`` after the function's name."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.parameters: list[Parameter] = []
        self.declarations: set[str] = set()
        self.libraries: set[str] = set()
        self.takes_memory = False
        printer = _Printer(self, kernel)
        for buffer, size in kernel.locals.items():
            printer.local(buffer, size)
        printer.block(kernel.body)
        fence = streaming.fence() if streaming.STREAM in self.libraries else None
        if fence:
            self.declarations.add(f"declare {fence}")
            printer.lines.append(f"  call {fence}")
        printer.lines += printer.tail
        arguments = ", ".join(
            f"i64 %p{k}" if kind == "dim" else f"ptr noalias %p{k}"
            for k, (kind, _) in enumerate(self.parameters)
        )
        lines = ["entry:", *printer.head, "  br label %start", "start:", *printer.lines]
        self.text = f"({arguments}) #0 {{\n" + "\n".join(lines) + "\n  ret void\n}"


class _Printer:
    def __init__(self, out: KernelText, kernel: ir.Kernel) -> None:
        self.out = out
        self.head: list[str] = []
        self.tail: list[str] = []
        self.lines: list[str] = []
        self.label = "start"
        self.count = 0
        self.parameter_names: dict[Parameter, str] = {}
        self.strides: dict[tuple[Buffer, int], str] = {}
        self.index_names: dict[Expr, str] = {}
        self.slots: dict[Expr, str] = {}
        self.locals: dict[Buffer, str] = {}
        self.changing: set[Any] = ir.reads(kernel.body) & ir.writes(kernel.body)
        self.scopes: list[dict[tuple[str, Expr], str]] = [{}]
        self.depends: dict[Expr, frozenset[Any]] = {}

    # -- names -----------------------------------------------------------------------------
    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def let(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, text: str) -> None:
        self.out.declarations.add(text)

    def parameter(self, kind: str, what: Buffer | str) -> str:
        key = (kind, what)
        if key not in self.parameter_names:
            self.parameter_names[key] = f"%p{len(self.out.parameters)}"
            self.out.parameters.append(key)
        return self.parameter_names[key]

    def local(self, buffer: Buffer, size: Expr) -> None:
        """Memory for a buffer of this kernel: on the stack, if it is known to be small."""
        name = f"%l{len(self.locals)}"
        self.locals[buffer] = name
        if size.fn == "const" and size.data * buffer.dtype.itemsize <= MOST_ON_STACK:
            count = max(1, size.data) * buffer.dtype.itemsize
            self.head.append(f"  {name} = alloca [{count} x i8], align {_ALIGNMENT}")
            return
        count = self.let(f"mul nsw i64 {self.index(size)}, {buffer.dtype.itemsize}")
        self.out.takes_memory = True
        self.lines.append(f"  {name} = call ptr @phix_take(i64 {count})")
        self.tail.append(f"  call void @phix_give(ptr {name})")

    def stride(self, buffer: Buffer, axis: int) -> str:
        """The stride of an axis in bytes, loaded once at the head of the kernel."""
        if (buffer, axis) not in self.strides:
            base = self.parameter("strides", buffer)
            name = f"%s{len(self.strides)}"
            self.head.append(f"  {name}.p = getelementptr inbounds i64, ptr {base}, i64 {axis}")
            self.head.append(f"  {name} = load i64, ptr {name}.p")
            self.strides[buffer, axis] = name
        return self.strides[buffer, axis]

    # -- what is known already -------------------------------------------------------------
    def known(self, mode: str, expr: Expr) -> str | None:
        for scope in reversed(self.scopes):
            if (mode, expr) in scope:
                return scope[mode, expr]
        return None

    def dependencies(self, expr: Expr) -> frozenset[Any]:
        """The mutable scalars and changing buffers that an expression reads."""
        stack = [expr]
        while stack:
            e = stack[-1]
            if e in self.depends:
                stack.pop()
                continue
            pending = [a for a in e.args if a not in self.depends]
            if pending:
                stack.extend(pending)
                continue
            own: frozenset[Any] = frozenset()
            if (e.fn == "var" and e in self.slots) or (e.fn == "load" and e.data in self.changing):
                own = frozenset((e if e.fn == "var" else e.data,))
            self.depends[e] = own.union(*(self.depends[a] for a in e.args))
            stack.pop()
        return self.depends[expr]

    def forget(self, changed: set[Any]) -> None:
        """Drop the values that depend on what changes."""
        if not changed:
            return
        for scope in self.scopes:
            stale = [key for key in scope if self.dependencies(key[1]) & changed]
            for key in stale:
                del scope[key]

    # -- statements ------------------------------------------------------------------------
    def block(self, body: list[ir.Statement]) -> None:
        for statement in body:
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _inner(self, body: list[ir.Statement]) -> None:
        self.scopes.append({})
        self.block(body)
        self.scopes.pop()

    def _changes(self, body: list[ir.Statement]) -> set[Any]:
        changed: set[Any] = ir.writes(body) & self.changing
        for s in ir.walk(body):
            if isinstance(s, ir.Assign):
                changed.update(s.targets)
        return changed

    def _start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def _for(self, loop: ir.For) -> None:
        extent, first = self.index(loop.extent), self.index(loop.start)
        self.count += 1
        number = self.count
        index, head, end = f"%i{number}", f"loop{number}", f"end{number}"
        changed = self._changes(loop.body)
        self.forget(changed)
        if loop.extent.fn == loop.start.fn == "const":
            if loop.extent.data <= loop.start.data:
                return
            self.lines.append(f"  br label %{head}")
        else:
            positive = self.let(f"icmp sgt i64 {extent}, {first}")
            self.lines.append(f"  br i1 {positive}, label %{head}, label %{end}")
        before = self.label
        self._start(head)
        self.index_names[loop.index] = index
        phi = len(self.lines)
        self.lines.append("")
        self._inner(loop.body)
        self.lines.append(f"  {index}.next = add nuw nsw i64 {index}, 1")
        again = self.let(f"icmp slt i64 {index}.next, {extent}")
        self.lines.append(f"  br i1 {again}, label %{head}, label %{end}{_advice(loop)}")
        start, back = f"[{first}, %{before}]", f"[{index}.next, %{self.label}]"
        self.lines[phi] = f"  {index} = phi i64 {start}, {back}"
        self._start(end)
        self.forget(changed)

    def _if(self, statement: ir.If) -> None:
        condition = self.value(statement.condition)
        self.count += 1
        then, end = f"then{self.count}", f"end{self.count}"
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{end}")
        self._start(then)
        self._inner(statement.body)
        self.lines.append(f"  br label %{end}")
        self._start(end)
        self.forget(self._changes(statement.body))

    def _while(self, statement: ir.While) -> None:
        self.count += 1
        test, body, end = (f"{name}{self.count}" for name in ("test", "body", "end"))
        changed = self._changes(statement.body)
        self.forget(changed)
        self.lines.append(f"  br label %{test}")
        self._start(test)
        self.scopes.append({})
        condition = self.value(statement.condition)
        self.scopes.pop()
        self.lines.append(f"  br i1 {condition}, label %{body}, label %{end}")
        self._start(body)
        self._inner(statement.body)
        self.lines.append(f"  br label %{test}")
        self._start(end)
        self.forget(changed)

    def _store(self, statement: ir.Store) -> None:
        own = ir.load(statement.buffer, statement.indices)
        flags = _terms(statement.value, own) if isinstance(own, Expr) else _NO_FLAGS
        value = self.value(statement.value, flags)
        ins.store(
            self, statement.buffer.dtype, value, self.address(statement.buffer, statement.indices)
        )
        self.forget({statement.buffer} & self.changing)

    def _declare(self, statement: ir.Declare) -> None:
        value = self.value(statement.value)
        kind = ins.type_of(statement.target.dtype)
        slot = f"%m{len(self.slots)}"
        self.head.append(f"  {slot} = alloca {kind}")
        self.slots[statement.target] = slot
        self.lines.append(f"  store {kind} {value}, ptr {slot}")

    def _assign(self, statement: ir.Assign) -> None:
        names = []
        for target, value in zip(statement.targets, statement.values):
            flags = _terms(value, target)
            if statement.reassociate:
                flags = {**flags, value: ins.FREE_ORDER}
            names.append(self.value(value, flags))
        for target, name in zip(statement.targets, names):
            kind = ins.type_of(target.dtype)
            self.lines.append(f"  store {kind} {name}, ptr {self.slots[target]}")
        self.forget(set(statement.targets))

    def _librarycall(self, statement: ir.LibraryCall) -> None:
        arguments = []
        for a in statement.arguments:
            if isinstance(a, Pointer):
                arguments.append("ptr " + self.address(a.buffer, (a.offset,)))
            else:
                arguments.append("i64 " + self.index(a))
        self.out.libraries.add(statement.name)
        self.lines.append(f"  call void @{statement.name}({', '.join(arguments)})")
        self.forget(set(statement.writes) & self.changing)

    # -- expressions -----------------------------------------------------------------------
    def index(self, expr: Expr) -> str:
        """An index or extent: int64 arithmetic that does not overflow, which LLVM may know."""
        if expr.fn not in ("add", "sub", "mul"):
            return self.value(expr)
        name = self.known("index", expr)
        if name is None:
            a, b = (self.index(x) for x in expr.args)
            name = self.let(f"{expr.fn} nsw i64 {a}, {b}")
            self.scopes[-1]["index", expr] = name
        return name

    def value(self, root: Expr, flags: Mapping[Expr, str] = _NO_FLAGS) -> str:
        """The name of the value of an expression; ``flags`` go on operations in it."""
        stack = [root]
        while stack:
            expr = stack[-1]
            if expr.fn in ("const", "var") or self.known("value", expr) is not None:
                stack.pop()
                continue
            operands = () if expr.fn == "load" else expr.args
            pending = [
                a for a in operands
                if a.fn not in ("const", "var") and self.known("value", a) is None
            ]  # fmt: skip
            if pending:
                stack.extend(reversed(pending))
                continue
            self.scopes[-1]["value", expr] = self._compute(expr, flags.get(expr))
            stack.pop()
        return self.operand(root)

    def operand(self, expr: Expr) -> str:
        if expr.fn == "const":
            return ins.constant(expr.data, expr.dtype)
        if expr.fn == "var":
            return self._variable(expr)
        name = self.known("value", expr)
        assert name is not None
        return name

    def _variable(self, expr: Expr) -> str:
        if expr in self.index_names:
            return self.index_names[expr]
        if expr in self.slots:
            name = self.known("value", expr)
            if name is None:
                name = self.let(f"load {ins.type_of(expr.dtype)}, ptr {self.slots[expr]}")
                self.scopes[-1]["value", expr] = name
            return name
        return self.parameter("dim", expr.data)

    def _compute(self, expr: Expr, flags: str | None) -> str:
        if expr.fn == "load":
            return ins.load(self, expr.data.dtype, self.address(expr.data, expr.args))
        return ins.emit(self, expr, [self.operand(a) for a in expr.args], flags)

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The address of an element."""
        base = self.locals.get(buffer) or self.parameter("data", buffer)
        part: Expr | None = None
        if dt.is_complex(buffer.dtype) and len(indices) > (
            len(buffer.dims) if buffer.strided else 1
        ):
            *head, part = indices
            indices = tuple(head)
        if buffer.strided:
            return self._strided_address(buffer, base, indices, part)
        kind = ins.memory_type(dt.real_dtype(buffer.dtype))
        (linear,) = indices
        offset = self.index(linear)
        if dt.is_complex(buffer.dtype):
            offset = self.let(f"mul nsw i64 {offset}, 2")
            if part is not None and part.data:
                offset = self.let(f"add nsw i64 {offset}, {part.data}")
        if offset == "0":
            return base
        return self.let(f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")

    def _strided_address(
        self, buffer: Buffer, base: str, indices: tuple[Expr, ...], part: Expr | None
    ) -> str:
        size = np.dtype(dt.real_dtype(buffer.dtype)).itemsize
        total = str(part.data * size) if part is not None else "0"
        for axis, expr in enumerate(indices):
            index = self.index(expr)
            if index == "0":
                continue
            step = self.let(f"mul nsw i64 {index}, {self.stride(buffer, axis)}")
            total = step if total == "0" else self.let(f"add nsw i64 {total}, {step}")
        if total == "0":
            return base
        return self.let(f"getelementptr inbounds i8, ptr {base}, i64 {total}")
