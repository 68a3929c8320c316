"""docs/coming-from.md: what the second column of each row gives, beside NumPy or a closed form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phix

pytestmark = pytest.mark.unoptimised
PAGE = (Path(__file__).resolve().parents[1] / "docs" / "coming-from.md").read_text("utf-8")

X = np.linspace(-1.5, 2.0, 12).reshape(3, 4)
Y = np.linspace(0.5, 3.0, 12).reshape(3, 4)[::-1].copy()
V = np.array([0.5, -1.0, 2.0, 1.5])
M = np.array([[4.0, 1, 0, 0], [1, 3, 1, 0], [0, 1, 5, 1], [0, 0, 1, 2]])
I = np.array([2, 0, 1])
MASK = X > 0
SCOPE: dict[str, Any] = {
    "np": np, "phix": phix, "F": phix.nn.functional, "key": phix.random.key(0),
    "f": lambda t: (t * t).sum(), "g": lambda t: t * 2.0,
}  # fmt: skip
OURS = {n: phix.to_tensor(a) for n, a in zip("xyvm", (X, Y, V, M))}
OURS |= {"i": phix.to_tensor(I), "mask": phix.to_tensor(MASK)}
E = np.exp(X)
ROWS = X.shape[0]
EYE2 = 2.0 * np.eye(4)

# The second column -> what it is, in NumPy. The rows under NumPy are their own first column.
WANTED: dict[str, Any] = {
    "x.sort()": np.sort(X),
    "phix.full_like(x, 7.0)": np.full_like(X, 7.0),
    "x.at[0].set(1.0)": np.concatenate([np.ones((1, 4)), X[1:]]),
    "x.at[mask].add(1.0)": X + MASK,
    "phix.grad(f)(x)": 2 * X,
    "phix.value_and_grad(f)(x)": ((X * X).sum(), 2 * X),
    "phix.jit(f)(x)": (X * X).sum(),
    "phix.vmap(f)(x)": (X * X).sum(1),
    "phix.jacrev(g)(v)": EYE2,
    "phix.hessian(f)(v)": EYE2,
    "phix.jvp(f, (v,), (v,))": ((V * V).sum(), 2 * (V * V).sum()),
    "phix.cond(True, g, lambda v: -v, v)": 2 * V,
    "phix.cond(True, lambda: v, lambda: -v)": V,
    "phix.fori_loop(0, 3, lambda k, a: a * 2, v)": 8 * V,
    "phix.scan(lambda c, a: (c + a, c), phix.zeros([], v.dtype), v)": (
        V.sum(), np.concatenate([[0], V.cumsum()[:-1]])
    ),
    "phix.while_loop(lambda a: a[0] < 9, lambda a: a * 2, v)": 32 * V,
    "phix.stop_gradient(x)": X,
    "phix.numpy.nonzero(mask, size=3, fill_value=-1)": tuple(v[:3] for v in np.nonzero(MASK)),
    "phix.numpy.unique(v, size=5)": np.array([-1.0, 0.5, 1.5, 2.0, -1.0]),
    "phix.numpy.repeat(x, i, 0, total_repeat_length=4)": X[[0, 0, 2, 2]],
    "phix.numpy.bincount(i, length=4)": np.array([1, 1, 1, 0]),
    'phix.tree.map(g, {"a": v})': {"a": 2 * V},
    'dict(phix.tree.leaves_with_path({"a": v}))': {"a": V},
    'phix.tree.map(lambda t: t[0] * 2, {"a": (v,)}, is_leaf=lambda t: isinstance(t, tuple))': {
        "a": 2 * V
    },
    "phix.tree.transpose(phix.tree.structure([0, 0]), None, [(v, x), (x, v)])": ([V, X], [X, V]),
    "phix.tree.reduce(phix.ops.add, [v, v])": 2 * V,
    "F.softmax(x)": E / E.sum(1, keepdims=True),
    "F.squareplus(x)": (X + np.sqrt(X * X + 4)) / 2,
    "x.logsumexp()": np.log(E.sum()),
    'phix.scipy.linalg.solve(m, v, assume_a="pos")': np.linalg.solve(M, V),
    "phix.scipy.sparse.linalg.cg(m, v, tol=1e-12)[0]": np.linalg.solve(M, V),
    "phix.scipy.integrate.odeint(lambda y, t, a: -a * y, v, [0.0, 1.0], (0.5,), "
    "rtol=1e-12, atol=1e-12)": (
        np.exp([[0.0], [-0.5]]) * V),
    "phix.ops.sin(x)": np.sin(X),
    "x.at[0].add(1.0)": X + np.array([[1.0], [0], [0]]),
    'x.at[np.array([0, 9])].set(1.0, mode="drop")': np.vstack([np.ones_like(X[:1]), X[1:]]),
    "phix.to_tensor([1.0, 2.0])": np.array([1.0, 2.0], np.float32),
    "phix.to_tensor([1.0])": np.array([1.0], np.float32),
    "x.view(4, 3)": X.reshape(4, 3),
    "x.transpose(1, 0)": X.T,
    "x.swapaxes(0, 1)": X.T,
    "x.unsqueeze(1)": X[:, None],
    "x.shape[0]": 3,
    "x.size": 12,
    "x.dim()": 2,
    'x.astype("float32")': X.astype(np.float32),
    "x.sum(axis=1, keepdim=True)": X.sum(1, keepdims=True),
    "(x.max(axis=1), x.argmax(axis=1))": (X.max(1), X.argmax(1)),
    "x.std(ddof=1)": X.std(ddof=1),
    "(x.sort(axis=1), x.argsort(axis=1))": (np.sort(X, 1), np.argsort(X, 1)),
    "x.clip(-1, 1)": X.clip(-1, 1),
    "x.tile(2, 1)": np.tile(X, (2, 1)),
    "x.repeat(2, axis=1)": X.repeat(2, 1),
    "x.split(2, axis=1)": tuple(np.split(X, 2, 1)),
    "phix.ops.concat([x, y], 0)": np.concatenate([X, Y]),
    "phix.ops.stack([x, y])": np.stack([X, Y]),
    "x @ y.T": X @ Y.T,
    "phix.ops.where(mask, 0.0, x)": np.where(MASK, 0.0, X),
    "x.take_along_axis(x.argsort(1), 1)": np.sort(X, 1),
    "x.index_select(i, 0)": X[I],
    "x.detach()": X,
    "x": X,
    "x.numpy()": X,
    "F.relu(x)": np.maximum(X, 0),
    "F.cross_entropy(x, i)": -np.log((E / E.sum(1, keepdims=True))[range(ROWS), I]).mean(),
    "phix.ops.concat([x, y], axis=1)": np.concatenate([X, Y], 1),
    "x.sum(axis=0, keepdim=True)": X.sum(0, keepdims=True),
    "x.flatten(1)": X,
    "x.std(unbiased=True)": X.std(ddof=1),
    "phix.ops.nonzero(mask)": np.argwhere(MASK),
    "x.sort(descending=True)": -np.sort(-X),
    "x.real": X,
    "phix.vjp(f, x)[0]": (X * X).sum(),
    "phix.grad(lambda x: np.sin(x).sum())(x)": np.cos(X),
    "phix.hvp(f, (v,), (v,))": 2 * V,
    "np.sum(np.tanh(x))": np.tanh(X).sum(),
}  # fmt: skip
# What is no number: what the result shows.
SHOWN = {
    "phix.random.key(0)": "uint32",
    "phix.random.normal(key, [3])": "shape=[3]",
    "phix.nn.initializers.he_normal()(key, [3, 4])": "shape=[3, 4]",
    "phix.random.normal(phix.random.key(0), [3])": "shape=[3]",
    'phix.spec([3], "float32")': "float32[3]",
    "phix.make_graph(g)(v)": "multiply",
    'phix.debug.print("{x}", x=v)': "None",
    'phix.autocast(f, "bfloat16")(x)': "Tensor(",
    "phix.vjp(f, x)": "",
    "F.gelu(x)": "shape=[3, 4]",
}


def _rows() -> list[tuple[str, str, str]]:
    """The section, and the expressions of each row."""
    found = []
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for line in re.findall(r"^\| (`.*`.*) \|$", section, re.MULTILINE):
            theirs, ours = (re.match(r"`([^`]*)`", c.strip()) for c in line.split(" | "))
            assert theirs and ours, line
            found.append((title, theirs[1], ours[1]))
    return found


TABLE = _rows()


def _same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted):
            _same(f, w)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for k in wanted:
            _same(found[k], wanted[k])
    else:
        array = np.asarray(found)
        assert array.shape == np.shape(wanted) and array.dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(array, wanted, rtol=1e-6 if array.dtype == "f4" else 1e-12)


@pytest.mark.parametrize(("title", "theirs", "ours"), TABLE, ids=[f"{t}-{o}" for t, _, o in TABLE])
def test_a_row_is_so(title: str, theirs: str, ours: str, capsys: Any) -> None:
    found = eval(ours, SCOPE | OURS)
    if ours in SHOWN:
        assert SHOWN[ours] in repr(found)
    elif ours in WANTED:
        _same(found, WANTED[ours])
    else:
        assert title == "NumPy", f"{ours} has no row in WANTED"
        arrays = dict(zip("xyvm", (X, Y, V, M))) | {"i": I, "mask": MASK}
        _same(found, eval(theirs, SCOPE | arrays))


def test_the_page_has_its_tables() -> None:
    titles = [t for t, _, _ in TABLE]
    assert all(titles.count(t) >= 8 for t in ("NumPy", "JAX", "PyTorch", "Paddle", "autograd"))
    assert {o for _, _, o in TABLE} >= set(WANTED)
