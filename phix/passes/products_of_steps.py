"""What a scan sums up product by product is one product behind it.

The gradient of a matrix that each step multiplies with grows by a product in each step:

    carry c: c = c + a.T @ b

which reads and writes all of c for few rows of a and b. Where these are stacked anyway, or one is
and the other takes little room beside what the steps read and write, it goes behind the loop, as
c + stacked(a).T @ stacked(b), rows of all steps below each other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rewrites, stack
from phix.core.graph import Constant, Equation, Graph, Variable, flat, map_attrs, map_entries
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field
from phix.core.rules import OPS
from phix.interpreters.stage import finish, trace

_NAME = "products_of_steps"
_DTYPES = (dt.float32, dt.float64)


def products_of_steps(graph: Graph) -> Graph:
    """``graph`` with sums of products behind the scans that made them step by step."""
    return _changed(graph) if rewrites.is_on(_NAME) else graph


@stack.nests
def _changed(graph: Graph) -> Graph:
    if not any(e.op.has_graphs for e in graph.equations):
        return graph
    equations: list[Equation] = []
    constants = list(graph.constants)
    for equation in graph.equations:
        if equation.op.has_graphs:
            equation = replace(equation, attrs=map_attrs(_changed, equation.attrs))
        found = _sums_of(equation) if equation.op is OPS["scan"] else []
        if not found:
            equations.append(equation)
            continue
        scan, stacked = _without(equation, found)
        equations.append(scan)
        for total in found:
            made = _product(equation, total, stacked)
            constants += made.constants
            equations += made.equations
    return finish(replace(graph, equations=tuple(equations), constants=tuple(constants)))


@dataclass(frozen=True)
class _Total:
    """A carry that grows by ``a.T @ b`` in each step, by its number."""

    number: int
    a: Variable
    b: Variable


@dataclass
class _Body:
    """The graph of a scan, and how often each of its values is read."""

    graph: Graph
    carries: int
    constants: int
    made: dict[Any, Equation] = field(default_factory=dict)
    reads: Counter[Any] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for e in self.graph.equations:
            self.made.update((v, e) for v in flat(e.outputs))
            self.reads.update(a for a in flat(e.inputs) if isinstance(a, Variable))
        self.reads.update(a for a in self.graph.outputs if isinstance(a, Variable))

    @property
    def xs(self) -> tuple[Variable, ...]:
        return self.graph.inputs[self.carries : len(self.graph.inputs) - self.constants]

    @property
    def ys(self) -> tuple[Any, ...]:
        return self.graph.outputs[self.carries :]

    def total(self, number: int) -> _Total | None:
        """The carry of that number as a sum of products, if it is one."""
        old, new = self.graph.inputs[number], self.graph.outputs[number]
        sum_ = self.made.get(new)
        if (
            sum_ is None
            or sum_.op is not OPS["add"]
            or self.reads[old] != 1
            or self.reads[new] != 1
        ):
            return None
        terms = [v for v in flat(sum_.inputs) if v is not old]
        product = self.made.get(terms[0]) if len(terms) == 1 else None
        if product is None or product.op is not OPS["matmul"] or self.reads[terms[0]] != 1:
            return None
        a, b = flat(product.inputs)
        if tuple(product.attrs) != (True, False) or not self._is_plain(a, b, terms[0], old):
            return None
        return _Total(number, a, b) if self._has_room(a, b) else None

    def _is_plain(self, a: Any, b: Any, product: Any, total: Any) -> bool:
        """Whether all are matrices of floats of one dtype and known sizes, that steps differ in."""
        known = (*self.made, *self.graph.inputs[: self.carries], *self.xs)
        if a not in known or b not in known:
            return False
        metas: list[MetaTensor] = [v.meta for v in (a, b, product, total)]
        return (
            metas[2] == metas[3]
            and all(len(m.dims) == 2 and dm.is_known(*m.dims) for m in metas)
            and len({m.dtype for m in metas}) == 1
            and metas[0].dtype in _DTYPES
        )

    def _has_room(self, a: Variable, b: Variable) -> bool:
        more = [v for v in (a, b) if v not in self.xs and v not in self.ys]
        if len(more) < 2:
            return all(_size(v) <= a.meta.dims[1] * b.meta.dims[1] for v in more)
        return False


def _size(v: Variable) -> int:
    return math.prod(int(d) for d in v.meta.dims)


def _lists(entries: Any) -> tuple[tuple[Any, ...], ...]:
    """The inputs or outputs of a scan, which are lists of them."""
    return tuple(entries)


def _sums_of(scan: Equation) -> list[_Total]:
    """The carries of a scan that are sums of products, but for the last carry it has."""
    carry, _, constants = _lists(scan.inputs)
    graph, length, _ = scan.attrs
    if not isinstance(length, int):
        return []
    body = _Body(graph, len(carry), len(constants))
    found = [t for t in map(body.total, range(len(carry))) if t is not None]
    return found if len(found) < len(carry) else []


def _without(scan: Equation, totals: list[_Total]) -> tuple[Equation, dict[Any, Any]]:
    """The scan without these carries, and the stacks of the values in their products."""
    carry, xs, constants = _lists(scan.inputs)
    final, ys = _lists(scan.outputs)
    graph, length, reverse = scan.attrs
    body = _Body(graph, len(carry), len(constants))
    stacked: dict[Any, Any] = {**dict(zip(body.ys, ys)), **dict(zip(body.xs, xs))}
    more: list[Variable] = []
    for value in dict.fromkeys(v for t in totals for v in (t.a, t.b)):
        if value not in stacked:
            more.append(value)
            meta = MetaTensor((length, *value.meta.dims), value.meta.dtype)
            stacked[value] = Variable("", meta)
    gone = {t.number for t in totals}

    def left(entries: Any) -> tuple[Any, ...]:
        return tuple(e for k, e in enumerate(entries) if k not in gone)

    inner = replace(graph, inputs=left(graph.inputs), outputs=(*left(graph.outputs), *more))
    new = replace(
        scan,
        inputs=(left(carry), xs, constants),
        outputs=(left(final), (*ys, *(stacked[v] for v in more))),
        attrs=(finish(inner), length, reverse),
    )
    return new, stacked


def _product(scan: Equation, total: _Total, stacked: dict[Any, Any]) -> Graph:
    """The equations that give a carry's last value, of what it was before and the stacks."""
    carry, final = _lists(scan.inputs)[0], _lists(scan.outputs)[0]
    given = (carry[total.number], stacked[total.a], stacked[total.b])

    def product(first: Any, a: Any, b: Any) -> list[Any]:
        steps, each, _ = a.meta.dims
        left, right = (ops.reshape(v, [steps * each, v.meta.dims[2]]) for v in (a, b))
        return [ops.add(first, ops.matmul(left, right, transpose_x=True))]

    made = trace(product, [atom.meta for atom in given])
    outer: dict[Any, Any] = dict(zip(made.inputs, given))
    outer[made.outputs[0]] = final[total.number]

    def read(atom: Any) -> Any:
        return outer.get(atom, atom)

    equations = tuple(
        replace(
            e, inputs=map_entries(read, e.inputs), outputs=map_entries(read, e.outputs),
            source=scan.source,
        )
        for e in made.equations
    )  # fmt: skip
    return Graph((), tuple(Constant(c.variable, c.value) for c in made.constants), equations, ())
