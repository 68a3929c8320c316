"""Temps, stores and kernels that are not needed, or no more, go."""

from __future__ import annotations

from collections.abc import Iterator

from phix.core import dtypes as dt
from phix.core import stack
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import linear_form
from phix.kernels.loops.effects import effects_of, users_of
from phix.kernels.loops.nodes import (
    Buffer,
    For,
    Kernel,
    LibraryCall,
    LoopProgram,
    Statement,
    Step,
    Store,
)
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.bottom_up import bottom_up, with_operands
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting


def drop_temps(program: LoopProgram, _: Setting) -> None:
    """Forget temps that nothing touches."""
    used = frozenset().union(*(effects_of(s).touched for s in program.steps))
    program.temps = [t for t in program.temps if t in used]


def drop_dead_stores(program: LoopProgram, _: Setting) -> None:
    """Leave out stores into temps that nothing reads, and kernels with nothing left to do."""
    kernels = [s for s in ir.walk_steps(program.steps) if isinstance(s, Kernel)]
    direct = set().union(*(ir.step_uses(s) for s in ir.walk_steps(program.steps)))
    while True:
        read = direct.union(*(ir.with_bases(ir.reads(k.body)) for k in kernels))
        count = sum(_drop_stores(kernel.body, read) for kernel in kernels)
        if not count:
            break
    _drop_empty(program.steps)


def _drop_stores(body: list[Statement], read: set[Buffer]) -> int:
    """Leave out stores into temps that are not read, and the blocks this empties; how many."""
    count = 0
    for s in list(body):
        if isinstance(s, (For, ir.If)):
            count += _drop_stores(s.body, read)
            is_dead = not s.body
        else:
            buffers = [s.buffer] if isinstance(s, Store) else []
            buffers = list(s.writes) if isinstance(s, LibraryCall) else buffers
            owners = map(ir.owner, buffers)
            is_dead = bool(buffers) and all(b.kind == "temp" and b not in read for b in owners)
        if is_dead:
            body.remove(s)
            count += 1
    return count


@stack.nests
def _drop_empty(steps: list[Step]) -> None:
    """Leave out kernels that write nothing."""
    for step in steps:
        for block in ir.blocks(step):
            _drop_empty(block)
    steps[:] = [s for s in steps if not isinstance(s, Kernel) or ir.writes(s.body)]


# -- temps that are read where they are written ----------------------------------------------
def forward_temps(program: LoopProgram, _: Setting) -> None:
    """Put the value of a temp where it is read, if all reads follow its store in one block."""
    users = users_of(program.steps)
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            own = {t for t in ir.writes(step.body) if t.kind == "temp" and users[t] == 1}
            if own:
                step.body = _forwarded(step.body, own)
                _drop_blocks(step.body)
    _drop_empty(program.steps)


def _drop_blocks(body: list[Statement]) -> None:
    """Leave out the blocks that have become empty."""
    for s in list(body):
        if isinstance(s, (For, ir.If)):
            _drop_blocks(s.body)
            if not s.body:
                body.remove(s)


def _forwarded(body: list[Statement], temps: set[Buffer]) -> list[Statement]:
    if not any(isinstance(s, LibraryCall) for s in ir.walk(body)):
        for block in _blocks(body):
            _Forwarding(body, block, temps).run()
    return body


def _blocks(body: list[Statement]) -> Iterator[list[Statement]]:
    yield body
    for s in body:
        if isinstance(s, (For, ir.If, ir.While)):
            yield from _blocks(s.body)


