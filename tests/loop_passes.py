"""Programs for :mod:`phix.kernels.schedule.prover`: each pass of an engine over real loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import phix
from phix.core import dtypes as dt
from phix.core import rewrites, stages
from phix.core.graph import Graph
from phix.kernels.gpu import schedule as gpu_schedule
from phix.kernels.loops import text as loop_text
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.evaluator import evaluate_each
from phix.kernels.loops.nodes import LoopProgram
from phix.kernels.schedule.pipeline import lowered, run
from phix.kernels.schedule.prover import SLOTS, PassFault, Prover, differences, spread

# The rewrites that make a product another sum.
PRODUCTS = ("small_products", "dot_products", "joined_columns", "thin_products", "winograd")


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
            (gpu_schedule, "_SMALL", 4), (gpu_schedule, "_SPLIT_FROM", 8),
            (gpu_schedule, "_PART", 2), (gpu_schedule, "_COLUMN_PART", 2),
            (gpu_schedule, "_MOST_PARTS", 8),
        ):  # fmt: skip
            stack.enter_context(patch.object(owner, name, value))
        few = phix.debug.settings(
            least_shared_work=1, shared_run=2, shared_run_inside=2, least_streamed_bytes=0,
            most_streamed_work=1 << 30, tiny_bytes=8, least_freed_bytes=1, block_terms=4,
            block_rows=2, least_asked_bytes=0, asked_bytes=8,
        )  # fmt: skip
        stack.enter_context(few)
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
    builder = gpu_schedule.GpuBuilder if gpu else Builder
    with stages.watching(prover), rewrites.without(frozenset(disable)):
        program, setting = lowered(graph, flags, builder, donated=donated)
        run("gpu" if gpu else "cpu", program, setting)
        if not gpu:
            stages.tell(stages.Stage(stages.LOOPS, SLOTS, program, 0.0))
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
            return lowered(graph, flags)[0]

    whole = made()
    wanted, text = evaluate_each(whole, samples), loop_text.program_text(whole)
    for rewrite in rewrites.known().values():
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
