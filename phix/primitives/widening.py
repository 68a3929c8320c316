"""What of a composite is computed in float32 where its tensors have 16 bits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dtypes as dt
from phix.core.meta import MetaTensor


def widened(x: Any) -> Any:
    """16-bit floats as float32, in which long sums neither overflow nor lose their terms."""
    return ops.cast(x, dt.float32) if x.dtype in _NARROW else x


def as_dtype(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.cast(x, dtype)


def in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a composite that rounds to 16 bits once, at its end, not after each of its ops.

    What it is given in a 16-bit dtype it sees in float32, and what it returns is of that dtype.
    """

    @functools.wraps(rule)
    def computed(*args: Any) -> Any:
        for a in args:  # most have none, and eager calls come by here
            if getattr(a, "dtype", None) in _NARROW:
                break
        else:
            return rule(*args)
        narrow = [a.dtype for a in args if _is_narrow(a)]
        outs = rule(*map(_in_float32, args))
        if isinstance(outs, tuple):
            return tuple(None if y is None else as_dtype(y, narrow[0]) for y in outs)
        return as_dtype(outs, narrow[0])

    return computed


def _in_float32(value: Any) -> Any:
    if isinstance(value, MetaTensor) and _is_narrow(value):  # all there is of what no one reads
        return value.with_dtype(dt.float32)
    return widened(value) if _is_narrow(value) else value


_NARROW = (dt.float16, dt.bfloat16)


def _is_narrow(value: Any) -> bool:
    return getattr(value, "dtype", None) in _NARROW
