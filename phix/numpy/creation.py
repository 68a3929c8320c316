"""Arrays made of sizes, numbers, and what other libraries have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phix import fft, ops
from phix.array_functions.arrangement import moveaxis
from phix.array_functions.numpy_arguments import (
    check_order,
    common_shape,
    default_float,
    refuse,
    tensor,
)
from phix.core import dtypes as dt
from phix.core.attrs import is_traced
from phix.core.conversion import (
    common_dtype,
    lent_tensor,
    to_tensor,
)
from phix.core.dims import Dim
from phix.core.errors import ArgumentError, AttributeValueError
from phix.core.numpy_protocol import NotOfferedError
from phix.core.places import as_place
from phix.core.tensor import TensorBase
from phix.core.weak import strong, weak_kind
from phix.numpy.dtypes import as_dtype


def _on(x: Any, device: Any) -> Any:
    place = as_place(device)
    return x if place is None else x.to(place)


def is_dim(value: Any) -> bool:
    """Whether it is a size that is not known yet."""
    return isinstance(value, Dim)


def _ordered(order: Any) -> None:
    check_order(order)
    if order == "F":
        raise NotOfferedError(f"order={order!r}")


def _shape(shape: Any) -> tuple[Any, ...]:
    if isinstance(shape, (int, np.integer, Dim)):
        return (shape,)
    if isinstance(shape, TensorBase) and not is_traced(shape):
        shape = shape.tolist()
        return (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(shape)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """A tensor of what is one already, of an array, a number, or nested lists of them. Python's
    floats become phix's default float; a NumPy array is copied, unless ``copy`` is False."""
    _ordered(order)
    refuse(like=like)
    wanted = as_dtype(dtype)
    if copy is False and isinstance(a, np.ndarray):
        found = lent_tensor(a)
    elif copy is False and not isinstance(a, TensorBase):
        raise AttributeValueError(f"asarray: copy=False, but a {type(a).__name__} must be copied")
    elif isinstance(a, TensorBase):
        found = a
    elif wanted is not None and not hasattr(a, "dtype"):
        found = _of_python(a, wanted)
    else:
        found = tensor(a) if hasattr(a, "__array__") or not hasattr(a, "__dlpack__") else _taken(a)
    if wanted is not None and found.dtype != wanted:
        if copy is False:
            raise AttributeValueError(f"asarray: copy=False, but {found.meta} must be cast")
        found = found.astype(wanted)
    return _on(ops.assign(found) if copy and found is a else strong(found), device)


def _of_python(value: Any, wanted: Any) -> Any:
    return to_tensor(value, wanted)


def _taken(value: Any) -> Any:
    return to_tensor(value)


def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, ndmax: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """A tensor of an array, a number, or nested lists of them, with ``ndmin`` axes at least."""
    refuse(ndmax=ndmax or None)
    found = asarray(object, dtype, order, copy=copy, like=like)
    more = ndmin - found.ndim
    return ops.reshape(found, (*(1,) * more, *found.shape)) if more > 0 else found


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """An array of one value, which broadcasts."""
    _ordered(order)
    refuse(like=like)
    dims, wanted = _shape(shape), as_dtype(dtype)
    if isinstance(fill_value, (bool, int, float, complex)) and not hasattr(fill_value, "dtype"):
        return _on(ops.full(dims, fill_value, wanted), device)
    value = tensor(fill_value)
    return _on(ops.expand(value if wanted is None else value.astype(wanted), dims), device)


def _filled(name: str, value: int) -> Any:
    def filled(
        shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
    ) -> Any:
        return full(shape, value, as_dtype(dtype, default_float()), order, device=device, like=like)

    filled.__name__ = filled.__qualname__ = name
    filled.__doc__ = f"An array of {'ones' if value else 'zeros'}, by default of phix's float."
    return filled


zeros, ones, empty = _filled("zeros", 0), _filled("ones", 1), _filled("empty", 0)


