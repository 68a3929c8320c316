"""Loops of Python that a trace has unrolled: one equation a step, where one body would do."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from phix.core import settings
from phix.core.errors import UnrolledLoopWarning
from phix.core.graph import Equation, Variable

_said: set[tuple[str, int]] = set()  # the lines that were warned of
_MOST_LINES = 1000


def warn_of_unrolled_loops(equations: Sequence[Equation]) -> None:
    """Warn, once a line, where a line of the user's has called an op very often in one trace, each
    time with what came of the call before: calls beside each other, one a parameter, are no loop.

    Derivatives are left out: they repeat what was called. A graph that is short has no such line,
    and costs one comparison.
    """
    most = settings.current().most_calls_of_a_line
    if len(equations) <= most:
        return
    calls = Counter(key for e in equations if (key := _call(e)) is not None)
    for key, count in calls.items():
        file, line, op_name = key
        is_new = (file, line) not in _said and len(_said) < _MOST_LINES
        if count > most and is_new and _longest_chain(equations, key) > most:
            _said.add((file, line))
            warnings.warn_explicit(
                f"this line has called {op_name} {count} times in one trace: a loop of Python is "
                "unrolled, so the graph, and the time to compile it, grow with its steps; write "
                "it with phix.fori_loop or phix.scan, which trace their body once "
                "(phix.debug.settings(most_calls_of_a_line=...) moves the bound)",
                UnrolledLoopWarning,
                file,
                line,
            )


def _call(e: Equation) -> tuple[str, int, str] | None:
    """The line of the user's that made an equation, and its op."""
    if e.source is None or e.source.passes:
        return None
    return e.source.file, e.source.line, e.op.name


def _longest_chain(equations: Sequence[Equation], key: tuple[str, int, str]) -> int:
    """How many calls of that line and op lead from one to the next at most."""
    depths: dict[Any, int] = {}
    for e in equations:
        before = (depths.get(v, 0) for v in e.atoms if isinstance(v, Variable))
        depth = max(before, default=0) + (_call(e) == key)
        depths.update(dict.fromkeys(e.variables, depth))
    return max(depths.values(), default=0)
