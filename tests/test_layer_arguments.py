"""What layers of phix.nn.functional take: biases of the right size, ints of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from harness.closed import close
from phix import ops, random

pytestmark = pytest.mark.unoptimised

F = phix.nn.functional
RNG = np.random.default_rng(0)


def floats(*dims: int) -> np.ndarray:
    return RNG.uniform(-2.0, 2.0, dims)


BIASED: dict[str, tuple[Any, list[int], list[int]]] = {
    "linear": (F.linear, [2, 3], [3, 4]),
    "linear of one column": (F.linear, [2, 3], [3, 1]),
    "conv2d": (F.conv2d, [1, 2, 3, 3], [4, 2, 2, 2]),
    "conv2d of one channel": (F.conv2d, [1, 2, 3, 3], [1, 2, 2, 2]),
    "conv2d, channels last": (
        lambda x, w, b: F.conv2d(x, w, b, data_format="NHWC"), [1, 3, 3, 2], [4, 2, 2, 2],
    ),
    "conv2d_transpose": (F.conv2d_transpose, [1, 2, 3, 3], [2, 4, 2, 2]),
    "Conv1d": (lambda x, w, b: phix.nn.Conv1d(w, b)(x), [1, 2, 3], [4, 2, 2]),
    "ConvTranspose3d": (
        lambda x, w, b: phix.nn.ConvTranspose3d(w, b)(x), [1, 2, 2, 2, 2], [2, 4, 1, 1, 1],
    ),
    "bilinear": (lambda x, w, b: ops.bilinear(x, x, w, b[None]), [2, 3], [4, 3, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASED)
def test_a_bias_has_a_number_for_each_channel(name: str) -> None:
    layer, shape, filters = BIASED[name]
    x, w = floats(*shape), floats(*filters)
    size = 1 if "of one" in name else 4
    wanted = layer(x, w, phix.zeros([size], "float64")).numpy()
    close(layer(x, w, phix.ones([size], "float64")), wanted + 1)
    known = [phix.spec(list(a), "float64") for a in (shape, filters)]
    program = phix.jit(layer, input_spec=[*known, phix.spec(["k"], "float64")])
    close(program(x, w, np.zeros(size)), wanted)
    for wrong in (5 - size, 2):
        for call in (layer, phix.jit(layer), program):
            with pytest.raises(phix.errors.ShapeError, match="bias must be"):
                call(x, w, phix.zeros([wrong], "float64"))


INTS: dict[str, Callable[[], Any]] = {
    "int64": lambda: np.int64(2),
    "uint8": lambda: np.uint8(2),
    "an array": lambda: np.array([2, 2]),
    "an array without axes": lambda: np.array(2),
    "a tensor": lambda: phix.to_tensor(2),
    "among Python's": lambda: [2, np.int32(2)],
}


@pytest.mark.parametrize("name", INTS)
def test_sizes_may_be_ints_of_numpy(name: str) -> None:
    x, w, given = floats(1, 2, 8, 8), floats(2, 2, 2, 2), INTS[name]()
    kernel = floats(2, 2, 3, 3)
    for call in (
        lambda n: F.conv2d(x, w, stride=n),
        lambda n: F.conv2d(x, w, padding=n),
        lambda n: F.conv2d_transpose(x, kernel, None, 3, 0, n),
        lambda n: F.max_pool2d(x, n, n),
        lambda n: F.avg_pool2d(x, n),
    ):
        np.testing.assert_array_equal(call(given).numpy(), call(2).numpy())
    row = floats(1, 3, 2)[:, :, None]
    shape = [1, 2] if np.size(given) == 1 else [2, 2]
    x = np.broadcast_to(row, [1, 3, *shape])
    layer = phix.nn.LayerNorm.create(given)
    np.testing.assert_array_equal(layer(x).numpy(), F.layer_norm(x, shape[-np.size(given) :]))


def test_ints_of_numpy_for_rows_and_ends() -> None:
    rows = floats(3, 2)
    for zero in (np.int64(0), np.array(0), phix.to_tensor(0)):
        assert F.embedding([0, 1], rows, zero).tolist() == [[0.0, 0.0], rows[1].tolist()]
    x = floats(2, 2, 3)
    for ends in (np.array([1, 2]), (np.int32(1), np.int32(2)), phix.to_tensor([1, 2])):
        for mode in ("constant", "reflect", "circular"):
            wanted = F.pad(x, [1, 2], mode)
            np.testing.assert_array_equal(F.pad(x, ends, mode).numpy(), wanted.numpy())
    key = random.key(0)
    wanted = F.dropout(x, axis=[0, 1], key=key)
    np.testing.assert_array_equal(F.dropout(x, axis=np.array([0, 1]), key=key).numpy(), wanted)
