"""Calls under reverse mode that are like one before go a shorter way, and give the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core import rules
from phix.interpreters.known_calls import KNOWN

PACKAGE = phix.__path__[0]
X = np.linspace(0.2, 1.4, 5)


def frames(run: Callable[[], Any]) -> int:
    """How many calls of the package's functions a call makes."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


# functions of one tensor, and their derivatives
FUNCTIONS: list[tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = [
    (lambda x: ops.sin(x) * x, lambda x: np.cos(x) * x + np.sin(x)),
    (lambda x: 2.0 * x - x * 3, lambda x: np.full_like(x, -1.0)),
    (lambda x: 1 / x + True, lambda x: -1 / x**2),
    (lambda x: x**2 + x**2.5, lambda x: 2 * x + 2.5 * x**1.5),
    (lambda x: x * phix.stop_gradient(x), lambda x: x),
    (lambda x: ops.maximum(x, 0.7) * X, lambda x: np.where(x > 0.7, X, 0.0)),
    (lambda x: ops.scale(x, scale=3.0, bias=1.0), lambda x: np.full_like(x, 3.0)),
    (lambda x: ops.where(x > 0.5, x * x, -x), lambda x: np.where(x > 0.5, 2 * x, -1.0)),
    (lambda x: (x.sum() + x[1]) * ops.ones_like(x) / 5,
     lambda x: np.ones(5) + np.eye(5)[1]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_the_second_gradient_is_the_first(number: int) -> None:
    function, derivative = FUNCTIONS[number]
    gradient = phix.grad(lambda x: function(x).sum())
    for x in (X, X, X[::-1].copy()):
        np.testing.assert_allclose(gradient(x).numpy(), derivative(x), rtol=1e-12)


def test_second_derivatives_go_through_known_calls() -> None:
    once = phix.grad(lambda x: (ops.sin(x) * x).sum())
    twice = phix.grad(lambda x: (once(x) * x).sum())
    for _ in range(3):
        expected = 2 * X * np.cos(X) + np.sin(X) - X**2 * np.sin(X) + X * np.cos(X)
        np.testing.assert_allclose(twice(X).numpy(), expected, rtol=1e-12)


def test_numbers_of_one_text_and_another_kind_are_told_apart() -> None:
    x = phix.to_tensor([2, 3], "int64").astype("float32")
    for _ in range(2):
        for factor in (1, 1.0, True, np.float32(1), -0.0, 0.0, 2):
            found = phix.grad(lambda x, f=factor: (x * f).sum())(x)
            assert found.tolist() == [float(factor)] * 2 and found.dtype == np.float32
            assert np.signbit(found.numpy()).all() == np.signbit(factor)


def test_dtypes_shapes_and_the_default_float_are_told_apart() -> None:
    gradient = phix.grad(lambda x: (x * x * 0.5).sum())
    for _ in range(2):
        for dtype in ("float16", "float32", "float64", "complex64"):
            for shape in ([3], [3, 1], []):
                x = phix.ones(shape, dtype)
                if dtype != "complex64":
                    assert gradient(x).dtype == x.dtype and list(gradient(x).shape) == shape
        with phix.default_dtype("float64"):
            assert phix.grad(lambda x: (x * 0.5).sum())(2.0).dtype == np.float64
        assert phix.grad(lambda x: (x * 0.5).sum())(2.0).dtype == np.float32


def test_a_rule_that_is_registered_later_is_asked() -> None:
    gradient = phix.grad(lambda x: ops.atan(x).sum())
    gradient(X), gradient(X)
    with phix.scoped_registries():

        @rules.vjp("atan")
        def atan_vjp(active: Any, x: Any) -> Any:
            return ops.atan(x), lambda ct: (ct * 7.0,)

        assert gradient(X).tolist() == [7.0] * 5
    np.testing.assert_allclose(gradient(X).numpy(), 1 / (1 + X * X), rtol=1e-12)


def test_what_a_scope_learnt_is_forgotten_with_it() -> None:
    before = set(KNOWN)
    with phix.scoped_registries():
        gradient = phix.grad(lambda x: (ops.expm1(x) * 1.0625).sum())
        gradient(X), gradient(X)
        assert set(KNOWN) - before
    assert set(KNOWN) <= before


def test_indices_out_of_range_are_refused_by_known_calls_too() -> None:
    x = phix.to_tensor(X)

    def picked(x: Any, index: Any) -> Any:
        return ops.gather(x, index, 0).sum()

    good, bad = phix.to_tensor([0, 4]), phix.to_tensor([0, 5])
    for _ in range(2):
        assert phix.grad(picked)(x, good).tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
        with pytest.raises(phix.errors.TensorIndexError, match="holds 5"):
            phix.grad(picked)(x, bad)


def test_wrong_calls_are_refused_after_right_ones() -> None:
    for _ in range(2):
        phix.grad(lambda x: (x + ops.ones_like(x)).sum())(X)
        with pytest.raises(phix.errors.ShapeError, match="add"):
            phix.grad(lambda x: (x + phix.ones([4], "float64")).sum())(X)


def test_tracers_that_leaked_are_refused() -> None:
    kept: list[Any] = []

    def leaking(x: Any) -> Any:
        kept.append(x * 2.0)
        return (x * 2.0).sum()

    for _ in range(2):
        phix.grad(leaking)(X)
        with pytest.raises(phix.errors.PhixError, match=r"grad|vjp"):
            kept[-1] * 2.0


def test_hops_of_a_warm_gradient_and_of_an_eager_call() -> None:
    """Guards against frames that creep in: a little more than there are."""
    x = phix.to_tensor(np.linspace(0, 1, 16, dtype="float32"))
    gradient = phix.grad(lambda x: (ops.sin(x) * x).sum())
    for _ in range(3):
        gradient(x)
    assert frames(lambda: gradient(x)) <= 185
    assert frames(lambda: x + x) <= 5


_FIRST_CALL = """
from phix.core import rule_modules
from tests.test_known_calls import frames, np, ops, phix
rule_modules.import_for(rule_modules.ALL)
x = phix.to_tensor(np.linspace(0, 1, 16, dtype="float32"))
phix.jit(lambda x: ops.cos(x) + 1)(x)
print(frames(lambda: phix.jit(lambda x: (ops.sin(x) * x).sum())(x)))
"""


def test_hops_of_a_first_compiled_call(tmp_path: Path) -> None:
    """With what is loaded on the way but rules of ops, and no program on disk. Tests compile with
    more checks, so it is counted in a process of its own."""
    around = {k: v for k, v in os.environ.items() if not k.startswith("PHIX_")}
    around["PHIX_CACHE_DIR"] = str(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL],
        capture_output=True, text=True, check=True, env=around, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert int(run.stdout) <= 4251  # some 600 of them for what is rare in a sine


def test_ints_that_no_text_is_made_of_are_refused_as_others_are() -> None:
    x = phix.to_tensor(X)
    for run in (lambda: x * 10**5000, lambda: phix.grad(lambda x: ops.sum(x * 10**5000))(x)):
        for _ in range(2):
            with pytest.raises(phix.errors.NumberRangeError):
                run()
