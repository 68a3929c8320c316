"""Rules of choices: one graph of several that runs, one tensor of several an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.graph import Graph
from phix.core.meta import MetaTensor, check_alike
from phix.core.transforms import Split, transforms
from phix.primitives.flat import (
    Metas,
    alike,
    are_floats,
    are_given,
    batch_size,
    cut,
    expanded,
    lacking,
    metas_of,
    or_zeros,
    results,
    select,
    split_inside,
    spread,
    takes_none,
    zeros,
)
from phix.primitives.reaching import only, reaching


# -- branch --------------------------------------------------------------------------------------
@rules.infer_meta("BranchInferMeta")
def branch_meta(index: MetaTensor, operands: Metas, branches: tuple[Graph, ...]) -> Metas:
    if index.ndim or dt.kind(index.dtype) != "int":
        raise DTypeError(f"index must be one int, found {index}")
    if not branches:
        raise AttributeValueError("branches is empty; give at least one graph")
    first = results(branches[0], operands, "branch 0")
    for number, graph in enumerate(branches):
        outs = results(graph, operands, f"branch {number}")
        check_alike(first, outs, "branch 0", f"branch {number}")
    return first


# -- select_n ------------------------------------------------------------------------------------
@rules.infer_meta("SelectNInferMeta")
def select_n_meta(which: MetaTensor, cases: Metas) -> MetaTensor:
    if not cases:
        raise ShapeError("cases is empty; give at least one")
    if dt.kind(which.dtype) not in ("int", "bool"):
        raise DTypeError(f"which must be ints or bools, found {which}; cast it")
    for case in cases:
        if case.ndim != cases[0].ndim or not all(map(dm.may_equal, case.dims, cases[0].dims)):
            raise ShapeError(
                f"the cases must have the same dims, found {list(cases)}; expand one of them"
            )
    if which.ndim and (
        which.ndim != cases[0].ndim or not all(map(dm.may_equal, which.dims, cases[0].dims))
    ):
        raise ShapeError(f"which must be one value or have the dims of the cases, {cases[0]}, "
                         f"found {which}; expand it")  # fmt: skip
    return cases[0]


@rules.decompose("select_n")
def select_n(which: Any, cases: Any) -> Any:
    """The last case, with the ones before it put where they are chosen."""
    *others, out = cases
    if which.dtype == dt.bool_:
        which = ops.cast(which, dt.int64)
    for number in reversed(range(len(others))):
        out = ops.where(which <= number, others[number], out)
    return out


def branched(index: Any, operands: Sequence[Any], functions: Sequence[Any]) -> Any:
    """A branch of Python functions of the operands."""
    metas = metas_of(operands)
    traced = [transforms().trace(f, metas) for f in functions]
    closed = [v for _, values in traced for v in values]
    starts = [sum(len(v) for _, v in traced[:i]) for i in range(len(traced))]

    def padded(graph: Graph, start: int, size: int) -> Graph:
        def run(*args: Any) -> Any:
            at = len(metas) + start
            return graph(*args[: len(metas)], *args[at : at + size])

        return transforms().trace(run, [*metas, *metas_of(closed)])[0]

    graphs = [
        padded(g, start, len(values)) if closed else g for (g, values), start in zip(traced, starts)
    ]
    return ops.branch(index, [*operands, *closed], graphs)


@rules.jvp("branch")
def branch_jvp(primals: Any, tangents: Any, branches: tuple[Graph, ...]) -> Any:
    index, operands = primals
    on = are_given(tangents[1])
    operands_t = select(tangents[1], on)
    count = len(operands)

    def both(graph: Graph) -> Any:
        def run(*args: Any) -> list[Any]:
            outs, ts = transforms().jvp(graph, args[:count], spread(args[count:], on))
            return [*outs, *or_zeros(ts, outs)]

        return run

    found = branched(index, [*operands, *operands_t], [both(g) for g in branches])
    outs, outs_t = cut(found, len(branches[0].outputs))
    return outs, spread(outs_t, are_floats(outs))


def _splits(branches: Sequence[Graph], on: list[bool], given: Any) -> list[Split]:
    none = [False] * len(on)
    return [split_inside(g, on, none, given) for g in branches]


@rules.vjp("branch")
def branch_vjp(active: Any, index: Any, operands: Any, branches: tuple[Graph, ...]) -> Any:
    """Each branch keeps residuals of its own, and zeros in the places of the others'."""
    on = list(active[1])
    splits = _splits(branches, on, None)
    count = len(branches[0].outputs)
    residual_metas = [[a.meta for a in s.forward.outputs[count:]] for s in splits]

    def forward(number: int) -> Any:
        def run(*args: Any) -> list[Any]:
            found = splits[number].forward(*args)
            kept: list[Any] = []
            for i, metas in enumerate(residual_metas):
                kept += found[count:] if i == number else map(zeros, metas)
            return [*found[:count], *kept]

        return run

    found = branched(index, operands, [forward(i) for i in range(len(branches))])
    outs, residuals = cut(found, count)
    sizes = [len(m) for m in residual_metas]

    @takes_none
    def pull(cts: Any) -> Any:
        float_cts = or_zeros(cts, outs)
        given = lacking(select(cts, are_floats(outs)))
        back = splits if given is None else alike(splits, _splits(branches, on, given))

        def backward(number: int) -> Any:
            def run(*args: Any) -> Any:
                own, rest = cut(args, len(operands))
                *parts, y = cut(rest, *sizes)
                kept = [own[i] for i in splits[number].kept]
                return back[number].backward(*kept, *parts[number], *y)

            return run

        every = [*operands, *residuals, *float_cts]
        grads = branched(index, every, [backward(i) for i in range(len(branches))])
        reached = [any(f) for f in zip(*(reaching(g, are_given(cts)) for g in branches))]
        return None, only(spread(grads, on), reached)

    return outs, pull


