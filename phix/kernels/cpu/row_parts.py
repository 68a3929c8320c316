"""Loops over rows that touch nothing in common, and what takes long of what is made along a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import UNIT, linear_form, size_expr
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, Statement, Store
from phix.kernels.scalar.language import Expr

# So many operations on an element, or on a number of a row, are worth a loop of their own; more
# than the most are looked through for too long.
_MANY, _MANY_ON_NUMBERS, _MOST = 12, 16, 400
# So few are made row by row, before and behind those.
_FEW_BEFORE, _FEW_BEHIND = 2, 8
# Fewer rows are no block, nor are rows of fewer elements, or of fewer in all.
_LEAST_ROWS, _SHORTEST, _LEAST = 4, 3, 128


def operations(*roots: Expr, without: Iterable[Expr] = ()) -> set[Expr]:
    """What is computed for expressions, and not for ``without``; places in memory take nothing."""
    found: set[Expr] = set(without)
    left = [e for e in roots if e not in found]
    while left:
        e = left.pop()
        if e.args and e.fn != "load" and e not in found:
            found.add(e)
            left += e.args
    return found.difference(without)


def takes_long(number: Expr) -> bool:
    """Whether a number that a row has one of is worth a loop of its own."""
    return _MANY_ON_NUMBERS <= len(operations(number)) <= _MOST


def parts(roots: Iterable[Expr]) -> list[Expr]:
    """Everything that expressions consist of, operands first."""
    found: dict[Expr, None] = {}
    left = list(roots)
    while left:
        e = left[-1]
        pending = [a for a in e.args if a not in found] if e not in found else []
        if pending:
            left += pending
        else:
            found[e] = None
            left.pop()
    return list(found)


def made_of(
    every: list[Expr], is_one: Callable[[Expr], bool], without: Container[Expr] = ()
) -> set[Expr]:
    """Those of ``parts`` that are made of such for which ``is_one``, by way of others than
    ``without``."""
    found: set[Expr] = set()
    for e in every:
        if (not found.isdisjoint(e.args) or is_one(e)) and e not in without:
            found.add(e)
    return found


class Rows:
    """A loop over rows that may be run statement by statement, each for all rows of a block.

    ``own``: memory that each row has for itself, and how many elements; ``scalars``: what each row
    declares; ``written``: the buffers that rows store into.
    """

    def __init__(self, kernel: Kernel, outer: For) -> None:
        self.outer = outer
        self.loops = [s for s in outer.body if isinstance(s, For)]
        self.written = ir.writes(outer.body)
        self.scalars = {s.target for s in outer.body if isinstance(s, Declare)}
        self.own: dict[Buffer, int] = {b: kernel.locals[b].data for b in own_memory(kernel, outer)}

    @staticmethod
    def of(kernel: Kernel, s: Statement) -> Rows | None:
        """None for any other statement."""
        if not isinstance(s, For) or not _is_nest(s):
            return None
        rows = Rows(kernel, s)
        return rows if rows._are_apart() and rows._have_totals_alone() else None

    @property
    def longest(self) -> int:
        return max(s.extent.data for s in self.loops)

    def _are_apart(self) -> bool:
        """Whether a row touches nothing that another one writes."""
        owners = {ir.owner(b) for b in self.written}
        touched = self.written | ir.reads(self.outer.body)
        if sum(ir.owner(b) in owners for b in touched) != len(self.written):
            return False
        for buffer in self.written:
            if dt.is_complex(buffer.dtype) or buffer.strided:
                return False
            places = {
                self._row_of(at, s if isinstance(s, For) else None)
                for s in self.outer.body for at in indices_of([s], buffer)
            }  # fmt: skip
            if buffer not in self.own and (len(places) != 1 or None in places):
                return False
        return True

    def _row_of(self, linear: Expr, loop: For | None) -> object:
        """How long rows are, and where they begin, if an index in a loop along them, or beside
        these, is always inside its row."""
        terms, sizes = linear_form(linear) or ({}, frozenset())
        names, length = terms.pop(self.outer.index, ((), 0))
        if names or any(more or size < 0 for more, size in sizes):
            return None
        last = sum(size for _, size in sizes)
        if loop is not None:
            step = terms.pop(loop.index, ((), 0))
            if step not in (UNIT, ((), 0)):
                return None
            last += step[1] * (loop.extent.data - 1)
        return (length, frozenset(terms.items())) if last < length else None

    def _have_totals_alone(self) -> bool:
        """Whether what rows change in common are totals that each of them adds to in one place."""
        steps = [s for s in ir.walk(self.outer.body) if isinstance(s, Assign)]
        totals = Counter(t for s in steps for t in s.targets if t not in self.scalars)
        uses = _uses(ir.walk(self.outer.body), totals)
        return all(n == 1 and uses[t] <= 1 for t, n in totals.items())

    def changed(self, loop: For) -> set[object]:
        """The buffers and scalars that a loop along a row changes."""
        targets = (t for s in loop.body if isinstance(s, Assign) for t in s.targets)
        return {*ir.writes(loop.body), *targets}

    # -- a loop along a row ------------------------------------------------------------------
    def is_separable(self, loop: For) -> bool:
        """Whether each statement may be run for all elements of the row before the next one."""
        for buffer in ir.writes(loop.body):
            places = list(set(indices_of(loop.body, buffer)))
            form = linear_form(places[0]) if len(places) == 1 else None
            if form is None or form[0].get(loop.index) != UNIT:
                return False
        targets = Counter(t for s in loop.body if isinstance(s, Assign) for t in s.targets)
        uses = _uses(loop.body, targets)
        return all(n == 1 and uses[t] <= 1 for t, n in targets.items())

    def numbers(self, loop: For) -> list[Expr]:
        """What takes long and is the same for all elements of a row, but not for all rows."""
        left = [root for s in loop.body for root in ir.roots(s)]
        if len(operations(*left)) > _MOST:
            return []
        changed, every = self.changed(loop), parts(left)
        known = {*self.written, *self.own, *self.scalars, self.outer.index}
        moving = made_of(every, lambda e: e is loop.index or e in changed or e.data in changed)
        numbers = made_of(every, lambda e: e in known or e.data in known) - moving
        found: dict[Expr, None] = {}
        seen = set(left)
        while left:
            e = left.pop()
            if e in numbers and takes_long(e):
                found[e] = None
            elif e.fn != "load":
                left += [a for a in e.args if a not in seen]
                seen.update(e.args)
        return list(found)

    def cut(self, root: Expr, loop: For) -> tuple[Expr, list[Expr]] | None:
        """The part of what is made of each element that takes long, and those operands of it that
        are not found in one run through the elements of many rows; None if nothing does."""
        if not _MANY <= len(operations(root)) <= _MOST:
            return None
        changed, every = self.changed(loop), parts([root])
        moving = made_of(every, lambda e: e is loop.index)
        late = made_of(every, changed.__contains__)
        odd = self._odd(every, loop)
        found: list[tuple[Expr, list[Expr]]] = []
        part = root
        while len(operations(part)) >= _MANY:
            if part not in late and _behind(root, every, part, loop) <= _FEW_BEHIND:
                operands = _operands(part, odd, moving)
                if len(operations(part, without=operands)) >= _MANY:
                    found.append((part, operands))
            part = max(part.args, key=lambda e: len(operations(e)))
        return min(found, key=lambda each: len(each[1]), default=None)

    def _odd(self, every: list[Expr], loop: For) -> set[Expr]:
        """What varies in another way than from one element of a run to the next."""
        known = {*self.written, *self.own, *self.scalars, self.outer.index, loop.index}
        loads = (e for e in every if e.fn == "load")
        runs = {e for e in loads if self.in_run(e.data, e.args, loop) is not None}
        return made_of(every, lambda e: e in known or e.data in known, runs)

    def in_run(self, buffer: Buffer, indices: tuple[Expr, ...], loop: For) -> Expr | None:
        """Where the elements of all rows begin, if those of a row lie behind those of the row
        before; None if not."""
        if buffer in self.own:
            is_row = indices == (loop.index,) and self.own[buffer] == loop.extent.data
            return ir.ZERO if is_row else None
        form = None if buffer.strided or len(indices) != 1 else linear_form(indices[0])
        if form is None or form[0].pop(loop.index, None) != UNIT:
            return None
        if form[0].pop(self.outer.index, None) != ((), loop.extent.data):
            return None
        if not self.scalars.isdisjoint(form[0]) or any(s.index in form[0] for s in self.loops):
            return None
        start: Expr = ir.ZERO
        for index, size in form[0].items():
            start = start + index * size_expr(size)
        for size in sorted(form[1]):
            start = start + size_expr(size)
        return start


def _operands(root: Expr, odd: set[Expr], moving: set[Expr]) -> list[Expr]:
    """What is made row by row: numbers of a row, and where odd ones meet what moves."""
    found: dict[Expr, None] = {}
    left, seen = [root], {root}
    while left:
        e = left.pop()
        if e not in odd:
            continue
        inside = [a for a in e.args if a in odd] if e.fn != "load" else []
        meets = len(inside) != 1 or not inside[0].args or inside[0].fn == "load"
        if e not in moving or (meets and len(operations(e)) <= _FEW_BEFORE):
            found[e] = None
            continue
        left += [a for a in inside if a not in seen]
        seen.update(inside)
    return list(found)


def _behind(root: Expr, every: list[Expr], part: Expr, loop: For) -> int:
    """How many operations on each element there are in ``root`` beside those of ``part``."""
    moving = made_of(every, lambda e: e is loop.index, {part})
    return len(moving & operations(root, without=[part]))


# -- which loops -----------------------------------------------------------------------------
def _is_nest(outer: For) -> bool:
    """Whether there are rows, of which something is found: loops of known lengths in one."""
    inner = [s for s in outer.body if isinstance(s, For)]
    if not inner or not all(isinstance(s, (For, Store, Assign, Declare)) for s in outer.body):
        return False
    if not all(isinstance(x, (Store, Assign)) for s in inner for x in s.body):
        return False
    if any(s.extent.fn != "const" or s.start is not ir.ZERO or s.is_vector for s in inner):
        return False
    length, longest = outer.extent - outer.start, max(s.extent.data for s in inner)
    rows = length.data if length.fn == "const" else _LEAST
    is_enough = longest >= _SHORTEST and rows >= _LEAST_ROWS and rows * longest >= _LEAST
    return is_enough and any(isinstance(x, Assign) for s in inner for x in s.body)


def own_memory(kernel: Kernel, outer: For) -> set[Buffer]:
    """Memory that each row fills before it reads any, and that nothing else of the kernel has."""
    inside, every = _touched(outer.body), _touched(kernel.body)
    found: set[Buffer] = set()
    read: set[Buffer] = set()
    for s in outer.body:
        for x in s.body if isinstance(s, For) else [s]:
            read |= {load.data for load in ir.loads([x])}
            if not isinstance(x, Store) or x.buffer not in kernel.locals or x.buffer in read:
                continue
            at, size = (s.index, s.extent) if isinstance(s, For) else (ir.ZERO, ir.ONE)
            is_filled = x.indices == (at,) and kernel.locals[x.buffer] is size
            if is_filled and inside[x.buffer] == every[x.buffer]:
                found.add(x.buffer)
    return found


def _touched(body: list[Statement]) -> Counter[Buffer]:
    """How many statements and loads touch a buffer."""
    found: Counter[Buffer] = Counter()
    for s in ir.walk(body):
        found.update(load.data for root in ir.roots(s) for load in root.loads)
        found.update([s.buffer] if isinstance(s, Store) else [])
        if isinstance(s, ir.LibraryCall):
            found.update(a.buffer for a in s.arguments if isinstance(a, ir.Pointer))
    return found


def indices_of(body: list[Statement], buffer: Buffer) -> Iterator[Expr]:
    yield from (s.indices[0] for s in ir.walk(body) if isinstance(s, Store) and s.buffer is buffer)
    yield from (load.args[0] for load in ir.loads(body) if load.data is buffer)


def _uses(body: Iterable[Statement], targets: Iterable[Expr]) -> Counter[Expr]:
    """How many statements read each of the scalars ``targets``."""
    each = [set(parts(ir.roots(s))) for s in body] if targets else []
    return Counter({t: sum(t in found for found in each) for t in targets})
