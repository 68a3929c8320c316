"""phix.sparse against scipy.sparse and dense tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import phix
from phix import ops, sparse
from phix.core.errors import (
    ArgumentError,
    AttributeValueError,
    DTypeError,
    NumberRangeError,
    PhixError,
    ShapeError,
    TensorIndexError,
)

pytestmark = pytest.mark.unoptimised

PLACES = np.array([[0, 2, 1, 2], [1, 0, 3, 0]])  # (2, 0) twice
VALUES = np.array([0.5, 2.0, -0.25, -1.5])
SHAPE = (3, 4)
OTHER = scipy.sparse.coo_array(([3.0, 4.0, 5.0], ([0, 1, 2], [1, 1, 0])), SHAPE)
DENSE = np.arange(12.0).reshape(4, 3) - 4.5


def coo(places: Any = PLACES, values: Any = VALUES, shape: Any = SHAPE) -> Any:
    return sparse.sparse_coo_tensor(places, values, shape)


def csr() -> Any:
    return sparse.to_sparse_csr(coo())


def full(values: Any = VALUES) -> np.ndarray:
    return scipy.sparse.coo_array((values, tuple(PLACES)), SHAPE).toarray()


def close(x: Any, y: Any) -> None:
    x = x.to_dense() if isinstance(x, (sparse.SparseCooTensor, sparse.SparseCsrTensor)) else x
    np.testing.assert_allclose(x.numpy(), y, rtol=1e-12, atol=1e-14, strict=True)


KINDS = pytest.mark.parametrize("make", [coo, csr])


def test_what_a_tensor_shows() -> None:
    a, b = coo(), csr()
    assert (a.shape, a.nnz, a.ndim, a.sparse_dim, a.dense_dim) == (SHAPE, 4, 2, 2, 0)
    assert (b.shape, b.nnz, b.dtype, a.is_coalesced, b.is_coalesced) == (
        SHAPE, 3, np.float64, False, True,
    )  # fmt: skip
    assert repr(a).startswith("SparseCooTensor(\n  indices=Tensor(") and "shape=(3, 4)" in repr(a)
    assert repr(b).startswith("SparseCsrTensor(\n  crows=Tensor(")
    with pytest.raises(AttributeError):
        a.shape = (1, 2)
    assert phix.tree.map(lambda x: x, b).to_dense().tolist() == full().tolist()
    assert phix.tree.map(lambda _: "leaf", a).values == "leaf"  # nothing is checked


@KINDS
def test_from_one_kind_to_another(make: Callable[[], Any]) -> None:
    x = make()
    for y in (x, sparse.to_sparse_coo(x), sparse.to_sparse_csr(x), sparse.to_sparse_coo(full())):
        close(y, full())
    close(x.T, full().T)
    assert type(x.T) is type(x)
    crows = scipy.sparse.csr_array(full()).indptr
    assert sparse.to_sparse_csr(full()).crows.tolist() == crows.tolist()


def test_coalesced_tensors() -> None:
    a = coo().coalesce()
    assert a.indices.tolist() == [[0, 1, 2], [1, 3, 0]] and a.values.tolist() == [0.5, -0.25, 0.5]
    assert a.is_coalesced and sparse.coalesce(a) is a and coo(a.indices, a.values).is_coalesced
    rows = sparse.sparse_coo_tensor([[3, 1, 3]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [4, 2])
    assert (rows.dense_dim, rows.coalesce().values.tolist()) == (1, [[3.0, 4.0], [6.0, 8.0]])
    assert sparse.to_sparse_coo(rows.to_dense(), 1).indices.tolist() == [[1, 3]]
    half = coo([[0, 0, 0]], np.array([2048.0, 1.0, 1.0], np.float16), [1])
    assert half.coalesce().values.tolist() == [2050.0]  # rounded once
    both = coo([[0, 0]], np.array([True, True]), [2])
    assert both.to_dense().tolist() == [True, False]


def test_scipy_matrices_share_their_values() -> None:
    matrix = scipy.sparse.csr_array(full())
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    x = sparse.from_scipy(matrix)
    assert np.shares_memory(x.values.numpy(), matrix.data)
    assert np.shares_memory(x.cols.numpy(), matrix.indices)
    for y in (OTHER, OTHER.tocsc(), scipy.sparse.csr_matrix(OTHER), OTHER.tolil()):
        close(sparse.from_scipy(y), OTHER.toarray())
    back = scipy.sparse.csr_array((x.values.numpy(), x.cols.numpy(), x.crows.numpy()), x.shape)
    assert (back.toarray() == full()).all()


KEEPING = (
    "abs", "asin", "asinh", "atan", "atanh", "expm1", "log1p", "relu", "relu6", "sin", "sinh",
    "sqrt", "square", "tan", "tanh",
)  # fmt: skip


def test_pointwise_functions_take_the_sums_of_places() -> None:
    """Their values are the ops' own business: here is which values they are given."""
    once = coo().coalesce()
    got = phix.jit(lambda x: [getattr(sparse, name)(x).values for name in KEEPING])(once)
    want = phix.jit(lambda v: [getattr(ops, name)(v) for name in KEEPING])(once.values)
    for x, y in zip(got, want):
        close(x, y.numpy())
    close(phix.jit(sparse.sin)(coo()), np.sin(full()))
    doubled = sparse.sparse_csr_tensor([0, 2], [1, 1], [2.0, 3.0], [1, 2], "float64")
    close(sparse.square(doubled), [[0.0, 25.0]])
    a = once
    close(sparse.leaky_relu(a, 0.5), np.where(full() < 0, full() / 2, full()))
    close(sparse.pow(a, 2.0), full() ** 2)
    close(sparse.scale(a, 2.0, 1.0, True), np.where(full() != 0, 2 * full() + 1, 0))
    close(sparse.divide_scalar(a, 4.0), full() / 4)
    close(sparse.full_like(a, 7.0), np.where(full() != 0, 7.0, 0))
    close(sparse.acos(a), np.where(full() != 0, np.arccos(full()), 0))
    assert sparse.acosh(coo([[1]], [1.5], [2])).to_dense().tolist() == pytest.approx(
        [0.0, np.arccosh(1.5)]
    )
    assert sparse.isnan(coo([[1]], [np.nan], [2])).to_dense().tolist() == [False, True]
    cast = sparse.cast(a, "int64", "float32")
    assert (cast.dtype, cast.indices.dtype) == (np.float32, np.int64)
    with pytest.raises(DTypeError, match="index_dtype must be int64"):
        sparse.cast(a, "int32")


