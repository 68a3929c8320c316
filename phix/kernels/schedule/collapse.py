"""Two loops, the outer of which goes on where the inner one ends, become one.

The rows of an image lie one behind the other: where nothing else depends on them, its pixels are
one run. Long runs make whole vectors, and a sum over them is put together once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phix.kernels.loops import nodes as ir
from phix.kernels.loops.affine import factors, linear_form, size_expr, times
from phix.kernels.loops.nodes import For, Kernel, LoopProgram, Statement
from phix.kernels.loops.rewriting import replaced
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.pipeline import Setting


def collapse_loops(program: LoopProgram, _: Setting) -> None:
    """Make one loop of each pair that walks along one run of everything it touches."""
    for step in ir.walk_steps(program.steps):
        if isinstance(step, Kernel):
            step.body[:] = map(_collapsed, step.body)


def _collapsed(s: Statement) -> Statement:
    if isinstance(s, (For, ir.If, ir.While)):
        s.body[:] = map(_collapsed, s.body)
    if not isinstance(s, For) or len(s.body) != 1:
        return s
    inner = s.body[0]
    changes = _changes(s, inner) if isinstance(inner, For) and inner.kind == s.kind else None
    if changes is None:
        return s
    assert isinstance(inner, For)
    return For(s.index, s.extent * inner.extent, replaced(inner.body, changes), s.kind)


def _changes(outer: For, inner: For) -> dict[Expr, Expr] | None:
    """What each index in the loops becomes when ``outer.index`` counts through both of them.

    None if one does not go on where the inner loop ends, or anything else depends on the loops.
    """
    both = (outer.index, inner.index)
    length = factors(inner.extent)
    if length is None or any(loop.start is not ir.ZERO for loop in (outer, inner)):
        return None
    changes: dict[Expr, Expr] = {}
    for linear in _indices(inner.body):
        if linear in changes or not depends([linear], both):
            continue
        form = linear_form(linear)
        stride = None if form is None else form[0].pop(inner.index, None)
        if (
            form is None
            or stride is None
            or form[0].pop(outer.index, None) != times(stride, length)
        ):
            return None
        total = outer.index * size_expr(stride)
        for index, size in form[0].items():
            total = total + index * size_expr(size)
        for size in sorted(form[1]):
            total = total + size_expr(size)
        changes[linear] = total
    roots = [root for s in ir.walk(inner.body) for root in ir.roots(s)]
    return None if depends(roots, both, changes) else changes


def _indices(body: list[Statement]) -> Iterator[Expr]:
    """The linear indices of all stores and loads; of arrays with strides there are none."""
    yield from (s.indices[0] for s in ir.walk(body) if isinstance(s, ir.Store))
    yield from (load.args[0] for load in ir.loads(body) if not load.data.strided)


def depends(roots: list[Expr], indices: tuple[Expr, ...], known: Iterable[Expr] = ()) -> bool:
    """Whether one of the roots changes with one of the indices, ``known`` parts left out."""
    seen = set(known)
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        if e in indices:
            return True
        seen.add(e)
        stack.extend(e.args)
    return False
