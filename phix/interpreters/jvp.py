"""The forward-mode interpreter: values carry tangents along.

An op's tangent comes, in this order, from its rule in Python; from ``jvp: linear``, ``bilinear``
or ``pointwise`` in its entry; from its decomposition, if it has no backward rule; or from
transposing its backward rule, which is linear in the cotangents.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from phix.core import context, varying
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import following
from phix.core.dispatch import bind
from phix.core.errors import DifferentiationError
from phix.core.graph import flat, map_entries
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.rules import OPS, get_op
from phix.core.source import at, derivation, is_recording, user_source
from phix.core.tensor import TensorBase, ValueTracer
from phix.interpreters import tape
from phix.interpreters import vjp as reverse
from phix.interpreters.backward_rules import (
    Cotangent,
    backward_args,
    is_constant,
    no_derivative,
    uncovered,
)
from phix.interpreters.decompose import taken_apart


class JVPTracer(ValueTracer):
    """A value with its tangent, of the same meta."""

    __slots__ = ("tangent",)

    def __init__(self, interpreter: Interpreter, value: TensorBase, tangent: TensorBase) -> None:
        self.interpreter = interpreter
        self.value = value
        self.tangent = tangent

    @property
    def meta(self) -> MetaTensor:
        meta = self.value.meta
        if not context.context.tracked:
            return meta
        return meta.with_varying(meta.varying | self.tangent.meta.varying)


class JVP(Interpreter):
    """Ops on its tracers give values and tangents, both computed in the parent."""

    name = "jvp"

    def owns(self, value: Any) -> bool:
        return type(value) is JVPTracer and value.interpreter is self

    def lower(self, value: Any) -> Any:
        return value.value if type(value) is JVPTracer and value.interpreter is self else value

    def tangent(self, value: Any) -> Any:
        return value.tangent if type(value) is JVPTracer and value.interpreter is self else None

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        parent = self.parent
        assert parent is not None
        active = any(self.owns(x) for x in flat(inputs))
        rule = _rule(op) if active else _no_tangent
        if rule is None:
            if op.decomposition is None:
                raise no_derivative(op)
            return taken_apart(op, inputs, attrs)
        primals = map_entries(self.lower, inputs)
        tangents = map_entries(self.tangent, inputs)
        with context.active(parent):
            if active and is_recording():
                here = user_source()
                source = here and here.derived("tangent", op.name)
                run = functools.partial(rule, op, primals, tangents, attrs)
                outs, out_tangents = derivation(source, run)
            else:
                outs, out_tangents = rule(op, primals, tangents, attrs)
        wrapped = tuple(map(self.wrap, outs, out_tangents))
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def wrap(self, value: Any, tangent: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.wrap, value, tangent or (None,) * len(value)))
        return value if tangent is None else JVPTracer(self, value, tangent)


JvpRule = Callable[[Op, Any, Any, Any], Any]


def _rule(op: Op) -> JvpRule | None:
    if is_constant(op):  # before `jvp`, which may be a default of the whole file
        return _no_tangent
    if op.jvp_rule is not None:
        return _python_rule
    if op.jvp is not None:
        return _BY_PROPERTY[op.jvp]
    if op.backward is None or uncovered(op):
        return None  # every output needs its tangent: through the decomposition
    return _transposed


def _run(op: Op, inputs: Any, attrs: Any) -> Any:
    """The op in the current interpreter, its outputs as a tuple of entries."""
    outs = context.current().process(op, inputs, attrs)
    return (outs,) if len(op.outputs) == 1 else outs


def _primal(op: Op, inputs: Any, attrs: Any) -> Any:
    """The op itself, which is no part of the tangent pass."""
    here = user_source() if is_recording() else None
    if here is None or not here.passes:
        return _run(op, inputs, attrs)
    with at(here.underived()):
        return _run(op, inputs, attrs)


def _no_tangent(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    return _primal(op, primals, attrs), (None,) * len(op.outputs)


def _python_rule(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    assert op.jvp_rule is not None
    outs, out_tangents = op.jvp_rule(primals, tangents, *attrs)
    return ((outs,), (out_tangents,)) if len(op.outputs) == 1 else (outs, out_tangents)


def _filled(tangent: Any, primal: Any) -> Any:
    """A tangent for every float: zeros where there is none; what is no float stays itself."""
    if isinstance(primal, tuple):
        return tuple(map(_filled, tangent, primal))
    if primal is None or not dt.is_differentiable(primal.dtype):
        return primal
    return tape.zeros(primal.meta) if tangent is None else tangent


def _linear(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    """Linear in all its float inputs together: the tangent of the output is the op of theirs."""
    return _primal(op, primals, attrs), _run(op, tuple(map(_filled, tangents, primals)), attrs)


def _bilinear(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    """Linear in each input by itself: the sum over the inputs that have a tangent."""
    total: Any = None
    for number, tangent in enumerate(tangents):
        if tangent is not None:
            term = _run(op, (*primals[:number], tangent, *primals[number + 1 :]), attrs)[0]
            total = tape.add(total, term)
    return _primal(op, primals, attrs), (total,)


def _pointwise(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    """out_i depends on x_i alone, so the backward rule also maps tangents: df/dx * t."""
    outs = _primal(op, primals, attrs)
    shape = outs[0].meta.dims
    whole = map_entries(lambda x: _expand(x, shape), primals)
    rule = get_op(op.backward or "")
    at_outs = backward_args(op, rule, whole, attrs, outs)
    total: Any = None
    for arg, tangent in zip(op.inputs, tangents):
        if tangent is None:
            continue
        ct = _expand(tangent, shape)
        if dt.is_complex(outs[0].dtype) or dt.is_complex(ct.dtype):
            return outs, _transpose_backward(op, primals, tangents, attrs, outs)
        args = [ct if isinstance(a, Cotangent) else a for a in at_outs]
        term = _gradient_of(rule, arg.name, args)
        if term is not None:
            total = tape.add(total, term)
    return outs, (total,)


def _gradient_of(rule: Op, name: str, args: list[Any]) -> Any:
    assert rule.decomposition is not None
    found = rule.decomposition(*args)
    entries = (found,) if len(rule.outputs) == 1 else found
    return next((g for of, g in zip(rule.gradient_of, entries) if of == name), None)


def _expand(x: Any, shape: Any) -> Any:
    if dm.same_shape(x.meta.dims, shape):
        return x
    return bind(OPS["expand"], (x,), (shape,))


def _transposed(op: Op, primals: Any, tangents: Any, attrs: Any) -> Any:
    outs = varying.alike(_primal(op, primals, attrs))
    return outs, _transpose_backward(op, primals, tangents, attrs, outs)


def _transpose_backward(op: Op, primals: Any, tangents: Any, attrs: Any, outs: Any) -> Any:
    """J t from the backward rule ct -> J^T ct, by transposing that linear function again.

    Of complex tensors too: a backward rule is the adjoint of J under Re(conj(a) * b), and the
    adjoint of that is J.
    """
    rule = get_op(op.backward or "")
    template = backward_args(op, rule, primals, attrs, outs)
    asked = [a.number for a in template if isinstance(a, Cotangent)]
    given = [n for n in asked if outs[n] is not None]  # an optional output may be absent
    lists = {n: len(outs[n]) if isinstance(outs[n], tuple) else -1 for n in given}
    wanted = [t for t in flat(tangents) if t is not None]

    def linear(*cts: Any) -> list[Any]:
        supply = iter(cts)
        by_number = {
            n: next(supply) if size < 0 else tuple(next(supply) for _ in range(size))
            for n, size in lists.items()
        }
        args = [by_number.get(a.number) if isinstance(a, Cotangent) else a for a in template]
        if rule.decomposition is None:  # a kernel alone: nothing says that it is linear
            raise DifferentiationError(
                f"op {op.name!r} has no derivative in forward mode: {rule.name!r} has a kernel and "
                "no decomposition to transpose; give it one (phix.core.rules.decompose), or "
                "differentiate in reverse mode"
            )
        found = rule.decomposition(*args)
        return _grads_for(op, rule, found, tangents, primals)

    metas = [x.meta for n in lists for x in (outs[n] if lists[n] >= 0 else (outs[n],))]
    _, pullback = reverse.vjp(linear, [tape.origin(m) for m in metas])
    pullback.in_rule = True
    found = iter(pullback(wanted))
    out_tangents: list[Any] = [None] * len(op.outputs)
    for n, size in lists.items():
        out_tangents[n] = next(found) if size < 0 else tuple(next(found) for _ in range(size))
    return tuple(out_tangents)


def _grads_for(op: Op, rule: Op, found: Any, tangents: Any, primals: Any) -> list[Any]:
    """The gradients of those inputs that have a tangent, in order."""
    by_name = dict(zip(rule.gradient_of, (found,) if len(rule.outputs) == 1 else found))
    grads: list[Any] = []
    for arg, tangent, primal in zip(op.inputs, tangents, primals):
        grad = by_name.get(arg.name)
        pairs = (
            zip(tangent, grad or (None,) * len(tangent), primal)
            if isinstance(tangent, tuple)
            else ((tangent, grad, primal),)
        )
        for t, g, p in pairs:
            if t is not None:
                grads.append(tape.zeros(p.meta) if g is None else g)
    return grads


_BY_PROPERTY: dict[str, JvpRule] = {
    "linear": _linear,
    "bilinear": _bilinear,
    "pointwise": _pointwise,
}


def jvp(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    instantiate: bool = True,
) -> tuple[list[Any], list[Any]]:
    """``function`` of flat tensors, and its derivative along ``tangents``.

    A tangent of None is zero; so is one that comes back, unless ``instantiate``.
    """
    interpreter = JVP(context.current())
    with context.transformation(interpreter), following(primals):
        tracers = [
            p if t is None else JVPTracer(interpreter, p, t) for p, t in zip(primals, tangents)
        ]
        outs = list(function(*tracers))
        values = [interpreter.lower(o) for o in outs]
        out_tangents = [interpreter.tangent(o) for o in outs]
    if not instantiate:
        return values, out_tangents
    with following(primals):
        filled = [tape.zeros(v.meta) if t is None else t for v, t in zip(values, out_tangents)]
    return values, filled
