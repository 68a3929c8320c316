"""Elementwise functions, computed in float64, with derivatives of any order in any argument.

What a function does inside - loops until all elements have converged, limits that are cut out - is
differentiated forward alone, one argument at a time; reverse mode goes by the rule around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phix import ops
from phix.api.custom import custom_jvp
from phix.api.gradients import jvp
from phix.core import dtypes as dt
from phix.core.rules import origin
from phix.core.tensor import Tracer
from phix.primitives.pointwise import broadcast_shapes
from phix.scipy.entropies import floats

Function = Callable[..., Any]


def smooth(function: Function, *slopes: Function | None) -> Function:
    """``function`` of tensors of one shape, with a derivative in each of its arguments.

    ``slopes`` are its partial derivatives, functions of the same arguments; those that are missing
    or None are found by forward mode through ``function``.
    """
    known: dict[int, Function] = {i: s for i, s in enumerate(slopes) if s is not None}

    def slope(place: int) -> Function:
        if place not in known:

            def partial(*primals: Any) -> Any:
                units = [ops.full_like(p, float(i == place)) for i, p in enumerate(primals)]
                return jvp(function, primals, tuple(units))[1]

            known[place] = smooth(partial)
        return known[place]

    def rule(primals: Any, tangents: Any) -> Any:
        total: Any = ops.zeros_like(primals[0])
        for place, tangent in enumerate(tangents):
            if not _is_nothing(tangent):
                total = total + tangent * slope(place)(*primals)
        return whole(*primals), total

    whole: Any = custom_jvp(function)
    whole.defjvp(rule)
    return whole


def _is_nothing(tangent: Any) -> bool:
    """Whether it is known to be zero: that of an argument that is not differentiated."""
    if isinstance(tangent, Tracer):
        made = origin(tangent)
        return (
            made is not None
            and made.op == "full"
            and type(made.args[1]) in (int, float)
            and not made.args[1]
        )
    return not np.any(tangent.numpy())  # it is known where others are traced, too


def in_float64(function: Function, *values: Any) -> Any:
    """``function`` of the values, broadcast and in float64, in the dtype they have together."""
    own = floats(*values)
    dims = own[0].meta.dims
    for v in own[1:]:
        dims = broadcast_shapes(dims, v.meta.dims)
    wide = [ops.cast(v, dt.float64) for v in own]
    whole = next((ops.expand(v, dims) for v in wide if v.meta.dims), None)
    if whole is not None:  # a single value goes to the place of the others
        wide = [ops.expand(v, dims) if v.meta.dims else ops.full_like(whole, v) for v in wide]
    return ops.cast(function(*wide), own[0].dtype)


@custom_jvp
def like(value: Any, other: Any) -> Any:
    """A value, with the derivatives of another one that it is."""
    return value


@like.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return like(*primals), tangents[1]
