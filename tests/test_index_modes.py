"""``mode`` of ``x.at[...]``: what becomes of ints out of range, against loops over elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, TensorIndexError

X = np.random.default_rng(3).normal(size=(4, 3, 5))
I, J = np.array([3, -1, 4, -5, 0, 3]), np.array([1, -4, 2, 0, 7, 1])
# Of each index: its parts, with ints of both kinds and out of range.
INDICES: dict[str, tuple[Any, ...]] = {
    "rows": (I,), "behind a slice": (slice(None), J), "two": (I, J), "apart": (I, slice(1, 3), J),
    "with an int": (I, 1), "an int alone": (9,), "ints": (-9, 1, 2), "a grid": (I[:, None], J),
    "a strided slice": (I, J, slice(None, None, 2)), "none": (np.empty(0, int),),
}  # fmt: skip
COMBINED = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "subtract": lambda old, new: old - new,
    "multiply": lambda old, new: old * new,
    "divide": lambda old, new: old / new,
    "max": max,
    "min": min,
}
ROUTES = {"eager": lambda f: f, "jit": phix.jit}


def with_ints(index: tuple[Any, ...], f: Any) -> Any:
    """f(x, index) as a function of x and of the ints of the index."""

    def call(x: Any, ints: Any) -> Any:
        left = iter(ints)
        return f(x, tuple(e if isinstance(e, slice) else next(left) for e in index))

    return call


def ints_of(index: tuple[Any, ...]) -> list[Any]:
    return [e for e in index if not isinstance(e, slice)]


def places(index: tuple[Any, ...]) -> list[list[tuple[int, ...] | None]]:
    """Of each entry of the broadcast ints, the elements of X that it takes; None: one outside."""
    spans = [range(n)[e] if isinstance(e, slice) else None for e, n in zip(index, X.shape)]
    spans += [range(n) for n in X.shape[len(index) :]]
    ints = np.broadcast_arrays(*ints_of(index))
    found = []
    for numbers in zip(*(part.ravel() for part in ints)):
        left = iter(int(n) for n in numbers)
        every = [[next(left)] if span is None else span for span in spans]
        row: list[tuple[int, ...] | None] = []
        for place in itertools.product(*every):
            inside = all(-n <= i < n for i, n in zip(place, X.shape))
            row.append(tuple(i % n for i, n in zip(place, X.shape)) if inside else None)
        found.append(row)
    return found


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", COMBINED)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_updates_leave_out_what_is_outside(index: tuple[Any, ...], name: str, route: str) -> None:
    wanted = X.copy()
    for place in filter(None, itertools.chain(*places(index))):
        wanted[place] = COMBINED[name](wanted[place], 1.5)
    put = with_ints(index, lambda x, i: getattr(x.at[i], name)(1.5, mode="drop"))
    found = ROUTES[route](put)(pn.asarray(X), ints_of(index))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_get_fills_in_what_is_outside(index: tuple[Any, ...], route: str) -> None:
    for fill in (None, -2.5):
        blank = np.nan if fill is None else fill
        get = with_ints(index, lambda x, i, v=fill: x.at[i].get(mode="fill", fill_value=v))
        found = ROUTES[route](get)(pn.asarray(X), ints_of(index))
        wanted = [blank if p is None else X[p] for p in itertools.chain(*places(index))]
        assert (
            found.shape
            == X[tuple(np.clip(e, 0, 2) if not isinstance(e, slice) else e for e in index)].shape
        )
        np.testing.assert_array_equal(np.sort(np.ravel(found)), np.sort(wanted))


def test_elements_stand_where_their_ints_do() -> None:
    found = pn.asarray(X).at[:, J].get(mode="fill", fill_value=0.0)
    wanted = np.where(((J >= -3) & (J < 3))[:, None], X[:, np.clip(J, -3, 2)], 0.0)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(pn.take(X, J, 1, mode="fill", fill_value=0.0), wanted)


@pytest.mark.parametrize("route", ROUTES)
def test_clip_takes_the_nearest_inside(route: str) -> None:
    """Ints are counted from the end first, as in JAX; NumPy's take takes them for 0."""
    nearest = np.clip(np.where(I < 0, I + 4, I), 0, 3)
    run = ROUTES[route](lambda x, i: (x.at[i].get(mode="clip"), x.at[i].add(1.0, mode="clip")))
    taken, added = run(pn.asarray(X), I)
    np.testing.assert_array_equal(taken, X[nearest])
    wanted = X.copy()
    np.add.at(wanted, nearest, 1.0)
    np.testing.assert_allclose(added, wanted, rtol=1e-15)


