"""Machine code goes when nobody can call it any more, and not before."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.interpreters import eager
from phix.kernels.cpu import jit

X = np.linspace(0.1, 0.8, 8, dtype="f")


def _jit(k: float) -> Any:
    f = phix.jit(lambda x: ops.tanh(x) * k)
    for _ in range(5):  # often enough for a flat call
        f(phix.to_tensor(X))
    return f


def _static(k: float) -> Any:
    f = phix.jit(lambda x, s: ops.tanh(x) * s, static_argnames="s")
    f(X, s=k), f(X, s=-k)
    return f


def _grad(k: float) -> Any:
    f = phix.jit(lambda x: ops.sum(ops.tanh(x) * k))
    phix.grad(f)(X), phix.vmap(f)(X[None]), phix.jvp(f, (X,), (X,))
    return f


def _scan(k: float) -> Any:
    f = phix.jit(lambda x: phix.scan(lambda c, v: (c + v * k, c), 0.0, x))
    f(X)
    return f


def _compiled(k: float) -> Any:
    f = phix.jit(lambda x: x * k).lower(X).compile()
    f(X)
    return f


def _donating(k: float) -> Any:
    f = phix.jit(lambda x: x * k, donate_argnums=0)
    f(phix.to_tensor(X)), f(X)
    return f


def _stepwise(k: float) -> Any:
    f = phix.jit(lambda x: phix.pure_callback(np.sin, phix.spec([8]), x * k) + 1.0)
    f(X)
    return f


MADE: dict[str, Callable[[float], Any]] = {
    "jit": _jit, "static": _static, "derivatives": _grad, "scan": _scan,
    "compiled": _compiled, "donating": _donating, "stepwise": _stepwise,
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_the_code_of_a_dropped_function_goes(name: str) -> None:
    MADE[name](0.125)  # what all of them need stays: eager ops, runtime functions
    gc.collect()
    before = set(jit._loaded)
    f = MADE[name](0.375)
    code = [weakref.ref(c) for key, c in jit._loaded.items() if key not in before]
    assert code
    del f
    gc.collect()
    assert not [r for r in code if r() is not None]
    assert set(jit._loaded) <= before


def test_code_that_can_be_called_stays() -> None:
    f = phix.jit(lambda x: ops.exp(x) * 1.625)
    f(X)
    compiled = f.lower(X).compile()
    _, pull = phix.vjp(f, X)
    del f
    gc.collect()
    for _ in range(3):  # memory that was given back would be another's by now
        _jit(float(np.random.default_rng(0).normal()))
        gc.collect()
    np.testing.assert_allclose(compiled(X), np.exp(X) * 1.625, rtol=1e-6)
    np.testing.assert_allclose(pull(np.ones(8, "f"))[0], np.exp(X) * 1.625, rtol=1e-6)


def test_a_native_function_holds_its_code_alone() -> None:
    text = "define ptr @ENTRY(ptr %self, ptr %args, i64 %nargs) {\n  call void @Py_IncRef(ptr"
    text += " %self)\n  ret ptr %self\n}\ndeclare void @Py_IncRef(ptr)\n; 17\n"
    function = jit.compiled(text)
    held = weakref.ref(function.__self__.code)  # type: ignore[attr-defined]
    assert function() is function.__self__  # type: ignore[attr-defined]
    gc.collect()
    assert held() is not None
    del function
    gc.collect()
    assert held() is None


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_dropped_functions_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHIX_CACHE", "0")  # so that each is compiled

    def rounds(start: int, count: int) -> int:
        for k in range(start, start + count):
            phix.jit(lambda x, k=k: ops.tanh(x) * float(k) + 1.0)(X)
            if k % 10 == 0:
                gc.collect()
        return _resident_kib()

    before = rounds(1000, 40)
    # 180 of each were left once; a heap of gigabytes in pieces, as of a whole suite, takes up to 41
    assert rounds(2000, 100) - before < 100 * 70 + 1000


def test_what_eager_calls_keep_is_bounded() -> None:
    few = phix.debug.settings(most_eager_plans=8, most_eager_programs=8, most_plans_over_graphs=8)
    fresh = eager.Eager()
    stores = (fresh.plans, fresh.mixed, fresh.over_graphs, fresh.programs)
    with few, phix.core.context.active(fresh):
        for k in range(1, 40):
            x = phix.to_tensor(np.ones(k, "f"))
            np.testing.assert_array_equal(ops.scale(x, float(k)), np.full(k, k))
            np.testing.assert_array_equal(x + float(k), np.full(k, k + 1))
            constant = phix.to_tensor(np.full(3, k, "f"))
            total, _ = phix.scan(lambda c, v: (c + v * ops.sum(constant), c), 0.0, x)  # noqa: B023
            np.testing.assert_allclose(total, 3 * k * k)
            assert all(len(store) <= 8 for store in stores)
    assert all(stores)
