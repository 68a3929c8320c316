"""Sparse products, convolutions, pooling, norms and attention against dense references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import phix
from phix import ops, sparse
from phix.core.errors import ArgumentError, AttributeValueError, PhixError, ShapeError

pytestmark = pytest.mark.unoptimised
SEED = 7
RNG = np.random.default_rng(SEED)


def close(x: Any, y: Any, rtol: float = 1e-10) -> None:
    x = x.to_dense() if isinstance(x, (sparse.SparseCooTensor, sparse.SparseCsrTensor)) else x
    np.testing.assert_allclose(x.numpy(), y, rtol=rtol, atol=1e-12, strict=True)


def slopes(f: Callable[..., float], *args: np.ndarray, step: float = 1e-6) -> list[np.ndarray]:
    """Central differences of a function for each argument."""
    found = []
    for n, x in enumerate(args):
        slope = np.zeros(x.size)
        for k in range(x.size):
            h = np.zeros(x.size)
            h[k] = step
            ends = [f(*args[:n], x + s * h.reshape(x.shape), *args[n + 1 :]) for s in (1, -1)]
            slope[k] = (float(ends[0]) - float(ends[1])) / (2 * step)
        found.append(slope.reshape(x.shape))
    return found


# -- products of two sparse matrices -------------------------------------------------------------
def random_pair(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    m, k, n = rng.integers(1, 12, 3)
    density = rng.choice([0.0, 0.1, 0.4, 1.0], 2)
    return tuple(
        scipy.sparse.random_array(s, density=d, rng=rng) for s, d in zip(((m, k), (k, n)), density)
    )


@pytest.mark.parametrize("kinds", [("csr", "csr"), ("coo", "coo"), ("csr", "coo"), ("coo", "csr")])
def test_products_of_sparse_matrices(kinds: tuple[str, str]) -> None:
    for seed in range(6):
        a, b = (m.asformat(f) for m, f in zip(random_pair(seed), kinds))
        x, y = sparse.from_scipy(a), sparse.from_scipy(b)
        found = x @ y
        close(found, (a @ b).toarray())
        assert found.is_coalesced and type(found) is type(x), seed
        assert found.nnz == scipy.sparse.csr_array(a @ b).nnz, seed


def test_one_program_multiplies_matrices_of_any_nnz() -> None:
    traces = []

    @phix.jit
    def product(x: Any, y: Any) -> Any:
        traces.append(None)
        return x @ y

    for count in range(5):
        a = scipy.sparse.random_array((6, 5), density=count / 10, rng=RNG).tocoo()
        b = scipy.sparse.random_array((5, 7), density=0.5 - count / 10, rng=RNG).tocoo()
        x, y = (
            sparse.SparseCooTensor(
                phix.to_tensor(np.stack([m.row, m.col]).astype(np.int64)),
                phix.to_tensor(m.data),
                m.shape,
            )
            for m in (a, b)
        )
        close(product(x, y), (a @ b).toarray())
    assert len(traces) <= 3


def test_values_that_stand_at_one_place_twice_meet_each_other() -> None:
    x = sparse.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], [2, 2], "float64")
    close(x @ x, np.linalg.matrix_power(x.to_dense().numpy(), 2))
    close(sparse.addmm(x, x, x, 0.5, 2.0), 0.5 * x.to_dense().numpy() + 2 * np.diag([9.0, 9.0]))


def test_gradients_of_a_product_of_sparse_matrices() -> None:
    a, b = (sparse.from_scipy(m.tocsr()) for m in random_pair(2))
    probe = RNG.normal(size=(a.shape[0], b.shape[1]))

    def loss(v: Any, w: Any) -> Any:
        product = a.with_values(v) @ b.with_values(w)
        return ops.sum(sparse.sin(product).to_dense() * probe)

    args = a.values.numpy(), b.values.numpy()
    got = phix.jit(phix.grad(loss, (0, 1)))(*args)
    for x, y in zip(got, slopes(loss, *args)):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)

    def inner(v: Any, w: Any) -> Any:
        return ops.sum(phix.grad(loss)(v, w) ** 2)

    np.testing.assert_allclose(
        phix.grad(inner)(*args), slopes(inner, *args)[0], rtol=1e-5, atol=1e-7
    )
    many = np.stack([args[0], 2 * args[0]])
    lanes = phix.vmap(lambda v: loss(v, args[1]))(many)
    np.testing.assert_allclose(lanes, [loss(v, args[1]) for v in many], rtol=1e-12)


def test_several_matrices() -> None:
    a = RNG.normal(size=(3, 4, 5)) * (RNG.random((3, 4, 5)) < 0.4)
    b = RNG.normal(size=(3, 5, 2))
    for x in (sparse.to_sparse_csr(a), sparse.to_sparse_coo(a)):
        close(x, a)
        close(x.T, a.T)
        close(x @ b, a @ b)
        close(np.swapaxes(b, 1, 2) @ sparse.transpose(x, [0, 2, 1]), np.swapaxes(a @ b, 1, 2))
        close(x @ sparse.to_sparse_coo(b), a @ b)
        close(sparse.sin(x) + x, np.sin(a) + a)
        turned, everywhere = np.swapaxes(a, 1, 2), sparse.to_sparse_csr(np.ones((3, 4, 4)))
        close(sparse.masked_matmul(a, turned, everywhere), a @ turned)
    x = sparse.to_sparse_csr(a)
    again = sparse.sparse_csr_tensor(x.crows, x.cols, x.values, a.shape)
    assert again.is_coalesced
    close(again, a)
    with pytest.raises(ShapeError, match="3 times rows"):
        sparse.sparse_csr_tensor(x.crows[:5], x.cols, x.values, a.shape)
    with pytest.raises(ShapeError, match="front"):
        x @ sparse.to_sparse_coo(b[:2])


# -- convolutions and pooling --------------------------------------------------------------------
def volume(shape: tuple[int, ...], density: float, seed: int = SEED) -> tuple[Any, np.ndarray]:
    """A sparse tensor with dense channels, and the same dense."""
    rng = np.random.default_rng(seed)
    places = np.argwhere(rng.random(shape[:-1]) < density).T
    values = rng.normal(size=(places.shape[1], shape[-1]))
    dense = np.zeros(shape)
    dense[tuple(places)] = values
    return sparse.sparse_coo_tensor(places, values, shape), dense


def dense_conv(x: Any, kernel: Any, window: tuple[Any, Any, Any]) -> Any:
    """The convolution of a dense tensor whose channels are last."""
    paddings, dilations, strides = window
    rank = kernel.ndim - 2
    op = ops.conv3d if rank == 3 else ops.conv2d
    axes = range(1, rank + 1)
    turned = ops.transpose(x, [0, rank + 1, *axes])
    filters = ops.transpose(kernel, [rank + 1, rank, *range(rank)])
    out = op(turned, filters, strides=strides, paddings=paddings, dilations=dilations)
    return ops.transpose(out, [0, *(a + 1 for a in axes), 1])


WINDOWS = [
    ((1, 4, 3, 5, 2), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((2, 4, 5, 4, 2), (2, 1, 3), (1, 0, 2), (1, 1, 2), (2, 1, 3)),
    ((2, 6, 5, 2), (3, 2), (0, 1), (2, 1), (1, 2)),
]


@pytest.mark.parametrize("shape, sizes, paddings, dilations, strides", WINDOWS)
def test_convolutions(shape: Any, sizes: Any, paddings: Any, dilations: Any, strides: Any) -> None:
    x, dense = volume(shape, 0.25)
    kernel = RNG.normal(size=(*sizes, shape[-1], 3))
    out, rulebook, counter = sparse.conv3d(x, kernel, paddings, dilations, strides, 1, False)
    close(out, dense_conv(dense, kernel, (paddings, dilations, strides)).numpy())
    assert rulebook.shape == (3, int(counter.numpy().sum())) and counter.dtype == np.int32
    assert (np.bincount(rulebook.numpy()[0], minlength=math.prod(sizes)) == counter.numpy()).all()
    again = np.zeros(out.values.shape)
    weights = kernel.reshape(-1, shape[-1], 3)
    for k, i, o in rulebook.numpy().T:
        again[o] += x.values.numpy()[i] @ weights[k]
    np.testing.assert_allclose(out.values, again, atol=1e-12)

    middle = tuple(d * (n // 2) for n, d in zip(sizes, dilations))
    same, book, _ = sparse.conv3d(x, kernel, paddings, dilations, strides, 1, True, "key")
    whole = dense_conv(np.pad(dense, [(0, 0), *((0, m) for m in middle), (0, 0)]), kernel,
                       (middle, dilations, (1,) * len(sizes))).numpy()  # fmt: skip
    assert same.shape[:-1] == shape[:-1] and (same.indices.numpy() == x.indices.numpy()).all()
    np.testing.assert_allclose(same.values, whole[tuple(x.indices.numpy())], atol=1e-12)
    close(sparse.conv3d_implicit_gemm(x, kernel, paddings, dilations, strides, 1, True),
          same.to_dense().numpy())  # fmt: skip
    assert book.shape[0] == 3


@pytest.mark.parametrize("shape, sizes, paddings, dilations, strides", WINDOWS)
def test_pooling(shape: Any, sizes: Any, paddings: Any, dilations: Any, strides: Any) -> None:
    x, _ = volume(shape, 0.25)
    out, rulebook, _ = sparse.maxpool(x, sizes, paddings, dilations, strides)
    want = np.full(out.values.shape, -np.inf)
    for _, i, o in rulebook.numpy().T:
        want[o] = np.maximum(want[o], x.values.numpy()[i])
    np.testing.assert_array_equal(out.values, want)
    like = sparse.conv3d(x, np.ones((*sizes, shape[-1], 1)), paddings, dilations, strides, 1, False)
    assert (like[0].indices.numpy() == out.indices.numpy()).all()
    slope = phix.grad(lambda v: ops.sum(sparse.maxpool(
        x.with_values(v), sizes, paddings, dilations, strides)[0].values ** 2))  # fmt: skip
    numeric = slopes(
        lambda v: ops.sum(
            sparse.maxpool(x.with_values(v), sizes, paddings, dilations, strides)[0].values ** 2
        ),
        x.values.numpy(),
    )
    np.testing.assert_allclose(slope(x.values), numeric[0], atol=1e-7)


def test_a_submanifold_network_is_the_masked_dense_one() -> None:
    """Two layers with a batch norm between, for any nnz, and its derivatives."""
    shape = (2, 4, 4, 3, 2)
    kernels = [RNG.normal(size=(3, 3, 3, *c)) for c in ((2, 3), (3, 1))]
    stats = [np.zeros(3), np.ones(3), np.array([1.0, 0.5, 2.0]), np.array([0.1, 0.0, -0.2])]
    unit = (1, 1, 1)
    traces = []

    def network(x: Any, first: Any, second: Any) -> Any:
        traces.append(None)
        y = sparse.conv3d(x, first, unit, unit, unit, 1, True)[0]
        y = sparse.batch_norm_(y, *stats, False, 0.9, 1e-5, "NDHWC", False, False)[0]
        y = sparse.conv3d(sparse.relu(y), second, unit, unit, unit, 1, True)[0]
        return ops.sum(y.to_dense() ** 2)

    def of_dense(values: Any, places: Any, first: Any, second: Any) -> Any:
        at = tuple(places)
        x = phix.zeros(shape, "float64").at[at].set(values)
        y = dense_conv(x, first, (unit,) * 3)[at]
        y = ops.batch_norm(y, *stats, False, 0.9, 1e-5, "NCHW")[0]
        z = phix.zeros((*shape[:-1], 3), "float64").at[at].set(ops.relu(y))
        return ops.sum(dense_conv(z, second, (unit,) * 3)[at] ** 2)

    step = phix.jit(phix.grad(lambda v, x, *k: network(x.with_values(v), *k), (0, 2, 3)))
    for seed, density in enumerate((0.2, 0.35, 0.5)):
        x, _ = volume(shape, density, seed)
        x = sparse.SparseCooTensor(x.indices, x.values, x.shape, True)
        got = step(x.values, x, *kernels)
        want = phix.grad(of_dense, (0, 2, 3))(x.values, x.indices.numpy(), *kernels)
        for g, w in zip(got, want):
            np.testing.assert_allclose(g, w, rtol=1e-8, atol=1e-9)
    assert len(traces) <= 3


def test_volumes_without_values() -> None:
    x, _ = volume((1, 3, 3, 2), 0.0)
    out, rulebook, counter = sparse.conv3d(
        x, np.ones((2, 2, 2, 4)), [0, 0], [1, 1], [1, 1], 1, False
    )
    assert (out.nnz, out.shape, rulebook.shape) == (0, (1, 2, 2, 4), (3, 0))
    assert counter.tolist() == [0] * 4
    assert sparse.maxpool(x, [2, 2], [0, 0], [1, 1], [1, 1])[0].nnz == 0
    assert sparse.conv3d(x, np.ones((3, 3, 2, 4)), [0, 0], [1, 1], [1, 1], 1, True)[0].nnz == 0


def test_batch_norms() -> None:
    x, _ = volume((2, 3, 3, 2), 0.5)
    given = np.zeros(2), np.ones(2), np.array([2.0, 3.0]), np.array([0.5, -0.5])
    for norm in (sparse.batch_norm_, sparse.sync_batch_norm_):
        out, mean, *rest = norm(x, *given, False, 0.9, 1e-5, "NHWC", False, False)
        want = ops.batch_norm(x.values, *given, False, 0.9, 1e-5, "NCHW")
        np.testing.assert_allclose(out.values, want[0])
        np.testing.assert_allclose(mean, want[1])
        assert len(rest) == 3 and out.indices is x.indices


# -- attention -----------------------------------------------------------------------------------
def test_sparse_attention() -> None:
    batch, heads, length, size = 2, 2, 5, 3
    q, k, v = (RNG.normal(size=(batch, heads, length, size)) for _ in range(3))
    pattern = RNG.random((batch * heads, length, length)) < 0.6
    padding = (RNG.random((batch, length)) < 0.7) * 1.0
    pairs = (RNG.random((length, length)) < 0.8) * 1.0
    mask = sparse.to_sparse_csr(pattern.astype("d"))

    def by_definition(q: Any, k: Any, v: Any) -> Any:
        kept = pattern.reshape(batch, heads, length, length)
        kept = kept & (padding[:, None, None] != 0) & (pairs != 0)
        scores = np.where(kept, q @ np.swapaxes(k, -1, -2) / math.sqrt(size), -np.inf)
        powers = np.where(
            kept, np.exp(scores - np.where(kept.any(-1), scores.max(-1), 0)[..., None]), 0
        )
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total == 0, 1, total) @ v

    out, softmax = sparse.fused_attention(q, k, v, mask, padding, pairs)
    close(out, by_definition(q, k, v))
    assert softmax.crows is mask.crows and softmax.shape == mask.shape
    plain = sparse.fused_attention(q, k, v, sparse.to_sparse_coo(mask))[0]
    padding[:], pairs[:] = 1, 1
    close(plain, by_definition(q, k, v))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return ops.sum(sparse.fused_attention(q, k, v, mask)[0] ** 2)

    got = phix.jit(phix.grad(loss, (0, 1, 2)))(q, k, v)
    want = slopes(lambda *a: (by_definition(*a) ** 2).sum(), q, k, v)
    for x, y in zip(got, want):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)
    half = sparse.fused_attention(*(x.astype(np.float16) for x in (q, k, v)), mask)[0]
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, by_definition(q, k, v), atol=1e-2)


def test_a_graph_network_layer() -> None:
    """D^-1 (A + I) X W with attention weights on the edges, against a dense one."""
    a = (RNG.random((6, 6)) < 0.4) | np.eye(6, dtype=bool)
    edges = sparse.to_sparse_csr(a.astype("d"))
    x, w, u = RNG.normal(size=(6, 3)), RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2))

    def layer(x: Any, w: Any, u: Any) -> Any:
        h = x @ w
        scores = sparse.masked_matmul(h @ u, ops.transpose(h, [1, 0]), edges)
        return ops.sum(ops.tanh(sparse.softmax(scores) @ h) ** 2)

    def of_dense(x: Any, w: Any, u: Any) -> Any:
        h = x @ w
        scores = ops.where(a, h @ u @ ops.transpose(h, [1, 0]), -np.inf)
        return ops.sum(ops.tanh(ops.softmax(scores) @ h) ** 2)

    args = [phix.to_tensor(n) for n in (x, w, u)]
    for got, want in zip(phix.jit(phix.grad(layer, (0, 1, 2)))(*args),
                         phix.grad(of_dense, (0, 1, 2))(*args)):  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    many = np.stack([x, 2 * x])
    np.testing.assert_allclose(
        phix.vmap(lambda x: layer(x, args[1], args[2]))(many),
        [layer(phix.to_tensor(m), args[1], args[2]) for m in many], rtol=1e-12,
    )  # fmt: skip


def test_unknown_dims_of_dense_operands_must_fit() -> None:
    x = sparse.to_sparse_coo(RNG.normal(size=(4, 5)))
    names = [phix.spec(["m", "n"], "float64")]
    good, bad = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 5))
    product = phix.jit(lambda d: x @ d, input_spec=names)
    close(product(good), x.to_dense().numpy() @ good)
    masked = phix.jit(lambda d: sparse.mask_as(d, x).values, input_spec=names)
    close(masked(bad), bad.reshape(-1))
    scaled = phix.jit(lambda d: (d * x).values, input_spec=names)
    for f, wrong in ((product, bad), (masked, bad.T), (masked, good), (scaled, bad.T)):
        with pytest.raises(ShapeError):
            f(wrong)


# -- in calls of phix.ops, NumPy and SciPy -------------------------------------------------------
def test_ops_and_numpy_reach_sparse_tensors() -> None:
    a = RNG.normal(size=(3, 4)) * (RNG.random((3, 4)) < 0.5)
    b = RNG.normal(size=(4, 2))
    c = RNG.normal(size=(3, 4))
    for x in (sparse.to_sparse_coo(a), sparse.to_sparse_csr(a)):
        for found, want in (
            (ops.relu(x), np.maximum(a, 0)), (ops.add(x, x), 2 * a), (ops.matmul(x, b), a @ b),
            (ops.matmul(b, x, True, True), b.T @ a.T), (ops.cast(x, "float64"), a),
            (phix.to_tensor(b.T) @ x.T, b.T @ a.T), (phix.to_tensor(c) * x, c * a),
            (x * c, a * c), (c * x, a * c), (x + c, a + c), (c - x, c - a), (x / c, a / c),
            (2.0 * x, 2 * a), (x**2, a**2), (abs(x), np.abs(a)), (np.sin(x), np.sin(a)),
            (np.add(x, x), 2 * a), (np.matmul(x, b), a @ b), (np.dot(x, b), a @ b),
            (np.sum(x, axis=1), a.sum(1)), (np.transpose(x), a.T), (-x, -a),
            (np.multiply(np.float64(3.0), x), 3 * a), (ops.sum(x, [0]), a.sum(0)),
            (ops.transpose(x, [1, 0]), a.T), (ops.reshape(x, [4, 3]), a.reshape(4, 3)),
            (phix.jit(lambda x: ops.tanh(x) + x)(x), np.tanh(a) + a),
        ):  # fmt: skip
            close(found, want)
        assert np.shape(x) == (3, 4)
        for call in (lambda x=x: ops.cos(x), lambda x=x: np.cos(x), lambda x=x: np.cumsum(x),
                     lambda x=x: ops.concat([x, x]), lambda x=x: c / x,
                     lambda x=x: np.add.reduce(x)):  # fmt: skip
            with pytest.raises(ArgumentError):
                call()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "bool", "float16"])
def test_sums_by_ops_and_numpy_have_the_dtype_of_dense_ones(dtype: str) -> None:
    """300 does not fit into 8 bits."""
    a = np.full((2, 3), 100).astype(dtype)
    for x in (sparse.to_sparse_coo(a), sparse.to_sparse_csr(a)):
        for found in (np.sum(x, axis=1), ops.sum(x, [1]), phix.jit(lambda x: np.sum(x, axis=1))(x)):
            assert found.dtype == ops.sum(phix.to_tensor(a), [1]).dtype
            np.testing.assert_array_equal(found.to_dense(), a.sum(1))
        assert np.sum(x, dtype="int16").dtype == np.int16
        assert sparse.sum(x).dtype == (np.int64 if dtype == "bool" else dtype)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_way_to_scipy_and_back(index: Any) -> None:
    rng = np.random.default_rng(3)
    m = scipy.sparse.random_array((5, 4), density=0.5, rng=rng).tocsr()
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    for kind in ("csr", "coo", "csc"):
        x = sparse.from_scipy(m.asformat(kind))
        back = sparse.to_scipy(x)
        assert back.format == ("csr" if kind == "csr" else "coo")
        assert (back.toarray() == m.toarray()).all()
        assert np.shares_memory(back.data, x.values.numpy()) and not back.data.flags.writeable
    with pytest.raises(ArgumentError, match="SciPy"):
        sparse.to_scipy(volume((1, 2, 2, 1), 0.5)[0])


BAD: list[tuple[Callable[[], Any], type[PhixError], str]] = [
    (lambda: sparse.conv3d(volume((1, 3, 3, 2), 0.5)[0], np.ones((2, 2, 3, 1)), [0, 0], [1, 1],
                           [1, 1], 1, False), ShapeError, "conv3d: kernel must be"),
    (lambda: sparse.conv3d(volume((1, 3, 3, 2), 0.5)[0], np.ones((2, 2, 2, 1)), [0], [1, 1],
                           [1, 1], 1, False), AttributeValueError, "paddings must be 2"),
    (lambda: sparse.conv3d(volume((1, 3, 3, 2), 0.5)[0], np.ones((2, 2, 2, 1)), [0, 0], [1, 1],
                           [1, 1], 2, False), AttributeValueError, "groups must be 1"),
    (lambda: sparse.maxpool(sparse.to_sparse_coo(np.ones((2, 2))), [1], [0], [1], [1]), ShapeError,
     "maxpool: x must be"),
    (lambda: sparse.fused_attention(np.ones((1, 1, 2, 2)), np.ones((1, 1, 2, 2)),
                                    np.ones((1, 1, 2, 2)), sparse.to_sparse_coo(np.ones((2, 2)))),
     ShapeError, "sparse_mask must be"),
    (lambda: sparse.to_sparse_coo(np.ones((2, 3))) @ sparse.to_sparse_coo(np.ones((2, 3))),
     ShapeError, "inner dims"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_call_is_refused(number: int) -> None:
    call, error, text = BAD[number]
    with pytest.raises(error, match=text):
        call()
