"""Layers of phix.nn.functional against closed forms, at extreme inputs, and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import phix
from harness.closed import check_gradient, close
from harness.references.windows import avg_pool2d, conv2d, max_pool2d
from phix import ops, random

pytestmark = pytest.mark.unoptimised

F = phix.nn.functional
RNG = np.random.default_rng(0)
INF = math.inf


def floats(*dims: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, dims)


# -- normalisations ----------------------------------------------------------------------------
def normal(x: np.ndarray, axes: Any, epsilon: float) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


@pytest.mark.parametrize("shape", [[5], [4, 5]])
def test_layer_norm(shape: list[int]) -> None:
    x, weight, bias = floats(3, 4, 5), floats(*shape), floats(*shape)
    axes = tuple(range(3 - len(shape), 3))
    wanted = normal(x, axes, 0.1) * weight + bias
    close(F.layer_norm(x, shape, weight, bias, 0.1), wanted)
    close(F.layer_norm(x, shape), normal(x, axes, 1e-5))
    check_gradient(lambda *v: F.layer_norm(v[0], shape, v[1], v[2], 0.1), x, weight, bias)


def test_layer_norm_of_a_constant_row_is_its_bias() -> None:
    x = np.full((2, 4), 1e6, np.float32)
    assert F.layer_norm(x, 4, None, np.arange(4, dtype=np.float32)).tolist() == [[0, 1, 2, 3]] * 2


def test_layer_norm_far_from_0() -> None:
    """No more is lost than by rounding the mean, whose last bit is 2 ** -11 there, and the sums for
    it, by however many lanes."""
    x = floats(3, 64).astype(np.float32) + np.float32(4096)
    close(F.layer_norm(x, 64), normal(x.astype(np.float64), (1,), 1e-5), 2.0**-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_are_normalised_in_float32(dtype: str) -> None:
    """The squares, about 1e8, do not fit float16."""
    x = phix.to_tensor(floats(2, 512, low=5000, high=30000)).astype(dtype)
    found = F.layer_norm(x, 512)
    assert str(found.dtype) == dtype
    wide = np.asarray(x.astype("float64"))
    close(np.asarray(found.astype("float64")), normal(wide, (1,), 1e-5), 2e-2)


def test_rms_norm_gives_the_inverse_too() -> None:
    x, weight = floats(3, 4, 5), floats(5)
    inverse = 1 / np.sqrt((x * x).mean(-1) + 0.1)
    out, found = F.rms_norm(x, [5], weight, 0.1)
    close(out, x * inverse[..., None] * weight)
    close(found, inverse)
    check_gradient(lambda a, b: F.rms_norm(a, [5], b, 0.1), x, weight)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_batch_norm_in_training(data_format: str) -> None:
    x = floats(4, 3, 5, 2)
    channel = 1 if data_format == "NCHW" else 3
    axes = tuple(i for i in range(4) if i != channel)
    size = x.shape[channel]
    mean, var, weight, bias = floats(size), floats(size, low=0.5), floats(size), floats(size)
    seen = [size if i == channel else 1 for i in range(4)]
    found = F.batch_norm(x, mean, var, weight, bias, True, 0.75, 0.1, data_format)
    wanted = normal(x, axes, 0.1) * weight.reshape(seen) + bias.reshape(seen)
    close(found[0], wanted)
    close(found[1], 0.75 * mean + 0.25 * x.mean(axes))
    close(found[2], 0.75 * var + 0.25 * x.var(axes))


def test_batch_norm_in_inference() -> None:
    x, mean, var = floats(4, 3), floats(3), floats(3, low=0.5)
    close(F.batch_norm(x, mean, var), (x - mean) / np.sqrt(var + 1e-5))
    check_gradient(lambda *v: F.batch_norm(*v), x, mean, var)


def test_batch_norm_by_batch_or_by_running_values_on_demand() -> None:
    x, mean, var = floats(4, 3), floats(3), floats(3, low=0.5)
    found = F.batch_norm(x, mean, var, training=True, use_global_stats=True)
    close(found[0], (x - mean) / np.sqrt(var + 1e-5))
    close(found[1], mean)
    out = F.batch_norm(x, mean, var, training=False, use_global_stats=False)
    close(out, normal(x, (0,), 1e-5))


def test_batch_norm_second_derivatives_through_the_moments() -> None:
    x, weight, bias = floats(5, 3), floats(3), floats(3)
    mean, var = floats(3), floats(3, low=0.5)
    check_gradient(lambda *v: F.batch_norm(v[0], mean, var, v[1], v[2], True)[:3], x, weight, bias)


def test_instance_and_group_norm() -> None:
    x, weight, bias = floats(2, 6, 3, 4), floats(6), floats(6)
    seen = (6, 1, 1)
    wanted = normal(x, (2, 3), 1e-5) * weight.reshape(seen) + bias.reshape(seen)
    close(F.instance_norm(x, weight=weight, bias=bias), wanted)
    groups = normal(x.reshape(2, 3, 2, 3, 4), (2, 3, 4), 0.1).reshape(x.shape)
    wanted = groups * weight.reshape(seen) + bias.reshape(seen)
    close(F.group_norm(x, 3, 0.1, weight, bias), wanted)
    last = np.moveaxis(x, 1, -1)
    close(F.group_norm(last, 3, 0.1, weight, bias, "NHWC"), np.moveaxis(wanted, 1, -1))


@pytest.mark.parametrize("p", [1, 2, 3.5, INF])
def test_normalize(p: float) -> None:
    x = floats(3, 4)
    norm = np.linalg.norm(x, p, 1, keepdims=True)
    close(F.normalize(x, p), x / norm)
    close(F.normalize(np.zeros((2, 3)), p), np.zeros((2, 3)))


def test_normalize_at_0_has_a_finite_gradient() -> None:
    grad = phix.grad(lambda x: F.normalize(x)[0, 0])(np.zeros((1, 2)))
    assert np.isfinite(grad.numpy()).all()


# -- layers ------------------------------------------------------------------------------------
def test_linear() -> None:
    x, weight, bias = floats(2, 3, 4), floats(4, 5), floats(5)
    close(F.linear(x, weight, bias), x @ weight + bias)
    close(F.linear(x[0, 0], weight), x[0, 0] @ weight)


def test_embedding_and_its_gradient() -> None:
    weight, x = floats(5, 3), np.array([[4, 0], [2, 2]])
    close(F.embedding(x, weight), weight[x])
    masked = weight.copy()
    masked[2] = 0
    for padding_idx in (2, -3):
        close(F.embedding(x, weight, padding_idx), masked[x])
    grad = phix.grad(lambda w: F.embedding(x, w, 2).sum())(weight)
    assert grad.numpy().tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("sparse", [False, True])
def test_padding_is_a_row_however_it_is_numbered(sparse: bool) -> None:
    rows, ids = floats(3, 2), np.array([[0, -1], [2, -3]])
    wanted = [[rows[0], [0, 0]], [[0, 0], rows[0]]]

    def look(ids: Any, rows: Any) -> Any:
        return F.embedding(ids, rows, -1, sparse)

    def of_lanes(axes: Any) -> Any:
        return phix.vmap(look, in_axes=axes)

    for call in (look, phix.jit(look), of_lanes((0, None))):
        np.testing.assert_array_equal(call(ids, rows).numpy(), wanted)
    both = np.stack([rows, rows])
    np.testing.assert_array_equal(of_lanes((0, 0))(ids, both).numpy(), wanted)
    gradient = phix.grad(lambda rows: ops.sum(look(ids, rows)))(rows)
    dense = gradient.to_dense() if sparse else gradient
    ones = np.ones((2, 2, 2))
    for op in (ops.embedding_grad_dense, ops.embedding_with_scaled_gradient_grad):
        assert np.asarray(op(ids, rows, ones, 2))[2].tolist() == [0, 0]
    np.testing.assert_array_equal(np.asarray(dense), [[2, 2], [0, 0], [0, 0]])


def test_one_hot() -> None:
    x = np.array([[1, 0], [3, 2]])
    assert F.one_hot(x, 5).shape == (2, 2, 5)
    close(F.one_hot(x), np.eye(4)[x])
    of_all = phix.jit(lambda x: F.one_hot(x, x.shape[0]), input_spec=[phix.spec(["n"], "int64")])
    close(of_all(np.array([2, 0, 1])), np.eye(3)[[2, 0, 1]])


def test_dropout_in_training() -> None:
    x = np.ones((1000, 50))
    found = F.dropout(x, 0.2, key=random.key(0)).numpy()
    assert set(np.unique(found)) == {0.0, 1.25}
    assert abs((found == 0).mean() - 0.2) < 0.01
    assert (found == F.dropout(x, 0.2, key=random.key(0)).numpy()).all()
    assert (found != F.dropout(x, 0.2, key=random.key(1)).numpy()).any()
    kept = F.dropout(x, 0.2, key=random.key(0), mode="downscale_in_infer").numpy()
    close(kept * 1.25, found)


@pytest.mark.parametrize(
    ("mode", "factor"), [("upscale_in_train", 1), ("downscale_in_infer", 0.75)]
)
def test_dropout_in_inference(mode: str, factor: float) -> None:
    x = floats(3, 4)
    close(F.dropout(x, 0.25, training=False, mode=mode), x * factor)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_all(p: float) -> None:
    x = floats(3, 4)
    key = random.key(0)
    close(F.dropout(x, p, key=key), x * (1 - p))
    close(phix.grad(lambda v: F.dropout(v, p, key=key).sum())(x), np.full((3, 4), 1 - p))


def test_dropout_along_an_axis_drops_whole_slices() -> None:
    found = F.dropout(np.ones((64, 8)), 0.5, axis=0, key=random.key(3)).numpy()
    assert (found == found[:, :1]).all() and {0.0, 2.0} == set(np.unique(found))


def test_dropout_along_an_axis_drops_what_is_not_finite_too() -> None:
    x, key = np.full((64, 2), np.inf), random.key(3)
    x[::2] = np.nan
    dropped = F.dropout(np.ones((64, 2)), 0.5, axis=0, key=key).numpy() == 0
    for transform in (lambda f: f, phix.jit):
        found = transform(lambda v: F.dropout(v, 0.5, axis=0, key=key))(x)
        np.testing.assert_array_equal(found, np.where(dropped, 0.0, x))
        slope = transform(phix.grad(lambda v: F.dropout(v, 0.5, axis=0, key=key).sum()))(x)
        np.testing.assert_array_equal(slope, np.where(dropped, 0.0, 2.0))


def test_dropout_of_each_row_by_its_own_key() -> None:
    keys = random.split(random.key(0), 3)
    x = np.ones((3, 40))
    rows = phix.vmap(lambda k, v: F.dropout(v, 0.5, key=k))(keys, x).numpy()
    for row, k in zip(rows, keys.numpy()):
        close(row, F.dropout(np.ones(40), 0.5, key=k))
    assert (rows[0] != rows[1]).any()


# -- images ------------------------------------------------------------------------------------
@pytest.mark.parametrize("padding", [1, [1, 2], [1, 0, 2, 1], [[0, 0], [0, 0], [1, 0], [2, 1]]])
def test_conv2d(padding: Any) -> None:
    x, weight, bias = floats(2, 4, 6, 5), floats(6, 2, 3, 2), floats(6)
    plain = {1: [1, 1]}.get(padding) if isinstance(padding, int) else padding
    if isinstance(plain[0], list):
        plain = [1, 0, 2, 1]
    wanted = conv2d(x, weight, (2, 1), plain, (1, 2), 2) + bias[:, None, None]
    close(F.conv2d(x, weight, bias, [2, 1], padding, [1, 2], 2), wanted)


def test_conv2d_by_named_paddings_and_channels_last() -> None:
    x, weight, bias = floats(2, 5, 4, 3), floats(6, 3, 3, 3), floats(6)
    first = np.moveaxis(x, -1, 1)
    wanted = np.moveaxis(conv2d(first, weight, paddings=(1, 1)), 1, -1) + bias
    close(F.conv2d(x, weight, bias, padding="SAME", data_format="NHWC"), wanted)
    close(F.conv2d(first, weight, padding="VALID"), conv2d(first, weight))


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(2, None, 0), (3, 2, 1), ([3, 2], [1, 2], [1, 0])]
)
def test_pooling(size: Any, stride: Any, padding: Any, data_format: str) -> None:
    x = floats(2, 6, 5, 6)

    def both(v: Any) -> Any:
        return v if isinstance(v, list) else [v, v]

    attrs = (both(size), both(stride or size), both(padding))
    found = F.max_pool2d(x, size, stride, padding, data_format=data_format)
    close(found, max_pool2d(x, *attrs, data_format))
    for exclusive in (True, False):
        found = F.avg_pool2d(x, size, stride, padding, exclusive=exclusive, data_format=data_format)
        close(found, avg_pool2d(x, *attrs, exclusive, data_format))


def test_pooling_rounds_up_on_demand() -> None:
    x = np.arange(25.0).reshape(1, 1, 5, 5)
    found = F.max_pool2d(x, 2, 2, ceil_mode=True)
    assert found.tolist() == [[[[6, 8, 9], [16, 18, 19], [21, 23, 24]]]]
    found = F.avg_pool2d(x, 2, 2, ceil_mode=True)
    assert found.tolist() == [[[[3, 5, 6.5], [13, 15, 16.5], [20.5, 22.5, 24]]]]


def test_max_pool2d_shares_the_gradient_among_ties() -> None:
    x = np.array([[[[1.0, 1, 0], [0, 1, 1], [2, 0, 0]]]])
    grad = phix.grad(lambda v: F.max_pool2d(v, 2, 1).sum())(x).numpy()
    close(grad, _tie_gradient(x))


@pytest.mark.parametrize("value", [-np.inf, -3.0])
def test_padding_takes_no_part_of_the_gradient_of_maxima(value: float) -> None:
    x = np.full((1, 1, 2, 2), value)
    grad = phix.grad(lambda v: F.max_pool2d(v, 2, 1, 1).sum())(x).numpy()
    close(grad, np.full((1, 1, 2, 2), 9 / 4))  # of 9 windows, all of whose elements are ties


def _tie_gradient(x: np.ndarray) -> np.ndarray:
    """1 for each window of 2 x 2, in equal parts to its largest elements."""
    grad = np.zeros_like(x)
    for i in range(x.shape[2] - 1):
        for j in range(x.shape[3] - 1):
            window = x[0, 0, i : i + 2, j : j + 2]
            hits = window == window.max()
            grad[0, 0, i : i + 2, j : j + 2] += hits / hits.sum()
    return grad


def test_pooling_derivatives() -> None:
    x = floats(1, 2, 4, 5)
    check_gradient(lambda v: F.avg_pool2d(v, 3, 2, 1), x)
    check_gradient(lambda v: F.max_pool2d(v * v, 2, 1), x)


def test_pooling_of_any_batch() -> None:
    spec = phix.spec([-1, 3, 6, 6], "float64")
    pooled = phix.jit(lambda v: F.max_pool2d(v, 2) + F.avg_pool2d(v, 3, 2, 1), input_spec=[spec])
    for n in (1, 4):
        x = floats(n, 3, 6, 6)
        close(pooled(x), max_pool2d(x, [2, 2], [2, 2]) + avg_pool2d(x, [3, 3], [2, 2], [1, 1]))


# -- pad ---------------------------------------------------------------------------------------
NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def test_pad_with_a_constant() -> None:
    x = floats(2, 3)
    close(F.pad(x, [1, 0, 2, 3], value=7.0), np.pad(x, [(1, 0), (2, 3)], constant_values=7.0))
    images = floats(1, 2, 3, 4)
    close(F.pad(images, [1, 2, 3, 0]), np.pad(images, [(0, 0), (0, 0), (3, 0), (1, 2)]))
    found = F.pad(images, [1, 2, 3, 0], data_format="NHWC")
    close(found, np.pad(images, [(0, 0), (3, 0), (1, 2), (0, 0)]))


@pytest.mark.parametrize("mode", NUMPY_MODES)
def test_pad_with_elements_of_its_own(mode: str) -> None:
    images = floats(1, 2, 3, 4)
    found = F.pad(images, [3, 2, 0, 1], mode)
    close(found, np.pad(images, [(0, 0), (0, 0), (0, 1), (3, 2)], NUMPY_MODES[mode]))
    check_gradient(lambda v: F.pad(v, [3, 2, 0, 1], mode), images)


# -- attention ---------------------------------------------------------------------------------
def attention(q: Any, k: Any, v: Any, allowed: Any = True, bias: Any = 0.0) -> np.ndarray:
    """softmax(q k^T / sqrt(size) + bias) v for [batch, length, heads, size]."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1]) + bias
    weights = sp.softmax(np.where(allowed, scores, -np.inf), axis=-1)
    return np.einsum("bhij,bjhd->bihd", weights, v)


