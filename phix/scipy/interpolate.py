"""``scipy.interpolate``'s values between those on a grid: :class:`RegularGridInterpolator`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import pytrees
from phix.core.conversion import common_dtype, owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError, described
from phix.core.expectations import expect, expect_dims
from phix.core.faces import face
from phix.core.given import FLAG, named, one_of
from phix.core.tensor import Tensor, TensorLike
from phix.core.weak import weak_kind
from phix.linalg.arguments import floating
from phix.scipy.entropies import floats
from phix.scipy.grids import Side, at_corners, clamped, picked, spread

__all__ = ["RegularGridInterpolator"]
__dir__ = face(__all__)

_NAME = "RegularGridInterpolator"


class RegularGridInterpolator:
    """Values between those on a grid, which need not be even: linear in each axis, or the nearest.

    ``found = RegularGridInterpolator(points, values)``, then ``found(xi)``. A tree of tensors,
    which goes through ``jit``, ``vmap`` and ``grad`` as an argument and as a result.

    Args:
        points: for each of the first axes of ``values`` the points on it, ``[n]``, strictly
            ascending or descending. Of points that are not known yet (arguments of ``jit``) no
            error can say that they are neither.
        values: ``[n1, ..., nd, *rest]``, floats or complex numbers; ints become the default float.
        method: ``"linear"``, or ``"nearest"``, of two the lower one.
        bounds_error: False. Programs that are compiled cannot raise errors for points beside the
            grid, so True is refused; look for NaNs in the result instead.
        fill_value: what points beside the grid get, one number; None continues the outermost cells.

    Calling it:
        ``found(xi, method=None)``: xi is ``[..., d]``, or a tuple of d tensors that broadcast to
        one shape ``[...]``; the values there are ``[..., *rest]``, in the dtype of ``values`` and
        points together. A vector is points of d numbers, one behind the other; a
        tuple of one tensor is that tensor. A point
        with a NaN has the value NaN.

    It is differentiable in points, values, ``fill_value`` and xi. At points of the grid the slope
    in xi is that of the cell above, at the last one that of the cell below; that of "nearest" is 0.

    Raises:
        ArgumentError: points that are known are in no order, or a setting is none of those above.
        ShapeError: points and values, or xi, do not fit each other.
        DTypeError: points are complex, or ``fill_value`` is and values are not.

    >>> import phix
    >>> values = phix.to_tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    >>> points = [0.0, 1.0], [0.0, 2.0, 3.0]
    >>> found = phix.scipy.interpolate.RegularGridInterpolator(points, values)
    >>> found([[0.5, 1.0], [0.25, 2.5], [2.0, 0.0]]).tolist()
    [5.5, 4.0, nan]
    """

    grid: tuple[Any, ...]
    values: Any
    fill_value: Any
    method: str
    bounds_error = False

    @named(_NAME)
    def __init__(
        self, points: Sequence[TensorLike], values: TensorLike, method: str = "linear",
        bounds_error: bool = False, fill_value: TensorLike | None = np.nan,
    ) -> None:  # fmt: skip
        self.method = _method(method)
        if not FLAG.holds(bounds_error) or bounds_error:
            raise ArgumentError(
                f"bounds_error must be False, found {described(bounds_error)}: what a program is "
                "compiled for is not known yet; let fill_value be NaN and look for it in the result"
            )
        self.values = floating(values)
        self.grid = _grid(points, self.values)
        self.fill_value = None if fill_value is None else _fill(fill_value, self.values)

    @named(f"{_NAME}.__call__")
    def __call__(self, xi: Any, method: str | None = None) -> Tensor:
        """The values at points: see the class."""
        way = _METHODS[self.method if method is None else _method(method)]
        at = _points(xi, self.grid)
        beside = _Beside(self, at)
        sides = [_cell(beside.within(x, on), on) for x, on in zip(at, self.grid)]
        return beside.filled(way(self.values, sides))

    def __repr__(self) -> str:
        return f"{_NAME}({len(self.grid)} axes, values {self.values!r}, method={self.method!r})"


def _nodes(found: RegularGridInterpolator) -> Any:
    return (
        (found.grid, found.values, found.fill_value),
        found.method,
        ("grid", "values", "fill_value"),
    )


def _of_nodes(method: str, nodes: Any) -> RegularGridInterpolator:
    made = object.__new__(RegularGridInterpolator)
    made.grid, made.values, made.fill_value = nodes
    made.method = method
    return made


pytrees.register(RegularGridInterpolator, _nodes, _of_nodes)


# -- what is given --------------------------------------------------------------------------------
def _method(name: Any) -> str:
    kind = one_of(*_METHODS)
    if not kind.holds(name):
        raise ArgumentError(f"method must be {kind.says}, found {described(name)}")
    return str(name)


def _grid(points: Any, values: Any) -> tuple[Any, ...]:
    try:
        parts = list(points)
    except Exception:  # whatever they answer
        raise ArgumentError(
            f"points must be a list with the points on each axis, found {described(points)}"
        ) from None
    if not 0 < len(parts) <= values.ndim:
        raise ShapeError(
            f"points must be lists for the first axes of values {values.meta}, 1 to {values.ndim}, "
            f"found {len(parts)}"
        )
    grid = []
    for axis, (on, size) in enumerate(zip((floats(p)[0] for p in parts), values.meta.dims)):
        refusal = (
            f"points[{axis}] must be [{dm.dim_text(size)}], as axis {axis} of values has elements, "
            f"from 1; found {on.meta}"
        )
        grid.append(expect(expect_dims(on, refusal, (size,)), refusal, size - 1))
        if isinstance(on, Tensor):
            _check_order(np.diff(np.asarray(on)), axis)
    return tuple(grid)


def _check_order(steps: Any, axis: int) -> None:
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise ArgumentError(
            f"points[{axis}] must be strictly ascending or descending; sort them, and values with "
            "them"
        )


def _fill(value: Any, values: Any) -> Any:
    own = common_dtype([value])
    if dt.is_complex(own) and not dt.is_complex(values.dtype):
        raise DTypeError(f"fill_value is complex, and values {values.meta} are not; cast those")
    fill = ops.cast(owned_tensor(value) if weak_kind(value) is None else value, values.dtype)
    if fill.ndim:
        raise ShapeError(f"fill_value must be one number, or None, found {fill.meta}")
    return fill


def _points(xi: Any, grid: tuple[Any, ...]) -> list[Any]:
    """A tensor for each axis, all of one shape."""
    rank = len(grid)
    if isinstance(xi, tuple) and len(xi) == 1:
        (xi,) = xi
    if isinstance(xi, tuple):
        parts = floats(*xi)
        if len(parts) != rank:
            raise ShapeError(f"xi must be {rank} tensors, one for each axis, found {len(parts)}")
        return list(ops.broadcast_tensors(parts))
    (whole,) = floats(xi)
    if whole.ndim == 1:
        whole = ops.reshape(whole, [-1, rank]) if _fits(whole.shape[0], rank) else whole
    if whole.ndim < 2 or whole.shape[-1] != rank:
        raise ShapeError(
            f"xi must be [..., {rank}], a number for each axis of the grid, or a tuple of {rank} "
            f"tensors; found {whole.meta}"
        )
    return [whole[..., n] for n in range(rank)]


def _fits(size: Any, rank: int) -> bool:
    return rank == 1 or (isinstance(size, int) and size % rank == 0)


# -- values ---------------------------------------------------------------------------------------
class _Beside:
    """Whether points lie beside the grid, and NaNs among them."""

    def __init__(self, found: RegularGridInterpolator, at: list[Any]) -> None:
        self.is_nan, self.is_out = ops.isnan(at[0]), ops.zeros_like(at[0]) > 0
        self.fill = found.fill_value
        for x, on in zip(at, found.grid):
            self.is_nan = self.is_nan | ops.isnan(x)
            low, high = ops.minimum(on[0], on[-1]), ops.maximum(on[0], on[-1])
            self.is_out = self.is_out | (x < low) | (x > high)

    def within(self, x: Any, on: Any) -> Any:
        """x where it counts, so that what is infinite reaches no derivative."""
        return x if self.fill is None else ops.where(self.is_out, on[0], x)

    def filled(self, values: Any) -> Any:
        """The values, with those beside the grid."""
        if self.fill is not None:
            values = ops.where(spread(self.is_out, values), self.fill, values)
        return ops.where(spread(self.is_nan, values), float("nan"), values)


def _cell(x: Any, on: Any) -> Side:
    """The cell that x lies in, of points on an axis in either order."""
    count = on.shape[0]
    dtype = dt.promote(x.dtype, on.dtype)
    x, on = ops.cast(x, dtype), ops.cast(on, dtype)
    way = ops.where(on[-1] < on[0], -1.0, 1.0)
    before = ops.searchsorted(on * ops.cast(way, dtype), x * ops.cast(way, dtype), right=True) - 1
    lower = ops.maximum(ops.minimum(before, ops.full((), count - 2, dt.int64)), 0)
    upper = clamped(lower + 1, count)
    start, width = ops.gather(on, lower), ops.gather(on, upper) - ops.gather(on, lower)
    alone = upper == lower  # a single point on the axis
    return Side(lower, upper, ops.where(alone, 0.0, (x - start) / ops.where(alone, 1.0, width)))


def _nearest(values: Any, sides: list[Side]) -> Any:
    return picked(values, [ops.where(s.fraction <= 0.5, s.lower, s.upper) for s in sides])


_METHODS: dict[str, Callable[[Any, list[Side]], Any]] = {"linear": at_corners, "nearest": _nearest}
