"""Ops with graphs in them: metas, and what they become under each transformation.

What a rule needs of a graph (its derivative, its batched form) it asks of ``core.transforms``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import as_dim, is_traced
from phix.core.dims import Dim
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.graph import Graph, solve_dims, without_effects
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.primitives.flat import (
    Metas,
    are_floats,
    are_given,
    batch_size,
    cut,
    expanded,
    fit,
    metas_of,
    or_zeros,
    out_metas,
    select,
    spread,
    zeros,
)


def _results(graph: Graph, found: Metas, what: str) -> Metas:
    """The metas of what the graph gives for inputs of these, its own unknown dims among theirs."""
    fit(graph, found, what)
    env = solve_dims([v.meta for v in graph.inputs], [m.dims for m in found])
    return tuple(m.substitute(env) for m in out_metas(graph))


def _keeps(before: Metas, after: Metas, what: str) -> None:
    """Raise unless a loop's body gives back what it takes."""
    for number, (b, a) in enumerate(zip(before, after)):
        if b.dtype != a.dtype:
            raise DTypeError(
                f"{what} must give back a carry of the dtypes it takes: carry {number} goes in as "
                f"{b} and comes out as {a}; cast the initial value or the result"
            )
        if b.ndim != a.ndim or not all(map(dm.may_equal, b.dims, a.dims)):
            raise ShapeError(
                f"{what} must give back a carry of the dims it takes: carry {number} goes in as "
                f"{b} and comes out as {a}"
            )
    if len(before) != len(after):
        raise ShapeError(f"{what} takes {len(before)} carried tensors and gives {len(after)}")


# -- branch --------------------------------------------------------------------------------------
@rules.infer_meta("BranchInferMeta")
def branch_meta(index: MetaTensor, operands: Metas, branches: tuple[Graph, ...]) -> Metas:
    if index.ndim or dt.kind(index.dtype) != "int":
        raise DTypeError(f"index must be one int, found {index}")
    if not branches:
        raise AttributeValueError("branches is empty; give at least one graph")
    first = _results(branches[0], operands, "branch 0")
    for number, graph in enumerate(branches):
        outs = _results(graph, operands, f"branch {number}")
        if len(outs) != len(first) or not all(
            a.dtype == b.dtype and a.ndim == b.ndim and all(map(dm.may_equal, a.dims, b.dims))
            for a, b in zip(first, outs)
        ):
            raise ShapeError(
                f"the branches must give results of the same metas: branch 0 gives {list(first)}, "
                f"branch {number} {list(outs)}; cast or reshape one of them"
            )
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


# -- while_loop ----------------------------------------------------------------------------------
@rules.infer_meta("WhileInferMeta")
def while_meta(carry: Metas, constants: Metas, cond: Graph, body: Graph) -> Metas:
    fit(cond, (*carry, *constants), "cond")
    fit(body, (*carry, *constants), "body")
    test = out_metas(cond)
    if len(test) != 1 or test[0].ndim or test[0].dtype != dt.bool_:
        raise DTypeError(f"cond must give one bool, found {list(test)}")
    _keeps(carry, out_metas(body), "body")
    return carry


# -- fori_loop -----------------------------------------------------------------------------------
@rules.infer_meta("ForiInferMeta")
def fori_meta(
    lower: MetaTensor,
    upper: MetaTensor,
    carry: Metas,
    constants: Metas,
    body: Graph,
    length: Any,
) -> Metas:
    for name, bound in (("lower", lower), ("upper", upper)):
        if bound.ndim or bound.dtype != dt.int64:
            raise DTypeError(f"{name} must be one int64, found {bound}; cast it")
    _keeps(carry, _results(body, (lower, *carry, *constants), "body"), "body")
    return carry


