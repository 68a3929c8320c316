"""What functions ask of sizes, where these are unknown: ``phix/core/expectations.py``.

A call that is refused with sizes that are known must be refused with those sizes in a program that
did not know them, under each transformation: broadcasting would make numbers of it in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix import numpy as pn
from phix.core.errors import ArgumentError, AttributeValueError, ShapeError
from phix.core.expectations import expect, expect_dims, expect_equal
from phix.random import key

pytestmark = pytest.mark.unoptimised

signal, integrate, linalg = phix.scipy.signal, phix.scipy.integrate, phix.scipy.linalg
nn = phix.nn.functional
Rotation, Slerp = phix.scipy.spatial.transform.Rotation, phix.scipy.spatial.transform.Slerp
ONES = np.ones((3, 3), "f")


def numbers(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int), dtype="f").reshape(shape) + 1) / 4


def over_grid(points: Any, values: Any) -> Any:
    found = phix.scipy.interpolate.RegularGridInterpolator((points,), values)
    return found(np.array([[0.6]], "f"))


def density(x: Any) -> Any:
    return phix.scipy.stats.gaussian_kde(x)(np.ones(3, "f"))


def drawn(x: Any, p: Any) -> Any:
    return phix.random.choice(key(0), x, (4,), p=p)


def valid(x: Any) -> Any:
    return signal.convolve2d(x, ONES, mode="valid")


def valid_by_fft(x: Any) -> Any:
    return signal.fftconvolve(x, ONES, mode="valid")


def between(times: Any, quats: Any) -> Any:
    return Slerp(times, Rotation.from_quat(quats))(np.array([0.3], "f")).as_quat()


def soft(x: Any, y: Any) -> Any:
    return nn.cross_entropy(x, y, soft_label=True)


def soft_of_op(x: Any, y: Any) -> Any:
    return phix.ops.cross_entropy_with_softmax(x, y, soft_label=True)[1].sum()


def hard(x: Any, y: Any) -> Any:
    return nn.cross_entropy(x, (y * 0).astype("int64"), axis=1)


def weighted(x: Any, w: Any) -> Any:
    return nn.nll_loss(x, (x[:, 0] * 0).astype("int64"), w)


def weighted_soft(x: Any, w: Any) -> Any:
    return nn.cross_entropy(x, x, w, soft_label=True)


def stepped(p: Any, g: Any) -> Any:
    adam = phix.optim.adam(0.1)
    updates, _ = adam.update(g, adam.init(p), p)
    return phix.optim.apply_updates(p, updates)


def solved(a: Any, b: Any, start: Any) -> Any:
    matrix = a + 9.0 * phix.numpy.eye(a.shape[0])
    return phix.scipy.sparse.linalg.cg(matrix, b, x0=start, tol=1e-7)[0]


def pooled(x: Any, ids: Any) -> Any:
    return phix.ops.segment_pool(x, ids.astype("int64"), "SUM")[0]


def aligned(x: Any) -> Any:
    label = (x.sum(0)[:, :1] * 0).astype("int64") + 1
    return phix.ops.warpctc(x, label)[0]


def by_margin(x: Any, label: Any) -> Any:
    return phix.ops.margin_cross_entropy(x / 9, label.astype("int64"), True)[1]


def in_tree(x: Any, w: Any, path: Any, code: Any) -> Any:
    label, nodes = (x[:, 0] * 0).astype("int64"), (path * 2).astype("int64")
    return phix.ops.hsigmoid_loss(
        x, label, w, None, nodes, code.astype("int64"), num_classes=4, is_sparse=False
    )[0]


# A function, shapes that it takes, and shapes that it does not.
CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "average": (lambda x, w: pn.average(x, weights=w), [(5,), (5,)], [(5,), (1,)]),
    "average along an axis": (
        lambda x, w: pn.average(x, 0, w), [(5, 2), (5,)], [(5, 2), (1,)]),
    "lexsort": (lambda x, y: pn.lexsort([x, y]), [(2, 3), (2, 3)], [(2, 3), (3, 2)]),
    "vq": (lambda x, y: phix.scipy.cluster.vq.vq(x, y)[1], [(3, 4), (2, 4)], [(3, 4), (2, 1)]),
    "vq of no code": (lambda x, y: phix.scipy.cluster.vq.vq(x, y)[1], [(3,), (2,)], [(3,), (0,)]),
    "a grid": (over_grid, [(5,), (5,)], [(5,), (3,)]),
    "choice": (drawn, [(3,), (3,)], [(3,), (1,)]),
    "convolve": (pn.convolve, [(5,), (2,)], [(5,), (0,)]),
    "signal.convolve": (signal.convolve, [(5,), (2,)], [(0,), (2,)]),
    "valid": (valid, [(4, 8)], [(2, 8)]),
    "valid, by transforms": (valid_by_fft, [(4, 8)], [(8, 2)]),
    "simpson": (integrate.simpson, [(5,)], [(0,)]),
    "cumulative_trapezoid": (integrate.cumulative_trapezoid, [(5,)], [(0,)]),
    "pad": (lambda x: pn.pad(x, 2, mode="mean"), [(3,)], [(0,)]),
    "gaussian_kde": (density, [(5,)], [(1,)]),
    "vmap": (phix.vmap(lambda x, y: x * y.sum()), [(5,), (5, 2)], [(5,), (1, 2)]),
    "vmap of so many": (phix.vmap(lambda x: x * x, axis_size=5), [(5,)], [(4,)]),
    "a mean of rotations": (
        lambda q, w: Rotation.from_quat(q).mean(w).as_quat(), [(3, 4), (3,)], [(3, 4), (1,)]),
    "Slerp": (between, [(3,), (3, 4)], [(1,), (3, 4)]),
    "eigh_tridiagonal": (
        lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True), [(4,), (3,)], [(4,), (1,)]),
    "leslie": (linalg.leslie, [(4,), (3,)], [(4,), (1,)]),
    "toeplitz": (linalg.toeplitz, [(4,), (3,)], [(0,), (3,)]),
    "convolution_matrix": (lambda x: linalg.convolution_matrix(x, 4), [(3,)], [(0,)]),
    "trapezoid": (integrate.trapezoid, [(5,), (5,)], [(2,), (5,)]),
    "simpson over points": (lambda y, x: integrate.simpson(y, x=x), [(5,), (5,)], [(2,), (1,)]),
    "detrend": (lambda x: signal.detrend(x, bp=2), [(5,)], [(1,)]),
    "csd": (lambda x, y: signal.csd(x, y, nperseg=4)[1].real, [(16,), (16,)], [(0,), (16,)]),
    "a mean of no rotations": (
        lambda q: Rotation.from_quat(q).mean().as_quat(), [(3, 4)], [(0, 4)]),
    "partition": (lambda x: pn.partition(x, 2), [(5,)], [(1,)]),
    "argpartition": (lambda x: pn.argpartition(x, -2), [(5,)], [(1,)]),
    "diag_indices_from": (lambda x: x[pn.diag_indices_from(x)], [(3, 3)], [(1, 3)]),
    "bincount": (
        lambda x, w: pn.bincount((2 * x).astype("int64"), w, 9), [(5,), (5,)], [(5,), (1,)]),
    "layer_norm": (lambda x: nn.layer_norm(x, 3), [(4, 3)], [(4, 1)]),
    "rms_norm": (lambda x: nn.rms_norm(x, [3])[0], [(4, 3)], [(4, 1)]),
    "padding_idx": (
        lambda w: nn.embedding(np.array([0, 1]), w, padding_idx=2), [(4, 3)], [(2, 3)]),
    "pad to reflect": (lambda x: nn.pad(x, [2, 2], mode="reflect"), [(1, 5)], [(1, 2)]),
    "pad in circles": (lambda x: nn.pad(x, [2, 2], mode="circular"), [(1, 5)], [(1, 1)]),
    "binary_cross_entropy": (nn.binary_cross_entropy, [(1, 3), (1, 3)], [(1, 3), (2, 3)]),
    "of logits": (nn.binary_cross_entropy_with_logits, [(2, 3), (2, 3)], [(2, 1), (2, 3)]),
    "cross_entropy": (soft, [(2, 3), (2, 3)], [(1, 3), (2, 3)]),
    "grad of cross_entropy": (phix.grad(soft), [(2, 3), (2, 3)], [(2, 3), (1, 3)]),
    "its op": (soft_of_op, [(2, 3), (2, 3)], [(2, 3), (3, 2)]),
    "grad of its op": (phix.grad(soft_of_op), [(2, 3), (2, 3)], [(2, 3), (2, 1)]),
    "classes of images": (hard, [(2, 3, 4, 5), (2, 4, 5)], [(2, 3, 4, 5), (2, 5, 4)]),
    "weights of classes": (weighted, [(2, 3), (3,)], [(2, 3), (1,)]),
    "a step of adam": (stepped, [(5,), (5,)], [(1,), (5,)]),
    "compress": (
        lambda x: pn.compress(np.ones(3, bool), x), [(5,)], [(2,)]),
    "weights of gaussian_kde": (
        lambda x, w: phix.scipy.stats.gaussian_kde(x, weights=w)(np.ones(2, "f")),
        [(5,), (5,)], [(5,), (1,)]),
    "average over two axes": (
        lambda x, w: pn.average(x, (0, 2), w), [(3, 2, 4), (3, 4)], [(3, 2, 4), (1, 4)]),
    "split": (lambda x: pn.split(x, 3)[1], [(6, 2)], [(7, 2)]),
    "hsplit": (lambda x: pn.hsplit(x, 2)[0], [(3, 6)], [(3, 5)]),
    "cg": (solved, [(3, 3), (3,), (3,)], [(1, 3), (3,), (3,)]),
    "cg from a start": (solved, [(3, 3), (3,), (3,)], [(3, 3), (3,), (1,)]),
    "segment_pool": (pooled, [(3, 2), (3,)], [(1, 2), (3,)]),
    "warpctc of no classes": (aligned, [(4, 2, 3)], [(0, 2, 0)]),
    "margin_cross_entropy": (by_margin, [(3, 4), (3, 1)], [(3, 4), (1, 3)]),
    "hsigmoid_loss": (
        in_tree, [(2, 3), (4, 3), (2, 2), (2, 2)], [(2, 3), (4, 3), (1, 2), (2, 2)]),
    "the bits of hsigmoid_loss": (
        in_tree, [(2, 3), (4, 3), (2, 2), (2, 2)], [(2, 3), (4, 3), (2, 2), (1, 2)]),
    "a quantile of none": (lambda x: pn.quantile(x, 0.5, axis=1), [(2, 3)], [(0, 0)]),
    "gradient along one of two": (lambda x: pn.gradient(x)[1], [(3, 4)], [(1, 4)]),
    "a symmetric solve": (
        lambda a, b: linalg.solve(a, b, assume_a="sym"), [(3, 3), (3,)], [(1, 3), (3,)]),
    "the rank of lstsq": (lambda x, y: pn.linalg.lstsq(x, y)[2], [(3, 2), (3, 2)],
                          [(1, 2), (3, 2)]),
    "welch with a window": (
        lambda x, w: signal.welch(x, window=w, nperseg=4)[1], [(16,), (4,)], [(16,), (1,)]),
    "a long window": (
        lambda x, w: signal.stft(x, window=w, nperseg=4)[2].real, [(16,), (4,)], [(1,), (4,)]),
    "istft": (lambda x: signal.istft(x, nperseg=4)[1], [(3, 4)], [(2, 4)]),
    "map_coordinates": (
        lambda x, p: phix.scipy.ndimage.map_coordinates(x, [p], 1), [(5,), (3,)], [(0,), (0,)]),
    "multivariate_normal": (
        lambda m, c: phix.random.multivariate_normal(key(0), m, c, method="svd"),
        [(3,), (3, 3)], [(3,), (3, 1)]),
    "smoothed labels of no classes": (
        lambda x: nn.cross_entropy(x, (x.sum(1) * 0).astype("int64"), label_smoothing=0.1),
        [(2, 3)], [(0, 0)]),
    "weights of classes, soft": (weighted_soft, [(2, 3), (3,)], [(2, 1), (3,)]),
    # the shape of the whole fits, for it has no elements
    "equal parts of nothing": (
        lambda x: phix.ops.split_with_num(x, 2, 0)[1], [(4, 2)], [(3, 0)]),
    "a derivative of parts of nothing": (
        phix.grad(lambda x: phix.ops.sum(phix.ops.split_with_num(x, 2, 0)[1])), [(4, 2)], [(3, 0)]),
}  # fmt: skip


def any_size(function: Callable[..., Any], count: int, ndims: list[int]) -> Any:
    return phix.jit(function, input_spec=[phix.spec([-1] * n) for n in ndims[:count]])


@pytest.mark.parametrize("name", CASES)
def test_what_known_sizes_are_refused_for_unknown_ones_are(name: str) -> None:
    function, good, bad = CASES[name]
    program = any_size(function, len(good), [len(s) for s in good])
    given = [numbers(*s) for s in good]
    np.testing.assert_allclose(program(*given), function(*given), rtol=2e-6, atol=1e-6)
    wrong = [numbers(*s) for s in bad]
    for call in (function, program):
        with pytest.raises((ShapeError, ArgumentError, AttributeValueError)):
            call(*wrong)
    np.testing.assert_allclose(program(*given), function(*given), rtol=2e-6, atol=1e-6)


# Functions of what may be empty, and shapes that they take.
EMPTY: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "norm, inf": (lambda x: pn.linalg.norm(x, np.inf), [(0,), (3,)]),
    "norm of matrices, 1": (lambda x: pn.linalg.norm(x, 1), [(3, 0), (3, 4), (0, 4)]),
    "norm of matrices, 2": (lambda x: pn.linalg.norm(x, 2), [(0, 4), (3, 4), (3, 0)]),
    "norm of matrices, inf": (lambda x: pn.linalg.norm(x, np.inf), [(0, 4), (3, 4)]),
    "logsumexp": (
        lambda x: phix.scipy.special.logsumexp(x, axis=0, b=x), [(0, 3), (2, 3), (2, 0)]),
    "logsumexp of all": (lambda x: phix.scipy.special.logsumexp(x, b=x), [(2, 0), (0, 3), (2, 3)]),
    "histogram": (lambda x: pn.histogram(x, bins=4)[1], [(0,), (3,)]),
    "its counts": (lambda x: pn.histogram(x, bins=4)[0], [(0,), (3,)]),
    "resize": (lambda x: pn.resize(x, (2, 3)), [(0,), (4,), (9,)]),
    "resize to sizes": (lambda x: pn.resize(np.ones(3, "f"), (x.shape[0], 2)), [(0,), (4,)]),
    "digitize": (lambda x: pn.digitize(np.ones(3, "f"), x), [(0,), (4,), (1,)]),
    "digitize, down": (lambda x: pn.digitize(np.ones(3, "f"), -x), [(0,), (4,)]),
    "compress": (lambda x: pn.compress(np.ones(2, bool), x), [(2,), (5,)]),
    "compress none": (lambda x: pn.compress(x > 0.3, x, axis=0), [(0,), (5,)]),
    "multivariate_normal": (
        lambda x: phix.random.multivariate_normal(key(0), x, pn.diag(x)), [(0,), (3,)]),
    "array_split": (lambda x: pn.array_split(x, 3)[1], [(0,), (2,), (4,), (8,), (9,)]),
    "array_split, the last": (lambda x: pn.array_split(x, 4, 1)[3], [(2, 3), (2, 4), (2, 11)]),
    "extract": (lambda x: pn.extract(x > 0.3, x), [(0, 3), (2, 3), (2, 0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_what_known_sizes_are_taken_for_unknown_ones_are(name: str) -> None:
    function, shapes = EMPTY[name]
    program = any_size(function, 1, [len(shapes[0])])
    for shape in shapes:
        found, wanted = program(numbers(*shape)), function(numbers(*shape))
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=2e-6)


# -- of which nothing is computed ------------------------------------------------------------------
def halved(x: Any) -> Any:
    """Linear: no derivative needs what it gives."""
    return phix.ops.avg_pool2d(x, [2, 2]).sum()


def of_equal_dims(x: Any) -> Any:
    return phix.ops.add_n([x, x[:, :, :2]]).sum()


def choice_of(x: Any) -> Any:
    return phix.cond(x.sum() > 0, halved, lambda x: x.sum(), x)


# A transformation of which the program holds no call of the function itself, and a bad shape.
UNCALLED: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "grad": (phix.grad(halved), (1, 1, 1, 2)),
    "grad of what broadcasting would answer": (phix.grad(of_equal_dims), (1, 1, 3, 2)),
    "hessian": (phix.hessian(lambda x: halved(x) ** 2), (1, 1, 1, 2)),
    "jvp": (lambda x: phix.jvp(halved, (x,), (x,))[1], (1, 1, 1, 2)),
    "linearize": (lambda x: phix.linearize(halved, x)[1](x), (1, 1, 1, 2)),
    "vmap of grad": (
        lambda x: phix.vmap(phix.grad(lambda v: halved(v[None])))(x), (1, 1, 1, 2)),
    "grad of checkpoint": (phix.grad(phix.checkpoint(halved)), (1, 1, 1, 2)),
    "grad of jit": (phix.grad(phix.jit(halved)), (1, 1, 1, 2)),
    "jit of grad": (phix.jit(phix.grad(halved)), (1, 1, 1, 2)),
    "grad of cond": (phix.grad(choice_of), (1, 1, 1, 2)),
    "grad of scan": (
        phix.grad(lambda x: phix.scan(lambda c, v: (c + halved(v[None]), None), 0.0, x)[0]),
        (1, 1, 1, 2)),
    "a part of what is computed": (lambda x: (halved(x), x.sum())[1], (1, 1, 1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCALLED)
def test_a_call_of_which_a_program_needs_no_result_is_refused(name: str) -> None:
    function, bad = UNCALLED[name]
    program = any_size(function, 1, [4])
    for n in (2, 1, 2):
        given = numbers(n, 1, 2, 2)
        np.testing.assert_allclose(program(given), function(given), rtol=2e-6)
    with pytest.raises(ShapeError):
        function(numbers(*bad))
    with pytest.raises(ShapeError):
        program(numbers(*bad))


@pytest.mark.parametrize("function", [pn.squeeze, pn.cov, pn.corrcoef])
def test_a_size_that_would_change_the_rank_is_refused(function: Callable[..., Any]) -> None:
    program = phix.jit(function, input_spec=[phix.spec([-1, 4])])
    assert function(numbers(1, 4)).ndim < function(numbers(3, 4)).ndim
    for n in (3, 0):
        np.testing.assert_allclose(program(numbers(n, 4)), function(numbers(n, 4)), rtol=2e-6)
    with pytest.raises(ShapeError, match="size"):
        program(numbers(1, 4))


# -- whatever is made of it ------------------------------------------------------------------------
def products(x: Any, y: Any) -> Any:
    return (expect_equal(x, "x is as long as y", (x.shape[0], y.shape[0])) * y).sum()


def squares(x: Any, y: Any) -> Any:
    return products(x * x, y)


def scanned(x: Any, y: Any) -> Any:
    return phix.scan(lambda c, _: (c + products(x * c, y), None), 1.0, None, length=3)[0]


def branched(x: Any, y: Any) -> Any:
    return phix.cond(y[0] > 0, products, lambda x, y: x.sum() + y.sum(), x, y)


def picked(x: Any, y: Any) -> Any:
    return products(x[x > 0], y)


def few(x: Any, y: Any) -> Any:
    picked = x[x > 0]
    return expect(picked, "2000 at most", 2000 - picked.shape[0]).sum() * y.sum()


def until(x: Any, y: Any) -> Any:
    return phix.while_loop(lambda c: c < 3.0, lambda c: c + products(x, y), 0.0)


def series(x: Any, y: Any) -> Any:
    return phix.jet(lambda x: squares(x, y), (x,), ((x, x),))[1][1]


STACKS: dict[str, Callable[..., Any]] = {
    "itself": products,
    "grad": phix.grad(products),
    "grad in y": phix.grad(products, 1),
    "grad of grad": phix.grad(lambda x, y: phix.grad(squares)(x, y).sum()),
    "hessian": phix.hessian(squares),
    "jacfwd": phix.jacfwd(squares),
    "jvp": lambda x, y: phix.jvp(products, (x, y), (x, y))[1],
    "jet": series,
    "vmap": phix.vmap(products, in_axes=(None, 1)),
    "vmap of grad": phix.vmap(phix.grad(products), in_axes=(None, 1)),
    "checkpoint": phix.grad(phix.checkpoint(squares)),
    "scan": scanned,
    "grad of scan": phix.grad(scanned),
    "cond": branched,
    "grad of cond": phix.grad(branched),
    "while_loop": until,
    "jit": phix.jit(products),
    "grad of jit": phix.grad(phix.jit(products)),
    "of a computed size": picked,
    "grad, of a computed size": phix.grad(picked),
    "linearize": lambda x, y: phix.linearize(lambda x: products(x, y), x)[1](x),
}


@pytest.mark.parametrize("name", STACKS)
def test_it_goes_through_every_transformation(name: str) -> None:
    function = STACKS[name]
    dims = [-1, 2] if name.startswith("vmap") else [-1]
    program = phix.jit(function, input_spec=[phix.spec([-1]), phix.spec(dims)])

    def other(n: int) -> np.ndarray:
        return numbers(n, *dims[1:])

    for n in (5, 1, 7):
        found, wanted = program(numbers(n), other(n)), function(numbers(n), other(n))
        np.testing.assert_allclose(found, wanted, rtol=2e-6)
    for n, m in ((5, 1), (1, 5)):
        with pytest.raises(ShapeError, match="x is as long as y"):
            program(numbers(n), other(m))


def test_a_computed_size_may_be_bounded_from_above() -> None:
    program, x = phix.jit(few), np.ones(3000, "f")
    assert program(x * (np.arange(3000) < 1500), x[:2]).item() == 3000
    with pytest.raises(ShapeError, match="2000 at most"):
        program(x, x[:2])


def test_nothing_of_it_is_left_where_sizes_are_known_or_in_the_program() -> None:
    graph = phix.make_graph(products)(phix.spec([3]), phix.spec([3]))
    assert "expect_sizes" not in str(graph)
    graph = phix.make_graph(products)(phix.spec([-1]), phix.spec([-1]))
    assert "expect_sizes" in str(graph)
    assert "expect_sizes" not in str(phix.decompose(products)(phix.spec([-1]), phix.spec([-1])))


def test_sizes_that_are_known_are_refused_at_once() -> None:
    x = phix.to_tensor(numbers(3))
    assert expect(x, "more", 0, 2) is x and expect_dims(x, "three", (3,)) is x
    with pytest.raises(ShapeError, match="more"):
        expect(x, "more", 1, -1)
    with pytest.raises(ShapeError, match="four"):
        expect_dims(x, "four", (4,))
    with pytest.raises(ShapeError, match="two axes"):
        expect_dims(x, "two axes", (3, 1))
