"""How a kernel's loops are laid on the threads of a GPU.

The outermost perfect nest of parallel loops gives the *items*; its indices are one linear index,
which the grid strides over. A *team* does one item: a thread, or a block, whose threads share
the iterations of the *spread* loops inside the item. A loop can be spread if its iterations are
independent but for scalars that all of them combine into, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from phix.core import dtypes as dt
from phix.core.records import dataclass, field
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import is_one_digit, never_repeats
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, Statement, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

# fn -> the name of the operation on the device
COMBINATIONS = {"add": "phix_add", "mul": "phix_mul", "maximum": "phix_max",
                "minimum": "phix_min", "and": "phix_and", "or": "phix_or"}  # fmt: skip
# The kind of parallel loops whose maker has proved that no iteration reads what another writes.
INDEPENDENT = "independent"
_EXACT = {"maximum", "minimum", "and", "or"}


@dataclass(eq=False)
class Nest:
    """Perfectly nested loops, outermost first, and what the innermost one does."""

    loops: list[For]
    body: list[Statement]

    @property
    def indices(self) -> tuple[Expr, ...]:
        return tuple(loop.index for loop in self.loops)

    @property
    def extents(self) -> tuple[Expr, ...]:
        return tuple(loop.extent for loop in self.loops)


@dataclass(eq=False)
class Spread(Nest):
    """A nest whose iterations a team shares; ``combined``: how each scalar is accumulated."""

    combined: dict[Expr, str] = field(default_factory=dict)


@dataclass(eq=False)
class Scan(Spread):
    """A loop that combines elements one after the other, and stores each result on the way."""

    step: Assign | None = None

    @property
    def target(self) -> Expr:
        (target,) = self.combined
        return target

    @property
    def element(self) -> Expr:
        """What is combined with the results so far."""
        assert self.step is not None
        (value,) = self.step.values
        return next(a for a in value.args if a is not self.target)

    @property
    def first(self) -> list[Statement]:
        """What comes before the element, and may be what it is read from."""
        before = self.body[: self.body.index(self.step)]  # type: ignore[arg-type]
        return [s for s in before if not _reads(s, self.target)]


def items_of(kernel: Kernel) -> Nest:
    """The items of a kernel: one alone if it does not begin with a parallel loop."""
    nest = _nest(kernel.body, lambda loop: loop.kind in ("parallel", INDEPENDENT))
    # a local is memory that an item has for itself
    others = {b for b in ir.reads(nest.body) | ir.writes(nest.body) if b.kind != "local"}
    while any(loop.kind != INDEPENDENT for loop in nest.loops) and not _are_apart(nest, others):
        nest = Nest(nest.loops[:-1], [nest.loops[-1]])
    return nest


def _nest(body: list[Statement], wanted: Callable[[For], bool]) -> Nest:
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and wanted(body[0]):
        loop = body[0]
        if set(variables(loop.extent)) & {outer.index for outer in loops}:
            break
        loops.append(loop)
        body = loop.body
    return Nest(loops, body)


def _are_apart(nest: Nest, buffers: set[Buffer] | None = None) -> bool:
    """Whether no iteration of parallel loops reads what another one writes, in these buffers.

    They may do so through memory that one iteration after the other uses for itself.
    """
    written = ir.writes(nest.body)
    if buffers is not None:
        written &= buffers
    shared = {ir.owner(b) for b in written} & {ir.owner(b) for b in ir.reads(nest.body)}
    touched = [b for b in written | ir.reads(nest.body) if ir.owner(b) in shared]
    if len(touched) != len(shared):
        return False  # a buffer and a slice of it
    extents = {loop.index: loop.extent for loop in nest.loops}
    return all(is_one_digit(b, i, nest.body, extents) for b in touched for i in nest.indices)


def variables(root: Expr) -> Iterator[Expr]:
    """The variables an expression depends on."""
    return (e for e in ir.expressions([Declare(root, root)]) if e.fn == "var")


def spreads(body: list[Statement]) -> list[Spread]:
    """The loops of an item that a block can share, those inside uniform loops included."""
    found = []
    for s in body:
        shared = spread_of(s) or scan_of(s) if isinstance(s, For) else None
        if shared is not None:
            found.append(shared)
        elif isinstance(s, (For, ir.If, ir.While)):
            found += spreads(s.body)
    return found


def spread_of(loop: For) -> Spread | None:
    """The widest nest from ``loop`` inward whose iterations may be done in any order, or None."""
    nest = _nest([loop], lambda _: True)
    for depth in range(len(nest.loops), 0, -1):
        loops = nest.loops[:depth]
        combined = _combined(loops, loops[-1].body)
        if combined is not None:
            return Spread(loops, loops[-1].body, combined)
    return None


def scan_of(loop: For) -> Scan | None:
    """The loop as a scan: a running combination of elements, and stores of what it is so far."""
    if any(isinstance(s, (For, ir.If, ir.While, ir.LibraryCall)) for s in loop.body):
        return None
    steps = [s for s in loop.body if isinstance(s, Assign)]
    if len(steps) != 1 or len(steps[0].targets) != 1:
        return None
    (target,), (value,) = steps[0].targets, steps[0].values
    if any(isinstance(s, Declare) for s in loop.body) or target not in value.args:
        return None
    is_free = steps[0].reassociate or value.fn in _EXACT or value.dtype.kind in "biu"
    if value.fn not in COMBINATIONS or not is_free or _uses(value, target) != 1:
        return None
    if not _are_apart(Nest([loop], loop.body)) or not _stores_once([loop], loop.body):
        return None
    scan = Scan([loop], loop.body, {target: value.fn}, steps[0])
    before = loop.body[: loop.body.index(steps[0])]
    late = [s for s in before if s not in scan.first]
    return None if ir.writes(late) & ir.reads([steps[0], *scan.first]) else scan


def _reads(statement: Statement, target: Expr) -> bool:
    return any(_uses(root, target) for root in ir.roots(statement))


def _combined(loops: list[For], body: list[Statement]) -> dict[Expr, str] | None:
    """How each outer scalar is accumulated; None if the iterations depend on each other."""
    if any(isinstance(s, ir.LibraryCall) for s in ir.walk(body)):
        return None
    found = combined_scalars(body)
    if found is None or not _are_apart(Nest(loops, body)):
        return None
    if any(loop.kind == "reduction" for loop in loops) and not _stores_once(loops, body):
        return None
    return found


def combined_scalars(body: list[Statement]) -> dict[Expr, str] | None:
    """The scalars from outside that a block accumulates, and how; None if it does more to them."""
    own = {s.target for s in ir.walk(body) if isinstance(s, Declare)}
    found: dict[Expr, str] = {}
    for s in ir.walk(body):
        if not isinstance(s, Assign):
            continue
        outer = [(t, v) for t, v in zip(s.targets, s.values) if t not in own]
        for target, value in outer:
            if target in found or value.fn not in COMBINATIONS or target not in value.args:
                return None
            is_free = s.reassociate or value.fn in _EXACT or value.dtype.kind in "biu"
            if not is_free or _uses(value, target) != 1:
                return None
            found[target] = value.fn
    reads = dict.fromkeys(found, 0)
    for s in ir.walk(body):
        for root in ir.roots(s):
            for target in reads:
                reads[target] += _uses(root, target)
    return found if all(count == 1 for count in reads.values()) else None


def _uses(root: Expr, target: Expr) -> int:
    """How many operands of ``root`` and of what is inside it are ``target``."""
    inside = ir.expressions([Declare(root, root)])
    return sum(a is target for e in inside for a in e.args) + (root is target)


def _stores_once(loops: list[For], body: list[Statement]) -> bool:
    """Whether no two iterations store to one element; loops inside count as well."""
    places: dict[Buffer, Expr] = {}
    for s in ir.walk(body):
        if isinstance(s, Store):
            linear = s.indices[0]
            if places.setdefault(s.buffer, linear) is not linear:
                return False
            if not never_repeats(linear, [*loops, *_loops_around(s, body)]):
                return False
    return True


def _loops_around(store: Store, body: list[Statement]) -> list[For]:
    """The loops in ``body`` that ``store`` stands in, outermost first."""
    for s in body:
        if isinstance(s, (For, ir.If, ir.While)) and any(x is store for x in ir.walk(s.body)):
            own = [s] if isinstance(s, For) else []
            return own + _loops_around(store, s.body)
    return []


def identity(fn: str, dtype: np.dtype) -> Expr:
    """What leaves the other operand of a combination as it is."""
    if fn in ("add", "mul", "or"):
        return sc.const(1 if fn == "mul" else 0, dtype)
    if dtype.kind == "b":
        return sc.const(fn in ("and", "minimum"), dtype)
    if dtype.kind == "f":
        return sc.const(float("-inf") if fn == "maximum" else float("inf"), dtype)
    limits = np.iinfo(dtype)
    if fn == "and":
        return sc.const(limits.max if dtype.kind == "u" else -1, dtype)
    return sc.const(int(limits.min if fn == "maximum" else limits.max), dtype)


# -- which team ------------------------------------------------------------------------------
def strides_one(body: list[Statement], index: Expr) -> int:
    """How many accesses of a block go to the element beside, forward or back, with the next
    ``index``."""
    return sum(_step(linear, index) in (1, -1) for linear in accesses(body))


def _step(e: Expr, index: Expr) -> int | None:
    """By how much a linear index grows with ``index``; None where that is no known number."""
    if e is index:
        return 1
    if index not in set(variables(e)):
        return 0
    if e.fn not in ("add", "sub", "mul"):
        return None
    if e.fn == "mul":
        number, other = e.args if e.args[0].fn == "const" else e.args[::-1]
        by = _step(other, index)
        return None if by is None or number.fn != "const" else int(number.data) * by
    a, b = (_step(x, index) for x in e.args)
    return None if a is None or b is None else a + b if e.fn == "add" else a - b


def accesses(body: list[Statement]) -> list[Expr]:
    """The linear indices at which a block reads and writes."""
    found = [e.args[0] for e in ir.expressions(body) if e.fn == "load" and e.args]
    return found + [s.indices[0] for s in ir.walk(body) if isinstance(s, Store) and s.indices]


def prefers_threads(items: Nest, shared: list[Spread]) -> bool:
    """Whether neighbouring items read neighbouring elements, and a spread's iterations do not."""
    if not items.loops or not shared:
        return True
    across = strides_one(items.body, items.loops[-1].index)
    along = sum(strides_one(s.body, s.loops[-1].index) for s in shared)
    return across > along


