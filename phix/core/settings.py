"""Settings: the bounds by which phix decides what is worth doing, and how much is kept.

They are set for large programs on the machines of today; tests make them small, so that small
programs go every way, and whoever tunes them tries others, without touching a module::

    with phix.debug.settings(least_shared_work=1):
        phix.jit(f)(x)

Settings hold for the thread that changes them. A program keeps those under which it was made, and
those that decide what a program is are part of the key that it is found by on disk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phix.core.context import context, note_block
from phix.core.errors import ArgumentError, described
from phix.core.records import dataclass


def _program(default: Any, unit: str, what: str) -> Any:
    """A field that decides what programs are."""
    return dataclasses.field(default=default, metadata={"unit": unit, "what": what, "key": True})


def _kept(default: Any, unit: str, what: str) -> Any:
    """A field that decides how much is kept, and no program."""
    return dataclasses.field(default=default, metadata={"unit": unit, "what": what, "key": False})


@dataclass(frozen=True)
class Settings:
    """The bounds, each with its unit and what it is; ``str`` gives one line each.

    >>> import phix
    >>> with phix.debug.settings(least_shared_work=1) as settings:
    ...     settings.least_shared_work, settings.shared_run
    (1, 64)
    """

    # -- lowering
    longest_wait: int = _program(
        16, "equations", "the longest chain that a value waits for before it has its turn"
    )
    tiny_bytes: int = _program(
        256, "bytes", "the largest buffer that lives in registers or on the stack"
    )
    least_freed_bytes: int = _program(
        64 << 10, "bytes", "what must become free for a step to move: less stays in a cache"
    )
    block_terms: int = _program(
        2048, "terms", "the most that long sums add up in their own dtype, before float64"
    )
    block_rows: int = _program(64, "rows", "the same of sums down columns")
    # -- threads
    least_shared_work: int = _program(
        300_000, "scalar operations", "work below which waking a thread, some 25 us, does not pay"
    )
    shared_run: int = _program(
        64, "iterations", "pieces of an innermost loop: whole cache lines and vectors"
    )
    shared_run_inside: int = _program(
        512, "iterations", "the same inside another loop, which every piece runs through"
    )
    # -- writing past the caches
    least_streamed_bytes: int | None = _program(
        None, "bytes", "what a kernel touches that writes so; None: 5/4 of the last cache"
    )
    most_streamed_work: float = _program(
        3, "scalar operations a byte", "work up to which a kernel waits for memory"
    )
    # -- reading ahead
    least_asked_bytes: int = _program(
        2 << 20, "bytes", "what a kernel touches that asks for rows ahead: less stays in a cache"
    )
    asked_bytes: int = _program(
        1024, "bytes", "what is asked for at once: a core waits for some twenty lines of 64"
    )
    # -- memory that is held
    memory_limit: int | None = _program(
        None, "bytes", "temps and results of a jitted function; more is computed again, None: none"
    )
    # -- the text of a program
    most_steps: int = _program(32, "steps", "steps that stand in one function")
    steps_of_a_part: int = _program(8, "steps", "steps of a part, where there are more")
    most_nested_loops: int = _program(
        8, "loops", "loops and branches up to which all stand in one function"
    )
    # -- memory of a GPU
    most_unshared_bytes: int = _program(
        16 << 20, "bytes", "temps of a GPU program that share no memory, so that steps can overlap"
    )
    # -- tracing
    most_calls_of_a_line: int = _kept(
        500, "calls", "of one op by one line in one trace; more are warned of as an unrolled loop"
    )
    # -- what is kept
    most_eager_plans: int = _kept(
        8192, "calls", "eager calls that are remembered; one with a program takes 50 KB"
    )
    most_eager_programs: int = _kept(2048, "programs", "programs of eager calls")
    most_plans_over_graphs: int = _kept(256, "calls", "eager calls with graphs in them")
    most_sizes_of_a_step: int = _kept(
        256, "sizes", "sizes for which a step of a program that runs step by step is settled"
    )
    most_cudnn_plans: int = _kept(256, "plans", "of convolutions and of attention by cuDNN")
    most_cache_bytes: int = _kept(512 << 20, "bytes", "programs in the folder of the disk cache")
    writes_between_trims: int = _kept(
        64, "writes", "after which that folder is looked through; an eighth of its entries, if more"
    )

    def __str__(self) -> str:
        lines = (
            f"{field.name} = {getattr(self, field.name)} {field.metadata['unit']}: "
            f"{field.metadata['what']}"
            for field in dataclasses.fields(self)
        )
        return "\n".join(lines)


DEFAULTS = Settings()
_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


def current() -> Settings:
    """The settings in force. To be read where a pass starts, not in its loops."""
    found: Settings | None = context.settings
    return DEFAULTS if found is None else found


def deciding() -> tuple[tuple[str, Any], ...]:
    """What is not as it was shipped and decides programs: a part of their keys."""
    now = current()
    if now is DEFAULTS:
        return ()
    return tuple(
        (name, getattr(now, name))
        for name, field in _FIELDS.items()
        if field.metadata["key"] and getattr(now, name) != field.default
    )


def most_sizes() -> int:
    """For how many sizes a step of a program is settled: see ``core.recent``."""
    return current().most_sizes_of_a_step


@contextmanager
def in_force(settings: Settings) -> Iterator[Settings]:
    """Inside a with block, in this thread, these settings."""
    before = context.settings
    context.settings = settings
    note_block()
    try:
        yield settings
    finally:
        context.settings = before
        note_block()


def changed(**values: Any) -> Settings:
    """The settings in force, but for some.

    Raises:
        ArgumentError: no setting has that name, or it is no number from 0.
    """
    for name, value in values.items():
        if name not in _FIELDS:
            raise ArgumentError(
                f"settings: there is no {name!r}; there are {', '.join(sorted(_FIELDS))}"
            )
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if not is_number and not (value is None and _FIELDS[name].default is None):
            raise ArgumentError(
                f"settings: {name} must be a number from 0, found {described(value)}"
            )
    return dataclasses.replace(current(), **values)
