"""Whether the calls of composites fit sizes that a program computes.

What primitives ask of such sizes a program looks at when it binds them (``core/size_checks.py``).
A composite is taken apart before that, and may ask for more than what it is made of: that a box
lies inside, that there is enough to reflect. Where that is so, a step of the program goes with its
call: it infers the composite's metas for the sizes of the run, and raises what the eager call does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phix.core import size_checks
from phix.core.attrs import metas_of
from phix.core.dims import Symbol
from phix.core.graph import Equation, Graph, flat, map_entries
from phix.core.op import Op
from phix.core.source import user_source
from phix.core.transforms import transforms
from phix.interpreters.asked_calls import UserCall, equation_of, look_at
from phix.interpreters.decompose import decompose


def keep_check(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    """Have the program look at the sizes of a call, if it must."""
    equation = equation_of(UserCall(op, metas_of(inputs), attrs, user_source()))
    if equation is None:
        return  # the call says so itself
    symbols = sorted(size_checks.symbols_around(equation), key=lambda s: s.number)
    wrong = list(size_checks.unfit(equation, symbols))
    if wrong and not _says_so(equation, wrong):
        look_at(equation, symbols)


def _says_so(equation: Equation, wrong: Sequence[Mapping[Symbol, Any]]) -> bool:
    """Whether the ops that a composite is made of do not fit those sizes, either."""
    inside = [e for e in _taken_apart(equation).equations if not e.op.binds_dim]
    return all(any(not size_checks.fits(e, env) for e in inside) for env in wrong)


def _taken_apart(equation: Equation) -> Graph:
    op, given = equation.op, flat(equation.inputs)

    def run(*values: Any) -> list[Any]:
        rest = iter(values)
        inputs = map_entries(lambda _: next(rest), equation.inputs)
        assert op.decomposition is not None
        outs = op.decomposition(*op.merge(inputs, equation.attrs))
        return [v for v in flat((outs,) if op.single_output else tuple(outs)) if v is not None]

    graph, _ = transforms().trace(run, [v.meta for v in given])
    return decompose(graph)


size_checks.provide_composites(keep_check)
