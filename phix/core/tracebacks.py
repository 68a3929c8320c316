"""Tracebacks as users see them: their own frames, and one line that says how to see all.

An error inside ``jit(grad(vmap(f)))`` goes through dozens of frames of phix on its way to the
user's call. The outermost function of phix that it leaves takes them out of its traceback, and
keeps the whole one with the error: :func:`full_traceback` gives it, for a debugger say. The
environment variable ``PHIX_TRACEBACK``, read when an error passes, leaves them in.

Nothing runs but where an error passes. Python 3.10 hands tracebacks on that nobody can change on
their way, so all frames are shown there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

import optree

from phix.core.errors import ArgumentError, described
from phix.core.hints import with_argument_hint
from phix.core.rules import OPS

Function = TypeVar("Function", bound=Callable[..., Any])

NOTE = "phix: frames of phix are left out; PHIX_TRACEBACK=full shows them"

_PHIX = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# What phix calls functions through: left out with it, and shown where the user's code calls it.
_BETWEEN = (
    *(str(module.__file__) for module in (contextlib, functools, threading)),
    os.path.dirname(os.path.abspath(str(optree.__file__))) + os.sep,
)
_SLOT = "_phix_frames"


class _Kept:
    """The whole traceback below ``head``, the first entry that was left; in no pickle."""

    def __init__(
        self, head: TracebackType | None = None, whole: TracebackType | None = None
    ) -> None:
        self.head, self.whole = head, whole

    def __reduce__(self) -> Any:
        return (_Kept, ())


def shorten(error: BaseException | None, trace: TracebackType | None) -> None:
    """Leave the frames of phix out of an error's traceback, if it leaves phix here.

    Args:
        error: on its way out of the function that calls this, which then lets it go on.
        trace: the error's traceback, which begins with that function.
    """
    if not isinstance(error, Exception) or trace is None or _is_inside(trace.tb_frame.f_back):
        return
    if type(error) is TypeError:
        with_argument_hint(error, _arguments_of_op)
    if os.environ.get("PHIX_TRACEBACK") == "full":
        return
    hidden = sum([_shorten_one(each) for each in _chain(error)])
    if hidden and hasattr(error, "add_note") and NOTE not in getattr(error, "__notes__", ()):
        error.add_note(NOTE)


def _arguments_of_op(name: str) -> list[str]:
    op = OPS.get(name)
    return [] if op is None else [a.name for a in op.args]


def leaving_phix(function: Function) -> Function:
    """A decorator for what users call and call seldom: its errors show the user's frames.

    What is called often does the same in a ``try`` of its own.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error, error.__traceback__)
            raise

    return called  # type: ignore[return-value]


def full_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error with all frames, those inside phix too.

    Args:
        error: an exception that was caught, or ``sys.last_value`` where nobody caught it.

    Raises:
        ArgumentError: it is no exception.

    >>> import phix
    >>> import traceback
    >>> try:
    ...     phix.jit(lambda x: x.reshape([7]))(phix.zeros([3]))
    ... except phix.errors.ShapeError as error:
    ...     whole = traceback.extract_tb(phix.debug.full_traceback(error))
    >>> "trace" in [frame.name for frame in whole]
    True

    ``pdb.post_mortem(phix.debug.full_traceback(error))`` looks around in them.
    """
    if not isinstance(error, BaseException):
        raise ArgumentError(f"full_traceback takes an exception, found {described(error)}")
    kept = getattr(error, _SLOT, None)
    if kept is None or kept.whole is None:
        return error.__traceback__
    above = []  # what the error has passed since
    for trace in _entries(error.__traceback__):
        if trace is kept.head:
            break
        above.append(trace)
    found: TracebackType | None = kept.whole
    for trace in reversed(above):
        found = TracebackType(found, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return found


def _is_inside(frame: FrameType | None) -> bool:
    """Whether a function of phix is among those that called this far."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PHIX):
            return True
        frame = frame.f_back
    return False


def _chain(error: BaseException) -> list[BaseException]:
    """The error, and those that it came from or that were handled meanwhile, each once."""
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in found:
            found[id(each)] = each
            waiting += [each.__cause__, each.__context__]
    return list(found.values())


def _shorten_one(error: BaseException) -> int:
    """Leave phix's frames out of one traceback; how many they were."""
    entries = list(_entries(error.__traceback__))
    own = []
    is_phix = False
    for trace in entries:
        path = trace.tb_frame.f_code.co_filename
        is_phix = path.startswith(_PHIX) or (is_phix and path.startswith(_BETWEEN))
        if not is_phix:
            own.append(trace)
    hidden = len(entries) - len(own)
    if hidden:
        whole = full_traceback(error)
        head: TracebackType | None = None
        for trace in reversed(own):
            head = TracebackType(head, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
        try:
            setattr(error, _SLOT, _Kept(head, whole))
        except Exception:  # a class that takes no attributes: it keeps all frames
            return 0
        error.__traceback__ = head
    return hidden


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