def test_one_program_for_all_sizes_with_derivatives_and_lanes() -> None:
    def f(x: Any, i: Any) -> Any:
        return pn.sum(x.at[i].multiply(3.0, mode="drop") ** 2) + pn.sum(
            x.at[i].get(mode="fill", fill_value=2.0) ** 3
        )

    def slope(x: Any, i: Any) -> Any:
        inside = [k % len(x) for k in i if -len(x) <= k < len(x)]
        factor = np.array([9.0 ** inside.count(k) for k in range(len(x))])
        count = np.array([inside.count(k) for k in range(len(x))])
        return 2.0 * factor * x + 3.0 * count * x**2

    spec = [phix.spec([-1], phix.float64), phix.spec([-1], phix.int64)]
    program = phix.jit(phix.grad(f), input_spec=spec)
    rng = np.random.default_rng(1)
    for size, count in ((4, 6), (1, 3), (7, 0), (3, 9)):
        x, i = rng.normal(size=size), rng.integers(-2 * size, 2 * size, count)
        np.testing.assert_allclose(program(x, i), slope(x, i), rtol=1e-13)
    x, i = rng.normal(size=(3, 4)), rng.integers(-8, 8, (3, 5))
    lanes = phix.jit(phix.vmap(phix.grad(f)))(x, i)
    np.testing.assert_allclose(lanes, [slope(*row) for row in zip(x, i)], rtol=1e-13)


@pytest.mark.parametrize(
    ("dtype", "blank"), [("int8", -128), ("uint16", 65535), ("int64", -(2**63)), ("bool", True)]
)
def test_what_stands_for_ints_that_are_not_there(dtype: str, blank: Any) -> None:
    x = np.zeros(3, dtype)
    np.testing.assert_array_equal(pn.asarray(x).at[[1, 5]].get(mode="fill"), [x[1], blank])


def test_masks_are_never_outside() -> None:
    mask = X[:, 0, 0] > 0
    found = pn.asarray(X).at[mask, 7].set(0.0, mode="drop")
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(pn.asarray(X).at[mask].get(mode="fill"), X[mask])


def test_powers_and_quotients() -> None:
    x = pn.asarray(np.array([2.0, 3.0, 4.0]))
    assert x.at[[1, 1]].power(2.0).tolist() == [2.0, 81.0, 4.0]
    assert x.at[[0, 5]].power(3.0, mode="drop").tolist() == [8.0, 3.0, 4.0]
    assert x.at[[1, 1]].divide(2.0).tolist() == [2.0, 0.75, 4.0]
    assert pn.arange(3).at[1].power(5).tolist() == [0, 1, 2]
    assert pn.asarray(np.array([1, 2], np.uint8)).at[0].subtract(3).tolist() == [254, 2]
    assert x.at[0].max(9.0, indices_are_sorted=True, unique_indices=True).tolist()[0] == 9.0
    assert x.at[1].set(9.0, mode="promise_in_bounds").tolist() == [2.0, 9.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda x: x.at[0].set(1.0, mode="wrap"), AttributeValueError, "set: mode is None or one"),
        (lambda x: x.at[0].get(mode=3), AttributeValueError, "x.at.i..get: mode"),
        (lambda x: x.at[0].add(1.0, modes="drop"), ArgumentError, "add.. got an unexpected"),
        (lambda x: x.at[9].set(1.0), TensorIndexError, "out of range"),
        (lambda x: x.at[1, 2].get(mode="fill"), TensorIndexError, "2 indices for"),
        (lambda x: x.astype("int32").at[0].divide(2), DTypeError, "astype"),
        (lambda x: pn.take(x, 1, mode="drop"), AttributeValueError, "take: mode is raise, wrap"),
    ],
)  # fmt: skip
def test_bad_input(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(pn.asarray(np.ones(3)))