@KINDS
def test_arithmetic(make: Callable[[], Any]) -> None:
    x, y, a, b = make(), sparse.from_scipy(OTHER.asformat("csr")), full(), OTHER.toarray()
    close(x + y, a + b)
    close(x - y, a - b)
    close(x * y, a * b)
    with np.errstate(divide="ignore", invalid="ignore"):
        close(x / y, np.where((a != 0) | (b != 0), a / b, 0.0))
    close(2.0 * x - x / np.float64(4.0), 1.75 * a)
    close(-x, -a)
    z = sparse.sin(x)
    close(z * z + z, np.sin(a) ** 2 + np.sin(a))
    assert (z * z).values.shape == (3,)
    assert isinstance(x + y, sparse.SparseCsrTensor) == (make is csr)
    ints = coo(PLACES, np.array([1, 2, 3, 4]))
    assert (ints + x).dtype == np.float64
    with pytest.raises(ArgumentError, match=r"add: .*to_dense"):
        x + 1.0
    with pytest.raises(ArgumentError, match="divide: two sparse"):
        1.0 / x
    with pytest.raises(ShapeError, match="one shape"):
        x + y.T
    with pytest.raises(ArgumentError):
        phix.to_tensor(a.T) * x


@KINDS
def test_products(make: Callable[[], Any]) -> None:
    x, a = make(), full()
    close(x @ DENSE, a @ DENSE)
    close(DENSE @ x, DENSE @ a)
    close(sparse.matmul(DENSE[:, 0][:3], x), DENSE[:3, 0] @ a)
    close(sparse.mv(x, DENSE[:, 1]), a @ DENSE[:, 1])
    start = np.ones((3, 3))
    close(sparse.addmm(start, x, DENSE, 0.5, 2.0), 0.5 * start + 2.0 * (a @ DENSE))
    seen = np.where(a != 0, DENSE.T @ DENSE[:, :1] @ np.ones((1, 4)), 0.0)
    close(sparse.masked_matmul(DENSE.T @ DENSE[:, :1], np.ones((1, 4)), x), seen)
    close(sparse.mask_as(DENSE.T, x), np.where(a != 0, DENSE.T, 0.0))
    for wrong in (lambda: x @ DENSE.T, lambda: sparse.mv(x, DENSE), lambda: x @ np.ones((1, 4, 2)),
                  lambda: sparse.addmm(np.ones(3), x, DENSE),
                  lambda: sparse.masked_matmul(DENSE, DENSE, x),
                  lambda: sparse.mask_as(DENSE, x)):  # fmt: skip
        with pytest.raises(ShapeError):
            wrong()
    close(x @ x.T, a @ a.T)


