"""Prints scalar expressions and addresses as C++, each value once in the block it is known in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Union

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import Expr

# What a kernel is passed: ("data", buffer, -), ("stride", buffer, axis) in bytes, or the value
# of a dim, ("dim", its name, -).
Parameter = tuple[str, Union[Buffer, str], int]

# Longer texts get a name of their own.
_LONGEST = 60


class ScalarPrinter:
    """Lines of C++, and what is known by name at the point of printing.

    Names are numbered in the order of use, so kernels that differ in names alone have equal
    texts.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        self.parameters: dict[Parameter, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.changing: set[Any] = ir.reads(kernel.body) & ir.writes(kernel.body)
        self.index_names: dict[Expr, str] = {}
        self.mutable: dict[Expr, str] = {}
        self.scopes: list[dict[tuple[str, Expr], str]] = [{}]
        self.depends: dict[Expr, frozenset[Any]] = {}
        self.uses: Counter[Expr] = Counter()
        # buffers held in packs: the buffer, and the index its elements are counted by
        self.packs: dict[tuple[Buffer, Expr], str] = {}
        # buffers in the shared memory of a block
        self.shared: dict[Any, str] = {}
        for buffer, size in kernel.locals.items():
            name, numbers = f"b{len(self.shared)}", size.data * (1 + dt.is_complex(buffer.dtype))
            kind = ins.memory_type(buffer.dtype)
            self.line(f"__shared__ __align__(16) {kind} {name}[{max(numbers, 1)}];")
            self.shared[buffer] = name

    # -- text ------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def parameter(self, kind: str, what: Buffer | str, axis: int = 0) -> str:
        if what in self.shared:
            assert isinstance(what, Buffer)
            return self.shared[what]
        letter = {"data": "p", "stride": "s", "dim": "n"}[kind]
        return self.parameters.setdefault((kind, what, axis), f"{letter}{len(self.parameters)}")

    def open(self, head: str) -> None:
        self.line(f"{head} {{")
        self.depth += 1
        self.scopes.append({})

    def close(self) -> None:
        self.scopes.pop()
        self.depth -= 1
        self.line("}")

    # -- what is known already -------------------------------------------------------------
    def known(self, mode: str, expr: Expr) -> str | None:
        for scope in reversed(self.scopes):
            if (mode, expr) in scope:
                return scope[mode, expr]
        return None

    def dependencies(self, root: Expr) -> frozenset[Any]:
        """The mutable scalars and changing buffers that an expression reads."""
        return bottom_up(root, self.depends, self._depends)

    def _depends(self, e: Expr, operands: list[frozenset[Any]]) -> frozenset[Any]:
        own: frozenset[Any] = frozenset()
        if e in self.mutable:
            own = frozenset((e,))
        elif e.fn == "load" and e.data in self.changing:
            own = frozenset((e.data,))
        return own.union(*operands)

    def forget(self, changed: set[Any]) -> None:
        """Drop the values that depend on what changes."""
        if not changed:
            return
        for scope in self.scopes:
            for key in [key for key in scope if self.dependencies(key[1]) & changed]:
                del scope[key]

    def changes(self, body: list[ir.Statement]) -> set[Any]:
        """What a block changes of that which values may depend on."""
        changed: set[Any] = ir.writes(body) & self.changing
        for s in ir.walk(body):
            if isinstance(s, ir.Assign):
                changed.update(s.targets)
        return changed

    # -- expressions -----------------------------------------------------------------------
    def count_uses(self, statement: ir.Statement) -> None:
        """Find what the statement to be printed uses more than once: that gets a name."""
        self.uses = Counter()
        for root in ir.roots(statement):
            self.uses[root] += 1
        heads: ir.Statement = statement
        if isinstance(statement, ir.For):
            heads = ir.For(statement.index, statement.extent, [])
        elif isinstance(statement, (ir.If, ir.While)):
            heads = type(statement)(statement.condition, [])
        for e in ir.expressions([heads]):
            self.uses.update(e.args)

    def value(self, root: Expr) -> str:
        """The text of the value of an expression: a name, or a short text used once."""
        texts: dict[Expr, str] = {}
        stack = [root]
        while stack:
            e = stack[-1]
            if e in texts:
                stack.pop()
                continue
            ready = self._ready(e)
            operands = () if e.fn == "load" else e.args
            pending = [] if ready is not None else [a for a in operands if a not in texts]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            texts[e] = ready if ready is not None else self._named(e, [texts[a] for a in operands])
        return texts[root]

    def _ready(self, e: Expr) -> str | None:
        if e.fn == "const":
            return ins.constant(e.data, e.dtype)
        if e.fn == "var":
            if e in self.index_names:
                return self.index_names[e]
            if e in self.mutable:
                return self.mutable[e]
            return self.parameter("dim", e.data)
        return self.known("value", e)

    def _named(self, e: Expr, operands: list[str]) -> str:
        text = self._load(e) if e.fn == "load" else ins.emit(e, operands)
        if self.uses[e] <= 1 and len(text) <= _LONGEST:
            return text
        return self._let("value", e, ins.type_of(e.dtype), text)

    def _let(self, mode: str, e: Expr, kind: str, text: str) -> str:
        name = self.fresh()
        self.line(f"const {kind} {name} = {text};")
        self.scopes[-1][mode, e] = name
        return name

    def index(self, e: Expr) -> str:
        """An index or extent: int64 arithmetic that does not overflow."""
        if e.fn not in ("add", "sub", "mul"):
            return self.value(e)
        name = self.known("index", e)
        if name is not None:
            return name
        a, b = (self.index(x) for x in e.args)
        text = f"({a} {ins.INFIX[e.fn]} {b})"
        return text if len(text) <= _LONGEST else self._let("index", e, "long long", text)

    # -- memory ----------------------------------------------------------------------------
    def _load(self, e: Expr) -> str:
        return ins.loaded(e.data.dtype, self.place(e.data, e.args))

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An element in memory, to be read or assigned."""
        if indices and (buffer, indices[0]) in self.packs:
            return self.packs[buffer, indices[0]]
        base = self.parameter("data", buffer)
        indices, part = ir.without_part(buffer, indices)
        if buffer.strided:
            return self._strided(buffer, base, indices, part)
        (linear,) = indices
        offset = self.index(linear)
        if dt.is_complex(buffer.dtype):
            offset = f"2 * {offset}" + (f" + {part.data}" if part is not None and part.data else "")
        return f"{base}[{offset}]"

    def _strided(
        self, buffer: Buffer, base: str, indices: tuple[Expr, ...], part: Expr | None
    ) -> str:
        kind, size = ins.memory_type(buffer.dtype), dt.real_dtype(buffer.dtype).itemsize
        terms = []
        for axis, e in enumerate(indices):
            index = self.index(e)
            if index not in ("0", "0LL"):
                terms.append(f"{index} * {self.parameter('stride', buffer, axis)}")
        if part is not None and part.data:
            terms.append(str(part.data * size))
        return f"*(const {kind}*)((const char*){base} + {' + '.join(terms) or '0'})"


def are_apart(buffers: set[Buffer]) -> bool:
    """Whether no two of the buffers share memory."""
    return len({ir.owner(b) for b in buffers}) == len(buffers)


def function_text(
    body: list[ir.Statement], parameters: Mapping[Parameter, str], lines: list[str]
) -> str:
    """What stands behind the name of a kernel: its parameters, and its lines in braces."""
    written = ir.writes(body)
    apart = are_apart(ir.reads(body) | written)
    arguments = ", ".join(
        declaration(p, name, p[1] not in written, apart) for p, name in parameters.items()
    )
    return f"({arguments}) {{\n" + "\n".join(lines) + "\n}"


def declaration(parameter: Parameter, name: str, is_read_only: bool, is_apart: bool) -> str:
    """A parameter of a kernel as C++ declares it."""
    kind, what, _ = parameter
    if kind != "data":
        return f"long long {name}"
    assert isinstance(what, Buffer)
    const = "const " if is_read_only else ""
    return f"{const}{ins.memory_type(what.dtype)}*{' __restrict__' if is_apart else ''} {name}"
