"""Quantisation where samples of the op table do not reach: ties, gradients, states left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised


def test_halves_go_to_even_or_away_from_zero() -> None:
    x = np.array([7, -2.5, 1.5, -3, 0.5, 0.0], np.float32)
    for round_type, wanted in ((0, [7, -2, 2, -3, 0, 0]), (1, [7, -3, 2, -3, 1, 0])):
        out, scale = ops.fake_quantize_abs_max(x, 4, round_type)
        np.testing.assert_array_equal(np.asarray(out), wanted)
        assert np.asarray(scale).tolist() == [7]
    out, scale = ops.fake_quantize_abs_max(np.zeros(3, np.float32))
    assert np.asarray(out).tolist() == [0, 0, 0] and float(scale) == 0


STRAIGHT = {
    "fake_quantize_dequantize_abs_max": lambda x: ops.fake_quantize_dequantize_abs_max(x),
    "fake_channel_wise_quantize_dequantize_abs_max": (
        lambda x: ops.fake_channel_wise_quantize_dequantize_abs_max(x)
    ),
    "fake_quantize_dequantize_moving_average_abs_max": (
        lambda x: ops.fake_quantize_dequantize_moving_average_abs_max(x, np.ones(1), None, None)
    ),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_gradients_pass_straight_through(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3))

    def loss(x: Any) -> Any:
        return (STRAIGHT[name](x)[0] ** 2).sum()

    for f in (phix.grad(loss), phix.jit(phix.grad(loss))):
        np.testing.assert_allclose(np.asarray(f(x)), 2 * np.asarray(STRAIGHT[name](x)[0]))
    assert np.asarray(phix.grad(lambda x: phix.grad(loss)(x).sum())(x)).tolist() == [[2] * 3] * 2


def test_states_that_are_left_out() -> None:
    x, one = np.array([1.0, -3.0]), np.array([2.0])
    _, scale, state, accum = ops.fake_quantize_moving_average_abs_max(x, one, None, None, 0.5)
    assert state is None and accum is None
    assert float(scale) == pytest.approx((0.5 * 2 + 3) / 1.5)
    tested = ops.fake_quantize_range_abs_max(x, one, None, is_test=True)
    assert tested[2] is None and np.asarray(tested[0]).tolist() == [64, -127]
    with pytest.raises(phix.errors.PhixError, match="iter"):
        ops.fake_quantize_range_abs_max(x, one, None)


@pytest.mark.parametrize("algo", ["weight_only_int8", "weight_only_int4", "llm.int8"])
@pytest.mark.parametrize("group_size", [-1, 4])
def test_weights_come_back(algo: str, group_size: int) -> None:
    """Within half a unit of the ints, by the dequantised weights and by the product alike."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(8, 6)), rng.normal(size=(3, 8))
    out, scale = ops.weight_quantize(w, algo, group_size=group_size)
    back = np.asarray(ops.weight_dequantize(out, scale, algo, "float64", group_size))
    unit = np.abs(w).max() / (7 if algo.endswith("int4") else 127)
    assert np.abs(back - w).max() <= 0.5 * unit * (1 + 1e-6)
    if algo != "llm.int8":
        product = ops.weight_only_linear(x, out, None, scale, algo[-4:], group_size=group_size)
        np.testing.assert_allclose(np.asarray(product), x @ back, rtol=1e-6, atol=1e-6)
    elif group_size == -1:
        found = np.asarray(ops.llm_int8_linear(x, out, None, scale, threshold=1.5))
        assert np.abs(found - x @ back).max() < 0.05
        exact = np.asarray(ops.llm_int8_linear(x, out, None, scale, threshold=0.0))
        np.testing.assert_allclose(exact, x @ back, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("take", [lambda outs: outs[0], lambda outs: outs[0] + outs[1]])
def test_gradients_go_on_to_what_comes_before(take: Any) -> None:
    """Of what is rounded straight through; of the scale, the largest, to where it comes from."""
    x = np.array([0.3, -0.9, 0.5])
    grad = phix.grad(lambda x: ops.sum(take(ops.fake_quantize_dequantize_abs_max(ops.sin(x)))))(x)
    wanted = np.cos(x)
    if take((0.0, 1.0)):
        wanted[1] += -3 * np.cos(x[1])  # the largest is -sin(x[1])
    np.testing.assert_allclose(grad, wanted, rtol=1e-12)
