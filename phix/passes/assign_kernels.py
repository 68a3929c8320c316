"""The pass that assigns kernels: what runs each equation, where each value lives, and how it lies.

Places follow the inputs. Every equation gets the key of its kernel, and its inputs are brought into
the state that the kernel asks for: to its place by ``io_copy``, to its layout by a transposition,
to its dtype by ``cast``. A value is kept in every form it was brought into, so each is made once;
it is brought back where something asks for it as it was, so what goes there and back is never made.
Forms of constants are made here, not when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Union

from phix.core import dtypes as dt
from phix.core import kernel_keys, kernel_selection, rewrites, stack
from phix.core.conversion import tensor_from_scalar
from phix.core.errors import DeviceError, DTypeError, KernelNotFoundError
from phix.core.graph import (
    Constant,
    Equation,
    Graph,
    Literal,
    State,
    Variable,
    flat,
    graphs_in,
    is_effect,
    map_attrs,
    map_entries,
)
from phix.core.kernel_arguments import ANY, Asked, each_of
from phix.core.kernel_registry import Kernel
from phix.core.meta import MetaTensor
from phix.core.op import Op
from phix.core.places import CPU, Place
from phix.core.records import dataclass
from phix.core.tensor import Tensor
from phix.interpreters.decompose import decompose
from phix.interpreters.infer_meta import infer
from phix.interpreters.stage import finish
from phix.passes import layouts
from phix.passes.forms import Data, MemoryForm, Order, Writer, asked_place, kernel_place

# Values that follow no input are written down where they are needed, if they are of so few steps.
_LONGEST_RECIPE = 8


def _not_real(op: Op, name: str, found: Any, dtype: Any) -> DTypeError:
    return DTypeError(
        f"{op.name}: {name} is cast to the {dtype} of its kernel (`support_trans_dtype`), where "
        f"imaginary parts are lost; found {found}. Write phix.ops.real({name}) to leave them out"
    )


@dataclass(eq=False)
class PlacedValue:
    """Data, with the place where the program says they live; None: wherever they are needed."""

    data: Data
    home: Place | None
    what: Callable[[], str]

    @property
    def meta(self) -> MetaTensor:
        return self.data.meta

    @property
    def is_loose(self) -> bool:
        """Whether it is a single value of the host, which goes wherever it is needed."""
        return self.home is None or (self.home == CPU and not self.meta.ndim)


Given = Union[PlacedValue, Literal]


class AssignKernels(Writer):
    """One graph on its way to states.

    ``main`` is the place of what follows no input, ``end`` that of the outputs, where they are not
    to stay where they live.
    """

    def __init__(self, main: Place, end: Place | None = None) -> None:
        super().__init__()
        self.main, self.end = main, end
        self.values: dict[Variable, Given] = {}

    def run(self, graph: Graph, homes: Sequence[Place | None]) -> Graph:
        """The graph with states and kernels, for inputs that live there (None: loose)."""
        inputs = []
        for number, (variable, home) in enumerate(zip(graph.inputs, homes)):
            place = home or CPU
            new = Variable(variable.name, variable.meta, State(place))
            data = Data(variable.meta, {MemoryForm(place, None, variable.meta.dtype): new})
            what = f"argument {number} ({variable.name})"
            self.values[variable] = PlacedValue(data, home, lambda what=what: what)  # type: ignore[misc]
            inputs.append(new)
        for constant in graph.constants:
            self.values[constant.variable] = self.constant(constant.value)
        for equation in graph.equations:
            self.source = equation.source
            self.process(equation)
        self.source = None
        outputs = tuple([self.output(self.read(a)) for a in graph.outputs])
        constants = tuple(Constant(v, x) for v, x in self.constants.items())
        return finish(Graph(tuple(inputs), constants, tuple(self.equations), outputs))

    def output(self, value: Given) -> Any:
        if isinstance(value, Literal):
            return value
        place = self.end or value.home or self.main
        return self.want(value.data, MemoryForm(place, None, value.meta.dtype))

    def read(self, atom: Any) -> Given:
        return atom if isinstance(atom, Literal) else self.values[atom]

    def constant(self, value: Tensor) -> PlacedValue:
        """What is closed over: on the host it goes anywhere, elsewhere it stays."""
        variable = Variable("", value.meta, State(value.place))
        self.constants[variable] = value
        data = Data(value.meta, {MemoryForm(value.place, None, value.dtype): variable})
        home = None if value.place == CPU else value.place
        return PlacedValue(data, home, lambda: f"{value.meta} closed over")

    # -- equations -------------------------------------------------------------------------
    def process(self, equation: Equation) -> None:
        given = map_entries(self.read, equation.inputs)
        outputs = flat(equation.outputs)
        if "moves" in equation.op.traits:
            self.values[outputs[0]] = _relocated(equation, given)
            return
        place = _shared_place(equation, given)
        steps = 1 + sum(v.data.steps for v in flat(given) if isinstance(v, PlacedValue))
        lazy = all(v.data.make for v in flat(given) if isinstance(v, PlacedValue))
        if place is not None or is_effect(equation) or equation.op.binds_dim:
            found = self.emit(equation, given, place or self.main)
        elif lazy and steps <= _LONGEST_RECIPE:
            found = self.wherever(equation, given, steps)
        else:
            found = self.emit(equation, given, self.main)
            found = [replace(v, home=None) if isinstance(v, PlacedValue) else v for v in found]
        self.values.update(zip(outputs, found))

    def wherever(self, equation: Equation, given: Any, steps: int) -> list[Given]:
        """The outputs of an equation that follows no place: it is written down where they are
        asked for."""
        datas = [Data(v.meta, {}, None, steps) for v in flat(equation.outputs)]

        def make(place: Place) -> None:
            before, self.source = self.source, equation.source
            for data, made in zip(datas, self.emit(equation, given, place)):
                assert isinstance(made, PlacedValue)
                data.forms.update(made.data.forms)
            self.source = before

        for data in datas:
            data.make = make
        return [PlacedValue(d, None, lambda: "") for d in datas]

    def emit(self, equation: Equation, given: Any, place: Place) -> list[Given]:
        """The outputs of an equation that lives on ``place``."""
        if any(map(_moves_data, graphs_in(equation.attrs))):
            return self.emit_over_places(equation, given, place)
        kernel = self.kernel(equation, place.kind)
        if kernel is None:
            return self.inline(equation, given, place)
        op, key = equation.op, kernel.key
        asked = kernel_keys.kernel_key(equation, key.backend)
        where = kernel_place(kernel, place)
        orders = layouts.layout_orders(op, asked, key)
        attrs = layouts.restated_attrs(equation, asked, key)
        if rewrites.is_on("keep_layouts") and kernel.is_plain:
            lying = map_entries(lambda v: getattr(v, "data", v), given)
            orders = orders or layouts.orders_as_they_lie(equation, lying)
            if orders and "reduces" in op.traits:
                orders, attrs = layouts.reduced(equation, orders, attrs)

        is_function = kernel.function is not None
        as_is = kernel_keys.as_they_are(op) if is_function else ()
        cast = kernel_keys.cast_to_key(op) if is_function else ()

        def form(value: Given, name: str, state: Asked) -> MemoryForm:
            if name in as_is:
                return MemoryForm(_home_of(value, where), None, value.meta.dtype)
            to_key = name in cast or value.meta.dtype == asked.dtype
            dtype = key.dtype if to_key else value.meta.dtype
            if dt.is_complex(value.meta.dtype) and name in cast and not dt.is_complex(dtype):
                raise _not_real(op, name, value.meta.dtype, dtype)
            order = orders.get(name) if value.meta.ndim else None
            order = layouts.argument_order(op, name, asked, order, state, value.meta.ndim)
            return MemoryForm(asked_place(state, where), order, state.dtype or dtype)

        inputs = tuple(
            entry if entry is None
            else tuple(self.atom(v, form(v, arg.name, state), where) for v in entry)
            if isinstance(entry, tuple)
            else self.atom(entry, form(entry, arg.name, state), where)
            for arg, entry, state in zip(op.inputs, given, each_of(kernel.inputs, op.inputs))
        )  # fmt: skip
        if op.has_graphs:
            attrs = map_attrs(
                lambda g: assign_kernels(g, [where] * len(g.inputs), where, where), attrs
            )
        return self.write(equation, inputs, attrs, kernel, where, orders, place)

    def atom(self, value: Given, form: MemoryForm, where: Place) -> Any:
        """The variable of a value in that form, for a kernel on ``where``; numbers stay numbers
        there, and are constants elsewhere."""
        if isinstance(value, Literal):
            if form.place == where:
                return Literal(value.value, value.meta.with_dtype(form.dtype))
            value = self.constant(tensor_from_scalar(value.value, value.meta.dtype))
        return self.want(value.data, form)

    def emit_over_places(self, equation: Equation, given: Any, place: Place) -> list[Given]:
        """The outputs of a loop or branch whose graphs move data: what they take unchanged stays
        where it lives, all else and the results are on ``place``."""
        op = equation.op
        number = next((i for i, a in enumerate(op.inputs) if a.name in op.invariant), -1)

        def atom(value: Given, home: Place) -> Any:
            if isinstance(value, Literal):
                return value
            return self.want(value.data, MemoryForm(home, None, value.meta.dtype))

        homes = [_home_of(v, place) for v in flat((given[number],))] if number >= 0 else []
        inputs = list(map_entries(lambda v: atom(v, place), given))
        if number >= 0:
            inputs[number] = tuple(map(atom, given[number], homes))

        def inner(graph: Graph) -> Graph:
            first = len(graph.inputs) - len(homes)
            return assign_kernels(graph, [place] * first + homes, place, place)

        attrs = map_attrs(inner, equation.attrs)
        kernel = kernel_selection.choose(op, kernel_keys.kernel_key(equation, ""), place.kind)
        return self.write(equation, tuple(inputs), attrs, kernel, place, {}, place)

    def write(
        self, equation: Equation, inputs: Any, attrs: Any, kernel: Kernel, where: Place,
        orders: dict[str, Order], place: Place,
    ) -> list[Given]:  # fmt: skip
        """The new equation; an output in a wider dtype is cast back at once."""
        op = equation.op
        asked = kernel_keys.kernel_key(equation, kernel.key.backend)
        dtypes = [v.meta.dtype for v in flat(equation.outputs)]
        if kernel.key.dtype != asked.dtype:
            wide = {asked.dtype: kernel.key.dtype}
            metas = map_entries(lambda a: a.meta.with_dtype(wide.get(a.meta.dtype, a.meta.dtype)),
                                equation.inputs)  # fmt: skip
            wide_attrs = layouts.restated_attrs(equation, asked, replace(kernel.key, layout=ANY))
            dtypes = [m.dtype for m in flat(infer(op, metas, wide_attrs))]
        supply = iter(dtypes)
        values: list[PlacedValue] = []

        def made(variable: Variable, name: str, state: Asked) -> Variable:
            plain = next(supply)
            meta = variable.meta.with_dtype(state.dtype or plain)
            order = orders.get(name)
            order = layouts.argument_order(op, name, asked, order, state, variable.meta.ndim)
            if order is not None:
                meta = meta.with_dims(order.dims(meta.dims))
            form = MemoryForm(asked_place(state, where), order, meta.dtype)
            new = Variable("", meta, State(form.place, ANY if order is None else order.layout))
            data = Data(variable.meta, {form: new})
            values.append(PlacedValue(data, place, lambda: _made_by(variable, equation)))
            return new

        outputs: Any = tuple(
            entry if entry is None
            else tuple(made(v, "", state) for v in entry) if isinstance(entry, tuple)
            else made(entry, out.name, state)
            for out, entry, state in
            zip(op.outputs, equation.outputs, each_of(kernel.outputs, op.outputs))
        )  # fmt: skip
        self.equations.append(Equation(op, inputs, attrs, outputs, self.source, kernel.key))
        for value in values:
            (form,) = value.data.forms
            if form.dtype != value.meta.dtype:
                other = value.data.forms.pop(form)
                self.restate(value.data, other, form, form._replace(dtype=value.meta.dtype))
        return list(values)

    def inline(self, equation: Equation, given: Any, place: Place) -> list[Given]:
        """The outputs of a composite that is decomposed after all."""
        parts, inner = _parts(equation), AssignKernels(self.main)
        inner.equations, inner.constants, inner.source = self.equations, self.constants, self.source
        atoms = dict(zip(flat(equation.inputs), flat(given)))
        names = dict.fromkeys(a for a in flat(equation.inputs) if isinstance(a, Variable))
        inner.values = {v: atoms[a] for v, a in zip(parts.inputs, names)}
        inner.values.update((c.variable, self.constant(c.value)) for c in parts.constants)
        for part in parts.equations:
            found = inner.emit(part, map_entries(inner.read, part.inputs), place)
            inner.values.update(zip(flat(part.outputs), found))
        return [inner.read(a) for a in parts.outputs]

    # -- kernels ---------------------------------------------------------------------------
    def kernel(self, equation: Equation, kind: str) -> Kernel | None:
        """The kernel for an equation on that kind of place; None: it is to be decomposed."""
        key, known = kernel_keys.kernel_key(equation, ""), layouts.given_of(equation)
        if not equation.op.is_primitive:
            return kernel_selection.available(equation.op, key, kind, given=known)
        if equation.op.has_graphs:
            kind = _kind_for_graphs(equation, kind)
        try:
            return kernel_selection.choose(equation.op, key, kind, known)
        except KernelNotFoundError as error:
            at = f" (at {self.source})" if self.source else ""
            raise KernelNotFoundError(f"{error}{at}") from None


def _relocated(equation: Equation, given: Any) -> Given:
    """A copy: the same data, said to live elsewhere. It is made where something asks for it."""
    named = next((a for a in equation.attrs if isinstance(a, Place)), None)
    if isinstance(given[0], Literal):
        return given[0]
    home = named if named is not None else getattr(given[-1], "home", None)
    variable = flat(equation.outputs)[0]
    return PlacedValue(given[0].data, home, lambda: _made_by(variable, equation))


def _made_by(variable: Variable, equation: Equation) -> str:
    at = f" (at {equation.source})" if equation.source else ""
    return f"{variable.name} of {equation.op.name}{at}"


def _shared_place(equation: Equation, given: Any) -> Place | None:
    """Where an equation runs: with its inputs, or where an attribute says.

    Raises:
        DeviceError: the inputs live in different places; the message says which where.
    """
    named_place = _named_place(equation, given)
    if named_place is not None:
        return named_place
    free = kernel_keys.as_they_are(equation.op)
    bound = tuple(e for a, e in zip(equation.op.inputs, given) if a.name not in free)
    values = [v for v in flat(bound) if isinstance(v, PlacedValue) and v.home is not None]
    if any(_moves_data(g) for g in graphs_in(equation.attrs)):
        values = _first_of_one_place(equation, given) or values
    found = dict.fromkeys(v.home for v in values if not v.is_loose)
    if len(found) > 1:
        named = _argument_names(equation.op, given)
        placed = [(name, v) for name, v in named if v in values and not v.is_loose]
        where = ", ".join(f"{name} is {v.what()} on {v.home}" for name, v in placed)
        at = f" (at {equation.source})" if equation.source else ""
        raise DeviceError(
            f"{equation.op.name}{at}: the inputs live in different places: {where}; bring them to "
            f"one, as in .to('{next(iter(found))}')"
        )
    if found:
        return next(iter(found))
    return CPU if values else next((a for a in equation.attrs if isinstance(a, Place)), None)


@stack.nests
def _moves_data(graph: Graph) -> bool:
    """Whether something in a graph is said to live elsewhere than its inputs do."""
    return any(
        "moves" in e.op.traits or any(map(_moves_data, graphs_in(e.attrs))) for e in graph.equations
    )


def _first_of_one_place(equation: Equation, given: Any) -> list[PlacedValue]:
    """The operands that decide where a loop or branch lives whose graphs move data: those that it
    carries, else the first that lives somewhere."""
    op = equation.op
    carried = [e for a, e in zip(op.inputs, given) if a.is_list and a.name not in op.invariant]
    placed = [v for v in flat(given) if isinstance(v, PlacedValue) and v.home and not v.is_loose]
    of_loop = [v for entry in carried for v in entry if v in placed]
    return of_loop or placed[:1]


def _home_of(value: Given, place: Place) -> Place:
    home = place if isinstance(value, Literal) or value.is_loose else value.home
    return place if home is None else home


def _named_place(equation: Equation, given: Any) -> Place | None:
    """The place of the argument that the op's entry says it follows, whatever the others do."""
    op = equation.op
    by_name = dict(zip((a.name for a in op.inputs), given))
    by_name |= dict(zip(op.attr_names, equation.attrs))
    for name in kernel_keys.place_args(op):
        first = by_name.get(name)
        first = first[0] if isinstance(first, tuple) and first else first
        if first is not None:
            return first if isinstance(first, Place) else getattr(first, "home", None)
    return None