def test_attention() -> None:
    q, k, v = floats(2, 5, 3, 4), floats(2, 6, 3, 4), floats(2, 6, 3, 2)
    attend = F.scaled_dot_product_attention
    close(attend(q, k, v), attention(q, k, v))
    mask = RNG.random((2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    close(attend(q, k, v, mask), attention(q, k, v, mask))
    bias = floats(2, 3, 5, 6)
    close(attend(q, k, v, bias), attention(q, k, v, bias=bias))
    check_gradient(lambda *t: attend(*t, mask), q, k, v)


def test_attention_is_causal_on_demand() -> None:
    q, k, v = floats(1, 4, 2, 3), floats(1, 4, 2, 3), floats(1, 4, 2, 3)
    found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(found, attention(q, k, v, np.tri(4, dtype=bool)))


def test_attention_of_large_scores() -> None:
    q = np.full((1, 2, 1, 4), 1e4, np.float32)
    v = np.arange(2, dtype=np.float32).reshape(1, 2, 1, 1)
    close(F.scaled_dot_product_attention(q, q, v), np.full((1, 2, 1, 1), 0.5))


# -- errors ------------------------------------------------------------------------------------
X = np.ones((2, 3, 4, 5))
NORM_OF_ANY_SIZE = phix.jit(
    lambda x, w, b: F.layer_norm(x, [4, 5], w, b),
    input_spec=[
        phix.spec(["n", 3, 4, 5], "float64"),
        phix.spec(["a", "b"], "float64"), phix.spec(["c", "d"], "float64"),
    ],
)  # fmt: skip
ERRORS: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "gelu": (phix.errors.PhixError, lambda: F.gelu(X, "fast")),
    "layer_norm": (phix.errors.ShapeError, lambda: F.layer_norm(X, [4])),
    "rms_norm": (phix.errors.ShapeError, lambda: F.rms_norm(X, [5], np.ones(4))),
    "layer_norm: weight must be": (
        phix.errors.ShapeError,
        lambda: F.layer_norm(X, [4, 5], np.ones((5, 4))),
    ),
    "layer_norm: bias must be": (
        phix.errors.ShapeError,
        lambda: NORM_OF_ANY_SIZE(X, np.ones((4, 5)), np.ones((5, 4))),
    ),
    "rms_norm: weight must be": (
        phix.errors.ShapeError,
        lambda: F.rms_norm(X, [4, 5], np.ones((5, 4))),
    ),
    "attn_mask broadcasts to": (
        phix.errors.ShapeError,
        lambda: F.scaled_dot_product_attention(X[:1], X[:1], X[:1], np.ones((2, 4, 3, 3))),
    ),
    "scaled_dot_product_attention: attn_mask": (
        phix.errors.ShapeError,
        lambda: F.scaled_dot_product_attention(X, X, X, np.ones((1, 2, 4, 3, 3), bool)),
    ),
    "batch_norm": (phix.errors.ShapeError, lambda: F.batch_norm(X, np.ones(4), np.ones(4))),
    "instance_norm": (phix.errors.ShapeError, lambda: F.instance_norm(np.ones(2))),
    "group_norm": (phix.errors.PhixError, lambda: F.group_norm(X, 2)),
    "linear": (phix.errors.ShapeError, lambda: F.linear(X, np.ones((4, 5)))),
    "bias must be": (phix.errors.ShapeError, lambda: F.linear(X, np.ones((5, 4)), np.ones(1))),
    "embedding": (phix.errors.DTypeError, lambda: F.embedding(np.ones(3), np.ones((4, 2)))),
    "one_hot": (phix.errors.DTypeError, lambda: F.one_hot(np.ones(3), 4)),
    "dropout": (phix.errors.ArgumentError, lambda: F.dropout(X)),
    "cross_entropy": (phix.errors.ShapeError, lambda: F.cross_entropy(np.ones((3, 4)), [0, 1])),
    "mse_loss": (phix.errors.PhixError, lambda: F.mse_loss(X, X, "average")),
    "l1_loss": (phix.errors.PhixError, lambda: F.l1_loss(X, X, "average")),
    "kldiv_loss": (phix.errors.PhixError, lambda: F.kl_div(X, X, "average")),
    "conv2d": (phix.errors.ShapeError, lambda: F.conv2d(X, np.ones((2, 2, 3, 3)))),
    "max_pool2d": (phix.errors.PhixError, lambda: F.max_pool2d(X, 6)),
    "avg_pool2d": (phix.errors.PhixError, lambda: F.avg_pool2d(X, 2, padding=2)),
    "pad": (phix.errors.PhixError, lambda: F.pad(X, [1, 2, 3])),
    "conv2d: padding": (
        phix.errors.ArgumentError,
        lambda: F.conv2d(X, np.ones((2, 3, 1, 1)), padding=[1, (2, 1)]),
    ),
    "divisor_override must not be 0": (
        phix.errors.ArgumentError,
        lambda: F.avg_pool2d(X, 2, divisor_override=0),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_names_the_function(name: str) -> None:
    error, call = ERRORS[name]
    with pytest.raises(error, match=name):
        call()


def test_dropout_without_a_key_says_how_to_get_one() -> None:
    with pytest.raises(phix.errors.ArgumentError, match=r"phix\.random\.key"):
        F.dropout(np.ones(3), 0.5)
    assert F.dropout(np.ones(3), 0.5, training=False).tolist() == [1.0] * 3


# -- whole, under transformations --------------------------------------------------------------
def test_a_network_of_layers_under_jit_grad_and_vmap() -> None:
    weight, scale = floats(6, 3) * 0.5, floats(3, low=0.5)

    def loss(w: Any, s: Any, x: Any, y: Any, k: Any) -> Any:
        hidden = F.dropout(F.gelu(F.linear(x, w)), 0.25, key=k)
        return F.cross_entropy(F.layer_norm(hidden, 3, s), y)

    x, y = floats(4, 5, 6), RNG.integers(0, 3, (4, 5))
    keys = random.split(random.key(7), 4)
    gradient = phix.grad(loss, argnums=(0, 1))
    batched = phix.jit(phix.vmap(gradient, in_axes=(None, None, 0, 0, 0)))
    found = batched(weight, scale, x, y, keys)
    rows = [gradient(weight, scale, *row) for row in zip(x, y, keys.numpy())]
    for parameter, per_row in zip(found, zip(*rows)):
        close(parameter, np.stack([r.numpy() for r in per_row]))
    check_gradient(lambda w, s: loss(w, s, x[0], y[0], keys.numpy()[0]), weight, scale)
