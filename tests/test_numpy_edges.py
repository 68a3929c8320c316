"""Calls of NumPy's at their edges: single values, truths, nothing at all, and complex numbers.

What is right is what NumPy itself gives, or a message that says what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import errors

pytestmark = pytest.mark.unoptimised(4)

ONE = np.float32(3.0)
TRUTHS = np.array([[True, False, True], [True, True, False], [False, False, False]])
ROW = TRUTHS[0]

# -- axes of a single value ------------------------------------------------------------------------
REDUCTIONS = ("sum", "prod", "mean", "std", "var", "max", "min", "ptp", "all", "any", "argmax",
              "argmin", "cumsum", "cumprod", "nansum", "count_nonzero")  # fmt: skip

BY_COUNTING = {"mean", "std", "var"}  # NumPy itself counts along an axis that is not there


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_single_value_has_the_axes_0_and_minus_1(name: str) -> None:
    for axis in (0, -1):
        there = None if name in BY_COUNTING else axis
        wanted = np.asarray(getattr(np, name)(ONE, axis=there))
        for found in (
            getattr(phix.numpy, name)(phix.to_tensor(ONE), axis=axis),
            getattr(np, name)(phix.to_tensor(ONE), axis=axis),
        ):
            assert isinstance(found, phix.Tensor)
            assert found.shape == wanted.shape and found.tolist() == wanted.tolist()
    for axis in (1, -2, (0,)):
        with pytest.raises(errors.AttributeValueError, match="out of range for 0 axes"):
            getattr(phix.numpy, name)(phix.to_tensor(ONE), axis=axis)


# -- products of truths ----------------------------------------------------------------------------
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda np, x: np.matmul(x, x),
    "matmul of a row": lambda np, x: np.matmul(x[0], x),
    "dot": lambda np, x: np.dot(x, x),
    "dot of three axes": lambda np, x: np.dot(x[None], x[None]),
    "vdot": lambda np, x: np.vdot(x, x),
    "inner": lambda np, x: np.inner(x, x),
    "tensordot": lambda np, x: np.tensordot(x, x, 1),
    "tensordot of lists": lambda np, x: np.tensordot(x, x, ([0], [0])),
    "einsum": lambda np, x: np.einsum("ij,jk->ik", x, x),
    "kron": lambda np, x: np.kron(x, x),
    "outer": lambda np, x: np.outer(x, x),
}


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_truths_is_one(name: str) -> None:
    wanted = PRODUCTS[name](np, TRUTHS)
    x = phix.to_tensor(TRUTHS)
    for module in (phix.numpy, np):
        found = PRODUCTS[name](module, x)
        assert isinstance(found, phix.Tensor) and found.dtype == wanted.dtype == np.bool_
        assert found.tolist() == wanted.tolist()


EXTREMES: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": lambda np, x: np.maximum(x, ROW),
    "minimum": lambda np, x: np.minimum(ROW, x),
    "of two, with NaN": lambda np, x: np.where(np.fmax(x, True), np.fmin(x, ROW), x),
    "clip": lambda np, x: np.clip(x, ROW, True),
    "max": lambda np, x: np.max(x, axis=0, initial=False),
    "min where": lambda np, x: np.min(x, axis=1, initial=True, where=ROW),
    "whole parts": lambda np, x: np.floor(x) & np.ceil(x) & np.trunc(x) & np.fix(x),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_one_of_some_truths_is_a_truth(name: str) -> None:
    """As a mask it chooses, where ints would be indices."""
    wanted = EXTREMES[name](np, TRUTHS)
    for call in (EXTREMES[name], phix.jit(EXTREMES[name], static_argnums=0)):
        found = call(phix.numpy, phix.to_tensor(TRUTHS))
        assert found.dtype == "bool"
        np.testing.assert_array_equal(found, wanted)
    assert phix.numpy.maximum(phix.to_tensor(ROW), 2).dtype == "int64"


def test_truths_times_numbers_are_numbers() -> None:
    numbers = np.arange(9).reshape(3, 3)
    found = phix.numpy.matmul(phix.to_tensor(TRUTHS), numbers)
    assert found.dtype == np.int64 and found.tolist() == (TRUTHS @ numbers).tolist()


# -- messages --------------------------------------------------------------------------------------
PAIR = phix.to_tensor([1 + 1j, 2 - 1j])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "cross": (lambda: phix.numpy.cross([1, 2], [3, 4]), r"in a plane write a\[\.\.\., 0\] \* b"),
    "concatenate": (lambda: phix.numpy.concatenate([]), "concatenate needs at least one array"),
    "vstack": (lambda: phix.numpy.vstack([]), "needs at least one array"),
    "hstack": (lambda: phix.numpy.hstack([]), "hstack needs at least one array"),
    "stack": (lambda: phix.numpy.stack([]), "stack needs at least one tensor"),
    "max": (lambda: phix.ops.max(PAIR), r"x\.real, x\.imag or phix\.ops\.abs"),
    "less": (lambda: PAIR < PAIR, r"phix\.numpy compares and sorts complex"),
    "flatten": (lambda: phix.ones([2, 2]).flatten(order="F"), r"write x\.T\.flatten"),
    "empty": (lambda: phix.numpy.max(phix.zeros([0])), "give the axis a size from 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_the_way(name: str) -> None:
    call, said = REFUSED[name]
    with pytest.raises(errors.PhixError, match=said):
        call()


# -- values near the ends of dtypes and bins -------------------------------------------------------
HIGH = np.array([2, 2**63 + 6], np.uint64)
NEAR = np.array([1 - 1e-12, 2 - 1e-12])
EDGES = np.array([0, 1, 2], np.float32)
LONG = np.array([2**40 + 1], np.int64)
POINTS = np.array([0.1, 0.5, 0.9, 0.4]), np.array([0.2, 0.3, 0.8, 0.9])

SQUARE = np.arange(12).reshape(3, 4)
HOLE, FAR = float("nan"), float("inf")
WIDE = np.array([-3e38, 2.5e38, 3e38], np.float32)

Call = Callable[[Any, Callable[[Any], Any]], Any]
LIKE_NUMPY: dict[str, Call] = {
    "histogram of int edges": lambda np, t: np.histogram(t([-0.5, 0.5, 1.5]), bins=[0, 1, 2])[0],
    "histogram of float32 edges": lambda np, t: np.histogram(t(NEAR), bins=t(EDGES))[0],
    "histogram of uint8 edges": lambda np, t: np.histogram(
        t([1, 257, -255]), bins=t(EDGES.astype("uint8"))
    )[0],
    "searchsorted": lambda np, t: np.searchsorted(t(HIGH), t(HIGH - np.uint64(1))),
    "searchsorted right": lambda np, t: np.searchsorted(t(HIGH), t(HIGH), "right"),
    "searchsorted of signed ones": lambda np, t: np.searchsorted(t(HIGH), t([-1, 2, 7]), "right"),
    "searchsorted in signed ones": lambda np, t: np.searchsorted(t([-2, -1, 0, 7]), t(HIGH - HIGH)),
    "isin": lambda np, t: np.isin(t(HIGH), t(HIGH)),
    "digitize": lambda np, t: np.digitize(t(HIGH), t(HIGH)),
    "digitize down": lambda np, t: np.digitize(t([0.5, 1.0, 3.0]), t([2.0, 1.0, 1.0, 0.0])),
    "concatenate": lambda np, t: np.concatenate([t(LONG), t(EDGES)], dtype=np.float64),
    "stack": lambda np, t: np.stack([t(LONG), t(EDGES[:1])], dtype=np.float64),
    "vstack": lambda np, t: np.vstack([t(LONG), t(EDGES[:1])], dtype=np.float64),
    "hstack": lambda np, t: np.hstack([t(LONG), t(EDGES)], dtype=np.float64),
    "diff": lambda np, t: np.diff(t([1, 2]), prepend=0.5),
    "diff of truths": lambda np, t: np.diff(t([True, False]), append=2),
    "diff of truths and one": lambda np, t: np.diff(t([True, False]), append=True),
    "ediff1d": lambda np, t: np.ediff1d(t([1, 2]), to_end=3, to_begin=t([4, 5])),
    "histogram2d of two counts": lambda np, t: np.histogram2d(
        *map(t, POINTS), bins=np.array([2, 3])
    )[0],
    "histogram2d of int edges": lambda np, t: np.histogram2d(*map(t, POINTS), bins=[0, 1, 2])[0],
    "histogramdd of counts": lambda np, t: np.histogramdd(
        list(map(t, POINTS)), np.array([2, 3])
    )[0],
    "histogramdd of one count": lambda np, t: np.histogramdd(list(map(t, POINTS)), np.array(2))[0],
    "interp": lambda np, t: np.interp(t([0.5, 1.0, 1.5]), [0.0, 1.0, 1.0], [0.0, 1.0, 2.0]),
    "interp of one point": lambda np, t: np.interp(t([0.5, 1.5]), [1.0], [2.0]),
    "interp beside a hole": lambda np, t: np.interp(t([0.0, 2.0, 3.0]), [0, 1, 2], [1, HOLE, 3]),
    "interp beside inf": lambda np, t: np.interp(
        t([0.0, 0.5, 1.0, 1.5, 2.0, 2.5]), [0, 1, 2, 3], [1, FAR, FAR, 4]
    ),
    "interp far out": lambda np, t: np.interp(t(WIDE[1:]), t(WIDE[::2]), t(WIDE[::2])),
    "interp of a period": lambda np, t: np.interp(
        t([-180.0, -5.0, 0.0, 365.0, 800.0]), t([190.0, -190.0, 350.0, -350.0]),
        t([5.0, 10, 3, 4]), period=360,
    ),
    "roll by two shifts": lambda np, t: np.roll(t(SQUARE), (1, 2)),
    "roll an axis by two shifts": lambda np, t: np.roll(t(SQUARE), (1, -3), 1),
    "roll an axis twice": lambda np, t: np.roll(t(SQUARE), (1, 1, 2), (0, 1, -1)),
    "roll two axes": lambda np, t: np.roll(t(SQUARE), 1, (0, 1)),
    "tril of a vector": lambda np, t: np.tril(t([1, 2, 3]), 1),
    "triu of a vector": lambda np, t: np.triu(t([1, 2, 3])),
    "delete nothing": lambda np, t: np.delete(t([1, 2, 3]), []),
    "convolve": lambda np, t: np.convolve(t(ROW), t(ROW)),
    "correlate": lambda np, t: np.correlate(t(ROW), t(ROW), "full"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_the_result_is_as_of_numpy(name: str) -> None:
    wanted = LIKE_NUMPY[name](np, np.asarray)
    found = LIKE_NUMPY[name](phix.numpy, lambda v: phix.numpy.asarray(v))
    assert isinstance(found, phix.Tensor)
    assert found.dtype.kind == wanted.dtype.kind and found.tolist() == wanted.tolist()


NOT_TAKEN: dict[str, Call] = {
    "ediff1d": lambda np, t: np.ediff1d(t([1, 2]), to_end=0.5),
    "concatenate": lambda np, t: np.concatenate([t([1]), t([0.5])], dtype=np.int64),
    "array_split in 0": lambda np, t: np.array_split(t([1, 2]), 0),
    "array_split in -2": lambda np, t: np.array_split(t([1, 2]), -2),
    "split in 0": lambda np, t: np.split(t([1, 2]), 0),
    "delete": lambda np, t: np.delete(t([1, 2, 3]), [1.7]),
    "insert": lambda np, t: np.insert(t([1, 2, 3]), [1.7], 4),
    "digitize": lambda np, t: np.digitize(t([1.0]), [0.0, 2.0, 1.0]),
    "roll": lambda np, t: np.roll(t(SQUARE), (1, 2, 3), (0, 1)),
    "interp of a period 0": lambda np, t: np.interp(t([1.0]), [0.0, 1.0], [0.0, 1.0], period=0),
    "histogram": lambda np, t: np.histogram(t([1.0]), [2.0, 1.0]),
    "histogramdd": lambda np, t: np.histogramdd(t([[1.0, 2.0]]), np.array([1, 2, 3])),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, ZeroDivisionError)):
        NOT_TAKEN[name](np, np.asarray)
    with pytest.raises(errors.PhixError):
        NOT_TAKEN[name](phix.numpy, phix.numpy.asarray)


def test_the_slope_of_interp_is_a_number_where_points_repeat() -> None:
    for points, values in (([0.0, 1.0, 1.0], [0.0, 1.0, 2.0]), ([1.0], [2.0])):
        slope = phix.grad(lambda x, p=points, v=values: phix.numpy.interp(x, p, v))
        assert slope(phix.to_tensor(1.5)).tolist() == 0.0


@pytest.mark.parametrize("more", [{}, {"left": 0.0, "right": 9.0}, {"period": 8.0}])
def test_the_slopes_of_interp_at_points_are_those_beside_them(more: dict[str, float]) -> None:
    """At a point it is the slope behind it, at the last one that before it."""
    points, values = np.array([0.0, 1.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 6.0])
    x = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 3.5] + [4.0] * ("period" not in more))

    def interp(x: Any, points: Any, values: Any) -> Any:
        return phix.numpy.interp(x, points, values, **more)

    np.testing.assert_array_equal(interp(x, points, values), np.interp(x, points, values, **more))
    slopes = np.array([2, 2, -0.5, -0.5, 4, 4, 4])[: len(x)]
    for f in (interp, phix.jit(interp)):
        found = phix.grad(lambda *given, f=f: phix.ops.sum(f(*given)), (0, 1, 2))(x, points, values)
        np.testing.assert_allclose(found[0], slopes, rtol=1e-12)
        # moved together, points and x leave it as it is
        np.testing.assert_allclose(phix.ops.sum(found[1]), -slopes.sum(), rtol=1e-12)
        np.testing.assert_allclose(phix.ops.sum(found[2]), len(x), rtol=1e-12)
    at_one = phix.grad(lambda p: interp(1.0, p, values))(points)
    np.testing.assert_allclose(at_one, [0, 0.5, 0, 0], atol=1e-12)


def test_cube_roots_are_right_to_the_last_digits() -> None:
    exponents = np.linspace(-1, 1, 400)
    for dtype, reach in (("float64", 307), ("float32", 37), ("float16", 4)):
        x = (10 ** (reach * exponents) * np.where(exponents < 0, -1, 1)).astype(dtype)
        root = np.cbrt(x.astype("float64"))
        for found in (phix.numpy.cbrt(x), phix.jit(phix.numpy.cbrt)(x)):
            wrong = abs(found.numpy().astype("float64") / root - 1).max()
            assert found.dtype == dtype and wrong <= 3 * np.finfo(dtype).eps
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(phix.numpy.cbrt(edges), np.cbrt(edges))
    assert phix.grad(phix.grad(phix.numpy.cbrt))(-8.0).item() == pytest.approx(2 / 288)
    assert phix.grad(phix.numpy.cbrt)(0.0).item() == np.inf
    assert np.signbit(phix.numpy.cbrt(np.array([-0.0, 0.0])).numpy()).tolist() == [True, False]


def test_the_rest_of_fmod_has_the_sign_of_its_first_operand() -> None:
    x, y = np.array([-0.0, 0.0, -3.0, 3.0, -6.0]), np.array([3.0, -3.0, 3.0, -3.0, 2.0])
    for fmod in (phix.numpy.fmod, phix.jit(phix.numpy.fmod)):
        assert np.signbit(fmod(x, y).numpy()).tolist() == np.signbit(np.fmod(x, y)).tolist()
    slope = phix.grad(lambda x: phix.numpy.fmod(x, 3.0))
    assert [slope(x).item() for x in (-7.0, -0.0, 0.0, 7.0)] == [1.0] * 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_spacing_of_any_zero_is_positive(dtype: str) -> None:
    x = np.array([-0.0, 0.0, 1.0], dtype)
    for spacing in (phix.numpy.spacing, phix.jit(phix.numpy.spacing)):
        np.testing.assert_array_equal(spacing(x), np.spacing(x))


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": phix.numpy.copy,
    "asarray": lambda x: phix.numpy.asarray(x, copy=True),
    "array": phix.numpy.array,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_lives_on_where_the_tensor_is_donated(name: str) -> None:
    x = phix.to_tensor([1.0, 2.0])
    copied = COPIES[name](x)
    phix.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert copied.tolist() == [1.0, 2.0]


# -- norms of nothing ------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_the_largest_of_nothing_is_no_length(shape: tuple[int, int]) -> None:
    x = np.zeros(shape)
    for order in (None, "fro", "nuc", 1, 2, np.inf):
        for keep in (True, False):
            found = phix.numpy.linalg.norm(x, order, keepdims=keep)
            np.testing.assert_array_equal(found, np.zeros((1, 1) if keep else ()))
    for order in (0, 1, 2, 3, np.inf):
        for axis in (0, 1, None):
            found = phix.numpy.linalg.vector_norm(x, ord=order, axis=axis)
            assert found.tolist() == np.zeros(() if axis is None else shape[1 - axis]).tolist()
    with pytest.raises(errors.PhixError):
        phix.numpy.linalg.vector_norm(x, ord=-np.inf)


# -- complex numbers in order, copies, and arguments in another order ------------------------------
@pytest.mark.unoptimised
@pytest.mark.parametrize("name", ["max", "min"])
def test_complex_numbers_have_extremes_in_numpys_order(name: str) -> None:
    x = np.array([[1 + 2j, 1 + 3j, 0], [2, -1j, 2 + 1j]])
    own, theirs = getattr(phix.numpy, name), getattr(np, name)
    for settings in ({}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}):
        np.testing.assert_array_equal(own(x, **settings), theirs(x, **settings))
    x[1, 1] = complex(1, np.nan)
    found = own(x, axis=1).numpy()
    assert np.isnan(found[1]) and found[0] == theirs(x[0])


def test_a_copy_that_is_asked_for_is_one() -> None:
    """What is donated afterwards ends the copy alone."""
    x = phix.to_tensor([1.0, 2.0])
    copies = (phix.numpy.astype(x, x.dtype), phix.numpy.from_dlpack(x, copy=True))
    assert all(c is not x and not np.shares_memory(c.numpy(), x.numpy()) for c in copies)
    for c in copies:
        phix.jit(lambda v: v + 1, donate_argnums=0)(c)
    assert x.tolist() == [1.0, 2.0]
    assert phix.numpy.astype(x, x.dtype, copy=False) is x is phix.numpy.from_dlpack(x)


def test_arguments_in_the_order_of_others_are_named() -> None:
    with pytest.raises(errors.ArgumentError, match=r"the shape stands last: randint\(key, low"):
        phix.random.randint(phix.random.key(0), [3], 0, 5)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match=r"pow: y: is one number here.*x \*\* y"):
        phix.ops.pow(2.0, phix.to_tensor([1.0, 2.0]))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_place_of_the_extreme_is_never_that_of_a_nan(compiled: bool) -> None:
    """NumPy's own answers cannot be trusted where a slice holds but NaN and infinities."""
    rows = np.array([[np.nan, -np.inf, -np.inf], [np.nan] * 3, [2.0, np.nan, 5.0]])
    for sign, find in ((1, phix.numpy.nanargmax), (-1, phix.numpy.nanargmin)):
        call = phix.jit(find, static_argnums=1) if compiled else find
        assert call(sign * rows, 1).tolist() == [1, -1, 2]
    assert phix.numpy.nanargmax(rows).item() == 8


