"""The examples of other libraries, in phix: each against a truth that it does not compute."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import phix

pytestmark = pytest.mark.unoptimised
PORTS = Path(__file__).resolve().parents[1] / "examples" / "ports"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(PORTS)
    return importlib.import_module


def test_logistic_regression_finds_what_newtons_method_does(port: Any) -> None:
    module = port("logistic_regression")
    x, y = module.data(30)
    w = np.zeros(3)
    for _ in range(12):
        p = scipy.special.expit(x @ w)
        slope = x.T @ (p - y) / len(y) + 0.02 * w
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x / len(y) + 0.02 * np.eye(3), slope)
    np.testing.assert_allclose(module.train(x, y, 120), w, atol=2e-3)


def test_a_gaussian_process_is_fitted_and_predicts(port: Any) -> None:
    module = port("gaussian_regression")
    x, y = module.data(8)
    found = module.fit(x, y, 25)
    best = np.array([found.x[k].item() for k in ("log_length", "log_height", "log_noise")])

    def covariance(p: Any, a: Any, b: Any) -> Any:
        away = (a[:, None] - b) / np.exp(p[0])
        return np.exp(2 * p[1] - 0.5 * away**2)

    def value(p: Any) -> Any:
        noisy = covariance(p, x, x) + np.exp(2 * p[2]) * np.eye(8)
        return -scipy.stats.multivariate_normal.logpdf(y, np.zeros(8), noisy)

    np.testing.assert_allclose(found.fun.item(), value(best), rtol=1e-9)
    for step in 0.02 * np.eye(3):
        assert min(value(best + step), value(best - step)) >= value(best)
    at = np.array([-1.0, 0.3])
    mean, variance = module.predict(found.x, x, y, at)
    noisy, across = (
        covariance(best, x, x) + np.exp(2 * best[2]) * np.eye(8),
        covariance(best, x, at),
    )
    np.testing.assert_allclose(mean, across.T @ np.linalg.solve(noisy, y), rtol=1e-8)
    want = np.diag(covariance(best, at, at) - across.T @ np.linalg.solve(noisy, across))
    np.testing.assert_allclose(variance, want, rtol=1e-7, atol=1e-9)


def test_variational_inference_finds_a_normal_distribution(port: Any) -> None:
    module = port("variational_inference")
    mean, std = np.array([1.0, -0.5]), np.array([0.5, 2.0])
    found = module.fit(lambda x: phix.scipy.stats.norm.logpdf(x, mean, std).sum(), 2, steps=300)
    np.testing.assert_allclose(found[0], mean, atol=0.05)
    np.testing.assert_allclose(np.exp(found[1].numpy()), std, rtol=0.05)


def test_a_hidden_markov_model_is_that_of_all_ways_of_states(port: Any) -> None:
    module = port("hidden_markov")
    symbols = np.array([0, 1, 2, 1, 0, 0])
    params, values = module.fit(symbols, steps=5)
    assert (np.diff(values) > -1e-12).all()
    first, moves, shown = (np.exp(p.numpy()) for p in params)
    for table in (first, moves, shown):
        np.testing.assert_allclose(table.sum(-1), 1, rtol=1e-12)
    total = 0.0
    for way in itertools.product(range(2), repeat=len(symbols)):
        chance = first[way[0]] * np.prod([moves[a, b] for a, b in itertools.pairwise(way)])
        total += chance * np.prod([shown[s, o] for s, o in zip(way, symbols)])
    np.testing.assert_allclose(module.log_likelihood(params, symbols), np.log(total), rtol=1e-12)


def test_kernel_regression_is_the_solution_of_its_equations(port: Any) -> None:
    module = port("kernel_regression")
    x, y = module.data(8)
    weights, function = module.fit(module.radial, x, y, ridge=0.5, steps=300)
    table = np.exp(-((x[:, None] - x) ** 2).sum(-1))
    want = np.linalg.solve(table + 0.5 * np.eye(8), y)
    np.testing.assert_allclose(weights, want, rtol=1e-8)
    np.testing.assert_allclose(function(x), table @ want, rtol=1e-8)


def test_private_gradients_are_clipped_one_by_one_and_noisy(port: Any) -> None:
    pytest.importorskip("sklearn")
    module = port("private_sgd")
    x, y = module.data()
    x, y = x[:200], y[:200]
    rng = np.random.default_rng(1)
    params = {"w": rng.normal(size=(64, 10)), "b": rng.normal(size=10)}
    p = scipy.special.softmax(x[:50] @ params["w"] + params["b"], 1) - np.eye(10)[y[:50]]
    own = np.concatenate([np.einsum("ni,nk->nik", x[:50], p).reshape(50, -1), p], 1)
    own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True) / 0.3, 1)
    key = phix.random.key(3)
    found = [module.private_grad(params, (x[:50], y[:50]), key, 0.3, n) for n in (0.0, 2.0)]
    np.testing.assert_allclose(found[0]["w"].reshape([-1]), own.mean(0)[:640], atol=1e-7)
    np.testing.assert_allclose(found[0]["b"], own.mean(0)[640:], atol=1e-7)
    noise = (found[1]["w"] - found[0]["w"]).numpy().std()
    assert 0.9 < noise / (2.0 * 0.3 / 50) < 1.1
    trained = module.train(x, y, 10, steps=25, noise=0.1)
    scores = x @ trained["w"].numpy() + trained["b"].numpy()
    assert np.mean(np.argmax(scores, 1) == y) > 0.85


def test_no_port_has_the_name_of_an_example() -> None:
    """Both are imported by their names, which one process keeps."""
    assert not {p.name for p in PORTS.glob("*.py")} & {p.name for p in PORTS.parent.glob("*.py")}
