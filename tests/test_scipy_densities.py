"""gaussian_kde beside SciPy's; under transformations beside finite differences."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import scipy.stats

import phix
from phix.core.errors import AttributeValueError, ShapeError
from phix.scipy import densities
from phix.scipy.stats import gaussian_kde

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(5)
SAMPLES = {1: RNG.normal(size=20), 3: RNG.normal(size=(3, 20))}
WEIGHTS = RNG.uniform(size=20)


@pytest.mark.parametrize(
    ("d", "method", "weights"),
    [(1, None, None), (1, 0.3, WEIGHTS), (3, "silverman", WEIGHTS), (3, lambda k: 0.7, None)],
)
def test_densities_are_scipys(d: int, method: Any, weights: Any) -> None:
    found = gaussian_kde(SAMPLES[d], method, weights)
    want = scipy.stats.gaussian_kde(SAMPLES[d], method, weights)
    points, mean, cov = RNG.normal(size=(d, 5)), RNG.normal(size=d), 0.7 * np.eye(d)
    others = RNG.normal(size=(d, 15))
    pairs = [
        (found(points), want(points)), (found.logpdf(points), want.logpdf(points)),
        (found.pdf(points), want.pdf(points)), (found.covariance, want.covariance),
        (found.inv_cov, want.inv_cov), (found.neff, want.neff), (found.weights, want.weights),
        (found.integrate_gaussian(mean, cov), want.integrate_gaussian(mean, cov)),
        (found.integrate_kde(gaussian_kde(others)),
         want.integrate_kde(scipy.stats.gaussian_kde(others))),
    ]  # fmt: skip
    if d == 1:
        pairs.append((found.integrate_box_1d(-0.3, 0.9), want.integrate_box_1d(-0.3, 0.9)))
        pairs.append((found(0.3), want(0.3)))
    else:
        pairs.append((found(points[:, 0]), want(points[:, :1])))
    for mine, own in pairs:
        np.testing.assert_allclose(mine, own, rtol=1e-10)
    assert (found.d, found.n) == (want.d, want.n)


def test_under_transformations() -> None:
    x, points = SAMPLES[3], RNG.normal(size=(3, 4))

    def total(x: Any) -> Any:
        return gaussian_kde(x)(points).sum()

    slope, nudge = phix.jit(phix.grad(total))(x).numpy(), np.zeros_like(x)
    nudge[1, 2] = 1e-6
    want = sum(s * scipy.stats.gaussian_kde(x + s * nudge)(points).sum() for s in (1, -1)) / 2e-6
    np.testing.assert_allclose(slope[1, 2], want, rtol=1e-6)
    made = phix.vmap(gaussian_kde)(np.stack([SAMPLES[1], 2 * SAMPLES[1]]))  # a tree goes through
    boxes = phix.jit(phix.vmap(lambda kde: kde.integrate_box_1d(0.0, 1.0)))(made)
    for box, scale in zip(boxes, (1, 2)):
        own = scipy.stats.gaussian_kde(scale * SAMPLES[1]).integrate_box_1d(0, 1)
        np.testing.assert_allclose(box, own, rtol=1e-10)


def test_draws_have_the_covariance_of_samples_and_kernel() -> None:
    kde = gaussian_kde(SAMPLES[3])
    drawn = kde.resample(phix.random.key(0), (20000,)).numpy()
    want = np.cov(SAMPLES[3], ddof=0) + kde.covariance.numpy()
    assert np.abs(np.cov(drawn) - want).max() < 0.1  # six standard errors
    assert kde.resample(phix.random.key(0), (2, 3)).shape == (3, 2, 3)
    assert kde.resample(phix.random.key(0)).shape == (3,)


def test_refusals() -> None:
    kde = gaussian_kde(SAMPLES[3])
    for error, text, call in [
        (ShapeError, r"n from 2 on", lambda: gaussian_kde([1.0])),
        (ShapeError, r"weights are one number", lambda: gaussian_kde([1.0, 2.0], None, [1.0])),
        (AttributeValueError, r"bw_method is", lambda: gaussian_kde([1.0, 2.0], "other")),
        (ShapeError, r"points are \[d, m\]", lambda: kde(np.ones(2))),
        (ShapeError, r"integrate_box_1d", lambda: kde.integrate_box_1d(0, 1)),
        (ShapeError, r"integrate_kde", lambda: kde.integrate_kde(gaussian_kde([1.0, 2.0]))),
        (ShapeError, r"integrate_gaussian", lambda: kde.integrate_gaussian([1.0], [[1.0]])),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_the_examples_run() -> None:
    found = doctest.testmod(densities)
    assert found.attempted and not found.failed
