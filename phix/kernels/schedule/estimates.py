"""About how large dims are that nobody knows before a run."""

from __future__ import annotations

from phix.core import dims as dm
from phix.core.dims import Apply, DimLike, Symbol

_GUESS = 256  # what a symbol is taken for


def estimate(dim: DimLike) -> int:
    """About how large a dim is; at least 0.

    Never raises: sizes that were guessed need not fit each other, as those of a program do.
    """
    return _estimated(dim, {})


def _estimated(dim: DimLike, parts: dict[int, int]) -> int:
    """``parts`` has what functions in it are taken for, by their ids: dims hold one many times."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms:
        term = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                term *= _GUESS
                continue
            if id(atom) not in parts:
                parts[id(atom)] = _of_function(atom, parts)
            term *= parts[id(atom)]
        total += term
    return max(total, 0)


def _of_function(atom: Apply, parts: dict[int, int]) -> int:
    a, b = (_estimated(x, parts) for x in atom.args)
    if atom.fn == "broadcast":
        return max(a, b)
    if atom.fn in ("floordiv", "mod"):
        b = max(b, 1)
    found = dm.apply(atom.fn, a, b)
    assert isinstance(found, int)
    return found
