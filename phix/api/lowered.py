"""A jitted function on its way to machine code: each step as text, its cost and its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from phix import ops
from phix.api.weak_arguments import Structure, fitted
from phix.core import context, pickling, pytrees
from phix.core.arrays import all_apart
from phix.core.conversion import owned_tensor
from phix.core.dims import Symbol
from phix.core.engines import Explanation
from phix.core.errors import ArgumentError
from phix.core.graph import Graph, solve_dims
from phix.core.meta import MetaTensor
from phix.core.places import Place, default
from phix.core.tensor import Tensor, Tracer, tensor_of
from phix.core.texts import Texts
from phix.core.tracebacks import shorten
from phix.passes.compiled import Compiled, Homes, can_run, homes_of

if TYPE_CHECKING:
    from phix.core.analysis import CostAnalysis, MemoryAnalysis

_LEAF = pytrees.flatten(0)[1]


class Traced:
    """One trace of a function: its compiled graph, and the structure of its result."""

    def __init__(
        self,
        graph: Graph,
        out_tree: pytrees.TreeDef,
        off: frozenset[str] = frozenset(),
        library: str | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.compiled = Compiled(graph, off, library, memory_limit)
        self.out_tree = out_tree
        self.is_single = out_tree == _LEAF
        # The graph as an op: what it closes over is an operand like others.
        constants = graph.constants
        self.closed = tuple(c.value for c in constants)
        inputs = (*graph.inputs, *(c.variable for c in constants))
        self.body = Graph(inputs, (), graph.equations, graph.outputs)

    def replay(self, tensors: Any) -> Any:
        """The results inside a transformation.

        Where ops end in eager ones, as one op with compiled derivatives; inside a graph being
        made, written out, so that all of it is optimised together.
        """
        if context.runs_at_once() and self.compiled.is_closed:
            return self.rebuild(ops.call([*tensors, *self.closed], self.body))
        return self.rebuild(self.compiled.graph(*tensors))

    def rebuild(self, leaves: Any) -> Any:
        return next(iter(leaves)) if self.is_single else self.out_tree.unflatten(leaves)


def places_of(leaves: Sequence[Any]) -> tuple[Homes, Place]:
    """Where arguments live, specs and values that are no tensors on the default place."""
    homes, place = homes_of([x for x in leaves if isinstance(x, Tensor)])
    found = iter(homes)
    given = tuple([next(found, place) if isinstance(x, Tensor) else default() for x in leaves])
    return given, place


class Lowered:
    """What a jitted function becomes, step by step; ``print`` it, or read ``sections``.

    >>> import phix
    >>> lowered = phix.jit(lambda x: 2.0 * x + 1.0).lower(phix.spec(["n"]))
    >>> list(lowered.sections)[:3]
    ['graph: traced', 'graph: simplify', 'graph: decompose']
    >>> list(lowered.sections)[3:]
    ['graph: hoist', 'graph: simplify primitives', 'fusion', 'loop ir', 'llvm', 'numba']
    >>> print(lowered.as_text("loop ir"))
    program(x0: float32[n]) -> (o0: float32[n]) {
      kernel 0:
        for i0 in range(n):  # parallel
          o0[i0] = ((2.0 * x0[i0]) + 1.0)
    }
    """

    def __init__(
        self,
        traced: Traced,
        treedef: Structure,
        metas: list[MetaTensor],
        places: tuple[Homes, Place],
    ) -> None:
        self._traced = traced
        self._treedef = treedef
        self._metas = metas
        self._places = places  # of the arguments, and of what follows none of them

    def __reduce__(self) -> Any:
        raise pickling.refused("the steps of a compilation", "pickle the jitted function")

    def compile(self) -> CompiledFunction:
        """The function compiled for these arguments alone.

        Takes the arguments that are not static, of the metas that were lowered, and never traces.
        """
        compiled = self._traced.compiled
        compiled.program((True,) * len(compiled.graph.inputs), *self._places).prepare()
        return CompiledFunction(self)

    # -- text ----------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The graph the engine compiles: primitives, and composites that it has kernels for."""
        return [*self._stages.values()][-1]

    @property
    def traced_graph(self) -> Graph:
        """The graph as it was traced, before any pass."""
        return next(iter(self._stages.values()))

    @property
    def _stages(self) -> Mapping[str, Graph]:
        return self._traced.compiled.stages_at(*self._places)

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """The text of each step, in order.

        The graph after each pass; ``fusion``, which kernel holds which equations, and why what is
        stored is; the loop IR; the source the machine code is made from. On other places than the
        CPU, "graph: choose kernels" has the place, layout and kernel of every equation.

        On the CPU, ``numba`` is the same program as Numba source, for readers: one function a
        kernel. It is no step of the way, and written when it is asked for.
        """
        compiled = self._traced.compiled
        texts = {f"graph: {name}": str(graph) for name, graph in self._stages.items()}
        texts["fusion"] = str(self.fusion())
        contiguous = (True,) * len(compiled.graph.inputs)
        own = compiled.program(contiguous, *self._places).sections
        return own.after(texts) if isinstance(own, Texts) else {**texts, **own}

    def as_text(self, stage: str | None = None) -> str:
        """The text of one step, or of all.

        Args:
            stage: a name in ``sections``; of a graph also its pass alone, as in "decompose".

        Raises:
            ArgumentError: no step has that name.
        """
        if stage is None:
            return str(self)
        texts = self.sections
        name = stage if stage in texts else f"graph: {stage}"
        if name not in texts:
            raise ArgumentError(f"as_text: no step {stage!r}; there are {', '.join(texts)}")
        return texts[name]

    def __str__(self) -> str:
        found = self.sections
        made = found.made if isinstance(found, Texts) else found
        return "\n\n".join(f"=== {name} ===\n{text}" for name, text in made.items())

    # -- what it costs -------------------------------------------------------------------------
    @cached_property
    def _explanation(self) -> Explanation:
        return self._traced.compiled.explain(*self._places)

    def fusion(self) -> Any:
        """How the equations became kernels: ``str`` of it is a text, its fields are the facts.

        ``kernels`` has one entry a kernel: the equations in it, and why it was not joined to
        earlier ones. ``buffers`` has one a buffer: what it holds, and why that is stored.
        ``fused`` names the variables that have no buffer.
        """
        return self._explanation.report

    def cost_analysis(self, **sizes: int) -> CostAnalysis:
        """The operations and the traffic with memory of one run, counted from the loop IR.

        Args:
            **sizes: values of unknown dims, by name. What is not known stays in the counts.

        Raises:
            ArgumentError: a name is no unknown dim of the arguments.

        >>> import phix
        >>> f = phix.jit(phix.ops.matmul)
        >>> lowered = f.lower(phix.spec(["n", 16]), phix.spec([16, 4]))
        >>> lowered.cost_analysis().flops
        128*n
        >>> lowered.cost_analysis(n=8).flops
        1024
        """
        return self._explanation.cost(self._environment(sizes))

    def memory_analysis(self, **sizes: int) -> MemoryAnalysis:
        """The memory of one run as it is planned, and the line that holds most at its peak.

        Args:
            **sizes: values of unknown dims, by name.

        Raises:
            ArgumentError: a name is no unknown dim of the arguments, or one has no size.

        >>> import phix
        >>> f = phix.jit(lambda x, w: phix.ops.sum(phix.ops.tanh(x @ w)))
        >>> memory = f.lower(phix.spec([64, 16]), phix.spec([16, 32])).memory_analysis()
        >>> memory.argument_size_in_bytes, memory.temp_size_in_bytes, memory.output_size_in_bytes
        (6144, 8192, 4)
        >>> memory.peak_source.line
        1
        """
        env = self._environment(sizes)
        unknown = self._traced.compiled.graph.symbols() - env.keys()
        if unknown:
            names = ", ".join(sorted(s.name or "-1" for s in unknown))
            raise ArgumentError(
                f"memory_analysis: the sizes of the dims {names} are not known; lower the function "
                "for tensors, or name the dims in their specs and write memory_analysis(n=32)"
            )
        return self._explanation.memory(env)

    def _environment(self, sizes: Mapping[str, int]) -> dict[Symbol, int]:
        """The values of unknown dims: those given, and those the arguments have."""
        graph = self._traced.compiled.graph
        shapes = [meta.dims for meta in self._metas]
        solved = solve_dims([v.meta for v in graph.inputs], shapes)
        env = {symbol: d for symbol, d in solved.items() if isinstance(d, int)}
        left = {s.name: s for s in graph.symbols() if s not in env and s.name}
        for name, size in sizes.items():
            if name not in left:
                raise ArgumentError(
                    f"no dim {name!r} is unknown in the arguments; there are "
                    f"{', '.join(sorted(left)) or 'none'}"
                )
            env[left[name]] = int(size)
        return env