# -- the ends of ints, and distances far from 1 ----------------------------------------------------
OF_ONE = ("bitwise_count", "absolute", "negative", "sign", "square", "mean")
OF_TWO = ("gcd", "lcm", "floor_divide", "remainder", "fmod", "maximum", "subtract")


@pytest.mark.unoptimised
@pytest.mark.filterwarnings("ignore:.*encountered")
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_ints_at_both_ends_are_numpys(dtype: str) -> None:
    """The least int has no absolute value; what is too large is wrapped as NumPy wraps it."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    ends = np.array([least, least + 1, 1, 6, most // 2 + 1, most - 1, most], dtype)
    if least:
        ends = np.append(ends, np.array([-6, -1], dtype))
    pairs = [v.ravel() for v in np.meshgrid(np.append(ends, ends.dtype.type(0)), ends)]
    for name, given in [(n, [ends]) for n in OF_ONE] + [(n, pairs) for n in OF_TWO]:
        wanted = np.asarray(getattr(np, name)(*given))
        found = np.asarray(getattr(phix.numpy, name)(*given))
        rounding = 1e-6 if name == "mean" else 0  # floats of ints are float32 here
        np.testing.assert_allclose(found, wanted, rtol=rounding, err_msg=name)


CURVE = np.array([0.0, 1, 4, 9, 16])


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes_of_samples_any_distance_apart(edge_order: int) -> None:
    """NumPy's, in float64, with the distance taken out."""
    exact = np.gradient(CURVE, edge_order=edge_order)
    places = np.array([0, 1, 3, 4, 7.0])
    uneven = np.gradient(CURVE, places, edge_order=edge_order)
    for dtype, distances in {
        "float16": [2.0**-10, 2.0**10], "float32": [1e-30, 1e-20, 1e-15, 1e15, 1e30],
        "float64": [1e-250, 1e-110, 1e110, 1e250],
    }.items():  # fmt: skip
        x, rounding = CURVE.astype(dtype), 8 * np.finfo(dtype).eps
        for h in distances:
            # 0 of cancelled slopes is 0 beside the others
            near = {"rtol": rounding, "atol": rounding * 8 / h}
            for given, wanted in (
                (h, exact), ((np.arange(5) * h).astype(dtype), exact),
                ((places * h).astype(dtype), uneven),
            ):  # fmt: skip
                found = np.asarray(phix.numpy.gradient(x, given, edge_order=edge_order), "f8")
                np.testing.assert_allclose(found, wanted / h, **near, err_msg=f"{dtype} {h}")


