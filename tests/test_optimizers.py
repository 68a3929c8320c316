"""Optimizers over several steps, in training loops, in place, and differentiated."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError, ConcretizationError, DonatedTensorError

RNG = np.random.default_rng(3)
BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8


def ones(value: float = 1.0) -> phix.Tensor:
    return phix.full([1], value, "float64")


def adam_state(w: Any) -> tuple[Any, ...]:
    return w, phix.zeros_like(w), phix.zeros_like(w), ones(BETA1), ones(BETA2)


def adamw(state: Any, g: Any, rate: Any, **settings: Any) -> Any:
    w, m, v, power1, power2 = state
    outs = ops.adamw_(
        w, g, rate, m, v, None, power1, power2, None, None, BETA1, BETA2, EPSILON, **settings
    )
    return (*outs[:3], *outs[4:6])


def test_adam_over_steps_is_its_closed_form() -> None:
    """The moments as sums over all gradients so far, corrected by 1 - beta ** t."""
    grads = RNG.normal(size=(6, 4))
    w = np.zeros(4)
    state = adam_state(phix.zeros([4], "float64"))
    for t in range(1, len(grads) + 1):
        state = adamw(state, grads[t - 1], np.float64(0.1))
        ages = np.arange(t)[::-1, None]
        mean = (1 - BETA1) * (BETA1**ages * grads[:t]).sum(0) / (1 - BETA1**t)
        square = (1 - BETA2) * (BETA2**ages * grads[:t] ** 2).sum(0) / (1 - BETA2**t)
        w = w - 0.1 * mean / (np.sqrt(square) + EPSILON)
        np.testing.assert_allclose(state[0], w, rtol=1e-12)
    np.testing.assert_allclose(state[3], BETA1**7, rtol=1e-14)


def test_momentum_over_steps_is_its_closed_form() -> None:
    grads, w, v = RNG.normal(size=(5, 3)), phix.zeros([3], "float64"), phix.zeros([3], "float64")
    for g in grads:
        w, v, _ = ops.momentum_(w, g, v, 0.5, None, 0.8)
    weights = (1 - 0.8 ** np.arange(5, 0, -1)) / (1 - 0.8)
    np.testing.assert_allclose(w, -0.5 * (weights[:, None] * grads).sum(0), rtol=1e-12)


def test_asgd_goes_along_the_mean_of_the_last_gradients() -> None:
    grads, n = RNG.normal(size=(7, 2)), 3
    w, d = phix.zeros([2], "float64"), phix.zeros([2], "float64")
    seen = [np.zeros(2)] * n
    expected = np.zeros(2)
    for t, g in enumerate(grads):
        w, d, seen[t % n], _ = ops.asgd_(w, g, 0.5, d, phix.to_tensor(seen[t % n]), float(n), None)
        expected = expected - 0.5 * grads[max(0, t - n + 1) : t + 1].sum(0) / n
        np.testing.assert_allclose(w, expected, rtol=1e-12)


def test_nadam_and_radam_begin_as_adam_with_few_steps() -> None:
    """Of one step from rest: radam has no second moment yet, nadam one of size about the rate."""
    g, w = RNG.normal(size=4), phix.zeros([4], "float64")
    none = (phix.zeros([4], "float64"), phix.zeros([4], "float64"), None)
    out = ops.radam_(w, g, np.float64(0.1), ones(), ones(), ones(0.0), *none)
    np.testing.assert_allclose(out[0], -0.1 * g, rtol=1e-12)
    w = phix.zeros([4], "float64")
    none = (phix.zeros([4], "float64"), phix.zeros([4], "float64"), None)
    out = ops.nadam_(w, g, np.float64(0.1), ones(), ones(), ones(), *none, beta1=0.0)
    np.testing.assert_allclose(out[0], -0.1 * np.sign(g), rtol=1e-6)


def one_weight(tx: Any, grads: list[float], dtype: str) -> Any:
    """How a weight moves by each gradient."""
    state, updates = tx.init(phix.zeros([1], dtype)), []
    for g in grads:
        update, state = tx.update(phix.full([1], g, dtype), state)
        updates.append(update.item())
    return np.array(updates)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("b2", [0.99, 0.9999, 0.999999])
def test_radam_knows_the_length_of_its_memory_to_all_digits(b2: float, dtype: str) -> None:
    """Five steps are one too few, however slowly the squares are forgotten: by the paper's formula
    in exact fractions."""
    decay, length = Fraction(b2), []
    most = 2 / (1 - decay) - 1
    for n in range(1, 9):
        length.append(most - 2 * n * decay**n / (1 - decay**n))
    ratios = [(t - 4) * (t - 2) * most / ((most - 4) * (most - 2) * t) for t in length]
    expected = [math.sqrt(r) if t >= 5 else 2.0 for t, r in zip(length, ratios)]
    found = one_weight(phix.optim.scale_by_radam(b2=b2, eps=0.0), [2.0] * 8, dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-9 if dtype == "float64" else 1e-5)


def test_rprop_grows_by_its_settings_to_all_digits() -> None:
    found = one_weight(phix.optim.scale_by_rprop(0.1), [1.0] * 9 + [-1.0] * 3, "float64")
    sizes = [*(0.1 * 1.2**n for n in range(9)), 0.0, *(-0.05 * 1.2 ** (8 + n) for n in range(2))]
    np.testing.assert_allclose(found, sizes, rtol=1e-14)


# -- a whole training loop ---------------------------------------------------------------------
X, Y = RNG.normal(size=(16, 3)), RNG.normal(size=(16, 2))
SHAPES = {"w1": (3, 8), "b1": (8,), "w2": (8, 2), "b2": (2,)}
START = {name: RNG.normal(size=dims) * 0.5 for name, dims in SHAPES.items()}
RATE, DECAY, STEPS = 0.01, 0.1, 12


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = ops.tanh(ops.matmul(x, params["w1"]) + params["b1"])
    gap = ops.matmul(hidden, params["w2"]) + params["b2"] - y
    return ops.mean(gap * gap)


def numpy_gradients(p: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    hidden = np.tanh(X @ p["w1"] + p["b1"])
    gap = 2 * (hidden @ p["w2"] + p["b2"] - Y) / Y.size
    inner = (gap @ p["w2"].T) * (1 - hidden**2)
    return {"w1": X.T @ inner, "b1": inner.sum(0), "w2": hidden.T @ gap, "b2": gap.sum(0)}


def trained_by_numpy() -> dict[str, np.ndarray]:
    """AdamW of I. Loshchilov and F. Hutter, 2019: the decay apart from the moments."""
    p = {name: value.copy() for name, value in START.items()}
    m, v = ({name: 0 * value for name, value in p.items()} for _ in range(2))
    for t in range(1, STEPS + 1):
        for name, g in numpy_gradients(p).items():
            m[name] = BETA1 * m[name] + (1 - BETA1) * g
            v[name] = BETA2 * v[name] + (1 - BETA2) * g**2
            mean, square = m[name] / (1 - BETA1**t), v[name] / (1 - BETA2**t)
            p[name] = p[name] * (1 - RATE * DECAY) - RATE * mean / (np.sqrt(square) + EPSILON)
    return p


def test_an_mlp_trained_in_place_is_that_of_numpy() -> None:
    def step(states: Any, x: Any, y: Any) -> Any:
        grads = phix.grad(loss)({name: state[0] for name, state in states.items()}, x, y)
        settings = {"coeff": DECAY, "with_decay": True}
        return {
            name: adamw(states[name], grads[name], np.float64(RATE), **settings) for name in states
        }

    update = phix.jit(step, donate_argnums=0)
    states = {name: adam_state(phix.to_tensor(value)) for name, value in START.items()}
    held = {name: states[name][0].data.__array_interface__["data"][0] for name in states}
    for _ in range(STEPS):
        states = update(states, X, Y)
    assert update.trace_count == 1
    for name, value in trained_by_numpy().items():
        np.testing.assert_allclose(states[name][0], value, rtol=1e-10)
        assert states[name][0].data.__array_interface__["data"][0] == held[name]


def test_a_step_is_one_pass_over_the_weights() -> None:
    text = (
        phix.jit(lambda *a: ops.adam_(a[0], a[1], a[4], a[2], a[3], None, a[4], a[4], None, None))
        .lower(*[phix.ones([1000])] * 4, phix.ones([1]))
        .as_text("loop ir")
    )
    assert text.count("range(1000)") == 1, text


# -- in place, and what is refused -------------------------------------------------------------
def test_eager_steps_stay_in_their_memory() -> None:
    w, m = phix.to_tensor(RNG.normal(size=5)), phix.zeros([5], "float64")
    places = [x.data.__array_interface__["data"][0] for x in (w, m)]
    new, moment, _ = ops.adagrad_(w, np.ones(5), m, 0.1, None)
    assert [x.data.__array_interface__["data"][0] for x in (new, moment)] == places
    for ended in (w, m):
        with pytest.raises(DonatedTensorError, match=r"donated to adagrad_ \(at .*or pass a copy"):
            ended.numpy()


def test_master_weights_keep_what_16_bits_lose() -> None:
    w = phix.ones([3], "float16")
    master = phix.ones([3], "float32")
    for _ in range(10):
        w, master = ops.sgd_(w, 1e-4, phix.ones([3], "float16"), master, multi_precision=True)
    np.testing.assert_allclose(master, 1 - 1e-3, rtol=1e-6)
    assert w.dtype == "float16" and abs(w[0].item() - 0.999) < 5e-4
    with pytest.raises(ArgumentError, match=r"sgd_.*multi_precision=False with a master_param"):
        ops.sgd_(w, 1e-4, phix.ones([3], "float16"), master)


def test_steps_are_skipped_and_powers_kept() -> None:
    state = adam_state(phix.to_tensor(RNG.normal(size=3)))
    before = [x.numpy().copy() for x in state]
    w, m, v, power1, power2 = state
    outs = ops.adam_(w, np.ones(3), 0.1, m, v, None, power1, power2, None, [True])
    for found, wanted in zip((*outs[:3], *outs[4:6]), before):
        np.testing.assert_array_equal(found, wanted)
    assert outs[3] is None and outs[6] is None


# -- differentiated, mapped --------------------------------------------------------------------
def test_two_steps_differentiated_by_the_rate() -> None:
    def after(rate: Any, decay: Any) -> Any:
        state = adam_state(phix.to_tensor([1.0, -2.0], "float64"))
        for _ in range(2):
            state = adamw(state, 2.0 * state[0], rate, coeff=decay, with_decay=True)
        return ops.sum(state[0] * state[0])

    at = np.array([0.1, 0.2])
    found = phix.grad(after, argnums=(0, 1))(*at)
    for k in range(2):
        shift = np.where(np.arange(2) == k, 1e-6, 0)
        up, down = at + shift, at - shift
        wanted = (after(*up).item() - after(*down).item()) / 2e-6
        np.testing.assert_allclose(found[k].item(), wanted, rtol=1e-6)


def test_settings_that_are_traced() -> None:
    def step(beta1: Any) -> Any:
        w, m, v, power1, power2 = adam_state(phix.ones([2], "float64"))
        return ops.adam_(w, [1.0, 2.0], 0.1, m, v, None, power1, power2, None, None, beta1)[1]

    np.testing.assert_allclose(phix.jit(step)(0.75), [0.25, 0.5], rtol=1e-6)
    with pytest.raises(ConcretizationError, match="lamb_"):
        phix.jit(lambda d: ops.lamb_(np.ones(2), np.ones(2), 0.1, np.ones(2), np.ones(2), 0.9, 0.9,
                                     None, None, d))(0.1)  # fmt: skip


def test_a_population_is_trained_by_vmap() -> None:
    rates = np.array([0.1, 0.2, 0.4])

    def run(rate: Any, w: Any) -> Any:
        return phix.fori_loop(0, 3, lambda i, w: ops.sgd_(w, rate, 2.0 * w, None)[0], w)

    found = phix.jit(phix.vmap(run, in_axes=(0, None)))(rates, np.ones(2))
    np.testing.assert_allclose(found, ((1 - 2 * rates) ** 3)[:, None] * np.ones(2), rtol=1e-12)


def test_private_descent_clips_and_adds_noise() -> None:
    key, w, g = phix.random.key(4), np.zeros(20_000), np.full(20_000, 3.0)
    still = ops.dpsgd(key, w, g, 1.0, clip=1.0, sigma=0.0)
    np.testing.assert_allclose(np.linalg.norm(still), 1.0, rtol=1e-12)
    noise = (ops.dpsgd(key, w, g, 1.0, clip=1.0, batch_size=4.0, sigma=2.0) - still).numpy()
    assert abs(noise.std() - 0.5) < 0.01 and abs(noise.mean()) < 0.02


def test_mixed_precision_training_backs_off_and_grows() -> None:
    scale, good, bad = phix.full([1], 8.0), phix.zeros([1], "int32"), phix.zeros([1], "int32")
    seen = []
    for grads in ([2.0], [np.inf], [4.0], [4.0]):
        (g,), found = ops.check_finite_and_unscale_([np.array(grads, np.float32)], scale)
        (g,), scale, good, bad = ops.update_loss_scaling_(
            [g], found, scale, good, bad, 2, 1, 2.0, 0.5
        )
        seen.append((g.item(), scale.item()))
    assert seen == [(0.25, 8.0), (0.0, 4.0), (1.0, 4.0), (1.0, 8.0)]
