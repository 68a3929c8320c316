"""What the optimizers have in common: the weights, their state, and one-element numbers.

An update is computed in float32 at least and rounded once, to what each result is kept in. With
``multi_precision`` the weights are those of ``master_param``; ``param`` is their rounded copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.primitives.widening import as_dtype


def check_like(param: Any, **tensors: Any) -> None:
    """Raise unless all these float tensors have the dims of ``param``; None is left out."""
    for name, x in {"param": param, **tensors}.items():
        if x is None:
            continue
        check_float(name, x)
        if x.ndim != param.ndim or not all(map(dm.may_equal, x.meta.dims, param.meta.dims)):
            raise ShapeError(
                f"{name} must have the shape of param, {param.meta}, found {x.meta}; reshape it, "
                "or make it of phix.zeros_like(param)"
            )


def check_float(name: str, x: Any) -> None:
    if not dt.is_float(x.dtype):
        raise DTypeError(f"{name} must have a float dtype, found {x.meta}; cast it")


def single(name: str, x: Any, dtype: Any) -> Any:
    """The one element of ``x``, 0-d, in ``dtype``; of any rank, as Paddle's are of shape [1]."""
    if not all(dm.may_equal(d, 1) for d in x.meta.dims):
        raise ShapeError(f"{name} is one number, of shape [] or [1], found {x.meta}")
    if dt.is_float(dtype):
        check_float(name, x)
    elif dt.kind(x.dtype) != dt.kind(dtype):
        raise DTypeError(f"{name} must be of kind {dt.kind(dtype)}, found {x.meta}; cast it")
    return as_dtype(ops.reshape(x, ()) if x.ndim else x, dtype)


def like(value: Any, x: Any) -> Any:
    """``value`` in the shape and dtype of ``x``."""
    if value.ndim != x.ndim:
        value = ops.reshape(value, x.meta.dims)
    return as_dtype(value, x.dtype)


class Weights:
    """The weights of one update: ``p`` and ``g`` in the dtype that it is computed in.

    Args:
        state: the other tensors of the shape of ``param``, by name.
    """

    def __init__(
        self, param: Any, grad: Any, master_param: Any, multi_precision: bool, **state: Any
    ) -> None:
        if multi_precision != (master_param is not None):
            raise ArgumentError(
                "multi_precision=True updates the weights in master_param and rounds them to "
                f"param, found multi_precision={bool(multi_precision)} "
                f"{'without' if master_param is None else 'with'} a master_param; give both or "
                "neither"
            )
        check_like(param, grad=grad, master_param=master_param, **state)
        self.param, self.master = param, master_param
        held = param if master_param is None else master_param
        self.dtype = dt.promote(dt.float32, held.dtype)
        self.p, self.g = self.wide(held), self.wide(grad)

    def wide(self, x: Any) -> Any:
        return as_dtype(x, self.dtype)

    def single(self, name: str, x: Any) -> Any:
        return single(name, x, self.dtype)

    def updated(self, new: Any) -> tuple[Any, Any]:
        """The new ``param`` and ``master_param``; None for the latter where there is none."""
        master = None if self.master is None else as_dtype(new, self.master.dtype)
        return as_dtype(new, self.param.dtype), master


def unless(skip_update: Any, new: Sequence[Any], old: Sequence[Any]) -> tuple[Any, ...]:
    """The new values in the dtypes and shapes of the old ones, which stay if ``skip_update``."""
    found: list[Any] = [None if x is None else like(y, x) for x, y in zip(old, new)]
    if skip_update is None:
        return tuple(found)
    skips = single("skip_update", skip_update, dt.bool_)
    return tuple(None if x is None else ops.where(skips, x, y) for x, y in zip(old, found))


def check_lists(count: int, **lists: Any) -> None:
    """Raise unless all these lists, but those that are None, have ``count`` entries."""
    for name, entries in lists.items():
        if entries is not None and len(entries) != count:
            raise ArgumentError(
                f"{name} has {len(entries)} entries for {count} params; give one for each"
            )
