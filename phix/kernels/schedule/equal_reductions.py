"""Of two loops of a block that find the same along the same elements, one goes.

    for i: t[i] = f(x[i]); a = max(a, t[i])      for i: t[i] = f(x[i]); a = max(a, t[i])
    b = -inf                                     b = a
    for i: b = max(b, t[i])                      for i: k = min(k, i if t[i] == b else n)
    for i: k = min(k, i if t[i] == b else n)

So an extreme is found once where its place is asked for as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import linear_form
from phix.kernels.loops.nodes import Assign, Declare, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import substituted
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# A loop of a block, where it stands, and the one step of it that sets a scalar of the block, which
# nothing else sets: the number of the loop, the scalar's beginning, the loop, the step.
_Found = tuple[int, Declare, For, Assign]


def equal_reductions(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if type(step) is Kernel:
            every, scalars = ir.walk(step.body), 0
            for s in every:
                scalars += type(s) is Declare
            if scalars > 1:
                _once(step.body)
                for s in every:
                    if isinstance(s, (For, ir.If, ir.While)):
                        _once(s.body)


def _once(block: list[Statement]) -> None:
    """Leave out the loops of a block that find what one before has found."""
    every = _found(block)
    for number, again in enumerate(every):
        at, start, loop, _ = again
        if len(loop.body) > 1:
            continue
        for first in every[:number]:
            if _is_same(first, again) and _stays(block, first, again):
                block[at] = Assign((start.target,), (first[1].target,))
                break


def _found(block: list[Statement]) -> list[_Found]:
    starts = {s.target: s for s in block if isinstance(s, Declare)}
    if len(starts) < 2:
        return []
    found: list[_Found] = []
    sets = [t for s in ir.walk(block) if isinstance(s, Assign) for t in s.targets]
    for at, loop in enumerate(block):
        if not isinstance(loop, For) or loop.kind != "reduction":
            continue
        for step in loop.body:
            if isinstance(step, Assign) and len(step.targets) == 1:
                (target,) = step.targets
                if target in starts and sets.count(target) == 1:
                    found.append((at, starts[target], loop, step))
    return found


def _is_same(first: _Found, again: _Found) -> bool:
    """Whether they begin alike, go through the same elements, and do the same with each."""
    (_, start, a, step), (_, other_start, b, other_step) = first, again
    target, other = start.target, other_start.target
    if (a.start, a.extent, a.is_vector) != (b.start, b.extent, b.is_vector):
        return False
    if step.reassociate != other_step.reassociate or target.dtype != other.dtype:
        return False
    (value,), names = other_step.values, {other: target, b.index: a.index}
    return start.value == other_start.value and (substituted(value, names),) == step.values


def _stays(block: list[Statement], first: _Found, again: _Found) -> bool:
    """Whether the second loop reads what the first one read: nothing between them changes it, and
    the first but where it wrote each element before, at its own place."""
    _, start, loop, step = first
    bounds, values = (loop.start, loop.extent), step.values
    scalars = _parts((*bounds, *values))
    between = block[first[0] + 1 : again[0]]
    inner = ir.changes(loop.body, set()) - {start.target}
    if (ir.changes(between, set()) | inner) & scalars:
        return False
    if any(isinstance(s, Declare) and s.target in scalars for s in ir.walk(loop.body)):
        return False
    ahead, inside = _owners(ir.writes(between)), _owners(ir.writes(loop.body))
    read = {load for value in values for load in value.loads}
    fixed = {load for bound in bounds for load in bound.loads}
    if ahead & _owners({e.data for e in read | fixed}) or inside & _owners({e.data for e in fixed}):
        return False
    before = loop.body[: loop.body.index(step)]
    return all(ir.owner(e.data) not in inside or _is_kept(loop, before, e) for e in read)


def _is_kept(loop: For, before: Sequence[Statement], load: Expr) -> bool:
    """Whether the loop writes the buffer of a load once, right there, each iteration elsewhere."""
    stores = [s for s in ir.walk(loop.body) if load.data in ir.writes([s])]
    form = linear_form(load.args[0]) if len(load.args) == 1 else None
    if len(stores) != 1 or form is None or loop.index not in form[0]:
        return False
    (store,) = stores
    others = [b for b in ir.writes(loop.body) if ir.owner(b) is ir.owner(load.data)]
    is_there = isinstance(store, Store) and store.indices == load.args
    return is_there and len(others) == 1 and any(s is store for s in before)


def _owners(buffers: set[ir.Buffer]) -> set[ir.Buffer]:
    return {ir.owner(b) for b in buffers}


def _parts(values: Sequence[Expr]) -> set[Expr]:
    """All that expressions are made of."""
    found: set[Expr] = set()
    left = list(values)
    while left:
        e = left.pop()
        if e not in found:
            found.add(e)
            left += e.args
    return found