@rules.batch("branch")
def branch_batch(batched: Any, index: Any, operands: Any, branches: tuple[Graph, ...]) -> Any:
    """One index: that branch on the batch. An index a lane: each branch that some lane takes."""
    flags = list(batched[1])
    size = batch_size((index, *operands), (batched[0], *flags))

    def whole(graph: Graph) -> Any:
        def run(*args: Any) -> list[Any]:
            outs, mapped = transforms().batch(graph, args, flags, size)
            return [o if m else expanded(o, size) for o, m in zip(outs, mapped)]

        return run

    if not batched[0]:
        return branched(index, operands, [whole(g) for g in branches])

    def nothing(*args: Any) -> list[Any]:
        return [zeros(a.meta.with_dims((size, *a.meta.dims))) for a in branches[0].outputs]

    last = len(branches) - 1
    index = ops.minimum(ops.maximum(index, 0), last)
    outs: Any = None
    for number, graph in enumerate(branches):
        mask = index == number
        taken = ops.cast(ops.any(mask), dt.int64)
        found = branched(taken, of_takers(mask, operands, flags), [nothing, whole(graph)])
        outs = (
            found
            if outs is None
            else tuple(ops.where(aligned(mask, new), new, old) for new, old in zip(found, outs))
        )
    return outs


def of_takers(mask: Any, operands: Any, batched: Sequence[bool]) -> list[Any]:
    """Operands of a graph that only the lanes in a mask take, so that the others make no nan of a
    derivative: 0 times infinity, where the graph has none there. What lanes share has the sum of
    theirs, so then they compute what the first does that takes it."""
    if any(not b and dt.is_differentiable(x.dtype) for x, b in zip(operands, batched)):
        return [_or_first(mask, x) if b else x for x, b in zip(operands, batched)]
    return [_alone(mask, x) if b else x for x, b in zip(operands, batched)]


def _or_first(mask: Any, x: Any) -> Any:
    lanes = x.meta.dims[0]
    if dm.is_zero(lanes):
        return x
    rows, takes = x, mask
    if not isinstance(lanes, int):  # there may be none
        rows = ops.concat([x, zeros(x.meta.with_dims((1, *x.meta.dims[1:])))], 0)
        takes = ops.concat([mask, ops.full((1,), True, dt.bool_)], 0)
    first = ops.gather(rows, ops.argmax(ops.cast(takes, dt.int64), 0))
    return ops.where(aligned(mask, x), x, stopped(first))


def _alone(mask: Any, x: Any) -> Any:
    """``x``, of which the lanes in a mask alone have derivatives."""
    return ops.where(aligned(mask, x), x, stopped(x)) if dt.is_differentiable(x.dtype) else x


def stopped(x: Any) -> Any:
    return ops.stop_gradient(x) if dt.is_differentiable(x.dtype) else x


def aligned(mask: Any, x: Any) -> Any:
    """A mask over the first axis, to broadcast against ``x``."""
    return ops.reshape(mask, (*mask.meta.dims, *(1,) * (x.ndim - mask.ndim)))
