"""Prints a loop program as a Python module: its kernels, its loops of steps, and one entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.engines import as_array
from phix.core.errors import KernelNotFoundError
from phix.core.graph import Equation
from phix.core.size_checks import Bound, SizeCheck, symbols_around
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.dim_expressions import DimExpressions
from phix.kernels.loops.nodes import Buffer, LoopProgram, Step
from phix.kernels.numba.printed import scalars
from phix.kernels.numba.printed.conditions import Condition, conditions
from phix.kernels.numba.printed.helpers import ELEMENTS
from phix.kernels.numba.printed.kernels import KernelPrinter, Names, empty
from phix.kernels.numba.printed.prelude import JIT, Prelude
from phix.kernels.scalar.language import Expr

# Constants of more elements are arrays that the caller passes.
_MOST_LITERALS = 64
# Names of a kernel are those of so many of its ops.
_MOST_OPS = 4
Labels = Mapping[ir.Kernel, tuple[tuple[str, ...], tuple[str, ...]]]


class Module:
    """The text of a program, and what its entry takes besides the inputs.

    ``labels`` has for each kernel the names of its ops and the texts of its equations. ``passed``
    are the constants that the entry takes by name, ``host`` the steps that it calls. ``asked`` are
    equations whose conditions on the sizes of arguments the entry looks at.
    """

    def __init__(
        self,
        program: LoopProgram,
        name: str,
        inputs: list[str],
        labels: Labels,
        asked: Sequence[Equation] = (),
    ) -> None:
        self.program, self.labels, self.asked = program, labels, asked
        self.names, self.prelude = Names(), Prelude()
        self.functions: list[str] = []
        self.host: dict[str, ir.HostStep] = {}
        self.dims = DimExpressions(())
        self.dims.symbol_names = {symbol: name for name, symbol in program.symbols.items()}
        self.sizes = set(dm.solutions([b.dims for b in program.inputs]))  # known so far
        self.name = self.names.new(name if name.isidentifier() else "function")
        for buffer, wanted in zip(program.inputs, inputs):
            self.names.of(buffer, wanted)
        self.constants, self.passed = self._constants()
        entry = _Entry(self)
        self.text = self._text(entry.text())

    def _constants(self) -> tuple[list[str], dict[str, Any]]:
        """Small constants as literals, and large ones by the names they are passed by."""
        lines, passed = [], {}
        for buffer, value in zip(self.program.constants, self.program.constant_values):
            name, array = self.names.of(buffer), flat(as_array(value))
            if array.size > _MOST_LITERALS:
                passed[name] = array
                continue
            kind = {"b": dt.bool_, "f": dt.float64}.get(array.dtype.kind, dt.int64)
            numbers = ", ".join(scalars.number(v, kind) for v in array.reshape(-1).tolist())
            shape = ".reshape(-1, 2)" if array.ndim == 2 else ""
            lines.append(f"{name} = np.array([{numbers}], {scalars.word(buffer.dtype)}){shape}")
        return lines, passed

    def _text(self, entry: str) -> str:
        helpers = list(self.prelude.texts.values())
        body = "\n\n\n".join([*helpers, *self.functions, ELEMENTS.strip(), entry])
        constants = ["\n".join(self.constants)] if self.constants else []
        groups = [[line for word, line in group if word in body] for group in _IMPORTS]
        head = "\n\n".join("\n".join(lines) for lines in groups if lines)
        return "\n\n".join([head, *constants]) + "\n\n\n" + body + "\n"

    def kernel(self, kernel: ir.Kernel) -> tuple[str, list[Buffer | str]]:
        """The function of a kernel, and what it takes."""
        printer = KernelPrinter(kernel, self.names, self.prelude)
        ops, equations = self.labels.get(kernel, ((), ()))
        words = list(dict.fromkeys(ops))[:_MOST_OPS] or ["copy"]
        name = self.names.new("_".join([*words, "kernel"]))
        takes = ", ".join(printer.parameters.values())
        notes = [f"# {line}" for line in equations]
        head = [*notes, JIT, f"def {name}({takes}):"]
        self.functions.append("\n".join([*head, *printer.lines]))
        return name, list(printer.parameters)

    def loop(self, step: Step) -> tuple[str, list[Buffer | str]]:
        """The function of a loop or a branch, and what it takes."""
        inner = _Steps(self)
        inner.step(step)
        name = self.names.new(_LOOPS[type(step)])
        takes = ", ".join(map(self.names.of, inner.parameters))
        self.functions.append("\n".join([JIT, f"def {name}({takes}):", *inner.lines]))
        return name, list(inner.parameters)


_LOOPS: dict[type, str] = {ir.ForStep: "loop", ir.WhileStep: "loop", ir.SwitchStep: "branches"}
# What a module imports where its text has a word.
_IMPORTS = (
    (("math.", "import math"), ("Fraction(", "from fractions import Fraction")),
    (
        ("ml_dtypes.", "import ml_dtypes"),
        ("np.", "import numpy as np"),
        ("ir.F", "from llvmlite import ir"),
        ("@njit", "from numba import njit"),
        ("types.E", "from numba import types"),
        ("@intrinsic", "from numba.extending import intrinsic, overload"),
    ),
)


class _Steps:
    """The lines of one function of steps; ``parameters`` is what it has from outside."""

    def __init__(self, module: Module) -> None:
        self.module, self.names = module, module.names
        self.lines: list[str] = []
        self.depth = 1
        self.parameters: dict[Buffer | str, None] = {}
        self.scopes: list[set[Buffer | str]] = [set()]

    # -- names -------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def has(self, what: Buffer | str) -> bool:
        return any(what in scope for scope in self.scopes)

    def name(self, what: Buffer | str) -> str:
        """The name of a buffer or a dim; a slice is made here, if it is not yet known."""
        if not self.has(what):
            if isinstance(what, Buffer) and what.base is not None:
                self.scopes[-1].add(what)
                self.line(f"{self.names.of(what)} = {self._slice(what)}")
            else:
                self.parameters[what] = None
        return self.names.of(what)

    def _slice(self, buffer: Buffer) -> str:
        base, index = buffer.base, buffer.index
        assert base is not None and index is not None
        if buffer.strided:
            return f"{self.name(base)}[{self.number(index)}, ...]"
        at, rows = self.number(index), self.size(dm.product(base.dims[1:]))
        at, rows = scalars.inside(at, 8), scalars.inside(rows, 9)
        return f"{self.name(base)}[{at} * {rows} : ({at} + 1) * {rows}]"

    def number(self, e: Expr) -> str:
        """The value of an expression of dims and indices."""
        if e.fn == "const":
            return scalars.number(e.data, e.dtype)
        if e.fn == "var":
            return self.name(e.data)
        return scalars.emit(self.module.prelude, e, [self.number(a) for a in e.args])

    def size(self, dim: dm.DimLike) -> str:
        return self.number(self.module.dims.dim(dim))

    # -- steps -------------------------------------------------------------------------------
    def block(self, steps: list[Step]) -> None:
        self.scopes.append(set())
        self.depth += 1
        self.steps(steps)
        self.depth -= 1
        self.scopes.pop()

    def steps(self, steps: list[Step]) -> None:
        for step in steps:
            self.allocate(step)
            self.step(step)
        if not steps:
            self.line("pass")

    def allocate(self, step: Step) -> None:
        """Memory for the buffers of a step that have none yet, and whose sizes are known here."""
        touched = {ir.owner(b) for b in ir.step_reads(step) | ir.step_writes(step)}
        for buffer in sorted(touched, key=lambda b: (len(b.name), b.name)):
            self._allocate(buffer)

    def _allocate(self, buffer: Buffer) -> None:
        if self._is_new(buffer):
            self.scopes[-1].add(buffer)
            count = self.size(dm.product(buffer.dims))
            self.line(f"{self.names.of(buffer)} = {empty(buffer, count)}")

    def _is_new(self, buffer: Buffer) -> bool:
        if buffer.kind not in ("temp", "shared", "output") or self.has(buffer):
            return False
        names = {self.module.dims.symbol_names[s] for d in buffer.dims for s in dm.symbols(d)}
        return self.is_here(buffer, names)

    def is_here(self, buffer: Buffer, names: set[str]) -> bool:
        """Whether memory for a buffer is taken here: where the last of its dims gets its value."""
        return any(map(self.has, names)) and buffer not in self.parameters

    def step(self, step: Step) -> None:
        getattr(self, f"_{type(step).__name__.lower()}")(step)

    def call(self, name: str, takes: list[Buffer | str]) -> None:
        texts = [self.name(what) for what in takes]
        self.line(f"{name}({', '.join(texts)})")

    def _kernel(self, kernel: ir.Kernel) -> None:
        self.call(*self.module.kernel(kernel))

    def _bindstep(self, step: ir.BindStep) -> None:
        name = self.names.of(step.name)
        self.line(f"{name} = int({self.name(step.source)}[0])")
        self.scopes[-1].add(step.name)
        self.module.sizes.add(self.module.program.symbols[step.name])
        self._look(step.check)

    def _look(self, check: Any) -> None:
        """Ask for what the sizes that are known by now must be."""
        if isinstance(check, Bound):
            dim = dm.Dim({(check.symbol,): 1})
            self._ask([Condition(dim, "from", 0, refusal=check.refusal)], "")
            self._look(check.check)
        elif isinstance(check, SizeCheck):
            self.ask_of([e for e in check.equations if symbols_around(e) <= self.module.sizes])

    def ask_of(self, equations: Iterable[Equation]) -> None:
        """Ask for what each of them asks for."""
        for equation in equations:
            found = conditions(equation)
            if found is None:
                raise KernelNotFoundError(
                    f"numba.source: which sizes {equation.op.name} fits is more than can be "
                    "printed; give dims that are equal the same name, or known sizes"
                )
            self._ask(found, equation.op.name)

    def _ask(self, wanted: Iterable[Condition], op_name: str) -> None:
        """Lines that look, once for what is asked for again in this block."""
        for condition in wanted:
            test = f"if not ({condition.text(self.size)}):"
            if not self.has(test):
                self.scopes[-1].add(test)
                refusal = condition.refusal or f"{op_name} asks for sizes with {test[8:-2]}"
                self.line(test)
                self.line(f"    raise ValueError({refusal!r})")

    def _forstep(self, loop: ir.ForStep) -> None:
        first, extent = self._enter(loop), self.number(loop.extent)
        self.line(f"for {self.names.of(loop.index.data)} in range({extent}):")
        self.scopes.append({loop.index.data})
        self.block(loop.body)
        self.scopes.pop()
        self._leave(loop, first)

    def _whilestep(self, loop: ir.WhileStep) -> None:
        first = self._enter(loop)
        self.line("while True:")
        self.block(loop.test)
        self.line(f"    if not {self.name(loop.flag)}[0]:")
        self.line("        break")
        self.block(loop.body)
        self._leave(loop, first)

    def _switchstep(self, step: ir.SwitchStep) -> None:
        index, last = f"{self.name(step.index)}[0]", len(step.branches) - 1
        for k, branch in enumerate(step.branches):
            test = f"{'elif' if k else 'if'} {index} == {k}:" if k < last else "else:"
            self.line(test if last else "if True:")
            self.block(branch)

    # -- what loops carry --------------------------------------------------------------------
    def _enter(self, loop: ir.ForStep | ir.WhileStep) -> list[str]:
        """Where the carries of a loop are before it."""
        self.scopes.append(set())
        pairs = [(self.name(a), self.name(b)) for a, b in loop.swaps]
        first = [self.names.new(f"first_{a}") for a, _ in pairs]
        for name, (a, _) in zip(first, pairs):
            self.line(f"{name} = {a}")
        return first

    def _leave(self, loop: ir.ForStep | ir.WhileStep, first: list[str]) -> None:
        """Carries change places at the end of the body; what counts goes back where it was."""
        pairs = [(self.names.of(a), self.names.of(b)) for a, b in loop.swaps]
        for a, b in pairs:
            self.line(f"    {a}, {b} = {b}, {a}")
        for name, (a, b) in zip(first, pairs):
            self.line(f"if {a} is not {name}:")
            self.line(f"    {name}[:] = {a}")
            self.line(f"    {a}, {b} = {name}, {a}")
        self.scopes.pop()


class _Entry(_Steps):
    """The function that Python calls: it looks at its arguments, and makes its results."""

    def text(self) -> str:
        module, program = self.module, self.module.program
        self._take_arguments()
        self.steps(program.steps)
        for buffer in program.outputs:  # those without elements, which no step touches
            self._allocate(buffer)
        results = [self._result(b) for b in program.outputs]
        self.line(f"return {', '.join(results)}")
        takes = [self.names.of(b) for b in program.inputs]
        takes += ["*", *module.passed] if module.passed else []
        kinds = [f"{self.names.of(b)}: {b.dtype}{dm.shape_text(b.dims)}" for b in program.inputs]
        made = [f"{b.dtype}{dm.shape_text(b.dims)}" for b in program.outputs]
        doc = f'    """{", ".join(kinds)} -> {", ".join(made)}."""'
        head = ['@np.errstate(all="ignore")', f"def {module.name}({', '.join(takes)}):", doc]
        return "\n".join([*head, *self.lines])

    def _take_arguments(self) -> None:
        program, names = self.module.program, self.module.dims.symbol_names
        own = self.scopes[0]
        for symbol, s in dm.solutions([b.dims for b in program.inputs]).items():
            size = f"{self.names.of(program.inputs[s.number])}.shape[{s.axis}]"
            size = f"({size} - {s.rest})" if s.rest else size
            size = f"{size} // {s.factor}" if s.factor != 1 else size
            own.add(names[symbol])
            self.line(f"{self.names.of(names[symbol])} = {size}")
        for buffer in program.inputs:
            name, sizes = self.names.of(buffer), ", ".join(map(self.size, buffer.dims))
            dims = f"({sizes},)" if len(buffer.dims) == 1 else f"({sizes})"
            word = "axes" if buffer.strided else "elements"
            self.line(f'{name} = {word}({name}, "{name}", "{buffer.dtype}", {dims})')
        own.update(program.inputs, program.constants)
        self.ask_of(self.module.asked)

    def is_here(self, buffer: Buffer, names: set[str]) -> bool:
        return all(map(self.has, names))

    def _result(self, buffer: Buffer) -> str:
        word = "ml_dtypes" if buffer.dtype in dt.FOREIGN else "np"
        is_itself = scalars.word(buffer.dtype) == f"np.{buffer.dtype}" or buffer.dtype.kind == "b"
        view = "" if is_itself else f".view({word}.{buffer.dtype})"
        sizes = ", ".join(map(self.size, buffer.dims))
        return f"{self.name(buffer)}{view}.reshape({sizes or '()'})"

    def step(self, step: Step) -> None:
        if ir.blocks(step) and not any(isinstance(s, ir.HostStep) for s in ir.walk_steps([step])):
            self.call(*self.module.loop(step))
        else:
            super().step(step)

    def _hoststep(self, step: ir.HostStep) -> None:
        name = self.names.new(f"{step.name}_step")
        self.module.host[name] = step
        pairs = [*zip(step.inputs, step.dims), *((b, b.dims) for b in step.outputs)]
        arrays = [self._array(b, dims) for b, dims in pairs]
        symbols = [name for name in self.module.program.symbols if self.has(name)]
        known = ", ".join(f'"{name}": {self.names.of(name)}' for name in symbols)
        self.line(f"{name}({', '.join([f'{{{known}}}', *arrays])})")

    def _array(self, buffer: Buffer, dims: dm.Shape) -> str:
        sizes = "".join(f"{self.size(d)}, " for d in dims)
        return f'array({self.name(buffer)}, "{buffer.dtype}", ({sizes}))'

    _librarystep = _hoststep


def flat(array: np.ndarray) -> np.ndarray:
    """An array as kernels take it: in one dim, complex numbers as pairs, narrow floats as bits."""
    found = np.ascontiguousarray(array).reshape(-1)
    if dt.is_complex(found.dtype):
        return found.view(dt.real_dtype(found.dtype)).reshape(-1, 2)
    if found.dtype in dt.STORAGE:
        return found.view(np.uint8)
    return found.view(np.uint16) if found.dtype in (dt.float16, dt.bfloat16) else found
