"""Kernels of the loop IR as Python functions, which do what the statements say and no more.

Every access looks whether it is inside its buffer. Expressions of indices and dims alone are known
as long as their block lasts; what depends on data is computed anew by each statement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.kernels.loops import evaluator_routines as routines
from phix.kernels.loops import evaluator_scalars as scalars
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.evaluator_scalars import EvaluationError
from phix.kernels.loops.nodes import Buffer
from phix.kernels.scalar.language import CHOICES, Expr

# Python has no more loops inside each other in one function.
_DEEPEST = 18


class KernelCode:
    """A kernel as ``run(views, numbers)``: of ``buffers`` and of the dims and indices ``names``.

    A view is ``(memory, offset, size, dims)``: a list of scalars, where the buffer begins in it,
    how many elements it has, and its dims.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        writer = _Writer()
        writer.block(kernel.body)
        self.buffers, self.names = tuple(writer.buffers), tuple(writer.numbers)
        self.writes = {b for b in ir.writes(kernel.body) if b.kind != "local"}
        self.run: Callable[[Any, Any], None] = _function(writer.text(), writer.objects)


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Any:
    return compile(text, "<loop ir>", "exec")


def _function(text: str, objects: dict[str, Any]) -> Any:
    space = dict(objects)
    exec(_compiled(text), space)
    return space["run"]


