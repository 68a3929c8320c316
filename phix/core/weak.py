"""Python numbers that are arguments of transformed functions, and stay weak there.

A number beside a tensor takes the tensor's dtype, with all its digits. What stands for one that is
an argument has the digits of a Python number, those of int64, float64 or complex128, and shows the
default dtype, which it has where it meets no tensor. Beside a tensor of ints an int is an int64,
since it may not fit into a narrower one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core import context
from phix.core import dtypes as dt
from phix.core.dims import Dim
from phix.core.later import call_op, method_of
from phix.core.meta import MetaTensor
from phix.core.tensor import Tensor, TensorBase, ValueTracer, tensor_of
from phix.core.unknown_sizes import UnknownSize

WIDE: dict[type, Any] = {bool: dt.bool_, int: dt.int64, float: dt.float64, complex: dt.complex128}
_ORDER = list(WIDE)
# Python's operators on numbers, by the names of their methods.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def weak_kind(value: Any) -> type | None:
    """What a Python number is, also of a class of one's own, or what stands for one; None of a
    tensor, or NumPy's."""
    if isinstance(value, Weak):
        return value.kind
    if isinstance(value, Dim):
        return int
    if isinstance(value, (TensorBase, np.generic)):
        return None
    return next((kind for kind in WIDE if isinstance(value, kind)), None)


