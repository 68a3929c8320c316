"""Samples on grids, and codes: phix.scipy's ndimage, interpolate, integrate and cluster, beside
SciPy's; derivatives beside closed forms and finite differences."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.integrate
import scipy.interpolate
import scipy.ndimage

import phix
from phix.core.errors import ArgumentError, DTypeError, ShapeError
from phix.scipy import integrate, interpolate, ndimage
from phix.scipy.cluster import vq
from phix.scipy.interpolate import RegularGridInterpolator
from phix.scipy.ndimage import map_coordinates

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(5)
MODES = [
    "constant", "nearest", "mirror", "reflect", "wrap", "grid-constant", "grid-mirror", "grid-wrap",
]  # fmt: skip
IMAGE = RNG.standard_normal((4, 3))
AT = RNG.uniform(-6.0, 8.0, (2, 12))
each_mode = pytest.mark.parametrize("mode", MODES)


def numeric(f: Callable[[Any], Any], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The gradient of a function of an array, by central differences."""
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        out[i] = (f(x + step) - f(x - step)) / 2e-6
    return out


# -- images ---------------------------------------------------------------------------------------
@each_mode
@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (4, 3), (2, 1, 3)])
def test_images_are_those_of_scipy(mode: str, shape: tuple[int, ...]) -> None:
    image = RNG.standard_normal(shape)
    at = RNG.uniform(-9.0, 12.0, (len(shape), 60))
    at[:, :30] = np.round(2.0 * at[:, :30]) / 2.0  # elements, and the middles between them
    for order in (0, 1):
        others = [image + 1j * image[::-1], (9.0 * image).astype("int32")]
        for given in [image, *others] if shape == (4, 3) else [image]:
            want = scipy.ndimage.map_coordinates(given, at, order=order, mode=mode, cval=0.75)
            found = map_coordinates(phix.to_tensor(given), at, order, mode, 0.75)
            assert found.dtype == given.dtype
            np.testing.assert_allclose(found, want, 1e-11, 1e-12)


@each_mode
def test_slopes_of_images(mode: str) -> None:
    def f(image: Any, at: Any, cval: Any) -> Any:
        return phix.ops.sin(map_coordinates(image, at, 1, mode, cval)).sum()

    def of_scipy(image: Any, at: Any, cval: Any) -> Any:
        return np.sin(scipy.ndimage.map_coordinates(image, at, order=1, mode=mode, cval=cval)).sum()

    cval = np.float64(0.5)
    given = [IMAGE, AT, cval]
    found = phix.jit(phix.grad(f, (0, 1, 2)))(*map(phix.to_tensor, given))
    for n, (own, value) in enumerate(zip(found, given)):
        want = numeric(lambda v, n=n: of_scipy(*given[:n], v, *given[n + 1 :]), np.asarray(value))
        np.testing.assert_allclose(own, want, 1e-6, 1e-7)


def test_images_of_unknown_sizes_and_in_lanes() -> None:
    specs = [phix.spec(["h", "w"], "float64"), phix.spec([2, "n"], "float64")]
    for mode in ("constant", "mirror", "wrap", "grid-constant", "grid-wrap"):
        for order in (0, 1):
            program = phix.jit(lambda a, c: map_coordinates(a, c, order, mode), input_spec=specs)  # noqa: B023
            want = scipy.ndimage.map_coordinates(IMAGE, AT, order=order, mode=mode)
            np.testing.assert_allclose(program(IMAGE, AT), want, 1e-12, 1e-13)
    both = np.stack([IMAGE, IMAGE[::-1]])
    lanes = phix.vmap(lambda a: map_coordinates(a, AT, 1, "reflect"))(phix.to_tensor(both))
    want = [scipy.ndimage.map_coordinates(a, AT, order=1, mode="reflect") for a in both]
    np.testing.assert_allclose(lanes, want, 1e-12, 1e-13)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("output", ["uint8", "int16", "float32", "float64"])
