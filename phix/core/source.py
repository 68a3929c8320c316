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
from typing import Any

import numpy as np

from phix.core import stack
from phix.core.graph import Source

_PASSED_OVER = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(np.__file__)) + os.sep,
)

# What runs the derivative of an op: see ``derivation``.
Watch = Callable[[Callable[[], Any], bool], Any]


class _State(threading.local):
    here: Source | None = None
    recording: int = 0
    leaks: int = 0
    watch: Watch | None = None
    below: Source | None = None  # where the stack that this one goes on from was


_state = _State()


def user_source() -> Source | None:
    """Where in the user's code the call under way was made."""
    if _state.here is not None:
        return _state.here
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PASSED_OVER):
            if code.co_filename == threading.__file__ and _state.below is not None:
                return _state.below
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


stack.carried(_state, lambda values: {**values, "below": user_source()})


def at_user_line() -> str:
    """`` (at file:line)`` for messages; empty where no frame is the user's."""
    source = user_source()
    return f" (at {source})" if source else ""


def is_recording() -> bool:
    """Whether interpreters keep sources with what they keep."""
    return _state.recording > 0


def is_recording_tracers() -> bool:
    """Whether the line is kept that each tracer was made at."""
    return _state.leaks > 0


@contextmanager
def recording_tracers() -> Iterator[None]:
    """Keep, inside a with block, the line that each tracer was made at."""
    _state.leaks += 1
    try:
        yield
    finally:
        _state.leaks -= 1


@contextmanager
def recording(watch: Watch | None = None) -> Iterator[None]:
    """Record sources inside a with block, and run derivatives through ``watch``."""
    before = _state.watch
    _state.recording += 1
    _state.watch = watch or before
    try:
        yield
    finally:
        _state.recording -= 1
        _state.watch = before


class at:
    """What runs inside a with block comes from ``source``."""

    __slots__ = ("before", "source")

    def __init__(self, source: Source | None) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.before = _state.here
        _state.here = self.source

    def __exit__(self, *exception: object) -> None:
        _state.here = self.before


def derivation(source: Source | None, run: Callable[[], Any], early: bool = False) -> Any:
    """``run()``, the derivative of an op, from ``source``.

    ``early``: it runs the op itself, and keeps what its derivative will take.
    """
    with at(source):
        return run() if _state.watch is None else _state.watch(run, early)


@contextmanager
def replay() -> Iterator[Callable[[Source | None], None]]:
    """Gives the function that says, before each equation that runs again, where it comes from."""
    before = _state.here

    def mark(source: Source | None) -> None:
        _state.here = source or before

    try:
        yield mark if is_recording() else _ignore
    finally:
        _state.here = before


def _ignore(source: Source | None) -> None:
    pass
