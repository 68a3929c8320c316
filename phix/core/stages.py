"""The stages of a compilation, told to who watches in this thread.

A graph goes through passes (``phix.passes.pipeline``), becomes loops, which go through passes
(``phix.kernels.schedule.pipeline``), and then code. Tests, ``phix.debug`` and PHIX_VERIFY see what
comes out of each; a watcher that raises ends the compilation, and its error names the stage.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from phix.core.context import Context, context

GRAPH, LOOPS, CODE = "graph", "loops", "code"
Made = TypeVar("Made")


class Stage(NamedTuple):
    """One stage that is done."""

    level: str  # GRAPH, LOOPS or CODE: what the value is
    name: str
    value: Any  # a Graph, a LoopProgram (as it is now: it will change) or a text
    seconds: float  # that it took


Watcher = Callable[[Stage], None]


def made(level: str, name: str, make: Callable[[], Made]) -> Made:
    """What ``make()`` gives: a stage, which the watchers see."""
    if not context.watchers:
        return make()
    start = time.perf_counter()
    value = make()
    tell(Stage(level, name, value, time.perf_counter() - start))
    return value


def tell(stage: Stage) -> None:
    """Show a stage to the watchers."""
    for watcher in context.watchers:
        watcher(stage)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Inside a with block, in this thread, ``watcher`` sees every stage; it must not change it."""
    before = context.watchers
    context.watchers = (*before, watcher)
    try:
        yield
    finally:
        context.watchers = before


@contextmanager
def unwatched() -> Iterator[None]:
    """Inside a with block, in this thread, nobody sees what is made: it is a try."""
    before = context.watchers
    context.watchers = ()
    try:
        yield
    finally:
        context.watchers = before


def is_verifying() -> bool:
    """Whether ``PHIX_VERIFY`` asks for all programs of the process to be verified."""
    return os.environ.get("PHIX_VERIFY", "0") not in ("", "0")


def verify_all(level: str, check: Callable[[str, Any], None]) -> None:
    """Under ``PHIX_VERIFY``, ``check(name, value)`` every stage of a level, in all threads."""

    def watcher(stage: Stage) -> None:
        if stage.level == level:
            check(stage.name, stage.value)

    if is_verifying():
        Context.watchers = (*Context.watchers, watcher)
