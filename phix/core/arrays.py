"""NumPy arrays that come from outside: plain ones for kernels, and whose memory they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core.errors import ArgumentError


def plain_array(array: np.ndarray) -> np.ndarray:
    """The array as kernels read it: of NumPy's own class, in native byte order, aligned.

    Itself where it is that already; else a view, or a copy of what no view can show.

    Raises:
        ArgumentError: a masked array, whose mask would be lost.
        DTypeError: elements that phix has no dtype for: objects, text, structures, dates.
    """
    if type(array) is not np.ndarray:
        if isinstance(array, np.ma.MaskedArray):
            raise ArgumentError(
                f"a masked array ({array.dtype}{list(array.shape)}) is made a tensor, which "
                "has no mask; write array.filled(value), or pass array.data and the mask by itself"
            )
        array = np.asarray(array)  # a np.matrix is always of two dims, whatever is asked of it
    dtype = array.dtype
    if dtype not in dt.NATIVE or not dtype.isnative:
        array = array.astype(dt.as_dtype(dtype))
    return array if array.flags.aligned else array.copy()


def read_only(array: np.ndarray) -> np.ndarray:
    """A view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def apart(array: Any, others: Sequence[Any]) -> Any:
    """The array, or a copy where it may show memory of one of the others."""
    if not isinstance(array, np.ndarray):  # what is on other devices no array of NumPy shows
        return array
    is_view = array.base is not None
    for other in others:
        if array is other:
            return array.copy()
        if is_view and isinstance(other, np.ndarray) and np.may_share_memory(array, other):
            return array.copy()
    return array


def all_apart(arrays: Iterable[Any], others: Sequence[Any]) -> list[Any]:
    """As :func:`apart` of each, for the many results of a call with many arguments."""
    known = set(map(id, others))
    return [
        a if id(a) not in known and getattr(a, "base", None) is None else apart(a, others)
        for a in arrays
    ]


# Of the flags of an array: that its elements lie in C order without gaps, and where CPUs read them.
LAYOUT = 0x1 | 0x100
_look: Callable[[Sequence[np.ndarray]], Callable[..., Any]] | None = None


def provide_look(look: Callable[[Sequence[np.ndarray]], Callable[..., Any]]) -> None:
    """Say what :func:`look` gives: the engine of the host does."""
    global _look
    _look = look


def look(like: Sequence[np.ndarray]) -> Callable[..., Any] | None:
    """A function of as many objects: it is true where they are arrays as these, which are plain, of
    the same dtypes, shapes and layouts. None where nothing can tell quickly."""
    return None if _look is None else _look(like)
