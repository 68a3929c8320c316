"""What may be broadcast, and what the backward of a broadcast is."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.dims import Shape
from phix.core.errors import DTypeError, ShapeError
from phix.core.meta import MetaTensor


def unbroadcast(grad: Any, like: Any) -> Any:
    """``grad`` summed over the axes that broadcasting added to, or stretched in, ``like``.

    ``like`` is a tensor or a meta. Where unknown dims leave open which axes were stretched, the
    sum is left to ``reduce_as``, which decides at run time.
    """
    have, want = grad.shape, like.shape
    if dm.same_shape(have, want):
        return grad
    lead = len(have) - len(want)
    axes = list(range(lead))
    for i, (h, w) in enumerate(zip(have[lead:], want)):
        if dm.is_one(w) and not dm.is_one(h):
            axes.append(lead + i)
        elif not dm.same(h, w):
            return ops.reduce_as(grad, ops.full(want, 0, grad.dtype))
    return ops.reshape(ops.sum(grad, axes), want) if axes else grad


def with_dims(x: Any, dims: Shape) -> Any:
    """``x`` in these dims, each 0 of them a 0, where ``ops.reshape`` copies the dim of x there."""
    apart = any(dm.is_zero(d) and not dm.is_zero(e) for d, e in zip(dims, x.meta.dims))
    return ops.reshape(ops.reshape(x, (-1,)) if apart else x, dims)


def check_fits(x: MetaTensor, dims: Shape, name: str) -> None:
    """Raise ShapeError unless ``x`` broadcasts to ``dims``."""
    behind = dims[len(dims) - x.ndim :] if x.ndim <= len(dims) else None
    if behind is None or not all(
        dm.is_one(v) or dm.may_equal(v, d) for v, d in zip(x.dims, behind)
    ):
        raise ShapeError(f"{name} must broadcast to {dm.shape_text(dims)}, found {x}")


def check_computes(x: MetaTensor, what: str) -> None:
    """Refuse dtypes of storage where an op does not only move what it is given."""
    if x.dtype in dt.STORAGE:
        raise DTypeError(
            f"{x.dtype} is a dtype of storage, which {what} computes with; cast the input first, "
            "x.astype('float32')"
        )
