"""Tensors given away: whose memory it is, and what is left of them after the call.

A tensor ends when it is donated to a jitted function, or given to an op that works in place
(``relu_``). Its memory is taken over only where nothing else can see it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from phix.core import places
from phix.core.errors import DonatedTensorError
from phix.core.source import at_user_line
from phix.core.tensor import Tensor, TensorBase, Tracer


def gifts(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among ``values`` that can be given away, each once; arrays, numbers and constants
    stay."""
    found = {id(x): x for x in values if isinstance(x, Tensor) and _is_no_constant(x.data)}
    return list(found.values())


def _is_no_constant(data: Any) -> bool:
    return not isinstance(data, np.ndarray) or bool(data.flags.writeable)


# -- whose memory it is ----------------------------------------------------------------------
def _references(x: Tensor) -> int:
    return sys.getrefcount(x.data)


def _references_of_base(view: np.ndarray) -> int:
    return sys.getrefcount(view.base)


_MEMORY = Tensor.__dict__["data"]  # the slot itself, of a tensor that has ended too
_ONE = _references(Tensor(np.empty(1)))  # of an array that nothing but its tensor refers to


def is_its_own(x: Tensor) -> bool:
    """Whether nothing else can see the tensor's memory: no array, no other tensor, no view."""
    if _references(x) != _ONE:
        return False
    if not isinstance(x.data, np.ndarray):
        return x.key[2] and places.is_alone(x.data)
    return x.data.flags.c_contiguous and _is_base_its_own(x.data)


def _is_base_its_own(view: Any) -> bool:
    """Whether nothing sees the memory of an array but through that array."""
    while view.base is not None:  # NumPy leaves out none of the views between, if classes differ
        if not isinstance(view.base, np.ndarray):
            return False
        kept = getattr(view.base, "keepers", 0)  # who holds the memory only to give it out again
        if _references_of_base(view) != _ONE + kept:
            return False
        view = view.base
    return bool(view.flags.owndata)


def free_numbers(tensors: Sequence[Any], given: Iterable[Tensor]) -> tuple[int, ...]:
    """Which of a call's tensors are among those given, once, and have memory of their own."""
    times: dict[int, int] = {}
    for x in tensors:
        times[id(x)] = times.get(id(x), 0) + 1
    free = {id(x) for x in given if times.get(id(x)) == 1 and is_its_own(x)}
    return tuple(k for k, x in enumerate(tensors) if id(x) in free)


def keep_apart(data: list[Any], numbers: Iterable[int]) -> None:
    """Copy those of the arrays that another thread has begun to read since they were found free."""
    for k in numbers:
        array = data[k]
        if isinstance(array, np.ndarray) and not (
            sys.getrefcount(array) == _ONE + 1 and _is_base_its_own(array)
        ):
            data[k] = array.copy()


# -- what is left of it ----------------------------------------------------------------------
def end(x: TensorBase, where: str, remedy: str) -> None:
    """Take the memory away from a tensor; whoever asks for it is told where it went.

    A tracer loses no memory, but is as dead: what a traced function does is what the same
    function would do eagerly.

    Raises:
        DonatedTensorError: another thread has given the tensor away meanwhile.
    """
    copy = "pass a copy (phix.to_tensor(x))"
    story = f"{where}; use what that call returned, " + (
        f"{copy}, or {remedy}" if remedy else f"or {copy}"
    )
    if isinstance(x, Tracer):
        if not hasattr(type(x), "is_spent"):
            kind: Any = type(x)
            x.__class__ = _spent_class(kind)
            Tracer.__dict__["interpreter"].__set__(x, story)
    elif isinstance(x, Tensor):
        _ = x.meta  # kept: it may still be asked for
        x.__class__ = DonatedTensor  # from here on no thread finds the data
        try:
            _MEMORY.__delete__(x)  # one thread alone succeeds
        except AttributeError:
            _used(x)
        x.known_key = (story,)


def _refuse(x: Any, story: str) -> Any:
    raise DonatedTensorError(
        f"a tensor ({x.meta}) is used{at_user_line()} after it was donated to {story}"
    )


def _story(x: Any) -> str:
    key = x.known_key
    return key[0] if key and len(key) == 1 else "a call in another thread"  # which ends it just now


def _used(x: Any) -> Any:
    _refuse(x, _story(x))


class DonatedTensor(Tensor):
    """A tensor without memory: a call it was donated to has used it. Its meta is still known."""

    __slots__ = ()

    data = property(_used)
    key = property(_used)
    shape = property(lambda self: self.meta.dims)
    dtype = property(lambda self: self.meta.dtype)
    ndim = property(lambda self: len(self.meta.dims))

    def __repr__(self) -> str:
        return f"Tensor({self.meta}, donated to {_story(self).partition(';')[0]})"


@cache
def _spent_class(kind: type) -> type:
    """A class for tracers of a kind that were given away: the layout of that kind, no interpreter.

    Whoever takes the tracer for an input asks for its interpreter, and is told.
    """

    def interpreter(x: Any) -> Any:
        _refuse(x, Tracer.__dict__["interpreter"].__get__(x))

    def describe(x: Any) -> str:
        where = Tracer.__dict__["interpreter"].__get__(x).partition(";")[0]
        return f"Tracer({x.meta}, donated to {where})"

    members = {"__slots__": (), "is_spent": True, "interpreter": property(interpreter)}
    return type(f"Donated{kind.__name__}", (kind,), {**members, "__repr__": describe})
