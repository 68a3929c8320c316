"""Python's collector of cycles, kept away from what makes many objects and drops few.

The collector looks at all objects again when enough new ones are there. Tracing and compiling make
them by the ten thousand, and keep them: every look is in vain, and takes longer than what it
interrupts.
"""

from __future__ import annotations

import gc
import threading


class _Pauses:
    """The blocks under way, of all threads: the first stops the collector, the last starts it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.was_on = False


_pauses = _Pauses()


class paused:
    """No collection inside a with block; blocks may be nested, and in several threads at once."""

    __slots__ = ()

    def __enter__(self) -> None:
        with _pauses.lock:
            if not _pauses.count:
                _pauses.was_on = gc.isenabled()
                gc.disable()
            _pauses.count += 1

    def __exit__(self, *exception: object) -> None:
        with _pauses.lock:
            _pauses.count -= 1
            if not _pauses.count and _pauses.was_on:
                gc.enable()
