"""Dtypes (NumPy's own dtype objects) and how they promote."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from phix.core.context import context
from phix.core.errors import DTypeError, shown

bool_ = np.dtype("bool")
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float8_e4m3fn, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
int4 = np.dtype(ml_dtypes.int4)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

BOOL = (bool_,)
SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOAT = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
GROUPS: dict[str, tuple[np.dtype, ...]] = {
    "bool": BOOL,
    "int": SIGNED + UNSIGNED,
    "float": FLOAT,
    "complex": COMPLEX,
}
ALL = BOOL + UNSIGNED + SIGNED + FLOAT + COMPLEX
# What tensors may hold and nothing computes with: it is moved, and cast to a dtype above.
STORAGE = (float8_e4m3fn, float8_e5m2, int4)
BY_NAME = {str(d): d for d in ALL + STORAGE}
_NAMES = {d: name for name, d in BY_NAME.items()}
NATIVE = frozenset(ALL + STORAGE)
# Dtypes that NumPy itself has not: its interfaces show raw bytes of them.
FOREIGN = frozenset((bfloat16, *STORAGE))

# By NumPy's letter; bfloat16, which NumPy has no letter for, is a float too.
_KINDS = {"b": "bool", "i": "int", "u": "int", "c": "complex"}

DEFAULT_INT = int64

_REAL_OF: dict[np.dtype, np.dtype] = {complex64: float32, complex128: float64}
_COMPLEX_OF: dict[np.dtype, np.dtype] = {
    float16: complex64,
    bfloat16: complex64,
    float32: complex64,
    float64: complex128,
}


_TEXT = "; make numbers of text and objects first (in pandas: x.astype('category').cat.codes)"
_DATES = "; make numbers of dates and times first: x.astype('int64')"
# What data of no dtype of phix become numbers by; the kinds are NumPy's.
_NUMBERS_OF = {"O": _TEXT, "U": _TEXT, "S": _TEXT, "T": _TEXT, "M": _DATES, "m": _DATES}


def as_dtype(value: Any) -> np.dtype:
    """The dtype named by a string, a NumPy dtype or scalar type, or a Python scalar type."""
    if isinstance(value, np.dtype) and value in NATIVE:
        return value
    if value is float:
        return default_float()
    if value is int:
        return DEFAULT_INT
    if value is complex:
        return default_complex()
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    # NumPy takes None for float64, and all that has a dtype for that: arrays, tensors, specs.
    has_one = hasattr(value, "shape") and not isinstance(value, (type, np.dtype))
    names_one = value is not None and not has_one
    try:
        dtype = np.dtype(value).newbyteorder("=") if names_one else None
    except Exception:  # of whatever the value is asked
        dtype = None
    if dtype is None or dtype not in NATIVE:
        is_dim = isinstance(value, int) and not isinstance(value, bool)
        dims = "; the dims of a shape go into one list, phix.zeros([2, 3])" if is_dim else ""
        raise DTypeError(
            f"{shown(value)} is not a dtype of phix; write one of {', '.join(BY_NAME)}{dims}"
            f"{_NUMBERS_OF.get(getattr(value, 'kind', ''), '')}"
        )
    return dtype


def kind(dtype: np.dtype) -> str:
    """``bool``, ``int``, ``float`` or ``complex``, or ``storage`` of what is no such number."""
    return "storage" if dtype in STORAGE else _KINDS.get(dtype.kind, "float")


def has_ints_alone(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" or dtype == int4


def is_float(dtype: np.dtype) -> bool:
    return kind(dtype) == "float"


def name_of(dtype: np.dtype) -> str:
    """``str(dtype)``, which NumPy puts together anew each time."""
    return _NAMES.get(dtype) or str(dtype)


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def is_differentiable(dtype: np.dtype) -> bool:
    """Whether tensors of this dtype carry derivatives (floats and complex numbers do)."""
    return dtype.kind not in "biu" and dtype != int4


def real_dtype(dtype: np.dtype) -> np.dtype:
    return _REAL_OF.get(dtype, dtype)


def accumulator_dtype(dtype: np.dtype) -> np.dtype:
    """What sums are computed in that are divided before they are rounded: float32 for 16 bits."""
    return float32 if dtype in (float16, bfloat16) else dtype


def summed_dtype(dtype: np.dtype) -> np.dtype:
    """What sums and products come in: bools and ints in int64, uint64 in itself."""
    return dtype if is_differentiable(dtype) or dtype == uint64 else int64


def complex_dtype(dtype: np.dtype) -> np.dtype:
    if is_complex(dtype):
        return dtype
    found = _COMPLEX_OF.get(dtype)
    return default_complex() if found is None else found


def alike(a: Any, b: Any) -> bool:
    """Whether two values are equal, which may be dtypes or None: to NumPy, float64 equals None."""
    return (a is None) == (b is None) and bool(a == b)


@cache
def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype two tensors meet in; float16 with bfloat16 gives float32."""
    if a == b:
        return a
    for stored, other in ((a, b), (b, a)):
        if stored in STORAGE:
            raise DTypeError(
                f"{stored} is a dtype of storage, which meets no other, found {other} beside it; "
                f"cast the tensor first, x.astype('{other if other not in STORAGE else 'float32'}')"
            )
    kinds = {kind(a), kind(b)}
    if kinds <= {"bool", "int"}:
        if {a, b} & set(UNSIGNED) and np.promote_types(a, b).kind == "f":
            return int64  # uint64 with a signed int: Paddle and PyTorch have no wider int either
        return np.dtype(np.promote_types(a, b))
    if "complex" in kinds:
        wide = any(real_dtype(d) == float64 for d in (a, b))
        return complex128 if wide else complex64
    if kinds == {"float"}:
        halves = {a, b} == {float16, bfloat16}
        return float32 if halves else np.dtype(np.promote_types(a, b))
    return a if is_float(a) else b


_ORDER = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def promote_weak(dtype: np.dtype, python_type: Any) -> np.dtype:
    """The dtype a tensor of ``dtype`` meets a Python scalar in; the scalar is weak."""
    if dtype in STORAGE or _ORDER[kind(dtype)] >= _ORDER[python_type.__name__]:
        return dtype
    return complex_dtype(dtype) if python_type is complex else default_dtype(python_type)


def default_float() -> np.dtype:
    """The dtype of Python's floats, and of ints where floats are wanted.

    What the user has set (``core.default_floats``) holds for the user's own calls. Inside ops it is
    float32, so that what an op is made of is the same under every default.
    """
    return float32 if context.is_inside else context.default_float


def default_complex() -> np.dtype:
    """The dtype of Python's complex numbers, whose parts are of the default float or wider."""
    return _COMPLEX_OF[default_float()]


def default_dtype(python_type: type) -> np.dtype:
    """The dtype of a Python scalar on its own."""
    if python_type is float:
        return default_float()
    if python_type is complex:
        return default_complex()
    return bool_ if python_type is bool else DEFAULT_INT


def float_of(dtype: np.dtype) -> np.dtype:
    """``dtype`` if it is a float or complex dtype, else the default float."""
    return dtype if is_differentiable(dtype) or dtype in STORAGE else default_float()
