"""Comparing results: what rounding may do, and what it may not.

A program runs in float64 by itself, and again on inputs moved by what rounding to its dtype
moves them: the change says how far rounding may carry each result. Everything else that runs
must be within a multiple of that of the run in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phix.core import pytrees

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
# How much of a result's largest value, in epsilons, rounding on the way may cost.
ALLOWED = {"float16": 24.0, "bfloat16": 12.0, "float32": 400.0, "float64": 20_000.0}
TIMES = 30.0  # of what moved inputs change
# What cancels to nothing in one result is rounded at the size of the others, or of numbers about 1
# that are drawn: so much of it.
OF_OTHERS = 0.01


@dataclass
class Expected:
    """What a leaf of the results must be, within an error of its own."""

    value: np.ndarray
    error: float
    is_exact: bool  # of ints and bools: the same, if moved inputs leave them as they are


def moved(args: Any, epsilon: float, rng: np.random.Generator) -> Any:
    """The arguments, moved by some epsilons of each value."""

    def move(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind not in "fc":
            return x
        return np.asarray(x * (1.0 + epsilon * rng.choice([-1.0, 1.0], x.shape)))

    return pytrees.map(move, args)


def wide(x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        return x.astype(np.int64)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _largest(x: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        size = np.abs(x)
    return float(np.max(size[np.isfinite(size)], initial=0.0))


def expected(value: Sequence[Any], others: Sequence[Sequence[Any]], dtype: str) -> list[Expected]:
    """From the leaves of a run in float64, and of runs on moved inputs."""
    made = []
    sizes = [_largest(x) for x in map(wide, value) if x.dtype.kind != "i"]
    least = OF_OTHERS * max([1.0, *sizes])
    for number, leaf in enumerate(value):
        x = wide(leaf)
        changes = [np.abs(wide(o[number]) - x) for o in others]
        change = max((float(np.max(c[np.isfinite(c)], initial=0.0)) for c in changes), default=0.0)
        if x.dtype.kind == "i":
            made.append(Expected(x, 0.0, change == 0.0))
            continue
        scale = max(_largest(x), least)
        error = TIMES * change + ALLOWED[dtype] * EPSILON[dtype] * scale + 1e-30
        made.append(Expected(x, error, True))
    return made


def rescaled(like: Sequence[Expected], value: Sequence[Any]) -> list[Expected]:
    """What other data must give, if rounding does to it what it does to the first."""
    made = []
    for first, leaf in zip(like, value):
        x = wide(leaf)
        scale = _largest(x) / (_largest(first.value) or 1.0)
        is_exact = x.dtype.kind != "i" and first.is_exact
        made.append(Expected(x, 3.0 * first.error * max(1.0, scale), is_exact))
    return made


def widened(wanted: Sequence[Expected], runs: Sequence[Sequence[Any]]) -> list[Expected]:
    """The same, as far off as runs in the dtype itself, on moved inputs, are from each other.

    A fault of a program is in all of them, so it does not widen anything. Where all of a float16
    result is 0 in every run, its terms were too small for the dtype, and it may be 0; an element
    that is finite in none had terms too large for it, and may be infinite or NaN.
    """
    made = []
    for number, want in enumerate(wanted):
        each = np.stack([wide(run[number]) for run in runs])
        with np.errstate(all="ignore"):
            apart = np.abs(each - each[0])
        error, value = max(want.error, 8.0 * _largest(apart)), want.value
        if runs[0][number].dtype == np.float16:
            error = error if each.any() else max(error, _largest(value))
            value = np.where(np.isfinite(each).any(0), value, np.inf)
        made.append(Expected(value, error, want.is_exact))
    return made


def difference(found: Sequence[Any], wanted: Sequence[Expected], most: float) -> str:
    """How results differ, "" where they do not; ``most`` is the largest number of the dtype."""
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for number, (leaf, want) in enumerate(zip(found, wanted)):
        x = wide(leaf)
        if x.shape != want.value.shape:
            return f"result {number}: shape {x.shape}, not {want.value.shape}"
        if x.dtype.kind == "i":
            if want.is_exact and not np.array_equal(x, want.value):
                return f"result {number}: {x.tolist()}, not {want.value.tolist()}"
            continue
        with np.errstate(all="ignore"):
            near = np.abs(x - want.value) <= want.error
            near |= (x == want.value) | (np.isnan(x) & np.isnan(want.value))
            near |= ~np.isfinite(x) & ~(np.abs(want.value) < most)  # overflow
        if not near.all():
            with np.errstate(all="ignore"):
                off = np.abs(x - want.value)[~near]
            return (
                f"result {number}, shape {x.shape}: {int((~near).sum())} of {x.size} elements off "
                f"by up to {np.max(off):.4g}, where {want.error:.2g} is allowed and the largest is "
                f"{np.max(np.abs(want.value)):.4g}; first at {np.argwhere(~near)[0].tolist()}: "
                f"{x[~near][0]:.8g}, not {want.value[~near][0]:.8g}"
            )
    return ""


def same_bits(a: Sequence[Any], b: Sequence[Any]) -> str:
    for number, (x, y) in enumerate(zip(a, b)):
        x, y = np.asarray(x), np.asarray(y)
        if x.tobytes() != y.tobytes():
            where = np.argwhere(x != y)
            return f"result {number} differs at {len(where)} of {x.size} places"
    return ""
