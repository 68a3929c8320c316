"""Who answers a call: NumPy itself, or, where a tensor is among the arguments, phix.

So what is not being differentiated is NumPy's to the last bit, in its dtypes and with its arrays,
and what is goes by phix's functions of the same names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import owned_tensor
from phix.core.errors import UnknownNameError
from phix.core.tensor import TensorBase, Tracer
from phix.numpy.offered import in_double


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
    """A tree of tensors as NumPy's arrays and numbers, the caller's to write to; what is still
    being traced stays."""
    return pytrees.map(_array, value)


def _array(leaf: Any) -> Any:
    if isinstance(leaf, Tracer) or not isinstance(leaf, TensorBase):
        return leaf
    return np.array(leaf.numpy())[()]


def by_kind(name: str, of_numpy: Callable[..., Any], of_phix: Any) -> Callable[..., Any]:
    """A function that is NumPy's for arrays and phix's, with floats of float64, for tensors."""
    own = None if of_phix is None else in_double(name, of_phix)
    takes_floats = isinstance(of_numpy, np.ufunc) and _takes_floats_alone(of_numpy)

    @functools.wraps(of_numpy)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not (has_tensor(args) or has_tensor(kwargs)):
            return of_numpy(*args, **kwargs)
        if own is None:
            raise UnknownNameError(
                f"phix.autograd.numpy.{name} is NumPy's and takes no tensors, which phix has no "
                f"function of that name for; make it of others"
            )
        args, kwargs = _in_double(args, kwargs, takes_floats)
        return own(*args, **kwargs)

    return called


def _takes_floats_alone(ufunc: np.ufunc) -> bool:
    return "dd->d" in ufunc.types and "ll->l" not in ufunc.types


def _in_double(args: Any, kwargs: Any, takes_floats: bool) -> Any:
    """The arguments of a function of NumPy's, in which Python's floats beside ints and bools, which
    they meet in float32 else, are float64, as ``float`` is; ints too where ints are not taken."""
    arrays = (TensorBase, np.ndarray, np.generic)
    are_ints = not any(isinstance(v, arrays) and dt.is_differentiable(v.dtype)
                       for v in pytrees.leaves((args, kwargs)))  # fmt: skip

    def one(value: Any) -> Any:
        if value is float or value is complex:
            return np.dtype(value)
        if are_ints and type(value) is float:
            return np.float64(value)
        if are_ints and isinstance(value, list):
            return [one(v) for v in value]
        is_int = isinstance(value, TensorBase) and not dt.is_differentiable(value.dtype)
        return ops.cast(value, dt.float64) if takes_floats and are_ints and is_int else value

    return [one(v) for v in args], {k: one(v) for k, v in kwargs.items()}


def evaluated(function: Callable[..., Any], keeps_ints: bool = False) -> Callable[..., Any]:
    """A function of phix, which gives NumPy's arrays where it gets no tensor; of ints and bools
    among its values, floats of float64, as SciPy's."""
    names, is_value = _values_of(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        is_traced = has_tensor(args) or has_tensor(kwargs)
        wide = _wide_tensor if is_traced else _wide
        if not (keeps_ints or kwargs.get("exact")):  # which ask for ints, of ints
            own = (names[min(i, len(names) - 1)] for i in range(len(args)))
            args = tuple(wide(v, is_value[n]) for n, v in zip(own, args))
            others = is_value.get("kwargs", False)
            kwargs = {k: wide(v, is_value.get(k, others)) for k, v in kwargs.items()}
        found = function(*args, **kwargs)
        return found if is_traced else left(found)

    return called


def _values_of(function: Callable[..., Any]) -> tuple[list[str], dict[str, bool]]:
    """The names of the arguments, and whether they are values to compute with, not settings."""
    found = inspect.signature(function).parameters
    plain = {n for n, p in found.items() if p.annotation in (p.empty, "Any")} - _SETTINGS
    marked = {n for n, p in found.items() if "TensorLike" in str(p.annotation)}
    return list(found), {n: n in plain | marked for n in found}


_SETTINGS = {"axis", "trans"}


def _wide_tensor(value: Any, is_value: bool) -> Any:
    """Tensors and arrays of ints and bools in float64; numbers follow them."""
    is_array = is_value and isinstance(value, (TensorBase, np.ndarray, np.generic))
    return value.astype(np.float64) if is_array and value.dtype.kind in "iub" else value


def _wide(value: Any, is_value: bool) -> Any:
    """Numbers, arrays and lists of numbers in float64, as SciPy takes them; settings as they
    are."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.float64(value)
    if isinstance(value, list):
        value = np.asarray(value)
    is_number = isinstance(value, (bool, int, np.ndarray, np.generic))
    if is_value and is_number and np.asarray(value).dtype.kind in "iub":
        return np.asarray(value, np.float64)[()]
    return value
