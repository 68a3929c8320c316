"""What models are drawn from: sizes, parameters, data; and what a drawn model is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Function = Callable[..., Any]
Dims = tuple[Any, ...]  # of ints, and of names: sizes that a model does not look at

# around vector widths
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65)
SMALL = (1, 2, 3, 4, 5, 7, 8)


@dataclass
class Entry:
    """One array of data: how it is drawn, and the dims it has."""

    kind: str  # normal, uniform, label (ints below ``bound``), mask, direction
    dims: Dims
    bound: int = 0
    scale: float = 1.0

    def sized(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)

    def make(self, rng: np.random.Generator, sizes: dict[str, int], is_complex: bool) -> np.ndarray:
        """The data, in float64 (complex128) where it is of floats."""
        shape = self.sized(sizes)
        if self.kind == "label":
            return rng.integers(0, self.bound, shape).astype(np.int64)
        if self.kind == "mask":
            return rng.random(shape) < 0.7
        if self.kind == "uniform":
            return np.asarray(rng.random(shape) * self.scale)
        values = rng.normal(size=shape)
        if is_complex:
            values = values + 1j * rng.normal(size=shape)
        return np.asarray(values * self.scale)


@dataclass
class Model:
    """A drawn network: ``forward(B, p, d)`` and ``loss(B, p, d)``, over a backend."""

    text: list[str] = field(default_factory=list)
    params: dict[str, Entry] = field(default_factory=dict)
    data: dict[str, Entry] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of the names in dims
    is_complex: bool = False
    is_smooth: bool = True  # no kinks: rounding may not change much
    forward: Function = lambda B, p, d: None
    loss: Function = lambda B, p, d: None


class Draw:
    """A generator with the choices that models are made of."""

    def __init__(self, seed: int, salt: int = 4711) -> None:
        self.rng = np.random.default_rng([seed, salt])
        self.model = Model()

    def choose(self, items: Any) -> Any:
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def weighted(self, items: dict[Any, float]) -> Any:
        total = np.array(list(items.values()), float)
        return list(items)[int(self.rng.choice(len(items), p=total / total.sum()))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: float = 0.2, high: float = 1.5) -> float:
        """A number with few digits, so that float16 has it too."""
        return float(np.round(self.rng.uniform(low, high) * 16) / 16)

    def size(self, most: int = 65) -> int:
        return int(self.choose([s for s in SIZES if s <= most]))

    def small(self) -> int:
        return int(self.choose(SMALL))

    def named(self, name: str, most: int = 65) -> str:
        """A dim that the model does not look at, and that may be left unknown."""
        if name not in self.model.sizes:
            is_empty = self.chance(0.02)
            self.model.sizes[name] = 0 if is_empty else self.size(most)
        return name

    def param(self, *dims: int, scale: float | None = None, around: float = 0.0) -> str:
        """A new parameter; now and then one there is already, of the same dims: shared weights."""
        params = self.model.params
        same = [k for k, e in params.items() if e.dims == dims]
        if same and self.chance(0.12):
            return str(self.choose(same))
        if scale is None:
            scale = 1.0 / max(1, int(np.prod(dims[:-1]))) ** 0.5 if len(dims) > 1 else 0.3
        name = f"p{len(params)}"
        params[name] = Entry("normal", dims, scale=scale)
        return name

    def datum(self, kind: str, dims: Sequence[Any], bound: int = 0, scale: float = 1.0) -> str:
        name = f"d{len(self.model.data)}"
        self.model.data[name] = Entry(kind, tuple(dims), bound, scale)
        return name

    def say(self, line: str) -> None:
        self.model.text.append(line)
