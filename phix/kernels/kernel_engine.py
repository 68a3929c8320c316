"""An engine for any backend with registered kernels: a graph runs equation by equation.

A pass has chosen the kernels before (``passes/assign_kernels.py``). Attributes and the sizes of
outputs are settled when a launcher is made (but for what comes after a dim that is bound at run
time); storage is let go after its last use. Ops with graphs in them run those the same way, so a
backend owes kernels of plain primitives alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import kernel_keys, kernel_registry, kernel_selection, places
from phix.core.arrays import read_only
from phix.core.conversion import moved_tensor, tensor_from_scalar
from phix.core.engines import Launcher, Uncounted, environment
from phix.core.graph import (
    Equation,
    Graph,
    Literal,
    Variable,
    flat,
    map_attrs,
    map_entries,
    plain_symbol,
    substitute_attrs,
)
from phix.core.kernel_context import KernelContext, Unsized
from phix.core.kernel_registry import Kernel, KernelKey
from phix.core.places import Place
from phix.core.rules import OPS
from phix.kernels import structural

Run = Callable[..., Any]
Env = dict[dm.Symbol, Any]


class KernelEngine:
    """Runs graphs on the kernels registered for one backend."""

    flattens = False

    def __init__(self, place_kind: str, backend: str) -> None:
        self.name, self.backends = place_kind, (backend,)

    def compile(
        self,
        graph: Graph,
        contiguous: tuple[bool, ...],
        lower: Callable[[], Graph] | None = None,
        place: Place | None = None,
    ) -> KernelProgram:
        """See :class:`phix.core.engines.Engine`."""
        here = place or Place(self.name)
        return KernelProgram(lower() if lower else graph, KernelContext(here), self.backends[0])

    def explain(self, graph: Graph, contiguous: tuple[bool, ...]) -> Uncounted:
        """See :class:`phix.core.engines.Engine`."""
        return Uncounted(self.compile(graph, contiguous).sections["kernels"], _UNCOUNTED)

    def supports(self, op_name: str, dtype: np.dtype) -> bool:
        """Whether the op is one of those that graphs are held together by."""
        parts = structural.PARTS.get(op_name, ())
        return op_name in structural.RUNS and all(
            kernel_selection.lookup(part, KernelKey(self.backends[0], kernel_registry.ANY, dtype))
            for part in parts
        )

    def view(self, op_name: str, attrs: tuple[Any, ...]) -> Run | None:
        """None: no kernel is left out."""
        return None


_UNCOUNTED = (
    "registered kernels do not say what they cost; lower the function on a place whose engine "
    'generates loops, as in `with phix.device("cpu")`'
)


class KernelProgram:
    """A graph with the kernel of each equation; see :class:`phix.core.engines.Program`."""

    def __init__(self, graph: Graph, ctx: KernelContext, backend: str) -> None:
        self.graph, self.ctx, self.backend = graph, ctx, backend
        self.solutions = dm.solutions([v.meta.dims for v in graph.inputs])
        known = set(self.solutions)
        self.kernels = [_kernel_of(e, backend) for e in graph.equations]
        self.constants = {
            c.variable: moved_tensor(c.value, ctx.place).data for c in graph.constants
        }
        self.binds = any(_is_sized_late(e, known) for e in graph.equations)
        self.dead = _last_uses(graph)

    @property
    def sections(self) -> dict[str, str]:
        """One line an equation: its op and the key of its kernel."""
        lines = (
            f"{e.op.name}: {k.key}" if k.function else f"{e.op.name}: run by the engine"
            for e, k in zip(self.graph.equations, self.kernels)
        )
        return {"kernels": "\n".join(lines)}

    def launcher(
        self, shapes: tuple[tuple[int, ...], ...], donated: tuple[int, ...] = ()
    ) -> Launcher:
        """See :class:`phix.core.engines.Program`."""
        graph = self.graph
        env: Env = dict(environment(graph, self.solutions, shapes))
        steps = None if self.binds else [self.step(n, env) for n in range(len(self.kernels))]

        def launch(*inputs: Any) -> tuple[Any, ...]:
            values: dict[Any, Any] = dict(zip(graph.inputs, inputs))
            values.update(self.constants)
            sizes = dict(env)
            for number, dead in enumerate(self.dead):
                step = steps[number] if steps else self.step(number, sizes)
                step(values, sizes)
                for variable in dead:
                    del values[variable]
            return tuple([self.read(a, values) for a in graph.outputs])

        return launch

    def read(self, atom: Any, values: dict[Any, Any]) -> Any:
        if isinstance(atom, Literal):
            scalar = tensor_from_scalar(atom.value, atom.meta.dtype)
            return moved_tensor(scalar, self.ctx.place).data
        return values[atom]

    def inner(self, graph: Graph) -> structural.Function:
        """A graph inside an equation."""
        return structural.Function(graph, KernelProgram(graph, self.ctx, self.backend))

    def step(self, number: int, env: Env) -> Callable[[dict[Any, Any], Env], None]:
        """An equation as a function of the values so far, to which it adds its outputs."""
        equation, kernel = self.graph.equations[number], self.kernels[number]
        attrs = substitute_attrs(equation.attrs, env)
        entries: Any = equation.inputs
        outputs = tuple(flat(equation.outputs))
        if kernel.function is None:
            run = structural.RUNS[equation.op.name]
            attrs = map_attrs(self.inner, attrs)

            def structure(values: dict[Any, Any], sizes: Env) -> None:
                given = map_entries(lambda a: self.read(a, values), entries)
                found = run(self, *equation.op.merge(given, attrs))
                values.update(zip(outputs, found))
                if equation.op.binds_dim:
                    (symbol,) = dm.symbols(equation.attrs[0])
                    sizes[symbol] = max(int(places.to_host(found[0])), 0)

            return structure

        function, ctx = kernel.function, self.ctx
        shapes = [_shape(v, env) for v in outputs]

        def call(values: dict[Any, Any], sizes: Env) -> None:
            given = map_entries(lambda a: read_only(self.read(a, values)), entries)
            made = [_made(ctx, v, s) for v, s in zip(outputs, shapes)]
            supply = iter(made)
            results = map_entries(lambda _: next(supply), equation.outputs)
            function(ctx, *kernel_keys.kernel_arguments(equation.op, given, attrs), *results)
            for variable, out in zip(outputs, made):
                values[variable] = out
                if isinstance(out, Unsized):
                    storage: Any = out.data
                    values[variable] = storage
                    sizes.update(_found_sizes(variable, storage.shape))

        return call

    def run(self, op_name: str, inputs: tuple[Any, ...], attrs: tuple[Any, ...], out: Any) -> Any:
        """One call of a primitive on storage, for the ops that others are built of."""
        shape, dtype = out
        key = KernelKey(self.backend, kernel_registry.ANY, dtype)
        kernel = kernel_selection.lookup(OPS[op_name], key)
        if kernel is None or kernel.function is None:
            raise kernel_selection.not_found(op_name, key)
        result = self.ctx.allocate(shape, dtype)
        given = map_entries(read_only, inputs)
        kernel.function(self.ctx, *kernel_keys.kernel_arguments(OPS[op_name], given, attrs), result)
        return result


def _kernel_of(equation: Equation, backend: str) -> Kernel:
    """The kernel that was chosen, else that of the backend."""
    key = equation.kernel or kernel_keys.kernel_key(equation, backend)
    found = kernel_selection.lookup(equation.op, key)
    if found is None:
        raise kernel_selection.not_found(equation.op.name, key)
    return found


def _is_sized_late(equation: Equation, known: set[dm.Symbol]) -> bool:
    """Whether the equation binds a dim, or has outputs whose size its kernel finds."""
    if equation.op.binds_dim or "data_dependent" in equation.op.traits:
        return True
    return any(not (dm.symbols(d) <= known) for v in flat(equation.outputs)
               for d in v.meta.dims)  # fmt: skip


def _last_uses(graph: Graph) -> list[list[Variable]]:
    """For each equation, the variables that nothing after it reads."""
    kept = {a for a in graph.outputs if isinstance(a, Variable)}
    dead: list[list[Variable]] = []
    for equation in reversed(graph.equations):
        mine = []
        for atom in (*flat(equation.inputs), *flat(equation.outputs)):
            if isinstance(atom, Variable) and atom not in kept:
                kept.add(atom)
                mine.append(atom)
        dead.append(mine)
    return dead[::-1]


def _shape(variable: Variable, env: Env) -> tuple[int, ...] | None:
    """The sizes of a variable; None where they are not known before it is computed."""
    dims = [dm.substitute(d, env) for d in variable.meta.dims]
    return tuple(int(d) for d in dims) if dm.is_known(*dims) else None


def _made(ctx: KernelContext, variable: Variable, shape: tuple[int, ...] | None) -> Any:
    meta = variable.meta
    return Unsized(meta.ndim, meta.dtype) if shape is None else ctx.allocate(shape, meta.dtype)


def _found_sizes(variable: Variable, shape: Sequence[int]) -> Env:
    """What the size of a result says of the unknown dims in its meta."""
    symbols = ((plain_symbol(d), n) for d, n in zip(variable.meta.dims, shape))
    return {s: n for s, n in symbols if s is not None}