def _argument_names(op: Op, given: Any) -> list[tuple[str, Any]]:
    """Each input's name, x[0] of a list, with its value."""
    named: list[tuple[str, Any]] = []
    for arg, entry in zip(op.inputs, given):
        if isinstance(entry, tuple):
            named += [(f"{arg.name}[{i}]", v) for i, v in enumerate(entry)]
        elif entry is not None:
            named.append((arg.name, entry))
    return named


def _parts(equation: Equation) -> Graph:
    """A composite's equation as a graph of what it is made of."""
    inputs = tuple(dict.fromkeys(a for a in flat(equation.inputs) if isinstance(a, Variable)))
    return decompose(Graph(inputs, (), (equation,), tuple(flat(equation.outputs))))


def _kind_for_graphs(equation: Equation, kind: str) -> str:
    """The first kind of place, as calls fall back, that has kernels for all in the graphs."""
    graphs = list(graphs_in(equation.attrs))
    for each in kernel_selection.fallbacks(kind):
        if all(_runs_on(g, each) for g in graphs):
            return each
    return kind


@stack.nests
def _runs_on(graph: Graph, kind: str) -> bool:
    for equation in graph.equations:
        op, key = equation.op, kernel_keys.kernel_key(equation, "")
        found = kernel_selection.available(op, key, kind, given=layouts.given_of(equation))
        if "moves" in op.traits or found is not None:
            if not all(_runs_on(g, kind) for g in graphs_in(equation.attrs)):
                return False
        elif op.is_primitive or not _runs_on(_parts(equation), kind):
            return False
    return True


@stack.nests
def assign_kernels(
    graph: Graph, homes: Sequence[Place | None], main: Place, end: Place | None = None
) -> Graph:
    """``graph`` with a state for every variable and a kernel for every equation.

    Args:
        graph: primitives, and composites that some place has kernels for.
        homes: where the inputs live; None for single values of the host, which go anywhere.
        main: the place of what follows no input.
        end: where the outputs are wanted; by default each stays where it lives.

    Raises:
        DeviceError: an equation's inputs live in different places.
        KernelNotFoundError: no place has a kernel for an equation.
    """
    return AssignKernels(main, end).run(graph, homes)
