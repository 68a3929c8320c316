"""Rows sent to experts on other parts: lanes and meshes, loops, derivatives, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix.core.errors import DTypeError, ShapeError
from phix.parallel import global_gather, global_scatter
from tests.training_cases import delivered

pytestmark = pytest.mark.unoptimised

N, LOCAL, EXPERTS = 3, 5, 2


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of each part, and how many go to each expert: to some none, and a row is left over."""
    counts = np.zeros((N, N * EXPERTS), np.int64)
    for part in range(N):
        np.add.at(counts[part], rng.integers(0, N * EXPERTS, LOCAL - 1), 1)
    return rng.normal(size=(N, LOCAL, 2)), counts


def expected(x: np.ndarray, counts: np.ndarray, rows: int) -> np.ndarray:
    return delivered(x, counts.reshape(N, N, EXPERTS), N, rows)[0]


def lanes(f: Any) -> Any:
    return phix.vmap(f, axis_name="i")


def on_mesh(f: Any) -> Any:
    """The same function of all parts' arguments, on a virtual mesh."""
    mesh = phix.parallel.mesh({"i": N}, virtual=True)
    one = lambda *xs: phix.tree.map(lambda v: v[None], f(*(x[0] for x in xs)))  # noqa: E731
    return phix.parallel.spmd(one, mesh, "i", "i")


@pytest.mark.parametrize("rows", [0, 2, 6, 15])
@pytest.mark.parametrize("around", [lanes, on_mesh])
@pytest.mark.parametrize("jitted", [False, True])
def test_what_arrives(around: Any, jitted: bool, rows: int, rng: np.random.Generator) -> None:
    """By expert, then by sender; what is beyond the rows of the result is dropped."""
    x, counts = drawn(rng)
    run = around(lambda x, c: global_scatter(x, c, "i", rows=rows))
    found, came = (phix.jit(run) if jitted else run)(x, counts)
    np.testing.assert_array_equal(found, expected(x, counts, rows))
    np.testing.assert_array_equal(came, counts.reshape(N, N, EXPERTS).swapaxes(0, 1).reshape(N, -1))


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16", "bfloat16", "complex64"])
def test_rows_keep_their_bits(dtype: str, rng: np.random.Generator) -> None:
    x, counts = drawn(rng)
    x = np.asarray(phix.to_tensor(np.round(x)).astype(dtype))
    run = lanes(lambda x, c: global_scatter(x, c, "i", rows=15)[0])
    np.testing.assert_array_equal(
        np.asarray(run(x, counts)).astype(complex), expected(x.astype(complex).real, counts, 15)
    )
    special = np.array([[-0.0, np.nan, np.inf, -np.inf, 5e-324]] * N)
    back = lambda x, c: global_gather(global_scatter(x, c, "i", rows=15)[0], c, "i", rows=LOCAL)  # noqa: E731
    found = np.asarray(phix.jit(lanes(back))(special, counts))
    assert found[:, :-1].tobytes() == special[:, :-1].tobytes() and not found[:, -1].any()


@pytest.mark.parametrize("around", [lanes, on_mesh])
def test_derivatives_of_all_orders(around: Any, rng: np.random.Generator) -> None:
    """A row that is sent counts with its cube, others not at all; in loops and branches, too."""
    x, counts = drawn(rng)
    arrives = np.arange(LOCAL) < counts.sum(1, keepdims=True)

    def sent(x: Any, c: Any) -> Any:
        there = global_scatter(x, c, "i", rows=15)[0]
        return phix.cond(phix.psum(c.sum(), "i") > 0, lambda: there**3, lambda: there)

    def loss(x: Any, turns: int = 2) -> Any:
        turn = lambda total, _: (total + around(sent)(x, counts).sum(), None)  # noqa: E731
        return phix.scan(turn, phix.zeros([], "float64"), length=turns)[0]

    first = 2 * 3 * x**2 * arrives[:, :, None]
    second = 2 * 6 * x * arrives[:, :, None]
    for made in (phix.grad(loss), phix.jit(phix.grad(loss))):
        np.testing.assert_allclose(made(x), first, rtol=1e-12)
    twice = phix.jit(phix.grad(lambda x: phix.grad(loss)(x).sum()))
    np.testing.assert_allclose(twice(x), second, rtol=1e-12)
    _, tangent = phix.jvp(loss, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(tangent, first.sum(), rtol=1e-12)


def test_a_batch_of_another_axis(rng: np.random.Generator) -> None:
    """Each of a batch with counts of its own."""
    several = [drawn(rng) for _ in range(4)]
    x, counts = (np.stack(v) for v in zip(*several))
    run = lanes(lambda x, c: global_scatter(x, c, "i", rows=7)[0])
    for f in (phix.vmap(run), phix.jit(phix.vmap(run))):
        for found, one in zip(f(x, counts), several):
            np.testing.assert_array_equal(found, expected(*one, 7))


def test_counts_that_do_not_fit(rng: np.random.Generator) -> None:
    """More rows than there are are not sent, and less than none is none."""
    x, counts = drawn(rng)
    x, more = x[:, :2], counts.copy()
    more[:, 0] += 3
    run = lanes(lambda x, c: global_scatter(x, c, "i", rows=20)[0])
    np.testing.assert_array_equal(run(x, more), expected(x, more, 20))
    huge = np.where(counts == counts.max(), 2**63 - 1, counts)
    for f in (run, phix.jit(run)):
        np.testing.assert_array_equal(f(x, huge), f(x, np.minimum(huge, 100)))
    negative = np.where(counts == 0, -2, counts)
    np.testing.assert_array_equal(run(x, negative), run(x, counts))


@pytest.mark.parametrize("send", [global_scatter, global_gather])
def test_what_is_refused(send: Any, rng: np.random.Generator) -> None:
    x, counts = drawn(rng)
    run = lanes(lambda x, c, rows=3: send(x, c, "i", rows=rows))
    with pytest.raises(ShapeError, match=f"{send.__name__}: .* of the 3 parts of 'i', as many for"):
        run(x, counts[:, :5])
    with pytest.raises(ShapeError, match="a number for each expert"):
        run(x, counts[:, None])
    with pytest.raises(ShapeError, match=r"x is \[rows, ...\]"):
        run(x[:, 0, 0], counts)
    with pytest.raises(DTypeError, match="local_count has numbers of rows, ints, found float64"):
        run(x, counts * 1.0)
    with pytest.raises(phix.errors.PhixError, match="rows must be"):
        lanes(lambda x, c: send(x, c, "i", rows=-1))(x, counts)
    with pytest.raises(TypeError, match="rows"):
        lanes(lambda x, c: send(x, c, "i"))(x, counts)
