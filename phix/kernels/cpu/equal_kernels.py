"""Kernels that differ in names alone are printed once.

Unrolled steps, and layers of one kind, make the same kernel again and again, of other buffers. What
a kernel does is told by its outline, in which buffers and scalars have numbers, in the order of
their use; it is found in a fraction of the time that printing takes. Kernels of one outline have
one text, and the parameters of the one printed first, with the names of the other in their places.
"""

from __future__ import annotations

import copy
from typing import Any, Union

from phix.core import stages
from phix.kernels.cpu.llvm import KernelText
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import (
    Assign,
    Buffer,
    Declare,
    For,
    Kernel,
    LibraryCall,
    Pointer,
    Store,
)
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import Expr

_Name = Union[Buffer, str]
# What is no name: the ends of a piece are the same in all kernels that threads share.
_KNOWN = frozenset({ir.PIECE_START, ir.PIECE_END})


class Texts:
    """The texts of a module's kernels."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, ...], Kernel | None] = {}
        self._printed: dict[Kernel, KernelText] = {}
        self._found: dict[Any, tuple[KernelText, list[_Name]]] = {}

    def of(self, kernel: Kernel) -> KernelText:
        """The text of a kernel. Outlines are asked for only where two are about as large."""
        size = (len(ir.walk(kernel.body)), len(kernel.locals))
        if size not in self._first:
            self._first[size] = kernel
            self._printed[kernel] = text = KernelText(kernel)
            return text
        first, self._first[size] = self._first[size], None
        if first is not None:
            self._keep(_outline(first), self._printed.pop(first))
        outline = _outline(kernel)
        if outline is None or outline[0] not in self._found:
            return self._keep(outline, KernelText(kernel))
        return _renamed(kernel, *self._found[outline[0]], outline[1])

    def _keep(self, outline: tuple[Any, list[_Name]] | None, text: KernelText) -> KernelText:
        if outline is not None and not (text.can_fail or text.takes_memory):
            self._found.setdefault(outline[0], (text, outline[1]))
        return text


def _renamed(kernel: Kernel, text: KernelText, before: list[_Name], now: list[_Name]) -> KernelText:
    """The text of a kernel of the same outline."""
    names = dict(zip(before, now))
    found = copy.copy(text)
    found.parameters = [(kind, names.get(what, what)) for kind, what in text.parameters]
    if stages.is_verifying():
        own = KernelText(kernel)
        assert (own.text, own.parameters) == (text.text, found.parameters), (
            "its outline tells too little"
        )
    return found


def _outline(kernel: Kernel) -> tuple[Any, list[_Name]] | None:
    """What a kernel does, and its names in the order of their use; None where there is more in it
    than loops, scalars, calls and whole buffers."""
    steps = ir.walk(kernel.body)
    if not all(isinstance(s, (For, Store, Declare, Assign, LibraryCall)) for s in steps):
        return None
    outline = _Outline()
    own = [(outline.buffer(b), outline.value(size)) for b, size in kernel.locals.items()]
    lines = [outline.line(s) for s in steps]
    if any(isinstance(name, Buffer) and name.base is not None for name in outline.names):
        return None
    return (tuple(own), tuple(lines), tuple(outline.rows)), list(outline.names)


class _Outline:
    def __init__(self) -> None:
        self.names: dict[_Name, int] = {}
        self.rows: dict[tuple[Any, ...], int] = {}  # of expressions, by what they are made of
        self._known: dict[Expr, int] = {}

    def line(self, s: ir.Statement) -> tuple[Any, ...]:
        """One statement; blocks are told by how many they hold."""
        value = self.value
        if isinstance(s, For):
            ends = value(s.index), value(s.start), value(s.extent)
            return "for", *ends, s.kind, s.is_vector, len(s.body)
        if isinstance(s, Store):
            return "store", self.buffer(s.buffer), *map(value, s.indices), value(s.value)
        if isinstance(s, Declare):
            return "declare", value(s.target), value(s.value)
        if isinstance(s, Assign):
            return "assign", *map(value, s.targets), *map(value, s.values), s.reassociate
        assert isinstance(s, LibraryCall)
        changed = [tuple(map(self.buffer, buffers)) for buffers in (s.writes, s.updates)]
        return "call", s.name, *map(self._argument, s.arguments), *changed

    def buffer(self, b: Buffer) -> tuple[Any, ...]:
        """Its number, and what a text says of it."""
        return self._number(b), b.dtype, b.strided, len(b.dims), b.kind == "local"

    def _argument(self, a: Pointer | Expr) -> Any:
        if isinstance(a, Pointer):
            return self.buffer(a.buffer), self.value(a.offset)
        return self.value(a)

    def value(self, e: Expr) -> int:
        return bottom_up(e, self._known, self._row)

    def _row(self, e: Expr, operands: list[int]) -> int:
        data = e.data
        if e.fn == "var":
            data = data if e in _KNOWN else self._number(data)
        elif e.fn == "load":
            data = self.buffer(data)
        elif e.fn == "const":
            data = repr(data)
        return self.rows.setdefault((e.fn, e.dtype, data, *operands), len(self.rows))

    def _number(self, name: _Name) -> int:
        return self.names.setdefault(name, len(self.names))