@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_the_slope_beside_a_hole_is_that_of_its_neighbours(hole: float) -> None:
    x = np.append(CURVE, 25.0)
    x[3] = hole
    for spacing in ((), (0.5,), (np.arange(6.0),), (np.array([0, 1, 3, 4, 7, 7.5]),)):
        for order in (1, 2):
            with np.errstate(invalid="ignore"):
                wanted = np.gradient(x, *spacing, edge_order=order)
            found = phix.numpy.gradient(x, *spacing, edge_order=order)
            np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14)
    total = phix.grad(lambda v: phix.numpy.sum(phix.numpy.gradient(v, np.arange(6.0))[:2]))
    assert total(x).tolist() == [-1.5, 1.0, 0.5, 0.0, 0.0, 0.0]


def test_powers_of_two_with_infinite_parts() -> None:
    x = np.array([np.inf + 1j, -np.inf + 1j, 1 + 2j])
    size, turn = np.exp(x.real * np.log(2)), np.log(2) * x.imag
    found = phix.numpy.exp2(phix.to_tensor(x)).numpy()
    np.testing.assert_allclose(found.real, size * np.cos(turn), rtol=1e-14)
    np.testing.assert_allclose(found.imag, size * np.sin(turn), rtol=1e-14)


# -- sizes of 0, and sizes that are found later ----------------------------------------------------
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 4, 4)])
def test_the_determinant_of_nothing_has_an_empty_slope(shape: tuple[int, ...]) -> None:
    for name in ("det", "slogdet"):

        def f(x: Any, name: str = name) -> Any:
            found = getattr(phix.numpy.linalg, name)(x)
            return phix.numpy.sum(found if name == "det" else found[1])

        assert tuple(phix.grad(f)(phix.zeros(shape)).shape) == shape


