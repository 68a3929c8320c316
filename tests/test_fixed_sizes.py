"""``size=`` of ``phix.numpy.nonzero``, ``unique`` and their kin, ``length=`` of ``bincount`` and
``total_repeat_length=`` of ``repeat``: what NumPy gives, cut off or padded by hand."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.array_functions import arrangement, elementwise, selection, sets
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    ConcretizationError,
    DTypeError,
    ShapeError,
)

pytestmark = pytest.mark.unoptimised

rng = np.random.default_rng(5)
NAN, I64 = np.nan, np.int64


def same(found: Any, wanted: Any) -> None:
    """The same numbers, NaN too, in the same shape and dtype; of tuples, one by one."""
    found, wanted = (v if isinstance(v, (tuple, list)) else (v,) for v in (found, wanted))
    assert len(found) == len(wanted)
    for f, w in zip(found, map(np.asarray, wanted)):
        assert f.shape == w.shape and f.dtype == w.dtype, (f, w)
        np.testing.assert_array_equal(f.numpy(), w)


def anywhere(f: Callable[..., Any], *args: np.ndarray, wanted: Any) -> None:
    """``f`` eager, compiled, and compiled for dims that are not known."""
    specs = [phix.spec([-1] * np.ndim(a), np.asarray(a).dtype) for a in args]
    for run in (f, phix.jit(f), phix.jit(f, input_spec=specs)):
        same(run(*map(phix.to_tensor, args)), wanted)


def in_lanes(f: Callable[..., Any], *args: np.ndarray) -> None:
    """``f`` under vmap, under two, and compiled, beside its calls for one lane after another."""

    def stacked(calls: list[Any]) -> Any:
        if isinstance(calls[0], tuple):
            return tuple(np.stack([c[k].numpy() for c in calls]) for k in range(len(calls[0])))
        return np.stack([c.numpy() for c in calls])

    wanted = stacked([f(*map(phix.to_tensor, lane)) for lane in zip(*args)])
    tensors = [phix.to_tensor(a) for a in args]
    same(phix.vmap(f)(*tensors), wanted)
    same(phix.jit(phix.vmap(f))(*tensors), wanted)
    twice = phix.jit(phix.vmap(phix.vmap(f)))(*[t.reshape(2, -1, *t.shape[1:]) for t in tensors])
    pairs = twice if isinstance(twice, tuple) else (twice,)
    same([t.reshape(len(args[0]), *t.shape[2:]) for t in pairs],
         wanted if isinstance(wanted, tuple) else (wanted,))  # fmt: skip


def fit(values: Any, size: int, fill: Any) -> np.ndarray:
    """The first ``size`` of them, or all and the fill, in their dtype."""
    values = np.asarray(values)[:size]
    more = np.full((size - len(values), *values.shape[1:]), np.asarray(fill).astype(values.dtype))
    return np.concatenate([values, more])


def slope(f: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient by central differences."""
    found = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[k] += sign * step
            ends.append(f(moved))
        found[k] = (ends[0] - ends[1]) / (2 * step)
    return found


def check_gradient(f: Callable[..., Any], x: np.ndarray) -> None:
    wanted = slope(lambda v: f(phix.to_tensor(v)).item(), x)
    for run in (phix.grad(f), phix.jit(phix.grad(f))):
        np.testing.assert_allclose(run(phix.to_tensor(x)).numpy(), wanted, rtol=1e-6, atol=1e-8)


