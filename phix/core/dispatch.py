"""bind: one call of an op, handed to the current interpreter.

Interpreters form a chain of contexts: each has a ``parent`` that gives meaning to the ops it
performs in turn; the base of the chain runs ops eagerly. A tracer belongs to one interpreter,
its tag, so nested transformations never confuse their perturbations.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phix.core import attrs as at
from phix.core import donation, operands, stack
from phix.core import dtypes as dt
from phix.core.arrays import apart
from phix.core.conversion import home, lent_tensor, owned_tensor, tensor_from_scalar
from phix.core.dims import Dim
from phix.core.errors import (
    ArgumentError,
    DTypeError,
    LeakedTracerError,
    OutOfMemoryError,
    PhixError,
    described,
    shown,
)
from phix.core.op import Op
from phix.core.places import Place
from phix.core.rules import OPS
from phix.core.source import at_user_line, is_recording_tracers, user_source
from phix.core.tensor import Tensor, TensorBase, Tracer, tensor_of


class Interpreter:
    """One way to give ops a meaning. ``process`` gets normalised inputs and attributes."""

    name = "interpreter"
    stages = False  # whether ops are written down, not run
    watches = False  # whether it only looks at the ops it performs
    axis_name: str | None = None  # the name of the axis it maps over
    size: Any = None  # the size of that axis

    def __init__(self, parent: Interpreter | None) -> None:
        self.parent = parent
        self.alive = True
        self.sources: dict[int, Any] | None = None  # of tracers by id, where they are recorded

    def launch_cached(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """The result straight from a program compiled before, else None (eager alone has some)."""
        return None

    def remember(self, op: Op, given: Any, given_attrs: Any, inputs: Any, attrs: Any) -> None:
        """After a call: what the user gave, and what became of it (for ``launch_cached``)."""

    def as_dim(self, value: TensorBase, largest: bool) -> Any:
        """The size that an int tracer of this interpreter stands for."""
        return value.item()

    def own(self, value: Any, place: Place | None) -> Any:
        """What stays of an array-like value: a tensor with memory of its own."""
        return owned_tensor(value, place) if self.parent is None else self.parent.own(value, place)

    def examine(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
        """Check a call that comes from the user, where ``process`` would not find it wrong."""

    def process_donated(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], donated: tuple[int, ...]
    ) -> Any:
        """As ``process``; results may take the memory of the tensors of these numbers."""
        return self.process(op, inputs, attrs)

    def process(self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Perform ``op``: one tensor, or a tuple with one entry an output (lists as tuples)."""
        raise TypeError(f"{type(self).__name__} gives ops no meaning")


class _State(threading.local):
    current: Interpreter
    mapped: str | None = None
    inside: bool = False


_state = _State()
stack.carried(_state)


def set_base(interpreter: Interpreter) -> None:
    """The interpreter at the bottom of every thread's chain."""
    _State.current = interpreter


def base() -> Interpreter:
    """The interpreter at the bottom of every chain, which runs ops."""
    return _State.current


def current() -> Interpreter:
    return _state.current


def is_eager() -> bool:
    """Whether ops run at once: no transformation is at work in this thread."""
    return _state.current.parent is None and _state.current is _State.current


def is_eager_or_watched() -> bool:
    """Whether ops run at once, and no transformation but one that watches them is at work."""
    return all(i.watches or i.parent is None for i in chain())


def chain() -> Iterator[Interpreter]:
    """The current interpreter, its parent, and so on to the base."""
    interpreter: Interpreter | None = _state.current
    while interpreter is not None:
        yield interpreter
        interpreter = interpreter.parent


def runs_at_once() -> bool:
    """Whether ops end in the eager interpreter, whatever transformations are around it."""
    return not any(i.stages for i in chain())


def bound_axes() -> tuple[tuple[str, Any], ...]:
    """The named axes in scope with their sizes, innermost first."""
    return tuple((i.axis_name, i.size) for i in chain() if i.axis_name is not None)


def axis_size(axis_name: str) -> Any:
    """The size of a named axis in scope.

    Raises:
        ArgumentError: no vmap around binds the name.
    """
    bound = bound_axes()
    for name, size in bound:
        if name == axis_name:
            return size
    known = ", ".join(repr(n) for n, _ in bound) or "none"
    raise ArgumentError(
        f"no axis {axis_name!r} is bound here (bound: {known}); call the function under "
        f"phix.vmap(..., axis_name={axis_name!r})"
    )


