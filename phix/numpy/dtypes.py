"""Dtypes as NumPy's names have them, and what is asked of them."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from phix import ops
from phix.array_functions.numpy_arguments import default_float, tensor
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype, to_tensor
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError
from phix.core.places import as_place
from phix.core.tensor import TensorBase


class ScalarType:
    """A dtype that is called to make a tensor of it: ``phix.numpy.float32(1.5)``.

    It equals NumPy's dtype and scalar type, hashes as the dtype does, and stands wherever a dtype
    is asked for.

    >>> import phix.numpy as np
    >>> np.float32(1.5).dtype == np.float32, np.zeros(2, np.int8).dtype == "int8"
    (True, True)
    """

    def __init__(self, dtype: np.dtype, name: str = "") -> None:
        self.dtype = dtype
        self.__name__ = name or str(dtype)

    def __call__(self, value: Any = 0) -> Any:
        if isinstance(value, int) and dt.kind(self.dtype) == "int":  # a wide one is refused
            return to_tensor(value, self.dtype)
        return tensor(value).astype(self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScalarType):
            return self.dtype == other.dtype
        try:
            return self.dtype == other
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"phix.numpy.{self.__name__}"

    def __reduce__(self) -> Any:
        return ScalarType, (self.dtype, self.__name__)


SCALARS: dict[str, Any] = {
    **{name: ScalarType(dtype) for name, dtype in dt.BY_NAME.items()},
    "bool_": ScalarType(dt.bool_, "bool_"), "int_": ScalarType(dt.DEFAULT_INT),
    "uint": ScalarType(dt.uint64), "single": ScalarType(dt.float32),
    "double": ScalarType(dt.float64), "csingle": ScalarType(dt.complex64),
    "cdouble": ScalarType(dt.complex128), "half": ScalarType(dt.float16),
}  # fmt: skip
# NumPy's classes of dtypes, for ``issubdtype``.
ABSTRACT: dict[str, Any] = {
    n: getattr(np, n)
    for n in ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact",
              "floating", "complexfloating")
}  # fmt: skip
_KINDS: dict[str, tuple[np.dtype, ...]] = {
    "bool": dt.BOOL,
    "signed integer": dt.SIGNED,
    "unsigned integer": dt.UNSIGNED,
    "integral": dt.SIGNED + dt.UNSIGNED,
    "real floating": dt.FLOAT,
    "complex floating": dt.COMPLEX,
    "numeric": dt.SIGNED + dt.UNSIGNED + dt.FLOAT + dt.COMPLEX,
}


def as_dtype(value: Any, default: np.dtype | None = None) -> Any:
    """The dtype that is named; ``default`` where none is."""
    if value is None:
        return default
    return value.dtype if isinstance(value, ScalarType) else dt.as_dtype(value)


def dtype(dtype: Any, align: bool = False, copy: bool = False) -> np.dtype:
    """The dtype of that name or type; Python's float is the default float.

    >>> import phix.numpy as np
    >>> np.dtype("float64"), np.dtype(float)
    (dtype('float64'), dtype('float32'))
    """
    return as_dtype(dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, "bool", "signed integer", "unsigned integer",
    "integral", "real floating", "complex floating", "numeric", or one of a tuple of these."""
    own = as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_of(own, k) for k in kinds)


def _is_of(own: np.dtype, kind: Any) -> bool:
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise AttributeValueError(
                f"isdtype: kind is one of {', '.join(_KINDS)}, or a dtype; found {kind!r:.80}"
            )
        return own in _KINDS[kind]
    if isinstance(kind, tuple):
        raise ArgumentError("isdtype: a tuple of kinds holds no tuples")
    return bool(own == as_dtype(kind))


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is one of a class of NumPy's: ``issubdtype(x.dtype, np.floating)``."""
    first = arg1 if isinstance(arg1, type) else as_dtype(arg1)
    second = arg2 if isinstance(arg2, type) else as_dtype(arg2)
    if first == dt.int4:
        return second in (np.generic, np.number, np.integer, np.signedinteger) or second == first
    if first in dt.FOREIGN:
        return second in (np.generic, np.number, np.inexact, np.floating) or second == first
    return bool(np.issubdtype(first, second))