# -- nonzero and its kin ---------------------------------------------------------------------------
ARRAYS = {
    "some": np.array([0, 3, 0, 0, 5, 6]),
    "none": np.zeros(4),
    "all": np.ones(3, bool),
    "matrix": np.array([[0.0, 2.0, NAN], [-1.0, 0.0, 0.0]]),
    "cube": rng.integers(0, 2, (2, 3, 4)).astype(np.uint8),
    "complex": np.array([0, 1j, 0.0, 2]),
    "one": np.array([7]),
    "nothing": np.zeros((0,)),
    "no columns": np.zeros((2, 0)),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", [0, 1, 2, 4, 30])
@pytest.mark.parametrize("fill", [None, -7])
def test_indices_are_those_of_numpy_cut_off_or_padded(
    name: str, size: int, fill: int | None
) -> None:
    x, pad = ARRAYS[name], 0 if fill is None else fill
    asked = {"size": size, "fill_value": fill}
    indices = [fit(v, size, pad) for v in np.nonzero(x)]
    anywhere(lambda x: pn.nonzero(x, **asked), x, wanted=indices)
    anywhere(lambda x: pn.where(x, **asked), x, wanted=indices)
    anywhere(lambda x: pn.argwhere(x, **asked), x, wanted=np.stack(indices, 1))
    flat = fit(np.flatnonzero(x), size, pad)
    anywhere(lambda x: pn.flatnonzero(x, **asked), x, wanted=flat)


def test_literal_cases_of_indices() -> None:
    x = np.array([0, 5, 0, 7])
    same(pn.nonzero(x, size=3), (np.array([1, 3, 0]),))
    same(pn.nonzero(x, size=3, fill_value=4), (np.array([1, 3, 4]),))
    same(pn.nonzero(x, size=1), (np.array([1]),))
    same(pn.nonzero(x, size=3, fill_value=True), (np.array([1, 3, 1]),))
    same(pn.nonzero(x, size=3, fill_value=1.5), (np.array([1, 3, 1.5], np.float32),))
    same(pn.nonzero(x, size=3, fill_value=np.int8(2)), (np.array([1, 3, 2]),))
    m = np.array([[0, 1, 0], [6, 0, 7]])
    same(pn.nonzero(m, size=4, fill_value=(8, 9)), ([0, 1, 1, 8], [1, 0, 2, 9]))
    same(pn.where(m, size=4, fill_value=(8, None)), ([0, 1, 1, 8], [1, 0, 2, 0]))
    same(pn.nonzero(x, fill_value=3), (np.array([1, 3]),))  # of no size, nothing is filled
    same(pn.argwhere(np.float32(3), size=2), np.zeros((2, 0), I64))
    same(pn.flatnonzero(np.float32(3), size=2, fill_value=5), np.array([0, 5]))
    same(pn.where(np.True_, 1, 2), np.asarray(1))


def test_indices_in_lanes() -> None:
    x = rng.integers(0, 3, (6, 3, 4))
    for size in (2, 9, 0):
        in_lanes(lambda x: pn.nonzero(x, size=size, fill_value=-1), x)  # noqa: B023
        in_lanes(lambda x: pn.argwhere(x, size=size), x)  # noqa: B023
    in_lanes(lambda x, fill: pn.flatnonzero(x, size=14, fill_value=fill), x, np.arange(6))
    in_lanes(lambda x: x[pn.nonzero(x > 1, size=5)], rng.normal(size=(4, 3, 4)))


def test_the_size_may_be_that_of_a_tensor() -> None:
    def packed(x: Any) -> Any:
        (places,) = pn.nonzero(x > 0, size=x.shape[0], fill_value=x.shape[0])
        return places, pn.unique(x, size=x.shape[0] + 1, fill_value=0.0)

    unknown = phix.jit(packed, input_spec=[phix.spec([-1], "float64")])
    learnt = phix.jit(packed)
    for x in (np.array([-1.0, 2, -3, 2]), np.array([1.0, -1]), np.zeros(5), np.zeros(0)):
        count = len(x)
        wanted = (fit(np.flatnonzero(x > 0), count, count), fit(np.unique(x), count + 1, 0))
        for run in (packed, unknown, learnt):
            same(run(phix.to_tensor(x)), wanted)
    assert unknown.trace_count == 1
    less = phix.jit(lambda x: pn.nonzero(x, size=x.shape[0] - 3)[0],
                    input_spec=[phix.spec(["n"], "float64")])  # fmt: skip
    same(less(np.ones(5)), np.array([0, 1]))
    with pytest.raises(ShapeError, match=r"nonzero: size n-3 must be 0 or more"):
        less(np.ones(2))


# -- compress, extract -----------------------------------------------------------------------------
@pytest.mark.one_in(3)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_compress_is_that_of_numpy_cut_off_or_padded(axis: Any, size: int) -> None:
    x = rng.normal(size=(3, 4))
    for condition in (np.array([0, 1, 1]), np.array([True, False, True]), np.zeros(3)):
        found = np.compress(condition, x, axis)
        at = 0 if axis is None else axis
        for fill in (0, 2.5):
            wanted = np.moveaxis(fit(np.moveaxis(found, at, 0), size, fill), 0, at)
            anywhere(lambda c, x: pn.compress(c, x, axis, size=size, fill_value=fill),  # noqa: B023
                     condition, x, wanted=wanted)  # fmt: skip


def test_literal_cases_of_compress_and_extract() -> None:
    x = np.array([1, 2, 3])
    same(pn.compress([1, 0, 1], x, size=3), np.array([1, 3, 0]))
    same(pn.compress([1, 0, 1], x, size=3, fill_value=7.9), np.array([1, 3, 7]))
    same(pn.compress([0, 0, 1, 1, 1], x, size=3, fill_value=9), np.array([3, 9, 9]))
    same(pn.compress([0, 1], x, size=2, fill_value=9), np.array([2, 9]))
    m = np.array([[1, 2], [3, 4], [5, 6]])
    same(pn.compress([0, 1, 0], m, 0, size=2, fill_value=[7, 8]), np.array([[3, 4], [7, 8]]))
    same(pn.extract(m % 2 == 0, m, size=5, fill_value=-1), np.array([2, 4, 6, -1, -1]))
    same(pn.extract([True], m, size=1), np.array([1]))
    for size in (4, 100):
        with pytest.raises(AttributeValueError, match=rf"compress: size must be 0 to 3.*{size}"):
            pn.compress([1, 0, 1], x, size=size)
    with pytest.raises(AttributeValueError, match=r"extract: size must be 0 to 1, .*found 2"):
        pn.extract([True], m, size=2)
    unknown = phix.jit(lambda c, x: pn.compress(c, x, size=3), input_spec=[
        phix.spec([-1], "bool"), phix.spec([-1], "int64")])  # fmt: skip
    with pytest.raises(ShapeError, match="compress: size must be 0 to"):
        unknown(np.ones(2, bool), x)
    with pytest.raises(ShapeError, match=r"compress: fill_value must be .* broadcast.*\[2\]"):
        pn.compress([0, 1, 0], m, 0, size=2, fill_value=[7, 8, 9])


def test_compress_in_lanes() -> None:
    c, x = rng.integers(0, 2, (4, 5)), rng.normal(size=(4, 3, 5))
    in_lanes(lambda c, x: pn.compress(c, x, 1, size=3, fill_value=-1), c, x)
    in_lanes(lambda x: pn.extract(x > 0, x, size=4), x)


# -- unique ----------------------------------------------------------------------------------------
VALUES = {
    "ints": np.array([3, 1, 3, -2, 1]),
    "bools": np.array([True, False, True]),
    "floats": np.array([0.5, NAN, -0.5, NAN, 0.5, np.inf]),
    "complex": np.array([1 + 1j, 1, 1 + 1j, 0, 1 - 1j]),
    "matrix": rng.integers(0, 3, (3, 4)).astype(np.float32),
    "single": np.array(4.0),
    "wide": np.array([2**64 - 1, 0, 2**63, 2**64 - 1], np.uint64),
    "small": np.array([-128, 127, -128], np.int8),
}


def unique_of(x: np.ndarray, axis: Any, size: int, fill: Any, **more: Any) -> list[np.ndarray]:
    """What NumPy's ``unique`` gives, values, places and counts cut off or padded."""
    values, index, inverse, counts = np.unique(x, True, True, True, axis, **more)
    at = 0 if axis is None else axis
    rows = np.moveaxis(values, at, 0)
    padded = fit(rows, size, rows[0] if fill is None else fill)
    inverse = inverse.reshape(x.shape if axis is None else -1)
    return [np.moveaxis(padded, 0, at), fit(index, size, index[0]), inverse, fit(counts, size, 0)]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("fill", [None, 1])
def test_unique_is_that_of_numpy_cut_off_or_padded(name: str, size: int, fill: Any) -> None:
    x = VALUES[name]
    wanted = unique_of(x, None, size, fill)
    anywhere(lambda x: pn.unique(x, True, True, True, size=size, fill_value=fill), x, wanted=wanted)
    same(pn.unique(x, size=size, fill_value=fill), wanted[0])
    same(pn.unique(x, return_counts=True, size=size, fill_value=fill), (wanted[0], wanted[3]))
    apart = unique_of(x, None, size, fill, equal_nan=False)
    same(pn.unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill), apart)
    asked = {"size": size, "fill_value": fill}
    same(pn.unique_all(x, **asked), apart)
    same(pn.unique_counts(x, **asked), (apart[0], apart[3]))
    same(pn.unique_inverse(x, **asked), (apart[0], apart[2]))
    same(pn.unique_values(x, **asked), apart[0])
    assert pn.unique_all(x, **asked).counts.shape == (size,)


