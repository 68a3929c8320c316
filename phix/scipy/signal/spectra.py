"""Spectra of segments of signals, over time or averaged, and signals from them.

A segment has ``nperseg`` points and begins ``nperseg - noverlap`` behind the one before. It is
multiplied with a window, filled up with zeros to ``nfft`` points and transformed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from phix import fft, ops
from phix.core import dims as dm
from phix.core import dtypes as dt
from phix.core.conversion import common_dtype, owned_tensor
from phix.core.errors import ArgumentError, ShapeError
from phix.core.expectations import expect, expect_equal
from phix.core.given import FLAG, INT, NONE, SIZE, Kind, one_of, takes
from phix.core.tensor import Tensor, TensorBase, TensorLike
from phix.fft.arguments import axes_of, fitted
from phix.scipy.ranks import with_axis_at
from phix.scipy.signal.trends import along_last
from phix.scipy.window_shapes import as_size, window_in_float64

_COUNT = Kind("an int from 1, or a dim", lambda v: SIZE.holds(v) and not dm.is_zero(v))
_RATE = Kind(
    "a number above 0",
    lambda v: (
        isinstance(v, TensorBase)
        or getattr(v, "ndim", None) == 0
        or (isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0)
    ),
)
_NO_TREND = Kind("False", lambda v: v is False or v is None)
_TREND = Kind("a function", callable, runs=True) | _NO_TREND | one_of("linear", "constant")
_SEGMENTS = {"fs": _RATE, "nperseg": _COUNT | NONE, "noverlap": SIZE | NONE, "nfft": _COUNT | NONE}
_SPECTRUM = {**_SEGMENTS, "detrend": _TREND, "return_onesided": FLAG, "axis": INT}
_SCALING = one_of("density", "spectrum")
_STFT_SCALING = one_of("spectrum", "psd")
_AVERAGE = one_of("mean", "median")
_BEYOND = ("even", "odd", "constant", "zeros")


class _Cutting(NamedTuple):
    """How a signal is cut: the window, in the dtype of the signal, and the sizes."""

    window: Any
    count: Any  # points of a segment
    step: Any  # from one to the next
    size: Any  # points that are transformed


# -- what is given -------------------------------------------------------------------------------
def _signals(name: str, given: list[Any]) -> list[Any]:
    """Signals in one dtype that transforms take."""
    dtype = common_dtype(given)
    wide = dt.is_complex(dtype) or dtype in (dt.float32, dt.float64)
    dtype = dtype if wide else dt.promote(dt.float32, dt.default_float())
    found = [ops.cast(owned_tensor(v), dtype) for v in given]
    return [_some(name, x) for x in found]


def _some(name: str, x: Any) -> Any:
    refusal = f"{name}: a signal has an axis, and an element, found {x.meta}"
    return expect(x, refusal, *(n - 1 for n in x.meta.dims or (0,)))


def _is_below(a: Any, b: Any) -> bool:
    return dm.is_known(a, b) and bool(a < b)


def _cutting(name: str, window: Any, sizes: tuple[Any, ...], n: Any, dtype: Any) -> _Cutting:
    """The sizes asked for, or those there are by default: 256 points, of n at most."""
    nperseg, noverlap, nfft = (v if v is None else as_size(v) for v in sizes)
    is_named = isinstance(window, str) or (
        isinstance(window, (list, tuple)) and bool(window) and isinstance(window[0], str)
    )
    if is_named:
        count = dm.minimum(256 if nperseg is None else nperseg, n)
        points = window_in_float64(window, count)
    else:
        points = owned_tensor(window)
        if points.ndim != 1 or dt.is_complex(points.dtype):
            raise ShapeError(
                f"{name}: window must be a name or [nperseg] real, found {points.meta}"
            )
        count = points.meta.dims[0]
        of, refusal = points.meta, f"{name}: window {points.meta} has not the nperseg"
        if nperseg is not None:
            points = expect_equal(points, f"{refusal} {nperseg} points", (count, nperseg))
        refusal = f"{name}: window {of} is longer than the signal, of {dm.dim_text(n)}"
        points = expect(points, refusal, n - count)
    overlap = count // 2 if noverlap is None else noverlap
    size = count if nfft is None else nfft
    asked = {
        f"nfft must be {dm.dim_text(count)}, as nperseg is, or more, found {nfft}": size - count,
        f"noverlap must be less than nperseg {dm.dim_text(count)}, found {overlap}": (
            count - 1 - overlap
        ),
    }
    for said, from_zero in asked.items():
        if dm.is_known(from_zero) and from_zero < 0:
            raise ArgumentError(f"{name}: {said}")
        points = expect(points, f"{name}: {said}", from_zero)
    return _Cutting(ops.cast(points, dt.real_dtype(dtype)), count, count - overlap, size)


def _rate(name: str, fs: Any, dtype: Any) -> Any:
    """Samples in a unit of time, as a tensor of no axes."""
    value = fs if isinstance(fs, (int, float)) else owned_tensor(fs)
    if not isinstance(value, (int, float)) and value.ndim:
        raise ShapeError(f"{name}: fs must be one number, found {value.meta}")
    real = dt.real_dtype(dtype)
    return ops.full((), value, real) if isinstance(value, (int, float)) else ops.cast(value, real)


# -- segments ------------------------------------------------------------------------------------
def _padded(x: Any, before: Any, behind: Any) -> Any:
    return ops.pad(x, [0] * (2 * x.ndim - 2) + [before, behind], 0)


def _extended(x: Any, boundary: str | None, more: Any) -> Any:
    """``x`` with ``more`` points at both ends of the last axis."""
    n = x.meta.dims[-1]
    if boundary is None or dm.is_zero(more):
        return x
    if boundary == "zeros":
        return _padded(x, more, more)
    first, last = x[..., :1], x[..., n - 1 :]
    if boundary == "constant":
        shape = [*x.meta.dims[:-1], more]
        left, right = ops.expand(first, shape), ops.expand(last, shape)
    else:
        left = ops.flip(x[..., 1 : more + 1], [-1])
        right = ops.flip(x[..., n - 1 - more : n - 1], [-1])
        if boundary == "odd":
            left, right = 2 * first - left, 2 * last - right
    return ops.concat([left, x, right], -1)


def _by_function(trend: Any, rows: Any) -> Any:
    found = owned_tensor(trend(rows))
    if found.ndim != rows.ndim or not all(map(dm.may_equal, found.meta.dims, rows.meta.dims)):
        raise ShapeError(
            f"detrend must give segments of the shape that it is given, {rows.meta}, found "
            f"{found.meta}"
        )
    return ops.cast(found, rows.dtype)


def _transforms(x: Any, cut: _Cutting, trend: Any, is_half: bool) -> Any:
    """[..., frequencies, segments] of signals [..., n]."""
    frames = ops.frame(x, cut.count, cut.step, -1)
    if trend is not None and trend is not False:
        rows = with_axis_at(frames, -2, -1)
        rows = _by_function(trend, rows) if callable(trend) else along_last(rows, trend)
        frames = with_axis_at(rows, -1, -2)
    frames = frames * ops.unsqueeze(cut.window, [1])
    return (fft.rfft if is_half else fft.fft)(frames, cut.size, axis=-2)


def _frequencies(cut: _Cutting, is_half: bool, fs: Any) -> Any:
    k = (fft.rfftfreq if is_half else fft.fftfreq)(cut.size, dtype=fs.dtype)
    return k * fs


def _scale(cut: _Cutting, scaling: str, fs: Any) -> Any:
    """What the square of a transform is multiplied with."""
    if scaling == "spectrum":
        total = ops.sum(cut.window)
        return 1.0 / (total * total)
    return 1.0 / (fs * ops.sum(cut.window * cut.window))


# -- averaged ------------------------------------------------------------------------------------
def _averaged(power: Any, average: str) -> Any:
    """Over the last axis; medians are divided by what those of so many numbers that are
    distributed exponentially have for a mean of 1."""
    if average == "mean":
        return ops.mean(power, [-1])
    count = power.meta.dims[-1]
    if dt.is_complex(power.dtype):
        return ops.complex(*(_averaged(v, average) for v in (ops.real(power), ops.imag(power))))
    if dm.is_known(count) and count == 1:
        return ops.squeeze(power, [-1])
    even = ops.cast(2 * ops.arange(1, (count + 1) // 2, 1, dt.int64), dt.float64)
    bias = 1.0 + ops.sum(1.0 / (even + 1.0) - 1.0 / even)
    return ops.median(power, [-1], False)[0] / ops.cast(bias, power.dtype)


def _of_one_length(name: str, signals: list[Any]) -> list[Any]:
    """The shorter one with zeros behind it, along the last axis."""
    if len(signals) > 1:
        pairs = zip(*(reversed(v.meta.dims[:-1]) for v in signals))
        if not all(dm.may_equal(n, m) or dm.is_one(n) or dm.is_one(m) for n, m in pairs):
            raise ShapeError(
                f"{name}: x and y must broadcast but for the axis, found {signals[0].meta} and "
                f"{signals[1].meta}, with it at the end"
            )
    most = signals[0].meta.dims[-1]
    for v in signals[1:]:
        most = dm.maximum(most, v.meta.dims[-1])
    return [fitted(v, (v.ndim - 1,), (most,)) for v in signals]


def _cross(name: str, given: list[Any], asked: tuple[Any, ...], how: tuple[Any, ...]) -> Any:
    """Frequencies, and conj(X) Y of the segments, averaged; of one signal, abs(X)^2."""
    (fs, window, *sizes), (trend, onesided, scaling, axis, average) = asked, how
    signals = _signals(name, given)
    for v in signals:
        axes_of(name, v, axis, None)
    x, *others = _of_one_length(name, [with_axis_at(v, axis, -1) for v in signals])
    cut = _cutting(name, window, tuple(sizes), x.meta.dims[-1], x.dtype)
    is_half, rate = onesided and not dt.is_complex(x.dtype), _rate(name, fs, x.dtype)
    first = _transforms(x, cut, trend, is_half)
    if others:
        power = ops.conj(first) * _transforms(others[0], cut, trend, is_half)
    else:
        a, b = ops.real(first), ops.imag(first)
        power = a * a + b * b
    power = power * _scale(cut, scaling, rate)
    if is_half:  # those below 0 are as large
        k = ops.arange(0, cut.size // 2 + 1, 1, dt.int64)
        twice = ops.where((k == 0) | (2 * k == cut.size), 1.0, 2.0)
        power = power * ops.unsqueeze(ops.cast(twice, rate.dtype), [1])
    return _frequencies(cut, is_half, rate), with_axis_at(_averaged(power, average), -1, axis)


def _over_time(given: Any, asked: tuple[Any, ...], how: tuple[Any, ...]) -> Any:
    """Frequencies, times, and transforms of segments."""
    (fs, window, *sizes), (trend, onesided, boundary, padded, axis, scaling) = asked, how
    (x,) = _signals("stft", [given])
    axes_of("stft", x, axis, None)
    rows = with_axis_at(x, axis, -1)
    cut = _cutting("stft", window, tuple(sizes), rows.meta.dims[-1], rows.dtype)
    is_half, rate = onesided and not dt.is_complex(x.dtype), _rate("stft", fs, x.dtype)
    rows = _extended(rows, boundary, cut.count // 2)
    if padded:
        missing = (-(rows.meta.dims[-1] - cut.count) % cut.step) % cut.count
        rows = rows if dm.is_zero(missing) else _padded(rows, 0, missing)
    out = _transforms(rows, cut, trend, is_half) * ops.sqrt(_scale(cut, scaling, rate))
    segments = ops.cast(ops.arange(0, out.meta.dims[-1], 1, dt.int64), dt.float64)
    half = (
        0.0 if boundary is not None else ops.cast(ops.full((), cut.count, dt.int64), dt.float64) / 2
    )
    times = ops.cast(segments * cut.step + half, rate.dtype) / rate
    at = axis - 1 if axis < 0 else axis
    return _frequencies(cut, is_half, rate), times, with_axis_at(out, -2, at)


# -- as users call them --------------------------------------------------------------------------
@takes(**_SPECTRUM, scaling=_SCALING, average=_AVERAGE)
def csd(
    x: TensorLike, y: TensorLike | None, fs: Any = 1.0, window: Any = "hann",
    nperseg: Any = None, noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The cross spectrum of two signals by Welch's method: conj(X) Y of their segments, averaged.

    Args:
        x: [..., n, ...], of floats or complex numbers; ints, and floats of 16 bits, are taken as
            the default float.
        y: as x; the shorter one has zeros behind it, and other axes broadcast. None: it is x.
        fs: samples in a unit of time; it may be a tensor of one number.
        window: a name, or a pair of a name and a number, as :func:`get_window` takes them, or the
            points of a window, [nperseg].
        nperseg: points of a segment: 256 by default, n at most.
        noverlap: points that a segment has of the one before, by default ``nperseg // 2``.
        nfft: points that are transformed, by default ``nperseg``.
        detrend: "constant" or "linear", what is taken off each segment; a function of segments
            [..., segments, nperseg]; or False.
        return_onesided: of real signals, the frequencies from 0 on alone, with all the power.
        scaling: "density": in units of x^2 / frequency; "spectrum": in units of x^2.
        axis: the axis of time.
        average: "mean" or "median", the latter over what it is of noise with a mean of 1.

    Returns:
        ``(f, Pxy)``: frequencies [k], and a spectrum [..., k, ...], complex but for y None.

    Raises:
        ShapeError: a signal is empty, or the window has another number of points.
        ArgumentError: there is no such window, or sizes that go together do not.
        AttributeValueError: axis is out of range.

    >>> import phix
    >>> x = phix.to_tensor([1.0, -1.0] * 4)
    >>> f, Pxy = phix.scipy.signal.csd(x, -x, window="boxcar", nperseg=4, scaling="spectrum")
    >>> f.tolist(), Pxy.real.tolist()
    ([0.0, 0.25, 0.5], [0.0, 0.0, -1.0])
    """
    how = (detrend, return_onesided, scaling, axis, average)
    given = [x] if y is None else [x, y]
    return _cross("csd", given, (fs, window, nperseg, noverlap, nfft), how)


