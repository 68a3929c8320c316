"""The autocast pass: ops that may run in a low dtype do, those that must not never see it.

Ops say so themselves, by their traits ``low_precision`` and ``full_precision``. The pass stages the
graph anew with casts between them. A value it has lowered is float32 in the given graph and of the
low dtype in the new one; all others keep their dtypes, and so do the inputs and outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phix.core import context, dispatch, stack
from phix.core import dtypes as dt
from phix.core.graph import Graph, flat, map_attrs, map_entries
from phix.core.interpreter import Interpreter
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.records import dataclass
from phix.core.rules import OPS
from phix.core.tensor import Tensor
from phix.interpreters.infer_meta import infer
from phix.interpreters.stage import StageTracer, Staging, trace

LOW, FULL, WIDEST = "low_precision", "full_precision", "widest"


@dataclass(frozen=True)
class Policy:
    """The low dtype, and the ops that run in it, or never do, whatever their traits."""

    dtype: np.dtype
    allow: frozenset[Op] = frozenset()
    deny: frozenset[Op] = frozenset()

    def of(self, op: Op) -> str:
        """LOW or FULL, or WIDEST: in the widest dtype that its inputs have.

        A backward op goes as its forward does.
        """
        host = any(a.type == "Object" for a in op.attrs)  # Python code that knows the dtypes
        if host or op.has_graphs or (op.dtypes and self.dtype not in op.dtypes):
            return FULL
        for named, answer in ((self.deny, FULL), (self.allow, LOW)):
            if op in named:
                return answer
        for trait in (FULL, LOW):
            if trait in op.traits:
                return trait
        return WIDEST if op.forward is None else self.of(OPS[op.forward])


class Autocast(Interpreter):
    """Ops are staged by ``parent``, their inputs cast as ``policy`` says. A cast is made once."""

    name = "autocast"

    def __init__(self, parent: Staging, policy: Policy) -> None:
        super().__init__(parent)
        self.stage = parent
        self.policy = policy
        self.lowered: dict[int, Any] = {}  # by id
        self.casts: dict[tuple[int, np.dtype], tuple[Any, Any]] = {}

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        if op.has_graphs:
            attrs = map_attrs(lambda g: autocast(g, self.policy), attrs)
        given = self.inputs(op, inputs)
        outs = self.stage.process(op, given, attrs)
        if all(x.dtype == self.dtype_before(y) for x, y in zip(flat(given), flat(inputs))):
            return outs  # as in the given graph
        before = infer(op, map_entries(self.before, inputs), attrs)
        single = len(op.outputs) == 1
        marked = iter([self.mark(x, m) for x, m in zip(_flat(outs, single), flat(before))])
        entries = map_entries(lambda m: next(marked), before)
        return entries[0] if single else entries

    def inputs(self, op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the op is given in place of ``inputs``."""
        how = self.policy.of(op)
        if how == WIDEST:
            how = LOW if self.can_stay_low(inputs) else FULL
        return map_entries(self.lower if how == LOW else self.restore, inputs)

    def can_stay_low(self, inputs: tuple[Any, ...]) -> bool:
        """Whether some inputs are lowered, and all float32 ones among the others are numbers."""
        others = [x for x in flat(inputs) if id(x) not in self.lowered]
        wide = [x for x in others if x.dtype == dt.float32]
        return len(others) < len(flat(inputs)) and all(map(self.is_number, wide))

    def is_number(self, x: Any) -> bool:
        """Whether ``x`` is a 0-d constant that the low dtype has room for."""
        if not isinstance(x, Tensor) or x.ndim:
            return False
        value = x.host
        with np.errstate(all="ignore"):
            low = value.astype(self.policy.dtype).astype(value.dtype)
        return bool(np.isfinite(low) == np.isfinite(value) and (low == 0) == (value == 0))

    def dtype_before(self, x: Any) -> np.dtype:
        """The dtype that ``x`` has in the given graph."""
        return dt.float32 if id(x) in self.lowered else x.dtype

    def before(self, x: Any) -> MetaTensor:
        return x.meta.with_dtype(self.dtype_before(x))

    def mark(self, x: Any, before: MetaTensor) -> Any:
        """An output, known as lowered if it is; of the dtype it had if that was no float32."""
        if x.dtype == before.dtype:
            return self.fresh(x) if id(x) in self.lowered else x
        if before.dtype != dt.float32 or x.dtype != self.policy.dtype:
            return self.cast(x, before.dtype)
        if id(x) not in self.lowered:
            x = self.fresh(x)
            self.lowered[id(x)] = x
        return x

    def fresh(self, x: Any) -> Any:
        """The same value once more: one may be lowered, the other what the function cast itself."""
        if not isinstance(x, StageTracer):
            return Tensor(x.data)
        other = StageTracer(self.stage, x.variable, x.source)
        other.origin = x.origin
        return other

    def lower(self, x: Any) -> Any:
        return self.cast(x, self.policy.dtype) if x.dtype == dt.float32 else x

    def restore(self, x: Any) -> Any:
        return self.cast(x, dt.float32) if id(x) in self.lowered else x

    def cast(self, x: Any, dtype: np.dtype) -> Any:
        known = self.casts.get((id(x), dtype))
        if known is None:
            with context.active(self.stage):
                known = (x, dispatch.bind(OPS["cast"], (x,), (dtype,)))
            self.casts[id(x), dtype] = known
        return known[1]


def _flat(outs: Any, single: bool) -> list[Any]:
    """The tensors of what ``process`` returns, in order."""
    return flat((outs,) if single else outs)


@stack.nests
def autocast(graph: Graph, policy: Policy) -> Graph:
    """``graph`` with casts: its inputs and outputs have the dtypes they had."""
    known: Graph | None = graph.memo.get(policy)
    if known is not None:
        return known

    def rewritten(*inputs: Any) -> list[Any]:
        staging = context.current()
        assert isinstance(staging, Staging)
        interpreter = Autocast(staging, policy)
        with context.transformation(interpreter):
            return [interpreter.restore(x) for x in graph(*inputs)]

    inputs = graph.inputs
    made = trace(rewritten, [v.meta for v in inputs], [v.name for v in inputs])
    graph.memo[policy] = made
    return made
