"""How an op of the table becomes an :class:`~phix.core.op.Op`: its facts, checked and typed.

The generated ``phix/ops.py`` and ``phix.load_ops`` both go through :func:`make_op`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from phix.core.dtypes import BY_NAME, GROUPS
from phix.core.errors import OpTableError
from phix.core.op import Arg, Op, Output
from phix.core.rules import add_op
from phix.table import invoke as invoking
from phix.table.schema import nearest, parse_args, parse_outputs, split_top

# What an interpreter or an engine may ask of an op.
TRAITS: dict[str, str] = {
    "pointwise": "one scalar function, applied elementwise with broadcasting",
    "promote": "all tensor inputs, or those in parentheses, meet in one dtype",
    "promote_float": "as promote, and integers become the default float",
    "commutative": "its two inputs may change places",
    "compares": "its two inputs are compared by value, also where they meet in no dtype",
    "reduces": "it folds the axes in its attribute axis away, whatever their order",
    "random": "the result depends on the random state",
    "nondifferentiable": "the gradient is zero",
    "data_dependent": "the size of the result depends on the data; traced it is what it is made of",
    "side_effect": "kept though nobody uses the result",
    "asks": "kept though nobody uses the result: it is refused for some sizes",
    "calls_graph": "it is its graph, called on its inputs; eagerly, that is one program",
    "collective": "it joins the lanes of the axis that its attribute axis_name names",
    "ring": "it joins the processes of the ring that ring_id counts",
    "local": "a collective that each lane computes by itself",
    "uniform": "a collective that gives every lane the same result",
    "matrices": "eagerly, small dims of the last two axes are known to its program",
    "moves": "the result lives where the op says, not where its inputs do",
    "low_precision": "phix.autocast runs it in the low dtype",
    "full_precision": "phix.autocast keeps the low dtype away from it",
    "binds_dim": "its first attribute is an unknown dim, which its input is the value of",
    "layout": "the tensors in parentheses have the axes that its attribute data_format names",
    "invariant": "its graphs take the tensors of the list in parentheses last, each time the same",
    "whole": "a backward op that graphs hold as it is until they are lowered",
    "own_derivative": "its derivative is not that of its decomposition; phix.decompose keeps it",
    "stores": "it takes dtypes of storage too, whose bytes it moves or casts",
    "restates": "the values of its input, in another dtype or on another place",
}
PRECISIONS = {"low_precision", "full_precision"}
PROMOTIONS = ("promote", "promote_float")
NAMING = (*PROMOTIONS, "layout", "invariant")  # they take names of tensors
JVP_KINDS = ("linear", "bilinear", "pointwise")


@cache
def parse_traits(traits: tuple[str, ...]) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The traits, and the tensors that some name, as in ``promote(x, y)``.

    Raises:
        OpTableError: an unknown trait, args given to one that takes none, or two that exclude
            each other.
    """
    names: set[str] = set()
    named: dict[str, tuple[str, ...]] = {}
    for trait in traits:
        name, parenthesis, rest = trait.partition("(")
        if name not in TRAITS:
            raise OpTableError(f"unknown trait {name!r}; write {nearest(name, TRAITS)!r}")
        if parenthesis:
            if name not in NAMING or not rest.endswith(")"):
                raise OpTableError(f"trait {trait!r} takes no arguments; write {name!r}")
            named["promote" if name in PROMOTIONS else name] = tuple(split_top(rest[:-1]))
        names.add(name)
        if name == "promote_float":
            names.add("promote")
    if names >= PRECISIONS:
        raise OpTableError("traits 'low_precision' and 'full_precision' in one entry; keep one")
    return frozenset(names), named


