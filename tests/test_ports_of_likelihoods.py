"""Ports of other libraries' examples of fits: each beside SciPy, NumPy, or a closed form."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import phix

pytestmark = pytest.mark.unoptimised
PORTS = Path(__file__).resolve().parents[1] / "examples" / "ports"
RNG = np.random.default_rng(3)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(PORTS)
    return importlib.import_module


def test_a_negative_binomial_solves_the_equation_of_its_likelihood(port: Any) -> None:
    x = port("negative_binomial").data(count=80)
    found = phix.jit(port("negative_binomial").fit)(x, np.float64(1.0))
    value = port("negative_binomial").log_likelihood(*found, x).item()
    r, p = (v.item() for v in found)
    slope = scipy.special.digamma(r + x).sum() - len(x) * scipy.special.digamma(r)
    assert abs(slope + len(x) * np.log(1 - p)) < 1e-9 and p == pytest.approx(
        x.mean() / (r + x.mean())
    )
    assert value == pytest.approx(scipy.stats.nbinom.logpmf(x, r, 1 - p).sum(), rel=1e-12)


def test_a_fixed_point_has_all_derivatives(port: Any) -> None:
    """Those of the square root, though the steps that lead there are others."""
    root, factor = port("fixed_point").square_root, 1.0
    for order in range(4):
        for a in (2.0, 3.5):
            found = root(phix.to_tensor(a, "float64")).item()
            np.testing.assert_allclose(found, factor * a ** (0.5 - order), rtol=1e-10)
        root, factor = phix.grad(root), factor * (0.5 - order)


def test_independent_components_are_likelier_than_the_truth(port: Any) -> None:
    module = port("independent_components")
    clean, seen = module.data(width=12, count=15, noise=0.3)
    found = module.fit(seen, 2, rounds=150)
    x = {name: value.numpy() for name, value in found.x.items()}
    guess = x["latents"].T @ x["weights"].T

    def of(mean: Any, scale: Any) -> Any:
        return scipy.stats.t.logpdf(mean, 2.4, seen, scale).sum() / len(seen)

    assert -found.fun.item() == pytest.approx(of(guess, np.exp(x["log_noise"])), rel=1e-9)
    assert -found.fun.item() > max(of(clean, s) for s in np.linspace(0.05, 0.6, 23))


def test_a_deep_process_is_likelier_than_one_process(port: Any) -> None:
    module, one = port("deep_gaussian_process"), port("gaussian_regression")
    x, y = module.data(10)
    found = module.fit(x, y, rounds=60)
    hidden = found.x["hidden"].numpy()

    def value(p: Any, x: Any, y: Any) -> Any:
        p = {name: number.item() for name, number in p.items()}
        away = (x[:, None] - x) / np.exp(p["log_length"])
        table = np.exp(2 * p["log_height"] - 0.5 * away**2)
        noisy = table + np.exp(2 * p["log_noise"]) * np.eye(len(x))
        return -scipy.stats.multivariate_normal.logpdf(
            y, np.zeros(len(x)), noisy, allow_singular=True
        )

    total = value(found.x["first"], x, hidden) + value(found.x["second"], hidden, y)
    np.testing.assert_allclose(found.fun.item(), total, rtol=1e-4)
    assert found.fun.item() < one.fit(x, y, 30).fun.item()
    mean = module.deep_predict(found.x, x, y, x)[0]
    np.testing.assert_allclose(mean, y, atol=0.3)


def test_an_adversarial_pair_learns_in_opposite_directions(port: Any) -> None:
    module = port("adversarial")
    real = phix.to_tensor(module.data(40))
    (pair, _), values = module.train(phix.random.key(0), real, steps=12, batch=20, width=3)
    assert np.isfinite(values).all()
    noise = RNG.normal(size=(30, 3)).astype("f")

    def run(layers: Any, x: Any) -> Any:
        for number, layer in enumerate(layers):
            x = x @ layer.weight.numpy().astype(float) + layer.bias.numpy()
            x = np.maximum(x, 0) if number < len(layers) - 1 else x
        return x

    fake = run(pair[1], run(pair[0], noise))
    want = scipy.special.log_expit(run(pair[1], real.numpy())).mean()
    want += scipy.special.log_expit(-fake).mean()
    value, slopes = phix.value_and_grad(module.loss, (0, 1))(*pair, noise, real)
    assert value.item() == pytest.approx(want, rel=1e-5)
    for mine, sign in ((0, -1), (1, 1)):
        moved = list(pair)
        moved[mine] = phix.tree.map(lambda p, g, s=sign: p + 0.01 * s * g, pair[mine], slopes[mine])
        assert sign * (module.loss(*moved, noise, real).item() - value.item()) > 0
