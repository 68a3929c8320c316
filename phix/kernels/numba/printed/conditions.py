"""What equations ask of unknown sizes, as conditions that a printed module can hold.

Whether an equation fits some sizes only its infer_meta rule tells, which is Python and not printed.
So the rule is asked for many sizes, and conditions of a few kinds are chosen that hold for all that
fit, until none is left that does not. Where these kinds do not suffice there are none.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from phix.core import dims as dm
from phix.core import size_checks, slices
from phix.core.dims import DimLike, Symbol
from phix.core.errors import PhixError
from phix.core.graph import Equation, Graph, flat
from phix.core.records import dataclass

Env = Mapping[Symbol, int]
_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 12, 29, 1009)  # and those that an equation names
_TRIES, _STARTS, _DRAWS, _ROUNDS = 300, 3, 40, 8
_MOST_TERMS = 12  # of which differences are taken, too


class _Kind(NamedTuple):
    text: str
    holds: Callable[[Any, Any], Any]  # elementwise


_KINDS = {
    "is": _Kind("{a} == {b}", lambda a, b: a == b),
    "from": _Kind("{a} >= {b}", lambda a, b: a >= b),
    "to": _Kind("{a} <= {b}", lambda a, b: a <= b),
    "broadcasts with": _Kind(
        "{a} == {b} or {a} == 1 or {b} == 1", lambda a, b: (a == b) | (a == 1) | (b == 1)
    ),
    "spreads to": _Kind("{a} == 1 or {a} == {b}", lambda a, b: (a == 1) | (a == b)),
    "is a multiple of": _Kind("{a} % {b} == 0", lambda a, b: np.remainder(a, b) == 0),
    "has elements for": _Kind("{a} > 0 or {b} == 0", lambda a, b: (a > 0) | (b == 0)),
}


@dataclass(eq=False)  # dims that are not known are all equal to -1
class Condition:
    """``left word right + more``, of dims; ``refusal`` is what is said where that does not hold, if
    the condition does not say enough."""

    left: DimLike
    word: str
    right: DimLike
    more: int = 0
    refusal: str = ""

    def text(self, write: Callable[[DimLike], str]) -> str:
        """It as Python writes it, its dims being written so."""
        a, b = (_whole(write(dim)) for dim in (self.left, self.right + self.more))
        return _KINDS[self.word].text.format(a=a, b=b)

    @property
    def is_limit(self) -> bool:
        """Whether it bounds one size by a number."""
        is_one = len(dm.symbols(self.left)) == 1 and isinstance(self.right, int)
        return is_one and self.word in ("from", "to")


def _whole(text: str) -> str:
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def equations_of(graph: Graph, known: set[Symbol]) -> list[Equation]:
    """Those of a graph and of all inside it that ask something of sizes that are known."""
    return [
        e
        for e in size_checks.equations(graph)
        if (around := size_checks.symbols_around(e)) and around <= known and size_checks.asks(e)
    ]


def conditions(equation: Equation) -> list[Condition] | None:
    """Conditions that tell the sizes that an equation fits; None where they do not suffice."""
    if equation.op.name == "expect_sizes":
        dims, refusal = equation.attrs
        return [Condition(d, "from", 0, refusal=refusal) for d in dims]
    tried = _Tried(_Fits(equation).tried())
    kinds = [[c for c in some if tried.suits(c)] for some in _candidates(equation, tried)]
    for _ in range(_ROUNDS):
        found = _chosen(kinds, tried)
        blunt = [c for c in found or () if not tried.is_sharp(c, found or [])]
        if not blunt:
            return found
        kinds = [[c for c in some if c not in blunt] for some in kinds]
    return None


def _chosen(kinds: list[list[Condition]], tried: _Tried) -> list[Condition] | None:
    """The fewest that refuse all that does not fit, of earlier kinds if it can be, or None."""
    found: list[Condition] = []
    wrong = ~tried.fit
    for candidates in kinds:
        while wrong.any() and candidates:
            best = max(candidates, key=lambda c: int((wrong & ~tried.holds(c)).sum()))
            left = wrong & tried.holds(best)
            if left.sum() == wrong.sum():
                break
            found.append(best)
            wrong = left
    for condition in found[:]:
        fewer = [c for c in found if c is not condition]
        if not (~tried.fit & tried.all_hold(fewer)).any():
            found = fewer
    return None if wrong.any() else found


class _Tried:
    """Sizes of which it is known whether an equation fits them."""

    def __init__(self, known: list[tuple[Env, bool]]) -> None:
        self.envs = [env for env, _ in known]
        self.fit = np.array([fits for _, fits in known], bool)
        self._values: dict[Any, np.ndarray] = {}
        self._held: dict[Condition, np.ndarray] = {}

    def values(self, dim: DimLike) -> np.ndarray:
        """What a dim is for them, NaN where there is no such dim."""
        key = dim.key if isinstance(dim, dm.Dim) else dim
        if key not in self._values:
            self._values[key] = np.array([_value(dim, env) for env in self.envs], np.float64)
        return self._values[key]

    def limit(self, a: DimLike, b: DimLike, choose: Callable[[np.ndarray], Any]) -> list[int]:
        """The least or the largest difference among sizes that fit."""
        found = choose((self.values(a) - self.values(b))[self.fit])
        return [] if np.isnan(found) else [int(found)]

    def fixed(self, a: DimLike, b: DimLike) -> list[int]:
        """The one difference of those that fit, if they have one."""
        least, most = self.limit(a, b, np.min), self.limit(a, b, np.max)
        return least if least == most else []

    def holds(self, condition: Condition) -> np.ndarray:
        """For which it holds, or cannot be told."""
        if condition not in self._held:
            a, b = self.values(condition.left), self.values(condition.right) + condition.more
            held = _KINDS[condition.word].holds(a, b) | np.isnan(a) | np.isnan(b)
            self._held[condition] = held
        return self._held[condition]

    def all_hold(self, several: list[Condition]) -> np.ndarray:
        """For which all of them do."""
        return np.logical_and.reduce([np.ones_like(self.fit), *map(self.holds, several)])

    def suits(self, condition: Condition) -> bool:
        """Whether all that fits meets it."""
        can_be_told = ~np.isnan(self.values(condition.left) + self.values(condition.right))
        return bool((can_be_told & self.holds(condition))[self.fit].all())

    def is_sharp(self, condition: Condition, found: list[Condition]) -> bool:
        """Whether a limit is one, and not where the sizes that were tried end."""
        if condition.word == "is a multiple of":
            met = self.values(condition.left)[self.fit]
            return bool(np.isin([condition.more, 2 * condition.more], met).all())
        next_ = condition.more + (1 if condition.word == "to" else -1)
        if not condition.is_limit or next_ < 0:
            return True
        others = self.all_hold([c for c in found if c is not condition])
        return bool((~self.fit & others & (self.values(condition.left) == next_)).any())


class _Fits:
    """The sizes that an equation fits, by asking for each once."""

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        self.symbols = sorted(size_checks.symbols_around(equation), key=lambda s: s.number)
        held = _values_in((equation.attrs, *map(_dims, _around(equation))))
        named = {n + 1 for n in held if type(n) is int and n >= _SIZES[-2]}
        multiples = {n * k for n in _parts(equation) for k in (1, 2)}
        self.sizes = (*_SIZES, *sorted((named | multiples).difference(_SIZES)))
        self.known: dict[tuple[int, ...], bool] = {}
        self.draw = random.Random(0)

    def __call__(self, env: Env) -> bool:
        key = tuple([env[s] for s in self.symbols])
        if key not in self.known:
            self.known[key] = self._ask(env)
        return self.known[key]

    def _ask(self, env: Env) -> bool:
        try:
            outs = size_checks.inferred(self.equation, env)
            pairs = [
                (dm.substitute(traced, env), here)
                for variable, meta in zip(self.equation.variables, flat(outs))
                for traced, here in zip(variable.meta.dims, meta.dims)
            ]
        except PhixError:
            return False
        return all(dm.may_equal(traced, here) for traced, here in pairs)

    def tried(self) -> list[tuple[Env, bool]]:
        """Many sizes, and whether they fit, among them some on both sides of limits."""
        for start in self._first():
            groups = [self._group(start, s) for s in self.symbols]
            for _ in range(_DRAWS):
                env = dict(start)
                for group in self.draw.sample(groups, self.draw.randint(1, len(groups))):
                    env.update(dict.fromkeys(group, self.draw.choice(self.sizes)))
                self(env)
            for group in groups:
                self._seek_limit(start, group, 0)
                self._seek_limit(start, group, max(self.sizes))
            for symbol, size in itertools.product(self.symbols, self.sizes):
                self({**start, symbol: size})
            for group, other in itertools.combinations(groups, 2):
                self({**start, **dict.fromkeys(group + other, 0)})
        return [(dict(zip(self.symbols, key)), fits) for key, fits in self.known.items()]

    def _first(self) -> list[Env]:
        """A few sizes that fit, of many tried, as different as these can be."""
        found: list[Env] = []
        for k in range(_TRIES):
            few = self.draw.sample(self.sizes, 1 + k % 3)
            env = {s: self.draw.choice(few) for s in self.symbols}
            if self(env):
                found.append(env)
        found.sort(key=lambda env: -len(set(env.values())))
        return [*map(self._apart, found[:_STARTS])]

    def _apart(self, start: Env) -> Env:
        """Sizes of which fewer are equal than of those that it starts from."""
        for _ in range(_TRIES):
            left = [n for n in self.sizes[2:] if n not in start.values()]
            size = self.draw.choice([*start.values()])
            alike = [s for s in self.symbols if start[s] == size and self.draw.random() < 0.5]
            env = {**start, **dict.fromkeys(alike, self.draw.choice(left or self.sizes))}
            if len(set(env.values())) > len(set(start.values())) and self(env):
                start = env
        return start

    def _group(self, start: Env, symbol: Symbol) -> list[Symbol]:
        """The fewest dims that have to become another size together with one of them."""
        size = next(n for n in self.sizes[::-1] if n != start[symbol])
        group = [s for s in self.symbols if start[s] == start[symbol]]
        for other in group[:]:
            fewer = [s for s in group if s is not other]
            if other is not symbol and self({**start, **dict.fromkeys(fewer, size)}):
                group = fewer
        return group

    def _seek_limit(self, start: Env, group: list[Symbol], far: int) -> None:
        """Ask for the sizes next to where the equation fits no more."""
        fit, unfit = start[group[0]], far
        if self({**start, **dict.fromkeys(group, far)}):
            return
        while abs(fit - unfit) > 1:
            middle = (fit + unfit) // 2
            if self({**start, **dict.fromkeys(group, middle)}):
                fit = middle
            else:
                unfit = middle


def _terms(equation: Equation) -> tuple[list[dm.Dim], set[int]]:
    """The dims around an equation, numbers of elements and extents of slices: those with symbols,
    and the known ones."""
    shapes = [*map(_dims, _around(equation))]
    found: list[Any] = [d for dims in shapes for d in dims]
    found += map(dm.product, shapes)
    found += _values_in(equation.attrs)
    metas = tuple([a.meta for a in flat(equation.inputs)])
    found += slices.extents(equation.op, metas, equation.attrs)
    terms = {d.key: d for d in found if isinstance(d, dm.Dim) and dm.symbols(d)}
    return list(terms.values()), {0, 1, *(d for d in map(dm.product, shapes) if type(d) is int)}


def _around(equation: Equation) -> list[Any]:
    return [*flat(equation.inputs), *equation.variables]


def _dims(atom: Any) -> dm.Shape:
    dims: dm.Shape = atom.meta.dims
    return dims


def _values_in(values: Iterable[Any]) -> Iterator[Any]:
    """What tuples in tuples hold."""
    for value in values:
        if isinstance(value, tuple):
            yield from _values_in(value)
        else:
            yield value


def _candidates(equation: Equation, tried: _Tried) -> Iterator[list[Condition]]:
    """The conditions to choose from, those that readers know best first."""
    terms, counts = _terms(equation)
    if not tried.fit.any():
        return
    plain = [*filter(_is_plain, terms)][:_MOST_TERMS]
    for few in (plain, terms[:_MOST_TERMS]):
        sides, pairs = [*itertools.combinations(few, 2)], [*itertools.permutations(few, 2)]
        found = [Condition(a, "is", b) for a, b in sides]
        found += [Condition(a, "is", 0, n) for a in few for n in tried.fixed(a, 0) if n in counts]
        found += [Condition(a, "broadcasts with", b) for a, b in sides]
        found += [Condition(a, "spreads to", b) for a, b in pairs]
        found += [Condition(a, "is", b, n) for a, b in sides for n in tried.fixed(a, b)]
        found += [Condition(a, "from", 0, n) for a in few for n in tried.limit(a, 0, np.min)]
        found += [Condition(a, "to", 0, n) for a in few for n in tried.limit(a, 0, np.max)]
        yield found
        found = [Condition(a, "is", 0, n) for a in few for n in tried.fixed(a, 0)]
        found += [Condition(a, "from", b, n) for a, b in pairs for n in tried.limit(a, b, np.min)]
        found += [Condition(a, "has elements for", b) for a, b in pairs]
        found += [Condition(a, "is a multiple of", 0, n) for a in few for n in _parts(equation)]
        yield found


def _parts(equation: Equation) -> list[int]:
    """The numbers of parts that an equation may cut a dim into, as those in its attributes say."""
    named = {n for n in _values_in(equation.attrs) if type(n) is int and 1 < n < _SIZES[-2]}
    return sorted({*named, *(n * n for n in named)})


def _is_plain(dim: dm.Dim) -> bool:
    """Whether it is of one symbol, and of sums and products with numbers."""
    atoms = {atom for monomial, _ in dim.terms for atom in monomial}
    return len(atoms) == 1 and all(isinstance(atom, Symbol) for atom in atoms)


def _value(dim: DimLike, env: Env) -> float:
    """A dim for sizes; NaN where there is no such dim."""
    try:
        found = dm.substitute(dim, env)
    except PhixError:
        return np.nan
    return found if isinstance(found, int) else np.nan