@rules.decompose("fori_loop")
def fori_loop(lower: Any, upper: Any, carry: Any, constants: Any, body: Graph, length: Any) -> Any:
    """A scan over the indices, or a while_loop where nobody knows how many there are."""
    count = len(carry)
    if isinstance(length, Dim) or length >= 0:

        def step(*args: Any) -> Any:
            c, (i,), k = cut(args, count, 1)
            return body(i, *c, *k)

        indices = ops.arange(0, length, 1, dt.int64) + lower
        metas = [*metas_of(carry), lower.meta, *metas_of(constants)]
        graph, closed = transforms().trace(step, metas)
        return ops.scan(carry, [indices], [*constants, *closed], graph, length, False)[0]

    def more(*args: Any) -> Any:
        return (args[0] < args[-1],)

    def advance(*args: Any) -> Any:
        i, *rest = args[:-1]
        return [i + 1, *body(i, *rest)]

    return _loop(more, advance, [lower, *carry], [*constants, upper])[1:]


# -- scan ----------------------------------------------------------------------------------------
@rules.infer_meta("ScanInferMeta")
def scan_meta(
    carry: Metas, xs: Metas, constants: Metas, body: Graph, length: Any, reverse: bool
) -> tuple[Metas, Metas]:
    for x in xs:
        if not x.ndim or not dm.may_equal(x.dims[0], length):
            raise ShapeError(
                f"the leading axis of each of xs has the length {dm.dim_text(length)}, found {x}"
            )
    slices = tuple(x.with_dims(x.dims[1:]) for x in xs)
    outs = _results(body, (*carry, *slices, *constants), "body")
    _keeps(carry, outs[: len(carry)], "body")
    ys = tuple(y.with_dims((length, *y.dims)) for y in outs[len(carry) :])
    return carry, ys


def _slices(xs: Sequence[Any]) -> list[MetaTensor]:
    return [x.meta.with_dims(x.meta.dims[1:]) for x in xs]


# -- scan: forward mode --------------------------------------------------------------------------
@rules.jvp("scan")
def scan_jvp(primals: Any, tangents: Any, body: Graph, length: Any, reverse: bool) -> Any:
    """One scan of the values and tangents together; every float of the carry has a tangent."""
    carry, xs, constants = primals
    carry_t = or_zeros(tangents[0], carry)
    on_carry, on_xs, on_k = are_floats(carry), are_given(tangents[1]), are_given(tangents[2])
    xs_t, k_t = select(tangents[1], on_xs), select(tangents[2], on_k)
    count = len(carry)
    sizes = (count, len(carry_t), len(xs), len(xs_t), len(constants))

    def both(*args: Any) -> list[Any]:
        c, c_t, x, x_t, k, rest = cut(args, *sizes)
        given = (*spread(c_t, on_carry), *spread(x_t, on_xs), *spread(rest, on_k))
        outs, ts = transforms().jvp(body, (*c, *x, *k), given)
        after, ys = outs[:count], outs[count:]
        return [*after, *or_zeros(ts[:count], after), *ys, *or_zeros(ts[count:], ys)]

    metas = [*metas_of(carry), *metas_of(carry_t), *_slices(xs), *_slices(xs_t)]
    graph, closed = transforms().trace(both, [*metas, *metas_of(constants), *metas_of(k_t)])
    final, ys = ops.scan(
        [*carry, *carry_t], [*xs, *xs_t], [*constants, *k_t, *closed], graph, length, reverse
    )
    final, final_t = cut(final, count)
    ys, ys_t = cut(ys, len(body.outputs) - count)
    return (final, ys), (spread(final_t, on_carry), spread(ys_t, are_floats(ys)))


