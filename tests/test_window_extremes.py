"""Windows, strides, dilations and paddings beyond any image: typed errors at once, or right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import AttributeValueError, OutOfMemoryError, PhixError
from tests.spoiled_calls import limited

pytestmark = pytest.mark.unoptimised

X = np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5)
W = np.ones((3, 2, 3, 3), np.float32)
LARGE = [2**62, 2**31 - 1]
# What is given the large number; all are refused.
REFUSED: dict[str, Callable[[Any, int], Any]] = {
    "conv, dilations": lambda x, n: ops.conv2d(x, W, dilations=[n, n]),
    "conv, paddings": lambda x, n: ops.conv2d(x, W, paddings=[n, n]),
    "conv, same": lambda x, n: ops.conv2d(x, W, dilations=[n, n], padding_algorithm="SAME"),
    "conv, fits": lambda x, n: ops.conv2d(x, W, dilations=[n, n], paddings=[n, n]),
    "conv, steps": lambda x, n: ops.conv2d(x, W, strides=[n, n], paddings=[n, n]),
    "depthwise": lambda x, n: ops.depthwise_conv2d(x, W[:2, :1], paddings=[n, n], groups=2),
    "transpose, strides": lambda x, n: ops.conv2d_transpose(x, W[:2], strides=[n, n]),
    "transpose, dilations": lambda x, n: ops.conv2d_transpose(x, W[:2], dilations=[n, n]),
    "transpose, more": lambda x, n: ops.conv2d_transpose(x, W[:2], output_padding=[n, n]),
    "transpose, size": lambda x, n: ops.conv2d_transpose(x, W[:2], output_size=[n, n]),
    "max, padded": lambda x, n: ops.max_pool2d(x, [n, n], [n, n], [n - 1, n - 1]),
    "max, ceil": lambda x, n: ops.max_pool2d(x, [n, n], ceil_mode=True),
    "avg, ceil": lambda x, n: ops.avg_pool2d(x, [n, n], ceil_mode=True),
    "avg, same": lambda x, n: ops.avg_pool2d(x, [n, n], [1, 1], padding_algorithm="SAME"),
    "avg, plain": lambda x, n: ops.avg_pool2d(x, [n, n]),
}


def _unsized(f: Callable[..., Any]) -> Callable[..., Any]:
    return phix.jit(f, input_spec=[phix.spec([1, 2, "h", "w"])])


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("name", REFUSED)
def test_what_no_image_can_have_is_refused_at_once(name: str, size: int) -> None:
    def f(x: Any) -> Any:
        return REFUSED[name](x, size)

    def slope(x: Any) -> Any:
        return phix.grad(lambda x: ops.sum(f(x)))(x)

    with limited(20):
        for g in (f, slope, phix.jit(f), _unsized(f), _unsized(slope)):
            with pytest.raises(PhixError):
                g(X)


UP = {"strides": [2, 3], "dilations": [1, 1]}


@pytest.mark.parametrize("more", [
    {"output_padding": [2, 0]}, {"output_padding": [0, 3]}, {"output_padding": [-1, 0]},
    {"output_padding": [1]}, {"output_padding": [1, 1, 1]}, {"output_size": [13, 15]},
    {"output_size": [10, 15]}, {"output_size": [50, 50]}, {"output_size": [12]},
    {"output_size": [11, 15], "output_padding": [1, 1]},
])  # fmt: skip
def test_an_output_that_no_convolution_takes_back_is_refused(more: dict[str, Any]) -> None:
    for f in (
        lambda x: ops.conv2d_transpose(x, W[:2], **UP, **more),
        phix.jit(lambda x: ops.conv2d_transpose(x, W[:2], **UP, **more)),
    ):
        with pytest.raises(AttributeValueError, match=r"output_(padding|size)"):
            f(X)


@pytest.mark.parametrize("height", [11, 12])
@pytest.mark.parametrize("width", [15, 16, 17])
def test_outputs_are_those_that_the_convolution_takes_back(height: int, width: int) -> None:
    size, more = [height, width], [height - 11, width - 15]
    found = ops.conv2d_transpose(X, W[:2], **UP, output_size=size)
    assert found.shape[2:] == (height, width)
    assert ops.conv2d(found, W[:2], **UP).shape == (1, 2, 5, 5)
    other = ops.conv2d_transpose(X, W[:2], **UP, output_padding=more)
    np.testing.assert_array_equal(found, other)


def test_a_stride_beyond_the_image_leaves_one_window() -> None:
    large = [2**31 - 1] * 2
    conv = lambda x: ops.conv2d(x, W, strides=large)  # noqa: E731
    largest = lambda x: ops.max_pool2d(x, [2, 2], large)  # noqa: E731
    mean = lambda x: ops.avg_pool2d(x, [2, 2], large)  # noqa: E731
    corner = np.zeros_like(X)
    corner[..., :3, :3] = 3  # each of three filters of ones
    last, part = np.zeros_like(X), np.zeros_like(X)
    last[..., 1, 1], part[..., :2, :2] = 1, 0.25
    for f, value, slope in (
        (conv, np.full((1, 3, 1, 1), X[..., :3, :3].sum()), corner),
        (largest, X[..., 1:2, 1:2], last),
        (mean, X[..., :2, :2].mean((2, 3), keepdims=True), part),
    ):
        for g in (f, phix.jit(f), _unsized(f)):
            np.testing.assert_allclose(g(X), value)
        np.testing.assert_allclose(phix.grad(lambda x, f=f: ops.sum(f(x)))(X), slope)


def test_a_window_as_large_as_a_known_image_is_one_reduction() -> None:
    x = np.ones((1, 1, 1, 20_000), np.float32)
    assert phix.jit(lambda x: ops.max_pool2d(x, [1, 20_000]))(x).shape == (1, 1, 1, 1)
    assert phix.jit(lambda x: ops.avg_pool2d(x, [1, 20_000]))(x).item() == 1


def test_a_program_that_gets_no_memory_on_its_way_raises() -> None:
    """Not of its result: of an image with its padding, 30 TB."""

    def f(x: Any) -> Any:
        large = 2**31 - 1
        return ops.conv2d(x, W, dilations=[1, large], paddings=[900, large], strides=[901, 1])

    with limited(60), pytest.raises(OutOfMemoryError, match=r"conv2d \(at .*what is computed"):
        f(X)
    with limited(60), pytest.raises(OutOfMemoryError, match=r"jit of f: out of memory for what"):
        phix.jit(f)(X)


def test_windows_that_cut_images_into_tiles_with_channels_last() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 3))
    tiles = x.reshape(2, 2, 2, 2, 3, 3)
    found = ops.max_pool2d(x, [2, 3], [2, 3], data_format="NHWC")
    np.testing.assert_array_equal(found, tiles.max((2, 4)))
    found = ops.avg_pool2d(x, [2, 3], [2, 3], data_format="NHWC")
    np.testing.assert_allclose(found, tiles.mean((2, 4)), rtol=1e-14)
    slope = phix.grad(lambda x: ops.sum(ops.max_pool2d(x, [2, 3], [2, 3], data_format="NHWC")))(x)
    np.testing.assert_array_equal(
        slope, (tiles == tiles.max((2, 4), keepdims=True)).reshape(x.shape)
    )
