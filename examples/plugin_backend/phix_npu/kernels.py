"""The kernels: every primitive of phix that is not control flow, as NumPy on the card's memory.

``KERNELS`` maps an op's name to a kernel in PHI's form, ``kernel(ctx, *inputs, *attrs, *outputs)``.
Below, an op is a function of arrays and attributes that gives its outputs; ``on_card`` makes the
kernel of it. 16-bit floats are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

import phix
from phix.core.windows import explicit_paddings
from phix_npu.factorisations import FACTORISATIONS, eig, eigh, lu, qr, schur, svd
from phix_npu.hardware import CARD, Handle
from phix_npu.sparse_products import SPARSE_PRODUCTS

Array = np.ndarray
_NARROW = (phix.float16, phix.bfloat16)


def _open(value: Any) -> Any:
    """An argument as kernels see it on the card: handles as arrays."""
    if isinstance(value, Handle):
        array = CARD.open(value)
        return array.astype(np.float32) if value.dtype in _NARROW else array
    if isinstance(value, tuple) and value and isinstance(value[0], Handle):
        return tuple(map(_open, value))
    return value


def on_card(function: Callable[..., Any], outputs: int = 1) -> Callable[..., None]:
    """The kernel of a function that gives one array, or a tuple of as many as there are outputs."""

    def kernel(ctx: Any, *args: Any) -> None:
        with np.errstate(all="ignore"):
            found = function(*map(_open, args[:-outputs]))
            for handle, array in zip(args[-outputs:], found if outputs > 1 else (found,)):
                np.copyto(CARD.open(handle), array, casting="unsafe")

    return kernel


# -- pointwise -------------------------------------------------------------------------------
_UFUNCS = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "add": np.add, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh,
    "bitwise_and": np.bitwise_and, "bitwise_not": np.bitwise_not, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "ceil": np.ceil, "conj": np.conj, "cos": np.cos,
    "cosh": np.cosh, "digamma": special.digamma, "divide": np.divide, "equal": np.equal,
    "erf": special.erf, "erfc": special.erfc, "erfcx": special.erfcx, "erfinv": special.erfinv,
    "ndtr": special.ndtr, "exp": np.exp, "expm1": np.expm1,
    "floor": np.floor, "fmax": np.fmax, "fmin": np.fmin, "greater_equal": np.greater_equal,
    "greater_than": np.greater, "imag": np.imag, "isfinite": np.isfinite, "isinf": np.isinf,
    "isnan": np.isnan, "less_equal": np.less_equal, "less_than": np.less,
    "lgamma": special.gammaln, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "logical_and": np.logical_and, "logical_not": np.logical_not,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "maximum": np.maximum,
    "minimum": np.minimum, "multiply": np.multiply, "not_equal": np.not_equal, "real": np.real,
    "round": np.round, "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
    "normal_density": lambda x: np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi),
    "subtract": np.subtract, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc, "where": np.where,
}  # fmt: skip


def _integers(function: Any, by_zero: Any) -> Any:
    """A quotient or remainder that gives ``by_zero(x)`` where an integer is divided by 0."""

    def divided(x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return function(x, y)
        return np.where(y == 0, by_zero(x), function(x, np.where(y == 0, 1, y)))

    return divided


def _power(x: Array, y: Any) -> Array:
    """Integers to a negative power are 1 / x ** -y, rounded toward 0."""
    y = np.asarray(y)
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        small = np.where(np.abs(x) == 1, np.power(x, np.abs(y)), 0)
        return np.where(y < 0, small, np.power(x, np.maximum(y, 0)))
    return np.power(x, y.astype(x.dtype) if x.dtype.kind in "fc" and not y.ndim else y)


def _cast(x: Array, dtype: np.dtype) -> Array:
    return x != 0 if dtype.kind == "b" else x if dtype.kind == "c" else x.real


def _scale(x: Array, scale: Any, bias: Any, bias_after_scale: bool) -> Array:
    s, b = (np.asarray(v).astype(x.dtype) for v in (scale, bias))
    return x * s + b if bias_after_scale else (x + b) * s


def _shift(function: Any, beyond: Callable[[Array], Any]) -> Any:
    """A shift that by the width or more gives ``beyond(x)``, in place of what C leaves open."""

    def shifted(x: Array, y: Array, is_arithmetic: bool = True) -> Array:
        if not is_arithmetic:  # of the bits alone
            bits = (v.view(f"u{v.itemsize}") for v in (x, y))
            return _shift(function, np.zeros_like)(*bits).view(x.dtype)
        fits = (y >= 0) & (y < 8 * x.itemsize)
        return np.where(fits, function(x, np.where(fits, y, 0)), beyond(x))

    return shifted


_POINTWISE = {
    "bitwise_left_shift": _shift(np.left_shift, np.zeros_like),
    "bitwise_right_shift": _shift(
        np.right_shift, lambda x: np.where(x < 0, ~x.dtype.type(0), x.dtype.type(0))
    ),
    "cast": _cast,
    "bitcast": lambda x, dtype: x.view(dtype),
    "complex": lambda re, im: re + 1j * im,
    "copysign": np.copysign,
    "elementwise_pow": _power,
    "floor_divide": _integers(np.floor_divide, np.zeros_like),
    "nextafter": np.nextafter,
    "polygamma": lambda x, n: special.polygamma(n, x),
    "pow": _power,
    "scaled_bessel": lambda x, m, n: (
        2.0 ** (m + n)
        * special.beta(m + 0.5, n + 0.5)
        / np.pi
        * special.hyp1f1(m + 0.5, m + n + 1, -2 * np.abs(x))
    ),
    "remainder": _integers(np.remainder, np.zeros_like),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "scale": _scale,
}


# -- reductions and scans ----------------------------------------------------------------------
def _over(function: Any, lowest: bool | None = None) -> Any:
    """A reduction over some axes; of no elements, the lowest or highest number where it says so."""

    def reduced(x: Array, axis: Any, keep: bool, *_: Any) -> Array:
        more = {} if lowest is None else {"initial": _extreme(x.dtype, lowest)}
        return function(x, axis=tuple(axis) or None, keepdims=keep, **more)

    return reduced


def _extreme(dtype: np.dtype, lowest: bool) -> Any:
    """The lowest or highest number of a dtype."""
    if dtype.kind == "f":
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max


def _sum(x: Array, axis: Any, dtype: Any, keep: bool) -> Array:
    wide = x.dtype if x.dtype.kind in "fc" else dtype
    return np.sum(x, axis=tuple(axis) or None, keepdims=keep, dtype=wide)


def _argument(function: Any) -> Any:
    def found(x: Array, axis: int, keep: bool, flat: bool, dtype: Any) -> Array:
        out = function(x, axis=None if flat or not x.ndim else axis)
        kept = [1 if flat or a == axis else d for a, d in enumerate(x.shape)]
        return np.reshape(out, kept) if keep else out

    return found


def _reduce_as(x: Array, target: Array) -> Array:
    lead = x.ndim - target.ndim
    kept = [k + lead for k, d in enumerate(target.shape) if d != 1 or x.shape[k + lead] == 1]
    out = x.sum(axis=tuple(k for k in range(x.ndim) if k not in kept), keepdims=True)
    return out.reshape(target.shape)


def _accumulate(ufunc: Any, start: int) -> Any:
    def run(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
        x = np.flip(x, axis) if reverse and x.ndim else x
        x = x.astype(np.int64) if x.dtype == bool else x
        if not x.ndim:
            return np.full_like(x, start) if exclusive else x
        if exclusive and x.shape[axis]:
            first = np.full_like(x.take([0], axis), start)
            x = np.concatenate([first, x.take(range(x.shape[axis] - 1), axis)], axis)
        wide = np.uint64 if x.dtype.kind == "u" else np.int64 if x.dtype.kind == "i" else None
        out = ufunc.accumulate(x, axis, dtype=wide)
        return np.flip(out, axis) if reverse else out

    return run


def _cumsum(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    return _accumulate(np.add, 0)(x.ravel() if flatten else x, axis, exclusive, reverse)


def _running(extreme: Any) -> Any:
    """The extreme elements so far, and where each stands, the last of equals."""

    def run(x: Array, axis: int, dtype: Any) -> tuple[Array, Array]:
        if not x.ndim:
            return x, np.zeros((), np.int64)
        out = extreme.accumulate(x, axis)
        numbers = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        where = np.where((x == out) | (x != x), numbers, 0)
        return out, np.maximum.accumulate(where, axis)

    return run


def _recurrence(a: Array, x: Array, axis: int, reverse: bool) -> Array:
    out = x.copy()
    factors, rows = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (a, out))
    for k in range(1, len(rows)):
        rows[k] += factors[k] * rows[k - 1]
    return out


_REDUCTIONS = {
    "all": _over(np.all), "any": _over(np.any), "max": _over(np.max, lowest=True),
    "min": _over(np.min, lowest=False), "prod": _over(np.prod), "sum": _sum,
    "reduce_as": _reduce_as, "cumsum": _cumsum,
    "argmax": _argument(np.argmax), "argmin": _argument(np.argmin),
    "cumprod": _accumulate(np.multiply, 1), "linear_recurrence": _recurrence,
}  # fmt: skip


# -- shapes ------------------------------------------------------------------------------------
def _strided(x: Array, axes: Any, starts: Any, ends: Any, strides: Any) -> Array:
    index = [slice(None)] * x.ndim
    for axis, *bounds in zip(axes, starts, ends, strides):
        index[axis] = slice(*bounds)
    return x[tuple(index)]


def _slice_put(
    x: Array, value: Array, axes: Any, starts: Any, ends: Any, strides: Any, accumulate: bool
) -> Array:
    out = x.copy()
    box = _strided(out, axes, starts, ends, strides or [1] * len(axes))
    np.copyto(box, _add_for(x)(box, value) if accumulate else value, casting="unsafe")
    return out


def _slice(x: Array, axes: Any, starts: Any, ends: Any, flags: Any, dropped: Any) -> Array:
    return _strided(x, axes, starts, ends, [1] * len(axes)).squeeze(tuple(dropped))


def _pad(x: Array, paddings: Sequence[int], value: Any) -> Array:
    """Negative paddings cut."""
    pairs = list(zip(paddings[::2], paddings[1::2]))
    cut = x[tuple(slice(max(-p, 0), n - max(-q, 0)) for n, (p, q) in zip(x.shape, pairs))]
    return np.pad(cut, [(max(p, 0), max(q, 0)) for p, q in pairs], constant_values=value)


_SHAPES = {
    "arange": lambda start, end, step, dtype, place: np.arange(start, end, step),
    "concat": np.concatenate,
    "diagonal": np.diagonal,
    "expand": np.broadcast_to,
    "flip": np.flip,
    "full": lambda shape, value, dtype, place: np.asarray(value),
    "pad": _pad,
    "reshape": np.reshape,
    "roll": lambda x, shifts, axis: np.roll(x, shifts if axis else shifts[0], axis or None),
    "slice": _slice,
    "slice_put": _slice_put,
    "strided_slice": _strided,
    "transpose": np.transpose,
}


# -- indexing, sorting ---------------------------------------------------------------------------
def _inside(index: Array, size: int) -> Array:
    """Indices that count from the end made positive, and none beyond the array."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + size, index), 0, max(size - 1, 0))


