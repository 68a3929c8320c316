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
from phix.core.errors import DTypeError, ShapeError
from phix.core.graph import Graph, without_effects
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.primitives.branches import aligned, branched, of_takers
from phix.primitives.flat import (
    Metas,
    alike,
    are_floats,
    are_given,
    batch_size,
    cut,
    expanded,
    fit,
    metas_of,
    of_dtype,
    or_zeros,
    out_metas,
    results,
    select,
    split_inside,
    spread,
    summable,
    takes_none,
    zeros,
)
from phix.primitives.reaching import only, reached_by_steps, reached_steps


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
    _keeps(carry, results(body, (lower, *carry, *constants), "body"), "body")
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

    return looped(more, advance, [lower, *carry], [*constants, upper])[1:]


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
    outs = results(body, (*carry, *slices, *constants), "body")
    _keeps(carry, outs[: len(carry)], "body")
    ys = tuple(y.with_dims((length, *y.dims)) for y in outs[len(carry) :])
    return carry, ys


def slices_of(xs: Sequence[Any]) -> list[MetaTensor]:
    """What one step takes of rows."""
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

    metas = [*metas_of(carry), *metas_of(carry_t), *slices_of(xs), *slices_of(xs_t)]
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
    flags = [*on[0], *on[1], *on[2]]
    split = split_inside(body, flags, fixed)
    count, sizes = len(carry), (len(carry), len(xs))
    kept = [[i - s for i in split.kept if s <= i < e] for s, e in _ranges(*sizes, len(constants))]

    def forward(*args: Any) -> list[Any]:
        return [*split.forward(*args), *(args[i] for i in kept[0])]

    metas = [*metas_of(carry), *slices_of(xs), *metas_of(constants)]
    graph, closed = transforms().trace(forward, metas)
    final, stacked = ops.scan(carry, xs, [*constants, *closed], graph, length, reverse)
    ys, residuals, carries = cut(
        stacked, len(body.outputs) - count, len(split.forward.outputs) - len(body.outputs)
    )

    @takes_none
    def pull(final_ct: Any, ys_ct: Any) -> Any:
        live = reached_steps(body, are_given((*final_ct, *ys_ct)), count)
        given = _given(body, live)
        back = split.backward
        if given is not None:
            back = alike([split], [split_inside(body, flags, fixed, given)])[0].backward
        ct, ct_ys = or_zeros(final_ct, final), or_zeros(ys_ct, ys)
        sums = [zeros(summable(k.meta)) for k in select(constants, on[2])]
        rows = [*carries, *(xs[i] for i in kept[1]), *residuals, *ct_ys]
        whole = [constants[i] for i in kept[2]]
        sizes = (len(ct), len(sums), len(carries) + len(kept[1]), len(residuals), len(ct_ys))

        def backward(*args: Any) -> list[Any]:
            c, total, own, res, y, k = cut(args, *sizes)
            grads = back(*own, *k, *res, *c, *y)
            g_c, g_x, g_k = cut(grads, len(c), sum(on[1]))
            return [*g_c, *(t + of_dtype(g, t) for t, g in zip(total, g_k)), *g_x]

        metas = [*metas_of(ct), *metas_of(sums), *slices_of(rows), *metas_of(whole)]
        graph, closed = transforms().trace(backward, metas)
        found, g_xs = ops.scan([*ct, *sums], rows, [*whole, *closed], graph, length, not reverse)
        g_carry, g_sums = cut(found, len(ct))
        g_constants = list(map(of_dtype, g_sums, select(constants, on[2])))
        grads = (*spread(g_carry, on[0]), *spread(g_xs, on[1]), *spread(g_constants, on[2]))
        return cut(only(grads, reached_by_steps(body, live, count)), count, len(xs))

    return (final, ys), pull


def _given(body: Graph, live: Sequence[bool]) -> tuple[bool, ...] | None:
    """Of which float results of a step there are cotangents; None if of all."""
    floats = select(live, are_floats(out_metas(body)))
    return None if all(floats) else tuple(floats)


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

        metas = [*metas_of(first), *slices_of(rows), *metas_of(constants)]
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

    found = looped(test, both, [*carry, *carry_t], [*constants, *k_t])
    outs, outs_t = cut(found, count)
    return outs, spread(outs_t, on_carry)


def looped(test: Any, step: Any, carry: Sequence[Any], constants: Sequence[Any]) -> Any:
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
    steps = looped(test, counting, [*carry, zero], constants)[-1]
    length = as_dim(steps, largest=True)
    xs: tuple[Any, ...] = ()
    if is_traced(steps):
        body = _guarded(body, count)
        xs, constants = (ops.arange(0, length, 1, dt.int64),), (*constants, steps)
        active = (active[0], (*active[1], False))
    (outs, _), pull = scan_vjp(
        (active[0], (False,) * len(xs), active[1]), carry, xs, constants, body, length, False
    )

    @takes_none
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
        return branched(goes_on, [*c, *k], [lambda *a: a[:count], body])

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
            (holds,), (own,) = transforms().batch(cond, args, flags, size)
            # the body may have no derivative where a lane stands still
            given = of_takers(holds, args, flags) if own else args
            outs, mapped = transforms().batch(body, given, flags, size)
            seen[:] = [m or own for m in mapped]
            outs = [expanded(o, size) if f and not m else o
                    for o, m, f in zip(outs, mapped, flags)]  # fmt: skip
            if not own or not all(flags[:count]):
                return outs
            return [ops.where(aligned(holds, o), o, old) for o, old in zip(outs, args)]

        metas = [*metas_of(first), *metas_of(constants)]
        transforms().trace(step, metas)
        after = [a or b for a, b in zip(on, seen)]
        if after == on:
            break
        on = after
    final = looped(test, step, first, constants)
    return tuple(c if f else expanded(c, size) for c, f in zip(final, on))