@takes(**_SPECTRUM, scaling=_SCALING, average=_AVERAGE)
def welch(
    x: TensorLike, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The power spectrum of a signal by Welch's method: abs(X)^2 of its segments, averaged.

    Args:
        x: [..., n, ...], of floats or complex numbers; ints, and floats of 16 bits, are taken as
            the default float.
        fs, window, nperseg, noverlap, nfft, detrend: as for :func:`csd`.
        return_onesided, scaling, axis, average: as for :func:`csd`.

    Returns:
        ``(f, Pxx)``: frequencies [k], and a spectrum [..., k, ...], real.

    Raises:
        ShapeError, ArgumentError, AttributeValueError: as for :func:`csd`.

    >>> import phix
    >>> x = phix.to_tensor([1.0, -1.0] * 4)
    >>> f, Pxx = phix.scipy.signal.welch(x, window="boxcar", nperseg=4, scaling="spectrum")
    >>> f.tolist(), Pxx.tolist()
    ([0.0, 0.25, 0.5], [0.0, 0.0, 1.0])
    """
    how = (detrend, return_onesided, scaling, axis, average)
    return _cross("welch", [x], (fs, window, nperseg, noverlap, nfft), how)


@takes(**_SPECTRUM, boundary=NONE | one_of(*_BEYOND), padded=FLAG, scaling=_STFT_SCALING)
def stft(
    x: TensorLike, fs: Any = 1.0, window: Any = "hann", nperseg: Any = 256,
    noverlap: Any = None, nfft: Any = None, detrend: Any = False,
    return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True,
    axis: int = -1, scaling: str = "spectrum",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The transforms of segments of a signal, over time: its short-time Fourier transform.

    Args:
        x: [..., n, ...], of floats or complex numbers; ints, and floats of 16 bits, are taken as
            the default float.
        fs, window, nperseg, noverlap, nfft, detrend: as for :func:`csd`.
        return_onesided: of real signals, the frequencies from 0 on alone.
        boundary: what is put at both ends, nperseg // 2 points: "zeros", the ends themselves,
            "constant", the signal mirrored, "even", and turned by half, "odd"; or None, nothing.
        padded: zeros are put behind, so that the last segment has all points.
        axis: the axis of time.
        scaling: "spectrum": transforms are divided by the sum of the window; "psd": by
            sqrt(fs times the sum of its squares).

    Returns:
        ``(f, t, Zxx)``: frequencies [k], times of the middle of segments [s], and transforms,
        complex: k stands where the axis was, and s last.

    Raises:
        ShapeError: the signal is empty, or the window has another number of points.
        ArgumentError: there is no such window, or sizes that go together do not.
        AttributeValueError: axis is out of range.

    >>> import phix
    >>> x = phix.to_tensor([1.0, -1.0] * 4)
    >>> f, t, Zxx = phix.scipy.signal.stft(x, window="boxcar", nperseg=4, boundary=None)
    >>> f.tolist(), t.tolist()
    ([0.0, 0.25, 0.5], [2.0, 4.0, 6.0])
    >>> Zxx.real.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    how = (detrend, return_onesided, boundary, padded, axis, scaling)
    return _over_time(x, (fs, window, nperseg, noverlap, nfft), how)


def _inverse_cutting(
    window: Any, sizes: tuple[Any, Any, Any], points: Any, is_half: bool, dtype: Any
) -> _Cutting:
    """The sizes of the segments that ``points`` frequencies are of."""
    nperseg, noverlap, nfft = (v if v is None else as_size(v) for v in sizes)
    most = 2 * (points - 1) if is_half else points
    count = most if nperseg is None else nperseg
    if nfft is None:
        is_odd = is_half and dm.is_known(count, most) and count == most + 1
        nfft = count if is_odd else most
    if _is_below(count, 1):
        raise ShapeError(f"istft: {points} frequencies are of no segment; write more")
    return _cutting("istft", window, (count, noverlap, nfft), count, dtype)


@takes(
    **_SEGMENTS, input_onesided=FLAG, boundary=FLAG | NONE, time_axis=INT, freq_axis=INT,
    scaling=_STFT_SCALING,
)  # fmt: skip
def istft(
    Zxx: TensorLike, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None,
    noverlap: Any = None, nfft: Any = None, input_onesided: bool = True, boundary: Any = True,
    time_axis: int = -1, freq_axis: int = -2, scaling: str = "spectrum",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The signal whose segments have these transforms, by least squares: the inverse of ``stft``.

    Segments are multiplied with the window, added up, and divided by the sum of its squares. Where
    that is no more than 1e-10 nothing is divided, and the signal is not found.

    Args:
        Zxx: [..., k, s], the transforms of s segments at k frequencies.
        fs, window, noverlap: as for :func:`csd`.
        nperseg: points of a segment: by default 2 (k - 1), or k of both sides. Of an odd number,
            write it.
        nfft: points that were transformed, by default as many.
        input_onesided: whether Zxx has the frequencies from 0 on alone. The signal is real then.
        boundary: whether ``stft`` put points at both ends, which are left out.
        time_axis, freq_axis: where s and k stand in Zxx.
        scaling: that of ``stft``.

    Returns:
        ``(t, x)``: times [n], and a signal [..., n], n where the axes were but for k.

    Raises:
        ShapeError: Zxx has not two axes, or is empty, or the window has another number of points.
        ArgumentError: the axes are one, there is no such window, or sizes that go together do not.
        AttributeValueError: an axis is out of range.

    >>> import phix
    >>> x = phix.to_tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> f, t, Zxx = phix.scipy.signal.stft(x, nperseg=4)
    >>> phix.scipy.signal.istft(Zxx, nperseg=4)[1].round(decimals=3).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    (z,) = _signals("istft", [Zxx])
    if z.ndim < 2:
        raise ShapeError(f"istft: Zxx must have axes of time and frequency, found {z.meta}")
    time, frequency = axes_of("istft", z, (time_axis, freq_axis), None)
    order = [a for a in range(z.ndim) if a not in (time, frequency)]
    rows = ops.transpose(z, [*order, frequency, time])
    points = rows.meta.dims[-2]
    cut = _inverse_cutting(window, (nperseg, noverlap, nfft), points, input_onesided, z.dtype)
    frames = (fft.irfft if input_onesided else fft.ifft)(rows, cut.size, axis=-2)
    frames = fitted(frames, (frames.ndim - 2,), (cut.count,))
    rate, taper = _rate("istft", fs, z.dtype), ops.unsqueeze(cut.window, [1])
    x = ops.overlap_add(frames * taper, cut.step, -1)
    weights = ops.expand(taper * taper, (cut.count, rows.meta.dims[-1]))
    weight = ops.overlap_add(weights, cut.step, -1)
    x = x / (ops.sqrt(_scale(cut, scaling, rate)) * ops.where(weight > 1e-10, weight, 1.0))
    if boundary:
        edge = cut.count // 2
        x = x[..., edge : x.meta.dims[-1] - edge]
    times = ops.cast(ops.arange(0, x.meta.dims[-1], 1, dt.int64), rate.dtype) / rate
    return times, with_axis_at(x, -1, time - (frequency < time))