def _named(x: Array, index: Array) -> tuple[Array, ...]:
    """The last axis of an index as one index an axis."""
    columns = np.moveaxis(index, -1, 0)
    return tuple(_inside(i, n) for i, n in zip(columns, x.shape))


def _put(x: Array, indices: Any, values: Array, mode: str, combine: Any = None) -> Array:
    """``x`` with values put at indices of its first axes, or combined with what is there.

    What is out of range goes into one more row behind all; with the mode "clip" nothing is.
    """
    out = np.concatenate([x, np.zeros((1, *x.shape[1:]), x.dtype)]) if indices else x.copy()
    if not x.size:  # there is no place in it
        return x
    where = [_inside(i, n) for i, n in zip(indices, x.shape)]
    if mode != "clip" and indices:
        sides = [(i.astype(np.int64), n) for i, n in zip(indices, x.shape)]
        is_in = np.broadcast_arrays(*((-n <= i) & (i < n) for i, n in sides))
        where[0] = np.where(np.all(is_in, 0), where[0], len(x))
    if combine is None:
        out[tuple(where)] = values
    else:
        combine.at(out, tuple(where), values)
    return out[: len(x)] if indices else out


def _add_for(x: Array) -> Any:
    return np.logical_or if x.dtype == bool else np.add


def _index_put(
    x: Array, indices: Any, value: Array, accumulate: bool, axes: Any, mode: str
) -> Array:
    front = range(len(axes))
    x = np.moveaxis(x, axes, front)
    out = _put(x, indices, value, mode, _add_for(x) if accumulate else None)
    return np.moveaxis(out, front, axes)


