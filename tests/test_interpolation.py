"""Interpolation beyond the samples of the op table: sizes that tensors say, sizes unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops

pytestmark = pytest.mark.unoptimised

X = np.random.default_rng(0).normal(size=(1, 2, 5, 4)).astype(np.float32)


def _same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-5)


def test_tensors_say_sizes() -> None:
    wanted = ops.bilinear_interp(X, out_h=7, out_w=3)
    sizes = phix.to_tensor([7, 3])
    _same(ops.bilinear_interp(X, sizes), wanted)
    _same(ops.bilinear_interp(X, phix.to_tensor([5, 5]), [phix.to_tensor([7]), 3]), wanted)
    _same(phix.jit(ops.bilinear_interp)(X, sizes), wanted)


def test_tensors_say_scales() -> None:
    scales = phix.to_tensor([1.5, 0.7])
    for op in (ops.bilinear_interp, ops.interp_antialias):
        wanted = op(X, scale=[1.5, 0.7], align_corners=False)
        _same(op(X, scale_tensor=scales, align_corners=False), wanted)
        traced = phix.jit(lambda x, s, op=op: op(x, None, None, s, align_corners=False))
        _same(traced(X, scales), wanted)


@pytest.mark.parametrize("scale", [[1.5, 0.7], [1.1]])
def test_images_of_unknown_size(scale: Any) -> None:
    def f(x: Any) -> Any:
        sizes = {"scale": scale, "align_corners": False}
        return ops.nearest_interp(x, **sizes), ops.interp_antialias(x, **sizes)

    graph = phix.make_graph(f)(phix.spec([1, 2, -1, -1]))
    for found, wanted in zip(phix.jit(graph)(X), f(phix.to_tensor(X))):
        _same(found, wanted)


def test_a_scale_is_the_decimal_that_is_written() -> None:
    assert ops.nearest_interp(np.zeros((1, 1, 100)), scale=[0.29]).shape == (1, 1, 29)
    assert ops.nearest_interp(np.zeros((1, 1, 10)), scale=[0.7]).shape == (1, 1, 7)


def test_sizes_that_say_too_much_or_too_little() -> None:
    two = phix.to_tensor([7, 3])
    with pytest.raises(phix.errors.AttributeValueError, match="both say the size"):
        ops.bilinear_interp(X, two, None, phix.to_tensor([1.5, 0.7]))
    with pytest.raises(phix.errors.ShapeError, match="out_size must have 2 elements"):
        ops.bilinear_interp(X, phix.to_tensor([7, 3, 2]))
    with pytest.raises(phix.errors.DTypeError, match="out_size must be a tensor of ints"):
        ops.bilinear_interp(X, phix.to_tensor([7.0, 3.0]))
    with pytest.raises(phix.errors.PhixError, match="size"):
        phix.vmap(lambda s: ops.bilinear_interp(X, s))(phix.to_tensor([[7, 3], [6, 3]]))


def test_places_far_off_an_image_hold_zeros() -> None:
    grid = np.array([1e30, 0, -np.inf, 0, 0, np.inf]).reshape(1, 1, 3, 2)
    found = ops.grid_sample(X.astype(np.float64), grid)
    _same(found, np.zeros((1, 2, 1, 3)))


def test_a_fraction_of_pooling_may_be_drawn() -> None:
    drawn = phix.jit(lambda x, u: ops.fractional_max_pool2d(x, [3, 2], random_u=u))
    for found, wanted in zip(drawn(X, 0.3), ops.fractional_max_pool2d(X, [3, 2], random_u=0.3)):
        _same(found, wanted)
