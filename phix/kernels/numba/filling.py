"""Marks in the outputs of kernels in Numba, set and looked for by their wrappers in native code.

As ``core/unfilled.py`` does it for kernels that Python calls. These functions are compiled by Numba
with the wrapper, and run as they are where Python evaluates its loops.
"""

from __future__ import annotations

from typing import Any


def mark(words: Any, marks: Any, is_sure: bool, every: bool) -> None:
    """Put marks on both ends of an output, seen as unsigned ints, or on all of it."""
    half = len(marks) // 2
    if every and is_sure:
        words[:] = marks[0]
    elif words.size and (is_sure or words.size >= len(marks)):
        for k in range(half):
            words[k], words[words.size - half + k] = marks[k], marks[half + k]


def is_left(words: Any, marks: Any, is_sure: bool, every: bool) -> bool:
    """Whether there are marks of :func:`mark` that nobody wrote over."""
    half, left = len(marks) // 2, 0
    if every and is_sure:
        for word in words:
            left += word == marks[0]
    elif words.size and (is_sure or words.size >= len(marks)):
        for k in range(half):
            left += words[k] == marks[k]
            left += words[words.size - half + k] == marks[half + k]
    return left > 0 if is_sure else left == len(marks)


def lines(k: int, name: str, shape: str, is_sure: bool, every: bool) -> tuple[list[str], list[str]]:
    """What a wrapper does with output ``a<k>`` before and after it calls the kernel."""
    told = f"words{k}, marks{k}, {is_sure}, {every}"
    before = [
        f"a{k} = carray(p{k}, ({shape}))",
        f"words{k} = carray(p{k}, ({shape.replace(', ', ' * ')}1,)).view(word{k})",
        f"mark({told})",
    ]
    return before, [f"if is_left({told}):", f"    raise Unfilled({name!r})"]
