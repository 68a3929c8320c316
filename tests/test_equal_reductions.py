"""An extreme that is found once where its place is asked for too: which loops, what they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import dtypes as dt
from phix.kernels.loops import nodes as ir
from phix.kernels.loops.builder import Builder
from phix.kernels.loops.nodes import Assign, Buffer, Declare, For, Kernel, LoopProgram, Store
from phix.kernels.scalar import language as sc
from phix.kernels.scalar.language import Expr
from phix.kernels.schedule.equal_reductions import equal_reductions
from phix.kernels.schedule.pipeline import Setting

F4 = dt.float32
# -- which loops ---------------------------------------------------------------------------------
I, J, SCALE = sc.var("i0"), sc.var("i1"), sc.var("a2", F4)
ONE, TWO = sc.var("a0", F4), sc.var("a1", F4)
SIZE = 10
X, T, OUT = (Buffer(name, np.dtype("float32"), (SIZE,), "temp") for name in ("t0", "t1", "t2"))
ZERO_F, LEAST = sc.const(0.0, F4), sc.const(-np.inf, F4)


def load(buffer: Buffer, at: Expr) -> Expr:
    return Expr("load", (at,), F4, buffer)


def largest(target: Expr, value: Expr) -> Assign:
    return Assign((target,), (sc.binary("maximum", target, value),))


def along(index: Expr, *body: Any, size: int = SIZE) -> For:
    return For(index, sc.const(size, dt.int64), list(body), "reduction")


def first(*before: Any, value: Expr | None = None) -> For:
    return along(I, *before, largest(ONE, load(X, I) if value is None else value))


def again(value: Expr | None = None, size: int = SIZE) -> For:
    return along(J, largest(TWO, load(X, J) if value is None else value), size=size)


A, B = Declare(ONE, LEAST), Declare(TWO, LEAST)
KEPT = Store(OUT, (ir.ZERO,), ONE)
MADE = Store(T, (I,), load(X, I) * 2.0)
GONE: dict[str, tuple[Any, ...]] = {
    "one after the other": (A, first(), B, again()),
    "something between": (A, first(), KEPT, B, again()),
    "of what the first one made": (A, first(MADE, value=load(T, I)), B, again(load(T, J))),
    "beside another scalar": (
        Declare(SCALE, ZERO_F), A, first(value=load(X, I) * SCALE), B, again(load(X, J) * SCALE),
    ),
}  # fmt: skip
STAY: dict[str, tuple[Any, ...]] = {
    "another beginning": (A, first(), Declare(TWO, ZERO_F), again()),
    "fewer elements": (A, first(), B, again(size=SIZE - 1)),
    "other elements": (A, first(), B, again(load(X, J + 1))),
    "written between": (A, first(), Store(X, (ir.ZERO,), ONE), B, again()),
    "written behind": (A, first(), B, along(J, largest(TWO, load(X, J)), Store(X, (J,), TWO))),
    "made after it was read": (A, along(I, largest(ONE, load(T, I)), MADE), B, again(load(T, J))),
    "made elsewhere": (
        A, first(Store(T, (I + 1,), load(X, I)), value=load(T, I)), B, again(load(T, J)),
    ),
    "one place for all": (
        A, first(Store(T, (ir.ZERO,), load(X, I)), value=load(T, ir.ZERO)), B,
        again(load(T, ir.ZERO)),
    ),
    "made twice": (A, first(MADE, MADE, value=load(T, I)), B, again(load(T, J))),
    "a scalar that grows": (
        Declare(SCALE, ZERO_F), A,
        first(Assign((SCALE,), (SCALE + 1.0,)), value=load(X, I) * SCALE), B,
        again(load(X, J) * SCALE),
    ),
    "a scalar set between": (
        Declare(SCALE, ZERO_F), A, first(value=load(X, I) * SCALE), Assign((SCALE,), (ONE,)), B,
        again(load(X, J) * SCALE),
    ),
    "found once more between": (A, first(), Assign((ONE,), (ZERO_F,)), B, again()),
    "two that wait for each other": (A, B, first(value=load(X, I) + TWO), again(load(X, J) + ONE)),
}  # fmt: skip


def loops_of(*body: Any) -> int:
    kernel = Kernel(list(body))
    program = LoopProgram([], [], [], [X, T, OUT], [kernel], {})
    equal_reductions(program, Setting(Builder(())))
    return sum(isinstance(s, For) for s in ir.walk(kernel.body))


@pytest.mark.parametrize("name", GONE)
def test_loops_that_go(name: str) -> None:
    assert loops_of(*GONE[name]) == 1


@pytest.mark.parametrize("name", STAY)
def test_loops_that_stay(name: str) -> None:
    assert loops_of(*STAY[name]) == 2


def test_an_extreme_is_found_once_beside_its_place() -> None:
    both = phix.jit(lambda x: (ops.max(x, 1), ops.argmax(x, 1)))
    apart = phix.jit(lambda x: (ops.max(x, 1), ops.argmax(x, 1)), disable="equal_reductions")
    x = phix.spec([50, 20], F4)
    texts = [f.lower(x).as_text("loop ir") for f in (both, apart)]
    assert [t.count(" = maximum(") for t in texts] == [1, 2]


# -- what they find --------------------------------------------------------------------------------
def nearest(x: Any, y: Any) -> Any:
    away = ops.sum((x[:, None] - y[None]) ** 2, -1)
    return ops.min(away, 1), ops.argmin(away, 1), ops.max(away, 1), ops.argmax(away, 1)


def numpys_nearest(x: np.ndarray, y: np.ndarray) -> Any:
    away = ((x[:, None] - y[None]) ** 2).sum(-1)
    return away.min(1), away.argmin(1), away.max(1), away.argmax(1)


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("unknown", [False, True])
def test_the_nearest_and_how_near(rows: int, unknown: bool) -> None:
    rng = np.random.default_rng(rows)
    x, y = (rng.integers(-3, 4, (n, 2)).astype("float32") for n in (rows, 9))  # some are as near
    spec = [phix.spec(["n", 2], F4), phix.spec(["m", 2], F4)] if unknown else None
    for found, want in zip(phix.jit(nearest, input_spec=spec)(x, y), numpys_nearest(x, y)):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
@pytest.mark.parametrize("size", [1, 3, 8, 19, 70, 300])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_beside_their_places(dtype: str, size: int, kind: str) -> None:
    x = np.random.default_rng(size).integers(-5, 6, (30, size)).astype(dtype)
    if x.dtype.kind == "f":
        x[3, size // 2], x[4], x[5, -1], x[6] = np.nan, -0.0, np.inf, np.nan
    value, place = getattr(ops, kind), getattr(ops, f"arg{kind}")
    wanted = getattr(np, kind)(x * 2, 1), getattr(np, f"arg{kind}")(x * 2, 1)
    found = phix.jit(lambda x: (value(x * 2, 1), place(x * 2, 1)))(x)
    turned = phix.jit(lambda x: (place(x * 2, 1), value(x * 2, 1)))(x)
    for pair in (found, turned[::-1]):
        for got, want in zip(pair, wanted):
            np.testing.assert_array_equal(got, want)
