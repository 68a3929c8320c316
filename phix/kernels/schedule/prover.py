"""Each pass over the loops of a program, proved on given inputs: the evaluator runs the program
before the pass and after it, and the pass that changed a result is named.

A pass keeps every bit, but for those in ``FREES_ROUNDING``: what these change must be no more
than what a change of the inputs in their last bits makes of the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass, field
from phix.core.stages import LOOPS, Stage
from phix.kernels.loops import nodes as ir
from phix.kernels.loops import text as loop_text
from phix.kernels.loops.evaluator import EvaluationError, evaluate, evaluate_each
from phix.kernels.loops.nodes import LoopProgram
from phix.kernels.schedule import workspace

# The passes that may add up in another order.
FREES_ROUNDING = (
    "block_sums",
    "running_sums",
    "share_loops",
    "fill_the_card",
    "split_library_calls",
)
# What the plan of memory is called, which is judged last: see ``workspace``.
SLOTS = "slots"
_EPS = {"f2": 1e-3, "f4": 1.2e-7, "f8": 2.3e-16}


class PassFault(AssertionError):
    """A pass changed what a program computes, or made it do what no program may; ``name`` is the
    pass."""

    def __init__(self, name: str, what: str, before: str, after: str) -> None:
        super().__init__(f"{name}: {what}\n--- before\n{before}\n--- after\n{after}")
        self.name, self.what = name, what


@dataclass
class Prover:
    """Watches the passes over one program."""

    samples: list[list[np.ndarray]]
    results: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    text: str = ""
    changed: list[str] = field(default_factory=list)  # the passes that changed the program

    def __call__(self, stage: Stage) -> None:
        _, name, program, _ = stage
        if stage.level != LOOPS:
            return
        before, self.text = self.text, loop_text.program_text(program)
        if before == self.text and name != SLOTS:
            return
        self.changed.append(name)
        try:
            slots = _slots(program) if name == SLOTS else ()
            results = evaluate_each(program, self.samples, slots)
        except EvaluationError as error:
            raise PassFault(name, str(error), before, self.text) from error
        for sample, found, wanted in zip(self.samples, results, self.results):
            what = differences(found, wanted)
            if what and name in FREES_ROUNDING:
                what = differences(found, wanted, spread(program, sample, found))
            if what:
                raise PassFault(name, what, before, self.text)
        self.results = results


def _slots(program: LoopProgram) -> list[list[Any]]:
    """The temps that have memory together in a program without steps of the host."""
    if any(isinstance(s, ir.HostStep) for s in ir.walk_steps(program.steps)):
        return []
    stack = set(workspace.on_stack(program.steps))
    return workspace.plan(program.steps, lambda b: b not in stack, 1).groups()


def differences(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], spread: Any = None
) -> str:
    """How results differ, "" where they do not: in bits, or by more than ``spread``."""
    for k, (a, b) in enumerate(zip(map(flat, found), map(flat, wanted))):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {k} is {a.size} of {a.dtype}, not {b.size} of {b.dtype}"
        x, y = (v.astype(float) if dt.is_float(v.dtype) else v for v in (a, b))
        with np.errstate(all="ignore"):
            if dt.is_float(a.dtype):
                same = ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
            else:
                same = x == y
            if spread is not None:
                same = same | (x == y) | (np.abs(x - y) <= spread[k])
        if not np.all(same):
            at = int(np.argmin(same))
            return f"output {k} at {at} is {a[at]}, not {b[at]}"
    return ""


def flat(x: np.ndarray) -> np.ndarray:
    """The elements of a result in order, complex numbers as two: an output in the memory of a
    donated input has the dims of that."""
    return x.reshape(-1).view(dt.real_dtype(x.dtype))


def spread(
    program: LoopProgram, sample: list[np.ndarray], found: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What rounding may do to each result: many times what it does where inputs are a bit off."""
    rng = np.random.default_rng(0)
    plain = [flat(v) for v in found]
    size = [np.zeros(v.shape) for v in plain]
    for _ in range(2):
        moved = [_nudged(x, rng) for x in sample]
        for k, (a, b) in enumerate(zip(map(flat, evaluate(program, moved)), plain)):
            eps = _EPS.get(b.dtype.str[1:], 1e-2)
            with np.errstate(all="ignore"):
                change, scale = (np.abs(v) for v in (a.astype(float) - b.astype(float), b))
            change, scale = (np.where(np.isfinite(v), v, 0) for v in (change, scale))
            size[k] = np.maximum(size[k], 30 * change + 30 * eps * np.max(scale, initial=0))
    return size


def _nudged(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    real = dt.real_dtype(x.dtype)
    if not dt.is_float(real):
        return x
    with np.errstate(all="ignore"):
        return (x * (1 + 4 * _EPS.get(real.str[1:], 1e-2) * rng.uniform(-1, 1, x.shape))).astype(
            x.dtype
        )