def test_images_in_another_dtype(dtype: str, output: str) -> None:
    image = RNG.integers(0, 100, (4, 5)).astype(dtype)
    at = RNG.uniform(-1, 5, (2, 40))
    for order in (0, 1):
        for mode, value in (("nearest", 0.0), ("constant", 7.5)):
            found = ndimage.map_coordinates(image, at, order, mode, value, output=output)
            wanted = scipy.ndimage.map_coordinates(
                image, at, np.dtype(output), order, mode, value, prefilter=False
            )
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_images_of_complex_numbers_in_another_dtype() -> None:
    image, at = np.array([1 + 2j, 3.0, 5j]), np.array([[0.5, 1.25]])
    found = ndimage.map_coordinates(image, at, 1, output="complex64", prefilter=False)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, [2 + 1j, 2.25 + 1.25j])
    slopes = phix.grad(lambda x: ndimage.map_coordinates(x, at, 1, output="float64").sum())
    np.testing.assert_allclose(slopes(np.array([1.0, 2.0, 4.0], "float32")), [0.5, 1.25, 0.25])
    for output in ("float64", "int64", "bool"):
        with pytest.raises(DTypeError, match="output must be a dtype of numbers"):
            ndimage.map_coordinates(image, at, 1, output=output)


def test_second_derivatives_of_images_are_products_across_axes() -> None:
    image = phix.to_tensor([[0.0, 0.0], [0.0, 1.0]], dtype="float64")  # x y
    found = phix.hessian(lambda p: map_coordinates(image, [p[0], p[1]], 1))(
        phix.to_tensor([0.25, 0.5], dtype="float64")
    )
    np.testing.assert_allclose(found, [[0.0, 1.0], [1.0, 0.0]], 1e-15)


def test_coordinates_that_are_no_numbers_and_slopes_at_elements() -> None:
    image = phix.to_tensor([1.0, 3.0, 7.0])
    at = phix.to_tensor([float("nan"), float("inf"), -float("inf")])
    for order in (0, 1):
        found = map_coordinates(image, [at], order).tolist()
        np.testing.assert_equal(found, [np.nan, 0.0, 0.0])
    slopes = phix.grad(lambda c: map_coordinates(image, [c], 1).sum())(
        phix.to_tensor([0.0, 1.0, 2.0, float("inf")])
    )
    assert slopes.tolist() == [2.0, 4.0, 4.0, 0.0]
    with_empty = map_coordinates(image, phix.zeros([1, 0]), 1)
    assert with_empty.shape == (0,) and with_empty.dtype == "float32"
    bytes_ = phix.to_tensor(np.array([250, 3], "uint8"))
    assert map_coordinates(bytes_, [[0, 9]], 1, cval=-5).tolist() == [250, 0]
    assert map_coordinates(bytes_, [[-1, 0.5]], 1, cval=300.0).tolist() == [255, 127]
    large = phix.to_tensor(np.array([2**53 + 1, 3]))
    assert map_coordinates(large, [[0, 1]], 0).tolist() == [2**53 + 1, 3]
    half = map_coordinates(phix.arange(0, 3000, 1, "float16"), [[2047.0]], 0)
    assert half.dtype == "float16" and half.item() == 2047.0


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: map_coordinates(IMAGE, AT, 3), ArgumentError, "order must be 0"),
        (lambda: map_coordinates(IMAGE, AT, 1, "edge"), ArgumentError, "mode must be one of"),
        (lambda: map_coordinates(IMAGE, AT[:1], 1), ShapeError, "must be 2, one for each axis"),
        (lambda: map_coordinates(IMAGE, 1.0, 1), ShapeError, r"must be \[2, ...\]"),
        (lambda: map_coordinates(1.0, [], 1), ShapeError, "must have axes"),
        (lambda: map_coordinates(IMAGE[:0], AT, 1), ShapeError, "each of elements"),
        (lambda: map_coordinates(IMAGE > 0, AT, 1), DTypeError, "must be numbers"),
        (lambda: map_coordinates(IMAGE, AT + 0j, 1), DTypeError, "takes real numbers"),
        (lambda: map_coordinates(IMAGE, AT, 1, cval=[1.0]), ShapeError, "cval must be one number"),
        (lambda: map_coordinates(IMAGE, AT, 1, cval=1j), DTypeError, "cval is complex"),
    ],
)  # fmt: skip
def test_images_refuse_what_does_not_fit(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


# -- values between points ------------------------------------------------------------------------
@pytest.mark.parametrize("sizes", [(5,), (1,), (3, 4), (2, 1, 3)])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 1.5, None])
def test_grids_are_those_of_scipy(sizes: tuple[int, ...], method: str, fill: Any) -> None:
    at = RNG.uniform(-2.0, 2.0, (20, 2, len(sizes)))
    for way, rest in ((1, ()), (-1, (2,))):
        grid = tuple(np.sort(RNG.standard_normal(n))[::way].copy() for n in sizes)
        values = RNG.standard_normal(sizes + rest)
        at[0], at[1], at[2] = np.nan, [p[0] for p in grid], [p[-1] for p in grid]
        of_scipy = scipy.interpolate.RegularGridInterpolator(grid, values, method, False, fill)
        want = of_scipy(at)
        found = RegularGridInterpolator(grid, values, method, fill_value=fill)
        np.testing.assert_allclose(found(at), want, 1e-10, 1e-12)
        lanes = phix.jit(phix.vmap(lambda tree, x: tree(x, method), (None, 0)))
        for own in [] if sizes != (3, 4) else [
            lanes(found, at), RegularGridInterpolator(grid, values, fill_value=fill)(at, method)
        ]:  # fmt: skip
            np.testing.assert_allclose(own, want, 1e-10, 1e-12)


