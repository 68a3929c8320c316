"""Fourier transforms beyond the samples of the op table: phix.fft beside NumPy's and SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st

import phix
from phix import ops
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError
from phix.kernels.cpu import host_steps
from phix.testing import derivatives as differences

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(6)
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}
NORMS = [None, "backward", "ortho", "forward"]
FROM_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}
TO_REAL = {"irfft", "hfft", "irfft2", "irfftn"}
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL_AXES = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


def drawn(shape: Any, dtype: Any = "float64") -> np.ndarray:
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def near(found: Any, wanted: Any, tolerance: float | None = None) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    if tolerance is None:
        tolerance = TOLERANCE[found.dtype.name]
    # an error is one of the sums, so it is as large as the largest of them
    size = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * size)


def of(name: str, dtype: str = "float64") -> str:
    """A dtype that a function takes, of that precision."""
    return dtype if name in FROM_REAL else f"complex{2 * int(dtype[-2:])}"


# -- values --------------------------------------------------------------------------------------
@st.composite
def one_axis_calls(draw: Any) -> tuple[str, np.ndarray, dict[str, Any]]:
    name = draw(st.sampled_from(ONE_AXIS))
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    if name in TO_REAL:
        shape[axis] += 1  # of a single point, the size has to be named
    kwargs = {"n": draw(st.none() | st.integers(1, 9)), "axis": axis}
    dtype = of(name, draw(st.sampled_from(["float32", "float64"])))
    return name, drawn(shape, dtype), kwargs | {"norm": draw(st.sampled_from(NORMS))}


@given(one_axis_calls())
def test_one_axis_is_that_of_numpy(call: tuple[str, np.ndarray, dict[str, Any]]) -> None:
    name, x, kwargs = call
    found = getattr(phix.fft, name)(x, **kwargs)
    near(found, getattr(np.fft, name)(x.astype(of(name)), **kwargs), TOLERANCE[x.dtype.name])
    double = x.dtype.name in ("float64", "complex128")
    assert found.dtype == np.dtype(
        f"float{32 << double}" if name in TO_REAL else f"complex{64 << double}"
    )


@st.composite
def several_axes_calls(draw: Any) -> tuple[str, np.ndarray, dict[str, Any]]:
    name = draw(st.sampled_from(SEVERAL_AXES))
    shape = draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    kwargs: dict[str, Any] = {"norm": draw(st.sampled_from(NORMS))}
    if draw(st.booleans()):
        kwargs["axes"] = tuple(a - draw(st.sampled_from([0, len(shape)])) for a in axes)
    count = len(kwargs.get("axes", shape[-2:]))
    if draw(st.booleans()):
        kwargs["s"] = tuple(draw(st.integers(1, 6)) for _ in range(count))
    if "axes" not in kwargs and "2" not in name and "s" in kwargs:
        kwargs["axes"] = (-2, -1)  # NumPy has it deprecated; the default is tested below
    return name, drawn(shape, of(name)), kwargs


@given(several_axes_calls())
def test_several_axes_are_those_of_numpy(call: tuple[str, np.ndarray, dict[str, Any]]) -> None:
    name, x, kwargs = call
    near(getattr(phix.fft, name)(x, **kwargs), getattr(np.fft, name)(x, **kwargs))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_axes_are_by_default_the_last_ones_of_s(name: str) -> None:
    x = drawn((2, 3, 4), of(name))
    near(getattr(phix.fft, name)(x, (5, 6)), getattr(np.fft, name)(x, (5, 6), (1, 2)))
    near(getattr(phix.fft, name)(x, (None, 6), (0, 2)), getattr(np.fft, name)(x, (2, 6), (0, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("forward", [True, False])
def test_real_sides_over_several_axes_are_those_of_scipy(forward: bool, dtype: str) -> None:
    x = drawn((3, 4, 5), dtype)
    half = drawn((3, 4, 3), of("fft", dtype))
    to_complex = scipy.fft.rfftn if forward else scipy.fft.ihfftn
    to_real = scipy.fft.hfftn if forward else scipy.fft.irfftn
    for norm in NORMS[1:]:
        near(ops.fft_r2c(x, [0, 2], norm, forward, True), to_complex(x, None, (0, 2), norm))
        found = ops.fft_c2r(half, [0, 2], norm, forward, 5)
        near(found, to_real(half, (3, 5), (0, 2), norm))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 31])
@pytest.mark.parametrize("norm", NORMS)
def test_inverses_undo_transforms(n: int, norm: str | None) -> None:
    x, z = drawn((2, n)), drawn((2, n), "complex128")
    near(phix.fft.ifft(phix.fft.fft(z, norm=norm), norm=norm), z)
    near(phix.fft.irfft(phix.fft.rfft(x, norm=norm), n, norm=norm), x)
    near(phix.fft.hfft(phix.fft.ihfft(x, norm=norm), n, norm=norm), x)
    near(phix.fft.ifft2(phix.fft.fft2(z, norm=norm), norm=norm), z)
    near(phix.fft.irfftn(phix.fft.rfftn(x, norm=norm), (2, n), norm=norm), x)


def test_large_transforms_are_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIX_NUM_THREADS", "3")
    assert host_steps._workers(1 << 20) == 3 and host_steps._workers(100) == 1
    x = drawn((40, 1000), "complex64")
    near(phix.fft.fft(x), scipy.fft.fft(x.astype("complex128")))


def test_products_of_transforms_are_transforms_of_convolutions() -> None:
    signal, kernel = drawn(40), drawn(7)

    @phix.jit
    def convolved(signal: Any, kernel: Any) -> Any:
        n = signal.shape[0] + kernel.shape[0] - 1
        return phix.fft.irfft(phix.fft.rfft(signal, n) * phix.fft.rfft(kernel, n), n)

    near(convolved(signal, kernel), np.convolve(signal, kernel))
    to_kernel = phix.grad(lambda k: (convolved(signal, k) ** 2).sum())(phix.to_tensor(kernel))
    near(to_kernel, np.correlate(2 * np.convolve(signal, kernel), signal, "valid"), 1e-11)


# -- dtypes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "float16", "bfloat16"])
def test_other_dtypes_are_taken_as_float32(dtype: str) -> None:
    x = phix.ops.cast(phix.to_tensor([1.0, 0.0, 3.0, 1.0, 2.0]), dtype)
    wide = np.asarray(x).astype("float64")
    for name in ("fft", "rfft", "ihfft", "irfft"):
        found = getattr(phix.fft, name)(x)
        assert found.dtype == ("float32" if name in TO_REAL else "complex64")
        near(found, getattr(np.fft, name)(wide))


def test_lists_and_python_numbers_are_arrays() -> None:
    found = phix.fft.fft([1, 2j, 3.0])
    assert found.dtype == "complex64"
    near(found, np.fft.fft([1, 2j, 3]))


def test_results_of_no_rows_are_empty() -> None:
    for name in ONE_AXIS:
        x = np.zeros((0, 4), of(name))
        near(getattr(phix.fft, name)(x), getattr(np.fft, name)(x))


# -- frequencies, shifts -------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_and_shifts_are_those_of_numpy(n: int) -> None:
    near(phix.fft.fftfreq(n, 0.25), np.fft.fftfreq(n, 0.25))
    near(phix.fft.rfftfreq(n, 0.3, dtype="float64"), np.fft.rfftfreq(n, 0.3))
    assert phix.fft.fftfreq(n).dtype == "float32"
    x = RNG.integers(0, 100, (n, 3, 4))
    for axes in (None, 0, (1, -1), [2]):
        for name in ("fftshift", "ifftshift"):
            found = getattr(phix.fft, name)(x, axes)
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(found, getattr(np.fft, name)(x, axes))
    assert phix.fft.fftshift(3.0).item() == 3.0


# -- derivatives ---------------------------------------------------------------------------------
CALLS: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = [
    ("fft", partial(phix.fft.fft, n=6, axis=0), (5, 2)),
    ("fft", partial(phix.fft.fft, n=3), (2, 5)),
    ("ifft", partial(phix.fft.ifft, norm="ortho"), (4,)),
    ("rfft", phix.fft.rfft, (5,)),
    ("rfft", partial(phix.fft.rfft, axis=0, norm="forward"), (6, 2)),
    ("rfft", phix.fft.rfft, (1,)),
    ("rfft", phix.fft.rfft, (2,)),
    ("irfft", phix.fft.irfft, (4,)),
    ("irfft", partial(phix.fft.irfft, n=5, norm="ortho"), (4,)),
    ("irfft", partial(phix.fft.irfft, n=2), (2,)),
    ("hfft", partial(phix.fft.hfft, n=7), (2, 3)),
    ("ihfft", phix.fft.ihfft, (5,)),
    ("rfftn", partial(phix.fft.rfftn, axes=(2, 0)), (3, 2, 4)),
    ("irfftn", partial(phix.fft.irfftn, s=(4, 5)), (3, 2)),
    ("fft2", phix.fft.fft2, (3, 2)),
]
IDS = [f"{name}{shape}" for name, _, shape in CALLS]


@pytest.mark.parametrize(("name", "f", "shape"), CALLS, ids=IDS)
def test_derivatives_are_differences(name: str, f: Any, shape: tuple[int, ...]) -> None:
    """Pullback and tangent (and one against the other), and their derivatives."""
    arrays, rng = [drawn(shape, of(name))], np.random.default_rng(1)

    def outputs(x: Any) -> tuple[Any, ...]:
        return (f(x),)

    def squared(x: Any) -> tuple[Any, ...]:
        out = f(x)
        return (ops.real(out) ** 2 * ops.imag(out) + out.abs() ** 2,)

    differences.check_pullback(outputs, arrays, rng=rng, tolerance=1e-6)
    differences.check_tangent(outputs, arrays, rng=rng, tolerance=1e-6)
    differences.check_higher(squared, arrays, order=2, rng=rng, tolerance=1e-5)


@pytest.mark.parametrize("n", [5, 6])
def test_gradients_are_the_adjoints_written_out(n: int) -> None:
    """Of A x the gradient is A^H g, with A the matrix whose columns are the transformed units."""
    matrix = np.fft.rfft(np.eye(n), axis=0)
    g = drawn(n // 2 + 1, "complex128")
    _, pull = phix.vjp(phix.fft.rfft, drawn(n))
    near(pull(g)[0], (matrix.conj().T @ g).real)
    units = np.eye(n // 2 + 1)
    real, imag = np.fft.irfft(units, n, 0), np.fft.irfft(1j * units, n, 0)
    weights = drawn(n)
    _, pull = phix.vjp(lambda z: phix.fft.irfft(z, n), g)
    near(pull(weights)[0], real.T @ weights + 1j * imag.T @ weights)


def test_linear_transposes_and_taylor_series() -> None:
    x, g = drawn(6), drawn(4, "complex128")
    (back,) = phix.linear_transpose(phix.fft.rfft, phix.spec([6], "float64"))(g)
    product = np.vdot(np.fft.rfft(x), g).real
    near(np.dot(np.asarray(back), x), product)
    w = drawn(6)
    third = phix.derivative(lambda t: ops.real(phix.fft.rfft(ops.exp(t * w))).sum(), 3)
    near(third(np.float64(0.3)), np.fft.rfft(w**3 * np.exp(0.3 * w)).real.sum(), 1e-11)


# -- transformations -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ONE_AXIS)
def test_mapped_is_one_after_the_other(name: str) -> None:
    f = getattr(phix.fft, name)
    x = drawn((3, 4, 5), of(name))
    near(phix.vmap(f)(x), f(x))
    near(phix.vmap(partial(f, axis=0), in_axes=2, out_axes=1)(x),
         np.moveaxis(np.asarray(f(x, axis=0)), 2, 1))  # fmt: skip
    graph = str(phix.make_graph(phix.vmap(f))(x))
    assert graph.count("fft_") == 1


@pytest.mark.parametrize("name", ONE_AXIS + SEVERAL_AXES)
def test_one_program_serves_all_sizes(name: str) -> None:
    f = getattr(phix.fft, name)
    dtype = of(name)
    compiled = phix.jit(f, input_spec=[phix.spec(["m", "n"], dtype)])
    for shape in ((2, 3), (4, 6), (3, 7), (1, 2)):
        x = drawn(shape, dtype)
        near(compiled(x), f(x))


def test_sizes_may_be_unknown_dims() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        half = phix.fft.rfft(x, 2 * n)
        back = phix.fft.irfft(half, 2 * n)
        cut = phix.fft.fft(back, n)
        to_x = phix.grad(lambda y: (phix.fft.rfft(y).abs() ** 2).sum())(x)
        return back, cut, phix.fft.fftshift(x), phix.fft.fftfreq(n, 0.5), to_x

    compiled = phix.jit(f, input_spec=[phix.spec(["n"], "float64")])
    for n in (1, 4, 7):
        x = drawn(n)
        back, cut, shifted, frequencies, to_x = compiled(x)
        near(back, np.pad(x, (0, n)))
        near(cut, np.fft.fft(x))
        near(shifted, np.fft.fftshift(x))
        near(frequencies, np.fft.fftfreq(n, 0.5))
        # the energy of all points is n times that of x; one of each pair is missing
        half, full = np.fft.rfft(x), np.zeros(n, complex)
        full[: len(half)] = half
        near(to_x, 2 * n * np.fft.ifft(full).real)


def test_a_size_that_turns_out_wrong_is_an_error() -> None:
    compiled = phix.jit(
        lambda z: ops.fft_c2r(z, [0], "backward", False, 6),
        input_spec=[phix.spec(["m"], "complex128")],
    )
    z = drawn(4, "complex128")
    near(compiled(z), np.fft.irfft(z))
    with pytest.raises(ShapeError, match=r"must have last_dim_size // 2 \+ 1 = 4"):
        compiled(z[:3])


def test_steps_around_a_transform_are_fused() -> None:
    def spectral_derivative(x: Any) -> Any:
        k = 2 * np.pi * phix.fft.rfftfreq(x.shape[0], 1 / x.shape[0], dtype="float64")
        return phix.fft.irfft(1j * k * phix.fft.rfft(ops.sin(2 * np.pi * x)), x.shape[0])

    x = np.arange(16) / 16
    near(phix.jit(spectral_derivative)(x), 2 * np.pi * np.cos(2 * np.pi * x), 1e-10)
    text = phix.jit(spectral_derivative).lower(x).as_text("loop ir")
    assert text.count("fft_float64(") == 2 and "host" not in text
    assert text.count("kernel ") <= 4
    library = phix.jit(spectral_derivative, disable="own_transforms").lower(x).as_text("loop ir")
    assert library.count("host fft_") == 2 and library.count("kernel ") <= 2


# -- errors --------------------------------------------------------------------------------------
X = np.ones((3, 4))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: phix.fft.fft(X, axis=2), AttributeValueError, r"fft: axis 2 .* -2\.\.1"),
        (lambda: phix.fft.fft(X, 0), AttributeValueError, "fft: a size of 0"),
        (lambda: phix.fft.irfft(X, -2), AttributeValueError, "irfft: a size of -2"),
        (lambda: phix.fft.fft(X, 2.5), ArgumentError, "a size is an int"),
        (lambda: phix.fft.rfft(X, norm="unit"), AttributeValueError, "rfft: norm must be None"),
        (lambda: phix.fft.rfft(X * 1j), DTypeError, "rfft takes real numbers, found complex128"),
        (lambda: phix.fft.ihfft(X * 1j), DTypeError, "ihfft takes real numbers"),
        (lambda: phix.fft.fft(2.0), ShapeError, "fft: x must have an axis"),
        (lambda: phix.fft.fft(X[:, :0]), ShapeError, "has no elements"),
        (lambda: phix.fft.irfft(X[:, :1]), AttributeValueError, "irfft: .* 0 elements"),
        (lambda: phix.fft.fftn(X, axes=(0, -2)), AttributeValueError, "name an axis twice"),
        (lambda: phix.fft.fftn(X, axes=()), AttributeValueError, "axes is empty"),
        (lambda: phix.fft.fftn(X, (3,), (0, 1)), AttributeValueError, "one size for each axis"),
        (lambda: phix.fft.fftn(X, 3), ArgumentError, r"s must be a list or tuple of ints"),
        (lambda: phix.fft.fftn(X, axes=(0.5,)), ArgumentError, "axes must be an int"),
        (lambda: phix.fft.fftshift(X, 2), AttributeValueError, "fftshift: axis 2"),
        (lambda: phix.fft.fftfreq(0), AttributeValueError, "fftfreq: a size of 0"),
        (lambda: ops.fft_c2c(X, [0], "backward", True), DTypeError, "fft_c2c"),
        (lambda: ops.fft_r2c(X.astype("float16"), [0], "backward", True, True), DTypeError,
         "the op takes float32, float64; found float16"),
        (lambda: ops.fft_c2r(X * 1j, [1], "backward", False, 9), ShapeError,
         "must have last_dim_size // 2 [+] 1 = 5 elements"),
    ],
)  # fmt: skip
def test_errors_say_what_to_write(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_samples_at_one_time_have_no_frequency(name: str) -> None:
    for d in (0, 0.0):
        with pytest.raises(AttributeValueError, match=f"{name}: d is 0"):
            getattr(phix.fft, name)(4, d)
