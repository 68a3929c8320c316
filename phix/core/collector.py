"""Python's collector of cycles, kept away from what makes many objects and drops few.

The collector looks at all objects again when enough new ones are there. Tracing and compiling make
them by the ten thousand, and keep them: every look is in vain, and takes longer than what it
interrupts.
"""

from __future__ import annotations

import gc
import os
import threading

from phix.core.context import context


class _Pauses:
    """The blocks under way, of all threads: the first stops the collector, the last starts it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False

    def add(self, number: int) -> None:
        self.count += number
        context.pauses += number

    def after_fork(self) -> None:
        """Forget the blocks of the threads that a forked process does not have."""
        self.lock = threading.Lock()
        under_way, self.count = self.count, context.pauses
        if under_way and not self.count and self.was_on:
            gc.enable()


_pauses = _Pauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.after_fork)


class paused:
    """No collection inside a with block; blocks may be nested, and in several threads at once."""

    __slots__ = ()

    def __enter__(self) -> None:
        with _pauses.lock:
            if not _pauses.count:
                _pauses.was_on = gc.isenabled()
                gc.disable()
            _pauses.add(1)

    def __exit__(self, *exception: object) -> None:
        with _pauses.lock:
            _pauses.add(-1)
            if not _pauses.count and _pauses.was_on:
                gc.enable()
