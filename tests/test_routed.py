"""Rows sent to experts on other parts: lanes and meshes, loops, derivatives, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phix
from phix import ops
from phix.core.errors import DTypeError, ShapeError, TensorValueError
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
    run = around(lambda x, c: global_scatter(x, c, "i", rows=rows, drops=True))
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
    run = lanes(lambda x, c: global_scatter(x, c, "i", rows=7, drops=True)[0])
    for f in (phix.vmap(run), phix.jit(phix.vmap(run))):
        for found, one in zip(f(x, counts), several):
            np.testing.assert_array_equal(found, expected(*one, 7))


def test_counts_that_do_not_fit(rng: np.random.Generator) -> None:
    """More rows than there are are not sent, and less than none is none."""
    x, counts = drawn(rng)
    x, more = x[:, :2], counts.copy()
    more[:, 0] += 3
    run = lanes(lambda x, c: global_scatter(x, c, "i", rows=20, drops=True)[0])
    np.testing.assert_array_equal(run(x, more), expected(x, more, 20))
    huge = np.where(counts == counts.max(), 2**63 - 1, counts)
    for f in (run, phix.jit(run)):
        np.testing.assert_array_equal(f(x, huge), f(x, np.minimum(huge, 100)))
    negative = np.where(counts == 0, -2, counts)
    np.testing.assert_array_equal(run(x, negative), run(x, counts))


AROUND = {
    "lanes": lanes, "mesh": on_mesh, "compiled": lambda f: phix.jit(lanes(f)),
    "mesh, compiled": lambda f: phix.jit(on_mesh(f)),
    "with derivatives": lambda f: lambda x, c: phix.vjp(lambda x: lanes(f)(x, c), x)[0],
    "its gradient, compiled": lambda f: phix.jit(
        phix.grad(lambda x, c: (lanes(f)(x, c) ** 2).sum())),
    "its tangents": lambda f: lambda x, c: phix.jvp(lambda x: lanes(f)(x, c), (x,), (x,)),
    "a loop": lambda f: phix.jit(lambda x, c: phix.scan(
        lambda t, _: (t + lanes(f)(x, c).sum(), None), phix.zeros([], "float64"), length=2)[0]),
    "a batch": lambda f: lambda x, c: phix.vmap(lanes(f))(x[None], c[None]),
    "a checkpoint": lambda f: phix.grad(phix.checkpoint(lambda x, c: lanes(f)(x, c).sum())),
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
def test_rows_that_have_no_room_are_an_error(around: str, rng: np.random.Generator) -> None:
    """In every way to run it; with as much room as is asked for it runs."""
    x, counts = drawn(rng)
    most = int(counts.reshape(N, N, EXPERTS).sum((0, 2)).max())
    sends = lambda rows: lambda x, c: global_scatter(x, c, "i", rows=rows)[0]  # noqa: E731
    AROUND[around](sends(most))(x, counts)
    said = rf"global_scatter \(at .*test_routed.py:\d+\): {most} rows arrive at a part, and the "
    with pytest.raises(TensorValueError, match=said + f"result has {most - 1}; write rows={most}"):
        AROUND[around](sends(most - 1))(x, counts)
    more = counts.copy()
    more[1, 0] = LOCAL + 1
    with pytest.raises(TensorValueError, match=r"local_count counts \d+ rows, and x has 5"):
        AROUND[around](sends(50))(x, more)
    with pytest.raises(TensorValueError, match="local_count has -1, and no rows are less than"):
        AROUND[around](sends(50))(x, np.where(counts == counts.max(), -1, counts))


@pytest.mark.parametrize("around", ["lanes", "mesh, compiled", "its gradient, compiled"])
def test_rows_that_do_not_come_back_are_an_error(around: str, rng: np.random.Generator) -> None:
    x, counts = drawn(rng)
    most = int(counts.sum(1).max())

    def there_and_back(kept: int, rows: int) -> Any:
        def call(x: Any, c: Any) -> Any:
            there = global_scatter(x, c, "i", rows=15)[0]
            return global_gather(there[:kept], c, "i", rows=rows)

        return AROUND[around](call)(x, counts)

    there_and_back(15, most)
    with pytest.raises(TensorValueError, match=f"global_gather.*: {most} rows come back, and the"):
        there_and_back(15, most - 1)
    with pytest.raises(TensorValueError, match=r"global_gather.*: \d+ rows came to a part, and x"):
        there_and_back(1, most)


def test_the_ops_underneath(rng: np.random.Generator) -> None:
    """By themselves, as a port of the table to other hardware calls them."""
    x, counts = drawn(rng)

    def there_and_back(x: Any, c: Any) -> Any:
        there, came = ops.scatter_rows(x, c, "i", 15)
        return there, came, ops.gather_rows(there, c, "i", LOCAL)

    there, _, back = lanes(there_and_back)(x, counts)
    np.testing.assert_array_equal(there, expected(x, counts, 15))
    np.testing.assert_array_equal(
        back, x * (np.arange(LOCAL) < counts.sum(1, keepdims=True))[:, :, None]
    )


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


@pytest.mark.parametrize("around", [lanes, on_mesh])
def test_numbers_of_rows_that_are_not_known(around: Any, rng: np.random.Generator) -> None:
    """The rows that were sent, say: one program for all."""
    x, counts = drawn(rng)

    def there_and_back(x: Any, c: Any) -> Any:
        there, _ = global_scatter(x, c, "i", rows=N * x.shape[0])
        return global_gather(2.0 * there, c, "i", rows=x.shape[0])

    specs = [phix.spec([N, "n", 2], "float64"), phix.spec([N, N * EXPERTS], "int64")]
    run = phix.jit(around(there_and_back), input_spec=specs)
    slope = phix.jit(phix.grad(lambda *a: (run(*a) ** 2).sum()), input_spec=specs)
    for held in (LOCAL, LOCAL + 2):
        wider = np.concatenate([x, np.ones((N, held - LOCAL, 2))], 1)
        sent = np.where(np.arange(held) < counts.sum(1)[:, None], 1, 0)[..., None] * wider
        np.testing.assert_array_equal(run(wider, counts), 2 * sent)
        np.testing.assert_allclose(slope(wider, counts), 8 * sent)
    np.testing.assert_array_equal(run(x[:, :0], 0 * counts), x[:, :0])


def test_the_largest_unsigned_numbers(rng: np.random.Generator) -> None:
    """They are no negative ones: as many rows as there are go to the first expert, or an error."""
    x, _ = drawn(rng)
    counts = np.zeros((N, N * EXPERTS), np.uint64)
    counts[:, 0] = 2**64 - 1

    def run(drops: bool) -> Any:
        return lanes(lambda x, c: global_scatter(x, c, "i", rows=LOCAL, drops=drops))(x, counts)

    found, _ = run(True)
    np.testing.assert_array_equal(found, np.stack([x[0], 0 * x[1], 0 * x[2]]))
    with pytest.raises(TensorValueError, match=r"local_count counts \d+ rows, and x has 5"):
        run(False)


@pytest.mark.parametrize("jitted", [False, True])
def test_sizes_that_are_found_are_the_same_along_other_axes(jitted: bool) -> None:
    """They are those of sums over such an axis, say."""
    mesh = phix.parallel.mesh({"a": 2, "i": 2}, virtual=True)
    counts = np.array([[[1, 1], [1, 1]], [[2, 1], [2, 1]]])
    x = np.arange(1.0, 13.0).reshape(2, 2, 3)

    def run(x: Any, counts: Any) -> Any:
        own = counts[0, 0]
        came = ops.all_to_all(own, "i", 0, 0)
        there = ops.global_scatter(x[0, 0], own, came, ring_id=1)
        back = ops.global_gather(there, own, came, ring_id=1)
        return phix.psum(there, "a")[None], back[None, None]

    sent = phix.parallel.spmd(run, mesh, (("a", "i"),) * 2, ("i", ("a", "i")))
    there, back = (phix.jit(sent) if jitted else sent)(x, counts)
    wanted = [[1 + 7, 4 + 8, 10, 11], [2 + 9, 5 + 12, 0, 0]]
    np.testing.assert_array_equal(there, wanted)
    is_sent = np.arange(3) < counts.sum(-1)[..., None]
    np.testing.assert_array_equal(back, np.where(is_sent, x, 0))
