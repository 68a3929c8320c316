"""How the dtypes of a call's inputs meet: traits of the op say which do, and in what."""

from __future__ import annotations

from typing import Any

from phix.core import attrs as at
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype, tensor_from_scalar
from phix.core.dims import Dim
from phix.core.errors import DTypeError, PhixError, shown
from phix.core.later import call_op
from phix.core.op import Op
from phix.core.tensor import TensorBase
from phix.core.weak import WIDE, Weak, digits, strong, weak_kind


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
        # what converts a number takes it with all its digits
        made = _wide if op.name == "cast" else _strong
        return tuple(
            tuple(map(made, x)) if isinstance(x, tuple) else None if x is None else made(x)
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


def meet_in_no_int(inputs: tuple[Any, ...]) -> bool:
    """Whether two inputs are a uint64 and a signed int, of which no int dtype holds both."""
    dtypes = {x.dtype for x in inputs if isinstance(x, TensorBase)}
    return dt.uint64 in dtypes and not dtypes.isdisjoint(dt.SIGNED)


def compared(op: Op, inputs: tuple[Any, ...]) -> Any:
    """What compares a uint64 and a signed int by their values: one below 0 is below all of the
    other dtype, as -1 is below 0, and any other is a uint64."""
    signed = next(x for x in inputs if x.dtype != dt.uint64)
    below = call_op("less_than", signed, tensor_from_scalar(0, signed.dtype))
    signs = [tensor_from_scalar(0 if x.dtype == dt.uint64 else -1, dt.int64) for x in inputs]
    of_signs = call_op(op.name, *signs)
    return call_op("where", below, of_signs, call_op(op.name, *[_to(x, dt.uint64) for x in inputs]))


def _meeting_dtype(op: Op, values: list[Any]) -> Any:
    dtype = common_dtype(values)
    if dtype is not None and "promote_float" in op.traits:
        dtype = dt.float_of(dtype)
    if dtype is not None and not op.takes(dtype):
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
        if not isinstance(x, TensorBase) or isinstance(x, Weak):
            return False
        own = x.dtype
        if own is not dtype and dtype is not None:
            return False
        dtype = own
    if dtype is not None and not op.takes(dtype):
        return "promote" not in op.traits
    return "promote_float" not in op.traits or dtype is None or dt.is_differentiable(dtype)


def _widen(op: Op, dtype: Any) -> Any:
    """bool runs as int64 where an op takes ints but no bools (bool + 1 is int64)."""
    if dtype == dt.bool_ and dt.int64 in op.dtypes:
        return dt.int64
    names = ", ".join(d for d in dt.BY_NAME if dt.BY_NAME[d] in op.dtypes)
    way = "cast the input first (phix.ops.cast)"
    if dt.is_complex(dtype):  # a cast would drop a part
        way = ("take x.real, x.imag or phix.ops.abs(x) first (phix.numpy compares and "
               "sorts complex numbers, by their real parts first)")  # fmt: skip
    raise DTypeError(f"the op takes {names}; found {dtype}; {way}")


def _strong(value: Any) -> Any:
    if not isinstance(value, TensorBase):
        return _of_number(value, None)
    return strong(value)


def _wide(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return digits(value)
    kind = weak_kind(value)
    return _strong(value) if kind is None else _of_number(value, WIDE[kind])


def _of_number(value: Any, dtype: Any) -> Any:
    """A tensor of a Python scalar, or of an unknown dim, which is an int like others."""
    if isinstance(value, Dim):
        return call_op("full", attrs=((), value, dtype or dt.int64, None))
    return tensor_from_scalar(value, dtype)


def _to(value: Any, dtype: Any) -> Any:
    if not isinstance(value, TensorBase):
        return _of_number(value, dtype)
    if isinstance(value, Weak):
        return value.to_dtype(dtype)
    return value if value.dtype == dtype else call_op("cast", value, attrs=(dtype,))