_OF_BOOLS: list[Callable[[Any], Any]] = [
    lambda x: x @ DENSE[:2],
    lambda x: DENSE[:, :2] @ x,
    lambda x: x @ DENSE[1, :2],
    lambda x: DENSE[1, :2] @ x,
    lambda x: x @ np.array([[1, 2], [3, 4]]),
    lambda x: x * np.array(2.5),
    lambda x: x * 3,
]


@pytest.mark.parametrize("of_rows", [False, True])
def test_bools_at_one_place_are_one_number(of_rows: bool) -> None:
    """Wherever they become numbers, as ``to_dense`` has them."""
    yes = [True, True, True]
    x = sparse.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], yes, [2, 2])
    many = sparse.sparse_coo_tensor([[1, 1, 0], [0, 0, 1], [1, 1, 0]], yes, [2, 2, 2])
    if of_rows:
        x = sparse.sparse_csr_tensor([0, 2, 3], [1, 1, 0], yes, [2, 2])
        many = sparse.sparse_csr_tensor([0, 0, 1, 0, 2, 2], [0, 1, 1], yes, [2, 2, 2])
    a, each = np.array([[0, 1], [1, 0]]), np.zeros((2, 2, 2), int)
    each[1, 0, 1] = each[0, 1, 0] = 1
    np.testing.assert_array_equal(x.to_dense(), a != 0)
    np.testing.assert_array_equal(many.to_dense(), each != 0)
    for function in _OF_BOOLS:
        close(function(x), function(a))
    close(sparse.mv(x, DENSE[1, :2]), a @ DENSE[1, :2])
    close(-x, -a)
    close(sparse.sum(x), np.array([2]))
    close(sparse.sum(x, 0, "float64", True), a.sum(0, keepdims=True) * 1.0)
    close(sparse.addmm(DENSE[:2], x, DENSE[:2]), DENSE[:2] + a @ DENSE[:2])
    square = DENSE[:2, :2]
    for other in (sparse.to_sparse_coo(square), sparse.to_sparse_csr(square)):
        close(x @ other, a @ square)
        close(other @ x, square @ a)
    dense = np.arange(8.0).reshape(2, 2, 2) - 2.5
    close(many @ dense, each @ dense)
    close(dense @ many, dense @ each)
    close(many @ sparse.to_sparse_coo(dense), each @ dense)
    close(sparse.to_sparse_coo(dense) @ many, dense @ each)
    slope = phix.grad(lambda d: ops.sum(x @ d))(phix.to_tensor(square))
    close(slope, a.T @ np.ones((2, 2)))


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 10), ("bfloat16", 7)])
def test_products_of_halves_are_rounded_once(dtype: str, digits: int) -> None:
    """(1 + e) (1 + e) - (1 + 2e) is e^2, and 0 of terms that are rounded first; scaled by 1024."""
    e = 2.0**-digits
    row, column = ops.cast(np.array([[1 + e, -1.0], [1 + e, 1 + 2 * e]]) * 32, dtype)
    wanted, none = 1024 * e * e, np.zeros(2, "int64")
    places = [[0, 0], [0, 1]]
    x = sparse.sparse_coo_tensor(places, row, [1, 2])
    tall, wide = column[:, None], column[None]
    found = [
        x @ tall, x @ column, wide @ x.T, sparse.mv(x, column), sparse.to_sparse_csr(x) @ tall,
        sparse.to_sparse_csr(x) @ column,
        sparse.masked_matmul(row[None], tall, sparse.to_sparse_coo([[1.0]])).values,
    ]  # fmt: skip
    # The derivatives by one value, and by one element of a dense matrix.
    one = sparse.sparse_coo_tensor([[0], [0]], ops.cast([1.0], dtype), [1, 1])
    found.append(phix.grad(lambda v: ops.sum((one.with_values(v) @ wide) * row))(one.values))
    found.append(phix.grad(lambda d: ops.sum((x.T @ d)[:, 0] * column))(ops.cast([[1.0]], dtype)))
    for result in found:
        assert result.dtype.name == dtype and result.size == 1
        assert result.astype("float64").reshape([]).tolist() == wanted
    several = sparse.sparse_coo_tensor([none, *places], row, [1, 1, 2])
    assert (several @ tall[None]).astype("float64").tolist() == [[[wanted]]]


