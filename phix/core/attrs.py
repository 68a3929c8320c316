"""Attributes of an op call: converted to their declared types, hashable, canonical."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from phix.core.conversion import out_of_range
from phix.core.dims import Dim
from phix.core.dtypes import as_dtype, default_float, has_ints_alone, kind
from phix.core.errors import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    NumberRangeError,
    PhixError,
    described,
)
from phix.core.graph import Graph
from phix.core.op import Arg, Op
from phix.core.places import as_place
from phix.core.tensor import Tensor, TensorBase, Tracer, ValueTracer


def beneath(value: TensorBase) -> TensorBase:
    """The value under tracers that have one."""
    while isinstance(value, ValueTracer):
        value = value.value
    return value


# A dim is never negative, so a program cannot have a negative number in the place of one.
NO_NEGATIVE = "a size or attribute that is computed must be 0 or more"


def is_traced(value: TensorBase) -> bool:
    """Whether the value is not known: it is staged, or differs along a batch."""
    return isinstance(beneath(value), Tracer)


def as_dim(value: TensorBase, largest: bool = False, refusal: str = "") -> Any:
    """The size an int tensor stands for: its value, or an unknown dim while it is traced.

    Of a tensor that is mapped over a batch, the largest, if that is asked for; else an error.
    A program takes a negative one for 0, or raises an error that says the ``refusal``.
    """
    if kind(value.dtype) == "int":
        value = beneath(value)
        if isinstance(value, Tracer) and value.ndim == 0:
            return value.interpreter.as_dim(value, largest, refusal)
    return value.item()


def _int(value: Any) -> Any:
    if isinstance(value, Dim):
        return value
    if isinstance(value, TensorBase):
        value = as_dim(value, refusal=NO_NEGATIVE)
        if isinstance(value, Dim):
            return value
    if isinstance(value, float) and not value.is_integer():
        raise TypeError("not an integer")
    found = operator.index(int(value) if isinstance(value, float) else value)
    if not _LEAST <= found <= -_LEAST:
        raise OverflowError("no int64")
    return found


# Ints are of 64 bits; one that ends a range may lie one beyond the last.
_LEAST = int(np.iinfo(np.int64).min)
# What can be iterated over, but is no list of attributes: it has no order, or holds no numbers.
_NO_LISTS = (str, bytes, bytearray, dict, set, frozenset, type)


def _listed(value: Any) -> Any:
    """The entries of a list, a tuple, an array, or what else has them in an order."""
    if isinstance(value, _NO_LISTS):
        raise TypeError("not a list")
    return value


def _ints(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple and set(map(type, value)) == {int}:  # the usual case, made quick
        if not (min(value) >= _LEAST and max(value) <= -_LEAST):
            raise OverflowError("no int64")
        return value
    if isinstance(value, (TensorBase, np.ndarray)):
        if value.ndim > 1:
            raise TypeError("not a vector")
        if value.ndim and isinstance(value, TensorBase) and is_traced(value):
            return _computed_ints(value)
        value = np.asarray(value).tolist() if value.ndim else [value]
    if isinstance(value, (int, np.integer, Dim, float)):
        return (_int(value),)
    return tuple(_int(v) for v in _listed(value))


def _computed_ints(value: Any) -> tuple[Any, ...]:
    """The sizes in a vector that a program computes."""
    (count,) = value.meta.dims
    if not isinstance(count, int):
        raise TypeError("of an unknown number of ints")
    return tuple(as_dim(value[k], refusal=NO_NEGATIVE) for k in range(count))


def _float(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError("not a number")  # float("1e5") is one
    return float(value.item() if isinstance(value, TensorBase) else value)


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(map(_float, _listed(value))) if np.iterable(value) else (_float(value),)


def _bool(value: Any) -> bool:
    if isinstance(value, TensorBase):
        value = value.item()
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise TypeError("not a bool")
    return bool(value)


def _bools(value: Any) -> tuple[bool, ...]:
    return tuple(map(_bool, _listed(value)))


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a str")
    return value


def _scalar(value: Any) -> Any:
    if isinstance(value, (Tensor, np.ndarray)) and value.size != 1:
        raise ArgumentError(
            f"is one number here, found {value.dtype}{list(value.shape)}; write an op of two "
            "tensors, such as x ** y (phix.ops.elementwise_pow), x * y, phix.ops.maximum(x, y)"
        )
    if isinstance(value, (TensorBase, np.ndarray, np.generic)):
        value = value.item()
    if not isinstance(value, (bool, int, float, complex, Dim)):
        raise TypeError("not a scalar")
    if isinstance(value, int):
        float(value)  # an int that no float can hold is none of any tensor's
    return value


def _real(value: Any) -> Any:
    found = _scalar(value)
    if isinstance(found, complex):
        raise TypeError("not a real number")
    return found


def _graph(value: Any) -> Graph:
    if not isinstance(value, Graph):
        raise TypeError("not a graph")
    return value


def _object(value: Any) -> Any:
    hash(value)
    return value


def _dtype(value: Any) -> Any:
    return None if value is None else as_dtype(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "int64_t": _int,
    "size_t": _int,
    "float": _float,
    "double": _float,
    "bool": _bool,
    "str": _str,
    "int[]": _ints,
    "int64_t[]": _ints,
    "IntArray": _ints,
    "float[]": _floats,
    "double[]": _floats,
    "bool[]": _bools,
    "str[]": lambda v: tuple(map(_str, _listed(v))),
    "Scalar": _scalar,
    "Scalar[]": lambda v: tuple(map(_scalar, _listed(v))),
    "DataType": _dtype,
    "Place": as_place,
    "DataLayout": _str,
    "Graph": _graph,
    "Graph[]": lambda v: tuple(map(_graph, _listed(v))),
    "Object": _object,
}


# What None has a meaning for: the input's dtype, the default place, an object.
_MAY_BE_NONE = frozenset({"DataType", "Place", "Object"})
_INTS = frozenset(kind for kind, converter in _CONVERTERS.items() if converter is _ints)
# A Scalar holds any number; the table says where it must be a whole or a real one.
_OF_SCALARS = {"int": _int, "int64_t": _int, "bool": _bool, "float": _real, "double": _scalar}


def _converter(arg: Arg) -> Callable[[Any], Any]:
    kind = arg.type
    if kind.startswith("Scalar("):
        return _OF_SCALARS[kind[len("Scalar(") : -1]]
    return _CONVERTERS[kind]


@cache
def _converters(op: Op) -> tuple[Callable[[Any], Any], ...]:
    return tuple(map(_converter, op.attrs))


def convert(op: Op, attrs: tuple[Any, ...], tensors: Sequence[int] = ()) -> tuple[Any, ...]:
    """Each attribute as its declared type; those of the numbers ``tensors`` stay as they are.

    Raises:
        ArgumentError: a value that is not of the declared type.
    """
    converted: list[Any] = []
    for arg, converter, value in zip(op.attrs, _converters(op), attrs):
        if tensors and len(converted) in tensors:
            converted.append(value)
            continue
        if value is None and (arg.type in _MAY_BE_NONE or op.takes_none(arg)):
            converted.append(() if arg.type in _INTS else None)
            continue
        try:
            converted.append(converter(value))
        except ConcretizationError:
            raise
        except PhixError as error:
            raise type(error)(f"{op.name}: {arg.name}: {error}") from error
        except OverflowError as error:
            raise NumberRangeError(
                f"{op.name}: {arg.name} is of type {arg.type}, found {described(value)}, which is "
                "out of its range; write a smaller number"
            ) from error
        except Exception as error:  # whatever the value answers to what it is asked
            raise ArgumentError(
                f"{op.name}: {arg.name} is of type {arg.type}, found {described(value)}; the op is "
                f"{op.signature()}"
            ) from error
    return tuple(converted)


def normalize(
    op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], tensors: Sequence[int] = ()
) -> tuple[Any, ...]:
    """Attributes converted and canonical (axes non-negative, defaults resolved).

    Those of the numbers ``tensors`` are tensors, and what is made canonical of them is one too.
    """
    if not op.attrs:
        return ()
    attrs = convert(op, attrs, tensors)
    if op.normalize is None:
        return _with_default_float(op, attrs)
    metas = metas_of(inputs)
    try:
        return tuple(op.normalize(*op.merge(metas, attrs)))
    except PhixError as error:
        raise with_call(error, op, metas) from None


def _with_default_float(op: Op, attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dtypes that are None where the op's own default is a float: the default float of the call."""
    if not op.float_slots:
        return attrs
    return tuple(
        default_float() if a is None and i in op.float_slots else a for i, a in enumerate(attrs)
    )


