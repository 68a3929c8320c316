"""Dims unknown at compile time: small integer expressions over named symbols.

A known dim is a plain int. An unknown dim is a :class:`Dim`, a polynomial with integer
coefficients over atoms; an atom is a :class:`Symbol` or one of the few functions shapes need
(``floordiv``, ``mod``, ``max``, ``min``, ``broadcast``). Polynomials are kept in a canonical
form, so two dims known to be equal compare equal however they were computed.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from phix.core.errors import ShapeError
from phix.core.records import dataclass
from phix.core.unknown_sizes import UnknownSize

_counter = itertools.count()


class Symbol:
    """One unknown size: named (``spec(["n"])``), anonymous (``spec([-1])``), learnt by jit, or
    computed by the program."""

    __slots__ = ("computed", "key", "learnt", "name", "number")

    def __init__(
        self, name: str | None = None, learnt: bool = False, computed: bool = False
    ) -> None:
        self.name, self.learnt, self.computed = name, learnt, computed
        self.number = next(_counter)
        self.key: tuple[Any, ...] = ("symbol", name or "", 0 if name else self.number)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbol) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


class Apply:
    """A function of dims that is no polynomial, such as ``floordiv(n, 2)``."""

    __slots__ = ("args", "fn", "key")

    def __init__(self, fn: str, args: tuple[DimLike, ...]) -> None:
        self.fn, self.args = fn, args
        self.key = ("apply", fn, tuple(_key(a) for a in args))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Apply) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


Atom = Union[Symbol, Apply]
Monomial = tuple[Atom, ...]


def _key(dim: DimLike) -> tuple[Any, ...]:
    return ("int", dim) if isinstance(dim, int) else dim.key


class Dim(UnknownSize):
    """An unknown dim. An int-like object: it adds, multiplies and divides, but has no value.

    Prints and compares as -1; ``int(dim)``, ``if dim:`` and ``range(dim)`` raise
    :class:`~phix.core.errors.UnknownDimError`. A run in which one is 0 that ``divides`` is refused.
    """

    __slots__ = ("divides", "key", "terms")

    def __init__(self, terms: dict[Monomial, int], divides: bool = False) -> None:
        self.divides = divides  # no part of the key: the size is the same
        nonzero = [(m, c) for m, c in terms.items() if c]
        if len(nonzero) > 1:
            nonzero.sort(key=lambda term: (-len(term[0]), [a.key for a in term[0]]))
        self.terms = tuple(nonzero)
        self.key = ("dim", tuple((tuple(a.key for a in m), c) for m, c in self.terms))

    # -- arithmetic ------------------------------------------------------------------------
    def __add__(self, other: Any) -> DimLike:
        if not isinstance(other, (int, Dim)):
            return self._inexact(operator.add, other)
        if isinstance(other, int) and other == 0 and not self.divides:
            return self
        terms = dict(self.terms)
        for monomial, c in _terms(other):
            terms[monomial] = terms.get(monomial, 0) + c
        return _simplest(terms)

    def __mul__(self, other: Any) -> DimLike:
        if not isinstance(other, (int, Dim)):
            return self._inexact(operator.mul, other)
        if isinstance(other, int):
            if other == 1 and not self.divides:
                return self
            return _simplest({m: c * other for m, c in self.terms})
        terms: dict[Monomial, int] = {}
        for (m1, c1), (m2, c2) in itertools.product(self.terms, other.terms):
            monomial = tuple(sorted(m1 + m2, key=lambda a: a.key)) if m1 and m2 else m1 or m2
            terms[monomial] = terms.get(monomial, 0) + c1 * c2
        return _simplest(terms)

    def __neg__(self) -> DimLike:
        return self * -1

    def __sub__(self, other: Any) -> DimLike:
        if not isinstance(other, (int, Dim)):
            return self._inexact(operator.sub, other)
        return self + (-other)

    def __rsub__(self, other: Any) -> DimLike:
        return (-self) + other

    def __floordiv__(self, other: Any) -> DimLike:
        if not isinstance(other, (int, Dim)):
            return self._inexact(operator.floordiv, other)
        return floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> DimLike:
        if not isinstance(other, int):
            return self._inexact(lambda x, y: y // x, other)
        return floordiv(other, self)

    def __mod__(self, other: Any) -> DimLike:
        if not isinstance(other, (int, Dim)):
            return self._inexact(operator.mod, other)
        quotient = divide_exact(self, other)
        return apply("mod", self, other) if quotient is None else 0

    __radd__ = __add__
    __rmul__ = __mul__

    # -- the value is unknown --------------------------------------------------------------
    @property
    def is_learnt(self) -> bool:
        return any(s.learnt for s in self.symbols())

    def as_text(self) -> str:
        return dim_text(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            if self.key != other.key:
                asker = self if self.is_learnt else other
                asker.refuse_outside(f"the comparison with {dim_text(other)!r}")
            return self.key == other.key
        if isinstance(other, int):
            if other == -1:
                return True
            raise self.no_value(f"the comparison with {other}")
        return NotImplemented

    def __hash__(self) -> int:
        self.refuse_outside("a hash")
        return hash(-1)  # equal to -1, so it must hash as -1

    # -- evaluation ------------------------------------------------------------------------
    def symbols(self) -> set[Symbol]:
        found: set[Symbol] = set()
        waiting: list[Any] = [self]
        seen: set[int] = set()  # many dims may hold one part
        while waiting:
            for atom in itertools.chain(*(m for m, _ in waiting.pop().terms)):
                if isinstance(atom, Symbol):
                    found.add(atom)
                elif id(atom) not in seen:
                    seen.add(id(atom))
                    waiting += [a for a in atom.args if isinstance(a, Dim)]
        return found


DimLike = Union[int, Dim]
Shape = tuple[DimLike, ...]


def _divided(divide: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def value(a: int, b: int) -> int:
        if b == 0:
            raise _no_quotient(f"{a} by 0")
        return divide(a, b)

    return value


def _no_quotient(what: str) -> ShapeError:
    return ShapeError(
        f"a dim is divided by a size that is 0 in this run ({what}), so it is not known (a "
        "-1 beside such a size in a shape?); write that dim out, or run without empty tensors"
    )


_FUNCTIONS: dict[str, Any] = {
    "floordiv": _divided(operator.floordiv),
    "mod": _divided(operator.mod),
    "max": max,
    "min": min,
}


def _broadcast_value(a: int, b: int) -> int:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    raise ShapeError(f"dims {a} and {b} do not broadcast: they must be equal, or one of them 1")


_FUNCTIONS["broadcast"] = _broadcast_value
FUNCTION_NAMES = frozenset(_FUNCTIONS)


def _terms(value: DimLike) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Dim) else (((), value),)


def _simplest(terms: dict[Monomial, int]) -> DimLike:
    left = {m: c for m, c in terms.items() if c}
    if not left:
        return 0
    if len(left) == 1 and () in left:
        return left[()]
    return Dim(left)


def symbol(name: str | None = None) -> Dim:
    """A new unknown dim; the same name always means the same size."""
    return Dim({(Symbol(name),): 1})


def learnt_symbol() -> Dim:
    """A new unknown dim, of an argument that was seen with two sizes."""
    return Dim({(Symbol(learnt=True),): 1})


def computed_symbol() -> Dim:
    """A new unknown dim, of a size that a program computes: none is made for a size of 0 alone."""
    return Dim({(Symbol(computed=True),): 1})


def is_computed(dim: DimLike) -> bool:
    return any(s.computed for s in symbols(dim))


def symbols(dim: DimLike) -> set[Symbol]:
    return dim.symbols() if isinstance(dim, Dim) else set()


def is_known(*dims: DimLike) -> bool:
    return all(isinstance(d, int) for d in dims)


def same(a: DimLike, b: DimLike) -> bool:
    """Whether the two are known to be equal (never raises, unlike ``a == b``)."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a.key == b.key