# -- scan: reverse mode --------------------------------------------------------------------------
@rules.vjp("scan")
def scan_vjp(
    active: Any, carry: Any, xs: Any, constants: Any, body: Graph, length: Any, reverse: bool
) -> Any:
    """Forward, each step's residuals are stacked; backward, a scan the other way reads them."""
    on = [are_floats(carry), list(active[1]), list(active[2])]
    fixed = [False] * (len(carry) + len(xs)) + [True] * len(constants)
    split = transforms().split(body, [*on[0], *on[1], *on[2]], fixed, inside=True)
    count, sizes = len(carry), (len(carry), len(xs))
    kept = [[i - s for i in split.kept if s <= i < e] for s, e in _ranges(*sizes, len(constants))]

    def forward(*args: Any) -> list[Any]:
        return [*split.forward(*args), *(args[i] for i in kept[0])]

    metas = [*metas_of(carry), *_slices(xs), *metas_of(constants)]
    graph, closed = transforms().trace(forward, metas)
    final, stacked = ops.scan(carry, xs, [*constants, *closed], graph, length, reverse)
    ys, residuals, carries = cut(
        stacked, len(body.outputs) - count, len(split.forward.outputs) - len(body.outputs)
    )

    def pull(final_ct: Any, ys_ct: Any) -> Any:
        ct = select(final_ct, on[0])
        ct_ys = select(ys_ct, are_floats(ys))
        sums = [zeros(k.meta) for k in select(constants, on[2])]
        rows = [*carries, *(xs[i] for i in kept[1]), *residuals, *ct_ys]
        whole = [constants[i] for i in kept[2]]
        sizes = (len(ct), len(sums), len(carries) + len(kept[1]), len(residuals), len(ct_ys))

        def backward(*args: Any) -> list[Any]:
            c, total, own, res, y, k = cut(args, *sizes)
            grads = split.backward(*own, *k, *res, *c, *y)
            g_c, g_x, g_k = cut(grads, len(c), sum(on[1]))
            return [*g_c, *(t + g for t, g in zip(total, g_k)), *g_x]

        metas = [*metas_of(ct), *metas_of(sums), *_slices(rows), *metas_of(whole)]
        graph, closed = transforms().trace(backward, metas)
        found, g_xs = ops.scan([*ct, *sums], rows, [*whole, *closed], graph, length, not reverse)
        g_carry, g_constants = cut(found, len(ct))
        return spread(g_carry, on[0]), spread(g_xs, on[1]), spread(g_constants, on[2])

    return (final, ys), pull


