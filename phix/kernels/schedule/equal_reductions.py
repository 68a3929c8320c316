"""Of two loops of a block that find the same along the same elements, one goes.

    for i: t[i] = f(x[i]); a = max(a, t[i])      for i: t[i] = f(x[i]); a = max(a, t[i])
    b = -inf                                     b = a
    for i: b = max(b, t[i])                      for i: k = min(k, i if t[i] == b else n)
    for i: k = min(k, i if t[i] == b else n)

So an extreme is found once where its place is asked for as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import linear_form
from phix.kernels.loops.nodes import Assign, Declare, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import substituted
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting


def equal_reductions(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            for block in _blocks(step.body):
                _once(block)


def _blocks(body: list[Statement]) -> list[list[Statement]]:
    return [body, *[s.body for s in ir.walk(body) if isinstance(s, (For, ir.If, ir.While))]]


@dataclass(frozen=True)
class _Found:
    """What a loop of a block finds: one scalar of the block, which nothing else sets."""

    at: int
    loop: For
    start: Declare
    step: Assign

    @property
    def target(self) -> Expr:
        return self.start.target


def _once(block: list[Statement]) -> None:
    """Leave out the loops of a block that find what one before has found."""
    every = _found(block)
    for number, again in enumerate(every):
        if len(again.loop.body) > 1:
            continue
        for first in every[:number]:
            if _is_same(first, again) and _stays(block, first, again):
                block[again.at] = Assign((again.target,), (first.target,))
                break


def _found(block: list[Statement]) -> list[_Found]:
    starts = {s.target: s for s in block if isinstance(s, Declare)}
    if len(starts) < 2:
        return []
    found = []
    sets = [t for s in ir.walk(block) if isinstance(s, Assign) for t in s.targets]
    for at, loop in enumerate(block):
        for step in loop.body if isinstance(loop, For) and loop.kind == "reduction" else ():
            if isinstance(step, Assign) and len(step.targets) == 1:
                (target,) = step.targets
                if target in starts and sets.count(target) == 1:
                    found.append(_Found(at, loop, starts[target], step))  # type: ignore[arg-type]
    return found


def _is_same(first: _Found, again: _Found) -> bool:
    """Whether they begin alike, go through the same elements, and do the same with each."""
    a, b = first.loop, again.loop
    if (a.start, a.extent, a.is_vector) != (b.start, b.extent, b.is_vector):
        return False
    if first.step.reassociate != again.step.reassociate or first.target.dtype != again.target.dtype:
        return False
    names = {again.target: first.target, b.index: a.index}
    (one,), (other,) = first.step.values, again.step.values
    return first.start.value == again.start.value and substituted(other, names) == one


def _stays(block: list[Statement], first: _Found, again: _Found) -> bool:
    """Whether the second loop reads what the first one read: nothing between them changes it, and
    the first but where it wrote each element before, at its own place."""
    loop, step = first.loop, first.step
    bounds, values = (loop.start, loop.extent), step.values
    scalars = _parts((*bounds, *values))
    between = block[first.at + 1 : again.at]
    inner = ir.changes(loop.body, set()) - {first.target}
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
