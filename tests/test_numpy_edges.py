"""Calls of NumPy's at their edges: single values, truths, nothing at all, and complex numbers.

What is right is what NumPy itself gives, or a message that says what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import errors

ONE = np.float32(3.0)
TRUTHS = np.array([[True, False, True], [True, True, False], [False, False, False]])
ROW = TRUTHS[0]

# -- axes of a single value ------------------------------------------------------------------------
REDUCTIONS = ("sum", "prod", "mean", "std", "var", "max", "min", "ptp", "all", "any", "argmax",
              "argmin", "cumsum", "cumprod", "nansum", "count_nonzero")  # fmt: skip

BY_COUNTING = {"mean", "std", "var"}  # NumPy itself counts along an axis that is not there


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_single_value_has_the_axes_0_and_minus_1(name: str) -> None:
    for axis in (0, -1):
        there = None if name in BY_COUNTING else axis
        wanted = np.asarray(getattr(np, name)(ONE, axis=there))
        for found in (
            getattr(phix.numpy, name)(phix.to_tensor(ONE), axis=axis),
            getattr(np, name)(phix.to_tensor(ONE), axis=axis),
        ):
            assert isinstance(found, phix.Tensor)
            assert found.shape == wanted.shape and found.tolist() == wanted.tolist()
    for axis in (1, -2, (0,)):
        with pytest.raises(errors.AttributeValueError, match="out of range for 0 axes"):
            getattr(phix.numpy, name)(phix.to_tensor(ONE), axis=axis)


# -- products of truths ----------------------------------------------------------------------------
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda np, x: np.matmul(x, x),
    "matmul of a row": lambda np, x: np.matmul(x[0], x),
    "dot": lambda np, x: np.dot(x, x),
    "dot of three axes": lambda np, x: np.dot(x[None], x[None]),
    "vdot": lambda np, x: np.vdot(x, x),
    "inner": lambda np, x: np.inner(x, x),
    "tensordot": lambda np, x: np.tensordot(x, x, 1),
    "tensordot of lists": lambda np, x: np.tensordot(x, x, ([0], [0])),
    "einsum": lambda np, x: np.einsum("ij,jk->ik", x, x),
    "kron": lambda np, x: np.kron(x, x),
    "outer": lambda np, x: np.outer(x, x),
}


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_truths_is_one(name: str) -> None:
    wanted = PRODUCTS[name](np, TRUTHS)
    x = phix.to_tensor(TRUTHS)
    for module in (phix.numpy, np):
        found = PRODUCTS[name](module, x)
        assert isinstance(found, phix.Tensor) and found.dtype == wanted.dtype == np.bool_
        assert found.tolist() == wanted.tolist()


def test_truths_times_numbers_are_numbers() -> None:
    numbers = np.arange(9).reshape(3, 3)
    found = phix.numpy.matmul(phix.to_tensor(TRUTHS), numbers)
    assert found.dtype == np.int64 and found.tolist() == (TRUTHS @ numbers).tolist()


# -- messages --------------------------------------------------------------------------------------
PAIR = phix.to_tensor([1 + 1j, 2 - 1j])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "concatenate": (lambda: phix.numpy.concatenate([]), "concatenate needs at least one array"),
    "vstack": (lambda: phix.numpy.vstack([]), "needs at least one array"),
    "hstack": (lambda: phix.numpy.hstack([]), "hstack needs at least one array"),
    "stack": (lambda: phix.numpy.stack([]), "stack needs at least one tensor"),
    "max": (lambda: phix.numpy.max(PAIR), r"x\.real, x\.imag or phix\.ops\.abs"),
    "less": (lambda: PAIR < PAIR, r"phix\.numpy\.sort orders complex"),
    "flatten": (lambda: phix.ones([2, 2]).flatten(order="F"), r"write x\.T\.flatten"),
    "empty": (lambda: phix.numpy.max(phix.zeros([0])), "give the axis a size from 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_the_way(name: str) -> None:
    call, said = REFUSED[name]
    with pytest.raises(errors.PhixError, match=said):
        call()