def _scatter_nd_add(x: Array, index: Array, updates: Array, mode: str) -> Array:
    return _put(x, list(np.moveaxis(index, -1, 0)), updates, mode, _add_for(x))


_COMBINE = {"add": np.add, "mul": np.multiply, "amax": np.maximum, "amin": np.minimum,
            "mean": np.add}  # fmt: skip


def _put_along(
    x: Array, indices: Array, values: Array, axis: int, reduce: str, include_self: bool, mode: str
) -> Array:
    values = np.moveaxis(np.broadcast_to(values, indices.shape), axis, 0)
    x, indices = (np.moveaxis(v, axis, 0) for v in (x, indices))
    where = [indices, *np.ogrid[tuple(slice(d) for d in indices.shape)][1:]]
    if reduce == "assign":
        return np.moveaxis(_put(x, where, values, mode), 0, axis)
    combine = _COMBINE[reduce]
    if x.dtype == bool:
        combine = {"add": np.logical_or, "mul": np.logical_and}.get(reduce, combine)
    counts = np.ones(x.shape, np.int64)
    if not include_self:
        x = _put(x, where, _neutral(reduce, x.dtype), mode)
        counts = _put(counts, where, 0, mode)
    out = _put(x, where, values, mode, combine)
    if reduce == "mean":
        counts = np.maximum(_put(counts, where, 1, mode, np.add), 1)
        out = out / counts if out.dtype.kind in "fc" else out // counts
    return np.moveaxis(out, 0, axis)


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    if reduce == "mul":
        return 1
    return _extreme(dtype, reduce == "amax") if reduce in ("amax", "amin") else 0


