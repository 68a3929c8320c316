"""The backward rule of an op: what its backward op takes and gives, as the table names it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from phix.core import dispatch
from phix.core import dtypes as dt
from phix.core.errors import DifferentiationError
from phix.core.graph import flat, map_entries
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.rules import OPS, get_op
from phix.core.tensor import TensorBase


class Adjoint(NamedTuple):
    """How the args and outputs of a backward op belong to its op."""

    rule: Op
    cotangents: tuple[tuple[int, int], ...]  # (where among the args, of which output)
    gradients: tuple[int | None, ...]  # for each input the output that is the gradient of it
    is_in_order: bool  # whether those are the outputs as they are
    may_lack: tuple[bool, ...]  # for each output whether its cotangent may be left out where zero


class BackwardRule:
    """The pull of an op of the table: its backward op, taken apart at once if not ``whole``."""

    __slots__ = ("adjoint", "args")

    def __init__(self, adjoint: Adjoint, args: list[Any]) -> None:
        self.adjoint, self.args = adjoint, args

    def __call__(self, *cotangents: Any) -> Sequence[Any]:
        rule, places, gradients, is_in_order, _ = self.adjoint
        args = self.args.copy()
        for place, number in places:
            args[place] = cotangents[number]
        if rule.decomposition is None or "whole" in rule.traits:
            outs = dispatch.bind(rule, *rule.split(tuple(args)))
        else:
            outs = rule.decomposition(*args)
        found = (outs,) if len(rule.outputs) == 1 else outs
        return found if is_in_order else [None if n is None else found[n] for n in gradients]


class StoredBackwardRule(BackwardRule):
    """The same of an op of a dtype of storage, of which there are no sums: what it moves to several
    places is added up in float32."""

    __slots__ = ()

    def __call__(self, *cotangents: Any) -> Sequence[Any]:
        stored = next((c.dtype for c in flat(cotangents) if c.dtype in dt.STORAGE), None)
        if stored is None:
            return super().__call__(*cotangents)
        wide = [map_entries(lambda x: _with_dtype(x, dt.float32), (a,))[0] for a in self.args]
        cotangents = map_entries(lambda x: _with_dtype(x, dt.float32), cotangents)
        found = BackwardRule(self.adjoint, wide)(*cotangents)
        return map_entries(lambda x: _with_dtype(x, stored), tuple(found))


def pull_of(op: Op, rule: Op, args: list[Any], outs: tuple[Any, ...]) -> BackwardRule:
    """The pull of a call with these outputs."""
    stored = "restates" not in op.traits and any(x.dtype in dt.STORAGE for x in flat(outs))
    return (StoredBackwardRule if stored else BackwardRule)(adjoint_of(op, rule), args)


def _with_dtype(x: Any, dtype: Any) -> Any:
    """A tensor or a meta in another dtype, if it is of floats."""
    if isinstance(x, MetaTensor):
        return x.with_dtype(dtype) if dt.is_differentiable(x.dtype) else x
    if isinstance(x, TensorBase) and dt.is_differentiable(x.dtype):
        return dispatch.bind(OPS["cast"], (x,), (dtype,))
    return x


def is_called(rule: Op) -> bool:
    """Whether a backward op is called as it is: where it is ``whole``, or its kernels are all there
    is of it."""
    return "whole" in rule.traits or rule.decomposition is None


@cache
def adjoint_of(op: Op, rule: Op) -> Adjoint:
    """How the backward op ``rule`` belongs to ``op``."""
    of, optional = rule.gradient_of, {a.name for a in rule.args if a.optional}
    cotangents = [
        (place, other.number)
        for place, (_, other, _) in enumerate(argument_places(op, rule))
        if type(other) is Cotangent
    ]
    gradients = tuple(of.index(a.name) if a.name in of else None for a in op.inputs)
    is_in_order = gradients == tuple(range(len(rule.outputs)))
    may_lack = tuple(f"{o.name}_grad" in optional for o in op.outputs)
    return Adjoint(rule, tuple(cotangents), gradients, is_in_order, may_lack)


def backward_args(
    op: Op, rule: Op, values: tuple[Any, ...], attrs: tuple[Any, ...], outs: tuple[Any, ...]
) -> list[Any]:
    """What the backward op's args name; a cotangent's place is left to ``Cotangent``.

    For a tensor under ``no_need_buffer`` the meta alone is kept, so the value can be freed, unless
    the op is called: kernels take tensors.
    """
    given = (*values, *attrs, *outs)
    whole = is_called(rule)
    args: list[Any] = []
    for place, other, is_meta in argument_places(op, rule):
        value = other if place is None else given[place]
        if is_meta and value is not None and not whole:
            value = map_entries(lambda x: x.meta, (value,))[0]
        args.append(value)
    return args


@cache
def argument_places(op: Op, rule: Op) -> tuple[tuple[int | None, Any, bool], ...]:
    """For each arg of the backward op: where it stands among the inputs, attributes and outputs of
    ``op``, or what else it is, and whether its meta is enough."""
    named: dict[str, tuple[int | None, Any]] = {}
    names = [*(a.name for a in (*op.inputs, *op.attrs)), *(o.name for o in op.outputs)]
    for place, name in enumerate(names):
        named.setdefault(name, (place, None))
    for number, output in enumerate(op.outputs):
        named[f"{output.name}_grad"] = (None, Cotangent(number))
    named |= {here: named[there] for here, there in rule.forward_names}
    return tuple(
        (*named.get(arg.name, (None, arg.default)), arg.name in rule.no_need_buffer)
        for arg in rule.args
    )


class Cotangent:
    """The place of an output's cotangent among a rule's args."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


@cache
def uncovered(op: Op) -> tuple[int, ...]:
    """The outputs of a composite whose cotangents its backward rule does not take."""
    if op.backward is None or op.decomposition is None:
        return ()
    taken = {a.name for a in get_op(op.backward).args}
    return tuple(n for n, o in enumerate(op.outputs) if f"{o.name}_grad" not in taken)


def as_outputs(op: Op, outs: Any) -> tuple[Any, ...]:
    """What an op or its rule gave, as a tuple with one entry an output."""
    return (outs,) if len(op.outputs) == 1 else tuple(outs)


def is_constant(op: Op) -> bool:
    """Whether the op's derivative is declared zero."""
    return "nondifferentiable" in op.traits


def no_derivative(op: Op) -> DifferentiationError:
    return DifferentiationError(
        f"op {op.name!r} has no derivative: its entry names no backward; give it `backward: "
        f"{op.name}_grad`, or `traits: [nondifferentiable]` if the derivative is zero"
    )
