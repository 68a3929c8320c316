"""Python functions on the host, called from inside compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phix import ops
from phix.api.arguments import flat_specs, flat_tensors, function_name
from phix.core import context, pytrees
from phix.core import dims as dm
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.core.given import FUNCTION, NONE, one_of, takes
from phix.core.records import dataclass
from phix.core.tensor import Tracer


@dataclass(frozen=True)
class HostFunction:
    """A user's function of trees of arrays as one of flat arrays; equal if it would do the same."""

    function: Callable[..., Any]
    in_tree: Any
    out_tree: Any
    dtypes: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return function_name(self.function)

    def __call__(self, arrays: Sequence[Any], shapes: Sequence[Any]) -> list[np.ndarray]:
        args, kwargs = pytrees.unflatten(self.in_tree, arrays)
        leaves, tree = pytrees.flatten(self.function(*args, **kwargs))
        name = function_name(self.function)
        if tree != self.out_tree:
            raise ArgumentError(
                f"pure_callback: {name} must give a tree of structure {self.out_tree}, gave {tree}"
            )
        return [
            self._checked(np.asarray(leaf), tuple(shape), np.dtype(dtype), name)
            for leaf, shape, dtype in zip(leaves, shapes, self.dtypes)
        ]

    def _checked(self, array: np.ndarray, shape: Any, dtype: np.dtype, name: str) -> np.ndarray:
        if array.shape != shape:
            raise ShapeError(
                f"pure_callback: {name} is declared to give {dtype}{list(shape)}, gave shape "
                f"{list(array.shape)}"
            )
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise DTypeError(
                f"pure_callback: {name} is declared to give {dtype}, gave {array.dtype}"
            )
        return array.astype(dtype, copy=False)


_METHOD = one_of("sequential", "expand_dims", "broadcast_all")


@takes(function=FUNCTION, vmap_method=_METHOD | NONE)
def pure_callback(
    function: Callable[..., Any],
    result_specs: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """``function`` of NumPy arrays, called on the host, in compiled programs too.

    Args:
        function: of trees of NumPy arrays to a tree of arrays; without effects, since it may run
            any number of times, or not at all.
        result_specs: the metas of its result: a tree of ``phix.spec``.
        *args, **kwargs: its arguments, trees of tensors.
        vmap_method: what it does under vmap. "sequential": called once a lane. "expand_dims",
            "broadcast_all": called once, all arguments with a leading axis, of size 1 for those
            not mapped, or of the size of the batch for all; so is the result.

    Raises:
        ArgumentError, ShapeError, DTypeError: the result is not as declared.
        DifferentiationError: it is differentiated; put it into a custom_vjp or custom_jvp.

    >>> import numpy as np
    >>> import phix
    >>> f = phix.jit(lambda x: phix.pure_callback(np.sort, phix.spec([3]), x) + 1.0)
    >>> f(phix.to_tensor([3.0, 1.0, 2.0])).tolist()
    [2.0, 3.0, 4.0]
    """
    flat, in_tree = flat_tensors((args, kwargs), "pure_callback")
    metas, out_tree = flat_specs(result_specs, "pure_callback: result_specs")
    dtypes = tuple(str(m.dtype) for m in metas)
    host = HostFunction(function, in_tree, out_tree, dtypes)
    known = all(dm.is_known(*m.dims) for m in metas)
    if known and context.is_eager() and not any(isinstance(x, Tracer) for x in flat):
        outs: Any = host([x.numpy() for x in flat], [m.dims for m in metas])
        return pytrees.unflatten(out_tree, map(owned_tensor, outs))
    dims = [d for m in metas for d in m.dims]
    ranks = [m.ndim for m in metas]
    outs = ops.pure_callback(flat, host, dims, ranks, dtypes, vmap_method or "")
    return pytrees.unflatten(out_tree, outs)


__all__ = ["pure_callback"]