def _take_along(x: Array, indices: Array, axis: int) -> Array:
    return np.take_along_axis(x, _inside(indices, x.shape[axis]), axis)


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The stable order, NaN the largest."""
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backward, axis)


def _argsort(x: Array, axis: int, descending: bool, stable: bool) -> tuple[Array, Array]:
    order = _order(x, axis, descending)
    return (np.take_along_axis(x, order, axis) if x.ndim else x), order


def _topk(x: Array, k: int, axis: int, largest: bool, in_order: bool) -> tuple[Array, Array]:
    order = _order(x, axis, largest).take(range(k), axis)
    return np.take_along_axis(x, order, axis), order


def _true_positions(mask: Array, size: int, fill: int, lead: int) -> Array:
    found = np.full((*mask.shape[:lead], size), fill, np.int64)
    for at in np.ndindex(*mask.shape[:lead]):
        chosen = np.flatnonzero(mask[at])[:size]
        found[at][: len(chosen)] = chosen
    return found


_INDEXING = {
    "gather": lambda x, index, axis: np.take(x, _inside(index, x.shape[axis]), axis),
    "gather_nd": lambda x, index: x[_named(x, index)],
    "index_put": _index_put,
    "put_along_axis": _put_along,
    "scatter_nd_add": _scatter_nd_add,
    "sort": lambda x, axis, descending: _argsort(x, axis, descending, True)[0],
    "take_along_axis": _take_along,
    "true_positions": _true_positions,
}


# -- products, random bits -----------------------------------------------------------------------
def _matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    x = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    y = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    return np.matmul(x, y)


def _conv2d(
    x: Array, w: Array, strides: Any, paddings: Any, algorithm: str, dilations: Any, groups: int,
    data_format: str,
) -> Array:  # fmt: skip
    """The sum over filter places of a strided part of the images times that place's weights."""
    x = np.moveaxis(x, 3, 1) if data_format == "NHWC" else x
    kernel, size = w.shape[2:], x.shape[2:]
    pads: Any = explicit_paddings(algorithm, paddings, size, kernel, strides, dilations)
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)
    ]
    images = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    filters = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    out = np.zeros((x.shape[0], groups, filters.shape[1], *counts), x.dtype)
    for i, j in np.ndindex(*kernel):
        rows, columns = (
            slice(at * d, at * d + (n - 1) * s + 1, s)
            for at, n, s, d in zip((i, j), counts, strides, dilations)
        )
        seen = images[..., rows, columns]
        out += np.einsum("ngcyx,goc->ngoyx", seen, filters[..., i, j])
    out = out.reshape(x.shape[0], w.shape[0], *counts)
    return np.moveaxis(out, 1, 3) if data_format == "NHWC" else out


