"""The modules that register rules of ops: imported when something of theirs is first asked for.

The vocabulary is large and a program uses little of it. Whoever has the modules hands down, once,
what imports them; whoever looks into a registry says first what it is about to look for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Subjects besides files of the op table, as ``yaml/pointwise.yaml``.
REWRITES = "rewrites"  # algebra and patterns
JETS = "rules of jets"
KIND_KERNELS = "kernels of kinds of tensors"
ALL = "all"

_importer: Callable[[str], None]
_done: set[str] = set()


def provide(importer: Callable[[str], None]) -> None:
    """Say what imports the modules of a subject: ``phix.primitives`` does."""
    global _importer
    _importer = importer


def import_for(subject: str) -> None:
    """Import the modules of a subject, unless they are.

    Threads that ask for one subject wait for each other in the import of each module, and a
    module may ask for what is about to be imported: it sees what has been registered by then.
    """
    if subject not in _done:
        _importer(subject)
        _done.add(subject)


def import_before(function: Any, *subjects: str) -> None:
    """Import the modules of subjects before something else is registered: phix's own come first,
    and a second rule meets the first."""
    if not is_own(function):
        for subject in subjects:
            import_for(subject)


def is_own(function: Any) -> bool:
    """Whether phix itself has the function."""
    return bool(function.__module__.partition(".")[0] == "phix")
