"""What is hardly ever needed, computed apart: vectors step over it.

``rarely(c, x, y)`` is a choice whose ``x`` costs much. Of a choice LLVM computes both for every
element; of a loop with a branch it makes no vectors. So it sees a call without effects, and is told
by an attribute of functions that do the same to vectors:

    %r = call double @rare_0(i1 %c, double %y, double %a) #5
    %r = call <8 x double> @rare_0.8(<8 x i1> %c, <8 x double> %y, <8 x double> %a)

What these do it learns when its loops stand. Each looks whether any lane needs ``x``, and has it
computed for such lanes, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from phix.core import dtypes as dt
from phix.core.digests import sha256
from phix.core.records import dataclass
from phix.kernels.cpu import instructions as ins
from phix.kernels.cpu import jit, units
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import Expr

_DECLARED = re.compile(rf"declare (\w+) @({units.RARE}\w+)\(([\w, ]+)\) #1")
_PURE, _ATTRIBUTE = "nounwind willreturn memory(none)", "vector-function-abi-variant"
# What is made again sooner than it is handed over.
_CHEAP = frozenset({"fabs", "neg", "bitcast", "cast"})
_HARDLY_EVER = '!0 = !{!"branch_weights", i32 1, i32 1048575}'
# Of the elements of a loop the widest tell how many lanes it has; they have so many bytes at least.
_NARROWEST = 4


@dataclass(frozen=True)
class Rare:
    """A choice: ``name`` is the function's, ``operands`` what it is called with: the condition, the
    usual value, and what the costly one is made of."""

    name: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class _Apart:
    """The text of what computes a costly value, what that calls, and the types of the value and of
    what it is made of."""

    text: str
    declarations: set[str]
    kinds: list[str]


_APART: dict[str, _Apart] = {}  # by the names of functions


def of(choice: Expr) -> Rare:
    """The function for a choice; its name hangs on nothing but what is computed."""
    condition, costly, usual = choice.args
    given = _given(costly, _all((condition, usual)))
    kinds = [ins.TYPES[e.dtype] for e in (usual, *given)]
    body = _Body()
    value = bottom_up(costly, {e: f"%x{k}" for k, e in enumerate(given, 1)}, body.compute)
    text = _of_lanes(kinds, body.lines, value)
    name = f"{units.RARE}{sha256(text.encode()).hexdigest()[:12]}"
    _APART[name] = _Apart(text.replace("@NAME", f"@{name}"), body.declarations, kinds)
    return Rare(name, (condition, usual, *given))


def _all(roots: Iterable[Expr]) -> set[Expr]:
    """Expressions, and all that they are made of."""
    found, stack = set[Expr](), list(roots)
    while stack:
        e = stack.pop()
        if e not in found:
            found.add(e)
            stack.extend(e.args)
    return found


def _given(costly: Expr, known: set[Expr]) -> list[Expr]:
    """What the costly value is made of: what is at hand, for the usual one is made of it as well,
    and what comes from memory."""
    found, seen, stack = list[Expr](), set[Expr](), [costly]
    while stack:
        e = stack.pop()
        if e in seen or e.fn == "const":
            continue
        seen.add(e)
        is_at_hand = e in known and e.dtype != dt.bool_ and e.fn not in _CHEAP
        if e.fn in ("load", "var") or is_at_hand:
            found.append(e)
        else:
            stack.extend(reversed(e.args))
    return found


class _Body:
    """Prints what computes a costly value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations = {"declare i64 @llvm.cttz.i64(i64, i1)"}

    def let(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, text: str) -> None:
        self.declarations.add(text.removesuffix(" #1"))

    def compute(self, e: Expr, operands: list[str]) -> str:
        if e.fn == "const":
            return ins.constant(e.data, e.dtype)
        return ins.emit(self, e, operands, None)


# -- calls -----------------------------------------------------------------------------------------
def called(p: ins.Printer, function: Rare, operands: Sequence[str]) -> str:
    """A call for one element."""
    kinds = [ins.TYPES[e.dtype] for e in function.operands]
    p.declare(f"declare {kinds[1]} @{function.name}({', '.join(kinds)}) #1")
    given = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, operands))
    return p.let(f"call {kinds[1]} @{function.name}({given})")


# A function that LLVM knows for one element: its type, its name, the types of what it takes, and
# the names of those for vectors, by their lanes.
Variants = tuple[str, str, list[str], dict[int, str]]


def told(
    bodies: Sequence[str], declarations: Iterable[str], first: int, more: Iterable[Variants] = ()
) -> tuple[list[str], list[str]]:
    """Bodies of functions in which calls of what is rare, and of more, tell LLVM of vectors of what
    they call, and the lines that declare these; attributes are numbered from ``first`` on."""
    bodies, lines, names = list(bodies), list[str](), list[str]()
    found = [_variants(m) for m in map(_DECLARED.fullmatch, sorted(declarations)) if m]
    for kind, _, kinds, variants in found:
        for lanes, name in variants.items():
            given = ", ".join(f"<{lanes} x {each}>" for each in kinds)
            lines.append(f"declare <{lanes} x {kind}> @{name}({given})")
    for number, (kind, name, kinds, variants) in enumerate([*found, *more], first):
        every = ",".join(
            f"_ZGV_LLVM_N{lanes}{'v' * len(kinds)}_{name}({variant})"
            for lanes, variant in variants.items()
        )
        names += variants.values()
        lines.append(f'attributes #{number} = {{ {_PURE} "{_ATTRIBUTE}"="{every}" }}')
        call = re.compile(rf"(?m)( = call {kind} @{name}\([^)]*\))$")
        bodies = [call.sub(rf"\1 #{number}", body) for body in bodies]
    return bodies, lines + _kept(names)


