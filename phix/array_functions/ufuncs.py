"""NumPy's ufuncs: functions of each element, with ``reduce``, ``accumulate`` and ``outer``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from phix import ops
from phix.array_functions import bits, lexicographic
from phix.array_functions.numpy_arguments import (
    cast_as_allowed,
    check_casting,
    check_order,
    default_float,
    floating,
    given,
    is_within,
    of_truths,
    operand,
    require_cast,
    tensor,
    titled,
    with_dtype,
)
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype
from phix.core.errors import DTypeError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.powers import check_powers
from phix.core.tensor import TensorBase
from phix.core.weak import weak_kind

Function = Callable[..., Any]


# -- what phix has under another name, or as an expression ---------------------------------------
def _power(x: Any, y: Any) -> Any:
    check_powers(x, y)
    return x**y if isinstance(x, TensorBase) else ops.elementwise_pow(x, y)


def _of_kind(function: Function) -> Function:
    """The function, of bools a bool: it gives one of its operands."""
    return lambda *operands: of_truths(function(*operands), *operands)


def _exp2(x: Any) -> Any:
    if isinstance(x, TensorBase) and dt.is_complex(x.dtype):  # infinite parts stay apart
        return ops.exp(ops.complex(*(part(x) * math.log(2) for part in (ops.real, ops.imag))))
    return ops.elementwise_pow(2.0, x)


def _float_power(x: Any, y: Any) -> Any:
    wide = [v.astype(dt.promote(v.dtype, dt.float64)) for v in (tensor(x), tensor(y))]
    return ops.elementwise_pow(*wide)


def _hypot(x: Any, y: Any) -> Any:
    """As a modulus: nothing overflows, and the gradient at 0 is 0."""
    x, y = _together(x, y)
    if x.dtype in (dt.float16, dt.bfloat16):
        return _hypot(x.astype(dt.float32), y.astype(dt.float32)).astype(x.dtype)
    return ops.abs(ops.complex(x, y))


def _logaddexp(x: Any, y: Any) -> Any:
    """high + log1p(exp(low - high)), which keeps its digits where it is near 0."""
    x, y = _together(x, y)
    if x.dtype in (dt.float16, dt.bfloat16):
        return _logaddexp(x.astype(dt.float32), y.astype(dt.float32)).astype(x.dtype)
    is_first = x >= y
    high, low = ops.where(is_first, x, y), ops.where(is_first, y, x)
    ends = ops.isinf(high) & (low == low)  # beside NaN all is NaN
    gap = ops.where(ends, float("-inf"), low - ops.where(ends, 0.0, high))
    return high + ops.log1p(ops.exp(gap))


def _logaddexp2(x: Any, y: Any) -> Any:
    x, y = _together(x, y)
    return _logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def _together(x: Any, y: Any) -> list[Any]:
    """Two floats of one dtype."""
    if all(weak_kind(v) is not None for v in (x, y)):
        x, y = tensor(x), tensor(y)
    dtype = common_dtype([x, y])
    wanted = dtype if dt.is_differentiable(dtype) else default_float()
    return [ops.cast(v if weak_kind(v) is not None else tensor(v), wanted) for v in (x, y)]


def _fmod(x: Any, y: Any) -> Any:
    """The rest with the sign of x."""
    rest = ops.remainder(x, y)
    if not dt.is_differentiable(rest.dtype):
        is_other = ops.logical_and(rest != 0, ops.less_than(x, 0) != ops.less_than(rest, 0))
        return ops.where(is_other, rest - tensor(y).astype(rest.dtype), rest)
    x, y = (tensor(v).astype(rest.dtype) for v in (x, y))  # before abs, that of the least int
    side = _side(x)
    return side * ops.remainder(side * x, ops.abs(y))


def _side(x: Any) -> Any:
    """-1 of what has a minus, -0.0 too, else 1: times x it is abs(x), with a slope at 0."""
    is_negative = ops.less_than(ops.copysign(ops.full((), 1.0, x.dtype), x), 0)
    return ops.where(is_negative, -1, 1)


def _heaviside(x: Any, y: Any) -> Any:
    is_float = weak_kind(x) not in (bool, int) and dt.is_differentiable(tensor(x).dtype)
    return ops.heaviside(x if is_float else floating(x), y)


def _divmod(x: Any, y: Any) -> Any:
    return ops.floor_divide(x, y), ops.remainder(x, y)


def _modf(x: Any) -> Any:
    whole = ops.trunc(x)
    return ops.where(ops.isinf(x), 0.0, x - whole), whole


def _cbrt(x: Any) -> Any:
    """The power, which is off by log(x) times what 1 / 3 is, and a step of Newton's."""
    side = _side(x)
    size = side * x
    root = ops.pow(size, 1 / 3)
    square = ops.stop_gradient(root * root)
    is_plain = ops.logical_and(square > 0, square < math.inf)
    step = ops.where(is_plain, (root - size / square) / 3, 0)
    return side * (root - ops.stop_gradient(step))


