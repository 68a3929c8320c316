"""What an engine owes, and where engines are found.

An engine compiles graphs of primitives for one kind of place. It registers under that kind with
the path of its module, which is imported when the kind is first asked for. Engines take and give
the storage of their place (for the CPU, NumPy arrays); who calls them sees to it that it is there.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from phix.core import dims as dm
from phix.core import registries, rule_modules
from phix.core.dims import Solution, Symbol
from phix.core.errors import ArgumentError, DeviceError, ShapeError
from phix.core.graph import Graph
from phix.core.places import Place

if TYPE_CHECKING:
    from phix.core.analysis import CostAnalysis, HeldVariable, MemoryAnalysis

# A launcher of one result may have an attribute ``tensor``, a function of the same inputs that
# gives the result as a tensor: for eager calls, in which each hop shows. ``makes_all``: its results
# are in memory that it takes for them, which is for nobody else to see.
Launcher = Callable[..., tuple[Any, ...]]


class Program(Protocol):
    """A compiled graph; one program serves all sizes of its unknown dims."""

    @property
    def sections(self) -> Mapping[str, str]:
        """The texts of the program on its way down, in order: ``loop ir``, ``llvm``, ..."""

    def prepare(self) -> None:
        """Make now what the first launcher would make, as far as it does not depend on sizes."""

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """The function to call for inputs of these shapes.

        It takes the graph's inputs as storage of the engine's place, positionally, of the right
        dtype, in native byte order and contiguous where that was promised, and returns a tuple of
        fresh storage. The memory of the inputs whose numbers are ``donated`` may be theirs.

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

    def held(self, sizes: Mapping[Symbol, int]) -> tuple[HeldVariable, ...]:
        """The variables of the graph that have memory, in the order in which they are written."""

    def fault(
        self, inputs: Sequence[np.ndarray], donated: Sequence[int] = ()
    ) -> tuple[str, str] | None:
        """The first change of loops that changes what they mean for these inputs, and how; None
        where there is none, or the engine has no loops.

        Outputs may live where the ``donated`` inputs do. It takes a microsecond an operation.
        """


class Uncounted:
    """The explanation of a program whose engine does not know what it costs, and says why."""

    def __init__(self, report: str, why: str) -> None:
        self.report, self.why = report, why

    def cost(self, sizes: Mapping[Symbol, int]) -> CostAnalysis:
        raise ArgumentError(f"cost_analysis: {self.why}")

    def memory(self, sizes: Mapping[Symbol, int]) -> MemoryAnalysis:
        raise ArgumentError(f"memory_analysis: {self.why}")

    def held(self, sizes: Mapping[Symbol, int]) -> tuple[HeldVariable, ...]:
        raise ArgumentError(f"memory_limit: {self.why}")

    def fault(
        self, inputs: Sequence[np.ndarray], donated: Sequence[int] = ()
    ) -> tuple[str, str] | None:
        return None


class Engine(Protocol):
    """Compiles graphs of primitives for one kind of place."""

    @property
    def name(self) -> str:
        """The kind of place it serves."""

    @property
    def backends(self) -> tuple[str, ...]:
        """The backends it takes kernels from, in order of preference (``kernel_registry``)."""

    @property
    def flattens(self) -> bool:
        """Whether storage has ``reshape``, so that pointwise ops may run on it in one dimension."""

    def compile(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph] | None = None,
        place: Place | None = None,
    ) -> Program:
        """Compile ``graph`` for ``place``, by default the first of its kind.

        ``contiguous[i]``: input ``i`` is promised to be C-contiguous. The graph's constants are
        tensors of any place: the engine brings them to its own, once.

        ``lower`` gives the graph in primitives alone; without it, ``graph`` is in primitives. An
        engine that finds a program for ``graph`` in a cache need not call it.

        Raises:
            KernelNotFoundError: a primitive of the graph has no kernel here.
        """

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> Explanation:
        """What ``compile`` would make of the graph, and why; nothing is compiled."""

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """Whether it has code of its own for the primitive in that dtype, no registered kernel."""

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """A function of the inputs' storage that makes the op's result without a kernel, or None.

        The result may share memory with the inputs; multiple outputs come as a tuple.
        """


_MODULES: dict[str, str] = {}
_ENGINES: dict[str, Engine] = {}  # those that were asked for, and those that were given


@registries.part
def _as_they_are() -> Callable[[], None]:
    modules, engines = dict(_MODULES), dict(_ENGINES)

    def restore() -> None:
        loaded = {kind: e for kind, e in _ENGINES.items() if kind in modules}
        _MODULES.clear()
        _MODULES.update(modules)
        _ENGINES.clear()
        _ENGINES.update(loaded | engines)

    return restore


def register_engine(place_kind: str, engine: Engine | str) -> None:
    """Say what compiles for ``place_kind``: an engine, or the module with one in ``ENGINE``."""
    if isinstance(engine, str):
        _MODULES[place_kind] = engine
    else:
        _ENGINES[place_kind] = engine


def unregister_engine(place_kind: str) -> None:
    """Forget the engine of a kind of place."""
    _MODULES.pop(place_kind, None)
    _ENGINES.pop(place_kind, None)


def engine(place_kind: str) -> Engine:
    """The engine of that kind of place; its module is imported on first use.

    Raises:
        DeviceError: no engine is registered for the kind, or its folder is not installed.
    """
    found = _ENGINES.get(place_kind)
    if found is None:
        if not has_engine(place_kind):
            raise DeviceError(
                f"no engine for place {place_kind!r}; there are {', '.join(engine_kinds())}. "
                "phix.register_backend(name, ...) adds one"
            )
        with rule_modules.lock:
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


def has_engine(place_kind: str) -> bool:
    """Whether an engine for that kind of place is installed."""
    if place_kind in _ENGINES:
        return True
    module = _MODULES.get(place_kind)
    return module is not None and importlib.util.find_spec(module) is not None


def engine_kinds() -> tuple[str, ...]:
    """The kinds of places with an engine."""
    known = dict.fromkeys((*_MODULES, *_ENGINES))
    return tuple(k for k in known if k != SEVERAL and has_engine(k))


def as_array(value: Any) -> np.ndarray:
    """A graph constant as a host array, C-contiguous."""
    return np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)


# What runs graphs over several places: an engine like others, but of no kind of place.
SEVERAL = "several places"
_MODULES[SEVERAL] = "phix.kernels.several_places"
register_engine("cpu", "phix.kernels.cpu")
register_engine("gpu", "phix.kernels.gpu")
