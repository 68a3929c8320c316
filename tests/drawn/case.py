"""What a row of the tables draws from, and what it makes: a function and its inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[..., Any]
Shape = tuple[int, ...]

LARGEST = 4  # of all sizes
EMPTY = 8  # one seed in so many has dims of 0


@dataclass
class Case:
    """``run`` of ``inputs``, all arrays, of which floats have derivatives.

    ``reference`` is the same of NumPy. ``order``: the most derivatives that are checked. ``lanes``:
    the inputs that ``vmap`` may map over with their elements in the reverse order.
    """

    run: Run
    inputs: list[Any]
    reference: Run | None = None
    order: int = 2
    lanes: Sequence[int] | None = None


class Draw:
    """Choices of one row. Two draws of a seed have the same attributes at different sizes."""

    def __init__(self, seed: int, number: int = 0, is_complex: bool = False) -> None:
        self.is_complex = is_complex
        self.rng = np.random.default_rng([seed, 77])
        self.sizes = np.random.default_rng([seed, 78, number])
        self.values = np.random.default_rng([seed, 79, number])
        self.least = 0 if self.below(EMPTY) == 0 else 1

    # -- attributes
    def below(self, count: int) -> int:
        return int(self.rng.integers(count))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def is_true(self) -> bool:
        return bool(self.below(2))

    def flags(self, *names: str) -> dict[str, bool]:
        return {name: self.is_true() for name in names}

    def axis(self, rank: int) -> int:
        return self.below(2 * rank) - rank

    def axes(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Different axes in any order, some counted from the last."""
        count = least + self.below(rank - least + 1)
        chosen = self.rng.permutation(rank)[:count]
        return tuple(int(a) - rank * self.below(2) for a in chosen)

    # -- sizes
    def size(self, least: int = 0, largest: int = LARGEST) -> int:
        least = max(least, self.least)
        return int(self.sizes.integers(least, largest + 1))

    def up_to(self, count: int) -> int:
        """A number below a size."""
        return int(self.sizes.integers(max(count, 1)))

    def shape(self, least: int = 0, largest: int = 4, size: int = 0) -> Shape:
        rank = least + self.below(largest - least + 1)
        return tuple(self.size(size) for _ in range(rank))

    def thinned(self, shape: Shape) -> Shape:
        """A shape that broadcasts to ``shape``: some dims are 1, and leading ones may be absent."""
        kept = tuple(1 if self.below(3) == 0 else n for n in shape)
        return kept[self.below(len(kept) + 1) :] if self.is_true() else kept

    # -- values
    def numbers(self, *shape: int) -> np.ndarray:
        """Floats from -2 to 2, all different, none of them 0; or complex numbers of such."""
        return self.complex(*shape) if self.is_complex else self.floats(*shape)

    def floats(self, *shape: int) -> np.ndarray:
        count = math.prod(shape)
        gap = 4.0 / max(count, 4)
        near = self.values.uniform(0.3, 0.45, count)
        return ((self.values.permutation(count) - count // 2 + near) * gap).reshape(shape)

    def itemsize(self) -> int:
        return 16 if self.is_complex else 8

    def positive(self, *shape: int) -> np.ndarray:
        return 0.5 + np.abs(self.floats(*shape))

    def complex(self, *shape: int) -> np.ndarray:
        return self.floats(*shape) + 1j * self.floats(*shape)

    def weights(self, *shape: int) -> np.ndarray:
        """Positive floats whose sum along the last axis is 1."""
        found = self.positive(*shape)
        return found / found.sum(-1, keepdims=True)

    def index(self, shape: Shape, size: int, negative: bool = False) -> np.ndarray:
        """Places in an axis of that size; they come again."""
        low = -size if negative else 0
        return self.values.integers(low, max(size, low + 1), shape)

    def mask(self, *shape: int) -> np.ndarray:
        return self.values.integers(0, 2, shape).astype(bool)


ROWS: dict[str, Callable[[Draw], Case]] = {}


def row(maker: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
    """A row of the table, by the name of the op."""
    ROWS[maker.__name__.removesuffix("_")] = maker
    return maker


def rows(names: str, maker: Callable[[str], Callable[[Draw], Case]]) -> None:
    """A row for each name, all of which are drawn alike."""
    ROWS.update((name, maker(name)) for name in names.split())


def normal_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """As NumPy takes them: none stand for all."""
    return tuple(axes) if axes else tuple(range(rank))


def position(shape: Shape) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape)))
