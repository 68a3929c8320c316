"""Outputs that a kernel leaves as it gets them: marks in their memory, and whether they stay.

What nobody writes holds whatever was there before. So the first and the last element of an output
are marked, or under ``PHIX_VERIFY`` all of them, by what no kernel computes: one NaN of many, a
bool that is neither, one int of billions. Ints of few bits have no such number; they are looked at
under ``PHIX_VERIFY``, where all of them must have kept it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import stages

_WORDS = {n: np.dtype(f"uint{8 * n}") for n in (1, 2, 4, 8)}
_NUMBERS = {1: 0xA5, 2: 0xA5A5, 4: 0xA5A5A5A5, 8: 0xA5A5A5A5A5A5A5A5}
_NANS = {2: 0xFFA5, 4: 0xFFA5A5A5, 8: 0xFFF5A5A5A5A5A5A5}


def _form(dtype: np.dtype) -> tuple[np.dtype, Any, bool]:
    """The unsigned ints that a dtype is marked as, the mark, and whether it tells for sure."""
    real = dt.real_dtype(dtype)
    size = real.itemsize
    mark = (_NANS if dt.is_float(real) else _NUMBERS)[size]
    return _WORDS[size], _WORDS[size].type(mark), dt.is_float(real) or size >= 4 or real.kind == "b"


_FEW = 4  # so many ints of few bits may all be what they were marked as
_FORMS = {dtype: _form(dtype) for dtype in dt.NATIVE}


Marks = list[tuple[np.ndarray, np.generic, bool]]
# Whether all elements are marked; read once, as calls are too short for more.
_is_thorough = stages.is_verifying()


def mark(outputs: Iterable[Any]) -> Marks:
    """Mark outputs, those that are arrays in one piece; gives what :func:`problem` looks at."""
    made = []
    for out in outputs:
        if type(out) is np.ndarray and out.size and out.flags.carray:
            words, number, is_sure = _FORMS[out.dtype]
            flat = out.reshape(-1).view(words)
            if _is_thorough:
                flat[:] = number
            elif is_sure:
                flat[0] = flat[-1] = number
            else:
                continue
            made.append((flat, number, is_sure))
    return made


def problem(marks: Marks) -> str:
    """What was left of the outputs; nothing if all seems well."""
    for flat, number, is_sure in marks:
        if _is_thorough:
            left = int(np.count_nonzero(flat == number))
            if left and (is_sure or left == flat.size >= _FEW):
                return f"left {left} of {flat.size} elements of an output as they were"
        elif flat[0] == number or flat[-1] == number:
            place = "first" if flat[0] == number else "last"
            return f"left the {place} element of an output as it was"
    return ""
