"""What is under way between this process and others: steps that were begun and not waited for.

They end in the order in which they began. Whatever happens to who began one, it stands here with
the arrays that others still write, and is ended before the next step that must not overtake it.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from typing import Any

from phix.core.context import context


class Flight:
    """One step under way. ``has_more``: when what was begun is done, others have to join again."""

    has_more = False

    def finish(self) -> None:
        """Wait until it is done; once it is, nothing is left to do."""
        raise NotImplementedError


def _begun() -> deque[Flight]:
    """Those of this thread: who began a step ends it."""
    if context.flights is None:
        context.flights = deque()
    found: deque[Flight] = context.flights
    return found


def begin(flight: Flight) -> None:
    """Keep a step from before it begins until it is done."""
    _begun().append(flight)


def finish(flight: Flight) -> None:
    """Wait for a step, and for those that began before it."""
    while flight in _begun():
        _finish_first()


def finish_all() -> None:
    """Wait for all of them: before an error leaves what began them, for one."""
    while _begun():
        _finish_first()


def let_go_on() -> None:
    """Finish what has more to do among the ranks, before this one waits for others: they may be
    waiting for that."""
    while any(flight.has_more for flight in _begun()):
        _finish_first()


def _finish_first() -> None:
    with Undisturbed():
        first = _begun()[0]
        try:
            first.finish()
        finally:  # an error of its own is told once
            _begun().popleft()


class Undisturbed:
    """A block through which Ctrl-C waits: half of a step is no state to leave ranks in."""

    def __enter__(self) -> None:
        self.before: Any = None
        self.noted: list[tuple[Any, ...]] = []
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self.before = before
                signal.signal(signal.SIGINT, lambda *args: self.noted.append(args))

    def __exit__(self, *error: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
            if self.noted:
                self.before(*self.noted[0])


__all__ = ["Flight", "Undisturbed", "begin", "finish", "finish_all", "let_go_on"]
