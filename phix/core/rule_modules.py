"""The modules that register rules of ops: imported when something of theirs is first asked for.

The vocabulary is large and a program uses little of it. Whoever has the modules hands down, once,
what imports them; whoever looks into a registry says first what it is about to look for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any

from phix.core import stack

# Subjects besides files of the op table, as ``yaml/pointwise.yaml``.
REWRITES = "rewrites"  # algebra
PATTERNS = "patterns"  # and algebra, whose rewrites are listed first
JETS = "rules of jets"
KIND_KERNELS = "kernels of kinds of tensors"
ALL = "all"

_importer: Callable[[str], None]
_done: set[str] = set()
# A fork waits for it: in the child a module that another thread was importing would be half there,
# and waited for, for ever.
lock = stack.Lock()
# What modules of phix have registered, by registry and name -> the namespace of the module.
_OWN: dict[Hashable, dict[str, Any]] = {}


def provide(importer: Callable[[str], None]) -> None:
    """Say what imports the modules of a subject: ``phix.primitives`` does."""
    global _importer
    _importer = importer


def import_for(subject: str) -> None:
    """Import the modules of a subject, unless they are.

    Threads wait for each other, and a module may ask for what is about to be imported: it sees
    what has been registered by then.
    """
    if subject not in _done:
        with lock:
            _importer(subject)
        _done.add(subject)


def import_before(*subjects: str) -> None:
    """Import the modules of subjects if not phix itself is registering something: what comes with
    it is first, and a second rule meets the first."""
    if not is_own():
        for subject in subjects:
            import_for(subject)


def is_own() -> bool:
    """Whether what is registered now is phix's own: a module of it is being imported."""
    return _namespace() is not None


def is_free(name: Hashable, known: bool) -> bool:
    """Whether something may be registered under the name of a registry, and whose that is then.

    It may not if something is ``known``, unless an import was broken off (by Ctrl-C, or for want of
    memory or stack) that had registered it: Python imports the module once more from its start.
    """
    if known and not is_left_over(name):
        return False
    note(name)
    return True


def note(name: Hashable) -> None:
    """Note who registers something: a module of phix that is being imported, or somebody else."""
    namespace = _namespace()
    if namespace is None:
        _OWN.pop(name, None)
    else:
        _OWN[name] = namespace


def is_noted(name: Hashable) -> bool:
    """Whether a module of phix registered that."""
    return name in _OWN


def is_left_over(name: Hashable) -> bool:
    """Whether something was registered by an import that did not come to its end."""
    namespace = _OWN.get(name)
    if namespace is None:
        return False
    module = sys.modules.get(namespace["__name__"])
    return module is None or vars(module) is not namespace


def _namespace() -> dict[str, Any] | None:
    """The namespace of the module of phix that is being imported, and registers something; None if
    that is somebody else, whatever functions of phix they register."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] != "phix":
        return None
    return frame.f_globals


def _after_fork() -> None:
    if lock.is_own:  # no exception has ended the wait
        lock.__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.__enter__, after_in_parent=_after_fork, after_in_child=_after_fork
    )
