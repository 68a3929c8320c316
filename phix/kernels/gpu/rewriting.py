"""Statements rewritten with other expressions in them."""

from __future__ import annotations

from collections.abc import Mapping

from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, Declare, For, If, Statement, Store, While
from phix.kernels.scalar.bottom_up import bottom_up, with_operands
from phix.kernels.scalar.language import Expr


class Rewriter:
    """Puts expressions in the place of others; ``done`` maps each to what replaces it."""

    def __init__(self, done: Mapping[Expr, Expr]) -> None:
        self.done = dict(done)

    def expr(self, root: Expr) -> Expr:
        return bottom_up(root, self.done, with_operands)

    def block(self, body: list[Statement]) -> list[Statement]:
        return [self.statement(s) for s in body]

    def statement(self, s: Statement) -> Statement:
        """A copy of the statement; scalars that it sets must not be among those replaced."""
        expr = self.expr
        if isinstance(s, For):
            return For(s.index, expr(s.extent), self.block(s.body), s.kind)
        if isinstance(s, Store):
            return Store(s.buffer, tuple(map(expr, s.indices)), expr(s.value))
        if isinstance(s, Declare):
            return Declare(s.target, expr(s.value))
        if isinstance(s, Assign):
            return Assign(s.targets, tuple(map(expr, s.values)), s.reassociate)
        assert isinstance(s, (If, While)), "library calls are no part of kernels here"
        return type(s)(expr(s.condition), self.block(s.body))


def assigned(body: list[Statement]) -> set[Expr]:
    """The scalars that a block sets, its own included."""
    return {t for s in ir.walk(body) if isinstance(s, Assign) for t in s.targets}


def declared(body: list[Statement]) -> set[Expr]:
    """The scalars that a block declares."""
    return {s.target for s in ir.walk(body) if isinstance(s, Declare)}


def scalars(body: list[Statement]) -> set[Expr]:
    """The variables that a block reads."""
    return {e for e in ir.expressions(body) if e.fn == "var"}
