"""Elementwise ops: how their meta is inferred, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.attrs import check_number
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.meta import MetaTensor
from phix.core.tensor import TensorBase
from phix.primitives.broadcasting import check_computes, unbroadcast
from phix.primitives.widening import as_dtype, in_float32


def broadcast_shapes(*shapes: dm.Shape) -> dm.Shape:
    """The shape several shapes broadcast to, aligned at the last dim.

    Raises:
        ShapeError: two dims known to differ, neither of them 1.
    """
    first = shapes[0]
    for shape in shapes:
        if not dm.same_shape(shape, first):
            break
    else:
        return first
    rank = max(map(len, shapes))
    out: list[dm.DimLike] = []
    for i in range(-rank, 0):
        dim: dm.DimLike = 1
        for shape in shapes:
            if -i > len(shape):
                continue
            met = dm.broadcast(dim, shape[i])
            if met is None:
                shown = " and ".join(dm.shape_text(s) for s in shapes)
                raise ShapeError(
                    f"shapes {shown} do not broadcast: dim {i} is {dim} and {shape[i]}; "
                    "make them equal, or one of them 1"
                )
            dim = met
        out.append(dim)
    return tuple(out)


@rules.infer_meta("UnchangedInferMeta")
def unchanged(x: MetaTensor, *attrs: Any) -> MetaTensor:
    return x


@rules.infer_meta("ElementwiseInferMeta")
def elementwise(x: MetaTensor, *others: MetaTensor) -> MetaTensor:
    dims = x.dims
    for y in others:
        dims = broadcast_shapes(dims, y.dims)
    return x if dims is x.dims else MetaTensor(dims, x.dtype)


@rules.infer_meta("CompareInferMeta")
def compare(x: MetaTensor, *others: MetaTensor) -> MetaTensor:
    return MetaTensor(elementwise(x, *others).dims, dt.bool_)


@rules.infer_meta("ToBoolInferMeta")
def to_bool(x: MetaTensor) -> MetaTensor:
    return x.with_dtype(dt.bool_)


@rules.infer_meta("RealAndImagInferMeta")
def real_part(x: MetaTensor) -> MetaTensor:
    return x.with_dtype(dt.real_dtype(x.dtype))


@rules.infer_meta("ComplexInferMeta")
def complex_meta(real: MetaTensor, imag: MetaTensor) -> MetaTensor:
    return MetaTensor(broadcast_shapes(real.dims, imag.dims), dt.complex_dtype(real.dtype))


@rules.infer_meta("WhereInferMeta")
def where_meta(condition: MetaTensor, x: MetaTensor, y: MetaTensor) -> MetaTensor:
    if condition.dtype != dt.bool_:
        raise DTypeError(f"condition must be bool, found {condition}; write condition != 0")
    return MetaTensor(broadcast_shapes(condition.dims, x.dims, y.dims), x.dtype)


@rules.infer_meta("PowInferMeta")
def pow_meta(x: MetaTensor, y: Any) -> MetaTensor:
    if isinstance(y, dm.Dim):
        raise y.no_value("the exponent of pow (x ** n takes any)")
    kind: Any = type(y)
    return x.with_dtype(dt.promote_weak(x.dtype, kind))


@rules.infer_meta("CastInferMeta")
def cast_meta(x: MetaTensor, dtype: Any) -> MetaTensor:
    return x.with_dtype(dtype)


def conj(x: Any) -> Any:
    """The conjugate; a real tensor is its own. Cotangents of holomorphic f are conj(f') * g."""
    return ops.conj(x) if x.dtype.kind == "c" else x


@rules.decompose("add_grad")
def add_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return unbroadcast(out_grad, x), unbroadcast(out_grad, y)


@rules.decompose("subtract_grad")
def subtract_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return unbroadcast(out_grad, x), unbroadcast(-out_grad, y)


@rules.decompose("multiply_grad")
def multiply_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return unbroadcast(out_grad * conj(y), x), unbroadcast(out_grad * conj(x), y)


@rules.decompose("divide_grad")
def divide_grad(x: Any, y: Any, out: Any, out_grad: Any) -> Any:
    over_y = out_grad / conj(y)
    return unbroadcast(over_y, x), unbroadcast(-over_y * conj(out), y)


# -- one input: out_grad * conj(f'(x)) ----------------------------------------------------------
# Where f' is simplest in terms of the result, the rule gets out, else x.
TWO_OVER_SQRT_PI = 1.1283791670955126
_ONE_OVER_SQRT_2_PI = 0.3989422804014327
_SQRT_HALF = 0.7071067811865476
_LN_2, _LN_10 = 0.6931471805599453, 2.302585092994046


# Of complex numbers the factors have roots of their own: those of products lie across the cuts,
# and products overflow. The sign of a zero, which is kept, says on which side of a cut x is.
def _shifted(x: Any, by: float) -> Any:
    return ops.complex(ops.real(x) + by, ops.imag(x))


def _acosh_slope(x: Any) -> Any:
    if dt.is_complex(x.dtype):
        return ops.rsqrt(_shifted(x, -1)) * ops.rsqrt(_shifted(x, 1))
    return ops.rsqrt(x - 1) * ops.rsqrt(x + 1)


def _less_square(x: Any) -> Any:
    """1 - x^2: as a product next to 1 and -1, and as it stands next to 0, where the derivative of
    the product would cancel."""
    return ops.where(ops.abs(x) < 0.5, 1 - x * x, (1 - x) * (1 + x))


def _asin_slope(x: Any) -> Any:
    """That of acosh, times i or -i: the root of -w is -i or i times that of w."""
    if not dt.is_complex(x.dtype):
        return ops.rsqrt(_less_square(x))
    side = ops.copysign(ops.full((), 1, dt.real_dtype(x.dtype)), ops.imag(x))
    return ops.complex(ops.full((), 0, side.dtype), side) * _acosh_slope(x)


def _asinh_slope(x: Any) -> Any:
    """That of asin at i x."""
    if dt.is_complex(x.dtype):
        return _asin_slope(ops.complex(-ops.imag(x), ops.real(x)))
    far = ops.abs(x) > 1  # in units of x, whose square overflows
    near, part = ops.where(far, 0.0, x), ops.reciprocal(ops.where(far, x, 1.0))
    return ops.where(far, ops.abs(part) * ops.rsqrt(1 + part * part), ops.rsqrt(1 + near * near))


def _atan_slope(x: Any) -> Any:
    return 1 / (x - 1j) / (x + 1j) if dt.is_complex(x.dtype) else 1 / (1 + x * x)


def _atanh_slope(x: Any) -> Any:
    return 1 / (1 - x) / (1 + x) if dt.is_complex(x.dtype) else 1 / _less_square(x)


SLOPES_AT_X: dict[str, Callable[[Any], Any]] = {
    "expm1": lambda x: ops.exp(x),  # far below 0, where the result is -1, it has no digits
    "log": lambda x: 1 / x,
    "log1p": lambda x: 1 / (1 + x),
    "log2": lambda x: 1 / (x * _LN_2),
    "log10": lambda x: 1 / (x * _LN_10),
    "sin": lambda x: ops.cos(x),
    "cos": lambda x: -ops.sin(x),
    "asin": lambda x: _asin_slope(x),
    "acos": lambda x: -_asin_slope(x),
    "atan": lambda x: _atan_slope(x),
    "sinh": lambda x: ops.cosh(x),
    "cosh": lambda x: ops.sinh(x),
    "asinh": lambda x: _asinh_slope(x),
    "acosh": lambda x: _acosh_slope(x),
    "atanh": lambda x: _atanh_slope(x),
    "erf": lambda x: ops.exp(-x * x) * TWO_OVER_SQRT_PI,
    "erfc": lambda x: ops.exp(-x * x) * -TWO_OVER_SQRT_PI,
    "ndtr": lambda x: ops.normal_density(x),
    "normal_density": lambda x: -x * ops.normal_density(x),
    "lgamma": lambda x: ops.digamma(x),
    "digamma": lambda x: ops.polygamma(x, 1),
}
SLOPES_AT_OUT: dict[str, Callable[[Any], Any]] = {
    "exp": lambda out: out,
    "sqrt": lambda out: 0.5 / out,
    "rsqrt": lambda out: -0.5 * out * out * out,
    "tan": lambda out: 1 + out * out,
    "tanh": lambda out: 1 - out * out,
    "erfinv": lambda out: ops.exp(out * out) / TWO_OVER_SQRT_PI,
}


def _register(name: str, slope: Callable[[Any], Any]) -> None:
    @rules.decompose(f"{name}_grad")
    @in_float32
    def backward(saved: Any, out_grad: Any) -> Any:
        return out_grad * conj(slope(saved))


for _name, _slope in (SLOPES_AT_X | SLOPES_AT_OUT).items():
    _register(_name, _slope)


# From here on the asymptotic series of erfcx, of so many terms, is right to 2e-13.
_FAR, _TERMS = 10.0, 10


@rules.decompose("erfcx_grad")
def erfcx_grad(x: Any, out: Any, out_grad: Any) -> Any:
    """2 x erfcx(x) - 2 / sqrt(pi), in float64; far from 0, where the two cancel, by the series
    2 / sqrt(pi) (-t / 2 + 3 t^2 / 4 - 15 t^3 / 8 + ...) of t = 1 / x^2."""
    wide = as_dtype(x, dt.float64)
    is_far = wide > _FAR
    near, far = ops.where(is_far, 0.0, wide), ops.where(is_far, wide, _FAR)
    t = 1 / (far * far)
    total: Any = 1.0
    for k in range(_TERMS - 1, 0, -1):  # -t / 2 (1 - 3 t / 2 (1 - 5 t / 2 (...)))
        total = 1.0 - (k + 0.5) * t * total
    at_near = 2 * near * ops.erfcx(near) - TWO_OVER_SQRT_PI
    slope = ops.where(is_far, -0.5 * TWO_OVER_SQRT_PI * t * total, at_near)
    return out_grad * as_dtype(slope, x.dtype)


@rules.decompose("log_ndtr")
@in_float32
def log_ndtr(x: Any) -> Any:
    """log(erfcx(-x / sqrt(2)) / 2) - x^2 / 2 where x < 0, log(1 - ndtr(-x)) elsewhere."""
    left, right = ops.where(x < 0, x, 0.0), ops.where(x < 0, 0.0, x)
    below = ops.log(0.5 * ops.erfcx(left * -_SQRT_HALF)) - 0.5 * left * left
    return ops.where(x < 0, below, ops.log1p(-ops.ndtr(-right)))


@rules.decompose("log_ndtr_grad")
@in_float32
def log_ndtr_grad(x: Any, out: Any, out_grad: Any) -> Any:
    """The density over the probability, in which the same powers cancel where x < 0."""
    left = ops.where(x < 0, x, 0.0)
    below = 2 * _ONE_OVER_SQRT_2_PI / ops.erfcx(left * -_SQRT_HALF)
    right, far = ops.where(x < 0, 0.0, x), ops.where(x < 0, 0.0, out)
    above = ops.exp(-0.5 * right * right - far) * _ONE_OVER_SQRT_2_PI
    return out_grad * ops.where(x < 0, below, above)


@rules.decompose("polygamma_grad")
def polygamma_grad(x: Any, out_grad: Any, n: int) -> Any:
    return out_grad * ops.polygamma(x, n + 1)


@rules.decompose("abs_grad")
def abs_grad(x: Any, out_grad: Any) -> Any:
    """x / abs(x), and 0 at 0."""
    return out_grad * ops.sign(x)


@rules.decompose("sign_grad")
def sign_grad(x: Any, out_grad: Any) -> Any:
    """Of real numbers 0; complex ones turn by what lies across them, over their size."""
    if not dt.is_complex(x.dtype):
        return None
    size = ops.abs(x)
    return across(x, out_grad / ops.where(size == 0, 1.0, size))


def across(x: Any, y: Any) -> Any:
    """The part of the complex y at right angles to x, and 0 where x is 0."""
    side = ops.sign(x)
    share = ops.imag(ops.conj(side) * y)
    return side * ops.complex(ops.full((), 0, share.dtype), share)


@rules.decompose("pow_grad")
def pow_grad(x: Any, out_grad: Any, y: Any) -> Any:
    """y * x ** (y - 1), which is 0 everywhere for y = 0, at x = 0 too."""
    if y == 0:
        return ops.full(x.meta.dims, 0, x.dtype)
    slope = y if y == 1 else y * ops.pow(x, y - 1)
    return out_grad * (slope if y == 1 else conj(slope))


@rules.decompose("cast_grad")
def cast_grad(x: Any, out_grad: Any) -> Any:
    """Through a cast to ints nothing comes back: out_grad is then of no float dtype."""
    if not dt.is_differentiable(x.dtype):
        return None
    to_real = out_grad.dtype.kind == "c" and x.dtype.kind != "c"
    return ops.cast(ops.real(out_grad) if to_real else out_grad, x.dtype)


_NUMBER_OF = {"int": int, "float": float, "complex": complex}


_MOST_DECIMALS = 308  # the powers of ten that a float64 holds
_HIGHEST_POLYGAMMA = 170  # the factorials that it holds


@rules.normalize("round")
def round_attrs(x: MetaTensor, decimals: int) -> Any:
    return (_within(decimals, -_MOST_DECIMALS, _MOST_DECIMALS, "decimals"),)


@rules.normalize("polygamma")
def polygamma_attrs(x: MetaTensor, n: int) -> Any:
    return (_within(n, 0, _HIGHEST_POLYGAMMA, "n"),)


def _within(value: int, low: int, high: int, name: str) -> int:
    if not low <= value <= high:
        raise AttributeValueError(f"{name} must be an int from {low} to {high}, found {value}")
    return value


@rules.normalize("pow")
def pow_attrs(x: MetaTensor, y: Any) -> Any:
    if isinstance(y, complex):
        check_number(y, x.dtype, "y")
    return (y,)


@rules.normalize("scale")
def scale_attrs(x: MetaTensor, scale: Any, bias: Any, after: bool) -> Any:
    """Both numbers as x's own kind; ints cut off the fraction, as Paddle does."""
    kind = dt.kind(x.dtype)
    check_computes(x, "scale")
    dtype = dt.int64 if kind == "int" else x.dtype  # -1 times unsigned ints wraps around
    check_number(scale, dtype, "scale")
    check_number(bias, dtype, "bias")
    return _NUMBER_OF[kind](scale), _NUMBER_OF[kind](bias), after


@rules.decompose("scale_grad")
def scale_grad(out_grad: Any, scale: Any) -> Any:
    return ops.scale(out_grad, scale.conjugate(), 0.0, True)


@rules.jvp("scale")
def scale_jvp(primals: Any, tangents: Any, scale: Any, bias: Any, after: bool) -> Any:
    return ops.scale(primals[0], scale, bias, after), ops.scale(tangents[0], scale, 0.0, True)


@rules.operands("scale")
def scale_by_tensors(x: Any, scale: Any, bias: Any, after: bool) -> Any:
    factor, shift = number_for(x, scale), number_for(x, bias)
    return x * factor + shift if after else (x + shift) * factor


def number_for(x: Any, value: Any) -> Any:
    """A number, or a tensor of one, as x's own kind: ints cut off the fraction."""
    if not isinstance(value, TensorBase):
        return _NUMBER_OF[dt.kind(x.dtype)](value)
    if dt.is_complex(value.dtype) and not dt.is_complex(x.dtype):
        raise DTypeError(f"a complex number for {x.meta}; cast x to a complex dtype")
    return value.astype(x.dtype)


@rules.sizes("pow")
def ints_as_default_floats(x: Any, y: Any) -> Any:
    """Ints to a fraction are float32, as the op infers; of another default float made before."""
    is_other = isinstance(y, float) and dt.default_float() != dt.float32
    is_int = is_other and isinstance(x, TensorBase) and dt.kind(x.dtype) in ("int", "bool")
    return (x.astype(dt.default_float()) if is_int else x), y


@rules.operands("pow")
def pow_of_tensor(x: Any, y: Any) -> Any:
    if dt.kind(x.dtype) == "int" and dt.is_float(y.dtype):
        x = x.astype(dt.default_float())
    return ops.elementwise_pow(x, y.astype(x.dtype))


# -- complex parts ------------------------------------------------------------------------------
@rules.decompose("real_grad")
def real_grad(x: Any, out_grad: Any) -> Any:
    return ops.cast(out_grad, x.dtype)


@rules.decompose("imag_grad")
def imag_grad(x: Any, out_grad: Any) -> Any:
    if x.dtype.kind != "c":
        return ops.full(x.meta.dims, 0, x.dtype)
    return ops.complex(0.0 * out_grad, out_grad)


@rules.decompose("conj_grad")
def conj_grad(out_grad: Any) -> Any:
    return conj(out_grad)


@rules.decompose("complex_grad")
def complex_grad(real: Any, imag: Any, out_grad: Any) -> Any:
    return unbroadcast(ops.real(out_grad), real), unbroadcast(ops.imag(out_grad), imag)


# -- two inputs ---------------------------------------------------------------------------------
def _split_at_ties(x: Any, y: Any, out_grad: Any, x_wins: Any) -> Any:
    """The gradient to the winner, half to each at a tie."""
    half = ops.where(x == y, 0.5 * out_grad, 0.0 * out_grad)
    to_x = ops.where(x_wins, out_grad, half)
    to_y = ops.where(x_wins | (x == y), half, out_grad)
    return unbroadcast(to_x, x), unbroadcast(to_y, y)


@rules.decompose("maximum_grad")
def maximum_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return _split_at_ties(x, y, out_grad, x > y)


@rules.decompose("minimum_grad")
def minimum_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return _split_at_ties(x, y, out_grad, x < y)


def _all_to(x: Any, y: Any, out_grad: Any, to_x: Any) -> Any:
    nothing = 0.0 * out_grad
    return (
        unbroadcast(ops.where(to_x, out_grad, nothing), x),
        unbroadcast(ops.where(to_x, nothing, out_grad), y),
    )


@rules.decompose("fmax_grad")
def fmax_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return _all_to(x, y, out_grad, (x >= y) | ops.isnan(y))


@rules.decompose("fmin_grad")
def fmin_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return _all_to(x, y, out_grad, (x <= y) | ops.isnan(y))


@rules.decompose("where_grad")
def where_grad(condition: Any, x: Any, y: Any, out_grad: Any) -> Any:
    nothing = ops.full((), 0, out_grad.dtype)
    return (
        unbroadcast(ops.where(condition, out_grad, nothing), x),
        unbroadcast(ops.where(condition, nothing, out_grad), y),
    )


@rules.decompose("elementwise_pow_grad")
def elementwise_pow_grad(x: Any, y: Any, out_grad: Any) -> Any:
    """y x^(y-1) and log(x) x^y; the log is taken of 1 where x = 0, so the exponent's is 0.

    For y = 0 the first is 0 where 1 / x is not finite, too; elsewhere it depends on y.
    """
    is_flat = (y == 0) & ~ops.isfinite(ops.reciprocal(x))
    slope = y * ops.elementwise_pow(ops.where(is_flat, 1.0, x), y - 1)
    to_x = out_grad * conj(ops.where(is_flat, 0.0, slope))
    safe = ops.where(x == 0, 1.0, x)
    to_y = out_grad * conj(ops.log(safe) * ops.where(x == 0, 0.0, ops.elementwise_pow(safe, y)))
    return unbroadcast(to_x, x), unbroadcast(to_y, y)


@rules.decompose("atan2_grad")
def atan2_grad(x: Any, y: Any, out_grad: Any) -> Any:
    """(y, -x) / (x^2 + y^2), and 0 at the origin; in units of the larger one, whose square may
    overflow or vanish. The quotient does not depend on that unit, so no derivative goes through."""
    unit = ops.stop_gradient(ops.maximum(ops.abs(x), ops.abs(y)))
    unit = ops.where(unit == 0, 1.0, unit)
    u, v = x / unit, y / unit
    square = u * u + v * v
    over = out_grad / ops.where(square == 0, 1.0, square) / unit
    return unbroadcast(v * over, x), unbroadcast(-u * over, y)


@rules.decompose("remainder_grad")
def remainder_grad(x: Any, y: Any, out_grad: Any) -> Any:
    return unbroadcast(out_grad, x), unbroadcast(-out_grad * ops.floor_divide(x, y), y)
