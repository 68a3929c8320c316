"""The decompose interpreter: composites become the ops they are made of, down to primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import context, stack
from phix.core.attrs import metas_of, with_call
from phix.core.conversion import tensor_from_scalar
from phix.core.errors import PhixError
from phix.core.graph import Equation, Graph, Literal, Variable, flat, map_attrs, map_entries
from phix.core.interpreter import Interpreter
from phix.core.op import Op
from phix.core.source import Source
from phix.interpreters.infer_meta import infer
from phix.interpreters.stage import StageTracer, Staging, as_entries, finish

Keep = Callable[[Op], bool]


class Decompose(Interpreter):
    """Performs primitives, and composites that ``keep`` names, through its parent."""

    name = "decompose"

    def __init__(self, parent: Interpreter, keep: Keep) -> None:
        super().__init__(parent)
        self.keep = keep

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        if op.decomposition is None or self.keep(op):
            assert self.parent is not None
            inside = map_attrs(lambda g: decompose(g, self.keep), attrs) if op.has_graphs else attrs
            return self.parent.process(op, inputs, inside)
        try:
            outs = op.decomposition(*op.merge(inputs, attrs))
        except PhixError as error:  # of an op that this one is made of
            raise with_call(error, op, metas_of(inputs)) from None
        return outs if op.single_output else as_entries(op, outs)


def taken_apart(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """What the ops give that an op is made of, performed by the interpreter at work.

    They may fit a call that is wrong, so it is checked by what the op itself says of it.
    """
    assert op.decomposition is not None
    if op.infer_meta_name is not None and not op.is_pointwise:
        infer(op, metas_of(inputs), attrs)
    outs = op.decomposition(*op.merge(inputs, attrs))
    return outs if op.single_output else as_entries(op, outs)


def keep_none(op: Op) -> bool:
    return False


def keep_derivatives(op: Op) -> bool:
    """Whether the op's derivative would be another one if it were taken apart."""
    return "own_derivative" in op.traits


def _source_inside(equation: Equation) -> Source | None:
    """The source of what an equation is taken apart into."""
    source = equation.source
    if source is None or equation.op.decomposition is None:
        return source
    return source.part_of(equation.op.name)


@stack.nests
def rewrite(graph: Graph, make: Callable[[Staging], Interpreter]) -> Graph:
    """``graph`` replayed under the interpreter ``make`` gives, into a new graph."""
    stage = Staging(None)
    inputs = tuple(Variable(v.name, v.meta) for v in graph.inputs)
    values: dict[Variable, Any] = {
        old: StageTracer(stage, new, None) for old, new in zip(graph.inputs, inputs)
    }
    values.update((c.variable, c.value) for c in graph.constants)

    def read(atom: Any) -> Any:
        if isinstance(atom, Literal):
            return tensor_from_scalar(atom.value, atom.meta.dtype)
        return values[atom]

    interpreter = make(stage)
    with context.transformation(interpreter), context.inside():
        for equation in graph.equations:
            stage.source, stage.replayed = _source_inside(equation), equation
            outs = interpreter.process(
                equation.op, map_entries(read, equation.inputs), equation.attrs
            )
            entries = (outs,) if len(equation.outputs) == 1 else outs
            for variable, value in zip(equation.variables, flat(tuple(entries))):
                values[variable] = value
        outputs = tuple(stage.atom(read(a)) for a in graph.outputs)
    return finish(Graph(inputs, tuple(stage.constants.values()), tuple(stage.equations), outputs))


def decompose(graph: Graph, keep: Keep = keep_none) -> Graph:
    """The same program in primitives alone, but for the composites ``keep`` answers True for.

    One that is so already is given back.
    """
    ops = [e.op for e in graph.equations]
    if all((op.decomposition is None or keep(op)) and not op.has_graphs for op in ops):
        return graph
    return rewrite(graph, lambda stage: Decompose(stage, keep))