OF_A_SIZE: dict[str, Callable[[Any, Any], Any]] = {
    "eye": lambda np, n: np.eye(n),
    "eye of columns": lambda np, n: np.eye(3, n, 1),
    "identity": lambda np, n: np.identity(n),
    "tri": lambda np, n: np.tri(n),
    "linspace": lambda np, n: np.linspace(2.0, 3.0, n),
    "linspace without its end": lambda np, n: np.linspace(2.0, 3.0, n, endpoint=False),
}


@pytest.mark.parametrize("name", OF_A_SIZE)
def test_what_is_made_of_a_size_takes_one_that_is_not_known(name: str) -> None:
    make = OF_A_SIZE[name]
    graph = phix.make_graph(lambda x: make(phix.numpy, x.shape[0]))(phix.spec(["n"]))
    for n in (0, 1, 3):
        found, wanted = graph(np.ones(n, np.float32))[0], make(np, n)
        assert tuple(found.shape) == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_allclose(make(phix.numpy, n), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logaddexp_keeps_its_digits_near_0_and_at_infinity(dtype: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0, -7, 3, -40, 1, 80, inf, -inf, inf, -inf, nan, 5, 0.5], dtype)
    y = np.array([-7, 0, 3, 0, -60, 90, inf, -inf, -inf, 2, 1, inf, -1.25], dtype)
    found = phix.jit(np.logaddexp)(phix.to_tensor(x), phix.to_tensor(y)).numpy()
    with np.errstate(invalid="ignore"):  # of NaN
        expected = np.logaddexp(x.astype("longdouble"), y.astype("longdouble")).astype(dtype)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps)
    few = [0, 1, 2, 5, 12]  # where slopes are those of exp(x - value), also where both are equal
    slopes = phix.grad(lambda x, y: np.logaddexp(x, y).sum(), argnums=(0, 1))
    by_x, by_y = slopes(phix.to_tensor(x[few]), phix.to_tensor(y[few]))
    np.testing.assert_allclose(by_x.numpy(), np.exp(x[few] - expected[few]), rtol=2e-5)
    np.testing.assert_allclose(by_y.numpy(), np.exp(y[few] - expected[few]), rtol=2e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda z, x: np.ldexp(x, z), lambda z, x: np.ldexp(z, 2), lambda z, x: np.frexp(z),
        lambda z, x: np.quantile(x, z), lambda z, x: np.nanpercentile(x, z),
        lambda z, x: np.interp(z, x, x), lambda z, x: np.interp(x, z, x),
    ],
)  # fmt: skip
def test_numbers_that_must_be_real_lose_no_imaginary_part(call: Any) -> None:
    z, x = phix.to_tensor([0.5 + 1j, 0.25]), phix.to_tensor([1.0, 2.0])
    with pytest.raises(phix.errors.DTypeError, match="takes no complex numbers"):
        call(z, x)


