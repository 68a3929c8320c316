"""Values of a row that a block computes, and reads again: computed again, or in shared memory.

A softmax reads its exponentials twice. In memory, the row would go there and back. A value that
costs little is computed again where it is read; a row that fits is in the block's shared memory; of
a longer one the values are computed again if that is possible at all.
"""

from __future__ import annotations

from collections.abc import Collection

from phix.core import dtypes as dt
from phix.kernels.gpu import mapping
from phix.kernels.gpu.launches import Launch
from phix.kernels.gpu.rewriting import Rewriter
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import Factors
from phix.kernels.loops.effects import users_of
from phix.kernels.loops.nodes import Assign, Buffer, Kernel, LoopProgram, Statement, Store
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule import shrinking
from phix.kernels.schedule.inplace import nest
from phix.kernels.schedule.pipeline import Setting

# Values of so few scalar operations are cheaper again than in memory; others of at most so many
# are for rows that do not fit.
_CHEAP, _DEAR = 6, 64
# The shared memory of a block that rows may take.
MOST_SHARED = 32 << 10


def shrink_temps(program: LoopProgram, _: Setting) -> None:
    """Take rows that kernels of blocks write and read alone out of memory."""
    kernels = {s for s in ir.walk_steps(program.steps) if type(s) is Kernel}
    _compute_again(program, kernels, _CHEAP)
    room = dict.fromkeys(kernels, MOST_SHARED)
    always_blocks = {k for k in kernels if not k.locals and _is_for_blocks(k)}

    def fits(kernel: Kernel, temp: Buffer, size: Factors) -> bool:
        names, count = size
        needed = -(-count * temp.dtype.itemsize // 16) * 16
        if kernel not in always_blocks or names or needed > room[kernel]:
            return False
        room[kernel] -= needed
        return True

    shrinking.shrink(program, fits)
    _compute_again(program, kernels, _DEAR)


def _is_for_blocks(kernel: Kernel) -> bool:
    """Whether a block does each item of the kernel, whatever the sizes that are not known."""
    return Launch(kernel).is_for_blocks and mapping.items_of(kernel).loops == nest(kernel)[0]


def _compute_again(program: LoopProgram, kernels: set[Kernel], most: int) -> None:
    users = users_of(program.steps)
    for kernel in kernels:
        temps = [t for t in ir.writes(kernel.body) if t.kind == "temp" and users[t] == 1]
        for temp in sorted(temps, key=lambda t: t.name):
            _replace(kernel, temp, most)


def _replace(kernel: Kernel, temp: Buffer, most: int) -> None:
    """Put what is stored in a temp where it is read, if that means the same there."""
    items = mapping.items_of(kernel)
    body = items.body
    stores = [s for s in ir.walk(body) if isinstance(s, Store) and s.buffer is temp]
    loads = [e for e in ir.expressions(body) if e.fn == "load" and e.data is temp]
    if len(stores) != 1 or dt.is_complex(temp.dtype) or not items.loops:
        return
    (store,) = stores
    value, at = store.value, store.indices
    is_exact = value.dtype == temp.dtype
    if not is_exact or any(e.args != at for e in loads) or _operations(value) > most:
        return
    where = next(k for k, s in enumerate(body) if any(x is store for x in ir.walk([s])))
    if _changes(body[where:], value, temp) or not _is_of(value, at[0], items):
        return
    if any(temp in ir.reads([s]) for s in body[:where]):
        return
    changed = _without(Rewriter(dict.fromkeys(loads, value)).block(body), temp)
    body[:] = changed


def _operations(value: Expr) -> int:
    inside = ir.expressions([ir.Declare(value, value)])
    return sum(e.fn not in ("const", "var", "load") for e in inside) - sum(
        e.fn not in ("const", "var", "load") for e in _in_indices(value)
    )


def _in_indices(value: Expr) -> Collection[Expr]:
    """The expressions that serve to find the elements a value is made of."""
    roots = [i for load in value.loads for i in load.args]
    return ir.expressions([ir.Declare(i, i) for i in roots])


def _changes(body: list[Statement], value: Expr, temp: Buffer) -> bool:
    """Whether statements change what a value is made of."""
    read = {ir.owner(load.data) for load in value.loads}
    written = {ir.owner(b) for b in ir.writes(body) if b is not temp}
    assigned = {t for s in ir.walk(body) if isinstance(s, Assign) for t in s.targets}
    declared = {s.target for s in ir.walk(body) if isinstance(s, ir.Declare)}
    return bool(read & written) or bool((assigned | declared) & set(mapping.variables(value)))


def _is_of(value: Expr, at: Expr, items: mapping.Nest) -> bool:
    """Whether a value depends on indices alone that say where it is, and on what all items know."""
    loops = {s.index for s in ir.walk(items.body) if isinstance(s, ir.For)}
    return loops & set(mapping.variables(value)) <= set(mapping.variables(at))


def _without(body: list[Statement], temp: Buffer) -> list[Statement]:
    """The statements but for stores to a temp, and loops that did nothing else."""
    kept: list[Statement] = []
    for s in body:
        if isinstance(s, Store) and s.buffer is temp:
            continue
        if isinstance(s, (ir.For, ir.If, ir.While)):
            s.body = _without(s.body, temp)
            if not s.body:
                continue
        kept.append(s)
    return kept
