"""The ways to run a drawn program: compiled with what is drawn of rewrites, donation and dims."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import phix
from phix.core import pytrees
from tests.networks import pieces
from tests.networks.draw import SIZES, Draw, Model
from tests.networks.targets import Target

REWRITES = tuple(p.name for p in phix.debug.passes())
LOOPS = tuple(p.name for p in phix.debug.passes() if p.stage == "loops")


@dataclass(frozen=True)
class Way:
    """How a program is compiled and called."""

    off: tuple[str, ...] = ()
    donated: tuple[int, ...] = ()
    unknown: bool = False
    work: int = 0  # from which loops are shared; 0: the library's own
    strided: bool = False
    is_quick: bool = False  # LLVM does little
    learnt: bool = False  # dims are unknown because they were seen to vary, not declared
    limited: bool = False  # to half the memory that it takes otherwise, or the least there is

    def __str__(self) -> str:
        parts = ["jit"]
        if self.off:
            parts.append(
                "no rewrites"
                if set(self.off) >= set(REWRITES)
                else f"without {', '.join(self.off)}"
            )
        if self.donated:
            parts.append(f"donate {self.donated}")
        if self.unknown:
            parts.append("learnt dims" if self.learnt else "unknown dims")
        if self.work:
            parts.append(f"shared from {self.work}")
        if self.strided:
            parts.append("strided")
        if self.limited:
            parts.append("in half the memory")
        if not self.is_quick:
            parts.append("optimised")
        return ", ".join(parts)

    def scope(self) -> Any:
        is_plain = not self.work and not self.is_quick
        return nullcontext() if is_plain else pieces.compiling(self.work, self.is_quick)


NO_REWRITES = Way(off=REWRITES, is_quick=True)


def draw_ways(draw: Draw, target: Target, has_names: bool) -> list[Way]:
    """One way or two; of two, one is plain or has no rewrites at all."""
    ways, quick = [], draw.chance(0.8)
    for _ in range(2 if draw.chance(0.5) else 1):
        off: tuple[str, ...] = ()
        if draw.chance(0.2):
            off = tuple(sorted(str(draw.choose(LOOPS)) for _ in range(int(draw.choose((1, 2, 4))))))
        elif draw.chance(0.08):
            off = REWRITES
        donated: tuple[int, ...] = ()
        if draw.chance(0.55):
            donated = target.given if draw.chance(0.7) else (int(draw.choose((0, 1, 2))),)
        unknown = has_names and draw.chance(0.25)
        work = int(draw.choose((1, 50, 500))) if draw.chance(0.35) else 0
        is_strided, limited = draw.chance(0.1), not unknown and draw.chance(0.3)
        way = Way(tuple(dict.fromkeys(off)), donated, unknown, work, is_strided, quick)
        ways.append(replace(way, limited=limited))
    return list(dict.fromkeys(ways))


# -- arguments ---------------------------------------------------------------------------------
def numpy_dtype(name: str) -> Any:
    return np.dtype(getattr(phix, name))


def cast(tree: Any, dtype: str) -> Any:
    """Floats of a tree in another dtype: complex numbers in the complex one."""
    of_complex = np.dtype("complex64" if dtype == "float32" else "complex128")
    to = {"f": numpy_dtype(dtype), "V": numpy_dtype(dtype), "c": of_complex}  # V: bfloat16
    return pytrees.map(lambda x: x.astype(to[x.dtype.kind]) if x.dtype.kind in to else x, tree)


def arguments(
    model: Model, rng: np.random.Generator, sizes: dict[str, int]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Parameters, data and tangents, in float64."""
    p = {k: e.make(rng, sizes, model.is_complex) for k, e in model.params.items()}
    d = {k: e.make(rng, sizes, model.is_complex) for k, e in model.data.items()}
    t = {k: 0.5 * e.make(rng, sizes, model.is_complex) for k, e in model.params.items()}
    return p, d, t


def specs(model: Model, args: Any) -> list[Any]:
    """Specs of arguments, in which named dims are unknown."""
    p, d, t = args
    data = {k: phix.spec(list(model.data[k].dims), v.dtype) for k, v in d.items()}
    plain = [{k: phix.spec(list(v.shape), v.dtype) for k, v in x.items()} for x in (p, t)]
    return [plain[0], data, plain[1]]


def other_sizes(draw: Draw, model: Model) -> dict[str, int]:
    """Other sizes of the named dims."""
    return {k: v if v == 0 else int(draw.choose(SIZES[:-2])) for k, v in model.sizes.items()}


def tensors(args: Any) -> Any:
    return pytrees.map(phix.to_tensor, args)


def strided(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(x) if x.ndim > 1 else x


# -- running -----------------------------------------------------------------------------------
class Compiled:
    """A target compiled in one way."""

    def __init__(self, way: Way, target: Target, model: Model, args: Any) -> None:
        self.way = way
        settings: dict[str, Any] = {"disable": way.off}
        if way.donated:
            settings["donate_argnums"] = way.donated
        if way.unknown and not way.learnt:
            settings["input_spec"] = specs(model, args)
        f = _named(target.make(_phix()))
        if way.limited:
            settings |= self._limit(f, settings, args)
        self.function: Callable[..., Any] = phix.jit(f, **settings)
        self.limit: int | None = settings.get("memory_limit")

    def _limit(self, f: Callable[..., Any], settings: dict[str, Any], args: Any) -> dict[str, Any]:
        """The setting of half the memory, or of the least that is said to do."""
        with self.way.scope():
            memory = phix.jit(f, **settings).lower(*tensors(args)).memory_analysis()
            if memory.uncounted:
                return {}
            limit = (memory.temp_size_in_bytes + memory.output_size_in_bytes) // 2
            try:
                phix.jit(f, **settings, memory_limit=limit).lower(*tensors(args)).memory_analysis()
            except phix.errors.MemoryLimitError as error:
                limit = error.smallest
            return {"memory_limit": limit}

    def __call__(self, args: Any, order: str = "whole") -> Any:
        """The tree of results, as tensors."""
        given = pytrees.map(strided, args) if self.way.strided else args
        with self.way.scope(), pieces.in_order(order):
            return self.function(*tensors(given))


def _named(f: Callable[..., Any]) -> Callable[..., Any]:
    def network(p: Any, d: Any, t: Any) -> Any:
        return f(p, d, t)

    return network


def _phix() -> Any:
    from tests.networks.backends import Phix

    return Phix