def _of(value: Any) -> Any:
    """What an array, a dtype or a Python number stands for where dtypes meet."""
    if isinstance(value, (TensorBase, bool, int, float, complex)) and not hasattr(value, "dtype"):
        return value
    if isinstance(value, TensorBase):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return tensor(value)
    return tensor(np.empty((), as_dtype(value)))


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype in which arrays, dtypes and numbers meet; Python's numbers are weak."""
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: at least one array or dtype must be given")
    return common_dtype([_of(v) for v in arrays_and_dtypes])


def promote_types(type1: Any, type2: Any, /) -> np.dtype:
    """The dtype in which tensors of two dtypes meet."""
    return dt.promote(as_dtype(type1), as_dtype(type2))


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a dtype, or that of an array, may be cast so: safe is where :func:`promote_types`
    goes, no value lost."""
    is_array = hasattr(from_, "dtype") and hasattr(from_, "shape") and not isinstance(from_, type)
    own = from_.dtype if is_array else as_dtype(from_)
    target = as_dtype(to)
    is_stored = own in dt.STORAGE or target in dt.STORAGE
    if dt.bfloat16 in (own, target) and not is_stored and casting == "safe":
        return dt.promote(own, target) == target
    return bool(np.can_cast(own, target, casting))  # type: ignore[arg-type]


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array in another dtype, a copy unless ``copy`` is False and it has that dtype; of complex
    numbers as real ones the real parts."""
    array, wanted = tensor(x), as_dtype(dtype, default_float())
    has_it = array.dtype == wanted
    found = array if has_it and not copy else ops.assign(array) if has_it else array.astype(wanted)
    place = as_place(device)
    return found if place is None else found.to(place)


class finfo:
    """The limits of a float dtype, or of the parts of a complex one, as Python's numbers.

    >>> import phix.numpy as np
    >>> np.finfo(np.float32).bits, np.finfo("float16").max
    (32, 65504.0)
    """

    def __init__(self, dtype: Any) -> None:
        own = _own_dtype(dtype)
        if not dt.is_differentiable(own):
            raise DTypeError(f"finfo takes floats and complex numbers, found {own}; use iinfo")
        real = dt.real_dtype(own)
        held: Any = ml_dtypes.finfo(real) if real in dt.FOREIGN else np.finfo(real)
        self.dtype = real
        self.bits = int(held.bits)
        for name in ("eps", "epsneg", "max", "min", "resolution", "smallest_normal",
                     "smallest_subnormal", "tiny"):  # fmt: skip
            setattr(self, name, float(getattr(held, name)))
        for name in ("nmant", "nexp", "precision", "maxexp", "minexp"):
            setattr(self, name, int(getattr(held, name)))

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype}, min={self.min}, max={self.max}, eps={self.eps})"  # type: ignore[attr-defined]


class iinfo:
    """The limits of an int dtype.

    >>> import phix.numpy as np
    >>> np.iinfo(np.int8).min, np.iinfo("uint8").max
    (-128, 255)
    """

    def __init__(self, type: Any) -> None:
        own = _own_dtype(type)
        if not dt.has_ints_alone(own):
            raise DTypeError(f"iinfo takes ints, found {own}; use finfo")
        held = ml_dtypes.iinfo(own)
        self.dtype, self.bits = own, int(held.bits)
        self.min, self.max = int(held.min), int(held.max)

    def __repr__(self) -> str:
        return f"iinfo(dtype={self.dtype}, min={self.min}, max={self.max})"


def _own_dtype(value: Any) -> Any:
    has_one = hasattr(value, "dtype") and hasattr(value, "shape")
    return value.dtype if has_one else as_dtype(value)


def isscalar(element: Any) -> bool:
    """Whether it is a Python number, a scalar of NumPy, or a tensor without axes."""
    return bool(np.isscalar(element)) or (isinstance(element, TensorBase) and not element.ndim)


def iterable(y: Any) -> bool:
    """Whether it can be iterated over."""
    return bool(np.iterable(y)) if not isinstance(y, TensorBase) else y.ndim > 0


CONSTANTS: dict[str, Any] = {
    "pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None,
    "euler_gamma": 0.577215664901532860606512090082402431,
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {
    "isdtype": isdtype, "issubdtype": issubdtype, "result_type": result_type,
    "promote_types": promote_types, "can_cast": can_cast, "astype": astype, "isscalar": isscalar,
    "iterable": iterable,
}  # fmt: skip
