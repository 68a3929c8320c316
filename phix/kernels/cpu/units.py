"""The units that a module is compiled in, side by side: each has a part of its functions.

A function that no other takes in is compiled alike wherever it stands, so each may go into a unit
of its own; what calls it from another unit finds it by its name. What is small and may be taken in
stands in every unit that calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Characters of text that are worth a unit of their own, some 50 ms of LLVM's time; and the units
# of one module. They do not depend on the machine, so neither does the code.
_WORTH = 12_000
_MOST = 4

_FUNCTION = re.compile(r"^define [^@]*@([\w.$-]+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@([\w.$-]+)")
# What may stand in several units: what is declared, constants without an address that counts,
# attributes and metadata.
_IN_EACH = re.compile(r"declare |@[\w.$-]+ = private constant |attributes |!|$")
_APART, _HERE = "define internal ", "define hidden "


def divided(text: str) -> list[str]:
    """The texts of the units of a module, which is the first of them where it is small, or has
    variables."""
    functions = {m[1]: m[0] for m in _FUNCTION.finditer(text)}
    others = _FUNCTION.sub("", text).splitlines()
    movable = {name: body for name, body in functions.items() if _is_movable(body)}
    count = min(_MOST, sum(map(len, movable.values())) // _WORTH + 1, len(movable))
    if count < 2 or not all(map(_IN_EACH.match, others)):
        return [text]
    kept = functions.keys() - movable.keys()
    homes = _homes(movable, count, sum(len(functions[name]) for name in kept))
    roots = [[n for n, home in homes.items() if home == unit] for unit in range(count)]
    roots[0] += [name for name in functions if name in kept]
    calls = {name: set(_NAME.findall(body)) for name, body in functions.items()}
    return [_unit(functions, movable, calls, others, own) for own in roots]


def _is_movable(body: str) -> bool:
    """Whether a function of the module's own is taken in by no other: a kernel, say."""
    return body.startswith(_APART) and body.partition("\n")[0].endswith(") #0 {")


def _homes(movable: dict[str, str], count: int, before: int) -> dict[str, int]:
    """The unit of each function: the longest first, each goes where least is. The first unit
    begins with what stands there anyway."""
    loads, homes = [before, *[0] * (count - 1)], {}
    for name in sorted(movable, key=lambda name: -len(movable[name])):
        homes[name] = loads.index(min(loads))
        loads[homes[name]] += len(movable[name])
    return homes


def _unit(
    functions: dict[str, str],
    movable: dict[str, str],
    calls: dict[str, set[str]],
    others: list[str],
    own: list[str],
) -> str:
    """A unit with functions of its own, all that these need, and the names of those elsewhere."""
    inside = set(_reached(own, functions.keys() - movable.keys(), calls))
    named = set().union(*(calls[name] for name in inside))
    parts = []
    for name, body in functions.items():
        if name in inside:
            parts.append(body.replace(_APART, _HERE, 1) if name in movable else body)
        elif name in named:
            head = body.partition("\n")[0].removesuffix(" {")
            parts.append(head.replace(_APART, "declare hidden ", 1) + "\n")
    told = (
        line for line in others if not line.startswith(("declare ", "@")) or _is_of(line, named)
    )
    return "".join([*parts, *(f"{line}\n" for line in told)])


def _reached(own: Iterable[str], copied: Iterable[str], calls: dict[str, set[str]]) -> list[str]:
    """Functions, and those among the ``copied`` that they call, or that these do."""
    found, copied = list(own), set(copied)
    for name in found:  # which grows
        found += (calls[name] & copied).difference(found)
    return found


def _is_of(line: str, named: set[str]) -> bool:
    found = _NAME.search(line)
    return found is not None and found[1] in named
