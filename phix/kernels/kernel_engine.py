"""An engine for any backend with registered kernels: a graph runs equation by equation.

A pass has chosen the kernels before (``passes/assign_kernels.py``). Attributes and the sizes of
outputs are settled once for the sizes of dims. Ops with graphs in them run those the same way, so a
backend owes kernels of plain primitives alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import kernel_calls, kernel_keys, kernel_selection, places
from phix.core.conversion import moved_tensor
from phix.core.engines import Uncounted
from phix.core.graph import (
    Equation,
    Graph,
    Variable,
    map_entries,
    substitute_attrs,
)
from phix.core.kernel_arguments import ANY
from phix.core.kernel_context import KernelContext, Unsized
from phix.core.kernel_registry import Kernel, KernelKey
from phix.core.places import Place
from phix.core.rules import OPS
from phix.kernels import structural
from phix.kernels.engine_base import EngineOfPrimitives
from phix.kernels.graph_program import Env, EquationStep, GraphProgram, StructuralStep

Run = Callable[..., Any]


class KernelEngine(EngineOfPrimitives):
    """Runs graphs on the kernels registered for one backend."""

    flattens = False

    def __init__(self, place_kind: str, backend: str) -> None:
        self.name, self.backends = place_kind, (backend,)

    def program(
        self, graph: Graph, contiguous: tuple[bool, ...], place: Place | None
    ) -> KernelProgram:
        """The kernels of the graph's equations."""
        return KernelProgram(graph, KernelContext(place or Place(self.name)), self.backends[0])

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> Uncounted:
        """See :class:`phix.core.engines.Engine`."""
        return Uncounted(self.compile(graph, contiguous).sections["kernels"], _UNCOUNTED)

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """Whether the op is one of those that graphs are held together by."""
        parts = structural.PARTS.get(op_name, ())
        return op_name in structural.RUNS and all(
            kernel_selection.lookup(part, KernelKey(self.backends[0], ANY, dtype)) for part in parts
        )

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Run | None:
        """None: no kernel is left out."""
        return None


_UNCOUNTED = (
    "registered kernels do not say what they cost; lower the function on a place whose engine "
    'generates loops, as in `with phix.device("cpu")`'
)


class KernelProgram(GraphProgram):
    """A graph with the kernel of each equation."""

    def __init__(self, graph: Graph, ctx: KernelContext, backend: str) -> None:
        constants = {c.variable: moved_tensor(c.value, ctx.place).data for c in graph.constants}
        self.kernels = [_kernel_of(e, backend) for e in graph.equations]
        steps = [
            _Held(e, ctx, backend) if k.function is None else KernelCall(e, ctx, k)
            for e, k in zip(graph.equations, self.kernels)
        ]
        super().__init__(graph, ctx.place, steps, constants)

    @property
    def sections(self) -> dict[str, str]:
        """One line an equation: its op and the key of its kernel."""
        lines = (
            f"{e.op.name}: {k.key}" if k.function else f"{e.op.name}: run by the engine"
            for e, k in zip(self.graph.equations, self.kernels)
        )
        return {"kernels": "\n".join(lines)}


class KernelCall(EquationStep):
    """The call of a kernel, its arguments where its states say."""

    def __init__(self, equation: Equation, ctx: KernelContext, kernel: Kernel) -> None:
        super().__init__(equation, ctx)
        self.kernel = kernel

    def settle(self, env: Env) -> Run:
        ctx, equation, kernel = self.ctx, self.equation, self.kernel
        attrs = substitute_attrs(equation.attrs, env)
        shapes = [_shape(v, env) for v in self.gives]

        def call(given: tuple[Any, ...]) -> list[Any]:
            made = [_made(ctx, v, s) for v, s in zip(self.gives, shapes)]
            supply = iter(made)
            results = map_entries(lambda _: next(supply), equation.outputs)
            kernel_calls.run(kernel, equation.op, ctx, given, attrs, results, equation.source)
            return [out.data if isinstance(out, Unsized) else out for out in made]

        return call


class _Held(StructuralStep):
    """An op that holds graphs together."""

    def __init__(self, equation: Equation, ctx: KernelContext, backend: str) -> None:
        super().__init__(equation, ctx)
        self.backend = backend

    def inner(self, graph: Graph) -> structural.Function:
        return structural.Function(graph, KernelProgram(graph, self.ctx, self.backend))

    def run(self, op_name: str, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any) -> Any:
        shape, dtype = out
        key = KernelKey(self.backend, ANY, dtype)
        kernel = kernel_selection.lookup(OPS[op_name], key)
        if kernel is None or kernel.function is None:
            raise kernel_selection.not_found(op_name, key)
        result = self.ctx.alloc(shape, dtype)
        kernel_calls.run(kernel, OPS[op_name], self.ctx, inputs, attrs, (result,))
        return result


def _kernel_of(equation: Equation, backend: str) -> Kernel:
    """The kernel that was chosen, else that of the backend."""
    key = equation.kernel or kernel_keys.kernel_key(equation, backend)
    given = kernel_selection.Given(kernel_keys.given_dtypes(equation))
    found = kernel_selection.lookup(equation.op, key, given)
    if found is None or (equation.kernel is None and not found.is_plain):
        raise kernel_selection.not_found(equation.op.name, key)
    return found


def _shape(variable: Variable, env: Env) -> tuple[int, ...] | None:
    """The sizes of a variable; None where they are not known before it is computed."""
    dims = [dm.substitute(d, env) for d in variable.meta.dims]
    return tuple(int(d) for d in dims) if dm.is_known(*dims) else None


def _made(ctx: KernelContext, variable: Variable, shape: tuple[int, ...] | None) -> Any:
    meta, state = variable.meta, variable.state
    if shape is None:
        return Unsized(meta.ndim, meta.dtype)
    if state is not None and state.place != ctx.place:
        return places.allocate(state.place, shape, meta.dtype)
    return ctx.alloc(shape, meta.dtype)
