"""Arguments of NumPy's functions that few calls give, beside NumPy, and what does not fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(11)


def same(found: Any, wanted: Any, tol: float = 1e-12) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert tuple(np.shape(a)) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), b, tol, tol)


@pytest.mark.parametrize("trim", ["f", "b", "fb", "BF"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
def test_zeros_are_trimmed_along_axes(trim: str, axis: Any) -> None:
    x = np.pad(RNG.integers(1, 5, (2, 3, 1)), ((1, 2), (2, 0), (0, 1)))
    for a in (x, np.zeros((2, 3, 4))):
        np.testing.assert_array_equal(pn.trim_zeros(a, trim, axis), np.trim_zeros(a, trim, axis))


def test_zeros_are_trimmed_of_numbers_and_vectors() -> None:
    for a in (np.array(0.0), np.zeros(3), np.array([0, 0, 2, 0, 1, 0])):
        np.testing.assert_array_equal(pn.trim_zeros(a), np.trim_zeros(a))
    for trim in ("", "x", "ff"):
        with pytest.raises(AttributeValueError, match="made of 'f' and 'b'"):
            pn.trim_zeros(np.ones(2), trim)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (5,), (2, 1, 3)])
def test_places_in_the_order_of_fortran(shape: tuple[int, ...]) -> None:
    places = np.arange(np.prod(shape)).reshape(-1, 1)
    wanted = np.unravel_index(places, shape, order="F")
    unravelled = lambda i: pn.unravel_index(i, shape, order="F")  # noqa: E731
    ravelled = lambda *i: pn.ravel_multi_index(i, shape, order="F")  # noqa: E731
    for run in (lambda f: f, phix.jit, phix.vmap):
        same(run(unravelled)(places), wanted)
        np.testing.assert_array_equal(run(ravelled)(*wanted), places)
    for mode in ("wrap", "clip"):
        far = tuple(i + 7 for i in wanted)
        found = pn.ravel_multi_index(far, shape, mode, order="F")
        np.testing.assert_array_equal(found, np.ravel_multi_index(far, shape, mode, order="F"))
    with pytest.raises(AttributeValueError, match="order is 'C' or 'F'"):
        pn.unravel_index(0, shape, order="A")


# -- quantiles of weighted elements ---------------------------------------------------------------
WEIGHED: list[tuple[Any, Any, Any]] = [
    (RNG.standard_normal(5), None, None),
    (RNG.standard_normal((3, 4)), None, None),
    (RNG.standard_normal((3, 4)), 1, None),
    (RNG.standard_normal((3, 4)), 1, (4,)),
    (RNG.standard_normal((2, 3, 4)), (2, 0), (4, 2)),
    (RNG.integers(0, 4, (3, 4)), 0, (3,)),
    (RNG.standard_normal((3, 4)).astype("float32"), -1, None),
    (np.array([[np.nan, 1.0, 3.0, 2.0], [np.nan] * 4, [5.0, 4.0, 6.0, 0.0]]), 1, None),
]


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
@pytest.mark.parametrize(("x", "axis", "shape"), WEIGHED)
def test_quantiles_of_weighted_elements(name: str, x: Any, axis: Any, shape: Any) -> None:
    if name.startswith("nan") and shape is not None:
        shape = None  # NumPy's own breaks there
    whole = 100 if "percent" in name else 1
    weights = RNG.integers(0, 4, x.shape if shape is None else shape) + 0.0
    weights[..., -1] = 1.5
    for q in (0.0, 0.5, [0.1, 0.3, 1.0], [[0.25, 0.75]]):
        asked = np.multiply(q, whole)
        said = {"axis": axis, "method": "inverted_cdf", "weights": weights}
        wanted = getattr(np, name)(x, asked, keepdims=True, **said)
        found = getattr(pn, name)(x, asked, keepdims=True, **said)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        weighed = {k: v for k, v in said.items() if k != "weights"}
        function = getattr(pn, name)
        run = phix.jit(lambda x, w, q=asked, f=function, m=weighed: f(x, q, weights=w, **m))
        np.testing.assert_array_equal(run(x, weights), getattr(np, name)(x, asked, **said))


def test_what_quantiles_refuse_of_weights() -> None:
    x, w = np.ones((2, 3)), np.ones(3)
    for says, error, said in (
        ("method='inverted_cdf'", AttributeValueError, {"weights": x}),
        ("none is below 0", AttributeValueError, {"weights": -x, "method": "inverted_cdf"}),
        ("all 0", AttributeValueError, {"weights": 0 * x, "method": "inverted_cdf"}),
        ("weights of", ShapeError, {"weights": w, "method": "inverted_cdf"}),
        ("weights of", ShapeError, {"weights": w, "axis": 0, "method": "inverted_cdf"}),
    ):
        with pytest.raises(error, match=says):
            pn.quantile(x, 0.5, **said)


# -- least squares and polynomials ----------------------------------------------------------------
def test_polyfit_says_what_lstsq_does_and_how_sure_it_is() -> None:
    x, y = RNG.standard_normal(8), RNG.standard_normal((8, 2))
    for values in (y, y[:, 0]):
        for said in ({}, {"w": RNG.uniform(0.5, 2, 8)}):
            for deg in (0, 2, 3):
                wanted = np.polyfit(x, values, deg, full=True, **said)
                same(pn.polyfit(x, values, deg, full=True, **said), wanted, 1e-9)
                for cov in (True, "unscaled"):
                    wanted = np.polyfit(x, values, deg, cov=cov, **said)
                    same(pn.polyfit(x, values, deg, cov=cov, **said), wanted, 1e-9)
    for says, args, said in (
        ("more points than coefficients", (x, y, 7), {"cov": True}),
        ("w is a vector like x", (x, y, 2), {"w": np.ones(1)}),
    ):
        with pytest.raises(ShapeError, match=says):
            pn.polyfit(*args, **said)
    with pytest.raises(AttributeValueError, match="deg is at least 0"):
        pn.polyfit(x, y, -1)


def test_the_rest_of_a_division_has_no_leading_zeros() -> None:
    every = [[1, 2, 1], [1, 1], [1, 2, 3, 4], [1, 1, 3], [2], [0, 0, 1, 2], [0, 1, 2], [0, 0]]
    for u in every:
        for v in every[:5]:
            same(pn.polydiv(np.array(u, float), np.array(v, float)),
                 np.polydiv(np.array(u, float), np.array(v, float)))  # fmt: skip
    u, v = np.array([1.0, 2, 1]), np.array([1.0, 1])
    assert phix.jit(pn.polydiv)(u, v)[1].tolist() == [0.0]


def test_least_squares_of_dependent_columns_have_no_residuals() -> None:
    b = RNG.standard_normal((4, 3))
    for a in (np.ones((4, 2)), RNG.standard_normal((4, 2)), np.zeros((4, 2)), np.eye(4)):
        for sides in (b, b[:, 0]):
            same(pn.linalg.lstsq(a, sides)[:3], np.linalg.lstsq(a, sides)[:3])


def test_ranks_of_vectors_and_numbers() -> None:
    for a in (np.array(0.0), np.array(3), np.zeros(2), np.array([0.0, 1e-30])):
        for run in (lambda f: f, phix.jit):
            assert run(pn.linalg.matrix_rank)(a).item() == np.linalg.matrix_rank(a)
    with pytest.raises(ArgumentError, match="tol and rtol"):
        pn.linalg.matrix_rank(np.eye(2), 1.0, rtol=1.0)
    with pytest.raises(ArgumentError, match="rcond and rtol"):
        pn.linalg.pinv(np.eye(2), 1e-3, rtol=1e-3)


# -- arguments that were looked over --------------------------------------------------------------
@pytest.mark.parametrize("name", ["logical_or", "logical_and", "logical_xor"])
def test_truths_between_elements_have_the_dtype_bool(name: str) -> None:
    x = RNG.integers(0, 2, (3, 4))
    for method in ("reduce", "accumulate"):
        ours, theirs = (getattr(getattr(m, name), method) for m in (pn, np))
        for dtype in (None, bool, "bool"):
            np.testing.assert_array_equal(ours(x, 1, dtype=dtype), theirs(x, 1, dtype=dtype))
        with pytest.raises(DTypeError, match="has dtype bool"):
            ours(x, dtype=float)


def test_weights_of_covariances_are_those_of_the_observations() -> None:
    x = RNG.standard_normal((2, 4))
    np.testing.assert_allclose(pn.cov(x, fweights=[1, 2, 0, 1]), np.cov(x, fweights=[1, 2, 0, 1]))
    for error, said in (
        (ShapeError, {"fweights": [2]}),
        (ShapeError, {"aweights": 2.0}),
        (DTypeError, {"fweights": [1.0, 2.0, 3.0, 4.0]}),
        (AttributeValueError, {"aweights": [1.0, -2.0, 3.0, 4.0]}),
    ):
        with pytest.raises(error, match="weights"):
            pn.cov(x, **said)


def test_settings_that_are_none_of_numpys_are_refused() -> None:
    x = np.arange(4.0)
    for error, says, run in (
        (ArgumentError, "min is given twice", lambda: pn.clip(x, 1, 2, min=0)),
        (ArgumentError, "max is given twice", lambda: pn.clip(x, 1, 2, max=0)),
        (AttributeValueError, "sort or table", lambda: pn.isin(x, x, kind="tabel")),
        (AttributeValueError, "one of quicksort", lambda: pn.sort(x, kind="stabel")),
        (AttributeValueError, "one of quicksort", lambda: pn.argsort(x, kind="bad")),
    ):
        with pytest.raises(error, match=says):
            run()


def test_ufuncs_give_the_dtype_asked_for() -> None:
    """Or nothing: they had given what they give without it, ones and ones as int64 2."""
    b, k = np.array([True, True, False]), np.array([3, 4, 0])
    for run in (
        lambda m: m.add(b, b, dtype=bool), lambda m: m.add(k, k, dtype=bool, casting="unsafe"),
        lambda m: m.add.outer(b, b[:2], dtype=bool), lambda m: m.multiply(b, b, dtype=bool),
        lambda m: m.divide(k, 2, dtype="float64"), lambda m: m.hypot(k, k, dtype="float32"),
        lambda m: m.abs(k + 4j, dtype="float64"),
        lambda m: m.abs(np.complex64([3 + 4j]), dtype="float32"),
        lambda m: m.abs(k + 4j, dtype="float64", casting="unsafe"),
        lambda m: m.maximum(k, k[::-1], dtype="complex64"),
    ):  # fmt: skip
        found, wanted = run(pn), run(np)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-7)
    for run in (
        lambda m: m.divide(k, k + 1, dtype="int64"), lambda m: m.hypot(k, k, dtype="int64"),
        lambda m: m.arctan2(k, k, dtype="int64"), lambda m: m.negative(b, dtype=bool),
        lambda m: m.subtract(b, b, dtype=bool), lambda m: m.square(b, dtype=bool),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            run(np)
        with pytest.raises(DTypeError, match="leave dtype= out"):
            run(pn)


def test_ufuncs_cast_within_a_kind_alone() -> None:
    """NumPy refuses these; they had been cut off."""
    x, k = np.array([1.5, 2.5]), np.array([1, 2])
    for run in (
        lambda m: m.add(x, x, dtype="int64"), lambda m: m.maximum(k, x, dtype="int32"),
        lambda m: m.multiply(k, k, dtype="uint8"), lambda m: m.negative(x, dtype="int64"),
        lambda m: m.subtract.outer(x, k, dtype="int64"), lambda m: m.vecdot(x, x, dtype="int64"),
    ):  # fmt: skip
        with pytest.raises(np._core._exceptions.UFuncTypeError):
            run(np)
        with pytest.raises(DTypeError, match="casts within a kind"):
            run(pn)
    for run in (
        lambda m: m.add(x, x, dtype="int64", casting="unsafe"), lambda m: m.add(k, 1, dtype="int8"),
        lambda m: m.add(x, k, dtype="float32"), lambda m: m.divide(k, k, dtype="float32"),
        lambda m: m.add(np.uint8(7), 1, dtype="uint8"), lambda m: m.power(k, 2, dtype="complex128"),
    ):  # fmt: skip
        found, wanted = run(pn), run(np)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_spreads_of_complex_numbers_are_none_of_their_real_parts(name: str) -> None:
    x = np.array([1 + 2j, 3 - 4j, 0.5j])
    np.testing.assert_allclose(getattr(pn, name)(x), getattr(np, name)(x), rtol=1e-14)
    with pytest.raises(DTypeError, match=f"{name}: elements are complex128, of which float64"):
        getattr(pn, name)(x, dtype="float64")


def test_ufuncs_of_one_dtype_take_it_by_name() -> None:
    x, k, b = np.array([1.5, -2.0]), np.array([1, 2, -3, -1]), np.array([True, False])
    f32 = x.astype("float32")
    for run in (
        lambda m: m.less(x, x, dtype=bool), lambda m: m.equal(k, 1, dtype=bool, casting="unsafe"),
        lambda m: m.isnan(x, dtype=bool), lambda m: m.logical_not(k, dtype=bool),
        lambda m: m.logical_and(x, b, dtype=bool), lambda m: m.signbit(x, dtype=bool),
        lambda m: m.bitwise_count(k, dtype="uint8"), lambda m: m.reciprocal(k, dtype="int64"),
        lambda m: m.reciprocal(k.astype("int8"), dtype="int16"),
        lambda m: m.reciprocal(k, dtype="float64"), lambda m: m.ldexp(f32, k[:2], dtype="float64"),
    ):  # fmt: skip
        found, wanted = run(pn), run(np)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    for run in (
        lambda m: m.less(x, x, dtype="int64"), lambda m: m.isnan(x, dtype="float64"),
        lambda m: m.bitwise_count(k, dtype="int64"),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            run(np)
        with pytest.raises(DTypeError, match="leave dtype= out"):
            run(pn)


def test_rules_of_casts() -> None:
    x, k = np.array([1.5, 2.5]), np.array([1, 2])
    f32 = x.astype("float32")
    for run in (
        lambda m: m.add(f32, x, casting="safe"), lambda m: m.add(f32, f32, casting="no"),
        lambda m: m.add(k, 2, casting="no"), lambda m: m.add(f32, 1.5, casting="no"),
        lambda m: m.add(f32, x, dtype="float64", casting="safe"),
        lambda m: m.multiply(k, 1.5, dtype="float64", casting="safe"),
        lambda m: m.add(x, 1.5, dtype="float64", casting="no"),
        lambda m: m.sin(x, casting="equiv"), lambda m: m.less(f32, x, casting="safe"),
        lambda m: m.add(f32, x, casting="unsafe"), lambda m: m.isnan(f32, casting="no"),
    ):  # fmt: skip
        found, wanted = run(pn), run(np)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
    for what, run in (
        ("of no dtype to another", lambda m: m.add(f32, x, casting="no")),
        ("of no dtype to another", lambda m: m.add(f32, f32, dtype="float64", casting="no")),
        ("of no dtype to another", lambda m: m.sin(k, casting="equiv")),
        ("of no dtype to another", lambda m: m.divide(k, k, casting="no")),
        ("of no dtype to another", lambda m: m.add(k, 1.5, casting="no")),
        ("that keep every value", lambda m: m.add(f32, x, dtype="float32", casting="safe")),
        ("that keep every value", lambda m: m.add(k, k, dtype="int32", casting="safe")),
    ):
        with pytest.raises(np._core._exceptions.UFuncTypeError):
            run(np)
        with pytest.raises(DTypeError, match=f"casts {what} do not take"):
            run(pn)
    with pytest.raises(DTypeError, match="do not take int64 to float32"):  # which NumPy's widen
        pn.add(k, f32, casting="safe")


def test_rules_and_orders_that_there_are_not() -> None:
    x = np.array([1.5, 2.5])
    for run in (
        lambda m: m.sin(x, casting="bad"), lambda m: m.add(x, x, casting="bad"),
        lambda m: m.add(x, x, dtype="float32", casting="bad"), lambda m: m.sin(x, order="X"),
        lambda m: m.copy(x, order="X"), lambda m: m.zeros_like(x, order="X"),
        lambda m: m.full_like(x, 1, order="X"), lambda m: m.asarray(x, order="X"),
        lambda m: m.zeros(2, order="X"), lambda m: m.reshape(x, (2, 1), order="X"),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            run(np)
        with pytest.raises(AttributeValueError, match=r"(casting|order) is one of 'no|'C"):
            run(pn)
    for order in "CFAK":
        same([pn.copy(x, order=order), pn.sin(x, order=order)], [x, np.sin(x)])


@pytest.mark.filterwarnings("ignore:`axes` should not be")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_results_at_the_edges_are_those_of_numpy() -> None:
    x, b = RNG.standard_normal((2, 3)), RNG.integers(0, 2, (3, 2, 2)).astype(bool)
    for run in (
        lambda m: (m.fft.fftn(x, s=(2, -1)), m.fft.fftn(x, s=(-1, 2), axes=(1, 0))),
        lambda m: (m.fft.rfft2(x, s=(4, -1)), m.fft.irfftn(x, s=(-1, 4))),
        lambda m: m.histogram(x, bins=[0.5]), lambda m: m.histogram(x, bins=[0.5], density=True),
        lambda m: m.histogram2d(x[0], x[1], bins=[[0.5], [0.0, 1.0]]),
        lambda m: (m.argwhere(np.float64(3.0)), m.argwhere(np.float64(0.0))),
    ):  # fmt: skip
        same(run(pn), run(np))
    for factors in (list(b), list(b[:2]), [b[0, 0], b[1], b[2, 0]]):
        found, wanted = pn.linalg.multi_dot(factors), np.linalg.multi_dot(factors)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ShapeError, match="vector of one edge or more"):
        pn.histogram(x, bins=[])
