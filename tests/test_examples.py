"""The demo, in a few steps: it runs, its losses fall, its figure is written."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import phix

NEEDED = ("sklearn", "matplotlib", "tqdm")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of examples/, as scripts there import each other."""
    for name in NEEDED:  # by whoever runs these tests, not by all who collect them
        pytest.importorskip(name, reason="the demo's packages: pip install phix[demo]")
    monkeypatch.syspath_prepend(EXAMPLES)

    def load(name: str) -> ModuleType:
        return __import__(name)

    return load


def test_derivatives_agree_with_the_closed_form(example: Any, capsys: Any) -> None:
    error = example("derivatives").main()
    assert error < 1e-14
    assert "log(d)" in capsys.readouterr().out


def test_digits_are_learnt(example: Any) -> None:
    result = example("digits").train(epochs=6, hidden=64)
    assert len(result.losses) == 6 * 22
    assert result.losses[-10:].mean() < 0.5 * result.losses[0]
    assert 0.7 < result.accuracy <= 1.0


def test_beam_is_learnt(example: Any) -> None:
    result = example("beam").solve(steps=400, hidden=10)
    assert result.losses[-1] < 0.1 * result.losses[0]
    assert result.learnt.shape == result.exact.shape == (201,)


def test_fourth_derivatives_are_those_of_nested_grad(example: Any) -> None:
    beam, network = example("beam"), example("network")
    params = network.initial_params(np.random.default_rng(1), [1, 6, 6, 1], "float64")

    def rows(x: Any) -> Any:
        return beam.deflection(params, x)

    def scalar(x: Any) -> Any:
        return phix.ops.reshape(rows(phix.ops.reshape(x, [1, 1])), [])

    forward, reverse = rows, scalar
    for _ in range(4):
        forward, reverse = beam.derivative(forward), phix.grad(reverse)
    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(
        forward(phix.to_tensor(x[:, None])).numpy()[:, 0],
        phix.vmap(reverse)(x).numpy(),
        rtol=1e-10,
        atol=1e-12,
    )


def test_exact_deflection_solves_the_beam(example: Any) -> None:
    exact = np.poly1d([-1 / 24, 2 / 24, 0, -1 / 24, 0])
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(example("beam").exact(x), exact(x), atol=1e-16)
    np.testing.assert_allclose(exact.deriv(4)(x), -1.0)
    np.testing.assert_allclose([exact(0), exact(1), *exact.deriv(2)([0.0, 1.0])], 0, atol=1e-15)


def test_adam_step_is_the_published_one(example: Any) -> None:
    """Two steps on a quadratic, against the recurrence written out in NumPy."""
    optimiser = example("optimiser")
    target = np.array([1.0, -2.0, 0.5])
    step = optimiser.adam(lambda p: phix.ops.sum((p["w"] - target) ** 2), 4, peak=0.1)
    state = optimiser.adam_state({"w": phix.to_tensor(np.zeros(3))})
    w = m = s = np.zeros(3)
    for t in (1, 2):
        state, _ = step(state)
        g = 2 * (w - target)
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        rate = 0.1 * 0.5 * (1 + np.cos(np.pi * (t - 1) / 4))
        w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(state.params["w"].numpy(), w, rtol=1e-4)


def test_demo_writes_its_figure_and_judges(
    example: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    demo, beam, digits = example("demo"), example("beam"), example("digits")
    x = np.linspace(0, 1, 201)
    losses = np.geomspace(1.0, 1e-3, 500)
    solved = beam.Result(losses, x, 1.001 * beam.exact(x), beam.exact(x))
    monkeypatch.setattr(beam, "solve", lambda: solved)
    for accuracy, status in ((0.98, 0), (0.96, 1)):
        classified = digits.Result(losses, accuracy)
        monkeypatch.setattr(digits, "train", lambda result=classified: result)
        assert demo.main(["--output", str(tmp_path / "demo.png")]) == status
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "passed" in shown and "MISSED" in shown and str(tmp_path / "demo.png") in shown