def mapped_axis() -> str | None:
    """The name of the axis that the batching rule at work maps over."""
    return _state.mapped


@contextmanager
def mapping(axis_name: str | None) -> Iterator[None]:
    """A batching rule at work: the batches it makes in turn are of the same named axis."""
    before = _state.mapped
    _state.mapped = axis_name
    try:
        yield
    finally:
        _state.mapped = before


def is_inside() -> bool:
    """Whether ops are called by rules, or by graphs that run again, and not by the user."""
    return _state.inside


class inside:
    """What is called inside a with block is called by rules or graphs, not by the user."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _state.inside
        _state.inside = True

    def __exit__(self, *exception: object) -> None:
        _state.inside = self.before


class active:
    """Make ``interpreter`` current inside a with block."""

    __slots__ = ("before", "interpreter")

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def __enter__(self) -> Interpreter:
        self.before = _state.current
        _state.current = self.interpreter
        return self.interpreter

    def __exit__(self, *exception: object) -> None:
        _state.current = self.before


class transformation(active):
    """Make a new interpreter current; when the block ends, its tracers are dead."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        _state.current = self.before
        self.interpreter.alive = False


def bind(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """One call of ``op``.

    ``inputs`` follow ``op.inputs`` (tensors, arrays or Python scalars; None for an absent
    optional; a sequence for Tensor[]), ``attrs`` follow ``op.attrs``.

    Raises:
        ArgumentError, DTypeError, ShapeError: with the op, the metas found and the user's line.
    """
    interpreter = _state.current
    try:
        result = interpreter.launch_cached(op, inputs, attrs)
        return _bound(op, inputs, attrs, interpreter) if result is None else result
    except MemoryError as error:
        raise _no_room(op, error) from None


def _no_room(op: Op, error: MemoryError) -> OutOfMemoryError:
    """The error where there is no memory for a result, with the op's name and the user's line."""
    if getattr(error, "located", False):
        return error  # type: ignore[return-value]
    named = OutOfMemoryError(f"{op.name}{at_user_line()}: {error or 'out of memory'}")
    named.located = True  # type: ignore[attr-defined]
    return named


def _bound(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], interpreter: Interpreter
) -> Any:
    """One call of ``op`` that no program is known for yet."""
    given, given_attrs = inputs, attrs
    converted = convert_inputs(op, inputs)
    inputs = promote_inputs(op, converted)
    for slot in op.number_slots:
        if isinstance(attrs[slot], Tracer):
            return operands.call(op, inputs, attrs)
    attrs = at.normalize(op, inputs, attrs)
    if op.index_rule is not None and not _state.inside:
        _check_indices(op, inputs, attrs)
    interpreter.examine(op, inputs, attrs)
    with inside():
        outs = interpreter.process(op, inputs, attrs)
    if converted is not given and interpreter.parent is None:
        outs = _kept(outs, _lent(given, converted))
    interpreter.remember(op, given, given_attrs, inputs, attrs)
    if is_recording_tracers():
        _keep_sources(outs)
    return outs


