"""What kernels get besides storage and attributes: a place to allocate on, and outputs to size."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import places, stack
from phix.core.context import context
from phix.core.errors import ShapeError, described
from phix.core.given import BOUND, Kind, takes
from phix.core.places import Place
from phix.core.records import dataclass

_MOST_AXES, _MOST_ELEMENTS = 64, 1 << 59  # what an array of NumPy can have


@dataclass(frozen=True)
class KernelContext:
    """What a kernel runs with: the place it allocates on and the stream it is to work on.

    ``made`` keeps what a kernel allocates, for as long as the work it starts may be done again.
    ``shared`` is storage that an engine lets kernels made for each other share: one fills it.
    """

    place: Place
    stream: Any = None
    made: list[Any] | None = None
    shared: tuple[Any, ...] = ()

    @takes()
    def alloc(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Storage on the place, its values not set.

        Raises:
            OutOfMemoryError: there is no room, also after the pool was emptied.
            ShapeError: the shape is none.
        """
        storage = places.allocate(self.place, _dims(shape), dt.as_dtype(dtype))
        if self.made is not None:
            self.made.append(storage)
        return storage

    @takes()
    def host_alloc(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array of the host, whatever the place is, its values not set."""
        array: np.ndarray = places.allocate(places.CPU, _dims(shape), dt.as_dtype(dtype))
        if self.made is not None:
            self.made.append(array)
        return array

    @property
    def generator(self) -> np.random.Generator:
        """Random numbers of the host, for kernels that draw some; :func:`seed` starts them again.

        Each place has a stream of them in each thread. Ops of phix take keys (``phix.random``).
        """
        return _generator(self.place)


def _dims(shape: Any) -> tuple[int, ...]:
    try:
        is_one = not isinstance(shape, (str, bytes, set, frozenset, dict))
        dims = tuple(map(operator.index, shape)) if is_one else (-1,)
    except Exception:  # whatever the value answers
        dims = (-1,)
    if min(dims, default=0) < 0 or len(dims) > _MOST_AXES or math.prod(dims) >= _MOST_ELEMENTS:
        raise ShapeError(
            f"shape must be at most {_MOST_AXES} ints from 0, as in (2, 3), of fewer elements than "
            f"an address can count; found {described(shape)}"
        )
    return dims


def _generators() -> tuple[tuple[int, ...] | None, dict[Place, np.random.Generator]]:
    """The seed in force, and the generators of this thread that follow it, by place."""
    if context.generators is None or context.generators[0] is not _SEEDS[-1]:
        context.generators = _SEEDS[-1], {}  # seeds are told apart as objects: each call makes one
    found: tuple[tuple[int, ...] | None, dict[Place, np.random.Generator]] = context.generators
    return found


def _generator(place: Place) -> np.random.Generator:
    number, by_place = _generators()
    if place not in by_place:
        own = number and [*number, *str(place).encode()]
        by_place[place] = np.random.default_rng(own)
    return by_place[place]


_SEEDS: list[tuple[int, ...] | None] = [None]  # the last is in force; None: the system's entropy
stack.ON_LEAVING.append(lambda: {"generators": _generators()})


@takes(number=Kind("an int from 0", lambda v: BOUND.holds(v) and v >= 0))
def seed(number: int) -> None:
    """Start ``ctx.generator`` of every place and thread again, from a number of 0 or more.

    >>> import phix
    >>> phix.kernels.seed(7)
    """
    _SEEDS[:] = [(operator.index(number),)]


class Unsized:
    """An output whose size the kernel finds: it allocates by its context, and sets ``data``."""

    __slots__ = ("data", "dtype", "ndim")

    def __init__(self, ndim: int, dtype: np.dtype) -> None:
        self.ndim, self.dtype = ndim, dtype
        self.data: Any = None

    def problem(self) -> str:
        """What is wrong with what the kernel has set; nothing if all is well."""
        asked = f"{self.dtype} of {self.ndim} axes, as in out.data = ctx.alloc(shape, dtype)"
        if self.data is None:
            return f"left an output of unknown size without data; set {asked}"
        if len(self.data.shape) != self.ndim or self.data.dtype != self.dtype:
            found = f"{self.data.dtype}{list(self.data.shape)}"
            return f"set an output of unknown size to {found}; set {asked}"
        return ""