def _absolute(x: Any) -> Any:
    x = tensor(x)
    return x if x.dtype == dt.bool_ else ops.abs(x)


def _rint(x: Any) -> Any:
    if dt.is_complex(x.dtype):
        return ops.complex(ops.round(ops.real(x)), ops.round(ops.imag(x)))
    return ops.round(x)


def _vecdot(x: Any, y: Any) -> Any:
    x, y = tensor(x), tensor(y)
    first = ops.conj(x) if dt.is_complex(x.dtype) else x
    return ops.sum(_summands(first, y), [-1], dt.promote(x.dtype, y.dtype), False)


def _matmul(x: Any, y: Any) -> Any:
    return of_truths(ops.matmul(x, y), x, y)


def _matvec(x: Any, y: Any) -> Any:
    x, y = tensor(x), tensor(y)
    return of_truths(ops.matmul(x, ops.unsqueeze(y, [-1]))[..., 0], x, y)


def _vecmat(x: Any, y: Any) -> Any:
    x, y = tensor(x), tensor(y)
    first = ops.conj(x) if dt.is_complex(x.dtype) else x
    return of_truths(ops.matmul(ops.unsqueeze(first, [-2]), y)[..., 0, :], x, y)


def _summands(x: Any, y: Any) -> Any:
    return ops.multiply(x, y)


class _Ufunc(NamedTuple):
    """What a ufunc is: its function, how many arrays it takes, what it makes of them, its text."""

    function: Function
    inputs: int
    doc: str
    to_floats: bool = False  # of one array to floats: ints become floats first
    to_one: bool = False  # of all arrays to one dtype, in which they are not computed


def _rows(to_floats: bool, to_one: bool, inputs: int, **rows: tuple[Function, str]) -> Any:
    return {n: _Ufunc(f, inputs, doc, to_floats, to_one) for n, (f, doc) in rows.items()}


