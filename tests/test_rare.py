"""What is rarely needed is computed apart, for the lanes that need it, wherever they stand."""

from __future__ import annotations

import fractions
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.core import dtypes as dt
from phix.kernels.cpu import compiler, rare, units
from phix.kernels.cpu.level import has_masks
from phix.kernels.scalar import language as sc

FAR = [2.0**45, 2.0**46, 1e16, 1e22, 3.0e38, -7.7e9, -1e25, float("inf"), float("nan")]
DIGITS = {"float32": 3e-7, "float64": 1e-15}


def with_far_ones(seed: int, size: int, dtype: str, share: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-20, 20, size)
    return np.where(rng.random(size) < share, rng.choice(FAR, size), x).astype(dtype)


def of_numpy(f: Callable[..., Any], *given: np.ndarray) -> np.ndarray:
    """In the widest floats that there are; NumPy's sines are those of C."""
    with np.errstate(all="ignore"):
        return np.asarray(f(*(x.astype("longdouble") for x in given)))


def check(found: Any, wanted: np.ndarray, dtype: str, scale: float = 1.0) -> None:
    found = np.asarray(found)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted.astype(dtype), rtol=0, atol=scale * DIGITS[dtype])


# -- loops of every kind ---------------------------------------------------------------------------
# name -> what is made of x by either library, and how far terms add up
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "each": (lambda x, n: n.sin(x), 1),
    "two": (lambda x, n: n.sin(x) * n.cos(x), 2),
    "reversed": (lambda x, n: n.cos(x[::-1]), 1),
    "strided": (lambda x, n: n.sin(x[1::3]), 1),
    "rows": (lambda x, n: n.sin(x.reshape(-1, 9)).T + n.cos(x.reshape(-1, 9)).T, 2),
    "inside a condition": (lambda x, n: n.where(x > 0, n.sin(x), n.cos(x * 0.5)), 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", DIGITS)
def test_lanes_that_need_it_have_it(name: str, dtype: str) -> None:
    f, scale = PROGRAMS[name]
    program = phix.jit(lambda x: f(x, pn))
    for size in (9, 18, 63, 1008):
        for share in (0.0, 0.05, 1.0):
            x = with_far_ones(size, size, dtype, share)
            check(program(x), of_numpy(lambda x: f(x, np), x), dtype, scale)


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("width", [3, 7, 9, 10, 12, 13, 16, 17, 31, 40])
def test_sums_of_rows_that_masks_end(width: int, dtype: str) -> None:
    x = with_far_ones(width, 50 * width, dtype).reshape(50, width)
    x[~np.isfinite(x)] = 2.0**60
    found = phix.jit(lambda x: pn.sum(pn.sin(x), 1))(x)
    check(found, of_numpy(lambda x: np.sin(x).sum(1), x), dtype, 3 * width)


@pytest.mark.parametrize("dtype", DIGITS)
def test_one_program_for_all_sizes_threads_and_chains(dtype: str) -> None:
    program = phix.jit(pn.tan, input_spec=[phix.spec([-1], dtype)])
    for size in (1, 2, 5, 8, 17, 100, 70_000):
        x = with_far_ones(size, size, dtype)
        wanted = of_numpy(np.tan, x)
        np.testing.assert_allclose(program(x), wanted.astype(dtype), rtol=2 * DIGITS[dtype])
    x = np.asarray([1.0, 1e22, 0.5, -(2.0**50)], dtype)
    chain = phix.jit(lambda x: phix.scan(lambda c, v: (pn.sin(c + v), None), x[0], x)[0])
    wanted = x[0]
    for v in x:
        wanted = np.sin(wanted + v)  # in the dtype: what is added to 1e22 is lost in both
    check(chain(x), np.asarray(wanted), dtype, 2)


@pytest.mark.parametrize("dtype", DIGITS)
def test_derivatives_and_lanes_of_vmap(dtype: str) -> None:
    x = with_far_ones(5, 200, dtype)
    x[~np.isfinite(x)] = 1.0
    third = phix.jit(phix.vmap(phix.grad(phix.grad(phix.grad(pn.sin)))))
    check(third(x), of_numpy(lambda x: -np.cos(x), x), dtype)
    both = phix.jit(phix.vmap(lambda x: phix.cond(x > 0, lambda: pn.sin(x), lambda: pn.cos(x))))
    check(both(x), of_numpy(lambda x: np.where(x > 0, np.sin(x), np.cos(x)), x), dtype)


# -- remainders ------------------------------------------------------------------------------------
def exact_remainder(x: float, y: float, dtype: str) -> float:
    """By fractions, rounded once; as Python, of which the rest has the sign of the divisor."""
    if not math.isfinite(x) or y == 0 or math.isnan(y):
        return math.nan
    if math.isinf(y):
        return x if x == 0 or (x < 0) == (y < 0) else y
    a, b = fractions.Fraction(x), fractions.Fraction(y)
    return float(np.asarray(float(a - b * math.floor(a / b)), dtype))


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Of all sizes, and of multiples and their neighbours."""
    rng = np.random.default_rng(3)
    most = 30 if dtype == "float32" else 250
    x, y = rng.uniform(1, 2, (2, 4000)) * 2.0 ** rng.integers(-most, most, (2, 4000))
    y[:2500] = x[:2500] / 2.0 ** rng.uniform(-3, 60, 2500)
    y[:800] = x[:800] / rng.integers(1, 2**22, 800)
    x, y = (v * rng.choice([-1, 1], v.shape) for v in (x.astype(dtype), y.astype(dtype)))
    tiny = float(np.finfo(dtype).smallest_subnormal)
    ends = np.asarray([0.0, -0.0, tiny, -3 * tiny, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**60])
    ends = ends.astype(dtype)
    pairs = np.asarray([(a, b) for a in ends for b in ends], dtype).T
    return np.concatenate([x, pairs[0]]).astype(dtype), np.concatenate([y, pairs[1]]).astype(dtype)


@pytest.mark.parametrize("dtype", DIGITS)
def test_remainders_are_exact(dtype: str) -> None:
    x, y = operands(dtype)
    wanted = [exact_remainder(float(a), float(b), dtype) for a, b in zip(x, y)]
    found = phix.jit(pn.remainder)(x, y).numpy()
    np.testing.assert_array_equal(found, np.asarray(wanted, dtype))
    signed = ~np.isnan(found)
    zeros = signed & (found == 0)
    assert (np.signbit(found[zeros]) == np.signbit(y[zeros])).all()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(phix.jit(pn.fmod)(x, y).numpy(), np.fmod(x, y))


def is_floor(found: float, x: float, y: float, dtype: str) -> bool:
    """Whether it is the quotient's floor, by fractions, or a float nearest to that."""
    if not math.isfinite(x) or y == 0 or math.isnan(y):
        return math.isnan(found) or (y == 0 and x != 0 and found == x * math.copysign(math.inf, y))
    if math.isinf(y):
        return found == (-1 if x != 0 and (x < 0) != (y < 0) else 0)
    floor = math.floor(fractions.Fraction(x) / fractions.Fraction(y))
    if math.isinf(found):
        return abs(floor) > float(np.finfo(dtype).max) and (floor > 0) == (found > 0)
    half = fractions.Fraction(float(np.spacing(np.asarray(abs(found), dtype)))) / 2
    return found == floor or abs(floor - fractions.Fraction(found)) <= half


@pytest.mark.parametrize("dtype", DIGITS)
def test_quotients_are_floors_of_any_size(dtype: str) -> None:
    x, y = operands(dtype)
    found = phix.jit(pn.floor_divide)(x, y).numpy()
    every = zip(found.tolist(), x.tolist(), y.tolist())
    assert [each for each in every if not is_floor(*each, dtype)] == []
    zeros = found == 0
    assert (np.signbit(found[zeros]) == np.signbit(x[zeros]) ^ np.signbit(y[zeros])).all()


@pytest.mark.parametrize("dtype", DIGITS)
def test_sums_of_remainders_of_columns(dtype: str) -> None:
    rng = np.random.default_rng(7)
    x, y = rng.uniform(-20, 20, (2, 8, 37)).astype(dtype)
    x = np.where(rng.random(x.shape) < 0.3, 2.0**40, x).astype(dtype)
    found = phix.jit(lambda x, y: pn.sum(pn.remainder(x, y).T, 1))(x, y)
    np.testing.assert_allclose(found, np.remainder(x, y).sum(0), rtol=1e-5, atol=1e-5)


# -- the text --------------------------------------------------------------------------------------
def text_of(f: Any, *shapes: tuple[int, ...], dtype: str = "float64") -> str:
    return phix.jit(f).lower(*(phix.spec(s, dtype) for s in shapes)).as_text("llvm")


def test_a_loop_is_vectors_and_what_is_apart_stands_there_once() -> None:
    text = text_of(lambda x: pn.sin(x) + pn.sin(2 * x), (1000,))
    names = set(re.findall(r"call double @(rare_\w+)\(", text))
    assert len(names) == 1
    code = compiler.assembly(text)
    assert len(re.findall(rf"(?m)^{names.pop()}\.apart:", code)) == 1
    assert not re.search(r"(?m)^rare_\w+(\.\d+)?:", code), "what steps over it has been taken in"
    assert re.search(r"mulpd|f\w+[1-3]{3}pd|fmla\s+v", code), "the loop is vectors"


@pytest.mark.parametrize("dtype", DIGITS)
def test_loops_of_much_work_end_anywhere(dtype: str) -> None:
    def f(x: Any, sin: Any = pn.sin) -> Any:
        for k in range(4):
            x = sin(x) * 0.5 + x * (1.0 + k)
        return x

    given = with_far_ones(11, 160, dtype)
    one = phix.jit(f)
    alone = np.concatenate([one(x) for x in given[:, None]])
    known = np.abs(given) < 30
    wanted = of_numpy(lambda x: f(x, np.sin), given[known])
    np.testing.assert_allclose(alone[known], wanted.astype(dtype), rtol=0, atol=3e3 * DIGITS[dtype])
    some = phix.jit(f, input_spec=[phix.spec(["n"], dtype)])
    for size in (*range(71), 160):
        np.testing.assert_array_equal(some(given[:size]), alone[:size], strict=True)
    for size in (3, 8, 15, 16, 17, 31, 33, 64, 71):
        part = phix.jit(f)(given[160 - size :])
        np.testing.assert_array_equal(part, alone[160 - size :], strict=True)


@pytest.mark.skipif(not has_masks(), reason="the CPU has no masks")
def test_loops_of_much_work_have_their_code_once() -> None:
    def f(x: Any) -> Any:
        return pn.tanh(pn.tanh(pn.tanh(x) + x) - x)

    code = compiler.assembly(text_of(f, (1001,), dtype="float32"))
    assert re.search(r"vfn?m\w+ps", code) and not re.search(r"vfn?m\w+s[sd]", code)


def test_units_have_what_they_call() -> None:
    def f(x: Any) -> list[Any]:
        return [pn.sum(pn.sin(x * k) * pn.cos(x + k), 0) @ x.T for k in range(12)]

    text = text_of(f, (40, 40))
    every = units.divided(text)
    for unit in every:
        assert ("call double @rare_" in unit.text) == (units.MARK in unit.text)
        compiler.object_of(unit.text, unit.is_final)
    assert len(every) > 1


def test_what_is_made_of_the_same_has_one_name() -> None:
    x, y = (sc.var(name, dt.float64) for name in "xy")

    def choice(a: sc.Expr) -> rare.Rare:
        return rare.of(sc.rarely(a > 1.0, sc.sqrt(a) * 3.0, a + 2.0))

    assert choice(x).name == choice(y).name == choice(x * y).name
    assert choice(x * y).operands[2:] == (x * y,)
    other = rare.of(sc.rarely(x > 1.0, sc.sqrt(x) * 4.0, x + 2.0))
    assert other.name != choice(x).name
    apart = rare.of(sc.rarely(x > 1.0, sc.sqrt(y), x))
    assert apart.operands[2:] == (y,)


def test_vectors_are_told_of_what_is_rare_alone() -> None:
    x = sc.var("x", dt.float32)
    name = rare.of(sc.rarely(x > 1.0, sc.sqrt(x), x)).name
    body = f"  %v1 = call float @{name}(i1 %c, float %a, float %a)\n  %v2 = call float @g(float %a)"
    declared = [f"declare float @{name}(i1, float, float) #1", "declare float @g(float) #1"]
    (told,), lines = rare.told([body], declared, 7)
    assert told.splitlines()[0].endswith(" #7") and told.splitlines()[1] == body.splitlines()[1]
    assert f"_ZGV_LLVM_N4vvv_{name}({name}.4)" in "".join(lines)
    assert rare.told([body], declared[1:], 7) == ([body], [])


def test_flags_that_are_handed_over_have_addresses() -> None:
    x, flag = sc.var("x", dt.float32), sc.var("flag", dt.bool_)
    name = rare.of(sc.rarely(x > 1.0, sc.select(flag, x * 3.0, x * 5.0), x)).name
    text = rare.definitions([f"declare float @{name}(i1, float, i1, float) #1"])
    assert "getelementptr i8" in text and "getelementptr i1" not in text
    assert re.search(r"zext <4 x i1> (%x\d) to <4 x i8>", text)
