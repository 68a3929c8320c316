"""Flat lists of tensors and the graphs that take them, for the rules of ops with graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ShapeError
from phix.core.graph import Graph, solve_dims
from phix.core.meta import MetaTensor, covers
from phix.core.tensor import Tracer
from phix.core.transforms import Split, transforms

Metas = tuple[MetaTensor, ...]


def select(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, flags) if f]


def spread(values: Sequence[Any], flags: Sequence[bool]) -> tuple[Any, ...]:
    """The inverse of :func:`select`, None in the gaps."""
    supply = iter(values)
    return tuple(next(supply) if f else None for f in flags)


def cut(values: Sequence[Any], *sizes: int) -> list[tuple[Any, ...]]:
    """Consecutive parts of those sizes, and the rest."""
    parts, at = [], 0
    for size in sizes:
        parts.append(tuple(values[at : at + size]))
        at += size
    return [*parts, tuple(values[at:])]


def metas_of(values: Sequence[Any]) -> list[MetaTensor]:
    return [v.meta for v in values]


def are_floats(values: Sequence[Any]) -> list[bool]:
    return [dt.is_differentiable(v.dtype) for v in values]


def are_given(values: Sequence[Any]) -> list[bool]:
    return [v is not None for v in values]


def zeros(meta: MetaTensor) -> Any:
    return ops.full(meta.dims, 0, meta.dtype)


def summable(meta: MetaTensor) -> MetaTensor:
    """What derivatives of ``meta`` add up in: of a dtype of storage, which has no sums, float32."""
    return meta.with_dtype(dt.float32) if meta.dtype in dt.STORAGE else meta


def of_dtype(x: Any, like: Any) -> Any:
    return x if x.dtype == like.dtype else ops.cast(x, like.dtype)


def or_zeros(tangents: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Tangents for all floats, zeros where there is none."""
    return [
        zeros(x.meta) if t is None else t
        for t, x in zip(tangents, like)
        if dt.is_differentiable(x.dtype)
    ]


def takes_none(pull: Any) -> Any:
    """Have the tape give None for a cotangent of an output that nothing came from, not zeros: what
    is 0 times a slope that is infinite is no derivative."""
    pull.takes_none = True
    return pull


def lacking(cts: Sequence[Any]) -> tuple[bool, ...] | None:
    """Which cotangents of several are there; None if all are."""
    given = tuple(are_given(cts))
    return None if all(given) else given


def split_inside(
    graph: Graph, active: Sequence[bool], invariant: Sequence[bool], given: Any = None
) -> Split:
    """The reverse mode of an equation's graph, kept with it unless it holds tracers of today: where
    loops stand inside loops, each is asked for by all around, for all cotangents and for some."""
    key = ("split", tuple(active), tuple(invariant), given)
    found: Split | None = graph.memo.get(key)
    if found is None:
        found = transforms().split(graph, active, invariant, inside=True, given=given)
        constants = (*found.forward.constants, *found.backward.constants)
        if not any(isinstance(c.value, Tracer) for c in constants):
            graph.memo[key] = found
    return found


def alike(before: Sequence[Split], found: Sequence[Split]) -> list[Split]:
    """Those found, where they take what those before do; otherwise those before."""
    return [
        f if f.kept == b.kept and metas_of(f.backward.inputs) == metas_of(b.backward.inputs) else b
        for b, f in zip(before, found)
    ]


def batch_size(values: Sequence[Any], flags: Sequence[bool]) -> Any:
    return next(v.meta.dims[0] for v, f in zip(values, flags) if f)


def expanded(x: Any, size: Any) -> Any:
    return ops.expand(x, (size, *x.meta.dims))


def fit(graph: Graph, found: Metas, what: str) -> None:
    """Raise unless the graph takes inputs of these metas, and gives what has a size outside."""
    sizes = graph.own_sizes
    if sizes:
        of_own = (a.meta for a in graph.outputs if any(sizes & dm.symbols(d) for d in a.meta.dims))
        raise ShapeError(
            f"{what} gives {next(of_own)}, of a size that it computes itself from data: each time "
            "it runs it may be another, so no tensor outside can have it; bring the result to a "
            "size that is known before (phix.ops.where(mask, x, other), "
            "phix.ops.true_positions(mask, size)), or reduce it inside"
        )
    wanted = tuple(v.meta for v in graph.inputs)
    if len(wanted) != len(found) or not all(
        covers(w, f) or covers(f, w) for w, f in zip(wanted, found)
    ):
        raise ShapeError(f"{what} takes {list(wanted)}, found {list(found)}; trace it for these")


def out_metas(graph: Graph) -> Metas:
    return tuple(a.meta for a in graph.outputs)


def results(graph: Graph, found: Metas, what: str) -> Metas:
    """The metas of what the graph gives for inputs of these, its own unknown dims among theirs."""
    fit(graph, found, what)
    env = solve_dims([v.meta for v in graph.inputs], [m.dims for m in found])
    return tuple(m.substitute(env) for m in out_metas(graph))
