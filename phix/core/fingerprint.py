"""A digest of what a graph computes, by which its program is found on disk."""

from __future__ import annotations

import hashlib

from phix.core import canonical, rules
from phix.core.graph import Graph, graphs_inside
from phix.core.kernel_selection import chosen_function


def fingerprint(graph: Graph) -> str | None:
    """A digest that graphs share only if they compile to one program, constants' values included.

    None where more than the graph and phix decides what it compiles to: an attribute that is a
    Python object, an op or a rule of the user's own, a registered kernel.
    """
    if rules.EXTENDED & rules.BUILT_IN or _has_functions(graph):
        return None
    try:
        parts = canonical.content(graph)
    except canonical.Unwritten:
        return None
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _has_functions(graph: Graph) -> bool:
    """Whether a kernel was chosen that is a function, whose code may be another one next time."""
    return any(
        e.kernel is not None and chosen_function(e) is not None
        for inner in graphs_inside(graph)
        for e in inner.equations
    )
