"""Running totals of a block, a vector at a time.

    for j in range(n): a = a + t[j]; t[j] = a

waits n times for an addition. Of a vector of terms each shift by 1, 2, 4, ... lanes, added to it,
gives the totals of twice as many neighbours; what waits for the vector before is one addition of
its last total. See ``schedule.running_sums``, which makes these loops.
"""

from __future__ import annotations

from typing import Any

from phix.core import dtypes as dt
from phix.kernels.cpu import jit
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, For, Store
from phix.kernels.scalar.language import Expr


def printed(p: Any, loop: For) -> bool:
    """Print such a loop, if it is one, which then turns once at least.

    Behind its last term is what the buffer has there: it takes part in lanes that nobody reads.
    """
    store = _totals(loop) if len(loop.body) == 2 else None
    if store is None:
        return False
    lanes, extent, slot = jit.vector_registers()[0] // 8, p.index(loop.extent), p.slots[store.value]
    start = next(a for a in store.indices[0].args if a is not loop.index)
    first = p.address(store.buffer, (start,))
    p.count += 1
    index, head, end = (f"{name}{p.count}" for name in ("%i", "loop", "end"))
    p.lines += [f"  br label %{head}", f"{head}:"]
    p.lines.append(f"  {index} = phi i64 [0, %{p.label}], [{index}.next, %{head}]")
    _print_vector(p, lanes, p.let(f"getelementptr inbounds double, ptr {first}, i64 {index}"), slot)
    p.lines.append(f"  {index}.next = add nuw nsw i64 {index}, {lanes}")
    again = p.let(f"icmp slt i64 {index}.next, {extent}")
    p.lines += [f"  br i1 {again}, label %{head}, label %{end}", f"{end}:"]
    p.label = end
    behind = p.let(f"getelementptr double, ptr {first}, i64 {extent}")
    last = p.let(f"getelementptr double, ptr {behind}, i64 -1")
    p.lines.append(f"  store double {p.let(f'load double, ptr {last}')}, ptr {slot}")
    p.forget(ir.changes(loop.body, p.changing))
    return True


def _totals(loop: For) -> Store | None:
    """What stores the totals, in the memory of the terms, if a loop does nothing else."""
    if loop.kind != "reduction" or loop.start is not ir.ZERO:
        return None
    addition, store = loop.body
    if not isinstance(addition, Assign) or not isinstance(store, Store):
        return None
    if not addition.reassociate or addition.targets != (store.value,):
        return None
    total, buffer, index = store.value, store.buffer, loop.index
    is_local = buffer.kind == "local" and total.dtype == buffer.dtype == dt.float64
    term = Expr("load", store.indices, dt.float64, buffer)
    if not is_local or addition.values != (total + term,):
        return None
    (at,) = store.indices
    is_next = at.fn == "add" and index in at.args and any(a.fn == "const" for a in at.args)
    return store if is_next else None


def _print_vector(p: Any, lanes: int, at: str, slot: str) -> None:
    """Make a vector of terms one of totals, and its last one the total so far."""
    vector = f"<{lanes} x double>"
    nothing = p.opaque(vector, "zeroinitializer")  # of a 0 it knows, LLVM shifts by masks, slowly
    sums = p.let(f"load {vector}, ptr {at}, align 8")
    for step in (1 << k for k in range(lanes.bit_length() - 1)):
        below = [*range(2 * lanes - step, 2 * lanes), *range(lanes - step)]
        sums = p.let(f"fadd {vector} {sums}, {_shuffled(p, vector, sums, nothing, below)}")
    so_far = p.let(f"load double, ptr {slot}")
    one = p.let(f"insertelement {vector} poison, double {so_far}, i32 0")
    spread = _shuffled(p, vector, one, "poison", [0] * lanes)
    p.lines.append(
        f"  store {vector} {p.let(f'fadd {vector} {sums}, {spread}')}, ptr {at}, align 8"
    )
    last = _shuffled(p, vector, sums, "poison", [lanes - 1] * lanes)
    grown = p.let(f"fadd {vector} {spread}, {last}")
    total = p.let(f"extractelement {vector} {grown}, i32 0")
    p.lines.append(f"  store double {total}, ptr {slot}")


def _shuffled(p: Any, vector: str, one: str, other: str, lanes: list[int]) -> str:
    which = ", ".join(f"i32 {lane}" for lane in lanes)
    return str(
        p.let(f"shufflevector {vector} {one}, {vector} {other}, <{len(lanes)} x i32> <{which}>")
    )
