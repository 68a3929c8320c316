"""From a graph to the loops that are printed: the only lists of passes over loops.

A row names a pass and the module with the function of that name, ``pass(program, setting)``, which
changes the program and keeps what it computes. Rows run from top to bottom. The name is that of
the row in ``core.rewrites`` that switches the pass off, where there is one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial

from phix.core import dims as dm
from phix.core import rewrites, stages
from phix.core.graph import Graph
from phix.core.records import dataclass
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Kernel, LoopProgram
from phix.kernels.lowering.lower import lower

# Hears of each try to join two kernels that share a buffer: the earlier one, the later one, and
# why they stay two ("" where they became one).
Listener = Callable[[Kernel, Kernel, str], None]
# What stands before all passes.
LOWER = "lower"


@dataclass(frozen=True)
class Setting:
    """What a pass may ask for besides the program."""

    builder: Builder
    donated: Sequence[int] = ()  # numbers of the inputs whose memory outputs may have
    tried: Listener | None = None


@dataclass(frozen=True)
class LoopPass:
    """One row: a name, and the module under ``phix.kernels`` with the function of that name."""

    name: str
    module: str
    always: bool = False  # whether it runs, and asks itself, where its rewrite is left out

    def __call__(self, program: LoopProgram, setting: Setting) -> LoopProgram:
        """The program, changed."""
        change = getattr(importlib.import_module(f"phix.kernels.{self.module}"), self.name)
        change(program, setting)
        return program


PIPELINES: dict[str, tuple[LoopPass, ...]] = {
    # Outputs are given the memory of inputs while what reads is apart from what replaces.
    "every engine": (
        LoopPass("merge_copies", "schedule.inplace"),
        LoopPass("carry_in_place", "schedule.inplace", always=True),  # else carries are swapped
        LoopPass("donate", "schedule.inplace"),
        LoopPass("join_loops", "schedule.joining"),
        LoopPass("forward_temps", "schedule.dropping"),
        LoopPass("drop_dead_stores", "schedule.dropping"),
        LoopPass("drop_temps", "schedule.dropping"),
    ),
    # Memory that stays in the cache, and threads.
    "cpu": (
        LoopPass("use_outputs", "schedule.inplace"),
        LoopPass("free_early", "schedule.ordering"),
        LoopPass("overlap_collectives", "schedule.ordering"),
        LoopPass("collapse_loops", "schedule.collapse"),
        LoopPass("peel_wraps", "schedule.wrapping"),
        LoopPass("shrink_temps", "schedule.shrinking"),
        LoopPass("reuse_temps", "cpu.native_program"),
        LoopPass("equal_reductions", "schedule.equal_reductions"),
        LoopPass("block_sums", "schedule.blocked_sums"),
        LoopPass("running_sums", "schedule.running_sums"),
        LoopPass("share_loops", "schedule.sharing"),
        LoopPass("several_rows", "schedule.several_rows"),
        LoopPass("stream_results", "cpu.streaming"),
        LoopPass("joined_rows", "cpu.joined_rows"),
        LoopPass("distributed_rows", "cpu.distributed_rows"),
        LoopPass("overlapping_vectors", "cpu.row_vectors"),
        LoopPass("rows_together", "cpu.rows_together"),
        LoopPass("rows_ahead", "cpu.rows_ahead"),
        LoopPass("stretches_ahead", "cpu.stretches_ahead"),
        LoopPass("kernels_beside", "schedule.beside"),
    ),
    # One thread, and memory of Python's: what is printed for people to read.
    "numba": (
        LoopPass("use_outputs", "schedule.inplace"),
        LoopPass("collapse_loops", "schedule.collapse"),
        LoopPass("shrink_temps", "schedule.shrinking"),
        LoopPass("block_sums", "schedule.blocked_sums"),
    ),
    # Thousands of threads.
    "gpu": (
        LoopPass("share_statistics", "gpu.shared_statistics"),
        LoopPass("fill_the_card", "gpu.schedule"),
        LoopPass("shrink_temps", "gpu.rows"),
        LoopPass("drop_private_rows", "gpu.schedule"),
        LoopPass("drop_temps", "schedule.dropping"),
        LoopPass("split_library_calls", "gpu.calls"),
        LoopPass("sort_by_digits", "gpu.radix"),
    ),
}


def lowered(
    graph: Graph,
    contiguous: tuple[bool, ...],
    make_builder: Callable[[tuple[dm.Symbol, ...]], Builder] = Builder,
    tried: Listener | None = None,
    donated: Sequence[int] = (),
) -> tuple[LoopProgram, Setting]:
    """The loop program of ``graph`` after the passes of every engine, and what later ones ask for.

    ``contiguous[i]``: input ``i`` is C-contiguous. Outputs may live where the ``donated`` inputs
    do. A builder of another kind, and ``tried``, see how it comes about: ``kernels.report``.

    Raises:
        KernelNotFoundError: a primitive has neither a lowering nor a scalar body.
    """
    made: list[Builder] = []

    def builder(symbols: tuple[dm.Symbol, ...]) -> Builder:
        made.append(make_builder(symbols))
        return made[0]

    program = stages.made(stages.LOOPS, LOWER, lambda: lower(graph, contiguous, builder))
    setting = Setting(made[0], donated, tried)
    run("every engine", program, setting)
    return program, setting


def run(target: str, program: LoopProgram, setting: Setting) -> None:
    """Make the changes of a list that are not switched off, in order."""
    for row in PIPELINES[target]:
        if row.always or rewrites.is_on(row.name):
            stages.made(stages.LOOPS, row.name, partial(row, program, setting))


def _verify(name: str, program: LoopProgram) -> None:
    from phix.kernels.loops.verifier import verify  # for those who ask alone

    verify(name, program)


stages.verify_all(stages.LOOPS, _verify)
