"""bind: one call of an op, handed to the current interpreter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from phix.core import attrs as at
from phix.core import donation, later, operands, refusals, tensor_kinds, varying
from phix.core.arrays import apart
from phix.core.context import context, inside, is_eager
from phix.core.conversion import home, lent_tensor
from phix.core.dims import Dim
from phix.core.errors import NO_ROOM, ArgumentError, OutOfMemoryError, PhixError, described
from phix.core.index_ranges import check_call
from phix.core.interpreter import Interpreter
from phix.core.op import Op
from phix.core.places import Place
from phix.core.promotion import compared, meet_in_no_int, promote_inputs
from phix.core.size_checks import check_composite
from phix.core.source import at_user_line, is_recording_tracers, user_source
from phix.core.tensor import Tensor, TensorBase, Tracer, tensor_of
from phix.core.weak import digits


def bind(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """One call of ``op``.

    ``inputs`` follow ``op.inputs`` (tensors, arrays or Python scalars; None for an absent
    optional; a sequence for Tensor[]), ``attrs`` follow ``op.attrs``.

    Raises:
        ArgumentError, DTypeError, ShapeError: with the op, the metas found and the user's line.
    """
    interpreter = context.interpreter
    try:
        result = interpreter.launch_cached(op, inputs, attrs)
        return _bound(op, inputs, attrs, interpreter) if result is None else result
    except MemoryError as error:
        raise _no_room(op, error) from None


def _no_room(op: Op, error: MemoryError) -> OutOfMemoryError:
    """The error where there is no memory for a result, with the op's name and the user's line."""
    if getattr(error, "located", False):
        return error  # type: ignore[return-value]
    named = OutOfMemoryError(f"{op.name}{at_user_line()}: {str(error) or NO_ROOM}")
    named.located = True  # type: ignore[attr-defined]
    return named


def _bound(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], interpreter: Interpreter
) -> Any:
    """One call of ``op`` that no program is known for yet."""
    if tensor_kinds.KINDS and tensor_kinds.concerns(inputs):
        return tensor_kinds.call(op, inputs, attrs)
    given, given_attrs = inputs, attrs
    if list in map(type, attrs):
        given_attrs = _hashable(attrs)
        found = interpreter.launch_cached(op, inputs, given_attrs)
        if found is not None:
            return found
    converted = convert_inputs(op, inputs)
    if "compares" in op.traits and meet_in_no_int(converted):
        return compared(op, converted)
    inputs = promote_inputs(op, converted)
    for slot in op.number_slots:
        if isinstance(attrs[slot], Tracer):
            return operands.call(op, inputs, attrs)
    if op.size_rule is not None:
        inputs, attrs = at.sized(op, op.size_rule, inputs, attrs)
    attrs = at.normalize(op, inputs, attrs)
    if op.index_rule is not None and not context.is_inside:
        check_call(op, inputs, attrs)
    if op.decomposition is not None and not context.is_inside and not op.is_pointwise:
        check_composite(op, inputs, attrs)
    if interpreter.asks and not context.is_inside:
        interpreter.ask(op, inputs, attrs)
    if op.has_graphs and context.tracked:
        attrs = varying.prepared(op, inputs, attrs)
    if not op.is_ring:
        interpreter.examine(op, inputs, attrs)
    with inside():
        try:
            if op.is_ring:
                return op.decomposition(*op.merge(inputs, attrs))  # type: ignore[misc]
            outs = interpreter.process(op, inputs, attrs)
        except PhixError as error:  # of an op that this one is made of
            if op.decomposition is None or op.has_graphs:
                raise
            raise at.with_call(error, op, at.metas_of(inputs)) from None
    if converted is not given and interpreter.parent is None:
        outs = _kept(outs, _lent(given, converted))
    interpreter.remember(op, given, given_attrs, inputs, attrs)
    if is_recording_tracers():
        _keep_sources(outs)
    return outs


def _hashable(attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The attributes with lists of ints as tuples, which mean the same and can be looked up."""
    return tuple([tuple(a) if type(a) is list and _INTS.issuperset(map(type, a)) else a
                  for a in attrs])  # fmt: skip


_INTS = frozenset({int})  # and no bool or float, which would be equal to one


def bind_in_place(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """One call of ``op`` that ends the tensors its entry names under ``inplace``.

    Eagerly the results take their memory where sizes and dtypes allow and nothing else sees it.
    While a function is transformed it is the op as ever, and compiled code sees to the memory; the
    tracers end all the same, so that what runs in the one way runs in the other.

    Raises:
        ArgumentError, DTypeError, ShapeError: as :func:`bind` does; the tensors live on then.
        DonatedTensorError: another thread has given one of them away meanwhile.
    """
    if tensor_kinds.concerns(inputs):
        return tensor_kinds.call(op, inputs, attrs)  # whose kernel calls ops that work in place
    names = {source for source, _ in op.inplace}
    named = tuple(x for arg, x in zip(op.inputs, inputs) if arg.name in names)
    works_in_place_alone = op.name.endswith("_")
    name = op.name if works_in_place_alone else f"{op.name}_"
    remedy = "" if works_in_place_alone else f"call {op.name}"

    def end(values: Iterable[TensorBase]) -> None:
        where = f"{name}{at_user_line()}"
        for x in values:
            donation.end(x, where, remedy)

    tracers = [x for x in _leaves(named) if isinstance(x, Tracer)]
    if is_eager():
        given = donation.gifts(_leaves(named))
        converted = promote_inputs(op, convert_inputs(op, inputs))
        tensors = [x for x in _leaves(converted) if x is not None]
        attrs = at.normalize(op, converted, attrs)
        if op.index_rule is not None:
            check_call(op, converted, attrs)
        numbers = donation.free_numbers(tensors, given)
        lent = _lent(inputs, converted)
        interpreter = context.interpreter
        with inside():
            outs = interpreter.process_donated(op, converted, attrs, numbers, lambda: end(given))
        outs = _kept(outs, lent)
    else:
        outs = bind(op, inputs, attrs)
    end(tracers)
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
            absent = value is None and arg.optional
            entries = (
                value if isinstance(value, (list, tuple)) else _entries(() if absent else value)
            )
        if value is None and arg.is_list and arg.optional:
            converted.append(None)
        elif arg.is_list:
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
            raise refusals.leaked(digits(value), f"{op.name}, as {name}")
        return value
    if type(value) in (bool, int, float, complex, Dim):
        return value
    try:
        current = context.interpreter
        return lent_tensor(value, place) if current.parent is None else current.own(value, place)
    except PhixError as error:
        raise type(error)(f"{op.name}: {name} is a tensor: {error}") from None


later.provide_bind(bind)
