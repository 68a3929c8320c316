"""Convolutions, trends, windows, spectra and cosine transforms, beside SciPy's and closed forms."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import phix
from phix.core.errors import ArgumentError, AttributeValueError, PhixError, ShapeError
from phix.scipy import fft, signal
from phix.scipy.signal import convolutions, spectra, trends, windows

pytestmark = [
    pytest.mark.unoptimised,
    pytest.mark.filterwarnings("ignore:nperseg ?="),  # SciPy's, of short signals
]
RNG = np.random.default_rng(7)
SIGNAL = RNG.standard_normal((2, 50))
OTHER = RNG.standard_normal((2, 50))
Function = Callable[..., Any]


def normal(*shape: int, is_complex: bool = False) -> Any:
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if is_complex else x


def same(found: Any, wanted: Any, tolerance: float = 1e-11) -> None:
    found, wanted = (v if isinstance(v, tuple) else (v,) for v in (found, wanted))
    for own, other in zip(found, wanted):
        assert own.shape == other.shape
        assert (own.dtype.kind == "c") == (other.dtype.kind == "c")
        np.testing.assert_allclose(own, other, tolerance, tolerance)


# -- convolutions ----------------------------------------------------------------------------------
SHAPES = [((7,), (3,)), ((3,), (6,)), ((3, 2), (4, 3)), ((3, 4, 5), (2, 3, 1)),
          ((2, 2, 3, 2, 3), (1, 2, 2, 2, 1))]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_any_number_of_axes(shapes: Any, name: str, mode: str) -> None:
    is_complex = len(shapes[0]) == 2
    x, y = (normal(*shape, is_complex=is_complex) for shape in shapes)
    wanted = getattr(scipy.signal, name)(x, y, mode, "direct")
    for method in ("direct", "fft")[: 1 + (name == "convolve")]:
        same(getattr(signal, name)(x, y, mode, method), wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("boundary", "fillvalue"), [("fill", 0), ("fill", np.float32(1.5)), ("wrap", 0), ("symm", 0)]
)
@pytest.mark.parametrize("sizes", [((5, 4), (3, 2)), ((2, 3), (5, 8)), ((1, 4), (2, 2))])
def test_images_with_what_is_around_them(boundary: str, fillvalue: float, sizes: Any) -> None:
    x, y = (normal(*size) for size in sizes)
    for name in ("convolve2d", "correlate2d"):
        for mode in ("full", "same"):
            wanted = getattr(scipy.signal, name)(x, y, mode, boundary, fillvalue)
            same(getattr(signal, name)(x, y, mode, boundary, fillvalue), wanted)
    x, y = normal(5, 4, is_complex=True), normal(2, 3)
    same(signal.correlate2d(x, y, "valid"), scipy.signal.correlate2d(x, y, "valid"))
    swapped = signal.correlate2d(y, x, "valid").numpy()  # by the formula: SciPy's is its conjugate
    same(swapped, scipy.signal.correlate(y, x, "valid"))


def test_other_axes_broadcast_and_long_ones_are_quick() -> None:
    x, y = normal(3, 1, 8), normal(1, 2, 3)
    for mode in ("full", "valid"):
        same(signal.fftconvolve(x, y, mode, axes=2), scipy.signal.fftconvolve(x, y, mode, axes=2))
    x, y = normal(100003), normal(50021)
    found = signal.convolve(x, y, "valid")
    np.testing.assert_allclose(found[123], np.dot(x[123 : 123 + 50021], y[::-1]), 1e-9)
    for n in (1, 2, 7, 11, 17, 97, 1021, 4097, 65537):
        assert convolutions._quick_size(n) == scipy.fft.next_fast_len(n, real=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int32"])
def test_dtypes(dtype: str) -> None:
    x = phix.to_tensor([1.0, 2.0, 3.0, 0.0]).astype(dtype)
    wanted = "float32" if dtype in ("int32", "bool") else dtype
    wide = "float32" if wanted.endswith("16") else wanted
    for found in (signal.convolve(x, x), signal.fftconvolve(x, x), signal.detrend(x)):
        assert found.dtype == wanted
    assert fft.dct(x).dtype == wide and fft.dct(x, 3, norm="ortho").dtype == wide
    assert signal.welch(x, nperseg=2)[1].dtype == ("float32" if wide[0] == "c" else wide)
    assert {v.dtype.kind for v in signal.stft(x, nperseg=2)} == {"f", "c"}
    assert signal.convolve([1, 2], [1, 1]).tolist() == [1.0, 3.0, 2.0]


# -- cosine transforms ----------------------------------------------------------------------------
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_cosine_transforms(kind: int, norm: str | None) -> None:
    x = normal(3, 5)
    for name in ("dct", "idct"):
        own, other = getattr(fft, name), getattr(scipy.fft, name)
        same(own(x, kind, axis=0, norm=norm), other(x, kind, axis=0, norm=norm))
        for n in (2, 8):
            same(own(x, kind, n, norm=norm), other(x, kind, n, norm=norm))
    z = normal(2, 3, is_complex=True)
    same(fft.dctn(z, kind, norm=norm), scipy.fft.dctn(z, kind, norm=norm))
    back = fft.idctn(fft.dctn(x, kind, (4,), (1,), norm), kind, None, (1,), norm)
    same(back, x[:, :4])


def test_csd_of_one_signal_is_its_power() -> None:
    same(signal.csd(SIGNAL, None, nperseg=9), signal.welch(SIGNAL, nperseg=np.int32(9)))


def test_the_shorter_signal_has_zeros_behind_it() -> None:
    for x, y in ((SIGNAL, OTHER[:, :41]), (SIGNAL[:, :41], OTHER)):
        same(signal.csd(x, y, nperseg=9), scipy.signal.csd(x, y, nperseg=9))


def test_one_point_and_many() -> None:
    for kind in (2, 3, 4):
        same(fft.dct([[3.0]], kind).numpy(), scipy.fft.dct(np.float32([[3.0]]), kind), 1e-6)
    x = normal(30011)
    same(fft.dct(x), scipy.fft.dct(x), 1e-8)


# -- trends and windows ---------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["linear", "constant"])
@pytest.mark.parametrize("bp", [0, [2, 5], [0, 1, 9], (3, 3)])
def test_trends(kind: str, bp: Any) -> None:
    x = normal(9, 2, is_complex=True)
    same(signal.detrend(x, 0, kind, bp), scipy.signal.detrend(x, 0, kind, bp))
    same(signal.detrend(x.real.T, type=kind, bp=bp), scipy.signal.detrend(x.real.T, -1, kind, bp))


@pytest.mark.parametrize("name", [n for n in windows.__all__ if n != "get_window"])
def test_windows(name: str) -> None:
    if name == "kaiser":  # a number alone
        for number in (5.0, 5):
            alone = signal.get_window(number, 8)
            np.testing.assert_allclose(alone, scipy.signal.get_window(5.0, 8), rtol=1e-6)
    parameter = {"gaussian": (2.5,), "kaiser": (5.0,), "tukey": (0.3,)}.get(name, ())
    for M in (0, 1, 2, 7, 8):
        for sym in (True, False):
            wanted = getattr(scipy.signal.windows, name)(M, *parameter, sym)
            same(getattr(windows, name)(M, *parameter, sym), wanted, 1e-6)
    spelled = (name, *parameter) if parameter else name
    wide = windows.window_in_float64(spelled, 12)
    same(wide, scipy.signal.get_window(spelled, 12), 1e-12)


def test_a_parameter_of_a_window_has_a_slope() -> None:
    def area(beta: Any) -> Any:
        return windows.kaiser(9, beta).sum()

    beta, h = phix.to_tensor(3.0, "float64"), 1e-3
    ends = [scipy.signal.windows.kaiser(9, 3.0 + s * h).sum() for s in (1, -1)]
    assert phix.grad(area)(beta).item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


# -- spectra --------------------------------------------------------------------------------------
SPECTRA: list[dict[str, Any]] = [
    {},
    {"nperseg": 16, "fs": 10.0, "window": "hamming"},
    {"nperseg": 9, "noverlap": 7, "nfft": 15, "detrend": "linear", "scaling": "spectrum"},
    {"nperseg": 8, "noverlap": 0, "average": "median", "detrend": False},
    {"nperseg": 8, "window": ("tukey", 0.25), "return_onesided": False, "average": "median"},
    {"window": np.hanning(12) + 0.1, "noverlap": 3, "detrend": lambda rows: rows * 2.0},
]


@pytest.mark.parametrize("settings", SPECTRA, ids=lambda s: ", ".join(s))
def test_averaged_spectra(settings: dict[str, Any]) -> None:
    same(signal.welch(SIGNAL, **settings), scipy.signal.welch(SIGNAL, **settings))
    same(signal.csd(SIGNAL, OTHER, **settings), scipy.signal.csd(SIGNAL, OTHER, **settings))
    same(
        signal.welch(SIGNAL.T, axis=0, **settings), scipy.signal.welch(SIGNAL.T, axis=0, **settings)
    )
    z = SIGNAL[0] + 1j * OTHER[0]
    settings = {"return_onesided": False, **settings}
    same(signal.welch(z, **settings), scipy.signal.welch(z, **settings))


OVER_TIME: list[dict[str, Any]] = [
    {"nperseg": 16},
    {"nperseg": 12, "noverlap": 9, "nfft": 20, "fs": 4.0, "boundary": "even"},
    {"nperseg": 12, "boundary": "odd", "scaling": "psd", "detrend": "constant", "fs": 2.0},
    {"nperseg": 9, "boundary": "constant", "padded": False},
    {"nperseg": 10, "boundary": None, "return_onesided": False, "window": "boxcar"},
]


@pytest.mark.parametrize("settings", OVER_TIME, ids=lambda s: ", ".join(s))
def test_spectra_over_time_and_back(settings: dict[str, Any]) -> None:
    f, t, Z = scipy.signal.stft(SIGNAL, **settings)
    same(signal.stft(SIGNAL, **settings), (f, t, Z))
    same(signal.stft(SIGNAL.T, axis=0, **settings), scipy.signal.stft(SIGNAL.T, axis=0, **settings))
    back = {k: v for k, v in settings.items() if k not in ("padded", "detrend", "return_onesided")}
    back["boundary"] = settings.get("boundary", "zeros") is not None
    back["input_onesided"] = settings.get("return_onesided", True)
    same(signal.istft(Z[0], **back), scipy.signal.istft(Z[0], **back), 1e-9)
    wanted = scipy.signal.istft(Z, **back)[1]  # its times are as many as there are signals
    turned = np.moveaxis(Z, 0, -1)
    same(signal.istft(turned, time_axis=1, freq_axis=0, **back)[1].T, wanted, 1e-9)
    if settings.get("padded", True) and "detrend" not in settings:
        same(signal.istft(Z, **back)[1][:, :50].real, SIGNAL, 1e-9)


# -- programs -------------------------------------------------------------------------------------
X = phix.to_tensor(SIGNAL[0, :14])
Y = phix.to_tensor(OTHER[0, :14])
PROGRAMS: dict[str, Function] = {
    "by transforms": lambda x: signal.convolve(x, Y, "valid", "fft") + signal.fftconvolve(x, x)[3],
    "four axes": lambda x: signal.correlate(x[:8].reshape([2, 1, 2, 2]), Y.reshape([1, 1, 7, 2])),
    "wrapped": lambda x: signal.correlate2d(x.reshape([2, 7]), Y.reshape([7, 2]), "same", "wrap"),
    "detrend": lambda x: signal.detrend(x, bp=5),
    "welch": lambda x: signal.welch(x, nperseg=5, detrend="linear")[1],
    "median": lambda x: signal.welch(x, nperseg=5, average="median")[1],
    "csd": lambda x: signal.csd(x, Y, nperseg=6)[1],
    "there and back": lambda x: signal.istft(
        signal.stft(x, nperseg=4)[2] ** 2, nperseg=4)[1],
    **{f"dct {k}": lambda x, k=k: fft.dct(x, k, norm="ortho") for k in (3, 4)},
}  # fmt: skip


def total(name: str) -> Function:
    """A loss of a program: its results squared, with weights."""

    def loss(x: Any) -> Any:
        out = PROGRAMS[name](x).reshape([-1])
        return (abs(out) ** 2 * (1.0 + phix.arange(out.size, dtype="float64"))).sum()

    return loss


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_lanes_and_compiled_programs(name: str) -> None:
    loss, h = total(name), 1e-5
    v = phix.to_tensor(OTHER[1, :14])
    slope = phix.jit(phix.grad(loss))
    away = [loss(X + s * h * v).item() for s in (1.0, -1.0)]
    along = (slope(X) * v).sum().item()
    assert along == pytest.approx((away[0] - away[1]) / (2 * h), rel=1e-6, abs=1e-6)
    assert phix.jvp(loss, (X,), (v,))[1].item() == pytest.approx(along, rel=1e-10)
    gradients = [slope(X + s * h * v).numpy() for s in (1.0, -1.0)]
    second = phix.jit(lambda x, v: phix.jvp(phix.grad(loss), (x,), (v,))[1])(X, v)
    scale = float(abs(second).max())
    np.testing.assert_allclose(second, (gradients[0] - gradients[1]) / (2 * h), 1e-5, 1e-6 * scale)
    lanes = phix.vmap(phix.grad(loss))(phix.ops.stack([X, 2.0 * v]))
    np.testing.assert_allclose(lanes, [slope(X), slope(2.0 * v)], 1e-9, 1e-9)


UNKNOWN: dict[str, tuple[Function, Function]] = {
    "full": (lambda x: signal.convolve(x, x[2:]), lambda x: scipy.signal.convolve(x, x[2:])),
    "same": (lambda x: signal.correlate(x, Y, "same"),
             lambda x: scipy.signal.convolve(x, Y.numpy()[::-1], "same")),
    "valid": (lambda x: signal.convolve(x, Y, "valid"),
              lambda x: scipy.signal.convolve(x, Y, "valid")),
    "fft": (lambda x: signal.fftconvolve(x, Y, "same"),
            lambda x: scipy.signal.convolve(x, Y, "same")),
    "symm": (lambda x: signal.convolve2d(x[None], Y[:5, None], boundary="symm"),
             lambda x: scipy.signal.convolve2d(x[None], Y.numpy()[:5, None], boundary="symm")),
    "detrend": (signal.detrend, scipy.signal.detrend),
    "welch": (lambda x: signal.welch(x)[1], lambda x: scipy.signal.welch(x)[1]),
    "median": (lambda x: signal.welch(x, nperseg=6, average="median")[1],
               lambda x: scipy.signal.welch(x, nperseg=6, average="median")[1]),
    "stft": (lambda x: signal.stft(x, nperseg=5)[2],
             lambda x: scipy.signal.stft(x, nperseg=5)[2]),
    "times": (lambda x: signal.stft(x, nperseg=9, boundary=None)[1],
              lambda x: scipy.signal.stft(x, nperseg=min(9, len(x)), boundary=None)[1]),
    "back": (lambda x: signal.istft(signal.stft(x, nperseg=6)[2], nperseg=6)[1],
             lambda x: scipy.signal.istft(scipy.signal.stft(x, nperseg=6)[2], nperseg=6)[1]),
    **{f"dct {k}": (lambda x, k=k: fft.dct(x, k, norm="ortho"),
                    lambda x, k=k: scipy.fft.dct(x, k, norm="ortho")) for k in (1, 2, 3, 4)},
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", UNKNOWN)
def test_sizes_may_be_unknown(name: str) -> None:
    own, other = UNKNOWN[name]
    compiled = phix.jit(own, input_spec=[phix.spec(["n"], "float64")])
    for n in (1, 7, 20, 33) if name == "welch" else (7, 20, 33):
        x = SIGNAL[1, :n]
        same(compiled(x), other(x), 1e-9)


def test_one_point_of_an_unknown_size_has_no_transform_of_type_1() -> None:
    compiled = phix.jit(lambda x: fft.dct(x, 1), input_spec=[phix.spec(["n"], "float64")])
    assert compiled(X[:2]).shape == (2,)
    with pytest.raises(ShapeError, match="than it has"):
        compiled(X[:1])


# -- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: signal.convolve(X, [[1.0]]),
            ShapeError,
            "convolve: in1 and in2 must have as many",
        ),
        (lambda: signal.convolve(X, []), ShapeError, "in2 must hold an element"),
        (lambda: signal.correlate(X, X, "some"), ArgumentError, "mode must be one of 'full'"),
        (lambda: signal.convolve(X, X, method="quick"), ArgumentError, "method must be one of"),
        (lambda: signal.convolve(SIGNAL, OTHER.T, "valid"), ShapeError, "write mode 'full'"),
        (lambda: signal.convolve2d(X, X), ShapeError, "must have two axes"),
        (lambda: signal.convolve2d(SIGNAL, SIGNAL, boundary="x"), ArgumentError, "boundary must"),
        (lambda: signal.convolve2d(SIGNAL, SIGNAL, fillvalue="x"), ArgumentError, "fillvalue must"),
        (lambda: signal.fftconvolve(SIGNAL, OTHER.T, axes=0), ShapeError, "axis 1 of"),
        (lambda: signal.fftconvolve(X, X, axes=1), AttributeValueError, "axis 1 is out of range"),
        (lambda: signal.detrend(X, type="square"), ArgumentError, "type must be one of"),
        (lambda: signal.detrend(X, bp=99), ArgumentError, "places from 0 to 14"),
        (lambda: signal.detrend(X, bp=[1.5]), ArgumentError, "bp must be an int or a list"),
        (lambda: signal.detrend(1.0), ShapeError, "must have an axis"),
        (lambda: signal.get_window("hat", 4), ArgumentError, "window must be one of 'boxcar'"),
        (lambda: signal.get_window("kaiser", 4), ArgumentError, r"window must be \('kaiser', beta"),
        (lambda: signal.get_window(("hann", 2.0), 4), ArgumentError, "window must be 'hann'"),
        (lambda: windows.hann(-1), ArgumentError, "hann: M must be an int from 0"),
        (lambda: signal.welch(X, window=[1.0] * 20), ShapeError, "longer than the signal, of 14"),
        (lambda: signal.welch(X, window=[1.0] * 5, nperseg=4), ShapeError, "not the nperseg 4"),
        (lambda: signal.welch(X, window=[[1.0]]), ShapeError, "window must be a name or"),
        (lambda: signal.welch(X, nperseg=8, nfft=4), ArgumentError, "nfft must be 8"),
        (lambda: signal.welch(X, nperseg=8, noverlap=8), ArgumentError, "less than nperseg 8"),
        (lambda: signal.welch(X, fs=0), ArgumentError, "fs must be a number above 0"),
        (lambda: signal.welch(X, fs=[1.0, 2.0]), PhixError, "fs must be"),
        (lambda: signal.welch(X, average="mode"), ArgumentError, "average must be one of"),
        (lambda: signal.welch(X, detrend=lambda rows: None), ArgumentError, "welch: "),
        (
            lambda: signal.welch(X, detrend=lambda rows: rows[:, :3]),
            ShapeError,
            "detrend must give",
        ),
        (lambda: signal.welch(1.0), ShapeError, "welch: a signal has an axis"),
        (lambda: signal.welch([]), ShapeError, "and an element"),
        (lambda: signal.csd(SIGNAL, normal(3, 50)), ShapeError, "x and y must broadcast"),
        (lambda: signal.stft(X, axis=1), AttributeValueError, "axis 1 is out of range"),
        (lambda: signal.istft(X), ShapeError, "axes of time and frequency"),
        (lambda: signal.istft(SIGNAL, time_axis=0, freq_axis=0), AttributeValueError, "twice"),
        (lambda: signal.istft(SIGNAL[:1]), ShapeError, "1 frequencies are of no segment"),
        (lambda: fft.dct(X, 5), ArgumentError, "type must be an int from 1 to 4"),
        (lambda: fft.dct(X[:1], 1), ShapeError, "2 points or more"),
        (lambda: fft.dct([]), ShapeError, "type 2 is of 1 points"),
        (lambda: fft.dct(X, norm="half"), ArgumentError, "norm must be one of"),
        (lambda: fft.idctn(X, axes=(0, 0)), AttributeValueError, "twice"),
        (lambda: fft.dct(X, n=0), AttributeValueError, "write 1 or more"),
    ],
)
def test_bad_input_is_refused(call: Function, error: type[PhixError], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("module", [fft, convolutions, trends, windows, spectra])
def test_examples_run(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


def test_fourier_transforms_of_scipys_module() -> None:
    x = np.random.default_rng(3).standard_normal((4, 6))
    for name in ("fft", "rfft", "fft2", "ifftn", "fftshift"):
        found, want = (getattr(m, name)(x) for m in (phix.scipy.fft, scipy.fft))
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(phix.scipy.fft.rfftfreq(5, 0.5), scipy.fft.rfftfreq(5, 0.5), 1e-6)
