"""Changes of what the statements of a kernel compute, and of the places they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer, Pointer, Statement
from phix.kernels.scalar.bottom_up import bottom_up, with_operands
from phix.kernels.scalar.language import Expr

# The indices of an access -> the buffer to touch instead, and the indices there.
Change = Callable[[tuple[Expr, ...]], tuple[Buffer, tuple[Expr, ...]]]


def rename(new: Buffer) -> Change:
    """The change to another buffer, at the same indices."""
    return lambda indices: (new, indices)


def change_accesses(body: list[Statement], changes: Mapping[Buffer, Change]) -> None:
    """Change, in place, what the statements of a block load, store and pass to libraries."""
    done: dict[Expr, Expr] = {}

    def changed(e: Expr, operands: list[Expr]) -> Expr:
        if e.fn == "load" and e.data in changes:
            buffer, args = changes[e.data](tuple(operands))
            return Expr(e.fn, args, e.dtype, buffer)
        return with_operands(e, operands)

    def expr(root: Expr) -> Expr:
        for load in root.loads:
            if load.data in changes:
                return bottom_up(root, done, changed)
        return root  # as most indices, and most of what is far from a buffer that is renamed

    def place(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        own = tuple(map(expr, indices))
        return changes[buffer](own) if buffer in changes else (buffer, own)

    def argument(a: Pointer | Expr) -> Pointer | Expr:
        if isinstance(a, Expr):
            return expr(a)
        buffer, (offset,) = place(a.buffer, (a.offset,))
        return Pointer(buffer, offset)

    for s in ir.walk(body):
        if isinstance(s, ir.For):
            s.start, s.extent = expr(s.start), expr(s.extent)
        elif isinstance(s, ir.Store):
            s.value = expr(s.value)
            s.buffer, s.indices = place(s.buffer, s.indices)
        elif isinstance(s, ir.Declare):
            s.value = expr(s.value)
        elif isinstance(s, ir.Assign):
            s.values = tuple(map(expr, s.values))
        elif isinstance(s, (ir.If, ir.While)):
            s.condition = expr(s.condition)
        else:
            s.arguments = tuple(map(argument, s.arguments))
            zero = (ir.ZERO,)
            s.writes, s.updates = (
                tuple(changes[b](zero)[0] if b in changes else b for b in buffers)
                for buffers in (s.writes, s.updates)
            )


def substituted(root: Expr, changes: Mapping[Expr, Expr]) -> Expr:
    """``root`` with each key of ``changes`` replaced by its value, all at once."""
    return bottom_up(root, dict(changes), with_operands)


def replaced(body: list[Statement], changes: Mapping[Expr, Expr]) -> list[Statement]:
    """A copy of a block with each key of ``changes`` replaced by its value, all at once."""

    done = dict(changes)

    def expr(e: Expr) -> Expr:
        return bottom_up(e, done, with_operands)

    def argument(a: Pointer | Expr) -> Pointer | Expr:
        return Pointer(a.buffer, expr(a.offset)) if isinstance(a, Pointer) else expr(a)

    def copy(s: Statement) -> Statement:
        if isinstance(s, ir.For):
            return replace(s, start=expr(s.start), extent=expr(s.extent), body=block(s.body))
        if isinstance(s, ir.Store):
            return replace(s, indices=tuple(map(expr, s.indices)), value=expr(s.value))
        if isinstance(s, ir.Declare):
            return replace(s, value=expr(s.value))
        if isinstance(s, ir.Assign):
            return replace(s, values=tuple(map(expr, s.values)))
        if isinstance(s, (ir.If, ir.While)):
            return replace(s, condition=expr(s.condition), body=block(s.body))
        return replace(s, arguments=tuple(map(argument, s.arguments)))

    def block(statements: list[Statement]) -> list[Statement]:
        return [copy(s) for s in statements]

    return block(body)