@pytest.mark.parametrize("shape", [(5, 2), (4, 1), (2, 5, 2), (3, 0)])
@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_unique_along_an_axis(shape: tuple[int, ...], size: int) -> None:
    for dtype in (I64, np.float32, np.complex128):
        x = rng.integers(0, 2, shape).astype(dtype)
        for axis in range(len(shape)):
            if not x.shape[axis]:
                continue
            for fill in (None, 3):
                wanted = unique_of(x, axis, size, fill)
                anywhere(
                    lambda x: pn.unique(x, True, True, True, axis, size=size, fill_value=fill),  # noqa: B023
                    x, wanted=wanted,
                )  # fmt: skip


def test_literal_cases_of_unique() -> None:
    x = np.array([3, 4, 1, 3, 1])
    same(pn.unique(x, size=5), np.array([1, 3, 4, 1, 1]))
    same(pn.unique(x, size=5, fill_value=0), np.array([1, 3, 4, 0, 0]))
    same(pn.unique(x, size=2), np.array([1, 3]))
    # what each is may be beyond the size
    same(pn.unique(x, return_inverse=True, size=2), (np.array([1, 3]), np.array([1, 2, 0, 1, 0])))
    same(pn.unique(x.astype(np.uint8), size=4, fill_value=-1), np.array([1, 3, 4, 255], np.uint8))
    m = np.array([[1, 2], [2, 3], [1, 2]])
    same(pn.unique(m, axis=0, size=3), np.array([[1, 2], [2, 3], [1, 2]]))
    same(pn.unique(m, axis=0, size=3, fill_value=[8, 9]), np.array([[1, 2], [2, 3], [8, 9]]))
    rows = np.array([[NAN, 1.0], [NAN, 1.0]])
    same(pn.unique(rows, axis=0, size=2, fill_value=0), np.array([[NAN, 1], [0, 0]]))
    same(pn.unique(rows, axis=0, size=2, equal_nan=False), rows)
    nothing = np.zeros((0,), np.float32)
    same(pn.unique(nothing, size=2, fill_value=3), np.array([3, 3], np.float32))
    same(pn.unique(nothing, True, True, True, size=2, fill_value=3),
         (np.float32([3, 3]), np.zeros(2, I64), np.zeros(0, I64), np.zeros(2, I64)))  # fmt: skip
    same(pn.unique(nothing, size=0), nothing)
    with pytest.raises(AttributeValueError, match=r"unique: float32\[0\] has nothing .*fill_value"):
        pn.unique(nothing, size=2)
    unknown = phix.jit(lambda x: pn.unique(x, size=2), input_spec=[phix.spec([-1], "float32")])
    same(unknown(np.float32([4, 4])), np.float32([4, 4]))
    with pytest.raises(ShapeError, match=r"unique: .* has nothing that could fill"):
        unknown(nothing)
    with pytest.raises(ShapeError, match="unique: fill_value must be a number or"):
        pn.unique(x, size=2, fill_value=[1, 2])
    with pytest.raises(AttributeValueError, match="axis 3 is out of range"):
        pn.unique(x, axis=3, size=2)


