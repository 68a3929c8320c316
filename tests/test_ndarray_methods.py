"""Methods of tensors beside those of ``numpy.ndarray``: every public name is right, or refused."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phix
from phix.array_functions.paddle_methods import METHODS
from phix.core import operators
from phix.core.errors import PhixError

pytestmark = pytest.mark.unoptimised

X = np.array([[0.3, -1.25, 2.5, 0.75], [1.5, 0.125, -0.5, 3.0], [-2.0, 0.9, 1.1, -0.7]])
CUBE = np.arange(24.0).reshape(2, 3, 4) / 7.0
INTS = np.array([[3, -1, 2, 0], [5, 0, -4, 1]])
BYTES = np.array([[250, 3], [7, 99]], np.uint8)
MASK = np.array([[True, False, True, True], [False, True, True, False], [True] * 4])
Z = X[:2, :2] + 1j * X[1:, 2:]
Calls = list[tuple[Any, Callable[[Any], Any]]]

# What is called of an array; it is called of a tensor in the same words.
DIFFERENTIABLE: dict[str, Calls] = {
    "sum": [(X, lambda x: x.sum()), (X, lambda x: x.sum(1, keepdims=True)),
            (CUBE, lambda x: x.sum((0, -1))), (X, lambda x: x.sum(axis=0, where=MASK, initial=2.0)),
            (X, lambda x: x.sum(axis=()))],
    "prod": [(X, lambda x: x.prod()), (X, lambda x: x.prod(axis=-1, keepdims=True)),
             (X, lambda x: x.prod(0, where=MASK, initial=0.5))],
    "mean": [(X, lambda x: x.mean()), (CUBE, lambda x: x.mean((1, 2))),
             (X, lambda x: x.mean(0, keepdims=True)), (X, lambda x: x.mean(1, where=MASK))],
    "var": [(X, lambda x: x.var()), (X, lambda x: x.var(0, ddof=1)),
            (X, lambda x: x.var(axis=1, keepdims=True))],
    "std": [(X, lambda x: x.std()), (X, lambda x: x.std(1, ddof=1, keepdims=True))],
    "max": [(X, lambda x: x.max()), (X, lambda x: x.max(0)), (CUBE, lambda x: x.max((0, 2))),
            (X, lambda x: x.max(1, where=MASK, initial=0.2))],
    "min": [(X, lambda x: x.min()), (X, lambda x: x.min(axis=-1, keepdims=True))],
    "cumsum": [(X, lambda x: x.cumsum()), (X, lambda x: x.cumsum(0)),
               (X, lambda x: x.cumsum(axis=-1))],
    "cumprod": [(X, lambda x: x.cumprod()), (X, lambda x: x.cumprod(1))],
    "clip": [(X, lambda x: x.clip(-0.6, 1.0)), (X, lambda x: x.clip(min=0.2)),
             (X, lambda x: x.clip(max=X[0])), (X, lambda x: x.clip(1.0, -0.6))],
    "reshape": [(X, lambda x: x.reshape(4, 3)), (X, lambda x: x.reshape((2, -1))),
                (X, lambda x: x.reshape(-1)), (X, lambda x: x.reshape([6, 2]))],
    "flatten": [(CUBE, lambda x: x.flatten()), (X[0], lambda x: x.flatten())],
    "ravel": [(CUBE, lambda x: x.ravel())],
    "transpose": [(CUBE, lambda x: x.transpose()), (CUBE, lambda x: x.transpose(2, 0, 1)),
                  (CUBE, lambda x: x.transpose((1, 0, 2))), (CUBE, lambda x: x.transpose(None))],
    "T": [(CUBE, lambda x: x.T), (X[0], lambda x: x.T)],
    "mT": [(CUBE, lambda x: np.swapaxes(x, 1, 2) if isinstance(x, np.ndarray) else x.mT)],
    "swapaxes": [(CUBE, lambda x: x.swapaxes(0, -1))],
    "squeeze": [(X[:1, :, None], lambda x: x.squeeze()), (X[:1, :, None], lambda x: x.squeeze(0)),
                (X[:1, :, None], lambda x: x.squeeze(axis=(0, 2)))],
    "repeat": [(X, lambda x: x.repeat(2)), (X, lambda x: x.repeat(2, axis=0))],
    "take": [(X, lambda x: x.take([0, 5, 5])), (X, lambda x: x.take([2, 0], axis=1)),
             (X, lambda x: x.take(3)), (X, lambda x: x.take([-1, 7], 0, mode="wrap")),
             (X, lambda x: x.take([-1, 7], 1, mode="clip"))],
    "trace": [(X, lambda x: x.trace()), (CUBE, lambda x: x.trace(1, 0, 2))],
    "diagonal": [(X, lambda x: x.diagonal()), (CUBE, lambda x: x.diagonal(-1, 1, 2))],
    "dot": [(X, lambda x: x.dot(X.T)), (X, lambda x: x.dot(X[0])), (X[0], lambda x: x.dot(X[1])),
            (X, lambda x: x.dot(2.0)), (CUBE, lambda x: x.dot(X.T))],
    "sort": [(X, lambda x: _sorted(x, -1)), (X, lambda x: _sorted(x, 0))],
    "astype": [(X, lambda x: x.astype(np.float32)), (X, lambda x: x.astype("int64"))],
    "copy": [(X, lambda x: x.copy())],
    "flat": [(X, lambda x: x.flat[5] * x.flat[2])],
    "round": [(X, lambda x: x.round()), (X, lambda x: x.round(1))],
    "conj": [(X, lambda x: x.conj())],
    "conjugate": [(X, lambda x: x.conjugate())],
    "real": [(X, lambda x: x.real)],
    "imag": [(X, lambda x: x.imag)],
    "compress": [(X, lambda x: x.compress([False, True, True], axis=0)),
                 (X, lambda x: x.compress([True, False, True]))],
}  # fmt: skip
OTHER: dict[str, Calls] = {
    "sum": [(INTS, lambda x: x.sum()), (INTS.astype(np.int32), lambda x: x.sum(0)),
            (MASK, lambda x: x.sum(1)), (INTS, lambda x: x.sum(dtype=np.float32)),
            (BYTES, lambda x: x.sum()), (BYTES, lambda x: x.sum(0))],
    "prod": [(INTS, lambda x: x.prod(0)), (BYTES, lambda x: x.prod())],
    "mean": [(INTS, lambda x: x.mean(dtype="float64")),
             (MASK, lambda x: x.mean(0, dtype="float64"))],
    "var": [(INTS, lambda x: x.var(dtype="float64")), (Z, lambda x: x.var())],
    "max": [(INTS, lambda x: x.max(1)), (np.array([1.0, np.nan]), lambda x: x.max())],
    "argmax": [(X, lambda x: x.argmax()), (X, lambda x: x.argmax(0)),
               (X, lambda x: x.argmax(axis=1, keepdims=True)), (INTS, lambda x: x.argmax(-1)),
               (np.array([1.0, np.nan, 2.0]), lambda x: x.argmax())],
    "argmin": [(X, lambda x: x.argmin()), (X, lambda x: x.argmin(axis=-1))],
    "argsort": [(X, lambda x: x.argsort()), (X, lambda x: x.argsort(0)),
                (X, lambda x: x.argsort(axis=None)),
                (INTS[0].repeat(5) % 2, lambda x: x.argsort(kind="stable"))],
    "argpartition": [(X, lambda x: np.sort(_values(x)[0, _values(x.argpartition(1))[0]][:2]))],
    "partition": [(X, lambda x: _partitioned(x, 1))],
    "all": [(MASK, lambda x: x.all()), (MASK, lambda x: x.all(1)),
            (X, lambda x: x.all(axis=0, keepdims=True)), (MASK, lambda x: x.all(where=MASK))],
    "any": [(MASK, lambda x: x.any()), (INTS, lambda x: x.any(0)),
            (MASK, lambda x: x.any(1, where=~MASK))],
    "choose": [(INTS % 3, lambda x: x.choose([INTS, -INTS, 7])),
               (INTS, lambda x: x.choose([INTS, 9], mode="wrap")),
               (INTS, lambda x: x.choose([INTS, 9], mode="clip"))],
    "nonzero": [(INTS, lambda x: x.nonzero()), (X[0], lambda x: x.nonzero())],
    "searchsorted": [(np.sort(X[0]), lambda x: x.searchsorted(X)),
                     (np.array([1.0, 1.0, 2.0]), lambda x: x.searchsorted(1.0, side="right")),
                     (np.array([1, 3, 5]), lambda x: x.searchsorted([0.5, 3.5])),
                     (X[0], lambda x: x.searchsorted(0.5, sorter=np.argsort(X[0])))],
    "conj": [(Z, lambda x: x.conj())],
    "conjugate": [(Z, lambda x: x.conjugate())],
    "real": [(Z, lambda x: x.real)],
    "imag": [(Z, lambda x: x.imag)],
    "view": [(X, lambda x: x.view(np.int64)), (X.astype(np.float32), lambda x: x.view("int32"))],
    "trace": [(INTS, lambda x: x.trace())],
    "clip": [(INTS, lambda x: x.clip(0, 3))],
    "round": [(INTS, lambda x: x.round())],
    "reshape": [(X[:0], lambda x: x.reshape(2, 0))],
    "astype": [(Z.real, lambda x: x.astype("complex128"))],
}  # fmt: skip
# Of values or facts, which a traced tensor has none of, or which are no arrays.
FACTS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: (x.item(3), x.item(1, 2), x[:1, :1].item()),
    "tolist": lambda x: x.tolist(),
    "tobytes": lambda x: x.tobytes(),
    "nbytes": lambda x: x.nbytes,
    "itemsize": lambda x: x.itemsize,
    "size": lambda x: x.size,
    "ndim": lambda x: x.ndim,
    "shape": lambda x: x.shape,
    "dtype": lambda x: x.dtype,
    "data": lambda x: bytes(x.data),
    "device": lambda x: str(x.device),
    "to_device": lambda x: x.to_device("cpu").tolist(),
}
REFUSED = {
    "base", "byteswap", "ctypes", "dump", "dumps", "fill", "flags", "getfield",
    "itemset", "newbyteorder", "put", "resize", "setfield", "setflags", "strides",
    "tofile",
}  # fmt: skip
NAMES = [n for n in dir(np.ndarray) if not n.startswith("_")]


def _values(x: Any) -> np.ndarray:
    return np.asarray(x)


def _sorted(x: Any, axis: int) -> Any:
    """NumPy's works in place."""
    return np.sort(x, axis) if isinstance(x, np.ndarray) else x.sort(axis)


