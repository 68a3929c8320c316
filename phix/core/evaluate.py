"""Running a graph op by op, under whatever interpreter is current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix.core import dims as dm
from phix.core import dispatch
from phix.core.attrs import as_dim
from phix.core.errors import ArgumentError, DTypeError
from phix.core.graph import (
    Graph,
    Literal,
    Variable,
    flat,
    map_entries,
    solve_dims,
    substitute_attrs,
)
from phix.core.tensor import TensorBase, tensor_from_scalar, to_tensor_shared


def evaluate(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of ``graph`` for ``args``; see ``Graph.__call__``."""
    if len(args) != len(graph.inputs):
        raise ArgumentError(f"the graph has {len(graph.inputs)} inputs, found {len(args)} args")
    tensors = [a if isinstance(a, TensorBase) else to_tensor_shared(a) for a in args]
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

    current = dispatch.current()
    for equation in graph.equations:
        inputs = map_entries(read, equation.inputs)
        if equation.op.binds_dim:  # each run of the graph has a size of its own
            (dim,) = dm.symbols(equation.attrs[0])
            env[dim] = as_dim(inputs[0])
            values.update(zip(flat(equation.outputs), flat(inputs)))
            continue
        outs = current.process(equation.op, inputs, substitute_attrs(equation.attrs, env))
        if equation.op.single_output:
            outs = (outs,)
        elif len(equation.outputs) == 1:
            outs = (outs,)
        for variable, value in zip(equation.outputs, outs):
            if isinstance(variable, tuple):
                values.update(zip(variable, value))
            else:
                values[variable] = value
    return tuple(read(a) for a in graph.outputs)
