"""Tensors of strings, on the CPU: the four ops of PHI's strings family.

A ``StringTensor`` is no tree and no tensor of numbers, so it has no derivatives and no programs
compute it; ``jit`` takes one as a static argument, by its contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    PhixError,
    ShapeError,
    described,
    shown,
)
from phix.core.faces import face
from phix.core.given import FLAG, entries, is_int, takes
from phix.core.places import as_place

__all__ = [
    "StringTensor",
    "strings_empty",
    "strings_empty_like",
    "strings_lower",
    "strings_upper",
    "to_string_tensor",
]
__dir__ = face(__all__)


class StringTensor:
    """An array of strings of any lengths, which does not change; made by ``to_string_tensor``.

    Two are equal, and have one hash, if their shapes and strings are.

    >>> import phix
    >>> x = phix.strings.to_string_tensor([["a", "bc"], ["", "d"]])
    >>> x.shape, x[0].tolist(), x == phix.strings.strings_lower(x)
    ((2, 2), ['a', 'bc'], True)
    """

    __slots__ = ("_data", "_hash")
    __array_ufunc__ = None  # NumPy's functions are not for strings

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        data.flags.writeable = False
        self._hash: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    def tolist(self) -> Any:
        """The strings as nested lists; one alone as a str."""
        return self._data.tolist()

    def numpy(self) -> np.ndarray:
        """The strings as NumPy's array of objects, which cannot be written to."""
        return self._data

    def __getitem__(self, index: Any) -> StringTensor:
        return StringTensor(_array(self._data[index]))

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("a string tensor without axes has no len()")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringTensor):
            return NotImplemented
        return self.shape == other.shape and bool((self._data == other._data).all())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, tuple(self._data.flat)))
        return self._hash

    def __bool__(self) -> bool:
        raise ArgumentError("a string tensor has no truth value; write x.size, or x.tolist()")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ArgumentError("a string tensor has no numbers; its strings are x.numpy()")

    def __reduce__(self) -> Any:
        return StringTensor, (self._data.copy(),)

    def __repr__(self) -> str:
        return f"StringTensor({self.tolist()!r}, shape={list(self.shape)}, place=cpu)"


def _array(strings: Any) -> np.ndarray:
    """An array of objects of its own, 0-d for one string."""
    found = np.empty(np.shape(strings) if isinstance(strings, np.ndarray) else (), object)
    found[...] = strings
    return found


@takes()
def to_string_tensor(data: Any) -> StringTensor:
    """Nested lists of strings, or an array of them, as a string tensor.

    Raises:
        ArgumentError: something in it is no str.
        ShapeError: the lists are ragged.

    >>> import phix
    >>> phix.strings.to_string_tensor(["Ab", "c"])
    StringTensor(['Ab', 'c'], shape=[2], place=cpu)
    """
    if isinstance(data, StringTensor):
        return data
    if isinstance(data, str):
        return StringTensor(_array(data))
    if isinstance(data, np.ndarray) and data.dtype.kind == "U":
        data = data.astype(object)
    if isinstance(data, np.ndarray) and data.dtype == object:
        _check_strings(data.flat)
        return StringTensor(_array(data))
    dims, flat = _flat(data)
    _check_strings(flat)
    found = np.empty(len(flat), object)
    found[:] = flat
    return StringTensor(found.reshape(dims))


def _flat(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The dims of nested lists, and what is in them in order."""
    dims: list[int] = []
    level = [data]
    while level and all(isinstance(x, (list, tuple)) for x in level):
        counts = {len(x) for x in level}
        if len(counts) > 1:
            raise ShapeError(f"lists must be of one length at each level, found {sorted(counts)}")
        dims.append(counts.pop())
        level = [x for row in level for x in row]
    return tuple(dims), level


def _check_strings(values: Any) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ArgumentError(f"a string tensor holds str, found {described(value)}")


def _strings(x: Any) -> StringTensor:
    if not isinstance(x, StringTensor):
        raise ArgumentError(
            f"x must be a StringTensor, found {described(x)}; write to_string_tensor(x)"
        )
    return x


def _check_place(place: Any) -> None:
    try:
        is_cpu = place is None or str(as_place(place)) == "cpu"
    except PhixError:
        is_cpu = False
    if not is_cpu:
        raise AttributeValueError(f"strings live on the CPU alone, found place {shown(place)}")


@takes()
def strings_empty(shape: Sequence[int], place: Any = None) -> StringTensor:
    """Empty strings of a shape.

    Args:
        shape: the dims.
        place: None or the CPU.

    >>> import phix
    >>> phix.strings.strings_empty([2])
    StringTensor(['', ''], shape=[2], place=cpu)
    """
    _check_place(place)
    dims = entries(shape, "shape")
    if not all(is_int(n) and n >= 0 for n in dims):
        raise AttributeValueError(f"shape must be ints from 0, found {shape}")
    return StringTensor(np.full(dims, "", object))


@takes()
def strings_empty_like(x: Any, place: Any = None) -> StringTensor:
    """Empty strings of the shape of x.

    >>> import phix
    >>> phix.strings.strings_empty_like(phix.strings.to_string_tensor(["a"])).tolist()
    ['']
    """
    return strings_empty(_strings(x).shape, place)


@takes(use_utf8_encoding=FLAG)
def strings_lower(x: Any, use_utf8_encoding: bool = False) -> StringTensor:
    """The strings in lower case.

    Args:
        x: a StringTensor.
        use_utf8_encoding: whether all letters of Unicode change that have one letter for another;
            else those from A to Z alone.

    >>> import phix
    >>> x = phix.strings.to_string_tensor(["ÄB", "c"])
    >>> phix.strings.strings_lower(x).tolist(), phix.strings.strings_lower(x, True).tolist()
    (['Äb', 'c'], ['äb', 'c'])
    """
    return _changed(_strings(x), str.lower, use_utf8_encoding)


@takes(use_utf8_encoding=FLAG)
def strings_upper(x: Any, use_utf8_encoding: bool = False) -> StringTensor:
    """The strings in upper case; arguments as :func:`strings_lower`.

    >>> import phix
    >>> x = phix.strings.to_string_tensor(["äb"])
    >>> phix.strings.strings_upper(x).tolist(), phix.strings.strings_upper(x, True).tolist()
    (['äB'], ['ÄB'])
    """
    return _changed(_strings(x), str.upper, use_utf8_encoding)


def _changed(x: StringTensor, case: Callable[[str], str], is_unicode: bool) -> StringTensor:
    def letter(c: str) -> str:
        if not (is_unicode or c.isascii()):
            return c
        changed = case(c)
        return changed if len(changed) == 1 else c  # one letter for one, as in PHI's tables

    found = np.empty(x.size, object)
    found[:] = ["".join(map(letter, s)) for s in x.numpy().flat]
    return StringTensor(found.reshape(x.shape))
