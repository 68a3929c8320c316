"""Ops that move elements: metas, backward and batching rules."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import rules
from phix.core.errors import AttributeValueError, ShapeError
from phix.core.meta import MetaTensor
from phix.primitives import axes as ax
from phix.primitives.broadcasting import unbroadcast, with_dims


# -- reshape -----------------------------------------------------------------------------------
@rules.normalize("reshape")
def reshape_attrs(x: MetaTensor, shape: Any) -> Any:
    """One -1 takes the rest; a 0 copies the dim of x there, if the dims not copied have as many
    elements, and some. Else x is empty, and a 0 is a 0. What is not known yet is part of the dim.
    A -1 beside a dim that turns out to be 0 is refused, unless that is the one of x there: what
    remains of the division does not say which 0 would be copied.
    """
    dims: list[Any] = list(shape)
    free = [i for i, d in enumerate(dims) if isinstance(d, int) and d == -1]
    if len(free) > 1 or any(isinstance(d, int) and d < -1 for d in dims):
        raise AttributeValueError(
            f"shape {dm.shape_text(shape)} can have one -1 and no other negative dim"
        )
    copied = [i for i, d in enumerate(dims) if dm.is_zero(d) and i < x.ndim]
    size = dm.product(tuple(d for i, d in enumerate(x.dims) if i not in copied))
    rest = dm.product(tuple(d for i, d in enumerate(dims) if i not in (*copied, *free)))
    fits: dm.DimLike = 1
    if free:
        if dm.is_zero(rest):
            raise AttributeValueError(f"shape {dm.shape_text(shape)}: -1 beside a 0 is not known")
        if isinstance(size, int) and isinstance(rest, int) and size % rest:
            raise _wrong_size(x, shape)
        dims[free[0]] = dm.floordiv(size, rest)
        for i, d in enumerate(shape):
            if i not in free and not (i < x.ndim and dm.same(d, x.dims[i])):
                dims[i] = dm.divisor(d)
    elif copied and (dm.is_zero(size) or not dm.same(size, rest)):
        differs = dm.minimum(dm.maximum(size, rest) - dm.minimum(size, rest), 1)
        fits = dm.minimum(size, 1) * (1 - differs)
    for i in copied:
        dims[i] = x.dims[i] * fits
    return (tuple(dims),)


def _wrong_size(x: MetaTensor, shape: Any) -> ShapeError:
    return ShapeError(
        f"shape {dm.shape_text(tuple(shape))} does not hold the {dm.dim_text(x.size)} elements "
        f"of {x}; write a shape with that many, or -1 for one of its dims"
    )


@rules.infer_meta("ReshapeInferMeta")
def reshape_meta(x: MetaTensor, shape: Any) -> MetaTensor:
    if not dm.may_equal(x.size, dm.product(shape)):
        raise _wrong_size(x, shape)
    return x.with_dims(shape)


@rules.decompose("reshape_grad")
def reshape_grad(x: Any, out_grad: Any) -> Any:
    return with_dims(out_grad, x.meta.dims)


@rules.batch("reshape")
def reshape_batch(batched: Any, x: Any, shape: Any) -> Any:
    return with_dims(x, (x.meta.dims[0], *shape))


# -- expand ------------------------------------------------------------------------------------
@rules.normalize("expand")
def expand_attrs(x: MetaTensor, shape: Any) -> Any:
    if any(isinstance(d, int) and d < -1 for d in shape):
        raise ShapeError(
            f"shape {dm.shape_text(shape)} has a negative dim; write sizes from 0, or -1 to keep "
            "that of x"
        )
    lead = len(shape) - x.ndim
    if lead < 0:
        raise ShapeError(
            f"shape {dm.shape_text(shape)} has fewer dims than {x}; reshape or sum it instead"
        )
    if any(isinstance(d, int) and d == -1 for d in shape[:lead]):
        raise ShapeError(
            f"shape {dm.shape_text(shape)} has a -1 for an axis that {x} does not have; write its "
            "size"
        )
    return (
        tuple(
            x.dims[i - lead] if isinstance(d, int) and d == -1 else d for i, d in enumerate(shape)
        ),
    )


@rules.infer_meta("ExpandInferMeta")
def expand_meta(x: MetaTensor, shape: Any) -> MetaTensor:
    for have, want in zip(x.dims, shape[len(shape) - x.ndim :]):
        if not dm.is_one(have) and not dm.may_equal(have, want):
            raise ShapeError(
                f"{x} does not expand to {dm.shape_text(shape)}: dim {dm.dim_text(have)} is "
                f"neither 1 nor {dm.dim_text(want)}"
            )
    return x.with_dims(shape)


@rules.decompose("expand_grad")
def expand_grad(x: Any, out_grad: Any, shape: Any) -> Any:
    return unbroadcast(out_grad, x)


@rules.batch("expand")
def expand_batch(batched: Any, x: Any, shape: Any) -> Any:
    size, *dims = x.meta.dims
    ones = (1,) * (len(shape) - len(dims))
    return ops.expand(ops.reshape(x, (size, *ones, *dims)), (size, *shape))


# -- transpose ---------------------------------------------------------------------------------
@rules.normalize("transpose")
def transpose_attrs(x: MetaTensor, perm: Any) -> Any:
    if len(perm) != x.ndim:
        raise AttributeValueError(f"perm {perm} must name each of the {x.ndim} axes of {x} once")
    return (ax.all_positive(perm, x.ndim, "perm"),)


@rules.infer_meta("TransposeInferMeta")
def transpose_meta(x: MetaTensor, perm: Any) -> MetaTensor:
    return x.with_dims([x.dims[p] for p in perm])


@rules.decompose("transpose_grad")
def transpose_grad(out_grad: Any, perm: Any) -> Any:
    return ops.transpose(out_grad, sorted(range(len(perm)), key=perm.__getitem__))


@rules.batch("transpose")
def transpose_batch(batched: Any, x: Any, perm: Any) -> Any:
    return ops.transpose(x, (0, *(p + 1 for p in perm)))
