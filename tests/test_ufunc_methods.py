"""Methods of ufuncs beside NumPy's, in all dtypes, along all axes, and of unknown sizes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.array_functions.by_name import METHODS
from phix.array_functions.ufuncs import ALIASES
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(5)
OF_INTS = ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
OF_TRUTHS = ("logical_and", "logical_or", "logical_xor")
OF_FLOATS = ("logaddexp", "logaddexp2", "hypot")
NAMES = (*OF_INTS, *OF_TRUTHS, *OF_FLOATS)


def dtypes_of(name: str) -> tuple[str, ...]:
    if name in OF_FLOATS:
        return ("float64",)
    ints = ("int8", "int64", "uint8")
    return (*ints, "bool", "float64") if name in OF_TRUTHS else ints


def same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype and tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_all_elements_along_axes(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    for dtype in dtypes_of(name):
        for shape in ((5,), (1,), (3, 4), (2, 7, 3)):
            x = RNG.integers(1, 7, shape).astype(dtype)
            several = [None, (0, 1)] if len(shape) > 1 and name != "lcm" else []
            for axis in (0, -1, *several):
                for keep in (False, True):
                    wanted = np.asarray(theirs.reduce(x, axis, keepdims=keep))
                    same(ours.reduce(x, axis, keepdims=keep), wanted)
        x = np.zeros((0, 2), dtype)
        if theirs.identity is not None:
            same(ours.reduce(x), np.asarray(theirs.reduce(x)))


@pytest.mark.parametrize("name", NAMES)
def test_the_first_elements_along_an_axis(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    for dtype in dtypes_of(name):
        x = RNG.integers(0, 7, (3, 6)).astype(dtype)
        for axis in (0, 1):
            same(ours.accumulate(x, axis), np.asarray(theirs.accumulate(x, axis)))


@pytest.mark.parametrize("name", ["bitwise_xor", "logaddexp2", "gcd"])
def test_masks_and_first_values(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    x = RNG.integers(1, 60, (4, 5)).astype(dtypes_of(name)[-1])
    mask, first = x % 3 > 0, x[0, 0]
    wanted = np.asarray(theirs.reduce(x, 1, where=mask, initial=first))
    same(ours.reduce(x, 1, where=mask, initial=first), wanted)


def test_transformed_and_of_unknown_sizes() -> None:
    x = RNG.integers(0, 99, (6, 5))
    lanes = phix.jit(phix.vmap(pn.bitwise_xor.reduce))
    same(lanes(x), np.bitwise_xor.reduce(x, 1))
    of_any = phix.jit(pn.bitwise_xor.reduce, input_spec=[phix.spec([-1, 5], "int64")])
    for rows in (1, 2, 6):
        same(of_any(x[:rows]), np.bitwise_xor.reduce(x[:rows]))
    y = x[0] / 50
    slope = phix.grad(lambda y: pn.logaddexp.accumulate(y)[-1])(y)
    same(slope, np.exp(y) / np.exp(y).sum())


def test_every_method_is_offered() -> None:
    for name, method in METHODS:
        assert callable(getattr(getattr(pn, name), method))
        for other in (n for n, own in ALIASES.items() if own == name):
            assert getattr(getattr(pn, other), method) is getattr(getattr(pn, name), method)
    theirs = {n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)}
    of_two = {n for n in theirs if getattr(np, n).nin == 2 and getattr(np, n).nout == 1}
    without = {"ldexp", "matmul", "matvec", "vecmat", "vecdot"}
    for name in of_two - without:
        for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
            assert callable(getattr(getattr(pn, name), method))


# -- from the left to the right ------------------------------------------------------------------
ORDERED: dict[str, str] = {
    "subtract": "float64", "divide": "float64", "power": "float64", "arctan2": "float64",
    "copysign": "float64", "remainder": "int64", "floor_divide": "int64", "left_shift": "int64",
    "less": "bool", "greater_equal": "bool",
}  # fmt: skip


def drawn(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(0 if dtype == "bool" else 1, 2 if dtype == "bool" else 5, shape).astype(
        dtype
    )


@pytest.mark.parametrize("name", ORDERED)
def test_what_has_an_order_goes_from_the_left_to_the_right(name: str) -> None:
    function, ours = getattr(np, name), getattr(pn, name)
    x = drawn(ORDERED[name], (4, 3))
    wanted = functools.reduce(function, x)  # np.arctan2.reduce forgets what is between
    for run in (ours.reduce, phix.jit(ours.reduce), lambda x: ours.accumulate(x)[-1]):
        same(run(x), wanted)
    same(ours.reduce(x.T, 1, keepdims=True), wanted[:, None])
    same(phix.vmap(ours.reduce)(np.stack([x, x])), np.stack([wanted, wanted]))
    of_any = phix.jit(ours.reduce, input_spec=[phix.spec([-1, 3], x.dtype)])
    for rows in (1, 3):
        same(of_any(x[:rows]), functools.reduce(function, x[:rows]))


def test_the_start_masks_and_refusals_of_what_has_an_order() -> None:
    x = RNG.uniform(1, 3, (5, 2))
    mask = x > 1.7
    for ours, theirs in ((pn.subtract, np.subtract), (pn.divide, np.divide)):
        same(ours.reduce(x, initial=2.0), theirs.reduce(x, initial=2.0))
        same(ours.reduce(x, initial=2.0, where=mask), theirs.reduce(x, initial=2.0, where=mask))
        same(ours.reduce(x[0, 0]), np.asarray(theirs.reduce(x[0, 0])))
        same(ours.reduce(x[:0], initial=2.0), theirs.reduce(x[:0], initial=2.0))
        same(ours.accumulate(x[:0]), theirs.accumulate(x[:0]))
    same(pn.divide.reduce(np.array([7, 2]), dtype="float64"), np.asarray(3.5))
    with pytest.raises(ShapeError, match="no elements"):
        pn.subtract.reduce(x[:0])
    with pytest.raises(AttributeValueError, match="one axis"):
        pn.subtract.reduce(x, axis=None)
    with pytest.raises(ArgumentError, match="give initial="):
        pn.subtract.reduce(x, where=mask)
    with pytest.raises(DTypeError, match="gives bools"):
        pn.less.reduce(x)
    for name in ("divide", "arctan2"):
        with pytest.raises(DTypeError, match="leave dtype= out"):
            getattr(pn, name).reduce(np.arange(3), dtype="int64")
    for name in ("hypot", "logaddexp", "logaddexp2"):
        for way in ("reduce", "accumulate"):
            with pytest.raises(DTypeError, match="dtype must be that of floats"):
                getattr(getattr(pn, name), way)(np.arange(3), dtype="int64")
    slope = phix.grad(lambda x: pn.divide.reduce(x))(x[:, 0])
    whole = np.divide.reduce(x[:, 0])
    np.testing.assert_allclose(slope, [whole / x[0, 0], *(-whole / x[1:, 0])], rtol=1e-12)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_extremes_in_another_dtype(name: str) -> None:
    x = np.array([[1.5, np.nan, 2.0], [np.nan, np.nan, 0.0]])
    for a in (x, RNG.integers(0, 9, (2, 3)), x > 1):
        for axis in (0, 1, None):
            ours, theirs = getattr(pn, name), getattr(np, name)
            same(ours.reduce(a, axis), np.asarray(theirs.reduce(a, axis)))
    same(ours.reduce(x, dtype="float32"), theirs.reduce(x, dtype="float32"))


# -- between places ------------------------------------------------------------------------------
PLACES: tuple[list[int], ...] = ([0], [6], [0, 3], [0, 4, 1, 5, 2, 6, 3], [5, 5, 2, 0], [])


@pytest.mark.parametrize("name", [n for n, way in METHODS if way == "reduceat"])
def test_between_one_place_and_the_next(name: str) -> None:
    dtypes: tuple[str, ...] = ("float64", "int16", "uint8", "bool")
    if name in OF_INTS or name.startswith(("bitwise", "left", "right")):
        dtypes = ("int64", "int16", "uint8")
    if name in (
        "divide",
        "arctan2",
        "float_power",
        "copysign",
        "heaviside",
        "nextafter",
        *OF_FLOATS,
    ):
        dtypes = ("float64", "float32")
    if name in ("floor_divide", "remainder", "fmod"):
        dtypes = ("float64", "int16", "uint8")
    if name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        dtypes = ("bool",)
    ours, theirs = getattr(pn, name), getattr(np, name)
    for dtype in dtypes:
        x = drawn(dtype, (7, 2))
        for places in PLACES:
            try:
                kind = np.asarray(theirs.reduceat(x, [0, 2])).dtype.kind
                wanted = [between(theirs, x.astype(elements(theirs, x)), s, e)
                          for s, e in zip(places, [*places[1:], 7])]  # fmt: skip
            except TypeError:  # of bools NumPy has not all
                continue
            found = ours.reduceat(x, places)
            assert found.shape == (len(places), 2)
            assert found.dtype.kind == kind or dtype == "bool"
            for a, b in zip(found, wanted):
                np.testing.assert_allclose(a, b, rtol=1e-6 if kind == "f" else 0)


def elements(ufunc: np.ufunc, x: np.ndarray) -> np.dtype:
    if ufunc in (np.add, np.multiply) and x.dtype.kind in "biu":
        return np.dtype("uint64" if x.dtype.kind == "u" else "int64")
    return ufunc(x[:0], x[:0]).dtype


def between(ufunc: np.ufunc, x: np.ndarray, start: int, end: int) -> Any:
    return functools.reduce(ufunc, x[start : max(end, start + 1)])


@pytest.mark.parametrize("name", ["add", "logaddexp", "subtract"])
def test_places_under_transformations(name: str) -> None:
    ours, theirs = getattr(pn, name), getattr(np, name)
    x, places = RNG.standard_normal((6, 4)), np.array([2, 0, 3, 3])
    for axis in (0, 1, -1):
        same(ours.reduceat(x, places, axis), theirs.reduceat(x, places, axis))
    wanted = theirs.reduceat(x, places)
    same(phix.jit(ours.reduceat)(x, places), wanted)
    same(phix.jit(ours.reduceat, input_spec=[phix.spec([-1, 4], "float64"),
                                             phix.spec([-1], "int64")])(x, places),
         wanted)  # fmt: skip
    of_lanes = phix.vmap(ours.reduceat)(np.stack([x, x]), np.stack([places, places[::-1]]))
    same(of_lanes[1], theirs.reduceat(x, places[::-1]))
    weights = RNG.standard_normal(wanted.shape)
    slope = phix.grad(lambda x: pn.sum(ours.reduceat(x, places) * weights))(x).numpy()
    for place in ((0, 0), (2, 1), (5, 3)):
        step = np.zeros_like(x)
        step[place] = 1e-6
        ends = [(theirs.reduceat(x + s * step, places) * weights).sum() for s in (1, -1)]
        np.testing.assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_places_that_are_refused() -> None:
    with pytest.raises(TensorIndexError, match="index 4 is out of range for an axis of 4"):
        pn.add.reduceat(np.ones(4), [0, 4])
    with pytest.raises(TensorIndexError, match="index -1"):
        pn.add.reduceat(np.ones(4), [-1])
    with pytest.raises(DTypeError, match="indices are ints"):
        pn.add.reduceat(np.ones(4), [0.5])
    with pytest.raises(ShapeError, match="indices are a vector"):
        pn.add.reduceat(np.ones(4), [[0]])


# -- at places -----------------------------------------------------------------------------------
INDICES: tuple[Any, ...] = (
    np.array([0, 2, 2, -1]), (np.array([1, 1]), np.array([0, 0])), slice(1, None), 1,
    np.array([True, False, True, True]), (slice(None), np.array([2, 2, 0])),
)  # fmt: skip
AT: dict[str, str] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "maximum", "minimum", "power",
                     "logaddexp", "fmod"), "float64"),
    **dict.fromkeys(("floor_divide", "bitwise_xor", "left_shift", "gcd"), "int64"),
    "logical_xor": "bool",
}  # fmt: skip


@pytest.mark.parametrize("name", AT)
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_elements_at_places(name: str, index: Any) -> None:
    a = drawn(AT[name], (4, 3))
    b = drawn(AT[name], np.shape(a[index]))
    wanted = a.copy()
    getattr(np, name).at(wanted, index, b)
    ours = getattr(pn, name).at
    same(ours(a, index, b, inplace=False), wanted)
    if not (isinstance(index, np.ndarray) and index.dtype == bool):
        same(phix.jit(lambda a, b: ours(a, index, b, inplace=False))(a, b), wanted)
        lanes = phix.vmap(lambda a, b: ours(a, index, b, inplace=False))
        same(lanes(np.stack([a, a]), np.stack([b, b]))[1], wanted)


@pytest.mark.parametrize("name", ["negative", "square", "sqrt", "invert"])
def test_functions_of_one_at_places(name: str) -> None:
    a = drawn("int64" if name == "invert" else "float64", (5,))
    wanted = a.copy()
    getattr(np, name).at(wanted, [0, 3, 3])
    same(getattr(pn, name).at(a, [0, 3, 3], inplace=False), wanted)


def test_slopes_of_what_is_done_at_places() -> None:
    a, b, index = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([0, 1, 1])
    f = lambda a, b: pn.divide.at(a, index, b, inplace=False).sum()  # noqa: E731
    by_a, by_b = phix.grad(f, (0, 1))(a, b)
    np.testing.assert_allclose(by_a, [1 / 3, 1 / 20])
    np.testing.assert_allclose(by_b, [-1 / 9, -2 / 80, -2 / 100])


def test_places_out_of_range_and_what_is_refused() -> None:
    a = np.arange(3.0)
    for name in ("add", "power"):
        at = getattr(pn, name).at
        with pytest.raises(TensorIndexError):
            at(a, [5], 1.0, inplace=False)
        dropped = phix.jit(lambda i: at(a, i, 2.0, inplace=False))(np.array([5, 1]))  # noqa: B023
        np.testing.assert_array_equal(dropped, [0, 3 if name == "add" else 1, 2])
        with pytest.raises(ArgumentError, match=r"a = phix.numpy.\w+.at\(a, indices, b, inplace"):
            at(a, [0], 1.0)
        with pytest.raises(ArgumentError, match="b are missing"):
            at(a, [0], inplace=False)
    with pytest.raises(ArgumentError, match="found b"):
        pn.negative.at(a, [0], 1.0, inplace=False)
    with pytest.raises(DTypeError, match="do not take float"):
        pn.add.at(np.arange(3), [0], 1.5, inplace=False)
    with pytest.raises(ArgumentError, match=r"immutable.*phix.numpy.add.at"):
        np.add.at(phix.to_tensor(a), [0], 1.0)


# name, dtype and element of a, dtype and value of b, what NumPy leaves there
WIDER: list[tuple[str, str, Any, str, Any, Any]] = [
    ("multiply", "float16", 1e-3, "float32", 1e6, 1000.5),
    ("add", "float16", -6e4, "float32", 1e5, 4e4),
    ("maximum", "int8", 50, "int64", 300, 44),  # 300 is larger, and 44 in 8 bits
    ("minimum", "int8", 50, "int64", 300, 50),
    ("add", "int8", 50, "int64", 300, 94),
    ("minimum", "complex64", 1 + 2j, "complex64", 1 - 1j, 1 - 1j),
]


@pytest.mark.parametrize("name, dtype, element, wider, value, wanted", WIDER, ids=str)
def test_values_at_places_are_met_in_their_own_dtype(
    name: str, dtype: str, element: Any, wider: str, value: Any, wanted: Any
) -> None:
    a, b = np.array([0, element], dtype), np.array([value], wider)
    at = lambda a, b: getattr(pn, name).at(a, [1], b, inplace=False)  # noqa: E731
    for found in (at(a, b), phix.jit(at)(a, b)):
        same(found, np.array([0, wanted], dtype))


def test_nothing_stays_nothing_at_places() -> None:
    for found in (
        pn.sin.at(np.zeros((2, 0)), [0, 1], inplace=False),
        pn.power.at(np.zeros((2, 0)), [1], 2.0, inplace=False),
    ):
        same(found, np.zeros((2, 0)))
    with pytest.raises(TensorIndexError):
        pn.sin.at(np.zeros((2, 0)), [2], inplace=False)


def test_heaviside_of_truths_is_a_float() -> None:
    truths = np.array([[True, False], [False, False]])
    same(pn.heaviside(truths, truths), np.array([[1.0, 0.0], [0.0, 0.0]], "float32"))
    same(pn.heaviside.reduce(truths, 1), np.array([1.0, 0.0], "float32"))
    same(pn.heaviside.accumulate(truths, 0), np.array([[1.0, 0.0], [1.0, 0.0]], "float32"))


def test_negative_powers_of_ints_are_refused() -> None:
    """As by NumPy, in every method; elements that are no powers may be negative."""
    x, refusal = np.array([2, -1, 3]), "ints have no negative powers"
    for called in (
        lambda: pn.power.reduce(x),
        lambda: pn.power.accumulate(x),
        lambda: pn.power.reduceat(x, [0]),
        lambda: pn.power.at(x, [0], -1, inplace=False),
        lambda: pn.power.at(x, [0, 1], np.array([1, -1]), inplace=False),
        lambda: pn.power.reduce(x, initial=2),
        lambda: phix.to_tensor(x).at[0].power(-2),
        lambda: phix.to_tensor(x).at[[0, 1]].power(np.array([1, -2])),
    ):
        with pytest.raises(AttributeValueError, match=refusal):
            called()
    same(pn.power.reduceat(x, [0, 1, 2]), np.power.reduceat(x, [0, 1, 2]))
    used = np.array([True, False, True])
    same(pn.power.reduce(x, initial=2, where=used), np.power.reduce(x, initial=2, where=used))
    same(pn.power.at(x, [1], 2, inplace=False), np.array([2, 1, 3]))
    assert pn.power.reduce(x.astype(float)).item() == 0.125


def test_no_multiple_is_common_to_nothing() -> None:
    none = np.zeros((0, 2), np.int64)
    for called in (pn.lcm.reduce, np.lcm.reduce):
        with pytest.raises(ValueError):
            called(none)
        with pytest.raises((ValueError, ArgumentError)):
            called(np.array([2, 3]), where=np.array([True, False]))
        assert called(none, initial=4).tolist() == [4, 4]
        assert called(none, axis=1).tolist() == []
    assert pn.gcd.reduce(none).tolist() == np.gcd.reduce(none).tolist() == [0, 0]
