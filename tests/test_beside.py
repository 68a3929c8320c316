"""Kernels that threads run at the same time: which do, and that they compute what they did."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

MARK = "# beside the one before"


def arrays(count: int, *shape: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng([count, *shape])
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


def text_of(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    return phix.jit(function, **options).lower(*args).as_text("loop ir")


def alike(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a program gives, thirty times, which is what it gives without threads of the kind."""
    wanted = phix.tree.leaves(phix.jit(function, disable="kernels_beside", **options)(*args))
    jitted = phix.jit(function, **options)
    for _ in range(30):
        found = phix.tree.leaves(jitted(*args))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    return wanted


def moments(grads: list[Any], firsts: list[Any], seconds: list[Any]) -> Any:
    rows = zip(grads, firsts, seconds)
    return [(0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g) for g, m, v in rows]


# -- which run at once ---------------------------------------------------------------------------
def test_updates_of_many_small_arrays_run_at_once() -> None:
    args = arrays(30, 64, 64), arrays(30, 8, 8, 64)[::-1], arrays(30, 4, 16, 64)
    args = tuple([x.reshape(64, 64) for x in each] for each in args)
    text = text_of(moments, *args)
    assert text.count(MARK) == text.count("kernel ") - 1 > 5
    wanted = alike(moments, *args)
    g, m, v = (np.stack(a).astype("float64") for a in args)
    np.testing.assert_allclose(np.stack(wanted[::2]), 0.9 * m + 0.1 * g, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.stack(wanted[1::2]), 0.99 * v + 0.01 * g * g, rtol=1e-5, atol=1e-6
    )
    assert MARK not in text_of(moments, *args, disable="kernels_beside")


@pytest.mark.parametrize("count", [3, 70, 150])
def test_programs_of_many_steps_share_them_too(count: int) -> None:
    def update(params: list[Any], first: Any) -> Any:
        rate = ops.sum(first) * 0.25  # a step before them
        done = [p - rate * ops.tanh(p) for p in params]
        return done, ops.sum(done[0]) + rate

    params = [arrays(1, 20, 100 + k)[0] for k in range(count)]
    first = np.arange(5, dtype="float32")
    text = phix.jit(update).lower(params, first).as_text("llvm")
    assert len(re.findall(r"call void @phix_share\(ptr @beside", text)) >= (count > 3)
    found = alike(update, params, first)
    for p, x in zip(params, found):
        np.testing.assert_allclose(x, p - 2.5 * np.tanh(p), rtol=1e-5, atol=1e-5)


def test_little_work_runs_in_order() -> None:
    args = (arrays(3, 8, 8), arrays(3, 8, 8), arrays(3, 8, 8))
    assert MARK not in text_of(moments, *args)
    with phix.debug.settings(least_shared_work=1):
        alike(moments, *args)


def test_kernels_of_many_kinds_run_at_once() -> None:
    """Of other sizes and dtypes, so of other functions, and with other arguments."""

    def each(*given: Any) -> Any:
        return [ops.cumsum(ops.tanh(x), 0) if x.ndim == 1 else ops.exp(-x * x) for x in given]

    given = [*arrays(2, 3000), *arrays(2, 40, 100), *arrays(2, 2999, dtype="float64")]
    given += arrays(3, 50, 90, dtype="float64")
    text = text_of(each, *given)
    assert text.count(MARK) >= 3
    wanted = alike(each, *given)
    for x, found in zip(given, wanted):
        x = x.astype("float64")
        exact = np.cumsum(np.tanh(x)) if x.ndim == 1 else np.exp(-x * x)
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)


def test_what_reads_another_one_waits_for_it() -> None:
    def chain(x: Any) -> Any:
        first = ops.cumsum(ops.tanh(x), 0)
        second = ops.cumsum(first * first, 0)  # both are results, so neither is a temp
        return first, second, ops.cumsum(ops.exp(-x), 0)

    (x,) = arrays(1, 30_000, dtype="float64")
    with phix.debug.settings(least_shared_work=1):
        first, second, third = alike(chain, x)
    t = np.tanh(x)
    np.testing.assert_allclose(first, np.cumsum(t), rtol=1e-10)
    np.testing.assert_allclose(second, np.cumsum(np.cumsum(t) ** 2), rtol=1e-10)
    np.testing.assert_allclose(third, np.cumsum(np.exp(-x)), rtol=1e-10)


def test_what_writes_temps_runs_in_order() -> None:
    def sums(*rows: Any) -> Any:
        totals = [ops.cumsum(ops.tanh(x), 0) for x in rows]
        return [ops.sum(t) for t in totals], ops.cumsum(totals[0], 0) + totals[1][0]

    rows = arrays(6, 20_000, dtype="float64")
    with phix.debug.settings(least_shared_work=1):
        alike(sums, *rows)


@pytest.mark.parametrize("size", [5, 40_000])
def test_of_unknown_sizes_the_run_says_whether_it_pays(size: int) -> None:
    def totals(*rows: Any) -> Any:
        return [ops.cumsum(x * x, 0) for x in rows]

    spec = [phix.spec([name], "float64") for name in "nmk"]
    rows = [np.linspace(0, 1, size + k) for k in range(3)]
    text = text_of(totals, *rows, input_spec=spec)
    assert text.count(MARK) == 2
    for found, x in zip(alike(totals, *rows, input_spec=spec), rows):
        np.testing.assert_allclose(found, np.cumsum(x * x), rtol=1e-12)


def test_what_is_donated_is_updated_where_it_is() -> None:
    def update(params: list[Any], grads: list[Any]) -> list[Any]:
        return [p - 0.1 * ops.tanh(g) for p, g in zip(params, grads)]

    jitted = phix.jit(update, donate_argnums=(0,))
    params, grads = arrays(40, 64, 64), arrays(40, 64, 64)
    found = [phix.to_tensor(p.copy()) for p in params]
    given = [phix.to_tensor(g) for g in grads]
    for _ in range(20):
        found = jitted(found, given)
    for p, g, x in zip(params, grads, found):
        wanted = p.astype("float64") - 2.0 * np.tanh(g.astype("float64"))
        np.testing.assert_allclose(x, wanted, rtol=1e-5, atol=1e-5)


def test_derivatives_and_lanes_of_many_parameters() -> None:
    def loss(params: list[Any], x: Any) -> Any:
        return sum(ops.sum(ops.tanh(p * x) ** 2) for p in params)

    params, (x,) = arrays(12, 60, 70, dtype="float64"), arrays(1, 60, 70, dtype="float64")
    for function, given in (
        (phix.grad(loss), (params, x)),
        (phix.vmap(phix.grad(loss), (None, 0)), (params, np.stack([x, -x, 2 * x]))),
    ):
        found = alike(function, *given)
        lanes = given[1] if given[1].ndim == 3 else given[1][None]
        for k, p in enumerate(params):
            t = np.tanh(p * lanes)
            wanted = 2 * t * (1 - t * t) * lanes
            np.testing.assert_allclose(
                found[k].reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-12
            )
