"""Sorts by vectors: the routines on their own, whatever the keys, and programs that call them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import jit, sort_code, vector_sort
from phix.kernels.loops.target import PARTS
from phix.kernels.lowering import sorting_pieces
from tests.test_sorting import DTYPES, numbers, stable_order

# Bytes of vectors; LLVM makes something slower of what a CPU has no instruction for.
WIDTHS = [16, 64]
Routine = Callable[..., None]


def routines(dtype: str, width: int, patience: int) -> tuple[Routine, Routine]:
    """Those of vectors of so many bytes, called by addresses."""
    names = tuple(f"{n}_of_{width}_{patience}" for n in sort_code.names_of(dtype))
    text = vector_sort.text(names, np.dtype(dtype).itemsize, width)  # type: ignore[arg-type]
    sort, split = jit.addresses(text, names, is_final=True)
    place = ctypes.c_void_p
    return (
        ctypes.CFUNCTYPE(None, ctypes.c_int64, *[place] * 3)(sort),
        ctypes.CFUNCTYPE(None, ctypes.c_int64, *[place] * 6)(split),
    )


def rows(dtype: str, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows that sorts by pivots have trouble with, and others."""
    most = np.iinfo(dtype).max
    drawn = rng.integers(0, most, n, dtype=dtype, endpoint=True)
    up = np.arange(n, dtype=dtype)
    return {
        "drawn": drawn,
        "few": rng.integers(0, 3, n).astype(dtype),
        "up": up,
        "down": up[::-1],
        "pipe": np.minimum(up, up[::-1]),
        "teeth": up % dtype_of(dtype)(17),
        "largest": np.full(n, most, dtype),
        "both ends": np.where(drawn % 2 == 0, most, 0).astype(dtype),
        "powers": (2.0 ** rng.uniform(0, 8 * np.dtype(dtype).itemsize - 1, n)).astype(dtype),
    }


def dtype_of(name: str) -> type[np.unsignedinteger]:
    return np.dtype(name).type  # type: ignore[no-any-return]


# No patience: each pivot is the middle of the least and the largest key.
@pytest.mark.parametrize("patience", [0, 2])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_routines_sort(
    dtype: str, width: int, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_sort, "_PATIENCE", patience)
    sort, split = routines(dtype, width, patience)
    rng = np.random.default_rng(width)
    for n in (*range(70), 127, 128, 129, 255, 256, 257, 1000, 4097):
        for what, row in rows(dtype, n, rng).items():
            keys, room = guarded(row), guarded(row)
            sort(n, keys.ctypes.data, room.ctypes.data, None)
            np.testing.assert_array_equal(keys[:n], np.sort(row), err_msg=f"{what} of {n}")
            (
                np.testing.assert_array_equal(keys[n:], GUARD),
                np.testing.assert_array_equal(room[n:], GUARD),
            )
            check_split(
                split, row, np.sort(rng.choice(np.append(row, row.dtype.type(5)), PARTS - 1))
            )


GUARD = np.full(80, 77)


def guarded(row: np.ndarray) -> np.ndarray:
    """A copy, with something behind it that must stay."""
    return np.concatenate([row, GUARD.astype(row.dtype)])


def check_split(split: Routine, row: np.ndarray, pivots: np.ndarray) -> None:
    n, keys, room = len(row), guarded(row), guarded(row)
    ends, places = np.zeros(PARTS, np.int64), np.zeros(PARTS, np.int64)
    memory = (keys, room, pivots, ends, places)
    split(n, *(a.ctypes.data for a in memory), None)
    np.testing.assert_array_equal(keys[n:], GUARD), np.testing.assert_array_equal(room[n:], GUARD)
    numbers_of_parts = np.searchsorted(pivots, row, "right")
    begins = 0
    for part, (end, place) in enumerate(zip(ends, places)):
        found = (room if part % 2 else keys)[place : place + end - begins]
        np.testing.assert_array_equal(np.sort(found), np.sort(row[numbers_of_parts == part]))
        begins = end


@pytest.mark.parametrize("name", DTYPES)
def test_programs_sort_by_vectors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of sizes that are known or found out, up and down, as by radix, bit for bit."""
    monkeypatch.setenv("PHIX_CACHE", "0")
    monkeypatch.setattr(sort_code, "_COMPRESSES", frozenset())
    for descending in (False, True):

        def both(x: phix.Tensor, d: bool = descending) -> tuple[phix.Tensor, ...]:
            return ops.sort(x, -1, d), *ops.argsort(x, -1, d)

        of_any_size = phix.jit(both, input_spec=[phix.spec(["m", "n"], name)])
        for shape in ((1, 0), (2, 1), (1, 47), (3, 130), (2, 700), (5, 513)):
            x = numbers(shape, np.dtype(name), 3)
            order = stable_order(x, 1, descending)
            for run in (phix.jit(both), of_any_size):
                values, found, indices = run(x)
                np.testing.assert_array_equal(indices, order)
                np.testing.assert_array_equal(found, np.take_along_axis(x, order, 1))
                other = phix.jit(both, disable="vector_sorts")(x)[0]
                assert values.numpy().tobytes() == other.numpy().tobytes()


def test_a_cpu_without_the_instruction_sorts_by_radix(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(**options: str) -> str:
        return str(phix.jit(ops.sort, **options).lower(np.zeros(700)).as_text("loop ir"))

    monkeypatch.setattr(sort_code, "_COMPRESSES", frozenset())
    assert "sort_uint64(" in text() and "sort_uint64(" not in text(disable="vector_sorts")
    monkeypatch.setattr(sort_code, "_COMPRESSES", frozenset({"no such"}))
    assert "sort_uint64(" not in text()


def near_one(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers that differ in their last bits alone."""
    return 1.0 + rng.integers(0, 4 * n, n) * 2.0**-52


# Rows of float64 whose order hangs on bits that an int with the place in it has no room for.
CLOSE: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "close": near_one,
    "close, and far away": lambda n, rng: np.append(near_one(n - 2, rng), [1e300, -1e300]),
    "close, and NaN": lambda n, rng: np.insert(near_one(n - 1, rng), n // 2, np.nan),
    "falling, and far away": lambda n, rng: np.append(1.0 - np.arange(n - 1) * 2.0**-53, 1e300),
    "pairs, and far away": lambda n, rng: np.append(
        np.repeat(rng.standard_normal(n), 2)[: n - 1] + np.arange(n - 1) % 2 * 2.0**-51, np.inf
    ),
    "all alike": lambda n, rng: np.full(n, 2.5),
    "infinities and zeros": lambda n, rng: rng.choice([np.inf, -np.inf, 0.0, -0.0, 1.0], n),
}


@pytest.mark.parametrize("is_long", [False, True], ids=["row", "parts"])
@pytest.mark.parametrize("what", CLOSE)
def test_keys_that_differ_in_their_last_bits_are_told_apart(
    what: str, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")
    monkeypatch.setattr(sort_code, "_COMPRESSES", frozenset())
    for n in (1030,) if is_long else (49, 300, 5000):
        if is_long:
            monkeypatch.setattr(sorting_pieces, "LEAST", n)
        x = CLOSE[what](n, np.random.default_rng(n))
        for descending in (False, True):
            order = stable_order(x, 0, descending)
            program = phix.jit(lambda x, d=descending: ops.argsort(x, 0, d))
            assert is_long == ("split_uint64(" in program.lower(x).as_text("loop ir"))
            found, indices = program(x)
            np.testing.assert_array_equal(indices, order, err_msg=f"{what}, {n}")
            np.testing.assert_array_equal(found, x[order])