_TABLE: dict[str, _Ufunc] = {
    **_rows(
        True, False, 1,
        sin=(ops.sin, "The sine."), cos=(ops.cos, "The cosine."), tan=(ops.tan, "The tangent."),
        arcsin=(ops.asin, "The angle in [-pi/2, pi/2] whose sine is x."),
        arccos=(ops.acos, "The angle in [0, pi] whose cosine is x."),
        arctan=(ops.atan, "The angle in [-pi/2, pi/2] whose tangent is x."),
        sinh=(ops.sinh, "(exp(x) - exp(-x)) / 2."), cosh=(ops.cosh, "(exp(x) + exp(-x)) / 2."),
        tanh=(ops.tanh, "sinh(x) / cosh(x)."),
        arcsinh=(ops.asinh, "The inverse of sinh."), arccosh=(ops.acosh, "The inverse of cosh."),
        arctanh=(ops.atanh, "The inverse of tanh."), exp=(ops.exp, "e ** x."),
        expm1=(ops.expm1, "exp(x) - 1, right near 0."),
        exp2=(_exp2, "2 ** x."),
        log=(ops.log, "The natural logarithm."), log1p=(ops.log1p, "log(1 + x), right near 0."),
        log2=(ops.log2, "The logarithm to base 2."), log10=(ops.log10, "That to base 10."),
        sqrt=(ops.sqrt, "The square root."), cbrt=(_cbrt, "The cube root, of either sign."),
        fabs=(ops.abs, "The absolute value, as a float."),
        rint=(_rint, "The nearest whole number, of two the even one."),
        modf=(_modf, "The part behind the point, and the whole part, both with the sign of x."),
        deg2rad=(lambda x: x * (math.pi / 180), "x * pi / 180."),
        radians=(lambda x: x * (math.pi / 180), "x * pi / 180."),
        rad2deg=(lambda x: x * (180 / math.pi), "x * 180 / pi."),
        degrees=(lambda x: x * (180 / math.pi), "x * 180 / pi."),
        spacing=(bits.spacing, "The distance to the next number of the dtype, away from 0."),
        frexp=(bits.frexp, "(m, e) with x = m * 2 ** e, 0.5 <= abs(m) < 1, and e an int32."),
    ),
    **_rows(
        False, True, 1,
        isfinite=(ops.isfinite, "Whether it is neither infinite nor NaN."),
        isinf=(ops.isinf, "Whether it is infinite."), isnan=(ops.isnan, "Whether it is NaN."),
        logical_not=(ops.logical_not, "Whether it is 0 or False."),
        signbit=(bits.signbit, "Whether the bit of the sign is set: of -0.0 too."),
        bitwise_count=(bits.bitwise_count, "How many bits of abs(x) are set, as uint8."),
    ),
    **_rows(
        False, False, 1,
        absolute=(_absolute, "The absolute value; of complex numbers the modulus."),
        negative=(lambda x: -tensor(x), "-x."), positive=(tensor, "x as it is."),
        square=(ops.square, "x * x."), reciprocal=(ops.reciprocal, "1 / x, of ints as floats; "
                    "with a dtype of ints its whole part, and 0 for 0."),
        sign=(ops.sign, "-1, 0 or 1; of complex numbers x / abs(x). NaN stays."),
        conjugate=(ops.conj, "The complex conjugate."),
        floor=(_of_kind(ops.floor), "The largest whole number that is not above x; ints stay."),
        ceil=(_of_kind(ops.ceil), "The smallest whole number that is not below x; ints stay."),
        trunc=(_of_kind(ops.trunc), "The whole part, towards 0; ints stay."),
        invert=(ops.bitwise_not, "Each bit the other way; of bools not x."),
    ),
    **_rows(
        False, False, 2,
        add=(ops.add, "x1 + x2."), subtract=(ops.subtract, "x1 - x2."),
        multiply=(ops.multiply, "x1 * x2."), divide=(ops.divide, "x1 / x2, of ints as floats."),
        floor_divide=(ops.floor_divide, "The whole number not above x1 / x2."),
        remainder=(ops.remainder, "x1 - x2 * floor(x1 / x2), with the sign of x2."),
        fmod=(_fmod, "The rest of x1 / x2 with the sign of x1."),
        divmod=(_divmod, "(x1 // x2, x1 % x2)."), power=(_power, "x1 ** x2."),
        float_power=(_float_power, "x1 ** x2, computed in float64 or complex128."),
        maximum=(_of_kind(ops.maximum), "The larger one; NaN where one is NaN."),
        minimum=(_of_kind(ops.minimum), "The smaller one; NaN where one is NaN."),
        fmax=(_of_kind(ops.fmax), "The larger one; where one is NaN, the other."),
        fmin=(_of_kind(ops.fmin), "The smaller one; where one is NaN, the other."),
        arctan2=(ops.atan2, "The angle of the point (x2, x1), in [-pi, pi]."),
        heaviside=(_heaviside, "0 below 0, x2 at 0, 1 above."),
        hypot=(_hypot, "sqrt(x1 ** 2 + x2 ** 2); nothing overflows on the way."),
        logaddexp=(_logaddexp, "log(exp(x1) + exp(x2)); nothing overflows on the way."),
        logaddexp2=(_logaddexp2, "log2(2 ** x1 + 2 ** x2); nothing overflows on the way."),
        copysign=(ops.copysign, "abs(x1) with the sign of x2."),
        nextafter=(bits.nextafter, "The number of the dtype next to x1 towards x2."),
        ldexp=(bits.ldexp, "x1 * 2 ** x2 for ints x2."),
        gcd=(bits.gcd, "The greatest common divisor of abs(x1) and abs(x2)."),
        lcm=(bits.lcm, "The least common multiple of abs(x1) and abs(x2)."),
        bitwise_and=(ops.bitwise_and, "x1 & x2."), bitwise_or=(ops.bitwise_or, "x1 | x2."),
        bitwise_xor=(ops.bitwise_xor, "x1 ^ x2."),
        left_shift=(ops.bitwise_left_shift, "x1 << x2."),
        right_shift=(ops.bitwise_right_shift, "x1 >> x2."),
        matmul=(_matmul, "The product of matrices, the last two axes; those before broadcast."),
        matvec=(_matvec, "A matrix, the last two axes of x1, times a vector, the last of x2."),
        vecmat=(_vecmat, "The conjugate of a vector times a matrix."),
    ),
    **_rows(
        False, True, 2,
        equal=(ops.equal, "x1 == x2."), not_equal=(ops.not_equal, "x1 != x2."),
        less=(ops.less_than, "x1 < x2."), less_equal=(ops.less_equal, "x1 <= x2."),
        greater=(ops.greater_than, "x1 > x2."), greater_equal=(ops.greater_equal, "x1 >= x2."),
        logical_and=(ops.logical_and, "Whether neither is 0 or False."),
        logical_or=(ops.logical_or, "Whether one is neither 0 nor False."),
        logical_xor=(ops.logical_xor, "Whether one is 0 or False, and the other is not."),
    ),
}  # fmt: skip
_OF_COMPLEX = {**lexicographic.COMPARISONS, **lexicographic.PAIRS}
_OF_INTS: dict[str, Function] = {  # where a dtype of ints is asked for
    "reciprocal": lambda x: ops.sign(x) * ops.floor_divide(1, ops.abs(x)),
}
_USUAL = ("same_kind", "K", True, None)
# by name what refuses operands of which it is known that there is no result in their dtype
CHECKS: dict[str, Function] = {"power": check_powers}
_COUNTS = {"ldexp": 1}  # by name the operand that is a count, in a dtype of its own


