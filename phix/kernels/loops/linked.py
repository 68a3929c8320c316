"""Native functions from outside phix that programs are linked with, by the names code calls them.

A routine is called by a :class:`~phix.kernels.loops.nodes.LibraryCall`, and takes the call's
pointers and numbers in their order; a scalar function is called by an expression. Names hold a
digest of all that decides the code, so that programs with one name in them do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix.core.records import dataclass

PREFIX = "phix_linked_"
DECLARED = rf"(?m)^declare [^@\n]*@({PREFIX}\w+)\("  # in LLVM's text


@dataclass(frozen=True)
class Linked:
    """A native function: ``name`` begins with PREFIX, ``title`` is what messages call it.

    ``declaration`` is LLVM's; ``make`` gives the text of an LLVM module which defines it, asked for
    where it is linked; ``meaning`` does the same in Python, on scalars or on what
    ``evaluator_routines`` takes. A routine takes one more pointer, last, to where it reports a
    fault (``kernels/cpu/faults.py``).
    ``is_lasting``: the name says it all, in other processes too. ``needs`` names the native
    functions of phix that it calls (``jit._PROVIDERS``).
    """

    name: str
    title: str
    declaration: str
    make: Callable[[], str]
    meaning: Callable[..., Any]
    is_lasting: bool
    needs: Callable[[], tuple[str, ...]] = tuple


_FUNCTIONS: dict[str, Linked] = {}


def add(function: Linked) -> Linked:
    """Make a function known under its name; the one known before, if there is one."""
    return _FUNCTIONS.setdefault(function.name, function)


def find(name: str) -> Linked:
    """The function of a name."""
    return _FUNCTIONS[name]


def is_linked(name: str) -> bool:
    """Whether code comes by a name from outside phix."""
    return name.startswith(PREFIX)
