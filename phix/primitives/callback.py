"""Python functions that a program calls on the host."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import ArgumentError, DifferentiationError
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.primitives.flat import Metas, batch_size, expanded, metas_of, select, spread


@rules.infer_meta("PureCallbackInferMeta")
def pure_callback_meta(
    operands: Metas, function: Any, dims: Any, ranks: Any, dtypes: Any, vmap_method: str
) -> Metas:
    out, at = [], 0
    for rank, dtype in zip(ranks, dtypes):
        out.append(MetaTensor(dims[at : at + rank], dtype))
        at += rank
    return tuple(out)


@rules.infer_meta("DebugCallbackInferMeta")
def debug_callback_meta(operands: Metas, function: Any) -> MetaTensor:
    return MetaTensor((), dt.int32)


def _no_derivative(function: Any) -> DifferentiationError:
    return DifferentiationError(
        f"pure_callback: the derivative of {getattr(function, '__name__', function)!r} is not "
        "known; call it inside a phix.custom_vjp or phix.custom_jvp, or under phix.stop_gradient"
    )


@rules.jvp("pure_callback")
def pure_callback_jvp(primals: Any, tangents: Any, function: Any, *attrs: Any) -> Any:
    raise _no_derivative(function)


@rules.vjp("pure_callback")
def pure_callback_vjp(active: Any, operands: Any, function: Any, *attrs: Any) -> Any:
    raise _no_derivative(function)


def _row_by_row(op: Any, batched: Any, operands: Any) -> Any:
    """The op on one lane after the other; its outputs stacked."""
    flags, size = list(batched[0]), batch_size(operands, batched[0])
    rows, rest = select(operands, flags), select(operands, [not f for f in flags])

    def step(*args: Any) -> Any:
        own = spread(args[: len(rows)], flags)
        others = spread(args[len(rows) :], [not f for f in flags])
        found = op([a if f else k for a, k, f in zip(own, others, flags)])
        return found if isinstance(found, tuple) else (found,)

    slices = [x.meta.with_dims(x.meta.dims[1:]) for x in rows]
    graph, closed = transforms().trace(step, [*slices, *metas_of(rest)])
    return ops.scan((), rows, [*rest, *closed], graph, size, False)[1]


@rules.batch("pure_callback")
def pure_callback_batch(
    batched: Any, operands: Any, function: Any, dims: Any, ranks: Any, dtypes: Any, method: str
) -> Any:
    size = batch_size(operands, batched[0])
    if method == "sequential":
        return _row_by_row(
            lambda own: ops.pure_callback(own, function, dims, ranks, dtypes, method),
            batched,
            operands,
        )
    if method not in ("expand_dims", "broadcast_all"):
        raise ArgumentError(
            "pure_callback under vmap: say how with vmap_method: 'sequential' calls the function "
            "once a lane, 'expand_dims' and 'broadcast_all' once with a leading axis"
        )
    wide, at = [], 0
    for rank in ranks:
        wide += [size, *dims[at : at + rank]]
        at += rank
    lanes = size if method == "broadcast_all" else 1
    whole = [x if b else expanded(x, lanes) for x, b in zip(operands, batched[0])]
    return ops.pure_callback(whole, function, wide, [r + 1 for r in ranks], dtypes, method)


@rules.batch("debug_callback")
def debug_callback_batch(batched: Any, operands: Any, function: Any) -> Any:
    return _row_by_row(lambda own: ops.debug_callback(own, function), batched, operands)[0]
