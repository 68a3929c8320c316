"""Operands that a program reshapes, in each way that the CPU engine has for what it does with them.

Where an element lies follows from the dims of the operand. The memory that it is in has others:
those of what was reshaped. The table has a check of this too, of samples too small for some ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.testing.comparison import tolerance_of
from phix.testing.meanings import check_reshaped, flat

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(0)


def normal(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims)


def regular(*dims: int) -> np.ndarray:
    return normal(*dims) + 3.0 * dims[-1] * np.eye(dims[-1])


def complex_(x: np.ndarray) -> np.ndarray:
    return x + 0.5j * x[..., ::-1]


def slopes(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    every = tuple(range(count))
    return phix.grad(lambda *xs: ops.sum(ops.sin(function(*xs))), argnums=every)


def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
    return ops.attention(query, key, value, mask, scale=0.25, causal=False)


def lu_solved(x: Any, y: Any) -> Any:
    factors, pivots, _ = ops.lu(x)
    return ops.lu_solve(y, factors, pivots)


WAYS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "svd in lanes": (phix.linalg.svdvals, (normal(6, 4, 4),)),
    "svd by LAPACK": (phix.linalg.svdvals, (normal(3, 20, 24),)),
    "svd of complex numbers": (phix.linalg.svdvals, (complex_(normal(3, 4, 4)),)),
    "eigh in lanes": (phix.linalg.eigvalsh, (normal(6, 4, 4),)),
    "eigh by LAPACK": (phix.linalg.eigvalsh, (normal(3, 20, 20),)),
    "qr in lanes": (phix.linalg.qr, (normal(6, 4, 4),)),
    "qr by LAPACK": (phix.linalg.qr, (normal(3, 20, 20),)),
    "lu in registers": (lu_solved, (regular(6, 4, 4), normal(6, 4, 2))),
    "lu by LAPACK": (lu_solved, (regular(3, 12, 12), normal(3, 12, 6))),
    "cholesky by LAPACK": (phix.linalg.cholesky, (regular(3, 12, 12),)),
    "triangles by BLAS": (
        lambda x, y: ops.triangular_solve(x, y, True, True, False),
        (regular(12, 12), normal(3, 12, 6)),
    ),
    "a product by BLAS": (ops.matmul, (normal(3, 40, 36), normal(3, 36, 50))),
    "a product of one right side": (ops.matmul, (normal(3, 40, 36), normal(36, 50))),
    "a transposed product": (
        lambda x, y: ops.matmul(x, y, transpose_x=True, transpose_y=True),
        (normal(3, 36, 40), normal(3, 50, 36)),
    ),
    "few sums": (ops.matmul, (normal(2, 256), normal(256, 4))),
    "few columns": (ops.matmul, (normal(60, 128), normal(128, 2))),
    "few rows": (
        lambda x, y: ops.matmul(x, y, transpose_y=True), (normal(2, 128), normal(60, 128)),
    ),
    "rows of terms": (ops.matmul, (normal(2, 40), normal(40, 96))),
    "attention": (attention, (normal(2, 6, 8), normal(2, 9, 8), normal(2, 9, 4), normal(6, 9))),
    "attention by products": (
        attention, (normal(2, 6, 300), normal(2, 9, 300), normal(2, 9, 4), normal(6, 9)),
    ),
    "slopes of attention": (
        slopes(attention, 4), (normal(2, 6, 8), normal(2, 9, 8), normal(2, 9, 4), normal(6, 9)),
    ),
    "rows sorted by a network": (ops.argsort, (normal(8, 30),)),
    "rows sorted by digits": (ops.argsort, (normal(2, 600),)),
    "columns sorted": (lambda x: ops.sort(x, axis=0), (normal(30, 8),)),
    "extremes by blocks": (lambda x: ops.argmax(x, axis=-1), (normal(3, 600),)),
    "transforms": (lambda x: phix.fft.rfftn(x), (normal(3, 8, 12),)),
    "transforms back": (lambda x: phix.fft.irfftn(x), (complex_(normal(3, 8, 12)),)),
    "rows of a loop": (
        lambda x: phix.scan(lambda c, row: (c + row @ row, c), np.zeros((4, 4)), x),
        (normal(5, 4, 4),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_elements_are_where_the_dims_say(way: str) -> None:
    function, operands = WAYS[way]
    check_reshaped(lambda *xs: flat(function(*xs)), operands, tolerance_of)
