"""Extremes of floats along rows, found as extremes of ints of the same order.

An extreme of floats that loses no NaN, and knows -0 from 0, takes an x86 five instructions, each
of which waits for the one before, and more across a vector at the end of a row. The bits of a
float, the lower ones turned where the sign is set, are an int that is ordered as the floats are:
such keys are made side by side, and one instruction waits for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.cpu import jit
from phix.kernels.cpu.instructions import TYPES
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, Declare, For, Statement
from phix.kernels.scalar.language import Expr

_EXTREMES = ("maximum", "minimum")


@dataclass(frozen=True)
class Extreme:
    """``target = fn(target, element)``."""

    target: Expr
    element: Expr
    fn: str


def of(loop: For) -> list[Extreme]:
    """What a loop finds, if that is nothing but extremes that are found sooner as those of ints."""
    if loop.kind != "reduction" or not loop.body or _extreme(loop.body[0]) is None:
        return []
    every = [_extreme(s) for s in loop.body]
    found = [e for e in every if e is not None and e.target.dtype in jit.dtypes_with_keys()]
    if len(found) != len(loop.body):
        return []
    targets = {e.target for e in found}
    read = ir.expressions([Declare(e.element, e.element) for e in found])
    is_apart = len(targets) == len(found) and targets.isdisjoint(read)
    return found if is_apart else []


def _extreme(step: Statement) -> Extreme | None:
    if not isinstance(step, Assign) or len(step.targets) != 1:
        return None
    (target,), (value,) = step.targets, step.values
    others = [a for a in value.args if a is not target]
    if value.fn not in _EXTREMES or len(others) != 1:
        return None
    return Extreme(target, others[0], value.fn)


# -- keys ------------------------------------------------------------------------------------------


def _types(found: Extreme) -> tuple[str, str]:
    """The types of a key and of a float."""
    is_single = found.target.dtype == dt.float32
    return ("i32", "float") if is_single else ("i64", "double")


def elements(found: Extreme) -> Iterator[Expr]:
    """What the extreme is of, in each turn."""
    left = [found.element]
    while left:
        e = left.pop()
        if e.fn == found.fn:
            left += reversed(e.args)
        else:
            yield e


def begin(p: Any, found: Extreme, value: str) -> str:
    """Memory for a key, on the stack, which begins as that of a value."""
    p.count += 1
    slot, (kind, _) = f"%key{p.count}", _types(found)
    p.head.append(f"  {slot} = alloca {kind}")
    p.lines.append(f"  store {kind} {_key(p, found, value)}, ptr {slot}")
    return slot


def take(p: Any, found: Extreme, slot: str, values: list[str]) -> None:
    """Let values take part."""
    kind, name = _types(found)[0], "smax" if found.fn == "maximum" else "smin"
    p.declare(f"declare {kind} @llvm.{name}.{kind}({kind}, {kind})")
    keys = [_key(p, found, value) for value in values]
    for k in (*keys[1:], p.let(f"load {kind}, ptr {slot}")):
        keys[0] = p.let(f"call {kind} @llvm.{name}.{kind}({kind} {k}, {kind} {keys[0]})")
    p.lines.append(f"  store {kind} {keys[0]}, ptr {slot}")


def end(p: Any, found: Extreme, slot: str) -> str:
    """The float whose key there is; of NaN's key NaN."""
    kind, of_float = _types(found)
    bits = _turned(p, kind, p.let(f"load {kind}, ptr {slot}"))
    return str(p.let(f"bitcast {kind} {bits} to {of_float}"))


def _key(p: Any, found: Extreme, value: str) -> str:
    """The key of a float: NaN's is beyond all others."""
    kind, of_float = _types(found)
    bits = _turned(p, kind, p.let(f"bitcast {of_float} {value} to {kind}"))
    range_of = np.iinfo(f"int{kind[1:]}")
    beyond = range_of.max if found.fn == "maximum" else range_of.min
    is_nan = p.let(f"fcmp uno {of_float} {value}, {value}")
    return str(p.let(f"select i1 {is_nan}, {kind} {beyond}, {kind} {bits}"))


def _turned(p: Any, kind: str, bits: str) -> str:
    """Bits of a float as its key, or the other way: it is the same."""
    last = int(kind[1:]) - 1
    sign = p.let(f"ashr {kind} {bits}, {last}")
    lower = p.let(f"and {kind} {sign}, {(1 << last) - 1}")
    return str(p.let(f"xor {kind} {bits}, {lower}"))


def hide(p: Any, loop: For) -> None:
    """Hide the ints that a loop of lanes has found from what follows it, where it is told to be
    one vector: LLVM puts the bounds of an index into the loop that finds it, does not know it for a
    reduction then, and says so on stderr."""
    targets = [t for s in loop.body if isinstance(s, Assign) for t in s.targets]
    for target in (t for t in targets if loop.is_vector and t.dtype.kind in "iu"):
        kind, slot = TYPES[target.dtype], p.slots[target]
        found = p.let(f"load {kind}, ptr {slot}")
        same = p.let(f'call {kind} asm "", "=r,0"({kind} {found})')
        p.lines.append(f"  store {kind} {same}, ptr {slot}")
