"""What printers of kernels as source text share: lines, and which values have a name where.

An expression is written out where it is used, and has a name where it is used again or is long. A
name holds in its block and the blocks in it, until what the value was made of changes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from phix.kernels.loops import nodes as ir
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import Expr

# Longer texts get a name of their own.
LONGEST = 60
# Two ways to compute an expression: one of them is of ints that do not overflow.
VALUE, INDEX = "value", "index"


class SourcePrinter:
    """Lines of a kernel, and what is known by name at the point of printing."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.changing: set[Any] = ir.reads(kernel.body) & ir.writes(kernel.body)
        self.index_names: dict[Expr, str] = {}
        self.mutable: dict[Expr, str] = {}
        self.scopes: list[dict[tuple[str, Expr], str]] = [{}]
        self.depends: dict[Expr, frozenset[Any]] = {}
        self.uses: Counter[Expr] = Counter()

    # -- what a language says ----------------------------------------------------------------
    def constant(self, e: Expr) -> str:
        """The text of a number."""
        raise NotImplementedError

    def variable(self, e: Expr) -> str:
        """The name of a dim."""
        raise NotImplementedError

    def operation(self, e: Expr, operands: list[str]) -> str:
        """The text of a load, or of an operation on operands with these texts."""
        raise NotImplementedError

    def declaration(self, e: Expr, mode: str, name: str, text: str) -> str:
        """The line that gives a value its name."""
        raise NotImplementedError

    # -- text --------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- what is known already ---------------------------------------------------------------
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
        return ir.changes(body, self.changing)

    # -- expressions -------------------------------------------------------------------------
    def count_uses(self, statement: ir.Statement) -> None:
        """Find what the statement to be printed uses more than once: that gets a name."""
        self.uses = Counter()
        for root in ir.roots(statement):
            self.uses[root] += 1
        heads: ir.Statement = statement
        if isinstance(statement, ir.For):
            heads = ir.For(statement.index, statement.extent, [], start=statement.start)
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
            return self.constant(e)
        if e.fn == "var":
            if e in self.index_names:
                return self.index_names[e]
            if e in self.mutable:
                return self.mutable[e]
            return self.variable(e)
        return self.known(VALUE, e)

    def _named(self, e: Expr, operands: list[str]) -> str:
        text = self.operation(e, operands)
        if self.uses[e] <= 1 and len(text) <= LONGEST:
            return text
        return self.let(VALUE, e, text)

    def let(self, mode: str, e: Expr, text: str) -> str:
        """A name for a value, from here to the end of the block."""
        name = self.fresh()
        self.line(self.declaration(e, mode, name, text))
        self.scopes[-1][mode, e] = name
        return name
