"""Going through an expression from its operands up, without Python's stack: they are deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from phix.kernels.scalar.language import Expr

Found = TypeVar("Found")


def bottom_up(
    root: Expr, done: dict[Expr, Found], value: Callable[[Expr, list[Found]], Found]
) -> Found:
    """``value(e, what its operands are)`` for every expression below and at ``root`` that is not in
    ``done``, which it is put into; what ``root`` is."""
    stack = [root]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        pending = [a for a in e.args if a not in done]
        if pending:
            stack.extend(pending)
            continue
        done[e] = value(e, [done[a] for a in e.args])
        stack.pop()
    return done[root]


def with_operands(e: Expr, operands: list[Expr]) -> Expr:
    """``e`` of other operands."""
    args = tuple(operands)
    return e if args == e.args else Expr(e.fn, args, e.dtype, e.data)
