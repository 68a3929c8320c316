"""conv2d and its gradients in each way the CPU engine has for them, compiled for known sizes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phix
from harness.references.windows import conv2d
from phix import ops

pytestmark = pytest.mark.unoptimised(4)

# images [n, c, h, w], filters [o, c / groups, kh, kw], attributes
WAYS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "tiles": ((4, 16, 8, 8), (17, 16, 3, 3), {"paddings": (1, 1)}),
    "too few tiles": ((3, 16, 8, 8), (17, 16, 3, 3), {"paddings": (1, 1)}),
    "tiles, cut at the edge": ((2, 21, 9, 14), (20, 21, 3, 3), {"paddings": (0, 2, 1, 0)}),
    "tiles, in blocks": ((5, 64, 64, 64), (64, 64, 3, 3), {"paddings": (1, 1)}),
    "one tap": ((3, 8, 5, 7), (6, 8, 1, 1), {}),
    "one tap, groups": ((2, 12, 5, 4), (18, 4, 1, 1), {"groups": 3}),
    "patches, a step of 2": ((2, 5, 9, 8), (6, 5, 3, 3), {"strides": (2, 2), "paddings": (1, 1)}),
    "patches, dilated": ((2, 6, 9, 8), (10, 3, 3, 2), {"dilations": (2, 1), "groups": 2}),
    "bands": ((2, 48, 22, 18), (6, 48, 5, 5), {"paddings": (2, 1)}),
    "lines": ((2, 6, 22, 18), (10, 3, 5, 5), {"paddings": (2, 1, 3, 0), "groups": 2}),
    "bands, groups, a step of 2": (
        (1, 16, 43, 34),
        (10, 8, 5, 5),
        {"strides": (2, 2), "groups": 2},
    ),
    "depthwise": ((2, 6, 8, 7), (6, 1, 3, 3), {"paddings": (1, 1), "groups": 6}),
    "depthwise, twice": ((2, 4, 8, 8), (8, 1, 3, 3), {"strides": (2, 1), "groups": 4}),
    "the whole image": ((4, 7, 5, 5), (9, 7, 5, 5), {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_forward(way: str) -> None:
    dims, filter_dims, attrs = WAYS[way]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(dims), rng.standard_normal(filter_dims)
    expected = conv2d(x, w, **attrs)
    f = phix.jit(lambda x, w: ops.conv2d(x, w, **attrs))
    np.testing.assert_allclose(f(x, w), expected, rtol=1e-11, atol=1e-11)
    single = f(x.astype(np.float32), w.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("way", WAYS)
def test_gradients(way: str) -> None:
    """A convolution is linear in each input: <conv(dx, w) + conv(x, dw), g> is known exactly."""
    dims, filter_dims, attrs = WAYS[way]
    rng = np.random.default_rng(1)
    x, dx = rng.standard_normal((2, *dims))
    w, dw = rng.standard_normal((2, *filter_dims))
    g = rng.standard_normal(conv2d(x, w, **attrs).shape)
    gradient = phix.grad(lambda x, w: ops.sum(ops.conv2d(x, w, **attrs) * g), argnums=(0, 1))
    to_x, to_w = (np.asarray(t) for t in phix.jit(gradient)(x, w))
    np.testing.assert_allclose(np.vdot(to_x, dx), np.vdot(conv2d(dx, w, **attrs), g), rtol=1e-10)
    np.testing.assert_allclose(np.vdot(to_w, dw), np.vdot(conv2d(x, dw, **attrs), g), rtol=1e-10)


def drawn(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Images, filters and attributes, such that a window fits; some paddings exceed the filter."""
    groups = int(rng.integers(1, 3))
    per_group, each = (int(rng.choice([1, 2, 17])) for _ in range(2))
    kernel, strides = rng.integers(1, 6, 2), rng.integers(1, 5, 2)
    dilations, pads = rng.integers(1, 3, 2), rng.integers(0, 6, 4)
    room = (kernel - 1) * dilations + 1 - (pads[::2] + pads[1::2])
    size = np.maximum(room, 1) + rng.integers(0, 7, 2)
    attrs = {
        name: tuple(int(v) for v in values)
        for name, values in (("strides", strides), ("paddings", pads), ("dilations", dilations))
    }
    dims = (int(rng.integers(1, 4)), groups * per_group, *size)
    return dims, (groups * each, per_group, *kernel), {**attrs, "groups": groups}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("seed", "is_known"), [*((n, True) for n in range(24)), *((n, False) for n in range(6))]
)
def test_gradients_of_windows_drawn_at_random(seed: int, is_known: bool) -> None:
    """As above; and that of images whose size is not known while compiling."""
    rng = np.random.default_rng(seed)
    dims, filter_dims, attrs = drawn(rng)
    x, dx = rng.standard_normal((2, *dims))
    w, dw = rng.standard_normal((2, *filter_dims))
    g = conv2d(x, w, **attrs)
    loss = lambda x, w: 0.5 * ops.sum(ops.conv2d(x, w, **attrs) ** 2)  # noqa: E731
    spec = [phix.spec([-1, dims[1], "h", "w"], "float64"), phix.spec(filter_dims, "float64")]
    gradient = phix.grad(loss, argnums=(0, 1))
    gradient = gradient if is_known else phix.jit(gradient, input_spec=spec)
    to_x, to_w = (np.asarray(t) for t in gradient(x, w))
    assert to_x.shape == x.shape and to_w.shape == w.shape
    np.testing.assert_allclose(np.vdot(to_x, dx), np.vdot(conv2d(dx, w, **attrs), g), rtol=1e-9)
    np.testing.assert_allclose(np.vdot(to_w, dw), np.vdot(conv2d(x, dw, **attrs), g), rtol=1e-9)


