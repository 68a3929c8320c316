"""Where a call runs: the place its tensors share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phix.core import places
from phix.core.conversion import moved_tensor
from phix.core.errors import DeviceError
from phix.core.places import CPU, Place
from phix.core.tensor import Tensor


def is_loose(x: Tensor) -> bool:
    """Whether it is a single value of the host, which goes wherever it is needed."""
    return not x.ndim and x.place == CPU


def shared_place(tensors: Sequence[Tensor], names: Callable[[], Sequence[str]], what: str) -> Place:
    """The place of all the tensors but loose ones; the default place where there are none.

    Raises:
        DeviceError: they live in different places; the message says which where.
    """
    if places.is_host_alone():
        return CPU
    found = dict.fromkeys(x.place for x in tensors if not is_loose(x))
    if len(found) > 1:
        where = ", ".join(f"{n} on {x.place}" for n, x in zip(names(), tensors))
        first = next(iter(found))
        raise DeviceError(
            f"{what}: the arguments live in different places: {where}; bring them to one, as in "
            f".to('{first}')"
        )
    return next(iter(found)) if found else places.default()


def on(place: Place, run: Callable[..., Any], tensors: Sequence[Tensor]) -> Callable[..., Any]:
    """``run``, of the storage of tensors like these, with those brought to ``place`` that are not
    there."""
    away = [i for i, x in enumerate(tensors) if x.place != place]
    if not away:
        return run

    def brought(*storage: Any) -> Any:
        given = list(storage)
        for i in away:
            given[i] = moved_tensor(Tensor(given[i]), place).data
        return run(*given)

    return brought