def same_shape(a: Shape, b: Shape) -> bool:
    if a is b:
        return True
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):  # noqa: SIM110 - called for every op: no generator
        if x is not y and not same(x, y):
            return False
    return True


def may_equal(a: DimLike, b: DimLike) -> bool:
    """False only where the two are known to differ."""
    difference = a - b
    return difference == 0 if isinstance(difference, int) else True


def may_hold(a: DimLike, b: DimLike) -> bool:
    """Whether ``b`` elements may lie in ``a``: False only where ``a`` is known to be less."""
    difference = a - b
    return difference >= 0 if isinstance(difference, int) else True


def is_one(dim: DimLike) -> bool:
    return isinstance(dim, int) and dim == 1


def is_zero(dim: DimLike) -> bool:
    return isinstance(dim, int) and dim == 0


def is_never_negative(dim: DimLike) -> bool:
    """Whether a number that dims were computed to is at least 0, whatever the sizes are."""
    if isinstance(dim, int):
        return dim >= 0
    return all(c >= 0 and all(isinstance(a, Symbol) for a in m) for m, c in dim.terms)


def apply(fn: str, *args: DimLike) -> DimLike:
    """``fn`` of the args: its value if all are known, else an opaque unknown dim."""
    if is_known(*args):
        return int(_FUNCTIONS[fn](*args))
    return Dim({(Apply(fn, args),): 1})


