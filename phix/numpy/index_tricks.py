"""What is indexed to make arrays: ``mgrid[0:3]``, ``r_[1:4, 0]``, ``s_[::2]``."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.array_functions.arrangement import concatenate, moveaxis
from phix.array_functions.numpy_arguments import tensor
from phix.core.errors import ArgumentError
from phix.numpy.creation import arange, linspace


def _points(part: slice) -> Any:
    """The numbers of a slice; with an imaginary step that many, the end among them."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if part.stop is None:
        raise ArgumentError(f"a slice of a grid must have an end, found {part}")
    if isinstance(step, complex):
        return linspace(start, part.stop, int(abs(step)))
    return arange(start, part.stop, step)


class Grid:
    """Grids of numbers by slices, one an axis: a step such as 5j says how many.

    >>> import phix.numpy as np
    >>> np.mgrid[0:2, 0:3][1].tolist(), np.ogrid[0:2, 0:3][0].shape
    ([[0, 1, 2], [0, 1, 2]], (2, 1))
    """

    def __init__(self, is_open: bool) -> None:
        self.is_open = is_open

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _points(key)
        axes = [_points(part) for part in key]
        rank = len(axes)
        opened = tuple(ops.reshape(x, [-1 if i == k else 1 for i in range(rank)])
                       for k, x in enumerate(axes))  # fmt: skip
        return opened if self.is_open else ops.stack(list(ops.broadcast_tensors(opened)), 0)

    def __repr__(self) -> str:
        return f"phix.numpy.{'ogrid' if self.is_open else 'mgrid'}"


class Joined:
    """Arrays, numbers and slices one behind the other; in ``c_`` as columns.

    >>> import phix.numpy as np
    >>> np.r_[1:4, 0, [5, 6]].tolist(), np.c_[[1, 2], [3, 4]].tolist()
    ([1, 2, 3, 0, 5, 6], [[1, 3], [2, 4]])
    """

    def __init__(self, name: str, settings: tuple[int, int, int]) -> None:
        self.name, self.settings = name, settings

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        axis, rank, place = self.settings
        if parts and isinstance(parts[0], str):
            axis, rank, place = _settings(parts[0], self.settings)
            parts = parts[1:]
        arrays = []
        for part in parts:
            x = _points(part) if isinstance(part, slice) else tensor(part)
            added = max(rank - x.ndim, 0)
            if added:
                own = x.ndim
                x = ops.reshape(x, (*(1,) * added, *x.shape))
                if place >= 0 and own:
                    # the axes that were there begin at ``place``
                    for i in range(own):
                        x = moveaxis(x, added + i, min(place + i, x.ndim - 1))
            arrays.append(x)
        most = max((x.ndim for x in arrays), default=1)
        arrays = [x if x.ndim == most else ops.reshape(x, (1,) * (most - x.ndim) + tuple(x.shape))
                  for x in arrays]  # fmt: skip
        return concatenate(arrays, axis)

    def __repr__(self) -> str:
        return f"phix.numpy.{self.name}"


def _settings(text: str, usual: tuple[int, int, int]) -> tuple[int, int, int]:
    """The axis, the least rank, and where the axes go, of a text such as "0,2,-1"."""
    if text in ("r", "c"):
        raise ArgumentError("r_['r'] and r_['c'] make NumPy's matrices; write r_['0,2'] or c_[...]")
    try:
        numbers = [int(n) for n in text.split(",")]
    except ValueError:
        raise ArgumentError(f"r_ takes a text such as '0,2,-1', found {text!r:.80}") from None
    return (*numbers, *usual[len(numbers) :])[:3]  # type: ignore[return-value]


class Index:
    """An index as a value: ``s_[::2]`` is ``slice(None, None, 2)``.

    >>> import phix.numpy as np
    >>> np.arange(6)[np.s_[::2]].tolist()
    [0, 2, 4]
    """

    def __init__(self, name: str, makes_tuple: bool) -> None:
        self.name, self.makes_tuple = name, makes_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self.makes_tuple and not isinstance(key, tuple) else key

    def __repr__(self) -> str:
        return f"phix.numpy.{self.name}"


OBJECTS: dict[str, Any] = {
    "mgrid": Grid(False), "ogrid": Grid(True), "r_": Joined("r_", (0, 1, -1)),
    "c_": Joined("c_", (-1, 2, 0)), "s_": Index("s_", False),
    "index_exp": Index("index_exp", True),
}  # fmt: skip