class CompiledFunction:
    """A function compiled for arguments of one kind; it never traces."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._traced, self._treedef = lowered._traced, lowered._treedef

    def __reduce__(self) -> Any:
        raise pickling.refused("a compiled function", "pickle the jitted function, whose programs "
                               "are in the disk cache")  # fmt: skip

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except Exception as error:
            shorten(error, error.__traceback__)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        traced, wanted = self._traced, self._treedef
        tensors, found = fitted((args, kwargs), "a compiled function", wanted)
        if found != wanted:
            raise ArgumentError(
                f"compiled for arguments of structure {wanted}, found {found}; leave static "
                "arguments out, or lower the function for these arguments"
            )
        if not can_run(traced.compiled) or any(isinstance(x, Tracer) for x in tensors):
            own, _ = fitted((args, kwargs), "a compiled function", wanted, owned_tensor)
            return traced.replay(own)
        known: Any = tensors
        arrays = [x.data for x in known]
        outs = traced.compiled.launcher(known)(*arrays)
        return traced.rebuild([tensor_of(o) for o in all_apart(outs, arrays)])

    def as_text(self, stage: str | None = None) -> str:
        """See :meth:`Lowered.as_text`."""
        return self._lowered.as_text(stage)

    def cost_analysis(self, **sizes: int) -> CostAnalysis:
        """See :meth:`Lowered.cost_analysis`."""
        return self._lowered.cost_analysis(**sizes)

    def memory_analysis(self, **sizes: int) -> MemoryAnalysis:
        """See :meth:`Lowered.memory_analysis`."""
        return self._lowered.memory_analysis(**sizes)