@cache
def parse_dtypes(names: tuple[str, ...]) -> frozenset[np.dtype]:
    """The dtypes of group names (bool, int, float, complex) and of single dtype names.

    Raises:
        OpTableError: a name that is neither.
    """
    found: set[np.dtype] = set()
    for name in names:
        if name in GROUPS:
            found.update(GROUPS[name])
        elif name in BY_NAME:
            found.add(BY_NAME[name])
        else:
            known = [*GROUPS, *BY_NAME]
            raise OpTableError(f"unknown dtype or group {name!r}; write {nearest(name, known)!r}")
    return frozenset(found)


def make_op(
    name: str,
    args: str,
    output: str,
    *,
    family: str = "",
    infer_meta: tuple[str, tuple[str, ...] | None] | None = None,
    backward: str | None = None,
    forward: str | None = None,
    forward_names: tuple[tuple[str, str], ...] = (),
    jvp: str | None = None,
    traits: tuple[str, ...] = (),
    dtypes: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    intermediate: tuple[str, ...] = (),
    no_need_buffer: tuple[str, ...] = (),
    invoke: str | None = None,
    inplace: tuple[tuple[str, str], ...] = (),
    view: tuple[tuple[str, str], ...] = (),
    kernel: dict[str, Any] | None = None,
    data_transform: dict[str, Any] | None = None,
    where: str = "",
) -> Op:
    """The op with these facts, strings in PHI's grammar; not registered.

    Raises:
        OpTableError: a string that does not parse.
    """
    op_args, op_outputs = parse_args(args), parse_outputs(output)
    if optional:
        op_args, op_outputs = _mark_optional(op_args, op_outputs, optional)
    if intermediate:
        op_outputs = tuple(
            Output(o.name, o.is_list, o.size, True, o.optional) if o.name in intermediate else o
            for o in op_outputs
        )
    trait_set, named = parse_traits(traits)
    return Op(
        name=name,
        args=op_args,
        outputs=op_outputs,
        family=family,
        infer_meta_name=infer_meta[0] if infer_meta else None,
        infer_meta_params=infer_meta[1] if infer_meta else None,
        backward=backward,
        forward=forward,
        forward_names=forward_names,
        jvp=jvp,
        traits=trait_set,
        dtypes=parse_dtypes(dtypes),
        promoted=named.get("promote", ()),
        with_layout=named.get("layout", ()),
        invariant=named.get("invariant", ()),
        no_need_buffer=frozenset(no_need_buffer),
        invoke=invoke,
        inplace=inplace,
        view=view,
        kernel={**(kernel or {}), **(data_transform or {})},
        where=where,
    )


def _mark_optional(
    args: tuple[Arg, ...], outputs: tuple[Output, ...], names: tuple[str, ...]
) -> tuple[tuple[Arg, ...], tuple[Output, ...]]:
    return (
        tuple(Arg(a.name, a.type, a.default, True) if a.name in names else a for a in args),
        tuple(
            Output(o.name, o.is_list, o.size, o.intermediate, True) if o.name in names else o
            for o in outputs
        ),
    )


def define(name: str, args: str, output: str, **facts: Any) -> Op:
    """:func:`make_op`, made when it is needed and put into the registry; its ``invoke`` names an op
    of the table.

    Raises:
        OpTableError: the name is taken.
    """
    op = Op.declared(
        partial(make_op, name, args, output, **facts),
        name=name,
        receiver=_receiver(args, facts.get("optional", ())),
        inplace=facts.get("inplace", ()),
        where=facts["where"],
    )
    if facts.get("invoke"):
        op.decomposition = invoking.decomposition(op)
    return add_op(op)


def _receiver(args: str, optional: tuple[str, ...]) -> str:
    """The receiver of an op of ``phix/ops.py``, whose args are spelled in one way."""
    kind, _, name = args.strip("()").partition(",")[0].partition(" ")
    return name if kind == "Tensor" and name not in optional else ""


def definer(where: str, **facts: Any) -> Callable[..., Op]:
    """:func:`define` for the entries of one file, with facts that all of them share."""
    return partial(define, where=where, **facts)
