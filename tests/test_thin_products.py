"""Products of few rows or columns: which loops they become, what these read, and their results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phix
from phix import ops
from tests import loop_passes


def program(function: Any, *shapes: Any, **options: Any) -> Any:
    return phix.jit(function, **options).lower(*(phix.spec(s) for s in shapes))


def text(function: Any, *shapes: Any, **options: Any) -> str:
    return str(program(function, *shapes, **options).as_text("loop ir"))


@pytest.mark.parametrize(
    ("shapes", "flags"),
    [
        (((1, 600), (600, 700)), (False, False)),  # a row meets a matrix
        (((600, 700), (600,)), (True, False)),  # a transposed matrix meets a vector
        (((3, 9000), (9000, 3)), (False, False)),  # a few long sums
        (((700, 600), (600, 2)), (False, False)),  # two columns
        (((2, 600), (700, 600)), (False, True)),  # two rows, and the matrix lies along the terms
    ],
)
def test_the_large_operand_is_read_once(shapes: Any, flags: tuple[bool, bool]) -> None:
    found = program(lambda x, y: ops.matmul(x, y, *flags), *shapes)
    assert "gemm" not in found.as_text("loop ir")
    wanted = 4 * sum(int(np.prod(s)) for s in shapes)
    assert wanted <= found.cost_analysis().bytes_read <= 1.01 * wanted


def test_which_products_are_thin() -> None:
    assert "gemm" in text(ops.matmul, (4, 600), (600, 700))
    assert "gemm" in text(ops.matmul, (1, 600), (600, 700), disable="thin_products")
    assert "gemm" in text(ops.matmul, (1, -1), (-1, 700))
    assert "gemm" in text(ops.matmul, (1, 40), (40, 70))  # written out for its sizes
    assert "gemm" in text(ops.matmul, (9, 7, 300), (9, 300, 7))  # too much to lay down
    assert "gemm" not in text(lambda x, y: ops.matmul(x, y, False, True), (9, 7, 300), (9, 7, 300))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_thin_products_are_the_products(dtype: str) -> None:
    """Of all forms and layouts in one program, beside sums in float64."""
    rng = np.random.default_rng(0)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    sizes = [(3, 1030, 5), (1, 700, 300), (2, 1030, 1100), (40, 300, 2), (5, 600, 40)]
    flags = [(a, b) for a in (False, True) for b in (False, True)]
    args, wanted, forms = [], [], []
    for (m, k, n), (a, b), batch in zip(sizes * 4, flags * 5, [(), (), (3,)] * 7):
        x, y = (rng.standard_normal((*batch, *s)).astype(kind) for s in ((m, k), (k, n)))
        wanted.append(x.astype("float64") @ y.astype("float64"))
        args += [np.swapaxes(x, -1, -2).copy() if a else x, y if not b else _turned(y)]
        forms.append((a, b))

    def products(*every: Any) -> list[Any]:
        pairs = zip(every[::2], every[1::2], forms)
        return [ops.matmul(x, y, *flags) for x, y, flags in pairs]

    tolerance = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 4e-3}[dtype]
    for found, right in zip(phix.jit(products)(*map(phix.to_tensor, args)), wanted):
        size = np.abs(right).max()
        np.testing.assert_allclose(
            np.asarray(found).astype("float64"), right, rtol=0, atol=tolerance * size
        )


def _turned(y: np.ndarray) -> np.ndarray:
    return np.swapaxes(y, -1, -2).copy()


@pytest.mark.parametrize(
    ("shapes", "flags"),
    [
        (((2, 530), (530, 65)), (False, False)),
        (((70, 66), (70,)), (True, False)),
        (((3, 260), (260, 3)), (False, False)),
        (((2, 130), (5, 130)), (False, True)),
        (((5, 130), (130, 2)), (False, False)),
    ],
)
def test_passes_keep_what_thin_products_are(shapes: Any, flags: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype("float32") for s in shapes]
    graph = loop_passes.graph_of(lambda x, y: ops.matmul(x, y, *flags), *args)
    loop_passes.prove(graph, args)


def test_gradients_through_a_row_times_a_matrix() -> None:
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal(600), rng.standard_normal((600, 300))
    found = phix.jit(phix.grad(lambda v, w: ops.sum((v @ w) ** 2), (0, 1)))(v, w)
    np.testing.assert_allclose(found[0], 2 * w @ (v @ w), rtol=1e-10)
    np.testing.assert_allclose(found[1], 2 * np.outer(v, v @ w), rtol=1e-10, atol=1e-10)