def _refuse_settings(out: Any, where: Any, casting: Any, order: Any, more: tuple[Any, ...]) -> None:
    if out is not None and not (isinstance(out, tuple) and all(v is None for v in out)):
        raise NotOfferedError("out=")
    if where is not True:
        raise NotOfferedError("where=")
    if (casting, order, *more) == _USUAL:
        return
    check_casting(casting)
    check_order(order)
    if more != _USUAL[2:]:
        raise NotOfferedError("subok= or signature=")


def _cast(value: Any, dtype: Any, casting: Any) -> Any:
    """An operand in the dtype asked for; Python's ints and bools go into any, and its other
    numbers into those that are wide enough."""
    kind = weak_kind(value)
    if kind in (bool, int) or (
        kind is not None and is_within(kind.__name__, dt.kind(dt.as_dtype(dtype)))
    ):
        return with_dtype(tensor(value), dtype)
    return cast_as_allowed(tensor(value), dtype, casting)


def _check_casts(inputs: tuple[Any, ...], values: list[Any], found: Any, casting: Any) -> None:
    """Refuse operands that a rule of casts keeps out of the dtype in which all were computed."""
    first = found[0] if isinstance(found, tuple) else found
    dtype = common_dtype(values)
    if dt.is_differentiable(first.dtype) and not dt.is_differentiable(dtype):
        dtype = first.dtype
    for value in inputs:
        if weak_kind(value) is None:
            require_cast(tensor(value).dtype, dtype, casting)


def _in_dtype(name: str, found: Any, dtype: Any) -> Any:
    """Results of operands in a dtype, the first of which has it; sums of truths are truths.

    Raises:
        DTypeError: the function gives another one.
    """
    first, wanted = found[0] if isinstance(found, tuple) else found, dt.as_dtype(dtype)
    if name == "add" and wanted == dt.bool_:
        return found.astype(wanted)
    if first.dtype != wanted:
        raise DTypeError(f"{name} gives {first.dtype}, not {wanted}; leave dtype= out")
    return found


def _to_cast_to(name: str, values: list[Any], dtype: Any) -> Any:
    """The dtype of operands for results in one: absolute values of complex numbers are floats."""
    wanted = dt.as_dtype(dtype)
    are_moduli = name == "absolute" and lexicographic.are_complex(*values)
    return dt.promote(wanted, dt.complex64) if are_moduli and dt.is_float(wanted) else wanted


