"""``mode`` of ``x.at[...]``: what becomes of ints out of range, against loops over elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from harness.references import indexing as references
from phix import ops
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
    for how in ({"mode": "drop"}, {"mode": "fill"}, {}):
        put = with_ints(index, lambda x, i, h=how: getattr(x.at[i], name)(1.5, **h))
        if not how and route == "eager":
            continue  # an error
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


# -- the ops that write ---------------------------------------------------------------------------
WIDE = (3, 4, 2)


def _drawn(rng: np.random.Generator) -> tuple[Any, Any, tuple[np.ndarray, ...]]:
    """A write into an array of WIDE at ints in and out of range, as a function of x, values, ints
    and mode; the same by NumPy; and values and ints."""
    count = int(rng.integers(1, 6))
    ints = [rng.integers(-2 * n - 1, 2 * n + 1, count) for n in WIDE]
    way = str(rng.choice(["along", "nd", "rows", "columns", "two"]))
    if way == "along":
        how = str(rng.choice(["assign", "add", "mul", "mean", "amax", "amin"]))
        own = bool(rng.integers(2))
        places = rng.integers(-9, 9, (WIDE[0], count, WIDE[2]))
        return (
            lambda x, v, i, mode: ops.put_along_axis(x, i, v, 1, how, own, mode),
            lambda x, v, i, mode: references.put_along_axis(x, i, v, 1, how, own, mode),
            (rng.normal(size=places.shape), places),
        )
    if way == "nd":
        return (
            lambda x, v, i, mode: ops.scatter_nd_add(x, i, v, mode),
            lambda x, v, i, mode: references.put_at(x, tuple(i.T), v, np.add, mode=mode),
            (rng.normal(size=(count, WIDE[2])), np.stack(ints[:2], 1)),
        )
    axes = {"rows": (0,), "columns": (2,), "two": (1, 0)}[way]
    adds = bool(rng.integers(2))
    rest = [n for k, n in enumerate(WIDE) if k not in axes]
    return (
        lambda x, v, i, mode: ops.index_put(x, list(i), v, adds, axes, mode),
        lambda x, v, i, mode: references.put_at(x, i, v, np.add if adds else None, axes, mode),
        (rng.normal(size=(count, *rest)), tuple(ints[a] for a in axes)),
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(40))
def test_ops_that_write_out_of_range_and_their_slopes(seed: int) -> None:
    rng = np.random.default_rng([seed, 71])
    put, reference, (values, ints) = _drawn(rng)
    x, weights = rng.normal(size=WIDE), rng.normal(size=WIDE)
    for mode in ("raise", "drop", "clip"):
        run = phix.jit(lambda x, v, i, m=mode: put(x, v, i, m))
        plain = "drop" if mode == "raise" else mode
        np.testing.assert_allclose(run(x, values, ints), reference(x, values, ints, plain), 1e-14)
        if mode != "raise":
            np.testing.assert_allclose(put(x, values, ints, mode), run(x, values, ints), 1e-14)
        lanes = phix.jit(phix.vmap(run))(
            *(phix.tree.map(lambda a: np.stack([a, a]), t) for t in (x, values, ints))
        )
        np.testing.assert_allclose(lanes, [run(x, values, ints)] * 2, rtol=1e-14)

        def total(x: Any, v: Any, m: str = plain) -> Any:
            return np.sum(np.cos(reference(x, v, ints, m)) * weights)

        loss = lambda x, v, i, r=run: pn.sum(pn.cos(r(x, v, i)) * weights)  # noqa: E731
        for k, slope in enumerate(phix.jit(phix.grad(loss, (0, 1)))(x, values, ints)):
            step = rng.normal(size=(x, values)[k].shape)
            ahead, behind = (
                total(*(a + s * step if n == k else a for n, a in enumerate((x, values))))
                for s in (1e-6, -1e-6)
            )
            along = np.sum(np.asarray(slope) * step)
            np.testing.assert_allclose(along, (ahead - behind) / 2e-6, atol=1e-7)
            zero = [np.zeros_like(x), np.zeros_like(values)]
            zero[k] = step
            _, forward = phix.jvp(lambda x, v, f=loss: f(x, v, ints), (x, values), tuple(zero))
            np.testing.assert_allclose(forward, along, rtol=1e-10, atol=1e-12)


def test_what_is_read_where_it_was_written_is_what_stands_there() -> None:
    """Of a put that is only read at the same ints the rest of x need not be there."""
    i = np.array([1, 7, -1, -9])

    def f(x: Any, i: Any) -> Any:
        return ops.gather(ops.index_put(x, [i], 5.0), i)

    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(phix.jit(f)(x, i), [5.0, 5.0, 5.0, 1.0])
    np.testing.assert_array_equal(phix.jit(f)(x, i[:2]), [5.0, 4.0])


def test_room_for_rows_with_a_capacity() -> None:
    """Rows go to their turn in a box of each expert; what finds no room is left out."""
    rng = np.random.default_rng(5)
    experts, rows = rng.integers(0, 3, 40), rng.normal(size=(40, 4))

    @phix.jit
    def boxes(rows: Any, experts: Any) -> Any:
        hits = pn.asarray(experts)[:, None] == pn.arange(3)
        turn = pn.sum(pn.where(hits, pn.cumsum(hits.astype("int64"), 0) - 1, 0), 1)
        return pn.zeros((3, 5, 4), "float64").at[experts, turn].set(rows)

    wanted = np.zeros((3, 5, 4))
    for e in range(3):
        first = rows[experts == e][:5]
        wanted[e, : len(first)] = first
    np.testing.assert_array_equal(boxes(rows, experts), wanted)


def test_nothing_is_written_where_there_is_no_place() -> None:
    spec = [phix.spec([-1, 2], "float64"), phix.spec([], "int64")]
    one = phix.jit(lambda x, i: x.at[i].add(1.0, mode="drop"), input_spec=spec)
    assert one(np.zeros((0, 2)), np.int64(3)).shape == (0, 2)
    np.testing.assert_array_equal(one(np.zeros((1, 2)), np.int64(-1)), [[1.0, 1.0]])
    np.testing.assert_array_equal(one(np.zeros((1, 2)), np.int64(1)), [[0.0, 0.0]])
    empty = pn.zeros((0, 2), "float64")
    assert empty.at[np.array([1, 2])].set(1.0, mode="drop").shape == (0, 2)


def test_a_negative_zero_stays_where_nothing_is_added() -> None:
    x = np.array([-0.0, -0.0])
    found = phix.jit(lambda x, i: x.at[i].add(1.0))(x, np.array([5, -3]))
    assert np.signbit(found).all()


def test_complex_numbers_beside_what_is_left_out_stay_as_they_are() -> None:
    """There is no factor that changes no complex number, and no zero that keeps both its signs."""
    x = np.array([1.0 + 1.0j, complex(np.inf, 0.0), complex(-1.0, -0.0)])
    i = np.array([0, -9, 7])
    for mode in (None, "drop"):
        doubled = phix.jit(lambda x, i, m=mode: x.at[i].multiply(2.0, mode=m))(x, i)
        added = phix.jit(lambda x, i, m=mode: x.at[i].add(1.0, mode=m))(x, i)
        for found, first in ((doubled, 2.0 + 2.0j), (added, 2.0 + 1.0j)):
            assert np.asarray(found).tobytes() == np.array([first, x[1], x[2]]).tobytes()


@pytest.mark.parametrize("name", ["set", "add", "multiply", "max"])
def test_values_that_nothing_takes_have_slopes_of_0(name: str) -> None:
    """Of an axis without places nothing is read."""
    f = lambda x, v, i: pn.sum(getattr(x.at[i], name)(v, mode="drop") ** 2)  # noqa: E731
    g = lambda x, v, j: pn.sum(getattr(x.at[j, 1 - j], name)(v, mode="drop") ** 2)  # noqa: E731
    specs = [phix.spec([-1, 2], phix.float64), phix.spec([-1], phix.float64)]
    programs = (
        phix.jit(phix.grad(f, (0, 1))),
        phix.jit(phix.grad(g, (0, 1))),
        phix.jit(phix.grad(g, (0, 1)), input_spec=[*specs, phix.spec([-1], phix.int64)]),
    )
    for program, dims in zip(programs, ((2, 2), (2,), (2,))):
        to_x, to_v = program(np.zeros((0, 2)), np.ones(dims), np.array([0, 1]))
        assert to_x.shape == (0, 2)
        np.testing.assert_array_equal(to_v, np.zeros(dims))
    to_x, to_v = programs[2](np.ones((1, 2)), np.full(3, 2.0), np.array([0, 5, 1]))
    assert np.asarray(to_v).nonzero()[0].tolist() == [0]