class _Forwarding:
    """The temps of one block, from its first statement to its last.

    Each expression of the block is gone through once: what reads a temp comes behind its store, so
    that what was found for an expression still holds when more values are known.
    """

    def __init__(self, body: list[Statement], block: list[Statement], temps: set[Buffer]) -> None:
        self.body, self.block, self.temps = body, block, temps
        self.known: dict[Expr, Expr] = {}  # loads of temps, and expressions that were changed
        self.movable: dict[Buffer, bool] = {}

    def run(self) -> None:
        at = 0
        while at < len(self.block):
            s = self.block[at]
            self._change(s)
            value = self._value_to_move(s, at) if isinstance(s, Store) else None
            if value is None:
                at += 1
                continue
            self.known[_load_of(s)] = value  # type: ignore[arg-type]
            del self.block[at]

    def _change(self, s: Statement) -> None:
        if isinstance(s, Store):
            s.indices, s.value = tuple(map(self._changed, s.indices)), self._changed(s.value)
        elif isinstance(s, ir.Declare):
            s.value = self._changed(s.value)
        elif isinstance(s, ir.Assign):
            s.values = tuple(map(self._changed, s.values))

    def _changed(self, root: Expr) -> Expr:
        return bottom_up(root, self.known, with_operands) if self.known else root

    def _value_to_move(self, store: Store, at: int) -> Expr | None:
        """What is to stand where a store's place is read; None where the store stays."""
        buffer, value = store.buffer, store.value
        if buffer not in self.temps or dt.is_complex(buffer.dtype):
            return None
        if buffer not in self.movable:
            self.movable[buffer] = _are_read_where_written(self.body, self.block, buffer)
        if not self.movable[buffer]:
            return None
        if buffer.dtype in (dt.float16, dt.bfloat16):
            value = sc.cast(sc.cast(value, buffer.dtype), dt.float32)
        moved = (*store.indices, value)
        return None if _changes_between(moved, _until_read(self.block[at + 1 :], store)) else value


def _are_read_where_written(body: list[Statement], block: list[Statement], buffer: Buffer) -> bool:
    """Whether all stores into a buffer stand in one block, at places that are never the same, and
    each load behind the store of its place."""
    stores = {k: s for k, s in enumerate(block) if isinstance(s, Store) and s.buffer is buffer}
    count = sum(isinstance(s, Store) and s.buffer is buffer for s in ir.walk(body))
    if count != len(stores) or not _are_apart([s.indices for s in stores.values()]):
        return False
    left = {e for e in ir.loads(body) if e.data is buffer}
    for at, store in stores.items():
        load = _load_of(store)
        left.discard(load)
        here = sum(1 for s in ir.walk(body) if _own_loads(s, load))
        if here != sum(1 for s in _plain(block[at + 1 :]) if _own_loads(s, load)):
            return False
    return not left


def _load_of(store: Store) -> Expr:
    return Expr("load", store.indices, ir.scalar_dtype(store.buffer.dtype), store.buffer)


def _plain(statements: list[Statement]) -> list[Store | ir.Assign | ir.Declare]:
    return [s for s in statements if isinstance(s, (Store, ir.Assign, ir.Declare))]


def _are_apart(places: list[tuple[Expr, ...]]) -> bool:
    """Whether places differ, and by numbers alone, whatever the loops around them are at."""
    if len(places) == 1:
        return True
    if any(len(indices) != 1 for indices in places):
        return False
    forms = [linear_form(index, clamped=True) for (index,) in places]
    known = [f for f in forms if f is not None and not any(names for names, _ in f[1])]
    numbers = {sum(number for _, number in constants) for _, constants in known}
    is_one_sum = all(terms == known[0][0] for terms, _ in known)
    return len(numbers) == len(known) == len(places) and is_one_sum


def _own_loads(statement: Statement, load: Expr) -> bool:
    return any(load in root.loads for root in ir.roots(statement))


def _until_read(statements: list[Statement], store: Store) -> list[Statement]:
    """The statements, and those inside them, up to the last that reads what was stored."""
    load = _load_of(store)
    readers = [k for k, s in enumerate(statements) if _own_loads(s, load)]
    return ir.walk(statements[: max(readers, default=-1) + 1])


def _changes_between(values: tuple[Expr, ...], statements: list[Statement]) -> bool:
    """Whether a statement changes something that a value reads."""
    loads = {ir.owner(e.data) for value in values for e in value.loads}
    if any(isinstance(s, Store) and ir.owner(s.buffer) in loads for s in statements):
        return True
    changed = {target for s in statements if isinstance(s, ir.Assign) for target in s.targets}
    read = ir.expressions([ir.Declare(v, v) for v in values]) if changed else ()
    return not changed.isdisjoint(read)
