"""Python numbers that are arguments of traced functions, and stay weak there.

A float or complex number beside a tensor takes the tensor's dtype, with all its digits. While a
function is traced its value is not known, so what stands for it has the digits of a Python number,
float64 or complex128, and shows the default dtype, which it has where it meets no tensor. Ints and
bools need nothing of the kind: as int64 and bool they lose nothing, and change no float's dtype.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.dims import Dim
from phix.core.later import call_op
from phix.core.meta import MetaTensor
from phix.core.tensor import Tensor, TensorBase, ValueTracer

WIDE: dict[type, Any] = {float: dt.float64, complex: dt.complex128}
_NUMBERS = (bool, int, float, complex)
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def weak_kind(value: Any) -> type | None:
    """What a Python number is, also of a class of one's own, or one that is being traced; None of
    a tensor, or NumPy's."""
    if type(value) is WeakNumber:
        return value.kind
    if isinstance(value, Dim):
        return int
    if isinstance(value, (TensorBase, np.generic)):
        return None
    return next((kind for kind in _NUMBERS if isinstance(value, kind)), None)


class WeakNumber(ValueTracer):
    """A Python float or complex number that is being traced: ``value`` has its digits.

    Python's operators on it and other numbers give one again, as they give numbers; all else takes
    it as it takes a Python number.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: type, value: Any) -> None:
        self.interpreter, self.value, self.kind = value.interpreter, value, kind

    def __repr__(self) -> str:
        return f"Tracer<{self.interpreter.name}>(a Python {self.kind.__name__})"

    @property
    def dtype(self) -> np.dtype:
        return dt.default_dtype(self.kind)

    @property
    def meta(self) -> MetaTensor:
        return self.value.meta.with_dtype(self.dtype)

    def concrete(self, asked: str) -> Tensor:
        return self.value.concrete(asked)

    def numpy(self) -> np.ndarray:
        return super().numpy().astype(self.dtype)

    def strong(self) -> Any:
        """The tensor that a Python number is where it meets no other."""
        return self.to_dtype(self.dtype)

    def to_dtype(self, dtype: Any) -> Any:
        """The tensor of that dtype, with all digits that it has."""
        wide = self.value
        return wide if wide.dtype == dtype else call_op("cast", wide, attrs=(dtype,))

    # -- what numbers have -------------------------------------------------------------------
    def __neg__(self) -> Any:
        return weak(-self.value)

    def __abs__(self) -> Any:
        return weak(abs(self.value))

    @property
    def real(self) -> Any:
        return self if self.kind is float else weak(self.value.real)

    @property
    def imag(self) -> Any:
        return 0.0 if self.kind is float else weak(self.value.imag)

    def conjugate(self) -> Any:
        return self if self.kind is float else weak(self.value.conj())

    conj = conjugate
    __hash__ = TensorBase.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of numbers alone give float64, as they do of Python's."""
        if all(weak_kind(x) is not None for x in inputs):
            inputs = tuple(map(_wide, inputs))
        base: Any = TensorBase
        return base.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)


def _wide(value: Any) -> Any:
    return value.value if type(value) is WeakNumber else value


def weak(value: Any) -> Any:
    """The number that a single value, with the digits of a Python number, stands for: a Python
    number where it is known, else a tracer. What is no such number, a bool say, is itself."""
    kind = next((k for k, dtype in WIDE.items() if value.dtype == dtype), None)
    if kind is None:
        return value
    return value.item() if isinstance(value, Tensor) else WeakNumber(kind, value)


def _method(name: str, is_reflected: bool) -> Callable[..., Any]:
    special = f"__{'r' * is_reflected}{name}__"
    operation = getattr(operator, name)

    def method(self: WeakNumber, other: Any) -> Any:
        if weak_kind(other) is None:
            return getattr(TensorBase, special)(self, other)
        pair: Sequence[Any] = (self.value, _wide(other))
        return weak(operation(*reversed(pair) if is_reflected else pair))

    method.__name__ = special
    return method


for _name in (*_OPERATORS, *_COMPARISONS):
    for _is_reflected in (False, True) if _name in _OPERATORS else (False,):
        _made = _method(_name, _is_reflected)
        setattr(WeakNumber, _made.__name__, _made)