def _ranges(*sizes: int) -> list[tuple[int, int]]:
    """Start and end of consecutive parts."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [(e - s, e) for s, e in zip(sizes, ends)]


# -- scan: batching ------------------------------------------------------------------------------
@rules.batch("scan")
def scan_batch(
    batched: Any, carry: Any, xs: Any, constants: Any, body: Graph, length: Any, reverse: bool
) -> Any:
    """The step on whole batches; a carry that turns batched on the way is so from the start."""
    size = batch_size((*carry, *xs, *constants), (*batched[0], *batched[1], *batched[2]))
    rows = [_swap(x) if b else x for x, b in zip(xs, batched[1])]
    count = len(carry)
    on = list(batched[0])
    while True:
        flags = [*on, *batched[1], *batched[2]]
        first = [expanded(c, size) if f and not b else c for c, f, b in zip(carry, on, batched[0])]
        seen: list[bool] = []

        def step(*args: Any, flags: Any = flags, seen: Any = seen) -> list[Any]:
            outs, mapped = transforms().batch(body, args, flags, size)
            wanted = [*flags[:count], *(True for _ in outs[count:])]
            seen[:] = mapped
            return [expanded(o, size) if w and not m else o
                    for o, m, w in zip(outs, mapped, wanted)]  # fmt: skip

        metas = [*metas_of(first), *_slices(rows), *metas_of(constants)]
        graph, closed = transforms().trace(step, metas)
        after = [a or b for a, b in zip(on, seen[:count])]
        if after == on:
            break
        on = after
    final, ys = ops.scan(first, rows, [*constants, *closed], graph, length, reverse)
    final = tuple(c if f else expanded(c, size) for c, f in zip(final, on))
    return final, tuple(map(_swap, ys))


def _swap(x: Any) -> Any:
    """The first two axes exchanged."""
    return ops.transpose(x, (1, 0, *range(2, x.ndim)))


# -- while_loop ----------------------------------------------------------------------------------
@rules.jvp("while_loop")
def while_jvp(primals: Any, tangents: Any, cond: Graph, body: Graph) -> Any:
    carry, constants = primals
    carry_t = or_zeros(tangents[0], carry)
    on_carry, on_k = are_floats(carry), are_given(tangents[1])
    k_t = select(tangents[1], on_k)
    count, sizes = len(carry), (len(carry), len(carry_t), len(constants))

    def test(*args: Any) -> Any:
        c, _, k, _ = cut(args, *sizes)
        return cond(*c, *k)

    def both(*args: Any) -> list[Any]:
        c, c_t, k, rest = cut(args, *sizes)
        given = (*spread(c_t, on_carry), *spread(rest, on_k))
        outs, ts = transforms().jvp(body, (*c, *k), given)
        return [*outs, *or_zeros(ts, outs)]

    found = _loop(test, both, [*carry, *carry_t], [*constants, *k_t])
    outs, outs_t = cut(found, count)
    return outs, spread(outs_t, on_carry)


def _loop(test: Any, step: Any, carry: Sequence[Any], constants: Sequence[Any]) -> Any:
    """A while_loop of two Python functions of (carry, constants)."""
    metas = [*metas_of(carry), *metas_of(constants)]
    cond, cond_closed = transforms().trace(test, metas)
    body, body_closed = transforms().trace(step, metas)
    known = len(metas)

    def padded(graph: Graph, skip: int, take: int) -> Graph:
        """The graph taking all that both close over; its own part starts at ``skip``."""
        every = [*metas, *metas_of(cond_closed), *metas_of(body_closed)]

        def run(*args: Any) -> Any:
            return graph(*args[:known], *args[known + skip : known + skip + take])

        return transforms().trace(run, every)[0]

    if cond_closed or body_closed:
        body = padded(body, len(cond_closed), len(body_closed))
        cond = padded(cond, 0, len(cond_closed))
    return ops.while_loop(carry, [*constants, *cond_closed, *body_closed], cond, body)


@rules.vjp("while_loop")
def while_vjp(active: Any, carry: Any, constants: Any, cond: Graph, body: Graph) -> Any:
    """Once through the loop to count its steps, then a scan of that many steps.

    Under vmap the lanes take different numbers of steps: the scan makes the most of them, and
    a lane that is done stands still. A graph may be mapped after it was made, so what is staged
    is guarded too; the guard is a branch, which costs an array it does not touch nothing.
    """
    count = len(carry)
    pure = without_effects(body)  # what the steps do besides, they do in the scan

    def counting(*args: Any) -> list[Any]:
        c, number, k = cut(args, count, 1)
        return [*pure(*c, *k), number[0] + 1]

    def test(*args: Any) -> Any:
        c, _, k = cut(args, count, 1)
        return cond(*c, *k)

    zero = ops.full((), 0, dt.int64)
    steps = _loop(test, counting, [*carry, zero], constants)[-1]
    length = as_dim(steps, largest=True)
    xs: tuple[Any, ...] = ()
    if is_traced(steps):
        body = _guarded(body, count)
        xs, constants = (ops.arange(0, length, 1, dt.int64),), (*constants, steps)
        active = (active[0], (*active[1], False))
    (outs, _), pull = scan_vjp(
        (active[0], (False,) * len(xs), active[1]), carry, xs, constants, body, length, False
    )

    def pull_carry(cts: Any) -> Any:
        g_carry, _, g_constants = pull(cts, ())
        return g_carry, g_constants[: len(g_constants) - len(xs)]

    return outs, pull_carry


def _guarded(body: Graph, count: int) -> Graph:
    """The body as a scan's step: (carry, index, constants, steps); from ``steps`` on, the carry."""
    metas = [v.meta for v in body.inputs]

    def step(*args: Any) -> Any:
        c, (index,), rest = cut(args, count, 1)
        *k, steps = rest
        goes_on = ops.cast(index < steps, dt.int64)
        return _branch(goes_on, [*c, *k], [lambda *a: a[:count], body])

    one = MetaTensor((), dt.int64)
    return transforms().trace(step, [*metas[:count], one, *metas[count:], one])[0]