@KINDS
def test_sums_and_softmax(make: Callable[[], Any]) -> None:
    x, a = make(), full()
    for axis in (0, -1):
        for keepdim in (False, True):
            close(sparse.sum(x, axis, keepdim=keepdim), a.sum(axis, keepdims=keepdim))
    close(sparse.sum(x), a.sum()[None])
    close(sparse.sum(x, [0, 1], "float64", True), a.sum(keepdims=True))
    weights = np.where(a != 0, np.exp(a), 0.0)
    shifted = x.with_values(x.values) if make is csr else x.coalesce()
    shifted = shifted.with_values(shifted.values + 1e4)
    close(sparse.softmax(shifted), weights / weights.sum(1, keepdims=True))
    with pytest.raises(AttributeValueError, match="the last"):
        sparse.softmax(x, 0)
    with pytest.raises(DTypeError, match="float"):
        sparse.softmax(sparse.cast(x, None, "int64"))


@KINDS
def test_shapes(make: Callable[[], Any]) -> None:
    x, a = make(), full()
    close(sparse.transpose(x, [1, 0]), a.T)
    close(sparse.reshape(x, [2, -1]), a.reshape(2, 6))
    close(sparse.reshape(x, [2, 3, 2]), a.reshape(2, 3, 2))
    close(sparse.slice(x, [1, 0], [-3, 0], [9, -1]), a[0:-1, -3:9])
    assert sparse.slice(x, [0], [2], [1]).shape == (0, 4)
    for wrong in (lambda: sparse.transpose(x, [0, 0]), lambda: sparse.reshape(x, [5, 2]),
                  lambda: sparse.slice(x, [0, 0], [0, 0], [1, 1]),
                  lambda: sparse.sum(x, 2)):  # fmt: skip
        with pytest.raises((AttributeValueError, ShapeError)):
            wrong()


def test_dense_axes() -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = coo(np.array([[1, 0], [0, 2]]), values, (2, 3, 3))
    a = np.zeros((2, 3, 3))
    a[[1, 0], [0, 2]] = values
    close(x, a)
    close(sparse.transpose(x, [1, 0, 2]), a.transpose(1, 0, 2))
    close(sparse.sum(x, 2), a.sum(2))
    close(sparse.sum(x, [0, 2], keepdim=True), a.sum((0, 2), keepdims=True))
    close(sparse.slice(x, [0, 2], [1, 1], [2, 3]), a[1:2, :, 1:3])
    close(x + sparse.tanh(x), a + np.tanh(a))
    with pytest.raises(AttributeValueError, match="in front"):
        sparse.transpose(x, [2, 0, 1])
    for wrong in (sparse.to_sparse_csr, sparse.softmax, lambda x: sparse.reshape(x, [18])):
        with pytest.raises((ShapeError, AttributeValueError)):
            wrong(x)


def test_no_values() -> None:
    x = coo(np.zeros((2, 0), int), np.zeros(0))
    b = sparse.from_scipy(OTHER)
    for y in (x, x.coalesce(), sparse.to_sparse_csr(x), sparse.softmax(x), x + x, x * b):
        close(y, np.zeros(SHAPE))
    close(x + b, OTHER.toarray())
    close(x @ DENSE, np.zeros((3, 3)))
    close(sparse.sum(x), np.zeros(1))
    close(sparse.to_sparse_coo(np.zeros((0, 3))), np.zeros((0, 3)))
    close(sparse.reshape(x, [4, 3]), np.zeros((4, 3)))


