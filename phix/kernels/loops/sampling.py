"""Values that indices take, by trying: what a walk over a kernel's loops needs to evaluate them.

A sample is one choice of all loop indices in scope. The first takes the first iteration of every
loop, the second the last, the others any. Data that users give may be any number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from phix.core.records import dataclass, field
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.nodes import For, Kernel
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.bottom_up import bottom_up
from phix.kernels.scalar.language import CHOICES, Expr

Values = Any  # an array with a value a sample, or None where it is not known
_COUNT = 16


@dataclass(frozen=True)
class Samples:
    """The values of loop indices, and which samples are of iterations that take place."""

    known: dict[Expr, Values]
    is_real: np.ndarray
    found: dict[Expr, Values] = field(default_factory=dict)

    def through(self, loop: For) -> Samples:
        """The samples inside a loop."""
        first, end = self.of(loop.start), self.of(loop.extent)
        if first is None or end is None:
            return self._with(loop.index, None, np.zeros_like(self.is_real))
        count = np.maximum(end - first, 1)
        steps = _any_steps(len(self.known), count.size) % count
        steps[0], steps[1] = 0, count[1] - 1
        return self._with(loop.index, first + steps, self.is_real & (end > first))

    def where(self, condition: Expr) -> Samples:
        """The samples for which a condition is known to hold."""
        holds = self.of(condition)
        is_real = np.zeros_like(self.is_real) if holds is None else self.is_real & holds
        return Samples(self.known, is_real, self.found)

    def fixed(self, index: Expr, number: int) -> Samples:
        """The samples of one iteration of a loop."""
        return self._with(index, np.full(self.is_real.shape, number), self.is_real)

    def _with(self, index: Expr, values: Values, is_real: np.ndarray) -> Samples:
        inside = {e: v for e, v in self.found.items() if v is not None}  # none is of the index
        return Samples({**self.known, index: values}, is_real, inside)

    def of(self, root: Expr) -> Values:
        """The values of an expression; None where they are not known."""
        if root in self.found:
            return self.found[root]
        with np.errstate(all="ignore"):
            return bottom_up(root, self.found, self._value)

    def _value(self, e: Expr, operands: list[Values]) -> Values:
        if e.fn == "const":
            return np.full(self.is_real.shape, e.data, e.dtype)
        if e.fn == "var":
            return self.known.get(e)
        if e.fn == "load":
            is_given = e.data.kind == "input" and e.dtype.kind in "iu"
            return _any_numbers(e.dtype, self.is_real.size) if is_given else None
        rule = _RULES.get(e.fn)
        if rule is None or any(o is None for o in operands):
            return None
        return np.asarray(rule(*operands) if e.fn != "cast" else operands[0], e.dtype)

    def values(self, index: Expr) -> np.ndarray:
        """The values of an index in iterations that take place, as far as they are known."""
        found = self.of(index)
        return np.empty(0, np.int64) if found is None else np.unique(found[self.is_real])

    def violation(self, index: Expr, limit: int) -> int | None:
        """A value that an index takes outside ``range(limit)``; None if there is none known."""
        if index.fn == "const" and 0 <= index.data < limit and self.is_real.all():
            return None
        found = self.of(index)
        if found is None:
            return None
        outside = ((found < 0) | (found >= limit)) & self.is_real
        return int(found[outside].min()) if outside.any() else None


def start(kernel: Kernel, count: int = _COUNT, sizes: Mapping[str, int] | None = None) -> Samples:
    """The samples outside all loops of a kernel; the piece of a thread is all there is.

    ``sizes`` are those of unknown dims, by the names that they have in the program.
    """
    named = {sc.var(n): np.full(count, size, np.int64) for n, size in (sizes or {}).items()}
    samples = Samples(named, np.ones(count, bool))
    if kernel.shared is None:
        return samples
    whole = samples.of(kernel.shared.extent)
    known = {**named, ir.PIECE_START: np.zeros(count, np.int64), ir.PIECE_END: whole}
    return Samples(known, samples.is_real)


@cache
def _any_steps(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 40, count)


def _any_numbers(dtype: np.dtype, count: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    choices = np.array([limits.min, limits.max, 0, 1, 3, limits.max - 1], dtype)
    return np.resize(choices, count)


def _divided(remainder: bool) -> Callable[[Values, Values], Values]:
    def rule(a: Values, b: Values) -> Values:
        safe = np.where(b == 0, 1, b)
        quotient = np.where(b == 0, 0, np.trunc(a / safe)).astype(np.int64)
        exact = np.where((a >= 0) & (safe > 0), a // safe, quotient)
        return np.where(b == 0, 0, a - exact * safe) if remainder else exact

    return rule


_RULES: dict[str, Callable[..., Values]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "maximum": np.maximum, "minimum": np.minimum, **dict.fromkeys(CHOICES, np.where),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": np.invert, "cast": np.asarray,
    "quotient": _divided(False), "rest": _divided(True),
}  # fmt: skip
