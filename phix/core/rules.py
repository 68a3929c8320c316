"""The registries of ops and of their rules, and the decorators that fill them.

Rules are registered by op name, in any order relative to the ops; an op takes its rules the
moment both are known. Those of phix are imported when they are first asked for
(:mod:`phix.core.rule_modules`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from phix.core import hints, registries, rewrites, rule_modules
from phix.core.errors import OpTableError, UnknownOpError
from phix.core.op import RULES, Op

Rule = TypeVar("Rule", bound=Callable[..., Any])

OPS: dict[str, Op] = {}
INFER_META: dict[str, Callable[..., Any]] = {}
# field of Op -> op name -> rule
_RULES: dict[str, dict[str, Callable[..., Any]]] = {
    slot: {} for slot in RULES if slot != "simplifications"
}
# Ops of the table that comes with phix, and ops with rules from elsewhere: programs of those depend
# on code that no cache on disk knows.
BUILT_IN: set[str] = set()
EXTENDED: set[str] = set()
# Ops of the user's whose code a digest tells.
CODE: dict[str, Callable[[], str | None]] = {}
# op name -> its rules of algebra, each with the name of the rewrite it belongs to, in order
_SIMPLIFICATIONS: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
registries.contents(OPS, INFER_META, _RULES, BUILT_IN, EXTENDED, CODE, _SIMPLIFICATIONS)


@registries.part
def _as_they_are() -> Callable[[], None]:
    """The rules that ops have taken."""
    for op in OPS.values():
        for slot in RULES:  # each op has them all then, None if there is none
            getattr(op, slot)
    known = [(op, dict(vars(op))) for op in OPS.values()]

    def restore() -> None:
        for op, fields in known:
            vars(op).update(fields)

    return restore


def add_op(op: Op) -> Op:
    """Put ``op`` into the registry; a second op of that name is an error."""
    if op.name in OPS:
        raise OpTableError(
            f"{op.where}: op {op.name!r} stands in the table already, at {OPS[op.name].where}; "
            "give the entry another name"
        )
    OPS[op.name] = op
    for slot, rules in _RULES.items():
        if op.name in rules:
            setattr(op, slot, rules[op.name])
    if op.name in _SIMPLIFICATIONS:
        op.simplifications = tuple(_SIMPLIFICATIONS[op.name])
    return op


def get_op(name: str) -> Op:
    """The op of that name.

    Raises:
        UnknownOpError: there is none; the message names the ops nearest in spelling.
    """
    op = OPS.get(name)
    if op is None:
        hint = hints.proposal(name, OPS) or "phix.load_ops(file) adds ops"
        raise UnknownOpError(f"no op {name!r} in the op table; {hint}")
    return op


def note_origin(op_name: str, rule: Callable[..., Any]) -> None:
    """Remember an op that code outside of phix says something about."""
    if not rule_modules.is_own(rule):
        EXTENDED.add(op_name)


def note_code(op_name: str, digest: Callable[[], str | None]) -> None:
    """Remember what gives a digest of the code of an op, or None where nothing tells.

    It is asked for each program: what the code uses may be another by then.
    """
    EXTENDED.add(op_name)
    CODE[op_name] = digest


def _register(slot: str, op_name: str) -> Callable[[Rule], Rule]:
    def decorator(rule: Rule) -> Rule:
        note_origin(op_name, rule)
        known = _RULES[slot]
        if op_name in OPS:
            rule_modules.import_before(rule, OPS[op_name].where, *RULES[slot])
        elif rule.__module__.startswith("phix.primitives."):
            raise OpTableError(
                f"{rule.__module__} has a {slot} for {op_name!r}, which phix.ops does not have; "
                "add its entry to the op table and run `make ops`, or remove the rule"
            )
        if op_name in known:
            raise OpTableError(
                f"op {op_name!r} has a {slot} already, in {known[op_name].__module__}; "
                f"remove it or the one in {rule.__module__}"
            )
        known[op_name] = rule
        if op_name in OPS:
            setattr(OPS[op_name], slot, rule)
        return rule

    return decorator


def infer_meta(name: str) -> Callable[[Rule], Rule]:
    """Register the infer_meta function that table entries name ``func: name``.

    It takes metas and attributes in the order of the op's args (or of ``infer_meta: param``),
    and, if it has a parameter ``config``, the MetaConfig. It returns one MetaTensor, or a tuple
    with one entry an output (a list output is a tuple of metas).
    """

    def decorator(rule: Rule) -> Rule:
        rule_modules.import_before(rule, rule_modules.ALL)
        if name in INFER_META:
            raise OpTableError(f"infer_meta function {name!r} is registered already")
        INFER_META[name] = rule
        return rule

    return decorator


class MetaOf(NamedTuple):
    """The infer_meta function that gives what an op of the table infers, for args in its order."""

    op_name: str


def infer_meta_of(name: str, op_name: str) -> None:
    """Register the infer_meta function ``name``: it infers what calls of an op do."""
    infer_meta(name)(MetaOf(op_name))  # type: ignore[type-var]


def infer_meta_rule(op: Op) -> Callable[..., Any] | MetaOf:
    """The infer_meta function that the entry of an op names.

    Raises:
        OpTableError: there is none of that name, or the entry names none and nothing replaces it.
    """
    name = op.infer_meta_name
    if name is None:
        raise OpTableError(
            f"{op.where}: op {op.name!r} has neither infer_meta nor a decomposition; add "
            "`infer_meta: {func: UnchangedInferMeta, param: [x]}`, or another function, to its "
            f"entry, or register @phix.core.rules.decompose({op.name!r})"
        )
    for subject in (op.where, rule_modules.ALL):
        if name not in INFER_META:
            rule_modules.import_for(subject)
    if name not in INFER_META:
        hint = f"{hints.proposal(name, INFER_META)} ".lstrip()
        raise OpTableError(
            f"{op.where}: op {op.name!r} names infer_meta {name!r}, which is not registered; "
            f"{hint}A function of one's own is @phix.core.rules.infer_meta({name!r})"
        )
    return INFER_META[name]


def decompose(op_name: str) -> Callable[[Rule], Rule]:
    """Register the decomposition of an op: args in the op's order in, outputs out.

    A backward op's decomposition is the backward rule of its forward op.
    """
    return _register("decomposition", op_name)


def jvp(op_name: str) -> Callable[[Rule], Rule]:
    """Register a forward-mode rule: ``rule(primals, tangents, *attrs) -> (outs, out_tangents)``.

    ``primals`` and ``tangents`` follow ``op.inputs``; a tangent that is zero is None.
    """
    return _register("jvp_rule", op_name)


def vjp(op_name: str) -> Callable[[Rule], Rule]:
    """Register a reverse-mode rule in Python, for ops whose backward is no op of the table.

    ``rule(active, *args) -> (outs, pull)``: args in the op's order; ``active`` has one bool for
    each of ``op.inputs`` (a tuple for a list); ``outs`` as the op gives them. ``pull(*cts)``, one
    entry an output, gives the cotangents of ``op.inputs``, None where there is none.
    """
    return _register("vjp_rule", op_name)


def kind_vjp(op_name: str) -> Callable[[Rule], Rule]:
    """Register a reverse-mode rule for some calls, as :func:`vjp` does for all.

    It gives None for the others, which are left to the op's derivative. Its ``pull`` may give
    tensors of other kinds (``core.tensor_kinds``), which can be added and have ``to_dense``.
    """
    return _register("kind_vjp_rule", op_name)


def jet(op_name: str) -> Callable[[Rule], Rule]:
    """Register a rule of jets: ``rule(*args)``, args in the op's order.

    Each tensor comes as a power series, a list ``[x_0, x_1, ..., x_n]``: the value and the Taylor
    coefficients x^(k) / k!, None for one that is zero (a constant is ``[x, None, ...]``); a
    Tensor[] is a tuple of lists. Outputs go back likewise. NotImplemented leaves the case to the
    op's derivative.
    """
    return _register("jet_rule", op_name)


def batch(op_name: str) -> Callable[[Rule], Rule]:
    """Register a batching rule: ``rule(batched, *args)``, args in the op's order.

    ``batched`` has one bool for each of ``op.inputs`` (a list's entry is a tuple of bools); a
    batched input has its batch dim at 0. All outputs must come back with theirs at 0; or a rule
    gives NotImplemented, for the op once an element.
    """
    return _register("batch_rule", op_name)


def collective(op_name: str) -> Callable[[Rule], Rule]:
    """Register what an op does over the named axis that its attribute ``axis_name`` means.

    ``rule(size, batched, *args) -> (out, mapped)``: args in the op's order, tensors with the axis
    in front where ``batched`` (one bool for each of ``op.inputs``) says so; ``mapped`` says
    whether out has it in front, or is the same for all.
    """
    return _register("collective_rule", op_name)


def ranks(op_name: str) -> Callable[[Rule], Rule]:
    """Register what an op does between the ranks of a group, of which this process is one.

    ``rule(group, varies, *args) -> (out, varies)``: args in the op's order; ``varies`` says of
    each input (of each of a list) whether it differs between the ranks, and whether out does.
    """
    return _register("rank_rule", op_name)


def normalize(op_name: str) -> Callable[[Rule], Rule]:
    """Register how attributes are made canonical: ``rule(*input_metas, *attrs) -> attrs``.

    Args come in the op's order; the result is the tuple of all attributes, axes positive.
    """
    return _register("normalize", op_name)


def operands(op_name: str) -> Callable[[Rule], Rule]:
    """Register what an op is where some of its float and Scalar attributes are tensors.

    ``rule(*args)``: args in the op's order, each of those attributes a number or a 0-d tensor, the
    others converted, not normalised. It may not ask for the value of a tensor. An op with a
    decomposition needs no such rule where that does as well.
    """
    return _register("operand_rule", op_name)


def sizes(op_name: str) -> Callable[[Rule], Rule]:
    """Register how inputs that hold sizes become attributes: ``rule(*args) -> args``.

    Args come in the op's order, attributes converted, not normalised. What an input says is put
    into attributes by ``phix.core.attrs.as_dim``, and None in its place.
    """
    return _register("size_rule", op_name)


def indices(op_name: str) -> Callable[[Rule], Rule]:
    """Register which inputs hold indices: ``rule(*input_metas, *attrs) -> [IndexRange, ...]``.

    Args come in the op's order; a range has the name of the input, ``"x"`` or ``"x[0]"``.
    """
    return _register("index_rule", op_name)


class Call(NamedTuple):
    """A call of an op by name: its args in the op's order, each a value or a Call."""

    op: str
    args: tuple[Any, ...]


def origin(x: Any) -> Call | None:
    """The call that made ``x``, a tensor of a graph being written, where that is known."""
    found: Call | None = getattr(x, "origin", None)
    return found


def simplify(name: str, what: str, *op_names: str) -> Callable[[Rule], Rule]:
    """Register what calls of these ops are equal to, as part of the rewrite ``name``.

    ``rule(op_name, *args)`` gives a tensor, a :class:`Call` to make instead, or None. ``what``
    describes the rewrite; more rules of the same one leave it empty or say the same.
    """

    def decorator(rule: Rule) -> Rule:
        rule_modules.import_before(rule, rule_modules.REWRITES)
        if not rewrites.is_known(name):
            rewrites.add(name, "graph", what)
        for op_name in op_names:
            note_origin(op_name, rule)
            _SIMPLIFICATIONS.setdefault(op_name, []).append((name, rule))
            if op_name in OPS:
                OPS[op_name].simplifications = tuple(_SIMPLIFICATIONS[op_name])
        return rule

    return decorator


def end_table() -> None:
    """Note the ops that come with phix: all there are now."""
    BUILT_IN.update(OPS)


def check_table() -> None:
    """Import all rules of the ops that come with phix.

    Raises:
        OpTableError: a rule or a name leads nowhere.
    """
    rule_modules.import_for(rule_modules.ALL)
    for name in BUILT_IN:
        op = OPS[name]
        if op.backward is not None and op.backward not in OPS:
            raise OpTableError(
                f"{op.where}: op {op.name!r} names backward {op.backward!r}, which has no entry; "
                f"add `- backward_op: {op.backward}`"
            )
        if op.decomposition is None or op.infer_meta_name is not None:
            infer_meta_rule(op)
