"""Loops of Python that a trace has unrolled: one equation a step, where one body would do."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from phix.core import settings
from phix.core.errors import UnrolledLoopWarning
from phix.core.graph import Equation

_said: set[tuple[str, int]] = set()  # the lines that were warned of
_MOST_LINES = 1000


def warn_of_unrolled_loops(equations: Sequence[Equation]) -> None:
    """Warn, once a line, where a line of the user's has called an op very often in one trace.

    Derivatives are left out: they repeat what was called. A graph that is short has no such line,
    and costs one comparison.
    """
    most = settings.current().most_calls_of_a_line
    if len(equations) <= most:
        return
    calls = Counter(
        (e.source.file, e.source.line, e.op.name)
        for e in equations
        if e.source is not None and not e.source.passes
    )
    for (file, line, op_name), count in calls.items():
        if count > most and (file, line) not in _said and len(_said) < _MOST_LINES:
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
