"""Ops of networks where their definitions have corners: kinks, extreme inputs, what is saved."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import phix
from phix import ops, random
from phix.core.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError

pytestmark = pytest.mark.unoptimised

INF, NAN = np.inf, np.nan


def slope(fn: Callable[[Any], Any], at: Any) -> np.ndarray:
    """The derivative of an elementwise function, in reverse mode; forward mode must agree."""
    x = np.asarray(at, np.float64)
    reverse = np.asarray(phix.grad(lambda t: ops.sum(fn(t)))(x))
    _, forward = phix.jvp(fn, (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(np.asarray(forward), reverse)
    return reverse


KINKS: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "relu": (ops.relu, [0.0, -0.0], [0, 0]),
    "relu6": (ops.relu6, [0.0, 6.0, 3.0], [0, 0, 1]),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.25), [0.0, 1.0], [0.25, 1]),
    "elu": (ops.elu, [0.0], [1]),
    "elu of another alpha": (lambda x: ops.elu(x, 0.5), [0.0, 1.0], [0.5, 1]),
    "hardswish": (ops.hardswish, [-3.0, 3.0], [0, 1]),
    "hardtanh": (lambda x: ops.hardtanh(x, -1.0, 1.0), [-1.0, 1.0, 0.0], [0, 0, 1]),
    "hardsigmoid": (lambda x: ops.hardsigmoid(x, 0.5, 0.5), [-1.0, 1.0, 0.0], [0, 0, 0.5]),
    "clip": (lambda x: ops.clip(x, -1, 1), [-1.0, 1.0, 2.0, NAN], [1, 1, 0, 0]),
    "softsign": (ops.softsign, [0.0], [1]),
    "huber_loss": (lambda x: ops.huber_loss(x, 0.0, 1.0), [1.0, -1.0, 2.0, 0.0], [1, -1, 1, 0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_slope_at_a_kink(name: str) -> None:
    fn, at, wanted = KINKS[name]
    np.testing.assert_allclose(slope(fn, at), wanted, rtol=1e-15)


def test_prelu_above_0_has_no_slope_by_its_slopes() -> None:
    x, slopes = np.array([[INF, -2.0, 3.0]]), np.array([0.5, 0.25, INF])
    grad = phix.grad(lambda x, a: ops.sum(ops.prelu(x, a, "NCHW", "channel")), argnums=(0, 1))
    for found in (grad(x, slopes), phix.jit(grad)(x, slopes)):
        np.testing.assert_array_equal(np.asarray(found[0]), [[1.0, 0.25, 1.0]])
        np.testing.assert_array_equal(np.asarray(found[1]), [0.0, -2.0, 0.0])


@pytest.mark.parametrize("porder", [0.5, 1.5, 2, 3, 1, INF])
def test_norm_at_0_has_gradient_0(porder: float) -> None:
    grad = phix.grad(lambda x: ops.p_norm(x, porder))(np.zeros(3))
    np.testing.assert_array_equal(np.asarray(grad), 0)


def test_heaviside_sends_its_gradient_to_the_value_at_0() -> None:
    x, y = np.array([-1.0, 0.0, 1.0]), np.full(3, 0.5)
    assert ops.heaviside(x, y).tolist() == [0, 0.5, 1]
    to_x, to_y = phix.grad(lambda a, b: ops.sum(ops.heaviside(a, b)), argnums=(0, 1))(x, y)
    assert to_x.tolist() == [0, 0, 0]
    assert to_y.tolist() == [0, 1, 0]


# -- far out -----------------------------------------------------------------------------------
def test_sigmoid_keeps_its_digits_at_the_small_end() -> None:
    for dtype, least in ((np.float64, -700), (np.float32, -87)):
        x = np.linspace(least, 40, 200).astype(dtype)
        found = np.asarray(ops.sigmoid(x))
        np.testing.assert_allclose(found, sp.expit(x.astype(np.float64)), rtol=4e-7)
    assert ops.sigmoid([-INF, -1e30, 1e30, INF]).tolist() == [0, 0, 1, 1]


FAR_OUT: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    # name: function, values at -1000 and 1000, slopes there
    "sigmoid": (ops.sigmoid, [0, 1], [0, 0]),
    "logsigmoid": (ops.logsigmoid, [-1000, 0], [1, 0]),
    "softplus": (ops.softplus, [0, 1000], [0, 1]),
    "silu": (ops.silu, [0, 1000], [0, 1]),
    "swish": (ops.swish, [0, 1000], [0, 1]),
    "elu": (ops.elu, [-1, 1000], [0, 1]),
    "gelu": (ops.gelu, [0, 1000], [0, 1]),
}


@pytest.mark.parametrize("name", FAR_OUT)
def test_values_and_slopes_far_out(name: str) -> None:
    fn, values, slopes = FAR_OUT[name]
    at = np.array([-1000.0, 1000.0])
    np.testing.assert_array_equal(np.asarray(fn(at)), values)
    np.testing.assert_array_equal(slope(fn, at), slopes)
    second = phix.grad(lambda t: ops.sum(phix.grad(lambda u: ops.sum(fn(u)))(t)))(at)
    np.testing.assert_array_equal(np.asarray(second), 0)


def test_softplus_is_x_above_its_threshold() -> None:
    assert ops.softplus(20.5).item() == 20.5
    assert ops.softplus(2.0, 3.0, 5.0).item() == 2.0
    assert slope(lambda x: ops.softplus(x, 3.0, 5.0), [2.0]).tolist() == [1.0]


NAN_IN_NAN_OUT = ["relu", "relu6", "leaky_relu", "elu", "hardswish", "hardsigmoid", "hardtanh",
                  "sigmoid", "softplus", "logsigmoid"]  # fmt: skip


@pytest.mark.parametrize("name", NAN_IN_NAN_OUT)
def test_nan_comes_out_as_nan(name: str) -> None:
    assert np.isnan(getattr(ops, name)(NAN).item())


@pytest.mark.parametrize("name", ["relu", "sigmoid", "softmax", "layer_norm", "p_norm"])
def test_ints_become_floats(name: str) -> None:
    assert getattr(ops, name)(np.array([[1, 2, 3]])).dtype == np.float32


# -- clip --------------------------------------------------------------------------------------
def test_clip_of_ints_stays_within_the_ints_between_the_bounds() -> None:
    x = np.arange(6)
    assert ops.clip(x, 0.5, 3.5).tolist() == [1, 1, 2, 3, 3, 3]
    assert ops.clip(x.astype(np.int8), -INF, 1000).tolist() == x.tolist()
    assert ops.clip(x, None, 2).tolist() == [0, 1, 2, 2, 2, 2]
    with pytest.raises(AttributeValueError, match="no int lies between"):
        ops.clip(x, 0.25, 0.75)


# -- derivatives of every order ----------------------------------------------------------------
def _rows(x: Any) -> Any:
    return (x - ops.mean(x, [1], True)) * ops.rsqrt(ops.var(x, [1], True, False) + 1e-5)


PIECES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    # name: kept whole, and made of pieces that are differentiated one by one
    "layer_norm": (lambda x: ops.layer_norm(x, None, None), _rows),
    "instance_norm": (
        lambda x: ops.reshape(ops.instance_norm(ops.reshape(x, [3, 1, 4]), None, None), [3, 4]),
        _rows,
    ),
    "rms_norm": (
        lambda x: ops.rms_norm(x, None, None, None, None, 1e-5, 1)[0],
        lambda x: x * ops.rsqrt(ops.mean(x * x, [1], True) + 1e-5),
    ),
    "softmax": (ops.softmax, lambda x: ops.exp(x) / ops.sum(ops.exp(x), [1], keepdim=True)),
    "silu": (ops.silu, lambda x: x / (1 + ops.exp(-x))),
    "sigmoid": (ops.sigmoid, lambda x: 1 / (1 + ops.exp(-x))),
    "p_norm": (ops.p_norm, lambda x: ops.sqrt(ops.sum(x * x, [1]))),
}


@pytest.mark.parametrize("name", PIECES)
def test_whole_backward_rules_to_the_third_order(name: str) -> None:
    x = np.random.default_rng(3).normal(size=(3, 4))
    weight = np.random.default_rng(4).normal(size=(3, 4))

    def third(fn: Callable[[Any], Any]) -> np.ndarray:
        def weighted(t: Any) -> Any:
            out = fn(t)
            return ops.sum(out * (weight if out.ndim == 2 else weight[:, 0]))

        grad = phix.grad(weighted)
        for _ in range(2):
            grad = phix.grad(lambda t, inner=grad: ops.sum(inner(t) * weight))
        return np.asarray(grad(x))

    whole, pieces = PIECES[name]
    np.testing.assert_allclose(third(whole), third(pieces), rtol=1e-8, atol=1e-8)


def test_layer_norm_statistics_carry_derivatives() -> None:
    """The normalised rows are read with their statistics, in a jitted second derivative too."""
    x = np.random.default_rng(0).normal(size=(2, 5))

    def curvature(fn: Callable[[Any], Any]) -> Any:
        return phix.grad(lambda t: ops.sum(phix.grad(lambda u: ops.sum(fn(u) ** 3))(t) ** 2))

    whole = phix.jit(curvature(lambda t: ops.layer_norm(t, None, None)))(x)
    np.testing.assert_allclose(np.asarray(whole), curvature(_rows)(x), rtol=1e-8, atol=1e-10)


def kept_ops(fn: Callable[..., Any], *args: Any) -> list[str]:
    return [e.op.name for e in phix.make_graph(fn)(*args).equations]


@pytest.mark.parametrize(
    "name",
    ["relu", "sigmoid", "silu", "gelu", "hardswish", "softmax", "log_softmax", "layer_norm"],
)
def test_composites_are_kept_whole_under_grad(name: str) -> None:
    found = kept_ops(phix.value_and_grad(lambda x: ops.sum(getattr(ops, name)(x))), np.ones((2, 3)))
    assert name in found


# -- cross entropy -----------------------------------------------------------------------------
def test_cross_entropy_label_with_and_without_the_axis() -> None:
    scores = np.random.default_rng(0).normal(size=(4, 5, 2))
    label = np.random.default_rng(1).integers(0, 5, (4, 2))
    with_axis = ops.cross_entropy_with_softmax(scores, label[:, None, :], axis=1)[1]
    without = ops.cross_entropy_with_softmax(scores, label, axis=1)[1]
    assert with_axis.shape == without.shape == (4, 1, 2)
    np.testing.assert_array_equal(np.asarray(with_axis), np.asarray(without))
    wanted = -np.take_along_axis(sp.log_softmax(scores, 1), label[:, None, :], 1)
    np.testing.assert_allclose(np.asarray(with_axis), wanted, rtol=1e-12)


def test_cross_entropy_of_an_ignored_label_is_0_with_gradient_0() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 5))
    label = np.array([1, -100, 4])

    def total(t: Any) -> Any:
        return ops.sum(ops.cross_entropy_with_softmax(t, label)[1])

    assert ops.cross_entropy_with_softmax(scores, label)[1].tolist()[1] == [0]
    assert phix.grad(total)(scores).tolist()[1] == [0] * 5


def test_cross_entropy_gradient_without_overflow() -> None:
    scores = np.array([[1e4, 0.0, -1e4]], np.float32)
    grad = phix.grad(lambda t: ops.sum(ops.cross_entropy_with_softmax(t, np.array([1]))[1]))(scores)
    assert grad.tolist() == [[1, -1, 0]]


# -- pooling -----------------------------------------------------------------------------------
def test_max_pool_ties_share_the_gradient() -> None:
    for strides in ([2, 2], [1, 1]):  # side by side, and overlapping
        grad = phix.grad(lambda x: ops.sum(ops.max_pool2d(x, [2, 2], strides)))(  # noqa: B023
            np.array([[[[1.0, 1.0], [1.0, 0.0]]]])
        )
        np.testing.assert_allclose(np.asarray(grad), [[[[1 / 3, 1 / 3], [1 / 3, 0]]]])


def test_pooling_in_ceil_mode() -> None:
    x = np.arange(5.0).reshape(1, 1, 1, 5)
    attrs: dict[str, Any] = {"kernel_size": [1, 2], "ceil_mode": True}
    assert ops.max_pool2d(x, **attrs).tolist() == [[[[1, 3, 4]]]]
    assert ops.avg_pool2d(x, **attrs).tolist() == [[[[0.5, 2.5, 4]]]]
    assert ops.avg_pool2d(x, **attrs, exclusive=False).tolist() == [[[[0.5, 2.5, 4]]]]


def _windows_rounded_up(n: int, k: int, s: int, p: int) -> list[range]:
    """What of an axis of n each window holds: all that begin before its end, but none more than
    the windows of the padded axis rounded up."""
    starts = range(-p, n, s)[: max(-(-(n + 2 * p - k) // s) + 1, 0)]
    return [range(max(start, 0), min(start + k, n)) for start in starts]


def test_windows_in_ceil_mode_begin_in_the_image() -> None:
    for k, s in itertools.product(range(1, 5), range(1, 6)):
        for p, n in itertools.product(range(k), range(1, 12)):
            wanted = len(_windows_rounded_up(n, k, s, p))
            if wanted:
                pool = functools.partial(
                    ops.max_pool2d, kernel_size=[1, k], strides=[1, s], paddings=[0, p],
                    ceil_mode=True,
                )  # fmt: skip
                count = phix.infer_meta(pool)(phix.spec([1, 1, 1, n])).dims[-1]
                assert count == wanted, (n, k, s, p)


@pytest.mark.parametrize(("k", "s", "p"), [(2, 3, 0), (2, 3, 1), (1, 4, 0), (3, 2, 1), (2, 5, 1)])
def test_ceil_mode_of_known_and_unknown_sizes(k: int, s: int, p: int) -> None:
    def pools(x: Any) -> Any:
        attrs = [1, k], [1, s], [0, p], True
        return ops.max_pool2d(x, *attrs), ops.avg_pool2d(x, *attrs)

    unknown = phix.jit(pools, input_spec=[phix.spec([1, 1, 1, "n"], "float64")])
    for n in (3, 5, 9):
        x = -np.arange(1.0, n + 1).reshape(1, 1, 1, n)
        held = [x[0, 0, 0, w.start : w.stop] for w in _windows_rounded_up(n, k, s, p)]
        for largest, mean in (pools(x), unknown(x)):
            np.testing.assert_array_equal(largest[0, 0, 0], [v.max() for v in held])
            np.testing.assert_allclose(mean[0, 0, 0], [v.mean() for v in held], rtol=1e-12)
        total = phix.grad(lambda x: sum(map(ops.sum, pools(x))))(x)
        assert abs(np.asarray(total).sum() - 2 * len(held)) < 1e-12


def test_average_leaves_padding_out_if_exclusive() -> None:
    x = np.ones((1, 1, 3, 3))
    inside = ops.avg_pool2d(x, [3, 3], [1, 1], [1, 1])
    np.testing.assert_array_equal(np.asarray(inside), 1)
    whole = np.asarray(ops.avg_pool2d(x, [3, 3], [1, 1], [1, 1], exclusive=False))
    np.testing.assert_allclose(whole[0, 0, 0], [4 / 9, 6 / 9, 4 / 9])


def test_pooling_in_a_program_of_any_batch() -> None:
    pool = phix.jit(lambda x: ops.max_pool2d(x, [3, 3], [2, 2], [1, 1]),
                    input_spec=[phix.spec(["n", 2, 7, 7])])  # fmt: skip
    for n in (0, 1, 4):
        x = np.random.default_rng(n).normal(size=(n, 2, 7, 7)).astype(np.float32)
        assert pool(x).shape == (n, 2, 4, 4)
        np.testing.assert_array_equal(
            np.asarray(pool(x)), np.asarray(ops.max_pool2d(x, [3, 3], [2, 2], [1, 1]))
        )


# -- dropout, embedding ------------------------------------------------------------------------
def test_dropout_is_a_function_of_its_key() -> None:
    x, key = np.ones(1000, np.float32), random.key(7)
    first, again = (np.asarray(ops.dropout(x, key, 0.25)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert abs((first == 0).mean() - 0.25) < 0.05
    np.testing.assert_array_equal(
        np.asarray(phix.grad(lambda t: ops.sum(ops.dropout(t, key, 0.25)))(x)), first
    )
    compiled = phix.jit(lambda t, k: ops.dropout(t, k, 0.25))
    np.testing.assert_array_equal(np.asarray(compiled(x, key)), first)


def test_dropout_without_a_key() -> None:
    with pytest.raises(ArgumentError, match=r"dropout.*phix\.random\.key"):
        ops.dropout(np.ones(3), None)
    assert ops.dropout(np.ones(3), None, is_test=True).tolist() == [1, 1, 1]


def test_embedding_sends_gradients_to_the_rows_it_read() -> None:
    weight, numbers = np.ones((4, 2)), np.array([[1, 3], [1, 0]])
    grad = phix.grad(lambda w: ops.sum(ops.embedding(numbers, w, 3)))(weight)
    assert grad.tolist() == [[1, 1], [2, 2], [0, 0], [0, 0]]


# -- errors ------------------------------------------------------------------------------------
def test_errors_say_what_to_write() -> None:
    x = np.ones((2, 3))
    with pytest.raises(ShapeError, match=r"layer_norm.*scale must be"):
        ops.layer_norm(x, np.ones(2), None)
    with pytest.raises(AttributeValueError, match=r"clip.*must not be above"):
        ops.clip(x, 2, 1)
    with pytest.raises(DTypeError, match=r"cross_entropy.*is soft_label meant"):
        ops.cross_entropy_with_softmax(x, x)
    with pytest.raises(ShapeError, match=r"max_pool2d.*does not fit"):
        ops.max_pool2d(np.ones((1, 1, 2, 2)), [3, 3])
    with pytest.raises(AttributeValueError, match=r"below the window size"):
        ops.avg_pool2d(np.ones((1, 1, 4, 4)), [2, 2], [1, 1], [2, 2])
    with pytest.raises(AttributeValueError, match=r"one of none, mean, sum"):
        ops.mse_loss(x, x, "average")


def test_wide_windows_are_no_deep_chains() -> None:
    """A window of 600 had been 599 sums, one inside the other, and ended in a RecursionError."""
    x = np.random.default_rng(0).normal(size=(1, 1, 1, 605))
    windows = np.lib.stride_tricks.sliding_window_view(x[0, 0, 0], 600)
    found = phix.nn.functional.avg_pool2d(phix.to_tensor(x), (1, 600), 1)
    np.testing.assert_allclose(np.asarray(found)[0, 0, 0], windows.mean(-1), rtol=1e-10)


@pytest.mark.parametrize("k", [33, 64, 600])
@pytest.mark.parametrize(("stride", "pad"), [(1, 20), (40, 3)])
def test_wide_windows_are_made_of_what_rows_of_their_elements_come_to(
    k: int, stride: int, pad: int
) -> None:
    """A window of 600 took 12 s to compile, an op for each of its elements."""
    x = np.random.default_rng(k).normal(size=(2, 1, 1, 700))
    wide = np.pad(x, [(0, 0)] * 3 + [(pad, pad)], constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(wide, k, -1)[..., ::stride, :]
    sizes = (~np.isnan(windows)).sum(-1)
    attrs = ([1, k], [1, stride], [0, pad])
    images = phix.to_tensor(x)
    spec = [phix.spec([-1] * 4, "float64")]
    for run in (lambda f: f, lambda f: phix.jit(f, input_spec=spec), phix.jit):
        most = run(lambda x: ops.max_pool2d(x, *attrs))(images)
        np.testing.assert_array_equal(np.asarray(most), np.nanmax(windows, -1))
        mean = run(lambda x: ops.avg_pool2d(x, *attrs))(images)
        np.testing.assert_allclose(np.asarray(mean), np.nanmean(windows, -1), atol=1e-13)
        total = run(phix.grad(lambda x: ops.sum(ops.sin(ops.avg_pool2d(x, *attrs)))))(images)
        slopes, want = np.cos(np.nanmean(windows, -1)) / sizes, np.zeros_like(wide)
        for n in range(slopes.shape[-1]):
            want[..., n * stride : n * stride + k] += slopes[..., n, None]
        np.testing.assert_allclose(
            np.asarray(total), want[..., pad : pad + 700], rtol=1e-10, atol=1e-13
        )
