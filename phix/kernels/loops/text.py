"""The loop IR as text, for people and for snapshots."""

from __future__ import annotations

from collections import Counter
from typing import Any

from phix.core import dims as dm
from phix.core.later import method_of
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.calls import CallStep
from phix.kernels.loops.nodes import Buffer, LoopProgram
from phix.kernels.scalar.language import Expr

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
          "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "shl": "<<",
          "shr": ">>"}  # fmt: skip


def program_text(program: LoopProgram) -> str:
    """The whole program: arguments, temps, then the steps in order."""
    arguments = ", ".join(map(_buffer_text, program.inputs + program.constants))
    outputs = ", ".join(map(_buffer_text, program.outputs))
    lines = [f"program({arguments}) -> ({outputs}) {{"]
    kernels = [s for s in ir.walk_steps(program.steps) if isinstance(s, ir.Kernel)]
    local = {b.name for kernel in kernels for b in kernel.locals}
    lines += [f"  {t.kind} {_buffer_text(t)}" for t in program.temps if t.name not in local]
    lines += _Steps().block(program.steps, 1)
    return "\n".join([*lines, "}"])


_HOW = (
    (ir.LibraryStep, "kernel of a library"), (ir.StartStep, "begin"), (ir.WaitStep, "wait for"),
    (CallStep, "call"), (ir.HostStep, "host"),
)  # fmt: skip


class _Steps:
    """Prints steps; kernels are numbered in the order of the text."""

    def __init__(self) -> None:
        self.kernels = 0

    def block(self, steps: list[ir.Step], depth: int) -> list[str]:
        return [line for step in steps for line in self._step(step, depth)]

    def _step(self, step: ir.Step, depth: int) -> list[str]:
        pad = "  " * depth
        if isinstance(step, ir.Kernel):
            self.kernels += 1
            shared = "" if step.shared is None else f"  # shared: {_expr(step.shared.extent, {})}"
            beside = "" if step.beside is None else "  # beside the one before"
            head = f"{pad}kernel {self.kernels - 1}:{shared}{beside}"
            own = [
                f"{pad}  local {b.name}: {b.dtype}[{_expr(n, {})}]" for b, n in step.locals.items()
            ]
            return [head, *own, *_Text().block(step.body, depth + 1)]
        if isinstance(step, ir.HostStep):
            args = ", ".join(b.name for b in (*step.inputs, *step.outputs))
            how = next(word for kind, word in _HOW if isinstance(step, kind))
            name = step.routine if isinstance(step, CallStep) else step.name
            return [f"{pad}{how} {name}({args})"]
        if isinstance(step, ir.BindStep):
            return [f"{pad}dim {step.name} = {step.source.name}[0]"]
        if isinstance(step, ir.SwitchStep):
            lines = []
            for k, branch in enumerate(step.branches):
                lines.append(f"{pad}case {step.index.name}[0] == {k}:")
                lines += self.block(branch, depth + 1)
            return lines
        return self._loop(step, depth)

    def _loop(self, step: ir.ForStep | ir.WhileStep, depth: int) -> list[str]:
        pad = "  " * depth
        if isinstance(step, ir.WhileStep):
            lines = [f"{pad}repeat:", *self.block(step.test, depth + 1)]
            lines.append(f"{pad}while {step.flag.name}[0]:")
        else:
            lines = [f"{pad}for {step.index!r} in range({_expr(step.extent, {})}):  # steps"]
            lines += [f"{pad}  {line}" for line in _slices(step)]
        lines += self.block(step.body, depth + 1)
        return [*lines, *(f"{pad}  swap {a.name}, {b.name}" for a, b in step.swaps)]


def _slices(loop: ir.ForStep) -> list[str]:
    """The slices that the index of a loop makes."""
    used = ir.step_reads(loop) | ir.step_writes(loop)
    lines = []
    for b in sorted((b for b in used if b.base is not None), key=lambda b: int(b.name[1:])):
        assert b.base is not None and b.index is not None
        if loop.index in ir.expressions([ir.Declare(b.index, b.index)]):
            lines.append(f"{b.name} = {b.base.name}[{_expr(b.index, {})}]")
    return lines