# -- packs -----------------------------------------------------------------------------------
def pack_width(nest: Nest) -> int:
    """How many iterations of the innermost loop one thread can do with vector loads; 1: none.

    Every access must be to the next element with the next index, or not depend on it; buffers
    are read and written by 16 bytes at most. In a nest of several loops packs fill each row.
    """
    if not nest.loops or any(isinstance(s, (For, ir.While)) for s in nest.body):
        return 1
    *outer, inner = nest.loops
    index = inner.index
    touched = [(b, i) for b, i in _touched(nest.body) if any(index in set(variables(e)) for e in i)]
    for buffer, indices in touched:
        if buffer.strided or dt.is_complex(buffer.dtype) or not _is_next(indices[0], index):
            return 1
    width = 16 // max((buffer.dtype.itemsize for buffer, _ in touched), default=16)
    if not outer:
        return width
    if inner.extent.fn != "const":
        return 1
    rests = [without(indices[0], index) for _, indices in touched]
    while width > 1 and not all(_is_multiple(e, width) for e in (inner.extent, *rests)):
        width //= 2
    return width


def _is_multiple(e: Expr | None, of: int) -> bool:
    """Whether a number is a multiple whatever its variables are; None is nothing."""
    if e is None or e.fn == "const":
        return e is None or e.data % of == 0
    parts = [_is_multiple(a, of) for a in e.args] if e.fn in ("add", "sub", "mul") else [False]
    return any(parts) if e.fn == "mul" else all(parts)


def _is_next(linear: Expr, index: Expr) -> bool:
    """Whether ``linear`` is ``index`` plus what does not depend on it."""
    if linear is index:
        return True
    if linear.fn != "add":
        return False
    a, b = linear.args
    if index in set(variables(b)):
        a, b = b, a
    return index not in set(variables(b)) and _is_next(a, index)


def without(linear: Expr, index: Expr) -> Expr | None:
    """What is added to ``index`` in a linear index that goes along it; None for nothing."""
    if linear is index:
        return None
    a, b = linear.args
    if index not in set(variables(a)):
        a, b = b, a
    rest = without(a, index)
    return b if rest is None else rest + b


def _touched(body: list[Statement]) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    for e in ir.expressions(body):
        if e.fn == "load":
            yield e.data, e.args
    for s in ir.walk(body):
        if isinstance(s, Store):
            yield s.buffer, s.indices