# -- none, of a size that the program does not know ------------------------------------------------
SETS: dict[str, Callable[..., Any]] = {
    "isin": lambda np, x, y: (np.isin(x, y), np.isin(x, y, invert=True)),
    "setxor1d": lambda np, x, y: np.setxor1d(x, y),
    "intersect1d": lambda np, x, y: np.intersect1d(x, y, return_indices=True),
    "setdiff1d": lambda np, x, y: np.setdiff1d(x, y),
    "unique_all": lambda np, x, y: (*np.unique_all(x), *np.unique_counts(y)),
    "unique": lambda np, x, y: np.unique(x, True, True, True, equal_nan=False),
}


@pytest.mark.parametrize("dtype", ["int64", "float32"])
@pytest.mark.parametrize("name", SETS)
def test_sets_of_sizes_that_are_not_known_may_be_empty(name: str, dtype: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return SETS[name](phix.numpy, x, y)

    compiled = phix.jit(f, input_spec=[phix.spec([-1], dtype), phix.spec([-1], dtype)])
    full, none = np.array([3, 0, 3, -2, 5], dtype), np.array([], dtype)
    for x, y in ((full, none), (none, full), (none, none), (full, full[1:3])):
        wanted = SETS[name](np, x, y)
        for run in (compiled, phix.jit(f), f):
            found = run(x, y)
            for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, wanted))):
                np.testing.assert_array_equal(a, b)


