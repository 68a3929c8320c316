"""Who answers a call: NumPy itself, or, where a tensor is among the arguments, phix.

So what is not being differentiated is NumPy's to the last bit, in its dtypes and with its arrays,
and what is goes by phix's functions of the same names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import UnknownNameError
from phix.core.tensor import TensorBase, Tracer


def has_tensor(value: Any) -> bool:
    """Whether there is a tensor in a value, or in lists, tuples and dicts of it."""
    if isinstance(value, TensorBase):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(has_tensor, value))
    return isinstance(value, dict) and any(map(has_tensor, value.values()))


def entered(value: Any) -> Any:
    """A tree of numbers and arrays as tensors: ints and Python's floats as float64."""
    return pytrees.map(_tensor, value)


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, TensorBase):
        return leaf
    array = np.asarray(leaf)
    return owned_tensor(array.astype(np.float64) if array.dtype.kind in "iub" else array)


def left(value: Any) -> Any:
    """A tree of tensors as NumPy's arrays and numbers; what is still being traced stays."""
    return pytrees.map(_array, value)


def _array(leaf: Any) -> Any:
    if isinstance(leaf, Tracer) or not isinstance(leaf, TensorBase):
        return leaf
    return leaf.numpy()[()]


def by_kind(name: str, of_numpy: Callable[..., Any], of_phix: Any) -> Callable[..., Any]:
    """A function that is NumPy's for arrays and phix's for tensors."""

    @functools.wraps(of_numpy)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not (has_tensor(args) or has_tensor(kwargs)):
            return of_numpy(*args, **kwargs)
        if of_phix is None:
            raise UnknownNameError(
                f"phix.autograd.numpy.{name} is NumPy's and takes no tensors, which phix has no "
                f"function of that name for; make it of others"
            )
        return of_phix(*args, **kwargs)

    return called


def evaluated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of phix, which gives NumPy's arrays where it gets no tensor."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if has_tensor(args) or has_tensor(kwargs):
            return function(*args, **kwargs)
        return left(function(*map(_wide, args), **{k: _wide(v) for k, v in kwargs.items()}))

    return called


def _wide(value: Any) -> Any:
    """Numbers and lists of numbers in float64, as SciPy takes them; settings as they are."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.float64(value)
    return np.asarray(value) if isinstance(value, list) else value