def test_points_may_come_in_parts() -> None:
    grid = [np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0])]
    values = np.arange(6.0).reshape(3, 2)
    found = RegularGridInterpolator(grid, values)
    x, y = np.linspace(0.0, 3.0, 4)[:, None], np.linspace(0.0, 2.0, 5)
    want = scipy.interpolate.RegularGridInterpolator(grid, values)((x, y))
    np.testing.assert_allclose(found((x, y)), want, 1e-14)
    assert found([0.5, 1.0]).tolist() == [1.5]
    assert RegularGridInterpolator([grid[0]], [0.0, 1.0, 3.0])([0.5, 2.0]).tolist() == [0.5, 2.0]
    assert found([[1, 2]]).tolist() == [3.0]
    narrow = RegularGridInterpolator([[0, 1]], phix.to_tensor([1, 2]))
    assert narrow([[0.5]]).dtype == "float32" and narrow([[0.5]]).item() == 1.5


def test_slopes_of_grids() -> None:
    grid = [np.array([0.0, 1.0, 3.0]), np.array([2.0, 0.5, 0.0])]
    values, at = RNG.standard_normal((3, 3)), RNG.uniform(0.1, 1.9, (6, 2))
    at[5, 0] = np.inf  # beside the grid: it adds nothing

    def f(x: Any, y: Any, values: Any, at: Any, make: Any = RegularGridInterpolator) -> Any:
        return (make((x, y), values, "linear", False, 0.25)(at) ** 2).sum()

    given = [*grid, values, at]
    found = phix.jit(phix.grad(f, (0, 1, 2, 3)))(*map(phix.to_tensor, given))
    for n, (own, value) in enumerate(zip(found, given)):

        def of_scipy(v: Any, n: int = n) -> Any:
            make = scipy.interpolate.RegularGridInterpolator
            return f(*given[:n], v, *given[n + 1 :], make=make)

        finite = np.where(np.isfinite(value), value, 99.0)
        np.testing.assert_allclose(own, numeric(of_scipy, finite), 1e-6, 1e-7)
    tree = RegularGridInterpolator(grid, values, fill_value=0.0)
    slopes = phix.grad(lambda tree: tree(at).sum())(tree)  # a gradient is such a tree
    assert isinstance(slopes, RegularGridInterpolator) and slopes.values.sum().item() == 5.0


def test_grids_of_unknown_sizes() -> None:
    program = phix.jit(
        lambda p, v, x: RegularGridInterpolator([p], v, fill_value=None)(x),
        input_spec=[phix.spec(["n"], "float64"), phix.spec(["n"], "float64"),
                    phix.spec(["m", 1], "float64")],
    )  # fmt: skip
    for n in (1, 2, 4):
        p, v, x = np.arange(float(n)), RNG.standard_normal(n), RNG.uniform(-1.0, 5.0, (7, 1))
        want = scipy.interpolate.RegularGridInterpolator([p], v, "linear", False, None)(x)
        np.testing.assert_allclose(program(p, v, x), want, 1e-12)


