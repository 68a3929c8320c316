"""The passes over a loop program: what a row of a table of passes is, and who may watch them run.

The tables read top to bottom: ``schedule.PASSES`` for every engine, then ``cpu.source.PASSES`` or
``gpu.schedule.PASSES``. Tests, ``phix.debug`` and PHIX_VERIFY see the program after each row by
:func:`watching`; a watcher that raises ends the compilation, and its error names the pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from phix.core import rewrites
from phix.core.context import Context, context
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Kernel, LoopProgram

# Hears of each try to join two kernels that share a buffer: the earlier one, the later one, and
# why they stay two ("" where they became one).
Listener = Callable[[Kernel, Kernel, str], None]
# Hears the name of what was done, and sees the program as it is then. It must not change it.
Watcher = Callable[[str, LoopProgram], None]
# What a watcher hears first, before all rewrites.
LOWERED = "lower"


@dataclass(frozen=True)
class Setting:
    """What a pass may ask for besides the program."""

    builder: Builder
    donated: Sequence[int] = ()  # numbers of the inputs whose memory outputs may have
    tried: Listener | None = None


@dataclass(frozen=True)
class LoopPass:
    """One row: ``change(program, setting)`` keeps what a program computes.

    ``rewrite`` is the row of ``core.passes`` that switches it off, None where it always runs.
    """

    name: str
    change: Callable[[LoopProgram, Setting], Any]
    rewrite: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether the pass is to be made."""
        return self.rewrite is None or rewrites.is_on(self.rewrite)


def switchable(name: str, change: Callable[[LoopProgram, Setting], Any]) -> LoopPass:
    """The pass of the rewrite of that name."""
    return LoopPass(name, change, name)


def is_verifying() -> bool:
    """Whether ``PHIX_VERIFY`` asks for all programs of the process to be verified."""
    return os.environ.get("PHIX_VERIFY", "0") not in ("", "0")


def _standing() -> tuple[Watcher, ...]:
    """Who watches all programs of the process."""
    if not is_verifying():
        return ()
    from phix.kernels.loops.verifier import verify

    return (verify,)


# Those who watch all programs of the process stand in the context that threads start from.
Context.watchers = _standing()


def run(table: Iterable[LoopPass], program: LoopProgram, setting: Setting) -> None:
    """Make the changes of a table that are not switched off, in order."""
    for row in table:
        if row.is_on:
            row.change(program, setting)
            tell(row.name, program)


def tell(name: str, program: LoopProgram) -> None:
    """Show a program to the watchers; ``name`` is what was just done to it."""
    for watcher in context.watchers:
        watcher(name, program)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Inside a with block, in this thread, ``watcher`` sees each program after each pass."""
    before = context.watchers
    context.watchers = (*before, watcher)
    try:
        yield
    finally:
        context.watchers = before
