"""Choices by values that are not known while tracing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.api.arguments import flat_tensors, function_name
from phix.api.flattened import Flattened, FlattenedBranch
from phix.api.signatures import R
from phix.api.weak_arguments import Structure, taken
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.errors import ArgumentError, DTypeError, ShapeError, described
from phix.core.given import FUNCTION, FUNCTIONS, takes
from phix.core.graph import Graph
from phix.core.meta import check_alike
from phix.core.tensor import TensorBase
from phix.core.transforms import transforms


def traced_like(
    function: Callable[..., Any], structure: Structure, leaves: Sequence[Any], where: str
) -> tuple[Graph, list[Any], Any]:
    """The graph of ``function`` of such arguments, what it closes over, its result's tree."""
    run = Flattened(function, structure, f"the result of {where}")
    graph, closed = transforms().trace(run, [x.meta for x in leaves])
    return graph, closed, run.out_tree


def check_tree(found: Any, wanted: Any, where: str) -> None:
    """Refuse a result of another structure."""
    if found != wanted:
        raise ArgumentError(f"{where} must give a result of structure {wanted}, gave {found}")


@takes(true_fn=FUNCTION, false_fn=FUNCTION)
def cond(pred: Any, true_fn: Callable[..., R], false_fn: Callable[..., R], *operands: Any) -> R:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``; one of them runs.

    Args:
        pred: one bool (or a number: nonzero is true).
        true_fn, false_fn: functions of the operands, giving trees of the same structure and metas.
        *operands: trees of tensors.

    Raises:
        ShapeError, DTypeError: pred is no single value, or the results differ.

    >>> import phix
    >>> f = phix.jit(lambda x: phix.cond(x > 0, phix.ops.sqrt, lambda x: -x, x))
    >>> f(4.0).item(), f(-3.0).item()
    (2.0, 3.0)
    """
    pred = single(pred, "cond: pred")
    if pred.ndim:
        raise ShapeError(
            f"cond: pred must be one value, found {pred.meta}; use phix.ops.where for a choice "
            "element by element"
        )
    index = ops.cast(pred if pred.dtype == dt.bool_ else pred != 0, dt.int64)
    return _choose(index, [false_fn, true_fn], operands, "cond", ["false_fn", "true_fn"])


@takes(branches=FUNCTIONS)
def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """``branches[index](*operands)``, the index clamped to the branches there are.

    Args:
        index: one int.
        branches: functions of the operands, giving trees of the same structure and metas.
        *operands: trees of tensors.

    >>> import phix
    >>> phix.switch(1, [phix.ops.sin, phix.ops.abs], -2.0).item()
    2.0
    """
    if not branches:
        raise ArgumentError("switch: branches is empty; give at least one function")
    index = single(index, "switch: index")
    if index.ndim or dt.kind(index.dtype) != "int":
        raise DTypeError(f"switch: index must be one int, found {index.meta}")
    names = [f"branch {number}" for number in range(len(branches))]
    return _choose(index, branches, operands, "switch", names)


def single(value: Any, where: str) -> TensorBase:
    """The tensor that a value is."""
    found, tree = flat_tensors(value, where)
    if tree != pytrees.flatten(0)[1]:
        raise ArgumentError(f"{where} must be one tensor or number, found {described(value)}")
    return found[0]


def _choose(
    index: Any, branches: Sequence[Any], operands: Any, where: str, names: Sequence[str]
) -> Any:
    leaves, structure = taken((tuple(operands), {}), where)
    runs = [FlattenedBranch(f, structure, f"the result of {function_name(f)}") for f in branches]
    metas = [x.meta for x in leaves]
    traced = [transforms().trace(run, metas) for run in runs]
    out_tree = runs[0].out_tree
    for function, run in zip(branches, runs):
        check_tree(run.out_tree, out_tree, f"{where}: branch {function_name(function)}")
    for n, run in enumerate(runs):
        wanted = _dtypes_beside(n, runs, traced)
        if any(wanted):
            run.dtypes = wanted
            traced[n] = transforms().trace(run, metas)
    metas_of = [tuple(a.meta for a in graph.outputs) for graph, _ in traced]
    for name, found in zip(names, metas_of):
        check_alike(metas_of[0], found, f"{where}: {names[0]}", name)
    closed = [values for _, values in traced]
    graphs = [taking_all(graph, leaves, closed, number) for number, (graph, _) in enumerate(traced)]
    outs = ops.branch(index, [*leaves, *(v for values in closed for v in values)], graphs)
    return pytrees.unflatten(out_tree, outs)


def _dtypes_beside(number: int, runs: Sequence[FlattenedBranch], traced: Sequence[Any]) -> Any:
    """For each result of a branch that is a number, the dtype of the tensor that another branch
    gives there, if the number takes that and has another on its own."""
    own, graph = runs[number].kinds, traced[number][0]
    found: list[Any] = [None] * len(own)
    for k, kind in enumerate(own):
        dtypes = {g.outputs[k].meta.dtype for r, (g, _) in zip(runs, traced) if r.kinds[k] is None}
        if kind is not None and len(dtypes) == 1:
            (dtype,) = dtypes
            takes = dt.promote_weak(dtype, kind) == dtype
            found[k] = dtype if takes and dtype != graph.outputs[k].meta.dtype else None
    return found


def taking_all(graph: Graph, leaves: Sequence[Any], closed: Sequence[Any], number: int) -> Graph:
    """The graph taking what all the graphs beside it close over, and using its own part."""
    if not any(closed):
        return graph
    start = len(leaves) + sum(len(c) for c in closed[:number])
    own = slice(start, start + len(closed[number]))

    def run(*args: Any) -> Any:
        return graph(*args[: len(leaves)], *args[own])

    metas = [x.meta for x in (*leaves, *(v for values in closed for v in values))]
    return transforms().trace(run, metas)[0]


@takes()
def select_n(which: Any, *cases: Any) -> Any:
    """Elementwise choice among the cases: element i of ``cases[which[i]]``.

    Args:
        which: ints in [0, len(cases)), clamped, or bools for two cases; 0-d, or of the cases' dims.
        *cases: tensors of one shape and dtype.

    >>> import phix
    >>> phix.select_n([0, 1, 1], [1, 2, 3], [10, 20, 30]).tolist()
    [1, 20, 30]
    """
    return ops.select_n(which, cases)


__all__ = ["cond", "select_n", "switch"]
