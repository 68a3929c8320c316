"""The user's line: the innermost frame outside phix and NumPy, or what the op run derives from.

While sources are recorded (where graphs are made, and inside ``phix.debug``), derivatives and
replayed graphs run under the source of the op they come from.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from phix.core import stack
from phix.core.context import context

_PASSED_OVER = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(np.__file__)) + os.sep,
)

# What runs the derivative of an op: see ``derivation``.
Watch = Callable[[Callable[[], Any], bool], Any]


class Source(NamedTuple):
    """Where in the user's code an equation was made.

    ``passes`` are the derivatives on the way from there, as in ("backward", "tangent") for the
    tangent of a cotangent; ``op`` is then the op of the user's that they are derivatives of.
    ``within`` is the op that was called there, of an equation that this one has been taken apart
    into.
    """

    file: str
    line: int
    function: str = ""
    passes: tuple[str, ...] = ()
    op: str = ""
    within: str = ""

    def derived(self, step: str, op: str) -> Source:
        """The source of what a derivative makes of ``op``, made here."""
        return self._replace(passes=(*self.passes, step), op=self.op or op)

    def underived(self) -> Source:
        """The source that this one was derived from."""
        left = self.passes[:-1]
        return self._replace(passes=left, op=self.op if left else "")

    def part_of(self, op: str) -> Source:
        """The source of a part of what ``op`` does, which was called here."""
        return self if self.within else self._replace(within=op)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def user_source() -> Source | None:
    """Where in the user's code the call under way was made."""
    if context.source is not None:
        return context.source
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PASSED_OVER):
            if code.co_filename == threading.__file__ and context.source_below is not None:
                return context.source_below
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


stack.ON_LEAVING.append(lambda: {"source_below": user_source()})


def at_source(error: Exception, source: Source | None) -> Exception:
    """The error with the op that was called and its line, not what runs in its place."""
    head, at, tail = str(error).partition(" (at ")
    if not at or source is None:
        return error
    if source.within and not head.startswith((f"{source.within}(", f"{source.within}: ")):
        head = f"{source.within}: {head}"
    found = type(error)(f"{head} (at {source}){tail.partition(')')[2]}")
    vars(found).update(vars(error))
    return found


def at_user_line() -> str:
    """`` (at file:line)`` for messages; empty where no frame is the user's."""
    source = user_source()
    return f" (at {source})" if source else ""


def is_recording() -> bool:
    """Whether interpreters keep sources with what they keep."""
    return context.recording > 0


def is_recording_tracers() -> bool:
    """Whether the line is kept that each tracer was made at."""
    return context.recording_tracers > 0


@contextmanager
def recording_tracers() -> Iterator[None]:
    """Keep, inside a with block, the line that each tracer was made at."""
    context.recording_tracers += 1
    try:
        yield
    finally:
        context.recording_tracers -= 1


@contextmanager
def recording(watch: Watch | None = None) -> Iterator[None]:
    """Record sources inside a with block, and run derivatives through ``watch``."""
    before = context.watch
    context.recording += 1
    context.watch = watch or before
    try:
        yield
    finally:
        context.recording -= 1
        context.watch = before


class at:
    """What runs inside a with block comes from ``source``."""

    __slots__ = ("before", "source")

    def __init__(self, source: Source | None) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.before = context.source
        context.source = self.source

    def __exit__(self, *exception: object) -> None:
        context.source = self.before


def derivation(source: Source | None, run: Callable[[], Any], early: bool = False) -> Any:
    """``run()``, the derivative of an op, from ``source``.

    ``early``: it runs the op itself, and keeps what its derivative will take.
    """
    with at(source):
        return run() if context.watch is None else context.watch(run, early)


@contextmanager
def replay() -> Iterator[Callable[[Source | None], None]]:
    """Gives the function that says, before each equation that runs again, where it comes from."""
    before = context.source

    def mark(source: Source | None) -> None:
        context.source = source or before

    try:
        yield mark if is_recording() else _ignore
    finally:
        context.source = before


def _ignore(source: Source | None) -> None:
    pass
