"""matmul, einsum and conv2d beyond what the op table's samples cover."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import phix
from harness.references.windows import channels_back, conv2d
from phix import ops
from phix.testing import derivatives as differences

pytestmark = pytest.mark.unoptimised(4)

MATMULS = [
    ((4,), (4,)),
    ((4,), (4, 3)),
    ((2, 4), (4,)),
    ((2, 4), (4, 3)),
    ((4,), (5, 4, 3)),
    ((5, 2, 4), (4,)),
    ((5, 2, 4), (4, 3)),
    ((2, 4), (5, 4, 3)),
    ((3, 1, 2, 4), (5, 4, 3)),
]


def _matmul_cases() -> list[Any]:
    found = []
    for (xs, ys), flip_x, flip_y in itertools.product(MATMULS, (False, True), (False, True)):
        turned_x = (*xs[:-2], *xs[:-3:-1]) if flip_x and len(xs) > 1 else xs
        turned_y = (*ys[:-2], *ys[:-3:-1]) if flip_y and len(ys) > 1 else ys
        name = f"{xs}-{ys}-{flip_x}-{flip_y}"
        found.append(pytest.param(turned_x, turned_y, flip_x, flip_y, id=name))
    return found


@pytest.mark.parametrize(("xs", "ys", "flip_x", "flip_y"), _matmul_cases())
def test_matmul_derivatives(xs: Any, ys: Any, flip_x: bool, flip_y: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=xs), rng.normal(size=ys)]

    def f(x: Any, y: Any) -> tuple[Any, ...]:
        return (ops.matmul(x, y, flip_x, flip_y),)

    differences.check_pullback(f, arrays, rng=rng, tolerance=1e-6)
    for order in (2, 3):
        differences.check_higher(f, arrays, order=order, rng=rng, tolerance=1e-6)


INT_SHAPES = [
    ((17, 9), (9, 33)),
    ((9,), (9, 33)),
    ((2, 3, 12, 9), (3, 9, 40)),
    ((12, 0), (0, 13)),
    ((0, 5), (5, 13)),
]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
@pytest.mark.parametrize("flip_x", [False, True])
@pytest.mark.parametrize("flip_y", [False, True])
def test_products_of_ints_wrap_as_numpys_do(dtype: str, flip_x: bool, flip_y: bool) -> None:
    """Larger than what a loop a result is written for, with sizes known and not."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)

    def product(x: Any, y: Any) -> Any:
        return ops.matmul(x, y - y + y, flip_x, flip_y)

    known, unknown = phix.jit(product), phix.jit(product, dynamic=True)
    for xs, ys in INT_SHAPES:
        x, y = (rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in (xs, ys))
        wanted = np.matmul(x, y)
        x = np.swapaxes(x, -1, -2) if flip_x and x.ndim > 1 else x
        y = np.swapaxes(y, -1, -2) if flip_y else y
        for run in (product, known, unknown):
            np.testing.assert_array_equal(run(x, y), wanted)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize(("xs", "ys", "flip_x", "flip_y"), _matmul_cases())
def test_matmul_under_vmap(xs: Any, ys: Any, flip_x: bool, flip_y: bool, axes: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=xs if axes[0] is None else (3, *xs))
    y = rng.normal(size=ys if axes[1] is None else (3, *ys))

    def f(a: Any, b: Any) -> Any:
        return ops.matmul(a, b, flip_x, flip_y)

    rows = ((x if axes[0] is None else x[i], y if axes[1] is None else y[i]) for i in range(3))
    wanted = np.stack([f(*row).numpy() for row in rows])
    np.testing.assert_allclose(phix.vmap(f, in_axes=axes)(x, y).numpy(), wanted, rtol=1e-12)


