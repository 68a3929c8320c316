"""What each thread has for itself: the interpreter at work, and the settings of blocks around it.

Whoever owns a field reads and sets it by functions of its own; they stand together here, so that
a further stack of the same caller (``core.stack``) can have all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from phix.core.errors import ArgumentError

if TYPE_CHECKING:
    Interpreter = Any  # phix.core.interpreter.Interpreter, which stands above this module


class Context(threading.local):
    """The fields, each with what a new thread starts from."""

    # what gives ops a meaning here; the class's own is the base of every thread's chain
    interpreter: Interpreter
    mapped_axis: str | None = None  # the named axis that the batching rule at work maps over
    tracked: frozenset[str] = frozenset()  # the named axes of meshes in scope: see core.varying
    is_inside = False  # whether ops are called by rules or graphs that run again
    rewrites_left_out: frozenset[str] = frozenset()  # core.rewrites
    settings: Any = None  # core.settings; None are those shipped
    library: str | None = None  # core.libraries
    # how often devices or kernels have come or gone, which the class counts for all threads; -1 in
    # a block that changes the settings, rewrites, library or default: see ``deciding``
    registrations = 0
    # core.default_floats: of what is made without a dtype; the class's own is for all threads
    default_float = np.dtype("float32")
    place: Any = None  # core.places: where new data go; None is the host
    source: Any = None  # core.source: the line that what runs now derives from
    source_below: Any = None  # ... that the stack which this one goes on from was at
    recording = 0  # ... blocks around that record sources
    recording_tracers = 0
    watch: Any = None  # ... what runs derivatives while sources are recorded
    watchers: tuple[Callable[..., None], ...] = ()  # of passes over loops
    generators: Any = None  # core.kernel_context: those of places, and the seed they follow
    numpy_float: Any = None  # array_functions: of Python's floats where NumPy itself was called
    flights: Any = None  # core.in_flight: what this thread has begun and not waited for
    recorder: Any = None  # kernels.gpu: the device that records here, and streams beside its first
    traces = 0  # api.jitted: of jitted functions, inside each other
    pauses = 0  # core.collector: blocks around without collections
    level = 0  # core.stack: marked functions inside each other
    owner: object = None  # ... of locks: what all stacks of one caller have in common


context = Context()


# -- what decides programs -----------------------------------------------------------------------
def deciding() -> Any:
    """What decides programs here, besides their graphs: a part of every key of one.

    The settings, the rewrites left out, the library that is pinned, the default float, and how
    often devices or kernels have come or gone; that number alone where no block changes the others.
    """
    count = context.registrations
    if count >= 0:
        return count
    here = (
        context.settings, context.rewrites_left_out, context.library, context.default_float
    )  # fmt: skip
    return (*here, Context.registrations)


def note_block() -> None:
    """Say that a block which changes the settings, rewrites, library or default begins or ends."""
    own = vars(context)
    changes = context.rewrites_left_out or context.library or "default_float" in own
    if context.settings is None and not changes:
        own.pop("registrations", None)
    else:
        context.registrations = -1


def note_registration() -> None:
    """Say that devices or kernels came or went, or the default float of all threads changed:
    programs that were found before may be others."""
    Context.registrations += 1


# -- the chain of interpreters ---------------------------------------------------------------
def set_base(interpreter: Interpreter) -> None:
    """The interpreter at the bottom of every thread's chain."""
    Context.interpreter = interpreter


def base() -> Interpreter:
    """The interpreter at the bottom of every chain, which runs ops."""
    return Context.interpreter


def current() -> Interpreter:
    """The interpreter that the next op goes to."""
    return context.interpreter


def is_eager() -> bool:
    """Whether ops run at once: no transformation is at work in this thread."""
    return context.interpreter.parent is None and context.interpreter is Context.interpreter


def is_eager_or_watched() -> bool:
    """Whether ops run at once, and no transformation but one that watches them is at work."""
    return all(i.watches or i.parent is None for i in chain())


def chain() -> list[Interpreter]:
    """The current interpreter, its parent, and so on to the base."""
    found, interpreter = [], context.interpreter
    while interpreter is not None:
        found.append(interpreter)
        interpreter = interpreter.parent
    return found


def runs_at_once() -> bool:
    """Whether ops end in the eager interpreter, whatever transformations are around it."""
    interpreter = context.interpreter
    while interpreter is not None:
        if interpreter.stages:
            return False
        interpreter = interpreter.parent
    return True


def is_noting_lines() -> bool:
    """Whether the user's lines are kept with what interpreters keep, or with tracers."""
    return context.recording > 0 or context.recording_tracers > 0


class active:
    """Make ``interpreter`` current inside a with block."""

    __slots__ = ("before", "interpreter")

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def __enter__(self) -> Interpreter:
        self.before = context.interpreter
        context.interpreter = self.interpreter
        return self.interpreter

    def __exit__(self, *exception: object) -> None:
        context.interpreter = self.before


class transformation(active):
    """Make a new interpreter current; when the block ends, its tracers are dead."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        context.interpreter = self.before
        self.interpreter.alive = False


class inside:
    """What is called inside a with block is called by rules or graphs, not by the user."""

    __slots__ = ("before",)
    is_inside = True

    def __enter__(self) -> None:
        self.before = context.is_inside
        context.is_inside = self.is_inside

    def __exit__(self, *exception: object) -> None:
        context.is_inside = self.before


class by_user(inside):
    """What is called inside a with block is the user's own, such as a rule that a rule calls."""

    __slots__ = ()
    is_inside = False


def is_inside() -> bool:
    """Whether ops are called by rules, or by graphs that run again, and not by the user."""
    return context.is_inside


# -- named axes ------------------------------------------------------------------------------
def bound_axes() -> tuple[tuple[str, Any, bool], ...]:
    """The named axes in scope, innermost first: name, size, and whether a mesh has it."""
    return tuple(
        (i.axis_name, i.size, i.axis_name in context.tracked)
        for i in chain()
        if i.axis_name is not None
    )


def axis_size(axis_name: str) -> Any:
    """The size of a named axis in scope.

    Raises:
        ArgumentError: no vmap around binds the name.
    """
    bound = bound_axes()
    for name, size, _ in bound:
        if name == axis_name:
            return size
    known = ", ".join(repr(n) for n, _, _ in bound) or "none"
    raise ArgumentError(
        f"no axis {axis_name!r} is bound here (bound: {known}); call the function under "
        f"phix.vmap(..., axis_name={axis_name!r}), or phix.parallel.spmd with a mesh that has it"
    )


def is_tracked(axis_name: str | None) -> bool:
    """Whether the axis is one of a mesh, for which is known what may differ along it."""
    return axis_name in context.tracked


@contextmanager
def tracking(axis_names: Iterable[str]) -> Iterator[None]:
    """A function at work on every part of a mesh with these axes."""
    with _tracked(context.tracked.union(axis_names)):
        yield


def untracked() -> AbstractContextManager[None]:
    """Work on metas alone, on no part of a mesh: no named axis is bound there."""
    return _tracked(frozenset())


@contextmanager
def _tracked(axes: frozenset[str]) -> Iterator[None]:
    before = context.tracked
    context.tracked = axes
    try:
        yield
    finally:
        context.tracked = before


def mapped_axis() -> str | None:
    """The name of the axis that the batching rule at work maps over."""
    return context.mapped_axis


@contextmanager
def mapping(axis_name: str | None) -> Iterator[None]:
    """A batching rule at work: the batches it makes in turn are of the same named axis."""
    before = context.mapped_axis
    context.mapped_axis = axis_name
    try:
        yield
    finally:
        context.mapped_axis = before
