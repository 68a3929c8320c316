"""Recurrent networks and losses over alignments: what samples of single ops do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from harness.references import recurrent as networks
from harness.references import sequence as references
from phix import ops
from phix.core.errors import AttributeValueError, PhixError

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
KEY = phix.random.key(0)


def drawn(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims)


def weights(gates: int, width: int, size: int, layers: int, directions: int) -> list[np.ndarray]:
    pairs = [
        (width if layer == 0 else size * directions, size)
        for layer in range(layers)
        for _ in range(directions)
    ]
    matrices = [drawn(gates * size, n) for pair in pairs for n in pair]
    return [*matrices, *(drawn(gates * size) for _ in matrices)]


@pytest.mark.parametrize("mode, states", [("RNN_TANH", 1), ("RNN_RELU", 1), ("LSTM", 2)])
def test_layers_of_cells_with_lengths(mode: str, states: int) -> None:
    w = weights(4 if mode == "LSTM" else 1, 3, 2, 2, 2)
    x, state = drawn(4, 3, 3), [drawn(4, 3, 2) for _ in range(states)]
    lengths = np.array([4, 0, 2])
    sizes: dict[str, Any] = {"input_size": 3, "hidden_size": 2, "num_layers": 2}
    out, _, found = ops.rnn(x, state, w, lengths, KEY, is_bidirec=True, mode=mode, **sizes)
    wanted = networks.rnn(x, state, w, lengths, 2, True, mode, KEY)
    for a, b in zip((out, *found), (wanted[0], *wanted[2:])):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_dropout_between_layers_follows_the_key() -> None:
    w = [np.eye(64, dtype="f"), np.zeros((64, 64), "f")] * 2 + [np.zeros(64, "f")] * 4
    x, state = np.ones((3, 5, 64), "f"), [np.zeros((2, 5, 64), "f")]
    sizes: dict[str, Any] = {"input_size": 64, "hidden_size": 64, "num_layers": 2}

    @phix.jit
    def run(key: Any) -> Any:
        return ops.rnn(x, state, w, None, key, 0.25, mode="RNN_RELU", **sizes)[:2]

    (first, after), (again, _), (other, _) = run(KEY), run(KEY), run(run(KEY)[1])
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first.numpy())) == {0.0, np.float32(1 / 0.75)}
    assert abs(float((first == 0).astype("float32").mean().item()) - 0.25) < 0.06
    assert not np.array_equal(first, other) and not np.array_equal(after, KEY)
    still = ops.rnn(x, state, w, None, KEY, 0.25, mode="RNN_RELU", is_test=True, **sizes)[0]
    np.testing.assert_array_equal(still, x)


def test_cudnn_lstm_takes_its_weights_flat_or_as_a_list() -> None:
    w = weights(4, 3, 2, 2, 2)
    x, state = drawn(4, 3, 3), [drawn(4, 3, 2) for _ in range(2)]
    sizes: dict[str, Any] = {"hidden_size": 2, "num_layers": 2, "is_bidirec": True}
    flat = np.concatenate([part.ravel() for part in w])
    one = ops.cudnn_lstm(x, *state, flat, None, None, **sizes)
    two = ops.cudnn_lstm(x, *state, None, w, None, **sizes)
    for a, b in zip(one, two):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(AttributeValueError, match="cudnn_lstm drops by the key of its seed"):
        ops.cudnn_lstm(x, *state, flat, None, None, 0.5, **sizes)
    dropped = ops.cudnn_lstm(x, *state, flat, None, None, 0.5, seed=3, **sizes)[0]
    assert not np.allclose(dropped, one[0])


LABEL = np.array([[1, 2], [1, 1], [0, 0], [2, 2]])
TIMES, COUNTS = np.array([4, 4, 3, 2]), np.array([2, 2, 0, 2])


def test_ctc_without_a_path_is_inf_and_has_derivative_0() -> None:
    x = drawn(4, 4, 3)

    def loss(x: Any, by_times: bool = False) -> Any:
        return ops.warpctc(x, LABEL, TIMES, COUNTS, norm_by_times=by_times)[:, 0]

    wanted = references.ctc(x, LABEL, TIMES, COUNTS, 0)[:, 0]
    assert np.isinf(wanted[3])
    for by_times in (False, True):
        np.testing.assert_allclose(loss(phix.to_tensor(x), by_times), wanted, rtol=1e-12)
    pull = phix.jit(lambda x: (phix.vjp(loss, x)[1](phix.ones([4], "float64"))[0],
                               phix.grad(lambda x: loss(x, True).sum())(x)))  # fmt: skip
    grad, slower = (np.asarray(g) for g in pull(phix.to_tensor(x)))
    np.testing.assert_allclose(slower, grad / TIMES[:, None], rtol=1e-12, atol=1e-15)
    assert not grad[:, 3].any() and not grad[3, 2].any()  # behind the end of a sequence
    np.testing.assert_allclose(grad.sum(-1), 0, atol=1e-12)
    second = phix.jit(phix.grad(lambda x: (phix.grad(lambda x: loss(x).sum())(x) ** 2).sum()))
    assert np.isfinite(second(phix.to_tensor(x))).all()


def test_ctc_of_a_long_sequence_does_not_underflow() -> None:
    x = np.zeros((3000, 1, 2), np.float32)
    label = np.ones((1, 1), np.int64)
    # of 2 ** steps paths, those of one run of ones: steps * (steps + 1) / 2
    wanted = 3000 * np.log(2) - np.log(3000 * 3001 / 2)
    found, pull = phix.vjp(lambda x: ops.warpctc(x, label), phix.to_tensor(x))
    np.testing.assert_allclose(found.item(), wanted, rtol=1e-6)
    (grad,) = pull(phix.ones([1, 1]))
    run = np.arange(1.0, 3001)  # of these runs, how many hold step t
    share = run * run[::-1] / (3000 * 3001 / 2)
    np.testing.assert_allclose(np.asarray(grad)[:, 0, 1], 0.5 - share, atol=1e-5)


def test_ctc_and_rnnt_of_wrong_labels_are_nan() -> None:
    x = drawn(4, 4, 3)
    for row, value in ((0, 3), (1, 0), (3, -1)):
        label = LABEL.copy()
        label[row, 0] = value
        found = np.asarray(ops.warpctc(x, label, TIMES, COUNTS))[:, 0]
        assert np.isnan(found[row]) and np.isnan(found).sum() == 1
    assert np.isnan(ops.warpctc(x, LABEL, TIMES + 1, COUNTS)[0, 0].item())
    lattice = drawn(1, 3, 2, 3)
    for label, times, counts in (([[3]], [3], [1]), ([[1]], [4], [1]), ([[1]], [3], [2])):
        assert np.isnan(ops.warprnnt(lattice, label, times, counts).item())


def test_rnnt_is_the_sum_over_ways_and_fastemit_weighs_labels() -> None:
    x = drawn(3, 4, 4, 3)
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    label, times, counts = RNG.integers(1, 3, (3, 3)), np.array([4, 1, 3]), np.array([3, 2, 0])

    def loss(x: Any, weight: float) -> Any:
        return ops.warprnnt(x, label, times, counts, fastemit_lambda=weight).sum()

    wanted = references.rnnt(x, label, times, counts, 0).sum()
    both = phix.jit(lambda x: [phix.value_and_grad(loss)(x, w) for w in (0.0, 0.5)])
    (value, plain), (same, weighed) = both(phix.to_tensor(x))
    np.testing.assert_allclose([value, same], wanted, rtol=1e-12)
    plain, weighed = np.asarray(plain), np.asarray(weighed)
    np.testing.assert_allclose(weighed[..., 1:], 1.5 * plain[..., 1:], rtol=1e-12)
    np.testing.assert_allclose(weighed[..., 0], plain[..., 0], rtol=1e-12)
    np.testing.assert_allclose(plain[0, :, :, 0].sum(), -4)  # each way takes four blanks


def test_decoders_of_longer_sequences() -> None:
    x, w = drawn(4, 9, 5), drawn(5, 5)
    lengths = np.array([9, 0, 1, 6])
    for found, want in zip(
        ops.viterbi_decode(x, w, lengths), references.viterbi(x, w, lengths, True)
    ):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    w, label = drawn(7, 5), RNG.integers(0, 5, (4, 9))
    found = ops.crf_decoding(x, w, label, lengths)
    np.testing.assert_array_equal(found, references.crf_decoding(x, w, label, lengths))


@pytest.mark.parametrize("scheme, tags", [("IOE", 2), ("plain", 1), ("IOBES", 4)])
def test_chunks_of_other_schemes(scheme: str, tags: int) -> None:
    label = RNG.integers(0, 3 * tags + 1, (4, 30))
    guess = np.where(RNG.random(label.shape) < 0.8, label, 3 * tags)
    lengths = np.array([30, 7, 0, 21])
    args = (guess, label, lengths, 3, scheme, [1])
    for a, b in zip(ops.chunk_eval(*args), references.chunk_eval(*args)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_masks_as_long_as_the_longest() -> None:
    x = phix.to_tensor([2, 0, 3])
    mask = phix.jit(lambda x: ops.sequence_mask(x, x.max(), "int64"))
    for found in (mask(x), ops.sequence_mask(x, x.max(), "int64")):
        assert found.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    with pytest.raises(PhixError, match=r"write max_len=x.max\(\)"):
        ops.sequence_mask(x, -1, "int64")


def test_pools_and_convolutions_of_no_rows() -> None:
    x = np.zeros((0, 2), np.float32)
    for kind in ("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST"):
        assert ops.sequence_pool(x, pooltype=kind, pad_value=3.0).tolist() == [[3.0, 3.0]]
    rows = drawn(3, 2)
    for kind in ("SUM", "AVERAGE", "FIRST", "LAST"):
        found = ops.sequence_pool(rows, pooltype=kind)
        np.testing.assert_allclose(found, references.sequence_pool(rows, kind, 0.0), rtol=1e-12)
    assert ops.sequence_conv(x, None, np.ones((4, 3), np.float32), 2).shape == (0, 3)