def same_paddings(sizes: Any, kernel: Any, strides: Any, dilations: Any) -> tuple[int, ...]:
    """Before and behind each axis, for ceil(size / stride) places; an odd one is behind."""
    found: list[int] = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations):
        missing = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        found += [missing // 2, missing - missing // 2]
    return tuple(found)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(24))
def test_gradients_where_paddings_are_what_the_places_need(seed: int) -> None:
    """Of small images, too, which a step of 2 and more visits in one place."""
    rng = np.random.default_rng(seed)
    dims, filter_dims, attrs = drawn(rng)
    sizes = rng.integers(1, 7, 2)
    given = {**attrs, "paddings": (0, 0), "padding_algorithm": "SAME"}
    attrs["paddings"] = same_paddings(sizes, filter_dims[2:], attrs["strides"], attrs["dilations"])
    x, dx = rng.standard_normal((2, *dims[:2], *sizes))
    w, dw = rng.standard_normal((2, *filter_dims))
    g = conv2d(x, w, **attrs)
    loss = lambda x, w: 0.5 * ops.sum(ops.conv2d(x, w, **given) ** 2)  # noqa: E731
    to_x, to_w = (np.asarray(t) for t in phix.grad(loss, argnums=(0, 1))(x, w))
    np.testing.assert_allclose(ops.conv2d(x, w, **given), g, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.vdot(to_x, dx), np.vdot(conv2d(dx, w, **attrs), g), rtol=1e-9)
    np.testing.assert_allclose(np.vdot(to_w, dw), np.vdot(conv2d(x, dw, **attrs), g), rtol=1e-9)


@pytest.mark.parametrize("step", [1, 2])
def test_volumes_under_filters_of_one_slice(step: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 4, 5, 5)), rng.standard_normal((2, 3, 1, 2, 2))
    found = ops.conv3d(x, w, strides=[step, 1, 1])
    each = [conv2d(x[:, :, k], w[:, :, 0]) for k in range(0, 4, step)]
    np.testing.assert_allclose(found, np.stack(each, 2), rtol=1e-11, atol=1e-11)


def test_the_last_band_of_rows_is_what_is_left_of_an_image() -> None:
    x, w = phix.spec((2, 22, 23, 18)), phix.spec((6, 22, 7, 7))
    f = lambda x, w: ops.conv2d(x, w, paddings=(3, 3))  # noqa: E731
    text = phix.jit(f).lower(x, w).as_text("loop ir")
    assert "local l0" in text and re.search(r"range\(minimum\(\(23 - ", text)
    apart = phix.jit(f, disable="patches_in_bands").lower(x, w).as_text("loop ir")
    assert "local" not in apart
    a, b = (np.random.default_rng(0).standard_normal(s.shape).astype("f") for s in (x, w))
    batch = phix.jit(f, input_spec=[phix.spec(["n", *x.shape[1:]]), w])
    expected = conv2d(a.astype(float), b.astype(float), paddings=(3, 3))
    for found in (phix.jit(f)(a, b), batch(a, b)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_an_unknown_batch_is_compiled_once() -> None:
    spec = [phix.spec(["n", 16, 12, 8], "float64"), phix.spec([16, 16, 3, 3], "float64")]
    loss = lambda x, w: ops.sum(ops.conv2d(x, w, paddings=(1, 1)) ** 2)  # noqa: E731
    f = phix.jit(phix.value_and_grad(loss, argnums=1), input_spec=spec)
    rng = np.random.default_rng(2)
    w = rng.standard_normal((16, 16, 3, 3))
    for n in (1, 4, 6, 0):
        x = rng.standard_normal((n, 16, 12, 8))
        y = conv2d(x, w, paddings=(1, 1)) if n else np.zeros((0, 16, 12, 8))
        value, gradient = f(x, w)
        np.testing.assert_allclose(value, (y**2).sum(), rtol=1e-11)
        # the loss is quadratic in w
        np.testing.assert_allclose(np.vdot(gradient, w), 2 * (y**2).sum(), rtol=1e-11)


def test_a_nan_stays_in_its_image() -> None:
    x = np.ones((4, 16, 8, 8))
    x[1, 3, 2, 2] = np.nan
    w = np.ones((16, 16, 3, 3))
    out = np.asarray(phix.jit(lambda x, w: ops.conv2d(x, w, paddings=(1, 1)))(x, w))
    assert np.isnan(out[1, :, 1:4, 1:4]).all()
    assert np.isfinite(out[[0, 2, 3]]).all() and np.isfinite(out[1, :, 6:]).all()


def test_winograds_way_can_be_left_out() -> None:
    """Patches then: what is not a number reaches the outputs whose windows hold it, no others."""
    x = np.ones((4, 16, 8, 8))
    x[0, 3, 2, 2] = np.nan
    w = np.ones((16, 16, 3, 3))
    f = phix.jit(lambda x, w: ops.conv2d(x, w, paddings=(1, 1)), disable="winograd")
    np.testing.assert_array_equal(f(x, w), conv2d(x, w, paddings=(1, 1)))
