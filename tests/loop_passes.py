"""Each pass over the loops of a program, proved on small inputs: the evaluator of the loop IR runs
the program before and after it, and the pass that changed a result is named.

A pass keeps every bit, but for those in ``FREES_ROUNDING``: what these change must be no more
than what a change of the inputs in their last bits makes of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

import phix
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import passes
from phix.core.graph import Graph
from phix.kernels.cpu import source, stepwise, streaming
from phix.kernels.gpu import program as gpu_program
from phix.kernels.gpu import schedule as gpu_schedule
from phix.kernels.primitive import inplace, loop_text, ordering, pipeline, sharing, workspace
from phix.kernels.primitive.builder import Builder
from phix.kernels.primitive.evaluator import EvaluationError, evaluate
from phix.kernels.primitive.loop_ir import LoopProgram
from phix.kernels.primitive.lowering import lower

FREES_ROUNDING = ("share_loops", "fill_the_card", "split_library_calls")
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

    def __call__(self, name: str, program: LoopProgram) -> None:
        before, self.text = self.text, loop_text.program_text(program)
        if before == self.text and name != "slots":
            return
        self.changed.append(name)
        try:
            slots = _slots(program) if name == "slots" else ()
            results = [evaluate(program, sample, slots) for sample in self.samples]
        except EvaluationError as error:
            raise PassFault(name, str(error), before, self.text) from error
        for sample, found, wanted in zip(self.samples, results, self.results):
            what = differences(found, wanted)
            if what and name in FREES_ROUNDING:
                what = differences(found, wanted, _spread(program, sample, found))
            if what:
                raise PassFault(name, what, before, self.text)
        self.results = results


def _slots(program: LoopProgram) -> list[list[Any]]:
    """The temps that have memory together in a program that one native call runs."""
    if not all(map(stepwise.is_native, program.steps)):
        return []
    stack = set(workspace.on_stack(program.steps))
    return workspace.plan_slots(program.steps, lambda b: b not in stack)


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


def _spread(
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


# -- programs ------------------------------------------------------------------------------------
def graph_of(function: Callable[..., Any], *args: Any, **options: Any) -> Graph:
    """The primitives of a function, as the CPU's engine gets them; ``args``: arrays or specs."""
    return phix.jit(function, **options).lower(*args).graph


def odd_values(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with NaN, infinities and zeros of both signs here and there."""
    real = dt.real_dtype(x.dtype)
    if not dt.is_float(real) or not x.size:
        return x
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0]).astype(x.dtype)
    return np.where(rng.random(x.shape) < 0.08, special[rng.integers(5, size=x.shape)], x)


@contextmanager
def small_thresholds() -> Iterator[None]:
    """Passes that only large programs are worth are made on small ones."""
    with ExitStack() as stack:
        for owner, name, value in (
            (sharing, "LEAST_WORK", 1), (sharing, "_GRAIN", 2), (sharing, "_GRAIN_INSIDE", 2),
            (streaming, "least_bytes", lambda: 0), (streaming, "_MOST_WORK", 1 << 30),
            (inplace, "TINY_BYTES", 8), (ordering, "LEAST_FREED", 1),
            (gpu_schedule, "_SMALL", 4), (gpu_schedule, "_SPLIT_FROM", 8),
            (gpu_schedule, "_PART", 2), (gpu_schedule, "_COLUMN_PART", 2),
            (gpu_schedule, "_MOST_PARTS", 8),
        ):  # fmt: skip
            stack.enter_context(patch.object(owner, name, value))
        yield


def prove(
    graph: Graph,
    args: Sequence[Any],
    *,
    contiguous: bool = True,
    donated: Sequence[int] = (),
    disable: Sequence[str] = (),
    seed: int = 0,
    gpu: bool = False,
    odd: bool = True,
) -> Prover:
    """Run every pass of an engine over the loops of a graph, each proved.

    ``args`` are arrays for the graph's inputs; a second run puts odd values into them.

    Raises:
        PassFault: a pass is wrong.
    """
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(a) for a in args]
    samples = [arrays, [odd_values(a, rng) for a in arrays]] if odd else [arrays]
    prover = Prover(samples)
    flags = (contiguous,) * len(graph.inputs)
    with pipeline.watching(prover), passes.without(frozenset(disable)):
        if gpu:
            program = lower(graph, flags, gpu_schedule.GpuBuilder, donated=donated)
            gpu_schedule.arrange(program)
            gpu_program._split_library_calls(program.steps)
            pipeline.tell("split_library_calls", program)
            return prover
        program = lower(graph, flags, Builder, donated=donated)
        source.prepare(program, Builder(tuple(program.symbols.values())))
        pipeline.tell("slots", program)
    return prover


def prove_function(function: Callable[..., Any], *args: Any, **options: Any) -> Prover:
    """:func:`prove` of a function of flat arrays; ``specs`` may name unknown dims."""
    specs = options.pop("specs", args)
    graph = graph_of(function, *specs)
    assert len(graph.inputs) == len(args), "a function of flat arrays"
    return prove(graph, args, **options)


__all__ = ["PassFault", "Prover", "dm", "graph_of", "prove", "prove_function", "small_thresholds"]
