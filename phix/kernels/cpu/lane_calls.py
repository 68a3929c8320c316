"""C math functions in loops of vectors: LLVM makes vectors of all around a call, and the call goes
lane by lane.

One call of ``fmod`` would keep a whole loop from being vectors. LLVM is told of a function that
does the same to a vector, by an attribute of the call. Loops with little beside their calls are
left alone: taking vectors apart costs a cycle or two a lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from phix.kernels.cpu import jit

_FUNCTIONS = frozenset({"pow", "fmod", "powf", "fmodf"})
_DECLARED = re.compile(r"declare (float|double) @(\w+)\(([\w, ]+)\) #1")
_LEAST_LINES = 40  # of a kernel's text, for each call in it
_BYTES = {"float": 4, "double": 8}
_PURE, _ATTRIBUTE = "nounwind willreturn memory(none)", "vector-function-abi-variant"


def spread(
    bodies: Sequence[str], declarations: Iterable[str], first: int
) -> tuple[list[str], list[str]]:
    """Bodies of functions in which calls tell LLVM of vectors of what they call, and the lines that
    define these; attributes are numbered from ``first`` on."""
    told, lines, names = list(bodies), list[str](), list[str]()
    every = (_DECLARED.fullmatch(line) for line in sorted(declarations))
    pays = [f for f in every if f is not None and f[2] in _FUNCTIONS and _pays(bodies, f[2])]
    for number, found in enumerate(pays):
        kind, name, count = found[1], found[2], 1 + found[3].count(",")
        made = {n: f"{name}.lanes{n}" for n in _lane_counts(kind)}
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * count}_{name}({f})" for n, f in made.items())
        attribute = f"#{first + number}"
        call = re.compile(rf"(?m)( = call {kind} @{name}\([^)]*\))$")
        told = [call.sub(rf"\1 {attribute}", body) for body in told]
        lines.append(f'attributes {attribute} = {{ {_PURE} "{_ATTRIBUTE}"="{variants}" }}')
        lines += [_by_lanes(kind, name, count, n, f) for n, f in made.items()]
        names += made.values()
    return told, lines + _kept(names)


def _pays(bodies: Sequence[str], name: str) -> bool:
    """Whether a body has much beside its calls of a function."""
    counts = ((text.count(f"@{name}("), text.count("\n")) for text in bodies)
    return any(calls and lines >= _LEAST_LINES * calls for calls, lines in counts)


def _lane_counts(kind: str) -> list[int]:
    """The lanes that a vector of a loop may have: those of a register, and half as many, ..."""
    lanes, found = jit.vector_registers()[0] // _BYTES[kind], []
    while lanes > 1:
        found.append(lanes)
        lanes //= 2
    return found


def _by_lanes(kind: str, name: str, count: int, lanes: int, title: str) -> str:
    """A function of ``count`` vectors that calls another for each lane.

    These calls tell LLVM of nothing: as vectors they would be calls of this function."""
    vector, lines, result = f"<{lanes} x {kind}>", [], "poison"
    for k in range(lanes):
        lines += [f"  %x{a}.{k} = extractelement {vector} %x{a}, i64 {k}" for a in range(count)]
        given = ", ".join(f"{kind} %x{a}.{k}" for a in range(count))
        lines.append(f"  %y{k} = call {kind} @{name}({given})")
        lines.append(f"  %r{k} = insertelement {vector} {result}, {kind} %y{k}, i64 {k}")
        result = f"%r{k}"
    taken = ", ".join(f"{vector} %x{a}" for a in range(count))
    body = "\n".join([*lines, f"  ret {vector} {result}"])
    return f"define internal {vector} @{title}({taken}) noinline {_PURE} {{\n{body}\n}}"


def _kept(names: list[str]) -> list[str]:
    """What keeps functions that nobody calls yet."""
    if not names:
        return []
    kept = f"[{len(names)} x ptr] [{', '.join(f'ptr @{name}' for name in names)}]"
    return [f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"']
