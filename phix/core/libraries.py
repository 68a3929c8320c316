"""The library that kernels are taken from first: a thread's own choice, inside a with block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from phix.core.context import context, note_block, runs_at_once
from phix.core.errors import ArgumentError, shown
from phix.core.kernel_registry import BACKENDS

# One entry for each block in any thread, and each default float, that eager calls are told apart by
# (see ``core.default_floats``): as long as there is none, none has to ask.
PINS: list[str] = []
# The library that is an engine of its own for the CPU: what LLVM would get is printed for it.
PRINTED = "numba"


def pinned() -> str | None:
    """The library of the innermost block of this thread; None where there is none."""
    found: str | None = context.library
    return found


@contextmanager
def pinning(name: str | None) -> Iterator[None]:
    """Inside the with block, this library and no other is pinned in this thread."""
    before = context.library
    if name == before:
        yield
        return
    context.library = name
    note_block()
    PINS.append(name or "")
    try:
        yield
    finally:
        PINS.pop()
        context.library = before
        note_block()


def checked(name: object, where: str) -> str | None:
    """The name of a library that some place has; None is none.

    Raises:
        ArgumentError: no place has one of that name.
    """
    known = dict.fromkeys(backend.library for backend in BACKENDS.values())
    if name is not None and not (isinstance(name, str) and name in known):
        raise ArgumentError(
            f"{where}: no library {shown(name)}; there are {', '.join(known)}. "
            'phix.kernels.add_library("cpu", name) adds one'
        )
    return name


@contextmanager
def library(name: str) -> Iterator[None]:
    """Inside the with block, kernels of one library are chosen before all others.

    It holds for eager calls and for what is compiled inside, in this thread; for one function there
    is ``jit(f, library=name)``. An op that the library has no kernel of runs by the usual choice,
    which the log ``phix.kernels`` says once.

    Args:
        name: ``"phix"`` for what the engine of a place generates, ``"numba"``, ``"scipy"``,
            ``"cudnn"``, the name of a plug-in's device, or one of ``phix.kernels.add_library``.
            With ``"numba"``, programs for the CPU are printed as Numba source in place of LLVM's,
            but those with kernels in them that somebody wrote in Numba.

    Raises:
        ArgumentError: no place has such a library; or a function is being traced, which would be
            compiled after the block.

    >>> import phix
    >>> with phix.library("phix"):
    ...     phix.ops.tanh(0.0).item()
    0.0
    """
    checked(name, "phix.library")
    if not runs_at_once():
        raise ArgumentError(
            f"phix.library({name!r}) stands in a function that is being traced, and would be over "
            "when the function is compiled; write jit(f, library=...), or the block around the call"
        )
    with pinning(name):
        yield