def outside(buffer: str, index: Any, size: int) -> None:
    raise EvaluationError(f"{buffer}[{index}] is outside of its {size} elements")


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.buffers: dict[Buffer, int] = {}
        self.numbers: dict[str, str] = {}
        self.objects: dict[str, Any] = {"outside": outside, "Poison": scalars.Poison}
        self.bound: dict[Expr, str] = {}  # indices of loops, and mutable scalars
        self.mutables: set[Expr] = set()
        self.known: dict[Expr, str] = {}  # of indices and dims, in the blocks that are open
        self.scopes: list[list[Expr]] = [[]]  # which of them each block made known
        self.own: dict[Expr, str] = {}  # what depends on data, of one statement
        self.constants: dict[Expr, str] = {}
        self.of_data: dict[Expr, bool] = {}

    def text(self) -> str:
        head = ["def run(views, numbers):"]
        for k in self.buffers.values():
            head.append(f"  m{k}, o{k}, n{k}, d{k} = views[{k}]")
        names = ", ".join(self.numbers.values())
        head += [f"  {names}, = numbers"] if names else []
        return "\n".join([*head, *self.lines, "  return"])

    def put(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def new(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # -- statements --------------------------------------------------------------------------
    def block(self, body: list[ir.Statement]) -> None:
        if self.depth > _DEEPEST:
            raise EvaluationError("loops stand too deep inside each other")
        self.scopes.append([])
        for s in body:
            self.own = {}
            getattr(self, f"_{type(s).__name__.lower()}")(s)
        self.forget()
        if not body:
            self.put("pass")

    def forget(self) -> None:
        """A block is over, and what was known in it alone."""
        for e in self.scopes.pop():
            del self.known[e]

    def inside(self, body: list[ir.Statement]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def _for(self, s: ir.For) -> None:
        start, extent, name = self.value(s.start), self.value(s.extent), self.new("i")
        before = self.bound.get(s.index)
        self.bound[s.index] = name
        self.put(f"for {name} in range({start}, {extent}):")
        self.inside(s.body)
        del self.bound[s.index]
        if before is not None:
            self.bound[s.index] = before

    def _if(self, s: ir.If) -> None:
        self.put(f"if {self.value(s.condition)}:")
        self.inside(s.body)

    def _while(self, s: ir.While) -> None:
        self.put("while True:")
        self.depth += 1
        self.own = {}
        self.scopes.append([])
        self.put(f"if not {self.value(s.condition)}: break")
        self.block(s.body)
        self.forget()
        self.depth -= 1

    def _declare(self, s: ir.Declare) -> None:
        value = self.value(s.value)
        self.bound[s.target] = name = self.new("a")
        self.mutables.add(s.target)
        self.put(f"{name} = {value}")

    def _assign(self, s: ir.Assign) -> None:
        values = [self.value(v) for v in s.values]
        for target, value in zip(s.targets, s.values):
            _check(target.dtype == value.dtype, f"{target!r} gets a {value.dtype}")
        targets = [self.bound[t] for t in s.targets]
        self.put(f"{', '.join(targets)} = {', '.join(values)}")

    def _store(self, s: ir.Store) -> None:
        value = self.value(s.value)
        _check(s.value.dtype == ir.scalar_dtype(s.buffer.dtype), f"{s.buffer} gets {s.value.dtype}")
        place = self.place(s.buffer, s.indices)
        self.put(f"{place} = {self.rounded(value, s.buffer.dtype)}")

    def rounded(self, value: str, dtype: np.dtype) -> str:
        """What memory of a dtype keeps of a value."""
        if dtype in (dt.float16, dt.bfloat16):
            narrow, wide = scalars.cast(dt.float32, dtype), scalars.cast(dtype, dt.float32)
            keep = scalars.strict(lambda x: wide(narrow(x)))
        elif dtype.kind in "iu":
            keep = scalars.wrapper(dtype)
        else:
            return value
        return f"{self.named(f'keep_{dtype}', keep)}({value})"

    def _librarycall(self, s: ir.LibraryCall) -> None:
        arguments = []
        for a in s.arguments:
            if isinstance(a, Expr):
                arguments.append(self.value(a))
                continue
            k, size = self.buffer(a.buffer), 2 if dt.is_complex(a.buffer.dtype) else 1
            at = f"o{k} + {size} * {self.value(a.offset)}"
            self.objects[f"buffer{k}"] = a.buffer
            self.objects["MemoryFrom"] = MemoryFrom
            self.put(f"p{k} = MemoryFrom(buffer{k}, m{k}, {at}, o{k}, o{k} + {size} * n{k})")
            arguments.append(f"p{k}")
        call = self.named(f"call_{s.name}", routines.find(s.name))
        self.put(f"{call}({', '.join(arguments)})")

    # -- expressions -------------------------------------------------------------------------
    def named(self, name: str, value: Any) -> str:
        self.objects[name] = value
        return name

    def buffer(self, buffer: Buffer) -> int:
        return self.buffers.setdefault(buffer, len(self.buffers))

    def value(self, root: Expr) -> str:
        """The name of the value of an expression; what it is made of comes first."""
        stack = [root]
        while stack:
            e = stack[-1]
            if e in self.own or e in self.known or e.fn in ("const", "var"):
                stack.pop()
                continue
            pending = [a for a in e.args if a.args and a not in self.own and a not in self.known]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            line = self.computed(e)
            name = self.new()
            self.put(f"{name} = {line}")
            if self.depends(e):
                self.own[e] = name
            else:
                self.known[e] = name
                self.scopes[-1].append(e)
        return self.operand(root)

    def depends(self, e: Expr) -> bool:
        """Whether a value depends on data, of its operands' answers."""
        if e not in self.of_data:
            self.of_data[e] = e.fn == "load" or e in self.mutables or any(map(self.depends, e.args))
        return self.of_data[e]

    def operand(self, e: Expr) -> str:
        if e.fn == "const":
            return self.constant(e)
        if e.fn == "var":
            if e in self.bound:
                return self.bound[e]
            return self.numbers.setdefault(e.data, f"s{len(self.numbers)}")
        return self.own[e] if e in self.own else self.known[e]

    def constant(self, e: Expr) -> str:
        if e not in self.constants:
            self.constants[e] = self._constant(e)
        return self.constants[e]

    def _constant(self, e: Expr) -> str:
        value = scalars.constant(e.data, e.dtype)
        if e.dtype.kind in "biu":
            return f"({value})"
        text = f"c_{e.dtype}_{value!r}"
        name = "".join(c if c.isalnum() else "_" if c != "-" else "m" for c in text)
        return self.named(name, value)

    def computed(self, e: Expr) -> str:
        if e.fn == "load":
            return self.place(e.data, e.args)
        operands = [self.operand(a) for a in e.args]
        if e.fn in CHOICES:
            c, x, y = operands
            return f"{c} if type({c}) is Poison else {x} if {c} else {y}"
        sign = scalars.infix(e)
        if sign is not None:
            text = f"{operands[0]} {sign} {operands[1]}"
            if not scalars.wraps(e) or not self.depends(e):
                return text
            return f"{self.named(f'wrap_{e.dtype}', scalars.wrapper(e.dtype))}({text})"
        name = "_".join([e.fn, *(str(a.dtype) for a in e.args), str(e.dtype), str(e.data or "")])
        return f"{self.named(name, scalars.meaning(e))}({', '.join(operands)})"

    def place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An element as Python writes it, after a look at its indices."""
        k, part, length = self.buffer(buffer), "", len(buffer.dims) if buffer.strided else 1
        if len(indices) > length:
            *head, last = indices
            part, indices = f" + {self.value(last)}", tuple(head)
        names = [self.value(i) for i in indices]
        name = "0"
        for axis, index in enumerate(names):
            size = f"d{k}[{axis}]" if buffer.strided else f"n{k}"
            self.put(f"if not 0 <= {index} < {size}: outside({buffer.name!r}, {index}, {size})")
            name = index if name == "0" else f"({name}) * {size} + {index}"
        if part:
            name = f"2 * ({name}){part}"
        return f"m{k}[o{k} + {name}]"


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise EvaluationError(message)


class MemoryFrom:
    """Memory of a buffer from one of its elements on, for routines; ``first`` and ``end`` are the
    buffer's own."""

    def __init__(self, buffer: Buffer, memory: list[Any], at: int, first: int, end: int) -> None:
        self.buffer, self.dtype = buffer, buffer.dtype
        self.memory, self.at, self.first, self.end = memory, at, first, end
        self.each = 2 if dt.is_complex(self.dtype) else 1

    def shifted(self, offset: int) -> MemoryFrom:
        """The place so many elements on."""
        at = self.at + offset * self.each
        return MemoryFrom(self.buffer, self.memory, at, self.first, self.end)

    def _inside(self, count: int) -> slice:
        end = self.at + count * self.each
        if count and not (self.first <= self.at and end <= self.end):
            outside(self.buffer.name, end - self.first, self.end - self.first)
        return slice(self.at, end)

    def read(self, count: int) -> np.ndarray:
        """The elements from here on."""
        return array_of(self.memory[self._inside(count)], self.dtype)

    def write(self, values: np.ndarray) -> None:
        """Store elements from here on."""
        self.memory[self._inside(values.size)] = scalars_of(values)


def array_of(memory: list[Any], dtype: np.dtype) -> np.ndarray:
    """Scalars of memory as an array of one dim; complex numbers are two scalars each."""
    for x in memory:
        if type(x) is scalars.Poison:
            x.found()
    held = dt.uint8 if dtype in dt.STORAGE else dt.real_dtype(dtype)
    return np.array(memory, held).view(dtype)


def scalars_of(array: np.ndarray) -> list[Any]:
    """The elements of an array as memory keeps them."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if dt.is_complex(flat.dtype):
        flat = flat.view(dt.real_dtype(flat.dtype))
    if flat.dtype in dt.STORAGE:
        flat = flat.view(dt.uint8)
    wide = ir.scalar_dtype(flat.dtype)
    return flat.tolist() if wide != dt.float32 else list(flat.astype(wide))
