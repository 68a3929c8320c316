"""Outputs of composites whose cotangents the backward rule of the op does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core import dtypes as dt
from phix.core.graph import flat, map_entries
from phix.core.op import Op
from phix.interpreters.backward_rules import as_outputs, uncovered
from phix.interpreters.tape import Record


class DecomposedOutputs:
    """The pull of outputs whose cotangents the backward rule does not take: a mean or a residual
    kept for the backward itself, which higher derivatives go through. It goes through the op's
    decomposition, run again."""

    __slots__ = ("attrs", "numbers", "op", "values", "vjp")

    def __init__(
        self, op: Op, values: Any, attrs: Any, numbers: tuple[int, ...], vjp: Callable[..., Any]
    ) -> None:
        self.op, self.values, self.attrs, self.numbers = op, values, attrs, numbers
        self.vjp = vjp

    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        op = self.op
        floats = [x for x in flat(self.values) if dt.is_differentiable(x.dtype)]

        def outputs(*chosen: Any) -> list[Any]:
            supply = iter(chosen)
            inputs = map_entries(
                lambda x: next(supply) if dt.is_differentiable(x.dtype) else x, self.values
            )
            assert op.decomposition is not None
            outs = as_outputs(op, op.decomposition(*op.merge(inputs, self.attrs)))
            return [outs[n] for n in self.numbers]

        _, pull = self.vjp(outputs, floats)
        pull.in_rule = True
        found = iter(pull(cotangents))
        return map_entries(
            lambda x: next(found) if dt.is_differentiable(x.dtype) else None, self.values
        )


def apart(record: Record, values: Any, attrs: Any, vjp: Callable[..., Any]) -> list[Record]:
    """The record without such outputs, and another of theirs; ``vjp`` is that of functions."""
    op, pairs = record.op, record.outputs
    extra = tuple(n for n in uncovered(op) if type(pairs[n]) is tuple and pairs[n][0] >= 0)
    if not extra:
        return [record]
    record.outputs = tuple((-1, p[1]) if n in extra else p for n, p in enumerate(pairs))
    pull = DecomposedOutputs(op, values, attrs, extra, vjp)
    return [record, Record(op, pull, record.inputs, tuple(pairs[n] for n in extra), record.source)]
