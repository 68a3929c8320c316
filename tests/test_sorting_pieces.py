"""Long rows that are alone, sorted in pieces or in parts: whatever lies in them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import phix
from phix import ops
from phix.debug import settings
from phix.kernels.cpu import sort_code
from phix.kernels.loops.target import PARTS
from phix.kernels.lowering import sorting_pieces
from phix.kernels.lowering.sorting_pieces import LEAST, PIECES
from tests.test_sorting import DTYPES, numbers, stable_order

# The last piece is shorter than the others.
SIZE = 1003


# What a CPU must have to sort by vectors: nothing, or what none has.
WAYS: dict[str, frozenset[str]] = {"vectors": frozenset(), "radix": frozenset({"no such"})}


@pytest.fixture(params=WAYS)
def short_rows_are_long(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[str]:
    monkeypatch.setenv("PHIX_CACHE", "0")  # what is kept there was made with the real bound
    monkeypatch.setattr(sorting_pieces, "LEAST", SIZE)
    monkeypatch.setattr(sort_code, "_COMPRESSES", WAYS[request.param])
    with settings(least_shared_work=1):
        yield request.param


def drawn(dtype: np.dtype) -> np.ndarray:
    return numbers((SIZE,), dtype, 0)


def small(dtype: np.dtype) -> np.ndarray:
    """Few numbers, on both sides of 0 where there are such."""
    low = 0 if dtype.kind in "ub" else -700
    return (
        np.random.default_rng(1).integers(low, 2 if dtype.kind == "b" else 90, SIZE).astype(dtype)
    )


def one_that_stands_out(dtype: np.dtype) -> np.ndarray:
    """All the same but for one in the last piece."""
    x = np.ones(SIZE, dtype)
    x[-2] = 0
    return x


# name -> what makes the row of a dtype
ROWS: dict[str, Callable[[np.dtype], np.ndarray]] = {
    "drawn": drawn,
    "small": small,
    "one that stands out": one_that_stands_out,
    "all the same": lambda dtype: np.ones(SIZE, dtype),
    "in order": lambda dtype: np.sort(drawn(dtype)),
    "backward": lambda dtype: np.sort(drawn(dtype))[::-1],
    # keys that all end in the same bits, and in which digits between the ends are the same
    "multiples": lambda dtype: small(dtype) * dtype.type(2 if dtype.itemsize <= 2 else 1024),
    "two far apart": lambda dtype: np.resize(np.sort(drawn(dtype))[[0, -1]], SIZE),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("name", DTYPES)
def test_long_rows_are_sorted_stably(name: str, descending: bool, short_rows_are_long: str) -> None:
    def both(x: phix.Tensor) -> tuple[phix.Tensor, tuple[phix.Tensor, phix.Tensor]]:
        return ops.sort(x, -1, descending), ops.argsort(x, -1, descending)

    text = phix.jit(ops.sort).lower(numbers((SIZE,), np.dtype(name), 0)).as_text("loop ir")
    assert text.count("# shared") > 2
    assert (short_rows_are_long == "vectors") == ("split_uint" in text)
    for what, make in ROWS.items():
        x = make(np.dtype(name))[None]
        order = stable_order(x, 1, descending)
        wanted = np.take_along_axis(x, order, 1)
        values, (found, indices) = phix.jit(both)(x)
        np.testing.assert_array_equal(values, wanted, err_msg=what)
        np.testing.assert_array_equal(found, wanted, err_msg=what)
        np.testing.assert_array_equal(indices, order, err_msg=what)
        if name.startswith("float"):  # -0.0 stays beside 0.0
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_threads_share_a_long_row() -> None:
    x = np.zeros(LEAST, np.float32)
    text = phix.jit(ops.sort, disable="vector_sorts").lower(x).as_text("loop ir")
    assert text.count(f"# shared: {PIECES}") == 3  # keys, their digits, where they go


def test_threads_share_the_parts_of_a_long_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_code, "_COMPRESSES", WAYS["vectors"])
    text = phix.jit(ops.sort).lower(np.zeros(LEAST, np.float32)).as_text("loop ir")
    assert PIECES == PARTS
    assert text.count(f"# shared: {PIECES}") == 4  # keys, split, put together, sorted
