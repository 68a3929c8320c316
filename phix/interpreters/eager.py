"""The eager interpreter, at the bottom of every chain: one op, compiled once and run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dispatch
from phix.core.dispatch import Interpreter
from phix.core.engines import engine
from phix.core.errors import UnknownDimError
from phix.core.graph import Graph, Variable, flat, graphs_in, map_entries
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.tensor import Tensor, Tracer
from phix.interpreters.decompose import decompose
from phix.interpreters.infer_meta import RUN_TIME, infer
from phix.interpreters.jit import Compiled
from phix.interpreters.stage import Stage, StageTracer, finish

Run = Callable[..., Any]

_MOST_PLANS = 8192


class Eager(Interpreter):
    """Runs ops on tensors. What ran once is found again by op, attributes, dtypes and shapes."""

    name = "eager"

    def __init__(self) -> None:
        super().__init__(None)
        self.plans: dict[Any, Run] = {}  # what bind finds: attributes as the user wrote them
        self.programs: dict[Any, Any] = {}  # compiled programs, by op and class of shapes

    def launch_cached(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        try:
            run = self.plans[(op, attrs, *[x.key for x in inputs])]
        except (KeyError, AttributeError, TypeError):
            return None
        return run(*[x.data for x in inputs])

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        tensors = list(flat(inputs))
        for x in tensors:
            if isinstance(x, Tracer):
                raise dispatch.leaked(x, op.name)
        structure = tuple(len(e) if isinstance(e, tuple) else e is None for e in inputs)
        keys = [x.key for x in tensors]
        plain = structure.count(False) == len(structure)
        key = (op, attrs, *keys) if plain else (op, attrs, structure, *keys)
        run = self.plans.get(key)
        if run is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            run = self.plans[key] = self.plan(op, inputs, attrs)
        return run(*[x.data for x in tensors])

    def plan(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Run:
        """A function of the input arrays that runs the op for these metas."""
        metas = map_entries(lambda x: x.meta, inputs)
        infer(op, metas, attrs, RUN_TIME)
        if "calls_graph" in op.traits:
            return _calling(next(graphs_in(attrs)), list(flat(inputs)))
        here = engine("cpu")
        view = here.view(op.name, attrs)
        if view is not None:
            return _viewing(op, view)
        flattened = _flattened(op, inputs) if op.is_pointwise else None
        program, shapes = self.program(op, inputs, attrs, flattened)
        launch = program.launcher(shapes)
        if flattened is not None:
            given = [x.shape for x in flat(inputs)]
            return _pointwise_run(launch, flattened, given, infer(op, metas, attrs)[0].dims)
        if op.single_output:
            return lambda *arrays: Tensor(launch(*arrays)[0])
        counts = _output_counts(op, metas, attrs)
        return lambda *arrays: _structured(launch(*arrays), counts)

    def program(self, op: Op, inputs: Any, attrs: Any, flattened: Any) -> Any:
        """The compiled program for the class these inputs belong to, and their shapes in it."""
        here = engine("cpu")
        tensors = list(flat(inputs))
        if flattened is not None:
            shapes = flattened
            contiguous = tuple(True for _ in tensors)
        else:
            shapes = [x.shape for x in tensors]
            contiguous = tuple(x.key[2] for x in tensors)
        classes = shape_class(shapes)
        structure = tuple(len(e) if isinstance(e, tuple) else e is None for e in inputs)
        # Unknown dims first; some ops need the last of them, or all, and graphs inside have all.
        lasts = [(*c[:-1], *s[-1:]) for c, s in zip(classes, shapes)]
        for dims in (shapes,) if op.has_graphs else (classes, lasts, shapes):
            dtypes = tuple(x.dtype for x in tensors)
            key = (op, attrs, structure, dtypes, contiguous, str(dims))
            program = self.programs.get(key)
            if program is None:
                metas = _with_dims(inputs, dims)
                try:
                    graph = single_op_graph(op, metas, attrs)
                    program = here.compile(graph, contiguous, partial(decompose, graph))
                except UnknownDimError:
                    if dims is shapes:
                        raise
                    continue
                self.programs[key] = program
            return program, tuple(tuple(s) for s in shapes)
        raise AssertionError("unreachable: the last class has no unknown dims")


def _with_dims(inputs: Any, dims: Any) -> Any:
    """The metas of structured inputs, of other dims."""
    supply = iter(dims)
    return map_entries(lambda x: MetaTensor(next(supply), x.dtype), inputs)


def shape_class(shapes: Any) -> list[Any]:
    """The shapes with every size but 1 unknown; equal sizes stay known to be equal.

    Names go by first appearance, so shapes of one pattern have one text.
    """
    names: dict[int, dm.Dim] = {}
    return [
        tuple(d if d == 1 else names.setdefault(d, dm.symbol(f"n{len(names)}")) for d in s)
        for s in shapes
    ]


def single_op_graph(op: Op, metas: tuple[Any, ...], attrs: tuple[Any, ...]) -> Graph:
    """A graph of one equation."""
    stage = Stage(None)
    variables = map_entries(lambda m: Variable("", m), metas)
    inputs = tuple(flat(variables))
    for number, variable in enumerate(inputs):
        variable.name = f"x{number}"
    with dispatch.transformation(stage):
        outs = stage.process(
            op, map_entries(lambda v: StageTracer(stage, v, None), variables), attrs
        )
    entries = (outs,) if len(op.outputs) == 1 else outs
    outputs = tuple(t.variable for t in flat(tuple(entries)))
    return finish(Graph(inputs, (), tuple(stage.equations), outputs))


def _calling(graph: Graph, tensors: list[Tensor]) -> Run:
    """The whole graph as one program, compiled once for all that it covers."""
    compiled = graph.memo.get("compiled")
    if compiled is None:
        compiled = graph.memo["compiled"] = Compiled(graph)
    launch = compiled.launcher(tensors)
    return lambda *arrays: tuple(map(Tensor, launch(*arrays)))


def _viewing(op: Op, view: Run) -> Run:
    if op.single_output:
        return lambda *arrays: Tensor(view(*arrays))
    if len(op.outputs) == 1:
        return lambda *arrays: tuple(map(Tensor, view(*arrays)))
    return lambda *arrays: tuple(
        tuple(map(Tensor, o)) if isinstance(o, tuple) else Tensor(o) for o in view(*arrays)
    )


def _flattened(op: Op, inputs: tuple[Any, ...]) -> Any:
    """Shapes of a pointwise call over contiguous inputs as 1-d and 0-d; None if it broadcasts."""
    tensors = list(flat(inputs))
    if not tensors or not op.single_output:
        return None
    sizes = [x.data.size for x in tensors]
    most = max(sizes, default=1)
    largest = tensors[sizes.index(most)].shape
    shapes: list[tuple[int, ...]] = []
    for x, size in zip(tensors, sizes):
        if size == 1 and x.ndim <= len(largest):
            shapes.append(())
        elif x.shape == largest and x.key[2]:
            shapes.append((size,))
        else:
            return None
    return None if 0 in sizes else shapes


def _pointwise_run(launch: Run, shapes: Any, given: Any, out_shape: Any) -> Run:
    """Run over the flattened inputs; those that were flat already need no reshape."""
    if [tuple(s) for s in shapes] == [tuple(s) for s in given]:
        return lambda *arrays: Tensor(launch(*arrays)[0])

    def run(*arrays: np.ndarray) -> Tensor:
        out = launch(*[a.reshape(s) for a, s in zip(arrays, shapes)])[0]
        return Tensor(out.reshape(out_shape))

    return run


def _output_counts(op: Op, metas: Any, attrs: Any) -> list[int | None]:
    found = infer(op, metas, attrs)
    return [len(e) if isinstance(e, tuple) else None for e in found]


def _structured(arrays: tuple[np.ndarray, ...], counts: list[int | None]) -> Any:
    supply = iter(arrays)
    entries = tuple(
        Tensor(next(supply)) if n is None else tuple(Tensor(next(supply)) for _ in range(n))
        for n in counts
    )
    return entries[0] if len(entries) == 1 else entries


EAGER = Eager()
dispatch.set_base(EAGER)
