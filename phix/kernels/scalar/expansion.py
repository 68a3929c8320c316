"""Scalar bodies written out: once for operands of some dtypes, then put to use at any operands.

A body is run for variables in place of its operands. What it gives tells what the op costs, and it
is what the body gives for other operands, once these stand where the variables are: bodies do not
look into their operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Union

import numpy as np

from phix.core import dtypes as dt
from phix.core.exact_keys import Exact, is_hashable
from phix.kernels.scalar import bodies
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Complex, Expr
from phix.kernels.scalar.registry import Body

Element = Union[Expr, Complex]
_NO_ATTRS = Exact(())
# Whether it folds, its function, the places of its operands, its dtype and its data.
_Node = tuple[bool, str, tuple[int, ...], np.dtype, Any]

# What one operation of a function weighs beside an addition; 1 where it is not named.
_WEIGHTS = {"const": 0, "var": 0, "cast": 0, "bitcast": 0, "select": 1, "div": 4, "sqrt": 6,
            "quotient": 20, "rest": 20, "call": 40, "neg": 0, "fabs": 0}  # fmt: skip


class Expansion:
    """What a body gives for variables of some dtypes."""

    def __init__(self, body: Body, dtypes: tuple[np.dtype, ...], attrs: Mapping[str, Any]) -> None:
        variables = [_variable(k, dtype) for k, dtype in enumerate(dtypes)]
        result = body(*variables, **attrs)
        self.is_complex = isinstance(result, Complex)
        found = _operands_first(_parts(result))
        self.cost = sum([_WEIGHTS.get(e.fn, 1) for e in _usual(found, _parts(result))])
        operands: tuple[Expr, ...] = sum(map(_parts, variables), start=())
        self.constants = [e for e in found if not e.args and e not in operands]
        place = dict(zip((*operands, *self.constants), itertools.count()))
        self.nodes: list[_Node] = []
        for e in found:
            if e not in place:
                place[e] = len(place)
                # of indices, what comes of constants is folded
                folds = e.dtype == dt.int64 and len(e.args) == 2 and e.fn in sc.FUNCTIONS
                self.nodes.append(
                    (folds, e.fn, tuple(map(place.__getitem__, e.args)), e.dtype, e.data)
                )
        self.roots = [place[root] for root in _parts(result)]

    def at(self, elements: Sequence[Element]) -> Element:
        """What the body gives for these operands."""
        made: list[Expr] = []
        for element in elements:
            made += _parts(element)
        made += self.constants
        for folds, fn, places, dtype, data in self.nodes:
            args = tuple(map(made.__getitem__, places))
            made.append(sc.binary(fn, *args) if folds else Expr(fn, args, dtype, data))
        found = [made[k] for k in self.roots]
        return Complex(*found) if self.is_complex else found[0]


def applied(name: str, elements: Sequence[Element], attrs: Mapping[str, Any]) -> Element:
    """What the body of an op gives for these operands."""
    return _expansion(name, tuple([e.dtype for e in elements]), attrs).at(elements)


def cost(name: str, dtypes: tuple[np.dtype, ...], attrs: Mapping[str, Any]) -> int:
    """Weighted scalar operations of the body of an op, for operands of dtypes of scalars."""
    return _expansion(name, dtypes, attrs).cost


def _expansion(name: str, dtypes: tuple[np.dtype, ...], attrs: Mapping[str, Any]) -> Expansion:
    body = bodies.get(name)
    if bodies.is_native(name):  # somebody's code, which may be another by the next call
        return Expansion(body, dtypes, attrs)
    if not attrs:
        return _known(body, dtypes)
    given = Exact(tuple(attrs.items()))
    return _known(body, dtypes, given) if is_hashable(given) else Expansion(body, dtypes, attrs)


@lru_cache(maxsize=4096)
def _known(body: Body, dtypes: tuple[np.dtype, ...], attrs: Exact = _NO_ATTRS) -> Expansion:
    return Expansion(body, dtypes, dict(attrs.value))


def _usual(every: list[Expr], roots: Sequence[Expr]) -> Collection[Expr]:
    """Those of all expressions, of which roots are made, that are computed for each element."""
    if "rarely" not in [e.fn for e in every]:
        return every
    found, left = set[Expr](), [*roots]
    while left:
        e = left.pop()
        if e not in found:
            found.add(e)
            left += sc.usual_operands(e) if e.fn == "rarely" else e.args
    return found


def _operands_first(roots: Sequence[Expr]) -> list[Expr]:
    """The roots and all below them, each once, behind its operands."""
    found: dict[Expr, None] = {}
    left, opened = [*roots], set[Expr]()
    while left:
        e = left.pop()
        if e in opened or not e.args:
            found[e] = None
        elif e not in found:
            opened.add(e)
            left += (e, *e.args)
    return list(found)


def _variable(number: int, dtype: np.dtype) -> Element:
    if not dt.is_complex(dtype):
        return sc.var(f"x{number}", dtype)
    part = dt.real_dtype(dtype)
    return Complex(sc.var(f"re{number}", part), sc.var(f"im{number}", part))


def _parts(element: Element) -> tuple[Expr, ...]:
    return (element.real, element.imag) if isinstance(element, Complex) else (element,)
