"""Kernels that differ in names alone are printed once, and all others each for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.kernels.cpu import equal_kernels
from phix.kernels.cpu.llvm import KernelText


def layers(count: int) -> Callable[[Any, Any], Any]:
    def run(weights: Any, x: Any) -> Any:
        for weight in weights[:count]:
            x = ops.tanh(x @ weight)
        return ops.sum(x)

    return run


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[KernelText]:
    """The kernels that are printed, and not again where only their outline is asked for."""
    found: list[KernelText] = []

    def text(kernel: Any) -> KernelText:
        found.append(KernelText(kernel))
        return found[-1]

    monkeypatch.setattr(equal_kernels, "KernelText", text)
    monkeypatch.setattr(equal_kernels.stages, "is_verifying", lambda: False)
    return found


def test_layers_are_printed_once(printed: list[KernelText]) -> None:
    rng = np.random.default_rng(0)
    weights, x = list(rng.normal(size=(24, 20, 20)) / 5), rng.normal(size=(7, 20))
    counts = []
    for count in (4, 24):
        found = phix.jit(phix.grad(layers(count)))(weights, x)
        counts.append(len(printed))
        printed.clear()
        step = 1e-6 * rng.normal(size=weights[0].shape)
        sides = [np.sum(_by_numpy([weights[0] + s, *weights[1:count]], x)) for s in (step, -step)]
        slope = np.sum(np.asarray(found[0]) * 2 * step)
        np.testing.assert_allclose(slope, sides[0] - sides[1], 1e-5, 1e-11)
    assert counts[1] <= counts[0] + 4, counts


def _by_numpy(weights: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    for weight in weights:
        x = np.tanh(x @ weight)
    return x


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x[:-1] * 2.0 + y[1:],  # another number, another place, another operand twice
        lambda x, y: x[1:] * 2.0 + y[1:],
        lambda x, y: x[1:] * 3.0 + y[1:],
        lambda x, y: x[1:] * -0.0 + y[1:],
        lambda x, y: x[1:] * 0.0 + y[1:],
        lambda x, y: x[1:] * 2.0 + x[1:],
        lambda x, y: y[1:] * 2.0 + x[1:],
        lambda x, y: x[1:] - y[1:] * 2.0,
    ],
)
def test_what_differs_in_more_than_names_is_itself(f: Callable[[Any, Any], Any]) -> None:
    """Side by side with each of the others, of which all have about its size."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 40))
    others = [lambda x, y: x[1:] * 2.0 + y[1:], lambda x, y: y[:-1] * 2.0 + x[1:]]

    def several(x: Any, y: Any) -> list[Any]:
        return [ops.sort(g(x, y), 0) for g in (*others, f, *others)]

    for found, g in zip(phix.jit(several)(x, y), (*others, f, *others)):
        want = np.sort(g(x, y))
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(want))