def test_arrays_of_sizes_that_are_not_known_are_not_said_to_differ() -> None:
    both = [phix.spec([-1]), phix.spec([-1])]
    with pytest.raises(errors.UnknownDimError, match=r"array_equal of float32\[-1\]"):
        phix.make_graph(phix.numpy.array_equal)(*both)
    two = [phix.spec(["n"]), phix.spec(["n", 2])]
    assert phix.infer_meta(lambda x, y: x * phix.numpy.array_equal(x, y))(*two).dtype == "float32"


@pytest.mark.parametrize("method", ["linear", "hazen", "weibull", "median_unbiased"])
def test_the_slopes_of_quantiles_at_elements_are_those_beside_them(method: str) -> None:
    """Of elements that lie evenly apart a quantile is a line, up to its ends."""
    x = np.arange(1.0, 6.0)

    def slope(q: float) -> float:
        return phix.grad(lambda q: phix.numpy.quantile(x, q, method=method))(q).item()

    beside = slope(0.5001)
    assert beside > 3.9
    for q in (0.25, 0.375, 0.5, 0.625, 0.75):
        assert abs(slope(q) - beside) < 1e-9
    assert abs(slope(0.0)) in (0.0, beside) and abs(slope(1.0)) in (0.0, beside)


def test_quantiles_at_infinities_are_the_elements_themselves() -> None:
    x = np.array([-np.inf, 2.0, np.inf])
    found = phix.numpy.quantile(x, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    np.testing.assert_array_equal(found, [-np.inf, -np.inf, 2.0, np.inf, np.inf])


# -- shifts that only a run tells ------------------------------------------------------------------
def rolled(x: Any, by: Any) -> Any:
    return phix.numpy.roll(x, by)


@pytest.mark.parametrize("by", [-9, -1, 0, 4, 11])
def test_arrays_roll_by_shifts_that_only_a_run_tells(by: int) -> None:
    x, weights = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4) ** 2
    shift = np.array(by, np.int8)
    wanted = np.roll(x, by)
    np.testing.assert_array_equal(phix.jit(rolled)(x, shift), wanted)
    sizes = [phix.spec(["n", "m"], "float64"), phix.spec([], "int8")]
    np.testing.assert_array_equal(phix.jit(rolled, input_spec=sizes)(x, shift), wanted)
    slopes = phix.jit(phix.grad(lambda x, by: (rolled(x, by) * weights).sum()))(x, shift)
    np.testing.assert_array_equal(slopes, np.roll(weights, -by))


