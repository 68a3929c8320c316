"""The tape of reverse mode: what a function did, and how cotangents get back along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import context, dispatch, varying
from phix.core import dtypes as dt
from phix.core.conversion import following
from phix.core.graph import flat
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import Place, device, is_host_alone
from phix.core.rules import OPS
from phix.core.source import Source, derivation, is_recording, user_source
from phix.core.tensor import Tensor
from phix.core.tensor_kinds import dense
from phix.interpreters.backward_rules import BackwardRule


class Record:
    """One op on the tape: which nodes it joins, and how cotangents get across."""

    __slots__ = ("inputs", "op", "outputs", "pull", "source")

    def __init__(
        self,
        op: Op,
        pull: Callable[..., Sequence[Any]],
        inputs: Any,
        outputs: Any,
        source: Source | None = None,
    ) -> None:
        self.op = op
        self.source = source  # where the op was called, while that is recorded
        self.pull = pull  # cotangents, one entry an output, in; one entry an input out
        self.inputs = inputs  # node numbers (-1: no derivative wanted), as op.inputs
        # (node, meta) pairs as op.outputs, a list of them for a list; a single one needs no meta
        self.outputs = outputs


def zeros(meta: MetaTensor) -> Any:
    return dispatch.bind(OPS["full"], (), (meta.dims, 0, meta.dtype, None))


def origin(meta: MetaTensor) -> Any:
    """Zeros that vary as ``meta`` does, for a linear function to be transposed at: its cotangents
    come back as what it takes varies."""
    return varying.along(zeros(meta), meta.varying)


def add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if a.dtype in dt.STORAGE:  # derivatives add up in a dtype that there is a sum of
        wide = (dispatch.bind(OPS["cast"], (x,), (dt.float32,)) for x in (a, b))
        return dispatch.bind(OPS["cast"], (dispatch.bind(OPS["add"], tuple(wide), ()),), (a.dtype,))
    return dispatch.bind(OPS["add"], (a, b), ())


class Pullback:
    """Cotangents of the outputs in, cotangents of the inputs out; may be called again.

    Runs under the interpreter that is current when it is called. ``any_kind``: cotangents of inputs
    may be tensors of other kinds than dense; what ops on the way get is always dense.
    """

    in_rule = False  # whether it serves the rule of an op, and is no pass of its own

    def __init__(
        self,
        tape: list[Record],
        inputs: list[Any],
        outputs: Sequence[Any],
        place: Place | None,
        axes: dict[int, frozenset[str]] | None = None,
    ) -> None:
        self.tape = tape
        self.axes = axes  # along which each node's value differs, where a mesh is at work
        self.place = place  # where the inputs are, if not on the CPU
        self.inputs = inputs  # (node, meta) of each input
        self.outputs = outputs  # node of each output, -1 where it does not depend on the inputs

    def __call__(
        self, cotangents: Sequence[Any], instantiate: bool = True, any_kind: bool = False
    ) -> list[Any]:
        if self.place is None:
            return self.run(cotangents, instantiate, any_kind)
        with device(self.place):
            return self.run(cotangents, instantiate, any_kind)

    def run(self, cotangents: Sequence[Any], instantiate: bool, any_kind: bool) -> list[Any]:
        grads: dict[int, Any] = {}
        for node, ct in zip(self.outputs, cotangents):
            if node >= 0 and ct is not None:
                grads[node] = add(grads.get(node), self.whole(node, ct))
        pull: Callable[..., Any] | None = self.watched if is_recording() else None
        if not is_host_alone():
            pull = _following(pull or _pulled)
        with context.inside():
            for record in reversed(self.tape):
                self.step(record, grads, pull)
            found = [grads.get(node) for node, _ in self.inputs]
            if not any_kind:
                found = list(map(dense, found))
        if not instantiate:
            return found
        return [zeros(meta) if g is None else g for g, (_, meta) in zip(found, self.inputs)]

    def step(self, record: Record, grads: dict[int, Any], pull: Callable[..., Any] | None) -> None:
        """Send the cotangents of one record's outputs to its inputs; ``pull`` is how, if not as
        the record says."""
        outputs = record.outputs
        if len(outputs) == 1 and type(outputs[0]) is tuple:
            ct = grads.pop(outputs[0][0], None)
            if ct is None:
                return
            cts = [ct if type(ct) is Tensor else dense(ct)]
        else:
            cts = _cotangents(record, grads)
            if not cts:
                return
        found = record.pull(*cts) if pull is None else pull(record, cts)
        for nodes, grad in zip(record.inputs, found):
            if nodes is None or grad is None:
                continue
            for node, value in zip(nodes, grad) if isinstance(nodes, tuple) else ((nodes, grad),):
                if node >= 0 and value is not None:
                    value = value if self.axes is None else self.whole(node, value)
                    known = grads.get(node)
                    grads[node] = value if known is None else add(known, value)

    def whole(self, node: int, ct: Any) -> Any:
        """A cotangent of a node, which varies along the axes of a mesh as the node's value does.

        Summed over those along which it differs and the value does not, since that value is used
        everywhere along them. One that is the same along an axis where the value differs is each
        part's own from here on, to be summed where it meets what is the same."""
        if self.axes is None:
            return ct
        ct = dense(ct)
        for axis in sorted(ct.meta.varying - self.axes[node]):
            ct = dispatch.bind(OPS["psum"], (ct,), (axis,))
        return varying.along(ct, self.axes[node])

    def watched(self, record: Record, cts: list[Any]) -> Sequence[Any]:
        """The pull, where what it does is known to come from the line of the record's op."""
        source = record.source or user_source()
        if source is not None and not self.in_rule:
            source = source.derived("backward", record.op.name)
        return derivation(source, lambda: record.pull(*cts))


def _pulled(record: Record, cts: list[Any]) -> Any:
    return record.pull(*cts)


def _following(pull: Callable[..., Any]) -> Callable[..., Any]:
    """The pull on the place of its cotangents."""

    def run(record: Record, cts: list[Any]) -> Any:
        with following(flat(tuple(cts))):
            return pull(record, cts)

    return run


def _cotangents(record: Record, grads: dict[int, Any]) -> list[Any]:
    """The cotangents of a record's several outputs, zeros where there are none but for some; empty
    where there are none at all."""
    pairs = [p for e in record.outputs for p in (e if isinstance(e, list) else (e,))]
    if not any(node in grads for node, _ in pairs):
        return []
    rule = record.pull
    none = (False,) * len(record.outputs)
    may_lack = rule.adjoint.may_lack if isinstance(rule, BackwardRule) else none
    takes_none = getattr(rule, "takes_none", False)

    def cotangent(pair: Any) -> Any:
        found = dense(grads.pop(pair[0], None))
        lacks = found is None and pair[1] is not None
        return zeros(pair[1]) if lacks and not takes_none else found

    return [
        tuple(map(cotangent, e)) if isinstance(e, list)
        else None if e[0] not in grads and may_lack[n]
        else cotangent(e)
        for n, e in enumerate(record.outputs)
    ]  # fmt: skip
