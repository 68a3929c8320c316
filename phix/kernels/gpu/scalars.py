"""Prints scalar expressions and addresses as C++, each value once in the block it is known in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Union

from phix.core import dtypes as dt
from phix.kernels.gpu import instructions as ins
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.loops.printing import INDEX, LONGEST, SourcePrinter
from phix.kernels.scalar.language import Expr

# What a kernel is passed: ("data", buffer, -), ("stride", buffer, axis) in bytes, or the value
# of a dim, ("dim", its name, -).
Parameter = tuple[str, Union[Buffer, str], int]


class ScalarPrinter(SourcePrinter):
    """Lines of C++.

    Names are numbered in the order of use, so kernels that differ in names alone have equal
    texts.
    """

    def __init__(self, kernel: ir.Kernel, elsewhere: Collection[Buffer] = ()) -> None:
        """``elsewhere``: buffers of the kernel's own that are not in shared memory."""
        super().__init__(kernel)
        self.parameters: dict[Parameter, str] = {}
        # buffers held in packs: the buffer, and the index its elements are counted by
        self.packs: dict[tuple[Buffer, Expr], str] = {}
        # buffers in the shared memory of a block
        self.shared: dict[Any, str] = {}
        for buffer, size in kernel.locals.items():
            if buffer in elsewhere:
                continue
            name, numbers = f"b{len(self.shared)}", size.data * (1 + dt.is_complex(buffer.dtype))
            kind = ins.memory_type(buffer.dtype)
            self.line(f"__shared__ __align__(16) {kind} {name}[{max(numbers, 1)}];")
            self.shared[buffer] = name

    # -- text ------------------------------------------------------------------------------
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

    # -- expressions -----------------------------------------------------------------------
    def constant(self, e: Expr) -> str:
        return ins.constant(e.data, e.dtype)

    def variable(self, e: Expr) -> str:
        return self.parameter("dim", e.data)

    def operation(self, e: Expr, operands: list[str]) -> str:
        return self._load(e) if e.fn == "load" else ins.emit(e, operands)

    def declaration(self, e: Expr, mode: str, name: str, text: str) -> str:
        kind = "long long" if mode == INDEX else ins.type_of(e.dtype)
        return f"const {kind} {name} = {text};"

    def index(self, e: Expr) -> str:
        """An index or extent: int64 arithmetic that does not overflow."""
        if e.fn not in ("add", "sub", "mul"):
            return self.value(e)
        name = self.known(INDEX, e)
        if name is not None:
            return name
        a, b = (self.index(x) for x in e.args)
        text = f"({a} {ins.INFIX[e.fn]} {b})"
        return text if len(text) <= LONGEST else self.let(INDEX, e, text)

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
