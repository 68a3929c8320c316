"""examples/hmc.py, gaussian_process.py, graph_network.py, deeponet.py, vae.py: against NumPy and
SciPy from the definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.unoptimised


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(EXAMPLES)
    return __import__


def test_chains_have_the_moments_of_the_posterior(example: Any) -> None:
    hmc = example("hmc")
    problem = hmc.regression()
    points, moved = hmc.sampled(problem, count=32, steps=300)
    mean, covariance = problem.posterior()
    assert points.shape == (32, 300, 2) and 0.6 < moved < 1
    # chains are independent of each other: the spread of their means says how exact theirs is
    error = points.mean(1).std(0) / np.sqrt(32)
    assert (error < 0.05).all() and (np.abs(points.mean((0, 1)) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(points.reshape(-1, 2).T), covariance, rtol=0.15)
    # a step that is far too long is not taken, and the chain stays where it is
    start = hmc.phix.to_tensor([[0.1, 0.2]], dtype="float64")
    stayed, part = hmc.chains(problem.log_p, hmc.phix.random.key(1), start, 3, length=50.0)
    assert part.item() == 0.0 and (stayed.numpy() == start.numpy()).all()


def test_likelihood_and_prediction_of_a_gaussian_process(example: Any) -> None:
    gp = example("gaussian_process")
    x, y = gp.data(12)
    where = np.array([-1.0, 2.0, 4.3])
    at = gp.Settings(*(gp.phix.to_tensor(v, dtype="float64") for v in (0.3, -0.2, -1.1)))

    def kernel(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.exp(2 * s[0] - 0.5 * np.subtract.outer(a, b) ** 2 * np.exp(-2 * s[1]))

    def likelihood(s: np.ndarray) -> float:
        full = kernel(x, x, s) + (np.exp(2 * s[2]) + 1e-10) * np.eye(len(x))
        return float(stats.multivariate_normal(np.zeros(len(x)), full).logpdf(y))

    def all_of_it(at: Any) -> Any:
        slopes = gp.phix.value_and_grad(gp.log_likelihood)(at, x, y)
        return slopes, gp.predicted(at, x, y, gp.phix.to_tensor(where))

    (value, slopes), (mean, deviation) = gp.phix.jit(all_of_it)(at)
    s, h = np.array([0.3, -0.2, -1.1]), 1e-5
    assert value.item() == pytest.approx(likelihood(s), rel=1e-10)
    moved = [(likelihood(s + h * e) - likelihood(s - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gp.phix.tree.leaves(slopes), moved, rtol=1e-5)

    inverse = np.linalg.inv(kernel(x, x, s) + np.exp(2 * s[2]) * np.eye(len(x)))
    side = kernel(where, x, s)
    np.testing.assert_allclose(mean, side @ inverse @ y, rtol=1e-6)
    variance = np.exp(2 * s[0]) - np.einsum("ij,jk,ik->i", side, inverse, side)
    np.testing.assert_allclose(deviation.numpy() ** 2, variance, atol=1e-6)
    best = gp.fitted(at, x, y)
    assert np.abs(gp.phix.tree.leaves(best.jac)).max() < 1e-3 and -best.fun.item() > likelihood(s)


def test_a_round_sums_messages_where_they_arrive(example: Any) -> None:
    gnn = example("graph_network")
    net = gnn.GraphNetwork.create(gnn.phix.random.key(0), 1, 4)
    graph, wanted = gnn.drawn(np.random.default_rng(0), nodes=9, edges=7)
    layers = gnn.phix.tree.map(lambda w: w.numpy().astype("d"), net)

    def linear(layer: Any, x: Any) -> Any:
        return x @ layer.weight + (0.0 if layer.bias is None else layer.bias)

    x = graph.nodes.astype("d")
    for step in layers.rounds:
        new = []
        for n in range(9):
            sent = [np.maximum(linear(step.message, np.concatenate([x[a], x[n]])), 0)
                    for a in graph.start[graph.end == n]]  # fmt: skip
            sums = np.sum(sent, 0) if sent else np.zeros(4)
            heard = np.concatenate([sums, sums / max(len(sent), 1)])
            new.append(np.maximum(linear(step.own, x[n]) + linear(step.heard, heard), 0))
        x = np.array(new)
    np.testing.assert_allclose(gnn.phix.jit(net)(graph), linear(layers.out, x)[:, 0], atol=1e-5)
    neighbours = [graph.start[graph.end == n] for n in range(9)]
    largest = [max((graph.nodes[a, 0] for a in near), default=0) for near in neighbours]
    means = [np.mean([largest[a] for a in near]) if len(near) else 0 for near in neighbours]
    np.testing.assert_allclose(wanted, means, rtol=1e-6)
    result = gnn.train(steps=60, size=8)
    assert result.losses[-10:].mean() < 0.3 * result.losses[0] and result.explained < 1


def test_an_operator_is_learnt(example: Any) -> None:
    deeponet = example("deeponet")
    x, weights = np.linspace(0, 1, 201), np.random.default_rng(0).normal(size=(3, 8))
    tensors = (deeponet.phix.to_tensor(v, dtype="float64") for v in (weights, x))
    function, integral = (v.numpy() for v in deeponet.waves(*tensors))
    np.testing.assert_allclose(np.gradient(integral, x, axis=1)[:, 2:-2], function[:, 2:-2],
                               atol=2e-2)  # fmt: skip
    assert np.abs(integral[:, 0]).max() == 0
    result = deeponet.train(steps=150, size=16, batch=32)
    assert result.losses[-10:].mean() < 0.3 * result.losses[0] and result.error < 0.5


def test_the_bound_of_an_autoencoder(example: Any) -> None:
    vae = example("vae")
    net = vae.VAE.create(vae.phix.random.key(0), 6, 5, 2)
    images = np.random.default_rng(0).uniform(size=(3, 6)).astype("f")
    noise = np.random.default_rng(1).normal(size=(3, 2)).astype("f")
    found = vae.phix.jit(vae.loss)(net, images, noise).item()

    p = vae.phix.tree.map(lambda w: w.numpy().astype("d"), net)
    h = np.tanh(images @ p.wide.weight + p.wide.bias)
    mean = h @ p.mean.weight + p.mean.bias
    deviation = np.exp(h @ p.log_deviation.weight + p.log_deviation.bias)
    z = mean + deviation * noise
    logits = np.tanh(z @ p.back.weight + p.back.bias) @ p.pixels.weight + p.pixels.bias
    log_p = images * special.log_expit(logits) + (1 - images) * special.log_expit(-logits)
    # the divergence is an integral; by Gauss and Hermite's points it is exact
    at, weights = np.polynomial.hermite_e.hermegauss(20)
    points = mean[..., None] + deviation[..., None] * at
    ratio = stats.norm.logpdf(at) - np.log(deviation)[..., None] - stats.norm.logpdf(points)
    divergence = (ratio @ weights / weights.sum()).sum(-1)
    assert found == pytest.approx((divergence - log_p.sum(-1)).mean(), rel=1e-5)


def test_an_autoencoder_learns(example: Any) -> None:
    pytest.importorskip("sklearn")
    result = example("vae").train(epochs=3, hidden=8)
    assert result.losses[-1] < 0.95 * result.losses[0]
    assert result.drawn.shape == (9, 9, 8, 8) and result.places.shape == (1797, 2)
