"""What kernels get besides storage and attributes: a place to allocate on, and outputs to size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phix.core import dtypes as dt
from phix.core import places
from phix.core.places import Place


@dataclass(frozen=True)
class KernelContext:
    """What a kernel runs with: the place it allocates on and the stream it is to work on.

    ``made`` keeps what a kernel allocates, for as long as the work it starts may be done again.
    """

    place: Place
    stream: Any = None
    made: list[Any] | None = None

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Storage on the place, its values not set.

        Raises:
            OutOfMemoryError: there is no room, also after the pool was emptied.
        """
        storage = places.allocate(self.place, tuple(shape), dt.as_dtype(dtype))
        if self.made is not None:
            self.made.append(storage)
        return storage


class Unsized:
    """An output whose size the kernel finds: it allocates by its context, and sets ``data``."""

    __slots__ = ("data", "dtype", "ndim")

    def __init__(self, ndim: int, dtype: np.dtype) -> None:
        self.ndim, self.dtype, self.data = ndim, dtype, None
