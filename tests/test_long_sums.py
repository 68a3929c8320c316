"""Sums of many float32 numbers, in any direction: right to 1e-6, whatever they are summed in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

COUNT = 4_000_000
BOUND = 1e-6


def _numbers(kind: str, seed: int) -> np.ndarray:
    """Alike ones, whose errors all go one way, and random ones."""
    if kind == "alike":
        return np.full(COUNT, 0.1, np.float32)
    return np.random.default_rng(seed).uniform(0, 1, COUNT).astype(np.float32)


def _ways(f: Callable[[Any], Any], x: np.ndarray) -> list[Any]:
    spec = phix.spec([f"n{k}" for k in range(x.ndim)], str(x.dtype))
    unknown = phix.jit(f, input_spec=[spec])
    return [f(x), phix.jit(f)(x), unknown(x)]


def _assert_close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=BOUND)


@pytest.mark.parametrize("kind", ["alike", "random"])
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((COUNT,), [0]),
        ((COUNT // 10, 10), [0]),
        ((COUNT // 10, 10), [0, 1]),
        ((10, COUNT // 10), [1]),
        ((10, COUNT // 10), [0]),
        ((4, COUNT // 40, 10), [1]),
        ((4, COUNT // 40, 10), [0, 1]),
        ((4, COUNT // 40, 10), [0, 2]),
        ((4, 10, COUNT // 40), [0, 2]),
    ],
)
def test_sums_and_means_in_every_direction(kind, shape, axes, seed) -> None:
    x = _numbers(kind, seed).reshape(shape)
    expected = x.sum(tuple(axes), dtype=np.float64)
    for found in _ways(lambda x: ops.sum(x, axes), x):
        _assert_close(found, expected)
    number = x.size / expected.size
    _assert_close(phix.jit(lambda x: ops.mean(x, axes))(x), expected / number)


def test_sums_joined_with_other_loops(seed) -> None:
    x = _numbers("random", seed).reshape(-1, 8)

    def f(x):
        y = ops.exp(x) * x
        return (
            ops.sum(y, [0]),
            ops.sum(y + x, [0]),
            ops.max(y, [0]),
            ops.sum(y),
            ops.sum(y * y, [1]),
        )

    wide = np.exp(x.astype(np.float64)) * x
    found = phix.jit(f)(x)
    _assert_close(found[0], wide.sum(0))
    _assert_close(found[1], (wide + x).sum(0))
    _assert_close(found[2], wide.max(0))
    _assert_close(found[3], wide.sum())
    _assert_close(found[4], (wide * wide).sum(1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "axis, shape", [(0, (COUNT,)), (0, (COUNT // 10, 10)), (1, (10, COUNT // 10))]
)
def test_running_sums(axis, shape, reverse, seed) -> None:
    x = _numbers("random", seed).reshape(shape)
    wide = np.flip(x, axis) if reverse else x
    expected = np.cumsum(wide, axis, dtype=np.float64)
    expected = np.flip(expected, axis) if reverse else expected
    for found in _ways(lambda x: ops.cumsum(x, axis, reverse=reverse), x):
        _assert_close(found, expected)


def test_what_stands_behind_a_running_sum_stays() -> None:
    x = np.random.default_rng(0).normal(size=(3, 203)).astype(np.float32)

    def f(x: Any) -> Any:
        sums = ops.cumsum(x, 1)
        return sums - sums[:, -1:]

    wanted = np.cumsum(x, 1, dtype=np.float64)
    text = phix.jit(f).lower(x).as_text("loop ir")
    assert "# any order" in text
    np.testing.assert_allclose(phix.jit(f)(x), wanted - wanted[:, -1:], atol=1e-4)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_every_length(exclusive, reverse, seed) -> None:
    """Blocks of totals end anywhere in a vector, and what stands behind them is of no account."""
    rng = np.random.default_rng(seed)

    def f(x: Any, w: Any) -> Any:
        return ops.cumsum(x * w, 0, exclusive=exclusive, reverse=reverse) * x

    for_any = phix.jit(f, input_spec=[phix.spec([-1]), phix.spec([-1])])
    for n in (0, 1, *range(62, 74), 255, 256, 257, 263, 264, 265, 511, 513, 1000, 1025):
        x, w = rng.normal(size=(2, n)).astype(np.float32)
        terms = (x * w).astype(np.float64)
        terms = terms[::-1] if reverse else terms
        totals = np.cumsum(terms) - (terms if exclusive else 0)
        totals = (totals[::-1] if reverse else totals).astype(np.float32)
        ways = (phix.jit(f), for_any) if n in (71, 257, 1000) else (for_any,)
        for found in (way(x, w) for way in ways):
            np.testing.assert_allclose(found, totals * x, 2e-7, 1e-12, err_msg=f"{n}, {seed=}")


def test_running_sums_of_infinities_are_those_of_numpy(seed) -> None:
    rng = np.random.default_rng(seed)
    for value in (np.inf, -np.inf, np.nan):
        x = rng.normal(size=700).astype(np.float32)
        x[rng.integers(0, 700, 2)] = value, -value
        with np.errstate(invalid="ignore"):
            wanted = np.cumsum(x, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(
            np.isnan(phix.jit(lambda x: ops.cumsum(x, 0))(x)), np.isnan(wanted)
        )
        np.testing.assert_allclose(phix.jit(lambda x: ops.cumsum(x, 0))(x), wanted, 1e-6)


def test_a_running_sum_goes_on_behind_2_to_the_24() -> None:
    found = ops.cumsum(np.ones(2**24 + 1000, np.float32), 0)
    assert float(found[-1]) == 2**24 + 1000


def test_products_by_loops(seed) -> None:
    x = _numbers("random", seed)
    wide = x.astype(np.float64)
    _assert_close(ops.matmul(x, x), wide @ wide)
    rows, wide_rows = x.reshape(4, -1), wide.reshape(4, -1)
    _assert_close(phix.jit(ops.matmul)(rows, rows[0]), wide_rows @ wide_rows[0])


def test_norms_and_exponentials(seed) -> None:
    x = _numbers("random", seed)
    wide = x.astype(np.float64)
    _assert_close(ops.logsumexp(x), np.log(np.exp(wide).sum()))
    _assert_close(ops.softmax(x, 0), np.exp(wide) / np.exp(wide).sum())
    _assert_close(ops.squared_l2_norm(x), (wide * wide).sum())


@pytest.mark.parametrize(
    "shape, axes", [((COUNT,), [0]), ((COUNT // 10, 10), [0]), ((40, COUNT // 40), [1])]
)
def test_variances_far_from_zero(shape, axes, seed) -> None:
    x = (1e4 + np.random.default_rng(seed).normal(size=shape)).astype(np.float32)
    expected = x.astype(np.float64).var(tuple(axes))
    for found in _ways(lambda x: ops.var(x, axes, unbiased=False), x):
        _assert_close(found, expected)
    _assert_close(phix.jit(lambda x: ops.std(x, axes, unbiased=False))(x), np.sqrt(expected))


def test_layer_norm_far_from_zero(seed) -> None:
    x = (1e4 + np.random.default_rng(seed).normal(size=(20, 5000))).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    found = phix.jit(lambda x: phix.nn.functional.layer_norm(x, [5000]))(x)
    # the mean of x is rounded, and before it the sum and the last of its parts, which are as many
    # as the CPU's vectors make them: each by up to half a unit of the mean's last place
    np.testing.assert_allclose(found, expected, atol=2.0**-9)


@pytest.mark.parametrize("shape", [(13, 40), (1, 40), (40, 2)])
def test_long_products_of_matrices(shape: tuple[int, int], seed: int) -> None:
    """Parts of 512 products are summed up in registers: like ones lose digits there alone."""
    rows, columns = shape
    for kind, bound in (("alike", 1e-5), ("random", 3e-7)):
        x = _numbers(kind, seed)[: rows * 100_000].reshape(rows, -1)
        y = _numbers(kind, seed + 1)[: columns * 100_000].reshape(columns, -1).T.copy()
        exact = x.astype(np.float64) @ y.astype(np.float64)
        for found in _ways(lambda x, y=y: ops.matmul(x, y), x):
            np.testing.assert_allclose(np.asarray(found, np.float64), exact, rtol=bound)


@pytest.mark.parametrize("stride", [2, 3, 16])
def test_elements_that_lie_apart(stride: int, seed: int) -> None:
    for kind in ("alike", "random"):
        x = _numbers(kind, seed)[: COUNT // stride * stride].reshape(-1, stride)[:, 1]
        assert x.strides == (4 * stride,)
        for found in _ways(ops.sum, x):
            _assert_close(found, x.sum(dtype=np.float64))
        for found in _ways(lambda x: ops.matmul(x, x), x):
            _assert_close(found, x.astype(np.float64) @ x.astype(np.float64))


@pytest.mark.parametrize("size", [63, 64, 65, 67, 1000, 100_003])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_totals_in_groups(size: int, reverse: bool, exclusive: bool, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    way = slice(None, None, -1 if reverse else 1)
    totals = np.cumsum(x[way], dtype=np.float64)
    expected = np.concatenate([[0.0], totals[:-1]])[way] if exclusive else totals[way]
    for found in _ways(lambda x: ops.cumsum(x, 0, exclusive=exclusive, reverse=reverse), x):
        np.testing.assert_allclose(found, expected.astype(np.float32), rtol=2e-7, atol=1e-12)


def test_the_pass_takes_as_long_as_the_loop_is(monkeypatch) -> None:
    """Twice as many sums in one loop, twice as many calls of functions, not four times."""
    from phix.kernels.schedule import blocked_sums

    calls: list[int] = []
    block_sums = blocked_sums.block_sums

    def counted(*args: Any) -> None:
        calls.append(0)
        sys.setprofile(lambda frame, event, arg: calls.append(calls.pop() + (event == "call")))
        block_sums(*args)
        sys.setprofile(None)

    monkeypatch.setattr(blocked_sums, "block_sums", counted)
    most: list[int] = []
    for count in (20, 40):
        calls.clear()
        f = phix.jit(lambda x, n=count: [ops.sum(x * float(k + 1)) for k in range(n)])
        assert f.lower(phix.spec([100_000])).sections["loop ir"].count("any order") == count
        most.append(max(calls))
    first, second = most
    assert 500 < first < second < 2.4 * first


@pytest.mark.parametrize("width", [3, 8, 16, 33])
def test_the_extreme_of_sums_is_at_a_place_that_is_there(width: int) -> None:
    """Sums made once for the extreme and once for its place, in two orders, differed by rounding:
    no place had the extreme."""
    lengths = phix.jit(lambda a: ops.sqrt(ops.sum(a * a, [1])))
    least = phix.jit(lambda a: ops.argmin(ops.sqrt(ops.sum(a * a, [1])), 0))
    most = phix.jit(lambda a: ops.argmax(ops.reshape(ops.sum(a * a, [1]), [2, -1]), 1))
    for seed in range(20):
        a = np.random.default_rng(seed).normal(size=(5000, width)).astype("float32")
        found = lengths(a).numpy()
        where = int(least(a))
        assert where < 5000 and found[where] <= found.min() * (1 + 1e-6)
        rows = found.reshape(2, -1)
        for row, where in zip(rows, most(a).tolist()):
            assert where < 2500 and row[where] >= row.max() * (1 - 1e-6)


@pytest.mark.parametrize("axes", [[], [0], [-1]])
@pytest.mark.parametrize("shape", [(2,), (3,), (100_000,), (300, 400), (7, 33), (0,)])
def test_sums_as_bools_say_whether_there_is_one(shape: tuple[int, ...], axes: list[int]) -> None:
    """Of an even number of them, they had said no."""
    rng = np.random.default_rng(len(shape))
    for share in (0.5, 1.0):
        b = rng.random(shape) < share
        for x in (b, 2 * b, 1.5 * b, 1.5j * b):
            wanted = np.any(x, axis=tuple(axes) or None)
            for found in _ways(lambda x: ops.sum(x, axes, "bool"), x):
                np.testing.assert_array_equal(found, wanted, strict=True)
        np.testing.assert_array_equal(phix.numpy.vecdot(b, b), np.vecdot(b, b))


# what goes in vectors -> what it gives, and a word of it in the text of its loop
BESIDE: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any], str]] = {
    "an extreme": (lambda x: ops.max(x, 1), lambda x: x.max(1), "maximum("),
    "arithmetic": (lambda x: ops.sum(ops.exp(x), 1), lambda x: np.exp(x).sum(1), "fma("),
    "other sums": (lambda x: ops.sum(ops.exp(x), 0), lambda x: np.exp(x).sum(0), "fma("),
}


@pytest.mark.parametrize("columns", [150, "m"])
@pytest.mark.parametrize("name", BESIDE)
def test_running_totals_hold_up_nothing_that_goes_in_vectors(name: str, columns: Any) -> None:
    """In one loop with them, it would go from one total to the next: five times as long."""
    other, by_numpy, word = BESIDE[name]
    both = phix.jit(
        lambda x: (ops.cumsum(x, 1), other(x)), input_spec=[phix.spec([200, columns], "float64")]
    )
    text = both.lower(phix.spec([200, columns], "float64")).as_text("loop ir")
    loops = [part for part in text.split("for i") if "o0[" in part]
    assert loops and word in text and not any(word in part for part in loops), text
    x = np.random.default_rng(3).standard_normal((200, 150))
    totals, found = both(x)
    np.testing.assert_allclose(totals, np.cumsum(x, 1), 1e-12, 1e-12)
    np.testing.assert_allclose(found, by_numpy(x), 1e-13)


def test_sums_at_places_from_the_data_hold_up_nothing_that_goes_in_vectors() -> None:
    def both(x: Any) -> Any:
        places = ops.cast(ops.abs(x) * 4, "int64")
        return phix.zeros([16]).at[places].add(1.0, mode="drop"), ops.softmax(x, 1)

    x = np.random.default_rng(4).standard_normal((200, 150))
    text = phix.jit(both).lower(x).as_text("loop ir")
    places, *others = (part for part in text.split("for i") if "maximum(a" in part)
    assert not others and "t2[" not in places, text
    counts, found = phix.jit(both)(x)
    at = (np.abs(x) * 4).astype(int)
    np.testing.assert_array_equal(counts, np.bincount(at[at < 16], minlength=16))
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), 1e-13)


def test_a_sum_beside_running_totals_is_one_pass() -> None:
    both = phix.jit(lambda x: (ops.cumsum(x, 1), ops.sum(x, 1)))
    text = both.lower(phix.spec([200, 150], "float64")).as_text("loop ir")
    assert text.count("range(150)") == 1, text


@pytest.mark.parametrize("columns", [150, "m"])
@pytest.mark.parametrize("scan, by_numpy", [(ops.cumsum, np.cumsum), (ops.cumprod, np.cumprod)])
def test_what_is_summed_up_as_it_goes_is_computed_in_vectors_before(
    scan: Callable[..., Any], by_numpy: Callable[..., Any], columns: Any
) -> None:
    spec = phix.spec([200, columns], "float64")
    run = phix.jit(lambda x: scan(ops.exp(x), 1), input_spec=[spec])
    text = run.lower(spec).as_text("loop ir")
    loops = [part for part in text.split("for i") if "o0[" in part]
    assert loops and "fma(" in text and not any("fma(" in part for part in loops), text
    x = np.random.default_rng(5).standard_normal((200, 150))
    np.testing.assert_allclose(run(x), by_numpy(np.exp(x), 1), 1e-12)