def test_gradients_of_values() -> None:
    """Against those of the same function of the dense tensor, at the places."""
    b, probe = sparse.from_scipy(OTHER), DENSE.T

    def of_sparse(v: Any) -> Any:
        x = coo().with_values(v)
        parts = [x + b, sparse.sin(x), x * b, sparse.softmax(x), sparse.sum(x, 0, keepdim=True)]
        masked = sparse.mask_as(sparse.to_dense(x) ** 2, x)
        return ops.add_n([ops.sum(p.to_dense() * probe) for p in [*parts, masked]]) + ops.sum(
            x @ DENSE
        )

    def by_definition(v: np.ndarray) -> float:
        a = full(v)
        e = np.where(full() != 0, np.exp(a), 0.0)
        rows = e / e.sum(1, keepdims=True)
        parts = [a + OTHER.toarray(), np.sin(a), a * OTHER.toarray(), rows, a.sum(0)[None], a**2]
        return sum(float((p * probe).sum()) for p in parts) + float((a @ DENSE).sum())

    assert of_sparse(phix.to_tensor(VALUES)).item() == pytest.approx(by_definition(VALUES))
    step = 1e-6 * np.eye(4)
    want = [(by_definition(VALUES + h) - by_definition(VALUES - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(phix.grad(of_sparse)(VALUES).numpy(), want, rtol=1e-7)
    curve = phix.hessian(lambda v: ops.sum(sparse.sin(coo().with_values(v)).values))(VALUES)
    second = -np.sin(full()[tuple(PLACES)])[:, None] * (
        (PLACES[:, :, None] == PLACES[:, None]).all(0)
    )
    np.testing.assert_allclose(curve.numpy(), second, atol=1e-14)


def test_programs_are_for_any_number_of_values() -> None:
    traces = []

    @phix.jit
    def f(x: Any, y: Any) -> Any:
        traces.append(None)
        return sparse.tanh(x + y), x @ DENSE

    rng = np.random.default_rng(0)
    for count in range(1, 9):
        places = np.stack([rng.integers(0, 3, count), rng.integers(0, 4, count)])
        values = rng.normal(size=count)
        a = scipy.sparse.coo_array((values, tuple(places)), SHAPE).toarray()
        x = sparse.SparseCooTensor(phix.to_tensor(places), phix.to_tensor(values), SHAPE)
        added, product = f(x, sparse.from_scipy(OTHER))
        close(added, np.tanh(a + OTHER.toarray()))
        close(product, a @ DENSE)
        assert added.is_coalesced
    assert len(traces) <= 3


def test_values_in_lanes() -> None:
    """Many tensors at the same places."""
    lanes = np.stack([VALUES, 2 * VALUES])
    got = phix.vmap(lambda v: sparse.sin(coo().with_values(v)).to_dense())(lanes)
    close(got, np.sin(np.stack([full(), full(2 * VALUES)])))
    got = phix.vmap(lambda v: sparse.softmax(csr().with_values(v)) @ DENSE)(lanes[:, :3])
    assert got.shape == (2, 3, 3)


BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: coo([[0, 3], [0, 0]], [1.0, 2.0]), TensorIndexError, "index 3 for a dim of 3"),
    (lambda: coo([[0, -1], [0, 0]], [1.0, 2.0]), TensorIndexError, "index -1"),
    (lambda: coo([[0.5], [0.0]], [1.0]), DTypeError, "must be ints"),
    (lambda: coo([0, 1], [1.0, 2.0]), ShapeError, "2 axes"),
    (lambda: coo([[0], [1]], [1.0, 2.0]), ShapeError, "one value for each of 1"),
    (lambda: coo(shape=(3,)), ShapeError, "for 2 axes"),
    (lambda: coo(shape=(3, -4)), ShapeError, "negative"),
    (lambda: coo(shape=(1 << 40, 1 << 40)), NumberRangeError, "int64"),
    (lambda: coo(np.zeros((1, 0), int), np.zeros(0), None), ArgumentError, "shape is needed"),
    (lambda: sparse.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], [2, 2]), TensorIndexError,
     "crows"),
    (lambda: sparse.sparse_csr_tensor([0, 2], [0, 1], [1.0, 2.0], [2, 2]), ShapeError, "rows . 1"),
    (lambda: sparse.sparse_csr_tensor([0, 1], [2], [1.0], [1, 2]), TensorIndexError, "index 2"),
    (lambda: coo().with_values([1.0]), ShapeError, "with_values"),
    (lambda: sparse.sin(DENSE), ArgumentError, "sin: x must be a sparse tensor"),
    (lambda: sparse.to_sparse_coo(DENSE, 3), AttributeValueError, "sparse_dim"),
    (lambda: sparse.from_scipy(DENSE), ArgumentError, "scipy.sparse"),
    (lambda: coo() * float("inf"), AttributeValueError, "would be NaN when multiplied by inf"),
    (lambda: coo() / 0.0, AttributeValueError, "would be NaN when divided by 0"),
    (lambda: np.asarray(coo()), ArgumentError, "to_dense"),
    (lambda: bool(coo()), ArgumentError, "truth value"),
    (lambda: len(coo()), ArgumentError, "len"),
]  # fmt: skip


