"""The networks and simulations of other libraries' examples, in phix: each beside a closed form,
SciPy, or finite differences."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised
PORTS = Path(__file__).resolve().parents[1] / "examples" / "ports"
RNG = np.random.default_rng(11)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(PORTS)
    return importlib.import_module


def test_a_classifier_learns_what_no_line_divides(port: Any) -> None:
    module = port("classifier")
    x = np.where(RNG.uniform(size=(120, 2)) < 0.5, -1, 1) + 0.2 * RNG.normal(size=(120, 2))
    x, y = phix.to_tensor(x.astype("f")), phix.to_tensor((x[:, 0] * x[:, 1] > 0).astype(int))
    model = module.train(x, y, (8, 2), steps=120, rate=0.2)
    assert module.accuracy(model, x, y).item() > 0.95
    chances = scipy.special.log_softmax(model(x).numpy(), 1)
    want = -chances[np.arange(120), y.numpy()].mean()
    np.testing.assert_allclose(module.loss(model, x, y).item(), want, rtol=1e-5)


def test_convolutions_tell_rows_from_columns(port: Any) -> None:
    module = port("image_network")
    images, kinds = np.zeros((80, 1, 8, 8), "f"), RNG.integers(0, 2, 80)
    for image, kind in zip(images, kinds):
        line = RNG.integers(0, 8)
        image[0, line if kind else slice(None), slice(None) if kind else line] = 1
    x, y = phix.to_tensor(images), phix.to_tensor(kinds)
    model = module.network(phix.random.key(0), 2, 2)
    model, values = module.train(model, x, y, steps=60, rate=1e-2)
    assert values[-1].item() < 0.3 < np.log(2)  # which is what a guess loses
    assert port("classifier").accuracy(model, x, y).item() > 0.9


def test_an_lstm_writes_the_text_on(port: Any) -> None:
    module = port("character_lstm")
    codes = np.tile([0, 1, 2, 0, 2], 20)  # what follows 0 and 2 is told by what came before
    model, values = module.train(phix.to_tensor(codes), 3, hidden=12, length=10, steps=80)
    assert values[-1].item() < 0.3 < np.log(2) * 4 / 5
    written = module.write(model, phix.to_tensor(codes[:10]), 10)
    assert written.tolist() == codes[10:20].tolist()


def test_a_fluid_is_incompressible_and_controlled(port: Any) -> None:
    module = port("fluid_control")
    flow, smoke = RNG.normal(size=(2, 8, 8)), RNG.uniform(size=(8, 8))
    k = np.fft.fftfreq(8)
    waves = np.fft.fft2(module.incompressible(phix.to_tensor(flow)).numpy())
    assert np.abs(k[:, None] * waves[0] + k * waves[1])[:4, :4].max() < 1e-12
    whole = module.carried(phix.to_tensor(smoke), np.stack([np.ones((8, 8)), 2 * np.ones((8, 8))]))
    np.testing.assert_allclose(whole, np.roll(smoke, (1, 2), (0, 1)), rtol=1e-12)

    def distance(flow: Any) -> Any:
        return ops.mean((module.simulate(flow, phix.to_tensor(smoke), 2)[0] - smoke.T) ** 2)

    nudge = np.zeros_like(flow)
    nudge[1, 3, 4] = 1e-6
    slope = phix.grad(distance)(flow).numpy()[1, 3, 4]
    want = (distance(flow + nudge) - distance(flow - nudge)).item() / 2e-6
    np.testing.assert_allclose(slope, want, rtol=1e-5)


@pytest.mark.prove
def test_smoke_is_led_to_a_picture(port: Any) -> None:
    module = port("fluid_control")
    smoke, target = module.pictures(8)
    found = module.control(smoke, target, steps=3, rounds=8)
    assert found.x.shape == (2, 8, 8)
    assert found.fun.item() < 0.8 * np.mean((smoke - target) ** 2)


def test_a_bayesian_network_is_a_density_over_weights(port: Any) -> None:
    module = port("bayesian_network")
    x, y = module.data(12)
    w = RNG.normal(size=49)
    first, shift, last = w[:48].reshape(3, 16)
    curve = np.tanh(x[:, None] * first + shift) @ last + w[48]
    want = scipy.stats.norm.logpdf(y, curve, 0.1).sum() + scipy.stats.norm.logpdf(w, 0, 2).sum()
    density = module.log_density(x, y)
    np.testing.assert_allclose(density(phix.to_tensor(w)).item(), want, rtol=1e-6)
    found = module.fit(density, 49, steps=150, samples=4, mean=phix.to_tensor(w), log_std=-4.0)
    drawn = module.curves(found, x, phix.random.key(0), 20)
    assert drawn.shape == (20, 12) and np.abs(drawn.numpy().mean(0) - y).mean() < 0.3


def test_an_autoencoder_has_the_bound_of_its_formula(port: Any) -> None:
    module = port("image_encoder")
    x = (RNG.uniform(size=(40, 6)) < np.where(np.arange(6) < 3, 0.9, 0.1)).astype("f")
    noise = RNG.normal(size=(40, 2)).astype("f")
    model, bounds = module.train(phix.to_tensor(x), 2, 8, steps=80, batch=20, rate=1e-2)
    mean, log_std = np.split(model[0](x).numpy().astype("d"), 2, -1)
    logits = model[1](mean.astype("f") + np.exp(log_std.astype("f")) * noise).numpy().astype("d")
    likely = np.where(x > 0, -np.log1p(np.exp(-logits)), -np.log1p(np.exp(logits))).sum(1)
    away = [
        (np.log(1 / s) + (s * s + m * m) / 2 - 0.5).sum() for m, s in zip(mean, np.exp(log_std))
    ]
    found = module.lower_bound(model, phix.to_tensor(x), phix.to_tensor(noise)).item()
    np.testing.assert_allclose(found, (likely - away).mean(), rtol=1e-5)
    guess = -6 * np.log(2)  # of a network that knows nothing
    assert bounds[-10:].mean().item() > 0.75 * guess > guess


def test_dynamics_are_solved_and_learnt(port: Any) -> None:
    module = port("spiral_dynamics")
    times = np.linspace(0, 3, 61, dtype="f")
    points = module.solve(module.spiral, phix.to_tensor([2.0, 0.0]), phix.to_tensor(times))
    matrix = np.array([[-0.1, 2.0], [-2.0, -0.1]])
    want = scipy.integrate.solve_ivp(
        lambda t, y: y**3 @ matrix, (0, 3), [2.0, 0.0], t_eval=times, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(points, want.y.T, atol=2e-2)
    _, values = module.train(points[:30], phix.to_tensor(times[:30]), width=8, steps=200)
    assert values[-1].item() < 0.3 * values[0].item()


def test_a_mixture_has_the_likelihood_of_its_densities(port: Any) -> None:
    module = port("mixture")
    x = module.data(20)
    shares, means = RNG.normal(size=2), RNG.normal(size=(2, 2))
    raw = 0.3 * RNG.normal(size=(2, 2, 2))
    logs = []
    for share, mean, numbers in zip(scipy.special.log_softmax(shares), means, raw):
        lower = np.tril(numbers, -1) + np.diag(np.exp(np.diag(numbers)))
        normal = scipy.stats.multivariate_normal(mean, np.linalg.inv(lower @ lower.T))
        logs.append(share + normal.logpdf(x))
    want = scipy.special.logsumexp(logs, 0).mean()
    params = tuple(map(phix.to_tensor, (shares, means, raw)))
    found = module.log_likelihood(params, phix.to_tensor(x)).item()
    np.testing.assert_allclose(found, want, rtol=1e-10)


@pytest.mark.prove
def test_a_mixture_finds_its_parts(port: Any) -> None:
    module = port("mixture")
    means = module.fit(module.data(60), 3).x[1].numpy()
    turns = 2 * np.pi * np.arange(3) / 3
    centres = 2.5 * np.stack([-np.sin(turns), np.cos(turns)], 1)
    away = np.linalg.norm(means[:, None] - centres, axis=2)
    assert sorted(away.argmin(1)) == [0, 1, 2] and away.min(1).max() < 0.5
