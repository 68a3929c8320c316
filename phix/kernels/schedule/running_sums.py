"""Running totals wait for one addition in several terms.

Each turn of

    for i in range(n): a = a + cast<float64>(x[i]); y[i] = cast<float32>(a)

waits for the addition of the one before. What some terms come to can be known by then:

    for g in range(n / 4): p = x[4 g]; q = p + x[4 g + 1]; ...; y[4 g] = a + p; ...; a = a + s

In float64 that makes no difference to what float32 terms and totals show. Totals of other dtypes
keep their order.
"""

from __future__ import annotations

from phix.core import dtypes as dt
from phix.core.records import dataclass
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import Assign, Declare, For, Kernel, LoopProgram, Statement, Store
from phix.kernels.loops.rewriting import replaced, substituted
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting

# Terms that are added up beside the total: half a vector of float32.
_TERMS = 4
# Shorter loops are written out, or over before it counts.
_LEAST_TURNS = 64


def running_sums(program: LoopProgram, _: Setting) -> None:
    """The pass: see above."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            _in_block(step, step.body)


def _in_block(kernel: Kernel, block: list[Statement]) -> None:
    for s in list(block):
        if isinstance(s, (For, ir.If, ir.While)):
            _in_block(kernel, s.body)
        if isinstance(s, For) and (found := _running(s)) is not None:
            at = block.index(s)
            block[at : at + 1] = _Grouping(kernel, s, found).loops()


def _running(loop: For) -> Assign | None:
    """The addition to a running total, if that and stores are all that the loop does."""
    extent, additions = loop.extent, [s for s in loop.body if isinstance(s, Assign)]
    is_short = extent.fn == "const" and extent.data < _LEAST_TURNS
    if loop.start is not ir.ZERO or loop.kind != "reduction" or len(additions) != 1 or is_short:
        return None
    (addition,) = additions
    if addition.reassociate or len(addition.targets) != 1 or len(loop.body) < 2:
        return None
    (total,), (value,) = addition.targets, addition.values
    terms = [a for a in value.args if a is not total]
    is_sum = value.fn == "add" and total.dtype == dt.float64 and len(terms) == 1
    is_wide = is_sum and terms[0].fn == "cast" and terms[0].args[0].dtype == dt.float32
    others = [s for s in loop.body if s is not addition]
    if not is_wide or _uses(terms[0], total) or not all(isinstance(s, Store) for s in others):
        return None
    both = (ir.with_bases(found) for found in (ir.reads(loop.body), ir.writes(loop.body)))
    return None if set.intersection(*both) else addition


def _uses(root: Expr, e: Expr) -> bool:
    return e in ir.expressions([Declare(root, root)])


@dataclass
class _Grouping:
    """One loop."""

    kernel: Kernel
    loop: For
    addition: Assign

    def loops(self) -> list[Statement]:
        """The loop over groups of terms, and the one over what is left."""
        loop = self.loop
        (total,), (value,) = self.addition.targets, self.addition.values
        (term,) = [a for a in value.args if a is not total]
        group, rest = self._indices()
        scalars = self._scalars()
        where = [group * _TERMS + k for k in range(_TERMS)]
        body: list[Statement] = []
        for k, at in enumerate(where):
            own = substituted(term, {loop.index: at})
            body.append(Declare(scalars[k], scalars[k - 1] + own if k else own))
        is_behind = False
        for s in loop.body:
            is_behind = is_behind or s is self.addition
            for k, at in enumerate(where if isinstance(s, Store) else ()):
                sums = scalars[k : k + 1] if is_behind else scalars[k - 1 : k] if k else []
                so_far = total + sums[0] if sums else total
                body += replaced([s], {loop.index: at, total: so_far})
        body.append(Assign((total,), (total + scalars[-1],)))
        count, extent = sc.const(_TERMS, dt.int64), loop.extent
        if extent.fn == "const":
            groups = sc.const(extent.data // _TERMS, dt.int64)
            left = sc.const(extent.data % _TERMS, dt.int64)
        else:
            groups = sc.binary("quotient", sc.binary("maximum", extent, ir.ZERO), count)
            left = extent - groups * count
        last = replaced(loop.body, {loop.index: groups * count + rest})
        found: list[Statement] = [For(group, groups, body, loop.kind)]
        return found if left is ir.ZERO else [*found, For(rest, left, last, loop.kind)]

    def _indices(self) -> tuple[Expr, Expr]:
        used = [s.index.data for s in ir.walk(self.kernel.body) if isinstance(s, For)]
        first = 1 + max([0, *(int(name[1:]) for name in used)])
        return sc.var(f"i{first}"), sc.var(f"i{first + 1}")

    def _scalars(self) -> list[Expr]:
        used = [s.target.data for s in ir.walk(self.kernel.body) if isinstance(s, Declare)]
        first = 1 + max([0, *(int(name[1:]) for name in used)])
        return [sc.var(f"a{first + k}", dt.float64) for k in range(_TERMS)]
