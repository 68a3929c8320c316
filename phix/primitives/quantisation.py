"""Numbers as small ints with a scale, and back. 16-bit floats are computed in float32."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core import rules
from phix.core.errors import AttributeValueError, DTypeError, ShapeError
from phix.core.index_ranges import as_int64
from phix.core.meta import MetaTensor
from phix.primitives.positions import numbers
from phix.primitives.widening import as_dtype, in_float32

_TO_EVEN, _AWAY = 0, 1
_MOST_BITS = 16
_NO_SCALE, _SCALE_OF_NOTHING = 1e-30, 1e-6  # as in Paddle, for tensors of zeros


# -- checks ------------------------------------------------------------------------------------
def _check_rounding(bit_length: int, round_type: int) -> None:
    if not 2 <= bit_length <= _MOST_BITS:
        raise AttributeValueError(
            f"bit_length must be from 2 to {_MOST_BITS}, found {bit_length}: one bit is the sign"
        )
    if round_type not in (_TO_EVEN, _AWAY):
        raise AttributeValueError(
            f"round_type must be 0 (halves to even) or 1 (away from 0), found {round_type}"
        )


def _check_axis(x: MetaTensor, quant_axis: int) -> None:
    if quant_axis not in (0, 1) or quant_axis >= x.ndim:
        raise AttributeValueError(f"quant_axis must be 0 or 1, an axis of {x}; found {quant_axis}")


def _one(x: Any, name: str, dtype: Any) -> Any:
    """A tensor of one element, as [1] of that dtype."""
    if not dm.may_equal(dm.product(x.meta.dims), 1):
        raise ShapeError(f"{name} must have one element, found {x.meta}")
    return ops.reshape(as_dtype(x, dtype), (1,))


@rules.normalize("fake_quantize_abs_max")
@rules.normalize("fake_quantize_dequantize_abs_max")
def abs_max_attrs(x: MetaTensor, bit_length: int, round_type: int) -> Any:
    _check_rounding(bit_length, round_type)
    return bit_length, round_type


@rules.normalize("fake_channel_wise_quantize_abs_max")
@rules.normalize("fake_channel_wise_quantize_dequantize_abs_max")
def channel_wise_attrs(
    x: MetaTensor, bit_length: int, round_type: int, axis: int, *rest: Any
) -> Any:
    _check_rounding(bit_length, round_type)
    _check_axis(x, axis)
    return bit_length, round_type, axis, *rest


@rules.normalize("fake_quantize_moving_average_abs_max")
@rules.normalize("fake_quantize_dequantize_moving_average_abs_max")
def moving_average_attrs(
    x: MetaTensor, in_scale: Any, in_accum: Any, in_state: Any, rate: float, *rest: Any
) -> Any:
    bit_length, is_test, round_type = rest
    _check_rounding(bit_length, round_type)
    return rate, bit_length, is_test, round_type


@rules.normalize("fake_quantize_range_abs_max")
def range_attrs(x: MetaTensor, in_scale: Any, iter: Any, window_size: int, *rest: Any) -> Any:
    bit_length, is_test, round_type = rest
    _check_rounding(bit_length, round_type)
    if window_size < 1:
        raise AttributeValueError(f"window_size must be positive, found {window_size}")
    if iter is None and not is_test:
        raise AttributeValueError("iter, the number of the batch, is needed unless is_test")
    return window_size, bit_length, is_test, round_type


# -- ints with a scale -------------------------------------------------------------------------
def _largest(bits: int) -> float:
    return float(2 ** (bits - 1) - 1)


def _rounded(x: Any, round_type: int) -> Any:
    return ops.round(x) if round_type == _TO_EVEN else rounded_away(x)


def rounded_away(x: Any) -> Any:
    """The nearest integers, halves away from 0."""
    whole = ops.trunc(x)
    return ops.where(ops.abs(x - whole) >= 0.5, whole + ops.sign(x), whole)


def _quantised(x: Any, scale: Any, bit_length: int, round_type: int) -> Any:
    """The nearest ints, as floats; one more below 0 where halves go to even."""
    most = _largest(bit_length)
    safe = ops.where(scale <= _NO_SCALE, scale + _SCALE_OF_NOTHING, scale)
    if round_type == _TO_EVEN:
        return ops.clip(_rounded(most * (x / safe), round_type), -most - 1, most)
    bounded = ops.where(x > scale, scale, ops.where(x < -scale, -scale, x))
    return _rounded(most * (bounded / safe), round_type)


def _dequantised(x: Any, scale: Any, bit_length: int, round_type: int) -> Any:
    return _quantised(x, scale, bit_length, round_type) * scale / _largest(bit_length)


def _abs_max(x: Any) -> Any:
    return ops.reshape(ops.max(ops.abs(x), range(x.ndim)), (1,))


@rules.decompose("fake_quantize_abs_max")
@in_float32
def fake_quantize_abs_max(x: Any, bit_length: int, round_type: int) -> Any:
    scale = _abs_max(x)
    return _quantised(x, scale, bit_length, round_type), scale


@rules.decompose("fake_quantize_dequantize_abs_max")
@in_float32
def fake_quantize_dequantize_abs_max(x: Any, bit_length: int, round_type: int) -> Any:
    scale = _abs_max(x)
    return _dequantised(x, scale, bit_length, round_type), scale


@rules.decompose("fake_quantize_dequantize_abs_max_grad")
@rules.decompose("fake_channel_wise_quantize_dequantize_abs_max_grad")
@rules.decompose("fake_quantize_dequantize_moving_average_abs_max_grad")
def straight_through(out_grad: Any, *attrs: Any) -> Any:
    return out_grad


def _channel_scales(x: Any, axis: int) -> tuple[Any, Any]:
    """The scales as [channels], and in the shape in which they broadcast to x."""
    seen = ops.max(ops.abs(x), [i for i in range(x.ndim) if i != axis], True)
    return ops.reshape(seen, (x.meta.dims[axis],)), seen


@rules.decompose("fake_channel_wise_quantize_abs_max")
@in_float32
def fake_channel_wise_quantize_abs_max(
    x: Any, bit_length: int, round_type: int, quant_axis: int, is_test: bool
) -> Any:
    scales, seen = _channel_scales(x, quant_axis)
    return _quantised(x, seen, bit_length, round_type), scales


@rules.decompose("fake_channel_wise_quantize_dequantize_abs_max")
@in_float32
def fake_channel_wise_quantize_dequantize_abs_max(
    x: Any, bit_length: int, round_type: int, quant_axis: int
) -> Any:
    scales, seen = _channel_scales(x, quant_axis)
    return _dequantised(x, seen, bit_length, round_type), scales


# -- scales of many batches --------------------------------------------------------------------
def _averaged(
    x: Any, in_scale: Any, in_accum: Any, in_state: Any, rate: float, is_test: bool
) -> tuple[Any, Any, Any]:
    """The scale, and the states after this batch, None for those that are not kept."""
    scale = _one(in_scale, "in_scale", x.dtype)
    state, accum = (
        None if s is None else _one(s, name, x.dtype)
        for s, name in ((in_state, "in_state"), (in_accum, "in_accum"))
    )
    if is_test:
        return scale, state, accum
    new_state = rate * (1.0 if state is None else state) + 1
    new_accum = rate * (scale if accum is None else accum) + _abs_max(x)
    kept = (new_state if state is not None else None, new_accum if accum is not None else None)
    return new_accum / new_state, *kept


def _by_moving_average(quantised: Any) -> Any:
    @in_float32
    def rule(
        x: Any,
        in_scale: Any,
        in_accum: Any,
        in_state: Any,
        moving_rate: float,
        bit_length: int,
        is_test: bool,
        round_type: int,
    ) -> Any:
        scale, *states = _averaged(x, in_scale, in_accum, in_state, moving_rate, is_test)
        return quantised(x, scale, bit_length, round_type), scale, *states

    return rule


rules.decompose("fake_quantize_moving_average_abs_max")(_by_moving_average(_quantised))
rules.decompose("fake_quantize_dequantize_moving_average_abs_max")(_by_moving_average(_dequantised))


@rules.decompose("fake_quantize_range_abs_max")
@in_float32
def fake_quantize_range_abs_max(
    x: Any,
    in_scale: Any,
    iter: Any,
    window_size: int,
    bit_length: int,
    is_test: bool,
    round_type: int,
) -> Any:
    scale = _one(in_scale, "in_scale", x.dtype)
    if is_test:
        return _quantised(x, scale, bit_length, round_type), scale, None
    now = _abs_max(x)
    scale = ops.maximum(scale, now)
    place = ops.remainder(as_int64(_one(iter, "iter", iter.dtype)), window_size)
    window = ops.where(numbers(window_size) == place, now, 0.0)
    return _quantised(x, scale, bit_length, round_type), scale, window


# -- back ---------------------------------------------------------------------------------------
@rules.decompose("fake_dequantize_max_abs")
@in_float32
def fake_dequantize_max_abs(x: Any, scale: Any, max_range: float) -> Any:
    return x * ops.reshape(_one(scale, "scale", x.dtype), ()) / max_range


@rules.decompose("fake_channel_wise_dequantize_max_abs")
def fake_channel_wise_dequantize_max_abs(
    x: Any, scales: Any, quant_bits: Any, quant_axis: int, x_num_col_dims: int
) -> Any:
    if len(scales) not in (1, 2) or len(quant_bits) < len(scales):
        raise AttributeValueError(
            f"scales must be one or two tensors, with a number of bits each; found {len(scales)} "
            f"and bits {quant_bits}"
        )
    axis = quant_axis if len(scales) == 1 else x_num_col_dims
    if not 0 <= axis < x.ndim:
        raise AttributeValueError(f"the channels, axis {axis}, must be an axis of {x.meta}")
    dims = tuple(d if i == axis else 1 for i, d in enumerate(x.meta.dims))
    if not dm.may_equal(dm.product(scales[0].meta.dims), dims[axis]):
        raise ShapeError(
            f"scales[0] must have {dm.dim_text(dims[axis])} elements, one a channel of {x.meta}, "
            f"found {scales[0].meta}"
        )
    out = x * ops.reshape(as_dtype(scales[0], x.dtype), dims) / _largest(quant_bits[0])
    if len(scales) == 2:
        whole = ops.reshape(_one(scales[1], "scales[1]", x.dtype), ())
        out = out * whole / _largest(quant_bits[1])
    return out


def _check_ints(x: MetaTensor, *dtypes: Any) -> None:
    if x.dtype not in dtypes:
        names = " or ".join(map(str, dtypes))
        raise DTypeError(f"x must be {names}, the ints that were quantised, found {x}; cast it")


@rules.decompose("dequantize_abs_max")
def dequantize_abs_max(x: Any, scale: Any, max_range: float) -> Any:
    _check_ints(x.meta, dt.int8, dt.int16)
    whole = ops.reshape(_one(scale, "scale", scale.dtype), ())
    return ops.cast(x, scale.dtype) * whole / max_range


@rules.decompose("dequantize_log")
def dequantize_log(x: Any, dict: Any) -> Any:
    _check_ints(x.meta, dt.int8)
    if dict.ndim != 1 or not dm.may_equal(dict.meta.dims[0], 128):
        raise ShapeError(f"dict must be [128], a value for each int from 0, found {dict.meta}")
    number = as_int64(x)
    place = ops.where(number < 0, number + 128, number)
    flat = ops.reshape(place, (dm.product(x.meta.dims),))
    value = ops.reshape(ops.gather(dict, flat, 0), x.meta.dims)
    return ops.where(number < 0, -value, value)


@rules.decompose("apply_per_channel_scale")
def apply_per_channel_scale(x: Any, scales: Any) -> Any:
    if x.ndim != 2 or scales.ndim != 1 or not dm.may_equal(x.meta.dims[1], scales.meta.dims[0]):
        raise ShapeError(
            f"x must be [rows, channels] and scales [channels], found {x.meta} and {scales.meta}"
        )
    return x * scales
