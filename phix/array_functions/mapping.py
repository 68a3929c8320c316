"""NumPy's functions that call a function of the user's on parts of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.api.batching import vmap
from phix.array_functions.arrangement import expand_dims, moveaxis
from phix.array_functions.editing import piecewise_of
from phix.array_functions.numpy_arguments import common_shape, tensor
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.errors import ArgumentError, ShapeError

Function = Callable[..., Any]


def _axis_of(name: str, axis: Any, rank: int) -> int:
    try:
        return axis_of(axis, rank)
    except TypeError:
        raise ArgumentError(f"{name}: an axis is an int, found {axis!r:.80}") from None


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``func1d`` of each vector along an axis; its results stand where that was. It is called
    once, under ``vmap``."""
    x = tensor(arr)
    at = _axis_of("apply_along_axis", axis, x.ndim)

    def of_vector(v: Any) -> Any:
        return tensor(func1d(v, *args, **kwargs))

    mapped: Any = of_vector
    for _ in range(x.ndim - 1):
        mapped = vmap(mapped)
    found = mapped(moveaxis(x, at, -1))
    rank = found.ndim - (x.ndim - 1)
    order = [*range(at), *range(x.ndim - 1, x.ndim - 1 + rank), *range(at, x.ndim - 1)]
    return ops.transpose(found, order) if found.ndim else found


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """``func(a, axis)`` over one axis after the other; those that it leaves out are kept as 1."""
    x = tensor(a)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        found = tensor(func(x, _axis_of("apply_over_axes", axis, x.ndim)))
        if found.ndim == x.ndim - 1:
            found = expand_dims(found, _axis_of("apply_over_axes", axis, x.ndim))
        if found.ndim != x.ndim:
            raise ShapeError(f"apply_over_axes: {x.meta} became {found.meta}")
        x = found
    return x


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Of each element what the function of its condition gives, called on all of x."""
    whole = tensor(x)
    values = [f(whole, *args, **kw) if callable(f) else f for f in funclist]
    return piecewise_of(whole, condlist, values)


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``function(i, j, ...)`` of the indices along each axis, as arrays."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    wanted = dt.as_dtype(dtype)
    axes = [ops.arange(0, size, 1, dt.int64).astype(wanted) for size in sizes]
    grid = ops.meshgrid(axes) if len(axes) > 1 else axes
    return function(*grid, **kwargs)


class vectorize:
    """A function of single elements as one of arrays, which broadcast; it is traced once, under
    ``vmap``. With a signature, as ``"(m,n),(n)->(m)"``, a function of arrays of these axes.

    >>> import phix.numpy as np
    >>> np.vectorize(lambda a, b: np.where(a > b, a - b, a + b))([1, 2, 3, 4], 2).tolist()
    [3, 4, 1, 2]
    """

    def __init__(
        self, pyfunc: Any, otypes: Any = None, doc: Any = None, excluded: Any = None,
        cache: bool = False, signature: Any = None,
    ) -> None:  # fmt: skip
        if not callable(pyfunc):
            raise ArgumentError(f"vectorize: pyfunc must be a function, found {pyfunc!r:.80}")
        self.pyfunc, self.excluded = pyfunc, frozenset(excluded or ())
        self.otypes = None if otypes is None else [dt.as_dtype(np.dtype(t)) for t in otypes]
        self.inner = None if signature is None else _inner_axes(signature)
        functools.update_wrapper(self, pyfunc, updated=())
        if doc is not None:
            self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        places = [i for i in range(len(args)) if i not in self.excluded]
        ranks = self.inner or [0] * len(places)
        if len(ranks) != len(places):
            raise ArgumentError(f"vectorize: {len(ranks)} arrays, found {len(places)}")
        arrays = [tensor(args[i]) for i in places]
        if any(x.ndim < rank for x, rank in zip(arrays, ranks)):
            raise ShapeError("vectorize: an array has fewer axes than the signature says")
        shape = common_shape("vectorize", [x.shape[: x.ndim - r] for x, r in zip(arrays, ranks)])

        def of_parts(*parts: Any) -> Any:
            whole = list(args)
            for place, part in zip(places, parts):
                whole[place] = part
            return self.pyfunc(*whole, **kwargs)

        mapped: Any = of_parts
        for back in range(len(shape)):
            axes = tuple(0 if x.ndim - r > back else None for x, r in zip(arrays, ranks))
            mapped = vmap(mapped, in_axes=axes)
        arrays = [_spread(x, r, shape) for x, r in zip(arrays, ranks)]
        found = mapped(*arrays)
        return self._typed(found)

    def _typed(self, found: Any) -> Any:
        if self.otypes is None:
            return found
        several = isinstance(found, tuple)
        cast = [tensor(v).astype(t) for v, t in zip(found if several else [found], self.otypes)]
        return tuple(cast) if several else cast[0]


def _inner_axes(signature: str) -> list[int]:
    """How many axes each array of a signature has."""
    ins, arrow, _ = str(signature).replace(" ", "").partition("->")
    if not arrow or not ins.startswith("(") or not ins.endswith(")"):
        raise ArgumentError(f"vectorize: signature is like '(m,n),(n)->(m)', found {signature!r}")
    return [len([n for n in part.split(",") if n]) for part in ins[1:-1].split("),(")]


def _spread(x: Any, rank: int, shape: tuple[Any, ...]) -> Any:
    """The axes before the last ``rank`` brought to the sizes of the end of ``shape``."""
    own = x.ndim - rank
    wanted = (*shape[len(shape) - own :], *x.shape[own:])
    return ops.expand(x, wanted) if wanted != tuple(x.shape) else x


NAMES: dict[str, Function] = {
    "apply_along_axis": apply_along_axis, "apply_over_axes": apply_over_axes,
    "piecewise": piecewise,
}  # fmt: skip
# What gets a function first, so that NumPy never hands it over.
MADE: dict[str, Function] = {"fromfunction": fromfunction, "vectorize": vectorize}
