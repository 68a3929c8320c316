"""Attributes that are tensors under a transformation.

A float or Scalar attribute is a number that programs are compiled for. Where it is a tensor that is
being traced, differentiated or batched, the call becomes a graph in which that tensor is an operand
like any other: the op's rule for it (``rules.operands``), or its decomposition. The graph is made
by tracing, so nothing in it can have been decided by the value that the tensor has today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import attrs as at
from phix.core import dtypes as dt
from phix.core.errors import (
    ConcretizationError,
    DTypeError,
    PhixError,
    ShapeError,
)
from phix.core.graph import flat, map_entries
from phix.core.later import call_op
from phix.core.op import Op
from phix.core.source import at_user_line
from phix.core.tensor import Tracer
from phix.core.transforms import transforms
from phix.core.weak import Weak

_LOW = (dt.float16, dt.bfloat16)
_MOST_FORMS = 1024
# Of a call: the graph, the structure of its outputs, and what it takes besides, as last inputs.
_forms: dict[Any, tuple[Any, Any, list[Any]]] = {}


def call(op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """``op`` where attributes of ``op.number_slots`` are tracers; inputs are promoted already.

    Raises:
        ConcretizationError: what the op computes depends on the value of such an attribute.
        DTypeError, ShapeError: it is no single real number.
    """
    slots = tuple(i for i in op.number_slots if isinstance(attrs[i], Tracer))
    numbers = [_number(op, i, attrs[i]) for i in slots]
    if op.operand_rule is None and op.decomposition is None:
        raise must_be_known(op, slots, attrs)
    given = at.convert(op, attrs, slots)
    fixed = tuple(None if i in slots else a for i, a in enumerate(given))
    try:
        graph, like, closed = _form(op, inputs, fixed, slots, numbers)
    except ConcretizationError as error:
        raise must_be_known(op, slots, attrs) from error
    except PhixError as error:
        metas = map_entries(lambda x: x.meta, inputs)
        raise at.with_call(error, op, metas) from None
    found = iter(graph(*flat(inputs), *numbers, *closed))
    outs = map_entries(lambda _: next(found), like)
    return outs[0] if len(op.outputs) == 1 else outs


def must_be_known(op: Op, slots: Sequence[int], attrs: tuple[Any, ...]) -> ConcretizationError:
    """Of an attribute that programs are compiled for."""
    names = " and ".join(op.attr_names[i] for i in slots)
    tracer = attrs[slots[0]]
    return ConcretizationError(
        f"{op.name}{at_user_line()}: what it computes depends on the value of {names}, found a "
        f"tensor that is being traced by {tracer.interpreter.name} ({tracer.meta}); pass a number, "
        "make the argument static (jit's static_argnames), or take phix.stop_gradient of it where "
        "no derivative is meant"
    )


def _number(op: Op, slot: int, value: Tracer) -> Any:
    """The one element of a tensor."""
    arg = op.attrs[slot]
    if any(d != 1 for d in value.meta.dims if isinstance(d, int)) or not all(
        isinstance(d, int) for d in value.meta.dims
    ):
        raise ShapeError(
            f"{op.name}: {arg.name} is one number, found {value.meta}; index it first, or use "
            "ops that broadcast"
        )
    if dt.is_complex(value.dtype) and arg.type != "Scalar":
        raise DTypeError(f"{op.name}: {arg.name} is a real number, found {value.meta}")
    if isinstance(value, Weak):
        return value.value
    return call_op("reshape", value, attrs=((),)) if value.ndim else value


def _key(meta: Any) -> tuple[Any, ...]:
    return (meta.dtype, *(d if isinstance(d, int) else d.key for d in meta.dims))


def _form(
    op: Op, inputs: tuple[Any, ...], fixed: tuple[Any, ...], slots: Any, numbers: list[Any]
) -> Any:
    """See ``_traced``; made once for each kind of call."""
    metas = [x.meta for x in (*flat(inputs), *numbers)]
    structure = tuple(len(e) if isinstance(e, tuple) else e is None for e in inputs)
    key: Any = (op, structure, fixed, repr(fixed), slots, *map(_key, metas))
    try:
        found = _forms.get(key)
    except TypeError:  # an attribute that has no hash, a list say
        key, found = None, None
    if found is None:
        found = _traced(op, inputs, fixed, slots, metas)
        if key is not None and not any(isinstance(x, Tracer) for x in found[2]):
            if len(_forms) >= _MOST_FORMS:
                _forms.clear()
            _forms[key] = found
    return found


def _traced(op: Op, inputs: Any, fixed: Any, slots: Any, metas: list[Any]) -> Any:
    """The graph of the call, the structure of its outputs, and what it closes over: constants.

    16-bit floats are computed with in 32, as compiled programs do, so that a small number stays
    what it is; the results have the dtypes they have without.
    """
    dtypes = [x.dtype for x in flat(inputs) if dt.is_differentiable(x.dtype)]
    if op.operand_rule is not None or not dtypes:
        return _trace(op, inputs, fixed, slots, metas, lambda v: v, None)
    low = dtypes[0]
    graph, like, closed = _trace(op, inputs, fixed, slots, metas, lambda v: _as(v, low), None)
    if low not in _LOW:
        return graph, like, closed
    wanted = [a.meta.dtype for a in graph.outputs]
    return _trace(op, inputs, fixed, slots, metas, lambda v: _as(v, dt.float32), wanted)


def _trace(
    op: Op, inputs: Any, fixed: Any, slots: Any, metas: list[Any], convert: Callable[[Any], Any],
    wanted: Any,
) -> Any:  # fmt: skip
    like: list[Any] = []

    def run(*values: Any) -> list[Any]:
        supply = iter(values)
        given = map_entries(lambda _: next(supply), inputs)
        attrs = list(fixed)
        for slot in slots:
            attrs[slot] = convert(next(supply))
        if op.operand_rule is not None:
            outs = op.operand_rule(*op.merge(given, tuple(attrs)))
        else:
            assert op.decomposition is not None
            outs = op.decomposition(*op.merge(given, at.normalize(op, given, tuple(attrs), slots)))
        entries = (outs,) if len(op.outputs) == 1 else tuple(outs)
        like[:] = [tuple(tuple(e) if isinstance(e, list) else e for e in entries)]
        found = flat(like[0])
        return found if wanted is None else [_as(x, d) for x, d in zip(found, wanted)]

    graph, closed = transforms().trace(run, metas)
    return graph, map_entries(lambda _: True, like[0]), closed


def _as(value: Any, dtype: Any) -> Any:
    if dt.is_complex(dtype) and not dt.is_complex(value.dtype):
        dtype = dt.real_dtype(dtype)
    return value if value.dtype == dtype else call_op("cast", value, attrs=(dtype,))