LINE = [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0], "cubic"), ArgumentError, "method must"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0], "linear", True), ArgumentError,
         "bounds_error must be False"),
        (lambda: RegularGridInterpolator([[0.0, 0.0]], [1.0, 2.0]), ArgumentError, "ascending"),
        (lambda: RegularGridInterpolator([[0.0]], [1.0, 2.0]), ShapeError, r"points\[0\] must be"),
        (lambda: RegularGridInterpolator(LINE * 2, [1.0, 2.0]), ShapeError, "1 to 1, found 2"),
        (lambda: RegularGridInterpolator(3, [1.0, 2.0]), ArgumentError, "points must be a list"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0], fill_value=1j), DTypeError, "complex"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0], fill_value=[1.0]), ShapeError, "one"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0])([[0.0, 1.0]]), ShapeError, "xi must be"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0])(0.5), ShapeError, "xi must be"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0])(([0.5], [0.5])), ShapeError, "found 2"),
        (lambda: RegularGridInterpolator(LINE, [1.0, 2.0])([0.5], 3), ArgumentError, "method"),
    ],
)  # fmt: skip
def test_grids_refuse_what_does_not_fit(run: Any, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        run()


# -- integrals ------------------------------------------------------------------------------------
RULES = ["trapezoid", "simpson", "cumulative_trapezoid"]


@pytest.mark.parametrize("rule", RULES)
def test_integrals_are_those_of_scipy(rule: str) -> None:
    own, wanted = getattr(integrate, rule), getattr(scipy.integrate, rule)
    program = phix.jit(lambda y: own(y, axis=1), input_spec=[phix.spec([2, "n", 3], "float64")])
    for n in range(1, 8):
        y = RNG.standard_normal((2, n, 3))
        points = np.sort(RNG.standard_normal((2, n, 3)), 1)
        for more in ({}, {"dx": 0.3}, {"x": points[0, :, 0]}, {"x": points}):
            want = wanted(y, axis=1, **more)
            np.testing.assert_allclose(own(y, axis=1, **more), want, 1e-11, 1e-12)
        np.testing.assert_allclose(program(y), wanted(y, axis=1), 1e-11, 1e-12)
    y = y[0, :, 0] + 1j * y[1, :, 0]
    np.testing.assert_allclose(own(y), wanted(y), 1e-12)
    assert own([1, 2, 4]).dtype == "float32"
    assert own(phix.to_tensor([1.0, 2.0], dtype="float32"), dx=0.1).dtype == "float32"


@pytest.mark.parametrize("rule", RULES)
def test_slopes_of_integrals(rule: str) -> None:
    y, x = RNG.standard_normal(6), np.sort(RNG.standard_normal(6))

    def f(y: Any, x: Any, of: Any = integrate) -> Any:
        return (getattr(of, rule)(y, x) ** 2).sum()

    tensors = phix.to_tensor(y), phix.to_tensor(x)
    own = phix.jit(phix.grad(f, (0, 1)))(*tensors)
    np.testing.assert_allclose(own[0], numeric(lambda v: f(v, x, scipy.integrate), y), 1e-6, 1e-7)
    np.testing.assert_allclose(own[1], numeric(lambda v: f(y, v, scipy.integrate), x), 1e-6, 1e-7)
    second = phix.hessian(f, 1)(*tensors)
    slope = phix.jit(phix.grad(f, 1))
    want = [numeric(lambda v, n=n: slope(y, v)[n].item(), x) for n in range(6)]
    np.testing.assert_allclose(second, want, 1e-5, 1e-6)
    lanes = phix.vmap(lambda y: f(y, tensors[1]))(phix.to_tensor(np.stack([y, 2.0 * y])))
    np.testing.assert_allclose(lanes, [f(y, x, scipy.integrate), 4.0 * f(y, x, scipy.integrate)])


def test_points_that_coincide_and_integrals_from_the_first_sample() -> None:
    y, x = np.array([1.0, 2.0, 4.0, 3.0, 1.0]), np.array([0.0, 0.0, 1.0, 2.0, 2.0])
    for n in (3, 4, 5):
        want = scipy.integrate.simpson(y[:n], x[:n])
        np.testing.assert_allclose(integrate.simpson(y[:n], x[:n]), want, 1e-13)
    slope = phix.grad(lambda y: integrate.simpson(y, x))(phix.to_tensor(y))
    assert np.isfinite(np.asarray(slope)).all()
    found = integrate.cumulative_trapezoid(y, x, initial=0)
    np.testing.assert_allclose(found, scipy.integrate.cumulative_trapezoid(y, x, initial=0), 1e-14)
    assert integrate.trapezoid(phix.zeros([2, 0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("given", "more", "error", "says"),
    [
        (1.0, {}, ShapeError, "has no axis -1"),
        ([1.0, 2.0], {"axis": 1}, ShapeError, "has no axis 1"),
        ([1.0, 2.0], {"axis": 0.0}, ArgumentError, "axis must be an int"),
        ([1.0, 2.0], {"x": [1.0]}, ShapeError, "as many points as y has samples"),
        ([1.0, 2.0], {"x": [[1.0, 2.0]]}, ShapeError, "axes of y, 1"),
        ([1.0, 2.0], {"x": [1.0, 2j]}, DTypeError, "must be real"),
        ([1.0, 2.0], {"dx": [1.0]}, ShapeError, "dx must be one number"),
    ],
)
def test_integrals_refuse_what_does_not_fit(
    rule: str, given: Any, more: dict[str, Any], error: type, says: str
) -> None:
    with pytest.raises(error, match=f"{rule}: .*{says}"):
        getattr(integrate, rule)(given, **more)


def test_integrals_of_nothing() -> None:
    for rule in RULES[1:]:
        with pytest.raises(ShapeError, match="must have samples"):
            getattr(integrate, rule)(phix.zeros([0]))
    with pytest.raises(ArgumentError, match="initial must be 0"):
        integrate.cumulative_trapezoid([1.0], initial=2)


# -- codes ----------------------------------------------------------------------------------------
def test_codes_are_those_of_scipy() -> None:
    seen, codes = RNG.standard_normal((20, 3)), RNG.standard_normal((6, 3))
    seen[3] = codes[4]
    code, dist = vq.vq(seen, codes)
    want = scipy.cluster.vq.vq(seen, codes)
    assert code.dtype == "int32" and code.tolist() == want[0].tolist()
    np.testing.assert_allclose(dist, want[1], 1e-12, 1e-13)
    alone = vq.vq(seen[:, 0], codes[:, 0])
    np.testing.assert_allclose(alone[1], scipy.cluster.vq.vq(seen[:, 0], codes[:, 0])[1], 1e-12)
    specs = [phix.spec(["m", 3], "float64"), phix.spec(["k", 3], "float64")]
    slopes = phix.jit(phix.grad(lambda s, c: vq.vq(s, c)[1].sum(), (0, 1)), input_spec=specs)
    found = slopes(seen, codes)
    apart = np.where(want[1][:, None] > 0.0, seen - codes[want[0]], 0.0)
    unit = apart / np.where(want[1] > 0.0, want[1], 1.0)[:, None]
    np.testing.assert_allclose(found[0], unit, 1e-10, 1e-12)
    wanted = np.zeros((6, 3))
    np.add.at(wanted, want[0], -unit)
    np.testing.assert_allclose(found[1], wanted, 1e-10, 1e-12)
    lanes = phix.vmap(lambda s: vq.vq(s, codes)[0])(phix.to_tensor(seen.reshape(4, 5, 3)))
    assert lanes.reshape([-1]).tolist() == want[0].tolist()
    assert vq.vq([1, 2], [2])[1].tolist() == [1.0, 0.0]
    narrow = phix.to_tensor([[300.0, 0.0]], dtype="float16")  # its square is none of float16
    code, dist = vq.vq(narrow, phix.to_tensor([[0.0, 0.0], [10.0, 0.0]], dtype="float16"))
    assert code.tolist() == [1] and dist.tolist() == [290.0] and dist.dtype == "float16"
    for run, says in [
        (lambda: vq.vq(seen, codes[:, :2]), "obs must be"),
        (lambda: vq.vq(seen, codes[0]), "obs must be"),
        (lambda: vq.vq(seen, codes[:0]), "must have a code"),
    ]:
        with pytest.raises(ShapeError, match=says):
            run()


@pytest.mark.parametrize("module", [ndimage, interpolate, integrate, vq])
def test_examples(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