def _partitioned(x: Any, kth: int) -> Any:
    found = np.partition(x, kth) if isinstance(x, np.ndarray) else x.partition(kth)
    return np.sort(_values(found)[:, : kth + 1])


def _same(found: Any, wanted: Any, name: str) -> None:
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and len(found) == len(wanted), name
        for f, w in zip(found, wanted):
            _same(f, w, name)
        return
    array = np.asarray(found)
    assert array.shape == np.shape(wanted), f"{name}: {array.shape}, not {np.shape(wanted)}"
    assert array.dtype == np.asarray(wanted).dtype, name
    np.testing.assert_allclose(array, wanted, rtol=1e-12, atol=1e-14, err_msg=name)


def test_ints_become_the_default_float() -> None:
    x = phix.to_tensor(INTS)
    for name in ("mean", "var", "std"):
        assert getattr(x, name)().dtype == phix.float32
        assert np.allclose(getattr(x, name)(), getattr(INTS, name)())


def test_every_public_name_of_arrays_is_compared_or_refused() -> None:
    known = {*DIFFERENTIABLE, *OTHER, *FACTS, *REFUSED}
    assert not [n for n in NAMES if n not in known]


@pytest.mark.parametrize("name", sorted({*DIFFERENTIABLE, *OTHER}))
def test_it_means_what_it_means_for_arrays(name: str) -> None:
    eager_only = ("argpartition", "partition", "nonzero", "compress")
    calls = [*DIFFERENTIABLE.get(name, []), *OTHER.get(name, [])]
    if name not in eager_only:
        found = phix.jit(lambda *xs: [f(x) for (_, f), x in zip(calls, xs)])(*(a for a, _ in calls))
        for (array, call), one in zip(calls, found):
            _same(one, call(array), f"{name} under jit")
    for array, call in calls:
        _same(call(phix.to_tensor(array)), call(array), name)