EINSUMS = [
    ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("i...,i...", [(3, 2), (3, 4, 2)]),
    ("ijk,ijk->", [(2, 3, 4), (2, 3, 4)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("ij,ij,ij->i", [(2, 3)] * 3),
    ("aab,bcc->ac", [(2, 2, 3), (3, 4, 4)]),
    ("Ab,bA", [(2, 3), (3, 2)]),
    ("b...a, ...b -> ab...", [(2, 1, 3), (4, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS)
def test_einsum(equation: str, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in shapes]
    wanted = np.einsum(equation, *arrays)

    def f(*operands: Any) -> tuple[Any, ...]:
        return (ops.einsum(list(operands), equation),)

    np.testing.assert_allclose(f(*arrays)[0].numpy(), wanted, rtol=1e-12, atol=1e-14)
    unknown = phix.jit(f, input_spec=[phix.spec([-1] * a.ndim, a.dtype) for a in arrays])
    np.testing.assert_allclose(unknown(*arrays)[0].numpy(), wanted, rtol=1e-12, atol=1e-14)
    differences.check_pullback(f, arrays, rng=rng, tolerance=1e-6)
    differences.check_higher(f, arrays, order=2, rng=rng, tolerance=1e-6)


def test_einsum_makes_matrix_products_without_moving_operands() -> None:
    graph = phix.decompose(lambda x, y: ops.einsum([x, y], "bqd,bkd->bqk"))(
        phix.spec(["b", "q", "d"]), phix.spec(["b", "k", "d"])
    )
    names = [e.op.name for e in graph.equations]
    assert "matmul" in names
    assert "transpose" not in names


def test_einsum_takes_the_cheap_order() -> None:
    graph = phix.decompose(lambda *x: ops.einsum(list(x), "ij,jk,k->i"))(
        phix.spec([64, 64]), phix.spec([64, 64]), phix.spec([64])
    )
    sizes = [e.outputs[0].meta.size for e in graph.equations if e.op.name == "matmul"]
    assert sizes == [64, 64]  # matrix times vector twice, never matrix times matrix


CONVOLUTIONS: list[dict[str, Any]] = [
    {"x": (1, 2, 5, 6), "w": (3, 2, 2, 3), "strides": [2, 3], "paddings": [2, 1]},
    {"x": (2, 4, 6, 5), "w": (6, 2, 2, 2), "strides": [3, 2], "groups": 2, "dilations": [2, 1]},
    {"x": (1, 2, 7, 7), "w": (1, 2, 2, 2), "paddings": [3, 0, 1, 2], "strides": [2, 2]},
    {"x": (2, 3, 4, 4), "w": (3, 1, 1, 1), "paddings": [2, 2], "groups": 3, "strides": [3, 3]},
]


@pytest.mark.unoptimised
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_conv2d(case: dict[str, Any], data_format: str) -> None:
    rng = np.random.default_rng(0)
    attrs = {k: v for k, v in case.items() if k not in "xw"} | {"data_format": data_format}
    x = channels_back(rng.normal(size=case["x"]), data_format)
    w = rng.normal(size=case["w"])

    def f(a: Any, b: Any) -> tuple[Any, ...]:
        return (ops.conv2d(a, b, **attrs),)

    np.testing.assert_allclose(f(x, w)[0].numpy(), conv2d(x, w, **attrs), rtol=1e-11, atol=1e-12)
    differences.check_pullback(f, [x, w], rng=rng, tolerance=1e-6)
    for order in (2, 3):
        differences.check_higher(f, [x, w], order=order, rng=rng, tolerance=1e-6)


@pytest.mark.unoptimised
@pytest.mark.parametrize("algorithm", ["SAME", "VALID", "EXPLICIT"])
def test_conv2d_gradient_with_unknown_dims(algorithm: str) -> None:
    rng = np.random.default_rng(0)

    def loss(x: Any, w: Any) -> Any:
        y = ops.conv2d(x, w, [2, 1], [1, 0], algorithm)
        return ops.sum(y * y)

    gradient = phix.grad(loss, argnums=(0, 1))
    specs = [phix.spec(["n", 2, "h", "w"], "float64"), phix.spec([3, 2, 3, 2], "float64")]
    compiled = phix.jit(gradient, input_spec=specs)
    w = rng.normal(size=(3, 2, 3, 2))
    for n, height, width in ((2, 5, 4), (1, 6, 7), (3, 8, 3)):
        x = rng.normal(size=(n, 2, height, width))
        for found, wanted in zip(compiled(x, w), gradient(x, w)):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_conv2d_same_has_a_window_for_each_stride() -> None:
    specs = phix.spec(["n", 3, "h", "w"]), phix.spec([4, 3, 3, 3])
    found = phix.infer_meta(lambda x, w: ops.conv2d(x, w, [1, 1], [], "SAME"))
    with pytest.raises(phix.errors.AttributeValueError, match="paddings"):
        found(*specs)
    same = phix.infer_meta(lambda x, w: ops.conv2d(x, w, padding_algorithm="SAME"))
    assert str(same(*specs)) == "float32[n, 4, h, w]"
    halved = phix.infer_meta(lambda x, w: ops.conv2d(x, w, [2, 2], padding_algorithm="SAME"))
    assert halved(phix.spec([1, 3, 7, 8]), specs[1]).dims == (1, 4, 4, 4)


@pytest.mark.parametrize("off", ["", "dot_products"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", [([37, 19], [19, 1]), ([1, 19], [37, 19]), ([37, 1], [1, 19])])
def test_products_with_a_dim_of_one(shapes: list[list[int]], dtype: str, off: str) -> None:
    rng = np.random.default_rng([3, *shapes[0]])
    x, y = (rng.standard_normal((5, *s)).astype(dtype) for s in shapes)
    swap = shapes[1] == [37, 19]
    product = phix.jit(lambda x, y: ops.matmul(x, y, False, swap), disable=off or ())
    expected = x @ (np.swapaxes(y, -1, -2) if swap else y)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(product(x, y), expected, rtol=tolerance, atol=tolerance)


def test_a_product_with_one_column_is_a_loop_of_sums() -> None:
    lowered = phix.jit(ops.matmul).lower(phix.spec(["n", 64]), phix.spec([64, 1]))
    assert "gemm" not in lowered.as_text("loop ir")
    lowered = phix.jit(ops.matmul).lower(phix.spec(["n", 64]), phix.spec([64, 9]))
    assert "gemm" in lowered.as_text("loop ir")


@pytest.mark.parametrize("count", [9, "n"])
def test_rows_that_meet_one_transposed_matrix_are_one_product(count: Any) -> None:
    """As reverse mode through ``vmap`` of a layer makes them."""
    pull = phix.vmap(
        lambda x, w: phix.grad(lambda x: ops.sum(ops.sin(x @ w)))(x), in_axes=(0, None)
    )
    lowered = phix.jit(pull).lower(phix.spec([count, 48]), phix.spec([48, 40]))
    assert lowered.as_text("loop ir").count("gemm") == 2
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((9, 48)), rng.standard_normal((48, 40))
    specs = [phix.spec([count, 48], "float64"), phix.spec([48, 40], "float64")]
    found = phix.jit(pull, input_spec=specs)(x, w)
    np.testing.assert_allclose(found, np.cos(x @ w) @ w.T, rtol=1e-12, atol=1e-12)
    one = phix.jit(ops.matmul, static_argnums=(2, 3)).lower(
        phix.spec([1, 48]), phix.spec([40, 48]), False, True
    )
    assert "gemm" not in one.as_text("loop ir")
