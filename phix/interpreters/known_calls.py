"""Calls under reverse mode that are like one before: what was settled for that one is known.

Inputs of the same kinds are converted, promoted and checked alike, and the same of them are kept
for the backward op. So such a call is one look into a table, the plan by which eager calls are run,
and a record. That holds where ops run at once, and nobody watches them or notes their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import context, kernel_registry, places, registries, settings
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.libraries import PINS
from phix.core.op import Op
from phix.core.rules import get_op
from phix.interpreters.backward_rules import (
    adjoint_of,
    argument_places,
    is_called,
    uncovered,
)
from phix.interpreters.call_keys import FIXED, asked, is_plain, keep, number_key
from phix.interpreters.infer_meta import RUN_TIME, infer
from phix.interpreters.known_pulls import KnownPulls

# By the call as the user wrote it, and the keys of its inputs.
KNOWN: dict[Any, KnownCall] = {}
registries.contents(KNOWN)
places.LISTENERS.append(KNOWN.clear)
kernel_registry.LISTENERS.append(KNOWN.clear)


class KnownCall:
    """What calls of an op of one output, with inputs of some kinds, have in common.

    ``fixed`` are the numbers among the inputs, as tensors: (where, tensor or None). The backward op
    gets ``args``, but for those of each call itself: ``kept`` has them, as (where among the args,
    where among inputs and output), and cotangents. ``run`` is the plan of the eager call, ``pulls``
    are the programs of its backward.
    """

    __slots__ = ("adjoint", "args", "fixed", "is_differentiable", "kept", "pulls", "run")

    def __init__(
        self, op: Op, run: Callable[..., Any], values: Sequence[Any], fixed: Any, attrs: Any
    ) -> None:
        metas = tuple([None if v is None else v.meta for v in values])
        out = infer(op, metas, attrs, RUN_TIME)[0]
        rule = get_op(op.backward or "")
        self.run, self.fixed, self.adjoint = run, fixed, adjoint_of(op, rule)
        self.is_differentiable = dt.is_differentiable(out.dtype)
        self.pulls = KnownPulls(op, self.adjoint)
        self.args: list[Any] = []
        self.kept: list[tuple[int, int]] = []
        whole, numbers = is_called(rule), dict(fixed)
        known = dict(enumerate((*metas, *attrs, out)))
        last = len(known) - 1
        for here, (place, other, is_meta) in enumerate(argument_places(op, rule)):
            is_tensor = place is not None and (place < len(metas) or place == last)
            if place in numbers and (whole or not is_meta):
                other = numbers[place]
            elif is_tensor and (whole or not is_meta):
                self.kept.append((here, len(metas) if place == last else place))  # type: ignore[arg-type]
            elif place is not None:
                other = known[place]
            self.args.append(other)


def call_key(op: Op, attrs: tuple[Any, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What calls alike have in common, of inputs that are tensors and numbers."""
    call = asked(op, attrs) if op.inexact or PINS else (op, attrs)
    keys = [number_key(x) if type(x) in FIXED else x.known_key or x.key for x in inputs]
    return (call, *keys)


def note(op: Op, given: Sequence[Any], given_attrs: Any, values: Sequence[Any], attrs: Any) -> None:
    """After a call on tensors and numbers, ``given``, that became tensors ``values``: know it."""
    if (
        op.backward is None
        or not op.single_output
        or op.has_lists
        or op.has_graphs
        or uncovered(op)
        or not all(map(is_plain, given_attrs))
    ):
        return
    run = context.base().plan_of(op, tuple(values), attrs)
    if run is None:
        return
    out = infer(op, tuple([None if v is None else v.meta for v in values]), attrs)[0]
    if not dm.is_known(*out.dims) or out.dtype in dt.STORAGE:
        return
    fixed = [(k, v) for k, (x, v) in enumerate(zip(given, values)) if type(x) in FIXED]
    found = KnownCall(op, run, values, fixed, attrs)
    keep(KNOWN, call_key(op, given_attrs, given), found, settings.current().most_eager_plans)
