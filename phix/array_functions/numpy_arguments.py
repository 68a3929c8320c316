"""Arguments of NumPy's functions, as phix's ops take them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.conversion import holds_tensors, owned_tensor
from phix.core.errors import AttributeValueError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import TensorBase


def operand(value: Any) -> Any:
    """An operand of an op: a list is NumPy's array, of float64 where it holds Python floats."""
    if isinstance(value, (list, tuple)):
        return owned_tensor(value if holds_tensors(value) else np.asarray(value))
    return value


def tensor(value: Any) -> Any:
    """A tensor of what NumPy takes for an array."""
    value = operand(value)
    return value if isinstance(value, TensorBase) else owned_tensor(np.asarray(value))


def floating(value: Any) -> Any:
    """A tensor of floats; ints become float64, as in NumPy."""
    x = tensor(value)
    return x if dt.is_differentiable(x.dtype) else x.astype(dt.float64)


def with_dtype(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dt.as_dtype(dtype))


def refuse(**given: Any) -> None:
    """Leave a call to NumPy, or to an error, where one of these says something."""
    for name, value in given.items():
        if value is not None and value is not np._NoValue:
            raise NotOfferedError(f"{name}=")


def axis_of(axis: Any, rank: int) -> int:
    """An axis counted from the front."""
    number = operator.index(axis)
    if not -rank <= number < rank:
        raise AttributeValueError(f"axis {number} is out of range for {rank} axes")
    return number % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that ``axis`` names; all of them where it is None."""
    if axis is None:
        return tuple(range(rank))
    several = axis if isinstance(axis, Sequence) else (axis,)
    found = tuple(axis_of(a, rank) for a in several)
    if len(set(found)) < len(found):
        raise AttributeValueError(f"axis {axis} names an axis twice")
    return found


def named(functions: dict[str, Callable[..., Any]], module: Any) -> dict[Any, Callable[..., Any]]:
    """The functions by those of NumPy's of their name, as far as this NumPy has them."""
    return {getattr(module, n): f for n, f in functions.items() if hasattr(module, n)}
