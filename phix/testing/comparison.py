"""Values against values: the tolerances of dtypes, and what is said of the first that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from phix.core import dtypes as dt

Tolerance = tuple[float, float]  # relative, absolute

# By the coarsest of the dtypes that take part.
TOLERANCES: dict[str, Tolerance] = {
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
    "float32": (5e-6, 5e-6),
    "float64": (1e-10, 1e-12),
    "complex64": (1e-5, 1e-5),
    "complex128": (1e-10, 1e-12),
}
_COARSENESS = {dt.bfloat16: 0, dt.float16: 1, dt.float32: 2, dt.complex64: 2}
# Of a float dtype the bits behind the point, and the exponent of the smallest normal number.
_FORMS = {
    "bfloat16": (7, -126),
    "float16": (10, -14),
    "float32": (23, -126),
    "float64": (52, -1022),
}


class CheckFailed(AssertionError):
    """A check of ``phix.testing`` does not hold.

    The message says which check, for which inputs, and of the first element that differs what was
    expected, what was found, and how far apart they are.

    >>> import phix
    >>> try:
    ...     phix.testing.check_op(lambda i: i + 1, 2, reference=lambda i: i)
    ... except phix.testing.CheckFailed as error:
    ...     print(error)
    check_op, values, of <lambda>(i: int64[]): output 0: expected 2 (the reference), found 3
    """


@contextmanager
def about(subject: object) -> Iterator[None]:
    """What fails inside says what it is about."""
    __tracebackhide__ = True
    try:
        yield
    except CheckFailed as error:
        raise CheckFailed(f"{subject}: {error}") from error
    except Exception as error:
        raise CheckFailed(f"{subject}: {type(error).__name__}: {error}") from error


def require(holds: object, text: str) -> None:
    """Fail, saying ``text``, unless it holds."""
    __tracebackhide__ = True
    if not holds:
        raise CheckFailed(text)


def tolerance_of(dtypes: Iterable[np.dtype], own: Mapping[str, float] | None = None) -> Tolerance:
    """Relative and absolute error allowed where these dtypes take part; ``own`` ones come first."""
    inexact = [d for d in dtypes if dt.is_differentiable(d)]
    if not inexact:
        return 0.0, 0.0
    name = str(min(inexact, key=lambda d: _COARSENESS.get(d, 3)))
    if own is not None and name in own:
        return float(own[name]), float(own[name])
    return TOLERANCES[name]


def ulp(value: complex, dtype: np.dtype) -> float:
    """The distance from ``value`` to the next number of its float dtype, or of its parts'."""
    bits, least = _FORMS[str(dt.real_dtype(dtype))]
    size = abs(value)
    exponent = math.frexp(size)[1] - 1 if 0 < size < math.inf else least
    return math.ldexp(1.0, max(exponent, least) - bits)


def close(
    found: Sequence[Any],
    wanted: Sequence[Any],
    tolerance: Tolerance,
    by: str = "the reference",
) -> None:
    """Tensors against tensors or arrays, in the dtypes of ``found``; ``by`` whom they are wanted.

    Floats agree up to ``absolute + relative * |wanted|``, NaN with NaN; all else is the same.

    Raises:
        CheckFailed: their number, a shape or an element is not the wanted one.
    """
    __tracebackhide__ = True
    require(len(found) == len(wanted), f"{len(found)} outputs, expected {len(wanted)} ({by})")
    for number, (f, w) in enumerate(zip(found, wanted)):
        actual, expected = np.asarray(f), np.asarray(w)
        require(
            actual.shape == expected.shape,
            f"output {number} has shape {list(actual.shape)}, expected {list(expected.shape)} "
            f"({by})",
        )
        close_arrays(actual, expected, tolerance, f"output {number}", by)


def same_dtypes(
    found: Sequence[Any], wanted: Sequence[Any], is_wide: bool, by: str = "the reference"
) -> None:
    """The dtypes of tensors against those of arrays and numbers, outputs beyond the last of either
    left aside.

    Floats and complex numbers may be of any size, unless ``is_wide``: what is wanted was computed
    in the dtypes of the inputs. Python's numbers have no dtype: the kind must be the same.

    Raises:
        CheckFailed: one is another.
    """
    __tracebackhide__ = True
    for number, (f, w) in enumerate(zip(found, wanted)):
        expected = np.asarray(w).dtype
        is_of_any_size = not hasattr(w, "dtype") or (dt.is_differentiable(expected) and not is_wide)
        same = dt.kind(f.dtype) == dt.kind(expected) if is_of_any_size else f.dtype == expected
        require(same, f"output {number} is {f.dtype}, expected {expected} ({by})")


def close_arrays(
    found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance, what: str, by: str
) -> None:
    """Arrays of one shape; see :func:`close`."""
    __tracebackhide__ = True
    dtype = found.dtype
    if not dt.is_differentiable(dtype):
        _refuse(found != wanted, found, wanted, what, by, str, "")
        return
    relative, absolute = tolerance
    with np.errstate(all="ignore"):
        actual, expected = widest(found), widest(np.asarray(wanted).astype(dtype))
        finite = np.isfinite(actual) & np.isfinite(expected)
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        near = finite & (np.abs(actual - expected) <= absolute + relative * np.abs(expected))
    wrong = ~(same | near)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        shown = partial(_digits, count=_digits_of(relative))
        apart = _apart(actual[at], expected[at], dtype, tolerance)
        _refuse(wrong, actual, expected, what, by, shown, apart)


def _apart(found: Any, wanted: Any, dtype: np.dtype, tolerance: Tolerance) -> str:
    """How far two numbers are apart, and how far they may be."""
    distance, unit = float(abs(found - wanted)), ulp(max(abs(found), abs(wanted)), dtype)
    if not math.isfinite(distance):
        return ""
    allowed = tolerance[1] + tolerance[0] * float(abs(wanted))
    return f"; {distance / unit:.3g} ulp of {dtype} apart, {allowed / unit:.3g} allowed"


def _digits_of(relative: float) -> int:
    """As many as are looked at, and some more."""
    return 17 if relative < 1e-14 else max(9, 3 - math.floor(math.log10(relative)))


def _digits(value: Any, count: int) -> str:
    return f"{value:.{count}g}"


def _refuse(
    wrong: Any, found: Any, wanted: Any, what: str, by: str, shown: Callable[[Any], str], apart: str
) -> None:
    __tracebackhide__ = True
    wrong = np.asarray(wrong)
    count = int(wrong.sum())
    if not count:
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    element = f", element {list(at)}" if at else ""
    others = f"; {count} of {wrong.size} elements differ" if wrong.size > 1 else ""
    here = f"expected {shown(wanted[at])} ({by}), found {shown(found[at])}"
    raise CheckFailed(f"{what}{element}: {here}{apart}{others}")


def widest(array: np.ndarray) -> np.ndarray:
    """The same numbers in complex128 or float64."""
    return array.astype(np.complex128 if dt.is_complex(array.dtype) else np.float64)
