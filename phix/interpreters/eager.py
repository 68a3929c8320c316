"""The eager interpreter, at the bottom of every chain: one op, compiled once and run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter, is_
from typing import Any

import numpy as np

from phix.core import context, donation, kernel_registry, places, refusals, settings
from phix.core import dims as dm
from phix.core import indexing as _indexing  # noqa: F401 - x[i] is not to wait for it later
from phix.core.conversion import moved_tensor, owned_tensor
from phix.core.engines import engine
from phix.core.errors import UnknownDimError
from phix.core.graph import Graph, Variable, flat, graphs_in, map_entries
from phix.core.index_ranges import checked
from phix.core.interpreter import Interpreter
from phix.core.kernel_keys import as_they_are, key_place
from phix.core.kernel_selection import has_functions
from phix.core.libraries import PINS
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import CPU, Place, default, is_host_alone
from phix.core.tensor import Tensor, Tracer, tensor_of
from phix.interpreters.call_keys import FIXED, asked, call_of, is_plain, keep, number_key, plan_key
from phix.interpreters.decompose import as_entries
from phix.interpreters.infer_meta import RUN_TIME, infer
from phix.interpreters.placement import is_loose, on, shared_place
from phix.interpreters.stage import StageTracer, Staging, finish
from phix.passes import pipeline
from phix.passes.compiled import Compiled, compile_to_places, lower_to_places

Run = Callable[..., Any]

_KNOWN_KEY, _DATA = attrgetter("known_key"), attrgetter("data")
_ROWS, _TENSORS = frozenset({list, tuple}), frozenset({Tensor})
# So many inputs, as most calls of small tensors have, are written out: to go through them in loops
# takes a third of such a call.
_PAIR = 2
# Programs for matrices of up to this size have it known, so that they can be unrolled.
_SMALL_MATRIX = 8


class Eager(Interpreter):
    """Runs ops on tensors. What ran once is found again by op, attributes, dtypes and shapes."""

    name = "eager"

    def __init__(self) -> None:
        super().__init__(None)
        self.plans: dict[
            Any, Run
        ] = {}  # of calls on tensors, attributes also as the user wrote them
        self.mixed: dict[Any, Run] = {}  # ... with Python scalars or lists among them
        self.over_graphs: dict[Any, Run] = {}  # plans of ops with graphs in them, each of its own
        self.programs: dict[Any, Any] = {}  # compiled programs, by op and class of shapes
        self.forgotten = 0  # how often plans were dropped as they did not hold any more

    def own(self, value: Any, place: Place | None) -> Any:
        return owned_tensor(value, place)

    def launch_cached(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        call = asked(op, attrs) if op.inexact or PINS else (op, attrs)
        count = len(inputs)
        try:
            if count == _PAIR:
                x, y = inputs
                run = self.plans.get((call, x.known_key, y.known_key))
            else:
                run = self.plans.get((call, *map(_KNOWN_KEY, inputs)))
            if run is None:  # some may have keys that nobody asked for yet
                run = self.plans[(call, *[x.known_key or x.key for x in inputs])]
        except AttributeError:
            return self.launch_mixed(op, inputs, attrs)
        except (KeyError, TypeError):
            return None
        return run(x.data, y.data) if count == _PAIR else run(*map(_DATA, inputs))

    def launch_mixed(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """As ``launch_cached``, where inputs are Python scalars, absent or lists of tensors."""
        keys: list[Any] = []
        arrays: list[np.ndarray] = []
        for x in inputs:
            if type(x) is Tensor:
                keys.append(x.known_key or x.key)
                arrays.append(x.data)
            elif type(x) in FIXED:
                keys.append(number_key(x))
            elif type(x) in _ROWS and _TENSORS.issuperset(map(type, x)):
                keys.append(tuple([entry.known_key or entry.key for entry in x]))
                arrays += [entry.data for entry in x]
            else:
                return None
        call = asked(op, attrs) if op.inexact or PINS else (op, attrs)
        try:
            run = self.mixed[(call, *keys)]
        except (KeyError, TypeError):
            return None
        return run(*arrays)

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        found = None if op.has_lists else self.launch_cached(op, inputs, attrs)
        if found is not None:
            return found
        tensors = flat(inputs)
        for x in tensors:
            if isinstance(x, Tracer):
                raise refusals.leaked(x, op.name)
        key, plans = plan_key(op, inputs, attrs), self.plans
        if op.has_graphs:
            key, plans = (self.forgotten, key), self.plans_over(op, attrs)
        run = plans.get(key)
        if run is None:
            run = self.plan(op, inputs, attrs)
            if op.index_rule is not None:
                run = checked(op, map_entries(lambda x: x.meta, inputs), attrs, run)
            bounds = settings.current()
            is_plain = plans is self.plans
            most = bounds.most_eager_plans if is_plain else bounds.most_plans_over_graphs
            keep(plans, key, run, most)
        return run(*[x.data for x in tensors])

    def plans_over(self, op: Op, attrs: tuple[Any, ...]) -> dict[Any, Run]:
        """Where the plan of a call with graphs is kept: with the graph that it calls, so that it
        goes when the function does whose graph it is; else with few others."""
        if "calls_graph" not in op.traits:
            return self.over_graphs
        return next(graphs_in(attrs)).memo.setdefault("plans", {})

    def process_donated(
        self, op: Op, inputs: Any, attrs: Any, donated: tuple[int, ...], end: Callable[[], None]
    ) -> Any:
        if not donated:
            return super().process_donated(op, inputs, attrs, donated, end)
        key = (plan_key(op, inputs, attrs), donated)
        run = self.plans.get(key)
        if run is None:
            run = self.plan(op, inputs, attrs, donated)
            keep(self.plans, key, run, settings.current().most_eager_plans)
        data = [x.data for x in flat(inputs)]
        end()
        donation.keep_apart(data, donated)
        return run(*data)

    def remember(self, op: Op, given: Any, given_attrs: Any, inputs: Any, attrs: Any) -> None:
        """Let the next call find the plan by what the user wrote, before it is converted."""
        run = self.plan_of(op, inputs, attrs)
        if run is None or not all(map(is_plain, given_attrs)):
            return
        keys: list[Any] = []
        fixed: list[Any] = []  # the scalars' arrays; None stands for a tensor's
        for value, x in zip(given, inputs):
            if type(x) is tuple and type(value) in _ROWS and all(map(is_, value, x)):
                keys.append(tuple([entry.key for entry in x]))
                fixed += [None] * len(x)
            elif value is x and type(x) is Tensor:
                keys.append(x.key)
                fixed.append(None)
            elif type(value) in FIXED and type(x) is not tuple:  # nor a list left out
                keys.append(number_key(value))
                fixed.extend(() if x is None else (x.data,))
            else:
                return  # an array, or a tensor that was cast
        key = (asked(op, given_attrs), *keys)
        if len(keys) == fixed.count(None) and not op.has_lists:
            keep(self.plans, key, run, settings.current().most_eager_plans)
            return
        found = _filled_in(run, fixed) if len(fixed) > fixed.count(None) else run
        keep(self.mixed, key, found, settings.current().most_eager_plans)

    def plan_of(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Run | None:
        """The plan of a call that has been made, if it is kept: a function of storage."""
        return self.plans.get(plan_key(op, inputs, attrs))

    def plan(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        attrs: tuple[Any, ...],
        donated: tuple[int, ...] = (),
    ) -> Run:
        """A function of the input arrays that runs the op for these metas.

        The memory of the tensors whose numbers are ``donated`` may be the results'.
        """
        metas = map_entries(lambda x: x.meta, inputs)
        infer(op, metas, attrs, RUN_TIME)
        tensors = flat(inputs)
        if "calls_graph" in op.traits:
            return _calling(next(graphs_in(attrs)), tensors)
        if "moves" in op.traits:
            return _moving(attrs, tensors)
        if is_host_alone():
            if not tensors:
                return self.anywhere(op, (), attrs)
            return self.plan_on(CPU, op, inputs, attrs, donated)
        if op.has_graphs or as_they_are(op):
            return _over_places(op, inputs, attrs)
        place = key_place(op, inputs, attrs)
        if place is None:
            place = shared_place(tensors, lambda: _names(op, inputs), op.name)
        if all(map(is_loose, tensors)):
            return self.anywhere(op, inputs, attrs)
        here = map_entries(lambda x: moved_tensor(x, place), inputs)
        # a copy of a single value belongs to all who ask for it
        own = tuple(n for n in donated if tensors[n].place == place)
        return on(place, self.plan_on(place, op, here, attrs, own), tensors)

    def anywhere(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Run:
        """A call that follows no tensor: on the place it names, or the default when it is run."""
        named = next((a for a in attrs if isinstance(a, Place)), None)
        plans: dict[Place, Run] = {}

        def run(*arrays: Any) -> Any:
            place = named or default()
            found = plans.get(place)
            if found is None:
                here = map_entries(lambda x: moved_tensor(x, place), inputs)
                planned = self.plan_on(place, op, here, attrs)
                found = plans[place] = on(place, planned, flat(inputs))
            return found(*arrays)

        return run

    def plan_on(
        self,
        place: Place,
        op: Op,
        inputs: Any,
        attrs: tuple[Any, ...],
        donated: tuple[int, ...] = (),
    ) -> Run:
        """A function of storage on ``place`` that runs the op for these metas."""
        metas = map_entries(lambda x: x.meta, inputs)
        here = engine(place.kind)
        view = here.view(op.name, attrs)
        if view is not None:
            return _viewing(op, view)
        if op.view and op.decomposition is not None:
            return partial(self.decomposed, op, map_entries(lambda x: x.meta, inputs), attrs)
        flattens = op.is_pointwise and here.flattens and not donated  # results are no views then
        flattened = _flattened(op, inputs) if flattens else None
        program, shapes = self.program(place, op, inputs, attrs, flattened)
        launch = program.launcher(shapes, donated)
        if flattened is not None:
            given = [x.shape for x in flat(inputs)]
            return _pointwise_run(launch, flattened, given, infer(op, metas, attrs)[0].dims)
        if op.single_output:
            return _giving_tensor(launch)
        like = infer(op, metas, attrs)
        return lambda *arrays: _structured(launch(*arrays), like)

    def decomposed(self, op: Op, like: Any, attrs: tuple[Any, ...], *storage: Any) -> Any:
        """A composite op by op, so that those that are views of an input stay views."""
        supply = iter(storage)
        inputs = map_entries(lambda _: tensor_of(next(supply)), like)
        with context.active(self):
            assert op.decomposition is not None
            outs = op.decomposition(*op.merge(inputs, attrs))
        return outs if op.single_output else as_entries(op, outs)

    def program(self, place: Place, op: Op, inputs: Any, attrs: Any, flattened: Any) -> Any:
        """The compiled program for the class these inputs belong to, and their shapes in it."""
        here = engine(place.kind)
        tensors = flat(inputs)
        if flattened is not None:
            shapes = flattened
            contiguous = tuple(True for _ in tensors)
        else:
            shapes = [x.shape for x in tensors]
            contiguous = tuple(x.key[2] for x in tensors)
        classes = shape_class(shapes)
        if "matrices" in op.traits:
            classes = list(map(_small_matrices, classes, shapes))
        structure = tuple(len(e) if isinstance(e, tuple) else e is None for e in inputs)
        # Unknown dims first; some ops need the last of them, or all, and graphs inside have all.
        lasts = [(*c[:-1], *s[-1:]) for c, s in zip(classes, shapes)]
        for dims in (shapes,) if op.has_graphs else (classes, lasts, shapes):
            dtypes = tuple(x.dtype for x in tensors)
            key = (place, call_of(op, attrs), structure, dtypes, contiguous, str(dims))
            program = self.programs.get(key)
            if program is None:
                metas = _with_dims(inputs, dims)
                try:
                    graph = single_op_graph(op, metas, attrs)
                    if place == CPU and not has_functions(CPU.kind):
                        program = here.compile(
                            graph, contiguous, partial(_in_primitives, graph), place
                        )
                    else:
                        homes = (place,) * len(tensors)
                        last = pipeline.last(lower_to_places(graph, homes, place))
                        program = compile_to_places(last, contiguous, place)
                except UnknownDimError:
                    if dims is shapes:
                        raise
                    continue
                keep(self.programs, key, program, settings.current().most_eager_programs)
            return program, tuple(tuple(s) for s in shapes)
        raise AssertionError("unreachable: the last class has no unknown dims")


def _filled_in(run: Run, fixed: list[Any]) -> Run:
    """A plan of the tensors alone; the other arrays are given."""
    places = [k for k, array in enumerate(fixed) if array is None]
    if places == [0]:
        rest = tuple(fixed[1:])
        return lambda array: run(array, *rest)

    def filled(*arrays: np.ndarray) -> Any:
        every = fixed.copy()
        for place, array in zip(places, arrays):
            every[place] = array
        return run(*every)

    return filled


def _with_dims(inputs: Any, dims: Any) -> Any:
    """The metas of structured inputs, of other dims."""
    supply = iter(dims)
    return map_entries(lambda x: MetaTensor(next(supply), x.dtype), inputs)


def _small_matrices(dims: Any, shape: Any) -> Any:
    """``dims`` with the last two known where they are those of a small matrix."""
    if len(shape) < 2 or max(shape[-2:]) > _SMALL_MATRIX:
        return dims
    return (*dims[:-2], *shape[-2:])


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
    stage = Staging(None)
    variables = map_entries(lambda m: Variable("", m), metas)
    inputs = tuple(flat(variables))
    for number, variable in enumerate(inputs):
        variable.name = f"x{number}"
    with context.transformation(stage):
        outs = stage.process(
            op, map_entries(lambda v: StageTracer(stage, v, None), variables), attrs
        )
    entries = (outs,) if len(op.outputs) == 1 else outs
    outputs = tuple(t.variable for t in flat(tuple(entries)))
    constants = tuple(stage.constants.values())  # of what is written out
    return finish(Graph(inputs, constants, tuple(stage.equations), outputs))


def _in_primitives(graph: Graph) -> Graph:
    return pipeline.last(pipeline.run("eager", graph))


def _calling(graph: Graph, tensors: list[Tensor]) -> Run:
    """The whole graph as one program, compiled once for all that it covers."""
    compiled = graph.memo.get("compiled")
    if compiled is None:
        compiled = graph.memo["compiled"] = Compiled(graph)
    launch = compiled.launcher(tensors)
    return lambda *arrays: tuple(map(tensor_of, launch(*arrays)))


def _over_places(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Run:
    """An op whose operands may live in different places: its graphs move data, or its kernels take
    some where they are."""
    metas, tensors = map_entries(lambda x: x.meta, inputs), flat(inputs)
    compiled, like = Compiled(single_op_graph(op, metas, attrs)), infer(op, metas, attrs)
    launch = compiled.launcher(tensors)
    return lambda *arrays: _structured(launch(*arrays), like)


def _names(op: Op, inputs: tuple[Any, ...]) -> list[str]:
    """What the tensors of a call are called: x, or x[0] of a list."""
    each = ((a.name, e) for a, e in zip(op.inputs, inputs) if e is not None)
    return [
        name
        for base, e in each
        for name in ([f"{base}[{i}]" for i in range(len(e))] if isinstance(e, tuple) else [base])
    ]


def _moving(attrs: tuple[Any, ...], tensors: list[Tensor]) -> Run:
    """A copy to the place named, or else to that of the last tensor."""
    place = next((a for a in attrs if isinstance(a, Place)), tensors[-1].place)
    return lambda x, *_: tensor_of(places.moved(x, place))


def _viewing(op: Op, view: Run) -> Run:
    if op.single_output:
        return lambda *arrays: tensor_of(view(*arrays))
    if len(op.outputs) == 1:
        return lambda *arrays: tuple(map(tensor_of, view(*arrays)))
    return lambda *arrays: tuple(
        tuple(map(tensor_of, o)) if isinstance(o, tuple) else tensor_of(o) for o in view(*arrays)
    )


def _flattened(op: Op, inputs: tuple[Any, ...]) -> Any:
    """Shapes of a pointwise call over contiguous inputs as 1-d and 0-d; None if it broadcasts."""
    tensors = flat(inputs)
    if not tensors or not op.single_output:
        return None
    sizes = [x.size for x in tensors]
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
        return _giving_tensor(launch)

    def run(*arrays: np.ndarray) -> Tensor:
        out = launch(*[a.reshape(s) for a, s in zip(arrays, shapes)])[0]
        return tensor_of(out.reshape(out_shape))

    return run


def _giving_tensor(launch: Run) -> Run:
    """The plan of a launcher of one result."""
    found: Run | None = getattr(launch, "tensor", None)
    return found or (lambda *arrays: tensor_of(launch(*arrays)[0]))


def _structured(arrays: tuple[np.ndarray, ...], like: tuple[Any, ...]) -> Any:
    """The arrays as the entries of the op's outputs: tensors, tuples of them, None where absent."""
    supply = iter(arrays)
    entries = map_entries(lambda _: tensor_of(next(supply)), like)
    return entries[0] if len(entries) == 1 else entries


EAGER = Eager()
context.set_base(EAGER)


def _forget_places() -> None:
    """Forget what was decided before a device was there, or for another one of its name."""
    EAGER.forgotten += 1
    EAGER.plans.clear()
    EAGER.mixed.clear()
    EAGER.over_graphs.clear()
    EAGER.programs = {k: p for k, p in EAGER.programs.items() if k[0] == CPU}


def _forget_kernels() -> None:
    """Forget what runs the kernels that were there before."""
    _forget_places()
    EAGER.programs.clear()


places.LISTENERS.append(_forget_places)
kernel_registry.LISTENERS.append(_forget_kernels)
