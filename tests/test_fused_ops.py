"""Ops that name several others at once, where samples of the op table do not reach."""

from __future__ import annotations

import numpy as np
import pytest

import phix
from harness.references.flash_attention import flash_attention
from harness.references.matching import yolo_losses
from phix import ops

pytestmark = pytest.mark.unoptimised


def drawn(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims)


# -- attention -------------------------------------------------------------------------------------
def test_a_query_that_sees_no_key_gets_zeros_and_no_gradient():
    q, mask = drawn(1, 3, 1, 2), np.ones((1, 1, 3, 3), bool)
    mask[..., 1, :] = False

    def attended(q):
        out, _, lse, _ = ops.flash_attn(q, q, q, None, mask)
        return out, lse

    out, lse = attended(q)
    wanted = flash_attention(q, q, q, mask, False, False)
    assert np.allclose(out, wanted[0]) and np.allclose(lse, wanted[2])
    assert lse[0, 0, 1].item() == -np.inf
    two = ops.flash_attn(q, q, q, None, mask[0, 0])[0]  # the first axes of a mask may be left out
    np.testing.assert_array_equal(two, out)

    def cost(q):
        return (attended(q)[0] ** 2.0).sum()

    grad = np.asarray(phix.grad(lambda q: ops.flash_attn(q, q, q, None, mask)[0][0, 1].sum())(q))
    assert not grad.any()
    assert np.isfinite(np.asarray(phix.jit(phix.grad(cost))(q))).all()


def test_dropout_of_attention_is_drawn_of_its_key():
    q = drawn(1, 4, 2, 3)
    key = phix.random.key(5)

    def dropped(key):
        return ops.flash_attn(q, q, q, key, None, 0.5, return_softmax=True)

    out, weights, _, used = dropped(key)
    assert np.array_equal(used, key) and np.array_equal(out, dropped(key)[0])
    assert not np.array_equal(out, dropped(phix.random.key(6))[0])
    plain = ops.flash_attn(q, q, q, key, None, 0.5, return_softmax=True, is_test=True)
    assert np.allclose(weights, plain[1]) and not np.allclose(out, plain[0])
    kept = np.linalg.norm(np.asarray(out)[0, :, 0, :])
    assert kept > 0


def test_packed_sequences_are_as_each_alone():
    q = drawn(5, 2, 3)
    marks = np.array([0, 2, 2, 5], np.int32)
    packed = phix.jit(
        lambda q, marks: ops.flash_attn_unpadded(
            q, q, q, marks, marks, None, None, 3, 3, 3**-0.5, causal=True
        )[0]
    )(q, marks)
    alone = [ops.flash_attn(p[None], p[None], p[None], causal=True)[0][0] for p in (q[:2], q[2:])]
    assert np.allclose(packed, np.concatenate([np.asarray(a) for a in alone]))


def test_marks_behind_the_rows_are_refused():
    q, whole = np.ones((3, 1, 2)), np.array([0, 3], np.int32)
    for marks in (np.array([0, 9], np.int32), np.array([-1, 3], np.int32)):
        for pair in ((marks, whole), (whole, marks)):
            with pytest.raises(phix.errors.TensorValueError, match=r"cu_seqlens_. holds"):
                ops.flash_attn_unpadded(q, q, q, *pair, None, None, 3, 3, 1.0)


def test_what_attention_has_not_is_refused():
    q = np.ones((1, 2, 1, 2), np.float32)
    with pytest.raises(phix.errors.ArgumentError, match=r"flash_attn.*phix\.random\.key"):
        ops.flash_attn(q, q, q, dropout=0.5)
    bounds = np.ones((1, 1, 2, 1), np.int32)
    with pytest.raises(phix.errors.ArgumentError, match="block_mask"):
        ops.flashmask_attention_v2(q, q, q, bounds, bounds, 1.0, True)


# -- sampling --------------------------------------------------------------------------------------
def test_top_p_draws_in_proportion_among_the_likeliest():
    scores = np.tile(np.array([0.1, 0.5, 0.05, 0.35], np.float32), (4000, 1))
    share = np.full((4000, 1), 0.85, np.float32)
    out, ids, best, order = ops.top_p_sampling(scores, share, None, phix.random.key(1), k=2)
    counts = np.bincount(np.asarray(ids).ravel(), minlength=4) / 4000
    assert np.allclose(counts, [0, 0.5 / 0.85, 0, 0.35 / 0.85], atol=0.03)
    assert np.array_equal(out, np.take_along_axis(scores, np.asarray(ids), 1))
    assert np.array_equal(order[0], [1, 3]) and np.allclose(best[0], [0.5, 0.35])
    by_seed = ops.top_p_sampling(scores, share, None, None, seed=1)[1]
    assert np.array_equal(by_seed, ids)
    least = np.full((4000, 1), 0.4, np.float32)
    assert (np.asarray(ops.top_p_sampling(scores, share, least, seed=1)[1]) == 1).all()


# -- detection -------------------------------------------------------------------------------------
def test_the_loss_of_a_grid_without_scores_and_smoothing():
    x = drawn(1, 7, 2, 2)
    boxes = np.array([[[0.3, 0.6, 0.5, 0.4], [0.3, 0.6, 0.5, 0.4]]], np.float32)
    labels = np.array([[0, 1]], np.int32)
    args = ([10, 13], [0], 2, 0.7, 32, False, 1.0)
    found = ops.yolo_loss(x, boxes, labels, None, *args)
    assert np.allclose(found, yolo_losses(x, boxes.astype(float), labels, None, *args), rtol=1e-5)
    assert np.isfinite(np.asarray(ops.yolo_loss(x * 1000, boxes, labels, None, *args))).all()


def test_what_pooled_regions_make_of_no_boxes_and_of_boxes_without_end():
    x = drawn(2, 3, 4, 4)
    counts = np.zeros(2, np.int32)
    assert ops.roi_align(x, np.zeros((0, 4)), counts, 2, 2).shape == (0, 3, 2, 2)
    box = np.array([[0, 0, np.inf, np.nan]])
    assert np.isnan(np.asarray(ops.roi_align(x, box, np.array([1, 0], np.int32)))).all()
    wide = np.array([[0, 0, 1e30, 2.0], [-1e30, 0, 1e30, 1e30]])
    assert not np.asarray(ops.roi_align(x, wide, np.array([1, 1], np.int32))).any()


# -- experts ---------------------------------------------------------------------------------------
def test_tokens_come_back_from_their_experts():
    x, route = drawn(4, 2), np.array([[0, 1], [1, -1], [2, 0], [1, 0]], np.int32)
    share = np.random.default_rng(1).random((4, 2)).astype(np.float32)

    @phix.jit
    def there_and_back(x, share):
        rows, places, shares, _, _ = ops.moe_permute(x, None, route, share, 3, [3, 3, 1], 4, True)
        return ops.moe_unpermute(rows, places, route, shares, 4, 3, True, True)

    out, back = there_and_back(x, share)
    kept = np.where(route >= 0, share, 0)
    assert np.allclose(out, x * kept.sum(1, keepdims=True)) and np.allclose(back, kept)
    logits = np.random.default_rng(2).random((4, 3))
    y, weights, index, _, _ = ops.moe_gate_dispatch(x, logits, None, 2, 8, True)
    combined = ops.moe_combine(y, weights, ops.transpose(index, [1, 0]))
    assert np.allclose(combined, x * np.asarray(weights).sum(1, keepdims=True))
