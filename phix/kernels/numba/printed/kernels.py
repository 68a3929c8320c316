"""Prints a kernel of the loop IR as one Numba function over arrays.

A contiguous buffer is an array of one dim, its elements in order; a strided one has all its dims.
Complex ones have one more dim, of the real and the imaginary part.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Buffer
from phix.kernels.loops.printing import SourcePrinter
from phix.kernels.numba.printed import routines, scalars
from phix.kernels.numba.printed.functions import Body
from phix.kernels.numba.printed.helpers import TEXTS
from phix.kernels.numba.printed.prelude import JIT, Prelude
from phix.kernels.scalar.language import Expr

# The names that loops, mutable scalars, values, temps and loops of steps have in a function.
_OWN = re.compile(r"[aivst]\d+")
# What a module and its functions call by name.
_IMPORTED = "np math ir types njit intrinsic overload Fraction ml_dtypes elements axes array"
_HELPERS = re.findall(r"^def (\w+)", "\n".join(TEXTS.values()), re.MULTILINE)
_TAKEN = frozenset((*_IMPORTED.split(), *_HELPERS, *dir(builtins), *keyword.kwlist))


class Names:
    """What buffers and dims are called in a module, no two alike."""

    def __init__(self) -> None:
        self.found: dict[Buffer | str, str] = {}
        self.taken: dict[str, int] = {}  # and how often each was wanted again

    def of(self, what: Buffer | str, wanted: str = "") -> str:
        """The name of a buffer, or of the dim or index of that name."""
        if what not in self.found:
            name = what if isinstance(what, str) else what.name
            is_own = not wanted and _OWN.fullmatch(name) is not None
            self.found[what] = self.new(wanted or name, is_own)
        return self.found[what]

    def new(self, wanted: str, is_own: bool = False) -> str:
        """A name like the one that is wanted."""
        plain = re.sub(r"\W", "_", wanted) or "x"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        is_free = is_own or not (plain in _TAKEN or _OWN.fullmatch(plain))
        name = first = plain if is_free else f"{plain}_"
        while name in self.taken:
            self.taken[first] += 1
            name = f"{first}_{self.taken[first]}"
        self.taken[name] = 0
        return name


class KernelPrinter(SourcePrinter):
    """The lines of one kernel; ``parameters`` are the buffers and dims that it takes."""

    def __init__(self, kernel: ir.Kernel, names: Names, prelude: Prelude) -> None:
        super().__init__(kernel)
        self.names, self.prelude = names, prelude
        self.parameters: dict[Buffer | str, str] = {}
        self.locals: dict[Buffer, str] = {}
        for buffer, size in kernel.locals.items():
            count, name = self.value(size), names.of(buffer)
            self.locals[buffer] = name
            self.line(f"{name} = {empty(buffer, count)}")
        self.block(kernel.body)
        arrays_first = sorted(self.parameters, key=lambda what: isinstance(what, str))
        self.parameters = {what: self.parameters[what] for what in arrays_first}

    # -- what Python says --------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def constant(self, e: Expr) -> str:
        return scalars.number(e.data, e.dtype)

    def variable(self, e: Expr) -> str:
        return self.parameter(e.data)

    def parameter(self, what: Buffer | str) -> str:
        if isinstance(what, Buffer) and what in self.locals:
            return self.locals[what]
        return self.parameters.setdefault(what, self.names.of(what))

    def operation(self, e: Expr, operands: list[str]) -> str:
        if e.fn == "load":
            return scalars.loaded(self.prelude, e.data.dtype, self.place(e.data, e.args))
        if isinstance(e.data, Body):
            self.prelude.add(e.data, self.names.new, self._function)
        return scalars.emit(self.prelude, e, operands)

    def declaration(self, e: Expr, mode: str, name: str, text: str) -> str:
        return f"{name} = {text}"

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An element in memory, to be read or assigned."""
        name, texts = self.parameter(buffer), [self.value(i) for i in indices]
        if dt.is_complex(buffer.dtype) and len(texts) == (
            len(buffer.dims) if buffer.strided else 1
        ):
            texts.append("0")
        return f"{name}[{', '.join(texts) or '()'}]"

    def _function(self, body: Body, name: str) -> str:
        """The body of an op as a function of scalars."""
        inner = KernelPrinter(ir.Kernel(), self.names, self.prelude)
        inner.lines = []
        inner.index_names = {x: x.data for x in body.inputs}
        result = body.expression
        inner.count_uses(ir.Declare(result, result))
        inner.line(f"return {inner.value(result)}")
        takes = ", ".join(x.data for x in body.inputs)
        return "\n".join([JIT, f"def {name}({takes}):", *inner.lines])

    # -- statements --------------------------------------------------------------------------
    def block(self, body: list[ir.Statement]) -> None:
        for statement in body:
            self.count_uses(statement)
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)
        if not body:
            self.line("pass")

    @contextmanager
    def _inside(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        self.scopes.append({})
        yield
        self.scopes.pop()
        self.depth -= 1

    def _for(self, loop: ir.For) -> None:
        first = "" if loop.start is ir.ZERO else f"{self.value(loop.start)}, "
        extent, changed = self.value(loop.extent), self.changes(loop.body)
        self.forget(changed)
        name = self.index_names[loop.index] = str(loop.index.data)
        with self._inside(f"for {name} in range({first}{extent}):"):
            self.block(loop.body)
        self.forget(changed)

    def _if(self, statement: ir.If) -> None:
        with self._inside(f"if {self.value(statement.condition)}:"):
            self.block(statement.body)
        self.forget(self.changes(statement.body))

    def _while(self, statement: ir.While) -> None:
        changed = self.changes(statement.body)
        self.forget(changed)
        at = len(self.lines)
        with self._inside("while True:"):
            condition = self.value(statement.condition)
            if len(self.lines) == at + 1:
                self.lines[at] = self.lines[at].replace("True", condition)
            else:
                with self._inside(f"if not ({condition}):"):
                    self.line("break")
            self.block(statement.body)
        self.forget(changed)

    def _store(self, statement: ir.Store) -> None:
        value = scalars.stored(self.prelude, statement.buffer.dtype, self.value(statement.value))
        self.line(f"{self.place(statement.buffer, statement.indices)} = {value}")
        self.forget({statement.buffer} & self.changing)

    def _declare(self, statement: ir.Declare) -> None:
        value, name = self.value(statement.value), str(statement.target.data)
        if statement.value.fn == "const" and statement.value.dtype in (dt.int64, dt.float64):
            value = f"{scalars.word(statement.value.dtype)}({value})"
        self.line(f"{name} = {value}")
        self.mutable[statement.target] = name
        self.depends.clear()

    def _assign(self, statement: ir.Assign) -> None:
        take = self._in_any_order if statement.reassociate else self.value
        values = ", ".join([take(v) for v in statement.values])
        self.line(f"{', '.join(self.mutable[t] for t in statement.targets)} = {values}")
        self.forget(set(statement.targets))

    def _in_any_order(self, e: Expr) -> str:
        """A value that goes on from the one before, by an operation whose order is free."""
        word = {"add": "plus", "mul": "times"}.get(e.fn)
        if word is None or e.dtype.kind != "f":
            return self.value(e)
        x, y = map(self.value, e.args)
        return f"{self.prelude.name(word)}({x}, {y})"

    def _librarycall(self, statement: ir.LibraryCall) -> None:
        self.line(routines.line(self, statement))
        self.forget(set(statement.writes) & self.changing)


def empty(buffer: Buffer, count: str) -> str:
    """New memory for so many elements."""
    shape = f"({count}, 2)" if dt.is_complex(buffer.dtype) else count
    return f"np.empty({shape}, {scalars.word(buffer.dtype)})"