class Weak(TensorBase):
    """What stands for a Python number; ``value`` is the tensor with its digits.

    Python's operators on it and other numbers give one again, as they give numbers; all else takes
    it as it takes a Python number.
    """

    __slots__ = ()

    value: Any
    kind: type

    @property
    def dtype(self) -> np.dtype:
        return dt.default_dtype(self.kind)

    @property
    def meta(self) -> MetaTensor:
        return self.value.meta.with_dtype(self.dtype)

    @property
    def shape(self) -> tuple[()]:
        return ()

    def numpy(self) -> np.ndarray:
        return self.value.numpy().astype(self.dtype)

    def strong(self) -> Any:
        """The tensor that a Python number is where it meets no other."""
        return self.to_dtype(self.dtype)

    def to_dtype(self, dtype: Any) -> Any:
        """The tensor of that dtype, with all digits that it has."""
        return _cast(self.value, dtype)

    # -- what numbers have -------------------------------------------------------------------
    def _as_number(self) -> Any:
        """The digits, of a bool those of an int."""
        return _cast(self.value, dt.int64) if self.kind is bool else self.value

    def made(self, value: Any) -> Any:
        """The number with these digits that an operator makes of this one."""
        return weak(value)

    def __neg__(self) -> Any:
        return self.made(-self._as_number())

    def __pos__(self) -> Any:
        return self.made(self._as_number())

    def __abs__(self) -> Any:
        return self.made(abs(self._as_number()))

    def __invert__(self) -> Any:
        return self.made(~self.value)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.made(_cast(round(self.value), dt.int64))
        return self.made(round(self.value, digits))

    def __trunc__(self) -> int:
        return math.trunc(float(self))

    @property
    def real(self) -> Any:
        return weak(self.value.real) if self.kind is complex else self

    @property
    def imag(self) -> Any:
        return weak(self.value.imag) if self.kind is complex else self.kind()

    def conjugate(self) -> Any:
        return weak(self.value.conj()) if self.kind is complex else self

    conj = conjugate
    __hash__ = TensorBase.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of numbers alone give float64, as they do of Python's."""
        base: Any = TensorBase
        return base.__array_ufunc__(self, ufunc, method, *_as_numpy_has(inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        base: Any = TensorBase
        return base.__array_function__(self, function, types, _as_numpy_has(args), kwargs)


class WeakNumber(Weak, ValueTracer):
    """A Python number that is being traced."""

    __slots__ = ("kind",)

    def __init__(self, kind: type, value: Any) -> None:
        self.interpreter, self.value, self.kind = value.interpreter, value, kind

    def __repr__(self) -> str:
        return f"Tracer<{self.interpreter.name}>(a Python {self.kind.__name__})"

    def concrete(self, asked: str) -> Tensor:
        return self.value.concrete(asked)


class NumberOfSize(WeakNumber):
    """A number made of an unknown size, or the size itself.

    Where the user's code may take the size for a number, it is refused the class of this one, its
    text and its hash, as those of the size are.
    """

    __slots__ = ("is_itself", "made_of")

    def __init__(self, made_of: UnknownSize, value: Any, is_itself: bool = False) -> None:
        super().__init__(_kind_of(value), value)
        self.made_of, self.is_itself = made_of, is_itself

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        self.made_of.refuse_outside("isinstance")
        return type(self)

    def __hash__(self) -> int:
        self.made_of.refuse_outside("a hash")
        return super().__hash__()

    def __repr__(self) -> str:
        self.made_of.refuse_outside("a text")
        return super().__repr__()

    def __str__(self) -> str:
        self.made_of.refuse_outside("a text")
        return super().__str__()

    def __format__(self, spec: str) -> str:
        self.made_of.refuse_outside("a text")
        return super().__format__(spec)

    def made(self, value: Any) -> Any:
        return NumberOfSize(self.made_of, value)

    def to_dtype(self, dtype: Any) -> Any:
        if self.is_itself:  # some have more digits than an int64
            return call_op("full", attrs=((), self.made_of, dtype, None))
        return super().to_dtype(dtype)


class ProbedNumber(WeakNumber):
    """A number that is of its default dtype until more of its digits are asked for, which
    ``note`` is called for: what is made of it is to be made anew with them, then."""

    __slots__ = ("narrow", "note")

    def __init__(self, kind: type, narrow: Any, note: Callable[[], None]) -> None:
        self.interpreter, self.kind, self.narrow, self.note = narrow.interpreter, kind, narrow, note

    @property
    def value(self) -> Any:  # type: ignore[override]
        self.note()
        return _cast(self.narrow, WIDE[self.kind])

    @property
    def meta(self) -> MetaTensor:
        return self.narrow.meta

    def to_dtype(self, dtype: Any) -> Any:
        return self.narrow if dtype == self.narrow.dtype else super().to_dtype(dtype)


class KnownNumber(Weak, Tensor):
    """A Python number whose value is known where it is used, as that of an argument that no lane
    of a ``vmap`` has to itself."""

    __slots__ = ("kind",)

    def __init__(self, kind: type, data: Any) -> None:
        super().__init__(data)
        self.kind = kind

    @property
    def value(self) -> Tensor:
        return tensor_of(self.data)

    @property
    def key(self) -> tuple[Any, ...]:
        raise AttributeError("key")  # it depends on what the number meets


def _cast(value: Any, dtype: Any) -> Any:
    return value if value.dtype == dtype else call_op("cast", value, attrs=(dtype,))


def weak(value: Any) -> Weak:
    """The number that a single value with the digits of a Python number stands for."""
    kind = _kind_of(value)
    return KnownNumber(kind, value.data) if isinstance(value, Tensor) else WeakNumber(kind, value)


def _kind_of(value: Any) -> type:
    return next(k for k, dtype in WIDE.items() if value.dtype == dtype)


@method_of(UnknownSize)
def as_number(self: Any, asked: str) -> Weak:
    """What stands for an unknown size among Python's numbers, while a function is traced.

    Raises:
        UnknownDimError: none is traced.
    """
    if context.runs_at_once():
        raise self.no_value(asked)
    return NumberOfSize(self, call_op("full", attrs=((), self, dt.int64, None)), is_itself=True)


def known(kind: type, number: Any) -> KnownNumber:
    """What stands for a float or complex number that is at hand."""
    return KnownNumber(kind, np.asarray(number, WIDE[kind]))


def digits(value: Any) -> Any:
    """The tensor with the digits of what stands for a number; else the value itself."""
    return value.value if isinstance(value, Weak) else value


def strong(value: Any) -> Any:
    """The tensor that what stands for a number is on its own; else the value itself."""
    return value.strong() if isinstance(value, Weak) else value


def _as_numpy_has(inputs: Any) -> Any:
    """Arguments of a function of NumPy, with all digits of numbers that meet no floats."""
    given = list(_leaves(inputs))
    has_floats = any(
        (isinstance(x, TensorBase) and not isinstance(x, Weak))
        or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "iub")
        for x in given
    )  # fmt: skip
    return inputs if has_floats else _with_digits(inputs)


def _leaves(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _leaves(entry)
    else:
        yield value


def _with_digits(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_with_digits, value))
    return digits(value)


def _pair(name: str, x: Any, y: Any) -> Sequence[Any]:
    """Two operands of an operator on numbers, in the digits that Python computes with."""
    kinds = [weak_kind(v) for v in (x, y)]
    most = max(map(_ORDER.index, kinds))  # type: ignore[arg-type]
    is_negative = name == "pow" and type(y) is int and y < 0
    if name == "truediv" or is_negative:
        most = max(most, _ORDER.index(float))
    if most <= _ORDER.index(int):
        return digits(x), digits(y)
    dtype = WIDE[_ORDER[most]]
    return [v.to_dtype(dtype) if isinstance(v, Weak) else v for v in (x, y)]


def _method(name: str, operation: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    special = f"__{'r' * is_reflected}{name}__"

    def method(self: Weak, other: Any) -> Any:
        pair = (other, self) if is_reflected else (self, other)
        if weak_kind(other) is not None:
            of_size = next((v for v in pair if type(v) is NumberOfSize), self)
            return of_size.made(operation(*_pair(name, *pair)))
        if isinstance(other, (np.ndarray, np.generic)) and other.dtype.kind in "iub":
            return operation(*map(digits, pair))  # as NumPy has it, which makes floats of its ints
        return getattr(TensorBase, special)(self, other)

    method.__name__ = special
    return method


for _name, _operation in (_OPERATORS | _COMPARISONS).items():
    for _is_reflected in (False, True) if _name in _OPERATORS else (False,):
        _made = _method(_name, _operation, _is_reflected)
        setattr(Weak, _made.__name__, _made)
