"""What steps put in one place after the other of an array is put there once, behind their loop.

    total = total + pad(row, ...)       x = slice_put(x, row, ...)

A row of each step, in places that follow each other along one axis: nobody asks what the array was
in between. The first is how the derivative of ``x[i]`` is summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from phix import ops
from phix.core.graph import Equation
from phix.core.rules import OPS
from phix.passes.unrolled_steps import Read, Result, Steps


class Placed(NamedTuple):
    """Equations of each step that put ``rows`` into an array at ``places`` along an axis; ``made``
    is the array, and ``put(before, rows, axis, first place)`` what has all of them."""

    offsets: tuple[int, ...]
    made: Result
    rows: tuple[Any, ...]
    places: tuple[int, ...]
    axis: int
    put: Callable[[Any, Any, int, int], Any]


def placed_rows(steps: Steps, is_read: Callable[[Any], bool]) -> Iterator[Placed]:
    """Those behind a loop; ``is_read(variable)`` says whether an equation of no step reads one."""
    for offset in sorted(steps.behind):
        found = _padded(steps, offset) or _put(steps, offset)
        if found is not None and _is_row_by_row(steps, found, is_read):
            yield found


def _padded(steps: Steps, offset: int) -> Placed | None:
    """``total + pad(row)`` of which ``offset`` is the sum."""
    reads = steps.reads[offset]
    if steps.equation(0, offset).op is not OPS["add"] or len(reads) != 2:
        return None
    made = Result(offset, 0)
    pads = [r for r in reads if r and r.ago == 0]
    if Read(made, 1) not in reads or len(pads) != 1 or pads[0].value.number:
        return None
    pad = pads[0].value.offset
    found = _places(steps, pad, _padding)
    if found is None or _readers(steps, pads[0].value) != [offset]:
        return None
    return Placed((pad, offset), made, steps.atoms(pad, 0), *found, _sum_of_padded)


def _put(steps: Steps, offset: int) -> Placed | None:
    """``slice_put(x, row)``."""
    made = Result(offset, 0)
    if steps.reads[offset][:1] != [Read(made, 1)] or len(steps.reads[offset]) != 2:
        return None
    found = _places(steps, offset, _slice)
    if found is None:
        return None
    return Placed((offset,), made, steps.atoms(offset, 1), *found, _all_put)


def _is_row_by_row(steps: Steps, found: Placed, is_read: Callable[[Any], bool]) -> bool:
    """Whether the rows are of the loop, one behind the other, and the array is asked for last."""
    source = steps.reads[found.offsets[0]][1 if found.put is _all_put else 0]
    if source is not None and source.value.offset in steps.behind:
        return False
    by = found.places[1] - found.places[0]
    if abs(by) != 1 or any(b - a != by for a, b in zip(found.places, found.places[1:])):
        return False
    between = (steps.variable(n, found.made) for n in range(steps.count - 1))
    return _readers(steps, found.made) == [found.offsets[-1]] and not any(map(is_read, between))


def _readers(steps: Steps, value: Result) -> list[int]:
    return [o for o, reads in enumerate(steps.reads) for r in reads if r and r.value == value]


def _places(
    steps: Steps, offset: int, of: Callable[[Equation], tuple[int, int] | None]
) -> tuple[tuple[int, ...], int] | None:
    """Where an equation puts a row in each step, and along which axis."""
    found = [of(steps.equation(step, offset)) for step in range(steps.count)]
    axes = {f[0] if f else None for f in found}
    if len(axes) > 1 or None in axes:
        return None
    return tuple(f[1] for f in found if f), axes.pop() or 0


def _padding(equation: Equation) -> tuple[int, int] | None:
    """The axis along which zeros are put around one place, and which place."""
    if equation.op is not OPS["pad"]:
        return None
    paddings, fill = equation.attrs
    row: Any = equation.inputs[0]
    axes = [n for n in range(row.meta.ndim) if any(paddings[2 * n : 2 * n + 2])]
    if fill != 0 or len(axes) != 1 or min(paddings) < 0 or row.meta.dims[axes[0]] != 1:
        return None
    return axes[0], paddings[2 * axes[0]]


def _slice(equation: Equation) -> tuple[int, int] | None:
    """The axis along which one place is written whole, and which place."""
    if equation.op is not OPS["slice_put"]:
        return None
    x, row = (a.meta for a in equation.atoms)
    (axis, *more), (start, *_), (end, *_), strides, accumulate = equation.attrs
    if more or accumulate or any(s != 1 for s in strides) or row.dtype != x.dtype:
        return None
    one_place = tuple(1 if n == axis else d for n, d in enumerate(x.dims))
    if row.dims != one_place or not 0 <= start < x.dims[axis] or end != start + 1:
        return None
    return axis, start


def _sum_of_padded(total: Any, rows: Any, axis: int, first: int) -> Any:
    paddings = [0] * (2 * total.ndim)
    paddings[2 * axis] = first
    paddings[2 * axis + 1] = total.shape[axis] - first - rows.shape[axis]
    return ops.add(total, ops.pad(rows, paddings, 0.0))


def _all_put(x: Any, rows: Any, axis: int, first: int) -> Any:
    last = first + rows.shape[axis]
    return ops.slice_put(x, rows, [axis], [first], [last], [1], False)