def test_unique_in_lanes() -> None:
    x = rng.integers(0, 3, (4, 5))
    x[0] = 1
    for size in (2, 6):
        in_lanes(lambda x: pn.unique(x, True, True, True, size=size, fill_value=-1), x)  # noqa: B023
        in_lanes(lambda x: pn.unique_values(x, size=size), x.astype(complex))  # noqa: B023
    rows = rng.integers(0, 2, (4, 5, 3)).astype(float)
    in_lanes(lambda x: pn.unique(x, True, True, True, 0, size=4), rows)
    in_lanes(lambda x: pn.unique(x, axis=1, size=4, fill_value=7), rows)


# -- sets ------------------------------------------------------------------------------------------
SETS = {
    "ints": (np.array([3, 1, 2, 3]), np.array([2, 5, 3, 5])),
    "matrices": (np.array([[3.0, 1], [2, 3]]), np.array([[2.0, 9]])),
    "dtypes": (np.array([3, 1, 2], np.int8), np.array([2.0, 7.0])),
    "bools": (np.array([True, True]), np.array([False, True])),
    "complex": (np.array([1j, 2, 1j]), np.array([2, 3 + 0j])),
    "equal": (np.array([2, 1]), np.array([1, 2, 2])),
    "apart": (np.array([2, 1]), np.array([4, 3])),
    "NaN": (np.array([NAN, 1, NAN]), np.array([NAN, 2.0])),
    "nothing": (np.zeros(0), np.array([4.0, 4.0])),
    "beside nothing": (np.array([4.0, -4.0]), np.zeros(0)),
    "neither": (np.zeros(0), np.zeros(0)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", [0, 1, 2, 9])
@pytest.mark.parametrize("fill", [None, 6])
def test_sets_are_those_of_numpy_cut_off_or_padded(name: str, size: int, fill: Any) -> None:
    x, y = SETS[name]
    asked = {"size": size, "fill_value": fill}

    def least(values: np.ndarray) -> Any:
        return fill if fill is not None else values[0] if len(values) else 0

    dtype = np.asarray(x).dtype if name != "dtypes" else np.float64
    filled = I64 if name == "bools" and fill is not None else dtype  # of truths beside 6
    both = np.union1d(x, y)
    if len(both) or fill is not None or not size:
        anywhere(lambda x, y: pn.union1d(x, y, **asked), x, y,
                 wanted=fit(both, size, least(both)).astype(dtype))  # fmt: skip
    left = np.setdiff1d(x, y)
    anywhere(lambda x, y: pn.setdiff1d(x, y, **asked), x, y, wanted=fit(left, size, fill or 0))
    one = np.setxor1d(x, y)
    anywhere(lambda x, y: pn.setxor1d(x, y, **asked), x, y,
             wanted=fit(one.astype(filled), size, least(one)))  # fmt: skip
    shared, first, second = np.intersect1d(x, y, return_indices=True)
    values = fit(shared.astype(filled), size, least(shared))
    anywhere(lambda x, y: pn.intersect1d(x, y, return_indices=True, **asked), x, y,
             wanted=(values, fit(first.astype(I64), size, x.size),
                     fit(second.astype(I64), size, y.size)))  # fmt: skip
    anywhere(lambda x, y: pn.intersect1d(x, y, **asked), x, y, wanted=values)


def test_literal_cases_of_sets() -> None:
    x, y = np.array([3, 1, 2, 3]), np.array([2, 5])
    same(pn.union1d(x, y, size=6), np.array([1, 2, 3, 5, 1, 1]))
    same(pn.setdiff1d(x, y, size=4), np.array([1, 3, 0, 0]))
    same(pn.setdiff1d(x[:3], y, assume_unique=True, size=3, fill_value=7), np.array([3, 1, 7]))
    same(pn.setxor1d(x, y, size=5), np.array([1, 3, 5, 1, 1]))
    same(pn.setxor1d(x[:3], y, assume_unique=True, size=2), np.array([1, 3]))
    same(pn.intersect1d(x, y, size=3), np.array([2, 2, 2]))
    same(pn.intersect1d(x, [8], size=2), np.array([0, 0]))
    same(pn.intersect1d(x, y, size=2, fill_value=0.5), np.array([2, 0.5], np.float32))
    same(pn.intersect1d([9, 8], [8, 9], assume_unique=True, return_indices=True, size=3),
         (np.array([8, 9, 8]), np.array([1, 0, 2]), np.array([0, 1, 2])))  # fmt: skip
    small = (x.astype(np.uint8), y.astype(np.uint8))
    same(pn.setxor1d(*small, size=4, fill_value=-1), np.array([1, 3, 5, 255], np.uint8))
    same(pn.setdiff1d(*small, size=3, fill_value=-1), np.array([1, 3, 255], np.uint8))
    same(pn.intersect1d(*small, size=2, fill_value=-1), np.array([2, 255], np.uint8))
    for function in (pn.setdiff1d, pn.setxor1d, pn.intersect1d):
        with pytest.raises(ShapeError, match="fill_value must be one number, found"):
            function(x, y, size=2, fill_value=np.array([1, 2]))


def test_sets_in_lanes() -> None:
    x, y = rng.integers(0, 5, (4, 4)), rng.integers(0, 5, (4, 3))
    for function in (pn.union1d, pn.setdiff1d, pn.setxor1d, pn.intersect1d):
        in_lanes(lambda x, y: function(x, y, size=4), x, y)  # noqa: B023
        in_lanes(lambda x, y: function(x, y, size=2, fill_value=-1), x, y.astype(float))  # noqa: B023
    in_lanes(lambda x, y: pn.intersect1d(x, y, return_indices=True, size=4), x, y)


# -- bincount --------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [0, 1, 4, 9])
def test_bincount_is_that_of_numpy_cut_off_or_padded(length: int) -> None:
    for x in (np.array([1, 5, 1, 0]), np.zeros(0, I64), np.array([2], np.uint8)):
        anywhere(lambda x: pn.bincount(x, length=length), x,
                 wanted=fit(np.bincount(x), length, 0))  # fmt: skip
        weights = rng.normal(size=x.shape)
        anywhere(lambda x, w: pn.bincount(x, w, length=length), x, weights,
                 wanted=fit(np.bincount(x, weights).astype(float), length, 0))  # fmt: skip


def test_literal_cases_of_bincount() -> None:
    x = np.array([1, -1, 3, 9, -5])
    same(pn.bincount(x, length=5), np.array([2, 1, 0, 1, 0]))
    same(pn.bincount(x, minlength=8, length=2), np.array([2, 1]))
    same(pn.bincount(x, [1, 2, 3, 4, 5], length=4), np.array([7, 1, 0, 3]))
    same(pn.bincount(x, np.float32([1, 2, 3, 4, 5]), length=2), np.float32([7, 1]))
    same(pn.bincount(x, np.array([1j, 2, 3, 4, 5]), length=2), np.array([7, 1j]))
    same(pn.bincount([True, False, True], length=3), np.array([1, 2, 0]))
    same(pn.bincount(np.array([2**64 - 1, 1], np.uint64), length=3), np.array([0, 1, 0]))
    with pytest.raises(DTypeError, match=r"bincount: x must hold ints, found float32\[1\]"):
        pn.bincount([1.0], length=2)
    with pytest.raises(ShapeError, match="bincount: x must have one axis"):
        pn.bincount([[1]], length=2)
    with pytest.raises(ShapeError, match=r"bincount: weights must have the shape of x, int64\[5\]"):
        pn.bincount(x, [1.0], length=2)
    in_lanes(lambda x, w: pn.bincount(x, w, length=4),
             rng.integers(-2, 6, (4, 7)), rng.normal(size=(4, 7)))  # fmt: skip
    in_lanes(lambda x: pn.bincount(x, length=x.shape[0]), rng.integers(-2, 6, (4, 7)))


# -- repeat ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("total", [0, 1, 5, 40])
def test_repeat_is_that_of_numpy_cut_off_or_padded(axis: int | None, total: int) -> None:
    x = rng.normal(size=(3, 4))
    count, at = (x.size, 0) if axis is None else (x.shape[axis], axis)
    last = x.reshape(-1)[-1] if axis is None else np.take(x, -1, axis)
    every = (np.array([2]), rng.integers(0, 3, count), np.zeros(count, I64), np.array([3], np.int8))
    for repeats in every:
        times = np.broadcast_to(repeats, (count,))
        rows = np.moveaxis(np.repeat(x, times, axis), at, 0)
        wanted = np.moveaxis(fit(rows, total, last), 0, at)
        anywhere(lambda x, r: pn.repeat(x, r, axis, total_repeat_length=total), x, repeats,
                 wanted=wanted)  # fmt: skip


def test_literal_cases_of_repeat() -> None:
    x = np.array([1, 2, 3])
    same(pn.repeat(x, 2, total_repeat_length=4), np.array([1, 1, 2, 2]))
    same(pn.repeat(x, [2, 0, 1], total_repeat_length=5), np.array([1, 1, 3, 3, 3]))
    same(pn.repeat(x, [2, 1, 0], total_repeat_length=5), np.array([1, 1, 2, 3, 3]))
    same(pn.repeat(x, [0, 0, 0], total_repeat_length=2), np.array([3, 3]))
    same(pn.repeat(np.float32(4), 2, total_repeat_length=3), np.float32([4, 4, 4]))
    same(pn.repeat(np.zeros((0, 2)), 2, 0, total_repeat_length=3), np.zeros((0, 2)))
    with pytest.raises(ShapeError, match="repeat: repeats must have one number for each of the 3"):
        pn.repeat(x, [1, 2], total_repeat_length=3)
    with pytest.raises(DTypeError, match="repeat: repeats must hold ints, found float32"):
        pn.repeat(x, [1.0, 2.0, 1.0], total_repeat_length=3)
    unknown = phix.jit(lambda x: pn.repeat(x, 2, total_repeat_length=3),
                       input_spec=[phix.spec([-1], "int64")])  # fmt: skip
    with pytest.raises(ShapeError, match=r"repeat: axis 0 of .* has nothing to repeat"):
        unknown(np.zeros(0, I64))
    in_lanes(lambda x, r: pn.repeat(x, r, 0, total_repeat_length=6),
             rng.normal(size=(4, 3, 2)), rng.integers(0, 4, (4, 3)))  # fmt: skip
    in_lanes(lambda r: pn.repeat(x, r, total_repeat_length=6), rng.integers(0, 4, (4, 3)))


# -- derivatives -----------------------------------------------------------------------------------
def test_derivatives_go_to_what_is_chosen() -> None:
    x = np.array([0.5, -1.0, 2.0, 0.25, -3.0, 2.5])
    y = np.array([9.0, 8.0])
    weight = np.arange(1.0, 9.0)
    numbers = np.array([0, 2, 2, 1, 7, -1])
    for f in (
        lambda x: (weight[:4] * x[pn.nonzero(x > 0, size=4)] ** 2).sum(),
        lambda x: (weight * x[pn.flatnonzero(x > 0, size=8)] ** 2).sum(),
        lambda x: (weight[:5] * pn.extract(x > 0, x, size=5, fill_value=3) ** 2).sum(),
        lambda x: (weight[:4] * pn.compress(x > 0, x, size=4) ** 3).sum(),
        lambda x: (weight * pn.unique(x, size=8) ** 2).sum(),
        lambda x: (weight * pn.unique(x, size=8, fill_value=2) ** 2).sum(),
        lambda x: (weight[:4] * pn.unique(x.reshape(3, 2), axis=0, size=4)[:, 1] ** 2).sum(),
        lambda x: (weight * pn.union1d(x, y, size=8) ** 2).sum(),
        lambda x: (weight * pn.setdiff1d(x, y, size=8) ** 2).sum(),
        lambda x: (weight * pn.setxor1d(x, y, size=8) ** 2).sum(),
        lambda x: (weight[:3] * pn.intersect1d(x, x, size=3) ** 2).sum(),
        lambda x: (weight[:4] * pn.bincount(numbers, x, length=4) ** 2).sum(),
        lambda x: (weight * pn.repeat(x, [2, 0, 1, 0, 3, 1], total_repeat_length=8) ** 2).sum(),
    ):
        check_gradient(f, x)
    lanes = np.stack([x, -x, x[::-1]])

    def loss(x: Any) -> Any:
        return (weight[:4] * x[pn.nonzero(x > 0, size=4)] ** 2).sum()

    wanted = np.stack([phix.grad(loss)(row).numpy() for row in lanes])
    np.testing.assert_allclose(phix.vmap(phix.grad(loss))(lanes).numpy(), wanted, rtol=1e-12)
    hessian = phix.jit(phix.hessian(loss))(x).numpy()
    np.testing.assert_allclose(hessian, np.diag([2.0, 0, 4, 6, 0, 8]), rtol=1e-12)


# -- what is no size -------------------------------------------------------------------------------
X = np.array([0, 2, 2])
CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "nonzero": ("size", lambda n: pn.nonzero(X, size=n)),
    "flatnonzero": ("size", lambda n: pn.flatnonzero(X, size=n)),
    "argwhere": ("size", lambda n: pn.argwhere(X, size=n)),
    "where": ("size", lambda n: pn.where(X, size=n)),
    "compress": ("size", lambda n: pn.compress(X, X, size=n)),
    "extract": ("size", lambda n: pn.extract(X, X, size=n)),
    "unique": ("size", lambda n: pn.unique(X, size=n)),
    "unique_all": ("size", lambda n: pn.unique_all(X, size=n)),
    "unique_counts": ("size", lambda n: pn.unique_counts(X, size=n)),
    "unique_inverse": ("size", lambda n: pn.unique_inverse(X, size=n)),
    "unique_values": ("size", lambda n: pn.unique_values(X, size=n)),
    "union1d": ("size", lambda n: pn.union1d(X, X, size=n)),
    "intersect1d": ("size", lambda n: pn.intersect1d(X, X, size=n)),
    "setdiff1d": ("size", lambda n: pn.setdiff1d(X, X, size=n)),
    "setxor1d": ("size", lambda n: pn.setxor1d(X, X, size=n)),
    "bincount": ("length", lambda n: pn.bincount(X, length=n)),
    "repeat": ("total_repeat_length", lambda n: pn.repeat(X, 2, total_repeat_length=n)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_size_is_refused(name: str) -> None:
    argument, call = CALLS[name]
    with pytest.raises(AttributeValueError, match=f"{name}: {argument} must be an int from 0.*-2"):
        call(-2)
    for wrong in (1.0, "3", [3], {}, True, np.array([1, 2]), phix.to_tensor(2.0), object()):
        with pytest.raises(ArgumentError, match=f"{name}: {argument} must be an int from 0, found"):
            call(wrong)
    said = f"{name}: {argument} must be an int that is known before .*int64.*static_argnums"
    for run in (phix.jit(call), phix.vmap(call)):
        with pytest.raises(ArgumentError, match=said):
            run(np.array([2, 3]) if run is not phix.jit else np.array(2))
    result = phix.jit(call, static_argnums=0)(2)
    wanted = phix.tree.leaves(call(2))
    for size in (np.int8(2), np.array(2), phix.to_tensor(2)):
        same(phix.tree.leaves(call(size)), wanted)
    same(phix.tree.leaves(result), wanted)


def test_other_refusals() -> None:
    m = np.eye(2)
    with pytest.raises(AttributeValueError, match="tuple of one for each of the 2 axes"):
        pn.nonzero(m, size=2, fill_value=(1, 2, 3))
    with pytest.raises(ShapeError, match=r"nonzero: fill_value must be one number, .*\[2\]"):
        pn.nonzero(m, size=2, fill_value=[1, 2])
    for f in (pn.nonzero, pn.where):
        with pytest.raises(ShapeError, match=rf"{f.__name__} needs an axis, found float64\[\]"):
            f(np.float64(3), size=2)
    for asked in ({"size": 2}, {"fill_value": 0}):
        with pytest.raises(AttributeValueError, match="where: size and fill_value are of indices"):
            pn.where(m > 0, m, 0, **asked)
    lanes = np.ones((3, 4), I64)
    for f, said in (
        (pn.nonzero, r"phix.numpy.nonzero\(mask, size=n\)"),
        (pn.unique, r"phix.numpy.unique\(x, size=n\)"),
        (pn.bincount, r"phix.numpy.bincount\(x, length=n\)"),
        (lambda r: pn.repeat(X[:1], r[:1]), r"repeat\(x, repeats, total_repeat_length=n\)"),
    ):
        with pytest.raises(ConcretizationError, match=said):
            phix.vmap(f)(lanes)


@pytest.mark.parametrize("module", [arrangement, elementwise, selection, sets])
def test_examples_run(module: Any) -> None:
    assert not doctest.testmod(module).failed


def test_methods_take_them_too() -> None:
    x = phix.to_tensor([0, 3, 0, 5])
    assert [v.tolist() for v in x.nonzero(size=3, fill_value=-1)] == [[1, 3, -1]]
    assert x.compress([True, False, True, True], size=4, fill_value=9).tolist() == [0, 0, 5, 9]
    assert x.repeat([1, 2, 0, 1], total_repeat_length=6).tolist() == [0, 3, 3, 5, 5, 5]
    rows = phix.to_tensor([[1, 0, 1], [0, 0, 1]])
    assert phix.vmap(lambda r: r.nonzero(size=2)[0])(rows).tolist() == [[0, 2], [2, 0]]