def _weighted(results: list[Any]) -> Any:
    total = 0.0
    for k, result in enumerate(results):
        weights = np.cos(np.arange(np.size(result), dtype=np.float64) + k)
        total = total + (result.reshape(-1) * weights.reshape(-1)).sum()
    return total


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in ("round", "compress")])
def test_derivatives_are_those_of_differences(name: str) -> None:
    calls = [(a, f) for a, f in DIFFERENTIABLE[name] if "int64" not in f.__code__.co_consts]
    calls = [c for c in calls if np.asarray(c[1](c[0])).dtype == np.float64]

    def loss(*arrays: Any) -> Any:
        return _weighted([f(x) for (_, f), x in zip(calls, arrays)])

    arrays = [a for a, _ in calls]
    grads = phix.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)
    for k, (array, grad) in enumerate(zip(arrays, grads)):
        for place in list(np.ndindex(array.shape))[::5]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = array.copy()
                moved[place] += step
                ends.append(float(loss(*arrays[:k], moved, *arrays[k + 1 :])))
            wanted = (ends[0] - ends[1]) / 2e-6
            assert abs(grad[place].item() - wanted) < 1e-6 * max(1.0, abs(wanted)), (k, place)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_facts_and_values(name: str) -> None:
    assert FACTS[name](phix.to_tensor(X)) == FACTS[name](X)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_tensors_do_not_do_says_what_to_write(name: str) -> None:
    x = phix.to_tensor(X)
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=rf"{name}.*(write|are immutable|read)"):
        getattr(x, name)
    with pytest.raises(AttributeError, match=name):
        phix.jit(lambda x: getattr(x, name))(x)


