"""Functions of the bits of numbers: signs, exponents, neighbours; divisors of ints."""

from __future__ import annotations

from typing import Any

from phix import ops
from phix.array_functions.numpy_arguments import floating, refuse, require_real, tensor
from phix.core import dtypes as dt
from phix.core.axes import axis_of
from phix.core.errors import AttributeValueError, DTypeError

# float -> its ints, the bits of its significand, the offset of its exponent
_LAYOUTS = {dt.float32: (dt.int32, 23, 127), dt.float64: (dt.int64, 52, 1023)}


def signbit(x: Any) -> Any:
    x = tensor(x)
    if dt.kind(x.dtype) != "float":
        return ops.less_than(x, 0)
    return ops.less_than(ops.copysign(ops.full_like(x, 1.0), x), 0)


def nextafter(x: Any, y: Any) -> Any:
    """Of 16 bits too, by the ints that the bits are, which go up with the absolute value."""
    x, y = tensor(x), tensor(y)
    dtype = dt.promote(x.dtype, y.dtype)
    if dtype not in (dt.float16, dt.bfloat16):
        return ops.nextafter(x, y)
    x, y = ops.broadcast_tensors([x.astype(dtype), y.astype(dtype)])
    is_outward = ops.equal(ops.greater_than(y, x), ops.greater_than(x, 0))
    held = ops.view_dtype(x, dt.int16)
    moved = ops.view_dtype(held + ops.where(is_outward, 1, -1).astype(dt.int16), dtype)
    smallest = ops.reshape(ops.view_dtype(ops.full((1,), 1, dt.int16), dtype), ())
    found = ops.where(x == 0, ops.copysign(smallest, y).astype(dtype), moved)
    found = ops.where(ops.equal(x, y), y, found)
    return ops.where(ops.logical_or(ops.isnan(x), ops.isnan(y)), x + y, found)


def spacing(x: Any) -> Any:
    ends = ops.where(ops.less_than(x, 0), -float("inf"), float("inf")).astype(x.dtype)
    return ops.stop_gradient(nextafter(x, ends) - x)


def _power_of_two(n: Any, dtype: Any) -> Any:
    """2 ** n, exact, for ints n whose power is a normal number."""
    ints, width, offset = _LAYOUTS[dtype]
    return ops.bitcast(ops.bitwise_left_shift((n + offset).astype(ints), width), dtype)


def ldexp(x: Any, n: Any) -> Any:
    x, n = floating(x), tensor(n)
    require_real("ldexp", x, n)
    if dt.kind(n.dtype) == "float":
        raise DTypeError(f"ldexp: the exponents are ints, found {n.meta}")
    if x.dtype not in _LAYOUTS:
        return ldexp(x.astype(dt.float32), n).astype(x.dtype)
    offset = _LAYOUTS[x.dtype][2]
    rest = n.astype(dt.int64)
    for _ in range(3):  # from the smallest number to the largest
        step = ops.clip(rest, 1 - offset, offset)
        x, rest = x * _power_of_two(step, x.dtype), rest - step
    return x


def frexp(x: Any) -> Any:
    x = floating(x)
    require_real("frexp", x)
    if x.dtype not in _LAYOUTS:
        small, exponent = frexp(x.astype(dt.float32))
        return small.astype(x.dtype), exponent
    ints, width, offset = _LAYOUTS[x.dtype]
    is_plain = ops.logical_and(ops.isfinite(x), x != 0)
    known = ops.stop_gradient(ops.where(is_plain, x, 1.0))
    up = ops.where(ops.abs(known) < 2.0 ** (1 - offset), width + 2, 0)  # subnormal numbers
    known = ldexp(known, up)
    held = ops.bitwise_right_shift(ops.bitcast(known, ints), width)
    exponent = ops.bitwise_and(held, 2 * offset + 1).astype(dt.int64) - (offset - 1) - up
    exponent = ops.where(is_plain, exponent, 0)
    return ldexp(x, -exponent), exponent.astype(dt.int32)


def _ints(name: str, *values: Any) -> list[Any]:
    found = [tensor(v) for v in values]
    for x in found:
        if dt.kind(x.dtype) not in ("int", "bool"):
            raise DTypeError(f"{name} takes ints, found {x.meta}")
    return found


def _no_truths(*values: Any) -> list[Any]:
    """Ints of one dtype; two bools count as int8."""
    dtype = dt.promote(*(v.dtype for v in values))
    return [v.astype(dt.int8 if dtype == dt.bool_ else dtype) for v in values]


