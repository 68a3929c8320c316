"""Prints a kernel of the loop IR as the text of one LLVM function.

Names are numbered in the order of use, so kernels that differ in names alone have equal texts
and are compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.cpu import extremes, faults, rare, repeated, running_totals, streaming
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu.advice import APART_IN_LANES, advice, is_of_lanes
from phix.kernels.loops import linked
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Pointer
from phix.kernels.scalar.language import Expr

# What a kernel is passed: the data of a buffer, its strides in bytes, or the value of a dim.
Parameter = tuple[str, Union[Buffer, str]]
Names = dict[Expr, str]

_ALIGNMENT = 64
MOST_ON_STACK = 64 << 10

# How parameters are passed; by default as pointers to memory that nothing else points to.
_TYPES = {"dim": "i64", "fault": "ptr"}

# What has a name without being computed.
_LEAVES = ("const", "var")

# What the values of dims are made by, and the ones of them that LLVM is not to see through.
_DISGUISED = frozenset(("quotient", "rest", "select", "maximum", "minimum"))
_OF_SIZES = _DISGUISED | {
    "add", "sub", "mul", "neg", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge", "cast",
}  # fmt: skip

# What numbers are made of: of what changes in the kernel, of constants, of dims.
_OTHER, _CONSTANT, _OF_DIMS = range(3)


class KernelText:
    """One kernel as LLVM text: ``parameters`` in order, and ``text`` after the function's name."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.parameters: list[Parameter] = []
        self.declarations: set[str] = set()
        self.libraries: set[str] = set()
        self.takes_memory = self.can_fail = False
        self.repeated: dict[str, repeated.Repeated] = {}  # what is called, by name
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
            f"{_TYPES.get(kind, 'ptr noalias')} %p{k}"
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
        self.access = ""  # what is known of loads and stores where they are printed
        self.count = 0
        self.parameter_names: dict[Parameter, str] = {}
        self.strides: dict[tuple[Buffer, int], str] = {}
        self.index_names: dict[Expr, str] = {}
        self.open: list[Expr] = []  # the indices of loops around what is printed
        self.slots: dict[Expr, str] = {}
        self.opaques: set[str] = set()
        self.sizes: dict[Expr, str] = {}
        self.of_dims: dict[Expr, int] = {}
        self.locals: dict[Buffer, str] = {}
        every = ir.walk(kernel.body)
        self.changing: set[Any] = ir.reads(every, every) & ir.writes(every, every)
        # the names of values, of indices, and what each open block has put into one of the two
        self.values: Names = {}
        self.indices: Names = {}
        self.scopes: list[list[tuple[Names, Expr]]] = [[]]
        self.depends: dict[Expr, frozenset[Any]] = {}
        self.rare: dict[Expr, rare.Rare] = {}
        self.repeated: repeated.Calls = {}

    # -- names -----------------------------------------------------------------------------
    def let(self, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, text: str) -> None:
        self.out.declarations.add(text)

    def opaque(self, kind: str, value: str) -> str:
        """The name of a constant that LLVM cannot reckon with: it is read from memory once."""
        name, slot = f'%"{kind}.{value}"', f'%"{kind}.{value}.p"'
        if name not in self.opaques:
            self.opaques.add(name)
            self.head.append(f"  {slot} = alloca {kind}")
            self.head.append(f"  store volatile {kind} {value}, ptr {slot}")
            self.head.append(f"  {name} = load volatile {kind}, ptr {slot}")
        return name

    def size(self, expr: Expr) -> str:
        """The name of a number that dims alone make, computed once, at the head of the kernel.

        What a division or a choice gives is read from memory, so that LLVM does not see how it was
        made: its analyses take apart the index of every access, for seconds where sizes are long.
        """
        name = self.sizes.get(expr)
        if name is None:
            lines, self.lines = self.lines, self.head
            operands = [self.operand(a) if a.fn in _LEAVES else self.size(a) for a in expr.args]
            name, kind = ins.emit(self, expr, operands, None), ins.TYPES[expr.dtype]
            if expr.fn in _DISGUISED:
                self.lines.append(f"  {name}.p = alloca {kind}")
                self.lines.append(f"  store volatile {kind} {name}, ptr {name}.p")
                name, hidden = f"{name}.size", f"{name}.p"
                self.lines.append(f"  {name} = load volatile {kind}, ptr {hidden}")
            self.lines, self.sizes[expr] = lines, name
        return name

    def _is_size(self, root: Expr) -> bool:
        """Whether an int or a flag, more than a name, is made of dims, and of constants besides."""
        known, stack = self.of_dims, [root]
        while stack:
            e, size = stack[-1], len(stack)
            if e.fn == "const":
                known[e] = _CONSTANT
            elif e.fn == "var":
                known[e] = _OTHER if e in self.index_names or e in self.slots else _OF_DIMS
            elif e.fn not in _OF_SIZES or e.dtype.kind not in "bi":
                known[e] = _OTHER
            elif e not in known:
                for a in e.args:
                    if a not in known:
                        stack.append(a)
                if len(stack) > size:
                    continue
                parts = list(map(known.__getitem__, e.args))
                known[e] = _OTHER if _OTHER in parts else max(parts)
            stack.pop()
        return known[root] == _OF_DIMS

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
        self._check_room(name)
        self.tail.append(f"  call void @phix_give(ptr {name})")

    def _check_room(self, memory: str) -> None:
        """Return with a fault where there was no room for a block."""
        self.count += 1
        failed, given = f"failed{self.count}", f"given{self.count}"
        is_none = self.let(f"icmp eq ptr {memory}, null")
        self.lines.append(f"  br i1 {is_none}, label %{failed}, label %{given}")
        self._start(failed)
        self.lines += [faults.report(self.fault(), faults.NO_ROOM), *self.tail, "  ret void"]
        self._start(given)

    def fault(self) -> str:
        """The block that says what went wrong."""
        self.out.can_fail = True
        return self.parameter(*faults.KEY)

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
    def know(self, names: Names, expr: Expr, name: str) -> str:
        """Let a block, and those in it, find a value by name."""
        names[expr] = name
        self.scopes[-1].append((names, expr))
        return name

    def _find_dependencies(self, exprs: Iterable[Expr]) -> None:
        """Note the mutable scalars and changing buffers that expressions read."""
        depends, stack = self.depends, list(exprs)
        while stack:
            e, size = stack[-1], len(stack)
            found: frozenset[Any] = frozenset()
            is_still = not (e.operand_loads or e.fn == "load" or self.slots)
            for a in () if is_still else e.args:
                if a in depends:
                    found |= depends[a]
                else:
                    stack.append(a)
            if len(stack) > size:
                continue
            if e.fn == "var" and e in self.slots:
                found |= {e}
            elif e.fn == "load" and e.data in self.changing:
                found |= {e.data}
            depends[e] = found
            stack.pop()

    def forget(self, changed: set[Any]) -> None:
        """Drop the values that depend on what changes."""
        if not changed:
            return
        for names in (self.values, self.indices):
            self._find_dependencies([e for e in names if e not in self.depends])
            for expr in [e for e in names if not changed.isdisjoint(self.depends[e])]:
                del names[expr]

    # -- statements ------------------------------------------------------------------------
    def block(self, body: list[ir.Statement]) -> None:
        for statement in body:
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _inner(self, body: list[ir.Statement]) -> None:
        with self._scope():
            self.block(body)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self.scopes.append([])
        yield
        for names, expr in self.scopes.pop():
            names.pop(expr, None)

    def _start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def _for(self, loop: ir.For) -> None:
        if running_totals.printed(self, loop):
            return
        extent, first = self.index(loop.extent), self.index(loop.start)
        keys = [(e, extremes.begin(self, e, self.value(e.target))) for e in extremes.of(loop)]
        self.count += 1
        index, head, end = f"%i{self.count}", f"loop{self.count}", f"end{self.count}"
        changed = ir.changes(loop.body, self.changing)
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
        self.open.append(loop.index)
        if keys:
            with self._scope():
                for found, key in keys:
                    values = [self.value(e) for e in extremes.elements(found)]
                    extremes.take(self, found, key, values)
        else:
            self.access = APART_IN_LANES if is_of_lanes(loop) else ""
            self.repeated |= repeated.calls_in(loop)
            self._inner(loop.body)
            self.access = ""
        self.open.pop()
        self.lines.append(f"  {index}.next = add nuw nsw i64 {index}, 1")
        again = self.let(f"icmp slt i64 {index}.next, {extent}")
        self.lines.append(f"  br i1 {again}, label %{head}, label %{end}{advice(loop)}")
        start, back = f"[{first}, %{before}]", f"[{index}.next, %{self.label}]"
        self.lines[phi] = f"  {index} = phi i64 {start}, {back}"
        self._start(end)
        for found, key in keys:
            kind, value = ins.TYPES[found.target.dtype], extremes.end(self, found, key)
            self.lines.append(f"  store {kind} {value}, ptr {self.slots[found.target]}")
        extremes.hide(self, loop)
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
        self.forget(ir.changes(statement.body, self.changing))

    def _while(self, statement: ir.While) -> None:
        self.count += 1
        test, body, end = (f"{name}{self.count}" for name in ("test", "body", "end"))
        changed = ir.changes(statement.body, self.changing)
        self.forget(changed)
        self.lines.append(f"  br label %{test}")
        self._start(test)
        with self._scope():
            condition = self.value(statement.condition)
        self.lines.append(f"  br i1 {condition}, label %{body}, label %{end}")
        self._start(body)
        self._inner(statement.body)
        self.lines.append(f"  br label %{test}{advice(statement)}")
        self._start(end)
        self.forget(changed)

    def _store(self, statement: ir.Store) -> None:
        own = ir.load(statement.buffer, statement.indices)
        flags = ins.NO_FLAGS
        if isinstance(own, Expr) and self._comes_again(statement.indices):
            flags = ins.terms(statement.value, own)
        value = self.value(statement.value, flags)
        address = self.address(statement.buffer, statement.indices)
        ins.store(self, statement.buffer.dtype, value, address, self.access)
        self.forget({statement.buffer} & self.changing)

    def _comes_again(self, indices: tuple[Expr, ...]) -> bool:
        """Whether an open loop comes to one place again and again: what is stored there goes on."""
        used = ir.expressions([ir.Declare(i, i) for i in indices])
        return any(index not in used for index in self.open)

    def _declare(self, statement: ir.Declare) -> None:
        value = self.value(statement.value)
        kind = ins.TYPES[statement.target.dtype]
        slot = f"%m{len(self.slots)}"
        self.head.append(f"  {slot} = alloca {kind}")
        self.slots[statement.target] = slot
        self.lines.append(f"  store {kind} {value}, ptr {slot}")

    def _assign(self, statement: ir.Assign) -> None:
        names = []
        for target, value in zip(statement.targets, statement.values):
            flags = ins.terms(value, target)
            if statement.reassociate:
                sums = (e for e in flags if e.fn == "add")
                flags = {**flags, **dict.fromkeys((*sums, value), ins.FREE_ORDER)}
            names.append(self.value(value, flags))
        for target, name in zip(statement.targets, names):
            kind = ins.TYPES[target.dtype]
            self.lines.append(f"  store {kind} {name}, ptr {self.slots[target]}")
        self.forget(set(statement.targets))

    def _librarycall(self, statement: ir.LibraryCall) -> None:
        from phix.kernels.cpu import direct_convolutions, direct_products  # most programs call none

        name, passed = statement.name, statement.arguments
        for routines in (direct_products, direct_convolutions):
            own = routines.name_of(statement)
            if own is not None:
                name, passed = own, routines.arguments_of(statement)
        arguments = list(map(self._passed, passed))
        if linked.is_linked(name) or name in faults.ROUTINES:
            arguments.append(f"ptr {self.fault()}")
        self.out.libraries.add(name)
        self.lines.append(f"  call void @{name}({', '.join(arguments)})")
        self.forget(set(statement.writes) & self.changing)

    def _passed(self, argument: Pointer | Expr) -> str:
        if isinstance(argument, Pointer):
            return "ptr " + self.address(argument.buffer, (argument.offset,))
        return "i64 " + self.index(argument)

    # -- expressions -----------------------------------------------------------------------
    def index(self, expr: Expr) -> str:
        """An index or extent: int64 arithmetic that does not overflow, which LLVM may know."""
        if expr.fn not in ("add", "sub", "mul"):
            return self.value(expr)
        name = self.indices.get(expr)
        if name is None:
            a, b = map(self.index, expr.args)
            name = self.know(self.indices, expr, self.let(f"{expr.fn} nsw i64 {a}, {b}"))
        return name

    def value(self, root: Expr, flags: Mapping[Expr, str] = ins.NO_FLAGS) -> str:
        """The name of the value of an expression; ``flags`` go on operations in it."""
        values, stack = self.values, [root]
        while stack:
            expr, size = stack[-1], len(stack)
            if expr not in values and expr.fn not in _LEAVES:
                if expr.dtype.kind in "bi" and self._is_size(expr):
                    self.know(values, expr, self.size(expr))
                    stack.pop()
                    continue
                for a in reversed(self._operands(expr)):
                    if a not in values and a.fn not in _LEAVES:
                        stack.append(a)
                if len(stack) > size:
                    continue
                self.know(values, expr, self._compute(expr, flags.get(expr)))
            stack.pop()
        return self.operand(root)

    def _operands(self, expr: Expr) -> tuple[Expr, ...]:
        """What is computed before an expression."""
        if expr in self.repeated:
            return (self.repeated[expr][1],)
        if expr.fn == "rarely":
            if expr not in self.rare:
                self.rare[expr] = rare.of(expr)
            return self.rare[expr].operands
        return () if expr.fn == "load" else expr.args

    def operand(self, expr: Expr) -> str:
        """The name of a value that is known, or of a leaf."""
        name = self.values.get(expr)
        if name is not None:
            return name
        if expr.fn == "const":
            name = self.values[expr] = ins.constant(expr.data, expr.dtype)
            return name
        return self._variable(expr)

    def _variable(self, expr: Expr) -> str:
        if expr in self.index_names:
            return self.index_names[expr]
        if expr in self.slots:
            name = self.let(f"load {ins.TYPES[expr.dtype]}, ptr {self.slots[expr]}")
            return self.know(self.values, expr, name)
        return self.parameter("dim", expr.data)

    def _compute(self, expr: Expr, flags: str | None) -> str:
        if expr.fn == "load":
            return ins.load(self, expr.data.dtype, self.address(expr.data, expr.args), self.access)
        operands = list(map(self.operand, self._operands(expr)))
        if expr in self.repeated:
            self.out.repeated[self.repeated[expr][0].name] = self.repeated[expr][0]
            return repeated.called(self, self.repeated[expr], *operands)
        if expr.fn == "rarely":
            return rare.called(self, self.rare[expr], operands)
        if expr.fn == "select" and expr.dtype.kind == "f":
            operands[1:] = [self._arm(a, name) for a, name in zip(expr.args[1:], operands[1:])]
        return ins.emit(self, expr, operands, flags)

    def _arm(self, arm: Expr, name: str) -> str:
        """What a choice may give. Of max(a, choice of x and -inf) LLVM would make a choice of
        max(a, x) and a, which is quicker one by one, but of such a loop it makes no vectors."""
        is_infinite = arm.fn == "const" and np.isinf(arm.data)
        return self.opaque(ins.TYPES[arm.dtype], name) if is_infinite else name

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The address of an element."""
        base = self.locals.get(buffer) or self.parameter("data", buffer)
        indices, part = ir.without_part(buffer, indices)
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