def test_each_lane_and_each_step_rolls_by_its_own_shift() -> None:
    x, shifts = np.arange(12.0).reshape(3, 4), np.array([1, -2, 9])
    wanted = [np.roll(row, by) for row, by in zip(x, shifts)]
    np.testing.assert_array_equal(phix.vmap(rolled)(x, shifts), wanted)
    steps = phix.fori_loop(0, 3, lambda i, x: phix.numpy.roll(x, -i, 1), phix.to_tensor(x))
    np.testing.assert_array_equal(steps, np.roll(x, -3, 1))


def test_arrays_of_shifts_are_one_for_each_axis() -> None:
    x, shifts = np.arange(12.0).reshape(3, 4), np.array([2, -1])
    by_both = phix.jit(lambda x, by: phix.numpy.roll(x, by, (0, 1)))
    np.testing.assert_array_equal(by_both(x, shifts), np.roll(x, shifts, (0, 1)))
    found = phix.numpy.roll(phix.to_tensor(x), shifts, np.array([0, 1]))
    np.testing.assert_array_equal(found, np.roll(x, shifts, (0, 1)))
    with pytest.raises(errors.DTypeError, match="a shift is an int"):
        phix.jit(rolled)(x, 1.5 * np.ones(()))


def test_places_and_indices_in_arrays_of_unknown_sizes() -> None:
    x = np.array([[1.0, 5.0, 2.0], [0.0, 3.0, 9.0]])

    def largest(x: Any) -> Any:
        at = phix.numpy.unravel_index(phix.numpy.argmax(x), x.shape)
        return at, phix.numpy.ravel_multi_index(at, x.shape), phix.numpy.unravel_index(4, x.shape)

    (row, column), place, known = phix.jit(largest, input_spec=[phix.spec(["n", "m"], "float64")])(
        x
    )
    assert (row.item(), column.item(), place.item()) == (1, 2, 5)
    assert [v.item() for v in known] == [1, 1]


