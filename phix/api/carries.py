"""What loops carry: where it begins as Python numbers, what these become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix import ops
from phix.api.arguments import function_name
from phix.api.branches import check_tree
from phix.api.flattened import FlattenedBody
from phix.api.weak_arguments import (
    Structure,
    default_dtypes_of,
    kinds_of,
    structure_of,
    taken,
    tree_of,
)
from phix.core import context, pytrees
from phix.core import dtypes as dt
from phix.core.conversion import tensor_from_scalar
from phix.core.errors import DTypeError
from phix.core.graph import Graph
from phix.core.meta import MetaTensor
from phix.core.transforms import transforms
from phix.core.weak import WIDE, Weak, weak_kind

_NUMBERS: dict[str, Any] = {"bool": bool, "int": int, "float": float, "complex": complex}


def body_graph(function: Callable[..., Any], before: tuple[Any, ...], init: Any, where: str) -> Any:
    """The flat carry, the graph of a loop's body, what it closes over, the structure of the carry.

    The body takes the tensors ``before`` and the carry, and gives back the carry.
    """
    leaves, carry = probed(init, where)
    for _ in rounds(leaves):
        run = FlattenedBody(
            function, taking(before, init, carry), f"the result of {function_name(function)}",
            kinds_of(carry),
        )  # fmt: skip
        graph, closed = transforms().trace(run, [x.meta for x in (*before, *leaves)])
        check_tree(run.out_tree, tree_of(carry), f"{where}: body_fun")
        carry, changed = met(init, leaves, carry, graph, run, len(before), where)
        if not changed:
            break
    return leaves, graph, closed, carry


def taking(before: tuple[Any, ...], init: Any, carry: Structure) -> Structure:
    """The structure of a call with the tensors ``before`` and the carry."""
    tree = pytrees.flatten(((*before, init), {}))[1]
    return structure_of(tree, [*[None] * len(before), *kinds_of(carry)])


def rounds(leaves: Sequence[Any]) -> range:
    """How often a body is traced at most: once more for each Python number that takes the dtype of
    the carry, and as often as a carry turns out to differ along one more axis of a mesh."""
    return range(2 + len(leaves) * (1 + len(context.context.tracked)))


def probed(init: Any, where: str) -> tuple[list[Any], Structure]:
    """The flat carry and its structure. Numbers are of their default dtype at first: most bodies
    give tensors of that, and are traced once then."""
    leaves, carry = taken(init, where)
    raw, dtypes = pytrees.leaves(init), default_dtypes_of(carry)
    return [
        x if dtype is None else _in(dtype, v) for x, dtype, v in zip(leaves, dtypes, raw)
    ], carry


def _in(dtype: Any, number: Any) -> Any:
    """A Python number as a tensor of that dtype."""
    is_weak = isinstance(number, Weak)
    return number.to_dtype(dtype) if is_weak else tensor_from_scalar(number, dtype)


def met(
    init: Any,
    leaves: list[Any],
    carry: Structure,
    graph: Graph,
    run: FlattenedBody,
    count: int,
    where: str,
) -> tuple[Structure, bool]:
    """Initial values that are Python numbers become what the body gives back: a tensor of a dtype,
    or a number, which has all its digits then. Those that are the same on all parts of a mesh,
    where the body's are not, are each part's own from the start. Changes ``leaves``; returns the
    structure of the carry, and whether the body is to be traced anew. It has ``count`` arguments
    before the carry.

    Raises:
        DTypeError: a float would lose its fraction, or a real number become a complex one, which
            compares and prints in another way from there on.
    """
    raw, kinds = pytrees.leaves(init), list(kinds_of(carry))
    changed = False
    for i, (value, out) in enumerate(zip(raw, graph.outputs)):
        dtype, kind, given = out.meta.dtype, kinds[i], run.gave[i]
        if kind is not None and (given is not None or count + i in run.asked):
            wide = WIDE[given or kind]
            if leaves[i].dtype != wide:
                leaves[i], changed = _in(wide, value), True
            kinds[i] = given or kind
        elif weak_kind(value) is not None:
            is_other = leaves[i].dtype != dtype
            if is_other:
                _check_carry(value, leaves[i].dtype, out.meta, where)
            if is_other or (kind in (float, complex) and leaves[i].dtype == WIDE[kind]):
                leaves[i], kinds[i], changed = _in(dtype, value), None, True
            elif kind not in (bool, int):  # which are as they are on their own
                kinds[i] = None
        if context.context.tracked:
            for axis in sorted(out.meta.varying - leaves[i].meta.varying):
                leaves[i] = ops.pvary(leaves[i], axis)
                changed = True
    return structure_of(tree_of(carry), kinds), changed


def _check_carry(value: Any, own: Any, out: MetaTensor, where: str) -> None:
    kinds = (dt.kind(own), dt.kind(out.dtype))
    if kinds[0] != kinds[1] and ("complex" in kinds or kinds[0] == "float"):
        number = 0 if isinstance(value, Weak) else value.real
        raise DTypeError(
            f"{where}: the carry begins as the Python number {value!r}, a {kinds[0]}, and "
            f"the body gives {out} back; begin with a number of that kind, as in "
            f"{_NUMBERS[kinds[1]](number)!r}, or cast what the body gives"
        )
