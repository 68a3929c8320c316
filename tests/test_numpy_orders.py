"""Orders that NumPy has and that are not those of real numbers: complex ones, NaN, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix import ops

pytestmark = [pytest.mark.unoptimised, pytest.mark.filterwarnings("ignore")]

PARTS = np.array([1.0, 2.0, np.nan, np.inf, -np.inf, 0.0, 1.0])
RNG = np.random.default_rng(3)
Z = np.empty((4, 5), complex)
Z.real, Z.imag = RNG.choice(PARTS, (4, 5)), RNG.choice(PARTS, (4, 5))
KNOWN = np.where(np.isnan(Z), 2 + 1j, Z)
W = RNG.permutation(Z.ravel()).reshape(4, 5)


def same(call: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The call of a namespace and arrays gives in phix what it gives in NumPy, in every bit."""
    found, wanted = call(pn, *map(pn.asarray, arrays)), call(np, *arrays)
    pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
    for f, w in ((np.asarray(f), np.asarray(w)) for f, w in pairs):
        assert (f.shape, f.dtype) == (w.shape, w.dtype)
        assert np.array_equal(f, w, equal_nan=f.dtype.kind in "fc"), (f, w)


@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"]
)
def test_complex_numbers_are_compared(name: str) -> None:
    same(lambda np, a, b: getattr(np, name)(a, b), Z, W)
    same(lambda np, a: getattr(np, name)(a, 1.0), Z)
    same(lambda np, a: getattr(np, name)(a, 1j), Z.real.copy())


def test_complex_numbers_are_found_and_sorted() -> None:
    for axis in (None, 1):
        for name in ("argmax", "argmin"):
            same(lambda np, z, n=name, a=axis: getattr(np, n)(z, axis=a), Z)
        for name in ("argmax", "argmin", "max", "min", "median"):
            same(lambda np, z, n=name, a=axis: getattr(np, n)(z, axis=a), KNOWN)
        same(lambda np, z, a=axis: np.sort(z, axis=a), Z)
        same(lambda np, z, a=axis: np.argsort(z, axis=a, stable=True), Z)
    same(lambda np, z: np.nanargmax(z), Z)
    same(lambda np, z: np.nanmedian(z), np.where(np.isinf(Z), 1, Z))
    for side in ("left", "right"):
        same(lambda np, a, v, s=side: np.searchsorted(a, v, s), np.sort(Z.ravel()), KNOWN[:2])
    same(lambda np, z, v: (np.isin(z, v), np.setdiff1d(z, v)), KNOWN, KNOWN[1])
    same(lambda np, z: np.clip(z, 0, 1 + 1j), KNOWN)


def test_methods_order_complex_numbers_too() -> None:
    x = phix.to_tensor(KNOWN)
    assert x.max().item() == KNOWN.max() and x.argmin().item() == KNOWN.argmin()
    assert (
        x.max(initial=9).item() == KNOWN.max(initial=9)
        and x.round().tolist() == KNOWN.round().tolist()
    )
    assert x.sort(None).tolist() == np.sort(KNOWN, None).tolist()
    assert x.argsort(1).tolist() == KNOWN.argsort(1, stable=True).tolist()
    assert x.argmax(axis=0, keepdims=True).tolist() == KNOWN.argmax(0, keepdims=True).tolist()
    wide = phix.to_tensor(np.array([1, 2**63 + 2], "uint64"))
    assert wide.searchsorted(np.array([-1, 5])).tolist() == [0, 1]


def test_values_that_differ_with_nan_equal_or_apart() -> None:
    given = {"return_index": True, "return_inverse": True, "return_counts": True}
    for values in (Z, Z.real.copy(), np.array([2, 1, 2])):
        for equal in (True, False):
            same(lambda np, z, e=equal: tuple(np.unique(z, **given, equal_nan=e)), values)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_median_between_two_elements_is_their_mean_rounded_once(dtype: str) -> None:
    """What lies far apart on both sides of 0 has a difference that is rounded, or infinite."""
    least, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    rows = (np.random.default_rng(5).standard_normal((200, 4)) * 100).astype(dtype)
    rows = np.append(rows, np.array([[-most, most] * 2, [least] * 4], dtype), 0)
    of_any_size = phix.jit(lambda x: pn.median(x, 1), input_spec=[phix.spec(["m", "n"], dtype)])
    np.testing.assert_array_equal(of_any_size(rows), np.median(rows, 1))
    for name in ("median", "nanmedian"):
        same(lambda np, x, n=name: getattr(np, n)(x, axis=1), rows)


def test_the_median_of_nothing_is_nan() -> None:
    for axis, keep in ((None, False), (0, True), (1, False)):
        for name in ("median", "nanmedian"):
            same(
                lambda np, x, n=name, a=axis, k=keep: getattr(np, n)(x, axis=a, keepdims=k),
                np.ones((0, 3)),
            )
    assert np.isnan(phix.jit(np.median)(phix.zeros([0])).item())
    for dtype in ("float32", "complex64"):
        many = phix.to_tensor(np.array([3, -1, 5, 2, -2], dtype))
        for name in ("median", "nanmedian"):
            middle = getattr(pn, name)
            of_some = phix.jit(lambda x, keep, f=middle: f(ops.masked_select(x, keep)))
            assert of_some(many, many.real > 0).tolist() == 3
            found = of_some(many, many.real > 9)
            assert found.dtype.name == dtype and np.isnan(found.numpy()) and found.shape == ()
    rows = phix.jit(lambda x, keep: pn.median(ops.masked_select(x, keep)[None], 1, keepdims=True))
    assert np.isnan(rows(phix.ones([2]), phix.zeros([2], "bool")).tolist()).tolist() == [[True]]
    slopes = phix.grad(lambda z: pn.median(z).real)(phix.to_tensor([3j, 1 + 0j, 2 + 0j, 4 + 0j]))
    assert slopes.tolist() == [0, 0.5, 0.5, 0]