def _check_indices(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    from phix.core.index_ranges import check_call

    check_call(op, inputs, attrs)


def bind_in_place(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """One call of ``op`` that ends the tensors its entry names under ``inplace``.

    Eagerly the results take their memory where sizes and dtypes allow and nothing else sees it.
    While a function is transformed it is the op as ever, and compiled code sees to the memory; the
    tracers end all the same, so that what runs in the one way runs in the other.

    Raises:
        ArgumentError, DTypeError, ShapeError: as :func:`bind` does; the tensors live on then.
    """
    names = {source for source, _ in op.inplace}
    named = tuple(x for arg, x in zip(op.inputs, inputs) if arg.name in names)
    ending: list[TensorBase] = [x for x in _leaves(named) if isinstance(x, Tracer)]
    if is_eager():
        given = donation.gifts(_leaves(named))
        converted = promote_inputs(op, convert_inputs(op, inputs))
        tensors = [x for x in _leaves(converted) if x is not None]
        attrs = at.normalize(op, converted, attrs)
        if op.index_rule is not None:
            _check_indices(op, converted, attrs)
        numbers = donation.free_numbers(tensors, given)
        with inside():
            outs = _state.current.process_donated(op, converted, attrs, numbers)
        outs = _kept(outs, _lent(inputs, converted))
        ending += given
    else:
        outs = bind(op, inputs, attrs)
    for x in ending:
        donation.end(x, f"{op.name}_{at_user_line()}", f"call {op.name}")
    return outs


def _lent(given: tuple[Any, ...], converted: tuple[Any, ...]) -> list[np.ndarray]:
    """The memory of the arrays among what the user gave, which is not the results' to keep."""
    found: list[np.ndarray] = []
    for value, entry in zip(given, converted):
        if isinstance(entry, tuple):
            is_row = isinstance(value, (list, tuple))
            found += _lent(value if is_row else (value,) * len(entry), entry)
        elif type(entry) is Tensor and type(value) not in _KEPT:
            found.append(entry.data)
    return found


# What no array stands behind, or one that is a tensor's already.
_KEPT = frozenset({Tensor, bool, int, float, complex, Dim, type(None)})


def _kept(outs: Any, lent: list[np.ndarray]) -> Any:
    """The results, apart from memory that was lent for the call alone: no view of an array."""
    if not lent:
        return outs
    if isinstance(outs, tuple):
        return tuple(_kept(o, lent) for o in outs)
    if type(outs) is not Tensor:
        return outs
    own = apart(outs.data, lent)
    return outs if own is outs.data else tensor_of(own)


def _keep_sources(outs: Any) -> None:
    """Remember the line that tracers were made at, in case they leak."""
    if isinstance(outs, tuple):
        for out in outs:
            _keep_sources(out)
    elif isinstance(outs, Tracer) and not outs.interpreter.stages:
        if outs.interpreter.sources is None:
            outs.interpreter.sources = {}
        outs.interpreter.sources[id(outs)] = user_source()


def convert_inputs(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Everything a tensor, but Python scalars, which stay weak until promotion."""
    for value in inputs:
        if not isinstance(value, Tensor) and not (
            isinstance(value, Tracer) and value.interpreter.alive
        ):
            break
    else:
        if not op.has_lists:
            return inputs
    converted: list[Any] = []
    place = home(_leaves(inputs))
    for arg, value in zip(op.inputs, inputs):
        if arg.is_list:
            entries = value if isinstance(value, (list, tuple)) else _entries(value)
            if entries is None:
                raise ArgumentError(
                    f"{op.name}: {arg.name} is a list of tensors, found {described(value)}; "
                    f"write {op.name}([...])"
                )
            converted.append(tuple(_convert(op, arg.name, v, place) for v in entries))
        elif value is None:
            if not arg.optional:
                raise ArgumentError(f"{op.name}: {arg.name} is a tensor, found None; pass one")
            converted.append(None)
        else:
            converted.append(_convert(op, arg.name, value, place))
    return tuple(converted)


def _entries(value: Any) -> list[Any] | None:
    """What a value that is no list or tuple holds, in an order of its own; None: it has none."""
    if isinstance(value, (TensorBase, str, bytes, dict, set, frozenset)):
        return None
    try:
        return list(value)
    except Exception:  # whatever the value answers
        return None


def _leaves(inputs: tuple[Any, ...]) -> Iterator[Any]:
    for value in inputs:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _convert(op: Op, name: str, value: Any, place: Place | None) -> Any:
    if isinstance(value, TensorBase):
        if isinstance(value, Tracer) and not value.interpreter.alive:
            raise leaked(value, f"{op.name}, as {name}")
        return value
    if type(value) in (bool, int, float, complex, Dim):
        return value
    try:
        current = _state.current
        return lent_tensor(value, place) if current.parent is None else current.own(value, place)
    except PhixError as error:
        raise type(error)(f"{op.name}: {name} is a tensor: {error}") from None


def leaked(tracer: Tracer, where: str) -> LeakedTracerError:
    sources = tracer.interpreter.sources or {}
    source = getattr(tracer, "source", None) or sources.get(id(tracer))
    made = f", made at {source}" if source else ""
    return LeakedTracerError(
        f"a tracer of {tracer.interpreter.name} ({tracer.meta}{made}) reached {where}"
        f"{at_user_line()} after that transformation had ended; return the value from the "
        "transformed function instead of keeping it in a variable outside"
    )


def promote_inputs(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python scalars made tensors; inputs with the promote traits brought to one dtype."""
    if _have_met(op, inputs):
        return inputs
    try:
        return _promoted(op, inputs)
    except PhixError as error:
        raise at.with_call(error, op, tuple(map(_described, inputs))) from None


def _promoted(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    if "promote" not in op.traits:
        return tuple(
            tuple(map(_strong, x)) if isinstance(x, tuple) else None if x is None else _strong(x)
            for x in inputs
        )
    chosen = [not op.promoted or a.name in op.promoted for a in op.inputs]
    meeting: list[Any] = []
    for x, take in zip(inputs, chosen):
        if take:
            meeting.extend(x if isinstance(x, tuple) else () if x is None else (x,))
    dtype = _meeting_dtype(op, meeting)
    out: list[Any] = []
    for x, take in zip(inputs, chosen):
        if isinstance(x, tuple):
            out.append(tuple(_to(v, dtype) if take else _strong(v) for v in x))
        elif x is None:
            out.append(None)
        else:
            out.append(_to(x, dtype) if take else _strong(x))
    return tuple(out)


def _meeting_dtype(op: Op, values: list[Any]) -> Any:
    dtype = common_dtype(values)
    if dtype is not None and "promote_float" in op.traits:
        dtype = dt.float_of(dtype)
    if dtype is not None and op.dtypes and dtype not in op.dtypes:
        dtype = _widen(op, dtype)
    return dtype


def _described(value: Any) -> Any:
    """What messages say of an input: the meta of a tensor, a Python scalar as it is."""
    if isinstance(value, tuple):
        return tuple(map(_described, value))
    return value.meta if isinstance(value, TensorBase) else shown(value)


def _have_met(op: Op, inputs: tuple[Any, ...]) -> bool:
    """Whether all inputs are tensors of one dtype that the op takes: the usual case, made quick."""
    dtype = None
    for x in inputs:
        if not isinstance(x, TensorBase):
            return False
        own = x.dtype
        if own is not dtype and dtype is not None:
            return False
        dtype = own
    if op.dtypes and dtype not in op.dtypes:
        return "promote" not in op.traits
    return "promote_float" not in op.traits or dtype is None or dt.is_differentiable(dtype)


def _widen(op: Op, dtype: Any) -> Any:
    """bool runs as int64 where an op takes ints but no bools (bool + 1 is int64)."""
    if dtype == dt.bool_ and dt.int64 in op.dtypes:
        return dt.int64
    names = ", ".join(d for d in dt.BY_NAME if dt.BY_NAME[d] in op.dtypes)
    raise DTypeError(f"the op takes {names}; found {dtype}; cast the input first (phix.ops.cast)")


def common_dtype(values: list[Any]) -> Any:
    """The dtype tensors and weak Python scalars meet in; None of nothing."""
    strong = None
    for v in values:
        if isinstance(v, TensorBase):
            strong = v.dtype if strong is None else dt.promote(strong, v.dtype)
    for v in values:
        if not isinstance(v, TensorBase):
            kind: Any = int if isinstance(v, Dim) else type(v)
            strong = dt.default_dtype(kind) if strong is None else dt.promote_weak(strong, kind)
    return strong


def _strong(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else _of_number(value, None)


def _of_number(value: Any, dtype: Any) -> Any:
    """A tensor of a Python scalar, or of an unknown dim, which is an int like others."""
    if isinstance(value, Dim):
        return bind(OPS["full"], (), ((), value, dtype or dt.int64, None))
    return tensor_from_scalar(value, dtype)


def _to(value: Any, dtype: Any) -> Any:
    if not isinstance(value, TensorBase):
        return _of_number(value, dtype)
    return value if value.dtype == dtype else bind(OPS["cast"], (value,), (dtype,))


__all__ = [
    "Interpreter",
    "Tensor",
    "active",
    "bind",
    "bind_in_place",
    "current",
    "set_base",
    "transformation",
]
