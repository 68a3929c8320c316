"""Outputs that a kernel leaves as it gets them: marks in their memory, and whether they stay.

What nobody writes holds whatever was there before. So the first and the last element of an output
are marked, or under ``PHIX_VERIFY`` all of them, by what no kernel computes: one NaN of many, a
bool that is neither, one int of billions. Ints of few bits have no such number: the first four and
the last four are marked, and it tells if all of these eight are what they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from phix.core import dtypes as dt
from phix.core import stages

_NUMBERS = {1: 0xA5, 4: 0xA5A5A5A5, 8: 0xA5A5A5A5A5A5A5A5}
_NANS = {2: 0xFFA5, 4: 0xFFA5A5A5, 8: 0xFFF5A5A5A5A5A5A5}
_EIGHT = (0xA517, 0x3CD2, 0xE94B, 0x860F, 0x5B71, 0xC3A8, 0x1E96, 0x74DD)


class MarkedAs(NamedTuple):
    """How a dtype is marked: as what unsigned ints, by which, from both ends inwards, and whether
    one that stays tells for sure, or only all of them."""

    word: np.dtype
    marks: tuple[Any, ...]
    is_sure: bool


def _form(dtype: np.dtype) -> MarkedAs:
    real = dt.real_dtype(dtype)
    size = real.itemsize
    word = np.dtype(f"uint{8 * size}")
    is_sure = dt.is_float(real) or size >= 4 or real.kind == "b"
    one = (_NANS if dt.is_float(real) else _NUMBERS)[size] if is_sure else 0
    numbers = (one, one) if is_sure else tuple(n >> (16 - 8 * size) for n in _EIGHT)
    return MarkedAs(word, tuple(map(word.type, numbers)), is_sure)


FORMS = {dtype: _form(dtype) for dtype in dt.NATIVE}
Marks = list[tuple[np.ndarray, MarkedAs]]
# Whether all elements are marked; read once, as calls are too short for more.
_is_thorough = stages.is_verifying()


class Unfilled(Exception):
    """What compiled code raises that finds marks in the memory of an output, by its name."""


def mark(outputs: Iterable[Any]) -> Marks:
    """Mark outputs, those that are arrays in one piece; gives what :func:`problem` looks at."""
    made = []
    for out in outputs:
        if type(out) is np.ndarray and out.size and out.flags.carray:
            form = FORMS[out.dtype]
            flat = out.reshape(-1).view(form.word)
            if not form.is_sure:
                if flat.size < len(form.marks):
                    continue
                flat[:4], flat[-4:] = form.marks[:4], form.marks[4:]
            elif _is_thorough:
                flat[:] = form.marks[0]
            else:
                flat[0] = flat[-1] = form.marks[0]
            made.append((flat, form))
    return made


def problem(marks: Marks) -> str:
    """What was left of the outputs; nothing if all seems well."""
    for flat, form in marks:
        number = form.marks[0]
        if not form.is_sure:
            if (*flat[:4], *flat[-4:]) == form.marks:
                return "left the first and the last elements of an output as they were"
        elif _is_thorough:
            if left := int(np.count_nonzero(flat == number)):
                return f"left {left} of {flat.size} elements of an output as they were"
        elif flat[0] == number or flat[-1] == number:
            place = "first" if flat[0] == number else "last"
            return f"left the {place} element of an output as it was"
    return ""
