"""What a call is equal to: the table of algebra, applied wherever graphs are written down.

| name               | pattern                                                          |
|--------------------|------------------------------------------------------------------|
| fold_constants     | a call of exact arithmetic on constants is a constant            |
| neutral_operand    | x * 1, x / 1, x - 0, x + (-0.0), scale(x, 1) are x               |
| same_meta          | cast to the own dtype, reshape or expand to the own shape: x     |
| reduce_nothing     | a reduction over no axis is x                                    |
| own_inverse        | -(-x), conj(conj(x)), flip(flip(x)), not(not(x)) are x           |
| idempotent         | abs(abs(x)) is abs(x); floor, ceil, trunc, round, sign alike     |
| equal_operands     | max(x, x), min(x, x), x & x, x or x, where(c, x, x) are x        |
| add_negative       | x + (-y) is x - y, x - (-y) is x + y                             |
| cast_of_cast       | a cast that loses nothing, and another: the other alone          |
| view_of_view       | two transposes, reshapes or expands are one                      |
| expanded_operand   | an operand that broadcasting expands need not be expanded        |
| sum_of_expand      | the sum of n equal values is n times the value                   |

All hold for NaN, infinities and both zeros, which is why x + 0.0 (it turns -0.0 into 0.0) and x * 0
are missing. A rule gets the args of the call. It answers with a tensor, with another call, or
with None where its pattern does not match. ``rules.origin(x)`` is the call that made ``x``.
What reads and writes at computed places has its rows in :mod:`.index_simplifications`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.conversion import tensor_from_scalar
from phix.core.rules import Call
from phix.core.tensor import Tensor

# Sums of at most this many equal values are products, by the float dtype: the count is exact.
_EXACT_COUNT = {dt.float32: 2**24, dt.float64: 2**53}


def _is_scalar(x: Any) -> bool:
    """Whether ``x`` is a 0-d constant."""
    return isinstance(x, Tensor) and x.ndim == 0


def _is(x: Any, value: Any) -> bool:
    """Whether ``x`` is a 0-d constant of that value, zeros told apart by their signs."""
    if not _is_scalar(x):
        return False
    found = x.host.item()
    if isinstance(found, complex) or found != value:
        return bool(found == value and value)
    return math.copysign(1.0, found) == math.copysign(1.0, value)


def made_by(x: Any, *names: str) -> tuple[Any, ...] | None:
    """The args of the call that made ``x``, if it is of one of these ops."""
    call = rules.origin(x)
    return call.args if call is not None and call.op in names else None


def _is_negative(x: Any) -> Any:
    """What ``x`` is the negative of, or None."""
    args = made_by(x, "scale")
    return args[0] if args is not None and _factor(*args[1:]) == -1 else None


def _factor(scale: Any, bias: Any, bias_after_scale: bool) -> Any:
    """What ``scale`` multiplies by, if that is all it does."""
    plain = type(scale) in (int, float) and type(bias) in (int, float)
    return scale if plain and bias == 0 and _adds_nothing(scale, bias) else None


def _adds_nothing(scale: Any, bias: Any) -> bool:
    # the body of scale leaves a bias of 0.0 out
    return bool(math.copysign(1.0, bias) > 0)


# -- constants ---------------------------------------------------------------------------------
_EXACT: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
}  # fmt: skip
_FOLDED = (dt.float32, dt.float64, dt.int32, dt.int64)


def _folded(result: Any, dtype: Any) -> Any:
    return tensor_from_scalar(result.item(), dtype)


@rules.simplify("fold_constants", "exact arithmetic on constants is done at once", *_EXACT)
def fold(op: str, x: Any, y: Any) -> Any:
    if not (_is_scalar(x) and _is_scalar(y) and x.dtype == y.dtype and x.dtype in _FOLDED):
        return None
    if op == "divide" and not dt.is_float(x.dtype):
        return None
    with np.errstate(all="ignore"):
        return _folded(_EXACT[op](x.host, y.host), x.dtype)


@rules.simplify("fold_constants", "exact arithmetic on constants is done at once", "scale")
def fold_scale(op: str, x: Any, scale: Any, bias: Any, bias_after_scale: bool) -> Any:
    factor = _factor(scale, bias, bias_after_scale)
    if factor is None or not _is_scalar(x) or x.dtype not in (dt.float32, dt.float64):
        return None
    with np.errstate(all="ignore"):
        return _folded(x.host * x.dtype.type(factor), x.dtype)


@rules.simplify("fold_constants", "exact arithmetic on constants is done at once", "cast")
def fold_cast(op: str, x: Any, dtype: Any) -> Any:
    # a float that is no int has no int to become
    if not _is_scalar(x) or x.dtype not in _FOLDED or dtype not in _FOLDED:
        return None
    if dt.is_float(x.dtype) and not dt.is_float(dtype):
        return None
    with np.errstate(all="ignore"):
        return _folded(x.host.astype(dtype), dtype)


# -- calls that are one of their inputs ----------------------------------------------------------
@rules.simplify("neutral_operand", "x * 1, x / 1, x - 0, x + (-0.0), scale(x, 1) are x", "multiply")
def times_one(op: str, x: Any, y: Any) -> Any:
    return x if _is(y, 1) else y if _is(x, 1) else None


@rules.simplify("neutral_operand", "", "divide")
def over_one(op: str, x: Any, y: Any) -> Any:
    return x if _is(y, 1) else None


@rules.simplify("neutral_operand", "", "subtract")
def minus_zero(op: str, x: Any, y: Any) -> Any:
    return x if _is(y, 0) and not dt.is_complex(x.dtype) else None


@rules.simplify("neutral_operand", "", "add")
def plus_zero(op: str, x: Any, y: Any) -> Any:
    zero = -0.0 if dt.is_float(x.dtype) else 0
    return x if _is(y, zero) else y if _is(x, zero) else None


@rules.simplify("neutral_operand", "", "scale")
def scale_by_one(op: str, x: Any, scale: Any, bias: Any, bias_after_scale: bool) -> Any:
    return x if _factor(scale, bias, bias_after_scale) == 1 else None


@rules.simplify("same_meta", "a cast, reshape, expand or transpose that changes nothing", "cast")
def same_dtype(op: str, x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else None


@rules.simplify("same_meta", "", "reshape", "expand")
def same_shape(op: str, x: Any, shape: Any) -> Any:
    return x if dm.same_shape(x.meta.dims, shape) else None


@rules.simplify("same_meta", "", "transpose")
def same_order(op: str, x: Any, perm: Any) -> Any:
    return x if perm == tuple(range(len(perm))) else None


@rules.simplify("reduce_nothing", "a reduction over no axis is its operand", "sum")
def sum_of_nothing(op: str, x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    return x if not axis and x.dtype == dtype else None


@rules.simplify("reduce_nothing", "", "reduce_as")
def reduce_as(op: str, x: Any, target: Any) -> Any:
    return x if dm.same_shape(x.meta.dims, target.meta.dims) else None


@rules.simplify("own_inverse", "-(-x), conj(conj(x)), flip(flip(x)), not(not(x)) are x", "scale")
def negative_of_negative(op: str, x: Any, scale: Any, bias: Any, bias_after_scale: bool) -> Any:
    return _is_negative(x) if _factor(scale, bias, bias_after_scale) == -1 else None


@rules.simplify("own_inverse", "", "conj", "bitwise_not", "flip")
def twice(op: str, x: Any, *attrs: Any) -> Any:
    inner = made_by(x, op)
    return inner[0] if inner is not None and inner[1:] == attrs else None


@rules.simplify("own_inverse", "", "logical_not")
def not_of_not(op: str, x: Any) -> Any:
    inner = made_by(x, op)  # of a number, not(not(x)) is a truth value
    return inner[0] if inner is not None and inner[0].dtype == dt.bool_ else None


@rules.simplify(
    "idempotent", "abs(abs(x)) is abs(x), and floor and their like",
    "abs", "floor", "ceil", "trunc", "round", "sign",
)  # fmt: skip
def again(op: str, x: Any, *attrs: Any) -> Any:
    inner = made_by(x, op)
    return x if inner is not None and inner[1:] == attrs else None


@rules.simplify(
    "equal_operands", "max(x, x), min(x, x), x & x, where(c, x, x) are x",
    "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "where",
)  # fmt: skip
def equal_operands(op: str, *inputs: Any) -> Any:
    *condition, x, y = inputs
    return x if x is y and all(_broadcasts(c, x) for c in condition) else None


def _broadcasts(x: Any, y: Any) -> bool:
    """Whether ``x`` is known to broadcast to the dims of ``y``."""
    if x.ndim > y.ndim:
        return False
    pairs = zip(x.meta.dims, y.meta.dims[y.ndim - x.ndim :])
    return all(dm.is_one(a) or dm.same(a, b) for a, b in pairs)


# -- calls that are others -----------------------------------------------------------------------
@rules.simplify("add_negative", "x + (-y) is x - y, and x - (-y) is x + y", "add", "subtract")
def add_negative(op: str, x: Any, y: Any) -> Any:
    inner = _is_negative(y)
    if inner is not None:
        return Call("subtract" if op == "add" else "add", (x, inner))
    inner = _is_negative(x) if op == "add" else None
    return None if inner is None else Call("subtract", (y, inner))


# dtype -> those that hold each of its values
_WIDER = {
    dt.float16: (dt.float32, dt.float64),
    dt.bfloat16: (dt.float32, dt.float64),
    dt.float32: (dt.float64,),
    dt.int8: (dt.int16, dt.int32, dt.int64, dt.float32, dt.float64),
    dt.uint8: (dt.int16, dt.int32, dt.int64, dt.float32, dt.float64),
    dt.int16: (dt.int32, dt.int64, dt.float32, dt.float64),
    dt.int32: (dt.int64, dt.float64),
    dt.bool_: (dt.uint8, dt.int8, dt.int32, dt.int64, dt.float32, dt.float64),
}


@rules.simplify("cast_of_cast", "a cast to a dtype that holds every value goes", "cast")
def cast_of_cast(op: str, x: Any, dtype: Any) -> Any:
    inner = made_by(x, "cast")
    if inner is None or x.dtype not in _WIDER.get(inner[0].dtype, ()):
        return None
    return Call("cast", (inner[0], dtype))


@rules.simplify("view_of_view", "two transposes, reshapes or expands are one", "reshape", "expand")
def reshape_of_reshape(op: str, x: Any, shape: Any) -> Any:
    inner = made_by(x, op)
    if inner is None or not _fits_for_sure(op, inner[0].meta.dims, x.meta.dims):
        return None  # the check of the inner one is made in the run
    return Call(op, (inner[0], shape))


def _fits_for_sure(op: str, given: dm.Shape, dims: dm.Shape) -> bool:
    """Whether a tensor of unknown dims becomes one of ``dims`` whatever they are."""
    if op == "reshape":
        return dm.same_shape((dm.product(given),), (dm.product(dims),))
    return all(dm.is_one(d) or dm.same_shape((d,), (e,)) for d, e in zip(given[::-1], dims[::-1]))


@rules.simplify("view_of_view", "", "transpose")
def transpose_of_transpose(op: str, x: Any, perm: Any) -> Any:
    inner = made_by(x, op)
    return None if inner is None else Call(op, (inner[0], tuple(inner[1][p] for p in perm)))


def _unexpanded(x: Any) -> Any:
    """What ``x`` is an expansion of, by broadcasting, too: it has no more axes. A tensor of one
    element without its dims."""
    args = made_by(x, "expand")
    if args is None:
        return None
    inner = args[0]
    while (viewed := made_by(inner, "reshape")) is not None and _is_single(viewed[0]):
        if viewed[0].ndim > x.ndim:
            break
        inner = viewed[0]
    return inner


def _is_single(x: Any) -> bool:
    return all(map(dm.is_one, x.meta.dims))


@rules.simplify(
    "expanded_operand", "an operand that broadcasting expands need not be expanded",
    "add", "subtract", "multiply", "divide", "maximum", "minimum",
)  # fmt: skip
def expanded_operand(op: str, x: Any, y: Any) -> Any:
    for number, operand in enumerate((x, y)):
        inner = _unexpanded(operand)
        if inner is not None and dm.same_shape(x.meta.dims, y.meta.dims):
            return Call(op, (inner, y) if number == 0 else (x, inner))
    return None


@rules.simplify("sum_of_expand", "the sum of n equal values is n times the value", "sum")
def sum_of_expand(op: str, x: Any, axis: Any, dtype: Any, keepdim: bool) -> Any:
    args = made_by(x, "expand")
    if args is None or x.dtype != dtype or not axis:
        return None
    source, dims = args[0], x.meta.dims
    own = (1,) * (len(dims) - source.ndim) + tuple(source.meta.dims)
    if not all(dm.is_one(own[a]) and dm.is_known(dims[a]) for a in axis):
        return None
    count = math.prod(dims[a] for a in axis)
    if not 0 < count <= _EXACT_COUNT.get(dtype, 0):
        return None
    left = [a for a in range(len(dims)) if a not in axis]
    small = own if keepdim else tuple(own[a] for a in left)
    shape = tuple(1 if a in axis else d for a, d in enumerate(dims) if keepdim or a in left)
    view = Call("expand", (Call("reshape", (source, small)), shape))
    product = Call("multiply", (view, tensor_from_scalar(float(count), dtype)))
    # a sum starts at 0.0, so that of zeros is 0.0 and not -0.0
    return Call("add", (product, tensor_from_scalar(0.0, dtype)))
