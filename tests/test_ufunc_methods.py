"""Methods of ufuncs beside NumPy's, in all dtypes, along all axes, and of unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
import phix.numpy as pn
from phix.array_functions.ufunc_methods import METHODS

RNG = np.random.default_rng(5)
OF_INTS = ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
OF_TRUTHS = ("logical_and", "logical_or", "logical_xor")
OF_FLOATS = ("logaddexp", "logaddexp2", "hypot")
NAMES = (*OF_INTS, *OF_TRUTHS, *OF_FLOATS)


def dtypes_of(name: str) -> tuple[str, ...]:
    if name in OF_FLOATS:
        return ("float64",)
    ints = ("int8", "int64", "uint8")
    return (*ints, "bool", "float64") if name in OF_TRUTHS else ints


def same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype and tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_all_elements_along_axes(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    for dtype in dtypes_of(name):
        for shape in ((5,), (1,), (3, 4), (2, 7, 3)):
            x = RNG.integers(1, 7, shape).astype(dtype)
            several = [None, (0, 1)] if len(shape) > 1 and name != "lcm" else []
            for axis in (0, -1, *several):
                for keep in (False, True):
                    wanted = np.asarray(theirs.reduce(x, axis, keepdims=keep))
                    same(ours.reduce(x, axis, keepdims=keep), wanted)
        x = np.zeros((0, 2), dtype)
        if theirs.identity is not None:
            same(ours.reduce(x), np.asarray(theirs.reduce(x)))


@pytest.mark.parametrize("name", NAMES)
def test_the_first_elements_along_an_axis(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    for dtype in dtypes_of(name):
        x = RNG.integers(0, 7, (3, 6)).astype(dtype)
        for axis in (0, 1):
            same(ours.accumulate(x, axis), np.asarray(theirs.accumulate(x, axis)))


@pytest.mark.parametrize("name", ["bitwise_xor", "logaddexp2", "gcd"])
def test_masks_and_first_values(name: str) -> None:
    theirs, ours = getattr(np, name), getattr(pn, name)
    x = RNG.integers(1, 60, (4, 5)).astype(dtypes_of(name)[-1])
    mask, first = x % 3 > 0, x[0, 0]
    wanted = np.asarray(theirs.reduce(x, 1, where=mask, initial=first))
    same(ours.reduce(x, 1, where=mask, initial=first), wanted)


def test_transformed_and_of_unknown_sizes() -> None:
    x = RNG.integers(0, 99, (6, 5))
    lanes = phix.jit(phix.vmap(pn.bitwise_xor.reduce))
    same(lanes(x), np.bitwise_xor.reduce(x, 1))
    of_any = phix.jit(pn.bitwise_xor.reduce, input_spec=[phix.spec([-1, 5], "int64")])
    for rows in (1, 2, 6):
        same(of_any(x[:rows]), np.bitwise_xor.reduce(x[:rows]))
    y = x[0] / 50
    slope = phix.grad(lambda y: pn.logaddexp.accumulate(y)[-1])(y)
    same(slope, np.exp(y) / np.exp(y).sum())


def test_every_method_is_offered() -> None:
    for name, method in METHODS:
        assert callable(getattr(getattr(pn, name), method))
