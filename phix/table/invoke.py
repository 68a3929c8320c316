"""``invoke: scale(out_grad, scale, 0.0f, true)``: an op that is a call of another one.

PHI means by it that the entry has no kernel of its own. Here it is the op's decomposition. A
function that is no op (Paddle's own ``real_grad_impl``) is left to a decomposition in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phix.core.errors import OpTableError
from phix.core.op import REQUIRED, Arg, Op
from phix.core.rules import OPS
from phix.table.schema import parse_call, parse_default

Reading = Callable[[Mapping[str, Any]], Any]


def decomposition(op: Op) -> Callable[..., Any]:
    """The op as a call of the op that its ``invoke`` names, looked up when it is first called."""
    values: list[Reading] = []

    def invoked(*args: Any) -> Any:
        from phix.core.dispatch import bind

        target = OPS[parse_call(op.invoke or "")[0]]
        if not values:
            values.extend(_values(op, target))
        named = dict(zip((a.name for a in op.args), args))
        outs = bind(target, *target.split(tuple([value(named) for value in values])))
        if len(target.outputs) == len(op.outputs):
            return outs
        public = [o for o, declared in zip(outs, target.outputs) if not declared.intermediate]
        return public[0] if len(op.outputs) == 1 else tuple(public)

    return invoked


def check(op: Op, target: Op) -> None:
    """Raise OpTableError where the call does not fit the op it names."""
    _values(op, target)
    shown = [o.is_list for o in target.outputs if not o.intermediate]
    if [o.is_list for o in op.outputs] not in (shown, [o.is_list for o in target.outputs]):
        raise OpTableError(
            f"`invoke` of {op.name!r}: {target.signature()} does not give the outputs "
            f"{', '.join(o.name for o in op.outputs)}; give the entry those of {target.name!r}"
        )


def _values(op: Op, target: Op) -> list[Reading]:
    """For each arg of ``target`` what it is, given the args of ``op`` by name."""
    _, texts = parse_call(op.invoke or "")
    if len(texts) > len(target.args):
        raise OpTableError(
            f"`invoke` of {op.name!r} gives {len(texts)} args, but {target.signature()} takes "
            f"{len(target.args)}; leave out the last"
        )
    given = [_value(op, arg, text) for arg, text in zip(target.args, texts)]
    return given + [_default(op, target, arg) for arg in target.args[len(texts) :]]


def _value(op: Op, arg: Arg, text: str) -> Reading:
    """One arg of the call: an arg of the op, the dtype of one, or a constant as defaults are."""
    names = {a.name: a for a in op.args}
    name, _, method = text.partition(".")
    if text in names:
        if names[text].is_tensor != arg.is_tensor:
            kind = "a tensor" if arg.is_tensor else "an attribute"
            raise OpTableError(
                f"`invoke` of {op.name!r} gives {text!r} for {arg.name!r}, which is {kind}; write "
                "the args in the order of the op that is called"
            )
        return lambda named: named[text]
    if name in names and method == "dtype()":
        return lambda named: named[name].dtype
    if arg.is_tensor:
        raise OpTableError(
            f"`invoke` of {op.name!r} gives {text!r} for the tensor {arg.name!r}; write one of "
            f"{', '.join(a.name for a in op.inputs) or 'no tensors here'}"
        )
    constant = parse_default(arg.type, text)
    return lambda named: constant


def _default(op: Op, target: Op, arg: Arg) -> Reading:
    if arg.optional:
        return lambda named: None
    if arg.default is REQUIRED:
        raise OpTableError(
            f"`invoke` of {op.name!r} leaves out {arg.name!r}, which {target.signature()} needs; "
            "give it"
        )
    return lambda named: arg.default
