"""NumPy's functions of each element that are no ufuncs, and what is said of an array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from phix import ops
from phix.array_functions import fixed_sizes
from phix.array_functions.lexicographic import extreme_of_two
from phix.array_functions.numpy_arguments import (
    check_order,
    common_shape,
    floating,
    given,
    of_truths,
    operand,
    refuse,
    require_real,
    tensor,
)
from phix.array_functions.selection import nonzero
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.attrs import is_traced
from phix.core.axes import axes_of
from phix.core.conversion import owned_tensor
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.tensor import TensorBase

Function = Callable[..., Any]
_NEAR_SINC = 1.6  # where the series of sinc is as good as the quotient, and its derivatives better


def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """x where the condition holds, else y; alone, the indices where it holds. ``size`` and
    ``fill_value``, as in :func:`phix.numpy.nonzero`, are of these.

    >>> import phix.numpy as np
    >>> [v.tolist() for v in np.where([False, True], size=2)]
    [[1, 0]]
    """
    holds = tensor(condition)
    if x is None and y is None:
        if size is not None:
            return fixed_sizes.nonzero("where", holds, size, fill_value)
        return nonzero(holds)
    if size is not None or fill_value is not None:
        raise AttributeValueError(
            "where: size and fill_value are of indices, which where(condition) gives; found values "
            "to choose from beside them, whose size is that of the condition: leave them out"
        )
    if x is None or y is None:
        raise NotOfferedError("two arguments: one to choose from, and none beside it")
    return ops.where(holds if holds.dtype == dt.bool_ else holds != 0, operand(x), operand(y))


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None,
) -> Any:  # fmt: skip
    """The elements, but none below a_min or above a_max."""
    refuse(out=out)
    for name, place, word in (("min", a_min, min), ("max", a_max, max)):
        if given(place) and given(word):
            raise ArgumentError(f"clip: {name} is given twice, as a_{name} and as {name}")
    x = tensor(a)
    low, high = (
        v if v is not None and v is not np._NoValue else w for v, w in ((a_min, min), (a_max, max))
    )
    if low is not None:
        x = extreme_of_two("maximum", x, operand(low))
    return x if high is None else extreme_of_two("minimum", x, operand(high))


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to decimals; of two equally near the even one."""
    refuse(out=out)
    x = tensor(a)
    if dt.is_complex(x.dtype):
        return ops.complex(*(ops.round(part, decimals) for part in (ops.real(x), ops.imag(x))))
    return x if x.dtype == dt.bool_ else ops.round(x, decimals)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Numbers in the place of NaN and of infinities: 0 and the largest there are."""
    x = tensor(x)
    if dt.is_complex(x.dtype):
        parts = (ops.real(x), ops.imag(x))
        return ops.complex(*(nan_to_num(p, copy, nan, posinf, neginf) for p in parts))
    if not dt.is_float(x.dtype):
        return x
    most = float(ml_dtypes.finfo(x.dtype).max)
    known = ops.where(ops.isnan(x), nan, x)
    known = ops.where(ops.equal(x, math.inf), most if posinf is None else posinf, known)
    return ops.where(ops.equal(x, -math.inf), -most if neginf is None else neginf, known)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0. Near 0 by its series, which has derivatives without the
    quotient's, whose parts cancel there."""
    t = floating(x) * math.pi
    is_near = ops.abs(t) < _NEAR_SINC
    close, far = ops.where(is_near, t, 0.0), ops.where(is_near, 1.0, t)
    series: Any = 1.0
    for k in range(32, 0, -2):
        series = 1.0 - close * close * (1.0 / (k * (k + 1))) * series
    return ops.where(is_near, series, ops.sin(far) / far)


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians or degrees."""
    z = floating(z)
    found = ops.atan2(imag(z), real(z))
    return found * (180 / math.pi) if deg else found


def real(val: Any) -> Any:
    """The real part."""
    x = tensor(val)
    return ops.real(x) if dt.is_complex(x.dtype) else x


def imag(val: Any) -> Any:
    """The imaginary part."""
    x = tensor(val)
    return ops.imag(x) if dt.is_complex(x.dtype) else ops.full_like(x, 0)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether abs(a - b) <= atol + rtol * abs(b)."""
    x, y = tensor(a), tensor(b)
    if not (dt.is_differentiable(x.dtype) or dt.is_differentiable(y.dtype)):
        x, y = x.astype(dt.float64), y.astype(dt.float64)  # differences of ints wrap around
    near = ops.less_equal(ops.abs(x - y), atol + rtol * ops.abs(y))
    near = ops.logical_or(ops.logical_and(near, ops.isfinite(y)), ops.equal(x, y))
    both = ops.logical_and(ops.isnan(x), ops.isnan(y))
    return ops.logical_or(near, both) if equal_nan else near


