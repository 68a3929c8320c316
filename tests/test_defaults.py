"""What ops mean where an argument is left out, or is None: as NumPy and Paddle mean it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import ArgumentError

pytestmark = pytest.mark.unoptimised(4)

X = np.array([[0.5, -2.0, 3.0], [4.0, 1.0, -6.0]], np.float32)

# a call, and what NumPy says it is
CALLS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "eye": (lambda x: ops.eye(3) + 0 * x[0], np.eye(3)),
    "eye, None": (lambda x: ops.eye(3, None) + 0 * x[0], np.eye(3)),
    "argmax": (lambda x: ops.argmax(x), X.argmax()),
    "argmax, None": (lambda x: ops.argmax(x, None), X.argmax()),
    "argmax, kept": (lambda x: ops.argmax(x, keepdims=True), X.argmax(keepdims=True)),
    "argmin": (lambda x: x.argmin(), X.argmin()),
    "clip": (lambda x: ops.clip(x), X),
    "clip, min": (lambda x: ops.clip(x, 0.75), np.clip(X, 0.75, None)),
    "clip, max": (lambda x: ops.clip(x, max=0.75), np.clip(X, None, 0.75)),
    "clip, None": (lambda x: x.clip(None, 2), np.clip(X, None, 2)),
    "pad": (lambda x: ops.pad(x, [1, 0, 0, 2]), np.pad(X, [(1, 0), (0, 2)])),
    "split": (lambda x: ops.split(x, [1, 1])[1], X[1:]),
    "split_with_num": (lambda x: ops.split_with_num(x, 2)[0], X[:1]),
    "tril_indices": (lambda x: ops.tril_indices(3, 4), np.stack(np.tril_indices(3, 0, 4))),
    "triu_indices": (lambda x: ops.triu_indices(3, 4), np.stack(np.triu_indices(3, 0, 4))),
    "roll, None": (lambda x: ops.roll(x, 2, None), np.roll(X, 2)),
    "logsumexp, None": (lambda x: ops.logsumexp(x, None), np.log(np.exp(X.astype(float)).sum())),
    **{
        f"{name}, None": (
            lambda x, name=name: getattr(ops, name)(x, axis=None),
            getattr(np, name)(X, axis=None),
        )
        for name in ("sum", "mean", "max", "min", "amax", "amin", "prod", "any", "all")
    },
    "var, None": (lambda x: ops.var(x, None), X.var(ddof=1)),
    "std, None": (lambda x: ops.std(x, None), X.std(ddof=1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_left_out(name) -> None:
    f, expected = CALLS[name]
    unknown = phix.jit(f, input_spec=[phix.spec(["n", "m"], "float32")])
    for found in (f(phix.to_tensor(X)), phix.jit(f)(X), unknown(X), phix.vmap(f)(X[None])[0]):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_squeeze_takes_all_axes_of_size_one() -> None:
    assert ops.squeeze(X[None, :, None], None).shape == X.shape


def test_a_bound_left_out_leaves_the_gradient() -> None:
    found = phix.grad(lambda x: ops.sum(ops.clip(x, max=1.0)))(X)
    np.testing.assert_array_equal(found, X <= 1)
    assert ops.clip(np.arange(3), 1).tolist() == [1, 1, 2]


@pytest.mark.parametrize("call", [
    lambda: ops.cumsum(X, None), lambda: ops.transpose(X, None), lambda: ops.softmax(X, None),
    lambda: ops.full(None, 1.0), lambda: ops.conv2d(X, X, strides=None),
    lambda: ops.sum(X, axis=[None]),
])  # fmt: skip
def test_none_elsewhere_is_refused(call) -> None:
    with pytest.raises(ArgumentError, match=r"found .*None"):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_divmod_is_numpys(dtype) -> None:
    a = np.array([7, 1, 9, 4, 0]).astype(dtype) * (1 if dtype == "uint8" else -1)
    b = np.array([2, 3, 4, 1, 5], dtype)
    x, y = phix.to_tensor(a), phix.to_tensor(b)
    cases = [
        (divmod(x, y), divmod(a, b)),
        (divmod(x, 3), divmod(a, 3)),
        (divmod(7, y), divmod(7, b)),
        (divmod(a, y), divmod(a, b)),
        (divmod(x, b), divmod(a, b)),
        (phix.jit(divmod)(x, y), divmod(a, b)),
    ]
    for found, expected in cases:
        for got, wanted in zip(found, expected, strict=True):
            assert np.asarray(got).dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_divmod_of_infinities_and_zeros_is_numpys() -> None:
    a = np.array([np.inf, -1.0, 1.0, -0.0, np.nan, 5.0, -5.0], np.float64)
    b = np.array([2.0, np.inf, -np.inf, 3.0, 1.0, 0.0, -0.0], np.float64)
    with np.errstate(all="ignore"):
        expected = divmod(a, b)
    np.testing.assert_array_equal(divmod(phix.to_tensor(a), b), expected)


@pytest.mark.parametrize("other", [None, "3", object()])
def test_divmod_with_no_number_is_refused(other) -> None:
    x = phix.to_tensor(X)
    for call in (lambda: divmod(x, other), lambda: divmod(other, x), lambda: x // other):
        with pytest.raises((ArgumentError, TypeError)):
            call()
