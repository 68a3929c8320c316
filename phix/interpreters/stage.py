"""The staging interpreter: ops are written down as equations of a graph, not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from phix.core import context, dispatch, refusals, rewrites, stack, stages
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import owned_tensor
from phix.core.dims import DimLike
from phix.core.errors import VerificationError
from phix.core.graph import (
    Atom,
    Constant,
    Equation,
    Graph,
    Literal,
    Source,
    Variable,
    graphs_in,
    is_effect,
    map_entries,
)
from phix.core.graph_text import variable_names
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place
from phix.core.refusals import no_value
from phix.core.rules import OPS, Call
from phix.core.source import recording, user_source
from phix.core.tensor import Tensor, TensorBase, Tracer
from phix.interpreters import asked_calls
from phix.interpreters.equal_calls import made_alike
from phix.interpreters.infer_meta import infer


class StageTracer(Tracer):
    """Stands for one variable of the graph being made."""

    __slots__ = ("origin", "source", "variable")

    def __init__(
        self,
        interpreter: Staging,
        variable: Variable,
        source: Source | None,
        origin: Call | None = None,
    ) -> None:
        self.origin = origin
        self.interpreter = interpreter
        self.variable = variable
        self.source = source

    @property
    def meta(self) -> MetaTensor:
        return self.variable.meta

    @property
    def identity(self) -> Variable:
        return self.variable

    def concrete(self, asked: str) -> Tensor:
        raise no_value(self, asked)


_meta = attrgetter("meta")


def _check_alike(rewrite: str, what: str, meta: MetaTensor, found: MetaTensor) -> None:
    """That what a rewrite makes of a call has its dtype and dims: else all behind it is wrong."""
    is_alike = found.dtype == meta.dtype and found.ndim == meta.ndim
    if not is_alike or not all(map(dm.may_equal, found.dims, meta.dims)):
        raise VerificationError(f"the rewrite {rewrite} makes {found} of {what}")


class Staging(Interpreter):
    """Collects equations. Values from outside become literals or constants by reference."""

    name = "make_graph"
    stages = True

    def __init__(self, parent: Interpreter | None) -> None:
        super().__init__(parent)
        self.equations: list[Equation] = []
        self.constants: dict[int, Constant] = {}
        self.copies: dict[int, tuple[Any, Tensor]] = {}  # of arrays, by their addresses
        # Values that became dims, and calls whose results have sizes of their own: an equal value
        # is the same dim.
        self.sizes: dict[Any, tuple[TensorBase, DimLike]] = {}
        self.sized: dict[Any, tuple[tuple[Any, ...], Any]] = {}
        # The user's calls, whose sizes are looked at: they may be none of the equations in the end.
        self.asked: asked_calls.Calls = {}
        self.is_writing_out = False
        # While a graph is replayed: what overrides the user's line, and which equation it is.
        self.source: Source | None = None
        self.replayed: Equation | None = None

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        args = op.merge(inputs, attrs)
        for name, rule in op.simplifications:  # x * 1.0 is x: graphs stay readable
            simpler = rule(op.name, *args)
            if simpler is not None and rewrites.is_on(name):
                made = self._made(simpler)
                if stages.is_verifying():
                    (meta,) = infer(op, map_entries(_meta, inputs), attrs)
                    _check_alike(name, f"{op.name} that gives {meta}", meta, made.meta)
                return made
        atoms = map_entries(self.atom, inputs)
        metas = self._known(op, atoms, attrs) or infer(op, map_entries(_meta, atoms), attrs)
        if op.is_written_out and op.decomposition is not None:
            return self.written_out(op, inputs, attrs)
        if self.is_writing_out:  # there is no equation of the whole that asks for all its sizes
            self.ask(op, inputs, attrs)
        if op.has_graphs and any(g.own_sizes for g in graphs_in(attrs)):
            assert op.decomposition is not None  # others keep such sizes inside
            return as_entries(op, op.decomposition(*op.merge(inputs, attrs)))
        source = self.source or user_source()
        if op.single_output:
            variable = Variable("", metas[0])
            self.equations.append(Equation(op, atoms, attrs, (variable,), source))
            return StageTracer(self, variable, source, Call(op.name, args))
        outputs = map_entries(lambda m: Variable("", m), metas)
        self.equations.append(Equation(op, atoms, attrs, outputs, source))
        tracers = map_entries(lambda v: StageTracer(self, v, source), outputs)
        return tracers if len(tracers) > 1 else tracers[0]

    def ask(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        """As ever."""
        asked_calls.note(self.asked, op, inputs, attrs)

    def _known(
        self, op: Op, atoms: tuple[Any, ...], attrs: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """The metas of the results of an equation that is replayed as it was."""
        old: Any = self.replayed
        if old is None or op is not old.op or attrs is not old.attrs or context.context.tracked:
            return None
        for a, b in zip(atoms, old.inputs):
            if type(a) is not type(b) or isinstance(a, tuple):
                return None
            # the number of a literal was read, and has a meta of its own
            if a is not None and a.meta is not b.meta and not (type(a) is Literal and a == b):
                return None
        return map_entries(_meta, old.outputs)

    def written_out(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """A composite that computes the size of its results, as what it is made of."""
        assert op.decomposition is not None
        key = (op.name, made_alike(inputs), made_alike(attrs))
        if key not in self.sized:
            outer, self.is_writing_out = self.is_writing_out, True
            try:
                found = op.decomposition(*op.merge(inputs, attrs))
            finally:
                self.is_writing_out = outer
            self.sized[key] = inputs, found if op.single_output else as_entries(op, found)
        return self.sized[key][1]

    def _made(self, simpler: Any) -> Any:
        """The value of a call that a rule asks for, and of those among its args."""
        if not isinstance(simpler, Call):
            return simpler
        op = OPS[simpler.op]
        inputs, attrs = op.split(tuple(map(self._made, simpler.args)))
        return self.process(op, inputs, attrs)

    def own(self, value: Any, place: Place | None) -> Any:
        """As ever; of an array that is used several times, and is as it was, there is one copy."""
        if not isinstance(value, np.ndarray):
            return super().own(value, place)
        kept = self.copies.get(id(value))
        if kept is None or not _is_same(value, kept[1]):
            kept = self.copies[id(value)] = value, owned_tensor(value, place)
        return kept[1]

    def as_dim(self, value: TensorBase, largest: bool, refusal: str) -> DimLike:
        """The size that ``value``, an int tensor of this graph, will have at run time."""
        key = made_alike(value), largest, refusal
        stages = list(_stages_up_to(self))
        for stage in stages:
            if key in stage.sizes:
                return stage.sizes[key][1]
        dim = dm.computed_symbol()
        here: Interpreter | None = context.current()
        while here is not None and here is not self:  # from here on there are unknown sizes
            here.asks, here = True, here.parent
        self.asks = True
        dispatch.bind(OPS["dim_value"], (value,), (dim, largest, refusal))
        stages[0].sizes[key] = value, dim  # a graph inside may not be run, or be made anew
        return dim

    def atom(self, value: TensorBase) -> Atom:
        """What stands for ``value`` in the graph."""
        if isinstance(value, StageTracer) and value.interpreter is self:
            return value.variable
        if isinstance(value, Tracer) and not value.interpreter.alive:
            raise refusals.leaked(value, "the graph being made")
        if isinstance(value, Tensor) and value.ndim == 0 and value.dtype not in dt.FOREIGN:
            return Literal(value.host.item(), value.meta)
        known = self.constants.get(id(value))
        if known is None:
            known = Constant(Variable("", value.meta), value)
            self.constants[id(value)] = known
        return known.variable


def _stages_up_to(outer: Staging) -> Iterator[Staging]:
    """The graphs that are being made, from the innermost to ``outer``."""
    here: Interpreter | None = context.current()
    while here is not None and here is not outer:
        if isinstance(here, Staging):
            yield here
        here = here.parent
    yield outer


def as_entries(op: Op, outs: Any) -> Any:
    """What a rule returned, as ``process`` returns it: lists as tuples."""
    if len(op.outputs) == 1:
        return tuple(outs)
    return tuple(tuple(o) if isinstance(o, (list, tuple)) else o for o in outs)


def _is_same(array: np.ndarray, copy: Tensor) -> bool:
    """Whether a tensor that was copied from an array still has its values, to the bit."""
    if not isinstance(copy.data, np.ndarray) or array.dtype != copy.dtype:
        return False
    one, two = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (array, copy.data))
    return array.shape == copy.shape and np.array_equal(one, two)


@stack.nests
def trace(
    function: Callable[..., Sequence[Any]],
    metas: Sequence[MetaTensor],
    names: Sequence[str] = (),
) -> Graph:
    """The graph of ``function``, which takes and gives flat sequences of tensors.

    Ops on constants are staged too. Tensors closed over become constants by reference.
    """
    stage = Staging(context.current())
    stage.asks = stage.asks or not all(m.is_static() for m in metas)
    inputs = tuple(Variable(n, m) for n, m in zip(_input_names(names, len(metas)), metas))
    with context.transformation(stage), recording():
        here = user_source()
        outs = function(*(StageTracer(stage, v, here) for v in inputs))
        outputs = tuple(
            stage.atom(o if isinstance(o, TensorBase) else stage.own(o, None)) for o in outs
        )
        if stage.asked:
            asked_calls.keep(stage.asked, live(stage.equations, outputs), stage.equations)
    return finish(Graph(inputs, tuple(stage.constants.values()), tuple(stage.equations), outputs))


def _input_names(names: Sequence[str], count: int) -> list[str]:
    seen: set[str] = set()
    out: list[str] = []
    for number in range(count):
        base = re.sub(r"\W", "_", names[number]) if number < len(names) else f"x{number}"
        if not base.isidentifier():
            base = f"x{number}"
        name, again = base, 1
        while name in seen:
            again += 1
            name = f"{base}_{again}"
        seen.add(name)
        out.append(name)
    return out


def live(equations: Sequence[Equation], outputs: Sequence[Atom]) -> list[Equation]:
    """The equations whose results somebody uses, and those that are kept without."""
    needed = {a for a in outputs if isinstance(a, Variable)}
    kept: list[Equation] = []
    for equation in reversed(equations):
        is_used = not needed.isdisjoint(equation.variables)
        if is_used or equation.op.binds_dim or equation.op.asks or is_effect(equation):
            kept.append(equation)
            needed.update([a for a in equation.atoms if type(a) is Variable])
    return kept[::-1]


def finish(graph: Graph) -> Graph:
    """Drop equations and constants nobody uses, and name the variables in order."""
    kept = live(graph.equations, graph.outputs)
    used = {a for a in graph.outputs if isinstance(a, Variable)}
    used.update(a for e in kept for a in e.atoms if type(a) is Variable)
    constants = tuple(c for c in graph.constants if c.variable in used)
    names = variable_names({v.name for v in graph.inputs})
    for constant in constants:
        constant.variable.name = next(names)
    for equation in kept:
        for variable in equation.variables:
            variable.name = next(names)
    return Graph(graph.inputs, constants, tuple(kept), graph.outputs)
