"""A digest of what a graph computes, by which its program is found on disk."""

from __future__ import annotations

from phix.core import canonical, rules
from phix.core.digests import sha256
from phix.core.graph import Equation, Graph
from phix.core.kernel_selection import chosen_function


def fingerprint(graph: Graph) -> str | None:
    """A digest that graphs share only if they compile to one program, constants' values included.

    None where more than the graph and phix decides what it compiles to: an attribute that is a
    Python object, an op or a rule of the user's own, a registered kernel; but for what Numba
    compiles, where a digest of its code tells.
    """
    if rules.EXTENDED & rules.BUILT_IN:
        return None
    try:
        parts = canonical.content(graph, _code)
    except canonical.Unwritten:
        return None
    return sha256(repr(parts).encode()).hexdigest()


def _code(equation: Equation) -> str | None:
    """A digest of the user's code that runs an equation; None where there is none.

    Raises:
        Unwritten: a kernel was chosen that is a function, whose code may be another one next time.
    """
    kernel = chosen_function(equation)
    if kernel is None:
        digest = rules.CODE.get(equation.op.name)
        return digest() if digest else None
    if kernel.native is None or not kernel.native.is_lasting:
        raise canonical.Unwritten
    return str(kernel.native.digest)
