"""The interpreter of jets: values carry truncated power series along.

A series is a list ``[x_0, x_1, ..., x_n]`` of the value and the Taylor coefficients x^(k) / k!;
None is a coefficient that is zero. An op's series comes, in this order, from its rule in Python;
from ``jvp: linear`` or ``bilinear`` in its entry; from its decomposition, if it has no rule of its
own for forward or reverse mode; or from its derivative: y' = J(x) x', a series of one order less.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phix.core import context
from phix.core import dtypes as dt
from phix.core.conversion import following
from phix.core.graph import flat, map_entries
from phix.core.interpreter import Interpreter
from phix.core.op import Op
from phix.core.tensor import ValueTracer
from phix.interpreters import jvp as forward
from phix.interpreters import tape
from phix.interpreters.backward_rules import is_constant
from phix.interpreters.decompose import taken_apart

Series = list[Any]


class JetTracer(ValueTracer):
    """A value with its series, whose first coefficient is the value."""

    __slots__ = ("series",)

    def __init__(self, interpreter: Interpreter, series: Series) -> None:
        self.interpreter = interpreter
        self.value = series[0]
        self.series = series


class Jet(Interpreter):
    """Ops on its tracers give series, computed in the parent."""

    name = "jet"

    def __init__(self, parent: Interpreter, order: int) -> None:
        super().__init__(parent)
        self.order = order

    def owns(self, value: Any) -> bool:
        return isinstance(value, JetTracer) and value.interpreter is self

    def series(self, value: Any) -> Series:
        return value.series if self.owns(value) else [value, *(None,) * self.order]

    def wrap(self, series: Series) -> Any:
        constant = not any(c is not None for c in series[1:])
        if constant or not dt.is_differentiable(series[0].dtype):
            return series[0]
        return JetTracer(self, series)

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        parent = self.parent
        assert parent is not None
        if not any(self.owns(x) for x in flat(inputs)):
            with context.active(parent):
                return parent.process(op, inputs, attrs)
        rule = _rule(op)
        if rule is None:
            return taken_apart(op, inputs, attrs)
        series = map_entries(self.series, inputs)
        with context.active(parent):
            found = rule(op, series, attrs)
        wrapped = map_entries(self.wrap, found)
        return wrapped[0] if len(wrapped) == 1 else wrapped


JetRule = Callable[[Op, Any, Any], tuple[Any, ...]]


def _rule(op: Op) -> JetRule | None:
    if op.jet_rule is not None:
        return _python_rule
    if is_constant(op):  # before `jvp`, which may be a default of the whole file
        return _constant
    if op.jvp_rule is None and op.jvp in _BY_PROPERTY:
        return _BY_PROPERTY[op.jvp]
    own = op.jvp_rule is not None or op.vjp_rule is not None
    return _by_derivative if own or op.decomposition is None else None


def _first(series: Series) -> Any:
    return series[0]


def _started(value: Any) -> Series:
    return [value]


def _order(series: Any) -> int:
    return len(flat(series)[0]) - 1


def _run(op: Op, inputs: Any, attrs: Any) -> tuple[Any, ...]:
    """The op in the current interpreter, its outputs as a tuple of entries."""
    outs = context.current().process(op, inputs, attrs)
    return (outs,) if len(op.outputs) == 1 else outs


def _python_rule(op: Op, series: Any, attrs: Any) -> tuple[Any, ...]:
    assert op.jet_rule is not None
    found = op.jet_rule(*op.merge(series, attrs))
    if found is NotImplemented:
        return _by_derivative(op, series, attrs)
    return (found,) if len(op.outputs) == 1 else found


def _constant(op: Op, series: Any, attrs: Any) -> tuple[Any, ...]:
    nothing = (None,) * _order(series)
    outs = _run(op, map_entries(_first, series), attrs)
    return map_entries(lambda x: [x, *nothing], outs)


def _linear(op: Op, series: Any, attrs: Any) -> tuple[Any, ...]:
    """Linear in all its float inputs together: each coefficient is the op of theirs."""

    def coefficient(k: int, s: Series) -> Any:
        if not dt.is_differentiable(s[0].dtype):
            return s[0]
        return tape.zeros(s[0].meta) if s[k] is None else s[k]

    outs = _run(op, map_entries(_first, series), attrs)
    rows = map_entries(_started, outs)
    for k in range(1, _order(series) + 1):
        if any(s[k] is not None for s in flat(series)):
            terms = map_entries(functools.partial(coefficient, k), series)
            found: Iterable[Any] = flat(_run(op, terms, attrs))
        else:
            found = itertools.repeat(None)
        for row, term in zip(flat(rows), found):
            row.append(term)
    return rows


def _bilinear(op: Op, series: Any, attrs: Any) -> tuple[Any, ...]:
    """Leibniz' rule: coefficient k is the sum of the op of x_j and y_(k-j); what the op takes
    besides are places, which stay."""
    x, y, *places = series
    rest = [p[0] for p in places]
    row: Series = []
    for k in range(len(x)):
        total: Any = None
        for j in range(k + 1):
            if x[j] is not None and y[k - j] is not None:
                total = tape.add(total, _run(op, (x[j], y[k - j], *rest), attrs)[0])
        row.append(total)
    return (row,)


_BY_PROPERTY: dict[str | None, JetRule] = {"linear": _linear, "bilinear": _bilinear}


def _by_derivative(op: Op, series: Any, attrs: Any) -> tuple[Any, ...]:
    """The tangent of the op along x', taken as a series, is y': coefficient k + 1 is y'_k / (k+1).

    Whatever has a derivative of every order in forward mode has its series so.
    """
    order = _order(series)
    inner = Jet(context.current(), order - 1)
    shape: list[Any] = []

    def call(*values: Any) -> Sequence[Any]:
        supply = iter(values)
        inputs = map_entries(lambda _: next(supply), series)
        shape[:] = [_run(op, inputs, attrs)]
        return flat(shape[0])

    with context.transformation(inner):
        present = flat(series)
        values = [inner.wrap(s[:-1]) for s in present]
        tangents = [_rate(inner, s) for s in present]
        outs, rates = forward.jvp(call, values, tangents, instantiate=False)
        heads = [inner.series(o)[0] for o in outs]
        slopes = [None if r is None else inner.series(r) for r in rates]
    found = iter([_integral(head, slope, order) for head, slope in zip(heads, slopes)])
    return map_entries(lambda _: next(found), shape[0])


def _rate(inner: Jet, series: Series) -> Any:
    """x' as a value of ``inner``; None where x is constant."""
    if not any(c is not None for c in series[1:]):
        return None
    rows = [None if c is None else c if k == 1 else c * k for k, c in enumerate(series) if k]
    if rows[0] is None:
        rows[0] = tape.zeros(series[0].meta)
    return inner.wrap(rows)


def _integral(head: Any, rate: Any, order: int) -> Series:
    if rate is None:
        return [head, *(None,) * order]
    return [head, *(None if c is None else c if not k else c / (k + 1) for k, c in enumerate(rate))]


def jet(function: Callable[..., Sequence[Any]], inputs: Sequence[Series]) -> list[Series]:
    """``function`` of flat tensors, of power series: one for each output."""
    interpreter = Jet(context.current(), len(inputs[0]) - 1 if inputs else 0)
    given = [c for series in inputs for c in series]
    with context.transformation(interpreter), following(given):
        outs = list(function(*map(interpreter.wrap, inputs)))
        return [interpreter.series(o) for o in outs]