def gcd(x: Any, y: Any) -> Any:
    return ops.gcd(*_no_truths(*_ints("gcd", x, y)))


def lcm(x: Any, y: Any) -> Any:
    return ops.lcm(*_no_truths(*_ints("lcm", x, y)))


def bitwise_count(x: Any) -> Any:
    (x,) = _ints("bitwise_count", x)
    wide = x if x.dtype in dt.UNSIGNED + dt.BOOL else ops.abs(x.astype(dt.int64))
    held = wide.astype(dt.uint64)
    for width, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        chosen = ops.full((), mask, dt.uint64)
        upper = ops.bitwise_right_shift(held, ops.full((), width, dt.uint64))
        held = ops.bitwise_and(held, chosen) + ops.bitwise_and(upper, chosen)
    found = held & ops.full((), 255, dt.uint64)
    for byte in range(1, 8):
        shifted = ops.bitwise_right_shift(held, ops.full((), 8 * byte, dt.uint64))
        found = found + (shifted & ops.full((), 255, dt.uint64))
    return found.astype(dt.uint8)


def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Bytes of eight truths each along an axis, the last filled up with zeros."""
    x = _along(a, axis, bitorder)
    count = x.shape[-1]
    x = ops.pad((x != 0).astype(dt.uint8), [*(0, 0) * (x.ndim - 1), 0, -count % 8], 0)
    x = ops.reshape(x, (*x.shape[:-1], (count + 7) // 8, 8))
    found = ops.sum(x.astype(dt.int64) * _places(bitorder), [-1], None, False).astype(dt.uint8)
    return found if axis is None else ops.transpose(found, _back(axis, found.ndim))


def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of bytes along an axis, as uint8; ``count`` of them, where it is given."""
    x = _along(a, axis, bitorder)
    if x.dtype != dt.uint8:
        raise DTypeError(f"unpackbits takes uint8, found {x.meta}")
    bits = ops.bitwise_and(ops.unsqueeze(x, [-1]).astype(dt.int64), _places(bitorder)) != 0
    found = ops.reshape(bits.astype(dt.uint8), (*x.shape[:-1], x.shape[-1] * 8))
    if count is not None:
        more = count - found.shape[-1] if count >= 0 else count
        found = (
            found[..., : found.shape[-1] + more] if more < 0
            else ops.pad(found, [*(0, 0) * (found.ndim - 1), 0, more], 0)
        )  # fmt: skip
    return found if axis is None else ops.transpose(found, _back(axis, found.ndim))


def _along(a: Any, axis: Any, bitorder: str) -> Any:
    """The axis put at the end; all in one where there is none."""
    if bitorder not in ("big", "little"):
        raise AttributeValueError(f"bitorder is 'big' or 'little', found {bitorder!r:.80}")
    x = tensor(a)
    if dt.kind(x.dtype) not in ("int", "bool"):
        raise DTypeError(f"packbits and unpackbits take ints and bools, found {x.meta}")
    if x.dtype != dt.uint8:
        x = x != 0
    if axis is None:
        return ops.reshape(x, [-1])
    at = axis_of(axis, x.ndim)
    return ops.transpose(x, [*(i for i in range(x.ndim) if i != at), at])


def _back(axis: int, rank: int) -> list[int]:
    at = axis_of(axis, rank)
    order = list(range(rank - 1))
    order.insert(at, rank - 1)
    return order


def _places(bitorder: str) -> Any:
    powers = [2**k for k in range(8)]
    return ops.stack([ops.full((), p, dt.int64) for p in
                      (powers[::-1] if bitorder == "big" else powers)], 0)  # fmt: skip


# -- which numbers they are ----------------------------------------------------------------------
def isposinf(x: Any, out: Any = None) -> Any:
    """Whether it is positive infinity."""
    refuse(out=out)
    return ops.equal(tensor(x), float("inf"))


def isneginf(x: Any, out: Any = None) -> Any:
    """Whether it is negative infinity."""
    refuse(out=out)
    return ops.equal(tensor(x), float("-inf"))


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not 0."""
    x = tensor(x)
    is_complex = dt.is_complex(x.dtype)
    return ops.imag(x) != 0 if is_complex else ops.full_like(x, 0, dt.bool_)


def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0."""
    return ops.logical_not(iscomplex(x))


NAMES = {
    "packbits": packbits, "unpackbits": unpackbits, "isposinf": isposinf, "isneginf": isneginf,
    "iscomplex": iscomplex, "isreal": isreal,
}  # fmt: skip