def _random_bits(key: Array, shape: Sequence[int], width: int, first: Array | None = None) -> Array:
    """Threefry-2x32 with 20 rounds, of the counters first, first + 1, ... under each key."""
    size = int(np.prod(shape, dtype=np.int64))
    k0, k1 = (key[..., i, None] for i in (0, 1))
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    numbers = np.arange(size, dtype=np.uint64)
    if first is not None:
        numbers = numbers + first[..., None].astype(np.uint64)
    x = (numbers >> np.uint64(32)).astype(np.uint32) + k0
    y = numbers.astype(np.uint32) + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    x = x.astype(np.uint64) << np.uint64(32) | y if width == 64 else x ^ y
    return x.reshape((*key.shape[:-1], *shape))


# -- Fourier transforms ------------------------------------------------------------------------
# norm -> the one that divides in the other direction
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _fft(x: Array, axes: Any, norm: str, forward: bool) -> Array:
    return (np.fft.fftn if forward else np.fft.ifftn)(x, axes=axes, norm=norm)


def _fft_of_real(x: Array, axes: Any, norm: str, forward: bool, onesided: bool) -> Array:
    if not onesided:
        return _fft(x, axes, norm, forward)
    if forward:
        return np.fft.rfftn(x, axes=axes, norm=norm)
    return np.conj(np.fft.rfftn(x, axes=axes, norm=_SWAPPED[norm]))


def _fft_to_real(x: Array, axes: Any, norm: str, forward: bool, size: int) -> Array:
    if forward:
        x, norm = np.conj(x), _SWAPPED[norm]
    sizes = [x.shape[a] for a in axes[:-1]] + [size or 2 * (x.shape[axes[-1]] - 1)]
    return np.fft.irfftn(x, sizes, axes, norm)


_OTHERS = {
    "matmul": _matmul, "conv2d": _conv2d, "random_bits": _random_bits, "fft_c2c": _fft,
    "fft_r2c": _fft_of_real, "fft_c2r": _fft_to_real,
}  # fmt: skip

_SEVERAL = {
    "argsort": _argsort, "topk": _topk, "lu": lu, "qr": qr, "svd": svd, "eigh": eigh, "eig": eig,
    "schur": schur, "cummax": _running(np.maximum), "cummin": _running(np.minimum),
}  # fmt: skip


# -- composites that the card has whole ------------------------------------------------------------
def _attention(q: Array, k: Array, v: Array, mask: Any, scale: float, causal: bool) -> Array:
    """One query after the other, so that no matrix of scores is ever there."""
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    rows, keys = q.shape[-2], k.shape[-2]
    out = []
    for row in range(rows):
        scores = np.einsum("...d,...kd->...k", q[..., row, :], k) * scale
        seen = np.arange(keys) <= row if causal else np.ones(keys, bool)
        if mask is not None:
            whole = np.broadcast_to(mask, (*lead, rows, keys))[..., row, :]
            seen = seen & whole if mask.dtype == bool else seen
            scores = scores if mask.dtype == bool else scores + whole
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True)) if keys else scores
        sums = np.einsum("...k,...kd->...d", weights, v)
        out.append(sums / weights.sum(-1)[..., None] if keys else sums)
    return np.stack(out, -2) if rows else np.zeros((*lead, 0, v.shape[-1]))


_COMPOSITES = {"attention": _attention}
# Each op as a function of arrays and attributes, and how many outputs it has, if not one.
FUNCTIONS = {
    **_UFUNCS, **_POINTWISE, **_REDUCTIONS, **_SHAPES, **_INDEXING, **FACTORISATIONS, **_OTHERS,
    **_SEVERAL, **SPARSE_PRODUCTS, **_COMPOSITES,
}  # fmt: skip
OUTPUTS = {
    "argsort": 2, "topk": 2, "cummax": 2, "cummin": 2, "lu": 3, "qr": 2, "svd": 3,
    "eigh": 2, "eig": 2, "schur": 2,
}  # fmt: skip

KERNELS = {name: on_card(f, OUTPUTS.get(name, 1)) for name, f in FUNCTIONS.items()}
