"""Programs for :mod:`phix.kernels.schedule.prover`: each pass of an engine over real loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import phix
from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.graph import Graph
from phix.kernels.cpu import source, streaming
from phix.kernels.gpu import program as gpu_program
from phix.kernels.gpu import schedule as gpu_schedule
from phix.kernels.loops import text as loop_text
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.evaluator import evaluate_each
from phix.kernels.loops.nodes import LoopProgram
from phix.kernels.lowering.lower import lower
from phix.kernels.schedule import blocked_sums, inplace, ordering, pipeline, sharing
from phix.kernels.schedule.prover import SLOTS, PassFault, Prover, differences, spread

# The rewrites that make a product another sum.
PRODUCTS = ("small_products", "dot_products", "winograd")


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
            (blocked_sums, "TERMS", 4), (blocked_sums, "ROWS", 2),
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
    with pipeline.watching(prover), rewrites.without(frozenset(disable)):
        if gpu:
            program = lower(graph, flags, gpu_schedule.GpuBuilder, donated=donated)
            gpu_schedule.arrange(program)
            gpu_program._split_library_calls(program.steps)
            pipeline.tell("split_library_calls", program)
            return prover
        program = lower(graph, flags, Builder, donated=donated)
        source.prepare(program, Builder(tuple(program.symbols.values())))
        pipeline.tell(SLOTS, program)
    return prover


def prove_fusion(graph: Graph, args: Sequence[Any], *, seed: int = 0) -> None:
    """How equations become loops without each rewrite of the stage "fusion", beside all of them.

    Bits are the same, but for the rewrites of products, which add up in another order.

    Raises:
        PassFault: a rewrite changes a result.
    """
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(a) for a in args]
    samples = [arrays, [odd_values(a, rng) for a in arrays]]
    flags = (True,) * len(graph.inputs)

    def made(*off: str) -> LoopProgram:
        with rewrites.without(frozenset(off)):
            return lower(graph, flags, Builder)

    whole = made()
    wanted, text = evaluate_each(whole, samples), loop_text.program_text(whole)
    for rewrite in rewrites.REWRITES.values():
        if rewrite.stage != "fusion":
            continue
        apart = made(rewrite.name)
        found = evaluate_each(apart, samples)
        for sample, mine, theirs in zip(samples, wanted, found):
            what = differences(mine, theirs)
            if what and rewrite.name in PRODUCTS:  # what NaN and infinities make there is open
                is_odd = sample is not samples[0]
                what = "" if is_odd else differences(mine, theirs, spread(whole, sample, mine))
            if what:
                raise PassFault(rewrite.name, what, loop_text.program_text(apart), text)


def prove_function(function: Callable[..., Any], *args: Any, **options: Any) -> Prover:
    """:func:`prove` of a function of flat arrays; ``specs`` may name unknown dims."""
    specs = options.pop("specs", args)
    graph = graph_of(function, *specs)
    assert len(graph.inputs) == len(args), "a function of flat arrays"
    return prove(graph, args, **options)
