"""Stretches of memory that iterations have to themselves, and the loops joined and shared by them.

What is proved of indices is compared with all elements that loops of small extents touch.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.loops.affine import is_one_digit, never_repeats, slice_form
from phix.kernels.loops.nodes import Buffer, For, Statement, Store
from phix.kernels.loops.spans import share_stretches
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr

RNG = np.random.default_rng(0)
I, J, K, AROUND = (sc.var(name) for name in ("i0", "i1", "i2", "i7"))
N, M = sc.var("n"), sc.var("m")
Access = tuple[Expr, dict[Expr, Expr]]


def number(value: int) -> Expr:
    return sc.const(value, dt.int64)


def row_with_its_ends(n: Expr) -> list[Access]:
    """The first, the last and the other elements of each row but the first."""
    row = (I + 1) * n
    return [(row, {}), (row + n - 1, {}), (row + J + 1, {J: n - 2})]


# name -> (accesses, whether iterations of I are proved to stay apart)
CASES: dict[str, tuple[list[Access], bool]] = {
    "one element": ([(I, {})], True),
    "neighbours": ([(I, {}), (I + 1, {})], False),
    "two of two": ([(I * 2, {}), (I * 2 + 1, {})], True),
    "three of two": ([(I * 2, {}), (I * 2 + 2, {})], False),
    "box and its sides": (row_with_its_ends(number(9)), True),
    "of any size": (row_with_its_ends(N + 2), True),
    "that may be empty": (row_with_its_ends(N), False),
    "beyond the row": ([(I * N + J + 1, {J: N})], True),
    "one too many": ([(I * N + J, {J: N + 1})], False),
    "this row and the next": ([(I * N + J, {J: N}), ((I + 1) * N + J, {J: N})], False),
    "planes": ([(I * (N * M) + J * M + K, {J: N, K: M})], True),
    "columns": ([(I + J * N, {J: M})], False),
    "in a loop around": ([(AROUND * 99 + I * 3, {}), (AROUND * 99 + I * 3 + 2, {})], True),
    "in other places of a loop around": ([(AROUND * 99 + I, {}), (AROUND * 98 + I, {})], False),
    "other strides": ([(I * 3, {}), (I * 4, {})], False),
    "backwards": ([(I * 9 - J, {J: number(3)})], False),  # not tried
    "by a scalar that changes": ([(I * 9 + sc.var("a0"), {})], False),
    "squared": ([(I * I, {})], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize("name", CASES)
def test_iterations_that_stay_apart_are_found(name: str) -> None:
    accesses, are_apart = CASES[name]
    assert share_stretches(accesses, I) is are_apart


def elements(access: Access, i: int) -> set[int]:
    linear, extents = access
    counts = [range(e.data) for e in extents.values()]
    return {_value(linear, {I: i, **dict(zip(extents, at))}) for at in itertools.product(*counts)}


def _value(e: Expr, of: dict[Expr, int]) -> int:
    if e.fn in ("const", "var"):
        return int(e.data) if e.fn == "const" else of[e]
    a, b = (_value(x, of) for x in e.args)
    return {"add": a + b, "sub": a - b, "mul": a * b}[e.fn]


def drawn_access() -> Access:
    step, start, inner, count = RNG.integers(0, [9, 9, 4, 5]).tolist()
    return I * step + J * inner + start, {J: number(count + 1)}


def test_what_is_proved_apart_has_no_element_in_common() -> None:
    proved = 0
    for _ in range(3000):
        accesses = [drawn_access() for _ in range(RNG.integers(1, 4))]
        if not share_stretches(accesses, I):
            continue
        proved += 1
        touched = [set().union(*(elements(a, i) for a in accesses)) for i in range(12)]
        for a, b in itertools.combinations(touched, 2):
            assert not a & b, accesses
    assert proved > 100


# -- one index -------------------------------------------------------------------------------------
# name -> (an index, the loops around it with their extents, whether it is proved not to repeat)
INDICES: dict[str, tuple[Expr, dict[Expr, Expr], bool]] = {
    "the loop's": (I, {I: N}, True),
    "backwards": (number(9) - I, {I: N}, True),
    "every third, behind some": (I * 3 + AROUND, {I: N}, True),
    "rows": (I * 4 + J, {I: N, J: number(4)}, True),
    "rows of any size": (I * N + J, {I: M, J: N}, True),
    "rows that are too short": (I * 3 + J, {I: N, J: number(4)}, False),
    "of one loop alone": (I, {I: N, J: M}, False),
    "every second": (sc.binary("quotient", I, number(2)), {I: N}, False),
    "again and again": (sc.binary("rest", I, number(3)), {I: N}, False),
    "squared": (I * I, {I: N}, False),
    "none": (AROUND, {}, True),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_that_do_not_repeat_are_found(name: str) -> None:
    linear, extents, is_proved = INDICES[name]
    assert never_repeats(linear, [For(i, e, []) for i, e in extents.items()]) is is_proved


def test_what_is_proved_not_to_repeat_does_not() -> None:
    proved = 0
    for _ in range(2000):
        a, b, c = RNG.integers(-3, 9, 3).tolist()
        shape = RNG.integers(1, 5, 2).tolist()
        index = I * a + (J * b if RNG.random() < 0.7 else J - I * b) + c
        extents = dict(zip((I, J), map(number, shape)))
        if never_repeats(index, [For(i, e, []) for i, e in extents.items()]):
            proved += 1
            places = itertools.product(*map(range, shape))
            found = [_value(index, dict(zip((I, J), at))) for at in places]
            assert len(set(found)) == len(found), index
    assert proved > 100


# -- one digit -------------------------------------------------------------------------------------
BLOCKS = sc.binary("quotient", N + 7, number(8))
IN_BLOCK = sc.binary("minimum", N - I * 8, number(8))  # what the last block has of 8 rows
# name -> (an index, the loops inside that over I with their extents, whether I is a digit of it)
OF_BLOCKS: dict[str, tuple[Expr, dict[Expr, Expr], bool]] = {
    "rows": ((I * 8 + J) * 5 + K, {J: IN_BLOCK, K: number(5)}, True),
    "rows of any size": ((I * 8 + J) * M + K, {J: IN_BLOCK, K: M}, True),
    "rows alone": (I * 8 + J, {J: IN_BLOCK}, True),
    "rows that are too long": ((I * 8 + J) * 5 + K, {J: IN_BLOCK, K: number(6)}, False),
    "rows of a block too many": (I * 8 + J, {J: number(9)}, False),
    "below another loop": (J * 800 + I * 8 + K, {J: M, K: IN_BLOCK}, False),
    "in a loop around": (AROUND * 800 + I * 8 + K, {K: IN_BLOCK}, False),
    "the same for all": (K, {K: number(5)}, False),
}


@pytest.mark.parametrize("name", OF_BLOCKS)
def test_a_loop_over_blocks_of_any_number_is_the_highest_digit(name: str) -> None:
    linear, inside, is_digit = OF_BLOCKS[name]
    buffer = Buffer("o0", np.dtype("float32"), (), "output")
    body: list[Statement] = [Store(buffer, (linear,), sc.const(0.0, dt.float32))]
    for i, extent in inside.items():
        body = [For(i, extent, body)]
    assert is_one_digit(buffer, I, body, {I: BLOCKS}) is is_digit


def tile(size: Expr, most: int) -> Expr:
    return sc.binary("minimum", size - J * most, number(most))


# name -> (an index, how long the J-th tile is, whether I is a digit of it)
OF_TILES: dict[str, tuple[Expr, Expr, bool]] = {
    "rows of 64 by 14": (I * 64 + (J * 14 + K), tile(number(64), 14), True),
    "of any size": (I * N + (J * 14 + K), tile(N, 14), True),
    "rows too short for the last": (I * 63 + (J * 14 + K), tile(number(64), 14), False),
    "tiles that overlap": (I * 64 + (J * 13 + K), tile(number(64), 14), False),
    "of another size": (I * N + (J * 14 + K), tile(M, 14), False),
}


@pytest.mark.parametrize("name", OF_TILES)
def test_tiles_are_together_as_long_as_what_they_divide(name: str) -> None:
    linear, length, is_digit = OF_TILES[name]
    buffer = Buffer("o0", np.dtype("float32"), (), "output")
    inner = For(K, length, [Store(buffer, (linear,), sc.const(0.0, dt.float32))])
    body: list[Statement] = [For(J, number(5), [inner])]
    assert is_one_digit(buffer, I, body, {I: number(32)}) is is_digit


# -- programs ------------------------------------------------------------------------------------
def smoothed(u: Any) -> Any:
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u.at[1:-1, 1:-1].set(0.25 * around)


def test_the_sides_of_a_box_are_written_with_its_rows_and_shared() -> None:
    x = RNG.standard_normal((700, 301))
    jitted = phix.jit(smoothed)
    text = jitted.lower(x).as_text("loop ir")
    assert text.count("kernel") == 3  # the first row, the last, all others
    assert "kernel 2:  # shared: 698" in text
    expected = x.copy()
    expected[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    np.testing.assert_allclose(jitted(x), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("rows", [40_000, "n"], ids=["known", "unknown"])
def test_interleaved_values_are_written_in_one_pass(rows: Any) -> None:
    x, y = RNG.standard_normal((2, 40_000))
    jitted = phix.jit(
        lambda x, y: ops.stack([ops.exp(x), x + y, -y], 1),
        input_spec=[phix.spec([rows], "float64")] * 2,
    )
    text = jitted.lower(*[phix.spec([rows], "float64")] * 2).as_text("loop ir")
    assert text.count("kernel") == 1 and "shared" in text
    np.testing.assert_allclose(jitted(x, y), np.stack([np.exp(x), x + y, -y], 1), rtol=1e-13)


def test_rows_that_reach_into_the_next_stay_apart() -> None:
    def shifted(x: Any) -> Any:
        flat = ops.concat([ops.reshape(x, [-1]), x[0]], 0)
        return flat.at[:-5].add(ops.reshape(ops.sin(x), [-1]))

    x = RNG.standard_normal((30, 5))
    expected = np.concatenate([x.ravel() + np.sin(x).ravel(), x[0]])
    np.testing.assert_allclose(phix.jit(shifted)(x), expected, rtol=1e-13)


def test_slices_are_told_apart_by_the_loops_around_them() -> None:
    i, k, *around = (sc.var(f"i{n}") for n in range(4))
    extents = {k: sc.const(4, dt.int64)}
    forms = [slice_form(outer * 40 + i * 4 + k, i, extents) for outer in (*around, around[0])]
    assert None not in forms
    assert forms[0] == forms[2] != forms[1]
