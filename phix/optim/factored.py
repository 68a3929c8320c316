"""Adafactor's second moments: of matrices, the means of rows and columns alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phix import ops
from phix.core.conversion import at_home
from phix.core.errors import UnknownDimError
from phix.core.given import takes
from phix.optim.base import (
    NUMBER,
    GradientTransformationExtraArgs,
    mapped,
    needed,
    no_steps,
    number,
    one_more,
    pair,
    root,
    split,
    square,
    squares_dtype,
    stateless,
    to_dtype,
    wide,
)


class FactoredState(NamedTuple):
    """How many steps were made, and the means of squares: of rows, of columns, or of all."""

    count: Any
    v_row: Any
    v_col: Any
    v: Any


def _factored_axes(shape: Any, factored: bool, least: int) -> tuple[int, int] | None:
    """The second largest axis and the largest, if both are as large as that."""
    if not factored or len(shape) < 2:
        return None
    if not all(isinstance(d, int) for d in shape):
        raise UnknownDimError(
            f"which axes are factored depends on their sizes, found {list(shape)}; write "
            "factored=False"
        )
    order = np.argsort(shape, kind="stable")
    if shape[order[-2]] < least:
        return None
    return int(order[-2]), int(order[-1])


@takes(decay_rate=NUMBER, step_offset=NUMBER, epsilon=NUMBER)
def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> GradientTransformationExtraArgs:
    """g / sqrt(v), with v the running mean of g ** 2 + epsilon by 1 - n ** -decay_rate.

    Of parameters with two axes of min_dim_size_to_factor at least, v is the product of the means
    over the largest and over the second largest, divided by the mean of all. update needs the
    parameters. (N. Shazeer and M. Stern, "Adafactor", 2018.)

    >>> import phix
    >>> tx = phix.optim.scale_by_factored_rms()
    >>> p = [phix.ones([1])]
    >>> tx.update([phix.full([1], 4.0)], tx.init(p), p)[0][0].tolist()
    [1.0]
    """

    def axes(p: Any) -> tuple[int, int] | None:
        return _factored_axes(p.shape, factored, min_dim_size_to_factor)

    def first(p: Any) -> Any:
        found, kind = axes(p), squares_dtype(p.dtype)
        none = ops.full((1,), 0, kind)
        if found is None:
            return none, none, ops.full_like(p, 0, kind)
        sizes = [[d for n, d in enumerate(p.shape) if n != axis] for axis in reversed(found)]
        return ops.full(sizes[0], 0, kind), ops.full(sizes[1], 0, kind), none

    @at_home
    def init(params: Any) -> FactoredState:
        return FactoredState(no_steps(), *split(3, first, params))

    @at_home
    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        steps = (state.count - step_offset + 1).astype("float32")
        keep = 1.0 - ops.pow(steps, -decay_rate)

        def one(g: Any, p: Any, v_row: Any, v_col: Any, v: Any) -> Any:
            found, share = axes(p), number(keep, g.dtype)
            squares = square(wide(g)) + number(epsilon, g.dtype)
            if found is None:
                new = to_dtype(share * wide(v) + (1 - share) * squares, v.dtype)
                return to_dtype(wide(g) * ops.rsqrt(wide(new)), g.dtype), v_row, v_col, new
            less, most = found
            row = share * wide(v_row) + (1 - share) * ops.mean(squares, most)
            col = share * wide(v_col) + (1 - share) * ops.mean(squares, less)
            row, col = to_dtype(row, v_row.dtype), to_dtype(col, v_col.dtype)
            whole = ops.mean(wide(row), less - (less > most), keepdim=True)
            by_row = ops.unsqueeze(ops.rsqrt(wide(row) / whole), most)
            by_col = ops.unsqueeze(ops.rsqrt(wide(col)), less)
            return to_dtype(wide(g) * by_row * by_col, g.dtype), row, col, v

        out, *kept = split(4, one, updates, needed(params), state.v_row, state.v_col, state.v)
        return out, FactoredState(one_more(state.count), *kept)

    return pair("scale_by_factored_rms", init, update)


@takes(min_scale=NUMBER)
def scale_by_param_block_rms(min_scale: float = 1e-3) -> GradientTransformationExtraArgs:
    """Each leaf times the root mean square of its parameters, at least min_scale.

    >>> import phix
    >>> tx = phix.optim.scale_by_param_block_rms()
    >>> tx.update([phix.ones([1])], (), [phix.full([1], 2.0)])[0][0].tolist()
    [2.0]
    """

    def scaled(u: Any, p: Any) -> Any:
        size = root(ops.mean(square(wide(p))))
        return to_dtype(wide(u) * ops.maximum(size, number(min_scale, u.dtype)), u.dtype)

    return stateless(
        "scale_by_param_block_rms", lambda updates, params: mapped(scaled, updates, needed(params))
    )
