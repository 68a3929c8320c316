"""Plans run: what each part of a mesh does, inside a function on the mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phix import ops
from phix.api.batching import pmax, pmin, psum
from phix.api.branches import switch
from phix.api.control_flow import scan, while_loop
from phix.core import context
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import as_dim
from phix.core.conversion import tensor_from_scalar
from phix.core.graph import Literal, flat, map_entries, substitute_attrs
from phix.core.source import replay
from phix.parallel.forms import WHOLE, Form, move
from phix.parallel.plans import Convert, DividedGraph, Run


class Parts:
    """A plan at work on one part: the values that are there, by variable and form."""

    def __init__(
        self, plan: DividedGraph, sizes: Mapping[str, int], env: Mapping[Any, Any] | None = None
    ) -> None:
        self.plan, self.sizes = plan, sizes
        self.env = dict(env or {})  # sizes that are found on the way
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
            attrs = substitute_attrs((*attrs[:at], dims, *attrs[at + 1 :]), self.env)
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
            outs = _BY_GRAPHS[equation.op.name](step, inputs, self)
        elif equation.op.binds_dim:  # each run has a size of its own
            (dim,) = dm.symbols(equation.attrs[0])
            self.env[dim] = as_dim(flat(inputs)[0], *equation.attrs[1:])
            outs = inputs
        else:
            outs = self.called(step, inputs)
            for kind, axis in step.joined:
                outs = _joined(outs, kind, axis)
            if step.joined and step.rule is not None and step.rule.is_wide:
                outs = ops.cast(outs, flat(equation.outputs)[0].meta.dtype)
            if len(equation.outputs) == 1 and not isinstance(outs, tuple):
                outs = (outs,)
        for variable, form, value in zip(flat(equation.outputs), step.outs, flat(tuple(outs))):
            self.values[variable, form] = value

    def called(self, step: Run, inputs: Any) -> Any:
        op, attrs, rule = step.equation.op, step.equation.attrs, step.rule
        if rule is None:
            return _barrier(op, flat(inputs), step.operands)
        if rule.attrs is not None and step.cut:
            attrs = rule.attrs(attrs, step.cut)
        attrs = substitute_attrs(attrs, self.env)
        if rule.local is not None and not rule.looked_up.isdisjoint(step.cut):
            return rule.local(step.cut, flat(inputs), attrs)
        if rule.is_wide and step.joined:
            inputs = map_entries(lambda x: ops.cast(x, dt.float32), inputs)
            if "dtype" in op.attr_names:
                at = op.attr_names.index("dtype")
                attrs = (*attrs[:at], dt.float32, *attrs[at + 1 :])
        return context.current().process(op, inputs, attrs)


def run(plan: DividedGraph, inputs: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The parts of what a plan gives."""
    return Parts(plan, sizes).run(inputs)


def _inside(plan: DividedGraph, inputs: Sequence[Any], around: Parts) -> tuple[Any, ...]:
    """The parts of what the plan of a graph inside gives."""
    return tuple(Parts(plan, around.sizes, around.env).run(inputs))


def _barrier(op: Any, values: Sequence[Any], forms: Sequence[Form]) -> Any:
    """Values as they are; those that differ along other axes of the mesh by themselves, since what
    comes out of one call differs along all of them."""
    groups: dict[Any, list[int]] = {}
    for number, form in enumerate(forms):
        groups.setdefault(frozenset(a for a, _ in form.places), []).append(number)
    found = list(values)
    for numbers in groups.values():
        outs = context.current().process(op, (tuple(values[k] for k in numbers),), ())
        for k, out in zip(numbers, flat(outs if isinstance(outs, tuple) else (outs,))):
            found[k] = out
    return (tuple(found),)


def _joined(x: Any, kind: str, axis: str) -> Any:
    """The extreme of the parts' extremes, or their sum."""
    if kind == "sum":
        return psum(x, axis)
    if x.dtype == dt.bool_:
        found = _joined(ops.cast(x, dt.int32), {"any": "max", "all": "min"}.get(kind, kind), axis)
        return ops.cast(found, dt.bool_)
    return pmax(x, axis) if kind == "max" else pmin(x, axis)


# -- graphs inside ---------------------------------------------------------------------------------
def _scan(step: Run, inputs: Any, around: Parts) -> Any:
    carry, xs, constants = inputs
    _, given, reverse = step.equation.attrs
    length: Any = dm.substitute(given, around.env)
    count = len(carry)

    def body(c: Any, rows: Any) -> Any:
        outs = _inside(step.inner[0], [*c, *rows, *constants], around)
        return outs[:count], outs[count:]

    final, ys = scan(body, tuple(carry), tuple(xs), length=length, reverse=reverse)
    return (final, ys)


def _while(step: Run, inputs: Any, around: Parts) -> Any:
    carry, constants = inputs
    cond, body = step.inner
    return while_loop(
        lambda c: _inside(cond, [*c, *constants], around)[0],
        lambda c: _inside(body, [*c, *constants], around),
        tuple(carry),
    )


def _branch(step: Run, inputs: Any, around: Parts) -> Any:
    index, operands = inputs
    branches = [lambda *values, one=one: _inside(one, values, around) for one in step.inner]
    return switch(index, branches, *operands)


_BY_GRAPHS = {"scan": _scan, "while_loop": _while, "branch": _branch}