def _buffer_text(buffer: Buffer) -> str:
    strided = " strided" if buffer.strided else ""
    return f"{buffer.name}: {buffer.dtype}{dm.shape_text(buffer.dims)}{strided}"


class _Text:
    """Prints blocks; an expression that is used more than once in a statement gets a name."""

    def __init__(self) -> None:
        self.names = 0

    def block(self, body: list[ir.Statement], depth: int) -> list[str]:
        lines: list[str] = []
        for statement in body:
            lines += self._statement(statement, depth)
        return lines

    def _statement(self, s: ir.Statement, depth: int) -> list[str]:
        pad = "  " * depth
        if isinstance(s, ir.For):
            start = "" if s.start is ir.ZERO else f"{_expr(s.start, {})}, "
            head = f"{pad}for {s.index!r} in range({start}{_expr(s.extent, {})}):  # {s.kind}"
            return [head, *self.block(s.body, depth + 1)]
        if isinstance(s, (ir.If, ir.While)):
            word = "if" if isinstance(s, ir.If) else "while"
            head = f"{pad}{word} {_expr(s.condition, {})}:"
            return [head, *self.block(s.body, depth + 1)]
        named: dict[Expr, str] = {}
        lets = [f"{pad}{line}" for line in self._shared(s, named)]
        if isinstance(s, ir.Store):
            text = f"{_element(s.buffer, s.indices, named)} = {_expr(s.value, named)}"
        elif isinstance(s, ir.Declare):
            text = f"{s.target!r}: {s.target.dtype} = {_expr(s.value, named)}"
        elif isinstance(s, ir.Assign):
            left = ", ".join(map(repr, s.targets))
            right = ", ".join(_expr(v, named) for v in s.values)
            text = f"{left} = {right}" + ("  # any order" if s.reassociate else "")
        else:
            text = f"{s.name}({', '.join(_argument(a, named) for a in s.arguments)})"
        return [*lets, pad + text]

    def _shared(self, statement: ir.Statement, named: dict[Expr, str]) -> list[str]:
        uses: Counter[Expr] = Counter()
        order: list[Expr] = []
        seen: set[Expr] = set()

        def visit(root: Expr) -> None:
            stack: list[tuple[Expr, bool]] = [(root, False)]
            while stack:
                e, done = stack.pop()
                if done:
                    order.append(e)
                    continue
                uses[e] += 1
                if e not in seen:
                    seen.add(e)
                    stack.append((e, True))
                    stack.extend((a, False) for a in reversed(e.args))

        for root in ir.roots(statement):
            visit(root)
        lines = []
        for e in order:
            if uses[e] > 1 and e.fn not in ("const", "var") and (e.fn != "load" or e.args):
                text = _expr(e, named)
                named[e] = f"v{self.names}"
                self.names += 1
                lines.append(f"{named[e]} = {text}")
        return lines


def _argument(argument: Any, named: dict[Expr, str]) -> str:
    if isinstance(argument, ir.Pointer):
        return "&" + _element(argument.buffer, (argument.offset,), named)
    return _expr(argument, named)


def _element(buffer: Buffer, indices: tuple[Expr, ...], named: dict[Expr, str]) -> str:
    return f"{buffer.name}[{', '.join(_expr(i, named) for i in indices)}]"


def _expr(e: Expr, named: dict[Expr, str]) -> str:
    if e in named:
        return named[e]
    if e.fn == "const":
        return repr(e.data)
    if e.fn == "var":
        return str(e.data)
    if e.fn == "load":
        return _element(e.data, e.args, named)
    operands = [_expr(a, named) for a in e.args]
    if e.fn in _INFIX:
        return f"({operands[0]} {_INFIX[e.fn]} {operands[1]})"
    head = e.data if e.fn == "call" else e.fn
    if e.fn in ("cast", "bitcast"):
        head += f"<{e.dtype}>"
    return f"{head}({', '.join(operands)})"


@method_of(LoopProgram)
def __str__(program: LoopProgram) -> str:
    return program_text(program)
