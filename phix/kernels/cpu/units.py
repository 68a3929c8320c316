"""The units that a module is compiled in, side by side: each has a part of its functions.

A function that no other takes in is compiled alike wherever it stands, so each may go into a unit
of its own; what calls it from another unit finds it by its name. What is small and may be taken in
stands in every unit that calls it. Functions whose vectors and loops stand in their text are in
units of their own, which are compiled in half of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phix.core.records import dataclass

# Attributes of functions that no other takes in: of kernels, and of such that are written out.
KERNEL, WRITTEN_OUT = "#0", "#4"
# Those of kernels that the steps of a loop take in, and of what any function takes in, which has
# its attributes from then on: so nothing is said there that is meant for small loops alone.
OF_STEPS, TAKEN_IN = "#3", "#5"

# Characters of text that are worth a unit, some 50 ms of LLVM's time, and the most units of
# functions with an attribute. They do not depend on the machine, so neither does the code.
_WORTH = {KERNEL: 12_000, WRITTEN_OUT: 24_000}
_MOST = {KERNEL: 4, WRITTEN_OUT: 2}
_LEAST_WRITTEN_OUT = 4000
# Those of text all of which is written out, a library's: more would slow down who asks for it.
_WORTH_OF_LIBRARY, _MOST_OF_LIBRARY = 100_000, 2

_FUNCTION = re.compile(r"^define [^@]*@([\w.$-]+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@([\w.$-]+)")
# Between the text of a module and that of functions which join it behind LLVM's passes, and what
# the names of these begin with: see ``rare``.
MARK, RARE = "\n; -- functions that join these when loops are vectors --\n", "rare_"
REPEATED = "repeated_"  # what the names of functions begin with that loops call: see ``repeated``
# What keeps functions that are called later; it stands in every unit, and so do their names.
_KEPT = re.compile(r"@kept = |@llvm.compiler.used = ")
# What may stand in several units: that, what is declared, constants whose addresses do not count,
# attributes and metadata.
_IN_EACH = re.compile(rf"{_KEPT.pattern}|declare |@[\w.$-]+ = private constant |attributes |!|$")
_APART, _HERE, _ELSEWHERE = "define internal ", "define hidden ", "declare hidden "


@dataclass(frozen=True)
class Unit:
    """``is_final``: LLVM has but to find registers, see ``compiler._optimise``."""

    text: str
    is_final: bool = False


def divided(text: str, is_final: bool = False) -> list[Unit]:
    """The units of a module. It is one itself where it is small, or a program's with variables;
    of a library, what names a variable stays together."""
    own, mark, late = text.partition(MARK)
    functions = {m[1]: m[0] for m in _FUNCTION.finditer(own)}
    others = _FUNCTION.sub("", own).splitlines()
    kernels, written = (_with(mark, functions) for mark in (KERNEL, WRITTEN_OUT))
    bounds = (_WORTH_OF_LIBRARY, _MOST_OF_LIBRARY) if is_final else (_WORTH[KERNEL], _MOST[KERNEL])
    count = _count(kernels, *bounds)
    is_long = _length(written) >= _LEAST_WRITTEN_OUT
    apart = _count(written, _WORTH[WRITTEN_OUT], _MOST[WRITTEN_OUT]) if is_long else 0
    variables = {
        name for line in others if not _IN_EACH.match(line) for name in _NAME.findall(line)
    }
    if count + apart < 2 or (variables and not is_final):
        return [Unit(text, is_final)]
    if not apart:
        kernels |= written
    module = _Module(functions, others, kernels.keys() | written.keys(), mark + late)
    kept = [n for n in functions if n not in module.apart or variables & module.calls[n]]
    free = {name: body for name, body in kernels.items() if name not in kept}
    first, *rest = _dealt(free, count, sum(len(functions[name]) for name in kept))
    found = [Unit(module.unit(own), is_final) for own in ([*kept, *first], *rest)]
    return found + [Unit(module.unit(own), True) for own in _dealt(written, apart)]


def _with(mark: str, functions: dict[str, str]) -> dict[str, str]:
    """The functions of a module's own with an attribute."""
    ends = f") {mark} {{", f") noinline {mark} {{"
    each = ((n, body) for n, body in functions.items() if body.startswith(_APART))
    return {name: body for name, body in each if body.partition("\n")[0].endswith(ends)}


def _length(functions: dict[str, str]) -> int:
    return sum(map(len, functions.values()))


def _count(functions: dict[str, str], worth: int, most: int) -> int:
    """How many units functions are worth, one at least."""
    return max(1, min(most, _length(functions) // worth + 1, len(functions)))


def _dealt(functions: dict[str, str], count: int, before: int = 0) -> list[list[str]]:
    """The functions of each unit: the longest first, each goes where least is. The first unit
    begins with so much."""
    loads = [before, *[0] * (count - 1)]
    units: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(functions, key=lambda name: -len(functions[name])) if count else ():
        least = loads.index(min(loads))
        units[least].append(name)
        loads[least] += len(functions[name])
    return units


class _Module:
    """``apart``: the functions that stand in one unit alone; ``others``: all other lines; ``late``:
    what joins those that call something rare."""

    def __init__(
        self, functions: dict[str, str], others: list[str], apart: set[str], late: str
    ) -> None:
        self.functions, self.others, self.apart, self.late = functions, others, apart, late
        self.kept = {n for line in others if _KEPT.match(line) for n in _NAME.findall(line)}
        self.calls = {name: set(_NAME.findall(body)) for name, body in functions.items()}

    def unit(self, own: list[str]) -> str:
        """Functions, all that they need, and the names of those that are elsewhere."""
        inside = self._with_needs(own)
        named = set[str]().union(*(self.calls[name] for name in inside))
        is_rare = any(name.startswith(RARE) for name in named)
        if is_rare or any(name.startswith(REPEATED) for name in named):
            named |= self.kept
        parts = []
        for name, body in self.functions.items():
            if name in inside:
                parts.append(body.replace(_APART, _HERE, 1) if name in self.apart else body)
            elif name in named:
                head = body.partition("\n")[0].removesuffix(" {")
                parts.append(head.replace(_APART, _ELSEWHERE, 1) + "\n")
        lines = (f"{line}\n" for line in self.others if _is_for(line, named))
        return "".join([*parts, *lines, self.late if is_rare else ""])

    def _with_needs(self, own: Iterable[str]) -> set[str]:
        """Functions, and those that they call and that may stand in several units."""
        found = list(own)
        for name in found:  # which grows
            near = self.calls[name] & (self.functions.keys() - self.apart)
            found += sorted(near.difference(found))
        return set(found)


def _is_for(line: str, named: set[str]) -> bool:
    """Whether a line is for a unit that names these."""
    found = _NAME.search(line) if line.startswith(("declare ", "@")) else None
    return found is None or found[1] in named
