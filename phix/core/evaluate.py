"""Running a graph op by op, under whatever interpreter is current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.core import context, stack, varying
from phix.core import dims as dm
from phix.core.attrs import as_dim
from phix.core.conversion import owned_tensor, tensor_from_scalar
from phix.core.errors import ArgumentError, DTypeError
from phix.core.graph import (
    Equation,
    Graph,
    Literal,
    Variable,
    flat,
    map_entries,
    solve_dims,
    substitute_attrs,
)
from phix.core.later import method_of
from phix.core.source import replay
from phix.core.tensor import TensorBase


@stack.nests
def evaluate(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of ``graph`` for ``args``, one tensor an input."""
    if len(args) != len(graph.inputs):
        raise ArgumentError(f"the graph has {len(graph.inputs)} inputs, found {len(args)} args")
    tensors = [a if isinstance(a, TensorBase) else owned_tensor(a) for a in args]
    for number, (v, x) in enumerate(zip(graph.inputs, tensors)):
        if v.meta.dtype != x.dtype:
            raise DTypeError(
                f"argument {number} ({v.name}) is declared {v.meta}, found {x.meta}; "
                f"cast it to {v.meta.dtype}"
            )
    env = solve_dims([v.meta for v in graph.inputs], [x.shape for x in tensors])
    values: dict[Variable, Any] = dict(zip(graph.inputs, tensors))
    values.update((c.variable, c.value) for c in graph.constants)

    def read(atom: Any) -> Any:
        if isinstance(atom, Literal):
            return tensor_from_scalar(atom.value, atom.meta.dtype)
        return values[atom]

    asks = context.current().asks and not context.context.is_inside
    with replay() as mark, context.inside():
        for equation in graph.equations:
            mark(equation.source)
            inputs = map_entries(read, equation.inputs)
            if equation.op.binds_dim:  # each run of the graph has a size of its own
                (dim,) = dm.symbols(equation.attrs[0])
                env[dim] = as_dim(inputs[0], *equation.attrs[1:])
                values.update(zip(equation.variables, flat(inputs)))
            else:
                attrs = substitute_attrs(equation.attrs, env)
                if asks:  # these are the user's calls
                    context.current().ask(equation.op, inputs, attrs)
                _perform(equation, inputs, attrs, values)
    return tuple(read(a) for a in graph.outputs)


@method_of(Graph)
def __call__(graph: Graph, *args: Any) -> tuple[Any, ...]:
    """Run the equations, one by one, under the current interpreter.

    Args:
        *args: one tensor an input, of its dtype and of dims its meta covers.

    Raises:
        ShapeError, DTypeError: an argument does not fit its input.
    """
    return evaluate(graph, args)


def _perform(equation: Equation, inputs: Any, attrs: Any, values: dict[Variable, Any]) -> None:
    if equation.op.has_graphs and context.context.tracked:
        attrs = varying.prepared(equation.op, inputs, attrs)
    outs = context.current().process(equation.op, inputs, attrs)
    for variable, value in zip(equation.outputs, (outs,) if len(equation.outputs) == 1 else outs):
        if isinstance(variable, tuple):
            values.update(zip(variable, value))
        else:
            values[variable] = value