def _of_all(holds: Any) -> Any:
    """Whether it holds everywhere: a bool, as NumPy has it, or a tensor where no value is known."""
    found = ops.all(holds)
    return found if is_traced(found) else bool(found)


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether all elements are close, as isclose has it."""
    return _of_all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and the same elements; NaN equals NaN on demand."""
    x, y = tensor(a1), tensor(a2)
    pairs = list(zip(x.meta.dims, y.meta.dims))
    if x.ndim != y.ndim or not all(dm.may_equal(a, b) for a, b in pairs):
        return False
    for d in (a - b for a, b in pairs):
        if isinstance(d, dm.Dim):
            raise d.no_value(f"array_equal of {x.meta} and {y.meta}")
    same = ops.equal(x, y)
    if equal_nan and dt.is_differentiable(x.dtype) and dt.is_differentiable(y.dtype):
        same = ops.logical_or(same, ops.logical_and(ops.isnan(x), ops.isnan(y)))
    return _of_all(same)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear, as many comparisons for an x as there are points; computed in float64.

    With ``period`` the points are taken modulo it, in any order, and no end is left.
    """
    require_real("interp", x, xp)
    at, points, values = floating(x), floating(xp), floating(fp)
    if (points.ndim, values.ndim) != (1, 1) or not dm.may_equal(values.shape[0], points.shape[0]):
        raise ArgumentError(
            f"interp: xp and fp are 1-d and of one length, found {points.meta} and {values.meta}"
        )
    values = ops.reshape(values, points.shape)  # of sizes not known yet, checked when they are
    dtype = dt.promote(dt.promote(at.dtype, points.dtype), values.dtype)
    at, points = at.astype(dt.float64), points.astype(dt.float64)
    values = values.astype(dt.promote(values.dtype, dt.float64))
    if period is not None:
        at, points, values = _in_one_period(at, points, values, period)
        left = right = None
    count = points.shape[0]
    passed = ops.cast(ops.greater_equal(ops.unsqueeze(at, [-1]), points), dt.int64)
    number = ops.minimum(ops.maximum(ops.sum(passed, [-1]) - 1, 0), count - 2)
    x0, x1, y0, y1 = (v[n] for v in (points, values) for n in (number, number + 1))
    width = ops.where(x1 == x0, 1, x1 - x0)  # where points repeat, no slope is used
    slope = (y1 - y0) / width
    # from the point that is met, so that its value is exact, and the slope beside it the derivative
    is_last = at == x1
    met, of_met = ops.where(is_last, x1, x0), ops.where(is_last, y1, y0)
    inside = of_met + (at - met) * slope
    # from the other end where that is NaN; between two infinities that are alike there is one
    other = ops.where(y0 == y1, y0, y1 + (at - x1) * slope)
    inside = ops.where(ops.isnan(inside), other, inside)
    inside = ops.where((at == met) & ops.isnan(inside), of_met, inside)
    low, high = (values[0] if left is None else left), (values[-1] if right is None else right)
    found = ops.where(ops.less_than(at, points[0]), low, inside)
    found = ops.where(ops.greater_than(at, points[-1]), high, found)
    return ops.where(ops.isnan(at), math.nan, found).astype(dtype)


def _in_one_period(at: Any, points: Any, values: Any, period: Any) -> tuple[Any, Any, Any]:
    """All modulo the period, in order, with one point more on either side."""
    if not period:
        raise AttributeValueError("interp: period is a number other than 0, found 0")
    size = abs(period)
    at, points = ops.remainder(at, size), ops.remainder(points, size)
    points, order = ops.argsort(points)
    values = values[order]
    points = ops.concat([points[-1:] - size, points, points[:1] + size], 0)
    return at, points, ops.concat([values[-1:], values, values[:1]], 0)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays broadcast and then have the same elements."""
    x, y = tensor(a1), tensor(a2)
    try:
        common_shape("array_equiv", [x.shape, y.shape])
    except ShapeError:
        return False
    return _of_all(ops.equal(x, y))


def fix(x: Any, out: Any = None) -> Any:
    """The whole part, towards 0."""
    refuse(out=out)
    x = tensor(x)
    return of_truths(ops.trunc(x), x)


def shape(a: Any) -> Any:
    """The sizes of the axes."""
    return tensor(a).shape


def ndim(a: Any) -> int:
    """How many axes there are."""
    return int(tensor(a).ndim)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return dt.is_complex(tensor(x).dtype)


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def size(a: Any, axis: Any = None) -> Any:
    """How many elements there are, or along an axis, or some."""
    x = tensor(a)
    return x.size if axis is None else math.prod(x.shape[i] for i in axes_of(axis, x.ndim))


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """A copy."""
    check_order(order)
    return ops.assign(a) if isinstance(a, TensorBase) else owned_tensor(a)


NAMES: dict[str, Function] = {
    "where": where, "clip": clip, "round": round, "around": round, "nan_to_num": nan_to_num,
    "fix": fix, "array_equiv": array_equiv, "sinc": sinc, "angle": angle, "real": real,
    "imag": imag, "isclose": isclose, "allclose": allclose, "array_equal": array_equal,
    "interp": interp, "size": size, "copy": copy, "shape": shape, "ndim": ndim,
    "iscomplexobj": iscomplexobj, "isrealobj": isrealobj,
}  # fmt: skip