def test_paddles_keywords_beside_numpys() -> None:
    x = phix.to_tensor(X)
    for name in ("sum", "mean", "max", "min", "prod"):
        wanted = getattr(X, name)(0, keepdims=True)
        assert np.allclose(getattr(x, name)(0, keepdim=True), wanted)
        assert np.allclose(getattr(x, name)(0, True), wanted)
    assert np.allclose(x.var(unbiased=True), X.var(ddof=1))
    assert np.allclose(x.std(1, correction=1), X.std(1, ddof=1))
    assert np.allclose(x.transpose(perm=[1, 0]), X.T)
    assert np.allclose(x.sort(descending=True), -np.sort(-X))
    assert np.allclose(x.cumprod(dim=0), X.cumprod(0))
    assert np.allclose(x.cumsum(0, reverse=True), X[::-1].cumsum(0)[::-1])
    assert phix.to_tensor(CUBE).flatten(1).shape == (2, 12)
    assert phix.to_tensor(CUBE).flatten(start_axis=0, stop_axis=1).shape == (6, 4)
    assert x.view(4, 3).shape == x.view([4, -1]).shape == (4, 3)


def test_methods_of_paddles_tensor() -> None:
    x = phix.to_tensor(X)
    total = np.log(np.exp(X).sum())
    assert np.allclose(x.logsumexp(), total) and x.logsumexp(keepdim=True).shape == (1, 1)
    assert np.allclose(x.logsumexp(1), np.log(np.exp(X).sum(1)))
    assert np.allclose(x.logcumsumexp(), np.log(np.exp(X).cumsum()))
    values, places = x.cummax()
    assert np.allclose(values, np.maximum.accumulate(X.ravel())) and places.shape == (12,)
    assert np.allclose(x.cummin(0)[0], np.minimum.accumulate(X, 0))
    assert np.allclose(x.median(), np.median(X)) and np.allclose(x.median(1), np.median(X, 1))
    assert x.median(0, keepdim=True).shape == (1, 4)
    assert np.allclose(x.norm(), np.sqrt((X**2).sum()))
    assert np.allclose(x.norm(1, axis=0), np.abs(X).sum(0))
    assert np.allclose(x.norm("nuc", axis=(0, 1)), np.linalg.norm(X, "nuc"))
    assert [p.shape for p in x.split(2, axis=1)] == [(3, 2)] * 2
    assert [p.shape for p in x.split([1, 3], 1)] == [(3, 1), (3, 3)]
    assert x[:, :1].expand(3, 5).shape == x[:, :1].expand([-1, 5]).shape == (3, 5)
    assert np.allclose(x.tile(2, 1), np.tile(X, (2, 1)))
    assert np.allclose(x.repeat_interleave(2), X.repeat(2))
    assert np.allclose(x.unfold(1, 2, 2), X.reshape(3, 2, 2))
    once, counts = phix.to_tensor([2, 1, 2]).unique(return_counts=True)
    assert once.tolist() == [1, 2] and counts.tolist() == [1, 2]
    assert phix.to_tensor([2, 2, 1]).unique_consecutive().tolist() == [2, 1]
    assert x.topk(2)[0].shape == (3, 2) and x.kthvalue(1)[0].shape == (3,)
    added = x.index_add([0, 0], 0, np.ones((2, 4)))
    assert np.allclose(added - X, [[2] * 4, [0] * 4, [0] * 4])
    assert np.allclose(x.tensordot(X.T, 1), X @ X.T)
    assert np.allclose(x.pinv(), np.linalg.pinv(X)) and x.matrix_rank().item() == 3
    assert x.dim() == x.ndimension() == 2 and x.element_size() == 8
    assert phix.to_tensor([0.0, 1.0, 4.0]).histogram(2).tolist() == [2, 1]
    assert np.allclose(phix.grad(lambda x: (x.detach() * x).sum())(X), X)