@rules.batch("while_loop")
def while_batch(batched: Any, carry: Any, constants: Any, cond: Graph, body: Graph) -> Any:
    """While any lane goes on; a lane whose own condition has failed stands still."""
    size = batch_size((*carry, *constants), (*batched[0], *batched[1]))
    count, on = len(carry), list(batched[0])
    while True:
        flags = [*on, *batched[1]]
        first = [expanded(c, size) if f and not b else c for c, f, b in zip(carry, on, batched[0])]
        varies: list[bool] = []
        seen: list[bool] = []

        def test(*args: Any, flags: Any = flags, varies: Any = varies) -> list[Any]:
            (holds,), varies[:] = transforms().batch(cond, args, flags, size)
            return [ops.any(holds) if varies[0] else holds]

        def step(*args: Any, flags: Any = flags, seen: Any = seen) -> list[Any]:
            outs, mapped = transforms().batch(body, args, flags, size)
            (holds,), (own,) = transforms().batch(cond, args, flags, size)
            seen[:] = [m or own for m in mapped]
            outs = [expanded(o, size) if f and not m else o
                    for o, m, f in zip(outs, mapped, flags)]  # fmt: skip
            if not own or not all(flags[:count]):
                return outs
            return [ops.where(_aligned(holds, o), o, old) for o, old in zip(outs, args)]

        metas = [*metas_of(first), *metas_of(constants)]
        transforms().trace(step, metas)
        after = [a or b for a, b in zip(on, seen)]
        if after == on:
            break
        on = after
    final = _loop(test, step, first, constants)
    return tuple(c if f else expanded(c, size) for c, f in zip(final, on))


def _aligned(mask: Any, x: Any) -> Any:
    """A mask over the first axis, to broadcast against ``x``."""
    return ops.reshape(mask, (*mask.meta.dims, *(1,) * (x.ndim - mask.ndim)))


# -- branch --------------------------------------------------------------------------------------
def _branch(index: Any, operands: Sequence[Any], functions: Sequence[Any]) -> Any:
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

    found = _branch(index, [*operands, *operands_t], [both(g) for g in branches])
    outs, outs_t = cut(found, len(branches[0].outputs))
    return outs, spread(outs_t, are_floats(outs))


@rules.vjp("branch")
def branch_vjp(active: Any, index: Any, operands: Any, branches: tuple[Graph, ...]) -> Any:
    """Each branch keeps residuals of its own, and zeros in the places of the others'."""
    on = list(active[1])
    splits = [transforms().split(g, on, [False] * len(on), inside=True) for g in branches]
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

    found = _branch(index, operands, [forward(i) for i in range(len(branches))])
    outs, residuals = cut(found, count)
    sizes = [len(m) for m in residual_metas]

    def pull(cts: Any) -> Any:
        float_cts = select(cts, are_floats(outs))

        def backward(number: int) -> Any:
            def run(*args: Any) -> Any:
                own, rest = cut(args, len(operands))
                *parts, y = cut(rest, *sizes)
                kept = [own[i] for i in splits[number].kept]
                return splits[number].backward(*kept, *parts[number], *y)

            return run

        every = [*operands, *residuals, *float_cts]
        grads = _branch(index, every, [backward(i) for i in range(len(branches))])
        return None, spread(grads, on)

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
        return _branch(index, operands, [whole(g) for g in branches])

    def nothing(*args: Any) -> list[Any]:
        return [zeros(a.meta.with_dims((size, *a.meta.dims))) for a in branches[0].outputs]

    last = len(branches) - 1
    index = ops.minimum(ops.maximum(index, 0), last)
    outs: Any = None
    for number, graph in enumerate(branches):
        mask = index == number
        taken = ops.cast(ops.any(mask), dt.int64)
        found = _branch(taken, operands, [nothing, whole(graph)])
        outs = (
            found
            if outs is None
            else tuple(ops.where(_aligned(mask, new), new, old) for new, old in zip(found, outs))
        )
    return outs