def test_places_that_a_run_tells_are_the_nearest_inside() -> None:
    places = np.array([-13, -12, -1, 0, 11, 12, 25])
    wanted = np.unravel_index(np.clip(np.where(places < 0, places + 12, places), 0, 11), (3, 4))
    found = phix.jit(lambda i: phix.numpy.unravel_index(i, (3, 4)))(places)
    np.testing.assert_array_equal(np.stack(found), np.stack(wanted))
    spec = [phix.spec([-1], "int64"), phix.spec(["n", 4], "float64")]
    of_any = phix.jit(lambda i, x: phix.numpy.unravel_index(i, x.shape), input_spec=spec)
    np.testing.assert_array_equal(np.stack(of_any(places, np.zeros((3, 4)))), np.stack(wanted))


# -- indices and dtypes ----------------------------------------------------------------------------
def test_indices_along_an_axis_are_ints() -> None:
    x = phix.to_tensor(np.arange(4.0).reshape(2, 2))
    with pytest.raises(errors.DTypeError, match=r"take_along_axis: indices are ints, found float"):
        phix.numpy.take_along_axis(x, np.ones((2, 1)), 1)
    with pytest.raises(errors.DTypeError, match="found bool"):
        np.take_along_axis(x, x > 0, 1)


def test_dtypes_may_be_numpys_own_classes() -> None:
    for pair in ((np.int32, np.int64), (np.float64, np.float32)):
        assert phix.numpy.can_cast(*pair) == np.can_cast(*pair)
    assert phix.numpy.can_cast(np.ones(2, np.int16), np.float32)


def test_slopes_of_quantiles_beside_numbers_that_are_none() -> None:
    a = np.array([[10.0, np.nan, 4.0], [3.0, 2.0, 1.0]])
    slope = phix.grad(lambda q: phix.numpy.nanquantile(a, q, axis=0).sum())(np.float64(0.5))
    assert slope.item() == 10.0  # the middle column has one number


# -- what NumPy refuses ----------------------------------------------------------------------------
REFUSED_THERE: dict[str, Callable[[Any, Any], Any]] = {
    "ddof and correction": lambda np, x: np.var(x, ddof=1, correction=0),
    "ddof and correction of a root": lambda np, x: np.std(x, ddof=2, correction=1),
    "ddof and correction beside NaN": lambda np, x: np.nanstd(x, ddof=1, correction=0),
    "one row of coordinates for two axes": lambda np, x: np.gradient(x, x[0]),
    "the power of what is not square": lambda np, x: np.linalg.matrix_power(x > 0, 1),
    "the power of a vector of ints": lambda np, x: np.linalg.matrix_power(x[0] > 0, 1),
    "rows of a vector": lambda np, x: np.vsplit(x[0], 3),
    "a third axis of two": lambda np, x: np.dsplit(x, 1),
}


@pytest.mark.parametrize("name", REFUSED_THERE)
def test_what_numpy_refuses(name: str) -> None:
    x = np.arange(6.0).reshape(2, 3)
    with pytest.raises((ValueError, TypeError, np.linalg.LinAlgError)):
        REFUSED_THERE[name](np, x)
    with pytest.raises(errors.PhixError):
        REFUSED_THERE[name](phix.numpy, phix.to_tensor(x))


def test_variances_with_a_freedom_in_fractions_keep_the_dtype() -> None:
    x = np.array([1.0, np.nan, 4.0, 2.0], np.float32)
    with phix.default_dtype("float64"):
        for call in (
            lambda np: np.nanvar(x, ddof=0.5), lambda np: np.var(x, ddof=0.5, where=x > 0),
            lambda np: np.nanstd(x, ddof=1.5), lambda np: np.var(x, mean=x[0], ddof=0.5),
        ):  # fmt: skip
            found, wanted = call(phix.numpy), call(np)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
