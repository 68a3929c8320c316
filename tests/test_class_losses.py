"""Losses of labels, and spectral_norm, where samples of the op table do not reach."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from harness.references.linalg import spectral_norm
from phix import ops


def test_no_label_counts() -> None:
    x, label = np.ones((2, 3)), np.array([-100, -100])
    loss, total = ops.nll_loss(x, label)
    assert (float(loss), float(total)) == (0, 0)
    slopes = phix.grad(lambda x: ops.nll_loss(x, label)[0])(x)
    np.testing.assert_array_equal(np.asarray(slopes), np.zeros((2, 3)))


def test_labels_that_are_no_class_are_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    for call in (
        lambda: ops.nll_loss(x, np.array([0, 3])),
        lambda: ops.margin_cross_entropy(x, np.array([0, 3])),
        lambda: ops.hsigmoid_loss(x, np.array([0, 5]), x, None, None, None, 3, False),
    ):
        with pytest.raises(phix.errors.TensorIndexError, match="label"):
            call()


def test_gradients_pass_the_bounds_of_a_tree() -> None:
    """As in Paddle: the score counts as 40, and its slope is that at 40."""
    x, w = np.array([[100.0]]), np.array([[1.0]])

    def loss(x: phix.Tensor, label: int) -> phix.Tensor:
        return ops.hsigmoid_loss(x, np.array([label]), w, None, None, None, 2, False)[0].sum()

    values, slopes = zip(*(phix.value_and_grad(loss)(x, label) for label in (0, 1)))
    np.testing.assert_allclose([float(v) for v in values], [40, 0], atol=1e-15)
    np.testing.assert_allclose([float(s.sum()) for s in slopes], [1, 0], atol=1e-15)


def test_the_power_method_of_spectral_norm() -> None:
    rng = np.random.default_rng(0)
    weight, u, v = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4)
    found = np.asarray(ops.spectral_norm(weight, u, v, power_iters=3, eps=0.1))
    np.testing.assert_allclose(found, spectral_norm(weight, u, v, 0, 3, 0.1), rtol=1e-13)
    # after many steps the derivative is that of weight / sigma
    left, sigma, right = np.linalg.svd(weight)
    slope = phix.grad(lambda w: ops.spectral_norm(w, u, v, power_iters=200)[0, 1])(weight)
    wanted = -weight[0, 1] / sigma[0] ** 2 * np.outer(left[:, 0], right[0])
    wanted[0, 1] += 1 / sigma[0]
    np.testing.assert_allclose(np.asarray(slope), wanted, rtol=1e-10)
