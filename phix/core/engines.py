"""What an engine owes, and where engines are found.

An engine compiles graphs of primitives for one kind of place. It registers under that kind with
the path of its module, which is imported when the kind is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from phix.core import dims as dm
from phix.core.analysis import CostAnalysis, MemoryAnalysis
from phix.core.dims import Solution, Symbol
from phix.core.errors import DeviceError, ShapeError
from phix.core.graph import Graph

Launcher = Callable[..., tuple[Any, ...]]


class Program(Protocol):
    """A compiled graph; one program serves all sizes of its unknown dims."""

    @property
    def sections(self) -> Mapping[str, str]:
        """The texts of the program on its way down, in order: ``loop ir``, ``llvm``, ..."""

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """The function to call for inputs of these shapes.

        It takes the graph's inputs as arrays, positionally, of the right dtype, in native byte
        order and contiguous where that was promised, and returns a tuple of fresh arrays. The
        memory of the inputs whose numbers are ``donated`` may be theirs.

        Raises:
            ShapeError: the shapes do not fit the metas of the graph's inputs.
        """


class Explanation(Protocol):
    """How a graph becomes kernels, and what they cost; ``sizes`` gives values to unknown dims."""

    @property
    def report(self) -> Any:
        """Which equations each kernel holds, and why what is stored is; ``str`` gives its text."""

    def cost(self, sizes: Mapping[Symbol, int]) -> CostAnalysis:
        """The work of one run; what has no size yet stays in the counts."""

    def memory(self, sizes: Mapping[Symbol, int]) -> MemoryAnalysis:
        """The memory of one run; every dim of the graph's inputs must have a size."""


class Engine(Protocol):
    """Compiles graphs of primitives for one kind of place."""

    name: str

    def compile(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph] | None = None,
    ) -> Program:
        """Compile ``graph``; ``contiguous[i]``: input ``i`` is promised to be C-contiguous.

        ``lower`` gives the graph in primitives alone; without it, ``graph`` is in primitives. An
        engine that finds a program for ``graph`` in a cache need not call it.

        Raises:
            KernelNotFoundError: a primitive of the graph has no kernel here.
        """

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> Explanation:
        """What ``compile`` would make of the graph, and why; nothing is compiled."""

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """A function of the input arrays that makes the op's result without a kernel, or None.

        The result may share memory with the inputs; multiple outputs come as a tuple.
        """


_MODULES: dict[str, str] = {}
_ENGINES: dict[str, Engine] = {}


def register_engine(place_kind: str, module: str) -> None:
    """Say that ``module`` has the engine of ``place_kind``, in its variable ``ENGINE``."""
    _MODULES[place_kind] = module


def engine(place_kind: str) -> Engine:
    """The engine of that kind of place; its module is imported on first use.

    Raises:
        DeviceError: no engine is registered for the kind.
    """
    found = _ENGINES.get(place_kind)
    if found is None:
        if place_kind not in _MODULES:
            raise DeviceError(
                f"no engine for place {place_kind!r}; there are {', '.join(sorted(_MODULES))}. "
                "register_engine(kind, module) adds one"
            )
        found = importlib.import_module(_MODULES[place_kind]).ENGINE
        _ENGINES[place_kind] = found
    return found


def environment(
    graph: Graph, solutions: Mapping[Symbol, Solution], shapes: tuple[tuple[int, ...], ...]
) -> dict[Symbol, int]:
    """The values of the graph's unknown dims for inputs of these shapes.

    ``solutions`` are those of the inputs' dims: see :func:`phix.core.dims.solutions`.

    Raises:
        ShapeError: the shapes do not fit the metas of the graph's inputs.
    """
    env: dict[Symbol, Any] = {
        symbol: (shapes[found.number][found.axis] - found.rest) // found.factor
        for symbol, found in solutions.items()
    }
    for variable, shape in zip(graph.inputs, shapes):
        dims = variable.meta.dims
        expected = tuple(dm.substitute(d, env) for d in dims)
        if expected != tuple(shape):
            raise ShapeError(
                f"input {variable.name!r} has shape {list(shape)}, the compiled program takes "
                f"{dm.shape_text(dims)}"
            )
    return env


def as_array(value: Any) -> np.ndarray:
    """A graph constant as a host array, C-contiguous."""
    return np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)


register_engine("cpu", "phix.kernels.cpu")
register_engine("gpu", "phix.kernels.gpu")