def divide_exact(a: DimLike, b: DimLike) -> DimLike | None:
    """``a / b`` where the division is known to leave no rest, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if same(a, b) else None
    monomial, coefficient = divisor[0]
    if not coefficient:
        return None
    terms: dict[Monomial, int] = {}
    for m, c in _terms(a):
        rest = list(m)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        terms[tuple(rest)] = c // coefficient
    return _simplest(terms)


def floordiv(a: DimLike, b: DimLike) -> DimLike:
    quotient = divide_exact(a, b)
    return apply("floordiv", a, b) if quotient is None else quotient


def maximum(a: DimLike, b: DimLike) -> DimLike:
    return a if same(a, b) else apply("max", a, b)


def minimum(a: DimLike, b: DimLike) -> DimLike:
    return a if same(a, b) else apply("min", a, b)


def product(dims: Shape) -> DimLike:
    total: DimLike = 1
    for d in dims:
        total = total * d
    return total


def known_product(dims: Shape) -> int | None:
    """The product of dims that are all known; None if one is not."""
    total = 1
    for d in dims:
        if not isinstance(d, int):
            return None
        total *= d
    return total


def broadcast(a: DimLike, b: DimLike) -> DimLike | None:
    """The dim two dims broadcast to; None where they are known not to."""
    if is_one(a) or same(a, b):
        return b
    if is_one(b):
        return a
    if is_known(a, b):
        return None
    # A known size beside an unknown one: the unknown is 1 or that size, so the result is known.
    if isinstance(a, int):
        return a
    if isinstance(b, int):
        return b
    return apply("broadcast", a, b)


def divisor(dim: DimLike) -> DimLike:
    """The dim, which another one was divided by: a run in which it is 0 is refused."""
    return dim if isinstance(dim, int) else Dim(dict(dim.terms), divides=True)


def substitute(
    dim: DimLike, env: Mapping[Symbol, DimLike], parts: dict[int, DimLike] | None = None
) -> DimLike:
    """``dim`` with each symbol of ``env`` replaced; an int once every symbol is one.

    ``parts`` has what became of the functions in it, by their ids: dims hold one many times.

    Raises:
        ShapeError: it divides another dim, and is 0.
    """
    if isinstance(dim, int):
        return dim
    parts = {} if parts is None else parts
    if dim.divides:
        found = substitute(Dim(dict(dim.terms)), env, parts)
        if is_zero(found):
            raise _no_quotient(dim_text(dim))
        return divisor(found)
    total: DimLike = 0
    for monomial, coefficient in dim.terms:
        term: DimLike = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                value = env.get(atom)
                term = term * (Dim({(atom,): 1}) if value is None else value)
                continue
            if id(atom) not in parts:
                args = [substitute(a, env, parts) for a in atom.args]
                is_quotient = atom.fn == "floordiv"
                parts[id(atom)] = floordiv(*args) if is_quotient else apply(atom.fn, *args)
            term = term * parts[id(atom)]
        total = total + term
    return total


@dataclass(frozen=True)
class Solution:
    """A symbol is (size of the shape's axis - rest) / factor."""

    number: int  # of the shape
    axis: int
    factor: int
    rest: int


def solutions(shapes: Sequence[Shape]) -> dict[Symbol, Solution]:
    """Where sizes of shapes tell the symbols in them; none for those in no linear dim."""
    found: dict[Symbol, Solution] = {}
    for number, shape in enumerate(shapes):
        for axis, dim in enumerate(shape):
            linear = _linear(dim)
            if linear is None:
                continue
            symbol, factor, rest = linear
            known = found.get(symbol)
            plain = (factor, rest) == (1, 0)
            if known is None or (plain and (known.factor, known.rest) != (1, 0)):
                found[symbol] = Solution(number, axis, factor, rest)
    return found


def _linear(dim: DimLike) -> tuple[Symbol, int, int] | None:
    """The symbol, factor and rest of a dim that is factor * symbol + rest."""
    if isinstance(dim, int):
        return None
    rest = factor = 0
    symbol = None
    for monomial, coefficient in dim.terms:
        if not monomial:
            rest = coefficient
        elif len(monomial) == 1 and isinstance(monomial[0], Symbol) and symbol is None:
            symbol, factor = monomial[0], coefficient
        else:
            return None
    return None if symbol is None else (symbol, factor, rest)


Names = Mapping[Symbol, str]


def dim_text(dim: DimLike, names: Names | None = None) -> str:
    """How a dim prints: its number, its expression if every symbol has a name, else -1.

    ``names`` gives names to symbols that have none of their own.
    """
    if isinstance(dim, int):
        return str(dim)
    names = names or {}
    if not all(s.name or s in names for s in symbols(dim)):
        return "-1"
    text = ""
    for monomial, c in dim.terms:
        factors = [_atom_text(a, names) for a in monomial]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        sign = "-" if c < 0 else "+" if text else ""
        text += sign + "*".join(factors)
    return text


def _atom_text(atom: Atom, names: Names) -> str:
    if isinstance(atom, Symbol):
        return atom.name or names[atom]
    return f"{atom.fn}({', '.join(dim_text(a, names) for a in atom.args)})"


def shape_text(shape: Shape, names: Names | None = None) -> str:
    return "[" + ", ".join(dim_text(d, names) for d in shape) + "]"