def _variants(declared: re.Match[str]) -> Variants:
    kind, name, taken = declared.groups()
    return kind, name, taken.split(", "), {n: f"{name}.{n}" for n in _lane_counts()}


def _lane_counts() -> list[int]:
    """How many lanes a vector of a loop may have: those of a register, and half as many, ..."""
    lanes, found = jit.vector_registers()[0] // _NARROWEST, []
    while lanes > 1:
        found.append(lanes)
        lanes //= 2
    return found


def _kept(names: Sequence[str]) -> list[str]:
    """What keeps functions that nobody calls yet until loops are made vectors: by then LLVM forgets
    what a variable holds that is available elsewhere, as this one is said to be."""
    if not names:
        return []
    every = ", ".join(f"ptr @{name}" for name in names)
    return [
        f"@kept = available_externally global [{len(names)} x ptr] [{every}]",
        '@llvm.compiler.used = appending global [1 x ptr] [ptr @kept], section "llvm.metadata"',
    ]


# -- functions -------------------------------------------------------------------------------------
def definitions(declarations: Iterable[str]) -> str:
    """What is put behind the text of a module with such declarations; empty where none is rare."""
    names = sorted(m[2] for m in map(_DECLARED.fullmatch, declarations) if m)
    if not names:
        return ""
    needs = set[str]().union(*(_APART[name].declarations for name in names))
    parts = [part for name in names for part in (_APART[name].text, *_stepping_over(name))]
    return units.MARK + "\n".join([*parts, *sorted(needs), _HARDLY_EVER, ""])


def _of_lanes(kinds: list[str], lines: list[str], value: str) -> str:
    """The function that computes a costly value for each lane whose bit is set; vectors are in
    memory. It may be slow, and so LLVM is to be quick about it."""
    every = range(len(kinds))
    places = ", ".join(f"ptr %p{k}" for k in every)
    return "\n".join([
        f"define internal void @NAME.apart(i64 %bits, {places}) noinline optnone cold nounwind {{",
        "entry:", "  br label %next",
        "next:", "  %left = phi i64 [%bits, %entry], [%rest, %next]",
        "  %k = call i64 @llvm.cttz.i64(i64 %left, i1 true)",
        *(f"  %at{k} = getelementptr {_kept_as(kinds[k])}, ptr %p{k}, i64 %k" for k in every),
        *(line for k in every[1:] for line in _loaded(k, kinds[k])),
        *lines,
        f"  store {kinds[0]} {value}, ptr %at0",
        "  %less = sub i64 %left, 1", "  %rest = and i64 %left, %less",
        "  %more = icmp ne i64 %rest, 0", "  br i1 %more, label %next, label %end",
        "end:", "  ret void", "}",
    ])  # fmt: skip


def _stepping_over(name: str) -> list[str]:
    """The functions that step over it: for one element, and for vectors."""
    kinds = _APART[name].kinds
    scalar = _stepping(name, name, kinds, "i1", "i1")
    return [scalar, *(
        _stepping(name, f"{name}.{n}", [f"<{n} x {k}>" for k in kinds], f"<{n} x i1>", f"i{n}")
        for n in _lane_counts()
    )]  # fmt: skip


def _stepping(name: str, title: str, kinds: list[str], flags: str, bits: str) -> str:
    every = range(len(kinds))
    taken = ", ".join(f"{kinds[k]} %x{k}" for k in every)
    return "\n".join([
        f"define available_externally {kinds[0]} @{title}({flags} %c, {taken}) alwaysinline {{",
        "entry:",
        *(f"  %p{k} = alloca {_kept_as(kinds[k])}" for k in every),
        f"  %sure = freeze {flags} %c",  # lanes past the end of a loop have no values
        f"  %mask = bitcast {flags} %sure to {bits}",
        f"  %any = icmp ne {bits} %mask, 0",
        "  br i1 %any, label %apart, label %end, !prof !0",
        "apart:",
        *(line for k in every for line in _stored(k, kinds[k])),
        f"  %bits = zext {bits} %mask to i64",
        f"  call void @{name}.apart(i64 %bits, {', '.join(f'ptr %p{k}' for k in every)})",
        f"  %found = load {kinds[0]}, ptr %p0", "  br label %end",
        "end:", f"  %value = phi {kinds[0]} [%x0, %entry], [%found, %apart]",
        f"  ret {kinds[0]} %value", "}",
    ])  # fmt: skip


# In memory, a vector of flags would be one of bits, which have no addresses.
def _kept_as(kind: str) -> str:
    return re.sub(r"\bi1\b", "i8", kind)


def _stored(k: int, kind: str) -> list[str]:
    kept = _kept_as(kind)
    if kept == kind:
        return [f"  store {kind} %x{k}, ptr %p{k}"]
    return [f"  %w{k} = zext {kind} %x{k} to {kept}", f"  store {kept} %w{k}, ptr %p{k}"]


def _loaded(k: int, kind: str) -> list[str]:
    kept = _kept_as(kind)
    if kept == kind:
        return [f"  %x{k} = load {kind}, ptr %at{k}"]
    return [f"  %w{k} = load {kept}, ptr %at{k}", f"  %x{k} = trunc {kept} %w{k} to {kind}"]
