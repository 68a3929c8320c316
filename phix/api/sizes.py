"""Sizes that nobody has to name: which dims of the arguments vary, found by seeing them vary.

Calls of one structure, and of the same dtypes and ranks, have a :class:`Pattern`: which of their
dims had two sizes, and which were equal in every call. A program is made for a pattern, with a
symbol for each dim that varies. Sizes 0 and 1 are apart from all others, since tensors of those
are empty, or broadcast: a dim that has one of them is known in the program, and no other call's.

A function that asks for the value of such a dim, or cannot be traced with it, is traced with the
size: the pattern knows of each dim where it was read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from phix.api.retracing import CallKind
from phix.core import dims as dm
from phix.core import disk_cache
from phix.core.dims import Dim
from phix.core.dtypes import name_of
from phix.core.errors import UnknownDimError
from phix.core.meta import MetaTensor
from phix.core.records import dataclass, field

_APART = (0, 1)


@dataclass(frozen=True)
class Pattern:
    """What the calls of a kind had in common. A dim is named by its number among those that are
    neither 0 nor 1, in the order of the arguments."""

    sizes: tuple[int, ...]  # of the first call
    groups: tuple[int, ...]  # of each dim, the first that was equal to it in every call
    varying: frozenset[int] = frozenset()  # those that had another size than in the first call
    read: Mapping[int, str] = field(default_factory=dict)  # those known all the same, and why

    def joined(self, sizes: tuple[int, ...]) -> Pattern:
        """The pattern of these calls and one more."""
        first: dict[tuple[int, int], int] = {}
        pairs = zip(self.groups, sizes)
        groups = tuple([first.setdefault(pair, number) for number, pair in enumerate(pairs)])
        other = {n for n, (a, b) in enumerate(zip(self.sizes, sizes)) if a != b}
        return dataclasses.replace(self, groups=groups, varying=self.varying | other)

    def reading(self, numbers: frozenset[int], why: str) -> Pattern:
        """The pattern where dims are known after all, with those that are equal to them."""
        groups = {self.groups[n] for n in numbers}
        read = {n: why for n, group in enumerate(self.groups) if group in groups}
        return dataclasses.replace(self, read={**self.read, **read})

    @property
    def unknown(self) -> frozenset[int]:
        """The dims that programs leave open."""
        return self.varying - set(self.read)


class Sizes:
    """The patterns of the calls of one function, by their kind."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._patterns: dict[Any, Pattern] = {}
        self._symbols: dict[int, Dim] = {}  # the same in all patterns, so that traces are found

    def of(self, call: CallKind) -> Pattern:
        """The pattern of the calls so far and this one; it is kept once that call succeeded."""
        sizes = tuple(_sizes(call.metas))
        known = self._patterns.get(_kind(call)) or self._load(call, sizes)
        return Pattern(sizes, _groups(sizes)) if known is None else known.joined(sizes)

    def keep(self, call: CallKind, pattern: Pattern) -> None:
        """Remember the pattern, in other processes too where it says that a dim varies."""
        kind = _kind(call)
        if pattern == self._patterns.get(kind):
            return
        self._patterns[kind] = pattern
        if pattern.varying and (key := self._key(call)) is not None:
            import json  # for what is kept and found on disk alone

            # not what was read: what the function calls may have been written anew
            kept = {
                "sizes": pattern.sizes, "groups": pattern.groups,
                "varying": sorted(pattern.varying),
            }  # fmt: skip
            disk_cache.save(key, json.dumps(kept).encode())

    def opened(self, metas: Sequence[MetaTensor], pattern: Pattern) -> tuple[MetaTensor, ...]:
        """The metas of a call with a symbol for each dim that the pattern leaves open."""
        numbers = iter(range(len(pattern.groups)))

        def dim(size: Any) -> Any:
            if size in _APART:
                return size
            number = next(numbers)
            return self._symbol(pattern.groups[number]) if number in pattern.unknown else size

        return tuple([m.with_dims([dim(d) for d in m.dims]) for m in metas])

    def without(self, pattern: Pattern, error: Exception) -> Pattern:
        """The pattern for a function that could not be traced: fewer dims are left open."""
        why = getattr(error, "need", "") or str(error).partition("\n")[0] or type(error).__name__
        asked = error.dim if isinstance(error, UnknownDimError) else 0
        numbers = {s: n for n, d in self._symbols.items() for s in d.symbols()}
        found = {numbers[s] for s in dm.symbols(asked) if s in numbers} & pattern.unknown
        return pattern.reading(frozenset(found) or pattern.unknown, why)

    def note(self, call: CallKind) -> str:
        """What becomes of the dims that vary in calls of this kind, as a sentence or two."""
        pattern = self._patterns.get(_kind(call))
        if pattern is None or not pattern.varying:
            return ""
        read = dict.fromkeys(pattern.read[n] for n in sorted(pattern.read))
        parts = [f"A dim that varies has a program for each of its sizes: {why}" for why in read]
        if pattern.unknown:
            parts.insert(0, "From now on one program serves all sizes of the dims that varied")
        return f". {'. '.join(parts)}"

    def _symbol(self, group: int) -> Dim:
        return self._symbols.setdefault(group, dm.learnt_symbol())

    # -- other processes ---------------------------------------------------------------------
    def _load(self, call: CallKind, sizes: tuple[int, ...]) -> Pattern | None:
        """What another process learnt, if there is such."""
        key = self._key(call)
        found = disk_cache.load(key) if key is not None and disk_cache.has(key) else None
        if found is None:
            return None
        import json

        kept = json.loads(found)
        if len(kept["groups"]) != len(sizes):
            return None
        return Pattern(tuple(kept["sizes"]), tuple(kept["groups"]), frozenset(kept["varying"]))

    def _key(self, call: CallKind) -> str | None:
        """The name on disk; None where the function has no code that tells it from others."""
        from phix.core.digests import sha256

        code, source = _identity(self._function), disk_cache.source_digest()
        if code is None or source is None:
            return None
        treedef, static, *kinds = _kind(call)
        text = repr((source, code, str(treedef), str(static), kinds))
        return f"sizes-{sha256(text.encode()).hexdigest()}"


def _kind(call: CallKind) -> tuple[Any, ...]:
    """What calls have in common that one pattern is about."""
    kinds = [(name_of(m.dtype), *[d if d in _APART else None for d in m.dims]) for m in call.metas]
    return (call.treedef, call.static, tuple(kinds), *call.around())


def _sizes(metas: Sequence[MetaTensor]) -> Iterator[int]:
    return (d for m in metas for d in m.dims if isinstance(d, int) and d not in _APART)


def _groups(sizes: Sequence[int]) -> tuple[int, ...]:
    first: dict[int, int] = {}
    return tuple([first.setdefault(size, number) for number, size in enumerate(sizes)])


def _identity(function: Any) -> tuple[Any, ...] | None:
    """Where a function is written, through what wraps it; None for other callables."""
    parts: list[Any] = []
    while callable(function):
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        line = code.co_firstlineno
        parts.append((function.__module__, function.__qualname__, line, code.co_code.hex()))
        function = getattr(function, "__wrapped__", None)
    return tuple(parts)