def _drawn(rng: np.random.Generator, *shape: int, count: int, dtype: Any) -> Any:
    """A sparse tensor whose places come in any order, some of them twice; and the dense one."""
    places = np.stack([rng.integers(0, n, count) for n in shape])
    places[:, -2:] = places[:, :2]
    values = (2 * rng.standard_normal(count)).round().astype(dtype)
    dense = np.zeros(shape, np.int64 if dtype == "bool" else dtype)
    np.add.at(dense, tuple(places), values)
    return sparse.sparse_coo_tensor(places, values, shape), dense.astype(dtype)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [(70, "float32"), (70, "bool"), (70, "complex128"), (20_000, "int64"), (300_000, "float64")],
)
def test_products_of_two(columns: int, dtype: str) -> None:
    """By counted bits, and by levels of them."""
    rng = np.random.default_rng(columns)
    x, a = _drawn(rng, 9, 6, count=20, dtype=dtype)
    y, b = _drawn(rng, 6, columns, count=50, dtype=dtype)
    wanted = a.astype(int) @ b if dtype == "bool" else a @ b
    for left, right in ((x, y), (sparse.to_sparse_csr(x), y)):
        found = left @ right
        assert found.is_coalesced and found.values.dtype.name == dtype
        assert type(found) is type(left)
        np.testing.assert_array_equal(found.to_dense(), wanted.astype(dtype))
        keys = sparse.indices(found).numpy()
        assert (np.diff(keys[0] * columns + keys[1]) > 0).all()


def test_products_of_several_matrices_each() -> None:
    rng = np.random.default_rng(0)
    x, a = _drawn(rng, 3, 4, 5, count=30, dtype="float16")
    y, b = _drawn(rng, 3, 5, 6, count=30, dtype="float32")
    for left in (x, sparse.to_sparse_csr(x)):
        found = left @ y
        assert found.values.dtype == phix.float32
        close(found, a.astype("float32") @ b)
    none = sparse.sparse_coo_tensor(np.zeros((2, 0), int), np.zeros(0), (0, 3))
    close(none @ sparse.to_sparse_coo(np.ones((3, 2))), np.zeros((0, 2)))
    close(none.T @ none, np.zeros((3, 3)))


def test_derivatives_of_products_of_two() -> None:
    rng = np.random.default_rng(1)
    (x, _), (y, _) = (_drawn(rng, m, n, count=12, dtype="float64") for m, n in ((4, 5), (5, 3)))
    probe = rng.standard_normal((4, 3))

    def total(v: Any, w: Any) -> Any:
        return ((x.with_values(v) @ y.with_values(w)).to_dense() ** 3.0 * probe).sum()

    def dense(v: Any, w: Any) -> Any:
        return ((x.with_values(v).to_dense() @ y.with_values(w).to_dense()) ** 3.0 * probe).sum()

    given = x.values, y.values
    along = tuple(phix.to_tensor(rng.standard_normal(12)) for _ in range(2))
    for f, g in ((total, dense), (phix.jit(total), dense)):
        first, wanted = (phix.grad(h, argnums=(0, 1))(*given) for h in (f, g))
        for found, expected in zip(first, wanted):
            close(found, expected)
        second, wanted = (phix.jvp(phix.grad(h, argnums=(0, 1)), given, along)[1] for h in (f, g))
        for found, expected in zip(second, wanted):
            close(found, expected)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_call_is_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()
