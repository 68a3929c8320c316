"""Depth without a deep stack: what is nested a thousand times is gone through all the same.

Python counts the calls under way of each thread by itself, and refuses the thousandth. A chain of
equations needs no calls inside calls. Graphs inside graphs do, as rules written in Python trace and
transform what is inside: functions that go one level down are marked with :func:`nests`, and after
some levels such a function goes on in a thread of its own, with nothing on its stack, while its
caller waits. For whoever is called it is the same thread, with the same context and ``Lock``s.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from phix.core.context import context

# So many marked functions inside each other share a stack.
_LEVELS = 12

Found = TypeVar("Found")
Function = TypeVar("Function", bound=Callable[..., Any])

# What fields of the context are to be on a further stack, where they are not what they were.
ON_LEAVING: list[Callable[[], dict[str, Any]]] = []


def nests(function: Function) -> Function:
    """Mark a function that goes into something nested, by calling itself in the end."""

    @functools.wraps(function)
    def nested(*args: Any, **kwargs: Any) -> Any:
        level = context.level = context.level + 1
        try:
            if level % _LEVELS:
                return function(*args, **kwargs)
            return _on_a_stack_of_its_own(lambda: function(*args, **kwargs))
        finally:
            context.level = level - 1

    return nested  # type: ignore[return-value]


def _on_a_stack_of_its_own(function: Callable[[], Any]) -> Any:
    context.owner = context.owner or object()
    fields = dict(vars(context))
    for changes in ON_LEAVING:
        fields.update(changes())
    variables = contextvars.copy_context()
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        vars(context).update(fields)
        try:
            results.append(variables.run(function))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="phix: deeper")
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return results.pop()


class lazy(Generic[Found]):
    """A property that is computed once. ``functools.cached_property`` of Python 3.10 and 3.11 would
    hold a lock meanwhile, for which further stacks wait."""

    def __init__(self, function: Callable[[Any], Found]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Found:
        if instance is None:
            return self  # type: ignore[return-value]
        found = vars(instance)[self.__name__] = self.function(instance)
        return found


class Lock:
    """A lock that its holder may take again, on further stacks as well.

    A forked process has the thread that forked, and no other: there a lock that another held is
    free.
    """

    def __init__(self) -> None:
        self._renew()
        _locks.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._holder: object = None
        self._count = 0

    @property
    def is_own(self) -> bool:
        """Whether it is held here."""
        return self._holder is not None and self._holder is context.owner

    def __enter__(self) -> None:
        own = context.owner
        if own is None:
            own = context.owner = object()
        if self._holder is not own:
            self._lock.acquire()
            self._holder = own
        self._count += 1

    def __exit__(self, *exception: object) -> None:
        self._count -= 1
        if not self._count:
            self._holder = None
            self._lock.release()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        if not lock.is_own:
            lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
