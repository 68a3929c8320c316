"""The graph checker: every meta is inferred again and compared, at compile time or at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phix.core import dims as dm
from phix.core.dims import Dim, Shape, Symbol, shape_text
from phix.core.errors import GraphError, PhixError, ShapeError
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
from phix.core.graph_text import MALFORMED, parse_graph
from phix.core.kernel_arguments import each_of
from phix.core.kernel_registry import Kernel
from phix.core.kernel_selection import chosen_function
from phix.core.memory_layouts import is_blocked
from phix.core.meta import MetaConfig, MetaTensor, covers
from phix.core.size_checks import check_inside
from phix.core.source import at_source
from phix.interpreters.infer_meta import COMPILE_TIME, RUN_TIME, infer, infer_for_sizes


def check(graph: Graph) -> None:
    """Raise GraphError unless the graph is well-formed and every meta is what its op infers."""
    defined: set[Variable] = set()
    for variable in [*graph.inputs, *(c.variable for c in graph.constants)]:
        _define(variable, defined)
    for equation in graph.equations:
        _check_arity(equation)
        for atom in equation.atoms:
            _check_defined(atom, defined)
        kernel = chosen_function(equation)
        if kernel is not None and is_blocked(kernel.key.layout):
            pass  # the op has no such layout: its kernel has
        elif kernel is None or kernel.is_plain:
            _check_metas(equation)
        else:
            _check_states(equation, kernel)
        for variable in equation.variables:
            _define(variable, defined)
    for atom in graph.outputs:
        _check_defined(atom, defined)


def _check_metas(equation: Equation) -> None:
    found = infer(equation.op, _metas(equation.inputs), equation.attrs, COMPILE_TIME)
    for variable, meta in zip(equation.variables, flat(found)):
        if not (covers(variable.meta, meta) or covers(meta, variable.meta)):
            raise GraphError(f"{variable!r} is not what {equation.op.name} infers: {meta}")


def _check_states(equation: Equation, kernel: Kernel) -> None:
    """The arguments of a kernel are where, and in the dtype, that it asks of each of them."""
    op = equation.op
    pairs = [*zip(equation.inputs, each_of(kernel.inputs, op.inputs))]
    pairs += zip(equation.outputs, each_of(kernel.outputs, op.outputs))
    for entry, asked in pairs:
        for atom in flat((entry,)):
            state = getattr(atom, "state", None)
            if (asked.dtype is not None and asked.dtype != atom.meta.dtype) or (
                state is not None and asked.place not in (None, state.place.kind)
            ):
                raise GraphError(f"{atom!r} of {op.name} is not as its kernel asks: {asked}")


def _define(variable: Variable, defined: set[Variable]) -> None:
    if variable in defined:
        raise GraphError(f"variable {variable!r} is defined twice")
    defined.add(variable)


def _check_defined(atom: Any, defined: set[Variable]) -> None:
    if isinstance(atom, Variable) and atom not in defined:
        raise GraphError(f"variable {atom!r} is used but not defined above its use")


def _check_arity(equation: Equation) -> None:
    op = equation.op
    if len(equation.inputs) != len(op.inputs) or len(equation.attrs) != len(op.attrs):
        raise GraphError(
            f"an equation of {op.signature()} has {len(equation.inputs)} inputs and "
            f"{len(equation.attrs)} attributes"
        )


def _metas(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return map_entries(lambda a: a.meta, inputs)


def infer_again(graph: Graph, shapes: Sequence[Shape], config: MetaConfig = RUN_TIME) -> list[Any]:
    """The metas of the outputs for inputs of ``shapes``, every check of every op made.

    Raises:
        ShapeError: what was skipped at compile time, with the same message.
    """
    env = solve_dims([v.meta for v in graph.inputs], shapes)
    known: dict[Variable, MetaTensor] = {}
    for variable, shape in zip(graph.inputs, shapes):
        known[variable] = variable.meta.with_dims(shape)
    known.update((c.variable, c.variable.meta) for c in graph.constants)

    def meta_of(atom: Any) -> MetaTensor:
        return atom.meta if isinstance(atom, Literal) else known[atom]

    for e in graph.equations:
        try:
            found = infer_for_sizes(e, map_entries(meta_of, e.inputs), env, config)
        except Exception as error:
            raise _as_traced(at_source(error, e.source), e, env) from None
        for variable, meta in zip(e.variables, flat(found)):
            if not _as_expected(variable.meta, meta, env):
                raise at_source(_another_meaning(e, variable.meta, meta), e.source)
            known[variable] = meta
    check_inside(graph, env)
    return [meta_of(a) for a in graph.outputs]


def _as_expected(traced: MetaTensor, here: MetaTensor, env: Mapping[Symbol, Any]) -> bool:
    """Whether what an equation gives at these sizes is what its dims were traced to be."""
    return traced.ndim == here.ndim and all(
        dm.may_equal(dm.substitute(a, env), b) for a, b in zip(traced.dims, here.dims)
    )


def _another_meaning(equation: Equation, traced: MetaTensor, here: MetaTensor) -> ShapeError:
    return ShapeError(
        f"{equation.op.name}: for these sizes the result is {here}, but it was traced as {traced}, "
        "with unknown dims that were not known to be equal; name those alike that are, or trace "
        "with known sizes"
    )


def _as_traced(error: Exception, equation: Equation, env: Mapping[Symbol, Any]) -> Exception:
    """The error with the dims that the call was made with: those of a shape are no more than
    their values at these sizes, and a -1 that leaves a rest is a quotient."""
    head, colon, said = str(error).partition(": shape ")
    for asked in equation.attrs:
        if not colon or not isinstance(asked, tuple) or not any(map(_is_dim, asked)):
            continue
        here = shape_text(substitute_attrs((asked,), env)[0])
        if said.startswith(here):
            found = type(error)(
                f"{head}{colon}{shape_text(asked)}, here {here},{said[len(here) :]}"
            )
            vars(found).update(vars(error))
            return found
    return error


def _is_dim(value: Any) -> bool:
    return isinstance(value, Dim)


def parse(text: str, constants: Sequence[Any] = ()) -> Graph:
    """The graph a text stands for, with every meta inferred and compared with the text's."""
    graph = parse_graph(text, constants)
    try:
        check(graph)
    except MALFORMED as error:  # by an attribute, say, of a type that nobody gives
        if isinstance(error, PhixError):
            raise
        raise GraphError(
            f"an op in the text has inputs or attributes that it cannot take: {error}"
        ) from error
    for equation in graph.equations:
        found = infer(equation.op, _metas(equation.inputs), equation.attrs, COMPILE_TIME)
        for variable, meta in zip(equation.variables, flat(found)):
            variable.meta = meta  # an anonymous unknown dim prints as -1 and is found again here
    return graph
