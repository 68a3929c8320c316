"""Library functions on tensors of a device, while new tensors are made on the host by default: what
they make on their way, positions, zeros, bases, goes where their arguments are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import phix
import phix.numpy as pn
from emulated_gpu import emulated
from gpu_programs import needs_compiler
from phix import nn, optim, sparse
from phix.scipy.optimize import minimize

pytestmark = [needs_compiler, pytest.mark.xdist_group("gpu operands"), pytest.mark.unoptimised]
A = np.random.default_rng(0).standard_normal((4, 5))
STORED = scipy.sparse.random(5, 6, 0.4, format="coo", random_state=0)
KEY = phix.random.key(0)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with emulated(), phix.device("cpu"):
        yield


def on(data: Any) -> Any:
    return phix.to_tensor(data, place="gpu")


def places(tree: Any) -> set[str]:
    """Where what has axes lives."""
    return {str(x.place) for x in phix.tree.leaves(tree) if getattr(x, "ndim", 0)}


def cubes(v: Any) -> Any:
    return pn.sum(pn.tanh(v) ** 3)


def stored() -> Any:
    indices = np.stack([STORED.row, STORED.col]).astype(np.int64)
    return sparse.sparse_coo_tensor(on(indices), on(STORED.data), STORED.shape)


# a function of [4, 5], and the same of NumPy's
ARRAYS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "roll": (lambda x: pn.roll(x, 2, 1), lambda a: np.roll(a, 2, 1)),
    "tril": (pn.tril, np.tril),
    "take_along_axis": (lambda x: pn.take_along_axis(x, pn.argsort(x, 1), 1), lambda a: np.sort(a)),
    "gradient": (lambda x: pn.gradient(x[0]), lambda a: np.gradient(a[0])),
    "interp": (
        lambda x: pn.interp(x[0], on([-1.0, 0, 1]), on([0.0, 1, 2])),
        lambda a: np.interp(a[0], [-1, 0, 1], [0, 1, 2]),
    ),
    "quantile": (lambda x: pn.quantile(x, 0.3, axis=1), lambda a: np.quantile(a, 0.3, axis=1)),
    "histogram": (lambda x: pn.histogram(x, bins=5)[0], lambda a: np.histogram(a, 5)[0]),
    "convolve": (lambda x: pn.convolve(x[0], x[1]), lambda a: np.convolve(a[0], a[1])),
    "insert": (lambda x: pn.insert(x, 1, 0.0, axis=1), lambda a: np.insert(a, 1, 0, axis=1)),
    "pad": (
        lambda x: pn.pad(x, ((1, 1), (0, 2)), mode="reflect"),
        lambda a: np.pad(a, ((1, 1), (0, 2)), mode="reflect"),
    ),
    "polyfit": (lambda x: pn.polyfit(x[0], x[1], 2), lambda a: np.polyfit(a[0], a[1], 2)),
    "nonzero": (lambda x: pn.nonzero(x > 0)[0], lambda a: np.nonzero(a > 0)[0]),
    "NumPy's own": (lambda x: np.cumsum(np.flip(x, 1), 1), lambda a: np.cumsum(a[:, ::-1], 1)),
    "expm": (lambda x: phix.linalg.expm(x[:4, :4]), lambda a: scipy.linalg.expm(a[:4, :4])),
    "a list of ints beside an int": (lambda x: x[[0, 2], 1], lambda a: a[[0, 2], 1]),
    "sparse": (lambda x: stored() @ x.T[:, :2].at[0].set(0)[[0, 1, 2, 3, 4, 0]],
               lambda a: STORED.toarray() @ np.where(np.arange(5)[:, None] == 0, 0, a.T[:, :2])[
                   [0, 1, 2, 3, 4, 0]]),
    "sparse sums": (lambda x: sparse.add(stored(), stored()).to_dense(),
                    lambda a: 2 * STORED.toarray()),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays(name: str) -> None:
    function, of_numpy = ARRAYS[name]
    found = function(on(A))
    assert places(found) == {"gpu:0"}
    np.testing.assert_allclose(found.numpy(), of_numpy(A), rtol=1e-9, atol=1e-12)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "jacfwd": phix.jacfwd(lambda v: pn.tanh(v) * v[0]),
    "jacrev": phix.jacrev(lambda v: pn.tanh(v) * v[0]),
    "hessian": phix.hessian(cubes),
    "jitted hessian": phix.jit(phix.hessian(cubes)),
    "third": phix.jacfwd(phix.hessian(cubes)),
    "gradient of a sum of sorted": phix.grad(lambda v: pn.sum(pn.roll(pn.sort(v), 1) ** 2)),
    "checkpoint": phix.grad(phix.checkpoint(cubes)),
    "scan": lambda v: phix.scan(lambda c, x: (0.5 * c + x, c), pn.zeros_like(v), on(A))[0],
    "minimum": lambda v: minimize(lambda x: pn.sum((x - 1.0) ** 2), v, method="BFGS").x,
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_and_loops(name: str) -> None:
    found, wanted = DERIVATIVES[name](on(A[0])), None
    assert places(found) == {"gpu:0"}
    if name != "scan":  # which takes another tensor of the device
        wanted = DERIVATIVES[name](phix.to_tensor(A[0]))
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-9)


OPTIMISERS = ("sgd", "adam", "adamw", "lion", "lamb", "adafactor", "adadelta", "rprop", "lbfgs")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name: str) -> None:
    x = on(A.astype(np.float32))
    params = {"w": on(np.ones((5, 3), np.float32)), "b": on(np.zeros(3, np.float32))}

    def loss(p: Any) -> Any:
        return pn.mean((x @ p["w"] + p["b"]) ** 2)

    how = getattr(optim, name)(1e-2)
    state = how.init(params)
    for _ in range(2):
        value, slopes = phix.value_and_grad(loss)(params)
        more = {"value": value, "grad": slopes, "value_fn": loss} if name == "lbfgs" else {}
        updates, state = how.update(slopes, state, params, **more)
        params = optim.apply_updates(params, updates)
    assert places(params) == {"gpu:0"}


LAYERS: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: nn.LSTM.create(KEY, 6, 4),
    "GRUCell": lambda: nn.GRUCell.create(KEY, 6, 4),
    "MultiHeadAttention": lambda: nn.MultiHeadAttention.create(KEY, 6, 2),
    "LayerNorm": lambda: nn.LayerNorm.create(6),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    host = LAYERS[name]()
    there = phix.tree.map(lambda v: v.to("gpu"), host)
    data = np.random.default_rng(1).standard_normal((2, 4, 6)).astype(np.float32)
    x = data[0] if name == "GRUCell" else data
    found, wanted = there(on(x)), host(phix.to_tensor(x))
    assert places(found) == {"gpu:0"}
    for f, w in zip(phix.tree.leaves(found), phix.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(f.numpy(), w.numpy(), rtol=1e-4, atol=1e-5)