def sized(
    op: Op, rule: Callable[..., Any], inputs: tuple[Any, ...], attrs: tuple[Any, ...]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs and attributes, what inputs say of sizes put into attributes."""
    converted = convert(op, attrs)
    try:
        return op.split(tuple(rule(*op.merge(inputs, converted))))
    except PhixError as error:
        metas = tuple(None if x is None or isinstance(x, tuple) else x.meta for x in inputs)
        raise with_call(error, op, metas) from None


def check_number(value: Any, dtype: np.dtype, name: str = "value") -> None:
    """Raise where a Scalar is none of the dtype that it is to have: a fraction may be cut off.

    Raises:
        DTypeError: it is complex, and the dtype is not.
        NumberRangeError: it is out of the range of an int dtype, or no number at all for it.
    """
    if isinstance(value, complex) and kind(dtype) != "complex":
        raise DTypeError(f"{name} {value} is complex, and is to be {dtype}; cast to a complex one")
    if not has_ints_alone(dtype) or isinstance(value, Dim):
        return
    limits = ml_dtypes.iinfo(dtype)
    if not limits.min <= value <= limits.max:  # NaN is not, either
        raise out_of_range(value, dtype)


def metas_of(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is known of a call's inputs: None of an absent one, a tuple of a list."""
    return tuple(
        tuple(v.meta for v in x) if isinstance(x, tuple) else None if x is None else x.meta
        for x in inputs
    )


def with_call(error: PhixError, op: Op, metas: tuple[Any, ...]) -> PhixError:
    """The error with the op, the metas it was called with and the user's line in front."""
    from phix.core.source import at_user_line

    if getattr(error, "located", False):
        if str(error).startswith((f"{op.name}(", f"{op.name}: ")):
            return error
        outer = type(error)(f"{op.name}: {error}")  # a composite whose inner op refused
        outer.located = True  # type: ignore[attr-defined]
        return outer
    shown = ", ".join(
        f"{a.name}: {list(m) if isinstance(m, tuple) else m}" for a, m in zip(op.inputs, metas)
    )
    located = type(error)(f"{op.name}({shown}){at_user_line()}: {error}")
    located.located = True  # type: ignore[attr-defined]
    return located
