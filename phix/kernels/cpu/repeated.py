"""What a loop computes again and again of one number becomes a function, compiled once.

Unrolled steps, and chains of layers, hold the same body many times. Of the values of a loop, each
has a nearest one without which it cannot be had; what lies between the two is a function of one
number, and equal functions are one expression where that number is a name. A function that stands
in a loop many times, and from which nothing else is needed, is called:

    %r = call float @repeated_0(float %x) #6
    %r = call <16 x float> @repeated_0.16(<16 x float> %x)

The second is what LLVM makes of the first where it makes vectors, told by an attribute, as of what
is rare (``rare.py``). ``repeated_code.py`` has the texts of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from phix.core import dtypes as dt
from phix.core import rewrites
from phix.core.digests import sha256
from phix.core.records import dataclass
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu import units
from phix.kernels.cpu.advice import lanes_of_much_work
from phix.kernels.loops.nodes import For, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.bottom_up import bottom_up, with_operands
from phix.kernels.scalar.language import Expr

# A function has so many operations at least, and at most, and so many calls, which save so many
# operations together.
_LEAST_OPERATIONS, _MOST_OPERATIONS, _LEAST_CALLS, _LEAST_SAVED = 12, 600, 3, 160
_DTYPES = frozenset({dt.float32, dt.float64, dt.int32, dt.int64, dt.uint32, dt.uint64})
# Lanes past the end of a loop have any value, by which none may be divided.
_REFUSED = frozenset({"quotient", "rest", "call"})


@dataclass(frozen=True)
class Repeated:
    """A function of ``given``: what it computes, in so many lanes at a time."""

    name: str
    given: Expr
    made: Expr
    lanes: int

    def variants(self) -> tuple[str, str, list[str], dict[int, str]]:
        """See ``rare.Variants``."""
        given, made = (ins.TYPES[e.dtype] for e in (self.given, self.made))
        return made, self.name, [given], {self.lanes: f"{self.name}.{self.lanes}"}


_Row = tuple[Any, ...]
Calls = dict[Expr, tuple[Repeated, Expr]]  # by what is computed: the function, and of what


def calls_in(loop: For) -> Calls:
    """The calls that take the place of parts of the values of a loop."""
    lanes = lanes_of_much_work(loop) if rewrites.is_on("repeated_functions") else 0
    if not lanes or not all(isinstance(s, Store) for s in loop.body):
        return {}
    ways = _Ways([s.value for s in loop.body if isinstance(s, Store)])
    found = defaultdict[tuple[_Row, ...], list[tuple[Expr, Expr, set[Expr]]]](list)
    for e, start, between in ways.closed():
        found[_form(e, start)].append((e, start, between))
    calls: Calls = {}
    inside = set[Expr]()
    for places in sorted(found.values(), key=lambda places: -len(places[0][2])):
        places = [place for place in places if place[0] not in inside]
        saved = (len(places) - 1) * len(places[0][2]) if places else 0
        if len(places) >= _LEAST_CALLS and saved >= _LEAST_SAVED:
            e, start, _ = places[0]
            given = sc.var("given", start.dtype)
            made = bottom_up(e, {start: given}, with_operands)
            function = Repeated(f"{units.REPEATED}{_digest(made)}_{lanes}", given, made, lanes)
            for e, start, between in places:
                calls[e] = function, start
                inside |= between
    return calls


def _form(root: Expr, start: Expr) -> tuple[_Row, ...]:
    """What is computed of ``start``, whatever that is: operations, with the numbers of operands."""
    rows: dict[_Row, int] = {(start.dtype,): 0}

    def number(e: Expr, operands: list[int]) -> int:
        data = repr(e.data) if e.fn == "const" else e.data
        return rows.setdefault((e.fn, e.dtype, data, *operands), len(rows))

    bottom_up(root, {start: 0}, number)
    return tuple(rows)


def called(p: ins.Printer, call: tuple[Repeated, Expr], operand: str) -> str:
    """The call for one element."""
    function, _ = call
    given, made = (ins.TYPES[e.dtype] for e in (function.given, function.made))
    return p.let(f"call {made} @{function.name}({given} {operand})")


def _digest(root: Expr) -> str:
    """A name that hangs on nothing but what is computed."""

    def digest(e: Expr, operands: list[str]) -> str:
        data = repr(e.data) if e.fn == "const" else ""
        return sha256(repr((e.fn, str(e.dtype), data, operands)).encode()).hexdigest()

    return bottom_up(root, {}, digest)[:12]


class _Tree:
    """Of each value the nearest one on all of its ways to the ends: by operands, or by users."""

    def __init__(self) -> None:
        self.nearest: dict[Expr, Expr | None] = {}
        self.depth: dict[Expr, int] = {}

    def put(self, e: Expr, following: Iterable[Expr | None]) -> None:
        """Add a value, behind all that follow on its ways; None: one ends there."""
        found: Expr | None = None
        for number, a in enumerate(following):
            found = self._common(found, a) if number else a
        self.nearest[e] = found
        self.depth[e] = 0 if found is None else self.depth[found] + 1

    def _common(self, a: Expr | None, b: Expr | None) -> Expr | None:
        while a is not None and b is not None and a is not b:
            if self.depth[a] >= self.depth[b]:
                a = self.nearest[a]
            else:
                b = self.nearest[b]
        return a if b is not None else None


class _Ways:
    """What the values of a loop are made of, and the ways from one to the other."""

    def __init__(self, roots: list[Expr]) -> None:
        self.operands: dict[Expr, list[Expr]] = {}  # but constants; those of operands stand first
        self.down, self.up = _Tree(), _Tree()
        self.users: dict[Expr, dict[Expr | None, None]] = defaultdict(dict)  # None: it is stored
        known: dict[Expr, None] = {}
        for root in roots:
            for read in root.loads:  # what makes their indices is no part of a value
                known[read] = None
                self.down.put(read, ())
            bottom_up(root, known, self._note)
            self.users[root][None] = None
        for e in reversed(self.operands):
            self.up.put(e, self.users[e])

    def _note(self, e: Expr, _: list[None]) -> None:
        operands = [a for a in dict.fromkeys(e.args) if a in self.down.depth]
        for a in operands:
            self.users[a][e] = None
        if operands or e.fn == "var":  # all others are constants
            self.operands[e] = operands
            self.down.put(e, operands)

    def closed(self) -> Iterator[tuple[Expr, Expr, set[Expr]]]:
        """Values, what they are functions of, and what lies between, which nothing else needs."""
        places = {e: place for place, e in enumerate(self.operands)}
        for e, operands in self.operands.items():
            start = self.down.nearest[e]
            if start is None or operands == [start]:
                continue
            first = next(user for user in self.users[start] if user is not None)
            is_long = places[e] - places[first] + 1 >= _LEAST_OPERATIONS
            if is_long and all(a is start or self.up.nearest[a] is e for a in operands):
                between = self._between(e, start)
                if between is not None and len(between) + 1 >= _LEAST_OPERATIONS:
                    yield e, start, between

    def _between(self, e: Expr, start: Expr) -> set[Expr] | None:
        """None where there is too much, something else needs it, or it may go wrong."""
        if not {e.dtype, start.dtype} <= _DTYPES or e.fn in _REFUSED:
            return None
        found, stack = set[Expr](), list(self.operands[e])
        while stack:
            a = stack.pop()
            if a is start or a in found:
                continue
            found.add(a)
            if a.fn in _REFUSED or len(found) > _MOST_OPERATIONS:
                return None
            stack += self.operands[a]
        return found if all(self.users[a].keys() <= found | {e} for a in found) else None