def eye(
    N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """An (N, M) matrix with ones on the k-th diagonal and zeros elsewhere."""
    _ordered(order)
    refuse(like=like)
    wide = N if M is None else M
    wanted = as_dtype(dtype, default_float())
    row = ops.reshape(ops.arange(0, N, 1, dt.int64), (N, 1))
    return _on((ops.arange(0, wide, 1, dt.int64) - row == k).astype(wanted), device)


def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """An (n, n) matrix with ones on the diagonal."""
    return eye(n, dtype=dtype, like=like)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Any:
    """An (N, M) matrix with ones up to the k-th diagonal and zeros above."""
    refuse(like=like)
    ones = full((N, N if M is None else M), 1, as_dtype(dtype, default_float()))
    return ops.tril(ones, k)


def arange(
    start_or_stop: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None,
    device: Any = None, like: Any = None,
) -> Any:  # fmt: skip
    """The numbers from start (0) to before stop, step apart."""
    refuse(like=like)
    start, end = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    step = 1 if step is None else step
    wanted = as_dtype(dtype)
    if step == 0:
        raise AttributeValueError("arange: step is 0; write one from start towards stop")
    ends = [v.item() if isinstance(v, np.generic) else v for v in (start, end, step)]
    if wanted is None:
        wanted = common_dtype(list(ends))
    known = all(isinstance(v, (int, float)) for v in ends)
    if known and not all(map(math.isfinite, ends)):
        raise AttributeValueError(f"arange: start, stop and step are finite, found {ends}")
    if known and (ends[1] - ends[0]) / ends[2] <= 0:
        return _on(ops.full((0,), 0, wanted), device)
    if known and any(isinstance(v, float) for v in ends):  # counted as NumPy counts
        count = math.ceil((ends[1] - ends[0]) / ends[2])
        wide = dt.float64 if wanted != dt.float64 or dt.is_float(wanted) else wanted
        numbers = ops.arange(0, count, 1, dt.int64).astype(wide)
        return _on((numbers * ends[2] + ends[0]).astype(wanted), device)
    return _on(ops.arange(ends[0], ends[1], ends[2], wanted), device)


def _ends(start: Any, stop: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Both ends, broadcast, in the dtype of the computation, and that of the result."""
    values = [tensor(v) if weak_kind(v) is None else v for v in (start, stop)]
    met = dt.float_of(common_dtype(values))
    are_floats = any(weak_kind(v) is None and dt.is_differentiable(v.dtype) for v in values)
    if not are_floats:
        met = met if dt.is_complex(met) else default_float()
    wide = dt.float64 if met == dt.float32 and not are_floats else met
    low, high = ops.broadcast_tensors([ops.cast(v, wide) for v in values])
    return low, high, as_dtype(dtype, met)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """``num`` numbers from start to stop at equal distances, stop left out with endpoint=False;
    ``retstep`` gives the distance as well."""
    count: Any = num if is_dim(num) else int(num)
    if isinstance(count, int) and count < 0:
        raise AttributeValueError(f"linspace: num is at least 0, found {num}")
    low, high, wanted = _ends(start, stop, dtype)
    parts = count - 1 if endpoint else count
    is_some = not isinstance(parts, int) or parts > 0
    step = (high - low) / parts if is_some else high * math.nan
    number = ops.arange(0, count, 1, dt.int64).astype(dt.real_dtype(low.dtype))
    number = ops.reshape(number, (count, *(1,) * low.ndim))
    # of one number with its end there is no step
    found = low + ops.where(number == 0, 0.0, number * step)
    if endpoint and (not isinstance(count, int) or count > 1):
        is_last = ops.logical_and(number == count - 1, number > 0)  # one number is the start
        found = ops.where(is_last, high, found)
    if dt.kind(wanted) == "int":
        found = ops.floor(found)
    found = found.astype(wanted)
    found = _on(moveaxis(found, 0, axis) if axis else found, device)
    return (found, step.astype(dt.float_of(wanted))) if retstep else found


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """base ** linspace(start, stop), of ends and bases that broadcast."""
    low, high, wanted = _ends(start, stop, dtype)
    at = base if isinstance(base, (int, float, complex)) else tensor(base)
    if isinstance(at, TensorBase) and at.ndim > low.ndim:
        low, high = (ops.reshape(v, [1] * (at.ndim - v.ndim) + list(v.shape)) for v in (low, high))
    powers = linspace(low, high, num, endpoint)
    return moveaxis(ops.elementwise_pow(at, powers).astype(wanted), 0, axis)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """``num`` numbers from start to stop, each a constant multiple of the one before."""
    low, high, wanted = _ends(start, stop, dtype)
    if dt.is_complex(wanted) and not dt.is_complex(low.dtype):  # from -1 to 1 round a circle
        low, high = (v.astype(dt.complex_dtype(v.dtype)) for v in (low, high))
    if not dt.is_complex(low.dtype):
        sign = ops.where(low < 0, -1.0, 1.0)
        logs = [ops.log(v * sign) for v in (low, high)]
    else:
        sign = low / ops.abs(low)
        turned = high * ops.conj(sign)  # the side of the cut that NumPy's quotient is on
        logs = [ops.full_like(low, 0) + ops.log(ops.abs(low)), ops.log(turned)]
    found = ops.exp(linspace(logs[0], logs[1], num, endpoint)) * sign
    # the ends as they are given
    place = ops.reshape(ops.arange(0, num, 1, dt.int64), (-1, *(1,) * low.ndim)) if num else None
    if place is not None:
        found = ops.where(place == 0, low, found)
        found = ops.where(place == num - 1, high, found) if endpoint and num > 1 else found
    return moveaxis(found.astype(wanted), 0, axis)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The indices along each axis of an array of that shape: a grid, or open with ``sparse``."""
    sizes, wanted = _shape(dimensions), as_dtype(dtype, dt.DEFAULT_INT)
    rank = len(sizes)
    parts = [ops.reshape(ops.arange(0, n, 1, dt.int64).astype(wanted),
                         [n if i == k else 1 for i in range(rank)])
             for k, n in enumerate(sizes)]  # fmt: skip
    if sparse:
        return tuple(parts)
    return ops.stack([ops.expand(p, sizes) for p in parts], 0) if parts else ops.full(
        (0,), 0, wanted
    )  # fmt: skip


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """A tensor of another library's array, by DLPack; its values are copied unless ``copy`` is
    False. A tensor is given as it is unless ``copy`` is True."""
    if isinstance(x, TensorBase):
        return _on(ops.assign(x) if copy else x, device)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"from_dlpack takes what has __dlpack__, found {type(x).__name__}")
    if copy is False:
        return _on(lent_tensor(np.from_dlpack(x)), device)
    return _on(_taken(x), device)


def frombuffer(
    buffer: Any, dtype: Any = None, count: int = -1, offset: int = 0, *, like: Any = None
) -> Any:
    """The numbers that bytes hold."""
    refuse(like=like)
    return tensor(np.frombuffer(buffer, as_dtype(dtype, default_float()), count, offset))


def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Any:
    """A vector of what an iterator gives."""
    refuse(like=like)
    return tensor(np.fromiter(iter, as_dtype(dtype, default_float()), count))


def fromstring(
    string: Any, dtype: Any = None, count: int = -1, *, sep: str = " ", like: Any = None
) -> Any:
    """The numbers written in a text, ``sep`` between them."""
    refuse(like=like)
    return tensor(np.fromstring(string, as_dtype(dtype, default_float()), count, sep=sep))


def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    """The shape that shapes have in common."""
    return common_shape("broadcast_shapes", [_shape(a) for a in args])


def fftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the points of ``fft``: 0, 1, ..., -2, -1, each divided by n d."""
    return _on(fft.fftfreq(n, d, dtype=as_dtype(dtype)), device)


def rfftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of the points of ``rfft``: 0, 1, ..., n // 2, each divided by n d."""
    return _on(fft.rfftfreq(n, d, dtype=as_dtype(dtype)), device)


FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (
        arange, array, asarray, broadcast_shapes, empty, eye, frombuffer, from_dlpack, fromiter,
        fromstring, full, geomspace, identity, indices, linspace, logspace, ones, tri, zeros,
    )
} | {"asanyarray": asarray, "ascontiguousarray": asarray}  # fmt: skip