def test_methods_with_arguments_that_say_nothing_true() -> None:
    x = phix.to_tensor(X)
    for call, message in [
        (lambda: x.sum(out=x), "immutable"),
        (lambda: x.max(1, where=MASK), "initial="),
        (lambda: x.sum(2), "out of range"),
        (lambda: x.take([0], mode="around"), "mode"),
        (lambda: x.reshape(5, 5), "reshape"),
        (lambda: x.reshape(4, 3, order="F"), "order"),
        (lambda: phix.to_tensor(CUBE).transpose(0, 1), r"swapaxes\(0, 1\)"),
        (lambda: x.searchsorted(1.0, side="middle"), "'left' or 'right'"),
        (lambda: x.index_add(0, [0], X[:1]), "index, axis, value"),
        (lambda: x.norm(3, axis=(0, 1)), "matrix_norm"),
        (lambda: x.gather(1, phix.to_tensor([0])), r"gather takes \(index, axis\)"),
        (lambda: x.index_select(0, phix.to_tensor([1])), r"takes \(index, axis\)"),
        (lambda: x.scatter(1, phix.to_tensor([[0]]), x), "put_along_axis"),
        (lambda: x.scatter_(1, phix.to_tensor([[0]]), x), r"scatter_ takes .*x\.put_along_axis"),
        (lambda: x.where(x > 0, x), r"phix\.ops\.where\(condition"),
        (lambda: phix.zeros(2, 3), r"phix\.zeros\(\[2, 3\]\)"),
        (lambda: x.astype("int32", casting="safe"), "casting"),
        (lambda: x[0].mT, "x.T"),
        (lambda: x.dot(), "write x.dot"),
        (lambda: x.squeeze(0), "one element"),
    ]:
        with pytest.raises(PhixError, match=message):
            call()


def test_methods_keep_their_signatures_for_help() -> None:
    parameters = inspect.signature(phix.Tensor.sum).parameters
    assert list(parameters)[:5] == ["self", "axis", "dtype", "out", "keepdims"]


def test_the_methods_are_imported_with_the_first_that_is_asked_for() -> None:
    written = {n for c in METHODS for n in vars(c) if not n.startswith("__")}
    assert written == set(operators.WRITTEN_METHODS)
    code = (
        "import sys, phix; x = phix.ones([2]); held = 'phix.array_functions' in sys.modules; "
        "print(held, x.sum().item(), 'phix.array_functions' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "2.0", "True"]


@pytest.mark.parametrize("reduce", ["assign", "add", "mul", "amax", "amin", "mean"])
def test_puts_into_the_first_rows(reduce: str) -> None:
    """Without broadcast the indices are of as many rows as they have, and so are the values."""
    x, v = X.astype(float), np.arange(9.0).reshape(3, 3) - 3
    index = np.array([[1], [1], [0]])
    of_all = {"assign": lambda a: a[-1], "add": sum, "mul": np.prod, "amax": max, "amin": min,
              "mean": np.mean}[reduce]  # fmt: skip
    wanted = x.copy()
    wanted[1, 0] = of_all([x[1, 0], v[0, 0], v[1, 0]])
    wanted[0, 0] = of_all([x[0, 0], v[2, 0]])
    put = phix.to_tensor(x).put_along_axis(index, v, 0, reduce, broadcast=False)
    np.testing.assert_allclose(put, wanted)
    slope = phix.grad(
        lambda v: phix.to_tensor(x).put_along_axis(index, v, 0, reduce, broadcast=False).sum()
    )(phix.to_tensor(v))
    assert not slope.numpy()[:, 1:].any()


def test_along_an_axis_with_and_without_broadcast() -> None:
    x = phix.to_tensor(X)
    everywhere = X.copy()
    np.put_along_axis(everywhere, np.zeros((1, X.shape[1]), int), 9, 0)
    assert np.array_equal(x.put_along_axis([[0]], 9, 0), everywhere)
    assert np.array_equal(x.take_along_axis([[1]], 0), X[1:2])
    assert np.array_equal(x.take_along_axis([[1], [0]], 0, broadcast=False), X[[1, 0], :1])
    with pytest.raises(phix.errors.ShapeError, match="more rows than"):
        x.take_along_axis([[0] * (X.shape[1] + 1)], 0, broadcast=False)
    with pytest.raises(phix.errors.ShapeError, match="expand it for every row, or write"):
        phix.ops.put_along_axis(x, [[0]], 9, 0)