def _in_one_dtype(name: str, row: _Ufunc, values: list[Any], dtype: Any, casting: Any) -> list[Any]:
    """The operands in the dtype asked for, those whose own does not matter as they are."""
    if row.to_one:
        return values
    wanted = _to_cast_to(name, values, dtype)
    count = _COUNTS.get(name)
    return [v if i == count else _cast(v, wanted, casting) for i, v in enumerate(values)]


def _function(name: str, row: _Ufunc, values: list[Any], dtype: Any) -> Function:
    """What computes it of such values, for results in such a dtype."""
    if name in _OF_COMPLEX and lexicographic.are_complex(*values):
        return _OF_COMPLEX[name]
    if name in _OF_INTS and dtype is not None and dt.has_ints_alone(dt.as_dtype(dtype)):
        return _OF_INTS[name]
    return row.function


_ALL_CASTS = ("same_kind", "unsafe", None)  # rules that allow the casts of operands to each other


def _ufunc(name: str, row: _Ufunc) -> Function:
    to_floats = row.to_floats

    def computed(inputs: tuple[Any, ...], dtype: Any, casting: Any) -> Any:
        values = [floating(v) if to_floats else operand(v) for v in inputs]
        if dtype is not None:
            values = _in_one_dtype(name, row, values, dtype, casting)
        found = _function(name, row, values, dtype)(*values)
        if dtype is not None:
            return _in_dtype(name, found, dtype)
        if casting not in _ALL_CASTS:
            _check_casts(inputs, values, found, casting)
        return found

    def unary(
        x: Any, /, out: Any = None, *, where: Any = True, casting: Any = "same_kind",
        order: Any = "K", dtype: Any = None, subok: Any = True, signature: Any = None,
    ) -> Any:  # fmt: skip
        _refuse_settings(out, where, casting, order, (subok, signature))
        return computed((x,), dtype, casting)

    def binary(
        x1: Any, x2: Any, /, out: Any = None, *, where: Any = True, casting: Any = "same_kind",
        order: Any = "K", dtype: Any = None, subok: Any = True, signature: Any = None,
    ) -> Any:  # fmt: skip
        _refuse_settings(out, where, casting, order, (subok, signature))
        return computed((x1, x2), dtype, casting)

    return titled(unary if row.inputs == 1 else binary, name, row.doc)


def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: Any = -1, dtype: Any = None) -> Any:
    """The sum of conj(x1) * x2 along one axis of both, which is counted from the end."""
    if out is not None:
        raise NotOfferedError("out=")
    x, y = (_cast(v, dtype, "same_kind") for v in (x1, x2))
    if given(axis) and axis != -1:
        x, y = (ops.transpose(v, _to_the_end(axis, v)) for v in (x, y))
    return _vecdot(x, y)


def _to_the_end(axis: int, x: Any) -> list[int]:
    at = range(x.ndim)[axis]
    return [*(i for i in range(x.ndim) if i != at), at]


def _outer(function: Function) -> Function:
    def outer(a: Any, b: Any, *, dtype: Any = None) -> Any:
        """The function of each element of the one array with each of the other."""
        x, y = tensor(a), tensor(b)
        return function(ops.reshape(x, (*x.shape, *(1,) * y.ndim)), y, dtype=dtype)

    return outer


ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_not": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "conj": "conjugate", "mod": "remainder", "pow": "power",
    "true_divide": "divide",
}  # fmt: skip
UFUNCS: dict[str, Function] = {n: _ufunc(n, row) for n, row in _TABLE.items()}
NAMES: dict[str, Function] = {
    **UFUNCS, "vecdot": vecdot, **{n: UFUNCS[of] for n, of in ALIASES.items()},
}  # fmt: skip
_OF_ROWS, _OF_TWO_RESULTS = ("matmul", "matvec", "vecmat"), ("divmod", "modf", "frexp")
# Those of each element: with two operands, and with one result.
BINARY = [n for n, row in _TABLE.items() if row.inputs == 2 and n not in _OF_ROWS]
SINGLE = [n for n in _TABLE if n not in _OF_ROWS + _OF_TWO_RESULTS]
METHODS: dict[tuple[str, str], Function] = {(n, "outer"): _outer(UFUNCS[n]) for n in BINARY}
