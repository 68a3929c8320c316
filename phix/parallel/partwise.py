"""Plans run: what each part of a mesh does, inside a function on the mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import phix
from phix import ops
from phix.core import context
from phix.core import dtypes as dt
from phix.core.conversion import tensor_from_scalar
from phix.core.graph import Literal, flat, map_entries
from phix.core.source import replay
from phix.parallel.forms import WHOLE, Form, move
from phix.parallel.planning import Convert, GraphPlan, Run


class Parts:
    """A plan at work on one part: the values that are there, by variable and form."""

    def __init__(self, plan: GraphPlan, sizes: Mapping[str, int]) -> None:
        self.plan, self.sizes = plan, sizes
        self.values: dict[Any, Any] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The parts of the outputs, for parts of the inputs."""
        graph = self.plan.graph
        self.values.update(zip(zip(graph.inputs, self.plan.inputs), inputs))
        self.values.update(((c.variable, WHOLE), c.value) for c in graph.constants)
        with replay() as mark, context.inside():
            for step in self.plan.steps:
                if isinstance(step, Convert):
                    mark(step.source)
                    self.values[step.atom, step.after] = self.converted(step)
                else:
                    mark(step.equation.source)
                    self.perform(step)
        return [self.read(a, f) for a, f in zip(graph.outputs, self.plan.outputs)]

    def read(self, atom: Any, form: Form) -> Any:
        if isinstance(atom, Literal) and (atom, form) not in self.values:
            return tensor_from_scalar(atom.value, atom.meta.dtype)
        return self.values[atom, form]

    def converted(self, step: Convert) -> Any:
        if step.filled is not None:
            dims = step.after.dims(step.atom.meta.dims, self.sizes)
            op, attrs = step.filled.op, step.filled.attrs
            at = op.attr_names.index("shape")
            inputs = map_entries(lambda a: self.read(a, WHOLE), step.filled.inputs)
            attrs = (*attrs[:at], dims, *attrs[at + 1 :])
            return context.current().process(op, inputs, attrs)
        x = self.read(step.atom, step.before)
        for one in step.moves:
            x = move(x, one, self.sizes)
        return x

    def perform(self, step: Run) -> None:
        equation = step.equation
        forms = iter(step.operands)
        inputs = map_entries(lambda a: self.read(a, next(forms)), equation.inputs)
        if step.inner:
            outs = _BY_GRAPHS[equation.op.name](step, inputs, self.sizes)
        else:
            outs = self.called(step, inputs)
            for kind, axis in step.joined:
                outs = _joined(outs, kind, axis)
            if len(equation.outputs) == 1:
                outs = (outs,)
        for variable, form, value in zip(flat(equation.outputs), step.outs, flat(tuple(outs))):
            self.values[variable, form] = value

    def called(self, step: Run, inputs: Any) -> Any:
        op, attrs, rule = step.equation.op, step.equation.attrs, step.rule
        assert rule is not None
        if rule.attrs is not None and step.cut:
            attrs = rule.attrs(attrs, step.cut)
        if rule.local is not None and not rule.looked_up.isdisjoint(step.cut):
            return rule.local(step.cut, flat(inputs), attrs)
        return context.current().process(op, inputs, attrs)


def run(plan: GraphPlan, inputs: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The parts of what a plan gives."""
    return Parts(plan, sizes).run(inputs)


def _joined(x: Any, kind: str, axis: str) -> Any:
    """The extreme of the parts' extremes."""
    if x.dtype == dt.bool_:
        found = _joined(ops.cast(x, dt.int32), {"any": "max", "all": "min"}.get(kind, kind), axis)
        return ops.cast(found, dt.bool_)
    return phix.pmax(x, axis) if kind == "max" else phix.pmin(x, axis)


# -- graphs inside ---------------------------------------------------------------------------------
def _scan(step: Run, inputs: Any, sizes: Any) -> Any:
    carry, xs, constants = inputs
    _, length, reverse = step.equation.attrs
    count = len(carry)

    def body(c: Any, rows: Any) -> Any:
        outs = run(step.inner[0], [*c, *rows, *constants], sizes)
        return tuple(outs[:count]), tuple(outs[count:])

    final, ys = phix.scan(body, tuple(carry), tuple(xs), length=length, reverse=reverse)
    return (final, ys)


def _while(step: Run, inputs: Any, sizes: Any) -> Any:
    carry, constants = inputs
    cond, body = step.inner
    return phix.while_loop(
        lambda c: run(cond, [*c, *constants], sizes)[0],
        lambda c: tuple(run(body, [*c, *constants], sizes)),
        tuple(carry),
    )


def _branch(step: Run, inputs: Any, sizes: Any) -> Any:
    index, operands = inputs
    branches = [
        lambda *values, one=one: tuple(run(one, values, sizes)) for one in step.inner
    ]
    return phix.switch(index, branches, *operands)


_BY_GRAPHS = {"scan": _scan, "while_loop": _while, "branch": _branch}
